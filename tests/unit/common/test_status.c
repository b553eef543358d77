/* SPDX-License-Identifier: Apache-2.0 */
/* common/status.c: names, error texts that stay clean and bounded whatever goes in. */
#include "test.h"

TEST(test_names)
{
    assert_string_equal(ps_status_name(PS_OK), "OK");
    assert_string_equal(ps_status_name(PS_FAILED_PRECONDITION), "FAILED_PRECONDITION");
    assert_string_equal(ps_status_name(PS_UNAUTHENTICATED), "UNAUTHENTICATED");
    for (int i = 0; i <= 16; i++) {
        assert_string_not_equal(ps_status_name((ps_status)i), "INVALID_STATUS");
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(ps_status_name((ps_status)i), ps_status_name((ps_status)j));
        }
    }
    assert_string_equal(ps_status_name((ps_status)17), "INVALID_STATUS");
    assert_string_equal(ps_status_name((ps_status)-1), "INVALID_STATUS");
    assert_string_equal(psi_applied_name(PS_NOTHING_APPLIED), "nothing applied");
    assert_string_equal(psi_applied_name(PS_MAYBE_PARTLY_APPLIED), "may be partly applied");
    assert_string_equal(psi_applied_name(PS_OUTCOME_UNKNOWN), "outcome unknown");
    assert_string_equal(psi_applied_name((ps_applied)9), "outcome unknown");
}

TEST(test_fail_fills_detail)
{
    struct psi_err err = {.applied = PS_OUTCOME_UNKNOWN};
    assert_int_equal(psi_fail(&err, PS_NOT_FOUND, "variable '%s': absent", "w"), PS_NOT_FOUND);
    assert_int_equal(err.code, PS_NOT_FOUND);
    assert_int_equal(err.applied, PS_NOTHING_APPLIED);
    assert_string_equal(err.text, "variable 'w': absent");
    assert_int_equal(psi_fail(NULL, PS_ABORTED, "nobody listens"), PS_ABORTED);
}

TEST(test_reasons)
{
    struct psi_err err = {0};
    assert_int_equal(psi_fail_as(&err, PS_ABORTED, PS_REASON_LOST, "'%s' is gone", "w"), PS_ABORTED);
    assert_true(err.code == PS_ABORTED && err.reason == PS_REASON_LOST && err.applied == PS_NOTHING_APPLIED);
    assert_string_equal(err.text, "'w' is gone");
    psi_err_prefix(&err, "push");
    assert_int_equal(psi_reason(err.reason, err.code), PS_REASON_LOST);
    err.unreached = true; /* what is in memory before it counts for nothing */
    PSI_IGNORE(psi_fail(&err, PS_UNAVAILABLE, "no more is known"));
    assert_false(err.unreached);
    assert_int_equal(psi_reason(err.reason, err.code), PS_UNAVAILABLE); /* what is not said is the status */
    assert_int_equal(psi_fail_as(NULL, PS_ABORTED, PS_REASON_LOST, "nobody listens"), PS_ABORTED);
    assert_int_equal(psi_reason(PS_REASON_NONE, PS_OK), PS_REASON_NONE);
    assert_int_equal(psi_reason(PS_REASON_LOST, PS_OK), PS_REASON_NONE);
    assert_int_equal(psi_reason((ps_reason)9999, PS_ABORTED), 9999); /* of a newer peer */
    static const struct {
        const char *name, *text;
        ps_reason number;
    } all[] = {
#define ROW(name, number, text) {#name, text, PS_REASON_##name},
        PS_REASONS(ROW)
#undef ROW
    };
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        assert_string_equal(ps_reason_name(all[i].number), all[i].name);
        assert_string_equal(ps_reason_text(all[i].number), all[i].text);
        assert_in_range(all[i].number, 32, UINT16_MAX); /* below are the statuses; more does not fit the wire */
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(all[i].number, all[j].number);
        }
    }
    assert_string_equal(ps_reason_name(PS_REASON_NONE), "NONE");
    assert_string_equal(ps_reason_name((ps_reason)PS_UNAVAILABLE), "UNAVAILABLE");
    assert_string_equal(ps_reason_name((ps_reason)17), "UNKNOWN_REASON");
    assert_string_equal(ps_reason_name((ps_reason)9999), "UNKNOWN_REASON");
    assert_string_not_equal(ps_reason_text((ps_reason)9999), "");
}

TEST(test_prefix)
{
    struct psi_err err = {0};
    psi_err_prefix(&err, "ignored");
    assert_string_equal(err.text, "");
    psi_err_prefix(NULL, "ignored");
    PSI_IGNORE(psi_fail(&err, PS_UNAVAILABLE, "refused"));
    err.applied = PS_OUTCOME_UNKNOWN;
    psi_err_prefix(&err, "/job:%s/task:%d", "ps", 1);
    psi_err_prefix(&err, "push");
    assert_string_equal(err.text, "push: /job:ps/task:1: refused");
    assert_int_equal(err.code, PS_UNAVAILABLE);
    assert_int_equal(err.applied, PS_OUTCOME_UNKNOWN);
}

TEST(test_long_texts_are_cut)
{
    char in[PSI_ERR_TEXT_MAX + 8];
    for (size_t len = PSI_ERR_TEXT_MAX - 2; len <= PSI_ERR_TEXT_MAX + 1; len++) {
        struct psi_err err = {0};
        memset(in, 'x', len);
        in[len] = '\0';
        PSI_IGNORE(psi_fail(&err, PS_INTERNAL, "%s", in));
        size_t expected = len < PSI_ERR_TEXT_MAX ? len : PSI_ERR_TEXT_MAX - 1;
        assert_int_equal(strlen(err.text), expected);
        psi_err_prefix(&err, "ab");
        assert_int_equal(strlen(err.text), PSI_ERR_TEXT_MAX - 1);
        assert_memory_equal(err.text, "ab: xxx", 7);
    }
}

TEST(test_texts_are_clean)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"a\nb\rc\td", "a b c d"},
        {"\x01\x1f\x7f", "   "},
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
        {"\xe2\x82\xac\xf0\x9f\x98\x80", "\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\xff\xfe", "??"},
        {"\xc0\xaf", "??"},           /* overlong '/' */
        {"\xed\xa0\x80", "???"},      /* surrogate */
        {"\xf4\x90\x80\x80", "????"}, /* over U+10FFFF */
        {"\xe0\x80\x80x", "???x"},    /* overlong */
        {"a\xc3", "a?"},              /* half a character, not cut by us */
        {"\xe2\x82zz", "??zz"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_err err = {0};
        PSI_IGNORE(psi_fail(&err, PS_UNKNOWN, "%s", rows[i].in));
        assert_string_equal(err.text, rows[i].out);
    }
}

TEST(test_cut_does_not_split_a_character)
{
    static const char *const characters[] = {"\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    char in[PSI_ERR_TEXT_MAX + 16];
    for (size_t c = 0; c < ARRAY_COUNT(characters); c++) {
        size_t bytes = strlen(characters[c]);
        for (size_t before = PSI_ERR_TEXT_MAX - 1 - bytes; before < PSI_ERR_TEXT_MAX; before++) {
            struct psi_err err = {0};
            memset(in, 'x', before);
            memcpy(in + before, characters[c], bytes + 1);
            PSI_IGNORE(psi_fail(&err, PS_UNKNOWN, "%s", in));
            bool fits = before + bytes <= PSI_ERR_TEXT_MAX - 1;
            assert_int_equal(strlen(err.text), fits ? before + bytes : before);
            assert_null(strchr(err.text, '?'));
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* common/json.c: the members of an object, one after the other, and what no object is. */
#include "test.h"
#include "common/json.h"
#include "common/mem.h"

static struct psi_err err;

/* ctx: a text, to which "KEY=VALUE;" is added. */
static ps_status note(void *ctx, const char *key, const char *value, size_t bytes, struct psi_err *e)
{
    char *notes = ctx;
    (void)sprintf(notes + strlen(notes), "%s=%.*s;", key, (int)bytes, value);
    return strcmp(key, "stop") == 0 ? psi_fail(e, PS_ABORTED, "stopped") : PS_OK;
}

static ps_status each(const char *text, char notes[256])
{
    notes[0] = '\0';
    return psi_json_each("it", text, strlen(text), note, notes, &err);
}

TEST(test_members)
{
    static const struct {
        const char *text, *members;
    } table[] = {
        {"{}", ""},
        {" \t\r\n{ \n} ", ""},
        {"{\"a\":1}", "a=1;"},
        {" { \"a\" : 1 , \"b\" : [ 2 , {\"c\":3} ] } ", "a=1;b=[ 2 , {\"c\":3} ];"},
        {"{\"a\":\"}],{\\\"\",\"b\":\"\\\\\"}", "a=\"}],{\\\"\";b=\"\\\\\";"}, /* brackets and quotes in strings */
        {"{\"a\":1,\"a\":2}", "a=1;a=2;"},
        {"{\"\":{}}", "={};"},
        {"{\"\\u00e9\\\"\\\\\":0,\"\xc3\xa9\":0}", "\xc3\xa9\"\\=0;\xc3\xa9=0;"}, /* escaped, and as it is */
        {"{\"a\\u0000b\":0}", "a\\u0000b=0;"},
        {"{\"a\":nonsense and more,\"b\":[}}", "a=nonsense and more;b=[};"}, /* nobody looks into them */
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char notes[256];
        assert_ok(each(table[i].text, notes), &err);
        assert_string_equal(notes, table[i].members);
    }
}

TEST(test_no_object)
{
    static const struct {
        const char *text, *says;
    } table[] = {
        {"", "it: line 1, column 1: '{' is expected"},
        {"[]", "'{' is expected"},
        {"{", "a key in \" is expected"},
        {"{a:1}", "a key in \" is expected"},
        {"{\"a:1}", "a key in \" is expected"},
        {"{\"a\"}", "':' is expected"},
        {"{\"a\":}", "a value is expected"},
        {"{\"a\": ,\"b\":1}", "a value is expected"},
        {"{\"a\":1", "it: line 1, column 7: the text ends in the middle of a value"},
        {"{\"a\":[1,{}", "the text ends in the middle of a value"},
        {"{\"a\":\"\\\"}", "the text ends in the middle of a value"},
        {"{\"a\":1]", "',' or '}' is expected"},
        {"{\"a\":1,}", "a key in \" is expected"},
        {"{\"a\":1}\n x", "it: line 2, column 2: end of text is expected"},
        {"{\"\xff\":1}", "unable to decode"},
        {"{\"\\x\":1}", "invalid escape"},
        {"{\"a\\ud800\":1}", "it: line 1, column 3: "},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char notes[256];
        assert_fails(each(table[i].text, notes), PS_INVALID_ARGUMENT, &err, table[i].says);
    }
}

TEST(test_a_member_ends_it)
{
    char notes[256];
    assert_fails(each("{\"a\":1,\"stop\":2,\"b\":3}", notes), PS_ABORTED, &err, "stopped");
    assert_string_equal(notes, "a=1;stop=2;");
}

TEST(test_memory)
{
    int failures = 0;
    for (int64_t n = 0;; n++) {
        char notes[256];
        psi_mem_fail_after(n);
        ps_status st = each("{\"a\":1}", notes);
        bool fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        if (!fired) {
            assert_int_equal(st, PS_OK);
            break;
        }
        assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
        failures++;
    }
    assert_true(failures >= 1);
}

TEST(test_value)
{
    json_t *value = NULL;
    assert_ok(psi_json_value("v", "[1,2]", 5, 2, &value, &err), &err);
    assert_int_equal(json_array_size(value), 2);
    json_decref(value);
    assert_fails(psi_json_value("v", "[1,2]", 5, 1, &value, &err), PS_INVALID_ARGUMENT, &err, "v: more than 1 commas");
    assert_fails(psi_json_value("v", "{\"a\":1,\"a\":1}", 13, 9, &value, &err), PS_INVALID_ARGUMENT, &err, "v: duplicate");
    assert_ok(psi_json_value("v", "\"x\"", 3, 0, &value, &err), &err);
    assert_string_equal(json_string_value(value), "x");
    json_decref(value);
}

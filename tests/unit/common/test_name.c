/* SPDX-License-Identifier: Apache-2.0 */
/* common/name.c: the three grammars, every byte, lengths at their limits, safe quoting. */
#include "test.h"

#include "common/limits.h"
#include "common/name.h"
#include "common/utf8.h"

static const struct {
    const char *name;
    const char *fault; /* NULL: good */
} paths[] = {
    {"w", NULL},
    {"layer_1/weights", NULL},
    {"a.b-c_D/0", NULL},
    {"...", NULL},
    {"a/..b", NULL},
    {".hidden", NULL},
    {"a/b/c/d/e", NULL},
    {"", "is empty"},
    {"/a", "begins with '/'"},
    {"a/", "ends with '/'"},
    {"/", "begins with '/'"},
    {"a//b", "empty component"},
    {".", "'.' or '..'"},
    {"..", "'.' or '..'"},
    {"a/./b", "'.' or '..'"},
    {"a/..", "'.' or '..'"},
    {"../a", "'.' or '..'"},
    {"a b", "byte 1 is ' '"},
    {"a\nb", "byte 1 is '\\x0a'"},
    {"w:0", "byte 1 is ':'"},
    {"gr\xc3\xbcn", "byte 2 is '\\xc3'"},
    {"a\\b", "byte 1 is '\\x5c'"},
};

TEST(test_path_like)
{
    struct psi_err err;
    for (size_t i = 0; i < ARRAY_COUNT(paths); i++) {
        const char *name = paths[i].name;
        if (paths[i].fault == NULL) {
            assert_ok(psi_variable_name_check(name, strlen(name), &err), &err);
            assert_ok(psi_container_name_check(name, strlen(name), &err), &err);
            assert_ok(psi_value_name_check(name, strlen(name), &err), &err);
        } else {
            assert_fails(psi_variable_name_check(name, strlen(name), &err), PS_INVALID_ARGUMENT, &err, paths[i].fault);
            assert_non_null(strstr(err.text, "variable name '"));
            assert_non_null(strstr(err.text, "allowed are letters, digits and . _ - /"));
            assert_fails(psi_container_name_check(name, strlen(name), &err), PS_INVALID_ARGUMENT, &err, paths[i].fault);
            assert_non_null(strstr(err.text, "container name '"));
            assert_fails(psi_value_name_check(name, strlen(name), &err), PS_INVALID_ARGUMENT, &err, paths[i].fault);
            assert_non_null(strstr(err.text, "name of a value '"));
        }
    }
    assert_fails(psi_variable_name_check("a\0b", 3, &err), PS_INVALID_ARGUMENT, &err, "'a\\x00b': byte 1 is '\\x00'");
    assert_ok(psi_variable_name_check("abX", 2, &err), &err); /* len counts, not a NUL */
    const char *taken = "__metadata__";                       /* a file of values with it is no safetensors file */
    assert_fails(psi_variable_name_check(taken, strlen(taken), &err), PS_INVALID_ARGUMENT, &err, "no tensor of a safetensors");
    assert_ok(psi_variable_name_check(taken, strlen(taken) - 1, &err), &err);
    assert_ok(psi_variable_name_check("a/__metadata__", 14, &err), &err);
    assert_ok(psi_container_name_check(taken, strlen(taken), &err), &err);
}

TEST(test_numbers)
{
    static const struct {
        const char *text;
        uint64_t max, want;
        bool good;
    } cases[] = {
        {"0", 0, 0, true},
        {"007", 7, 7, true},
        {"8", 7, 0, false},
        {"18446744073709551615", UINT64_MAX, UINT64_MAX, true},
        {"18446744073709551616", UINT64_MAX, 0, false},
        {"99999999999999999999999", UINT64_MAX, 0, false},
        {"", 7, 0, false},
        {"-1", UINT64_MAX, 0, false},
        {"+1", 7, 0, false},
        {" 1", 7, 0, false},
        {"1\n", 7, 0, false},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        uint64_t value = 42;
        assert_int_equal(psi_number_read(cases[i].text, strlen(cases[i].text), cases[i].max, &value), cases[i].good);
        assert_true(value == (cases[i].good ? cases[i].want : 42));
    }
}

TEST(test_every_byte)
{
    struct psi_err err;
    for (int c = 0; c < 256; c++) {
        char name[3] = {'a', (char)c, 'b'};
        bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool path = alnum || c == '.' || c == '_' || c == '-' || c == '/';
        assert_int_equal(psi_variable_name_check(name, 3, &err), path ? PS_OK : PS_INVALID_ARGUMENT);
        assert_int_equal(psi_job_name_check(name, 3, &err), alnum || c == '_' ? PS_OK : PS_INVALID_ARGUMENT);
        assert_int_equal(psi_cluster_name_check(name, 3, &err), path && c != '/' ? PS_OK : PS_INVALID_ARGUMENT);
    }
}

TEST(test_lengths)
{
    struct psi_err err;
    char name[300];
    memset(name, 'n', sizeof(name));
    const struct {
        ps_status (*check)(const char *, size_t, struct psi_err *);
        size_t max;
    } rows[] = {{psi_variable_name_check, PS_NAME_BYTES_MAX},
                {psi_container_name_check, PS_CONTAINER_BYTES_MAX},
                {psi_value_name_check, PS_CONTAINER_BYTES_MAX},
                {psi_job_name_check, PS_JOB_BYTES_MAX},
                {psi_cluster_name_check, PS_JOB_BYTES_MAX}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_ok(rows[i].check(name, rows[i].max - 1, &err), &err);
        assert_ok(rows[i].check(name, rows[i].max, &err), &err);
        assert_fails(rows[i].check(name, rows[i].max + 1, &err), PS_INVALID_ARGUMENT, &err, "'nnn");
        assert_fails(rows[i].check(name, 0, &err), PS_INVALID_ARGUMENT, &err, "''");
    }
    assert_fails(psi_variable_name_check(name, 256, &err), PS_INVALID_ARGUMENT, &err, "has 256 bytes, the most is 255");
}

TEST(test_job_names)
{
    struct psi_err err;
    static const char *const good[] = {"ps", "worker", "Chief_2", "l"};
    static const char *const bad[] = {"", "1ps", "_ps", "p-s", "p.s", "p/s", "ps ", "job:ps"};
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        assert_ok(psi_job_name_check(good[i], strlen(good[i]), &err), &err);
    }
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_fails(psi_job_name_check(bad[i], strlen(bad[i]), &err), PS_INVALID_ARGUMENT, &err, "allowed are a letter");
    }
}

TEST(test_quote)
{
    char buf[64];
    assert_string_equal(psi_quote(buf, sizeof(buf), "abc", 3), "'abc'");
    assert_string_equal(psi_quote(buf, sizeof(buf), "", 0), "''");
    assert_string_equal(psi_quote(buf, sizeof(buf), "a\n\0'\\\xff\x7f", 7), "'a\\x0a\\x00\\x27\\x5c\\xff\\x7f'");
    /* exactly fitting, and one byte less */
    assert_string_equal(psi_quote(buf, 9, "abcdef", 6), "'abcdef'");
    assert_string_equal(psi_quote(buf, 9, "abcdefg", 7), "'abc'...");
    for (size_t n = 8; n < sizeof(buf); n++) {
        char in[64];
        memset(in, '\x01', sizeof(in));
        memset(buf, '#', sizeof(buf));
        psi_quote(buf, n, in, sizeof(in));
        assert_true(strlen(buf) < n);
        assert_string_equal(buf + strlen(buf) - 4, "'...");
        assert_true(n == sizeof(buf) || buf[n] == '#');
    }
}

TEST(test_shorten)
{
    static const char long_one[] = "/a/path/that/is/long/model.safetensors";
    char buf[64];
    assert_string_equal(psi_utf8_shorten(long_one, buf, sizeof(long_one)), long_one);
    assert_string_equal(psi_utf8_shorten(long_one, buf, 24), "/a/path/th...afetensors");
    assert_string_equal(psi_utf8_shorten("", buf, 16), "");
    for (size_t n = 16; n < 33; n++) { /* 16 characters of two bytes: none is cut */
        static const char wide[] = "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3"
                                   "\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9";
        memset(buf, '#', sizeof(buf));
        psi_utf8_shorten(wide, buf, n);
        assert_true(strlen(buf) < n && strlen(buf) + 3 >= n && buf[n] == '#');
        assert_true(psi_utf8_is(buf, strlen(buf)) && strstr(buf, "...") != NULL);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* psctl get and set of string variables: bytes of any kind come out, texts and JSON go in, what is wrong changes nothing. */
#include "api_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_MAX = 16384, ARGS_MAX = 8 };
static char out[OUT_MAX];

/* psctl with these arguments, NULL at the end; its exit status, what it says is in out. */
static int psctl(const char *verb, const char *name, const char *a, const char *b)
{
    char program[512];
    const char *words[] = {test_build_path("bin/psctl", program, sizeof(program)), verb, name, a, b};
    char *argv[ARGS_MAX] = {NULL};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && words[i] != NULL; i++) {
        argv[i] = strdup(words[i]);
        assert_non_null(argv[i]);
    }
    int code = test_run(argv, cluster.address[0], out, sizeof(out));
    for (size_t i = 0; argv[i] != NULL; i++) {
        free(argv[i]);
    }
    return code;
}

static void says(const char *text)
{
    if (strstr(out, text) == NULL) {
        fail_msg("'%s' is not in: %s", text, out);
    }
}

static void test_texts_come_out(void **state)
{
    (void)state;
    static const char *const texts[] = {"one", "", "\xc3\xa9\n\"", "\xff\0"};
    static const size_t lengths[] = {3, 0, 4, 2};
    ps_session *s = open_session(20000);
    ps_variable *v = get(s, "out", PS_STRING, PS_SHAPE(2, 2), NULL);
    assert_int_equal(psctl("get", "out", NULL, NULL), 1);
    says("out");
    assert_int_equal(ps_variable_assign_strings(v, texts, lengths, 4), PS_OK);
    assert_int_equal(psctl("get", "out", NULL, NULL), 0);
    says("string (2, 2)");
    says("\n\"one\" \"\"\n\"\xc3\xa9\\n\\\"\" \"\\xff\\u0000\"\n");
    assert_int_equal(psctl("get", "out", "--json", NULL), 0);
    says("\"values\":[\"one\",\"\",\"\xc3\xa9\\n\\\"\",{\"b64\":\"/wA=\"}]");
    assert_int_equal(psctl("get", "out", "--npy", "-"), 1);
    says(".npy has no type");
    assert_int_equal(ps_session_close(s), 0);
}

/* Elements of v as one text, with | behind each. */
static const char *read_all(ps_variable *v, size_t count)
{
    static char text[OUT_MAX];
    char data[4096];
    size_t offsets[16];
    size_t len = 0;
    assert_int_equal(ps_variable_read_strings(v, data, sizeof(data), offsets, count, NULL), PS_OK);
    for (size_t i = 0; i < count; i++) {
        memcpy(text + len, data + offsets[i], offsets[i + 1] - offsets[i]);
        len += offsets[i + 1] - offsets[i];
        text[len++] = '|';
    }
    text[len] = '\0';
    return text;
}

static void test_texts_go_in(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_variable *four = get(s, "four", PS_STRING, PS_SHAPE(2, 2), NULL);
    ps_variable *one = get(s, "one", PS_STRING, PS_SCALAR, NULL);
    assert_int_equal(psctl("set", "four", "[[\"a\", \"\"], [\"\\u00e9 b\", \",]\"]]", NULL), 0);
    says("uninitialised -> version");
    assert_string_equal(read_all(four, 4), "a||\xc3\xa9 b|,]|");
    assert_int_equal(psctl("set", "four", "[\"1\", \"2\", \"3\", \"4\"]", NULL), 0);
    assert_string_equal(read_all(four, 4), "1|2|3|4|");
    assert_int_equal(psctl("set", "four", "[plain", "--fill"), 0);
    assert_string_equal(read_all(four, 4), "[plain|[plain|[plain|[plain|");
    uint64_t version = ps_variable_version(four, NULL);
    assert_int_equal(psctl("set", "four", "plain", NULL), 1);
    says("--fill");
    assert_int_equal(psctl("set", "four", "[\"a\", \"b\"]", NULL), 1);
    says("element [2]: the list ends here; the shape wants 4");
    assert_int_equal(psctl("set", "four", "[a, b, c, d]", NULL), 1);
    says("element [0]: a text in double quotes must be here");
    assert_int_equal(psctl("set", "four", "--npy", "four.npy"), 1);
    says(".npy has no type");
    assert_string_equal(read_all(four, 4), "[plain|[plain|[plain|[plain|");
    assert_true(ps_variable_version(four, NULL) == version);
    assert_int_equal(psctl("set", "one", "\"as [it] is\"", NULL), 0);
    assert_string_equal(read_all(one, 1), "\"as [it] is\"|");
    assert_int_equal(psctl("set", "one", "", NULL), 0);
    assert_string_equal(read_all(one, 1), "|");
    assert_int_equal(ps_session_close(s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_come_out),
        cmocka_unit_test(test_texts_go_in),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

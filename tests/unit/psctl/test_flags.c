/* SPDX-License-Identifier: Apache-2.0 */
/* worker/psctl/flags.c: forms of flags, negative numbers, what is refused, what was meant; every row of the tables is whole. */
#include "test.h"
#include "../../../worker/psctl/psctl.h"

#include "common/near.h"
#include "common/utf8.h"

enum { ARGS_MAX = 12 };

struct line {
    struct psctl c;
    char text[512]; /* of the arguments */
    char *argv[ARGS_MAX + 1];
    int argc;
};

/* words are separated by blanks */
static enum psctl_exit parse(struct line *l, const char *words)
{
    memset(l, 0, sizeof(*l));
    (void)snprintf(l->text, sizeof(l->text), "psctl %s", words);
    for (char *word = strtok(l->text, " "); word != NULL; word = strtok(NULL, " ")) {
        assert_true(l->argc < ARGS_MAX);
        l->argv[l->argc++] = word;
    }
    l->c.verbs = psctl_verbs;
    return psctl_parse(&l->c, l->argc, l->argv);
}

TEST(test_forms)
{
    struct line l;
    assert_int_equal(parse(&l, "-t a:1 get w --json"), PSCTL_OK);
    assert_string_equal(l.c.target, "a:1");
    assert_string_equal(l.c.verb->name, "get");
    assert_int_equal(l.c.argc, 1);
    assert_string_equal(l.c.argv[0], "w");
    assert_true(l.c.json && l.c.watch_ms == 0);
    assert_int_equal(parse(&l, "get --npy=- -ta:1 w --timeout 500ms --container c"), PSCTL_OK);
    assert_string_equal(l.c.target, "a:1");
    assert_string_equal(l.c.npy, "-");
    assert_string_equal(l.c.container, "c");
    assert_int_equal(l.c.timeout_ms, 500);
    assert_int_equal(parse(&l, "get -- --json"), PSCTL_OK);
    assert_string_equal(l.c.argv[0], "--json");
    assert_false(l.c.json);
    assert_int_equal(parse(&l, "shutdown -y"), PSCTL_OK);
    assert_true(l.c.yes);
}

TEST(test_watch)
{
    struct line l;
    assert_int_equal(parse(&l, "status --watch"), PSCTL_OK);
    assert_int_equal(l.c.watch_ms, 2000);
    assert_int_equal(parse(&l, "status --watch 0.5"), PSCTL_OK);
    assert_int_equal(l.c.watch_ms, 500);
    assert_int_equal(parse(&l, "--watch=10 status"), PSCTL_OK);
    assert_int_equal(l.c.watch_ms, 10000);
    assert_int_equal(parse(&l, "--watch status"), PSCTL_OK);
    assert_string_equal(l.c.verb->name, "status");
    assert_int_equal(parse(&l, "status --watch --json"), PSCTL_OK);
    assert_true(l.c.json);
    assert_int_equal(parse(&l, "status --watch=never"), PSCTL_USAGE);
    assert_int_equal(parse(&l, "status --watch="), PSCTL_USAGE);
    assert_int_equal(parse(&l, "get w --watch"), PSCTL_USAGE);
}

TEST(test_negative_numbers)
{
    static const char *const numbers[] = {"-1", "-.5", "-1e-3", "-inf", "-Infinity", "-nan"};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct line l;
        char words[64];
        (void)snprintf(words, sizeof(words), "set x %s --fill", numbers[i]);
        assert_int_equal(parse(&l, words), PSCTL_OK);
        assert_string_equal(l.c.argv[1], numbers[i]);
        assert_true(l.c.fill);
    }
}

TEST(test_refused)
{
    static const char *const lines[] = {
        "",
        "--json",
        "frobnicate",
        "status x y",
        "status --all",
        "get",
        "get a b",
        "status --jso",
        "-x",
        "get w --npy",
        "get --npy=",
        "--json=yes x",
        "--timeout 0 ping",
        "-t",
        "ping --yes",
        "vars --fill",
        "set -- a b c",
        "--timeout=86401 ping",
        "--timeout 5x ping",
        "--timeout nan ping",
        "status -jx",
        "completion",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct line l;
        if (parse(&l, lines[i]) != PSCTL_USAGE) {
            fail_msg("'%s' is accepted", lines[i]);
        }
    }
}

TEST(test_help_wins)
{
    struct line l;
    assert_int_equal(parse(&l, "--help"), PSCTL_OK);
    assert_true(l.c.help && l.c.verb == NULL);
    assert_int_equal(parse(&l, "get --help"), PSCTL_OK); /* without its NAME */
    assert_string_equal(l.c.verb->name, "get");
    assert_int_equal(parse(&l, "--version"), PSCTL_OK);
    assert_true(l.c.version);
}

TEST(test_nearest)
{
    static const char *const names[] = {"status", "vars", "get", "set", "shutdown", "containers"};
    static const struct {
        const char *text, *near;
    } rows[] = {
        {"stauts", "status"}, {"stat", "status"}, {"var", "vars"}, {"shutdwn", "shutdown"}, {"container", "containers"},
        {"sset", "set"},      {"gte", "get"},     {"x", NULL},     {"frobnicate", NULL},    {"", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char near[32] = "";
        for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
            psctl_nearer(rows[i].text, names[k], near, sizeof(near));
        }
        if (strcmp(near, rows[i].near != NULL ? rows[i].near : "") != 0) {
            fail_msg("'%s' -> '%s'", rows[i].text, near);
        }
    }
    char text[200];
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(psi_near(text, names[0]), SIZE_MAX);
    assert_int_equal(psi_near("psd-hosts", "psd_hosts"), 0);
}

TEST(test_tables)
{
    for (size_t i = 0; psctl_verbs[i] != NULL; i++) {
        const struct psctl_verb *v = psctl_verbs[i];
        assert_true(v->arguments != NULL && v->summary != NULL && v->words != NULL);
        assert_true((v->run != NULL) != (v->show != NULL));
        assert_true((v->flags & PSCTL_FLAG(WATCH)) == 0 || v->show != NULL);
        assert_true(v->args_min <= v->args_max && (v->flags & PSCTL_FLAGS_COMMON) == 0);
        assert_true(v->help != NULL && v->help[strlen(v->help) - 1] == '\n');
        for (size_t before = 0; before < i; before++) {
            assert_string_not_equal(v->name, psctl_verbs[before]->name);
        }
    }
    for (int i = 0; i < PSCTL_FLAG_COUNT; i++) {
        assert_true(psctl_flags[i].name != NULL && psctl_flags[i].help != NULL);
        assert_true((psctl_flags[i].type == PSI_OPTION_BOOL) == (psctl_flags[i].metavar == NULL));
    }
}

TEST(test_printable)
{
    static const struct {
        const char *text, *shown;
    } rows[] = {
        {"plain", "plain"},
        {"\033[2Jred", "?[2Jred"},
        {"tab\tnewline\n\x7f", "tab?newline??"},
        {"\xc3\xa9 \xf0\x9f\x98\x80", "\xc3\xa9 \xf0\x9f\x98\x80"},
        {"\xc2\x9b"
         "31m",
         "??31m"},                                   /* CSI of the C1 set */
        {"\xff\xc3", "??"},                          /* no UTF-8; cut */
        {"\xc0\xaf\xe0\x80\xaf", "?????"},           /* overlong */
        {"\xed\xa0\x80\xf4\x90\x80\x80", "???????"}, /* a surrogate; above U+10FFFF */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[32];
        (void)snprintf(text, sizeof(text), "%s", rows[i].text);
        psi_utf8_printable(text);
        assert_string_equal(text, rows[i].shown);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a server inside a program that has no rows of its own: psctl config shows and changes them; and of one without any.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon.h"

#include <psd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_MAX = 16384, ARGS_MAX = 8 };
static char out[OUT_MAX];

static psd_server *start(const psd_server_options *options)
{
    char error[512] = "";
    psd_server *server = NULL;
    psd_server_options o = *options;
    o.listen = "127.0.0.1:0";
    o.key_file = getenv("PSD_KEY_FILE"); /* make check TRANSPORT=tls */
    assert_int_equal(psd_server_start(&o, &server, error, sizeof(error)), PS_OK);
    return server;
}

/* psctl config with these arguments; its exit status, what it says is in out. */
static int config(psd_server *server, const char *a, const char *b, const char *c)
{
    char program[512];
    const char *words[] = {test_build_path("bin/psctl", program, sizeof(program)), "config", a, b, c};
    char *argv[ARGS_MAX] = {NULL};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && words[i] != NULL; i++) {
        argv[i] = strdup(words[i]);
        assert_non_null(argv[i]);
    }
    int code = test_run(argv, psd_server_target(server), out, sizeof(out));
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

static void test_rows_of_the_library(void **state)
{
    static const struct {
        const char *name, *before, *value, *after;
    } rows[] = {
        {"log_level", "warn", "debug", "debug"}, {"refuse_nonfinite", "true", "off", "false"},
        {"sessions_max", "4095", "17", "17"},    {"memory_budget", "1GiB", "64M", "64MiB"},
        {"session_keep", "90s", "1h", "1h"},     {"drain", "2.5s", "0", "0ms"},
        {"log_level", "debug", "off", "off"},    {"memory_budget", "64MiB", "0", "0"},
        {"session_keep", "1h", "1s", "1s"},      {"drain", "0ms", "24h", "24h"},
        {"recover", "model=cut", "cut", "cut"},
    };
    char text[128];
    (void)state;
    psd_server_options o;
    psd_server_options_init(&o);
    o.log_level = 2;
    o.sessions_max = 4095;
    o.memory_budget_bytes = 1 << 30;
    o.session_keep_ms = 90000;
    o.drain_ms = 2500;
    o.recover = (psd_text){"model=cut"};
    psd_server *server = start(&o);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(config(server, "set", rows[i].name, rows[i].value), 0);
        (void)snprintf(text, sizeof(text), "/job:ps/task:0: %s %s -> %s\n", rows[i].name, rows[i].before, rows[i].after);
        assert_string_equal(out, text);
    }
    assert_int_equal(config(server, NULL, NULL, NULL), 0);
    says("sessions_max                 17");
    says("4096     yes   Sessions per task.");
    assert_null(strstr(out, "lease"));
    assert_int_equal(config(server, "get", "checkpoint_dir", NULL), 0);
    says("checkpoint_dir  \"\"     \"\"       no ");
    assert_int_equal(config(server, "set", "checkpoint_dir", "/tmp"), 1);
    says("'checkpoint_dir' cannot change while it runs");
    assert_int_equal(config(server, "set", "sessions_max", "0"), 1);
    says("'0' is not allowed; allowed: 1 to 4096; nothing was changed");
    assert_int_equal(config(server, "set", "sessions_max", "4097"), 1);
    assert_int_equal(config(server, "set", "lease", "1s"), 1);
    says("/job:ps/task:0 has no setting 'lease'");
    /* what the program sets itself is seen too, also where a flag of psd could not say it */
    assert_int_equal(psd_server_set(server, "sessions_max", 100000, NULL, 0), PS_OK);
    do {
        assert_int_equal(config(server, "get", "sessions_max", NULL), 0);
    } while (strstr(out, "100000") == NULL); /* soon */
    psd_server_free(server);
}

static bool no_row(void *ctx, uint32_t i, const char **name, const char **value, const char **default_value, const char **help,
                   bool *reloadable)
{
    (void)ctx;
    (void)i;
    (void)name;
    (void)value;
    (void)default_value;
    (void)help;
    (void)reloadable;
    return false;
}

static void test_no_rows(void **state)
{
    static const char none[] = "psctl: /job:ps/task:0 has no settings that can be seen or changed: its program is not psd\n";
    (void)state;
    psd_server_options o;
    psd_server_options_init(&o);
    o.config_row = no_row;
    psd_server *server = start(&o);
    assert_int_equal(config(server, NULL, NULL, NULL), 0);
    assert_string_equal(out, none);
    assert_int_equal(config(server, "get", NULL, NULL), 0);
    assert_string_equal(out, none);
    assert_int_equal(config(server, "--json", NULL, NULL), 0);
    says("{\"tasks\":[{\"name\":\"/job:ps/task:0\",\"settings\":[]}],\"down\":[]}\n");
    assert_int_equal(config(server, "get", "drain", NULL), 1);
    assert_string_equal(out, none);
    assert_int_equal(config(server, "set", "drain", "1s"), 1);
    assert_string_equal(out, none);
    psd_server_free(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_the_library),
        cmocka_unit_test(test_no_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* psd/daemon/live.c: what `psctl config set` does to one task of the daemon, and what `psctl config` says then. */
#include "test.h"

#include "psd/daemon/live.h"

struct one {
    struct psd_settings *settings;
    struct psd_live live;
    psd_server *server;
    char error[512];
};

static void start(struct one *o)
{
    char program[] = "psd", listen[] = "--listen=127.0.0.1:0", tasks[] = "--task_index=0-1", hosts[] = "--ps_hosts=a:1,b:2",
         level[] = "--log_level=off";
    char *argv[] = {program, listen, tasks, hosts, level, NULL};
    struct psi_err err = {.code = PS_OK};
    psd_server_options options;
    memset(o, 0, sizeof(*o));
    assert_int_equal(psd_settings_read(5, argv, NULL, &o->settings, &err), PS_OK);
    psd_live_init(&o->live, o->settings, 1000000);
    psd_server_options_init(&options);
    options.listen = "127.0.0.1:0";
    assert_int_equal(psd_server_start(&options, &o->server, o->error, sizeof(o->error)), PS_OK);
}

static void end(struct one *o)
{
    psd_server_free(o->server);
    psd_settings_free(o->settings);
}

static ps_status set(struct one *o, const char *name, const char *value)
{
    o->error[0] = '\0';
    return psd_live_set(&o->live, o->server, name, value, NULL, o->error, sizeof(o->error));
}

/* The value that is listed, and whether it may change. */
static const char *listed(struct one *o, const char *name, bool *out_reloadable)
{
    const char *at = NULL, *value = NULL, *standard = NULL, *help = NULL;
    for (uint32_t i = 0; psd_live_row(&o->live, i, &at, &value, &standard, &help, out_reloadable); i++) {
        if (strcmp(at, name) == 0) {
            return value;
        }
    }
    return NULL;
}

static void assert_listed(struct one *o, const char *name, const char *value)
{
    bool reloadable = false;
    const char *now = listed(o, name, &reloadable);
    assert_non_null(now);
    assert_string_equal(now, value);
    assert_true(reloadable);
}

TEST(test_every_setting_that_may_change)
{
    static const struct {
        const char *name, *before, *value, *after, *bad, *allowed;
    } rows[] = {
        {"log_level", "off", "warn", "warn", "loud", "debug, info, warn, error, off"},
        {"refuse_nonfinite", "true", "no", "false", "maybe", "true"},
        {"sessions_max", "4096", "17", "17", "0", "1 to 4096"},
        {"sessions_max", "17", "4096", "4096", "4097", "1 to 4096"},
        {"memory_budget", "0", "3GiB", "3GiB", "-1", "0"},
        {"memory_budget", "3GiB", "0", "0", "much", "0"},
        {"session_keep", "10min", "90", "90s", "999ms", "1s"},
        {"drain", "10s", "250ms", "250ms", "25h", "0ms to 24h"},
        {"recover", "partial", "CUT", "cut", "cutt", "partial, cut; or by container: partial,model=cut"},
        {"recover", "cut", "partial, model = cut", "partial,model=cut", "model=cut,model=cut", "or by container"},
    };
    struct one o;
    bool reloadable = true;
    start(&o);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_listed(&o, rows[i].name, rows[i].before);
        assert_int_equal(set(&o, rows[i].name, rows[i].bad), PS_INVALID_ARGUMENT);
        if (strstr(o.error, rows[i].allowed) == NULL || strstr(o.error, rows[i].name) == NULL) {
            fail_msg("%s = %s: '%s'", rows[i].name, rows[i].bad, o.error);
        }
        assert_listed(&o, rows[i].name, rows[i].before); /* nothing has changed */
        assert_int_equal(set(&o, rows[i].name, rows[i].value), PS_OK);
        assert_listed(&o, rows[i].name, rows[i].after);
    }
    assert_int_equal(psd_live_drain_ms(&o.live), 250);
    assert_int_equal(set(&o, "lease", "20s"), PS_FAILED_PRECONDITION);
    assert_non_null(strstr(o.error, "restart"));
    assert_string_equal(listed(&o, "lease", &reloadable), "10s");
    assert_false(reloadable);
    end(&o);
}

/* One process with two tasks: what is set at one is not said by the other. */
TEST(test_other_tasks_keep_theirs)
{
    struct one o;
    start(&o);
    struct one other = o;
    psd_live_init(&other.live, o.settings, 1000000);
    assert_int_equal(set(&o, "sessions_max", "17"), PS_OK);
    assert_listed(&o, "sessions_max", "17");
    assert_listed(&other, "sessions_max", "4096");
    end(&o);
}

/* A row of PSD_SERVER_SETTINGS says its default twice. */
TEST(test_defaults_agree)
{
    psd_server_options o;
    psd_server_options read;
    psd_server_options_init(&o);
    for (enum psd_row row = 0; row < PSD_ROWS; row++) {
        const char *name = NULL, *standard = NULL, *help = NULL;
        char text[PSD_ROW_TEXT_BYTES], options[PSD_ROW_TEXT_BYTES];
        bool live = false;
        psd_row_describe(row, &name, &standard, &help, &live);
        memset(&read, 0x55, sizeof(read));
        assert_int_equal(psd_row_parse(row, standard, &read, NULL), PS_OK);
        assert_string_equal(psd_row_format(row, &read, options), standard);
        assert_string_equal(psd_row_format(row, &o, text), standard);
    }
}

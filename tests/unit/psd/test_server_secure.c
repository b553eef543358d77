/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psd/server_secure.c: what a task says again and again as time goes, on a server that is not started and whose clock the test
 * turns: that everybody may do everything, and that its key ends.
 */
#include "test.h"

#include <stdlib.h>

#include "common/auth/keys.h"
#include "psd/server.h"

enum { HOUR_MS = 60 * 60 * 1000, DAY_S = 24 * 60 * 60, NOW_S = 1893456000 /* 2030-01-01 */ };

static int64_t now_s = NOW_S;
static unsigned lines;
static char last[PSI_LOG_LINE_MAX];

static int64_t clock_s(void)
{
    return now_s;
}

static void take(void *data, enum psi_log_level level, const char *line)
{
    (void)data;
    (void)level;
    lines++;
    (void)snprintf(last, sizeof(last), "%s", line);
}

static psd_server *server(void)
{
    psd_server *s = calloc(1, sizeof(*s));
    assert_non_null(s);
    s->log = (struct psi_log){.write = take, .level = PSI_LOG_INFO};
    s->secure.now_s = clock_s;
    (void)snprintf(s->name, sizeof(s->name), "/job:ps/task:0");
    (void)snprintf(s->address, sizeof(s->address), "10.0.0.1:2222");
    now_s = NOW_S;
    lines = 0;
    return s;
}

/* Ticks of a minute until `ms`; the lines that they wrote. */
static unsigned said_until(psd_server *s, uint64_t ms)
{
    const unsigned before = lines;
    for (; s->ticked_ms < ms; s->ticked_ms += 60 * 1000, now_s += 60) {
        psd_secure_tick(s);
    }
    return lines - before;
}

/* At the start and then once an hour, for as long as it runs. */
TEST(insecure_any_peer_is_said_each_hour)
{
    psd_server *s = server();
    s->ticked_ms = 1000;
    assert_int_equal(said_until(s, 10 * HOUR_MS), 0);
    s->secure.insecure = true;
    for (uint64_t hour = 11; hour < 60; hour++) {
        assert_int_equal(said_until(s, hour * HOUR_MS), 1);
        assert_non_null(strstr(last, "lvl=warn ev=insecure_any_peer task=/job:ps/task:0 address=10.0.0.1:2222"));
    }
    free(s);
}

#define SECRET "a1b2c3d4a1b2c3d4a1b2c3d4a1b2c3d4a1b2c3d4a1b2c3d4a1b2c3d4a1b2c3d4"

/* 30 days, 7 days and a day before the end of each line that is used, once each; and nothing of what is over. */
TEST(lines_that_end_are_said_three_times)
{
    static const char lines_of[] = "ps 00000001 ps " SECRET " use until=2030-02-15\n"
                                   "w0 00000002 worker " SECRET " use until=2030-02-16\n"
                                   "w0 00000003 worker " SECRET " accept until=2030-01-02\n"
                                   "w1 00000004 worker " SECRET " use until=2029-12-31\n"
                                   "w2 00000005 worker " SECRET " use\n";
    psd_server *s = server();
    struct psi_keys *keys = NULL;
    struct psi_err err;
    assert_int_equal(psi_keys_parse(lines_of, sizeof(lines_of) - 1, "psd.keys", &keys, &err), PS_OK);
    ps_status st = psi_tls_new(&(struct psi_tls_config){.keys = keys, .dial_role = "ps", .now_s = clock_s}, &s->secure.tls, &err);
    psi_keys_free(keys);
    if (st == PS_UNIMPLEMENTED) {
        print_message("[  SKIPPED ] %s\n", err.text);
        free(s);
        skip();
    }
    assert_int_equal(st, PS_OK);
    psi_list_init(&s->net.conns); /* there is none */
    s->ticked_ms = 1000;
    const int64_t end = NOW_S + (int64_t)46 * DAY_S; /* of the last day of line 1; line 2 has one more */
    static const struct {
        int days_before;
        const char *said; /* NULL: nothing */
        int days;
    } parts[] = {{30, NULL, 0}, {29, "psd.keys:1: key ps", 29}, {28, "psd.keys:2: key w0", 29},
                 {7, NULL, 0},  {6, "psd.keys:1: key ps", 6},   {5, "psd.keys:2: key w0", 6},
                 {1, NULL, 0},  {0, "psd.keys:1: key ps", 0},   {-1, "psd.keys:2: key w0", 0},
                 {-5, NULL, 0}};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const int64_t until = end - (int64_t)parts[i].days_before * DAY_S;
        assert_int_equal(said_until(s, s->ticked_ms + (uint64_t)(until - now_s) * 1000), parts[i].said != NULL);
        if (parts[i].said != NULL) {
            char days[32];
            (void)snprintf(days, sizeof(days), " days=%d ", parts[i].days);
            assert_non_null(strstr(last, "lvl=warn ev=key_ends task=/job:ps/task:0"));
            assert_non_null(strstr(last, days));
            assert_non_null(strstr(last, parts[i].said));
        }
    }
    psi_tls_unref(s->secure.tls);
    free(s);
}

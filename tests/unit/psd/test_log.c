/* SPDX-License-Identifier: Apache-2.0 */
/* psd/shell/log.c: what peers can cause as often as they like cannot fill a log. */
#include "psd/shell/log.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

struct sink {
    uint32_t lines;
    char last[PSI_LOG_LINE_MAX];
};

static void take(void *data, enum psi_log_level level, const char *line)
{
    struct sink *s = data;
    (void)level;
    s->lines++;
    (void)snprintf(s->last, sizeof(s->last), "%s", line);
}

/* So many lines of it are written of 1,000 in one second, and the next second says how many were left out. */
static void expect_at_most(const char *event, uint32_t lines)
{
    struct sink s = {.lines = 0};
    struct psi_log log = {.level = PSI_LOG_INFO, .write = take, .data = &s};
    struct psd_server_log l = {0};
    struct psd_effect e = {.kind = PSD_EFFECT_LOG, .level = PSI_LOG_INFO};
    char left_out[64];
    (void)snprintf(e.event, sizeof(e.event), "%s", event);
    for (uint64_t i = 0; i < 1000; i++) {
        psd_server_log_core(&l, &log, "/job:ps/task:0", &e, 5000 + i);
    }
    assert_int_equal(s.lines, lines);
    psd_server_log_core(&l, &log, "/job:ps/task:0", &e, 6000);
    assert_int_equal(s.lines, lines + 1);
    (void)snprintf(left_out, sizeof(left_out), " left_out_before=%u", 1000 - lines);
    assert_int_equal(strstr(s.last, left_out) != NULL, lines < 1000);
}

TEST(test_what_a_client_causes)
{
    expect_at_most("chief", PSD_CLIENT_EVENT_LINES);
    expect_at_most("config_set", PSD_CLIENT_EVENT_LINES);
    expect_at_most("container_reset", PSD_CLIENT_EVENT_LINES);
    expect_at_most("frame_rejected", 1);
    expect_at_most("checkpoint_saved", 1000); /* it takes a disk */
}

/* Lines about whom the task refused are limited, because peers cause them as often as they like; each kind by itself. */
TEST(test_audit_of_those_refused)
{
    static const char *const events[] = {PSD_AUDIT_REFUSED_EVENT, PSD_AUDIT_STRANGER_EVENT};
    for (enum psi_log_level level = PSI_LOG_DEBUG; level <= PSI_LOG_OFF; level++) {
        struct sink s = {.lines = 0};
        const struct psi_log log = {.level = level, .write = take, .data = &s};
        struct psd_server_log l = {0};
        for (size_t i = 0; i < 2; i++) {
            struct psd_effect refused = {.kind = PSD_EFFECT_LOG, .level = PSI_LOG_INFO};
            (void)snprintf(refused.event, sizeof(refused.event), "%s", events[i]);
            for (uint64_t k = 0; k < 1000; k++) {
                psd_server_log_core(&l, &log, "/job:ps/task:0", &refused, 5000);
            }
            assert_int_equal(s.lines, level == PSI_LOG_OFF ? 0 : (i + 1) * PSD_CLIENT_EVENT_LINES);
            assert_int_equal(strstr(s.last, "ev=audit ") != NULL, level != PSI_LOG_OFF);
        }
        for (size_t i = 0; i < 2; i++) { /* the next second says how many of this kind were left out */
            struct psd_effect refused = {.kind = PSD_EFFECT_LOG, .level = PSI_LOG_INFO};
            char left_out[64];
            (void)snprintf(refused.event, sizeof(refused.event), "%s", events[i]);
            (void)snprintf(left_out, sizeof(left_out), " left_out_before=%d", 1000 - PSD_CLIENT_EVENT_LINES);
            psd_server_log_core(&l, &log, "/job:ps/task:0", &refused, 6000);
            assert_int_equal(strstr(s.last, left_out) != NULL, level != PSI_LOG_OFF);
        }
    }
}

/* An audit line is written each time, and at every log level but off. */
TEST(test_audit_is_never_left_out)
{
    for (enum psi_log_level level = PSI_LOG_DEBUG; level <= PSI_LOG_OFF; level++) {
        struct sink s = {.lines = 0};
        const struct psi_log log = {.level = level, .write = take, .data = &s};
        struct psd_server_log l = {0};
        const struct psd_effect audit = {.kind = PSD_EFFECT_LOG, .level = PSI_LOG_INFO, .event = PSD_AUDIT_EVENT};
        const struct psd_effect other = {.kind = PSD_EFFECT_LOG, .level = PSI_LOG_INFO, .event = "keys_read"};
        for (uint64_t i = 0; i < 1000; i++) {
            psd_server_log_core(&l, &log, "/job:ps/task:0", &audit, 5000);
        }
        assert_int_equal(s.lines, level == PSI_LOG_OFF ? 0 : 1000);
        psd_server_log_core(&l, &log, "/job:ps/task:0", &other, 5000);
        assert_int_equal(s.lines, level == PSI_LOG_OFF ? 0 : level > PSI_LOG_INFO ? 1000 : 1001);
    }
}

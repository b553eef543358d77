/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines of the core. Happy path: fields become one logfmt line. Failure: of an event that peers can cause as often as they
 * like, a few lines a second are written; the next written line says how many were left out. An audit line is written at
 * every log level but off, and never left out, unless it is about a peer that was refused: such lines are limited like others. */
#include "log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

void psd_server_log_stamp(void *data, char *buf, size_t n)
{
    struct timespec now;
    (void)data;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)psi_log_format_time((uint64_t)now.tv_sec * 1000U + (uint64_t)now.tv_nsec / 1000000U, buf, n);
}

/* The index of an event that peers can cause; *out_lines: how many lines a second are written of it. -1: any other event. */
static int peer_event(const char *event, uint32_t *out_lines)
{
    static const struct {
        const char *event;
        uint32_t lines;
    } events[] = {
        {"frame_rejected", 1},
        {"gap", 1},
        {"hello_refused", 1},
        {"hello_deadline", 1},
        {"tls_refused", PSD_CLIENT_EVENT_LINES},
        {PSD_AUDIT_REFUSED_EVENT, PSD_CLIENT_EVENT_LINES},
        {PSD_AUDIT_STRANGER_EVENT, PSD_CLIENT_EVENT_LINES},
        {"key_ends", PSD_CLIENT_EVENT_LINES}, /* one change of a key file can cause many of these lines */
        {"task_refused", 1},
        {"list_rejected", 1},
        {"segment_deadline", 1},
        {"session_gave_way", 1},
        {"peer_stuck", 1},
        {"closed_by_peer", PSD_CLIENT_EVENT_LINES},
        {"peer_silent", PSD_CLIENT_EVENT_LINES},
        {"chief", PSD_CLIENT_EVENT_LINES},
        {"chief_forgotten", PSD_CLIENT_EVENT_LINES},
        {"hyperparameters", PSD_CLIENT_EVENT_LINES},
        {"rate_set", PSD_CLIENT_EVENT_LINES},
        {"rate_cleared", PSD_CLIENT_EVENT_LINES},
        {"config_set", PSD_CLIENT_EVENT_LINES},
        {"rounds_set", PSD_CLIENT_EVENT_LINES},
        {"rounds_end", PSD_CLIENT_EVENT_LINES},
        {"trainer_done", PSD_CLIENT_EVENT_LINES},
        {"job_done", PSD_CLIENT_EVENT_LINES},
        {"shutdown_asked", PSD_CLIENT_EVENT_LINES},
        {"container_reset", PSD_CLIENT_EVENT_LINES},
        {"container_replaced", PSD_CLIENT_EVENT_LINES},
        {"delete_asked", PSD_CLIENT_EVENT_LINES},
        {"assign_asked", PSD_CLIENT_EVENT_LINES},
        {"queue_close_asked", PSD_CLIENT_EVENT_LINES},
        {"rate_asked", PSD_CLIENT_EVENT_LINES},
        {"stop_asked", PSD_CLIENT_EVENT_LINES},
        {"checkpoint_asked", PSD_CLIENT_EVENT_LINES},
        {"restore_asked", PSD_CLIENT_EVENT_LINES},
        {"reset_taken_back", PSD_CLIENT_EVENT_LINES},
        {"reset_not_noted", PSD_CLIENT_EVENT_LINES},
        {"bars_not_written", PSD_CLIENT_EVENT_LINES},
        {"checkpoint_failed", PSD_CLIENT_EVENT_LINES},
        {"checkpoint_not_removed", PSD_CLIENT_EVENT_LINES},
    };
    _Static_assert(sizeof(events) / sizeof(events[0]) <= PSD_PEER_EVENTS, "a row for each");
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        if (strcmp(event, events[i].event) == 0) {
            *out_lines = events[i].lines;
            return (int)i;
        }
    }
    return -1;
}

void psd_server_log_core(struct psd_server_log *l, const struct psi_log *log, const char *task, const struct psd_effect *e,
                         uint64_t now_ms)
{
    struct psi_kv fields[2] = {PSI_KV("task", task)};
    size_t count = 1;
    enum psi_log_level level = (enum psi_log_level)e->level;
    uint32_t lines = 0;
    int row = peer_event(e->event, &lines);
    struct psi_log audit = *log;
    const bool audits = strncmp(e->event, PSD_AUDIT_EVENT, strlen(PSD_AUDIT_EVENT)) == 0;
    if (audits && log->level < PSI_LOG_OFF) {
        audit.level = PSI_LOG_DEBUG;
        log = &audit;
    }
    if (!psi_log_enabled(log, level)) {
        return;
    }
    if (row >= 0 && now_ms >= l->rows[row].until_ms) {
        l->rows[row].until_ms = now_ms + PSD_PEER_EVENT_MS;
        l->rows[row].said = 0;
    }
    if (row >= 0 && l->rows[row].said == lines) {
        l->rows[row].unsaid++;
        return;
    }
    if (row >= 0) {
        l->rows[row].said++;
        if (l->rows[row].unsaid > 0) {
            fields[count++] = PSI_KV("left_out_before", l->rows[row].unsaid);
        }
        l->rows[row].unsaid = 0;
    }
    psi_log_fields(log, level, audits ? PSD_AUDIT_EVENT : e->event, fields, count, e->text);
}

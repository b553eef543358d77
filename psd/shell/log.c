/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines of the core. Happy path: fields -> one logfmt line. Failure: lines of the same event that bad peers cause come at
 * most once a second; the next one written says how many were left out.
 */
#include "log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

void psd_server_log_stamp(void *data, char *buf, size_t n)
{
    struct timespec now;
    (void)data;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail for this clock */
    (void)psi_log_format_time((uint64_t)now.tv_sec * 1000U + (uint64_t)now.tv_nsec / 1000000U, buf, n);
}

/* The row of an event that peers cause; -1: any other. */
static int peer_event(const char *event)
{
    static const char *const events[] = {"frame_rejected", "gap",           "hello_refused",    "hello_deadline",
                                         "task_refused",   "list_rejected", "segment_deadline", "session_gave_way",
                                         "peer_stuck"};
    _Static_assert(sizeof(events) / sizeof(events[0]) <= PSD_PEER_EVENTS, "a row for each");
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        if (strcmp(event, events[i]) == 0) {
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
    int row = peer_event(e->event);
    if (!psi_log_enabled(log, level)) {
        return;
    }
    if (row >= 0 && now_ms < l->rows[row].next_ms) {
        l->rows[row].unsaid++;
        return;
    }
    if (row >= 0) {
        if (l->rows[row].unsaid > 0) {
            fields[count++] = PSI_KV("left_out_before", l->rows[row].unsaid);
        }
        l->rows[row].unsaid = 0;
        l->rows[row].next_ms = now_ms + PSD_PEER_EVENT_MS;
    }
    psi_log_fields(log, level, e->event, fields, count, e->text);
}

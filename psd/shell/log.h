/* SPDX-License-Identifier: Apache-2.0 */
/* The log lines of one task. Lines of the core get the task's name and the time; lines that peers can cause have a limit. */
#ifndef PSD_SERVER_LOG_H
#define PSD_SERVER_LOG_H

#include "common/log.h"
#include "psd/task.h"

/* An event that peers can cause as often as they like is logged at most 1 or PSD_CLIENT_EVENT_LINES times in PSD_PEER_EVENT_MS
 * (log.c has a row for each event). PSD_PEER_EVENTS: room for so many events. */
enum { PSD_PEER_EVENTS = 44, PSD_PEER_EVENT_MS = 1000, PSD_CLIENT_EVENT_LINES = 10 };
struct psd_server_log {
    struct {
        uint64_t until_ms; /* monotonic ms: end of the present counting second, which a line of this event has begun */
        uint32_t said;     /* lines written in that second */
        uint32_t unsaid;   /* lines of this event that were left out since one was written */
    } rows[PSD_PEER_EVENTS];
};

/** Write an event of the core as one line, unless it is over its limit. task: the name of the task; now_ms: monotonic. */
void psd_server_log_core(struct psd_server_log *l, const struct psi_log *log, const char *task, const struct psd_effect *e,
                         uint64_t now_ms);
/** A psi_log_stamp function: writes the time of this machine's clock into buf. */
void psd_server_log_stamp(void *data, char *buf, size_t n);

#endif

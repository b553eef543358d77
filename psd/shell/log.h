/* SPDX-License-Identifier: Apache-2.0 */
/* The log lines of one task: those of the core with its name and the time, and not more than a log can bear. */
#ifndef PSD_SERVER_LOG_H
#define PSD_SERVER_LOG_H

#include "common/log.h"
#include "psd/task.h"

/* What a peer can cause as often as it likes is written so many times a second for each kind of event, at most: what is refused
 * once, what a client is granted or changes PSD_CLIENT_EVENT_LINES times. */
enum { PSD_PEER_EVENTS = 32, PSD_PEER_EVENT_MS = 1000, PSD_CLIENT_EVENT_LINES = 10 };
struct psd_server_log {
    struct {
        uint64_t until_ms; /* the end of the second that the first line began */
        uint32_t said;     /* lines in that second */
        uint32_t unsaid;   /* lines left out since the last one that was written */
    } rows[PSD_PEER_EVENTS];
};

/** Write an event of the core. task: its name; now_ms: monotonic. */
void psd_server_log_core(struct psd_server_log *l, const struct psi_log *log, const char *task, const struct psd_effect *e,
                         uint64_t now_ms);
/** psi_log_stamp: now. */
void psd_server_log_stamp(void *data, char *buf, size_t n);

#endif

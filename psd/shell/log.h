/* SPDX-License-Identifier: Apache-2.0 */
/* The log lines of one task: those of the core with its name and the time, and not more than a log can bear. */
#ifndef PSD_SERVER_LOG_H
#define PSD_SERVER_LOG_H

#include "common/log.h"
#include "psd/task.h"

/* An event that a peer can cause as often as it likes has a limit of lines in a second, for each kind of event. Refusals have
 * one line. What a client is granted or changes has PSD_CLIENT_EVENT_LINES. */
enum { PSD_PEER_EVENTS = 40, PSD_PEER_EVENT_MS = 1000, PSD_CLIENT_EVENT_LINES = 10 };
struct psd_server_log {
    struct {
        uint64_t until_ms; /* end of the second that began with the first line */
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

/* SPDX-License-Identifier: Apache-2.0 */
/* The log lines of one task: the core's, with the task's name and the time, and a limit on those that peers can cause. */
#ifndef PSD_SERVER_LOG_H
#define PSD_SERVER_LOG_H

#include "common/log.h"
#include "psd/task.h"

/* A kind of event that a peer can cause as often as it likes has a limit of lines a second: one for refusals,
 * PSD_CLIENT_EVENT_LINES for what a client is granted or changes. */
enum { PSD_PEER_EVENTS = 40, PSD_PEER_EVENT_MS = 1000, PSD_CLIENT_EVENT_LINES = 10 };
struct psd_server_log {
    struct {
        uint64_t until_ms; /* end of the second that began with its first line */
        uint32_t said;     /* lines written in that second */
        uint32_t unsaid;   /* lines left out since the last one written */
    } rows[PSD_PEER_EVENTS];
};

/** Write an event of the core. task: its name; now_ms: monotonic. */
void psd_server_log_core(struct psd_server_log *l, const struct psi_log *log, const char *task, const struct psd_effect *e,
                         uint64_t now_ms);
/** The psi_log_stamp of this machine: the time now. */
void psd_server_log_stamp(void *data, char *buf, size_t n);

#endif

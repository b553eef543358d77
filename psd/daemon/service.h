/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon under a service manager: when to send READY, STATUS, WATCHDOG and STOPPING, and what the status says. Main thread
 * only. Without a service manager these functions do nothing. */
#ifndef PSD_SERVICE_H
#define PSD_SERVICE_H

#include "notify.h"
#include "psd.h"

enum { PSD_STATUS_BYTES_MAX = 512, PSD_STATUS_MS = 5000 /* shortest time between two changes of the status */ };

enum psd_service_phase { PSD_SERVICE_STARTING, PSD_SERVICE_READY, PSD_SERVICE_STOPPING };
struct psd_service {
    struct psd_notify notify;
    psd_server *const *servers;
    uint64_t *turns; /* [count] loop turns of each server at the last watchdog check; owned by the caller */
    uint32_t count;
    enum psd_service_phase phase;
    uint64_t status_ms, watchdog_ms; /* when the next status, and the next WATCHDOG=1, is due */
    char status[PSD_STATUS_BYTES_MAX];
};

/** Begin in phase STARTING. servers [count], and turns [count], which is zeroed, must stay valid until fini. An environment
 * variable names the manager's socket. */
void psd_service_init(struct psd_service *s, psd_server *const *servers, uint64_t *turns, uint32_t count);
/** Call when all tasks are ready; they may still wait for other tasks. */
void psd_service_ready(struct psd_service *s, uint64_t now_ms);
/** Call before (begins true) and after (false) the settings are read again. */
void psd_service_reloading(struct psd_service *s, bool begins, uint64_t now_ms);
/** Call when the tasks begin to end; they take at most at_most_ms. Only the first call counts. */
void psd_service_stopping(struct psd_service *s, int64_t at_most_ms);
/** Send what is due. Returns milliseconds until the next call, -1: never. */
int psd_service_turn(struct psd_service *s, uint64_t now_ms);
void psd_service_fini(struct psd_service *s);

#endif

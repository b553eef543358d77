/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon under a service manager: when to send READY, STATUS, WATCHDOG and STOPPING, and what the status says.
 * Main thread only. Without a service manager nothing happens and no time is asked for.
 */
#ifndef PSD_SERVICE_H
#define PSD_SERVICE_H

#include "notify.h"
#include "psd.h"

enum { PSD_STATUS_BYTES_MAX = 512, PSD_STATUS_MS = 5000 /* shortest time between two changes of the status */ };

enum psd_service_phase { PSD_SERVICE_STARTING, PSD_SERVICE_READY, PSD_SERVICE_STOPPING };
struct psd_service {
    struct psd_notify notify;
    psd_server *const *servers; /* keeps */
    uint64_t *turns;            /* loop turns of each server at the last WATCHDOG=1; keeps */
    uint32_t count;
    enum psd_service_phase phase;
    uint64_t status_ms, watchdog_ms; /* when each is due next */
    char status[PSD_STATUS_BYTES_MAX];
};

/** servers [count] and turns [count, zeros]: keeps. The environment names the socket of the service manager. */
void psd_service_init(struct psd_service *s, psd_server *const *servers, uint64_t *turns, uint32_t count);
/** All tasks serve. */
void psd_service_ready(struct psd_service *s, uint64_t now_ms);
/** The settings are being read again (begins true), or have been (false). */
void psd_service_reloading(struct psd_service *s, bool begins, uint64_t now_ms);
/** The tasks are ending, within at_most_ms. Only the first call counts. */
void psd_service_stopping(struct psd_service *s, int64_t at_most_ms);
/** Send what is due. Returns milliseconds until the next call, -1: never. */
int psd_service_turn(struct psd_service *s, uint64_t now_ms);
void psd_service_fini(struct psd_service *s);

#endif

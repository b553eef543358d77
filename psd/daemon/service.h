/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon under a service manager: when to say READY, STATUS, WATCHDOG and STOPPING, and what the status says.
 * Main thread only. Without a service manager nothing happens and no time is asked for.
 */
#ifndef PSD_SERVICE_H
#define PSD_SERVICE_H

#include "notify.h"
#include "psd.h"

enum { PSD_STATUS_BYTES_MAX = 512, PSD_STATUS_MS = 5000 /* how often the status may change */ };

enum psd_service_phase { PSD_SERVICE_STARTING, PSD_SERVICE_READY, PSD_SERVICE_STOPPING };
struct psd_service {
    struct psd_notify notify;
    psd_server *const *servers; /* keeps */
    uint64_t *turns;            /* of each server at the last WATCHDOG=1; keeps */
    uint32_t count;
    enum psd_service_phase phase;
    uint64_t status_ms, watchdog_ms; /* the next time */
    char status[PSD_STATUS_BYTES_MAX];
};

/** servers [count] and turns [count, zeros]: keep. The environment says who wants to be told. */
void psd_service_init(struct psd_service *s, psd_server *const *servers, uint64_t *turns, uint32_t count);
/** All tasks serve. */
void psd_service_ready(struct psd_service *s, uint64_t now_ms);
/** The settings are read again: true before, false afterwards. */
void psd_service_reloading(struct psd_service *s, bool begins, uint64_t now_ms);
/** They end, within at_most_ms. Only the first time counts. */
void psd_service_stopping(struct psd_service *s, int64_t at_most_ms);
/** Time passes. Milliseconds until it must be called again, -1: never. */
int psd_service_turn(struct psd_service *s, uint64_t now_ms);
void psd_service_fini(struct psd_service *s);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A monitored session: what errors.c, session.c, get.c and param.c need. */
#ifndef PSI_WORKER_API_MONITORED_H
#define PSI_WORKER_API_MONITORED_H

#include "api.h"

/* Fields are constant after open, or under the session's lock. */
struct psi_monitor {
    ps_monitored_options options;
    struct psi_opening *opening; /* options with which it was opened; used by the recovering thread */
    struct psi_list gets;        /* psi_api_get.link: all that was got, or is to be got again, in order of creation */
    int64_t dropped;             /* steps dropped in rounds before the last recovery */
    uint64_t random;             /* state of the random numbers for pauses */
    struct psi_found found;
    ps_recovery last; /* count 0: no recovery */
};

/** options: of a header of any version; NULL: defaults. */
ps_status psi_monitor_new(const ps_monitored_options *options, struct psi_monitor **out_monitor, struct psi_err *err) PSI_MUST;
void psi_monitor_free(struct psi_monitor *m);

/** True if the session is lost and its calls return st, so that a program which reports st to the session reports nothing new. */
bool psi_monitor_says(ps_session *s, ps_status st);
/** Number of recoveries; 0 if it is not monitored. */
uint32_t psi_monitor_life(ps_session *s);
/** True if the program itself has deleted v, or may be doing so. The caller holds the lock. */
bool psi_monitor_deletes(const ps_session *s, const ps_variable *v);
/** True if the session is monitored and this process has opened it. */
bool psi_monitor_is_here(const ps_session *s);
/** True if a monitored session is lost and will recover: its program goes on to the end of its step. */
bool psi_monitor_is_lost(ps_session *s);
/** Recover a lost session, or wait for the thread that does. Blocks. Call between psi_api_begin(s) and psi_api_end(s). True: it
 * was lost and has recovered. False, at once: not monitored, not lost, ended for good, in a callback or a hook. */
bool psi_api_recover(ps_session *s);

/* ---- restore.c ---- */
/** True if the session has a restore function. */
bool psi_monitor_restores(const ps_session *s);
/** True if the calling thread is in the restore function. The caller does not hold the lock. */
bool psi_monitor_in_restore(ps_session *s);
/** A READY has ended with this result and status. */
void psi_monitor_readied(ps_session *s, const struct psi_readied *readied, ps_status st);
/** psi_api_ready() has succeeded with *found. */
void psi_monitor_was_ready(ps_session *s, const struct psi_found *found);
/** READY has ended before INIT: run the restore function. *out_given: it has given values; step: the global step, which does not
 * count. */
ps_status psi_monitor_restore(ps_session *s, uint64_t number, const ps_variable *step, bool *out_given,
                              struct psi_err *err) PSI_MUST;
/** In a recovery, with no other thread inside: empty the containers of half a model, if this session may. Errors are ignored:
 * the next READY meets them. */
void psi_monitor_empty(ps_session *s, int64_t timeout_ms);

/* ---- monitored.c ---- */
/** Result of the last recovery's READY. Returns PS_OK. */
ps_status psi_monitor_found(ps_session *s, struct psi_found *out_found);

/** event: PSI_ON_PUSH or PSI_ON_STEP. ABORTED: the step is broken off, and the call must do nothing; for ps_last_error(). */
ps_status psi_monitor_step(ps_session *s, enum psi_session_event event, struct psi_err *err) PSI_MUST;
/** Steps dropped before the last recovery. The caller holds the lock. */
int64_t psi_monitor_dropped(const ps_session *s);

#endif

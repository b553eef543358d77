/* SPDX-License-Identifier: Apache-2.0 */
/* A monitored session: its state, and functions for the other files of the public API. */
#ifndef PSI_WORKER_API_MONITORED_H
#define PSI_WORKER_API_MONITORED_H

#include "api.h"

/* The fields are constant after open, or under the session's lock. */
struct psi_monitor {
    ps_monitored_options options;
    struct psi_opening *opening; /* options with which the session was opened; used by the recovering thread */
    int64_t dropped;             /* steps dropped in rounds before the last recovery */
    uint64_t random;             /* state of the random generator for the pauses before attempts */
    struct psi_found found;      /* result of the first READY, later of the last recovery's READY */
    ps_recovery last;            /* the last recovery; count 0: none */
};

/** Make the state of a monitored session. options: of any version of ps.h (struct_bytes); NULL: defaults. *out_monitor: free with
 * psi_monitor_free(). INVALID_ARGUMENT: an option is refused. RESOURCE_EXHAUSTED: no memory. */
ps_status psi_monitor_new(const ps_monitored_options *options, struct psi_monitor **out_monitor, struct psi_err *err) PSI_MUST;
void psi_monitor_free(struct psi_monitor *m);

/** True if the session is lost and will recover, and its calls return st until then: a program that passes st to
 * ps_session_fail() only reports the loss again. */
bool psi_monitor_says(ps_session *s, ps_status st);
/** Number of the session's recoveries so far; 0 if the session is not monitored. */
uint32_t psi_monitor_life(ps_session *s);
/** True if the program has deleted v, or is deleting it: then the error that v does not exist is no loss. Under the lock. */
bool psi_monitor_deletes(const ps_session *s, const ps_variable *v);
/** True if the session is monitored and this process has opened it. */
bool psi_monitor_is_here(const ps_session *s);
/** True if a monitored session is lost and will recover. Until then its program continues to the end of its step. */
bool psi_monitor_is_lost(ps_session *s);
/** Recover a lost session, or wait for the thread that does. Blocks. Call between psi_api_begin(s) and psi_api_end(s). True: the
 * session was lost and has recovered. False: the recovery has failed or was interrupted; or, at once, the session is not
 * monitored, not lost, or has failed, or this thread is in a callback or a hook. */
bool psi_api_recover(ps_session *s);

/* ---- restore.c, monitor.c ---- */
bool psi_monitor_restores(const ps_session *s);
/** True if the calling thread is in the restore function. The caller does not hold the lock. */
bool psi_monitor_in_restore(ps_session *s);
void psi_monitor_readied(ps_session *s, const struct psi_readied *readied, ps_status st);
void psi_monitor_was_ready(ps_session *s, const struct psi_found *found);
/** Run the program's restore function, which must give the variables their values, because none has a value. This session is
 * chief, with the chief number `number`. *out_given: a variable other than `step`, the global step, got a value. */
ps_status psi_monitor_restore(ps_session *s, uint64_t number, const ps_variable *step, bool *out_given,
                              struct psi_err *err) PSI_MUST;
/** In a recovery, while no other thread uses the session: if only some variables of the model have values, and this session as
 * chief may discard them, empty the model's containers. Errors are ignored: the next READY reports their cause. */
void psi_monitor_empty(ps_session *s, int64_t timeout_ms);

/* ---- monitor.c ---- */
/** Copy what the last READY found (psi_monitor.found): that of ps_session_ready(), or of the last recovery. Returns PS_OK. */
ps_status psi_monitor_found(ps_session *s, struct psi_found *out_found);

/** Report a push (PSI_ON_PUSH) or the end of a step (PSI_ON_STEP) to the state machine of a monitored session. ABORTED: a
 * recovery has broken the step off, and the call must only return *err. PS_OK: the call may go on; if a recovery comes before its
 * end, the rest of the call is ABORTED. */
ps_status psi_monitor_step(ps_session *s, enum psi_session_event event, struct psi_err *err) PSI_MUST;
/** Number of steps dropped in rounds before the last recovery; the core counts later steps. The caller holds the lock. */
int64_t psi_monitor_dropped(const ps_session *s);

#endif

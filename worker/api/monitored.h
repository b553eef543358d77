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
    bool recovering;
    bool draining;        /* while recovering: requests in flight are ending, and callbacks must not start requests */
    pthread_t recoverer;  /* while recovering: the only thread, beside the loop's, that may use the session */
    struct psi_err cause; /* while recovering: the error that all other threads get */
    bool final;           /* the session's error is one from which it does not recover */
    bool ready;           /* ps_session_ready() was called: a recovery makes the session ready */
    int64_t dropped;      /* steps dropped in rounds before the last recovery */
    bool touched;         /* the program has pushed in the present step */
    bool broken_step;     /* a recovery took place in the present step: the rest of the step does nothing */
    uint32_t deleting;    /* calls in progress by which the program deletes a variable or queue */
    uint32_t in_row;      /* recoveries since the last completed step */
    uint64_t random;      /* state of the random numbers for pauses */
    bool given_up;        /* a recovery has failed: nothing is started any more */
    bool broken_off;      /* the last recovery was interrupted, perhaps with io NULL: calls fail until the next recovery */
    bool has_trainer;     /* a thread has made it ready, pushed or ended a step: `trainer` */
    pthread_t trainer;
    bool pulled;           /* trainer has pulled in this step */
    bool was_ready;        /* psi_api_ready() has succeeded: a variable without a value is lost, not new */
    bool leads;            /* this session was chief in the last READY */
    uint64_t chief_number; /* chief number in that READY; 0: none */
    uint64_t half;         /* chief number of a READY that found half a model, which this session may give up; 0: none */
    uint64_t restoring;    /* chief number under which the restore function runs; 0: it does not */
    pthread_t restorer;
    struct psi_found found;
    ps_recovery last; /* count 0: no recovery */
};

/** options: of a header of any version; NULL: defaults. */
ps_status psi_monitor_new(const ps_monitored_options *options, struct psi_monitor **out_monitor, struct psi_err *err) PSI_MUST;
void psi_monitor_free(struct psi_monitor *m);

/** True if the session may recover from this error. The caller holds the lock. */
bool psi_monitor_mends(const ps_session *s, const struct psi_err *err);
/** True if another thread is recovering the session; *err, if not NULL, gets the cause. The caller holds the lock. */
bool psi_monitor_bars(ps_session *s, struct psi_err *err);
/** True if the session is lost and its calls return st, so that a program which reports st to the session reports nothing new. */
bool psi_monitor_says(ps_session *s, ps_status st);
/** True if the session is lost, and the next call that can recover it will. */
bool psi_monitor_may_recover(ps_session *s);
/** Number of recoveries; 0 if it is not monitored. */
uint32_t psi_monitor_life(ps_session *s);
/** True if the program itself has deleted v, or may be doing so. The caller holds the lock. */
bool psi_monitor_deletes(const ps_session *s, const ps_variable *v);
/** A deleting call begins (1) or ends (-1). */
void psi_monitor_deleting(ps_session *s, int32_t more);
/** True if the session is monitored and this process has opened it. */
bool psi_monitor_is_here(const ps_session *s);
/** True if a monitored session is lost and will recover: its program goes on to the end of its step. */
bool psi_monitor_is_lost(ps_session *s);
/** True if this thread makes the session's steps. The caller holds the lock. */
bool psi_monitor_trains(const struct psi_monitor *m);

/** Recover a lost session, or wait for the thread that does. Blocks. Call between psi_api_begin(s) and psi_api_end(s). True: it
 * was lost and has recovered. False, at once: not monitored, not lost, ended for good, in a callback or a hook. */
bool psi_api_recover(ps_session *s);

/** ps_session_ready() was called: from now on a recovery makes the session ready. */
void psi_monitor_to_be_ready(ps_session *s);
/* ---- restore.c ---- */
/** True if the session has a restore function. */
bool psi_monitor_restores(const ps_session *s);
/** Chief number of the restore function, if the calling thread is in it; else 0. The caller holds the lock. */
uint64_t psi_monitor_chief_number(const ps_session *s);
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

/** The trainer pulls all parameters. */
void psi_monitor_pulls(ps_session *s);
/** A request has ended with *err because a recovery cuts it short: replace the error by that of the loss. The caller holds the
 * lock. */
void psi_monitor_cut(const ps_session *s, struct psi_err *err);
/** A push begins. ABORTED: the step is broken off, and the push must do nothing; for ps_last_error(). */
ps_status psi_monitor_push(ps_session *s, struct psi_err *err) PSI_MUST;
/** ps_step_done() begins; ABORTED as of psi_monitor_push(). */
ps_status psi_monitor_step(ps_session *s, struct psi_err *err) PSI_MUST;
/** Steps dropped before the last recovery. The caller holds the lock. */
int64_t psi_monitor_dropped(const ps_session *s);
/** The step has ended, or a new one begins. completed: it was counted. */
void psi_monitor_step_over(ps_session *s, bool completed);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A session that recovers: what errors.c, session.c, get.c and param.c need of it. */
#ifndef PSI_WORKER_API_MONITORED_H
#define PSI_WORKER_API_MONITORED_H

#include "api.h"

/* Constant after open, or under the session's lock. */
struct psi_monitor {
    ps_monitored_options options;
    struct psi_opening *opening; /* as it was opened; the recovering thread's */
    struct psi_list gets;        /* struct psi_api_get.link: all that was got or is to be got again, in order of creation */
    bool recovering;
    bool draining;        /* ... and what was in flight is coming to its end: callbacks may start nothing either */
    pthread_t recoverer;  /* recovering: the one thread that may use the session, and the loop's */
    struct psi_err cause; /* recovering: what everybody else gets */
    bool final;           /* the session's error is one that no recovery mends */
    bool ready;           /* ps_session_ready() has been called: a recovery makes it ready again */
    int64_t dropped;      /* steps in rounds, of the members that this session was before */
    bool touched;         /* the program has pushed since its last step ended or began */
    bool broken_step;     /* a recovery came after that: what is left of the step does nothing */
    uint32_t deleting;    /* calls in progress by which the program deletes a variable or queue */
    uint32_t in_row;      /* recoveries since the last step that was completed */
    uint64_t random;      /* of pauses */
    bool given_up;        /* a recovery has: nothing is started any more */
    bool broken_off;      /* the last recovery was interrupted, maybe without an io: nothing is started before the next one */
    bool has_trainer;     /* a thread has made it ready, pushed or ended a step: the steps are its */
    pthread_t trainer;
    bool pulled;           /* by that thread, in this step */
    bool was_ready;        /* psi_api_ready() has come to its end: what lacks its value later is lost, not new */
    bool leads;            /* the last READY was the chief's */
    uint64_t chief_number; /* of the last one that was; 0: none */
    uint64_t half;         /* ... and found half a model, which this session may give up; 0: not so */
    uint64_t restoring;    /* the restore function runs, under this number; 0: not so */
    pthread_t restorer;
    struct psi_found found;
    ps_recovery last; /* count 0: none */
};

/** Options of any header; NULL: defaults. */
ps_status psi_monitor_new(const ps_monitored_options *options, struct psi_monitor **out_monitor, struct psi_err *err) PSI_MUST;
/** NULL is fine. */
void psi_monitor_free(struct psi_monitor *m);

/** Under the lock: may another session of the cluster mend an error like this? */
bool psi_monitor_mends(const ps_session *s, const struct psi_err *err);
/** Under the lock: another thread makes the session anew. *err gets the cause, where that is not NULL. */
bool psi_monitor_bars(ps_session *s, struct psi_err *err);
/** The session is lost, and its calls say so by st: a program that reports that to the session says nothing new. */
bool psi_monitor_says(ps_session *s, ps_status st);
/** The session is lost, and the next call that can recover makes it anew. */
bool psi_monitor_may_recover(ps_session *s);
/** How often it has been made anew; 0 of one that is not monitored. */
uint32_t psi_monitor_life(ps_session *s);
/** Under the lock: the program itself has deleted v, or may just be doing so. */
bool psi_monitor_deletes(const ps_session *s, const ps_variable *v);
/** One call more (1) or less (-1) that deletes. */
void psi_monitor_deleting(ps_session *s, int32_t more);
/** It is monitored, and this is the process that opened it. */
bool psi_monitor_is_here(const ps_session *s);
/** A monitored session that is to be made anew: its program goes on to the end of its step. */
bool psi_monitor_is_lost(ps_session *s);
/** Under the lock: this thread's steps are those of the session. */
bool psi_monitor_trains(const struct psi_monitor *m);

/** The session was broken and is not any more: it has been made anew, here or by another thread that was waited for. Blocks.
 *  Between psi_api_begin(s) and psi_api_end(s). Not monitored, whole, ended for good, in a callback or a hook: false at once. */
bool psi_api_recover(ps_session *s);

/** ps_session_ready() has been called: from now on a recovery makes the session ready. */
void psi_monitor_to_be_ready(ps_session *s);
/* ---- restore.c ---- */
/** It has a function that gives values. */
bool psi_monitor_restores(const ps_session *s);
/** Under the lock: that number, where this call gives values in that function; else 0. */
uint64_t psi_monitor_chief_number(const ps_session *s);
/** Not under the lock: that is so. */
bool psi_monitor_in_restore(ps_session *s);
/** A READY has ended with st, so. */
void psi_monitor_readied(ps_session *s, const struct psi_readied *readied, ps_status st);
/** All of psi_api_ready() has ended well, with *found. */
void psi_monitor_was_ready(ps_session *s, const struct psi_found *found);
/** READY has stopped: run the function. *out_given: it has given values; step: the global step, which is not counted. */
ps_status psi_monitor_restore(ps_session *s, uint64_t number, const ps_variable *step, bool *out_given,
                              struct psi_err *err) PSI_MUST;
/** A recovery, and nobody else is inside: what is left of half a model goes, if this session may do that. What fails is found
 * again by the next READY. */
void psi_monitor_empty(ps_session *s, int64_t timeout_ms);

/* ---- monitored.c ---- */
/** What the last recovery found. PS_OK. */
ps_status psi_monitor_found(ps_session *s, struct psi_found *out_found);

/* ---- steps ---- */
/** A pull of all parameters. */
void psi_monitor_pulls(ps_session *s);
/** Under the lock: a request ends with *err while a recovery cuts it short: it says what broke the session. */
void psi_monitor_cut(const ps_session *s, struct psi_err *err);
/** A push. ABORTED, for ps_last_error(): the step is broken, nothing is to be done. */
ps_status psi_monitor_push(ps_session *s, struct psi_err *err) PSI_MUST;
/** ps_step_done() begins: likewise. */
ps_status psi_monitor_step(ps_session *s, struct psi_err *err) PSI_MUST;
/** Under the lock: steps that were dropped before this session was made anew. */
int64_t psi_monitor_dropped(const ps_session *s);
/** It has ended, or a new step begins; completed: counted. */
void psi_monitor_step_over(ps_session *s, bool completed);

#endif

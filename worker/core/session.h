/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session as a machine: its first error, the loss and the recovery of a monitored session, the step that a recovery breaks,
 * chiefs and half models, and the end.
 *
 *   RUNNING -> LOST -> DRAINING -> MAKING -> RUNNING       an error, then a recovery by one thread
 *           -> FAILED                                      an error from which the session does not recover
 *
 * The machine has no lock, no clock, no thread and no memory of its own. Whoever brings an event, or asks, holds the session's
 * lock and says who it is. Threads wait outside of the machine and ask again after every event. What a recovery does (end what is
 * in flight, replace the client, get everything again) is the caller's; the machine says who may do it, and when.
 */
#ifndef PSI_WORKER_SESSION_H
#define PSI_WORKER_SESSION_H

#include "core.h"

enum psi_session_state {
    PSI_SESSION_RUNNING,
    PSI_SESSION_LOST,       /* it has an error from which it recovers; the client is there */
    PSI_SESSION_BROKEN_OFF, /* its recovery was interrupted: there may be no client, and nothing starts before the next one */
    PSI_SESSION_DRAINING,   /* a thread recovers it: what is in flight at the old client ends */
    PSI_SESSION_MAKING,     /* a thread recovers it: another client is made, and everything is got again */
    PSI_SESSION_DOOMED,     /* a thread recovers it, and an error has come from which it does not recover */
    PSI_SESSION_FAILED,     /* it has an error from which it does not recover */
    PSI_SESSION_GIVEN_UP,   /* its recovery has failed: there may be no client, and nothing starts */
    PSI_SESSION_STATES
};

/* The end that the program makes. */
enum psi_session_end {
    PSI_SESSION_OPEN,
    PSI_SESSION_LEFT, /* ps_session_leave(): a call that is refused because of that is a failure */
    PSI_SESSION_CLOSING
};

/* The trainer's present step. */
enum psi_step {
    PSI_STEP_NEW,
    PSI_STEP_PULLED,        /* the trainer has pulled */
    PSI_STEP_PUSHED,        /* the program has pushed */
    PSI_STEP_BROKEN_PULLED, /* PULLED when another thread recovered the session: the rest of the step does nothing */
    PSI_STEP_BROKEN_PUSHED, /* PUSHED when the session was recovered: the rest of the step does nothing */
    PSI_STEPS
};

/* What a recovery makes ready. */
enum psi_readiness {
    PSI_READY_NOT_ASKED,
    PSI_READY_ASKED, /* ps_session_ready() was called */
    PSI_READY_ONCE   /* READY has succeeded: from now on a variable without a value is lost, not new */
};

/* Whether the session was chief in its last READY. */
enum psi_leads {
    PSI_LEADS_NOT,
    PSI_LEADS,
    PSI_LEADS_HALF /* it was, has found half a model, and may give up what is left of it */
};

/* What is to be done about an error. */
enum psi_stuck {
    PSI_STUCK_NOT,   /* nothing: there is an error already, or it is a consequence of a recovery */
    PSI_STUCK_FIRST, /* it is the first error, and ends the session */
    PSI_STUCK_LOSS,  /* it is the first error, and a recovery may follow */
    PSI_STUCK_TRY    /* it is an error of a recovery, which decides */
};

/* Who brings an event or asks. */
struct psi_who {
    uint64_t thread; /* number of the thread; 0: none */
    bool on_loop;    /* it is a callback of the session's loop, perhaps on the recovering thread */
};

enum { PSI_SESSION_MARKS = 2 }; /* words of marks: the ways of the states, FROM * STATES + TO; then those of steps */

struct psi_session {
    enum psi_session_state state;
    enum psi_session_end end;
    enum psi_step step;
    enum psi_readiness readiness;
    enum psi_leads leads;
    bool monitored;               /* false: every error ends the session */
    uint32_t recoveries_max;      /* in a row, without a step that counts */
    const ps_sync_options *sync;  /* kept */
    struct psi_err error;         /* the first error; PS_OK: none */
    struct psi_err cause;         /* of the last recovery: what all other threads get while it lasts */
    uint32_t in_row;              /* recoveries since the last completed step */
    uint32_t deleting;            /* calls in progress by which the program deletes a variable or queue */
    uint64_t recoverer, trainer;  /* threads: of the last recovery; that last made it ready, pushed or ended a step. 0: none */
    uint64_t restorer, restoring; /* thread in the restore function, and the chief number of that; 0: none */
    uint64_t chief_number;        /* in the last READY in which it was chief; 0: none */
    uint64_t marks[PSI_SESSION_MARKS]; /* bits of ways that were taken */
};

/** sync: kept. */
void psi_session_init(struct psi_session *m, const ps_sync_options *sync);
void psi_session_check_invariants(const struct psi_session *m);
/** A way of the tables that no session has taken: its name in out [64]; false: none. marks: of many machines. */
bool psi_session_unmarked(const uint64_t marks[PSI_SESSION_MARKS], char out[64]);

/* ---- questions ---- */
/** True if the session has no error, nobody recovers it, and it is open: who calls does not matter. */
static inline bool psi_session_runs(const struct psi_session *m)
{
    return m->state == PSI_SESSION_RUNNING && m->end == PSI_SESSION_OPEN;
}
/** True while a thread recovers the session. */
bool psi_session_recovers(const struct psi_session *m);
/** True if the session has an error from which it does not recover, whatever a recovery in progress does. */
bool psi_session_is_final(const struct psi_session *m);
/** True if the session may recover from this error. */
bool psi_session_mends(const struct psi_session *m, const struct psi_err *err);
/** True if another thread recovers the session, and who must not use it; *err, if not NULL, gets the cause. */
bool psi_session_bars(const struct psi_session *m, const struct psi_who *who, struct psi_err *err);
/** The session's first error, or the cause of a recovery that bars who; PS_OK: none. *err, if not NULL, gets an error. */
ps_status psi_session_error(const struct psi_session *m, const struct psi_who *who, struct psi_err *err);
/** PS_OK if who may start a call or a request; else *err, if not NULL, says why not. */
ps_status psi_session_may_start(const struct psi_session *m, const struct psi_who *who, struct psi_err *err);
/** True if *err only says that the session is being closed. Such an error is not the session's first error. */
bool psi_session_only_closes(const struct psi_session *m, const struct psi_err *err);
/* ---- errors ---- */
/** An error. final: the session does not recover from it, whatever its code. */
enum psi_stuck psi_session_fails(struct psi_session *m, const struct psi_who *who, const struct psi_err *err, bool final);
/** A request has ended with *err because a recovery cuts it short: replace the error by that of the loss. */
void psi_session_cuts(const struct psi_session *m, struct psi_err *err);

/** An attempt to recover has ended with *err. in_time: there is time for another one. True: the session is DRAINING again. */
bool psi_session_try_again(struct psi_session *m, const struct psi_err *err, bool in_time);
/** The recovery ends without success; PSI_ON_GIVE_UP follows. Returns the session's error: one from which it does not recover
 * and that came meanwhile, the cause if the session is being closed, or *err. */
const struct psi_err *psi_session_doomed(struct psi_session *m, const struct psi_err *err);
/** READY has ended. chief_number: 0: it was no chief. may_empty: it may give up half a model. */
void psi_session_readied(struct psi_session *m, uint64_t chief_number, ps_status st, bool may_empty);

/** What else happens, and questions. The number says more where the row says so; the answer is a number, or 0 or 1. */
enum psi_session_event {
    /* recovery */
    PSI_ON_RECOVER,   /* a lost session is recovered by who from now on, and is DRAINING, if the answer is 1 */
    PSI_ON_DRAINED,   /* nothing is in flight, and the old client is gone */
    PSI_ON_MADE,      /* the session is as before */
    PSI_ON_BREAK_OFF, /* the recovery was interrupted */
    PSI_ON_GIVE_UP,   /* after psi_session_doomed() */
    PSI_ON_TAKE_HALF, /* answer: chief number under which half a model is to be given up, said once; 0: none */
    /* steps */
    PSI_ON_PULL,      /* who pulls all parameters */
    PSI_ON_PUSH,      /* who pushes. 0: the step is broken off, and the call must do nothing */
    PSI_ON_STEP,      /* who ends the step. 0: as of a push */
    PSI_ON_STEP_OVER, /* the step has ended, or a new one begins; number 1: it was counted */
    /* ready, restore, deletion */
    PSI_ON_READY,   /* ps_session_ready() was called: from now on a recovery makes the session ready */
    PSI_ON_RESTORE, /* who runs the restore function under this chief number; 0: it has returned */
    PSI_ON_DELETE,  /* number 1: a call begins by which the program deletes a variable or queue; 0: one has ended */
    PSI_IN_RESTORE, /* chief number of the restore function, if who is in it; else 0 */
    /* the end */
    PSI_ON_LEAVE,
    PSI_ON_CLOSE,
    PSI_ON_QUIET,   /* all calls of the program have returned: an error that only said that the session closes is none */
    PSI_IS_LOST,    /* it is no final failure: a program goes on to the end of its step */
    PSI_MAY_RECOVER /* it is lost, and the next call that can recover it will */
};
uint64_t psi_session_event(struct psi_session *m, const struct psi_who *who, enum psi_session_event event, uint64_t number);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State machine of a session: its first error, the loss and the recovery of a monitored session, the step that a recovery
 * breaks, chiefs, models that are only partly initialised, and the end.
 *
 *   RUNNING -> LOST -> DRAINING -> MAKING -> RUNNING       an error, then a recovery by one thread
 *           -> FAILED                                      an error from which the session does not recover
 *
 * The machine has no lock, no clock, no thread and no memory of its own. A caller holds the session's lock and says who it is
 * (psi_who). Threads wait outside of the machine and ask again after every event. The caller does the work of a recovery (end
 * requests in flight, replace the client, open all variables again); the machine says which thread may do it, and when.
 */
#ifndef PSI_WORKER_SESSION_H
#define PSI_WORKER_SESSION_H

#include "core.h"

enum psi_session_state {
    PSI_SESSION_RUNNING,
    PSI_SESSION_LOST,       /* the session has an error from which it can recover; the client with the error still exists */
    PSI_SESSION_BROKEN_OFF, /* a recovery was interrupted: there may be no client, and no call starts before the next recovery */
    PSI_SESSION_DRAINING,   /* a thread recovers the session: it waits until the requests at the old client have ended */
    PSI_SESSION_MAKING,     /* a thread recovers the session: it makes another client, and opens every variable again */
    PSI_SESSION_DOOMED,   /* a thread recovers the session, and meanwhile an error came from which the session does not recover */
    PSI_SESSION_FAILED,   /* the session has an error from which it does not recover */
    PSI_SESSION_GIVEN_UP, /* the recovery has failed: the session may have no client, and no call starts */
    PSI_SESSION_STATES
};

/* How the program ends the session. */
enum psi_session_end {
    PSI_SESSION_OPEN,
    PSI_SESSION_LEFT, /* ps_session_leave() was called: calls are refused, and the refusal is kept as the session's error */
    PSI_SESSION_CLOSING
};

enum psi_step {
    PSI_STEP_NEW,
    PSI_STEP_PULLED,        /* the thread that trains has pulled */
    PSI_STEP_PUSHED,        /* the program has pushed */
    PSI_STEP_BROKEN_PULLED, /* another thread recovered the session after the pull: calls do nothing until the step ends */
    PSI_STEP_BROKEN_PUSHED, /* the session was recovered after the push: calls do nothing until the step ends */
    PSI_STEPS
};

/* Whether a recovery must also give the variables values, as ps_session_ready() does. */
enum psi_readiness {
    PSI_READY_NOT_ASKED,
    PSI_READY_ASKED,
    PSI_READY_ONCE /* READY has succeeded once: if a variable has no value later, the value was lost */
};

/* Whether the session was chief in its last READY. */
enum psi_leads {
    PSI_LEADS_NOT,
    PSI_LEADS,
    PSI_LEADS_HALF /* the session was chief; only a part of the variables had values, and the session may discard them */
};

/* Why a program is to stop although nothing has failed. */
enum psi_stop {
    PSI_STOP_NOT,
    PSI_STOP_ASKED, /* the cluster has asked this session to stop, or --help was given */
    PSI_STOP_DONE   /* the program has called ps_session_job_done(): its gradients and steps no longer count */
};

/* What an error means for the session: the result of psi_session_fails(). */
enum psi_stuck {
    PSI_STUCK_NOT,   /* nothing: the session has an error already, or a recovery under way has caused the new error */
    PSI_STUCK_FIRST, /* the first error, which ends the session */
    PSI_STUCK_LOSS,  /* the first error, after which a recovery may follow */
    PSI_STUCK_TRY    /* an error within a recovery: the recovering thread handles it */
};

/* The caller of the machine. */
struct psi_who {
    uint64_t thread; /* number of the calling thread; 0: none */
    bool on_loop;    /* the caller is a callback of the session's loop, perhaps on the recovering thread */
    /* 1 + psi_session.lives at the time when the call pushed or ended a step; if lives has grown since, the session was recovered
     * in between. 0: the call has done neither */
    uint64_t life;
};

/* number of words in psi_session.marks: the first for transitions of `state`, the second for those of `step` */
enum { PSI_SESSION_MARKS = 2 };

struct psi_session {
    enum psi_session_state state;
    enum psi_session_end end;
    enum psi_step step;
    enum psi_readiness readiness;
    enum psi_leads leads;
    enum psi_stop stop;
    bool monitored;               /* false: every error ends the session */
    uint32_t recoveries_max;      /* number of recoveries allowed in a row without a completed step */
    const ps_sync_options *sync;  /* the session's options; kept, and owned by the caller */
    struct psi_err error;         /* the first error, which all calls return */
    struct psi_err cause;         /* why the last recovery began; during a recovery calls of other threads return this error */
    uint32_t in_row;              /* number of recoveries since the last completed step */
    uint64_t lives;               /* number of clients that recoveries have closed */
    uint32_t deleting;            /* number of running calls by which the program deletes a variable or queue */
    uint64_t recoverer, trainer;  /* threads of the last recovery, and of the last READY, push or end of a step; 0: none */
    uint64_t restorer, restoring; /* thread in the restore function, and the chief number under which it restores; 0: none */
    uint64_t chief_number;        /* chief number of the session in its last READY as chief; 0: it never was chief */
    uint64_t marks[PSI_SESSION_MARKS]; /* a bit for each transition that was taken: bit FROM * STATES + TO */
};

/** Set m to RUNNING, open and not monitored. sync: the session's options; m keeps the pointer. */
void psi_session_init(struct psi_session *m, const ps_sync_options *sync);
void psi_session_check_invariants(const struct psi_session *m);
/** Write into out [64] the name of a transition that no session has taken. False: all were. marks: psi_session.marks, ORed. */
bool psi_session_unmarked(const uint64_t marks[PSI_SESSION_MARKS], char out[64]);

#define PSI_STEP_IS_BROKEN "the session was made anew in the middle of this step: it is made again"

/** True if the session has no error, is open, and was never recovered: any caller may use it. */
static inline bool psi_session_runs(const struct psi_session *m)
{
    return m->state == PSI_SESSION_RUNNING && m->end == PSI_SESSION_OPEN && m->lives == 0;
}
bool psi_session_recovers(const struct psi_session *m);
/** True if the session has an error from which it does not recover, whatever a running recovery does. */
bool psi_session_is_final(const struct psi_session *m);
/** True if this error is one from which the session may recover now. */
bool psi_session_mends(const struct psi_session *m, const struct psi_err *err);
/** True if `who` must not use the session; *err, if not NULL, gets the reason. Either another thread recovers the session, or
 * (with ABORTED) a recovery has closed the client with which the call of `who` has pushed or ended a step (who->life). */
bool psi_session_bars(const struct psi_session *m, const struct psi_who *who, struct psi_err *err);
/** The session's first error, or the error that keeps `who` from using it (psi_session_bars()); also in *err unless NULL. */
ps_status psi_session_error(const struct psi_session *m, const struct psi_who *who, struct psi_err *err);
/** PS_OK if `who` may start a call or a request; else *err, if not NULL, says why not. */
ps_status psi_session_may_start(const struct psi_session *m, const struct psi_who *who, struct psi_err *err);
/** True if *err says only that the session is being closed. Any other error replaces such an error of the session. */
bool psi_session_only_closes(const struct psi_session *m, const struct psi_err *err);
/** Handle an error, and say what it means for the session. final: the session does not recover from it, whatever its code. */
enum psi_stuck psi_session_fails(struct psi_session *m, const struct psi_who *who, const struct psi_err *err, bool final);
/** Handle the error of a request of a queue. If *err says that a monitored session has lost the queue, its code becomes ABORTED,
 * or, if the program itself deleted the queue while the request waited (deletes), CANCELLED. True: the session recovers from the
 * loss; then call psi_session_fails(), unless the request was sent by an earlier client. */
bool psi_session_loses_queue(const struct psi_session *m, bool deletes, struct psi_err *err);
/** If *err is the DEADLINE_EXCEEDED by which a recovery ends requests, give it code and reason of the recovery's cause. */
void psi_session_cuts(const struct psi_session *m, struct psi_err *err);

/** Call when an attempt to recover has failed with *err. in_time: there is time for another attempt. True: DRAINING again. */
bool psi_session_try_again(struct psi_session *m, const struct psi_err *err, bool in_time);
/** Call when the recovery ends without success; PSI_ON_GIVE_UP must follow. Returns the session's error: an error that came
 * meanwhile and ends the session; if there is none, the cause of the recovery if the session is being closed, else *err. */
const struct psi_err *psi_session_doomed(struct psi_session *m, const struct psi_err *err);

/** Events and questions for psi_session_event(). Their comments say what `number` means, and which answer is not 0 or 1. */
enum psi_session_event {
    /* recovery */
    PSI_ON_RECOVER,   /* answer 1: the lost session is DRAINING now, and `who` recovers it */
    PSI_ON_DRAINED,   /* no request is in flight, and the old client is gone */
    PSI_ON_MADE,      /* the recovery has succeeded */
    PSI_ON_BREAK_OFF, /* the recovery was interrupted */
    PSI_ON_GIVE_UP,   /* after psi_session_doomed() */
    /* answer, given once: chief number under which the caller must discard a model that lacks values; 0: no model lacks any */
    PSI_ON_TAKE_HALF,
    /* steps */
    PSI_ON_PULL, /* `who` reads parameters */
    /* `who` pushes. Answer: psi_who.life for the rest of the call; 0: the step is broken off, and the call must do nothing */
    PSI_ON_PUSH,
    PSI_ON_STEP,      /* `who` ends the step. Answer: psi_who.life, or 0: the step is broken off (PSI_ON_PUSH) */
    PSI_ON_STEP_OVER, /* the step has ended, or another one begins; number 1: it was counted */
    /* ready, restore, deletion */
    PSI_ON_READY,        /* ps_session_ready() was called: from now on a recovery makes the session ready */
    PSI_ON_READIED,      /* READY has ended. number: chief number of this session; 0: it was not chief */
    PSI_ON_READIED_HALF, /* as PSI_ON_READIED, and this session as chief may discard a model of which a part has no values */
    PSI_ON_WAS_READY,    /* READY has succeeded. Answer 1: for the first time */
    PSI_ON_RESTORE,      /* `who` runs the restore function under this chief number; 0: the function has returned */
    PSI_ON_DELETE,       /* number 1: a call begins by which the program deletes a variable or queue; 0: such a call has ended */
    PSI_IN_RESTORE, /* answer: chief number of the running restore function, for its thread and for the loop thread; 0: none */
    /* the end */
    PSI_ON_STOP, /* number: an enum psi_stop */
    PSI_ON_LEAVE,
    PSI_ON_CLOSE,
    PSI_ON_QUIET,      /* all calls have returned: if the session's error only says that the session closes, it is dropped */
    PSI_IS_LOST,       /* asked after an error. 1: the session can recover, and the program may finish its step first */
    PSI_MAY_RECOVER,   /* answer 1: the session is lost, or a recovery is under way, and the session may run again */
    PSI_IS_RECOVERING, /* psi_session_recovers() */
    PSI_IS_CHIEF       /* true if the session was chief in its last READY */
};
uint64_t psi_session_event(struct psi_session *m, const struct psi_who *who, enum psi_session_event event, uint64_t number);

#endif

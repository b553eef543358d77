/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State machine of training: the parameters of a session, and the calls by which a program pulls, pushes and ends steps.
 *
 *   a call: psi_training_next() says what to do next -> the caller does it -> psi_training_did() -> ... -> OVER
 *   the end of a request is an event: psi_training_read(), psi_training_pushed() and so on
 *
 * The machine has no lock, no clock, no thread and no memory of its own. Callers hold the session's lock: the program's threads,
 * the loop, a device's thread. Any number of calls may be in progress. A call that must wait asks again after every event. The
 * simulator (tests/sim/lib/train.c) drives the same machine.
 */
#ifndef PSI_WORKER_TRAINING_H
#define PSI_WORKER_TRAINING_H

#include "core.h"

/* Note in psi_training.marks that a rare path or a transition was taken; tests check that each of them was
 * (psi_training_unmarked()). */
#define PSI_MARK(t_, bit_) ((t_)->marks |= (uint64_t)1 << (bit_))

/* Whether a thread uses the session exclusively. */
enum psi_training_state {
    PSI_TRAINING_RUNNING,  /* no thread uses the session exclusively */
    PSI_TRAINING_READYING, /* a thread makes the session ready */
    PSI_TRAINING_STEPPING, /* a thread ends a step of a session that trains in rounds or with bounded staleness */
    PSI_TRAINING_STATES
};

/* Membership in a group of sessions that train in rounds or with bounded staleness, and so wait for each other. */
enum psi_membership {
    PSI_MEMBER_NONE,    /* the session trains alone */
    PSI_MEMBER_JOINED,  /* the session has not ended a step since it joined: other workers may still have to start */
    PSI_MEMBER_STEPPED, /* the session has ended a step since it joined */
    PSI_MEMBER_WAITED,  /* bounded staleness: the step has waited for the other workers, and is not counted yet */
    PSI_MEMBERSHIPS
};

/* What a parameter's second buffer holds: values that came ahead, for the next ps_pull() to take. */
enum psi_param_value {
    PSI_VALUE_STALE,  /* nothing: the next ps_pull() reads the value from its task */
    PSI_VALUE_COMING, /* values of a push-pull, or of a read ahead (`prefetch`), are on their way into the second buffer */
    PSI_VALUE_THERE,  /* the second buffer has values for the next ps_pull() */
    PSI_VALUES
};

enum psi_param_read {
    PSI_READING_NONE,
    PSI_READING_HERE,  /* the values go into the value buffer, and a thread waits for them */
    PSI_READING_AHEAD, /* into the second buffer */
    PSI_READINGS
};

/* A parameter's gradient buffer. */
enum psi_param_gradient {
    PSI_GRADIENT_FREE,     /* the program owns the buffer */
    PSI_GRADIENT_FETCHING, /* the gradient is on its way from a device to the host; its push has not begun */
    PSI_GRADIENT_PUSHING,  /* a push sends the gradient, and has not ended */
    PSI_GRADIENTS
};

/* Bits of psi_training.marks. PSI_MARKS_*: the first bit of a table of transitions, in which FROM -> TO is bit FROM * STATES + TO
 * (ways.h). PSI_MARK_*: the bit of a rare path that no table has. */
enum {
    PSI_MARKS_VALUE = 0,
    PSI_MARKS_GRADIENT = 12,
    PSI_MARKS_STATE = 24,
    PSI_MARKS_MEMBER = 36,
    PSI_MARK_ADD_LEFT = 52, /* a step waits for the addition to the global step that an interrupted call began */
    PSI_MARK_ADD_AT_ONCE,   /* the addition to the global step began with the acknowledgement of a step's last push */
    PSI_MARK_PUSHED_TWICE,
    PSI_MARK_NOT_PUSHED,
    PSI_MARK_TURN_WAITS,  /* a call waits until another thread no longer uses the session exclusively */
    PSI_MARK_READ_AGAIN,  /* a pull reads again, because another thread's push has made its values old */
    PSI_MARK_OWN_READ,    /* an interrupted call waits until its read no longer writes to the program's memory */
    PSI_MARK_LATE_HANDED, /* a push from a device ended before the device's thread had returned from starting it */
    PSI_MARKS
};

struct psi_training_param {
    struct psi_list link; /* link in training.params, in order of creation */
    const char *name;     /* not copied */
    enum psi_param_value value;
    enum psi_param_read read;
    enum psi_param_gradient gradient;
    bool open;              /* the variable was got; false: not yet, or the parameter is a dummy, made after a failure */
    bool trained;           /* the variable has an optimizer */
    bool by_rows;           /* an embedding: pulls skip the parameter, and the program reads its rows */
    bool exact, next_exact; /* true: all values read last (exact), or in the second buffer (next_exact), are of one version */
    bool apart;             /* the push in flight uses the second gradient buffer, and the program owns the first */
    unsigned interrupts;    /* PSI_READING_HERE: how often the session had been interrupted when the reading call began */
    uint64_t version, next_version; /* versions of the last read values, and of those in the second buffer */
    uint64_t pushed_step;           /* rounds: training.step at the last push of this parameter; 0: none */
    uint64_t push_number;           /* number of this parameter's last push, counted from 1; 0: none */
    /* numbers of pulls. read_pull: the newest pull (training.pulls) when the read in flight began. value_pull: pulls up to this
     * number take the present values, newer pulls read again */
    uint64_t read_pull, value_pull;
};

/* An addition to the global step. The session makes and frees it; a list of psi_training or a call holds it. */
struct psi_training_add {
    struct psi_list link; /* link in adds_left or adds_spare */
    bool over;            /* the addition has ended, with err or value */
    int64_t one, value;
    struct psi_err err;
};

struct psi_training {
    struct psi_list params; /* struct psi_training_param.link */
    /* lists of psi_training_add.link. adds_left: additions of interrupted calls, which the next call awaits; adds_spare: free */
    struct psi_list adds_left, adds_spare;
    enum psi_training_state state;
    enum psi_membership member;
    ps_sync_mode mode;       /* mode of the membership; NONE: the session is no member */
    bool prefetch;           /* a pull reads the values for the next pull ahead */
    struct psi_call *ending; /* a STEP call that waits for pushes, or for its addition to the global step; NULL: none */
    uint32_t pushes;         /* number of parameters whose gradient is not FREE */
    uint32_t fetching;       /* number of threads of a device that still use the session, to push a gradient */
    uint64_t pulls;          /* number of calls that pulled so far */
    uint64_t step;           /* 1 + number of steps that the session has ended as a member */
    uint64_t marks;          /* bits PSI_MARK_...: the transitions and rare paths that were taken */
};

enum psi_call_kind {
    PSI_CALL_PULL, /* pull one parameter, or all */
    PSI_CALL_PUSH, /* push one parameter */
    PSI_CALL_STEP,
    /* waits for exclusive use, to make the session ready. psi_training_turn_over() must follow unless the call was interrupted */
    PSI_CALL_READY,
    PSI_CALL_EXCHANGE, /* an interrupted ps_param_grad() needs a free buffer: PSI_DO_TAKE exchanges the gradient buffers */
    PSI_CALL_GRADIENT, /* waits until the gradient buffer of one parameter is free */
    PSI_CALL_QUIET     /* waits until no push is in flight */
};

enum psi_call_end {
    PSI_END_FINE,
    PSI_END_INTERRUPTED,
    PSI_END_FAILED, /* the session has failed */
    PSI_END_REFUSED /* psi_training_next() has failed, or psi_training_did() reported that the caller could not do its part */
};

/* What the caller must do next. After all but OVER, WAIT and TAKE it calls psi_training_did(). */
enum psi_do {
    PSI_DO_OVER,  /* nothing: the call is over, see call->end */
    PSI_DO_WAIT,  /* wait for an event, then ask again */
    PSI_DO_TAKE,  /* give the program the values of call->at, from the second buffer if call->exchange */
    PSI_DO_READ,  /* start to read call->at into its value buffer */
    PSI_DO_AHEAD, /* start to read call->at into its second buffer, which may have to be made */
    PSI_DO_PUSH,  /* push call->param, as a push-pull if call->brings; from a device: call psi_training_fetches() first */
    PSI_DO_CHECK, /* find out whether the step counts: call->skips */
    PSI_DO_STEP,  /* wait for the other workers, longer if call->first; psi_training_stepped() when they have answered */
    PSI_DO_ADD    /* add one to the global step; call->add: a spare record for the addition; NULL: the caller makes one */
};

/* A call in progress: on the stack of its thread. The caller sets the fields up to `interrupts`. */
struct psi_call {
    enum psi_call_kind kind;
    struct psi_training_param *param; /* PULL: NULL for all parameters */
    bool brings;                      /* PUSH: the push also brings the new values, into the second buffer */
    bool only_waits;     /* PULL, after a failure: begin no read, wait for the reads in flight, and do not end FINE */
    bool has_apart;      /* EXCHANGE: there is a second gradient buffer */
    bool nested;         /* STEP, READY: within a call that already uses the session exclusively */
    unsigned interrupts; /* how many times the session had been interrupted when the call began */
    /* set by the machine: */
    unsigned stage;
    uint64_t number; /* PULL: how many calls had pulled (training.pulls) when this call began */
    struct psi_training_param *at;
    struct psi_training_add *add;
    bool passed;      /* PULL: nothing is left to do at `at`; the stage continues with the next parameter */
    bool refused;     /* psi_training_did() had ok false: what psi_training_next() asked for was not done */
    bool exchange;    /* TAKE: the values are in the second buffer, which becomes the value buffer */
    bool first;       /* STEP: the session's first step since it joined, which waits longer for the other members */
    bool skips;       /* result of CHECK: a guard has skipped the step, which does not count */
    bool turn;        /* the call uses the session exclusively */
    bool rounds;      /* rounds count the step, so the call adds nothing to the global step */
    bool add_pending; /* OVER: the call was interrupted before its addition ended, for which the next call waits */
    bool counted;     /* OVER: the step counts */
    int64_t value;    /* number of the counted step; in rounds the caller sets it, from the answer to PSI_DO_STEP */
    enum psi_call_end end;
};

/* The present situation of the calling thread. */
struct psi_now {
    bool interrupted; /* the thread's call was interrupted, and must not wait */
    bool failed;      /* the session has failed, or another thread recovers it */
    bool on_loop;     /* the thread runs a callback of the loop, which must not wait */
};

#define PSI_CALL_BLOCKS "a call that blocks cannot be made in a callback of the library"

void psi_training_init(struct psi_training *t);
/** Add p to the parameters. The caller has zeroed p, then set name, open, trained and by_rows. */
void psi_training_add(struct psi_training *t, struct psi_training_param *p);

/** Continue a call. REFUSED: the reason is in *err, unless psi_training_did() has reported a failure. */
enum psi_do psi_training_next(struct psi_training *t, struct psi_call *call, const struct psi_now *now, struct psi_err *err);
/** Call when what psi_training_next() asked for is done. ok false: the caller could not do it, and nothing of it is in flight. */
void psi_training_did(struct psi_training *t, struct psi_call *call, bool ok);
/** Call when the thread that made the session ready has finished or failed: other threads may use the session again. */
void psi_training_turn_over(struct psi_training *t);

/** Call when a read, or a push, of p has ended. ok false: with an error. version, exact: of the values that came. */
void psi_training_read(struct psi_training *t, struct psi_training_param *p, bool ok, uint64_t version, bool exact);
void psi_training_pushed(struct psi_training *t, struct psi_training_param *p, bool ok, uint64_t version, bool exact);
/**
 * Call when all pushes of a step are acknowledged, and the thread that ends the step sleeps. Returns the addition to the global
 * step that the caller must start now, so that the thread need not wake up for it; NULL: none. If the addition cannot be started,
 * the caller sets its `over` and `err`. Not for a session that has failed, nor while the call of t->ending is interrupted.
 */
struct psi_training_add *psi_training_begins_add(struct psi_training *t);
/** True if the call of t->ending would still wait if its thread woke up now. */
bool psi_training_ending_waits(const struct psi_training *t);
/** Call before the gradient of p is fetched from a device. Returns the number of its push, for psi_training_handed(). */
uint64_t psi_training_fetches(struct psi_training *t, struct psi_training_param *p);
/** Call when the device's thread has started the push, or called psi_training_refused(), and uses the session no longer. */
void psi_training_handed(struct psi_training *t, struct psi_training_param *p, uint64_t push_number);
/** Call when the push of p from a device could not be started. */
void psi_training_refused(struct psi_training *t, struct psi_training_param *p);

/** psi_training_joined(): call when the session has become a member of rounds or bounded staleness. psi_training_stepped(): when
 * its step has waited for the other workers as the mode says. psi_training_left(): when it is no longer a member. */
void psi_training_joined(struct psi_training *t, ps_sync_mode mode);
void psi_training_stepped(struct psi_training *t);
void psi_training_left(struct psi_training *t);
bool psi_training_is_pushed(const struct psi_training *t, const struct psi_training_param *p);
/** Call in a recovery, when nothing is in flight: forgets values, pushes and additions, which were of the old model. */
void psi_training_forget(struct psi_training *t);
/** Write into out [64] the name of a transition that no call has taken. False: all were. marks: psi_training.marks, ORed. */
bool psi_training_unmarked(uint64_t marks, char out[64]);
void psi_training_check_invariants(const struct psi_training *t);

#endif

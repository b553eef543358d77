/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training as a machine: the parameters of a session, and the calls by which a program pulls, pushes and ends steps.
 *
 *   a call:    psi_training_next() says what is to be done next -> the caller does it -> psi_training_did() -> ... -> OVER
 *   requests:  their ends are events: psi_training_read(), _pushed(), _added(), _stepped(); of a device: _fetches(), _handed()
 *
 * The machine has no lock, no clock, no thread and no memory of its own. Whoever brings an event holds the session's lock: the
 * program's threads, the loop, a device's thread. Any number of calls may be in progress. A call that is told to wait asks again
 * after every event. The simulator (tests/sim/lib/train.c) drives the same machine.
 */
#ifndef PSI_WORKER_TRAINING_H
#define PSI_WORKER_TRAINING_H

#include "core.h"

/* A rare way through the machine, or a row of a table of ways, was taken: psi_training.marks. */
#define PSI_MARK(t_, bit_) ((t_)->marks |= (uint64_t)1 << (bit_))

/* Whether one thread has the session for itself. */
enum psi_training_state {
    PSI_TRAINING_RUNNING,  /* no thread has */
    PSI_TRAINING_READYING, /* a thread makes the session ready */
    PSI_TRAINING_STEPPING, /* a thread ends the step of a member of rounds or bounded staleness */
    PSI_TRAINING_STATES
};

/* Membership of rounds or bounded staleness. */
enum psi_membership {
    PSI_MEMBER_NONE,    /* the session trains alone */
    PSI_MEMBER_JOINED,  /* it has not ended a step yet: the other workers may have to start */
    PSI_MEMBER_STEPPED, /* it has, so all workers have joined */
    PSI_MEMBER_WAITED,  /* bounded staleness: the step has waited for the others, and is not counted yet */
    PSI_MEMBERSHIPS
};

/* What the next ps_pull() of a parameter finds. */
enum psi_param_value {
    PSI_VALUE_STALE,  /* nothing: it reads the value */
    PSI_VALUE_COMING, /* values are on their way into the second buffer: of a push-pull, or of a read ahead (`prefetch`) */
    PSI_VALUE_THERE,  /* the second buffer has them */
    PSI_VALUES
};

/* A parameter's read. */
enum psi_param_read {
    PSI_READING_NONE,
    PSI_READING_HERE,  /* into the value buffer: a thread waits for it */
    PSI_READING_AHEAD, /* into the second buffer */
    PSI_READINGS
};

/* A parameter's gradient buffer. */
enum psi_param_gradient {
    PSI_GRADIENT_FREE,     /* the program's */
    PSI_GRADIENT_FETCHING, /* on its way from a device to the host; the push has not begun */
    PSI_GRADIENT_PUSHING,  /* a push has it */
    PSI_GRADIENTS
};

/* Bits of psi_training.marks: the tables of ways from these bits on, FROM * 4 + TO each; then rare ways that are in no table. */
enum {
    PSI_MARKS_VALUE = 0,
    PSI_MARKS_GRADIENT = 12,
    PSI_MARKS_STATE = 24,
    PSI_MARKS_MEMBER = 36,
    PSI_MARK_ADD_LEFT = 52, /* a step waits for the addition of one that was interrupted */
    PSI_MARK_ADD_AT_ONCE,   /* the last acknowledgement of a step has begun its addition */
    PSI_MARK_PUSHED_TWICE,
    PSI_MARK_NOT_PUSHED,
    PSI_MARK_TURN_WAITS,  /* a call waits until another thread's step is over */
    PSI_MARK_READ_AGAIN,  /* a push of another thread has made values old that a pull was about to take */
    PSI_MARK_OWN_READ,    /* an interrupted call waits for values that are being written to the program's memory */
    PSI_MARK_LATE_HANDED, /* a push from a device ended before its device's thread came back from starting it */
    PSI_MARKS
};

struct psi_training_param {
    struct psi_list link; /* in training.params, in order of creation */
    const char *name;     /* kept */
    enum psi_param_value value;
    enum psi_param_read read;
    enum psi_param_gradient gradient;
    bool open;              /* it has a variable; false: a dummy, made after a failure, which nothing is done with */
    bool trained;           /* it has an optimizer */
    bool by_rows;           /* an embedding: pulls do nothing with it, the program reads its rows */
    bool exact, next_exact; /* of the values read last, and of those in the second buffer, as the versions */
    bool apart;             /* the push in flight has the second gradient buffer, and the first one is the program's */
    unsigned interrupts;    /* HERE: number of interrupts at the beginning of the call that reads */
    uint64_t version, next_version;
    uint64_t pushed_step; /* rounds: training.step at its last push; 0: none */
    uint64_t push_number; /* counts its pushes */
    /* training.pulls when the read began that is in flight, and when the value buffer got what it has: pulls up to that number
     * need no other read */
    uint64_t read_pull, value_pull;
};

/* An addition to the global step. The owner of the machine makes and frees it; it is in a list of the machine, or a call's. */
struct psi_training_add {
    struct psi_list link; /* in adds_left or adds_spare */
    bool over;            /* it has ended, with err or value */
    int64_t one, value;
    struct psi_err err;
};

struct psi_training {
    struct psi_list params; /* struct psi_training_param.link */
    /* struct psi_training_add.link: of interrupted calls, which the next one awaits; free records */
    struct psi_list adds_left, adds_spare;
    enum psi_training_state state;
    enum psi_membership member;
    ps_sync_mode mode;       /* of the membership; NONE: none */
    bool prefetch;           /* a pull reads the values of the next one ahead */
    struct psi_call *ending; /* a STEP that waits for pushes, or for its addition; NULL: none, or others go first */
    uint32_t pushes;         /* parameters whose gradient is not FREE */
    uint32_t fetching;       /* threads of a device that still use the session, for a push */
    uint64_t pulls;          /* counts calls that pull */
    uint64_t step;           /* counts the steps that a member has ended, from 1 */
    uint64_t marks;          /* bits of ways that were taken */
};

enum psi_call_kind {
    PSI_CALL_PULL,     /* of one parameter, or of all */
    PSI_CALL_PUSH,     /* of one parameter */
    PSI_CALL_STEP,     /* the end of a step */
    PSI_CALL_READY,    /* waits for its turn to make the session ready: psi_training_turn_over() must follow unless it was
                          interrupted */
    PSI_CALL_GRADIENT, /* waits until the gradient buffer of one parameter is free */
    PSI_CALL_QUIET     /* waits until no push is in flight */
};

enum psi_call_end {
    PSI_END_FINE,
    PSI_END_INTERRUPTED,
    PSI_END_FAILED, /* the session has failed */
    PSI_END_REFUSED /* with an error: that of psi_training_next(), or of what the caller did */
};

/* What the caller does next. Without the lock unless it says otherwise, and then psi_training_did() follows. */
enum psi_do {
    PSI_DO_OVER,  /* nothing: call->end; under the lock, no psi_training_did() */
    PSI_DO_WAIT,  /* wait for an event, then ask again; under the lock, no psi_training_did() */
    PSI_DO_TAKE,  /* the values of call->at are the program's from now on, of the second buffer if call->exchange; as WAIT */
    PSI_DO_READ,  /* start to read call->at into its value buffer */
    PSI_DO_AHEAD, /* start to read call->at into its second buffer, which may have to be made */
    PSI_DO_PUSH,  /* push call->at, as a push-pull if call->brings; from a device: psi_training_fetches() first */
    PSI_DO_CHECK, /* look whether the step counts: call->skips */
    PSI_DO_STEP,  /* wait for the other workers, longer if call->first; psi_training_stepped() when they answer */
    PSI_DO_ADD    /* add one to the global step: call->add is the record, a spare one or a new one */
};

/* A call in progress: on the stack of its thread. The caller sets the fields up to interrupts. */
struct psi_call {
    enum psi_call_kind kind;
    struct psi_training_param *param; /* PULL: NULL for all */
    bool brings;                      /* PUSH: the values after it are to come to the second buffer */
    bool only_waits;                  /* PULL: after a failure, begin no read, and wait for those of other threads */
    bool nested;                      /* STEP: within a call that has the session for itself already */
    unsigned interrupts;              /* number of interrupts at its beginning */
    /* the machine's: */
    unsigned stage;
    uint64_t number; /* PULL: training.pulls at its beginning */
    struct psi_training_param *at;
    struct psi_training_add *add;
    bool passed;                 /* `at` is done with */
    bool refused;                /* what it had to do could not be done */
    bool exchange, first, skips; /* for TAKE; for STEP; of CHECK */
    bool turn;                   /* it has the session for itself */
    bool rounds;                 /* the round counts the step, and no addition does */
    bool left;                   /* OVER: it was interrupted, and its addition goes on for the next call */
    bool counted;                /* OVER: the step counts */
    int64_t value;               /* number of the step that counts; set by the caller of STEP in rounds */
    enum psi_call_end end;
};

/* What is true for the calling thread at the moment. */
struct psi_now {
    bool interrupted; /* its call was interrupted, and waits no more */
    bool failed;      /* the session has failed, or another thread recovers it */
    bool on_loop;     /* it is in a callback of the loop, which must not wait */
};

#define PSI_CALL_BLOCKS "a call that blocks cannot be made in a callback of the library"

void psi_training_init(struct psi_training *t);
/** p is zeroed but for open, trained and name. */
void psi_training_add(struct psi_training *t, struct psi_training_param *p);

/** Go on with a call. REFUSED: the reason is in *err, unless psi_training_did() was told of a failure. */
enum psi_do psi_training_next(struct psi_training *t, struct psi_call *call, const struct psi_now *now, struct psi_err *err);
/** The caller has done what psi_training_next() returned, or (ok false) has failed to, and nothing of that is in flight. */
void psi_training_did(struct psi_training *t, struct psi_call *call, bool ok);
/** The thread that was to make the session ready is done, or has failed. Other threads may use the session again. */
void psi_training_turn_over(struct psi_training *t);

/** A read, or a push, of p has ended. */
void psi_training_read(struct psi_training *t, struct psi_training_param *p, bool ok, uint64_t version, bool exact);
void psi_training_pushed(struct psi_training *t, struct psi_training_param *p, bool ok, uint64_t version, bool exact);
/**
 * All pushes of a step are acknowledged, and its thread sleeps: the addition to the global step that is to begin now, so that the
 * thread need not wake up for it. NULL: none. Whoever brings the last acknowledgement starts it; if that fails, the addition is
 * over with the error. The session has not failed, and the call of t->ending was not interrupted.
 */
struct psi_training_add *psi_training_begins_add(struct psi_training *t);
/** The call of t->ending would not go on if its thread woke up now. */
bool psi_training_ending_waits(const struct psi_training *t);
/** p's gradient has to come from a device. Returns the number of the push, for _handed(). */
uint64_t psi_training_fetches(struct psi_training *t, struct psi_training_param *p);
/** The device's thread has started that push, or (after _refused()) has not, and uses the session no more. */
void psi_training_handed(struct psi_training *t, struct psi_training_param *p, uint64_t push_number);
/** The push of p from a device could not be started. */
void psi_training_refused(struct psi_training *t, struct psi_training_param *p);
/** An interrupted call takes the gradient buffer that a push uses: true if it is to take the second one. */
bool psi_training_exchanges(struct psi_training_param *p);

/** The session has joined; a member's step has met the others; it is no member any more. */
void psi_training_joined(struct psi_training *t, ps_sync_mode mode);
void psi_training_stepped(struct psi_training *t);
void psi_training_left(struct psi_training *t);
/** In rounds, p was pushed in this step. */
bool psi_training_is_pushed(const struct psi_training *t, const struct psi_training_param *p);
/** The model is gone: no values are on their way or were read, nothing was pushed, no addition counts. Nothing is in flight. */
void psi_training_forget(struct psi_training *t);
/** Ways of the tables that no call has taken: the first one's name in out [64]; false: none. marks: of many machines. */
bool psi_training_unmarked(uint64_t marks, char out[64]);
void psi_training_check_invariants(const struct psi_training *t);

#endif

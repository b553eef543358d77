/* SPDX-License-Identifier: Apache-2.0 */
/* Training programs in the simulated world (train.c): a session, its threads and its parameters. */
#ifndef SIM_TRAIN_H
#define SIM_TRAIN_H

#include "sim.h"

#include "worker/core/gets.h"
#include "worker/core/hook_calls.h"
#include "worker/core/readying.h"
#include "worker/core/session.h"
#include "worker/core/training.h"

enum {
    THREADS = 3,
    PARAMS = 8,
    ADDS = 16,
    WAITS = 4, /* of one call: a push, a read, the other workers, an addition; beside one read of each parameter */
    FETCH_MS = 60,
    DRAIN_MS = 1000,
    RECOVERY_MS = 20000,
    GRACE_MS = 1500,
    GATE_MS = 2500,
    QUEUE_MS = 900,
    STANDS_MS = 8000
};

struct param {
    struct psi_training_param t; /* first member */
    struct psi_get get;
    uint32_t var;
    bool on_device, reads, pushes;
    uint32_t reader;        /* READING_HERE: 1 + the thread */
    uint64_t fetched_at;    /* its gradient comes from the device then; 0: none comes */
    uint64_t handed_at;     /* when the device's thread comes back from starting the push; 0: it is back */
    uint64_t fetch_number;  /* the push that is fetched for */
    uint64_t handed_number; /* the push that the device's thread has started */
    bool brings;            /* the push is a push-pull */
    uint64_t acknowledged;  /* version after the last push */
    uint32_t pushed_life;   /* monitored: number of the client that had the trainer's last push */
};
struct add {
    struct psi_training_add t; /* first member */
    struct sim_op *op;
};
/* Hooks that a thread calls: train_hooks.c. */
struct moment {
    enum psi_hook_moment of; /* NONE: it calls none */
    bool recovered;
    bool asked, due;     /* due, once asked: the moment has come for this thread */
    bool in_hook;        /* a hook runs, until `until` */
    unsigned interrupts; /* sim_train.interrupts at its begin */
    uint64_t until;
};
struct hooks {
    struct psi_hook_calls m;
    bool has_begun, was_created; /* the program knows that `begin`, and `after_create_session`, are over */
    /* the oracle's book: hooks were called for begin; after_create_session has come; hooks were called for a step that has not
     * ended; the end has come */
    bool begun, created, stepping, ended;
    enum psi_hook_moment cut; /* the last interrupt has ended the calls of this moment at hook cut_at; NONE: of none */
    uint32_t cut_at;
    uint64_t told; /* steps whose after_run has come */
};
/* A thread makes the session ready: train_ready.c. */
struct readies {
    struct psi_readying m;
    bool restore_fails;    /* the restore function says that it has failed */
    uint32_t given, gives; /* variables that it has given values, of those that it gives them */
};
struct thread {
    struct psi_call call;
    struct moment moment;
    struct readies readying;
    bool readies;          /* it carries out what sim_train.readying asks for */
    bool in_call, cut;     /* cut: its request has ended because the thread was interrupted */
    enum psi_do doing;     /* OVER: nothing */
    struct sim_op *op;     /* STEP or JOIN that it waits for */
    bool met;              /* rounds: its STEP was answered, and the call will count it */
    uint64_t life;         /* psi_who.life */
    uint64_t apart_lives;  /* psi_session.lives when its call at the queue or a barrier began */
    uint64_t apart_cut_ms; /* when the threads were interrupted for the first time since; 0: they were not */
    uint32_t checked_life; /* sim_train.life when the session's machine has let the call through */
    uint64_t begun_ms;     /* later by the time that it stood still */
    uint64_t stands_until;
    enum psi_gets_do gets; /* RUN, SETTLE: it runs `batch` until gets_end, in a call that began at get_interrupts */
    struct psi_list batch;
    uint64_t gets_end;
    unsigned get_interrupts;
    uint64_t floor[PARAMS];
};
struct sim_train {
    struct psi_training t;
    struct param param[PARAMS];
    struct thread thread[THREADS + 1]; /* the last one closes the session */
    struct hooks hooks;
    struct psi_gets gets;
    struct psi_get queue_get; /* of the queue that threads use apart from steps */
    struct add add[ADDS];
    struct psi_training_add *at_once; /* an addition that the last acknowledgement has begun, and that is to be started */
    uint32_t threads, add_count;
    unsigned interrupts;
    struct psi_session m;
    ps_sync_options loss;          /* for m */
    bool ending, closing, rejoins; /* ending: the last hooks are called, then the session closes */
    bool stepping;                 /* the first thread has begun its step */
    bool anew;                     /* the client is being replaced: the next session of the program goes on with this */
    bool pulled;                   /* monitored: the trainer has pulled in this step */
    uint32_t pushed;               /* monitored: parameters that the trainer has pushed in this step, as it thinks */
    uint32_t life;                 /* counts clients */
    uint32_t drained_life;         /* sim_program.life of the client that goes */
    uint64_t recovery_ends;        /* the present one */
    struct psi_err not_ready;      /* why the present client is not ready */
    bool ready;                    /* the session has been ready */
    bool restores, starts_over;    /* the program has a restore function; it gives half a model up */
    const struct thread *asks;     /* the thread whose request begins */
    uint64_t empties;              /* chief number of the RESET that empties half a model */
    uint64_t met, counted, added;
};

static inline struct param *sim_param_of(struct psi_training_param *p)
{
    return (struct param *)(void *)p;
}

struct psi_who sim_who(const struct sim_train *t, const struct thread *h);
/** An error of the loop, or of a hook. */
void sim_train_fails(struct sim *s, struct sim_train *t, const struct psi_err *err, bool final);

/** Any call. */
struct psi_call sim_train_any(struct sim *s, struct sim_train *t);

/** Start a request. h: the thread that asks; NULL: a device's, or the loop's. waited: the thread waits for it. NULL: it is
 * refused. */
struct sim_call *sim_train_start(struct sim *s, struct sim_program *p, const struct thread *h, enum psi_request_kind kind,
                                 struct sim_var *v);
/** Start a request whose end the thread waits for. */
bool sim_train_meet(struct sim *s, struct sim_program *p, struct thread *h, enum psi_request_kind kind, struct sim_var *v);
/** An event of the session's machine, by the thread. */
uint64_t sim_train_tell(struct sim_train *t, const struct thread *h, enum psi_session_event event, uint64_t number);
void sim_train_call_over(struct sim *s, struct sim_train *t, struct thread *h);
/** True while a client is used. A recovery does not wait for threads that sleep, or that are told to do what it will refuse. */
bool sim_train_is_busy(const struct sim *s, const struct sim_program *p, const struct sim_train *t);

/* ---- train_recover.c ---- */
/** A thread begins to recover the session, in ps_pull() or ps_should_stop(). */
void sim_train_recover(struct sim *s, const struct sim_program *p, struct sim_train *t, const struct thread *h);
/** The recovering thread goes on. */
void sim_train_recovery_goes_on(struct sim *s, struct sim_program *p, struct sim_train *t, struct thread *h);
/** The thread has made the session ready, in its call or in a recovery; or has not, because of *err. */
void sim_train_readied(struct sim *s, struct sim_program *p, struct sim_train *t, struct thread *h, bool ok,
                       const struct psi_err *err);

/* ---- train_ready.c: a session becomes ready ---- */
void sim_ready_begin(struct sim *s, struct sim_train *t);
/** The thread begins to make the session ready. */
void sim_ready_starts(struct thread *h);
/** The thread that makes it ready goes on. */
void sim_ready_goes_on(struct sim *s, struct sim_program *p, struct sim_train *t, struct thread *h);
/** A request of it is over. */
void sim_ready_done(struct sim *s, struct sim_program *p, struct sim_train *t, struct thread *h, const struct sim_call *call);
/** The recovery of a chief that found half of a model empties it, before its client goes. False: there is none to empty. */
bool sim_ready_empties(struct sim *s, struct sim_program *p, struct sim_train *t, const struct thread *h);

/* ---- train_queue.c: calls that are no part of a step ---- */
/** What a thread that is in no call does apart from the step: a BARRIER, an ENQUEUE or a DEQUEUE; NONE: nothing. first: it is the
 * thread that makes the steps. */
enum psi_request_kind sim_train_apart(struct sim *s, const struct sim_program *p, struct sim_train *t, bool first);
/** The end of such a call. */
void sim_train_apart_over(struct sim *s, const struct sim_program *p, struct sim_train *t, const struct thread *h,
                          const struct sim_call *call);

/* ---- train_gets.c: parameters are got before a thread uses one ---- */
void sim_gets_begin(struct sim *s, struct sim_train *t);
/** A thread comes to a call. False: it need not wait for gets. */
bool sim_gets_come(struct sim *s, const struct sim_program *p, struct sim_train *t, struct thread *h);
/** True while the thread runs gets. */
static inline bool sim_gets_run(const struct thread *h)
{
    return h->gets == PSI_GETS_RUN || h->gets == PSI_GETS_SETTLE;
}
/** A thread that runs gets goes on. */
void sim_gets_go_on(struct sim *s, const struct sim_program *p, struct sim_train *t, struct thread *h);
/** A recovery has got everything again. */
void sim_gets_made(struct sim *s, struct sim_train *t);
/** No thread runs gets: nothing is held. */
void sim_gets_check_held(struct sim *s, const struct sim_train *t);

/* ---- train_check.c ---- */
/** Steps that were made, and that threads which stand still will count. */
uint64_t sim_train_pending(const struct sim_train *t);
/** A step that began at a client must not go on at the next one. */
void sim_train_check_life(struct sim *s, const struct sim_train *t, const struct thread *h);
void sim_train_check_step(struct sim *s, const struct sim_train *t, const struct thread *h);
void sim_train_check_taken(struct sim *s, const struct sim_train *t, const struct thread *h);
/** No call is in progress but of threads that stand still: nothing else is held. */
void sim_train_check_held(struct sim *s, const struct sim_train *t);

/* ---- train_hooks.c: what the library calls ---- */
void sim_train_call_back(struct sim *s, struct sim_train *t);
void sim_hooks_begin(struct sim *s, struct sim_train *t);
/** The moment that comes before the first thread's next call; NONE: none. */
enum psi_hook_moment sim_hooks_before(const struct sim_train *t);
/** The moment comes for a thread that is in no call. */
void sim_hooks_come(const struct sim_train *t, struct thread *h, enum psi_hook_moment moment, bool recovered);
/** A thread whose moment has come goes on. */
void sim_hooks_go_on(struct sim *s, const struct sim_program *p, struct sim_train *t, struct thread *h);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Training programs in the simulated world (train.c): a session, its threads and its parameters. */
#ifndef SIM_TRAIN_H
#define SIM_TRAIN_H

#include "sim.h"

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
    GRACE_MS = 1500
};

struct param {
    struct psi_training_param t; /* first member */
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
struct thread {
    struct psi_call call;
    bool in_call, cut; /* cut: its request has ended because the thread was interrupted */
    enum psi_do doing; /* OVER: nothing */
    struct sim_op *op; /* STEP or JOIN that it waits for */
    uint64_t begun_ms;
    uint64_t floor[PARAMS];
};
struct sim_train {
    struct psi_training t;
    struct param param[PARAMS];
    struct thread thread[THREADS];
    struct add add[ADDS];
    struct psi_training_add *at_once; /* an addition that the last acknowledgement has begun, and that is to be started */
    uint32_t threads, add_count;
    unsigned interrupts;
    struct psi_session m;
    ps_sync_options loss; /* for m */
    bool closing, rejoins;
    bool anew;                /* the client is being replaced: the next session of the program goes on with this */
    bool pulled;              /* monitored: the trainer has pulled in this step */
    uint32_t pushed;          /* monitored: parameters that the trainer has pushed in this step, as it thinks */
    uint32_t life;            /* counts clients */
    uint32_t drained_life;    /* sim_program.life of the client that goes */
    uint64_t recovery_ends;   /* the present one */
    struct psi_err not_ready; /* why the present client is not ready */
    uint64_t met, counted, added;
};

#endif

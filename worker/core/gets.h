/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State machine of the gets of a session's variables and queues. ps_param_get() puts a get aside; one thread runs all these gets
 * later, before the next get or at the first use of a parameter. A recovery repeats the gets that a monitored session keeps.
 *
 *   NEW -> ASIDE -> RUNS -> GOT -> DELETED     the program deletes the variable: no recovery makes it again
 *          ASIDE <- RUNS                       the thread was interrupted
 *                   RUNS -> LOST -> GOT        a loss: the recovery gets the parameter
 *                   RUNS -> FAILED
 *
 * The machine has no lock, no thread and no memory of its own. A caller holds the session's lock.
 */
#ifndef PSI_WORKER_GETS_H
#define PSI_WORKER_GETS_H

#include "core.h"

#include "common/list.h"

enum psi_get_state {
    PSI_GET_NEW,
    PSI_GET_ASIDE,
    PSI_GET_RUNS,
    PSI_GET_GOT,
    PSI_GET_LOST,
    PSI_GET_DELETED,
    PSI_GET_FAILED, /* the get is in no list; the caller frees it */
    PSI_GET_STATES
};

struct psi_get {
    struct psi_list link; /* link in a list of struct psi_gets, or of the thread that runs the get */
    enum psi_get_state state;
    bool sticks; /* get of ps_param_get(), which was put aside: a failure becomes the session's first error */
};

struct psi_gets {
    struct psi_list aside;
    struct psi_list kept; /* GOT, LOST and DELETED gets of a monitored session, in order of creation */
    bool settling;        /* a thread runs the gets that were put aside */
    uint64_t marks;       /* a bit for each transition that was taken: bit FROM * STATES + TO */
};

void psi_gets_init(struct psi_gets *g);
void psi_gets_check_invariants(const struct psi_gets *g);
/** Write into out [64] the name of a transition that no get has taken. False: all were taken. marks: OR of psi_gets.marks. */
bool psi_gets_unmarked(uint64_t marks, char out[64]);

void psi_gets_put_aside(struct psi_gets *g, struct psi_get *get);

/* What the thread that called psi_gets_come() must do. */
enum psi_gets_do {
    PSI_GETS_WAIT,    /* wait until another thread has run the gets that were put aside, then ask again */
    PSI_GETS_NOTHING, /* there is no get to run, or another thread recovers the session */
    PSI_GETS_RUN,     /* run the gets in `own` */
    PSI_GETS_SETTLE   /* run the gets in `aside`, then those in `own` */
};
/** Say what the calling thread must do. own: the thread's own gets. aside: receives all gets that were put aside, for SETTLE.
 * barred: the thread must not use the session (psi_session_bars()). The thread calls psi_gets_over() after RUN and SETTLE. */
enum psi_gets_do psi_gets_come(struct psi_gets *g, struct psi_list *own, bool barred, struct psi_list *aside);
/** Call after RUN and SETTLE. did: RUN or SETTLE. again: the gets that were interrupted, which go back into g->aside. */
void psi_gets_over(struct psi_gets *g, enum psi_gets_do did, struct psi_list *again);

/* How a get has ended. */
enum psi_get_end { PSI_GET_OK, PSI_GET_INTERRUPTED, PSI_GET_BY_LOSS, PSI_GET_ERROR };
/** Call when a get has ended. keeps: a recovery is to repeat the get. Returns its state; ASIDE: psi_gets_over() is next. */
enum psi_get_state psi_get_ended(struct psi_gets *g, struct psi_get *get, enum psi_get_end how, bool keeps);
/** Call when the program has deleted the variable of the get. */
void psi_get_delete(struct psi_gets *g, struct psi_get *get);

#endif

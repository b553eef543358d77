/* SPDX-License-Identifier: Apache-2.0 */
/* Synchronous rounds at an owner, a ps task with variables of the group (psd/store/rounds.h): it does what the directory orders.
 * The handlers of TASK_ROUNDS, TASK_JOIN, TASK_LEAVE, PREPARE, BUILD and COMMIT call the *_here functions. PREPARE, BUILD and
 * COMMIT may take several slices (psd_rounds_work()). */
#ifndef PSD_ROUNDS_OWNER_H
#define PSD_ROUNDS_OWNER_H

#include "psd/base/base.h"
#include "psd/store/rounds.h"

/* A group of workers and its variables, as the directory orders it. */
struct psd_rounds_spec {
    const char *container;
    uint64_t generation;
    struct psd_sync_options options; /* mode 0: end the container's group, of any generation */
    /* how many members must have joined before rounds open; 0: they are open. The owner only repeats this number in its report */
    uint32_t awaited;
    const char *const *names; /* names of the group's variables that lie on this task */
    /* array, one for each name: true if workers contribute rows of the variable, not the whole; NULL: all are false */
    const bool *by_rows;
    uint32_t name_count;
    const char *step; /* name of the global step variable; NULL: it lies on another task */
    const struct psd_owner *owners;
    uint32_t owner_count;
};
struct psd_member_spec {
    uint64_t id;
    const uint8_t *session; /* 16 bytes: the worker's session */
    const char *job;        /* name and number of the worker's task; no other member of the group has them */
    uint32_t task;
    uint32_t awaited; /* psd_rounds_spec.awaited after this member has joined */
};
struct psd_round_spec {
    const char *container;
    uint64_t generation, round;
    /* life: random number of the directory process; attempt: its attempt to close the round. The owner's report repeats both */
    uint64_t life, attempt;
    const uint64_t *members; /* ids of the members whose contributions are in the round */
    uint32_t member_count;   /* PREPARE: 0 discards the new values built so far */
    bool set_rate;           /* from this round on, the learning rate is `rate` */
    double rate;
    uint64_t step; /* 1 + the global step before the round; 0: not known */
    float factor;  /* BUILD, COMMIT with a limit on the joint norm: all averaged gradients are multiplied by it */
};

/** Find the group of the container at this task. NULL: there is none. */
const struct psd_rounds *psd_rounds_here(const struct psd_task *t, const char *container);
/** Make the container's group as in spec, or end it (mode 0). A group of spec's generation is kept: PS_OK. Another generation is
 * replaced: its members are dropped, and unfinished pushes to its variables end with FAILED_PRECONDITION. Errors: NOT_FOUND (a
 * variable is missing), FAILED_PRECONDITION or INVALID_ARGUMENT (a variable cannot be trained in rounds), RESOURCE_EXHAUSTED (no
 * memory for copies). */
ps_status psd_rounds_set_here(struct psd_task *t, const struct psd_rounds_spec *spec, struct psi_err *err) PSI_MUST;
/** Add a member, and remove an older member of its job and task. PS_OK without a change if the id is a member already. Errors:
 * ABORTED (LOST): the group is not here; RESOURCE_EXHAUSTED: too many members, or no memory for the gradients. */
ps_status psd_rounds_join_here(struct psd_task *t, const char *container, uint64_t generation, const struct psd_member_spec *m,
                               struct psi_err *err) PSI_MUST;
/** Remove a member with its contribution; new values that use the contribution are discarded. Nothing happens if the group or
 * the member is not here. awaited, over: set psd_rounds.awaited and psd_rounds.over. */
void psd_rounds_leave_here(struct psd_task *t, const char *container, uint64_t generation, uint64_t member, uint32_t awaited,
                           bool over);
/** Begin to compute the round's new values. psd_rounds_here()->build then says how far this is: GOES (slices are left), READY,
 * MISSING (a contribution). With a limit on the joint norm, only sums are computed: SUMS (slices are left), SUMMED or MISSING. No
 * members in spec: all is discarded (NONE). PS_OK also if the round is committed. Errors: INVALID_ARGUMENT: not in rounds,
 * or too many members; ABORTED (LOST): no group here, or it has not committed the previous round. */
ps_status psd_rounds_prepare_here(struct psd_task *t, const struct psd_round_spec *spec, struct psi_err *err) PSI_MUST;
/** After the sums: compute the new values with spec->factor, in a group with a limit on the joint norm. Then `build` is GOES,
 * READY or MISSING. ABORTED (LOST): as in psd_rounds_prepare_here(); INVALID_ARGUMENT: no such limit, or factor not in (0, 1]. */
ps_status psd_rounds_factor_here(struct psd_task *t, const struct psd_round_spec *spec, struct psi_err *err) PSI_MUST;
/** Make the new values visible now, or as soon as they are computed: then psd_rounds_here()->committed is the round's number.
 * PS_OK also if that was done before. ABORTED (LOST): the group is not here, or a contribution is missing. */
ps_status psd_rounds_commit_here(struct psd_task *t, const struct psd_round_spec *spec, struct psi_err *err) PSI_MUST;
/** Call when the container is reset or one of its group's variables is deleted: ends the group, if there is one. */
void psd_rounds_end_here(struct psd_task *t, const char *container);

/* ---- rate.c: learning rates that a client sets ---- */
/** Check a learning rate of SET_RATE. INVALID_ARGUMENT unless it is finite and > 0, or 0, which clears the rate that was set. */
ps_status psd_rate_check(double rate, struct psi_err *err) PSI_MUST;
/** Set the learning rate of v, without a log line. rate 0: the optimizer's own rate. False: v had this rate already. */
bool psd_rate_change(struct psd_task *t, const struct psd_variable *v, double rate);
/** Log that `changed` variables of a container have a new rate. rate 0: the optimizers' own rates. peer: who asked. */
void psd_rate_log(struct psd_task *t, const char *peer, const char *container, uint64_t changed, double rate);

/** Handle the request SET_RATE. With many variables, slices first check them all, then one event puts the rate into force for
 * all, and further slices write it to each variable's record. */
void psd_rpc_set_rate(struct psd_task *t, struct psd_conn *c, const struct psd_request *r);

/** True if a SET_RATE of all variables of a container is not finished. */
bool psd_rates_have_work(const struct psd_task *t);
/** Do the next slice of the oldest SET_RATE of all variables of a container. Precondition: psd_rates_have_work(). */
void psd_rates_work(struct psd_task *t);
/** If a SET_RATE of the whole container is in force and some variables' records lack the rate, write it to all of them now. */
void psd_rates_finish(struct psd_task *t, const struct psd_container *in);
/** Call when all variables of the container are deleted: an unfinished SET_RATE of all of them gets OK with count 0. */
void psd_rates_end(struct psd_task *t, const struct psd_container *in);
/** Call when connection c ends: an unfinished SET_RATE of c is given up, or finished without an answer if it is in force. */
void psd_rates_conn_lost(struct psd_task *t, const struct psd_conn *c);
void psd_rates_fini(struct psd_task *t);

/* ---- rounds.c ---- */
/** True if a slice of work is due: new values are being computed, or rows of the last round must be copied into their variables
 * (overlay.h). False while a checkpoint's copies have no memory, because such work would need more copies. */
bool psd_rounds_has_work(const struct psd_task *t);
/** Do one slice of work for one group. A completed order is answered. Call if psd_rounds_has_work(). */
void psd_rounds_work(struct psd_task *t);
/** Call when connection c ends: its PREPARE, BUILD or COMMIT gets no answer. */
void psd_rounds_conn_lost(struct psd_task *t, const struct psd_conn *c);

/* ---- age.c ---- */
/** Count a push to v by its age in versions. version: v's version after the push. from: 1 + the version from which its gradient
 * was computed; 0: not known. */
void psd_age_note(const struct psd_variable *v, uint64_t version, uint64_t from);
/** Note `count` contributions to a round of v's container, with age 0: they were computed from the values that they change. */
void psd_age_note_round(const struct psd_variable *v, uint64_t count);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds at an owner (psd/store/rounds.h): what the directory orders, done in rounds.c. The handlers of TASK_ROUNDS, TASK_JOIN,
 * TASK_LEAVE, PREPARE and COMMIT call the *_here functions.
 *
 * PREPARE and COMMIT of much data take several slices, between turns of the loop (psd_rounds_work()).
 */
#ifndef PSD_ROUNDS_OWNER_H
#define PSD_ROUNDS_OWNER_H

#include "psd/base/base.h"
#include "psd/store/rounds.h"

/* The definition of a group, as the directory orders it. */
struct psd_rounds_spec {
    /* volatile: on a stack */
    const char *container;
    uint64_t generation;
    struct psd_sync_options options; /* mode 0: end the container's group, whatever its generation */
    /* members that must still join before the rounds open, 0: open. The owner remembers it, for a directory that restarts */
    uint32_t awaited;
    const char *const *names; /* names of the group's variables at this task */
    uint32_t name_count;
    const char *step; /* name of the global step; NULL: it is at another task */
    const struct psd_owner *owners;
    uint32_t owner_count;
};
/* A member that joins. */
struct psd_member_spec {
    /* volatile: on a stack */
    uint64_t id;
    const uint8_t *session; /* 16 bytes */
    const char *job;
    uint32_t task;
    uint32_t awaited;
};
/* The round to prepare or commit. */
struct psd_round_spec {
    /* volatile: on a stack */
    const char *container;
    uint64_t generation, round;
    uint64_t life, attempt; /* of the directory and its attempt; PREPARE's answer and lists repeat them */
    const uint64_t *members;
    uint32_t member_count;
    bool set_rate; /* this round also sets the learning rate `rate` */
    double rate;
    uint64_t step; /* 1 + global step that it is built at; 0: not said */
};

/** The group of the container at this task; NULL: none. */
const struct psd_rounds *psd_rounds_here(const struct psd_task *t, const char *container);
/** Set the group. An equal generation is OK and changes nothing. A group of another generation is replaced with all its members,
 * and pushes in progress to its variables end with FAILED_PRECONDITION. Errors: NOT_FOUND, a variable is missing;
 * FAILED_PRECONDITION or INVALID_ARGUMENT, a variable cannot be in rounds; RESOURCE_EXHAUSTED, no memory for the copy of values
 * and slots. */
ps_status psd_rounds_set_here(struct psd_task *t, const struct psd_rounds_spec *spec, struct psi_err *err) PSI_MUST;
/** Add a member. A member with an equal id is OK. The member that had the job and task leaves. Errors: ABORTED (LOST), the group
 * is not here; RESOURCE_EXHAUSTED, no memory for the gradients. */
ps_status psd_rounds_join_here(struct psd_task *t, const char *container, uint64_t generation, const struct psd_member_spec *m,
                               struct psi_err *err) PSI_MUST;
/** Take a member out and drop its contribution, and values that are being built from it. A missing member or group is no error.
 * over: a worker has finished, and no round has been closed since; the owner remembers it. */
void psd_rounds_leave_here(struct psd_task *t, const char *container, uint64_t generation, uint64_t member, uint32_t awaited,
                           bool over);
/** Build the round. On PS_OK psd_rounds_here()->build is READY, MISSING, or GOES, which becomes one of the two. Without members,
 * what was built is dropped, and build is NONE. A round that is already committed is OK: see ->committed. ABORTED (LOST): the
 * group is not here, or has not committed the round before. */
ps_status psd_rounds_prepare_here(struct psd_task *t, const struct psd_round_spec *spec, struct psi_err *err) PSI_MUST;
/** Commit the round now or, if it is not prepared, as soon as it is built. ->committed is then the round. A round that is already
 * committed is OK. ABORTED (LOST): the group is not here, or a contribution is missing. */
ps_status psd_rounds_commit_here(struct psd_task *t, const struct psd_round_spec *spec, struct psi_err *err) PSI_MUST;
/** End the container's group, if there is one, because of a reset or because one of its variables is deleted. */
void psd_rounds_end_here(struct psd_task *t, const char *container);

/** rate.c. INVALID_ARGUMENT unless the learning rate is finite and > 0, or 0, which clears the rate that was set. */
ps_status psd_rate_check(double rate, struct psi_err *err) PSI_MUST;
/** Set the rate of v, without a log line. False: v had this rate already. */
bool psd_rate_change(struct psd_task *t, const struct psd_variable *v, double rate);
/** Log that this many variables of a container have a new rate; 0: the optimizers' own. peer: who asked. */
void psd_rate_log(struct psd_task *t, const char *peer, const char *container, uint64_t changed, double rate);

/** Handle SET_RATE at this task: in one event, or, for all of many variables, in slices. The slices first check all variables.
 * Then one event puts the rate into force for all, and further slices write it to the records of the variables. */
void psd_rpc_set_rate(struct psd_task *t, struct psd_conn *c, const struct psd_request *r);

/** True if some SET_RATE has slices left. */
bool psd_rates_have_work(const struct psd_task *t);
/** Do a slice of the oldest SET_RATE: psd_task_config.list_slice_rows variables. */
void psd_rates_work(struct psd_task *t);
/** Write the rate that is in force in this container to all records within this event. */
void psd_rates_finish(struct psd_task *t, const struct psd_container *in);
/** All variables of the container are deleted: end its SET_RATE with a count of 0. */
void psd_rates_end(struct psd_task *t, const struct psd_container *in);
/** Connection c ends. Its SET_RATE ends if it still checks, and goes on without an answer if it is in force. */
void psd_rates_conn_lost(struct psd_task *t, const struct psd_conn *c);
void psd_rates_fini(struct psd_task *t);

/** True if a round is being built. */
bool psd_rounds_has_work(const struct psd_task *t);
/** Build a slice. */
void psd_rounds_work(struct psd_task *t);
/** Connection c ends: its PREPARE or COMMIT gets no answer. */
void psd_rounds_conn_lost(struct psd_task *t, const struct psd_conn *c);

/* ---- age.c ---- */
/** Count the age of a push to v. version: after the push; from: ps_push_meta.version. */
void psd_age_note(const struct psd_variable *v, uint64_t version, uint64_t from);
/** Count this many contributions of a round in the container of v, with age 0: they were computed from the values they change. */
void psd_age_note_round(const struct psd_variable *v, uint64_t count);

#endif

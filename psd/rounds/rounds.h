/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a directory has the owners of a group do (psd/store/rounds.h): rounds.c. The directory, which may be an owner itself,
 * calls the *_here functions; at the other tasks the handlers of TASK_ROUNDS, TASK_JOIN, TASK_LEAVE, PREPARE and COMMIT do.
 *
 * PREPARE and COMMIT end later where there is much to build: in slices between the turns of the loop (psd_rounds_work()). At the
 * directory, t->rounds_moved is set when the group here has moved: it looks at psd_rounds_here(), and takes the mark back.
 */
#ifndef PSD_ROUNDS_OWNER_H
#define PSD_ROUNDS_OWNER_H

#include "psd/base/base.h"
#include "psd/store/rounds.h"

/* A group, as it is set. */
struct psd_rounds_spec {
    /* volatile: on a stack */
    const char *container;
    uint64_t generation;
    struct psd_sync_options options; /* mode 0: the group ends, whichever it is */
    uint32_t awaited;                /* members until it opens; 0: it is open. To be remembered, here and below */
    const char *const *names;        /* of its variables at this task */
    uint32_t name_count;
    const char *step; /* NULL: the variable of the global step is at another task */
    const struct psd_owner *owners;
    uint32_t owner_count;
};
/* A member, as it joins. */
struct psd_member_spec {
    /* volatile: on a stack */
    uint64_t id;
    const uint8_t *session; /* 16 bytes */
    const char *job;
    uint32_t task;
    uint32_t awaited;
};
/* The round that closes. */
struct psd_round_spec {
    /* volatile: on a stack */
    const char *container;
    uint64_t generation, round;
    uint64_t life, attempt; /* of the directory and of its try: for PREPARE's answer, and for who looks on */
    const uint64_t *members;
    uint32_t member_count;
    bool set_rate; /* set `rate` with this round */
    double rate;
};

/** The group here; NULL: none. */
const struct psd_rounds *psd_rounds_here(const struct psd_task *t, const char *container);
/** The same generation again is OK and changes nothing; another one takes its place, with all its members. Pushes in progress to
 * its variables end (FAILED_PRECONDITION). NOT_FOUND: a variable; FAILED_PRECONDITION, INVALID_ARGUMENT: it cannot be in rounds;
 * RESOURCE_EXHAUSTED: the copy of values and slots. */
ps_status psd_rounds_set_here(struct psd_task *t, const struct psd_rounds_spec *spec, struct psi_err *err) PSI_MUST;
/** A member with an equal id is fine. The member that had its place, by job and task, leaves. ABORTED (LOST): the group is not
 * here. RESOURCE_EXHAUSTED: its gradients. */
ps_status psd_rounds_join_here(struct psd_task *t, const char *container, uint64_t generation, const struct psd_member_spec *m,
                               struct psi_err *err) PSI_MUST;
/** What it contributed is dropped; values that are being built of it too. OK where there is no such member or group. over: one
 * has finished, and no round has been closed since; to be remembered. */
void psd_rounds_leave_here(struct psd_task *t, const char *container, uint64_t generation, uint64_t member, uint32_t awaited,
                           bool over);
/** Build it. PS_OK: psd_rounds_here()->build says what came of it: READY, MISSING, GOES (later one of these); without members:
 * NONE, what was built is dropped. A round that is committed already is OK: ->committed says so. ABORTED (LOST): the group is not
 * here, or not in the round before. */
ps_status psd_rounds_prepare_here(struct psd_task *t, const struct psd_round_spec *spec, struct psi_err *err) PSI_MUST;
/** Flip now or, if the round was not prepared, when it is built: ->committed is the round then. OK if it was committed before.
 * ABORTED (LOST): the group is not here, or something is missing. */
ps_status psd_rounds_commit_here(struct psd_task *t, const struct psd_round_spec *spec, struct psi_err *err) PSI_MUST;
/** The group of this container ends, if there is one: a reset, or one of its variables goes. */
void psd_rounds_end_here(struct psd_task *t, const char *container);

/** rate.c: check a learning rate that is to replace the optimizer's. 0 is allowed and clears it. INVALID_ARGUMENT. */
ps_status psd_rate_check(double rate, struct psi_err *err) PSI_MUST;
/** Set the rate of v, without a log line. False: v has it already, nothing was done. */
bool psd_rate_change(struct psd_task *t, const struct psd_variable *v, double rate);
/** Log the rate of so many variables of a container that have changed; 0: their optimizers' own. peer: who asked. */
void psd_rate_log(struct psd_task *t, const char *peer, const char *container, uint64_t changed, double rate);

/** Carry out SET_RATE at this task: in one event, or, for all of many variables, in slices. These check first, and change nothing
 * that anybody sees. Then the rate is in force for all variables in one event, and slices write it to their records. */
void psd_rpc_set_rate(struct psd_task *t, struct psd_conn *c, const struct psd_request *r);

/** A SET_RATE in slices goes on. */
bool psd_rates_have_work(const struct psd_task *t);
/** psd_task_config.list_slice_rows variables of the oldest. */
void psd_rates_work(struct psd_task *t);
/** What is in force in this container is written to all records in this event. */
void psd_rates_finish(struct psd_task *t, const struct psd_container *in);
/** All variables of the container go: SET_RATE has none. */
void psd_rates_end(struct psd_task *t, const struct psd_container *in);
/** c ends: a SET_RATE that only checks is over, one that is in force goes on and tells nobody. */
void psd_rates_conn_lost(struct psd_task *t, const struct psd_conn *c);
void psd_rates_fini(struct psd_task *t);

/** There is something to build. */
bool psd_rounds_has_work(const struct psd_task *t);
/** A slice of it. */
void psd_rounds_work(struct psd_task *t);
/** c ends: what was asked on it is not answered. */
void psd_rounds_conn_lost(struct psd_task *t, const struct psd_conn *c);

/* ---- age.c ---- */
/** A push to v was applied: `version` afterwards, from as ps_push_meta.version. */
void psd_age_note(const struct psd_variable *v, uint64_t version, uint64_t from);
/** So many contributions of a round are applied in the container of v: to the values that they were computed from. */
void psd_age_note_round(const struct psd_variable *v, uint64_t count);

#endif

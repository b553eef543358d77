/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: what arrives on a connection, family by family. dispatch.c reads frames and calls the handlers; one file each.
 */
#ifndef PSD_RPC_H
#define PSD_RPC_H

#include "handlers.h"

#include "psd/session/session.h"

/* ---- barrier.c: BARRIER ---- */
/** The end of an event: barriers, where who holds a lease has changed in it (t->barriers_stale). */
void psd_barriers_look(struct psd_task *t);
/** The lease of r has ended, not by a new HELLO: it waits at no barrier any more. */
void psd_barrier_lease_ended(struct psd_task *t, struct psd_record *r);
void psd_barriers_check_invariants(const struct psd_task *t);

/* ---- hello.c ---- */
/** Is the HELLO in r meant for this task, and understood? */
ps_status psd_hello_check(const struct psd_task *t, const struct psd_request *r, ps_v1_Hello *out, struct psi_err *err) PSI_MUST;
void psd_hello_refuse(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, const struct psi_err *err);
/** A client's HELLO. */
void psd_hello_session(struct psd_task *t, struct psd_conn *c, const ps_v1_Hello *hello, const struct psd_request *r);
/** HELLO's answer to another task (no record, no numbers). */
void psd_hello_task_answer(struct psd_task *t, struct psd_conn *c, const ps_v1_Hello *hello, const struct psd_request *r);

/* ---- push.c: PUSH PUSHPULL ASSIGN ADD ---- */
void psd_push_segment(struct psd_task *t, struct psd_conn *c, const uint8_t *p, uint32_t n);
void psd_push_end(struct psd_task *t, struct psd_conn *c);
void psd_progress_free_all(struct psd_task *t);

/* ---- pull.c ---- */
/** PUSHPULL: send the new values of elements [first, first + count) of v as `wire`. Values that cannot be had (memory) are left
 *  out: the client pulls what it misses. */
void psd_pull_values(struct psd_task *t, struct psd_conn *c, uint64_t number, uint32_t handle, const struct psd_variable *v,
                     ps_dtype wire, uint64_t first, uint64_t count);
void psd_pull_free_all(struct psd_task *t);

/* ---- init.c: INIT in one step, SEAL ---- */
/* What an INIT asks for. */
struct psd_init {
    const struct psd_variable *variable;
    ps_optimizer optimizer;
    ps_initializer initializer;
    uint64_t seed, chief_number;
    bool force;
};
/** Everything that refuses an INIT; changes nothing. out->chief_number is set once it has passed. */
ps_status psd_init_check(const struct psd_task *t, const struct psd_request *r, struct psd_init *out,
                         struct psi_err *err) PSI_MUST;
/** It has passed the check: does its initializer run? */
bool psd_init_runs(const struct psd_init *m);
/** made: what its initializer gives, or NULL: it is run here. */
void psd_init_carry_out(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, struct psd_making *made);

/* ---- held.c: pushes that wait for the memory of a cut ---- */
/** Before the next piece of a frame: true: its push waits, nothing more of the connection is carried out. */
bool psd_held_begins(struct psd_task *t, struct psd_conn *c);
bool psd_held_has_work(const struct psd_task *t);
/** A connection whose push waits no longer: what was kept is to be dispatched. */
struct psd_conn *psd_held_work(struct psd_task *t);
/** As psd_slow_tick(). */
void psd_held_tick(struct psd_task *t);

/* ---- slow.c: INIT, that of a large variable in slices ---- */
/** There is one to go on with. */
bool psd_slow_has_work(const struct psd_task *t);
/** One slice of the oldest. Returns its connection when it has been carried out: what came behind it is to be dispatched; NULL:
 * there is more of it to make. */
struct psd_conn *psd_slow_work(struct psd_task *t);
/** c ends: as if its INIT had not come. */
void psd_slow_drop(struct psd_task *t, struct psd_conn *c);
/** Memory that it holds for the INIT of c. */
uint64_t psd_slow_bytes(const struct psd_conn *c);
/** Sessions whose connection is not read for it are told that this task is alive, and stay alive here. */
void psd_slow_tick(struct psd_task *t);

/* ---- call.c: CALL ---- */
/** n more bytes of the input of w, a CALL, have come, in their order; the last ones begin it. p NULL: they lie in the input. */
void psd_call_bytes(struct psd_task *t, struct psd_wait *w, const uint8_t *p, uint32_t n);
/** The head of a PUT_PART has come: where it brings input of a CALL, its body is read straight to there, and counts at its end.
 */
void psd_part_head(const struct psd_task *t, struct psd_conn *c);
/** No call runs. One whose input has not come whole may not begin any more. */
bool psd_calls_drained(const struct psd_task *t);
/** As psd_task_call_ran(). */
void psd_call_ran(struct psd_task *t, uint64_t call, uint64_t kernel_ns);
/** As psd_task_call_finished(). */
void psd_call_finished(struct psd_task *t, uint64_t call, ps_status st, ps_reason reason, size_t out_bytes, const char *error);
void psd_call_free_all(struct psd_task *t);
void psd_call_check_invariants(const struct psd_task *t);
/** A call that the shell has; NULL: there is none with this number. */
struct psd_work *psd_call_work(const struct psd_task *t, uint64_t call);

/* ---- copies.c: variables of this task for its calls ---- */
bool psd_copies_have_work(const struct psd_task *t);
/** Copy psd_task_config.copy_slice_bytes more. */
void psd_copies_work(struct psd_task *t);

/* ---- drafts.c: values that calls write into variables of this task ---- */
/** As psd_task_draft(). */
ps_status psd_draft_new(struct psd_task *t, uint64_t call, const struct psd_draft_spec *what, void **out_room,
                        struct psi_err *err) PSI_MUST;
/** As psd_task_publish(). */
void psd_publish_begin(struct psd_task *t, struct psd_publish *p);
/** Something waited for a cut, and need not any more. */
bool psd_publishes_have_work(const struct psd_task *t);
void psd_publishes_work(struct psd_task *t);
void psd_publishes_end(struct psd_task *t);
/** End those of a call that is cancelled. */
void psd_publishes_cancel(struct psd_task *t, uint64_t call);
/** k is over: its drafts go, in which nobody writes any more. */
void psd_drafts_free(struct psd_task *t, struct psd_work *k);

#endif

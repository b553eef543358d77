/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests, family by family, one file each. dispatch.c reads frames and calls the handlers.
 */
#ifndef PSD_RPC_H
#define PSD_RPC_H

#include "handlers.h"

#include "psd/session/session.h"

/* ---- barrier.c: BARRIER ---- */
/** At the end of an event in which the set of sessions with a lease has changed (t->barriers_stale): release complete barriers.
 */
void psd_barriers_look(struct psd_task *t);
/** The lease of r has ended, and not by a new HELLO: r waits at no barrier any more. */
void psd_barrier_lease_ended(struct psd_task *t, struct psd_record *r);
void psd_barriers_check_invariants(const struct psd_task *t);

/* ---- hello.c ---- */
/** Check that the HELLO in r is for this task and understood. */
ps_status psd_hello_check(const struct psd_task *t, const struct psd_request *r, ps_v1_Hello *out, struct psi_err *err) PSI_MUST;
void psd_hello_refuse(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, const struct psi_err *err);
/** Handle a client's HELLO. */
void psd_hello_session(struct psd_task *t, struct psd_conn *c, const ps_v1_Hello *hello, const struct psd_request *r);
/** Answer the HELLO of another task (no record, no numbers). */
void psd_hello_task_answer(struct psd_task *t, struct psd_conn *c, const ps_v1_Hello *hello, const struct psd_request *r);

/* ---- push.c: PUSH PUSHPULL ASSIGN ADD ---- */
void psd_push_segment(struct psd_task *t, struct psd_conn *c, const uint8_t *p, uint32_t n);
void psd_push_end(struct psd_task *t, struct psd_conn *c);
void psd_progress_free_all(struct psd_task *t);

/* ---- pull.c ---- */
/** PUSHPULL: send the new values of elements [first, first + count) of v as `wire`. Without memory nothing is sent, and the
 * client pulls what it misses. */
void psd_pull_values(struct psd_task *t, struct psd_conn *c, uint64_t number, uint32_t handle, const struct psd_variable *v,
                     ps_dtype wire, uint64_t first, uint64_t count);
void psd_pull_free_all(struct psd_task *t);

/* ---- init.c: INIT in one step, SEAL ---- */
/* A parsed INIT. */
struct psd_init {
    const struct psd_variable *variable;
    ps_optimizer optimizer;
    ps_initializer initializer;
    uint64_t seed, chief_number;
    bool force;
};
/** Make all checks of an INIT, without changing anything. out->chief_number is set once it has passed its check. */
ps_status psd_init_check(const struct psd_task *t, const struct psd_request *r, struct psd_init *out,
                         struct psi_err *err) PSI_MUST;
/** True if the initializer of m, which has passed psd_init_check(), runs. */
bool psd_init_runs(const struct psd_init *m);
/** Carry out the INIT in r. made: the values of its initializer; NULL: it runs now. */
void psd_init_carry_out(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, struct psd_making *made);

/* ---- held.c: pushes that wait for the memory of a cut ---- */
/** Called before the next piece of a frame. True: its push waits, and nothing more of the connection is carried out. */
bool psd_held_begins(struct psd_task *t, struct psd_conn *c);
bool psd_held_has_work(const struct psd_task *t);
/** A connection whose push need not wait any longer; its kept bytes are to be dispatched. */
struct psd_conn *psd_held_work(struct psd_task *t);
/** Send beats, as psd_slow_tick(). */
void psd_held_tick(struct psd_task *t);

/* ---- slow.c: INIT, that of a large variable in slices ---- */
/** True if an INIT has slices left and need not wait. */
bool psd_slow_has_work(const struct psd_task *t);
/** Do one slice of the oldest INIT. Returns its connection when the INIT has been carried out, so that the bytes behind it can be
 * dispatched; NULL: slices are left. */
struct psd_conn *psd_slow_work(struct psd_task *t);
/** c ends: drop its INIT, as if it had not come. */
void psd_slow_drop(struct psd_task *t, struct psd_conn *c);
/** Bytes of memory held for the INIT of c. */
uint64_t psd_slow_bytes(const struct psd_conn *c);
/** Send beats to sessions whose connection is not read because of an INIT, and keep them alive here. */
void psd_slow_tick(struct psd_task *t);

/* ---- call.c: CALL ---- */
/** n more bytes of the input of w, a CALL, have come in order; the last ones start the call. p NULL: they are already in the
 * input. */
void psd_call_bytes(struct psd_task *t, struct psd_wait *w, const uint8_t *p, uint32_t n);
/** The head of a PUT_PART has come. If it brings input of a CALL, read its body straight into the input. */
void psd_part_head(const struct psd_task *t, struct psd_conn *c);
/** True if no call runs. Calls without their whole input may not start any more. */
bool psd_calls_drained(const struct psd_task *t);
/** As psd_task_call_ran(). */
void psd_call_ran(struct psd_task *t, uint64_t call, uint64_t kernel_ns);
/** As psd_task_call_finished(). */
void psd_call_finished(struct psd_task *t, uint64_t call, ps_status st, ps_reason reason, size_t out_bytes, const char *error);
void psd_call_free_all(struct psd_task *t);
void psd_call_check_invariants(const struct psd_task *t);
/** The call with this number that the shell has; NULL: none. */
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
/** True if a publish waited for a cut and can go on. */
bool psd_publishes_have_work(const struct psd_task *t);
void psd_publishes_work(struct psd_task *t);
void psd_publishes_end(struct psd_task *t);
void psd_publishes_cancel(struct psd_task *t, uint64_t call);
/** The call k has ended, and no thread writes into its drafts any more: free them. */
void psd_drafts_free(struct psd_task *t, struct psd_work *k);

#endif

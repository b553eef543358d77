/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers of requests, one file for each family. dispatch.c reads frames and calls the handlers. */
#ifndef PSD_RPC_H
#define PSD_RPC_H

#include "handlers.h"

#include "psd/session/session.h"

/* ---- barrier.c: BARRIER ---- */
/** Call at the end of each event: if t->barriers_stale, releases barriers that are complete now. */
void psd_barriers_look(struct psd_task *t);
/** Call when the lease of r has ended, unless r only says HELLO again: its BARRIER requests end with ABORTED. */
void psd_barrier_lease_ended(struct psd_task *t, struct psd_record *r);
void psd_barriers_check_invariants(const struct psd_task *t);

/* ---- hello.c ---- */
/** Read the HELLO in r into *out. Check that it is meant for this task, and requires no feature that this psd lacks. */
ps_status psd_hello_check(const struct psd_task *t, const struct psd_request *r, ps_v1_Hello *out, struct psi_err *err) PSI_MUST;
void psd_hello_refuse(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, const struct psi_err *err);
void psd_hello_session(struct psd_task *t, struct psd_conn *c, const ps_v1_Hello *hello, const struct psd_request *r);
/** Answer the HELLO of another ps task; unlike a client it gets no session. */
void psd_hello_task_answer(struct psd_task *t, struct psd_conn *c, const ps_v1_Hello *hello, const struct psd_request *r);

/* ---- push.c: PUSH, PUSHPULL, ASSIGN, ADD, CONTRIBUTE, and the operations on rows ---- */
void psd_push_segment(struct psd_task *t, struct psd_conn *c, const uint8_t *p, uint32_t n);
void psd_push_end(struct psd_task *t, struct psd_conn *c);
void psd_progress_free_all(struct psd_task *t);

/* ---- pull.c ---- */
/** For PUSHPULL: send v's new elements [first, first + count) in dtype `wire`. Without memory sends none: the client pulls. */
void psd_pull_values(struct psd_task *t, struct psd_conn *c, uint64_t number, const struct psd_variable *v, ps_dtype wire,
                     uint64_t first, uint64_t count);
/** For PUSHPULL_ROWS: send v's new rows with these indices, at most as many as fit into a segment. first: how many rows of the
 * push came before. Without memory nothing is sent, and the client asks by GATHER. */
void psd_pull_rows(struct psd_task *t, struct psd_conn *c, uint64_t number, const struct psd_variable *v, ps_dtype wire,
                   uint64_t first, const uint8_t *indices, uint64_t count);
void psd_pull_free_all(struct psd_task *t);

/* ---- init.c: INIT of a small variable, SEAL ---- */
struct psd_init {
    const struct psd_variable *variable;
    ps_optimizer optimizer;
    ps_initializer initializer;
    uint64_t seed, chief_number;
    bool force;
};
/** Check the INIT in r, and read it into *out. After an error out->chief_number is the sender's number as chief; 0: invalid. */
ps_status psd_init_check(const struct psd_task *t, const struct psd_request *r, struct psd_init *out,
                         struct psi_err *err) PSI_MUST;
/** True if m's initializer is to run; false: the variable keeps its value. m has passed psd_init_check(). */
bool psd_init_runs(const struct psd_init *m);
/** Carry out the INIT in r, and answer it. made: the new values, prepared before; NULL: they are made now. */
void psd_init_carry_out(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, struct psd_making *made);

/* ---- push.c ---- */
/** Answer the mutation n of v, which is finished, after its last frame came on c. wire: dtype of the frame's values. */
void psd_push_answer(struct psd_task *t, struct psd_conn *c, const struct psd_variable *v, ps_dtype wire,
                     const struct psd_number *n);

/* ---- moves.c: pushes to large values that are applied after their last byte, in slices ---- */
/** True if push p changes its value only after its last byte, and the value is too large for one slice. */
bool psd_move_is_long(const struct psd_task *t, const struct psd_progress *p);
/** Call when the whole gradient of mutation n has come (psd_number_moves()): the next turn of the loop does the first slice. */
void psd_move_begin(struct psd_task *t, struct psd_record *record, const struct psd_number *n);
/** True if a push is changing the value of v in slices: then all other changes of v wait. */
bool psd_moves_value(const struct psd_task *t, const struct psd_variable *v);
/** True if a push has slices left that need not wait for a checkpoint's memory. */
bool psd_moves_have_work(const struct psd_task *t);
void psd_moves_work(struct psd_task *t);
/** If a push is updating the value of v in slices: do all slices that are left, and answer the push. */
void psd_moves_finish(struct psd_task *t, const struct psd_variable *v);

/* ---- held.c: pushes that wait for a checkpoint's memory, or for another push's slices (moves.c) ---- */
/** Call before the next piece of a frame is read from c. True: the frame's push must wait, so nothing is read from c. */
bool psd_held_begins(struct psd_task *t, struct psd_conn *c);
bool psd_held_has_work(const struct psd_task *t);
/** Find a connection, the longest waiting first, whose push need not wait any more. Call if psd_held_has_work(). */
struct psd_conn *psd_held_work(struct psd_task *t);
void psd_held_tick(struct psd_task *t);

/* ---- slow.c: INIT of a large variable, in slices ---- */
bool psd_slow_has_work(const struct psd_task *t);
/** Do one slice of the oldest INIT. NULL: slices are left. Otherwise the INIT is finished; the caller processes the bytes that
 * the returned connection has kept. Call if psd_slow_has_work(). */
struct psd_conn *psd_slow_work(struct psd_task *t);
/** Call when c ends: drops its unfinished INIT, which has changed nothing yet. */
void psd_slow_drop(struct psd_task *t, struct psd_conn *c);
/** Bytes of memory that the unfinished INIT of c uses. */
uint64_t psd_slow_bytes(const struct psd_conn *c);
/** For connections not read because of an INIT: send an answer to a BEAT each beat_ms; the directory then renews the lease. */
void psd_slow_tick(struct psd_task *t);

/* ---- call.c: CALL; copies.c: copies of variables for calls ---- */
/** Add the next n bytes to the input of the CALL request w; the last ones start it. p NULL: the bytes are there already. */
void psd_call_bytes(struct psd_task *t, struct psd_wait *w, const uint8_t *p, uint32_t n);
/** Call when the head of a PUT_PART frame has come: if its body is the next input of a CALL, the call gets it directly. */
void psd_part_head(const struct psd_task *t, struct psd_conn *c);
/** True if no compute thread runs a call: a task that is to end waits for this. Calls whose input is incomplete do not count. */
bool psd_calls_drained(const struct psd_task *t);
void psd_call_ran(struct psd_task *t, uint64_t call, uint64_t kernel_ns);
void psd_call_finished(struct psd_task *t, uint64_t call, ps_status st, ps_reason reason, size_t out_bytes, const char *error);
void psd_call_free_all(struct psd_task *t);
void psd_call_check_invariants(const struct psd_task *t);
/** Find the call with this number (psd_work.id). NULL: it has ended. */
struct psd_work *psd_call_work(const struct psd_task *t, uint64_t call);

/* ---- copies.c ---- */
bool psd_copies_have_work(const struct psd_task *t);
/** Copy about psd_task_config.copy_slice_bytes in all for the calls' copies, which take turns. A copy of an atomic variable that
 * keeps changing is made at once, however long it is. */
void psd_copies_work(struct psd_task *t);

/* ---- drafts.c: values that calls write into variables of this task ---- */
/** psd_task_draft(): give a call memory for a variable's new value. */
ps_status psd_draft_new(struct psd_task *t, uint64_t call, const struct psd_draft_spec *what, void **out_room,
                        struct psi_err *err) PSI_MUST;
/** psd_task_publish(): make a draft its variable's value, now or when no checkpoint and no push is in the way. */
void psd_publish_begin(struct psd_task *t, struct psd_publish *p);
/** True if the oldest waiting publish can be done: neither a checkpoint's memory nor a push (moves.c) holds it up. */
bool psd_publishes_have_work(const struct psd_task *t);
void psd_publishes_work(struct psd_task *t);
void psd_publishes_end(struct psd_task *t);
void psd_publishes_cancel(struct psd_task *t, uint64_t call);
/** Free the drafts of k. Call when k has ended, so that no thread writes into them. */
void psd_drafts_free(struct psd_task *t, struct psd_work *k);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: what arrives on a connection, family by family. dispatch.c reads frames and calls these; one file each.
 * A handler's body is the control frame's payload, whole, with padding.
 */
#ifndef PSD_RPC_H
#define PSD_RPC_H

#include "rows.h"

#include "psd/session/wait.h"

/* ---- the handlers of the rows of rows.h, each in the file of its family; those of the directory in psd/directory/ ---- */
#define PSD_HANDLER(op, rules, place, handler) void handler(struct psd_task *t, struct psd_conn *c, const struct psd_request *r);
PSD_REQUESTS(PSD_HANDLER)
#undef PSD_HANDLER

/* ---- items.c: names and definitions in messages ---- */
/** Name of a container in a message; an empty one is the default container. */
ps_status psd_container_parse(const pb_bytes_array_t *field, char container[PS_CONTAINER_BYTES_MAX + 1],
                              struct psi_err *err) PSI_MUST;
/** Name and definition out of a CREATE item; the container's default filled in. The caller frees out->queue, which may also be
 * there when it is refused. */
ps_status psd_create_parse(const ps_v1_CreateItem *item, struct psd_create *out, struct psi_err *err) PSI_MUST;
ps_status psd_name_parse(const ps_v1_NameItem *item, char container[PS_CONTAINER_BYTES_MAX + 1], char name[PS_NAME_BYTES_MAX + 1],
                         struct psi_err *err) PSI_MUST;
/** The key in an item that names this container. Of a container that belongs to no session: nothing is read. INVALID_ARGUMENT: no
 * session has such a name; PERMISSION_DENIED: no key is there. */
ps_status psd_key_parse(const pb_bytes_array_t *field, const char *container, uint8_t key[PSI_KEY_BYTES],
                        struct psi_err *err) PSI_MUST;
/** PERMISSION_DENIED: the container belongs to a session, and the key is missing or another one. */
ps_status psd_key_denied(const char *container, struct psi_err *err) PSI_MUST;
/** INVALID_ARGUMENT: the container belongs to a session, and `what` ("rounds") is not to be had there. */
ps_status psd_session_refuse(const char *container, const char *what, struct psi_err *err) PSI_MUST;
void psd_create_to_msg(const struct psd_create *create, ps_v1_CreateItem *out);
/** The first item of r's body. what: "variable", for the error where there is none. */
ps_status psd_item_first(const struct psd_request *r, const pb_msgdesc_t *d, void *out, const char *what,
                         struct psi_err *err) PSI_MUST;
/** The item of r's body, which has one; of an operation that is done to one thing. out_none: set when there is none, for those
 * that may have none; NULL: that is refused. INVALID_ARGUMENT also for several: the others would be passed over in silence. */
ps_status psd_item_only(const struct psd_request *r, const pb_msgdesc_t *d, void *out, const char *what, bool *out_none,
                        struct psi_err *err) PSI_MUST;
/** v is a queue, or is none, as a request needs it. INVALID_ARGUMENT. */
ps_status psd_target_check(const struct psd_task *t, const struct psd_variable *v, bool queue, struct psi_err *err) PSI_MUST;
/** A handle whose variable was reset or deleted. */
ps_status psd_fail_gone(const struct psd_task *t, uint32_t handle, struct psi_err *err) PSI_MUST;
/** A text that a peer chose, printable, so that it can go to logs and terminals as it is. */
void psd_text_printable(const pb_bytes_array_t *field, char *dst, size_t cap);

/* ---- outcome.c: what becomes of a mutation's number; ABANDON ---- */
/** Send the recorded outcome of n. */
void psd_outcome_send(struct psd_task *t, struct psd_conn *c, uint8_t op, uint32_t handle, const struct psd_number *n);
/** A frame of c does not continue where its number stands: c is closed. */
void psd_outcome_gap(struct psd_task *t, struct psd_conn *c, const char *why);
/** May the sequence number in r begin, that of a mutation without a body? False: a replay (its outcome is sent) or a GAP
 * (closed).
 */
bool psd_outcome_may_begin(struct psd_task *t, struct psd_conn *c, const struct psd_request *r) PSI_MUST;
/** PS_OP_* of a mutation with a body of this kind (enum psd_push_kind). */
uint8_t psd_push_op(uint8_t kind);
/** number, new or in progress, ends refused; part of it may be in: err says so then. */
void psd_outcome_refuse(struct psd_task *t, struct psd_record *record, uint64_t number, struct psi_err *err);
/** End a mutation with a body as refused, and tell c, which may be NULL. */
void psd_outcome_refuse_push(struct psd_task *t, struct psd_record *record, struct psd_conn *c, uint8_t op, uint32_t handle,
                             uint64_t number, struct psi_err *err);
/** End number n, in progress, as abandoned at its offset: its prefix stays (counted as torn). */
void psd_outcome_tear(struct psd_task *t, struct psd_record *record, const struct psd_number *n);
/** A number that the record does not know and admits ends as abandoned. */
void psd_outcome_abandon(struct psd_task *t, struct psd_record *record, uint64_t number);
/** Every push in progress to v, which is about to go, ends ABORTED. */
void psd_outcome_abort_variable(struct psd_task *t, const struct psd_variable *v);
/** psd_outcome_abort_variable() for all variables of a container at once. */
void psd_outcome_abort_container(struct psd_task *t, const struct psd_container *in);
/** Every gradient in progress to v, which is about to be in rounds, ends FAILED_PRECONDITION. */
void psd_outcome_abort_pushes(struct psd_task *t, const struct psd_variable *v);
/** Only members of rounds have gradients for v. */
ps_status psd_fail_in_rounds(const struct psd_task *t, const struct psd_variable *v, struct psi_err *err) PSI_MUST;

/** May the value of v change now: UNAVAILABLE while its round closes. */
ps_status psd_round_check(const struct psd_task *t, const struct psd_variable *v, struct psi_err *err) PSI_MUST;

/* ---- session.c ---- */
/** The session has been heard: it is a member of the cluster for a lease. */
void psd_lease_renew(struct psd_task *t, struct psd_record *record);
/** It is none any more. */
void psd_lease_end(struct psd_task *t, struct psd_record *record);
/** Directory: the session that holds this lease; NULL: it is over, or free. */
const struct psd_record *psd_chief_holder(const struct psd_task *t, const struct psd_chief *chief);
/** Directory: somebody holds one. */
bool psd_chief_any(const struct psd_task *t);
/** c is, or is about to be, closed: its session, if it has one, is without a connection. */
void psd_session_left(struct psd_task *t, struct psd_conn *c);
/** The clock moves on to now_ms: what fell silent since it last moved may have been heard until now. */
void psd_silent_tick(struct psd_task *t, uint64_t now_ms);
/** The answer to a BEAT of c's session, which has come or is taken as said; renews its lease. */
void psd_beat_answer(struct psd_task *t, struct psd_conn *c, uint64_t id);
/** Memory of the budget that its pushes and calls hold. */
uint64_t psd_session_staged_bytes(const struct psd_record *r);
/** Its waiting requests, or those only whose list has come in part, are forgotten. */
void psd_session_end_waits(struct psd_task *t, struct psd_record *record, bool collecting_only);
/** session_keep is over, or goodbye: forget the session. */
void psd_session_drop(struct psd_task *t, struct psd_record *record);

/* ---- directory/own.c ---- */
/** Directory: the session has this container, or none. The one that it had before is not its own any more. */
void psd_own_claim(struct psd_task *t, struct psd_record *record, const struct psd_own *own);
void psd_own_leave(struct psd_task *t, struct psd_record *record);
/** The session of c has shown the key of this container, and may use the handles of what is there as long as the session's record
 * and the container live. Of another container: nothing to do. RESOURCE_EXHAUSTED. */
ps_status psd_own_show(struct psd_task *t, struct psd_conn *c, const struct psd_container *in, struct psi_err *err) PSI_MUST;
/** Fail: PERMISSION_DENIED, the session has not shown the key. */
ps_status psd_own_handle_denied(const struct psd_variable *v, struct psi_err *err) PSI_MUST;

/* ---- hello.c ---- */
/** Is the HELLO in r meant for this task, and understood? */
ps_status psd_hello_check(const struct psd_task *t, const struct psd_request *r, ps_v1_Hello *out, struct psi_err *err) PSI_MUST;
void psd_hello_refuse(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, const struct psi_err *err);
/** A client's HELLO. */
void psd_hello_session(struct psd_task *t, struct psd_conn *c, const ps_v1_Hello *hello, const struct psd_request *r);
/** HELLO's answer to another task (no record, no numbers). */
void psd_hello_task_answer(struct psd_task *t, struct psd_conn *c, const ps_v1_Hello *hello, const struct psd_request *r);

/* ---- claim.c: the place of a trainer ---- */
/** Directory: may the session of this HELLO, with this default container, be the task that it names? A process that was silent
 * for a lease loses its place. UNAVAILABLE, CONFLICT: another process has the place, and may be dead. FAILED_PRECONDITION,
 * CONFLICT: another process has it, and has proved that it lived after this session first asked. */
ps_status psd_claim(struct psd_task *t, const ps_v1_Hello *hello, const char *container, struct psi_err *err) PSI_MUST;
/** The last process that was refused the place of this session in the last five minutes; "": there is none, the process was let
 * in since, or the session has no connection. */
const char *psd_claim_rival(const struct psd_task *t, const struct psd_record *record);
/** Directory: a BEAT of this session has brought this number back; 0: none. A number that was not made for it is ignored. */
void psd_claim_proved(struct psd_record *record, uint64_t number);

/* ---- job.c: the end of a job ---- */
/** A task of this job trains, and the end of the job waits for it: job worker, chief or master. */
bool psd_job_trains(const char *job);
/** Directory: how many trainers are done, of how many (0: the cluster lists none), and which are not. A trainer that the
 * cluster does not list counts while it holds a lease and is not done. */
void psd_job_count(const struct psd_task *t, uint32_t *out_done, uint32_t *out_of, struct psd_names *out_missing);
/** A session has begun: if it is a trainer's, the trainer is not done any more. */
void psd_job_session(struct psd_task *t, struct psd_record *record);
/** It holds a lease again: if the word of an older process counted while it was away, it does not any more. */
void psd_job_session_back(struct psd_task *t, const struct psd_record *record);
/** The task at p, which has listed, hears of it if the job is done. */
void psd_job_tell(struct psd_task *t, struct psd_peer *p);
/** It has. */
void psd_job_told(struct psd_peer *p);
/** Time has passed: the end of this task may have come. */
void psd_job_tick(struct psd_task *t);

/* ---- room.c: what gives way when something is short ---- */
enum psd_room { PSD_ROOM_PUSHES, PSD_ROOM_MEMORY, PSD_ROOM_LISTS };
/** Is there room for n more (pushes in progress, bytes of the budget, bytes of waiting requests' lists)? Where there is not, work
 * and records of sessions past their lease end, if that helps. Ends no session that is connected. */
bool psd_room(struct psd_task *t, enum psd_room what, uint64_t n);
/** As psd_store_stage_raw(), with room made for it. */
void *psd_room_stage(struct psd_task *t, uint64_t n);
/** For a whole value of v: the first one has its room since the creation. psd_variable_unstage_kept() gives it back. */
void *psd_room_stage_first(struct psd_task *t, const struct psd_variable *v, uint64_t bytes);
/** A record goes, so that another session can have one; false: all were heard within their lease. */
bool psd_room_session(struct psd_task *t);

/* ---- push.c: PUSH PUSHPULL ASSIGN ADD ---- */
void psd_push_segment(struct psd_task *t, struct psd_conn *c, const uint8_t *p, uint32_t n);
void psd_push_end(struct psd_task *t, struct psd_conn *c);
void psd_progress_free_all(struct psd_task *t);

/* ---- age.c ---- */
/** A push to v was applied: `version` afterwards, from as ps_push_meta.version. */
void psd_age_note(const struct psd_variable *v, uint64_t version, uint64_t from);
/** So many contributions of a round are applied in the container of v: to the values that they were computed from. */
void psd_age_note_round(const struct psd_variable *v, uint64_t count);

/* ---- pull.c ---- */
/** PUSHPULL: send the new values of elements [first, first + count) of v as `wire`. Values that cannot be had (memory) are left
 *  out: the client pulls what it misses. */
void psd_pull_values(struct psd_task *t, struct psd_conn *c, uint64_t number, uint32_t handle, const struct psd_variable *v,
                     ps_dtype wire, uint64_t first, uint64_t count);
void psd_pull_free_all(struct psd_task *t);

/* ---- follow.c: the numbers of chiefs ---- */
/** Is `number` (0: lower than any) followed here? ABORTED where a higher one is known for the container: names it. */
ps_status psd_chief_check(const struct psd_task *t, const char *container, uint64_t number, struct psi_err *err) PSI_MUST;
/** A number that has passed the check, of who is called text; 0: not as a chief. RESOURCE_EXHAUSTED. */
ps_status psd_chief_follow(struct psd_task *t, const char *container, uint64_t number, const char *text,
                           struct psi_err *err) PSI_MUST;
/** The highest number of the container is this one, of who is called text; record: it is given the lease with it, or NULL.
 * RESOURCE_EXHAUSTED. */
ps_status psd_chief_set(struct psd_task *t, const char *container, struct psd_record *record, uint64_t number, const char *text,
                        struct psi_err *err) PSI_MUST;

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

/* ---- variable.c: variables at their owner ---- */
/** Local create: make it or find it with the same definition; item->created says which. */
ps_status psd_create_here(struct psd_task *t, struct psd_create *item, struct psi_err *err) PSI_MUST;
void psd_drop_here(struct psd_task *t, const struct psd_variable *v);
/** Empty a container in this event: for what comes in its place in the same event, and for a small one. The caller logs it, with
 * who asked. False: there is no such container, nothing was done. */
bool psd_reset_here(struct psd_task *t, const char *container);
/** Log that a container was emptied. peer: who asked for that, borrows. */
void psd_reset_log(struct psd_task *t, const char *container, const char *peer);

/* ---- emptying.c: a container that is reset is emptied in slices ---- */
/** The container is empty. id and bar: as given to psd_emptying_begin(); id 0: whoever asked is gone. */
typedef void (*psd_emptied_fn)(struct psd_task *t, const char *container, uint64_t id, uint64_t bar);
/** Empty the container, and then call done: once, in this event where there is little to drop. From now on no request finds what
 * is in it, what is in progress to it has ended, and psd_create_here() is refused until it is empty. */
void psd_emptying_begin(struct psd_task *t, const char *container, psd_emptied_fn done, uint64_t id, uint64_t bar);
bool psd_emptying_has_work(const struct psd_task *t);
/** Drop psd_task_config.reset_slice_names of the oldest. */
void psd_emptying_work(struct psd_task *t);
/** psd_reset_here() empties it at once: what is left for the slices is to tell. */
void psd_emptying_overtaken(struct psd_task *t, const struct psd_container *in);
/** The connection to the directory is lost: nobody hears the answers. */
void psd_emptying_directory_lost(struct psd_task *t);
void psd_emptying_fini(struct psd_task *t);

/* ---- listing.c: lists of what a task has, in slices ---- */
struct psd_listing {
    uint8_t op;
    uint16_t flags;
    /* looks at one thing, and adds an entry where there is one; false: nothing is left. NULL: all variables and queues, by `add`
     */
    bool (*step)(struct psd_task *t, struct psd_conn *c, struct psd_list *l);
    void (*add)(struct psd_list *l, const struct psd_variable *v); /* adds the entry of a variable or queue, if it has one */
    void (*end)(struct psd_task *t, struct psd_list *l);           /* adds the end of the list; NULL: nothing more */
};
/** Begin a list. of: borrowed until the list is over. Not while another list of c goes on. */
void psd_listing_begin(struct psd_task *t, struct psd_conn *c, const struct psd_listing *of, uint64_t id);
/** A list of c goes on, so no further request of the connection is carried out. */
bool psd_listing_goes_on(const struct psd_conn *c);
bool psd_listing_has_work(const struct psd_task *t);
/** Make one slice. Returns a connection whose list is over, for the requests that it has kept; NULL: there is none. */
struct psd_conn *psd_listing_work(struct psd_task *t);
/** As psd_slow_tick(). */
void psd_listing_tick(struct psd_task *t);

/* ---- call.c: CALL ---- */
/** More of the input of w, a CALL, has come, in the order of its bytes; the last ones begin it. */
void psd_call_bytes(struct psd_task *t, struct psd_wait *w, const uint8_t *p, uint32_t n);
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
/** k is over: its drafts go, in which nobody writes any more. */
void psd_drafts_free(struct psd_task *t, struct psd_work *k);

/* ---- queue_turns.c, queue_ends.c: ENQUEUE, DEQUEUE, QUEUE_CLOSE ---- */
/** The end of an event: everybody whose turn has come at a queue has it. */
void psd_queues_turn(struct psd_task *t);
/** Some of them waited for a cut, and need not any more. */
bool psd_queues_have_work(const struct psd_task *t);
/** v, a queue, is about to go: who waits there ends CANCELLED. */
void psd_queue_abort(struct psd_task *t, const struct psd_variable *v);
/** r has had no connection for a lease: its requests to queues end, and what it took goes back. */
void psd_queue_session_away(struct psd_task *t, struct psd_record *r);
/** r ends, and then its waiting requests: what it took and holds goes back. */
void psd_queue_session_end(struct psd_task *t, struct psd_record *r);
/** The task ends: who waits at a queue is told. */
void psd_queues_drain(struct psd_task *t);
void psd_queues_check_invariants(const struct psd_task *t);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Client sessions at a ps task, and what depends on them: leases, outcomes of pushes and other mutations, which process may train
 * as a worker task, the end of a job, long lists, queue requests of sessions that end. Waiting requests are in wait.h. */
#ifndef PSD_SESSION_H
#define PSD_SESSION_H

#include "wait.h"

/* ---- session.c ---- */
/** Call at HELLO and, at the directory, at BEATs: the session counts as alive for one lease (a setting, in ms) from now on. */
void psd_lease_renew(struct psd_task *t, struct psd_record *record);
void psd_lease_end(struct psd_task *t, struct psd_record *record);
/** Directory: find the session that is the chief (may initialise the container); NULL: none. */
const struct psd_record *psd_chief_holder(const struct psd_task *t, const struct psd_chief *chief);
/** Directory: true if any container has a chief. */
bool psd_chief_any(const struct psd_task *t);
/** Call when c is closed or about to be: from then on its session has no connection. */
void psd_session_left(struct psd_task *t, struct psd_conn *c);
/** Call when the clock moves to now_ms: sessions that lost their connection since the last tick count as silent since now_ms. */
void psd_silent_tick(struct psd_task *t, uint64_t now_ms);
/** Answer the BEAT `id` of c's session; the directory also renews the lease. id 0: no BEAT, only a sign that this task lives. */
void psd_beat_answer(struct psd_task *t, struct psd_conn *c, uint64_t id);
/** The bytes of the memory budget that unfinished pushes and calls of the session use. */
uint64_t psd_session_staged_bytes(const struct psd_record *r);
/** Free the session's waiting requests; collecting_only: only those whose frames have not all come. */
void psd_session_end_waits(struct psd_task *t, struct psd_record *record, bool collecting_only);
/** Forget the session: after GOODBYE, after the time session_keep without a connection, to make room, or when the task ends. */
void psd_session_drop(struct psd_task *t, struct psd_record *record);

/* ---- own.c: containers of sessions ---- */
/** Directory: note that the session owns this container, and no other, from now on. own->container "": it owns no container. */
void psd_own_claim(struct psd_task *t, struct psd_record *record, const struct psd_own *own);
void psd_own_leave(struct psd_task *t, struct psd_record *record);
/** Note that the session of c has shown the secret key of this container, so that it may use handles in it. Does nothing for a
 * container without a key. RESOURCE_EXHAUSTED: no memory. */
ps_status psd_own_show(struct psd_task *t, struct psd_conn *c, const struct psd_container *in, struct psi_err *err) PSI_MUST;
/** Fail with PERMISSION_DENIED: the session has not shown the secret key of v's container. */
ps_status psd_own_handle_denied(const struct psd_variable *v, struct psi_err *err) PSI_MUST;

/* ---- claim.c: only one process at a time trains as a given worker task ---- */
/** Directory: check that the session of this HELLO may train as the task that it names, with this default container. UNAVAILABLE
 * (CONFLICT): another process is connected as this task. FAILED_PRECONDITION (CONFLICT): it has also proved that it lives. */
ps_status psd_claim(struct psd_task *t, const ps_v1_Hello *hello, const char *container, struct psi_err *err) PSI_MUST;
/** Directory: enter the session in the table by job, task and default container of its HELLO (claim.c). */
void psd_claim_note(struct psd_task *t, struct psd_record *record);
/** The last process that was refused because this session trains as the task, if that was in the last five minutes. "": there was
 * none, or it has been accepted since, or the session has no connection. */
const char *psd_claim_rival(const struct psd_task *t, const struct psd_record *record);
/** Directory: call when a BEAT of this session returns `number`. If the directory sent this number, the session is alive. */
void psd_claim_proved(struct psd_record *record, uint64_t number);

/* ---- outcome.c: how a push or another numbered mutation ends; ABANDON ---- */
void psd_outcome_send(struct psd_task *t, struct psd_conn *c, uint8_t op, uint32_t handle, const struct psd_number *n);
/** Call when a frame of c is not the next piece of its push, or its number is out of order: logs this and closes c. */
void psd_outcome_gap(struct psd_task *t, struct psd_conn *c, const char *why);
/** True if the mutation with r's sequence number, which has no body, may be done. False: it was done before, and its outcome is
 * sent again; or an earlier number is missing (GAP), and the connection is closed. */
bool psd_outcome_may_begin(struct psd_task *t, struct psd_conn *c, const struct psd_request *r) PSI_MUST;
/** PS_OP_* of the request that brings a mutation of this kind (enum psd_push_kind). */
uint8_t psd_push_op(uint8_t kind);
/** Refuse the mutation with this number with *err. If a part of it was applied, sets err->applied to PS_MAYBE_PARTLY_APPLIED. */
void psd_outcome_refuse(struct psd_task *t, struct psd_record *record, uint64_t number, struct psi_err *err);
/** psd_outcome_refuse() for a mutation with a body: also counts the refusal, and answers c (NULL: nobody) with op and handle. */
void psd_outcome_refuse_push(struct psd_task *t, struct psd_record *record, struct psd_conn *c, uint8_t op, uint32_t handle,
                             uint64_t number, struct psi_err *err);
/** Apply the next `count` elements (at most psd_progress_left()) of push n, whose whole gradient has come (psd_number_moves()).
 * The update may need several passes over the value (psd_apply_move()); the last elements of the last pass finish the push. */
void psd_outcome_move(struct psd_task *t, struct psd_record *record, const struct psd_number *n, uint64_t count);
/** If the whole gradient of push n has come (psd_number_moves()): apply all elements that are left, which finishes the push.
 * False: nothing is left to do, or the variable has no memory: its checkpoint is still being loaded, here or by another task. */
bool psd_outcome_finish(struct psd_task *t, struct psd_record *record, const struct psd_number *n);
/** End the unfinished push n, of which no more will come: as finished if its whole gradient has come, otherwise as abandoned.
 * Elements that it has changed stay changed; an abandoned push that has changed some is counted as torn (half applied). */
void psd_outcome_tear(struct psd_task *t, struct psd_record *record, const struct psd_number *n);
/** End as abandoned a number of which no frame has come: the record lacks the number, and no number before it is missing. */
void psd_outcome_abandon(struct psd_task *t, struct psd_record *record, uint64_t number);
/** End every unfinished push to v as ABORTED, because v is about to be freed. This function and the next two finish a push
 * instead if its whole gradient has come. */
void psd_outcome_abort_variable(struct psd_task *t, const struct psd_variable *v);
void psd_outcome_abort_container(struct psd_task *t, const struct psd_container *in);
/** End every unfinished gradient push to v with FAILED_PRECONDITION: from now on v is trained in synchronous rounds. */
void psd_outcome_abort_pushes(struct psd_task *t, const struct psd_variable *v);
/** Fail with FAILED_PRECONDITION: v is trained in synchronous rounds, and only their workers change it. */
ps_status psd_fail_in_rounds(const struct psd_task *t, const struct psd_variable *v, struct psi_err *err) PSI_MUST;

/** Check that v may change outside of rounds. FAILED_PRECONDITION: v's rounds have a worker; UNAVAILABLE: a round closes. */
ps_status psd_round_check(const struct psd_task *t, const struct psd_variable *v, struct psi_err *err) PSI_MUST;

/* ---- job.c: the end of a job ---- */
/** True for the jobs worker, chief and master: their tasks are trainers, and the job is done when all of them are. */
bool psd_job_trains(const char *job);
/** Directory: *out_done: how many trainers have finished; *out_of: how many must finish (0: the cluster lists none); out_missing:
 * names of the others. A trainer that the cluster does not list counts while it holds a lease. */
void psd_job_count(const struct psd_task *t, uint32_t *out_done, uint32_t *out_of, struct psd_names *out_missing);
/** Call when a session begins: if it belongs to a trainer, this trainer counts as not finished again. */
void psd_job_session(struct psd_task *t, struct psd_record *record);
/** Call when a session is heard again after its lease had ended. A JOB_DONE of an older process of its task no longer counts. */
void psd_job_session_back(struct psd_task *t, const struct psd_record *record);
/** If the job is done, tell the ps task p, unless p knows this or has not sent its list of names on a connection. */
void psd_job_tell(struct psd_task *t, struct psd_peer *p);
/** Handle p's answer to TASK_DONE; err NULL: p knows that the job is done. */
void psd_job_answered(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                      const struct psi_err *err);
/** Call once a tick. If the job is done and exit_when_done is set: ends this task when no client needs it, or a lease later. */
void psd_job_tick(struct psd_task *t);

/* ---- room.c ---- */
enum psd_room { PSD_ROOM_PUSHES, PSD_ROOM_MEMORY, PSD_ROOM_LISTS };
/** True if there is room for n more of `what`: pushes in progress, bytes of memory, bytes of waiting requests. If room is short,
 * first ends what sessions past their lease hold, but only if that makes enough room. Connected sessions lose nothing. */
bool psd_room(struct psd_task *t, enum psd_room what, uint64_t n);
/** Make room by psd_room() and allocate n bytes. NULL: no room, or no memory. */
void *psd_room_stage(struct psd_task *t, uint64_t n);
/** Allocate room for a whole value of v: the memory reserved for its first value if that is unused, otherwise by
 * psd_room_stage(). psd_variable_unstage_kept() frees it. */
void *psd_room_stage_first(struct psd_task *t, const struct psd_variable *v, uint64_t bytes);
/** Drop the record of one session whose lease is over, to make room for another session. False: there is none. */
bool psd_room_session(struct psd_task *t);

/* ---- follow.c: the numbers of chiefs (sessions that may initialise a container) ---- */
/** Check the number of a request's sender as the container's chief (0: no chief). ABORTED: this task knows a newer chief's. */
ps_status psd_chief_check(const struct psd_task *t, const char *container, uint64_t number, struct psi_err *err) PSI_MUST;
/** Note the number of a chief that psd_chief_check() accepted, and its name `text`. number 0: do nothing. RESOURCE_EXHAUSTED. */
ps_status psd_chief_follow(struct psd_task *t, const char *container, uint64_t number, const char *text,
                           struct psi_err *err) PSI_MUST;
/** Set the container's highest chief number, and that chief's name and session (NULL: not known here). RESOURCE_EXHAUSTED. */
ps_status psd_chief_set(struct psd_task *t, const char *container, struct psd_record *record, uint64_t number, const char *text,
                        struct psi_err *err) PSI_MUST;

/* ---- listing.c: answers that list what a task has, sent in slices ---- */
struct psd_listing {
    uint8_t op;
    uint16_t flags;
    /* adds the next object's entry, unless it is left out; false: no object is left. NULL: add() for each variable and queue */
    bool (*step)(struct psd_task *t, struct psd_conn *c, struct psd_list *l);
    /* adds the entry of this variable or queue, if it belongs in the list */
    void (*add)(struct psd_list *l, const struct psd_variable *v);
    void (*end)(struct psd_task *t, struct psd_list *l); /* adds entries behind all others; NULL: there are none */
};
/** Begin a list on c, which has no unfinished list. of: must stay valid until the list ends. */
void psd_listing_begin(struct psd_task *t, struct psd_conn *c, const struct psd_listing *of, uint64_t id);
/** True while a list of c is unfinished: c's further requests wait. */
bool psd_listing_goes_on(const struct psd_conn *c);
bool psd_listing_has_work(const struct psd_task *t);
/** Send the next slice of a list. Returns the connection whose list has ended, to handle its kept requests. NULL: none. */
struct psd_conn *psd_listing_work(struct psd_task *t);
/** Send beats to clients that wait for unfinished lists, so that they see that the task is alive. Call once a tick. */
void psd_listing_tick(struct psd_task *t);

/* ---- queue_ends.c: requests to queues when their session or queue ends ---- */
enum { PSD_QUEUE_RETRY_MS = 50 };
/** Call when the task shuts down: all requests that wait at a queue end with UNAVAILABLE. */
void psd_queues_drain(struct psd_task *t);
/** Call before the queue v is freed: requests that wait at it end with CANCELLED. */
void psd_queue_abort(struct psd_task *t, const struct psd_variable *v);
/** End the queue requests of r, which has had no connection for a lease. Elements that they took go back to their queues. */
void psd_queue_session_away(struct psd_task *t, struct psd_record *r);
/** End the queue requests of r, which ends. Elements that they took go back to their queues. */
void psd_queue_session_end(struct psd_task *t, struct psd_record *r);
/** Find the queue at which w waits; NULL: it was reset or deleted. */
const struct psd_variable *psd_queue_of(const struct psd_task *t, const struct psd_wait *w);
/** Fail with ABORTED, LOST and PS_NOTHING_APPLIED, because the queue at which w waits was reset or deleted. */
ps_status psd_queue_fail_gone(const struct psd_task *t, const struct psd_wait *w, struct psi_err *err) PSI_MUST;
/** The number of elements that w has inserted or taken. */
uint64_t psd_queue_moved(const struct psd_wait *w);
/** Note that q has changed: psd_queues_turn() then examines, at the end of the event, the requests that wait at q. */
void psd_queue_touch(struct psd_task *t, const struct psd_queue *q);
/** Free the elements that the request w brought and that are not in the queue. */
void psd_queue_drop_elements(struct psd_task *t, struct psd_wait *w);
/** End w with err; an ENQUEUE's text also says "(k of n elements inserted)". Elements that w took go back to the queue. */
void psd_queue_end(struct psd_task *t, struct psd_wait *w, const struct psi_err *err);
/** End the record (attempt) of the elements that w inserted or took. give_back: those that it took go back to the queue. */
void psd_queue_attempt_end(struct psd_task *t, struct psd_wait *w, bool give_back);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions at a task, and what depends on them: leases, outcomes of mutations, the place of a trainer, the end of a job, long
 * lists, queue requests of sessions that end. Waiting requests are in wait.h.
 */
#ifndef PSD_SESSION_H
#define PSD_SESSION_H

#include "wait.h"

/* ---- session.c ---- */
/** The session was heard: it is a member of the cluster for a lease. */
void psd_lease_renew(struct psd_task *t, struct psd_record *record);
/** The session is no member of the cluster any more. */
void psd_lease_end(struct psd_task *t, struct psd_record *record);
/** Directory: the session that holds this chief lease; NULL: the lease has ended or is free. */
const struct psd_record *psd_chief_holder(const struct psd_task *t, const struct psd_chief *chief);
/** Directory: true if some session holds a chief lease. */
bool psd_chief_any(const struct psd_task *t);
/** c is closed, or is about to be: its session, if it has one, has no connection any more. */
void psd_session_left(struct psd_task *t, struct psd_conn *c);
/** The clock moves on to now_ms. Sessions that lost their connection since the last tick count as heard until now. */
void psd_silent_tick(struct psd_task *t, uint64_t now_ms);
/** Answer a BEAT of c's session, or act as if one had come; renews the session's lease. */
void psd_beat_answer(struct psd_task *t, struct psd_conn *c, uint64_t id);
/** Bytes of the memory budget that the session's pushes and calls hold. */
uint64_t psd_session_staged_bytes(const struct psd_record *r);
/** Free the session's waiting requests; collecting_only: only those whose list has come in part. */
void psd_session_end_waits(struct psd_task *t, struct psd_record *record, bool collecting_only);
/** Forget the session, after GOODBYE or session_keep. */
void psd_session_drop(struct psd_task *t, struct psd_record *record);

/* ---- own.c: containers of sessions ---- */
/** Directory: note that the session owns this container, and no longer the one it owned before. An empty name: none. */
void psd_own_claim(struct psd_task *t, struct psd_record *record, const struct psd_own *own);
void psd_own_leave(struct psd_task *t, struct psd_record *record);
/** The session of c has shown the key of this container, and may use handles in it as long as the session's record and the
 * container live. Does nothing for a container that is not a session's. RESOURCE_EXHAUSTED. */
ps_status psd_own_show(struct psd_task *t, struct psd_conn *c, const struct psd_container *in, struct psi_err *err) PSI_MUST;
/** Fail with PERMISSION_DENIED: the session has not shown the key of v's container. */
ps_status psd_own_handle_denied(const struct psd_variable *v, struct psi_err *err) PSI_MUST;

/* ---- claim.c: the place of a trainer ---- */
/** Directory: may the session of this HELLO, with this default container, be the task that it names? A process that was silent
 * for a lease loses its place. UNAVAILABLE (CONFLICT): another process has the place, and may be dead. FAILED_PRECONDITION
 * (CONFLICT): another process has it, and has proved that it lived after this session first asked. */
ps_status psd_claim(struct psd_task *t, const ps_v1_Hello *hello, const char *container, struct psi_err *err) PSI_MUST;
/** The last process that was refused the place of this session in the last five minutes. "": none was, the process was let in
 * since, or the session has no connection. */
const char *psd_claim_rival(const struct psd_task *t, const struct psd_record *record);
/** Directory: a BEAT of this session has returned this challenge number; 0: none. A number made for another session is ignored.
 */
void psd_claim_proved(struct psd_record *record, uint64_t number);

/* ---- outcome.c: how the number of a mutation ends; ABANDON ---- */
/** Send the recorded outcome of n. */
void psd_outcome_send(struct psd_task *t, struct psd_conn *c, uint8_t op, uint32_t handle, const struct psd_number *n);
/** A frame of c does not continue its number at the expected offset: log it and close c. */
void psd_outcome_gap(struct psd_task *t, struct psd_conn *c, const char *why);
/** May the sequence number in r begin (a mutation without a body)? False: a replay, whose outcome is sent, or a GAP, which closes
 * the connection. */
bool psd_outcome_may_begin(struct psd_task *t, struct psd_conn *c, const struct psd_request *r) PSI_MUST;
/** PS_OP_* of a mutation with a body of this kind (enum psd_push_kind). */
uint8_t psd_push_op(uint8_t kind);
/** End a new or unfinished number as refused. If part of it was applied, err->applied says so afterwards. */
void psd_outcome_refuse(struct psd_task *t, struct psd_record *record, uint64_t number, struct psi_err *err);
/** End a mutation with a body as refused, and answer c, which may be NULL. */
void psd_outcome_refuse_push(struct psd_task *t, struct psd_record *record, struct psd_conn *c, uint8_t op, uint32_t handle,
                             uint64_t number, struct psi_err *err);
/** End the unfinished number n as abandoned at its offset. What was applied stays, and is counted as torn. */
void psd_outcome_tear(struct psd_task *t, struct psd_record *record, const struct psd_number *n);
/** End a number as abandoned that the record admits and does not know. */
void psd_outcome_abandon(struct psd_task *t, struct psd_record *record, uint64_t number);
/** Every push in progress to v, which is about to be dropped, ends ABORTED. */
void psd_outcome_abort_variable(struct psd_task *t, const struct psd_variable *v);
/** psd_outcome_abort_variable() for all variables of a container at once. */
void psd_outcome_abort_container(struct psd_task *t, const struct psd_container *in);
/** Every gradient in progress to v, which is about to be in rounds, ends with FAILED_PRECONDITION. */
void psd_outcome_abort_pushes(struct psd_task *t, const struct psd_variable *v);
/** Fail with FAILED_PRECONDITION: v is in rounds, and only their members change it. */
ps_status psd_fail_in_rounds(const struct psd_task *t, const struct psd_variable *v, struct psi_err *err) PSI_MUST;

/** UNAVAILABLE if the value of v must not change because its round is closing. */
ps_status psd_round_check(const struct psd_task *t, const struct psd_variable *v, struct psi_err *err) PSI_MUST;

/* ---- job.c: the end of a job ---- */
/** True for the jobs whose tasks train, and which the end of the job waits for: worker, chief, master. */
bool psd_job_trains(const char *job);
/** Directory: count the trainers that are done and those that have to be (0: the cluster lists none), and name the missing ones.
 * A trainer that the cluster does not list counts while it holds a lease and is not done. */
void psd_job_count(const struct psd_task *t, uint32_t *out_done, uint32_t *out_of, struct psd_names *out_missing);
/** A session has begun: if it is a trainer's, that trainer counts as not done. */
void psd_job_session(struct psd_task *t, struct psd_record *record);
/** The session holds a lease again. If the JOB_DONE of an older process counted while it was away, it stops counting. */
void psd_job_session_back(struct psd_task *t, const struct psd_record *record);
/** Tell the task at p, which has listed, if the job is done. */
void psd_job_tell(struct psd_task *t, struct psd_peer *p);
/** The task at p has answered TASK_DONE; err NULL: OK. */
void psd_job_answered(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                      const struct psi_err *err);
/** Exit if the job is done and nobody needs this task any more. */
void psd_job_tick(struct psd_task *t);

/* ---- room.c: what is ended when something runs short ---- */
enum psd_room { PSD_ROOM_PUSHES, PSD_ROOM_MEMORY, PSD_ROOM_LISTS };
/** True if there is room for n more (pushes in progress, bytes of the budget, bytes of waiting requests' lists). If there is
 * not, work and records of sessions past their lease are ended, provided that this makes enough room. Connected sessions lose
 * nothing. */
bool psd_room(struct psd_task *t, enum psd_room what, uint64_t n);
/** psd_store_stage_raw(), after psd_room(). */
void *psd_room_stage(struct psd_task *t, uint64_t n);
/** Stage a whole value of v: memory for the first one was reserved at v's creation. Free it with psd_variable_unstage_kept(). */
void *psd_room_stage_first(struct psd_task *t, const struct psd_variable *v, uint64_t bytes);
/** Drop one record to make room for another session; false: all sessions were heard within their lease. */
bool psd_room_session(struct psd_task *t);

/* ---- follow.c: the numbers of chiefs ---- */
/** ABORTED if a higher chief number than `number` is known here for the container; the error names that chief. 0 is below all. */
ps_status psd_chief_check(const struct psd_task *t, const char *container, uint64_t number, struct psi_err *err) PSI_MUST;
/** Remember a number that psd_chief_check() has accepted, of the chief called text; 0: not a chief. RESOURCE_EXHAUSTED. */
ps_status psd_chief_follow(struct psd_task *t, const char *container, uint64_t number, const char *text,
                           struct psi_err *err) PSI_MUST;
/** Set the container's highest chief number, of the chief called text, and give its lease to record, which may be NULL.
 * RESOURCE_EXHAUSTED. */
ps_status psd_chief_set(struct psd_task *t, const char *container, struct psd_record *record, uint64_t number, const char *text,
                        struct psi_err *err) PSI_MUST;

/* ---- listing.c: lists of what a task has, in slices ---- */
struct psd_listing {
    uint8_t op;
    uint16_t flags;
    /* visits one thing, and adds an entry if there is one; false: nothing is left. NULL: visit all variables and queues, with
     * `add` */
    bool (*step)(struct psd_task *t, struct psd_conn *c, struct psd_list *l);
    /* adds the entry of a variable or queue, if the list has one for it */
    void (*add)(struct psd_list *l, const struct psd_variable *v);
    void (*end)(struct psd_task *t, struct psd_list *l); /* adds the last entries; NULL: none */
};
/** Begin a list; no other list of c may be unfinished. of: borrowed until the list ends. */
void psd_listing_begin(struct psd_task *t, struct psd_conn *c, const struct psd_listing *of, uint64_t id);
/** True while a list of c is unfinished: no further request of the connection is carried out. */
bool psd_listing_goes_on(const struct psd_conn *c);
bool psd_listing_has_work(const struct psd_task *t);
/** Make one slice. Returns a connection whose list has ended, so that its kept requests can be carried out; NULL: none. */
struct psd_conn *psd_listing_work(struct psd_task *t);
/** Send beats during long lists, as psd_slow_tick(). */
void psd_listing_tick(struct psd_task *t);

/* ---- queue_ends.c: requests to queues when their session or queue ends ---- */
enum { PSD_QUEUE_RETRY_MS = 50 };
/** The task shuts down: end all requests that wait at a queue. */
void psd_queues_drain(struct psd_task *t);
/** The queue v is about to be dropped: requests that wait at it end with CANCELLED. */
void psd_queue_abort(struct psd_task *t, const struct psd_variable *v);
/** r has had no connection for a lease: its requests to queues end, and what they took goes back. */
void psd_queue_session_away(struct psd_task *t, struct psd_record *r);
/** r ends, and its waiting requests will: what it took and holds goes back. */
void psd_queue_session_end(struct psd_task *t, struct psd_record *r);
/** The queue that w is about; NULL: it was reset or deleted. */
const struct psd_variable *psd_queue_of(const struct psd_task *t, const struct psd_wait *w);
/** Fail: the queue was reset or deleted, and the request has done nothing. */
ps_status psd_queue_fail_gone(const struct psd_task *t, const struct psd_wait *w, struct psi_err *err) PSI_MUST;
/** Elements that w has inserted or taken. */
uint64_t psd_queue_moved(const struct psd_wait *w);
/** Let requests that wait at q be looked at before the end of the event. */
void psd_queue_touch(struct psd_task *t, const struct psd_queue *q);
/** Free the elements that w has brought and not inserted. */
void psd_queue_drop_elements(struct psd_task *t, struct psd_wait *w);
/** End w with this error, to which "(k of n elements inserted)" is added; what w has taken goes back. */
void psd_queue_end(struct psd_task *t, struct psd_wait *w, const struct psi_err *err);
/** Forget what w has done. give_back: put what it has taken back into the queue. */
void psd_queue_attempt_end(struct psd_task *t, struct psd_wait *w, bool give_back);

#endif

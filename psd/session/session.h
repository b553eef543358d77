/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions, and what they leave behind: leases, outcomes of mutations, the place of a trainer, the end of a job, long lists, what
 * their end means for queues. Waiting requests are in wait.h.
 */
#ifndef PSD_SESSION_H
#define PSD_SESSION_H

#include "wait.h"

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

/* ---- own.c: containers of sessions ---- */
/** Directory: the session has this container, or none. The one that it had before is not its own any more. */
void psd_own_claim(struct psd_task *t, struct psd_record *record, const struct psd_own *own);
void psd_own_leave(struct psd_task *t, struct psd_record *record);
/** The session of c has shown the key of this container, and may use the handles of what is there as long as the session's record
 * and the container live. Of another container: nothing to do. RESOURCE_EXHAUSTED. */
ps_status psd_own_show(struct psd_task *t, struct psd_conn *c, const struct psd_container *in, struct psi_err *err) PSI_MUST;
/** Fail: PERMISSION_DENIED, the session has not shown the key. */
ps_status psd_own_handle_denied(const struct psd_variable *v, struct psi_err *err) PSI_MUST;

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
/** It has answered that, err NULL: OK. */
void psd_job_answered(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                      const struct psi_err *err);
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

/* ---- queue_ends.c: what the end of a session or of a queue means for requests to queues ---- */
enum { PSD_QUEUE_RETRY_MS = 50 };
/** The task ends: who waits at a queue is told. */
void psd_queues_drain(struct psd_task *t);
/** v, a queue, is about to go: who waits there ends CANCELLED. */
void psd_queue_abort(struct psd_task *t, const struct psd_variable *v);
/** r has had no connection for a lease: its requests to queues end, and what it took goes back. */
void psd_queue_session_away(struct psd_task *t, struct psd_record *r);
/** r ends, and then its waiting requests: what it took and holds goes back. */
void psd_queue_session_end(struct psd_task *t, struct psd_record *r);
/** The queue that w asks; NULL: it was reset or deleted. */
const struct psd_variable *psd_queue_of(const struct psd_task *t, const struct psd_wait *w);
/** "queue 'q' was reset or deleted" as the error of a request that was not carried out. */
ps_status psd_queue_fail_gone(const struct psd_task *t, const struct psd_wait *w, struct psi_err *err) PSI_MUST;
/** Elements that w has inserted or taken. */
uint64_t psd_queue_moved(const struct psd_wait *w);
/** Who waits at q may have its turn: looked at before the end of the event. */
void psd_queue_touch(struct psd_task *t, const struct psd_queue *q);
/** Free what w has not inserted. */
void psd_queue_drop_elements(struct psd_task *t, struct psd_wait *w);
/** w ends with this error, which gets "(k of n elements inserted)"; what it has taken goes back. */
void psd_queue_end(struct psd_task *t, struct psd_wait *w, const struct psi_err *err);
/** What w has done is not remembered any more. give_back: what it has taken is the queue's again. */
void psd_queue_attempt_end(struct psd_task *t, struct psd_wait *w, bool give_back);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: what arrives on a connection, family by family. dispatch.c reads frames and calls these; one file each.
 * A handler's body is the control frame's payload, whole, with padding.
 */
#ifndef PSD_RPC_H
#define PSD_RPC_H

#include "rows.h"
#include "wait.h"

struct psd_request {
    struct ps_frame_header header;
    const uint8_t *meta;
    const uint8_t *body;
    size_t body_bytes;
    /* what its row knows, requests.c */
    const struct psd_variable *variable; /* of the header's handle; NULL: there is none any more */
    const struct psi_err *refusal;       /* of a mutation with a number: it is its outcome. NULL: it is not refused */
};

/* ---- the handlers of the rows of rows.h, each in the file of its family ---- */
#define PSD_HANDLER(op, rules, place, handler) void handler(struct psd_task *t, struct psd_conn *c, const struct psd_request *r);
PSD_REQUESTS(PSD_HANDLER)
#undef PSD_HANDLER

/* ---- reply.c ---- */
/** A reply without a body. err NULL: OK. meta NULL: position, version and result 0. */
void psd_reply(struct psd_task *t, struct psd_conn *c, uint8_t op, uint16_t extra_flags, uint64_t id, uint32_t handle,
               const struct psi_err *err, uint32_t retry_after_ms, const struct ps_reply_meta *meta, const uint8_t *result);
/* A reply whose body is a list: begin, add ..., end. Splits into frames with MORE. */
struct psd_list {
    struct psd_task *task;
    struct psd_conn *conn;
    struct psi_buf buf;
    uint64_t id;
    uint8_t op;
    uint16_t flags; /* REPLY, or 0 for a request of ours */
    bool failed;
};
void psd_list_begin(struct psd_list *l, struct psd_task *t, struct psd_conn *c, uint8_t op, uint16_t flags, uint64_t id);
void psd_list_add(struct psd_list *l, const pb_msgdesc_t *d, const void *m);
void psd_list_end(struct psd_list *l);
/** As psd_list_end, but the list goes on with another psd_list of the same op and id. */
void psd_list_pause(struct psd_list *l);
/** Instead of a list: there is no memory for it; to be asked for again. */
void psd_list_refuse(struct psd_task *t, struct psd_conn *c, const struct psd_request *r);
/** The id of the next request of ours on c. */
uint64_t psd_ask_id(const struct psd_conn *c);
/** A request of ours with one message in its body (between tasks). Without memory c is closed and everything asked on it ends. */
void psd_ask_one(struct psd_task *t, struct psd_conn *c, uint8_t op, const pb_msgdesc_t *d, const void *m);

/** Status and text of a reply to us. */
ps_status psd_reply_error(const struct psd_request *r, struct psi_err *err) PSI_MUST;

/* ---- hello.c ---- */
/** The answer to a BEAT of c's session, which has come or is taken as said; renews its lease. */
void psd_beat_answer(struct psd_task *t, struct psd_conn *c, uint64_t id);
/** A text that a peer chose, printable, so that it can go to logs and terminals as it is. */
void psd_hello_text(const pb_bytes_array_t *field, char *dst, size_t cap);
/** The session has been heard: it is a member of the cluster for a lease. */
void psd_lease_renew(struct psd_task *t, struct psd_record *record);
/** It is none any more. */
void psd_lease_end(struct psd_task *t, struct psd_record *record);
/** Directory: a session holds the chief's lease. */
bool psd_chief_alive(const struct psd_task *t);
/** HELLO's answer to another task (no record, no numbers). */
void psd_hello_task_answer(struct psd_task *t, struct psd_conn *c, const ps_v1_Hello *hello, const struct psd_request *r);
/** session_keep is over, or goodbye: forget the session. */
void psd_session_drop(struct psd_task *t, struct psd_record *record);

/* ---- push.c: PUSH PUSHPULL ASSIGN ADD ABANDON ---- */
void psd_push_segment(struct psd_task *t, struct psd_conn *c, const uint8_t *p, uint32_t n);
void psd_push_end(struct psd_task *t, struct psd_conn *c);
/** May the sequence number in r begin, that of a mutation without a body? False: a replay (its outcome is sent) or a GAP
 * (closed).
 */
bool psd_push_may_begin(struct psd_task *t, struct psd_conn *c, const struct psd_request *r) PSI_MUST;
/** End number n, in progress, as abandoned at its offset: its prefix stays (counted as torn). */
void psd_push_tear(struct psd_task *t, struct psd_record *record, const struct psd_number *n);
/** A number that the record does not know and admits ends as abandoned. */
void psd_push_abandon(struct psd_task *t, struct psd_record *record, uint64_t number);
/** number, new or in progress, ends refused; part of it may be in: err says so then. */
void psd_push_refuse(struct psd_task *t, struct psd_record *record, uint64_t number, struct psi_err *err);
/** Every push in progress to v, which is about to go, ends ABORTED. */
void psd_push_abort_variable(struct psd_task *t, const struct psd_variable *v);
/** Send the recorded outcome of n. */
void psd_push_outcome(struct psd_task *t, struct psd_conn *c, uint8_t op, uint32_t handle, const struct psd_number *n);
void psd_progress_free_all(struct psd_task *t);

/* ---- pull.c ---- */
/** PUSHPULL: send the new values of elements [first, first + count) of v as `wire`. Values that cannot be had (memory) are left
 *  out: the client pulls what it misses. */
void psd_pull_values(struct psd_task *t, struct psd_conn *c, uint64_t number, uint32_t handle, const struct psd_variable *v,
                     ps_dtype wire, uint64_t first, uint64_t count);
void psd_pull_free_all(struct psd_task *t);

/* ---- room.c: what gives way when something is short ---- */
enum psd_room { PSD_ROOM_PUSHES, PSD_ROOM_MEMORY, PSD_ROOM_LISTS };
/** Is there room for n more (pushes in progress, bytes of the budget, bytes of waiting requests' lists)? Where there is not, work
 * and records of sessions past their lease end, if that helps. Ends no session that is connected. */
bool psd_room(struct psd_task *t, enum psd_room what, uint64_t n);
/** As psd_store_stage(), with room made for it. */
void *psd_room_stage(struct psd_task *t, uint64_t n);
/** For a whole value of v: the first one has its room since the creation. psd_variable_unstage() gives it back. */
void *psd_room_stage_first(struct psd_task *t, const struct psd_variable *v, uint64_t bytes);
/** A record goes, so that another session can have one; false: all were heard within their lease. */
bool psd_room_session(struct psd_task *t);
/** r has no connection any more. */
void psd_silent_begin(struct psd_task *t, struct psd_record *r);
/** The clock moves on to now_ms: what fell silent since it last moved may have been heard until now. */
void psd_silent_tick(struct psd_task *t, uint64_t now_ms);
/** Memory of the budget that its pushes, INITs in the making and calls hold. */
uint64_t psd_record_staged_bytes(const struct psd_record *r);

/* ---- slow.c: the INIT of a large variable, in slices ---- */
/* What an INIT asks for. */
struct psd_init {
    const struct psd_variable *variable;
    ps_optimizer optimizer;
    ps_initializer initializer;
    uint64_t seed, chief_number;
    bool force;
};
/** True: it has much to fill, which begins; c is not read until it is carried out, by psd_init_carry_out(). */
bool psd_slow_begin(struct psd_task *t, struct psd_conn *c, const struct psd_request *r);
/** c ends: as if its INIT had not come. */
void psd_slow_drop(struct psd_task *t, struct psd_conn *c);
/** What follows the INIT in the bytes that came with it; false: no memory. */
bool psd_slow_keep(struct psd_conn *c, const uint8_t *p, size_t n) PSI_MUST;
/** Memory that it holds for the INIT of c. */
uint64_t psd_slow_bytes(const struct psd_conn *c);
/** Sessions whose connection is not read for it are told that this task is alive, and stay alive here. */
void psd_slow_tick(struct psd_task *t);

/* ---- variable.c: OPEN INIT SEAL VARS ---- */
/** Everything that refuses an INIT; changes nothing. out->chief_number is set once it has passed. */
ps_status psd_init_check(const struct psd_task *t, const struct psd_request *r, struct psd_init *out,
                         struct psi_err *err) PSI_MUST;
/** made: what its initializer gives, or NULL: it is run here. */
void psd_init_carry_out(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, struct psd_making *made);
/** A handle whose variable was reset or deleted. */
ps_status psd_fail_gone(const struct psd_task *t, uint32_t handle, struct psi_err *err) PSI_MUST;
/** Local create: make it or find it with the same definition. */
ps_status psd_create_here(struct psd_task *t, const char *container, const char *name, const struct psd_definition *d,
                          bool *out_created, struct psi_err *err) PSI_MUST;
void psd_drop_here(struct psd_task *t, const struct psd_variable *v);
void psd_reset_here(struct psd_task *t, const char *container);
/** Name of a container in a message; an empty one is the default container. */
ps_status psd_container_parse(const pb_bytes_array_t *field, char container[PS_CONTAINER_BYTES_MAX + 1],
                              struct psi_err *err) PSI_MUST;
/** Name and definition out of a CREATE item; the container's default filled in. */
ps_status psd_create_parse(const ps_v1_CreateItem *item, struct psd_create *out, struct psi_err *err) PSI_MUST;
ps_status psd_name_parse(const ps_v1_NameItem *item, char container[PS_CONTAINER_BYTES_MAX + 1], char name[PS_NAME_BYTES_MAX + 1],
                         struct psi_err *err) PSI_MUST;
void psd_create_to_msg(const struct psd_create *create, ps_v1_CreateItem *out);

/* ---- call.c: CALL ---- */
void psd_call_free_all(struct psd_task *t);
void psd_call_check_invariants(const struct psd_task *t);

/* ---- create.c: CREATE FIND DELETE CHIEF (directory) ---- */
/** The owner's answer to an item (err NULL: it has it). */
void psd_create_answered(struct psd_task *t, struct psd_peer *peer, struct psd_ask *ask, bool created, const struct psi_err *err);
void psd_delete_answered(struct psd_task *t, const struct psd_peer *peer, struct psd_ask *ask, const struct psi_err *err);

/** The directory forgets n. */
void psd_name_forget(struct psd_task *t, const struct psd_name *n);
/** It takes item to be at owner, with its definition, from now on. */
ps_status psd_name_record(struct psd_task *t, const struct psd_create *item, const struct psd_peer *owner,
                          struct psi_err *err) PSI_MUST;

/* ---- reset.c (directory) ---- */
/** The pending reset of this container; NULL when there is none. */
struct psd_reset *psd_reset_find(struct psd_task *t, const char *container);
/** UNAVAILABLE while a reset of this container is pending: names those who have not answered it. */
ps_status psd_reset_check(struct psd_task *t, const char *container, struct psi_err *err) PSI_MUST;
/** What the task at peer lists of this container goes with a reset that it has not carried out. */
bool psd_reset_covers(struct psd_task *t, const struct psd_peer *peer, const char *container);
/** The task at peer has done its part. */
void psd_reset_answered(struct psd_task *t, struct psd_peer *peer, const char *container);
/** A task lists: it joins every reset that is pending or that it has missed (RESET goes out before its list is answered). */
void psd_reset_join(struct psd_task *t, struct psd_peer *peer);

/* ---- tasklink.c ---- */
void psd_task_link_up(struct psd_task *t, struct psd_conn *c); /* we dialled: say HELLO */
void psd_task_link_hello(struct psd_task *t, struct psd_conn *c, const ps_v1_Hello *hello, const struct psd_request *r);
void psd_task_link_lost(struct psd_task *t, struct psd_conn *c);
void psd_task_link_tick(struct psd_task *t);

/* ---- dispatch.c ---- */
void psd_dispatch(struct psd_task *t, struct psd_conn *c, const uint8_t *p, size_t n);
/** A new connection: while there is no segment buffer to be had it is not read. */
/** All are lent: nobody else is read. */
bool psd_buffers_exhausted(const struct psd_task *t);
void psd_buffer_join(struct psd_task *t, struct psd_conn *c);
/** Give the segment buffer of c back. */
void psd_buffer_return(struct psd_task *t, struct psd_conn *c);

#endif

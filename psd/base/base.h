/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every request stands on: effects and logs, connections, replies, and who the other tasks are. What a request is
 * for is known in rpc/ and directory/ only.
 */
#ifndef PSD_BASE_H
#define PSD_BASE_H

#include "psd/state.h"

/* ---- effect.c ---- */
uint64_t psd_random(struct psd_task *t); /* never 0 */
void psd_log_fields(struct psd_task *t, enum psi_log_level level, const char *event, const struct psi_kv *kv, size_t count);
/** psd_log(t, level, "ev", PSI_KV(...), ...) */
#define psd_log(t_, level_, event_, ...) psd_log_fields(t_, level_, event_, PSI_KVS(__VA_ARGS__))
/** False when there was no memory for it. */
bool psd_effect(struct psd_task *t, enum psd_effect_kind kind, const char *text) PSI_MUST;
/** A zeroed effect, queued; NULL without memory. */
struct psd_effect *psd_effect_new(struct psd_task *t, enum psd_effect_kind kind);

/* ---- conn.c ---- */
struct psd_conn *psd_conn_new(struct psd_task *t, void *shell, enum psd_role role, const char *text);
/** The core lets go of c; the shell closes the link (after its queue when flush). */
void psd_conn_close(struct psd_task *t, struct psd_conn *c, bool flush);
/** The shell has closed c, or is told to: it is closed from now on. */
void psd_conn_end(struct psd_task *t, struct psd_conn *c);
/** The first of task->ended, for all that refers to it to let go of it now: it is freed when the shell next asks what to do. */
struct psd_conn *psd_conn_next_ended(struct psd_task *t);
void psd_conns_free(struct psd_task *t);
/** Its peer is known: it may send what is large, into segment buffers. */
void psd_conn_admit(struct psd_task *t, struct psd_conn *c);
/** Count anew what connection c takes of the budget: its record, the message that it collects, and what waits to be sent. */
void psd_conn_count(struct psd_task *t, struct psd_conn *c);
/** Bounded outstanding replies: stop or start reading as the queue demands. */
void psd_conn_balance(struct psd_task *t, struct psd_conn *c);
/** Before the next piece of a frame: true: so many replies wait that nothing more of what was read is carried out. */
bool psd_full_begins(struct psd_task *t, struct psd_conn *c);
bool psd_full_has_work(const struct psd_task *t);
/** A connection whose replies are out: what was kept is to be dispatched. */
struct psd_conn *psd_full_work(struct psd_task *t);
void psd_mark_dirty(struct psd_task *t, struct psd_conn *c);
/** All segment buffers are lent: nobody else is read, but for those who are not known yet. */
bool psd_buffers_exhausted(const struct psd_task *t);
/** One of the task's, or, where the peer is not known yet, one of its own. False: there is none. */
bool psd_buffer_lend(struct psd_task *t, struct psd_conn *c) PSI_MUST;
/** Give the segment buffer of c back. */
void psd_buffer_return(struct psd_task *t, struct psd_conn *c);

/* ---- peers.c ---- */
struct psd_request;
ps_status psd_peers_init(struct psd_task *t, struct psi_err *err) PSI_MUST;
struct psd_peer *psd_peer_find(const struct psd_task *t, const char *job, uint32_t task);
/** "/job:ps/task:1 (host:port)" into a buffer of the caller. */
const char *psd_peer_text(const struct psd_task *t, const struct psd_peer *p, char *buf, size_t n);
/** This task has left that life of the directory. */
bool psd_peers_left(const struct psd_task *t, uint64_t life);
/** UNAVAILABLE while a task waits for what it begins with, or loads it: at the directory any of its job; elsewhere this one.
 * FAILED_PRECONDITION, at the directory: it does not begin with what is there. */
ps_status psd_peers_begun(const struct psd_task *t, struct psi_err *err) PSI_MUST;
/** As long as it is so, and nothing is here: an empty list would be no answer, so the request is refused as above. */
bool psd_peers_refuse(struct psd_task *t, struct psd_conn *c, const struct psd_request *r);
/** Another process says that it is p. */
void psd_peer_note_conflict(const struct psd_task *t, struct psd_peer *p, const char *host, uint32_t pid, uint64_t life);
/** Which other process says that it is p: "" when none has for a while. */
const char *psd_peer_conflict(const struct psd_task *t, const struct psd_peer *p);

/* ---- batch.c: one log line of what one call does to many variables ---- */
/** Count a variable in the line of this event, peer and detail, which is begun where the last such call was about another one.
 * event and the key of detail: constants; the rest is copied. detail: PSI_KV() of a text. */
void psd_log_batch(struct psd_task *t, enum psi_log_level level, const char *event, const char *peer, const char *var,
                   struct psi_kv detail);
/** Write the line that is begun, if there is one. */
void psd_batch_end(struct psd_task *t);
void psd_batch_tick(struct psd_task *t);

/* A frame that asks for something, whole. */
struct psd_request {
    struct ps_frame_header header;
    const uint8_t *meta;
    const uint8_t *body;
    size_t body_bytes;
    /* what its row knows, psd/rpc/requests.c */
    const struct psd_variable *variable; /* of the header's handle; NULL: there is none any more */
    const struct psi_err *refusal;       /* of a mutation or a waiting request: its outcome. NULL: it is not refused */
};

/* ---- reply.c ---- */
/** A reply without a body. err NULL: OK. meta NULL: position, version and result 0. */
void psd_reply(struct psd_task *t, struct psd_conn *c, uint8_t op, uint16_t extra_flags, uint64_t id, uint32_t handle,
               const struct psi_err *err, uint32_t retry_after_ms, const struct ps_reply_meta *meta, const uint8_t *result);
/** A good reply with a result and a body. */
void psd_reply_body(struct psd_task *t, struct psd_conn *c, uint8_t op, uint64_t id, const void *result, uint16_t result_bytes,
                    const void *body, uint32_t body_bytes);
/** Close c for the peer's fault; a last frame says why, unless half of another one is out or places are full. */
void psd_conn_fault(struct psd_task *t, struct psd_conn *c, ps_status st, ps_reason reason, const char *why);
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
/** A list of one message. */
void psd_list_one(struct psd_task *t, struct psd_conn *c, uint8_t op, uint16_t flags, uint64_t id, const pb_msgdesc_t *d,
                  const void *m);
/** Instead of a list: there is no memory for it; to be asked for again. */
void psd_list_refuse(struct psd_task *t, struct psd_conn *c, const struct psd_request *r);
/** The id of the next request of ours on c. */
uint64_t psd_ask_id(const struct psd_conn *c);
/** A request of ours with one message in its body (between tasks). Without memory c is closed and everything asked on it ends. */
void psd_ask_one(struct psd_task *t, struct psd_conn *c, uint8_t op, const pb_msgdesc_t *d, const void *m);
/** ... with one as its meta; HELLO, which has no id, too. */
void psd_ask_meta(struct psd_task *t, struct psd_conn *c, uint8_t op, const pb_msgdesc_t *d, const void *m);

/** Status and text of a reply to us. */
ps_status psd_reply_error(const struct psd_request *r, struct psi_err *err) PSI_MUST;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What every request is built on: effects and logs, connections, replies, and the other tasks. Only rpc/ and directory/ know what
 * a request means. */
#ifndef PSD_BASE_H
#define PSD_BASE_H

#include "psd/state.h"

/* ---- effect.c ---- */
uint64_t psd_random(struct psd_task *t); /* never 0 */
void psd_log_fields(struct psd_task *t, enum psi_log_level level, const char *event, const struct psi_kv *kv, size_t count);
/** psd_log(t, level, "ev", PSI_KV(...), ...) */
#define psd_log(t_, level_, event_, ...) psd_log_fields(t_, level_, event_, PSI_KVS(__VA_ARGS__))
/** Queue an effect. False: no memory. */
bool psd_effect(struct psd_task *t, enum psd_effect_kind kind, const char *text) PSI_MUST;
/** A zeroed effect, queued. NULL: no memory. */
struct psd_effect *psd_effect_new(struct psd_task *t, enum psd_effect_kind kind);
/** Have the shell open a connection to a task. False: no memory; ask again at a later tick. */
bool psd_effect_dial(struct psd_task *t, enum psd_dial dial, const struct psd_peer *peer) PSI_MUST;

/* ---- conn.c ---- */
struct psd_conn *psd_conn_new(struct psd_task *t, void *shell, enum psd_role role, const char *text);
/** The core gives c up; the shell closes the link, with `flush` after its queue is sent. */
void psd_conn_close(struct psd_task *t, struct psd_conn *c, bool flush);
/** From now on nothing is read straight into the input of a CALL. */
void psd_part_end(struct psd_conn *c);
/** The shell has closed c, or will: end c now. */
void psd_conn_end(struct psd_task *t, struct psd_conn *c);
/** Take the next connection of task->ended, after everything that refers to it has let go of it. It is freed when the shell next
 * asks for work. */
struct psd_conn *psd_conn_next_ended(struct psd_task *t);
void psd_conns_free(struct psd_task *t);
/** The peer of c is known: from now on it may send large bodies, into segment buffers. */
void psd_conn_admit(struct psd_task *t, struct psd_conn *c);
/** Count anew what c takes of the budget: its record, the message that it collects, and what waits to be sent. */
void psd_conn_count(struct psd_task *t, struct psd_conn *c);
/** Stop or resume reading from c, by the length of its send queue. */
void psd_conn_balance(struct psd_task *t, struct psd_conn *c);
/** Call this before each piece of a frame. True: too many replies wait, so nothing more of what was read is carried out. */
bool psd_full_begins(struct psd_task *t, struct psd_conn *c);
bool psd_full_has_work(const struct psd_task *t);
/** A connection that waited until its replies were sent, and whose bytes are to be dispatched now. */
struct psd_conn *psd_full_work(struct psd_task *t);
void psd_mark_dirty(struct psd_task *t, struct psd_conn *c);
/** True if all segment buffers are lent: then connections without a buffer are not read, except those with unknown peers. */
bool psd_buffers_exhausted(const struct psd_task *t);
/** Lend c a segment buffer of the task or, if its peer is not known yet, one of its own. False: there is none. */
bool psd_buffer_lend(struct psd_task *t, struct psd_conn *c) PSI_MUST;
void psd_buffer_return(struct psd_task *t, struct psd_conn *c);

/* ---- rights.c ---- */
/** The connection knows that its peer has all these rights on the container. False: ask psd_rights_in(). For each push. */
static inline bool psd_rights_are_known(const struct psd_conn *c, const struct psd_container *container, unsigned rights)
{
    const struct psd_allowed *allowed = &c->allowed[container->number % PSD_ALLOWED_KEPT];
    return allowed->of == container->number + 1 && (rights & ~allowed->rights) == 0;
}
/** The rights of c's peer on a container of this task, bits of enum psi_right; all while the task has no table of rights. c
 * keeps the answer. */
unsigned psd_rights_in(const struct psd_task *t, struct psd_conn *c, const struct psd_container *container);
/** The rights of c's peer on the container of this name, which this task need not have. container NULL: on the cluster. */
unsigned psd_rights_on(const struct psd_task *t, const struct psd_conn *c, const char *container);
/** See psd_task_rights_set(). Closes connections of tasks whose identity is no longer that of a task. */
void psd_rights_set(struct psd_task *t, struct psi_rights *rights);
/** Check that c's peer may be the task p, by psi_rights_member(). */
ps_status psd_rights_member(struct psd_task *t, const struct psd_conn *c, const struct psd_peer *p, struct psi_err *err) PSI_MUST;
/** c's peer may see what is in a container of this task, or in the one of this name. Lists leave out what it may not see. */
bool psd_rights_read_in(const struct psd_task *t, struct psd_conn *c, const struct psd_container *container);
bool psd_rights_read_on(const struct psd_task *t, const struct psd_conn *c, const char *container);
/** Check that the table of rights has a row for the identity of c's peer, known by HELLO. Errors: PERMISSION_DENIED, reason
 * IDENTITY; counted and logged as a denial. */
ps_status psd_rights_known(struct psd_task *t, const struct psd_conn *c, struct psi_err *err) PSI_MUST;
/** A denial. err gets PERMISSION_DENIED with who, what, where, and the row that would allow it. The denial is counted, and
 * logged once a minute for each identity and right. container NULL: the cluster. rights: those missing; the lowest is named. */
ps_status psd_rights_denied(struct psd_task *t, const struct psd_conn *c, const char *what, const char *container,
                            unsigned rights, struct psi_err *err);
/** psd_rights_denied() for an identity, whoever asks for it. peer: who asks, for the log. */
ps_status psd_rights_ask(struct psd_task *t, const char *peer, const struct psi_identity *who, const char *what,
                         const char *container, unsigned rights, struct psi_err *err) PSI_MUST;
/** Write a line of the audit: what c's peer, whose identity is known, was allowed to do. Nothing while the task has no table.
 * what: a word; object: what it was done to. */
void psd_audit(struct psd_task *t, const struct psd_conn *c, const char *what, const char *object);
/** A peer claims to be what its identity is not: write the audit's line of the refusal, and count a denial. */
void psd_audit_refused(struct psd_task *t, const struct psd_conn *c, const char *why);

/* ---- peers.c ---- */
struct psd_request;
ps_status psd_peers_init(struct psd_task *t, struct psi_err *err) PSI_MUST;
struct psd_peer *psd_peer_find(const struct psd_task *t, const char *job, uint32_t task);
/** "/job:ps/task:1 (host:port)" into a buffer of the caller. */
const char *psd_peer_text(const struct psd_task *t, const struct psd_peer *p, char *buf, size_t n);
/** True if this task has left the directory with this life. */
bool psd_peers_left(const struct psd_task *t, uint64_t life);
/** Check that the start is over. UNAVAILABLE while a task waits for the checkpoint that it begins with, or loads it: at the
 * directory any task of its job, elsewhere this task. FAILED_PRECONDITION, at the directory: the tasks cannot begin with what is
 * on their disks. */
ps_status psd_peers_begun(const struct psd_task *t, struct psi_err *err) PSI_MUST;
/** Refuse a list request r by the error of psd_peers_begun() while this task has nothing: an empty list would look like an
 * answer. True: refused. */
bool psd_peers_refuse(struct psd_task *t, struct psd_conn *c, const struct psd_request *r);
/** True if p is another task that has listed and is connected, so that it can be asked. */
static inline bool psd_peer_hears(const struct psd_peer *p)
{
    return p->listed && p->conn != NULL && !p->conn->closing;
}
/** Note that another process runs as p. */
void psd_peer_note_conflict(const struct psd_task *t, struct psd_peer *p, const char *host, uint32_t pid, uint64_t life);
/** The text noted by psd_peer_note_conflict(); "" when no process has claimed to be p for a while. */
const char *psd_peer_conflict(const struct psd_task *t, const struct psd_peer *p);

/* ---- batch.c: one log line for many variables ---- */
/** Count a variable in the line of this event, peer and detail. A line about another event, peer or detail is written first.
 * event and the key of detail are constants; the rest is copied. detail: PSI_KV() of a text. */
void psd_log_batch(struct psd_task *t, enum psi_log_level level, const char *event, const char *peer, const char *var,
                   struct psi_kv detail);
/** Write the line that has begun, if there is one. */
void psd_batch_end(struct psd_task *t);
void psd_batch_tick(struct psd_task *t);

/* A whole frame that asks for something. */
struct psd_request {
    struct ps_frame_header header;
    const uint8_t *meta;
    const uint8_t *body;
    size_t body_bytes;
    /* filled in by psd_request_admit() */
    const struct psd_variable *variable; /* of the header's handle; NULL: there is no such variable any more */
    const struct psi_err *refusal;       /* why a mutation or a waiting request is refused, its outcome; NULL: not refused */
};

/* ---- reply.c ---- */
/** A reply without a body. err NULL: OK. meta NULL: position, version and result 0. */
void psd_reply(struct psd_task *t, struct psd_conn *c, uint8_t op, uint16_t extra_flags, uint64_t id, uint32_t handle,
               const struct psi_err *err, uint32_t retry_after_ms, const struct ps_reply_meta *meta, const uint8_t *result);
/** A good reply with a result and a body. */
void psd_reply_body(struct psd_task *t, struct psd_conn *c, uint8_t op, uint64_t id, const void *result, uint16_t result_bytes,
                    const void *body, uint32_t body_bytes);
/** Close c for a fault of its peer. A last frame says why, unless half of another frame is sent or connections are short. */
void psd_conn_fault(struct psd_task *t, struct psd_conn *c, ps_status st, ps_reason reason, const char *why);
/* A reply whose body is a list: begin, add ..., end. It is split into frames with flag MORE. */
struct psd_list {
    struct psd_task *task;
    struct psd_conn *conn;
    struct psi_buf buf;
    uint64_t id;
    uint8_t op;
    uint16_t flags; /* REPLY, or 0 for a request that this task sends */
    bool failed;
};
void psd_list_begin(struct psd_list *l, struct psd_task *t, struct psd_conn *c, uint8_t op, uint16_t flags, uint64_t id);
void psd_list_add(struct psd_list *l, const pb_msgdesc_t *d, const void *m);
void psd_list_end(struct psd_list *l);
/** As psd_list_end(), but another psd_list of the same op and id goes on with the list. */
void psd_list_pause(struct psd_list *l);
/** A list of one message. */
void psd_list_one(struct psd_task *t, struct psd_conn *c, uint8_t op, uint16_t flags, uint64_t id, const pb_msgdesc_t *d,
                  const void *m);
/** Answer RESOURCE_EXHAUSTED instead of a list: the client asks again. */
void psd_list_refuse(struct psd_task *t, struct psd_conn *c, const struct psd_request *r);
/** The id of the next request that this task sends on c. */
uint64_t psd_ask_id(const struct psd_conn *c);
/** Send a request without a body to another task. Without memory c is closed, and everything asked on it ends. */
void psd_ask_bare(struct psd_task *t, struct psd_conn *c, uint8_t op);
/** Send a request with one message as its meta; also HELLO, which has no id. */
void psd_ask_meta(struct psd_task *t, struct psd_conn *c, uint8_t op, const pb_msgdesc_t *d, const void *m);

/** Status and text of a reply that this task has received. */
ps_status psd_reply_error(const struct psd_request *r, struct psi_err *err) PSI_MUST;

#endif

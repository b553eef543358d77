/* SPDX-License-Identifier: Apache-2.0 */
/* What all handlers use: log lines, effects, connections, rights, replies, and the other tasks. An effect is an order to the
 * shell: the code around this core that has sockets, disks and threads. */
#ifndef PSD_BASE_H
#define PSD_BASE_H

#include "psd/state.h"

/* ---- effect.c ---- */
uint64_t psd_random(struct psd_task *t); /* a random number, never 0 */
void psd_log_fields(struct psd_task *t, enum psi_log_level level, const char *event, const struct psi_kv *kv, size_t count);
/** Log one event, for example: psd_log(t, PSI_LOG_INFO, "config_set", PSI_KV("name", name), PSI_KV("new", value)). */
#define psd_log(t_, level_, event_, ...) psd_log_fields(t_, level_, event_, PSI_KVS(__VA_ARGS__))
bool psd_effect(struct psd_task *t, enum psd_effect_kind kind, const char *text) PSI_MUST;
/** Queue a zeroed effect, which the caller fills in. NULL: no memory. */
struct psd_effect *psd_effect_new(struct psd_task *t, enum psd_effect_kind kind);
/** Order a connection to the task `peer`. False: no memory; ask again at a later tick. */
bool psd_effect_dial(struct psd_task *t, enum psd_dial dial, const struct psd_peer *peer) PSI_MUST;

/* ---- conn.c ---- */
struct psd_conn *psd_conn_new(struct psd_task *t, void *shell, enum psd_role role, const char *text);
/** Close c. flush true: first send the replies in its queue; false: drop them. */
void psd_conn_close(struct psd_task *t, struct psd_conn *c, bool flush);
/** If c is receiving a frame with input of a CALL: read and drop the bytes of the frame that are still to come. */
void psd_part_end(struct psd_conn *c);
/** Stop reading from c for good, and put it into task->ended, to be freed. Leaves the socket (c->link) open. */
void psd_conn_end(struct psd_task *t, struct psd_conn *c);
/** Take the next connection out of task->ended; NULL: none. The caller drops references to it; psd_conns_free() frees it. */
struct psd_conn *psd_conn_next_ended(struct psd_task *t);
void psd_conns_free(struct psd_task *t);
/** Call when the peer of c has identified itself: from now on it may send large bodies, and gets one of the shared buffers. */
void psd_conn_admit(struct psd_task *t, struct psd_conn *c);
/** Recount the bytes that c uses of the memory budget: its struct, the message that it is receiving, and its send queue. */
void psd_conn_count(struct psd_task *t, struct psd_conn *c);
/** Stop reading from c if its send queue is long; read again when it is short. */
void psd_conn_balance(struct psd_task *t, struct psd_conn *c);
/** Call before each piece of a frame is processed. True: c's peer has too many unread replies, so the caller keeps the bytes. */
bool psd_full_begins(struct psd_task *t, struct psd_conn *c);
bool psd_full_has_work(const struct psd_task *t);
/** Find a connection, the longest waiting first, whose kept bytes can now be processed. Call if psd_full_has_work(). */
struct psd_conn *psd_full_work(struct psd_task *t);
void psd_mark_dirty(struct psd_task *t, struct psd_conn *c);
/** True if all shared segment buffers are in use: connections without one are not read, except those of unidentified peers. */
bool psd_buffers_exhausted(const struct psd_task *t);
/** Lend c a shared segment buffer or, for an unidentified peer, a small one of its own. False: there is no buffer. */
bool psd_buffer_lend(struct psd_task *t, struct psd_conn *c) PSI_MUST;
void psd_buffer_return(struct psd_task *t, struct psd_conn *c);

/* ---- rights.c ---- */
/** True if c remembers that its peer has all these rights on the container. False: ask psd_rights_in(). Called for each push. */
static inline bool psd_rights_are_known(const struct psd_conn *c, const struct psd_container *container, unsigned rights)
{
    const struct psd_allowed *allowed = &c->allowed[container->number % PSD_ALLOWED_KEPT];
    return allowed->of == container->number + 1 && (rights & ~allowed->rights) == 0;
}
/** The rights of c's peer on a container of this task; all rights, if the task has no table of rights. c remembers the answer. */
unsigned psd_rights_in(const struct psd_task *t, struct psd_conn *c, const struct psd_container *container);
/** The rights of c's peer on the container of this name, which need not exist here. container NULL: on the cluster. */
unsigned psd_rights_on(const struct psd_task *t, const struct psd_conn *c, const char *container);
/** Take over `rights` as the new table. Closes the connections of peers that may no longer act as their task. */
void psd_rights_set(struct psd_task *t, struct psi_rights *rights);
/** Check by psi_rights_member() that the identity of c's peer may act as /job:JOB/task:TASK, whether the cluster spec lists that
 * task or not. For the HELLO of a task, or of a session that names a job. PERMISSION_DENIED (IDENTITY): counted and audited. */
ps_status psd_rights_member(struct psd_task *t, const struct psd_conn *c, const char *job, uint32_t task,
                            struct psi_err *err) PSI_MUST;
/** True if c's peer may read this container. Lists of variables leave out containers that the peer may not read. */
bool psd_rights_read_in(const struct psd_task *t, struct psd_conn *c, const struct psd_container *container);
bool psd_rights_read_on(const struct psd_task *t, const struct psd_conn *c, const char *container);
/** True if c's peer may read every container, also those that are not here yet. */
bool psd_rights_read_all(const struct psd_task *t, const struct psd_conn *c);
/** The rights in a session's container that its key gives to anybody, whatever the table of rights says; 0: no session's
 * container. The key is checked elsewhere: each request about a name or handle in such a container must show it. */
unsigned psd_rights_keyed(const char *container);
/** Check that c's peer may read files of checkpoints, which have values of all containers. Allowed: tasks of the directory's job,
 * administrators, and peers that may read every container. Others are denied as by psd_rights_denied(). */
ps_status psd_rights_saved(struct psd_task *t, const struct psd_conn *c, const char *what, struct psi_err *err) PSI_MUST;
/** Check that the table of rights has a row for c's peer. PERMISSION_DENIED, reason IDENTITY: counted and logged. */
ps_status psd_rights_known(struct psd_task *t, const struct psd_conn *c, struct psi_err *err) PSI_MUST;
/** Deny a request: set err to PERMISSION_DENIED with who, what, where, and the row of the table that would allow it. The denial
 * is counted, and logged once a minute for each identity and right. container NULL: the cluster. rights: the missing ones. */
ps_status psd_rights_denied(struct psd_task *t, const struct psd_conn *c, const char *what, const char *container,
                            unsigned rights, struct psi_err *err);
/** Check that the identity `who` has all these rights on the container (NULL: on the cluster). If some are missing, the denial is
 * counted and logged as by psd_rights_denied(). peer: text about the peer that asks for `who`, for the log. */
ps_status psd_rights_ask(struct psd_task *t, const char *peer, const struct psi_identity *who, const char *what,
                         const char *container, unsigned rights, struct psi_err *err) PSI_MUST;
/** If there is a table of rights: write an audit line that c's peer was allowed to do `what` (a word) to `object`. */
void psd_audit(struct psd_task *t, const struct psd_conn *c, const char *what, const char *object);
/** Write an audit line and count a denial: c's peer wants to act as a task, and its identity does not permit that. */
void psd_audit_refused(struct psd_task *t, const struct psd_conn *c, const char *why);

/* ---- peers.c ---- */
struct psd_request;
ps_status psd_peers_init(struct psd_task *t, struct psi_err *err) PSI_MUST;
struct psd_peer *psd_peer_find(const struct psd_task *t, const char *job, uint32_t task);
void psd_peers_free(struct psd_task *t);
/** The address at which p listens; port 0: this task does not know the port. */
const char *psd_peer_address(const struct psd_task *t, const struct psd_peer *p);
/** Fill in what an answer to HELLO or ADDRESSES says about the task p. */
void psd_peer_item(const struct psd_task *t, const struct psd_peer *p, ps_v1_TaskItem *out);
/** Write p's name and address into buf, as "/job:ps/task:1 (host:port)". Returns buf. */
const char *psd_peer_text(const struct psd_task *t, const struct psd_peer *p, char *buf, size_t n);
/** True if `life` (random number of a process) is of an earlier directory process, which this task has left for a later one. */
bool psd_peers_left(const struct psd_task *t, uint64_t life);
/** Check that all tasks of the directory's job (at another task: this task) have their start checkpoint or need none.
 * UNAVAILABLE: one waits for it or loads it. FAILED_PRECONDITION, at the directory only: the tasks cannot start. */
ps_status psd_peers_begun(const struct psd_task *t, struct psi_err *err) PSI_MUST;
/** Refuse r, a request for a list, if this task has no variables and psd_peers_begun() fails. True: r is refused. */
bool psd_peers_refuse(struct psd_task *t, struct psd_conn *c, const struct psd_request *r);
/** True if p is another task that is connected and has sent its list of names: requests can be sent to it. */
static inline bool psd_peer_hears(const struct psd_peer *p)
{
    return p->listed && p->conn != NULL && !p->conn->closing;
}
void psd_peer_note_conflict(const struct psd_task *t, struct psd_peer *p, const char *host, uint32_t pid, uint64_t life);
/** Text about another process that has lately tried to be the task p (psd_peer_note_conflict()); "": no process has. */
const char *psd_peer_conflict(const struct psd_task *t, const struct psd_peer *p);

/* ---- batch.c: one log line for many variables of an event ---- */
/** Add a variable to the pending log line with this event, peer and detail. A pending line of another kind is written first.
 * event, and the key of detail, are string constants; the other texts are copied. */
void psd_log_batch(struct psd_task *t, enum psi_log_level level, const char *event, const char *peer, const char *var,
                   struct psi_kv detail);
void psd_batch_end(struct psd_task *t);
void psd_batch_tick(struct psd_task *t);

struct psd_request {
    struct ps_frame_header header;
    const uint8_t *meta;
    const uint8_t *body;
    size_t body_bytes;
    /* filled in by psd_request_admit() */
    const struct psd_variable *variable; /* variable or queue with the header's handle; NULL: none has this handle */
    const struct psi_err *refusal;       /* why psd_request_admit() has refused the request; NULL: it is permitted */
};

/* ---- reply.c ---- */
/** Send a reply without a body. err NULL: success. meta NULL: nothing was changed, and there is no result. */
void psd_reply(struct psd_task *t, struct psd_conn *c, uint8_t op, uint16_t extra_flags, uint64_t id, uint32_t handle,
               const struct psi_err *err, uint32_t retry_after_ms, const struct ps_reply_meta *meta, const uint8_t *result);
void psd_reply_body(struct psd_task *t, struct psd_conn *c, uint8_t op, uint64_t id, const void *result, uint16_t result_bytes,
                    const void *body, uint32_t body_bytes);
/** Close c for wrong frames, silence or lost rights. A last frame says why, unless one is half sent or connections are scarce. */
void psd_conn_fault(struct psd_task *t, struct psd_conn *c, ps_status st, ps_reason reason, const char *why);
/* A message whose body is a list: begin, add ..., end. The list may take several frames; each but the last has flag MORE. */
struct psd_list {
    struct psd_task *task;
    struct psd_conn *conn;
    struct psi_buf buf;
    uint64_t id;
    uint8_t op;
    uint16_t flags; /* PS_FLAG_REPLY, or 0 for a request that this task sends */
    bool failed;
    /* VARS: the encoded optimizer of the last variable, kept because encoding is slow and most variables have equal optimizers */
    const ps_optimizer *optimizer; /* NULL: no variable yet */
    size_t optimizer_bytes;
    uint8_t optimizer_field[ps_v1_Optimizer_size + 3];
};
void psd_list_begin(struct psd_list *l, struct psd_task *t, struct psd_conn *c, uint8_t op, uint16_t flags, uint64_t id);
void psd_list_add(struct psd_list *l, const pb_msgdesc_t *d, const void *m);
/** Add message m to the list, with further fields: `more`, already encoded, more_bytes long. */
void psd_list_add_with(struct psd_list *l, const pb_msgdesc_t *d, const void *m, const uint8_t *more, size_t more_bytes);
void psd_list_end(struct psd_list *l);
/** Send what the list has, with flag MORE: the answer goes on with a later psd_list of equal op and id. */
void psd_list_pause(struct psd_list *l);
void psd_list_one(struct psd_task *t, struct psd_conn *c, uint8_t op, uint16_t flags, uint64_t id, const pb_msgdesc_t *d,
                  const void *m);
/** Refuse r, because a list would need too much memory: RESOURCE_EXHAUSTED; the client asks again after 100 ms. */
void psd_list_refuse(struct psd_task *t, struct psd_conn *c, const struct psd_request *r);
uint64_t psd_ask_id(const struct psd_conn *c);
/** Send a request without a body to another task. Without memory c is closed, which ends all requests sent on it. */
void psd_ask_bare(struct psd_task *t, struct psd_conn *c, uint8_t op);
/** Send a request whose meta is this message; also HELLO, which has no request number. */
void psd_ask_meta(struct psd_task *t, struct psd_conn *c, uint8_t op, const pb_msgdesc_t *d, const void *m);

ps_status psd_reply_error(const struct psd_request *r, struct psi_err *err) PSI_MUST;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the client core (worker/core/core.h is its outside): what its files share.
 *
 *   psi_client  the table of peers, variables, requests, effects
 *   psi_peer    one task: its connection, numbers, window, asks, pulls
 *   psi_entry   one sequence number of the window; outlives its request when that is abandoned
 *   psi_chunk   one PULL frame that is asked for
 *   psi_ask     one control request (a list and its answers); built again never, sent again after a reconnect
 *
 * Every event ends in "kicks": peers whose queues may have something to send are pumped when the shell asks for effects.
 */
#ifndef PSI_WORKER_CLIENT_H
#define PSI_WORKER_CLIENT_H

#include "core.h"

#include "common/buf.h"
#include "common/log.h"
#include "common/msg.h"

enum {
    PSI_CHUNKS_MAX = 64,
    PSI_CHUNKS_PER_PULL = 8,
    PSI_QUEUED_MULTI_MAX = 2, /* mutations of several frames that are being sent: more would all end late instead of one early */
    PSI_BATCH_ASKS_MAX = 4,
    PSI_LOGS_MAX = 64,
    PSI_SLOW_MS = 5000,
    PSI_EARLY_MIN_MS = 120,
    PSI_PARTS_PER_REQUEST = 4,            /* of an ENQUEUE or DEQUEUE: on their way at a time */
    PSI_PART_BYTES = 3 * PS_SEGMENT_BYTES /* of one; with CRCs it fits a control frame */
};
/* of large reads, asked for and not here yet, per connection: 32 MiB. They take half of the chunks, the rest is for small ones */
#define PSI_PULL_BYTES_MAX ((uint64_t)PSI_CHUNKS_MAX / 2 * PS_VALUES_FRAME_BYTES)
#define PSI_BATCH_BYTES_MAX (240u << 10)      /* of one list; below PS_CONTROL_BODY_MAX by more than an item */
#define PSI_SYNC_BYTES_MAX ((size_t)64 << 20) /* of the names of a SYNC, in as many frames as they take */

struct psi_peer;
struct psi_ask;
struct psi_reply;
/** A part of an answer came (reply->more), or its end; after the end the ask is freed. */
typedef void (*psi_ask_fn)(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *reply);

/* What the connection to a task is at. The ways between them are a table in peer.c. */
enum psi_peer_state {
    PSI_PEER_IDLE,    /* nobody has asked for it, or it was left (GOODBYE) */
    PSI_PEER_WAIT,    /* waits for the time of its next dial */
    PSI_PEER_DIAL,    /* a dial is out */
    PSI_PEER_HELLO,   /* HELLO is sent */
    PSI_PEER_REOPEN,  /* a new life: OPEN of everything opened before goes first */
    PSI_PEER_UP,      /* requests travel */
    PSI_PEER_REFUSED, /* for good: another task or another cluster answers there */
    PSI_PEER_STATES
};

/* Where a request is. Each has its list, or none; psi_request_move() is the only way from one to another. */
enum psi_request_stage {
    PSI_STAGE_NONE,      /* not started, or on its way from one to another: no list */
    PSI_STAGE_EARLY,     /* client.early: the cluster is not known yet */
    PSI_STAGE_WAITING,   /* var->waiting */
    PSI_STAGE_TURN,      /* var->current, in a ready list of its peer; a read may have chunks on their way */
    PSI_STAGE_SENDING,   /* var->current; has a sequence number, extra = its entry, and frames that are not queued */
    PSI_STAGE_WINDOW,    /* the same, and its turn is over: nothing is left to queue, or what is goes ahead of every turn */
    PSI_STAGE_PULLING,   /* all chunks are asked for */
    PSI_STAGE_DELAYED,   /* client.delayed: refused for load or not ready; until again_ms */
    PSI_STAGE_GETTING,   /* var->getters */
    PSI_STAGE_ASKED,     /* its asks are out */
    PSI_STAGE_COMPOSITE, /* READY, WAIT_READY, STATUS; extra = struct psi_ready */
    PSI_STAGE_DONE,      /* client.done, or, an inner one, its READY's */
    PSI_STAGES
};
/* psi_request.flags */
enum {
    PSI_REQUEST_SLOW_LOGGED = 1,
    PSI_REQUEST_PUSHED = 2,  /* PUSH_PULL: applied, values that are missing are being pulled */
    PSI_REQUEST_SENT = 4,    /* RESET, DELETE, SHUTDOWN: may have been carried out */
    PSI_REQUEST_INNER = 8,   /* part of a READY: its done() is called as soon as it ends */
    PSI_REQUEST_OVER = 16,   /* its deadline has come with half of its frame sent: it ends when the connection does */
    PSI_REQUEST_TARGET = 32, /* a connection is receiving into its dst: some peer's target */
    PSI_REQUEST_CUT = 64     /* interrupted: if it fails from now on, it fails with CANCELLED */
};

/* Whom a request talks to. */
enum psi_kind_to {
    PSI_TO_NOBODY, /* the session, or several tasks */
    PSI_TO_OWNER,  /* whoever has its variable, or is to say who has it */
    PSI_TO_DIRECTORY,
    PSI_TO_TASK /* req->task */
};
/* What a kind of request is and needs. */
enum {
    PSI_KIND_DATA = 1,       /* works on the value of a variable at its owner, in turn with the others */
    PSI_KIND_READ = 2,       /* DATA: changes nothing there, has no sequence number */
    PSI_KIND_SRC = 4,        /* needs src */
    PSI_KIND_DST = 8,        /* needs dst */
    PSI_KIND_SCALE = 16,     /* DATA: scale is finite and above 0 */
    PSI_KIND_SIGN = 32,      /* DATA: scale is 1 or -1, and the variable holds numbers */
    PSI_KIND_WIRE = 64,      /* DATA: values travel in the variable's wire dtype, not its own */
    PSI_KIND_STRINGS = 128,  /* DATA: also of strings */
    PSI_KIND_NO_VALUE = 256, /* DATA: no value travels */
    PSI_KIND_OTHERS = 512,   /* the directory waits for other tasks to answer it: its texts name them */
    PSI_KIND_LOOKS = 1024,   /* ends when its task cannot be reached for a while */
    PSI_KIND_STAYS = 2048,   /* does not end with a task that refuses the session; needs no cluster */
    PSI_KIND_DISK = 4096     /* no room is a disk's: to wait makes none */
};
/* A row of the table of requests (kinds.c). */
struct psi_kind {
    const char *name;                    /* for messages */
    uint8_t op;                          /* enum ps_op of what is sent; 0: several, or nothing */
    uint8_t to;                          /* enum psi_kind_to */
    uint16_t is;                         /* PSI_KIND_* */
    void (*go)(struct psi_request *req); /* start it, or start it again */
    /* all may be NULL: what is checked beyond the above; the ask's list and meta; its answer; its subject for messages, else the
     * variable's name; a failure, for the caller's struct; its deadline and a line about a long wait, of those in several steps
     */
    ps_status (*check)(const struct psi_request *req, struct psi_err *err);
    ps_status (*build)(struct psi_ask *ask, struct psi_err *err);
    psi_ask_fn answer;
    const char *(*subject)(const struct psi_request *req);
    void (*failed)(struct psi_request *req);
    void (*expire)(struct psi_request *req);
    bool (*slow)(struct psi_request *req); /* COMPOSITE, ASKED: the line is its own; false: the usual one */
};
extern const struct psi_kind psi_kinds[PSI_REQ_KINDS]; /* kinds.c; for client.c, everybody else has psi_kind_of() */

/* The ways between them are a table in variable.c. */
enum psi_var_step {
    PSI_VAR_NEW,      /* no get-or-create is going on */
    PSI_VAR_CREATE,   /* in client.want_create */
    PSI_VAR_CREATING, /* asked for by a CREATE or FIND */
    PSI_VAR_OPEN,     /* in its owner's want_open */
    PSI_VAR_OPENING,  /* asked for by an OPEN */
    PSI_VAR_DELAYED,  /* in client.vars_delayed */
    PSI_VAR_STEPS
};

/* What this session is to the lease of a chief; the ways between them are a table in chief.c. */
enum psi_chief_state {
    PSI_CHIEF_NONE,    /* nobody has needed to know; STATIC: always */
    PSI_CHIEF_ASKING,  /* not known: the directory is to say */
    PSI_CHIEF_WAITING, /* not the chief; it claims the lease at until_ms */
    PSI_CHIEF_HELD,    /* the chief, as far as it knows */
    PSI_CHIEF_NEVER,   /* an evaluator, a session that may not, or one that ends */
    PSI_CHIEF_STATES
};
struct psi_chief {
    enum psi_chief_state state;
    char container[PS_CONTAINER_BYTES_MAX + 1]; /* whose chief */
    uint64_t number;                            /* HELD, or ASKING for it again; STATIC: of the last READY; 0: none */
    uint64_t seen;                              /* the highest that a task knows */
    bool asked;                                 /* a claim is out */
    bool renew;                                 /* an owner knows a higher number: this one is of no use any more */
    uint64_t until_ms;                          /* the next claim; UINT64_MAX: when something says so */
    char holder[sizeof(((ps_v1_ChiefAnswer *)0)->holder.bytes) + 1]; /* who else has it, as the directory said last; "": nobody */
    char why[PSI_ERR_TEXT_MAX];                                      /* ASKING: why it has not been told */
    uint64_t told;  /* the highest number of all chiefs, as the last beat's answer said */
    bool readied;   /* this session's last READY was OK */
    uint64_t ready; /* number of the chief that is there and has made the model ready, as the last beat's answer said; 0: none */
};

/* A number of the window. */
struct psi_entry {
    struct psi_out out; /* its streamed frame */
    uint64_t number;    /* 0: free */
    struct psi_peer *peer;
    struct psi_request *req; /* NULL: abandoned */
    struct psi_var *var;
    uint64_t total;        /* elements; strings: bytes of the blob, everything here counts these then */
    uint64_t next;         /* first element that is not queued */
    uint64_t frame_first;  /* first element of the frame in out */
    uint64_t chief_number; /* INIT, ASSIGN */
    uint64_t creation;     /* of the variable that it is meant for */
    uint32_t handle;       /* in the life it was last sent in */
    ps_dtype wire;         /* as it travels */
    uint32_t unit;         /* bytes of an element of it */
    uint64_t member;       /* CONTRIBUTE: whose, and to which round */
    uint64_t round;
    uint8_t op;
    bool multi;  /* several frames */
    bool queued; /* out is in the send queue */
    bool begun;  /* a byte of it may have left since the task last said "not received" */
    bool unsent; /* waits for its turn to be sent again */
    bool ending; /* its outcome is known (in req); waits for out to leave the queue */
    bool repeat; /* ending: refused for load, to be repeated */
};

/* A PULL frame. */
struct psi_chunk {
    struct psi_list link; /* free, out, or again */
    uint64_t number;
    struct psi_request *req; /* NULL: nobody waits for it any more */
    struct psi_var *var;
    uint32_t slot; /* 0: the value */
    uint64_t first;
    uint32_t elements; /* asked for; 0: all strings */
    uint32_t covers;   /* elements of the variable that it brings */
    uint64_t bytes;    /* of its payload; strings: at most */
    uint64_t charge;   /* of PSI_PULL_BYTES_MAX: 0 of a small read; of a large one so much that half of the chunks stay free */
};

/* A reply as it came, or as it is made here for an ask that cannot be answered. */
struct psi_reply {
    ps_status status;
    ps_applied applied;
    ps_reason reason; /* 0: as status says */
    uint32_t retry_after_ms;
    uint64_t position, durable, version;
    uint32_t result_bytes;
    uint8_t result[PS_RESULT_BYTES_MAX];
    const char *text;
    const uint8_t *body; /* payload of one frame */
    size_t body_bytes;
    bool more; /* further frames of this answer follow */
};

struct psi_ask {
    struct psi_list link; /* of the peer's asks, by age */
    struct psi_peer *peer;
    struct psi_request *req; /* whose it is; NULL: of the variables in vars, or of the peer */
    psi_ask_fn fn;
    uint64_t number; /* request number, 0: none yet */
    uint8_t op;
    bool sent;    /* on this connection */
    bool tried;   /* on any connection */
    bool waits;   /* sent again with its number; answered by ACK */
    bool once;    /* never carried out twice: ends as outcome unknown where that could happen */
    bool handles; /* names handles: void in a new life */
    bool reopen;  /* goes out before the peer is up */
    bool takes;   /* DEQUEUE: its ACK makes what it took the program's; given up, it goes back */
    bool parts;   /* ... answered, and the rest of what it took is being fetched: it is not sent again */
    bool partial; /* a list: a frame of this answer is not in `answer` */
    uint16_t meta_bytes;
    uint32_t handle;
    uint64_t offset;  /* GET_PART: of its bytes */
    uint64_t time_ms; /* when `meta` was encoded with the timeout that it has */
    _Alignas(8) uint8_t meta[128];
    struct psi_buf body;   /* a list where it takes more than a frame */
    struct psi_buf answer; /* for the caller's use */
    struct psi_var **vars; /* items of the list, in order; NULL where there are none */
    uint32_t var_count;
};

struct psi_peer {
    struct psi_client *c;
    uint32_t index;
    bool named; /* job and task are known */
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    char name[PSI_TASK_NAME_MAX];
    char address[PS_ADDRESS_BYTES_MAX + 1];

    enum psi_peer_state state;
    struct psi_link *link; /* HELLO, REOPEN, UP */
    bool dial_effect;      /* a DIAL effect is to be given out */
    uint64_t next_dial_ms;
    uint64_t failing_since_ms; /* it was not UP since; 0 = it was, or no dial has ended */
    uint32_t backoff_ms;
    uint64_t connection; /* number of the last connection */
    uint64_t slept;      /* the connection during which this process last stood still for a lease */
    uint64_t record;     /* name last heard, taken with the reply that settled the window */
    uint64_t record_next;
    uint64_t life;
    uint32_t lease_ms, beat_ms;
    uint64_t heard_ms, beat_sent_ms, sent_seen;
    bool sent_blocked; /* at the last tick the kernel took no more */
    uint64_t bad_logged_ms;
    bool crc;                          /* of this connection: segments that go out carry CRCs */
    uint64_t features;                 /* PS_FEATURE_* that both sides speak, of the last HELLO */
    char last_error[PSI_ERR_TEXT_MAX]; /* why it is not up */
    /* when the task first refused this session with CONFLICT; 0: it has not, since the session was last let in */
    uint64_t kept_out_ms;
    uint64_t challenge; /* the last BeatAnswer.challenge on this connection, which the next beats bring back; 0: none */
    ps_status refused;  /* REFUSED: the status, and its reason */
    ps_reason refused_reason;
    uint32_t lost_count; /* variables of the task that are lost, and not in the log yet; one of them, and why */
    char lost_var[PS_NAME_BYTES_MAX + 1], lost_why[PSI_ERR_TEXT_MAX];
    uint64_t lost_again_ms; /* no such line before */
    bool leaving;           /* GOODBYE was asked for: no further dial */
    bool doomed;            /* psi_peer_fail(): to be closed and dialled anew */
    char doom[200];         /* why */
    struct psi_list pump;   /* in client.pumps */

    struct psi_entry *ring; /* PS_WINDOW entries, number % PS_WINDOW; NULL before the first mutation */
    uint64_t first, next;   /* unresolved numbers are in [first, next) */
    uint64_t resume_at;     /* numbers below it are not `unsent` */
    uint32_t multi;         /* entries of several frames */
    uint32_t queued_multi;  /* of them, those that have a frame in the send queue */
    uint32_t queued_bytes;  /* payload of the others' frames there */
    struct psi_list ready_single, ready_multi, ready_small_read, ready_read; /* requests */

    struct psi_list asks;
    bool putting; /* an ENQUEUE may have bytes to be sent in parts */
    uint64_t next_request;
    uint64_t *acks; /* the last that were said, or would have been: any may have been lost. At most PS_WAITS_PER_SESSION_MAX;
                       those that were given up marked so (ask.c) */
    uint32_t ack_count;
    size_t ack_capacity;
    struct psi_list want_open; /* variables */
    uint32_t open_asks, reopen_asks;

    struct psi_chunk *chunks; /* PSI_CHUNKS_MAX; NULL before the first pull */
    struct psi_list chunk_free, chunk_out, chunk_again;
    uint64_t pull_bytes; /* what the chunks that are out take of PSI_PULL_BYTES_MAX */

    /* the frame that is being received */
    uint8_t *buffer; /* for cut segments */
    struct psi_reply reply;
    char reply_text[PSI_ERR_TEXT_MAX];
    struct psi_buf body;  /* payload of a control frame */
    struct psi_buf hello; /* payload of HELLO's answer, all frames */
    enum { PSI_SINK_NONE, PSI_SINK_BODY, PSI_SINK_CHUNK, PSI_SINK_VALUE } sink;
    struct psi_chunk *sink_chunk;
    uint64_t sink_number;           /* VALUE: of the entry */
    uint64_t sink_first;            /* element */
    uint64_t sink_bytes, sink_done; /* of values, padding apart */
    struct psi_request *target;     /* whose dst the reader has as its target; NULL: nobody's */
    struct ps_pull_reply_meta sink_meta;
};

enum { PSI_RATES_TOLD_MAX = 8 };
struct psi_client {
    const struct psi_kind *kinds; /* psi_kinds */
    char target[PS_ADDRESS_BYTES_MAX + 1];
    char cluster_name[PS_JOB_BYTES_MAX + 1];
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    char container[PS_CONTAINER_BYTES_MAX + 1]; /* the session's default one; "": PSI_CONTAINER_DEFAULT */
    char host[65], program[65];
    uint32_t pid;
    int64_t operation_timeout_ms, ready_timeout_ms, start_timeout_ms;
    struct psi_reach *reach; /* borrowed; NULL: none is kept */
    uint64_t seed;
    bool fail_fast;
    ps_dtype wire_dtype;
    struct psi_out_scratch scratch; /* of all connections */

    uint8_t session_id[16];
    uint64_t random;
    uint64_t now_ms;
    uint64_t next_link;

    struct psi_cluster cluster;
    bool known; /* the cluster is */
    uint64_t cluster_hash;
    struct psi_peer **peers;
    uint32_t peer_count;
    uint32_t directory; /* index */
    struct psi_placement placement;
    bool chief_connected; /* as the directory's last beat said */
    enum psi_chief_mode chief_mode;
    struct psi_chief chief;
    bool stop_asked;                          /* by a beat */
    bool job_done, done_said;                 /* the directory has said so; this session has said that it is done */
    uint64_t step;                            /* global step + 1, as last learned; 0: not known */
    char step_of[PS_CONTAINER_BYTES_MAX + 1]; /* container of the variable with the global step; "": not known */
    uint32_t found, found_total;
    struct {
        double rate, own; /* in force, and as this program asks for it */
    } told_rate[PSI_RATES_TOLD_MAX];
    uint32_t rates_told;      /* log lines about rates so far */
    struct psi_sync sync;     /* as the last READY was told */
    struct psi_member member; /* of it */

    struct psi_list dirty; /* links */
    struct psi_list pumps; /* peers */
    uint32_t dial_count;   /* peers with dial_effect */
    struct psi_list done;  /* requests */
    struct psi_list all;   /* requests that are not done */
    uint32_t pending;
    bool overdue;               /* a request is over but for the end of its connection: look again when that is closed */
    uint64_t scan_ms;           /* no deadline or log line is due before */
    uint64_t slow_ms;           /* no log line about long waits before */
    bool lost_untold;           /* psi_peer.lost_count of some task is not 0 */
    ps_reason cut_reason;       /* reason for requests that were interrupted (PSI_REQUEST_CUT) */
    const char *cut_why;        /* first words of the texts of their errors */
    struct psi_list early;      /* requests that need the cluster */
    struct psi_list delayed;    /* requests, by again_ms */
    struct psi_list composites; /* struct psi_ready */
    struct psi_list variables;
    struct psi_list want_create; /* variables */
    struct psi_list vars_delayed;
    uint32_t create_asks;
    struct psi_list spare_asks; /* with the memory of their bodies */
    uint32_t spare_ask_count;

    struct psi_client_effect *logs; /* ring of PSI_LOGS_MAX */
    uint32_t log_first, log_count, log_lost;
    struct psi_err **errs; /* free blocks */
    uint32_t err_count, err_capacity;
    struct psi_err *delivered; /* of the request that next_done gave out last */
    struct psi_err no_memory;
};

/* ---- client.c: the object, requests, the table ---- */
void psi_client_dirty(struct psi_client *c, struct psi_link *link);
void psi_client_kick(struct psi_peer *peer);
void psi_client_log_fields(struct psi_client *c, enum psi_log_level level, const char *event, const struct psi_kv *kv,
                           size_t count);
/** psi_client_log(c, level, "ev", PSI_KV(...), ...) */
#define psi_client_log(c_, level_, event_, ...) psi_client_log_fields(c_, level_, event_, PSI_KVS(__VA_ARGS__))
/* ---- request.c: the life of a request outside the protocol ---- */
/** The request is done. text printf; OK: format is NULL. */
void psi_request_end(struct psi_request *req, ps_status st, ps_applied applied, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/** The same with a reason that says more than st, or one that came from a task; 0: as st says. */
void psi_request_end_as(struct psi_request *req, ps_status st, ps_reason reason, ps_applied applied, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/** End with fields (status, applied, err) that are set already. */
void psi_request_ended(struct psi_request *req);
/** An error block filled by printf; never NULL. base.c */
struct psi_err *psi_client_verr(struct psi_client *c, ps_status st, ps_reason reason, ps_applied applied, const char *format,
                                va_list ap) __attribute__((format(printf, 5, 0)));
struct psi_err *psi_client_err(struct psi_client *c, ps_status st, ps_reason reason, ps_applied applied, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void psi_client_err_free(struct psi_client *c, struct psi_err *e);
/** Remember why it was refused; PS_OK: it is not any more. */
void psi_request_refused(struct psi_request *req, ps_status st, ps_reason reason, const char *text);
/** Put off until at least retry_ms from now (0: back off by req->tries). It leaves the list that it is in. */
void psi_request_delay(struct psi_request *req, uint32_t retry_ms);
/** To another stage and its list. Which ways there are is a table in request.c. */
void psi_request_move(struct psi_request *req, enum psi_request_stage to);
/** Start or start again: the cluster is known, nothing of it is on the wire. */
void psi_request_go(struct psi_request *req);
/** The task a request talks to now; NULL: none or several. */
struct psi_peer *psi_request_peer(const struct psi_request *req);
/** The answer says that it may be repeated. */
bool psi_reply_repeatable(const struct psi_reply *r);
/** Memory, size, part, scale of a request for v's values; k: of its kind. */
ps_status psi_request_check_values(const struct psi_request *req, const struct psi_kind *k, const struct psi_operand *v,
                                   struct psi_err *err) PSI_MUST;
/** Kind, variable, task, memory, scale. */
ps_status psi_request_check(struct psi_client *c, const struct psi_request *req, struct psi_err *err) PSI_MUST;
/** No value of v that anybody sees has a part of a mutation: each takes effect as a whole. By its own dtype: who pushes a value
 * that others read as bfloat16 may send twice as many segments, and so does who adds to it. */
static inline bool psi_var_is_one_segment(const struct psi_var *v)
{
    return v->dtype == PS_STRING || v->elements * ps_dtype_bytes(v->dtype) <= PS_SEGMENT_BYTES;
}
/** What the program called, for texts: "push", "assign_sub". */
const char *psi_request_name(const struct psi_request *req);
static inline const struct psi_kind *psi_kind_of(const struct psi_request *req)
{
    return &req->owner->kinds[req->kind];
}
/** It has a sequence number: extra is its entry. */
static inline bool psi_request_numbered(const struct psi_request *req)
{
    return req->stage == PSI_STAGE_SENDING || req->stage == PSI_STAGE_WINDOW;
}
/** It reads now: a PULL, or what is missing of a push-pull. */
static inline bool psi_request_reads(const struct psi_request *req)
{
    return (req->owner->kinds[req->kind].is & PSI_KIND_READ) != 0 || (req->flags & PSI_REQUEST_PUSHED) != 0;
}
/** What is applied of a request that is not in the window: of a push-pull whose values are being pulled, its push. */
static inline ps_applied psi_request_applied(const struct psi_request *req)
{
    return (req->flags & PSI_REQUEST_PUSHED) != 0 ? PS_MAYBE_PARTLY_APPLIED : PS_NOTHING_APPLIED;
}
/** What travels of a request of data: elements, or bytes of a blob of strings; and as which dtype. */
uint64_t psi_request_total(const struct psi_request *req);
ps_dtype psi_request_wire(const struct psi_request *req);
/** Is its kind one of these: PSI_KIND_*. */
static inline bool psi_request_is(const struct psi_request *req, uint32_t is)
{
    return (psi_kind_of(req)->is & is) != 0;
}
/** Table from a cluster; the peer that is the target, if any, gets its place. */
ps_status psi_client_learn(struct psi_client *c, const struct psi_cluster *cluster, struct psi_peer *target,
                           struct psi_err *err) PSI_MUST;
/** UINT32_MAX: not in the cluster. */
uint32_t psi_client_find_task(const struct psi_client *c, const char *job, uint32_t task);
struct psi_peer *psi_client_directory(struct psi_client *c);
/** Fields that must be set before a request is used; all lists initialised. */
void psi_request_prepare(struct psi_client *c, struct psi_request *req);
/** The name of the variable or container that it is about; NULL: none. */
const char *psi_request_subject(const struct psi_request *req);

/* ---- deadline.c: requests that end without an answer ---- */
/** The deadline has come. */
void psi_request_expire(struct psi_request *req);
/** A request whose kind says itself what it waits for says so, in a log line. False: it is not of such a kind. */
bool psi_request_slow_itself(struct psi_request *req);
/** One log line of `count` requests like this one, the oldest of which began at oldest_ms. */
void psi_request_slow(const struct psi_request *req, uint32_t count, uint64_t oldest_ms);
/** Of the time until the deadline: what a task is given that answers at its end who is missing. That answer comes first, ticks
 *  (50 ms on both sides) and the way back included; PSI_EARLY_MIN_MS before, where twice as much is left. */
uint64_t psi_time_to_give(const struct psi_client *c, uint64_t deadline_ms);
/** Every request that waits for the task ends: it is REFUSED. */
void psi_request_fail_peer(struct psi_peer *peer);
/** A dial of the task came to nothing, or a HELLO. INFO, TASKS and LOOK, and everything of a client that wants to fail fast, end
 * when that has gone on for a while; what else waits goes on waiting for its return. */
void psi_request_unreachable(struct psi_peer *peer);

/* ---- slow.c: one log line of many requests that wait for long ---- */
/** When a log line is to say that this request takes long; UINT64_MAX: one has said so. */
uint64_t psi_slow_due(const struct psi_request *req);
/** Requests for which that time has come are told: a line for each task and kind of request, and not before c->slow_ms again. */
void psi_slow_tell(struct psi_client *c);

/* ---- lost.c: one log line of many variables that are lost ---- */
/** The variable is lost; psi_lost_tell() logs it, with others of its task. why: copied. */
void psi_lost_note(struct psi_client *c, const struct psi_var *var, const char *why);
/** At the end of an event: one line for each task that has lost variables, at most once a second. */
void psi_lost_tell(struct psi_client *c);

/* ---- peer.c: a task ---- */
struct psi_peer *psi_peer_new(struct psi_client *c, const char *address);
void psi_peer_name(struct psi_peer *peer, const char *job, uint32_t task);
/** Its memory; nothing is on its way. */
void psi_peer_free(struct psi_peer *peer);
/** To another state: a table says which ways there are. */
void psi_peer_move(struct psi_peer *peer, enum psi_peer_state to);
/** Somebody needs it: dial, and stay connected. */
void psi_peer_want(struct psi_peer *peer);
void psi_peer_dial(struct psi_peer *peer);
/** Close the connection, and do not dial the task until somebody wants it. */
void psi_peer_undial(struct psi_peer *peer);
/** Never dial it again; what is not up is closed. */
void psi_peer_leave(struct psi_peer *peer);
/** Its connection cannot go on: it is closed when the event is over, before anything else is sent. The first reason counts. */
void psi_peer_fail(struct psi_peer *peer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** "/job:ps/task:0 (127.0.0.1:2222)"; n >= PSI_WHERE_MAX. Returns dst. */
#define PSI_WHERE_MAX (PSI_TASK_NAME_MAX + PS_ADDRESS_BYTES_MAX + 4)
const char *psi_peer_where(const struct psi_peer *peer, char *dst, size_t n);
/** Somebody needs it and it is not connected. */
bool psi_peer_down(const struct psi_peer *peer);
/** Why nothing can come from the task now: "connection refused"; "" when it is not down. */
const char *psi_peer_obstacle(const struct psi_peer *peer);
/** Since when the session wants this task without ever having been connected to it, UINT64_MAX where that is not so. The second
 * one: the task is connected now. */
bool psi_peer_unreached(const struct psi_peer *peer);
uint64_t psi_peer_wanted_ms(const struct psi_peer *peer);
void psi_peer_reached(struct psi_peer *peer);
/** This task is wanted and was never connected, and the start timeout is over. */
bool psi_client_overdue(const struct psi_client *c);
/** End in time what waits for a task that was never connected. A log line says so now and then. */
void psi_client_unreached_tick(struct psi_client *c);
/** Header of a request, zero but for magic, version, op and id. */
struct ps_frame_header psi_frame_header(uint8_t op, uint64_t id);
/** Queue a copied frame with plain payload; when memory is short the connection fails. */
void psi_peer_send(struct psi_peer *peer, const struct ps_frame_header *h, const void *meta, const void *body, uint32_t bytes);
/** The same, but it leaves with the next frame that is sent, a beat at the latest. False: the connection fails. */
bool psi_peer_send_later(struct psi_peer *peer, const struct ps_frame_header *h, const void *meta, const void *body,
                         uint32_t bytes);
/** A chunk is free again. */
void psi_chunk_drop(struct psi_peer *peer, struct psi_chunk *k);
/** Nothing is written to req's dst from here on, whatever is being received. */
void psi_target_release(struct psi_request *req);
/** The same for whatever this peer's connection is receiving; the frame goes on being read. */
void psi_target_stop(struct psi_peer *peer);

/* ---- connection.c ---- */
struct psi_link *psi_peer_dialed(struct psi_peer *peer, void *shell, bool crc, const char *why);
/** The connection is gone or is to be closed (close): everything in flight is as after a disconnect. */
void psi_peer_lost(struct psi_peer *peer, bool close, const char *format, ...) __attribute__((format(printf, 3, 4)));
void psi_peer_tick(struct psi_peer *peer);
void psi_peer_pump(struct psi_peer *peer);
/** HELLO's answer is in peer->reply and peer->hello. */
void psi_peer_hello(struct psi_peer *peer);
/** The session ends: with all that is on its way. */
void psi_peer_end(struct psi_peer *peer);

/* ---- receive.c ---- */
void psi_peer_bytes(struct psi_peer *peer, const uint8_t *p, size_t n);
/** Bytes of a list without the zeros at its end; broken lists are returned whole. */
size_t psi_list_strip(const uint8_t *p, size_t n);

/* ---- window.c ---- */
ps_status psi_window_prepare(struct psi_peer *peer) PSI_MUST;
/** Another mutation may be sent: it has a number and, so that reads which are called beside many of them do not wait until all
 *  are out, a place in the send queue. */
bool psi_window_room(const struct psi_peer *peer, bool multi);
struct psi_entry *psi_window_find(const struct psi_peer *peer, uint64_t number);
/** Give req the next number and send it. */
void psi_window_admit(struct psi_peer *peer, struct psi_request *req);
/** A frame with PS_FLAG_SEQ answered number. */
void psi_window_reply(struct psi_peer *peer, uint64_t number, uint8_t op, const struct psi_reply *r);
/** The deadline of a request in the window has come: it ends, or, with half of its frame out, with the connection. */
void psi_window_expire(struct psi_request *req);
/** Every frame of ours that is in the queue of a connection that will not send any more. */
void psi_window_detach(struct psi_peer *peer);
/** What HELLO's answer says of the unresolved numbers. false: the answer is bad. */
bool psi_window_settle(struct psi_peer *peer, const uint8_t *p, size_t n, uint32_t count, struct psi_err *err);
/** Send again what is to be sent again, in order; true when nothing is left. */
bool psi_window_resume(struct psi_peer *peer);
/** End numbers of a variable that is lost. */
void psi_window_lose(struct psi_peer *peer, struct psi_var *var, ps_reason reason, const char *why);
/** out of `e` is in the send queue from now on, or was taken out of it. */
void psi_entry_in_queue(struct psi_entry *e, bool in);
/** out of `e` has left the queue. */
void psi_entry_unqueued(struct psi_entry *e);

/* ---- push.c ---- */
void psi_push_go(struct psi_request *req); /* PUSH */
/** Queue the next frame of e (from e->next on). */
void psi_push_queue(struct psi_entry *e);
/** Head of a VALUE frame: where its values go. */
ps_status psi_push_value_head(struct psi_peer *peer, struct psi_err *err) PSI_MUST;
void psi_push_value_end(struct psi_peer *peer);
/** A push-pull was applied: done, or pull what is missing. */
void psi_push_pulled(struct psi_request *req);

/* ---- pull.c ---- */
ps_status psi_pull_prepare(struct psi_peer *peer) PSI_MUST;
/** One segment at most: there are chunks that large reads do not take. */
bool psi_pull_is_small(const struct psi_request *req);
/** Ask for chunks of a request that has its turn; true when all are asked for. */
bool psi_pull_ask(struct psi_peer *peer, struct psi_request *req);
/** Send chunks of an earlier connection again; true when none is left. */
bool psi_pull_resume(struct psi_peer *peer);
void psi_pull_detach(struct psi_peer *peer);
ps_status psi_pull_head(struct psi_peer *peer, struct psi_err *err) PSI_MUST;
void psi_pull_end(struct psi_peer *peer);
void psi_pull_refused(struct psi_peer *peer, uint64_t number, const struct psi_reply *r);
/** Version bookkeeping of one frame. */
void psi_pull_note(struct psi_request *req, const struct ps_pull_reply_meta *head, const struct ps_pull_trailer *tail);

/* ---- ask.c ---- */
/** NULL when memory is short. item_count > 0: room for that many vars. */
struct psi_ask *psi_ask_new(struct psi_peer *peer, uint8_t op, struct psi_request *req, psi_ask_fn fn, uint32_t item_count);
/** Queue it (the peer is wanted from now on). */
void psi_ask_start(struct psi_ask *ask);
ps_status psi_ask_meta(struct psi_ask *ask, const pb_msgdesc_t *d, const void *m, struct psi_err *err) PSI_MUST;
void psi_ask_free(struct psi_ask *ask);
/** Calls of req at any task are dropped. */
void psi_ask_drop(struct psi_client *c, const struct psi_request *req);
void psi_ask_reply(struct psi_peer *peer, uint64_t number, uint8_t op, const struct psi_reply *r);
/** Those to be sent; reopen: only them. */
void psi_ask_send(struct psi_peer *peer, bool reopen);
void psi_ask_disconnected(struct psi_peer *peer);
/** After HELLO: those that a new life or a new record ends. */
void psi_ask_settle(struct psi_peer *peer, bool new_life, bool new_record);
/** At UP: what may have been lost with an older connection. */
void psi_ask_acknowledge_again(struct psi_peer *peer);
void psi_ask_fail_all(struct psi_peer *peer, ps_status st, ps_reason reason, const char *text);
void psi_ask_beat(struct psi_peer *peer);
/** What a beat to this task says. */
ps_v1_Beat psi_ask_beat_of(const struct psi_peer *peer);
void psi_ask_abandon(struct psi_peer *peer, uint64_t number);
/** The end of an answered DEQUEUE whose parts are all here: what it took is the program's. */
void psi_ask_taken(struct psi_ask *ask);
void psi_ask_free_spare(struct psi_client *c);

/* ---- define.c ---- */
/** The task that CREATE asks for: a turn, or the one that the scopes name. Errors: INVALID_ARGUMENT; no turn is taken then. */
ps_status psi_var_choose_task(struct psi_client *c, struct psi_var *var, struct psi_err *err) PSI_MUST;

/* ---- variable.c ---- */
void psi_var_get(struct psi_request *req); /* GET, LOOKUP */
ps_status psi_var_check_get(const struct psi_request *req, struct psi_err *err) PSI_MUST;
void psi_var_pump(struct psi_client *c);
void psi_var_open_pump(struct psi_peer *peer);
void psi_var_tick(struct psi_client *c);
/** How var's gradients and reads travel: as asked for, else as the session says of float32. RESOURCE_EXHAUSTED. define.c */
ps_status psi_var_wire(struct psi_client *c, struct psi_var *var, ps_dtype asked, struct psi_err *err) PSI_MUST;
/** One OPEN answer into var. PS_NOT_FOUND: it is gone or another one; INVALID_ARGUMENT: nonsense; ALREADY_EXISTS: other
 * definition. */
ps_status psi_var_update(struct psi_peer *peer, struct psi_var *var, const ps_v1_OpenAnswer *a, struct psi_err *err) PSI_MUST;
/** OPEN for everything at the task that was opened in another life of it; false: nothing to open. */
bool psi_var_reopen(struct psi_peer *peer);
/** Items of OPEN or handles for vars[from..], as many as fit one call; returns the index after the last. */
uint32_t psi_var_fill(struct psi_ask *ask, struct psi_var *const *vars, uint32_t from, uint32_t count, bool handles,
                      struct psi_err *err);

/* ---- turns.c: the order of the requests of one variable ---- */
/** To another step of get-or-create, and to a list or none. A table says which ways there are. */
void psi_var_move(struct psi_var *var, enum psi_var_step step, struct psi_list *list);
/** Get or create it unless that is going on. */
void psi_var_want(struct psi_client *c, struct psi_var *var);
/** The variable that this session opened is gone: what has not been sent of its requests ends. */
void psi_var_lost(struct psi_client *c, struct psi_var *var, const char *why);
void psi_var_queue(struct psi_request *req); /* a data request: to its variable's queue */
void psi_var_next(struct psi_var *var);      /* the next one has its turn, unless one has it */
/** The turn of req is over: it goes on in stage `to`. */
void psi_var_yield(struct psi_request *req, enum psi_request_stage to);
/** req leaves its variable, wherever it is there: PSI_STAGE_NONE. */
void psi_var_release(struct psi_request *req);

/* ---- ready.c ---- */
void psi_ready_go(struct psi_request *req); /* READY, WAIT_READY, STATUS */
void psi_ready_pump(struct psi_client *c);
void psi_ready_free_all(struct psi_client *c);
void psi_ready_expire(struct psi_request *req);
bool psi_ready_slow(struct psi_request *req);

/* ---- chief.c ---- */
/** Somebody needs to know whether this session is the chief of the model in this container. */
void psi_chief_want(struct psi_client *c, const char *container);
/** It is known, as far as it can be. */
bool psi_chief_settled(const struct psi_client *c);
/** What a beat of the directory says of the container. */
void psi_chief_beaten(struct psi_client *c, const ps_v1_BeatAnswer *m);
/** The directory is up again, maybe in another life: it is told what this session holds. */
void psi_chief_confirm(struct psi_client *c);
/** This process stood still for a lease: not known. */
void psi_chief_doubt(struct psi_client *c);
/** A task knows this number. */
void psi_chief_seen(struct psi_client *c, uint64_t number);
/** A task follows a newer chief than this number. */
void psi_chief_refused(struct psi_client *c, uint64_t number);
/** The session ends. */
void psi_chief_leave(struct psi_client *c);
/* ... of claim.c */
enum { PSI_CHIEF_RETRY_MS = 100 };
bool psi_chief_preferred(const struct psi_client *c); /* the cluster spec names it */
/** To another state, and the time of the next claim. A table says which ways there are. */
void psi_chief_move(struct psi_chief *h, enum psi_chief_state to, uint64_t until_ms);
void psi_chief_granted(struct psi_client *c, uint64_t number);
void psi_chief_not_granted(struct psi_client *c, const ps_v1_ChiefAnswer *m);
/** Somebody else has it: what this session gave as chief is refused from now on. */
void psi_chief_lost(struct psi_client *c, const char *why);

/* ---- claim.c ---- */
/** The list and meta of CHIEF. RESOURCE_EXHAUSTED. */
ps_status psi_chief_build(struct psi_ask *ask, const char *container, const ps_v1_Chief *m) PSI_MUST;
/** A claim that is due goes out. */
void psi_chief_pump(struct psi_client *c);

/* ---- control.c: columns of kinds.c ---- */
void psi_control_go(struct psi_request *req); /* one ask to the task of its row */
/** The same with another operation than the row's; also after an answer, in the callback of an ask of its own. */
void psi_control_ask(struct psi_request *req, uint8_t op, ps_status (*build)(struct psi_ask *ask, struct psi_err *err),
                     psi_ask_fn answer);
void psi_control_told(struct psi_request *req); /* the cluster is known: that was all */
void psi_control_goodbye(struct psi_request *req);
ps_status psi_control_check_reset(const struct psi_request *req, struct psi_err *err) PSI_MUST;
ps_status psi_control_check_name(const struct psi_request *req, struct psi_err *err) PSI_MUST;
ps_status psi_control_check_barrier(const struct psi_request *req, struct psi_err *err) PSI_MUST;
ps_status psi_control_check_jobs(const struct psi_request *req, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_reset(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_delete(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_barrier(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_time(struct psi_ask *ask, struct psi_err *err) PSI_MUST; /* a Wait, and no body */
ps_status psi_control_build_jobs(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_setting(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_rate(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_ping(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
void psi_control_plain(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
void psi_control_info(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
void psi_control_u64(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
/** Bytes of the body but for its padding, as the result says; false: the answer is not of this form. */
bool psi_control_body(const struct psi_reply *r, uint64_t *out_bytes) PSI_MUST;
void psi_control_stop(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
void psi_control_job_done(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
/** The directory has forgotten what this session said to it: it hears again that it is done. */
void psi_control_done_again(struct psi_peer *peer);
const char *psi_control_container(const struct psi_request *req);
const char *psi_control_name(const struct psi_request *req);
void psi_control_info_failed(struct psi_request *req);
/** Not carried out: again later, or the end of its request. */
void psi_control_refused(struct psi_ask *ask, const struct psi_reply *r);
/** INTERNAL: its answer makes no sense. */
void psi_control_not_understood(const struct psi_ask *ask);
/** The one message of an answer into m; false: there is none to look at, and the request has been told why where it must be. */
bool psi_control_message(struct psi_ask *ask, const struct psi_reply *r, const pb_msgdesc_t *d, void *m) PSI_MUST;
/* ---- rounds.c: columns, and what READY, window.c and push.c need of it ---- */
/** Rounds and staleness are about it: it is the program's, and has an optimizer. */
bool psi_sync_is_trained(const struct psi_var *var);
/** It is a PUSH that goes out as CONTRIBUTE. */
bool psi_sync_contributes(const struct psi_request *req);
/** A contribution that came too late: of one that was only half sent, too. */
bool psi_sync_was_dropped(uint8_t op, const struct psi_reply *r);
/** SYNC for the step and those of vars that are trained. */
ps_status psi_sync_build(struct psi_ask *ask, struct psi_var *const *vars, uint32_t count, struct psi_err *err) PSI_MUST;
ps_status psi_sync_build_join(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_sync_build_leave(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
void psi_sync_step_go(struct psi_request *req);
bool psi_sync_step_slow(struct psi_request *req);
void psi_sync_joined(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
void psi_sync_left(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
/* ---- call.c: columns ---- */
ps_status psi_control_range_check(const struct psi_request *req, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_range(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
void psi_control_range(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
ps_status psi_control_build_save(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_saved_name(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_call_check(const struct psi_request *req, struct psi_err *err) PSI_MUST;
ps_status psi_control_call_build(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
void psi_control_call(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
const char *psi_control_call_name(const struct psi_request *req);
/* ---- queue.c: columns, and what ask.c needs of it ---- */
ps_status psi_queue_check(const struct psi_request *req, struct psi_err *err) PSI_MUST;
void psi_queue_go(struct psi_request *req); /* ENQUEUE, DEQUEUE, QUEUE_CLOSE */
/** It has to wait for the bytes of one that was called before it. */
bool psi_queue_blocked(const struct psi_ask *ask);
/** It was built for a queue that is not there any more: its handle may be that of another one. */
bool psi_queue_lost(const struct psi_ask *ask);
/** Its frame is in the send queue. */
void psi_queue_sent(struct psi_ask *ask);
/** Further bytes of ENQUEUEs, as many as may be on their way. */
void psi_queue_put_parts(struct psi_peer *peer);
/** What was sent of ENQUEUEs in parts is void: they begin again. */
void psi_queue_disconnected(struct psi_peer *peer);
/** What an OPEN says of a queue, or of what should be one. */
ps_status psi_queue_update(const struct psi_peer *peer, struct psi_var *var, const ps_v1_OpenAnswer *a,
                           struct psi_err *err) PSI_MUST;

/* ---- control_list.c: columns ---- */
/** psi_ask_fn of requests whose answer is a list. */
void psi_control_list(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the client core: what its files share. The outside is worker/core/core.h.
 *
 *   psi_client  the table of peers, variables, requests, effects
 *   psi_peer    one task: its connection, numbers, window, asks, pulls
 *   psi_entry   one sequence number of the window; stays until its outcome is known, also without its request
 *   psi_chunk   one PULL frame that was asked for
 *   psi_ask     one control request (a list and its answers); built once, sent again after a reconnect
 *
 * An event "kicks" each peer that may have something to send; kicked peers are pumped when the shell asks for effects.
 */
#ifndef PSI_WORKER_CLIENT_H
#define PSI_WORKER_CLIENT_H

#include "core.h"
#include "rows.h"

#include "common/buf.h"
#include "common/log.h"
#include "common/msg.h"
#include "common/optimizer.h"

enum {
    PSI_CHUNKS_MAX = 64,
    PSI_CHUNKS_PER_PULL = 8,
    /* mutations of several frames that are being sent at the same time: with more, all would end late instead of one early */
    PSI_QUEUED_MULTI_MAX = 2,
    PSI_BATCH_ASKS_MAX = 4,
    PSI_LOGS_MAX = 64,
    PSI_SLOW_MS = 5000,
    PSI_EARLY_MIN_MS = 120,
    PSI_PARTS_PER_REQUEST = 4,            /* parts of an ENQUEUE, DEQUEUE or CALL that travel at the same time */
    PSI_PART_BYTES = 3 * PS_SEGMENT_BYTES /* with its CRCs a part fits a control frame */
};
/* Bytes of large reads that were asked for and have not come, per connection: 32 MiB. Large reads take half of the chunks; the
 * other half is for small reads. */
#define PSI_PULL_BYTES_MAX ((uint64_t)PSI_CHUNKS_MAX / 2 * PS_VALUES_FRAME_BYTES)
#define PSI_BATCH_BYTES_MAX (240u << 10)      /* bytes of one list; less than PS_CONTROL_BODY_MAX by more than an item */
#define PSI_SYNC_BYTES_MAX ((size_t)64 << 20) /* bytes of the names of a SYNC, which takes as many frames as it needs */

struct psi_peer;
struct psi_ask;
struct psi_reply;
/** Called for each frame of an answer; !reply->more: the last one, behind which the ask is freed. */
typedef void (*psi_ask_fn)(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *reply);

/* State of the connection to a task. peer.c has the table of transitions. */
enum psi_peer_state {
    PSI_PEER_IDLE,    /* nobody has asked for the task, or the session has left it (GOODBYE) */
    PSI_PEER_WAIT,    /* waiting for the time of the next dial */
    PSI_PEER_DIAL,    /* the shell is dialling */
    PSI_PEER_HELLO,   /* HELLO is sent, not answered */
    PSI_PEER_REOPEN,  /* the task was restarted: OPEN is sent for everything that was open before */
    PSI_PEER_UP,      /* requests are sent and answered */
    PSI_PEER_REFUSED, /* for good: another task or another cluster answers at the address, or the task refuses the session */
    PSI_PEER_STATES
};

/* Where a request is. Each stage has a list, or none; only psi_request_move() changes the stage. */
enum psi_request_stage {
    PSI_STAGE_NONE,    /* not started, or being moved: in no list */
    PSI_STAGE_EARLY,   /* client.early: the cluster is not known yet */
    PSI_STAGE_WAITING, /* var->waiting */
    PSI_STAGE_TURN,    /* var->current, in a ready list of its peer; chunks of a read may be travelling */
    PSI_STAGE_SENDING, /* var->current; has a sequence number, extra is its entry; some frames are not queued yet */
    /* has a sequence number; another request may be var->current: all frames are queued, or go ahead of other requests */
    PSI_STAGE_WINDOW,
    PSI_STAGE_PULLING,   /* all chunks were asked for */
    PSI_STAGE_DELAYED,   /* client.delayed until again_ms: refused because of load, or because something was not ready */
    PSI_STAGE_GETTING,   /* var->getters */
    PSI_STAGE_ASKED,     /* its asks are sent */
    PSI_STAGE_COMPOSITE, /* READY, WAIT_READY, STATUS; extra is a struct psi_ready */
    PSI_STAGE_DONE,      /* client.done; PSI_REQUEST_INNER: given to its READY */
    PSI_STAGES
};
/* psi_request.flags */
enum {
    PSI_REQUEST_SLOW_LOGGED = 1,
    PSI_REQUEST_PUSHED = 2,  /* PUSH_PULL: the push is applied, missing values are being pulled */
    PSI_REQUEST_SENT = 4,    /* RESET, DELETE, SHUTDOWN: the task may have carried it out */
    PSI_REQUEST_INNER = 8,   /* part of a READY: done() is called at the moment of its end */
    PSI_REQUEST_OVER = 16,   /* its deadline has come with half of a frame sent: it ends when the connection does */
    PSI_REQUEST_TARGET = 32, /* a connection is receiving into its dst: psi_peer.target of some peer */
    PSI_REQUEST_CUT = 64     /* interrupted: if it fails from now on, it fails with CANCELLED */
};

/* Which task a kind of request is sent to. */
enum psi_kind_to {
    PSI_TO_NOBODY, /* the session itself, or several tasks */
    PSI_TO_OWNER,  /* the owner of its variable; while that is not known, the directory */
    PSI_TO_DIRECTORY,
    PSI_TO_TASK /* req->task */
};
/* Properties of a kind of request (psi_kind.is). */
enum {
    PSI_KIND_DATA = 1,       /* works on the value of a variable at its owner, in the order of the variable's requests */
    PSI_KIND_READ = 2,       /* DATA: reads only, has no sequence number */
    PSI_KIND_SRC = 4,        /* needs src */
    PSI_KIND_DST = 8,        /* needs dst */
    PSI_KIND_SCALE = 16,     /* DATA: scale is finite and above 0 */
    PSI_KIND_SIGN = 32,      /* DATA: scale is 1 or -1, and the variable is numeric */
    PSI_KIND_WIRE = 64,      /* DATA: values travel in psi_var.wire instead of psi_var.dtype */
    PSI_KIND_STRINGS = 128,  /* DATA: string variables are allowed */
    PSI_KIND_NO_VALUE = 256, /* DATA: no value travels */
    PSI_KIND_OTHERS = 512,   /* the directory waits for answers of other tasks: its texts name them */
    PSI_KIND_LOOKS = 1024,   /* ends when its task has been unreachable for a while */
    PSI_KIND_STAYS = 2048,   /* does not end when a task refuses the session; does not need the cluster */
    PSI_KIND_ROWS = 8192,    /* DATA: of some rows; src is a struct psi_rows */
    PSI_KIND_DISK = 4096     /* a full disk is final: RESOURCE_EXHAUSTED from it is not repeated, waiting frees no disk space */
};
/* A row of the table of requests (kinds.c). */
struct psi_kind {
    const char *name;                    /* as in messages */
    uint8_t op;                          /* enum ps_op of the frame; 0: several operations, or none */
    uint8_t to;                          /* enum psi_kind_to */
    uint16_t is;                         /* PSI_KIND_* */
    void (*go)(struct psi_request *req); /* start the request, also after it was put off */
    /* All of these may be NULL. check: beyond what `is` says. build: the ask's list and meta. answer: its callback. subject: name
     * in messages in place of the variable's name. failed: fills the caller's struct on failure. expire and slow: deadline and
     * long wait of a request that runs in several steps */
    ps_status (*check)(const struct psi_request *req, struct psi_err *err);
    ps_status (*build)(struct psi_ask *ask, struct psi_err *err);
    psi_ask_fn answer;
    const char *(*subject)(const struct psi_request *req);
    void (*failed)(struct psi_request *req);
    void (*expire)(struct psi_request *req);
    bool (*slow)(struct psi_request *req); /* writes a log line of its own; false: the usual line is to be written */
};
extern const struct psi_kind psi_kinds[PSI_REQ_KINDS]; /* kinds.c; all files but client.c use psi_kind_of() */

/* Step of get-or-create; turns.c has the table of transitions. */
enum psi_var_step {
    PSI_VAR_NEW,      /* no get-or-create is under way */
    PSI_VAR_CREATE,   /* in client.want_create */
    PSI_VAR_CREATING, /* asked for by a CREATE or FIND */
    PSI_VAR_OPEN,     /* in its owner's want_open */
    PSI_VAR_OPENING,  /* asked for by an OPEN */
    PSI_VAR_DELAYED,  /* in client.vars_delayed */
    PSI_VAR_STEPS
};

/* What this session knows about the chief's lease; chief.c has the table of transitions. */
enum psi_chief_state {
    PSI_CHIEF_NONE,    /* nobody has asked for the chief yet; with PSI_CHIEF_STATIC always */
    PSI_CHIEF_ASKING,  /* not known: the directory is being asked */
    PSI_CHIEF_WAITING, /* another session is chief; this one claims the lease at until_ms */
    PSI_CHIEF_HELD,    /* this session is chief, as far as it knows */
    PSI_CHIEF_NEVER,   /* this session cannot be chief: an evaluator, refused for good, or ending */
    PSI_CHIEF_STATES
};
struct psi_chief {
    enum psi_chief_state state;
    char container[PS_CONTAINER_BYTES_MAX + 1]; /* the chief of this container's model is meant */
    /* HELD, or ASKING for the lease again; STATIC: number of the last READY; 0: none */
    uint64_t number;
    uint64_t seen;     /* highest chief number that a task has reported */
    bool asked;        /* a claim was sent and is not answered */
    bool renew;        /* an owner has reported a higher number, so that `number` is useless */
    uint64_t until_ms; /* time of the next claim; UINT64_MAX: not set */
    /* name of the session that holds the lease, as last reported; "": none */
    char holder[sizeof(((ps_v1_ChiefAnswer *)0)->holder.bytes) + 1];
    char why[PSI_ERR_TEXT_MAX]; /* ASKING: why the directory has not answered */
    uint64_t told;              /* highest number given to any chief, from the last beat's answer */
    bool readied;               /* this session's last READY was OK */
    uint64_t ready; /* number of the connected chief that has made the model ready, from the last beat's answer; 0: none */
};

/* A sequence number of the window, with its mutation. */
struct psi_entry {
    struct psi_out out; /* its frame that is being sent */
    uint64_t number;    /* 0: this place of the ring is free */
    struct psi_peer *peer;
    struct psi_request *req; /* NULL: abandoned */
    struct psi_var *var;
    uint64_t total;        /* number of elements; for strings bytes of the blob, for rows rows, as in `next` and `frame_first` */
    uint64_t next;         /* first element whose frame is not queued */
    uint64_t frame_first;  /* first element of the frame in `out` */
    uint64_t chief_number; /* INIT, ASSIGN */
    uint64_t creation;     /* creation number of the variable that it is meant for */
    uint32_t handle;       /* handle of the variable in the task's process that it was last sent to */
    ps_dtype wire;         /* dtype of the values in frames */
    uint32_t unit;         /* bytes of an element in frames, of a row with its index */
    uint64_t member;       /* CONTRIBUTE: id of the member; `round`: the round that it contributes to */
    uint64_t round;
    uint64_t step; /* PUSH, PUSHPULL: psi_client.step when the number was given out: the same whenever it is sent */
    uint8_t op;
    bool multi;        /* it has several frames */
    bool queued;       /* out is in the send queue */
    bool begun;        /* bytes may have been sent since the task last said that it had received none */
    bool unsent;       /* to be sent again after a reconnect, and not queued yet */
    bool ending;       /* its outcome is in req, which ends when `out` has left the queue */
    bool repeat;       /* with `ending`: refused because of load, the request is repeated */
    uint64_t exchange; /* id of psi_exchange_begin(); 0: not traced */
};

/* A PULL frame that was asked for. */
struct psi_chunk {
    struct psi_list link; /* in chunk_free, chunk_out or chunk_again of the peer */
    uint64_t number;
    struct psi_request *req; /* NULL: nobody waits for the values any more */
    struct psi_var *var;
    uint32_t slot; /* psi_request.slot; 0: the value itself */
    uint64_t first;
    uint8_t op;        /* PS_OP_PULL or PS_OP_GATHER */
    uint32_t elements; /* number of elements, or rows, that were asked for; 0: all strings */
    uint32_t covers;   /* number of elements of the variable, or rows, that the frame brings */
    uint64_t bytes;    /* payload; for strings the maximum */
    uint64_t charge;   /* share of PSI_PULL_BYTES_MAX. Small reads: 0. Large reads: enough that half of the chunks stay free */
    uint64_t exchange; /* id of psi_exchange_begin(); 0: not traced */
};

/* A reply of a task, or one that the core makes for an ask that cannot be answered. */
struct psi_reply {
    ps_status status;
    ps_applied applied;
    ps_reason reason; /* 0: follows from status */
    uint32_t retry_after_ms;
    uint64_t position, durable, version;
    uint32_t result_bytes;
    uint8_t result[PS_RESULT_BYTES_MAX];
    const char *text;
    const uint8_t *body; /* payload of this frame */
    size_t body_bytes;
    bool more; /* further frames of this answer follow */
};

struct psi_ask {
    struct psi_list link; /* of the peer's asks, oldest first */
    struct psi_peer *peer;
    struct psi_request *req; /* NULL: the ask belongs to the variables in vars, or to the peer */
    psi_ask_fn fn;
    uint64_t number; /* request number; 0: not sent yet */
    uint8_t op;
    bool sent;    /* on the present connection */
    bool tried;   /* on any connection */
    bool waits;   /* waiting request: sent again with its number, acknowledged by ACK */
    bool once;    /* must not be carried out twice: ends as outcome unknown where that could happen */
    bool handles; /* names handles, which a restarted task does not know */
    bool reopen;  /* sent in state REOPEN, before the peer is UP */
    bool takes;   /* DEQUEUE: its ACK makes the elements the program's; given up, they go back into the queue */
    bool fetches; /* its answer may take several frames: it ends by psi_ask_taken() */
    bool parts;   /* answered, and parts of the answer are being fetched: it is not sent again */
    bool partial; /* a list: some frame of the answer is not in `answer` */
    uint16_t meta_bytes;
    uint32_t handle;
    uint64_t offset;  /* GET_PART: offset in bytes */
    uint64_t time_ms; /* when `meta` was encoded with its present timeout */
    _Alignas(8) uint8_t meta[128];
    struct psi_buf body; /* a list where it takes more than a frame */
    const uint8_t *lent; /* instead of body: bytes of the request's caller, whose memory stays until the request ends, and with
                            it this ask; NULL: body */
    size_t lent_bytes;
    struct psi_out out;    /* the frame with `lent`, where that is large: it is sent from where it lies */
    bool queued;           /* out is in the send queue */
    struct psi_buf answer; /* for the caller's use */
    struct psi_var **vars; /* the variables of the list's items, in order; NULL: an item without one */
    uint32_t var_count;
    uint64_t exchange; /* id of psi_exchange_begin(); 0: not traced */
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
    bool dial_effect;      /* the shell is to be told to dial */
    uint64_t next_dial_ms;
    uint64_t failing_since_ms; /* the peer has not been UP since then; 0: it is, or no dial has ended yet */
    uint32_t backoff_ms;
    uint64_t connection; /* number of the last connection */
    uint64_t slept;      /* number of the last connection in which this process did not run for a lease or longer */
    uint64_t record;     /* name of the session's record at the task, from the reply that settled the window */
    uint64_t record_next;
    uint64_t life;
    uint32_t lease_ms, beat_ms;
    uint64_t heard_ms, beat_sent_ms, sent_seen;
    bool sent_blocked; /* at the last tick the kernel took no more bytes */
    uint64_t bad_logged_ms;
    bool crc;                          /* segments that are sent on this connection carry CRCs */
    uint64_t features;                 /* PS_FEATURE_* that both sides know, from the last HELLO */
    char last_error[PSI_ERR_TEXT_MAX]; /* why the peer is not UP */
    /* when the task first refused this session with CONFLICT; 0: not since it last accepted the session */
    uint64_t kept_out_ms;
    uint64_t challenge; /* BeatAnswer.challenge last received on this connection; the next beats carry it; 0: none */
    ps_status refused;  /* REFUSED: status and reason of the refusal */
    ps_reason refused_reason;
    uint32_t lost_count; /* lost variables of the task that were not logged yet; lost_var: one of them, lost_why: the reason */
    char lost_var[PS_NAME_BYTES_MAX + 1], lost_why[PSI_ERR_TEXT_MAX];
    uint64_t lost_again_ms; /* no log line about lost variables before */
    bool leaving;           /* GOODBYE was asked for: the task is not dialled again */
    bool doomed;            /* psi_peer_fail() was called: the connection is to be closed and dialled anew */
    char doom[200];         /* why it is doomed */
    struct psi_list pump;   /* in client.pumps */

    struct psi_entry *ring; /* PS_WINDOW entries, number % PS_WINDOW; NULL before the first mutation */
    uint64_t first, next;   /* unresolved numbers are in [first, next) */
    uint64_t resume_at;     /* no number below it is `unsent` */
    uint32_t multi;         /* entries of several frames */
    uint32_t queued_multi;  /* entries of several frames with a frame in the send queue */
    uint32_t queued_bytes;  /* payload in the send queue of entries of one frame */
    struct psi_list ready_single, ready_multi, ready_small_read, ready_read; /* requests */

    struct psi_list asks;
    bool putting; /* a request may have bytes to send in PUT_PART */
    uint64_t next_request;
    uint64_t *acks; /* ring of the numbers last acknowledged, which may all be lost; at most PS_WAITS_PER_SESSION_MAX; GIVEN_UP
                     * (ask.c) marks those given up */
    uint32_t ack_count;
    size_t ack_capacity;
    struct psi_list want_open; /* variables */
    uint32_t open_asks, reopen_asks;

    struct psi_chunk *chunks; /* PSI_CHUNKS_MAX; NULL before the first pull */
    struct psi_list chunk_free, chunk_out, chunk_again;
    uint64_t pull_bytes; /* share of PSI_PULL_BYTES_MAX that chunk_out takes */

    /* the frame that is being received */
    uint8_t *buffer; /* a segment that has not come whole */
    struct psi_reply reply;
    char reply_text[PSI_ERR_TEXT_MAX];
    struct psi_buf body;  /* payload of a control frame */
    struct psi_buf hello; /* payload of HELLO's answer, from all its frames */
    enum { PSI_SINK_NONE, PSI_SINK_BODY, PSI_SINK_CHUNK, PSI_SINK_VALUE } sink;
    struct psi_chunk *sink_chunk;
    uint64_t sink_number;           /* VALUE: sequence number of the entry */
    uint64_t sink_first;            /* element */
    uint64_t sink_bytes, sink_done; /* bytes of values, without padding */
    struct psi_request *target;     /* the request into whose dst the reader writes; NULL: none */
    struct ps_pull_reply_meta sink_meta;
};

enum { PSI_RATES_TOLD_MAX = 8 };
struct psi_client {
    const struct psi_kind *kinds; /* psi_kinds */
    char target[PS_ADDRESS_BYTES_MAX + 1];
    char cluster_name[PS_JOB_BYTES_MAX + 1];
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    char container[PS_CONTAINER_BYTES_MAX + 1]; /* default container of the session; "": PSI_CONTAINER_DEFAULT */
    char host[65], program[65];
    uint32_t pid;
    int64_t operation_timeout_ms, ready_timeout_ms, start_timeout_ms;
    struct psi_reach *reach; /* borrowed; NULL: not recorded */
    uint64_t seed;
    bool fail_fast;
    const char *(*uri)(void *shell); /* psi_client_config.uri */
    ps_dtype wire_dtype;
    struct psi_out_scratch scratch; /* shared by all connections */

    uint8_t session_id[16];
    char own_container[PSI_SESSION_CONTAINER_BYTES];
    uint8_t own_key[PSI_KEY_BYTES];
    struct psi_list keys; /* struct psi_client_key: keys of other sessions' containers */
    uint64_t random;
    uint64_t now_ms;
    uint64_t now_ns;             /* set while exchanges are traced */
    struct psi_exchanges *trace; /* the trace, owned by the caller; NULL: exchanges are not traced */
    uint32_t trace_number;
    uint64_t next_link;

    struct psi_cluster cluster;
    bool known; /* the cluster is known */
    uint64_t cluster_hash;
    struct psi_peer **peers;
    uint32_t peer_count;
    uint32_t directory; /* index */
    struct psi_placement placement;
    bool chief_connected; /* a chief is connected, from the directory's last beat */
    enum psi_chief_mode chief_mode;
    struct psi_chief chief;
    bool stop_asked; /* a beat has asked this session to stop */
    /* job_done: the directory has said so; done_said: this session has told the directory that it is done */
    bool job_done, done_said;
    uint64_t step;                            /* 1 + global step, as last learned; 0: not known */
    char step_of[PS_CONTAINER_BYTES_MAX + 1]; /* container of the variable global_step; "": not known */
    uint32_t found, found_total;
    struct {
        double rate, own; /* rate: in force; own: what this program asks for */
    } told_rate[PSI_RATES_TOLD_MAX];
    uint32_t rates_told;      /* log lines about rates so far */
    struct psi_sync sync;     /* as given to the last READY */
    struct psi_member member; /* membership of the rounds of `sync` */

    struct psi_list dirty; /* links */
    struct psi_list pumps; /* peers */
    uint32_t dial_count;   /* peers with dial_effect */
    struct psi_list done;  /* requests */
    struct psi_list all;   /* requests that are not done */
    uint32_t pending;
    bool overdue;               /* a request ends when its connection is closed: look again then */
    uint64_t scan_ms;           /* no deadline or log line is due before */
    uint64_t slow_ms;           /* no log line about long waits before */
    bool lost_untold;           /* lost_count of some peer is not 0 */
    ps_reason cut_reason;       /* reason of requests that were interrupted (PSI_REQUEST_CUT) */
    const char *cut_why;        /* first words of the error texts of interrupted requests */
    struct psi_list early;      /* requests that need the cluster */
    struct psi_list delayed;    /* requests, sorted by again_ms */
    struct psi_list composites; /* struct psi_ready */
    struct psi_list variables;
    struct psi_list want_create; /* variables */
    struct psi_list vars_delayed;
    uint32_t create_asks;
    struct psi_list spare_asks; /* free asks, with the memory of their bodies */
    uint32_t spare_ask_count;

    struct psi_client_effect *logs; /* ring of PSI_LOGS_MAX */
    uint32_t log_first, log_count, log_lost;
    struct psi_err **errs; /* free blocks */
    uint32_t err_count, err_capacity;
    struct psi_err *delivered; /* error of the request that psi_client_next_done() returned last */
    struct psi_err no_memory;
};

/* ---- keys.c ---- */
/** Write the key of container session/... into the field `key` of a message, if this session has the key. Writes nothing for any
 * other container. */
void psi_client_give_key(const struct psi_client *c, const char *container, pb_bytes_array_t *key);
#define PSI_GIVE_KEY(c_, container_, m_) psi_client_give_key(c_, container_, (pb_bytes_array_t *)(void *)&(m_)->key)
/** Write the variable's own key; without one, the key of its container. */
void psi_var_give_key(const struct psi_client *c, const struct psi_var *var, pb_bytes_array_t *key);
#define PSI_GIVE_VAR_KEY(c_, var_, m_) psi_var_give_key(c_, var_, (pb_bytes_array_t *)(void *)&(m_)->key)

/* ---- client.c: the object, requests, the table ---- */
void psi_client_dirty(struct psi_client *c, struct psi_link *link);
void psi_client_kick(struct psi_peer *peer);
void psi_client_log_fields(struct psi_client *c, enum psi_log_level level, const char *event, const struct psi_kv *kv,
                           size_t count);
#define psi_client_log(c_, level_, event_, ...) psi_client_log_fields(c_, level_, event_, PSI_KVS(__VA_ARGS__))
/* ---- request.c: stages of a request, from start to end ---- */
/** End the request with this status. format: printf; NULL with PS_OK. */
void psi_request_end(struct psi_request *req, ps_status st, ps_applied applied, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/** psi_request_end() with a reason that says more than st, or one that a task has sent; 0: the reason follows from st. */
void psi_request_end_as(struct psi_request *req, ps_status st, ps_reason reason, ps_applied applied, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/** End a request whose status, applied and err are set. */
void psi_request_ended(struct psi_request *req);
/** An error block, filled by printf; never NULL (base.c). */
struct psi_err *psi_client_verr(struct psi_client *c, ps_status st, ps_reason reason, ps_applied applied, const char *format,
                                va_list ap) __attribute__((format(printf, 5, 0)));
struct psi_err *psi_client_err(struct psi_client *c, ps_status st, ps_reason reason, ps_applied applied, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void psi_client_err_free(struct psi_client *c, struct psi_err *e);
/** Remember in req->why how the task refused the request. PS_OK: forget it. */
void psi_request_refused(struct psi_request *req, ps_status st, ps_reason reason, const char *text);
/** Put the request off for at least retry_ms; 0: a back-off by req->tries. It leaves its list. */
void psi_request_delay(struct psi_request *req, uint32_t retry_ms);
/** Move to another stage and its list. request.c has the table of transitions. */
void psi_request_move(struct psi_request *req, enum psi_request_stage to);
/** Start the request, or start it again. The cluster is known, and nothing of the request is on the wire. */
void psi_request_go(struct psi_request *req);
/** The task that the request waits for now; NULL: none or several. */
struct psi_peer *psi_request_peer(const struct psi_request *req);
/** True if the refusal allows the request to be repeated. */
bool psi_reply_repeatable(const struct psi_reply *r);
/** Check memory, size, part and scale of a request for v's values. k: the row of its kind. */
ps_status psi_request_check_values(const struct psi_request *req, const struct psi_kind *k, const struct psi_operand *v,
                                   struct psi_err *err) PSI_MUST;
/** Check kind, variable, task, memory and scale. */
ps_status psi_request_check(struct psi_client *c, const struct psi_request *req, struct psi_err *err) PSI_MUST;
/** True if the whole value is one segment, so that readers never see a part of a mutation. Decided by the variable's dtype:
 * other sessions may read or push it as bfloat16 with another number of bytes. */
static inline bool psi_var_is_one_segment(const struct psi_var *v)
{
    return v->dtype == PS_STRING || v->elements * ps_dtype_bytes(v->dtype) <= PS_SEGMENT_BYTES;
}
/** Elements of the value (slot 0), or of a slot of its optimizer, from 1 on. */
static inline uint64_t psi_var_elements(const struct psi_var *v, uint32_t slot)
{
    const struct psi_slot *row = slot == 0 ? NULL : psi_optimizer_slot(&v->optimizer, slot - 1);
    const ps_shape shape = row == NULL ? v->shape : psi_slot_shape(row, &v->shape);
    return row == NULL ? v->elements : (uint64_t)ps_shape_elements(&shape);
}
/** Name of the call, for texts: "push", "assign_sub". */
const char *psi_request_name(const struct psi_request *req);
static inline const struct psi_kind *psi_kind_of(const struct psi_request *req)
{
    return &req->owner->kinds[req->kind];
}
/** True if the request has a sequence number; extra is then its entry. */
static inline bool psi_request_numbered(const struct psi_request *req)
{
    return req->stage == PSI_STAGE_SENDING || req->stage == PSI_STAGE_WINDOW;
}
/** True if the request is reading now: a PULL, or a PUSH_PULL that pulls missing values. */
static inline bool psi_request_reads(const struct psi_request *req)
{
    return (req->owner->kinds[req->kind].is & PSI_KIND_READ) != 0 || (req->flags & PSI_REQUEST_PUSHED) != 0;
}
/** How much of a request that is not in the window has been applied. A PUSH_PULL that pulls values has applied its push. */
static inline ps_applied psi_request_applied(const struct psi_request *req)
{
    return (req->flags & PSI_REQUEST_PUSHED) != 0 ? PS_MAYBE_PARTLY_APPLIED : PS_NOTHING_APPLIED;
}
/** Number of elements that travel, or bytes of the blob of strings, or rows; and the dtype in which they travel. */
uint64_t psi_request_total(const struct psi_request *req);
/** Bytes of one of them in frames; of a row with its index. */
uint32_t psi_request_unit(const struct psi_request *req);
ps_dtype psi_request_wire(const struct psi_request *req);
/** True if the request's kind has one of the properties PSI_KIND_*. */
static inline bool psi_request_is(const struct psi_request *req, uint32_t is)
{
    return (psi_kind_of(req)->is & is) != 0;
}
/** Payload bytes of `total` of them, each of `unit`. */
static inline uint64_t psi_request_bytes(const struct psi_request *req, uint64_t total, uint32_t unit)
{
    return psi_request_is(req, PSI_KIND_ROWS) ? psi_rows_payload(total, unit) : total * unit;
}
/** Make the table of tasks from a cluster. target: the peer that told the cluster, if any; it gets its place in the table. */
ps_status psi_client_learn(struct psi_client *c, const struct psi_cluster *cluster, struct psi_peer *target,
                           struct psi_err *err) PSI_MUST;
/** Table index; UINT32_MAX: not in the cluster. */
uint32_t psi_client_find_task(const struct psi_client *c, const char *job, uint32_t task);
struct psi_peer *psi_client_directory(struct psi_client *c);
/** Set the fields that must be set before a request is used, and initialise its lists. */
void psi_request_prepare(struct psi_client *c, struct psi_request *req);
/** Name of the variable or container that the request is about; NULL: none. */
const char *psi_request_subject(const struct psi_request *req);

/* ---- deadline.c: requests that end without an answer ---- */
/** End a request whose deadline has come. */
void psi_request_expire(struct psi_request *req);
/** Write a log line for a request whose kind has a line of its own. False: its kind has none. */
bool psi_request_slow_itself(struct psi_request *req);
/** Write one log line for `count` requests like this one; the oldest began at oldest_ms. */
void psi_request_slow(const struct psi_request *req, uint32_t count, uint64_t oldest_ms);
/** The timeout to send to a task that answers at its end who is missing. It is shorter than the time until the deadline, so that
 * the answer comes first: by two ticks (50 ms each) and the way back; by PSI_EARLY_MIN_MS where twice as much time is left. */
uint64_t psi_time_to_give(const struct psi_client *c, uint64_t deadline_ms);
/** End every request that waits for the task, which is REFUSED. */
void psi_request_fail_peer(struct psi_peer *peer);
/** A dial or a HELLO has failed. If that has gone on for a while, end INFO, TASKS and LOOK, and all requests of a client with
 * fail_fast. Other requests wait for the task's return. */
void psi_request_unreachable(struct psi_peer *peer);

/* ---- slow.c: one log line of many requests that wait for long ---- */
/** When a log line about this long wait is due; UINT64_MAX: it was written. */
uint64_t psi_slow_due(const struct psi_request *req);
/** Write the log lines that are due: one for each task and kind of request, not before c->slow_ms again. */
void psi_slow_tell(struct psi_client *c);

/* ---- lost.c: one log line of many variables that are lost ---- */
/** Note a lost variable; psi_lost_tell() logs it together with others of its task. why is copied. */
void psi_lost_note(struct psi_client *c, const struct psi_var *var, const char *why);
/** Called at the end of an event: write one line for each task that has lost variables, at most once a second. */
void psi_lost_tell(struct psi_client *c);

/* ---- peer.c: a task ---- */
struct psi_peer *psi_peer_new(struct psi_client *c, const char *address);
void psi_peer_name(struct psi_peer *peer, const char *job, uint32_t task);
/** Free a peer of which nothing is being sent or received. */
void psi_peer_free(struct psi_peer *peer);
/** Change the state; peer.c has the table of transitions. */
void psi_peer_move(struct psi_peer *peer, enum psi_peer_state to);
/** Dial the task unless it is connected, and stay connected from now on. */
void psi_peer_want(struct psi_peer *peer);
void psi_peer_dial(struct psi_peer *peer);
/** Close the connection; the task is not dialled until psi_peer_want(). */
void psi_peer_undial(struct psi_peer *peer);
/** Never dial the task again, and close the connection unless it is UP. */
void psi_peer_leave(struct psi_peer *peer);
/** Mark the connection as broken: it is closed at the end of the event, before anything else is sent. Only the first call's
 * reason is kept. */
void psi_peer_fail(struct psi_peer *peer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Write "/job:ps/task:0 (127.0.0.1:2222)" into dst; n >= PSI_WHERE_MAX. Returns dst. */
#define PSI_WHERE_MAX (PSI_TASK_NAME_MAX + PS_ADDRESS_BYTES_MAX + 4)
const char *psi_peer_where(const struct psi_peer *peer, char *dst, size_t n);
/** True if the task is wanted and not connected. */
bool psi_peer_down(const struct psi_peer *peer);
/** Why the task cannot answer now: "connection refused"; "" if it is connected. */
const char *psi_peer_obstacle(const struct psi_peer *peer);
/** True if the session wants this task and was never connected to it. psi_peer_wanted_ms(): since when; UINT64_MAX: not so.
 * psi_peer_reached(): the task is connected now. */
bool psi_peer_unreached(const struct psi_peer *peer);
uint64_t psi_peer_wanted_ms(const struct psi_peer *peer);
void psi_peer_reached(struct psi_peer *peer);
/** True if a wanted task was never connected, and the start timeout is over. */
bool psi_client_overdue(const struct psi_client *c);
/** End requests for tasks that were never connected, when the start timeout is over; logs these tasks from time to time. */
void psi_client_unreached_tick(struct psi_client *c);
struct ps_frame_header psi_frame_header(uint8_t op, uint64_t id);
/** Queue a frame with a copy of meta and body; without memory the connection fails. */
void psi_peer_send(struct psi_peer *peer, const struct ps_frame_header *h, const void *meta, const void *body, uint32_t bytes);
/** As psi_peer_send(), but the frame leaves with the next frame, at the latest with a beat. False: the connection fails. */
bool psi_peer_send_later(struct psi_peer *peer, const struct ps_frame_header *h, const void *meta, const void *body,
                         uint32_t bytes);
/** Free a chunk. */
void psi_chunk_drop(struct psi_peer *peer, struct psi_chunk *k);
/** Stop receiving into req->dst: nothing is written there from now on. */
void psi_target_release(struct psi_request *req);
/** Stop receiving into the memory of whichever request is this peer's target; the rest of the frame is read and dropped. */
void psi_target_stop(struct psi_peer *peer);

/* ---- connection.c ---- */
struct psi_link *psi_peer_dialed(struct psi_peer *peer, void *shell, bool crc, const char *why);
/** The connection is gone, or is to be closed (close). Requests on it are treated as after a disconnect. */
void psi_peer_lost(struct psi_peer *peer, bool close, const char *format, ...) __attribute__((format(printf, 3, 4)));
void psi_peer_tick(struct psi_peer *peer);
void psi_peer_pump(struct psi_peer *peer);
/** Take HELLO's answer, which is in peer->reply and peer->hello. */
void psi_peer_hello(struct psi_peer *peer);
/** The session ends: drop everything that is being sent or received. */
void psi_peer_end(struct psi_peer *peer);

/* ---- receive.c ---- */
void psi_peer_bytes(struct psi_peer *peer, const uint8_t *p, size_t n);
/** Bytes of a list without the zeros at its end; a broken list is returned whole. */
size_t psi_list_strip(const uint8_t *p, size_t n);

/* ---- window.c ---- */
ps_status psi_window_prepare(struct psi_peer *peer) PSI_MUST;
/** True if another mutation may be sent: a sequence number is free, and the send queue has room. The limit of the queue keeps
 * reads from waiting until all mutations are sent. */
bool psi_window_room(const struct psi_peer *peer, bool multi);
struct psi_entry *psi_window_find(const struct psi_peer *peer, uint64_t number);
/** Give req the next sequence number and send it. */
void psi_window_admit(struct psi_peer *peer, struct psi_request *req);
/** Take a reply with PS_FLAG_SEQ. */
void psi_window_reply(struct psi_peer *peer, uint64_t number, uint8_t op, const struct psi_reply *r);
/** The deadline of a request in the window has come: end it; if half of a frame is sent, it ends with the connection. */
void psi_window_expire(struct psi_request *req);
/** Take all frames of entries out of the queue of a broken connection. */
void psi_window_detach(struct psi_peer *peer);
/** Take the outcomes of unresolved numbers from HELLO's answer. False: the answer is wrong. */
bool psi_window_settle(struct psi_peer *peer, const uint8_t *p, size_t n, uint32_t count, struct psi_err *err);
/** Send entries again after a reconnect, in order. True: none is left. */
bool psi_window_resume(struct psi_peer *peer);
/** End the numbers of a lost variable. */
void psi_window_lose(struct psi_peer *peer, struct psi_var *var, ps_reason reason, const char *why);
/** Note that e->out is in the send queue, or no longer. */
void psi_entry_in_queue(struct psi_entry *e, bool in);
/** e->out has left the queue. */
void psi_entry_unqueued(struct psi_entry *e);

/* ---- push.c ---- */
/** The operation changes some rows of a variable: PUSH_ROWS, SCATTER. */
static inline bool psi_op_is_rows(uint8_t op)
{
    return op == PS_OP_PUSH_ROWS || op == PS_OP_SCATTER;
}
void psi_push_go(struct psi_request *req); /* PUSH */
/** Queue the next frame of e, from element e->next on. */
void psi_push_queue(struct psi_entry *e);
/** Take the head of a VALUE frame, and decide where its values are stored. */
ps_status psi_push_value_head(struct psi_peer *peer, struct psi_err *err) PSI_MUST;
void psi_push_value_end(struct psi_peer *peer);
/** A PUSH_PULL is applied: end it, or pull the values that are missing. */
void psi_push_pulled(struct psi_request *req);

/* ---- pull.c ---- */
ps_status psi_pull_prepare(struct psi_peer *peer) PSI_MUST;
/** True if the read is one segment at most: some chunks are reserved for such reads. */
bool psi_pull_is_small(const struct psi_request *req);
/** Ask for chunks of var->current. True: all were asked for. */
bool psi_pull_ask(struct psi_peer *peer, struct psi_request *req);
/** Ask again for chunks of an earlier connection. True: none is left. */
bool psi_pull_resume(struct psi_peer *peer);
void psi_pull_detach(struct psi_peer *peer);
ps_status psi_pull_head(struct psi_peer *peer, struct psi_err *err) PSI_MUST;
void psi_pull_end(struct psi_peer *peer);
void psi_pull_refused(struct psi_peer *peer, uint64_t number, const struct psi_reply *r);
/** Take the versions of one frame into account (PULL's result `exact`). */
void psi_pull_note(struct psi_request *req, const struct ps_pull_reply_meta *head, const struct ps_pull_trailer *tail);

/* ---- ask.c ---- */
/** item_count > 0: vars gets room for that many. NULL: no memory. */
struct psi_ask *psi_ask_new(struct psi_peer *peer, uint8_t op, struct psi_request *req, psi_ask_fn fn, uint32_t item_count);
/** Queue the ask, and want its peer. */
void psi_ask_start(struct psi_ask *ask);
/** Bytes of what is sent behind its meta. */
static inline size_t psi_ask_body_bytes(const struct psi_ask *ask)
{
    return ask->lent != NULL ? ask->lent_bytes : ask->body.len;
}
ps_status psi_ask_meta(struct psi_ask *ask, const pb_msgdesc_t *d, const void *m, struct psi_err *err) PSI_MUST;
void psi_ask_free(struct psi_ask *ask);
/** Drop the asks of req at all tasks. */
void psi_ask_drop(struct psi_client *c, const struct psi_request *req);
void psi_ask_reply(struct psi_peer *peer, uint64_t number, uint8_t op, const struct psi_reply *r);
/** Send asks; reopen: only those marked `reopen`. */
void psi_ask_send(struct psi_peer *peer, bool reopen);
/** Forget the frames of the peer's asks that are in its send queue, which is about to be freed. */
void psi_ask_detach(struct psi_peer *peer);
void psi_ask_disconnected(struct psi_peer *peer);
/** After HELLO: end the asks that a restarted task, or a new record of the session, makes impossible. */
void psi_ask_settle(struct psi_peer *peer, bool new_life, bool new_record);
/** When UP: send ACKs again that may have been lost with an earlier connection. */
void psi_ask_acknowledge_again(struct psi_peer *peer);
void psi_ask_fail_all(struct psi_peer *peer, ps_status st, ps_reason reason, const char *text);
void psi_ask_beat(struct psi_peer *peer);
/** The content of a beat to this task. */
ps_v1_Beat psi_ask_beat_of(const struct psi_peer *peer);
void psi_ask_abandon(struct psi_peer *peer, uint64_t number);
/** End a DEQUEUE or CALL whose answer is here whole: elements become the program's. */
void psi_ask_taken(struct psi_ask *ask);
void psi_ask_free_spare(struct psi_client *c);

/* ---- trace.c ---- */
/** Begin to trace an exchange with this task; returns its id, 0: not traced. Call only if c->trace is not NULL. req: the
 * request, which began earlier; NULL: the exchange begins now. bytes: size of its values. */
uint64_t psi_exchange_begin(const struct psi_peer *peer, uint8_t op, const struct psi_request *req, const char *name,
                            uint64_t bytes) __attribute__((cold));
/** Begin to trace an exchange before the first frame of a sequence number, or a PULL frame, is queued. *h gets flag TIMES if the
 * task knows it. Call only if c->trace is not NULL. */
void psi_exchange_entry(struct psi_entry *e, struct ps_frame_header *h) __attribute__((cold));
void psi_exchange_chunk(const struct psi_peer *peer, struct psi_chunk *k, struct ps_frame_header *h) __attribute__((cold));
/** A frame of the exchange is about to be queued. True: it is to carry flag TIMES. */
bool psi_exchange_sent(const struct psi_peer *peer, uint64_t id) __attribute__((cold));
/** The exchange is answered. If the answer is the frame being received, which has this number, the task's times are taken from
 * it. An exchange that has ended stays as it is. */
void psi_exchange_end(const struct psi_peer *peer, uint64_t id, uint64_t number, ps_status status) __attribute__((cold));

/* ---- define.c ---- */
/** Choose the task for CREATE: round-robin, or the one that the scopes name. INVALID_ARGUMENT: no turn of the round-robin is
 * taken. */
ps_status psi_var_choose_task(struct psi_client *c, struct psi_var *var, struct psi_err *err) PSI_MUST;

/* ---- variable.c ---- */
void psi_var_get(struct psi_request *req); /* GET, LOOKUP */
ps_status psi_var_check_get(const struct psi_request *req, struct psi_err *err) PSI_MUST;
void psi_var_pump(struct psi_client *c);
void psi_var_open_pump(struct psi_peer *peer);
void psi_var_tick(struct psi_client *c);
/** Set the dtype in which var's gradients and reads travel: `asked`, else the session's choice for float32. RESOURCE_EXHAUSTED:
 * no memory. define.c */
ps_status psi_var_wire(struct psi_client *c, struct psi_var *var, ps_dtype asked, struct psi_err *err) PSI_MUST;
/** Take one OPEN answer into var. Errors: PS_NOT_FOUND the variable is gone or was replaced; INVALID_ARGUMENT the answer makes
 * no sense; ALREADY_EXISTS the definition differs. */
ps_status psi_var_update(struct psi_peer *peer, struct psi_var *var, const ps_v1_OpenAnswer *a, struct psi_err *err) PSI_MUST;
/** Send OPEN for every variable that was open before the task was restarted. False: there is none. */
bool psi_var_reopen(struct psi_peer *peer);
/** Write items of OPEN, or handles, for vars[from..], as many as fit one frame. Returns the index behind the last. */
uint32_t psi_var_fill(struct psi_ask *ask, struct psi_var *const *vars, uint32_t from, uint32_t count, bool handles,
                      struct psi_err *err);

/* ---- turns.c: the order of the requests of one variable ---- */
/** Change the step of get-or-create; the variable enters `list`, or none. turns.c has the table of transitions. */
void psi_var_move(struct psi_var *var, enum psi_var_step step, struct psi_list *list);
/** Get or create the variable, unless that is under way. */
void psi_var_want(struct psi_client *c, struct psi_var *var);
/** The variable that this session had open is gone: end the requests that have not been sent. */
void psi_var_lost(struct psi_client *c, struct psi_var *var, const char *why);
void psi_var_queue(struct psi_request *req); /* put a data request into its variable's queue */
void psi_var_next(struct psi_var *var);      /* start the next request of the variable, unless one is current */
/** req is no longer var->current; it goes on in stage `to`. */
void psi_var_yield(struct psi_request *req, enum psi_request_stage to);
/** Take req out of all lists of its variable: PSI_STAGE_NONE. */
void psi_var_release(struct psi_request *req);

/* ---- ready.c ---- */
void psi_ready_go(struct psi_request *req); /* READY, WAIT_READY, STATUS */
void psi_ready_pump(struct psi_client *c);
void psi_ready_free_all(struct psi_client *c);
void psi_ready_expire(struct psi_request *req);
bool psi_ready_slow(struct psi_request *req);

/* ---- chief.c ---- */
/** Find out whether this session is the chief of the model in this container. */
void psi_chief_want(struct psi_client *c, const char *container);
/** True if it is known whether this session is chief, as far as that is possible. */
bool psi_chief_settled(const struct psi_client *c);
/** Take what a beat's answer says about the container's chief. */
void psi_chief_beaten(struct psi_client *c, const ps_v1_BeatAnswer *m);
/** The directory is UP again, perhaps restarted: claim again what this session holds. */
void psi_chief_confirm(struct psi_client *c);
/** This process stood still for a lease: whether it is still chief is not known. */
void psi_chief_doubt(struct psi_client *c);
/** A task has reported this chief number. */
void psi_chief_seen(struct psi_client *c, uint64_t number);
/** A task has refused a request, because it knows a newer chief than this number. */
void psi_chief_refused(struct psi_client *c, uint64_t number);
/** The session ends: it will not be chief again. */
void psi_chief_leave(struct psi_client *c);
/* for claim.c: */
enum { PSI_CHIEF_RETRY_MS = 100 };
bool psi_chief_preferred(const struct psi_client *c); /* the cluster spec names it */
/** Change the state and the time of the next claim. chief.c has the table of transitions. */
void psi_chief_move(struct psi_chief *h, enum psi_chief_state to, uint64_t until_ms);
void psi_chief_granted(struct psi_client *c, uint64_t number);
void psi_chief_not_granted(struct psi_client *c, const ps_v1_ChiefAnswer *m);
/** Another session is chief: tasks refuse this session's requests as chief from now on. */
void psi_chief_lost(struct psi_client *c, const char *why);

/* ---- claim.c ---- */
/** Write list and meta of a CHIEF request. RESOURCE_EXHAUSTED. */
ps_status psi_chief_build(struct psi_ask *ask, const char *container, const ps_v1_Chief *m) PSI_MUST;
/** Send the claim if it is due. */
void psi_chief_pump(struct psi_client *c);

/* ---- control.c: functions of the rows of kinds.c ---- */
void psi_control_go(struct psi_request *req); /* sends one ask to the task of the request's kind */
/** As psi_control_go(), with an operation of its own. Also called in the callback of another ask of the request. */
void psi_control_ask(struct psi_request *req, uint8_t op, ps_status (*build)(struct psi_ask *ask, struct psi_err *err),
                     psi_ask_fn answer);
void psi_control_told(struct psi_request *req); /* ends the request: it only needed the cluster */
void psi_control_goodbye(struct psi_request *req);
ps_status psi_control_check_reset(const struct psi_request *req, struct psi_err *err) PSI_MUST;
ps_status psi_control_check_name(const struct psi_request *req, struct psi_err *err) PSI_MUST;
ps_status psi_control_check_barrier(const struct psi_request *req, struct psi_err *err) PSI_MUST;
ps_status psi_control_check_jobs(const struct psi_request *req, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_reset(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_delete(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_barrier(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_time(struct psi_ask *ask, struct psi_err *err) PSI_MUST; /* the meta is a Wait; no body */
ps_status psi_control_build_jobs(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_setting(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_may(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_rate(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_ping(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
void psi_control_plain(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
void psi_control_info(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
void psi_control_u64(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
/** Bytes of the body without padding, from the reply's result. False: the answer has another form. */
bool psi_control_body(const struct psi_reply *r, uint64_t *out_bytes) PSI_MUST;
void psi_control_stop(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
void psi_control_job_done(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
/** The directory was restarted: tell it again that this session is done. */
void psi_control_done_again(struct psi_peer *peer);
const char *psi_control_container(const struct psi_request *req);
const char *psi_control_name(const struct psi_request *req);
void psi_control_info_failed(struct psi_request *req);
/** The task did not carry the ask out: repeat the request later, or end it. */
void psi_control_refused(struct psi_ask *ask, const struct psi_reply *r);
/** End the request with INTERNAL: the answer makes no sense. */
void psi_control_not_understood(const struct psi_ask *ask);
/** Decode an answer of one message into m. False: there is no message, and the request was ended if necessary. */
bool psi_control_message(struct psi_ask *ask, const struct psi_reply *r, const pb_msgdesc_t *d, void *m) PSI_MUST;
/* ---- rounds.c: functions of the rows of kinds.c, and what READY, window.c and push.c need ---- */
/** True if rounds and staleness concern the variable: it belongs to the program and has an optimizer. */
bool psi_sync_is_trained(const struct psi_var *var);
/** True if req is a PUSH that is sent as CONTRIBUTE. */
bool psi_sync_contributes(const struct psi_request *req);
/** True if the reply says that a contribution came too late. Also for a contribution of which a part was sent. */
bool psi_sync_was_dropped(uint8_t op, const struct psi_reply *r);
/** Build SYNC for the global step and those of vars that are trained. */
ps_status psi_sync_build(struct psi_ask *ask, struct psi_var *const *vars, uint32_t count, struct psi_err *err) PSI_MUST;
ps_status psi_sync_build_join(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_sync_build_leave(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
void psi_sync_step_go(struct psi_request *req);
bool psi_sync_step_slow(struct psi_request *req);
void psi_sync_joined(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
void psi_sync_left(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
/* ---- call.c and checkpoints: functions of the rows of kinds.c ---- */
ps_status psi_control_range_check(const struct psi_request *req, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_range(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
void psi_control_range(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
ps_status psi_control_build_save(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_events(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_saved_name(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_call_check(const struct psi_request *req, struct psi_err *err) PSI_MUST;
ps_status psi_control_call_build(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
void psi_control_call(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
const char *psi_control_call_name(const struct psi_request *req);
/* ---- parts.c: ENQUEUE, DEQUEUE and CALL, whose bytes may take several frames ---- */
/** Bytes that the request sends in all. */
uint64_t psi_parts_in_bytes(const struct psi_request *req);
/** The first of them go with the ask, from the memory of its caller; the request has no part on its way. */
void psi_parts_begin(struct psi_ask *ask);
/** An ENQUEUE or QUEUE_CLOSE has to wait for the bytes of one that was called before it. */
bool psi_parts_blocked(const struct psi_ask *ask);
/** True if the ask was built for a queue that is gone: its handle may mean another queue now. */
bool psi_parts_lost(const struct psi_ask *ask);
/** The ask's frame is in the send queue. */
void psi_parts_sent(struct psi_ask *ask);
/** Send further bytes of requests, as many as may travel at the same time. */
void psi_parts_put(struct psi_peer *peer);
/** After a disconnect: requests without an answer begin again with their first byte. */
void psi_parts_disconnected(struct psi_peer *peer);
/** The answer's first frame with `here` bytes was taken: fetch the rest. Ends the request when all bytes are here. */
void psi_parts_get(struct psi_ask *ask, uint64_t here);
/** End the request with r, the reply to its ask or to one of its parts. Nothing of it stays at the task or on the way. */
void psi_parts_refused(struct psi_ask *ask, const struct psi_reply *r);
/** End the request because an answer makes no sense. */
void psi_parts_not_understood(struct psi_ask *ask, const char *what);
/* ---- queue.c: functions of the rows of kinds.c ---- */
ps_status psi_queue_check(const struct psi_request *req, struct psi_err *err) PSI_MUST;
void psi_queue_go(struct psi_request *req); /* ENQUEUE, DEQUEUE, QUEUE_CLOSE */
/** Take an OPEN answer for a queue, or for something that should be one. */
ps_status psi_queue_update(const struct psi_peer *peer, struct psi_var *var, const ps_v1_OpenAnswer *a,
                           struct psi_err *err) PSI_MUST;

/* ---- control_list.c ---- */
/** psi_ask_fn of requests whose answer is a list. */
void psi_control_list(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of the client core, shared by its files. Its interface is worker/core/core.h.
 *
 *   psi_client  the table of peers, variables, requests, effects
 *   psi_peer    one task: its connection, its asks and pulls, and its window: the mutations whose outcome is not known yet
 *   psi_entry   one mutation of the window, by sequence number; stays until its outcome is known, also when its request has ended
 *   psi_chunk   one requested PULL frame
 *   psi_ask     one control request (a list and its answers); built once, sent again after a reconnect
 *
 * An event puts each peer that may have something to send into the list psi_client.pumps (it "kicks" the peer).
 * psi_client_next_dirty() then "pumps" the peers in this list: frames are put into their send queues.
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
    /* most mutations of several frames with a frame in a task's send queue; if more were interleaved, each would end later */
    PSI_QUEUED_MULTI_MAX = 2,
    PSI_BATCH_ASKS_MAX = 4,
    PSI_LOGS_MAX = 64,
    PSI_SLOW_MS = 5000,
    PSI_EARLY_MIN_MS = 120,
    PSI_PARTS_PER_REQUEST = 4,            /* parts of an ENQUEUE, DEQUEUE or CALL that are on their way at the same time */
    PSI_PART_BYTES = 3 * PS_SEGMENT_BYTES /* size of a part, which with its CRCs fits in a control frame */
};
/* Limit for large reads (above one segment): the bytes that a connection has requested and not received. 32 MiB take half of the
 * chunks. Small reads have the other half to themselves, so they need not wait for large reads. */
#define PSI_PULL_BYTES_MAX ((uint64_t)PSI_CHUNKS_MAX / 2 * PS_VALUES_FRAME_BYTES)
/* Payload of a PUSHPULL frame, at most 256 KiB: a task returns a frame's new values when it has applied the whole frame. With
 * 1 MiB frames a step of 2.7 MB each way, over a Unix socket on 2 CPUs, was 4 % longer. */
#define PSI_PAIR_FRAME_BYTES ((uint32_t)(PS_VALUES_FRAME_BYTES < 256 << 10 ? PS_VALUES_FRAME_BYTES : 256 << 10))
/* A list of items is sent when it has so many bytes. Another item then still fits into PS_CONTROL_BODY_MAX. */
#define PSI_BATCH_BYTES_MAX (240u << 10)
/* Most bytes of names in a SYNC, the request that makes or finds the group of sessions that train together. */
#define PSI_SYNC_BYTES_MAX ((size_t)64 << 20)

struct psi_peer;
struct psi_ask;
struct psi_reply;
/** Called for each frame of a control request's answer, or with an error that was found here. !reply->more: the last call; then
 * the ask is freed (DEQUEUE, CALL: when the whole answer has come). */
typedef void (*psi_ask_fn)(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *reply);

/* State of the connection to a task. peer.c has the allowed transitions. */
enum psi_peer_state {
    PSI_PEER_IDLE,    /* not connected: no request needs the task, or the session has left it (GOODBYE) */
    PSI_PEER_WAIT,    /* waiting for the time of the next dial */
    PSI_PEER_DIAL,    /* the shell is dialling */
    PSI_PEER_HELLO,   /* HELLO is sent, and not answered */
    PSI_PEER_REOPEN,  /* the task was restarted, or has forgotten keys: OPEN is sent again for variables that were open */
    PSI_PEER_UP,      /* requests are sent and answered */
    PSI_PEER_REFUSED, /* final: another task or cluster answers at the address, or the task refuses the session */
    PSI_PEER_STATES
};

/* Stage of a request. Some stages have a list, which then has the request. Only psi_request_move() changes the stage. */
enum psi_request_stage {
    PSI_STAGE_NONE,    /* not started, or being moved: in no list */
    PSI_STAGE_EARLY,   /* in client.early until the session knows the tasks of the cluster */
    PSI_STAGE_WAITING, /* var->waiting */
    /* is var->current, the variable's next request, and in a ready list of its peer; a read may have requested some chunks */
    PSI_STAGE_TURN,
    /* is var->current, a mutation with a sequence number (req->entry is its psi_entry), whose frames are not all queued yet */
    PSI_STAGE_SENDING,
    /* a mutation whose frames are all queued, or that is sent again after a reconnect */
    PSI_STAGE_WINDOW,
    PSI_STAGE_PULLING, /* all chunks of the read are requested, and some have not come */
    /* in client.delayed until again_ms: a task refused the request because of load, or because something was not ready */
    PSI_STAGE_DELAYED,
    PSI_STAGE_GETTING,   /* in var->getters */
    PSI_STAGE_ASKED,     /* its asks (struct psi_ask: control requests) are queued or sent */
    PSI_STAGE_COMPOSITE, /* READY, WAIT_READY, STATUS: made of requests to several tasks; req->ready is set */
    PSI_STAGE_DONE,      /* ended, in client.done; a request that READY made (PSI_REQUEST_INNER) is in no list */
    PSI_STAGES
};
/* psi_request.flags */
enum {
    PSI_REQUEST_SLOW_LOGGED = 1,
    PSI_REQUEST_PUSHED = 2, /* PUSH_PULL, PUSH_PULL_ROWS: the push is applied, and missing values are asked for */
    PSI_REQUEST_SENT = 4,   /* RESET, CALL and others that must not run twice: the task may have carried the request out */
    PSI_REQUEST_INNER = 8,  /* made by a READY: done() is called as soon as the request ends, not at the end of the event */
    /* the outcome of the request is known, but its deadline came while a frame of it was half sent: the request ends when the
     * connection is closed */
    PSI_REQUEST_OVER = 16,
    PSI_REQUEST_TARGET = 32, /* a connection receives values into req->dst: psi_peer.target of that peer is this request */
    PSI_REQUEST_CUT = 64     /* the request was interrupted: if it fails from now on, it fails with CANCELLED */
};

/* The task to which a kind of request is sent. */
enum psi_kind_to {
    PSI_TO_NOBODY, /* no task: the session answers itself, or asks several tasks */
    PSI_TO_OWNER,  /* the owner of the request's variable; the directory while the owner is unknown */
    PSI_TO_DIRECTORY,
    PSI_TO_TASK
};
/* Properties of a kind of request (psi_kind.is). */
enum {
    PSI_KIND_DATA = 1, /* works on a variable's value at its owner; requests for a variable run in the order of their start */
    PSI_KIND_READ = 2, /* DATA: reads only, and has no sequence number */
    PSI_KIND_SRC = 4,
    PSI_KIND_DST = 8,
    PSI_KIND_SCALE = 16,    /* DATA: scale is finite and above 0 */
    PSI_KIND_SIGN = 32,     /* DATA: scale is 1 or -1, and the variable is numeric */
    PSI_KIND_WIRE = 64,     /* DATA: values in frames have dtype psi_var.wire, not psi_var.dtype */
    PSI_KIND_STRINGS = 128, /* DATA: string variables are allowed */
    PSI_KIND_NO_VALUE = 256,
    PSI_KIND_OTHERS = 512, /* the directory (the first ps task) answers only after other tasks have; its error texts name them */
    /* the caller only wants to know a state: the request fails when its task has been unreachable for a while */
    PSI_KIND_LOOKS = 1024,
    PSI_KIND_STAYS = 2048, /* starts before the cluster is known, and does not end when a task refuses the session */
    PSI_KIND_ROWS = 8192,  /* DATA: concerns rows of a variable; req->src is a struct psi_rows */
    PSI_KIND_DISK = 4096   /* RESOURCE_EXHAUSTED means a full disk: the request is not repeated, as waiting frees no disk space */
};
/* A row of the table of requests (kinds.c). */
struct psi_kind {
    const char *name;                    /* name in messages */
    uint8_t op;                          /* enum ps_op of the frame; 0: the request has no operation, or several */
    uint8_t to;                          /* enum psi_kind_to */
    uint16_t is;                         /* PSI_KIND_* */
    void (*go)(struct psi_request *req); /* starts the request, also after a delay */
    ps_status (*check)(const struct psi_request *req, struct psi_err *err); /* checks what `is` does not say; NULL: no check */
    ps_status (*build)(struct psi_ask *ask, struct psi_err *err); /* writes list and meta of the ask; NULL: both empty */
    psi_ask_fn answer;                                            /* takes the ask's answer; NULL: there is no ask */
    const char *(*subject)(const struct psi_request *req);        /* name in messages; NULL: the variable's name */
    void (*failed)(struct psi_request *req);                      /* on failure, fills the caller's struct; NULL: there is none */
    void (*expire)(struct psi_request *req); /* handles the deadline of a request in PSI_STAGE_COMPOSITE; else NULL */
    /* logs the long wait of req in its own line. False, or no such function (NULL): psi_slow_tell() logs the wait */
    bool (*slow)(struct psi_request *req);
};
extern const struct psi_kind psi_kinds[PSI_REQ_KINDS];

/* How far the session has come in getting or creating a variable; variable.c has the allowed transitions. */
enum psi_var_step {
    PSI_VAR_NEW,      /* no get-or-create is under way */
    PSI_VAR_CREATE,   /* in client.want_create until a CREATE or FIND is sent to the directory */
    PSI_VAR_CREATING, /* a CREATE or FIND was sent, and has no answer yet */
    PSI_VAR_OPEN,     /* in its owner peer's want_open until an OPEN is sent to the owner */
    PSI_VAR_OPENING,  /* an OPEN was sent, and has no answer yet */
    PSI_VAR_DELAYED,  /* to be tried again later; in client.vars_delayed */
    PSI_VAR_STEPS
};

/* What this session knows about the chief, the session whose lease lets it initialise the model; transitions: chief.c. */
enum psi_chief_state {
    PSI_CHIEF_NONE,    /* this session has not needed the chief yet; always with PSI_CHIEF_STATIC */
    PSI_CHIEF_ASKING,  /* the directory is being asked */
    PSI_CHIEF_WAITING, /* another session is or may be chief; this session claims the lease at until_ms */
    PSI_CHIEF_HELD,    /* this session is chief, as far as it knows */
    PSI_CHIEF_NEVER,   /* this session cannot be chief: it is an evaluator, was refused for good, or is ending */
    PSI_CHIEF_STATES
};
struct psi_chief {
    enum psi_chief_state state;
    char container[PS_CONTAINER_BYTES_MAX + 1];
    /* number of a chief; each grant of the lease gives a higher number. HELD: this session's. ASKING: this session's last. With
     * PSI_CHIEF_STATIC: the number of the last READY. 0: none */
    uint64_t number;
    uint64_t seen;     /* highest number of a chief that a task has reported */
    bool asked;        /* a claim was sent and is not answered */
    bool renew;        /* the claim asks for a higher number: owners refuse `number`, or this session had it before a recovery */
    uint64_t until_ms; /* time of the next claim; UINT64_MAX: not set */
    /* session that holds the lease, as last reported; "": none */
    char holder[sizeof(((ps_v1_ChiefAnswer *)0)->holder.bytes) + 1];
    char why[PSI_ERR_TEXT_MAX]; /* ASKING: why the directory has not granted the lease yet */
    uint64_t told;              /* highest number that any session has had as chief, from the answer to the last beat */
    bool readied;
    uint64_t ready; /* number of the connected chief that has made the model ready, from the answer to the last beat; 0: none */
};

/* A mutation with a sequence number, which may still be sent or answered: an entry of its peer's window. */
struct psi_entry {
    struct psi_out out; /* frame that is being sent */
    uint64_t number;    /* 0: this entry is free */
    struct psi_peer *peer;
    struct psi_request *req; /* NULL: the request has ended, and the number's outcome is still to come */
    struct psi_var *var;
    /* total, next and frame_first count elements; for strings, bytes of the blob; for operations on rows, rows */
    uint64_t total;
    uint64_t next;         /* first element of which no frame is queued yet */
    uint64_t frame_first;  /* first element of the frame in `out` */
    uint64_t chief_number; /* INIT, ASSIGN: number of the chief that gives the value; 0: none */
    uint64_t creation;
    uint32_t handle; /* handle of the variable in the process of the task to which the mutation was last sent */
    ps_dtype wire;
    uint32_t unit;   /* bytes of an element in frames; for rows: bytes of a row with its index */
    uint64_t member; /* CONTRIBUTE: id of this session as a member of rounds; `round`: the round to which the gradient belongs */
    uint64_t round;
    uint64_t step; /* pushes: psi_client.step when the push got its number; a push that is sent again keeps this step */
    uint8_t op;
    bool multi;        /* the mutation has several frames */
    bool queued;       /* `out` is in the send queue */
    bool begun;        /* the task may have bytes of the mutation; false again when the task has reported that it has none */
    bool unsent;       /* to be sent again after a reconnect, and not queued yet */
    bool ending;       /* the outcome is known and stored in req; req ends when the frame in `out` has left the send queue */
    bool repeat;       /* with `ending`: the task refused the mutation because of load; req is repeated, and does not end */
    uint64_t exchange; /* id of the traced exchange (psi_exchange_begin()); 0: not traced */
};

/* A requested PULL frame. */
struct psi_chunk {
    struct psi_list link; /* in chunk_free, chunk_out or chunk_again of the peer */
    uint64_t number;
    struct psi_request *req; /* NULL: no request waits for the values */
    struct psi_var *var;
    uint32_t slot; /* which array is read: 0: the value; n: the optimizer's state array n - 1 */
    ps_dtype wire;
    uint64_t first;
    uint8_t op;        /* PS_OP_PULL or PS_OP_GATHER */
    uint32_t elements; /* number of elements (GATHER: rows) that the frame asks for; 0: an empty value, or all strings */
    uint32_t covers;   /* number of elements (GATHER: rows) that count as read when the chunk has come; 1 for an empty value */
    uint64_t bytes;    /* bytes of payload; for strings the maximum */
    /* bytes that the chunk counts for in psi_peer.pull_bytes. Small reads: 0. Large reads: `bytes`, at least
     * PS_VALUES_FRAME_BYTES, so that they take at most half of the chunks */
    uint64_t charge;
    uint64_t exchange; /* id of the traced exchange (psi_exchange_begin()); 0: not traced */
};

/* An answer to a control request: from a task, or made here because no task can answer. */
struct psi_reply {
    ps_status status;
    ps_applied applied;
    ps_reason reason; /* more exact than status; 0: the status says enough */
    uint32_t retry_after_ms;
    uint64_t position, durable, version;
    uint32_t result_bytes;
    uint8_t result[PS_RESULT_BYTES_MAX];
    const char *text;
    const uint8_t *body; /* [body_bytes] payload of this frame */
    size_t body_bytes;
    bool more; /* further frames of this answer follow */
};

struct psi_ask {
    struct psi_list link; /* link in the peer's asks, oldest first */
    struct psi_peer *peer;
    struct psi_request *req; /* NULL: the ask is for the variables in `vars`, or for the session (addresses, the chief's lease) */
    psi_ask_fn fn;
    uint64_t number; /* request number; 0: not sent yet */
    uint8_t op;
    bool sent;  /* sent on the present connection */
    bool tried; /* sent on some connection */
    /* the task may answer late: after a reconnect the ask is sent again with its number, and an ACK acknowledges the answer */
    bool waits;
    bool once;    /* carrying the request out twice would do harm: the ask ends as outcome unknown if that could happen */
    bool handles; /* the ask names handles, which a restarted task does not know */
    bool reopen;
    bool takes;   /* DEQUEUE: the elements are the program's after the ACK; if the ask is given up, they return to the queue */
    bool fetches; /* the answer may take several frames: psi_ask_taken() ends the ask */
    bool parts;   /* the ask is answered, and parts of the answer are being fetched, so it is not sent again */
    bool partial; /* `answer` lacks a frame: there was no memory, or the frame was not needed */
    uint16_t meta_bytes;
    uint32_t handle;
    uint64_t offset;               /* GET_PART: offset in bytes */
    uint64_t time_ms;              /* time from which the timeout in `meta` counts */
    _Alignas(8) uint8_t meta[192]; /* the longest is PING's: a Beat with two names of containers */
    struct psi_buf body;           /* payload: a list of items, which may take several frames */
    /* memory of the caller that is sent in place of body, and kept until the request has ended; NULL: body is sent */
    const uint8_t *lent;
    size_t lent_bytes;
    struct psi_out out;    /* frame of which a large `lent` is sent straight from the caller's memory */
    bool queued;           /* `out` is in the send queue */
    struct psi_buf answer; /* for the use of fn() */
    struct psi_var **vars; /* the variables of the list's items, in order; entry NULL: no variable, or the item is answered */
    uint32_t var_count;
    uint64_t exchange; /* id of the traced exchange (psi_exchange_begin()); 0: not traced */
};

struct psi_peer {
    struct psi_client *c;
    uint32_t index;
    bool named;
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    char name[PSI_TASK_NAME_MAX];
    char address[PS_ADDRESS_BYTES_MAX + 1];

    enum psi_peer_state state;
    struct psi_link *link; /* states HELLO, REOPEN, UP */
    bool dial_effect;      /* the shell must be told to dial */
    uint64_t next_dial_ms;
    uint64_t failing_since_ms; /* time of the first failure since the peer was last UP; 0: there was none */
    uint32_t backoff_ms;
    uint64_t connection;  /* number of the last connection */
    bool any_port;        /* the cluster spec gives the task port 0: only the directory knows the task's real address */
    uint64_t told_life;   /* any_port: number of the task's process that listens at `address`; 0: the address is not known */
    uint64_t slept;       /* number of the last connection during which this process stood still for a lease or longer */
    uint64_t record;      /* number of the task's record of this session at the last HELLO that told outcomes of mutations */
    uint64_t record_next; /* record number in the last answer to HELLO; if not `record`, the task has forgotten this session */
    uint64_t life;
    uint32_t lease_ms, beat_ms;
    uint64_t heard_ms, beat_sent_ms, sent_seen;
    bool sent_blocked; /* at the last tick, bytes were left that the kernel had not accepted */
    uint64_t bad_logged_ms;
    bool crc;                          /* segments that are sent on this connection carry CRCs */
    uint64_t features;                 /* PS_FEATURE_* that both sides have, from the last HELLO */
    char last_error[PSI_ERR_TEXT_MAX]; /* why the peer is not UP */
    bool key_refused;                  /* the task refused this session's key or certificate at the last dial */
    /* time when the task first refused this session, because another process is this session's task (CONFLICT); 0: not refused */
    uint64_t kept_out_ms;
    /* number in the directory's last answer to a beat on this connection (BeatAnswer.challenge); beats repeat it; 0: none */
    uint64_t challenge;
    ps_status refused; /* REFUSED: status and reason of the refusal */
    ps_reason refused_reason;
    /* number of lost variables of the task that are not logged yet; lost_var, lost_why: name and reason of one of them */
    uint32_t lost_count;
    char lost_var[PS_NAME_BYTES_MAX + 1], lost_why[PSI_ERR_TEXT_MAX];
    uint64_t lost_again_ms; /* earliest time of the next log line about lost variables */
    bool leaving;           /* GOODBYE was requested: the task is not dialled again */
    bool doomed;            /* psi_peer_fail() was called: the connection must be closed and dialled again */
    char doom[200];
    struct psi_list pump; /* in client.pumps */

    struct psi_entry *ring; /* [PS_WINDOW]; sequence number n has the entry n % PS_WINDOW; NULL before the first mutation */
    uint64_t first, next;   /* sequence numbers whose outcome is not known yet lie in [first, next) */
    uint64_t resume_at;     /* lowest number that may still have to be sent again (psi_entry.unsent) */
    uint32_t multi;         /* number of mutations in the ring that take several frames */
    uint32_t queued_multi;  /* number of mutations of several frames that have a frame in the send queue */
    uint32_t queued_bytes;  /* payload bytes in the send queue that belong to mutations of one frame */
    /* requests that may be sent now: mutations of one frame, of several frames; reads of at most one segment, longer reads */
    struct psi_list ready_single, ready_multi, ready_small_read, ready_read;

    struct psi_list asks;
    bool putting; /* an ENQUEUE or CALL may have input left to send, in PUT_PART frames */
    uint64_t next_request;
    /* ring of the last acknowledged request numbers, at most PS_WAITS_PER_SESSION_MAX. Their ACKs may be lost with the
     * connection, and are then sent again. GIVEN_UP (ask.c) marks requests that were given up */
    uint64_t *acks;
    uint32_t ack_count;
    size_t ack_capacity;
    struct psi_list want_open; /* variables */
    uint32_t open_asks, reopen_asks;

    struct psi_chunk *chunks; /* [PSI_CHUNKS_MAX]; NULL before the first pull */
    struct psi_list chunk_free, chunk_out, chunk_again;
    uint64_t pull_bytes; /* sum of psi_chunk.charge in chunk_out; at most about PSI_PULL_BYTES_MAX */

    /* fields about the frame that is being received */
    uint8_t *buffer; /* a segment that has not come completely */
    struct psi_reply reply;
    char reply_text[PSI_ERR_TEXT_MAX];
    struct psi_buf body;  /* payload of a control frame */
    struct psi_buf hello; /* payload of all frames of HELLO's answer */
    enum { PSI_SINK_NONE, PSI_SINK_BODY, PSI_SINK_CHUNK, PSI_SINK_VALUE } sink;
    struct psi_chunk *sink_chunk;
    uint64_t sink_number;           /* VALUE: sequence number of the push whose new values come */
    uint64_t sink_first;            /* VALUE: first element */
    uint64_t sink_bytes, sink_done; /* bytes of values, without padding */
    struct psi_request *target;     /* the request into whose dst the reader writes; NULL: none */
    struct ps_pull_reply_meta sink_meta;
};

enum { PSI_RATES_TOLD_MAX = 8 };
/* What is known of the addresses of tasks whose port the cluster spec leaves open (psi_peer.any_port). */
struct psi_addresses {
    uint64_t version; /* version of the known addresses, as counted by the directory */
    uint64_t newest;  /* while an answer is coming: highest version in its frames so far */
    bool wanted;      /* ask the directory for newer addresses as soon as the directory is UP */
    bool asked;       /* an ask for addresses is queued or sent, and not answered */
};

struct psi_client {
    const struct psi_kind *kinds; /* the rows of psi_kinds */
    char target[PS_ADDRESS_BYTES_MAX + 1];
    char cluster_name[PS_JOB_BYTES_MAX + 1];
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    char container[PS_CONTAINER_BYTES_MAX + 1]; /* default container of the session; "": PSI_CONTAINER_DEFAULT */
    char host[65], program[65];
    uint32_t pid;
    int64_t operation_timeout_ms, ready_timeout_ms, start_timeout_ms;
    struct psi_reach *reach; /* times of the first dial of each task; owned by the caller; NULL: not recorded */
    uint64_t seed;
    bool fail_fast;
    const char *(*uri)(void *shell);                    /* psi_client_config.uri */
    bool (*refused)(void *shell);                       /* psi_client_config.refused */
    void (*said)(void *said_ctx, char *text, size_t n); /* psi_client_config.said */
    void *said_ctx;
    ps_dtype wire_dtype;
    struct psi_out_scratch scratch; /* shared by all connections */

    uint8_t session_id[16];
    char own_container[PSI_SESSION_CONTAINER_BYTES];
    uint8_t own_key[PSI_KEY_BYTES];
    uint64_t random;
    uint64_t now_ms;
    uint64_t now_ns; /* time of the present event; set while exchanges are traced */
    /* where exchanges (requests with their answers) are timed; owned by the caller; NULL: exchanges are not timed */
    struct psi_exchanges *trace;
    uint32_t trace_number;
    uint64_t next_link;

    struct psi_cluster cluster;
    bool known; /* the cluster is known */
    uint64_t cluster_hash;
    struct psi_peer **peers;
    uint32_t peer_count;
    uint32_t directory; /* index in `peers` of the directory, the first ps task */
    struct psi_placement placement;
    struct psi_addresses addresses;
    bool chief_connected; /* the directory's answer to the last beat said that a chief is connected */
    enum psi_chief_mode chief_mode;
    struct psi_chief chief;
    bool stop_asked; /* a beat has asked this session to stop */
    /* job_done: the directory has reported that the job is done; done_said: this session has sent JOB_DONE */
    bool job_done, done_said;
    uint64_t step;                            /* 1 + last known global step; 0: unknown */
    char step_of[PS_CONTAINER_BYTES_MAX + 1]; /* container of the variable global_step; "": unknown */
    uint32_t found, found_total;
    struct {
        /* learning rates that were logged (note_rate()): `rate` is in force, `own` is what this program asked for */
        double rate, own;
    } told_rate[PSI_RATES_TOLD_MAX];
    uint32_t rates_told;      /* number of entries in told_rate */
    struct psi_sync sync;     /* options of the last READY */
    struct psi_member member; /* this session's membership of the training that `sync` describes */

    struct psi_list dirty; /* links */
    struct psi_list pumps; /* peers */
    uint32_t dial_count;   /* peers with dial_effect */
    struct psi_list done;  /* requests */
    struct psi_list all;   /* requests that are not done */
    uint32_t pending;
    bool overdue;               /* scan() must run: a request ends when its connection is closed (PSI_REQUEST_OVER) */
    uint64_t scan_ms;           /* time when scan() must run next: earliest deadline or log line */
    uint64_t slow_ms;           /* earliest time of the next log line about long waits */
    bool lost_untold;           /* a task has lost variables, which are not logged yet (psi_peer.lost_count) */
    ps_reason cut_reason;       /* reason of interrupted requests (PSI_REQUEST_CUT) */
    const char *cut_why;        /* first words of the error texts of interrupted requests */
    struct psi_list early;      /* requests that wait until the cluster is known */
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
    struct psi_err *delivered; /* error of the request that psi_client_next_done() last returned */
    struct psi_err no_memory;
};

/* ---- keys.c ---- */
/** Write the key of a container named session/... into a message's field `key`; nothing if this session does not have the key. */
void psi_client_give_key(const struct psi_client *c, const char *container, pb_bytes_array_t *key);
#define PSI_GIVE_KEY(c_, container_, m_) psi_client_give_key(c_, container_, (pb_bytes_array_t *)(void *)&(m_)->key)
/** Write the variable's own key into the message's field `key`; if the variable has none, the key of its container. */
void psi_var_give_key(const struct psi_client *c, const struct psi_var *var, pb_bytes_array_t *key);
#define PSI_GIVE_VAR_KEY(c_, var_, m_) psi_var_give_key(c_, var_, (pb_bytes_array_t *)(void *)&(m_)->key)

/* ---- base.c ---- */
void psi_client_dirty(struct psi_client *c, struct psi_link *link);
void psi_client_kick(struct psi_peer *peer);
void psi_client_log_fields(struct psi_client *c, enum psi_log_level level, const char *event, const struct psi_kv *kv,
                           size_t count);
#define psi_client_log(c_, level_, event_, ...) psi_client_log_fields(c_, level_, event_, PSI_KVS(__VA_ARGS__))
/* ---- request.c: a request from start to end; errors and tasks by name are in base.c, psi_client_learn() is in table.c ---- */
/** End the request with this status. format: as for printf; NULL with PS_OK. */
void psi_request_end(struct psi_request *req, ps_status st, ps_applied applied, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/** psi_request_end() with a reason, found here or by a task; reason 0: the status says enough. */
void psi_request_end_as(struct psi_request *req, ps_status st, ps_reason reason, ps_applied applied, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/** End a request whose result is set already: status, applied and err. */
void psi_request_ended(struct psi_request *req);
/** Make an error block with a printf text. Never NULL. Freed with psi_client_err_free(). */
struct psi_err *psi_client_verr(struct psi_client *c, ps_status st, ps_reason reason, ps_applied applied, const char *format,
                                va_list ap) __attribute__((format(printf, 5, 0)));
struct psi_err *psi_client_err(struct psi_client *c, ps_status st, ps_reason reason, ps_applied applied, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void psi_client_err_free(struct psi_client *c, struct psi_err *e);
/** Keep a task's refusal in req->why, which becomes part of the error text at the deadline. st PS_OK: forget the last refusal. */
void psi_request_refused(struct psi_request *req, ps_status st, ps_reason reason, const char *text);
/** Delay the request by retry_ms or more, longer after each try (req->tries), at most by about a minute. req leaves its list. */
void psi_request_delay(struct psi_request *req, uint32_t retry_ms);
/** Move the request to another stage, and to the list of that stage. request.c has the allowed transitions. */
void psi_request_move(struct psi_request *req, enum psi_request_stage to);
/** Start the request, the first time or again. Call only when the cluster is known and no frame of the request is on its way. */
void psi_request_go(struct psi_request *req);
/** Let req wait until it is var->current, and get the variable if this session does not have it. */
void psi_var_queue(struct psi_request *req);
void psi_var_next(struct psi_var *var); /* start the next request of the variable, unless it has a current one */
/** Move req, which is no longer var->current, to stage `to`, and start the variable's next request. */
void psi_var_yield(struct psi_request *req, enum psi_request_stage to);
/** Take req out of all lists of its variable, drop its chunks, and move it to PSI_STAGE_NONE. The variable's next request may
 * start. */
void psi_var_release(struct psi_request *req);
/** Send the requests in the peer's ready lists, as far as its window and chunks allow. */
void psi_request_turns(struct psi_peer *peer);
/** The task for which the request waits now; NULL: none or several. */
struct psi_peer *psi_request_peer(const struct psi_request *req);
bool psi_reply_repeatable(const struct psi_reply *r);
/** Check a request for values of variable v: pointers, size, part and scale. k: table row of the request's kind. */
ps_status psi_request_check_values(const struct psi_request *req, const struct psi_kind *k, const struct psi_operand *v,
                                   struct psi_err *err) PSI_MUST;
/** Check a request before its start: kind, variable, task, memory and scale. */
ps_status psi_request_check(struct psi_client *c, const struct psi_request *req, struct psi_err *err) PSI_MUST;
/** True if the whole value is one segment, so that readers never see a part of a mutation. The variable's dtype decides, because
 * other sessions may read or push it as bfloat16, in fewer bytes. */
static inline bool psi_var_is_one_segment(const struct psi_var *v)
{
    return v->dtype == PS_STRING || v->elements * ps_dtype_bytes(v->dtype) <= PS_SEGMENT_BYTES;
}
/** Number of elements of the value (slot 0), or of a state array that the optimizer keeps for it (slots from 1 on). */
static inline uint64_t psi_var_elements(const struct psi_var *v, uint32_t slot)
{
    const struct psi_slot *row = slot == 0 ? NULL : psi_optimizer_slot(&v->optimizer, slot - 1);
    const ps_shape shape = row == NULL ? v->shape : psi_slot_shape(row, &v->shape);
    return row == NULL ? v->elements : (uint64_t)ps_shape_elements(&shape);
}
/** Name of the program's call, for error texts: "push", "assign_sub". */
const char *psi_request_name(const struct psi_request *req);
static inline const struct psi_kind *psi_kind_of(const struct psi_request *req)
{
    return &req->owner->kinds[req->kind];
}
/** True if the request has a sequence number; `entry` is its entry then. */
static inline bool psi_request_numbered(const struct psi_request *req)
{
    return req->stage == PSI_STAGE_SENDING || req->stage == PSI_STAGE_WINDOW;
}
/** True if the request is reading now: a PULL, or a PUSH_PULL, also of rows, that asks for missing values. */
static inline bool psi_request_reads(const struct psi_request *req)
{
    return (req->owner->kinds[req->kind].is & PSI_KIND_READ) != 0 || (req->flags & PSI_REQUEST_PUSHED) != 0;
}
/** How much of a request without a sequence number is applied. Of a PUSH_PULL that reads now, the push is applied. */
static inline ps_applied psi_request_applied(const struct psi_request *req)
{
    return (req->flags & PSI_REQUEST_PUSHED) != 0 ? PS_MAYBE_PARTLY_APPLIED : PS_NOTHING_APPLIED;
}
/** How much a request sends or reads: number of elements; of strings: bytes of the blob; of rows: number of rows. */
uint64_t psi_request_total(const struct psi_request *req);
/** Bytes of one element in frames; of rows: bytes of a row with its index. */
uint32_t psi_request_unit(const struct psi_request *req);
uint32_t psi_request_frame_bytes(const struct psi_request *req);
bool psi_request_is_multi(const struct psi_request *req);
ps_dtype psi_request_wire(const struct psi_request *req);
static inline bool psi_request_is(const struct psi_request *req, uint32_t is)
{
    return (psi_kind_of(req)->is & is) != 0;
}
static inline uint64_t psi_request_bytes(const struct psi_request *req, uint64_t total, uint32_t unit)
{
    return psi_request_is(req, PSI_KIND_ROWS) ? psi_rows_payload(total, unit) : total * unit;
}
/** Make the table of tasks from the cluster's spec. target: the peer that sent the spec and becomes its task's peer, or NULL. */
ps_status psi_client_learn(struct psi_client *c, const struct psi_cluster *cluster, struct psi_peer *target,
                           struct psi_err *err) PSI_MUST;
/** Index of this task in the table of tasks; UINT32_MAX: the cluster has no such task. */
uint32_t psi_client_find_task(const struct psi_client *c, const char *job, uint32_t task);
struct psi_peer *psi_client_directory(struct psi_client *c);
/** Set the fields that the core keeps in a request, which starts now. */
void psi_request_prepare(struct psi_client *c, struct psi_request *req);
/** Name of the variable or container of the request; NULL: none. */
const char *psi_request_subject(const struct psi_request *req);

/* ---- deadline.c: requests that end without an answer; psi_time_to_give(): request.c ---- */
void psi_request_expire(struct psi_request *req);
/** Log the long wait of a request whose kind has its own log line (psi_kind.slow). False: psi_slow_tell() must log the wait. */
bool psi_request_slow_itself(struct psi_request *req);
/** Write one log line for `count` requests of req's kind and task; the oldest of them began at oldest_ms. */
void psi_request_slow(const struct psi_request *req, uint32_t count, uint64_t oldest_ms);
/** Timeout in ms to send with a request. It is shorter than the time left until deadline_ms, so that the task's answer, which
 * says who is missing, comes in time: by a tenth, but at least PSI_EARLY_MIN_MS, at most 250 ms, and at most a half. */
uint64_t psi_time_to_give(const struct psi_client *c, uint64_t deadline_ms);
/** Call when a task has refused this session for good (REFUSED): ends its requests, except those of PSI_KIND_STAYS. */
void psi_request_fail_peer(struct psi_peer *peer);
/** Call when a dial or a HELLO has failed. If the task has been unreachable for a while, requests of PSI_KIND_LOOKS for it end.
 * With fail_fast all requests for the task end, except those of PSI_KIND_STAYS. Otherwise they wait for the task. */
void psi_request_unreachable(struct psi_peer *peer);

/* ---- slow.c: one log line for many requests that wait for long ---- */
/** Time at which a log line about req's long wait is due; UINT64_MAX: the line was written. */
uint64_t psi_slow_due(const struct psi_request *req);
/** Write the log lines that are due, one for each task and kind of request. No further line is due before c->slow_ms. */
void psi_slow_tell(struct psi_client *c);

/* ---- lost.c: one log line for many variables that are lost ---- */
/** Record that a variable is lost: psi_lost_tell() logs it, together with others of its task. why is copied. */
void psi_lost_note(struct psi_client *c, const struct psi_var *var, const char *why);
/** Called at the end of an event: write one line for each task that has lost variables, at most once a second. */
void psi_lost_tell(struct psi_client *c);

/* ---- peer.c: one task, and frames to it; psi_client_unreached_tick() is in unreached.c ---- */
struct psi_peer *psi_peer_new(struct psi_client *c, const char *address);
void psi_peer_name(struct psi_peer *peer, const char *job, uint32_t task);
/** Free the peer; its connection must be gone. */
void psi_peer_free(struct psi_peer *peer);
void psi_peer_move(struct psi_peer *peer, enum psi_peer_state to);
/** Call when a request needs the task: dials it if it is IDLE and the session has not left it, and keeps it connected. */
void psi_peer_want(struct psi_peer *peer);
void psi_peer_dial(struct psi_peer *peer);
/** Cancel a dial, or the wait for the next one. The task is not dialled before the next psi_peer_want(). */
void psi_peer_undial(struct psi_peer *peer);
/** Never dial the task again. A connection stays, for GOODBYE. */
void psi_peer_leave(struct psi_peer *peer);
/** Close the connection at the end of the event, before anything else is sent. After several calls the first reason counts. */
void psi_peer_fail(struct psi_peer *peer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Write "/job:ps/task:0 (127.0.0.1:2222)" into dst; n >= PSI_WHERE_MAX. Returns dst. */
#define PSI_WHERE_MAX (PSI_TASK_NAME_MAX + PS_ADDRESS_BYTES_MAX + 4)
const char *psi_peer_where(const struct psi_peer *peer, char *dst, size_t n);
/** True in every state but IDLE and UP: the session needs the task, and cannot use it now. */
bool psi_peer_down(const struct psi_peer *peer);
/** Why the task cannot answer now, for example "connection refused"; "" unless psi_peer_down(). */
const char *psi_peer_obstacle(const struct psi_peer *peer);
/** psi_peer_unreached(): true if the task was dialled and never connected (client.reach). psi_peer_wanted_ms(): time of its first
 * dial; UINT64_MAX for other tasks. psi_peer_reached(): call when the task is connected. */
bool psi_peer_unreached(const struct psi_peer *peer);
uint64_t psi_peer_wanted_ms(const struct psi_peer *peer);
void psi_peer_reached(struct psi_peer *peer);
/** True if a task was dialled and never connected, and the start timeout since the first dial is over, or nearly (slack_ms()). */
bool psi_client_overdue(const struct psi_client *c);
/** Log from time to time which tasks were never connected. After the start timeout, end the requests for these tasks. */
void psi_client_unreached_tick(struct psi_client *c);
struct ps_frame_header psi_frame_header(uint8_t op, uint64_t id);
/** Queue a frame with a copy of meta and body. Without memory the connection fails. */
void psi_peer_send(struct psi_peer *peer, const struct ps_frame_header *h, const void *meta, const void *body, uint32_t bytes);
/** As psi_peer_send(), but the frame waits for the next frame or beat, and is sent with it. False: the connection fails. */
bool psi_peer_send_later(struct psi_peer *peer, const struct ps_frame_header *h, const void *meta, const void *body,
                         uint32_t bytes);
void psi_chunk_drop(struct psi_peer *peer, struct psi_chunk *k);
/** Stop receiving into req->dst, to which nothing is written afterwards. */
void psi_target_release(struct psi_request *req);
/** Stop receiving into the memory of this peer's target request; the rest of the frame is read and dropped. */
void psi_target_stop(struct psi_peer *peer);

/* ---- connection.c ---- */
struct psi_link *psi_peer_dialed(struct psi_peer *peer, void *shell, bool crc, const char *why);
/** Call when the connection is gone, or must be closed (`close`). The peer waits until its next dial. Each request then ends, or
 * is sent again later. */
void psi_peer_lost(struct psi_peer *peer, bool close, const char *format, ...) __attribute__((format(printf, 3, 4)));
/** Call in place of a dial when the peer's address is not known: ask the directory, and wait for the next dial. */
void psi_peer_unlisted(struct psi_peer *peer);
void psi_peer_tick(struct psi_peer *peer);
void psi_peer_pump(struct psi_peer *peer);
void psi_peer_hello(struct psi_peer *peer);
/** Call when the session ends: drops everything that is being sent or received, and frees the peer. */
void psi_peer_end(struct psi_peer *peer);

/* ---- receive.c; psi_list_strip(): base.c ---- */
void psi_peer_bytes(struct psi_peer *peer, const uint8_t *p, size_t n);
/** Length of a list of n bytes without the zeros that pad it after its last item; n if an item does not fit. */
size_t psi_list_strip(const uint8_t *p, size_t n);

/* ---- window.c ---- */
ps_status psi_window_prepare(struct psi_peer *peer) PSI_MUST;
/** True if another mutation may be sent: a sequence number is free, and the send queue has room. The room is limited, so that a
 * read does not wait until all mutations are sent. */
bool psi_window_room(const struct psi_peer *peer, bool multi);
struct psi_entry *psi_window_find(const struct psi_peer *peer, uint64_t number);
/** Give req the next sequence number and send it. */
void psi_window_admit(struct psi_peer *peer, struct psi_request *req);
void psi_window_reply(struct psi_peer *peer, uint64_t number, uint8_t op, const struct psi_reply *r);
/** End a request in the window whose deadline has come. If a frame of it is half sent, the connection fails. If its outcome is
 * known then, the request ends only with the connection (PSI_REQUEST_OVER). */
void psi_window_expire(struct psi_request *req);
/** Take the frames of all entries out of the send queue of a broken connection. Ends the requests whose outcome is known. */
void psi_window_detach(struct psi_peer *peer);
/** Take the outcomes of mutations from the list p [n] of `count` numbers in HELLO's answer. False: the list is invalid. */
bool psi_window_settle(struct psi_peer *peer, const uint8_t *p, size_t n, uint32_t count, struct psi_err *err);
/** After a reconnect: queue the mutations that have no outcome again, in the order of their numbers. True: all are queued. False:
 * an earlier mutation of a variable is being sent: call again later; or the connection fails. */
bool psi_window_resume(struct psi_peer *peer);
/** End var's mutations at this peer with ABORTED and this reason: outcome unknown if a byte may have been sent, else nothing
 * applied. Call when the task was restarted, has forgotten this session, or refuses this session. */
void psi_window_lose(struct psi_peer *peer, struct psi_var *var, ps_reason reason, const char *why);
/** Call when e->out enters (in) or leaves the send queue: updates queued_multi and queued_bytes of the peer. */
void psi_entry_in_queue(struct psi_entry *e, bool in);
/** Call when e->out has left the queue: queues the next frame of e, or ends the request if its outcome is known. */
void psi_entry_unqueued(struct psi_entry *e);

/* ---- push.c ---- */
static inline bool psi_op_contributes(uint8_t op)
{
    return op == PS_OP_CONTRIBUTE || op == PS_OP_CONTRIBUTE_ROWS;
}
/** True for mutations of rows of a variable: PUSH_ROWS, PUSHPULL_ROWS, SCATTER, CONTRIBUTE_ROWS. */
static inline bool psi_op_is_rows(uint8_t op)
{
    return op == PS_OP_PUSH_ROWS || op == PS_OP_PUSHPULL_ROWS || op == PS_OP_SCATTER || op == PS_OP_CONTRIBUTE_ROWS;
}
/** True for pushes that bring new values: PUSHPULL, PUSHPULL_ROWS. */
static inline bool psi_op_pulls(uint8_t op)
{
    return op == PS_OP_PUSHPULL || op == PS_OP_PUSHPULL_ROWS;
}
void psi_push_go(struct psi_request *req);
/** Put the next frame of e into the peer's send queue. The frame begins at element (for operations on rows: row) e->next. */
void psi_push_queue(struct psi_entry *e);
/** Call when a VALUE frame begins, which answers a PUSHPULL frame with new values: checks it, and notes where the values go. */
ps_status psi_push_value_head(struct psi_peer *peer, struct psi_err *err) PSI_MUST;
void psi_push_value_end(struct psi_peer *peer);
/** True if new values of a PUSH_PULL or PUSH_PULL_ROWS have not come. */
bool psi_push_lacks_values(const struct psi_request *req);
/** End a PUSH_PULL or PUSH_PULL_ROWS whose push is applied, or ask for its missing values. */
void psi_push_pulled(struct psi_request *req);

/* ---- pull.c ---- */
ps_status psi_pull_prepare(struct psi_peer *peer) PSI_MUST;
/** True if the read is at most one segment, and not of strings: half of the chunks are reserved for such reads. */
bool psi_pull_is_small(const struct psi_request *req);
/** Request further chunks of req, which is var->current. True: all are requested. False: no more are allowed on their way now;
 * call again when a chunk has ended. */
bool psi_pull_ask(struct psi_peer *peer, struct psi_request *req);
/** After a reconnect: request again the chunks that have not come. False: some must wait until a mutation is sent: call again. */
bool psi_pull_resume(struct psi_peer *peer);
void psi_pull_detach(struct psi_peer *peer);
ps_status psi_pull_head(struct psi_peer *peer, struct psi_err *err) PSI_MUST;
void psi_pull_end(struct psi_peer *peer);
void psi_pull_refused(struct psi_peer *peer, uint64_t number, const struct psi_reply *r);
/** Record the version of a frame's values in req. If versions differ, or a push is in progress, req->exact becomes false. */
void psi_pull_note(struct psi_request *req, const struct ps_pull_reply_meta *head, const struct ps_pull_trailer *tail);

/* ---- addresses.c ---- */
typedef void psi_address_fn(struct psi_client *c, const ps_v1_TaskItem *item);
/** Take a task's address from an item of an answer to HELLO. psi_address_learn(): the session does not know the cluster yet.
 * psi_address_take(): a later answer, from the directory. An item without an address changes nothing. */
psi_address_fn psi_address_learn, psi_address_take;
/** Call when all addresses in the directory's answer to HELLO are taken. version: the directory's version of these addresses. */
void psi_addresses_known(struct psi_client *c, uint64_t version);
/** Call when the directory has answered a beat. version: its version of the addresses; if it is new, they will be asked for. */
void psi_addresses_beaten(struct psi_client *c, uint64_t version);
/** Ask the directory for newer addresses, because a dial has failed, or no address is known. */
void psi_addresses_ask(struct psi_client *c);
void psi_addresses_pump(struct psi_client *c);

/* ---- ask.c ---- */
/** Make an ask of operation op for req (NULL: for no request), with room to note item_count variables. The caller fills in meta
 * and body, then calls psi_ask_start(). fn takes the answer. NULL: no memory. */
struct psi_ask *psi_ask_new(struct psi_peer *peer, uint8_t op, struct psi_request *req, psi_ask_fn fn, uint32_t item_count);
/** Put the ask into its peer's list, to be sent soon. Begins to connect to the peer if it is not connected. */
void psi_ask_start(struct psi_ask *ask);
static inline size_t psi_ask_body_bytes(const struct psi_ask *ask)
{
    return ask->lent != NULL ? ask->lent_bytes : ask->body.len;
}
ps_status psi_ask_meta(struct psi_ask *ask, const pb_msgdesc_t *d, const void *m, struct psi_err *err) PSI_MUST;
void psi_ask_free(struct psi_ask *ask);
/** Drop the asks of req at all tasks, and tell the tasks by ACKs. Answers that still come are ignored. */
void psi_ask_drop(struct psi_client *c, const struct psi_request *req);
void psi_ask_reply(struct psi_peer *peer, uint64_t number, uint8_t op, const struct psi_reply *r);
/** Send the asks that were not sent on this connection yet. reopen: only the OPENs of state REOPEN; otherwise all others. */
void psi_ask_send(struct psi_peer *peer, bool reopen);
/** The send queue is about to be freed: forget which asks have a frame in it. */
void psi_ask_detach(struct psi_peer *peer);
void psi_ask_disconnected(struct psi_peer *peer);
/** After HELLO: end asks that cannot be sent again, because the task was restarted (new_life) or has forgotten this session
 * (new_record). */
void psi_ask_settle(struct psi_peer *peer, bool new_life, bool new_record);
/** In state UP: send ACKs again that may have been lost with an earlier connection. */
void psi_ask_acknowledge_again(struct psi_peer *peer);
void psi_ask_fail_all(struct psi_peer *peer, ps_status st, ps_reason reason, const char *text);
void psi_ask_beat(struct psi_peer *peer);
ps_v1_Beat psi_ask_beat_of(const struct psi_peer *peer);
void psi_ask_abandon(struct psi_peer *peer, uint64_t number);
/** End the ask of a DEQUEUE or CALL whose whole answer has come: an ACK tells the task that the program has it. */
void psi_ask_taken(struct psi_ask *ask);
void psi_ask_free_spare(struct psi_client *c);

/* ---- trace.c ---- */
/** Begin to trace an exchange with this task. Returns its id; 0: not traced. Call only if c->trace is not NULL. req: the request,
 * which began earlier; NULL: the exchange begins now. bytes: size of its values. */
uint64_t psi_exchange_begin(const struct psi_peer *peer, uint8_t op, const struct psi_request *req, const char *name,
                            uint64_t bytes) __attribute__((cold));
/** Begin to trace the exchange of a mutation, or of a PULL frame, before its first frame is queued. *h gets flag TIMES, which
 * asks for the task's own times, if the task knows that flag. Call only if c->trace is not NULL. */
void psi_exchange_entry(struct psi_entry *e, struct ps_frame_header *h) __attribute__((cold));
void psi_exchange_chunk(const struct psi_peer *peer, struct psi_chunk *k, struct ps_frame_header *h) __attribute__((cold));
/** Called before a frame of the exchange is queued. True: the frame must ask for the task's own times (flag TIMES). */
bool psi_exchange_sent(const struct psi_peer *peer, uint64_t id) __attribute__((cold));
/** Call when an exchange is answered: sets its end. If the frame that is being received is the answer with this number, the
 * task's own times are taken from it. No effect if the exchange has an end already. */
void psi_exchange_end(const struct psi_peer *peer, uint64_t id, uint64_t number, ps_status status) __attribute__((cold));

/* ---- define.c ---- */
/** Choose a new variable's owner: the device scope's task, else the next of the round-robin, which an error does not advance. */
ps_status psi_var_choose_task(struct psi_client *c, struct psi_var *var, struct psi_err *err) PSI_MUST;

/* ---- variable.c ---- */
void psi_var_get(struct psi_request *req);
ps_status psi_var_check_get(const struct psi_request *req, struct psi_err *err) PSI_MUST;
void psi_var_pump(struct psi_client *c);
void psi_var_open_pump(struct psi_peer *peer);
void psi_var_tick(struct psi_client *c);
/** Set the dtype in which var's gradients and reads travel: `asked`; if that is PS_DTYPE_NONE, the session's choice for float32.
 * RESOURCE_EXHAUSTED: no memory. In define.c. */
ps_status psi_var_wire(struct psi_client *c, struct psi_var *var, ps_dtype asked, struct psi_err *err) PSI_MUST;
/** Take the owner's answer to OPEN into var. Returns the error in the answer, such as NOT_FOUND: the owner has no such variable.
 * Also NOT_FOUND: another variable has this name now; INVALID_ARGUMENT: the answer is invalid, or its dtype or shape is not what
 * the program asks for. */
ps_status psi_var_update(struct psi_peer *peer, struct psi_var *var, const ps_v1_OpenAnswer *a, struct psi_err *err) PSI_MUST;
/** Send OPEN again for variables that were opened before the task was restarted; also for variables in containers session/..., if
 * the task has forgotten this session and the keys of these containers. False: there are none. */
bool psi_var_reopen(struct psi_peer *peer);
/** Write an item of OPEN, or with `handles` a handle, for each of vars[from..] that fits in a frame. Returns the index
 * of the first that is not written. */
uint32_t psi_var_fill(struct psi_ask *ask, struct psi_var *const *vars, uint32_t from, uint32_t count, bool handles,
                      struct psi_err *err);
/** Set var's step, and move var to `list`; NULL: to no list. variable.c has the allowed transitions. */
void psi_var_move(struct psi_var *var, enum psi_var_step step, struct psi_list *list);
/** Begin to get or create the variable, unless it is open or lost, or this has begun. */
void psi_var_want(struct psi_client *c, struct psi_var *var);
/** Call when a variable that this session had opened is gone: ends its requests that have no sequence number. */
void psi_var_lost(struct psi_client *c, struct psi_var *var, const char *why);

/* ---- ready.c ---- */
void psi_ready_go(struct psi_request *req);
void psi_ready_pump(struct psi_client *c);
void psi_ready_free_all(struct psi_client *c);
void psi_ready_expire(struct psi_request *req);
bool psi_ready_slow(struct psi_request *req);

/* ---- chief.c ---- */
/** Find out whether this session is chief of the model in this container. */
void psi_chief_want(struct psi_client *c, const char *container);
/** True unless the directory must still be asked whether this session is chief. */
bool psi_chief_settled(const struct psi_client *c);
/** Take what the directory's answer to a beat says about the chief. */
void psi_chief_beaten(struct psi_client *c, const ps_v1_BeatAnswer *m);
/** Call when the directory is UP again, perhaps after a restart: a chief then claims its lease again. */
void psi_chief_confirm(struct psi_client *c);
/** Call when this process stood still for a lease or longer: this session may have lost the chief's lease without knowing. */
void psi_chief_doubt(struct psi_client *c);
void psi_chief_seen(struct psi_client *c, uint64_t number);
/** Call when a task has refused a request of the chief with this number, because the task knows a newer chief. */
void psi_chief_refused(struct psi_client *c, uint64_t number);
/** Call when the session ends: it will not be chief again. */
void psi_chief_leave(struct psi_client *c);
/* for claim.c: */
enum { PSI_CHIEF_RETRY_MS = 100 };
bool psi_chief_preferred(const struct psi_client *c); /* true if this session is to claim the lease before other sessions do */
/** Change the state and the time of the next claim. chief.c has the allowed transitions. */
void psi_chief_move(struct psi_chief *h, enum psi_chief_state to, uint64_t until_ms);
void psi_chief_granted(struct psi_client *c, uint64_t number);
void psi_chief_not_granted(struct psi_client *c, const ps_v1_ChiefAnswer *m);
/** Call when another session is chief: tasks refuse this session's requests as chief from now on. */
void psi_chief_lost(struct psi_client *c, const char *why);

/* ---- claim.c ---- */
/** Write meta and list of a CHIEF request, by which a session claims the lease. RESOURCE_EXHAUSTED: no memory. */
ps_status psi_chief_build(struct psi_ask *ask, const char *container, const ps_v1_Chief *m) PSI_MUST;
/** Send the claim of the chief's lease if it is due. */
void psi_chief_pump(struct psi_client *c);

/* ---- control.c: functions in the table psi_kinds (kinds.c), which check, build, send and answer requests ---- */
void psi_control_go(struct psi_request *req);
/** Send an ask for req with another op, build and answer than its kind's. May be called in the callback of another ask of req. */
void psi_control_ask(struct psi_request *req, uint8_t op, ps_status (*build)(struct psi_ask *ask, struct psi_err *err),
                     psi_ask_fn answer);
void psi_control_told(struct psi_request *req); /* ends a request that only waited until the cluster's tasks were known */
void psi_control_goodbye(struct psi_request *req);
ps_status psi_control_check_reset(const struct psi_request *req, struct psi_err *err) PSI_MUST;
ps_status psi_control_check_name(const struct psi_request *req, struct psi_err *err) PSI_MUST;
ps_status psi_control_check_barrier(const struct psi_request *req, struct psi_err *err) PSI_MUST;
ps_status psi_control_check_jobs(const struct psi_request *req, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_reset(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_delete(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_barrier(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_time(struct psi_ask *ask, struct psi_err *err) PSI_MUST; /* writes the meta, a Wait, without a body */
ps_status psi_control_build_jobs(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_setting(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_may(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_rate(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_control_build_ping(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
void psi_control_plain(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
void psi_control_info(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
void psi_control_u64(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
/** Read from r->result the length of the answer's body without padding. False: r->result holds no such length. */
bool psi_control_body(const struct psi_reply *r, uint64_t *out_bytes) PSI_MUST;
void psi_control_stop(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
void psi_control_job_done(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
/** Tell a restarted directory again that this trainer is done (JOB_DONE). */
void psi_control_done_again(struct psi_peer *peer);
const char *psi_control_container(const struct psi_request *req);
const char *psi_control_name(const struct psi_request *req);
void psi_control_info_failed(struct psi_request *req);
/** Call when a task has refused an ask: repeats the request later, or ends it. */
void psi_control_refused(struct psi_ask *ask, const struct psi_reply *r);
/** Call when a task's answer is invalid: ends the request with INTERNAL. */
void psi_control_not_understood(const struct psi_ask *ask);
/** Decode an answer of one message into m. False: the message has not come yet, or the request has ended or is delayed. */
bool psi_control_message(struct psi_ask *ask, const struct psi_reply *r, const pb_msgdesc_t *d, void *m) PSI_MUST;
/* ---- rounds.c: functions in the table psi_kinds (kinds.c), and functions for READY, window.c and push.c ---- */
/** True if pushes of the variable take part in rounds or bounded staleness: it is the program's, and has an optimizer. */
bool psi_sync_is_trained(const struct psi_var *var);
/** Set var->rounds to what its owner has answered. Pushes of a member go on as contributions, which the owner refuses if the
 * rounds have ended: otherwise a part of the member's step would reach the value alone. */
void psi_sync_note(const struct psi_client *c, struct psi_var *var, ps_sync_mode mode);
/** True if req is a PUSH or PUSH_ROWS whose gradient goes into a round's average, not to the optimizer at once. */
bool psi_sync_contributes(const struct psi_request *req);
/** True if the task dropped a contribution because its round was over, perhaps before all of it was sent. */
bool psi_sync_was_dropped(uint8_t op, const struct psi_reply *r);
/** Write a SYNC request, which makes or finds the group that trains together. It names the global step and the trained vars. */
ps_status psi_sync_build(struct psi_ask *ask, struct psi_var *const *vars, uint32_t count, struct psi_err *err) PSI_MUST;
ps_status psi_sync_build_join(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
ps_status psi_sync_build_leave(struct psi_ask *ask, struct psi_err *err) PSI_MUST;
void psi_sync_step_go(struct psi_request *req);
bool psi_sync_step_slow(struct psi_request *req);
void psi_sync_joined(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
void psi_sync_left(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);
/* ---- requests for checkpoints and events (control.c), and CALL (call.c): functions in the table psi_kinds (kinds.c) ---- */
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
uint64_t psi_parts_in_bytes(const struct psi_request *req);
/** Call before psi_ask_start(). The first part of the request's bytes, in the caller's memory, becomes the ask's body; no byte
 * counts as sent yet. */
void psi_parts_begin(struct psi_ask *ask);
/** True if an ENQUEUE or QUEUE_CLOSE must wait until an earlier ENQUEUE has sent all its bytes. */
bool psi_parts_blocked(const struct psi_ask *ask);
/** True if the ask was built for a queue that is gone: its handle may mean another queue now. */
bool psi_parts_lost(const struct psi_ask *ask);
/** Call when the ask's frame is in the send queue: counts the bytes of input in the frame as sent. */
void psi_parts_sent(struct psi_ask *ask);
/** Send further parts of requests, until PSI_PARTS_PER_REQUEST parts of each request have no answer. */
void psi_parts_put(struct psi_peer *peer);
/** Call after a disconnect: requests without an answer will be sent again from their first byte. */
void psi_parts_disconnected(struct psi_peer *peer);
/** Fetch the rest of an answer whose first frame had `here` bytes. Ends the request when all bytes have come. */
void psi_parts_get(struct psi_ask *ask, uint64_t here);
/** End the request with r: the reply to its ask or to a part, or an error found here. All its asks are dropped and acknowledged,
 * so that the task keeps nothing of the request. If r says LOST while the peer is UP, the queue is lost too (psi_var_lost()). */
void psi_parts_refused(struct psi_ask *ask, const struct psi_reply *r);
/** Call when the answer to a request in parts is invalid: ends the request. */
void psi_parts_not_understood(struct psi_ask *ask, const char *what);
/* ---- queue.c: requests of queues; functions in the table psi_kinds (kinds.c) ---- */
ps_status psi_queue_check(const struct psi_request *req, struct psi_err *err) PSI_MUST;
void psi_queue_go(struct psi_request *req);
/** If var or the answer to OPEN is a queue, take the answer into var. INVALID_ARGUMENT: only one of the two is a queue. */
ps_status psi_queue_update(const struct psi_peer *peer, struct psi_var *var, const ps_v1_OpenAnswer *a,
                           struct psi_err *err) PSI_MUST;

/* ---- control_list.c ---- */
void psi_control_list(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);

#endif

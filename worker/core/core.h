/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of a session: all state and protocol of the client, pure: no sockets, no clock, no threads, no random numbers but
 * those that the caller gives to psi_client_new().
 *
 * A shell (worker/io.c, the simulator) calls an event or a start function, then carries out every effect before the next event:
 *   1. while ((link = psi_client_next_dirty(c)) != NULL): common/link.h
 *   2. while (psi_client_next_effect(c, &effect)): DIAL, LOG
 *   3. while ((req = psi_client_next_done(c)) != NULL): req->done(req), which may start requests, also req itself
 * Each task of the cluster has an index (psi_client_task_*): its place in the table of tasks, in the order of the cluster spec's
 * jobs. All functions are for the thread of the shell, unless "any thread" is said.
 */
#ifndef PSI_WORKER_CORE_H
#define PSI_WORKER_CORE_H

#include "common/cluster.h"
#include "common/link.h"
#include "common/list.h"
#include "common/name.h"
#include "common/placement.h"
#include "common/queue_spec.h"
#include "lists.h"
#include "proto/frame.h"
#include "ps.h"

struct psi_client;
struct psi_request;

/* Which task initialises the model. */
enum psi_chief_mode {
    PSI_CHIEF_STATIC, /* always the task that the cluster spec names as chief; if it names none, task 0 of a job */
    /* first this task, too; when its lease has expired, another trainer (chief.c) */
    PSI_CHIEF_LEASE
};

/* For each task, the time of the session's first dial. Owned by the caller, so that the times outlive a core. */
struct psi_reach {
    /* by index of the task: time in ms of the first dial; PSI_REACHED: the session was connected to the task once; 0: neither.
     * The last entry is for psi_client_config.target, while the cluster is not known */
    uint64_t wanted_ms[PS_TASKS_MAX + 1];
    uint64_t told_ms; /* time of the last log line about tasks that were never reached */
};
#define PSI_REACHED UINT64_MAX

struct psi_client_config {
    const struct psi_cluster *cluster; /* NULL: the core learns the cluster from the target's answer to HELLO */
    const char *target;                /* address of any task, which is asked for the cluster; NULL only if cluster is given */
    const char *cluster_name;          /* "": any cluster */
    const char *job;                   /* "": no job */
    uint32_t task;
    const char *container; /* default container of the session; NULL: PSI_CONTAINER_DEFAULT */
    const char *host, *program;
    uint32_t pid;
    int64_t operation_timeout_ms, ready_timeout_ms;
    struct psi_reach *reach; /* borrowed; NULL: not recorded, so a task that was never connected counts as lost */
    /* longest time for which a request waits for a task that was never connected; 0: until the request's own deadline */
    int64_t start_timeout_ms;
    uint64_t seed;  /* seed of initializers */
    bool fail_fast; /* requests to a task that cannot be reached end after 0.25 s, not at their deadline */
    /* dtype in which values of float32 variables travel, unless the variable has its own; PS_DTYPE_NONE: float32 */
    ps_dtype wire_dtype;
    /* The URI of the certificate that the other end of a connection has shown; "": none. NULL: no connection has certificates */
    const char *(*uri)(void *shell);
    /* True if the other end of a connection that closes has refused this side's key or certificate. NULL: never */
    bool (*refused)(void *shell);
    /* Write the values that the program reported at its newest step, "loss=0.25 accuracy=0.9", into text [n]. NULL: no values */
    void (*said)(void *said_ctx, char *text, size_t n);
    void *said_ctx;
    enum psi_chief_mode chief_mode;
    /* LEASE: chief number that the session had before a recovery: the new core claims the lease with it at once. 0: none */
    uint64_t chief_number;
};

enum { PSI_CLIENT_RANDOM_BYTES = 48 };
/** Make a core; config is copied. Session id, jitter of reconnects, the session's container and its key, and all other random
 * values derive from `random`, which must be secret. */
ps_status psi_client_new(const struct psi_client_config *config, const uint8_t random[PSI_CLIENT_RANDOM_BYTES], uint64_t now_ms,
                         struct psi_client **out_client, struct psi_err *err) PSI_MUST;
/** All requests must have ended. */
void psi_client_free(struct psi_client *c);

/* ---- effects ---- */
enum psi_client_effect_kind { PSI_CLIENT_DIAL = 1, PSI_CLIENT_LOG = 2 };
struct psi_client_effect {
    enum psi_client_effect_kind kind;
    uint32_t task; /* DIAL: index of the task */
    int level;     /* LOG: enum psi_log_level */
    char event[48];
    char text[PSI_ERR_TEXT_MAX + 128]; /* DIAL: address, whose host name is resolved each time; LOG: key=value pairs */
};
struct psi_link *psi_client_next_dirty(struct psi_client *c);
bool psi_client_next_effect(struct psi_client *c, struct psi_client_effect *out);
struct psi_request *psi_client_next_done(struct psi_client *c);

/* ---- events ---- */
/** Event: the dial of `task` has succeeded (returns its link), or failed (shell NULL; why: the reason). At most one dial of a
 * task is under way. crc: segments that are sent on this connection carry CRCs. */
struct psi_link *psi_client_dialed(struct psi_client *c, uint32_t task, void *shell, bool crc, const char *why);
/** Set the present time without running timers. Call before psi_client_bytes(): after a long stop the bytes may be old. */
void psi_client_awake(struct psi_client *c, uint64_t now_ms);
void psi_client_bytes(struct psi_client *c, struct psi_link *link, const uint8_t *p, size_t n);
/** Event: the connection of `link` has ended. why: the reason, if known; NULL: the other end has closed it. */
void psi_client_closed(struct psi_client *c, struct psi_link *link, const char *why);
void psi_client_writable(struct psi_client *c, struct psi_link *link);
/** Run deadlines, beats and reconnects. Call at least every 50 ms, and before a start function when time has passed. */
void psi_client_tick(struct psi_client *c, uint64_t now_ms);

/* ---- traces of exchanges (trace.c) ---- */
enum { PSI_EXCHANGE_PARTS = 4 };
/* A request to a task with its answer: one sequence number, one PULL frame, or one list. */
struct psi_exchange {
    uint64_t begun_ns; /* time when the request began, or, if later, when its previous exchange ended or the trace began */
    uint64_t sent_ns;  /* time when the first frame of the request was given to the connection; 0: not yet */
    uint64_t ended_ns; /* time when the answer had come completely; 0: not yet */
    uint64_t parts_ns[PSI_EXCHANGE_PARTS]; /* how long consecutive steps at the task took, as the task reports */
    const char *const *part_names;         /* [PSI_EXCHANGE_PARTS], constants; NULL: the task has reported no durations */
    uint8_t op;                            /* enum ps_op */
    ps_status status;
    uint32_t task; /* index of the task */
    char task_name[PSI_TASK_NAME_MAX];
    uint64_t bytes;
    char name[PS_NAME_BYTES_MAX + 1]; /* name of the variable or container; "": none */
};
enum { PSI_EXCHANGES_MAX = 1 << 16 };
/* A trace. The caller zeroes and owns it, and frees `at` with psi_free(). The core only adds exchanges until the trace ends. */
struct psi_exchanges {
    struct psi_exchange *at;
    size_t count, capacity;
    uint64_t left_out; /* number of exchanges that were not stored, because there was no room */
    uint64_t begun_ns;
};
/** Add a zeroed exchange. NULL: there is no room, and left_out is increased. */
struct psi_exchange *psi_exchanges_add(struct psi_exchanges *to);
/** Trace each exchange that begins from now on; NULL: end the trace. While a trace runs, psi_client_time() must be called before
 * each event and start function, and before this call. */
void psi_client_trace(struct psi_client *c, struct psi_exchanges *to);
/** Set the time of the next event or start function: nanoseconds of a monotonic clock. Needed only during a trace. */
void psi_client_time(struct psi_client *c, uint64_t now_ns);

/* ---- requests ---- */
enum psi_request_kind {
    PSI_REQ_NONE = 0,
    /* mutations: each has a sequence number, so that a task applies it at most once, even if it is sent again */
    PSI_REQ_PUSH,
    PSI_REQ_PUSH_PULL,
    PSI_REQ_ASSIGN,
    PSI_REQ_INIT_FROM, /* ASSIGN with PS_ASSIGN_INIT_ONLY */
    PSI_REQ_ADD,       /* assign_add (scale 1) / assign_sub (scale -1) */
    PSI_REQ_INIT,
    PSI_REQ_WORK_END, /* target: a queue */
    PSI_REQ_SET_STEP, /* target: an accumulator */
    PSI_REQ_PUSH_ROWS,
    PSI_REQ_PUSH_PULL_ROWS,
    PSI_REQ_SCATTER,
    /* reads */
    PSI_REQ_PULL,
    PSI_REQ_GATHER,
    /* queues: the request waits at the owner of the queue */
    PSI_REQ_ENQUEUE,
    PSI_REQ_DEQUEUE,
    PSI_REQ_QUEUE_CLOSE,
    /* requests that need several frames or tasks */
    PSI_REQ_GET,        /* get-or-create, then OPEN at the owner */
    PSI_REQ_LOOKUP,     /* FIND, then OPEN */
    PSI_REQ_STATUS,     /* send OPEN again, to learn the variables' state at their owners */
    PSI_REQ_READY,      /* ps_session_ready for all variables of the session */
    PSI_REQ_WAIT_READY, /* wait until the chief has sealed all variables: declared that they have their first values */
    PSI_REQ_RESET,
    PSI_REQ_DELETE,
    PSI_REQ_WAIT_CLUSTER,
    PSI_REQ_BARRIER,
    PSI_REQ_JOIN,     /* become a member of the group that trains together, which READY has found or made */
    PSI_REQ_STEP,     /* this session's step is complete: wait until the next one may begin */
    PSI_REQ_LEAVE,    /* end the membership */
    PSI_REQ_JOB_DONE, /* this trainer is done; repeated to a directory that was restarted */
    PSI_REQ_CLUSTER,  /* wait until the cluster is known (HELLO with any task) */
    PSI_REQ_LOOK,     /* CLUSTER for a caller that only wants to know the state: ends soon if the target cannot be reached */
    PSI_REQ_BEAT,     /* send a beat to the directory now; the answer may ask the program to stop */
    PSI_REQ_GOODBYE,  /* end the session at all connected tasks; always OK, at its deadline at the latest */
    /* administration, to one task */
    PSI_REQ_INFO,       /* for a caller that only wants to know the state: ends soon if the task cannot be reached */
    PSI_REQ_AWAIT_INFO, /* for a caller that needs the answer: waits for a task that cannot be reached */
    PSI_REQ_SHUTDOWN,
    PSI_REQ_PING,
    PSI_REQ_CALL,
    PSI_REQ_CONFIG_SET,
    PSI_REQ_MAY,
    PSI_REQ_MAY_KNOW, /* MAY at the directory: whether an identity may learn that a name does not exist */
    PSI_REQ_SET_RATE,
    PSI_REQ_SET_RATE_ALL,
    PSI_REQ_CHECKPOINT_READ,
    PSI_REQ_STOP_AT, /* STOP at one task, for when the directory does not answer */
    /* administration, to the directory */
    PSI_REQ_STOP,
    PSI_REQ_CHECKPOINT,
    PSI_REQ_CHECKPOINT_DELETE,
    PSI_REQ_CHECKPOINT_RESTORE,
/* lists, from the rows of lists.h: PSI_REQ_VARS and so on */
#define PSI_LIST_KIND(kind, ...) PSI_REQ_##kind,
    PSI_LISTS(PSI_LIST_KIND, PSI_LIST_KIND)
    /* the number of kinds */
    PSI_REQ_KINDS
};

/* The part of a psi_var that only queues have. */
struct psi_queue {
    struct psi_queue_spec spec; /* spec that the program has asked for; for a queue that was only looked up, the owner's spec */
    uint64_t size;              /* number of elements at the last OPEN */
    bool closed;
    struct psi_list puts; /* core: ENQUEUE and QUEUE_CLOSE requests whose asks are sent, in call order */
};

/* A variable or a queue, as this session knows it. The core owns it from psi_client_variable() to psi_client_variable_drop() or
 * psi_client_free(). Fields that every push and pull reads come first, for the cache. */
struct psi_var {
    ps_dtype dtype;
    ps_dtype wire;  /* dtype of the variable's values in frames; may be narrower than `dtype` */
    uint32_t owner; /* index of the owner in the table of tasks; UINT32_MAX: unknown */
    uint32_t handle;
    bool open; /* `handle` is valid at the owner while the owner runs as process number `life` */
    bool lost; /* the variable is gone after this session had used it or looked it up: requests for it end with ABORTED */
    /* core: an operation or READY has used the variable. If it vanishes later, it is `lost`, and not created anew */
    bool used;
    bool atomic;
    uint8_t step;        /* core: enum psi_var_step */
    ps_sync_mode rounds; /* how sessions train the variable together (rounds, bounded staleness); PS_SYNC_NONE: each for itself */
    bool contributes;    /* `rounds` is PS_SYNC_ROUNDS, or was it since this session is a member of rounds */
    bool by_rows;        /* an embedding: a gradient has only some of the variable's rows, also in rounds */
    uint64_t life, elements, creation;
    struct psi_queue *queue;     /* NULL: this is a variable. Queues have no dtype, shape and value */
    struct psi_list waiting;     /* requests of this variable of which nothing is sent yet, in call order */
    struct psi_request *current; /* core: the request in stage TURN or SENDING; NULL: none */
    /* core: a mutation (struct psi_entry) of which only some frames are queued; requests wait until all are. NULL: none */
    void *partial;
    uint64_t version;
    /* what this program asks for */
    ps_dtype wire_asked; /* dtype in which the program wants values to travel; PS_DTYPE_NONE: the session's */
    ps_shape shape;
    /* which part of a larger variable, divided among tasks, this variable is; all 0: the variable is no part */
    struct psi_part part;
    ps_optimizer optimizer;
    ps_initializer init;
    uint64_t seed;
    bool pinned;
    bool must_exist; /* the variable is looked up (LOOKUP in place of GET), and not created */
    bool found_only; /* with must_exist: the owner, not the program, says what dtype, shape and optimizer the variable has */
    uint32_t requested_task;
    uint64_t incarnation;
    bool created; /* this session's get-or-create has created the variable */
    bool apart;   /* the variable does not belong to the session's model: READY leaves it out */
    /* state at the owner, from the last OPEN */
    bool initialised, sealed, restored;
    bool given;    /* the first value came by an ASSIGN of another session */
    bool assigned; /* the first value came by an ASSIGN of any session */
    /* set only by a chief: an earlier chief gave the value without sealing it, and no trained model includes it */
    bool superseded;
    /* number of the chief that gave the value and has not sealed it (declared it final). A value that is not sealed does not show
     * that a trained model exists. 0: there is no such chief */
    uint64_t provisional;
    uint64_t seal_number; /* number of the chief that sealed the variable; 0: unknown */
    uint64_t checkpoint;  /* number of the checkpoint from which the value comes, with version checkpoint_version; 0: none */
    uint64_t checkpoint_version;
    uint64_t chief_number; /* number of the chief whose hyperparameters are in force */
    uint64_t chief_seen;   /* highest chief number known to the owner */
    ps_optimizer in_force;
    struct psi_list link; /* link in the list of all variables of the session, in order of creation */
    void *user;
    /* core */
    struct psi_device requested; /* device that the program asks for with a device scope; empty: none */
    bool by_strategy, setter;    /* as in struct psi_request_place */
    bool soft_placement;
    bool placed;
    uint32_t tries; /* how often the get-or-create was refused and delayed */
    /* index of the task that delays the get-or-create: it has refused it, or has not answered the directory; UINT32_MAX: none */
    uint32_t held_by;
    uint64_t again_ms;         /* time of the next get-or-create */
    struct psi_list step_link; /* in want_create, want_open or vars_delayed */
    struct psi_list getters;   /* GET and LOOKUP requests that wait until the variable is got */
    bool keyed;                /* `key`, a copy of psi_var_scope.key, is sent with requests of the variable as proof of access */
    uint8_t key[PSI_KEY_BYTES];
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char name[PS_NAME_BYTES_MAX + 1];
};

/* A request. The caller allocates it, and zeroes it before the first use; the core keeps it from the start to done(). */
struct psi_request {
    /* The caller sets these fields before psi_client_start(); "core:" marks those that the caller leaves alone. */
    void (*done)(struct psi_request *req);
    void *ctx;
    enum psi_request_kind kind;
    uint8_t stage;       /* core: enum psi_request_stage */
    uint8_t flags;       /* core: PSI_REQUEST_* */
    bool waited;         /* a thread waits for the end of the request; psi_client_interrupt() ends such requests */
    struct psi_var *var; /* NULL: the request is not for a variable */
    const void *src;     /* PUSH, ASSIGN, ADD: values to send; the caller keeps them until done() */
    void *dst;           /* PULL, PUSH_PULL: memory for values, kept until done(); INFO and others: the caller's struct */
    uint64_t bytes;
    uint64_t part_first, part_elements; /* PULL: first element and number of elements to read; part_elements 0: all */
    /* PUSH, PUSH_PULL: 1 + version of the values from which the gradient comes; 0: unknown. ASSIGN to a slot: the slot's power,
     * such as Adam's beta1^t, as the bits of a float64 (common/optimizer.h) */
    uint64_t from;
    uint64_t chief_number; /* READY, ASSIGN, INIT_FROM, RESET: number of the chief; 0: none */
    /* CHECKPOINT: number of a checkpoint that the task must not delete, as it is restored next; 0: none */
    uint64_t keeps;
    float scale;
    uint32_t task;        /* administration: index of the task */
    uint32_t slot;        /* PULL, ASSIGN: number of the optimizer's state array (slot), from 1 on; 0: the value */
    uint32_t interrupts;  /* with `waited`: number of the session's interrupts when the waiting thread's call began */
    uint64_t deadline_ms; /* absolute time, never 0 */
    uint64_t started_ms;
    uint64_t begun_ns; /* core, while exchanges are traced: time when the request began, or its last exchange ended */
    /* result, valid in done() */
    ps_status status;
    ps_applied applied;
    uint64_t version;
    bool exact;
    uint32_t result_bytes;
    uint8_t result[PS_RESULT_BYTES_MAX];
    struct psi_err *err; /* borrowed from the core, valid in done() only; NULL with PS_OK */
    /* core */
    struct psi_list link; /* link in the list of its stage */
    uint64_t number;      /* sequence or request number; 0: none */
    uint64_t offset;    /* number of elements (GATHER: rows; ENQUEUE, DEQUEUE, CALL: bytes) for which a frame or part was made */
    uint64_t arrived;   /* number of elements (GATHER: rows; DEQUEUE, CALL: bytes of output) that have come */
    union {             /* by kind */
        uint64_t round; /* PUSH: round to which the gradient belongs; 0: none */
        uint64_t first_version; /* PULL, GATHER: version in the first frame that came */
        uint64_t goodbyes;      /* GOODBYE: number of tasks that have not answered */
        uint64_t rejoins;       /* STEP: 1: the session had lost its membership, and JOIN is sent; 0: STEP is sent */
        uint64_t queued;        /* ENQUEUE, CALL: 1 + bytes of input in the send queue; 0: no frame is queued (parts.c) */
    };
    union {
        uint64_t frames; /* PULL, GATHER: number of frames that have come */
        uint64_t taken;  /* STEP: 1: the round has used the gradient */
    };
    union {
        struct psi_entry *entry; /* a mutation with a number: its entry in the window of its task */
        struct psi_ready *ready; /* READY, WAIT_READY, STATUS */
        struct psi_ask *ask;     /* DEQUEUE, CALL: ask whose answer is being fetched in parts (parts.c) */
    };
    struct psi_list all; /* link in the client's list of requests that have not ended */
    struct psi_client *owner;
    uint64_t again_ms;   /* in stage DELAYED: time at which the request is started again */
    uint32_t flying;     /* number of requested chunks that have not come; ENQUEUE, DEQUEUE, CALL: of parts without an answer */
    uint32_t tries;      /* number of refusals so far */
    struct psi_err *why; /* error of the last refusal; NULL: none */
};

/** What the scopes that the program has entered (container, name prefix, device) say about a variable, besides its spec. */
struct psi_var_scope {
    const char *container;                 /* NULL: PSI_CONTAINER_DEFAULT */
    const char *name;                      /* the full name; NULL: the spec's */
    bool must_exist;                       /* NOT_FOUND if the cluster has no such variable */
    bool soft_placement;                   /* a device that its task does not have becomes CPU:0 */
    const struct psi_request_place *place; /* place that the scopes ask for; NULL: none, so that the spec's device counts */
    bool apart;                            /* psi_var.apart */
    /* [PSI_KEY_BYTES]: key of the container session/...; NULL: the session's own key. An executor works for several sessions at
     * once, so each variable that it opens has the key of the session for which it works */
    const uint8_t *key;
    bool queue;                            /* the record is of a queue: only device and type of the spec count */
    const struct psi_queue_spec *elements; /* definition of the queue; NULL: the queue is only looked up */
    /* which part of which larger variable this is; the spec has the part's shape and the whole's initializer. NULL: no part */
    const struct psi_part *part;
};
/** Check everything about a variable that needs no task, except its name. Pure, any thread. */
ps_status psi_client_definition_check(const ps_variable_spec *spec, struct psi_err *err) PSI_MUST;
/** Make a record for a variable. The caller then starts a GET, or a LOOKUP if the variable must exist. Names are checked. scope
 * gives name, container and device, spec the rest. GET takes the next task of the round-robin, unless the device names a task.
 * The core owns the record until psi_client_free() or psi_client_variable_drop(). */
ps_status psi_client_variable_in(struct psi_client *c, const ps_variable_spec *spec, const struct psi_var_scope *scope,
                                 bool find_only, struct psi_var **out_var, struct psi_err *err) PSI_MUST;
/** psi_client_variable_in() without scopes. */
ps_status psi_client_variable(struct psi_client *c, const ps_variable_spec *spec, bool find_only, struct psi_var **out_var,
                              struct psi_err *err) PSI_MUST;
/**
 * Free the record of a variable that the caller no longer needs. For long sessions with changing variables, as of an executor.
 * The variable itself stays at its task. Returns false, and changes nothing, while a request, a sequence number or a frame uses
 * the record; the caller tries again later.
 */
bool psi_client_variable_drop(struct psi_client *c, struct psi_var *var) PSI_MUST;
/**
 * Start a request whose fields kind, var, src, dst, bytes, scale, task, deadline_ms, done and ctx are set. PS_OK: done() runs
 * exactly once, by psi_client_next_done(), never within this call. Errors (done() never runs): INVALID_ARGUMENT (size, kind),
 * FAILED_PRECONDITION (the variable was not got before).
 */
ps_status psi_client_start(struct psi_client *c, struct psi_request *req, struct psi_err *err) PSI_MUST;
/** The name of the call for this kind of request: "pull". Any thread. */
const char *psi_request_kind_name(enum psi_request_kind kind);

/* Facts about a variable that psi_client_check() needs. */
struct psi_operand {
    const char *name;
    ps_dtype dtype;
    uint64_t elements;
};
/** Check a request for the values of a variable as psi_client_start() does: memory, size, part, scale. Pure, any thread. */
ps_status psi_client_check(const struct psi_request *req, const struct psi_operand *v, struct psi_err *err) PSI_MUST;

/* ---- keys.c. Loop thread ---- */
/** Name and key of the container that belongs to this session. The container is empty until a client creates a variable in it. */
void psi_client_own_container(const struct psi_client *c, char out_name[PSI_SESSION_CONTAINER_BYTES],
                              uint8_t out_key[PSI_KEY_BYTES]);

/** Make every request end at deadline_ms at the latest, because the session closes (closing.c). */
void psi_client_hasten(struct psi_client *c, uint64_t deadline_ms);
/** End now the `waited` requests of calls that began before interrupt number `interrupts`, and withdraw them at their tasks.
 * Their error is CANCELLED with this reason, and its text begins with `why`, a string literal. A request with a known outcome
 * keeps the outcome. Requests for which no thread waits continue. */
void psi_client_interrupt(struct psi_client *c, uint32_t interrupts, ps_reason reason, const char *why);
/** Cancel a request that was started and whose done() was not called, and withdraw it at its task. Its error is CANCELLED with
 * PS_REASON_INTERRUPTED, and the text begins with `why`, a string literal. A request with a known outcome keeps the outcome. The
 * request ends soon; if half of a frame of it is sent, only when the rest is sent or the connection has ended. */
void psi_client_cancel(struct psi_client *c, struct psi_request *req, const char *why);

const struct psi_cluster *psi_client_cluster(const struct psi_client *c); /* NULL: not known yet */
uint32_t psi_client_task_count(const struct psi_client *c);
const char *psi_client_task_name(const struct psi_client *c, uint32_t task); /* "/job:ps/task:0" */
const char *psi_client_task_address(const struct psi_client *c, uint32_t task);
/** Find the task's cluster, job and index; cluster and job have room for PS_JOB_BYTES_MAX + 1 bytes. False: not known. */
bool psi_client_task_place(const struct psi_client *c, uint32_t task, char *cluster, char *job, uint32_t *out_index);
/** Index of the task at the session's target. UINT32_MAX: there is no target, or the task is unknown. */
uint32_t psi_client_target(const struct psi_client *c);
/** True if this session is chief. LEASE: as far as it knows; any event may change that. Never true for an evaluator. */
bool psi_client_is_chief(const struct psi_client *c);
/** True if this session is chief; before its first READY, true if it is to claim the chief's lease first (chief.c). */
bool psi_client_leads(const struct psi_client *c);
struct psi_list *psi_client_variables(struct psi_client *c); /* list of psi_var.link */
uint32_t psi_client_pending(const struct psi_client *c);     /* number of requests that have not ended */
/** How many variables the last READY had, without the global step, and how many of them had a value before. */
void psi_client_found(const struct psi_client *c, uint32_t *out_found, uint32_t *out_total);
/** This session's membership of rounds or bounded staleness, after the last JOIN, STEP or LEAVE. */
const struct psi_member *psi_client_member(const struct psi_client *c);
/** True from the time at which a task has told this session to stop, or that the job is done. */
bool psi_client_stop_asked(const struct psi_client *c);
void psi_client_check_invariants(const struct psi_client *c);

/* src of PSI_REQ_SET_RATE: a learning rate in place of the optimizer's own. */
struct psi_rate {
    const char *container, *name; /* name NULL: all variables of the container that have an optimizer */
    double rate;
    bool clear;     /* return to the optimizer's own rate */
    uint64_t token; /* SET_RATE_ALL: random number of this change; 0: none */
};
/* src of PSI_REQ_MAY, which asks whether an identity has these rights in the container. */
struct psi_may {
    const char *who, *role; /* identity and role, for example "key:w0" and "worker" */
    const char *container;
    uint32_t rights; /* enum psi_right */
};
struct psi_setting {
    const char *name, *value;
};
/* A task of the cluster, as the directory knows it. */
struct psi_task_seen {
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task, pid;
    char address[PS_ADDRESS_BYTES_MAX + 1];
    char host[65];
    char conflict[256]; /* text about another process that claims to be this task; "": none */
    /* restarts: number of earlier processes of the task; lost: number of variables that the task should have and does not have */
    uint32_t restarts, lost;
    char lost_names[256]; /* names of some lost variables: "w, b and 3 more" */
    bool connected; /* the task is connected and has told the directory which variables it has; true for the directory itself */
    bool heard;     /* the directory has heard from the task since the directory started */
    uint64_t missing_ms, life;
};
struct psi_setting_seen {
    char name[64], value[512], default_value[256], help[512];
    bool reloadable;
};
/* dst of requests for lists. The function of the request's row in lists.h is called for each entry while the answer is read,
 * before done(): void (*variable)(void *ctx, const ps_variable_info *entry) and so on. */
struct psi_list_sink {
#define PSI_LIST_SINK(kind, name, whom, entry, type, ...) void (*entry)(void *ctx, const type *entry);
    PSI_LISTS(PSI_LIST_SINK, PSI_LIST_SINK)
    void (*member)(void *ctx, const ps_member_info *entry); /* called for each member of a round, after the round's own entry */
    void *ctx;
};
/*
 * Meaning of fields of struct psi_request by kind, where the name does not say it:
 *   INIT            bytes != 0: replace a value that exists
 *   PULL            of a part: dst is for the part's first element, bytes is the size of the part
 *   ASSIGN, PULL    of a string variable: src = its blob (common/blob.h) of `bytes`; dst has room for psi_blob_bytes_max()
 *   ADD             scale 1 or -1
 *   PUSH_ROWS, PUSH_PULL_ROWS, SCATTER, GATHER  src = const struct psi_rows * (rows.h), kept. PUSH_PULL_ROWS, GATHER: dst has
 *                   room for src->count rows
 *   STATUS          var NULL: all variables of the session; of a queue: fills var->queue's size and closed
 *   INFO            dst = ps_task_info *, filled also when the request fails (up, error)
 *   CONFIG_SET      src = struct psi_setting *
 *   MAY, MAY_KNOW   src = struct psi_may *, kept with its texts
 *   SET_RATE        src = const struct psi_rate *, kept with its texts; dst = uint64_t *: number of variables that have the rate
 *   SET_RATE_ALL    SET_RATE at the directory: ends when a round has taken the rate, or no round can be closed soon; dst: 0
 *   STOP, STOP_AT   dst = uint32_t *: number of sessions that are asked to stop; may be NULL
 *   CHECKPOINT      dst = uint64_t *: number of the checkpoint; CHECKPOINT_RESTORE: of a checkpoint made after the restore
 *   kinds of lists.h  dst = struct psi_list_sink *; EVENTS: also src = const struct psi_events_from *
 *   WAIT_CLUSTER    src = jobs, "ps,worker"
 *   BARRIER         src = const struct psi_barrier *, kept with its texts
 *   CALL            dst = struct psi_call_io *, kept with its memory
 *   ENQUEUE         src = const struct psi_enqueue *, kept with its memory; result: u64 number of elements in the queue, also on
 *                   error
 *   DEQUEUE         dst = struct psi_dequeue *, kept
 *   QUEUE_CLOSE     bytes != 0: cancel the ENQUEUEs that wait
 *   WORK_END        src = const struct psi_work_end *, kept; result: u64, 1 if the item was done before
 *   SET_STEP        src = const int64_t *, kept; result: i64, the step before
 *   READY           src = const struct psi_sync *: how to train with other sessions, copied; NULL: alone.
 *                   dst = struct psi_readied *, kept, filled also on failure, or NULL.
 *                   bytes != 0: end before any INIT if this session is the chief and no variable has a trained value. Variables
 *                   that are lost later are ABORTED, and not created again.
 *                   chief_number: chief number of a READY that ended before INIT: this READY keeps the values given under that
 *                   number, and initialises the rest; ABORTED, NEWER_CHIEF if the session has another number by now, or none
 *   ASSIGN, INIT_FROM  chief_number: chief number of a READY that ended before INIT: src is the chief's value for a variable that
 *                   is not sealed; fails with ABORTED, NEWER_CHIEF if there is a newer chief
 *   JOIN            after a READY with src; the membership is psi_client_member()
 *   PUSH            by a member of rounds, to a variable in rounds: a contribution to the round of psi_client_member(); result:
 *                   u64, 1 if it came too late and was dropped
 *   STEP            dst = struct psi_stepped *
 *   LEAVE           bytes != 0: the session has finished, which is no loss of a worker
 *   RESET           src = name of the container, NULL: PSI_CONTAINER_DEFAULT; checked; kept
 *                   chief_number: number of the READY that found variables without value: no effect if there is a newer chief
 *   DELETE          src = const struct psi_var_name *, kept with its texts
 */
/* A range of bytes of a file of a task's checkpoint. */
struct psi_saved_range {
    uint64_t number;
    uint32_t kind, index; /* enum ps_file_kind, and index of the file */
    uint64_t offset;
    void *out;
    size_t bytes, out_bytes; /* bytes: wanted, at most PS_CONTROL_BODY_MAX; out_bytes: read, fewer at the end of the file */
};
struct psi_events_from {
    uint64_t life, next;
    int64_t wait_ms; /* >= 0 */
};
struct psi_saved_name {
    uint64_t number;
    bool force;                    /* CHECKPOINT_DELETE */
    bool spread;                   /* CHECKPOINT_RESTORE */
    const char *const *containers; /* CHECKPOINT_RESTORE: only these containers, borrowed; container_count 0: all */
    size_t container_count;
};
struct psi_call_io {
    const char *name;
    const void *in;
    size_t in_bytes;              /* length of the input, including the bytes in `lents` */
    const struct psi_lent *lents; /* [lent_count] parts of the input that lie outside of `in` */
    uint32_t lent_count;
    void *out;
    size_t out_capacity, out_bytes; /* out_capacity: room at `out`; out_bytes: size of the output, even if it does not fit */
};
struct psi_enqueue {
    const void *data; /* many: a batch of `count` elements (common/tuple.h); else one element without its length */
    uint64_t bytes;
    uint32_t count;
    bool many;
    bool fill; /* work queue: the elements are all items that the queue will have */
    uint64_t fill_hash;
    bool apply; /* accumulator: the element is a gradient; result: 1: the gradient was added, 0: it came too late */
    int64_t local_step;
};
struct psi_dequeue {
    uint32_t count; /* number of elements; accumulator: number of gradients whose sum or mean is the one element */
    bool many, up_to;
    /** Give memory for the elements that were taken, 8-aligned, kept until done(). Loop thread. An error ends the request, and
     * the elements go back into the queue. */
    ps_status (*room)(struct psi_dequeue *d, const struct ps_dequeue_result *got, uint8_t **out, struct psi_err *err);
    /** Called when all elements are in memory, before the ACK. Loop thread; errors as for room(). NULL: not called. */
    ps_status (*here)(struct psi_dequeue *d, struct psi_err *err);
    void *ctx;
    struct ps_dequeue_result got;
    uint8_t *data; /* memory from room(), with unchecked bytes: the caller uses psi_tuple_check() */
};
struct psi_work_end {
    uint64_t serial;
    uint32_t epoch;
    bool give_back;
};
/* How a session trains together with others (ps.h: ps_session_sync). */
struct psi_sync {
    ps_sync_mode mode;
    uint32_t workers;  /* number of workers; 0: the number in the cluster */
    uint32_t replicas; /* contributions that close a round; 0: one of each worker */
    ps_worker_loss on_loss;
    uint32_t staleness;
    double max_norm;        /* ROUNDS: largest norm of the averaged gradients, which are scaled down to it; 0: no limit */
    bool max_norm_each;     /* the limit is for each variable's average; false: for all averages together */
    uint32_t rows_per_step; /* rows that a worker may push to an embedding in a step */
    ps_rows_mean rows_mean;
    struct psi_var *step; /* variable of the global step; the rounds belong to its container */
    bool finished;        /* the session trains no more, and is no member; as chief it still sends SYNC, which makes the group */
    uint64_t training;    /* psi_member.training of an earlier membership of this process; 0: it was no member */
};
struct psi_readied {
    uint64_t chief_number; /* chief number of the session; 0: it was not chief */
    bool nothing;          /* READY ended before INIT: no variable has a trained value */
};
struct psi_stepped {
    int64_t step; /* global step after the round; with bounded staleness: at the time of the directory's answer */
    bool taken;   /* the new values include this session's contribution; always true with bounded staleness */
    bool lost;    /* the directory had taken the session for lost, and has made it a member again */
};
struct psi_member {
    ps_sync_mode mode; /* NONE: the session is no member */
    uint64_t id;
    uint64_t round;    /* round of its pushes */
    uint64_t steps;    /* bounded staleness: number of the session's own steps */
    uint64_t dropped;  /* number of steps whose contribution was dropped */
    uint64_t training; /* number of the training, which does not change when the model is lost and made anew; 0: not known */
};
struct psi_var_name {
    const char *container; /* NULL: PSI_CONTAINER_DEFAULT */
    const char *name;
};
struct psi_barrier {
    struct psi_var_name at; /* must be first: psi_control_name() reads `src` as a psi_var_name */
    int count;              /* number of sessions; 0: all workers */
};

#endif

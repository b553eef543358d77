/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of a session: all state and protocol of the client, pure (no sockets, no clock, no random numbers, no threads).
 *
 * A shell (worker/io.c, the simulator) calls an event or a start function, then carries out every effect before the next event:
 *   1. while ((link = psi_client_next_dirty(c)) != NULL): common/link.h
 *   2. while (psi_client_next_effect(c, &effect)): DIAL, CANCEL_DIAL, LOG
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

/* Who initialises the model. */
enum psi_chief_mode {
    PSI_CHIEF_STATIC, /* the task that the cluster spec names, always */
    PSI_CHIEF_LEASE /* first the task that the cluster spec names; another trainer when that one's lease has expired (chief.c) */
};

/* When each task was first wanted, or that it was reached. The caller owns it, because it outlives the core of one session. */
struct psi_reach {
    uint64_t wanted_ms[PS_TASKS_MAX + 1]; /* by table index: since when the task is wanted; PSI_REACHED: it was connected once;
                                           * 0: neither. The last one is for the target, before the cluster is known */
    uint64_t told_ms;                     /* when the last log line named tasks that were never reached */
};
#define PSI_REACHED UINT64_MAX

struct psi_client_config {
    const struct psi_cluster *cluster; /* NULL: the target tells it in its HELLO */
    const char *target;                /* any address; NULL: a task of the cluster */
    const char *cluster_name;          /* "": any */
    const char *job;                   /* "": no job */
    uint32_t task;
    const char *container; /* default container of the session; NULL: PSI_CONTAINER_DEFAULT */
    const char *host, *program;
    uint32_t pid;
    int64_t operation_timeout_ms, ready_timeout_ms;
    struct psi_reach *reach; /* NULL: a task that was never connected is treated like one that was lost */
    int64_t
        /* time that a request waits for a task that was never connected; 0: until the request's own deadline */
        start_timeout_ms;
    uint64_t seed;       /* for initializers */
    bool fail_fast;      /* requests to an unreachable task end before their deadline */
    ps_dtype wire_dtype; /* dtype in which float32 variables travel unless they say otherwise; PS_DTYPE_NONE: float32 */
    /* URI of the certificate that the other end of a connection has shown; "": none. NULL: no connection has certificates */
    const char *(*uri)(void *shell);
    enum psi_chief_mode chief_mode;
    /* LEASE: chief number of the session's earlier core, which was lost: the new core claims the lease with it at once; 0: none
     */
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
    uint32_t task; /* DIAL: table index */
    int level;     /* LOG: enum psi_log_level */
    char event[48];
    char text[PSI_ERR_TEXT_MAX + 128]; /* DIAL: address, whose host name is resolved anew each time; LOG: key=value pairs */
};
struct psi_link *psi_client_next_dirty(struct psi_client *c);
bool psi_client_next_effect(struct psi_client *c, struct psi_client_effect *out);
struct psi_request *psi_client_next_done(struct psi_client *c);

/* ---- events ---- */
/** The dial of `task` has succeeded, and the link for it is returned; or it has failed: shell NULL, why says so. At most one
 * dial of a task is under way. crc: segments that are sent on this connection carry CRCs. */
struct psi_link *psi_client_dialed(struct psi_client *c, uint32_t task, void *shell, bool crc, const char *why);
/** Tell the time before psi_client_bytes(), so that a core whose process was stopped knows that the bytes may be old. Cheap;
 * runs no timers. */
void psi_client_awake(struct psi_client *c, uint64_t now_ms);
void psi_client_bytes(struct psi_client *c, struct psi_link *link, const uint8_t *p, size_t n);
/** why: what is known about the reason; NULL: the other end has closed the connection. */
void psi_client_closed(struct psi_client *c, struct psi_link *link, const char *why);
void psi_client_writable(struct psi_client *c, struct psi_link *link);
/** Run deadlines, beats and reconnects: at least every 50 ms, and before a start function when time has passed. */
void psi_client_tick(struct psi_client *c, uint64_t now_ms);

/* ---- traces of exchanges (trace.c) ---- */
enum { PSI_EXCHANGE_PARTS = 4 };
/* A request to a task with its answer: one sequence number, one PULL frame, or one list. */
struct psi_exchange {
    uint64_t begun_ns;                     /* when the request began, or was last answered; not before the trace began */
    uint64_t sent_ns;                      /* when its first frame was given to the connection; 0: not yet */
    uint64_t ended_ns;                     /* when the answer had come whole; 0: not yet */
    uint64_t parts_ns[PSI_EXCHANGE_PARTS]; /* durations of consecutive steps, reported by the task */
    const char *const *part_names;         /* [PSI_EXCHANGE_PARTS], constants; NULL: the task has reported no durations */
    uint8_t op;                            /* enum ps_op */
    ps_status status;
    uint32_t task; /* table index */
    char task_name[PSI_TASK_NAME_MAX];
    uint64_t bytes;                   /* size of the values that were sent or received */
    char name[PS_NAME_BYTES_MAX + 1]; /* name of the variable or container; "": none */
};
enum { PSI_EXCHANGES_MAX = 1 << 16 };
/* A trace. The caller zeroes and owns it; the core adds exchanges until the trace ends, and leaves it untouched when the core
 * is freed. The caller frees `at` with psi_free(). */
struct psi_exchanges {
    struct psi_exchange *at;
    size_t count, capacity;
    uint64_t left_out; /* exchanges that were not stored for lack of room */
    uint64_t begun_ns;
};
/** Add a zeroed exchange. NULL: no room; it is counted as left out. */
struct psi_exchange *psi_exchanges_add(struct psi_exchanges *to);
/** Trace each exchange that begins from now on; NULL: end the trace. While a trace runs, psi_client_time() must be called before
 * each event and start function, and before this call. */
void psi_client_trace(struct psi_client *c, struct psi_exchanges *to);
/** Tell the time of the next event or start function: nanoseconds of a monotonic clock. Needed only while a trace runs. */
void psi_client_time(struct psi_client *c, uint64_t now_ns);

/* ---- requests ---- */
enum psi_request_kind {
    PSI_REQ_NONE = 0,
    /* mutations: they have sequence numbers, and are carried out exactly once */
    PSI_REQ_PUSH,
    PSI_REQ_PUSH_PULL,
    PSI_REQ_ASSIGN,
    PSI_REQ_INIT_FROM, /* ASSIGN with PS_ASSIGN_INIT_ONLY */
    PSI_REQ_ADD,       /* assign_add (scale 1) / assign_sub (scale -1) */
    PSI_REQ_INIT,
    PSI_REQ_WORK_END, /* target: a queue */
    PSI_REQ_SET_STEP, /* target: an accumulator */
    PSI_REQ_PUSH_ROWS,
    PSI_REQ_SCATTER,
    /* reads */
    PSI_REQ_PULL,
    PSI_REQ_GATHER,
    /* queues: the request waits at the owner */
    PSI_REQ_ENQUEUE,
    PSI_REQ_DEQUEUE,
    PSI_REQ_QUEUE_CLOSE,
    /* requests that need several frames or tasks */
    PSI_REQ_GET,        /* get-or-create, then OPEN at the owner */
    PSI_REQ_LOOKUP,     /* FIND, then OPEN */
    PSI_REQ_STATUS,     /* OPEN again: refresh var->state */
    PSI_REQ_READY,      /* ps_session_ready for all variables of the session */
    PSI_REQ_WAIT_READY, /* wait until all variables are sealed */
    PSI_REQ_RESET,
    PSI_REQ_DELETE,
    PSI_REQ_WAIT_CLUSTER,
    PSI_REQ_BARRIER,
    PSI_REQ_JOIN,     /* become a member of the rounds that READY has found or made */
    PSI_REQ_STEP,     /* this session's step is complete: wait until the next one may begin */
    PSI_REQ_LEAVE,    /* end the membership */
    PSI_REQ_JOB_DONE, /* this trainer is done; repeated to a directory that was restarted */
    PSI_REQ_CLUSTER,  /* wait until the cluster is known (HELLO with any task) */
    PSI_REQ_LOOK,     /* CLUSTER for a caller that only looks: ends when connections are refused */
    PSI_REQ_BEAT,     /* a beat to the directory now: does it ask to stop? */
    PSI_REQ_GOODBYE,  /* to all tasks it was connected to; always ends OK, at its deadline at the latest */
    /* administration, to one task */
    PSI_REQ_INFO,       /* for a caller that only looks: ends when connections are refused */
    PSI_REQ_AWAIT_INFO, /* for a caller that needs the answer: waits for a task that is away */
    PSI_REQ_SHUTDOWN,
    PSI_REQ_PING,
    PSI_REQ_CALL,
    PSI_REQ_CONFIG_SET,
    PSI_REQ_MAY,
    PSI_REQ_MAY_KNOW, /* MAY at the directory, about a name that does not exist: may the caller be told so */
    PSI_REQ_SET_RATE,
    PSI_REQ_SET_RATE_ALL,
    PSI_REQ_CHECKPOINT_READ,
    PSI_REQ_STOP_AT, /* STOP at a task that is not the directory */
    /* administration, to the directory */
    PSI_REQ_STOP,
    PSI_REQ_CHECKPOINT,
    PSI_REQ_CHECKPOINT_DELETE,
    PSI_REQ_CHECKPOINT_RESTORE,
/* lists of lists.h: PSI_REQ_VARS and so on */
#define PSI_LIST_KIND(kind, ...) PSI_REQ_##kind,
    PSI_LISTS(PSI_LIST_KIND, PSI_LIST_KIND)
    /* the number of kinds */
    PSI_REQ_KINDS
};

/* The part of a psi_var that only queues have. */
struct psi_queue {
    struct psi_queue_spec spec; /* as the program asked for; if the queue was only looked up, as its owner has it */
    uint64_t size;              /* number of elements, from the last OPEN */
    bool closed;
    struct psi_list puts; /* core: ENQUEUE and QUEUE_CLOSE requests whose asks are sent, in call order */
};

/* A variable or a queue, as this session knows it. The client core owns it, from psi_client_variable() to psi_client_free().
 * Fields that every push and pull reads come first, for the cache. */
struct psi_var {
    ps_dtype dtype;
    ps_dtype wire;  /* dtype in which its pushes and pulls travel */
    uint32_t owner; /* table index; UINT32_MAX: not known */
    uint32_t handle;
    bool open; /* handle is valid in process `life` of its task */
    bool lost; /* requests end ABORTED: incarnation or creation number has changed since the first open */
    bool used; /* core: an operation or READY has succeeded; a reset is an error from then on, instead of a new get-or-create */
    bool atomic;
    uint8_t step;        /* core: enum psi_var_step */
    ps_sync_mode rounds; /* mode of the group that the variable is in; NONE: none */
    uint64_t life, elements, creation;
    struct psi_queue *queue;     /* NULL: a variable. Queues have no dtype, shape and value */
    struct psi_list waiting;     /* requests for this variable that are not on the wire yet, in call order */
    struct psi_request *current; /* core: the one request in stage TURN or SENDING; NULL: none */
    /* core: struct psi_entry of a mutation whose frames are partly queued; it goes ahead of `current` */
    void *partial;
    uint64_t version;
    /* what this program asks for */
    ps_dtype wire_asked; /* of a variable that is only looked up: PS_F32, whatever the session's wire dtype is */
    ps_shape shape;
    struct psi_part part; /* what the variable is a part of; all 0: of nothing */
    ps_optimizer optimizer;
    ps_initializer init;
    uint64_t seed;
    bool pinned;
    bool must_exist;         /* LOOKUP instead of GET: it is not created */
    bool found_only;         /* must_exist, and dtype, shape and optimizer are taken from the owner */
    uint32_t requested_task; /* table index */
    uint64_t incarnation;
    bool created; /* created by this session's get-or-create */
    bool apart;   /* not part of the session's model: READY leaves it out */
    /* state at the owner, from the last OPEN */
    bool initialised, sealed, restored;
    bool given;    /* its first value came by ASSIGN from another session */
    bool assigned; /* its first value came by ASSIGN from any session */
    /* for the chief: the value comes from an earlier chief that did not seal it, and is not part of the live model */
    bool left;
    uint64_t provisional; /* not sealed: number of the chief that gave the value, which is no sign of a live model; 0: none */
    uint64_t seal_number; /* number of the chief that sealed it; 0: not known */
    uint64_t checkpoint;  /* number of the checkpoint that its value came from, with version checkpoint_version; 0: none */
    uint64_t checkpoint_version;
    uint64_t chief_number; /* number of the chief whose hyperparameters are in force */
    uint64_t chief_seen;   /* highest chief number that its task knows */
    ps_optimizer in_force;
    struct psi_list link; /* in the list of all variables of the session, in order of creation */
    void *user;
    /* core */
    struct psi_device requested; /* device as the scopes name it; empty: none */
    bool by_strategy, setter;    /* as in struct psi_request_place */
    bool soft_placement;
    bool placed;    /* its turn of the round-robin is taken */
    uint32_t tries; /* number of times that get-or-create was put off */
    /* table index of the task that refused get-or-create, or has not answered the directory; UINT32_MAX: none */
    uint32_t held_by;
    uint64_t again_ms;         /* when get-or-create is tried again */
    struct psi_list step_link; /* in want_create, want_open or vars_delayed */
    struct psi_list getters;   /* GET and LOOKUP requests that wait for it */
    bool keyed;                /* `key` is the variable's own key (psi_var_scope.key) */
    uint8_t key[PSI_KEY_BYTES];
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char name[PS_NAME_BYTES_MAX + 1];
};

/* A request. The caller allocates it, and zeroes it before the first use; the core keeps it from the start to done(). A
 * ps_request has room for it. */
struct psi_request {
    /* set by the caller or by the functions psi_client_start_* */
    void (*done)(struct psi_request *req);
    void *ctx, *ctx2;
    enum psi_request_kind kind;
    uint8_t stage;       /* core: enum psi_request_stage */
    uint8_t flags;       /* core: PSI_REQUEST_* */
    bool waited;         /* a thread waits for its end: psi_client_interrupt() ends it */
    struct psi_var *var; /* of requests about a variable */
    const void *src;     /* PUSH, ASSIGN, ADD: kept until done() */
    void *dst;           /* PULL, PUSH_PULL: kept until done(); INFO and others: the caller's struct */
    uint64_t bytes;
    uint64_t part_first, part_elements; /* PULL: first and number of the elements to read; part_elements 0: all */
    /* PUSH, PUSH_PULL: 1 + the version of the values that the gradient was computed from; 0: not given. ASSIGN to a slot of
     * Adam: bits of the double beta power that belongs to it */
    uint64_t from;
    uint64_t chief_number; /* READY, ASSIGN, INIT_FROM, RESET: chief number under which it is given; 0: none */
    /* CHECKPOINT: number of the checkpoint that is restored next, and must not be removed; 0: none */
    uint64_t keeps;
    float scale;
    uint32_t task;        /* administration: table index of the task */
    uint32_t slot;        /* PULL, ASSIGN: number of the optimizer's slot, from 1 on; 0: the value */
    uint32_t interrupts;  /* with `waited`: the session's number of interrupts when the thread's call began */
    uint64_t deadline_ms; /* absolute, never 0 */
    uint64_t started_ms;
    uint64_t begun_ns; /* core: when it began, or was last answered; only set while exchanges are traced */
    /* result, valid in done() */
    ps_status status;
    ps_applied applied;
    uint64_t version;
    bool exact;
    uint32_t result_bytes;
    uint8_t result[PS_RESULT_BYTES_MAX];
    struct psi_err *err; /* borrowed from the core, valid in done() only; NULL when PS_OK */
    /* core */
    struct psi_list link; /* in the list of the stage */
    uint64_t number;      /* sequence or request number; 0: none */
    uint64_t offset;      /* number of elements sent (push) or received (pull) */
    uint64_t offset2;
    uint64_t counter; /* meaning depends on the kind, as of counter2, offset2 and extra */
    uint64_t counter2;
    void *extra;
    struct psi_list all; /* in the client's list of requests that have not ended */
    struct psi_client *owner;
    uint64_t again_ms;   /* put off until then */
    uint32_t flying;     /* PULL: chunks that were asked for and have not come */
    uint32_t tries;      /* number of refusals so far */
    struct psi_err *why; /* the last refusal; NULL: none */
};

/** What the scopes of a session add to a variable's spec (scope.h). */
struct psi_var_scope {
    const char *container;                 /* NULL: PSI_CONTAINER_DEFAULT */
    const char *name;                      /* the full name; NULL: the spec's */
    bool must_exist;                       /* NOT_FOUND if the cluster does not have it */
    bool soft_placement;                   /* a device that its task lacks becomes CPU:0 */
    const struct psi_request_place *place; /* NULL: the spec's device is a pin */
    bool apart;                            /* psi_var.apart */
    /* [PSI_KEY_BYTES]: key of its container session/...; NULL: the key that the session has. An executor works for several
     * sessions: each variable has the key that its own client has given */
    const uint8_t *key;
    bool queue;                            /* it is a queue; only device and type count in the variable's spec */
    const struct psi_queue_spec *elements; /* definition of the queue; NULL: it is only looked up */
    /* what the variable is a part of; the spec's shape is the part's, its initializer the whole's. NULL: of nothing */
    const struct psi_part *part;
};
/** Check everything about a variable that needs no task, but its name. Pure, any thread. */
ps_status psi_client_definition_check(const ps_variable_spec *spec, struct psi_err *err) PSI_MUST;
/** Make a record for a variable; GET, or LOOKUP if it must exist, follows. Names are checked. Fields of spec as in
 * ps_variable_spec; name, container and device as scope says. GET takes the turn of the round-robin. The core owns the record
 * until psi_client_free() or psi_client_variable_drop(). */
ps_status psi_client_variable_in(struct psi_client *c, const ps_variable_spec *spec, const struct psi_var_scope *scope,
                                 bool find_only, struct psi_var **out_var, struct psi_err *err) PSI_MUST;
/** psi_client_variable_in() without scopes. */
ps_status psi_client_variable(struct psi_client *c, const ps_variable_spec *spec, bool find_only, struct psi_var **out_var,
                              struct psi_err *err) PSI_MUST;
/**
 * Free the record of a variable that the caller no longer needs. For sessions that go on while variables come and go, e.g. of an
 * executor. The variable itself stays at its task.
 *
 * Returns   false: a request, a sequence number, or a frame on its way still uses the record. Nothing has changed; the caller
 * tries again later.
 */
bool psi_client_variable_drop(struct psi_client *c, struct psi_var *var) PSI_MUST;
/**
 * Start a request whose fields kind, var, src, dst, bytes, scale, task, deadline_ms, done and ctx are set.
 * PS_OK: done() runs exactly once, by psi_client_next_done(), never within this call.
 * Errors (done() never runs): INVALID_ARGUMENT (size, kind), FAILED_PRECONDITION (the variable was not got).
 */
ps_status psi_client_start(struct psi_client *c, struct psi_request *req, struct psi_err *err) PSI_MUST;
/** Name of the call that makes such a request: "pull". Any thread. */
const char *psi_request_kind_name(enum psi_request_kind kind);

/* What psi_client_check() needs to know about a variable. */
struct psi_operand {
    const char *name;
    ps_dtype dtype;
    uint64_t elements;
};
/** Check a request for the values of a variable as psi_client_start() does: memory, size, part, scale. Pure, any thread. */
ps_status psi_client_check(const struct psi_request *req, const struct psi_operand *v, struct psi_err *err) PSI_MUST;

/* ---- keys.c: keys of containers that belong to sessions. Loop thread ---- */
struct psi_client_key {
    struct psi_list link;
    char container[PSI_SESSION_CONTAINER_BYTES];
    uint8_t key[PSI_KEY_BYTES];
    uint32_t uses; /* number of psi_client_add_key() calls less the number of drops */
};
/** Name and key of the container that belongs to this session. It is empty until somebody creates a variable in it. */
void psi_client_own_container(const struct psi_client *c, char out_name[PSI_SESSION_CONTAINER_BYTES],
                              uint8_t out_key[PSI_KEY_BYTES]);
/** Requests that name this container of another session carry the key from now on. The core owns `key`. A container that was
 * added several times must be dropped as often. */
void psi_client_add_key(struct psi_client *c, struct psi_client_key *key);
void psi_client_drop_key(struct psi_client *c, const char *container);

/** The session is closing: every request ends by deadline_ms at the latest (closing.c). */
void psi_client_hasten(struct psi_client *c, uint64_t deadline_ms);
/**
 * End the requests (`waited`) of calls that began before interrupt number `interrupts`, now, as at their deadline: they are
 * withdrawn at the task. Their error is CANCELLED with this reason; `why` stands before its text. Requests for which no thread
 * waits go on. A request whose outcome is known keeps that outcome. why: a string literal, borrowed for good.
 */
void psi_client_interrupt(struct psi_client *c, uint32_t interrupts, ps_reason reason, const char *why);
/**
 * Cancel a request that was started and whose done() was not called: CANCELLED, PS_REASON_INTERRUPTED, with `why`, a string
 * literal, before its text. It is withdrawn at the task, as at its deadline. done() is called by psi_client_next_done(): soon,
 * or, if half of its frame is sent, when the rest is sent or the connection has ended. A request whose outcome is known keeps
 * that outcome.
 */
void psi_client_cancel(struct psi_client *c, struct psi_request *req, const char *why);

/* ---- the session's knowledge ---- */
const struct psi_cluster *psi_client_cluster(const struct psi_client *c); /* NULL: not known yet */
uint32_t psi_client_task_count(const struct psi_client *c);
const char *psi_client_task_name(const struct psi_client *c, uint32_t task); /* "/job:ps/task:0" */
const char *psi_client_task_address(const struct psi_client *c, uint32_t task);
/** The task's cluster, job and index; both texts [PS_JOB_BYTES_MAX + 1]. False: not known. */
bool psi_client_task_place(const struct psi_client *c, uint32_t task, char *cluster, char *job, uint32_t *out_index);
/** Table index of the task at the session's target. UINT32_MAX: there is no target, or the task is not known. */
uint32_t psi_client_target(const struct psi_client *c);
/** True if this session initialises the model. LEASE: it holds the lease as far as it knows; any event may change that. Never
 * true for an evaluator. */
bool psi_client_is_chief(const struct psi_client *c);
/** True if this session is chief, or, before its first READY claims the lease, is the task that the cluster spec names. */
bool psi_client_leads(const struct psi_client *c);
struct psi_list *psi_client_variables(struct psi_client *c); /* list of psi_var.link */
uint32_t psi_client_pending(const struct psi_client *c);     /* number of requests that have not ended */
/* READY's findings: how many variables were sealed or initialised before it, and how many there are; without the global step */
void psi_client_found(const struct psi_client *c, uint32_t *out_found, uint32_t *out_total);
/** Membership of rounds after the last JOIN, STEP or LEAVE. */
const struct psi_member *psi_client_member(const struct psi_client *c);
/** True for good once a task has told this session to stop, or that the job is done. */
bool psi_client_stop_asked(const struct psi_client *c);
void psi_client_check_invariants(const struct psi_client *c);

/* src of PSI_REQ_SET_RATE: a learning rate in place of the optimizer's own. */
struct psi_rate {
    const char *container, *name; /* name NULL: all variables of the container that have an optimizer */
    double rate;
    bool clear;     /* back to the optimizer's own rate */
    uint64_t token; /* SET_RATE_ALL: random number of this change; 0: none */
};
/* src of PSI_REQ_MAY: may this identity use these rights in the container? */
struct psi_may {
    const char *who, *role; /* e.g. "key:w0", "worker" */
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
    char conflict[256]; /* text about another process that says it is this task; "": none */
    /* restarts: earlier processes of the task; lost: number of variables that it should have and does not */
    uint32_t restarts, lost;
    char lost_names[256]; /* names of some lost variables: "w, b and 3 more" */
    bool connected;       /* true for the directory itself */
    bool heard;           /* the directory has heard from the task since its own start */
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
    void (*member)(void *ctx, const ps_member_info *entry); /* called for each member, behind the round that it belongs to */
    void *ctx;
};
/*
 * Meaning of fields of struct psi_request by kind, where the name does not say it:
 *   INIT            bytes != 0: replace a value that exists
 *   PULL            of a part: dst is for the part's first element, bytes is the size of the part
 *   ASSIGN, PULL    of a string variable: src = its blob (common/blob.h) of `bytes`; dst has room for psi_blob_bytes_max()
 *   ADD             scale 1 or -1
 *   PUSH_ROWS, SCATTER, GATHER  src = const struct psi_rows * (rows.h), kept; GATHER: dst has room for its `count` rows
 *   STATUS          var NULL: all variables of the session; of a queue: fills var->queue's size and closed
 *   INFO            dst = ps_task_info *, filled also when the request fails (up, error)
 *   CONFIG_SET      src = struct psi_setting *
 *   MAY, MAY_KNOW   src = struct psi_may *, kept with its texts
 *   SET_RATE        src = const struct psi_rate *, kept with its texts; dst = uint64_t *: number of variables that have the rate
 *   SET_RATE_ALL    SET_RATE at the directory: ends when all variables in rounds have the rate, or none is in rounds; dst: 0
 *   STOP, STOP_AT   dst = uint32_t *: number of sessions that were told, or NULL
 *   CHECKPOINT      dst = uint64_t *: number of the checkpoint; CHECKPOINT_RESTORE: of the one that is made after the restore
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
 *                   bytes != 0: end before any INIT if this session is the chief and nothing is live. Variables that are lost
 *                   later are ABORTED, and not created again.
 *                   chief_number: number of such a READY: this one goes on with the values given under it and initialises the
 *                   rest; ABORTED, NEWER_CHIEF if the session has another number by now, or none
 *   ASSIGN, INIT_FROM  chief_number: number of a READY that ended before INIT: a chief's value for a variable that is not sealed;
 *                   ABORTED, NEWER_CHIEF
 *   JOIN            after such a READY; the answer is psi_client_member()
 *   PUSH            by a member of rounds, to a variable in rounds: a contribution to the round of psi_client_member(); result:
 *                   u64, 1 if it came too late and was dropped
 *   STEP            dst = struct psi_stepped *
 *   LEAVE           bytes != 0: the session has finished, which is no loss of a worker
 *   RESET           src = name of the container, NULL: PSI_CONTAINER_DEFAULT; checked; kept
 *                   chief_number: number of the READY that found half a model: nothing is done if there is a newer chief
 *   DELETE          src = const struct psi_var_name *, kept with its texts
 */
/* A range of bytes of a file of a task's checkpoint. */
struct psi_saved_range {
    uint64_t number;
    uint32_t kind, index; /* kind: enum ps_file_kind */
    uint64_t offset;
    void *out;
    size_t bytes, out_bytes; /* bytes: at most PS_CONTROL_BODY_MAX; out_bytes: less at the end of the file */
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
    size_t in_bytes;              /* with those of lents */
    const struct psi_lent *lents; /* [lent_count] parts of the input that lie elsewhere than at `in` */
    uint32_t lent_count;
    void *out;
    size_t out_capacity, out_bytes; /* out_bytes: size of the output, also if out_capacity is smaller */
};
struct psi_enqueue {
    const void *data; /* elements as in common/tuple.h; with `many` a batch */
    uint64_t bytes;
    uint32_t count;
    bool many;
    bool fill; /* work queue: these are all items, given once */
    uint64_t fill_hash;
    bool apply; /* accumulator: a gradient; result: 1 if it counts, 0 if it came too late */
    int64_t local_step;
};
struct psi_dequeue {
    uint32_t count; /* accumulator: number of gradients that are averaged in the one element */
    bool many, up_to;
    /** Give memory for the elements that were taken, 8-aligned, kept until done(). Loop thread. An error ends the request, and
     * the elements go back into the queue. */
    ps_status (*room)(struct psi_dequeue *d, const struct ps_dequeue_result *got, uint8_t **out, struct psi_err *err);
    /** All elements are in memory, and the ACK was not sent. Loop thread; errors as of room(). NULL: not called. */
    ps_status (*here)(struct psi_dequeue *d, struct psi_err *err);
    void *ctx;
    struct ps_dequeue_result got;
    uint8_t *data; /* the memory of room(), filled with unchecked bytes: the caller uses psi_tuple_check() */
};
struct psi_work_end {
    uint64_t serial;
    uint32_t epoch;
    bool give_back;
};
/* How a session trains together with others (ps.h: ps_session_sync). */
struct psi_sync {
    ps_sync_mode mode;
    uint32_t workers;  /* 0: the number of workers in the cluster */
    uint32_t replicas; /* contributions that close a round; 0: of all workers */
    ps_worker_loss on_loss;
    uint32_t staleness;
    struct psi_var *step; /* the global step; the rounds belong to its container */
    bool finished;        /* the session trains no more: as the chief it asks for the same rounds, and nobody waits for it */
    uint64_t training;    /* psi_member.training of this process's earlier membership; 0: none */
};
/* Result of a READY. */
struct psi_readied {
    uint64_t chief_number; /* number under which the session was chief; 0: it was not chief */
    bool nothing;          /* it ended before INIT: nothing is live */
};
struct psi_stepped {
    int64_t step; /* global step; with bounded staleness at the time of the answer */
    bool taken;   /* the new values contain this session's contribution; always true with bounded staleness */
    bool lost;    /* the session had been taken for lost, and has become a member again */
};
struct psi_member {
    ps_sync_mode mode; /* NONE: not a member */
    uint64_t id;
    uint64_t round;    /* round that its pushes belong to */
    uint64_t steps;    /* bounded staleness: number of its own steps */
    uint64_t dropped;  /* number of steps whose contribution was dropped */
    uint64_t training; /* 0: not known */
};
struct psi_var_name {
    const char *container; /* NULL: PSI_CONTAINER_DEFAULT */
    const char *name;
};
struct psi_barrier {
    struct psi_var_name at; /* first member: texts name its subject by it */
    int count;              /* 0: all workers */
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of a session: all of the client's state and protocol, pure (no sockets, no clock, no random, no threads).
 *
 * Like psd/task.h: a shell (worker/io.c, the simulator) calls an event or a start function, then carries out every effect before
 * the next event:
 *   1. while ((link = psi_client_next_dirty(c)) != NULL): common/link.h
 *   2. while (psi_client_next_effect(c, &effect)): DIAL, CANCEL_DIAL, LOG
 *   3. while ((req = psi_client_next_done(c)) != NULL): req->done(req) (it may start requests, also with req itself)
 * A task of the cluster has an index here (psi_client_task_*): the router's table, in the order of the cluster spec's jobs.
 */
#ifndef PSI_WORKER_CORE_H
#define PSI_WORKER_CORE_H

#include "common/cluster.h"
#include "common/link.h"
#include "common/placement.h"
#include "common/queue_spec.h"
#include "lists.h"
#include "proto/frame.h"
#include "ps.h"

struct psi_client;
struct psi_request;

/* Who initialises the model. */
enum psi_chief_mode {
    PSI_CHIEF_STATIC, /* the one whom the cluster spec names, whoever else is there */
    PSI_CHIEF_LEASE   /* he, or another trainer when his lease is over (chief.c) */
};

/* Which tasks a session has been connected to. The caller owns it, because it outlives a core that is made anew. */
struct psi_reach {
    uint64_t wanted_ms[PS_TASKS_MAX + 1]; /* by table index: since when the task is wanted, PSI_REACHED, or 0. The last one: of
                                             the target, before the cluster is known */
    uint64_t told_ms;                     /* when the last log line named the tasks that are wanted in vain */
};
#define PSI_REACHED UINT64_MAX

struct psi_client_config {
    const struct psi_cluster *cluster; /* NULL: learn it from the target's HELLO */
    const char *target;                /* any address; NULL: from the cluster */
    const char *cluster_name;          /* "" = not stated */
    const char *job;                   /* "" = none */
    uint32_t task;
    const char *container; /* the session's default one; NULL: PSI_CONTAINER_DEFAULT */
    const char *host, *program;
    uint32_t pid;
    int64_t operation_timeout_ms, ready_timeout_ms;
    struct psi_reach *reach; /* NULL: a task that was never connected is treated like one that was lost */
    int64_t
        /* time that a request waits for a task that was never connected; 0: as long as the request's own deadline allows */
        start_timeout_ms;
    uint64_t seed;       /* of initializers */
    bool fail_fast;      /* a task that cannot be reached ends the requests to it before their deadline */
    ps_dtype wire_dtype; /* of float32 variables that do not say otherwise; PS_DTYPE_NONE: their own */
    enum psi_chief_mode chief_mode;
    uint64_t chief_number; /* LEASE: of a session that was lost and is made anew: it claims one above it at once; 0: none */
};

/** session id, reconnect jitter and all else random derive from `random`. Copies config. */
ps_status psi_client_new(const struct psi_client_config *config, const uint8_t random[32], uint64_t now_ms,
                         struct psi_client **out_client, struct psi_err *err) PSI_MUST;
/** All requests must be done. */
void psi_client_free(struct psi_client *c);

/* ---- effects ---- */
enum psi_client_effect_kind { PSI_CLIENT_DIAL = 1, PSI_CLIENT_LOG = 2 };
struct psi_client_effect {
    enum psi_client_effect_kind kind;
    uint32_t task; /* DIAL: table index of the task */
    int level;     /* LOG */
    char event[48];
    char text[PSI_ERR_TEXT_MAX + 128]; /* DIAL: address (host names are resolved anew each time); LOG: key=value pairs */
};
struct psi_link *psi_client_next_dirty(struct psi_client *c);
bool psi_client_next_effect(struct psi_client *c, struct psi_client_effect *out);
struct psi_request *psi_client_next_done(struct psi_client *c);

/* ---- events ---- */
/** The DIAL of `task` succeeded: returns its link; or failed: shell NULL, why = text. At most one dial per task is out.
 *  crc: segments that go out on this connection carry CRCs. */
struct psi_link *psi_client_dialed(struct psi_client *c, uint32_t task, void *shell, bool crc, const char *why);
/** Before bytes: they may have lain there while this process was stopped. Cheap; runs no timer. */
void psi_client_awake(struct psi_client *c, uint64_t now_ms);
void psi_client_bytes(struct psi_client *c, struct psi_link *link, const uint8_t *p, size_t n);
void psi_client_closed(struct psi_client *c, struct psi_link *link);
void psi_client_writable(struct psi_client *c, struct psi_link *link);
/** Deadlines, beats, reconnects; at least every 50 ms; also before a start function when time has passed. */
void psi_client_tick(struct psi_client *c, uint64_t now_ms);

/* ---- requests ---- */
enum psi_request_kind {
    PSI_REQ_NONE = 0,
    /* mutations: sequence numbers, exactly once */
    PSI_REQ_PUSH,
    PSI_REQ_PUSH_PULL,
    PSI_REQ_ASSIGN,
    PSI_REQ_INIT_FROM, /* ASSIGN with PS_ASSIGN_INIT_ONLY */
    PSI_REQ_ADD,       /* assign_add (scale 1) / assign_sub (scale -1) */
    PSI_REQ_INIT,
    PSI_REQ_WORK_END, /* of a queue */
    PSI_REQ_SET_STEP, /* of an accumulator */
    /* reads */
    PSI_REQ_PULL,
    /* of queues: they wait at the owner */
    PSI_REQ_ENQUEUE,
    PSI_REQ_DEQUEUE,
    PSI_REQ_QUEUE_CLOSE,
    /* composite: run over several frames and tasks */
    PSI_REQ_GET,        /* get-or-create, then OPEN at the owner */
    PSI_REQ_LOOKUP,     /* FIND, then OPEN */
    PSI_REQ_STATUS,     /* OPEN again: refresh var->state */
    PSI_REQ_READY,      /* ps_session_ready for all variables of the session */
    PSI_REQ_WAIT_READY, /* wait until all are sealed */
    PSI_REQ_RESET,
    PSI_REQ_DELETE,
    PSI_REQ_WAIT_CLUSTER,
    PSI_REQ_BARRIER,
    PSI_REQ_JOIN,     /* become a member of the rounds that READY has found or made */
    PSI_REQ_STEP,     /* this session's step is complete: until it may go on */
    PSI_REQ_LEAVE,    /* it is no member any more */
    PSI_REQ_JOB_DONE, /* this trainer is done; said again to a directory that has forgotten it */
    PSI_REQ_CLUSTER,  /* know the cluster (HELLO with any task) */
    PSI_REQ_LOOK,     /* the same for somebody who only looks: ends when connections are refused */
    PSI_REQ_BEAT,     /* to the directory, at once: does it say stop? */
    PSI_REQ_GOODBYE,  /* to all tasks it talked to; always ends OK, bounded by its deadline */
    /* administration, to one task */
    PSI_REQ_INFO,       /* for somebody who looks: ends when connections are refused */
    PSI_REQ_AWAIT_INFO, /* for somebody who needs it: waits for a task that is away */
    PSI_REQ_SHUTDOWN,
    PSI_REQ_PING,
    PSI_REQ_CALL,
    PSI_REQ_CONFIG_SET,
    PSI_REQ_SET_RATE,
    PSI_REQ_SET_RATE_ALL,
    PSI_REQ_CHECKPOINT_READ,
    PSI_REQ_STOP_AT, /* as STOP, of a task that is not the directory */
    /* administration, to the directory */
    PSI_REQ_STOP,
    PSI_REQ_CHECKPOINT,
    PSI_REQ_CHECKPOINT_DELETE,
    PSI_REQ_CHECKPOINT_RESTORE,
/* the lists of lists.h: PSI_REQ_VARS and so on */
#define PSI_LIST_KIND(kind, ...) PSI_REQ_##kind,
    PSI_LISTS(PSI_LIST_KIND, PSI_LIST_KIND)
    /* and their number */
    PSI_REQ_KINDS
};

/* What a psi_var has that is a queue. */
struct psi_queue {
    struct psi_queue_spec spec; /* as asked for, or, found only, as the owner has it */
    uint64_t size;              /* when last asked (OPEN): elements */
    bool closed;
    struct psi_list puts; /* core: ENQUEUE and QUEUE_CLOSE requests whose asks are out, call order */
};

/* A variable, or a queue, as this session knows it. Owned by the client core from psi_client_variable() to psi_client_free().
 * What each push and pull looks at comes first: with many variables none of it is in cache. */
struct psi_var {
    ps_dtype dtype;
    ps_dtype wire;  /* of its pushes and pulls */
    uint32_t owner; /* table index, UINT32_MAX while unknown */
    uint32_t handle;
    bool open; /* handle is valid in life `life` of its task */
    bool lost; /* ABORTED: incarnation or creation number changed since the first open */
    bool used; /* core: an operation succeeded, or READY did: from then on a reset is an error, not a new get-or-create */
    bool atomic;
    uint8_t step;        /* core: of get-or-create: enum psi_var_step */
    ps_sync_mode rounds; /* of the group that it is in; NONE: of none */
    uint64_t life, elements, creation;
    struct psi_queue *queue;     /* NULL: a variable. A queue has no dtype, shape and value */
    struct psi_list waiting;     /* requests for this variable that are not on the wire yet, call order */
    struct psi_request *current; /* core: whose turn it is: the one in TURN or SENDING; NULL: none */
    void *partial;               /* core: struct psi_entry of a mutation that is queued in part; ahead of every turn */
    uint64_t version;
    /* what is asked for */
    ps_dtype wire_asked; /* of a look-up: PS_F32, not as the session says */
    ps_shape shape;
    ps_optimizer optimizer; /* as asked for by this program */
    ps_initializer init;
    uint64_t seed;
    bool pinned;
    bool must_exist;         /* LOOKUP instead of GET: nothing is created */
    bool found_only;         /* must_exist, and dtype, shape, optimizer come from the owner */
    uint32_t requested_task; /* table index */
    uint64_t incarnation;
    bool created; /* this session's get-or-create made it */
    /* state at the owner when last asked (OPEN) */
    bool initialised, sealed, restored;
    bool given;           /* its first value came by ASSIGN, and not from this session */
    bool assigned;        /* the same, or from this one */
    bool left;            /* to the chief: a value of another chief, which came not to seal it, and no part of what is live */
    uint64_t provisional; /* not sealed: number of the chief whose value it is: no sign that the model is live; 0: of none */
    uint64_t seal_number; /* sealed: by this one; 0: not said */
    uint64_t checkpoint;  /* its value came out of this one, with this version; 0: of none */
    uint64_t checkpoint_version;
    uint64_t chief_number; /* of the chief whose hyperparameters are in force */
    uint64_t chief_seen;   /* the highest that its task knows */
    ps_optimizer in_force;
    struct psi_list link; /* all variables of the session, creation order */
    void *user;
    /* core */
    struct psi_device requested; /* what the scopes say; empty: nothing */
    bool by_strategy, setter;    /* as in struct psi_request_place */
    bool soft_placement;
    bool placed;       /* its round-robin turn is taken */
    uint32_t tries;    /* of get-or-create that were put off */
    uint32_t held_by;  /* table index: of get-or-create, who refused, or has not answered the directory; UINT32_MAX: nobody */
    uint64_t again_ms; /* when the next is due */
    struct psi_list step_link; /* want_create, want_open or put off */
    struct psi_list getters;   /* GET and LOOKUP requests */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char name[PS_NAME_BYTES_MAX + 1];
};

/* A request: caller-allocated, zeroed once before first use; the core keeps it from start to done. Must fit ps_request. */
struct psi_request {
    /* set by the caller, or by the psi_client_start_* functions */
    void (*done)(struct psi_request *req);
    void *ctx, *ctx2;
    enum psi_request_kind kind;
    uint8_t stage;       /* core */
    uint8_t flags;       /* core */
    bool waited;         /* a thread waits for its end: psi_client_interrupt() ends it */
    struct psi_var *var; /* variable operations */
    const void *src;     /* PUSH, ASSIGN, ADD: kept */
    void *dst;           /* PULL, PUSH_PULL: kept; INFO..: the caller's struct */
    uint64_t bytes;
    uint64_t part_first, part_elements; /* PULL: these elements of it; part_elements 0: all */
    uint64_t from;                      /* PUSH, PUSH_PULL: 1 + the version of the values that it came from; 0: not said.
                                           ASSIGN to a slot of Adam: bits of the power that goes with it, a double */
    uint64_t chief_number;              /* READY, ASSIGN, INIT_FROM, RESET: that it is given under; 0: none */
    /* CHECKPOINT: number of the checkpoint that is to be restored next, and stays; 0: none */
    uint64_t keeps;
    float scale;
    uint32_t task;        /* administration: table index */
    uint32_t slot;        /* PULL, ASSIGN: from 1 on, that slot of its optimizer in place of the value */
    uint32_t interrupts;  /* waited: number of interrupts when the thread's call began */
    uint64_t deadline_ms; /* absolute, never 0 */
    uint64_t started_ms;
    /* result, valid in done() */
    ps_status status;
    ps_applied applied;
    uint64_t version;
    bool exact;
    uint32_t result_bytes;
    uint8_t result[PS_RESULT_BYTES_MAX];
    struct psi_err *err; /* text: borrowed from the core, valid in done() only; NULL when PS_OK */
    /* core */
    struct psi_list link; /* of the stage */
    uint64_t number;      /* sequence or request number; 0 none */
    uint64_t offset;      /* elements sent (push) or received (pull) */
    uint64_t offset2;
    uint64_t counter; /* per kind */
    uint64_t counter2;
    void *extra;
    struct psi_list all;      /* of the client: all that are not done */
    struct psi_client *owner; /* the client */
    uint64_t again_ms;        /* put off until then */
    uint32_t flying;          /* PULL: chunks asked for and not here yet */
    uint32_t tries;           /* refusals so far */
    struct psi_err *why;      /* the last refusal; NULL: none */
};

/** What the scopes of a session make of a variable's spec (scope.h). */
struct psi_var_scope {
    const char *container;                 /* NULL: PSI_CONTAINER_DEFAULT */
    const char *name;                      /* the full one; NULL: the spec's */
    bool must_exist;                       /* what the cluster does not have is NOT_FOUND */
    bool soft_placement;                   /* a device that its task lacks becomes CPU:0 */
    const struct psi_request_place *place; /* NULL: the spec's device, as a pin */
    bool queue;                            /* it is a queue; of the variable's spec only device and type count */
    const struct psi_queue_spec *elements; /* what the queue is, unless it is only looked up */
};
/** Everything about a variable that can be refused without asking a task, its name apart. Pure, any thread. */
ps_status psi_client_definition_check(const ps_variable_spec *spec, struct psi_err *err) PSI_MUST;
/** A new variable record (GET, or LOOKUP where it must exist, has to follow). Names are checked. spec fields as in
 * ps_variable_spec; name, container and device as scope says. A round-robin turn is taken by GET. Never frees until
 * psi_client_free. */
ps_status psi_client_variable_in(struct psi_client *c, const ps_variable_spec *spec, const struct psi_var_scope *scope,
                                 bool find_only, struct psi_var **out_var, struct psi_err *err) PSI_MUST;
/** The same outside all scopes. */
ps_status psi_client_variable(struct psi_client *c, const ps_variable_spec *spec, bool find_only, struct psi_var **out_var,
                              struct psi_err *err) PSI_MUST;
/**
 * Start a request whose caller-set fields are filled in (kind, var, src, dst, bytes, scale, task, deadline_ms, done, ctx).
 * PS_OK: done runs exactly once, by psi_client_next_done, never from within this call.
 * Errors (done never runs): INVALID_ARGUMENT (size, kind), FAILED_PRECONDITION (variable not got yet).
 */
ps_status psi_client_start(struct psi_client *c, struct psi_request *req, struct psi_err *err) PSI_MUST;

/* A variable as psi_client_check() needs it. */
struct psi_operand {
    const char *name;
    ps_dtype dtype;
    uint64_t elements;
};
/** What psi_client_start() refuses of a request for the values of a variable: memory, size, part, scale. Pure, any thread. */
ps_status psi_client_check(const struct psi_request *req, const struct psi_operand *v, struct psi_err *err) PSI_MUST;

/** The session is closing: every request that is not done ends by deadline_ms at the latest (closing.c). */
void psi_client_hasten(struct psi_client *c, uint64_t deadline_ms);
/**
 * End the waits of calls that began before interrupt number `interrupts`. Each request of theirs (`waited`) ends now, and is
 * withdrawn at the task, as at its deadline. Its error is CANCELLED with this reason, and `why` stands before its text.
 * Requests for which no thread waits go on. A request whose outcome is known already keeps that outcome. `why` is borrowed for
 * good: a string literal.
 */
void psi_client_interrupt(struct psi_client *c, uint32_t interrupts, ps_reason reason, const char *why);

/* ---- what the session knows ---- */
const struct psi_cluster *psi_client_cluster(const struct psi_client *c); /* NULL while unknown */
uint32_t psi_client_task_count(const struct psi_client *c);
const char *psi_client_task_name(const struct psi_client *c, uint32_t task); /* "/job:ps/task:0" */
const char *psi_client_task_address(const struct psi_client *c, uint32_t task);
/** This session initialises. LEASE: it holds the lease as far as it knows now; any event may change that. Never an evaluator. */
bool psi_client_is_chief(const struct psi_client *c);
/** It is the chief, or, before its first READY asks for the lease, would be: the one whom the cluster spec names. */
bool psi_client_leads(const struct psi_client *c);
struct psi_list *psi_client_variables(struct psi_client *c); /* of struct psi_var.link */
uint32_t psi_client_pending(const struct psi_client *c);     /* requests not done */
/* READY's findings: variables that were sealed or initialised before it, and in all */
void psi_client_found(const struct psi_client *c, uint32_t *out_found, uint32_t *out_total);
/** As the last JOIN, STEP or LEAVE left it. */
const struct psi_member *psi_client_member(const struct psi_client *c);
/** A task has told this session to stop, or that the job is done: true from then on. */
bool psi_client_stop_asked(const struct psi_client *c);
void psi_client_check_invariants(const struct psi_client *c);

/* A learning rate in place of the optimizers': src of PSI_REQ_SET_RATE. */
struct psi_rate {
    const char *container, *name; /* name NULL: all of the container that have an optimizer */
    double rate;
    bool clear;     /* the optimizers' own again */
    uint64_t token; /* SET_RATE_ALL: random number of this change; 0: none */
};
/* src of PSI_REQ_CONFIG_SET. */
struct psi_setting {
    const char *name, *value;
};
/* A task of the cluster as the directory sees it. */
struct psi_task_seen {
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task, pid;
    char address[PS_ADDRESS_BYTES_MAX + 1];
    char host[65];
    char conflict[256];      /* another process that says that it is this task; "" */
    uint32_t restarts, lost; /* other processes that were it before; names that it should have and has not: */
    char lost_names[256];    /* "w, b and 3 more" */
    bool connected;          /* true for the directory itself */
    bool heard;              /* in this life of the directory */
    uint64_t missing_ms, life;
};
/* A setting of a task. */
struct psi_setting_seen {
    char name[64], value[512], default_value[256], help[512];
    bool reloadable;
};
/* dst of requests for lists: called for each entry while the answer is read (before done); by their rows in lists.h:
 * void (*variable)(void *ctx, const ps_variable_info *entry) and so on */
struct psi_list_sink {
#define PSI_LIST_SINK(kind, name, whom, entry, type, ...) void (*entry)(void *ctx, const type *entry);
    PSI_LISTS(PSI_LIST_SINK, PSI_LIST_SINK)
    void (*member)(void *ctx, const ps_member_info *entry); /* of the round before */
    void *ctx;
};
/*
 * What the fields of a request mean beyond their names:
 *   INIT            bytes != 0 forces
 *   PULL            of a part: dst gets its first element, bytes are the part's
 *   ASSIGN, PULL    of a string variable: src = its blob (common/blob.h) of `bytes`; dst has room for psi_blob_bytes_max()
 *   ADD             scale 1 or -1
 *   STATUS          var NULL: all variables of the session
 *   INFO            dst = ps_task_info *, filled also when the request fails (up, error)
 *   CONFIG_SET      src = struct psi_setting *
 *   SET_RATE        src = const struct psi_rate *, kept with its texts; dst = uint64_t *, how many variables have it
 * SET_RATE_ALL    SET_RATE at the directory: ends when all variables in rounds have the rate, or when none is in rounds; dst: 0
 *   STOP, STOP_AT   dst = uint32_t *, how many sessions were told, or NULL
 *   CHECKPOINT      dst = uint64_t *, its number; CHECKPOINT_RESTORE: that of the one that is made then
 *   VARS and others of lists.h
 *                   dst = struct psi_list_sink *
 *   WAIT_CLUSTER    src = jobs, "ps,worker"
 *   BARRIER         src = const struct psi_barrier *, kept with its texts
 *   CALL            dst = struct psi_call_io *, kept with its memory
 *   ENQUEUE         src = const struct psi_enqueue *, kept with its memory; result: u64 elements that are in, errors too
 *   DEQUEUE         dst = struct psi_dequeue *, kept
 *   QUEUE_CLOSE     bytes != 0 cancels the ENQUEUEs that wait
 *   WORK_END        src = const struct psi_work_end *, kept; result: u64, 1 when the item was done before
 *   SET_STEP        src = const int64_t *, kept; result: i64, the step before
 *   STATUS          of a queue: var->queue has size and closed then
 *   READY           src = const struct psi_sync *: how it is to train with others, copied; NULL: on its own
 *                   dst = struct psi_readied *, kept, filled also when it fails, or NULL
 *                   bytes != 0: it stops where this session is the chief and nothing is live, before any INIT; the variables are
 *                   used from then on: what is lost of them later is ABORTED, never made anew
 *                   chief_number: after a stop, what it said: it goes on with what was given under it meanwhile
 *                   and initialises the rest; ABORTED, NEWER_CHIEF when the session has another number by now, or none
 *   ASSIGN, INIT_FROM
 *                   chief_number: of a READY that stopped: as that chief, to a variable that is not sealed; ABORTED, NEWER_CHIEF
 *   JOIN            after that READY; its answer is psi_client_member()
 *   PUSH            of a member of rounds, to a variable in rounds: its contribution to the round that psi_client_member() says;
 *                   result: u64, 1 when it was too late and dropped
 *   STEP            dst = struct psi_stepped *
 *   LEAVE           bytes != 0: it has finished, which is no loss
 *   RESET           src = the container's name, NULL: PSI_CONTAINER_DEFAULT; checked; kept
 *                   chief_number: of the READY that found half a model: nothing is done when there is a newer chief
 *   DELETE          src = const struct psi_var_name *, kept with its texts
 */
/* Bytes of a task's file of a checkpoint. */
struct psi_saved_range {
    uint64_t number;
    uint32_t kind, index; /* enum ps_file_kind */
    uint64_t offset;
    void *out;
    size_t bytes, out_bytes; /* bytes: at most PS_CONTROL_BODY_MAX; out_bytes: fewer at the file's end */
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
    size_t in_bytes;
    void *out;
    size_t out_capacity, out_bytes; /* out_bytes: also when it is more than there is room for */
};
struct psi_enqueue {
    const void *data; /* elements as common/tuple.h has them; of many: a batch */
    uint64_t bytes;
    uint32_t count;
    bool many;
    bool fill; /* work: all items, once */
    uint64_t fill_hash;
    bool apply; /* accumulator: a gradient; result: 1 when it counts, 0 when it came too late */
    int64_t local_step;
};
struct psi_dequeue {
    uint32_t count; /* accumulator: gradients that are to be in the one element */
    bool many, up_to;
    /** Memory for the elements that were taken, 8-aligned, kept until done(). Loop thread. An error ends the request, and the
     *  elements go back. */
    ps_status (*room)(struct psi_dequeue *d, const struct ps_dequeue_result *got, uint8_t **out, struct psi_err *err);
    /** All of them are there, and their ACK has not gone out. Loop thread; errors as those of room(). NULL: nothing to do. */
    ps_status (*here)(struct psi_dequeue *d, struct psi_err *err);
    void *ctx;
    struct ps_dequeue_result got;
    uint8_t *data; /* what room() gave, filled: any bytes, psi_tuple_check() is the caller's */
};
struct psi_work_end {
    uint64_t serial;
    uint32_t epoch;
    bool give_back;
};
/* Training in step with others (ps.h: ps_session_sync). */
struct psi_sync {
    ps_sync_mode mode;
    uint32_t workers;  /* 0: as many as the cluster lists */
    uint32_t replicas; /* of them close a round; 0: all */
    ps_worker_loss on_loss;
    uint32_t staleness;
    struct psi_var *step; /* the global step: its container is that of the rounds */
    bool finished;        /* it trains no more: as the chief it asks for the same, and nobody waits for it */
    uint64_t training;    /* of which this process was a member, as psi_member had it; 0: of none */
};
/* How a READY ended. */
struct psi_readied {
    uint64_t chief_number; /* it was the chief, under this number; 0: it was not */
    bool nothing;          /* it stopped: nothing is live */
};
struct psi_stepped {
    int64_t step; /* global step; staleness: as it was */
    bool taken;   /* the contribution is in the new values; staleness: true */
    bool lost;    /* the session had been taken for lost, and is a member anew */
};
struct psi_member {
    ps_sync_mode mode; /* NONE: it is no member */
    uint64_t id;
    uint64_t round;    /* that its pushes are for */
    uint64_t steps;    /* staleness: its own */
    uint64_t dropped;  /* steps whose contribution was not taken */
    uint64_t training; /* 0: not known */
};
struct psi_var_name {
    const char *container; /* NULL: PSI_CONTAINER_DEFAULT */
    const char *name;
};
struct psi_barrier {
    struct psi_var_name at; /* first: what is said of names is said of it */
    int count;              /* 0: all workers */
};

#endif

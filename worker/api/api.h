/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the public API share: the session object, blocking calls and requests.
 *
 * Threads: the core belongs to the loop thread (with PS_PROGRESS_CALLER to the thread that drives it, progress.c). A public
 * function makes a struct psi_api_call or takes a ps_request, hands it to the loop (worker/io.h) and, if it blocks, waits for it
 * under the session's lock. The loop thread copies what other threads read (variables, errors, cluster) under that lock before
 * the call ends. No function of the program is called under the session's lock.
 */
#ifndef PSI_WORKER_API_H
#define PSI_WORKER_API_H

#include "common/log.h"
#include "compute.h"
#include "hooks.h"
#include "scope.h"
#include "trace.h"
#include "worker/core/gets.h"
#include "worker/core/session.h"
#include "worker/core/training.h"
#include "worker/io.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum { PSI_GOODBYE_MS = 1000 }; /* longest wait in ms for answers to the last requests of a session that is left or closed */
enum { PSI_PARAM_ALIGN = 64 };
enum { PSI_COMPUTE_THREADS_MAX = 1024 }; /* limit of the CPU plugin */

struct psi_api_task {
    char name[PSI_TASK_NAME_MAX]; /* "/job:ps/task:0" */
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;  /* index of the task in its job */
    uint32_t index; /* index of the task in the core's table of tasks (struct psi_client) */
    bool keeps;     /* the task is in the directory's job: it saves checkpoints, and may hold variables that are not pinned */
    char address[PS_ADDRESS_BYTES_MAX + 1];
};

/* Which rows of an embedding are in the buffers of its parameter, and which are read ahead. */
struct psi_embedding {
    int64_t rows; /* rows of the variable */
    uint64_t row_bytes;
    /* sorted indices of rows: ids [count] of the rows in the buffers, next_ids [next_count] of the rows that are read ahead into
     * the second value buffer. NULL: no rows */
    int64_t *ids, *next_ids;
    size_t count, next_count;
    bool none;                 /* the program pushed no rows in this step: the next push is empty */
    enum psi_param_value next; /* under the lock: what the next pull finds in the second buffer */
    ps_request ahead;          /* reads next_ids into the second value buffer */
};

struct ps_param {
    ps_session *session;             /* may be freed before the last holder releases the parameter */
    atomic_uint holds;               /* references: 1 of the session, 1 for each ps_param_hold(); 0: this is ps_session.spare */
    ps_variable *variable;           /* NULL: not got yet, or the parameter is a dummy, given to the program after a failure */
    struct psi_training_param train; /* under the lock: the parameter's state in the machine of training (core/training.h) */
    ps_shape shape;
    char name[PS_NAME_BYTES_MAX + 1];
    struct psk_block value, grad; /* 64-byte aligned on the host */
    size_t bytes;                 /* size of `value` and of `grad` */
    ps_request push, pull;
    struct psk_call fetch; /* moves a gradient from the device to the host for a push */
    uint64_t fetched;      /* sequence number (psi_training_param.push_number) of the push that `fetch` is for */
    struct psk_block next; /* second value buffer, which ps_pull() exchanges with `value`; empty: not needed so far */
    /* second gradient buffer, which ps_param_grad() exchanges with `grad` after an interrupt or failure; empty: not needed */
    struct psk_block apart;
    /* The thread that pushes owns the next fields (gradient.c) */
    float *sum;                 /* [bytes] sum of ps_accumulate(); NULL: not needed so far */
    bool summed;                /* the next push sends `sum` */
    const float *lent;          /* memory from ps_param_lend(), which the next push sends; NULL: it sends `grad` */
    const float *pushed;        /* lent memory that the push in flight sends; NULL: it sends a gradient buffer */
    float limit;                /* factor of the next push, from ps_clip_norm(); 0: none was set, which counts as 1 */
    float pushed_with;          /* scale of the push in flight */
    bool brings;                /* the push in flight is a push-pull: the new values come into the second buffer */
    struct psi_embedding *rows; /* what only an embedding has: embedding.c; NULL: the parameter is no embedding */
};

static inline ps_param *psi_api_param(struct psi_training_param *p)
{
    return PSI_CONTAINER_OF(p, ps_param, train);
}

/* The fields that every push and pull reads come first, so that they share a cache line. */
struct ps_variable {
    ps_session *session;
    struct psi_var *var; /* the core's record of the variable; only the loop thread uses the record */
    /* [cut.count] parts, owned by the session; NULL: the variable is whole. A variable with parts has no `var` */
    ps_variable **parts;
    uint64_t from;    /* under the lock: 1 + version of the values from which gradients are computed; 0: no value was read */
    uint64_t version; /* under the lock: version after the last read or assignment */
    ps_dtype dtype;
    bool exact;    /* under the lock: no push changed the value during the last read, or the last access was an assignment */
    bool of_param; /* under the lock: the variable is a parameter's, and only the parameter's pulls set `from` */
    uint8_t slot_count;
    /* bit i: slot i has one element for each row. In the record of a variable with parts, row_slots and slot_count are 0 */
    uint8_t row_slots;
    ps_shape shape;
    uint64_t bytes;
    int task;             /* index of the variable's task in the task's job */
    struct psi_list link; /* link in session->variables */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char name[PS_NAME_BYTES_MAX + 1];    /* full name */
    char device[PSI_TASK_NAME_MAX + 16]; /* device of the variable's task, as "/job:ps/task:0/device:CPU:0" */
    char requested[PS_DEVICE_BYTES];     /* device that the program's device scopes ask for; "": none is asked for */
    struct psi_parts cut;                /* how the variable is cut, if it has parts */
    struct psi_part part;                /* if this variable is a part: which part of which variable; all 0: it is no part */
};

/* What ps_session_ready() found. */
struct psi_found {
    int variables;                  /* how many of the program's variables had a value before this call */
    int64_t step;                   /* the global step */
    int64_t model_step;             /* global step at which the present model began: that of its checkpoint, or 0 */
    uint64_t incarnation, creation; /* numbers of the container and of the global step in it; a new model has new numbers */
    bool restored, initialised;     /* this chief has given values: by its restore function; by the variables' initializers */
};

enum psi_opened {
    PSI_OPENED_NOT,    /* every call returns machine.error */
    PSI_OPENED_STATIC, /* as PSI_OPENED_NOT; a static object, for the argument NULL and if there is no memory; never freed */
    PSI_OPENED_HELP,   /* the program was started with --help: calls are refused, and no error sticks */
    PSI_OPENED
};

enum psi_target { PSI_TARGET_UNKNOWN, PSI_TARGET_EXECUTES_NOT, PSI_TARGET_EXECUTES };

/* How much the session knows of the cluster. A session never goes back to an earlier value of this list. */
enum psi_known {
    PSI_KNOWN_NOTHING,
    PSI_KNOWN_SERVERS, /* `tasks` has the tasks of server jobs, and job_task_count no longer changes */
    PSI_KNOWN_ALL      /* `tasks` has the serving tasks of other jobs as well */
};

struct ps_session {
    struct psi_io *_Atomic io; /* loop with the connections. NULL: not opened, or closed. Replaced by a recovery, when no other
                                * thread uses it */
    pid_t pid;                 /* the process that opened the session */
    unsigned forks;            /* number of fork() calls before the session was opened; a child process counts more (here.c) */
    struct psi_secure *secure; /* key and certificate of the connections; used by io's loop thread while io is open; NULL: none */
    /* number of interrupts so far (ps_interrupt(), leaving, closing). Each one ends all calls in progress with CANCELLED */
    atomic_uint interrupts;
    atomic_bool ends;   /* the session is being left or closed, which is the reason for the interrupt */
    atomic_uint poking; /* number of threads and signal handlers that may be waking io; io is closed only at 0 */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* psi_api_wake() signals it when something has changed. Monotonic clock */
    /* under the lock: */
    struct psi_session machine; /* states of the session (core/session.h), and its first error, which all calls return */
    unsigned interrupts_seen;   /* value of `interrupts` when the loop last ended the requests of calls that were interrupted */
    bool driving;               /* PS_PROGRESS_CALLER: a thread runs the loop in psi_io_turn(), or there is no io */
    uint32_t sleepers;          /* threads that wait for `changed` */
    uint32_t in_flight;         /* calls and requests given to the loop that have not ended */
    uint32_t landed; /* loop thread: requests that have ended, and that psi_api_drained() will subtract from in_flight */
    uint32_t users;  /* public calls between psi_api_begin() and psi_api_end() */
    uint32_t inside; /* threads that use `io` without the lock: psi_api_call_wait(), batches of gets, psi_api_go_inside() */
    struct psi_training train; /* parameters, and the calls that train them */
    struct psi_list variables, queues;
    struct psi_list wholes; /* variables that have parts, by ps_variable.link; their parts are in `variables` */
    struct psi_list plans;
    uint32_t plan_count; /* number of plans made so far */
    /* plan_runs: started runs of plans that wait for a thread, oldest first; plan_threads: number of threads for such runs */
    struct psi_list plan_runs;
    uint32_t plan_threads;
    /* frees the plans; set by the first plan. Called when the session is freed, when no plan is being built or run */
    void (*plans_free)(ps_session *s);
    void (*plans_forget)(ps_session *s); /* called before the client is freed: no plan refers to the client afterwards */
    enum psi_target target;              /* whether the session's target executes runs of plans; UNKNOWN until a plan asks */
    struct psi_gets gets;                /* requests that find or create variables: those put aside, to run as a batch, and
                                          * all that succeeded, which a recovery repeats */
    struct psi_scopes scopes;
    enum psi_known known;
    struct psi_api_task *tasks; /* tasks of server jobs, then serving tasks of other jobs; memory for tasks_all entries */
    _Atomic uint32_t task_count;
    uint32_t tasks_all;
    uint32_t job_task_count; /* highest index of a task in this session's job, + 1; 0: the cluster has no such job */
    uint32_t ps_count;
    bool chief;
    ps_variable *global_step_variable;
    int64_t global_step;
    struct psi_found found; /* what the last ps_session_ready() found */
    int64_t steps;
    bool steps_fixed; /* `steps` was given on the command line */
    bool goal_noted;  /* the log has said that `steps` was reached before this session began */
    ps_sync_options sync;
    double max_norm; /* in rounds: limit of the norm of averaged gradients; 0: no limit */
    ps_norm_of norm_of;
    uint32_t rows_per_step; /* rows per step, from ps_session_sync_rows(); 0: not given */
    ps_rows_mean rows_mean;
    /* ps_sync_finish() has succeeded: a recovered session asks which rounds are in force (READY), but does not join them */
    bool finished;
    uint64_t training; /* number of the training that the session has joined, or had joined before a recovery; 0: none */
    int64_t dropped;   /* steps of this session that were dropped in rounds: ps_dropped() */
    struct psi_hooks hooks;
    struct psi_trace *_Atomic trace; /* changed under the lock of span.c; NULL: no trace */
    /* result of the last trace of a step; UNAVAILABLE: the trace has not ended; NOT_FOUND: there was none */
    struct psi_err traced;
    struct psk_place *place; /* under the lock: the computing device; NULL: the CPU, not opened so far */
    /* constant after open: */
    enum psi_opened opened;
    bool by_caller;              /* PS_PROGRESS_CALLER */
    struct psi_monitor *monitor; /* NULL: the session is not monitored, so a loss ends it */
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    int64_t operation_timeout_ms, ready_timeout_ms, start_timeout_ms;
    struct psi_reach reach; /* for each task: when a connection was first wanted, or PSI_REACHED; kept across recoveries */
    /* absolute time in ms at which calls end, in place of operation_timeout_ms; 0: none. Set by ps_session_set_deadline() */
    uint64_t deadline_ms;
    ps_log_level log_level;
    ps_log_fn log;
    void *log_ctx;
    pthread_mutex_t log_lock; /* serialises log lines; taken with no other lock held */
    uint64_t seed;
    bool allow_soft_placement, log_device_placement;
    ps_log_fn placement_log;
    void *placement_log_ctx;
    uint32_t compute_threads; /* 0: not given */
    ps_param spare;           /* the dummy parameter that a program gets if there is no memory for a parameter */
};

/* A thread may use `io` without the lock while in_flight or inside counts it, because io is closed only when both counts are 0. A
 * recovery (monitored.c) first refuses all other threads (psi_session_bars()), waits until both counts are 0, and replaces io. */

struct psi_opening; /* the options that a session is opened with */
/** Shorten the deadline of all requests in flight to ms milliseconds (0: operation timeout), and wait until all have ended. The
 * caller ensures that none starts meanwhile. Without an io: does nothing. False: this thread's call was interrupted first. */
bool psi_api_hurry(ps_session *s, int64_t ms);
/** Send the last request before an io is closed, and wait at most ms milliseconds for the answer. leaves true: GOODBYE. leaves
 * false, in a recovery: BEAT (heartbeat). Its answer may ask the program to stop: the directory tells this only to the old
 * session, not to the new one that the recovery opens. */
void psi_api_part(ps_session *s, bool leaves, int64_t ms);
/** Wait until s->in_flight and s->inside are 0, and close the io. */
void psi_api_io_close(ps_session *s);
ps_status psi_api_io_open(ps_session *s, const struct psi_opening *opening, struct psi_err *err) PSI_MUST;
/** ps_session_open(), monitored if monitor is not NULL. The session owns monitor; a failure frees it, and *err has the error. */
ps_status psi_api_open(const ps_session_options *options, struct psi_monitor *monitor, ps_session **out_session,
                       struct psi_err *err) PSI_MUST;

/* ---- object.c ---- */
void psi_api_session_init(ps_session *s);
/* ---- here.c ---- */
void psi_api_be_here(ps_session *s);
/** True if the calling process has opened the session, and is no child of that process. */
bool psi_api_here(const ps_session *s);
/* ---- errors.c; lock.c (who, tell, chief_number, go_inside, go_outside); object.c (broken) ---- */
/** Check that s is not NULL and was opened by this process. may_block: also that the calling thread runs no callback of s. */
ps_status psi_api_check(ps_session *s, bool may_block, struct psi_err *err) PSI_MUST;
/** Do the checks with which most public calls begin: psi_api_check(), then psi_api_sticky(). PS_OK: the call may continue;
 * otherwise it must return this status. Only an error of psi_api_check() becomes the thread's last error here. */
ps_status psi_api_enter(ps_session *s, bool may_block) PSI_MUST;
/** Check that the session may make this kind of request. FAILED_PRECONDITION: an evaluator's request would change values. */
ps_status psi_api_may_change(const ps_session *s, enum psi_request_kind kind, struct psi_err *err) PSI_MUST;
/** True for an evaluator, which only reads. */
bool psi_api_evaluates(const ps_session *s);
/** Make a session that was never opened, and whose calls return *err; if err->code is PS_OK, they are refused because of --help.
 * err NULL: the static session that stands for the argument NULL. Never returns NULL. */
ps_session *psi_api_broken(const struct psi_err *err);
/** Log *err and make it the session's first error, unless the session has one or *err is an interrupt. The text of an error in a
 * hook gets the hook's name. Returns the code of the first error, or of the interrupt. Any thread. */
ps_status psi_api_stick(ps_session *s, const struct psi_err *err);
/** psi_api_stick() for a call that returns the error: `call` is put in front, and *err becomes the thread's last error. */
ps_status psi_api_refused(ps_session *s, struct psi_err *err, const char *call);
/** psi_api_stick() for an error from which the session does not recover, whatever its code. */
ps_status psi_api_stick_final(ps_session *s, const struct psi_err *err);
/** Describe the calling thread for functions of s->machine: its number, whether it is the loop thread, psi_api_visit.life. */
struct psi_who psi_api_who(const ps_session *s);
/** Report an event to the session's state machine, or ask it a question (psi_session_event()). Any thread, without the lock. */
uint64_t psi_api_tell(ps_session *s, enum psi_session_event event, uint64_t number);
/** Under the lock: the session's chief number, for the thread that runs the restore function and for the loop thread; else 0. */
uint64_t psi_api_chief_number(ps_session *s);
/** Under the lock: true if the session is being left or closed. */
static inline bool psi_api_closes(const ps_session *s)
{
    return s->machine.end != PSI_SESSION_OPEN;
}
/** Under the lock: PS_OK if this thread may start a call or request. Otherwise the error is in *err: the thread's call was
 * interrupted, the session closes, or another thread is recovering it. */
ps_status psi_api_may_start(ps_session *s, struct psi_err *err) PSI_MUST;
/** psi_api_may_start() for a request for which no thread will wait: PS_OK even if this thread's call was interrupted. */
ps_status psi_api_may_clear(ps_session *s, struct psi_err *err) PSI_MUST;
/** Keep the core's records valid for a call of several steps: a recovery waits until psi_api_go_outside(). */
ps_status psi_api_go_inside(ps_session *s, struct psi_err *err) PSI_MUST;
void psi_api_go_outside(ps_session *s);
/** PS_OK, or the session's first error, copied to *err. Any thread. */
ps_status psi_api_sticky(ps_session *s, struct psi_err *err) PSI_MUST;
/** Check after a wait whether the call may continue. Otherwise returns the session's first error, or CANCELLED. */
ps_status psi_api_go_on(ps_session *s) PSI_MUST;
/** End a training call. Returns st, or CANCELLED if the call was interrupted and the monitored session is lost or closes. The
 * interrupt, or the session's first error if its code is st, becomes the thread's last error. */
ps_status psi_api_last(ps_session *s, ps_status st);
/** Log an event; fields as in psi_log_event. Any thread, without a lock. */
void psi_api_log_fields(ps_session *s, int level, const char *event, const struct psi_kv *kv, size_t count);
#define psi_api_log(s_, level_, event_, ...) psi_api_log_fields(s_, level_, event_, PSI_KVS(__VA_ARGS__))
void psi_api_log_raw(ps_session *s, const char *line);
/** psi_io_config.log: write a line of the core to ps_session_options.log. */
void psi_api_log_core(void *session, int level, const char *event, const char *fields);

/* ---- interrupt.c ---- */
/* A public call that a thread is in. The thread has a list of them, from the innermost call outwards. */
struct psi_api_visit {
    ps_session *session;
    unsigned interrupts;         /* number of the session's interrupts when the outermost call began */
    uint64_t begun_ns;           /* time in ns at which the call began, if the session is traced; otherwise 0 */
    uint64_t life;               /* 1 + number of recoveries before the call pushed or ended a step; 0: it did neither */
    const char *name;            /* constant name, for traces */
    struct psi_api_visit *outer; /* the call that encloses this one, in a hook or in the library */
};
/** Begin a public call that waits more than once, or that uses the session or one of its objects after a wait. The session exists
 * until psi_api_end(), even if another thread closes it. An interrupt ends each wait of the call. s may be NULL. */
#define psi_api_begin(s_, visit_) psi_api_begin_as((s_), (visit_), __func__)
/** psi_api_begin() for a call that traces show under another name than the function's. name: a string constant. */
void psi_api_begin_as(ps_session *s, struct psi_api_visit *visit, const char *name);
/** Add the span of this call to the session's trace now, before the call ends; psi_api_end() then adds no span. */
void psi_api_noted(struct psi_api_visit *visit);
/** End the thread's innermost public call, which psi_api_begin() has begun on s, and add its span to the session's trace. */
void psi_api_end(ps_session *s);
/** psi_api_begin() now and psi_api_end() at the end of the enclosing block, for functions with several returns. */
#define PSI_API_VISIT(s_)                                                                                                        \
    __attribute__((cleanup(psi_api_visit_over))) struct psi_api_visit visit = {.session = (s_)};                                 \
    psi_api_begin((s_), &visit)
void psi_api_visit_over(struct psi_api_visit *visit);
/** The innermost call on s that this thread is in; NULL: it is in no call on s. */
struct psi_api_visit *psi_api_visit_of(const ps_session *s);
/** Number of the session's interrupts when this thread's outermost call began; outside of a call: the present number. */
unsigned psi_api_interrupts(const ps_session *s);
/** Check whether this thread's call may wait. CANCELLED: it was interrupted. Any thread, also under the lock. */
ps_status psi_api_interrupted(const ps_session *s, struct psi_err *err) PSI_MUST;
/** psi_api_interrupted() for a call that began at this number of interrupts. */
ps_status psi_api_interrupted_since(const ps_session *s, unsigned interrupts, struct psi_err *err) PSI_MUST;
/** True if *err says only that a call was interrupted or the session closes, so that the session has not failed. */
bool psi_api_is_interrupt(const struct psi_err *err);
/** End the waits of all calls that threads are in, as ps_interrupt() does. Any thread, also in a signal handler. */
void psi_api_interrupt(ps_session *s);
/** Loop thread, after psi_api_interrupt(): end the requests that interrupted calls await. False: there was no new interrupt. */
bool psi_api_poked(void *session, struct psi_client *c);
/** Call when s->io was set to NULL: wait until no other thread is still waking the old io, so that it can be freed. */
void psi_api_await_poking(const ps_session *s);

/* ---- lock.c; more: lock.h ---- */
/** Wait ms milliseconds, unless the session closes or the call is interrupted. Runs the loop if it has no thread of its own. */
void psi_api_pause(ps_session *s, int64_t ms);

/* ---- cluster.c ---- */
/** Learn the cluster: fill s->tasks and the counts. Blocks. timeout_ms <= 0: the operation timeout. */
ps_status psi_api_know_cluster(ps_session *s, int64_t timeout_ms, struct psi_err *err) PSI_MUST;
/** psi_api_know_cluster() for callers that only ask for the state: if the target refuses connections, UNAVAILABLE after 0.3 s. */
ps_status psi_api_look_cluster(ps_session *s, struct psi_err *err) PSI_MUST;

/* ---- serving.c ---- */
/** psi_api_know_cluster(), and, if the directory answers, add the serving tasks of training jobs to s->tasks. */
ps_status psi_api_know_tasks(ps_session *s, int64_t timeout_ms, struct psi_err *err) PSI_MUST;

/* ---- call.c: blocking calls. In other files: psi_api_has_var(), psi_api_find_task(), psi_api_likewise(), last errors ---- */
/* A blocking call. The caller sets req (kind, var, src, dst, bytes, scale, task), and reads its result there on success.
 * prepare() and finish() run on the loop thread, and may use the core's state. prepare() runs before the request is sent; if it
 * sets req.kind to PSI_REQ_NONE, nothing is sent. finish() runs after success. If finish() sets `again`, prepare() makes the next
 * request, with the deadline of the first one. A call with over() is asynchronous: no thread waits for it, and interrupts do not
 * end it. */
struct psi_api_call {
    struct psi_io_work work;
    ps_session *session;
    struct psi_client *client;                                            /* set on the loop thread */
    ps_status (*prepare)(struct psi_api_call *call, struct psi_err *err); /* may be NULL */
    void (*finish)(struct psi_api_call *call);                            /* may be NULL */
    /* called once at the end, with err set, on the loop thread; it may free the call. NULL: psi_api_call_wait() follows */
    void (*over)(struct psi_api_call *call);
    void *arg;             /* argument of prepare() and finish() */
    ps_variable *variable; /* variable of the call; may be NULL */
    const ps_variable *on; /* set req.var to on->var when the request starts; NULL: leave req.var */
    int64_t timeout_ms;    /* <= 0: the operation timeout */
    bool when_closing;     /* the call may start while the session closes, as ps_session_close() needs it */
    bool again;            /* set by finish(): the call goes on with another request */
    struct psi_request req;
    pthread_cond_t ended_cond;
    bool ended; /* under the session's lock */
    struct psi_err err;
};
/** Loop thread: check that requests can be made for v. UNIMPLEMENTED: v is partitioned. FAILED_PRECONDITION: v->var is NULL,
 * because the session was lost, and the recovery was broken off before it got v again. */
ps_status psi_api_has_var(const ps_variable *v, struct psi_err *err) PSI_MUST;
/** Start a call whose fields up to req are set. PS_OK: psi_api_call_wait() must follow, or over() is called. */
ps_status psi_api_call_start(struct psi_api_call *call, struct psi_err *err) PSI_MUST;
/** Start the calls whose work.link is in the list, all in one event of the loop, so that requests to one task are sent together.
 * PS_OK: the list is empty; call psi_api_call_wait() for each call without over(). On errors nothing starts, the list stays. */
ps_status psi_api_calls_start(ps_session *s, struct psi_list *works, struct psi_err *err) PSI_MUST;
/** Wait for the end of a call. ps_session_close() waits until this function returns; the session may be freed afterwards. */
ps_status psi_api_call_wait(struct psi_api_call *call, struct psi_err *err) PSI_MUST;
ps_status psi_api_call_run(struct psi_api_call *call, struct psi_err *err) PSI_MUST;
/** Loop thread: index of a task in the core's table. INVALID_ARGUMENT: the text names the tasks of the job. */
ps_status psi_api_find_task(const struct psi_client *c, const char *job, uint32_t task, uint32_t *out,
                            struct psi_err *err) PSI_MUST;
/** Append name and address of another failed task to *err, which has the error of a first one. device: the other task, or one of
 * its devices. */
void psi_api_likewise(ps_session *s, const char *device, struct psi_err *err);
/** Time in ms, by psi_io_now_ms(), at which a request that starts now must have ended. */
uint64_t psi_api_deadline_ms(const ps_session *s, int64_t timeout_ms);
/** Milliseconds from now until the time of psi_api_deadline_ms(); 1 if that time has passed. */
int64_t psi_api_left_ms(const ps_session *s, int64_t timeout_ms);
/** Timeout in ms of a call whose default is the ready timeout; 0: the deadline of ps_session_set_deadline() applies instead. */
int64_t psi_api_ready_timeout_ms(const ps_session *s);
/** Make *err the calling thread's last error; returns its code. */
ps_status psi_api_last_error_set(const struct psi_err *err);
/** Copy the calling thread's last error; zeroed if no call has failed. */
void psi_api_last_error_get(struct psi_err *err);
/** Write to *err why a callback of the program returned st (not PS_OK). The thread's last error was cleared before the callback.
 * True: the last error has status st, and is in *err. False: *err has a text made for st; INTERNAL if st is no status. */
bool psi_api_returned(ps_status st, struct psi_err *err);
/** PS_OK if st is PS_OK. Otherwise makes *err the thread's last error, and returns its code. */
ps_status psi_api_result(const struct psi_err *err, ps_status st);

/* ---- request.c ---- */
/** Start a request as ps_push_start() does, but without psi_api_values_check(). Only these fields of `what` are used: kind, src,
 * dst, bytes, scale, waited, interrupts. */
ps_status psi_api_start(ps_variable *v, const struct psi_request *what, int64_t timeout_ms, ps_request *req, ps_done_fn done,
                        void *ctx);

/** psi_api_start(), but put the request into works (psi_io_work.link): psi_io_submit_all() must follow before a thread waits.
 * locked: the caller holds the lock, and does without the thread's last error; v must be whole. */
ps_status psi_api_start_in(ps_variable *v, const struct psi_request *what, int64_t timeout_ms, ps_request *req, ps_done_fn done,
                           void *ctx, struct psi_list *works, bool locked);
/** psi_io_config.drained: count the requests that have ended in this event, and wake the waiting threads once for all of them. */
void psi_api_drained(void *session);
/** End a request of psi_api_start() as CANCELLED, if the loop has it and it has not ended. why: a literal. Loop thread. */
void psi_api_cancel(struct psi_client *c, ps_request *req, const char *why);

/* ---- found.c ---- */
/* A variable that the library finds by container and name, independent of scopes and definition: for a session that works for
 * other sessions (worker/exec). It is in no list of the session, and is freed when its owner drops it. */
struct psi_api_found {
    ps_variable variable; /* for psi_api_start(), valid after done() with PS_OK */
    struct psi_api_call call;
    bool keyed; /* `key` is used */
    uint8_t key[PSI_KEY_BYTES];
    /* called once, on the loop thread; err->code PS_OK: found */
    void (*done)(struct psi_api_found *found, const struct psi_err *err);
    /* called once for each psi_api_found_drop(), on the loop thread */
    void (*dropped)(struct psi_api_found *found, bool gone);
};
/**
 * Find the variable. key [PSI_KEY_BYTES]: the secret key of a container session/...; NULL: the key of s itself.
 * found    zeroed except for done and dropped; kept until it was dropped, or the session is closed.
 *
 * PS_OK: done is called exactly once, never within this call. After a failure this may be called again, also in done().
 *
 * Thread   any.
 * Errors   those of psi_api_may_start(), bad names
 */
ps_status psi_api_found_start(ps_session *s, const char *container, const uint8_t *key, const char *name, int64_t timeout_ms,
                              struct psi_api_found *found, struct psi_err *err) PSI_MUST;
/** Free the core's record of a variable that no request in flight uses. dropped() is called once. gone true: the record is freed;
 * false: something still uses it, so try again later. Any thread. If this returns an error, dropped() is not called. */
ps_status psi_api_found_drop(struct psi_api_found *found, struct psi_err *err) PSI_MUST;

/* The question whether an identity has rights to a variable; asked by a session that works for other identities. */
struct psi_api_right {
    struct psi_may may; /* identity and rights; the texts are kept until done() */
    const struct psi_api_found *found;
    uint64_t deadline_ms;
    struct psi_api_call call;
    /* called once, on the loop thread; err->code PS_OK: allowed */
    void (*done)(struct psi_api_right *right, const struct psi_err *err);
};
/**
 * Ask whether right->may is allowed. there true: ask the variable's task. false: the variable does not exist; ask the directory.
 *
 * deadline_ms  of psi_api_deadline_ms().
 * right        zeroed except for may and done; kept until done.
 *
 * PS_OK: done is called exactly once, never within this call.
 *
 * Thread       any.
 * Errors       those of psi_api_may_start()
 */
ps_status psi_api_right_start(const struct psi_api_found *found, bool there, uint64_t deadline_ms, struct psi_api_right *right,
                              struct psi_err *err) PSI_MUST;

/* ---- admin.c ---- */
enum { PSI_API_DIRECTORY = -1 };
/** Run req (kind, src, dst) at entry `task` of ps_cluster_tasks(), or at PSI_API_DIRECTORY. Blocks. */
ps_status psi_api_admin(ps_session *s, const struct psi_request *req, int task, int64_t timeout_ms, struct psi_err *err) PSI_MUST;
/** Do what ps_cluster_info() does. needed: a task that refuses connections may be starting, so try it for up to timeout_ms. */
ps_status psi_api_infos(ps_session *s, bool needed, ps_task_info *infos, size_t item_bytes, int count, int64_t timeout_ms,
                        struct psi_err *err) PSI_MUST;

/* ---- get.c ---- */
/* A get: the request by which a task finds or creates a variable or queue. A recovery repeats the gets of the session. */
struct psi_api_get {
    struct psi_get get; /* state of this get in the machine of gets (core/gets.h) */
    struct psi_api_call call;
    ps_variable_spec spec;
    ps_initializer init; /* spec.init and spec.optimizer point to `init` and `optimizer` */
    ps_optimizer optimizer;
    struct psi_scoped scoped;
    enum psi_scope_how how;
    bool queue; /* the get is of a queue: v is ps_queue.variable */
    struct psi_queue_spec elements;
    struct psi_part part; /* if the variable is a part: which part of which variable; all 0: it is no part */
    bool only_reads;      /* get of an evaluator: the variable is not created */
    bool differs;         /* a recovery has found another dtype, shape or queue definition than before */
    uint64_t creation;    /* creation number of the variable at the last get */
    uint64_t checkpoint;  /* number of the checkpoint from which the variable had its value in this recovery; 0: none */
    ps_variable *v;       /* the public record of the variable; the get owns it until the session has got the variable */
    ps_variable **out;    /* set to v on success */
    bool *out_open;       /* set to true on success, under the lock; NULL: the caller does not need it */
};
/** Make a get, not yet run: check the definition, and find name and device of the variable by the session's scopes. given: of any
 * version of ps.h (given->struct_bytes). *out_variable: set when the variable is got. */
ps_status psi_api_get_new(ps_session *s, const ps_variable_spec *given, enum psi_scope_how how, ps_variable **out_variable,
                          struct psi_api_get **out_get, struct psi_err *err) PSI_MUST;
/** Run the gets of psi_api_put_aside(), then those in `gets`, which is empty afterwards. Blocks. The caller zeroes *err, which
 * gets the first error. */
void psi_api_gets_run(ps_session *s, struct psi_list *gets, struct psi_err *err);
/** Copy the spec of a program that was built with any version of ps.h. optimizer: memory to which to->optimizer points. */
ps_status psi_api_spec_take(const ps_variable_spec *from, enum psi_scope_how how, ps_variable_spec *to, ps_optimizer *optimizer,
                            struct psi_err *err) PSI_MUST;
/** Get or create, or look up, a whole variable in the session's scopes. given: as in psi_api_get_new(). *err must be zeroed. */
ps_status psi_api_get_one(ps_session *s, const ps_variable_spec *given, enum psi_scope_how how, ps_variable **out_variable,
                          struct psi_err *err) PSI_MUST;
void psi_api_gets_drop(ps_session *s, struct psi_list *gets);
/** Exclude v from the gets that recoveries repeat. v may be NULL. */
void psi_api_get_once(ps_session *s, const ps_variable *v);
/** If the session is an evaluator, change the get so that it only looks the variable up, and does not create it. */
void psi_api_get_looks(const ps_session *s, struct psi_api_get *get);
/** Run the gets of psi_api_put_aside(), then this get. Blocks. *err must be zeroed. */
ps_status psi_api_get_run(ps_session *s, struct psi_api_get *get, struct psi_err *err) PSI_MUST;
/** Loop thread: copy from v->var to the public record v what the owner's answer said: task, dtype, shape, slots, version. */
void psi_api_variable_known(ps_variable *v, const struct psi_client *c);
/** Put the get aside, so that many gets run together: at the session's next get that is not put aside, or at psi_api_settle(). */
void psi_api_put_aside(ps_session *s, struct psi_api_get *get);
/** Run the gets of psi_api_put_aside(); if the session has an error, only if `anyway`. Blocks. Returns the session's first error,
 * or CANCELLED after an interrupt. */
ps_status psi_api_settle(ps_session *s, bool anyway);
/** For a recovery: repeat the session's successful gets, in order, at the new client. The program's objects stay valid.
 * waits: a queue that the program had only looked up must exist again, else UNAVAILABLE. Blocks. Returns the first error that no
 * later attempt can repair; if there is none, the first error. */
ps_status psi_api_get_again(ps_session *s, int64_t timeout_ms, bool waits, struct psi_err *err) PSI_MUST;
/** Note that the program has deleted a variable: recoveries do not get it. Ignored for the global step, and for a parameter whose
 * get was put aside. */
void psi_api_get_deleted(ps_session *s, const struct psi_scoped *scoped);
/** Before the client is freed, while nothing is in flight: clear the pointers to its records, ps_variable.var. */
void psi_api_gets_forget(ps_session *s);
/** At the end of a recovery: number of the newest checkpoint from which a variable got its value; 0: none. *out_all: every
 * variable got its value from a checkpoint. Variables that are restored later count in the next recovery. */
uint64_t psi_api_gets_restored(ps_session *s, bool *out_all);
void psi_api_gets_free(ps_session *s);
/** Get or create `global_step`, once per session. */
ps_status psi_api_global_step(ps_session *s, ps_variable **out_variable, struct psi_err *err) PSI_MUST;

/* ---- ended.c ---- */
/** Loop thread: note the version after a request that has read or assigned its variable, in the order in which requests end. */
void psi_api_note_version(ps_variable *v, const struct psi_request *req);
/** At the end of a request for rows: free the rows. good: success, so copy gathered rows to the caller's memory. Any thread. */
void psi_api_rows_end(struct psi_request *req, bool good);

/* ---- variable.c ---- */
/** Run req (kind, src, dst, bytes, scale) on v and note v's new version; *req gets the result. Blocks. */
ps_status psi_api_operate(ps_variable *v, struct psi_request *req, struct psi_err *err) PSI_MUST;
/** Read *version and *exact of a variable or parameter together; 0 and false in a child of fork(). Any thread. */
uint64_t psi_api_version(ps_session *s, const uint64_t *version, const bool *exact, bool *out_exact);
/** psi_api_call.finish: store whether call->variable has a value in *(bool *)call->arg. */
void psi_api_finish_status(struct psi_api_call *call);
/** Check a request for a variable's values as far as possible without the task: memory, size, scale, no strings. Any thread. */
ps_status psi_api_values_check(const ps_variable *v, const struct psi_request *req, struct psi_err *err) PSI_MUST;
/** True if slot `slot` (from 0 on) of v has one element for each row. */
bool psi_api_slot_is_by_row(const ps_variable *v, uint32_t slot);
/** Check that v's value has `bytes`, the size of the caller's memory. INVALID_ARGUMENT: the text has both sizes. PS_OK if v is
 * NULL or has strings, which the calls refuse with another text. */
ps_status psi_api_room_check(const ps_variable *v, const char *call, size_t bytes, struct psi_err *err) PSI_MUST;

/* ---- scope.c ---- */
/** Find name, container and device of a variable or queue by the open scopes, and note that the session has got this name.
 * Errors: INVALID_ARGUMENT, ALREADY_EXISTS. */
ps_status psi_api_scope(ps_session *s, const ps_variable_spec *spec, enum psi_scope_how how, const struct psi_queue_spec *queue,
                        struct psi_scoped *out, struct psi_err *err) PSI_MUST;
/** Find only the full name and container of a name in the open scopes. */
ps_status psi_api_scope_name(ps_session *s, const char *name, struct psi_scoped *out, struct psi_err *err) PSI_MUST;
/** Call if a scope could not be pushed or popped: *err sticks to the session and is the thread's last error. Returns its code. */
ps_status psi_api_scope_failed(ps_session *s, struct psi_err *err, const char *what);
/** Undo psi_api_scope() for a variable that could not be got: forget that the session has got the name. */
void psi_api_unscope(ps_session *s, const struct psi_scoped *scoped);

/** Get the name prefix and the device of a new operation of a plan from the open scopes. type: the operation's type, for device
 * setters. device: an innermost device scope; NULL: none. prefix [PS_NAME_BYTES_MAX + 1]: "" if no name scope is open.
 * Errors: those of opening a scope of `device`. */
ps_status psi_api_scope_row(ps_session *s, const char *type, const char *device, char *prefix, struct psi_device *out,
                            struct psi_err *err) PSI_MUST;

/* ---- device.c ---- */
/** Write the devices of the cluster, "/job:ps/task:0/device:CPU:0, ...", for an error; "" if they are not known; n >= 64. */
void psi_api_devices_text(ps_session *s, char *dst, size_t n);
/** True for CPU:0, which every task has, and for any device if the session allows soft placement. */
bool psi_api_device_is_everywhere(const ps_session *s, const struct psi_device *d);
/** Check by the task's answer that the task has d. INVALID_ARGUMENT, PS_REASON_NO_DEVICE: the text names the task's devices. */
ps_status psi_api_device_check(const ps_task_info *task, const struct psi_device *d, struct psi_err *err);
/** Log advice (--placement balanced) if a ps task has over twice the others' average bytes, and not due to one large variable. */
void psi_api_log_balance(ps_session *s);
/** Log "v1: (Variable): /job:ps/task:0/device:CPU:0", if the session's options ask for it. */
void psi_api_log_placement(ps_session *s, const ps_variable *v, const char *type);

/* ---- compute.c; what worker/nn needs of it is in compute.h ---- */
/** Open the computing device for a session that is being opened: `device`, or the CPU instead if the options allow that. */
ps_status psi_api_compute_open(ps_session *s, const char *device, uint32_t threads, struct psi_err *err) PSI_MUST;
/** The session's computing device. NULL: the CPU, not opened so far. */
struct psk_place *psi_api_compute_place(ps_session *s);
/** Close the device, after the parameters are freed. */
void psi_api_compute_close(ps_session *s);

/* ---- sync.c ---- */
/** The session's options of rounds or staleness, for the requests READY and JOIN to the directory. step: variable of the global
 * step; NULL: not needed. */
struct psi_sync psi_api_sync_of(ps_session *s, struct psi_var *step);
/** Join the group of workers that the directory found or made at READY. PS_OK at once if the program wants neither rounds nor
 * staleness, or if the session has finished. Blocks. */
ps_status psi_api_sync_join(ps_session *s, int64_t timeout_ms, struct psi_err *err) PSI_MUST;
/** True if the session is a member of rounds: its pushes are contributions to a round, and are not applied at once. */
bool psi_api_in_rounds(ps_session *s);
/** Call when a member's step is complete. Blocks until the next step may begin. first: this is the session's first step, which
 * has a longer timeout, as other workers may still be starting. *out_step: in rounds, the global step. */
ps_status psi_api_sync_meet(ps_session *s, bool first, int64_t *out_step, struct psi_err *err) PSI_MUST;
/** Call when the session has finished: ends its membership, if it is a member. Blocks. */
ps_status psi_api_sync_finish(ps_session *s, struct psi_err *err) PSI_MUST;
/** Call when the session closes: ends the membership as finished, unless the session has failed. Blocks for at most a second. */
void psi_api_sync_leave(ps_session *s);

/* ---- step.c ---- */
/** Add to the global step, on the loop thread: so the thread in ps_step_done() need not wake up only to start the addition. */
void psi_api_step_add(ps_session *s, ps_variable *variable, struct psi_training_add *add);
void psi_api_steps_free(ps_session *s);

/* ---- job.c ---- */
/** Report `event`, which says whether the step is skipped (*out_skips). If it is not, check that the session may push and end
 * steps. FAILED_PRECONDITION: ps_session_job_done() was called, or s is an evaluator. */
ps_status psi_api_trains(ps_session *s, enum psi_hook_event event, bool *out_skips, struct psi_err *err) PSI_MUST;

/* ---- param.c ---- */
/** Allocate a parameter for a variable of this name, with zeroed buffers of `shape`. NULL: *err has the reason. */
ps_param *psi_api_param_new(ps_session *s, const char *name, const ps_shape *shape, struct psi_err *err);
void psi_api_param_free(ps_param *p);
/** Add p to the session, which owns it from now on. p->variable NULL: its get is put aside, or p is a dummy. */
void psi_api_param_keep(ps_session *s, ps_param *p);
/** Make the dummy parameter that the program gets after a failure; the session owns it. Never NULL. */
ps_param *psi_api_param_dummy(ps_session *s, const char *name, const ps_shape *shape);
/** If p's variable is in parts or must exist, get it now, which blocks. Otherwise put its get aside (psi_api_put_aside()). */
ps_status psi_api_param_variable(ps_session *s, const ps_variable_spec *spec, ps_param *p, struct psi_err *err) PSI_MUST;
/** Wait until p's last push is answered, or the call is interrupted. */
ps_status psi_api_param_wait(ps_param *p) PSI_MUST;
/** psi_api_check() and psi_api_settle(), with which calls of training begin. */
ps_status psi_api_enter_settled(ps_session *s) PSI_MUST;
/** psi_api_refused() with the thread's last error, whose code is st. Returns the code of the session's first error. */
ps_status psi_api_last_sticks(ps_session *s, ps_status st, const char *call);
void psi_api_params_free(ps_session *s);
/* ---- ready.c; psi_api_is_over() is in stop.c, psi_api_params_*() in param.c ---- */
void psi_api_set_global_step(ps_session *s, int64_t step);
/** Make the session ready (ready.c). Blocks for timeout_ms, plus the time to get variables. The caller makes *err stick. */
ps_status psi_api_ready(ps_session *s, int64_t timeout_ms, struct psi_found *out_found, struct psi_err *err) PSI_MUST;
/** True if no further step begins, although nothing has failed: the goal is reached, or somebody has asked to stop. */
bool psi_api_is_over(ps_session *s);
/** For a recovery, when nothing is in flight: forget values read ahead, gradient sums, and additions to the global step. */
void psi_api_params_forget(ps_session *s);
/** Call before a step ends: in rounds, pushes a gradient without rows for each embedding not pushed in the step. Blocks. */
ps_status psi_api_params_push_none(ps_session *s) PSI_MUST;

/* ---- keys.c ---- */
/** Get name ("session/" and 16 hexadecimal digits) and key of the container of s. The container's variables are deleted when the
 * session says GOODBYE, or when the session's lease ends. A recovered session has another container. Blocks. Any thread but the
 * loop's. Errors: those of psi_api_call_run(). */
ps_status psi_session_container(ps_session *s, char out_name[PSI_SESSION_CONTAINER_BYTES], uint8_t out_key[PSI_KEY_BYTES],
                                struct psi_err *err) PSI_MUST;

/* ---- parts_get.c ---- */
/** Get a variable in parts. spec: as psi_api_spec_take() gives it. Blocks. */
ps_status psi_api_parts_get(ps_session *s, const ps_variable_spec *spec, ps_variable **out_variable,
                            struct psi_err *err) PSI_MUST;
/* ---- parts_fit.c ---- */
/** Ask the ps tasks whether the parts, of which none is pinned to a task, can fit their memory budgets. FAILED_PRECONDITION
 * (PS_REASON_TOO_LARGE): they cannot, and the text says what would fit. PS_OK also if a budget is not known. Blocks. */
ps_status psi_api_parts_fit(ps_session *s, const ps_variable_spec *spec, const struct psi_parts *cut,
                            struct psi_err *err) PSI_MUST;
/* ---- embedding_push.c ---- */
/** Start to push the gradient rows of the embedding p. The gradient is in host memory. */
ps_status psi_api_embedding_push(ps_param *p, ps_done_fn done) PSI_MUST;
/** Loop thread: mark the variables of the session's embeddings (psi_var.by_rows): their gradients have rows, also in rounds. */
void psi_api_embeddings_note(ps_session *s);
/** Under the lock: forget rows that were read ahead. */
void psi_api_embedding_forget(ps_param *p);
void psi_api_embedding_free(ps_param *p);
/* ---- parts_op.c, for partitioned variables; its other functions are in parts.h ---- */
/** Run one operation on all parts of v at once. PS_OK: *req has the result. Errors name the failed part and the changed ones. */
ps_status psi_api_parts_run(ps_variable *v, struct psi_request *req, struct psi_err *err) PSI_MUST;

#endif

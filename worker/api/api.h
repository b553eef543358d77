/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the public API share: the session object, blocking calls and requests.
 *
 * Threads: the core belongs to the loop thread (with PS_PROGRESS_CALLER to the thread that drives it, progress.c). A public
 * function makes a struct psi_api_call or takes a ps_request, hands it to the loop (worker/io.h) and, if it blocks, waits for it
 * under the session's lock. What other threads read (variables, errors, cluster) is copied on the loop thread under that lock
 * before the call ends. There is one lock, and nothing is called while it is held.
 */
#ifndef PSI_WORKER_API_H
#define PSI_WORKER_API_H

#include "common/log.h"
#include "compute.h"
#include "hooks.h"
#include "scope.h"
#include "trace.h"
#include "worker/core/session.h"
#include "worker/core/training.h"
#include "worker/io.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum { PSI_GOODBYE_MS = 1000 }; /* how long ps_session_close() waits for the tasks' answers to GOODBYE */
enum { PSI_PARAM_ALIGN = 64 };
enum { PSI_COMPUTE_THREADS_MAX = 1024 }; /* limit of the CPU plugin */

/* A task of the cluster, readable at any time. */
struct psi_api_task {
    char name[PSI_TASK_NAME_MAX]; /* "/job:ps/task:0" */
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;  /* index in its job */
    uint32_t index; /* index in the core's table */
    bool keeps;     /* it is of the directory's job: variables without a pin are placed there, and it saves checkpoints */
    char address[PS_ADDRESS_BYTES_MAX + 1];
};

/* Rows of an embedding that its parameter's buffers have, or that are on their way. */
struct psi_embedding {
    int64_t rows; /* of the variable */
    uint64_t row_bytes;
    int64_t *ids, *next_ids; /* [count], [next_count]; rising; NULL: none yet */
    size_t count, next_count;
    bool coming, there; /* under the lock: rows for the next pull come to the second buffer; or have come */
    ps_request ahead;
};

struct ps_param {
    ps_session *session;             /* gone when only holders are left */
    atomic_uint holds;               /* the session, and each ps_param_hold(); 0: ps_session.spare */
    ps_variable *variable;           /* NULL: not got yet, or a dummy, made after a failure */
    struct psi_training_param train; /* under the lock: what the machine knows of it */
    ps_shape shape;
    char name[PS_NAME_BYTES_MAX + 1];
    struct psk_block value, grad; /* 64-byte aligned on the host */
    size_t bytes;                 /* size of each */
    ps_request push, pull;
    struct psk_call fetch; /* brings a gradient from the device to the host, for a push */
    struct psk_block next; /* the second buffer, which ps_pull() exchanges with value; empty: not needed yet */
    /* the second gradient buffer, which an interrupted ps_param_grad() exchanges with grad; empty: not needed yet */
    struct psk_block apart;
    /* of the thread that pushes: gradient.c */
    float *sum;                 /* [bytes] of ps_accumulate(); NULL: not needed yet */
    bool summed;                /* the next push sends the sum */
    float limit;                /* the next push has this scale, by ps_clip_norm(); 0: 1 */
    float pushed_with;          /* scale of the push in flight */
    bool brings;                /* the push in flight brings values to the second buffer */
    struct psi_embedding *rows; /* an embedding: embedding.c. NULL: none */
};

static inline ps_param *psi_api_param(struct psi_training_param *p)
{
    return PSI_CONTAINER_OF(p, ps_param, train);
}

/* Fields that every push and pull reads come first, for the cache. */
struct ps_variable {
    ps_session *session;
    struct psi_var *var; /* for the loop thread; other threads only pass the pointer on */
    ps_variable **parts; /* [cut.count], of the session; NULL: the variable is whole. With parts `var` is NULL */
    uint64_t from;       /* under the lock: 1 + version of the values that gradients are computed from; 0: no value was read */
    uint64_t version;    /* under the lock: after the last read or assignment */
    ps_dtype dtype;
    bool exact;
    bool of_param; /* under the lock: belongs to a parameter, whose pulls alone set `from` */
    uint8_t slot_count;
    uint8_t row_slots; /* bit i: slot i has one element for each row. With parts this and slot_count are those of each part */
    ps_shape shape;
    uint64_t bytes;
    int task;
    struct psi_list link; /* in session->variables */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char name[PS_NAME_BYTES_MAX + 1];    /* full name */
    char device[PSI_TASK_NAME_MAX + 16]; /* "/job:ps/task:0/device:CPU:0" */
    char requested[PS_DEVICE_BYTES];     /* device that its scopes asked for; "": none */
    struct psi_parts cut;                /* with parts: how it is cut */
    struct psi_part part;                /* what it is a part of; all 0: of nothing */
};

struct ps_session {
    struct psi_io *_Atomic io; /* NULL: not opened, or closed; a recovery of a monitored session replaces it, see below */
    pid_t pid;                 /* process that opened the session */
    unsigned forks;            /* count of forks when it was opened: psi_api_here() */
    struct psi_secure *secure; /* key and certificate of its connections; used by io's loop thread while io is open; NULL: none */
    bool is_static;            /* the static object for lack of memory */
    bool help;                 /* made by --help: calls are refused, without a sticky error */
    /* number of ps_interrupt() calls, and of interrupts by leaving and closing. A call that began before the last one ends
     * CANCELLED */
    atomic_uint interrupts;
    atomic_bool ends;   /* the session is being left or closed, which is the reason for the interrupt */
    atomic_uint poking; /* number of threads and signal handlers that may be waking io; io is closed when it is 0 */
    pthread_mutex_t lock;
    pthread_cond_t
        changed; /* signalled when the machine of training has had an event, and when the session closes. Monotonic clock */
    /* under the lock: */
    struct psi_session machine; /* the first error, which is sticky; loss, recovery and end */
    unsigned interrupts_seen;   /* value of `interrupts` that the loop has seen: it has ended the requests of older calls */
    bool driving;               /* PS_PROGRESS_CALLER: a thread is in psi_io_turn(), or there is no io to drive */
    bool stopping;              /* the cluster has asked this session to stop, or --help was given */
    bool job_done;              /* ps_session_job_done() was called */
    uint32_t sleepers;          /* threads that wait for `changed` */
    bool ended;                 /* loop thread: a request has ended, and psi_api_drained() wakes who waits */
    uint32_t in_flight;         /* calls and requests that were handed to the loop and have not ended */
    uint32_t users;             /* public calls between psi_api_begin() and psi_api_end() */
    uint32_t inside;            /* calls whose threads have not left psi_api_call_wait(), and batches of gets */
    struct psi_training train;  /* parameters, and the calls that train them */
    struct psi_list variables, queues;
    struct psi_list wholes; /* ps_variable.link of partitioned variables, whose parts are in `variables` */
    struct psi_list plans;  /* ps_plan.link */
    uint32_t plan_count;    /* number of plans made so far */
    /* for worker/plan: started runs that wait for a thread, oldest first; number of threads that take them */
    struct psi_list plan_runs;
    uint32_t plan_threads;
    /* for worker/plan, set by the first plan: called when the session is freed, when nobody builds or runs a plan */
    void (*plans_free)(ps_session *s);
    void (*plans_forget)(ps_session *s); /* called before the client is freed: no plan refers to it afterwards */
    /* target_asked: a plan has asked the target whether it executes runs; target_executes: the answer */
    bool target_asked, target_executes;
    /* struct psi_api_get of parameters that are put aside: got with the next get, or at first use */
    struct psi_list aside;
    bool settling; /* a thread is getting those that were put aside */
    struct psi_scopes scopes;
    bool cluster_known;         /* tasks and job_task_count do not change any more */
    struct psi_api_task *tasks; /* tasks of server jobs, then tasks of other jobs that serve; room for tasks_all */
    _Atomic uint32_t task_count;
    uint32_t tasks_all;
    bool serving_known;      /* the tasks of other jobs that serve are in tasks */
    uint32_t job_task_count; /* of this session's job, with missing indices; 0: not listed */
    uint32_t ps_count;
    bool chief;
    ps_variable *global_step_variable;
    int64_t global_step, found_global_step, found; /* found: number of variables that had a value before */
    int64_t steps;
    bool steps_fixed;     /* steps was given on the command line */
    bool goal_noted;      /* it was logged that the goal had been reached before this session */
    ps_sync_options sync; /* mode NONE: the session trains alone */
    /* ps_sync_finish() has succeeded: after a recovery the session asks for the same rounds, and does not join */
    bool finished;
    uint64_t training; /* training of which it is a member, or was before a recovery; 0: none */
    int64_t dropped;   /* dropped steps in rounds */
    struct psi_hooks hooks;
    struct psi_trace *_Atomic trace; /* changes under the lock of span.c; NULL: no trace */
    /* how the last trace of a step ended; UNAVAILABLE: it has not ended, NOT_FOUND: there was none */
    struct psi_err traced;
    struct psk_place *place; /* under the lock: the device that computes; NULL: the CPU, not opened yet */
    /* constant after open: */
    bool opened;                 /* false: every call returns `error` */
    bool by_caller;              /* PS_PROGRESS_CALLER */
    struct psi_monitor *monitor; /* NULL: the session is not monitored, a loss ends it */
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    int64_t operation_timeout_ms, ready_timeout_ms, start_timeout_ms;
    struct psi_reach reach; /* for the core; kept across recoveries */
    /* deadline of the program's calls in place of operation_timeout_ms; 0: none. The program writes it while it is in no call */
    uint64_t deadline_ms;
    ps_log_level log_level;
    ps_log_fn log;
    void *log_ctx;
    pthread_mutex_t log_lock; /* serialises log lines; taken with no other lock held */
    uint64_t seed;
    bool allow_soft_placement, log_device_placement, prefetch;
    ps_log_fn placement_log;
    void *placement_log_ctx;
    uint32_t compute_threads; /* 0: not given */
    ps_param spare;           /* the dummy parameter for lack of memory */
};

/*
 * Who may use io without the lock: it exists from opening to close, so a thread that is counted in in_flight or inside may use
 * it. A recovery (monitored.c) first keeps all other threads out (psi_session_bars()), then waits until nobody is counted, and
 * only then replaces io.
 */

/* ---- session.c ---- */
struct psi_opening; /* the options that a session is opened with */
/** Let what is in flight end within ms, and wait for that. Nothing may be started meanwhile. Does nothing without an io. False:
 * this thread's call was interrupted while something was still in flight. */
bool psi_api_hurry(ps_session *s, int64_t ms);
/** Send the last request of an io, for ms at most: GOODBYE if the session leaves; otherwise a beat, whose answer tells whether
 * to stop, because the recovered session is a new one for the directory. */
void psi_api_part(ps_session *s, bool leaves, int64_t ms);
/** Wait until no thread is inside, and close the io. Nothing is in flight. */
void psi_api_io_close(ps_session *s);
/** Open another io with the same options. */
ps_status psi_api_io_open(ps_session *s, const struct psi_opening *opening, struct psi_err *err) PSI_MUST;
/** ps_session_open(), monitored if monitor is not NULL; takes monitor, also on failure. Text of the error in *err. */
ps_status psi_api_open(const ps_session_options *options, struct psi_monitor *monitor, ps_session **out_session,
                       struct psi_err *err) PSI_MUST;

/* ---- object.c ---- */
/** Initialise a zeroed session. */
void psi_api_session_init(ps_session *s);
/* ---- here.c ---- */
/** Note that this process owns the session. */
void psi_api_be_here(ps_session *s);
/** True if the calling process has opened the session, and is no child of that process. No system call. */
bool psi_api_here(const ps_session *s);
/* ---- errors.c; psi_api_broken(): object.c ---- */
/** Check what every call checks first: never opened, called after fork() or in a callback, closing. s NULL is INVALID_ARGUMENT.
 * may_block: the call must not be in a callback. */
ps_status psi_api_check(ps_session *s, bool may_block, struct psi_err *err) PSI_MUST;
/** psi_api_check(), and the session's first error. PS_OK: the call may go on; otherwise it returns this status, which is the
 * thread's last error. */
ps_status psi_api_enter(ps_session *s, bool may_block) PSI_MUST;
/** FAILED_PRECONDITION: a request of this kind changes a value, and this session is an evaluator. */
ps_status psi_api_may_change(const ps_session *s, enum psi_request_kind kind, struct psi_err *err) PSI_MUST;
/** True for an evaluator, which only reads. */
bool psi_api_evaluates(const ps_session *s);
/** A session that was never opened, with this error (PS_OK: --help; NULL: there is no session). Never NULL. */
ps_session *psi_api_broken(const struct psi_err *err);
/** Make *err the session's first error unless it has one, and log it; an error in a hook gets the hook's name. Returns the code
 * of the first error. Any thread. */
ps_status psi_api_stick(ps_session *s, const struct psi_err *err);
/** psi_api_stick() for a call that returns the error: `call` is put in front, and *err becomes the thread's last error. */
ps_status psi_api_refused(ps_session *s, struct psi_err *err, const char *call);
/** psi_api_stick() for an error from which the session does not recover, whatever its code. */
ps_status psi_api_stick_final(ps_session *s, const struct psi_err *err);
/** Who calls, for the machine. */
struct psi_who psi_api_who(const ps_session *s);
/** Bring the machine of the session an event, or ask it: psi_session_event(). Any thread, without the lock. */
uint64_t psi_api_tell(ps_session *s, enum psi_session_event event, uint64_t number);
/** Under the lock: chief number of the restore function, if this thread, or the loop, is in it; else 0. */
uint64_t psi_api_chief_number(ps_session *s);
/** Under the lock: true if the session is being left or closed. */
static inline bool psi_api_closes(const ps_session *s)
{
    return s->machine.end != PSI_SESSION_OPEN;
}
/** Under the lock: PS_OK if this thread may start a call or request. Otherwise the error is in *err: the session closes, or
 * another thread is recovering it. */
ps_status psi_api_may_start(ps_session *s, struct psi_err *err) PSI_MUST;
/** As psi_api_may_start(), also in a call that is interrupted: for what the call leaves behind and nobody waits for. */
ps_status psi_api_may_clear(ps_session *s, struct psi_err *err) PSI_MUST;
/** Begin a call of several steps that keeps records of the core in between: no recovery takes place until psi_api_go_outside().
 */
ps_status psi_api_go_inside(ps_session *s, struct psi_err *err) PSI_MUST;
void psi_api_go_outside(ps_session *s);
/** PS_OK, or the session's first error, copied to *err. Any thread. */
ps_status psi_api_sticky(ps_session *s, struct psi_err *err) PSI_MUST;
/** Check after a wait whether the call may go on. Otherwise returns the session's first error, or CANCELLED. */
ps_status psi_api_go_on(ps_session *s) PSI_MUST;
/** Return st from a call of training. If st is the session's first error, perhaps met by another thread, it becomes this
 * thread's last error. */
ps_status psi_api_last(ps_session *s, ps_status st);
/** Log an event; fields as in psi_log_event. Any thread, without a lock. */
void psi_api_log_fields(ps_session *s, int level, const char *event, const struct psi_kv *kv, size_t count);
#define psi_api_log(s_, level_, event_, ...) psi_api_log_fields(s_, level_, event_, PSI_KVS(__VA_ARGS__))
/** Write a line of the placement log. */
void psi_api_log_raw(ps_session *s, const char *line);
/** psi_client_config's log function: write a line to ps_session_options.log. */
void psi_api_log_core(void *session, int level, const char *event, const char *fields);

/* ---- interrupt.c ---- */
/* A public call that a thread is in; on the thread's list. */
struct psi_api_visit {
    ps_session *session;
    unsigned interrupts;         /* number of the session's interrupts when the outermost call began */
    uint64_t begun_ns;           /* time of the begin if the session is traced; 0: it is not */
    const char *name;            /* constant, for the trace */
    struct psi_api_visit *outer; /* the call within which this one is made, by a hook or by the library */
};
/** Begin a public call that waits more than once, or uses the session or an object of it after a wait. The session exists until
 * psi_api_end(), even if another thread closes it. An interrupt ends each wait of the call. visit: on the caller's stack until
 * psi_api_end(). s may be NULL. */
#define psi_api_begin(s_, visit_) psi_api_begin_as((s_), (visit_), __func__)
/** psi_api_begin() with another name for traces than the function's. name: a constant. */
void psi_api_begin_as(ps_session *s, struct psi_api_visit *visit, const char *name);
/** End the call's span in a trace of the session. */
void psi_api_noted(struct psi_api_visit *visit);
void psi_api_end(ps_session *s);
/** psi_api_begin() now and psi_api_end() at the end of the enclosing block, for functions with several returns. */
#define PSI_API_VISIT(s_)                                                                                                        \
    __attribute__((cleanup(psi_api_visit_over))) struct psi_api_visit visit = {.session = (s_)};                                 \
    psi_api_begin((s_), &visit)
void psi_api_visit_over(struct psi_api_visit *visit);
/** Number of interrupts when this thread's call began; outside of a call: the present number. */
unsigned psi_api_interrupts(const ps_session *s);
/** CANCELLED: this thread's call was interrupted, and must not wait any more. Any thread, also under the lock. */
ps_status psi_api_interrupted(const ps_session *s, struct psi_err *err) PSI_MUST;
/** psi_api_interrupted() for a call that began with this number of interrupts. */
ps_status psi_api_interrupted_since(const ps_session *s, unsigned interrupts, struct psi_err *err) PSI_MUST;
/** True if *err says that a call was interrupted, or ended because the session closes. Such an error is no failure of the
 * session. */
bool psi_api_is_interrupt(const struct psi_err *err);
/** End the waits of all calls that threads are in, as ps_interrupt() does. Any thread, also in a signal handler. */
void psi_api_interrupt(ps_session *s);
/** Loop thread, after psi_api_interrupt(): end what the interrupted calls wait for. False: there was no new interrupt. */
bool psi_api_poked(void *session, struct psi_client *c);
/** Wait until no thread wakes an io that it has read from the session. The session has given the io up before. */
void psi_api_await_poking(const ps_session *s);

/* ---- lock.c; more: lock.h ---- */
/** Pause for ms, or until the session closes. Without a thread of its own the session is driven meanwhile. */
void psi_api_pause(ps_session *s, int64_t ms);

/* ---- cluster.c ---- */
/** Learn the cluster: fills s->tasks and the counts. Blocks. */
ps_status psi_api_know_cluster(ps_session *s, int64_t timeout_ms, struct psi_err *err) PSI_MUST;
/** psi_api_know_cluster() for callers that only look: a target that refuses connections is UNAVAILABLE after 0.3 s. */
ps_status psi_api_look_cluster(ps_session *s, struct psi_err *err) PSI_MUST;

/* ---- serving.c ---- */
/** psi_api_know_cluster(), and, if the directory can be asked, the tasks of training jobs that serve in s->tasks. */
ps_status psi_api_know_tasks(ps_session *s, int64_t timeout_ms, struct psi_err *err) PSI_MUST;

/* ---- call.c: blocking calls ---- */
/*
 * A blocking call. The caller sets req (kind, var, src, dst, bytes, scale, task), and reads its result there on success.
 * Functions that use the core's state run on the loop thread: prepare() before, which may set kind PSI_REQ_NONE if there is
 * nothing to wait for; finish() after success.
 */
struct psi_api_call {
    struct psi_io_work work;
    ps_session *session;
    struct psi_client *client;                                            /* set on the loop thread */
    ps_status (*prepare)(struct psi_api_call *call, struct psi_err *err); /* may be NULL */
    void (*finish)(struct psi_api_call *call);                            /* may be NULL */
    void *arg;                                                            /* for both */
    ps_variable *variable;                                                /* the variable that it is about; may be NULL */
    /* req.var is set to this variable's; NULL: req is complete */
    const ps_variable *on;
    int64_t timeout_ms; /* <= 0: the operation timeout */
    bool when_closing;  /* made by ps_session_close() itself */
    struct psi_request req;
    pthread_cond_t ended_cond;
    bool ended; /* under the session's lock */
    struct psi_err err;
};
/** Loop thread: check that v->var is set. FAILED_PRECONDITION: a recovery was broken off. */
ps_status psi_api_has_var(const ps_variable *v, struct psi_err *err) PSI_MUST;
/** Start a call whose fields up to req are set. PS_OK: psi_api_call_wait() must follow. */
ps_status psi_api_call_start(struct psi_api_call *call, struct psi_err *err) PSI_MUST;
/** Start the calls whose work.link is in the list, and empty the list, in one event of the loop, so that requests to a task
 * travel together. PS_OK: psi_api_call_wait() must follow for each. */
ps_status psi_api_calls_start(ps_session *s, struct psi_list *works, struct psi_err *err) PSI_MUST;
/** Wait for the end of a call. ps_session_close() waits for the return of this function; afterwards the session may be gone. */
ps_status psi_api_call_wait(struct psi_api_call *call, struct psi_err *err) PSI_MUST;
/** psi_api_call_start() and psi_api_call_wait(). */
ps_status psi_api_call_run(struct psi_api_call *call, struct psi_err *err) PSI_MUST;
/** Loop thread: index of a task in the core's table. INVALID_ARGUMENT names the tasks of the job. */
ps_status psi_api_find_task(const struct psi_client *c, const char *job, uint32_t task, uint32_t *out,
                            struct psi_err *err) PSI_MUST;
/** *err is the first failure of calls to several tasks: add the name of the task of this device, which failed too, unless the
 * text has it. */
void psi_api_likewise(ps_session *s, const char *device, struct psi_err *err);
/** Absolute deadline for a core request that starts now. */
uint64_t psi_api_deadline_ms(const ps_session *s, int64_t timeout_ms);
/** Time from now to psi_api_deadline_ms(); > 0. */
int64_t psi_api_left_ms(const ps_session *s, int64_t timeout_ms);
/** Timeout of a call whose default is the ready timeout; 0 while ps_session_set_deadline() is in effect. */
int64_t psi_api_ready_timeout_ms(const ps_session *s);
/** Make *err the calling thread's last error; returns its code. */
ps_status psi_api_last_error_set(const struct psi_err *err);
/** The calling thread's last error; zeroed if no call has failed. */
void psi_api_last_error_get(struct psi_err *err);
/** Fill *err with the reason why a function of the program returned st (not PS_OK). The thread's last error was cleared before
 * the function. True: that error, which has this status; false: a text that says so; INTERNAL if st is no status. */
bool psi_api_returned(ps_status st, struct psi_err *err);
/** Returns st for a public call; unless it is PS_OK, keeps *err for ps_last_error(). */
ps_status psi_api_result(const struct psi_err *err, ps_status st);

/* ---- request.c ---- */
/** Start a request after the checks of ps_push_start() and similar. what: kind, src, dst, bytes, scale; if a thread waits for
 * it, also waited and interrupts. */
ps_status psi_api_start(ps_variable *v, const struct psi_request *what, int64_t timeout_ms, ps_request *req, ps_done_fn done,
                        void *ctx);

/** psi_api_start(), but leave the request in works (psi_io_work.link), so that many leave together: psi_io_submit_all() must
 * follow before the thread waits. */
ps_status psi_api_start_in(ps_variable *v, const struct psi_request *what, int64_t timeout_ms, ps_request *req, ps_done_fn done,
                           void *ctx, struct psi_list *works);
/** psi_io_config.drained: wake the threads that wait for requests, once for all that have ended in an event. */
void psi_api_drained(void *session);
/** Loop thread: cancel a request of psi_api_start() that the loop has got and whose callback was not called, as
 * psi_client_cancel() does. why: a string literal. */
void psi_api_cancel(struct psi_client *c, ps_request *req, const char *why);

/* ---- found.c ---- */
/*
 * A variable that the library itself finds by container and name, whatever the open scopes and its definition: for a session that
 * works for others. It is in no list of the session, and is freed when its owner drops it.
 */
struct psi_api_found {
    ps_variable variable; /* for psi_api_start(), after done() with PS_OK */
    struct psi_io_work work;
    struct psi_request req;
    bool keyed; /* `key` is used */
    uint8_t key[PSI_KEY_BYTES];
    /* called once, on the loop thread; err->code PS_OK: found */
    void (*done)(struct psi_api_found *found, const struct psi_err *err);
    /* called once for each psi_api_found_drop(), on the loop thread */
    void (*dropped)(struct psi_api_found *found, bool gone);
};
/**
 * Find it.
 *
 * key      [PSI_KEY_BYTES] of a container session/...; NULL: the key that the session has.
 * found    zeroed except for done and dropped; kept until it was dropped, or the session is closed.
 *
 * PS_OK: done is called exactly once, never within this call. After a failure it may be called again, also in done().
 *
 * Thread   any.
 * Errors   those of psi_api_may_start(), bad names
 */
ps_status psi_api_found_start(ps_session *s, const char *container, const uint8_t *key, const char *name, int64_t timeout_ms,
                              struct psi_api_found *found, struct psi_err *err) PSI_MUST;
/** Free the core's record: dropped(gone true), or dropped(gone false) if something still uses it: try again later. No request of
 * it is in flight. Any thread. On another status than PS_OK dropped is not called. */
ps_status psi_api_found_drop(struct psi_api_found *found, struct psi_err *err) PSI_MUST;

/* A question of a session that works for others: may somebody else do this to a variable? */
struct psi_api_right {
    struct psi_may may; /* with its texts, kept until done() */
    const struct psi_api_found *found;
    struct psi_io_work work;
    struct psi_request req;
    /* called once, on the loop thread; err->code PS_OK: allowed */
    void (*done)(struct psi_api_right *right, const struct psi_err *err);
};
/**
 * Ask the variable's task, or, if the variable does not exist (there false), the directory.
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
/** ps_cluster_info(). needed: wait, up to timeout_ms, for a task that refuses connections, as trainers do. */
ps_status psi_api_infos(ps_session *s, bool needed, ps_task_info *infos, size_t item_bytes, int count, int64_t timeout_ms,
                        struct psi_err *err) PSI_MUST;

/* ---- get.c ---- */
/* A variable that is to be got. */
struct psi_api_get {
    struct psi_list link; /* in the list of those put aside, or of a batch */
    struct psi_api_call call;
    ps_variable_spec spec;
    ps_initializer init; /* copies for spec */
    ps_optimizer optimizer;
    struct psi_scoped scoped;
    enum psi_scope_how how;
    bool queue; /* it is a queue, and v belongs to a ps_queue */
    struct psi_queue_spec elements;
    struct psi_part part; /* what it is a part of; all 0: of nothing */
    bool sticks;          /* a failure sticks to the session */
    bool only_reads;      /* of an evaluator: it is not created */
    bool got;             /* the session has v */
    bool deleted;         /* with `got`: and has deleted the variable or queue: nobody is to make it again */
    bool differs;         /* got again by a recovery, with another definition */
    uint64_t creation;    /* creation number when it was last got */
    uint64_t checkpoint;  /* number of the checkpoint that it came from in this recovery; 0: none */
    ps_variable *v;       /* its public record, which the get owns until the session has it */
    ps_variable **out;    /* gets v on success */
    bool *out_open;       /* set on success, under the lock; NULL: not wanted */
};
/** Make a get: name, place and public record of a variable in the session's scopes; the definition is checked. given: of a
 * header of any version. *out_variable is kept until it is got. */
ps_status psi_api_get_new(ps_session *s, const ps_variable_spec *given, enum psi_scope_how how, ps_variable **out_variable,
                          struct psi_api_get **out_get, struct psi_err *err) PSI_MUST;
/** Get all of the list, in this order, after those that were put aside, and empty the list. Blocks. *err is PS_OK before: the
 * first error in order. */
void psi_api_gets_run(ps_session *s, struct psi_list *gets, struct psi_err *err);
/** Copy a spec of a header of any version. optimizer: memory for that of the spec. */
ps_status psi_api_spec_take(const ps_variable_spec *from, enum psi_scope_how how, ps_variable_spec *to, ps_optimizer *optimizer,
                            struct psi_err *err) PSI_MUST;
/** Get or create, or look up, a whole variable in the session's scopes, and publish. given: of a header of any version. *err is
 * PS_OK before. */
ps_status psi_api_get_one(ps_session *s, const ps_variable_spec *given, enum psi_scope_how how, ps_variable **out_variable,
                          struct psi_err *err) PSI_MUST;
/** Free gets that are not tried. */
void psi_api_gets_drop(ps_session *s, struct psi_list *gets);
/** A recovery does not get v again. v may be NULL. */
void psi_api_get_once(ps_session *s, const ps_variable *v);
/** An evaluator's get becomes a look-up. */
void psi_api_get_looks(const ps_session *s, struct psi_api_get *get);
/** Get it now, after those that were put aside. Blocks. *err is PS_OK before. */
ps_status psi_api_get_run(ps_session *s, struct psi_api_get *get, struct psi_err *err) PSI_MUST;
/** Copy what the owner has said about v->var into the public record. Loop thread. */
void psi_api_variable_known(ps_variable *v, const struct psi_client *c);
/** Put the get aside: it is made right before the session's next get, or at psi_api_settle(). */
void psi_api_put_aside(ps_session *s, struct psi_api_get *get);
/** Get what was put aside. Blocks. Returns the session's first error. */
ps_status psi_api_settle(ps_session *s);
void psi_api_aside_free(ps_session *s);
/** Recovery of a monitored session: get all of s->monitor->gets again, in order, at a client that knows none of them; their
 * records are kept. waits: a found queue must exist again. Blocks. Returns the first error that does not go away with time,
 * else the first error. */
ps_status psi_api_get_again(ps_session *s, int64_t timeout_ms, bool waits, struct psi_err *err) PSI_MUST;
/** The program has deleted this variable: it is not got again, unless it is a parameter or the session's global step. */
void psi_api_get_deleted(ps_session *s, const struct psi_scoped *scoped);
/** The client is about to be freed: clear all references to it. Nothing is in flight. */
void psi_api_gets_forget(ps_session *s);
/** At the end of a recovery: number of the newest checkpoint from which variables came back; 0: none. *out_all: all of them did.
 * What comes back later belongs to the next recovery. */
uint64_t psi_api_gets_restored(ps_session *s, bool *out_all);
/** Free the gets of a session. */
void psi_api_gets_free(struct psi_list *gets);
/** Get or create `global_step`, once per session. */
ps_status psi_api_global_step(ps_session *s, ps_variable **out_variable, struct psi_err *err) PSI_MUST;

/* ---- ended.c ---- */
/** A request has read or assigned its variable: set what ps_variable_version() returns. Loop thread, in the order in which
 * requests end. */
void psi_api_note_version(ps_variable *v, const struct psi_request *req);
/** A request for some rows ends, good or not: rows that were gathered are put where its caller wants them, and what was
 * made for it is freed. Other kinds of requests: nothing. Any thread. */
void psi_api_rows_end(struct psi_request *req, bool good);

/* ---- variable.c ---- */
/** Run req (kind, src, dst, bytes, scale) on v and note its version; req has the result. Blocks. */
ps_status psi_api_operate(ps_variable *v, struct psi_request *req, struct psi_err *err) PSI_MUST;
/** *version and *exact of a variable or parameter, read together; 0 and inexact in a child of fork(). Any thread. */
uint64_t psi_api_version(ps_session *s, const uint64_t *version, const bool *exact, bool *out_exact);
/** psi_api_call.finish: store whether call->variable has a value in *(bool *)call->arg. */
void psi_api_finish_status(struct psi_api_call *call);
/** Check a request for a variable's values as far as possible without asking: memory, size, scale, not strings. Any thread. */
ps_status psi_api_values_check(const ps_variable *v, const struct psi_request *req, struct psi_err *err) PSI_MUST;
/** INVALID_ARGUMENT, naming both sizes, unless v's value has `bytes`, the size of the memory that a call was given for it. PS_OK
 * for NULL and for strings, which the calls refuse with another text. */
/** Slot number `slot` (from 0 on) of v has one element for each row. */
bool psi_api_slot_is_by_row(const ps_variable *v, uint32_t slot);
ps_status psi_api_room_check(const ps_variable *v, const char *call, size_t bytes, struct psi_err *err) PSI_MUST;

/* ---- scope.c ---- */
/** Name, container and place of a variable, or of this queue. Its name counts as got from now on. Errors: INVALID_ARGUMENT,
 * ALREADY_EXISTS. */
ps_status psi_api_scope(ps_session *s, const ps_variable_spec *spec, enum psi_scope_how how, const struct psi_queue_spec *queue,
                        struct psi_scoped *out, struct psi_err *err) PSI_MUST;
/** Only the full name and container of a name in the open scopes. */
ps_status psi_api_scope_name(ps_session *s, const char *name, struct psi_scoped *out, struct psi_err *err) PSI_MUST;
/** A push or pop has failed: the error sticks to the session and becomes the thread's last. Returns its code. */
ps_status psi_api_scope_failed(ps_session *s, struct psi_err *err, const char *what);
/** The variable could not be got: its name no longer counts as got. */
void psi_api_unscope(ps_session *s, const struct psi_scoped *scoped);

/** Name prefix and device of a new row of a plan, from the open scopes.
 *
 * type    of the operation, for setters.
 * device  a device scope inside all others; NULL: none.
 * prefix  [PS_NAME_BYTES_MAX + 1].
 */
ps_status psi_api_scope_row(ps_session *s, const char *type, const char *device, char *prefix, struct psi_device *out,
                            struct psi_err *err) PSI_MUST;

/* ---- device.c ---- */
/** Write the devices of the cluster, "/job:ps/task:0/device:CPU:0, ...", for the text of an error; "" if they cannot be got; n
 * >= 64. */
void psi_api_devices_text(ps_session *s, char *dst, size_t n);
/** True if every task has it: CPU:0, or any device if the session allows soft placement. */
bool psi_api_device_is_everywhere(const ps_session *s, const struct psi_device *d);
/** Check that the task, according to its answer, has the device that d asks for. PS_INVALID_ARGUMENT, PS_REASON_NO_DEVICE: it
 * has not, and its devices are named. */
ps_status psi_api_device_check(const ps_task_info *task, const struct psi_device *d, struct psi_err *err);
/** Log a line if a ps task has got more than twice the average of the others, because --placement balanced would help. */
void psi_api_log_balance(ps_session *s);
/** Log "v1: (Variable): /job:ps/task:0/device:CPU:0", if the session's options ask for it. */
void psi_api_log_placement(ps_session *s, const ps_variable *v, const char *type);

/* ---- compute.c; for worker/nn: compute.h ---- */
/** Open the device that the options ask for, or the CPU if they allow it; for a session that is being opened. */
ps_status psi_api_compute_open(ps_session *s, const char *device, uint32_t threads, struct psi_err *err) PSI_MUST;
/** NULL: the CPU, not opened yet. */
struct psk_place *psi_api_compute_place(ps_session *s);
/** Close the device, after the parameters are freed. */
void psi_api_compute_close(ps_session *s);

/* ---- sync.c ---- */
/** Arguments of READY; step: the global step. */
struct psi_sync psi_api_sync_of(ps_session *s, struct psi_var *step);
/** Become a member of what READY has found or made; does nothing if s->sync says nothing. Blocks. */
ps_status psi_api_sync_join(ps_session *s, int64_t timeout_ms, struct psi_err *err) PSI_MUST;
/** True for a member of rounds: its pushes are contributions. */
bool psi_api_in_rounds(ps_session *s);
/** A member's step is complete: wait until it may go on, longer for its first one. *out_step: in rounds the global step. Blocks.
 */
ps_status psi_api_sync_meet(ps_session *s, bool first, int64_t *out_step, struct psi_err *err) PSI_MUST;
/** The session has finished: a member leaves. Blocks. */
ps_status psi_api_sync_finish(ps_session *s, struct psi_err *err) PSI_MUST;
/** The session closes: a member leaves as finished, unless the session has failed. Blocks for a second at most. */
void psi_api_sync_leave(ps_session *s);

/* ---- step.c ---- */
/** Loop thread: start this addition to the global step, whose thread sleeps. */
void psi_api_step_add(ps_session *s, ps_variable *variable, struct psi_training_add *add);
void psi_api_steps_free(ps_session *s);

/* ---- job.c ---- */
/** FAILED_PRECONDITION: gradients and steps of this session no longer count. */
ps_status psi_api_trains(ps_session *s, struct psi_err *err) PSI_MUST;

/* ---- param.c ---- */
/** Allocate a parameter for a variable of this name, with zeroed buffers of `shape`. NULL: *err has the reason. */
ps_param *psi_api_param_new(ps_session *s, const char *name, const ps_shape *shape, struct psi_err *err);
void psi_api_param_free(ps_param *p);
/** Give it to the session. p->variable NULL: its get was put aside. */
void psi_api_param_keep(ps_session *s, ps_param *p);
/** A parameter after a failure, for the session to keep. Never NULL. */
ps_param *psi_api_param_dummy(ps_session *s, const char *name, const ps_shape *shape);
/** Get p's variable if it is in parts, which blocks, otherwise put its get aside. */
ps_status psi_api_param_variable(ps_session *s, const ps_variable_spec *spec, ps_param *p, struct psi_err *err) PSI_MUST;
/** Wait until p's last push is answered, or the call is interrupted. */
ps_status psi_api_param_wait(ps_param *p) PSI_MUST;
/** Enter a call of training, and get what was put aside. */
ps_status psi_api_enter_settled(ps_session *s) PSI_MUST;
/** The thread's last error, of status st, sticks to the session; returns st. */
ps_status psi_api_last_sticks(ps_session *s, ps_status st, const char *call);
void psi_api_params_free(ps_session *s);
/* What ps_session_ready() found. */
struct psi_found {
    int variables;                  /* variables of the program that had a value before */
    int64_t step;                   /* the global step */
    int64_t model_step;             /* global step with which the present model began: 0, or a checkpoint's */
    uint64_t incarnation, creation; /* of the global step; another model has others */
    bool restored, initialised;     /* by this session, as the chief: the restore function gave the values, or initialisers did */
};
/* in ready.c */
void psi_api_set_global_step(ps_session *s, int64_t step);
/** Make the session ready (ready.c). *err: the error to stick. Blocks for timeout_ms, and for variables that are yet to be got.
 */
ps_status psi_api_ready(ps_session *s, int64_t timeout_ms, struct psi_found *out_found, struct psi_err *err) PSI_MUST;
/** True if the goal is reached, or the cluster has asked the session to stop. */
bool psi_api_is_over(ps_session *s);
/** For a recovery: no values are on their way, none has been read, and no addition to the global step counts. Nothing is in
 * flight.
 */
void psi_api_params_forget(ps_session *s);

/* ---- keys.c: containers of sessions. Any thread but the loop thread. Errors: FAILED_PRECONDITION (the session is closed),
 * RESOURCE_EXHAUSTED ---- */
/** Name ("session/" and 16 hexadecimal digits) and key of the container that belongs to s. Its variables are volatile: they end
 * with the session's GOODBYE, or a lease later. A recovered session has another container. Blocks for the loop. */
ps_status psi_session_container(ps_session *s, char out_name[PSI_SESSION_CONTAINER_BYTES], uint8_t out_key[PSI_KEY_BYTES],
                                struct psi_err *err) PSI_MUST;
/** From now on requests of s that name this container of another session carry its key. Does not wait. */
ps_status psi_session_add_key(ps_session *s, const char *container, const uint8_t key[PSI_KEY_BYTES],
                              struct psi_err *err) PSI_MUST;
/** Undo one psi_session_add_key(). When all are undone, requests carry the key no more. Does not wait. */
ps_status psi_session_drop_key(ps_session *s, const char *container, struct psi_err *err) PSI_MUST;

/* ---- parts_get.c ---- */
/** Get a variable in parts. spec: of this header. Blocks. */
ps_status psi_api_parts_get(ps_session *s, const ps_variable_spec *spec, ps_variable **out_variable,
                            struct psi_err *err) PSI_MUST;
/* ---- embedding_push.c ---- */
/** Start to push the gradient rows of p, whose gradient is on the host. */
ps_status psi_api_embedding_push(ps_param *p, ps_done_fn done) PSI_MUST;
/** Under the lock: rows on their way are not wanted any more. */
void psi_api_embedding_forget(ps_param *p);
void psi_api_embedding_free(ps_param *p);
/* ---- parts_op.c: partitioned variables; the rest is in parts.h ---- */
/** Run one operation on all parts of v at once. *req has the result on PS_OK. An error says which part failed, and which parts a
 * change was applied to. */
ps_status psi_api_parts_run(ps_variable *v, struct psi_request *req, struct psi_err *err) PSI_MUST;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the public API share: the session object, blocking calls and requests.
 *
 * Threads: the core belongs to the loop thread (with PS_PROGRESS_CALLER: to whichever thread drives it, progress.c). A public
 * function makes a struct psi_api_call or takes a ps_request, hands it to the loop (worker/io.h) and, where it blocks, waits for
 * it under the session's lock. What other threads read (variables, errors, cluster) is copied on the loop thread under that lock
 * before the call ends. There is one lock and nothing is called with it held.
 */
#ifndef PSI_WORKER_API_H
#define PSI_WORKER_API_H

#include "common/log.h"
#include "compute.h"
#include "hooks.h"
#include "scope.h"
#include "worker/io.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum { PSI_GOODBYE_MS = 1000 }; /* how long close waits for the tasks' goodbyes */
enum { PSI_PARAM_ALIGN = 64 };
enum { PSI_COMPUTE_THREADS_MAX = 1024 }; /* what the CPU plugin can have */

/* A task of the cluster as programs may see it at any time. */
struct psi_api_task {
    char name[PSI_TASK_NAME_MAX]; /* "/job:ps/task:0" */
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;  /* in its job */
    uint32_t index; /* in the core's table */
    char address[PS_ADDRESS_BYTES_MAX + 1];
};

/* What a parameter's second buffer has. */
enum psi_param_next {
    PSI_NEXT_NONE,
    PSI_NEXT_COMES, /* values are on their way there: of a ps_push_pull(), or with `prefetch` of a read */
    PSI_NEXT_THERE  /* values that the next ps_pull() gives */
};

struct ps_param {
    ps_session *session;
    ps_variable *variable; /* NULL: not got yet, or a dummy, made after a failure */
    struct psi_list link;  /* in session->params */
    ps_shape shape;
    char name[PS_NAME_BYTES_MAX + 1];
    struct psk_block value, grad; /* 64-byte aligned on the host */
    size_t bytes;                 /* of each */
    ps_request push, pull;
    struct psk_call fetch; /* a gradient that comes from the device, for a push */
    bool pushing, pulling; /* under the lock: the request is in flight, or its gradient on the way to the host */
    bool fetching;         /* likewise: the latter; its push has not begun */
    bool trained, pushed;  /* it has an optimizer; under the lock: in rounds, since the last step */
    bool exact, next_exact;
    unsigned pull_interrupts;       /* under the lock: number of interrupts when the call began that pulls the value */
    uint64_t version;               /* under the lock: of the last pull */
    enum psi_param_next next_state; /* under the lock, like the version that belongs to it */
    uint64_t next_version;
    struct psk_block next; /* the second buffer, exchanged with value by ps_pull(); empty: never needed */
    /* the second gradient buffer, exchanged with grad by an interrupted ps_param_grad(); empty: never needed */
    struct psk_block apart;
    bool push_has_apart; /* under the lock: the push that is in flight has apart, and grad is the program's */
};

/* What each push and pull looks at comes first: with many variables none of it is in cache. */
struct ps_variable {
    ps_session *session;
    struct psi_var *var; /* loop thread only, but for its address */
    uint64_t from;    /* under the lock: 1 + the version of the values that gradients are computed from; 0: none has been read */
    uint64_t version; /* under the lock: of the last read or assignment */
    ps_dtype dtype;
    bool exact;
    bool of_param; /* under the lock: a parameter's, which says what its program has */
    ps_shape shape;
    uint64_t bytes;
    int task;
    struct psi_list link; /* in session->variables */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char name[PS_NAME_BYTES_MAX + 1];    /* the full one */
    char device[PSI_TASK_NAME_MAX + 16]; /* "/job:ps/task:0/device:CPU:0" */
    char requested[PS_DEVICE_BYTES];     /* what its scopes asked for; "": nothing */
};

struct ps_session {
    struct psi_io *_Atomic io; /* NULL: not opened, or closed; that of a monitored session changes with a recovery: see below */
    pid_t pid;                 /* of the process that opened it */
    unsigned forks;            /* as at its opening: psi_api_here() */
    bool is_static;            /* the object for when there is no memory */
    bool help;                 /* of --help: calls are refused, and no such error sticks */
    /* number of ps_interrupt()s, and of interrupts by leaving and closing. A call that began before one ends CANCELLED */
    atomic_uint interrupts;
    atomic_bool ends;   /* the session is being left or closed, which is the cause of the interrupt */
    atomic_uint poking; /* number of threads and signal handlers that may be poking io. io is closed when it is 0 */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* of what params wait for: pushing, pulling, pushes; that it closes. Monotonic clock */
    /* under the lock */
    struct psi_err error;     /* the first error, sticky; PS_OK: none */
    unsigned interrupts_seen; /* value of `interrupts` that the loop has seen: the requests of older calls have ended */
    bool closing;
    bool left;          /* ps_session_leave() came first: that calls are refused then is a failure */
    bool driving;       /* PS_PROGRESS_CALLER: a thread is in psi_io_turn(), or the io is not there to be driven */
    bool stopping;      /* the cluster asks this session to stop, or --help was given */
    bool job_done;      /* it has said that the job is done */
    uint32_t in_flight; /* calls and requests handed to the loop and not ended */
    uint32_t users;     /* public calls between psi_api_begin() and psi_api_end() */
    uint32_t inside;    /* calls whose threads are not out of psi_api_call_wait() yet, and batches of gets */
    struct psi_list variables, params, queues;
    struct psi_list aside; /* struct psi_api_get of parameters: they go with the next get, or at first use */
    bool settling;         /* a thread is getting those that were put aside */
    struct psi_scopes scopes;
    uint32_t pushes;            /* of parameters, in flight */
    uint32_t fetching;          /* of these, the ones whose gradients are on the way from the device */
    bool cluster_known;         /* tasks and job_task_count are final from then on */
    struct psi_api_task *tasks; /* server jobs, then the tasks of others that serve; room for tasks_all */
    _Atomic uint32_t task_count;
    uint32_t tasks_all;
    bool serving_known;      /* the others that serve are in it */
    uint32_t job_task_count; /* of this session's job, holes counted; 0 = not listed */
    uint32_t ps_count;
    bool chief;
    ps_variable *global_step_variable;
    int64_t global_step, found_global_step;
    int found;
    int64_t steps;
    bool steps_fixed;     /* the command line gave them */
    bool goal_noted;      /* that they had been made before this session: logged */
    ps_sync_options sync; /* mode NONE: on its own */
    bool finished;        /* it has left for good, as ps_sync_finish() says: made anew it asks for the same, and does not join */
    uint64_t training;    /* of which it is, or was before it was made anew, a member; 0: of none */
    bool member;          /* of rounds, or with a bound on staleness: ps_session_ready() has joined */
    bool alone;           /* a thread makes the session ready, or a step of the member */
    bool stepped;         /* one of its steps as a member is over: all workers have joined */
    bool waited;          /* staleness: the member's step has waited for the others, and is not counted yet */
    int64_t dropped;      /* steps in rounds */
    /* step.c: additions of ps_step_done()s that were interrupted; records that are free */
    struct psi_list steps_left, steps_spare;
    struct psi_hooks hooks;
    struct psk_place *place; /* under the lock: that computes; NULL: the CPU, not used yet */
    /* constant after open */
    bool opened;                 /* false: every call gets `error` */
    bool by_caller;              /* PS_PROGRESS_CALLER */
    struct psi_monitor *monitor; /* NULL: a loss ends it */
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    int64_t operation_timeout_ms, ready_timeout_ms, start_timeout_ms;
    struct psi_reach reach; /* of the core; a core that is made anew goes on with it */
    /* deadline of the program's calls in place of operation_timeout_ms; 0: none. Written by the program, while it is in no
     * call */
    uint64_t deadline_ms;
    ps_log_level log_level;
    ps_log_fn log;
    void *log_ctx;
    pthread_mutex_t log_lock; /* lines never overlap; taken with nothing else held */
    uint64_t seed;
    bool allow_soft_placement, log_device_placement, prefetch;
    ps_log_fn placement_log;
    void *placement_log_ctx;
    uint32_t compute_threads; /* 0: not said */
    ps_param spare;           /* the dummy for when there is no memory for one */
};

/*
 * io and threads: it is there from the opening to the close, so whoever has been counted in in_flight or inside may use it
 * without the lock. A recovery (monitored.c) first bars everybody else (psi_api_barred), then waits until nobody is counted, and
 * only then changes it.
 */

/* ---- session.c ---- */
struct psi_opening; /* what a session is opened with */
/** Let what is in flight end within ms, and wait for that. Nothing may be started meanwhile. No effect without an io. False:
 * the call of this thread was interrupted while something was still in flight. */
bool psi_api_hurry(ps_session *s, int64_t ms);
/** The last words of an io, for ms at most: GOODBYE where the session leaves, or else, as with that, the directory is asked once
 * more whether to stop: a session that is made anew is another one to it. */
void psi_api_part(ps_session *s, bool leaves, int64_t ms);
/** Wait until nobody is inside, and end the io. Nothing is in flight. */
void psi_api_io_close(ps_session *s);
/** Another one, of the same options. */
ps_status psi_api_io_open(ps_session *s, const struct psi_opening *opening, struct psi_err *err) PSI_MUST;
/** ps_session_open(), monitored where it is not NULL: takes it, also when it fails. Texts to *err. */
ps_status psi_api_open(const ps_session_options *options, struct psi_monitor *monitor, ps_session **out_session,
                       struct psi_err *err) PSI_MUST;

/* ---- object.c ---- */
/** As a session begins, all zero before. */
void psi_api_session_init(ps_session *s);
/* ---- here.c ---- */
/** It is this process's. */
void psi_api_be_here(ps_session *s);
/** The calling process is the one that opened it, not a child of it. No system call. */
bool psi_api_here(const ps_session *s);
/* ---- errors.c; psi_api_broken(): object.c ---- */
/** Errors that every call looks for first: never opened, called after fork() or in a callback, closing. NULL s is
 * INVALID_ARGUMENT. */
ps_status psi_api_check(ps_session *s, bool may_block, struct psi_err *err) PSI_MUST;
/** The same and the session's first error, for a call that returns it: PS_OK where it may go on; else what it returns. */
ps_status psi_api_enter(ps_session *s, bool may_block) PSI_MUST;
/** FAILED_PRECONDITION: a request of this kind would change a value, and an evaluator changes none. */
ps_status psi_api_may_change(const ps_session *s, enum psi_request_kind kind, struct psi_err *err) PSI_MUST;
/** It reads only. */
bool psi_api_evaluates(const ps_session *s);
/** A session that was never opened: err is its error (PS_OK: --help; NULL: there is no session). Never NULL. */
ps_session *psi_api_broken(const struct psi_err *err);
/** Make *err the session's first error unless there is one, and log it then; of a hook's thread with its name. Returns the code
 * of the first error. Any thread. */
ps_status psi_api_stick(ps_session *s, const struct psi_err *err);
/** The same of an error of a call that returns the first one: `call` is put in front, *err becomes the thread's last error. */
ps_status psi_api_refused(ps_session *s, struct psi_err *err, const char *call);
/** psi_api_stick() of an error that no recovery mends, whatever its code. */
ps_status psi_api_stick_final(ps_session *s, const struct psi_err *err);
/** Under the lock: PS_OK, or what a call of this thread that may not be made now has to return, in *err: the session closes, or
 * another thread makes it anew. */
ps_status psi_api_may_start(ps_session *s, struct psi_err *err) PSI_MUST;
/** A call of several steps, which keeps records of the core between them: no recovery until it is outside again. */
ps_status psi_api_go_inside(ps_session *s, struct psi_err *err) PSI_MUST;
void psi_api_go_outside(ps_session *s);
/** Under the lock: *err is that of a call beside which the program closes the session, and no failure of it. */
bool psi_api_only_closes(const ps_session *s, const struct psi_err *err);
/** PS_OK, or a copy of the first error in *err. Any thread. */
ps_status psi_api_sticky(ps_session *s, struct psi_err *err) PSI_MUST;
/** st, which a call of training is to return: the session's first error, which some other thread may have met, becomes the last
 * one of this thread, too. */
ps_status psi_api_last(ps_session *s, ps_status st);
/** A log event of the library; fields as in psi_log_event. Any thread, no lock held. */
void psi_api_log_fields(ps_session *s, int level, const char *event, const struct psi_kv *kv, size_t count);
/** psi_api_log(s, level, "ev", PSI_KV(...), ...) */
#define psi_api_log(s_, level_, event_, ...) psi_api_log_fields(s_, level_, event_, PSI_KVS(__VA_ARGS__))
/** A line of the placement log, as it is. */
void psi_api_log_raw(ps_session *s, const char *line);
/** The line of ps_session_options.log as it is. */
void psi_api_log_core(void *session, int level, const char *event, const char *fields);

/* ---- interrupt.c ---- */
/* A public call that a thread is in. */
struct psi_api_visit {
    ps_session *session;
    unsigned interrupts;         /* number of the session's interrupts when the outermost call began */
    struct psi_api_visit *outer; /* call in which this call is made: by a hook, or by the library itself */
};
/** For a public call that waits more than once, or that looks at the session or an object of it after it has waited. The
 * session is there until psi_api_end(), even if another thread closes it. An interrupt meanwhile ends each wait of the call.
 * visit: on the caller's stack until psi_api_end(). s NULL is fine. */
void psi_api_begin(ps_session *s, struct psi_api_visit *visit);
void psi_api_end(ps_session *s);
/** psi_api_begin(), and psi_api_end() at the end of the enclosing block. For a function that returns at several places. */
#define PSI_API_VISIT(s_)                                                                                                        \
    __attribute__((cleanup(psi_api_visit_over))) struct psi_api_visit visit = {.session = (s_)};                                 \
    psi_api_begin((s_), &visit)
void psi_api_visit_over(struct psi_api_visit *visit);
/** Number of interrupts when this thread's call began. In no call: the number now. */
unsigned psi_api_interrupts(const ps_session *s);
/** CANCELLED: the call of this thread was interrupted and is to wait for nothing any more. Any thread, also under the lock. */
ps_status psi_api_interrupted(const ps_session *s, struct psi_err *err) PSI_MUST;
/** As psi_api_interrupted(), for a call of which only the number of interrupts at its beginning is known. */
ps_status psi_api_interrupted_since(const ps_session *s, unsigned interrupts, struct psi_err *err) PSI_MUST;
/** *err says that a call was interrupted, or ended because the session closes. Such an error is no failure of the session. */
bool psi_api_is_interrupt(const struct psi_err *err);
/** A call has waited. PS_OK: it goes on. Else what the call returns: the session's first error, or CANCELLED. */
ps_status psi_api_go_on(ps_session *s) PSI_MUST;
/** End the waits of all calls that threads are in, as ps_interrupt() does. Any thread. */
void psi_api_interrupt(ps_session *s);
/** Loop thread, after psi_api_interrupt(): end what the interrupted calls wait for. False: there was no new interrupt. */
bool psi_api_poked(void *session, struct psi_client *c);
/** Wait until no thread pokes an io that it has read from the session. The session has given this io up before. */
void psi_api_await_poking(const ps_session *s);

/* ---- progress.c ---- */
/** Wait for something that the loop does: returns when cond was signalled or broadcast, or for no reason. Under s->lock, which it
 * gives up meanwhile. Without a thread of the session's own it drives the loop, or waits for the thread that does. */
void psi_api_wait(ps_session *s, pthread_cond_t *cond);
/** Until so many milliseconds are over, or the session closes. Without a thread of its own the session is driven meanwhile. */
void psi_api_pause(ps_session *s, int64_t ms);

/* ---- cluster.c ---- */
/** Know the cluster: fills s->tasks and the counts. Blocks. */
ps_status psi_api_know_cluster(ps_session *s, int64_t timeout_ms, struct psi_err *err) PSI_MUST;
/** The same for who only looks: a target that refuses connections is UNAVAILABLE after 0.3 s. */
ps_status psi_api_look_cluster(ps_session *s, struct psi_err *err) PSI_MUST;

/* ---- serving.c ---- */
/** As psi_api_know_cluster(); s->tasks also has the tasks of training jobs that serve, if the directory could be asked. */
ps_status psi_api_know_tasks(ps_session *s, int64_t timeout_ms, struct psi_err *err) PSI_MUST;

/* ---- call.c: blocking calls ---- */
/*
 * A blocking call: whoever makes it fills in req (kind, var, src, dst, bytes, scale, task), and reads its result there after a
 * success. What takes the core's state is done on the loop thread: prepare() before, which may leave or set kind PSI_REQ_NONE
 * when there is nothing to wait for, and finish() after a success.
 */
struct psi_api_call {
    struct psi_io_work work;
    ps_session *session;
    struct psi_client *client;                                            /* set on the loop thread */
    ps_status (*prepare)(struct psi_api_call *call, struct psi_err *err); /* may be NULL */
    void (*finish)(struct psi_api_call *call);                            /* likewise */
    void *arg;                                                            /* for both */
    ps_variable *variable;                                                /* what it is about; may be NULL */
    const ps_variable *on;                                                /* req.var is this one's; NULL: as req says */
    int64_t timeout_ms;                                                   /* <= 0: the operation timeout */
    bool when_closing;                                                    /* made by ps_session_close() itself */
    struct psi_request req;
    pthread_cond_t ended_cond;
    bool ended; /* under the session's lock */
    struct psi_err err;
};
/** Loop thread: v->var is there; not so where a recovery did not come to its end: FAILED_PRECONDITION. */
ps_status psi_api_has_var(const ps_variable *v, struct psi_err *err) PSI_MUST;
/** Start a call whose fields up to req are set; psi_api_call_wait() must follow where it is PS_OK. */
ps_status psi_api_call_start(struct psi_api_call *call, struct psi_err *err) PSI_MUST;
/** Start those whose work.link is in the list, which is empty then, in one event of the loop: what they ask of a task travels
 * together. psi_api_call_wait() must follow for each where it is PS_OK. */
ps_status psi_api_calls_start(ps_session *s, struct psi_list *works, struct psi_err *err) PSI_MUST;
/** Wait for its end. ps_session_close() waits for its return; the session may be gone after it. */
ps_status psi_api_call_wait(struct psi_api_call *call, struct psi_err *err) PSI_MUST;
/** Both. */
ps_status psi_api_call_run(struct psi_api_call *call, struct psi_err *err) PSI_MUST;
/** *err is the first failure of calls that were made at several tasks. That of the task of this device, which its text does not
 * name yet, failed too: it names it as well. */
void psi_api_likewise(ps_session *s, const char *device, struct psi_err *err);
/** Absolute deadline for a core request that starts now. */
uint64_t psi_api_deadline_ms(const ps_session *s, int64_t timeout_ms);
/** How long that is from now; > 0. */
int64_t psi_api_left_ms(const ps_session *s, int64_t timeout_ms);
/** For what has the ready timeout where none is given: that, or 0 while ps_session_set_deadline() holds. */
int64_t psi_api_ready_timeout_ms(const ps_session *s);
/** Keep *err as the calling thread's last error; returns its code. */
ps_status psi_api_last_error_set(const struct psi_err *err);
/** That error: all zero where no call has failed. */
void psi_api_last_error_get(struct psi_err *err);
/** *err is why a function of the program's, before which that error was none, returned st, which is not PS_OK: true: that error,
 *  if it has this status; false: that it says so by itself; INTERNAL where st is no status. */
bool psi_api_returned(ps_status st, struct psi_err *err);
/** What a public call returns: st, whose text *err is kept for ps_last_error() unless st is PS_OK. */
ps_status psi_api_result(const struct psi_err *err, ps_status st);

/* ---- request.c ---- */
/** Start a request after the checks of ps_push_start() and the like. what: kind, src, dst, bytes, scale; waited and interrupts,
 * where a thread waits for it in a call. */
ps_status psi_api_start(ps_variable *v, const struct psi_request *what, int64_t timeout_ms, ps_request *req, ps_done_fn done,
                        void *ctx);

/* ---- admin.c ---- */
enum { PSI_API_DIRECTORY = -1 };
/** Run req (kind, src, dst) at entry `task` of ps_cluster_tasks(), or PSI_API_DIRECTORY. Blocks. */
ps_status psi_api_admin(ps_session *s, const struct psi_request *req, int task, int64_t timeout_ms, struct psi_err *err) PSI_MUST;
/** ps_cluster_info(). needed: a task that refuses connections is waited for, up to timeout_ms, as by who trains. */
ps_status psi_api_infos(ps_session *s, bool needed, ps_task_info *infos, size_t item_bytes, int count, int64_t timeout_ms,
                        struct psi_err *err) PSI_MUST;

/* ---- get.c ---- */
/* A variable that is to be got. */
struct psi_api_get {
    struct psi_list link; /* of those put aside, or of a batch */
    struct psi_api_call call;
    ps_variable_spec spec;
    ps_initializer init; /* of spec */
    ps_optimizer optimizer;
    struct psi_scoped scoped;
    enum psi_scope_how how;
    bool queue; /* it is a queue: v is that of a ps_queue */
    struct psi_queue_spec elements;
    bool sticks;         /* a failure is the session's */
    bool only_reads;     /* an evaluator's: what is not there is not made */
    bool got;            /* the session has v */
    bool deleted;        /* ... and has deleted it, or the queue: nobody is to make it again */
    bool differs;        /* got again: it is not as it was */
    uint64_t creation;   /* as it was last got */
    uint64_t checkpoint; /* ... anew in this recovery, and out of this one; 0: not so */
    ps_variable *v;      /* its public record; the get's own until the session has it */
    ps_variable **out;   /* gets that, after a success only */
};
/** Name, place and public record of a variable to be got, in the session's scopes; its definition is checked. given: of any
 * header. *out_variable is kept until it is got. */
ps_status psi_api_get_new(ps_session *s, const ps_variable_spec *given, enum psi_scope_how how, ps_variable **out_variable,
                          struct psi_api_get **out_get, struct psi_err *err) PSI_MUST;
/** Get it now, after those that were put aside. Blocks. *err is PS_OK before. */
ps_status psi_api_get_run(ps_session *s, struct psi_api_get *get, struct psi_err *err) PSI_MUST;
/** It goes with the next get of the session, before it, or at psi_api_settle(). */
void psi_api_put_aside(ps_session *s, struct psi_api_get *get);
/** Get what was put aside. Blocks. The session's first error. */
ps_status psi_api_settle(ps_session *s);
void psi_api_aside_free(ps_session *s);
/** Those of a monitored session, of s->monitor->gets: all of them once more, in their order, at a client that knows none of them;
 * their records stay. waits: a queue that was found must be there again. Blocks. The first error that time does not mend, else
 * the first. */
ps_status psi_api_get_again(ps_session *s, int64_t timeout_ms, bool waits, struct psi_err *err) PSI_MUST;
/** The program has deleted this one: it is not got again, unless it is a parameter or the session's global step. */
void psi_api_get_deleted(ps_session *s, const struct psi_scoped *scoped);
/** That client is about to go: no record leads to it any more. Nothing is in flight. */
void psi_api_gets_forget(ps_session *s);
/** A recovery comes to its end: the newest checkpoint out of which variables came back in it; 0: none did. *out_all: all of them
 * did. What comes back later is of the next one. */
uint64_t psi_api_gets_restored(ps_session *s, bool *out_all);
/** Of a session that is freed. */
void psi_api_gets_free(struct psi_list *gets);
/** get-or-create `global_step`, once per session. */
ps_status psi_api_global_step(ps_session *s, ps_variable **out_variable, struct psi_err *err) PSI_MUST;

/* ---- variable.c ---- */
/** A request has read or assigned its variable: what ps_variable_version() says from now on. Loop thread, in the order in which
 * requests end. */
void psi_api_note_version(ps_variable *v, const struct psi_request *req);
/** Run req (kind, src, dst, bytes, scale) on v and note its version; req has its result then. Blocks. */
ps_status psi_api_operate(ps_variable *v, struct psi_request *req, struct psi_err *err) PSI_MUST;
/** *version and *exact of a variable or a parameter, of one moment; 0 and inexact in a child of fork(). Any thread. */
uint64_t psi_api_version(ps_session *s, const uint64_t *version, const bool *exact, bool *out_exact);
/** finish(): whether call->variable has a value, into *(bool *)call->arg. */
void psi_api_finish_status(struct psi_api_call *call);
/** What can be seen of a request for numbers at once: memory, size, scale, and that v holds strings. Any thread. */
ps_status psi_api_values_check(const ps_variable *v, const struct psi_request *req, struct psi_err *err) PSI_MUST;
/** INVALID_ARGUMENT, naming both sizes, unless v's value has `bytes`, which a call was given to write it into. PS_OK for NULL and
 * for strings, which every such call refuses for what they are. */
ps_status psi_api_room_check(const ps_variable *v, const char *call, size_t bytes, struct psi_err *err) PSI_MUST;

/* ---- scope.c ---- */
/** Name, container and place of a variable, or of this queue; its name counts as got from now on. Errors: INVALID_ARGUMENT,
 * ALREADY_EXISTS. */
ps_status psi_api_scope(ps_session *s, const ps_variable_spec *spec, enum psi_scope_how how, const struct psi_queue_spec *queue,
                        struct psi_scoped *out, struct psi_err *err) PSI_MUST;
/** Only the full name and the container that a name has in the scopes that are open. */
ps_status psi_api_scope_name(ps_session *s, const char *name, struct psi_scoped *out, struct psi_err *err) PSI_MUST;
/** A push or pop failed: the error sticks to the session and is the calling thread's last. Returns its code. */
ps_status psi_api_scope_failed(ps_session *s, struct psi_err *err, const char *what);
/** It could not be got after all. */
void psi_api_unscope(ps_session *s, const struct psi_scoped *scoped);

/* ---- device.c ---- */
/** "/job:ps/task:0/device:CPU:0, ...": the devices of the cluster for an error's text, "" where they cannot be had; n >= 64. */
void psi_api_devices_text(ps_session *s, char *dst, size_t n);
/** Every task has it, CPU:0, or will do with that: the session allows soft placement. */
bool psi_api_device_is_everywhere(const ps_session *s, const struct psi_device *d);
/** The task, which has said what it has, has the device that d asks for. Errors PS_INVALID_ARGUMENT, PS_REASON_NO_DEVICE: it has
 *  not, and its devices are named. */
ps_status psi_api_device_check(const ps_task_info *task, const struct psi_device *d, struct psi_err *err);
/** One line where a ps task has got more than twice what the others have on average, and --placement balanced would help. */
void psi_api_log_balance(ps_session *s);
/** "v1: (Variable): /job:ps/task:0/device:CPU:0", where the session wants that. */
void psi_api_log_placement(ps_session *s, const ps_variable *v, const char *type);

/* ---- compute.c; for worker/nn: compute.h ---- */
/** The device that the options ask for, or the CPU where they allow it. A session that is being opened. */
ps_status psi_api_compute_open(ps_session *s, const char *device, uint32_t threads, struct psi_err *err) PSI_MUST;
/** NULL: the CPU, not used yet. */
struct psk_place *psi_api_compute_place(ps_session *s);
/** After the parameters are freed. */
void psi_api_compute_close(ps_session *s);

/* ---- sync.c ---- */
/** For READY; step: the global step. */
struct psi_sync psi_api_sync_of(ps_session *s, struct psi_var *step);
/** READY has found, or made, what s->sync says: become a member. Blocks. Nothing to do where that is nothing. */
ps_status psi_api_sync_join(ps_session *s, int64_t timeout_ms, struct psi_err *err) PSI_MUST;
/** A member of rounds: its pushes are contributions. */
bool psi_api_in_rounds(ps_session *s);
/** p is pushed in this step; FAILED_PRECONDITION: for the second time, in rounds. */
ps_status psi_api_sync_pushed(ps_param *p, struct psi_err *err) PSI_MUST;
/** p was not pushed after all, and may be pushed in this step. */
void psi_api_sync_not_pushed(ps_param *p);
/** One thread at a time makes the session ready (its number as the chief), or makes a member's step. Waits until no other
 * thread does. *out_alone: psi_api_alone_end() must follow. CANCELLED: interrupted. */
ps_status psi_api_alone_begin(ps_session *s, bool ready, bool *out_alone, struct psi_err *err) PSI_MUST;
void psi_api_alone_end(ps_session *s);
/** A member's step is complete: wait until the member may go on. *out_step: the global step, of rounds. Blocks. Nothing to do
 * where the session is no member, or where the wait was over before ps_step_done() was interrupted. */
ps_status psi_api_sync_step(ps_session *s, int64_t *out_step, struct psi_err *err) PSI_MUST;
/** Note that the member's step is counted. */
void psi_api_sync_counted(ps_session *s);
/** It has finished: a member leaves. Blocks. */
ps_status psi_api_sync_finish(ps_session *s, struct psi_err *err) PSI_MUST;
/** The session closes: it has finished, unless it has failed. Blocks for a second at most. */
void psi_api_sync_leave(ps_session *s);

/* ---- step.c ---- */
/** Forget the additions of interrupted steps, because they belong to a model that is gone. Nothing is in flight. */
void psi_api_steps_forget(ps_session *s);
/** Free the records of a session that is freed. */
void psi_api_steps_free(ps_session *s);

/* ---- job.c ---- */
/** FAILED_PRECONDITION: gradients and steps of this session do not count. */
ps_status psi_api_trains(ps_session *s, struct psi_err *err) PSI_MUST;

/* ---- param.c ---- */
void psi_api_params_free(ps_session *s);
/* What ps_session_ready() found. */
struct psi_found {
    int variables;                  /* of the program, that had a value before */
    int64_t step;                   /* the global step */
    int64_t model_step;             /* the one that the model began with: anew, or out of a checkpoint */
    uint64_t incarnation, creation; /* of the global step: another model has others */
    bool restored, initialised;     /* by this session, as the chief: the restore function gave the values, or initialisers */
};
/* ready.c */
void psi_api_set_global_step(ps_session *s, int64_t step);
/** ready.c: ps_session_ready() once: *err is what sticks. Blocks for timeout_ms, as a call does, and for what is yet to be got.
 */
ps_status psi_api_ready(ps_session *s, int64_t timeout_ms, struct psi_found *out_found, struct psi_err *err) PSI_MUST;
/** Its goal is reached, or the cluster asks it to stop. */
bool psi_api_is_over(ps_session *s);
/** A recovery: no values are on their way, none of them has been read. Nothing is in flight. */
void psi_api_params_forget(ps_session *s);

#endif

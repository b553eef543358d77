/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libpsworker: sessions with a psd cluster, variables, training. C11 and C++17.
 *
 * Two levels. The first is for the person who writes a training program: parameters, sticky errors, no callbacks. The second,
 * below it, is the asynchronous core: caller-allocated requests, callbacks on the session's loop thread, no allocation in steady
 * state. Kernels are in ps_nn.h.
 *
 * NULL where an object or a buffer is needed is INVALID_ARGUMENT, or from functions without a status 0, false, "" or NULL.
 *
 * Ownership words: "borrows" (until the call returns), "keeps" (until the callback; the caller must not touch it), "owns".
 */
#ifndef PS_H
#define PS_H

#include "ps_cluster.h"
#include "ps_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ps_session ps_session;
typedef struct ps_param ps_param;
typedef struct ps_variable ps_variable;

/* ================================================= sessions ================================================= */

/* PS_LOG_ERROR has one line: the first error of the session, which ends it. */
typedef enum ps_log_level { PS_LOG_DEBUG = 0, PS_LOG_INFO = 1, PS_LOG_WARN = 2, PS_LOG_ERROR = 3 } ps_log_level;
/** One log line without newline; called on any thread of the library, never concurrently for one session. */
typedef void (*ps_log_fn)(void *ctx, ps_log_level level, const char *line);

typedef enum ps_progress {
    PS_PROGRESS_THREAD = 0, /* the library's own I/O thread */
    PS_PROGRESS_CALLER = 1  /* no thread: blocking calls drive the session, and ps_progress_run() between them */
} ps_progress;

typedef struct ps_session_options {
    size_t struct_bytes;      /* filled by ps_session_options_init */
    const char *target;       /* psd://host:port, host:port or unix:PATH of any task; NULL: from the spec */
    const char *cluster_spec; /* any text that ps_cluster_spec_new takes; NULL: asked from the target */
    const char *cluster_name; /* "psd" */
    const char *job;          /* job of this client ("worker"), NULL: none */
    /* a task of job worker, chief or master is one process at a time. A call of a second process ends with FAILED_PRECONDITION
     * (CONFLICT) when the first one was heard again. Several sessions of one process are fine */
    uint32_t task_index;
    uint32_t spin_us; /* 50: whoever waits for an answer looks for it so long before it sleeps, where the last ones came that fast
                         and another CPU than one is there; 0: never */
    int64_t operation_timeout_ms; /* 60,000 */
    int64_t ready_timeout_ms;     /* 600,000 */
    ps_progress progress;
    ps_log_level log_level; /* PS_LOG_INFO: lines below it are not made */
    ps_log_fn log;          /* NULL: standard error */
    void *log_ctx;
    const char *program; /* shown to operators; NULL: from /proc/self/comm */
    uint64_t seed;       /* of initializers; 0 is a value like any other */
    /* of the session's variables outside ps_container_push(); NULL: "localhost". Trainers with different ones may be the same
     * task of one cluster. */
    const char *container;
    bool allow_soft_placement; /* a variable asked for on a device that its task lacks goes to CPU:0; false: an error */
    bool log_device_placement; /* one line per object in creation order, found or new: "v1: (Variable): /job:ps/task:0/..." */
    bool fail_fast; /* a call to a task that refuses connections, or that is no psd, is UNAVAILABLE after 0.3 s instead of at its
                       deadline: for what looks and steers; who trains waits for a task that is restarted */
    bool prefetch;  /* ps_pull() begins to read what the next one gives: the wire works beside the program, and values are one
                       step older than they need be. false: nothing is older than the call or the ps_push_pull() before it */
    ps_dtype wire_dtype;     /* PS_BF16 or PS_F16: how float32 values and gradients travel unless the variable says
                                otherwise; PS_DTYPE_NONE: as float32 */
    ps_log_fn placement_log; /* NULL: log */
    void *placement_log_ctx;
    const char *compute_device; /* where layers (ps_nn.h) compute: "cpu", "gpu:0"; NULL: "cpu". One that is not there is an error
                                   of the opening (NOT_FOUND, UNIMPLEMENTED); with allow_soft_placement the CPU computes, and the
                                   placement log says so */
    uint32_t compute_threads;   /* of the CPU for kernels, of the whole process, at most 1024; 0: as it is (1 at first, or what
                                   OPENBLAS_NUM_THREADS says) */
    /* how long a request waits for a task to which the session was never connected, if its own timeout is longer; a monitored
     * session does not try again then. 0, or more than that: ready_timeout_ms. --timeout sets it */
    uint32_t start_timeout_ms;
} ps_session_options;
/** Defaults. Any thread. */
PS_API void ps_session_options_init(ps_session_options *options);

/**
 * Open a session. Returns at once when the options are sane; connections are made in the background and on first use.
 * options borrows. Errors: INVALID_ARGUMENT naming the option, RESOURCE_EXHAUSTED (memory; too few files may be open: says how
 * many it takes). *out_session is written on PS_OK only; owns: ps_session_close.
 */
PS_API ps_status ps_session_open(const ps_session_options *options, ps_session **out_session, char *error, size_t error_bytes);

/**
 * Open from the command line: takes out of argv the flags it knows (--cluster --ps_hosts --worker_hosts --cluster_name --job_name
 * --task_index --target --container --steps --seed --timeout --log_level --wire_dtype --placement --fresh --allow_soft_placement
 * --log_device_placement --prefetch --sync --sync_workers --replicas_to_aggregate --on_worker_loss --staleness --device --threads
 * --help; `-` and `_` alike, `--flag value` and `--flag=value`) and leaves the others. Without cluster flags TF_CONFIG counts,
 * then PSD_TARGET, then 127.0.0.1:2222. --fresh (the chief resets the container) and
 * --placement balanced without a cluster spec ask the cluster here and block for --timeout at most. Never NULL: after a failure
 * every call returns the same error, ps_should_stop is true and ps_session_close returns it. --help prints `about` and the flags
 * to standard output; then every call is CANCELLED with a text that says so (also ps_session_error()), none of this is an error
 * of the session, ps_should_stop is true and ps_session_close returns 0.
 */
PS_API ps_session *ps_session_open_args(int *argc, char **argv, const char *about);

/** Wait for what is in flight (bounded by the operation timeout), say goodbye, free everything; parameters and variables too. A
 * member of rounds (ps_session_sync) that has no error has finished: the others go on without it, which is no loss. With an
 * error, and after ps_session_leave(), the member counts as lost. Returns 0, or the code of the first error, which was logged
 * when it happened. NULL is fine. Any thread, once. Calls that wait in other threads (of training, variables, queues, work,
 * accumulators and barriers) end at once with CANCELLED (PS_REASON_CLOSING), as with ps_interrupt(), and this call waits until
 * they have returned. A call that begins later ends with FAILED_PRECONDITION (CLOSING). Neither is an error of the session. */
PS_API int ps_session_close(ps_session *s);
/** Say goodbye now, whatever other threads are doing with the session, so that the tasks forget it at once: for a program that
 * is told to end (SIGINT) and then ends. Takes at most a second. Calls that wait end at once with CANCELLED
 * (PS_REASON_CLOSING). Later calls fail. Asynchronous requests end in their time, at the latest by ps_session_close(). Any
 * thread, but not in a callback. Not in a signal handler: there use a thread that waits for signals, or ps_interrupt(). NULL is
 * fine. */
PS_API void ps_session_leave(ps_session *s);
/**
 * End the calls of the session that threads are in at this moment. Each returns CANCELLED (PS_REASON_INTERRUPTED) as soon as
 * its thread runs, whatever it waits for. The session goes on. A call that begins after this one is not interrupted, and an
 * interrupted call may be made again.
 *
 * The requests that these calls wait for are withdrawn at the tasks, as at a deadline. An element that a task had handed out
 * goes back to its queue. For a call that changes something ps_last_applied() says whether the change may have been carried
 * out: PS_OUTCOME_UNKNOWN for an ENQUEUE that was sent, for ps_variable_push() and for ps_variable_assign(), until a task has
 * answered. Requests that no call waits for go on: gradients of ps_push(), values of ps_push_pull() and `prefetch`, requests of
 * ps_x_start().
 *
 * ps_step_done()   the next one continues the same step. The step counts once, unless the session was made anew meanwhile
 * ps_pull()        the values that have not come are torn until the next one has returned PS_OK
 * ps_param_get()   does not wait. What it has put aside is got by the next ps_session_ready() or other call that gets
 * ps_param_grad()  does not wait for the last push of the parameter, which goes on: it returns another buffer
 * ps_should_stop() returns true if interrupted while a monitored session is made anew, or in a hook. The next one goes on there
 *
 * Interrupted are the calls that wait for a task, or for another thread's call:
 *   ps_session_ready, ps_session_wait_cluster, ps_session_job_done, ps_barrier, ps_barrier_within, ps_wait_ready, ps_wait_step
 *   ps_stop, ps_sync_finish, ps_progress_run, ps_pull, ps_pull_param, ps_push, ps_push_pull, ps_step_done, ps_should_stop
 *   ps_param_grad; ps_param_get in a scope of PS_REUSE_ALWAYS
 *   ps_variable_get, ps_variables_get, ps_variable_find, ps_global_step_get, ps_variable_delete, ps_report_uninitialized
 *   what asks the task of a variable: ps_variable_read, _assign, _init, _push and their like, ps_variable_set_rate, ps_set_rates
 *   ps_reset, ps_reset_containers, ps_reset_all, ps_export, ps_import, ps_checkpoint_save and all other ps_checkpoint_ calls
 *   ps_queue.h: all but the _start calls, ps_tuple_ calls, and what is said of a queue without asking (name, device, spec)
 *   ps_session_devices, ps_cluster_tasks, ps_cluster_info, ps_task_ calls, ps_rounds, ps_checkpoints, ps_call
 *   ps_ps_count, ps_task_count and ps_is_chief, which then say what is known without asking
 *
 * Not interrupted: ps_session_open and its like, ps_session_close and ps_session_leave, which end by themselves, ps_param_value
 * and the layers of ps_nn.h, which wait for a device at most, ps_file_check, and whatever asks nobody.
 *
 * A recovery of a monitored session ends too: the session is lost as before, and the next call makes it anew. A hook or a
 * restore function is not ended itself, but each call that it makes is. If the hook then returns CANCELLED, the call to which
 * the hook belongs returns CANCELLED; called again, that call goes on with this hook. ps_progress_run() returns; the next one
 * goes on with what it drives.
 *
 * Thread   any thread, and in a signal handler: async-signal-safe, errno stays. Not beside or after ps_session_close(), which
 *          ends calls by itself. NULL, a session that was not opened, a child of fork(): nothing happens.
 */
PS_API void ps_interrupt(ps_session *s);

/** Blocking calls that take no timeout, or one <= 0, end ms from now at the latest, and have 50 ms at least: for a program that
 *  has so long in all. The goodbye too. ms <= 0: each has the operation timeout again. Not while a call of the session runs.
 *  NULL is fine. */
PS_API void ps_session_set_deadline(ps_session *s, int64_t ms);

/** The first error of the session: PS_OK when there is none. Any thread. */
PS_API ps_status ps_session_status(ps_session *s);
/** Text of the first error, "" when there is none; valid until close, of a monitored session until the thread's next call of it.
 *  Any thread. */
PS_API const char *ps_session_error(ps_session *s);
/** What the failed call did to the ps. */
PS_API ps_applied ps_session_error_applied(ps_session *s);
/** Why the first error of the session is one, for programs: PS_REASON_NONE when there is none. Any thread. */
PS_API ps_reason ps_session_reason(ps_session *s);
/** Make an error sticky from outside (the program's own failure, ps_nn.h). Later errors do not replace the first. */
PS_API ps_status ps_session_fail(ps_session *s, ps_status st, const char *text);

/** Wait until all tasks of the named jobs are up: "ps,worker". ps tasks: connected to the directory; others: a session that
 *  named that task holds a lease. Blocks. Errors: DEADLINE_EXCEEDED naming who is missing. */
PS_API ps_status ps_session_wait_cluster(ps_session *s, const char *jobs, int64_t timeout_ms);

/**
 * Wait at a barrier until count callers have come to it, of whatever sessions; then all go on, and its name is free for the next
 * round. At the directory task; the name is in the container, and behind the prefix, of the thread's scopes.
 *
 * count       how many, this call included; 0: all sessions of job worker that hold a lease when the last of them comes, and
 *             have the default container of the first of them that waits: another program on the cluster does not count. A
 *             session counts once then; who is no worker waits with them. Workers that have not started hold none: ps_barrier()
 *             after ps_session_wait_cluster(s, "worker", 0) waits for all of the cluster spec.
 * timeout_ms  <= 0: the session's operation timeout, as ps_barrier() has it.
 *
 * Who leaves does not count: by his deadline, by the session's end, or by that of its lease (a process that was killed: after
 * psd --lease, at once when another one says that it is the same task).
 *
 * Thread   any thread; blocks. Nothing of the session sticks.
 * Errors   PS_DEADLINE_EXCEEDED   not all have come; names who has not
 *          PS_INVALID_ARGUMENT    those who wait there gave another count; both are named
 *          PS_ABORTED             the lease ended while it waited; or, outcome unknown (ps_last_error() says so), the directory
 *                                 was restarted: the others may have gone on
 *          PS_UNAVAILABLE         no connection to the directory within the timeout
 * The directory gives up waiting up to 0.25 s before timeout_ms, of a short one up to half of it (ps_queue.h).
 */
PS_API ps_status ps_barrier(ps_session *s, const char *name, int count);
PS_API ps_status ps_barrier_within(ps_session *s, const char *name, int count, int64_t timeout_ms);

/** Index and number of tasks of this session's job (0 and 1 when it has none); where indices are missing, the highest one plus 1,
 *  so that every task counts alike. Any thread. */
PS_API int ps_task_index(ps_session *s);
PS_API int ps_task_count(ps_session *s);
/** True in the session that initialises variables: task 0 of job worker, or the task of job chief, or any session without a job.
 */
PS_API bool ps_is_chief(ps_session *s);
/** Number of ps tasks of the cluster; blocks until the cluster is known; 0 after a failure. */
PS_API int ps_ps_count(ps_session *s);

/* ===================================== parameters: training programs ===================================== */

/**
 * A trainable float32 variable, to be got or created as the session's scopes say now, with its own value and gradient buffers
 * (64-byte aligned). Placement outside all scopes: round robin over the ps tasks in order of the calls.
 *
 * Asks nobody: the definition travels, with those of all parameters before it, at ps_session_ready() or with whatever first needs
 * one (a pull, a push, a variable that is got or found): a thousand parameters cost the round trips of one. In a scope of
 * PS_REUSE_ALWAYS it blocks and looks the variable up at once. Never NULL; after a failure a harmless dummy.
 *
 * Threads: any, not in a callback. Several may use parameters of one session at once, each parameter and its buffers one thread
 * at a time; ps_pull() is about all of them.
 *
 * name borrows; init and optimizer are copied. Errors (sticky): at once INVALID_ARGUMENT (name, shape, initializer, optimizer),
 * ALREADY_EXISTS (PS_REUSE_NEVER), RESOURCE_EXHAUSTED, FAILED_PRECONDITION (in a callback); when it is got, with its name, those
 * of ps_variable_get().
 */
PS_API ps_param *ps_param_get(ps_session *s, const char *name, ps_shape shape, const ps_initializer *init,
                              const ps_optimizer *optimizer);
/** The value buffer in host memory, elements in row-major order; never NULL (zeros in a dummy). Filled by ps_pull, and changed by
 * nothing else: values that come meanwhile go to a second buffer. The two are exchanged then, so ask again after each ps_pull;
 * without ps_push_pull and `prefetch` it is always the same one. What a program writes there itself is seen by layers from its
 * next call on; where another device computes, call this before each time. */
PS_API void *ps_param_value(ps_param *p);
/** The gradient buffer in host memory; waits until the last push of p is acknowledged, and for a gradient that a device has yet
 * to compute. Never NULL but for NULL, as ps_param_value(): after a failure, which ps_session_status() says, it is memory of p
 * that is never pushed. It holds what was written last: nobody sets it to zero, so write all of it (ps_dense_backward does). It
 * is the same buffer each time, but for a call that was interrupted while a push had that buffer (ps_interrupt()): that call
 * returns another one, which is the gradient buffer from then on. In a callback: FAILED_PRECONDITION (sticky). */
PS_API void *ps_param_grad(ps_param *p);
PS_API const ps_shape *ps_param_shape(const ps_param *p);
PS_API const char *ps_param_name(const ps_param *p); /* the full one */
PS_API ps_session *ps_param_session(ps_param *p);
/** Version of the value that the last pull brought; exact is false when a push was in progress or versions differed. */
PS_API uint64_t ps_param_version(const ps_param *p, bool *out_exact);
/** = ps_session_fail of its session. */
PS_API ps_status ps_param_fail(ps_param *p, ps_status st, const char *text);

/**
 * Make every variable of the session ready: the chief initialises what is uninitialised and seals; the others wait. Also gets or
 * creates global_step. Blocks up to the operation timeout for what is yet to be got, then up to the ready timeout. Errors
 * (sticky): DEADLINE_EXCEEDED (which variables, which ps, no chief), DATA_LOSS (part of the model was lost; names it: some
 * variables are trained, sealed, or were given their values by another session, and these have none; one that is new to a model
 * that was ready counts as lost, too), ABORTED (a newer chief),
 * FAILED_PRECONDITION (the chief that is connected has put other hyperparameters in force than this program asks for, or has
 * put the variables in rounds while this program does not ask for rounds, or the other way round). What an earlier training has
 * left in force is no such error: the others wait for the chief of this training, and DEADLINE_EXCEEDED says what differs.
 *
 * Several threads do it one after the other.
 *
 * With ps_session_sync() the chief puts the parameters in rounds before it seals, and every session becomes a member here: it
 * waits for the next round where others are in the middle of one, up to the ready timeout. Further errors: RESOURCE_EXHAUSTED (no
 * room at a ps for this member's gradients, or for the new values), INVALID_ARGUMENT (other options than the chief's; parameters
 * in several containers, or none with an optimizer; a session without a job), OUT_OF_RANGE (a session that was made anew: all
 * others have finished the training meanwhile).
 */
PS_API ps_status ps_session_ready(ps_session *s);
/** After ps_session_ready: the number of variables that existed and were initialised before, and the global step then. */
PS_API int ps_session_found(ps_session *s, int64_t *out_global_step);

/**
 * Pull all parameters into their value buffers, in order of creation. Blocks, for two operation timeouts at most when parameters
 * are yet to be got. After an error the buffers may be torn, as dst of ps_variable_read().
 *
 * A parameter whose last push was a ps_push_pull has the values that came with it: nothing is asked, the call waits for those.
 * With ps_session_options.prefetch every parameter has those that the last ps_pull began to read, and the next are begun: they
 * have all gradients that this session pushed before the last ps_pull, and may lack those after it.
 *
 * In rounds a member that has not completed its step has the values of one round, where every member is needed for the next.
 * Who only looks on may get parameters of two rounds, and two rounds in one parameter of more than 64 KiB (ps_param_version()
 * says whether it is exact); ps_export() does not.
 */
PS_API ps_status ps_pull(ps_session *s);
/** Pull one. */
PS_API ps_status ps_pull_param(ps_param *p);
/** Push p's gradient buffer; returns at once, unless parameters are yet to be got or the last push of p is yet to be
 * acknowledged, which it waits for. The buffer is the library's until the push is acknowledged. A gradient that a device has yet
 * to compute travels when it is there, which pulls of p and ps_session_close() wait for. In rounds it is this worker's
 * contribution to the round, which ps_step_done() completes; a second one of the same step is FAILED_PRECONDITION. */
PS_API ps_status ps_push(ps_session *s, ps_param *p);
/** The same, and the values after it come back for the next ps_pull, in one round trip and while the program works: in a loop
 * that pulls in each step the wire is hidden behind the layers that are still to be computed. They lack what others push after
 * it. With ps_session_options.prefetch, and in rounds, it is ps_push. */
PS_API ps_status ps_push_pull(ps_session *s, ps_param *p);
/**
 * Wait until every push of this step is acknowledged, then add one to the global step, exactly once. Blocks.
 *
 * In rounds (ps_session_sync) it completes this worker's contribution and waits until the round is over: the new values are on
 * all ps then, and the global step is one more, for all workers together. Every parameter with an optimizer must have been pushed
 * since the last step, else FAILED_PRECONDITION, which names those that were not. A contribution that came too late (enough
 * others had completed the round), or whose worker had been taken for lost before, is dropped: PS_OK, ps_dropped() counts it,
 * and the next ps_pull() has the values to go on with. (Where the directory was restarted too while the worker was lost, a
 * contribution counts as dropped although the round may have it.) With a bound on staleness it waits while this worker is too
 * far ahead, then adds one. A step that ends with an error is not counted, but its gradients are in: ps_session_error_applied()
 * says so. In rounds it says PS_OUTCOME_UNKNOWN where the round may still be closed with these gradients.
 *
 * Of several threads that are in here for a member one makes its step after the other.
 *
 * Both wait for the operation timeout at most; the first step for the ready timeout where that is longer, as long as workers
 * are yet to start. Errors (sticky): DEADLINE_EXCEEDED naming who is missing and for how long, ABORTED (a worker was lost and the
 * policy is PS_LOSS_FAIL; a task was restarted without the group; the container was reset; another session of the same task has
 * taken this one's place), UNAVAILABLE (the directory cannot be reached), OUT_OF_RANGE (all others have finished while this
 * worker was taken for lost; in rounds it has been told so by an earlier step, which was dropped).
 */
PS_API ps_status ps_step_done(ps_session *s);
/** The global step that the last ps_step_done or ps_session_ready saw. */
PS_API int64_t ps_global_step(ps_session *s);
/** True after a failure or --help, when the global step has reached --steps (logged where it had before this session began), and
 * once the cluster has asked this session to stop (ps_stop). What blocks (ps_session_ready, a wait) is not interrupted by that:
 * ask before and after it. */
PS_API bool ps_should_stop(ps_session *s);
/** What ps_should_stop() would return now, and nothing happens by it: no hook is called, no step begins, a lost monitored session
 * is not made anew, nothing is logged or waited for. False of a lost session that ps_should_stop() would make anew. For threads
 * beside the one that trains (readers of data, a display) and for code in the middle of a step. Any thread, also in a callback.
 */
PS_API bool ps_would_stop(ps_session *s);
/** The global step to stop at; 0: no limit. A --steps on the command line (ps_session_open_args) wins over it. */
PS_API void ps_set_steps(ps_session *s, int64_t steps);
/** The seed given by --seed or the options. */
PS_API uint64_t ps_seed(ps_session *s);
/** Ask every session that the directory knows now, this one too, to stop: ps_should_stop becomes true there within a beat (of the
 *  directory, 2.5 s) and stays so. A session that is opened later is not concerned; one that is away is told when it comes back.
 * A directory that is restarted has forgotten it for those that have not heard of it: ask again, which is always harmless.
 * While the directory cannot be reached every other task is asked instead, within timeout_ms again: PS_OK when one of them has
 * told the sessions that it knows. out_sessions (may be NULL): those of them that are connected or hold a lease; of several tasks
 * the most that one told. Blocks. */
PS_API ps_status ps_stop(ps_session *s, int64_t timeout_ms, uint32_t *out_sessions);

/**
 * The end of a job: this trainer (a task of job worker, chief or master) is done. Waits for its pushes; a member of rounds leaves
 * them as one that has finished. Afterwards ps_should_stop is true, and ps_push and ps_step_done are FAILED_PRECONDITION; values
 * can be read as before.
 *
 * The job is done when every trainer that the cluster lists has said so; where it lists none, when one has, and no trainer that
 * holds a lease has not. A program that names no job counts while it is connected and knows a global step. A trainer that opens
 * another session is not done any more, until it says so again; what the others have said stays. Then ps_should_stop becomes true
 * in every session within a beat, and tasks with exit_when_done end when no session is connected to them any more, a lease later
 * at the latest: whoever needs the values (a test, an export) reads them before.
 *
 * Blocks. Errors, which do not stick: FAILED_PRECONDITION (no trainer), ABORTED (CONFLICT: another process began later
 * as the same task and is not done: its word counts), UNAVAILABLE and DEADLINE_EXCEEDED (the directory cannot be reached: it may
 * be said again); the session's own.
 */
PS_API ps_status ps_session_job_done(ps_session *s);

/* ========================================= training in step with others ========================================= */

typedef enum ps_sync_mode {
    PS_SYNC_NONE = 0,     /* every worker at its own pace; a push is applied when it comes */
    PS_SYNC_ROUNDS = 1,   /* one step of all workers is one update, with the average of their gradients */
    PS_SYNC_STALENESS = 2 /* as NONE, but nobody gets more than so many steps ahead of the slowest */
} ps_sync_mode;
/* A worker is lost whose session ends, or is away for a lease (psd --lease), before it has said that it is finished
 * (ps_session_close without an error). */
typedef enum ps_worker_loss {
    PS_LOSS_WAIT = 0,   /* its place waits for a session of the same task; the others for it, until their deadline */
    PS_LOSS_SHRINK = 1, /* the others go on without it */
    PS_LOSS_FAIL = 2    /* the steps of all others fail with ABORTED */
} ps_worker_loss;
typedef struct ps_sync_options {
    size_t struct_bytes; /* filled by ps_sync_options_init */
    ps_sync_mode mode;   /* PS_SYNC_ROUNDS */
    uint32_t workers;    /* the first round begins when so many have joined; 0: those of the cluster spec (jobs worker, chief,
                            master), 1 where it lists none */
    uint32_t replicas_to_aggregate; /* ROUNDS: a round is over when so many have completed it; later ones are dropped. 0: all */
    ps_worker_loss on_worker_loss;  /* PS_LOSS_WAIT */
    uint32_t staleness;             /* STALENESS: how many steps ahead of the slowest; 0 waits for it in each step */
    uint32_t reserved;
} ps_sync_options;
/** Rounds of all workers. Any thread. */
PS_API void ps_sync_options_init(ps_sync_options *options);
/**
 * Train in rounds, or with bounded staleness, from the next ps_session_ready() on; the options of all workers must be the same.
 *
 * Rounds: ps_push() stages the gradient at the parameter's ps, ps_step_done() says that this worker's part is complete. When all
 * are (or replicas_to_aggregate of them), every ps computes the new values of its parameters from the average of the gradients,
 * summed in order of the workers' task indices, so that equal gradients give equal bits whoever is faster; then all change at
 * once, and the global step becomes one more. A worker that starts later takes part from the next round on; one that is
 * restarted takes the place of the one before it. What else pushes to such a parameter is FAILED_PRECONDITION
 * (PS_REASON_IN_ROUNDS). The parameters are those with an optimizer, and of one container, that of the session.
 *
 * Staleness (Ho et al., 2013): pushes are applied as they come; a worker whose own steps are more than `staleness` ahead of the
 * slowest member's waits in ps_step_done().
 *
 * options  borrows; NULL: rounds of all workers. mode PS_SYNC_NONE takes an earlier call back.
 *
 * Thread   any thread; asks nobody. After a --sync or --staleness on the command line it is not needed.
 * Errors   (sticky) PS_INVALID_ARGUMENT    an option out of range, replicas_to_aggregate > workers, rounds with prefetch
 *                   PS_FAILED_PRECONDITION the session is a member of rounds already
 */
PS_API ps_status ps_session_sync(ps_session *s, const ps_sync_options *options);
/** How many of this session's steps were dropped in rounds: completed too late, or while it was taken for lost. Any thread. */
PS_API int64_t ps_dropped(ps_session *s);
/** This member has made its last step: the others do not wait for it any more, and its session goes on as that of no member.
 * Blocks. PS_OK also for one that is none. Errors, which do not stick: those of ps_step_done() but for ABORTED. */
PS_API ps_status ps_sync_finish(ps_session *s);

/* ========================================= PS_PROGRESS_CALLER ========================================= */

/*
 * The session makes no thread (but short-lived ones for name look-ups). Blocking calls work as always: they drive the session
 * themselves, on the calling thread; where several threads are in them, one drives and the others wait. Between them
 * ps_progress_run() drives it: enter it once per quarter lease (2.5 s) at least. Later than a lease (10 s) the tasks may have
 * given the session up: a log line says so, and the next call reconnects and resumes. What ps_x_start() and ps_push() hand over
 * goes out when the session is driven next. "The loop thread" of the callbacks is the thread that drives.
 * SIGPIPE is blocked while the library drives, and one that its writes caused is taken.
 *
 * A poll loop: wait for ps_progress_fd() to be readable, for ps_progress_timeout_ms() at most, then ps_progress_run(s, 0).
 */
/** Let the session work for at most timeout_ms (0: what is due now), or until something happened; callbacks run in here. Not in
 *  a callback. FAILED_PRECONDITION: the session has a thread, or another thread is driving it. */
PS_API ps_status ps_progress_run(ps_session *s, int64_t timeout_ms);
/** A descriptor that polls readable when ps_progress_run() has something to do; -1 when the session has a thread or was never
 *  opened. Only to be polled. Constant until close, but that a recovery of a monitored session (ps_monitored.h) makes another
 *  one: ask again after each ps_should_stop(), ps_pull() and ps_session_ready(). */
PS_API int ps_progress_fd(ps_session *s);
/** Milliseconds until ps_progress_run() must be entered again though the descriptor is silent: >= 0, some tens at most; 1,000
 *  where there is nothing to do. */
PS_API int64_t ps_progress_timeout_ms(ps_session *s);

/* ============================================ scopes of a session ============================================ */
/*
 * What is got or created between a push and its pop is named, held and placed accordingly. Scopes nest. They belong to the
 * session and hold for all threads: build the model on one thread. Errors of a push: INVALID_ARGUMENT; a pop without a push is
 * FAILED_PRECONDITION. They are sticky: what a program builds after a push that failed would be somewhere else than it says.
 */

typedef enum ps_reuse {
    PS_REUSE_AUTO = 0,  /* get or create: tf.AUTO_REUSE */
    PS_REUSE_NEVER = 1, /* a name that this session has got already is ALREADY_EXISTS */
    PS_REUSE_ALWAYS = 2 /* what the cluster does not have is NOT_FOUND, nothing is created */
} ps_reuse;
/** with tf.variable_scope(name): names are prefixed with "name/"; the innermost reuse that is not AUTO holds. NULL or "": no
 *  prefix, only the reuse. */
PS_API ps_status ps_variable_scope_push(ps_session *s, const char *name, ps_reuse reuse);
PS_API ps_status ps_variable_scope_pop(ps_session *s);
/** with tf.container(name). */
PS_API ps_status ps_container_push(ps_session *s, const char *name);
PS_API ps_status ps_container_pop(ps_session *s);
/** with tf.device(device); NULL hides all outer device scopes. A job without a task is its task 0. */
PS_API ps_status ps_device_push(ps_session *s, const char *device);
/** with tf.device(tf.train.replica_device_setter(...)); options borrows. Outside any setter variables that no scope places take
 * turns over the ps tasks (or the tasks of the directory's job) in order of creation, one counter for the session. */
PS_API ps_status ps_device_push_setter(ps_session *s, const ps_setter_options *options);
PS_API ps_status ps_device_pop(ps_session *s);

typedef struct ps_device_info {
    char name[PS_DEVICE_BYTES]; /* "/job:ps/task:0/device:CPU:0" */
    char type[16];              /* "CPU" */
    uint32_t index;             /* of its type in its task */
    uint32_t reserved;
    uint64_t memory_bytes; /* CPU: the task's budget */
} ps_device_info;
/** Devices of all tasks that serve, sorted by task: at most max are written, the total is returned, -1 on error. Blocks, up to
 * the operation timeout where a task has not started yet. item_bytes: sizeof(*infos), here and in the other calls that fill
 * arrays of structs: these may grow at their end. */
PS_API int ps_session_devices(ps_session *s, ps_device_info *infos, size_t item_bytes, int max);

/* ================================================ variables ================================================ */

typedef struct ps_variable_spec {
    size_t struct_bytes; /* filled by ps_variable_spec_init */
    const char *name;    /* NULL or "": `Variable`, `Variable_1`, ... the first that this session has not got in its scope */
    ps_dtype dtype;
    uint32_t partitions; /* 0 or 1: whole; more is UNIMPLEMENTED in this release */
    ps_shape shape;
    const ps_initializer *init;    /* NULL: zeros */
    const ps_optimizer *optimizer; /* NULL: none */
    const char *device;            /* innermost device scope, such as "/job:ps/task:1"; NULL: none */
    const char *type;              /* shown in the placement log and known to setters; NULL: "Variable" */
    bool atomic;                   /* at most PS_ATOMIC_BYTES_MAX: pushes take effect as a whole, every read is exact */
    bool unique;                   /* a name that this session has got already becomes NAME_1, NAME_2, ... as tf.Variable's */
    uint8_t reserved[2];
    ps_dtype wire_dtype; /* PS_BF16 or PS_F16 for a PS_F32 variable's pushes and pulls, PS_F32 for neither; PS_DTYPE_NONE: as the
                            session says */
} ps_variable_spec;
PS_API void ps_variable_spec_init(ps_variable_spec *spec);

/** Get or create. Blocks up to the operation timeout. The variable belongs to the session (freed at close).
 *  Not sticky. Errors: INVALID_ARGUMENT (also for another definition: the text begins with SHAPE_MISMATCH,
 *  OPTIMIZER_MISMATCH or ATOMIC_MISMATCH and names both sides), FAILED_PRECONDITION (value and slots are larger than the whole
 *  memory budget of the task), UNAVAILABLE, DEADLINE_EXCEEDED. */
PS_API ps_status ps_variable_get(ps_session *s, const ps_variable_spec *spec, ps_variable **out_variable);
/**
 * Get or create several at once, each as ps_variable_get() would in this order, for the round trips of one: one list goes to the
 * directory and one to each task that has some of them.
 *
 * specs          [count] filled by ps_variable_spec_init(), whose struct_bytes is the step from one to the next; borrows.
 * out_variables  [count] the variable of each spec, of the session (freed at close); NULL where it could not be got.
 *
 * Thread   any, but not in a callback. Blocks up to the operation timeout.
 * Errors   not sticky; the first in order, with its variable's name. The others are got all the same.
 *          INVALID_ARGUMENT   also specs or out_variables NULL, specs of different struct_bytes: nothing is asked for
 *          all others         as ps_variable_get()
 * Cost     about 60 bytes and the name for each variable, twice; lists of up to 240 KiB, 4,096 variables.
 */
PS_API ps_status ps_variables_get(ps_session *s, const ps_variable_spec *specs, size_t count, ps_variable **out_variables);
/** Find an existing variable by its name in the scopes and container that hold now, whatever its definition and place.
 *  NOT_FOUND. Blocks. */
PS_API ps_status ps_variable_find(ps_session *s, const char *name, ps_variable **out_variable);
PS_API const char *ps_variable_name(const ps_variable *v); /* the full one: "my_problem_1/x" */
PS_API ps_dtype ps_variable_dtype(const ps_variable *v);
PS_API const ps_shape *ps_variable_shape(const ps_variable *v);
PS_API int ps_variable_task(const ps_variable *v);           /* index in its job */
PS_API const char *ps_variable_device(const ps_variable *v); /* assigned: "/job:ps/task:0/device:CPU:0" */
/** What its device scopes asked for, canonical; "" when nothing did, and for one that had to exist (found, PS_REUSE_ALWAYS). */
PS_API const char *ps_variable_requested_device(const ps_variable *v);
PS_API const char *ps_variable_container(const ps_variable *v);
/** Bytes of its value; a string variable has none of its own: 0. */
PS_API size_t ps_variable_bytes(const ps_variable *v);
/** Version of the last read of v, or after its last assign, whichever thread made it. *out_exact: as
 * ps_variable_read_versioned() says; true after an assign. */
PS_API uint64_t ps_variable_version(const ps_variable *v, bool *out_exact);

/*
 * Blocking calls, up to the operation timeout; any thread, but not in a callback; none is sticky. Detail of the last failure of
 * the calling thread: ps_last_error(), ps_last_applied(), ps_last_reason(). Buffers are in host memory, elements of the
 * variable's dtype and shape, row-major (also where they travel as another dtype); the number of bytes must be
 * ps_variable_bytes(). A buffer of 0 bytes, of a variable without elements, may be NULL. Buffers borrow. Errors of all:
 * INVALID_ARGUMENT (bytes, NULL, a PS_STRING variable, a bool that is not 0 or 1), FAILED_PRECONDITION (no value yet, the session
 * closes, in a callback, after fork), ABORTED (it was reset or deleted), RESOURCE_EXHAUSTED (a task's memory budget),
 * DEADLINE_EXCEEDED.
 *
 * What is read arrives in dst before it is checked, so dst is torn until the call has returned PS_OK: old, new and damaged bytes
 * beside each other. That is also what an error leaves there; nothing is written to it after the end.
 */
/** The value into dst [dst_bytes]; ps_variable_version() then says of which moment. */
PS_API ps_status ps_variable_read(ps_variable *v, void *dst, size_t dst_bytes);
/**
 * As ps_variable_read(), and says what these values are, whatever other threads do with v. *out_version: version of the oldest
 * of the values. *out_exact: all values are of that version, of one moment. Either may be NULL; both are written on PS_OK only.
 *
 * Always exact are atomic variables (ps_variable_spec.atomic), strings, and values of at most 64 KiB. A larger
 * value that a push or an assign changes during the read may be of several moments; none of its 64 KiB segments is. A program
 * that needs an exact value reads again.
 */
PS_API ps_status ps_variable_read_versioned(ps_variable *v, void *dst, size_t dst_bytes, uint64_t *out_version, bool *out_exact);
/** Slot number `slot`, from 0 on, of its optimizer into dst [dst_bytes], which has the variable's dtype and shape: momentum and
 *  nesterov "momentum", adagrad "accumulator", adam "m" and "v". OUT_OF_RANGE: its optimizer has no such slot. */
PS_API ps_status ps_variable_read_slot(ps_variable *v, uint32_t slot, void *dst, size_t dst_bytes);
PS_API ps_status ps_variable_read_slot_versioned(ps_variable *v, uint32_t slot, void *dst, size_t dst_bytes,
                                                 uint64_t *out_version, bool *out_exact);
/** Replace the value; slots stay. Exactly once, and at one moment: two assigns leave the value of one of them, and a read that
 * begins after the assign has all of its value. A read that is under way may have parts of the old and of the new value, unless
 * the variable is atomic or small; `exact` of ps_variable_read_versioned() says whether it has. A variable without a value is
 * initialised by an assign; other sessions then take it for part of a model that is there (ps_session_ready). */
PS_API ps_status ps_variable_assign(ps_variable *v, const void *src, size_t src_bytes);
/** Give the first value from memory: applied only if uninitialised then. To other sessions it is as ps_variable_assign(). */
PS_API ps_status ps_variable_init_from(ps_variable *v, const void *src, size_t src_bytes);
/** Run the initializer of its spec; force: also when initialised (slots are reset). */
PS_API ps_status ps_variable_init(ps_variable *v, bool force);
/**
 * v += delta (v -= delta), element by element, exactly once: TensorFlow's assign_add and assign_sub with use_locking.
 *
 * Of any size. More than 64 KiB travel and are added in segments of 64 KiB, as a push is: additions and pushes of several
 * sessions never lose each other's part, a connection that breaks is resumed where it was, and a read in between may have some
 * segments and not others, unless the variable is atomic. After an error ps_last_applied() says whether a part may be in.
 * Integers wrap, as TensorFlow's do. float16 and bfloat16 are added as float32, and the sum is rounded to the nearest, ties to
 * even. NaN and infinity are added as any number (psd --refuse_nonfinite is about gradients).
 *
 * delta      [delta_bytes] of v's dtype and shape, host memory, row-major; borrows. It travels in v's dtype, whatever wire_dtype.
 * out_value  [out_bytes] the new value, of the moment of this addition; NULL: not wanted. Only where the value has at most 64
 * bytes.
 *
 * Errors     INVALID_ARGUMENT     also: v holds bool or strings, out_bytes are not v's, out_value where v has more than 64 bytes
 *            FAILED_PRECONDITION  also: of more than 64 KiB to a variable in rounds (PS_REASON_IN_ROUNDS), as a push
 *            UNIMPLEMENTED        more than 64 bytes, and the task is of a release that cannot add them
 * Source     TF 1.15 core/kernels/dense_update_ops.cc, dense_update_functor.h
 */
PS_API ps_status ps_variable_assign_add(ps_variable *v, const void *delta, size_t delta_bytes, void *out_value, size_t out_bytes);
PS_API ps_status ps_variable_assign_sub(ps_variable *v, const void *delta, size_t delta_bytes, void *out_value, size_t out_bytes);
/** Apply a gradient with the variable's optimizer, exactly once. scale multiplies it before: finite, > 0, no unit (1/replicas
 *  when averaging). INVALID_ARGUMENT also for NaN or infinity in it, or in it times scale (psd --refuse_nonfinite). */
PS_API ps_status ps_variable_push(ps_variable *v, const void *grad, size_t grad_bytes, float scale);
/** Push, and receive the values after it into dst, in one round trip. INVALID_ARGUMENT also where grad and dst overlap. */
PS_API ps_status ps_variable_push_pull(ps_variable *v, const void *grad, size_t grad_bytes, void *dst, size_t dst_bytes,
                                       float scale);
/** As ps_variable_push_pull(), and says what the values are, as ps_variable_read_versioned() does. The oldest of the values
 * have this push. */
PS_API ps_status ps_variable_push_pull_versioned(ps_variable *v, const void *grad, size_t grad_bytes, void *dst, size_t dst_bytes,
                                                 float scale, uint64_t *out_version, bool *out_exact);
/**
 * A learning rate in place of v's optimizer's, until it is cleared (rate NULL) or the variable goes: the next push that begins
 * has it, from anybody, and the next round that is closed. No program's definition is compared with it, and the chief's
 * hyperparameters leave it as it is. Harmless to repeat. Blocks.
 * Errors: INVALID_ARGUMENT (not finite and > 0 in v's dtype), FAILED_PRECONDITION (v has no optimizer), NOT_FOUND (deleted).
 */
PS_API ps_status ps_variable_set_rate(ps_variable *v, const double *rate);
/** Set the rate of every variable of a container (NULL: that of the session) that has an optimizer. All tasks are asked at once,
 * and each sets all of its variables or none. Variables in rounds take the rate at all tasks with the same round, and the call
 * waits for that round. It does not wait where too few of its workers live to close one, or where the round waits for a worker
 * of this process that has not contributed yet. UNAVAILABLE after its time says what the round waits for: either nothing has
 * changed then, or the round that was being closed has changed all of them. *out_variables (may be NULL): number of variables.
 * Further errors: NOT_FOUND when there is none, UNAVAILABLE and others of a task that did not answer: the text says how many
 * variables have the rate all the same. */
PS_API ps_status ps_set_rates(ps_session *s, const char *container, const double *rate, int64_t timeout_ms,
                              uint64_t *out_variables);
/** Has it a value? Asks its task; also of strings. */
PS_API ps_status ps_variable_is_initialized(ps_variable *v, bool *out_initialized);
/** PS_STRING: replace all elements. lengths NULL: texts that end in a NUL. count = elements of its shape. */
PS_API ps_status ps_variable_assign_strings(ps_variable *v, const char *const *values, const size_t *lengths, size_t count);
/** The same, only if it is uninitialised then. */
PS_API ps_status ps_variable_init_strings(ps_variable *v, const char *const *values, const size_t *lengths, size_t count);
/**
 * PS_STRING: element i goes to dst[offsets[i] .. offsets[i + 1]), which a NUL follows only after the last. count as above.
 * dst [dst_bytes], offsets [count + 1]. OUT_OF_RANGE: dst is too small (PS_STRING_BYTES_MAX + 1 always does); *out_bytes (may be
 * NULL) gets what is needed. Exact always.
 */
PS_API ps_status ps_variable_read_strings(ps_variable *v, char *dst, size_t dst_bytes, size_t *offsets, size_t count,
                                          size_t *out_bytes);

/** Detail of the calling thread's last failed blocking call; "" when none. */
PS_API const char *ps_last_error(void);
PS_API ps_applied ps_last_applied(void);
/** Why it failed, for programs. */
PS_API ps_reason ps_last_reason(void);

/** Names of the session's variables that are uninitialised: at most max names are written (valid until close), the total is
 *  returned, -1 on error. TensorFlow's report_uninitialized_variables. Blocks. */
PS_API int ps_report_uninitialized(ps_session *s, const char **names, int max);
/** Wait, on the servers, until all variables of the session are sealed by a chief. */
PS_API ps_status ps_wait_ready(ps_session *s, int64_t timeout_ms);
/** Empty the session's default container on all tasks. Errors: UNAVAILABLE naming a ps that is not connected (nothing done). */
PS_API ps_status ps_reset(ps_session *s);
/** Empty these containers, one after the other; count 0: the session's default one only. An absent container is fine. The error
 *  says which were reset before it. TensorFlow: Session.reset(target, containers). */
PS_API ps_status ps_reset_containers(ps_session *s, const char *const *containers, size_t count);
/** Empty every container of the cluster. */
PS_API ps_status ps_reset_all(ps_session *s);
/** Delete one variable by name, in the scopes and container that hold now. */
PS_API ps_status ps_variable_delete(ps_session *s, const char *name);
/** get-or-create the int64 scalar `global_step`, without prefix, in the session's default container; takes one round-robin turn.
 */
PS_API ps_status ps_global_step_get(ps_session *s, ps_variable **out_variable);

/* ============================================ the asynchronous core ============================================ */

typedef struct ps_request ps_request;
/* What a callback gets begins with its struct_bytes, the library's: such a struct grows at its end. */
typedef struct ps_result {
    size_t struct_bytes;
    ps_status status;
    ps_applied applied; /* when status is not PS_OK */
    uint64_t version;   /* of the variable after the mutation, or of the values read */
    bool exact;         /* reads: a consistent snapshot */
    uint8_t reserved[7];
    uint32_t result_bytes; /* assign_add: the new value, where it has at most 64 bytes; else 0 */
    ps_reason reason;      /* NONE when status is PS_OK */
    uint8_t result[64];
    const char *text; /* error text, valid during the callback */
} ps_result;
/** Once, on the session's loop thread; must not block; may start further requests, also with the same ps_request. */
typedef void (*ps_done_fn)(void *ctx, ps_request *req, const ps_result *result);

/** Caller-allocated; zero before first use; kept from start to callback. */
struct ps_request {
    union {
        uint8_t bytes[512];
        uint64_t align;
        void *pointer;
    } opaque;
};

/** PS_OK: the callback runs exactly once, on the loop thread, never from within the call (it may run before a call made on
 *  another thread has returned). Anything else: it never runs.
 *  timeout_ms <= 0: the session's operation timeout. grad, src, dst are kept until the callback; dst is torn until then, and
 * after an error (see ps_variable_read). Any thread. */
PS_API ps_status ps_push_start(ps_variable *v, const void *grad, size_t grad_bytes, float scale, int64_t timeout_ms,
                               ps_request *req, ps_done_fn done, void *ctx);
PS_API ps_status ps_pull_start(ps_variable *v, void *dst, size_t dst_bytes, int64_t timeout_ms, ps_request *req, ps_done_fn done,
                               void *ctx);
PS_API ps_status ps_push_pull_start(ps_variable *v, const void *grad, size_t grad_bytes, void *dst, size_t dst_bytes, float scale,
                                    int64_t timeout_ms, ps_request *req, ps_done_fn done, void *ctx);
PS_API ps_status ps_assign_start(ps_variable *v, const void *src, size_t src_bytes, int64_t timeout_ms, ps_request *req,
                                 ps_done_fn done, void *ctx);
PS_API ps_status ps_assign_add_start(ps_variable *v, const void *delta, size_t delta_bytes, int64_t timeout_ms, ps_request *req,
                                     ps_done_fn done, void *ctx);

/* ============================================ values in files ============================================ */

/** Every so often, and at the end; total_bytes is known from the start. On the calling thread. */
typedef void (*ps_copied_fn)(void *ctx, const char *name, uint64_t done_bytes, uint64_t total_bytes);
/** An import has given `tensor` to `variable`; NULL variable: that tensor was not meant; NULL tensor: that variable of the
 * container is not among those that were given values. */
typedef void (*ps_taken_fn)(void *ctx, const char *tensor, const char *variable);
typedef struct ps_file_options {
    size_t struct_bytes;   /* filled by ps_file_options_init */
    const char *container; /* NULL: the session's */
    ps_copied_fn copied;   /* may be NULL */
    void *ctx;
    bool slots;              /* import: those of the file, too */
    bool existing;           /* import: none is created, all must be there */
    bool reserved[6];        /* false */
    const char *const *only; /* patterns for names of variables (* ? [a-z]; * also for a /), then NULL; NULL: all. Slots follow
                                their variable. At most 64 */
    const char *const *prefixes; /* "OLD=NEW", then NULL: a name that begins with OLD begins with NEW instead, import: here,
                                    export: in the file; of several the longest; "=NEW": any name. At most 64 */
    ps_taken_fn taken;           /* import; may be NULL: for each, when all is done. On the calling thread */
} ps_file_options;
PS_API void ps_file_options_init(ps_file_options *options);
/**
 * Write the live values of all initialised variables of a container, from all tasks, into one local safetensors file, which
 * appears whole or not at all. Values only: slots stay. A string variable NAME becomes NAME:bytes (U8) and NAME:offsets (I64);
 * __metadata__ has what else psd knows of the variables (docs/OPERATIONS.md). Not an instant of the whole model while others
 * push; of training in rounds always the values of one round on all tasks. When rounds end while they are read they are read
 * again (`copied` begins anew), for the timeout of one variable of that size; a member that exports between two of its steps,
 * of rounds that need all of them, has them at once. out_variables (may be NULL): how many. options NULL: defaults. Blocks; the
 * timeout of the session, and a second more for each 64 MiB, holds per variable. Memory: at most 8 MiB of values at a time.
 * Errors: UNAVAILABLE (a task is down; PS_REASON_IN_ROUNDS: rounds end too fast), DATA_LOSS (a task came back empty: the
 * directory knows more variables), NOT_FOUND (no such directory), PERMISSION_DENIED, RESOURCE_EXHAUSTED (disk full),
 * INVALID_ARGUMENT (at path is something that is no regular file; `prefixes` would make two variables one tensor; the header is
 * larger than the format allows), FAILED_PRECONDITION (no variable with a value). Nothing is written before that is known.
 */
PS_API ps_status ps_export(ps_session *s, const char *path, const ps_file_options *options, int *out_variables);
/**
 * Give the variables of a container the values of a safetensors file: of ps_export or of anybody. What is meant of the file (all
 * of it, or by `only`) is checked whole and compared with what exists before the first variable changes; nothing but the names is
 * looked at of what is not meant, whatever its dtype, shape, name and bytes, and whether its file is there (of an index) or not.
 * A missing variable is created, in the order of the file, round robin (with the optimizer that __metadata__ says). Values are
 * assigned: versions of variables that have one go on, slots stay, unless `slots` is set: then those that ps_checkpoint_export()
 * has written are assigned behind all values, with Adam's powers; of a variable all of them are in the file, or none is, and one
 * that exists has the optimizer that they are of. Of the file's variables only those whose names fit one of `only` are taken, and
 * `prefixes` say what they are called here. A path that ends with .index.json is an index, as ps_checkpoint_export() writes it,
 * and stands for its files, which lie beside it. Memory: the largest variable, at least 64 MiB. Errors: INVALID_ARGUMENT naming
 * the tensor (dtype, shape, name, offsets; two that would be one variable), FAILED_PRECONDITION (PS_REASON_IN_ROUNDS: a worker
 * trains it in rounds, which is named: stop them first; so is an assign), NOT_FOUND (no such file; a pattern or a prefix that
 * fits nothing; a variable that must exist and does not), and those of creation and assign, whose text then says how many
 * variables had been given theirs and how many were created and have none. ABORTED (PS_REASON_LOST): a task was lost, or went
 * back to a checkpoint, before all variables had their values: import again. Where ps tasks save checkpoints, call
 * ps_checkpoint_save() after the import: until then a task that is lost comes back with older values.
 */
PS_API ps_status ps_import(ps_session *s, const char *path, const ps_file_options *options, int *out_variables);
/** Would ps_import() with these options take this file, as far as that can be said without a cluster? What is meant of the file
 * is checked whole. options (may be NULL): only, prefixes and slots count. out_variables (may be NULL): how many are meant. Any
 *  thread. Errors: INVALID_ARGUMENT naming the tensors, NOT_FOUND, PERMISSION_DENIED, ... */
PS_API ps_status ps_file_check(const char *path, const ps_file_options *options, int *out_variables);

/* ============================================== administration ============================================== */

/* A container of a checkpoint. */
typedef struct ps_saved_container {
    char container[64];
    int64_t step; /* the highest value of a variable global_step in it at the cut; -1: it had none */
} ps_saved_container;
/* How far checkpoints are, as the directory sees it. */
typedef struct ps_saves_info {
    bool known;           /* the task is the directory, has a checkpoint_dir, and says all this; else the rest is 0 */
    bool whole;           /* the newest checkpoint is whole now; else it may be, when all tasks are up */
    bool decided;         /* the checkpoint that is being made is whole, and the tasks are told so */
    bool awaits_reset;    /* a checkpoint is wanted, and waits for the end of a reset */
    bool more_containers; /* the newest checkpoint has more containers than are in `containers` */
    uint8_t reserved[3];
    /* the newest checkpoint */
    uint64_t number;         /* 0: no checkpoint is saved, and the next four fields are not set */
    int64_t step;            /* highest global_step in it; -1: there was none */
    int64_t age_ms;          /* since it was begun; -1: not known */
    uint64_t took_ms, bytes; /* from its beginning until all was written; of all its files together */
    /* the checkpoint that is being made */
    uint64_t makes, make_ms;                    /* its number, 0: none is being made; milliseconds since it was begun */
    uint32_t make_tasks, make_done, make_share; /* tasks that save a part; those that have written it; written, in millionths */
    /* the checkpoint that is being loaded */
    uint32_t load_tasks, load_done, load_share; /* tasks that load a part; those that have loaded it; loaded, in millionths */
    uint64_t loads;                             /* its number; 0: none is being loaded */
    /* failures since the newest checkpoint was saved */
    uint64_t failed_attempts;            /* attempts that were begun and have failed */
    uint64_t failed_number;              /* number of the last attempt; 0: it could not be begun */
    int64_t failed_age_ms;               /* since the last failure; -1: there is none, and the next three fields are not set */
    ps_status failed_status;             /* status of the last failure */
    ps_reason failed_reason;             /* reason of the last failure */
    char failed[288];                    /* text of the last failure */
    uint32_t every_seconds, every_steps; /* when a checkpoint is made by itself; 0: not by time, or not by steps */
    uint32_t container_count;            /* entries of `containers` that are set */
    uint8_t reserved_containers[4];
    ps_saved_container containers[8]; /* containers of the newest checkpoint, the first ones */
} ps_saves_info;

typedef struct ps_task_info {
    char job[64];
    uint32_t task;
    bool up;
    bool directory;
    uint8_t reserved[2];
    char address[272];
    char version[33];
    char error[544];       /* why it is not up */
    char waiting_for[256]; /* directory: tasks whose lists are missing; or what a task will begin with, which it has not yet */
    uint64_t uptime_ms, memory_bytes, budget_bytes, variable_bytes;
    uint32_t connections, sessions, variables, pid;
    uint64_t pushes_applied, pushes_torn, pushes_refused, nonfinite, pulls, bytes_in, bytes_out, life;
    double pushes_per_second, bytes_per_second;
    char devices[128]; /* "CPU:0" */
    /* as the directory sees it; empty where that does not answer */
    char conflict[256];   /* another process says that it is this task; "" */
    uint32_t restarts;    /* other processes that were this task before, as far as the directory was there to see; of itself:
                             1 when there was one */
    uint32_t lost;        /* variables that it had and its process of now has not: it came back empty */
    char lost_names[256]; /* of these: "w, b and 3 more" */
    uint32_t connected, in_progress;                 /* sessions with a connection, of sessions; pushes begun and not ended */
    uint64_t records_bytes;                          /* what is remembered of all sessions; of the budget, as the next two */
    uint64_t staged_bytes, copies_bytes, most_bytes; /* values on their way in (and calls), and out; the most of one session */
    char most[128];                                  /* that one: "/job:worker/task:1@host:42", "psctl@host:43"; "" */
    ps_status status;                                /* why it is not up; PS_OK and NONE when it is */
    ps_reason reason;
    char not_done[256];      /* directory, where some trainers have said that the job is done: the others */
    uint32_t done, trainers; /* directory: trainers that have, of so many; 0: the cluster lists none */
    bool job_done;           /* the job is done (ps_session_job_done), as this task has heard */
    uint8_t reserved_done[7];
    char checkpoints[512]; /* directory that has a checkpoint_dir: the last one, how far the next one is, why the last attempt
                              failed, and when it makes them; "" */
    ps_saves_info saves;   /* the same as fields */
} ps_task_info;
/** Number of tasks that serve: those of every job but worker, chief, master and evaluator, and of these the ones that the
 * directory is connected with when this is first called. Blocks; -1 on error, which for a target that refuses connections
 * comes after 0.3 s. */
PS_API int ps_cluster_tasks(ps_session *s);
/** Ask task i of that list; a dead one has up == false and error set (PS_OK all the same). Blocks up to timeout_ms; a task that
 *  refuses connections counts as dead after 0.3 s. All at once: infos is an array of count. */
PS_API ps_status ps_cluster_info(ps_session *s, ps_task_info *infos, size_t item_bytes, int count, int64_t timeout_ms);

typedef struct ps_variable_info {
    size_t struct_bytes;
    char container[64];
    char name[256];
    char job[64];
    uint32_t task;
    ps_dtype dtype;
    ps_shape shape;
    ps_optimizer optimizer;
    uint64_t version, pushes;
    bool initialised, sealed, atomic;
    uint8_t reserved;
    uint32_t in_progress;
    uint64_t bytes; /* of the value; 0 while uninitialised */
    double rate;    /* ps_variable_set_rate(): in force in place of the optimizer's learning_rate; 0: none */
    uint32_t order; /* rises with the order of creation, of all tasks */
    uint8_t reserved_order[4];
} ps_variable_info;
/** Devices that a task said it has, which ps_cluster_info() has put into info: at most max are written, the total is returned, -1
 *  (INTERNAL) when they are not understood. Asks nobody; devices may be NULL when max is 0. */
PS_API int ps_task_info_devices(const ps_task_info *info, ps_device_info *devices, size_t item_bytes, int max);

typedef void (*ps_variable_info_fn)(void *ctx, const ps_variable_info *info);
/** List the variables of one task of ps_cluster_tasks(), sorted by container and name. Blocks; callbacks before it returns. */
PS_API ps_status ps_task_variables(ps_session *s, int task, int64_t timeout_ms, ps_variable_info_fn each, void *ctx);
typedef struct ps_config_info {
    size_t struct_bytes;
    const char *name, *value, *default_value, *help; /* valid during the callback */
    bool reloadable;                                 /* ps_task_config_set() may change it */
} ps_config_info;
typedef void (*ps_config_fn)(void *ctx, const ps_config_info *info);
PS_API ps_status ps_task_config(ps_session *s, int task, int64_t timeout_ms, ps_config_fn each, void *ctx);
/** Change a setting while the task runs; not written to its file. NOT_FOUND (no such setting), FAILED_PRECONDITION (it takes a
 *  restart), INVALID_ARGUMENT (what is allowed). */
PS_API ps_status ps_task_config_set(ps_session *s, int task, const char *name, const char *value, int64_t timeout_ms);

typedef struct ps_session_info {
    size_t struct_bytes;
    char job[64]; /* "" = no task */
    uint32_t task;
    uint32_t pid;
    char host[65], program[65];
    char id[17]; /* hexadecimal, the first half */
    bool connected, stopping;
    uint8_t reserved[3];
    uint64_t heard_ms, age_ms;
    int64_t global_step;     /* -1 = not said */
    double steps_per_second; /* of the global step that it sees, over its last five beats (10 s); 0 when that stands still */
    uint32_t waits, in_progress;
    uint64_t held_bytes; /* of the task's memory budget: values on their way in and out, calls */
    char rival[96]; /* directory: another process that says it is this task, and was refused in the last 5 minutes; "": none, or
                       over */
} ps_session_info;
typedef void (*ps_session_info_fn)(void *ctx, const ps_session_info *info);
/** The sessions that one task of ps_cluster_tasks() knows, by job and task. The directory (ps_task_info.directory) knows all that
 *  created or looked up a variable, and their steps. */
PS_API ps_status ps_task_sessions(ps_session *s, int task, int64_t timeout_ms, ps_session_info_fn each, void *ctx);
typedef struct ps_wait_info {
    size_t struct_bytes;
    char job[64]; /* who waits; "" = no task */
    uint32_t task;
    uint32_t pid;
    char host[65], program[65], id[17];
    char request[17];  /* "CREATE", "WAIT", ... */
    char what[256];    /* "sealed: w, b" */
    char release[256]; /* what would end it */
    uint64_t since_ms; /* it began so long ago */
    int64_t left_ms;   /* until its deadline; -1 = it has none */
} ps_wait_info;
typedef void (*ps_wait_info_fn)(void *ctx, const ps_wait_info *info);
/** The requests that wait at one task, the oldest first, 4,096 at most. What a client holds back itself, because it was answered
 *  UNAVAILABLE or RESOURCE_EXHAUSTED or has no connection, waits at no task: its own log says so after 5 s. */
PS_API ps_status ps_task_waits(ps_session *s, int task, int64_t timeout_ms, ps_wait_info_fn each, void *ctx);
typedef struct ps_container_info {
    size_t struct_bytes;
    char name[64];
    uint64_t incarnation, bytes; /* values and slots, elements of queues */
    uint32_t variables, initialised;
    uint32_t names; /* directory: names that it has recorded, of all tasks; more than their variables: a task has lost some */
    uint32_t queues;
    char chief[96]; /* directory: who holds the chief's lease; a task: whose number it follows; empty: nobody, or not known */
    uint64_t chief_number;  /* highest that the task has seen; 0: none */
    uint64_t chief_left_ms; /* directory: until the lease is over; 0: nobody holds it */
} ps_container_info;
typedef void (*ps_container_info_fn)(void *ctx, const ps_container_info *info);
/** The containers of one task, by name; also empty ones that were used in its life. */
PS_API ps_status ps_task_containers(ps_session *s, int task, int64_t timeout_ms, ps_container_info_fn each, void *ctx);
#define PS_HISTOGRAM 17 /* 0, 1 .. 15, and more than that */
typedef enum ps_round_phase {
    PS_ROUND_OPENING = 1, /* waits for the first members */
    PS_ROUND_COLLECTS = 2,
    PS_ROUND_PREPARES = 3, /* new values are built */
    PS_ROUND_COMMITS = 4,
    PS_ROUND_IN_DOUBT = 5, /* waits for tasks that have parameters of it */
    PS_ROUND_FAILED = 6
} ps_round_phase;
typedef struct ps_round_info {
    size_t struct_bytes;
    char container[64];
    ps_sync_options options; /* workers: as the chief gave them */
    uint64_t generation;     /* the chief's ps_session_ready() that began them, at random */
    uint64_t round, step;    /* that is under way; global step */
    ps_round_phase phase;
    uint32_t workers, replicas;   /* members that there are to be; of them, complete, close a round */
    uint32_t members;             /* ps_member_info of it */
    uint64_t dropped;             /* contributions that came too late */
    uint64_t leads[PS_HISTOGRAM]; /* staleness: steps by the lead that they had after their wait */
    char waits_for[512];          /* or why it failed */
    char owners[256];             /* tasks that are away or in doubt */
} ps_round_info;
typedef enum ps_member_state {
    PS_MEMBER_WORKS = 1,
    PS_MEMBER_COMPLETE = 2, /* its step is done: waits for the others */
    PS_MEMBER_LOST = 3,
    PS_MEMBER_ENTERS = 4, /* at the next round */
    PS_MEMBER_WAITS = 5,  /* bounded staleness: for those who are too far behind */
    /* the directory was restarted and has not heard of the member since, which works or is dead; no host, no pid */
    PS_MEMBER_UNKNOWN = 6
} ps_member_state;
typedef struct ps_member_info {
    size_t struct_bytes;
    char job[64];
    uint32_t task, pid;
    char host[65], id[17]; /* id: of its session, hexadecimal, the first half */
    ps_member_state state;
    uint64_t member;   /* 0: a place that nobody has */
    uint64_t since_ms; /* it is in this state for so long */
    uint64_t steps;    /* staleness */
    /* staleness: `steps` is not known, because the directory was restarted and the member has not said them since */
    bool steps_unknown;
    uint8_t reserved[7];
} ps_member_info;
typedef void (*ps_round_info_fn)(void *ctx, const ps_round_info *info);
typedef void (*ps_member_info_fn)(void *ctx, const ps_member_info *info);
/** The containers that are trained in rounds, or with bounded staleness, as the directory has them, which the session finds:
 * round for each, then member for each of its members, by task; at last one in doubt, whose container is "", while a directory
 * that was restarted waits for tasks, which may have more. Blocks; callbacks before it returns; either may be NULL.
 */
PS_API ps_status ps_rounds(ps_session *s, int64_t timeout_ms, ps_round_info_fn round, ps_member_info_fn member, void *ctx);
/* How old gradients were that a task applied: how many other mutations of the variable had completed since the values were read
 * that a gradient was computed from (the last read of the pushing session: of a parameter, its last ps_pull). Nothing depends on
 * it. Counted since the task started or the container was reset. */
typedef struct ps_age_info {
    size_t struct_bytes;
    char container[64];
    uint64_t ages[PS_HISTOGRAM];
} ps_age_info;
typedef void (*ps_age_info_fn)(void *ctx, const ps_age_info *info);
/** Of the containers of one task that had any, by name. Blocks; callbacks before it returns. */
PS_API ps_status ps_task_ages(ps_session *s, int task, int64_t timeout_ms, ps_age_info_fn each, void *ctx);
/* A checkpoint of the cluster: what all ps tasks had at one instant each, in files beneath the checkpoint_dir of each. */
typedef struct ps_checkpoint_info {
    size_t struct_bytes;
    uint64_t number;
    ps_checkpoint_state state;
    uint64_t time_ms;      /* when it was begun, since 1970; 0: not known */
    int64_t step;          /* the highest value of a variable global_step at the cut; -1: there was none */
    uint64_t bytes;        /* of all files */
    uint64_t milliseconds; /* that it took; so far */
    uint32_t tasks, done;  /* that it is of; that have written their part */
    int32_t share;         /* that is written, or, where it is saved, loaded again, in millionths; -1: neither is under way */
    int32_t reserved;
    char text[512]; /* why the checkpoint cannot be used, or the attempt has failed; else "" */
} ps_checkpoint_info;
typedef void (*ps_checkpoint_info_fn)(void *ctx, const ps_checkpoint_info *info);
/** The checkpoints that the directory knows, which the session finds, by number, with the one that is being made, and the last
 * attempt if it has failed. Blocks; callbacks before it returns. */
PS_API ps_status ps_checkpoints(ps_session *s, int64_t timeout_ms, ps_checkpoint_info_fn each, void *ctx);
/**
 * Save what all ps tasks have now. The checkpoint is on the disks of all of them when this returns. Training goes on meanwhile;
 * in rounds the checkpoint has what the tasks had between two rounds. PS_OK: the checkpoint has what lived at the tasks when
 * the directory took the request, all ps tasks being up, or what that has become by training. Where nothing differs from the
 * newest whole checkpoint, no other one is made.
 *
 * out_number  number of the checkpoint that has it all, which may be an older one; may be NULL
 * Errors: FAILED_PRECONDITION (a ps task has no checkpoint_dir), UNAVAILABLE (the tasks have not begun; while a task is away, or
 * its disk is still at work on an older checkpoint, the call waits), UNAVAILABLE with PS_OUTCOME_UNKNOWN (what was there is lost,
 * because tasks have gone back to a checkpoint, or the directory was started again: ps_checkpoints() says what is saved, and
 * another call saves what is there now), ABORTED (a container was reset meanwhile), DEADLINE_EXCEEDED (the checkpoint goes on),
 * and what a disk says: RESOURCE_EXHAUSTED (full), DATA_LOSS, PERMISSION_DENIED. Any thread.
 */
PS_API ps_status ps_checkpoint_save(ps_session *s, int64_t timeout_ms, uint64_t *out_number);
/* A file of a checkpoint that is not as it was written, or cannot be read. Of status UNAVAILABLE or DEADLINE_EXCEEDED: its task
 * could not be asked for it, nor for the rest of its files, of which nothing bad is known. */
typedef struct ps_checkpoint_fault {
    size_t struct_bytes;
    char job[64]; /* whose */
    uint32_t task;
    ps_status status;
    char file[32];  /* "state", "manifest", "model-00000.safetensors" */
    char text[544]; /* what is wrong, and where in it */
} ps_checkpoint_fault;
typedef void (*ps_checkpoint_fault_fn)(void *ctx, const ps_checkpoint_fault *fault);
typedef struct ps_checkpoint_options {
    size_t struct_bytes;          /* filled by ps_checkpoint_options_init */
    const char *container;        /* export; NULL: the session's */
    uint64_t shard_bytes;         /* export: of values in a file; 0: one file */
    bool slots;                   /* export: of the optimizers, too */
    bool reserved[7];             /* false */
    ps_copied_fn copied;          /* may be NULL; name is that of a file that is read; export: bytes of values that are written */
    ps_checkpoint_fault_fn fault; /* verify; may be NULL. On the calling thread */
    void *ctx;
    const char *const *only;     /* export: as of ps_file_options */
    const char *const *prefixes; /* export: as of ps_file_options; slots follow their variable */
} ps_checkpoint_options;
PS_API void ps_checkpoint_options_init(ps_checkpoint_options *options);
/**
 * Read each file of each task of a checkpoint and compare it with its CRCs and lengths. Blocks; the session's timeout holds for
 * each range that is read. out_faults (may be NULL): how many files are bad. options NULL: defaults.
 * Errors: DATA_LOSS (some are, the text names the first), NOT_FOUND (no task has a manifest of it), UNAVAILABLE and
 * DEADLINE_EXCEEDED (no task that may have one answers; or none is bad, and a task could not be asked). Any thread.
 */
PS_API ps_status ps_checkpoint_verify(ps_session *s, uint64_t number, const ps_checkpoint_options *options, uint32_t *out_faults);
/**
 * Write the variables of a container as a checkpoint has them into one safetensors file, which appears whole or not at all, as
 * ps_export() does of live ones. With slots they have TensorFlow's names: w/Adagrad, w/Momentum, w/Adam, w/Adam_1, and
 * beta1_power and beta2_power where all Adam variables have the same ones, else, and in several files, w/beta1_power. ps_import()
 * gives them where it is asked to. With shard_bytes: PATH-00001-of-0000N.safetensors (PATH without its ".safetensors"), and then
 * PATH.safetensors.index.json, which names them. What is written was verified, and nothing else is. out_variables may be
 * NULL. Blocks, as verify.
 * Errors: those of verify (nothing is at path then) and of ps_export().
 */
PS_API ps_status ps_checkpoint_export(ps_session *s, uint64_t number, const char *path, const ps_checkpoint_options *options,
                                      int *out_variables);
typedef void (*ps_checkpoint_container_fn)(void *ctx, const char *container); /* container: valid during the callback */
/**
 * The containers that a checkpoint has, of all its tasks, by name: each that had a variable or a queue at the cut. What was reset
 * since is among them, and is not restored. Reads the state files, not the values. Blocks; the session's timeout holds for each
 * range that is read; callbacks on the calling thread before it returns, and none where it fails.
 * Errors: those of verify; UNAVAILABLE also where a task of the checkpoint is none of the cluster now. Any thread.
 */
PS_API ps_status ps_checkpoint_containers(ps_session *s, uint64_t number, ps_checkpoint_container_fn each, void *ctx);
/**
 * Delete a checkpoint at all tasks that are connected; force: also the newest one that is whole.
 * Errors: NOT_FOUND, FAILED_PRECONDITION (it is being made; it is the newest one; no checkpoint_dir), DATA_LOSS (the disk of the
 * directory does not remove it), DEADLINE_EXCEEDED (it goes on). Any thread.
 */
PS_API ps_status ps_checkpoint_delete(ps_session *s, uint64_t number, bool force, int64_t timeout_ms);
/**
 * All ps tasks go back to a checkpoint, while they live: each container that the checkpoint has, everywhere, with all that has
 * happened to it since. Containers that it does not have stay. The checkpoint is loaded beside what lives, and verified, before
 * anything changes. Sessions that train there get ABORTED. A new checkpoint of the restored model is made then. Until that one
 * is whole, the loss of a task may make all tasks go back to the newest checkpoint before. PS_OK: the new checkpoint is whole;
 * *out_next (may be NULL) is its number. Errors after which nothing has changed: NOT_FOUND, FAILED_PRECONDITION (the checkpoint
 * is not whole on all tasks, or of tasks that are no more; it has nothing, or all that it has was reset since; no
 * checkpoint_dir), DATA_LOSS (a file of it is not as it was written), RESOURCE_EXHAUSTED (no memory for it beside what lives),
 * UNAVAILABLE (a task is away). Any status with PS_MAYBE_PARTLY_APPLIED: the checkpoint was restored, but the new one is not
 * saved, for the reason that the status says; UNAVAILABLE then: a task was lost before, and the text names the checkpoint that
 * all have gone back to. UNAVAILABLE with PS_OUTCOME_UNKNOWN: the directory was started again. DEADLINE_EXCEEDED: the restore
 * goes on, if it has begun. Any thread.
 */
PS_API ps_status ps_checkpoint_restore(ps_session *s, uint64_t number, int64_t timeout_ms, uint64_t *out_next);
/**
 * As ps_checkpoint_restore(), for some containers; the others stay as they are. count: how many, at most 64; 0: all. containers
 * borrows. Further errors, after which nothing has changed: NOT_FOUND (the checkpoint lacks one of the containers),
 * INVALID_ARGUMENT (a name), FAILED_PRECONDITION (one of the containers was reset since; or tasks do not begin, or parts of the
 * checkpoint were written by tasks that are no more: then the whole checkpoint can be restored, and no container alone). Any
 * thread.
 */
PS_API ps_status ps_checkpoint_restore_containers(ps_session *s, uint64_t number, const char *const *containers, size_t count,
                                                  int64_t timeout_ms, uint64_t *out_next);
/**
 * ps_checkpoint_save(), made before checkpoint `keeps` is restored. Checkpoint `keeps` is not pushed out (max_to_keep), neither
 * by this save nor by others, until a restore is asked for, or for 10 minutes. keeps 0: none. Any thread.
 */
PS_API ps_status ps_checkpoint_save_before(ps_session *s, uint64_t keeps, int64_t timeout_ms, uint64_t *out_number);
/**
 * As ps_checkpoint_restore(), and what the checkpoint has is dealt anew, by its size, over all ps tasks that there are now.
 * Each task has its part of it, tasks that came since too. Queues, work and accumulators stay where they are. Any thread.
 */
PS_API ps_status ps_checkpoint_spread(ps_session *s, uint64_t number, int64_t timeout_ms, uint64_t *out_next);
/** Round-trip time of an empty request in microseconds. */
PS_API ps_status ps_task_ping(ps_session *s, int task, int64_t timeout_ms, int64_t *out_us);
/** Ask a task to drain and end. PS_OK: it has agreed. */
PS_API ps_status ps_task_shutdown(ps_session *s, int task, int64_t timeout_ms);
/** "/job:ps/task:1" of entry i of ps_cluster_tasks(); NULL when there is none. Valid until close. */
PS_API const char *ps_cluster_task_name(ps_session *s, int task);
/**
 * Run a call of a task's call table (psd.h: psd_call_table) and wait for its end.
 *
 * device   "/job:worker/task:0", of a task that serves. With a device of its own, as "/job:worker/task:0/device:GPU:1", it must
 * be one that the task has (ps_session_devices), unless the session allows soft placement. INVALID_ARGUMENT: it is none. in
 * [in_bytes] at most PS_CALL_BYTES_MAX; out [out_capacity] gets its result, *out_bytes (may be NULL) the number of bytes. Errors:
 * NOT_FOUND (no such call there, its text lists them), what the call's check or run said, OUT_OF_RANGE (out is too small),
 * CANCELLED, DEADLINE_EXCEEDED (the call is cancelled there). Runs at most once: outcome unknown when its task was lost.
 */
PS_API ps_status ps_call(ps_session *s, const char *device, const char *name, const void *in, size_t in_bytes, void *out,
                         size_t out_capacity, size_t *out_bytes, int64_t timeout_ms);
/** libpsworker's version, "0.1.0". */
PS_API const char *ps_version(void);

#ifdef __cplusplus
}
#endif

#include "ps_hooks.h"
#include "ps_queue.h"

#include "ps_monitored.h"

#endif

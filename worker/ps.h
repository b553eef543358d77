/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libpsworker: sessions with a psd cluster, variables, training. C11 and C++17.
 *
 * There are two levels. The first is for writing a training program: parameters, sticky errors, no callbacks. The second, below
 * it, is asynchronous: caller-allocated requests, callbacks on the session's loop thread, no allocation in steady state. Layers
 * are in ps_nn.h.
 *
 * Sticky errors: the first one ends the session, and every later call returns it, also ps_session_close(). NULL as an object
 * or buffer is INVALID_ARGUMENT; functions without a status then return 0, false, "" or NULL. Ownership: "borrows" (until the
 * call returns), "keeps" (until the callback; the caller must not touch it), "owns" (the caller frees).
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

/* Levels of log lines. A session writes one line of level PS_LOG_ERROR: its first error. */
typedef enum ps_log_level { PS_LOG_DEBUG = 0, PS_LOG_INFO = 1, PS_LOG_WARN = 2, PS_LOG_ERROR = 3 } ps_log_level;
/** A function that gets one log line, without newline. Called on any thread of the library, one call at a time for a session. */
typedef void (*ps_log_fn)(void *ctx, ps_log_level level, const char *line);

typedef enum ps_progress {
    PS_PROGRESS_THREAD = 0, /* the library makes an I/O thread */
    PS_PROGRESS_CALLER = 1  /* no thread: the session makes progress within blocking calls and ps_progress_run() */
} ps_progress;

typedef struct ps_session_options {
    size_t struct_bytes;      /* set by ps_session_options_init(). A default is NULL, 0 or false, unless a comment below says
                               * otherwise: by "default 50", or by a value alone */
    const char *target;       /* address of any task: host:port, psd://host:port, grpc://host:port (TensorFlow's notation; the
                               * protocol is psd's), unix:PATH; NULL: a task of cluster_spec */
    const char *cluster_spec; /* any text that ps_cluster_spec_new() takes; NULL: the session asks the target */
    const char *cluster_name; /* "psd" */
    const char *job;          /* job of this client, e.g. "worker"; NULL: no job */
    /* A task of job worker, chief or master is one process at a time. When a second process claims to be the task, its calls
     * end with FAILED_PRECONDITION (CONFLICT) as soon as the first process is heard again. One process may have several
     * sessions */
    uint32_t task_index;
    uint32_t spin_us; /* default 50: microseconds for which a waiting thread polls before it sleeps, if the last answers came
                       * that quickly and there is a second CPU; 0: it never polls */
    int64_t operation_timeout_ms; /* 60,000 */
    int64_t ready_timeout_ms;     /* 600,000 */
    ps_progress progress;
    ps_log_level log_level; /* default PS_LOG_INFO: no log lines of lower levels are made */
    ps_log_fn log;          /* NULL: standard error, or the descriptor of ps_log_to() */
    void *log_ctx;
    const char *program; /* name of the program, shown to operators; NULL: the name in /proc/self/comm */
    uint64_t seed;       /* seed of random initial values; 0 is a seed like any other */
    /* Container of variables outside ps_container_push(); NULL: "localhost". Two sessions of a task may have different ones. */
    const char *container;
    bool allow_soft_placement; /* true: CPU:0 is used in place of a device that a variable's task lacks; false: an error */
    /* log a line for each object that is created or found, in this order: "v1: (Variable): /job:ps/task:0/..." */
    bool log_device_placement;
    bool fail_fast; /* a call to a task that refuses connections, or is no psd, is UNAVAILABLE after 0.3 s instead of at its
                     * deadline. For tools; a trainer waits for a task that is restarted */
    /* true: each ps_pull() also starts to read the values of the next ps_pull(). Transfer and computation overlap, and values are
     * one step older. false: ps_pull() reads values itself, or takes those of the last ps_push_pull() */
    bool prefetch;
    ps_dtype wire_dtype;     /* PS_BF16 or PS_F16: dtype in which float32 values and gradients travel, unless the variable says
                              * otherwise; PS_DTYPE_NONE: float32 */
    ps_log_fn placement_log; /* NULL: log */
    void *placement_log_ctx;
    /* where layers (ps_nn.h) compute: "cpu", "gpu:0"; NULL: "cpu". A device that is missing is an error of ps_session_open()
     * (NOT_FOUND, UNIMPLEMENTED); with allow_soft_placement the CPU computes, and the placement log says so */
    const char *compute_device;
    /* CPU threads for kernels in the whole process, at most 1024. 0: unchanged; it starts as OPENBLAS_NUM_THREADS, or 1 */
    uint32_t compute_threads;
    /* Longest time for which a request waits for a task to which the session was never connected. A monitored session fails after
     * this time, without a recovery. 0, or more than ready_timeout_ms: ready_timeout_ms. Set by --timeout */
    uint32_t start_timeout_ms;
    /* Identity of this session (docs/SECURITY.md). With a key or a certificate all TCP connections use TLS 1.3. A file that has
     * changed is read again for the next connection. */
    const char *key_file; /* file of keys: the session uses its first line that is marked `use` and has not expired. "": no key.
                           * NULL: with tls_cert no key; otherwise the file that PSD_KEY_FILE names, else ~/.config/psd/key, else
                           * /etc/psd/psd.keys, if it exists */
    const char *tls_cert; /* PEM: certificate with its chain. Set all three of tls_*, or none of them */
    const char *tls_key;  /* PEM: private key of the certificate in tls_cert */
    const char *tls_ca;   /* PEM: authority that signs the tasks' certificates */
} ps_session_options;
/** Defaults. Any thread. */
PS_API void ps_session_options_init(ps_session_options *options);
/**
 * Write the log lines of sessions without ps_session_options.log to a descriptor, from now on: for a program that reads them from
 * a pipe, on a thread of its own. A line is its level (one digit), a blank, the text and a newline, cut to 4,096 bytes, in one
 * write. A line that the descriptor does not take, because it is non-blocking and full, is lost.
 *
 * fd  kept until the next call. -1: standard error, without the level, as before the first call.
 *
 * Thread   any.
 */
PS_API void ps_log_to(int fd);
/**
 * Let OpenSSL zero all memory that it frees in this process. OpenSSL 3.0 leaves secrets of a handshake, which are as good as the
 * key, in freed memory, and a core file of the program may have them.
 *
 * A program decides, because this replaces OpenSSL's allocator for all code in the process that uses this OpenSSL. psctl and
 * pstrain call it. It has no effect if OpenSSL is in use already. Not for a program that closes this library with dlclose():
 * OpenSSL stays loaded.
 *
 * Thread   any; before the first session with a key or certificate.
 */
PS_API void ps_wipe_freed(void);

/**
 * Open a session. Returns at once: connections are made in the background and at first use.
 *
 * options      borrows.
 * out_session  written on PS_OK only; owns: ps_session_close().
 * error        [error_bytes] text of the error; may be NULL.
 *
 * Thread       any.
 * Errors       INVALID_ARGUMENT    the text names the option
 *              RESOURCE_EXHAUSTED  memory; or too few files may be open, the text says how many are needed
 */
PS_API ps_status ps_session_open(const ps_session_options *options, ps_session **out_session, char *error, size_t error_bytes);

/**
 * Open a session with options from the command line. Takes its flags out of argv and leaves the others: --cluster --ps_hosts
 * --worker_hosts --cluster_name --job_name --task_index --target --container --steps --seed --timeout --log_level --wire_dtype
 * --placement --fresh --allow_soft_placement --log_device_placement --prefetch --sync --sync_workers --replicas_to_aggregate
 * --on_worker_loss --staleness --device --threads --checkpoint_dir --key_file --tls_cert --tls_key --tls_ca --help; and for
 * --cluster: --ps_tasks --ps_per_node --worker_tasks --base_port --directory_port --ps_pods --worker_pods --rendezvous
 * --address_suffix. In names `-` and `_` are equal, and `--flag=value` is `--flag value`.
 *
 * Without cluster flags TF_CONFIG is used, else PSD_TARGET (one address; psctl alone takes several), else 127.0.0.1:2222. --fresh
 * (the chief resets the container) and --placement balanced without a cluster spec ask the cluster in this call, and block for
 * --timeout at most. With --checkpoint_dir training asks for checkpoints (ps_monitored_options.checkpoint_dir).
 *
 * about    printed by --help above the flags, to standard output; borrows.
 *
 * Returns  never NULL. After a failure every call returns that error, ps_should_stop() is true, and ps_session_close() returns
 *          it. After --help every call is CANCELLED with a text that says so, also in ps_session_error(). That is no error of the
 *          session: ps_should_stop() is true, and ps_session_close() returns 0.
 */
PS_API ps_session *ps_session_open_args(int *argc, char **argv, const char *about);

/**
 * Job and task of this process, from the command line or TF_CONFIG: for a program that serves a task if it is told to, and trains
 * otherwise. Knows the flags of ps_session_open_args(), leaves all of them in argv, and contacts nobody.
 *
 *   ps_role *role = ps_role_from_args(argc, argv);
 *   if (strcmp(ps_role_job(role), "ps") == 0) {
 *       psd_server_options o;
 *       psd_server_options_init(&o);
 *       o.cluster_spec = ps_role_cluster_spec(role);
 *       o.cluster_name = ps_role_cluster_name(role);
 *       o.job = ps_role_job(role);
 *       o.task_index = ps_role_task(role);
 *       o.checkpoint_dir = ps_role_checkpoint_dir(role);
 *       o.key_file = ps_role_key_file(role);
 *       ... psd_server_start(&o, &server, error, sizeof(error)), psd_server_join(server) ...
 *   }
 *   ps_role_free(role);
 *   ps_session *s = ps_session_open_args(&argc, argv, about);
 *
 * After --help, and when a flag or TF_CONFIG is wrong, the role has no job: the program goes on to ps_session_open_args(), which
 * prints the help or reports the error. psd_server_start() checks that the cluster has the task.
 *
 * argv     [argc]; borrows. NULL, or argc 0: TF_CONFIG alone.
 *
 * Returns  owns: ps_role_free(). NULL: no memory; the functions below treat NULL as a role without a job. Their texts are valid
 *          until ps_role_free().
 * Thread   any.
 */
typedef struct ps_role ps_role;
PS_API ps_role *ps_role_from_args(int argc, char *const *argv);
PS_API void ps_role_free(ps_role *role); /* NULL is allowed */
/** "ps", "worker", ...; "": neither the command line nor TF_CONFIG names a job. */
PS_API const char *ps_role_job(const ps_role *role);
PS_API uint32_t ps_role_task(const ps_role *role);
/** The spec string of the cluster (ps_cluster_spec_new()); NULL: no cluster is given. */
PS_API const char *ps_role_cluster_spec(const ps_role *role);
/** --cluster_name, or "psd". */
PS_API const char *ps_role_cluster_name(const ps_role *role);
PS_API const char *ps_role_checkpoint_dir(const ps_role *role);
/** --key_file, or the file that a session of this process would use (ps_session_options.key_file); "": no key file. For
 * psd_server_options.key_file of a task that the program serves. */
PS_API const char *ps_role_key_file(const ps_role *role);

/**
 * Close a session: wait for requests that are under way (at most the operation timeout), say goodbye, free everything, also its
 * parameters and variables.
 *
 * A member of rounds (ps_session_sync()) without an error has finished: the others go on without it, which is no loss. A member
 * with an error, or after ps_session_leave(), counts as lost. Calls that wait in other threads (training, variables, queues,
 * work, accumulators, barriers) end at once with CANCELLED (PS_REASON_CLOSING), as by ps_interrupt(), and this call waits for
 * their return. Calls that begin later end with FAILED_PRECONDITION (CLOSING). These are no errors of the session.
 *
 * s        NULL is allowed. Freed.
 *
 * Returns  0, or the code of the session's first error, which was logged when it happened.
 * Thread   any, once.
 */
PS_API int ps_session_close(ps_session *s);
/**
 * Say goodbye now, whatever other threads do with the session, so that tasks forget it at once. For a program that was told to
 * end (SIGINT) and ends after this call. Waiting calls end at once with CANCELLED (PS_REASON_CLOSING); later calls fail.
 * Asynchronous requests end at their deadline, or by ps_session_close(). Takes at most a second. NULL is allowed.
 *
 * Thread   any, but not in a callback and not in a signal handler: use a thread that waits for signals, or ps_interrupt().
 */
PS_API void ps_session_leave(ps_session *s);
/**
 * Interrupt the calls of the session that threads are in at this moment. Each returns CANCELLED (PS_REASON_INTERRUPTED) as soon
 * as its thread runs, whatever it waits for. The session goes on. Calls that begin later are not interrupted; an interrupted call
 * may be made again.
 *
 * Requests that these calls wait for are withdrawn at the tasks, as at a deadline. An element that a task had handed out goes
 * back into its queue. For a call that changes something ps_last_applied() says whether the change may have been made:
 * PS_OUTCOME_UNKNOWN for an ENQUEUE that was sent, for ps_variable_push() and for ps_variable_assign(), until a task has
 * answered. Requests that no call waits for go on: gradients of ps_push(), values of ps_push_pull() and `prefetch`, requests of
 * ps_x_start().
 *
 * ps_step_done()   the next call continues the same step, which counts once, unless the session was recovered in between
 * ps_pull()        value buffers may mix old and new bytes until the next call has returned PS_OK
 * ps_param_get()   does not wait; the next ps_session_ready(), or the next call that needs a parameter, gets the parameter
 * ps_param_grad()  does not wait for the parameter's last push, which goes on: it returns another buffer
 * ps_should_stop() returns true if interrupted in a recovery of a monitored session, or in a hook. The next call goes on there
 *
 * Calls that can be interrupted: those that wait for a task, or for a call of another thread.
 *   ps_session_ready, ps_session_wait_cluster, ps_session_job_done, ps_barrier, ps_barrier_within, ps_wait_ready, ps_wait_step
 *   ps_stop, ps_sync_finish, ps_progress_run, ps_pull, ps_pull_param, ps_push, ps_push_pull, ps_step_done, ps_should_stop
 *   ps_param_grad, ps_embedding_pull, ps_embedding_ahead; ps_param_get in a scope of PS_REUSE_ALWAYS
 *   ps_variable_get, ps_variables_get, ps_variable_find, ps_global_step_get, ps_variable_delete, ps_report_uninitialized
 *   calls to the task of a variable: ps_variable_read, _assign, _init, _push, _set_rate, ps_gather and similar; ps_set_rates
 *   ps_reset, ps_reset_containers, ps_reset_all, ps_export, ps_import, ps_checkpoint_save and all other ps_checkpoint_ calls
 *   ps_queue.h: all but the _start calls, ps_tuple_ calls, and those that tell name, device or spec of a queue
 *   ps_session_devices, ps_cluster_tasks, ps_cluster_info, ps_task_ calls, ps_rounds, ps_checkpoints, ps_call
 *   ps_ps_count, ps_task_count and ps_is_chief, which then return what is known
 *
 * Calls that cannot be interrupted: ps_session_open and similar, ps_session_close and ps_session_leave, which take bounded time;
 * ps_param_value and the layers of ps_nn.h, which wait for a device at most; ps_file_check; and calls that contact nobody.
 *
 * A recovery of a monitored session is interrupted too: the session stays lost, and the next call recovers it. A hook or a
 * restore function is not ended, but each call that it makes is. If the hook returns CANCELLED, the call to which the hook
 * belongs returns CANCELLED; made again, that call continues with this hook. ps_progress_run() returns; the next one continues.
 *
 * Thread   any, and in a signal handler: async-signal-safe, errno is kept. Not during or after ps_session_close(), which ends
 *          calls itself. Does nothing for NULL, for a session that was not opened, and in a child of fork().
 */
PS_API void ps_interrupt(ps_session *s);

/**
 * In a child of fork(): close the child's copies of the descriptors of the parent's sessions, and do nothing else. Without this
 * call the tasks do not notice the end of a parent that is killed while a child lives. Calls with the parent's sessions stay
 * refused in the child; the sessions stay open in the parent. Does nothing in the process that opened them. Descriptors numbered
 * 65536 and more stay open, and so may one that another thread was opening during the fork.
 *
 * Thread   the child's only one, also in a handler of pthread_atfork(). Before the child opens files or sessions.
 *          Async-signal-safe.
 */
PS_API void ps_after_fork_child(void);

/**
 * Set a deadline for the session, ms milliseconds from now: for a program that must end in time. Blocking calls without a timeout
 * of their own, or with a timeout <= 0, end at the deadline, and so does the goodbye of ps_session_close(); each gets at least 50
 * ms. With ms <= 0 there is no deadline, and such calls have the operation timeout again. NULL is allowed.
 *
 * Thread   any, but not while a call of the session runs.
 */
PS_API void ps_session_set_deadline(ps_session *s, int64_t ms);

/** First error of the session; PS_OK: no error yet. Any thread. */
PS_API ps_status ps_session_status(ps_session *s);
/** Text of the first error, "" if there is none. Valid until the session is closed; the text of a monitored session only until
 * the next call of this thread with the session. Any thread. */
PS_API const char *ps_session_error(ps_session *s);
/** What the call that failed with the session's first error may have changed at the tasks. */
PS_API ps_applied ps_session_error_applied(ps_session *s);
/** Reason of the session's first error, for programs; PS_REASON_NONE: no error. Any thread. */
PS_API ps_reason ps_session_reason(ps_session *s);
/** Make st, with `text`, the session's first error, which later calls return: for a failure of the program itself. A monitored
 * session does not recover from such an error. Nothing is set if the session has an error already, if st is PS_OK, or if a
 * monitored session is lost and st is the code that its calls return: then the session recovers. Returns the session's first
 * error. s NULL: INVALID_ARGUMENT. Any thread. */
PS_API ps_status ps_session_fail(ps_session *s, ps_status st, const char *text);

/**
 * Wait until all tasks that the cluster lists for these jobs are up together. A ps task is up while it is connected to the
 * directory task. A task of another job is up while it serves and is connected, or while a session with its job and task_index
 * holds a lease. A session holds a lease from its first request to a task on, and so does the session that makes this call.
 *
 * jobs        "ps,worker"; blanks are allowed; borrows.
 * timeout_ms  <= 0: the operation timeout.
 *
 * Thread   any; blocks. Errors are not sticky.
 * Errors   DEADLINE_EXCEEDED   names the tasks that are missing, or the directory task if it cannot be reached
 *          INVALID_ARGUMENT    no job is named, or the cluster lists no tasks for one of them
 */
PS_API ps_status ps_session_wait_cluster(ps_session *s, const char *jobs, int64_t timeout_ms);

/**
 * Wait at a barrier until count callers, from any sessions, have come to it; then all return, and the name is free for the next
 * barrier. The barrier is at the directory task. The open scopes give the name its container and its prefix.
 *
 * count       number of callers, this one included. 0: all workers, that is the sessions of job worker that hold a lease and
 *             have the same default container as the first worker that waits. The barrier opens when each of these sessions
 *             has called it once. Other callers wait with them. A worker that has not started holds no lease:
 *             ps_session_wait_cluster(s, "worker", 0) waits for all workers of the cluster spec.
 * timeout_ms  <= 0: the session's operation timeout, as for ps_barrier(). The wait ends 0.12 to 0.25 s before the
 *             timeout, or after half of a timeout below 0.24 s.
 *
 * A caller does not count any more after its deadline, the end of its session, or the end of its lease (a process that was
 * killed: after psd --lease, or at once when another process claims to be its task).
 *
 * Thread   any; blocks. Errors are not sticky.
 * Errors   PS_DEADLINE_EXCEEDED   callers are missing; they are named
 *          PS_INVALID_ARGUMENT    callers that wait there gave another count; both are named
 *          PS_ABORTED             the lease ended during the wait; or the directory task was restarted, and the others may have
 *                                 gone on: outcome unknown (ps_last_applied())
 *          PS_UNAVAILABLE         no connection to the directory task within the timeout
 */
PS_API ps_status ps_barrier(ps_session *s, const char *name, int count);
PS_API ps_status ps_barrier_within(ps_session *s, const char *name, int count, int64_t timeout_ms);

/** Index of this session's task in its job, and number of tasks of the job; 0 and 1 without a job. If indices are missing, the
 * number is the highest index plus 1, so that all tasks agree. Any thread. */
PS_API int ps_task_index(ps_session *s);
PS_API int ps_task_count(ps_session *s);
/** True if this session initialises variables: it is task 0 of job chief or master, or else of job worker, or has no job. In a
 * monitored session: if it holds the chief's lease. */
PS_API bool ps_is_chief(ps_session *s);
/** Number of ps tasks of the cluster; 0 after a failure. Blocks until the cluster is known. */
PS_API int ps_ps_count(ps_session *s);

/* ===================================== parameters: training programs ===================================== */

/**
 * Get or create a trainable float32 variable, as the session's scopes say now, with a value buffer and a gradient buffer (64-byte
 * aligned). Outside of scopes variables are placed round-robin over the ps tasks, in the order of the calls.
 *
 * Contacts nobody: the parameter is got at ps_session_ready(), or by the first call that needs a parameter or variable, together
 * with all parameters before it. So a thousand parameters cost the round trips of one. In a scope of PS_REUSE_ALWAYS it blocks
 * and looks the variable up at once.
 *
 * name, init, optimizer   borrows.
 *
 * Returns  owned by the session; never NULL. After a failure a dummy, whose use is harmless.
 * Thread   any, not in a callback. Several threads may use parameters of one session; a parameter and its buffers are for one
 *          thread at a time, and ps_pull() uses all of them.
 * Errors   sticky. At once: INVALID_ARGUMENT (name, shape, initializer, optimizer), ALREADY_EXISTS (PS_REUSE_NEVER),
 *          RESOURCE_EXHAUSTED, FAILED_PRECONDITION (in a callback). When the parameter is got: those of ps_variable_get(), with
 *          its name.
 */
PS_API ps_param *ps_param_get(ps_session *s, const char *name, ps_shape shape, const ps_initializer *init,
                              const ps_optimizer *optimizer);
/**
 * Value buffer in host memory, row-major; never NULL (zeros in a dummy). Only a pull of p changes the values: values that arrive
 * earlier go to a second buffer, and the pull exchanges the two buffers. So call this again after each pull; without
 * ps_push_pull() and `prefetch` it is always the same buffer. A program that writes values calls this before each time that it
 * writes them: layers that compute on another device then copy the buffer there again.
 */
PS_API void *ps_param_value(ps_param *p);
/**
 * Gradient buffer in host memory; waits until the last push of p is acknowledged, and until a device has computed the gradient.
 * Nobody sets it to zero: write all of it (ps_dense_backward() does).
 *
 * Returns  NULL only for NULL. The same buffer each time, except after a call that was interrupted (ps_interrupt()) while a push
 *          had the buffer: that call returns another buffer, which is the gradient buffer from then on. After a failure, which
 *          ps_session_status() tells, memory that is never pushed.
 * Errors   FAILED_PRECONDITION (sticky): in a callback.
 */
PS_API void *ps_param_grad(ps_param *p);
PS_API const ps_shape *ps_param_shape(const ps_param *p);
PS_API const char *ps_param_name(const ps_param *p); /* full name */
PS_API ps_session *ps_param_session(ps_param *p);
/** Version of the values that p's buffer got last. *out_exact: false if the values may be of different versions, because a push
 * was in progress while they were read, or because the parts of p had different versions. */
PS_API uint64_t ps_param_version(const ps_param *p, bool *out_exact);
/**
 * Keep the memory of p's buffers after ps_session_close(), for arrays that use this memory. May be repeated; each call needs a
 * ps_param_release(). After the close nothing but ps_param_release() may be called with p.
 *
 * Returns  p; NULL for NULL, and for the dummy of a session for which there was no memory.
 * Thread   any; not during or after ps_session_close().
 */
PS_API ps_param *ps_param_hold(ps_param *p);
/** Undo one ps_param_hold(). After ps_session_close() the last release frees the buffers. NULL is allowed. Any thread. */
PS_API void ps_param_release(ps_param *p);
/** ps_session_fail() of p's session. */
PS_API ps_status ps_param_fail(ps_param *p, ps_status st, const char *text);

/**
 * Make every variable of the session ready: the chief initialises uninitialised variables and seals all (declares the model
 * ready); the other sessions wait for that. Also gets or creates global_step. Blocks: up to the operation timeout to get
 * variables, then up to the ready timeout. Calls on several threads run one after the other.
 *
 * With ps_session_sync() the chief puts the parameters in rounds before it seals, and every session becomes a member: it waits
 * for the next round, up to the ready timeout, if others are in the middle of one.
 *
 * Errors   sticky.
 *          DEADLINE_EXCEEDED    names variables and ps, or says that there is no chief. Also if an earlier training has left
 *                               other hyperparameters or rounds in force, and no chief of this training came: says what differs
 *          DATA_LOSS            a part of the model was lost, and is named: some variables are trained, sealed, or were given
 *                               values by another session, while others have none; or the program has a variable that is new to a
 *                               model that was ready
 *          ABORTED              there is a newer chief
 *          FAILED_PRECONDITION  the connected chief has put other hyperparameters in force than this program asks for, or rounds
 *                               that it does not ask for, or none where it does
 *          In rounds also:
 *          RESOURCE_EXHAUSTED   a ps has no room for this member's gradients or the new values
 *          INVALID_ARGUMENT     options differ from the chief's; parameters in several containers, or none with an optimizer; a
 *                               session without a job
 *          OUT_OF_RANGE         the session was recovered, and all other workers have finished meanwhile
 */
PS_API ps_status ps_session_ready(ps_session *s);
/** Number of variables, without global_step, that had values already when ps_session_ready() was called; *out_global_step gets
 * the global step that it found. The log line ev=ready has this number, as `found`. */
PS_API int ps_session_found(ps_session *s, int64_t *out_global_step);

/**
 * Pull all parameters into their value buffers, in order of creation. Blocks, up to the operation timeout, or twice that if
 * parameters are yet to be got. After an error the buffers may mix old and new bytes.
 *
 * A parameter whose last push was a ps_push_pull() gets the values that came with it; the call waits for these and sends no
 * request. With ps_session_options.prefetch every parameter gets the values that the last ps_pull() began to read, and the next
 * read begins. Those values have all gradients that this session pushed before the last ps_pull(), and may lack later ones.
 *
 * In rounds that need every member, a member that has not completed its step gets all values of one round, because no round ends
 * meanwhile. A session that is no member may get parameters of different rounds, and one of more than 64 KiB may mix two rounds
 * (ps_param_version() tells whether it is exact). ps_export() writes the values of one round.
 */
PS_API ps_status ps_pull(ps_session *s);
/** Pull one parameter, as ps_pull(). */
PS_API ps_status ps_pull_param(ps_param *p);
/**
 * Push p's gradient buffer, which the library keeps until the push is acknowledged. Returns at once, unless parameters are yet to
 * be got, or the last push of p is not acknowledged: then the call waits. A gradient that a device has yet to compute is sent
 * when it is there; pulls of p and ps_session_close() wait for that. In rounds the push is this worker's contribution, which
 * ps_step_done() completes; a second push of p in a step is FAILED_PRECONDITION.
 */
PS_API ps_status ps_push(ps_session *s, ps_param *p);
/**
 * Add share x p's gradient buffer to the sum of p, in float32 and in the order of the calls: gradients of micro-batches. The next
 * ps_push() or ps_push_pull() of p sends the sum in place of the gradient buffer, and a later ps_accumulate() begins another sum.
 * A step that is skipped (PS_NAN_SKIP), and a recovery of the session, drop the sum.
 *
 * share    finite: 1 to add, 1 / micro-batches to average; no unit.
 *
 * Thread   the one that computes the gradient. Blocks until the last push of p is acknowledged and the gradient is computed.
 * Errors   sticky.
 *          INVALID_ARGUMENT    share is not finite
 *          RESOURCE_EXHAUSTED  no memory for the sum, as large as the gradient; kept from the first call on
 */
PS_API ps_status ps_accumulate(ps_param *p, double share);
/**
 * Limit the Euclidean norm of the gradient that the next ps_push() of p sends, the sum of ps_accumulate() if there is one: the ps
 * multiplies it by max_norm / norm if norm is larger than max_norm. The gradient itself stays as it is. One pass, sums in
 * float64.
 *
 * p          if it is an embedding, the rows that are not in its buffer count as zeros.
 * max_norm   finite, > 0; no unit.
 * out_norm   gets the norm before the limit; may be NULL. If the norm is not finite no limit is set, and the ps refuses the push.
 *
 * Thread     as ps_accumulate().
 * Errors     sticky.
 *            INVALID_ARGUMENT  max_norm is outside its range
 *            UNIMPLEMENTED     in rounds: ps_session_clip_norm() limits their averages
 * Source     TensorFlow 1.15 python/ops/clip_ops.py clip_by_norm; PyTorch torch/nn/utils/clip_grad.py.
 */
PS_API ps_status ps_clip_norm(ps_param *p, double max_norm, double *out_norm);
/**
 * Limit the norm of several gradients together, as ps_clip_norm(): each is multiplied by the same factor.
 *
 * params   [count], of one session, each once; borrows. Give only parameters that this step pushes: a parameter keeps the factor
 *          until its next push.
 */
PS_API ps_status ps_clip_global_norm(ps_param *const *params, size_t count, double max_norm, double *out_norm);
/** Push as ps_push() does, and receive the values after the push in the same round trip, while the program computes the remaining
 * layers. The next ps_pull() gives these values, which lack later pushes of other sessions. With ps_session_options.prefetch, and
 * in rounds, the call only pushes, as ps_push(). */
PS_API ps_status ps_push_pull(ps_session *s, ps_param *p);
/**
 * Make the next ps_push() or ps_push_pull() of p send a gradient from the program's memory instead of p's gradient buffer, so
 * that the program need not copy it there. This holds until a push has accepted a gradient of p. If a push failed or was
 * interrupted, and is not repeated, call this with NULL. If p has a sum of ps_accumulate(), that sum is sent instead.
 *
 * gradient  [elements of p] float32, host memory; keeps until that push is acknowledged: until ps_step_done() has returned 0 or
 *           ps_session_close() has returned. If the memory changes before, the ps may apply a mixture of old and new values.
 *           After a call that failed or was interrupted the push may be still under way. NULL: the gradient buffer again.
 *
 * Thread   as ps_accumulate(). Blocks never.
 * Errors   sticky. UNIMPLEMENTED: p is an embedding.
 */
PS_API ps_status ps_param_lend(ps_param *p, const float *gradient);
/**
 * End the step: wait until every push of the step is acknowledged, then add one to the global step, exactly once. Blocks: up to
 * the operation timeout; in rounds the first step up to the ready timeout if that is longer, because workers may have to start.
 *
 * In rounds (ps_session_sync()) the call completes this worker's contribution and waits for the end of the round: then the new
 * values are on all ps, and the global step is one more, for all workers together. Every parameter with an optimizer must have
 * been pushed in the step, else FAILED_PRECONDITION names those that were not. A contribution is dropped if enough others had
 * completed the round, or if its worker counted as lost: PS_OK, ps_dropped() counts it, and the next ps_pull() gets the values to
 * go on with. (If the directory was restarted too while the worker was lost, a contribution counts as dropped although the round
 * may have it.) With bounded staleness the call waits while this worker is too far ahead, then adds one to the global step.
 *
 * A step that ends with an error is not counted, but gradients that were pushed may be applied: ps_session_error_applied() says
 * so. In rounds the answer is PS_OUTCOME_UNKNOWN if the round may still be closed with these gradients. If several threads call
 * this for one member, each call ends a step of its own, one at a time.
 *
 * Errors   sticky.
 *          DEADLINE_EXCEEDED  names the workers that are missing, and for how long
 *          ABORTED            a worker was lost and the policy is PS_LOSS_FAIL; a task was restarted without the group; the
 *                             container was reset; another session of this task has taken its place
 *          UNAVAILABLE        the directory task cannot be reached
 *          OUT_OF_RANGE       all others have finished while this worker was taken for lost; in rounds only if the round of this
 *                             step was never closed (if it was closed, the step is dropped: PS_OK)
 */
PS_API ps_status ps_step_done(ps_session *s);
/**
 * Trace the rest of this step: from now until the next ps_step_done() returns, which writes the file. The file is JSON in
 * Chrome's trace event format; https://ui.perfetto.dev and chrome://tracing open it.
 *
 * It has a track for each thread that calls the session (its calls, its waits, the operations of its layers, and "program" for
 * the time in between), and tracks for each task with the session's requests to it. The span of a request is the time until its
 * answer, as this client sees it. Within it are the durations that the task reports: `queue` (for the task's thread, or in its
 * send queue), `wait` (for others: a round), `apply`, `kernel`. Clocks are not compared: the durations are drawn in the middle of
 * the span, and the rest (`link_us`) is the link's. A task of an older version reports none. Only a traced step asks for
 * durations.
 *
 * A step that fails ends the trace, with what there is until then; so does ps_session_close() in the middle of a step.
 *
 * file     path of the file, which is written whole or not at all, and replaces a file that is there. Copied.
 *
 * Thread   any, not in a callback. Call it on the thread that makes the steps: its track gets the span "step". Blocks briefly.
 * Errors   not sticky: INVALID_ARGUMENT (file is NULL, empty, or no regular file), NOT_FOUND, PERMISSION_DENIED and others of the
 *          file system, which name the file; FAILED_PRECONDITION (a trace is under way). Failures to write the file are told by
 *          ps_trace_status() and the log (ev=trace_failed).
 * Source   TF 1.15 tf.RunOptions(trace_level=FULL_TRACE), python/client/timeline.py
 */
PS_API ps_status ps_trace_next_step(ps_session *s, const char *file);
/** How the last trace ended. PS_OK: its file is written. UNAVAILABLE: its step is not over. NOT_FOUND: no trace was begun.
 * Otherwise why the file could not be written; ps_last_error() names the file. Any thread. */
PS_API ps_status ps_trace_status(ps_session *s);
/** Global step after the last ps_step_done() or ps_session_ready(). */
PS_API int64_t ps_global_step(ps_session *s);
/** True when this program's loop must end: after a failure or --help; when the global step has reached --steps or ps_set_steps()
 * (logged if it had before this session began); when the job is done; when a hook or ps_request_stop() ends the loop; or when the
 * cluster has asked this session to stop. ps_stop() does not interrupt blocking calls: ask before and after them. */
PS_API bool ps_should_stop(ps_session *s);
/** What ps_should_stop() would return now, without its effects: no hook is called, no step begins, a lost monitored session is
 * not recovered, nothing is logged or waited for. False for a lost session that ps_should_stop() would recover. For threads
 * beside the one that trains (data readers, a display), and in the middle of a step. Any thread, also in a callback. */
PS_API bool ps_would_stop(ps_session *s);
/** Set the global step to stop at; 0: no limit. --steps on the command line (ps_session_open_args()) takes precedence. */
PS_API void ps_set_steps(ps_session *s, int64_t steps);
/** Seed of random initial values, from --seed or the options. */
PS_API uint64_t ps_seed(ps_session *s);
/**
 * Ask every session that the directory task knows now, also this one, to stop: ps_should_stop() becomes true in these sessions
 * within 2.5 s and stays true. Sessions that are opened later are not asked; a session without a connection is asked when it
 * reconnects. A restarted directory task forgets which sessions it has still to ask: call this again, which is always harmless.
 * If the directory task cannot be reached, all other tasks get the request, within another timeout_ms: PS_OK if one of them has
 * asked the sessions that it knows. Blocks.
 *
 * out_sessions  may be NULL: number of these sessions that are connected or hold a lease; if all tasks were asked, the highest of
 *               their numbers.
 */
PS_API ps_status ps_stop(ps_session *s, int64_t timeout_ms, uint32_t *out_sessions);

/**
 * End of a job: this trainer (a task of job worker, chief or master) is done. Waits for its pushes; a member of rounds leaves
 * the rounds as finished. Afterwards ps_should_stop() is true, and ps_push() and ps_step_done() are FAILED_PRECONDITION; values
 * can still be read.
 *
 * The job is done when every trainer that the cluster lists is done; if it lists none, when one trainer is done, and so is every
 * trainer that holds a lease. A program without a job counts as a trainer while it is connected and knows a global step. A
 * trainer that opens another session is no longer done until it calls ps_session_job_done() again. When the job is done,
 * ps_should_stop() becomes true in every session within a beat, and tasks with exit_when_done end when no session is connected
 * any more, a lease later at the latest: read values that are still needed (for a test, an export) before.
 *
 * Thread   any; blocks. Errors are not sticky, except for the session's own.
 * Errors   FAILED_PRECONDITION             the session is no trainer
 *          ABORTED (CONFLICT)              another process began later as the same task, and is not done
 *          UNAVAILABLE, DEADLINE_EXCEEDED  the directory task cannot be reached: call this again
 */
PS_API ps_status ps_session_job_done(ps_session *s);

/* ========================================= training in step with others ========================================= */

typedef enum ps_sync_mode {
    PS_SYNC_NONE = 0,     /* every worker trains at its own pace; a push is applied when it arrives */
    PS_SYNC_ROUNDS = 1,   /* a step of all workers is one update, with the average of their gradients */
    PS_SYNC_STALENESS = 2 /* each worker trains at its own pace, but is at most `staleness` steps ahead of the slowest */
} ps_sync_mode;
/* A worker is lost if its session ends, or is silent for longer than the lease (psd --lease), before it has finished
 * (ps_session_close() without an error). */
typedef enum ps_worker_loss {
    PS_LOSS_WAIT = 0,   /* the other workers wait, until their deadline, for a new session of the lost worker's task */
    PS_LOSS_SHRINK = 1, /* the other workers go on without the lost worker */
    PS_LOSS_FAIL = 2    /* the steps of all other workers fail with ABORTED */
} ps_worker_loss;
typedef struct ps_sync_options {
    size_t struct_bytes; /* filled by ps_sync_options_init */
    ps_sync_mode mode;   /* PS_SYNC_ROUNDS */
    uint32_t workers;    /* workers that must join before the first round begins; 0: those of the cluster spec (jobs worker,
                          * chief, master), or 1 if it lists none */
    /* ROUNDS: workers that must complete a round to end it; later contributions are dropped. 0: all */
    uint32_t replicas_to_aggregate;
    ps_worker_loss on_worker_loss; /* PS_LOSS_WAIT */
    uint32_t staleness;            /* STALENESS: most steps by which a worker may be ahead of the slowest; 0: not ahead */
    uint32_t reserved;
} ps_sync_options;
/** Defaults: rounds of all workers. Any thread. */
PS_API void ps_sync_options_init(ps_sync_options *options);
/**
 * Train in rounds, or with bounded staleness, from the next ps_session_ready() on. All workers must give the same options.
 *
 * Rounds: ps_push() stages the gradient at the parameter's ps; ps_step_done() completes this worker's part. When all workers (or
 * replicas_to_aggregate of them) have completed theirs, every ps computes the new values of its parameters from the average of
 * the gradients, summed in the order of the workers' task indices, so that the result does not depend on who is faster; then all
 * values change at once, and the global step rises by one. A worker that starts later takes part from the next round on; a
 * restarted worker takes its former place. Other pushes to such a parameter are FAILED_PRECONDITION (PS_REASON_IN_ROUNDS). The
 * parameters are those with an optimizer, all in the session's container.
 *
 * Staleness (Ho et al., 2013): pushes are applied when they arrive; a worker that has made more than `staleness` steps more than
 * the slowest member waits in ps_step_done().
 *
 * options  borrows; NULL: rounds of all workers. mode PS_SYNC_NONE: undo an earlier call.
 *
 * Thread   any; contacts nobody. Not needed after --sync or --staleness on the command line.
 * Errors   (sticky) PS_INVALID_ARGUMENT    an option out of range, replicas_to_aggregate > workers, rounds with prefetch
 *                   PS_FAILED_PRECONDITION the session is a member of rounds already
 */
PS_API ps_status ps_session_sync(ps_session *s, const ps_sync_options *options);
typedef enum ps_norm_of {
    PS_NORM_OF_ALL = 0, /* the norm of all averages together; all are multiplied by the same factor */
    PS_NORM_OF_EACH = 1 /* the norm of each parameter's average; not for parameters in several parts */
} ps_norm_of;
/**
 * Limit the Euclidean norm of the averages of rounds, from the next ps_session_ready() on: a round whose norm is larger than
 * max_norm is applied with its averages multiplied by max_norm / norm. The ps tasks add up the squares in float64, by parameter
 * in the order of their creation, so that the factor does not depend on how parameters are placed. All workers must ask for the
 * same limit. A norm that is not finite sets no limit. ps_clip_norm() and ps_clip_global_norm() are for pushes without rounds.
 *
 * max_norm  finite, > 0; 0: no limit.
 *
 * Thread   any; contacts nobody.
 * Errors   (sticky) PS_INVALID_ARGUMENT    max_norm or of is outside its range
 *                   PS_FAILED_PRECONDITION the session is a member of rounds already
 *          of ps_session_ready(): PS_INVALID_ARGUMENT, the session does not train in rounds; PS_UNIMPLEMENTED, a ps task is of a
 *          release without this limit, or a parameter in parts with PS_NORM_OF_EACH
 */
PS_API ps_status ps_session_clip_norm(ps_session *s, double max_norm, ps_norm_of of);
/* What the sum of the gradients of a row of an embedding is divided by when a round is closed. */
typedef enum ps_rows_mean {
    PS_ROWS_MEAN_OF_ALL = 0,  /* the number of the workers whose gradients the round takes */
    PS_ROWS_MEAN_OF_THOSE = 1 /* the number of these workers that pushed the row, as SparseConditionalAccumulator of TensorFlow */
} ps_rows_mean;
/**
 * Embeddings in rounds (ps_embedding_get()), from the next ps_session_ready() on. All workers must give the same numbers.
 *
 * Each worker reserves memory at the tasks for rows_per_step rows of each embedding: for each of them the bytes of the row, of
 * its slots and of its gradient. A whole copy of an embedding is made for adam, adamw_tf, amsgrad and nadam only, whose pushes
 * move all rows. A worker that pushes nothing to an embedding in a step contributes no rows to it.
 *
 * rows_per_step  different rows of an embedding, or of a part of one, that a worker may push in a step; > 0. ps_push() of more
 *                fails with PS_RESOURCE_EXHAUSTED.
 *
 * Thread   any; contacts nobody.
 * Errors   (sticky) PS_INVALID_ARGUMENT    rows_per_step is 0, or mean none of PS_ROWS_MEAN_*
 *                   PS_FAILED_PRECONDITION the session is a member of rounds already
 */
PS_API ps_status ps_session_sync_rows(ps_session *s, uint32_t rows_per_step, ps_rows_mean mean);
/** Number of this session's steps that rounds dropped: completed too late, or while the session counted as lost. Any thread. */
PS_API int64_t ps_dropped(ps_session *s);
/** End this session's membership of rounds or bounded staleness after its last step: other members no longer wait for it. The
 * session stays open. PS_OK also if s is no member. Blocks. Errors, not sticky: those of ps_step_done() except ABORTED. */
PS_API ps_status ps_sync_finish(ps_session *s);

/* ========================================= PS_PROGRESS_CALLER ========================================= */

/*
 * With PS_PROGRESS_CALLER a session has no thread, except short-lived ones for name look-ups. Blocking calls drive the session on
 * the calling thread; if several threads are in such calls, one drives and the others wait. Between blocking calls the program
 * must call ps_progress_run(), at least every quarter of a lease (2.5 s). After a lease (10 s) without it tasks may have dropped
 * the session: a log line says so, and the next call reconnects and resumes. Requests of ps_x_start() and ps_push() are sent when
 * the session is driven next. The "loop thread" of callbacks is the thread that drives. SIGPIPE is blocked while the library
 * drives, and a SIGPIPE that its writes caused is consumed.
 *
 * A poll loop: wait until ps_progress_fd() is readable, for at most ps_progress_timeout_ms(), then call ps_progress_run(s, 0).
 */
/** Let the session send, receive and run its timers until there was an event, for at most timeout_ms (0: only what is due now).
 * Callbacks run within this call. Not in a callback. FAILED_PRECONDITION: the session has a thread, or another thread drives
 * it. */
PS_API ps_status ps_progress_run(ps_session *s, int64_t timeout_ms);
/** A descriptor, for polling only, that is readable when ps_progress_run() has something to do. -1: the session has a thread or
 * was not opened. It does not change until close, but a recovery of a monitored session (ps_monitored.h) replaces it: ask again
 * after each ps_should_stop(), ps_pull() and ps_session_ready(). */
PS_API int ps_progress_fd(ps_session *s);
/** Milliseconds after which ps_progress_run() must be called even if the descriptor is not readable: >= 0, usually below 100;
 * 1,000 if the session has a thread or another thread drives it. */
PS_API int64_t ps_progress_timeout_ms(ps_session *s);

/* ============================================ scopes of a session ============================================ */
/*
 * A scope holds from its push to its pop, and determines name, container and device of what is got or created meanwhile. Scopes
 * nest. They belong to the session and hold for all threads: build a model on one thread. Errors, sticky, because objects made
 * after a failed push would be in the wrong place: INVALID_ARGUMENT (push), FAILED_PRECONDITION (a pop without a push).
 */

typedef enum ps_reuse {
    PS_REUSE_AUTO = 0,  /* get or create: tf.AUTO_REUSE */
    PS_REUSE_NEVER = 1, /* ALREADY_EXISTS for a name that this session has already got */
    PS_REUSE_ALWAYS = 2 /* NOT_FOUND for a name that the cluster does not have; nothing is created */
} ps_reuse;
/** As `with tf.variable_scope(name)`: names get the prefix "name/"; the innermost reuse other than AUTO holds. name NULL or "":
 * no prefix, only the reuse. */
PS_API ps_status ps_variable_scope_push(ps_session *s, const char *name, ps_reuse reuse);
PS_API ps_status ps_variable_scope_pop(ps_session *s);
/** As TensorFlow's `with tf.container(name)`. */
PS_API ps_status ps_container_push(ps_session *s, const char *name);
PS_API ps_status ps_container_pop(ps_session *s);
/** As TensorFlow's `with tf.device(device)`. NULL hides all outer device scopes. A job without a task means its task 0. */
PS_API ps_status ps_device_push(ps_session *s, const char *device);
/** As `with tf.device(tf.train.replica_device_setter(...))`; options borrows. Without a setter, variables that no scope places go
 * round-robin to the ps tasks (or tasks of the directory task's job), in order of creation, by one counter of the session. */
PS_API ps_status ps_device_push_setter(ps_session *s, const ps_setter_options *options);
PS_API ps_status ps_device_pop(ps_session *s);

typedef struct ps_device_info {
    char name[PS_DEVICE_BYTES]; /* "/job:ps/task:0/device:CPU:0" */
    char type[16];              /* "CPU" */
    uint32_t index;             /* index among the task's devices of this type */
    uint32_t reserved;
    uint64_t memory_bytes; /* CPU: the task's budget */
} ps_device_info;
/**
 * Devices of all tasks that serve, sorted by task. Blocks, up to the operation timeout if a task has not started yet.
 *
 * infos       [max], item_bytes = sizeof(*infos) each. Structs may grow at their end in later releases; so all calls that fill
 *             arrays of structs take this size.
 *
 * Returns     number of devices, also if it is above max; -1 on error.
 */
PS_API int ps_session_devices(ps_session *s, ps_device_info *infos, size_t item_bytes, int max);

/* ================================================ variables ================================================ */

typedef struct ps_variable_spec {
    size_t struct_bytes; /* filled by ps_variable_spec_init */
    const char *name;    /* NULL or "": the first of `Variable`, `Variable_1`, ... that this session has not got in its scope */
    ps_dtype dtype;
    uint32_t partitions; /* number of parts along partition_axis (ps_partition()); 0 or 1: the variable is whole */
    ps_shape shape;
    const ps_initializer *init;    /* NULL: zeros */
    const ps_optimizer *optimizer; /* NULL: none */
    const char *device;            /* acts as the innermost device scope, e.g. "/job:ps/task:1"; NULL: the open scopes alone */
    const char *type;              /* TensorFlow's type of the variable's operation: shown in the placement log, and used by
                                    * device setters (ps_device_push_setter()); NULL: "Variable" */
    bool atomic;                   /* pushes take effect as a whole, every read is exact; at most PS_ATOMIC_BYTES_MAX */
    bool unique; /* true: a name that this session has got already becomes NAME_1, NAME_2, ... as in tf.Variable */
    uint8_t partition_axis;
    uint8_t partition_layout; /* ps_layout */
    ps_dtype wire_dtype;      /* dtype in which pushes and pulls of a PS_F32 variable travel: PS_BF16, PS_F16, or PS_F32;
                               * PS_DTYPE_NONE: as the session's options say */
} ps_variable_spec;
PS_API void ps_variable_spec_init(ps_variable_spec *spec);

/** Which part of a partitioned variable has which row (slice along its axis) of the whole. */
typedef enum ps_layout {
    PS_LAYOUT_DIV = 0, /* each part has consecutive rows; the first (rows mod parts) parts have one row more */
    PS_LAYOUT_MOD = 1  /* row r is in part r mod parts: spreads rows with low indices, often the most used ones, over all parts */
} ps_layout;

/**
 * Set spec->partitions, so that the variable is made in parts, each of which is placed like a variable of its own. The number of
 * parts is what one of TensorFlow's partitioners gives for dtype, shape and partition_axis of *spec, which the caller has set.
 *
 * A partitioned variable has one name for the program; at the tasks its parts are NAME/part_0, NAME/part_1 ... Its first values
 * are those of the whole variable, whatever the number of parts. ps_variable_get(), ps_variables_get(), ps_param_get_spec() and
 * ps_embedding_get() make it. Calls that read, assign, add and push, calls on rows, and their asynchronous forms take values and
 * indices of the whole variable. A change goes to all parts; so does a push of rows, even to parts that have none of the rows. If
 * a change fails at one part, the error says to which parts it was applied; a row in the text has its index within the part. The
 * version of a partitioned variable is the lowest version of a part, and never exact. These calls allocate memory.
 *
 * ps_partition             exactly `parts`; more than there are rows are refused
 * ps_partition_fixed_size  tf.fixed_size_partitioner: `parts`, at most one a row
 * ps_partition_axis_size   tf.variable_axis_size_partitioner: parts of at most part_bytes_max, or of one row; at most parts_max
 *                          parts, 0: any number
 * ps_partition_min_max     tf.min_max_variable_partitioner: at most parts_max parts, of part_bytes_min or more
 *
 * spec     filled by ps_variable_spec_init(); changed on success only.
 *
 * Thread   any. Blocks never.
 * Errors   INVALID_ARGUMENT   an axis that the shape does not have, 0 parts, more than rows or than 256; ps_last_error() has what
 *                             is allowed
 * Source   TF 1.15 python/ops/partitioned_variables.py
 */
PS_API ps_status ps_partition(ps_variable_spec *spec, uint32_t parts);
PS_API ps_status ps_partition_fixed_size(ps_variable_spec *spec, uint32_t parts);
PS_API ps_status ps_partition_axis_size(ps_variable_spec *spec, uint64_t part_bytes_max, uint32_t parts_max);
PS_API ps_status ps_partition_min_max(ps_variable_spec *spec, uint32_t parts_max, uint64_t part_bytes_min);
/**
 * Make an optimizer of a text: "NAME" or "NAME:HYPERPARAMETER=NUMBER,...", as in "adamw:weight_decay=0.02,l2=1e-4". README.md
 * lists names, hyperparameters and the standard values of those that the text does not have.
 *
 * rate            learning rate if the text has none.
 * optimizer       is filled; the caller may change fields of it afterwards. optimizer_bytes is sizeof(*optimizer).
 *
 * Thread   any. Blocks never.
 * Errors   INVALID_ARGUMENT   the text, or a value outside its range for PS_F32; ps_last_error() has what is allowed
 */
PS_API ps_status ps_optimizer_parse(const char *text, double rate, ps_optimizer *optimizer, size_t optimizer_bytes);
/**
 * Let the learning rate of an optimizer follow the global step, by one of TensorFlow's schedules:
 * "cosine_decay:decay_steps=1000", "piecewise_constant:boundaries=100/200,values=0.1/0.01/0.001", "none". README.md lists names,
 * parameters and formulas. The ps evaluates the schedule at the global step that the session knows when a push begins: from the
 * session's last read of global_step, its last addition to it, or a round. In rounds it is the step of the round. A push of a
 * session that knows no global step takes the highest step that the variable has seen.
 *
 * optimizer       of ps_optimizer_parse(); optimizer_bytes is sizeof(*optimizer). piecewise_constant sets its learning rate.
 *
 * Thread   any. Blocks never.
 * Errors   INVALID_ARGUMENT   the text, a value outside its range for PS_F32, boundaries out of order; ps_last_error() has what
 *                             is allowed, and the optimizer is as it was
 */
PS_API ps_status ps_optimizer_schedule(const char *text, ps_optimizer *optimizer, size_t optimizer_bytes);

/**
 * Get or create a variable, which belongs to the session (freed at close). Blocks up to the operation timeout.
 *
 * Errors   not sticky.
 *          INVALID_ARGUMENT     also if the variable exists with another definition: the text begins with SHAPE_MISMATCH,
 *                               OPTIMIZER_MISMATCH or ATOMIC_MISMATCH, and names both sides
 *          FAILED_PRECONDITION  value and slots are larger than the task's whole memory budget
 *          UNAVAILABLE, DEADLINE_EXCEEDED
 */
PS_API ps_status ps_variable_get(ps_session *s, const ps_variable_spec *spec, ps_variable **out_variable);
/**
 * Get or create several variables, each as by ps_variable_get() and in this order, with the round trips of a single variable: one
 * list goes to the directory task and one to each task that has some of the variables.
 *
 * specs          [count], each filled by ps_variable_spec_init(); struct_bytes is the distance between two of them; borrows.
 * out_variables  [count] the variable of each spec, owned by the session (freed at close); NULL if it could not be got.
 *
 * Thread   any, but not in a callback. Blocks up to the operation timeout.
 * Errors   not sticky. The first error in order, with the name of its variable; the other variables are got nevertheless.
 *          INVALID_ARGUMENT   also specs or out_variables NULL, specs of different struct_bytes: nothing is asked for
 *          all others         as ps_variable_get()
 * Cost     about 60 bytes and the name for each variable, sent twice; lists of up to 240 KiB, 4,096 variables.
 */
PS_API ps_status ps_variables_get(ps_session *s, const ps_variable_spec *specs, size_t count, ps_variable **out_variables);
/**
 * TensorFlow's v = tf.Variable(...) with sess.run(v.initializer): get or create a float32 variable and give it its initial value,
 * also if it has a value.
 *
 * name, shape, init, optimizer   as in ps_variable_spec; borrows.
 *
 * Returns  the variable, owned by the session (freed at close). NULL after an error, which is sticky.
 * Thread   any, but not in a callback. Blocks up to twice the operation timeout.
 * Errors   those of ps_variable_get() and of ps_variable_init()
 */
PS_API ps_variable *ps_variable_make(ps_session *s, const char *name, ps_shape shape, const ps_initializer *init,
                                     const ps_optimizer *optimizer);
/** Find an existing variable by its name, in the open scopes and the present container. It may have any definition and be at any
 * task, whole or in parts. NOT_FOUND: no such variable. Blocks. */
PS_API ps_status ps_variable_find(ps_session *s, const char *name, ps_variable **out_variable);
PS_API const char *ps_variable_name(const ps_variable *v); /* full name: "my_problem_1/x" */
PS_API ps_dtype ps_variable_dtype(const ps_variable *v);
PS_API const ps_shape *ps_variable_shape(const ps_variable *v);
PS_API int ps_variable_task(const ps_variable *v); /* index of v's task in its job; if v has parts: of part 0's task */
/** Number of parts of v; 0: the variable is whole. */
PS_API uint32_t ps_variable_partitions(const ps_variable *v);
/** Part `index` of a partitioned variable, to ask for its device and version. v owns the part. NULL: there is no such part. */
PS_API ps_variable *ps_variable_partition(const ps_variable *v, uint32_t index);
PS_API const char *ps_variable_device(const ps_variable *v); /* where it is: "/job:ps/task:0/device:CPU:0" */
/** The device that the scopes of v asked for, in canonical form; "" if none did, or if v had to exist (ps_variable_find(),
 * PS_REUSE_ALWAYS). */
PS_API const char *ps_variable_requested_device(const ps_variable *v);
/** Room for any VariableDef. */
#define PS_VARIABLE_DEF_BYTES 1024
/**
 * TensorFlow's VariableDef of v, without its container, in the text form of protocol buffers: three lines, each with its newline:
 *   variable_name: "my_problem_1/x:0"
 *   initializer_name: "my_problem_1/x/Assign"
 *   snapshot_name: "my_problem_1/x/read:0"
 *
 * out      [out_bytes], at least PS_VARIABLE_DEF_BYTES.
 *
 * Thread   any.
 * Errors   INVALID_ARGUMENT: out is too small; both sizes are named.
 * Source   TF 1.15 python/ops/variables.py RefVariable.to_proto, core/framework/variable.proto
 */
PS_API ps_status ps_variable_def(const ps_variable *v, char *out, size_t out_bytes);
PS_API const char *ps_variable_container(const ps_variable *v);
/** Bytes of v's value; 0 for a string variable. */
PS_API size_t ps_variable_bytes(const ps_variable *v);
/** Bytes of slot number `slot` (from 0 on) of v's optimizer; 0: there is no such slot. A slot is as large as the value, but for
 * those of rowwise_adagrad ("accumulator") and rowwise_adam ("v"), which have one element for each row. */
PS_API size_t ps_variable_slot_bytes(const ps_variable *v, uint32_t slot);
/** Version after the last read or assign of v by any thread. *out_exact: as in ps_variable_read_versioned(); true after an
 * assign. */
PS_API uint64_t ps_variable_version(const ps_variable *v, bool *out_exact);

/*
 * Blocking calls, up to the operation timeout; any thread, but not in a callback; errors are not sticky. ps_last_error(),
 * ps_last_applied() and ps_last_reason() have details of the calling thread's last failure. Buffers are in host memory, in the
 * variable's dtype and shape, row-major (whatever dtype travels), and borrowed; their size must be ps_variable_bytes(). A buffer
 * of 0 bytes, of a variable without elements, may be NULL. Errors of all: INVALID_ARGUMENT (size, NULL, a PS_STRING variable, a
 * bool other than 0 and 1), FAILED_PRECONDITION (no value yet, the session closes, in a callback, after fork), ABORTED (the
 * variable was reset or deleted), RESOURCE_EXHAUSTED (a task's memory budget), DEADLINE_EXCEEDED.
 *
 * Values that are read arrive in dst before they are checked. So dst is torn until the call has returned PS_OK, and after an
 * error: it has old, new and damaged bytes. Nothing is written to it after the return.
 */
/** Read the value into dst [dst_bytes]; ps_variable_version() then gives its version. */
PS_API ps_status ps_variable_read(ps_variable *v, void *dst, size_t dst_bytes);
/**
 * Read the value as ps_variable_read() does, and get its version, whatever other threads do with v.
 *
 * out_version  version of the oldest element; may be NULL, as out_exact. Both are written on PS_OK only.
 * out_exact    all elements are of that version, of one moment. Always true for atomic variables (ps_variable_spec.atomic),
 *              strings, and values of at most 64 KiB. A larger value that a push or assign changes during the read may mix
 *              several moments, though not within a 64 KiB segment. A program that needs an exact value reads again.
 */
PS_API ps_status ps_variable_read_versioned(ps_variable *v, void *dst, size_t dst_bytes, uint64_t *out_version, bool *out_exact);
/** Read slot number `slot` (from 0 on) of v's optimizer into dst, of ps_variable_slot_bytes() bytes, in the variable's dtype:
 * momentum and nesterov "momentum", adagrad "accumulator", adam "m" and "v". OUT_OF_RANGE: the optimizer has no such slot. */
PS_API ps_status ps_variable_read_slot(ps_variable *v, uint32_t slot, void *dst, size_t dst_bytes);
PS_API ps_status ps_variable_read_slot_versioned(ps_variable *v, uint32_t slot, void *dst, size_t dst_bytes,
                                                 uint64_t *out_version, bool *out_exact);
/**
 * Replace the value, exactly once and at one moment; slots are kept. Two assigns leave the value of one of them, and a read that
 * begins after the assign gets all of its value. A read that is under way may get parts of both values, unless the variable is
 * atomic or small; *out_exact of ps_variable_read_versioned() says so. An assign also initialises; other sessions then take the
 * variable for a part of a model that exists (ps_session_ready()).
 */
PS_API ps_status ps_variable_assign(ps_variable *v, const void *src, size_t src_bytes);
/** Assign the value in src if the variable has no value when the request comes to its task. Other sessions take the variable for
 * a part of a model that exists, as after ps_variable_assign(). */
PS_API ps_status ps_variable_init_from(ps_variable *v, const void *src, size_t src_bytes);
/** Run the initializer of v's spec if v has no value. With force also if v has one; its slots are reset then. */
PS_API ps_status ps_variable_init(ps_variable *v, bool force);
/**
 * v += delta (v -= delta), element by element, exactly once: TensorFlow's assign_add and assign_sub with use_locking.
 *
 * More than 64 KiB travel and are added in segments of 64 KiB, as in a push: additions and pushes of several sessions never lose
 * each other's part, and a broken connection is resumed. A read in between may see some segments and not others, unless the
 * variable is atomic. After an error ps_last_applied() says whether a part may have been added. Integers wrap, as TensorFlow's
 * do. float16 and bfloat16 are added as float32, and the sum is rounded to nearest, ties to even. NaN and infinity are added like
 * any number (psd --refuse_nonfinite is about gradients).
 *
 * delta      [delta_bytes] in v's dtype and shape, host memory, row-major; borrows. It travels in v's dtype, whatever wire_dtype
 *            is.
 * out_value  [out_bytes] the new value right after this addition; NULL: not wanted. Only for values of at most 64 bytes.
 *
 * Errors     INVALID_ARGUMENT     also: v holds bool or strings, out_bytes is wrong, out_value for a value of more than 64 bytes
 *            FAILED_PRECONDITION  also: more than 64 KiB to a variable in rounds (PS_REASON_IN_ROUNDS)
 *            UNIMPLEMENTED        more than 64 bytes, and the task's release cannot add them
 * Source     TF 1.15 core/kernels/dense_update_ops.cc, dense_update_functor.h
 */
PS_API ps_status ps_variable_assign_add(ps_variable *v, const void *delta, size_t delta_bytes, void *out_value, size_t out_bytes);
PS_API ps_status ps_variable_assign_sub(ps_variable *v, const void *delta, size_t delta_bytes, void *out_value, size_t out_bytes);
/** Apply a gradient with the variable's optimizer, exactly once. scale multiplies it before: finite, > 0, no unit (1/replicas
 * when averaging). INVALID_ARGUMENT also for NaN or infinity in grad or in grad times scale (psd --refuse_nonfinite). */
PS_API ps_status ps_variable_push(ps_variable *v, const void *grad, size_t grad_bytes, float scale);
/** Push, and receive the values after the push into dst, in one round trip. INVALID_ARGUMENT also if grad and dst overlap. */
PS_API ps_status ps_variable_push_pull(ps_variable *v, const void *grad, size_t grad_bytes, void *dst, size_t dst_bytes,
                                       float scale);
/** ps_variable_push_pull() with the version of the values, as in ps_variable_read_versioned(). All values contain this push. */
PS_API ps_status ps_variable_push_pull_versioned(ps_variable *v, const void *grad, size_t grad_bytes, void *dst, size_t dst_bytes,
                                                 float scale, uint64_t *out_version, bool *out_exact);
/**
 * Set a learning rate in place of v's optimizer's, until it is cleared (rate NULL) or v is deleted. It holds for the next push
 * that begins, from any session, and for the next round that is closed. The rate is no part of v's definition: get calls do not
 * compare it, and the chief's hyperparameters do not change it. The parts of a partitioned variable get the rate one after the
 * other. May be repeated. Blocks.
 *
 * Errors   INVALID_ARGUMENT (not finite, or not > 0 in v's dtype), FAILED_PRECONDITION (v has no optimizer), NOT_FOUND (deleted)
 */
PS_API ps_status ps_variable_set_rate(ps_variable *v, const double *rate);
/**
 * Set the learning rate of every variable of a container (NULL: the session's) that has an optimizer. All tasks are asked at
 * once, and each sets all of its variables or none. Variables in rounds get the rate on all tasks at the end of one round. The
 * call waits for this round, unless too few workers are there to close it, or it waits for a worker of this process. Blocks.
 *
 * out_variables  may be NULL: number of variables that have the rate.
 *
 * Errors   NOT_FOUND    no variable of the container has an optimizer
 *          UNAVAILABLE  the round has not ended within the timeout: either nothing has changed, or all variables have, with the
 *                       round that was being closed. The text says what the round waits for. Also, like other errors: a task
 *                       did not answer; the text says how many variables have the rate
 */
PS_API ps_status ps_set_rates(ps_session *s, const char *container, const double *rate, int64_t timeout_ms,
                              uint64_t *out_variables);
/** Ask the variable's task whether it has a value; also for strings. */
PS_API ps_status ps_variable_is_initialized(ps_variable *v, bool *out_initialized);
/** PS_STRING: replace all elements. values [count], count = elements of its shape. lengths [count]; NULL: the texts end with a
 * NUL. */
PS_API ps_status ps_variable_assign_strings(ps_variable *v, const char *const *values, const size_t *lengths, size_t count);
/** As ps_variable_assign_strings(), but a variable that has a value when the request comes to its task keeps this value. */
PS_API ps_status ps_variable_init_strings(ps_variable *v, const char *const *values, const size_t *lengths, size_t count);
/**
 * PS_STRING: read all elements. Element i is dst[offsets[i] .. offsets[i + 1]); one NUL follows the last. All are of one moment.
 *
 * dst        [dst_bytes]; PS_STRING_BYTES_MAX + 1 always suffices. OUT_OF_RANGE: too small.
 * offsets    [count + 1]; count = elements of its shape.
 * out_bytes  may be NULL: the size that dst needs.
 */
PS_API ps_status ps_variable_read_strings(ps_variable *v, char *dst, size_t dst_bytes, size_t *offsets, size_t count,
                                          size_t *out_bytes);

/** Error text of the calling thread's last blocking call that failed; "" if none did. Valid for this thread until its next
 * failure. ps_last_applied(): what that failed call may have changed. */
PS_API const char *ps_last_error(void);
PS_API ps_applied ps_last_applied(void);
/** Reason of the failure of ps_last_error(), for programs. */
PS_API ps_reason ps_last_reason(void);

/** Names of the session's variables that are uninitialised: at most max are written (valid until close). Returns their number,
 * -1 on error. TensorFlow's report_uninitialized_variables. Blocks. */
PS_API int ps_report_uninitialized(ps_session *s, const char **names, int max);
/** Wait until every variable of the session has its first value and a chief has declared the model ready (sealed it). */
PS_API ps_status ps_wait_ready(ps_session *s, int64_t timeout_ms);
/** Empty the session's default container on all tasks. UNAVAILABLE: names a ps that is not connected; nothing is done. */
PS_API ps_status ps_reset(ps_session *s);
/** Empty these containers, one after the other; count 0: the session's default one. A container that does not exist is no error.
 * An error names the containers that were reset before it. TensorFlow: Session.reset(target, containers). */
PS_API ps_status ps_reset_containers(ps_session *s, const char *const *containers, size_t count);
/** Empty every container of the cluster. */
PS_API ps_status ps_reset_all(ps_session *s);
/** Delete one variable, with all its parts, or one queue, by its name in the scopes and container that hold now. A part alone is
 * not deleted: INVALID_ARGUMENT. PS_MAYBE_PARTLY_APPLIED: not all parts are deleted; another call deletes the others. */
PS_API ps_status ps_variable_delete(ps_session *s, const char *name);
/** Get or create the int64 scalar `global_step`, without prefix, in the session's default container. The round-robin counts it
 * like any variable. */
PS_API ps_status ps_global_step_get(ps_session *s, ps_variable **out_variable);

/* ============================================ the asynchronous core ============================================ */

typedef struct ps_request ps_request;
/* Structs that callbacks get begin with struct_bytes, their size in the library: they may grow at their end. */
typedef struct ps_result {
    size_t struct_bytes;
    ps_status status;
    ps_applied applied; /* if status is not PS_OK */
    uint64_t version;   /* version of the variable after the mutation, or of the values that were read */
    bool exact;         /* reads: the values are a consistent snapshot */
    uint8_t reserved[7];
    /* size of `result`. Push in rounds: 8, a uint64_t that is 1 if the gradient was dropped, else 0. assign_add: size of the new
     * value, if at most 64. Enqueue: 8 (ps_enqueue_start()). All other requests, errors, and variables in parts: 0 */
    uint32_t result_bytes;
    ps_reason reason; /* NONE when status is PS_OK */
    uint8_t result[64];
    const char *text; /* text of the error, valid during the callback */
} ps_result;
/** Called once, on the session's loop thread. Must not block. May start requests, also with the same ps_request. */
typedef void (*ps_done_fn)(void *ctx, ps_request *req, const ps_result *result);

/** The caller allocates the struct, zeroes it before the first use, and keeps it untouched from the start to the callback. */
struct ps_request {
    union {
        uint8_t bytes[512];
        uint64_t align;
        void *pointer;
    } opaque;
};

/**
 * Start a request. PS_OK: done runs exactly once, on the loop thread, never within the call (but it may run before a call on
 * another thread has returned). Any other status: it never runs.
 *
 * grad, src, dst  kept until the callback; until then, and after an error, dst may mix old and new bytes.
 * timeout_ms      <= 0: the session's operation timeout.
 *
 * Thread          any.
 */
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

/* ============================================ rows of a variable ============================================ */

/*
 * Sparse training: a batch touches a few rows of a variable, and only these travel. A variable of shape [n, d1, d2, ...] has n
 * rows of d1 * d2 * ... elements; a row has at most 65,528 bytes. Scalars and variables of strings have no rows. Indices may come
 * in any order and more than once; all of them are checked before anything is sent. The client sorts them and sends each row
 * once.
 */

/**
 * Read rows by their indices: TensorFlow's gather, embedding_lookup.
 *
 * Every row that is read is whole: it has all of a push or none. Up to 32,768 rows of together at most 1 MiB, of an atomic
 * variable 4 MiB, are of one moment. The call notes a version, as ps_variable_read_versioned() gives it, with which a later
 * ps_push_rows() tells the task how old its values were. Rows travel in the session's wire_dtype. Nothing is changed, and no row
 * is made.
 *
 * indices      [index_count] each in [0, rows of v); borrows. 0 indices: asks whether v has a value.
 * dst          [index_count, elements of a row] row-major, of v's dtype; kept until the end, undefined until then and on error.
 *
 * Thread       any. Blocks.
 * Errors       OUT_OF_RANGE         an index outside: which, where it stands, and how many rows there are
 *              INVALID_ARGUMENT     v has no rows, or too large ones; dst_bytes is another number than the rows have
 *              FAILED_PRECONDITION  v has no value yet (PS_REASON_UNINITIALIZED)
 *              UNIMPLEMENTED        the task is of a release that has no operations on rows (PS_REASON_FEATURE)
 *              others as ps_variable_read()
 * Cost         8 bytes to the task for each different row, and the row back.
 * Source       TF 1.15 core/kernels/gather_op.cc, python/ops/embedding_ops.py
 */
PS_API ps_status ps_gather(ps_variable *v, const int64_t *indices, size_t index_count, void *dst, size_t dst_bytes);

/**
 * Apply gradients of some rows with the variable's optimizer, exactly once. Only these rows and their slots change; but adam,
 * adamw_tf, amsgrad and nadam move all rows, as in TensorFlow. The optimizer's step count and powers (beta^t) advance by a step.
 *
 * Gradients for a row that is named several times are added first, in the order in which they stand, in v's dtype. Large pushes
 * travel in segments of 64 KiB, as ps_variable_push() does; a connection that breaks is resumed by row. After an error
 * ps_last_applied() says whether some rows were perhaps applied; if the task refused the rest, the error text says how many were.
 *
 * indices      [index_count] each in [0, rows of v); borrows. 0 indices: only the step count and the powers advance.
 * grads        [index_count, elements of a row] row-major, of v's dtype; borrows. They travel in v's dtype.
 * scale        multiplies the sums before the update; finite, > 0, no unit.
 *
 * Thread       any. Blocks.
 * Errors       OUT_OF_RANGE         an index outside of the variable; nothing is applied
 *              INVALID_ARGUMENT     as ps_gather(); also NaN or infinity in a row (PS_REASON_NOT_FINITE, psd --refuse_nonfinite).
 *                                   The text names the row; rows of the segments before it are applied
 *              FAILED_PRECONDITION  v has no optimizer, or is in rounds (PS_REASON_IN_ROUNDS)
 *              UNIMPLEMENTED        adam, adamw_tf, amsgrad, nadam and a value of more than 16 MiB: TensorFlow's sparse form of
 *                                   these moves every row of the variable. Use lazy_adam. Or as in ps_gather()
 *              others as ps_variable_push()
 * Cost         8 bytes and the gradient for each different row.
 * Source       TF 1.15 core/kernels/training_ops.cc (SparseApply*), python/training/optimizer.py _deduplicate_indexed_slices
 */
PS_API ps_status ps_push_rows(ps_variable *v, const int64_t *indices, size_t index_count, const void *grads, size_t grad_bytes,
                              float scale);

/**
 * Apply gradients of some rows as ps_push_rows() does, and read the new values of these rows in the same exchange.
 *
 * All values contain this push, and perhaps later ones of other sessions; each row is whole. If the connection breaks, or the
 * task has no memory to send values, the call reads them as ps_gather() does after the push. The version is that of
 * ps_variable_read_versioned(). Each part of a partitioned variable gets the push and returns its rows.
 *
 * grads        [index_count, elements of a row] as in ps_push_rows(); borrows.
 * dst          [index_count, elements of a row]: the new value of the row that stands at the same place in `indices`; of v's
 *              dtype; kept until the end, undefined until then and on error. It may be the memory of grads.
 *
 * Thread       any. Blocks.
 * Errors       as ps_push_rows(). After an error ps_last_applied() says whether the push is applied.
 *              UNIMPLEMENTED        also: the task is of a release that sends no rows back (PS_REASON_FEATURE)
 * Cost         8 bytes and the gradient for each different row, and the row back: one round trip.
 */
PS_API ps_status ps_push_pull_rows(ps_variable *v, const int64_t *indices, size_t index_count, const void *grads,
                                   size_t grad_bytes, void *dst, size_t dst_bytes, float scale);

/**
 * Add rows, subtract rows, or put rows in the place of those that are there, exactly once, without the optimizer and its slots:
 * TensorFlow's scatter_add, scatter_sub, scatter_update.
 *
 * Several rows for one index: those to add or subtract are added first, in the order in which they stand; of an update the last
 * one counts. Integers wrap. Otherwise as ps_push_rows().
 *
 * indices      [index_count] each in [0, rows of v); borrows.
 * rows         [index_count, elements of a row] row-major, of v's dtype; borrows.
 *
 * Thread       any. Blocks.
 * Errors       as ps_push_rows(); INVALID_ARGUMENT also: add or subtract, and v holds bool
 * Source       TF 1.15 core/kernels/scatter_op.cc
 */
PS_API ps_status ps_scatter_add(ps_variable *v, const int64_t *indices, size_t index_count, const void *rows, size_t rows_bytes);
PS_API ps_status ps_scatter_sub(ps_variable *v, const int64_t *indices, size_t index_count, const void *rows, size_t rows_bytes);
PS_API ps_status ps_scatter_update(ps_variable *v, const int64_t *indices, size_t index_count, const void *rows,
                                   size_t rows_bytes);

/**
 * Start one of the calls above as a request, with the contract of ps_push_start(). Indices, gradients and rows to write are
 * copied, and may change as soon as the call has returned; dst is kept until the callback. Requests of one session for one
 * variable are carried out in the order of the calls: a gather sees the pushes that were started before it.
 *
 * Errors       those that are seen at once are returned, and done never runs: OUT_OF_RANGE, INVALID_ARGUMENT, RESOURCE_EXHAUSTED
 *              (memory for the copy), FAILED_PRECONDITION
 */
PS_API ps_status ps_gather_start(ps_variable *v, const int64_t *indices, size_t index_count, void *dst, size_t dst_bytes,
                                 int64_t timeout_ms, ps_request *req, ps_done_fn done, void *ctx);
PS_API ps_status ps_push_rows_start(ps_variable *v, const int64_t *indices, size_t index_count, const void *grads,
                                    size_t grad_bytes, float scale, int64_t timeout_ms, ps_request *req, ps_done_fn done,
                                    void *ctx);
PS_API ps_status ps_push_pull_rows_start(ps_variable *v, const int64_t *indices, size_t index_count, const void *grads,
                                         size_t grad_bytes, void *dst, size_t dst_bytes, float scale, int64_t timeout_ms,
                                         ps_request *req, ps_done_fn done, void *ctx);
PS_API ps_status ps_scatter_add_start(ps_variable *v, const int64_t *indices, size_t index_count, const void *rows,
                                      size_t rows_bytes, int64_t timeout_ms, ps_request *req, ps_done_fn done, void *ctx);
PS_API ps_status ps_scatter_update_start(ps_variable *v, const int64_t *indices, size_t index_count, const void *rows,
                                         size_t rows_bytes, int64_t timeout_ms, ps_request *req, ps_done_fn done, void *ctx);

/* ================================================ embeddings ================================================ */

/**
 * ps_param_get() with all that a spec can say: parts, device, wire dtype. A parameter in parts is got at once, which blocks; its
 * buffers have the whole value, and a pull or push of the parameter pulls or pushes every part.
 *
 * spec     dtype PS_F32; borrows.
 *
 * Errors   as ps_param_get(). INVALID_ARGUMENT also: another dtype
 */
PS_API ps_param *ps_param_get_spec(ps_session *s, const ps_variable_spec *spec);
/**
 * Get or create a parameter of which this process holds only the rows of a batch: an embedding of millions of rows, the weights
 * of a sparse model. Its buffers and its shape are those of the rows that ps_embedding_pull() has read, so that layers and
 * ps_push() use them as a whole parameter. ps_pull() skips it.
 *
 *   ps_pull(s);                                    all other parameters
 *   ps_embedding_pull(table, ids, count, places);  shape of table: (different ids, ...); row places[i] is that of ids[i]
 *   ...                                            gradient rows to ps_param_grad(table), which is all 0 before
 *   ps_push(s, table);
 *   ps_embedding_ahead(table, next_ids, count);    the next batch's rows travel while the step ends
 *   ps_step_done(s);
 *
 * In rounds (ps_session_sync_rows()) a step without ps_push() pushes no rows.
 *
 * ps_accumulate() is UNIMPLEMENTED for it; ps_push_pull() is ps_push(). A variable in parts (ps_partition()) is got at once,
 * which blocks; a whole one as by ps_param_get().
 *
 * spec     dtype PS_F32, at least one row; borrows.
 *
 * Returns  as ps_param_get().
 * Thread   as ps_param_get().
 * Errors   as ps_param_get(). INVALID_ARGUMENT also: another dtype; rows above 65,528 bytes
 */
PS_API ps_param *ps_embedding_get(ps_session *s, const ps_variable_spec *spec);
/**
 * Read the rows of a batch into the value buffer of an embedding. Its shape becomes (n, ...): a row for each of the n different
 * ids, in rising order of the ids; without ids it has one row of zeros, which ps_push() does not push. The gradient buffer gets
 * zeros. Waits for the last push of p, and for rows that ps_embedding_ahead() has asked for. If these rows have the same ids, the
 * call sends no request.
 *
 * ids         [id_count] in any order, also several times; each in [0, rows of the variable); borrows.
 * out_places  [id_count] which row of the buffers each id has; may be NULL. All 0 after an error.
 *
 * Thread   one thread at a time for p. Blocks.
 * Errors   sticky, as ps_gather(); INVALID_ARGUMENT also: p is no embedding. A lost monitored session recovers in ps_pull() or
 *          ps_should_stop(), not here.
 */
PS_API ps_status ps_embedding_pull(ps_param *p, const int64_t *ids, size_t id_count, int64_t *out_places);
/**
 * Start to read rows for the next ps_embedding_pull(), which uses them only if it has the same ids. Rows that are asked for after
 * a ps_push() of this session contain its gradients, because a ps carries out the requests of a session for a variable in order;
 * later pushes, and pushes of other sessions, may be missing. In rounds this call does nothing, because rows change only at the
 * end of a step.
 *
 * ids      as in ps_embedding_pull(); borrows.
 *
 * Thread   one thread at a time for p. Waits for the rows that the previous ps_embedding_ahead() has asked for.
 * Errors   sticky; those of ps_gather_start(). ps_embedding_pull() reads the rows that do not come
 */
PS_API ps_status ps_embedding_ahead(ps_param *p, const int64_t *ids, size_t id_count);

/* ============================================ values in files ============================================ */

/** Called from time to time and at the end of a copy, on the calling thread, with the bytes copied so far. total_bytes does not
 * change. */
typedef void (*ps_copied_fn)(void *ctx, const char *name, uint64_t done_bytes, uint64_t total_bytes);
/** Called by an import that has given `tensor` of the file to `variable`. variable NULL: the tensor was left out. tensor NULL:
 * the file has no value for this variable of the container. */
typedef void (*ps_taken_fn)(void *ctx, const char *tensor, const char *variable);
typedef struct ps_file_options {
    size_t struct_bytes;   /* filled by ps_file_options_init */
    const char *container; /* NULL: the session's */
    ps_copied_fn copied;   /* may be NULL */
    void *ctx;
    bool slots;              /* import: take the slots in the file too */
    bool existing;           /* import: every variable must exist, none is created */
    bool reserved[6];        /* false */
    const char *const *only; /* patterns for variables' names (* ? [a-z]; * matches / too), at most 64, ended by a NULL entry;
                              * NULL: all variables. Slots go with their variable */
    /* at most 64 texts "OLD=NEW", ended by a NULL entry: NEW replaces OLD at the beginning of a name. The result is the name of
     * the variable (import) or the name in the file (export). The longest OLD that fits is used; "=NEW" fits all */
    const char *const *prefixes;
    /* import: called for each tensor and variable when all is done, on the calling thread; may be NULL */
    ps_taken_fn taken;
} ps_file_options;
PS_API void ps_file_options_init(ps_file_options *options);
/**
 * Write the values of all initialised variables of a container, from all tasks, into one local safetensors file, which appears
 * whole or not at all. Slots are not written. A string variable NAME becomes NAME:bytes (U8) and NAME:offsets (I64), a variable
 * in parts one tensor under its own name; __metadata__ has the variables' definitions (docs/OPERATIONS.md).
 *
 * While others push, the file is no snapshot of one moment. In rounds it has the values of one round on all tasks: if a round
 * ends meanwhile, all values are read again (`copied` begins anew), for at most the session's timeout and a second for each 64
 * MiB. If rounds need all members, a member that exports between two of its steps reads once, because no round ends meanwhile.
 * Memory: 8 MiB for values, and all values of string variables. Blocks.
 *
 * options        NULL: defaults; borrows.
 * out_variables  may be NULL: number of variables in the file.
 *
 * Errors   UNAVAILABLE          a task is down; PS_REASON_IN_ROUNDS: rounds end too fast
 *          DATA_LOSS            a task came back without variables that the directory task knows
 *          INVALID_ARGUMENT     path is no regular file; `prefixes` give two variables one name; the header exceeds the format
 *          FAILED_PRECONDITION  no variable has a value
 *          NOT_FOUND            no such directory
 *          PERMISSION_DENIED, RESOURCE_EXHAUSTED (disk full)
 */
PS_API ps_status ps_export(ps_session *s, const char *path, const ps_file_options *options, int *out_variables);
/**
 * Give variables of a container the values of a safetensors file, made by ps_export() or by others. The tensors that the options
 * select (all, or those that fit `only`) are checked whole and compared with the variables before the first variable changes. Of
 * other tensors only the names are read.
 *
 * Missing variables are created in the order of the file, round-robin, with the optimizer and the parts in __metadata__. A
 * variable in parts is found by its own name, however many parts it had in the file. Values are assigned: versions rise, and
 * slots are kept. With `slots`, slots that ps_checkpoint_export() has written are assigned after all values, with Adam's powers.
 * The file must have all slots of a variable or none, and an existing variable must have that optimizer. A path that ends with
 * .index.json is an index, as ps_checkpoint_export() writes it: it stands for the files in its directory that it names; those
 * without a selected tensor need not exist. Memory: the largest variable, at least 64 MiB. If ps tasks save checkpoints, call
 * ps_checkpoint_save() afterwards: a task that is lost before comes back with older values.
 *
 * Errors   INVALID_ARGUMENT     names the tensor (dtype, shape, name, offsets), or two tensors for one variable
 *          FAILED_PRECONDITION  PS_REASON_IN_ROUNDS: a worker, which is named, trains a variable in rounds: stop it first
 *          NOT_FOUND            no such file; a pattern or prefix that fits nothing; a variable that must exist and does not
 *          ABORTED              PS_REASON_LOST: a task was lost, or went back to a checkpoint, during the import: import again
 *          Errors of creation and assign say how many variables have new values, and how many were created without a value.
 */
PS_API ps_status ps_import(ps_session *s, const char *path, const ps_file_options *options, int *out_variables);
/** Check whether ps_import() with these options would take this file, as far as the file alone can tell: the tensors that the
 * options select are checked whole. options (may be NULL): only, prefixes and slots are used. out_variables (may be NULL): number
 * of selected tensors. Any thread. Errors: INVALID_ARGUMENT naming the tensors, NOT_FOUND, PERMISSION_DENIED, ... */
PS_API ps_status ps_file_check(const char *path, const ps_file_options *options, int *out_variables);

/* ============================================== administration ============================================== */

typedef struct ps_saved_container {
    char container[64];
    int64_t step; /* highest value of a variable global_step in the container, as it was saved; -1: there is none */
} ps_saved_container;
/* Progress of checkpoints, as the directory task (the first ps task) knows it. */
typedef struct ps_saves_info {
    /* the task is the directory task, has a checkpoint_dir, and knows these facts; false: all other fields are 0 */
    bool known;
    bool whole;        /* all parts of the newest checkpoint are there; false: a part is missing, or its task does not answer */
    bool decided;      /* the checkpoint that is being made is complete, and the directory task informs the others */
    bool awaits_reset; /* a checkpoint was asked for, and is made when a reset has ended */
    bool more_containers; /* the newest checkpoint has more containers than `containers` holds */
    uint8_t reserved[3];
    /* newest checkpoint: its number; 0: none is saved, and the next four fields are not set */
    uint64_t number;
    int64_t step;            /* newest checkpoint: highest global_step in it; -1: it has no global_step */
    int64_t age_ms;          /* newest checkpoint: milliseconds since it was begun; -1: not known */
    uint64_t took_ms, bytes; /* newest checkpoint: milliseconds that it took; bytes of all its files */
    /* the checkpoint that is being made: number (0: none is made now); milliseconds since it was begun */
    uint64_t makes, make_ms;
    /* the checkpoint that is being made: tasks that save a part; tasks that have written theirs; share that is written, in
     * millionths */
    uint32_t make_tasks, make_done, make_share;
    /* the checkpoint that is being loaded: tasks that load a part; tasks that have loaded theirs; share loaded, in millionths */
    uint32_t load_tasks, load_done, load_share;
    uint64_t loads; /* number of the checkpoint that is being loaded; 0: none is loaded now */
    /* number of attempts that failed since the newest checkpoint was saved */
    uint64_t failed_attempts;
    uint64_t failed_number; /* number of the last failed attempt; 0: it could not be begun */
    int64_t failed_age_ms;  /* milliseconds since the last failure; -1: no failure, and the next three fields are not set */
    ps_status failed_status;
    ps_reason failed_reason;
    char failed[288];                    /* text of the last failure */
    uint32_t every_seconds, every_steps; /* the directory task makes a checkpoint after so many seconds, or steps; 0: never */
    uint32_t container_count;            /* number of entries of `containers` */
    uint8_t reserved_containers[4];
    ps_saved_container containers[8]; /* the first containers of the newest checkpoint */
} ps_saves_info;

typedef struct ps_task_info {
    char job[64];
    uint32_t task;
    bool up;
    bool directory; /* the task is the directory task: the first ps task, which knows the variables of all tasks */
    uint8_t reserved[2];
    char address[272];
    char version[33];
    char error[544];       /* why the task is not up */
    char waiting_for[256]; /* what the task waits for before it serves: lists of other tasks, or a checkpoint to load */
    uint64_t uptime_ms, memory_bytes, budget_bytes, variable_bytes;
    uint32_t connections, sessions, variables, pid;
    uint64_t pushes_applied, pushes_torn, pushes_refused, nonfinite, pulls, bytes_in, bytes_out, life;
    double pushes_per_second, bytes_per_second;
    char devices[128]; /* "CPU:0" */
    /* the next four fields are from the directory task, and empty if it does not answer */
    char conflict[256]; /* text about another process that claims to be this task; "": there is none */
    /* number of earlier processes of this task that the directory task has seen; of the directory task itself: 0 or 1 */
    uint32_t restarts;
    uint32_t lost;                   /* number of variables that an earlier process of the task had, and its present one lacks */
    char lost_names[256];            /* names of lost variables: "w, b and 3 more" */
    uint32_t connected, in_progress; /* number of connected sessions; number of pushes that are under way */
    uint64_t records_bytes;          /* memory for records of sessions; counts in the budget, like the next two fields */
    /* memory for values and calls that arrive; memory for values that are sent; memory of the session that uses most */
    uint64_t staged_bytes, copies_bytes, most_bytes;
    /* the session with most_bytes: "/job:worker/task:1@host:42", "psctl@host:43"; "": no session uses any */
    char most[128];
    ps_status status; /* why the task is not up; PS_OK and NONE if it is up */
    ps_reason reason;
    char not_done[256];      /* directory task only: once some trainers are done, names of those that are not */
    uint32_t done, trainers; /* directory task only: trainers that are done; trainers that the cluster lists */
    bool job_done;           /* this task has heard that the job is done (ps_session_job_done()) */
    bool insecure;           /* other machines can connect without key and certificate (psd --insecure_any_peer) */
    uint8_t reserved_done[6];
    char checkpoints[512]; /* directory task with a checkpoint_dir: text about the last and the next checkpoint, the last
                            * failure, and when checkpoints are made; else "" */
    ps_saves_info saves;   /* what `checkpoints` says, as fields */
    uint64_t denied;       /* number of requests and connections that were refused for lack of a right */
    /* number of TLS handshakes with peers that connected to this task: completed; refused or broken off by the peer */
    uint64_t handshakes_done, handshakes_refused;
    uint32_t handshakes_under_way;
    ps_waiting waiting; /* why waiting_for is not empty */
    /* true: this session may not read every container, and so gets no sums over all of them. These are 0: memory_bytes,
     * variable_bytes, variables, pushes_*, nonfinite, pulls, bytes_*, rates, in_progress, staged_bytes, copies_bytes, most_bytes;
     * most: "" */
    bool in_part;
    uint8_t reserved_part[7];
} ps_task_info;
/** Number of tasks that serve: all tasks of jobs other than worker, chief, master and evaluator, and those tasks of these four
 * jobs to which the directory task is connected at the first call. -1: error, after 0.3 s for a target that refuses connections.
 * Blocks. */
PS_API int ps_cluster_tasks(ps_session *s);
/** Ask tasks 0 to count - 1 of ps_cluster_tasks() for their state, at the same time, into infos [count]. A task that does not
 * answer has up == false and error set, and the call returns PS_OK. A task that refuses connections counts as down after 0.3 s.
 * Blocks up to timeout_ms. */
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
    uint8_t optimizer_room[384 - sizeof(ps_optimizer)]; /* room for fields that later releases add to ps_optimizer */
    uint64_t version, pushes;
    bool initialised, sealed, atomic;
    uint8_t reserved;
    uint32_t in_progress;
    uint64_t bytes; /* size of the value; 0 while uninitialised */
    double rate;    /* rate set by ps_variable_set_rate(); 0: no rate is set */
    uint32_t order; /* over all tasks, a variable that was created later has a higher number */
    uint8_t reserved_order[4];
    uint64_t step;        /* highest global step that a push to the variable carried */
    double rate_in_force; /* learning rate at that step: the one that was set, or the schedule's, or the optimizer's own */
    /* for a part: number of parts of its variable, whose name precedes /part_N here; for a whole variable: 0 */
    uint32_t parts;
    uint32_t part;                  /* for a part: its index; for a whole variable this field and the three below are 0 */
    int64_t whole_rows;             /* for a part: rows of its variable along part_axis */
    uint8_t part_axis, part_layout; /* for a part: axis along which its variable is cut; layout of the cut (ps_layout) */
    uint8_t reserved_part[6];
} ps_variable_info;
/** Turn the entry of a part into an entry of its whole variable, with that variable's name and shape; `parts` and the fields
 * behind `parts` become 0. An entry of a whole variable stays as it is. Thread: any. */
PS_API void ps_variable_info_whole(ps_variable_info *info);
/** List the devices of a task in devices. info was filled by ps_cluster_info(). Returns their number; at most max are written. -1
 * (INTERNAL): the task's list makes no sense. devices may be NULL if max is 0. Contacts nobody. */
PS_API int ps_task_info_devices(const ps_task_info *info, ps_device_info *devices, size_t item_bytes, int max);

typedef void (*ps_variable_info_fn)(void *ctx, const ps_variable_info *info);
/** List the variables of one task of ps_cluster_tasks(), sorted by container and name. Blocks; each() is called before it
 * returns, as in all lists below. */
PS_API ps_status ps_task_variables(ps_session *s, int task, int64_t timeout_ms, ps_variable_info_fn each, void *ctx);
typedef struct ps_config_info {
    size_t struct_bytes;
    const char *name, *value, *default_value, *help; /* texts are valid during the callback */
    bool reloadable;                                 /* ps_task_config_set() can change it */
} ps_config_info;
typedef void (*ps_config_fn)(void *ctx, const ps_config_info *info);
PS_API ps_status ps_task_config(ps_session *s, int task, int64_t timeout_ms, ps_config_fn each, void *ctx);
/** Change a setting while the task runs; its file is not changed. Errors: NOT_FOUND (no such setting), FAILED_PRECONDITION (it
 * needs a restart), INVALID_ARGUMENT (the text says what is allowed). */
PS_API ps_status ps_task_config_set(ps_session *s, int task, const char *name, const char *value, int64_t timeout_ms);

typedef struct ps_session_info {
    size_t struct_bytes;
    char job[64]; /* "": no task */
    uint32_t task;
    uint32_t pid;
    char host[65], program[65];
    char id[17]; /* first half of the session's id, hexadecimal */
    bool connected, stopping;
    uint8_t reserved[3];
    uint64_t heard_ms, age_ms;
    int64_t global_step; /* -1: the session has not reported one */
    /* rate of the global step that the session sees, over its last five beats (10 s); 0: the step stands still */
    double steps_per_second;
    uint32_t waits, in_progress;
    uint64_t held_bytes; /* bytes of the task's budget that the session uses: values under way, calls */
    /* directory task only: a process that claims to be this task, and was refused in the last 5 minutes; "": no such process */
    char rival[96];
    char identity[134]; /* who made the session, as ps_right_info.identity; "": the task gives rights to everybody */
    char key_id[9];     /* key id of its connection; "": no key, or no connection */
    uint8_t reserved_key[1];
    /* directory task only: values of the session's newest step (ps_step_value()), as many as fit: "loss=0.25 accuracy=0.9" */
    char values[192];
} ps_session_info;
typedef void (*ps_session_info_fn)(void *ctx, const ps_session_info *info);
/** List the sessions that one task of ps_cluster_tasks() knows, sorted by job and task. The directory (ps_task_info.directory)
 * knows all sessions that have created or looked up a variable, and their steps. */
PS_API ps_status ps_task_sessions(ps_session *s, int task, int64_t timeout_ms, ps_session_info_fn each, void *ctx);
typedef struct ps_right_info {
    size_t struct_bytes;
    /* set in the first entry only: who the session is */
    char identity[134]; /* "key:w0", "cert:psd://psd/worker/0", "uid:1000", "anybody" */
    /* role of the identity's key: "ps", "worker", "monitor", "admin"; "admin" for the user of the task's process */
    char role[16];
    char key_id[9];  /* key id of the connection */
    bool open;       /* the task gives rights to everybody */
    uint32_t rights; /* rights on the cluster: read 1, write 2, create 4, chief 8, call 16, save 32, administer 64, member 128 */
    /* set in all entries but the first: a row of the task's table that names the identity: "role:worker *,@cluster train" */
    char row[1024];
} ps_right_info;
typedef void (*ps_right_info_fn)(void *ctx, const ps_right_info *info);
/** Who this session is at one task, and the rows of the task's table of rights that apply to it. Needs no right. */
PS_API ps_status ps_task_rights(ps_session *s, int task, int64_t timeout_ms, ps_right_info_fn each, void *ctx);
typedef struct ps_event_info {
    size_t struct_bytes;
    uint64_t number; /* counts from 1 in each process of the task */
    uint64_t life;   /* number of the task's process; a restarted task has another one */
    uint64_t age_ms; /* how long ago it happened */
    uint32_t level;  /* 0 debug, 1 info, 2 warning, 3 error */
    char event[32];  /* "task_lost": a name, as in the task's log */
    char text[512];  /* fields, as in the task's log: "peer=/job:ps/task:1" */
} ps_event_info;
typedef void (*ps_event_info_fn)(void *ctx, const ps_event_info *info);
/* A place in a task's list of events. All 0: before the oldest event that the task has. */
typedef struct ps_event_place {
    size_t struct_bytes; /* sizeof(ps_event_place) */
    uint64_t life;       /* number of the task's process; 0: no event has come yet */
    uint64_t next;       /* number of the last event that has come, plus 1 */
    int64_t wait_ms;     /* how long the task waits for an event if there is none, at most 30,000 */
    uint64_t missed;     /* set by the call: events between the place and the first listed one; the task had dropped them */
} ps_event_place;
/**
 * List what has happened at one task: tasks, workers, chiefs, recoveries, checkpoints, resets, denials. The task keeps the newest
 * ones in its memory (psd --events_max); they end with its process. At most 128 come at once: call again until none comes.
 *
 * place       where to begin; moved behind the last event that came. If the task is another process than place->life says, its
 *             whole list comes.
 * timeout_ms  as in other calls, for the answer; the wait of place->wait_ms comes on top of it.
 * each        called for each event, the oldest first, on the caller's thread.
 *
 * Thread      any, but not in a callback. Blocks.
 * Errors      INVALID_ARGUMENT  place NULL, its struct_bytes or wait_ms out of range
 *             UNIMPLEMENTED     the task is of a release without events
 *             all others        as ps_task_waits()
 */
PS_API ps_status ps_task_events(ps_session *s, int task, ps_event_place *place, int64_t timeout_ms, ps_event_info_fn each,
                                void *ctx);
typedef struct ps_wait_info {
    size_t struct_bytes;
    char job[64]; /* who waits; "": no task */
    uint32_t task;
    uint32_t pid;
    char host[65], program[65], id[17];
    char request[17];  /* operation: "CREATE", "WAIT", ... */
    char what[256];    /* what the request waits for: "sealed: w, b" */
    char release[256]; /* what would end the wait */
    uint64_t since_ms; /* how long the request has waited */
    int64_t left_ms;   /* time until the request's deadline; -1: it has no deadline */
} ps_wait_info;
typedef void (*ps_wait_info_fn)(void *ctx, const ps_wait_info *info);
/** List the requests that wait at one task, the oldest first, at most 4,096. A request that its client holds back (no
 * connection, or refused with UNAVAILABLE or RESOURCE_EXHAUSTED) is not among them: the client's log says so after 5 s. */
PS_API ps_status ps_task_waits(ps_session *s, int task, int64_t timeout_ms, ps_wait_info_fn each, void *ctx);
typedef struct ps_container_info {
    size_t struct_bytes;
    char name[64];
    uint64_t incarnation, bytes; /* bytes: values, slots, and elements of queues */
    uint32_t variables, initialised;
    /* directory task only: number of names recorded for all tasks; if the tasks have fewer variables, one has lost some */
    uint32_t names;
    uint32_t queues;
    /* directory task: holder of the chief's lease; other tasks: the chief with the number below; "": nobody, or not known */
    char chief[96];
    uint64_t chief_number;  /* highest chief number that the task has seen; 0: it has seen no chief */
    uint64_t chief_left_ms; /* directory task only: time until the chief's lease ends; 0: nobody holds it */
} ps_container_info;
typedef void (*ps_container_info_fn)(void *ctx, const ps_container_info *info);
/** List the containers of one task, sorted by name; also empty ones that its present process has used. */
PS_API ps_status ps_task_containers(ps_session *s, int task, int64_t timeout_ms, ps_container_info_fn each, void *ctx);
#define PS_HISTOGRAM 17 /* entries of a histogram: how often the values 0 to 15 occurred; the last: all larger values */
typedef enum ps_round_phase {
    PS_ROUND_OPENING = 1, /* waits for the first members */
    PS_ROUND_COLLECTS = 2,
    PS_ROUND_PREPARES = 3, /* the tasks compute the new values */
    PS_ROUND_COMMITS = 4,
    PS_ROUND_IN_DOUBT = 5, /* the directory task waits for the tasks that have parameters of the round */
    PS_ROUND_FAILED = 6
} ps_round_phase;
typedef struct ps_round_info {
    size_t struct_bytes;
    char container[64];
    ps_sync_options options; /* as the chief gave them */
    uint64_t generation;     /* random number of the chief's ps_session_ready() that began the rounds */
    uint64_t round, step;    /* present round; global step */
    ps_round_phase phase;
    uint32_t workers, replicas;   /* members that are expected; members that must complete a round to close it */
    uint32_t members;             /* number of ps_member_info that follow */
    uint64_t dropped;             /* contributions that came too late */
    uint64_t leads[PS_HISTOGRAM]; /* bounded staleness: leads[i] is the number of steps that ended with a lead of i */
    char waits_for[512];          /* what the round waits for, or why it failed */
    char owners[256];             /* tasks with parameters of the round that do not answer, or whose state is unknown */
    double max_norm;              /* limit of the norm of averages; 0: no limit */
    uint32_t max_norm_each;       /* 1: max_norm is of each parameter; 0: of all together */
    uint32_t reserved;
} ps_round_info;
typedef enum ps_member_state {
    PS_MEMBER_WORKS = 1,
    PS_MEMBER_COMPLETE = 2, /* the member has completed its step and waits for the other members */
    PS_MEMBER_LOST = 3,
    PS_MEMBER_ENTERS = 4, /* takes part from the next round on */
    PS_MEMBER_WAITS = 5,  /* bounded staleness: the member waits for members that are too far behind */
    /* the directory task was restarted, and the member has sent nothing since; host and pid are not known */
    PS_MEMBER_UNKNOWN = 6
} ps_member_state;
typedef struct ps_member_info {
    size_t struct_bytes;
    char job[64];
    uint32_t task, pid;
    char host[65], id[17]; /* id: first half of its session's id, hexadecimal */
    ps_member_state state;
    uint64_t member;   /* number of the member; 0: no session has this place */
    uint64_t since_ms; /* how long the member has been in this state */
    uint64_t steps;    /* bounded staleness: number of the member's own steps */
    /* true: `steps` is not known, because the directory task was restarted and the member has not sent it since */
    bool steps_unknown;
    uint8_t reserved[7];
} ps_member_info;
typedef void (*ps_round_info_fn)(void *ctx, const ps_round_info *info);
typedef void (*ps_member_info_fn)(void *ctx, const ps_member_info *info);
/** List containers that are trained in rounds or with bounded staleness, as the directory task knows them: round() for each, then
 * member() for each of its members, by task. After its restart the directory task may lack some containers: then the last round()
 * has phase PS_ROUND_IN_DOUBT and container "". round and member may be NULL. Blocks. */
PS_API ps_status ps_rounds(ps_session *s, int64_t timeout_ms, ps_round_info_fn round, ps_member_info_fn member, void *ctx);
/* Ages of the gradients that a task has applied. The age of a gradient is the number of other mutations of its variable between
 * its push and the read of the values from which it was computed: the session's last read of the variable, of a parameter the
 * last ps_pull(). For information only. Counted since the task started or the container was reset. */
typedef struct ps_age_info {
    size_t struct_bytes;
    char container[64];
    uint64_t ages[PS_HISTOGRAM];
} ps_age_info;
typedef void (*ps_age_info_fn)(void *ctx, const ps_age_info *info);
/** List the ages of the gradients at one task, by container, sorted by name. Blocks. */
PS_API ps_status ps_task_ages(ps_session *s, int task, int64_t timeout_ms, ps_age_info_fn each, void *ctx);
/* A checkpoint of the cluster: the state of all ps tasks, each at one moment, in files beneath the checkpoint_dir of each. */
typedef struct ps_checkpoint_info {
    size_t struct_bytes;
    uint64_t number;
    ps_checkpoint_state state;
    uint64_t time_ms;      /* when the checkpoint was begun, Unix time; 0: not known */
    int64_t step;          /* highest value of a variable global_step in the checkpoint; -1: there is none */
    uint64_t bytes;        /* size of all files of the checkpoint */
    uint64_t milliseconds; /* how long the checkpoint took, or has taken so far */
    uint32_t tasks, done;  /* number of tasks that have a part; number of these that have written it */
    int32_t share;         /* in millionths: share written so far, or share loaded while tasks load the checkpoint; -1: neither */
    int32_t reserved;
    char text[512]; /* why the checkpoint cannot be used, or why the attempt failed; "": no such error */
} ps_checkpoint_info;
typedef void (*ps_checkpoint_info_fn)(void *ctx, const ps_checkpoint_info *info);
/** List the checkpoints that the directory task knows, by number: also the one that is being made, and the last attempt if it
 * failed. Blocks. */
PS_API ps_status ps_checkpoints(ps_session *s, int64_t timeout_ms, ps_checkpoint_info_fn each, void *ctx);
/**
 * Save the state of all ps tasks. When this returns PS_OK the checkpoint is on the disks of all of them. Training goes on; in
 * rounds the checkpoint has the state between two rounds. Its state is that of the moment when the request was taken,
 * with all ps tasks up, or of a later moment. If nothing differs from the newest whole checkpoint, no new one is made. Blocks;
 * while a task does not answer, or its disk is still writing an older checkpoint, the call waits.
 *
 * out_number  may be NULL: number of the checkpoint that has the state, which may be an older one.
 *
 * Thread   any.
 * Errors   FAILED_PRECONDITION  a ps task has no checkpoint_dir
 *          UNAVAILABLE          the ps tasks are still starting
 *          UNAVAILABLE with PS_OUTCOME_UNKNOWN: the state is lost because tasks have gone back to a checkpoint; or the directory
 *                               task was restarted: ps_checkpoints() tells what is saved, and another call saves the state of
 *                               that time
 *          ABORTED              a container was reset meanwhile
 *          DEADLINE_EXCEEDED    the checkpoint is still being made
 *          RESOURCE_EXHAUSTED (disk full), DATA_LOSS, PERMISSION_DENIED: errors of a disk
 */
PS_API ps_status ps_checkpoint_save(ps_session *s, int64_t timeout_ms, uint64_t *out_number);
/* A file of a checkpoint that differs from what was written, or cannot be read. Status UNAVAILABLE or DEADLINE_EXCEEDED: the
 * file's task does not answer; this file and the task's later files may be good. */
typedef struct ps_checkpoint_fault {
    size_t struct_bytes;
    char job[64]; /* job of the task whose file it is */
    uint32_t task;
    ps_status status;
    char file[32];  /* "state", "manifest", "model-00000.safetensors" */
    char text[544]; /* what is wrong, and where in the file */
} ps_checkpoint_fault;
typedef void (*ps_checkpoint_fault_fn)(void *ctx, const ps_checkpoint_fault *fault);
typedef struct ps_checkpoint_options {
    size_t struct_bytes;   /* filled by ps_checkpoint_options_init */
    const char *container; /* export: the container; NULL: the session's */
    uint64_t shard_bytes;  /* export: bytes of values per file; 0: one file */
    bool slots;            /* export: also the optimizers' slots */
    bool reserved[7];      /* false */
    /* called as the work proceeds, with the file that is read; export: counts bytes of values that were written. May be NULL */
    ps_copied_fn copied;
    ps_checkpoint_fault_fn fault; /* verify: called on the calling thread; may be NULL */
    void *ctx;
    const char *const *only;     /* export: as in ps_file_options */
    const char *const *prefixes; /* export: as in ps_file_options; slots go with their variable */
} ps_checkpoint_options;
PS_API void ps_checkpoint_options_init(ps_checkpoint_options *options);
/**
 * Read every file of every task of a checkpoint and compare it with its CRCs and lengths. Blocks; the session's timeout holds for
 * each range that is read.
 *
 * options     NULL: defaults; borrows.
 * out_faults  may be NULL: number of bad files.
 *
 * Thread   any.
 * Errors   DATA_LOSS    files are bad; the text names the first
 *          NOT_FOUND    no task has a manifest of this checkpoint
 *          UNAVAILABLE, DEADLINE_EXCEEDED  no task that may have one answers; or no bad file was found, and a task could not be
 *                                          asked
 */
PS_API ps_status ps_checkpoint_verify(ps_session *s, uint64_t number, const ps_checkpoint_options *options, uint32_t *out_faults);
/**
 * Write the variables of a container, as a checkpoint has them, into one safetensors file, which appears whole or not at all, as
 * ps_export() does with the present values. Only data that was verified is written. Blocks, as ps_checkpoint_verify().
 *
 * With `slots`, slots get TensorFlow's names: w/Adagrad, w/Momentum, w/Adam, w/Adam_1, and beta1_power and beta2_power if all
 * Adam variables have the same powers; if not, and in several files, w/beta1_power. ps_import() with `slots` reads them. With
 * shard_bytes: PATH-00001-of-0000N.safetensors (PATH without ".safetensors"), and PATH.safetensors.index.json with their names.
 *
 * out_variables  may be NULL.
 *
 * Errors   those of ps_checkpoint_verify(), after which nothing is at path, and of ps_export()
 */
PS_API ps_status ps_checkpoint_export(ps_session *s, uint64_t number, const char *path, const ps_checkpoint_options *options,
                                      int *out_variables);
typedef void (*ps_checkpoint_container_fn)(void *ctx, const char *container); /* container is valid during the callback */
/**
 * List the containers of a checkpoint, of all its tasks, by name: each that had a variable or a queue then, also those that
 * were reset since, which a restore leaves out. Reads the state files, not the values. Blocks; the session's timeout holds for
 * each range that is read. Callbacks run on the calling thread before this call returns, and none after a failure.
 *
 * Thread   any.
 * Errors   those of ps_checkpoint_verify(); UNAVAILABLE also if a task of the checkpoint no longer belongs to the cluster
 */
PS_API ps_status ps_checkpoint_containers(ps_session *s, uint64_t number, ps_checkpoint_container_fn each, void *ctx);
/**
 * Delete a checkpoint at all tasks that are connected. The newest whole checkpoint is deleted with `force` only.
 *
 * Thread   any.
 * Errors   NOT_FOUND; FAILED_PRECONDITION (it is being made; it is the newest; no checkpoint_dir); DATA_LOSS (the directory's
 *          disk does not remove it); DEADLINE_EXCEEDED (the deletion goes on)
 */
PS_API ps_status ps_checkpoint_delete(ps_session *s, uint64_t number, bool force, int64_t timeout_ms);
/**
 * Restore a checkpoint while the tasks run: on all ps tasks each container of the checkpoint gets the state that it had when
 * the checkpoint was made. Later changes are lost. Other containers stay as they are. The checkpoint is loaded and verified
 * before anything changes, so it needs memory beside the present state. Sessions that train in a restored container get ABORTED.
 * Then a new checkpoint of the restored model is made. Before it is whole, the loss of a task may make all tasks go back to the
 * newest checkpoint before it. PS_OK: the new checkpoint is whole.
 *
 * out_next  may be NULL: number of the new checkpoint.
 *
 * Thread   any.
 * Errors   Nothing has changed after:
 *          NOT_FOUND
 *          FAILED_PRECONDITION  the checkpoint is not whole on all tasks, has parts of tasks that no longer exist, is empty,
 *                               or all that it has was reset since; no checkpoint_dir
 *          DATA_LOSS            a file differs from what was written
 *          RESOURCE_EXHAUSTED   no memory beside the present state
 *          UNAVAILABLE          a task does not answer
 *          Any status with PS_MAYBE_PARTLY_APPLIED: the checkpoint was restored, and the new one is not saved, for the reason
 *          that the status gives. With UNAVAILABLE a task was lost before that, and the text names the checkpoint to which all
 *          tasks have gone back. UNAVAILABLE with PS_OUTCOME_UNKNOWN: the directory task was restarted. DEADLINE_EXCEEDED: the
 *          restore goes on if it has begun.
 */
PS_API ps_status ps_checkpoint_restore(ps_session *s, uint64_t number, int64_t timeout_ms, uint64_t *out_next);
/**
 * ps_checkpoint_restore() for some containers; the others stay as they are.
 *
 * containers  [count], at most 64; count 0: all; borrows.
 *
 * Thread   any.
 * Errors   as ps_checkpoint_restore(). Nothing has changed also after: NOT_FOUND (the checkpoint lacks one of the containers),
 *          INVALID_ARGUMENT (a name), FAILED_PRECONDITION (one of the containers was reset since; or ps tasks cannot start, or
 *          parts of the checkpoint belong to tasks that no longer exist: then only the whole checkpoint can be restored)
 */
PS_API ps_status ps_checkpoint_restore_containers(ps_session *s, uint64_t number, const char *const *containers, size_t count,
                                                  int64_t timeout_ms, uint64_t *out_next);
/** ps_checkpoint_save() that keeps checkpoint `keeps` for a restore: until a restore is asked for, or for 10 minutes, no save
 * removes it, whatever max_to_keep is. keeps 0: keeps no checkpoint. Thread: any. */
PS_API ps_status ps_checkpoint_save_before(ps_session *s, uint64_t keeps, int64_t timeout_ms, uint64_t *out_number);
/**
 * ps_checkpoint_restore() that distributes the variables of the checkpoint anew, by size, over all present ps tasks, also those
 * that are new. Queues, work and accumulators stay at their tasks. Thread: any.
 */
PS_API ps_status ps_checkpoint_spread(ps_session *s, uint64_t number, int64_t timeout_ms, uint64_t *out_next);
/** Round-trip time of an empty request, in microseconds. */
PS_API ps_status ps_task_ping(ps_session *s, int task, int64_t timeout_ms, int64_t *out_us);
/** Ask a task to finish its requests and end. PS_OK: the task will end. */
PS_API ps_status ps_task_shutdown(ps_session *s, int task, int64_t timeout_ms);
/** Name of entry i of ps_cluster_tasks(): "/job:ps/task:1"; NULL: no such entry. Valid until close. */
PS_API const char *ps_cluster_task_name(ps_session *s, int task);
/**
 * Call a function of a task's call table (ps_calls.h: psd_call_table) and wait for its end. It runs at most once.
 *
 * device   "/job:worker/task:0", of a task that serves. It acts as the innermost device scope (ps_device_push()). NULL or "": the
 *          open scopes; if these name no job, the job of the session's target. A job without a task means its task 0; no
 *          job: the target. A device of the task, as in "/job:worker/task:0/device:GPU:1", must exist (ps_session_devices())
 *          unless the session allows soft placement.
 * in       [in_bytes], at most PS_CALL_LARGE_BYTES_MAX; borrows.
 * out      [out_capacity] gets the result, *out_bytes (may be NULL) its size.
 *
 * The function gets its input in one piece, and room for out_capacity bytes of output, at least PS_CALL_BYTES_MAX. Both count in
 * the task's memory budget during the call, so do not ask for more than is needed. What exceeds a frame travels in parts of 192
 * KiB, a few at a time, from and to the caller's memory. If the connection is lost before all input has come, the call begins
 * again.
 *
 * Errors   NOT_FOUND            the task has no such function; the text lists those it has
 *          INVALID_ARGUMENT     device is no device; or the task's release is too old for large calls: it takes PS_CALL_BYTES_MAX
 *                               of input, and has as much room for output
 *          OUT_OF_RANGE         out is too small
 *          FAILED_PRECONDITION  PS_REASON_TOO_LARGE: input and room for output exceed the task's memory budget
 *          DEADLINE_EXCEEDED    the task cancels the call
 *          CANCELLED, and errors of the function. Outcome unknown if the task was lost.
 */
PS_API ps_status ps_call(ps_session *s, const char *device, const char *name, const void *in, size_t in_bytes, void *out,
                         size_t out_capacity, size_t *out_bytes, int64_t timeout_ms);
/** How a started call ended: status, applied and reason as ps_call(), ps_last_applied() and ps_last_reason() return them. */
typedef struct ps_call_result {
    size_t struct_bytes; /* size in the library */
    ps_status status;
    ps_applied applied;
    ps_reason reason;
    uint32_t reserved;
    size_t out_bytes; /* size of the output; after OUT_OF_RANGE more than there was room for */
    const char *text; /* text of the error, "" without one; valid during the callback */
} ps_call_result;
/** Called once, on the session's loop thread. Must not block. May start calls and requests. */
typedef void (*ps_call_done_fn)(void *ctx, const ps_call_result *result);
/**
 * Start ps_call() and return at once. PS_OK: done runs exactly once, on the loop thread, never within this call (but the loop
 * thread may run it before this call has returned). Any other status: it never runs.
 *
 * device and name are copied; scopes count as they are open at the call; in and out are kept until done.
 *
 * Any number of started calls goes on at the same time; what a task has no room for waits for its turn there. No thread is made,
 * and ps_interrupt() does not end started calls. ps_session_close() leaves them the operation timeout at most, and waits for
 * done.
 *
 * Thread   any, also callbacks.
 * Errors   INVALID_ARGUMENT (no name, no done, device is no device), RESOURCE_EXHAUSTED (no memory), FAILED_PRECONDITION (the
 *          session is closing). All others come in done: those of ps_call()
 */
PS_API ps_status ps_call_start(ps_session *s, const char *device, const char *name, const void *in, size_t in_bytes, void *out,
                               size_t out_capacity, int64_t timeout_ms, ps_call_done_fn done, void *ctx);
/** Version of libpsworker, "0.1.0". */
PS_API const char *ps_version(void);

#ifdef __cplusplus
}
#endif

#include "ps_hooks.h"
#include "ps_plan.h"
#include "ps_queue.h"

#include "ps_monitored.h"

#endif

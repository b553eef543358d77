/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libpsworker: sessions with a psd cluster, variables, training. C11 and C++17.
 *
 * Two levels. The first is for the person who writes a training program: parameters, sticky errors, no callbacks. The second,
 * below it, is the asynchronous core: caller-allocated requests, callbacks on the session's loop thread, no allocation in steady
 * state. Kernels are in ps_nn.h.
 *
 * Ownership words: "borrows" (until the call returns), "keeps" (until the callback; the caller must not touch it), "owns".
 */
#ifndef PS_H
#define PS_H

#include "ps_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ps_session ps_session;
typedef struct ps_param ps_param;
typedef struct ps_variable ps_variable;

/* ================================================= sessions ================================================= */

typedef enum ps_log_level { PS_LOG_DEBUG = 0, PS_LOG_INFO = 1, PS_LOG_WARN = 2, PS_LOG_ERROR = 3 } ps_log_level;
/** One log line without newline; called on any thread of the library, never concurrently for one session. */
typedef void (*ps_log_fn)(void *ctx, ps_log_level level, const char *line);

typedef enum ps_progress {
    PS_PROGRESS_THREAD = 0, /* the library's own I/O thread */
    PS_PROGRESS_CALLER = 1  /* reserved: the caller drives progress; refused with UNIMPLEMENTED in this release */
} ps_progress;

typedef struct ps_session_options {
    size_t struct_bytes;      /* filled by ps_session_options_init */
    const char *target;       /* psd://host:port, host:port or unix:PATH of any task; NULL: from the spec */
    const char *cluster_spec; /* "ps=h:p,h:p;worker=h:p"; NULL: asked from the target */
    const char *cluster_name; /* "psd" */
    const char *job;          /* job of this client ("worker"), NULL: none */
    uint32_t task_index;
    uint32_t reserved;
    int64_t operation_timeout_ms; /* 60,000 */
    int64_t ready_timeout_ms;     /* 600,000 */
    ps_progress progress;
    ps_log_level log_level; /* PS_LOG_INFO: lines below it are not made */
    ps_log_fn log;          /* NULL: standard error */
    void *log_ctx;
    const char *program; /* shown to operators; NULL: from /proc/self/comm */
    uint64_t seed;       /* of initializers; 0 is a value like any other */
} ps_session_options;
/** Defaults. Any thread. */
PS_API void ps_session_options_init(ps_session_options *options);

/**
 * Open a session. Returns at once when the options are sane; connections are made in the background and on first use.
 * options borrows. Errors: INVALID_ARGUMENT naming the option. *out_session is written on PS_OK only; owns: ps_session_close.
 */
PS_API ps_status ps_session_open(const ps_session_options *options, ps_session **out_session, char *error, size_t error_bytes);

/**
 * Open from the command line: takes out of argv the flags it knows (--ps_hosts --worker_hosts --job_name --task_index --target
 * --steps --seed --timeout --log_level --help; `-` and `_` alike, `--flag value` and `--flag=value`) and leaves the others.
 * Without cluster flags TF_CONFIG counts, then PSD_TARGET, then 127.0.0.1:2222. Never NULL: after a failure every call returns
 * the same error, ps_should_stop is true and ps_session_close returns it. --help prints `about` and the flags to standard output.
 */
PS_API ps_session *ps_session_open_args(int *argc, char **argv, const char *about);

/** Wait for what is in flight (bounded by the operation timeout), say goodbye, free everything; parameters and variables too.
 *  Returns 0, or the code of the first error, which was logged when it happened. NULL is fine. Any thread, once. */
PS_API int ps_session_close(ps_session *s);

/** The first error of the session: PS_OK when there is none. Any thread. */
PS_API ps_status ps_session_status(ps_session *s);
/** Text of the first error, "" when there is none; valid until close. Any thread. */
PS_API const char *ps_session_error(ps_session *s);
/** What the failed call did to the ps. */
PS_API ps_applied ps_session_error_applied(ps_session *s);
/** Make an error sticky from outside (the program's own failure, ps_nn.h). Later errors do not replace the first. */
PS_API ps_status ps_session_fail(ps_session *s, ps_status st, const char *text);

/** Wait until all tasks of the named jobs are up: "ps,worker". ps tasks: connected to the directory; others: a session that
 *  named that task holds a lease. Blocks. Errors: DEADLINE_EXCEEDED naming who is missing. */
PS_API ps_status ps_session_wait_cluster(ps_session *s, const char *jobs, int64_t timeout_ms);

/** Index and number of tasks of this session's job (0 and 1 when it has none). Any thread. */
PS_API int ps_task_index(ps_session *s);
PS_API int ps_task_count(ps_session *s);
/** True in the session that initialises variables: task 0 of job worker, or the task of job chief, or any session without a job.
 */
PS_API bool ps_is_chief(ps_session *s);
/** Number of ps tasks of the cluster; blocks until the cluster is known; 0 after a failure. */
PS_API int ps_ps_count(ps_session *s);

/* ===================================== parameters: training programs ===================================== */

/**
 * Get or create a trainable float32 variable in the default container with its own value and gradient buffers (64-byte aligned).
 * Placement: round robin over the ps tasks in creation order. Blocks. Never NULL; after a failure a harmless dummy.
 * name borrows; init and optimizer are copied. Errors (sticky): INVALID_ARGUMENT, also for another definition
 * (SHAPE_MISMATCH, both sides named).
 */
PS_API ps_param *ps_param_get(ps_session *s, const char *name, ps_shape shape, const ps_initializer *init,
                              const ps_optimizer *optimizer);
/** The value buffer, elements in row-major order; never NULL (zeros in a dummy). Filled by ps_pull. */
PS_API void *ps_param_value(ps_param *p);
/** The gradient buffer; waits until the last push of p is acknowledged. NULL after a failure. */
PS_API void *ps_param_grad(ps_param *p);
PS_API const ps_shape *ps_param_shape(const ps_param *p);
PS_API const char *ps_param_name(const ps_param *p);
PS_API ps_session *ps_param_session(ps_param *p);
/** Version of the value that the last pull brought; exact is false when a push was in progress or versions differed. */
PS_API uint64_t ps_param_version(const ps_param *p, bool *out_exact);
/** = ps_session_fail of its session. */
PS_API ps_status ps_param_fail(ps_param *p, ps_status st, const char *text);

/**
 * Make every variable of the session ready: the chief initialises what is uninitialised and seals; the others wait. Also gets or
 * creates global_step. Blocks up to the ready timeout. Errors (sticky): DEADLINE_EXCEEDED (which variables, which ps, no chief),
 * DATA_LOSS (part of the model was lost; names it), ABORTED (a newer chief), FAILED_PRECONDITION (hyperparameters differ).
 */
PS_API ps_status ps_session_ready(ps_session *s);
/** After ps_session_ready: the number of variables that existed and were initialised before, and the global step then. */
PS_API int ps_session_found(ps_session *s, int64_t *out_global_step);

/** Pull all parameters into their value buffers, in order of creation. Blocks. */
PS_API ps_status ps_pull(ps_session *s);
/** Pull one. */
PS_API ps_status ps_pull_param(ps_param *p);
/** Push p's gradient buffer; returns at once. The buffer is the library's until the push is acknowledged. */
PS_API ps_status ps_push(ps_session *s, ps_param *p);
/** Wait until every push of this step is acknowledged, then add one to the global step, exactly once. Blocks. */
PS_API ps_status ps_step_done(ps_session *s);
/** The global step that the last ps_step_done or ps_session_ready saw. */
PS_API int64_t ps_global_step(ps_session *s);
/** True after a failure or --help, and when the global step has reached --steps. */
PS_API bool ps_should_stop(ps_session *s);
/** The global step to stop at; 0: no limit. A --steps on the command line (ps_session_open_args) wins over it. */
PS_API void ps_set_steps(ps_session *s, int64_t steps);
/** The seed given by --seed or the options. */
PS_API uint64_t ps_seed(ps_session *s);

/* ================================================ variables ================================================ */

typedef struct ps_variable_spec {
    size_t struct_bytes; /* filled by ps_variable_spec_init */
    const char *name;
    ps_dtype dtype;
    uint32_t partitions; /* 0 or 1: whole; more is UNIMPLEMENTED in this release */
    ps_shape shape;
    const ps_initializer *init;    /* NULL: zeros */
    const ps_optimizer *optimizer; /* NULL: none */
    const char *device;            /* pin such as "/job:ps/task:1"; NULL: round robin */
} ps_variable_spec;
PS_API void ps_variable_spec_init(ps_variable_spec *spec);

/** Get or create. Blocks up to the operation timeout. The variable belongs to the session (freed at close).
 *  Not sticky. Errors: INVALID_ARGUMENT (also for another definition: SHAPE_MISMATCH, both sides named), UNAVAILABLE,
 *  DEADLINE_EXCEEDED. */
PS_API ps_status ps_variable_get(ps_session *s, const ps_variable_spec *spec, ps_variable **out_variable);
/** Find an existing variable by name, whatever its definition. NOT_FOUND. Blocks. */
PS_API ps_status ps_variable_find(ps_session *s, const char *name, ps_variable **out_variable);
PS_API const char *ps_variable_name(const ps_variable *v);
PS_API ps_dtype ps_variable_dtype(const ps_variable *v);
PS_API const ps_shape *ps_variable_shape(const ps_variable *v);
PS_API int ps_variable_task(const ps_variable *v);           /* index in its job */
PS_API const char *ps_variable_device(const ps_variable *v); /* "/job:ps/task:0/device:CPU:0" */
PS_API size_t ps_variable_bytes(const ps_variable *v);
PS_API uint64_t ps_variable_version(const ps_variable *v, bool *out_exact); /* of the last read */

/* Blocking calls; none is sticky. Detail of the last failure of the calling thread: ps_last_error(). Buffers borrow. */
PS_API ps_status ps_variable_read(ps_variable *v, void *dst, size_t dst_bytes);
PS_API ps_status ps_variable_assign(ps_variable *v, const void *src, size_t src_bytes);
/** Give the first value from memory: applied only if uninitialised then. */
PS_API ps_status ps_variable_init_from(ps_variable *v, const void *src, size_t src_bytes);
/** Run the initializer of its spec; force: also when initialised (slots are reset). */
PS_API ps_status ps_variable_init(ps_variable *v, bool force);
/** v += delta (v -= delta); whole variable of at most 64 bytes; the new value goes to out_value (may be NULL). Exactly once. */
PS_API ps_status ps_variable_assign_add(ps_variable *v, const void *delta, size_t bytes, void *out_value);
PS_API ps_status ps_variable_assign_sub(ps_variable *v, const void *delta, size_t bytes, void *out_value);
PS_API ps_status ps_variable_push(ps_variable *v, const void *grad, size_t bytes, float scale);
/** Push, and receive the values after it. */
PS_API ps_status ps_variable_push_pull(ps_variable *v, const void *grad, void *dst, size_t bytes, float scale);
PS_API ps_status ps_variable_is_initialized(ps_variable *v, bool *out_initialized);

/** Detail of the calling thread's last failed blocking call; "" when none. */
PS_API const char *ps_last_error(void);
PS_API ps_applied ps_last_applied(void);

/** Names of the session's variables that are uninitialised: at most max names are written (valid until close), the total is
 *  returned, -1 on error. TensorFlow's report_uninitialized_variables. Blocks. */
PS_API int ps_report_uninitialized(ps_session *s, const char **names, int max);
/** Wait, on the servers, until all variables of the session are sealed by a chief. */
PS_API ps_status ps_wait_ready(ps_session *s, int64_t timeout_ms);
/** Empty the default container on all tasks. Errors: UNAVAILABLE naming a ps that is not connected (nothing done). */
PS_API ps_status ps_reset(ps_session *s);
/** Delete one variable by name. */
PS_API ps_status ps_variable_delete(ps_session *s, const char *name);
/** get-or-create the int64 scalar `global_step`; takes one round-robin turn. */
PS_API ps_status ps_global_step_get(ps_session *s, ps_variable **out_variable);

/* ============================================ the asynchronous core ============================================ */

typedef struct ps_request ps_request;
typedef struct ps_result {
    ps_status status;
    ps_applied applied; /* when status is not PS_OK */
    uint64_t version;   /* of the variable after the mutation, or of the values read */
    bool exact;         /* reads: a consistent snapshot */
    uint8_t reserved[7];
    uint32_t result_bytes; /* assign_add: the new value */
    uint32_t reserved2;
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
 *  timeout_ms <= 0: the session's operation timeout. grad, src, dst are kept. Any thread. */
PS_API ps_status ps_push_start(ps_variable *v, const void *grad, size_t bytes, float scale, int64_t timeout_ms, ps_request *req,
                               ps_done_fn done, void *ctx);
PS_API ps_status ps_pull_start(ps_variable *v, void *dst, size_t bytes, int64_t timeout_ms, ps_request *req, ps_done_fn done,
                               void *ctx);
PS_API ps_status ps_push_pull_start(ps_variable *v, const void *grad, void *dst, size_t bytes, float scale, int64_t timeout_ms,
                                    ps_request *req, ps_done_fn done, void *ctx);
PS_API ps_status ps_assign_start(ps_variable *v, const void *src, size_t bytes, int64_t timeout_ms, ps_request *req,
                                 ps_done_fn done, void *ctx);
PS_API ps_status ps_assign_add_start(ps_variable *v, const void *delta, size_t bytes, int64_t timeout_ms, ps_request *req,
                                     ps_done_fn done, void *ctx);

/* ============================================== administration ============================================== */

typedef struct ps_task_info {
    char job[64];
    uint32_t task;
    bool up;
    bool directory;
    uint8_t reserved[2];
    char address[272];
    char version[33];
    char error[256];       /* why it is not up */
    char waiting_for[256]; /* directory: tasks whose lists are missing */
    uint64_t uptime_ms, memory_bytes, budget_bytes, variable_bytes;
    uint32_t connections, sessions, variables, pid;
    uint64_t pushes_applied, pushes_torn, pushes_refused, nonfinite, pulls, bytes_in, bytes_out, life;
    double pushes_per_second, bytes_per_second;
} ps_task_info;
/** Number of tasks of the cluster's server jobs (every job but worker, chief, master and evaluator). Blocks; -1 on error. */
PS_API int ps_cluster_tasks(ps_session *s);
/** Ask task i of that list; a dead one has up == false and error set (PS_OK all the same). Blocks up to timeout_ms. All at once:
 *  infos is an array of count. */
PS_API ps_status ps_cluster_info(ps_session *s, ps_task_info *infos, int count, int64_t timeout_ms);

typedef struct ps_variable_info {
    char container[64];
    char name[256];
    char job[64];
    uint32_t task;
    ps_dtype dtype;
    ps_shape shape;
    ps_optimizer optimizer;
    uint64_t version, pushes;
    bool initialised, sealed;
    uint8_t reserved[2];
    uint32_t in_progress;
} ps_variable_info;
typedef void (*ps_variable_info_fn)(void *ctx, const ps_variable_info *info);
/** List the variables of one task of ps_cluster_tasks(), sorted by container and name. Blocks; callbacks before it returns. */
PS_API ps_status ps_task_variables(ps_session *s, int task, int64_t timeout_ms, ps_variable_info_fn each, void *ctx);
typedef void (*ps_config_fn)(void *ctx, const char *name, const char *value, const char *default_value, const char *help);
PS_API ps_status ps_task_config(ps_session *s, int task, int64_t timeout_ms, ps_config_fn each, void *ctx);
/** Round-trip time of an empty request in microseconds. */
PS_API ps_status ps_task_ping(ps_session *s, int task, int64_t timeout_ms, int64_t *out_us);
/** Ask a task to drain and end. PS_OK: it has agreed. */
PS_API ps_status ps_task_shutdown(ps_session *s, int task, int64_t timeout_ms);
/** "/job:ps/task:1" of entry i of ps_cluster_tasks(); NULL when there is none. Valid until close. */
PS_API const char *ps_cluster_task_name(ps_session *s, int task);
/** libpsworker's version, "0.1.0". */
PS_API const char *ps_version(void);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans, part of ps.h: rows of operations, each on the task that its device names. C11 and C++17.
 *
 * A plan is an ordered list of rows. A row is an operation on values: results of earlier rows, placeholders that are fed,
 * constants, and variables on any task. ps_plan_run() takes feeds and fetches, and runs the rows that the fetches need. The
 * client groups these into runs, sequences of rows on one task, and sends each run as one call; independent runs are sent
 * together. A value that is used only within its run is not sent.
 *
 *     ps_plan *p = ps_plan_new(s);
 *     ps_device_push(s, "/job:worker");
 *     ps_value b = ps_plan_add(p, ps_plan_variable(p, a), ps_plan_scalar(p, PS_F32, 2));
 *     ps_device_pop(s);
 *     float result;
 *     ps_status st = ps_plan_eval(b, &result, sizeof(result));
 *
 * Building contacts nobody. The first error of building sticks to the plan: later calls do nothing and return values without a
 * plan, and ps_plan_run() returns that error. Errors of a run do not stick. No error of a plan sticks to the session, except
 * those of pushes and pops of scopes.
 *
 * Where a row runs: its device comes from the session's scopes that are open when the row is made (ps_device_push(), setters). A
 * job without a task means its task 0. A row whose device names no task runs at the session's target if that task executes
 * operations (`pstrain --serve`, or a program with ps_ops_table()), else in the client. With allow_soft_placement a device that
 * its task lacks becomes CPU:0. With log_device_placement the first run of a row logs a line: "add: (Add):
 * /job:worker/task:0/device:CPU:0". Placeholders, constants and variables are not computed: their values are sent to the rows
 * that use them, so their task need not execute operations.
 *
 * Order: independent rows run in any order. A row that reads a variable (ps_plan_variable()) sees the changes that earlier rows
 * of the list make in this run, and none of later rows. Changes to one variable happen in the order of the list, except that
 * additions may overtake additions, and pushes may overtake pushes.
 *
 * Threads: one thread at a time builds a plan. Any thread may run it, but not in a callback; a second run waits for the first.
 * Source: TF 1.15 python/client/session.py Session.run, core/common_runtime/direct_session.cc.
 */
#ifndef PS_PLAN_H
#define PS_PLAN_H

#include "ps.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ps_plan ps_plan;

/** A value of a plan: an output of one of its rows. It may be copied, and is valid as long as its plan. plan NULL: no value, from
 * a call that failed. */
typedef struct ps_value {
    ps_plan *plan;
    uint32_t row, output;
} ps_value;

/** Make an empty plan; owns: ps_plan_free(); ps_session_close() frees the plans that are left. NULL: s is NULL or was not
 * opened, or there is no memory (ps_last_error()). All functions return INVALID_ARGUMENT for a NULL plan. */
PS_API ps_plan *ps_plan_new(ps_session *s);
/** Free a plan; waits for its run. Variables that the plan made for its values are deleted at their tasks within 10 s; one that
 * cannot be deleted stays until the session ends. NULL is allowed. In a callback nothing is freed until the session ends. */
PS_API void ps_plan_free(ps_plan *p);
/** PS_OK, or the first error of the calls that have built the plan. INVALID_ARGUMENT: p is NULL. Any thread. */
PS_API ps_status ps_plan_status(const ps_plan *p);
/** Text of the error of ps_plan_status(); "" with PS_OK. Valid as long as the plan. Any thread. */
PS_API const char *ps_plan_error(const ps_plan *p);
/** The session for which the plan was made; NULL if p is NULL. */
PS_API ps_session *ps_plan_session(const ps_plan *p);

/* ---- values ---- */

/** Full name of the value's row: the variable scopes and the given name, or the operation's, made unique in the plan as
 * TensorFlow does ("add", "add_1"); "" for no value. Valid as long as the plan, like the texts below. */
PS_API const char *ps_value_name(ps_value v);
/** Device that computes or has computed the value: "/job:worker/task:0/device:CPU:0"; "client": this process; "": the value's row
 * has not run yet, even if the scopes name a task (ps_value_requested_device()). For a variable: ps_variable_device(). */
PS_API const char *ps_value_device(ps_value v);
/** Device that the scopes asked for, canonical, as TensorFlow's Tensor.device; "": they named none. */
PS_API const char *ps_value_requested_device(ps_value v);
PS_API ps_dtype ps_value_dtype(ps_value v);
/** Shape as far as it is known while building; -1: a dimension that a feed decides. */
PS_API ps_shape ps_value_shape(ps_value v);

/* ---- values that are not computed ---- */

/** A value that each run must be fed. shape: -1 for a dimension of any size. name NULL: "Placeholder". */
PS_API ps_value ps_plan_placeholder(ps_plan *p, const char *name, ps_dtype dtype, ps_shape shape);
/** A constant. data [bytes] of dtype and shape, row-major; copied. PS_STRING: one string of `bytes` bytes, shape PS_SCALAR. */
PS_API ps_value ps_plan_const(ps_plan *p, ps_dtype dtype, ps_shape shape, const void *data, size_t bytes);
/** A constant scalar; the dtype must be able to hold number. */
PS_API ps_value ps_plan_scalar(ps_plan *p, ps_dtype dtype, double number);
/** A constant string; copied. */
PS_API ps_value ps_plan_text(ps_plan *p, const char *text);
/** The value that a variable of the same session has when the row that uses it runs. */
PS_API ps_value ps_plan_variable(ps_plan *p, ps_variable *v);

/* ---- rows by name ---- */

/* Arguments of a row besides its inputs. Each operation reads only its own fields (docs/TF_MAP.md lists them). */
typedef struct ps_row_options {
    size_t struct_bytes; /* filled by ps_row_options_init */
    const char *name;    /* NULL: the operation's name */
    const char *device;  /* device, as from an innermost device scope; NULL: the open scopes alone */
    ps_dtype dtype;      /* cast: dtype of the result */
    bool has_axis;  /* axis is set; false: reduce_sum and reduce_mean take all axes, argmax, split, concat and stack axis 0 */
    bool keep_dims; /* reduce_sum, reduce_mean: a reduced axis stays as a dimension of 1 */
    bool transpose_a;
    bool transpose_b;
    int32_t axis; /* used if has_axis is true; -1: the last axis */
    /* split: number of parts. dense_backward, dense_act_backward, softmax_xent and losses of numbers: how many outputs, from the
     * first on, are computed; 0: all */
    uint32_t outputs;
    uint32_t activation; /* dense_act, dense_act_backward: ps_activation (ps_nn.h) */
    float keep;          /* dropout: 2^-20 .. 1 */
    uint64_t seed;       /* dropout: seed of the mask; each run of the plan has another mask */
    const char *message; /* print: text before the values */
    uint32_t first_n;    /* print: only in the first `first_n` runs that contain the row; 0: in all */
    int32_t summarize;   /* print: number of elements shown of each value; 0: 3 elements; negative: all */
} ps_row_options;
PS_API void ps_row_options_init(ps_row_options *options);
/**
 * Make a row by the name of its operation: `identity cast add sub mul div matmul relu sigmoid tanh softmax reduce_sum reduce_mean
 * argmax split concat stack print relu_backward sigmoid_backward tanh_backward dense dense_backward dense_act dense_act_backward
 * softmax_xent mean_squared_error mean_absolute_error sigmoid_xent gelu gelu_backward dropout`.
 *
 * inputs    [input_count]; borrows.
 * options   NULL: defaults; borrows.
 * outs      [out_count] gets the first outputs of the row; NULL if out_count is 0.
 *
 * Returns   output 0.
 * Errors    (sticky to the plan) INVALID_ARGUMENT: no such operation (the nearest is named); number, dtype or shape of the inputs
 *           is wrong (all sides are named); a value of another plan, or of none; a bad name or device
 */
PS_API ps_value ps_plan_row(ps_plan *p, const char *operation, const ps_value *inputs, size_t input_count,
                            const ps_row_options *options, ps_value *outs, size_t out_count);
/** Set the name of the plan's next row; "" or NULL: the operation's. Borrows until that row is made. Returns p. */
PS_API ps_plan *ps_plan_name(ps_plan *p, const char *name);

/* ---- rows: errors as of ps_plan_row() ---- */

PS_API ps_value ps_plan_identity(ps_plan *p, ps_value x);
/** Convert numbers as NumPy does, floats truncated toward 0. A run is INVALID_ARGUMENT for NaN and numbers that do not fit. */
PS_API ps_value ps_plan_cast(ps_plan *p, ps_value x, ps_dtype dtype);
/* shapes broadcast as in NumPy */
PS_API ps_value ps_plan_add(ps_plan *p, ps_value a, ps_value b);
PS_API ps_value ps_plan_sub(ps_plan *p, ps_value a, ps_value b);
PS_API ps_value ps_plan_mul(ps_plan *p, ps_value a, ps_value b);
PS_API ps_value ps_plan_div(ps_plan *p, ps_value a, ps_value b);
/** The matrix product of a (m, k) and b (k, n): (m, n). */
PS_API ps_value ps_plan_matmul(ps_plan *p, ps_value a, ps_value b);
PS_API ps_value ps_plan_relu(ps_plan *p, ps_value x);
PS_API ps_value ps_plan_sigmoid(ps_plan *p, ps_value x);
PS_API ps_value ps_plan_tanh(ps_plan *p, ps_value x);
/** Softmax over the last axis. */
PS_API ps_value ps_plan_softmax(ps_plan *p, ps_value x);
/** Sum, or mean, of all elements, in x's dtype: a scalar. */
PS_API ps_value ps_plan_reduce_sum(ps_plan *p, ps_value x);
PS_API ps_value ps_plan_reduce_mean(ps_plan *p, ps_value x);
/** Sum, or mean, over one axis. keep_dims: the result has a dimension of 1 there; otherwise it lacks the axis. */
PS_API ps_value ps_plan_reduce_sum_axis(ps_plan *p, ps_value x, int axis, bool keep_dims);
PS_API ps_value ps_plan_reduce_mean_axis(ps_plan *p, ps_value x, int axis, bool keep_dims);
/** Index of the first largest element along the axis, as int64. The result lacks the axis. */
PS_API ps_value ps_plan_argmax(ps_plan *p, ps_value x, int axis);
/** Split x along the axis into `parts` equal parts, outs [parts]. Returns outs[0]. The dimension must be a multiple of parts. */
PS_API ps_value ps_plan_split(ps_plan *p, ps_value x, int axis, uint32_t parts, ps_value *outs);
PS_API ps_value ps_plan_concat(ps_plan *p, const ps_value *xs, size_t count, int axis);
/** Stack values of one shape along a new axis 0 (tf.pack). */
PS_API ps_value ps_plan_stack(ps_plan *p, const ps_value *xs, size_t count);
/** Returns x. The executing task writes "message[data ...]" to its stderr: of each of data [count] the first 3 elements. */
PS_API ps_value ps_plan_print(ps_plan *p, ps_value x, const ps_value *data, size_t count, const char *message);

/* layers (ps_nn.h), float32: x (batch, in), w (in, out), b (out), y and dy (batch, out); a batch may be empty */
PS_API ps_value ps_plan_relu_backward(ps_plan *p, ps_value y, ps_value dy); /* y: result of relu */
PS_API ps_value ps_plan_sigmoid_backward(ps_plan *p, ps_value y, ps_value dy);
PS_API ps_value ps_plan_tanh_backward(ps_plan *p, ps_value y, ps_value dy);
/** x w + b. */
PS_API ps_value ps_plan_dense(ps_plan *p, ps_value x, ps_value w, ps_value b);
/** outs [count] gets the first `count` of dw, db and dx; the others are not computed. Returns dw. */
PS_API ps_value ps_plan_dense_backward(ps_plan *p, ps_value x, ps_value w, ps_value dy, uint32_t count, ps_value *outs);
/** activation(x w + b); activation: ps_activation. */
PS_API ps_value ps_plan_dense_act(ps_plan *p, ps_value x, ps_value w, ps_value b, uint32_t activation);
/** ps_plan_dense_backward() for an x that is the result of an activation: dx is the gradient of that activation's input. dy is
 * the gradient of x w + b: the backward of the layer's own activation was applied before. */
PS_API ps_value ps_plan_dense_act_backward(ps_plan *p, ps_value x, uint32_t activation, ps_value w, ps_value dy, uint32_t count,
                                           ps_value *outs);
/** logits (batch, classes), labels (batch) int32. outs [count] gets the mean loss, one float64, and if count is 2 its
 * gradient. */
PS_API ps_value ps_plan_softmax_xent(ps_plan *p, ps_value logits, ps_value labels, uint32_t count, ps_value *outs);
/** Dropout; the mask depends on seed, the run's number and the element. The same arguments on a gradient give its backward. */
PS_API ps_value ps_plan_dropout(ps_plan *p, ps_value x, uint64_t seed, float keep);

/* ---- rows that change variables ---- */

/* A row that changes a variable runs on the variable's device, and only if it is fetched or a fetched row needs it. The task that
 * computes the value delivers it exactly once. Errors of building: those of ps_plan_row(); INVALID_ARGUMENT if dtype or shape
 * differ. */
/** Assign the value to v. The result of the row is the value. */
PS_API ps_value ps_plan_assign(ps_plan *p, ps_variable *v, ps_value value);
/** v += value. The result is v after the addition if v has at most 64 bytes. Otherwise the row has no result: it can be fetched
 * (dtype PS_DTYPE_NONE) and grouped, and cannot be an input. */
PS_API ps_value ps_plan_assign_add(ps_plan *p, ps_variable *v, ps_value value);
/** Apply the value times scale (finite, > 0) as a gradient with v's optimizer. The row has no result. */
PS_API ps_value ps_plan_push(ps_plan *p, ps_variable *v, ps_value gradient, float scale);
/** As tf.group: a row without a result. A fetch of it runs the rows of all values [count]. */
PS_API ps_value ps_plan_group(ps_plan *p, const ps_value *values, size_t count);

/* ---- running ---- */

/** A value for a placeholder. The program sets fields that it does not need to 0. */
typedef struct ps_feed {
    ps_value placeholder;
    /* dtype of data. If it is not the placeholder's, the run converts the numbers; a number that the placeholder's dtype cannot
     * hold, such as 1.5 in an int32, is INVALID_ARGUMENT */
    ps_dtype dtype;
    uint32_t reserved;
    ps_shape shape;
    const void *data; /* [bytes] row-major; PS_STRING: bytes of all elements */
    size_t bytes;
    const size_t *offsets; /* PS_STRING: element i is data[offsets[i] .. offsets[i + 1]); NULL: one element */
} ps_feed;
PS_API ps_feed ps_feed_of(ps_value placeholder, ps_dtype dtype, ps_shape shape, const void *data, size_t bytes);

/** The result of a fetch. Before the run the caller sets all bytes to 0, except buffer and buffer_bytes if it gives memory. */
typedef struct ps_fetched {
    void *buffer;        /* the caller's memory for data; NULL: the plan's memory, valid until its next run or ps_plan_free() */
    size_t buffer_bytes; /* size of buffer */
    ps_dtype dtype;      /* PS_DTYPE_NONE: the row has run, and has no result */
    uint32_t reserved;
    ps_shape shape;
    /* [bytes] row-major; 64-byte aligned in the plan's memory. PS_STRING: bytes of all elements, and a NUL */
    const void *data;
    size_t bytes;          /* PS_STRING: without the NUL. After OUT_OF_RANGE: the size that buffer needs */
    const size_t *offsets; /* PS_STRING: element i is data[offsets[i] .. offsets[i + 1]); the plan's memory */
} ps_fetched;

typedef enum ps_trace_level {
    PS_NO_TRACE = 0,
    PS_FULL_TRACE = 3 /* tf.RunOptions.FULL_TRACE */
} ps_trace_level;
typedef struct ps_run_options {
    size_t struct_bytes; /* filled by ps_run_options_init */
    ps_trace_level trace_level;
    uint32_t reserved;
    /* with PS_FULL_TRACE: path for Chrome trace JSON, which Perfetto opens: the client's span of each call, and in it the
     * durations that the task reports. NULL: the trace is dropped */
    const char *trace_file;
    int64_t timeout_ms; /* timeout of the whole run; <= 0: the session's operation timeout */
} ps_run_options;
PS_API void ps_run_options_init(ps_run_options *options);

/**
 * Run the rows that the fetches need, and wait for them. Before anything is sent all shapes are inferred from those of the feeds.
 *
 * feeds      [feed_count] one for each placeholder that is needed; others are ignored. borrows.
 * fetches    [fetch_count]; a value may be there more than once.
 * outs       [fetch_count]; NULL: no results are returned. Written on PS_OK only, except for bytes after OUT_OF_RANGE.
 * options    NULL: defaults.
 *
 * Thread     any, but not in a callback. Blocks; waits for a run of the plan that is going on.
 * Errors     the plan's first error; those of the session; with the name of the row:
 *            INVALID_ARGUMENT     a needed placeholder is not fed, is fed twice, or cannot hold its feed; a fetch or feed of
 *                                 another plan; shapes do not fit; the cluster has no such task; the task has no such device
 *                                 (NO_DEVICE); values that an operation refuses
 *            FAILED_PRECONDITION  a variable has no value yet; a value that another task or the client gets is larger than the
 *                                 receiving task's whole memory budget (TOO_LARGE)
 *            UNIMPLEMENTED        the row's task is a `psd`, which executes no operations; `pstrain --serve` does
 *            RESOURCE_EXHAUSTED   the rows on one task take more than PS_CALL_BYTES_MAX (TOO_LARGE), or their values more memory
 *                                 than is free for them there
 *            OUT_OF_RANGE         a buffer of outs is too small; all rows have run
 *            ABORTED              a task was lost while it ran rows, which are named: outcome unknown
 *            UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED (ps_interrupt())
 *            After an error rows of other tasks may have run. ps_last_applied() says whether variables may have changed.
 */
PS_API ps_status ps_plan_run(ps_plan *p, const ps_feed *feeds, size_t feed_count, const ps_value *fetches, size_t fetch_count,
                             ps_fetched *outs, const ps_run_options *options);
/** Tensor.eval(): run for one value without feeds, into dst [dst_bytes]. PS_STRING: at most dst_bytes - 1 bytes, and a NUL. */
PS_API ps_status ps_plan_eval(ps_value v, void *dst, size_t dst_bytes);

/** How a started run ended: status, applied and reason as ps_plan_run(), ps_last_applied() and ps_last_reason() return them. */
typedef struct ps_plan_result {
    size_t struct_bytes; /* size in the library */
    ps_status status;
    ps_applied applied;
    ps_reason reason;
    uint32_t reserved;
    const char *text; /* text of the error, "" without one; valid during the callback */
} ps_plan_result;
/** Called once, on the session's loop thread. Must not block. May start the plan again. */
typedef void (*ps_plan_done_fn)(void *ctx, ps_plan *p, const ps_plan_result *result);
/** Most started runs of one session that are executed at the same time; further ones wait for a thread. */
#define PS_PLAN_THREADS_MAX 16
/**
 * Start ps_plan_run() and return at once. PS_OK: done runs exactly once, never within this call. Any other status: it never runs.
 *
 * feeds, fetches, options are copied; the memory that they point to, and outs, are kept until done.
 *
 * The session makes a thread for each run that goes on, PS_PLAN_THREADS_MAX at most, and ends threads that have nothing to do.
 * Further runs wait, in the order of their starts, and their timeouts include this wait. ps_interrupt() ends started runs too,
 * also waiting ones. With PS_PROGRESS_CALLER the session makes no thread, and every start is refused: call ps_plan_run() on a
 * thread of your own.
 *
 * Thread     any, also in a callback.
 * Errors     FAILED_PRECONDITION  the plan runs already; the session makes no thread (PS_PROGRESS_CALLER)
 *            INVALID_ARGUMENT, RESOURCE_EXHAUSTED (memory), the plan's first error. All others go to done, also
 *            RESOURCE_EXHAUSTED if the system gives no thread.
 */
PS_API ps_status ps_plan_start(ps_plan *p, const ps_feed *feeds, size_t feed_count, const ps_value *fetches, size_t fetch_count,
                               ps_fetched *outs, const ps_run_options *options, ps_plan_done_fn done, void *ctx);

/* ---- replicas ---- */

/* One copy of the computation, for the function that builds it. */
typedef struct ps_replica {
    size_t struct_bytes; /* size in the library */
    uint32_t index, count;
    const char *device;     /* device of the scope that is open */
    const ps_value *inputs; /* [input_count] the replica's part of each of ps_replicate_options.batches, in their order */
    size_t input_count;
} ps_replica;
/** Make the rows of one replica, and fill gradients [variable_count]. Any status but PS_OK ends the building; the error has the
 * replica's number. ps_replicate() calls it on its own thread, once for each replica. */
typedef ps_status (*ps_replica_fn)(void *ctx, ps_plan *p, const ps_replica *replica, ps_value *gradients);
typedef struct ps_replicate_options {
    size_t struct_bytes;        /* filled by ps_replicate_options_init */
    const char *const *devices; /* [replicas]; NULL: "/job:worker/task:0" and so on */
    /* [batch_count] placeholders and constants whose dimension 0 is the batch, of the same size in all. Each replica gets a part
     * of the rows; the first replicas get one row more if the rows are no multiple of the replicas */
    const ps_value *batches;
    size_t batch_count;
    ps_variable *const *variables; /* [variable_count] variables to train */
    size_t variable_count;
    bool asynchronous; /* each replica pushes its gradients when it has them; false: their average is pushed once */
    uint8_t reserved[7];
    ps_replica_fn build;
    void *ctx;
} ps_replicate_options;
PS_API void ps_replicate_options_init(ps_replicate_options *options);
/**
 * In-graph replication: make the same rows on several tasks, each with its part of the batch.
 *
 * Averaged: the gradients of a variable are weighted by the rows that each replica had (equally, without batches), and summed in
 * the order of the replicas on the device of the open scopes; one push is made. The same feeds give the same bits. A run is
 * INVALID_ARGUMENT if a batch has fewer rows than there are replicas, or not as many as the first batch. Asynchronous: the task
 * of each replica sends its own push to the variable's task.
 *
 * out_trains  asynchronous: [replicas] the step of each replica; else [1]: the step. For fetching; they have no result.
 *
 * Errors      (sticky to the plan, and returned) INVALID_ARGUMENT: also replicas 0 or above 1024, a batch that is no placeholder
 *             or constant, a gradient that does not fit its variable. Errors of a run name the replica.
 */
PS_API ps_status ps_replicate(ps_plan *p, uint32_t replicas, const ps_replicate_options *options, ps_value *out_trains);

#ifdef __cplusplus
}
#endif
#endif

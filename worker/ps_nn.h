/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forward and backward kernels for training programs: dense layers, activations, dropout, softmax cross-entropy. C11 and C++17.
 *
 * Two levels. With tensors and parameters (ps_dense, ps_relu ...): errors need not be looked at after every call. A call that
 * fails marks its output tensor as not valid; a call that gets such a tensor does nothing and marks its own output; the first
 * call that also has a parameter hands the error to that parameter's session, where it is sticky (ps_session_close returns it).
 * With plain pointers (ps_nn_*): every function returns a status and ps_nn_error() says what was wrong.
 *
 * Where a parameter takes part, its session's device computes (ps_session_options.compute_device, --device); otherwise the device
 * that has the first input, and for values that only the host has the one of ps_nn_open(). What is elsewhere is copied there.
 * Calls return when the work is handed over; only what reads values waits: ps_tensor_read, ps_tensor_scalar, ps_param_grad. A
 * device that fails then says so: the session ends with an error that names the kernel. The same program runs everywhere.
 *
 * Data is float32 (labels int32), row-major, one example a row: a batch is (B, n); B may be 0. Results are the same bits for the
 * same input on the same machine and device; another device matches them within a bound. NaN and infinities go through the
 * arithmetic like any other value. The kernels are in plugins, libpsworker_cpu.so and libpsworker_cuda.so, opened at first use.
 * Any thread, but a tensor is used by one thread at a time. Do not fork() after the first call: BLAS does not survive it.
 */
#ifndef PS_NN_H
#define PS_NN_H

#include "ps_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ps_param ps_param; /* a variable with its own value and gradient buffers: ps.h */

#define PS_TENSOR_ERROR_BYTES 240
#define PS_ON_HOST 0

/**
 * A matrix (rows, cols). It begins with all bytes 0 (`ps_tensor t = {0}`, `static ps_tensor t`): the first operation that writes
 * it gives it memory, shape and dtype, later ones another shape if they have one; or ps_tensor_init() does, or ps_tensor_wrap().
 * End it with ps_tensor_free(). The fields are there to be read.
 */
typedef struct ps_tensor {
    int64_t rows;          /* examples in this batch, 0 .. rows_capacity */
    int64_t cols;          /* values per example */
    int64_t rows_capacity; /* rows that there is room for */
    uint32_t dtype;        /* ps_dtype: PS_F32, of labels PS_I32, of a loss PS_F64, of a count PS_I64 */
    uint32_t place;        /* who has the values: PS_ON_HOST, or 1 + k: device k */
    int32_t status;        /* ps_status: PS_OK, or why the call that should have written it did not */
    uint32_t flags;        /* the library's, like the next two */
    const void *wrapped;
    uint64_t memory[12];
    char error[PS_TENSOR_ERROR_BYTES]; /* text for status; empty when it is PS_OK */
} ps_tensor;

/** A tensor of float32 zeros of its own; free with ps_tensor_free. NULL on rows < 0, cols < 1, overflow or lack of memory; all
 *  functions here take a NULL tensor as an error that names the argument. */
PS_API ps_tensor *ps_tensor_new(int64_t rows, int64_t cols);
/** Make *t, zeros or a tensor, one of zeros of this shape, which operations do not change. dtype: PS_F32, PS_I32.
 *  INVALID_ARGUMENT as above. */
PS_API ps_status ps_tensor_init(ps_tensor *t, ps_dtype dtype, int64_t rows, int64_t cols);
/** Give *t, zeros or a tensor, the values in the program's memory. They are copied by the first operation that uses t;
 * from then on the memory is the program's again (borrows until then). */
PS_API void ps_tensor_wrap(ps_tensor *t, const float *data, int64_t rows, int64_t cols);
/** The same for int32 labels, one a row. */
PS_API void ps_tensor_wrap_labels(ps_tensor *t, const int32_t *labels, int64_t rows);
/** Use the first rows of t only, for a last batch that is smaller; 0 to rows_capacity. PS_OUT_OF_RANGE changes nothing. */
PS_API ps_status ps_tensor_set_rows(ps_tensor *t, int64_t rows);
/** Its values in host memory, row-major, until the next call that writes t or moves it. Waits until they are computed and copied.
 *  NULL on an error: ps_nn_error(). */
PS_API const void *ps_tensor_read(ps_tensor *t);
/** Memory for new values of t, all rows of it, which the program writes before the next call that uses t; aligned to 64 bytes.
 * What is in it is arbitrary, after ps_tensor_read() the values. Waits until nothing reads the old ones. NULL on an error. */
PS_API void *ps_tensor_write(ps_tensor *t);
/** The value of a tensor of one element, a loss or a count. Waits. NaN on an error: ps_nn_error(). */
PS_API double ps_tensor_scalar(ps_tensor *t);
/** Free its memory; *t is zeros then. One from ps_tensor_new() is freed itself. NULL is fine. */
PS_API void ps_tensor_free(ps_tensor *t);

typedef enum ps_activation {
    PS_LINEAR = 0,  /* none */
    PS_RELU = 1,    /* max(x, 0) */
    PS_SIGMOID = 2, /* 1 / (1 + exp(-x)) */
    PS_TANH = 3
} ps_activation;

/**
 * Dense layer: y = x w + b, with the current values of w and b.
 *
 * x        (B, in).
 * w        (in, out).
 * b        (out), or NULL for none.
 * y        (B, out), not x.
 *
 * Errors   PS_INVALID_ARGUMENT     shapes do not fit, the text names both; also sticky in w's session
 *          PS_UNIMPLEMENTED        no kernel plugin; also sticky
 *          PS_RESOURCE_EXHAUSTED   no memory on the device; also sticky
 *          the session's first error, when it has failed: nothing is computed
 */
PS_API ps_status ps_dense(ps_tensor *x, ps_param *w, ps_param *b, ps_tensor *y);
/**
 * Backward of ps_dense: gradients dw = x^T dy and db = column sums of dy replace what is in the gradients of w and b, and
 * dx = dy w^T. On the CPU it first waits until the last push of w and of b is acknowledged (their gradient buffers are the
 * library's until then); dx is computed before that. Elsewhere dw and db come first, so that they leave while dx is computed.
 *
 * x, dy    (B, in) and (B, out): the input of the layer and the gradient of its output.
 * b        NULL if the layer has none.
 * dx       (B, in), or NULL where nothing needs it (first layer); neither x nor dy.
 */
PS_API ps_status ps_dense_backward(ps_tensor *x, ps_tensor *dy, ps_param *w, ps_param *b, ps_tensor *dx);
/** The layer with its activation in one operation: y = act(x w + b). */
PS_API ps_status ps_dense_act(ps_tensor *x, ps_param *w, ps_param *b, ps_activation act, ps_tensor *y);
/** Its backward, for a layer whose input x is the result of the activation x_act: dx is the gradient of what x_act was applied
 * to, (dy w^T) x_act'. dy is that of x w + b, as the backward of the layer above has left it in its dx. */
PS_API ps_status ps_dense_act_backward(ps_tensor *x, ps_activation x_act, ps_tensor *dy, ps_param *w, ps_param *b, ps_tensor *dx);

/**
 * Rows of which most values are 0, in compressed sparse rows (CSR): row i has values[k] in column columns[k] for
 * k = ends[i-1] .. ends[i]-1, row 0 from k = 0 on, and 0 in all other columns. The program's memory; calls borrow it until they
 * return.
 */
typedef struct ps_csr {
    int64_t rows, cols;     /* (B, in) */
    const int32_t *ends;    /* [rows], none below the one before it; the last one is the number of stored values */
    const int32_t *columns; /* [ends[rows-1]], 0 .. cols-1, rising strictly within a row */
    const float *values;    /* [ends[rows-1]] */
} ps_csr;

/**
 * ps_dense_act() of sparse rows: y = act(x w + b). It costs a multiplication for each stored value and output; zeros cost
 * nothing. A sum is added up in the order of the columns, whatever the number of threads.
 *
 * x        (B, in).
 * w        (in, out).
 * b        (out), or NULL for none.
 * y        (B, out).
 *
 * Errors   as ps_dense(); INVALID_ARGUMENT also names the row whose ends or columns are not as ps_csr says.
 *          PS_UNIMPLEMENTED  the session computes on a device with memory of its own; sticky. Such a program makes its rows dense
 */
PS_API ps_status ps_sparse_act(const ps_csr *x, ps_param *w, ps_param *b, ps_activation act, ps_tensor *y);
/** Its backward: dw = x^T dy and db = column sums of dy replace what is in the gradients of w and b. dw is dense: rows of w that
 * no example has are 0. It first waits until the last push of w and of b is acknowledged. dy (B, out); b NULL if the layer has
 * none. */
PS_API ps_status ps_sparse_backward(const ps_csr *x, ps_tensor *dy, ps_param *w, ps_param *b);

/* Activations, element by element; y may be x, dx may be dy. The backward functions take the layer's output y. */
PS_API ps_status ps_relu(ps_tensor *x, ps_tensor *y);
PS_API ps_status ps_sigmoid(ps_tensor *x, ps_tensor *y);
PS_API ps_status ps_tanh(ps_tensor *x, ps_tensor *y);
PS_API ps_status ps_relu_backward(ps_tensor *y, ps_tensor *dy, ps_tensor *dx);    /* y <= 0 ? 0 : dy, so a NaN passes dy on */
PS_API ps_status ps_sigmoid_backward(ps_tensor *y, ps_tensor *dy, ps_tensor *dx); /* dy y (1 - y) */
PS_API ps_status ps_tanh_backward(ps_tensor *y, ps_tensor *dy, ps_tensor *dx);    /* dy (1 - y^2) */

/**
 * Inverted dropout (Srivastava et al. 2014): each element is kept with probability keep and then divided by keep, else 0.
 * The mask depends on (seed, step, element index) only, so it is not stored: give the backward call the same three values.
 *
 * seed     one per layer and worker.
 * keep     2^-20 .. 1; 1 keeps everything.
 * step     one per batch.
 * y        same shape as x, may be x.
 */
PS_API ps_status ps_dropout(ps_tensor *x, uint64_t seed, float keep, uint64_t step, ps_tensor *y);
PS_API ps_status ps_dropout_backward(ps_tensor *dy, uint64_t seed, float keep, uint64_t step, ps_tensor *dx);

/**
 * Softmax cross-entropy with integer labels.
 *
 * logits   (B, classes).
 * labels   (B, 1) of int32, each 0 .. classes-1. Labels that the host has are checked here; those that only a device has are
 *          checked there, and a bad one is the error of whatever waits next.
 * dlogits  (B, classes), or NULL: gets the gradient of the loss, (softmax(logits) - onehot(labels)) / B. May be logits.
 * loss     scalar, or NULL: gets the mean loss of the batch; 0 of an empty one. ps_tensor_scalar() reads it.
 */
PS_API ps_status ps_softmax_xent(ps_tensor *logits, ps_tensor *labels, ps_tensor *dlogits, ps_tensor *loss);
/** count, a scalar, gets the rows whose largest value is at the label (the first one, on a tie); a row with a NaN never counts.
 */
PS_API ps_status ps_argmax_count(ps_tensor *logits, ps_tensor *labels, ps_tensor *count);

/* ---- plain pointers: float32 in host memory, row-major, any alignment of float. They return when the results are there. batch
 * may be 0; count and all other sizes are at least 1. Errors: PS_INVALID_ARGUMENT (names the argument),
 * ---- PS_UNIMPLEMENTED (no plugin). Outputs are untouched on an error. */

/** Open a device ("cpu", "gpu:0"; NULL: "cpu") for the functions below, and for tensors that only the host has. A program that
 * has other threads, or wants to report early, calls it first; otherwise the first of them opens the CPU. Not while another
 * thread is in one of them. BLAS settings go into the environment while its plugin is opened, so no other thread should call
 * getenv() at that moment. Where the directory PS_PLUGIN_DIR has a file of that plugin it is the one, usable or not; otherwise it
 * is looked for beside this library and the program, and where it was installed. PS_OK if it is open; PS_UNIMPLEMENTED (no
 * plugin), PS_NOT_FOUND (no such device), PS_INVALID_ARGUMENT (no name of a device). */
PS_API ps_status ps_nn_open(const char *device);
/** What computes there: "cpu: /usr/lib/libpsworker_cpu.so (OpenBLAS SkylakeX, 1 thread)"; "none" before it is open. Valid until
 *  the next call on this thread. */
PS_API const char *ps_nn_backend(void);
/** Text of the last error of a function of this header on this thread; "" if there was none. Valid until the next one. */
PS_API const char *ps_nn_error(void);

/** y (batch, out) = x (batch, in) w (in, out) + b (out); b may be NULL; y overlaps no input. */
PS_API ps_status ps_nn_dense_forward(const float *x, const float *w, const float *b, float *y, int64_t batch, int64_t in,
                                     int64_t out);
/** dw (in, out) = x^T dy, db (out) = column sums of dy, dx (batch, in) = dy w^T. dx, db, or dw and db may be NULL and are not
 *  computed then; x may be NULL without dw, w without dx. Outputs overlap no input. */
PS_API ps_status ps_nn_dense_backward(const float *x, const float *w, const float *dy, float *dw, float *db, float *dx,
                                      int64_t batch, int64_t in, int64_t out);
/** y (rows, out) = x w (cols, out) + b (out); b may be NULL. On the CPU only: PS_UNIMPLEMENTED elsewhere, as of the next. */
PS_API ps_status ps_nn_sparse_forward(const ps_csr *x, const float *w, const float *b, float *y, int64_t out);
/** dw (cols, out) = x^T dy, db (out) = column sums of dy (rows, out); db may be NULL. */
PS_API ps_status ps_nn_sparse_backward(const ps_csr *x, const float *dy, float *dw, float *db, int64_t out);
PS_API ps_status ps_nn_relu_forward(const float *x, float *y, int64_t count);
PS_API ps_status ps_nn_relu_backward(const float *y, const float *dy, float *dx, int64_t count);
PS_API ps_status ps_nn_sigmoid_forward(const float *x, float *y, int64_t count);
PS_API ps_status ps_nn_sigmoid_backward(const float *y, const float *dy, float *dx, int64_t count);
PS_API ps_status ps_nn_tanh_forward(const float *x, float *y, int64_t count);
PS_API ps_status ps_nn_tanh_backward(const float *y, const float *dy, float *dx, int64_t count);
/** Forward (x to y) and backward (dy to dx) are the same operation. */
PS_API ps_status ps_nn_dropout(const float *in, float *out, int64_t count, uint64_t seed, float keep, uint64_t step);
/** A step of gradient descent without a ps: w - rate dw into w; rate is finite. */
PS_API ps_status ps_nn_sgd(float *w, const float *dw, int64_t count, float rate);
/** dlogits and out_loss may be NULL. */
PS_API ps_status ps_nn_softmax_xent(const float *logits, const int32_t *labels, float *dlogits, int64_t batch, int64_t classes,
                                    double *out_loss);
PS_API ps_status ps_nn_argmax_count(const float *logits, const int32_t *labels, int64_t batch, int64_t classes,
                                    int64_t *out_count);

#ifdef __cplusplus
}
#endif
#endif

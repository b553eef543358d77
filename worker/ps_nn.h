/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forward and backward kernels for training programs: dense layers, activations, dropout, softmax cross-entropy. C11 and C++17.
 *
 * Two levels. With tensors and parameters (ps_dense, ps_relu ...): errors need not be looked at after every call. A call that
 * fails marks its output tensor as not valid; a call that gets such a tensor does nothing and marks its own output; the first
 * call that also has a parameter hands the error to that parameter's session, where it is sticky (ps_session_close returns it).
 * With plain pointers (ps_nn_*): every function returns a status and ps_nn_error() says what was wrong.
 *
 * All data is float32 in host memory, row-major, one example a row: a batch is (B, n). Results are the same bits for the same
 * input on the same machine. NaN and infinities go through the arithmetic like any other value. The kernels are in a plugin,
 * libpsworker_cpu.so, opened at the first call that needs it. Sizes are >= 1. Any thread, but a tensor is used by one thread at
 * a time. Do not fork() after the first call: BLAS does not survive it.
 */
#ifndef PS_NN_H
#define PS_NN_H

#include "ps_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ps_param ps_param; /* a variable with its own value and gradient buffers: ps.h */

#define PS_TENSOR_ERROR_BYTES 240

/** A matrix (rows, cols) of float32. Read and write data freely; the other fields are changed by functions only. */
typedef struct ps_tensor {
    float *data;                       /* [rows][cols] */
    int64_t rows;                      /* examples in this batch, 1 .. rows_capacity */
    int64_t cols;                      /* values per example */
    int64_t rows_capacity;             /* rows that data has room for */
    int32_t status;                    /* ps_status: PS_OK, or why the call that should have written data did not */
    int32_t owned;                     /* 1: data is freed by ps_tensor_free */
    char error[PS_TENSOR_ERROR_BYTES]; /* text for status; empty when it is PS_OK */
} ps_tensor;

/** A tensor of zeros, 64-byte aligned; free with ps_tensor_free. NULL on a size < 1, overflow or lack of memory; all functions
 *  here take a NULL tensor as an error that names the argument. */
PS_API ps_tensor *ps_tensor_new(int64_t rows, int64_t cols);
/** Make *t describe the caller's memory, which must live as long as it is used; float alignment is enough. */
PS_API void ps_tensor_wrap(ps_tensor *t, float *data, int64_t rows, int64_t cols);
/** Use the first rows of t only, for a last batch that is smaller; up to rows_capacity. PS_OUT_OF_RANGE changes nothing. */
PS_API ps_status ps_tensor_set_rows(ps_tensor *t, int64_t rows);
/** NULL is fine. Only for tensors from ps_tensor_new. */
PS_API void ps_tensor_free(ps_tensor *t);

/**
 * Dense layer: y = x w + b, with the current values of w and b.
 *
 * x        (B, in).
 * w        (in, out).
 * b        (out), or NULL for none.
 * y        (B, out), not x.
 *
 * Errors   PS_INVALID_ARGUMENT  shapes do not fit, the text names both; also sticky in w's session
 *          PS_UNIMPLEMENTED     no kernel plugin; also sticky
 *          the session's first error, when it has failed: nothing is computed
 */
PS_API ps_status ps_dense(const ps_tensor *x, ps_param *w, ps_param *b, ps_tensor *y);
/**
 * Backward of ps_dense: gradients dw = x^T dy and db = column sums of dy replace what is in the gradient buffers of w and b,
 * and dx = dy w^T. First waits until the last push of w and of b is acknowledged (their gradient buffers are the library's
 * until then); dx is computed before that.
 *
 * x, dy    (B, in) and (B, out): the input of the layer and the gradient of its output.
 * b        NULL if the layer has none.
 * dx       (B, in), or NULL where nothing needs it (first layer); neither x nor dy.
 */
PS_API ps_status ps_dense_backward(const ps_tensor *x, const ps_tensor *dy, ps_param *w, ps_param *b, ps_tensor *dx);

/* Activations, element by element; y may be x, dx may be dy. The backward functions take the layer's output y. */
PS_API ps_status ps_relu(const ps_tensor *x, ps_tensor *y);    /* max(x, 0) */
PS_API ps_status ps_sigmoid(const ps_tensor *x, ps_tensor *y); /* 1 / (1 + exp(-x)) */
PS_API ps_status ps_tanh(const ps_tensor *x, ps_tensor *y);
PS_API ps_status ps_relu_backward(const ps_tensor *y, const ps_tensor *dy, ps_tensor *dx);    /* y > 0 ? dy : 0 */
PS_API ps_status ps_sigmoid_backward(const ps_tensor *y, const ps_tensor *dy, ps_tensor *dx); /* dy y (1 - y) */
PS_API ps_status ps_tanh_backward(const ps_tensor *y, const ps_tensor *dy, ps_tensor *dx);    /* dy (1 - y^2) */

/**
 * Inverted dropout (Srivastava et al. 2014): each element is kept with probability keep and then divided by keep, else 0.
 * The mask depends on (seed, step, element index) only, so it is not stored: give the backward call the same three values.
 *
 * seed     one per layer and worker.
 * keep     2^-20 .. 1; 1 keeps everything.
 * step     one per batch.
 * y        same shape as x, may be x.
 */
PS_API ps_status ps_dropout(const ps_tensor *x, uint64_t seed, float keep, uint64_t step, ps_tensor *y);
PS_API ps_status ps_dropout_backward(const ps_tensor *dy, uint64_t seed, float keep, uint64_t step, ps_tensor *dx);

/**
 * Softmax cross-entropy with integer labels.
 *
 * logits   (B, classes).
 * labels   [B], each 0 .. classes-1.
 * dlogits  (B, classes), or NULL: gets the gradient of the returned loss, (softmax(logits) - onehot(labels)) / B. May be logits.
 *
 * Returns the mean loss of the batch. 0 when logits are not valid because of an earlier error (already known where it happened);
 * NaN when this call finds one (ps_nn_error() says which); in both cases dlogits is marked.
 */
PS_API double ps_softmax_xent(const ps_tensor *logits, const int32_t *labels, ps_tensor *dlogits);
/** Rows whose largest value is at the label (the first one, on a tie); a row with a NaN never counts. -1 on an error. */
PS_API int64_t ps_argmax_count(const ps_tensor *logits, const int32_t *labels);

/* ---- plain pointers: float32, row-major, any alignment of float. Errors: PS_INVALID_ARGUMENT (names the argument),
 * ---- PS_UNIMPLEMENTED (no plugin). Outputs are untouched on an error. */

/** Open a device ("cpu", "gpu:0"; NULL: "cpu") for the functions below. A program that has other threads, or wants to report
 *  early, calls it first; otherwise the first of them opens the CPU. Not while another thread is in one of them. BLAS settings
 *  go into the environment while its plugin is opened, so no other thread should call getenv() at that moment. PS_OK if it is
 *  open; PS_UNIMPLEMENTED (no plugin), PS_NOT_FOUND (no such device), PS_INVALID_ARGUMENT (no name of a device). */
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
PS_API ps_status ps_nn_relu_forward(const float *x, float *y, int64_t count);
PS_API ps_status ps_nn_relu_backward(const float *y, const float *dy, float *dx, int64_t count);
PS_API ps_status ps_nn_sigmoid_forward(const float *x, float *y, int64_t count);
PS_API ps_status ps_nn_sigmoid_backward(const float *y, const float *dy, float *dx, int64_t count);
PS_API ps_status ps_nn_tanh_forward(const float *x, float *y, int64_t count);
PS_API ps_status ps_nn_tanh_backward(const float *y, const float *dy, float *dx, int64_t count);
/** Forward (x to y) and backward (dy to dx) are the same operation. */
PS_API ps_status ps_nn_dropout(const float *in, float *out, int64_t count, uint64_t seed, float keep, uint64_t step);
/** dlogits may be NULL. */
PS_API ps_status ps_nn_softmax_xent(const float *logits, const int32_t *labels, float *dlogits, int64_t batch, int64_t classes,
                                    double *out_loss);
PS_API ps_status ps_nn_argmax_count(const float *logits, const int32_t *labels, int64_t batch, int64_t classes,
                                    int64_t *out_count);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Forward and backward functions of layers for training programs: dense layers, activations, layer normalization, dropout, losses
 * of classes and of numbers. C11 and C++17.
 *
 * There are two levels. With tensors and parameters (ps_dense(), ps_relu() ...) errors need not be checked after every call: a
 * call that fails marks its output tensor as not valid; a call that gets such a tensor does nothing and marks its own output; the
 * first such call with a parameter makes it the error of the parameter's session, where it is sticky (ps_session_close()
 * returns it). With plain pointers (ps_nn_*) every function returns a status, and ps_nn_error() has the text.
 *
 * Which device computes: with a parameter its session's device (ps_session_options.compute_device, --device); else the device
 * that has the first input; for values that only the host has, the device of ps_nn_open(). Other inputs are copied there. Calls
 * return when the work is submitted. Functions that need values on the host wait for it: ps_tensor_read(), ps_tensor_scalar(),
 * ps_param_grad(), ps_accumulate(). They find a failure of the device: the session ends with an error that names the operation.
 *
 * Data is float32 (labels int32, indices int64), row-major, one example per row: a batch is (B, n); B may be 0. The same input
 * gives the same bits on the same machine and device, and results within a bound on another device. NaN and infinities are
 * computed with like other values. The kernels are in plugins, libpsworker_cpu.so and libpsworker_cuda.so, opened at first use.
 * Any thread, but one thread at a time for a tensor. Do not fork() after the first call: BLAS does not survive it. */
#ifndef PS_NN_H
#define PS_NN_H

#include "ps_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ps_param ps_param; /* a variable with value and gradient buffers: ps.h */

#define PS_TENSOR_ERROR_BYTES 240
#define PS_ON_HOST 0

/** A matrix (rows, cols). Start it with all bytes 0 (`ps_tensor t = {0}`, `static ps_tensor t`). The first operation that writes
 * it gives it memory, shape and dtype, and a later operation changes the shape if its result has another one. Instead,
 * ps_tensor_init() sets a shape that operations do not change, and ps_tensor_wrap() borrows the program's memory. Free it with
 * ps_tensor_free(). The program may read the fields. */
typedef struct ps_tensor {
    int64_t rows;          /* examples in this batch: 0 .. rows_capacity */
    int64_t cols;          /* values per example */
    int64_t rows_capacity; /* rows for which there is memory */
    uint32_t dtype;        /* ps_dtype: PS_F32; labels PS_I32, indices and a count PS_I64, a loss PS_F64 */
    uint32_t place;        /* where the values are: PS_ON_HOST, or 1 + k for device k */
    int32_t status;        /* ps_status: PS_OK, or why the call that should have written it failed */
    uint32_t flags;        /* this field and the next two are for the library only */
    const void *wrapped;
    uint64_t memory[12];
    char error[PS_TENSOR_ERROR_BYTES]; /* text for status; "" with PS_OK */
} ps_tensor;

/** A new tensor of float32 zeros; owns: ps_tensor_free(). NULL: rows < 0, cols < 1, overflow or no memory. All functions treat a
 * NULL tensor as an error that names the argument. */
PS_API ps_tensor *ps_tensor_new(int64_t rows, int64_t cols);
/** Turn *t, zeroed or a tensor, into a tensor of zeros whose shape operations do not change. dtype: PS_F32, PS_I32, PS_I64.
 * INVALID_ARGUMENT: rows < 0, cols < 1, overflow. */
PS_API ps_status ps_tensor_init(ps_tensor *t, ps_dtype dtype, int64_t rows, int64_t cols);
/** Turn *t, zeroed or a tensor, into a tensor of the program's memory, borrowed until the first operation with t copies it. */
PS_API void ps_tensor_wrap(ps_tensor *t, const float *data, int64_t rows, int64_t cols);
/** ps_tensor_wrap() for int32 labels, one per row. */
PS_API void ps_tensor_wrap_labels(ps_tensor *t, const int32_t *labels, int64_t rows);
/** ps_tensor_wrap() for int64 numbers: indices of rows of a table, or where each bag (a group of indices) ends. */
PS_API void ps_tensor_wrap_indices(ps_tensor *t, const int64_t *indices, int64_t rows);
/** Use only the first rows of t, for a last batch that is smaller; 0 .. rows_capacity. PS_OUT_OF_RANGE: nothing has changed. */
PS_API ps_status ps_tensor_set_rows(ps_tensor *t, int64_t rows);
/** The values in host memory, row-major, valid until the next call that writes t or uses it on another device. Waits until they
 * are computed and copied. NULL: error, see ps_nn_error(). */
PS_API const void *ps_tensor_read(ps_tensor *t);
/** Memory for new values of t, all its rows, which the program writes before the next call that uses t; 64-byte aligned. Its
 * contents are arbitrary; after ps_tensor_read() they are the values. Waits until the old values are no longer read. NULL:
 * error, see ps_nn_error(). */
PS_API void *ps_tensor_write(ps_tensor *t);
/** The value of a tensor of one element, a loss or a count. Waits until it is computed. NaN: error, see ps_nn_error(). */
PS_API double ps_tensor_scalar(ps_tensor *t);
/** Free the memory and zero *t. A tensor of ps_tensor_new() is freed itself. NULL is allowed. */
PS_API void ps_tensor_free(ps_tensor *t);

typedef enum ps_activation {
    PS_LINEAR = 0,  /* x */
    PS_RELU = 1,    /* max(x, 0) */
    PS_SIGMOID = 2, /* 1 / (1 + exp(-x)) */
    PS_TANH = 3
} ps_activation;

/**
 * Dense layer: y = x w + b, with the current values of w and b.
 *
 * x        (B, in).
 * w        (in, out).
 * b        (out); NULL: no bias.
 * y        (B, out), not x.
 *
 * Errors   PS_INVALID_ARGUMENT     shapes do not fit, the text names both; also sticky in w's session
 *          PS_UNIMPLEMENTED        no kernel plugin; also sticky
 *          PS_RESOURCE_EXHAUSTED   no memory on the device; also sticky
 *          the session's first error, when it has failed: nothing is computed
 */
PS_API ps_status ps_dense(ps_tensor *x, ps_param *w, ps_param *b, ps_tensor *y);
/**
 * Backward of ps_dense(): dw = x^T dy and db = column sums of dy replace the gradients of w and b, and dx = dy w^T. Waits until
 * the last push of w and of b is acknowledged, because the library uses their gradient buffers until then. On the CPU dx is
 * computed before that wait. On other devices dw and db are computed first, so that they travel while dx is computed.
 *
 * x, dy    (B, in) and (B, out): the input of the layer and the gradient of its output.
 * b        NULL if the layer has none.
 * dx       (B, in), or NULL if nothing needs it (first layer); neither x nor dy.
 */
PS_API ps_status ps_dense_backward(ps_tensor *x, ps_tensor *dy, ps_param *w, ps_param *b, ps_tensor *dx);
/** A dense layer with its activation, in one operation: y = act(x w + b). */
PS_API ps_status ps_dense_act(ps_tensor *x, ps_param *w, ps_param *b, ps_activation act, ps_tensor *y);
/** Backward of ps_dense_act() for a layer whose input x is the result of activation x_act: dx = (dy w^T) x_act', the gradient of
 * x_act's input. dy is the gradient of x w + b: the dx that the backward of the next layer has made. */
PS_API ps_status ps_dense_act_backward(ps_tensor *x, ps_activation x_act, ps_tensor *dy, ps_param *w, ps_param *b, ps_tensor *dx);

/** Rows of which most values are 0, in compressed sparse rows (CSR). Row i has values[k] in column columns[k], for k = ends[i-1]
 * .. ends[i]-1 (row 0 from k = 0 on), and 0 in all other columns. The memory is the program's; calls borrow it. */
typedef struct ps_csr {
    int64_t rows, cols;     /* (B, in) */
    const int32_t *ends;    /* [rows], not descending; the last one is the number of stored values */
    const int32_t *columns; /* [ends[rows-1]], 0 .. cols-1, ascending within a row */
    const float *values;    /* [ends[rows-1]] */
} ps_csr;

/**
 * ps_dense_act() for sparse rows: y = act(x w + b). It costs one multiplication for each stored value and output. A sum is added
 * in the order of the columns, whatever the number of threads.
 *
 * x        (B, in).
 * w        (in, out).
 * b        (out), or NULL for none.
 * y        (B, out).
 *
 * Errors   as ps_dense(); INVALID_ARGUMENT also names the row whose ends or columns are wrong (ps_csr).
 *          PS_UNIMPLEMENTED  the session computes on a device with its own memory; sticky. Make the rows dense for it
 */
PS_API ps_status ps_sparse_act(const ps_csr *x, ps_param *w, ps_param *b, ps_activation act, ps_tensor *y);
/** Backward of ps_sparse_act(): dw = x^T dy and db = column sums of dy replace the gradients of w and b. dw is dense: rows of w
 * that no example has are 0. Waits until the last push of w and of b is acknowledged. dy (B, out); b may be NULL. */
PS_API ps_status ps_sparse_backward(const ps_csr *x, ps_tensor *dy, ps_param *w, ps_param *b);

/* Activations, element by element; y may be x, dx may be dy. The backward functions take the layer's output y. */
PS_API ps_status ps_relu(ps_tensor *x, ps_tensor *y);
PS_API ps_status ps_sigmoid(ps_tensor *x, ps_tensor *y);
PS_API ps_status ps_tanh(ps_tensor *x, ps_tensor *y);
PS_API ps_status ps_relu_backward(ps_tensor *y, ps_tensor *dy, ps_tensor *dx);    /* dy where y > 0 or y is NaN, else 0 */
PS_API ps_status ps_sigmoid_backward(ps_tensor *y, ps_tensor *dy, ps_tensor *dx); /* dy y (1 - y) */
PS_API ps_status ps_tanh_backward(ps_tensor *y, ps_tensor *dy, ps_tensor *dx);    /* dy (1 - y^2) */

/**
 * Inverted dropout (Srivastava et al. 2014): each element is kept with probability keep and then divided by keep, else 0. The
 * mask depends on (seed, step, element index) only and is not stored: give the backward call the same three values.
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
 * labels   (B, 1) of int32, each 0 .. classes-1. Labels on the host are checked in the call; labels on a device are checked
 *          there, and a wrong one is the error of the next function that waits.
 * dlogits  (B, classes), or NULL: gets the gradient of the loss, (softmax(logits) - onehot(labels)) / B. May be logits.
 * loss     scalar, or NULL: gets the mean loss of the batch; 0 for an empty one. ps_tensor_scalar() reads it.
 */
PS_API ps_status ps_softmax_xent(ps_tensor *logits, ps_tensor *labels, ps_tensor *dlogits, ps_tensor *loss);
/** Count rows whose largest value is at the label (on a tie the first), into the scalar count; rows with a NaN do not count. */
PS_API ps_status ps_argmax_count(ps_tensor *logits, ps_tensor *labels, ps_tensor *count);

/**
 * Losses of numbers: the mean of loss(x, t) over all elements, d = x - t. For one number per example x and t are (B, 1).
 *   sigmoid_xent         max(x, 0) - x t + log(1 + exp(-|x|)): cross-entropy of probability 1 / (1 + exp(-x)) with t in [0, 1]
 *   mean_squared_error   d^2
 *   mean_absolute_error  |d|; its gradient is 0 at d = 0
 *   huber_error          d^2 / 2 up to |d| = delta, from there on delta (|d| - delta / 2)
 *
 * x, t     (B, n): results of the model and what they should be, float32.
 * delta    finite, > 0.
 * dx       (B, n), or NULL: gets the gradient of the loss in x. May be x or t.
 * loss     scalar, or NULL: gets the mean loss; 0 for an empty batch. ps_tensor_scalar() reads it.
 */
PS_API ps_status ps_sigmoid_xent(ps_tensor *x, ps_tensor *t, ps_tensor *dx, ps_tensor *loss);
PS_API ps_status ps_mean_squared_error(ps_tensor *x, ps_tensor *t, ps_tensor *dx, ps_tensor *loss);
PS_API ps_status ps_mean_absolute_error(ps_tensor *x, ps_tensor *t, ps_tensor *dx, ps_tensor *loss);
PS_API ps_status ps_huber_error(ps_tensor *x, ps_tensor *t, float delta, ps_tensor *dx, ps_tensor *loss);

/** GELU, exact: x Phi(x), Phi the distribution function of the standard normal distribution; y may be x. */
PS_API ps_status ps_gelu(ps_tensor *x, ps_tensor *y);
/** Backward of ps_gelu(); unlike those of the other activations it takes the input x. dx may be x or dy. */
PS_API ps_status ps_gelu_backward(ps_tensor *x, ps_tensor *dy, ps_tensor *dx);
/** out = a + b, all of one shape; out may be a or b. Residual connection: y = x + f(x); its backward: ps_add(dy, df, dx). */
PS_API ps_status ps_add(ps_tensor *a, ps_tensor *b, ps_tensor *out);
/**
 * Layer normalization (Ba et al. 2016) of each row: y = gamma (x - mean) / sqrt(variance + epsilon) + beta, the variance divided
 * by n.
 *
 * x, y           (B, n); y may be x.
 * gamma, beta    (n), parameters, ps_ones() and ps_zeros() at first.
 * epsilon        finite, > 0; TensorFlow has 1e-12, PyTorch 1e-5.
 *
 * Errors         as ps_dense()
 */
PS_API ps_status ps_layer_norm(ps_tensor *x, ps_param *gamma, ps_param *beta, float epsilon, ps_tensor *y);
/** Backward of ps_layer_norm(): replaces the gradients of gamma and beta; dx (B, n), or NULL, gets the gradient of x and may be
 * dy. x: the input of the forward call. Waits until the last push of gamma and of beta is acknowledged. */
PS_API ps_status ps_layer_norm_backward(ps_tensor *x, ps_tensor *dy, ps_param *gamma, ps_param *beta, float epsilon,
                                        ps_tensor *dx);

/** As `padding` of the embedding functions below: no index is padding. The table of these functions is any tensor with a row per
 * index: a whole embedding, or the rows that a batch needs, with indices into them. A gradient row is the sum over all uses of
 * the row, in the order of the indices; rows that nothing uses get zeros. */
#define PS_NO_PADDING (-1)

/** How the rows of a bag, a group of indices, become one row, with weights w (1 without weights). If the divisor is 0, as in an
 * empty bag, the result is zeros. Duplicates count as often as they occur. */
typedef enum ps_combiner {
    PS_SUM = 0,  /* the sum of w r */
    PS_MEAN = 1, /* the sum of w r / the sum of w */
    PS_SQRTN = 2 /* the sum of w r / the root of the sum of w^2 */
} ps_combiner;

/**
 * Embedding: y_k = row indices_k of the table.
 *
 * rows     (R, n): the table.
 * indices  (K, 1) of int64, each 0 .. R-1 or padding.
 * padding  an index whose y is zeros and that gives no gradient; it may lie outside of the table. PS_NO_PADDING: no index.
 * y        (K, n).
 *
 * Errors   PS_INVALID_ARGUMENT  shapes do not fit; an index that is not a row: which, and where
 */
PS_API ps_status ps_embedding(ps_tensor *rows, ps_tensor *indices, int64_t padding, ps_tensor *y);
/** Backward of ps_embedding(): drows (R, n) gets the gradient rows of dy (K, n). rows is needed only for its shape; NULL: drows
 * has that shape already. */
PS_API ps_status ps_embedding_backward(ps_tensor *rows, ps_tensor *indices, int64_t padding, ps_tensor *dy, ps_tensor *drows);
/**
 * Embedding bag: y_i = the combined rows of bag i, which has the entries k = ends[i-1] .. ends[i]-1 (bag 0 from k = 0 on).
 *
 * rows     (R, n): the table.
 * indices  (K, 1) of int64, each 0 .. R-1 or padding.
 * ends     (B, 1) of int64, not descending; the last one is K.
 * weights  (K, 1) of float32, or NULL: all are 1. They get no gradient.
 * padding  entries with this index are ignored. PS_NO_PADDING: all entries count.
 * y        (B, n).
 *
 * Errors   PS_INVALID_ARGUMENT  shapes do not fit; an index that is not a row, ends that descend: which, and where
 */
PS_API ps_status ps_embedding_bag(ps_tensor *rows, ps_tensor *indices, ps_tensor *ends, ps_tensor *weights, ps_combiner combiner,
                                  int64_t padding, ps_tensor *y);
/** Backward of ps_embedding_bag(): drows (R, n) gets the gradient rows of dy (B, n). rows is needed only for its shape; NULL:
 * drows has that shape already. */
PS_API ps_status ps_embedding_bag_backward(ps_tensor *rows, ps_tensor *indices, ps_tensor *ends, ps_tensor *weights,
                                           ps_combiner combiner, int64_t padding, ps_tensor *dy, ps_tensor *drows);
/**
 * Interaction of a factorization machine (Rendle 2010): y_i = the sum of w_k w_l <r_k, r_l> over all pairs of entries of bag i.
 * rows, indices, ends, weights, padding: as in ps_embedding_bag(); weights are the values of the features.
 *
 * y        (B, 1).
 * sums     (B, n): the sum of w r over each bag, which the backward needs.
 */
PS_API ps_status ps_fm(ps_tensor *rows, ps_tensor *indices, ps_tensor *ends, ps_tensor *weights, int64_t padding, ps_tensor *y,
                       ps_tensor *sums);
/** Backward of ps_fm(): drows (R, n) gets the gradient rows of dy (B, 1). sums: from the forward call. */
PS_API ps_status ps_fm_backward(ps_tensor *rows, ps_tensor *indices, ps_tensor *ends, ps_tensor *weights, int64_t padding,
                                ps_tensor *sums, ps_tensor *dy, ps_tensor *drows);
/**
 * Dot interaction (DLRM, Naumov et al. 2019): the dot products of all pairs of fields of a row.
 *
 * x        (B, fields n): n values a field.
 * fields   at least 2.
 * y        (B, fields (fields - 1) / 2): <x_i, x_j> for fields i > j, in the order (1,0) (2,0) (2,1) (3,0).
 */
PS_API ps_status ps_dot_interaction(ps_tensor *x, uint32_t fields, ps_tensor *y);
/** Backward of ps_dot_interaction(): dx (B, fields n) gets the gradient of x; neither x nor dy. */
PS_API ps_status ps_dot_interaction_backward(ps_tensor *x, uint32_t fields, ps_tensor *dy, ps_tensor *dx);

/* ---- Plain pointers: float32 in host memory, row-major, aligned as float. Functions return when the results are there. batch
 * may be 0; count and all other sizes are at least 1. Errors: PS_INVALID_ARGUMENT (names the argument), PS_UNIMPLEMENTED (no
 * plugin). Outputs are untouched after an error. ---- */

/**
 * Open a device ("cpu", "gpu:0"; NULL: "cpu") for the functions below, and for tensors that only the host has. Optional:
 * otherwise the first of these functions opens the CPU. Programs with threads should call it early: not while another thread is
 * in one of these functions, and not while another thread calls getenv(), because BLAS settings are put into the environment
 * meanwhile.
 *
 * A plugin's file in directory PS_PLUGIN_DIR is used, whether it works or not; otherwise it is looked for beside this library,
 * beside the program, and where it was installed.
 *
 * Errors   PS_UNIMPLEMENTED (no plugin), PS_NOT_FOUND (no such device), PS_INVALID_ARGUMENT (no name of a device)
 */
PS_API ps_status ps_nn_open(const char *device);
/** Text that says what computes: "cpu: /usr/lib/libpsworker_cpu.so (OpenBLAS SkylakeX, 1 thread)"; "none" before a device is
 * open. Valid until this thread's next call. */
PS_API const char *ps_nn_backend(void);
/** Text of this thread's last error in a function of this header; "": no error yet. Valid until the next error. */
PS_API const char *ps_nn_error(void);

/** y (batch, out) = x (batch, in) w (in, out) + b (out); b may be NULL; y must not overlap an input. */
PS_API ps_status ps_nn_dense_forward(const float *x, const float *w, const float *b, float *y, int64_t batch, int64_t in,
                                     int64_t out);
/** dw (in, out) = x^T dy, db (out) = column sums of dy, dx (batch, in) = dy w^T. dx, db, or dw and db may be NULL and are not
 * computed then; x may be NULL without dw, w without dx. Outputs must not overlap inputs. */
PS_API ps_status ps_nn_dense_backward(const float *x, const float *w, const float *dy, float *dw, float *db, float *dx,
                                      int64_t batch, int64_t in, int64_t out);
/** y (rows, out) = x w (cols, out) + b (out); b may be NULL. Forward and backward are PS_UNIMPLEMENTED except on the CPU. */
PS_API ps_status ps_nn_sparse_forward(const ps_csr *x, const float *w, const float *b, float *y, int64_t out);
/** dw (cols, out) = x^T dy, db (out) = column sums of dy (rows, out); db may be NULL. */
PS_API ps_status ps_nn_sparse_backward(const ps_csr *x, const float *dy, float *dw, float *db, int64_t out);
PS_API ps_status ps_nn_relu_forward(const float *x, float *y, int64_t count);
PS_API ps_status ps_nn_relu_backward(const float *y, const float *dy, float *dx, int64_t count);
PS_API ps_status ps_nn_sigmoid_forward(const float *x, float *y, int64_t count);
PS_API ps_status ps_nn_sigmoid_backward(const float *y, const float *dy, float *dx, int64_t count);
PS_API ps_status ps_nn_tanh_forward(const float *x, float *y, int64_t count);
PS_API ps_status ps_nn_tanh_backward(const float *y, const float *dy, float *dx, int64_t count);
/** Forward (x to y) and backward (dy to dx) are one operation. */
PS_API ps_status ps_nn_dropout(const float *in, float *out, int64_t count, uint64_t seed, float keep, uint64_t step);
/** A step of gradient descent without a ps: w -= rate * dw; rate is finite. */
PS_API ps_status ps_nn_sgd(float *w, const float *dw, int64_t count, float rate);
/** dlogits and out_loss may be NULL. */
PS_API ps_status ps_nn_softmax_xent(const float *logits, const int32_t *labels, float *dlogits, int64_t batch, int64_t classes,
                                    double *out_loss);
/** x, t and dx (batch, cols); dx and out_loss may be NULL. */
PS_API ps_status ps_nn_sigmoid_xent(const float *x, const float *t, float *dx, int64_t batch, int64_t cols, double *out_loss);
PS_API ps_status ps_nn_mean_squared_error(const float *x, const float *t, float *dx, int64_t batch, int64_t cols,
                                          double *out_loss);
PS_API ps_status ps_nn_mean_absolute_error(const float *x, const float *t, float *dx, int64_t batch, int64_t cols,
                                           double *out_loss);
PS_API ps_status ps_nn_huber_error(const float *x, const float *t, float delta, float *dx, int64_t batch, int64_t cols,
                                   double *out_loss);
PS_API ps_status ps_nn_gelu_forward(const float *x, float *y, int64_t count);
PS_API ps_status ps_nn_gelu_backward(const float *x, const float *dy, float *dx, int64_t count);
PS_API ps_status ps_nn_add(const float *a, const float *b, float *out, int64_t count);
/** x and y (batch, cols), gamma and beta (cols). */
PS_API ps_status ps_nn_layer_norm_forward(const float *x, const float *gamma, const float *beta, float *y, int64_t batch,
                                          int64_t cols, float epsilon);
/** dx (batch, cols), dgamma and dbeta (cols); each may be NULL and is not computed then. */
PS_API ps_status ps_nn_layer_norm_backward(const float *x, const float *gamma, const float *dy, float *dx, float *dgamma,
                                           float *dbeta, int64_t batch, int64_t cols, float epsilon);
/** Bags of indices in the program's memory; calls borrow it. */
typedef struct ps_bags {
    int64_t bags;           /* B */
    const int64_t *ends;    /* [bags], not descending; the last one is the number of indices. NULL: each index is a bag */
    int64_t count;          /* K: number of indices */
    const int64_t *indices; /* [count] */
    const float *weights;   /* [count]; NULL: 1 */
    int64_t padding;        /* the padding index, or PS_NO_PADDING. In a zeroed struct index 0 is padding */
} ps_bags;

/** y (B, cols) = the combined rows (count, cols) of each bag. ends NULL: ps_embedding(), so weights NULL and PS_SUM. */
PS_API ps_status ps_nn_embedding_bag_forward(const float *rows, int64_t row_count, int64_t cols, const ps_bags *bags,
                                             ps_combiner combiner, float *y);
/** drows (row_count, cols) gets the gradient rows; dy (B, cols) is the gradient of y. */
PS_API ps_status ps_nn_embedding_bag_backward(const ps_bags *bags, ps_combiner combiner, const float *dy, float *drows,
                                              int64_t row_count, int64_t cols);
/** y (B), sums (B, cols), as in ps_fm(). bags->ends must not be NULL. */
PS_API ps_status ps_nn_fm_forward(const float *rows, int64_t row_count, int64_t cols, const ps_bags *bags, float *y, float *sums);
PS_API ps_status ps_nn_fm_backward(const float *rows, int64_t row_count, int64_t cols, const ps_bags *bags, const float *sums,
                                   const float *dy, float *drows);
/** ps_dot_interaction(): dot products of all pairs of fields. x (batch, fields * cols), y (batch, fields * (fields - 1) / 2). */
PS_API ps_status ps_nn_dot_forward(const float *x, float *y, int64_t batch, uint32_t fields, int64_t cols);
PS_API ps_status ps_nn_dot_backward(const float *x, const float *dy, float *dx, int64_t batch, uint32_t fields, int64_t cols);
PS_API ps_status ps_nn_argmax_count(const float *logits, const int32_t *labels, int64_t batch, int64_t classes,
                                    int64_t *out_count);

#ifdef __cplusplus
}
#endif
#endif

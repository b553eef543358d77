/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that use the training kernels: activations, layers, their backwards, the loss, dropout. Their rules are those of
 * ps_nn.h, except that every size may be 0; kernels refuse sizes of 0, so such rows are computed here. Activations of float64,
 * and relu of integers, are loops here. Failure modes: no kernel plugin; a device that fails; a label that is no class. */
#include "rows.h"

#include "worker/nn/kernels/host.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Infer the output's type of operations whose inputs and output all have one shape. */
ps_status psi_infer_alike(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                          struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    (void)attrs;
    struct psi_type type = in[0];
    for (uint32_t i = 1; i < in_count; i++) {
        bool same = in[i].shape.rank == type.shape.rank;
        for (uint32_t d = 0; same && d < type.shape.rank; d++) {
            same = psi_dims_agree(in[i].shape.dims[d], type.shape.dims[d]);
            type.shape.dims[d] = psi_dim_of(type.shape.dims[d], in[i].shape.dims[d]);
        }
        if (!same) {
            return psi_op_misfit(op, in, in_count, err, "the shapes must be the same");
        }
    }
    const ps_status st = psi_op_size_check(op, in, in_count, &type, err);
    if (st == PS_OK) {
        out[0] = type;
        *out_count = 1;
    }
    return st;
}

/* Check the ranks of x (batch, in) and w (in, out), and that both have the same `in`. */
static ps_status layer(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                       struct psi_err *err)
{
    if ((op->attrs & PSI_OP_ACTIVATION) != 0 && attrs->activation > 3) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: there is no activation %" PRIu32 ", allowed is 0 (linear) to 3 (tanh)",
                        op->name, attrs->activation);
    }
    if (in[0].shape.rank != 2 || in[1].shape.rank != 2) {
        return psi_op_misfit(op, in, in_count, err, "x and w must have two dimensions");
    }
    if (!psi_dims_agree(in[0].shape.dims[1], in[1].shape.dims[0])) {
        return psi_op_misfit(op, in, in_count, err, "x has %" PRId64 " columns and w %" PRId64 " rows", in[0].shape.dims[1],
                             in[1].shape.dims[0]);
    }
    return PS_OK;
}

ps_status psi_infer_dense(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                          struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    ps_status st = layer(op, attrs, in, in_count, err);
    if (st != PS_OK) {
        return st;
    }
    int64_t columns = in[1].shape.dims[1];
    if (in_count == 3) {
        if (in[2].shape.rank != 1 || !psi_dims_agree(in[2].shape.dims[0], columns)) {
            return psi_op_misfit(op, in, in_count, err, "b must have one dimension, as long as a row of w");
        }
        columns = psi_dim_of(columns, in[2].shape.dims[0]);
    }
    const struct psi_type y = {PS_F32, {.rank = 2, .dims = {in[0].shape.dims[0], columns}}};
    st = psi_op_size_check(op, in, in_count, &y, err);
    if (st == PS_OK) {
        out[0] = y;
        *out_count = 1;
    }
    return st;
}

/* Set *out to the number of outputs to compute: attrs->outputs, which may be at most `most`; 0 stands for `most`. */
static ps_status outputs_of(const struct psi_op *op, const struct psi_op_attrs *attrs, uint32_t most, uint32_t *out,
                            struct psi_err *err)
{
    if (attrs->outputs > most) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: it has %" PRIu32 " outputs, %" PRIu32 " are asked for", op->name, most,
                        attrs->outputs);
    }
    *out = attrs->outputs > 0 ? attrs->outputs : most;
    return PS_OK;
}

/* Types of the outputs: x (batch, in), w (in, out), dy (batch, out) -> dw (in, out), db (out), dx (batch, in). */
ps_status psi_infer_dense_backward(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                                   uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    const ps_shape *x = &in[0].shape, *w = &in[1].shape, *dy = &in[2].shape;
    uint32_t count = 0;
    ps_status st = layer(op, attrs, in, in_count, err);
    st = st == PS_OK ? outputs_of(op, attrs, 3, &count, err) : st;
    if (st != PS_OK) {
        return st;
    }
    if (dy->rank != 2 || !psi_dims_agree(dy->dims[0], x->dims[0]) || !psi_dims_agree(dy->dims[1], w->dims[1])) {
        return psi_op_misfit(op, in, in_count, err, "dy must have the rows of x and the columns of w");
    }
    const int64_t rows = psi_dim_of(x->dims[0], dy->dims[0]);
    const int64_t inner = psi_dim_of(x->dims[1], w->dims[0]);
    const int64_t columns = psi_dim_of(w->dims[1], dy->dims[1]);
    out[0] = (struct psi_type){PS_F32, {.rank = 2, .dims = {inner, columns}}};
    out[1] = (struct psi_type){PS_F32, {.rank = 1, .dims = {columns}}};
    out[2] = (struct psi_type){PS_F32, {.rank = 2, .dims = {rows, inner}}};
    *out_count = count;
    return PS_OK; /* no check of sizes: the outputs have the shapes of w, a row of w, and x */
}

/* Types of the outputs: logits (batch, classes) float32, labels (batch) int32 -> loss (one float64), dlogits as logits. */
ps_status psi_infer_softmax_xent(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                                 uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    struct psi_type logits = in[0];
    if (in[1].dtype != PS_I32) {
        return psi_op_misfit(op, in, in_count, err, "labels must be int32");
    }
    if (logits.shape.rank != 2 || in[1].shape.rank != 1 || !psi_dims_agree(logits.shape.dims[0], in[1].shape.dims[0])) {
        return psi_op_misfit(op, in, in_count, err, "logits must have two dimensions, labels one, of the rows of logits");
    }
    uint32_t count = 0;
    const ps_status st = outputs_of(op, attrs, 2, &count, err);
    if (st == PS_OK) {
        logits.shape.dims[0] = psi_dim_of(logits.shape.dims[0], in[1].shape.dims[0]);
        out[0] = (struct psi_type){PS_F64, {.rank = 0}};
        out[1] = logits;
        *out_count = count;
    }
    return st;
}

/* Types of the outputs: x and t of one shape, float32 -> loss (one float64), dx as x. */
ps_status psi_infer_loss(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                         struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    struct psi_type dx;
    uint32_t one = 0, count = 0;
    ps_status st = psi_infer_alike(op, attrs, in, in_count, &dx, &one, err);
    st = st == PS_OK ? outputs_of(op, attrs, 2, &count, err) : st;
    if (st == PS_OK) {
        out[0] = (struct psi_type){PS_F64, {.rank = 0}};
        out[1] = dx;
        *out_count = count;
    }
    return st;
}

ps_status psi_infer_dropout(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                            uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    if (!(attrs->keep >= 0x1p-20f && attrs->keep <= 1.0f)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: keep is %g, allowed is 2^-20 to 1", op->name, (double)attrs->keep);
    }
    return psi_infer_alike(op, attrs, in, in_count, out, out_count, err);
}

static struct psk_tensor tensor(const void *data, ps_dtype dtype, uint32_t rank, int64_t rows, int64_t columns)
{
    return (struct psk_tensor){.address = (psk_address)(uintptr_t)data,
                               .shape = {.rank = rank, .dims = {rows, columns}},
                               .dtype = data != NULL ? dtype : PS_DTYPE_NONE};
}

static struct psk_tensor matrix(const void *data, int64_t rows, int64_t columns)
{
    return tensor(data, PS_F32, 2, rows, columns);
}

static ps_status kernel(const struct psi_op *op, const struct psi_op_context *ctx, psk_op which, const struct psk_tensor *args,
                        const struct psk_attrs *attrs, struct psi_err *err)
{
    const ps_status st = psk_host_run(ctx->place, which, args, attrs, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "%s", op->name);
    }
    return st;
}

/* relu as the kernel for float32 computes it: a NaN stays NaN. */
static void relu_f64(const double *x, double *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] <= 0 ? 0 : x[i];
    }
}

static void sigmoid_f64(const double *x, double *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) { /* exp() of a number that is not positive cannot overflow */
        const double e = exp(-fabs(x[i]));
        y[i] = x[i] < 0 ? e / (1 + e) : 1 / (1 + e);
    }
}

static void tanh_f64(const double *x, double *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] = tanh(x[i]);
    }
}

static void relu_i32(const int32_t *x, int32_t *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] < 0 ? 0 : x[i];
    }
}

static void relu_i64(const int64_t *x, int64_t *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] < 0 ? 0 : x[i];
    }
}

static void activate_slice(psk_activation act, const struct psi_value *in, struct psi_value *out, int64_t first, int64_t n)
{
    const double *x = (const double *)in->data + (in->dtype == PS_F64 ? first : 0);
    double *y = (double *)out->data + (in->dtype == PS_F64 ? first : 0);
    if (in->dtype == PS_I32) {
        relu_i32((const int32_t *)in->data + first, (int32_t *)out->data + first, n);
    } else if (in->dtype == PS_I64) {
        relu_i64((const int64_t *)in->data + first, (int64_t *)out->data + first, n);
    } else if (act == PSK_RELU) {
        relu_f64(x, y, n);
    } else if (act == PSK_SIGMOID) {
        sigmoid_f64(x, y, n);
    } else {
        tanh_f64(x, y, n);
    }
}

static ps_status activate(const struct psi_op *op, const struct psi_op_context *ctx, psk_activation act,
                          const struct psi_value *in, struct psi_value *out, struct psi_err *err)
{
    const int64_t n = ps_shape_elements(&in->shape);
    ps_status st = PS_OK;
    if (n > 0 && in->dtype == PS_F32) {
        const struct psk_tensor args[] = {matrix(in->data, 1, n), matrix(out->data, 1, n)};
        return kernel(op, ctx, PSK_ACT, args, &(struct psk_attrs){.activation = act}, err);
    }
    for (int64_t first = 0; first < n && st == PS_OK; first += PSI_OP_SLICE) {
        activate_slice(act, in, out, first, n - first < PSI_OP_SLICE ? n - first : PSI_OP_SLICE);
        st = psi_op_go_on(op, ctx, err);
    }
    return st;
}

static ps_status activate_backward(const struct psi_op *op, const struct psi_op_context *ctx, psk_activation act,
                                   const struct psi_value *in, struct psi_value *out, struct psi_err *err)
{
    const int64_t n = ps_shape_elements(&in[0].shape);
    const struct psk_tensor args[] = {matrix(in[0].data, 1, n), matrix(in[1].data, 1, n), matrix(out[0].data, 1, n)};
    return n == 0 ? PS_OK : kernel(op, ctx, PSK_ACT_BACKWARD, args, &(struct psk_attrs){.activation = act}, err);
}

#define ACTIVATION(name, act)                                                                                                    \
    PSI_RUN(name)                                                                                                                \
    {                                                                                                                            \
        (void)attrs;                                                                                                             \
        (void)in_count;                                                                                                          \
        (void)out_count;                                                                                                         \
        return activate(op, ctx, (act), in, out, err);                                                                           \
    }                                                                                                                            \
    PSI_RUN(name##_backward)                                                                                                     \
    {                                                                                                                            \
        (void)attrs;                                                                                                             \
        (void)in_count;                                                                                                          \
        (void)out_count;                                                                                                         \
        return activate_backward(op, ctx, (act), in, out, err);                                                                  \
    }
ACTIVATION(relu, PSK_RELU)
ACTIVATION(sigmoid, PSK_SIGMOID)
ACTIVATION(tanh, PSK_TANH)

/* Attributes for the kernel: the activation of op, linear if op has no such attribute. */
static struct psk_attrs layer_attrs(const struct psi_op *op, const struct psi_op_attrs *attrs)
{
    return (struct psk_attrs){.activation = (op->attrs & PSI_OP_ACTIVATION) != 0 ? attrs->activation : (uint32_t)PSK_LINEAR};
}

/* Compute a layer whose x has 0 columns, which the kernel does not accept: each row of y is act(b). b NULL: act of zeros. */
static ps_status dense_of_nothing(const struct psi_op *op, const struct psi_op_context *ctx, const float *b,
                                  const struct psi_value *y, const struct psk_attrs *attrs, struct psi_err *err)
{
    const size_t row_bytes = (size_t)y->shape.dims[1] * sizeof(float);
    memset(y->data, 0, y->bytes);
    for (size_t at = 0; at < y->bytes && b != NULL; at += row_bytes) {
        memcpy((char *)y->data + at, b, row_bytes);
    }
    const int64_t n = ps_shape_elements(&y->shape);
    const struct psk_tensor args[] = {matrix(y->data, 1, n), matrix(y->data, 1, n)};
    return attrs->activation == PSK_LINEAR ? PS_OK : kernel(op, ctx, PSK_ACT, args, attrs, err);
}

PSI_RUN(dense)
{
    (void)out_count;
    const int64_t rows = in[0].shape.dims[0], inner = in[0].shape.dims[1], columns = in[1].shape.dims[1];
    const struct psk_attrs all = layer_attrs(op, attrs);
    const float *b = in_count == 3 ? in[2].data : NULL;
    if (rows == 0 || columns == 0) {
        return PS_OK;
    }
    if (inner == 0) {
        return dense_of_nothing(op, ctx, b, &out[0], &all, err);
    }
    const struct psk_tensor args[] = {matrix(in[0].data, rows, inner), matrix(in[1].data, inner, columns),
                                      tensor(b, PS_F32, 1, columns, 0), matrix(out[0].data, rows, columns)};
    return kernel(op, ctx, PSK_DENSE, args, &all, err);
}

/* Compute the gradients of a layer's weights: dw and, if out_count > 1, db of the bias. */
static ps_status dense_weights(const struct psi_op *op, const struct psi_op_context *ctx, const struct psi_value *in,
                               struct psi_value *out, uint32_t out_count, struct psi_err *err)
{
    const int64_t rows = in[0].shape.dims[0], inner = in[0].shape.dims[1], columns = in[1].shape.dims[1];
    float *db = out_count > 1 ? out[1].data : NULL;
    if (columns == 0 || (inner == 0 && db == NULL)) {
        return PS_OK;
    }
    if (rows > 0 && inner > 0) {
        const struct psk_tensor args[] = {matrix(in[0].data, rows, inner), matrix(in[2].data, rows, columns),
                                          matrix(out[0].data, inner, columns), tensor(db, PS_F32, 1, columns, 0)};
        return kernel(op, ctx, PSK_DENSE_DW, args, NULL, err);
    }
    if (out[0].bytes > 0) {
        memset(out[0].data, 0, out[0].bytes);
    }
    for (int64_t j = 0; j < columns && db != NULL; j++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++) {
            sum += (double)((const float *)in[2].data)[i * columns + j];
        }
        db[j] = (float)sum;
    }
    return PS_OK;
}

PSI_RUN(dense_backward)
{
    (void)in_count;
    const int64_t rows = in[0].shape.dims[0], inner = in[0].shape.dims[1], columns = in[1].shape.dims[1];
    const struct psk_attrs all = layer_attrs(op, attrs);
    const ps_status st = dense_weights(op, ctx, in, out, out_count, err);
    if (st != PS_OK || out_count < 3 || rows == 0 || inner == 0) {
        return st;
    }
    if (columns == 0) {
        memset(out[2].data, 0, out[2].bytes);
        return PS_OK;
    }
    const struct psk_tensor args[] = {matrix(in[2].data, rows, columns), matrix(in[1].data, inner, columns),
                                      matrix(all.activation != PSK_LINEAR ? in[0].data : NULL, rows, inner),
                                      matrix(out[2].data, rows, inner)};
    return kernel(op, ctx, PSK_DENSE_DX, args, &all, err);
}

PSI_RUN(softmax_xent)
{
    (void)attrs;
    (void)in_count;
    const int64_t rows = in[0].shape.dims[0], classes = in[0].shape.dims[1];
    if (rows == 0) {
        *(double *)out[0].data = 0;
        return PS_OK;
    }
    if (classes == 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: logits have no classes, so no label is one", op->name);
    }
    const struct psk_tensor args[] = {matrix(in[0].data, rows, classes), tensor(in[1].data, PS_I32, 1, rows, 0),
                                      matrix(out_count > 1 ? out[1].data : NULL, rows, classes),
                                      tensor(out[0].data, PS_F64, 0, 0, 0)};
    return kernel(op, ctx, PSK_SOFTMAX_XENT, args, NULL, err);
}

static ps_status loss(const struct psi_op *op, const struct psi_op_context *ctx, psk_loss kind, const struct psi_value *in,
                      struct psi_value *out, uint32_t out_count, struct psi_err *err)
{
    const int64_t n = ps_shape_elements(&in[0].shape);
    const struct psk_tensor args[] = {matrix(in[0].data, 1, n), matrix(in[1].data, 1, n),
                                      matrix(out_count > 1 ? out[1].data : NULL, 1, n), tensor(out[0].data, PS_F64, 0, 0, 0)};
    *(double *)out[0].data = 0;
    return n == 0 ? PS_OK : kernel(op, ctx, PSK_LOSS, args, &(struct psk_attrs){.loss = kind}, err);
}

#define LOSS(name, kind)                                                                                                         \
    PSI_RUN(name)                                                                                                                \
    {                                                                                                                            \
        (void)attrs;                                                                                                             \
        (void)in_count;                                                                                                          \
        return loss(op, ctx, (kind), in, out, out_count, err);                                                                   \
    }
LOSS(mean_squared_error, PSK_SQUARED)
LOSS(mean_absolute_error, PSK_ABSOLUTE)
LOSS(sigmoid_xent, PSK_SIGMOID_XENT)

PSI_RUN(gelu)
{
    (void)attrs;
    (void)in_count;
    (void)out_count;
    const int64_t n = ps_shape_elements(&in[0].shape);
    const struct psk_tensor args[] = {matrix(in[0].data, 1, n), matrix(out[0].data, 1, n)};
    return n == 0 ? PS_OK : kernel(op, ctx, PSK_GELU, args, NULL, err);
}

PSI_RUN(gelu_backward)
{
    (void)attrs;
    (void)in_count;
    (void)out_count;
    const int64_t n = ps_shape_elements(&in[0].shape);
    const struct psk_tensor args[] = {matrix(in[0].data, 1, n), matrix(in[1].data, 1, n), matrix(out[0].data, 1, n)};
    return n == 0 ? PS_OK : kernel(op, ctx, PSK_GELU_BACKWARD, args, NULL, err);
}

PSI_RUN(dropout)
{
    (void)in_count;
    (void)out_count;
    const int64_t n = ps_shape_elements(&in[0].shape);
    const struct psk_tensor args[] = {matrix(in[0].data, 1, n), matrix(out[0].data, 1, n)};
    const struct psk_attrs all = {.seed = attrs->seed, .step = attrs->step, .keep = attrs->keep};
    return n == 0 ? PS_OK : kernel(op, ctx, PSK_DROPOUT, args, &all, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of ps_nn.h that take plain pointers: each makes tensors of its arguments; kernels/host.h checks and computes
 * them. Happy path on the CPU: the operation works in the caller's memory. For a device with memory of its own inputs are copied
 * there and outputs back, and the call waits, which is slow: for tests and occasional use. Failure modes: a wrong argument
 * (named, outputs untouched), a device that cannot be opened or fails. The text of the last error is kept per thread. */
#include "nn.h"

#include "worker/nn/kernels/host.h"
#include "worker/nn/kernels/plugin.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char error_text[PSI_ERR_TEXT_MAX];

ps_status psi_nn_fail(ps_status st, const char *format, ...)
{
    char text[PSI_ERR_TEXT_MAX]; /* a copy, because arguments may point into error_text */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    snprintf(error_text, sizeof(error_text), "%s", text);
    return st;
}

const char *ps_nn_error(void)
{
    return error_text;
}

ps_status psi_nn_say(ps_status st, const char *fn, const struct psi_err *err)
{
    return st == PS_OK ? st : psi_nn_fail(st, "%s: %s", fn, err->text);
}

ps_status psi_csr_check(const ps_csr *x, struct psi_err *err)
{
    if (x == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "x is NULL");
    }
    if (x->rows < 0 || x->cols < 1) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "x: (%" PRId64 ", %" PRId64 ") is not a size", x->rows, x->cols);
    }
    if (x->rows > 0 && x->ends == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "x: ends is NULL");
    }
    const int64_t count = psi_csr_count(x);
    if (count < 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "x: the last row ends at %" PRId64, count);
    }
    return count == 0 || (x->columns != NULL && x->values != NULL)
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "x: %s is NULL", x->columns == NULL ? "columns" : "values");
}

int64_t psi_csr_count(const ps_csr *x)
{
    return x->rows > 0 ? x->ends[x->rows - 1] : 0;
}

ps_status ps_nn_open(const char *device)
{
    struct psi_err err = {0};
    return psi_nn_say(psk_host_open(device != NULL ? device : "cpu", &err), "ps_nn_open", &err);
}

ps_status psi_nn_place(struct psk_place **out)
{
    struct psi_err err = {0};
    return psi_nn_say(psk_host_place(out, &err), "ps_nn_open", &err);
}

const char *ps_nn_backend(void)
{
    static _Thread_local char text[4096 + 128];
    const struct psk_place *place = psk_host_place_now();
    if (place == NULL) {
        return "none";
    }
    struct psk_properties properties;
    psk_place_properties(place, &properties);
    (void)snprintf(text, sizeof(text), "%s: %s (%s)", psk_place_name(place), psk_plugin_path(psk_place_plugin(place)),
                   properties.name);
    return text;
}

/* An argument; data NULL: missing. */
static struct psk_tensor f32(const float *data, int64_t rows, int64_t cols)
{
    return (struct psk_tensor){.address = (psk_address)(uintptr_t)data,
                               .shape = {.rank = 2, .dims = {rows, cols}},
                               .dtype = data != NULL ? PS_F32 : PS_DTYPE_NONE};
}

static struct psk_tensor vector(const void *data, int64_t count, ps_dtype dtype)
{
    return (struct psk_tensor){.address = (psk_address)(uintptr_t)data,
                               .shape = {.rank = 1, .dims = {count}},
                               .dtype = data != NULL ? dtype : PS_DTYPE_NONE};
}

static struct psk_tensor scalar(const void *data, ps_dtype dtype)
{
    return (struct psk_tensor){.address = (psk_address)(uintptr_t)data, .dtype = data != NULL ? dtype : PS_DTYPE_NONE};
}

struct operation {
    psk_op op;
    const struct psk_tensor *args;
    struct psk_attrs attrs;
};

static ps_status check_all(const char *fn, const struct operation *ops, size_t count)
{
    struct psi_err err = {0};
    ps_status st = PS_OK;
    for (size_t i = 0; i < count && st == PS_OK; i++) {
        st = psk_host_check(ops[i].op, ops[i].args, &ops[i].attrs, &err);
    }
    return psi_nn_say(st, fn, &err);
}

static ps_status run_all(const char *fn, const struct operation *ops, size_t count)
{
    struct psi_err err = {0};
    struct psk_place *place = NULL;
    ps_status st = psi_nn_place(&place);
    if (st != PS_OK) {
        return st;
    }
    for (size_t i = 0; i < count && st == PS_OK; i++) {
        st = psk_host_compute(place, ops[i].op, ops[i].args, &ops[i].attrs, &err);
    }
    return psi_nn_say(st, fn, &err);
}

static ps_status run(const char *fn, psk_op op, const struct psk_tensor *args, const struct psk_attrs *attrs)
{
    struct operation one = {.op = op, .args = args};
    if (attrs != NULL) {
        one.attrs = *attrs;
    }
    const ps_status st = check_all(fn, &one, 1);
    return st == PS_OK ? run_all(fn, &one, 1) : st;
}

ps_status ps_nn_dense_forward(const float *x, const float *w, const float *b, float *y, int64_t batch, int64_t in, int64_t out)
{
    const struct psk_tensor args[] = {f32(x, batch, in), f32(w, in, out), vector(b, out, PS_F32), f32(y, batch, out)};
    return run("ps_nn_dense_forward", PSK_DENSE, args, NULL);
}

ps_status ps_nn_dense_backward(const float *x, const float *w, const float *dy, float *dw, float *db, float *dx, int64_t batch,
                               int64_t in, int64_t out)
{
    static const char fn[] = "ps_nn_dense_backward";
    const struct psk_tensor to_x[] = {f32(dy, batch, out), f32(w, in, out), f32(NULL, 0, 0), f32(dx, batch, in)};
    const struct psk_tensor to_w[] = {f32(x, batch, in), f32(dy, batch, out), f32(dw, in, out), vector(db, out, PS_F32)};
    struct operation ops[2];
    size_t count = 0;
    if (dw != NULL || db != NULL) {
        ops[count++] = (struct operation){.op = PSK_DENSE_DW, .args = to_w};
    }
    if (dx != NULL) {
        ops[count++] = (struct operation){.op = PSK_DENSE_DX, .args = to_x};
    }
    ps_status st = check_all(fn, ops, count);
    const struct {
        const char *name;
        const struct psk_tensor *t;
    } all[] = {{"dw", &to_w[2]}, {"db", &to_w[3]}, {"dx", &to_x[3]}, {"x", &to_w[0]}, {"w", &to_x[1]}, {"dy", &to_x[0]}};
    /* no output of one operation may overlap an argument of the other operation */
    for (size_t i = 0; i < 3 * 6 && st == PS_OK; i++) {
        const size_t o = i / 6;
        if (i % 6 > o && all[o].t->address != 0 && all[i % 6].t->address != 0 && !psk_tensors_apart(all[o].t, all[i % 6].t)) {
            st = psi_nn_fail(PS_INVALID_ARGUMENT, "%s: %s overlaps %s", fn, all[o].name, all[i % 6].name);
        }
    }
    return st == PS_OK ? run_all(fn, ops, count) : st;
}

static void csr_args(const ps_csr *x, struct psk_tensor *args)
{
    args[0] = vector(x->ends, x->rows, PS_I32);
    args[1] = vector(x->columns, psi_csr_count(x), PS_I32);
    args[2] = vector(x->values, psi_csr_count(x), PS_F32);
    for (size_t i = 0; i < 3; i++) { /* arguments without elements get a dtype too: dtype NONE means a missing argument */
        args[i].dtype = args[i].shape.dims[0] == 0 ? (i < 2 ? PS_I32 : PS_F32) : args[i].dtype;
    }
}

static ps_status csr_fits(const char *fn, const ps_csr *x)
{
    struct psi_err err = {0};
    return psi_nn_say(psi_csr_check(x, &err), fn, &err);
}

ps_status ps_nn_sparse_forward(const ps_csr *x, const float *w, const float *b, float *y, int64_t out)
{
    static const char fn[] = "ps_nn_sparse_forward";
    const ps_status st = csr_fits(fn, x);
    if (st != PS_OK) {
        return st;
    }
    struct psk_tensor args[] = {{0}, {0}, {0}, f32(w, x->cols, out), vector(b, out, PS_F32), f32(y, x->rows, out)};
    csr_args(x, args);
    return run(fn, PSK_SPARSE, args, NULL);
}

ps_status ps_nn_sparse_backward(const ps_csr *x, const float *dy, float *dw, float *db, int64_t out)
{
    static const char fn[] = "ps_nn_sparse_backward";
    const ps_status st = csr_fits(fn, x);
    if (st != PS_OK) {
        return st;
    }
    struct psk_tensor args[] = {{0}, {0}, {0}, f32(dy, x->rows, out), f32(dw, x->cols, out), vector(db, out, PS_F32)};
    csr_args(x, args);
    return run(fn, PSK_SPARSE_DW, args, NULL);
}

#define ELEMENTWISE(op, act)                                                                                                     \
    ps_status ps_nn_##op##_forward(const float *x, float *y, int64_t count)                                                      \
    {                                                                                                                            \
        const struct psk_tensor args[] = {f32(x, 1, count), f32(y, 1, count)};                                                   \
        return run("ps_nn_" #op "_forward", PSK_ACT, args, &(struct psk_attrs){.activation = (act)});                            \
    }                                                                                                                            \
    ps_status ps_nn_##op##_backward(const float *y, const float *dy, float *dx, int64_t count)                                   \
    {                                                                                                                            \
        const struct psk_tensor args[] = {f32(y, 1, count), f32(dy, 1, count), f32(dx, 1, count)};                               \
        return run("ps_nn_" #op "_backward", PSK_ACT_BACKWARD, args, &(struct psk_attrs){.activation = (act)});                  \
    }
ELEMENTWISE(relu, PSK_RELU)
ELEMENTWISE(sigmoid, PSK_SIGMOID)
ELEMENTWISE(tanh, PSK_TANH)

ps_status ps_nn_dropout(const float *in, float *out, int64_t count, uint64_t seed, float keep, uint64_t step)
{
    const struct psk_tensor args[] = {f32(in, 1, count), f32(out, 1, count)};
    return run("ps_nn_dropout", PSK_DROPOUT, args, &(struct psk_attrs){.seed = seed, .step = step, .keep = keep});
}

ps_status ps_nn_sgd(float *w, const float *dw, int64_t count, float rate)
{
    const struct psk_tensor args[] = {f32(w, 1, count), f32(dw, 1, count), f32(w, 1, count)};
    return run("ps_nn_sgd", PSK_SGD, args, &(struct psk_attrs){.rate = rate});
}

ps_status ps_nn_softmax_xent(const float *logits, const int32_t *labels, float *dlogits, int64_t batch, int64_t classes,
                             double *out_loss)
{
    const struct psk_tensor args[] = {f32(logits, batch, classes), vector(labels, batch, PS_I32), f32(dlogits, batch, classes),
                                      scalar(out_loss, PS_F64)};
    return run("ps_nn_softmax_xent", PSK_SOFTMAX_XENT, args, NULL);
}

static ps_status loss(const char *fn, const float *x, const float *t, float *dx, int64_t batch, int64_t cols, double *out_loss,
                      const struct psk_attrs *attrs)
{
    const struct psk_tensor args[] = {f32(x, batch, cols), f32(t, batch, cols), f32(dx, batch, cols), scalar(out_loss, PS_F64)};
    return run(fn, PSK_LOSS, args, attrs);
}

#define LOSS(name, kind)                                                                                                         \
    ps_status ps_nn_##name(const float *x, const float *t, float *dx, int64_t batch, int64_t cols, double *out_loss)             \
    {                                                                                                                            \
        return loss("ps_nn_" #name, x, t, dx, batch, cols, out_loss, &(struct psk_attrs){.loss = (kind)});                       \
    }
LOSS(sigmoid_xent, PSK_SIGMOID_XENT)
LOSS(mean_squared_error, PSK_SQUARED)
LOSS(mean_absolute_error, PSK_ABSOLUTE)

ps_status ps_nn_huber_error(const float *x, const float *t, float delta, float *dx, int64_t batch, int64_t cols, double *out_loss)
{
    const struct psk_attrs attrs = {.loss = PSK_HUBER, .delta = delta};
    return loss("ps_nn_huber_error", x, t, dx, batch, cols, out_loss, &attrs);
}

ps_status ps_nn_gelu_forward(const float *x, float *y, int64_t count)
{
    const struct psk_tensor args[] = {f32(x, 1, count), f32(y, 1, count)};
    return run("ps_nn_gelu_forward", PSK_GELU, args, NULL);
}

ps_status ps_nn_gelu_backward(const float *x, const float *dy, float *dx, int64_t count)
{
    const struct psk_tensor args[] = {f32(x, 1, count), f32(dy, 1, count), f32(dx, 1, count)};
    return run("ps_nn_gelu_backward", PSK_GELU_BACKWARD, args, NULL);
}

ps_status ps_nn_add(const float *a, const float *b, float *out, int64_t count)
{
    const struct psk_tensor args[] = {f32(a, 1, count), f32(b, 1, count), f32(out, 1, count)};
    return run("ps_nn_add", PSK_ADD, args, NULL);
}

ps_status ps_nn_layer_norm_forward(const float *x, const float *gamma, const float *beta, float *y, int64_t batch, int64_t cols,
                                   float epsilon)
{
    const struct psk_tensor args[] = {f32(x, batch, cols), vector(gamma, cols, PS_F32), vector(beta, cols, PS_F32),
                                      f32(y, batch, cols)};
    return run("ps_nn_layer_norm_forward", PSK_LAYER_NORM, args, &(struct psk_attrs){.epsilon = epsilon});
}

ps_status ps_nn_layer_norm_backward(const float *x, const float *gamma, const float *dy, float *dx, float *dgamma, float *dbeta,
                                    int64_t batch, int64_t cols, float epsilon)
{
    const struct psk_tensor args[] = {f32(x, batch, cols),  vector(gamma, cols, PS_F32),  f32(dy, batch, cols),
                                      f32(dx, batch, cols), vector(dgamma, cols, PS_F32), vector(dbeta, cols, PS_F32)};
    return run("ps_nn_layer_norm_backward", PSK_LAYER_NORM_BACKWARD, args, &(struct psk_attrs){.epsilon = epsilon});
}

ps_status ps_nn_argmax_count(const float *logits, const int32_t *labels, int64_t batch, int64_t classes, int64_t *out_count)
{
    const struct psk_tensor args[] = {f32(logits, batch, classes), vector(labels, batch, PS_I32), scalar(out_count, PS_I64)};
    return run("ps_nn_argmax_count", PSK_ARGMAX_COUNT, args, NULL);
}

uint64_t psi_padding(int64_t padding)
{
    return padding < 0 ? 0 : (uint64_t)padding + 1;
}

/* Return t. If it has no elements, it may have no dtype: it gets this one, as an argument without a dtype counts as missing. */
static struct psk_tensor present(struct psk_tensor t, ps_dtype dtype)
{
    t.dtype = ps_shape_elements(&t.shape) == 0 ? dtype : t.dtype;
    return t;
}

enum { INDICES, BAG_ENDS, WEIGHTS, BAG_ARGS };

static ps_status bag_args(const char *fn, const ps_bags *bags, struct psk_tensor out[BAG_ARGS], struct psk_attrs *attrs)
{
    if (bags == NULL) {
        return psi_nn_fail(PS_INVALID_ARGUMENT, "%s: bags is NULL", fn);
    }
    if (bags->bags < 0 || bags->count < 0) {
        return psi_nn_fail(PS_INVALID_ARGUMENT, "%s: %" PRId64 " bags of %" PRId64 " indices", fn, bags->bags, bags->count);
    }
    out[INDICES] = present(vector(bags->indices, bags->count, PS_I64), PS_I64);
    out[BAG_ENDS] = present(vector(bags->ends, bags->bags, PS_I64), PS_I64);
    out[WEIGHTS] = vector(bags->weights, bags->count, PS_F32);
    attrs->padding_plus_1 = psi_padding(bags->padding);
    return PS_OK;
}

/* Check bags without ends, which have one index each: they have neither weights nor a combiner. */
static ps_status single_check(const char *fn, const ps_bags *bags, ps_combiner combiner)
{
    if (bags->bags != bags->count) {
        return psi_nn_fail(PS_INVALID_ARGUMENT, "%s: %" PRId64 " bags of %" PRId64 " indices without ends", fn, bags->bags,
                           bags->count);
    }
    return bags->weights == NULL && combiner == PS_SUM
               ? PS_OK
               : psi_nn_fail(PS_INVALID_ARGUMENT, "%s: %s without ends", fn, bags->weights != NULL ? "weights" : "a combiner");
}

static bool is_single(const ps_bags *bags)
{
    return bags->ends == NULL && bags->bags > 0;
}

ps_status ps_nn_embedding_bag_forward(const float *rows, int64_t row_count, int64_t cols, const ps_bags *bags,
                                      ps_combiner combiner, float *y)
{
    static const char fn[] = "ps_nn_embedding_bag_forward";
    struct psk_attrs attrs = {.combiner = (uint32_t)combiner};
    struct psk_tensor in[BAG_ARGS];
    ps_status st = bag_args(fn, bags, in, &attrs);
    st = st == PS_OK && is_single(bags) ? single_check(fn, bags, combiner) : st;
    if (st != PS_OK) {
        return st;
    }
    const struct psk_tensor table = present(f32(rows, row_count, cols), PS_F32);
    const struct psk_tensor out = present(f32(y, bags->bags, cols), PS_F32);
    if (is_single(bags)) {
        return run(fn, PSK_EMBEDDING, (const struct psk_tensor[]){table, in[INDICES], out}, &attrs);
    }
    return run(fn, PSK_EMBEDDING_BAG, (const struct psk_tensor[]){table, in[INDICES], in[BAG_ENDS], in[WEIGHTS], out}, &attrs);
}

ps_status ps_nn_embedding_bag_backward(const ps_bags *bags, ps_combiner combiner, const float *dy, float *drows,
                                       int64_t row_count, int64_t cols)
{
    static const char fn[] = "ps_nn_embedding_bag_backward";
    struct psk_attrs attrs = {.combiner = (uint32_t)combiner};
    struct psk_tensor in[BAG_ARGS];
    ps_status st = bag_args(fn, bags, in, &attrs);
    st = st == PS_OK && is_single(bags) ? single_check(fn, bags, combiner) : st;
    if (st != PS_OK) {
        return st;
    }
    const struct psk_tensor none = {0};
    const struct psk_tensor d = present(f32(dy, bags->bags, cols), PS_F32);
    const struct psk_tensor out = present(f32(drows, row_count, cols), PS_F32);
    if (is_single(bags)) {
        return run(fn, PSK_EMBEDDING_BACKWARD, (const struct psk_tensor[]){none, in[INDICES], d, out}, &attrs);
    }
    return run(fn, PSK_EMBEDDING_BAG_BACKWARD, (const struct psk_tensor[]){none, in[INDICES], in[BAG_ENDS], in[WEIGHTS], d, out},
               &attrs);
}

ps_status ps_nn_fm_forward(const float *rows, int64_t row_count, int64_t cols, const ps_bags *bags, float *y, float *sums)
{
    static const char fn[] = "ps_nn_fm_forward";
    struct psk_attrs attrs = {0};
    struct psk_tensor in[BAG_ARGS];
    const ps_status st = bag_args(fn, bags, in, &attrs);
    if (st != PS_OK) {
        return st;
    }
    const struct psk_tensor args[] = {present(f32(rows, row_count, cols), PS_F32),
                                      in[INDICES],
                                      in[BAG_ENDS],
                                      in[WEIGHTS],
                                      present(vector(y, bags->bags, PS_F32), PS_F32),
                                      present(f32(sums, bags->bags, cols), PS_F32)};
    return run(fn, PSK_FM, args, &attrs);
}

ps_status ps_nn_fm_backward(const float *rows, int64_t row_count, int64_t cols, const ps_bags *bags, const float *sums,
                            const float *dy, float *drows)
{
    static const char fn[] = "ps_nn_fm_backward";
    struct psk_attrs attrs = {0};
    struct psk_tensor in[BAG_ARGS];
    const ps_status st = bag_args(fn, bags, in, &attrs);
    if (st != PS_OK) {
        return st;
    }
    const struct psk_tensor args[] = {present(f32(rows, row_count, cols), PS_F32),
                                      in[INDICES],
                                      in[BAG_ENDS],
                                      in[WEIGHTS],
                                      present(f32(sums, bags->bags, cols), PS_F32),
                                      present(vector(dy, bags->bags, PS_F32), PS_F32),
                                      present(f32(drows, row_count, cols), PS_F32)};
    return run(fn, PSK_FM_BACKWARD, args, &attrs);
}

static ps_status fields_fit(const char *fn, uint32_t fields, int64_t cols, int64_t *values)
{
    return cols >= 1 && !__builtin_mul_overflow((int64_t)fields, cols, values)
               ? PS_OK
               : psi_nn_fail(PS_INVALID_ARGUMENT, "%s: %" PRIu32 " fields of %" PRId64 " values", fn, fields, cols);
}

ps_status ps_nn_dot_forward(const float *x, float *y, int64_t batch, uint32_t fields, int64_t cols)
{
    static const char fn[] = "ps_nn_dot_forward";
    const int64_t pairs = (int64_t)((uint64_t)fields * (fields - UINT64_C(1)) / 2); /* below 2^63 */
    int64_t values = 0;
    const ps_status st = fields_fit(fn, fields, cols, &values);
    const struct psk_tensor args[] = {present(f32(x, batch, values), PS_F32), present(f32(y, batch, pairs), PS_F32)};
    return st == PS_OK ? run(fn, PSK_DOT, args, &(struct psk_attrs){.fields = fields}) : st;
}

ps_status ps_nn_dot_backward(const float *x, const float *dy, float *dx, int64_t batch, uint32_t fields, int64_t cols)
{
    static const char fn[] = "ps_nn_dot_backward";
    const int64_t pairs = (int64_t)((uint64_t)fields * (fields - UINT64_C(1)) / 2); /* below 2^63 */
    int64_t values = 0;
    const ps_status st = fields_fit(fn, fields, cols, &values);
    const struct psk_tensor args[] = {present(f32(x, batch, values), PS_F32), present(f32(dy, batch, pairs), PS_F32),
                                      present(f32(dx, batch, values), PS_F32)};
    return st == PS_OK ? run(fn, PSK_DOT_BACKWARD, args, &(struct psk_attrs){.fields = fields}) : st;
}

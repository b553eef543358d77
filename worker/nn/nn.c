/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ps_nn.h, plain pointers: the arguments become tensors, one call checks them by the table of operations and runs the operation.
 *
 * Happy path on the CPU: the caller's memory is the operation's. On a device with its own memory inputs are copied there and
 * outputs back, and the call waits: for tests and for programs that compute something now and then. Failure modes: an argument
 * that cannot be (typed, named, outputs untouched), a device that cannot be opened or fails. The text of the last error is kept
 * per thread.
 */
#include "nn.h"

#include "worker/nn/kernels/block.h"
#include "worker/nn/kernels/plugin.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char error_text[PSI_ERR_TEXT_MAX];

ps_status psi_nn_fail(ps_status st, const char *format, ...)
{
    char text[PSI_ERR_TEXT_MAX]; /* arguments may point into error_text */
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

/* ---- compressed sparse rows ---- */

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

/* ---- the device of this level ---- */

static struct psk_place *plain_place; /* atomic; NULL: none yet */
static pthread_mutex_t plain_mutex = PTHREAD_MUTEX_INITIALIZER;

ps_status ps_nn_open(const char *device)
{
    struct psi_err err = {0};
    struct psk_place *place = NULL;
    const ps_status st = psk_place_open(device != NULL ? device : "cpu", 0, &place, &err);
    if (st != PS_OK) {
        return psi_nn_say(st, "ps_nn_open", &err);
    }
    (void)pthread_mutex_lock(&plain_mutex);
    struct psk_place *old = plain_place;
    __atomic_store_n(&plain_place, place, __ATOMIC_RELEASE);
    (void)pthread_mutex_unlock(&plain_mutex);
    psk_place_close(old);
    return PS_OK;
}

ps_status psi_nn_place(struct psk_place **out)
{
    *out = __atomic_load_n(&plain_place, __ATOMIC_ACQUIRE);
    const ps_status st = *out != NULL ? PS_OK : ps_nn_open(NULL);
    *out = __atomic_load_n(&plain_place, __ATOMIC_ACQUIRE);
    return st;
}

const char *ps_nn_backend(void)
{
    static _Thread_local char text[4096 + 128];
    const struct psk_place *place = __atomic_load_n(&plain_place, __ATOMIC_ACQUIRE);
    if (place == NULL) {
        return "none";
    }
    struct psk_properties properties;
    psk_place_properties(place, &properties);
    (void)snprintf(text, sizeof(text), "%s: %s (%s)", psk_place_name(place), psk_plugin_path(psk_place_plugin(place)),
                   properties.name);
    return text;
}

/* ---- one operation ---- */

/* An argument; NULL memory is none. */
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

struct submission {
    psk_op op;
    const struct psk_tensor *args;
    const struct psk_attrs *attrs;
};

static ps_status submit(const struct psk_plugin *plugin, struct psk_device *device, struct psk_stream *stream, const void *arg,
                        struct psi_err *err)
{
    const struct submission *s = arg;
    return plugin->run[s->op](device, stream, s->args, s->attrs, err);
}

/* In the caller's memory: the place has the host's. */
static ps_status run_here(struct psk_place *place, psk_op op, const struct psk_tensor *args, const struct psk_attrs *attrs,
                          struct psi_err *err)
{
    const struct submission s = {op, args, attrs};
    const struct psk_work work = {.stream = PSK_COMPUTE, .submit = submit, .arg = &s};
    return psk_place_submit(place, &work, err);
}

static size_t bytes_of(const struct psk_tensor *t)
{
    return t->address != 0 ? psk_tensor_bytes(t) : 0;
}

/* Inputs there, outputs back. Arguments that are the same memory are one block. */
static ps_status run_there(struct psk_place *place, psk_op op, const struct psk_tensor *args, const struct psk_attrs *attrs,
                           struct psi_err *err)
{
    struct psk_block blocks[PSK_ARGS_MAX] = {0};
    struct psk_use uses[PSK_ARGS_MAX] = {0};
    void *memory = NULL;
    ps_status st = PS_OK;
    const size_t count = psk_arg_count(op);
    for (size_t i = 0; i < count && st == PS_OK; i++) {
        size_t same = 0;
        const size_t bytes = bytes_of(&args[i]);
        while (args[same].address != args[i].address || bytes_of(&args[same]) != bytes) {
            same++;
        }
        uses[i] = (struct psk_use){args[i].address != 0 ? &blocks[same] : NULL, args[i].shape, args[i].dtype};
        if (bytes > 0 && !psk_rows[op].args[i].output && same == i) {
            st = psk_block_write(&blocks[i], place, bytes, &memory, err);
            if (st == PS_OK) {
                memcpy(memory, (const void *)(uintptr_t)args[i].address, bytes);
            }
        }
    }
    st = st == PS_OK ? psk_block_run(place, op, uses, attrs, NULL, err) : st;
    for (size_t i = 0; i < count && st == PS_OK; i++) {
        const size_t bytes = bytes_of(&args[i]);
        if (bytes > 0 && psk_rows[op].args[i].output) {
            st = psk_block_read(uses[i].block, bytes, &memory, err);
            if (st == PS_OK) {
                memcpy((void *)(uintptr_t)args[i].address, memory, bytes);
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        psk_block_fini(&blocks[i]);
    }
    return st;
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
        st = psk_op_check(ops[i].op, ops[i].args, &ops[i].attrs, NULL, &err);
        st = st == PS_OK ? psk_op_check_overlap(ops[i].op, ops[i].args, NULL, &err) : st;
        st = st == PS_OK ? psk_op_check_labels(ops[i].op, ops[i].args, &err) : st;
        st = st == PS_OK ? psk_op_check_rows(ops[i].op, ops[i].args, &err) : st;
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
        st = psk_place_has_host_memory(place) ? run_here(place, ops[i].op, ops[i].args, &ops[i].attrs, &err)
                                              : run_there(place, ops[i].op, ops[i].args, &ops[i].attrs, &err);
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

/* ---- the functions ---- */

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
    for (size_t i = 0; i < 3 * 6 && st == PS_OK; i++) { /* an output of one operation and what the other one reads too */
        const size_t o = i / 6;
        if (i % 6 > o && all[o].t->address != 0 && all[i % 6].t->address != 0 && !psk_tensors_apart(all[o].t, all[i % 6].t)) {
            st = psi_nn_fail(PS_INVALID_ARGUMENT, "%s: %s overlaps %s", fn, all[o].name, all[i % 6].name);
        }
    }
    return st == PS_OK ? run_all(fn, ops, count) : st;
}

/* The three arguments of rows. */
static void csr_args(const ps_csr *x, struct psk_tensor *args)
{
    args[0] = vector(x->ends, x->rows, PS_I32);
    args[1] = vector(x->columns, psi_csr_count(x), PS_I32);
    args[2] = vector(x->values, psi_csr_count(x), PS_F32);
    for (size_t i = 0; i < 3; i++) { /* none of them is optional: without elements it needs no memory */
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

/* ps_nn_OP_forward() and ps_nn_OP_backward() */
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

ps_status ps_nn_argmax_count(const float *logits, const int32_t *labels, int64_t batch, int64_t classes, int64_t *out_count)
{
    const struct psk_tensor args[] = {f32(logits, batch, classes), vector(labels, batch, PS_I32), scalar(out_count, PS_I64)};
    return run("ps_nn_argmax_count", PSK_ARGMAX_COUNT, args, NULL);
}

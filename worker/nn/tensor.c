/* SPDX-License-Identifier: Apache-2.0 */
/* ps_nn.h, tensors and parameters: each function submits one or two operations to a device. Happy path: inputs are valid; the
 * device is that of the parameter's session, or of the first input; shapes fit; the operation is submitted; the output's status
 * is cleared. Failure modes: errors are written into the output tensor (status and text), travel from tensor to tensor, and
 * become sticky in a session at the first call with a parameter. A failed session computes nothing; its error travels too. */
#include "common/limits.h"
#include "common/mem.h"
#include "nn.h"
#include "worker/api/compute.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { OF_HEAP = 1, SHAPED = 2 }; /* ps_tensor.flags: OF_HEAP: ps_tensor_new() allocated it; SHAPED: outputs must fit its shape */

_Static_assert(sizeof(struct psk_block) <= sizeof(((ps_tensor *)0)->memory), "a tensor has room for its block");
_Static_assert(PS_LINEAR == (int)PSK_LINEAR && PS_RELU == (int)PSK_RELU && PS_SIGMOID == (int)PSK_SIGMOID &&
                   PS_TANH == (int)PSK_TANH,
               "the same activations");

static struct psk_block *block_of(ps_tensor *t)
{
    return (struct psk_block *)(void *)t->memory;
}

static size_t bytes_of(const ps_tensor *t)
{
    return (size_t)(t->rows * t->cols) * ps_dtype_bytes((ps_dtype)t->dtype);
}

static void note_place(ps_tensor *t)
{
    const struct psk_place *place = psk_block_where(block_of(t));
    t->place = place == NULL || psk_place_has_host_memory(place) ? PS_ON_HOST : 1 + psk_place_index(place);
}

/* Store st, and on an error this thread's error text, in the call's output tensor. out NULL: no output tensor. Returns st. */
static ps_status settle(ps_tensor *out, ps_status st)
{
    if (out != NULL) {
        out->status = (int32_t)st;
        snprintf(out->error, sizeof(out->error), "%.*s", (int)sizeof(out->error) - 1, st == PS_OK ? "" : ps_nn_error());
    }
    return st;
}

/* Return PS_OK, or the session's first error, whose text then becomes this thread's (ps_nn_error()). */
static ps_status session_check(ps_param *p)
{
    ps_session *s = ps_param_session(p);
    const ps_status st = ps_session_status(s);
    return st == PS_OK ? st : psi_nn_fail(st, "%s", ps_session_error(s));
}

static bool shape_ok(int64_t rows, int64_t cols, ps_dtype dtype)
{
    int64_t bytes = 0;
    return rows >= 0 && cols >= 1 && !__builtin_mul_overflow(rows, cols, &bytes) &&
           !__builtin_mul_overflow(bytes, (int64_t)ps_dtype_bytes(dtype), &bytes) && bytes < INT64_MAX / 2;
}

static ps_status shape_fail(const char *fn, int64_t rows, int64_t cols)
{
    return psi_nn_fail(PS_INVALID_ARGUMENT, "%s: (%" PRId64 ", %" PRId64 ") is not a size", fn, rows, cols);
}

/* Give the tensor a new shape for new values; memory that is large enough is used again. */
static void reshape(ps_tensor *t, ps_dtype dtype, int64_t rows, int64_t cols)
{
    t->dtype = (uint32_t)dtype;
    t->rows = rows;
    t->cols = cols;
    t->rows_capacity = rows;
    block_of(t)->room_bytes = bytes_of(t);
}

/* Give the tensor this shape. If dtype and columns stay, and the memory suffices, only the number of rows changes. */
static void give_shape(ps_tensor *t, ps_dtype dtype, int64_t rows, int64_t cols)
{
    if (t->dtype != (uint32_t)dtype || t->cols != cols || t->rows_capacity < rows) {
        reshape(t, dtype, rows, cols);
    }
    t->rows = rows;
}

static void empty(ps_tensor *t)
{
    block_of(t)->on_host = false;
    block_of(t)->on_device = false;
    t->wrapped = NULL;
    t->status = PS_OK;
    t->error[0] = '\0';
    note_place(t);
}

ps_status ps_tensor_init(ps_tensor *t, ps_dtype dtype, int64_t rows, int64_t cols)
{
    static const char fn[] = "ps_tensor_init";
    if (t == NULL) {
        return psi_nn_fail(PS_INVALID_ARGUMENT, "%s: tensor is NULL", fn);
    }
    if (dtype != PS_F32 && dtype != PS_I32 && dtype != PS_I64) {
        return psi_nn_fail(PS_INVALID_ARGUMENT, "%s: dtype %s, allowed are float32, int32 and int64", fn, ps_dtype_name(dtype));
    }
    if (!shape_ok(rows, cols, dtype)) {
        return shape_fail(fn, rows, cols);
    }
    reshape(t, dtype, rows, cols);
    empty(t);
    t->flags |= SHAPED;
    return PS_OK;
}

ps_tensor *ps_tensor_new(int64_t rows, int64_t cols)
{
    if (!shape_ok(rows, cols, PS_F32)) {
        PSI_IGNORE(shape_fail("ps_tensor_new", rows, cols)); /* NULL tells the caller */
        return NULL;
    }
    ps_tensor *t = psi_calloc(1, sizeof(*t));
    if (t == NULL) {
        PSI_IGNORE(psi_nn_fail(PS_RESOURCE_EXHAUSTED, "ps_tensor_new: no memory")); /* NULL tells the caller */
        return NULL;
    }
    reshape(t, PS_F32, rows, cols);
    t->flags = OF_HEAP | SHAPED;
    return t;
}

static void wrap(ps_tensor *t, const void *data, ps_dtype dtype, int64_t rows, int64_t cols)
{
    static const char fn[] = "ps_tensor_wrap";
    if (t == NULL) {
        return;
    }
    empty(t);
    t->flags |= SHAPED;
    if (!shape_ok(rows, cols, dtype)) {
        PSI_IGNORE(settle(t, shape_fail(fn, rows, cols))); /* every use of t reports the error */
    } else if (data == NULL && rows > 0) {
        PSI_IGNORE(settle(t, psi_nn_fail(PS_INVALID_ARGUMENT, "%s: data is NULL", fn))); /* every use of t reports the error */
    } else {
        reshape(t, dtype, rows, cols);
        t->wrapped = data;
    }
}

void ps_tensor_wrap(ps_tensor *t, const float *data, int64_t rows, int64_t cols)
{
    wrap(t, data, PS_F32, rows, cols);
}

void ps_tensor_wrap_labels(ps_tensor *t, const int32_t *labels, int64_t rows)
{
    wrap(t, labels, PS_I32, rows, 1);
}

void ps_tensor_wrap_indices(ps_tensor *t, const int64_t *indices, int64_t rows)
{
    wrap(t, indices, PS_I64, rows, 1);
}

ps_status ps_tensor_set_rows(ps_tensor *t, int64_t rows)
{
    if (t == NULL) {
        return psi_nn_fail(PS_INVALID_ARGUMENT, "ps_tensor_set_rows: tensor is NULL");
    }
    if (rows < 0 || rows > t->rows_capacity) {
        return psi_nn_fail(PS_OUT_OF_RANGE, "ps_tensor_set_rows: %" PRId64 " rows, allowed is 0 to %" PRId64, rows,
                           t->rows_capacity);
    }
    t->rows = rows;
    return PS_OK;
}

void ps_tensor_free(ps_tensor *t)
{
    if (t == NULL) {
        return;
    }
    const bool of_heap = (t->flags & OF_HEAP) != 0;
    psk_block_fini(block_of(t));
    memset(t, 0, sizeof(*t));
    if (of_heap) {
        psi_free(t);
    }
}

static ps_status take_wrapped(ps_tensor *t, struct psk_place *place, struct psi_err *err)
{
    void *memory = NULL;
    const size_t bytes = block_of(t)->room_bytes;
    if (t->wrapped == NULL) {
        return PS_OK;
    }
    const ps_status st = bytes > 0 ? psk_block_write(block_of(t), place, bytes, &memory, err) : PS_OK;
    if (st == PS_OK && bytes > 0) {
        memcpy(memory, t->wrapped, bytes);
    }
    t->wrapped = st == PS_OK ? NULL : t->wrapped;
    return st;
}

static ps_status valid(const char *fn, const char *name, const ps_tensor *t)
{
    if (t == NULL) {
        return psi_nn_fail(PS_INVALID_ARGUMENT, "%s: %s is NULL", fn, name);
    }
    if (t->status == PS_OK && t->dtype == PS_DTYPE_NONE) {
        return psi_nn_fail(PS_INVALID_ARGUMENT, "%s: %s has no values yet", fn, name);
    }
    return t->status == PS_OK ? PS_OK : psi_nn_fail((ps_status)t->status, "%s", t->error);
}

/* Bytes to allocate for the values of t: at least 1, so that NULL always means an error. */
static size_t some_bytes(const ps_tensor *t)
{
    return bytes_of(t) > 0 ? bytes_of(t) : 1;
}

const void *ps_tensor_read(ps_tensor *t)
{
    static const char fn[] = "ps_tensor_read";
    struct psi_err err = {0};
    void *memory = NULL;
    ps_status st = valid(fn, "tensor", t);
    if (st != PS_OK) {
        return NULL;
    }
    st = take_wrapped(t, NULL, &err);
    st = st == PS_OK ? psk_block_read(block_of(t), some_bytes(t), &memory, &err) : st;
    note_place(t);
    return settle(t, psi_nn_say(st, fn, &err)) == PS_OK ? memory : NULL;
}

void *ps_tensor_write(ps_tensor *t)
{
    static const char fn[] = "ps_tensor_write";
    struct psi_err err = {0};
    void *memory = NULL;
    if (t == NULL || t->dtype == PS_DTYPE_NONE) {
        PSI_IGNORE(psi_nn_fail(PS_INVALID_ARGUMENT, "%s: tensor %s", fn, t == NULL ? "is NULL" : "has no shape yet"));
        return NULL;
    }
    const ps_status st = psk_block_write(block_of(t), NULL, some_bytes(t), &memory, &err);
    t->wrapped = NULL;
    note_place(t);
    return settle(t, psi_nn_say(st, fn, &err)) == PS_OK ? memory : NULL;
}

double ps_tensor_scalar(ps_tensor *t)
{
    const void *memory = ps_tensor_read(t);
    if (memory == NULL) {
        return NAN;
    }
    if (t->rows != 1 || t->cols != 1) {
        PSI_IGNORE(
            psi_nn_fail(PS_INVALID_ARGUMENT, "ps_tensor_scalar: the tensor is (%" PRId64 ", %" PRId64 ")", t->rows, t->cols));
        return NAN;
    }
    switch ((ps_dtype)t->dtype) {
    case PS_F64:
        return *(const double *)memory;
    case PS_I64:
        return (double)*(const int64_t *)memory;
    case PS_I32:
        return *(const int32_t *)memory;
    default:
        return (double)*(const float *)memory;
    }
}

/* An argument: a tensor, a parameter's value or gradient, or the program's memory; all NULL: a missing argument. */
struct arg {
    ps_tensor *t;
    ps_param *value, *grad;
    const struct psk_use *memory; /* an input that the operation reads in place, on the host */
};

struct call {
    const char *fn;
    psk_op op;
    const struct arg *args;
    const struct psk_attrs *attrs; /* NULL: zeros */
};

enum { NAME_BYTES = PS_NAME_BYTES_MAX + 16 };

/* A tensor's shape in the rank that the operation wants: rank 1 for a tensor of one column, rank 0 for a single value. */
static ps_shape shape_of(const ps_tensor *t, size_t rank)
{
    ps_shape shape = {.rank = 2, .dims = {t->rows, t->cols}};
    if (rank == 1 && t->cols == 1) {
        shape = (ps_shape){.rank = 1, .dims = {t->rows}};
    } else if (rank == 0 && t->rows == 1 && t->cols == 1) {
        shape = (ps_shape){.rank = 0};
    }
    return shape;
}

/* Give each output without a shape the shape that follows from the inputs. If none follows, psk_op_check() fails later. */
static void shape_outputs(const struct call *c, struct psk_use *uses)
{
    struct psk_tensor known[PSK_ARGS_MAX] = {0};
    const size_t count = psk_arg_count(c->op);
    for (size_t i = 0; i < count; i++) {
        const bool open = c->args[i].t != NULL && psk_rows[c->op].args[i].output && (c->args[i].t->flags & SHAPED) == 0;
        if (uses[i].block != NULL && !open) {
            known[i] = (struct psk_tensor){.shape = uses[i].shape, .dtype = uses[i].dtype};
        }
    }
    for (size_t i = 0; i < count; i++) {
        const struct psk_arg *row = &psk_rows[c->op].args[i];
        ps_tensor *t = c->args[i].t;
        ps_shape shape;
        if (t == NULL || !row->output || (t->flags & SHAPED) != 0 || !psk_op_shape(c->op, known, i, &shape)) {
            continue;
        }
        const int64_t rows = shape.rank > 0 ? shape.dims[0] : 1;
        const int64_t cols = shape.rank > 1 ? shape.dims[1] : 1;
        if (!shape_ok(rows, cols, row->dtype)) {
            continue;
        }
        give_shape(t, row->dtype, rows, cols);
        uses[i].shape = shape;
        uses[i].dtype = row->dtype;
    }
}

static ps_status place_of(const struct call *c, struct psk_place **out, struct psi_err *err)
{
    struct psk_place *place = NULL;
    for (size_t i = 0; i < psk_arg_count(c->op); i++) {
        ps_param *p = c->args[i].value != NULL ? c->args[i].value : c->args[i].grad;
        if (p != NULL) {
            return psi_param_place(p, out, err);
        }
        if (place == NULL && c->args[i].t != NULL && !psk_rows[c->op].args[i].output) {
            place = block_of(c->args[i].t)->place;
        }
    }
    if (place == NULL) {
        const ps_status st = psi_nn_place(&place);
        if (st != PS_OK) {
            return psi_fail(err, st, "%s", ps_nn_error());
        }
    }
    *out = place;
    return PS_OK;
}

static ps_status use_arg(const struct call *c, size_t i, struct psk_use *use, char *name, const char **out_name)
{
    const struct psk_arg *row = &psk_rows[c->op].args[i];
    const struct arg *a = &c->args[i];
    ps_param *p = a->value != NULL ? a->value : a->grad;
    if (p != NULL) {
        *use =
            (struct psk_use){a->value != NULL ? psi_param_value_block(p) : psi_param_grad_block(p), *ps_param_shape(p), PS_F32};
        (void)snprintf(name, NAME_BYTES, "%s '%s'", row->name, ps_param_name(p));
        *out_name = name;
        if (use->block == NULL) {
            const ps_status st = session_check(p);
            return st != PS_OK ? st : psi_nn_fail(PS_INTERNAL, "%s: no gradient buffer", c->fn);
        }
    } else if (a->t != NULL) {
        const ps_status st = row->output ? PS_OK : valid(c->fn, row->name, a->t);
        if (st != PS_OK) {
            return st;
        }
        *use = (struct psk_use){block_of(a->t), shape_of(a->t, strlen(row->dims)), (ps_dtype)a->t->dtype};
    } else if (a->memory != NULL) {
        *use = *a->memory;
    }
    return PS_OK;
}

/* Check statuses and shapes, choose the device and submit; the caller has checked the session's error. */
static ps_status run(const struct call *c)
{
    struct psk_use uses[PSK_ARGS_MAX] = {0};
    char text[PSK_ARGS_MAX][NAME_BYTES];
    const char *names[PSK_ARGS_MAX] = {NULL};
    struct psk_place *place = NULL;
    struct psi_err err = {0};
    const size_t count = psk_arg_count(c->op);
    for (size_t i = 0; i < count; i++) {
        const ps_status st = use_arg(c, i, &uses[i], text[i], &names[i]);
        if (st != PS_OK) {
            return st;
        }
    }
    shape_outputs(c, uses);
    ps_status st = place_of(c, &place, &err);
    for (size_t i = 0; i < count && st == PS_OK; i++) {
        if (c->args[i].t != NULL && !psk_rows[c->op].args[i].output) {
            st = take_wrapped(c->args[i].t, place, &err);
        }
    }
    st = st == PS_OK ? psk_block_run(place, c->op, uses, c->attrs, names, &err) : st;
    for (size_t i = 0; i < count; i++) {
        if (c->args[i].t != NULL) {
            if (psk_rows[c->op].args[i].output) {
                c->args[i].t->wrapped = st == PS_OK ? NULL : c->args[i].t->wrapped;
            }
            note_place(c->args[i].t);
        }
    }
    return psi_nn_say(st, c->fn, &err);
}

/* Store st, the outcome of a call with a parameter, in *out. An error also becomes the session's, unless the session has one. */
static ps_status settle_param(ps_param *p, ps_tensor *out, ps_status st)
{
    if (st != PS_OK && ps_session_status(ps_param_session(p)) == PS_OK) {
        PSI_IGNORE(ps_param_fail(p, st, ps_nn_error())); /* the session keeps its first error */
    }
    return settle(out, st);
}

static ps_status dense(const char *fn, ps_tensor *x, ps_param *w, ps_param *b, ps_activation act, ps_tensor *y)
{
    if (w == NULL) {
        return settle(y, psi_nn_fail(PS_INVALID_ARGUMENT, "%s: w is NULL", fn));
    }
    const struct psk_attrs attrs = {.activation = (uint32_t)act};
    const struct arg args[] = {{.t = x}, {.value = w}, {.value = b}, {.t = y}};
    ps_status st = session_check(w);
    st = st == PS_OK ? run(&(struct call){fn, PSK_DENSE, args, &attrs}) : st;
    return settle_param(w, y, st);
}

ps_status ps_dense(ps_tensor *x, ps_param *w, ps_param *b, ps_tensor *y)
{
    return dense("ps_dense", x, w, b, PS_LINEAR, y);
}

ps_status ps_dense_act(ps_tensor *x, ps_param *w, ps_param *b, ps_activation act, ps_tensor *y)
{
    return dense("ps_dense_act", x, w, b, act, y);
}

/* Check the arguments of a layer's backward before anything is computed or waited for. */
static ps_status dense_backward_check(const char *fn, ps_tensor *x, ps_tensor *dy, ps_param *w, ps_param *b, ps_tensor *dx)
{
    struct psi_err err = {0};
    char w_name[NAME_BYTES];
    char b_name[NAME_BYTES];
    ps_status st = valid(fn, "x", x);
    st = st == PS_OK ? valid(fn, "dy", dy) : st;
    if (st != PS_OK) {
        return st;
    }
    if (dx != NULL && (dx == x || dx == dy)) {
        return psi_nn_fail(PS_INVALID_ARGUMENT, "%s: dx overlaps %s", fn, dx == x ? "x" : "dy");
    }
    (void)snprintf(w_name, sizeof(w_name), "w '%s'", ps_param_name(w));
    (void)snprintf(b_name, sizeof(b_name), "b '%s'", ps_param_name(b));
    const char *const names[] = {NULL, w_name, b_name, "dy"};
    const struct psk_tensor layer[] = {{.shape = shape_of(x, 2), .dtype = (ps_dtype)x->dtype},
                                       {.shape = *ps_param_shape(w), .dtype = PS_F32},
                                       {.shape = *ps_param_shape(b), .dtype = b != NULL ? PS_F32 : PS_DTYPE_NONE},
                                       {.shape = shape_of(dy, 2), .dtype = (ps_dtype)dy->dtype}};
    const struct psk_attrs none = {0};
    return psi_nn_say(psk_op_check(PSK_DENSE, layer, &none, names, &err), fn, &err);
}

static ps_status dense_backward(const char *fn, ps_tensor *x, ps_activation x_act, ps_tensor *dy, ps_param *w, ps_param *b,
                                ps_tensor *dx)
{
    if (w == NULL) {
        return settle(dx, psi_nn_fail(PS_INVALID_ARGUMENT, "%s: w is NULL", fn));
    }
    const struct psk_attrs attrs = {.activation = (uint32_t)x_act};
    const struct arg to_x[] = {{.t = dy}, {.value = w}, {.t = x_act != PS_LINEAR ? x : NULL}, {.t = dx}};
    const struct arg to_w[] = {{.t = x}, {.t = dy}, {.grad = w}, {.grad = b}};
    const struct call dx_call = {fn, PSK_DENSE_DX, to_x, &attrs};
    const struct call dw_call = {fn, PSK_DENSE_DW, to_w, NULL};
    struct psk_place *place = NULL;
    struct psi_err err = {0};
    ps_status st = session_check(w);
    st = st == PS_OK ? dense_backward_check(fn, x, dy, w, b, dx) : st;
    st = st == PS_OK ? psi_nn_say(psi_param_place(w, &place, &err), fn, &err) : st;
    if (st == PS_OK && psk_place_has_host_memory(place)) { /* dw last: the previous push may still read dw's buffer */
        st = dx != NULL ? run(&dx_call) : PS_OK;
        st = st == PS_OK ? run(&dw_call) : st;
    } else if (st == PS_OK) { /* dw first: a push can copy dw from the device while dx is computed */
        st = run(&dw_call);
        st = st == PS_OK && dx != NULL ? run(&dx_call) : st;
    }
    return settle_param(w, dx, st);
}

ps_status ps_dense_backward(ps_tensor *x, ps_tensor *dy, ps_param *w, ps_param *b, ps_tensor *dx)
{
    return dense_backward("ps_dense_backward", x, PS_LINEAR, dy, w, b, dx);
}

ps_status ps_dense_act_backward(ps_tensor *x, ps_activation x_act, ps_tensor *dy, ps_param *w, ps_param *b, ps_tensor *dx)
{
    return dense_backward("ps_dense_act_backward", x, x_act, dy, w, b, dx);
}

enum { ENDS, COLUMNS, VALUES, PARTS };

/* Blocks for the arrays of a ps_csr. Their host memory is these arrays, which the program frees; they own their device memory. */
struct rows {
    struct psk_block blocks[PARTS];
    struct psk_use uses[PARTS];
};

static void rows_init(struct rows *r, const ps_csr *x)
{
    const void *const memory[PARTS] = {x->ends, x->columns, x->values};
    const int64_t counts[PARTS] = {x->rows, psi_csr_count(x), psi_csr_count(x)};
    for (size_t i = 0; i < PARTS; i++) {
        r->blocks[i] = (struct psk_block){.host = (void *)(uintptr_t)memory[i], /* cast: an input is only read */
                                          .host_bytes = (size_t)counts[i] * sizeof(float),
                                          .on_host = true};
        r->uses[i] = (struct psk_use){
            &r->blocks[i], {.rank = 1, .dims = {counts[i]}}, i == VALUES ? PS_F32 : PS_I32}; /* all elements have four bytes */
    }
}

static void rows_fini(struct rows *r)
{
    for (size_t i = 0; i < PARTS; i++) {
        r->blocks[i].host = NULL;
        psk_block_fini(&r->blocks[i]);
    }
}

/* Run an operation on the sparse matrix x and the parameter w. rest: the operation's arguments after x's three arrays. */
static ps_status run_sparse(const char *fn, psk_op op, const ps_csr *x, ps_param *w, const struct arg rest[PARTS],
                            const struct psk_attrs *attrs)
{
    struct psi_err err = {0};
    struct rows r;
    ps_status st = session_check(w);
    st = st == PS_OK ? psi_nn_say(psi_csr_check(x, &err), fn, &err) : st;
    if (st == PS_OK && ps_param_shape(w)->rank == 2 && ps_param_shape(w)->dims[0] != x->cols) {
        st = psi_nn_fail(PS_INVALID_ARGUMENT, "%s: x has %" PRId64 " columns, but w '%s' has %" PRId64 " rows", fn, x->cols,
                         ps_param_name(w), ps_param_shape(w)->dims[0]);
    }
    if (st != PS_OK) {
        return st;
    }
    rows_init(&r, x);
    const struct arg args[] = {
        {.memory = &r.uses[ENDS]}, {.memory = &r.uses[COLUMNS]}, {.memory = &r.uses[VALUES]}, rest[0], rest[1], rest[2]};
    st = run(&(struct call){fn, op, args, attrs});
    rows_fini(&r);
    return st;
}

ps_status ps_sparse_act(const ps_csr *x, ps_param *w, ps_param *b, ps_activation act, ps_tensor *y)
{
    static const char fn[] = "ps_sparse_act";
    const struct psk_attrs attrs = {.activation = (uint32_t)act};
    const struct arg rest[] = {{.value = w}, {.value = b}, {.t = y}};
    if (w == NULL) {
        return settle(y, psi_nn_fail(PS_INVALID_ARGUMENT, "%s: w is NULL", fn));
    }
    return settle_param(w, y, run_sparse(fn, PSK_SPARSE, x, w, rest, &attrs));
}

ps_status ps_sparse_backward(const ps_csr *x, ps_tensor *dy, ps_param *w, ps_param *b)
{
    static const char fn[] = "ps_sparse_backward";
    const struct arg rest[] = {{.t = dy}, {.grad = w}, {.grad = b}};
    if (w == NULL) {
        return psi_nn_fail(PS_INVALID_ARGUMENT, "%s: w is NULL", fn);
    }
    return settle_param(w, NULL, run_sparse(fn, PSK_SPARSE_DW, x, w, rest, NULL));
}

static ps_status run_tensors(const char *fn, psk_op op, const struct arg *args, const struct psk_attrs *attrs, ps_tensor *out)
{
    return settle(out, run(&(struct call){fn, op, args, attrs}));
}

#define ELEMENTWISE(op, act)                                                                                                     \
    ps_status ps_##op(ps_tensor *x, ps_tensor *y)                                                                                \
    {                                                                                                                            \
        const struct arg args[] = {{.t = x}, {.t = y}};                                                                          \
        return run_tensors("ps_" #op, PSK_ACT, args, &(struct psk_attrs){.activation = (act)}, y);                               \
    }                                                                                                                            \
    ps_status ps_##op##_backward(ps_tensor *y, ps_tensor *dy, ps_tensor *dx)                                                     \
    {                                                                                                                            \
        const struct arg args[] = {{.t = y}, {.t = dy}, {.t = dx}};                                                              \
        return run_tensors("ps_" #op "_backward", PSK_ACT_BACKWARD, args, &(struct psk_attrs){.activation = (act)}, dx);         \
    }
ELEMENTWISE(relu, PSK_RELU)
ELEMENTWISE(sigmoid, PSK_SIGMOID)
ELEMENTWISE(tanh, PSK_TANH)

static ps_status dropout(const char *fn, ps_tensor *in, uint64_t seed, float keep, uint64_t step, ps_tensor *out)
{
    const struct arg args[] = {{.t = in}, {.t = out}};
    return run_tensors(fn, PSK_DROPOUT, args, &(struct psk_attrs){.seed = seed, .step = step, .keep = keep}, out);
}

ps_status ps_dropout(ps_tensor *x, uint64_t seed, float keep, uint64_t step, ps_tensor *y)
{
    return dropout("ps_dropout", x, seed, keep, step, y);
}

ps_status ps_dropout_backward(ps_tensor *dy, uint64_t seed, float keep, uint64_t step, ps_tensor *dx)
{
    return dropout("ps_dropout_backward", dy, seed, keep, step, dx);
}

ps_status ps_softmax_xent(ps_tensor *logits, ps_tensor *labels, ps_tensor *dlogits, ps_tensor *loss)
{
    const struct arg args[] = {{.t = logits}, {.t = labels}, {.t = dlogits}, {.t = loss}};
    return settle(loss, run_tensors("ps_softmax_xent", PSK_SOFTMAX_XENT, args, NULL, dlogits));
}

ps_status ps_argmax_count(ps_tensor *logits, ps_tensor *labels, ps_tensor *count)
{
    const struct arg args[] = {{.t = logits}, {.t = labels}, {.t = count}};
    return run_tensors("ps_argmax_count", PSK_ARGMAX_COUNT, args, NULL, count);
}

static ps_status loss_of(const char *fn, ps_tensor *x, ps_tensor *t, ps_tensor *dx, ps_tensor *loss,
                         const struct psk_attrs *attrs)
{
    const struct arg args[] = {{.t = x}, {.t = t}, {.t = dx}, {.t = loss}};
    return settle(loss, run_tensors(fn, PSK_LOSS, args, attrs, dx));
}

#define LOSS(name, kind)                                                                                                         \
    ps_status ps_##name(ps_tensor *x, ps_tensor *t, ps_tensor *dx, ps_tensor *loss)                                              \
    {                                                                                                                            \
        return loss_of("ps_" #name, x, t, dx, loss, &(struct psk_attrs){.loss = (kind)});                                        \
    }
LOSS(sigmoid_xent, PSK_SIGMOID_XENT)
LOSS(mean_squared_error, PSK_SQUARED)
LOSS(mean_absolute_error, PSK_ABSOLUTE)

ps_status ps_huber_error(ps_tensor *x, ps_tensor *t, float delta, ps_tensor *dx, ps_tensor *loss)
{
    return loss_of("ps_huber_error", x, t, dx, loss, &(struct psk_attrs){.loss = PSK_HUBER, .delta = delta});
}

ps_status ps_gelu(ps_tensor *x, ps_tensor *y)
{
    const struct arg args[] = {{.t = x}, {.t = y}};
    return run_tensors("ps_gelu", PSK_GELU, args, NULL, y);
}

ps_status ps_gelu_backward(ps_tensor *x, ps_tensor *dy, ps_tensor *dx)
{
    const struct arg args[] = {{.t = x}, {.t = dy}, {.t = dx}};
    return run_tensors("ps_gelu_backward", PSK_GELU_BACKWARD, args, NULL, dx);
}

ps_status ps_add(ps_tensor *a, ps_tensor *b, ps_tensor *out)
{
    const struct arg args[] = {{.t = a}, {.t = b}, {.t = out}};
    return run_tensors("ps_add", PSK_ADD, args, NULL, out);
}

static ps_status layer_norm(const char *fn, psk_op op, const struct arg *args, ps_param *gamma, ps_param *beta, float epsilon,
                            ps_tensor *out)
{
    if (gamma == NULL || beta == NULL) {
        return settle(out, psi_nn_fail(PS_INVALID_ARGUMENT, "%s: %s is NULL", fn, gamma == NULL ? "gamma" : "beta"));
    }
    const struct psk_attrs attrs = {.epsilon = epsilon};
    ps_status st = session_check(gamma);
    st = st == PS_OK ? run(&(struct call){fn, op, args, &attrs}) : st;
    return settle_param(gamma, out, st);
}

ps_status ps_layer_norm(ps_tensor *x, ps_param *gamma, ps_param *beta, float epsilon, ps_tensor *y)
{
    const struct arg args[] = {{.t = x}, {.value = gamma}, {.value = beta}, {.t = y}};
    return layer_norm("ps_layer_norm", PSK_LAYER_NORM, args, gamma, beta, epsilon, y);
}

ps_status ps_layer_norm_backward(ps_tensor *x, ps_tensor *dy, ps_param *gamma, ps_param *beta, float epsilon, ps_tensor *dx)
{
    const struct arg args[] = {{.t = x}, {.value = gamma}, {.t = dy}, {.t = dx}, {.grad = gamma}, {.grad = beta}};
    return layer_norm("ps_layer_norm_backward", PSK_LAYER_NORM_BACKWARD, args, gamma, beta, epsilon, dx);
}

_Static_assert(PS_SUM == (int)PSK_SUM && PS_MEAN == (int)PSK_MEAN && PS_SQRTN == (int)PSK_SQRTN, "the same combiners");

static struct psk_attrs bag_attrs(ps_combiner combiner, int64_t padding)
{
    return (struct psk_attrs){.combiner = (uint32_t)combiner, .padding_plus_1 = psi_padding(padding)};
}

ps_status ps_embedding(ps_tensor *rows, ps_tensor *indices, int64_t padding, ps_tensor *y)
{
    const struct psk_attrs attrs = bag_attrs(PS_SUM, padding);
    const struct arg args[] = {{.t = rows}, {.t = indices}, {.t = y}};
    return run_tensors("ps_embedding", PSK_EMBEDDING, args, &attrs, y);
}

ps_status ps_embedding_backward(ps_tensor *rows, ps_tensor *indices, int64_t padding, ps_tensor *dy, ps_tensor *drows)
{
    const struct psk_attrs attrs = bag_attrs(PS_SUM, padding);
    const struct arg args[] = {{.t = rows}, {.t = indices}, {.t = dy}, {.t = drows}};
    return run_tensors("ps_embedding_backward", PSK_EMBEDDING_BACKWARD, args, &attrs, drows);
}

ps_status ps_embedding_bag(ps_tensor *rows, ps_tensor *indices, ps_tensor *ends, ps_tensor *weights, ps_combiner combiner,
                           int64_t padding, ps_tensor *y)
{
    const struct psk_attrs attrs = bag_attrs(combiner, padding);
    const struct arg args[] = {{.t = rows}, {.t = indices}, {.t = ends}, {.t = weights}, {.t = y}};
    return run_tensors("ps_embedding_bag", PSK_EMBEDDING_BAG, args, &attrs, y);
}

ps_status ps_embedding_bag_backward(ps_tensor *rows, ps_tensor *indices, ps_tensor *ends, ps_tensor *weights,
                                    ps_combiner combiner, int64_t padding, ps_tensor *dy, ps_tensor *drows)
{
    const struct psk_attrs attrs = bag_attrs(combiner, padding);
    const struct arg args[] = {{.t = rows}, {.t = indices}, {.t = ends}, {.t = weights}, {.t = dy}, {.t = drows}};
    return run_tensors("ps_embedding_bag_backward", PSK_EMBEDDING_BAG_BACKWARD, args, &attrs, drows);
}

ps_status ps_fm(ps_tensor *rows, ps_tensor *indices, ps_tensor *ends, ps_tensor *weights, int64_t padding, ps_tensor *y,
                ps_tensor *sums)
{
    const struct psk_attrs attrs = bag_attrs(PS_SUM, padding);
    const struct arg args[] = {{.t = rows}, {.t = indices}, {.t = ends}, {.t = weights}, {.t = y}, {.t = sums}};
    return settle(sums, run_tensors("ps_fm", PSK_FM, args, &attrs, y));
}

ps_status ps_fm_backward(ps_tensor *rows, ps_tensor *indices, ps_tensor *ends, ps_tensor *weights, int64_t padding,
                         ps_tensor *sums, ps_tensor *dy, ps_tensor *drows)
{
    const struct psk_attrs attrs = bag_attrs(PS_SUM, padding);
    const struct arg args[] = {{.t = rows}, {.t = indices}, {.t = ends}, {.t = weights}, {.t = sums}, {.t = dy}, {.t = drows}};
    return run_tensors("ps_fm_backward", PSK_FM_BACKWARD, args, &attrs, drows);
}

ps_status ps_dot_interaction(ps_tensor *x, uint32_t fields, ps_tensor *y)
{
    const struct psk_attrs attrs = {.fields = fields};
    const struct arg args[] = {{.t = x}, {.t = y}};
    const int64_t pairs = (int64_t)((uint64_t)fields * (fields - UINT64_C(1)) / 2); /* below 2^63 */
    if (x != NULL && y != NULL && x != y && (y->flags & SHAPED) == 0 && fields >= 2 && shape_ok(x->rows, pairs, PS_F32)) {
        give_shape(y, PS_F32, x->rows, pairs); /* run_tensors() cannot infer the shape: no input has the number of fields */
    }
    return run_tensors("ps_dot_interaction", PSK_DOT, args, &attrs, y);
}

ps_status ps_dot_interaction_backward(ps_tensor *x, uint32_t fields, ps_tensor *dy, ps_tensor *dx)
{
    const struct psk_attrs attrs = {.fields = fields};
    const struct arg args[] = {{.t = x}, {.t = dy}, {.t = dx}};
    return run_tensors("ps_dot_interaction_backward", PSK_DOT_BACKWARD, args, &attrs, dx);
}

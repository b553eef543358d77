/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ps_nn.h, tensors and parameters: shape checks that name both sides, then the plain-pointer functions of nn.c.
 *
 * Happy path: inputs are valid, shapes fit, the output is computed and its status cleared. Failure modes: whatever goes wrong is
 * written into the output tensor (status and text), travels from tensor to tensor, and becomes sticky in a session at the first
 * call that has a parameter. A session that has failed already computes nothing; its own error then travels the same way.
 */
#include "common/shape.h"
#include "nn.h"
#include "worker/ps.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENSOR_ALIGN_BYTES 64u

/* ---- tensors ---- */

ps_tensor *ps_tensor_new(int64_t rows, int64_t cols)
{
    int64_t bytes = 0;
    if (rows < 1 || cols < 1 || __builtin_mul_overflow(rows, cols, &bytes) ||
        __builtin_mul_overflow(bytes, (int64_t)sizeof(float), &bytes) || bytes > INT64_MAX - (int64_t)TENSOR_ALIGN_BYTES) {
        psi_nn_fail(PS_INVALID_ARGUMENT, "ps_tensor_new: (%" PRId64 ", %" PRId64 ") is not a size", rows, cols);
        return NULL;
    }
    const size_t rounded = ((size_t)bytes + TENSOR_ALIGN_BYTES - 1) / TENSOR_ALIGN_BYTES * TENSOR_ALIGN_BYTES;
    ps_tensor *t = calloc(1, sizeof(*t));
    float *data = aligned_alloc(TENSOR_ALIGN_BYTES, rounded);
    if (t == NULL || data == NULL) {
        free(data);
        free(t);
        psi_nn_fail(PS_RESOURCE_EXHAUSTED, "ps_tensor_new: no memory for (%" PRId64 ", %" PRId64 ")", rows, cols);
        return NULL;
    }
    memset(data, 0, rounded);
    ps_tensor_wrap(t, data, rows, cols);
    t->owned = 1;
    return t;
}

void ps_tensor_wrap(ps_tensor *t, float *data, int64_t rows, int64_t cols)
{
    if (t != NULL) {
        memset(t, 0, sizeof(*t));
        t->data = data;
        t->rows = rows;
        t->cols = cols;
        t->rows_capacity = rows;
    }
}

ps_status ps_tensor_set_rows(ps_tensor *t, int64_t rows)
{
    if (t == NULL) {
        return psi_nn_fail(PS_INVALID_ARGUMENT, "ps_tensor_set_rows: tensor is NULL");
    }
    if (rows < 1 || rows > t->rows_capacity) {
        return psi_nn_fail(PS_OUT_OF_RANGE, "ps_tensor_set_rows: %" PRId64 " rows, allowed is 1 to %" PRId64, rows,
                           t->rows_capacity);
    }
    t->rows = rows;
    return PS_OK;
}

void ps_tensor_free(ps_tensor *t)
{
    if (t != NULL && t->owned != 0) {
        free(t->data);
        free(t);
    }
}

/* ---- errors ---- */

/* The outcome of a call into its output tensor (NULL: there is none). */
static ps_status settle(ps_tensor *out, ps_status st)
{
    if (out != NULL) {
        out->status = (int32_t)st;
        snprintf(out->error, sizeof(out->error), "%.*s", (int)sizeof(out->error) - 1, st == PS_OK ? "" : ps_nn_error());
    }
    return st;
}

/* The outcome of a call with a parameter: into its session too. */
static ps_status settle_param(ps_param *p, ps_tensor *out, ps_status st)
{
    if (st != PS_OK && p != NULL) {
        PSI_IGNORE(ps_param_fail(p, st, ps_nn_error())); /* the session keeps its first error */
    }
    return settle(out, st);
}

/* PS_OK, or the session's first error as this thread's error. */
static ps_status session_check(ps_param *p)
{
    ps_session *s = ps_param_session(p);
    const ps_status st = ps_session_status(s);
    return st == PS_OK ? st : psi_nn_fail(st, "%s", ps_session_error(s));
}

static ps_status output_check(const char *fn, const char *name, const ps_tensor *t)
{
    if (t == NULL) {
        return psi_nn_fail(PS_INVALID_ARGUMENT, "%s: %s is NULL", fn, name);
    }
    if (t->data == NULL || t->rows < 1 || t->cols < 1 || t->rows > t->rows_capacity) {
        return psi_nn_fail(PS_INVALID_ARGUMENT, "%s: %s is (%" PRId64 ", %" PRId64 ") with room for %" PRId64 " rows%s", fn, name,
                           t->rows, t->cols, t->rows_capacity, t->data == NULL ? " and no data" : "");
    }
    return PS_OK;
}

static ps_status input_check(const char *fn, const char *name, const ps_tensor *t)
{
    const ps_status st = output_check(fn, name, t);
    if (st != PS_OK || t->status == PS_OK) {
        return st;
    }
    return psi_nn_fail((ps_status)t->status, "%s", t->error);
}

static ps_status same_shape_check(const char *fn, const char *name_a, const ps_tensor *a, const char *name_b, const ps_tensor *b)
{
    if (a->rows != b->rows || a->cols != b->cols) {
        return psi_nn_fail(PS_INVALID_ARGUMENT,
                           "%s: %s is (%" PRId64 ", %" PRId64 ") but %s is (%" PRId64 ", %" PRId64 "): they must be the same", fn,
                           name_a, a->rows, a->cols, name_b, b->rows, b->cols);
    }
    return PS_OK;
}

/* ---- dense ---- */

/* x and y (or the gradient of y) fit a layer with w and b. */
static ps_status dense_check(const char *fn, const ps_tensor *x, ps_param *w, ps_param *b, const char *y_name, const ps_tensor *y)
{
    char w_text[PSI_SHAPE_TEXT_MAX];
    char b_text[PSI_SHAPE_TEXT_MAX];
    const ps_shape *ws = ps_param_shape(w);
    psi_shape_format(ws, w_text, sizeof(w_text));
    if (ws->rank != 2 || ws->dims[0] != x->cols) {
        return psi_nn_fail(PS_INVALID_ARGUMENT,
                           "%s: x is (%" PRId64 ", %" PRId64 ") but w '%s' is %s: w must be (%" PRId64 ", outputs)", fn, x->rows,
                           x->cols, ps_param_name(w), w_text, x->cols);
    }
    if (y->rows != x->rows || y->cols != ws->dims[1]) {
        return psi_nn_fail(PS_INVALID_ARGUMENT,
                           "%s: x is (%" PRId64 ", %" PRId64 ") and w '%s' is %s but %s is (%" PRId64 ", %" PRId64
                           "): it must be (%" PRId64 ", %" PRId64 ")",
                           fn, x->rows, x->cols, ps_param_name(w), w_text, y_name, y->rows, y->cols, x->rows, ws->dims[1]);
    }
    const ps_shape *bs = b != NULL ? ps_param_shape(b) : NULL;
    if (bs != NULL && (bs->rank != 1 || bs->dims[0] != ws->dims[1])) {
        return psi_nn_fail(PS_INVALID_ARGUMENT, "%s: w '%s' is %s but b '%s' is %s: b must be (%" PRId64 ",)", fn,
                           ps_param_name(w), w_text, ps_param_name(b), psi_shape_format(bs, b_text, sizeof(b_text)), ws->dims[1]);
    }
    return PS_OK;
}

ps_status ps_dense(const ps_tensor *x, ps_param *w, ps_param *b, ps_tensor *y)
{
    static const char fn[] = "ps_dense";
    if (w == NULL) {
        return settle(y, psi_nn_fail(PS_INVALID_ARGUMENT, "%s: w is NULL", fn));
    }
    ps_status st = session_check(w);
    if (st == PS_OK) {
        st = input_check(fn, "x", x);
    }
    if (st == PS_OK) {
        st = output_check(fn, "y", y);
    }
    if (st == PS_OK) {
        st = dense_check(fn, x, w, b, "y", y);
    }
    if (st == PS_OK) {
        const float *bias = b != NULL ? ps_param_value(b) : NULL;
        st = ps_nn_dense_forward(x->data, ps_param_value(w), bias, y->data, x->rows, x->cols, y->cols);
    }
    return settle_param(w, y, st);
}

/* Everything is checked. dx comes first: it does not need the gradient buffers, which may still be on their way. */
static ps_status dense_backward_compute(const ps_tensor *x, const ps_tensor *dy, ps_param *w, ps_param *b, ps_tensor *dx)
{
    if (dx != NULL) {
        const ps_status st =
            ps_nn_dense_backward(x->data, ps_param_value(w), dy->data, NULL, NULL, dx->data, x->rows, x->cols, dy->cols);
        if (st != PS_OK) {
            return st;
        }
    }
    float *dw = ps_param_grad(w);
    float *db = b != NULL ? ps_param_grad(b) : NULL;
    if (dw == NULL || (b != NULL && db == NULL)) {
        const ps_status st = session_check(dw == NULL ? w : b);
        return st != PS_OK ? st : psi_nn_fail(PS_INTERNAL, "ps_dense_backward: no gradient buffer");
    }
    return ps_nn_dense_backward(x->data, NULL, dy->data, dw, db, NULL, x->rows, x->cols, dy->cols);
}

ps_status ps_dense_backward(const ps_tensor *x, const ps_tensor *dy, ps_param *w, ps_param *b, ps_tensor *dx)
{
    static const char fn[] = "ps_dense_backward";
    if (w == NULL) {
        return settle(dx, psi_nn_fail(PS_INVALID_ARGUMENT, "%s: w is NULL", fn));
    }
    ps_status st = session_check(w);
    if (st == PS_OK) {
        st = input_check(fn, "x", x);
    }
    if (st == PS_OK) {
        st = input_check(fn, "dy", dy);
    }
    if (st == PS_OK) {
        st = dense_check(fn, x, w, b, "dy", dy);
    }
    if (st == PS_OK && dx != NULL) {
        st = output_check(fn, "dx", dx);
        st = st == PS_OK ? same_shape_check(fn, "x", x, "dx", dx) : st;
    }
    if (st == PS_OK) {
        st = dense_backward_compute(x, dy, w, b, dx);
    }
    return settle_param(w, dx, st);
}

/* ---- element by element ---- */

static ps_status in_out_check(const char *fn, const char *in_name, const ps_tensor *in, const char *out_name,
                              const ps_tensor *out)
{
    ps_status st = input_check(fn, in_name, in);
    if (st == PS_OK) {
        st = output_check(fn, out_name, out);
    }
    return st == PS_OK ? same_shape_check(fn, in_name, in, out_name, out) : st;
}

typedef ps_status (*forward_fn)(const float *x, float *y, int64_t count);
typedef ps_status (*backward_fn)(const float *y, const float *dy, float *dx, int64_t count);

static ps_status forward(const char *fn, forward_fn kernel, const ps_tensor *x, ps_tensor *y)
{
    const ps_status st = in_out_check(fn, "x", x, "y", y);
    return settle(y, st == PS_OK ? kernel(x->data, y->data, x->rows * x->cols) : st);
}

static ps_status backward(const char *fn, backward_fn kernel, const ps_tensor *y, const ps_tensor *dy, ps_tensor *dx)
{
    ps_status st = in_out_check(fn, "dy", dy, "dx", dx);
    if (st == PS_OK) {
        st = input_check(fn, "y", y);
    }
    if (st == PS_OK) {
        st = same_shape_check(fn, "y", y, "dy", dy);
    }
    return settle(dx, st == PS_OK ? kernel(y->data, dy->data, dx->data, y->rows * y->cols) : st);
}

/* ps_OP() and ps_OP_backward() */
#define ELEMENTWISE(op)                                                                                                          \
    ps_status ps_##op(const ps_tensor *x, ps_tensor *y)                                                                          \
    {                                                                                                                            \
        return forward("ps_" #op, ps_nn_##op##_forward, x, y);                                                                   \
    }                                                                                                                            \
    ps_status ps_##op##_backward(const ps_tensor *y, const ps_tensor *dy, ps_tensor *dx)                                         \
    {                                                                                                                            \
        return backward("ps_" #op "_backward", ps_nn_##op##_backward, y, dy, dx);                                                \
    }
ELEMENTWISE(relu)
ELEMENTWISE(sigmoid)
ELEMENTWISE(tanh)

ps_status ps_dropout(const ps_tensor *x, uint64_t seed, float keep, uint64_t step, ps_tensor *y)
{
    const ps_status st = in_out_check("ps_dropout", "x", x, "y", y);
    return settle(y, st == PS_OK ? ps_nn_dropout(x->data, y->data, x->rows * x->cols, seed, keep, step) : st);
}

ps_status ps_dropout_backward(const ps_tensor *dy, uint64_t seed, float keep, uint64_t step, ps_tensor *dx)
{
    const ps_status st = in_out_check("ps_dropout_backward", "dy", dy, "dx", dx);
    return settle(dx, st == PS_OK ? ps_nn_dropout(dy->data, dx->data, dy->rows * dy->cols, seed, keep, step) : st);
}

/* ---- softmax cross-entropy ---- */

double ps_softmax_xent(const ps_tensor *logits, const int32_t *labels, ps_tensor *dlogits)
{
    static const char fn[] = "ps_softmax_xent";
    double loss = NAN;
    const bool known = logits != NULL && logits->status != PS_OK; /* the error was found, and told, before this call */
    ps_status st = dlogits != NULL ? in_out_check(fn, "logits", logits, "dlogits", dlogits) : input_check(fn, "logits", logits);
    if (st == PS_OK) {
        st = ps_nn_softmax_xent(logits->data, labels, dlogits != NULL ? dlogits->data : NULL, logits->rows, logits->cols, &loss);
    }
    PSI_IGNORE(settle(dlogits, st)); /* the caller sees NaN or 0, and later calls see dlogits */
    return st != PS_OK && known ? 0.0 : loss;
}

int64_t ps_argmax_count(const ps_tensor *logits, const int32_t *labels)
{
    int64_t count = -1;
    if (input_check("ps_argmax_count", "logits", logits) != PS_OK ||
        ps_nn_argmax_count(logits->data, labels, logits->rows, logits->cols, &count) != PS_OK) {
        return -1;
    }
    return count;
}

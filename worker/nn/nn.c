/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ps_nn.h, plain pointers: checks every argument, then calls the operation in the plugin's table.
 *
 * Happy path: three or four comparisons and one indirect call. Failure modes: an argument that cannot be (typed, named, outputs
 * untouched), and a plugin that cannot be opened. The text of the last error is kept per thread.
 */
#include "nn.h"

#include "worker/nn/kernels/kernels.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define KEEP_MIN (1.0f / 1048576.0f) /* 2^-20 */

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

/* ---- the table ---- */

static ps_status table_get(const struct psk_table **out_table)
{
    struct psi_err err;
    const ps_status st = psk_table_get("cpu", out_table, &err);
    return st == PS_OK ? st : psi_nn_fail(st, "%s", err.text);
}

static ps_status finish(const char *fn, ps_status st)
{
    return st == PS_OK ? st : psi_nn_fail(st, "%s: the kernel failed (%s)", fn, ps_status_name(st));
}

ps_status ps_nn_open(void)
{
    const struct psk_table *table = NULL;
    return table_get(&table);
}

const char *ps_nn_backend(void)
{
    const char *text = psk_backend();
    return text != NULL ? text : "none";
}

/* ---- checks: false after an error was set ---- */

static bool given(const char *fn, const char *name, const void *pointer)
{
    if (pointer == NULL) {
        psi_nn_fail(PS_INVALID_ARGUMENT, "%s: %s is NULL", fn, name);
    }
    return pointer != NULL;
}

static bool size_ok(const char *fn, const char *name, int64_t size, int64_t size_max)
{
    if (size < 1 || size > size_max) {
        psi_nn_fail(PS_INVALID_ARGUMENT, "%s: %s is %" PRId64 ", allowed is 1 to %" PRId64, fn, name, size, size_max);
        return false;
    }
    return true;
}

/* Each size fits BLAS's int; so does the number of bytes of the (a, b) matrix in the address space. */
static bool matrix_ok(const char *fn, const char *name_a, int64_t a, const char *name_b, int64_t b)
{
    int64_t bytes = 0;
    if (!size_ok(fn, name_a, a, INT32_MAX) || !size_ok(fn, name_b, b, INT32_MAX)) {
        return false;
    }
    if (__builtin_mul_overflow(a * b, (int64_t)sizeof(float), &bytes)) {
        psi_nn_fail(PS_INVALID_ARGUMENT, "%s: %s %" PRId64 " times %s %" PRId64 " is too large", fn, name_a, a, name_b, b);
        return false;
    }
    return true;
}

static bool count_ok(const char *fn, int64_t count)
{
    return size_ok(fn, "count", count, INT64_MAX / (int64_t)sizeof(float));
}

/* An output and an input of so many floats share no byte; NULLs never do. */
static bool apart(const char *fn, const char *out_name, const float *out, int64_t out_count, const char *in_name, const float *in,
                  int64_t in_count)
{
    const uintptr_t o = (uintptr_t)out;
    const uintptr_t i = (uintptr_t)in;
    if (out == NULL || in == NULL || o + (uintptr_t)out_count * sizeof(float) <= i ||
        i + (uintptr_t)in_count * sizeof(float) <= o) {
        return true;
    }
    psi_nn_fail(PS_INVALID_ARGUMENT, "%s: %s overlaps %s", fn, out_name, in_name);
    return false;
}

/* The same memory or no common byte: what element by element operations can take. */
static bool same_or_apart(const char *fn, const char *out_name, const float *out, const char *in_name, const float *in,
                          int64_t count)
{
    return out == in || apart(fn, out_name, out, count, in_name, in, count);
}

static bool labels_ok(const char *fn, const int32_t *labels, int64_t batch, int64_t classes)
{
    for (int64_t i = 0; i < batch; i++) {
        if (labels[i] < 0 || labels[i] >= classes) {
            psi_nn_fail(PS_INVALID_ARGUMENT, "%s: label %" PRId32 " of row %" PRId64 " is not a class, allowed is 0 to %" PRId64,
                        fn, labels[i], i, classes - 1);
            return false;
        }
    }
    return true;
}

/* ---- dense ---- */

ps_status ps_nn_dense_forward(const float *x, const float *w, const float *b, float *y, int64_t batch, int64_t in, int64_t out)
{
    static const char fn[] = "ps_nn_dense_forward";
    const struct psk_table *table = NULL;
    if (!given(fn, "x", x) || !given(fn, "w", w) || !given(fn, "y", y) || !matrix_ok(fn, "batch", batch, "in", in) ||
        !matrix_ok(fn, "in", in, "out", out) || !matrix_ok(fn, "batch", batch, "out", out)) {
        return PS_INVALID_ARGUMENT;
    }
    if (!apart(fn, "y", y, batch * out, "x", x, batch * in) || !apart(fn, "y", y, batch * out, "w", w, in * out) ||
        !apart(fn, "y", y, batch * out, "b", b, out)) {
        return PS_INVALID_ARGUMENT;
    }
    const ps_status st = table_get(&table);
    return st != PS_OK ? st : finish(fn, table->dense_forward(x, w, b, y, batch, in, out));
}

ps_status ps_nn_dense_backward(const float *x, const float *w, const float *dy, float *dw, float *db, float *dx, int64_t batch,
                               int64_t in, int64_t out)
{
    static const char fn[] = "ps_nn_dense_backward";
    const struct psk_table *table = NULL;
    if ((dw != NULL && !given(fn, "x", x)) || (dx != NULL && !given(fn, "w", w)) || !given(fn, "dy", dy) ||
        !matrix_ok(fn, "batch", batch, "in", in) || !matrix_ok(fn, "in", in, "out", out) ||
        !matrix_ok(fn, "batch", batch, "out", out)) {
        return PS_INVALID_ARGUMENT;
    }
    const struct {
        const char *name;
        const float *data;
        int64_t count;
    } outputs[] = {{"dw", dw, in * out}, {"db", db, out}, {"dx", dx, batch * in}},
      inputs[] = {{"x", x, batch * in}, {"w", w, in * out}, {"dy", dy, batch * out}};
    for (size_t o = 0; o < 3; o++) {
        for (size_t i = 0; i < 3; i++) {
            if (!apart(fn, outputs[o].name, outputs[o].data, outputs[o].count, inputs[i].name, inputs[i].data, inputs[i].count) ||
                (o < i && !apart(fn, outputs[o].name, outputs[o].data, outputs[o].count, outputs[i].name, outputs[i].data,
                                 outputs[i].count))) {
                return PS_INVALID_ARGUMENT;
            }
        }
    }
    const ps_status st = table_get(&table);
    return st != PS_OK ? st : finish(fn, table->dense_backward(x, w, dy, dw, db, dx, batch, in, out));
}

/* ---- element by element ---- */

static ps_status forward_check(const char *fn, const float *x, const float *y, int64_t count, const struct psk_table **out_table)
{
    if (!given(fn, "x", x) || !given(fn, "y", y) || !count_ok(fn, count) || !same_or_apart(fn, "y", y, "x", x, count)) {
        return PS_INVALID_ARGUMENT;
    }
    return table_get(out_table);
}

static ps_status backward_check(const char *fn, const float *y, const float *dy, const float *dx, int64_t count,
                                const struct psk_table **out_table)
{
    if (!given(fn, "y", y) || !given(fn, "dy", dy) || !given(fn, "dx", dx) || !count_ok(fn, count) ||
        !same_or_apart(fn, "dx", dx, "y", y, count) || !same_or_apart(fn, "dx", dx, "dy", dy, count)) {
        return PS_INVALID_ARGUMENT;
    }
    return table_get(out_table);
}

/* ps_nn_OP_forward() and ps_nn_OP_backward() */
#define ELEMENTWISE(op)                                                                                                          \
    ps_status ps_nn_##op##_forward(const float *x, float *y, int64_t count)                                                      \
    {                                                                                                                            \
        const struct psk_table *table = NULL;                                                                                    \
        const ps_status st = forward_check("ps_nn_" #op "_forward", x, y, count, &table);                                        \
        return st != PS_OK ? st : finish("ps_nn_" #op "_forward", table->op##_forward(x, y, count));                             \
    }                                                                                                                            \
    ps_status ps_nn_##op##_backward(const float *y, const float *dy, float *dx, int64_t count)                                   \
    {                                                                                                                            \
        const struct psk_table *table = NULL;                                                                                    \
        const ps_status st = backward_check("ps_nn_" #op "_backward", y, dy, dx, count, &table);                                 \
        return st != PS_OK ? st : finish("ps_nn_" #op "_backward", table->op##_backward(y, dy, dx, count));                      \
    }
ELEMENTWISE(relu)
ELEMENTWISE(sigmoid)
ELEMENTWISE(tanh)

ps_status ps_nn_dropout(const float *in, float *out, int64_t count, uint64_t seed, float keep, uint64_t step)
{
    static const char fn[] = "ps_nn_dropout";
    const struct psk_table *table = NULL;
    if (!given(fn, "in", in) || !given(fn, "out", out) || !count_ok(fn, count) ||
        !same_or_apart(fn, "out", out, "in", in, count)) {
        return PS_INVALID_ARGUMENT;
    }
    if (isnan(keep) || keep < KEEP_MIN || keep > 1.0f) {
        return psi_nn_fail(PS_INVALID_ARGUMENT, "%s: keep is %g, allowed is 2^-20 to 1", fn, (double)keep);
    }
    const ps_status st = table_get(&table);
    return st != PS_OK ? st : finish(fn, table->dropout(in, out, count, seed, keep, step));
}

/* ---- softmax cross-entropy ---- */

ps_status ps_nn_softmax_xent(const float *logits, const int32_t *labels, float *dlogits, int64_t batch, int64_t classes,
                             double *out_loss)
{
    static const char fn[] = "ps_nn_softmax_xent";
    const struct psk_table *table = NULL;
    if (!given(fn, "logits", logits) || !given(fn, "labels", labels) || !given(fn, "out_loss", out_loss) ||
        !matrix_ok(fn, "batch", batch, "classes", classes) ||
        !same_or_apart(fn, "dlogits", dlogits, "logits", logits, batch * classes) || !labels_ok(fn, labels, batch, classes)) {
        return PS_INVALID_ARGUMENT;
    }
    const ps_status st = table_get(&table);
    return st != PS_OK ? st : finish(fn, table->softmax_xent(logits, labels, dlogits, batch, classes, out_loss));
}

ps_status ps_nn_argmax_count(const float *logits, const int32_t *labels, int64_t batch, int64_t classes, int64_t *out_count)
{
    static const char fn[] = "ps_nn_argmax_count";
    const struct psk_table *table = NULL;
    if (!given(fn, "logits", logits) || !given(fn, "labels", labels) || !given(fn, "out_count", out_count) ||
        !matrix_ok(fn, "batch", batch, "classes", classes) || !labels_ok(fn, labels, batch, classes)) {
        return PS_INVALID_ARGUMENT;
    }
    const ps_status st = table_get(&table);
    return st != PS_OK ? st : finish(fn, table->argmax_count(logits, labels, batch, classes, out_count));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* print: returns its first input, and writes a line about the other inputs, at the task that runs it. The line is TensorFlow's:
 * the message, then each value in brackets, "portion is[500]". The first `summarize` elements of a value are shown, with "..." if
 * there are more; from two dimensions on each row has its own brackets, "[[1 2 3][4...]...]". Source: TF 1.15
 * core/kernels/logging_ops.cc PrintOp, core/framework/tensor.cc SummarizeValue (PrintOneDim), float formats of
 * core/lib/strings/numbers.cc. Failure mode: no memory for the line. */
#include "rows.h"

#include "common/blob.h"
#include "common/buf.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES_MAX = 1 << 20 }; /* a longer line is cut: a client says how many elements are printed, and how often */
/* A growing line. After the first failure nothing more is appended. */
struct line {
    struct psi_buf buf;
    ps_status st;
    struct psi_err *err;
};

static void append(struct line *l, const void *text, size_t bytes)
{
    if (l->st == PS_OK) {
        l->st = psi_buf_append(&l->buf, text, bytes, l->err);
    }
}

static void append_text(struct line *l, const char *text)
{
    append(l, text, strlen(text));
}

/* Append a float with 6 digits, or a double with 15; if these do not read back as the number, with 8 or 17 digits. */
static void append_float(struct line *l, double value, bool is_double)
{
    char text[40];
    if (isnan(value)) {
        append_text(l, "nan");
        return;
    }
    (void)snprintf(text, sizeof(text), "%.*g", is_double ? DBL_DIG : FLT_DIG, value);
    const bool same = is_double ? strtod(text, NULL) == value : strtof(text, NULL) == (float)value;
    if (!same) {
        (void)snprintf(text, sizeof(text), "%.*g", is_double ? DBL_DIG + 2 : FLT_DIG + 2, value);
    }
    append_text(l, text);
}

/* Append a text with C's escapes, so that the output is one line whatever a client sends; non-ASCII bytes are unchanged. */
static void append_escaped(struct line *l, const unsigned char *text, size_t bytes)
{
    static const char plain[] = "\n\r\t\"'\\", escapes[] = "nrt\"'\\";
    for (size_t i = 0; i < bytes && l->st == PS_OK; i++) {
        char escaped[5];
        const char *at = text[i] != '\0' ? strchr(plain, text[i]) : NULL;
        if (at != NULL) {
            (void)snprintf(escaped, sizeof(escaped), "\\%c", escapes[at - plain]);
            append_text(l, escaped);
        } else if (text[i] < 0x20 || text[i] == 0x7f) {
            (void)snprintf(escaped, sizeof(escaped), "\\%03o", text[i]);
            append_text(l, escaped);
        } else {
            append(l, (const char *)&text[i], 1);
        }
    }
}

static void append_element(struct line *l, const struct psi_value *v, int64_t i)
{
    char text[24];
    switch (v->dtype) {
    case PS_F32:
        append_float(l, (double)((const float *)v->data)[i], false);
        return;
    case PS_F64:
        append_float(l, ((const double *)v->data)[i], true);
        return;
    case PS_STRING: {
        const unsigned char *bytes = (const unsigned char *)v->data + psi_blob_bytes_min((uint64_t)ps_shape_elements(&v->shape));
        const uint64_t first = psi_blob_offset(v->data, (uint64_t)i);
        append_escaped(l, bytes + first, psi_blob_offset(v->data, (uint64_t)i + 1) - first);
        return;
    }
    case PS_I32:
        (void)snprintf(text, sizeof(text), "%" PRId32, ((const int32_t *)v->data)[i]);
        break;
    case PS_I64:
        (void)snprintf(text, sizeof(text), "%" PRId64, ((const int64_t *)v->data)[i]);
        break;
    default: /* a bool, as 0 or 1 */
        (void)snprintf(text, sizeof(text), "%d", ((const uint8_t *)v->data)[i]);
        break;
    }
    append_text(l, text);
}

/* Number of rows, matrices and so on that begin at element i. As many end just before, so before element i this many brackets are
 * closed, and as many are opened. */
static uint32_t edges(const ps_shape *shape, int64_t i)
{
    uint32_t count = 0;
    int64_t size = 1;
    /* leave out the first dimension: its brackets are those around the whole value */
    for (uint32_t d = shape->rank; d-- > 1;) {
        size *= shape->dims[d];
        if (i % size != 0) {
            break;
        }
        count++;
    }
    return count;
}

/* Append a value. Strings have no brackets for rows, as in TensorFlow's SummarizeValue. */
static void append_value(struct line *l, const struct psi_value *v, int64_t summarize)
{
    const int64_t elements = ps_shape_elements(&v->shape);
    const int64_t limit = summarize < 0 || summarize > elements ? elements : summarize;
    const bool rows = v->dtype != PS_STRING;
    uint32_t open = 0;
    for (int64_t i = 0; i < limit && l->st == PS_OK; i++) {
        const uint32_t begin = rows ? edges(&v->shape, i) : 0;
        append(l, "]]]]]]]]", i > 0 ? begin : 0);
        append_text(l, i > 0 && begin == 0 ? " " : "");
        append(l, "[[[[[[[[", i > 0 ? begin : (rows && v->shape.rank > 1 ? v->shape.rank - 1 : 0));
        append_element(l, v, i);
        open = rows && v->shape.rank > 1 ? v->shape.rank - 1 : 0;
    }
    append_text(l, open > 0 && edges(&v->shape, limit) == 0 ? "..." : "");
    append(l, "]]]]]]]]", open);
    append_text(l, limit < elements ? "..." : "");
}

/* Write a line to stderr. Errors are ignored: the result must not depend on whether anybody reads stderr. */
static void write_stderr(const char *line, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t wrote = write(STDERR_FILENO, line, bytes);
        if (wrote < 0 && errno != EINTR) {
            return;
        }
        line += wrote > 0 ? wrote : 0;
        bytes -= wrote > 0 ? (size_t)wrote : 0;
    }
}

PSI_RUN(print)
{
    const bool silent = attrs->first_n > 0 && ctx->printed != NULL && *ctx->printed >= attrs->first_n;
    struct line l = {.st = PS_OK, .err = err};
    const ps_status st = psi_run_identity(op, attrs, ctx, in, in_count, out, out_count, err);
    if (st != PS_OK || silent) {
        return st;
    }
    psi_buf_init(&l.buf, LINE_BYTES_MAX);
    append_escaped(&l, (const unsigned char *)(attrs->message != NULL ? attrs->message : ""),
                   attrs->message != NULL ? strlen(attrs->message) : 0);
    for (uint32_t i = 1; i < in_count; i++) {
        append_text(&l, "[");
        append_value(&l, &in[i], attrs->summarize == 0 ? PSI_OP_SUMMARIZE : attrs->summarize);
        append_text(&l, "]");
    }
    if (l.st == PS_RESOURCE_EXHAUSTED && l.buf.len > LINE_BYTES_MAX / 2) { /* otherwise there is no memory */
        l.buf.len = l.buf.len < LINE_BYTES_MAX - 4 ? l.buf.len : LINE_BYTES_MAX - 4;
        l.st = PS_OK;
        append_text(&l, "...");
    }
    append_text(&l, "\n");
    if (l.st == PS_OK) {
        if (ctx->print != NULL) {
            ctx->print(ctx->arg, (const char *)l.buf.data, l.buf.len);
        } else {
            write_stderr((const char *)l.buf.data, l.buf.len);
        }
        *(ctx->printed != NULL ? ctx->printed : &(uint64_t){0}) += 1;
    }
    psi_buf_fini(&l.buf);
    return l.st;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce_sum, reduce_mean, argmax, softmax.
 *
 * A value is seen as (outer, count, inner) around the axis; "all axes" is one axis of all elements. If inner is 1 the elements of
 * a sum are consecutive, and LANES partial sums are made at the same time; otherwise TILE columns are summed at a time, row after
 * row.
 * float32 is summed in double. float64 is summed with the error of each addition kept beside the sum (Knuth, TAOCP 4.2.2, theorem
 * B; Ogita, Rump, Oishi 2005, algorithm 4.4), as if with twice the digits; if the sum is not finite the error is meaningless and
 * left out. Integers wrap in sums; a mean is made from the exact sum. Failure mode: the mean of no integers.
 */
#include "rows.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { LANES = 8, TILE = 256 };
_Static_assert(PSI_OP_SLICE % LANES == 0, "a slice ends with all lanes");

__extension__ typedef __int128 wide; /* exact sum of int32 or int64 values: even 2^63 of them do not overflow it */

/* A sum with its error: the exact sum is sum + rest. */
struct exact {
    double sum, rest;
};

static inline void add_exact(struct exact *t, double x)
{
    const double sum = t->sum + x;
    const double of_x = sum - t->sum;
    t->rest += (t->sum - (sum - of_x)) + (x - of_x);
    t->sum = sum;
}

static double exact_value(const struct exact *t)
{
    return isfinite(t->sum) ? t->sum + t->rest : t->sum;
}

/* Running sums of consecutive elements, one per lane. */
union lanes {
    double f32[LANES];
    struct {
        double sum[LANES], rest[LANES];
    } f64;
    uint32_t i32[LANES];
    uint64_t i64[LANES];
    wide exact[LANES]; /* for means of integers */
};

static void lanes_f32(union lanes *l, const float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            l->f32[lane] += (double)x[i + lane];
        }
    }
    for (int lane = 0; i < n; i++, lane++) {
        l->f32[lane] += (double)x[i];
    }
}

static void lanes_f64(union lanes *l, const double *x, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            struct exact t = {l->f64.sum[lane], l->f64.rest[lane]};
            add_exact(&t, x[i + lane]);
            l->f64.sum[lane] = t.sum;
            l->f64.rest[lane] = t.rest;
        }
    }
    for (int lane = 0; i < n; i++, lane++) {
        struct exact t = {l->f64.sum[lane], l->f64.rest[lane]};
        add_exact(&t, x[i]);
        l->f64.sum[lane] = t.sum;
        l->f64.rest[lane] = t.rest;
    }
}

#define LANES_OF(name, field, type)                                                                                              \
    static void name(union lanes *l, const type *x, int64_t n)                                                                   \
    {                                                                                                                            \
        int64_t i = 0;                                                                                                           \
        for (; i + LANES <= n; i += LANES) {                                                                                     \
            for (int lane = 0; lane < LANES; lane++) {                                                                           \
                l->field[lane] += (__typeof__(l->field[0]))x[i + lane];                                                          \
            }                                                                                                                    \
        }                                                                                                                        \
        for (int lane = 0; i < n; i++, lane++) {                                                                                 \
            l->field[lane] += (__typeof__(l->field[0]))x[i];                                                                     \
        }                                                                                                                        \
    }
LANES_OF(lanes_i32, i32, int32_t)
LANES_OF(lanes_i64, i64, int64_t)
LANES_OF(lanes_exact_i32, exact, int32_t)
LANES_OF(lanes_exact_i64, exact, int64_t)

/* A reduction: dtype and number of terms of each sum, and whether the sums become means. */
struct reduction {
    ps_dtype dtype;
    bool mean;
    int64_t count;
};

static void add_lanes(const struct reduction *r, union lanes *l, const void *x, int64_t n)
{
    switch (r->dtype) {
    case PS_F32:
        lanes_f32(l, x, n);
        break;
    case PS_F64:
        lanes_f64(l, x, n);
        break;
    case PS_I32:
        (r->mean ? lanes_exact_i32 : lanes_i32)(l, x, n);
        break;
    default:
        (r->mean ? lanes_exact_i64 : lanes_i64)(l, x, n);
        break;
    }
}

static void store_float(const struct reduction *r, double sum, void *out, int64_t at)
{
    const double value = r->mean ? sum / (double)r->count : sum; /* NaN for no elements, as NumPy's mean */
    if (r->dtype == PS_F32) {
        ((float *)out)[at] = (float)value;
    } else {
        ((double *)out)[at] = value;
    }
}

static void store_mean(const struct reduction *r, wide sum, void *out, int64_t at)
{
    const wide mean = sum / r->count; /* C truncates towards 0, as TensorFlow's MeanReducer */
    if (r->dtype == PS_I32) {
        ((int32_t *)out)[at] = (int32_t)mean;
    } else {
        ((int64_t *)out)[at] = (int64_t)mean;
    }
}

static void store_lanes(const struct reduction *r, const union lanes *l, void *out, int64_t at)
{
    struct exact all = {0, 0};
    wide sum = 0;
    uint64_t wrapped = 0;
    for (int lane = 0; lane < LANES; lane++) {
        if (r->dtype == PS_F32) {
            all.sum += l->f32[lane];
        } else if (r->dtype == PS_F64) {
            add_exact(&all, l->f64.sum[lane]);
            all.rest += l->f64.rest[lane];
        } else if (r->mean) {
            sum += l->exact[lane];
        } else {
            wrapped += r->dtype == PS_I32 ? l->i32[lane] : l->i64[lane];
        }
    }
    if (r->dtype == PS_F32 || r->dtype == PS_F64) {
        store_float(r, exact_value(&all), out, at);
    } else if (r->mean) {
        store_mean(r, sum, out, at);
    } else if (r->dtype == PS_I32) {
        ((uint32_t *)out)[at] = (uint32_t)wrapped;
    } else {
        ((uint64_t *)out)[at] = wrapped;
    }
}

union tile {
    double f32[TILE];
    struct {
        double sum[TILE], rest[TILE];
    } f64;
    uint32_t i32[TILE];
    uint64_t i64[TILE];
    wide exact[TILE];
};

static void add_row(const struct reduction *r, union tile *t, const void *x, int64_t n)
{
    const int32_t *i32 = x;
    const int64_t *i64 = x;
    for (int64_t i = 0; i < n && r->dtype == PS_F32; i++) {
        t->f32[i] += (double)((const float *)x)[i];
    }
    for (int64_t i = 0; i < n && r->dtype == PS_F64; i++) {
        struct exact e = {t->f64.sum[i], t->f64.rest[i]};
        add_exact(&e, ((const double *)x)[i]);
        t->f64.sum[i] = e.sum;
        t->f64.rest[i] = e.rest;
    }
    for (int64_t i = 0; i < n && r->dtype == PS_I32 && !r->mean; i++) {
        t->i32[i] += (uint32_t)i32[i];
    }
    for (int64_t i = 0; i < n && r->dtype == PS_I64 && !r->mean; i++) {
        t->i64[i] += (uint64_t)i64[i];
    }
    for (int64_t i = 0; i < n && r->dtype == PS_I32 && r->mean; i++) {
        t->exact[i] += i32[i];
    }
    for (int64_t i = 0; i < n && r->dtype == PS_I64 && r->mean; i++) {
        t->exact[i] += i64[i];
    }
}

static void store_tile(const struct reduction *r, const union tile *t, int64_t n, void *out, int64_t at)
{
    for (int64_t i = 0; i < n; i++) {
        if (r->dtype == PS_F32) {
            store_float(r, t->f32[i], out, at + i);
        } else if (r->dtype == PS_F64) {
            store_float(r, exact_value(&(struct exact){t->f64.sum[i], t->f64.rest[i]}), out, at + i);
        } else if (r->mean) {
            store_mean(r, t->exact[i], out, at + i);
        } else if (r->dtype == PS_I32) {
            ((uint32_t *)out)[at + i] = t->i32[i];
        } else {
            ((uint64_t *)out)[at + i] = t->i64[i];
        }
    }
}

static struct psi_around around(const struct psi_op_attrs *attrs, const ps_shape *shape)
{
    if (!attrs->has_axis) {
        return (struct psi_around){1, ps_shape_elements(shape), 1};
    }
    return psi_around_axis(shape, psi_op_axis_of(attrs, shape->rank));
}

static ps_status reduce_rows(const struct psi_op *op, const struct psi_op_context *ctx, const struct reduction *r,
                             const struct psi_value *in, int64_t rows, struct psi_value *out, struct psi_err *err)
{
    const size_t bytes = ps_dtype_bytes(r->dtype);
    const char *x = in->data;
    int64_t since = 0;
    for (int64_t row = 0; row < rows; row++) {
        union lanes l;
        memset(&l, 0, sizeof(l));
        for (int64_t i = 0; i < r->count; i += PSI_OP_SLICE) {
            const int64_t n = r->count - i < PSI_OP_SLICE ? r->count - i : PSI_OP_SLICE;
            add_lanes(r, &l, x, n);
            x += (size_t)n * bytes;
            since += n;
            if (since >= PSI_OP_SLICE) {
                since = 0;
                const ps_status st = psi_op_go_on(op, ctx, err);
                if (st != PS_OK) {
                    return st;
                }
            }
        }
        store_lanes(r, &l, out->data, row);
    }
    return PS_OK;
}

/* Reduce an axis with inner > 1: elements of one sum are `inner` apart. TILE neighbouring sums are made at a time. */
static ps_status reduce_columns(const struct psi_op *op, const struct psi_op_context *ctx, const struct reduction *r,
                                const struct psi_value *in, int64_t outer, int64_t inner, struct psi_value *out,
                                struct psi_err *err)
{
    const size_t bytes = ps_dtype_bytes(r->dtype);
    int64_t since = 0;
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t first = 0; first < inner; first += TILE) {
            const int64_t n = inner - first < TILE ? inner - first : TILE;
            union tile t;
            memset(&t, 0, sizeof(t));
            for (int64_t k = 0; k < r->count; k++) {
                add_row(r, &t, (const char *)in->data + (size_t)((o * r->count + k) * inner + first) * bytes, n);
                since += n;
                if (since >= PSI_OP_SLICE) {
                    since = 0;
                    const ps_status st = psi_op_go_on(op, ctx, err);
                    if (st != PS_OK) {
                        return st;
                    }
                }
            }
            store_tile(r, &t, n, out->data, o * inner + first);
        }
    }
    return PS_OK;
}

static ps_status reduce(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_op_context *ctx,
                        const struct psi_value *in, struct psi_value *out, bool mean, struct psi_err *err)
{
    const struct psi_around a = around(attrs, &in->shape);
    const struct reduction r = {in->dtype, mean, a.count};
    if (out->bytes == 0) {
        return PS_OK;
    }
    if (mean && a.count == 0 && (in->dtype == PS_I32 || in->dtype == PS_I64)) {
        const struct psi_type type = {in->dtype, in->shape};
        return psi_op_misfit(op, &type, 1, err, "no integer is the mean of no elements");
    }
    return a.inner == 1 ? reduce_rows(op, ctx, &r, in, a.outer, out, err)
                        : reduce_columns(op, ctx, &r, in, a.outer, a.inner, out, err);
}

PSI_RUN(reduce_sum)
{
    (void)in_count;
    (void)out_count;
    return reduce(op, attrs, ctx, in, out, false, err);
}

PSI_RUN(reduce_mean)
{
    (void)in_count;
    (void)out_count;
    return reduce(op, attrs, ctx, in, out, true, err);
}

/* The index of the first largest of n elements x[i * step], or of the first NaN. */
#define ARGMAX(name, type)                                                                                                       \
    static int64_t name(const void *data, int64_t n, int64_t step)                                                               \
    {                                                                                                                            \
        const type *x = data;                                                                                                    \
        int64_t best = 0;                                                                                                        \
        for (int64_t i = 1; i < n && x[best * step] == x[best * step]; i++) {                                                    \
            best = x[i * step] <= x[best * step] ? best : i; /* a NaN compares false, so it becomes the best */                  \
        }                                                                                                                        \
        return best;                                                                                                             \
    }
ARGMAX(argmax_f32, float)
ARGMAX(argmax_f64, double)
ARGMAX(argmax_i32, int32_t)
ARGMAX(argmax_i64, int64_t)

PSI_RUN(argmax)
{
    static int64_t (*const of[])(const void *, int64_t, int64_t) = {argmax_f32, argmax_f64, argmax_i32, argmax_i64};
    (void)in_count;
    (void)out_count;
    const struct psi_around a = psi_around_axis(&in[0].shape, psi_op_axis_of(attrs, in[0].shape.rank));
    const size_t bytes = ps_dtype_bytes(in[0].dtype);
    int64_t *to = out[0].data, since = 0;
    for (int64_t o = 0; o < a.outer && out[0].bytes > 0; o++) { /* 0 bytes: no loop, because a.outer may be huge */
        for (int64_t i = 0; i < a.inner; i++) {
            *to++ = of[in[0].dtype - PS_F32]((const char *)in[0].data + (size_t)(o * a.count * a.inner + i) * bytes, a.count,
                                             a.inner);
            since += a.count;
            if (since >= PSI_OP_SLICE) {
                since = 0;
                const ps_status st = psi_op_go_on(op, ctx, err);
                if (st != PS_OK) {
                    return st;
                }
            }
        }
    }
    return PS_OK;
}

/* A macro argument that is a type cannot stand in parentheses: NOLINTBEGIN(bugprone-macro-parentheses) */
/* Softmax of one row of n values, summed in double; `to` may be `from`. */
#define SOFTMAX(name, type)                                                                                                      \
    static void name(const void *from, void *to, int64_t n)                                                                      \
    {                                                                                                                            \
        const type *x = from;                                                                                                    \
        type *y = to;                                                                                                            \
        double most = -INFINITY, sum = 0;                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                                        \
            most = (double)x[i] > most ? (double)x[i] : most; /* a NaN is skipped here: it makes the sum NaN, and so every y */  \
        }                                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                                        \
            const double e = exp((double)x[i] - most);                                                                           \
            y[i] = (type)e;                                                                                                      \
            sum += e;                                                                                                            \
        }                                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                                        \
            y[i] = (type)((double)y[i] / sum);                                                                                   \
        }                                                                                                                        \
    }
/* NOLINTEND(bugprone-macro-parentheses) */
SOFTMAX(softmax_f32, float)
SOFTMAX(softmax_f64, double)

PSI_RUN(softmax)
{
    (void)attrs;
    (void)in_count;
    (void)out_count;
    const struct psi_around a = psi_around_axis(&in[0].shape, in[0].shape.rank - 1);
    const size_t row_bytes = (size_t)a.count * ps_dtype_bytes(in[0].dtype);
    int64_t since = 0;
    for (int64_t o = 0; o < a.outer && row_bytes > 0; o++) {
        const char *from = (const char *)in[0].data + (size_t)o * row_bytes;
        char *to = (char *)out[0].data + (size_t)o * row_bytes;
        (in[0].dtype == PS_F32 ? softmax_f32 : softmax_f64)(from, to, a.count);
        since += a.count;
        if (since >= PSI_OP_SLICE) {
            since = 0;
            const ps_status st = psi_op_go_on(op, ctx, err);
            if (st != PS_OK) {
                return st;
            }
        }
    }
    return PS_OK;
}

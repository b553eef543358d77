/* SPDX-License-Identifier: Apache-2.0 */
/* add, sub, mul, div with NumPy's broadcasting. Neighbouring dimensions are merged where both inputs allow one stride for them.
 * The last dimension is an inner loop, in which each input advances by one element or none; the other indices count like an
 * odometer. Integers wrap, because they are computed as unsigned; a quotient of integers is rounded down. Failure mode: an
 * integer is divided by 0; the error names its element. */
#include "rows.h"

#include <inttypes.h>
#include <string.h>

/* Compute n elements from a and b. Step 1: n elements of that input are used; 0: one is. Returns n, or the index that failed. */
typedef int64_t (*loop_fn)(const void *a, const void *b, void *out, int64_t n, int64_t a_step, int64_t b_step);

/* A macro argument that is a type cannot stand in parentheses: NOLINTBEGIN(bugprone-macro-parentheses) */
/* Each combination of steps has its own loop, because compilers vectorise constant strides. */
#define LOOP(name, type, expression)                                                                                             \
    static int64_t name(const void *pa, const void *pb, void *po, int64_t n, int64_t a_step, int64_t b_step)                     \
    {                                                                                                                            \
        const type *a = pa, *b = pb;                                                                                             \
        type *out = po;                                                                                                          \
        if (a_step == 1 && b_step == 1) {                                                                                        \
            for (int64_t i = 0; i < n; i++) {                                                                                    \
                const type x = a[i], y = b[i];                                                                                   \
                out[i] = (expression);                                                                                           \
            }                                                                                                                    \
        } else if (a_step == 1) {                                                                                                \
            const type y = b[0];                                                                                                 \
            for (int64_t i = 0; i < n; i++) {                                                                                    \
                const type x = a[i];                                                                                             \
                out[i] = (expression);                                                                                           \
            }                                                                                                                    \
        } else {                                                                                                                 \
            const type x = a[0];                                                                                                 \
            for (int64_t i = 0; i < n; i++) {                                                                                    \
                const type y = b[i * b_step];                                                                                    \
                out[i] = (expression);                                                                                           \
            }                                                                                                                    \
        }                                                                                                                        \
        return n;                                                                                                                \
    }
#define LOOPS(name, sign)                                                                                                        \
    LOOP(name##_f32, float, x sign y)                                                                                            \
    LOOP(name##_f64, double, x sign y)                                                                                           \
    LOOP(name##_i32, uint32_t, x sign y)                                                                                         \
    LOOP(name##_i64, uint64_t, x sign y)
LOOPS(add, +)
LOOPS(sub, -)
LOOPS(mul, *)
LOOP(div_f32, float, x / y)
LOOP(div_f64, double, x / y)

/* Quotients of integers, rounded down. The least integer divided by -1 does not fit its dtype, and wraps to itself. */
#define FLOOR_DIV(name, type, unsigned_type)                                                                                     \
    static int64_t name(const void *pa, const void *pb, void *po, int64_t n, int64_t a_step, int64_t b_step)                     \
    {                                                                                                                            \
        const type *a = pa, *b = pb;                                                                                             \
        type *out = po;                                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                                        \
            const type x = a[i * a_step], y = b[i * b_step];                                                                     \
            if (y == 0) {                                                                                                        \
                return i;                                                                                                        \
            }                                                                                                                    \
            if (y == -1) {                                                                                                       \
                out[i] = (type)(0 - (unsigned_type)x);                                                                           \
            } else {                                                                                                             \
                out[i] = x / y - (x % y != 0 && (x < 0) != (y < 0));                                                             \
            }                                                                                                                    \
        }                                                                                                                        \
        return n;                                                                                                                \
    }
/* NOLINTEND(bugprone-macro-parentheses) */
FLOOR_DIV(div_i32, int32_t, uint32_t)
FLOOR_DIV(div_i64, int64_t, uint64_t)

/* How the elements of two inputs and of the result are visited together. The result's elements are consecutive. */
struct walk {
    uint32_t rank;                          /* number of dimensions, at least 1 */
    int64_t size[PS_RANK_MAX];              /* [rank], the last dimension first; sizes of 1 are left out, and neighbours merged */
    int64_t a[PS_RANK_MAX], b[PS_RANK_MAX]; /* elements that each input advances for a step in each dimension */
    int64_t at[PS_RANK_MAX];
};

static struct walk walk_of(const ps_shape *a, const ps_shape *b, const ps_shape *out)
{
    struct walk w = {.rank = 0};
    int64_t a_stride = 1, b_stride = 1; /* strides of the present dimension; the loop begins with the last dimension */
    for (uint32_t back = 1; back <= out->rank; back++) {
        const int64_t size = out->dims[out->rank - back];
        const int64_t x = back <= a->rank ? a->dims[a->rank - back] : 1;
        const int64_t y = back <= b->rank ? b->dims[b->rank - back] : 1;
        const int64_t a_step = x == 1 ? 0 : a_stride, b_step = y == 1 ? 0 : b_stride;
        a_stride *= x;
        b_stride *= y;
        if (size == 1) {
            continue;
        }
        const uint32_t inner = w.rank - 1; /* index of the dimension added last, into which this one may be merged */
        if (w.rank > 0 && a_step == w.a[inner] * w.size[inner] && b_step == w.b[inner] * w.size[inner]) {
            w.size[inner] *= size;
            continue;
        }
        w.size[w.rank] = size;
        w.a[w.rank] = a_step;
        w.b[w.rank] = b_step;
        w.rank++;
    }
    if (w.rank == 0) {
        w.size[0] = 1;
        w.rank = 1;
    }
    return w;
}

/* Advance indices *a and *b of the inputs to the next row of the inner dimension. False: all rows were visited. */
static bool step(struct walk *w, int64_t *a, int64_t *b)
{
    for (uint32_t d = 1; d < w->rank; d++) {
        *a += w->a[d];
        *b += w->b[d];
        if (++w->at[d] < w->size[d]) {
            return true;
        }
        w->at[d] = 0;
        *a -= w->a[d] * w->size[d];
        *b -= w->b[d] * w->size[d];
    }
    return false;
}

static ps_status apply(const struct psi_op *op, const struct psi_op_context *ctx, const struct psi_value *in,
                       struct psi_value *out, loop_fn loop, struct psi_err *err)
{
    struct walk w = walk_of(&in[0].shape, &in[1].shape, &out[0].shape);
    const size_t bytes = ps_dtype_bytes(out[0].dtype);
    const char *a = in[0].data, *b = in[1].data;
    char *to = out[0].data;
    int64_t a_at = 0, b_at = 0, done = 0, since = 0;
    if (out[0].bytes == 0) {
        return PS_OK;
    }
    do {
        for (int64_t i = 0; i < w.size[0]; i += PSI_OP_SLICE) {
            const int64_t n = w.size[0] - i < PSI_OP_SLICE ? w.size[0] - i : PSI_OP_SLICE;
            const int64_t made = loop(a + (size_t)(a_at + i * w.a[0]) * bytes, b + (size_t)(b_at + i * w.b[0]) * bytes,
                                      to + (size_t)done * bytes, n, w.a[0], w.b[0]);
            done += made;
            since += made;
            if (made < n) {
                return psi_fail(err, PS_INVALID_ARGUMENT, "%s: an integer is divided by 0 (element %" PRId64 ")", op->name, done);
            }
            if (since >= PSI_OP_SLICE) {
                since = 0;
                const ps_status st = psi_op_go_on(op, ctx, err);
                if (st != PS_OK) {
                    return st;
                }
            }
        }
    } while (step(&w, &a_at, &b_at));
    return PS_OK;
}

static const loop_fn *loops_of(const loop_fn *loops, ps_dtype dtype)
{
    return &loops[dtype - PS_F32];
}

#define BODY(name)                                                                                                               \
    PSI_RUN(name)                                                                                                                \
    {                                                                                                                            \
        static const loop_fn loops[] = {name##_f32, name##_f64, name##_i32, name##_i64};                                         \
        (void)attrs;                                                                                                             \
        (void)in_count;                                                                                                          \
        (void)out_count;                                                                                                         \
        return apply(op, ctx, in, out, *loops_of(loops, in[0].dtype), err);                                                      \
    }
_Static_assert(PS_F32 == 1 && PS_F64 == 2 && PS_I32 == 3 && PS_I64 == 4, "the order of the loops");
BODY(add)
BODY(sub)
BODY(mul)
BODY(div)

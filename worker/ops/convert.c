/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions between dtypes: the operation cast, and values that a program gives for placeholders. cast truncates fractions, and
 * refuses only NaN and numbers outside the range of an integer dtype. For a placeholder every number that would become another
 * number is refused, except that floats are rounded to narrower floats. Failure mode: INVALID_ARGUMENT with the first element
 * that does not fit. */
#include "rows.h"

#include "common/half.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The exact value of a number of any dtype: the integer i, or the double f. */
struct number {
    bool is_float;
    int64_t i;
    double f;
};

static struct number load(ps_dtype dtype, const void *data, int64_t at)
{
    switch (dtype) {
    case PS_F32:
        return (struct number){true, 0, (double)((const float *)data)[at]};
    case PS_F64:
        return (struct number){true, 0, ((const double *)data)[at]};
    case PS_F16:
    case PS_BF16:
        return (struct number){true, 0, (double)psi_half_value(dtype, ((const uint16_t *)data)[at])};
    case PS_I32:
        return (struct number){false, ((const int32_t *)data)[at], 0};
    case PS_I64:
        return (struct number){false, ((const int64_t *)data)[at], 0};
    case PS_I8:
        return (struct number){false, ((const int8_t *)data)[at], 0};
    default:
        return (struct number){false, ((const uint8_t *)data)[at], 0};
    }
}

/* Truncate f to an integer. False: f is NaN, or does not fit 64 bits. */
static bool cut(double f, int64_t *out)
{
    const bool fits = f >= (double)INT64_MIN && f < -(double)INT64_MIN; /* false for a NaN */
    *out = fits ? (int64_t)f : 0;
    return fits;
}

static bool integer_fits(ps_dtype dtype, int64_t i)
{
    return dtype == PS_I64 || (dtype == PS_I32 && i >= INT32_MIN && i <= INT32_MAX) || (dtype == PS_BOOL && (i == 0 || i == 1));
}

/* Store i as an integer or a bool. False: it does not fit. */
static bool store_integer(ps_dtype dtype, void *data, int64_t at, int64_t i)
{
    if (!integer_fits(dtype, i)) {
        return false;
    }
    if (dtype == PS_I64) {
        ((int64_t *)data)[at] = i;
    } else if (dtype == PS_I32) {
        ((int32_t *)data)[at] = (int32_t)i;
    } else {
        ((uint8_t *)data)[at] = (uint8_t)i;
    }
    return true;
}

static bool is_float(ps_dtype dtype)
{
    return dtype == PS_F32 || dtype == PS_F64;
}

static const char *number_format(const struct number *x, char *buf, size_t n)
{
    if (!x->is_float) {
        (void)snprintf(buf, n, "%" PRId64, x->i);
        return buf;
    }
    (void)snprintf(buf, n, "%.15g", x->f);
    return buf;
}

static bool cast_one(ps_dtype to, void *data, int64_t at, const struct number *x)
{
    if (to == PS_F32) {
        ((float *)data)[at] = x->is_float ? (float)x->f : (float)x->i;
        return true;
    }
    if (to == PS_F64) {
        ((double *)data)[at] = x->is_float ? x->f : (double)x->i;
        return true;
    }
    int64_t i = x->i;
    return (!x->is_float || cut(x->f, &i)) && store_integer(to, data, at, i);
}

PSI_RUN(cast)
{
    (void)attrs;
    (void)in_count;
    (void)out_count;
    const int64_t elements = ps_shape_elements(&in[0].shape);
    if (in[0].dtype == out[0].dtype && in[0].bytes > 0) {
        memcpy(out[0].data, in[0].data, in[0].bytes);
        return PS_OK;
    }
    for (int64_t at = 0; at < elements; at++) {
        const struct number x = load(in[0].dtype, in[0].data, at);
        if (!cast_one(out[0].dtype, out[0].data, at, &x)) {
            char text[64];
            return psi_fail(err, PS_INVALID_ARGUMENT, "%s: %s has no place in %s (element %" PRId64 ")", op->name,
                            number_format(&x, text, sizeof(text)), ps_dtype_name(out[0].dtype), at);
        }
        const ps_status st = at % PSI_OP_SLICE == PSI_OP_SLICE - 1 ? psi_op_go_on(op, ctx, err) : PS_OK;
        if (st != PS_OK) {
            return st;
        }
    }
    return PS_OK;
}

static bool feed_one(ps_dtype to, void *data, int64_t at, const struct number *x)
{
    int64_t i = x->i;
    if (!is_float(to)) {
        return (!x->is_float || (cut(x->f, &i) && (double)i == x->f)) && store_integer(to, data, at, i);
    }
    (void)cast_one(to, data, at, x); /* cannot fail for a float */
    const double held = to == PS_F32 ? (double)((const float *)data)[at] : ((const double *)data)[at];
    return x->is_float ? isfinite(held) || !isfinite(x->f) : cut(held, &i) && i == x->i;
}

ps_status psi_value_feed(const char *who, const struct psi_value *from, struct psi_value *to, struct psi_err *err)
{
    const int64_t elements = ps_shape_elements(&from->shape);
    to->shape = from->shape;
    if (from->dtype == to->dtype && to->dtype != PS_BOOL) { /* each byte of a bool is checked below */
        to->bytes = from->bytes;
        if (from->bytes > 0) {
            memcpy(to->data, from->data, from->bytes);
        }
        return PS_OK;
    }
    if (from->dtype == PS_STRING || to->dtype == PS_STRING) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s is %s, a value of dtype %s does not fit", who, ps_dtype_name(to->dtype),
                        ps_dtype_name(from->dtype));
    }
    for (int64_t at = 0; at < elements; at++) {
        const struct number x = load(from->dtype, from->data, at);
        if (!feed_one(to->dtype, to->data, at, &x)) {
            char text[64];
            return psi_fail(err, PS_INVALID_ARGUMENT, "%s is %s, which cannot hold %s (element %" PRId64 ")", who,
                            ps_dtype_name(to->dtype), number_format(&x, text, sizeof(text)), at);
        }
    }
    return PS_OK;
}

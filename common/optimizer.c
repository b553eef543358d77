/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of optimizer and initializer descriptions. One table says which hyperparameters an optimizer has; check, format
 * and comparison read it. A value is checked as the double given and as what it becomes in the variable's dtype: 1e-50 is
 * a fine double and no learning rate for float32.
 */
#include "optimizer.h"

#include "name.h"
#include "half.h"
#include "shape.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HYPER(field, range_)                                                                                                     \
    {                                                                                                                            \
#field, offsetof(ps_optimizer, field), range_                                                                            \
    }
#define HYPER_MAX 5

static const struct {
    const char *name;
    struct psi_hyper hypers[HYPER_MAX]; /* name NULL ends */
} kinds[] = {
    [PS_OPT_NONE] = {"none", {{NULL, 0, PSI_POSITIVE}}},
    [PS_OPT_SGD] = {"sgd", {HYPER(learning_rate, PSI_POSITIVE)}},
    [PS_OPT_MOMENTUM] = {"momentum", {HYPER(learning_rate, PSI_POSITIVE), HYPER(momentum, PSI_NOT_NEGATIVE)}},
    [PS_OPT_ADAGRAD] = {"adagrad", {HYPER(learning_rate, PSI_POSITIVE), HYPER(initial_accumulator, PSI_POSITIVE)}},
    [PS_OPT_ADAM] = {"adam",
                     {HYPER(learning_rate, PSI_POSITIVE), HYPER(beta1, PSI_UNIT), HYPER(beta2, PSI_UNIT),
                      HYPER(epsilon, PSI_NOT_NEGATIVE)}},
};
#define KIND_COUNT (sizeof(kinds) / sizeof(kinds[0]))

double psi_hyper_value(const ps_optimizer *opt, const struct psi_hyper *h)
{
    double v = 0;
    memcpy(&v, (const char *)opt + h->offset, sizeof(v));
    return v;
}

/* The shortest text that strtod reads back to the same double. */
static const char *format_double(double v, char *buf, size_t n)
{
    for (int digits = 15; digits <= 17; digits++) {
        PSI_IGNORE(snprintf(buf, n, "%.*g", digits, v));
        if (strtod(buf, NULL) == v) {
            break;
        }
    }
    return buf;
}

const struct psi_hyper *psi_optimizer_hypers(uint32_t kind)
{
    return kinds[kind < KIND_COUNT ? kind : PS_OPT_NONE].hypers;
}

const char *psi_optimizer_name(uint32_t kind)
{
    return kind < KIND_COUNT ? kinds[kind].name : "invalid";
}

ps_status psi_optimizer_parse(const char *name, uint32_t *out_kind, struct psi_err *err)
{
    for (uint32_t i = 0; i < KIND_COUNT; i++) {
        if (strcmp(name, kinds[i].name) == 0) {
            *out_kind = i;
            return PS_OK;
        }
    }
    char quoted[PSI_QUOTE_MAX];
    return psi_fail(err, PS_INVALID_ARGUMENT, "optimizer %s: allowed are none, sgd, momentum, adagrad, adam",
                    psi_quote(quoted, sizeof(quoted), name, strlen(name)));
}

static bool in_range(double v, enum psi_range range)
{
    switch (range) {
    case PSI_POSITIVE:
        return isfinite(v) && v > 0;
    case PSI_NOT_NEGATIVE:
        return isfinite(v) && v >= 0;
    case PSI_UNIT:
        return v >= 0 && v < 1; /* false for NaN */
    }
    return false;
}

ps_status psi_optimizer_check(const ps_optimizer *opt, ps_dtype dtype, struct psi_err *err)
{
    static const char *const allowed[] = {
        [PSI_POSITIVE] = "finite and > 0", [PSI_NOT_NEGATIVE] = "finite and >= 0", [PSI_UNIT] = ">= 0 and < 1"};
    if (opt->kind >= KIND_COUNT) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "optimizer number %u: allowed are none, sgd, momentum, adagrad, adam",
                        opt->kind);
    }
    const char *name = kinds[opt->kind].name;
    if (opt->nesterov > 1 || (opt->nesterov == 1 && opt->kind != PS_OPT_MOMENTUM)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "optimizer %s: nesterov is %u, allowed is 0, or 1 with momentum", name,
                        opt->nesterov);
    }
    if (opt->kind == PS_OPT_NONE) {
        return PS_OK;
    }
    if (dtype != PS_F32 && dtype != PS_F64) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "optimizer %s: a variable of dtype %s cannot have one, only float32 and float64 can", name,
                        ps_dtype_name(dtype));
    }
    for (const struct psi_hyper *h = kinds[opt->kind].hypers; h->name != NULL; h++) {
        double v = psi_hyper_value(opt, h);
        double narrow = v;
        if (dtype == PS_F32) {
            narrow = fabs(v) > FLT_MAX ? copysign(INFINITY, v) : (double)(float)v;
        }
        if (!in_range(v, h->range) || !in_range(narrow, h->range)) {
            char text[40];
            return psi_fail(err, PS_INVALID_ARGUMENT, "optimizer %s: %s is %s, it must be %s in %s", name, h->name,
                            format_double(v, text, sizeof(text)), allowed[h->range], ps_dtype_name(dtype));
        }
    }
    return PS_OK;
}

const char *psi_optimizer_format(const ps_optimizer *opt, char *buf, size_t n)
{
    char text[PSI_OPTIMIZER_TEXT_MAX];
    char number[40];
    size_t used = 0;
    for (const struct psi_hyper *h = psi_optimizer_hypers(opt->kind); h->name != NULL; h++) {
        int wrote = snprintf(text + used, sizeof(text) - used, "%s%s=%s", used == 0 ? "" : ", ", h->name,
                             format_double(psi_hyper_value(opt, h), number, sizeof(number)));
        PSI_ASSERT(wrote > 0 && (size_t)wrote < sizeof(text) - used);
        used += (size_t)wrote;
    }
    text[used] = '\0';
    bool momentum = opt->kind == PS_OPT_MOMENTUM;
    PSI_IGNORE(snprintf(buf, n, "%s%s%s%s%s", psi_optimizer_name(opt->kind), used == 0 ? "" : "(", text,
                        !momentum ? "" : (opt->nesterov != 0 ? ", nesterov=true" : ", nesterov=false"), used == 0 ? "" : ")"));
    return buf;
}

bool psi_optimizer_equal(const ps_optimizer *a, const ps_optimizer *b)
{
    if (a->kind != b->kind || a->kind >= KIND_COUNT) {
        return false;
    }
    for (const struct psi_hyper *h = kinds[a->kind].hypers; h->name != NULL; h++) {
        if (memcmp((const char *)a + h->offset, (const char *)b + h->offset, sizeof(double)) != 0) {
            return false;
        }
    }
    return a->kind != PS_OPT_MOMENTUM || a->nesterov == b->nesterov;
}

const char *psi_initializer_name(uint32_t kind)
{
    static const char *const names[] = {
        [PS_INIT_ZEROS] = "zeros",
        [PS_INIT_ONES] = "ones",
        [PS_INIT_CONSTANT] = "constant",
        [PS_INIT_UNIFORM] = "uniform",
        [PS_INIT_NORMAL] = "normal",
        [PS_INIT_GLOROT_UNIFORM] = "glorot_uniform",
        [PS_INIT_TRUNCATED_NORMAL] = "truncated_normal",
        [PS_INIT_HE_NORMAL] = "he_normal",
        [PS_INIT_HE_UNIFORM] = "he_uniform",
    };
    return kind >= PS_INIT_ZEROS && kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "invalid";
}

static bool whole_between(double v, double low, double high)
{
    return v == trunc(v) && v >= low && v <= high;
}

/* A finite double within the range of dtype; floating-point dtypes round it, nothing else changes it. */
static bool representable(double v, ps_dtype dtype)
{
    if (!isfinite(v)) {
        return false;
    }
    switch (dtype) {
    case PS_F64:
        return true;
    case PS_F32:
        return fabs(v) <= (double)FLT_MAX;
    case PS_F16:
    case PS_BF16:
        return fabs(v) <= psi_half_max(dtype);
    case PS_I8:
        return whole_between(v, -128, 127);
    case PS_U8:
        return whole_between(v, 0, 255);
    case PS_I32:
        return whole_between(v, -2147483648.0, 2147483647.0);
    case PS_I64:
        return v == trunc(v) && v >= -9223372036854775808.0 && v < 9223372036854775808.0;
    case PS_BOOL:
        return v == 0 || v == 1;
    case PS_STRING:
    case PS_DTYPE_NONE:
        break;
    }
    return false;
}

static ps_status check_constant(const ps_initializer *init, ps_dtype dtype, struct psi_err *err)
{
    char a[40];
    if (!representable(init->a, dtype)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "initializer constant: %s is no finite value that dtype %s can hold",
                        format_double(init->a, a, sizeof(a)), ps_dtype_name(dtype));
    }
    return PS_OK;
}

static ps_status check_random(const ps_initializer *init, ps_dtype dtype, struct psi_err *err)
{
    const char *name = psi_initializer_name(init->kind);
    char a[40];
    char b[40];
    const bool by_fans =
        init->kind == PS_INIT_GLOROT_UNIFORM || init->kind == PS_INIT_HE_NORMAL || init->kind == PS_INIT_HE_UNIFORM;
    if (by_fans && init->fan != PS_FAN_IN_OUT && init->fan != PS_FAN_OUT_IN) {
        return psi_fail(
            err, PS_INVALID_ARGUMENT,
            "initializer %s: layout %u of the fans is unknown; PS_FAN_IN_OUT (TensorFlow) and PS_FAN_OUT_IN (PyTorch) "
            "are allowed",
            name, init->fan);
    }
    if (dtype != PS_F32 && dtype != PS_F64 && !psi_half_is(dtype)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "initializer %s: needs dtype float32, float64, float16 or bfloat16, not %s",
                        name, ps_dtype_name(dtype));
    }
    if (init->kind == PS_INIT_UNIFORM) {
        double width = init->b - init->a;
        if (!representable(init->a, dtype) || !representable(init->b, dtype) || !representable(width, dtype) || width < 0) {
            return psi_fail(err, PS_INVALID_ARGUMENT,
                            "initializer uniform: low %s, high %s: finite, also high - low, low <= high",
                            format_double(init->a, a, sizeof(a)), format_double(init->b, b, sizeof(b)));
        }
    }
    if (init->kind == PS_INIT_NORMAL || init->kind == PS_INIT_TRUNCATED_NORMAL) {
        /* no sample is further than 9 standard deviations from the mean (53-bit Box-Muller) */
        bool good = representable(init->a, dtype) && representable(init->b, dtype) && init->b >= 0;
        if (!good || !representable(fabs(init->a) + 9 * init->b, dtype)) {
            return psi_fail(err, PS_INVALID_ARGUMENT,
                            "initializer %s: mean %s, stddev %s: finite, also mean +- 9 stddev, stddev >= 0", name,
                            format_double(init->a, a, sizeof(a)), format_double(init->b, b, sizeof(b)));
        }
    }
    return PS_OK;
}

ps_status psi_initializer_check(const ps_initializer *init, ps_dtype dtype, const ps_shape *shape, struct psi_err *err)
{
    const char *name = psi_initializer_name(init->kind);
    ps_status st = psi_shape_check(shape, err);
    if (st != PS_OK) {
        return st;
    }
    if (!psi_dtype_known((uint32_t)dtype)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "initializer %s: dtype number %d is unknown", name, (int)dtype);
    }
    if (dtype == PS_STRING && init->kind != PS_INIT_ZEROS) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "initializer %s: strings are only made empty (zeros); give others with ps_variable_init_strings", name);
    }
    switch (init->kind) {
    case PS_INIT_ZEROS:
    case PS_INIT_ONES:
        return PS_OK;
    case PS_INIT_CONSTANT:
        return check_constant(init, dtype, err);
    case PS_INIT_UNIFORM:
    case PS_INIT_NORMAL:
    case PS_INIT_GLOROT_UNIFORM:
    case PS_INIT_TRUNCATED_NORMAL:
    case PS_INIT_HE_NORMAL:
    case PS_INIT_HE_UNIFORM:
        return check_random(init, dtype, err);
    default:
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "initializer number %u is unknown: allowed are zeros, ones, constant, uniform, normal, glorot_uniform, "
                        "truncated_normal, he_normal, he_uniform",
                        init->kind);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Checks, texts and comparison of optimizers, by the row of their kind (psi_optimizer_row()); checks of initializers. A value is
 * checked as a double and after conversion to the variable's dtype: 1e-50 is a good double, but 0 as a float32. */
#include "optimizer.h"

#include "name.h"
#include "half.h"
#include "partition.h"
#include "rows.h"
#include "schedule.h"
#include "shape.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 440 };

const char *psi_number_text(double v, char *buf, size_t n)
{
    for (int digits = 15; digits <= 17; digits++) {
        PSI_IGNORE(snprintf(buf, n, "%.*g", digits, v));
        if (strtod(buf, NULL) == v) {
            break;
        }
    }
    return buf;
}

const char *psi_standard_text(const struct psi_hyper *h, char *buf, size_t n)
{
    char number[40];
    PSI_IGNORE(isnan(h->standard)
                   ? snprintf(buf, n, "%s", "")
                   : snprintf(buf, n, "; its standard value is %s", psi_number_text(h->standard, number, sizeof(number))));
    return buf;
}

const char *psi_optimizer_name(uint32_t kind)
{
    const struct psi_optimizer_row *row = psi_optimizer_row(kind);
    return row != NULL ? row->name : "invalid";
}

bool psi_range_has(enum psi_range range, double v)
{
    switch (range) {
    case PSI_POSITIVE:
    case PSI_RISING:
    case PSI_RATES:
        return isfinite(v) && v > 0;
    case PSI_NOT_NEGATIVE:
        return isfinite(v) && v >= 0;
    case PSI_NOT_POSITIVE:
        return isfinite(v) && v <= 0;
    case PSI_UNIT:
        return v >= 0 && v < 1; /* false for NaN */
    case PSI_SWITCH:
        return v == 0 || v == 1;
    case PSI_AT_LEAST_1:
        return isfinite(v) && v >= 1;
    }
    return false;
}

const char *psi_range_text(enum psi_range range)
{
    static const char *const texts[] = {[PSI_POSITIVE] = "finite and > 0",
                                        [PSI_NOT_NEGATIVE] = "finite and >= 0",
                                        [PSI_NOT_POSITIVE] = "finite and <= 0",
                                        [PSI_UNIT] = ">= 0 and < 1",
                                        [PSI_SWITCH] = "0 or 1",
                                        [PSI_AT_LEAST_1] = "finite and >= 1",
                                        [PSI_RISING] = "finite, > 0 and rising",
                                        [PSI_RATES] = "finite and > 0"};
    return texts[range];
}

static const char *names(char *buf, size_t n)
{
    size_t used = 0;
    for (uint32_t kind = 0; kind < psi_optimizer_row_count; kind++) {
        if (psi_optimizer_row(kind) == NULL) {
            continue;
        }
        used += (size_t)snprintf(buf + used, n - used, "%s%s", kind == 0 ? "" : ", ", psi_optimizer_name(kind));
        for (const struct psi_hyper *h = psi_optimizer_hypers(kind); h->name != NULL; h++) {
            used += h->range == PSI_SWITCH ? (size_t)snprintf(buf + used, n - used, ", %s", h->name) : 0;
        }
        PSI_ASSERT(used < n);
    }
    return buf;
}

static bool is_name(const char *name, const char *text, size_t n)
{
    return strncmp(name, text, n) == 0 && name[n] == '\0';
}

/* Find the hyperparameter with the name text [n]. If there is none, returns the row that ends the list: its name is NULL. */
static const struct psi_hyper *find_hyper(uint32_t kind, const char *text, size_t n)
{
    const struct psi_hyper *h = psi_optimizer_hypers(kind);
    while (h->name != NULL && !is_name(h->name, text, n)) {
        h++;
    }
    return h;
}

static ps_status parse_fail(const char *p, const ps_optimizer *opt, struct psi_err *err)
{
    char quoted[PSI_QUOTE_MAX], known[PSI_OPTIMIZER_TEXT_MAX], quiet[80] = "";
    size_t used = 0;
    for (const struct psi_hyper *h = psi_optimizer_hypers(opt->kind); h->name != NULL; h++) {
        used += h->quiet ? (size_t)snprintf(quiet + used, sizeof(quiet) - used, ", %s", h->name) : 0;
        PSI_ASSERT(used < sizeof(quiet));
    }
    return psi_fail(err, PS_INVALID_ARGUMENT, "optimizer %s: %s: hyperparameters are written NAME=NUMBER,...: %s%s",
                    psi_optimizer_name(opt->kind), psi_quote(quoted, sizeof(quoted), p, strlen(p)),
                    psi_optimizer_format(opt, known, sizeof(known)), quiet);
}

static ps_status parse_hypers(const char *text, ps_optimizer *opt, struct psi_err *err)
{
    uint32_t said = 0; /* bit i: hyperparameter i is in the text */
    for (const char *p = text; *p != '\0';) {
        const size_t n = strcspn(p, "=,");
        const struct psi_hyper *h = find_hyper(opt->kind, p, n);
        const char *number = p[n] == '=' ? p + n + 1 : "";
        char *end = NULL;
        const double value = strtod(number, &end);
        if (h->name == NULL || end == number || (*end != ',' && *end != '\0')) {
            return parse_fail(p, opt, err);
        }
        if (h->range == PSI_SWITCH && !psi_range_has(h->range, value)) { /* psi_hyper_set() would take any other number for 1 */
            char standard[80];
            return psi_fail(err, PS_INVALID_ARGUMENT, "optimizer %s: %s is %g, it must be %s%s", psi_optimizer_name(opt->kind),
                            h->name, value, psi_range_text(h->range), psi_standard_text(h, standard, sizeof(standard)));
        }
        const uint32_t bit = 1u << (h - psi_optimizer_hypers(opt->kind));
        if ((said & bit) != 0) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "optimizer %s: %s is given twice", psi_optimizer_name(opt->kind), h->name);
        }
        said |= bit;
        psi_hyper_set(opt, h, value);
        p = *end == ',' ? end + 1 : end;
    }
    return PS_OK;
}

ps_status psi_optimizer_parse(const char *text, ps_optimizer *opt, struct psi_err *err)
{
    const size_t n = strcspn(text, ":");
    for (uint32_t kind = 0; kind < psi_optimizer_row_count; kind++) {
        const struct psi_hyper *on = find_hyper(kind, text, n);
        const bool with = on->name != NULL && on->range == PSI_SWITCH;
        if (psi_optimizer_row(kind) != NULL && (with || is_name(psi_optimizer_name(kind), text, n))) {
            *opt = psi_optimizer_standard(kind, opt);
            if (with) {
                psi_hyper_set(opt, on, 1);
            }
            return parse_hypers(text + n + (text[n] == ':'), opt, err);
        }
    }
    char quoted[PSI_QUOTE_MAX], allowed[NAMES_MAX];
    return psi_fail(err, PS_INVALID_ARGUMENT, "optimizer %s: allowed are %s", psi_quote(quoted, sizeof(quoted), text, n),
                    names(allowed, sizeof(allowed)));
}

ps_status psi_optimizer_check(const ps_optimizer *opt, ps_dtype dtype, struct psi_err *err)
{
    const struct psi_optimizer_row *row = psi_optimizer_row(opt->kind);
    bool switches = false;
    if (row == NULL) {
        char known[NAMES_MAX];
        return psi_fail(err, PS_INVALID_ARGUMENT, "optimizer number %u: allowed are %s", opt->kind, names(known, sizeof(known)));
    }
    if (opt->kind != PS_OPT_NONE && dtype != PS_F32 && dtype != PS_F64) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "optimizer %s: a variable of dtype %s cannot have one, only float32 and float64 can", row->name,
                        ps_dtype_name(dtype));
    }
    for (const struct psi_hyper *h = row->hypers; h->name != NULL; h++) {
        double v = psi_hyper_value(opt, h);
        switches = switches || h->range == PSI_SWITCH;
        double narrow = v;
        if (dtype == PS_F32) {
            narrow = fabs(v) > FLT_MAX ? copysign(INFINITY, v) : (double)(float)v;
        }
        if (!psi_range_has(h->range, v) || !psi_range_has(h->range, narrow)) {
            char text[40], standard[80];
            return psi_fail(err, PS_INVALID_ARGUMENT, "optimizer %s: %s is %s, it must be %s in %s%s", row->name, h->name,
                            psi_number_text(v, text, sizeof(text)), psi_range_text(h->range), ps_dtype_name(dtype),
                            psi_standard_text(h, standard, sizeof(standard)));
        }
    }
    if (opt->ema_updates > 0 && !(opt->ema > 0)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "optimizer %s: ema_updates is of a moving average: give ema, its decay, too",
                        row->name);
    }
    if (!switches && opt->nesterov != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "optimizer %s: nesterov is %u, and it has no switch", row->name, opt->nesterov);
    }
    ps_status st = opt->kind == PS_OPT_NONE && opt->schedule != PS_SCHEDULE_NONE
                       ? psi_fail(err, PS_INVALID_ARGUMENT, "no optimizer has no learning rate that could have a schedule")
                       : psi_schedule_check(opt, dtype, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "optimizer %s", row->name);
    }
    return st;
}

ps_status psi_optimizer_check_shape(const ps_optimizer *opt, const char *name, ps_dtype dtype, const ps_shape *shape,
                                    const struct psi_part *part, struct psi_err *err)
{
    uint64_t rows = 0, columns = 0;
    ps_status st = PS_OK;
    if (!psi_optimizer_is_by_row(opt->kind)) {
        return PS_OK;
    }
    if (part->count > 0 && part->axis != 0) {
        st = psi_fail(err, PS_INVALID_ARGUMENT,
                      "'%s' is cut along axis %u: each of its parts would have its own numbers for a row", name, part->axis);
    } else {
        st = psi_rows_of(name, shape, dtype, &rows, &columns, err);
    }
    if (st == PS_OK && columns == 0) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "'%s' has rows without elements", name);
    }
    if (st != PS_OK) {
        psi_err_prefix(err, "optimizer %s", psi_optimizer_name(opt->kind));
    }
    return st;
}

const char *psi_optimizer_format(const ps_optimizer *opt, char *buf, size_t n)
{
    char text[PSI_OPTIMIZER_TEXT_MAX] = "";
    char number[40];
    size_t used = 0;
    for (const struct psi_hyper *h = psi_optimizer_hypers(opt->kind); h->name != NULL; h++) {
        if (psi_hyper_is_silent(opt, h)) {
            continue;
        }
        const double value = psi_hyper_value(opt, h);
        const char *shown = h->range != PSI_SWITCH ? psi_number_text(value, number, sizeof(number))
                            : value != 0           ? "true"
                                                   : "false";
        int wrote = snprintf(text + used, sizeof(text) - used, "%s%s=%s", used == 0 ? "" : ", ", h->name, shown);
        PSI_ASSERT(wrote > 0 && (size_t)wrote < sizeof(text) - used);
        used += (size_t)wrote;
    }
    if (opt->schedule != PS_SCHEDULE_NONE && used > 0) {
        char schedule[PSI_SCHEDULE_TEXT_MAX];
        int wrote =
            snprintf(text + used, sizeof(text) - used, ", schedule=%s", psi_schedule_format(opt, schedule, sizeof(schedule)));
        PSI_ASSERT(wrote > 0 && (size_t)wrote < sizeof(text) - used);
    }
    const char *name = psi_optimizer_name(opt->kind);
    PSI_IGNORE(used == 0 ? snprintf(buf, n, "%s", name) : snprintf(buf, n, "%s(%s)", name, text));
    return buf;
}

bool psi_optimizer_equal(const ps_optimizer *a, const ps_optimizer *b)
{
    bool same = a->kind == b->kind && psi_optimizer_row(a->kind) != NULL;
    for (const struct psi_hyper *h = psi_optimizer_hypers(a->kind); same && h->name != NULL; h++) {
        const double x = psi_hyper_value(a, h), y = psi_hyper_value(b, h);
        same = memcmp(&x, &y, sizeof(x)) == 0;
    }
    return same && psi_schedule_equal(a, b);
}

bool psi_optimizer_fits(const ps_optimizer *a, const ps_optimizer *b)
{
    return a->kind == b->kind && (a->ema > 0) == (b->ema > 0);
}

const char *psi_optimizer_slots_text(const ps_optimizer *opt, char *buf, size_t n)
{
    PSI_IGNORE(snprintf(buf, n, "%s%s", psi_optimizer_name(opt->kind), opt->ema > 0 ? " with a moving average" : ""));
    return buf;
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
    return v >= low && v <= high && v == (double)(int64_t)v;
}

/* True if v is finite and within the range of dtype. Only floating-point dtypes may round v. */
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
        return v >= -9223372036854775808.0 && v < 9223372036854775808.0 && v == (double)(int64_t)v;
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
                        psi_number_text(init->a, a, sizeof(a)), ps_dtype_name(dtype));
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
                            psi_number_text(init->a, a, sizeof(a)), psi_number_text(init->b, b, sizeof(b)));
        }
    }
    if (init->kind == PS_INIT_NORMAL || init->kind == PS_INIT_TRUNCATED_NORMAL) {
        /* no sample is further than 9 standard deviations from the mean (53-bit Box-Muller) */
        bool good = representable(init->a, dtype) && representable(init->b, dtype) && init->b >= 0;
        if (!good || !representable(fabs(init->a) + 9 * init->b, dtype)) {
            return psi_fail(err, PS_INVALID_ARGUMENT,
                            "initializer %s: mean %s, stddev %s: finite, also mean +- 9 stddev, stddev >= 0", name,
                            psi_number_text(init->a, a, sizeof(a)), psi_number_text(init->b, b, sizeof(b)));
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimizers against what TensorFlow computed (optim_vectors.h, made by optim_vectors.py).
 *
 * All slots, and the variable under SGD, Momentum and Adam, must have TensorFlow's bits: the same IEEE operations in the same
 * order. The variable under Adagrad gets a bound: TensorFlow multiplies by Eigen's rsqrt, an approximation refined by Newton
 * steps that depends on the instruction set, where we divide by the correctly rounded root. ROOT_ULP units in the last place per
 * step, of the variable or of the step taken, whichever is larger (a step of 1 that brings a variable to 1e-9 leaves it no good
 * digits).
 */
#include "psd/optim/optim.h"

#include "by_row.h"
#include "optim_vectors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define ELEMENTS_MAX 33
#define ROOT_ULP 1.0

/* all arrays of one case, in its dtype's bytes */
struct run {
    _Alignas(64) unsigned char var[ELEMENTS_MAX * 8];
    _Alignas(64) unsigned char slots[PSD_OPTIM_SLOTS_MAX][ELEMENTS_MAX * 8];
    double largest[ELEMENTS_MAX]; /* largest magnitude that the variable had or moved by */
};

static double value_at(ps_dtype dtype, const void *array, size_t i)
{
    if (dtype == PS_F32) {
        float f = 0;
        memcpy(&f, (const char *)array + i * sizeof(f), sizeof(f));
        return (double)f;
    }
    double d = 0;
    memcpy(&d, (const char *)array + i * sizeof(d), sizeof(d));
    return d;
}

static void set_at(ps_dtype dtype, void *array, size_t i, double value)
{
    if (dtype == PS_F32) {
        float f = (float)value;
        memcpy((char *)array + i * sizeof(f), &f, sizeof(f));
    } else {
        memcpy((char *)array + i * sizeof(value), &value, sizeof(value));
    }
}

static void check_bits(size_t case_index, const char *what, unsigned step, ps_dtype dtype, size_t n, const void *got,
                       const void *wanted)
{
    if (memcmp(got, wanted, n * ps_dtype_bytes(dtype)) == 0) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        double a = value_at(dtype, got, i);
        double b = value_at(dtype, wanted, i);
        if (memcmp(&a, &b, sizeof(a)) != 0) {
            fail_msg("case %zu, %s[%zu] after step %u: %a, TensorFlow has %a", case_index, what, i, step, a, b);
        }
    }
    fail();
}

static void check_near(size_t case_index, unsigned step, ps_dtype dtype, size_t n, const struct run *run, const void *wanted)
{
    double epsilon = dtype == PS_F32 ? 0x1p-23 : 0x1p-52;
    for (size_t i = 0; i < n; i++) {
        double a = value_at(dtype, run->var, i);
        double b = value_at(dtype, wanted, i);
        double bound = ROOT_ULP * step * epsilon * run->largest[i];
        if (!(fabs(a - b) <= bound)) {
            fail_msg("case %zu, variable[%zu] after step %u: %a, TensorFlow has %a: apart by %g, allowed %g", case_index, i, step,
                     a, b, fabs(a - b), bound);
        }
    }
}

/* row: the variable is that row of one of five; BY_ROW_ROWS: it is whole. */
static void run_case(size_t case_index, const struct optim_case *c, uint64_t row)
{
    struct run run;
    struct psd_optim_state state;
    size_t n = c->elements;
    size_t bytes = n * ps_dtype_bytes(c->dtype);
    const char *in = c->in;
    const char *out = c->out;
    bool exact = c->opt.kind != PS_OPT_ADAGRAD;
    void *slots[PSD_OPTIM_SLOTS_MAX] = {run.slots[0], run.slots[1]};
    const uint32_t kind = row != BY_ROW_ROWS && c->opt.kind == PS_OPT_ADAM ? PS_OPT_LAZY_ADAM : c->opt.kind; /* the same rule */

    memset(&run, 0, sizeof(run));
    memcpy(run.var, in, bytes);
    for (uint32_t s = 0; s < psd_optim_slot_count(&c->opt); s++) {
        for (size_t i = 0; i < n; i++) {
            set_at(c->dtype, run.slots[s], i, psd_optim_slot_init(&c->opt, s));
        }
    }
    for (size_t i = 0; i < n; i++) {
        run.largest[i] = fabs(value_at(c->dtype, run.var, i));
    }
    psd_optim_state_init(&c->opt, c->dtype, &state);
    for (unsigned step = 1; step <= OPTIM_STEPS; step++) {
        struct psd_optim_scalars scalars;
        unsigned char before[sizeof(run.var)];
        memcpy(before, run.var, sizeof(before));
        psd_optim_begin(&c->opt, c->opt.learning_rate, c->dtype, &state, 0, 1.0f, &scalars);
        if (row == BY_ROW_ROWS) {
            psd_optim_apply(kind, c->dtype, c->dtype, &scalars, run.var, slots, in + step * bytes, n);
        } else {
            apply_by_row(kind, c->dtype, &scalars, run.var, slots, in + step * bytes, n, row);
        }
        psd_optim_end(&c->opt, c->dtype, &state);
        for (size_t i = 0; i < n; i++) {
            double after = value_at(c->dtype, run.var, i);
            run.largest[i] = fmax(run.largest[i], fmax(fabs(after), fabs(after - value_at(c->dtype, before, i))));
        }
        if (step != OPTIM_RECORDED_FIRST && step != OPTIM_STEPS) {
            continue;
        }
        if (exact) {
            check_bits(case_index, "variable", step, c->dtype, n, run.var, out);
        } else {
            check_near(case_index, step, c->dtype, n, &run, out);
        }
        out += bytes;
        for (uint32_t s = 0; s < psd_optim_slot_count(&c->opt); s++, out += bytes) {
            check_bits(case_index, psi_optimizer_slot(&c->opt, s)->name, step, c->dtype, n, run.slots[s], out);
        }
    }
}

static void run_kind(uint32_t kind)
{
    unsigned ran[PS_I64 + 1] = {0};
    for (size_t i = 0; i < sizeof(optim_cases) / sizeof(optim_cases[0]); i++) {
        if (optim_cases[i].opt.kind == kind) {
            run_case(i, &optim_cases[i], BY_ROW_ROWS);
            run_case(i, &optim_cases[i], 0);
            run_case(i, &optim_cases[i], BY_ROW_ROWS - 1);
            ran[optim_cases[i].dtype]++;
        }
    }
    assert_true(ran[PS_F32] >= 2 && ran[PS_F64] >= 2);
}

static void test_sgd(void **unused)
{
    (void)unused;
    run_kind(PS_OPT_SGD);
}

static void test_momentum(void **unused)
{
    (void)unused;
    run_kind(PS_OPT_MOMENTUM);
}

static void test_adagrad(void **unused)
{
    (void)unused;
    run_kind(PS_OPT_ADAGRAD);
}

static void test_adam(void **unused)
{
    (void)unused;
    run_kind(PS_OPT_ADAM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_momentum),
        cmocka_unit_test(test_adagrad),
        cmocka_unit_test(test_adam),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

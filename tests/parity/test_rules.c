/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimizers against what TensorFlow computed, or the formula of PyTorch or of a paper in a wider type (rule_vectors.h, made by
 * rule_vectors.py). Each step begins with the reference's state. A number may differ by ULPS units in the last place of itself or
 * of its step, whichever is larger: TensorFlow's roots are approximate, and a formula in a wider type is rounded once. Rules with
 * powers (FTRL with another power than -0.5), with the differences of roots and with norms have POWER_ULPS, Adadelta, whose slot
 * is the square of a product with an approximate root, has SQUARE_ULPS.
 */
#include "by_row.h"
#include "rule_vectors.h"
#include "values.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { ELEMENTS_MAX = 16, ULPS = 2, SQUARE_ULPS = 4, POWER_ULPS = 8 };

typedef unsigned char array[ELEMENTS_MAX * sizeof(double)];

static void put(ps_dtype dtype, void *values, size_t i, double value)
{
    const float narrow = (float)value;
    if (dtype == PS_F32) {
        memcpy((char *)values + i * sizeof(narrow), &narrow, sizeof(narrow));
    } else {
        memcpy((char *)values + i * sizeof(value), &value, sizeof(value));
    }
}

static void check_near(const struct rule_case *c, size_t array_index, int step, const void *before, const void *got,
                       const void *wanted)
{
    const int ulps = c->opt.kind == PS_OPT_FTRL || psi_optimizer_is_whole(c->opt.kind) ? POWER_ULPS
                     : c->opt.kind == PS_OPT_ADADELTA                                  ? SQUARE_ULPS
                                                                                       : ULPS;
    const double ulp = c->dtype == PS_F32 ? 0x1p-23 : 0x1p-52;
    for (size_t i = 0; i < c->elements; i++) {
        const double a = value_at(c->dtype, got, i), b = value_at(c->dtype, wanted, i);
        const double largest = fmax(fabs(b), fabs(b - value_at(c->dtype, before, i)));
        if (!(fabs(a - b) <= ulps * ulp * largest)) {
            fail_msg("%s of %u elements (%s), array %zu[%zu] after step %d: %a, the reference has %a: apart by %.1f ulp",
                     psi_optimizer_name(c->opt.kind), c->elements, ps_dtype_name(c->dtype), array_index, i, step, a, b,
                     fabs(a - b) / (ulp * largest));
        }
    }
}

/* row: the variable is that row of one of five; BY_ROW_ROWS: it is whole. */
static void run_case(const struct rule_case *c, uint64_t row)
{
    const uint32_t arrays = 1 + psd_optim_slot_count(&c->opt);
    const size_t bytes = c->elements * ps_dtype_bytes(c->dtype);
    const char *in = c->in, *out = c->out;
    static _Alignas(64) array now[1 + PSD_OPTIM_SLOTS_MAX], before[1 + PSD_OPTIM_SLOTS_MAX];
    void *slots[PSD_OPTIM_SLOTS_MAX] = {now[1], now[2], now[3], now[4]};
    struct psd_optim_state state;
    memcpy(now[0], in, bytes);
    for (uint32_t k = 1; k < arrays; k++) {
        for (size_t i = 0; i < c->elements; i++) {
            put(c->dtype, now[k], i, psd_optim_slot_init(&c->opt, k - 1));
        }
    }
    psd_optim_state_init(&c->opt, c->dtype, &state);
    for (int step = 1; step <= RULE_STEPS; step++) {
        struct psd_optim_scalars scalars;
        memcpy(before, now, sizeof(before));
        psd_optim_begin(&c->opt, c->opt.learning_rate, c->dtype, &state, (uint64_t)step - 1, 1, &scalars);
        const char *grad = in + (size_t)step * bytes;
        if (psi_optimizer_is_whole(c->opt.kind)) {
            array steps;
            struct psd_optim_norms norms = {0};
            psd_optim_measure(c->opt.kind, c->dtype, &scalars, now[0], slots, grad, steps, c->elements, &norms);
            psd_optim_scale(c->opt.kind, c->dtype, &norms, &scalars);
            psd_optim_apply(c->opt.kind, c->dtype, c->dtype, &scalars, now[0], slots, steps, c->elements);
        } else if (row == BY_ROW_ROWS) {
            psd_optim_apply(c->opt.kind, c->dtype, c->dtype, &scalars, now[0], slots, grad, c->elements);
        } else {
            apply_by_row(c->opt.kind, c->dtype, &scalars, now[0], slots, grad, c->elements, row);
        }
        psd_optim_end(&c->opt, c->dtype, &state);
        for (uint32_t k = 0; k < arrays; k++, out += bytes) {
            check_near(c, k, step, before[k], now[k], out);
            memcpy(now[k], out, bytes);
        }
    }
}

/* Every kind that has come since optim_vectors.h is in rule_vectors.h, in both dtypes and three sizes at least. lazy_adam has the
 * vectors of adam (test_optim.c), kinds by row have their own (test_rowwise.c). Whole, and as the first, a middle and the last
 * row. */
static void test_rules(void **unused)
{
    (void)unused;
    for (uint32_t kind = PS_OPT_ADAM + 1; kind < psi_optimizer_row_count; kind++) {
        if (kind == PS_OPT_LAZY_ADAM || psi_optimizer_row(kind) == NULL || psi_optimizer_is_by_row(kind)) {
            continue;
        }
        unsigned ran[PS_F64 + 1] = {0};
        for (size_t i = 0; i < sizeof(rule_cases) / sizeof(rule_cases[0]); i++) {
            if (rule_cases[i].opt.kind == kind) {
                run_case(&rule_cases[i], BY_ROW_ROWS);
                ran[rule_cases[i].dtype]++;
            }
            if (rule_cases[i].opt.kind == kind && !psi_optimizer_is_whole(kind)) {
                run_case(&rule_cases[i], 0);
                run_case(&rule_cases[i], 2);
                run_case(&rule_cases[i], BY_ROW_ROWS - 1);
            }
        }
        assert_true(ran[PS_F32] >= 3 && ran[PS_F64] >= 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

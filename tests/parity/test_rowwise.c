/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimizers by row against the formulas of FBGEMM in a wider type (rowwise_vectors.h, made by rowwise_vectors.py). Each step
 * begins with the formula's state. A number may differ by ULPS units in the last place of itself or of its step, whichever is
 * larger: a sum of 33 squares is rounded more than once.
 */
#include "psd/optim/optim.h"

#include "common/half.h"
#include "rowwise_vectors.h"
#include "values.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { ROWS_MAX = 4, COLUMNS_MAX = 33, ELEMENTS_MAX = ROWS_MAX * COLUMNS_MAX, ULPS = 6, SPREAD = 3 };

typedef unsigned char array[SPREAD * ELEMENTS_MAX * sizeof(double)];

/* A variable with its slots, and how long their rows are. */
struct model {
    _Alignas(64) array a[1 + PSD_OPTIM_SLOTS_MAX];
    void *slots[PSD_OPTIM_SLOTS_MAX];
    size_t row_bytes[1 + PSD_OPTIM_SLOTS_MAX];
    uint32_t count;
};

static struct model model_of(const struct rowwise_case *c)
{
    struct model m = {.count = 1 + psd_optim_slot_count(&c->opt)};
    const ps_shape shape = {.rank = 2, .dims = {c->rows, c->columns}};
    for (uint32_t k = 0; k < m.count; k++) {
        const ps_shape of = k == 0 ? shape : psi_slot_shape(psi_optimizer_slot(&c->opt, k - 1), &shape);
        m.row_bytes[k] = (size_t)of.dims[1] * ps_dtype_bytes(c->dtype);
    }
    return m;
}

static void fill(ps_dtype dtype, void *values, size_t elements, double value)
{
    const float narrow = (float)value;
    for (size_t i = 0; i < elements; i++) {
        memcpy((char *)values + i * ps_dtype_bytes(dtype), dtype == PS_F32 ? (const void *)&narrow : (const void *)&value,
               ps_dtype_bytes(dtype));
    }
}

static void check_near(const struct rowwise_case *c, uint32_t which, int step, size_t bytes, const void *before, const void *got,
                       const void *wanted)
{
    const double ulp = c->dtype == PS_F32 ? 0x1p-23 : 0x1p-52;
    for (size_t i = 0; i < bytes / ps_dtype_bytes(c->dtype); i++) {
        const double a = value_at(c->dtype, got, i), b = value_at(c->dtype, wanted, i);
        const double largest = fmax(fabs(b), fabs(b - value_at(c->dtype, before, i)));
        if (!(fabs(a - b) <= ULPS * ulp * largest)) {
            fail_msg("%s (%u, %u) of %s, array %u[%zu] after step %d: %a, the formula has %a: apart by %.1f ulp",
                     psi_optimizer_name(c->opt.kind), c->rows, c->columns, ps_dtype_name(c->dtype), which, i, step, a, b,
                     fabs(a - b) / (ulp * largest));
        }
    }
}

/* Apply a gradient to whole rows, to each row alone, or to rows that lie apart, which gives the same bits. */
static void apply(const struct rowwise_case *c, const struct psd_optim_scalars *s, struct model *m, const char *grad)
{
    static struct model alone, apart;
    static _Alignas(8) uint8_t indices[ROWS_MAX * sizeof(uint64_t)];
    alone = apart = *m;
    for (uint32_t k = 0; k < m->count; k++) {
        memset(apart.a[k], 0x3f, sizeof(apart.a[k]));
        for (uint64_t row = 0; row < c->rows; row++) {
            const uint64_t index = SPREAD * row;
            memcpy(apart.a[k] + index * m->row_bytes[k], m->a[k] + row * m->row_bytes[k], m->row_bytes[k]);
            memcpy(indices + row * sizeof(index), &index, sizeof(index));
        }
        if (k > 0) {
            m->slots[k - 1] = m->a[k];
            apart.slots[k - 1] = apart.a[k];
        }
    }
    psd_optim_apply_beside(c->opt.kind, c->dtype, c->dtype, s, m->a[0], m->slots, grad, c->rows, c->columns);
    psd_optim_apply_rows(c->opt.kind, c->dtype, c->dtype, s, apart.a[0], apart.slots, grad, indices, c->rows, c->columns);
    for (uint64_t row = 0; row < c->rows; row++) {
        for (uint32_t k = 1; k < m->count; k++) {
            alone.slots[k - 1] = alone.a[k] + row * m->row_bytes[k];
        }
        psd_optim_apply(c->opt.kind, c->dtype, c->dtype, s, alone.a[0] + row * m->row_bytes[0], alone.slots,
                        grad + row * m->row_bytes[0], c->columns);
        for (uint32_t k = 0; k < m->count; k++) {
            const size_t bytes = m->row_bytes[k];
            assert_memory_equal(alone.a[k] + row * bytes, m->a[k] + row * bytes, bytes);
            assert_memory_equal(apart.a[k] + SPREAD * row * bytes, m->a[k] + row * bytes, bytes);
            for (size_t i = 0; i < bytes; i++) { /* rows that no gradient has come for */
                assert_int_equal(apart.a[k][(SPREAD * row + 1) * bytes + i], 0x3f);
            }
        }
    }
}

static void run_case(const struct rowwise_case *c)
{
    static struct model now, before;
    struct psd_optim_state state;
    now = model_of(c);
    const size_t bytes = c->rows * now.row_bytes[0];
    const char *out = c->out;
    memcpy(now.a[0], c->in, bytes);
    for (uint32_t k = 1; k < now.count; k++) {
        fill(c->dtype, now.a[k], c->rows * now.row_bytes[k] / ps_dtype_bytes(c->dtype), psd_optim_slot_init(&c->opt, k - 1));
    }
    psd_optim_state_init(&c->opt, c->dtype, &state);
    for (int step = 1; step <= ROWWISE_STEPS; step++) {
        struct psd_optim_scalars scalars;
        before = now;
        psd_optim_begin(&c->opt, c->opt.learning_rate, c->dtype, &state, (uint64_t)step - 1, 1, &scalars);
        apply(c, &scalars, &now, (const char *)c->in + (size_t)step * bytes);
        psd_optim_end(&c->opt, c->dtype, &state);
        for (uint32_t k = 0; k < now.count; k++) {
            const size_t of = c->rows * now.row_bytes[k];
            check_near(c, k, step, of, before.a[k], now.a[k], out);
            memcpy(now.a[k], out, of);
            out += of;
        }
    }
}

static void test_formulas(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof(rowwise_cases) / sizeof(rowwise_cases[0]); i++) {
        run_case(&rowwise_cases[i]);
    }
}

/* What any kind may have goes around whole rows: with a limit, l2 and a moving average the bits are those of the gradient that
 * these make. A scale, and a gradient of bfloat16, as well. */
static void test_around(void **unused)
{
    (void)unused;
    enum { R = 3, C = 1500 }; /* a row is longer than a piece of what goes around */
    static float v[2][R * C], a[2][R], e[R * C], grad[R * C], made[R * C];
    static uint16_t narrow[R * C];
    for (uint32_t turn = 0; turn < 2; turn++) {
        const ps_optimizer plain = {.kind = PS_OPT_ROWWISE_ADAGRAD, .learning_rate = 0.5, .epsilon = 0.25};
        ps_optimizer all = plain;
        struct psd_optim_state state = {{0}};
        struct psd_optim_scalars with, without;
        all.clip_value = 1;
        all.l2 = 0.5;
        all.ema = 0.75;
        for (size_t i = 0; i < (size_t)R * C; i++) {
            v[0][i] = v[1][i] = e[i] = (float)(i % 11) / 4 - 1;
            grad[i] = (float)(i % 17) / 8 - 1;
            const float g = grad[i] * 2;
            made[i] = (g > 1 ? 1 : g < -1 ? -1 : g) + 0.5F * v[0][i];
        }
        psi_half_narrow(PS_BF16, grad, narrow, (size_t)R * C); /* exact */
        memset(a, 0, sizeof(a));
        psd_optim_begin(&all, 0.5, PS_F32, &state, 0, 2, &with);
        psd_optim_begin(&plain, 0.5, PS_F32, &state, 0, 1, &without);
        void *const slots[PSD_OPTIM_SLOTS_MAX] = {a[0], e}, *const others[PSD_OPTIM_SLOTS_MAX] = {a[1]};
        psd_optim_apply_beside(all.kind, PS_F32, turn == 0 ? PS_F32 : PS_BF16, &with, v[0], slots,
                               turn == 0 ? (const void *)grad : narrow, R, C);
        psd_optim_apply_beside(plain.kind, PS_F32, PS_F32, &without, v[1], others, made, R, C);
        assert_memory_equal(v[0], v[1], sizeof(v[0]));
        assert_memory_equal(a[0], a[1], sizeof(a[0]));
        for (size_t i = 0; i < (size_t)R * C; i++) {
            const float was = (float)(i % 11) / 4 - 1;
            assert_true(e[i] == was - (was - v[0][i]) * 0.25F);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_formulas), cmocka_unit_test(test_around)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

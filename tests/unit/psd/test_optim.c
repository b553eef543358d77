/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimizers apart from TensorFlow's values (tests/parity): any split into segments and any clone gives the bits of a plain
 * scalar loop, the scale, the powers, the slot table, the check for NaN and infinity at every position, wrapping addition.
 */
#include "test.h"
#include "common/half.h"
#include "psd/optim/optim.h"

#include <math.h>

#define N 150 /* two vectors of any width and a remainder */

static const ps_optimizer opts[] = {
    {.kind = PS_OPT_SGD, .learning_rate = 0.1},
    {.kind = PS_OPT_MOMENTUM, .learning_rate = 0.01, .momentum = 0.9},
    {.kind = PS_OPT_MOMENTUM, .nesterov = 1, .learning_rate = 0.01, .momentum = 0.9},
    {.kind = PS_OPT_ADAGRAD, .learning_rate = 0.05, .initial_accumulator = 0.1},
    {.kind = PS_OPT_ADAM, .learning_rate = 0.001, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
};
#define OPTS (sizeof(opts) / sizeof(opts[0]))
static const ps_dtype dtypes[] = {PS_F32, PS_F64};

enum { GRAD = 1 + PSD_OPTIM_SLOTS_MAX };
/* variable, slots, gradient; in the dtype's bytes */
struct arrays {
    _Alignas(64) unsigned char a[GRAD + 1][N * 8];
};

/* spread over many magnitudes, both signs; slots and sums of squares stay positive */
static double sample(unsigned *seed)
{
    *seed = *seed * 1664525U + 1013904223U;
    double x = ((double)(*seed >> 8) / (double)(1 << 24) - 0.5) * 4;
    return (*seed & 16U) != 0 ? x * 1e-5 : x;
}

static void fill(struct arrays *arrays, ps_dtype dtype, unsigned seed)
{
    memset(arrays, 0, sizeof(*arrays));
    for (size_t k = 0; k <= GRAD; k++) {
        for (size_t i = 0; i < N; i++) {
            double x = sample(&seed);
            x = k > 0 && k < GRAD ? fabs(x) + 0.01 : x;
            if (dtype == PS_F32) {
                float f = (float)x;
                memcpy(&arrays->a[k][i * sizeof(f)], &f, sizeof(f));
            } else {
                memcpy(&arrays->a[k][i * sizeof(x)], &x, sizeof(x));
            }
        }
    }
}

static void apply(const ps_optimizer *opt, ps_dtype dtype, float scale, struct arrays *arrays, size_t first, size_t count)
{
    struct psd_optim_state state;
    struct psd_optim_scalars scalars;
    size_t at = first * ps_dtype_bytes(dtype);
    void *slots[PSD_OPTIM_SLOTS_MAX] = {&arrays->a[1][at], &arrays->a[2][at], &arrays->a[3][at], &arrays->a[4][at]};
    psd_optim_state_init(opt, dtype, &state);
    psd_optim_begin(opt, opt->learning_rate, dtype, &state, 0, scale, &scalars);
    if (psi_optimizer_is_whole(opt->kind)) {
        unsigned char steps[N * 8];
        struct psd_optim_norms norms = {0};
        psd_optim_measure(opt->kind, dtype, &scalars, &arrays->a[0][at], slots, &arrays->a[GRAD][at], steps, count, &norms);
        psd_optim_scale(opt->kind, dtype, &norms, &scalars);
        psd_optim_apply(opt->kind, dtype, dtype, &scalars, &arrays->a[0][at], slots, steps, count);
        return;
    }
    psd_optim_apply(opt->kind, dtype, dtype, &scalars, &arrays->a[0][at], slots, &arrays->a[GRAD][at], count);
}

/* Each kind with its standard values, then each again with all that any kind may have, and the forms that differ in loops. */
static ps_optimizer each(uint32_t i)
{
    const ps_optimizer given = {.learning_rate = 0.01, .momentum = 0.5};
    const uint32_t kinds = psi_optimizer_row_count - PS_OPT_SGD;
    const uint32_t kind = PS_OPT_SGD + i % kinds;
    ps_optimizer opt = psi_optimizer_standard(psi_optimizer_row(kind) != NULL ? kind : PS_OPT_SGD, &given);
    if (i / kinds == 1) {
        opt.l2 = 0.25;
        opt.clip_value = 0.5;
        opt.ema = 0.75;
    } else if (i / kinds == 2) {
        opt.nesterov = opt.kind == PS_OPT_MOMENTUM;
        opt.power = opt.kind == PS_OPT_FTRL ? -0.4 : opt.power;
    }
    return opt;
}
#define EACH_COUNT (3 * (psi_optimizer_row_count - PS_OPT_SGD))

TEST(test_any_split_gives_the_same_bits)
{
    for (size_t d = 0; d < 2; d++) {
        for (uint32_t o = 0; o < EACH_COUNT; o++) {
            const ps_optimizer opt = each(o);
            if (psi_optimizer_is_whole(opt.kind)) {
                continue;
            }
            struct arrays start;
            struct arrays whole;
            if (psi_optimizer_is_by_row(opt.kind)) {
                continue; /* a row is not split: tests/parity/test_rowwise.c */
            }
            fill(&start, dtypes[d], 7);
            whole = start;
            apply(&opt, dtypes[d], 1.0f, &whole, 0, N);
            assert_memory_not_equal(whole.a[0], start.a[0], N * ps_dtype_bytes(dtypes[d]));
            for (size_t cut = 0; cut <= N; cut += cut < 40 ? 1 : 11) {
                struct arrays split = start;
                apply(&opt, dtypes[d], 1.0f, &split, 0, cut);
                apply(&opt, dtypes[d], 1.0f, &split, cut, N - cut);
                assert_memory_equal(&split, &whole, sizeof(split));
            }
        }
    }
}

TEST(test_a_bfloat16_gradient_is_what_it_widens_to)
{
    for (uint32_t o = 0; o < EACH_COUNT; o++) {
        const ps_optimizer opt = each(o);
        for (size_t n = psi_optimizer_is_whole(opt.kind) ? N + 1 : 0; n <= N; n += n < 40 ? 1 : 11) {
            struct arrays narrow;
            struct arrays wide;
            uint16_t grad[N];
            fill(&narrow, PS_F32, 3);
            psi_half_narrow(PS_BF16, narrow.a[GRAD], grad, N);
            wide = narrow;
            psi_half_widen(PS_BF16, grad, wide.a[GRAD], N);
            apply(&opt, PS_F32, 0.7f, &wide, 0, n);
            struct psd_optim_state state;
            struct psd_optim_scalars scalars;
            void *slots[PSD_OPTIM_SLOTS_MAX] = {narrow.a[1], narrow.a[2], narrow.a[3], narrow.a[4]};
            psd_optim_state_init(&opt, PS_F32, &state);
            psd_optim_begin(&opt, opt.learning_rate, PS_F32, &state, 0, 0.7f, &scalars);
            psd_optim_apply(opt.kind, PS_F32, PS_BF16, &scalars, narrow.a[0], slots, grad, n);
            assert_memory_equal(&narrow, &wide, offsetof(struct arrays, a[GRAD]));
        }
    }
}

/* One element at a time in this file's own code: no vector code, no clone. volatile keeps the compiler from fusing or
 * reordering; each operation rounds to T. T is a type, which cannot stand in parentheses. */
/* NOLINTBEGIN(bugprone-macro-parentheses) */
#define DEFINE_REFERENCE(T, NAME, SQRT)                                                                                          \
    static void NAME(const ps_optimizer *opt, T scale, T *w, T *s1, T *s2, const T *grad)                                        \
    {                                                                                                                            \
        volatile T rate = (T)opt->learning_rate, mom = (T)opt->momentum, b1 = (T)opt->beta1, b2 = (T)opt->beta2;                 \
        volatile T one = 1, alpha, t, u, g = *grad;                                                                              \
        g = g * scale;                                                                                                           \
        if (opt->kind == PS_OPT_SGD) {                                                                                           \
            t = g * rate;                                                                                                        \
            *w = *w - t;                                                                                                         \
        } else if (opt->kind == PS_OPT_MOMENTUM) {                                                                               \
            t = *s1 * mom;                                                                                                       \
            *s1 = t + g;                                                                                                         \
            t = *s1 * (opt->nesterov != 0 ? mom : one);                                                                          \
            t = t * rate;                                                                                                        \
            u = g * rate;                                                                                                        \
            u = u + t;                                                                                                           \
            *w = *w - (opt->nesterov != 0 ? u : t);                                                                              \
        } else if (opt->kind == PS_OPT_ADAGRAD) {                                                                                \
            t = g * g;                                                                                                           \
            *s1 = *s1 + t;                                                                                                       \
            t = g * rate;                                                                                                        \
            u = SQRT(*s1);                                                                                                       \
            t = t / u;                                                                                                           \
            *w = *w - t;                                                                                                         \
        } else {                                                                                                                 \
            t = one - b2;                                                                                                        \
            t = SQRT(t);                                                                                                         \
            alpha = rate * t;                                                                                                    \
            t = one - b1;                                                                                                        \
            alpha = alpha / t;                                                                                                   \
            u = g - *s1;                                                                                                         \
            t = u * t;                                                                                                           \
            *s1 = *s1 + t;                                                                                                       \
            t = g * g;                                                                                                           \
            t = t - *s2;                                                                                                         \
            u = one - b2;                                                                                                        \
            t = t * u;                                                                                                           \
            *s2 = *s2 + t;                                                                                                       \
            u = SQRT(*s2);                                                                                                       \
            u = u + (T)opt->epsilon;                                                                                             \
            t = *s1 * alpha;                                                                                                     \
            t = t / u;                                                                                                           \
            *w = *w - t;                                                                                                         \
        }                                                                                                                        \
    }
/* NOLINTEND(bugprone-macro-parentheses) */
DEFINE_REFERENCE(float, reference_f32, sqrtf)
DEFINE_REFERENCE(double, reference_f64, sqrt)

TEST(test_clones_give_the_bits_of_a_scalar_loop)
{
    static const float scales[] = {1.0f, 0.5f, 1.0f / 3.0f};
    for (size_t d = 0; d < 2; d++) {
        for (size_t o = 0; o < OPTS; o++) {
            for (size_t s = 0; s < 3; s++) {
                struct arrays got;
                struct arrays wanted;
                fill(&got, dtypes[d], 11);
                wanted = got;
                apply(&opts[o], dtypes[d], scales[s], &got, 0, N);
                for (size_t i = 0; i < N; i++) {
                    size_t at = i * ps_dtype_bytes(dtypes[d]);
                    void *p[4] = {&wanted.a[0][at], &wanted.a[1][at], &wanted.a[2][at], &wanted.a[GRAD][at]};
                    if (dtypes[d] == PS_F32) {
                        reference_f32(&opts[o], scales[s], p[0], p[1], p[2], p[3]);
                    } else {
                        reference_f64(&opts[o], (double)scales[s], p[0], p[1], p[2], p[3]);
                    }
                }
                assert_memory_equal(&got, &wanted, sizeof(got));
            }
        }
    }
}

TEST(test_slot_table)
{
    const struct {
        uint32_t kind, slots;
        const char *first;
    } rows[] = {{PS_OPT_NONE, 0, NULL},
                {PS_OPT_SGD, 0, NULL},
                {PS_OPT_MOMENTUM, 1, "momentum"},
                {PS_OPT_ADAGRAD, 1, "accumulator"},
                {PS_OPT_ADAM, 2, "m"},
                {PS_OPT_RMSPROP_CENTERED, 3, "rms"},
                {99, 0, NULL},
                {UINT32_MAX, 0, NULL}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        ps_optimizer opt = {.kind = rows[i].kind};
        assert_int_equal(psd_optim_slot_count(&opt), rows[i].slots);
        assert_null(psi_optimizer_slot(&opt, rows[i].slots));
        assert_null(psi_optimizer_slot(&opt, UINT32_MAX));
        if (rows[i].first != NULL) {
            assert_string_equal(psi_optimizer_slot(&opt, 0)->name, rows[i].first);
        }
        opt.ema = 0.9; /* a slot more, behind the others */
        const bool known = psi_optimizer_row(opt.kind) != NULL;
        assert_int_equal(psd_optim_slot_count(&opt), rows[i].slots + known);
        assert_ptr_equal(psi_optimizer_slot(&opt, rows[i].slots), known ? &psi_average_slot : NULL);
    }
    assert_true(psd_optim_slot_init(&opts[3], 0) == 0.1);
    assert_true(psd_optim_slot_init(&opts[4], 1) == 0.0);
}

/* Each neighbouring pair of values must be rounded (see table.c on gcc 12.2). */
TEST(test_scalars_are_rounded_to_the_dtype)
{
    struct psd_optim_state state;
    struct psd_optim_scalars scalars;
    const ps_optimizer adam = {.kind = PS_OPT_ADAM,
                               .learning_rate = 0.001,
                               .momentum = 0.9,
                               .initial_accumulator = 0.1,
                               .beta1 = 0.9,
                               .beta2 = 0.999,
                               .epsilon = 1e-8};
    const ps_optimizer momentum = {.kind = PS_OPT_MOMENTUM,
                                   .nesterov = 1,
                                   .learning_rate = 0.001,
                                   .momentum = 0.9,
                                   .initial_accumulator = 0.1,
                                   .beta1 = 0.9,
                                   .beta2 = 0.999,
                                   .epsilon = 1e-8};
    volatile float b1 = 0.9f;
    volatile float b2 = 0.999f;
    volatile float p1 = b1;
    volatile float p2 = b2;

    psd_optim_state_init(&adam, PS_F32, &state);
    for (int push = 0; push < 500; push++) {
        assert_true(state.powers[0] == (double)p1);
        assert_true(state.powers[1] == (double)p2);
        psd_optim_end(&adam, PS_F32, &state);
        p1 *= b1;
        p2 *= b2;
    }
    psd_optim_begin(&adam, adam.learning_rate, PS_F32, &state, 0, 0.25f, &scalars);
    assert_true(scalars.rate == (double)0.001f);
    assert_true(scalars.scale == 0.25);
    assert_true(scalars.beta1 == (double)0.9f);
    assert_true(scalars.beta2 == (double)0.999f);
    assert_true(scalars.epsilon == (double)1e-8f);
    assert_true(scalars.momentum == 0 && scalars.form == 0 && scalars.reserved == 0);
    psd_optim_begin(&momentum, momentum.learning_rate, PS_F32, &state, 0, 1.0f, &scalars);
    assert_true(scalars.rate == (double)0.001f);
    assert_true(scalars.momentum == (double)0.9f);
    assert_true(scalars.form == 1 && scalars.alpha == 0 && scalars.beta1 == 0);

    psd_optim_state_init(&adam, PS_F64, &state);
    psd_optim_end(&adam, PS_F64, &state);
    assert_true(state.powers[0] == 0.9 * 0.9);
    assert_true(state.powers[1] == 0.999 * 0.999);
    psd_optim_state_init(&momentum, PS_F64, &state);
    psd_optim_end(&momentum, PS_F64, &state);
    assert_true(state.powers[0] == 0 && state.powers[1] == 0);
}

TEST(test_begin_changes_no_state_and_unknown_kinds_nothing)
{
    struct arrays arrays;
    struct arrays before;
    struct psd_optim_state state;
    struct psd_optim_scalars first;
    struct psd_optim_scalars second;
    psd_optim_state_init(&opts[4], PS_F32, &state);
    psd_optim_begin(&opts[4], opts[4].learning_rate, PS_F32, &state, 0, 1.0f, &first);
    psd_optim_begin(&opts[4], opts[4].learning_rate, PS_F32, &state, 0, 1.0f, &second);
    assert_memory_equal(&first, &second, sizeof(first));

    fill(&arrays, PS_F32, 3);
    before = arrays;
    void *slots[PSD_OPTIM_SLOTS_MAX] = {arrays.a[1], arrays.a[2], arrays.a[3], arrays.a[4]};
    psd_optim_apply(PS_OPT_NONE, PS_F32, PS_F32, &first, arrays.a[0], slots, arrays.a[GRAD], N);
    psd_optim_apply(99, PS_F32, PS_F32, &first, arrays.a[0], slots, arrays.a[GRAD], N);
    for (uint32_t kind = PS_OPT_SGD; kind < psi_optimizer_row_count; kind++) {
        psd_optim_apply(kind, PS_I32, PS_I32, &first, arrays.a[0], slots, arrays.a[GRAD], N);
        psd_optim_apply(kind, PS_F32, PS_F32, &first, arrays.a[0], slots, arrays.a[GRAD], 0);
    }
    assert_memory_equal(&arrays, &before, sizeof(before));
}

/* Each row has a rule, which changes the variable and every slot, and none that the row does not have. */
TEST(test_each_row_has_a_rule)
{
    for (uint32_t i = 0; i < EACH_COUNT; i++) {
        const ps_optimizer opt = each(i);
        for (size_t d = 0; d < 2; d++) {
            struct arrays arrays, before;
            fill(&arrays, dtypes[d], 5);
            before = arrays;
            apply(&opt, dtypes[d], 1, &arrays, 0, N);
            for (uint32_t k = 0; k <= GRAD; k++) {
                bool same = memcmp(arrays.a[k], before.a[k], sizeof(before.a[k])) == 0;
                assert_int_equal(same, k > psd_optim_slot_count(&opt));
            }
        }
    }
}

enum { WHOLE = 5 * PSD_OPTIM_PIECE_ELEMENTS + 77 };

/* The two passes of an optimizer with norms over `all` elements, of which the first pass gets `piece` at a time. */
static void apply_whole(const ps_optimizer *opt, ps_dtype dtype, size_t piece, unsigned char arrays[4][WHOLE * 8],
                        struct psd_optim_norms *norms)
{
    struct psd_optim_state state;
    struct psd_optim_scalars scalars;
    const size_t width = ps_dtype_bytes(dtype);
    void *slots[PSD_OPTIM_SLOTS_MAX] = {arrays[1], psd_optim_slot_count(opt) > 1 ? arrays[2] : NULL};
    *norms = (struct psd_optim_norms){0};
    psd_optim_state_init(opt, dtype, &state);
    psd_optim_begin(opt, opt->learning_rate, dtype, &state, 0, 0.5f, &scalars);
    for (size_t first = 0; first < WHOLE; first += piece) {
        const size_t n = WHOLE - first < piece ? WHOLE - first : piece;
        void *at[PSD_OPTIM_SLOTS_MAX] = {arrays[1] + first * width, slots[1] == NULL ? NULL : arrays[2] + first * width};
        unsigned char *grad = arrays[3] + first * width;
        psd_optim_measure(opt->kind, dtype, &scalars, arrays[0] + first * width, at, grad, grad, n, norms);
    }
    psd_optim_scale(opt->kind, dtype, norms, &scalars);
    psd_optim_apply(opt->kind, dtype, dtype, &scalars, arrays[0], slots, arrays[3], WHOLE);
}

/* As apply_whole(), segment by segment, with the steps made again in the last pass. The gradients stay as they were. */
static void apply_segments(const ps_optimizer *opt, ps_dtype dtype, size_t piece, unsigned char arrays[4][WHOLE * 8])
{
    struct psd_optim_state state;
    struct psd_optim_scalars scalars;
    const size_t width = ps_dtype_bytes(dtype);
    void *slots[PSD_OPTIM_SLOTS_MAX] = {arrays[1], psd_optim_slot_count(opt) > 1 ? arrays[2] : NULL};
    psd_optim_state_init(opt, dtype, &state);
    psd_optim_begin(opt, opt->learning_rate, dtype, &state, 0, 0.5f, &scalars);
    for (size_t first = 0; first < WHOLE; first += piece) {
        const size_t n = WHOLE - first < piece ? WHOLE - first : piece;
        void *at[PSD_OPTIM_SLOTS_MAX] = {arrays[1] + first * width, slots[1] == NULL ? NULL : arrays[2] + first * width};
        psd_optim_measure_segment(opt->kind, dtype, &scalars, arrays[0] + first * width, at, arrays[3] + first * width, n);
    }
    psd_optim_last_pass(opt->kind, dtype, &scalars);
    psd_optim_apply(opt->kind, dtype, dtype, &scalars, arrays[0], slots,
                    psi_optimizer_is_staged(opt->kind) ? arrays[3] : arrays[1], WHOLE);
}

/* Optimizers with norms: pieces change no bit, and the norm of the variable is that of all its elements. Nor does it where the
 * steps are made again instead of kept. */
TEST(test_norms_of_the_whole_variable)
{
    static unsigned char start[4][WHOLE * 8], once[4][WHOLE * 8], pieces[4][WHOLE * 8];
    static const uint32_t kinds[] = {PS_OPT_LAMB, PS_OPT_LARS};
    for (size_t d = 0; d < 2; d++) {
        for (size_t way = 0; way < 2 * ARRAY_COUNT(kinds); way++) {
            const ps_optimizer given = {.learning_rate = 0.01};
            ps_optimizer opt = psi_optimizer_standard(kinds[way / 2], &given);
            opt.clip_value = way % 2 == 0 ? 0 : 0.25;
            opt.l2 = opt.clip_value;
            struct psd_optim_norms norms, others;
            unsigned seed = 11;
            long double squares = 0;
            memset(start, 0, sizeof(start));
            for (size_t i = 0; i < WHOLE; i++) {
                for (size_t a = 0; a < 4; a += 3) {
                    const double x = sample(&seed);
                    const float narrow = (float)x;
                    memcpy(start[a] + i * ps_dtype_bytes(dtypes[d]), dtypes[d] == PS_F32 ? (const void *)&narrow : &x,
                           ps_dtype_bytes(dtypes[d]));
                    squares += a > 0 ? 0 : dtypes[d] == PS_F32 ? (long double)narrow * (long double)narrow : (long double)x * x;
                }
            }
            memcpy(once, start, sizeof(once));
            apply_whole(&opt, dtypes[d], WHOLE, once, &norms);
            assert_memory_not_equal(once[0], start[0], WHOLE * ps_dtype_bytes(dtypes[d]));
            assert_true(fabsl((long double)norms.value - squares) < squares * 1e-14L);
            for (size_t piece = PSD_OPTIM_PIECE_ELEMENTS; piece < WHOLE; piece += PSD_OPTIM_PIECE_ELEMENTS) {
                memcpy(pieces, start, sizeof(pieces));
                apply_whole(&opt, dtypes[d], piece, pieces, &others);
                assert_memory_equal(&others, &norms, sizeof(norms));
                assert_memory_equal(pieces, once, sizeof(once));
                memcpy(pieces, start, sizeof(pieces));
                apply_segments(&opt, dtypes[d], piece, pieces);
                assert_memory_equal(pieces, once, sizeof(once[0]) * 3);
                assert_memory_equal(pieces[3], start[3], sizeof(start[3]));
            }
        }
    }
}

/* Where the norm of the variable or of the gradient is 0, the rate is the plain one. */
TEST(test_no_norm)
{
    static const struct {
        float v, g;
    } rows[] = {{0, 0.5f}, {2, 0}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const ps_optimizer opt = {
            .kind = PS_OPT_LARS, .learning_rate = 0.25, .momentum = 0.5, .weight_decay = 0.5, .power = 0.001};
        struct psd_optim_scalars scalars;
        struct psd_optim_state state;
        struct psd_optim_norms norms = {0};
        float v = rows[i].v, g = rows[i].g, a = 1;
        void *slots[PSD_OPTIM_SLOTS_MAX] = {&a};
        psd_optim_state_init(&opt, PS_F32, &state);
        psd_optim_begin(&opt, opt.learning_rate, PS_F32, &state, 0, 1, &scalars);
        psd_optim_measure(opt.kind, PS_F32, &scalars, &v, slots, &g, &g, 1, &norms);
        psd_optim_scale(opt.kind, PS_F32, &norms, &scalars);
        psd_optim_apply(opt.kind, PS_F32, PS_F32, &scalars, &v, slots, &g, 1);
        assert_true(a == 0.5f + (rows[i].g + 0.5f * rows[i].v) * 0.25f && v == rows[i].v - a);
    }
}

/* The decay of an average rises with the pushes, up to ema. */
TEST(test_an_average_that_begins_fast)
{
    static const struct {
        double updates;
        uint64_t pushes;
        double decay;
    } rows[] = {{0, 0, 0.99}, {10, 0, 2.0 / 11}, {10, 1, 3.0 / 12}, {10, 1000, 0.99}, {0.5, 0, 0.99}, {1000, 99, 101.0 / 1100}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const ps_optimizer opt = {.kind = PS_OPT_SGD, .learning_rate = 1, .ema = 0.99, .ema_updates = rows[i].updates};
        struct psd_optim_state state = {{0}};
        struct psd_optim_scalars wide, narrow;
        psd_optim_begin(&opt, opt.learning_rate, PS_F64, &state, rows[i].pushes, 1, &wide);
        psd_optim_begin(&opt, opt.learning_rate, PS_F32, &state, rows[i].pushes, 1, &narrow);
        assert_true(wide.ema == 1 - rows[i].decay && narrow.ema == (double)(float)(1 - rows[i].decay));
    }
}

/* What any kind may have, against its formulas, by gradient descent with a rate of 1: the numbers are exact. Elements of v, g and
 * the average e before, and of v and e behind. */
TEST(test_what_any_kind_may_have)
{
    static const struct {
        double l2, clip, ema, scale, v, g, e, want_v, want_e;
    } rows[] = {
        {0, 0, 0, 1, 1, 0.25, 8, 0.75, 8},         {0.5, 0, 0, 1, 1, 0.25, 8, 0.25, 8},
        {0, 0.125, 0, 1, 1, 0.25, 8, 0.875, 8},    {0, 0.125, 0, 1, 1, -0.25, 8, 1.125, 8},
        {0, 0.5, 0, 4, 1, 0.25, 8, 0.5, 8},        {0.5, 0.125, 0, 1, 1, 0.25, 8, 0.375, 8},
        {0, 0, 0.75, 1, 1, 0.25, 8, 0.75, 6.1875}, {0.5, 0.125, 0.5, 1, 1, 4, 0.375, 0.375, 0.375},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const ps_optimizer opt = {
            .kind = PS_OPT_SGD, .learning_rate = 1, .l2 = rows[i].l2, .clip_value = rows[i].clip, .ema = rows[i].ema};
        struct psd_optim_state state;
        struct psd_optim_scalars scalars;
        psd_optim_state_init(&opt, PS_F64, &state);
        psd_optim_begin(&opt, opt.learning_rate, PS_F64, &state, 0, (float)rows[i].scale, &scalars);
        double v = rows[i].v, g = rows[i].g, e = rows[i].e;
        float narrow_v = (float)v, narrow_g = (float)g, narrow_e = (float)e;
        psd_optim_apply(PS_OPT_SGD, PS_F64, PS_F64, &scalars, &v, (void *[PSD_OPTIM_SLOTS_MAX]){&e}, &g, 1);
        psd_optim_apply(PS_OPT_SGD, PS_F32, PS_F32, &scalars, &narrow_v, (void *[PSD_OPTIM_SLOTS_MAX]){&narrow_e}, &narrow_g, 1);
        assert_true(v == rows[i].want_v && e == rows[i].want_e);
        assert_true((double)narrow_v == rows[i].want_v && (double)narrow_e == rows[i].want_e);
    }
    const ps_optimizer opt = {.kind = PS_OPT_SGD, .learning_rate = 1, .clip_value = 1}; /* NaN stays NaN, infinity is limited */
    struct psd_optim_state state = {{0}};
    struct psd_optim_scalars scalars;
    psd_optim_begin(&opt, opt.learning_rate, PS_F32, &state, 0, 1, &scalars);
    float v[2] = {1, 1}, g[2] = {NAN, INFINITY};
    psd_optim_apply(PS_OPT_SGD, PS_F32, PS_F32, &scalars, v, (void *[PSD_OPTIM_SLOTS_MAX]){NULL}, g, 2);
    assert_true(isnan(v[0]) && v[1] == 0);
}

/* A rate that SET_RATE has put in place of the optimizer's own is all of the rate, also in what follows from it. */
TEST(test_another_rate)
{
    for (size_t d = 0; d < 2; d++) {
        for (size_t o = 0; o < OPTS; o++) {
            struct psd_optim_state state;
            struct psd_optim_scalars with, own;
            ps_optimizer other = opts[o];
            other.learning_rate = 0.7;
            psd_optim_state_init(&opts[o], dtypes[d], &state);
            psd_optim_begin(&opts[o], 0.7, dtypes[d], &state, 0, 1, &with);
            psd_optim_begin(&other, other.learning_rate, dtypes[d], &state, 0, 1, &own);
            assert_memory_equal(&with, &own, sizeof(own));
            assert_true(with.rate == (dtypes[d] == PS_F32 ? (double)0.7F : 0.7));
        }
    }
}

TEST(test_finite_finds_each_position)
{
    enum { COUNT = 2100 }; /* more than two of its blocks */
    static float f[COUNT];
    static double d[COUNT];
    const float bad_f[] = {INFINITY, -INFINITY, NAN, -NAN};
    const double bad_d[] = {INFINITY, -INFINITY, (double)NAN, -(double)NAN};
    for (size_t i = 0; i < COUNT; i++) {
        f[i] = i % 3 == 0 ? 3.402823466e38f : 1e-42f;
        d[i] = i % 3 == 0 ? -1.7976931348623157e308 : 4.9e-324;
    }
    size_t at = 77;
    assert_true(psd_optim_finite(PS_F32, f, COUNT, 1, &at));
    assert_true(psd_optim_finite(PS_F64, d, COUNT, 1, &at));
    assert_true(psd_optim_finite(PS_F32, f, 0, 1, NULL));
    assert_int_equal(at, 77);
    for (size_t i = 0; i < COUNT; i++) {
        float old_f = f[i];
        double old_d = d[i];
        f[i] = bad_f[i % 4];
        d[i] = bad_d[i % 4];
        f[COUNT - 1] = i % 2 != 0 ? NAN : f[COUNT - 1];
        assert_false(psd_optim_finite(PS_F32, f, COUNT, 1, &at));
        assert_int_equal(at, i);
        assert_false(psd_optim_finite(PS_F64, d, COUNT, 1, &at));
        assert_int_equal(at, i);
        assert_false(psd_optim_finite(PS_F64, d, i + 1, 1, NULL));
        assert_true(psd_optim_finite(PS_F32, f, i, 1, NULL));
        assert_true(psd_optim_finite(PS_I64, d, COUNT, 1, NULL));
        f[COUNT - 1] = 0;
        f[i] = old_f;
        d[i] = old_d;
    }
}

/* What is finite may not be so when it is scaled; what the scale makes small enough is fine, and NaN and infinity never are. */
TEST(test_finite_when_scaled)
{
    enum { COUNT = 2100 };
    static float f[COUNT];
    static double d[COUNT];
    static uint16_t h[COUNT], b[COUNT];
    for (size_t i = 0; i < COUNT; i += 699) {
        size_t at = 0;
        f[i] = -3e38F;
        d[i] = 1e300;
        h[i] = 0x7bff; /* 65504 */
        b[i] = 0x7f7f; /* 3.4e38 */
        assert_true(psd_optim_finite(PS_F32, f, COUNT, 1.1F, NULL));
        assert_false(psd_optim_finite(PS_F32, f, COUNT, 1.2F, &at));
        assert_int_equal(at, i);
        assert_true(psd_optim_finite(PS_F64, d, COUNT, 1e7F, NULL));
        assert_false(psd_optim_finite(PS_F64, d, COUNT, 1e9F, &at));
        assert_int_equal(at, i);
        assert_true(psd_optim_finite(PS_F16, h, COUNT, 5e33F, NULL));
        assert_false(psd_optim_finite(PS_F16, h, COUNT, 6e33F, &at));
        assert_int_equal(at, i);
        assert_true(psd_optim_finite(PS_BF16, b, COUNT, 1, NULL));
        assert_false(psd_optim_finite(PS_BF16, b, COUNT, 1.01F, &at));
        assert_int_equal(at, i);
        f[i] = INFINITY;
        h[i] = 0x7c00;
        b[i] = 0xff80;
        const float scales[] = {0x1p-149F, 1, 2};
        for (size_t k = 0; k < 3; k++) {
            assert_false(psd_optim_finite(PS_F32, f, COUNT, scales[k], NULL));
            assert_false(psd_optim_finite(PS_F16, h, COUNT, scales[k], NULL));
            assert_false(psd_optim_finite(PS_BF16, b, COUNT, scales[k], NULL));
        }
        f[i] = 0;
        d[i] = 0;
        h[i] = b[i] = 0;
    }
}

TEST(test_add)
{
    int32_t i32[] = {INT32_MAX, INT32_MIN, 5, -7};
    const int32_t di32[] = {1, -1, 10, 7};
    int64_t i64[] = {INT64_MAX, INT64_MIN, 5};
    const int64_t di64[] = {INT64_MAX, -1, 10};
    float f[N];
    float df[N];
    double d[3] = {1, 2, 3};
    const double dd[3] = {0.5, -2, 1e300};

    assert_true(psd_add(PS_I32, i32, di32, 4, 1));
    assert_int_equal(i32[0], INT32_MIN);
    assert_int_equal(i32[1], INT32_MAX);
    assert_int_equal(i32[2], 15);
    assert_int_equal(i32[3], 0);
    assert_true(psd_add(PS_I32, i32, di32, 4, -1));
    assert_int_equal(i32[0], INT32_MAX);
    assert_int_equal(i32[1], INT32_MIN);
    assert_int_equal(i32[3], -7);
    assert_true(psd_add(PS_I64, i64, di64, 3, 1));
    assert_true(i64[0] == -2);
    assert_true(i64[1] == INT64_MAX);
    assert_true(i64[2] == 15);
    assert_true(psd_add(PS_I64, i64, di64, 3, -1));
    assert_true(i64[0] == INT64_MAX && i64[1] == INT64_MIN && i64[2] == 5);
    for (size_t i = 0; i < N; i++) {
        f[i] = (float)i;
        df[i] = 0.5f;
    }
    assert_true(psd_add(PS_F32, f, df, N, 0));
    assert_true(f[0] == 0.5f && f[N - 1] == (float)(N - 1) + 0.5f);
    assert_true(psd_add(PS_F32, f, df, N - 1, -1));
    assert_true(f[0] == 0.0f && f[N - 2] == (float)(N - 2) && f[N - 1] == (float)(N - 1) + 0.5f);
    assert_true(psd_add(PS_F64, d, dd, 3, 1));
    assert_true(d[0] == 1.5 && d[1] == 0 && d[2] == 1e300);
    assert_true(psd_add(PS_F64, d, dd, 2, -1));
    assert_true(d[0] == 1 && d[1] == 2);
    uint8_t u8[] = {255, 0, 7};
    const uint8_t du8[] = {1, 1, 250};
    assert_true(psd_add(PS_U8, u8, du8, 3, 1));
    assert_true(u8[0] == 0 && u8[1] == 1 && u8[2] == 1);
    assert_true(psd_add(PS_U8, u8, du8, 3, -1));
    assert_true(u8[0] == 255 && u8[1] == 0 && u8[2] == 7);
    int8_t i8[] = {127, -128, 5};
    const int8_t di8[] = {1, -1, -7};
    assert_true(psd_add(PS_I8, i8, di8, 3, 1));
    assert_true(i8[0] == -128 && i8[1] == 127 && i8[2] == -2);
    assert_true(psd_add(PS_I8, i8, di8, 3, -1));
    assert_true(i8[0] == 127 && i8[1] == -128 && i8[2] == 5);
    /* 2048 + 1 is half way between two float16: to even; bfloat16 1 + 2^-8 likewise, 1 + 3 * 2^-8 up; NaN and infinity */
    uint16_t f16[] = {0x6800, 0x6801, 0x7bff, 0x7c00};
    const uint16_t df16[] = {0x3c00, 0x3c00, 0x7bff, 0xfc00};
    assert_true(psd_add(PS_F16, f16, df16, 4, 1));
    assert_true(f16[0] == 0x6800 && f16[1] == 0x6802 && f16[2] == 0x7c00 && (f16[3] & 0x7fff) > 0x7c00);
    uint16_t bf16[] = {0x3f80, 0x3f80, 0x4000};
    const uint16_t dbf16[] = {0x3b80, 0x3c40, 0x3f80};
    assert_true(psd_add(PS_BF16, bf16, dbf16, 3, 1));
    assert_true(bf16[0] == 0x3f80 && bf16[1] == 0x3f82 && bf16[2] == 0x4040);
    assert_true(psd_add(PS_BF16, bf16 + 2, dbf16 + 2, 1, -1));
    assert_true(bf16[2] == 0x4000);
    assert_false(psd_add(PS_STRING, f, df, 4, 1));
    assert_false(psd_add(PS_BOOL, f, df, 4, 1));
    assert_false(psd_add(PS_DTYPE_NONE, f, df, 4, 1));
    assert_true(f[0] == 0.0f);
}

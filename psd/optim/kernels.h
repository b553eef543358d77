/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of optimizers, one file each, for table.c only. A rule is written once, as what happens to element i; PSD_RULE() makes of
 * it loops for each dtype of a variable and of a gradient.
 */
#ifndef PSD_OPTIM_KERNELS_H
#define PSD_OPTIM_KERNELS_H

#include "optim.h"

#include "common/clones.h"
#include "common/half.h"
#include "common/power.h"

#include <math.h>

/** psd_optim_apply() of one rule and two dtypes. */
typedef void psd_optim_loop_fn(void *var, void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements,
                               const struct psd_optim_scalars *scalars);
/** psd_optim_apply_beside() of a rule by row and two dtypes. */
typedef void psd_optim_rows_fn(void *var, void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t rows, size_t columns,
                               const struct psd_optim_scalars *scalars);
/** The first pass of a rule with norms over at most PSD_OPTIM_PIECE_ELEMENTS: changes slots, writes the steps u, and adds the
 * sums of v^2 and u^2 to norms. */
typedef void psd_optim_step_fn(const void *var, void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, void *step,
                               size_t elements, const struct psd_optim_scalars *scalars, struct psd_optim_norms *norms);
/* of the variable and the gradient: float32, float32 by a gradient of bfloat16, float64 */
enum { PSD_LOOP_F32, PSD_LOOP_BF16, PSD_LOOP_F64, PSD_LOOPS };

/** What a push finds. */
struct psd_optim_push {
    const ps_optimizer *opt;
    double rate; /* learning rate in force, as it was given */
    ps_dtype dtype;
    const struct psd_optim_state *state;
    uint64_t pushes; /* to the variable before this one */
};
/** The value as a variable of this dtype would hold it. */
double psd_optim_rounded(ps_dtype dtype, double value);

struct psd_optim_rule {
    /** By the form that a push has captured. A rule that has one form only has its loops in both. */
    psd_optim_loop_fn *loops[2][PSD_LOOPS];
    psd_optim_rows_fn *by_row[PSD_LOOPS]; /* of a kind by row, instead of loops */
    /** What a push captures beside its hyperparameters, which scalars has in dtype. NULL: nothing, as where the learning rate is
     * the only one. */
    void (*derive)(const struct psd_optim_push *push, struct psd_optim_scalars *scalars);
    /** Of a rule that needs norms of the whole variable (whole.c): the first pass over float32 and float64. */
    psd_optim_step_fn *step[2];
    /** By which the rate is multiplied, from the norms of the variable and of the step, both above 0. */
    double (*ratio)(const struct psd_optim_scalars *scalars, double value, double step);
};
const struct psd_optim_rule *psd_optim_rule_of(uint32_t kind);

/** alpha of Adam's family in TensorFlow's form, by adam.c. */
void psd_optim_derive_adam(const struct psd_optim_push *push, struct psd_optim_scalars *scalars);
/** alpha and correction of Adam in PyTorch's form, share1 and share2, by torch_adam.c. */
void psd_optim_derive_torch_adam(const struct psd_optim_push *push, struct psd_optim_scalars *scalars);
/** share1 and share2. */
void psd_optim_derive_shares(const struct psd_optim_push *push, struct psd_optim_scalars *scalars);
/** made[i] = the gradient of element i with its scale, limited, and with l2 x variable. var: the same elements. No overlap. */
void psd_optim_gradient(int loop, void *made, const void *grad, const void *var, size_t n, const struct psd_optim_scalars *s);
/** psd_optim_apply_beside() of a push that limits its gradient, adds l2 x variable to it, or keeps a moving average: around the
 * rule, a piece at a time that stays in the first cache. own: the slots of the kind. */
void psd_optim_around(const struct psi_slot *own, const struct psd_optim_rule *rule, int loop,
                      const struct psd_optim_scalars *scalars, void *var, void *const slots[PSD_OPTIM_SLOTS_MAX],
                      const void *grad, size_t rows, size_t columns);

/* X(kind, name): psd_rule_NAME is the rule of that kind. */
#define PSD_RULES(X)                                                                                                             \
    X(PS_OPT_SGD, sgd)                                                                                                           \
    X(PS_OPT_MOMENTUM, momentum)                                                                                                 \
    X(PS_OPT_ADAGRAD, adagrad)                                                                                                   \
    X(PS_OPT_ADAM, adam)                                                                                                         \
    X(PS_OPT_ADAGRAD_V2, adagrad_v2)                                                                                             \
    X(PS_OPT_ADAGRAD_DA, adagrad_da)                                                                                             \
    X(PS_OPT_ADADELTA, adadelta)                                                                                                 \
    X(PS_OPT_RMSPROP, rmsprop)                                                                                                   \
    X(PS_OPT_RMSPROP_CENTERED, rmsprop_centered)                                                                                 \
    X(PS_OPT_ADAMW, adamw)                                                                                                       \
    X(PS_OPT_ADAMW_TF, adamw_tf)                                                                                                 \
    X(PS_OPT_AMSGRAD, amsgrad)                                                                                                   \
    X(PS_OPT_ADAMAX, adamax)                                                                                                     \
    X(PS_OPT_NADAM, nadam)                                                                                                       \
    X(PS_OPT_FTRL, ftrl)                                                                                                         \
    X(PS_OPT_PROXIMAL_GD, proximal_gd)                                                                                           \
    X(PS_OPT_PROXIMAL_ADAGRAD, proximal_adagrad)                                                                                 \
    X(PS_OPT_ADDSIGN, addsign)                                                                                                   \
    X(PS_OPT_POWERSIGN, powersign)                                                                                               \
    X(PS_OPT_LION, lion)                                                                                                         \
    X(PS_OPT_TORCH_ADAM, torch_adam)                                                                                             \
    X(PS_OPT_TORCH_ADAGRAD, torch_adagrad)                                                                                       \
    X(PS_OPT_TORCH_RMSPROP, torch_rmsprop)                                                                                       \
    X(PS_OPT_TORCH_RMSPROP_CENTERED, torch_rmsprop_centered)                                                                     \
    X(PS_OPT_LAZY_ADAM, adam)                                                                                                    \
    X(PS_OPT_ROWWISE_ADAGRAD, rowwise_adagrad)                                                                                   \
    X(PS_OPT_ROWWISE_ADAM, rowwise_adam)                                                                                         \
    X(PS_OPT_LAMB, lamb)                                                                                                         \
    X(PS_OPT_LARS, lars)
#define PSD_DECLARE_RULE(kind, name) extern const struct psd_optim_rule psd_rule_##name;
PSD_RULES(PSD_DECLARE_RULE)
#undef PSD_DECLARE_RULE

/* ---- of a rule's file ---- */

#define PSD_UNUSED __attribute__((unused))
#define PSD_INLINE static inline __attribute__((always_inline))
#define PSD_SAME(x) (x)
#define PSD_ROOT(x) _Generic((x), float : __builtin_sqrtf, double : __builtin_sqrt)(x)
#define PSD_POWER(x, y) _Generic((x), float : psi_powf, double : psi_pow)(x, y)
#define PSD_SIZE(x) _Generic((x), float : __builtin_fabsf, double : __builtin_fabs)(x)
#define PSD_SIGNED(x, sign) _Generic((x), float : __builtin_copysignf, double : __builtin_copysign)(x, sign)
/* -1, 0 or 1; of NaN NaN */
#define PSD_SIGN(x) ((x) > 0 ? (real)1 : (x) < 0 ? (real)-1 : (x))

/* Loops go line by line and ask for each line this much earlier: memory that is not in cache comes a tenth to a quarter faster,
 * since the processor's own prefetchers stop at the end of each 4 KiB. Past the end of an array it does no harm.
 * PSD_AHEAD_ONE: of a rule without slots, into the second cache; two and more arrays are slower that way. */
enum { PSD_LINE_BYTES = 64, PSD_AHEAD_BYTES = 4096, PSD_AHEAD_ONE_BYTES = 16384 };
#define PSD_AHEAD(p) __builtin_prefetch((const char *)(p) + PSD_AHEAD_BYTES)
#define PSD_AHEAD_ONE(p) __builtin_prefetch((const char *)(p) + PSD_AHEAD_ONE_BYTES, 0, 2)

/* A type cannot stand in parentheses: NOLINTBEGIN(bugprone-macro-parentheses) */
/* The scalars of a push, in the dtype of the variable, to which they are rounded already. rest1, rest2: 1 - beta1, 1 - beta2. */
#define PSD_SCALARS(type)                                                                                                        \
    type scale, PSD_UNUSED type rate, PSD_UNUSED type alpha, PSD_UNUSED type momentum, PSD_UNUSED type beta1,                    \
        PSD_UNUSED type beta2, PSD_UNUSED type rest1, PSD_UNUSED type rest2, PSD_UNUSED type epsilon,                            \
        PSD_UNUSED type weight_decay, PSD_UNUSED type power, PSD_UNUSED type l1_strength, PSD_UNUSED type l2_strength,           \
        PSD_UNUSED type l2_shrinkage, PSD_UNUSED type correction, PSD_UNUSED type share1, PSD_UNUSED type share2
/* PSD_SCALAR: a float64 scalar is computed once, before the loop, by a way that gcc cannot see through. gcc 12.2 that sees all of
 * them lie side by side in memory leaves the float64 loops for AVX2 without vectors: three times as many instructions. */
#define PSD_SCALAR(type, name, value)                                                                                            \
    type name = (value);                                                                                                         \
    if (sizeof(type) == sizeof(double)) {                                                                                        \
        __asm__("" : "+g"(name));                                                                                                \
    }
#define PSD_SCALARS_OF(type, s)                                                                                                  \
    PSD_SCALAR(type, scale, (type)(s)->scale)                                                                                    \
    PSD_SCALAR(type, rate, (type)(s)->rate)                                                                                      \
    PSD_SCALAR(type, alpha, (type)(s)->alpha)                                                                                    \
    PSD_SCALAR(type, momentum, (type)(s)->momentum)                                                                              \
    PSD_SCALAR(type, beta1, (type)(s)->beta1)                                                                                    \
    PSD_SCALAR(type, beta2, (type)(s)->beta2)                                                                                    \
    PSD_SCALAR(type, rest1, 1 - (type)(s)->beta1)                                                                                \
    PSD_SCALAR(type, rest2, 1 - (type)(s)->beta2)                                                                                \
    PSD_SCALAR(type, epsilon, (type)(s)->epsilon)                                                                                \
    PSD_SCALAR(type, weight_decay, (type)(s)->weight_decay)                                                                      \
    PSD_SCALAR(type, power, (type)(s)->power)                                                                                    \
    PSD_SCALAR(type, l1_strength, (type)(s)->l1_strength)                                                                        \
    PSD_SCALAR(type, l2_strength, (type)(s)->l2_strength)                                                                        \
    PSD_SCALAR(type, l2_shrinkage, (type)(s)->l2_shrinkage)                                                                      \
    PSD_SCALAR(type, correction, (type)(s)->correction)                                                                          \
    PSD_SCALAR(type, share1, (type)(s)->share1)                                                                                  \
    PSD_SCALAR(type, share2, (type)(s)->share2)
#define PSD_SCALAR_ARGUMENTS                                                                                                     \
    scale, rate, alpha, momentum, beta1, beta2, rest1, rest2, epsilon, weight_decay, power, l1_strength, l2_strength,            \
        l2_shrinkage, correction, share1, share2

/* What differs by the number of slots, which a rule calls a, b and c: parameters, arguments of both kinds, the next line. */
#define PSD_PARAMETERS_0(type)
#define PSD_PARAMETERS_1(type) type *restrict a,
#define PSD_PARAMETERS_2(type) PSD_PARAMETERS_1(type) type *restrict b,
#define PSD_PARAMETERS_3(type) PSD_PARAMETERS_2(type) type *restrict c,
#define PSD_ARGUMENTS_0
#define PSD_ARGUMENTS_1 a,
#define PSD_ARGUMENTS_2 PSD_ARGUMENTS_1 b,
#define PSD_ARGUMENTS_3 PSD_ARGUMENTS_2 c,
#define PSD_OF_SLOTS_0
#define PSD_OF_SLOTS_1 slots[0],
#define PSD_OF_SLOTS_2 PSD_OF_SLOTS_1 slots[1],
#define PSD_OF_SLOTS_3 PSD_OF_SLOTS_2 slots[2],
#define PSD_LINE_0 PSD_AHEAD_ONE(v)
#define PSD_LINE_1 PSD_AHEAD(v), PSD_AHEAD(a)
#define PSD_LINE_2 PSD_LINE_1, PSD_AHEAD(b)
#define PSD_LINE_3 PSD_LINE_2, PSD_AHEAD(c)
#define PSD_NEXT_0 v += line
#define PSD_NEXT_1 PSD_NEXT_0, a += line
#define PSD_NEXT_2 PSD_NEXT_1, b += line
#define PSD_NEXT_3 PSD_NEXT_2, c += line

/* The loops for one sort of CPU. They have a section of their own, so that a start of psd brings none of them into memory, as the
 * resolvers of PSI_CLONES would: 20 rules take 300 KiB. */
#define PSD_LOOP_FOR(name, target_, body)                                                                                        \
    __attribute__((section(".text.sorted.loops"), target_)) static void name(                                                    \
        void *var, void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t n, const struct psd_optim_scalars *s)        \
    {                                                                                                                            \
        (void)slots;                                                                                                             \
        body;                                                                                                                    \
    }
#define PSD_LOOP(name, slot_count, type, grad_type, value, ...)                                                                  \
    PSD_INLINE void name##_some(type *restrict v, PSD_PARAMETERS_##slot_count(type) const grad_type *restrict grad, size_t n,    \
                                PSD_SCALARS(type))                                                                               \
    {                                                                                                                            \
        typedef PSD_UNUSED type real;                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                                                         \
            const type g = value(grad[i]) * scale;                                                                               \
            __VA_ARGS__                                                                                                          \
        }                                                                                                                        \
    }                                                                                                                            \
    PSD_INLINE void name##_all(type *restrict v, PSD_PARAMETERS_##slot_count(type) const grad_type *restrict grad, size_t n,     \
                               const struct psd_optim_scalars *restrict s)                                                       \
    {                                                                                                                            \
        const size_t line = PSD_LINE_BYTES / sizeof(*v);                                                                         \
        PSD_SCALARS_OF(type, s)                                                                                                  \
        for (; n >= line; n -= line, PSD_NEXT_##slot_count, grad += line) {                                                      \
            PSD_LINE_##slot_count;                                                                                               \
            name##_some(v, PSD_ARGUMENTS_##slot_count grad, line, PSD_SCALAR_ARGUMENTS);                                         \
        }                                                                                                                        \
        name##_some(v, PSD_ARGUMENTS_##slot_count grad, n, PSD_SCALAR_ARGUMENTS);                                                \
    }                                                                                                                            \
    PSD_LOOP_FOR(name##_base, noinline, name##_all(var, PSD_OF_SLOTS_##slot_count grad, n, s))                                   \
    PSD_LOOP_FOR(name##_avx2, target("avx2"), name##_all(var, PSD_OF_SLOTS_##slot_count grad, n, s))                             \
    PSD_LOOP_FOR(name##_avx512, target("avx512f"), name##_all(var, PSD_OF_SLOTS_##slot_count grad, n, s))                        \
    static void name(void *var, void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t n,                              \
                     const struct psd_optim_scalars *s)                                                                          \
    {                                                                                                                            \
        static psd_optim_loop_fn *const loops[] = {name##_base, name##_avx2, name##_avx512};                                     \
        loops[psi_vectors()](var, slots, grad, n, s);                                                                            \
    }

/**
 * Loops of that name, of which the last argument is the body. It changes v[i], a[i], b[i] and c[i] by g, the scaled gradient, and
 * the scalars (PSD_SCALARS); numbers of its own are of type `real`.
 */
#define PSD_RULE(name, slot_count, ...)                                                                                          \
    PSD_LOOP(name##_f32, slot_count, float, float, PSD_SAME, __VA_ARGS__)                                                        \
    PSD_LOOP(name##_bf16, slot_count, float, uint16_t, psi_bf16_value, __VA_ARGS__)                                              \
    PSD_LOOP(name##_f64, slot_count, double, double, PSD_SAME, __VA_ARGS__)
/* The first pass of a rule with norms: lines of PSD_SUM_LANES elements, of which the squares are added side by side while the CPU
 * divides. */
#define PSD_STEP_FOR(name, target_, body)                                                                                        \
    __attribute__((section(".text.sorted.loops"), target_)) static void name(                                                    \
        const void *var, void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, void *step, size_t n,                         \
        const struct psd_optim_scalars *s, struct psd_optim_norms *norms)                                                        \
    {                                                                                                                            \
        (void)slots;                                                                                                             \
        body;                                                                                                                    \
    }
#define PSD_STEP_LOOP(name, slot_count, type, ...)                                                                               \
    PSD_INLINE void name##_some(const type *restrict v, PSD_PARAMETERS_##slot_count(type) const type *restrict grad,             \
                                type *restrict u, size_t n, double *restrict sums, PSD_SCALARS(type))                            \
    {                                                                                                                            \
        typedef PSD_UNUSED type real;                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                                                         \
            const type g = grad[i] * scale;                                                                                      \
            __VA_ARGS__                                                                                                          \
            sums[i] += (double)v[i] * (double)v[i];                                                                              \
            sums[PSD_SUM_LANES + i] += (double)u[i] * (double)u[i];                                                              \
        }                                                                                                                        \
    }                                                                                                                            \
    PSD_INLINE void name##_all(const type *restrict v, PSD_PARAMETERS_##slot_count(type) const type *restrict grad,              \
                               type *restrict u, size_t n, const struct psd_optim_scalars *restrict s,                           \
                               struct psd_optim_norms *restrict norms)                                                           \
    {                                                                                                                            \
        const size_t line = PSD_SUM_LANES;                                                                                       \
        _Alignas(64) double sums[2 * PSD_SUM_LANES] = {0};                                                                       \
        PSD_SCALARS_OF(type, s)                                                                                                  \
        for (; n >= line; n -= line, PSD_NEXT_##slot_count, grad += line, u += line) {                                           \
            PSD_LINE_##slot_count;                                                                                               \
            name##_some(v, PSD_ARGUMENTS_##slot_count grad, u, line, sums, PSD_SCALAR_ARGUMENTS);                                \
        }                                                                                                                        \
        name##_some(v, PSD_ARGUMENTS_##slot_count grad, u, n, sums, PSD_SCALAR_ARGUMENTS);                                       \
        norms->value += psd_sum_lanes(sums);                                                                                     \
        norms->step += psd_sum_lanes(sums + PSD_SUM_LANES);                                                                      \
    }                                                                                                                            \
    PSD_STEP_FOR(name##_base, noinline, name##_all(var, PSD_OF_SLOTS_##slot_count grad, step, n, s, norms))                      \
    PSD_STEP_FOR(name##_avx2, target("avx2"), name##_all(var, PSD_OF_SLOTS_##slot_count grad, step, n, s, norms))                \
    PSD_STEP_FOR(name##_avx512, target("avx512f"), name##_all(var, PSD_OF_SLOTS_##slot_count grad, step, n, s, norms))           \
    static void name(const void *var, void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, void *step, size_t n,            \
                     const struct psd_optim_scalars *s, struct psd_optim_norms *norms)                                           \
    {                                                                                                                            \
        static psd_optim_step_fn *const loops[] = {name##_base, name##_avx2, name##_avx512};                                     \
        loops[psi_vectors()](var, slots, grad, step, n, s, norms);                                                               \
    }
/** As PSD_RULE(), of a first pass. The body changes a[i], b[i] and c[i], and sets u[i]. */
#define PSD_STEP(name, slot_count, ...)                                                                                          \
    PSD_STEP_LOOP(name##_f32, slot_count, float, __VA_ARGS__)                                                                    \
    PSD_STEP_LOOP(name##_f64, slot_count, double, __VA_ARGS__)
#define PSD_STEPS_OF(name)                                                                                                       \
    {                                                                                                                            \
        name##_f32, name##_f64                                                                                                   \
    }
#define PSD_LOOPS_OF(name)                                                                                                       \
    {                                                                                                                            \
        name##_f32, name##_bf16, name##_f64                                                                                      \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

#endif

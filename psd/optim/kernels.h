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

/** psd_optim_apply() of one rule and two dtypes. */
typedef void psd_optim_loop_fn(void *var, void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements,
                               const struct psd_optim_scalars *scalars);
/* of the variable and the gradient: float32, float32 by a gradient of bfloat16, float64 */
enum { PSD_LOOP_F32, PSD_LOOP_BF16, PSD_LOOP_F64, PSD_LOOPS };

struct psd_optim_rule {
    /** [1]: the loops if the optimizer's switch is on. An optimizer without a switch has its loops in both. */
    psd_optim_loop_fn *loops[2][PSD_LOOPS];
    /** What a push captures beside its hyperparameters, which scalars has in dtype. NULL: nothing, as where the learning rate is
     * the only one. */
    void (*derive)(ps_dtype dtype, const struct psd_optim_state *state, struct psd_optim_scalars *scalars);
};

/* X(kind, name): psd_rule_NAME is the rule of that kind. */
#define PSD_RULES(X)                                                                                                             \
    X(PS_OPT_SGD, sgd)                                                                                                           \
    X(PS_OPT_MOMENTUM, momentum)                                                                                                 \
    X(PS_OPT_ADAGRAD, adagrad)                                                                                                   \
    X(PS_OPT_ADAM, adam)
#define PSD_DECLARE_RULE(kind, name) extern const struct psd_optim_rule psd_rule_##name;
PSD_RULES(PSD_DECLARE_RULE)
#undef PSD_DECLARE_RULE

/* ---- of a rule's file ---- */

#define PSD_UNUSED __attribute__((unused))
#define PSD_INLINE static inline __attribute__((always_inline))
#define PSD_SAME(x) (x)
#define PSD_ROOT(x) _Generic((x), float : __builtin_sqrtf, double : __builtin_sqrt)(x)

/* Loops go line by line and ask for each line this much earlier: memory that is not in cache comes a tenth to a quarter faster,
 * since the processor's own prefetchers stop at the end of each 4 KiB. Past the end of an array it does no harm.
 * PSD_AHEAD_ONE: of a rule without slots, into the second cache; two and more arrays are slower that way. */
enum { PSD_LINE_BYTES = 64, PSD_AHEAD_BYTES = 4096, PSD_AHEAD_ONE_BYTES = 16384 };
#define PSD_AHEAD(p) __builtin_prefetch((const char *)(p) + PSD_AHEAD_BYTES)
#define PSD_AHEAD_ONE(p) __builtin_prefetch((const char *)(p) + PSD_AHEAD_ONE_BYTES, 0, 2)

/* A type cannot stand in parentheses: NOLINTBEGIN(bugprone-macro-parentheses) */
/* The scalars of a push, in the dtype of the variable, to which they are rounded already. rest1, rest2: 1 - beta1, 1 - beta2. */
#define PSD_SCALARS(type)                                                                                                        \
    type scale, PSD_UNUSED type rate, PSD_UNUSED type alpha, PSD_UNUSED type momentum, PSD_UNUSED type rest1,                    \
        PSD_UNUSED type rest2, PSD_UNUSED type epsilon
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
    PSD_SCALAR(type, rest1, 1 - (type)(s)->beta1)                                                                                \
    PSD_SCALAR(type, rest2, 1 - (type)(s)->beta2)                                                                                \
    PSD_SCALAR(type, epsilon, (type)(s)->epsilon)
#define PSD_SCALAR_ARGUMENTS scale, rate, alpha, momentum, rest1, rest2, epsilon

/* What differs by the number of slots, which a rule calls a and b: parameters, arguments of both kinds, the next line. */
#define PSD_PARAMETERS_0(type)
#define PSD_PARAMETERS_1(type) type *restrict a,
#define PSD_PARAMETERS_2(type) PSD_PARAMETERS_1(type) type *restrict b,
#define PSD_ARGUMENTS_0
#define PSD_ARGUMENTS_1 a,
#define PSD_ARGUMENTS_2 PSD_ARGUMENTS_1 b,
#define PSD_OF_SLOTS_0
#define PSD_OF_SLOTS_1 slots[0],
#define PSD_OF_SLOTS_2 PSD_OF_SLOTS_1 slots[1],
#define PSD_LINE_0 PSD_AHEAD_ONE(v)
#define PSD_LINE_1 PSD_AHEAD(v), PSD_AHEAD(a)
#define PSD_LINE_2 PSD_LINE_1, PSD_AHEAD(b)
#define PSD_NEXT_0 v += line
#define PSD_NEXT_1 PSD_NEXT_0, a += line
#define PSD_NEXT_2 PSD_NEXT_1, b += line

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
    PSI_CLONES                                                                                                                   \
    static void name##_all(type *restrict v, PSD_PARAMETERS_##slot_count(type) const grad_type *restrict grad, size_t n,         \
                           const struct psd_optim_scalars *restrict s)                                                           \
    {                                                                                                                            \
        const size_t line = PSD_LINE_BYTES / sizeof(*v);                                                                         \
        PSD_SCALARS_OF(type, s)                                                                                                  \
        for (; n >= line; n -= line, PSD_NEXT_##slot_count, grad += line) {                                                      \
            PSD_LINE_##slot_count;                                                                                               \
            name##_some(v, PSD_ARGUMENTS_##slot_count grad, line, PSD_SCALAR_ARGUMENTS);                                         \
        }                                                                                                                        \
        name##_some(v, PSD_ARGUMENTS_##slot_count grad, n, PSD_SCALAR_ARGUMENTS);                                                \
    }                                                                                                                            \
    static void name(void *var, void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t n,                              \
                     const struct psd_optim_scalars *s)                                                                          \
    {                                                                                                                            \
        (void)slots;                                                                                                             \
        name##_all(var, PSD_OF_SLOTS_##slot_count grad, n, s);                                                                   \
    }

/**
 * Loops of that name, of which the last argument is the body. It changes v[i], a[i] and b[i] by g, the scaled gradient, and the
 * scalars (PSD_SCALARS); numbers of its own are of type `real`.
 */
#define PSD_RULE(name, slot_count, ...)                                                                                          \
    PSD_LOOP(name##_f32, slot_count, float, float, PSD_SAME, __VA_ARGS__)                                                        \
    PSD_LOOP(name##_bf16, slot_count, float, uint16_t, psi_bf16_value, __VA_ARGS__)                                              \
    PSD_LOOP(name##_f64, slot_count, double, double, PSD_SAME, __VA_ARGS__)
#define PSD_LOOPS_OF(name)                                                                                                       \
    {                                                                                                                            \
        name##_f32, name##_bf16, name##_f64                                                                                      \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

#endif

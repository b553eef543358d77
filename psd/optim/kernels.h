/* SPDX-License-Identifier: Apache-2.0 */
/* Update rules of optimizers, each in its own file; table.c calls them. The code of a rule changes element i, and PSD_RULE()
 * makes a loop of this code for each dtype. A rule works on one segment, unless its file says otherwise, and cannot fail. */
#ifndef PSD_OPTIM_KERNELS_H
#define PSD_OPTIM_KERNELS_H

#include "optim.h"

#include "common/clones.h"
#include "common/half.h"
#include "common/power.h"

#include <math.h>

/** Applies one rule to one segment, for one pair of dtypes (PSD_LOOP_...). Parameters as of psd_optim_apply(). */
typedef void psd_optim_loop_fn(void *var, void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements,
                               const struct psd_optim_scalars *scalars);
/** Applies one rule by row to whole rows, for one pair of dtypes. Parameters as of psd_optim_apply_beside(). */
typedef void psd_optim_rows_fn(void *var, void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t rows, size_t columns,
                               const struct psd_optim_scalars *scalars);
/** First pass of a rule with norms, over some elements: changes slots, writes steps u, adds the sums of v^2 and u^2 to norms. */
typedef void psd_optim_step_fn(const void *var, void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, void *step,
                               size_t elements, const struct psd_optim_scalars *scalars, struct psd_optim_norms *norms);
/* Dtypes: F32: variable and gradient float32; BF16: variable float32, gradient bfloat16; F64: both float64. */
enum { PSD_LOOP_F32, PSD_LOOP_BF16, PSD_LOOP_F64, PSD_LOOPS };

/** What a push reads of its variable when the push begins. */
struct psd_optim_push {
    const ps_optimizer *opt;
    double rate; /* learning rate in force, not rounded to the dtype */
    ps_dtype dtype;
    const struct psd_optim_state *state;
    uint64_t pushes; /* number of pushes to the variable before this one */
};
/** Round the value to one that a variable of this dtype can hold. */
double psd_optim_rounded(ps_dtype dtype, double value);

struct psd_optim_rule {
    /** Loops for each form (psd_optim_scalars.form). A rule with only one form has equal loops for both. */
    psd_optim_loop_fn *loops[2][PSD_LOOPS];
    psd_optim_rows_fn *by_row[PSD_LOOPS]; /* in place of `loops`, for a rule that works on whole rows; NULL for other rules */
    /** Compute further scalars from the hyperparameters, which `scalars` already has. NULL: the rule needs no further scalars. */
    void (*derive)(const struct psd_optim_push *push, struct psd_optim_scalars *scalars);
    /** Only for rules with norms (whole.c): the first pass over float32 and over float64. */
    psd_optim_step_fn *step[2];
    /** Only for rules with norms: factor of the rate in the last pass. value, step: norms (above 0) of variable and step. */
    double (*ratio)(const struct psd_optim_scalars *scalars, double value, double step);
};
const struct psd_optim_rule *psd_optim_rule_of(uint32_t kind);

/** A derive() function: sets scalars->alpha for Adam's family in TensorFlow's form (adam.c). */
void psd_optim_derive_adam(const struct psd_optim_push *push, struct psd_optim_scalars *scalars);
/** Set alpha, correction, share1 and share2 of Adam in PyTorch's form (torch_adam.c), and weight_decay to 1 - rate * the
 * optimizer's weight_decay. */
void psd_optim_derive_torch_adam(const struct psd_optim_push *push, struct psd_optim_scalars *scalars);
/** Set share1 to 1 - beta1, and share2 to 1 - beta2: computed in float64, then rounded to the variable's dtype. */
void psd_optim_derive_shares(const struct psd_optim_push *push, struct psd_optim_scalars *scalars);
/** Write to `made` the gradient for the rule: grad[i] * scale, limited by clip_value, plus l2 * var[i]. Arrays do not overlap. */
void psd_optim_gradient(int loop, void *made, const void *grad, const void *var, size_t n, const struct psd_optim_scalars *s);
/** psd_optim_apply_beside() for an optimizer that limits the gradient, adds l2 * variable to the gradient, or keeps a moving
 * average. Works on one piece at a time, which stays in the first-level cache. own: the slots of the optimizer's kind. */
void psd_optim_around(const struct psi_slot *own, const struct psd_optim_rule *rule, int loop,
                      const struct psd_optim_scalars *scalars, void *var, void *const slots[PSD_OPTIM_SLOTS_MAX],
                      const void *grad, size_t rows, size_t columns);

/* X(kind, name): psd_rule_NAME is the rule of this kind. */
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

/* ---- macros for the files of the optimizers' rules ---- */

#define PSD_UNUSED __attribute__((unused))
#define PSD_INLINE static inline __attribute__((always_inline))
#define PSD_SAME(x) (x)
#define PSD_ROOT(x) _Generic((x), float : __builtin_sqrtf, double : __builtin_sqrt)(x)
#define PSD_POWER(x, y) _Generic((x), float : psi_powf, double : psi_pow)(x, y)
#define PSD_SIZE(x) _Generic((x), float : __builtin_fabsf, double : __builtin_fabs)(x)
#define PSD_SIGNED(x, sign) _Generic((x), float : __builtin_copysignf, double : __builtin_copysign)(x, sign)
/* sign of x: -1, 0 or 1; NaN for NaN */
#define PSD_SIGN(x) ((x) > 0 ? (real)1 : (x) < 0 ? (real)-1 : (x))

/* Loops handle one cache line at a time, and prefetch the line that lies this many bytes ahead. This reads arrays outside the
 * cache a tenth to a quarter faster, since the processor's own prefetchers stop at the end of each 4 KiB page. A prefetch past
 * the end of an array is harmless. PSD_AHEAD_ONE, for rules without slots, prefetches further, into the second-level cache. */
enum { PSD_LINE_BYTES = 64, PSD_AHEAD_BYTES = 4096, PSD_AHEAD_ONE_BYTES = 16384 };
#define PSD_AHEAD(p) __builtin_prefetch((const char *)(p) + PSD_AHEAD_BYTES)
#define PSD_AHEAD_ONE(p) __builtin_prefetch((const char *)(p) + PSD_AHEAD_ONE_BYTES, 0, 2)

/* A macro argument that is a type cannot have parentheses: NOLINTBEGIN(bugprone-macro-parentheses) */
/* The scalars of a push, in the variable's dtype; the conversion is exact. rest1, rest2: 1 - beta1, 1 - beta2. */
#define PSD_SCALARS(type)                                                                                                        \
    type scale, PSD_UNUSED type rate, PSD_UNUSED type alpha, PSD_UNUSED type momentum, PSD_UNUSED type beta1,                    \
        PSD_UNUSED type beta2, PSD_UNUSED type rest1, PSD_UNUSED type rest2, PSD_UNUSED type epsilon,                            \
        PSD_UNUSED type weight_decay, PSD_UNUSED type power, PSD_UNUSED type l1_strength, PSD_UNUSED type l2_strength,           \
        PSD_UNUSED type l2_shrinkage, PSD_UNUSED type correction, PSD_UNUSED type share1, PSD_UNUSED type share2
/* PSD_SCALAR reads a scalar once, before the loop; for float64 the asm hides from gcc 12.2 that all scalars lie side by side in
 * memory. If gcc sees this, its float64 loops for AVX2 use no vectors, and take three times the instructions. */
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

/* Macros for a rule with as many slots as the number in the macro's name. The variable is v, its slots are a, b and c.
 * PARAMETERS, ARGUMENTS: the slots as parameters of a function, and as arguments of a call. OF_SLOTS: the arguments, from an
 * array. LINE: prefetch a later cache line of v and of each slot. NEXT: move v and each slot on by one line. */
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

/* ThreadSanitizer does not look at each element of a loop: PSD_TELL() tells it which memory the loop uses. */
#if defined(__SANITIZE_THREAD__)
void __tsan_read_range(void *begin, long bytes);
void __tsan_write_range(void *begin, long bytes);
#define PSD_TOLD __attribute__((no_sanitize_thread))
#define PSD_TELL(slot_count, type, grad_type)                                                                                    \
    do {                                                                                                                         \
        __tsan_read_range((void *)(uintptr_t)grad, (long)(n * sizeof(grad_type)));                                               \
        __tsan_write_range(var, (long)(n * sizeof(type)));                                                                       \
        for (int told = 0; told < slot_count; told++) {                                                                          \
            __tsan_write_range(slots[told], (long)(n * sizeof(type)));                                                           \
        }                                                                                                                        \
    } while (0)
#else
#define PSD_TOLD
#define PSD_TELL(slot_count, type, grad_type) (void)0
#endif

/* The loops for one kind of CPU, in a section of their own: starting psd loads none of their 300 KiB into memory. */
#define PSD_LOOP_FOR(name, target_, body)                                                                                        \
    PSD_TOLD __attribute__((section(".text.sorted.loops"), target_)) static void name(                                           \
        void *var, void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t n, const struct psd_optim_scalars *s)        \
    {                                                                                                                            \
        (void)slots;                                                                                                             \
        body;                                                                                                                    \
    }
#define PSD_LOOP(name, slot_count, type, grad_type, value, ...)                                                                  \
    PSD_TOLD PSD_INLINE void name##_some(type *restrict v, PSD_PARAMETERS_##slot_count(type) const grad_type *restrict grad,     \
                                         size_t n, PSD_SCALARS(type))                                                            \
    {                                                                                                                            \
        typedef PSD_UNUSED type real;                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                                                         \
            const type g = value(grad[i]) * scale;                                                                               \
            __VA_ARGS__                                                                                                          \
        }                                                                                                                        \
    }                                                                                                                            \
    PSD_TOLD PSD_INLINE void name##_all(type *restrict v, PSD_PARAMETERS_##slot_count(type) const grad_type *restrict grad,      \
                                        size_t n, const struct psd_optim_scalars *restrict s)                                    \
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
        PSD_TELL(slot_count, type, grad_type);                                                                                   \
        loops[psi_vectors()](var, slots, grad, n, s);                                                                            \
    }

/** Defines the loops name_f32, name_bf16 and name_f64. The last argument is their body: it changes v[i] and the slots a[i], b[i]
 * and c[i] by the scaled gradient g and the scalars (PSD_SCALARS). Local variables of the body are of type `real`. */
#define PSD_RULE(name, slot_count, ...)                                                                                          \
    PSD_LOOP(name##_f32, slot_count, float, float, PSD_SAME, __VA_ARGS__)                                                        \
    PSD_LOOP(name##_bf16, slot_count, float, uint16_t, psi_bf16_value, __VA_ARGS__)                                              \
    PSD_LOOP(name##_f64, slot_count, double, double, PSD_SAME, __VA_ARGS__)
/* The first pass of a rule with norms. PSD_SUM_LANES independent sums of squares let the CPU add while it divides. */
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
/** Defines the loops name_f32 and name_f64 of a first pass. The body changes slots a[i], b[i], c[i], and sets the step u[i]. */
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

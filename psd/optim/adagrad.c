/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adagrad: a += g^2 ; v -= g * rate / sqrt(a). No epsilon: the accumulator starts above 0.
 * Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyAdagrad; Duchi et al. 2011, algorithm 1 (diagonal). TensorFlow
 * multiplies by an approximate 1/sqrt(a); we divide by the correctly rounded root (tests/parity states the distance).
 * Works on one segment. Cannot fail.
 */
#include "kernels.h"

/* A type cannot stand in parentheses: NOLINTBEGIN(bugprone-macro-parentheses) */
#define ADAGRAD(name, type, grad_type, value, root)                                                                              \
    PSD_INLINE void name##_some(type *restrict v, type *restrict a, const grad_type *restrict grad, size_t n, type rate,         \
                                type scale)                                                                                      \
    {                                                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                                                         \
            type g = value(grad[i]) * scale;                                                                                     \
            type new_a = a[i] + g * g;                                                                                           \
            a[i] = new_a;                                                                                                        \
            v[i] -= g * rate / root(new_a);                                                                                      \
        }                                                                                                                        \
    }                                                                                                                            \
    PSI_CLONES                                                                                                                   \
    static void name(type *restrict v, type *restrict a, const grad_type *restrict grad, size_t n, type rate, type scale)        \
    {                                                                                                                            \
        const size_t line = PSD_LINE_BYTES / sizeof(*v);                                                                         \
        for (; n >= line; n -= line, v += line, a += line, grad += line) {                                                       \
            PSD_AHEAD(v);                                                                                                        \
            PSD_AHEAD(a);                                                                                                        \
            name##_some(v, a, grad, line, rate, scale);                                                                          \
        }                                                                                                                        \
        name##_some(v, a, grad, n, rate, scale);                                                                                 \
    }
ADAGRAD(adagrad_f32, float, float, PSD_SAME, __builtin_sqrtf)
ADAGRAD(adagrad_bf16, float, uint16_t, psi_bf16_value, __builtin_sqrtf)
ADAGRAD(adagrad_f64, double, double, PSD_SAME, __builtin_sqrt)
/* NOLINTEND(bugprone-macro-parentheses) */

void psd_adagrad_apply(ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                       void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements)
{
    const float rate = (float)scalars->rate;
    const float scale = (float)scalars->scale;
    if (dtype == PS_F64) {
        adagrad_f64(var, slots[0], grad, elements, scalars->rate, scalars->scale);
    } else if (wire == PS_BF16) {
        adagrad_bf16(var, slots[0], grad, elements, rate, scale);
    } else {
        adagrad_f32(var, slots[0], grad, elements, rate, scale);
    }
}

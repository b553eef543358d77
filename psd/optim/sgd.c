/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient descent: v -= g * rate.
 * Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyGradientDescent.
 * Works on one segment. Cannot fail.
 */
#include "kernels.h"

/* A type cannot stand in parentheses: NOLINTBEGIN(bugprone-macro-parentheses) */
#define SGD(name, type, grad_type, value)                                                                                        \
    PSD_INLINE void name##_some(type *restrict v, const grad_type *restrict grad, size_t n, type rate, type scale)               \
    {                                                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                                                         \
            v[i] -= value(grad[i]) * scale * rate;                                                                               \
        }                                                                                                                        \
    }                                                                                                                            \
    PSI_CLONES                                                                                                                   \
    static void name(type *restrict v, const grad_type *restrict grad, size_t n, type rate, type scale)                          \
    {                                                                                                                            \
        const size_t line = PSD_LINE_BYTES / sizeof(*v);                                                                         \
        for (; n >= line; n -= line, v += line, grad += line) {                                                                  \
            PSD_AHEAD_ONE(v);                                                                                                    \
            name##_some(v, grad, line, rate, scale);                                                                             \
        }                                                                                                                        \
        name##_some(v, grad, n, rate, scale);                                                                                    \
    }
SGD(sgd_f32, float, float, PSD_SAME)
SGD(sgd_bf16, float, uint16_t, psi_bf16_value)
SGD(sgd_f64, double, double, PSD_SAME)
/* NOLINTEND(bugprone-macro-parentheses) */

void psd_sgd_apply(ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                   void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements)
{
    const float rate = (float)scalars->rate;
    const float scale = (float)scalars->scale;
    (void)slots;
    if (dtype == PS_F64) {
        sgd_f64(var, grad, elements, scalars->rate, scalars->scale);
    } else if (wire == PS_BF16) {
        sgd_bf16(var, grad, elements, rate, scale);
    } else {
        sgd_f32(var, grad, elements, rate, scale);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Momentum: a = a * momentum + g ; v -= a * rate. Nesterov: v -= g * rate + a * momentum * rate, with the new a.
 * Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyMomentum; Sutskever et al. 2013 for Nesterov's form.
 * Works on one segment. Cannot fail.
 */
#include "kernels.h"

/* A type cannot stand in parentheses: NOLINTBEGIN(bugprone-macro-parentheses) */
#define LOOP(name, type, grad_type, value, step)                                                                                 \
    PSD_INLINE void name##_some(type *restrict v, type *restrict a, const grad_type *restrict grad, size_t n, type rate,         \
                                type momentum, type scale)                                                                       \
    {                                                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                                                         \
            type g = value(grad[i]) * scale;                                                                                     \
            type new_a = a[i] * momentum + g;                                                                                    \
            a[i] = new_a;                                                                                                        \
            v[i] -= step;                                                                                                        \
        }                                                                                                                        \
    }                                                                                                                            \
    PSI_CLONES                                                                                                                   \
    static void name(type *restrict v, type *restrict a, const grad_type *restrict grad, size_t n, type rate, type momentum,     \
                     type scale)                                                                                                 \
    {                                                                                                                            \
        const size_t line = PSD_LINE_BYTES / sizeof(*v);                                                                         \
        for (; n >= line; n -= line, v += line, a += line, grad += line) {                                                       \
            PSD_AHEAD(v);                                                                                                        \
            PSD_AHEAD(a);                                                                                                        \
            name##_some(v, a, grad, line, rate, momentum, scale);                                                                \
        }                                                                                                                        \
        name##_some(v, a, grad, n, rate, momentum, scale);                                                                       \
    }
#define MOMENTUM(name, type, grad_type, value) LOOP(name, type, grad_type, value, new_a *rate)
#define NESTEROV(name, type, grad_type, value) LOOP(name, type, grad_type, value, g *rate + new_a * momentum * rate)
MOMENTUM(momentum_f32, float, float, PSD_SAME)
MOMENTUM(momentum_bf16, float, uint16_t, psi_bf16_value)
MOMENTUM(momentum_f64, double, double, PSD_SAME)
NESTEROV(nesterov_f32, float, float, PSD_SAME)
NESTEROV(nesterov_bf16, float, uint16_t, psi_bf16_value)
NESTEROV(nesterov_f64, double, double, PSD_SAME)
/* NOLINTEND(bugprone-macro-parentheses) */

void psd_momentum_apply(ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                        void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements)
{
    const float rate = (float)scalars->rate;
    const float momentum = (float)scalars->momentum;
    const float scale = (float)scalars->scale;
    const bool nesterov = scalars->nesterov != 0;
    if (dtype == PS_F64) {
        (nesterov ? nesterov_f64 : momentum_f64)(var, slots[0], grad, elements, scalars->rate, scalars->momentum, scalars->scale);
    } else if (wire == PS_BF16) {
        (nesterov ? nesterov_bf16 : momentum_bf16)(var, slots[0], grad, elements, rate, momentum, scale);
    } else {
        (nesterov ? nesterov_f32 : momentum_f32)(var, slots[0], grad, elements, rate, momentum, scale);
    }
}

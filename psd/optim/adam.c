/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adam: m += (g - m)(1 - beta1) ; s += (g^2 - s)(1 - beta2) ; v -= m * alpha / (sqrt(s) + epsilon),
 * alpha = rate * sqrt(1 - beta2^t) / (1 - beta1^t), captured once per push ("epsilon-hat" of Kingma and Ba 2014, section 2).
 * Slot "m" is m, slot "v" is s (v is the variable here).
 * Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyAdam.
 * Works on one segment. Cannot fail.
 */
#include "kernels.h"

/* A type cannot stand in parentheses: NOLINTBEGIN(bugprone-macro-parentheses) */
/* rest1, rest2: 1 - beta1, 1 - beta2 */
#define ADAM(name, type, grad_type, value, root)                                                                                 \
    PSD_INLINE void name##_some(type *restrict v, type *restrict m, type *restrict s, const grad_type *restrict grad, size_t n,  \
                                type alpha, type rest1, type rest2, type epsilon, type scale)                                    \
    {                                                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                                                         \
            type g = value(grad[i]) * scale;                                                                                     \
            type new_m = m[i] + (g - m[i]) * rest1;                                                                              \
            type new_s = s[i] + (g * g - s[i]) * rest2;                                                                          \
            m[i] = new_m;                                                                                                        \
            s[i] = new_s;                                                                                                        \
            v[i] -= new_m * alpha / (root(new_s) + epsilon);                                                                     \
        }                                                                                                                        \
    }                                                                                                                            \
    PSI_CLONES                                                                                                                   \
    static void name(type *restrict v, type *restrict m, type *restrict s, const grad_type *restrict grad, size_t n, type alpha, \
                     type rest1, type rest2, type epsilon, type scale)                                                           \
    {                                                                                                                            \
        const size_t line = PSD_LINE_BYTES / sizeof(*v);                                                                         \
        for (; n >= line; n -= line, v += line, m += line, s += line, grad += line) {                                            \
            PSD_AHEAD(v);                                                                                                        \
            PSD_AHEAD(m);                                                                                                        \
            PSD_AHEAD(s);                                                                                                        \
            name##_some(v, m, s, grad, line, alpha, rest1, rest2, epsilon, scale);                                               \
        }                                                                                                                        \
        name##_some(v, m, s, grad, n, alpha, rest1, rest2, epsilon, scale);                                                      \
    }
ADAM(adam_f32, float, float, PSD_SAME, __builtin_sqrtf)
ADAM(adam_bf16, float, uint16_t, psi_bf16_value, __builtin_sqrtf)
ADAM(adam_f64, double, double, PSD_SAME, __builtin_sqrt)
/* NOLINTEND(bugprone-macro-parentheses) */

void psd_adam_apply(ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                    void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements)
{
    const struct psd_optim_scalars *s = scalars;
    if (dtype == PS_F64) {
        adam_f64(var, slots[0], slots[1], grad, elements, s->alpha, 1.0 - s->beta1, 1.0 - s->beta2, s->epsilon, s->scale);
    } else if (wire == PS_BF16) {
        adam_bf16(var, slots[0], slots[1], grad, elements, (float)s->alpha, 1.0f - (float)s->beta1, 1.0f - (float)s->beta2,
                  (float)s->epsilon, (float)s->scale);
    } else {
        adam_f32(var, slots[0], slots[1], grad, elements, (float)s->alpha, 1.0f - (float)s->beta1, 1.0f - (float)s->beta2,
                 (float)s->epsilon, (float)s->scale);
    }
}

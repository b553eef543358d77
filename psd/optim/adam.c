/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adam: m += (g - m)(1 - beta1) ; s += (g^2 - s)(1 - beta2) ; v -= m * alpha / (sqrt(s) + epsilon),
 * alpha = rate * sqrt(1 - beta2^t) / (1 - beta1^t), captured once per push ("epsilon-hat" of Kingma and Ba 2014, section 2).
 * Slot "m" is m, slot "v" is s (v is the variable here).
 * Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyAdam.
 * Works on one segment; dtypes other than f32 and f64 change nothing. Cannot fail.
 */
#include "kernels.h"

#include "common/clones.h"

PSI_CLONES
static void adam_f32(float *restrict v, float *restrict m, float *restrict s, const float *restrict grad, size_t n, float alpha,
                     float one_minus_beta1, float one_minus_beta2, float epsilon, float scale)
{
    for (size_t i = 0; i < n; i++) {
        float g = grad[i] * scale;
        float new_m = m[i] + (g - m[i]) * one_minus_beta1;
        float new_s = s[i] + (g * g - s[i]) * one_minus_beta2;
        m[i] = new_m;
        s[i] = new_s;
        v[i] -= new_m * alpha / (__builtin_sqrtf(new_s) + epsilon);
    }
}

PSI_CLONES
static void adam_f64(double *restrict v, double *restrict m, double *restrict s, const double *restrict grad, size_t n,
                     double alpha, double one_minus_beta1, double one_minus_beta2, double epsilon, double scale)
{
    for (size_t i = 0; i < n; i++) {
        double g = grad[i] * scale;
        double new_m = m[i] + (g - m[i]) * one_minus_beta1;
        double new_s = s[i] + (g * g - s[i]) * one_minus_beta2;
        m[i] = new_m;
        s[i] = new_s;
        v[i] -= new_m * alpha / (__builtin_sqrt(new_s) + epsilon);
    }
}

void psd_adam_apply(ps_dtype dtype, const struct psd_optim_scalars *scalars, void *var, void *const slots[PSD_OPTIM_SLOTS_MAX],
                    const void *grad, size_t elements)
{
    const struct psd_optim_scalars *s = scalars;
    if (dtype == PS_F32) {
        adam_f32(var, slots[0], slots[1], grad, elements, (float)s->alpha, 1.0f - (float)s->beta1, 1.0f - (float)s->beta2,
                 (float)s->epsilon, (float)s->scale);
    } else if (dtype == PS_F64) {
        adam_f64(var, slots[0], slots[1], grad, elements, s->alpha, 1.0 - s->beta1, 1.0 - s->beta2, s->epsilon, s->scale);
    }
}

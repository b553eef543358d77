/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient descent: v -= g * rate.
 * Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyGradientDescent.
 * Works on one segment; dtypes other than f32 and f64 change nothing. Cannot fail.
 */
#include "kernels.h"

#include "common/clones.h"

PSI_CLONES
static void sgd_f32(float *restrict v, const float *restrict grad, size_t n, float rate, float scale)
{
    for (size_t i = 0; i < n; i++) {
        v[i] -= grad[i] * scale * rate;
    }
}

PSI_CLONES
static void sgd_f64(double *restrict v, const double *restrict grad, size_t n, double rate, double scale)
{
    for (size_t i = 0; i < n; i++) {
        v[i] -= grad[i] * scale * rate;
    }
}

void psd_sgd_apply(ps_dtype dtype, const struct psd_optim_scalars *scalars, void *var, void *const slots[PSD_OPTIM_SLOTS_MAX],
                   const void *grad, size_t elements)
{
    (void)slots;
    if (dtype == PS_F32) {
        sgd_f32(var, grad, elements, (float)scalars->rate, (float)scalars->scale);
    } else if (dtype == PS_F64) {
        sgd_f64(var, grad, elements, scalars->rate, scalars->scale);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adagrad: a += g^2 ; v -= g * rate / sqrt(a). No epsilon: the accumulator starts above 0.
 * Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyAdagrad; Duchi et al. 2011, algorithm 1 (diagonal). TensorFlow
 * multiplies by an approximate 1/sqrt(a); we divide by the correctly rounded root (tests/parity states the distance).
 * Works on one segment; dtypes other than f32 and f64 change nothing. Cannot fail.
 */
#include "kernels.h"

#include "common/clones.h"

PSI_CLONES
static void adagrad_f32(float *restrict v, float *restrict a, const float *restrict grad, size_t n, float rate, float scale)
{
    for (size_t i = 0; i < n; i++) {
        float g = grad[i] * scale;
        float new_a = a[i] + g * g;
        a[i] = new_a;
        v[i] -= g * rate / __builtin_sqrtf(new_a);
    }
}

PSI_CLONES
static void adagrad_f64(double *restrict v, double *restrict a, const double *restrict grad, size_t n, double rate, double scale)
{
    for (size_t i = 0; i < n; i++) {
        double g = grad[i] * scale;
        double new_a = a[i] + g * g;
        a[i] = new_a;
        v[i] -= g * rate / __builtin_sqrt(new_a);
    }
}

void psd_adagrad_apply(ps_dtype dtype, const struct psd_optim_scalars *scalars, void *var, void *const slots[PSD_OPTIM_SLOTS_MAX],
                       const void *grad, size_t elements)
{
    if (dtype == PS_F32) {
        adagrad_f32(var, slots[0], grad, elements, (float)scalars->rate, (float)scalars->scale);
    } else if (dtype == PS_F64) {
        adagrad_f64(var, slots[0], grad, elements, scalars->rate, scalars->scale);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Momentum: a = a * momentum + g ; v -= a * rate. Nesterov: v -= g * rate + a * momentum * rate, with the new a.
 * Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyMomentum; Sutskever et al. 2013 for Nesterov's form.
 * Works on one segment; dtypes other than f32 and f64 change nothing. Cannot fail.
 */
#include "kernels.h"

#include "common/clones.h"

PSI_CLONES
static void momentum_f32(float *restrict v, float *restrict a, const float *restrict grad, size_t n, float rate, float momentum,
                         float scale)
{
    for (size_t i = 0; i < n; i++) {
        float new_a = a[i] * momentum + grad[i] * scale;
        a[i] = new_a;
        v[i] -= new_a * rate;
    }
}

PSI_CLONES
static void nesterov_f32(float *restrict v, float *restrict a, const float *restrict grad, size_t n, float rate, float momentum,
                         float scale)
{
    for (size_t i = 0; i < n; i++) {
        float g = grad[i] * scale;
        float new_a = a[i] * momentum + g;
        a[i] = new_a;
        v[i] -= g * rate + new_a * momentum * rate;
    }
}

PSI_CLONES
static void momentum_f64(double *restrict v, double *restrict a, const double *restrict grad, size_t n, double rate,
                         double momentum, double scale)
{
    for (size_t i = 0; i < n; i++) {
        double new_a = a[i] * momentum + grad[i] * scale;
        a[i] = new_a;
        v[i] -= new_a * rate;
    }
}

PSI_CLONES
static void nesterov_f64(double *restrict v, double *restrict a, const double *restrict grad, size_t n, double rate,
                         double momentum, double scale)
{
    for (size_t i = 0; i < n; i++) {
        double g = grad[i] * scale;
        double new_a = a[i] * momentum + g;
        a[i] = new_a;
        v[i] -= g * rate + new_a * momentum * rate;
    }
}

void psd_momentum_apply(ps_dtype dtype, const struct psd_optim_scalars *scalars, void *var,
                        void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements)
{
    const struct psd_optim_scalars *s = scalars;
    if (dtype == PS_F32 && s->nesterov == 0) {
        momentum_f32(var, slots[0], grad, elements, (float)s->rate, (float)s->momentum, (float)s->scale);
    } else if (dtype == PS_F32) {
        nesterov_f32(var, slots[0], grad, elements, (float)s->rate, (float)s->momentum, (float)s->scale);
    } else if (dtype == PS_F64 && s->nesterov == 0) {
        momentum_f64(var, slots[0], grad, elements, s->rate, s->momentum, s->scale);
    } else if (dtype == PS_F64) {
        nesterov_f64(var, slots[0], grad, elements, s->rate, s->momentum, s->scale);
    }
}

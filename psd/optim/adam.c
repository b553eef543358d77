/* SPDX-License-Identifier: Apache-2.0 */
/* Adam: m += (g - m)(1 - beta1) ; s += (g^2 - s)(1 - beta2) ; v -= m * alpha / (sqrt(s) + epsilon),
 * alpha = rate * sqrt(1 - beta2^t) / (1 - beta1^t), captured once per push ("epsilon-hat" of Kingma and Ba 2014, section 2).
 * Slot "m" is m and a below, slot "v" is s and b (v is the variable).
 * Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyAdam. */
#include "kernels.h"

PSD_RULE(adam, 2, {
    const real new_a = a[i] + (g - a[i]) * rest1;
    const real new_b = b[i] + (g * g - b[i]) * rest2;
    a[i] = new_a;
    b[i] = new_b;
    v[i] -= new_a * alpha / (PSD_ROOT(new_b) + epsilon);
})

void psd_optim_derive_adam(const struct psd_optim_push *push, struct psd_optim_scalars *s)
{
    const double *powers = push->state->powers;
    if (push->dtype == PS_F32) {
        s->alpha = (double)((float)s->rate * __builtin_sqrtf(1.0f - (float)powers[1]) / (1.0f - (float)powers[0]));
    } else {
        s->alpha = s->rate * __builtin_sqrt(1.0 - powers[1]) / (1.0 - powers[0]);
    }
}

const struct psd_optim_rule psd_rule_adam = {.loops = {PSD_LOOPS_OF(adam), PSD_LOOPS_OF(adam)}, .derive = psd_optim_derive_adam};

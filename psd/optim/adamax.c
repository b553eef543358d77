/* SPDX-License-Identifier: Apache-2.0 */
/* Adamax: a += (g - a)(1 - beta1) ; b = max(b * beta2, |g|) ; v -= alpha * (a / (b + epsilon)), alpha = rate / (1 - beta1^t).
 * Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyAdaMax; Kingma and Ba 2014, section 7.1. */
#include "kernels.h"

PSD_RULE(adamax, 2, {
    const real new_a = a[i] + (g - a[i]) * rest1;
    const real size = PSD_SIZE(g);
    const real old_b = beta2 * b[i];
    const real new_b = size > old_b ? size : old_b;
    a[i] = new_a;
    b[i] = new_b;
    v[i] -= alpha * (new_a / (new_b + epsilon));
})

static void derive(const struct psd_optim_push *push, struct psd_optim_scalars *s)
{
    const double power = push->state->powers[0];
    s->alpha = push->dtype == PS_F32 ? (double)((float)s->rate / (1.0f - (float)power)) : s->rate / (1.0 - power);
}

const struct psd_optim_rule psd_rule_adamax = {.loops = {PSD_LOOPS_OF(adamax), PSD_LOOPS_OF(adamax)}, .derive = derive};

/* SPDX-License-Identifier: Apache-2.0 */
/* PowerSign: a = a * beta + g * (1 - beta) ; v -= rate * base^(sign(g) * sign(a)) * g, with the new a. So the last factor is
 * base, 1 or 1 / base. beta is field beta1, base is field power. TensorFlow's sign_decay_fn is not implemented (factor 1).
 * Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyPowerSign; Bello et al. 2017. */
#include "kernels.h"

PSD_RULE(powersign, 1, {
    const real new_a = a[i] * beta1 + g * rest1;
    const real both = PSD_SIGN(g) * PSD_SIGN(new_a);
    a[i] = new_a;
    v[i] -= rate * (both > 0 ? power : both < 0 ? correction : 1) * g;
})

static void derive(const struct psd_optim_push *push, struct psd_optim_scalars *s)
{
    s->correction = psd_optim_rounded(push->dtype, 1 / push->opt->power);
}

const struct psd_optim_rule psd_rule_powersign = {.loops = {PSD_LOOPS_OF(powersign), PSD_LOOPS_OF(powersign)}, .derive = derive};

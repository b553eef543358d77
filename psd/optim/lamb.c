/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LAMB: m = m * beta1 + g (1 - beta1) ; s = s * beta2 + g^2 (1 - beta2) ;
 * u = m / (1 - beta1^t) / (sqrt(s / (1 - beta2^t)) + epsilon) + weight_decay * v ; v -= rate * |v| / |u| * u,
 * |x| the norm of all elements; where one of the two is 0, the step is rate * u. 1 - beta and the powers are computed as float64.
 * Slot "m" is m and a below, slot "v" is s and b.
 * Source: TensorFlow Addons 0.23 optimizers/lamb.py; You et al. 2019, algorithm 2.
 * The first pass makes a, b and u, the last one moves v. Cannot fail.
 */
#include "kernels.h"

/* alpha is 1 / (1 - beta1^t), correction is 1 / (1 - beta2^t) */
PSD_STEP(lamb_step, 2, {
    const real new_a = a[i] * beta1 + g * share1;
    const real new_b = b[i] * beta2 + g * g * share2;
    a[i] = new_a;
    b[i] = new_b;
    u[i] = new_a * alpha / (PSD_ROOT(new_b * correction) + epsilon) + weight_decay * v[i];
})
/* g is u, alpha is rate * |v| / |u| */
PSD_RULE(lamb, 0, { v[i] -= alpha * g; })

static void derive(const struct psd_optim_push *push, struct psd_optim_scalars *s)
{
    const double *powers = push->state->powers;
    psd_optim_derive_shares(push, s);
    s->alpha = psd_optim_rounded(push->dtype, 1 / (1 - powers[0]));
    s->correction = psd_optim_rounded(push->dtype, 1 / (1 - powers[1]));
}

static double ratio(const struct psd_optim_scalars *s, double value, double step)
{
    (void)s;
    return value / step;
}

const struct psd_optim_rule psd_rule_lamb = {
    .loops = {PSD_LOOPS_OF(lamb), PSD_LOOPS_OF(lamb)}, .derive = derive, .step = PSD_STEPS_OF(lamb_step), .ratio = ratio};

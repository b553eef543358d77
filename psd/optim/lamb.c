/* SPDX-License-Identifier: Apache-2.0 */
/* LAMB: m = m * beta1 + g (1 - beta1) ; s = s * beta2 + g^2 (1 - beta2) ;
 * u = m / (1 - beta1^t) / (sqrt(s / (1 - beta2^t)) + epsilon) + weight_decay * v ; v -= rate * |v| / |u| * u,
 * |x| is the norm of all elements of x; if |v| or |u| is 0, v -= rate * u. 1 - beta and the powers are computed as float64.
 * Names: m of the formula is slot "m" and a in the code; s is slot "v" and b; v is the variable's value.
 * Source: TensorFlow Addons 0.23 optimizers/lamb.py; You et al. 2019, algorithm 2.
 * Two passes: the first computes a, b, u and the norms; the last moves v, either with the stored u (lamb) or with u computed
 * again from a and b (lamb_again). */
#include "kernels.h"

/* alpha is 1 / (1 - beta1^t), correction is 1 / (1 - beta2^t) */
PSD_STEP(lamb_step, 2, {
    const real new_a = a[i] * beta1 + g * share1;
    const real new_b = b[i] * beta2 + g * g * share2;
    a[i] = new_a;
    b[i] = new_b;
    u[i] = new_a * alpha / (PSD_ROOT(new_b * correction) + epsilon) + weight_decay * v[i];
})
/* The last pass: rate is already multiplied by |v| / |u|; the other scalars are those of the first pass. In lamb, g is the stored
 * u; lamb_again does not use g. */
PSD_RULE(lamb, 0, { v[i] -= rate * g; })
PSD_RULE(lamb_again, 2, {
    (void)g;
    v[i] -= rate * (a[i] * alpha / (PSD_ROOT(b[i] * correction) + epsilon) + weight_decay * v[i]);
})

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
    .loops = {PSD_LOOPS_OF(lamb), PSD_LOOPS_OF(lamb_again)}, .derive = derive, .step = PSD_STEPS_OF(lamb_step), .ratio = ratio};

/* SPDX-License-Identifier: Apache-2.0 */
/* LARS: k = rate * eeta * |v| / (|g| + weight_decay * |v| + epsilon) ; a = a * momentum + (g + weight_decay * v) * k ; v -= a.
 * |x| is the norm of all elements of x. If |v| or |g| is 0, k = rate. eeta is field power. Nesterov's form is not implemented.
 * Source: TensorFlow 1.15 contrib/opt/python/training/lars_optimizer.py; You et al. 2017. The first pass computes the norms. */
#include "kernels.h"

PSD_STEP(lars_step, 0, { u[i] = g; })
/* rate is k */
PSD_RULE(lars, 1, {
    const real new_a = a[i] * momentum + (g + weight_decay * v[i]) * rate;
    a[i] = new_a;
    v[i] -= new_a;
})

static double ratio(const struct psd_optim_scalars *s, double value, double step)
{
    return s->power * value / (step + s->weight_decay * value + s->epsilon);
}

const struct psd_optim_rule psd_rule_lars = {
    .loops = {PSD_LOOPS_OF(lars), PSD_LOOPS_OF(lars)}, .step = PSD_STEPS_OF(lars_step), .ratio = ratio};

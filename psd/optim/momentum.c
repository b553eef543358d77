/* SPDX-License-Identifier: Apache-2.0 */
/* Momentum: a = a * momentum + g ; v -= a * rate. Nesterov: v -= g * rate + a * momentum * rate, with the new a.
 * Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyMomentum; Sutskever et al. 2013 for Nesterov's form. */
#include "kernels.h"

PSD_RULE(momentum, 1, {
    const real new_a = a[i] * momentum + g;
    a[i] = new_a;
    v[i] -= new_a * rate;
})
PSD_RULE(nesterov, 1, {
    const real new_a = a[i] * momentum + g;
    a[i] = new_a;
    v[i] -= g * rate + new_a * momentum * rate;
})

const struct psd_optim_rule psd_rule_momentum = {.loops = {PSD_LOOPS_OF(momentum), PSD_LOOPS_OF(nesterov)}};

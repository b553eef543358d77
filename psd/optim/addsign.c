/* SPDX-License-Identifier: Apache-2.0 */
/* AddSign: a = a * beta + g * (1 - beta) ; v -= rate * (alpha + sign(g) * sign(a)) * g, with the new a.
 * beta is field beta1, alpha is field power. TensorFlow's sign_decay_fn is not implemented: its factor is 1.
 * Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyAddSign; Bello et al. 2017. */
#include "kernels.h"

PSD_RULE(addsign, 1, {
    const real new_a = a[i] * beta1 + g * rest1;
    a[i] = new_a;
    v[i] -= rate * (power + PSD_SIGN(g) * PSD_SIGN(new_a)) * g;
})

const struct psd_optim_rule psd_rule_addsign = {.loops = {PSD_LOOPS_OF(addsign), PSD_LOOPS_OF(addsign)}};

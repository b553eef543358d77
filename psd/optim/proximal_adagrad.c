/* SPDX-License-Identifier: Apache-2.0 */
/* Proximal Adagrad: a += g^2 ; e = rate / sqrt(a) ; w = v - g * e ; v = sign(w) * max(|w| - e * l1, 0) / (1 + l2 * e), l1 =
 * l1_strength, l2 = l2_strength.
 * Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyProximalAdagrad, which multiplies by an approximate 1/sqrt. */
#include "kernels.h"

PSD_RULE(proximal_adagrad, 1, {
    const real new_a = a[i] + g * g;
    const real e = rate / PSD_ROOT(new_a);
    const real w = v[i] - g * e;
    const real over = PSD_SIZE(w) - e * l1_strength;
    a[i] = new_a;
    v[i] = PSD_SIGNED(over < 0 ? 0 : over, w) / (1 + l2_strength * e);
})

const struct psd_optim_rule psd_rule_proximal_adagrad = {
    .loops = {PSD_LOOPS_OF(proximal_adagrad), PSD_LOOPS_OF(proximal_adagrad)}};

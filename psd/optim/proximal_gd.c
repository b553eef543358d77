/* SPDX-License-Identifier: Apache-2.0 */
/* Proximal gradient descent: w = v - g * rate ; v = sign(w) * max(|w| - rate * l1, 0) / (1 + l2 * rate), l1 = l1_strength,
 * l2 = l2_strength. Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyProximalGradientDescent; Duchi and Singer 2009. */
#include "kernels.h"

PSD_RULE(proximal_gd, 0, {
    const real w = v[i] - g * rate;
    const real over = PSD_SIZE(w) - rate * l1_strength;
    v[i] = PSD_SIGNED(over < 0 ? 0 : over, w) / (1 + l2_strength * rate);
})

const struct psd_optim_rule psd_rule_proximal_gd = {.loops = {PSD_LOOPS_OF(proximal_gd), PSD_LOOPS_OF(proximal_gd)}};

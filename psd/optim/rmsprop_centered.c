/* SPDX-License-Identifier: Apache-2.0 */
/* Centered RMSProp: a += (g^2 - a)(1 - decay) ; b += (g - b)(1 - decay) ;
 * c = c * momentum + g * rate / sqrt(a - b^2 + epsilon) ; v -= c.
 * Slot "rms" is a, slot "mean" is b, slot "momentum" is c; decay is field beta2.
 * Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyCenteredRMSProp; Graves 2013, section 4.2. */
#include "kernels.h"

PSD_RULE(rmsprop_centered, 3, {
    const real new_a = a[i] + (g * g - a[i]) * rest2;
    const real new_b = b[i] + (g - b[i]) * rest2;
    const real new_c = c[i] * momentum + g * rate / PSD_ROOT(new_a - new_b * new_b + epsilon);
    a[i] = new_a;
    b[i] = new_b;
    c[i] = new_c;
    v[i] -= new_c;
})

const struct psd_optim_rule psd_rule_rmsprop_centered = {
    .loops = {PSD_LOOPS_OF(rmsprop_centered), PSD_LOOPS_OF(rmsprop_centered)}};

/* SPDX-License-Identifier: Apache-2.0 */
/* RMSProp: a += (g^2 - a)(1 - decay) ; b = b * momentum + g * rate / sqrt(a + epsilon) ; v -= b.
 * Slot "rms" is a, slot "momentum" is b; decay is field beta2.
 * Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyRMSProp; Hinton's lecture 6 of 2012, with momentum. */
#include "kernels.h"

PSD_RULE(rmsprop, 2, {
    const real new_a = a[i] + (g * g - a[i]) * rest2;
    const real new_b = b[i] * momentum + g * rate / PSD_ROOT(new_a + epsilon);
    a[i] = new_a;
    b[i] = new_b;
    v[i] -= new_b;
})

const struct psd_optim_rule psd_rule_rmsprop = {.loops = {PSD_LOOPS_OF(rmsprop), PSD_LOOPS_OF(rmsprop)}};

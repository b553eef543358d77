/* SPDX-License-Identifier: Apache-2.0 */
/* AMSGrad: Adam (adam.c), but the divisor is the root of the largest mean of squares so far:
 * a += (g - a)(1 - beta1) ; b += (g^2 - b)(1 - beta2) ; c = max(c, b) ; v -= a * alpha / (sqrt(c) + epsilon).
 * Source: TensorFlow core/kernels/training_ops.cc, ApplyAdamWithAmsgrad (Keras' Adam with amsgrad); Reddi et al. 2018. */
#include "kernels.h"

PSD_RULE(amsgrad, 3, {
    const real new_a = a[i] + (g - a[i]) * rest1;
    const real new_b = b[i] + (g * g - b[i]) * rest2;
    const real new_c = new_b > c[i] ? new_b : c[i];
    a[i] = new_a;
    b[i] = new_b;
    c[i] = new_c;
    v[i] -= new_a * alpha / (PSD_ROOT(new_c) + epsilon);
})

const struct psd_optim_rule psd_rule_amsgrad = {.loops = {PSD_LOOPS_OF(amsgrad), PSD_LOOPS_OF(amsgrad)},
                                                .derive = psd_optim_derive_adam};

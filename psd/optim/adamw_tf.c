/* SPDX-License-Identifier: Apache-2.0 */
/* AdamW by TensorFlow: v -= v * weight_decay, then Adam (adam.c). The decay is not multiplied by the rate.
 * Source: TensorFlow 1.15 contrib/opt/python/training/weight_decay_optimizers.py, AdamWOptimizer; Loshchilov and Hutter 2017. */
#include "kernels.h"

PSD_RULE(adamw_tf, 2, {
    const real new_a = a[i] + (g - a[i]) * rest1;
    const real new_b = b[i] + (g * g - b[i]) * rest2;
    a[i] = new_a;
    b[i] = new_b;
    v[i] = v[i] - v[i] * weight_decay - new_a * alpha / (PSD_ROOT(new_b) + epsilon);
})

const struct psd_optim_rule psd_rule_adamw_tf = {.loops = {PSD_LOOPS_OF(adamw_tf), PSD_LOOPS_OF(adamw_tf)},
                                                 .derive = psd_optim_derive_adam};

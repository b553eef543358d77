/* SPDX-License-Identifier: Apache-2.0 */
/* NAdam: Adam (adam.c) with Nesterov's look ahead: v -= (g * (1 - beta1) + a * beta1) * alpha / (sqrt(b) + epsilon), with the new
 * a and b.
 * Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyAdam with use_nesterov (contrib/opt, NadamOptimizer); Dozat 2016.
 * PyTorch's NAdam and Keras' Nadam have a schedule of their own for beta1. */
#include "kernels.h"

PSD_RULE(nadam, 2, {
    const real new_a = a[i] + (g - a[i]) * rest1;
    const real new_b = b[i] + (g * g - b[i]) * rest2;
    a[i] = new_a;
    b[i] = new_b;
    v[i] -= (g * rest1 + beta1 * new_a) * alpha / (PSD_ROOT(new_b) + epsilon);
})

const struct psd_optim_rule psd_rule_nadam = {.loops = {PSD_LOOPS_OF(nadam), PSD_LOOPS_OF(nadam)},
                                              .derive = psd_optim_derive_adam};

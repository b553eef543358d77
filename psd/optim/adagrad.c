/* SPDX-License-Identifier: Apache-2.0 */
/* Adagrad: a += g^2 ; v -= g * rate / sqrt(a). No epsilon: the accumulator starts above 0.
 * Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyAdagrad; Duchi et al. 2011, algorithm 1 (diagonal). TensorFlow
 * multiplies by an approximate 1/sqrt(a); we divide by the correctly rounded root (tests/parity states the distance). */
#include "kernels.h"

PSD_RULE(adagrad, 1, {
    const real new_a = a[i] + g * g;
    a[i] = new_a;
    v[i] -= g * rate / PSD_ROOT(new_a);
})

const struct psd_optim_rule psd_rule_adagrad = {.loops = {PSD_LOOPS_OF(adagrad), PSD_LOOPS_OF(adagrad)}};

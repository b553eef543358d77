/* SPDX-License-Identifier: Apache-2.0 */
/* Adadelta: a = a * rho + g^2 * (1 - rho) ; u = sqrt(b + epsilon) / sqrt(a + epsilon) * g ; v -= u * rate ;
 * b = b * rho + u^2 * (1 - rho). Slot "accumulator" is a, slot "update" is b; rho is field beta2.
 * Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyAdadelta, which multiplies by an approximate 1/sqrt; Zeiler 2012. */
#include "kernels.h"

PSD_RULE(adadelta, 2, {
    const real new_a = a[i] * beta2 + g * g * rest2;
    const real u = PSD_ROOT(b[i] + epsilon) / PSD_ROOT(new_a + epsilon) * g;
    a[i] = new_a;
    v[i] -= u * rate;
    b[i] = b[i] * beta2 + u * u * rest2;
})

const struct psd_optim_rule psd_rule_adadelta = {.loops = {PSD_LOOPS_OF(adadelta), PSD_LOOPS_OF(adadelta)}};

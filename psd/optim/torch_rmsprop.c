/* SPDX-License-Identifier: Apache-2.0 */
/* RMSProp by PyTorch: a = a * alpha + (1 - alpha) * g^2 ; u = g / (sqrt(a) + epsilon) ; b = b * momentum + u ; v -= b * rate.
 * Centered: b += (g - b)(1 - alpha) ; u = g / (sqrt(a - b^2) + epsilon) ; c = c * momentum + u ; v -= c * rate.
 * TensorFlow's form has epsilon under the root, begins with a = 1, and has the rate in the momentum. alpha is field beta2;
 * 1 - alpha is computed as float64.
 * Source: PyTorch torch/optim/rmsprop.py, _single_tensor_rmsprop. */
#include "kernels.h"

PSD_RULE(torch_rmsprop, 2, {
    const real new_a = a[i] * beta2 + share2 * g * g;
    const real new_b = b[i] * momentum + g / (PSD_ROOT(new_a) + epsilon);
    a[i] = new_a;
    b[i] = new_b;
    v[i] -= new_b * rate;
})
PSD_RULE(torch_rmsprop_centered, 3, {
    const real new_a = a[i] * beta2 + share2 * g * g;
    const real new_b = b[i] + (g - b[i]) * share2;
    const real new_c = c[i] * momentum + g / (PSD_ROOT(new_a - new_b * new_b) + epsilon);
    a[i] = new_a;
    b[i] = new_b;
    c[i] = new_c;
    v[i] -= new_c * rate;
})

const struct psd_optim_rule psd_rule_torch_rmsprop = {.loops = {PSD_LOOPS_OF(torch_rmsprop), PSD_LOOPS_OF(torch_rmsprop)},
                                                      .derive = psd_optim_derive_shares};
const struct psd_optim_rule psd_rule_torch_rmsprop_centered = {
    .loops = {PSD_LOOPS_OF(torch_rmsprop_centered), PSD_LOOPS_OF(torch_rmsprop_centered)}, .derive = psd_optim_derive_shares};

/* SPDX-License-Identifier: Apache-2.0 */
/* AdagradV2, and PyTorch's Adagrad: a += g^2 ; v -= g * rate / (sqrt(a) + epsilon). The two differ in the first value of a, which
 * is 0 in PyTorch, and in epsilon. Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyAdagradV2; PyTorch
 * torch/optim/adagrad.py, with lr_decay as schedule. */
#include "kernels.h"

PSD_RULE(adagrad_v2, 1, {
    const real new_a = a[i] + g * g;
    a[i] = new_a;
    v[i] -= g * rate / (PSD_ROOT(new_a) + epsilon);
})

const struct psd_optim_rule psd_rule_adagrad_v2 = {.loops = {PSD_LOOPS_OF(adagrad_v2), PSD_LOOPS_OF(adagrad_v2)}};
const struct psd_optim_rule psd_rule_torch_adagrad = {.loops = {PSD_LOOPS_OF(adagrad_v2), PSD_LOOPS_OF(adagrad_v2)}};

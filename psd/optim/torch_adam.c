/* SPDX-License-Identifier: Apache-2.0 */
/* Adam and AdamW by PyTorch: v *= 1 - rate * weight_decay (AdamW) ; a += (g - a)(1 - beta1) ; b = b * beta2 + (1 - beta2) * g^2 ;
 * v -= alpha * a / (sqrt(b) / correction + epsilon), alpha = rate / (1 - beta1^t), correction = sqrt(1 - beta2^t). TensorFlow's
 * form (adam.c) adds epsilon to the root without the correction. 1 - beta and the powers are computed as float64.
 * Source: PyTorch torch/optim/adam.py and adamw.py, _single_tensor_adam; Loshchilov and Hutter 2017. */
#include "kernels.h"

#define ADAM                                                                                                                     \
    const real new_a = a[i] + (g - a[i]) * share1;                                                                               \
    const real new_b = b[i] * beta2 + share2 * g * g;                                                                            \
    const real step = alpha * new_a / (PSD_ROOT(new_b) / correction + epsilon);                                                  \
    a[i] = new_a;                                                                                                                \
    b[i] = new_b;

PSD_RULE(torch_adam, 2, { ADAM v[i] -= step; })
PSD_RULE(adamw, 2, { ADAM v[i] = v[i] * weight_decay - step; })

void psd_optim_derive_torch_adam(const struct psd_optim_push *push, struct psd_optim_scalars *s)
{
    const double *powers = push->state->powers;
    psd_optim_derive_shares(push, s);
    s->alpha = psd_optim_rounded(push->dtype, push->rate / (1 - powers[0]));
    s->correction = psd_optim_rounded(push->dtype, __builtin_sqrt(1 - powers[1]));
    s->weight_decay = psd_optim_rounded(push->dtype, 1 - push->rate * push->opt->weight_decay);
}

const struct psd_optim_rule psd_rule_torch_adam = {.loops = {PSD_LOOPS_OF(torch_adam), PSD_LOOPS_OF(torch_adam)},
                                                   .derive = psd_optim_derive_torch_adam};
const struct psd_optim_rule psd_rule_adamw = {.loops = {PSD_LOOPS_OF(adamw), PSD_LOOPS_OF(adamw)},
                                              .derive = psd_optim_derive_torch_adam};

/* SPDX-License-Identifier: Apache-2.0 */
/* Lion: v -= rate * (sign(a * beta1 + g * (1 - beta1)) + weight_decay * v) ; a = a * beta2 + g * (1 - beta2).
 * Source: Chen et al. 2023, algorithm 2, and its authors' code, which computes 1 - beta as float64. */
#include "kernels.h"

PSD_RULE(lion, 1, {
    const real ahead = a[i] * beta1 + g * share1;
    v[i] -= rate * (PSD_SIGN(ahead) + weight_decay * v[i]);
    a[i] = a[i] * beta2 + g * share2;
})

const struct psd_optim_rule psd_rule_lion = {.loops = {PSD_LOOPS_OF(lion), PSD_LOOPS_OF(lion)},
                                             .derive = psd_optim_derive_shares};

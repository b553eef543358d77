/* SPDX-License-Identifier: Apache-2.0 */
/* Scalars that several optimizers compute from their hyperparameters when a push begins (psd_optim_scalars). Cannot fail. */
#include "kernels.h"

/* Not inlined: gcc 12.2 can vectorise two roundings to float, and then drops both. tests/parity catches this wrong code. */
__attribute__((noinline)) double psd_optim_rounded(ps_dtype dtype, double value)
{
    return dtype == PS_F32 ? (double)(float)value : value;
}

void psd_optim_derive_shares(const struct psd_optim_push *push, struct psd_optim_scalars *s)
{
    s->share1 = psd_optim_rounded(push->dtype, 1 - push->opt->beta1);
    s->share2 = psd_optim_rounded(push->dtype, 1 - push->opt->beta2);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What several rules need when a push captures its scalars. Cannot fail. */
#include "kernels.h"

/* Not inlined: when gcc 12.2 at -O2 and above vectorises two neighbouring conversions double -> float -> double, it drops both
 * (wrong code; tests/parity catches it). */
__attribute__((noinline)) double psd_optim_rounded(ps_dtype dtype, double value)
{
    return dtype == PS_F32 ? (double)(float)value : value;
}

void psd_optim_derive_shares(const struct psd_optim_push *push, struct psd_optim_scalars *s)
{
    s->share1 = psd_optim_rounded(push->dtype, 1 - push->opt->beta1);
    s->share2 = psd_optim_rounded(push->dtype, 1 - push->opt->beta2);
}

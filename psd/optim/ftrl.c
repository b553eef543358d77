/* SPDX-License-Identifier: Apache-2.0 */
/* FTRL: n = a + g^2 ; b += g + 2 * l2_shrinkage * v - (n^-p - a^-p) / rate * v ; a = n ;
 * v = |b| > l1 ? (sign(b) * l1 - b) / (n^-p / rate + 2 * l2) : 0; l1 = l1_strength, l2 = l2_strength, p = power (-0.5: roots).
 * Slot "accumulator" is a, slot "linear" is b.
 * Source: TensorFlow 1.15 core/kernels/training_ops.cc, ApplyFtrlV2; McMahan et al. 2013, algorithm 1. Powers other than -0.5
 * are computed element by element by the C library (psd_optim_scalars.form 1). */
#include "kernels.h"

#define FTRL(raised)                                                                                                             \
    {                                                                                                                            \
        const real new_a = a[i] + g * g;                                                                                         \
        const real new_p = raised(new_a);                                                                                        \
        const real new_b = b[i] + (g + 2 * l2_shrinkage * v[i]) - (new_p - raised(a[i])) / rate * v[i];                          \
        const real step = (PSD_SIGNED(l1_strength, new_b) - new_b) / (new_p / rate + 2 * l2_strength);                           \
        a[i] = new_a;                                                                                                            \
        b[i] = new_b;                                                                                                            \
        v[i] = PSD_SIZE(new_b) <= l1_strength ? 0 : step;                                                                        \
    }
#define RAISED(x) PSD_POWER(x, -power)

PSD_RULE(ftrl, 2, FTRL(PSD_ROOT))
PSD_RULE(ftrl_power, 2, FTRL(RAISED))

static void derive(const struct psd_optim_push *push, struct psd_optim_scalars *s)
{
    (void)push;
    s->form = s->power != -0.5;
}

const struct psd_optim_rule psd_rule_ftrl = {.loops = {PSD_LOOPS_OF(ftrl), PSD_LOOPS_OF(ftrl_power)}, .derive = derive};

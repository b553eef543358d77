/* SPDX-License-Identifier: Apache-2.0 */
/* AdagradDA: a += g ; b += g^2 ; v = -rate * sign(a) * max(|a| - l1 * t, 0) / (l2 * t * rate + sqrt(b)), l1 = l1_strength, l2 =
 * l2_strength, t = 1 + pushes to the variable before this one. The new value does not depend on the old one. Source: TensorFlow
 * 1.15 core/kernels/training_ops.cc, ApplyAdagradDA, with 1 + global step for t; Duchi et al. 2011. */
#include "kernels.h"

/* derive() has already multiplied l1_strength and l2_strength by t */
PSD_RULE(adagrad_da, 2, {
    const real new_a = a[i] + g;
    const real new_b = b[i] + g * g;
    const real over = PSD_SIZE(new_a) - l1_strength;
    a[i] = new_a;
    b[i] = new_b;
    v[i] = -rate * PSD_SIGNED(over < 0 ? 0 : over, new_a) / (l2_strength * rate + PSD_ROOT(new_b));
})

static void derive(const struct psd_optim_push *push, struct psd_optim_scalars *s)
{
    const double t = 1 + (double)push->pushes;
    s->l1_strength = psd_optim_rounded(push->dtype, s->l1_strength * t);
    s->l2_strength = psd_optim_rounded(push->dtype, s->l2_strength * t);
}

const struct psd_optim_rule psd_rule_adagrad_da = {.loops = {PSD_LOOPS_OF(adagrad_da), PSD_LOOPS_OF(adagrad_da)},
                                                   .derive = derive};

/* SPDX-License-Identifier: Apache-2.0 */
/* Rules whose steps depend on norms of the whole variable need two passes over its elements. The first, psd_optim_measure(),
 * computes the step u of each element, and sums up v^2 and u^2 in float64. psd_optim_scale() computes one factor for all steps
 * from both sums. The last pass, psd_optim_apply(), uses the stored steps u or, after psd_optim_last_pass(), computes u again.
 *
 * The sums have the same bits on every CPU: each block of PIECE_ELEMENTS is summed, and the blocks' sums are added in order. So
 * a variable may be measured in several calls; each but the last call has whole blocks. Cannot fail. */
#include "kernels.h"

#include <string.h>

enum { PIECE_ELEMENTS = PSD_OPTIM_PIECE_ELEMENTS };

void psd_optim_measure(uint32_t kind, ps_dtype dtype, const struct psd_optim_scalars *scalars, const void *var,
                       void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, void *step, size_t elements,
                       struct psd_optim_norms *norms)
{
    _Alignas(64) double made[PIECE_ELEMENTS], steps[PIECE_ELEMENTS];
    const struct psd_optim_rule *rule = psd_optim_rule_of(kind);
    const int loop = dtype == PS_F64 ? PSD_LOOP_F64 : PSD_LOOP_F32;
    const bool plain = !(scalars->clip_value > 0) && !(scalars->l2 > 0);
    const size_t width = ps_dtype_bytes(dtype);
    struct psd_optim_scalars inside = *scalars;
    void *at[PSD_OPTIM_SLOTS_MAX] = {NULL};
    inside.scale = plain ? scalars->scale : 1; /* psd_optim_gradient() multiplies by the scale */
    for (size_t first = 0; first < elements; first += PIECE_ELEMENTS) {
        const size_t left = elements - first, n = left < PIECE_ELEMENTS ? left : PIECE_ELEMENTS;
        const uint8_t *v = (const uint8_t *)var + first * width;
        const void *g = (const uint8_t *)grad + first * width;
        if (!plain) {
            psd_optim_gradient(loop, made, g, v, n, scalars);
            g = made;
        }
        for (uint32_t k = 0; k < PSD_OPTIM_SLOTS_MAX; k++) {
            at[k] = slots[k] == NULL ? NULL : (uint8_t *)slots[k] + first * width;
        }
        rule->step[dtype == PS_F64](v, at, g, steps, n, &inside, norms);
        if (step != NULL) {
            memcpy((uint8_t *)step + first * width, steps, n * width); /* step may be grad */
        }
    }
}

/* The factor of all steps in the last pass, rounded to dtype: the rate times the rule's ratio() of both norms, or the rate alone
 * if a norm is 0. `norms` has the squares of the norms. */
static double factor_of(uint32_t kind, ps_dtype dtype, const struct psd_optim_norms *norms, const struct psd_optim_scalars *s)
{
    const double value = __builtin_sqrt(norms->value), step = __builtin_sqrt(norms->step);
    const double ratio = value > 0 && step > 0 ? psd_optim_rule_of(kind)->ratio(s, value, step) : 1;
    return psd_optim_rounded(dtype, s->rate * psd_optim_rounded(dtype, ratio));
}

void psd_optim_scale(uint32_t kind, ps_dtype dtype, const struct psd_optim_norms *norms, struct psd_optim_scalars *scalars)
{
    scalars->rate = factor_of(kind, dtype, norms, scalars);
    scalars->scale = 1; /* the first pass has applied scale, clip_value and l2 to the gradient */
    scalars->clip_value = 0;
    scalars->l2 = 0;
}

void psd_optim_measure_segment(uint32_t kind, ps_dtype dtype, struct psd_optim_scalars *scalars, const void *var,
                               void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements)
{
    struct psd_optim_norms norms = {.value = scalars->value_squares, .step = scalars->step_squares};
    psd_optim_measure(kind, dtype, scalars, var, slots, grad, NULL, elements, &norms);
    scalars->value_squares = norms.value;
    scalars->step_squares = norms.step;
}

void psd_optim_last_pass(uint32_t kind, ps_dtype dtype, struct psd_optim_scalars *scalars)
{
    const struct psd_optim_norms norms = {.value = scalars->value_squares, .step = scalars->step_squares};
    struct psd_optim_scalars last = *scalars;
    psd_optim_scale(kind, dtype, &norms, &last);
    last.form = 1;
    /* a staged kind's last pass gets the gradient as the client sent it, so that pass must apply these three itself */
    if (psi_optimizer_is_staged(kind)) {
        last.scale = scalars->scale;
        last.clip_value = scalars->clip_value;
        last.l2 = scalars->l2;
    }
    *scalars = last;
}

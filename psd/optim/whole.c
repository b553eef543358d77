/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules whose steps depend on norms of the whole variable: two passes over its elements. The first one, psd_optim_measure(),
 * makes the step u of each element and adds up v^2 and u^2 as float64. psd_optim_scale() makes of both sums the factor of all
 * steps. The last pass is psd_optim_apply().
 *
 * The sums have the same bits on every CPU, in whatever pieces a variable is measured: a sum is one of whole PIECE_ELEMENTS,
 * added up in their order. Cannot fail.
 */
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
    inside.scale = plain ? scalars->scale : 1; /* a gradient that is made has it */
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
        memcpy((uint8_t *)step + first * width, steps, n * width); /* step may be grad */
    }
}

void psd_optim_scale(uint32_t kind, ps_dtype dtype, const struct psd_optim_norms *norms, struct psd_optim_scalars *scalars)
{
    const double value = __builtin_sqrt(norms->value), step = __builtin_sqrt(norms->step);
    const double ratio = value > 0 && step > 0 ? psd_optim_rule_of(kind)->ratio(scalars, value, step) : 1;
    scalars->alpha = psd_optim_rounded(dtype, scalars->rate * psd_optim_rounded(dtype, ratio));
    scalars->scale = 1;
    scalars->clip_value = 0;
    scalars->l2 = 0;
}

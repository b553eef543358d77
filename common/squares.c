/* SPDX-License-Identifier: Apache-2.0 */
/* factor = min(1, max_norm / sqrt(sum of x_i^2)). Source: TensorFlow 1.15 python/ops/clip_ops.py clip_by_norm,
 * clip_by_global_norm. There a norm that is not finite makes all gradients NaN; here it changes nothing. Squares and their sum
 * are float64, compiled without contraction, so that all CPUs have the same bits. Cannot fail. */
#include "squares.h"

#include "clones.h"

#include <float.h>
#include <math.h>

enum { LANES = PSI_SQUARES_LANES };

#define ADD(name, type)                                                                                                          \
    PSI_CLONES                                                                                                                   \
    static void lines_##name(double *restrict lanes, const type *restrict x, uint64_t lines)                                     \
    {                                                                                                                            \
        for (uint64_t i = 0; i < lines; i++) {                                                                                   \
            for (uint32_t k = 0; k < LANES; k++) {                                                                               \
                lanes[k] += (double)x[LANES * i + k] * (double)x[LANES * i + k];                                                 \
            }                                                                                                                    \
        }                                                                                                                        \
    }                                                                                                                            \
    static void add_##name(struct psi_squares *s, const type *x, uint64_t n)                                                     \
    {                                                                                                                            \
        uint64_t i = 0;                                                                                                          \
        for (; i < n && s->count % LANES != 0; i++, s->count++) {                                                                \
            s->lanes[s->count % LANES] += (double)x[i] * (double)x[i];                                                           \
        }                                                                                                                        \
        const uint64_t lines = (n - i) / LANES;                                                                                  \
        lines_##name(s->lanes, &x[i], lines);                                                                                    \
        s->count += lines * LANES;                                                                                               \
        for (i += lines * LANES; i < n; i++, s->count++) {                                                                       \
            s->lanes[s->count % LANES] += (double)x[i] * (double)x[i];                                                           \
        }                                                                                                                        \
    }
ADD(f32, float)
ADD(f64, double)

void psi_squares_add(struct psi_squares *s, ps_dtype dtype, const void *x, uint64_t elements)
{
    if (dtype == PS_F64) {
        add_f64(s, x, elements);
    } else {
        add_f32(s, x, elements);
    }
}

double psi_squares_sum(const struct psi_squares *s)
{
    double sum = 0;
    for (uint32_t k = 0; k < LANES; k++) {
        sum += s->lanes[k];
    }
    return sum;
}

float psi_clip_factor(double squares, double max_norm)
{
    const double norm = sqrt(squares);
    if (!isfinite(norm) || norm <= max_norm) {
        return 1;
    }
    const float factor = (float)(max_norm / norm);
    return factor > FLT_MIN ? factor : FLT_MIN; /* without fmaxf(), which would need libm: psd does not load it */
}

ps_status psi_max_norm_check(double max_norm, struct psi_err *err)
{
    return isfinite(max_norm) && max_norm > 0
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "max_norm %g; allowed: finite and > 0", max_norm);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The average of gradients: acc = g0 * s0; acc += g1 * s1; ...; acc /= n, in this order, each operation rounded to the dtype.
 * Each element depends on its own inputs only, so any split of a tensor gives the same bits. Cannot fail. */
#include "optim.h"

#include "common/clones.h"

double psd_sum_lanes(double lanes[PSD_SUM_LANES])
{
    for (size_t half = PSD_SUM_LANES / 2; half > 0; half /= 2) {
        for (size_t k = 0; k < half; k++) {
            lanes[k] += lanes[k + half];
        }
    }
    return lanes[0];
}

/* A macro argument that is a type cannot have parentheses: NOLINTBEGIN(bugprone-macro-parentheses) */
#define SUM(type, suffix)                                                                                                        \
    PSI_CLONES                                                                                                                   \
    static void first_##suffix(type *restrict acc, const type *restrict grad, type scale, size_t n)                              \
    {                                                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                                                         \
            acc[i] = grad[i] * scale;                                                                                            \
        }                                                                                                                        \
    }                                                                                                                            \
    PSI_CLONES                                                                                                                   \
    static void next_##suffix(type *restrict acc, const type *restrict grad, type scale, size_t n)                               \
    {                                                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                                                         \
            acc[i] += grad[i] * scale;                                                                                           \
        }                                                                                                                        \
    }                                                                                                                            \
    PSI_CLONES                                                                                                                   \
    static void average_##suffix(type *restrict acc, type count, size_t n)                                                       \
    {                                                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                                                         \
            acc[i] /= count;                                                                                                     \
        }                                                                                                                        \
    }
SUM(float, f32)
SUM(double, f64)
/* NOLINTEND(bugprone-macro-parentheses) */

void psd_sum_add(ps_dtype dtype, void *acc, const void *grad, float scale, bool first, size_t elements)
{
    if (dtype == PS_F64) {
        (first ? first_f64 : next_f64)(acc, grad, (double)scale, elements);
    } else {
        (first ? first_f32 : next_f32)(acc, grad, scale, elements);
    }
}

void psd_sum_average(ps_dtype dtype, void *acc, uint64_t count, size_t elements)
{
    if (dtype == PS_F64) {
        average_f64(acc, (double)count, elements);
    } else {
        average_f32(acc, (float)count, elements);
    }
}

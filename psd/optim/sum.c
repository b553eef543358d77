/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The average of gradients: acc = g0 * s0; acc += g1 * s1; ...; acc /= n, each operation rounded to the dtype, in that order.
 * Each element depends on its own inputs only, so any split of a tensor gives the same bits. The sum of squares is in float64, of
 * LANES elements side by side, and then of these sums, so that every CPU has the same bits. Cannot fail.
 */
#include "optim.h"

#include "common/clones.h"

enum { LANES = 16 };

/* A type cannot stand in parentheses: NOLINTBEGIN(bugprone-macro-parentheses) */
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
    }                                                                                                                            \
    PSI_CLONES                                                                                                                   \
    static double squares_##suffix(const type *x, size_t n)                                                                      \
    {                                                                                                                            \
        double sums[LANES] = {0};                                                                                                \
        size_t i = 0;                                                                                                            \
        for (; i + LANES <= n; i += LANES) {                                                                                     \
            for (size_t k = 0; k < LANES; k++) {                                                                                 \
                sums[k] += (double)x[i + k] * (double)x[i + k];                                                                  \
            }                                                                                                                    \
        }                                                                                                                        \
        for (size_t k = 0; i + k < n; k++) {                                                                                     \
            sums[k] += (double)x[i + k] * (double)x[i + k];                                                                      \
        }                                                                                                                        \
        for (size_t half = LANES / 2; half > 0; half /= 2) {                                                                     \
            for (size_t k = 0; k < half; k++) {                                                                                  \
                sums[k] += sums[k + half];                                                                                       \
            }                                                                                                                    \
        }                                                                                                                        \
        return sums[0];                                                                                                          \
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

double psd_sum_squares(ps_dtype dtype, const void *values, size_t elements)
{
    return dtype == PS_F64 ? squares_f64(values, elements) : squares_f32(values, elements);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Adagrad and Adam with one number for the squares of a row, instead of one for each element. mean(g^2) is taken over the row.
 *   row-wise Adagrad: a += mean(g^2) ; v -= rate / (sqrt(a) + epsilon) * g
 *   row-wise Adam:    m += (g - m)(1 - beta1) ; b = b * beta2 + (1 - beta2) * mean(g^2) ;
 *                     v -= alpha / (sqrt(b) / correction + epsilon) * m, alpha = rate / (1 - beta1^t),
 *                     correction = sqrt(1 - beta2^t)
 * v uses the new a, b and m. The powers and 1 - beta are computed as float64.
 * Source: FBGEMM fbgemm_gpu/codegen/genscript/optimizers.py, rowwise_adagrad and partial_rowwise_adam.
 *
 * The squares of a row are added in LANES sums, element i to sum i mod LANES. Then the second half of the sums is added to the
 * first half, until one sum is left. So the result's bits do not depend on the CPU. Works on whole rows. Cannot fail. */
#include "kernels.h"

enum { LANES = 16 };

/* A macro argument that is a type cannot have parentheses: NOLINTBEGIN(bugprone-macro-parentheses) */
#define MEAN(name, type, grad_type, value)                                                                                       \
    PSD_INLINE type mean_##name(const grad_type *restrict grad, size_t columns, type scale)                                      \
    {                                                                                                                            \
        type lanes[LANES] = {0};                                                                                                 \
        size_t first = 0;                                                                                                        \
        for (; first + LANES <= columns; first += LANES) {                                                                       \
            for (size_t k = 0; k < LANES; k++) {                                                                                 \
                const type g = value(grad[first + k]) * scale;                                                                   \
                lanes[k] += g * g;                                                                                               \
            }                                                                                                                    \
        }                                                                                                                        \
        for (size_t k = 0; first + k < columns; k++) {                                                                           \
            const type g = value(grad[first + k]) * scale;                                                                       \
            lanes[k] += g * g;                                                                                                   \
        }                                                                                                                        \
        for (size_t half = LANES / 2; half > 0; half /= 2) {                                                                     \
            for (size_t k = 0; k < half; k++) {                                                                                  \
                lanes[k] += lanes[k + half];                                                                                     \
            }                                                                                                                    \
        }                                                                                                                        \
        return lanes[0] / (type)columns;                                                                                         \
    }

/* Defines the loops `name`. Their body changes one row v of `columns` elements; `mean` is the mean of its squared gradients. */
#define ROWS(name, type, grad_type, mean_of, value, ...)                                                                         \
    PSD_INLINE void name##_all(type *restrict v, void *const slots[PSD_OPTIM_SLOTS_MAX], const grad_type *restrict grad,         \
                               size_t rows, size_t columns, const struct psd_optim_scalars *restrict s)                          \
    {                                                                                                                            \
        PSD_SCALARS_OF(type, s)                                                                                                  \
        for (size_t row = 0; row < rows; row++, v += columns, grad += columns) {                                                 \
            const type mean = mean_of(grad, columns, scale);                                                                     \
            __VA_ARGS__                                                                                                          \
        }                                                                                                                        \
    }                                                                                                                            \
    ROWS_FOR(name##_base, noinline, name##_all(var, slots, grad, rows, columns, s))                                              \
    ROWS_FOR(name##_avx2, target("avx2"), name##_all(var, slots, grad, rows, columns, s))                                        \
    ROWS_FOR(name##_avx512, target("avx512f"), name##_all(var, slots, grad, rows, columns, s))                                   \
    static void name(void *var, void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t rows, size_t columns,           \
                     const struct psd_optim_scalars *s)                                                                          \
    {                                                                                                                            \
        static psd_optim_rows_fn *const loops[] = {name##_base, name##_avx2, name##_avx512};                                     \
        loops[psi_vectors()](var, slots, grad, rows, columns, s);                                                                \
    }
#define ROWS_FOR(name, target_, body)                                                                                            \
    __attribute__((section(".text.sorted.loops"), target_)) static void name(void *var, void *const slots[PSD_OPTIM_SLOTS_MAX],  \
                                                                             const void *grad, size_t rows, size_t columns,      \
                                                                             const struct psd_optim_scalars *s)                  \
    {                                                                                                                            \
        body;                                                                                                                    \
    }

#define ADAGRAD(type, value)                                                                                                     \
    {                                                                                                                            \
        type *restrict a = slots[0];                                                                                             \
        const type new_a = a[row] + mean;                                                                                        \
        const type step = rate / (PSD_ROOT(new_a) + epsilon);                                                                    \
        a[row] = new_a;                                                                                                          \
        for (size_t i = 0; i < columns; i++) {                                                                                   \
            const type g = value(grad[i]) * scale;                                                                               \
            v[i] -= step * g;                                                                                                    \
        }                                                                                                                        \
    }
#define ADAM(type, value)                                                                                                        \
    {                                                                                                                            \
        type *restrict m = (type *)slots[0] + row * columns;                                                                     \
        type *restrict b = slots[1];                                                                                             \
        const type new_b = b[row] * beta2 + share2 * mean;                                                                       \
        const type step = alpha / (PSD_ROOT(new_b) / correction + epsilon);                                                      \
        b[row] = new_b;                                                                                                          \
        for (size_t i = 0; i < columns; i++) {                                                                                   \
            const type g = value(grad[i]) * scale;                                                                               \
            const type new_m = m[i] + (g - m[i]) * share1;                                                                       \
            m[i] = new_m;                                                                                                        \
            v[i] -= step * new_m;                                                                                                \
        }                                                                                                                        \
    }
MEAN(f32, float, float, PSD_SAME)
MEAN(bf16, float, uint16_t, psi_bf16_value)
MEAN(f64, double, double, PSD_SAME)
ROWS(adagrad_f32, float, float, mean_f32, PSD_SAME, ADAGRAD(float, PSD_SAME))
ROWS(adagrad_bf16, float, uint16_t, mean_bf16, psi_bf16_value, ADAGRAD(float, psi_bf16_value))
ROWS(adagrad_f64, double, double, mean_f64, PSD_SAME, ADAGRAD(double, PSD_SAME))
ROWS(adam_f32, float, float, mean_f32, PSD_SAME, ADAM(float, PSD_SAME))
ROWS(adam_bf16, float, uint16_t, mean_bf16, psi_bf16_value, ADAM(float, psi_bf16_value))
ROWS(adam_f64, double, double, mean_f64, PSD_SAME, ADAM(double, PSD_SAME))
/* NOLINTEND(bugprone-macro-parentheses) */

const struct psd_optim_rule psd_rule_rowwise_adagrad = {.by_row = PSD_LOOPS_OF(adagrad)};
const struct psd_optim_rule psd_rule_rowwise_adam = {.by_row = PSD_LOOPS_OF(adam), .derive = psd_optim_derive_torch_adam};

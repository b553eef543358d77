/* SPDX-License-Identifier: Apache-2.0 */
/* Options of every optimizer, applied before and after its rule, element by element (by row for rules that need whole rows):
 *   g = clip(g * scale) + l2 * v, clip(x) = x limited to [-clip_value, clip_value]
 *   the rule, with g
 *   e -= (e - v) * (1 - decay), with the new v: the moving average e, in the slot after the optimizer's own slots
 * Sources: TensorFlow 1.15 python/ops/clip_ops.py clip_by_value; PyTorch torch/optim, weight_decay of SGD (l2 here);
 * TensorFlow 1.15 python/training/moving_averages.py assign_moving_average.
 *
 * The gradient g of a piece is made on the stack, so the rules' loops need no variants with these options. The limit comes before
 * l2, because programs limit gradients before the optimizer adds l2. Cannot fail. */
#include "kernels.h"

#include "common/limits.h"
#include "common/mem.h"

/* Measured with Adam on 100 MiB: pieces of 4096 bytes make a push with clip_value 8 % slower than one without, and a push with
 * ema 42 %; with 1024 bytes clip_value costs nothing, and ema 27 %. */
enum { PIECE_BYTES = 1024, ARRAYS_MAX = PSD_OPTIM_SLOTS_MAX };

/* A macro argument that is a type cannot have parentheses: NOLINTBEGIN(bugprone-macro-parentheses) */
#define PREPARE(name, type, grad_type, value)                                                                                    \
    PSI_CLONES                                                                                                                   \
    static void limit_##name(type *restrict made, const grad_type *restrict grad, size_t n, type scale, type most)               \
    {                                                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                                                         \
            const type g = value(grad[i]) * scale;                                                                               \
            made[i] = g > most ? most : g < -most ? -most : g;                                                                   \
        }                                                                                                                        \
    }
#define FINISH(name, type)                                                                                                       \
    PSI_CLONES                                                                                                                   \
    static void decay_##name(type *restrict made, const type *restrict v, size_t n, type l2)                                     \
    {                                                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                                                         \
            made[i] += l2 * v[i];                                                                                                \
        }                                                                                                                        \
    }                                                                                                                            \
    PSI_CLONES                                                                                                                   \
    static void average_##name(type *restrict e, const type *restrict v, size_t n, type share)                                   \
    {                                                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                                                         \
            e[i] -= (e[i] - v[i]) * share;                                                                                       \
        }                                                                                                                        \
    }
PREPARE(f32, float, float, PSD_SAME)
PREPARE(bf16, float, uint16_t, psi_bf16_value)
PREPARE(f64, double, double, PSD_SAME)
FINISH(f32, float)
FINISH(f64, double)
/* NOLINTEND(bugprone-macro-parentheses) */

static void limit(int loop, void *made, const void *grad, size_t n, const struct psd_optim_scalars *s)
{
    const double most = s->clip_value > 0 ? s->clip_value : (double)INFINITY;
    if (loop == PSD_LOOP_F64) {
        limit_f64(made, grad, n, s->scale, most);
    } else if (loop == PSD_LOOP_BF16) {
        limit_bf16(made, grad, n, (float)s->scale, (float)most);
    } else {
        limit_f32(made, grad, n, (float)s->scale, (float)most);
    }
}

static void decay(int loop, void *made, const void *var, size_t n, double l2)
{
    if (loop == PSD_LOOP_F64) {
        decay_f64(made, var, n, l2);
    } else {
        decay_f32(made, var, n, (float)l2);
    }
}

void psd_optim_gradient(int loop, void *made, const void *grad, const void *var, size_t n, const struct psd_optim_scalars *s)
{
    limit(loop, made, grad, n, s);
    if (s->l2 > 0) {
        decay(loop, made, var, n, s->l2);
    }
}

static void average(int loop, void *slot, const void *var, size_t n, double share)
{
    if (loop == PSD_LOOP_F64) {
        average_f64(slot, var, n, share);
    } else {
        average_f32(slot, var, n, (float)share);
    }
}

/* Call the rule's loop for `elements` elements and their gradient. A rule by row gets them as rows of `columns` elements. */
static void apply(const struct psd_optim_rule *rule, int loop, const struct psd_optim_scalars *s, void *var,
                  void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements, size_t columns)
{
    if (rule->by_row[loop] != NULL) {
        rule->by_row[loop](var, slots, grad, elements / columns, columns, s);
    } else {
        rule->loops[s->form != 0][loop](var, slots, grad, elements, s);
    }
}

void psd_optim_around(const struct psi_slot *own, const struct psd_optim_rule *rule, int loop,
                      const struct psd_optim_scalars *scalars, void *var, void *const slots[PSD_OPTIM_SLOTS_MAX],
                      const void *grad, size_t rows, size_t columns)
{
    _Alignas(64) uint8_t made[PS_SEGMENT_BYTES]; /* gradient of one piece; rules by row: of at least one row */
    const size_t width = loop == PSD_LOOP_F64 ? sizeof(double) : sizeof(float), elements = rows * columns;
    const size_t grad_width = loop == PSD_LOOP_BF16 ? sizeof(uint16_t) : width, piece = PIECE_BYTES / width;
    const size_t most = rule->by_row[loop] == NULL ? piece : columns > piece ? columns : piece / columns * columns;
    struct psd_optim_scalars inside = *scalars;
    void *at[ARRAYS_MAX] = {NULL};
    uint32_t count = 0;
    while (own[count].name != NULL) {
        count++;
    }
    inside.scale = 1; /* psd_optim_gradient() multiplies by the scale */
    for (size_t first = 0; first < elements; first += most) {
        const size_t left = elements - first, n = left < most ? left : most;
        uint8_t *v = (uint8_t *)var + first * width;
        for (uint32_t k = 0; k < ARRAYS_MAX && slots[k] != NULL; k++) {
            at[k] = (uint8_t *)slots[k] + (k < count && own[k].by_row ? first / columns : first) * width;
        }
        const bool averages = scalars->ema > 0 && at[count] != NULL;
        for (size_t i = 0; averages && i < n * width; i += PSI_CACHE_LINE) { /* load the average while the rule runs */
            __builtin_prefetch((const uint8_t *)at[count] + i, 1, 2);
        }
        psd_optim_gradient(loop, made, (const uint8_t *)grad + first * grad_width, v, n, scalars);
        apply(rule, loop == PSD_LOOP_F64 ? PSD_LOOP_F64 : PSD_LOOP_F32, &inside, v, at, made, n, columns);
        if (averages) {
            average(loop, at[count], v, n, scalars->ema);
        }
    }
}

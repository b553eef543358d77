/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax cross-entropy with integer labels, and the count of correct rows.
 *   m = max_j z_j    s = sum_j exp(z_j - m)    loss_i = log s - (z_label - m)    dz_j = (exp(z_j - m) / s - [j = label]) / B
 * Subtracting m keeps every exponent <= 0, so that no logit overflows. Maximum and sum run in 16 lanes that are combined in a
 * fixed order: they vectorise, and give the same bits at every vector width. The loss is summed in double, row by row. A NaN or
 * +inf in a row makes its loss and gradients NaN. */
#include "cpu.h"

#include "common/clones.h"
#include "expf.h"

#include <math.h>

#define LANES 16

/* Load the last, incomplete group of lanes, filled up with -inf, whose exponential is 0. */
static inline void load_tail(const float *z, int64_t n, float tail[LANES])
{
    for (int64_t k = 0; k < LANES; k++) {
        tail[k] = -INFINITY;
    }
    for (int64_t k = 0; k < n; k++) {
        tail[k] = z[k];
    }
}

static inline void max_group(const float *z, float lanes[LANES])
{
    for (int64_t k = 0; k < LANES; k++) {
        lanes[k] = z[k] > lanes[k] ? z[k] : lanes[k];
    }
}

PSI_CLONES static float psk_clone_row_max(const float *z, int64_t n)
{
    float lanes[LANES];
    float tail[LANES];
    for (int64_t k = 0; k < LANES; k++) {
        lanes[k] = -INFINITY;
    }
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) {
        max_group(z + j, lanes);
    }
    load_tail(z + j, n - j, tail);
    max_group(tail, lanes);
    float m = lanes[0];
    for (int64_t k = 1; k < LANES; k++) {
        m = lanes[k] > m ? lanes[k] : m;
    }
    return m;
}

static inline void exp_group(const float *z, float m, float e[LANES], float lanes[LANES])
{
    for (int64_t k = 0; k < LANES; k++) {
        e[k] = psk_exp_negative(z[k] - m);
        lanes[k] += e[k];
    }
}

/* Return the sum of exp(z_j - m). The exponentials are stored in out, which may be z; NULL: they are not stored. */
PSI_CLONES static float psk_clone_row_exp_sum(const float *z, int64_t n, float m, float *out)
{
    float lanes[LANES] = {0};
    float tail[LANES];
    float e[LANES];
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) {
        exp_group(z + j, m, e, lanes);
        if (out != NULL) {
            memcpy(out + j, e, sizeof(e));
        }
    }
    if (j < n) {
        load_tail(z + j, n - j, tail);
        exp_group(tail, m, e, lanes);
        if (out != NULL) {
            memcpy(out + j, e, (size_t)(n - j) * sizeof(float));
        }
    }
    float sum = lanes[0];
    for (int64_t k = 1; k < LANES; k++) {
        sum += lanes[k];
    }
    return sum;
}

PSI_CLONES static void psk_clone_row_scale(float *row, int64_t n, float scale)
{
    for (int64_t j = 0; j < n; j++) {
        row[j] *= scale;
    }
}

double psk_cpu_softmax_xent(const float *logits, const int32_t *labels, float *dlogits, int64_t batch, int64_t classes)
{
    /* logits (B,C), labels [B], dlogits (B,C) */
    double loss = 0.0;
    const float batch_inverse = 1.0f / (float)batch;
    for (int64_t i = 0; i < batch; i++) {
        const float *z = logits + i * classes;
        float *row = dlogits != NULL ? dlogits + i * classes : NULL;
        const float m = psk_clone_row_max(z, classes);
        const double label_below_max = (double)z[labels[i]] - (double)m; /* read before dlogits overwrites it */
        const float sum = psk_clone_row_exp_sum(z, classes, m, row);
        loss += log((double)sum) - label_below_max;
        if (row != NULL) {
            psk_clone_row_scale(row, classes, batch_inverse / sum);
            row[labels[i]] -= batch_inverse;
        }
    }
    return batch > 0 ? loss / (double)batch : 0.0;
}

int64_t psk_cpu_argmax_count(const float *logits, const int32_t *labels, int64_t batch, int64_t classes)
{
    int64_t count = 0;
    for (int64_t i = 0; i < batch; i++) {
        const float *z = logits + i * classes;
        int64_t best = 0;
        bool any_nan = false;
        for (int64_t j = 0; j < classes; j++) {
            any_nan |= isnan(z[j]) != 0;
            best = z[j] > z[best] ? j : best;
        }
        count += !any_nan && best == labels[i] ? 1 : 0;
    }
    return count;
}

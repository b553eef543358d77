/* SPDX-License-Identifier: Apache-2.0 */
/* Dot interaction (DLRM, Naumov et al. 2019): y_ij = <x_i, x_j> for all pairs of fields i > j of a row; dx_i = sum_j dy_ij x_j */
#include "cpu.h"

#include <string.h>

enum { PART_PRODUCTS = 1 << 15 }; /* least work for another thread: so many products take 10 us, the hand-over 2 us */

struct work {
    const float *x, *dy;
    float *to;
    int64_t batch, fields, n; /* x (batch, fields n) */
};

static int64_t pairs_of(int64_t fields)
{
    return fields * (fields - 1) / 2;
}

static void forward_part(const void *work, uint32_t part, uint32_t parts)
{
    const struct work *w = work;
    const int64_t end = psk_cpu_cut(w->batch, part + 1, parts);
    for (int64_t b = psk_cpu_cut(w->batch, part, parts); b < end; b++) {
        const float *x = w->x + b * w->fields * w->n;
        float *y = w->to + b * pairs_of(w->fields);
        for (int64_t i = 1; i < w->fields; i++) {
            for (int64_t j = 0; j < i; j++) {
                float sum = 0.0f;
                for (int64_t d = 0; d < w->n; d++) {
                    sum += x[i * w->n + d] * x[j * w->n + d];
                }
                *y++ = sum;
            }
        }
    }
}

static void backward_part(const void *work, uint32_t part, uint32_t parts)
{
    const struct work *w = work;
    const int64_t end = psk_cpu_cut(w->batch, part + 1, parts);
    for (int64_t b = psk_cpu_cut(w->batch, part, parts); b < end; b++) {
        const float *x = w->x + b * w->fields * w->n;
        const float *dy = w->dy + b * pairs_of(w->fields);
        float *dx = w->to + b * w->fields * w->n;
        memset(dx, 0, (size_t)(w->fields * w->n) * sizeof(float));
        for (int64_t i = 1; i < w->fields; i++) {
            for (int64_t j = 0; j < i; j++) {
                const float d = *dy++;
                for (int64_t c = 0; c < w->n; c++) {
                    dx[i * w->n + c] += d * x[j * w->n + c];
                    dx[j * w->n + c] += d * x[i * w->n + c];
                }
            }
        }
    }
}

static void split(psk_cpu_part_fn part, const struct work *w)
{
    const int64_t threads = psk_cpu_threads();
    const int64_t cuts = w->batch / PSK_CPU_CUT;
    const int64_t worth = w->batch * pairs_of(w->fields) * w->n / PART_PRODUCTS;
    const int64_t most = cuts < worth ? cuts : worth;
    psk_cpu_split((uint32_t)(most < 1 ? 1 : most < threads ? most : threads), part, w);
}

void psk_cpu_dot(const float *x, float *y, int64_t batch, int64_t fields, int64_t n)
{
    split(forward_part, &(struct work){.x = x, .to = y, .batch = batch, .fields = fields, .n = n});
}

void psk_cpu_dot_backward(const float *x, const float *dy, float *dx, int64_t batch, int64_t fields, int64_t n)
{
    split(backward_part, &(struct work){.x = x, .dy = dy, .to = dx, .batch = batch, .fields = fields, .n = n});
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables for bags of indices, and the interaction of a factorization machine (Rendle 2010).
 *   bag       y_i = c_i sum_k w_k r_k over the bag's entries, c_i = 1, 1 / sum_k w_k, or 1 / sqrt(sum_k w_k^2)
 *             dr = sum of c_i w_k dy_i over all entries k of that row
 *   fm        y_i = sum over pairs k > l of w_k w_l <r_k, r_l> = sum_k <w_k r_k, sum_{l<k} w_l r_l>
 *             (only sums; the usual difference of two squares would cancel)
 *             s_i = sum_k w_k r_k
 *             dr = sum of dy_i w_k (s_i - w_k r_k)
 * Forward is cut by bags, backward by rows of the table: each part looks at all indices and adds those of its rows. Every element
 * is added up in the order of the entries by one thread, so that the result does not depend on the number of threads. */
#include "cpu.h"

#include "common/clones.h"

#include <math.h>
#include <string.h>

enum { PART_VALUES = 1 << 15 }; /* least work for another thread: so many values take 10 us, the hand-over 2 us */

PSI_CLONES static void psk_clone_add_row(float *restrict sum, const float *restrict row, float times, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        sum[j] += times * row[j];
    }
}

PSI_CLONES static void psk_clone_scale_row(float *row, float times, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        row[j] *= times;
    }
}

PSI_CLONES static void psk_clone_add_others(float *restrict sum, const float *restrict sums, const float *restrict row,
                                            float weight, float times, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        sum[j] += times * (sums[j] - weight * row[j]);
    }
}

static int64_t first_of(const struct psk_cpu_bags *b, int64_t bag)
{
    return b->ends == NULL ? bag : bag > 0 ? b->ends[bag - 1] : 0;
}

static int64_t end_of(const struct psk_cpu_bags *b, int64_t bag)
{
    return b->ends == NULL ? bag + 1 : b->ends[bag];
}

static bool is_padding(const struct psk_cpu_bags *b, int64_t k)
{
    return (uint64_t)b->indices[k] + 1 == b->padding_plus_1;
}

static float weight_of(const struct psk_cpu_bags *b, int64_t k)
{
    return b->weights != NULL ? b->weights[k] : 1.0f;
}

/* The factor c_i by which the sum of a bag's rows is multiplied, as the combiner says. */
static float combined(const struct psk_cpu_bags *b, int64_t bag)
{
    double sum = 0;
    if (b->combiner == PSK_SUM) {
        return 1.0f;
    }
    for (int64_t k = first_of(b, bag); k < end_of(b, bag); k++) {
        const double w = is_padding(b, k) ? 0 : (double)weight_of(b, k);
        sum += b->combiner == PSK_MEAN ? w : w * w;
    }
    sum = b->combiner == PSK_SQRTN ? sqrt(sum) : sum;
    return sum == 0 ? 0.0f : (float)(1 / sum);
}

struct work {
    const struct psk_cpu_bags *bags;
    const float *rows, *sums, *dy;
    float *y, *to; /* y: y of PSK_FM; to: output with rows of n values: y of bags, sums of PSK_FM, or drows */
    int64_t n;
};

static uint32_t parts_of(int64_t cuts, int64_t values)
{
    const int64_t threads = psk_cpu_threads();
    const int64_t worth = values / PART_VALUES;
    const int64_t most = cuts / PSK_CPU_CUT < worth ? cuts / PSK_CPU_CUT : worth;
    return (uint32_t)(most < 1 ? 1 : most < threads ? most : threads);
}

static void bag_part(const void *work, uint32_t part, uint32_t parts)
{
    const struct work *w = work;
    const struct psk_cpu_bags *b = w->bags;
    const int64_t end = psk_cpu_cut(b->count, part + 1, parts);
    for (int64_t i = psk_cpu_cut(b->count, part, parts); i < end; i++) {
        float *y = w->to + i * w->n;
        memset(y, 0, (size_t)w->n * sizeof(float));
        for (int64_t k = first_of(b, i); k < end_of(b, i); k++) {
            if (!is_padding(b, k)) {
                psk_clone_add_row(y, w->rows + b->indices[k] * w->n, weight_of(b, k), w->n);
            }
        }
        if (b->combiner != PSK_SUM) {
            psk_clone_scale_row(y, combined(b, i), w->n);
        }
    }
}

void psk_cpu_bag(const struct psk_cpu_bags *bags, const float *rows, float *y, int64_t n)
{
    /* rows (rows, n), y (bags, n) */
    const struct work w = {.bags = bags, .rows = rows, .to = y, .n = n};
    psk_cpu_split(parts_of(bags->count, bags->index_count * n), bag_part, &w);
}

static void fm_part(const void *work, uint32_t part, uint32_t parts)
{
    const struct work *w = work;
    const struct psk_cpu_bags *b = w->bags;
    const int64_t end = psk_cpu_cut(b->count, part + 1, parts);
    for (int64_t i = psk_cpu_cut(b->count, part, parts); i < end; i++) {
        float *sum = w->to + i * w->n;
        double y = 0;
        memset(sum, 0, (size_t)w->n * sizeof(float));
        for (int64_t k = first_of(b, i); k < end_of(b, i); k++) {
            const float *row = w->rows + b->indices[k] * w->n;
            for (int64_t j = 0; !is_padding(b, k) && j < w->n; j++) {
                const float value = weight_of(b, k) * row[j];
                y += (double)value * (double)sum[j];
                sum[j] += value;
            }
        }
        w->y[i] = (float)y;
    }
}

void psk_cpu_fm(const struct psk_cpu_bags *bags, const float *rows, float *y, float *sums, int64_t n)
{
    /* rows (rows, n), y (bags), sums (bags, n) */
    const struct work w = {.bags = bags, .rows = rows, .y = y, .to = sums, .n = n};
    psk_cpu_split(parts_of(bags->count, bags->index_count * n), fm_part, &w);
}

/* Add one bag's part of the gradient to w->to: to the rows first .. end-1 only, other threads add to the other rows. */
static void bag_back(const struct work *w, int64_t bag, int64_t first, int64_t end)
{
    const struct psk_cpu_bags *b = w->bags;
    float scale = 0.0f;
    bool known = false; /* true: scale was computed for this bag */
    for (int64_t k = first_of(b, bag); k < end_of(b, bag); k++) {
        const int64_t r = b->indices[k];
        if (r < first || r >= end || is_padding(b, k)) {
            continue;
        }
        const float weight = weight_of(b, k);
        if (w->sums != NULL) {
            psk_clone_add_others(w->to + r * w->n, w->sums + bag * w->n, w->rows + r * w->n, weight, weight * w->dy[bag], w->n);
            continue;
        }
        scale = known ? scale : combined(b, bag);
        known = true;
        psk_clone_add_row(w->to + r * w->n, w->dy + bag * w->n, scale * weight, w->n);
    }
}

static void backward_part(const void *work, uint32_t part, uint32_t parts)
{
    const struct work *w = work;
    const int64_t first = psk_cpu_cut(w->bags->row_count, part, parts);
    const int64_t end = psk_cpu_cut(w->bags->row_count, part + 1, parts);
    memset(w->to + first * w->n, 0, (size_t)((end - first) * w->n) * sizeof(float));
    for (int64_t i = 0; i < w->bags->count; i++) {
        bag_back(w, i, first, end);
    }
}

static void backward(const struct work *w)
{
    if (w->bags->row_count > 0) {
        psk_cpu_split(parts_of(w->bags->row_count, (w->bags->index_count + w->bags->row_count) * w->n), backward_part, w);
    }
}

void psk_cpu_bag_backward(const struct psk_cpu_bags *bags, const float *dy, float *drows, int64_t n)
{
    /* dy (bags, n), drows (rows, n) */
    backward(&(struct work){.bags = bags, .dy = dy, .to = drows, .n = n});
}

void psk_cpu_fm_backward(const struct psk_cpu_bags *bags, const float *rows, const float *sums, const float *dy, float *drows,
                         int64_t n)
{
    /* rows (rows, n), sums (bags, n), dy (bags), drows (rows, n) */
    if (bags->count > 0) {
        backward(&(struct work){.bags = bags, .rows = rows, .sums = sums, .dy = dy, .to = drows, .n = n});
    } else {
        psk_cpu_bag_backward(bags, dy, drows, n); /* no bags: sets drows to zeros */
    }
}

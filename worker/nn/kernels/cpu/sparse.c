/* SPDX-License-Identifier: Apache-2.0 */
/* A dense layer for compressed sparse rows: only stored values take part.
 *   y_i = act(b + sum_k values_k w_columns_k)
 *   dw_c = sum of values_k dy_i over all k with columns_k = c
 *   db = sum_i dy_i
 * The host has checked ends and columns. Forward is cut by the rows of x; dw is cut by its own rows, and each part finds its
 * first column in every row by bisection, because columns ascend. Every element is added up in one order, by one thread, so that
 * the result does not depend on the number of threads. */
#include "cpu.h"

#include "common/clones.h"

#include <string.h>

enum { PART_PRODUCTS = 1 << 15, PART_ELEMENTS = 1 << 16 }; /* least work for another thread: 10 us; the hand-over takes 2 us */

struct sparse {
    const struct psk_cpu_rows *x;
    const float *w, *b, *dy;
    float *y, *dw, *db;
    int64_t out;
    psk_activation act;
};

PSI_CLONES static void psk_clone_add_times(float *restrict sum, const float *restrict row, float times, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        sum[j] += times * row[j];
    }
}

static int64_t first_of(const struct psk_cpu_rows *x, int64_t row)
{
    return row > 0 ? x->ends[row - 1] : 0;
}

static uint32_t parts_of(int64_t cuts, int64_t worth)
{
    const int64_t threads = psk_cpu_threads();
    const int64_t most = cuts / PSK_CPU_CUT < worth ? cuts / PSK_CPU_CUT : worth;
    return (uint32_t)(most < 1 ? 1 : most < threads ? most : threads);
}

static void forward_part(const void *work, uint32_t part, uint32_t parts)
{
    const struct sparse *s = work;
    const int64_t end = psk_cpu_cut(s->x->rows, part + 1, parts);
    for (int64_t i = psk_cpu_cut(s->x->rows, part, parts); i < end; i++) {
        float *y = s->y + i * s->out;
        if (s->b != NULL) {
            memcpy(y, s->b, (size_t)s->out * sizeof(float));
        } else {
            memset(y, 0, (size_t)s->out * sizeof(float));
        }
        for (int64_t k = first_of(s->x, i); k < s->x->ends[i]; k++) {
            psk_clone_add_times(y, s->w + s->x->columns[k] * s->out, s->x->values[k], s->out);
        }
        if (s->act != PSK_LINEAR) {
            psk_cpu_act(y, y, s->out, s->act);
        }
    }
}

void psk_cpu_sparse(const struct psk_cpu_rows *x, const float *w, const float *b, float *y, int64_t out, psk_activation act)
{
    /* x (batch, in), w (in, out), b (out), y (batch, out) */
    const struct sparse s = {.x = x, .w = w, .b = b, .y = y, .out = out, .act = act};
    const int64_t count = first_of(x, x->rows);
    psk_cpu_split(parts_of(x->rows, count * out / PART_PRODUCTS), forward_part, &s);
}

/* Index k of the row's first stored value in `column` or behind it; the end of the row's values if there is none. */
static int64_t find(const struct psk_cpu_rows *x, int64_t row, int64_t column)
{
    int64_t low = first_of(x, row);
    int64_t high = x->ends[row];
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (x->columns[middle] < column) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void dw_part(const void *work, uint32_t part, uint32_t parts)
{
    const struct sparse *s = work;
    const int64_t first = psk_cpu_cut(s->x->in, part, parts);
    const int64_t end = psk_cpu_cut(s->x->in, part + 1, parts);
    memset(s->dw + first * s->out, 0, (size_t)((end - first) * s->out) * sizeof(float));
    for (int64_t i = 0; i < s->x->rows; i++) {
        for (int64_t k = find(s->x, i, first); k < s->x->ends[i] && s->x->columns[k] < end; k++) {
            psk_clone_add_times(s->dw + s->x->columns[k] * s->out, s->dy + i * s->out, s->x->values[k], s->out);
        }
    }
    if (part == 0 && s->db != NULL) {
        memset(s->db, 0, (size_t)s->out * sizeof(float));
        for (int64_t i = 0; i < s->x->rows; i++) {
            psk_clone_add_times(s->db, s->dy + i * s->out, 1.0f, s->out);
        }
    }
}

void psk_cpu_sparse_dw(const struct psk_cpu_rows *x, const float *dy, float *dw, float *db, int64_t out)
{
    /* x (batch, in), dy (batch, out), dw (in, out), db (out) */
    const struct sparse s = {.x = x, .dy = dy, .dw = dw, .db = db, .out = out};
    psk_cpu_split(parts_of(x->in, x->in * out / PART_ELEMENTS), dw_part, &s);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of gradients of rows (common/sparse.h): two lists of rows, whose indices rise, become one. Happy path: a row that is in
 * both lists is added, and its count rises; any other row is copied. If the sum has all rows, they are added in place. Failure
 * modes: none. */
#include "sparse.h"

#include "mutate.h"

#include <string.h>

uint64_t psd_sparse_joined(const struct psi_queue_spec *spec, const uint8_t *a, const uint8_t *b)
{
    const struct psi_sparse x = psi_sparse_of(spec, a), y = psi_sparse_of(spec, b);
    uint64_t i = 0, k = 0, count = 0;
    for (; i < x.count && k < y.count; count++) {
        const int64_t first = psi_sparse_number(x.indices, i), second = psi_sparse_number(y.indices, k);
        i += first <= second;
        k += second <= first;
    }
    return count + (x.count - i) + (y.count - k);
}

static void copy_row(const struct psi_sparse *out, uint64_t to, const struct psi_sparse *s, uint64_t from)
{
    memcpy(out->indices + to * sizeof(int64_t), s->indices + from * sizeof(int64_t), sizeof(int64_t));
    memcpy(out->counts + to * sizeof(int64_t), s->counts + from * sizeof(int64_t), sizeof(int64_t));
    memcpy(out->rows + to * s->row_bytes, s->rows + from * s->row_bytes, s->row_bytes);
}

static void add_row(ps_dtype dtype, const struct psi_sparse *out, uint64_t to, const struct psi_sparse *s, uint64_t from)
{
    const int64_t count = psi_sparse_number(out->counts, to) + psi_sparse_number(s->counts, from);
    memcpy(out->counts + to * sizeof(count), &count, sizeof(count));
    /* psd_add() cannot fail: it can add all float dtypes, and the dtype of an accumulator is one of them */
    PSI_IGNORE(psd_add(dtype, out->rows + to * s->row_bytes, s->rows + from * s->row_bytes, s->columns, 1));
}

void psd_sparse_add(const struct psi_queue_spec *spec, uint8_t *sum, const uint8_t *gradient)
{
    const ps_dtype dtype = spec->components[0].dtype;
    const struct psi_sparse s = psi_sparse_of(spec, sum), g = psi_sparse_of(spec, gradient);
    uint64_t i = 0;
    for (uint64_t k = 0; k < g.count; k++) {
        while (psi_sparse_number(s.indices, i) < psi_sparse_number(g.indices, k)) {
            i++;
        }
        add_row(dtype, &s, i, &g, k);
    }
}

void psd_sparse_join(const struct psi_queue_spec *spec, const uint8_t *a, const uint8_t *b, uint64_t count, uint8_t *to)
{
    const ps_dtype dtype = spec->components[0].dtype;
    const struct psi_sparse x = psi_sparse_of(spec, a), y = psi_sparse_of(spec, b), out = psi_sparse_lay_out(spec, count, to);
    uint64_t i = 0, k = 0, n = 0;
    for (; i < x.count || k < y.count; n++) {
        const int64_t first = i < x.count ? psi_sparse_number(x.indices, i) : INT64_MAX;
        const int64_t second = k < y.count ? psi_sparse_number(y.indices, k) : INT64_MAX;
        if (first <= second) {
            copy_row(&out, n, &x, i++);
        } else {
            copy_row(&out, n, &y, k++);
        }
        if (first == second) {
            add_row(dtype, &out, n, &y, k++);
        }
    }
    PSI_ASSERT(n == count);
}

void psd_sparse_reduce(const struct psi_queue_spec *spec, uint8_t *sum, uint64_t gradients)
{
    const struct psi_sparse s = psi_sparse_of(spec, sum);
    for (uint64_t i = 0; spec->reduction != PSI_REDUCTION_SUM && i < s.count; i++) {
        const uint64_t by = spec->reduction == PSI_REDUCTION_MEAN ? (uint64_t)psi_sparse_number(s.counts, i) : gradients;
        psd_sum_average(spec->components[0].dtype, s.rows + i * s.row_bytes, by, s.columns);
    }
}

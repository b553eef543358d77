/* SPDX-License-Identifier: Apache-2.0 */
/* The reference's numbers for a whole variable, as a row of a larger one: TensorFlow's sparse kernels (SparseApply*) do to each
 * row what the dense ones do to a variable. */
#ifndef TESTS_PARITY_BY_ROW_H
#define TESTS_PARITY_BY_ROW_H

#include "psd/optim/optim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { BY_ROW_ROWS = 5, BY_ROW_BYTES_MAX = 33 * sizeof(double), BY_ROW_FILL = 0x3f };

/* psd_optim_apply(), with the variable and its slots as row `row` of five. The other rows stay as they are. */
static inline void apply_by_row(uint32_t kind, ps_dtype dtype, const struct psd_optim_scalars *scalars, void *var,
                                void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, size_t elements, uint64_t row)
{
    static _Alignas(64) uint8_t rows[1 + PSD_OPTIM_SLOTS_MAX][BY_ROW_ROWS * BY_ROW_BYTES_MAX], before[sizeof(rows)];
    const size_t bytes = elements * ps_dtype_bytes(dtype);
    void *const wide[PSD_OPTIM_SLOTS_MAX] = {rows[1], rows[2], rows[3], rows[4]};
    memset(rows, BY_ROW_FILL, sizeof(rows));
    for (uint32_t k = 0; k <= PSD_OPTIM_SLOTS_MAX; k++) {
        const void *from = k == 0 ? var : slots[k - 1];
        if (from != NULL) {
            memcpy(rows[k] + row * bytes, from, bytes);
        }
    }
    memcpy(before, rows, sizeof(before));
    psd_optim_apply_rows(kind, dtype, dtype, scalars, rows[0], wide, grad, (const uint8_t *)&row, 0, elements);
    assert_memory_equal(before, rows, sizeof(before)); /* no rows: nothing */
    psd_optim_apply_rows(kind, dtype, dtype, scalars, rows[0], wide, grad, (const uint8_t *)&row, 1, elements);
    for (uint32_t k = 0; k <= PSD_OPTIM_SLOTS_MAX; k++) {
        void *to = k == 0 ? var : slots[k - 1];
        if (to != NULL) {
            memcpy(to, rows[k] + row * bytes, bytes);
        }
        memcpy(rows[k] + row * bytes, before + k * sizeof(rows[0]) + row * bytes, bytes);
    }
    assert_memory_equal(before, rows, sizeof(before));
}

#endif

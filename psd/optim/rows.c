/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An optimizer applied to some rows of a variable and of its slots: TensorFlow 1.15 core/kernels/training_ops.cc, the SparseApply
 * operations, whose rules are those of the dense ones, row by row.
 *
 * Happy path: rows that lie apart are copied side by side, a few KiB at a time, so that the rule's loops have whole vectors and
 * ask for no memory behind a row; then they are copied back. Rows that are asked for some rows ahead come from memory at the same
 * time. Long rows are changed where they lie. Cannot fail.
 */
#include "kernels.h"

#include "common/rows.h"

#include <string.h>

enum {
    BLOCK_BYTES = 4096, /* of each array, on the stack: in the first cache */
    LONG_BYTES = 2048,  /* of a row that is changed where it lies */
    AHEAD_ROWS = 16
};

/* What lies at this row, for 16 bytes and more at a time. */
PSD_INLINE void copy(void *restrict to, const void *restrict from, size_t bytes)
{
    if (bytes == 64) {
        memcpy(to, from, 64);
    } else {
        memcpy(to, from, bytes);
    }
}

static void ask_for(const uint8_t *row, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += PSD_LINE_BYTES) {
        __builtin_prefetch(row + at, 1);
    }
}

void psd_optim_apply_rows(uint32_t kind, ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                          void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, const uint8_t *indices, size_t rows,
                          size_t columns)
{
    _Alignas(64) uint8_t block[1 + PSD_OPTIM_SLOTS_MAX][BLOCK_BYTES];
    const size_t row_bytes = columns * ps_dtype_bytes(dtype), grad_bytes = columns * ps_dtype_bytes(wire);
    uint8_t *arrays[1 + PSD_OPTIM_SLOTS_MAX] = {var};
    void *at[PSD_OPTIM_SLOTS_MAX] = {NULL};
    uint32_t count = 1;
    for (; count <= PSD_OPTIM_SLOTS_MAX && slots[count - 1] != NULL; count++) {
        arrays[count] = slots[count - 1];
    }
    const uint8_t *g = grad;
    const size_t most = row_bytes > LONG_BYTES ? 1 : BLOCK_BYTES / row_bytes;
    for (size_t first = 0; first < rows; first += most, g += most * grad_bytes) {
        const size_t n = rows - first < most ? rows - first : most;
        if (row_bytes > LONG_BYTES) {
            const uint64_t place = psi_rows_index(indices, first) * row_bytes;
            for (uint32_t k = 1; k < count; k++) {
                at[k - 1] = arrays[k] + place;
            }
            psd_optim_apply(kind, dtype, wire, scalars, arrays[0] + place, at, g, columns);
            continue;
        }
        for (size_t i = 0; i < n; i++) {
            const uint64_t place = psi_rows_index(indices, first + i) * row_bytes;
            const uint64_t ahead =
                first + i + AHEAD_ROWS < rows ? psi_rows_index(indices, first + i + AHEAD_ROWS) * row_bytes : place;
            for (uint32_t k = 0; k < count; k++) {
                ask_for(arrays[k] + ahead, row_bytes);
                copy(block[k] + i * row_bytes, arrays[k] + place, row_bytes);
            }
        }
        for (uint32_t k = 1; k < count; k++) {
            at[k - 1] = block[k];
        }
        psd_optim_apply(kind, dtype, wire, scalars, block[0], at, g, n * columns);
        for (size_t i = 0; i < n; i++) {
            const uint64_t place = psi_rows_index(indices, first + i) * row_bytes;
            for (uint32_t k = 0; k < count; k++) {
                copy(arrays[k] + place, block[k] + i * row_bytes, row_bytes);
            }
        }
    }
}

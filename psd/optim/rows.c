/* SPDX-License-Identifier: Apache-2.0 */
/* Applies an optimizer to some rows of a variable and of its slots, each row by the rule for whole variables. Source: TensorFlow
 * 1.15 core/kernels/training_ops.cc, the SparseApply operations.
 *
 * Happy path: short rows, which lie apart, are copied side by side, a few KiB at a time, so that the rule's loops have whole
 * vectors; after the rule the rows are copied back. Each row is prefetched AHEAD_ROWS rows before it is copied, so that several
 * rows come from memory at the same time. Long rows are changed in place. Cannot fail. */
#include "kernels.h"

#include "common/rows.h"

#include <string.h>

enum {
    BLOCK_BYTES = 4096, /* bytes of each array on the stack; all arrays fit into the first-level cache */
    LONG_BYTES = 2048,  /* a row of more bytes is changed in place */
    AHEAD_ROWS = 16
};

/* Copy a row. Rows of 64 bytes are common: the compiler inlines a copy of constant size. */
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

struct array {
    uint8_t *memory;
    size_t row_bytes;
};

static uint32_t arrays_of(uint32_t kind, size_t width, size_t columns, void *var, void *const slots[PSD_OPTIM_SLOTS_MAX],
                          struct array out[1 + PSD_OPTIM_SLOTS_MAX])
{
    const struct psi_slot *own = psi_optimizer_rows[kind].slots;
    uint32_t count = 1;
    out[0] = (struct array){var, columns * width};
    for (; count <= PSD_OPTIM_SLOTS_MAX && slots[count - 1] != NULL; count++) {
        out[count] = (struct array){slots[count - 1], (own[count - 1].by_row ? 1 : columns) * width};
    }
    return count;
}

void psd_optim_apply_rows(uint32_t kind, ps_dtype dtype, ps_dtype wire, const struct psd_optim_scalars *scalars, void *var,
                          void *const slots[PSD_OPTIM_SLOTS_MAX], const void *grad, const uint8_t *indices, size_t rows,
                          size_t columns)
{
    _Alignas(64) uint8_t block[1 + PSD_OPTIM_SLOTS_MAX][BLOCK_BYTES];
    const size_t row_bytes = columns * ps_dtype_bytes(dtype), grad_bytes = columns * ps_dtype_bytes(wire);
    struct array arrays[1 + PSD_OPTIM_SLOTS_MAX];
    void *at[PSD_OPTIM_SLOTS_MAX] = {NULL};
    const uint32_t count = arrays_of(kind, ps_dtype_bytes(dtype), columns, var, slots, arrays);
    const uint8_t *g = grad;
    const size_t most = row_bytes > LONG_BYTES ? 1 : BLOCK_BYTES / row_bytes;
    for (size_t first = 0; first < rows; first += most, g += most * grad_bytes) {
        const size_t n = rows - first < most ? rows - first : most;
        if (row_bytes > LONG_BYTES) {
            const uint64_t index = psi_rows_index(indices, first);
            for (uint32_t k = 1; k < count; k++) {
                at[k - 1] = arrays[k].memory + index * arrays[k].row_bytes;
            }
            psd_optim_apply(kind, dtype, wire, scalars, arrays[0].memory + index * row_bytes, at, g, columns);
            continue;
        }
        for (size_t i = 0; i < n; i++) {
            const uint64_t index = psi_rows_index(indices, first + i);
            const uint64_t ahead = first + i + AHEAD_ROWS < rows ? psi_rows_index(indices, first + i + AHEAD_ROWS) : index;
            for (uint32_t k = 0; k < count; k++) {
                const size_t bytes = arrays[k].row_bytes;
                ask_for(arrays[k].memory + ahead * bytes, bytes);
                copy(block[k] + i * bytes, arrays[k].memory + index * bytes, bytes);
            }
        }
        for (uint32_t k = 1; k < count; k++) {
            at[k - 1] = block[k];
        }
        psd_optim_apply_beside(kind, dtype, wire, scalars, block[0], at, g, n, columns);
        for (size_t i = 0; i < n; i++) {
            const uint64_t index = psi_rows_index(indices, first + i);
            for (uint32_t k = 0; k < count; k++) {
                copy(arrays[k].memory + index * arrays[k].row_bytes, block[k] + i * arrays[k].row_bytes, arrays[k].row_bytes);
            }
        }
    }
}

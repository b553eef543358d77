/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a variable, as PUSH_ROWS and SCATTER carry them and GATHER asks for them. The first dimension of a variable is its
 * number of rows; the other dimensions are the shape of a row. Pure, any thread. The payload of a frame of rows is a list of
 * segments. A segment has the indices of its rows, u64 each, and behind them the rows, in the same order. Each segment but the
 * last one of the operation has as many whole rows as fit 64 KiB, and zeros behind them up to 64 KiB. So a segment can be checked
 * whole before a row is touched, and the place of row k follows from k. */
#ifndef PSI_ROWS_H
#define PSI_ROWS_H

#include "limits.h"
#include "status.h"

enum {
    PSI_INDEX_BYTES = 8,
    PSI_ROW_BYTES_MAX = PS_SEGMENT_BYTES - PSI_INDEX_BYTES, /* a row and its index fill one segment */
    PSI_GATHER_ROWS_MAX = PS_CONTROL_BODY_MAX / PSI_INDEX_BYTES
};

/** Compute the number of rows of a shape, and of elements in a row. INVALID_ARGUMENT, naming the variable `name`: a scalar,
 * strings, or rows larger than PSI_ROW_BYTES_MAX. */
PSI_MUST ps_status psi_rows_of(const char *name, const ps_shape *shape, ps_dtype dtype, uint64_t *out_rows, uint64_t *out_columns,
                               struct psi_err *err);

/** Bytes of a row of row_bytes (at most PSI_ROW_BYTES_MAX) with its index. */
static inline uint32_t psi_rows_unit(uint64_t row_bytes)
{
    return (uint32_t)(PSI_INDEX_BYTES + row_bytes);
}
static inline uint32_t psi_rows_per_segment(uint32_t unit)
{
    return PS_SEGMENT_BYTES / unit;
}
static inline uint64_t psi_rows_payload(uint64_t rows, uint32_t unit)
{
    const uint64_t per = psi_rows_per_segment(unit), whole = rows == 0 ? 0 : (rows - 1) / per;
    return whole * PS_SEGMENT_BYTES + (rows - whole * per) * unit;
}

/** Read entry i of a list of row indices, each 8 bytes, little-endian, at any alignment. */
static inline uint64_t psi_rows_index(const uint8_t *indices, uint64_t i)
{
    uint64_t index = 0;
    __builtin_memcpy(&index, indices + i * PSI_INDEX_BYTES, sizeof(index));
    return index;
}

/** Check `count` indices: each above the one before, the first one above `before`, and all below `rows`.
 *
 * first    position of the first of these indices in the whole operation, for the error's text.
 * before   the index before the first one; UINT64_MAX: there is none.
 *
 * Errors   OUT_OF_RANGE, INVALID_ARGUMENT (not above the one before): which index, and where it stands. */
PSI_MUST ps_status psi_rows_check(const uint8_t *indices, uint64_t count, uint64_t first, uint64_t before, uint64_t rows,
                                  struct psi_err *err);

#endif

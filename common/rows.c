/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a shape, and the check of a segment. Failure: an index not above the one before it, or not below the number of rows. */
#include "rows.h"

#include "shape.h"

ps_status psi_rows_of(const char *name, const ps_shape *shape, ps_dtype dtype, uint64_t *out_rows, uint64_t *out_columns,
                      struct psi_err *err)
{
    uint64_t columns = 1;
    if (shape->rank == 0 || dtype == PS_STRING) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "'%s' has no rows: it %s", name,
                        dtype == PS_STRING ? "holds strings, which are read and assigned whole" : "is a scalar");
    }
    for (uint32_t i = 1; i < shape->rank; i++) {
        columns *= (uint64_t)shape->dims[i]; /* cannot overflow: psi_shape_check() has checked the product of all dimensions */
    }
    if (columns * ps_dtype_bytes(dtype) > PSI_ROW_BYTES_MAX) {
        return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_TOO_LARGE,
                           "'%s' has rows of %llu bytes; a row that travels by its index has at most %d", name,
                           (unsigned long long)(columns * ps_dtype_bytes(dtype)), PSI_ROW_BYTES_MAX);
    }
    *out_rows = (uint64_t)shape->dims[0];
    *out_columns = columns;
    return PS_OK;
}

static ps_status fail_index(const uint8_t *indices, uint64_t count, uint64_t first, uint64_t before, uint64_t rows,
                            struct psi_err *err)
{
    uint64_t last = before;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t index = psi_rows_index(indices, i);
        if (index >= rows) {
            return psi_fail(err, PS_OUT_OF_RANGE, "index %llu of row %llu is outside [0, %llu)", (unsigned long long)index,
                            (unsigned long long)(first + i), (unsigned long long)rows);
        }
        if (last != UINT64_MAX && index <= last) {
            return psi_fail(
                err, PS_INVALID_ARGUMENT,
                "index %llu of row %llu does not rise: the one before is %llu; indices are sorted, and each comes once",
                (unsigned long long)index, (unsigned long long)(first + i), (unsigned long long)last);
        }
        last = index;
    }
    return PS_OK;
}

ps_status psi_rows_check(const uint8_t *indices, uint64_t count, uint64_t first, uint64_t before, uint64_t rows,
                         struct psi_err *err)
{
    uint64_t next = before + 1; /* lowest index that may come; 0 if `before` is UINT64_MAX: there is no index before */
    bool good = true;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t index = psi_rows_index(indices, i);
        good = good && index >= next && index < rows; /* the last one alone is not enough: after UINT64_MAX, `next` is 0 */
        next = index + 1;
    }
    return good ? PS_OK : fail_index(indices, count, first, before, rows, err);
}

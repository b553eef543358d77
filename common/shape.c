/* SPDX-License-Identifier: Apache-2.0 */
/* Shape and dtype checks. Everything is computed with overflow checks before any value is trusted. */
#include "shape.h"

#include "limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool psi_mul_bytes(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) {
        return false;
    }
    *out = product;
    return true;
}

ps_status psi_shape_check(const ps_shape *shape, struct psi_err *err)
{
    char text[PSI_SHAPE_TEXT_MAX];
    if (shape->rank > PS_RANK_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "shape of rank %" PRIu32 ": at most %d dimensions are allowed", shape->rank,
                        PS_RANK_MAX);
    }
    uint64_t bytes = 8; /* size of the widest dtype, so that a shape is good or bad for all dtypes */
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] < 0) {
            return psi_fail(err, PS_INVALID_ARGUMENT,
                            "shape %s: dimension %" PRIu32 " is %" PRId64 "; a dimension must be known, 0 or more",
                            psi_shape_format(shape, text, sizeof(text)), i, shape->dims[i]);
        }
    }
    for (uint32_t i = 0; i < shape->rank; i++) {
        /* a dimension of 0 counts as 1, because rows of (0, 10) have 10 elements each */
        const uint64_t dim = shape->dims[i] == 0 ? 1 : (uint64_t)shape->dims[i];
        if (!psi_mul_bytes(bytes, dim, &bytes) || bytes > PS_VARIABLE_BYTES_MAX) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "shape %s: more than %" PRIu64 " elements%s",
                            psi_shape_format(shape, text, sizeof(text)), PS_VARIABLE_BYTES_MAX / 8,
                            ps_shape_elements(shape) == 0 ? ", its dimensions of 0 left out" : "");
        }
    }
    return PS_OK;
}

bool psi_shape_equal(const ps_shape *a, const ps_shape *b)
{
    if (a->rank != b->rank) {
        return false;
    }
    for (uint32_t i = 0; i < a->rank && i < PS_RANK_MAX; i++) {
        if (a->dims[i] != b->dims[i]) {
            return false;
        }
    }
    return true;
}

const char *psi_shape_format(const ps_shape *shape, char *buf, size_t n)
{
    if (n == 0) {
        return "";
    }
    if (shape->rank > PS_RANK_MAX) {
        PSI_IGNORE(snprintf(buf, n, "(invalid rank %" PRIu32 ")", shape->rank));
        return buf;
    }
    char text[PSI_SHAPE_TEXT_MAX + 8];
    size_t used = 0;
    text[used++] = '(';
    for (uint32_t i = 0; i < shape->rank; i++) {
        int wrote = snprintf(text + used, sizeof(text) - used, "%s%" PRId64, i == 0 ? "" : ", ", shape->dims[i]);
        PSI_ASSERT(wrote > 0 && (size_t)wrote < sizeof(text) - used);
        used += (size_t)wrote;
    }
    PSI_IGNORE(snprintf(text + used, sizeof(text) - used, "%s", shape->rank == 1 ? ",)" : ")"));
    PSI_IGNORE(snprintf(buf, n, "%s", text)); /* cut if the caller's buffer has less than PSI_SHAPE_TEXT_MAX bytes */
    return buf;
}

#ifndef PS_SIM_FRAME_BODY_MAX
_Static_assert(PS_ATOMIC_BYTES_MAX <= PS_FRAME_BODY_MAX, "an atomic value is read in one frame");
_Static_assert(PS_STRING_BYTES_MAX + (PS_STRING_ELEMENTS_MAX + 1) * 8 <= PS_FRAME_BODY_MAX, "and so is a string value");
#endif

ps_status psi_variable_check(ps_dtype dtype, const ps_shape *shape, bool atomic, struct psi_err *err)
{
    const uint64_t atomic_max = PS_FRAME_BODY_MAX < PS_ATOMIC_BYTES_MAX ? PS_FRAME_BODY_MAX : PS_ATOMIC_BYTES_MAX;
    char text[PSI_SHAPE_TEXT_MAX];
    if (!psi_dtype_known((uint32_t)dtype)) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "unknown dtype %d; allowed: float32 float64 int32 int64 bool float16 bfloat16 int8 uint8 string",
                        (int)dtype);
    }
    ps_status st = psi_shape_check(shape, err);
    if (st != PS_OK) {
        return st;
    }
    uint64_t elements = (uint64_t)ps_shape_elements(shape);
    if (dtype == PS_STRING && elements > PS_STRING_ELEMENTS_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "shape %s: %llu strings; at most %zu are allowed",
                        psi_shape_format(shape, text, sizeof(text)), (unsigned long long)elements, PS_STRING_ELEMENTS_MAX);
    }
    if (atomic && elements * ps_dtype_bytes(dtype) > atomic_max) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "shape %s: an atomic value of %llu bytes; at most %llu are allowed",
                        psi_shape_format(shape, text, sizeof(text)), (unsigned long long)(elements * ps_dtype_bytes(dtype)),
                        (unsigned long long)atomic_max);
    }
    return PS_OK;
}

uint32_t psi_wire_unit(ps_dtype dtype)
{
    return dtype == PS_STRING ? 1 : (uint32_t)ps_dtype_bytes(dtype);
}

bool psi_wire_fits(ps_dtype dtype, uint32_t wire)
{
    return wire == (uint32_t)dtype || (dtype == PS_F32 && (wire == PS_F16 || wire == PS_BF16));
}

ps_reason psi_mismatch(bool same_shape, bool same_optimizer)
{
    return !same_shape ? PS_REASON_SHAPE_MISMATCH : !same_optimizer ? PS_REASON_OPTIMIZER_MISMATCH : PS_REASON_ATOMIC_MISMATCH;
}

bool psi_dtype_known(uint32_t number)
{
    return number > PS_DTYPE_NONE && number <= PS_STRING;
}

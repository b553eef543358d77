/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes and dtypes: checks that come before any size is computed from what a peer or user said. Pure, any thread. */
#ifndef PSI_SHAPE_H
#define PSI_SHAPE_H

#include "status.h"

/** Longest text of psi_shape_format with its NUL: 8 dimensions of 19 digits. */
#define PSI_SHAPE_TEXT_MAX 192

/** *out = a * b and true; false (out untouched) where the product does not fit 64 bits. */
PSI_MUST bool psi_mul_bytes(uint64_t a, uint64_t b, uint64_t *out);

/**
 * A shape that a variable may have: rank <= PS_RANK_MAX, every dimension >= 1, elements * 8 <= PS_VARIABLE_BYTES_MAX.
 * Errors  PS_INVALID_ARGUMENT, naming the shape and the dimension.
 */
PSI_MUST ps_status psi_shape_check(const ps_shape *shape, struct psi_err *err);

/** Same rank and dimensions (dims past the rank do not count). */
bool psi_shape_equal(const ps_shape *a, const ps_shape *b);

/** As NumPy prints it: "()", "(10,)", "(64, 10)". A rank over the limit gives "(invalid rank N)". Returns buf. */
const char *psi_shape_format(const ps_shape *shape, char *buf, size_t n);

/** The number on the wire or in a file is that of a dtype (PS_DTYPE_NONE is none). */
bool psi_dtype_known(uint32_t number);
/** "float32", "bfloat16", ... as ps_dtype_name() gives them, also "f32", "bf16", ... Errors PS_INVALID_ARGUMENT with the list. */
PSI_MUST ps_status psi_dtype_parse(const char *name, ps_dtype *out_dtype, struct psi_err *err);

#endif

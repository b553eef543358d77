/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes and dtypes: checks before any size is computed from what a peer or user said. Pure, any thread. */
#ifndef PSI_SHAPE_H
#define PSI_SHAPE_H

#include "status.h"

/** Longest text of psi_shape_format with its NUL: 8 dimensions of 19 digits. */
#define PSI_SHAPE_TEXT_MAX 192

/** *out = a * b. False: the product does not fit 64 bits, and *out is unchanged. */
PSI_MUST bool psi_mul_bytes(uint64_t a, uint64_t b, uint64_t *out);

/**
 * Check that a variable can have the shape: rank <= PS_RANK_MAX, every dimension >= 0. The product of the dimensions that are
 * not 0, times 8, is <= PS_VARIABLE_BYTES_MAX, so that no product of some of them overflows. With a dimension of 0 there are no
 * elements, and the value has no bytes.
 * Errors  PS_INVALID_ARGUMENT, naming the shape and the dimension.
 */
PSI_MUST ps_status psi_shape_check(const ps_shape *shape, struct psi_err *err);

/** Rank and dimensions are equal (dims past the rank do not count). */
bool psi_shape_equal(const ps_shape *a, const ps_shape *b);

/** As NumPy prints it: "()", "(10,)", "(64, 10)". A rank over the limit gives "(invalid rank N)". Returns buf. */
const char *psi_shape_format(const ps_shape *shape, char *buf, size_t n);

/** Check what a variable may be: dtype known, shape good, strings at most PS_STRING_ELEMENTS_MAX, atomic values within their
 * bound. Errors  PS_INVALID_ARGUMENT. */
PSI_MUST ps_status psi_variable_check(ps_dtype dtype, const ps_shape *shape, bool atomic, struct psi_err *err);

/** The number, from the wire or a file, is a dtype's (PS_DTYPE_NONE is none). */
bool psi_dtype_known(uint32_t number);
/** Bytes that a unit of offsets and totals means in frames: those of an element; 1 for strings (bytes of the blob). */
uint32_t psi_wire_unit(ps_dtype dtype);
/** Values of `dtype` may travel as `wire`: unchanged, or float32 as float16 or bfloat16. */
bool psi_wire_fits(ps_dtype dtype, uint32_t wire);
/** Begins the text about two definitions that differ: in dtype and shape, or else in the optimizer's kind, or else in atomic. */
ps_reason psi_mismatch(bool same_shape, bool same_optimizer);
/** The remedy, which ends that text. */
#define PSI_MISMATCH_REMEDY "; another --container keeps the two apart, `psctl reset` takes the old one away"

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes and dtypes: checks before any size is computed from what a peer or user said. Pure, any thread. */
#ifndef PSI_SHAPE_H
#define PSI_SHAPE_H

#include "status.h"

/** Longest text of psi_shape_format with its NUL: 8 dimensions of 19 digits. */
#define PSI_SHAPE_TEXT_MAX 192

/** *out = a * b. False: the product does not fit 64 bits, and *out is unchanged. */
PSI_MUST bool psi_mul_bytes(uint64_t a, uint64_t b, uint64_t *out);

/** Check that a variable can have the shape: rank <= PS_RANK_MAX, every dimension >= 0. The product of the dimensions that are
 * not 0, times 8, is <= PS_VARIABLE_BYTES_MAX, so no computation of a size overflows. A dimension of 0 means no elements.
 *
 * Errors  PS_INVALID_ARGUMENT, naming the shape and the dimension. */
PSI_MUST ps_status psi_shape_check(const ps_shape *shape, struct psi_err *err);

/** True if rank and dimensions are equal; dims beyond the rank do not matter. */
bool psi_shape_equal(const ps_shape *a, const ps_shape *b);

/** Write the shape as NumPy does: "()", "(10,)", "(64, 10)". A rank over the limit gives "(invalid rank N)". Returns buf. */
const char *psi_shape_format(const ps_shape *shape, char *buf, size_t n);

/** Check that a variable can have this dtype and shape: psi_shape_check(); at most PS_STRING_ELEMENTS_MAX strings; if atomic, a
 * value of at most PS_ATOMIC_BYTES_MAX. Errors: PS_INVALID_ARGUMENT. */
PSI_MUST ps_status psi_variable_check(ps_dtype dtype, const ps_shape *shape, bool atomic, struct psi_err *err);

/** True if `number`, from the network or a file, is a dtype. PS_DTYPE_NONE is not one. */
bool psi_dtype_known(uint32_t number);
/** Returns the bytes of the unit in which frames count values: the size of an element; for strings 1 (blob.h encodes them). */
uint32_t psi_wire_unit(ps_dtype dtype);
/** True if values of `dtype` may be sent as `wire`: as they are, or float32 as float16 or bfloat16. */
bool psi_wire_fits(ps_dtype dtype, uint32_t wire);
/** Returns the reason for the error "an existing variable differs from the requested one". same_shape false: dtype or shape
 * differs; otherwise, same_optimizer false: the kind of optimizer differs; otherwise `atomic` does. */
ps_reason psi_mismatch(bool same_shape, bool same_optimizer);
/** End of the text of the psi_mismatch() error: what the user can do. */
#define PSI_MISMATCH_REMEDY "; another --container keeps the two apart, `psctl reset` takes the old one away"

#endif

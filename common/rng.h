/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers as functions of their arguments: counter-based for initializers, a small generator for all else. Only + - * /
 * sqrt and integers, without contraction, so that every IEEE machine gives equal bits. Not for secrets. Pure, any thread. */
#ifndef PSI_RNG_H
#define PSI_RNG_H

#include "ps_types.h"

/** Philox4x32-10 (Salmon et al. 2011): four words from a 128-bit counter and a 64-bit key. */
void psi_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/** Write elements first .. first + count - 1 of a variable's initial value to dst (count elements of dtype). Element i is a
 * function of (initializer, dtype, shape, seed, name, i) only, so any split of the range gives equal bytes.
 *
 * init     has passed psi_initializer_check() for dtype and shape (asserted); any layout of fans.
 * name     the full variable name, NUL-terminated.
 * dst      aligned for dtype. */
void psi_init_fill(const ps_initializer *init, ps_dtype dtype, const ps_shape *shape, uint64_t seed, const char *name,
                   uint64_t first, uint64_t count, void *dst);

/** Number of inputs and outputs of a layer with weights of this shape, as by TensorFlow's _compute_fans. () gives 1, 1; (n): n,
 * n; (i, o): i, o; (.., i, o): the product of the other dimensions times i, and times o. */
void psi_compute_fans(const ps_shape *shape, double *out_fan_in, double *out_fan_out);

/** Returns an initializer that gives a variable of this shape the same values as init, but names no layout of fans (ps_fan), so
 * that a ps of a release without layouts understands it. init has passed psi_initializer_check() for the shape. */
ps_initializer psi_initializer_plain(const ps_initializer *init, const ps_shape *shape);

/** Next value of splitmix64 (Steele, Lea and Flood 2014); any initial state. */
uint64_t psi_random_u64(uint64_t *state);
/** Uniform in [0, bound), bound > 0, without bias. *state moves on. */
uint64_t psi_random_below(uint64_t *state, uint64_t bound);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The norm of a gradient, and the factor that limits it. A client limits what it pushes, the owners of variables in rounds limit
 * averages: the same numbers have the same factor on every CPU, in whatever pieces they come. */
#ifndef PSI_SQUARES_H
#define PSI_SQUARES_H

#include "status.h"

#include <stdint.h>

enum { PSI_SQUARES_LANES = 16 };

/** A sum of squares, added piece by piece; at first all 0. The square of element i is in lanes[i % PSI_SQUARES_LANES]. */
struct psi_squares {
    double lanes[PSI_SQUARES_LANES];
    uint64_t count;
};

/** Add the squares of the next elements, of dtype PS_F32 or PS_F64. */
void psi_squares_add(struct psi_squares *s, ps_dtype dtype, const void *x, uint64_t elements);
/** The sum of the squares that were added. The lanes are added in their order, so that all CPUs have the same bits. */
double psi_squares_sum(const struct psi_squares *s);
/** The factor by which a gradient with this sum of squares is multiplied to limit its norm to max_norm (> 0): min(1, max_norm /
 * sqrt(squares)), at least FLT_MIN; 1 if the norm is not finite. */
float psi_clip_factor(double squares, double max_norm);
/** Check that max_norm is finite and > 0; otherwise INVALID_ARGUMENT. */
ps_status psi_max_norm_check(double max_norm, struct psi_err *err) PSI_MUST;

#endif

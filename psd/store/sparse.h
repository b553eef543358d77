/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of gradients of rows, in elements of a SPARSE_ACCUMULATOR (common/sparse.h). */
#ifndef PSD_STORE_SPARSE_H
#define PSD_STORE_SPARSE_H

#include "common/sparse.h"

/** Number of different rows of the elements a and b. */
uint64_t psd_sparse_joined(const struct psi_queue_spec *spec, const uint8_t *a, const uint8_t *b);
/** Add `gradient` to `sum`, which has all rows of the gradient. */
void psd_sparse_add(const struct psi_queue_spec *spec, uint8_t *sum, const uint8_t *gradient);
/** Write the sum of a and b, which has `count` rows (psd_sparse_joined()), to `to`. `to` has room for psi_sparse_bytes(). */
void psd_sparse_join(const struct psi_queue_spec *spec, const uint8_t *a, const uint8_t *b, uint64_t count, uint8_t *to);
/** Divide each row of a sum of `gradients` gradients. MEAN: by the row's own count; MEAN_OF_ALL: by `gradients`; SUM: by 1. */
void psd_sparse_reduce(const struct psi_queue_spec *spec, uint8_t *sum, uint64_t gradients);

#endif

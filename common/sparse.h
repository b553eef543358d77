/* SPDX-License-Identifier: Apache-2.0 */
/* A gradient of some rows, or a sum of such gradients, as an element of a SPARSE_ACCUMULATOR (tuple.h). Its three components,
 * each with a shape of its own:
 *
 *   indices   int64 [n], rising, each below the first dimension of the accumulator's shape
 *   counts    int64 [n], for each row the number of gradients in the sum that have it, >= 1; in a single gradient all 1
 *   rows      [n, shape of a row], in the accumulator's dtype
 *
 * n may be 0. Pure, any thread. */
#ifndef PSI_SPARSE_H
#define PSI_SPARSE_H

#include "tuple.h"

enum { PSI_SPARSE_INDICES, PSI_SPARSE_COUNTS, PSI_SPARSE_ROWS, PSI_SPARSE_COMPONENTS };

/* The parts of an element. The pointers are into the element, and 8-aligned if the element is. */
struct psi_sparse {
    uint64_t count; /* number of rows */
    uint64_t columns, row_bytes;
    uint8_t *indices, *counts, *rows;
};

/** Read number `i` of a list of int64 at any alignment. */
static inline int64_t psi_sparse_number(const uint8_t *list, uint64_t i)
{
    int64_t number = 0;
    __builtin_memcpy(&number, list + i * sizeof(number), sizeof(number));
    return number;
}

/** Write to out the spec of a queue whose elements have the three components of this SPARSE_ACCUMULATOR's elements. */
void psi_sparse_form(const struct psi_queue_spec *spec, struct psi_queue_spec *out);
/** Bytes of an element with `count` rows. */
uint64_t psi_sparse_bytes(const struct psi_queue_spec *spec, uint64_t count);
/** Write heads and padding of an element with `count` rows to memory of psi_sparse_bytes(). The caller writes the rest. */
struct psi_sparse psi_sparse_lay_out(const struct psi_queue_spec *spec, uint64_t count, uint8_t *element);
/** The parts of a checked element (psi_sparse_check()). Write by its pointers only if `element` may be written. */
struct psi_sparse psi_sparse_of(const struct psi_queue_spec *spec, const uint8_t *element);
/** Check that n untrusted bytes are an element of this SPARSE_ACCUMULATOR with counts up to `most`. INVALID_ARGUMENT: the row. */
PSI_MUST ps_status psi_sparse_check(const struct psi_queue_spec *spec, const uint8_t *bytes, uint64_t n, uint64_t most,
                                    struct psi_err *err);

#endif

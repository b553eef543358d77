/* SPDX-License-Identifier: Apache-2.0 */
/* An element of a queue as one piece of memory, on the wire and at its owner. For each component, 8-aligned:
 *
 *   [u64 rank, i64 dims[rank]]   if the queue does not declare its shape
 *   [u64 blob bytes]             if its dtype is string
 *   values, or the blob (common/blob.h), zero-padded to 8
 *
 * An element whose components take no bytes, because each has a declared shape with a dimension of 0, is eight bytes of 0: an
 * element of 0 bytes would have no place in a batch and no bytes to wait for. A batch (enqueue_many, dequeue_many) is several
 * elements one behind the other, each preceded by its length as a u64. Little-endian. Pure, any thread. */
#ifndef PSI_TUPLE_H
#define PSI_TUPLE_H

#include "queue_spec.h"

/** Most bytes before the values of a component: rank, dimensions, length of the blob. */
#define PSI_TUPLE_HEAD_MAX (8 + 8 * PS_RANK_MAX + 8)
#define PSI_TUPLE_BYTES_MIN 8
#define PSI_BATCH_HEAD 8

struct psi_tuple_part {
    ps_shape shape;
    const uint8_t *data;
    uint64_t bytes; /* without padding */
};

uint64_t psi_tuple_padded(uint64_t n);
/** Bytes of every element of a queue. 0: sizes differ (a component of strings or without a declared shape, gradients of rows). */
uint64_t psi_tuple_fixed_bytes(const struct psi_queue_spec *spec);
/** Bytes of a component in an element, with head and padding. data_bytes: length of its values, or of its blob. */
uint64_t psi_tuple_part_bytes(const struct psi_queue_component *c, const ps_shape *shape, uint64_t data_bytes);
/** Write the head of a component, which precedes the values, to dst (room for PSI_TUPLE_HEAD_MAX bytes). Returns its length. */
size_t psi_tuple_head(const struct psi_queue_component *c, const ps_shape *shape, uint64_t data_bytes, uint8_t *dst);
/** Take the next component out of an untrusted element. *p: where the component begins; *left: bytes of the element from there
 * on. Both move behind the component and its padding. *out points into the element. A blob is checked. Errors:
 * PS_INVALID_ARGUMENT: shape, size, blob, or padding that is not 0. */
PSI_MUST ps_status psi_tuple_next(const struct psi_queue_component *c, const uint8_t **p, uint64_t *left,
                                  struct psi_tuple_part *out, struct psi_err *err);
/** Check that n bytes are one element of a queue of this spec. An element of a SPARSE_ACCUMULATOR is as in sparse.h; an item
 * of a WORK queue has at most PSI_WORK_ITEM_BYTES_MAX. PS_INVALID_ARGUMENT names the component. */
PSI_MUST ps_status psi_tuple_check(const struct psi_queue_spec *spec, const uint8_t *bytes, uint64_t n, struct psi_err *err);
/** Take the next element out of a batch; *p, *left move behind it. psi_tuple_check() checks its content. Errors
 * PS_INVALID_ARGUMENT: its length is not 8-aligned, 0, or more than what is left. */
PSI_MUST ps_status psi_batch_next(const uint8_t **p, uint64_t *left, const uint8_t **out_element, uint64_t *out_bytes,
                                  struct psi_err *err);

#endif

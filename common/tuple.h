/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An element of a queue as one piece of memory, on the wire and at its owner. For each component, 8-aligned:
 *
 *   [u64 rank, i64 dims[rank]]   where the queue does not declare its shape
 *   [u64 blob bytes]             where its dtype is string
 *   values, or the blob (common/blob.h), zero-padded to 8
 *
 * An element whose components take no bytes, because each has a declared shape with a dimension of 0, is eight bytes of 0: so no
 * element has 0 bytes, which would be no place in a batch and no bytes to wait for.
 * Several elements (enqueue_many, dequeue_many) lie one behind the other, each behind a u64 with its bytes: a batch.
 * Little-endian. Pure, any thread.
 */
#ifndef PSI_TUPLE_H
#define PSI_TUPLE_H

#include "queue_spec.h"

/** What precedes the values of a component at most: rank, dimensions, blob bytes. */
#define PSI_TUPLE_HEAD_MAX (8 + 8 * PS_RANK_MAX + 8)
/** Bytes of the shortest element. */
#define PSI_TUPLE_BYTES_MIN 8
/** What precedes each element of a batch. */
#define PSI_BATCH_HEAD 8

/** One component of one element. */
struct psi_tuple_part {
    ps_shape shape;
    const uint8_t *data; /* values, or the blob */
    uint64_t bytes;      /* of these, without padding */
};

/** n and what brings it to a multiple of 8. */
uint64_t psi_tuple_padded(uint64_t n);
/** Bytes of every element; 0 where that differs: a shape that is not declared, or strings. */
uint64_t psi_tuple_fixed_bytes(const struct psi_queue_spec *spec);
/** Bytes that a component takes in an element, head and padding too. data_bytes: of its values, or its blob. */
uint64_t psi_tuple_part_bytes(const struct psi_queue_component *c, const ps_shape *shape, uint64_t data_bytes);
/** Write what precedes the values to dst (PSI_TUPLE_HEAD_MAX bytes have room); returns how many bytes it is. */
size_t psi_tuple_head(const struct psi_queue_component *c, const ps_shape *shape, uint64_t data_bytes, uint8_t *dst);
/**
 * Take the next component out of bytes from anybody.
 *
 * p, left  where it begins and how many bytes there are; moved behind it and its padding.
 * out      points into the bytes. A blob is checked.
 * Errors   PS_INVALID_ARGUMENT: shape, size, blob, or padding that is not 0.
 */
PSI_MUST ps_status psi_tuple_next(const struct psi_queue_component *c, const uint8_t **p, uint64_t *left,
                                  struct psi_tuple_part *out, struct psi_err *err);
/** Are these n bytes one element of such a queue, all of them? Of a WORK: at most PSI_WORK_ITEM_BYTES_MAX. Errors
 *  PS_INVALID_ARGUMENT, naming the component. */
PSI_MUST ps_status psi_tuple_check(const struct psi_queue_spec *spec, const uint8_t *bytes, uint64_t n, struct psi_err *err);
/** Take the next element out of a batch; *p, *left are moved behind it. What is in it is psi_tuple_check()'s. Errors
 *  PS_INVALID_ARGUMENT: its length is not 8-aligned, 0, or more than what is left. */
PSI_MUST ps_status psi_batch_next(const uint8_t **p, uint64_t *left, const uint8_t **out_element, uint64_t *out_bytes,
                                  struct psi_err *err);

#endif

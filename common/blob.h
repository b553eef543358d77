/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The value of a string variable as one piece of memory, on the wire and at its owner: i64 offsets[elements + 1], then bytes;
 * element i is bytes [offsets[i], offsets[i + 1]) behind the offsets. Little-endian, 8-aligned. Pure, any thread.
 */
#ifndef PSI_BLOB_H
#define PSI_BLOB_H

#include "status.h"

/** Bytes of the offsets alone: the size of a value whose elements are all empty. elements <= PS_STRING_ELEMENTS_MAX. */
uint64_t psi_blob_bytes_min(uint64_t elements);
/** Size of the largest value. */
uint64_t psi_blob_bytes_max(uint64_t elements);
/** Check that `elements` strings can have this size. Errors: PS_INVALID_ARGUMENT, which says the limit. */
PSI_MUST ps_status psi_blob_size_check(uint64_t bytes, uint64_t elements, struct psi_err *err);
/**
 * Check a blob from anywhere: its size, and that the first offset is 0, none falls, and the last is the end of the blob.
 *
 * blob     [bytes], any alignment, any content.
 * Errors   PS_INVALID_ARGUMENT, naming the size or the element.
 */
PSI_MUST ps_status psi_blob_check(const void *blob, uint64_t bytes, uint64_t elements, struct psi_err *err);
/** Offset i of a checked blob. */
uint64_t psi_blob_offset(const void *blob, uint64_t i);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The value of a string variable in one piece, on the wire and at its owner: i64 offsets[elements + 1], then the bytes of all
 * strings. Element i is bytes [offsets[i], offsets[i + 1]) behind the offsets. Little-endian, 8-aligned. Pure. */
#ifndef PSI_BLOB_H
#define PSI_BLOB_H

#include "status.h"

/** Size of the smallest value, whose strings are all empty: the offsets alone. elements <= PS_STRING_ELEMENTS_MAX. */
uint64_t psi_blob_bytes_min(uint64_t elements);
uint64_t psi_blob_bytes_max(uint64_t elements);
/** Check that `elements` strings can have this size. Errors: PS_INVALID_ARGUMENT, which says the limit. */
PSI_MUST ps_status psi_blob_size_check(uint64_t bytes, uint64_t elements, struct psi_err *err);
/** Check an untrusted blob: its size, and that its offsets begin at 0, never fall, and end at the end of the blob.
 *
 * blob     [bytes], any alignment, any content.
 * Errors   PS_INVALID_ARGUMENT, naming the size or the element. */
PSI_MUST ps_status psi_blob_check(const void *blob, uint64_t bytes, uint64_t elements, struct psi_err *err);
uint64_t psi_blob_offset(const void *blob, uint64_t i);

#endif

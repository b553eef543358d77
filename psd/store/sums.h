/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C of the segments of a variable's value. Each CRC is kept until its segment changes, so that many pulls between two pushes
 * need one computation. If a segment was sent since its previous change, it will most likely be sent again: a change of the whole
 * segment then computes the CRC at once, while the segment is in cache. Otherwise the next pull computes the CRC, so that a
 * variable without pulls costs nothing.
 *
 * Segments are those of a pull from the value's beginning: [k * 64 KiB, (k + 1) * 64 KiB), the last one shorter. A writer that
 * does not call psd_sums_changed() makes clients get a wrong CRC; debug builds check. Memory: 8 bytes for each segment, which do
 * not count in the budget; without memory every CRC is computed again. Nothing here fails. */
#ifndef PSD_SUMS_H
#define PSD_SUMS_H

#include "common/limits.h"

#include <stdint.h>

struct psd_sums {
    uint64_t one;   /* CRC of a value of one segment, with the bits KNOWN and SENT of sums.c */
    uint64_t *many; /* longer values: a word as `one` for each segment; NULL until a CRC is made */
};

/** CRC32C of bytes [offset, offset + bytes) of a value of value_bytes. */
uint32_t psd_sums_get(struct psd_sums *s, const void *value, uint64_t value_bytes, uint64_t offset, uint32_t bytes);
void psd_sums_changed(struct psd_sums *s, const void *value, uint64_t value_bytes, uint64_t offset, uint64_t bytes);
/** Forget the CRCs of the segments that have one of these bytes. Computes no CRC: for changes of a few scattered bytes. */
void psd_sums_forget(struct psd_sums *s, uint64_t value_bytes, uint64_t offset, uint64_t bytes);
/** Forget all CRCs: the value was replaced, maybe by one of another length, or the variable is being freed. */
void psd_sums_reset(struct psd_sums *s);

#endif

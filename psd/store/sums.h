/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC32C of the segments of a variable's value, each kept until the segment changes: what many clients pull between two pushes
 * is summed once. A change makes the CRC of a segment at once, while it is in cache, if the segment was sent since the change
 * before: it will be sent again. Otherwise the CRC is made when a pull needs it, so that variables which are only pushed to pay
 * nothing.
 *
 * Segments are those of a pull from the value's beginning: [k * 64 KiB, (k + 1) * 64 KiB), the last one shorter. A writer that
 * does not call psd_sums_changed() makes clients get a wrong CRC; debug builds compare. Memory: 8 bytes a segment, beside the
 * budget; without it every CRC is made anew. Nothing here fails.
 */
#ifndef PSD_SUMS_H
#define PSD_SUMS_H

#include "common/limits.h"

#include <stdint.h>

struct psd_sums {
    uint64_t one;   /* CRC of a value of one segment, with the bits KNOWN and SENT of sums.c */
    uint64_t *many; /* words as `one`, for the segments of a longer value; NULL until a CRC is made */
};

/** CRC32C of bytes [offset, offset + bytes) of a value of value_bytes. */
uint32_t psd_sums_get(struct psd_sums *s, const void *value, uint64_t value_bytes, uint64_t offset, uint32_t bytes);
void psd_sums_changed(struct psd_sums *s, const void *value, uint64_t value_bytes, uint64_t offset, uint64_t bytes);
/** As psd_sums_changed(), for a few bytes here and there: no CRC is made. */
void psd_sums_forget(struct psd_sums *s, uint64_t value_bytes, uint64_t offset, uint64_t bytes);
/** Another value, maybe of another length, has taken the place of the value, or the variable goes. */
void psd_sums_reset(struct psd_sums *s);

#endif

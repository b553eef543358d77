/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC32C of the segments of a variable's value, each kept until the segment changes: what many clients pull between two pushes is
 * summed once. Of a segment that was sent since its last change the next one makes the CRC at once, while it is in cache: it will
 * be sent again. Otherwise the CRC is made when somebody asks, so that what is only pushed to pays nothing.
 *
 * Segments are those of a pull from the value's beginning: [k * 64 KiB, (k + 1) * 64 KiB), the last one shorter. Who writes to a
 * value says so (psd_sums_changed), or clients get a CRC that does not fit; debug builds compare. Memory: 8 bytes a segment,
 * beside the budget; without it every CRC is made anew. Nothing here fails.
 */
#ifndef PSD_SUMS_H
#define PSD_SUMS_H

#include "common/limits.h"

#include <stdint.h>

struct psd_sums {
    uint64_t one;   /* of a value of one segment: the CRC, KNOWN, SENT */
    uint64_t *many; /* of a longer one; NULL until one of them is made */
};

/** CRC32C of value's bytes [offset, offset + bytes); value_bytes: of all of it. */
uint32_t psd_sums_get(struct psd_sums *s, const void *value, uint64_t value_bytes, uint64_t offset, uint32_t bytes);
/** Bytes [offset, offset + bytes) of the value have changed. */
void psd_sums_changed(struct psd_sums *s, const void *value, uint64_t value_bytes, uint64_t offset, uint64_t bytes);
/** Another value, maybe of another length, has taken the place of the last one; also at the end. */
void psd_sums_reset(struct psd_sums *s);

#endif

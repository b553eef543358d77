/* SPDX-License-Identifier: Apache-2.0 */
/* A table of the CRCs of a value's segments: see sums.h. */
#include "sums.h"

#include "common/crc32c.h"
#include "common/mem.h"
#include "common/status.h"

#define KNOWN (UINT64_C(1) << 32)
#define SENT (UINT64_C(1) << 33) /* bit of a CRC's word: the segment was sent to a client since its last change */

static uint32_t length_of(uint64_t value_bytes, uint64_t offset)
{
    uint64_t left = value_bytes - offset;
    return left < PS_SEGMENT_BYTES ? (uint32_t)left : PS_SEGMENT_BYTES;
}

/* Where s keeps the CRC of the segment at this offset of the value; NULL: s->many is not allocated. */
static uint64_t *place_of(struct psd_sums *s, uint64_t value_bytes, uint64_t offset)
{
    if (value_bytes <= PS_SEGMENT_BYTES) {
        return &s->one;
    }
    return s->many != NULL ? &s->many[offset / PS_SEGMENT_BYTES] : NULL;
}

uint32_t psd_sums_get(struct psd_sums *s, const void *value, uint64_t value_bytes, uint64_t offset, uint32_t bytes)
{
    const uint8_t *at = (const uint8_t *)value + offset;
    if (offset % PS_SEGMENT_BYTES != 0 || bytes != length_of(value_bytes, offset)) {
        return psi_crc32c_far(0, at, bytes);
    }
    if (value_bytes > PS_SEGMENT_BYTES && s->many == NULL) {
        s->many = psi_calloc((value_bytes + PS_SEGMENT_BYTES - 1) / PS_SEGMENT_BYTES, sizeof(*s->many));
    }
    uint64_t *place = place_of(s, value_bytes, offset);
    if (place == NULL) {
        return psi_crc32c_far(0, at, bytes);
    }
    if ((*place & KNOWN) == 0) {
        *place = KNOWN | psi_crc32c_far(0, at, bytes);
    }
    *place |= SENT;
#ifdef PSI_DEBUG
    PSI_ASSERT((uint32_t)*place == psi_crc32c(0, at, bytes)); /* otherwise a writer has forgotten to call psd_sums_changed() */
#endif
    return (uint32_t)*place;
}

void psd_sums_changed(struct psd_sums *s, const void *value, uint64_t value_bytes, uint64_t offset, uint64_t bytes)
{
    uint64_t end = offset + bytes;
    for (uint64_t at = offset / PS_SEGMENT_BYTES * PS_SEGMENT_BYTES; at < end; at += PS_SEGMENT_BYTES) {
        uint64_t *place = place_of(s, value_bytes, at);
        if (place == NULL) {
            return;
        }
        uint32_t length = length_of(value_bytes, at);
        bool whole = at >= offset && at + length <= end;
        bool soon = whole && (*place & SENT) != 0;
        *place = soon ? KNOWN | psi_crc32c(0, (const uint8_t *)value + at, length) : *place & SENT;
    }
}

void psd_sums_forget(struct psd_sums *s, uint64_t value_bytes, uint64_t offset, uint64_t bytes)
{
    const uint64_t end = offset + bytes;
    for (uint64_t at = offset / PS_SEGMENT_BYTES * PS_SEGMENT_BYTES; at < end; at += PS_SEGMENT_BYTES) {
        uint64_t *place = place_of(s, value_bytes, at);
        if (place == NULL) {
            return;
        }
        *place &= SENT;
    }
}

void psd_sums_reset(struct psd_sums *s)
{
    psi_free(s->many);
    *s = (struct psd_sums){0};
}

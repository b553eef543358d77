/* SPDX-License-Identifier: Apache-2.0 */
/* See sums.h. Happy path: a look into the table. */
#include "sums.h"

#include "common/crc32c.h"
#include "common/mem.h"
#include "common/status.h"

#define KNOWN (UINT64_C(1) << 32)

/* Where the CRC of that part is kept; NULL: it is no segment, or there is no memory. */
static uint64_t *place_of(struct psd_sums *s, uint64_t value_bytes, uint64_t offset, uint32_t bytes)
{
    uint64_t left = value_bytes - offset;
    if (offset % PS_SEGMENT_BYTES != 0 || bytes != (left < PS_SEGMENT_BYTES ? left : PS_SEGMENT_BYTES)) {
        return NULL;
    }
    if (value_bytes <= PS_SEGMENT_BYTES) {
        return &s->one;
    }
    if (s->many == NULL) {
        s->many = psi_calloc((value_bytes + PS_SEGMENT_BYTES - 1) / PS_SEGMENT_BYTES, sizeof(*s->many));
    }
    return s->many != NULL ? &s->many[offset / PS_SEGMENT_BYTES] : NULL;
}

uint32_t psd_sums_get(struct psd_sums *s, const void *value, uint64_t value_bytes, uint64_t offset, uint32_t bytes)
{
    const uint8_t *at = (const uint8_t *)value + offset;
    uint64_t *place = place_of(s, value_bytes, offset, bytes);
    if (place == NULL) {
        return psi_crc32c_own(0, at, bytes);
    }
    if (*place == 0) {
        *place = KNOWN | psi_crc32c_own(0, at, bytes);
    }
#ifdef PSI_DEBUG
    PSI_ASSERT((uint32_t)*place == psi_crc32c(0, at, bytes)); /* or somebody has not said that it writes */
#endif
    return (uint32_t)*place;
}

void psd_sums_changed(struct psd_sums *s, uint64_t offset, uint64_t bytes)
{
    s->one = 0;
    if (s->many == NULL || bytes == 0) {
        return;
    }
    for (uint64_t i = offset / PS_SEGMENT_BYTES; i <= (offset + bytes - 1) / PS_SEGMENT_BYTES; i++) {
        s->many[i] = 0;
    }
}

void psd_sums_reset(struct psd_sums *s)
{
    psi_free(s->many);
    *s = (struct psd_sums){0};
}

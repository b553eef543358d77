/* SPDX-License-Identifier: Apache-2.0 */
/* The CRCs that a load wants of what was read for it, for tests that read without a disk. */
#ifndef LOAD_SUM_H
#define LOAD_SUM_H

#include "psd/store/cut.h"
#include "psd/store/load.h"

#include "common/crc32c.h"

/** Of all of it, which is there. */
static inline void load_sum(const struct psd_load_read *r)
{
    for (uint64_t at = 0; r->sums != NULL && at < r->bytes; at += PSD_CUT_BLOCK_BYTES) {
        uint64_t left = r->bytes - at;
        r->sums[at / PSD_CUT_BLOCK_BYTES] =
            psi_crc32c(0, (const uint8_t *)r->to + at, left < PSD_CUT_BLOCK_BYTES ? left : PSD_CUT_BLOCK_BYTES);
    }
}

#endif

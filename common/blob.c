/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of blobs: the size is within bounds, and the offsets never fall, from 0 to the number of bytes of all strings. */
#include "blob.h"

#include <string.h>

uint64_t psi_blob_bytes_min(uint64_t elements)
{
    PSI_ASSERT(elements <= PS_STRING_ELEMENTS_MAX);
    return (elements + 1) * sizeof(int64_t);
}

uint64_t psi_blob_bytes_max(uint64_t elements)
{
    return psi_blob_bytes_min(elements) + PS_STRING_BYTES_MAX;
}

uint64_t psi_blob_offset(const void *blob, uint64_t i)
{
    uint64_t offset = 0;
    memcpy(&offset, (const uint8_t *)blob + i * sizeof(offset), sizeof(offset));
    return offset;
}

ps_status psi_blob_size_check(uint64_t bytes, uint64_t elements, struct psi_err *err)
{
    uint64_t least = psi_blob_bytes_min(elements);
    if (bytes >= least && bytes <= psi_blob_bytes_max(elements)) {
        return PS_OK;
    }
    return psi_fail(err, PS_INVALID_ARGUMENT, "a value of %llu bytes; %llu strings take %llu bytes and their own, at most %zu",
                    (unsigned long long)bytes, (unsigned long long)elements, (unsigned long long)least, PS_STRING_BYTES_MAX);
}

ps_status psi_blob_check(const void *blob, uint64_t bytes, uint64_t elements, struct psi_err *err)
{
    ps_status st = psi_blob_size_check(bytes, elements, err);
    if (st != PS_OK) {
        return st;
    }
    uint64_t end = bytes - psi_blob_bytes_min(elements);
    uint64_t last = 0;
    for (uint64_t i = 0; i <= elements; i++) {
        uint64_t offset = psi_blob_offset(blob, i);
        if ((i == 0 && offset != 0) || offset < last || offset > end) {
            return psi_fail(err, PS_INVALID_ARGUMENT,
                            "string %llu begins at byte %llu, the one before it at %llu, of %llu in all", (unsigned long long)i,
                            (unsigned long long)offset, (unsigned long long)last, (unsigned long long)end);
        }
        last = offset;
    }
    if (last != end) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the strings end at byte %llu of %llu", (unsigned long long)last,
                        (unsigned long long)end);
    }
    return PS_OK;
}

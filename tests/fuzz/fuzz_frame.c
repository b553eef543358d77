/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame reader, fed a stream in pieces that the first byte decides. However it is cut, the same pieces must come out as from
 * one piece, nothing beyond the limits, and every byte must be consumed.
 */
#include "common/crc32c.h"
#include "common/frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* What a stream is read as, as a checksum over its pieces. */
static uint32_t digest(const uint8_t *data, size_t bytes, uint32_t step)
{
    static _Alignas(64) uint8_t buffer[PSI_READER_BUFFER_BYTES];
    struct psi_reader r;
    uint32_t sum = 0;
    psi_reader_init(&r, UINT32_MAX);
    r.buffer = buffer;
    for (size_t at = 0; at < bytes;) {
        size_t n = step == 0 || bytes - at < step ? bytes - at : step;
        const uint8_t *p = data + at;
        at += n;
        step = step == 0 ? 0 : step * 7 % 1021 + 1;
        for (;;) {
            struct psi_err err;
            enum psi_piece piece = psi_reader_next(&r, &p, &n, &err);
            if (piece == PSI_PIECE_NONE) {
                PSI_ASSERT(n == 0);
                break;
            }
            if (piece == PSI_PIECE_BAD) {
                PSI_ASSERT(err.code == PS_INVALID_ARGUMENT && err.text[0] != '\0');
                return psi_crc32c(sum, "bad", 3);
            }
            sum = psi_crc32c(sum, &piece, sizeof(piece));
            if (piece == PSI_PIECE_HEAD) {
                PSI_ASSERT(r.meta_bytes <= PS_META_BYTES_MAX && r.meta_bytes % 8 == 0);
                sum = psi_crc32c(sum, &r.header, sizeof(r.header));
                sum = psi_crc32c(sum, psi_reader_meta(&r), r.meta_bytes);
            } else if (piece == PSI_PIECE_SEGMENT) {
                PSI_ASSERT(r.payload_bytes > 0 && r.payload_bytes <= PS_SEGMENT_BYTES);
                sum = psi_crc32c(sum, r.payload, r.payload_bytes);
            } else if (r.has_trailer) {
                sum = psi_crc32c(sum, &r.trailer, sizeof(r.trailer));
            }
        }
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 1) {
        return 0;
    }
    /* payload is handed out where it lies: the owner keeps streams 8-aligned */
    void *stream = NULL;
    if (posix_memalign(&stream, 64, bytes) != 0) {
        return 0;
    }
    memcpy(stream, data + 1, bytes - 1);
    uint32_t whole = digest(stream, bytes - 1, 0);
    uint32_t cut = digest(stream, bytes - 1, data[0] + 1u);
    free(stream);
    PSI_ASSERT(whole == cut);
    return 0;
}

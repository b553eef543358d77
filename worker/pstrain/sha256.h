/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4), for a digest of a model. */
#ifndef PSTRAIN_SHA256_H
#define PSTRAIN_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BLOCK_BYTES = 64, SHA256_HEX_BYTES = 65 /* with NUL */ };

struct sha256 {
    uint32_t h[8];
    uint64_t bytes;
    uint8_t block[SHA256_BLOCK_BYTES];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t bytes);
/** Write the digest as hexadecimal text; s must not be used afterwards. */
void sha256_end(struct sha256 *s, char hex[SHA256_HEX_BYTES]);

#endif

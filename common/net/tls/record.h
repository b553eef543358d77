/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of an open TLS 1.3 connection, one direction at a time. OpenSSL does the handshake; the records behind
 * it are put together here, in the loop's buffers: OpenSSL's own record layer copies each byte twice and keeps buffers of each
 * connection. Loop thread only. For common/net/tls/ only.
 */
#ifndef PSI_TLS_RECORD_H
#define PSI_TLS_RECORD_H

#include "cipher.h"
#include "openssl.h"
#include "tls.h"

#ifdef PSI_HAVE_TLS

enum {
    PSI_TLS_RECORD_BYTES = 16 << 10, /* of content, the most that TLS allows (RFC 8446, 5.1) */
    PSI_TLS_RECORD_HEAD_BYTES = 5,
    PSI_TLS_RECORD_MORE_BYTES = 22, /* of a record of psd's, beside its content */
    PSI_TLS_SECRET_BYTES = 32       /* of a suite of SHA-256 */
};

struct psi_tls_way {
    struct psi_cipher *cipher; /* has the key; NULL: the direction is not open */
    const struct psi_cipher_row *row;
    uint16_t suite;
    bool seals; /* this side sends */
    uint8_t secret[PSI_TLS_SECRET_BYTES];
    uint8_t iv[PSI_CIPHER_NONCE_BYTES];
    uint64_t records; /* under this key */
};

/** Begin with the traffic secret of the handshake. way is zeroed. false: memory is short; psi_tls_way_end() follows in any case.
 */
bool psi_tls_way_begin(struct psi_tls_way *way, uint16_t suite, const uint8_t secret[PSI_TLS_SECRET_BYTES], bool seals);
/** Zeroes it, the key too. */
void psi_tls_way_end(struct psi_tls_way *way);
/** A key update: the next key. false: memory is short, and the direction is of no use any more. */
bool psi_tls_way_renew(struct psi_tls_way *way);

/** content [n <= PSI_TLS_RECORD_BYTES] as a record: out [n + PSI_TLS_RECORD_MORE_BYTES]. content may be where it comes to lie in
 * out, behind the head; else they do not overlap. false: the cipher fails. */
bool psi_tls_record_seal(struct psi_tls_way *way, uint8_t type, const uint8_t *content, size_t n, uint8_t *out);
/** Bytes of the record at p [n], when they suffice to open or refuse it; else 0. */
size_t psi_tls_record_whole(const uint8_t *p, size_t n);
/** The most content bytes that a record of `whole` bytes can have. */
size_t psi_tls_record_most(size_t whole);
/**
 * Open a record of psi_tls_record_whole() bytes.
 *
 * content  where its content comes: behind its head, or elsewhere, with room for psi_tls_record_most().
 * Returns  0, or the alert by which it is refused. Then what lies at content is nothing, and may not be used.
 */
int psi_tls_record_open(struct psi_tls_way *way, uint8_t *record, size_t bytes, uint8_t *content, uint8_t *out_type,
                        size_t *out_bytes);

#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Records of an open TLS 1.3 connection, one direction at a time. OpenSSL does the handshake; afterwards records are made and
 * read here, in the loop's buffers, because OpenSSL's own record layer copies each byte twice and keeps buffers for each
 * connection. Loop thread only. For common/net/tls/ only. */
#ifndef PSI_TLS_RECORD_H
#define PSI_TLS_RECORD_H

#include "cipher.h"
#include "openssl.h"
#include "tls.h"

#ifdef PSI_HAVE_TLS

enum {
    PSI_TLS_RECORD_BYTES = 16 << 10, /* most content bytes of a record in TLS (RFC 8446, 5.1) */
    PSI_TLS_RECORD_HEAD_BYTES = 5,
    PSI_TLS_RECORD_MORE_BYTES = 22, /* bytes of a record besides its content: head, content type and tag */
    PSI_TLS_SECRET_BYTES = 32
};

struct psi_tls_way {
    struct psi_cipher *cipher; /* has the key; NULL: the direction is not open */
    const struct psi_cipher_row *row;
    uint16_t suite;
    bool seals; /* true: this side encrypts in this direction; false: it decrypts */
    uint8_t secret[PSI_TLS_SECRET_BYTES];
    uint8_t iv[PSI_CIPHER_NONCE_BYTES];
    uint64_t records; /* how many records were made or read with the present key */
};

/** Begin a direction (*way is all 0) with a handshake's traffic secret; false: no memory. Call psi_tls_way_end() in any case. */
bool psi_tls_way_begin(struct psi_tls_way *way, uint16_t suite, const uint8_t secret[PSI_TLS_SECRET_BYTES], bool seals);
void psi_tls_way_end(struct psi_tls_way *way);
/** Go on with the next key, after a key update. false: no memory, and the direction is unusable. */
bool psi_tls_way_renew(struct psi_tls_way *way);

/** Encrypt content [n <= PSI_TLS_RECORD_BYTES] as a record into out [n + PSI_TLS_RECORD_MORE_BYTES]. content may be inside out,
 * just after the record's head; otherwise the two must not overlap. false: the cipher failed. */
bool psi_tls_record_seal(struct psi_tls_way *way, uint8_t type, const uint8_t *content, size_t n, uint8_t *out);
/** Length of the record that begins at p, if its n bytes are enough to decrypt or refuse it; 0: more bytes are needed. */
size_t psi_tls_record_whole(const uint8_t *p, size_t n);
/** How many bytes of content a record of `whole` bytes can have at most. */
size_t psi_tls_record_most(size_t whole);
/** Decrypt a record of psi_tls_record_whole() bytes. content: where to, just after the record's head or elsewhere, with room for
 * psi_tls_record_most(). Returns 0, or the alert that refuses the record; then the bytes at content must not be used. */
int psi_tls_record_open(struct psi_tls_way *way, uint8_t *record, size_t bytes, uint8_t *content, uint8_t *out_type,
                        size_t *out_bytes);

#endif
#endif

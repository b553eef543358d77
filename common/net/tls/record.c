/* SPDX-License-Identifier: Apache-2.0 */
/* Records of TLS 1.3 under the traffic keys of a finished handshake (RFC 8446, 5.2 to 5.5 and 7). See record.h.
 *
 *     head, 5 bytes: 23 3 3 length          ciphertext of: content, its type (1 byte), zeros             tag, 16 bytes
 *     nonce = iv XOR the record's number    additional data = the head    key, iv = Expand-Label(secret, "key" and "iv")
 *
 * Happy path: the secret of a direction -> key and iv -> records, numbered from 0. A key update makes the next secret from the
 * old one, and numbers begin again. Failure modes: without memory, or if the cipher fails: false. The peer's records are checked
 * in the order of the RFC: too long, does not decrypt, too much content, no content type; the alert is returned. */
#include "record.h"

#include "schedule.h"

#include <string.h>

#ifdef PSI_HAVE_TLS

enum {
    TAG_BYTES = PSI_CIPHER_TAG_BYTES,
    AES_KEY_BYTES = 16,
    EXPANSION_BYTES_MAX = 256, /* most bytes of a record besides head and content: RFC 8446, 5.2 */
    /* Bytes of a cache line. A prefetch for the next record saves time: 16 MiB to uncached memory take 4.0 ms instead of 4.7. */
    LINE_BYTES = 64
};

_Static_assert(PSI_TLS_RECORD_MORE_BYTES == PSI_TLS_RECORD_HEAD_BYTES + 1 + TAG_BYTES, "a type and a tag");

static bool key_set(struct psi_tls_way *way)
{
    uint8_t key[PSI_CIPHER_KEY_BYTES_MAX];
    size_t key_bytes = way->suite == PSI_TLS_SUITE_AES ? AES_KEY_BYTES : sizeof(key);
    bool good = psi_tls_schedule_expand(way->secret, "key", key, key_bytes) &&
                psi_tls_schedule_expand(way->secret, "iv", way->iv, sizeof(way->iv)) &&
                way->row->set(way->cipher, way->suite, key, way->seals);
    explicit_bzero(key, sizeof(key));
    way->records = 0;
    return good;
}

bool psi_tls_way_begin(struct psi_tls_way *way, uint16_t suite, const uint8_t secret[PSI_TLS_SECRET_BYTES], bool seals)
{
    PSI_ASSERT(suite == PSI_TLS_SUITE_AES || suite == PSI_TLS_SUITE_CHACHA);
    way->row = psi_cipher_row(suite);
    way->cipher = way->row->make();
    way->suite = suite;
    way->seals = seals;
    memcpy(way->secret, secret, PSI_TLS_SECRET_BYTES);
    return way->cipher != NULL && key_set(way);
}

void psi_tls_way_end(struct psi_tls_way *way)
{
    if (way->row != NULL) {
        way->row->end(way->cipher);
    }
    explicit_bzero(way, sizeof(*way));
}

bool psi_tls_way_renew(struct psi_tls_way *way)
{
    return psi_tls_schedule_expand(way->secret, "traffic upd", way->secret, PSI_TLS_SECRET_BYTES) && key_set(way);
}

/* Make the nonce of the next record, and count the record. */
static void next_nonce(struct psi_tls_way *way, uint8_t nonce[PSI_CIPHER_NONCE_BYTES])
{
    memcpy(nonce, way->iv, PSI_CIPHER_NONCE_BYTES);
    for (unsigned i = 0; i < 8; i++) {
        nonce[PSI_CIPHER_NONCE_BYTES - 1 - i] ^= (uint8_t)(way->records >> (8 * i));
    }
    way->records++;
}

bool psi_tls_record_seal(struct psi_tls_way *way, uint8_t type, const uint8_t *content, size_t n, uint8_t *out)
{
    uint8_t nonce[PSI_CIPHER_NONCE_BYTES];
    const struct psi_cipher_head head = {.nonce = nonce, .data = out, .bytes = PSI_TLS_RECORD_HEAD_BYTES};
    size_t body_bytes = n + 1 + TAG_BYTES;
    PSI_ASSERT(n <= PSI_TLS_RECORD_BYTES && way->seals);
    out[0] = SSL3_RT_APPLICATION_DATA;
    out[1] = out[2] = 3;
    out[3] = (uint8_t)(body_bytes >> 8);
    out[4] = (uint8_t)body_bytes;
    next_nonce(way, nonce);
    return way->row->seal(way->cipher, &head, content, n, type, out + PSI_TLS_RECORD_HEAD_BYTES);
}

size_t psi_tls_record_whole(const uint8_t *p, size_t n)
{
    size_t body_bytes = n < PSI_TLS_RECORD_HEAD_BYTES ? SIZE_MAX : (size_t)p[3] << 8 | p[4];
    if (body_bytes == SIZE_MAX) {
        return 0;
    }
    if (p[0] != SSL3_RT_APPLICATION_DATA || body_bytes > PSI_TLS_RECORD_BYTES + EXPANSION_BYTES_MAX) {
        return PSI_TLS_RECORD_HEAD_BYTES; /* a record that is too long is refused before its body has come */
    }
    return n >= PSI_TLS_RECORD_HEAD_BYTES + body_bytes ? PSI_TLS_RECORD_HEAD_BYTES + body_bytes : 0;
}

size_t psi_tls_record_most(size_t whole)
{
    size_t more = PSI_TLS_RECORD_MORE_BYTES;
    return whole > more ? whole - more : 0;
}

int psi_tls_record_open(struct psi_tls_way *way, uint8_t *record, size_t bytes, uint8_t *content, uint8_t *out_type,
                        size_t *out_bytes)
{
    uint8_t *body = record + PSI_TLS_RECORD_HEAD_BYTES;
    size_t n = (size_t)record[3] << 8 | record[4];
    uint8_t last = 0;
    PSI_ASSERT(bytes >= PSI_TLS_RECORD_HEAD_BYTES && !way->seals);
    if (record[0] != SSL3_RT_APPLICATION_DATA) {
        return SSL_AD_UNEXPECTED_MESSAGE;
    }
    if (n > PSI_TLS_RECORD_BYTES + EXPANSION_BYTES_MAX) {
        return SSL_AD_RECORD_OVERFLOW;
    }
    PSI_ASSERT(bytes == PSI_TLS_RECORD_HEAD_BYTES + n);
    if (n <= TAG_BYTES) { /* too short: the type of the content, 1 byte, must stand before the tag */
        return SSL_AD_BAD_RECORD_MAC;
    }
    n -= TAG_BYTES;
    if (content != body) {
        for (size_t line = 0; line < n; line += LINE_BYTES) {
            __builtin_prefetch(content + n + line, 1); /* for the next record; past the end of memory it does nothing */
        }
    }
    uint8_t nonce[PSI_CIPHER_NONCE_BYTES];
    const struct psi_cipher_head head = {.nonce = nonce, .data = record, .bytes = PSI_TLS_RECORD_HEAD_BYTES};
    next_nonce(way, nonce);
    if (!way->row->open(way->cipher, &head, body, n, content, &last)) {
        return SSL_AD_BAD_RECORD_MAC;
    }
    if (n > PSI_TLS_RECORD_BYTES + 1) { /* includes the padding */
        return SSL_AD_RECORD_OVERFLOW;
    }
    for (n--; last == 0 && n > 0; n--) {
        last = content[n - 1];
    }
    if (last == 0) {
        return SSL_AD_UNEXPECTED_MESSAGE;
    }
    *out_type = last;
    *out_bytes = n;
    return 0;
}

#endif

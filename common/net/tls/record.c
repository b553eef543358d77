/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of TLS 1.3 under the traffic keys of a finished handshake (RFC 8446, 5.2 to 5.5 and 7). See record.h.
 *
 *     head, 5 bytes: 23 3 3 length          ciphertext of: content, its type (1 byte), zeros             tag, 16 bytes
 *     nonce = iv XOR the record's number    additional data = the head    key, iv = Expand-Label(secret, "key" and "iv")
 *
 * Happy path: the secret of a direction -> key and iv -> records, numbered from 0. A key update makes the next secret of the old
 * one, and numbers begin again.
 *
 * Failure modes: memory is short, OpenSSL fails: false. What the peer sends is judged in the order of the RFC: too long, does not
 * decrypt, too much content, no content type; the alert is returned.
 */
#include "record.h"

#include <string.h>

#ifdef PSI_HAVE_TLS

enum {
    TAG_BYTES = 16,
    KEY_BYTES_MAX = 32,
    AES_KEY_BYTES = 16,
    EXPANSION_BYTES_MAX = 256, /* of a record: more than its content, RFC 8446, 5.2 */
    LABEL_BYTES_MAX = 32,
    /* Values come to memory that is not in cache, and the cipher waits for each line of it. When a record asks for the lines of
     * the next one, 16 MiB take 4.0 ms where they took 4.7, and 2.3 to memory in cache. */
    LINE_BYTES = 64
};

_Static_assert(PSI_TLS_RECORD_MORE_BYTES == PSI_TLS_RECORD_HEAD_BYTES + 1 + TAG_BYTES, "a type and a tag");

/* HKDF-Expand-Label without a context, of at most one hash (RFC 8446, 7.1; RFC 5869, 2.3). */
static bool expand(const uint8_t secret[PSI_TLS_SECRET_BYTES], const char *label, uint8_t *out, size_t n)
{
    uint8_t info[4 + LABEL_BYTES_MAX + 1];
    uint8_t hash[PSI_TLS_SECRET_BYTES];
    size_t hash_bytes = 0;
    size_t label_bytes = strlen(label);
    PSI_ASSERT(n <= sizeof(hash) && label_bytes <= LABEL_BYTES_MAX);
    info[0] = 0;
    info[1] = (uint8_t)n;
    info[2] = (uint8_t)label_bytes;
    memcpy(info + 3, label, label_bytes);
    info[3 + label_bytes] = 0; /* no context */
    info[4 + label_bytes] = 1; /* the first block of HKDF-Expand */
    bool good = psi_openssl.EVP_Q_mac(psi_openssl.own, "HMAC", NULL, "SHA256", NULL, secret, PSI_TLS_SECRET_BYTES, info,
                                      5 + label_bytes, hash, sizeof(hash), &hash_bytes) != NULL &&
                hash_bytes == sizeof(hash);
    if (good) {
        memcpy(out, hash, n);
    }
    explicit_bzero(hash, sizeof(hash));
    return good;
}

/* Key and iv of way->secret. */
static bool key_set(struct psi_tls_way *way, const EVP_CIPHER *cipher, size_t key_bytes)
{
    uint8_t key[KEY_BYTES_MAX];
    bool good = expand(way->secret, "tls13 key", key, key_bytes) && expand(way->secret, "tls13 iv", way->iv, sizeof(way->iv)) &&
                psi_openssl.EVP_CipherInit_ex2(way->cipher, cipher, key, NULL, way->seals ? 1 : 0, NULL) == 1;
    explicit_bzero(key, sizeof(key));
    way->records = 0;
    return good;
}

bool psi_tls_way_begin(struct psi_tls_way *way, uint16_t suite, const uint8_t secret[PSI_TLS_SECRET_BYTES], bool seals)
{
    const EVP_CIPHER *cipher = suite == PSI_TLS_SUITE_AES ? psi_openssl.aes : psi_openssl.chacha;
    PSI_ASSERT(suite == PSI_TLS_SUITE_AES || suite == PSI_TLS_SUITE_CHACHA);
    way->cipher = psi_openssl.EVP_CIPHER_CTX_new();
    way->suite = suite;
    way->seals = seals;
    memcpy(way->secret, secret, PSI_TLS_SECRET_BYTES);
    return way->cipher != NULL && key_set(way, cipher, suite == PSI_TLS_SUITE_AES ? AES_KEY_BYTES : KEY_BYTES_MAX);
}

void psi_tls_way_end(struct psi_tls_way *way)
{
    psi_openssl.EVP_CIPHER_CTX_free(way->cipher); /* zeroes the key */
    explicit_bzero(way, sizeof(*way));
}

bool psi_tls_way_renew(struct psi_tls_way *way)
{
    return expand(way->secret, "tls13 traffic upd", way->secret, PSI_TLS_SECRET_BYTES) &&
           key_set(way, NULL, way->suite == PSI_TLS_SUITE_AES ? AES_KEY_BYTES : KEY_BYTES_MAX);
}

/* The next record's nonce and additional data; it is counted. */
static bool record_begin(struct psi_tls_way *way, const uint8_t *head)
{
    uint8_t nonce[sizeof(way->iv)];
    int n = 0;
    memcpy(nonce, way->iv, sizeof(nonce));
    for (unsigned i = 0; i < 8; i++) {
        nonce[sizeof(nonce) - 1 - i] ^= (uint8_t)(way->records >> (8 * i));
    }
    way->records++;
    return psi_openssl.EVP_CipherInit_ex2(way->cipher, NULL, NULL, nonce, -1, NULL) == 1 &&
           psi_openssl.EVP_CipherUpdate(way->cipher, NULL, &n, head, PSI_TLS_RECORD_HEAD_BYTES) == 1;
}

bool psi_tls_record_seal(struct psi_tls_way *way, uint8_t type, const uint8_t *content, size_t n, uint8_t *out)
{
    uint8_t *body = out + PSI_TLS_RECORD_HEAD_BYTES;
    size_t body_bytes = n + 1 + TAG_BYTES;
    int done = 0;
    PSI_ASSERT(n <= PSI_TLS_RECORD_BYTES && way->seals);
    out[0] = SSL3_RT_APPLICATION_DATA;
    out[1] = out[2] = 3;
    out[3] = (uint8_t)(body_bytes >> 8);
    out[4] = (uint8_t)body_bytes;
    bool good = record_begin(way, out) &&
                (n == 0 || psi_openssl.EVP_CipherUpdate(way->cipher, body, &done, content, (int)n) == 1) &&
                psi_openssl.EVP_CipherUpdate(way->cipher, body + n, &done, &type, 1) == 1 &&
                psi_openssl.EVP_CipherFinal_ex(way->cipher, body + n + 1, &done) == 1;
    return good && psi_openssl.EVP_CIPHER_CTX_ctrl(way->cipher, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES, body + n + 1) == 1;
}

size_t psi_tls_record_whole(const uint8_t *p, size_t n)
{
    size_t body_bytes = n < PSI_TLS_RECORD_HEAD_BYTES ? SIZE_MAX : (size_t)p[3] << 8 | p[4];
    if (body_bytes == SIZE_MAX) {
        return 0;
    }
    if (p[0] != SSL3_RT_APPLICATION_DATA || body_bytes > PSI_TLS_RECORD_BYTES + EXPANSION_BYTES_MAX) {
        return PSI_TLS_RECORD_HEAD_BYTES; /* it is refused without its body */
    }
    return n >= PSI_TLS_RECORD_HEAD_BYTES + body_bytes ? PSI_TLS_RECORD_HEAD_BYTES + body_bytes : 0;
}

/* n bytes at body, without the tag behind them, into content, which is body, or has room for all but the last one: that is the
 * type, or padding. */
static bool decrypt(struct psi_tls_way *way, const uint8_t *body, size_t n, uint8_t *content, uint8_t *out_last)
{
    int done = 0;
    bool good = true;
    if (content == body) {
        good = psi_openssl.EVP_CipherUpdate(way->cipher, content, &done, body, (int)n) == 1;
        *out_last = content[n - 1];
    } else {
        for (size_t line = 0; line < n; line += LINE_BYTES) {
            __builtin_prefetch(content + n + line, 1); /* where the next one comes; past the end it does nothing */
        }
        good = psi_openssl.EVP_CipherUpdate(way->cipher, content, &done, body, (int)n - 1) == 1;
        good = good && psi_openssl.EVP_CipherUpdate(way->cipher, out_last, &done, body + n - 1, 1) == 1;
    }
    return good && psi_openssl.EVP_CipherFinal_ex(way->cipher, out_last, &done) == 1; /* no byte comes of it */
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
    if (n <= TAG_BYTES) { /* not even a type */
        return SSL_AD_BAD_RECORD_MAC;
    }
    n -= TAG_BYTES;
    if (!record_begin(way, record) ||
        psi_openssl.EVP_CIPHER_CTX_ctrl(way->cipher, EVP_CTRL_AEAD_SET_TAG, TAG_BYTES, body + n) != 1 ||
        !decrypt(way, body, n, content, &last)) {
        return SSL_AD_BAD_RECORD_MAC;
    }
    if (n > PSI_TLS_RECORD_BYTES + 1) { /* padding counts */
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

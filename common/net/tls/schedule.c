/* SPDX-License-Identifier: Apache-2.0 */
/* The key schedule of TLS 1.3 with SHA-256. See schedule.h.
 *
 *     HMAC(key, message) = H(key ^ opad, H(key ^ ipad, message))                                                      RFC 2104
 *     extract(salt, input) = HMAC(salt, input)       expand(secret, info) = HMAC(secret, info, 1), of one hash        RFC 5869
 *     expand_label(secret, label, context) = expand(secret, length, "tls13 " label, context)                     RFC 8446, 7.1
 *
 * Happy path: SSL_do_handshake() -> OpenSSL fetches TLS13-KDF -> derive() -> a secret for OpenSSL; the traffic secrets, known by
 * their labels, are copied for the connection. Failure modes: with another hash, a longer output, a label that does not fit, or
 * without memory derive() returns 0, and the handshake fails. */
#include "schedule.h"

#ifdef PSI_HAVE_TLS

#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <string.h>

enum {
    HASH_BYTES = PSI_TLS_SECRET_BYTES,
    BLOCK_BYTES = 64, /* bytes of a block of SHA-256 */
    PREFIX_BYTES = 6, /* "tls13 " */
    LABEL_BYTES_MAX = 32,
    INFO_BYTES_MAX = 2 + 1 + PREFIX_BYTES + LABEL_BYTES_MAX + 1 + HASH_BYTES + 1
};

struct bytes {
    const uint8_t *p;
    size_t n;
};

static _Thread_local struct {
    uint8_t (*secrets)[PSI_TLS_SECRET_BYTES];
    unsigned *known;
} tell;

void psi_tls_schedule_tell(uint8_t (*secrets)[PSI_TLS_SECRET_BYTES], unsigned *known)
{
    tell.secrets = secrets;
    tell.known = known;
}

/* Calculate one of the two hashes of an HMAC: H(key ^ pad, message). */
static bool half(EVP_MD_CTX *x, struct bytes key, uint8_t pad, struct bytes message, uint8_t out[HASH_BYTES])
{
    uint8_t block[BLOCK_BYTES];
    unsigned n = 0;
    memset(block, pad, sizeof(block));
    for (size_t i = 0; i < key.n; i++) {
        block[i] ^= key.p[i];
    }
    bool good = psi_openssl.EVP_DigestInit_ex2(x, psi_openssl.sha256, NULL) == 1 &&
                psi_openssl.EVP_DigestUpdate(x, block, sizeof(block)) == 1 &&
                psi_openssl.EVP_DigestUpdate(x, message.p, message.n) == 1 && psi_openssl.EVP_DigestFinal_ex(x, out, &n) == 1 &&
                n == HASH_BYTES;
    explicit_bzero(block, sizeof(block));
    return good;
}

/* HMAC of the message. false: the key is longer than BLOCK_BYTES, or the hash fails. */
static bool hmac(EVP_MD_CTX *x, struct bytes key, struct bytes message, uint8_t out[HASH_BYTES])
{
    uint8_t inner[HASH_BYTES];
    bool good = key.n <= BLOCK_BYTES && half(x, key, 0x36, message, inner) &&
                half(x, key, 0x5c, (struct bytes){inner, sizeof(inner)}, out);
    explicit_bzero(inner, sizeof(inner));
    return good;
}

/* HKDF-Expand-Label() of RFC 8446. prefix_label: "tls13 " and the label. false: a part is too long, or the hash fails. */
static bool expand_label(EVP_MD_CTX *x, struct bytes secret, const struct bytes prefix_label[2], struct bytes context,
                         uint8_t *out, size_t n)
{
    uint8_t info[INFO_BYTES_MAX];
    uint8_t hash[HASH_BYTES];
    size_t at = 0;
    size_t name_bytes = prefix_label[0].n + prefix_label[1].n;
    if (n > sizeof(hash) || prefix_label[0].n != PREFIX_BYTES || prefix_label[1].n > LABEL_BYTES_MAX || context.n > HASH_BYTES) {
        return false;
    }
    info[at++] = 0;
    info[at++] = (uint8_t)n;
    info[at++] = (uint8_t)name_bytes;
    memcpy(info + at, prefix_label[0].p, prefix_label[0].n);
    at += prefix_label[0].n;
    memcpy(info + at, prefix_label[1].p, prefix_label[1].n);
    at += prefix_label[1].n;
    info[at++] = (uint8_t)context.n;
    if (context.n > 0) {
        memcpy(info + at, context.p, context.n);
        at += context.n;
    }
    info[at++] = 1; /* HKDF-Expand numbers its blocks from 1; here one block is enough */
    bool good = hmac(x, secret, (struct bytes){info, at}, hash);
    if (good) {
        memcpy(out, hash, n);
    }
    explicit_bzero(hash, sizeof(hash));
    return good;
}

static struct bytes text_bytes(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strlen(text)};
}

bool psi_tls_schedule_expand(const uint8_t secret[PSI_TLS_SECRET_BYTES], const char *label, uint8_t *out, size_t n)
{
    EVP_MD_CTX *x = psi_openssl.EVP_MD_CTX_new();
    const struct bytes prefix_label[2] = {text_bytes("tls13 "), text_bytes(label)};
    bool good =
        x != NULL && expand_label(x, (struct bytes){secret, PSI_TLS_SECRET_BYTES}, prefix_label, (struct bytes){.n = 0}, out, n);
    psi_openssl.EVP_MD_CTX_free(x);
    return good;
}

/* The parameters of a derivation, from OpenSSL's OSSL_PARAMs. */
struct question {
    int mode; /* EVP_KDF_HKDF_MODE_* */
    bool sha256;
    struct bytes key, salt, prefix_label[2], data;
};

static bool question_read(const OSSL_PARAM params[], struct question *q)
{
    memset(q, 0, sizeof(*q));
    for (const OSSL_PARAM *p = params; p != NULL && p->key != NULL; p++) {
        const struct {
            const char *name;
            struct bytes *to;
        } octets[] = {{OSSL_KDF_PARAM_KEY, &q->key},
                      {OSSL_KDF_PARAM_SALT, &q->salt},
                      {OSSL_KDF_PARAM_PREFIX, &q->prefix_label[0]},
                      {OSSL_KDF_PARAM_LABEL, &q->prefix_label[1]},
                      {OSSL_KDF_PARAM_DATA, &q->data}};
        if (strcmp(p->key, OSSL_KDF_PARAM_MODE) == 0 && p->data_size == sizeof(q->mode)) {
            memcpy(&q->mode, p->data, sizeof(q->mode));
        } else if (strcmp(p->key, OSSL_KDF_PARAM_DIGEST) == 0) {
            q->sha256 = p->data_type == OSSL_PARAM_UTF8_STRING && psi_openssl.EVP_MD_is_a(psi_openssl.sha256, p->data) == 1;
        }
        for (size_t i = 0; i < sizeof(octets) / sizeof(octets[0]); i++) {
            if (p->data_type == OSSL_PARAM_OCTET_STRING && strcmp(p->key, octets[i].name) == 0) {
                *octets[i].to = (struct bytes){p->data, p->data_size};
            }
        }
    }
    return q->sha256;
}

/* The next secret: extract(expand_label(the secret before, "derived", H("")), input). For the first secret the salt is zeros. */
static bool next_secret(EVP_MD_CTX *x, const struct question *q, uint8_t out[HASH_BYTES])
{
    static const uint8_t zeros[HASH_BYTES];
    uint8_t salt[HASH_BYTES] = {0};
    unsigned n = 0;
    bool good = true;
    if (q->salt.n > 0) {
        uint8_t empty[HASH_BYTES];
        good = psi_openssl.EVP_DigestInit_ex2(x, psi_openssl.sha256, NULL) == 1 &&
               psi_openssl.EVP_DigestFinal_ex(x, empty, &n) == 1 &&
               expand_label(x, q->salt, q->prefix_label, (struct bytes){empty, sizeof(empty)}, salt, sizeof(salt));
    }
    good = good && hmac(x, (struct bytes){salt, sizeof(salt)}, q->key.n > 0 ? q->key : (struct bytes){zeros, sizeof(zeros)}, out);
    explicit_bzero(salt, sizeof(salt));
    return good;
}

static void tell_secret(struct bytes label, const uint8_t secret[HASH_BYTES])
{
    static const char *const labels[2] = {"c ap traffic", "s ap traffic"};
    for (unsigned i = 0; i < 2 && tell.known != NULL; i++) {
        if (label.n == strlen(labels[i]) && memcmp(label.p, labels[i], label.n) == 0) {
            memcpy(tell.secrets[i], secret, HASH_BYTES);
            *tell.known |= 1u << i;
        }
    }
}

static int derive(void *context, unsigned char *out, size_t n, const OSSL_PARAM params[])
{
    struct question q;
    EVP_MD_CTX *x = question_read(params, &q) ? psi_openssl.EVP_MD_CTX_new() : NULL;
    bool good = false;
    (void)context;
    if (x != NULL && q.mode == EVP_KDF_HKDF_MODE_EXTRACT_ONLY && n == HASH_BYTES) {
        good = next_secret(x, &q, out);
    } else if (x != NULL && q.mode == EVP_KDF_HKDF_MODE_EXPAND_ONLY) {
        good = expand_label(x, q.key, q.prefix_label, q.data, out, n);
        if (good && n == HASH_BYTES) {
            tell_secret(q.prefix_label[1], out);
        }
    }
    psi_openssl.EVP_MD_CTX_free(x);
    return good ? 1 : 0;
}

/* OpenSSL wants a context that is not NULL; a derivation keeps nothing between calls, so the provider serves as one. */
static void *context_new(void *provider)
{
    return provider;
}

static void context_free(void *context)
{
    (void)context;
}

static const OSSL_ALGORITHM *query(void *provider, int operation, int *no_cache)
{
    static const OSSL_DISPATCH kdf[] = {{OSSL_FUNC_KDF_NEWCTX, (void (*)(void))context_new},
                                        {OSSL_FUNC_KDF_FREECTX, (void (*)(void))context_free},
                                        {OSSL_FUNC_KDF_DERIVE, (void (*)(void))derive},
                                        {0, NULL}};
    static const OSSL_ALGORITHM kdfs[] = {{OSSL_KDF_NAME_TLS1_3_KDF, "provider=psd", kdf, NULL}, {NULL, NULL, NULL, NULL}};
    (void)provider;
    *no_cache = 0;
    return operation == OSSL_OP_KDF ? kdfs : NULL;
}

static int provider_begin(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in, const OSSL_DISPATCH **out, void **provider)
{
    static const OSSL_DISPATCH functions[] = {{OSSL_FUNC_PROVIDER_QUERY_OPERATION, (void (*)(void))query}, {0, NULL}};
    static char one;
    (void)handle;
    (void)in;
    *out = functions;
    *provider = &one;
    return 1;
}

bool psi_tls_schedule_load(void)
{
    return psi_openssl.OSSL_PROVIDER_add_builtin(psi_openssl.own, "psd", provider_begin) == 1 &&
           psi_openssl.OSSL_PROVIDER_load(psi_openssl.own, "psd") != NULL &&
           psi_openssl.OSSL_PROVIDER_load(psi_openssl.own, "default") != NULL;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The ciphers of TLS records by OpenSSL, and the choice between OpenSSL and Intel's library. See cipher.h. */
#include "cipher.h"

#include "tls.h"

#ifdef PSI_HAVE_TLS

static EVP_CIPHER_CTX *context_of(struct psi_cipher *cipher)
{
    return (EVP_CIPHER_CTX *)cipher;
}

static struct psi_cipher *make(void)
{
    return (struct psi_cipher *)psi_openssl.EVP_CIPHER_CTX_new();
}

static bool set(struct psi_cipher *cipher, uint16_t suite, const uint8_t *key, bool seals)
{
    const EVP_CIPHER *kind = suite == PSI_TLS_SUITE_AES ? psi_openssl.aes : psi_openssl.chacha;
    return psi_openssl.EVP_CipherInit_ex2(context_of(cipher), kind, key, NULL, seals ? 1 : 0, NULL) == 1;
}

static void end(struct psi_cipher *cipher)
{
    psi_openssl.EVP_CIPHER_CTX_free(context_of(cipher)); /* zeroes the key */
}

static bool begin(EVP_CIPHER_CTX *x, const struct psi_cipher_head *head)
{
    int n = 0;
    return psi_openssl.EVP_CipherInit_ex2(x, NULL, NULL, head->nonce, -1, NULL) == 1 &&
           psi_openssl.EVP_CipherUpdate(x, NULL, &n, head->data, (int)head->bytes) == 1;
}

static bool seal(struct psi_cipher *cipher, const struct psi_cipher_head *head, const uint8_t *content, size_t n, uint8_t last,
                 uint8_t *out)
{
    EVP_CIPHER_CTX *x = context_of(cipher);
    int done = 0;
    return begin(x, head) && (n == 0 || psi_openssl.EVP_CipherUpdate(x, out, &done, content, (int)n) == 1) &&
           psi_openssl.EVP_CipherUpdate(x, out + n, &done, &last, 1) == 1 &&
           psi_openssl.EVP_CipherFinal_ex(x, out + n + 1, &done) == 1 &&
           psi_openssl.EVP_CIPHER_CTX_ctrl(x, EVP_CTRL_AEAD_GET_TAG, PSI_CIPHER_TAG_BYTES, out + n + 1) == 1;
}

static bool open(struct psi_cipher *cipher, const struct psi_cipher_head *head, uint8_t *body, size_t n, uint8_t *content,
                 uint8_t *out_last)
{
    EVP_CIPHER_CTX *x = context_of(cipher);
    int done = 0;
    bool good = begin(x, head) && psi_openssl.EVP_CIPHER_CTX_ctrl(x, EVP_CTRL_AEAD_SET_TAG, PSI_CIPHER_TAG_BYTES, body + n) == 1;
    if (content == body) {
        good = good && psi_openssl.EVP_CipherUpdate(x, content, &done, body, (int)n) == 1;
        *out_last = content[n - 1];
    } else {
        good = good && psi_openssl.EVP_CipherUpdate(x, content, &done, body, (int)n - 1) == 1 &&
               psi_openssl.EVP_CipherUpdate(x, out_last, &done, body + n - 1, 1) == 1;
    }
    uint8_t none = 0;
    /* for these ciphers EVP_CipherFinal_ex() writes no bytes (to `none`); it makes or checks the tag */
    return good && psi_openssl.EVP_CipherFinal_ex(x, &none, &done) == 1;
}

const struct psi_cipher_row *psi_cipher_row(uint16_t suite)
{
    static const struct psi_cipher_row by_openssl = {"openssl", make, set, end, seal, open};
    const struct psi_cipher_row *aes = psi_cipher_ipsec();
    return suite == PSI_TLS_SUITE_AES && aes != NULL ? aes : &by_openssl;
}

#endif

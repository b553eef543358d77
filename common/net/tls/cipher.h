/* SPDX-License-Identifier: Apache-2.0 */
/* The ciphers of TLS records, AES-128-GCM and ChaCha20-Poly1305, as tables of functions. One table uses OpenSSL. The other does
 * AES by Intel's multi-buffer library (libIPSec_MB.so.1), which uses VAES instructions; OpenSSL 3.0 does not. Intel's library is
 * optional, at the build and at run time; both libraries write equal bytes. For common/net/tls/record.c and suite.c only. */
#ifndef PSI_TLS_CIPHER_H
#define PSI_TLS_CIPHER_H

#include "openssl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef PSI_HAVE_TLS

enum { PSI_CIPHER_KEY_BYTES_MAX = 32, PSI_CIPHER_NONCE_BYTES = 12, PSI_CIPHER_TAG_BYTES = 16 };

struct psi_cipher; /* a key for one direction; its layout depends on the library */

struct psi_cipher_head {
    const uint8_t *nonce; /* [PSI_CIPHER_NONCE_BYTES] bytes; never used twice under one key */
    const uint8_t *data;  /* [bytes] of additional data */
    size_t bytes;
};

struct psi_cipher_row {
    const char *name;
    struct psi_cipher *(*make)(void);
    bool (*set)(struct psi_cipher *cipher, uint16_t suite, const uint8_t *key, bool seals);
    /** Zero the key, and free the cipher. */
    void (*end)(struct psi_cipher *cipher);
    /** Encrypt content [n] and the byte `last` into out [n + 1], and write the tag behind them. content: out, or memory that does
     * not overlap it. false: failed. */
    bool (*seal)(struct psi_cipher *cipher, const struct psi_cipher_head *head, const uint8_t *content, size_t n, uint8_t last,
                 uint8_t *out);
    /** Decrypt body [n >= 1], which the tag follows. content: body, or memory for n - 1 bytes that does not overlap it. The last
     * byte goes to *out_last. false: the tag is wrong, or the library fails; content and *out_last must not be used then. */
    bool (*open)(struct psi_cipher *cipher, const struct psi_cipher_head *head, uint8_t *body, size_t n, uint8_t *content,
                 uint8_t *out_last);
};

/** The functions for a suite. Intel's library does AES if the build had its header, a library of the header's version is found,
 * the CPU has VAES, and PSD_IPSEC_MB is not 0 in the environment; else OpenSSL does it. The first call loads it. Any thread. */
const struct psi_cipher_row *psi_cipher_row(uint16_t suite);

/* Intel's functions; NULL where they are not used. For cipher.c only. */
const struct psi_cipher_row *psi_cipher_ipsec(void);

#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ciphers of records, AES-128-GCM and ChaCha20-Poly1305, as rows: by OpenSSL, and AES by Intel's multi-buffer library
 * (libIPSec_MB.so.1), which uses the VAES instructions of a CPU. OpenSSL 3.0 does not. That library is optional, at the build and
 * when a program runs; both write the same bytes. For common/net/tls/record.c and suite.c only.
 */
#ifndef PSI_TLS_CIPHER_H
#define PSI_TLS_CIPHER_H

#include "openssl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef PSI_HAVE_TLS

enum { PSI_CIPHER_KEY_BYTES_MAX = 32, PSI_CIPHER_NONCE_BYTES = 12, PSI_CIPHER_TAG_BYTES = 16 };

struct psi_cipher; /* a key, of one direction; each row has its own form */

/* The nonce and the additional data of a record. */
struct psi_cipher_head {
    const uint8_t *nonce; /* PSI_CIPHER_NONCE_BYTES; never twice under one key */
    const uint8_t *data;  /* additional data */
    size_t bytes;         /* of the additional data */
};

struct psi_cipher_row {
    const char *name; /* in log lines */
    /** A key that is not set yet. NULL: no memory. */
    struct psi_cipher *(*make)(void);
    /** Set the key, or replace it. false: no memory. */
    bool (*set)(struct psi_cipher *cipher, uint16_t suite, const uint8_t *key, bool seals);
    /** Zero the key and free it. NULL is fine. */
    void (*end)(struct psi_cipher *cipher);
    /** Encrypt content [n] and the byte `last` behind it to out [n + 1]; the tag follows there. content: out, or memory that does
     * not overlap it. false: the library fails. */
    bool (*seal)(struct psi_cipher *cipher, const struct psi_cipher_head *head, const uint8_t *content, size_t n, uint8_t last,
                 uint8_t *out);
    /** Decrypt body [n >= 1], which the tag follows. content: body, or memory for n - 1 bytes that does not overlap it. The last
     * byte goes to *out_last. false: the tag is wrong, or the library fails; content and *out_last must not be used then. */
    bool (*open)(struct psi_cipher *cipher, const struct psi_cipher_head *head, uint8_t *body, size_t n, uint8_t *content,
                 uint8_t *out_last);
};

/** The row that is used for a suite: AES by Intel's library, if the build had its header and the process finds it, of the same
 * version; the CPU has VAES; and the environment has no PSD_IPSEC_MB=0. Otherwise OpenSSL. The first call loads the library. Any
 * thread. */
const struct psi_cipher_row *psi_cipher_row(uint16_t suite);

/* cipher_ipsec.c: NULL where it is not used. For cipher.c only. */
const struct psi_cipher_row *psi_cipher_ipsec(void);

#endif
#endif

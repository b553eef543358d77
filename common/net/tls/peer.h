/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The context behind struct psi_tls, and the peer of one handshake as OpenSSL's callbacks see it. For common/net/tls/ only.
 *
 * A callback that refuses writes down why (psi_tls_note()) before OpenSSL turns it into an alert that says less. What was written
 * down first counts.
 */
#ifndef PSI_TLS_PEER_H
#define PSI_TLS_PEER_H

#include "record.h"
#include "tls.h"

#include <stdatomic.h>

#ifdef PSI_HAVE_TLS

enum { PSI_TLS_SERIAL_BYTES = 20 }; /* RFC 5280, 4.1.2.2 */

struct psi_tls {
    atomic_uint refs;
    SSL_CTX *ctx;
    struct psi_keys *keys; /* NULL: none */
    bool has_cert;
    char cluster[PS_JOB_BYTES_MAX + 1]; /* "": not stated */
    char dial_role[PSI_ROLE_BYTES_MAX + 1];
    char cert_file[256], ca_file[256]; /* for texts */
    char uri[PSI_IDENTITY_BYTES_MAX + 1];
    int64_t cert_ends_s;
    char *refused; /* lines, each ends in NUL: URIs, and serials in lower-case hex without leading zeros */
    size_t refused_bytes;
    uint8_t nobody[PSI_SECRET_BYTES]; /* the key that an unknown identity runs against */
    int64_t (*now_s)(void);
    uint64_t key_update_records;
    uint16_t suite_first;
};

struct psi_tls_peer {
    struct psi_tls *tls;                      /* a reference */
    bool dials;                               /* this side is the client */
    char expect[PSI_IDENTITY_BYTES_MAX + 1];  /* client: URI of the server, with a final '*' maybe; "": any task's */
    char wire[PSI_KEY_WIRE_BYTES_MAX + 1];    /* client: the key's identity, which OpenSSL borrows during the handshake */
    unsigned key_line;                        /* client: of the line that it shows; 0: none */
    bool key_asked;                           /* server: the client showed a key. client: it was put into the ClientHello */
    struct psi_identity identity;             /* who it will be if the handshake succeeds; then who it is */
    enum psi_tls_reason reason;               /* of the first failure */
    char text[320];                           /* of it */
    uint64_t bytes_in;                        /* plain bytes since the handshake */
    uint64_t key_updates;                     /* that it sent */
    uint8_t secrets[2][PSI_TLS_SECRET_BYTES]; /* traffic secrets of the client and the server, from the handshake to its end */
    unsigned secrets_known;                   /* bits 0 and 1 */
    X509 *cert;                               /* certificate that the peer proved; NULL: it proved a key */
    STACK_OF(X509) * chain;                   /* certificates that the peer sent beside its own */
};

/** OpenSSL's session context: each SSL_CTX and each session made of a key has it. A client refuses sessions of other contexts. */
extern const unsigned char psi_tls_session_context[3];
/** The peer that a connection of OpenSSL belongs to. */
struct psi_tls_peer *psi_tls_peer_of(const SSL *ssl);
/** Write down why the connection fails, unless a reason is written down already. */
void psi_tls_note(struct psi_tls_peer *peer, enum psi_tls_reason reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** An operation on ssl failed: write down why, from OpenSSL's queue of errors, which must have been empty before it. name: the
 * peer's address. */
void psi_tls_note_error(struct psi_tls_peer *peer, const char *name);
/** Write down that the peer has sent this alert. */
void psi_tls_note_alert(struct psi_tls_peer *peer, int alert, const char *name);
/** The peer has sent more key updates than it may. */
bool psi_tls_floods(const struct psi_tls_peer *peer);

/* ---- suite.c ---- */
/** The speed of both suites. The first call measures it, in 1 ms at most. OpenSSL is loaded. Any thread. */
const struct psi_tls_speed *psi_tls_speed(void);
/** The suite to prefer. */
uint16_t psi_tls_suite_faster(uint64_t aes_mb_s, uint64_t chacha_mb_s);

/* ---- cert.c ---- */
/** The psd: URI of a certificate: exactly one, of a task or a user. false: *why says what is wrong. */
bool psi_tls_cert_uri(X509 *cert, char out[PSI_IDENTITY_BYTES_MAX + 1], struct psi_uri *out_parts, const char **why);
/** Unix time of a certificate's end. 0: it cannot be read. */
int64_t psi_tls_cert_ends_s(X509 *cert);
/** Serial as lower-case hex without leading zeros. Returns buf. */
const char *psi_tls_cert_serial(X509 *cert, char buf[2 * PSI_TLS_SERIAL_BYTES + 1]);
/** Chain, dates, URI, cluster, list of refused ones, expectation: may the owner of the certificate of this store context connect?
 * Writes identity or reason. For SSL_CTX_set_cert_verify_callback(). */
int psi_tls_cert_verify(X509_STORE_CTX *store, void *unused);
/** The certificate of a connected peer under another context. */
bool psi_tls_cert_allowed(const struct psi_tls *now, const struct psi_tls_peer *peer, char *why, size_t n);
/** Whether the file of refused certificates has this line. */
bool psi_tls_is_refused(const struct psi_tls *tls, const char *line);

/* ---- key.c ---- */
/** For SSL_CTX_set_psk_use_session_callback() and SSL_CTX_set_psk_find_session_callback(). */
int psi_tls_key_use(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_bytes, SSL_SESSION **session);
int psi_tls_key_find(SSL *ssl, const unsigned char *id, size_t id_bytes, SSL_SESSION **session);
/** For SSL_CTX_set_keylog_callback(): keeps the traffic secrets. */
void psi_tls_on_secret(const SSL *ssl, const char *line);
/** Whether the key of a peer that connected under `before` may still connect under `now`. */
bool psi_tls_key_allowed(const struct psi_tls *now, const struct psi_tls *before, const struct psi_identity *identity, char *why,
                         size_t n);

#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The TLS context (struct psi_tls), and the peer of one handshake as OpenSSL's callbacks see it. For common/net/tls/ only. A
 * callback that refuses a peer notes the reason (psi_tls_note()), because OpenSSL's alert says less. The first reason counts. */
#ifndef PSI_TLS_PEER_H
#define PSI_TLS_PEER_H

#include "record.h"
#include "tls.h"

#include <stdatomic.h>

#ifdef PSI_HAVE_TLS

enum { PSI_TLS_SERIAL_BYTES = 20 }; /* longest serial: RFC 5280, 4.1.2.2 */

struct psi_tls {
    atomic_uint refs;
    SSL_CTX *ctx;
    struct psi_keys *keys; /* NULL: none */
    bool has_cert;
    char cluster[PS_JOB_BYTES_MAX + 1]; /* "": no cluster is stated */
    char dial_role[PSI_ROLE_BYTES_MAX + 1];
    char cert_file[256], ca_file[256]; /* paths, for texts of errors */
    char uri[PSI_IDENTITY_BYTES_MAX + 1];
    int64_t cert_ends_s;
    /* refused certificates, one a line, ending in NUL: a URI, or a serial in lower-case hex without leading zeros */
    char *refused;
    size_t refused_bytes;
    /* random key that is used when a client names an unknown key, so that its handshake fails like one with a wrong key */
    uint8_t nobody[PSI_SECRET_BYTES];
    int64_t (*now_s)(void);
    uint64_t key_update_records;
    uint16_t suite_first;
};

struct psi_tls_peer {
    struct psi_tls *tls; /* holds a reference */
    bool dials;          /* this side is the client */
    /* client: URI that the server's certificate must have, maybe with a final '*'; "": any task's URI */
    char expect[PSI_IDENTITY_BYTES_MAX + 1];
    /* client: name of its key as sent to the server; OpenSSL uses this memory during the handshake */
    char wire[PSI_KEY_WIRE_BYTES_MAX + 1];
    unsigned key_line;            /* line of the key file that has the connection's key; 0: no key */
    bool key_asked;               /* the client of this connection (the peer, or this side) has offered a key */
    struct psi_identity identity; /* who the peer is; only claimed until the handshake is over */
    enum psi_tls_reason reason;
    char text[320];
    uint64_t bytes_in; /* plaintext bytes received since the handshake */
    uint64_t key_updates;
    /* traffic secrets, of the client and the server; zeroed at the end of the handshake */
    uint8_t secrets[2][PSI_TLS_SECRET_BYTES];
    unsigned secrets_known; /* bit i: secrets[i] has been set */
    X509 *cert;             /* the peer's certificate, proved by the handshake; NULL: the peer proved a key */
    /* certificates that the peer sent; at the client its own is the first, at the server only the further ones; NULL: none */
    STACK_OF(X509) * chain;
};

/** Session id context. OpenSSL requires an equal one in the SSL_CTX and in each session that is made of a key. */
extern const unsigned char psi_tls_session_context[3];
struct psi_tls_peer *psi_tls_peer_of(const SSL *ssl);
/** Note why the connection fails, unless a reason is noted already. */
void psi_tls_note(struct psi_tls_peer *peer, enum psi_tls_reason reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** Note why an operation failed, by OpenSSL's error queue, which was empty before. name: the peer's address. */
void psi_tls_note_error(struct psi_tls_peer *peer, const char *name);
void psi_tls_note_alert(struct psi_tls_peer *peer, int alert, const char *name);
enum { PSI_TLS_SHOWN_BYTES = 300 };
/** Write how this side has identified itself to the peer: "FILE:LINE: key NAME" or "certificate FILE". Returns buf. */
const char *psi_tls_shown(const struct psi_tls_peer *peer, char *buf, size_t n);
bool psi_tls_floods(const struct psi_tls_peer *peer);

/** The speed of both suites. The first call measures it, in about 1 ms at most; OpenSSL must be loaded. Any thread. */
const struct psi_tls_speed *psi_tls_speed(void);
uint16_t psi_tls_suite_faster(uint64_t aes_mb_s, uint64_t chacha_mb_s);

/** Find the psd: URI of a certificate, which must have exactly one, of a task or a user. false: *why says what is wrong. */
bool psi_tls_cert_uri(X509 *cert, char out[PSI_IDENTITY_BYTES_MAX + 1], struct psi_uri *out_parts, const char **why);
/** Unix time at which a certificate expires. 0: it cannot be read. */
int64_t psi_tls_cert_ends_s(X509 *cert);
/** The serial as lower-case hex without leading zeros. Returns buf. */
const char *psi_tls_cert_serial(X509 *cert, char buf[2 * PSI_TLS_SERIAL_BYTES + 1]);
/** Check the peer's certificate: chain, dates, URI, cluster, list of refused certificates, psi_tls_peer.expect. Sets the peer's
 * identity, or notes the reason. For SSL_CTX_set_cert_verify_callback(). */
int psi_tls_cert_verify(X509_STORE_CTX *store, void *unused);
/** True if the peer's certificate would be accepted under the context `now`. false: why [n] says why not. */
bool psi_tls_cert_allowed(const struct psi_tls *now, const struct psi_tls_peer *peer, char *why, size_t n);
bool psi_tls_is_refused(const struct psi_tls *tls, const char *line);

/** Callbacks for SSL_CTX_set_psk_use_session_callback() (client) and SSL_CTX_set_psk_find_session_callback() (server). */
int psi_tls_key_use(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_bytes, SSL_SESSION **session);
int psi_tls_key_find(SSL *ssl, const unsigned char *id, size_t id_bytes, SSL_SESSION **session);
/** True if the key of a peer that connected under `before` would be accepted under `now`. false: why [n] says why not. */
bool psi_tls_key_allowed(const struct psi_tls *now, const struct psi_tls *before, const struct psi_identity *identity, char *why,
                         size_t n);

#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Keys as external PSKs of TLS 1.3. Happy path: the client puts psd1:CLUSTER:ROLE:NAME:KEYID into its ClientHello, with a binder
 * made with its secret; the server finds the line of this name and key id in its key file, and OpenSSL checks the binder.
 * Failure modes: if the server does not know the identity, or the key has expired or is of another role or cluster, a random key
 * is used instead. Then the binder fails as for a wrong secret: a stranger does not learn which identities exist, and the
 * handshake does not fall back to certificates. The reason is noted for the server's log. The session that stands for a key has a
 * suite with SHA-256, as all suites of psd: OpenSSL would silently ignore a session with another hash. */
#include "peer.h"

#ifdef PSI_HAVE_TLS

#include <stdio.h>
#include <string.h>

static SSL_SESSION *session_new(SSL *ssl, const uint8_t secret[PSI_SECRET_BYTES])
{
    static const unsigned char aes_128_gcm_sha256[2] = {0x13, 0x01};
    const SSL_CIPHER *cipher = psi_openssl.SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
    SSL_SESSION *session = psi_openssl.SSL_SESSION_new();
    if (session == NULL || cipher == NULL || psi_openssl.SSL_SESSION_set1_master_key(session, secret, PSI_SECRET_BYTES) != 1 ||
        psi_openssl.SSL_SESSION_set_cipher(session, cipher) != 1 ||
        psi_openssl.SSL_SESSION_set1_id_context(session, psi_tls_session_context, sizeof(psi_tls_session_context)) != 1 ||
        psi_openssl.SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
        psi_openssl.SSL_SESSION_free(session);
        return NULL;
    }
    return session;
}

int psi_tls_key_use(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_bytes, SSL_SESSION **session)
{
    enum { SHA256_BYTES = 32 };
    struct psi_tls_peer *peer = psi_tls_peer_of(ssl);
    const struct psi_tls *tls = peer->tls;
    *id = NULL;
    *id_bytes = 0;
    *session = NULL;
    const struct psi_key *key = tls->keys == NULL ? NULL : psi_keys_find(tls->keys, peer->identity.name, peer->identity.key_id);
    if (key == NULL || (md != NULL && psi_openssl.EVP_MD_get_size(md) != SHA256_BYTES)) {
        return 1; /* 1 (success) without a session tells OpenSSL that this client has no key to show */
    }
    *session = session_new(ssl, key->secret);
    if (*session == NULL) {
        return 0;
    }
    *id_bytes = psi_key_wire(key, tls->cluster, peer->wire);
    *id = (const unsigned char *)peer->wire;
    peer->key_asked = true;
    return 1;
}

/* The key line that a ClientHello names, if it may be used. NULL: the reason is noted. */
static const struct psi_key *line_of(struct psi_tls_peer *peer, const unsigned char *id, size_t id_bytes)
{
    struct psi_key_wire wire;
    const struct psi_tls *tls = peer->tls;
    const char *file = psi_keys_file(tls->keys);
    if (id_bytes > PSI_KEY_WIRE_BYTES_MAX || !psi_key_wire_parse(id, id_bytes, &wire)) {
        psi_tls_note(peer, PSI_TLS_UNKNOWN_KEY, "what it showed as its key's name is none of psd's");
        return NULL;
    }
    const struct psi_key *key = psi_keys_find(tls->keys, wire.name, wire.key_id);
    if (key == NULL) {
        psi_tls_note(peer, PSI_TLS_UNKNOWN_KEY, "no line of %s has its key %s with id %s", file, wire.name, wire.key_id);
        return NULL;
    }
    const char *cluster = tls->cluster[0] != '\0' ? tls->cluster : key->cluster;
    if (wire.cluster[0] != '\0' && cluster[0] != '\0' && strcmp(wire.cluster, cluster) != 0) {
        psi_tls_note(peer, PSI_TLS_OTHER_CLUSTER, "its key %s is for cluster %s, and this is %s", wire.name, wire.cluster,
                     cluster);
    } else if (strcmp(wire.role, key->role) != 0) {
        psi_tls_note(peer, PSI_TLS_OTHER_ROLE, "its key %s says role %s, and %s:%u has %s", wire.name, wire.role, file, key->line,
                     key->role);
    } else if (psi_key_is_expired(key, tls->now_s())) {
        char day[11];
        psi_tls_note(peer, PSI_TLS_EXPIRED_KEY, "its key %s was good until %s (%s:%u)", wire.name,
                     psi_day_end_text(key->until_s, day), file, key->line);
    } else {
        psi_key_identity(key, &peer->identity);
        peer->key_line = key->line;
        return key;
    }
    return NULL;
}

int psi_tls_key_find(SSL *ssl, const unsigned char *id, size_t id_bytes, SSL_SESSION **session)
{
    struct psi_tls_peer *peer = psi_tls_peer_of(ssl);
    *session = NULL;
    if (peer->tls->keys == NULL) {
        return 1; /* this server has certificates only */
    }
    const struct psi_key *key = line_of(peer, id, id_bytes);
    peer->key_asked = true;
    *session = session_new(ssl, key != NULL ? key->secret : peer->tls->nobody);
    return *session != NULL ? 1 : 0;
}

bool psi_tls_key_allowed(const struct psi_tls *now, const struct psi_tls *before, const struct psi_identity *identity, char *why,
                         size_t n)
{
    const struct psi_key *was = psi_keys_find(before->keys, identity->name, identity->key_id);
    const struct psi_key *is = now->keys == NULL ? NULL : psi_keys_find(now->keys, identity->name, identity->key_id);
    PSI_ASSERT(was != NULL);
    if (is == NULL || strcmp(is->role, was->role) != 0 ||
        psi_openssl.CRYPTO_memcmp(is->secret, was->secret, PSI_SECRET_BYTES) != 0) {
        (void)snprintf(why, n, "the line of key %s with id %s is gone", identity->name, identity->key_id);
        return false;
    }
    if (psi_key_is_expired(is, now->now_s())) {
        char day[11];
        (void)snprintf(why, n, "key %s with id %s was good until %s", identity->name, identity->key_id,
                       psi_day_end_text(is->until_s, day));
        return false;
    }
    return true;
}

#endif

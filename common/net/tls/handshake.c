/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake of a stream: what a peer must send before OpenSSL is called, the steps, and who the peer is when OpenSSL is done.
 * Happy path: an accepted stream collects one record that holds the ClientHello -> steps -> the peer has proved a key or a
 * certificate -> DONE. A dialled stream begins with a step. Failure modes: from a client, OpenSSL gets neither plain text nor a
 * first message that is too large or is not a ClientHello. That OpenSSL has finished does not yet say who the peer is:
 * peer_judge() then checks that the peer has proved a key or a certificate. */
#include "schedule.h"
#include "stream_internal.h"

#include <stdio.h>
#include <string.h>

#ifdef PSI_HAVE_TLS

enum psi_tls_step psi_tls_hello_look(struct psi_tls_stream *s)
{
    static const uint8_t alert[] = {SSL3_RT_ALERT, 3, 3, 0, 2, SSL3_AL_FATAL, SSL3_AD_UNEXPECTED_MESSAGE};
    const uint8_t *p = s->kept;
    size_t n = s->kept_bytes;
    if (p[0] != SSL3_RT_HANDSHAKE || (n >= 2 && p[1] != SSL3_VERSION_MAJOR)) {
        psi_tls_note(&s->peer, PSI_TLS_PLAIN_TEXT,
                     "it sent plain text, and only TLS is spoken here: it has no key file and no certificate");
        memcpy(s->loop->out, alert, sizeof(alert)); /* a psd without TLS understands this alert */
        s->loop->out_bytes = sizeof(alert);
        return PSI_TLS_STEP_FAILED;
    }
    if (n < PSI_TLS_RECORD_HEAD_BYTES) {
        return PSI_TLS_STEP_WAITS;
    }
    size_t whole = PSI_TLS_RECORD_HEAD_BYTES + ((size_t)p[3] << 8 | p[4]);
    if (whole > PSI_TLS_HELLO_BYTES_MAX) {
        psi_tls_note(&s->peer, PSI_TLS_TOO_LARGE, "its first message has %zu bytes, the most is %d", whole,
                     PSI_TLS_HELLO_BYTES_MAX);
        return PSI_TLS_STEP_FAILED;
    }
    const bool is_empty = whole == PSI_TLS_RECORD_HEAD_BYTES;
    if (is_empty || (n > PSI_TLS_RECORD_HEAD_BYTES && p[PSI_TLS_RECORD_HEAD_BYTES] != SSL3_MT_CLIENT_HELLO)) {
        psi_tls_note(&s->peer, PSI_TLS_DAMAGED, "its first message is no ClientHello");
        return PSI_TLS_STEP_FAILED;
    }
    return n >= whole ? PSI_TLS_STEP_DONE : PSI_TLS_STEP_WAITS;
}

/* Check that the peer has proved a key or a certificate, and speaks psd's protocol. false: it has not; the reason is noted. */
static bool peer_judge(struct psi_tls_stream *s)
{
    struct psi_tls_peer *peer = &s->peer;
    const unsigned char *protocol = NULL;
    unsigned protocol_bytes = 0;
    const char *whom = peer->dials ? s->name : "it";
    bool by_key = psi_openssl.SSL_session_reused(s->ssl) == 1;
    bool by_cert = !by_key && psi_openssl.SSL_get0_peer_certificate(s->ssl) != NULL &&
                   psi_openssl.SSL_get_verify_result(s->ssl) == X509_V_OK;
    by_key = by_key && peer->key_asked && peer->identity.kind == PSI_IDENTITY_KEY;
    by_cert = by_cert && peer->identity.kind == PSI_IDENTITY_CERT;
    psi_openssl.SSL_get0_alpn_selected(s->ssl, &protocol, &protocol_bytes);
    if (protocol_bytes == 0) {
        psi_tls_note(peer, PSI_TLS_OTHER_SERVICE, "%s speaks TLS, but not psd's protocol (ALPN psd/1)", whom);
    } else if (!by_key && !by_cert) {
        psi_tls_note(peer, peer->dials ? PSI_TLS_KEY_NOT_USED : PSI_TLS_NO_IDENTITY, "%s proved neither a key nor a certificate",
                     whom);
    }
    return peer->reason == PSI_TLS_NONE;
}

/* Call when OpenSSL has finished the handshake: takes keys and certificates over from s->ssl, and frees s->ssl. */
static bool ssl_leave(struct psi_tls_stream *s)
{
    struct psi_tls_peer *peer = &s->peer;
    uint16_t suite = psi_openssl.SSL_CIPHER_get_protocol_id(psi_openssl.SSL_get_current_cipher(s->ssl));
    unsigned own = peer->dials ? 0 : 1;
    bool good = peer->secrets_known == 3 && psi_tls_way_begin(&s->to_peer, suite, peer->secrets[own], true) &&
                psi_tls_way_begin(&s->from_peer, suite, peer->secrets[1 - own], false);
    explicit_bzero(peer->secrets, sizeof(peer->secrets));
    if (good && peer->identity.kind == PSI_IDENTITY_CERT) {
        STACK_OF(X509) *chain = psi_openssl.SSL_get_peer_cert_chain(s->ssl);
        X509 *cert = psi_openssl.SSL_get0_peer_certificate(s->ssl);
        peer->cert = psi_openssl.X509_up_ref(cert) == 1 ? cert : NULL;
        peer->chain = chain != NULL ? psi_openssl.X509_chain_up_ref(chain) : NULL;
        good = peer->cert != NULL && (chain == NULL || peer->chain != NULL);
    }
    if (!good) {
        psi_tls_note(peer, PSI_TLS_INTERNAL, "memory is short for a TLS connection");
        return false;
    }
    psi_openssl.SSL_free(s->ssl);
    s->ssl = NULL;
    return true;
}

/* Check the peer against the present context: keys and certificates may have been reloaded since the handshake began. */
static bool peer_still_allowed(struct psi_tls_stream *s)
{
    char why[256];
    if (*s->loop->now != s->peer.tls && !psi_tls_stream_allowed(s->outer, *s->loop->now, why, sizeof(why))) {
        psi_tls_note(&s->peer, PSI_TLS_REVOKED, "%s", why);
        return false;
    }
    return true;
}

enum psi_tls_step psi_tls_handshake_step(struct psi_tls_stream *s)
{
    struct psi_tls_peer *peer = &s->peer;
    if (peer->dials && !s->heard && s->in_bytes > 0) {
        s->heard = true;
        if (s->in[0] < SSL3_RT_CHANGE_CIPHER_SPEC || s->in[0] > SSL3_RT_APPLICATION_DATA) {
            psi_tls_note(peer, PSI_TLS_PLAIN_TEXT,
                         "%s answers in plain text: it does not use TLS, and this side has a key or certificate", s->name);
            return PSI_TLS_STEP_FAILED;
        }
    }
    psi_openssl.ERR_clear_error();
    psi_tls_schedule_tell(peer->secrets, &peer->secrets_known);
    int rc = psi_openssl.SSL_do_handshake(s->ssl);
    psi_tls_schedule_tell(NULL, NULL);
    if (rc != 1 && psi_openssl.SSL_get_error(s->ssl, rc) == SSL_ERROR_WANT_READ) {
        return PSI_TLS_STEP_WAITS;
    }
    if (rc != 1) {
        if (s->raw_end == 0 || s->in_bytes > 0) {
            psi_tls_note_error(peer, s->name);
        }
        return PSI_TLS_STEP_FAILED;
    }
    if (!peer_judge(s) || !ssl_leave(s)) {
        return PSI_TLS_STEP_FAILED;
    }
    s->secured = true;
    if (!peer_still_allowed(s)) {
        s->secured = false;
        return PSI_TLS_STEP_FAILED;
    }
    psi_tls_stream_move(s->outer, *s->loop->now);
    return PSI_TLS_STEP_DONE;
}

#endif

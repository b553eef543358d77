/* SPDX-License-Identifier: Apache-2.0 */
/* Why a handshake or a connection failed: a reason with a stable name, and a sentence for people; OpenSSL's errors and alerts
 * name neither peer nor file. In a server's log "it" or "its" in a sentence means the client ("no line of F has its key w0 ...").
 * A client's sentence names the line and the file of its own key. Only the server's log says why the server refused. */
#include "peer.h"

#ifdef PSI_HAVE_TLS

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void psi_tls_note(struct psi_tls_peer *peer, enum psi_tls_reason reason, const char *format, ...)
{
    if (peer->reason != PSI_TLS_NONE) {
        return;
    }
    va_list args;
    va_start(args, format);
    peer->reason = reason;
    (void)vsnprintf(peer->text, sizeof(peer->text), format, args);
    va_end(args);
}

bool psi_tls_floods(const struct psi_tls_peer *peer)
{
    return peer->key_updates > PSI_TLS_KEY_UPDATES_PER_GIB_MAX * (1 + (peer->bytes_in >> 30));
}

const char *psi_tls_shown(const struct psi_tls_peer *peer, char *buf, size_t n)
{
    const struct psi_tls *tls = peer->tls;
    if (peer->key_asked) {
        (void)snprintf(buf, n, "%s:%u: key %s", psi_keys_file(tls->keys), peer->key_line, peer->identity.name);
    } else {
        (void)snprintf(buf, n, "certificate %s", tls->cert_file);
    }
    return buf;
}

void psi_tls_note_alert(struct psi_tls_peer *peer, int alert, const char *name)
{
    char shown[PSI_TLS_SHOWN_BYTES];
    const char *text = psi_openssl.SSL_alert_desc_string_long(alert);
    if (alert == TLS1_AD_NO_APPLICATION_PROTOCOL) {
        psi_tls_note(peer, PSI_TLS_OTHER_SERVICE, "%s speaks TLS, but is no psd", name);
    } else if (alert == TLS1_AD_PROTOCOL_VERSION) {
        psi_tls_note(peer, PSI_TLS_TLS_VERSION, "%s does not speak TLS 1.3", name);
    } else if (!peer->dials) {
        psi_tls_note(peer, PSI_TLS_REFUSED_BY_PEER, "it does not accept this side: %s", text);
    } else {
        psi_tls_note(peer, PSI_TLS_REFUSED_BY_PEER, "%s was refused by %s; its log says why (tls_refused)",
                     psi_tls_shown(peer, shown, sizeof(shown)), name);
    }
}

static void note_server(struct psi_tls_peer *peer, int reason)
{
    switch (reason) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:
        psi_tls_note(peer, PSI_TLS_WRONG_KEY, "its key %s with id %s has another secret than %s:%u", peer->identity.name,
                     peer->identity.key_id, psi_keys_file(peer->tls->keys), peer->key_line);
        break;
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
    case SSL_R_NO_CERTIFICATE_SET:
        psi_tls_note(peer, PSI_TLS_NO_IDENTITY, "it showed %s",
                     peer->tls->has_cert ? "neither a key that may be used here nor a certificate"
                                         : "no key, and this side has no certificates");
        break;
    case SSL_R_UNSUPPORTED_PROTOCOL:
        psi_tls_note(peer, PSI_TLS_TLS_VERSION, "it does not speak TLS 1.3");
        break;
    case SSL_R_NO_SHARED_CIPHER:
        psi_tls_note(peer, PSI_TLS_OTHER_SERVICE,
                     "it offers no suite that is spoken here: TLS_AES_128_GCM_SHA256 or TLS_CHACHA20_POLY1305_SHA256");
        break;
    case SSL_R_NO_APPLICATION_PROTOCOL:
        psi_tls_note(peer, PSI_TLS_OTHER_SERVICE, "it speaks TLS, but not psd's protocol (ALPN psd/1)");
        break;
    default:
        break;
    }
}

static void note_client(struct psi_tls_peer *peer, int reason, const char *name)
{
    if (reason == SSL_R_UNSUPPORTED_PROTOCOL) {
        psi_tls_note(peer, PSI_TLS_TLS_VERSION, "%s does not speak TLS 1.3", name);
    }
}

void psi_tls_note_error(struct psi_tls_peer *peer, const char *name)
{
    unsigned long error = psi_openssl.ERR_peek_error();
    int reason = error != 0 && !ERR_SYSTEM_ERROR(error) ? ERR_GET_REASON(error) : 0;
    bool of_ssl = error != 0 && ERR_GET_LIB(error) == ERR_LIB_SSL;
    const char *whom = peer->dials ? name : "the peer";
    const char *said = error != 0 ? psi_openssl.ERR_reason_error_string(error) : NULL;
    if (of_ssl && reason > SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256) {
        psi_tls_note_alert(peer, reason - SSL_AD_REASON_OFFSET, name);
    } else if (of_ssl && peer->dials) {
        note_client(peer, reason, name);
    } else if (of_ssl) {
        note_server(peer, reason);
    }
    if (error == 0 || (reason & ERR_R_FATAL) == ERR_R_FATAL) {
        psi_tls_note(peer, PSI_TLS_INTERNAL, "OpenSSL: %s", said != NULL ? said : "no reason given");
    }
    psi_tls_note(peer, PSI_TLS_DAMAGED, "bytes from %s were changed on the way, or are no TLS: %s", whom,
                 said != NULL ? said : "no reason given");
    psi_openssl.ERR_clear_error();
}

#endif

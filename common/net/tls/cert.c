/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a certificate names, and whether its owner may connect. Happy path: OpenSSL checks chain, dates and purpose; then the
 * certificate's one psd: URI becomes the peer's identity, and a client compares it with the task that it dialled. Failure modes:
 * a certificate without a psd: URI, with several, or with a malformed one is refused, because it could pose as any task. A
 * certificate may expire while its connection is open, so psi_tls_cert_allowed() is called again after a reload and regularly. */
#include "peer.h"

#ifdef PSI_HAVE_TLS

#include <stdio.h>
#include <string.h>
#include <time.h>

bool psi_tls_cert_uri(X509 *cert, char out[PSI_IDENTITY_BYTES_MAX + 1], struct psi_uri *out_parts, const char **why)
{
    static const char scheme[] = "psd:";
    unsigned found = 0;
    bool good = false;
    GENERAL_NAMES *names = psi_openssl.X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    int count = names == NULL ? 0 : psi_openssl.OPENSSL_sk_num((const OPENSSL_STACK *)names);
    for (int i = 0; i < count; i++) {
        const GENERAL_NAME *name = psi_openssl.OPENSSL_sk_value((const OPENSSL_STACK *)names, i);
        if (name->type != GEN_URI) {
            continue;
        }
        const char *bytes = (const char *)psi_openssl.ASN1_STRING_get0_data(name->d.uniformResourceIdentifier);
        size_t n = (size_t)psi_openssl.ASN1_STRING_length(name->d.uniformResourceIdentifier);
        if (n < sizeof(scheme) - 1 || memcmp(bytes, scheme, sizeof(scheme) - 1) != 0) {
            continue;
        }
        found++;
        good = psi_uri_parse(bytes, n, out_parts, NULL) == PS_OK;
    }
    psi_openssl.GENERAL_NAMES_free(names);
    *why = found == 0 ? "has no psd: URI"
           : found > 1
               ? "has more than one psd: URI"
               : "has a psd: URI that names neither a task (psd://CLUSTER/JOB/INDEX) nor a user (psd://CLUSTER/user/NAME)";
    if (found == 1 && good) {
        (void)psi_uri_text(out_parts, out, NULL);
    }
    return found == 1 && good;
}

int64_t psi_tls_cert_ends_s(X509 *cert)
{
    struct tm end;
    memset(&end, 0, sizeof(end));
    return psi_openssl.ASN1_TIME_to_tm(psi_openssl.X509_get0_notAfter(cert), &end) == 1 ? (int64_t)timegm(&end) : 0;
}

const char *psi_tls_cert_serial(X509 *cert, char buf[2 * PSI_TLS_SERIAL_BYTES + 1])
{
    const ASN1_INTEGER *serial = psi_openssl.X509_get0_serialNumber(cert);
    const uint8_t *bytes = psi_openssl.ASN1_STRING_get0_data(serial);
    int n = psi_openssl.ASN1_STRING_length(serial);
    size_t at = 0;
    buf[0] = '\0';
    for (int i = 0; i < n && i < PSI_TLS_SERIAL_BYTES; i++) {
        static const char digits[] = "0123456789abcdef";
        if (at > 0 || (bytes[i] >> 4) != 0) {
            buf[at++] = digits[bytes[i] >> 4];
        }
        if (at > 0 || (bytes[i] & 15) != 0) {
            buf[at++] = digits[bytes[i] & 15];
        }
    }
    buf[at] = '\0';
    return buf;
}

bool psi_tls_is_refused(const struct psi_tls *tls, const char *line)
{
    for (size_t at = 0; at < tls->refused_bytes; at += strlen(tls->refused + at) + 1) {
        if (strcmp(tls->refused + at, line) == 0) {
            return true;
        }
    }
    return false;
}

/* True if the client accepts a server with this URI. expect: the URI, maybe with a final '*'; "": the URI of any task. */
static bool is_expected(const char *expect, const char *uri, const struct psi_uri *parts)
{
    size_t n = strlen(expect);
    if (n == 0) {
        return !parts->is_user;
    }
    return expect[n - 1] == '*' ? strncmp(expect, uri, n - 1) == 0 : strcmp(expect, uri) == 0;
}

/* Check what the chain does not prove: that the owner of this certificate may connect. false: sets *reason and why [n]. */
static bool owner_allowed(const struct psi_tls *tls, X509 *cert, char uri[PSI_IDENTITY_BYTES_MAX + 1], struct psi_uri *parts,
                          enum psi_tls_reason *reason, char *why, size_t n)
{
    char serial[2 * PSI_TLS_SERIAL_BYTES + 1];
    const char *form = NULL;
    psi_tls_cert_serial(cert, serial);
    if (!psi_tls_cert_uri(cert, uri, parts, &form)) {
        *reason = PSI_TLS_CERT_NAME;
        (void)snprintf(why, n, "its certificate with serial %s %s", serial, form);
    } else if (tls->cluster[0] != '\0' && strcmp(tls->cluster, parts->cluster) != 0) {
        *reason = PSI_TLS_OTHER_CLUSTER;
        (void)snprintf(why, n, "its certificate is for %s, and this cluster is %s", uri, tls->cluster);
    } else if (psi_tls_is_refused(tls, uri) || psi_tls_is_refused(tls, serial)) {
        *reason = PSI_TLS_CERT_REFUSED;
        (void)snprintf(why, n, "its certificate %s with serial %s is in the list of refused ones", uri, serial);
    } else {
        return true;
    }
    return false;
}

static enum psi_tls_reason reason_of_chain(int error)
{
    switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return PSI_TLS_CERT_EXPIRED;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_CERT_UNTRUSTED:
        return PSI_TLS_OTHER_AUTHORITY;
    default:
        return PSI_TLS_CERT_BAD;
    }
}

static void set_time(const struct psi_tls *tls, X509_STORE_CTX *store)
{
    psi_openssl.X509_VERIFY_PARAM_set_time(psi_openssl.X509_STORE_CTX_get0_param(store), (time_t)tls->now_s());
}

int psi_tls_cert_verify(X509_STORE_CTX *store, void *unused)
{
    struct psi_uri parts;
    char uri[PSI_IDENTITY_BYTES_MAX + 1] = "";
    enum psi_tls_reason reason = PSI_TLS_NONE;
    char why[256], shown[PSI_TLS_SHOWN_BYTES];
    const SSL *ssl = psi_openssl.X509_STORE_CTX_get_ex_data(store, psi_openssl.SSL_get_ex_data_X509_STORE_CTX_idx());
    struct psi_tls_peer *peer = psi_tls_peer_of(ssl);
    const struct psi_tls *tls = peer->tls;
    (void)unused;
    set_time(tls, store);
    if (!tls->has_cert) { /* this client has only a key; a server that shows a certificate has not proved that it knows the key */
        psi_openssl.X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
        psi_tls_note(peer, PSI_TLS_KEY_NOT_USED,
                     "answered with a certificate instead of the key: it has no such line, or is none of this cluster's tasks; "
                     "shown was %s; its log says more (tls_refused)",
                     psi_tls_shown(peer, shown, sizeof(shown)));
        return 0;
    }
    if (psi_openssl.X509_verify_cert(store) != 1) {
        int error = psi_openssl.X509_STORE_CTX_get_error(store);
        psi_tls_note(peer, reason_of_chain(error), "its certificate is refused: %s (authority: %s)",
                     psi_openssl.X509_verify_cert_error_string(error), tls->ca_file);
        return 0;
    }
    bool good = owner_allowed(tls, psi_openssl.X509_STORE_CTX_get0_cert(store), uri, &parts, &reason, why, sizeof(why));
    if (good && peer->dials && !is_expected(peer->expect, uri, &parts)) {
        good = false;
        reason = PSI_TLS_OTHER_TASK;
        (void)snprintf(why, sizeof(why), "its certificate is %s, expected was %s", uri,
                       peer->expect[0] != '\0' ? peer->expect : "a task's");
    }
    if (!good) {
        psi_openssl.X509_STORE_CTX_set_error(store, reason == PSI_TLS_CERT_REFUSED ? X509_V_ERR_CERT_REVOKED
                                                                                   : X509_V_ERR_APPLICATION_VERIFICATION);
        psi_tls_note(peer, reason, "%s", why);
        return 0;
    }
    memset(&peer->identity, 0, sizeof(peer->identity));
    peer->identity.kind = PSI_IDENTITY_CERT;
    memcpy(peer->identity.name, uri, sizeof(uri));
    return 1;
}

bool psi_tls_cert_allowed(const struct psi_tls *now, const struct psi_tls_peer *peer, char *why, size_t n)
{
    X509 *cert = peer->cert;
    X509_STORE_CTX *store = psi_openssl.X509_STORE_CTX_new_ex(psi_openssl.own, NULL);
    struct psi_uri parts;
    char uri[PSI_IDENTITY_BYTES_MAX + 1];
    enum psi_tls_reason reason = PSI_TLS_NONE;
    bool good = false;
    PSI_ASSERT(cert != NULL);
    (void)snprintf(why, n, "its certificate cannot be checked: memory is short");
    if (!now->has_cert) {
        (void)snprintf(why, n, "certificates are no longer configured");
    } else if (store != NULL &&
               psi_openssl.X509_STORE_CTX_init(store, psi_openssl.SSL_CTX_get_cert_store(now->ctx), cert, peer->chain) == 1 &&
               psi_openssl.X509_STORE_CTX_set_default(store, peer->dials ? "ssl_server" : "ssl_client") == 1) {
        set_time(now, store);
        if (psi_openssl.X509_verify_cert(store) != 1) {
            (void)snprintf(why, n, "its certificate is refused: %s",
                           psi_openssl.X509_verify_cert_error_string(psi_openssl.X509_STORE_CTX_get_error(store)));
        } else {
            good = owner_allowed(now, cert, uri, &parts, &reason, why, n);
        }
    }
    psi_openssl.X509_STORE_CTX_free(store);
    psi_openssl.ERR_clear_error();
    return good;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The keys, the certificate and the authority of one program, as an SSL_CTX that serves both as client and as server.
 *
 * Happy path: psi_tls_new() loads OpenSSL, makes a context, changes those defaults of OpenSSL that are wrong for psd, copies the
 * keys, and reads the certificate, its private key, the authority and the list of refused certificates.
 *
 * Defaults that are changed, and why: TLS 1.3 only. Suites of SHA-256 only, because a pre-shared key is bound to one hash. No
 * tickets and no session cache: a resumed session would outlive a reload. SSL_VERIFY_PEER: each side asks for the other's
 * certificate. A session id context, which OpenSSL then needs for a pre-shared key. ALPN psd/1, which keeps out other services
 * with certificates of the same authority. No records for compatibility with middleboxes.
 *
 * Failure modes: a file that cannot be read or is wrong is named in the error; nothing of a half-read context is used. */
#include "peer.h"
#include "schedule.h"

#include "../../auth/key_file.h"
#include "../../buf.h"
#include "../../mem.h"
#include "../../text_file.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#ifdef PSI_HAVE_TLS

const unsigned char psi_tls_session_context[3] = {'p', 's', 'd'};
enum {
    FLIGHT_RECORD_BYTES = 2 << 10
}; /* longest handshake record, small because OpenSSL allocates and finally zeroes a buffer of this size for each handshake */
static const unsigned char alpn[] = {5, 'p', 's', 'd', '/', '1'};

struct psi_tls_peer *psi_tls_peer_of(const SSL *ssl)
{
    return psi_openssl.SSL_get_ex_data(ssl, 0);
}

static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_bytes, const unsigned char *in, unsigned in_bytes,
                   void *unused)
{
    (void)ssl;
    (void)unused;
    for (unsigned at = 0; at < in_bytes; at += in[at] + 1u) {
        if (in[at] == alpn[0] && in_bytes - at >= sizeof(alpn) && memcmp(in + at, alpn, sizeof(alpn)) == 0) {
            *out = in + at + 1;
            *out_bytes = in[at];
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static ps_status file_failed(const char *what, const char *path, struct psi_err *err)
{
    unsigned long error = psi_openssl.ERR_peek_error();
    const char *why = ERR_SYSTEM_ERROR(error) ? strerror(ERR_GET_REASON(error)) : psi_openssl.ERR_reason_error_string(error);
    return psi_fail(err, PS_INVALID_ARGUMENT, "%s %s: %s", what, path, why != NULL ? why : "no PEM file of that kind");
}

static ps_status dates_check(struct psi_tls *tls, X509 *cert, struct psi_err *err)
{
    char when[32];
    tls->cert_ends_s = psi_tls_cert_ends_s(cert);
    time_t end = (time_t)tls->cert_ends_s;
    struct tm day;
    if (tls->cert_ends_s > tls->now_s() || gmtime_r(&end, &day) == NULL) {
        return PS_OK;
    }
    (void)strftime(when, sizeof(when), "%Y-%m-%d", &day);
    return psi_fail(err, PS_INVALID_ARGUMENT, "certificate %s: it ended on %s. Make a new one (psctl tls add)", tls->cert_file,
                    when);
}

/* Check that nobody else can use the file of the private key, as psi_key_file_read() checks key files. */
static ps_status private_check(const char *path, struct psi_err *err)
{
    struct psi_secret text;
    ps_status st = psi_secret_file_read(path, &text, err);
    psi_secret_fini(&text);
    if (st != PS_OK) {
        psi_err_prefix(err, "private key");
    }
    return st;
}

static ps_status cert_read(struct psi_tls *tls, const struct psi_tls_config *config, struct psi_err *err)
{
    struct psi_uri parts;
    const char *why = NULL;
    ps_status st = private_check(config->key_file, err);
    if (st != PS_OK) {
        return st;
    }
    (void)snprintf(tls->cert_file, sizeof(tls->cert_file), "%s", config->cert_file);
    (void)snprintf(tls->ca_file, sizeof(tls->ca_file), "%s", config->ca_file);
    psi_openssl.ERR_clear_error();
    if (psi_openssl.SSL_CTX_use_certificate_chain_file(tls->ctx, config->cert_file) != 1) {
        return file_failed("certificate", config->cert_file, err);
    }
    if (psi_openssl.SSL_CTX_use_PrivateKey_file(tls->ctx, config->key_file, SSL_FILETYPE_PEM) != 1 ||
        psi_openssl.SSL_CTX_check_private_key(tls->ctx) != 1) {
        return file_failed("private key", config->key_file, err);
    }
    st = psi_trust_file_check("authority", config->ca_file, err);
    if (st != PS_OK) {
        return st;
    }
    if (psi_openssl.SSL_CTX_load_verify_file(tls->ctx, config->ca_file) != 1) {
        return file_failed("authority", config->ca_file, err);
    }
    X509 *cert = psi_openssl.SSL_CTX_get0_certificate(tls->ctx);
    if (!psi_tls_cert_uri(cert, tls->uri, &parts, &why)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "certificate %s: it %s", config->cert_file, why);
    }
    if (tls->cluster[0] != '\0' && strcmp(parts.cluster, tls->cluster) != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "certificate %s: it is for %s, and this cluster is %s", config->cert_file,
                        tls->uri, tls->cluster);
    }
    tls->has_cert = true;
    return dates_check(tls, cert, err);
}

/* Read a line [at, n) of the file of refused certificates into the form that is compared: a URI, or a serial in lower-case hex
 * without leading zeros. false: it is neither. */
static bool refused_line(const char *at, size_t n, char out[PSI_IDENTITY_BYTES_MAX + 1])
{
    struct psi_uri parts;
    size_t count = 0;
    if (psi_uri_parse(at, n, &parts, NULL) == PS_OK) {
        (void)psi_uri_text(&parts, out, NULL);
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        char c = (char)tolower((unsigned char)at[i]);
        if (!isxdigit((unsigned char)c) && c != ':') { /* `openssl x509 -text` writes a serial as pairs of digits with colons */
            return false;
        }
        if (c != ':' && (c != '0' || count > 0) && count < 2 * PSI_TLS_SERIAL_BYTES + 1) {
            out[count++] = c;
        }
    }
    out[count] = '\0';
    return count <= 2 * PSI_TLS_SERIAL_BYTES;
}

static ps_status refused_read(struct psi_tls *tls, const char *path, struct psi_err *err)
{
    enum { BYTES_MAX = 1 << 20 };
    struct psi_buf text;
    struct psi_buf lines;
    unsigned line = 0;
    static const char what[] = "list of refused certificates";
    psi_buf_init(&text, BYTES_MAX);
    ps_status st = psi_trust_file_check(what, path, err);
    st = st == PS_OK ? psi_text_file_read(what, path, BYTES_MAX, &text, err) : st;
    const char *at = st == PS_OK ? psi_buf_text(&text) : "";
    psi_buf_init(&lines, BYTES_MAX);
    if (st == PS_OK && strlen(at) != text.len) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "%s is no text: it has a byte 0", path);
    }
    while (st == PS_OK && *at != '\0') {
        char refused[PSI_IDENTITY_BYTES_MAX + 1];
        size_t n = strcspn(at, "\n");
        size_t used = strcspn(at, "#\n");
        const char *next = at + n + (at[n] == '\n' ? 1 : 0);
        line++;
        while (used > 0 && isspace((unsigned char)at[used - 1])) {
            used--;
        }
        while (used > 0 && isspace((unsigned char)*at)) {
            at++;
            used--;
        }
        if (used > 0 && !refused_line(at, used, refused)) {
            st = psi_fail(err, PS_INVALID_ARGUMENT, "%s:%u: neither a URI (psd://...) nor a serial in hexadecimal digits", path,
                          line);
        } else if (used > 0) {
            st = psi_buf_append(&lines, refused, strlen(refused) + 1, err);
        }
        at = next;
    }
    psi_buf_fini(&text);
    if (st != PS_OK) {
        psi_buf_fini(&lines);
        return st;
    }
    tls->refused = (char *)lines.data;
    tls->refused_bytes = lines.len;
    return PS_OK;
}

/* The server's order of suites decides. But a client that lists ChaCha20 first gets ChaCha20, because its AES may be slow. */
static bool settings_set(SSL_CTX *ctx, uint16_t suite_first)
{
    const char *suites = suite_first == PSI_TLS_SUITE_AES ? "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
                                                          : "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";
    (void)psi_openssl.SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                                   SSL_OP_PRIORITIZE_CHACHA);
    /* the machine's openssl.cnf may have set the last two options: handshakes without an ephemeral key, and TLS by the kernel */
    (void)psi_openssl.SSL_CTX_clear_options(ctx, SSL_OP_ENABLE_MIDDLEBOX_COMPAT | SSL_OP_ALLOW_NO_DHE_KEX | SSL_OP_ENABLE_KTLS);
    (void)psi_openssl.SSL_CTX_ctrl(ctx, SSL_CTRL_MODE, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, NULL);
    (void)psi_openssl.SSL_CTX_ctrl(ctx, SSL_CTRL_SET_MAX_SEND_FRAGMENT, FLIGHT_RECORD_BYTES, NULL);
    (void)psi_openssl.SSL_CTX_ctrl(ctx, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
    (void)psi_openssl.SSL_CTX_ctrl(ctx, SSL_CTRL_SET_MAX_CERT_LIST, PSI_TLS_CERT_LIST_BYTES_MAX, NULL);
    psi_openssl.SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    psi_openssl.SSL_CTX_set_cert_verify_callback(ctx, psi_tls_cert_verify, NULL);
    psi_openssl.SSL_CTX_set_psk_use_session_callback(ctx, psi_tls_key_use);
    psi_openssl.SSL_CTX_set_psk_find_session_callback(ctx, psi_tls_key_find);
    psi_openssl.SSL_CTX_set_alpn_select_cb(ctx, on_alpn, NULL);
    return psi_openssl.SSL_CTX_ctrl(ctx, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL) == 1 &&
           psi_openssl.SSL_CTX_ctrl(ctx, SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_3_VERSION, NULL) == 1 &&
           psi_openssl.SSL_CTX_set_ciphersuites(ctx, suites) == 1 &&
           psi_openssl.SSL_CTX_ctrl(ctx, SSL_CTRL_SET_GROUPS_LIST, 0, (void *)(uintptr_t) "X25519:P-256") == 1 &&
           psi_openssl.SSL_CTX_set_num_tickets(ctx, 0) == 1 &&
           psi_openssl.SSL_CTX_set_session_id_context(ctx, psi_tls_session_context, sizeof(psi_tls_session_context)) == 1 &&
           psi_openssl.SSL_CTX_set_alpn_protos(ctx, alpn, sizeof(alpn)) == 0;
}

static ps_status config_check(const struct psi_tls_config *config, struct psi_err *err)
{
    int files = (config->cert_file != NULL) + (config->key_file != NULL) + (config->ca_file != NULL);
    if (files != 0 && files != 3) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "certificates need three files: the certificate, its private key, and the authority; %s is missing",
                        config->cert_file == NULL  ? "the certificate (tls_cert)"
                        : config->key_file == NULL ? "the private key (tls_key)"
                                                   : "the authority (tls_ca)");
    }
    if (files == 0 && config->refused_file != NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s lists refused certificates, and no certificate is configured",
                        config->refused_file);
    }
    if (files == 0 && (config->keys == NULL || psi_keys_count(config->keys) == 0)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s has no key, and no certificate is configured",
                        config->keys == NULL ? "TLS" : psi_keys_file(config->keys));
    }
    return PS_OK;
}

static ps_status keys_take(struct psi_tls *tls, const struct psi_tls_config *config, struct psi_err *err)
{
    if (config->keys == NULL || psi_keys_count(config->keys) == 0) {
        return PS_OK;
    }
    const char *role = config->dial_role;
    if (psi_keys_first_use(config->keys, role, config->now_s()) == NULL && config->cert_file == NULL) {
        return psi_keys_no_use(config->keys, role, config->now_s(), err);
    }
    (void)snprintf(tls->dial_role, sizeof(tls->dial_role), "%s", role != NULL ? role : "");
    if (getrandom(tls->nobody, sizeof(tls->nobody), 0) != (ssize_t)sizeof(tls->nobody)) {
        return psi_fail(err, PS_INTERNAL, "no random bytes: %s", strerror(errno));
    }
    return psi_keys_copy(config->keys, &tls->keys, err);
}

ps_status psi_tls_new(const struct psi_tls_config *config, struct psi_tls **out, struct psi_err *err)
{
    struct psi_tls *tls = NULL;
    ps_status st = config_check(config, err);
    if (st == PS_OK) {
        st = psi_openssl_load(err);
    }
    if (st != PS_OK) {
        return st;
    }
    tls = psi_calloc(1, sizeof(*tls));
    if (tls == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for TLS");
    }
    atomic_init(&tls->refs, 1);
    tls->now_s = config->now_s;
    tls->key_update_records = config->key_update_records != 0 ? config->key_update_records : PSI_TLS_KEY_UPDATE_RECORDS;
    (void)snprintf(tls->cluster, sizeof(tls->cluster), "%s", config->cluster_name != NULL ? config->cluster_name : "");
    tls->ctx = psi_openssl.SSL_CTX_new_ex(psi_openssl.own, PSI_TLS_PROPERTIES, psi_openssl.TLS_method());
    tls->suite_first = config->suite_first != 0 ? config->suite_first : psi_tls_speed()->first;
    if (tls->ctx == NULL || !settings_set(tls->ctx, tls->suite_first)) {
        psi_openssl.ERR_clear_error();
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "OpenSSL makes no context: memory is short, or its settings lack TLS 1.3");
        goto fail;
    }
    st = keys_take(tls, config, err);
    if (st == PS_OK && config->cert_file != NULL) {
        st = cert_read(tls, config, err);
    }
    if (st == PS_OK && config->refused_file != NULL) {
        st = refused_read(tls, config->refused_file, err);
    }
    if (st != PS_OK) {
        goto fail;
    }
    *out = tls;
    return PS_OK;
fail:
    psi_tls_unref(tls);
    return st;
}

struct psi_tls *psi_tls_ref(struct psi_tls *tls)
{
    atomic_fetch_add(&tls->refs, 1);
    return tls;
}

void psi_tls_unref(struct psi_tls *tls)
{
    if (tls == NULL || atomic_fetch_sub(&tls->refs, 1) != 1) {
        return;
    }
    psi_openssl.SSL_CTX_free(tls->ctx);
    psi_keys_free(tls->keys);
    psi_free(tls->refused);
    explicit_bzero(tls->nobody, sizeof(tls->nobody));
    psi_free(tls);
}

const char *psi_tls_suite(const struct psi_tls *tls, struct psi_tls_speed *out_speed)
{
    *out_speed = *psi_tls_speed();
    return tls->suite_first == PSI_TLS_SUITE_AES ? "AES-128-GCM" : "ChaCha20-Poly1305";
}

const char *psi_tls_uri(const struct psi_tls *tls)
{
    return tls->uri;
}

bool psi_tls_next_end(const struct psi_tls *tls, size_t *at, int64_t *out_s, char *buf, size_t n)
{
    const size_t lines = tls->keys != NULL ? psi_keys_count(tls->keys) : 0;
    while (*at <= lines) { /* *at 0: the certificate; from 1: the keys */
        const struct psi_key *key = *at > 0 ? psi_keys_at(tls->keys, *at - 1) : NULL;
        (*at)++;
        if (key == NULL && tls->has_cert) {
            *out_s = tls->cert_ends_s;
            (void)snprintf(buf, n, "certificate %s", tls->cert_file);
            return true;
        }
        if (key != NULL && key->use && key->until_s != 0) {
            *out_s = key->until_s;
            (void)snprintf(buf, n, "%s:%u: key %s", psi_keys_file(tls->keys), key->line, key->name);
            return true;
        }
    }
    return false;
}

#else

ps_status psi_tls_new(const struct psi_tls_config *config, struct psi_tls **out, struct psi_err *err)
{
    (void)config;
    (void)out;
    return psi_openssl_load(err);
}

struct psi_tls *psi_tls_ref(struct psi_tls *tls)
{
    return tls;
}

void psi_tls_unref(struct psi_tls *tls)
{
    PSI_ASSERT(tls == NULL);
}

const char *psi_tls_suite(const struct psi_tls *tls, struct psi_tls_speed *out_speed)
{
    (void)tls;
    *out_speed = (struct psi_tls_speed){.first = 0};
    return "";
}

const char *psi_tls_uri(const struct psi_tls *tls)
{
    (void)tls;
    return "";
}

bool psi_tls_next_end(const struct psi_tls *tls, size_t *at, int64_t *out_s, char *buf, size_t n)
{
    (void)tls;
    (void)at;
    (void)out_s;
    (void)snprintf(buf, n, "%s", "");
    return false;
}

#endif

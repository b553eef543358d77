/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates, made by OpenSSL's libcrypto, which is opened once: make a P-256 key and a signed certificate with the
 * extensions that psd needs, and write both as PEM. Failure modes: no library (the package is named); what OpenSSL refuses, with
 * OpenSSL's words. An authority: CN is the cluster's name, O is "psd authority"; it may sign certificates and do nothing else. A
 * certificate: one SAN with one psd: URI, serverAuth and clientAuth, because a task is a server and a client. */
#include "pki.h"

void pki_pair_fini(struct pki_pair *pair)
{
    psi_secret_fini(&pair->cert);
    psi_secret_fini(&pair->key);
}

#if !defined(PSI_WITHOUT_TLS) && __has_include(<openssl/x509v3.h>)

#include "common/name.h"

#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* The functions of OpenSSL that are used, found by name in the loaded library. Macros are not used: they have no names there. */
#define FUNCTIONS(X)                                                                                                             \
    X(ASN1_STRING_get0_data)                                                                                                     \
    X(ASN1_STRING_length)                                                                                                        \
    X(ASN1_STRING_set)                                                                                                           \
    X(ASN1_TIME_set)                                                                                                             \
    X(ASN1_TIME_to_tm)                                                                                                           \
    X(BIO_ctrl)                                                                                                                  \
    X(BIO_free)                                                                                                                  \
    X(BIO_new)                                                                                                                   \
    X(BIO_new_mem_buf)                                                                                                           \
    X(BIO_s_mem)                                                                                                                 \
    X(ERR_clear_error)                                                                                                           \
    X(ERR_peek_last_error)                                                                                                       \
    X(ERR_reason_error_string)                                                                                                   \
    X(EVP_PKEY_Q_keygen)                                                                                                         \
    X(EVP_PKEY_free)                                                                                                             \
    X(EVP_sha256)                                                                                                                \
    X(GENERAL_NAMES_free)                                                                                                        \
    X(OPENSSL_sk_num)                                                                                                            \
    X(OPENSSL_sk_value)                                                                                                          \
    X(PEM_read_bio_PrivateKey)                                                                                                   \
    X(PEM_read_bio_X509)                                                                                                         \
    X(PEM_write_bio_PKCS8PrivateKey)                                                                                             \
    X(PEM_write_bio_X509)                                                                                                        \
    X(X509V3_EXT_nconf_nid)                                                                                                      \
    X(X509V3_set_ctx)                                                                                                            \
    X(X509_EXTENSION_free)                                                                                                       \
    X(X509_NAME_add_entry_by_txt)                                                                                                \
    X(X509_NAME_get_text_by_NID)                                                                                                 \
    X(X509_NAME_oneline)                                                                                                         \
    X(X509_add_ext)                                                                                                              \
    X(X509_check_ca)                                                                                                             \
    X(X509_check_private_key)                                                                                                    \
    X(X509_free)                                                                                                                 \
    X(X509_get0_notAfter)                                                                                                        \
    X(X509_get0_notBefore)                                                                                                       \
    X(X509_get0_serialNumber)                                                                                                    \
    X(X509_get_ext_d2i)                                                                                                          \
    X(X509_get_issuer_name)                                                                                                      \
    X(X509_get_serialNumber)                                                                                                     \
    X(X509_get_subject_name)                                                                                                     \
    X(X509_getm_notAfter)                                                                                                        \
    X(X509_getm_notBefore)                                                                                                       \
    X(X509_new)                                                                                                                  \
    X(X509_set_issuer_name)                                                                                                      \
    X(X509_set_pubkey)                                                                                                           \
    X(X509_set_version)                                                                                                          \
    X(X509_sign)

enum { HOUR_S = 3600, DAY_S = 24 * HOUR_S, SERIAL_BYTES = 16, COMMON_NAME_BYTES_MAX = 64, VERSION_3 = 2 };

static struct {
#define FIELD(name) __typeof__ (&(name))(name);
    FUNCTIONS(FIELD)
#undef FIELD
} crypto;

static ps_status load_openssl(struct psi_err *err)
{
    static const struct {
        const char *name;
        void *at;
    } functions[] = {
#define ROW(name) {#name, &crypto.name},
        FUNCTIONS(ROW)
#undef ROW
    };
    static const char library_name[] = "libcrypto.so.3";
    if (crypto.X509_sign != NULL) {
        return PS_OK;
    }
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return psi_fail(err, PS_UNIMPLEMENTED,
                        "certificates need OpenSSL 3, which is not installed here: %s. Install the package libssl3", dlerror());
    }
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *function = dlsym(library, functions[i].name);
        if (function == NULL) {
            return psi_fail(err, PS_UNIMPLEMENTED, "certificates need OpenSSL 3.0 or newer: %s has no %s", library_name,
                            functions[i].name);
        }
        memcpy(functions[i].at, &function, sizeof(function));
    }
    return PS_OK;
}

static ps_status refuse(struct psi_err *err, ps_status st, const char *what)
{
    const char *why = crypto.ERR_reason_error_string(crypto.ERR_peek_last_error());
    crypto.ERR_clear_error();
    return psi_fail(err, st, "%s%s%s", what, why != NULL ? ": " : "", why != NULL ? why : "");
}

/* Copy the PEM text that was written to the BIO (OpenSSL's memory buffer) into *out. Frees the BIO, which zeroes its memory. */
static ps_status take_pem(BIO *bio, bool written, struct psi_secret *out, struct psi_err *err)
{
    char *p = NULL;
    const long n = written ? crypto.BIO_ctrl(bio, BIO_CTRL_INFO, 0, &p) : 0;
    ps_status st = n > 0 ? psi_secret_new(p, (size_t)n, out, err) : refuse(err, PS_INTERNAL, "OpenSSL could not write PEM");
    (void)crypto.BIO_free(bio);
    return st;
}

static ps_status to_pem(X509 *cert, const EVP_PKEY *key, struct pki_pair *out, struct psi_err *err)
{
    BIO *bio = crypto.BIO_new(crypto.BIO_s_mem());
    ps_status st = bio == NULL ? refuse(err, PS_RESOURCE_EXHAUSTED, "OpenSSL: memory")
                               : take_pem(bio, crypto.PEM_write_bio_X509(bio, cert) == 1, &out->cert, err);
    bio = st == PS_OK ? crypto.BIO_new(crypto.BIO_s_mem()) : NULL;
    if (st == PS_OK && bio == NULL) {
        return refuse(err, PS_RESOURCE_EXHAUSTED, "OpenSSL: memory");
    }
    return st == PS_OK
               ? take_pem(bio, crypto.PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1, &out->key, err)
               : st;
}

static X509 *read_cert(const struct psi_secret *pem)
{
    BIO *bio = crypto.BIO_new_mem_buf(pem->p, (int)pem->n);
    X509 *cert = bio != NULL ? crypto.PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    (void)crypto.BIO_free(bio);
    return cert;
}

/* OpenSSL's callback for a password: refuses keys with a password, because no user can be asked. */
static int no_password(char *buf, int size, int writing, void *ctx)
{
    (void)buf;
    (void)size;
    (void)writing;
    (void)ctx;
    return -1;
}

static EVP_PKEY *read_key(const struct psi_secret *pem)
{
    BIO *bio = crypto.BIO_new_mem_buf(pem->p, (int)pem->n);
    EVP_PKEY *key = bio != NULL ? crypto.PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
    (void)crypto.BIO_free(bio);
    return key;
}

static bool set_serial(X509 *cert)
{
    uint8_t serial[SERIAL_BYTES];
    if (getrandom(serial, sizeof(serial), 0) != (ssize_t)sizeof(serial)) {
        return false;
    }
    /* make the number positive and its first byte not 0: then the encoding of every serial number has the same length */
    serial[0] = (serial[0] & 0x7f) | 1;
    return crypto.ASN1_STRING_set(crypto.X509_get_serialNumber(cert), serial, sizeof(serial)) == 1;
}

static bool add_name(X509_NAME *name, const char *field, const char *text)
{
    return crypto.X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, (const unsigned char *)text, -1, -1, 0) == 1;
}

struct extension {
    int nid;
    const char *value;
};

static bool add_extensions(X509 *cert, X509 *issuer, const struct extension *extensions, size_t count)
{
    X509V3_CTX ctx;
    bool good = true;
    crypto.X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    for (size_t i = 0; i < count && good; i++) {
        X509_EXTENSION *e = crypto.X509V3_EXT_nconf_nid(NULL, &ctx, extensions[i].nid, extensions[i].value);
        good = e != NULL && crypto.X509_add_ext(cert, e, -1) == 1;
        crypto.X509_EXTENSION_free(e);
    }
    return good;
}

struct plan {
    const char *common_name, *organisation;
    int64_t from_s, until_s;
    X509 *issuer; /* who signs; NULL: the new certificate signs itself */
    EVP_PKEY *issuer_key;
    const struct extension *extensions;
    size_t extension_count;
};

static bool fill(X509 *cert, EVP_PKEY *key, const struct plan *plan)
{
    X509_NAME *name = crypto.X509_get_subject_name(cert);
    X509 *issuer = plan->issuer != NULL ? plan->issuer : cert;
    return crypto.X509_set_version(cert, VERSION_3) == 1 && set_serial(cert) && add_name(name, "O", plan->organisation) &&
           add_name(name, "CN", plan->common_name) &&
           crypto.X509_set_issuer_name(cert, crypto.X509_get_subject_name(issuer)) == 1 &&
           crypto.ASN1_TIME_set(crypto.X509_getm_notBefore(cert), (time_t)plan->from_s) != NULL &&
           crypto.ASN1_TIME_set(crypto.X509_getm_notAfter(cert), (time_t)plan->until_s) != NULL &&
           crypto.X509_set_pubkey(cert, key) == 1 && add_extensions(cert, issuer, plan->extensions, plan->extension_count) &&
           crypto.X509_sign(cert, plan->issuer_key != NULL ? plan->issuer_key : key, crypto.EVP_sha256()) > 0;
}

static ps_status make_pair(const struct plan *plan, struct pki_pair *out, struct psi_err *err)
{
    EVP_PKEY *key = crypto.EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    X509 *cert = crypto.X509_new();
    ps_status st = key != NULL && cert != NULL && fill(cert, key, plan)
                       ? to_pem(cert, key, out, err)
                       : refuse(err, PS_INTERNAL, "OpenSSL could not make the certificate");
    crypto.X509_free(cert);
    crypto.EVP_PKEY_free(key);
    return st;
}

ps_status pki_authority(const char *cluster, int64_t days, int64_t now_s, struct pki_pair *out, struct psi_err *err)
{
    static const struct extension extensions[] = {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                                                  {NID_key_usage, "critical,keyCertSign,cRLSign"},
                                                  {NID_subject_key_identifier, "hash"}};
    const struct plan plan = {.common_name = cluster,
                              .organisation = "psd authority",
                              .from_s = now_s - HOUR_S,
                              .until_s = now_s + days * DAY_S,
                              .extensions = extensions,
                              .extension_count = sizeof(extensions) / sizeof(extensions[0])};
    *out = (struct pki_pair){.cert.p = NULL};
    ps_status st = load_openssl(err);
    return st == PS_OK ? make_pair(&plan, out, err) : st;
}

static int64_t seconds_of(const ASN1_TIME *time)
{
    struct tm tm = {0};
    return crypto.ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

static ps_status by_authority(X509 *ca, EVP_PKEY *ca_key, const char *uri, int64_t days, int64_t now_s, struct pki_pair *out,
                              struct psi_err *err)
{
    char san[PSI_IDENTITY_BYTES_MAX + sizeof("URI:")];
    const int64_t ca_until_s = seconds_of(crypto.X509_get0_notAfter(ca)), until_s = now_s + days * DAY_S;
    if (crypto.X509_check_private_key(ca, ca_key) != 1) {
        return refuse(err, PS_INVALID_ARGUMENT, "the authority's key is not that of its certificate");
    }
    if (ca_until_s <= now_s) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "the authority's certificate is over: make another one with psctl tls init");
    }
    (void)snprintf(san, sizeof(san), "URI:%s", uri);
    const struct extension extensions[] = {
        {NID_basic_constraints, "critical,CA:FALSE"},   {NID_key_usage, "critical,digitalSignature"},
        {NID_ext_key_usage, "serverAuth,clientAuth"},   {NID_subject_key_identifier, "hash"},
        {NID_authority_key_identifier, "keyid:always"}, {NID_subject_alt_name, san}};
    char name[COMMON_NAME_BYTES_MAX + 1];
    (void)snprintf(name, sizeof(name), "%s", strchr(uri + sizeof("psd://") - 1, '/') + 1);
    const struct plan plan = {.common_name = name,
                              .organisation = "psd",
                              .from_s = now_s - HOUR_S,
                              .until_s = until_s < ca_until_s ? until_s : ca_until_s,
                              .issuer = ca,
                              .issuer_key = ca_key,
                              .extensions = extensions,
                              .extension_count = sizeof(extensions) / sizeof(extensions[0])};
    return make_pair(&plan, out, err);
}

ps_status pki_certificate(const struct pki_pair *authority, const char *uri, int64_t days, int64_t now_s, struct pki_pair *out,
                          struct psi_err *err)
{
    *out = (struct pki_pair){.cert.p = NULL};
    ps_status st = load_openssl(err);
    if (st != PS_OK) {
        return st;
    }
    X509 *ca = read_cert(&authority->cert);
    EVP_PKEY *ca_key = ca != NULL ? read_key(&authority->key) : NULL;
    st = ca == NULL       ? refuse(err, PS_INVALID_ARGUMENT, "the authority's certificate is none")
         : ca_key == NULL ? refuse(err, PS_INVALID_ARGUMENT, "the authority's key is no private key, or has a password")
                          : by_authority(ca, ca_key, uri, days, now_s, out, err);
    crypto.EVP_PKEY_free(ca_key);
    crypto.X509_free(ca);
    return st;
}

static void read_serial(X509 *cert, struct pki_info *out)
{
    const ASN1_INTEGER *serial = crypto.X509_get0_serialNumber(cert);
    const unsigned char *p = crypto.ASN1_STRING_get0_data(serial);
    const int n = crypto.ASN1_STRING_length(serial);
    char hex[sizeof(out->serial)] = "";
    for (int i = 0; i < n && i < (int)sizeof(hex) / 2; i++) {
        (void)snprintf(hex + (size_t)2 * (size_t)i, 3, "%02x", p[i]);
    }
    const char *digits = hex + strspn(hex, "0");
    (void)snprintf(out->serial, sizeof(out->serial), "%s", digits[0] != '\0' ? digits : "0");
}

/* Read the certificate's psd: URI into out->uri; "" if its SAN (alternative name) is not just one such URI. */
static void read_uri(X509 *cert, struct pki_info *out)
{
    GENERAL_NAMES *names = crypto.X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    const OPENSSL_STACK *stack = (const OPENSSL_STACK *)names;
    const int count = names != NULL ? crypto.OPENSSL_sk_num(stack) : 0;
    for (int i = 0; i < count; i++) {
        const GENERAL_NAME *name = crypto.OPENSSL_sk_value(stack, i);
        struct psi_uri uri;
        if (name->type == GEN_URI && count == 1) {
            const ASN1_STRING *text = name->d.uniformResourceIdentifier;
            const char *p = (const char *)crypto.ASN1_STRING_get0_data(text);
            if (psi_uri_parse(p, (size_t)crypto.ASN1_STRING_length(text), &uri, NULL) == PS_OK) {
                (void)psi_uri_text(&uri, out->uri, NULL);
            }
        }
    }
    crypto.GENERAL_NAMES_free(names);
}

ps_status pki_read(const struct psi_secret *pem, struct pki_info *out, struct psi_err *err)
{
    ps_status st = load_openssl(err);
    *out = (struct pki_info){.authority = false};
    if (st != PS_OK) {
        return st;
    }
    X509 *cert = read_cert(pem);
    if (cert == NULL) {
        return refuse(err, PS_INVALID_ARGUMENT, "there is no certificate in it");
    }
    char organisation[64] = "", name[PS_JOB_BYTES_MAX + 1] = "";
    X509_NAME *subject = crypto.X509_get_subject_name(cert);
    out->authority = crypto.X509_check_ca(cert) > 0;
    (void)crypto.X509_NAME_get_text_by_NID(subject, NID_organizationName, organisation, sizeof(organisation));
    (void)crypto.X509_NAME_get_text_by_NID(subject, NID_commonName, name, sizeof(name));
    if (out->authority && strcmp(organisation, "psd authority") == 0 &&
        psi_cluster_name_check(name, strlen(name), NULL) == PS_OK) {
        memcpy(out->cluster, name, sizeof(name));
    }
    (void)crypto.X509_NAME_oneline(crypto.X509_get_issuer_name(cert), out->issuer, sizeof(out->issuer));
    read_serial(cert, out);
    read_uri(cert, out);
    out->from_s = seconds_of(crypto.X509_get0_notBefore(cert));
    out->until_s = seconds_of(crypto.X509_get0_notAfter(cert));
    crypto.X509_free(cert);
    return PS_OK;
}

#else

static ps_status without(struct psi_err *err)
{
    return psi_fail(err, PS_UNIMPLEMENTED,
                    "this build makes no certificates: install the package libssl-dev, and build again (make says \"tls yes\")");
}

ps_status pki_authority(const char *cluster, int64_t days, int64_t now_s, struct pki_pair *out, struct psi_err *err)
{
    (void)cluster;
    (void)days;
    (void)now_s;
    *out = (struct pki_pair){.cert.p = NULL};
    return without(err);
}

ps_status pki_certificate(const struct pki_pair *authority, const char *uri, int64_t days, int64_t now_s, struct pki_pair *out,
                          struct psi_err *err)
{
    (void)authority;
    return pki_authority(uri, days, now_s, out, err);
}

ps_status pki_read(const struct psi_secret *pem, struct pki_info *out, struct psi_err *err)
{
    (void)pem;
    *out = (struct pki_info){.authority = false};
    return without(err);
}

#endif

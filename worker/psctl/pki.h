/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psctl tls: make an authority and certificates, in memory, with P-256 and SHA-256. OpenSSL's libcrypto is opened at the first
 * call of a function here, so that a psctl that makes no certificates does not need it.
 */
#ifndef PSCTL_PKI_H
#define PSCTL_PKI_H

#include "common/auth/identity.h"
#include "common/auth/key_file.h"

/* A certificate and its private key as PEM. pki_pair_fini() zeroes and frees both. */
struct pki_pair {
    struct psi_secret cert, key;
};
struct pki_info {
    bool authority;
    char uri[PSI_IDENTITY_BYTES_MAX + 1];    /* the psd: URI of a certificate of psd; else "" */
    char cluster[PS_JOB_BYTES_MAX + 1];      /* the cluster of an authority that psctl has made; else "" */
    char issuer[PSI_IDENTITY_BYTES_MAX + 1]; /* name of the authority that signed it */
    char serial[2 * 20 + 1];                 /* hexadecimal, as in the log event tls_refused */
    int64_t from_s, until_s;                 /* first and last second of validity, Unix time */
};

/**
 * Make an authority for one cluster.
 *
 * now_s   Unix time; the certificate is valid from an hour before, because clocks differ.
 * out     set in any case; the caller frees it with pki_pair_fini().
 * Errors  PS_UNIMPLEMENTED  no OpenSSL; the text names the package
 *         PS_INTERNAL       OpenSSL failed; the text is OpenSSL's
 */
PSI_MUST ps_status pki_authority(const char *cluster, int64_t days, int64_t now_s, struct pki_pair *out, struct psi_err *err);
/** Make a certificate for uri, which the caller has checked, signed by the authority. It ends with the authority's certificate
 * at the latest. Errors: those of pki_authority(); PS_INVALID_ARGUMENT: the authority's certificate is no authority's, does not
 * fit its key, or has expired. */
PSI_MUST ps_status pki_certificate(const struct pki_pair *authority, const char *uri, int64_t days, int64_t now_s,
                                   struct pki_pair *out, struct psi_err *err);
/** Read the first certificate of a PEM text into *out. Errors: PS_INVALID_ARGUMENT: the text has none. */
PSI_MUST ps_status pki_read(const struct psi_secret *pem, struct pki_info *out, struct psi_err *err);
void pki_pair_fini(struct pki_pair *pair);

#endif

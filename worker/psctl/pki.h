/* SPDX-License-Identifier: Apache-2.0 */
/* psctl tls makes a certificate authority and certificates (P-256, SHA-256). It loads OpenSSL's libcrypto at the first call. */
#ifndef PSCTL_PKI_H
#define PSCTL_PKI_H

#include "common/auth/identity.h"
#include "common/auth/key_file.h"

/* A certificate and its private key, as PEM texts. pki_pair_fini() zeroes and frees both. */
struct pki_pair {
    struct psi_secret cert, key;
};
/* What psctl shows of a certificate. */
struct pki_info {
    bool authority;                       /* the certificate may sign others */
    char uri[PSI_IDENTITY_BYTES_MAX + 1]; /* psd://CLUSTER/JOB/INDEX or psd://CLUSTER/user/NAME; "": not a certificate of psd */
    char cluster[PS_JOB_BYTES_MAX + 1];   /* of an authority that psctl has made: its cluster; else "" */
    char issuer[PSI_IDENTITY_BYTES_MAX + 1];
    char serial[2 * 20 + 1]; /* hexadecimal, as the log event tls_refused shows it */
    int64_t from_s, until_s; /* first and last second of validity, Unix time */
};

/** Make an authority for one cluster.
 *
 * now_s   Unix time; the certificate is valid from an hour before, because clocks differ.
 * out     set in any case; the caller frees it with pki_pair_fini().
 * Errors  PS_UNIMPLEMENTED  no OpenSSL; the text names the package
 *         PS_INTERNAL       OpenSSL failed; the text is OpenSSL's */
PSI_MUST ps_status pki_authority(const char *cluster, int64_t days, int64_t now_s, struct pki_pair *out, struct psi_err *err);
/** Make a certificate with this URI (psd://..., checked by the caller), signed by the authority, valid no longer than that.
 * Errors: those of pki_authority(); PS_INVALID_ARGUMENT: `authority` may not sign, does not fit its key, or has expired. */
PSI_MUST ps_status pki_certificate(const struct pki_pair *authority, const char *uri, int64_t days, int64_t now_s,
                                   struct pki_pair *out, struct psi_err *err);
/** Read the first certificate in a PEM text into *out. Errors: PS_INVALID_ARGUMENT: the text has no certificate. */
PSI_MUST ps_status pki_read(const struct psi_secret *pem, struct pki_info *out, struct psi_err *err);
void pki_pair_fini(struct pki_pair *pair);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The key schedule of TLS 1.3 with SHA-256 (RFC 8446, 7.1), as a provider for OpenSSL: derives the 21 values of a handshake, and
 * gives psd a copy of the traffic secrets. OpenSSL's own TLS13-KDF and key log took a fifth of a handshake's instructions.
 * For common/net/tls/ only. */
#ifndef PSI_TLS_SCHEDULE_H
#define PSI_TLS_SCHEDULE_H

#include "record.h"

#ifdef PSI_HAVE_TLS

/* The property query of psd's contexts: OpenSSL takes an algorithm from psd's provider if it is there, else from its own. */
#define PSI_TLS_PROPERTIES "?provider=psd"

/** Load psd's provider and OpenSSL's into psd's library context. Call it once psi_openssl is filled. false: OpenSSL failed. */
bool psi_tls_schedule_load(void);
/** From now on copy the traffic secrets that handshakes on this thread derive: the client's to secrets[0], the server's to
 * secrets[1]; bit 0 or 1 of *known is set with it. known NULL: stop copying. */
void psi_tls_schedule_tell(uint8_t (*secrets)[PSI_TLS_SECRET_BYTES], unsigned *known);
/** HKDF-Expand-Label without a context, of n <= PSI_TLS_SECRET_BYTES bytes. out may be secret. false: memory is short. */
bool psi_tls_schedule_expand(const uint8_t secret[PSI_TLS_SECRET_BYTES], const char *label, uint8_t *out, size_t n);

#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Key and certificate of a session, read again when a file has changed, so that a key can be replaced. One thread at a time. */
#ifndef PSI_WORKER_IO_SECURE_H
#define PSI_WORKER_IO_SECURE_H

#include "common/status.h"
#include "worker/ps.h"

struct psi_secure;
struct psi_tls;

/** Find the key file for a session with these options (ps_session_options.key_file). path [PATH_MAX]. False: no key file. */
bool psi_secure_key_file(const ps_session_options *o, char *path);
/** Find and read the files that the options name.
 *
 * out     owned by the caller: psi_secure_free(); NULL if there is neither a key nor a certificate. Written only on success.
 * Errors  as psi_key_file_read() and psi_tls_new() */
PSI_MUST ps_status psi_secure_new(const ps_session_options *o, struct psi_secure **out, struct psi_err *err);
void psi_secure_free(struct psi_secure *secure);
/** TLS context for the next connection, owned by secure. A file that has changed since the last call is read first; if its
 * content is wrong, the previous context stays. secure: struct psi_secure; NULL returns NULL. */
struct psi_tls *psi_secure_tls(void *secure);

#endif

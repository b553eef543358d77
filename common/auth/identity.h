/* SPDX-License-Identifier: Apache-2.0 */
/* Who a peer is. A connection has exactly one identity: the key or the certificate of its handshake, the uid behind a Unix
 * socket, or nobody in particular (TCP without keys and certificates). Rights, sessions and logs name it. Pure, any thread. */
#ifndef PSI_IDENTITY_H
#define PSI_IDENTITY_H

#include "../limits.h"
#include "../status.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PSI_IDENTITY_BYTES_MAX = 128, /* longest name of an identity: a key's name, a URI or a uid in decimal */
    PSI_ROLE_BYTES_MAX = 15,
    PSI_KEY_ID_BYTES = 8,                                /* lower-case hexadecimal digits of a key id */
    PSI_IDENTITY_TEXT_BYTES = PSI_IDENTITY_BYTES_MAX + 6 /* room for the longest psi_identity_text(), with "cert:" and NUL */
};

enum psi_identity_kind { PSI_IDENTITY_ANYBODY, PSI_IDENTITY_KEY, PSI_IDENTITY_CERT, PSI_IDENTITY_UID };
struct psi_identity {
    enum psi_identity_kind kind;
    char name[PSI_IDENTITY_BYTES_MAX + 1]; /* KEY: the key's name; CERT: the URI; UID: the uid in decimal; ANYBODY: "" */
    /* KEY: role in the key's line. UID of this process itself: "admin". ANYBODY on a Unix socket: "unmapped" if the peer's uid
     * has no number in this user namespace. Otherwise "" */
    char role[PSI_ROLE_BYTES_MAX + 1];
    char key_id[PSI_KEY_ID_BYTES + 1]; /* KEY: key id of the line whose key was used; otherwise "" */
};

/* TLS handshakes of accepted connections. */
struct psi_handshakes {
    /* done: completed handshakes since the process began to use TLS; refused: failed ones, also if the peer broke them off */
    uint64_t done, refused;
    uint32_t under_way; /* handshakes that run now, or wait for a slot */
};

/** True if kind and name are equal. Two key lines of one name (a key rotation) are one identity. */
bool psi_identity_equal(const struct psi_identity *a, const struct psi_identity *b);
/** Write an identity as "key:w0", "cert:psd://psd/ps/0", "uid:1000" or "anybody" to buf [n], cut if n is too small:
 * PSI_IDENTITY_TEXT_BYTES are enough. Returns buf. */
const char *psi_identity_text(const struct psi_identity *identity, char *buf, size_t n);
/** Read what psi_identity_text() writes; role and key_id become "".
 *
 * out     written only on success.
 * Errors  PS_INVALID_ARGUMENT  not an identity; the text says how one is written. */
PSI_MUST ps_status psi_identity_parse(const char *text, struct psi_identity *out, struct psi_err *err);

/** True if the n bytes are a role of a key: ps, worker, monitor, admin. */
bool psi_role_is(const char *role, size_t n);
/** Check a role. Errors: PS_INVALID_ARGUMENT; the text lists the roles and guesses which one was meant. */
PSI_MUST ps_status psi_role_check(const char *role, size_t n, struct psi_err *err);

/* psd://CLUSTER/JOB/INDEX (a task) or psd://CLUSTER/user/NAME: the URI in a certificate. */
struct psi_uri {
    char cluster[PS_JOB_BYTES_MAX + 1];
    bool is_user;
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t index;
    char user[PS_KEY_NAME_BYTES_MAX + 1]; /* name of a user, formed like a key's name; otherwise "" */
};
/** Read bytes [n] (no NUL needed) as a URI. Only the exact form of psi_uri_text() is accepted: no percent signs, no leading zero
 * in an index, nothing after an index. So equal URIs have equal bytes. A job cannot be called "user".
 *
 * out     written only on success.
 *
 * Errors  PS_INVALID_ARGUMENT  says which part is wrong. */
PSI_MUST ps_status psi_uri_parse(const char *bytes, size_t n, struct psi_uri *out, struct psi_err *err);
/** Write the URI as text. Returns buf. *fits (may be NULL) is set to false if the URI was too long and had to be cut. */
const char *psi_uri_text(const struct psi_uri *uri, char buf[PSI_IDENTITY_BYTES_MAX + 1], bool *fits);

#endif

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
    PSI_IDENTITY_BYTES_MAX = 128, /* longest name: of a key, of a URI, of a uid in decimal */
    PSI_ROLE_BYTES_MAX = 15,
    PSI_KEY_ID_BYTES = 8,                                /* lower-case hexadecimal digits */
    PSI_IDENTITY_TEXT_BYTES = PSI_IDENTITY_BYTES_MAX + 6 /* of psi_identity_text(), with "cert:" and NUL */
};

enum psi_identity_kind { PSI_IDENTITY_ANYBODY, PSI_IDENTITY_KEY, PSI_IDENTITY_CERT, PSI_IDENTITY_UID };
struct psi_identity {
    enum psi_identity_kind kind;
    char name[PSI_IDENTITY_BYTES_MAX + 1]; /* KEY: the name; CERT: the URI; UID: decimal; ANYBODY: "" */
    char role[PSI_ROLE_BYTES_MAX + 1];     /* KEY: of its line; UID of the process itself: "admin"; otherwise "" */
    char key_id[PSI_KEY_ID_BYTES + 1];     /* KEY: of the line that the handshake used; otherwise "" */
};

/* TLS handshakes of those that connected. */
struct psi_handshakes {
    uint64_t done, refused; /* since the start; refused: also those that ended before they were over */
    uint32_t under_way;     /* now, those that wait for their turn among them */
};

/** Kind and name are equal. Two lines of one name, during a rotation, are one identity. */
bool psi_identity_equal(const struct psi_identity *a, const struct psi_identity *b);
/** "key:w0", "cert:psd://psd/ps/0", "uid:1000" or "anybody". buf [n] cuts; PSI_IDENTITY_TEXT_BYTES are enough. Returns buf. */
const char *psi_identity_text(const struct psi_identity *identity, char *buf, size_t n);
/**
 * Read what psi_identity_text() writes; role and key_id become "".
 *
 * out     written only on success.
 * Errors  PS_INVALID_ARGUMENT  not an identity; says what one looks like.
 */
PSI_MUST ps_status psi_identity_parse(const char *text, struct psi_identity *out, struct psi_err *err);

/** True for a role of a key: ps, worker, monitor, admin. */
bool psi_role_is(const char *role, size_t n);
/** Check a role. Errors: PS_INVALID_ARGUMENT, which names the roles, and the one that was likely meant. */
PSI_MUST ps_status psi_role_check(const char *role, size_t n, struct psi_err *err);

/* psd://CLUSTER/JOB/INDEX, a task, or psd://CLUSTER/user/NAME: what a certificate's URI says. */
struct psi_uri {
    char cluster[PS_JOB_BYTES_MAX + 1];
    bool is_user;
    char job[PS_JOB_BYTES_MAX + 1];       /* of a task; otherwise "" */
    uint32_t index;                       /* of a task; below PS_TASKS_MAX */
    char user[PS_KEY_NAME_BYTES_MAX + 1]; /* of a user, by the grammar of a key's name; otherwise "" */
};
/**
 * Read bytes [n], which need not be NUL-terminated, as a URI. Only the form that psi_uri_text() writes is accepted: no percent
 * signs, no zero before an index, nothing behind it. So equal URIs have equal bytes. A job cannot be called "user".
 *
 * out     written only on success.
 * Errors  PS_INVALID_ARGUMENT  says which part is wrong.
 */
PSI_MUST ps_status psi_uri_parse(const char *bytes, size_t n, struct psi_uri *out, struct psi_err *err);
/** The URI as text. Returns buf. *fits (may be NULL) false: the URI is longer than an identity may be, and is cut. */
const char *psi_uri_text(const struct psi_uri *uri, char buf[PSI_IDENTITY_BYTES_MAX + 1], bool *fits);

#endif

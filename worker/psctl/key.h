/* SPDX-License-Identifier: Apache-2.0 */
/* psctl key: the printed answers (key_say.c), as text or as one object of JSON. No answer has a secret. */
#ifndef PSCTL_KEY_H
#define PSCTL_KEY_H

#include "common/auth/key_file.h"
#include "common/name.h"
#include "psctl.h"

/* The row of rights that psctl suggests for keys of a role. */
struct psctl_key_role {
    const char *role, *row;
    bool always; /* printed also when the new key has another role */
};
enum { PSCTL_KEY_ROLES = 4 };
extern const struct psctl_key_role psctl_key_roles[PSCTL_KEY_ROLES];

/** Print the new keys [count], all of one role, with the rows of rights. */
void psctl_key_made(const struct psctl *c, const char *path, const struct psi_key *keys, size_t count);
/** Print that a name has a second key. before: key id of the first one. */
void psctl_key_rotated(const struct psctl *c, const char *path, const struct psi_key *key, const char *before);
/** Print which line of a name is used from now on. changed: number of lines of the file that were changed. */
void psctl_key_used(const struct psctl *c, const char *path, const char *name, const char *key_id, size_t changed);
/** removed: lines of the name that were removed; left: lines of the name that remain; left_used: how many of these are marked as
 * used. */
void psctl_key_revoked(const struct psctl *c, const char *path, const char *name, size_t removed, size_t left, size_t left_used);
/** Print that all lines [count] of a name are in file `to`. key: the first of these lines. */
void psctl_key_exported(const struct psctl *c, const struct psi_key *key, size_t count, const char *to);
void psctl_key_list(const struct psctl *c, const char *path, const struct psi_keys *keys, int64_t now_s);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* psctl key: what it prints (key_say.c), as text or as one JSON object. Secrets are never printed. */
#ifndef PSCTL_KEY_H
#define PSCTL_KEY_H

#include "common/auth/key_file.h"
#include "common/name.h"
#include "psctl.h"

/* A role that a key may have, and the row of rights (setting `allow`) that psctl suggests for that role. */
struct psctl_key_role {
    const char *role, *row;
    bool always; /* true: the row is also printed when a key of another role was made */
};
enum { PSCTL_KEY_ROLES = 4 };
extern const struct psctl_key_role psctl_key_roles[PSCTL_KEY_ROLES];

/** Print the new keys [count], which have one role, and the suggested rows of rights. */
void psctl_key_made(const struct psctl *c, const char *path, const struct psi_key *keys, size_t count);
/** Print that a name has a new key. before: id of the newest key until now. */
void psctl_key_rotated(const struct psctl *c, const char *path, const struct psi_key *key, const char *before);
/** Print which key of a name programs present from now on. changed: how many lines of the file were changed. */
void psctl_key_used(const struct psctl *c, const char *path, const char *name, const char *key_id, size_t changed);
/** Print that `removed` lines of a name were removed. kept: how many remain; kept_used: how many of these are marked `use`. */
void psctl_key_revoked(const struct psctl *c, const char *path, const char *name, size_t removed, size_t kept, size_t kept_used);
/** Print that all lines [count] of a name were copied to file `to`. key: the first of them. */
void psctl_key_exported(const struct psctl *c, const struct psi_key *key, size_t count, const char *to);
/** Print the keys of the file at path, without secrets. now_s: Unix time, for keys that expire. */
void psctl_key_list(const struct psctl *c, const char *path, const struct psi_keys *keys, int64_t now_s);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Key files on the disk: found, read if nobody else can read them, and changed whole or not at all. The functions block on the
 * file system: a loop calls them only at start and at a reload. */
#ifndef PSI_KEY_FILE_H
#define PSI_KEY_FILE_H

#include "keys.h"

#include <limits.h>

#define PSI_KEY_FILE_ENV "PSD_KEY_FILE"

/**
 * Which key file a program uses: given; otherwise env; otherwise ~/.config/psd/key if it exists; otherwise /etc/psd/psd.keys if
 * this process may read it. "" counts as not given. The file is not opened.
 *
 * given  --key_file or an option; NULL: not given.
 * env    getenv(PSI_KEY_FILE_ENV); NULL: not set.
 * path   written unless false is returned.
 * Returns false if the program has no key file. A default path that is too long counts as missing; a given one is cut.
 */
bool psi_key_file_find(const char *given, const char *env, char path[PATH_MAX]);

/**
 * Read a key file. A symbolic link is followed, and the file that it leads to is judged.
 *
 * out     written only on success. psi_keys_free().
 * Errors  PS_NOT_FOUND            there is no such file
 *         PS_PERMISSION_DENIED    others can read or write it, or it belongs to somebody else; says the command that mends it
 *         PS_INVALID_ARGUMENT     no regular file, more than PSI_KEY_FILE_BYTES_MAX, a bad line; psi_keys_parse()
 *         PS_RESOURCE_EXHAUSTED   memory, descriptors
 *         PS_FAILED_PRECONDITION  it was written to while it was read
 *         and those of reading a file (psi_fail_errno())
 */
PSI_MUST ps_status psi_key_file_read(const char *path, struct psi_keys **out, struct psi_err *err);

/* ---- files with secrets of any kind ---- */
struct psi_secret {
    char *p; /* [n], with room for a NUL behind */
    size_t n, room;
};
/** Read a whole file that nobody else can read; *out is set in any case. Errors: of psi_key_file_read(), but for bad lines. */
PSI_MUST ps_status psi_secret_file_read(const char *path, struct psi_secret *out, struct psi_err *err);
/** Read a whole file that others may read. *out and errors: as psi_secret_file_read(). */
PSI_MUST ps_status psi_plain_file_read(const char *path, struct psi_secret *out, struct psi_err *err);
/** Make a new file, whole or not at all. text borrows. mode: 0600, or 0644 for what is no secret. Errors: PS_ALREADY_EXISTS, and
 * those of writing a file. */
PSI_MUST ps_status psi_secret_file_make(const char *path, unsigned mode, const struct psi_secret *text, struct psi_err *err);
/** A copy of p [n]. out: set in any case. Errors: PS_RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psi_secret_new(const char *p, size_t n, struct psi_secret *out, struct psi_err *err);
void psi_secret_fini(struct psi_secret *secret);

/* What a change makes of a line. */
enum psi_key_becomes { PSI_KEY_STAYS, PSI_KEY_GOES, PSI_KEY_IS_USED, PSI_KEY_IS_ACCEPTED };
/* A change of a key file. Lines that it does not touch stay byte for byte, comments too. */
struct psi_key_change {
    /** Says what becomes of a key of the file, or an error that refuses the whole change. NULL: every key stays. Called in the
     * order of the file while the file is locked. */
    ps_status (*line)(void *ctx, const struct psi_keys *keys, const struct psi_key *key, enum psi_key_becomes *out,
                      struct psi_err *err);
    void *ctx;
    const struct psi_key *added; /* [added_count]: new lines for the end of the file; borrows */
    size_t added_count;
    bool make;     /* a missing file is made, mode 0600; false: NOT_FOUND */
    bool only_new; /* with make: an existing file is ALREADY_EXISTS */
};
/**
 * Change a key file under its lock: a second process waits. The file is written beside, synced and renamed, so that a reader
 * sees the old one or the new one, and a full disk leaves the old one. Owner, group and mode stay. A symbolic link stays: the
 * file that it leads to is changed.
 *
 * Errors  those of psi_key_file_read() and of change->line
 *         PS_INVALID_ARGUMENT    the result is no key file: an added key id exists already, or its name has another role
 *         PS_ALREADY_EXISTS      only_new, and the file exists
 *         PS_RESOURCE_EXHAUSTED  the disk is full
 */
PSI_MUST ps_status psi_key_file_change(const char *path, const struct psi_key_change *change, struct psi_err *err);
/** Add one key by psi_key_file_change(), to a file that may not exist yet. */
PSI_MUST ps_status psi_key_file_add(const char *path, const struct psi_key *key, struct psi_err *err);

#endif

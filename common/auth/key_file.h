/* SPDX-License-Identifier: Apache-2.0 */
/* Key files on disk: found, read only if other users cannot read them, and changed as a whole or not at all. The functions wait
 * for the file system: an event loop calls them only at its start and at a reload. */
#ifndef PSI_KEY_FILE_H
#define PSI_KEY_FILE_H

#include "keys.h"

#include <limits.h>

#define PSI_KEY_FILE_ENV "PSD_KEY_FILE"

/** Find the key file that a program uses: the path `given`; otherwise `env`; otherwise ~/.config/psd/key if it exists; otherwise
 * /etc/psd/psd.keys if this process may read it. "" counts as not given. The file is not opened.
 *
 * given  --key_file or an option; NULL: not given.
 * env    getenv(PSI_KEY_FILE_ENV); NULL: not set.
 * path   the path, if true is returned.
 * Returns false if the program has no key file. A default path that is too long counts as missing; a given path is cut. */
bool psi_key_file_find(const char *given, const char *env, char path[PATH_MAX]);

/** Read a key file. A symbolic link is followed, and its target is checked.
 *
 * out     written only on success; the caller frees it with psi_keys_free().
 * Errors  PS_NOT_FOUND            there is no such file
 *         PS_PERMISSION_DENIED    others can read or write it (the group of root's file may read it), or it belongs to neither
 *                                 this process's user nor root; the text names the command that mends it
 *         PS_INVALID_ARGUMENT     it is no regular file or too long (PSI_KEY_FILE_BYTES_MAX), or a line is bad (psi_keys_parse())
 *         PS_RESOURCE_EXHAUSTED   memory, descriptors
 *         PS_FAILED_PRECONDITION  it was written to while it was read
 *         and what psi_fail_errno() makes of an error of the system */
PSI_MUST ps_status psi_key_file_read(const char *path, struct psi_keys **out, struct psi_err *err);

/** Check that nobody else can write a file that decides who is trusted: rows of rights, an authority, a list of refused
 * certificates. Others may read it. If stat() fails: PS_OK, because reading the file then says why it cannot be read.
 *
 * what    the file's kind, for the error: "rights file".
 * Errors  PS_PERMISSION_DENIED  others can write it, or it belongs to neither this process's user nor root; the text
 *                               names the command that mends it */
PSI_MUST ps_status psi_trust_file_check(const char *what, const char *path, struct psi_err *err);

/* ---- files with secrets of any kind ---- */
struct psi_secret {
    char *p;        /* [n] bytes, followed by room for a NUL */
    size_t n, room; /* room: bytes allocated at p */
};
/** Read a whole file with a secret. The caller frees *out with psi_secret_fini(), also after a failure. Errors: those of
 * psi_key_file_read() that do not concern lines. */
PSI_MUST ps_status psi_secret_file_read(const char *path, struct psi_secret *out, struct psi_err *err);
/** psi_secret_file_read() for a file that others may read. */
PSI_MUST ps_status psi_plain_file_read(const char *path, struct psi_secret *out, struct psi_err *err);
/** Make a new file, whole or not at all. mode: 0600 for secrets, else 0644. Errors: PS_ALREADY_EXISTS, psi_fail_errno()'s. */
PSI_MUST ps_status psi_secret_file_make(const char *path, unsigned mode, const struct psi_secret *text, struct psi_err *err);
/** Copy p [n] into *out, which the caller frees with psi_secret_fini(), also after a failure. Errors: PS_RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psi_secret_new(const char *p, size_t n, struct psi_secret *out, struct psi_err *err);
void psi_secret_fini(struct psi_secret *secret);

/* What becomes of a key's line: it stays, is removed, or gets the word `use` or `accept`. */
enum psi_key_becomes { PSI_KEY_STAYS, PSI_KEY_GOES, PSI_KEY_IS_USED, PSI_KEY_IS_ACCEPTED };
/* A change of a key file. All other lines stay byte for byte, comments too. */
struct psi_key_change {
    /** Sets *out to what becomes of the line of `key`; an error cancels the whole change. NULL: every line stays. Called for each
     * key in file order, while the file is locked. */
    ps_status (*line)(void *ctx, const struct psi_keys *keys, const struct psi_key *key, enum psi_key_becomes *out,
                      struct psi_err *err);
    void *ctx;
    const struct psi_key *added; /* [added_count] keys for the end of the file; not owned */
    size_t added_count;
    bool make;     /* true: a missing file is made, with mode 0600; false: a missing file is NOT_FOUND */
    bool only_new; /* only with `make`: fail with ALREADY_EXISTS if the file exists */
};
/** Change a key file under its lock: a second process waits. The new text is written to a temporary file, synced and renamed, so
 * that a reader sees the old text or the new one, and a full disk leaves the old file. Owner, group and mode stay. A symbolic
 * link stays: the file that it leads to is changed.
 *
 * Errors  those of psi_key_file_read() and of change->line
 *         PS_INVALID_ARGUMENT    the result is no key file: the id of an added key exists already, or its name has another role
 *         PS_ALREADY_EXISTS      only_new, and the file exists
 *         PS_RESOURCE_EXHAUSTED  the disk is full
 *         PS_ABORTED             other processes kept replacing the file */
PSI_MUST ps_status psi_key_file_change(const char *path, const struct psi_key_change *change, struct psi_err *err);
/** Add one key with psi_key_file_change(); the file is made if it is missing. */
PSI_MUST ps_status psi_key_file_add(const char *path, const struct psi_key *key, struct psi_err *err);

#endif

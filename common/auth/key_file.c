/* SPDX-License-Identifier: Apache-2.0 */
/* Key files on the disk. Reading, happy path: open without blocking, check the opened file (a regular file that other users
 * cannot read), read it whole, parse. Changing: open, check, lock. If another process has replaced the file before the lock was
 * taken, begin again. Then write the new text to a temporary file of equal owner and mode, fsync, rename, fsync of the directory.
 * A new file is linked to its name, so that it never replaces one that appeared meanwhile. Failure: the old file stays, and the
 * temporary file is removed; if only the last fsync fails, the new text is in place. All memory that held a secret is zeroed. */
#include "key_file.h"

#include "../mem.h"
#include "../utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAKING ".new." /* a new file FILE is first written as FILE.new.PID */

enum { TRIES_MAX = 1000 /* most times that a file is opened again because another process has replaced it */, MODE_MASK = 07777 };

ps_status psi_secret_new(const char *p, size_t n, struct psi_secret *out, struct psi_err *err)
{
    char *copy = psi_strndup(p, n);
    *out = (struct psi_secret){.p = copy, .n = copy != NULL ? n : 0, .room = copy != NULL ? n + 1 : 0};
    return copy != NULL ? PS_OK : psi_fail(err, PS_RESOURCE_EXHAUSTED, "%zu bytes of a file", n);
}

void psi_secret_fini(struct psi_secret *secret)
{
    if (secret->p != NULL) {
        explicit_bzero(secret->p, secret->room);
        psi_free(secret->p);
    }
    *secret = (struct psi_secret){.p = NULL};
}

bool psi_key_file_find(const char *given, const char *env, char path[PATH_MAX])
{
    if (given != NULL && given[0] != '\0') {
        (void)snprintf(path, PATH_MAX, "%s", given);
        return true;
    }
    if (env != NULL && env[0] != '\0') {
        (void)snprintf(path, PATH_MAX, "%s", env);
        return true;
    }
    const char *home = getenv("HOME");
    if (home != NULL && home[0] != '\0') {
        const int n = snprintf(path, PATH_MAX, "%s/.config/psd/key", home);
        if (n > 0 && n < PATH_MAX && access(path, F_OK) == 0) {
            return true;
        }
    }
    (void)snprintf(path, PATH_MAX, "%s", "/etc/psd/psd.keys");
    return access(path, R_OK) == 0;
}

/* Check an opened file: a regular file, not too long. secret true: it must also belong to root or this process's user, and nobody
 * else may have access, except that the group of root's file may read it. *out: what fstat() says of the file. */
static ps_status judge(int fd, const char *path, bool secret, struct stat *out, struct psi_err *err)
{
    char shown[PSI_PATH_SHOWN];
    const uid_t own = geteuid();
    (void)psi_utf8_shorten(path, shown, sizeof(shown));
    if (fstat(fd, out) != 0) {
        return psi_fail_errno(err, errno, "fstat", path);
    }
    if (!S_ISREG(out->st_mode)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: is %s, and no regular file", shown,
                        S_ISDIR(out->st_mode) ? "a directory" : "a pipe or a device");
    }
    if (secret && out->st_uid != own && out->st_uid != 0) {
        return psi_fail(err, PS_PERMISSION_DENIED,
                        "%s: belongs to uid %u; a file with secrets belongs to root or to who uses it: chown %u '%s'", shown,
                        (unsigned)out->st_uid, (unsigned)own, shown);
    }
    const mode_t mode = out->st_mode & MODE_MASK;
    const mode_t for_others = out->st_uid == 0 ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO; /* root:GROUP 0640 is allowed */
    if (secret && (mode & for_others) != 0) {
        return psi_fail(err, PS_PERMISSION_DENIED, "%s: mode %04o lets others %s it, and it holds secrets: chmod %s '%s'", shown,
                        (unsigned)mode, (mode & for_others & (S_IWGRP | S_IWOTH)) != 0 ? "write" : "read",
                        out->st_uid == 0 && own != 0 ? "640" : "600", shown);
    }
    if (out->st_size > PSI_KEY_FILE_BYTES_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: has more than %d bytes", shown, PSI_KEY_FILE_BYTES_MAX);
    }
    return PS_OK;
}

ps_status psi_trust_file_check(const char *what, const char *path, struct psi_err *err)
{
    struct stat file;
    char shown[PSI_PATH_SHOWN];
    if (stat(path, &file) != 0) {
        return PS_OK;
    }
    (void)psi_utf8_shorten(path, shown, sizeof(shown));
    if (file.st_uid != geteuid() && file.st_uid != 0) {
        return psi_fail(err, PS_PERMISSION_DENIED, "%s %s: belongs to uid %u, and says who is let in: chown %u '%s'", what, shown,
                        (unsigned)file.st_uid, (unsigned)geteuid(), shown);
    }
    return (file.st_mode & (S_IWGRP | S_IWOTH)) == 0
               ? PS_OK
               : psi_fail(err, PS_PERMISSION_DENIED,
                          "%s %s: mode %04o lets others write it, and it says who is let in: chmod go-w '%s'", what, shown,
                          (unsigned)file.st_mode & MODE_MASK, shown);
}

/* Read the whole file of `bytes` bytes. The caller frees *out with psi_secret_fini(), also after a failure. */
static ps_status read_all(int fd, const char *path, size_t bytes, struct psi_secret *out, struct psi_err *err)
{
    *out = (struct psi_secret){.room = bytes + 1}; /* one byte more, to notice a file that is growing */
    out->p = psi_malloc(out->room);
    if (out->p == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%zu bytes of a key file", bytes);
    }
    while (out->n < out->room) {
        const ssize_t n = pread(fd, out->p + out->n, out->room - out->n, (off_t)out->n);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return psi_fail_errno(err, errno, "read", path);
        }
        if (n == 0) {
            break;
        }
        out->n += (size_t)n;
    }
    return out->n == bytes ? PS_OK
                           : psi_fail(err, PS_FAILED_PRECONDITION, "the file was written to while it was read: try again");
}

static ps_status read_file(const char *path, bool secret, struct psi_secret *out, struct psi_err *err)
{
    struct stat st;
    *out = (struct psi_secret){.p = NULL};
    /* O_NONBLOCK: opening a pipe would wait for a writer */
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        return psi_fail_errno(err, errno, "open", path);
    }
    ps_status status = judge(fd, path, secret, &st, err);
    status = status == PS_OK ? read_all(fd, path, (size_t)st.st_size, out, err) : status;
    (void)close(fd);
    return status;
}

ps_status psi_secret_file_read(const char *path, struct psi_secret *out, struct psi_err *err)
{
    return read_file(path, true, out, err);
}

ps_status psi_plain_file_read(const char *path, struct psi_secret *out, struct psi_err *err)
{
    return read_file(path, false, out, err);
}

ps_status psi_key_file_read(const char *path, struct psi_keys **out, struct psi_err *err)
{
    struct psi_secret text;
    ps_status st = psi_secret_file_read(path, &text, err);
    st = st == PS_OK ? psi_keys_parse(text.p, text.n, path, out, err) : st;
    psi_secret_fini(&text);
    psi_err_prefix(err, "key file");
    return st;
}

/* Find the fifth word of a key's line, `use` or `accept`. The line has been parsed before. */
static const char *state_word(const char *p)
{
    p += strspn(p, " \t");
    for (int i = 0; i < 4; i++) {
        p += strcspn(p, " \t");
        p += strspn(p, " \t");
    }
    return p;
}

static void add(struct psi_secret *t, const char *p, size_t n)
{
    PSI_ASSERT(n <= t->room - t->n);
    memcpy(t->p + t->n, p, n);
    t->n += n;
}

/* Append line [n] to `to`, changed or left out as `becomes` says. key: the key of this line; NULL: the line has none. */
static void add_line(struct psi_secret *to, const char *line, size_t n, const struct psi_key *key, enum psi_key_becomes becomes)
{
    const bool use = becomes == PSI_KEY_IS_USED;
    if (key != NULL && becomes == PSI_KEY_GOES) {
        return;
    }
    if (key == NULL || becomes == PSI_KEY_STAYS || use == key->use) {
        add(to, line, n);
        return;
    }
    const char *state = state_word(line);
    add(to, line, (size_t)(state - line));
    add(to, use ? "use" : "accept", use ? 3 : 6);
    state += key->use ? 3 : 6;
    add(to, state, n - (size_t)(state - line));
}

static ps_status rewrite(const struct psi_key_change *change, const struct psi_keys *keys, const struct psi_secret *from,
                         struct psi_secret *to, struct psi_err *err)
{
    size_t next = 0;
    unsigned number = 0;
    for (size_t at = 0; at < from->n;) {
        const char *newline = memchr(from->p + at, '\n', from->n - at);
        const size_t n = newline != NULL ? (size_t)(newline + 1 - from->p) - at : from->n - at;
        const struct psi_key *key = next < psi_keys_count(keys) ? psi_keys_at(keys, next) : NULL;
        enum psi_key_becomes becomes = PSI_KEY_STAYS;
        number++;
        key = key != NULL && key->line == number ? key : NULL;
        next += key != NULL ? 1 : 0;
        ps_status st = key != NULL && change->line != NULL ? change->line(change->ctx, keys, key, &becomes, err) : PS_OK;
        if (st != PS_OK) {
            return st;
        }
        add_line(to, from->p + at, n, key, becomes);
        at += n;
    }
    if (to->n > 0 && to->p[to->n - 1] != '\n' && change->added_count > 0) {
        add(to, "\n", 1);
    }
    for (size_t i = 0; i < change->added_count; i++) {
        char line[PSI_KEY_LINE_BYTES];
        const size_t n = psi_key_format(&change->added[i], line);
        add(to, line, n);
        explicit_bzero(line, sizeof(line));
    }
    return PS_OK;
}

/* Make the new text of a key file from its present text `from`, and check that it parses. The caller frees *to in any case. */
static ps_status new_text(const char *path, const struct psi_key_change *change, const struct psi_secret *from,
                          struct psi_secret *to, struct psi_err *err)
{
    struct psi_keys *keys = NULL, *after = NULL;
    *to = (struct psi_secret){0};
    ps_status st = psi_keys_parse(from->p, from->n, path, &keys, err);
    if (st == PS_OK) {
        /* + 3 for each key, in case its "use" becomes "accept" */
        to->room = from->n + 3 * psi_keys_count(keys) + 1 + change->added_count * PSI_KEY_LINE_BYTES;
        to->p = psi_malloc(to->room);
        st = to->p != NULL ? rewrite(change, keys, from, to, err)
                           : psi_fail(err, PS_RESOURCE_EXHAUSTED, "%zu bytes of a key file", to->room);
    }
    st = st == PS_OK ? psi_keys_parse(to->p, to->n, path, &after, err) : st;
    psi_keys_free(keys);
    psi_keys_free(after);
    return st;
}

static ps_status write_all(int fd, const char *path, const struct psi_secret *text, struct psi_err *err)
{
    for (size_t at = 0; at < text->n;) {
        const ssize_t n = write(fd, text->p + at, text->n - at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return psi_fail_errno(err, n < 0 ? errno : ENOSPC, "write", path);
        }
        at += (size_t)n;
    }
    return fsync(fd) == 0 ? PS_OK : psi_fail_errno(err, errno, "fsync", path);
}

/* Sync the directory of `path`, so that the new name survives a power cut. EINVAL is no error: some file systems cannot. */
static ps_status sync_directory(const char *path, struct psi_err *err)
{
    char directory[PATH_MAX];
    (void)snprintf(directory, sizeof(directory), "%s", path);
    char *slash = strrchr(directory, '/');
    const char *name = slash == NULL ? "." : slash == directory ? "/" : directory;
    if (slash != NULL) {
        slash[slash == directory ? 1 : 0] = '\0';
    }
    const int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ps_status st = fd < 0 ? psi_fail_errno(err, errno, "open", name) : PS_OK;
    if (fd >= 0 && fsync(fd) != 0 && errno != EINVAL) {
        st = psi_fail_errno(err, errno, "fsync of the directory", name);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return st;
}

/* Write `text` into the file at the path. old: the locked file to replace, whose owner is kept; NULL: make a new file, and fail
 * with ALREADY_EXISTS if there is one. When a file is replaced, the temporary file always has the same name, so the next change
 * removes what a killed process left there, with its secrets. A file that does not exist yet cannot be locked, so each process
 * that makes one has a temporary file of its own. */
static ps_status publish(const char *path, const struct stat *old, mode_t mode, const struct psi_secret *text,
                         struct psi_err *err)
{
    char beside[PATH_MAX];
    const int n = old != NULL ? snprintf(beside, sizeof(beside), "%s.psctl-new", path)
                              : snprintf(beside, sizeof(beside), "%s" MAKING "%ld", path, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof(beside)) {
        return psi_fail_errno(err, ENAMETOOLONG, "open", path);
    }
    if (old != NULL && unlink(beside) != 0 && errno != ENOENT) {
        return psi_fail_errno(err, errno, "remove what a process left behind", beside);
    }
    const int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0) {
        return psi_fail_errno(err, errno, errno == EEXIST ? "a file that a process left behind, remove it" : "open", beside);
    }
    ps_status st = PS_OK;
    if (old != NULL && (old->st_uid != geteuid() || old->st_gid != getegid()) && fchown(fd, old->st_uid, old->st_gid) != 0) {
        st = psi_fail_errno(err, errno, "give it the old file's owner", beside);
    }
    if (st == PS_OK && fchmod(fd, mode) != 0) {
        st = psi_fail_errno(err, errno, "fchmod", beside);
    }
    st = st == PS_OK ? write_all(fd, beside, text, err) : st;
    (void)close(fd);
    if (st == PS_OK && old != NULL && rename(beside, path) != 0) {
        st = psi_fail_errno(err, errno, "rename", path);
    }
    if (st == PS_OK && old == NULL && link(beside, path) != 0) {
        st = errno == EEXIST ? psi_fail(err, PS_ALREADY_EXISTS, "%s: there is such a file, and it is not overwritten", path)
                             : psi_fail_errno(err, errno, "link", path);
    }
    if (st != PS_OK || old == NULL) {
        (void)unlink(beside);
    }
    return st == PS_OK ? sync_directory(path, err) : st;
}

/* Remove each FILE.new.PID whose process no longer runs: that process was killed while it made FILE, and the file may have a
 * secret. A file with this process's own PID is from an earlier process with the same PID. */
static void remove_left(const char *path)
{
    char directory[PATH_MAX];
    (void)snprintf(directory, sizeof(directory), "%s", path);
    char *slash = strrchr(directory, '/');
    const char *base = slash != NULL ? path + (slash - directory) + 1 : path;
    const size_t n = strlen(base);
    if (slash != NULL) {
        slash[slash == directory ? 1 : 0] = '\0';
    }
    DIR *d = opendir(slash != NULL ? directory : ".");
    for (const struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) {
        if (strncmp(e->d_name, base, n) != 0 || strncmp(e->d_name + n, MAKING, strlen(MAKING)) != 0) {
            continue;
        }
        char *end = NULL;
        const long pid = strtol(e->d_name + n + strlen(MAKING), &end, 10);
        if (pid > 0 && *end == '\0' && (pid == (long)getpid() || (kill((pid_t)pid, 0) != 0 && errno == ESRCH))) {
            (void)unlinkat(dirfd(d), e->d_name, 0); /* if it cannot be removed, the new file can still be made */
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    }
}

ps_status psi_secret_file_make(const char *path, unsigned mode, const struct psi_secret *text, struct psi_err *err)
{
    remove_left(path);
    return publish(path, NULL, (mode_t)mode, text, err);
}

/* Change the opened file. *out_again true: another process replaced the file before the lock was taken: open it again. */
static ps_status change_open(int fd, const char *path, const struct psi_key_change *change, bool *out_again, struct psi_err *err)
{
    struct stat old, now;
    struct psi_secret from = {0}, to = {0};
    ps_status st = judge(fd, path, true, &old, err);
    while (st == PS_OK && flock(fd, LOCK_EX) != 0) {
        st = errno == EINTR ? PS_OK : psi_fail_errno(err, errno, "flock", path);
    }
    if (st != PS_OK) {
        return st;
    }
    *out_again = stat(path, &now) != 0 || now.st_dev != old.st_dev || now.st_ino != old.st_ino;
    if (*out_again) {
        return PS_OK;
    }
    st = judge(fd, path, true, &old, err); /* checked again: it may have changed before the lock was taken */
    st = st == PS_OK ? read_all(fd, path, (size_t)old.st_size, &from, err) : st;
    st = st == PS_OK ? new_text(path, change, &from, &to, err) : st;
    st = st == PS_OK ? publish(path, &old, old.st_mode & MODE_MASK, &to, err) : st;
    psi_secret_fini(&from);
    psi_secret_fini(&to);
    return st;
}

static ps_status make_file(const char *path, const struct psi_key_change *change, struct psi_err *err)
{
    static char nothing[1];
    const struct psi_secret from = {.p = nothing};
    struct psi_secret to = {0};
    ps_status st = new_text(path, change, &from, &to, err);
    st = st == PS_OK ? publish(path, NULL, S_IRUSR | S_IWUSR, &to, err) : st;
    psi_secret_fini(&to);
    return st;
}

/* Try once to change the file at the path, through symbolic links. *out_again true: another process made, replaced or removed the
 * file meanwhile; nothing is changed, and the caller tries again. */
static ps_status change_once(const char *path, const struct psi_key_change *change, bool *out_again, struct psi_err *err)
{
    char real[PATH_MAX];
    struct stat st;
    if (realpath(path, real) == NULL) {
        const int why = errno == 0 ? ENOENT : errno;
        const bool there = why == ENOENT && change->make && lstat(path, &st) == 0;
        /* a link whose target is missing is refused: psctl makes no file there */
        if (why != ENOENT || !change->make || (there && S_ISLNK(st.st_mode))) {
            return psi_fail_errno(err, why, "open", path);
        }
        if (there) { /* another process has made the file since open() failed: try again */
            *out_again = true;
            return PS_OK;
        }
        ps_status made = make_file(path, change, err);
        *out_again = made == PS_ALREADY_EXISTS && !change->only_new;
        return *out_again ? PS_OK : made;
    }
    if (change->only_new) {
        return psi_fail(err, PS_ALREADY_EXISTS, "%s: there is such a file, and it is not overwritten", path);
    }
    const int fd = open(real, O_RDWR | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        *out_again = errno == ENOENT;
        return *out_again ? PS_OK : psi_fail_errno(err, errno, "open", path);
    }
    ps_status status = change_open(fd, real, change, out_again, err);
    (void)close(fd);
    return status;
}

ps_status psi_key_file_change(const char *path, const struct psi_key_change *change, struct psi_err *err)
{
    remove_left(path);
    for (int i = 0; i < TRIES_MAX; i++) {
        bool again = false;
        ps_status st = change_once(path, change, &again, err);
        if (st != PS_OK || !again) {
            psi_err_prefix(err, "key file");
            return st;
        }
    }
    return psi_fail(err, PS_ABORTED, "key file %.200s: others replace it all the time: try again", path);
}

ps_status psi_key_file_add(const char *path, const struct psi_key *key, struct psi_err *err)
{
    const struct psi_key_change change = {.added = key, .added_count = 1, .make = true};
    return psi_key_file_change(path, &change, err);
}

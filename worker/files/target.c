/* SPDX-License-Identifier: Apache-2.0 */
/* A file that appears whole or not at all. Data goes to a file without a name in the target's directory (O_TMPFILE), so that even
 * a killed program leaves nothing. The commit calls fdatasync(), links the file to its name, or to a temporary name that it
 * renames over an older file, and calls fsync() on the directory. Without O_TMPFILE or /proc the file has the temporary name from
 * the start. Failure modes: no such directory, permission, space or regular file; an older file stays unchanged. A write beyond
 * RLIMIT_FSIZE raises SIGXFSZ, which would end the program: it is blocked during writes, and a pending one is consumed. */
#include "files.h"

#include "common/mem.h"
#include "common/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HINT_BYTES = 8 << 20 }; /* after each 8 MiB the kernel is asked to begin writing them to disk */

bool psi_files_hold_signal(void)
{
    sigset_t one;
    sigset_t before;
    sigemptyset(&one);
    sigaddset(&one, SIGXFSZ);
    return pthread_sigmask(SIG_BLOCK, &one, &before) == 0 && sigismember(&before, SIGXFSZ) == 0;
}

void psi_files_release_signal(bool held)
{
    sigset_t one;
    const struct timespec now = {0};
    if (!held) {
        return;
    }
    sigemptyset(&one);
    sigaddset(&one, SIGXFSZ);
    while (sigtimedwait(&one, NULL, &now) == SIGXFSZ) {
        /* remove the pending SIGXFSZ before it is unblocked: it comes from a write that has failed with EFBIG */
    }
    PSI_IGNORE(pthread_sigmask(SIG_UNBLOCK, &one, NULL)); /* cannot fail with these arguments */
}

/* Find the file at path, through symbolic links. Returns its path, free(); NULL: errno. *out_mode: permissions; -1: no file. */
static char *resolve(const char *path, int *out_mode)
{
    struct stat st;
    *out_mode = -1;
    if (lstat(path, &st) != 0) {
        return errno == ENOENT ? strdup(path) : NULL;
    }
    char *real = S_ISLNK(st.st_mode) ? realpath(path, NULL) : strdup(path);
    if (real == NULL || stat(real, &st) != 0) {
        free(real);
        return NULL;
    }
    if (!S_ISREG(st.st_mode)) {
        free(real);
        errno = S_ISDIR(st.st_mode) ? EISDIR : ENOTSUP;
        return NULL;
    }
    *out_mode = (int)(st.st_mode & 0777);
    return real;
}

static ps_status split(struct psi_file_target *t, const char *real, struct psi_err *err)
{
    const char *slash = strrchr(real, '/');
    const char *name = slash == NULL ? real : slash + 1;
    t->directory = slash == NULL   ? psi_strndup(".", 1)
                   : slash == real ? psi_strndup("/", 1)
                                   : psi_strndup(real, (size_t)(slash - real));
    t->name = psi_strndup(name, strlen(name));
    if (t->directory == NULL || t->name == NULL) {
        return psi_fail_errno(err, ENOMEM, "open", t->path);
    }
    if (name[0] == '\0') {
        return psi_fail_errno(err, EISDIR, "open", t->path);
    }
    return PS_OK;
}

static void temporary_name(struct psi_file_target *t, unsigned attempt)
{
    (void)snprintf(t->temporary, sizeof(t->temporary), ".psd-export.%ld.%u", (long)getpid(), attempt);
}

static int open_named(struct psi_file_target *t)
{
    int fd = -1;
    for (unsigned attempt = 0; fd < 0 && attempt < 1000; attempt++) {
        temporary_name(t, attempt);
        fd = openat(t->directory_fd, t->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (fd < 0 && errno != EEXIST) {
            break;
        }
    }
    if (fd < 0) {
        t->temporary[0] = '\0';
    }
    return fd;
}

ps_status psi_file_target_open(struct psi_file_target *t, const char *path, struct psi_err *err)
{
    int mode = -1;
    memset(t, 0, sizeof(*t));
    t->path = path;
    t->directory_fd = -1;
    t->fd = -1;
    char *real = resolve(path, &mode);
    if (real == NULL) {
        char shown[PSI_PATH_SHOWN];
        return errno == ENOTSUP ? psi_fail(err, PS_INVALID_ARGUMENT, "%s is there and is no regular file: name another",
                                           psi_utf8_shorten(path, shown, sizeof(shown)))
                                : psi_fail_errno(err, errno, "open", path);
    }
    ps_status st = split(t, real, err);
    free(real);
    if (st != PS_OK) {
        return st;
    }
    t->directory_fd = open(t->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->directory_fd < 0) {
        return psi_fail_errno(err, errno, "its directory", path);
    }
    if (access("/proc/self/fd", X_OK) == 0) {
        t->fd = openat(t->directory_fd, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    }
    if (t->fd < 0) {
        t->fd = open_named(t);
    }
    if (t->fd < 0) {
        return psi_fail_errno(err, errno, "a new file in its directory", path);
    }
    if (mode >= 0) {
        PSI_IGNORE(fchmod(t->fd, (mode_t)mode)); /* no check: some file systems have no permissions */
    }
    t->held = psi_files_hold_signal();
    return PS_OK;
}

ps_status psi_file_target_write(struct psi_file_target *t, const void *p, size_t bytes, uint64_t offset, struct psi_err *err)
{
    const uint8_t *at = p;
    uint64_t end = offset + bytes;
    while (bytes > 0) {
        ssize_t n = pwrite(t->fd, at, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return psi_fail_errno(err, n < 0 ? errno : ENOSPC, "write", t->path);
        }
        at += n;
        bytes -= (size_t)n;
        offset += (uint64_t)n;
    }
    if (end >= t->written_to + HINT_BYTES) {
        PSI_IGNORE(
            sync_file_range(t->fd, (off_t)t->written_to, (off_t)(end - t->written_to), SYNC_FILE_RANGE_WRITE)); /* a hint */
        t->written_to = end;
    }
    return PS_OK;
}

/* Give the nameless file of t (O_TMPFILE) this name in its directory. Returns 0; -1: errno. */
static int link_to(const struct psi_file_target *t, const char *name)
{
    char proc[64];
    (void)snprintf(proc, sizeof(proc), "/proc/self/fd/%d", t->fd);
    return linkat(AT_FDCWD, proc, t->directory_fd, name, AT_SYMLINK_FOLLOW);
}

static ps_status put_in_place(struct psi_file_target *t, struct psi_err *err)
{
    if (t->temporary[0] == '\0') {
        if (link_to(t, t->name) == 0) {
            return PS_OK;
        }
        int linked = -1;
        for (unsigned attempt = 0; linked != 0 && errno == EEXIST && attempt < 1000; attempt++) {
            temporary_name(t, attempt);
            linked = link_to(t, t->temporary);
        }
        if (linked != 0) {
            t->temporary[0] = '\0';
            return psi_fail_errno(err, errno, "link", t->path);
        }
    }
    if (renameat(t->directory_fd, t->temporary, t->directory_fd, t->name) != 0) {
        return psi_fail_errno(err, errno, "rename", t->path);
    }
    t->temporary[0] = '\0';
    return PS_OK;
}

ps_status psi_file_target_commit(struct psi_file_target *t, struct psi_err *err)
{
    if (fdatasync(t->fd) != 0 && errno != EINVAL) { /* EINVAL: the file system does not support fdatasync() */
        return psi_fail_errno(err, errno, "fdatasync", t->path);
    }
    ps_status st = put_in_place(t, err);
    if (st == PS_OK && fsync(t->directory_fd) != 0 && errno != EINVAL) {
        return psi_fail_errno(err, errno, "the file is there, but fsync of its directory", t->path);
    }
    return st;
}

void psi_file_target_close(struct psi_file_target *t)
{
    psi_files_release_signal(t->held);
    t->held = false;
    if (t->temporary[0] != '\0') {
        PSI_IGNORE(unlinkat(t->directory_fd, t->temporary, 0)); /* no check: at worst a temporary file stays */
    }
    if (t->fd >= 0) {
        (void)close(t->fd);
    }
    if (t->directory_fd >= 0) {
        (void)close(t->directory_fd);
    }
    psi_free(t->directory);
    psi_free(t->name);
    t->directory = NULL;
    t->name = NULL;
    t->fd = -1;
    t->directory_fd = -1;
    t->temporary[0] = '\0';
}

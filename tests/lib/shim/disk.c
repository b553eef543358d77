/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that loses power, fails or is slow, for processes that run (LD_PRELOAD): it writes down what a process does beneath
 * DISK_SHIM_DIR, and does to it what the file DISK_SHIM_ASK says. tests/lib/power_cut.py makes of the record what such a disk has
 * after a power cut. kill -9 alone loses nothing.
 *
 * The record, DISK_SHIM_LOG, a line behind each call that was good, in order; files and directories by their inodes:
 *   W FILE OFFSET N   and N bytes behind it      T FILE SIZE          S FILE-OR-DIRECTORY       synced
 *   C DIR NAME FILE   made                       M DIR NAME DIR       U DIR NAME  removed       R DIR FROM TO  renamed
 * DISK_SHIM_ASK, read before each such call, three words: VERB KINDS N, where KINDS are letters as above, or "*":
 *   cut   before the N-th call of these kinds since the file was changed the process is killed
 *   fail  each of them fails with errno N
 *   slow  each of them begins N ms later
 * Failure: a record that cannot be written ends the process; without it a test would prove nothing.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define REAL(result, name, ...) ((result(*)(__VA_ARGS__))(uintptr_t)dlsym(RTLD_NEXT, name))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;
static char asked[128]; /* as it was at the last call */
static unsigned count;  /* calls of its kinds since then */

static const char *setting(const char *name)
{
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): nobody sets it */
    return value != NULL ? value : "";
}

static void broken(const char *what)
{
    (void)fprintf(stderr, "disk_shim: %s: %s\n", what, strerror(errno)); /* NOLINT(concurrency-mt-unsafe): and ends */
    abort();
}

static bool is_beneath(int fd)
{
    char link[64], path[PATH_MAX];
    const char *top = setting("DISK_SHIM_DIR");
    const size_t n = strlen(top);
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t got = n == 0 || fd < 0 ? -1 : readlink(link, path, sizeof(path) - 1);
    if (got < 0) {
        return false;
    }
    path[got] = '\0';
    return strncmp(path, top, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static unsigned long long inode_of(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        broken("fstat");
    }
    return (unsigned long long)st.st_ino;
}

static void note(const void *data, size_t data_bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void note(const void *data, size_t data_bytes, const char *format, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, format);
    const int n = vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    const struct iovec parts[2] = {{.iov_base = line, .iov_len = (size_t)n},
                                   {.iov_base = (void *)(uintptr_t)data, .iov_len = data_bytes}};
    (void)pthread_mutex_lock(&lock);
    if (log_fd < 0) {
        log_fd = open(setting("DISK_SHIM_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    if (log_fd < 0 || writev(log_fd, parts, 2) != (ssize_t)(parts[0].iov_len + data_bytes)) {
        broken("its record");
    }
    (void)pthread_mutex_unlock(&lock);
}

/* What is asked, under the lock. */
static bool ask(char verb[16], char kinds[16], unsigned *n)
{
    char text[sizeof(asked)] = "";
    const int fd = open(setting("DISK_SHIM_ASK"), O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (read(fd, text, sizeof(text) - 1) < 0) {
            broken("what is asked");
        }
        (void)close(fd);
    }
    if (strcmp(text, asked) != 0) {
        memcpy(asked, text, sizeof(asked));
        count = 0;
    }
    return sscanf(text, "%15s %15s %u", verb, kinds, n) == 3; /* NOLINT(cert-err34-c): tests write it */
}

/* Before a call of this kind: 0, or what it fails with. */
static int before(char kind)
{
    char verb[16], kinds[16];
    unsigned n = 0;
    int why = 0;
    unsigned wait_ms = 0;
    (void)pthread_mutex_lock(&lock);
    if (ask(verb, kinds, &n) && (kinds[0] == '*' || strchr(kinds, kind) != NULL)) {
        if (strcmp(verb, "cut") == 0 && ++count >= n) {
            (void)raise(SIGKILL);
        }
        why = strcmp(verb, "fail") == 0 ? (int)n : 0;
        wait_ms = strcmp(verb, "slow") == 0 ? n : 0;
    }
    (void)pthread_mutex_unlock(&lock);
    const struct timespec wait = {.tv_sec = wait_ms / 1000, .tv_nsec = (long)(wait_ms % 1000) * 1000000};
    (void)nanosleep(&wait, NULL); /* sleep: a slow disk */
    errno = why;
    return why;
}

/* ---- the calls ---- */

EXPORT ssize_t pwrite(int fd, const void *p, size_t n, off_t offset)
{
    const bool ours = is_beneath(fd);
    if (ours && before('W') != 0) {
        return -1;
    }
    const ssize_t done = REAL(ssize_t, "pwrite", int, const void *, size_t, off_t)(fd, p, n, offset);
    if (ours && done > 0) {
        note(p, (size_t)done, "W %llu %lld %zd\n", inode_of(fd), (long long)offset, done);
    }
    return done;
}

EXPORT int ftruncate(int fd, off_t size)
{
    const bool ours = is_beneath(fd);
    if (ours && before('T') != 0) {
        return -1;
    }
    const int rc = REAL(int, "ftruncate", int, off_t)(fd, size);
    if (ours && rc == 0) {
        note(NULL, 0, "T %llu %lld\n", inode_of(fd), (long long)size);
    }
    return rc;
}

EXPORT int fsync(int fd)
{
    const bool ours = is_beneath(fd);
    if (ours && before('S') != 0) {
        return -1;
    }
    const int rc = REAL(int, "fsync", int)(fd);
    if (ours && rc == 0) {
        note(NULL, 0, "S %llu\n", inode_of(fd));
    }
    return rc;
}

EXPORT int openat(int dir, const char *name, int how, ...)
{
    mode_t mode = 0;
    if ((how & O_CREAT) != 0) {
        va_list ap;
        va_start(ap, how);
        mode = va_arg(ap, mode_t);
        va_end(ap);
    }
    const bool makes = (how & O_CREAT) != 0 && is_beneath(dir) && faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
    if (makes && before('C') != 0) {
        return -1;
    }
    const int fd = REAL(int, "openat", int, const char *, int, ...)(dir, name, how, mode);
    if (makes && fd >= 0) {
        note(NULL, 0, "C %llu %s %llu\n", inode_of(dir), name, inode_of(fd));
    }
    return fd;
}

EXPORT int mkdirat(int dir, const char *name, mode_t mode)
{
    struct stat st;
    const bool ours = is_beneath(dir);
    if (ours && before('M') != 0) {
        return -1;
    }
    const int rc = REAL(int, "mkdirat", int, const char *, mode_t)(dir, name, mode);
    if (ours && rc == 0) {
        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            broken("stat of a new directory");
        }
        note(NULL, 0, "M %llu %s %llu\n", inode_of(dir), name, (unsigned long long)st.st_ino);
    }
    return rc;
}

EXPORT int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    const bool ours = is_beneath(from_dir);
    if (ours && inode_of(from_dir) != inode_of(to_dir)) {
        broken("a rename into another directory");
    }
    if (ours && before('R') != 0) {
        return -1;
    }
    const int rc = REAL(int, "renameat", int, const char *, int, const char *)(from_dir, from, to_dir, to);
    if (ours && rc == 0) {
        note(NULL, 0, "R %llu %s %s\n", inode_of(from_dir), from, to);
    }
    return rc;
}

EXPORT int unlinkat(int dir, const char *name, int how)
{
    const bool ours = is_beneath(dir);
    if (ours && before('U') != 0) {
        return -1;
    }
    const int rc = REAL(int, "unlinkat", int, const char *, int)(dir, name, how);
    if (ours && rc == 0) {
        note(NULL, 0, "U %llu %s\n", inode_of(dir), name);
    }
    return rc;
}

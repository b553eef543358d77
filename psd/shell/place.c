/* SPDX-License-Identifier: Apache-2.0 */
/* A task's directory in the file system (place.h).
 *
 * Happy path: DIR and DIR/<job>-<index> are made, 0700, and synced. Owner and permissions are checked. The file `lock` in the
 * directory is locked (flock), and then names this process. The directory is reached through the psd_fs. Failure modes: a wrong
 * directory is an error for the person who chose it, with a remedy. If another process has the lock, this one waits up to
 * LOCK_WAIT_MS. */
#include "place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_WAIT_MS = 5000, LOCK_LOOK_MS = 20 };

/* Make a directory unless it exists. Its name is synced in both cases: whoever made it may have been killed before its sync. */
static int make_dir_at(int at, const char *name)
{
    bool made = mkdirat(at, name, 0700) == 0;
    if (!made && errno != EEXIST) {
        return -errno;
    }
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int above = fd >= 0 ? openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int rc = -errno;
    if (above >= 0) {
        rc = fsync(above) == 0 || errno == EINVAL ? 0 : -errno;
    } else if (!made) {
        rc = 0; /* no error: the directory above may be unreadable; if `name` cannot be opened, the caller fails later */
    }
    if (above >= 0) {
        (void)close(above);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return rc;
}

static bool may_be_read(const struct stat *st)
{
    return st->st_uid == geteuid() && (st->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static ps_status check_ours(const struct psd_place *p, struct psi_err *err)
{
    struct stat st;
    if (fstat(p->top, &st) != 0) {
        return psi_fail_errno(err, errno, "stat", p->path);
    }
    if (st.st_uid != geteuid()) {
        return psi_fail(
            err, PS_PERMISSION_DENIED,
            "%s belongs to user %u, and psd runs as user %u: run it as that user, chown the directory, or name another "
            "checkpoint_dir",
            p->path, (unsigned)st.st_uid, (unsigned)geteuid());
    }
    if (!may_be_read(&st)) {
        return psi_fail(err, PS_PERMISSION_DENIED, "%s can be written by others (mode %04o): chmod 700 it", p->path,
                        (unsigned)(st.st_mode & 07777));
    }
    return PS_OK;
}

/* Read who holds the lock, from the text in its file; "" if there is none. */
static void read_holder(int fd, char *text, size_t n)
{
    ssize_t got = pread(fd, text, n - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

/* True if a server of this process has the lock. It would not give up the lock while this thread waits: waiting is useless. */
static bool is_ours(int fd)
{
    char text[256], own[32];
    (void)snprintf(own, sizeof(own), "process %ld ", (long)getpid());
    read_holder(fd, text, sizeof(text));
    return strncmp(text, own, strlen(own)) == 0;
}

static int lock_now(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : -errno;
}

/* Take the lock, waiting up to LOCK_WAIT_MS while another process has it: a killed process keeps it until the system has freed
 * its memory. Returns 0 or -errno. */
static int lock_or_wait(int fd)
{
    static const struct timespec pause = {.tv_nsec = LOCK_LOOK_MS * 1000L * 1000L};
    int rc = lock_now(fd);
    for (int ms = 0; rc == -EWOULDBLOCK && ms < LOCK_WAIT_MS && !is_ours(fd); ms += LOCK_LOOK_MS) {
        (void)nanosleep(&pause, NULL); /* sleep: nothing reports that the lock is free; the server does nothing else yet */
        rc = lock_now(fd);
    }
    return rc;
}

static ps_status take_lock(struct psd_place *p, const char *who, struct psi_err *err)
{
    char text[256] = "";
    p->lock = openat(p->top, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (p->lock < 0) {
        return psi_fail_errno(err, errno, "open the file `lock` in it", p->path);
    }
    int rc = lock_or_wait(p->lock);
    if (rc == -EWOULDBLOCK) {
        read_holder(p->lock, text, sizeof(text));
        return psi_fail(err, PS_ALREADY_EXISTS,
                        "%s is in use by %s: a task's directory is for one process. Stop that one, or name another "
                        "checkpoint_dir",
                        p->path, text[0] != '\0' ? text : "another process");
    }
    if (rc != 0) {
        return psi_fail_errno(err, -rc, "flock", p->path);
    }
    int len = snprintf(text, sizeof(text), "process %ld (%.160s)\n", (long)getpid(), who);
    ssize_t written = ftruncate(p->lock, 0) == 0 ? pwrite(p->lock, text, (size_t)len, 0) : -1;
    if (written != len) {
        return psi_fail_errno(err, written < 0 ? errno : ENOSPC, "write the file `lock` in it", p->path);
    }
    return PS_OK;
}

/* Write the name of a task's directory into buf, which has room: a job's name is letters, digits and _. */
static void name_of(const char *job, uint32_t task, char *buf, size_t n)
{
    (void)snprintf(buf, n, "%s-%u", job, task);
}

ps_status psd_place_open(struct psd_place *p, const char *dir, const char *job, uint32_t task, const char *who,
                         struct psi_err *err)
{
    char name[PS_JOB_BYTES_MAX + 16];
    *p = (struct psd_place){.top = -1, .lock = -1, .above = -1, .task = task};
    (void)snprintf(p->job, sizeof(p->job), "%s", job);
    name_of(job, task, name, sizeof(name));
    if ((size_t)snprintf(p->path, sizeof(p->path), "%s/%s", dir, name) >= sizeof(p->path)) {
        return psi_fail_errno(err, ENAMETOOLONG, "checkpoint_dir", dir);
    }
    int rc = make_dir_at(AT_FDCWD, dir);
    p->above = rc == 0 ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (p->above < 0) {
        return psi_fail_errno(err, rc != 0 ? -rc : errno, rc != 0 ? "mkdir" : "open", dir);
    }
    rc = make_dir_at(p->above, name);
    p->top = rc == 0 ? openat(p->above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    int why = rc != 0 ? -rc : errno;
    if (p->top < 0) {
        psd_place_close(p);
        return why == ENOTDIR || why == ELOOP
                   ? psi_fail(err, PS_INVALID_ARGUMENT, "%s is a symbolic link or no directory: psd follows none there", p->path)
                   : psi_fail_errno(err, why, rc != 0 ? "mkdir" : "open", p->path);
    }
    ps_status st = check_ours(p, err);
    if (st == PS_OK) {
        st = take_lock(p, who, err);
    }
    if (st != PS_OK) {
        psd_place_close(p);
    }
    return st;
}

void psd_place_close(struct psd_place *p)
{
    if (p->lock >= 0) {
        (void)close(p->lock);
    }
    if (p->top >= 0) {
        (void)close(p->top);
    }
    if (p->above >= 0) {
        (void)close(p->above);
    }
    p->top = p->lock = p->above = -1;
}

static int fd_of(const struct psd_place *p, int dir)
{
    return dir == PSD_FS_TOP ? p->top : dir;
}

static int rc_or_errno(int rc)
{
    return rc < 0 ? -errno : rc;
}

/* Check that the path still leads to this directory, because the next start will use the path. -ESTALE: it was moved, removed,
 * replaced or mounted over, so what is written here would not be found. Of a relative path only the last name is checked. */
static int check_there(const struct psd_place *p)
{
    struct stat here, there;
    const char *name = p->path[0] == '/' ? p->path : strrchr(p->path, '/') + 1;
    if (fstat(p->top, &here) != 0) {
        return -errno;
    }
    if (fstatat(p->above, name, &there, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT || errno == ENOTDIR ? -ESTALE : -errno;
    }
    return here.st_dev == there.st_dev && here.st_ino == there.st_ino ? 0 : -ESTALE;
}

static int place_make_dir(void *ctx, const char *name)
{
    const struct psd_place *p = ctx;
    int rc = check_there(p);
    return rc < 0 ? rc : rc_or_errno(mkdirat(p->top, name, 0700));
}

static int place_open_dir(void *ctx, int dir, const char *name)
{
    return rc_or_errno(openat(fd_of(ctx, dir), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

static int place_open_task(void *ctx, uint32_t task)
{
    const struct psd_place *p = ctx;
    char name[PS_JOB_BYTES_MAX + 16];
    struct stat st;
    name_of(p->job, task, name, sizeof(name));
    int fd = rc_or_errno(openat(p->above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd >= 0 && (fstat(fd, &st) != 0 || !may_be_read(&st))) {
        (void)close(fd);
        return -EPERM;
    }
    return fd;
}

static int place_open_file(void *ctx, int dir, const char *name, bool make)
{
    int rc = make && dir == PSD_FS_TOP ? check_there(ctx) : 0;
    if (rc < 0) {
        return rc;
    }
    int how = make ? O_WRONLY | O_CREAT | O_EXCL : O_RDONLY | O_NONBLOCK; /* O_NONBLOCK: opening a FIFO must not wait */
    int fd = rc_or_errno(openat(fd_of(ctx, dir), name, how | O_NOFOLLOW | O_CLOEXEC, 0600));
    struct stat st;
    if (fd >= 0 && !make && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        (void)close(fd);
        return -ELOOP;
    }
    return fd;
}

static void place_close(void *ctx, int fd)
{
    (void)ctx;
    (void)close(fd); /* errors do not matter: what must be on disk was synced */
}

static int64_t place_write(void *ctx, int fd, const void *p, size_t n, uint64_t offset)
{
    (void)ctx;
    ssize_t done = -1;
    do {
        done = pwrite(fd, p, n, (off_t)offset);
    } while (done < 0 && errno == EINTR);
    return done < 0 ? -errno : done;
}

static int64_t place_read(void *ctx, int fd, void *p, size_t n, uint64_t offset)
{
    (void)ctx;
    ssize_t done = -1;
    do {
        done = pread(fd, p, n, (off_t)offset);
    } while (done < 0 && errno == EINTR);
    return done < 0 ? -errno : done;
}

static int place_sync(void *ctx, int fd)
{
    const struct psd_place *p = ctx;
    int rc = fd == PSD_FS_TOP ? fsync(p->top) : fsync(fd);
    rc = rc == 0 || errno == EINVAL ? 0 : -errno; /* EINVAL: the file system cannot sync such a descriptor, which is no error */
    return rc == 0 && fd == PSD_FS_TOP ? check_there(p) : rc;
}

static int place_rename(void *ctx, int dir, const char *from, const char *to)
{
    int fd = fd_of(ctx, dir);
    return rc_or_errno(renameat(fd, from, fd, to));
}

static int place_remove(void *ctx, int dir, const char *name, bool is_dir)
{
    return rc_or_errno(unlinkat(fd_of(ctx, dir), name, is_dir ? AT_REMOVEDIR : 0));
}

static int place_each(void *ctx, int dir, psd_fs_entry_cb cb, void *arg)
{
    int fd = openat(fd_of(ctx, dir), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (d == NULL) {
        int why = errno;
        if (fd >= 0) {
            (void)close(fd);
        }
        return -why;
    }
    int rc = 0;
    while (rc == 0) {
        errno = 0;
        const struct dirent *e = readdir(d); /* NOLINT(concurrency-mt-unsafe): no other thread has this stream */
        if (e == NULL) {
            rc = -errno;
            break;
        }
        struct stat st = {.st_mode = 0};
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            rc = errno == ENOENT ? 0 : -errno; /* another task has just renamed or removed it */
        } else {
            struct psd_fs_entry entry = {.name = e->d_name,
                                         .is_dir = S_ISDIR(st.st_mode),
                                         .is_file = S_ISREG(st.st_mode),
                                         .bytes = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0};
            cb(arg, &entry);
        }
    }
    (void)closedir(d);
    return rc;
}

struct tasks {
    const struct psd_place *place;
    psd_fs_task_cb cb;
    void *arg;
};

static void on_above(void *arg, const struct psd_fs_entry *entry)
{
    const struct tasks *t = arg;
    size_t job = strlen(t->place->job);
    char same[PS_JOB_BYTES_MAX + 16];
    if (strncmp(entry->name, t->place->job, job) != 0 || entry->name[job] != '-') {
        return;
    }
    unsigned long task = strtoul(entry->name + job + 1, NULL, 10);
    if (task < PS_TASKS_MAX && task != t->place->task) {
        name_of(t->place->job, (uint32_t)task, same, sizeof(same));
        if (strcmp(same, entry->name) == 0) {
            t->cb(t->arg, (uint32_t)task);
        }
    }
}

static int place_each_task(void *ctx, psd_fs_task_cb cb, void *arg)
{
    struct psd_place *p = ctx;
    struct tasks t = {.place = p, .cb = cb, .arg = arg};
    return place_each(p, p->above, on_above, &t);
}

void psd_place_fs(struct psd_place *p, struct psd_fs *fs)
{
    *fs = (struct psd_fs){.ctx = p,
                          .make_dir = place_make_dir,
                          .open_dir = place_open_dir,
                          .open_task = place_open_task,
                          .open_file = place_open_file,
                          .close = place_close,
                          .write = place_write,
                          .read = place_read,
                          .sync = place_sync,
                          .rename = place_rename,
                          .remove = place_remove,
                          .each = place_each,
                          .each_task = place_each_task};
}

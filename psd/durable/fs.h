/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What psd/durable/ stands on: one task's directory and the directories in it, as a table. The system's is psd/shell/place.c, the
 * simulated one tests/sim/lib/disk.c; what one of them does the other one does too.
 *
 * All but close give 0 or more, or -errno. Names are single parts of a path; no symbolic link is followed. A descriptor is good
 * until close; dir: one of open_dir or open_task, or PSD_FS_TOP.
 */
#ifndef PSD_FS_H
#define PSD_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PSD_FS_TOP = -1 }; /* the task's own directory */

/* The directory of another task of the job lies beside it. */
typedef void (*psd_fs_task_cb)(void *arg, uint32_t task);

/* What lies in a directory. A symbolic link is neither a directory nor a file. */
struct psd_fs_entry {
    const char *name;
    bool is_dir, is_file;
    uint64_t bytes; /* of a file */
};
typedef void (*psd_fs_entry_cb)(void *arg, const struct psd_fs_entry *entry);

struct psd_fs {
    void *ctx;
    int (*make_dir)(void *ctx, const char *name);
    int (*open_dir)(void *ctx, int dir, const char *name);
    int (*open_task)(void *ctx, uint32_t task); /* to read; -EPERM: it is somebody else's, or others may write to it */
    int (*open_file)(void *ctx, int dir, const char *name,
                     bool make); /* make: -EEXIST where there is one, to write; else to read */
    void (*close)(void *ctx, int fd);
    int64_t (*write)(void *ctx, int fd, const void *p, size_t n, uint64_t offset); /* how many, 1 at least */
    int64_t (*read)(void *ctx, int fd, void *p, size_t n, uint64_t offset);        /* how many; 0: behind the end */
    int (*sync)(void *ctx, int fd); /* what was written to the file, or what names the directory has, survives a power cut */
    int (*rename)(void *ctx, int dir, const char *from, const char *to); /* over what is there, at once or not at all */
    int (*remove)(void *ctx, int dir, const char *name, bool is_dir);    /* a directory: -ENOTEMPTY where something is in it */
    int (*each)(void *ctx, int dir, psd_fs_entry_cb cb, void *arg);
    int (*each_task)(void *ctx, psd_fs_task_cb cb, void *arg); /* in any order */
};

#endif

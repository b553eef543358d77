/* SPDX-License-Identifier: Apache-2.0 */
/* The file system under psd/durable/: the directory of one task, and the directories in it, as a table of calls.
 * psd/shell/place.c calls the system, tests/sim/lib/disk.c simulates it.
 *
 * All calls but close return -errno on failure. A name is one component of a path; no symbolic link is followed. A descriptor is
 * valid until close. The argument dir is a descriptor from open_dir or open_task, or PSD_FS_TOP. */
#ifndef PSD_FS_H
#define PSD_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PSD_FS_TOP = -1 }; /* the task's own directory */

/* Called for each task of the job whose directory has the same parent directory as this task's. */
typedef void (*psd_fs_task_cb)(void *arg, uint32_t task);

/* An entry of a directory. A symbolic link is neither a directory nor a file. */
struct psd_fs_entry {
    const char *name;
    bool is_dir, is_file;
    uint64_t bytes; /* size of a file */
};
typedef void (*psd_fs_entry_cb)(void *arg, const struct psd_fs_entry *entry);

struct psd_fs {
    void *ctx;
    int (*make_dir)(void *ctx, const char *name);
    int (*open_dir)(void *ctx, int dir, const char *name);
    int (*open_task)(void *ctx, uint32_t task); /* for reading; -EPERM: another user owns the directory, or may write to it */
    int (*open_file)(void *ctx, int dir, const char *name,
                     bool make); /* true: create the file (-EEXIST: it exists); false: open it for reading */
    void (*close)(void *ctx, int fd);
    /* returns how many bytes were written, at least 1 */
    int64_t (*write)(void *ctx, int fd, const void *p, size_t n, uint64_t offset);
    /* returns how many bytes were read; 0: end of file */
    int64_t (*read)(void *ctx, int fd, void *p, size_t n, uint64_t offset);
    int (*sync)(void *ctx, int fd); /* after this, a power cut loses neither bytes of the file nor names in the directory */
    /* replaces an existing `to`, wholly or not at all */
    int (*rename)(void *ctx, int dir, const char *from, const char *to);
    int (*remove)(void *ctx, int dir, const char *name, bool is_dir); /* a directory: -ENOTEMPTY if something is in it */
    int (*each)(void *ctx, int dir, psd_fs_entry_cb cb, void *arg);
    int (*each_task)(void *ctx, psd_fs_task_cb cb, void *arg); /* in any order */
};

#endif

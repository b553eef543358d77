/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of a task on its disk. Each one is an effect of the core (PSD_EFFECT_DISK, psd/task.h), and is answered exactly
 * once, never at once, by psd_task_disk_done(). The core asks through psd_disk_ask() (psd/base/disk.h).
 *
 * A task has one directory, which its shell has opened and locked before the core begins. The core names a file by numbers: no
 * text of a peer ever becomes part of a path.
 *
 *   lock                            names the process that has the directory
 *   bars                            {0, PSD_DISK_BARS, 0}
 *   00000000000000000012/           checkpoint 12
 *     model-00000.safetensors       {12, PSD_DISK_MODEL, 0}, and so on
 *     state                         {12, PSD_DISK_STATE, 0}
 *     manifest                      {12, PSD_DISK_MANIFEST, 0}
 *
 * Directories of other tasks of the job beside it are only read, because what they have written may be loaded here. They are not
 * locked, and LIST passes over what cannot be read there. {12, PSD_DISK_STATE, 0, 1 + i} is a file of task i.
 *
 * A name that ends in .tmp is incomplete: a file between BEGIN and PUBLISH, or a checkpoint that is being removed. It is removed
 * at the next start. After a power cut a file is there as it was published, or not at all, and a removed checkpoint is not there
 * in part. Once PUBLISH is answered PS_OK, the file survives a power cut; once REMOVE is answered PS_OK, the checkpoint stays
 * removed. What LIST and READ show of earlier processes survives as well.
 *
 * Operations of a task are carried out, and answered, in the order in which it asked. The core does not change memory that an
 * operation borrows until it is answered. After a failed operation its file stays failed: further operations, PUBLISH too, get
 * the same error until BEGIN or REMOVE, so that several may be on their way at a time; an fsync that has failed is never tried
 * again on the same file.
 *
 * Errors (psi_fail_errno()): RESOURCE_EXHAUSTED (disk full, no inode, quota, a limit on the size of files, descriptors),
 * PERMISSION_DENIED (read-only, somebody else's), DATA_LOSS (the disk failed), INVALID_ARGUMENT (a symbolic link in its place),
 * NOT_FOUND (READ: there is no such file), FAILED_PRECONDITION (WRITE and PUBLISH without BEGIN). The text names the file.
 */
#ifndef PSD_DISK_H
#define PSD_DISK_H

#include "common/status.h"

#include <stdbool.h>

enum {
    PSD_DISK_OPS_MAX = 128,       /* unanswered operations of a task */
    PSD_DISK_BEGUN_MAX = 64,      /* files between BEGIN and PUBLISH */
    PSD_DISK_INDEX_MAX = 99999,   /* highest index of a checkpoint's file */
    PSD_DISK_NAME_BYTES_MAX = 64, /* bytes of a path below the directory, with its NUL */
    PSD_DISK_SUM_BYTES = 64 << 10
};

enum psd_disk_file_kind { PSD_DISK_NO_FILE, PSD_DISK_BARS, PSD_DISK_MODEL, PSD_DISK_STATE, PSD_DISK_MANIFEST };
/* ordered by writer, number, kind, index */
struct psd_disk_file {
    uint64_t number; /* number of the checkpoint; 0: PSD_DISK_BARS */
    enum psd_disk_file_kind kind;
    uint32_t index; /* 0 except for PSD_DISK_MODEL */
    /* 0: this task's directory; otherwise 1 + index of the task whose directory has the file: LIST and READ only */
    uint32_t writer;
};

/* A published file. A checkpoint without published files is not listed. */
struct psd_disk_entry {
    struct psd_disk_file file;
    uint64_t bytes;
};

enum psd_disk_kind {
    /* entries after `file`, in their order, into out [bytes]; the answer has the bytes of those that fit. Fewer than bytes /
     * sizeof(struct psd_disk_entry) entries: the end. A LIST with `file` all zeros reads the directory; the next ones continue
     * with what it has read. Of other tasks' directories no PSD_DISK_MODEL */
    PSD_DISK_LIST,
    /* make an empty, unpublished file; an unpublished file of this name is dropped. The directory of its checkpoint is made if
     * necessary */
    PSD_DISK_BEGIN,
    PSD_DISK_WRITE, /* write in [bytes] at offset of the begun file */
    /* put the file onto the disk under its name, replacing an older one: fsync, rename, fsync of the directory. After an error
     * the old or the new file is there, complete */
    PSD_DISK_PUBLISH,
    /* read from offset of a published file into out [bytes]; the answer has the number of bytes read. sums: CRC32C of each
     * PSD_DISK_SUM_BYTES of them, if all were there; the last one may be of fewer. NULL: none */
    PSD_DISK_READ,
    PSD_DISK_REMOVE /* remove checkpoint file.number, with unpublished files; PS_OK if there is none */
};
struct psd_disk_op {
    uint64_t id; /* never 0 */
    enum psd_disk_kind kind;
    struct psd_disk_file file;
    uint64_t offset;
    const void *in; /* in and out: unchanged by the core until the answer */
    void *out;
    uint32_t *sums;
    size_t bytes;
};

#endif

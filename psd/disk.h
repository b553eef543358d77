/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a task asks of its disk: each operation is an effect of the core (PSD_EFFECT_DISK, psd/task.h), and is answered exactly
 * once, never at once, by psd_task_disk_done(). The core asks through psd_disk_ask() (psd/base/disk.h).
 *
 * A task has one directory, which its shell has opened and locked before the core begins. The core names a file by numbers: no
 * text of a peer ever becomes part of a path.
 *
 *   lock                            the process whose directory it is
 *   bars                            {0, PSD_DISK_BARS, 0}
 *   00000000000000000012/           checkpoint 12
 *     model-00000.safetensors       {12, PSD_DISK_MODEL, 0}, and so on
 *     state                         {12, PSD_DISK_STATE, 0}
 *     manifest                      {12, PSD_DISK_MANIFEST, 0}
 *
 * Directories of other tasks of the job that lie beside it are read, for what they have written may be loaded here: never
 * written, not locked, and what cannot be read there is passed over by LIST. {12, PSD_DISK_STATE, 0, 1 + i} is a file of task i.
 *
 * What ends in .tmp is not whole: a file between BEGIN and PUBLISH, a checkpoint that is being removed. It is gone at the next
 * start. After a power cut a file is there as it was published, or not at all, and a checkpoint that was removed is not there in
 * part. That a published file is there, and a removed checkpoint is not, is sure when the answer to PUBLISH or REMOVE has said
 * PS_OK; what LIST and READ show of earlier processes is sure as well.
 *
 * Operations of a task are carried out, and answered, in the order in which it asked. In memory that an operation borrows the
 * core changes nothing until it is answered. A file of which an operation has failed stays failed: further ones, PUBLISH too, get
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
    PSD_DISK_OPS_MAX = 128,       /* of a task, not answered */
    PSD_DISK_BEGUN_MAX = 64,      /* files between BEGIN and PUBLISH */
    PSD_DISK_INDEX_MAX = 99999,   /* of a file of a checkpoint */
    PSD_DISK_NAME_BYTES_MAX = 64, /* of a path beneath the directory, with its NUL */
    PSD_DISK_SUM_BYTES = 64 << 10
};

enum psd_disk_file_kind { PSD_DISK_NO_FILE, PSD_DISK_BARS, PSD_DISK_MODEL, PSD_DISK_STATE, PSD_DISK_MANIFEST };
/* ordered by writer, number, kind, index */
struct psd_disk_file {
    uint64_t number; /* of the checkpoint; 0: PSD_DISK_BARS */
    enum psd_disk_file_kind kind;
    uint32_t index;  /* 0 but for PSD_DISK_MODEL */
    uint32_t writer; /* 0: of this task's directory; else 1 + index of the task whose directory it lies in: LIST and READ only */
};

/* A file that is there, published. A checkpoint without any is not listed. */
struct psd_disk_entry {
    struct psd_disk_file file;
    uint64_t bytes;
};

enum psd_disk_kind {
    PSD_DISK_LIST,  /* entries behind `file`, in their order, into out [bytes]; the answer has the bytes of those that fit, and
                       less than  bytes / sizeof(struct psd_disk_entry) of them at the end. file all zeros: as it is now; the
                       others  go on from that. Of other tasks' directories no PSD_DISK_MODEL */
    PSD_DISK_BEGIN, /* an empty file, unpublished; what was begun under its name is dropped. Its checkpoint is made where there is
                       none */
    PSD_DISK_WRITE, /* in [bytes], to offset of the file that was begun */
    PSD_DISK_PUBLISH, /* to disk, and then it is there in place of what was: fsync, rename, fsync of the directory. After an error
                         the old or the new one is there, either of them whole */
    PSD_DISK_READ,    /* from offset of a published file, into out [bytes]; the answer has as many as there were. sums: CRC32C of
                         each PSD_DISK_SUM_BYTES of them, where all were there; the last one may be of fewer. NULL: none */
    PSD_DISK_REMOVE   /* checkpoint file.number, what was begun in it too; PS_OK where there is none */
};
struct psd_disk_op {
    uint64_t id; /* never 0 */
    enum psd_disk_kind kind;
    struct psd_disk_file file;
    uint64_t offset;
    const void *in; /* until it is answered, as out */
    void *out;
    uint32_t *sums;
    size_t bytes;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of a task on its disk. Each one is an effect of the core (PSD_EFFECT_DISK, psd/task.h), and is answered exactly
 * once, in a later event, by psd_task_disk_done(). The core asks through psd_disk_ask() (psd/base/disk.h).
 *
 * A task has one directory, which its shell has opened and locked before the core begins. The core names a file by numbers: no
 * text of a peer becomes part of a path.
 *
 *   - `lock` names the process that has the directory; `bars` is the file {0, PSD_DISK_BARS, 0} (number, kind, index).
 *   - `00000000000000000012/` is the directory of checkpoint 12. Its files are `model-00000.safetensors` {12, PSD_DISK_MODEL, 0},
 *     and so on, `state` {12, PSD_DISK_STATE, 0} and `manifest` {12, PSD_DISK_MANIFEST, 0}.
 *
 * Directories of the job's other tasks, next to this one, are only read: this task may load what other tasks have written. They
 * are not locked, and LIST skips what cannot be read there. {12, PSD_DISK_STATE, 0, 1 + i} names a file of task i.
 *
 * A name that ends in .tmp is not complete: a file between BEGIN and PUBLISH, or a checkpoint that is being removed. The next
 * start removes it. After a power cut a file is as it was published, or absent, and a removed checkpoint is absent with all its
 * files. Once PUBLISH is answered PS_OK, the file survives a power cut; once REMOVE is answered PS_OK, the checkpoint stays
 * removed. Files of earlier processes that LIST and READ show survive as well.
 *
 * Operations are carried out, and answered, in the order in which the task asked. The core does not change memory that an
 * operation borrows until it is answered. It may ask for several operations before the first one is answered: after a failed one,
 * further operations on that file, PUBLISH included, get the same error until BEGIN or REMOVE. A failed fsync is not tried again
 * on the same file.
 *
 * Errors (psi_fail_errno()): RESOURCE_EXHAUSTED (disk full, no inode, quota, a limit on the size of files, descriptors),
 * PERMISSION_DENIED (read-only, somebody else's), DATA_LOSS (the disk failed), INVALID_ARGUMENT (a symbolic link in its place),
 * NOT_FOUND (READ: there is no such file), FAILED_PRECONDITION (WRITE and PUBLISH without BEGIN). The text names the file. */
#ifndef PSD_DISK_H
#define PSD_DISK_H

#include "common/status.h"

#include <stdbool.h>

enum {
    PSD_DISK_OPS_MAX = 128,       /* unanswered operations of a task */
    PSD_DISK_BEGUN_MAX = 64,      /* files of a task that are being written (between BEGIN and PUBLISH) */
    PSD_DISK_INDEX_MAX = 99999,   /* highest index of a file in a checkpoint */
    PSD_DISK_NAME_BYTES_MAX = 64, /* bytes of a path below the task's directory, NUL included */
    PSD_DISK_SUM_BYTES = 64 << 10
};

enum psd_disk_file_kind { PSD_DISK_NO_FILE, PSD_DISK_BARS, PSD_DISK_MODEL, PSD_DISK_STATE, PSD_DISK_MANIFEST };
/* Names a file. Files are ordered by writer, number, kind, index. */
struct psd_disk_file {
    uint64_t number; /* number of the checkpoint; 0: the file belongs to no checkpoint (PSD_DISK_BARS) */
    enum psd_disk_file_kind kind;
    uint32_t index; /* 0 except for PSD_DISK_MODEL */
    /* 0: the file is in this task's directory; 1 + i: in that of task i, for LIST and READ only */
    uint32_t writer;
};

/* An entry of LIST: a published file. A checkpoint without published files is not listed. */
struct psd_disk_entry {
    struct psd_disk_file file;
    uint64_t bytes;
};

enum psd_disk_kind {
    /* write to out [bytes] a struct psd_disk_entry for each file that sorts behind `file`; the answer says how many bytes were
     * written. Fewer entries than fit: these are the last. Only a LIST with `file` all zeros reads the directory; later LISTs
     * return more of what it read. The PSD_DISK_MODEL files of other tasks are left out */
    PSD_DISK_LIST,
    /* make an empty, unpublished file, in place of an older unpublished one, and its checkpoint's directory if needed */
    PSD_DISK_BEGIN,
    PSD_DISK_WRITE, /* write `in` [bytes] at `offset` of a file for which BEGIN was called */
    /* give the file its name, also in place of an older file, safe against power cuts: fsync, rename, fsync of the directory.
     * After an error the old or the new file is there, whole */
    PSD_DISK_PUBLISH,
    /* read from `offset` of a published file into `out` [bytes]; the answer says how many bytes were read. If all `bytes` were
     * read, `sums` gets a CRC32C of each piece of PSD_DISK_SUM_BYTES, the last piece being shorter. sums NULL: no CRCs */
    PSD_DISK_READ,
    PSD_DISK_REMOVE /* remove checkpoint file.number with all its files; PS_OK if there is no such checkpoint */
};
struct psd_disk_op {
    uint64_t id; /* never 0 */
    enum psd_disk_kind kind;
    struct psd_disk_file file;
    uint64_t offset;
    const void *in; /* the core leaves the memory of `in` and `out` alone until the answer */
    void *out;
    uint32_t *sums;
    size_t bytes;
};

#endif

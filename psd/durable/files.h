/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of psd/disk.h, carried out by calls of a file system (psd/durable/fs.h) in such an order that a power cut
 * between any two calls leaves each file whole or absent. No other calls of the system. One thread at a time, but several READs
 * may run together. */
#ifndef PSD_FILES_H
#define PSD_FILES_H

#include "common/buf.h"
#include "fs.h"
#include "psd/disk.h"

struct psd_files {
    struct psd_fs fs;
    struct psd_begun {
        struct psd_disk_file file; /* kind PSD_DISK_NO_FILE: free */
        int fd;                    /* -1: the file has failed */
        struct psi_err failed;     /* why the file has failed, for later operations on it */
    } begun[PSD_DISK_BEGUN_MAX];
    struct psi_buf listed; /* struct psd_disk_entry, sorted: the first LIST fills this list, and later LISTs return more of it */
};

/** "00000000000000000012/state": the path of a file below its task's directory. Returns buf [PSD_DISK_NAME_BYTES_MAX]. */
const char *psd_files_path(const struct psd_disk_file *file, char *buf);
/** Prepare the directory of fs for use: remove files and checkpoints that are not whole, and make sure that all others survive a
 * power cut, even if the previous process was killed in a PUBLISH or REMOVE. After an error f needs no psd_files_close(). Errors:
 * as in psd/disk.h; INVALID_ARGUMENT also if a name that psd uses is neither file nor directory. */
PSI_MUST ps_status psd_files_open(struct psd_files *f, const struct psd_fs *fs, struct psi_err *err);
void psd_files_close(struct psd_files *f);
/** Carry out op (psd/disk.h). *out_bytes: bytes that LIST or READ has written to op->out; otherwise 0. */
PSI_MUST ps_status psd_files_run(struct psd_files *f, const struct psd_disk_op *op, size_t *out_bytes, struct psi_err *err);

#endif

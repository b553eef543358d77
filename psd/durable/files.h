/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of psd/disk.h on a file system of psd/durable/fs.h: which calls, in which order, so that a power cut between
 * any two of them leaves each file whole or absent. Pure. One thread at a time, except that several READs may run together. */
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
    struct psi_buf listed; /* struct psd_disk_entry, in order; a LIST goes on with the rest */
};

/** "00000000000000000012/state": the path of a file below its task's directory. Returns buf [PSD_DISK_NAME_BYTES_MAX]. */
const char *psd_files_path(const struct psd_disk_file *file, char *buf);
/**
 * Take over a directory: remove what is not whole, and make sure that the rest survives a power cut, even if the process before
 * was killed in the middle of a PUBLISH or REMOVE. After a failure f needs no close.
 * Errors: as in psd/disk.h; INVALID_ARGUMENT also if something under a name of ours is neither file nor directory.
 */
PSI_MUST ps_status psd_files_open(struct psd_files *f, const struct psd_fs *fs, struct psi_err *err);
void psd_files_close(struct psd_files *f);
/** Carry out op (psd/disk.h). *out_bytes: of LIST and READ, otherwise 0. */
PSI_MUST ps_status psd_files_run(struct psd_files *f, const struct psd_disk_op *op, size_t *out_bytes, struct psi_err *err);

#endif

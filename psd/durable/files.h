/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of psd/disk.h on a file system of psd/durable/fs.h: which calls, in which order, so that a power cut between any
 * two of them leaves each file whole or absent. Pure; one thread at a time, but for READs, of which several may go on together.
 */
#ifndef PSD_FILES_H
#define PSD_FILES_H

#include "common/buf.h"
#include "fs.h"
#include "psd/disk.h"

struct psd_files {
    struct psd_fs fs;
    struct psd_begun {
        struct psd_disk_file file; /* kind PSD_DISK_NO_FILE: free */
        int fd;                    /* -1: it has failed ... */
        struct psi_err failed;     /* ... with this */
    } begun[PSD_DISK_BEGUN_MAX];
    struct psi_buf listed; /* struct psd_disk_entry, in order; what the rest of a LIST is taken from */
};

/** "00000000000000000012/state": the path of a file beneath its task's directory; buf [PSD_DISK_NAME_BYTES_MAX], returned. */
const char *psd_files_path(const struct psd_disk_file *file, char *buf);
/**
 * Take over a directory: what is not whole is removed from it, and what is there survives a power cut from now on, also where the
 * process before was killed in the middle of a PUBLISH or REMOVE. On failure f needs no close.
 * Errors: as in psd/disk.h; INVALID_ARGUMENT also where something lies there under a name of ours that is neither file nor
 * directory.
 */
PSI_MUST ps_status psd_files_open(struct psd_files *f, const struct psd_fs *fs, struct psi_err *err);
/** What is begun stays unpublished. */
void psd_files_close(struct psd_files *f);
/** Carry out op: psd/disk.h. *out_bytes: of LIST and READ, else 0. */
PSI_MUST ps_status psd_files_run(struct psd_files *f, const struct psd_disk_op *op, size_t *out_bytes, struct psi_err *err);

#endif

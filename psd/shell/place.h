/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and locks the directory of a task, DIR/<job>-<index>, where DIR is the setting checkpoint_dir. A struct psd_fs gives
 * access to this directory, and can read other tasks' directories in DIR. DIR is opened once. No symbolic link below DIR is
 * followed. Creating a file fails with ESTALE when the path no longer leads to the opened directory. */
#ifndef PSD_PLACE_H
#define PSD_PLACE_H

#include "common/limits.h"
#include "common/status.h"
#include "psd/durable/fs.h"

struct psd_place {
    int top, lock, above; /* top: the task's directory. above: DIR, which holds other tasks' directories. lock: the lock's file */
    uint32_t task;
    char job[PS_JOB_BYTES_MAX + 1];
    char path[1024]; /* path of the task's directory, for messages */
};

/** Open the directory and lock it until close. The directory and DIR are made with mode 0700 if they are missing, but nothing
 * above DIR is made. Blocks: waits up to 5 s for a lock that another process holds. who: written into the lock's file, for other
 * processes. Errors: ALREADY_EXISTS (another process has the lock; the text says which), PERMISSION_DENIED (another user owns the
 * directory or may write to it, or it is read-only), INVALID_ARGUMENT (a symbolic link, no directory), as psi_fail_errno(). After
 * an error nothing is open. */
PSI_MUST ps_status psd_place_open(struct psd_place *p, const char *dir, const char *job, uint32_t task, const char *who,
                                  struct psi_err *err);
void psd_place_close(struct psd_place *p);
/** Fill *fs with the functions that work in this directory; fs->ctx is p. One thread at a time, but two threads may read at the
 * same time (psd/durable/files.h). */
void psd_place_fs(struct psd_place *p, struct psd_fs *fs);

#endif

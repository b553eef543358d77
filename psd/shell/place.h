/* SPDX-License-Identifier: Apache-2.0 */
/* A task's directory on this machine, DIR/<job>-<index> with DIR of the setting checkpoint_dir: opened, locked, and reached
 * through a struct psd_fs, which also reads other tasks' directories in DIR. DIR is looked up once. Nothing below it is reached
 * through a symbolic link. Making something fails with ESTALE once the path leads elsewhere. */
#ifndef PSD_PLACE_H
#define PSD_PLACE_H

#include "common/limits.h"
#include "common/status.h"
#include "psd/durable/fs.h"

struct psd_place {
    int top, lock, above; /* top: the task's directory. above: DIR, which holds other tasks' directories. lock: the lock's file */
    uint32_t task;
    char job[PS_JOB_BYTES_MAX + 1];
    char path[1024]; /* for texts */
};

/** Open the directory and lock it until close. It is made 0700 if missing, as is DIR (not what is above DIR). Blocks: a lock
 * that another process holds is waited for 5 s. who: written into the lock's file, for other processes. Errors: ALREADY_EXISTS
 * (another process holds it; the text says which), PERMISSION_DENIED (somebody else's, others may write to it, read-only),
 * INVALID_ARGUMENT (a symbolic link, no directory), as psi_fail_errno(). Nothing is open then. */
PSI_MUST ps_status psd_place_open(struct psd_place *p, const char *dir, const char *job, uint32_t task, const char *who,
                                  struct psi_err *err);
void psd_place_close(struct psd_place *p);
/** The table of calls; fs->ctx is p. One thread at a time. */
void psd_place_fs(struct psd_place *p, struct psd_fs *fs);

#endif

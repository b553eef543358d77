/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task's directory on this machine, DIR/<job>-<index> below the setting checkpoint_dir: opened and locked, and the system's
 * calls on it as a struct psd_fs, those that read other tasks' directories of the job in DIR too. DIR is looked up once; nothing
 * below it is reached through a symbolic link. What is made is refused (ESTALE) where the path leads elsewhere meanwhile.
 */
#ifndef PSD_PLACE_H
#define PSD_PLACE_H

#include "common/limits.h"
#include "common/status.h"
#include "psd/durable/fs.h"

struct psd_place {
    int top, lock, above; /* above: DIR, for other tasks' directories */
    uint32_t task;
    char job[PS_JOB_BYTES_MAX + 1];
    char path[1024]; /* for texts */
};

/**
 * Open it, made 0700 where it is missing, DIR too (not what is above DIR), and lock it until close. Blocks: another process may
 * be about to end, its lock is waited for 5 s. who   for the lock's file: what another process is told. Errors: ALREADY_EXISTS
 * (another process has it: its text says which), PERMISSION_DENIED (somebody else's, others may write to it, read-only),
 * INVALID_ARGUMENT (a symbolic link, no directory), as psi_fail_errno(). Nothing is open then.
 */
PSI_MUST ps_status psd_place_open(struct psd_place *p, const char *dir, const char *job, uint32_t task, const char *who,
                                  struct psi_err *err);
void psd_place_close(struct psd_place *p);
/** The calls; fs->ctx is p. Any one thread at a time. */
void psd_place_fs(struct psd_place *p, struct psd_fs *fs);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The disk threads of one server carry out the core's operations (psd/disk.h), from effect DISK to psd_task_disk_done(): one at a
 * time, except that two READs next to each other in the queue run together.
 *
 * new -> start (loop) -> run ... -> close -> the loop has ended -> end. All functions are for the task's thread. */
#ifndef PSD_SHELL_DISK_H
#define PSD_SHELL_DISK_H

#include "psd/disk.h"
#include "psd/durable/fs.h"

#include <uv.h>

enum { PSD_DISK_DESCRIPTORS = PSD_DISK_BEGUN_MAX + 8 }; /* most descriptors that a disk has open */

struct psd_disk;

/** Called on the loop when operation `id` has ended, never from within psd_disk_run(). bytes: written by a LIST or READ to
 * its memory. error: NUL-terminated, unless st is PS_OK. */
typedef void (*psd_disk_over_fn)(void *ctx, uint64_t id, ps_status st, ps_reason reason, size_t bytes, const char *error);

/** Open and lock the task's directory below dir, and remove what is not whole in it. *out_disk: free with psd_disk_end().
 * Errors: those of psd_place_open() and psd_files_open(); RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psd_disk_new(const char *dir, const char *job, uint32_t task, const char *who, struct psd_disk **out_disk,
                                struct psi_err *err);
/** A disk on the caller's file system, which must stay valid until the threads have ended. Two threads may read at a time. */
PSI_MUST ps_status psd_disk_new_on(const struct psd_fs *fs, struct psd_disk **out_disk, struct psi_err *err);
/** Start the threads. Errors: RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psd_disk_start(struct psd_disk *d, uv_loop_t *loop, psd_disk_over_fn over, void *ctx, struct psi_err *err);
void psd_disk_run(struct psd_disk *d, const struct psd_disk_op *op);
/** From now on no queued operation begins, and the ends of operations are not reported. Idempotent; NULL is fine. */
void psd_disk_close(struct psd_disk *d);
/** Wait at most wait_ms for the operations that have begun, and free d. False: they have not ended in time. The threads are then
 * left behind. When the operations have ended, the last thread calls release(arg), gives up the directory and frees d. Until then
 * the memory of the operations must stay valid. True also for NULL, and for a disk that never started. */
PSI_MUST bool psd_disk_end(struct psd_disk *d, uint32_t wait_ms, void (*release)(void *arg), void *arg);

#endif

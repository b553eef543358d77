/* SPDX-License-Identifier: Apache-2.0 */
/* How handlers use the task's disk. psd/disk.h lists the operations. */
#ifndef PSD_BASE_DISK_H
#define PSD_BASE_DISK_H

#include "psd/task.h"

/** Called when an operation has ended; st, bytes and error as in psd_task_disk_done(). */
typedef void (*psd_disk_done_fn)(struct psd_task *t, void *ctx, ps_status st, size_t bytes, const char *error);
/** Order the operation op; sets op->id. done is called once, in a later event, unless the task ends before. After an error done
 * is not called. FAILED_PRECONDITION: the task has no directory on disk; RESOURCE_EXHAUSTED: PSD_DISK_OPS_MAX, memory. */
ps_status psd_disk_ask(struct psd_task *t, struct psd_disk_op *op, psd_disk_done_fn done, void *ctx,
                       struct psi_err *err) PSI_MUST;
void psd_disk_done(struct psd_task *t, uint64_t id, ps_status st, ps_reason reason, size_t bytes, const char *error);
void psd_disk_free_all(struct psd_task *t);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of what a task remembers as bytes, and the replay of these bytes into another task: tests compare a task with the fold
 * of its changes. Nothing of psd encodes a change today. A journal will; psd_task_consumer() and psd_change_reserve(), which a
 * journal needs as well, are in psd/store/commit.h.
 *
 * Encoded, a record is named by its session's id, a variable by its creation number, a task by job and index.
 */
#ifndef CHANGE_CODE_H
#define CHANGE_CODE_H

#include "psd/store/commit.h"

/** Append c, before it is committed, to out, padded to 8 bytes. */
ps_status psd_change_encode(const struct psd_change *c, struct psi_buf *out, struct psi_err *err) PSI_MUST;
/** Decode one change at *p (aligned to 8 bytes) and commit it in t, whose state must be that before the change; *p and *n
 * move behind it. DATA_LOSS: the bytes are no change, or not the next one of this task; RESOURCE_EXHAUSTED. */
ps_status psd_replay(struct psd_task *t, const uint8_t **p, size_t *n, struct psi_err *err) PSI_MUST;
/** psd_commit() can carry out c, which was decoded from any bytes. */
bool psd_change_fits(const struct psd_task *t, const struct psd_change *c);

#endif

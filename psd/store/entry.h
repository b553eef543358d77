/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of a state file: what a task remembers, thing by thing, as common/state_rows.h has it. psd_entry_put_...() write the
 * thing given. psd_entry_take_...() read one, and make it in the task with the memory that its creation would have reserved,
 * whatever its bytes say. Who is referred to comes before: a variable before the records that have begun something there, or
 * taken its elements. What is no thing of the task (head, file, sums, end) its reader and its writer have as it is.
 *
 * Failure: DATA_LOSS, RESOURCE_EXHAUSTED in k->st; then the task that is read is to be freed.
 */
#ifndef PSD_ENTRY_H
#define PSD_ENTRY_H

#include "commit.h"

#include "common/state_file.h"

void psd_entry_put_task(struct psi_code *k, const struct psd_task *t);
void psd_entry_put_container(struct psi_code *k, const struct psd_container *c);
/** file: where its value lies, 0: it has none. */
void psd_entry_put_variable(struct psi_code *k, const struct psd_variable *v, uint32_t file);
/** index: its place in the queue, from 0 on; of an item that is done any. */
void psd_entry_put_element(struct psi_code *k, const struct psd_variable *v, const struct psd_element *e, uint64_t index,
                           bool done);
/** Attempts at queues that are gone are left out, and pushes to containers of sessions. */
void psd_entry_put_record(struct psi_code *k, const struct psd_record *r);
/** t: whose peers owners are. */
void psd_entry_put_name(struct psi_code *k, const struct psd_task *t, const struct psd_name *n);
void psd_entry_put_chief(struct psi_code *k, const struct psd_chief *c);
void psd_entry_put_reset(struct psi_code *k, const struct psd_task *t, const struct psd_reset *r);

/** The variable that was read, and the file of its value; NULL: it was wrong. With a value psd_entry_value() is to follow. */
const struct psd_variable *psd_entry_take_variable(struct psi_code *k, struct psd_task *t, uint32_t *out_file);
/** Memory for its value and its slots, to be filled. RESOURCE_EXHAUSTED. */
ps_status psd_entry_value(struct psd_store *s, const struct psd_variable *v, struct psi_err *err) PSI_MUST;
/** Any other thing of the task. Names and resets of tasks that its cluster does not have any more are read, and left out: nobody
 * lists them. */
void psd_entry_take(struct psi_code *k, struct psd_task *t, enum psi_state_kind kind);
/** All of a task is read: what it says of its queues fits what is in them. */
void psd_entry_complete(struct psi_code *k, const struct psd_task *t);

#endif

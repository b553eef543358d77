/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of a state file: what a task remembers, thing by thing, in the layout of common/state_rows.h. psd_entry_put_...() write
 * a thing. psd_entry_take_...() read one and make it in the task, within the memory that its creation would have reserved,
 * whatever its bytes say. An entry comes after the entries that it refers to: a record after the variables that it pushes to or
 * has elements of. Head, file, sums and end are no things of the task; cut_write.c and load.c handle them.
 *
 * Failure: DATA_LOSS, RESOURCE_EXHAUSTED in k->st; the task that is being read must then be freed.
 */
#ifndef PSD_ENTRY_H
#define PSD_ENTRY_H

#include "commit.h"

#include "common/state_file.h"

void psd_entry_put_task(struct psi_code *k, const struct psd_task *t);
void psd_entry_put_container(struct psi_code *k, const struct psd_container *c);
/** file: the file that has its value; 0: no value. */
void psd_entry_put_variable(struct psi_code *k, const struct psd_variable *v, uint32_t file);
/** index: its place in the queue, from 0 on; any for an item that is done. */
void psd_entry_put_element(struct psi_code *k, const struct psd_variable *v, const struct psd_element *e, uint64_t index,
                           bool done);
/** Write a record, without attempts at dropped queues and without pushes to containers of sessions. */
void psd_entry_put_record(struct psi_code *k, const struct psd_record *r);
/** t: the task of the directory, whose peers own the names. */
void psd_entry_put_name(struct psi_code *k, const struct psd_task *t, const struct psd_name *n);
void psd_entry_put_chief(struct psi_code *k, const struct psd_chief *c);
void psd_entry_put_reset(struct psi_code *k, const struct psd_task *t, const struct psd_reset *r);

/** Read a variable; *out_file: the file of its value. NULL: the entry is wrong. If it has a value, call psd_entry_value() next.
 */
const struct psd_variable *psd_entry_take_variable(struct psi_code *k, struct psd_task *t, uint32_t *out_file);
/** Allocate its value and slots, to be filled. RESOURCE_EXHAUSTED. */
ps_status psd_entry_value(struct psd_store *s, const struct psd_variable *v, struct psi_err *err) PSI_MUST;
/** Read any other thing of the task. Names and resets of tasks that the cluster no longer has are left out, because those tasks
 * never list. */
void psd_entry_take(struct psi_code *k, struct psd_task *t, enum psi_state_kind kind);
/** After the last entry: check that the counts of the queues match their elements. */
void psd_entry_complete(struct psi_code *k, const struct psd_task *t);

#endif

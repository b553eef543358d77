/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of a state file. Each entry has one object that a task remembers, in the layout of common/state_rows.h.
 * psd_entry_put_...() write an object. psd_entry_take_...() read an object and add it to the task, with the memory that a change
 * would have reserved for it. An entry comes after the entries that it refers to: a record after the variables that it pushes to
 * and the queues that it has elements of. cut.c and load.c handle the other entries: HEAD, FILE, SUMS and END.
 *
 * Failure: DATA_LOSS, RESOURCE_EXHAUSTED in k->st; the task that is being read must then be freed. */
#ifndef PSD_ENTRY_H
#define PSD_ENTRY_H

#include "commit.h"

#include "common/state_file.h"

void psd_entry_put_task(struct psi_code *k, const struct psd_task *t);
void psd_entry_put_container(struct psi_code *k, const struct psd_container *c);
/** Write v. file: index (from 1) of the file that has v's value; 0: v has no value. */
void psd_entry_put_variable(struct psi_code *k, const struct psd_variable *v, uint32_t file);
/** Write e, an element of the queue v. index: position of e in the queue, from 0. done: e is a done item, and has no position. */
void psd_entry_put_element(struct psi_code *k, const struct psd_variable *v, const struct psd_element *e, uint64_t index,
                           bool done);
/** Write the record of a session, without requests to dropped queues, and without pushes to containers that no checkpoint has. */
void psd_entry_put_record(struct psi_code *k, const struct psd_record *r);
/** Write n, a name of the directory's table. t: the directory's own task, among whose peers is n's owner. */
void psd_entry_put_name(struct psi_code *k, const struct psd_task *t, const struct psd_name *n);
void psd_entry_put_chief(struct psi_code *k, const struct psd_chief *c);
void psd_entry_put_reset(struct psi_code *k, const struct psd_task *t, const struct psd_reset *r);

/** Read a variable. *out_file: index of the file of its value, and psd_entry_value() must follow; 0: no value. NULL: k failed. */
const struct psd_variable *psd_entry_take_variable(struct psi_code *k, struct psd_task *t, uint32_t *out_file);
/** Allocate value and slots of v, to be filled. RESOURCE_EXHAUSTED. */
ps_status psd_entry_value(struct psd_store *s, const struct psd_variable *v, struct psi_err *err) PSI_MUST;
/** Read an entry of any other kind into t. Names and resets of tasks that have left the cluster are skipped. */
void psd_entry_take(struct psi_code *k, struct psd_task *t, enum psi_state_kind kind);
/** Call after the last entry: checks that each queue has as many elements as its entry says, and the rows that are staged. */
void psd_entry_complete(struct psi_code *k, const struct psd_task *t);

#endif

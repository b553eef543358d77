/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of this task: created, dropped, and emptied container by container. */
#ifndef PSD_OWNER_H
#define PSD_OWNER_H

#include "psd/base/base.h"

/* ---- variable.c ---- */
/** Create the variable or queue that item defines, on this task. Sets item->created; false: an equal one existed already. */
ps_status psd_create_here(struct psd_task *t, struct psd_create *item, struct psi_err *err) PSI_MUST;
void psd_drop_here(struct psd_task *t, const struct psd_variable *v);
/** Reset a container at once, even a large one; the caller logs it. Large ones are emptied by psd_emptying_begin() before, unless
 * a loaded checkpoint replaces the container, all containers are dropped, or memory is short. False: no such container. */
bool psd_reset_here(struct psd_task *t, const char *container);
/** Log that a container was reset. peer: the name of the client that asked. */
void psd_reset_log(struct psd_task *t, const char *container, const char *peer);

/* ---- emptying.c: a reset container is emptied in slices ---- */
/** Called when the container is empty, with id (of the request to answer; 0: nobody waits) and bar (newest checkpoint that must
 * not bring the old content back) as given to psd_emptying_begin(). */
typedef void (*psd_emptied_fn)(struct psd_task *t, const char *container, uint64_t id, uint64_t bar);
/** Reset the container, and call `done` when it is empty; if there is little to drop, before this function returns. From now on
 * requests find nothing in the container, its unfinished pushes have ended, and psd_create_here() refuses until it is empty. */
void psd_emptying_begin(struct psd_task *t, const char *container, psd_emptied_fn done, uint64_t id, uint64_t bar);
bool psd_emptying_has_work(const struct psd_task *t);
/** Drop the next psd_task_config.reset_slice_names variables of the container that was reset first. */
void psd_emptying_work(struct psd_task *t);
/** Call when psd_reset_here() has emptied a container that was being emptied in slices: only `done` is still to be called. */
void psd_emptying_overtaken(struct psd_task *t, const struct psd_container *in);
/** Call when the connection to the directory is lost: nobody waits for an answer any more, so each `done` will get id 0. */
void psd_emptying_directory_lost(struct psd_task *t);
void psd_emptying_fini(struct psd_task *t);

#endif

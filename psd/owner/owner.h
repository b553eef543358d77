/* SPDX-License-Identifier: Apache-2.0 */
/* Variables at their owner: created, dropped, and emptied container by container. */
#ifndef PSD_OWNER_H
#define PSD_OWNER_H

#include "psd/base/base.h"

/* ---- variable.c ---- */
/** Create the variable or queue that item defines, on this task. Sets item->created; false: it existed, with equal definition. */
ps_status psd_create_here(struct psd_task *t, struct psd_create *item, struct psi_err *err) PSI_MUST;
void psd_drop_here(struct psd_task *t, const struct psd_variable *v);
/** Reset a container at once, however large; the caller logs that. Usually psd_emptying_begin() empties a large one before, but
 * not if a loaded checkpoint replaces it, all containers are dropped, or memory is short. False: there is no such container. */
bool psd_reset_here(struct psd_task *t, const char *container);
/** Log that a container was reset. peer: the name of the client that asked. */
void psd_reset_log(struct psd_task *t, const char *container, const char *peer);

/* ---- emptying.c: a reset container is emptied in slices ---- */
/** Called when the container is empty. id (of the request to be answered) and bar: as given to psd_emptying_begin(). id 0: nobody
 * waits for an answer. */
typedef void (*psd_emptied_fn)(struct psd_task *t, const char *container, uint64_t id, uint64_t bar);
/** Reset the container, and call `done` when it is empty: before this function returns, if there is little to drop. From now on
 * requests find nothing in the container, its unfinished pushes have ended, and psd_create_here() refuses until it is empty. */
void psd_emptying_begin(struct psd_task *t, const char *container, psd_emptied_fn done, uint64_t id, uint64_t bar);
bool psd_emptying_has_work(const struct psd_task *t);
/** Drop the next psd_task_config.reset_slice_names variables of the container that was reset first. */
void psd_emptying_work(struct psd_task *t);
/** Call when psd_reset_here() has emptied the container at once: no slice is left, only `done` is to be called. */
void psd_emptying_overtaken(struct psd_task *t, const struct psd_container *in);
/** Call when the connection to the directory is lost: nobody waits for answers any more, so each `done` gets id 0. */
void psd_emptying_directory_lost(struct psd_task *t);
void psd_emptying_fini(struct psd_task *t);

#endif

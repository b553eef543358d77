/* SPDX-License-Identifier: Apache-2.0 */
/* Variables at their owner: created, dropped, and emptied container by container. */
#ifndef PSD_OWNER_H
#define PSD_OWNER_H

#include "psd/base/base.h"

/* ---- variable.c ---- */
/** Create the variable here, or find it with an equal definition; item->created says which. */
ps_status psd_create_here(struct psd_task *t, struct psd_create *item, struct psi_err *err) PSI_MUST;
void psd_drop_here(struct psd_task *t, const struct psd_variable *v);
/** Empty a container within this event: a small one, or one that something replaces in the same event. The caller logs it with
 * the name of who asked. False: there is no such container. */
bool psd_reset_here(struct psd_task *t, const char *container);
/** Log that a container was emptied. peer: who asked for it; borrows. */
void psd_reset_log(struct psd_task *t, const char *container, const char *peer);

/* ---- emptying.c: a container that is reset is emptied in slices ---- */
/** Called when the container is empty. id and bar: as given to psd_emptying_begin(); id 0: whoever asked has gone. */
typedef void (*psd_emptied_fn)(struct psd_task *t, const char *container, uint64_t id, uint64_t bar);
/** Empty the container, then call done once, within this event if there is little to drop. From now on requests find nothing in
 * it, what is in progress to it has ended, and psd_create_here() is refused until it is empty. */
void psd_emptying_begin(struct psd_task *t, const char *container, psd_emptied_fn done, uint64_t id, uint64_t bar);
bool psd_emptying_has_work(const struct psd_task *t);
/** Drop the next psd_task_config.reset_slice_names variables of the oldest container. */
void psd_emptying_work(struct psd_task *t);
/** psd_reset_here() has emptied the container at once: only `done` remains to be called. */
void psd_emptying_overtaken(struct psd_task *t, const struct psd_container *in);
/** The connection to the directory is lost: nobody waits for the answers. */
void psd_emptying_directory_lost(struct psd_task *t);
void psd_emptying_fini(struct psd_task *t);

#endif

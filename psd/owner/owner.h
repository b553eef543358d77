/* SPDX-License-Identifier: Apache-2.0 */
/* Variables at their owner: made, dropped, and emptied container by container. */
#ifndef PSD_OWNER_H
#define PSD_OWNER_H

#include "psd/base/base.h"

/* ---- variable.c ---- */
/** Local create: make it or find it with the same definition; item->created says which. */
ps_status psd_create_here(struct psd_task *t, struct psd_create *item, struct psi_err *err) PSI_MUST;
void psd_drop_here(struct psd_task *t, const struct psd_variable *v);
/** Empty a container in this event: for what comes in its place in the same event, and for a small one. The caller logs it, with
 * who asked. False: there is no such container, nothing was done. */
bool psd_reset_here(struct psd_task *t, const char *container);
/** Log that a container was emptied. peer: who asked for that, borrows. */
void psd_reset_log(struct psd_task *t, const char *container, const char *peer);

/* ---- emptying.c: a container that is reset is emptied in slices ---- */
/** The container is empty. id and bar: as given to psd_emptying_begin(); id 0: whoever asked is gone. */
typedef void (*psd_emptied_fn)(struct psd_task *t, const char *container, uint64_t id, uint64_t bar);
/** Empty the container, and then call done: once, in this event where there is little to drop. From now on no request finds what
 * is in it, what is in progress to it has ended, and psd_create_here() is refused until it is empty. */
void psd_emptying_begin(struct psd_task *t, const char *container, psd_emptied_fn done, uint64_t id, uint64_t bar);
bool psd_emptying_has_work(const struct psd_task *t);
/** Drop psd_task_config.reset_slice_names of the oldest. */
void psd_emptying_work(struct psd_task *t);
/** psd_reset_here() empties it at once: what is left for the slices is to tell. */
void psd_emptying_overtaken(struct psd_task *t, const struct psd_container *in);
/** The connection to the directory is lost: nobody hears the answers. */
void psd_emptying_directory_lost(struct psd_task *t);
void psd_emptying_fini(struct psd_task *t);

#endif

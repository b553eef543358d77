/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other tasks of the job have written, where their directories lie beside ours (docs/DURABILITY.md §8): their parts of
 * checkpoints, which this task offers to load where the writer is no more, and their bars, which hold here, too. As they were
 * when the task began. They are only read.
 */
#ifndef PSD_RPC_OTHERS_H
#define PSD_RPC_OTHERS_H

#include "bars.h"

enum { PSD_OTHERS_MAX = 1 << 16 /* parts of a task; the rest is not looked at */ };

struct psd_other {
    /* volatile: */
    uint64_t number; /* of the checkpoint */
    uint32_t writer; /* 1 + its index */
    bool state;
};

/* The file `bars` of one of them. */
struct psd_others_bars {
    /* volatile: */
    uint64_t bytes;
    uint32_t writer;
};

struct psd_others {
    /* volatile: */
    struct psd_other *parts; /* by writer, then by number */
    size_t count, capacity;
    struct psd_others_bars *files;
    size_t file_count, file_capacity, file_at; /* at: that is read next */
    struct psd_bars bars;                      /* what is in them, of all */
    psd_bars_fn done;
};

void psd_others_init(struct psd_task *t, struct psd_others *o);
void psd_others_fini(struct psd_others *o);
/** An entry of our disk's list that is another task's. False: no memory. */
bool psd_others_list(struct psd_task *t, const struct psd_disk_entry *e) PSI_MUST;
/** All are listed: their bars are read, then done is called, maybe at once. Whose bars cannot be read, of that nothing is
 * offered. */
void psd_others_read(struct psd_task *t, psd_bars_fn done);
/** This task can load what `writer` (1 + its index) has written of it. */
bool psd_others_has(const struct psd_task *t, uint64_t number, uint32_t writer);
/** The oldest checkpoint that there is a part of; UINT64_MAX: there is none. */
uint64_t psd_others_oldest(const struct psd_task *t);
/** A part that can be loaded and whose writer is no task of the job; NULL: there is none. */
const struct psd_other *psd_others_orphan(const struct psd_task *t);
/** A variable was deleted, as another task has noted it, and checkpoints up to number do not bring it back. RESOURCE_EXHAUSTED.
 */
ps_status psd_others_gone(struct psd_task *t, const char *container, const char *name, uint64_t number,
                          struct psi_err *err) PSI_MUST;
/** Such a one, ours or another's, behind `behind`; NULL: from the first on, and: there is none. */
const struct psd_bar *psd_others_next_gone(const struct psd_task *t, const struct psd_bar *behind);
/** In our own list: what is offered, and all that was deleted. */
void psd_others_list_add(const struct psd_task *t, struct psd_list *l);

#endif

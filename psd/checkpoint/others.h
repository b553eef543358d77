/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other tasks of the job have written, where their directories lie beside ours (docs/DURABILITY.md §8). This task offers to
 * load their parts of checkpoints where the writer is gone. Their bars hold here, too. Files of other tasks are listed once, when
 * this task begins, and are never written.
 */
#ifndef PSD_RPC_OTHERS_H
#define PSD_RPC_OTHERS_H

#include "bars.h"

enum { PSD_OTHERS_MAX = 1 << 16 /* parts of a task; the rest is not looked at */ };

struct psd_other {
    /* volatile: */
    uint64_t number; /* of the checkpoint */
    uint32_t writer; /* 1 + index of the task that wrote the part */
    bool state;      /* the part has its state file; without it the part cannot be loaded */
};

/* The file `bars` of another task. */
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
    size_t file_count, file_capacity, file_at; /* file_at: index of the file that is read next */
    struct psd_bars bars;                      /* the bars of all these files */
    psd_bars_fn done;                          /* called when all files are read */
};

void psd_others_init(struct psd_task *t, struct psd_others *o);
void psd_others_fini(struct psd_others *o);
/** Note an entry of our disk's list that is a file of another task. False: no memory. */
bool psd_others_list(struct psd_task *t, const struct psd_disk_entry *e) PSI_MUST;
/** The disk's list is complete: read the bars of the other tasks, and then call done, maybe at once. Nothing of a task whose bars
 * cannot be read is offered. */
void psd_others_read(struct psd_task *t, psd_bars_fn done);
/** This task can load the part of checkpoint `number` that `writer` (1 + its index) has written. */
bool psd_others_has(const struct psd_task *t, uint64_t number, uint32_t writer);
/** The oldest checkpoint of which another task's part is here; UINT64_MAX: no such part is here. */
uint64_t psd_others_oldest(const struct psd_task *t);
/** A part that can be loaded and whose writer is no task of the job; NULL: there is none. */
const struct psd_other *psd_others_orphan(const struct psd_task *t);
/** Note what another task has said: the variable was deleted, and checkpoints up to number do not bring it back.
 * RESOURCE_EXHAUSTED. */
ps_status psd_others_gone(struct psd_task *t, const char *container, const char *name, uint64_t number,
                          struct psi_err *err) PSI_MUST;
/** The next bar of a deleted variable behind this bar, first among our own, then among other tasks'. behind NULL: search from the
 * first bar. Returns NULL where there is none. */
const struct psd_bar *psd_others_next_gone(const struct psd_task *t, const struct psd_bar *behind);
/** Add to this task's list the bars of deleted variables, and the parts that it offers to load. */
void psd_others_list_add(const struct psd_task *t, struct psd_list *l);

#endif

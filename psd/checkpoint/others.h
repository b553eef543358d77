/* SPDX-License-Identifier: Apache-2.0 */
/* Files of other tasks of the job, if their directories on disk lie beside this task's (docs/DURABILITY.md §8). This task offers
 * to load their parts of checkpoints; the directory takes the offer if the writer is gone or lacks the part. Their files `bars`
 * are obeyed here too. This task only reads files of other tasks, and looks for them once, when it begins. */
#ifndef PSD_RPC_OTHERS_H
#define PSD_RPC_OTHERS_H

#include "bars.h"

enum { PSD_OTHERS_MAX = 1 << 16 /* most parts that are noted; further parts are not offered to the directory */ };

struct psd_other {
    uint64_t number;
    uint32_t writer; /* 1 + index of the task that wrote the part */
    bool state;      /* the part has its state file; without it the part cannot be loaded */
};

/* A file `bars` that another task has written: which checkpoints must not bring back which container (bars.h). */
struct psd_others_bars {
    uint64_t bytes;  /* size of the file */
    uint32_t writer; /* 1 + index of the task that wrote the file */
};

struct psd_others {
    struct psd_other *parts; /* sorted by writer, then by number */
    size_t count, capacity;
    struct psd_others_bars *files;
    size_t file_count, file_capacity, file_at; /* file_at: index of the file that is read next */
    struct psd_bars bars;
    psd_bars_fn done; /* called when all files are read */
};

void psd_others_init(struct psd_task *t, struct psd_others *o);
void psd_others_fini(struct psd_others *o);
/** Note a file of another task, which the disk has found. False: no memory. */
bool psd_others_list(struct psd_task *t, const struct psd_disk_entry *e) PSI_MUST;
/** Call when all files on disk are known: reads the bars of other tasks, then calls done, maybe before this function returns. */
void psd_others_read(struct psd_task *t, psd_bars_fn done);
/** True if this task can load the part of checkpoint `number` that `writer` (1 + its index) has written. */
bool psd_others_has(const struct psd_task *t, uint64_t number, uint32_t writer);
/** The oldest checkpoint of which this disk has another task's part; UINT64_MAX: it has no such part. */
uint64_t psd_others_oldest(const struct psd_task *t);
/** Find a part that can be loaded and whose writer is no task of the job. NULL: there is none. */
const struct psd_other *psd_others_orphan(const struct psd_task *t);
/** Note what another task has reported: checkpoints up to `number` must not bring this variable back. RESOURCE_EXHAUSTED. */
ps_status psd_others_gone(struct psd_task *t, const char *container, const char *name, uint64_t number,
                          struct psi_err *err) PSI_MUST;
/** The next bar of a deleted variable after `behind` (NULL: the first): this task's bars, then other tasks'. NULL: no more. */
const struct psd_bar *psd_others_next_gone(const struct psd_task *t, const struct psd_bar *behind);
/** Add to this task's report to the directory (its list) the bars of deleted variables, and the parts that it offers to load. */
void psd_others_list_add(const struct psd_task *t, struct psd_list *l);

#endif

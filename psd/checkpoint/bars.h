/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bars: what may not come back out of a checkpoint (DESIGN §9, docs/DURABILITY.md §6). The bar of a container that was reset, or
 * of a variable that was deleted, has the number of the last checkpoint that may hold the old content. Checkpoints up to that
 * number do not bring the content back. All bars of a task are in the file `bars` of its directory. The file is written anew
 * whenever a bar changes. Whoever asked for the change is answered when the file is on disk.
 */
#ifndef PSD_RPC_BARS_H
#define PSD_RPC_BARS_H

#include "psd/base/base.h"
#include "psd/base/disk.h"

enum {
    PSD_BARS_BYTES_MAX = 64 << 20,
    PSD_BARS_NAMES_MAX = 4096 /* bars of deleted variables; for one more, the oldest bars of a container become one bar of it */
};

/** The bars are on disk (err NULL), or the disk has failed. The bars in memory stay, and are written again until they are on
 * disk. err->applied: PS_NOTHING_APPLIED: the file is the one before; PS_OUTCOME_UNKNOWN: a reader may find either file. */
typedef void (*psd_bars_fn)(struct psd_task *t, void *ctx, uint64_t id, const struct psi_err *err);

struct psd_bar {
    /* volatile: */
    struct psi_list link;                       /* of psd_bars */
    uint64_t number;                            /* checkpoints up to this number are barred */
    bool open;                                  /* directory: the reset of the container is not over */
    char container[PS_CONTAINER_BYTES_MAX + 1]; /* "": directory: the bar is psd_loader_anew() */
    char name[PS_NAME_BYTES_MAX + 1];           /* name of the deleted variable; "": the bar is one of the container */
};

/* bytes of the memory budget for a bar and its entry of the map; a bar is counted, and never refused for the budget */
enum { PSD_BAR_BYTES = (sizeof(struct psd_bar) + 8 + 15) / 16 * 16 + PSI_MAP_ENTRY_BYTES };

struct psd_bars {
    /* volatile: */
    struct psd_store *store; /* of the task: counts the bars */
    struct psi_list all;     /* struct psd_bar */
    struct psi_map by_names; /* container, NUL, name -> struct psd_bar */
    uint32_t names;          /* how many of the bars are of variables */
    uint64_t version;        /* version in memory: counts changes */
    uint64_t written;        /* version on disk */
    uint64_t asked;          /* version that is on its way to the disk; 0: none is */
    uint32_t ops;
    uint64_t again_ms;      /* after a failure: time of the next attempt to write */
    struct psi_err err;     /* first failure of the write under way */
    struct psi_buf file;    /* content of the file that is being written or read */
    struct psi_list askers; /* calls that wait for a version to be on disk, the oldest version first */
};

/** The first: b has no bar. The second: calls that wait in b are not answered. */
void psd_bars_init(struct psd_task *t, struct psd_bars *b);
void psd_bars_fini(struct psd_bars *b);
/** Read the bars of a file of `bytes` bytes into b. writer 0: the file is ours; else 1 + index of the task that wrote it
 * (psd_disk_file.writer). A bar that b has already keeps the higher number. done is called when the file is read, or cannot be
 * read. One file at a time. On errors done is not called: DATA_LOSS (the file is too long), and those of psd_disk_ask(). */
ps_status psd_bars_read(struct psd_task *t, struct psd_bars *b, uint32_t writer, uint64_t bytes, psd_bars_fn done,
                        struct psi_err *err) PSI_MUST;
/** Our own bar of a container, on disk or on its way there. NULL: the container has none. */
const struct psd_bar *psd_bars_find(const struct psd_task *t, const char *container);
/** Checkpoints of the container up to this number are barred: the higher of our own number and of that in the files of other
 * tasks (others.h). 0: the container has no bar. */
uint64_t psd_bars_number(const struct psd_task *t, const char *container);
/** The next bar of an open reset behind this bar. behind NULL: search from the first bar. Returns NULL where there is none. */
const struct psd_bar *psd_bars_next_open(const struct psd_task *t, const struct psd_bar *behind);
/** Set our own bar of a container to exactly this number, lower or higher than before; number 0 removes the bar. The file is
 * written by the next psd_bars_wait() or psd_bars_tick(). RESOURCE_EXHAUSTED: nothing has changed. */
ps_status psd_bars_set(struct psd_task *t, const char *container, uint64_t number, bool open, struct psi_err *err) PSI_MUST;
/** Raise the bar of a name in b to this number, if it is lower. name "": the container. The file is not written for that.
 * RESOURCE_EXHAUSTED. */
ps_status psd_bars_note(struct psd_task *t, struct psd_bars *b, const char *container, const char *name, uint64_t number,
                        struct psi_err *err) PSI_MUST;
/** Note that the variable was deleted: no checkpoint up to the highest number that this task has heard of brings it back. The
 * file is written as by psd_bars_set(). RESOURCE_EXHAUSTED: nothing is noted, because memory or room for another name is missing.
 */
ps_status psd_bars_delete(struct psd_task *t, const char *container, const char *name, struct psi_err *err) PSI_MUST;
/** The bars in memory are newer than the file on disk. */
bool psd_bars_pending(const struct psd_task *t);
/** Call done, with ctx and id, when every bar that was set so far is on disk, or when the disk has failed. done is called later,
 * never within this call. Only while psd_bars_pending(). RESOURCE_EXHAUSTED: done is not called. */
ps_status psd_bars_wait(struct psd_task *t, psd_bars_fn done, void *ctx, uint64_t id, struct psi_err *err) PSI_MUST;
/** The connection to the directory is gone: calls that wait for the disk get id 0, because their requests have no reply. */
void psd_bars_directory_lost(struct psd_task *t);
/** Checkpoint `number` may not bring the variable back: our own bars, or those of other tasks (others.h), say that it was deleted
 * since. */
bool psd_bars_deleted(const struct psd_task *t, const char *container, const char *name, uint64_t number);
/** The next of our own bars, behind this one, that is of a deleted variable. behind NULL: search from the first bar. Returns NULL
 * where there is none. */
const struct psd_bar *psd_bars_next_deleted(const struct psd_task *t, const struct psd_bar *behind);
void psd_bars_tick(struct psd_task *t);
void psd_bars_check_invariants(const struct psd_task *t);

#endif

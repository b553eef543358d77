/* SPDX-License-Identifier: Apache-2.0 */
/* Bars say what a load must not bring back out of a checkpoint (docs/DURABILITY.md §6). The bar of a container that was reset, or
 * of a variable that was deleted, has the number of the last checkpoint that may hold the old content: checkpoints up to that
 * number do not bring the content back. All bars of a task are in its file `bars`, which is written anew after a change. */
#ifndef PSD_RPC_BARS_H
#define PSD_RPC_BARS_H

#include "psd/base/base.h"
#include "psd/base/disk.h"

enum {
    PSD_BARS_BYTES_MAX = 64 << 20,
    PSD_BARS_NAMES_MAX = 4096 /* most bars of deleted variables; for a further one psd_bars_delete() merges bars */
};

/** Tells the outcome of psd_bars_read() or psd_bars_wait(). err NULL: the file is read, or the bars are on disk. After a failed
 * write the bars stay in memory, and the write is repeated. err->applied then says which file the disk has: the older one
 * (PS_NOTHING_APPLIED), or the older or the new one (PS_OUTCOME_UNKNOWN). */
typedef void (*psd_bars_fn)(struct psd_task *t, void *ctx, uint64_t id, const struct psi_err *err);

struct psd_bar {
    struct psi_list link;
    uint64_t number; /* checkpoints up to this number must not bring the content back */
    bool open;       /* only at the directory: the container is being reset */
    /* container that was reset, or that the variable was in; "": the bound of psd_loader_anew() (directory only) */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char name[PS_NAME_BYTES_MAX + 1]; /* name of the deleted variable; "": the bar is of the whole container */
};

/* bytes that the memory budget counts for a bar and its map entry; the budget never refuses a bar */
enum { PSD_BAR_BYTES = (sizeof(struct psd_bar) + 8 + 15) / 16 * 16 + PSI_MAP_ENTRY_BYTES };

struct psd_bars {
    struct psd_store *store; /* store of the task; its budget counts the bars */
    struct psi_list all;     /* struct psd_bar.link */
    struct psi_map by_names; /* container, NUL, name -> struct psd_bar */
    uint32_t names;          /* number of bars of deleted variables in `all` */
    uint64_t version;        /* counts the changes of the bars in memory */
    uint64_t written;        /* version on disk */
    uint64_t asked;          /* version that is on its way to the disk; 0: none */
    uint32_t ops;            /* disk operations under way for the version `asked` */
    uint64_t again_ms;       /* after a failure: time of the next attempt to write */
    struct psi_err err;      /* first failure of the write under way */
    struct psi_buf file;     /* content of the file that is being written or read */
    struct psi_list askers;  /* struct asker (bars.c): callers that wait until a version is on disk, the oldest version first */
};

/** Make b empty. psd_bars_fini() frees the bars, and drops waiting done functions without a call. */
void psd_bars_init(struct psd_task *t, struct psd_bars *b);
void psd_bars_fini(struct psd_bars *b);
/** Read a file of `bytes` bytes that has bars, and add them to b. writer: 1 + index of the task that wrote the file; 0: this
 * task. Of two bars for one name the higher number stays. One file at a time. done is called when the file is read or cannot
 * be read, but not after an error of this call: DATA_LOSS (the file is too long), and those of psd_disk_ask(). */
ps_status psd_bars_read(struct psd_task *t, struct psd_bars *b, uint32_t writer, uint64_t bytes, psd_bars_fn done,
                        struct psi_err *err) PSI_MUST;
/** This task's bar of a container, in memory: it may not be on disk yet. NULL: the container has none. */
const struct psd_bar *psd_bars_find(const struct psd_task *t, const char *container);
/** The newest checkpoint that must not bring the container back: the highest number of all tasks' bars of it. 0: no bar. */
uint64_t psd_bars_number(const struct psd_task *t, const char *container);
/** The next bar of an unfinished reset after `behind`; behind NULL: the first such bar. Returns NULL after the last. */
const struct psd_bar *psd_bars_next_open(const struct psd_task *t, const struct psd_bar *behind);
/** Set this task's bar of a container to exactly this number, lower or higher than before; 0 removes the bar. The file is
 * written by the next psd_bars_wait() or psd_bars_tick(). RESOURCE_EXHAUSTED: nothing has changed. */
ps_status psd_bars_set(struct psd_task *t, const char *container, uint64_t number, bool open, struct psi_err *err) PSI_MUST;
/** Raise the variable's bar in b (name "": the container's) to `number`, if it is lower; only in memory. RESOURCE_EXHAUSTED. */
ps_status psd_bars_note(struct psd_task *t, struct psd_bars *b, const char *container, const char *name, uint64_t number,
                        struct psi_err *err) PSI_MUST;
/** Note that the variable was deleted: no checkpoint up to the highest number that this task has heard of brings it back. If
 * there are PSD_BARS_NAMES_MAX such bars already, the oldest of this container become one bar of the whole container. The file
 * is written as after psd_bars_set(). RESOURCE_EXHAUSTED: no memory, or no bars can be merged; nothing is noted. */
ps_status psd_bars_delete(struct psd_task *t, const char *container, const char *name, struct psi_err *err) PSI_MUST;
/** True if the bars in memory are newer than the file on disk. */
bool psd_bars_pending(const struct psd_task *t);
/** Call done, with ctx and id, when every bar that was set so far is on disk, or when the disk has failed. done is called later,
 * never within this call. Only while psd_bars_pending(). RESOURCE_EXHAUSTED: done is not called. */
ps_status psd_bars_wait(struct psd_task *t, psd_bars_fn done, void *ctx, uint64_t id, struct psi_err *err) PSI_MUST;
/** Call when the connection to the directory is lost: done functions that wait will get id 0, and answer nobody. */
void psd_bars_directory_lost(struct psd_task *t);
/** True if a bar of any task says that the variable was deleted after checkpoint `number` was made. */
bool psd_bars_deleted(const struct psd_task *t, const char *container, const char *name, uint64_t number);
/** The next of this task's bars of deleted variables after `behind`; behind NULL: the first one. Returns NULL after the last. */
const struct psd_bar *psd_bars_next_deleted(const struct psd_task *t, const struct psd_bar *behind);
void psd_bars_tick(struct psd_task *t);
void psd_bars_check_invariants(const struct psd_task *t);

#endif

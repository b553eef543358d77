/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may not come back out of a checkpoint (DESIGN §9, docs/DURABILITY.md §6): a container that was reset is barred up to the
 * number of the last checkpoint that has it as it was, and so is a variable that was deleted. It is in the file `bars` of the
 * task's directory, written anew whenever it changes: who asked for the change is answered when it is on disk.
 */
#ifndef PSD_RPC_BARS_H
#define PSD_RPC_BARS_H

#include "psd/base/base.h"
#include "psd/base/disk.h"

enum {
    PSD_BARS_BYTES_MAX = 64 << 20,
    PSD_BARS_NAMES_MAX = 4096 /* variables that were deleted; one more bars the container up to the oldest of these */
};

/** The bars are on disk (err NULL), or the disk has failed. What is in memory stays, and is written again until it is on disk.
 * err->applied: PS_NOTHING_APPLIED: the file is the one before; PS_OUTCOME_UNKNOWN: a reader may find either file. */
typedef void (*psd_bars_fn)(struct psd_task *t, void *ctx, uint64_t id, const struct psi_err *err);

struct psd_bar {
    /* volatile: */
    struct psi_list link; /* of psd_bars */
    uint64_t number;
    bool open;                                  /* directory: a reset that is not over */
    char container[PS_CONTAINER_BYTES_MAX + 1]; /* "": directory: of all, beside what lives (loader.h) */
    char name[PS_NAME_BYTES_MAX + 1];           /* "": the container */
};

/* what a bar takes of the memory budget, with its entry of the map; a bar is counted, and never refused for the budget */
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
    uint64_t again_ms; /* after a failure */
    struct psi_err err;
    struct psi_buf file;    /* that is written or read */
    struct psi_list askers; /* who waits for a version, the oldest first */
};

/** None; psd_bars_fini() answers nobody. */
void psd_bars_init(struct psd_task *t, struct psd_bars *b);
void psd_bars_fini(struct psd_bars *b);
/** Into b, of a file of so many bytes, ours or another task's (psd_disk_file.writer): done when they are read. What b has of the
 * same name stays if it is higher. Errors, and done never: as psd_disk_ask(), DATA_LOSS. One file at a time. */
ps_status psd_bars_read(struct psd_task *t, struct psd_bars *b, uint32_t writer, uint64_t bytes, psd_bars_fn done,
                        struct psi_err *err) PSI_MUST;
/** The bar of a container that our disk has noted; NULL: it has none. */
const struct psd_bar *psd_bars_find(const struct psd_task *t, const char *container);
/** Its number, as our disk or one of those beside it (others.h) has it; 0: none has. */
uint64_t psd_bars_number(const struct psd_task *t, const char *container);
/** The open one behind that; NULL: from the first on, and: there is none. */
const struct psd_bar *psd_bars_next_open(const struct psd_task *t, const struct psd_bar *behind);
/** It is this, exactly; 0: there is none. Written soon. */
ps_status psd_bars_set(struct psd_task *t, const char *container, uint64_t number, bool open, struct psi_err *err) PSI_MUST;
/** In b there is a bar of that name up to that number, at least. RESOURCE_EXHAUSTED. */
ps_status psd_bars_note(struct psd_task *t, struct psd_bars *b, const char *container, const char *name, uint64_t number,
                        struct psi_err *err) PSI_MUST;
/** The variable was deleted, and no checkpoint up to what this task has heard of may bring it back. */
ps_status psd_bars_delete(struct psd_task *t, const char *container, const char *name, struct psi_err *err) PSI_MUST;
/** Something is not on disk yet. */
bool psd_bars_pending(const struct psd_task *t);
/** done, never at once, when all that was set so far is on disk; it gets ctx and id. RESOURCE_EXHAUSTED, and done never. */
ps_status psd_bars_wait(struct psd_task *t, psd_bars_fn done, void *ctx, uint64_t id, struct psi_err *err) PSI_MUST;
/** The connection to the directory is gone: who waits gets id 0. */
void psd_bars_directory_lost(struct psd_task *t);
/** The variable was deleted since checkpoint `number`, which may not bring it back, as our disk and those beside it say. */
bool psd_bars_deleted(const struct psd_task *t, const char *container, const char *name, uint64_t number);
/** The next bar, behind this one, of a variable that was deleted and that some checkpoint has. behind NULL: search from the
 * first one. Returns NULL where there is none. */
const struct psd_bar *psd_bars_next_deleted(const struct psd_task *t, const struct psd_bar *behind);
void psd_bars_tick(struct psd_task *t);
void psd_bars_check_invariants(const struct psd_task *t);

#endif

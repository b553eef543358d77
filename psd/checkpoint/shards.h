/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shards of a task: what it has of checkpoints on its disk (DESIGN §9, tests/models/checkpoint_model.py). A cut of what lives
 * goes to the disk, and so do manifests. The directory calls the *_here functions for its own shards (saver.h); at the other
 * tasks the handlers of TASK_CUT, TASK_MANIFEST and TASK_DROP do.
 *
 * A shard is whole when the task has the manifest of its checkpoint as well. Without the manifest the directory settles the shard
 * when the task lists: the manifest comes, or the shard goes.
 */
#ifndef PSD_CHECKPOINT_SHARDS_H
#define PSD_CHECKPOINT_SHARDS_H

#include "others.h"

#include "common/manifest.h"

enum {
    PSD_SHARDS_FILES_MAX =
        PSD_DISK_BEGUN_MAX - 2 /* of a shard: values of its containers, and its state; besides a manifest and `bars` */
};

/** It is done, or has failed with err. id: as it was handed in. */
typedef void (*psd_shards_fn)(struct psd_task *t, uint64_t number, uint64_t id, const struct psi_err *err);

#define PSD_SAVED_BY_NONE UINT64_MAX /* a value of saved_changes: no checkpoint has all that is here */
enum { PSD_BAD_BYTES = 320 };        /* why something of a checkpoint cannot be used: cut is fine */

struct psd_shard {
    /* volatile: */
    struct psi_list link; /* of psd_shards, by number */
    uint64_t number;
    uint64_t manifest_bytes; /* 0: it is not whole */
    bool dropped;            /* to be removed */
    bool removing;           /* the disk removes its directory now */
    bool damaged;            /* directory: its manifest is none */
    char bad[PSD_BAD_BYTES]; /* directory: why its manifest cannot be used; "": it can */
};

struct psd_shards_file {
    /* volatile: */
    char container[PS_CONTAINER_BYTES_MAX + 1]; /* "": state */
    uint64_t bytes;
    uint32_t sum;
};

/* Of a container, at the cut. */
struct psd_shards_note {
    /* volatile: */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint32_t notes; /* enum ps_file_notes */
    uint64_t step;  /* global step of the container, + 1; 0: no global step is here */
    char *bare;     /* name of a variable without a value, owned; NULL: every variable has one */
};

enum psd_shards_stage {
    PSD_SHARDS_NONE,
    PSD_SHARDS_WRITES,
    PSD_SHARDS_PUBLISHES,
    PSD_SHARDS_ENDS /* given up, and the disk still has bytes of it */
};

/* Of the cut that is written: shards_pace.c. */
struct psd_shards_pace {
    /* volatile: */
    uint64_t per_second; /* bytes, while the task serves */
    int64_t left;        /* that may be given out now; the last write may be more */
    uint64_t begun_ms, at_ms;
    bool serves;  /* between the last two ticks it did */
    bool hurries; /* it was told to: a task ends */
    bool full;    /* memory was, and half of it still is */
};

struct psd_shards {
    /* volatile: */
    bool listed;             /* what its disk has is known */
    bool broken;             /* it cannot be known what its disk has */
    uint64_t highest;        /* number that it has heard of */
    bool job_ends;           /* directory: another task of the job is to end, and asks for a last checkpoint */
    uint64_t ends_ms;        /* since when it is to end; 0: it is not, or asks for no last checkpoint */
    uint64_t ends_highest;   /* value of `highest` at ends_ms */
    bool ends_failed;        /* the last checkpoint that was begun since ends_ms has failed */
    psd_shards_fn on_listed; /* number 0; may be NULL */
    struct psi_list list;
    uint32_t removing;              /* how many shards are being removed */
    struct psd_disk_entry *entries; /* of a LIST */
    bool has_bars;                  /* as it says */
    uint64_t bars_bytes;
    struct psd_bars bars;
    struct psd_others others;
    /* volatile: the cut */
    enum psd_shards_stage stage;
    uint64_t number;
    uint64_t began;    /* bit by file */
    uint64_t moved_ms; /* when the last one of its writes was over */
    uint32_t ops;      /* on their way */
    struct psd_shards_pace pace;
    uint64_t done_bytes, all_bytes; /* written of it; some more are to be: all values and slots */
    uint64_t cut_changes;           /* of the store, at the cut */
    uint64_t cut_same;              /* psd_shards_number() at the cut */
    /* count of the store's changes when checkpoint saved_number had all of it; PSD_SAVED_BY_NONE: no checkpoint has */
    uint64_t saved_changes;
    uint64_t saved_number; /* number of that checkpoint; 0: the task began empty */
    psd_shards_fn done;    /* NULL: nobody is told */
    uint64_t ask_id;       /* for done: the request TASK_CUT */
    struct psi_err err;
    struct psd_shards_file files[PSD_SHARDS_FILES_MAX];
    uint32_t file_count, published;
    struct psd_shards_note *notes;
    uint32_t note_count;
    /* volatile: manifests */
    struct psi_list manifests;   /* struct psd_manifest, on their way to the disk */
    struct psd_manifest *coming; /* of a TASK_MANIFEST whose last frame has not come */
    /* volatile: share.c */
    uint64_t share_ms; /* when the directory was told last */
    uint32_t share;    /* share that the directory was told then */
    bool told_changed; /* value of psd_shards_changed() that the directory was told */
    uint64_t told_saved;
    struct psi_list reads; /* volatile: ranges of files that are on their way to clients, shards_read.c */
};

/* ---- the task's part, shards.c ---- */
/** Its disk is listed, where it has one. on_listed: called then; NULL: nobody. RESOURCE_EXHAUSTED. */
ps_status psd_shards_begin(struct psd_task *t, psd_shards_fn on_listed, struct psi_err *err) PSI_MUST;
void psd_shards_fini(struct psd_task *t);
/** It may list to the directory: it has no disk, or what that has is known. */
bool psd_shards_is_listed(const struct psd_task *t);
/** It has a disk that can be used. */
bool psd_shards_is_able(const struct psd_task *t);
struct psd_shard *psd_shards_find(const struct psd_task *t, uint64_t number);
/** At this instant. hurries: it is written as fast as can be. Errors, and done never: FAILED_PRECONDITION (no disk), UNAVAILABLE
 * (the one before is not over), RESOURCE_EXHAUSTED. */
ps_status psd_shards_cut_here(struct psd_task *t, uint64_t number, bool hurries, psd_shards_fn done, uint64_t id,
                              struct psi_err *err) PSI_MUST;
/** The cut of that number, if it is written, goes as fast as can be from here on. */
void psd_shards_hurry_here(struct psd_task *t, uint64_t number);
/** File i of the cut that is done, or behind the files a note; their task is not filled in. False: there is none. */
bool psd_shards_file_to_msg(const struct psd_shards *s, uint32_t i, ps_v1_FileItem *out);
/** The manifest of a shard that is here, as of psi_manifest_end(); its bytes are taken over, on errors too. */
ps_status psd_shards_manifest_here(struct psd_task *t, uint64_t number, struct psi_buf *bytes, psd_shards_fn done, uint64_t id,
                                   struct psi_err *err) PSI_MUST;
/** It goes, whole or not, and a cut for it ends. */
void psd_shards_drop_here(struct psd_task *t, uint64_t number);
/** Behind the names of our own list: SavedItems, bars too. */
void psd_shards_list_add(const struct psd_task *t, struct psd_list *l);
/** The connection to the directory is gone: what it has not heard of it need not wait for. */
void psd_shards_directory_lost(struct psd_task *t);
/** The task is to end: the directory is asked for a last checkpoint; it is over, or does not come. */
void psd_shards_drain(struct psd_task *t);
bool psd_shards_drained(const struct psd_task *t);
/** In a task that is not the directory: the task is to end, and either the last checkpoint, for which the task has waited, is not
 * whole here; or checkpoints are made by themselves, and something has changed that none has. */
bool psd_shards_is_lost(const struct psd_task *t);
/** Something that makes a checkpoint differ has changed since a checkpoint had all that is here, or since the task began empty.
 * True also where that checkpoint is gone. False without a disk. */
bool psd_shards_changed(const struct psd_task *t);
/** The checkpoint that has all that is here; 0: none has all. */
uint64_t psd_shards_number(const struct psd_task *t);
/** PS_OK: checkpoint `number` has all that is here. FAILED_PRECONDITION: something has changed since that checkpoint.
 * NOT_FOUND: the task began empty although its disk has a part of that checkpoint, and nothing has changed since. */
ps_status psd_shards_look(const struct psd_task *t, uint64_t number, struct psi_err *err) PSI_MUST;
/** A start has placed what the task had in checkpoint `number`. whole: nothing of it was left out, and nothing else is here. */
void psd_shards_placed(struct psd_task *t, uint64_t number, bool whole);
/** The cut may have more to write. */
void psd_shards_work(struct psd_task *t);
void psd_shards_tick(struct psd_task *t);
void psd_shards_check_invariants(const struct psd_task *t);

/* ---- shards_pace.c ---- */
void psd_shards_pace_begin(struct psd_task *t, bool hurries);
void psd_shards_pace_tick(struct psd_task *t);
/** More of the cut may be given to the disk. */
bool psd_shards_pace_lets(struct psd_task *t);
/** So much of it was. */
void psd_shards_pace_took(struct psd_task *t, uint64_t bytes);

/* ---- shards_read.c: CHECKPOINT_READ ---- */
/** The disk does nothing any more. */
void psd_shards_reads_free(struct psd_shards *s);

#endif

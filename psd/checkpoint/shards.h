/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shards of a task: its parts of checkpoints on its disk (DESIGN §9, tests/models/checkpoint_model.py). The task writes cuts
 * of what lives, and manifests. The directory calls the *_here functions for its own shards (saver.h). At the other tasks the
 * handlers of TASK_CUT, TASK_MANIFEST and TASK_DROP call them.
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
        PSD_DISK_BEGUN_MAX - 2 /* files of values and the state file; two more may be open: a manifest and `bars` */
};

/** The directory's manifest is on its disk (err NULL), or is not. */
typedef void (*psd_shards_decided_fn)(struct psd_task *t, const struct psi_err *err);

#define PSD_SAVED_BY_NONE UINT64_MAX /* a value of saved_changes: no checkpoint has all that is here */
enum { PSD_BAD_BYTES = 320 };        /* text why a checkpoint cannot be used; a longer one is cut */

struct psd_shard {
    /* volatile: */
    struct psi_list link; /* of psd_shards, by number */
    uint64_t number;
    uint64_t manifest_bytes; /* 0: the manifest is missing, so the shard is not whole */
    bool dropped;            /* to be removed */
    bool removing;           /* the disk removes the shard's directory now */
    bool damaged;            /* directory: the manifest is damaged, or only another task has it */
    char bad[PSD_BAD_BYTES]; /* directory: why the manifest cannot be used; "": it can */
};

struct psd_shards_file {
    /* volatile: */
    char container[PS_CONTAINER_BYTES_MAX + 1]; /* "": state */
    uint64_t bytes;
    uint32_t sum;
};

/* What the directory is told of a container at the cut. */
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
    PSD_SHARDS_ENDS /* the cut is given up, and the disk still reads its memory */
};

/* How fast the cut is written: shards_pace.c. */
struct psd_shards_pace {
    /* volatile: */
    uint64_t per_second;      /* bytes, while the task serves */
    int64_t left;             /* bytes that may be written now; a last write may take more, and then `left` is negative */
    uint64_t begun_ms, at_ms; /* begin of the cut; last tick */
    bool serves;              /* the task served requests between the last two ticks */
    bool hurries;             /* the cut is not paced, because a task ends */
    bool full;                /* checkpoint memory was full, and is still more than half full */
};

struct psd_shards {
    /* volatile: */
    bool listed;           /* the disk was listed and its bars were read, or that has failed (broken) */
    bool broken;           /* the disk cannot be listed, or its bars cannot be read: this task has no checkpoints */
    uint64_t highest;      /* highest checkpoint number that this task has heard of */
    bool job_ends;         /* directory: another task of the job is to end, and asks for a last checkpoint */
    uint64_t ends_ms;      /* since when this task is to end and waits for a last checkpoint; 0: it does not */
    uint64_t ends_highest; /* value of `highest` at ends_ms */
    bool ends_failed;      /* the last checkpoint that was begun since ends_ms has failed */
    void (*on_listed)(struct psd_task *t); /* may be NULL */
    struct psi_list list;
    uint32_t removing;              /* how many shards are being removed */
    struct psd_disk_entry *entries; /* of a LIST */
    bool has_bars;                  /* the disk has a file `bars` of this task */
    uint64_t bars_bytes;
    struct psd_bars bars;
    struct psd_others others;
    /* volatile: the cut */
    enum psd_shards_stage stage;
    uint64_t number;
    uint64_t began;    /* bit i: file i was begun */
    uint64_t moved_ms; /* when the disk last finished a write of the cut */
    uint32_t ops;      /* disk operations of the cut under way */
    struct psd_shards_pace pace;
    uint64_t done_bytes, all_bytes; /* written so far; values and slots at the cut, a little less than all files */
    uint64_t cut_changes;           /* psd_store.changes at the cut */
    uint64_t cut_same;              /* psd_shards_number() at the cut */
    /* count of the store's changes when checkpoint saved_number had all of it; PSD_SAVED_BY_NONE: no checkpoint has */
    uint64_t saved_changes;
    uint64_t saved_number; /* number of that checkpoint; 0: the task began empty */
    uint64_t ask_id;       /* the order TASK_CUT; 0: nobody is told */
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
/** Begin to list the disk, if this task has one. on_listed (may be NULL) is called when the disk is listed; not when it is
 * broken. RESOURCE_EXHAUSTED. */
ps_status psd_shards_begin(struct psd_task *t, void (*on_listed)(struct psd_task *t), struct psi_err *err) PSI_MUST;
void psd_shards_fini(struct psd_task *t);
/** This task may list to the directory: it has no disk, or psd_shards.listed. */
bool psd_shards_is_listed(const struct psd_task *t);
/** This task has a disk that can be used. */
bool psd_shards_is_able(const struct psd_task *t);
struct psd_shard *psd_shards_find(const struct psd_task *t, uint64_t number);
/** Cut this task's state as it is at this instant, and write the cut as its part of checkpoint `number`. hurries: the writes are
 * not paced. The order TASK_CUT with this id is answered when the files are published, or when the cut fails; 0: nobody is told.
 * On errors the caller answers: FAILED_PRECONDITION (no disk), UNAVAILABLE (the cut before is not over, a reset still empties a
 * container, or the disk has files of that number), RESOURCE_EXHAUSTED. */
ps_status psd_shards_cut_here(struct psd_task *t, uint64_t number, bool hurries, uint64_t id, struct psi_err *err) PSI_MUST;
/** Write the directory's own manifest (as of psi_manifest_end()) of a shard that is here. `bytes` is taken over, on errors too.
 * On errors decided is not called: FAILED_PRECONDITION (no part of that checkpoint), RESOURCE_EXHAUSTED. */
ps_status psd_shards_manifest_here(struct psd_task *t, uint64_t number, struct psi_buf *bytes, psd_shards_decided_fn decided,
                                   struct psi_err *err) PSI_MUST;
/** Remove this task's part of checkpoint `number`, whole or not. A cut for that number is given up, and its done is
 * not called. */
void psd_shards_drop_here(struct psd_task *t, uint64_t number);
/** Add to this task's list, behind the names, SavedItems: its checkpoints and the bars of containers. */
void psd_shards_list_add(const struct psd_task *t, struct psd_list *l);
/** The connection to the directory is gone: a cut under way is given up, and manifests under way are not answered. */
void psd_shards_directory_lost(struct psd_task *t);
/** The first: this task is to end, and asks the directory for a last checkpoint. The second: that checkpoint is over, or does not
 * come. */
void psd_shards_drain(struct psd_task *t);
bool psd_shards_drained(const struct psd_task *t);
/** This task is to end and would lose values: the last checkpoint that it has waited for is not whole here; or checkpoints are
 * made by themselves, and psd_shards_changed(). False at the directory. */
bool psd_shards_is_lost(const struct psd_task *t);
/** This task has content that no checkpoint has: something has changed since checkpoint psd_shards.saved_number, or that
 * checkpoint is gone, or something has changed since the task began empty. False without a disk. */
bool psd_shards_changed(const struct psd_task *t);
/** The checkpoint that has all that is here; 0: none has all. */
uint64_t psd_shards_number(const struct psd_task *t);
/** A load has placed this task's part of checkpoint `number`. whole: nothing of the part was left out, and nothing else
 * is here. */
void psd_shards_placed(struct psd_task *t, uint64_t number, bool whole);
/** The cut may have more to write. */
void psd_shards_work(struct psd_task *t);
void psd_shards_tick(struct psd_task *t);
void psd_shards_check_invariants(const struct psd_task *t);

/* ---- shards_pace.c ---- */
void psd_shards_pace_begin(struct psd_task *t, bool hurries);
void psd_shards_pace_tick(struct psd_task *t);
/** More of the cut may be written now. */
bool psd_shards_pace_lets(struct psd_task *t);
/** The disk got so many bytes of the cut. */
void psd_shards_pace_took(struct psd_task *t, uint64_t bytes);

/* ---- shards_read.c: CHECKPOINT_READ ---- */
/** Free all reads. The disk has none of them any more. */
void psd_shards_reads_free(struct psd_shards *s);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The shards of a task: its parts of checkpoints, on its disk (docs/DURABILITY.md 6, tests/models/checkpoint_model.py). A shard
 * has files with the task's state at one instant (a cut) and, once the directory has decided that the checkpoint counts, its
 * manifest: the list of all tasks' files. The functions *_here act on this task's own shards, for saver.h at the directory and
 * for the handlers of TASK_CUT and TASK_DROP. A shard is whole when it has the manifest. When a task reports a shard without
 * one, the directory sends the manifest, or TASK_DROP. */
#ifndef PSD_CHECKPOINT_SHARDS_H
#define PSD_CHECKPOINT_SHARDS_H

#include "others.h"

#include "common/manifest.h"

enum {
    /* most files of values and the state file; two of the files that may be in writing at a time are left for a manifest, and for
     * the task's file of bars (bars.h) */
    PSD_SHARDS_FILES_MAX = PSD_DISK_BEGUN_MAX - 2
};

/** Called when the directory's own manifest is on its disk (err NULL), or could not be written. */
typedef void (*psd_shards_decided_fn)(struct psd_task *t, const struct psi_err *err);

#define PSD_SAVED_BY_NONE UINT64_MAX /* value of psd_shards.saved_changes: no checkpoint has all content of this task */
enum { PSD_BAD_BYTES = 320 };        /* bytes of a text that says why a checkpoint cannot be used */

enum psd_shard_stage {
    PSD_SHARD_STAYS,
    PSD_SHARD_DROPPED, /* to be removed */
    PSD_SHARD_REMOVING /* the disk removes the shard's directory now */
};

struct psd_shard {
    struct psi_list link;
    uint64_t number;
    uint64_t manifest_bytes; /* size of the manifest; 0: it is missing, so the shard is not whole */
    enum psd_shard_stage stage;
    bool damaged;            /* directory: the manifest is damaged, or only another task has it */
    char bad[PSD_BAD_BYTES]; /* directory: why the manifest cannot be used; "": it can */
};

struct psd_shards_file {
    char container[PS_CONTAINER_BYTES_MAX + 1]; /* container of a file of values; "": the state file */
    uint64_t bytes;
    uint32_t sum;
};

/* What the answer to TASK_CUT says of one container. */
struct psd_shards_note {
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint32_t notes; /* enum ps_file_notes */
    uint64_t step;  /* 1 + the global step of the container; 0: this task has none */
    char *bare;     /* name of a variable without a value, owned; NULL: every variable has one */
};

enum psd_shards_disk {
    PSD_SHARDS_DISK_LISTS, /* the disk looks for its files, or its bars are being read */
    PSD_SHARDS_DISK_ABLE,
    PSD_SHARDS_DISK_BROKEN /* the disk's files cannot be found, or its bars not be read: this task has no checkpoints */
};

/* How far this task is with saving its state of one instant (a cut). shards.c has the table of transitions. */
enum psd_shards_stage {
    PSD_SHARDS_NONE,
    PSD_SHARDS_WRITES,
    PSD_SHARDS_PUBLISHES,
    PSD_SHARDS_ENDS, /* the saving is given up, but the disk still reads the memory of what was to be saved */
    PSD_SHARDS_STAGES
};

/* How fast a cut (this task's state of one instant) is written to disk: shards_pace.c. */
struct psd_shards_pace {
    uint64_t per_second;      /* bytes to write in a second, while the task serves */
    int64_t allowance;        /* bytes that may be written now; negative after a write that was larger */
    uint64_t begun_ms, at_ms; /* when the writing began; when the last tick was */
    bool serves;              /* the task served requests between the last two ticks */
    bool hurries;             /* writes are not paced, because a task is to end */
    bool full;                /* writes are not paced: the memory for the saving was nearly full, and is more than half full */
};

struct psd_shards {
    enum psd_shards_disk disk;
    uint64_t highest;      /* highest checkpoint number of which this task has heard */
    bool job_ends;         /* directory: another task of the job is to end, and has asked for a last checkpoint */
    uint64_t ends_ms;      /* time since which this task, which is to end, waits for a last checkpoint; 0: it does not wait */
    uint64_t ends_highest; /* value of `highest` at ends_ms */
    /* the last checkpoint for which this task waited has failed; it waits for another (ends_ms, ends_highest were set anew) */
    bool ends_failed;
    void (*on_listed)(struct psd_task *t); /* called when the files on disk are known and can be used; may be NULL */
    struct psi_list list;
    uint32_t removing;
    struct psd_disk_entry *entries; /* what the disk operation LIST has found so far */
    uint64_t bars_bytes;            /* 1 + size of this task's file `bars`; 0: the disk has none */
    struct psd_bars bars;
    struct psd_others others;
    /* the cut: */
    enum psd_shards_stage stage;
    uint64_t number;
    uint64_t began;    /* bit i: the disk was told to begin file i (PSD_DISK_BEGIN) */
    uint64_t moved_ms; /* when the disk last finished a write of the cut */
    uint32_t ops;      /* number of disk operations under way for the cut (the state that is being saved) */
    struct psd_shards_pace pace;
    /* bytes written so far; bytes of all values and slots in the cut: a little less than the files will have */
    uint64_t done_bytes, all_bytes;
    uint64_t cut_changes; /* psd_store.changes when the state to save was fixed (the cut was made) */
    uint64_t cut_same;    /* psd_shards_number() when the cut was made */
    /* psd_store.changes when checkpoint saved_number was made or loaded; PSD_SAVED_BY_NONE: no checkpoint has all content */
    uint64_t saved_changes;
    uint64_t saved_number; /* number of the checkpoint that saved_changes is about; 0: the task began empty */
    uint64_t ask_id;       /* id of the TASK_CUT to answer; 0: none */
    struct psi_err err;
    struct psd_shards_file files[PSD_SHARDS_FILES_MAX];
    uint32_t file_count, published;
    struct psd_shards_note *notes;
    uint32_t note_count;
    bool named; /* the answer to TASK_CUT names each container that was saved */
    /* manifests: */
    struct psi_list manifests;   /* struct psd_manifest, on their way to the disk */
    struct psd_manifest *coming; /* manifest of a TASK_MANIFEST whose last frame has not come */
    /* share.c: */
    uint64_t share_ms;     /* when psd_share_turn() last sent a BEAT */
    uint32_t share;        /* share in that BEAT */
    bool told_changed;     /* value of psd_shards_changed() in that BEAT */
    uint64_t told_saved;   /* value of psd_shards_number() in that BEAT */
    struct psi_list reads; /* struct psd_shards_read (shards_read.c): ranges of files that the disk reads for clients */
};

/* ---- the task's part: shards.c, shards_list.c, shards_read.c, shards_same.c ---- */
/** If this task has a checkpoint_dir, begin to look for its files there. on_listed is called when they are known and can be used;
 * it may be NULL. RESOURCE_EXHAUSTED. */
ps_status psd_shards_begin(struct psd_task *t, void (*on_listed)(struct psd_task *t), struct psi_err *err) PSI_MUST;
void psd_shards_fini(struct psd_task *t);
/** True if this task may send its list (its report) to the directory: its files on disk are known, or it has no usable disk. */
static inline bool psd_shards_is_listed(const struct psd_task *t)
{
    return t->shards == NULL || t->shards->disk != PSD_SHARDS_DISK_LISTS;
}
/** True if this task has a usable disk, whose files are known. */
static inline bool psd_shards_is_able(const struct psd_task *t)
{
    return t->shards != NULL && t->shards->disk == PSD_SHARDS_DISK_ABLE;
}
static inline bool psd_shards_is_broken(const struct psd_task *t)
{
    return t->shards != NULL && t->shards->disk == PSD_SHARDS_DISK_BROKEN;
}
/** Fail with FAILED_PRECONDITION: this task has no disk that can be used. */
ps_status psd_shards_fail(const struct psd_task *t, struct psi_err *err) PSI_MUST;
struct psd_shard *psd_shards_find(const struct psd_task *t, uint64_t number);
/** Write this task's state as it is now (a cut) to disk, as its part of checkpoint `number`. hurries: as fast as the disk can.
 * TASK_CUT `id` is answered when the files are published or the cut has failed; 0: nobody is told. On an error of this call the
 * caller answers: FAILED_PRECONDITION (no disk), UNAVAILABLE (an earlier cut is not over, a reset still empties a container, or
 * the disk has files of that number), RESOURCE_EXHAUSTED. */
ps_status psd_shards_cut_here(struct psd_task *t, uint64_t number, bool hurries, uint64_t id, struct psi_err *err) PSI_MUST;
/** At the directory: write its manifest, made by psi_manifest_end(), into its shard `number`. Takes over `bytes`, on errors too.
 * decided is called at the end, but not after an error of this call: FAILED_PRECONDITION (no such shard), RESOURCE_EXHAUSTED. */
ps_status psd_shards_manifest_here(struct psd_task *t, uint64_t number, struct psi_buf *bytes, psd_shards_decided_fn decided,
                                   struct psi_err *err) PSI_MUST;
/** Remove this task's part of checkpoint `number`, whole or not. If it is being saved, this ends, and its TASK_CUT is not
 * answered. */
void psd_shards_drop_here(struct psd_task *t, uint64_t number);
/** Add to this task's list, its report to the directory: its parts of checkpoints, and bars of containers. */
void psd_shards_list_add(const struct psd_task *t, struct psd_list *l);
/** Call when the connection to the directory is lost: a saving ends. Manifests are still written, without an answer. */
void psd_shards_directory_lost(struct psd_task *t);
/** Call when this task is to end: asks the directory for a last checkpoint. */
void psd_shards_drain(struct psd_task *t);
/** True if the last checkpoint, for which psd_shards_drain() asked, is made, has failed, or will not be made. */
bool psd_shards_drained(const struct psd_task *t);
/** True if this task would lose values by ending: this task's part of the checkpoint begun since psd_shards_drain() is not whole,
 * or the job saves by time or steps and the task has content that no checkpoint has. False at the directory or before a drain. */
bool psd_shards_is_lost(const struct psd_task *t);
/** True if this task has content that no checkpoint has: it has changed since checkpoint psd_shards.saved_number or since it
 * began empty, or that checkpoint is gone. Without a disk always false. */
bool psd_shards_changed(const struct psd_task *t);
/** The number of the checkpoint that has all content of this task; 0: none has. */
uint64_t psd_shards_number(const struct psd_task *t);
/** Call when a load has put content of checkpoint `number` into use here. whole: this task has exactly its own part of it. */
void psd_shards_placed(struct psd_task *t, uint64_t number, bool whole);
void psd_shards_work(struct psd_task *t);
void psd_shards_tick(struct psd_task *t);
void psd_shards_check_invariants(const struct psd_task *t);

/* ---- shards_pace.c ---- */
void psd_shards_pace_begin(struct psd_task *t, bool hurries);
void psd_shards_pace_tick(struct psd_task *t);
/** True if, by the pace, the disk may get another write of the state that is being saved. */
bool psd_shards_pace_lets(struct psd_task *t);
void psd_shards_pace_took(struct psd_task *t, uint64_t bytes);

/* ---- shards_read.c: CHECKPOINT_READ ---- */
/** Free all reads. No disk operation of a read may be under way. */
void psd_shards_reads_free(struct psd_shards *s);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* When the directory (the first ps task) lets all tasks of its job save, and which checkpoints there are. The state machine
 * follows the rules of tests/models/checkpoint_model.py. psd/checkpoint/shards.h is one task's side of a save. */
#ifndef PSD_CHECKPOINT_SAVER_H
#define PSD_CHECKPOINT_SAVER_H

#include "beside.h"

#include "psd/base/orders.h"
#include "psd/session/steps.h"
#include "psd/session/wait.h"

/* What the directory does about a checkpoint. saver_when.c has the table of transitions. */
enum psd_saver_phase {
    PSD_SAVER_IDLE,
    PSD_SAVER_LOOKING, /* tasks say whether the newest whole checkpoint has all that they have. If so, no checkpoint is made */
    PSD_SAVER_CUTTING, /* tasks write their parts */
    /* the manifest (the list of the checkpoint's files) is being written to the directory's disk; then the checkpoint counts */
    PSD_SAVER_DECIDING,
    PSD_SAVER_TELLING, /* the directory has its manifest, and the other tasks write theirs; a load may begin meanwhile */
    PSD_SAVER_PHASES
};

/* How far the directory has read, and tidied up, what its disk had when this process began. The stages come in this order. */
enum psd_saver_disk {
    PSD_SAVER_DISK_READS,   /* manifests are being read; this stage stays if psd_shards_is_broken() */
    PSD_SAVER_DISK_READ,    /* the manifests are known */
    PSD_SAVER_DISK_RESUMED, /* the resets that the previous process left unfinished have been started again */
    /* this task's parts without a manifest are removed or, if another task has the manifest, marked damaged */
    PSD_SAVER_DISK_SETTLED
};

/* How far psd_saver_check_names() has checked that no task has lost a variable. Each report of a task makes this OPEN again. */
enum psd_saver_names {
    PSD_SAVER_NAMES_OPEN,
    PSD_SAVER_NAMES_GO_ON, /* a checkpoint is wanted; the next psd_task_work() goes on with the check */
    PSD_SAVER_NAMES_CHECKED
};

/* Whether a checkpoint is to be made as soon as it can be. */
enum psd_saver_want { PSD_SAVER_NOT_WANTED, PSD_SAVER_IF_NEW /* if a task has something new */, PSD_SAVER_ANYWAY };

/* A checkpoint whose manifest is on the directory's disk. */
struct psd_checkpoint {
    struct psi_list link;
    ps_v1_SaveItem what;
    struct psi_buf manifest;
    char bad[PSD_BAD_BYTES]; /* why a load of it has failed; "": none has since psd_saver_look_again() */
};

struct psd_saver_peer {
    bool has_disk;     /* the task has reported that its disk can be used; always true for the directory itself */
    bool done;         /* the task has done its part of the phase */
    uint64_t again_ms; /* the task could not write a manifest: time to send the manifest again; 0: no manifest to send */
    struct psd_saver_listed {
        uint64_t number;
        bool whole;
    } * listed; /* parts of checkpoints on the disk of the task: those that it has reported, with later changes */
    size_t listed_count, listed_capacity;
};

/* What the checkpoint being made says of a container. */
struct psd_saver_part {
    uint32_t notes;   /* enum ps_file_notes: what any task has noted */
    uint32_t bare_at; /* index of the task that has `bare` */
    uint64_t step;    /* 1 + the highest global step that any task has reported; 0: none has */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char bare[PS_NAME_BYTES_MAX + 1]; /* name of a variable without a value; "": no such name is known */
    bool is_at[]; /* by peer index: the task's part has values of the container, or variables of it were deleted there */
};

struct psd_saver {
    /* resets that wait until the directory's disk has noted that older checkpoints must not bring the container back (its bar) */
    struct psd_resets resets;
    struct psd_containers bars; /* bars that tasks have reported: which containers older checkpoints must not bring back */
    enum psd_saver_disk disk;
    uint64_t reading;
    struct psi_buf read;
    struct psi_list known;        /* struct psd_checkpoint, by number */
    uint64_t first, last;         /* lowest and highest checkpoint number that was ever in `known`; 0: `known` was always empty */
    uint64_t found;               /* highest checkpoint number that was on the directory's disk when the disk was read */
    uint64_t highest;             /* highest checkpoint number that a task has reported, or that an attempt has got */
    struct psd_saver_peer *peers; /* [peer_count], by peer index */
    enum psd_saver_names names;
    uint64_t names_cursor; /* position of psd_saver_check_names() in its walk over the names of all variables */
    /* when: */
    enum psd_saver_want want;
    uint64_t since_ms;  /* the next checkpoint by time is due one interval after this time */
    uint64_t looked_ms; /* when the sessions' global steps were last examined */
    uint64_t last_ms;   /* when a task that is to end has asked for a last checkpoint; 0: no task has */
    uint64_t again_ms;  /* while no checkpoint can be made: time of the next try */
    uint64_t step;      /* 1 + the highest global step that a session has reported; 0: none. By container: session/steps.h */
    bool warned;        /* the log has said that no checkpoint can be made; the line is not repeated */
    bool makes_room;    /* the last attempt found a full disk, and older checkpoints are being dropped for the next attempt */
    /* the last checkpoint before tasks end has failed, although there was something new to save */
    bool last_failed;
    uint64_t failed_ms;     /* when the last attempt failed or was refused; 0: the last attempt has not failed */
    uint64_t failed_number; /* number of the attempt that failed; 0: it could not be begun */
    uint64_t failed_count;  /* attempts that have failed since the last saved checkpoint, without those that could not begin */
    struct psi_err failed_err;
    char failed[352]; /* for people: which attempt failed, and why */
    /* the attempt: */
    enum psd_saver_phase phase;
    ps_v1_SaveItem what; /* the last attempt; number 0: none since this directory process began */
    uint64_t begun_ms;
    /* LOOKING: number of the newest whole checkpoint; if none is whole, a number that no checkpoint has */
    uint64_t looked_at;
    uint64_t same;        /* older checkpoint that equals all answered parts; 0: none does; SAME_UNKNOWN: no part was answered */
    bool hurries;         /* a task is to end: all tasks were told to write the checkpoint as fast as they can */
    struct psi_buf files; /* FileItems of all parts; from DECIDING on the whole manifest */
    struct psi_map parts; /* container -> struct psd_saver_part */
    /* Requests of clients (struct psd_need): `asked` has those that wait for the next attempt, `served` those that wait for this
     * attempt. A CHECKPOINT_RESTORE is put into `asked` when its checkpoint is in use, because it is then saved anew. */
    struct psi_list asked, served;
    struct psi_list deleting; /* struct psd_need of CHECKPOINT_DELETE */
};

/** Begin this task's side of checkpoints (shards.h). If this task is the directory and has a checkpoint_dir, make t->saver too;
 * otherwise t->saver is NULL. Call it after psd_peers_init(). RESOURCE_EXHAUSTED: no memory. */
ps_status psd_saver_begin(struct psd_task *t, struct psi_err *err) PSI_MUST;
void psd_saver_fini(struct psd_task *t);
/** The list is task p's report of what it has. Call psd_saver_list_begin() when the list begins, psd_saver_list_item() for each
 * item, and psd_saver_list_end() at the end, which decides what becomes of the parts of checkpoints in the list. */
void psd_saver_list_begin(struct psd_task *t, const struct psd_peer *p);
ps_status psd_saver_list_item(struct psd_task *t, const struct psd_peer *p, const ps_v1_ListItem *item,
                              struct psi_err *err) PSI_MUST;
void psd_saver_list_end(struct psd_task *t, struct psd_peer *p);
/** Write an order as frames. psd_saver_encode_manifest(): TASK_MANIFEST; o->what is a struct psd_checkpoint. psd_saver_encode():
 * TASK_CUT, TASK_DROP, TASK_SAVED; o->what points to a bool, true: the task is to hurry. */
void psd_saver_encode_manifest(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
void psd_saver_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
/** Call with p's answer r to order a. err NULL: p reports no error. r NULL: the connection of p is gone. r has the flag MORE:
 * further frames of the answer follow. */
void psd_saver_answered(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                        const struct psi_err *err);
void psd_saver_lost(struct psd_task *t, const struct psd_peer *p);
/** Call when a container is reset: a checkpoint that tasks are writing (CUTTING) is given up. Clients that wait for this or the
 * next checkpoint get ABORTED. */
void psd_saver_reset(struct psd_task *t, const char *container);
/** Call when a load replaces the values in use by those of checkpoint c. Clients that asked for a save until began_ms get
 * UNAVAILABLE, because the values that they wanted to save are gone. Later clients go on waiting: they want the loaded values. */
void psd_saver_went_back(struct psd_task *t, const struct psd_checkpoint *c, uint64_t began_ms);
/** The highest checkpoint number that was ever given out; 0: none was, this task saves nothing, or its disk is not read yet. */
uint64_t psd_saver_highest(const struct psd_task *t);
/** The newest checkpoint that must not bring back the container, which was reset later: the highest bar of any task. 0: none. */
uint64_t psd_saver_bar(const struct psd_task *t, const char *container);
/** True if a reset is under way in the directory's job. A checkpoint would have some tasks before the reset, others after it. */
bool psd_saver_in_reset(const struct psd_task *t);
/** Check that this task has read its disk, and goes on with the resets that an earlier process left unfinished. UNAVAILABLE: not
 * yet. */
ps_status psd_saver_are_read(const struct psd_task *t, struct psi_err *err) PSI_MUST;
/** Call at the end of each event. A checkpoint that is wanted begins if nothing is in its way. */
void psd_saver_turn(struct psd_task *t);
void psd_saver_tick(struct psd_task *t);
void psd_saver_check_invariants(const struct psd_task *t);

static inline struct psd_checkpoint *psd_checkpoint_at(struct psi_list *link)
{
    return PSI_CONTAINER_OF(link, struct psd_checkpoint, link);
}
/** The checkpoint with the highest number; NULL: the directory's disk has no manifest. */
static inline const struct psd_checkpoint *psd_saver_last_known(const struct psd_task *t)
{
    return t->saver == NULL || psi_list_empty(&t->saver->known) ? NULL : psd_checkpoint_at(t->saver->known.prev);
}
/** Once all tasks of the job have reported their parts: remove each part on the directory's disk whose manifest no task has. */
void psd_saver_settle_own(struct psd_task *t);
/** True if tasks may begin: the manifests and open resets on the directory's disk are known, or the disk cannot be read. */
static inline bool psd_saver_has_resumed(const struct psd_task *t)
{
    return t->saver == NULL || t->saver->disk >= PSD_SAVER_DISK_RESUMED || psd_shards_is_broken(t);
}
/** Forget checkpoint `number`, and remove its parts on all tasks that are connected. */
void psd_saver_forget(struct psd_task *t, uint64_t number);

/* ---- saver_known.c ---- */
/** The checkpoint with this number; NULL: the directory's disk has no manifest of it. */
struct psd_checkpoint *psd_saver_known(const struct psd_task *t, uint64_t number);
/** The part of checkpoint `number` that the task has reported; NULL: none. */
struct psd_saver_listed *psd_saver_listed_of(const struct psd_saver_peer *of, uint64_t number);
/** Forget which checkpoints are bad, and that a load was refused, so that the next load examines all checkpoints again. */
void psd_saver_look_again(struct psd_task *t);
/** Note that c cannot be loaded, and why; the first reason stays. c may be NULL. */
void psd_saver_spoil(struct psd_checkpoint *c, const struct psi_err *why);
bool psd_saver_has(const struct psd_task *t, const struct psd_peer *p, uint64_t number);

/** How many tasks of the job have a whole part of this checkpoint that they wrote themselves. */
uint32_t psd_saver_whole_at(const struct psd_task *t, uint64_t number);
/** How many parts of checkpoint c can be loaded: parts of tasks of the job that have them whole, and parts of tasks that have
 * left the job of which another task can load a copy (psd_loader_reader()). */
uint32_t psd_saver_parts_there(const struct psd_task *t, const struct psd_checkpoint *c);
/** How many tasks of the job have not reported what they have. */
uint32_t psd_saver_away(const struct psd_task *t);
/** The newest checkpoint of which all parts are there, and which is not known to be damaged; 0: there is none. */
uint64_t psd_saver_newest(const struct psd_task *t);
/** Like psd_saver_newest(), but parts that tasks may still report do not count as missing: the newest that may be whole. */
uint64_t psd_saver_newest_maybe(const struct psd_task *t);
/** True if, as far as the directory knows, some task has content that is not in checkpoint psd_saver_newest_maybe(). */
bool psd_saver_have_news(const struct psd_task *t);

/* ---- saver_when.c ---- */
void psd_saver_move(struct psd_saver *s, enum psd_saver_phase to);
/** Ask for a checkpoint as soon as it can be made. ANYWAY: for example after a load has put values on other tasks. */
static inline void psd_saver_wants(struct psd_saver *s, enum psd_saver_want want)
{
    s->want = want > s->want ? want : s->want;
}
/** Note, for answers to clients, that attempt `number` has failed with err; 0: no attempt could be begun. */
void psd_saver_failed(struct psd_task *t, uint64_t number, const struct psi_err *err);
/** Call when an attempt has failed. If it was the last checkpoint of tasks that end, psd_saver_lost_text() tells the failure. */
void psd_saver_note_failed(struct psd_task *t);
/** Send TASK_CUT, TASK_DROP or TASK_SAVED about checkpoint `number` to p; TASK_CUT carries `hurries`. NULL: no memory, and the
 * connection of p is closed. */
struct psd_ask *psd_saver_tell(struct psd_task *t, struct psd_peer *p, uint8_t op, uint64_t number, bool hurries);
/** psd_saver_tell() for each task of the job that is connected and has reported what it has. */
void psd_saver_tell_all(struct psd_task *t, uint8_t op, uint64_t number, bool hurries);
/** Call when checkpoint `number` has all that the requests in `served` asked to save. They end with this number as their result,
 * and the last failure is forgotten. */
void psd_saver_serve(struct psd_task *t, uint64_t number);
bool psd_saver_all_done(const struct psd_task *t);
/** Call when a phase begins: no task has done its part of it. */
void psd_saver_clear_done(struct psd_task *t);
void psd_saver_fail(struct psd_task *t, struct psi_list *waiters, const struct psi_err *err);
/** Call when the attempt has ended without a checkpoint: its requests wait for the next attempt, before all others. */
void psd_saver_ask_again(struct psd_saver *s);

/* ---- saver_ask.c: CHECKPOINT, CHECKPOINTS, CHECKPOINT_DELETE ---- */
/** Describe, for people, what request w waits for: a CHECKPOINT, or the saving of what a CHECKPOINT_RESTORE has restored. */
void psd_saver_describe(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out);
/* ---- saver_state.c ---- */
/** Describe in *out, for programs: the newest checkpoint, the checkpoint being made or loaded, the last failure,
 * and when checkpoints are made. False: this task is not the directory, or has no checkpoint_dir. */
bool psd_saver_state(const struct psd_task *t, ps_v1_SavesState *out);
/** Write the state that psd_saver_state() has put into s, in words for people. */
void psd_saver_text(const struct psd_task *t, const ps_v1_SavesState *s, char *buf, size_t n);

/* ---- saver_ask.c: CHECKPOINT_DELETE ---- */
/** Answer each CHECKPOINT_DELETE whose checkpoint the directory's disk has removed, or has failed to remove. */
void psd_saver_delete_turn(struct psd_task *t);

/* ---- saver_known.c ---- */
/** How many tasks have done their part of the phase. *out_share: how much of the checkpoint is written, in millionths. */
uint32_t psd_saver_count(const struct psd_task *t, uint32_t *out_share);

/* ---- saver.c, for saver_when.c ---- */
/** Call when p has reported its parts of checkpoints. For a part without a manifest, p gets the manifest; if the directory has no
 * manifest either, p is told to drop the part. p also drops parts of checkpoints that were deleted while p was away. */
void psd_saver_settle(struct psd_task *t, struct psd_peer *p);
/** Call when a task is to end: all tasks write the checkpoint under way as fast as they can. */
void psd_saver_hurry(struct psd_task *t);
/** Begin an attempt with a new number. All requests in `asked` wait for it. */
void psd_saver_attempt(struct psd_task *t);

/* ---- saver_when.c ---- */
/** Call when the task at index `peer` has answered TASK_SAVED, the question whether it has anything new. err NULL: it has nothing
 * new. NOT_FOUND: it began empty although its disk has a part of the checkpoint: that counts as something new only if a client
 * has asked. Other errors: it has something new. */
void psd_saver_looked(struct psd_task *t, uint32_t peer, const struct psi_err *err);
/** Call when the connection to a task is lost while tasks are asked for news (PSD_SAVER_LOOKING): ends the asking. Requests wait;
 * all tasks are asked again for them later. err: why; it is reported as a failure if a client waits or something is not saved. */
void psd_saver_look_lost(struct psd_task *t, const struct psi_err *err);

/* ---- saver_known.c ---- */
/** The number of the oldest checkpoint with the same content as c (perhaps deleted by now); if there is none, the number of c. */
uint64_t psd_saver_same_as(const struct psd_checkpoint *c);
/** Call when a checkpoint is saved: drops older ones that max_to_keep and the other rules of saver_known.c do not keep. */
void psd_saver_retire(struct psd_task *t);
/** Call when the disk of a task is full: drops one checkpoint older than the newest whole one. Duplicates go first, then the
 * oldest; those that keep_checkpoint_every_hours keeps go at the end. False: none can go, or max_to_keep 0 keeps all. */
bool psd_saver_make_room(struct psd_task *t);

/* ---- saver_when.c ---- */
/** Call when a task of the job is to end: wants a last checkpoint if something may be new, in jobs that save by time or steps. */
void psd_saver_last(struct psd_task *t);
/** True if tasks that end need not wait any more: their last checkpoint is made, or cannot be made. */
bool psd_saver_drained(const struct psd_task *t);
/** Why the last checkpoint of tasks that end is not saved; NULL: it is saved, or nothing was new. The text is valid until the
 * next change. */
const char *psd_saver_lost_text(const struct psd_task *t);
/** True if psd_saver_check_names() must go on, in the next psd_saver_turn(), before a checkpoint can begin. */
bool psd_saver_have_work(const struct psd_task *t);
/** Check that a checkpoint may begin. UNAVAILABLE: not now. FAILED_PRECONDITION: not before a person acts: a task has no usable
 * disk or has lost values. PS_OK: it may begin if psd_saver.names is CHECKED; otherwise call again in the next turn. */
ps_status psd_saver_check(struct psd_task *t, struct psi_err *err) PSI_MUST;

/* ---- saver_parts.c ---- */
/** Take in one item of p's answer to TASK_CUT: a file of values, or a note about a container. RESOURCE_EXHAUSTED. */
ps_status psd_saver_take_part(struct psd_task *t, const struct psd_peer *p, const ps_v1_FileItem *item,
                              struct psi_err *err) PSI_MUST;
/** Add the attempt's files to its manifest, with the notes and steps of their containers. RESOURCE_EXHAUSTED. */
ps_status psd_saver_put_files(const struct psd_saver *s, struct psi_buf *manifest, struct psi_err *err) PSI_MUST;
/** Check that a sealed (completed) model has all its values, and that no task lacks a container that it has in the last
 * checkpoint. FAILED_PRECONDITION: half a model. */
ps_status psd_saver_check_parts(const struct psd_task *t, struct psi_err *err) PSI_MUST;
/** Check that each task has the variables that the directory has recorded for it; each call examines list_slice_rows names.
 * FAILED_PRECONDITION: a task has lost a variable. PS_OK: call again, unless psd_saver.names is PSD_SAVER_NAMES_CHECKED. */
ps_status psd_saver_check_names(struct psd_task *t, struct psi_err *err) PSI_MUST;
void psd_saver_parts_free(struct psd_task *t);
/** Bytes that the memory budget must count for parts, bars and resets, added up anew for a check of the budget. */
uint64_t psd_saver_bytes(const struct psd_task *t);
/** Note a bar that a task has reported: checkpoints up to its number must not bring a container back. RESOURCE_EXHAUSTED. */
ps_status psd_saver_take_bar(struct psd_task *t, const ps_v1_ListItem *item, struct psi_err *err) PSI_MUST;
/** Free psd_saver.bars and psd_saver.resets. */
void psd_saver_bars_free(struct psd_saver *s);

#endif

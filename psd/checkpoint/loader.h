/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoint tasks begin with, or are rolled back to. The directory (the first ps task) decides, by the rules of
 * tests/models/checkpoint_model.py and docs/DURABILITY.md 7. psd/checkpoint/beside.h is one task's side of a load.
 *
 * The directory decides once all tasks of its job have reported which containers they have.
 *   - No container is in use: all tasks load the newest checkpoint. loader_choice.c says when an older one is loaded instead.
 *   - Containers are in use: the tasks that wait to begin load the newest checkpoint; the other tasks keep their values. But if a
 *     task that waits has lost its part of a container that has `recover` cut, or is trained in synchronous rounds, all tasks
 *     load, and this container is rolled back on all of them.
 *   - A task that wrote no part of the checkpoint, because it is new in the job, begins empty.
 *   - Parts of tasks that have left the job are loaded by tasks that have a copy (loader_held.c); then all tasks are rolled back.
 *
 * A client's CHECKPOINT_RESTORE (loader_ask.c) rolls each container of a checkpoint back to it on all tasks, whatever is in use.
 * The values may be distributed anew over all tasks (psd/store/deal.h).
 *
 * Values have moved if the newest checkpoint does not have them in the part of the task that uses them: another task wrote them,
 * or an older checkpoint was loaded. Until a new checkpoint has them, the phase is SEALING. Each task remembers up to which
 * checkpoint its values have moved (psd_store.moved), and reports the number to a directory that has restarted. If a task loses
 * moved values, all tasks go back to the newest checkpoint (loader_held.c). */
#ifndef PSD_CHECKPOINT_LOADER_H
#define PSD_CHECKPOINT_LOADER_H

#include "plan.h"
#include "beside.h"

#include "psd/base/orders.h"
#include "psd/session/wait.h"

struct psd_checkpoint;

/* What the directory does about a load. loader.c has the table of transitions. */
enum psd_loader_phase {
    PSD_LOADER_IDLE,     /* no load is needed or under way */
    PSD_LOADER_SEALING,  /* the load is over, and no checkpoint has yet the values that it has moved (psd_loader_moves()) */
    PSD_LOADER_DUE,      /* a load may be needed; the decision waits for resets and saves under way, and for missing tasks */
    PSD_LOADER_CHOOSING, /* the directory looks at the names of all variables, slice by slice, and then chooses a checkpoint */
    /* a start of all tasks: first the disk notes up to which checkpoint none must be loaded later. The next phase is DUE */
    PSD_LOADER_NOTING,
    PSD_LOADER_LOADING, /* tasks that take part read and verify their parts */
    PSD_LOADER_PLACING, /* tasks that take part put what they have loaded into use, and report again what they have */
    /* a task was lost in PLACING, and the directory still has to record names of variables that it has loaded (no memory) */
    PSD_LOADER_NAMING,
    PSD_LOADER_PHASES
};

/* Whose parts the tasks load. */
enum psd_loader_from {
    PSD_LOADER_FROM_OWN, /* each task loads the part that it has written */
    /* some part is loaded by another task, because its writer is not in the job or lacks the part */
    PSD_LOADER_FROM_OTHERS,
    PSD_LOADER_FROM_ALL /* all values are distributed anew over all tasks */
};

/* Whether a task takes part in LOADING (it loads) or PLACING (it puts into use what it has loaded), and has finished. */
enum psd_loader_duty { PSD_DUTY_NONE, PSD_DUTY_OPEN, PSD_DUTY_DONE };

/* A task's offer to load a part of a checkpoint that another task wrote: the offering task's disk has the writer's directory. */
struct psd_loader_offer {
    uint64_t number;
    uint32_t writer; /* 1 + index of the task that wrote the part */
};

/* One task's part of a checkpoint. bytes, sum: size and CRC32C of its state file. */
struct psd_loader_part {
    uint64_t number, bytes;
    uint32_t task, sum;
    char job[PS_JOB_BYTES_MAX + 1];
};

struct psd_loader_parts {
    uint64_t number;
    struct psi_items walk;
};

struct psd_loader_peer {
    struct psd_loader_offer *offers;
    size_t offer_count, offer_capacity;
    uint64_t moved; /* reported psd_store.moved: its parts of checkpoints up to this one do not fit its values; directory: 0 */
    struct psd_containers held;   /* containers that the task uses and that are not empty */
    struct psd_containers loaded; /* containers that the task has loaded into memory and does not use yet */
    /* the report that is being received says that the task waits for the directory; psd_peer.waits is set at its end */
    bool will_wait;
    enum psd_loader_duty duty; /* in LOADING and PLACING */
};

struct psd_loader {
    enum psd_loader_phase phase;
    uint64_t names_cursor;           /* in CHOOSING: position of the walk over the names of all variables */
    struct psd_containers by_rounds; /* containers with values of synchronous rounds: all tasks must load these together */
    uint64_t again_ms;               /* after a failure: no load begins before this time */
    /* The load in LOADING and PLACING. number 0: tasks are told to begin empty, or to free what they have loaded. */
    enum psd_load_reason reason;
    enum psd_loader_from from;
    uint64_t number; /* number of the checkpoint; 0: none */
    uint64_t start;  /* random number of this load; answers to the orders of earlier loads are ignored */
    uint64_t begun_ms;
    /* psd_loader_moved_most() when the load began: checkpoints up to this one do not fit the values that tasks used then */
    uint64_t moved;
    struct psi_err why; /* why a task cannot load; PS_OK: none has failed. RESOURCE_EXHAUSTED, UNAVAILABLE: a retry may succeed */
    /* facts from earlier loads */
    /* result of settings_of() when the last load was refused (psd_task.refused); with another result a load is tried again */
    int64_t refused_by;
    char why_refused[512]; /* holds the text to which psd_task.refused points */
    /* values in use do not fit together (psd_plan_facts.torn), and no checkpoint on disk can replace them */
    bool torn_stays;
    uint64_t behind; /* newest checkpoint of which the log has said that a task has it and the directory lacks it; 0: none */
    /* CHECKPOINT_RESTORE */
    struct psi_list asking;         /* struct psd_need */
    ps_v1_SavedNameItem asked;      /* the checkpoint that clients ask for; number 0: no client asks */
    struct psd_containers asked_of; /* the containers that are to be restored; empty: all that the checkpoint has */
    /* checkpoint `kept` must not be deleted before kept_until_ms, because a client will restore it; kept 0: no such checkpoint */
    uint64_t kept, kept_until_ms;
    struct psd_loader_peer *peers;
};

/** Make psd_task.loader at the directory; other tasks have none. Call after psd_peers_init(). RESOURCE_EXHAUSTED. */
ps_status psd_loader_begin(struct psd_task *t, struct psi_err *err) PSI_MUST;
void psd_loader_fini(struct psd_task *t);
/** Call when p has sent its whole report: sets p->waits, and makes a load due (DUE), which psd_loader_turn() decides. In PLACING
 * the report says that p has put its part into use. Sends nothing. */
void psd_loader_list_end(struct psd_task *t, struct psd_peer *p);
void psd_loader_encode_load(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
void psd_loader_encode_place(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
/** Call with p's answer r to order a. err NULL: p reports no error. r NULL: the connection of p is gone. r has the flag MORE:
 * further frames of the answer follow. */
void psd_loader_answered(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                         const struct psi_err *err);
void psd_loader_lost(struct psd_task *t, const struct psd_peer *p);
/** Number of the checkpoint that the setting `restore` names; 0: the setting is auto, latest or none. */
static inline uint64_t psd_loader_named(const struct psd_task *t)
{
    return t->config.restore < 0 ? (uint64_t) - (int64_t)t->config.restore : 0;
}
/** True while tasks load, put loaded content into use, or begin empty. Meanwhile nothing is created, reset or saved. */
static inline bool psd_loader_is_on(const struct psd_loader *s)
{
    return s->phase >= PSD_LOADER_LOADING;
}
/** True if values have moved since this load's checkpoint: some task's part of it does not fit the task's values (loader_held.c).
 * Then the load replaces the containers of these values (psd_loader_is_moved()) on all tasks. */
static inline bool psd_loader_strays(const struct psd_loader *s)
{
    return s->number != 0 && s->moved >= s->number;
}
static inline bool psd_loader_is_asked(const struct psd_loader *s)
{
    return s->reason == PSD_LOAD_ASKED;
}
static inline bool psd_loader_takes_part(const struct psd_loader_peer *of)
{
    return of->duty != PSD_DUTY_NONE;
}
/** True if clients have asked for this checkpoint: it is being restored, or clients wait for its restore to begin. */
static inline bool psd_loader_restores(const struct psd_task *t, uint64_t number)
{
    const struct psd_loader *s = t->loader;
    return number != 0 && s->asked.number == number && (psd_loader_is_asked(s) || !psi_list_empty(&s->asking));
}
/** True if this checkpoint must not be deleted: it is being loaded or restored, or is kept for a restore (psd_loader_keep()). */
static inline bool psd_loader_reads(const struct psd_task *t, uint64_t number)
{
    const struct psd_loader *s = t->loader;
    bool kept = s->kept == number && t->now_ms < s->kept_until_ms;
    return psd_loader_restores(t, number) || kept || (s->phase == PSD_LOADER_LOADING && s->number == number);
}
/** True if the clients' CHECKPOINT_RESTORE names containers (asked_of): only these are restored. */
static inline bool psd_loader_is_of_some(const struct psd_loader *s)
{
    return s->asked_of.count > 0;
}
/** Call at the end of each event: begins a load that is due, goes on with CHOOSING, ends SEALING once the values are saved. */
void psd_loader_turn(struct psd_task *t);
void psd_loader_tick(struct psd_task *t);

/* ---- loader.c ---- */
/** Call when a load may be needed: IDLE and SEALING become DUE, and psd_loader_turn() decides. */
void psd_loader_look(struct psd_task *t);
/** Call in the phase NOTING, when the directory's disk has written the bound of psd_loader_note_anew(), or has failed to. */
void psd_loader_noted(struct psd_task *t, bool failed);
/** Give up a load in CHOOSING or LOADING because memory is short or a disk is busy; decide again a second later. */
void psd_loader_again_later(struct psd_task *t);
void psd_loader_move(struct psd_task *t, enum psd_loader_phase to);
/** Forget the load (its reason and number, which tasks take part, what they have loaded), and go to phase `to`. */
void psd_loader_end(struct psd_task *t, enum psd_loader_phase to);
/** True if all tasks that take part in the present phase have finished. */
bool psd_loader_all_done(const struct psd_task *t);
/** True if a task that serves (does not wait for the directory) has a container that is not empty. */
bool psd_loader_anything_lives(const struct psd_task *t);

/* ---- loader_place.c: PLACING ---- */
/** Call when all tasks that take part have loaded: sends each the order to put its part into use. */
void psd_loader_place(struct psd_task *t);
/** Send TASK_PLACE without containers. waiting false: to the tasks that serve, so that they free what they have loaded. waiting
 * true: to the tasks that wait; with why NULL they begin empty, otherwise they go on waiting, and tell clients this reason. */
void psd_loader_place_nothing(struct psd_task *t, bool waiting, const char *why);
/** Call when p has answered TASK_PLACE. err (NULL: no error) is only logged. p is done when its next report has come; the
 * directory's own task, which sends no report, is done when its variables have their names. */
void psd_loader_place_answered(struct psd_task *t, const struct psd_peer *p, const struct psi_err *err);
/** Note that p has put its part into use. When all tasks that take part have, the load ends. */
void psd_loader_placed_by(struct psd_task *t, const struct psd_peer *p);
/** Call when a client's restore fails: the clients that asked get err, tasks free what they have loaded, nothing else changes. */
void psd_loader_ask_failed(struct psd_task *t, const struct psi_err *err);

/* ---- loader_held.c, loader_place.c ---- */
/** Bytes that the memory budget must count for psd_loader_peer.held of all tasks, added up anew. For a check of the budget. */
uint64_t psd_loader_bytes(const struct psd_task *t);
void psd_loader_held_fini(struct psd_task *t, struct psd_loader_peer *of);
/** Call when p begins to report what it has: forgets the earlier report of p. */
void psd_loader_list_begin(struct psd_task *t, const struct psd_peer *p);
/** Take in one item of p's report. INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
ps_status psd_loader_list_item(struct psd_task *t, const struct psd_peer *p, const ps_v1_ListItem *listed,
                               struct psi_err *err) PSI_MUST;
/** Note the containers that the directory's own task has. RESOURCE_EXHAUSTED. */
ps_status psd_loader_list_own(struct psd_task *t, struct psi_err *err) PSI_MUST;
/** Begin to walk over the names of all variables, to find containers made after a task's report, or with values of rounds. */
void psd_loader_look_begin(struct psd_task *t);
/** Examine the next psd_task_config.list_slice_rows names. *out_over: true after the last name. Later changes are noted by
 * psd_loader_made() and psd_loader_by_rounds() until the load is over. RESOURCE_EXHAUSTED. */
ps_status psd_loader_look_at_names(struct psd_task *t, bool *out_over, struct psi_err *err) PSI_MUST;
bool psd_loader_has_work(const struct psd_task *t);
/** Call when the task at p has created a variable or queue. Notes its container if a load is being decided or is under way. */
void psd_loader_made(struct psd_task *t, const struct psd_peer *p, const char *container);
/** Call when rounds may have made values of this container. Notes the container if a load is being decided or is under way. */
void psd_loader_by_rounds(struct psd_task *t, const char *container);
/** Find the container in the report of a task that serves (does not wait for the directory). NULL: no such task has it. */
const struct psd_containers_entry *psd_loader_living(const struct psd_task *t, const char *container);
/** True if the container is torn: one task uses what a load has brought of it, and another has loaded its part only. */
bool psd_loader_is_torn(const struct psd_task *t, const char *container);
bool psd_loader_any_torn(const struct psd_task *t);
/** True if all tasks must have the container's values of one instant: the setting `recover` is `cut` for the container, or
 * synchronous rounds may have made its values. */
bool psd_loader_is_together(const struct psd_task *t, const char *container);
bool psd_loader_any_together(const struct psd_task *t);

/** True if the task has reported what it has, and its connection is not closing. */
bool psd_loader_is_here(const struct psd_peer *p);
bool psd_loader_all_here(const struct psd_task *t);
/** A walk over the parts of c, which must not change during the walk. */
struct psd_loader_parts psd_loader_parts_of(const struct psd_checkpoint *c);
bool psd_loader_parts_next(struct psd_loader_parts *parts, struct psd_loader_part *out);
/** Find the part of c that p has written. False: p has written none. */
bool psd_loader_part_of(const struct psd_checkpoint *c, const struct psd_peer *p, struct psd_loader_part *out);
/** Find the task that loads this part: its writer, or a task with a copy. NULL: no task has the part. */
const struct psd_peer *psd_loader_reader(const struct psd_task *t, const struct psd_loader_part *part);
/** True if some part is not loaded by its writer: the writer is not in the job, or takes part in the load and lacks the part. */
bool psd_loader_has_others(const struct psd_task *t, const struct psd_checkpoint *c);
/** True if all tasks have to load c, not only those that wait. Reasons: psd_loader_has_others(); values have moved since c was
 * made (psd_loader_moved_most()); a task that waits has lost values of a psd_loader_is_together() container. */
bool psd_loader_adopts(const struct psd_task *t, const struct psd_checkpoint *c);
/** True if the values of c are to be distributed anew: the tasks that wrote c are not exactly the tasks of the job, and all tasks
 * of the job have disks. */
bool psd_loader_is_of_others(const struct psd_task *t, const struct psd_checkpoint *c);
/** True if a part of c that is to be loaded is missing: no task has it. */
bool psd_loader_missing(const struct psd_task *t, const struct psd_checkpoint *c);
/** Set `trained` of those containers in `of` that a task had trained before c was made, as the manifest of c says. A manifest by
 * an older psd does not say so: then a container counts as trained if c has a global step and no other container. */
void psd_loader_mark_trained(const struct psd_checkpoint *c, const struct psd_containers *of);
/** Say in buf what people can do about the part that psd_loader_missing() finds; "": none is missing. older: a checkpoint that
 * could be loaded instead (0: none). Returns buf. */
const char *psd_loader_missing_text(const struct psd_task *t, const struct psd_checkpoint *c, uint64_t older, char *buf,
                                    size_t n);
/** Describe what p loads: its own part in *what, the parts of other tasks in *out. FROM_ALL: all parts are in *out. The caller
 * frees *out with psi_free(), also on false. False: no memory. */
bool psd_loader_parts_for(struct psd_task *t, const struct psd_checkpoint *c, const struct psd_peer *p, ps_v1_StartItem *what,
                          ps_v1_StartItem **out, size_t *out_count);

/* ---- loader_place.c ---- */
/** Forget the names of p's variables in these containers, which the next report of p will list again. */
void psd_loader_forget_names(struct psd_task *t, const struct psd_peer *p, const struct psd_containers *of);
/** On the directory task: enter the names of its own variables that are missing in the directory. A variable whose name the
 * directory has at another task is dropped; variables of sessions are skipped. False: no memory for some name; call again. */
bool psd_loader_name_own(struct psd_task *t);

/* ---- loader_held.c: values that have moved ---- */
/** The highest psd_store.moved of all tasks: in checkpoints up to this number, some task's part does not fit the values that the
 * task uses now. 0: no value has moved. */
uint64_t psd_loader_moved_most(const struct psd_task *t);
/** True if values of the container may be on other tasks than in checkpoint `number`: a task that uses the container has reported
 * so, or no task uses it, and then nobody knows where its values were. */
bool psd_loader_is_moved(const struct psd_task *t, const char *container, uint64_t number);
/** True if this load puts values on other tasks than those that saved them, or loads an older checkpoint than the newest. */
bool psd_loader_moves(const struct psd_task *t);
/** True if in the newest checkpoint each value is in the part of the task that uses it, or if there is no checkpoint. */
bool psd_loader_is_sealed(const struct psd_task *t);
/** True if a task has lost values that have moved and that are in no checkpoint yet. */
bool psd_loader_is_strayed(const struct psd_task *t);

/* ---- loader_choice.c ---- */
/** Checkpoints up to this number existed when all tasks began empty (restore = none), so they are of another model: while a
 * container is in use, loader_choice.c passes them over. 0: no bound. The directory's disk has it as the bar of container "". */
static inline uint64_t psd_loader_anew(const struct psd_task *t)
{
    const struct psd_bar *bar = psd_bars_find(t, "");
    return bar == NULL ? 0 : bar->number;
}
/** Call before a start of all tasks: writes the bound psd_loader_anew() to disk as `number` (0: no bound), for a later directory.
 * True: the disk has the bound, or needs none because it has no manifest. False with *out_st PS_OK: the bound is being written,
 * and psd_loader_noted() tells the end. False with RESOURCE_EXHAUSTED: psd_loader_noted() is not called. */
bool psd_loader_note_anew(struct psd_task *t, uint64_t number, ps_status *out_st);
/** True if c can be loaded: it is not known to be damaged, no part is missing, and each task that loads wrote a part of c or may
 * begin without one. */
bool psd_loader_is_usable(const struct psd_task *t, const struct psd_checkpoint *c);
/** Choose the checkpoint for the tasks that take part. Returns NULL with *out_why NULL: no checkpoint; the tasks that wait begin
 * empty. Returns NULL with *out_why set: the tasks do not begin, for this reason; *out_why may point to buf. */
const struct psd_checkpoint *psd_loader_choose(struct psd_task *t, char *buf, size_t n, const char **out_why);

/* ---- loader_ask.c: CHECKPOINT_RESTORE ---- */
/** Check that the checkpoint can be restored. NOT_FOUND; UNAVAILABLE: a task is away; DATA_LOSS, FAILED_PRECONDITION: the
 * checkpoint's manifest or a part cannot be used, or a task has no checkpoint_dir. */
ps_status psd_loader_ask_check(const struct psd_task *t, uint64_t number, struct psi_err *err) PSI_MUST;
/** Put the container that a field of a message names into `of`, with this `start`. INVALID_ARGUMENT: a wrong name, or a session's
 * container; RESOURCE_EXHAUSTED. */
ps_status psd_loader_name_container(const struct psd_task *t, const pb_bytes_array_t *field, uint64_t start,
                                    struct psd_containers *of, struct psi_err *err) PSI_MUST;
/** Keep checkpoint `number` for ten minutes: a client will restore it after a save, and saves delete old ones. 0: keep none. */
void psd_loader_keep(struct psd_task *t, uint64_t number);
/** Call when the restore is over. err not NULL: the restore has failed, and the clients that asked get err. err NULL: all tasks
 * use the restored state; it is now saved as a new checkpoint, for later starts, and then the clients are answered. */
void psd_loader_ask_over(struct psd_task *t, const struct psi_err *err);

/* ---- saver_known.c ---- */
/** How many tasks load, how many of them are done, and how much of the whole is loaded, in millionths. */
void psd_loader_count(const struct psd_task *t, uint32_t *out_loads, uint32_t *out_done, uint32_t *out_share);

/* ---- loader.c ---- */
void psd_loader_check_invariants(const struct psd_task *t);

#endif

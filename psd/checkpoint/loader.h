/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load machine of the directory (DESIGN §9): which checkpoint tasks begin with, or go back to. The rules are those of
 * tests/models/checkpoint_model.py and docs/DURABILITY.md 7. psd/checkpoint/beside.h is one task's side of a load.
 *
 * The directory decides when all tasks of its job have listed and some of them wait. Where no container lives, all tasks load
 * the newest checkpoint that is decided, whole and not barred. Where containers live, the tasks that wait load that checkpoint.
 * They place their part of each container, and the other tasks keep theirs (`recover` partial); or the container goes back on
 * all tasks (`recover` cut, and always in rounds). Where such a container lives, all tasks load; if a task that does not wait
 * cannot load, the tasks that wait load alone, which may be enough. A container of which no task lacks a part is left alone. A
 * task that is new since the checkpoint has no part of it, and begins empty. Parts of tasks that are gone from the job are
 * loaded by tasks that have a copy (loader_parts.c), and then all tasks go back. At a start, a checkpoint with a part that no
 * task has is not replaced by an older one (loader_choice.c).
 *
 * CHECKPOINT_RESTORE (loader_ask.c) asks for a checkpoint, whatever lives: each container of the checkpoint goes back on all
 * tasks. The values may be dealt anew over all tasks (psd/store/deal.h).
 *
 * Values that other tasks place than have written them, or that are of an older checkpoint than the newest, are saved at once.
 * Until that checkpoint is whole, each task knows that its values are not those of its parts on disk (psd_store.moved). If a task
 * loses such values, all tasks go back to the newest checkpoint, as its parts are (loader_held.c). This state is no phase: it
 * outlives the directory.
 */
#ifndef PSD_CHECKPOINT_LOADER_H
#define PSD_CHECKPOINT_LOADER_H

#include "plan.h"
#include "beside.h"

#include "psd/base/orders.h"
#include "psd/session/wait.h"

struct psd_checkpoint;

/* What the directory does about a load. loader_phase.c has the table of ways from one phase to another. */
enum psd_loader_phase {
    PSD_LOADER_IDLE,     /* nothing is to be decided */
    PSD_LOADER_DUE,      /* a load may be needed; the decision waits until no reset, save or missing task is in the way */
    PSD_LOADER_CHOOSING, /* the directory looks at all names, slice by slice, and then chooses a checkpoint */
    PSD_LOADER_NOTING,   /* no container lives: our disk notes psd_loader_note_anew(); then the phase is DUE again */
    PSD_LOADER_LOADING,  /* tasks with a duty read and verify their parts */
    PSD_LOADER_PLACING,  /* tasks with a duty place what they have loaded, and list again */
    PSD_LOADER_NAMING,   /* PLACING ended because a task was lost; variables placed here still lack names, for want of memory */
    PSD_LOADER_PHASES
};

/* Whose parts the tasks load. */
enum psd_loader_from {
    PSD_LOADER_FROM_OWN,    /* each task loads the part that it has written */
    PSD_LOADER_FROM_OTHERS, /* a part is loaded by another task than its writer, or goes back to its writer */
    PSD_LOADER_FROM_ALL     /* the values are dealt over all tasks */
};

/* Whether a task has to do with the phase (LOADING: load; PLACING: place and list), and whether it has done so. */
enum psd_loader_duty { PSD_DUTY_NONE, PSD_DUTY_OPEN, PSD_DUTY_DONE };

/* A part of a checkpoint that lies beside the directory of a task. */
struct psd_loader_offer {
    /* volatile: */
    uint64_t number;
    uint32_t writer; /* 1 + index of the task that wrote the part */
};

/* The part of a checkpoint that one task has written: its state file. */
struct psd_loader_part {
    /* volatile: */
    uint64_t number, bytes;
    uint32_t task, sum;
    char job[PS_JOB_BYTES_MAX + 1];
};

/* A walk over all parts of a checkpoint. */
struct psd_loader_parts {
    /* volatile: */
    uint64_t number;
    struct psi_manifest_walk walk;
};

struct psd_loader_peer {
    /* volatile: */
    struct psd_loader_offer *offers;
    size_t offer_count, offer_capacity;
    uint64_t moved;               /* psd_store.moved of the task, as it listed; unused for this task itself */
    struct psd_containers held;   /* containers of the task that are not empty */
    struct psd_containers loaded; /* containers that the task has loaded, not placed yet */
    bool will_wait;               /* the list under way says that the task waits; psd_peer.waits from the list's end on */
    enum psd_loader_duty duty;    /* in LOADING and PLACING */
};

struct psd_loader {
    /* volatile: */
    enum psd_loader_phase phase;
    uint64_t names_cursor;           /* CHOOSING: names before this one were gone through */
    struct psd_containers by_rounds; /* containers whose values rounds may have made: all tasks hold the same round */
    uint64_t again_ms;               /* after a failure: no load begins before this time */
    /* in LOADING and PLACING. PLACING without a checkpoint: tasks that wait begin empty, or loaded content is freed */
    enum psd_load_reason reason;
    enum psd_loader_from from;
    uint64_t number; /* of the checkpoint; 0: none */
    uint64_t start;  /* random number of this load; answers to another load are ignored */
    uint64_t begun_ms;
    uint64_t moved;     /* psd_loader_moved_most() when the load began, for psd_loader_strays() */
    struct psi_err why; /* why a task cannot load. RESOURCE_EXHAUSTED, UNAVAILABLE: may pass. PS_OK: no task has failed so far */
    /* facts from earlier loads */
    enum psd_load_reason
        refused_as;        /* reason of the load that was refused to the tasks that wait; counts while psd_task.refused is set */
    int refused_by;        /* `restore` at that time: another value makes the directory look again */
    char why_refused[512]; /* psd_task.refused */
    bool torn_stays;       /* a container holds values of two loads, and no checkpoint on disk could replace both */
    uint64_t spared;       /* checkpoint that a task which does not wait cannot read: only tasks that wait load it; 0: none */
    uint64_t behind;       /* the log says already that another task's disk has this newer checkpoint; 0: nothing was logged */
    /* CHECKPOINT_RESTORE */
    struct psi_list asking;         /* struct psd_need */
    ps_v1_SavedNameItem asked;      /* the checkpoint that clients ask for; number 0: no client asks */
    struct psd_containers asked_of; /* the containers that are to be restored; empty: all that the checkpoint has */
    /* the checkpoint `kept` stays until kept_until_ms, because it is to be restored after a save; 0: none */
    uint64_t kept, kept_until_ms;
    struct psd_loader_peer *peers;
};

/** RESOURCE_EXHAUSTED. The directory only, behind psd_peers_init(). */
ps_status psd_loader_begin(struct psd_task *t, struct psi_err *err) PSI_MUST;
void psd_loader_fini(struct psd_task *t);
/** The last frame of a list of p was taken in. */
void psd_loader_list_end(struct psd_task *t, struct psd_peer *p);
/** TASK_LOAD and TASK_PLACE as frames. */
void psd_loader_encode_load(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
void psd_loader_encode_place(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
/** p has answered order a; err NULL: OK. A frame with MORE: more frames of the answer follow. r NULL: its connection is gone. */
void psd_loader_answered(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                         const struct psi_err *err);
/** p is not connected any more. */
void psd_loader_lost(struct psd_task *t, const struct psd_peer *p);
/** The checkpoint that the setting `restore` names; 0: `restore` is auto, latest or none. */
static inline uint64_t psd_loader_named(const struct psd_task *t)
{
    return t->config.restore < 0 ? (uint64_t) - (int64_t)t->config.restore : 0;
}
/** Tasks load or place a checkpoint. No variable is created, no container reset and no checkpoint cut meanwhile. */
static inline bool psd_loader_is_on(const struct psd_loader *s)
{
    return s->phase >= PSD_LOADER_LOADING;
}
/** Since this checkpoint was made, values have moved to other tasks, or have come from an older checkpoint: containers of which
 * that is so (psd_loader_is_moved()) go back on all tasks. */
static inline bool psd_loader_strays(const struct psd_loader *s)
{
    return s->number != 0 && s->moved >= s->number;
}
static inline bool psd_loader_is_asked(const struct psd_loader *s)
{
    return s->reason == PSD_LOAD_ASKED;
}
/** The task has a duty in this phase. */
static inline bool psd_loader_takes_part(const struct psd_loader_peer *of)
{
    return of->duty != PSD_DUTY_NONE;
}
/** Clients have asked for this checkpoint: it is being restored, or clients wait for that to begin. */
static inline bool psd_loader_restores(const struct psd_task *t, uint64_t number)
{
    const struct psd_loader *s = t->loader;
    return number != 0 && s->asked.number == number && (psd_loader_is_asked(s) || !psi_list_empty(&s->asking));
}
/** This checkpoint is being restored or loaded, or is kept to be restored next (psd_loader_keep()). It must not be deleted. */
static inline bool psd_loader_reads(const struct psd_task *t, uint64_t number)
{
    const struct psd_loader *s = t->loader;
    bool kept = s->kept == number && t->now_ms < s->kept_until_ms;
    return psd_loader_restores(t, number) || kept || (s->phase == PSD_LOADER_LOADING && s->number == number);
}
/** Clients have asked for the containers in asked_of alone, so only those go back. */
static inline bool psd_loader_is_of_some(const struct psd_loader *s)
{
    return s->asked_of.count > 0;
}
/** The end of an event. A load that is due begins if nothing is in its way. */
void psd_loader_turn(struct psd_task *t);
void psd_loader_tick(struct psd_task *t);

/* ---- loader_phase.c ---- */
/** A load may be needed: IDLE becomes DUE, and psd_loader_turn() decides. */
void psd_loader_look(struct psd_task *t);
/** NOTING is over: the bar of psd_loader_note_anew() is on our disk, or the disk has failed. */
void psd_loader_noted(struct psd_task *t, bool failed);
/** Give up a load in CHOOSING or LOADING, for want of memory or because a disk is busy, and decide again a second later. */
void psd_loader_again_later(struct psd_task *t);
/** Go to another phase; the way must be in the table of loader_phase.c. */
void psd_loader_move(struct psd_task *t, enum psd_loader_phase to);
/** Forget the load: reason, number, duties and the lists of loaded containers are cleared. Then go to another phase. */
void psd_loader_end(struct psd_task *t, enum psd_loader_phase to);
/** No task has an open duty. */
bool psd_loader_all_done(const struct psd_task *t);
/** A task that does not wait holds a container. */
bool psd_loader_anything_lives(const struct psd_task *t);

/* ---- loader_load.c: LOADING ---- */
/** Tell the tasks that have a duty to load checkpoint c, for psd_loader.reason. spreads: the values are dealt over all tasks. */
void psd_loader_load(struct psd_task *t, const struct psd_checkpoint *c, bool spreads);

/* ---- loader_place.c: PLACING ---- */
/** All tasks with a duty have loaded: tell them what they place. */
void psd_loader_place(struct psd_task *t);
/** waiting: tasks that wait begin empty; with why not NULL they go on waiting and tell clients why. Not waiting: tasks that do
 * not wait free what they have loaded. */
void psd_loader_place_nothing(struct psd_task *t, bool waiting, const char *why);
/** p has answered TASK_PLACE; err NULL: it has placed its part. */
void psd_loader_place_answered(struct psd_task *t, const struct psd_peer *p, const struct psi_err *err);
/** p has placed its part. When all tasks with a duty have, the load is over. */
void psd_loader_placed_by(struct psd_task *t, const struct psd_peer *p);
/** A restore cannot be carried out. Clients that wait get err, tasks free what they have loaded, and what lives stays. */
void psd_loader_ask_failed(struct psd_task *t, const struct psi_err *err);

/* ---- loader_held.c ---- */
/** Bytes of the memory budget for the containers in all `held` lists, counted anew. */
uint64_t psd_loader_bytes(const struct psd_task *t);
/** Free the list of containers that a task holds. */
void psd_loader_held_fini(struct psd_task *t, struct psd_loader_peer *of);
/** The first: a list of p begins. The second: an item of that list. RESOURCE_EXHAUSTED. */
void psd_loader_list_begin(struct psd_task *t, const struct psd_peer *p);
ps_status psd_loader_list_item(struct psd_task *t, const struct psd_peer *p, const ps_v1_ListItem *listed,
                               struct psi_err *err) PSI_MUST;
/** Note the containers that this task itself holds. RESOURCE_EXHAUSTED. */
ps_status psd_loader_list_own(struct psd_task *t, struct psi_err *err) PSI_MUST;
/** Begin to look at all names, from the first one, for containers that other tasks have got since they listed, and for containers
 * with values of rounds. */
void psd_loader_look_begin(struct psd_task *t);
/** Look at the next psd_task_config.list_slice_rows names. *out_over: all names were looked at; psd_loader_made() and
 * psd_loader_by_rounds() add later changes until the load is over. RESOURCE_EXHAUSTED. */
ps_status psd_loader_look_at_names(struct psd_task *t, bool *out_over, struct psi_err *err) PSI_MUST;
bool psd_loader_has_work(const struct psd_task *t);
/** The task at p has created something in this container. */
void psd_loader_made(struct psd_task *t, const struct psd_peer *p, const char *container);
/** Rounds may have made values of this container. */
void psd_loader_by_rounds(struct psd_task *t, const char *container);
/** The container as a task that does not wait holds it; NULL: the container lives nowhere. */
const struct psd_containers_entry *psd_loader_living(const struct psd_task *t, const char *container);
/** The first: one task has placed the container by a load by which another task that loaded it has not placed it. The second:
 * this is true of some container. */
bool psd_loader_is_torn(const struct psd_task *t, const char *container);
bool psd_loader_any_torn(const struct psd_task *t);
/** The first: `recover` says cut for the container: it goes back on all tasks where a task lacks a part. The second: a container
 * that lives is one of these. */
bool psd_loader_recovers_cut(const struct psd_task *t, const char *container);
bool psd_loader_any_recovers_cut(const struct psd_task *t);

/* ---- loader_parts.c ---- */
/** The task has listed, and its connection is not closing. */
bool psd_loader_is_here(const struct psd_peer *p);
/** The first: begin a walk over the parts of c, which must not change meanwhile. The second: the next part; false: there
 * is none. */
void psd_loader_parts_begin(const struct psd_checkpoint *c, struct psd_loader_parts *out);
bool psd_loader_parts_next(struct psd_loader_parts *parts, struct psd_loader_part *out);
/** The part of c that p has written; false: p has written none. */
bool psd_loader_part_of(const struct psd_checkpoint *c, const struct psd_peer *p, struct psd_loader_part *out);
/** A task lists that it could load this part, which another task wrote. Without memory the offer is ignored. */
void psd_loader_offer(struct psd_loader_peer *of, uint64_t number, uint32_t writer);
/** The task that loads this part; NULL: no task has it. */
const struct psd_peer *psd_loader_reader(const struct psd_task *t, const struct psd_loader_part *part);
/** The writer of a part is not in the job; or a writer with a duty does not load its own part. */
bool psd_loader_has_others(const struct psd_task *t, const struct psd_checkpoint *c);
/** All tasks have to load c: psd_loader_has_others() is true, or values have moved since c was made (psd_loader_moved_most()). */
bool psd_loader_adopts(const struct psd_task *t, const struct psd_checkpoint *c);
/** Each task of the job has a checkpoint_dir. */
bool psd_loader_have_disks(const struct psd_task *t);
/** Checkpoint c can be dealt over all tasks (all have disks), and its writers are not exactly the tasks of the job. */
bool psd_loader_is_of_others(const struct psd_task *t, const struct psd_checkpoint *c);
/** A part is to be loaded, and no task has it. *out: this part; one of a writer that is not in the job comes
 * first (*out_gone). */
bool psd_loader_missing(const struct psd_task *t, const struct psd_checkpoint *c, struct psd_loader_part *out, bool *out_gone);
/** Marks the containers of `of` in which some task trained something before c was cut. A manifest of an older psd does not say
 * that of each container. Its global step counts instead, where all its values are of one container. */
void psd_loader_mark_trained(const struct psd_checkpoint *c, const struct psd_containers *of);
/** Put into buf what people can do about a part that psd_loader_missing() finds; "": none is missing. older: the checkpoint that
 * could be loaded instead (0: none). Returns buf. */
const char *psd_loader_missing_text(const struct psd_task *t, const struct psd_checkpoint *c, uint64_t older, char *buf,
                                    size_t n);
/** In the load under way all tasks load, and tasks load parts that others wrote. */
bool psd_loader_is_adopting(const struct psd_loader *s);
/** Describe what p loads: p's own part in *what, and parts of other tasks, where psd_loader_is_adopting(), in *out. FROM_ALL: all
 * parts are in *out. *out is for psi_free(), also on false. False: no memory. */
bool psd_loader_parts_for(struct psd_task *t, const struct psd_checkpoint *c, const struct psd_peer *p, ps_v1_StartItem *what,
                          ps_v1_StartItem **out, size_t *out_count);

/** Forget the names that p owns in these containers; the next list of p brings them again. */
void psd_loader_forget_names(struct psd_task *t, const struct psd_peer *p, const struct psd_containers *of);
/** Record the names of this task's variables that have none yet. True: all variables have names. */
bool psd_loader_name_own(struct psd_task *t);

/* ---- loader_held.c: values that have moved ---- */
/** The highest psd_store.moved of all tasks: in checkpoints up to this number some values that live are in the parts of other
 * tasks, or are of another history. 0: no values have moved. */
uint64_t psd_loader_moved_most(const struct psd_task *t);
/** The values of this container have moved, or may have, since the checkpoint with this number: a task says so, or the container
 * lives nowhere. */
bool psd_loader_is_moved(const struct psd_task *t, const char *container, uint64_t number);
/** After this load the values that live are not those of the tasks' own parts of the newest checkpoint: other tasks load them
 * than have written them, or all tasks have gone back to an older checkpoint. */
bool psd_loader_moves(const struct psd_task *t);
/** Values have moved and are not saved yet, and a task has lost its share of them. */
bool psd_loader_is_strayed(const struct psd_task *t);

/* ---- loader_choice.c ---- */
/** All tasks began empty (restore = none) although checkpoints up to this number were there: those are of another model, and none
 * of them is loaded beside what lives. 0: there is no such bound. It is the bar of our disk without a container name. */
static inline uint64_t psd_loader_anew(const struct psd_task *t)
{
    const struct psd_bar *bar = psd_bars_find(t, "");
    return bar == NULL ? 0 : bar->number;
}
/** Before all tasks begin: make psd_loader_anew() this number on our disk, so that the next directory keeps to it as well. True:
 * the disk has it already. False with *out_st PS_OK: the disk is writing, and psd_loader_noted() is called at the end, also when
 * the disk fails (bars_not_written). False with *out_st RESOURCE_EXHAUSTED: psd_loader_noted() is not called. */
bool psd_loader_note_anew(struct psd_task *t, uint64_t number, ps_status *out_st);
/** c can be loaded: it is not known to be damaged, each task that loads has a part or may begin empty because it is new, and no
 * part is missing (psd_loader_missing()). */
bool psd_loader_is_usable(const struct psd_task *t, const struct psd_checkpoint *c);
/** The checkpoint for the tasks that have a duty (psd_loader_peer.duty). NULL with *out_why NULL: there is none, and tasks that
 * wait begin empty. NULL with *out_why set: why they do not begin; the text may be in buf. */
const struct psd_checkpoint *psd_loader_choose(struct psd_task *t, char *buf, size_t n, const char **out_why);

/* ---- loader_ask.c: CHECKPOINT_RESTORE ---- */
/** Whether this checkpoint can be restored: UNAVAILABLE (a task is away), NOT_FOUND, FAILED_PRECONDITION (a part is on
 * no task). */
ps_status psd_loader_ask_check(const struct psd_task *t, uint64_t number, struct psi_err *err) PSI_MUST;
/** A checkpoint is made before checkpoint `number` is restored. Keep `number` for ten minutes, so that the new checkpoint does
 * not push it out; 0: keep none. */
void psd_loader_keep(struct psd_task *t, uint64_t number);
/** The restore is over. err NULL: the restored checkpoint lives. A new checkpoint is made of it, so that a later start does not
 * load a newer one instead; clients that asked get their answer when it is saved. err: clients get err at once. */
void psd_loader_ask_over(struct psd_task *t, const struct psi_err *err);

/* ---- shares.c ---- */
/** How many tasks load, how many of them are done, and how much of the whole is loaded, in millionths. */
void psd_loader_count(const struct psd_task *t, uint32_t *out_loads, uint32_t *out_done, uint32_t *out_share);

void psd_loader_check_invariants(const struct psd_task *t);

#endif

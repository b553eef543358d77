/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load machine of the directory (DESIGN §9): which checkpoint tasks begin with, or go back to. The rules are those of
 * tests/models/checkpoint_model.py and docs/DURABILITY.md 7; what one task makes of them is psd/checkpoint/beside.h.
 *
 * The directory decides when all tasks of its job have listed and some of them wait. Where nothing lives, all load the newest
 * checkpoint that is decided, whole and not barred. Where something lives, those that wait load it. Of each container they get
 * their part, and the others keep theirs (`recover` partial); or the container goes back everywhere (`recover` cut, and always in
 * rounds). Where such a container lives all load; if a task that lives cannot, those that wait load alone, which may be enough. A
 * container of which nobody lacks a part is left alone. A task that is new since the checkpoint has no part of it, and begins
 * empty. Parts of tasks that the job does not have are loaded by tasks that have a copy (loader_parts.c), and all go back then.
 * Where a part is nowhere, nothing older is loaded instead (loader_choice.c).
 *
 * CHECKPOINT_RESTORE (loader_ask.c) asks for a checkpoint, whatever lives: each container that it has goes back everywhere. Its
 * values may be dealt anew over all tasks (psd/store/deal.h).
 *
 * What was dealt anew, or is of an older checkpoint than the newest, is saved at once. Before that is whole each task knows that
 * what it has lies elsewhere (psd_store.moved); a task that loses it makes all go back to the newest checkpoint, as its parts are
 * (loader_moved.c). This state is no phase: it outlives the directory.
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
    PSD_LOADER_IDLE,     /* nothing is to be decided, as far as is known */
    PSD_LOADER_DUE,      /* something may have to be loaded: that is decided as soon as nothing is in the way */
    PSD_LOADER_CHOOSING, /* the names that the directory knows are gone through in slices; what is loaded is decided at their end
                          */
    PSD_LOADER_NOTING,   /* nothing lives: our disk notes of which checkpoints nothing will; then it is decided again */
    PSD_LOADER_LOADING,  /* those who load read and verify */
    PSD_LOADER_PLACING,  /* what they have loaded is to live: until they have listed again */
    PSD_LOADER_NAMING,   /* a task was lost meanwhile, and there was no memory to name what was placed here */
    PSD_LOADER_PHASES
};

/* Whose parts the tasks load. */
enum psd_loader_from {
    PSD_LOADER_FROM_OWN,    /* each task loads the part that it has written */
    PSD_LOADER_FROM_OTHERS, /* a part is loaded by another task than its writer, or goes back to its writer */
    PSD_LOADER_FROM_ALL     /* the values are dealt over all tasks */
};

/* What a task has to do in a phase. */
enum psd_loader_duty { PSD_DUTY_NONE, PSD_DUTY_OPEN, PSD_DUTY_DONE };

/* A container as a task lists it. */
struct psd_loader_held {
    /* volatile: */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t start, next, moved; /* as of psd_container */
};

/* A part of a checkpoint that lies beside the directory of a task. */
struct psd_loader_offer {
    /* volatile: */
    uint64_t number;
    uint32_t writer; /* 1 + its index */
};

/* What a task has written of a checkpoint: its state file. */
struct psd_loader_part {
    /* volatile: */
    uint64_t number, bytes;
    uint32_t task, sum;
    char job[PS_JOB_BYTES_MAX + 1];
};

/* All parts of a checkpoint, one after the other. */
struct psd_loader_parts {
    /* volatile: */
    const struct psd_checkpoint *of;
    const uint8_t *at;
    size_t left;
};

/* What a container that a task holds takes of the memory budget: its place in `held`, and half of one for the room to which
 * `held` doubles, and its entry of the map. It is counted, and never refused for the budget. */
enum { PSD_LOADER_HELD_BYTES = 3 * sizeof(struct psd_loader_held) / 2 + PSI_MAP_ENTRY_BYTES + 32 };

struct psd_loader_peer {
    /* volatile: */
    struct psd_loader_offer *offers;
    size_t offer_count, offer_capacity;
    uint64_t moved;               /* as of psd_store; of our own that one counts */
    uint64_t elsewhere;           /* checkpoint of which another task has placed what this one had written; 0: none */
    struct psd_loader_held *held; /* containers that have something there */
    size_t held_count, held_capacity;
    struct psi_map held_places;   /* container -> 1 + its index in `held` */
    struct psd_containers loaded; /* containers of what it has loaded */
    bool will_wait;               /* what it lists now says so: psd_peer.waits when that is over */
    enum psd_loader_duty duty;    /* LOADING, PLACING */
};

struct psd_loader {
    /* volatile: */
    enum psd_loader_phase phase;
    uint64_t names_cursor;           /* CHOOSING: names before this one were gone through */
    struct psd_containers by_rounds; /* containers whose values rounds may have made: they are of one round everywhere */
    uint64_t again_ms;               /* before then nothing is tried again */
    /* LOADING, PLACING. PLACING without a checkpoint: who waits begins empty, or what was loaded is let go */
    enum psd_load_reason reason;
    enum psd_loader_from from;
    uint64_t number; /* of the checkpoint; 0: none */
    uint64_t start;  /* tells this load from others */
    uint64_t begun_ms;
    uint64_t moved;     /* psd_loader_moved_most() when the load began: psd_loader_strays() */
    struct psi_err why; /* why a task cannot load: DATA_LOSS for good, another code for now. PS_OK: all can so far */
    /* what was found out about loads before */
    enum psd_load_reason
        refused_as;        /* reason of the load that was refused to the tasks that wait; counts while psd_task.refused is set */
    int refused_by;        /* `restore` at that time: another value makes the directory look again */
    char why_refused[512]; /* psd_task.refused */
    bool torn_stays;       /* a container holds values of two loads, and no checkpoint on disk could replace both */
    uint64_t spared; /* a task that lives cannot read this one: only those who wait load it, which may be enough; 0: none is so */
    uint64_t behind; /* up to this number it was said that our disk is behind another task's */
    /* CHECKPOINT_RESTORE */
    struct psi_list asking;         /* struct psd_need */
    ps_v1_SavedNameItem asked;      /* what clients ask for; number 0: nobody asks */
    struct psd_containers asked_of; /* the containers that are to be restored; empty: all that the checkpoint has */
    /* the checkpoint `kept` stays until kept_until_ms, because it is to be restored after a save; 0: none */
    uint64_t kept, kept_until_ms;
    struct psd_loader_peer *peers;
};

/** RESOURCE_EXHAUSTED. The directory only, behind psd_peers_init(). */
ps_status psd_loader_begin(struct psd_task *t, struct psi_err *err) PSI_MUST;
void psd_loader_fini(struct psd_task *t);
/** A list of p is over and taken in. */
void psd_loader_list_end(struct psd_task *t, struct psd_peer *p);
/** TASK_LOAD and TASK_PLACE as frames. */
void psd_loader_encode_load(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
void psd_loader_encode_place(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
/** p has answered, err NULL: OK. A frame with MORE: its list goes on. */
void psd_loader_answered(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                         const struct psi_err *err);
/** p is not connected any more. */
void psd_loader_lost(struct psd_task *t, const struct psd_peer *p);
/** The one that the setting `restore` names; 0: none. */
static inline uint64_t psd_loader_named(const struct psd_task *t)
{
    return t->config.restore < 0 ? (uint64_t) - (int64_t)t->config.restore : 0;
}
/** Tasks load a checkpoint, or place it: nothing is made, reset or saved meanwhile. */
static inline bool psd_loader_is_on(const struct psd_loader *s)
{
    return s->phase >= PSD_LOADER_LOADING;
}
/** The checkpoint has values that live elsewhere, or that are of another history, since: those go back everywhere. */
static inline bool psd_loader_strays(const struct psd_loader *s)
{
    return s->number != 0 && s->moved >= s->number;
}
static inline bool psd_loader_is_asked(const struct psd_loader *s)
{
    return s->reason == PSD_LOAD_ASKED;
}
/** The task has to do with the phase. */
static inline bool psd_loader_takes_part(const struct psd_loader_peer *of)
{
    return of->duty != PSD_DUTY_NONE;
}
/** This one is restored because somebody has asked for that, or somebody waits for it to be. */
static inline bool psd_loader_restores(const struct psd_task *t, uint64_t number)
{
    const struct psd_loader *s = t->loader;
    return number != 0 && s->asked.number == number && (psd_loader_is_asked(s) || !psi_list_empty(&s->asking));
}
/** This checkpoint is restored, or tasks load it, or it is kept to be restored next. */
static inline bool psd_loader_reads(const struct psd_task *t, uint64_t number)
{
    const struct psd_loader *s = t->loader;
    bool kept = s->kept == number && t->now_ms < s->kept_until_ms;
    return psd_loader_restores(t, number) || kept || (s->phase == PSD_LOADER_LOADING && s->number == number);
}
/** Only the containers of asked_of go back, because somebody asked for them alone. */
static inline bool psd_loader_is_of_some(const struct psd_loader *s)
{
    return s->asked_of.count > 0;
}
/** The end of an event: a load begins when it can. */
void psd_loader_turn(struct psd_task *t);
void psd_loader_tick(struct psd_task *t);

/* ---- loader_phase.c ---- */
/** Something may have to be loaded: that is decided at the end of an event. */
void psd_loader_look(struct psd_task *t);
/** NOTING: what psd_loader_note_anew() has asked for is on our disk, or has failed. */
void psd_loader_noted(struct psd_task *t, bool failed);
/** What was found out cannot be kept, for want of memory: what is chosen or loaded now is given up, and decided again later. */
void psd_loader_again_later(struct psd_task *t);
/** The phase changes. */
void psd_loader_move(struct psd_task *t, enum psd_loader_phase to);
/** Nothing is loaded any more, and the phase changes. */
void psd_loader_end(struct psd_task *t, enum psd_loader_phase to);
/** All who take part have done what the phase is for. */
bool psd_loader_all_done(const struct psd_task *t);
/** A task that does not wait holds a container. */
bool psd_loader_anything_lives(const struct psd_task *t);

/* ---- loader_load.c: LOADING ---- */
/** Checkpoint c is loaded by those who have a duty, for psd_loader.reason. spreads: its values are dealt over all tasks. */
void psd_loader_load(struct psd_task *t, const struct psd_checkpoint *c, bool spreads);

/* ---- loader_place.c: PLACING ---- */
/** All have loaded. */
void psd_loader_place(struct psd_task *t);
/** Those who wait begin empty, or, why not NULL, go on waiting. Or, not waiting, the others let go of what they have loaded. */
void psd_loader_place_nothing(struct psd_task *t, bool waiting, const char *why);
/** p has placed it. When all have, the load is over. */
void psd_loader_placed_by(struct psd_task *t, const struct psd_peer *p);
/** What somebody asked for cannot be: all stays as it was. */
void psd_loader_ask_failed(struct psd_task *t, const struct psi_err *err);

/* ---- loader_held.c ---- */
/** What the containers that tasks hold take of the budget, counted anew. */
uint64_t psd_loader_bytes(const struct psd_task *t);
/** None is held by this task any more. */
void psd_loader_held_fini(struct psd_task *t, struct psd_loader_peer *of);
/** What this task itself holds. RESOURCE_EXHAUSTED also where something that others hold could not be noted. */
/** A list of p begins; an item of it. */
void psd_loader_list_begin(struct psd_task *t, const struct psd_peer *p);
ps_status psd_loader_list_item(struct psd_task *t, const struct psd_peer *p, const ps_v1_ListItem *listed,
                               struct psi_err *err) PSI_MUST;
/** What everybody holds now, and what rounds have made. RESOURCE_EXHAUSTED. */
ps_status psd_loader_list_own(struct psd_task *t, struct psi_err *err) PSI_MUST;
/** What others have made since they listed, and what rounds have made, is noted from the first name on. */
void psd_loader_look_begin(struct psd_task *t);
/** Go on with that: at psd_task_config.list_slice_rows names. *out_over: it is over, and until the load that is decided is over
 * psd_loader_made() and psd_loader_by_rounds() keep it true. */
ps_status psd_loader_look_at_names(struct psd_task *t, bool *out_over, struct psi_err *err) PSI_MUST;
bool psd_loader_has_work(const struct psd_task *t);
/** The task at p has something in this container. */
void psd_loader_made(struct psd_task *t, const struct psd_peer *p, const char *container);
/** Rounds may have made values of this container. */
void psd_loader_by_rounds(struct psd_task *t, const char *container);
/** NULL: it has nothing of that container. */
struct psd_loader_held *psd_loader_find_held(const struct psd_loader_peer *of, const char *container);
/** Some task holds it that does not wait; NULL: it lives nowhere. */
const struct psd_loader_held *psd_loader_living(const struct psd_task *t, const char *container);
/** One task has placed it by a start that another has loaded for and not placed; there is such a container. */
bool psd_loader_is_torn(const struct psd_task *t, const char *container);
bool psd_loader_any_torn(const struct psd_task *t);
/** By `recover` that container goes back everywhere, where somebody lacks it; there is such a one among those that live. */
bool psd_loader_recovers_cut(const struct psd_task *t, const char *container);
bool psd_loader_any_recovers_cut(const struct psd_task *t);

/* ---- loader_parts.c ---- */
/** It has listed, and is connected. */
bool psd_loader_is_here(const struct psd_peer *p);
/** Before the first one; c stays as it is meanwhile. False: that was the last one. */
void psd_loader_parts_begin(const struct psd_checkpoint *c, struct psd_loader_parts *out);
bool psd_loader_parts_next(struct psd_loader_parts *parts, struct psd_loader_part *out);
/** What p has written of it; false: nothing. */
bool psd_loader_part_of(const struct psd_checkpoint *c, const struct psd_peer *p, struct psd_loader_part *out);
/** It lists that it could load that. */
void psd_loader_offer(struct psd_loader_peer *of, uint64_t number, uint32_t writer);
/** Who loads it; NULL: nobody has it. */
const struct psd_peer *psd_loader_reader(const struct psd_task *t, const struct psd_loader_part *part);
/** Some part that is to be loaded, as psd_loader_peer.duty says, is so by another task than its writer, or by its writer while
 * another one has what is in it. */
bool psd_loader_has_others(const struct psd_task *t, const struct psd_checkpoint *c);
/** psd_loader_has_others() holds, and everything goes back everywhere; or something of the checkpoint lives elsewhere since, or
 * is of another history, and each container of which that is so goes back everywhere. All tasks load it in both cases. */
bool psd_loader_adopts(const struct psd_task *t, const struct psd_checkpoint *c);
/** It is about to be placed: whose parts another task has from now on, and who has its own again. */
void psd_loader_note_elsewhere(struct psd_task *t);
/** Each task of the job has a checkpoint_dir. */
bool psd_loader_have_disks(const struct psd_task *t);
/** It can be dealt over all tasks, and some of them have no part of it, or others have one. */
bool psd_loader_is_of_others(const struct psd_task *t, const struct psd_checkpoint *c);
/** A part that is to be loaded, and which nobody has. *out_gone: its writer is no task of the job. */
bool psd_loader_missing(const struct psd_task *t, const struct psd_checkpoint *c, struct psd_loader_part *out, bool *out_gone);
/** Marks the containers of `of` in which some task trained something before c was cut. A manifest of an older psd does not say
 * that of each container. Its global step counts instead, where all its values are of one container. */
void psd_loader_mark_trained(const struct psd_checkpoint *c, const struct psd_containers *of);
/** What to do about that, for people; older: that could be loaded instead (0: none). Returns buf. */
const char *psd_loader_missing_text(const struct psd_task *t, const struct psd_checkpoint *c, uint64_t older, char *buf,
                                    size_t n);
/** All tasks load: psd_loader_adopts() of the checkpoint that is loaded. */
bool psd_loader_is_adopting(const struct psd_loader *s);
/** What p loads: its own part into what, and others' where psd_loader_is_adopting(); FROM_ALL: all into *out, for psi_free().
 * False: no memory, *out too.
 */
bool psd_loader_parts_for(struct psd_task *t, const struct psd_checkpoint *c, const struct psd_peer *p, ps_v1_StartItem *what,
                          ps_v1_StartItem **out, size_t *out_count);

/* ---- loader_names.c ---- */
/** What p has in these containers is forgotten here, until p says it again. */
void psd_loader_forget_names(struct psd_task *t, const struct psd_peer *p, const struct psd_containers *of);
/** Name what was placed here of that container. False: there was no memory for all names. */
bool psd_loader_name_own(struct psd_task *t, const char *container);
/** Name what could not be; true: all of it is named. */
bool psd_loader_name_rest(struct psd_task *t);

/* ---- loader_moved.c ---- */
/** Checkpoints up to this number have what lives on some task elsewhere; 0: none has. */
uint64_t psd_loader_moved_most(const struct psd_task *t);
/** That is so, or may be so, of this container and of the checkpoint with this number: some task says it, or the container lives
 * nowhere. */
bool psd_loader_is_moved(const struct psd_task *t, const char *container, uint64_t number);
/** What is loaded goes back everywhere, and lies elsewhere in the newest checkpoint, or has another history than that checkpoint.
 */
bool psd_loader_moves(const struct psd_task *t);
/** Nothing was saved since such a one was placed, and some task has lost what it had of it. */
bool psd_loader_is_strayed(const struct psd_task *t);

/* ---- loader_choice.c ---- */
/** All began empty though checkpoints up to this one were there, as restore = none had it: they are of another model than what
 * lives, and nothing of them is set beside it. 0: what lives may be of any. A bar of our disk that names no container. */
static inline uint64_t psd_loader_anew(const struct psd_task *t)
{
    const struct psd_bar *bar = psd_bars_find(t, "");
    return bar == NULL ? 0 : bar->number;
}
/** Nothing lives, and what will is of no checkpoint up to this number: our disk says so first, for the next directory has its
 * manifests from there, too. True: it does. Otherwise *out_st: PS_OK, and psd_loader_noted() is called when it does, or when it
 * fails (bars_not_written); or RESOURCE_EXHAUSTED. */
bool psd_loader_note_anew(struct psd_task *t, uint64_t number, ps_status *out_st);
/** All who load it have their part, or were not there then and have lost nothing since; parts of those who are gone are there. */
bool psd_loader_is_usable(const struct psd_task *t, const struct psd_checkpoint *c);
/** What those who load (psd_loader_peer.duty) are to load; NULL: nothing. *out_why, which may be in buf: they do not begin, and
 * why; NULL: those who wait begin, empty where there is nothing. */
const struct psd_checkpoint *psd_loader_choose(struct psd_task *t, char *buf, size_t n, const char **out_why);

/* ---- loader_ask.c: CHECKPOINT_RESTORE ---- */
/** Whether it can be restored: UNAVAILABLE (a task is away), NOT_FOUND, FAILED_PRECONDITION (a part of it is on no task). */
ps_status psd_loader_ask_check(const struct psd_task *t, uint64_t number, struct psi_err *err) PSI_MUST;
/** A checkpoint is made before checkpoint `number` is restored. The new one is not to push this one out. */
void psd_loader_keep(struct psd_task *t, uint64_t number);
/** err NULL: the restored checkpoint lives. A new checkpoint of it is made, so that a later start does not load a newer one
 * instead. The clients that asked are told when the new one is saved. With err they are told at once. */
void psd_loader_ask_over(struct psd_task *t, const struct psi_err *err);

/* ---- shares.c ---- */
/** Those that load, and which of them are done; *out_share: of all that is loaded, in millionths. */
void psd_loader_count(const struct psd_task *t, uint32_t *out_loads, uint32_t *out_done, uint32_t *out_share);

void psd_loader_check_invariants(const struct psd_task *t);

#endif

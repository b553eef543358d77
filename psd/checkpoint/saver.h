/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The save machine of the directory (DESIGN §9): when all tasks of its job save, and which checkpoints are there. The rules are
 * those of tests/models/checkpoint_model.py; what one task makes of them is psd/checkpoint/shards.h.
 */
#ifndef PSD_CHECKPOINT_SAVER_H
#define PSD_CHECKPOINT_SAVER_H

#include "shards.h"

#include "psd/base/orders.h"
#include "psd/session/steps.h"
#include "psd/session/wait.h"

/* What the directory does about a checkpoint. saver_steps.c has the table of ways from one phase to another. */
enum psd_saver_phase {
    PSD_SAVER_IDLE,
    PSD_SAVER_LOOKING,  /* tasks say whether the newest whole checkpoint has all that they have. If so, no checkpoint is made */
    PSD_SAVER_CUTTING,  /* tasks write their parts */
    PSD_SAVER_DECIDING, /* our own manifest is on its way to our disk */
    PSD_SAVER_TELLING,  /* it is there: the others write theirs. A load may begin */
    PSD_SAVER_PHASES
};

/* Whether a checkpoint is to be made as soon as it can be. */
enum psd_saver_want { PSD_SAVER_NOT_WANTED, PSD_SAVER_IF_NEW /* if something is new */, PSD_SAVER_ANYWAY };

/* A checkpoint whose manifest is on our disk. */
struct psd_checkpoint {
    /* volatile: */
    struct psi_list link; /* of psd_saver, by number */
    ps_v1_SaveItem what;
    struct psi_buf manifest; /* the file */
    char bad[PSD_BAD_BYTES]; /* why a part of it could not be loaded; "": that is not known (loader.h) */
};

struct psd_saver_peer {
    /* volatile: */
    bool has_disk;     /* as it lists; of this task itself always, whether its disk can be read or not */
    bool done;         /* in this phase */
    uint64_t again_ms; /* TELLING: it could not; then it is told again. 0: no */
    struct psd_saver_listed {
        uint64_t number;
        bool whole;
    } * listed; /* shards, as of its list and since then */
    uint32_t listed_count, listed_capacity;
};

/* A container, as tasks say that they have it at the cut; or one that a task has values of, or has deleted some of. */
struct psd_saver_part {
    /* volatile: */
    uint32_t peer; /* PSD_NO_PEER: the container, of all tasks */
    uint32_t notes;
    uint32_t bare_at; /* peer that has `bare` */
    uint64_t step;    /* highest global step that a task has said, + 1; 0: no task has said one */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char bare[PS_NAME_BYTES_MAX + 1]; /* a variable without a value; "": none is known by name */
};

/* Up to where some task that has listed bars the checkpoints of a container. */
struct psd_saver_bar {
    /* volatile: */
    uint64_t number;
    char container[PS_CONTAINER_BYTES_MAX + 1];
};

/* What a part of a container, and a bar, take of the memory budget, with their entry of a map and its key. They are counted, and
 * never refused for the budget. */
enum {
    PSD_SAVER_PART_BYTES = (sizeof(struct psd_saver_part) + 8 + 15) / 16 * 16 + PSI_MAP_ENTRY_BYTES + 32,
    PSD_SAVER_BAR_BYTES = (sizeof(struct psd_saver_bar) + 8 + 15) / 16 * 16 + PSI_MAP_ENTRY_BYTES + 32
};

struct psd_saver {
    /* volatile: */
    struct psd_resets resets; /* resets whose bar is on its way to our disk, and which have not begun */
    struct psi_map bars;      /* container -> struct psd_saver_bar */
    bool ready;               /* the manifests on our disk are known */
    bool resumed;             /* resets that our disk says are open have begun again */
    uint64_t reading;         /* number of the manifest that is being read */
    struct psi_buf read;
    struct psi_list known; /* struct psd_checkpoint */
    uint32_t known_count;
    uint64_t first, last;         /* numbers that were ever known; 0: none was */
    uint64_t found;               /* highest number on our disk when it was read */
    bool settled;                 /* what was found without a manifest has gone, or is known to be decided */
    uint64_t highest;             /* of all tasks that have listed */
    struct psd_saver_peer *peers; /* by peer */
    bool names_checked;           /* psd_saver_check_names(): since the last list no owner has lost any */
    bool names_left;              /* the check of names goes on in the next psd_task_work() */
    uint64_t names_cursor;        /* names before this one are checked: their owners have them */
    /* volatile: when */
    enum psd_saver_want want;
    bool begun;         /* an attempt was begun in this life of the directory */
    uint64_t since_ms;  /* the next checkpoint by time counts from here */
    uint64_t looked_ms; /* last look at the sessions' global steps */
    uint64_t last_ms;   /* when a task that ends asked for a last one */
    uint64_t again_ms;  /* time of the next try, while no checkpoint can be made */
    uint64_t step;      /* highest global step that the sessions say, + 1; 0: none. Steps of each container: rpc/steps.h */
    bool warned;        /* the log says that no checkpoint can be made */
    bool makes_room;    /* the last attempt found a disk full, and older checkpoints have gone for the next one */
    /* the last checkpoint, which a task that ends has asked for and which had something new in it, has failed */
    bool last_failed;
    uint64_t failed_ms;     /* when the last attempt failed or was refused; 0: it did not fail */
    uint64_t failed_number; /* number of the attempt that failed; 0: it could not be begun */
    uint64_t failed_count;  /* attempts that have failed since then; what could not be begun is none */
    struct psi_err failed_err;
    char failed[352]; /* for people: which attempt failed, and why */
    /* volatile: the attempt */
    enum psd_saver_phase phase;
    ps_v1_SaveItem what;
    uint64_t begun_ms;
    /* LOOKING: number of the newest whole checkpoint; where none is whole, a number that no checkpoint has */
    uint64_t looked_at;
    uint64_t same;        /* number of the checkpoint that had all that the tasks have cut so far; 0: there is none */
    bool hurries;         /* a task ends: all tasks were told to write the checkpoint as fast as they can */
    struct psi_buf files; /* FileItems */
    struct psi_map parts; /* peer, container -> struct psd_saver_part */
    /* struct psd_need of CHECKPOINT, and of CHECKPOINT_RESTORE once its checkpoint is placed. asked: wait for the next attempt.
     * served: wait for this one. */
    struct psi_list asked, served;
    struct psi_list deleting; /* struct psd_need of CHECKPOINT_DELETE */
};

/** RESOURCE_EXHAUSTED. The directory only, behind psd_peers_init(). */
ps_status psd_saver_begin(struct psd_task *t, struct psi_err *err) PSI_MUST;
void psd_saver_fini(struct psd_task *t);
/** A list of p begins; an item of it; it is over and taken in. */
void psd_saver_list_begin(struct psd_task *t, const struct psd_peer *p);
ps_status psd_saver_list_item(struct psd_task *t, const struct psd_peer *p, const ps_v1_ListItem *item,
                              struct psi_err *err) PSI_MUST;
void psd_saver_list_end(struct psd_task *t, struct psd_peer *p);
/** Orders as frames: the first for TASK_MANIFEST, of the struct psd_checkpoint in o->what; the second for TASK_CUT, TASK_DROP and
 * TASK_SAVED, with a bool in o->what, whether the task is to hurry. */
void psd_saver_encode_manifest(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
void psd_saver_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
/** p has answered, err NULL: OK; r NULL: its connection is gone. A frame with MORE: its list goes on. */
void psd_saver_answered(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                        const struct psi_err *err);
/** p is not connected any more. */
void psd_saver_lost(struct psd_task *t, const struct psd_peer *p);
/** A container is reset. An attempt that is under way ends, and so does each request for a checkpoint of what was there,
 * ABORTED. */
void psd_saver_reset(struct psd_task *t, const char *container);
/** What lives on some task is replaced by checkpoint c. Requests to save what lived there end with UNAVAILABLE: those that came
 * until began_ms. Who asked later asked for what the start that had begun by then was to leave. */
void psd_saver_went_back(struct psd_task *t, const struct psd_checkpoint *c, uint64_t began_ms);
/** The highest number that was ever given out; 0: none was, or nothing is saved here. */
uint64_t psd_saver_highest(const struct psd_task *t);
/** No checkpoint of the container up to this number may be loaded, as our disk and those of the tasks that have listed say. */
uint64_t psd_saver_bar(const struct psd_task *t, const char *container);
/** A reset goes on in the directory's job: no instant is one of all its tasks. */
bool psd_saver_in_reset(const struct psd_task *t);
/** UNAVAILABLE: what is on our disk is not known yet. */
ps_status psd_saver_are_read(const struct psd_task *t, struct psi_err *err) PSI_MUST;
/** The end of an event: a checkpoint that is wanted begins when it can. */
void psd_saver_turn(struct psd_task *t);
void psd_saver_tick(struct psd_task *t);
void psd_saver_check_invariants(const struct psd_task *t);

/** Once all tasks of the job have listed: parts on our disk that nothing was decided of go. */
void psd_saver_settle_own(struct psd_task *t);
/** It is known no more, and goes everywhere. */
void psd_saver_forget(struct psd_task *t, uint64_t number);

/* ---- saver_known.c ---- */
/** NULL: our disk has no manifest of it. */
struct psd_checkpoint *psd_saver_known(const struct psd_task *t, uint64_t number);
/** What a task has of it; NULL: nothing. */
struct psd_saver_listed *psd_saver_listed_of(const struct psd_saver_peer *of, uint64_t number);
/** What was found to be bad, and who was refused, is looked at again. */
void psd_saver_look_again(struct psd_task *t);
/** Some of c cannot be read; c NULL: nothing is noted. */
void psd_saver_spoil(struct psd_checkpoint *c, const struct psi_err *why);
/** p has its part of it. */
bool psd_saver_has(const struct psd_task *t, const struct psd_peer *p, uint64_t number);

/* ---- saver_newest.c ---- */
/** How many tasks have a whole part of this checkpoint, as their own. */
uint32_t psd_saver_whole_at(const struct psd_task *t, uint64_t number);
/** How many parts of checkpoint c are there: parts of tasks of the job that have the manifest, and parts of tasks that are
 * gone. The latter count where a task would load them, because their directory lies beside its own. */
uint32_t psd_saver_parts_there(const struct psd_task *t, const struct psd_checkpoint *c);
/** The newest checkpoint of which all parts are there, and which is not known to be damaged; 0: there is none. */
uint64_t psd_saver_newest(const struct psd_task *t);
/** As psd_saver_newest(), but parts count as well that a task which is away may have. */
uint64_t psd_saver_newest_maybe(const struct psd_task *t);
/** Some task has something that the newest whole checkpoint does not have, as far as the directory has heard. A checkpoint that
 * may be whole counts as whole here. The models of programs without a global step are saved by this rule. */
bool psd_saver_have_news(const struct psd_task *t);

/* ---- saver_steps.c ---- */
/** The phase changes. */
void psd_saver_move(struct psd_saver *s, enum psd_saver_phase to);
/** A checkpoint is wanted, at least so. */
static inline void psd_saver_wants(struct psd_saver *s, enum psd_saver_want want)
{
    s->want = want > s->want ? want : s->want;
}
/** The next checkpoint by time is one whole interval away from now. */
void psd_saver_count_anew(struct psd_task *t);
/** A checkpoint is made as soon as it can be, also where nothing is new. A start needs that: what lives now is what it has
 * placed. */
void psd_saver_force(struct psd_task *t);
/** The attempt with this number has failed; 0: no attempt could be begun. */
void psd_saver_failed(struct psd_task *t, uint64_t number, const struct psi_err *err);
/** An attempt has failed. psd_saver_lost_text() says so if it was the last one of a task that ends. */
void psd_saver_note_failed(struct psd_task *t);
/** Send TASK_CUT (hurries: its field), TASK_DROP or TASK_SAVED to p. NULL: no memory, and the connection of p is closed. */
struct psd_ask *psd_saver_tell(struct psd_task *t, struct psd_peer *p, uint8_t op, uint64_t number, bool hurries);
/** The first: all tasks of the job have done the present phase. The second: note that none has done it yet. */
bool psd_saver_all_done(const struct psd_task *t);
void psd_saver_clear_done(struct psd_task *t);
/** Every request in this list is answered with err. */
void psd_saver_fail(struct psd_task *t, struct psi_list *waiters, const struct psi_err *err);
/** Requests that waited for this attempt wait for the next one, ahead of those that came since. */
void psd_saver_ask_again(struct psd_saver *s);

/* ---- saver_ask.c: CHECKPOINT, CHECKPOINTS, CHECKPOINT_DELETE ---- */
/** What a request for a checkpoint waits for. The request may be a CHECKPOINT_RESTORE whose checkpoint is placed. */
void psd_saver_describe(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out);
/** saver_state.c: the newest checkpoint, the one that is being made or loaded, the last attempt where it failed, when they are
 * made. False: there is no place for them, or the task is not the directory. */
bool psd_saver_state(const struct psd_task *t, ps_v1_SavesState *out);
/** The state that psd_saver_state() has put into s, in words for people. */
void psd_saver_text(const struct psd_task *t, const ps_v1_SavesState *s, char *buf, size_t n);
/** What is deleted may be gone from our disk. */
void psd_saver_delete_turn(struct psd_task *t);

/* ---- shares.c ---- */
/** Tasks that have done what the attempt is at; *out_share: of what is written, in millionths. */
uint32_t psd_saver_count(const struct psd_task *t, uint32_t *out_share);

/* ---- saver.c, for saver_when.c ---- */
/** p has its part of some checkpoint, and not the manifest. */
void psd_saver_tell_again(struct psd_task *t, struct psd_peer *p);
/** A task is to end: what is written goes as fast as can be from here on. */
void psd_saver_hurry(struct psd_task *t);
/** It begins, for all who ask. */
void psd_saver_attempt(struct psd_task *t);

/* ---- saver_look.c ---- */
/** Ask all tasks whether something is new since the newest whole checkpoint. The attempt begins when one task has something
 * new. No attempt begins when that checkpoint has all. */
void psd_saver_look(struct psd_task *t);
/** A task has looked; err NULL: it has nothing new. A task that began empty, although that checkpoint has something of it, has
 * nothing new either: nothing of it is saved before somebody asks. */
void psd_saver_looked(struct psd_task *t, uint32_t peer, const struct psi_err *err);
/** p is lost while tasks are asked. */
void psd_saver_look_lost(struct psd_task *t, const struct psd_peer *p);

/* ---- saver_keep.c ---- */
/** The oldest checkpoint that is known to have the very same content as c; the number of c where there is none. */
uint64_t psd_saver_same_as(const struct psd_checkpoint *c);
/** A checkpoint is saved. Older ones that are not needed any more are dropped. */
void psd_saver_retire(struct psd_task *t);
/** The disk of a task is full. One checkpoint older than the newest whole one goes: a duplicate first, else the oldest, and
 * only at last the oldest that keep_checkpoint_every_hours keeps. False: none can go, or all are kept (max_to_keep 0). */
bool psd_saver_make_room(struct psd_task *t);

/* ---- saver_when.c ---- */
/** A task of the job is to end: one more, where some are made by themselves and there is something to save. */
void psd_saver_last(struct psd_task *t);
/** The last checkpoint of the job is made, or cannot be made. */
bool psd_saver_drained(const struct psd_task *t);
/** Why the last checkpoint that a task has asked for, and that had something new in it, is not saved. NULL: it is saved, or
 * nothing was new. Valid until the next change. */
const char *psd_saver_lost_text(const struct psd_task *t);
/** Names are left to look at before a checkpoint begins: psd_saver_turn() goes on. */
bool psd_saver_have_work(const struct psd_task *t);
/** FAILED_PRECONDITION: it cannot be made as things are; UNAVAILABLE: not now. Names as psd_saver_check_names(). */
ps_status psd_saver_check(struct psd_task *t, struct psi_err *err) PSI_MUST;

/* ---- saver_parts.c ---- */
/** A file of p's part, but for the state, or a note of it. RESOURCE_EXHAUSTED. */
ps_status psd_saver_take_part(struct psd_saver *s, const struct psd_peer *p, const ps_v1_FileItem *item,
                              struct psi_err *err) PSI_MUST;
/** The files of the attempt, as its manifest has them. Files with values say what all tasks together have of their container.
 * RESOURCE_EXHAUSTED: the manifest is too long. */
ps_status psd_saver_put_files(const struct psd_saver *s, struct psi_buf *manifest, struct psi_err *err) PSI_MUST;
/** FAILED_PRECONDITION: what was taken is half a model. */
ps_status psd_saver_check_parts(const struct psd_task *t, struct psi_err *err) PSI_MUST;
/** FAILED_PRECONDITION: an owner has come back without a variable of its own. Looks at psd_task_config.list_slice_rows names;
 * PS_OK counts when psd_saver.names_checked is set. Otherwise it goes on when it is called again. */
ps_status psd_saver_check_names(struct psd_task *t, struct psi_err *err) PSI_MUST;
void psd_saver_parts_free(struct psd_saver *s);
/** What parts, bars and resets take of the budget, counted anew. s NULL: 0. */
uint64_t psd_saver_bytes(const struct psd_saver *s);
/** An item of a list that is a bar. */
ps_status psd_saver_take_bar(struct psd_saver *s, const ps_v1_ListItem *item, struct psi_err *err) PSI_MUST;
/** With the resets that have not begun. */
void psd_saver_bars_free(struct psd_saver *s);

#endif

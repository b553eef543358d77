/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints at the directory (DESIGN §9): it decides when all tasks of its job save, and which checkpoints are there. The rules
 * are those of tests/models/checkpoint_model.py; what a task makes of them is psd/rpc/save.h.
 */
#ifndef PSD_DIRECTORY_SAVES_H
#define PSD_DIRECTORY_SAVES_H

#include "directory.h"
#include "psd/rpc/save.h"
#include "psd/rpc/steps.h"

enum psd_saves_phase {
    PSD_SAVES_IDLE,
    PSD_SAVES_LOOKING,  /* tasks say whether the newest one has all that they have: then no other one is made */
    PSD_SAVES_CUTTING,  /* tasks write their parts */
    PSD_SAVES_DECIDING, /* our own manifest is on its way to our disk */
    PSD_SAVES_TELLING   /* it is there: the others write theirs */
};

/* A checkpoint whose manifest is on our disk. */
struct psd_checkpoint {
    /* volatile: */
    struct psi_list link; /* of psd_saves, by number */
    ps_v1_SaveItem what;
    struct psi_buf manifest; /* the file */
    char bad[PSD_BAD_BYTES]; /* why a part of it could not be loaded; "": that is not known (starts.h) */
};

struct psd_saves_peer {
    /* volatile: */
    bool has_disk;     /* as it lists */
    bool done;         /* in this phase */
    uint64_t again_ms; /* TELLING: it could not; then it is told again. 0: no */
    struct psd_saves_listed {
        uint64_t number;
        bool whole;
    } * listed; /* shards, as of its list and since then */
    uint32_t listed_count, listed_capacity;
};

/* A container, as tasks say that they have it at the cut; or one that a task has values of, or has deleted some of. */
struct psd_saves_part {
    /* volatile: */
    uint32_t peer; /* PSD_NO_PEER: the container, of all tasks */
    uint32_t notes;
    uint32_t bare_at; /* peer that has `bare` */
    uint64_t step;    /* + 1, the highest that a task has said; 0: none has */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char bare[PS_NAME_BYTES_MAX + 1]; /* a variable without a value; "": none is known by name */
};

/* Up to where some task that has listed bars the checkpoints of a container. */
struct psd_saves_bar {
    /* volatile: */
    uint64_t number;
    char container[PS_CONTAINER_BYTES_MAX + 1];
};

struct psd_saves {
    /* volatile: */
    struct psd_resets resets; /* those whose bar is on its way to our disk: they have not begun */
    struct psi_map bars;      /* container -> struct psd_saves_bar */
    bool ready;               /* the manifests on our disk are known */
    bool resumed;             /* ... and resets that it says are open have begun again */
    uint64_t reading;         /* number of the one that is read */
    struct psi_buf read;
    struct psi_list known; /* struct psd_checkpoint */
    uint32_t known_count;
    uint64_t first, last;         /* numbers that were ever known; 0: none was */
    uint64_t found;               /* the highest one on our disk when it was read: what is there without a manifest ... */
    bool settled;                 /* ... has gone, or is known to be decided */
    uint64_t highest;             /* of all tasks that have listed */
    struct psd_saves_peer *peers; /* by peer */
    bool names_checked;           /* psd_saves_check_names(): since the last list no owner has lost any */
    /* volatile: when */
    bool wanted;            /* as soon as it can be, where there is something new */
    bool forced;            /* ... also where there is not, or is known to be */
    bool begun;             /* one, in this life */
    uint64_t since_ms;      /* the next one by time counts from here */
    uint64_t looked_ms;     /* at the step */
    uint64_t last_ms;       /* when a task that ends asked for a last one */
    uint64_t again_ms;      /* when it is asked again whether it can be */
    uint64_t step;          /* + 1, the highest that the sessions say; 0: none has. Of each container: rpc/steps.h */
    bool warned;            /* that it cannot be */
    bool makes_room;        /* the last attempt found a disk full, older ones have gone for the next */
    bool last_failed;       /* the last one that a task that ends has asked for, with something new in it */
    uint64_t failed_ms;     /* when the last attempt has failed, or was refused; 0: neither */
    uint64_t failed_number; /* ... which; 0: it could not be begun */
    char failed[352];       /* ... which, and why */
    /* volatile: the attempt */
    enum psd_saves_phase phase;
    ps_v1_SaveItem what;
    uint64_t begun_ms;
    uint64_t looked_at;   /* LOOKING: the newest one that is whole, or one that nobody has */
    uint64_t same;        /* the checkpoint that had all that the tasks have cut so far; 0: there is none */
    bool hurries;         /* a task ends: all were told to write it as fast as they can */
    struct psi_buf files; /* FileItems */
    struct psi_map parts; /* peer, container -> struct psd_saves_part */
    /* struct psd_need of CHECKPOINT, and of CHECKPOINT_RESTORE once it is placed: for the next one; for this one */
    struct psi_list asked, served;
    struct psi_list deleting; /* likewise of CHECKPOINT_DELETE */
};

/** RESOURCE_EXHAUSTED. The directory only, behind psd_peers_init(). */
ps_status psd_saves_begin(struct psd_task *t, struct psi_err *err) PSI_MUST;
void psd_saves_fini(struct psd_task *t);
/** A list of p begins; an item of it; it is over and taken in. */
void psd_saves_list_begin(struct psd_task *t, const struct psd_peer *p);
ps_status psd_saves_list_item(struct psd_task *t, const struct psd_peer *p, const ps_v1_ListItem *item,
                              struct psi_err *err) PSI_MUST;
void psd_saves_list_end(struct psd_task *t, struct psd_peer *p);
/** p has answered, err NULL: OK; r NULL: its connection is gone. A frame with MORE: its list goes on. */
void psd_saves_answered(struct psd_task *t, struct psd_peer *p, const struct psd_ask *a, const struct psd_request *r,
                        const struct psi_err *err);
/** p is not connected any more. */
void psd_saves_lost(struct psd_task *t, const struct psd_peer *p);
/** A container is reset: an attempt that is under way ends, and so do requests for a checkpoint of what was there, ABORTED. */
void psd_saves_reset(struct psd_task *t, const char *container);
/** What lives on some task gives way to checkpoint c: requests that were to have what was there saved end, UNAVAILABLE. */
void psd_saves_went_back(struct psd_task *t, const struct psd_checkpoint *c);
/** The highest number that was ever given out; 0: none was, or nothing is saved here. */
uint64_t psd_saves_highest(const struct psd_task *t);
/** No checkpoint of the container up to this number may be loaded, as our disk and those of the tasks that have listed say. */
uint64_t psd_saves_bar(const struct psd_task *t, const char *container);
/** A reset goes on in the directory's job: no instant is one of all its tasks. */
bool psd_saves_in_reset(const struct psd_task *t);
/** UNAVAILABLE: what is on our disk is not known yet. */
ps_status psd_saves_are_read(const struct psd_task *t, struct psi_err *err) PSI_MUST;
/** The end of an event: a checkpoint that is wanted begins when it can. */
void psd_saves_turn(struct psd_task *t);
void psd_saves_tick(struct psd_task *t);
void psd_saves_check_invariants(const struct psd_task *t);

/** Once all tasks of the job have listed: parts on our disk that nothing was decided of go. */
void psd_saves_settle_own(struct psd_task *t);
/** It is known no more, and goes everywhere. */
void psd_saves_forget(struct psd_task *t, uint64_t number);

/* ---- saves_known.c ---- */
/** NULL: our disk has no manifest of it. */
struct psd_checkpoint *psd_saves_known(const struct psd_task *t, uint64_t number);
/** What a task has of it; NULL: nothing. */
struct psd_saves_listed *psd_saves_listed_of(const struct psd_saves_peer *of, uint64_t number);
/** What was found to be bad, and who was refused, is looked at again. */
void psd_saves_look_again(struct psd_task *t);
/** p has its part of it. */
bool psd_saves_has(const struct psd_task *t, const struct psd_peer *p, uint64_t number);

/* ---- saves_newest.c ---- */
/** Tasks that have a whole part of it, as their own. */
uint32_t psd_saves_whole_at(const struct psd_task *t, uint64_t number);
/** Its parts that are there: of a task of the job with the manifest; of one that is gone where somebody would load it, because
 * that directory lies beside its own. */
uint32_t psd_saves_parts_there(const struct psd_task *t, const struct psd_checkpoint *c);
/** The newest one of which all parts are there, and which is not known to be damaged; 0: there is none. */
uint64_t psd_saves_newest(const struct psd_task *t);
/** As psd_saves_newest(), and it counts parts that tasks may have which are away. */
uint64_t psd_saves_newest_maybe(const struct psd_task *t);
/** As far as the directory has heard, the newest checkpoint that is whole, or may be, has not all that the tasks have: programs
 * without a global step are saved by that. */
bool psd_saves_have_news(const struct psd_task *t);

/* ---- saves_steps.c ---- */
/** The next one by time is all of that time away from now. */
void psd_saves_count_anew(struct psd_task *t);
/** One is made as soon as it can be, also where nothing is new: what lives now is what a start has placed. */
void psd_saves_force(struct psd_task *t);
/** The last attempt, of this number, has failed; 0: none could be made. */
void psd_saves_failed(struct psd_task *t, uint64_t number, const struct psi_err *err);
/** An attempt has failed that was the last one, or not: psd_saves_lost_text(). */
void psd_saves_note_failed(struct psd_task *t);
/** A request to p, whose answer comes to psd_saves_answered(). NULL: no memory, and the connection is closed. */
struct psd_ask *psd_saves_ask_new(struct psd_task *t, struct psd_peer *p, uint8_t op, uint64_t number);
/** TASK_CUT (hurries: of it), TASK_DROP or TASK_SAVED to p. NULL: no memory, and its connection is closed. */
struct psd_ask *psd_saves_tell(struct psd_task *t, struct psd_peer *p, uint8_t op, uint64_t number, bool hurries);
/** All tasks of the job have done what the phase is at; none has yet. */
bool psd_saves_all_done(const struct psd_task *t);
void psd_saves_clear_done(struct psd_task *t);
/** All who wait there are told. */
void psd_saves_fail(struct psd_task *t, struct psi_list *waiters, const struct psi_err *err);
/** Who waited for the attempt waits for the next one, before those who asked since. */
void psd_saves_ask_again(struct psd_saves *s);

/* ---- saves_ask.c: CHECKPOINT, CHECKPOINTS, CHECKPOINT_DELETE ---- */
/** What a request for a checkpoint waits for, also one of CHECKPOINT_RESTORE whose checkpoint is placed. */
void psd_saves_describe(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out);
/** Checkpoints, for people: the last one, the one that is being made, the last attempt where it failed, when they are made. ""
 * without a place for them, and in a task that is not the directory. */
void psd_saves_text(const struct psd_task *t, char *buf, size_t n);
/** What is deleted may be gone from our disk. */
void psd_saves_delete_turn(struct psd_task *t);

/* ---- shares.c ---- */
/** Tasks that have done what the attempt is at; *out_share: of what is written, in millionths. */
uint32_t psd_saves_count(const struct psd_task *t, uint32_t *out_share);

/* ---- saves.c, for saves_when.c ---- */
/** p has its part of some, and not the manifest. */
void psd_saves_tell_again(struct psd_task *t, struct psd_peer *p);
/** A task is to end: what is written goes as fast as can be from here on. */
void psd_saves_hurry(struct psd_task *t);
/** It begins, for all who ask. */
void psd_saves_attempt(struct psd_task *t);

/* ---- saves_look.c ---- */
/** Tasks are asked whether there is something new; the attempt begins when one has, and none when the newest one has it all. */
void psd_saves_look(struct psd_task *t);
/** A task has looked, err NULL: it has nothing new. Of one that began empty, beside what it has in that checkpoint, nothing is
 * saved before somebody asks. */
void psd_saves_looked(struct psd_task *t, uint32_t peer, const struct psi_err *err);
/** p is lost meanwhile. */
void psd_saves_look_lost(struct psd_task *t, const struct psd_peer *p);

/* ---- saves_keep.c ---- */
/** The oldest checkpoint that is known to have the very same; its own number where none is. */
uint64_t psd_saves_same_as(const struct psd_checkpoint *c);
/** A checkpoint is saved: those that are not needed any more go. */
void psd_saves_retire(struct psd_task *t);
/** The disk of a task is full: of those that are older than the newest whole one a duplicate goes, or else the oldest, at last
 * the oldest that keep_checkpoint_every_hours would have stay. False: none can go. */
bool psd_saves_make_room(struct psd_task *t);

/* ---- saves_when.c ---- */
/** A task of the job is to end: one more, where some are made by themselves and there is something to save. */
void psd_saves_last(struct psd_task *t);
/** ... it is made, or cannot be. */
bool psd_saves_drained(const struct psd_task *t);
/** Why the last one that was asked for, with something new in it, is not saved; NULL: it is, or there was nothing new. Until the
 * next change. */
const char *psd_saves_lost_text(const struct psd_task *t);
/** FAILED_PRECONDITION: it cannot be made as things are; UNAVAILABLE: not now. */
ps_status psd_saves_check(struct psd_task *t, struct psi_err *err) PSI_MUST;

/* ---- saves_parts.c ---- */
/** A file of p's part, but for the state, or a note of it. RESOURCE_EXHAUSTED. */
ps_status psd_saves_take_part(struct psd_saves *s, const struct psd_peer *p, const ps_v1_FileItem *item,
                              struct psi_err *err) PSI_MUST;
/** The files of the attempt as its manifest has them: those with values say what all tasks together have of their container.
 * RESOURCE_EXHAUSTED: the manifest is too long. */
ps_status psd_saves_put_files(const struct psd_saves *s, struct psi_buf *manifest, struct psi_err *err) PSI_MUST;
/** FAILED_PRECONDITION: what was taken is half a model. */
ps_status psd_saves_check_parts(const struct psd_task *t, struct psi_err *err) PSI_MUST;
/** FAILED_PRECONDITION: an owner has come back without a variable of its own. */
ps_status psd_saves_check_names(struct psd_task *t, struct psi_err *err) PSI_MUST;
void psd_saves_parts_free(struct psd_saves *s);
/** An item of a list that is a bar. */
ps_status psd_saves_take_bar(struct psd_saves *s, const ps_v1_ListItem *item, struct psi_err *err) PSI_MUST;
/** With the resets that have not begun. */
void psd_saves_bars_free(struct psd_saves *s);

#endif

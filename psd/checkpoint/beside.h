/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a task loads, beside what lives (DESIGN §9, tests/models/checkpoint_model.py). A task whose disk has anything of
 * checkpoints, or cannot be read, serves nobody until the directory says whether the task loads a checkpoint (TASK_LOAD,
 * TASK_PLACE) or begins empty. It loads into a psd_task of its own, and nothing of that lives before the directory says so, which
 * it does when all tasks have loaded. What is loaded goes when the connection to the directory does.
 *
 * The directory may tell a task to load parts of tasks that are no more, which lie beside its own directory (others.h). Each part
 * is loaded into a psd_task of its own, and is joined with the rest when it is verified.
 *
 * Or all parts are dealt over all tasks (psd/store/deal.h): each task reads what is its own of each part, from its own disk or
 * from the task that has the part (source.h). Until a checkpoint of that is whole, what lives here is not where its parts are
 * (psd_store.moved).
 *
 * Containers are placed with variables, slots, queues and the numbers of chiefs, under new incarnations: whoever was at work
 * there hears that it is lost. Sessions are not placed: their numbers are of incarnations that are no more. What sessions had
 * taken out of queues is in the queues again.
 */
#ifndef PSD_CHECKPOINT_BESIDE_H
#define PSD_CHECKPOINT_BESIDE_H

#include "shards.h"
#include "source.h"

enum psd_restore { PSD_RESTORE_AUTO, PSD_RESTORE_LATEST, PSD_RESTORE_NONE }; /* -n: checkpoint n */
enum psd_recover { PSD_RECOVER_PARTIAL, PSD_RECOVER_CUT };

struct psd_load;

/* A container that is placed. */
struct psd_containers_entry {
    /* volatile: */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t start; /* psd_container.start from then on */
    bool trained;   /* some task trained something in this container before the cut */
    bool cut;       /* of all that a start at the directory has loaded: the container goes back everywhere */
};

struct psd_containers {
    /* volatile: */
    struct psd_containers_entry *of;
    size_t count, capacity;
    struct psi_map places; /* container -> 1 + its index in `of` */
};

struct psd_beside {
    /* volatile: */
    bool undecided;     /* whether it waits (psd_peer.waits of its own) for the directory: what its disk has is not known */
    char why[512];      /* why the directory may load no checkpoint; "": that is not decided */
    bool alone;         /* directory: nothing lived anywhere when it was decided what is loaded */
    uint64_t placed;    /* so many times something of a checkpoint has come to live here */
    uint32_t sent_away; /* clients, since it waits */
    /* volatile: a load */
    uint64_t number;          /* of the checkpoint; 0: none is under way, or beside */
    bool asked;               /* the load was asked for by CHECKPOINT_RESTORE */
    struct psd_task *task;    /* what is loaded */
    struct psd_load *load;    /* while there is more to read of a part */
    uint32_t reading;         /* operations of it that the disk has */
    bool ends;                /* the load is given up, and freed when the disk is done */
    struct psi_err failed;    /* why the load is given up, for `done`; PS_OK: nobody hears of it */
    struct psd_source source; /* open: what is read comes from there */
    struct psd_task *other;   /* what is read of another task's part, until it is joined with what is beside; NULL: none is */
    uint32_t writer;          /* 1 + index of the task whose part is read; 0: our own */
    uint64_t *dealt;          /* psd_deal.has; NULL: nothing is dealt */
    uint32_t *places;         /* psd_deal.index; NULL: nothing is dealt */
    ps_v1_StartItem *parts;   /* others' that are read as well, in order */
    size_t part_count, part_at;
    uint64_t done_bytes, all_bytes; /* read of all these parts; of their files */
    /* volatile: a TASK_PLACE whose last frame has not come */
    ps_v1_StartItem coming; /* start 0: none */
    struct psd_containers coming_of;
    psd_shards_fn done; /* NULL: nobody wants to know */
    uint64_t ask_id;    /* for done: of TASK_LOAD */
};

/** RESOURCE_EXHAUSTED. Behind psd_shards_begin(). */
ps_status psd_beside_begin(struct psd_task *t, struct psi_err *err) PSI_MUST;
void psd_beside_fini(struct psd_task *t);
/** The end of an event: as soon as it is known what its disk has, whether it waits. */
void psd_beside_turn(struct psd_task *t);
/** UNAVAILABLE while it waits; FAILED_PRECONDITION: no checkpoint that may be loaded is there. */
ps_status psd_beside_check(const struct psd_task *t, struct psi_err *err) PSI_MUST;
/** When one whose HELLO is refused by that is to come again: soon, for it may be over then; later the more have come, so that
 * they take little of the time that the load has. */
uint32_t psd_beside_retry_ms(struct psd_task *t);
/** Load its part of a checkpoint beside what lives (what->state_bytes 0: it has none), and [count] parts of others; what is
 * beside goes first. parts: is taken over, for psi_free(); NULL: none. done: all is there and verified, or why it is not. Errors,
 * and done never: FAILED_PRECONDITION (no disk, or no part of that task), UNAVAILABLE (an operation of the load before is under
 * way), RESOURCE_EXHAUSTED, DATA_LOSS. */
ps_status psd_beside_load_here(struct psd_task *t, const ps_v1_StartItem *what, ps_v1_StartItem *parts, size_t count,
                               psd_shards_fn done, uint64_t id, struct psi_err *err) PSI_MUST;
/** What is loaded of these containers lives, instead of what lived; the rest of what is loaded goes. what->number 0: nothing is
 * loaded. It serves from then on, unless what->text says why not. FAILED_PRECONDITION: that is not what is loaded;
 * RESOURCE_EXHAUSTED: the containers are empty. */
ps_status psd_beside_place_here(struct psd_task *t, const ps_v1_StartItem *what, const struct psd_containers *of,
                                struct psi_err *err) PSI_MUST;
/** Containers of what is loaded; start: not 0 where something in it has no value, or waits for its chief's. */
ps_status psd_beside_containers(const struct psd_task *t, struct psd_containers *out, struct psi_err *err) PSI_MUST;
/** The entry of this container; a new one at the end where there is none. NULL: RESOURCE_EXHAUSTED, in err. Borrows until the
 * next entry is added. */
struct psd_containers_entry *psd_containers_get(const struct psd_task *t, struct psd_containers *l, const char *container,
                                                struct psi_err *err) PSI_MUST;
/** RESOURCE_EXHAUSTED. */
ps_status psd_containers_put(const struct psd_task *t, struct psd_containers *l, const char *container, uint64_t start,
                             struct psi_err *err) PSI_MUST;
/** NULL: it is not in it. */
struct psd_containers_entry *psd_containers_find(const struct psd_containers *l, const char *container);
void psd_containers_fini(struct psd_containers *l);
/** The connection to the directory is gone: as psd_beside_drop(), and what it has said in part goes, too. */
void psd_beside_directory_lost(struct psd_task *t);
/** Nothing is beside any more. */
void psd_beside_drop(struct psd_task *t);
/** In our own list: StartItems. */
void psd_containers_add(const struct psd_task *t, struct psd_list *l);
/* ---- share.c ---- */
/** Of its part of the checkpoint that it writes or loads, in millionths; 0 also where there is none. */
uint32_t psd_share(const struct psd_task *t);
/** What a BEAT of this task to the directory says. */
ps_v1_Beat psd_share_beat(const struct psd_task *t);
/** The end of an event. A task tells the directory: each second how far it is, at once that it has changed, or not any more. */
void psd_share_turn(struct psd_task *t);
void psd_beside_check_invariants(const struct psd_task *t);

#endif

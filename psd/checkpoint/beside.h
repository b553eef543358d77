/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a task loads, beside what lives (DESIGN §9, tests/models/checkpoint_model.py). A task whose disk has anything of
 * checkpoints, or cannot be read, serves nobody until the directory says whether the task loads a checkpoint (TASK_LOAD,
 * TASK_PLACE) or begins empty. The checkpoint is loaded into a second psd_task. Its content comes to live when the directory
 * sends TASK_PLACE, which it does when all tasks have loaded. When the connection to the directory is lost, the second psd_task
 * is freed.
 *
 * The directory may tell a task to load parts of tasks that are gone and whose directories lie beside its own (others.h). Each
 * such part is loaded into a psd_task of its own, verified, and then joined with what was loaded before.
 *
 * Or the values of all parts are dealt over all tasks (psd/store/deal.h): each task reads its share of each part, from its own
 * disk or from the task that has the part (source.h). Until a checkpoint of the new distribution is whole, this task's values lie
 * in the parts of other tasks (psd_store.moved).
 *
 * Containers are placed with variables, slots, queues and the numbers of chiefs, under new incarnations: a client that uses an
 * old incarnation hears that the container is lost. Sessions are not placed, because their numbers belong to the old
 * incarnations. Elements that sessions had taken out of queues are in the queues again.
 */
#ifndef PSD_CHECKPOINT_BESIDE_H
#define PSD_CHECKPOINT_BESIDE_H

#include "shards.h"
#include "source.h"

enum psd_restore { PSD_RESTORE_AUTO, PSD_RESTORE_LATEST, PSD_RESTORE_NONE }; /* -n: checkpoint n */
enum psd_recover { PSD_RECOVER_PARTIAL, PSD_RECOVER_CUT };

struct psd_load;

/* A container that is loaded, placed, held by a task, or barred. */
struct psd_containers_entry {
    /* volatile: */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t start;       /* placed, held: psd_container.start; loaded: 1: it is unfinished; barred: up to this checkpoint */
    uint64_t next, moved; /* held: fields of its psd_container */
    bool trained;         /* placed: some task trained something in this container before the cut */
    bool cut;             /* directory: the container goes back on all tasks */
};

struct psd_containers {
    /* volatile: */
    struct psd_containers_entry *of;
    size_t count, capacity;
    struct psi_map places; /* container -> 1 + its index in `of` */
};

/* What an entry takes of the memory budget where entries are counted: its place, half of one for the room to which the list
 * doubles, and its entry of the map. It is never refused for the budget. */
enum { PSD_CONTAINERS_ENTRY_BYTES = 3 * sizeof(struct psd_containers_entry) / 2 + PSI_MAP_ENTRY_BYTES + 32 };

struct psd_beside {
    /* volatile: */
    bool undecided;     /* the disk is not listed yet, so this task does not know whether it waits (psd_peer.waits) */
    char why[512];      /* why the directory lets this task not begin; "": the directory has not refused */
    bool alone;         /* directory: no container lived on any task when the load was chosen */
    uint64_t placed;    /* count of the times when this task placed something of a checkpoint */
    uint32_t sent_away; /* clients refused since this task waits */
    /* volatile: a load */
    uint64_t number;          /* checkpoint that is being loaded or is loaded; 0: none */
    bool asked;               /* the load was asked for by CHECKPOINT_RESTORE */
    struct psd_task *task;    /* holds what is loaded */
    struct psd_load *load;    /* reads one part; NULL: all parts are read */
    uint32_t reading;         /* disk operations under way for the load */
    bool ends;                /* the load is given up, and is freed when the disk is done */
    struct psi_err failed;    /* why the load is given up, for `done`; PS_OK: nobody is told */
    struct psd_source source; /* open: the part is read from another task, not from our disk */
    struct psd_task *other;   /* holds another task's part until it is joined with `task`; NULL: no such part is read */
    uint32_t writer;          /* 1 + index of the task that wrote the part being read; 0: this task's part, whole */
    uint64_t *dealt;          /* psd_deal.has; NULL: nothing is dealt */
    uint32_t *places;         /* psd_deal.index; NULL: nothing is dealt */
    ps_v1_StartItem *parts;   /* the parts that are read behind this task's own, in order */
    size_t part_count, part_at;
    uint64_t done_bytes, all_bytes; /* read so far, and in all files of all parts */
    /* volatile: a TASK_PLACE whose last frame has not come */
    ps_v1_StartItem coming;          /* its first item; start 0: no TASK_PLACE is on its way */
    struct psd_containers coming_of; /* its containers so far */
    uint64_t ask_id;                 /* the order TASK_LOAD, answered at the end of the load; 0: nobody is told */
};

/** Behind psd_shards_begin(). A task without a disk gets no psd_beside. RESOURCE_EXHAUSTED. */
ps_status psd_beside_begin(struct psd_task *t, struct psi_err *err) PSI_MUST;
void psd_beside_fini(struct psd_task *t);
/** The end of an event. Once the disk is listed, decide whether this task waits for the directory. */
void psd_beside_turn(struct psd_task *t);
/** Whether this task serves. UNAVAILABLE: it waits for the directory; FAILED_PRECONDITION: the directory has decided that it does
 * not begin. */
ps_status psd_beside_check(const struct psd_task *t, struct psi_err *err) PSI_MUST;
/** After how many ms a client that psd_beside_check() refuses is to say HELLO again; 0: this task does not wait. From 20 ms on,
 * and longer with each refused client, so that refusals take little time from the load. */
uint32_t psd_beside_retry_ms(struct psd_task *t);
/** Load this task's part of a checkpoint beside what lives (what->state_bytes 0: this task has no part), and then [count] parts
 * of other tasks. An earlier load is freed first. parts is taken over, on errors too, and freed with psi_free(); NULL: none. The
 * order TASK_LOAD with this id is answered when all parts are read and verified, or with the reason why they are not. On errors
 * the caller answers: FAILED_PRECONDITION (no disk, or not all parts are here), UNAVAILABLE (the disk still reads for an earlier
 * load), RESOURCE_EXHAUSTED, DATA_LOSS. */
ps_status psd_beside_load_here(struct psd_task *t, const ps_v1_StartItem *what, ps_v1_StartItem *parts, size_t count, uint64_t id,
                               struct psi_err *err) PSI_MUST;
/** The entry of this container; a new one at the end where there is none. NULL: RESOURCE_EXHAUSTED, in err. Borrows until the
 * next entry is added. */
struct psd_containers_entry *psd_containers_get(const struct psd_task *t, struct psd_containers *l, const char *container,
                                                struct psi_err *err) PSI_MUST;
/** Set psd_containers_entry.start of this container, in a new entry where there is none. RESOURCE_EXHAUSTED. */
ps_status psd_containers_put(const struct psd_task *t, struct psd_containers *l, const char *container, uint64_t start,
                             struct psi_err *err) PSI_MUST;
/** NULL: the container is not in l. */
struct psd_containers_entry *psd_containers_find(const struct psd_containers *l, const char *container);
void psd_containers_fini(struct psd_containers *l);
/** The connection to the directory is gone: as psd_beside_drop(), and a TASK_PLACE whose last frame has not come is forgotten. */
void psd_beside_directory_lost(struct psd_task *t);
/** Give up a load, and free what is loaded, at once or when the disk is done. Nobody is told. */
void psd_beside_drop(struct psd_task *t);
/** Add StartItems to this task's list: whether it waits, and where its containers come from. */
void psd_containers_add(const struct psd_task *t, struct psd_list *l);
/* ---- share.c ---- */
/** How much of its part of a checkpoint this task has written or loaded, in millionths; 0 while it does neither. */
uint32_t psd_share(const struct psd_task *t);
/** The BEAT of this task to the directory. */
ps_v1_Beat psd_share_beat(const struct psd_task *t);
/** The end of an event. Send the directory a BEAT: once a second while psd_share() rises, at once when psd_shards_changed() or
 * psd_shards_number() has changed. */
void psd_share_turn(struct psd_task *t);
void psd_beside_check_invariants(const struct psd_task *t);

#endif

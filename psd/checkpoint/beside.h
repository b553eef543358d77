/* SPDX-License-Identifier: Apache-2.0 */
/* What a task has loaded from a checkpoint and does not use yet (docs/DURABILITY.md 7, tests/models/checkpoint_model.py).
 *
 * A task of the directory's job whose disk has anything of checkpoints, or cannot be read, waits until the directory says what
 * the task begins with: a checkpoint (TASK_LOAD, TASK_PLACE), or nothing. The directory's own task also waits if `restore` is
 * `latest` or a number, or if its disk has a part of a task that has left the job (psd_others_orphan()). A task of another job
 * waits only until its disk is listed. Meanwhile HELLO refuses sessions that have a job: psd_hello_session() in psd/rpc/hello.c
 * calls psd_beside_check(). A session without a job, such as psctl's, gets through HELLO, to inspect the task; psd_peers_begun()
 * (psd/base/peers.c) refuses its OPEN, and its requests for lists.
 *
 * TASK_LOAD loads the checkpoint into a second psd_task. TASK_PLACE, which the directory sends when all tasks have loaded, moves
 * the loaded content into the serving task. If the connection to the directory is lost before that, the second psd_task is freed.
 *
 * The directory may tell a task to load also parts of other tasks, whose directories are on its disk too (others.h). Each such
 * part is loaded into a psd_task of its own, verified, and then joined with what was loaded before.
 *
 * The directory may also have all values distributed anew over all tasks (psd/store/deal.h): each task reads its share of each
 * part, from its own disk or from the task that has the part (source.h). Until the next checkpoint is whole, this task's values
 * lie in the parts of other tasks (psd_store.moved).
 *
 * Containers come into use with variables, slots, queues and chiefs' numbers, under new incarnations: a client that uses an old
 * incarnation is told that the container is lost. Sessions are left out, because their numbers belong to the old incarnations.
 * Elements that sessions had taken out of queues are in the queues again. */
#ifndef PSD_CHECKPOINT_BESIDE_H
#define PSD_CHECKPOINT_BESIDE_H

#include "shards.h"
#include "source.h"

/* setting `restore`; -n: checkpoint n */
enum psd_restore { PSD_RESTORE_AUTO, PSD_RESTORE_LATEST, PSD_RESTORE_NONE };
enum psd_recover { PSD_RECOVER_PARTIAL, PSD_RECOVER_CUT };

struct psd_load;

/* An entry of a list of containers. Lists have containers that a task has loaded, places (puts into use after a load) or holds
 * (uses), or that are barred (must not be loaded). The comment on a field begins with the kinds of lists that set it. */
struct psd_containers_entry {
    char container[PS_CONTAINER_BYTES_MAX + 1];
    /* placed, held: psd_container.start. loaded: 1 if a value is missing or provisional. barred: newest forbidden checkpoint */
    uint64_t start;
    uint64_t next, moved; /* held: the fields of psd_container with these names */
    bool trained;         /* placed: some task had trained the container before the checkpoint was made */
    bool cut;             /* directory only: each task replaces its content of the container by the checkpoint's */
};

struct psd_containers {
    struct psd_containers_entry *of;
    size_t count, capacity;
    struct psi_map places; /* container -> 1 + its index in `of` */
};

/* Bytes that the memory budget counts for an entry: one and a half entries of the list, which may have spare room, and the entry
 * in the map. The budget never refuses an entry. */
enum { PSD_CONTAINERS_ENTRY_BYTES = 3 * sizeof(struct psd_containers_entry) / 2 + PSI_MAP_ENTRY_BYTES + 32 };

/* How far a load is. beside.c has the table of transitions. */
enum psd_beside_phase {
    PSD_BESIDE_EMPTY,
    PSD_BESIDE_READS,
    PSD_BESIDE_LOADED, /* all parts are read and verified */
    PSD_BESIDE_ENDS,   /* the load is given up, and is freed when its disk operations have ended */
    PSD_BESIDE_PHASES
};

struct psd_beside {
    /* the files on disk are not known yet, so it is open whether this task must wait for the directory */
    bool undecided;
    char why[512];   /* why the directory does not let this task begin; "": the directory has not refused */
    bool alone;      /* directory only: when TASK_PLACE was last sent, no task used a container */
    uint64_t placed; /* how often this task has put containers of a checkpoint into use */
    /* clients refused while this task waits or loads; the higher, the later a client may try again (psd_beside_retry_ms()) */
    uint32_t sent_away;
    /* a load: */
    enum psd_beside_phase phase;
    uint64_t number;          /* checkpoint that is being loaded or is loaded; 0: none */
    bool asked;               /* the load was asked for by CHECKPOINT_RESTORE */
    struct psd_task *task;    /* holds what is loaded */
    struct psd_load *load;    /* reads one part at a time; NULL: all parts are read */
    uint32_t reading;         /* disk operations under way for the load */
    struct psi_err failed;    /* in ENDS: why the load has failed, for TASK_LOAD's answer; PS_OK: psd_beside_drop() was called */
    struct psd_source source; /* connection on which a part is read from another task; closed: the part is read from this disk */
    struct psd_task *other;   /* holds another task's part until it is joined with `task`; NULL: no such part is read */
    uint32_t writer;          /* 1 + index of the task that wrote the part being read; 0: this task reads its own part as it is */
    uint64_t *dealt; /* [place]: bytes that the task there gets so far (psd_deal.has); NULL: values are not distributed anew */
    /* [place]: index in the job of each task that gets values; places count these tasks from 0 without gaps (psd_deal.index) */
    uint32_t *places;
    ps_v1_StartItem *parts; /* parts to read, in order; this task's own is among them only if values are distributed */
    size_t part_count, part_at;
    uint64_t done_bytes, all_bytes; /* bytes of all files of all parts: read so far; in total */
    /* a TASK_PLACE of which not all frames have come yet: */
    ps_v1_StartItem coming;          /* first item of that TASK_PLACE; start 0: none is on its way */
    struct psd_containers coming_of; /* containers in the frames that have come */
    uint64_t ask_id;                 /* id of the order TASK_LOAD, which is answered when the load is over; 0: no answer is due */
};

/** Make t->beside if this task has a checkpoint_dir; otherwise t->beside stays NULL. The task then waits until it knows the files
 * there (psd_beside_turn()). RESOURCE_EXHAUSTED. */
ps_status psd_beside_begin(struct psd_task *t, struct psi_err *err) PSI_MUST;
void psd_beside_fini(struct psd_task *t);
/** Call at the end of each event. Once the files on disk are known, decide whether this task begins at once, or waits until the
 * directory (the first ps task) says what it begins with. */
void psd_beside_turn(struct psd_task *t);
/** Check that this task serves clients. UNAVAILABLE: it waits until the directory tells it to begin. FAILED_PRECONDITION: the
 * directory has refused to let it begin. */
ps_status psd_beside_check(const struct psd_task *t, struct psi_err *err) PSI_MUST;
/** How many ms a client that psd_beside_check() refuses is asked to wait before its next HELLO; 0: this task neither waits nor
 * loads. The time grows with the number of refused clients, from 20 ms to a second, so that refusals take little time from the
 * load. A client heeds only times below 50 ms; for longer ones it keeps to its own back-off (worker/core/connection.c). */
uint32_t psd_beside_retry_ms(struct psd_task *t);
/** Load this task's part of a checkpoint (what->state_bytes 0: it has none), then parts [count] of other tasks. An earlier load
 * is freed first. Takes over parts (NULL: none), on errors too. TASK_LOAD `id` is answered when all parts are read and
 * verified, or with the reason why they are not. On an error of this call the caller answers: FAILED_PRECONDITION (no disk, or
 * not all parts are here), UNAVAILABLE (the disk still reads for an earlier load), RESOURCE_EXHAUSTED, DATA_LOSS. */
ps_status psd_beside_load_here(struct psd_task *t, const ps_v1_StartItem *what, ps_v1_StartItem *parts, size_t count, uint64_t id,
                               struct psi_err *err) PSI_MUST;
/** Find the entry of this container, or add one; the result is valid until the next entry is added. NULL: RESOURCE_EXHAUSTED. */
struct psd_containers_entry *psd_containers_get(const struct psd_task *t, struct psd_containers *l, const char *container,
                                                struct psi_err *err) PSI_MUST;
/** Set psd_containers_entry.start of this container; a missing entry is added. RESOURCE_EXHAUSTED: no memory. */
ps_status psd_containers_put(const struct psd_task *t, struct psd_containers *l, const char *container, uint64_t start,
                             struct psi_err *err) PSI_MUST;
struct psd_containers_entry *psd_containers_find(const struct psd_containers *l, const char *container);
void psd_containers_fini(struct psd_containers *l);
/** Call when the connection to the directory is lost: a load is given up, and so is a TASK_PLACE of which frames are missing. */
void psd_beside_directory_lost(struct psd_task *t);
/** Give up a load, and free what is loaded, as soon as no disk operation reads into it. TASK_LOAD is not answered. */
void psd_beside_drop(struct psd_task *t);
/** Add to this task's report to the directory: whether the task waits, and which load each of its containers comes from. */
void psd_containers_add(const struct psd_task *t, struct psd_list *l);
/* ---- share.c ---- */
/** How much of its part of a checkpoint this task has written or loaded, in millionths; 0 while it does neither. */
uint32_t psd_share(const struct psd_task *t);
ps_v1_Beat psd_share_beat(const struct psd_task *t);
/** Call at the end of an event: sends the directory a BEAT, each second while psd_share() rises, at once after other changes. */
void psd_share_turn(struct psd_task *t);

/* ---- beside.c ---- */
void psd_beside_check_invariants(const struct psd_task *t);

#endif

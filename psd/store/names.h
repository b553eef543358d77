/* SPDX-License-Identifier: Apache-2.0 */
/* The directory's table of names: all variables with their owner (a ps task) and definition, and the resets that some task has
 * not carried out. Only the directory (the first ps task) has entries. A name is recorded before its owner is asked to create the
 * variable, and stays while the owner is away. A name is forgotten if the owner refuses to create the variable, and after a
 * delete or reset. Which process of the owner has confirmed a name is not remembered over a restart. */
#ifndef PSD_NAMES_H
#define PSD_NAMES_H

#include "variable.h"

/* What a variable is in the rounds of its container: nothing, trainable, the global step, or trainable by rows. */
enum psd_round_role { PSD_IN_NO_ROUNDS, PSD_IN_ROUNDS, PSD_IN_ROUNDS_STEP, PSD_IN_ROUNDS_ROWS };
/* The record of one name. It lies with its strings in one piece of memory, because a directory may have a million names. */
struct psd_name {
    /* volatile: which processes of the owner know the name */
    uint64_t life;  /* random number of the owner's process that last said that it has the variable; 0: no process has */
    uint64_t asked; /* random number of the owner's process that was asked to create the variable; 0: no answer is missing */
    uint64_t cut;   /* serial of the last cut (state saved for one checkpoint: cut.h) that contains the name */
    /* derived: */
    struct psi_list in;
    /* remembered: */
    const char *name;         /* lies behind `container` */
    uint32_t owner;           /* index of the owner in the list of tasks (peers) of psd/state.h */
    uint32_t optimizer_words; /* bit i: 64-bit word i of the ps_optimizer is not 0, and is stored; 0: no optimizer */
    uint8_t dtype, rank;
    bool atomic, queue, part;
    /* volatile: */
    bool sure;      /* at least one process of the owner, maybe an earlier one, has said that it has the variable */
    uint8_t rounds; /* role in the container's group: enum psd_round_role */
    bool by_rounds; /* as psd_container.by_rounds */
    /* remembered: */
    /* the container's name with its NUL; behind it: the name with its NUL, the dimensions, the stored words of the optimizer
     * (8 bytes each) and, if the variable is a part, a struct psi_part */
    char container[];
};
struct psd_definition psd_name_definition(const struct psd_name *n);

/* The names of one container, so that a walk over a container does not go through all names. */
struct psd_names_in {
    /* derived: */
    struct psi_list all;       /* all names of the container, linked by psd_name.in, the oldest first */
    uint32_t count, variables; /* number of names; number of names of variables, not queues */
    /* true: `container` belongs to one client session (directory/own.c); only then are the volatile fields used */
    bool of_session;
    /* volatile: */
    struct psi_list session; /* link in psd_directory.sessions, if of_session; otherwise in no list */
    bool claimed;            /* since the directory started, a session has shown that it owns the container */
    /* time since which no session that owns the container is connected; 0: such a session is connected */
    uint64_t unclaimed_ms;
    uint8_t key[PSI_KEY_BYTES]; /* key that clients must show to use the container */
    /* derived: */
    char container[];
};

struct psd_directory {
    struct psi_map names;   /* remembered: container \0 name -> struct psd_name */
    struct psi_map in;      /* derived: container -> struct psd_names_in */
    uint64_t forgotten;     /* derived: names forgotten so far */
    uint32_t of_sessions;   /* derived: containers in `in` that belong to sessions */
    uint32_t session_names; /* derived: names in those containers */
    /* volatile: containers of sessions, in the order in which directory/own.c looks for those without a living session */
    struct psi_list sessions;
    struct psd_store *store; /* volatile: store of the same task; its budget counts the names */
};

enum { PSD_RESET_WHY = 200 };

/* A reset of a container that not all tasks have carried out. */
struct psd_reset {
    struct psi_list link;  /* derived: in psd_resets.all */
    struct psi_list place; /* derived: in one of psd_resets.places */
    /* remembered: */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    bool pending;      /* the container is being reset, and creations in it are refused; false: only `owed` is still used */
    bool *outstanding; /* [peer] true: the reset is not done before this task has answered */
    /* [peer] true: the task was away, and TASK_RESET must still be sent to it; lies behind `outstanding`, in one allocation */
    bool *owed;
    /* volatile: */
    struct psi_list waiters; /* struct psd_need of the RESET requests that wait for the end (psd/session/wait.h) */
    /* volatile: checkpoints up to number `bar` must not bring the container back (psd/checkpoint/bars.h) */
    uint64_t bar, bar_before; /* number in force, and the number that it has replaced; 0: no checkpoint is barred */
    uint64_t chief_number;    /* number of the chief that asked for the reset; 0: a session that is no chief asked */
    char by[96];              /* name of the client that asked, for logs; "": not known after a restart of the directory */
    bool emptying;            /* this task is dropping its own variables of the container (owner/emptying.c) */
    bool forgetting;          /* all tasks have done their part, and the names are being forgotten in slices */
    /* `noting`: this task's disk is writing how far the reset is; `noted`: the disk has written that it is over */
    bool noting, noted;
    bool taken_back;         /* the reset was given up, but this task's disk has not noted that yet */
    uint64_t again_ms;       /* time of the next try after a failure; 0: no failure */
    uint64_t bytes;          /* size of the record as malloc gives it */
    struct psd_store *store; /* store whose budget counts the record; NULL: the record is in no psd_resets */
    char why[PSD_RESET_WHY]; /* text for errors and waits: why a disk last failed to write the reset; "": no disk has failed */
};

/* All resets, found by container in a hash table of linked lists, so that adding one allocates nothing and cannot fail. */
enum { PSD_RESETS_MAX = 1024, PSD_RESET_PLACES = 256 };

struct psd_resets {
    struct psi_list all;     /* derived: the oldest first */
    struct psd_store *store; /* volatile: store of this task; its budget counts the records */
    /* volatile: each task has its own random seed for the hash */
    struct psi_list places[PSD_RESET_PLACES]; /* lists of resets by the hash of the container's name */
    uint64_t seed[2];
};

/** Initialise d. store: the store of the same task, which must outlive d. */
void psd_directory_init(struct psd_directory *d, struct psd_store *store, const uint64_t map_seed[2]);
void psd_directory_fini(struct psd_directory *d);
const struct psd_name *psd_directory_find(const struct psd_directory *d, const char *container, const char *name);
/** The names of a container. NULL: there are none. The record is freed with the last name. */
const struct psd_names_in *psd_directory_names_in(const struct psd_directory *d, const char *container);
/** Note the key of a session's container. claimed: the session that owns the container is connected, and has shown this key. */
void psd_names_keyed(const struct psd_directory *d, const char *container, const uint8_t key[PSI_KEY_BYTES], bool claimed);
/** The next container of a session to examine, which moves to the end of the list. NULL: there is none. */
struct psd_names_in *psd_names_next_session(struct psd_directory *d);
/** psd_names_in_first(): the first name of a container; psd_names_in_next(): the name after n. NULL: there is none. */
const struct psd_name *psd_names_in_first(const struct psd_names_in *in);
const struct psd_name *psd_names_in_next(const struct psd_names_in *in, const struct psd_name *n);
/** Budget bytes of a new name, and of its container's entry if the entry is new. Only a creation checks the budget. */
uint64_t psd_name_bytes(const struct psd_directory *d, const char *container, const char *name,
                        const struct psd_definition *definition);
void psd_directory_check_invariants(const struct psd_directory *d);
uint64_t psd_directory_bytes(const struct psd_directory *d);
/** Allocate the memory of a name with this definition, so that psd_directory_record() cannot fail. *out NULL: the name has a
 * record of the right size already. RESOURCE_EXHAUSTED. */
ps_status psd_name_reserve(struct psd_directory *d, const char *container, const char *name,
                           const struct psd_definition *definition, struct psd_name **out, struct psi_err *err) PSI_MUST;
/** Note about the owner's process with this random number: it has the variable of n (confirm); it was asked to create the
 * variable (asked); it has dropped the variable, and will create it again (unsure). */
void psd_name_confirm(const struct psd_name *n, uint64_t life);
void psd_name_asked(const struct psd_name *n, uint64_t life);
void psd_name_unsure(const struct psd_name *n, uint64_t life);
void psd_name_in_rounds(const struct psd_name *n, uint8_t rounds);
void psd_name_by_rounds(const struct psd_name *n, bool by_rounds);

/** Initialise `resets`. store: the store of this task, which must outlive `resets`; its budget counts resets and refuses none. */
void psd_resets_init(struct psd_resets *resets, struct psd_store *store, const uint64_t seed[2]);
uint64_t psd_resets_bytes(const struct psd_resets *resets);
void psd_resets_fini(struct psd_resets *resets);
/** Add r, whose container is set, as the newest reset. psd_resets_remove() or psd_reset_free() removes it. */
void psd_resets_add(struct psd_resets *resets, struct psd_reset *r);
void psd_resets_remove(struct psd_reset *r);
/** Find the reset of this container: pending, or not yet carried out by a task that was away. NULL: there is none. */
struct psd_reset *psd_reset_record(const struct psd_resets *resets, const char *container);
/** Make a reset for a cluster of peer_count tasks, in no list. NULL: no memory. */
struct psd_reset *psd_reset_new(uint32_t peer_count);
void psd_reset_free(struct psd_reset *r);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The directory (DESIGN §10): which task has which name, with what definition, and the resets that some task still misses. Only
 * the directory task fills it. A name is recorded before its owner is asked to make the variable. A name stays when its owner
 * drops out; only the owner's own refusal takes it away. Names and resets change in psd_commit() only. Notes on lives are
 * volatile: a name that is read from a checkpoint is unconfirmed. */
#ifndef PSD_NAMES_H
#define PSD_NAMES_H

#include "variable.h"

/* The record of one name, in one piece of memory with its strings: a directory may have a million. */
struct psd_name {
    /* volatile: notes on lives */
    uint64_t life;  /* life of the owner's process that last confirmed the name; 0: none has */
    uint64_t asked; /* life of the process that was last asked to create it, and has not confirmed it */
    uint64_t cut;   /* serial of the last cut that has the name (cut.h) */
    /* derived: */
    struct psi_list in; /* in psd_names_in.all */
    /* remembered: */
    const char *name;         /* lies behind `container` */
    uint32_t owner;           /* peer index, psd/state.h */
    uint32_t optimizer_words; /* bit i: word i of the ps_optimizer is not 0, and is stored; no bit: no optimizer */
    uint8_t dtype, rank;
    bool atomic, queue, part;
    /* volatile: */
    bool sure;      /* the owner has said that it has the name */
    uint8_t rounds; /* role in the container's group: 1 trainable, 2 the global step, 0 none */
    bool by_rounds; /* as psd_container.by_rounds */
    /* remembered: */
    char container[]; /* with its NUL; behind it the name with its NUL, the dimensions, the stored words of the optimizer, 8
                         bytes each, and of a part a struct psi_part */
};
struct psd_definition psd_name_definition(const struct psd_name *n);

/* The names of one container, so that a search in one container does not go through the names of all. */
struct psd_names_in {
    /* derived: */
    struct psi_list all;       /* of psd_name.in, the oldest first */
    uint32_t count, variables; /* names; names that are no queues */
    bool of_session; /* `container` is named as a session's container; the volatile fields are used only then (directory/own.c) */
    /* volatile: */
    struct psi_list session;    /* in psd_directory.sessions; of_session false: in no list */
    bool claimed;               /* a living session has had this container in this life of the directory */
    uint64_t unclaimed_ms;      /* since when no living session has it, in this life of the directory; 0: one has */
    uint8_t key[PSI_KEY_BYTES]; /* as the container's creation, or a task's list, said it */
    /* derived: */
    char container[];
};

struct psd_directory {
    struct psi_map names;     /* remembered: container \0 name -> struct psd_name */
    struct psi_map in;        /* derived: container -> struct psd_names_in */
    uint64_t forgotten;       /* derived: names forgotten so far */
    uint32_t of_sessions;     /* derived: containers in `in` that belong to sessions */
    uint32_t session_names;   /* derived: names in those containers */
    struct psi_list sessions; /* volatile: containers of sessions, in the order in which directory/own.c looks at them */
    struct psd_store *store;  /* volatile: of the same task; its budget counts the names */
};

/* A reset that is not done on all tasks. */
enum { PSD_RESET_WHY = 200 };

struct psd_reset {
    struct psi_list link;  /* derived: in psd_resets.all */
    struct psi_list place; /* derived: in one of psd_resets.places */
    /* remembered: */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    bool pending;      /* nothing is created in the container meanwhile; once false, only `owed` is left */
    bool *outstanding; /* per peer: must answer before the reset is done */
    bool *owed;        /* per peer: was not connected, and will be told when it lists; lies behind outstanding in one block */
    /* volatile: */
    struct psi_list waiters; /* psd/session/wait.h; empty: nobody waits any more */
    /* volatile: where tasks have disks, psd/checkpoint/bars.h */
    uint64_t bar, bar_before; /* 0: no bar is kept */
    uint64_t chief_number;    /* number of the chief that asked for the reset; 0: not asked as a chief */
    char by[96];              /* who asked, for logs; "": an earlier life of the directory was asked */
    bool emptying;            /* our own part of the container is being emptied (rpc/emptying.c) */
    bool forgetting;          /* all tasks have done their part, and the container's names are being forgotten in slices */
    bool noting, noted;       /* noting: our disk is being told how the reset stands; noted: the disk has noted that it is over */
    bool taken_back;          /* the reset is not carried out, and our disk still says that it is open */
    uint64_t again_ms;        /* when a failure is tried again; 0: no failure */
    uint64_t bytes;           /* of the record, as malloc gives them */
    struct psd_store *store;  /* whose budget counts the record; NULL: it is in no psd_resets */
    char why[PSD_RESET_WHY];  /* the last disk that has not noted the reset, and why; "": every disk has noted it */
};

/* Resets, found by their containers. A place is a list, so that an addition takes no memory and cannot fail. */
enum { PSD_RESETS_MAX = 1024, PSD_RESET_PLACES = 256 };

struct psd_resets {
    struct psi_list all;     /* derived: the oldest first */
    struct psd_store *store; /* volatile: of the same task; its budget counts the records */
    /* volatile: each task has another seed; psd_reset.place says in which list a reset is */
    struct psi_list places[PSD_RESET_PLACES]; /* by the hash of the container */
    uint64_t seed[2];
};

/** store is of the same task, and outlives the directory. */
void psd_directory_init(struct psd_directory *d, struct psd_store *store, const uint64_t map_seed[2]);
void psd_directory_fini(struct psd_directory *d);
const struct psd_name *psd_directory_find(const struct psd_directory *d, const char *container, const char *name);
/** The names of a container. NULL: there is none. The record is freed with the last name. */
const struct psd_names_in *psd_directory_names_in(const struct psd_directory *d, const char *container);
/** Note the key of a session's container. claimed: a living session has the container now. Volatile. */
void psd_names_keyed(const struct psd_directory *d, const char *container, const uint8_t key[PSI_KEY_BYTES], bool claimed);
/** The next container of a session to be looked at; it moves to the end of the list. NULL: none. Volatile. */
struct psd_names_in *psd_names_next_session(struct psd_directory *d);
/** The first name of a container, and the name behind n; NULL: there is none. */
const struct psd_name *psd_names_in_first(const struct psd_names_in *in);
const struct psd_name *psd_names_in_next(const struct psd_names_in *in, const struct psd_name *n);
/** Budget bytes of a new name; the first name of a container takes more. Only a creation asks for them: a variable that a task
 * already has is named whatever the budget is. */
uint64_t psd_name_bytes(const struct psd_directory *d, const char *container, const char *name,
                        const struct psd_definition *definition);
void psd_directory_check_invariants(const struct psd_directory *d);
/** Budget bytes of all names, counted anew. */
uint64_t psd_directory_bytes(const struct psd_directory *d);
/** Allocate memory for a name with this definition, so that recording the name cannot fail. *out NULL: the name is known, and
 * its memory has room for the definition. */
ps_status psd_name_reserve(struct psd_directory *d, const char *container, const char *name,
                           const struct psd_definition *definition, struct psd_name **out, struct psi_err *err) PSI_MUST;
/** Notes on the owner of n. The process with this life has said that it has the name (confirm); was asked to make it (asked);
 * has it, but makes it anew (unsure). */
void psd_name_confirm(const struct psd_name *n, uint64_t life);
void psd_name_asked(const struct psd_name *n, uint64_t life);
void psd_name_unsure(const struct psd_name *n, uint64_t life);
/** Note the role of n in its container's group. */
void psd_name_in_rounds(const struct psd_name *n, uint8_t rounds);
void psd_name_by_rounds(const struct psd_name *n, bool by_rounds);

/** store, of this task, outlives the resets. It counts records as PSD_MEMORY_CONTAINERS, and refuses none: a reset makes room. */
void psd_resets_init(struct psd_resets *resets, struct psd_store *store, const uint64_t seed[2]);
/** Budget bytes of all records, counted anew. */
uint64_t psd_resets_bytes(const struct psd_resets *resets);
void psd_resets_fini(struct psd_resets *resets);
/** r, whose container is set, becomes the newest reset. psd_resets_remove() or psd_reset_free() takes it out. */
void psd_resets_add(struct psd_resets *resets, struct psd_reset *r);
void psd_resets_remove(struct psd_reset *r);
/** The reset of this container, pending or owed to some task. NULL: there is none. */
struct psd_reset *psd_reset_record(const struct psd_resets *resets, const char *container);
/** A reset in a cluster of peer_count tasks. NULL: no memory. */
struct psd_reset *psd_reset_new(uint32_t peer_count);
void psd_reset_free(struct psd_reset *r);

#endif

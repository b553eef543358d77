/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory (DESIGN §10): which task has which name, and with what definition; and the resets that some task still misses.
 * Only the directory task fills it. A name is recorded before its owner is asked to make it, and stays when the owner drops out;
 * only the owner's own refusal takes it away. Names and resets change in psd_commit() only; notes on lives are written by whoever
 * hears of them and are not remembered: a name that comes out of a journal is unconfirmed.
 */
#ifndef PSD_NAMES_H
#define PSD_NAMES_H

#include "variable.h"

/* One piece of memory, as long as its strings: a directory may have a million. */
struct psd_name {
    /* volatile: notes on lives */
    uint64_t life;  /* life of the owner's process that said last that it has the name; 0: none has said so */
    uint64_t asked; /* life of the process that was asked for the name last, if no process has said so since */
    uint64_t cut;   /* the last one that has it: cut.h */
    /* derived: */
    struct psi_list in; /* of psd_names_in.all */
    /* remembered: */
    const char *name; /* behind the container's */
    uint32_t owner;   /* peer index, psd/state.h */
    uint8_t dtype, rank;
    uint8_t optimizer_words; /* bit i: word i of its ps_optimizer is not 0, and is kept; no bit: it has none */
    bool atomic, queue;
    /* volatile: */
    bool sure;      /* the owner has said that it has the name */
    uint8_t rounds; /* of its container's group: 1 trainable, 2 the global step */
    bool by_rounds; /* as of psd_container */
    /* remembered: */
    char container[]; /* with its NUL; then the name with its NUL; then its dimensions, and the words of its optimizer, 8 bytes
                         each */
};
struct psd_definition psd_name_definition(const struct psd_name *n);

/* The names of one container, so that a search in one container does not go through the names of all. */
struct psd_names_in {
    /* derived: */
    struct psi_list all;       /* of psd_name.in, in the order in which they came */
    uint32_t count, variables; /* names; names that are no queues */
    char container[];          /* with its NUL */
};

struct psd_directory {
    struct psi_map names;    /* remembered: container \0 name -> struct psd_name */
    struct psi_map in;       /* derived: container -> struct psd_names_in */
    uint64_t forgotten;      /* derived: names so far */
    struct psd_store *store; /* volatile: of the same task, whose budget names are in */
};

/* A reset that has begun and is not done on all tasks. */
enum { PSD_RESET_WHY = 200 };

struct psd_reset {
    struct psi_list link;  /* derived: of psd_resets.all */
    struct psi_list place; /* derived: of one of psd_resets.places */
    /* remembered: */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    bool pending;      /* no creation in the container meanwhile; when it is over only `owed` is left */
    bool *outstanding; /* per peer: must answer before the reset is done */
    bool *owed;        /* per peer: was not connected and will be told when it lists; behind outstanding in one block */
    /* volatile: */
    struct psi_list waiters; /* psd/rpc/wait.h; empty: nobody waits any more */
    /* volatile: where tasks have disks, psd/rpc/bars.h */
    uint64_t bar, bar_before; /* 0: none is kept */
    uint64_t chief_number;    /* of the chief that asked for it; 0: not as a chief */
    char by[96];              /* who asked, for logs; "": an earlier life of the directory was asked */
    bool emptying;            /* our own part of the container is being emptied (rpc/emptying.c) */
    bool forgetting;          /* all tasks have done their part, and the container's names are being forgotten in slices */
    bool noting, noted;       /* that it is open, or over, is on its way to our disk; that it is over is there */
    bool taken_back;          /* the reset is not carried out, and our disk still says that it is open */
    uint64_t again_ms;        /* after a failure: 0: none */
    char why[PSD_RESET_WHY];  /* the last disk that has not noted the reset, and why; "": every disk has noted it */
};

/* Resets, found by their containers. A place is a list, so that an addition takes no memory and cannot fail. */
enum { PSD_RESETS_MAX = 1024, PSD_RESET_PLACES = 256 };

struct psd_resets {
    struct psi_list all; /* derived: the oldest first */
    /* volatile: each task has another seed, and psd_reset.place says what is where */
    struct psi_list places[PSD_RESET_PLACES]; /* by the hash of the container */
    uint64_t seed[2];                         /* of that hash */
};

/** store: of the same task; borrowed as long as the directory lives. */
void psd_directory_init(struct psd_directory *d, struct psd_store *store, const uint64_t map_seed[2]);
void psd_directory_fini(struct psd_directory *d);
const struct psd_name *psd_directory_find(const struct psd_directory *d, const char *container, const char *name);
/** The names of a container. NULL: there is none. The record is freed with the last name. */
const struct psd_names_in *psd_directory_names_in(const struct psd_directory *d, const char *container);
/** The first name of a container, and the name behind n; NULL: there is none. */
const struct psd_name *psd_names_in_first(const struct psd_names_in *in);
const struct psd_name *psd_names_in_next(const struct psd_names_in *in, const struct psd_name *n);
/** What a new name would take of the budget; the first one of a container takes more. Only a creation asks for that room. What
 * a task has already is named whatever the budget is. */
uint64_t psd_name_bytes(const struct psd_directory *d, const char *container, const char *name,
                        const struct psd_definition *definition);
void psd_directory_check_invariants(const struct psd_directory *d);
/** What all names take of the budget, counted anew. */
uint64_t psd_directory_bytes(const struct psd_directory *d);
/** Allocate memory for a name with this definition, so that recording the name cannot fail. *out NULL: the name is known, and
 * its memory has room for the definition. */
ps_status psd_name_reserve(struct psd_directory *d, const char *container, const char *name,
                           const struct psd_definition *definition, struct psd_name **out, struct psi_err *err) PSI_MUST;
/** Notes: its owner, as the process with that life, has said that it has it; has been asked for it; goes on to make it anew. */
void psd_name_confirm(const struct psd_name *n, uint64_t life);
void psd_name_asked(const struct psd_name *n, uint64_t life);
void psd_name_unsure(const struct psd_name *n, uint64_t life);
/** What it is in its container's group. */
void psd_name_in_rounds(const struct psd_name *n, uint8_t rounds);
void psd_name_by_rounds(const struct psd_name *n, bool by_rounds);

void psd_resets_init(struct psd_resets *resets, const uint64_t seed[2]);
/** Frees those that are there. */
void psd_resets_fini(struct psd_resets *resets);
/** r, whose container is set, becomes the newest; psd_resets_remove() or psd_reset_free() takes it out. */
void psd_resets_add(struct psd_resets *resets, struct psd_reset *r);
void psd_resets_remove(struct psd_reset *r);
/** Of this container, pending or owed to some task; NULL: none. */
struct psd_reset *psd_reset_record(const struct psd_resets *resets, const char *container);
/** Memory for one of a cluster of so many tasks; NULL: none. */
struct psd_reset *psd_reset_new(uint32_t peer_count);
void psd_reset_free(struct psd_reset *r);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables and containers of one task. A variable is created uninitialised with its definition fixed; value and slots come with
 * its initialisation. It is counted: the container holds one reference, each push in progress and each pull being sent one more,
 * so that operations which began before a reset or delete end on the orphan. Handles are never reused within a life.
 */
#ifndef PSD_VARIABLE_H
#define PSD_VARIABLE_H

#include "arena.h"
#include "common/limits.h"
#include "common/list.h"
#include "common/map.h"
#include "psd/optim/optim.h"
#include "sums.h"

#include <stddef.h>

struct psd_change;
struct psd_container;
struct psd_cut;
struct psd_kept;
struct psd_part;
struct psd_queue;
struct psd_rounds;
struct psd_task;

/* What each push and pull looks at comes first, in PSD_VARIABLE_HOT_BYTES: with many variables none of it is in cache. */
struct psd_variable {
    /* remembered: */
    struct psd_container *container;  /* NULL once gone */
    void *value;                      /* NULL while uninitialised */
    void *slots[PSD_OPTIM_SLOTS_MAX]; /* maybe reserved while uninitialised */
    uint64_t bytes;                   /* of the value; strings: of the blob that is there or will be first (common/blob.h) */
    uint64_t version;                 /* completed mutations since initialisation, torn ones included */
    uint64_t pushes;                  /* applied in full */
    ps_dtype dtype;
    bool initialised, sealed, restored;
    bool given;  /* its first value, or a chief's, came by ASSIGN: somebody's model, also at version 0 */
    bool atomic; /* pushes are staged, reads are copies */
    /* volatile: */
    bool gone;    /* reset or deleted: lives on for those who hold it */
    uint8_t rank; /* remembered: of its shape, whose dimensions are behind its name: psd_variable_shape() */
    uint32_t refs;
    struct psd_sums sums;    /* of the value */
    struct psi_list waiters; /* requests that wait for its value or its seal: psd/rpc/wait.h */
    /* derived: */
    uint32_t element_bytes;
    uint32_t handle;      /* of this life: from the order of creations */
    uint32_t in_progress; /* pushes begun and not ended, those to an atomic variable apart: nothing of them can be seen */
    uint32_t cut_refs;    /* volatile: of refs: that cut's, which stand for nothing in progress */
    uint64_t elements;
    /* remembered: */
    ps_optimizer optimizer; /* kind fixed at creation, hyperparameters as the chief says */
    double rate;            /* SET_RATE: in place of the optimizer's, until it is cleared; 0: none */
    struct psd_optim_state optim_state;
    uint64_t chief_value; /* not sealed: number under which a chief gave the value; sealed: under which that was done; 0: none */
    struct psd_queue *queue; /* psd/store/queue.h; NULL: a variable. A queue has no dtype, no elements and never a value */
    struct psd_part *part;   /* derived: psd/store/rounds.h; NULL: it is in no group */
    /* remembered: */
    uint64_t creation;   /* random: tells this creation from another of the same name */
    ps_initializer init; /* what the last INIT said */
    uint64_t seed;
    uint64_t chief_number; /* highest that an INIT or SEAL carried */
    uint8_t giver[8];      /* given: the first bytes of that session's id */
    uint32_t pin;          /* 1 + index of the task that who made it has pinned it to; 0: it may be anywhere */
    uint32_t order; /* its place in the order of creation, of all that the cluster has; it is its own, also in checkpoints */
    /* volatile: */
    void *first_value;                              /* staged in the memory that is promised to `value`, which is NULL then */
    uint64_t checkpoint, checkpoint_version;        /* out of which its value came (place.h), and its version then; 0: of none */
    uint64_t cut;                                   /* the last cut that has it: psd/store/cut.h */
    struct psd_kept *kept[1 + PSD_OPTIM_SLOTS_MAX]; /* of value and slots: psd/store/kept.h; NULL: nobody */
    char name[]; /* remembered: with its NUL; behind it rank dimensions, each int64_t, wherever the name ends */
};
enum { PSD_VARIABLE_HOT_BYTES = 256, PSD_WARM_MAX = 64 };
_Static_assert(offsetof(struct psd_variable, creation) <= PSD_VARIABLE_HOT_BYTES, "what requests look at");

enum { PSD_AGES = 17 }; /* 0 to 15, and more */
struct psd_container {
    /* remembered: */
    char name[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t incarnation;
    struct psi_map variables;  /* name -> struct psd_variable */
    struct psd_rounds *rounds; /* psd/store/rounds.h; NULL: none */
    /* derived: */
    uint32_t number; /* containers that were made before it */
    /* volatile: */
    uint64_t cut;         /* the last cut that has the container: psd/store/cut.h */
    uint32_t cut_file;    /* newest file of the container's values in that cut; 0: none */
    uint32_t cut_notes;   /* enum ps_file_notes of the container in that cut: PS_NOTE_SEALED, PS_NOTE_BARE */
    uint64_t cut_step;    /* global step of the container in that cut, + 1; 0: none that counts */
    char *cut_bare;       /* name of the first variable without a value in that cut, owned; NULL: there is none */
    uint64_t start, next; /* what has placed it, and what has loaded beside it since: psd/rpc/start.h; 0: nothing */
    /* SET_RATE of all its variables (psd/rpc/rate.c): those whose handle is below `rated` have `rate`, whatever their records
     * say, until each record says so as well; 0: each has what its record says */
    uint32_t rated;
    double rate;
    uint64_t rate_cut; /* serial of the cut that was being made when `rate` came into force: it has what there was before; 0:
                          there was none */
    /* checkpoints up to this number have other things in this container, or have them elsewhere; 0: none has */
    uint64_t moved;
    bool emptying;           /* a reset drops its variables in slices: nobody finds them any more (psd_variable_is_gone()) */
    bool by_rounds;          /* a group of PSD_SYNC_ROUNDS was set since it was made, loaded or reset */
    uint64_t ages[PSD_AGES]; /* pushes by how many versions their variable was ahead of the values that they came from */
};

/* What counts in the budget beside values, slots, elements and staging (memory.c). psd_store_memory_text() has the names of the
 * kinds. */
enum psd_memory {
    PSD_MEMORY_VARIABLES,  /* records of variables and queues, with their places in the tables of names, handles and creations */
    PSD_MEMORY_CONTAINERS, /* with their chiefs, and bars: of what was reset or deleted and checkpoints may have */
    PSD_MEMORY_NAMES,      /* records of names at the directory */
    PSD_MEMORY_PUSHES,     /* records of pushes in progress and of attempts of queues */
    PSD_MEMORY_ROUNDS,     /* records of groups and their members */
    PSD_MEMORY_CUT,        /* a checkpoint that is being made: copies of values, and values that were freed since its cut */
    /* Each kind from here on has PSD_MEMORY_FREE_BYTES beside the budget. So variables that fill the budget lock nobody out. */
    PSD_MEMORY_SESSIONS,
    PSD_MEMORY_REQUESTS,    /* requests that wait, and their lists */
    PSD_MEMORY_CONNECTIONS, /* with their buffers and what waits to be sent */
    PSD_MEMORY_KINDS
};
enum { PSD_MEMORY_FREE_BYTES = 16 << 20, PSD_MEMORY_TEXT_BYTES = 192 };

struct psd_store {
    struct psi_map containers; /* remembered: */
    /* derived: */
    struct psi_u64_map handles, creations; /* -> struct psd_variable */
    uint32_t next_handle, next_order;
    uint32_t variable_count; /* queues too */
    uint32_t queue_count;
    uint64_t variable_bytes; /* of the values of all variables, initialised or not: the sum of psd_variable.bytes */
    uint64_t dropped;        /* variables so far: who waits for one looks again when it has changed */
    /* volatile: */
    struct psd_arena arena;
    struct psd_arena records; /* of variables */
    uint64_t map_seed[2];
    uint64_t counted[PSD_MEMORY_KINDS]; /* bytes */
    /* bytes of records of variables that are deleted or reset, and still held by a request */
    uint64_t gone_bytes;
    uint64_t budget_bytes;
    uint64_t promised_bytes; /* values and slots of all variables, initialised or not, elements of queues, and staging, of copies
                                and calls too */
    bool budget_lowered;     /* below what was promised then */
    struct psi_list free_attempts;
    /* psd_container.moved of containers that are made from now on; 0 where no container has such a number */
    uint64_t moved;
    uint64_t changes;    /* count of changes that make a checkpoint differ (commit.c) */
    uint64_t cut_serial; /* of the last cut */
    struct psd_cut *cut; /* that goes; NULL: none does, as the next */
    void (*cut_before)(struct psd_task *t, const struct psd_change *c); /* a change is about to be carried out */
};

/* What a creation fixes. */
struct psd_definition {
    /* remembered: */
    ps_dtype dtype;
    ps_shape shape;
    ps_optimizer optimizer;
    bool atomic;
    bool queue; /* and none of the above; its psi_queue_spec is known to its owner only */
};

/* What a container takes of the budget: its record, its entry of the map of all containers, and the first tables of its own
 * map. */
enum { PSD_CONTAINER_BYTES = sizeof(struct psd_container) + 16 + PSI_MAP_ENTRY_BYTES + PSI_MAP_LEAST_BYTES };

void psd_store_init(struct psd_store *s, const uint64_t map_seed[2], uint64_t budget_bytes);
void psd_store_fini(struct psd_store *s);

/** dtype known, shape legal, optimizer legal for dtype. INVALID_ARGUMENT names the variable and what is allowed. */
ps_status psd_definition_check(const struct psd_definition *d, const char *name, struct psi_err *err) PSI_MUST;
/** INVALID_ARGUMENT that names both sides when dtype, shape, optimizer kind or atomic differ, or one is a queue. What two queues
 * are made as, psi_queue_spec_compare() compares. */
ps_status psd_definition_compare(const struct psd_definition *have, const char *where, const struct psd_definition *want,
                                 const char *name, struct psi_err *err) PSI_MUST;

/** What the record of a variable or queue takes of the budget, with its entries of the tables. */
uint64_t psd_variable_record_bytes(const char *name, uint32_t rank);
/** What value and slots take of the arena. */
uint64_t psd_definition_memory_bytes(const struct psd_definition *d);

/** As psd_definition_compare(), and the hyperparameters too. */
bool psd_definition_equal(const struct psd_definition *a, const struct psd_definition *b);

/** NULL when absent. A variable of a container that is being emptied is absent. */
const struct psd_container *psd_container_find(const struct psd_store *s, const char *name);
const struct psd_variable *psd_variable_find(const struct psd_container *c, const char *name);
/** NULL: no such handle in this life, or its variable is gone. */
const struct psd_variable *psd_variable_by_handle(const struct psd_store *s, uint32_t handle);
/** The same, and also a variable that a reset takes away and has not dropped yet: for what waits at the variable until then. */
const struct psd_variable *psd_variable_left(const struct psd_store *s, uint32_t handle);
/** v is dropped, or a reset takes it away: whoever asks for it is told that it is gone. */
bool psd_variable_is_gone(const struct psd_variable *v);
/** A reset drops the variables of c in slices (true), or has dropped them (false). No state: a change says what is dropped. */
void psd_container_emptying(const struct psd_container *c, bool emptying);
/** From now on all variables of c whose handle is below `rated` have this rate (0: their optimizers' own). A change for each of
 * them follows, and then psd_container_rated(). */
void psd_container_rate(const struct psd_store *s, uint32_t rated, const struct psd_container *c, double rate);
/** The records of all variables of c say what their rate is, or c is emptied. */
void psd_container_rated(const struct psd_container *c);
/** The learning rate in force in place of the optimizer's; 0: none. */
double psd_variable_rate(const struct psd_variable *v);
/** The same, at the instant of the cut v->cut, which v is being written to. */
double psd_variable_rate_in_cut(const struct psd_variable *v);
/** Variables and queues of c that requests find: none while it is being emptied. */
uint32_t psd_container_count(const struct psd_container *c);
/** Have what pushes and pulls of `bytes` look at brought into cache; of handles that there are not, nothing.
 * n: PSD_WARM_MAX at most. */
void psd_variables_warm(const struct psd_store *s, const uint64_t *handles, uint32_t n, uint64_t bytes);
const struct psd_variable *psd_variable_by_creation(const struct psd_store *s, uint64_t creation);
/** What its value and slots take; 0 while uninitialised. */
uint64_t psd_variable_memory_bytes(const struct psd_variable *v);
/** The same, also while it is uninitialised. */
uint64_t psd_variable_promised_bytes(const struct psd_variable *v);
/** It has a value that a chief gave and nobody has changed, and is not sealed: a higher chief may give it another one. */
static inline bool psd_variable_is_provisional(const struct psd_variable *v)
{
    return !v->sealed && v->chief_value != 0;
}
struct psd_definition psd_variable_definition(const struct psd_variable *v);
/** psd_optim_begin() with the optimizer and the state in force, and with this learning rate. rate 0: the optimizer's own. */
void psd_variable_capture_at(const struct psd_variable *v, double rate, float scale, struct psd_optim_scalars *out);
ps_shape psd_variable_shape(const struct psd_variable *v);
/** What a push that begins now captures: psd_optim_begin() with the optimizer, state and learning rate that are in force. */
void psd_variable_capture(const struct psd_variable *v, float scale, struct psd_optim_scalars *out);
/** References are no state: they keep memory. */
const struct psd_variable *psd_variable_ref(const struct psd_variable *v);
void psd_variable_unref(struct psd_store *s, const struct psd_variable *v);
/** Who waits for it is no state either. */
struct psi_list *psd_variable_waiters(const struct psd_variable *v);
/** CRC32C of the value's bytes [offset, offset + bytes). */
uint32_t psd_variable_sum(const struct psd_variable *v, uint64_t offset, uint32_t bytes);

/* ---- memory for changes (commit.h): without it nothing is decided, with it nothing fails ---- */
/** One more container. */
ps_status psd_container_reserve(struct psd_store *s, const char *name, struct psd_container **out, struct psi_err *err) PSI_MUST;
/** One more variable, with the promise of its memory. RESOURCE_EXHAUSTED when value and slots do not fit what is left of the
 * budget, FAILED_PRECONDITION when they are larger than all of it. */
ps_status psd_variable_reserve(struct psd_store *s, const struct psd_container *c, const char *name,
                               const struct psd_definition *d, struct psd_variable **out, struct psi_err *err) PSI_MUST;
/** The slots of v, while it is uninitialised: for a first value by ASSIGN. */
ps_status psd_variable_reserve_slots(struct psd_store *s, const struct psd_variable *v, struct psi_err *err) PSI_MUST;
/* What an INIT says, and an initial value and its slots that are filled, maybe in slices, before the variable takes them. */
struct psd_making {
    /* volatile: until a change gives it to the variable */
    ps_initializer init;
    uint64_t seed;
    ps_optimizer optimizer;
    void *value;                      /* NULL: nothing has begun */
    void *slots[PSD_OPTIM_SLOTS_MAX]; /* staged when `replaces`; otherwise those of the variable, which nobody uses yet */
    bool replaces;                    /* the variable has a value, which is used meanwhile */
    uint64_t done;                    /* elements, of the value and then of each slot */
};
/** Memory for m, which nothing fills before the commit: a variable that has a value gets the new one in its place. */
ps_status psd_variable_make_at_once(struct psd_store *s, const struct psd_variable *v, struct psd_making *m,
                                    struct psi_err *err) PSI_MUST;
/** m->value, staged by the caller, and, if m->replaces, every slot is there: false without memory for the slots of the variable.
 */
bool psd_variable_make_begin(struct psd_store *s, const struct psd_variable *v, struct psd_making *m) PSI_MUST;
/** About `bytes` more. True when all is filled. */
bool psd_variable_make(const struct psd_variable *v, struct psd_making *m, uint64_t bytes) PSI_MUST;
/** Give back what v has not taken. */
void psd_variable_make_end(struct psd_store *s, const struct psd_variable *v, struct psd_making *m);
/** Memory for a whole new value, of `bytes` (v->bytes, but for strings): what was promised to v, while v has no value and nobody
 * else stages there; NULL: that is not to be had. psd_variable_unstage_kept() gives it back, and any
 * other staging for v; *kept is of p. */
void *psd_variable_stage_first(struct psd_store *s, const struct psd_variable *v, uint64_t bytes);
void psd_variable_unstage_kept(struct psd_store *s, const struct psd_variable *v, void *p, uint64_t bytes,
                               struct psd_kept **kept);
/* ---- memory.c: the budget ---- */
/** Count n bytes of this kind more, or fewer. A caller that makes something has asked psd_store_missing() before. */
void psd_store_count(struct psd_store *s, enum psd_memory kind, uint64_t n);
void psd_store_uncount(struct psd_store *s, enum psd_memory kind, uint64_t n);
/** What is taken of the budget, bytes. */
uint64_t psd_store_taken(const struct psd_store *s);
/** What of this kind is taken of the budget. */
uint64_t psd_store_counted_over(const struct psd_store *s, enum psd_memory kind);
/** What is in use, of the budget or beside it. What is promised and has no memory yet does not count. */
uint64_t psd_store_memory_bytes(const struct psd_store *s);
/** What fills the budget, the largest first: "values 30.1M, variables 6.2M, names 1.1M". */
const char *psd_store_memory_text(const struct psd_store *s, char text[PSD_MEMORY_TEXT_BYTES]);
/** Fail: `name` needs n bytes. The text says the budget and what fills it. RESOURCE_EXHAUSTED, or FAILED_PRECONDITION where n
 * is more than the whole budget. */
ps_status psd_store_full(const struct psd_store *s, const char *kind, const char *name, uint64_t n, struct psi_err *err) PSI_MUST;
/** From now on; what was promised stays, nothing is promised above it. */
void psd_store_set_budget(struct psd_store *s, uint64_t budget_bytes);
/** By how much n more bytes are above the budget; 0: they fit. */
uint64_t psd_store_missing(const struct psd_store *s, uint64_t n);
/** As psd_store_missing(), for n more bytes of a kind that has PSD_MEMORY_FREE_BYTES beside the budget. */
uint64_t psd_store_missing_of(const struct psd_store *s, enum psd_memory kind, uint64_t n);
/** Promise the bytes that psd_arena_bytes() says of a piece. False: they do not fit in the budget. */
bool psd_store_promise(struct psd_store *s, uint64_t n) PSI_MUST;
/** Staging memory of n bytes within the budget, zeroed; raw: with whatever is in it. NULL when there is none. */
void *psd_store_stage(struct psd_store *s, uint64_t n);
void *psd_store_stage_raw(struct psd_store *s, uint64_t n);
void psd_store_unstage(struct psd_store *s, void *p, uint64_t n);
void psd_store_unstage_kept(struct psd_store *s, void *p, uint64_t n, struct psd_kept **kept);
void psd_store_check_invariants(const struct psd_store *s);

#endif

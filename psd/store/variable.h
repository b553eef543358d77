/* SPDX-License-Identifier: Apache-2.0 */
/* Variables and containers of one task. A variable is created uninitialised with its definition fixed; value and slots come with
 * its initialisation. References are counted: the container holds one, each push in progress and each pull being sent one more,
 * so that operations which began before a reset or delete end on the orphan. Handles are never reused within a life. */
#ifndef PSD_VARIABLE_H
#define PSD_VARIABLE_H

#include "arena.h"
#include "common/limits.h"
#include "common/list.h"
#include "common/map.h"
#include "common/name.h"
#include "common/partition.h"
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

/* What each push and pull reads comes first, in PSD_VARIABLE_HOT_BYTES: with many variables none of it is in cache. */
struct psd_variable {
    /* remembered: */
    struct psd_container *container;  /* NULL once gone */
    void *value;                      /* NULL while uninitialised */
    void *slots[PSD_OPTIM_SLOTS_MAX]; /* maybe reserved while uninitialised */
    uint64_t bytes;                   /* of the value; strings: of the blob that is there or will be first (common/blob.h) */
    uint64_t version;                 /* completed mutations since initialisation, torn ones included */
    uint64_t pushes;
    ps_dtype dtype;
    bool initialised, sealed, restored;
    bool given;  /* its first value, or a chief's, came by ASSIGN: a program's own model, also at version 0 */
    bool atomic; /* pushes are staged, reads are copies */
    /* volatile: */
    bool gone;    /* reset or deleted: lives on for those who hold a reference */
    uint8_t rank; /* remembered: of the shape, whose dimensions lie behind the name: psd_variable_shape() */
    bool is_part; /* remembered: of a partitioned variable: psd_variable_part_of() */
    uint32_t refs;
    struct psd_sums sums;    /* of the value */
    struct psi_list waiters; /* requests that wait for its value or its seal: psd/session/wait.h */
    /* derived: */
    uint16_t element_bytes;
    uint16_t row_elements; /* of a row, where the optimizer is by row; 1 for any other: an optimizer needs multiples of them */
    uint32_t handle;       /* of this life; counts creations */
    uint32_t in_progress;  /* pushes begun and not ended that change the value segment by segment: psd_progress_streams() */
    uint32_t cut_refs;     /* volatile: references of a cut, which keep memory and are no pushes in progress */
    uint64_t elements;
    /* remembered: */
    double rate;   /* SET_RATE: learning rate in place of the optimizer's; 0: none */
    uint64_t step; /* highest global step that a push carried; 0: none did */
    struct psd_optim_state optim_state;
    uint64_t chief_value;    /* number of the chief that gave the value or, if sealed, that sealed it; 0: none */
    struct psd_queue *queue; /* psd/store/queue.h; NULL: a variable. A queue has no dtype, no elements and never a value */
    struct psd_part *part;   /* derived: psd/store/rounds.h; NULL: it is in no group */
    ps_optimizer optimizer;  /* remembered: kind and slots fixed at creation, hyperparameters as the chief says; its schedule is
                              * the last of what requests look at, and few have one */
    /* remembered: */
    uint64_t creation; /* random: tells two creations of one name apart */
    ps_initializer init;
    uint64_t seed;
    uint64_t chief_number; /* highest chief number that an INIT or SEAL carried */
    uint8_t giver[8];      /* given: the first bytes of the id of the giving session */
    uint32_t pin;          /* 1 + index of the task that its creator pinned it to; 0: not pinned */
    uint32_t order;        /* unique place in the cluster's order of creations; also in checkpoints */
    /* volatile: */
    void *first_value;                       /* being staged in the memory that is promised to `value`, which is NULL meanwhile */
    uint64_t checkpoint, checkpoint_version; /* checkpoint that gave the value (place.h), and the version in it; 0: none */
    uint64_t cut;                            /* serial of the last cut that has it: psd/store/cut.h */
    struct psd_kept *kept[1 + PSD_OPTIM_SLOTS_MAX]; /* of value and slots: psd/store/kept.h; NULL: no cut keeps it */
    /* remembered: with its NUL; behind it rank dimensions, int64_t each, and of a part a struct psi_part, all unaligned */
    char name[];
};
enum { PSD_VARIABLE_HOT_BYTES = 384, PSD_WARM_MAX = 64 };
_Static_assert(offsetof(struct psd_variable, optimizer) + offsetof(ps_optimizer, warmup_steps) <= PSD_VARIABLE_HOT_BYTES,
               "what requests look at");

enum { PSD_AGES = 17 }; /* ages 0 to 15, and older */
struct psd_container {
    /* remembered: */
    char name[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t incarnation;
    struct psi_map variables;  /* name -> struct psd_variable */
    struct psd_rounds *rounds; /* psd/store/rounds.h; NULL: none */
    /* volatile: */
    uint64_t number;      /* containers made before it */
    uint64_t cut;         /* serial of the last cut that has the container: psd/store/cut.h */
    uint32_t cut_file;    /* newest file of the container's values in that cut; 0: none */
    uint32_t cut_notes;   /* enum ps_file_notes of the container in that cut: PS_NOTE_SEALED, PS_NOTE_BARE */
    uint64_t cut_step;    /* global step of the container in that cut, + 1; 0: none that counts */
    char *cut_bare;       /* name of the first variable without a value in that cut, owned; NULL: there is none */
    uint64_t start, next; /* starts that have placed it, and loaded beside it since: psd/checkpoint/beside.h; 0: none */
    /* SET_RATE of the whole container (psd/rounds/rate.c). Variables whose handle is below `rated` have `rate`, until their own
     * records say it too. rated 0: each record counts. */
    uint32_t rated;
    double rate;
    uint64_t rate_cut; /* serial of the cut in progress when `rate` came into force: it has the rates before; 0: none */
    /* Checkpoints up to this number have other variables in this container, or have them on other tasks. 0: none. */
    uint64_t moved;
    bool of_session; /* a session's container, as its name says: rpc/own.c. It goes when it is reset, and is in no checkpoint */
    uint8_t key[PSI_KEY_BYTES]; /* of_session: users must show it */
    struct psi_list shown;      /* volatile: of_session: struct psd_shown of the sessions that have shown the key (shown.h) */
    bool emptying;              /* a reset drops its variables in slices: nobody finds them any more (psd_variable_is_gone()) */
    bool by_rounds;             /* a group of PSD_SYNC_ROUNDS was set since the container was made, loaded or reset */
    uint64_t ages[PSD_AGES];    /* pushes by age: versions between the value that a gradient came from and the variable */
};

/* What counts in the budget beside values, slots, elements and staging (memory.c). psd_store_memory_text() names the kinds. */
enum psd_memory {
    PSD_MEMORY_VARIABLES, /* records of variables and queues, with their places in the tables of names, handles and creations */
    /* Containers, their chiefs, resets and bars (of what was reset or deleted and checkpoints may have), and what the directory
     * keeps of other tasks' containers for checkpoints and starts. */
    PSD_MEMORY_CONTAINERS,
    PSD_MEMORY_NAMES,  /* records of names at the directory */
    PSD_MEMORY_PUSHES, /* records of pushes in progress and of attempts of queues */
    PSD_MEMORY_ROUNDS, /* records of groups and their members */
    PSD_MEMORY_CUT,    /* a checkpoint that is being made: copies of values, and values that were freed since its cut */
    /* Each kind from here on has PSD_MEMORY_FREE_BYTES beside the budget, so that variables that fill the budget lock nobody
     * out. */
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
    uint64_t dropped;        /* variables dropped so far; who waits for a drop compares it */
    /* volatile: */
    uint64_t containers_made; /* containers made so far; those of sessions may be gone */
    uint32_t shown_count;     /* struct psd_shown of all containers */
    struct psd_arena arena;
    struct psd_arena records;
    uint64_t map_seed[2];
    uint64_t counted[PSD_MEMORY_KINDS];
    /* Bytes of records of variables that are deleted or reset, and still held by a request. */
    uint64_t gone_bytes;
    uint64_t budget_bytes;
    uint64_t promised_bytes; /* values and slots of all variables, elements of queues, staging, copies and calls */
    bool budget_lowered;     /* the budget was lowered below what was promised */
    struct psi_list free_attempts;
    /* psd_container.moved of containers that are made from now on; 0: they get no such number */
    uint64_t moved;
    uint64_t changes;    /* count of changes that make a checkpoint differ (commit.c) */
    uint64_t cut_serial; /* of the newest cut */
    struct psd_cut *cut; /* in progress; NULL: none, and cut_before is NULL too */
    void (*cut_before)(struct psd_task *t, const struct psd_change *c); /* called before a change is carried out */
};

struct psd_definition {
    /* remembered: */
    ps_dtype dtype;
    ps_shape shape;
    ps_optimizer optimizer;
    bool atomic;
    bool queue;           /* if set, none of the above counts; only its owner knows its psi_queue_spec */
    struct psi_part part; /* what the variable is a part of */
};

/* Budget bytes of a container: its record, its entry in the map of all containers, and the first tables of its own map. */
enum { PSD_CONTAINER_BYTES = sizeof(struct psd_container) + 16 + PSI_MAP_ENTRY_BYTES + PSI_MAP_LEAST_BYTES };

void psd_store_init(struct psd_store *s, const uint64_t map_seed[2], uint64_t budget_bytes);
void psd_store_fini(struct psd_store *s);

/** Check that the dtype is known, and that shape and optimizer are legal for it. INVALID_ARGUMENT names the variable and what is
 * allowed. */
ps_status psd_definition_check(const struct psd_definition *d, const char *name, struct psi_err *err) PSI_MUST;
/** Compare dtype, shape, what it is a part of, kind of optimizer, atomic, and variable or queue. INVALID_ARGUMENT names both
 * sides. psi_queue_spec_compare() compares the rest of two queues. */
ps_status psd_definition_compare(const struct psd_definition *have, const char *where, const struct psd_definition *want,
                                 const char *name, struct psi_err *err) PSI_MUST;

/** Budget bytes of the record of a variable or queue, with its entries in tables. */
uint64_t psd_variable_record_bytes(const char *name, uint32_t rank, bool is_part);
/** Arena bytes of value and slots. */
uint64_t psd_definition_memory_bytes(const struct psd_definition *d);

/** psd_definition_compare() finds no difference, and the hyperparameters are equal too. */
bool psd_definition_equal(const struct psd_definition *a, const struct psd_definition *b);

/** NULL: absent, or in a container that is being emptied. */
const struct psd_container *psd_container_find(const struct psd_store *s, const char *name);
const struct psd_variable *psd_variable_find(const struct psd_container *c, const char *name);
/** NULL: no such handle in this life, or its variable is gone. */
const struct psd_variable *psd_variable_by_handle(const struct psd_store *s, uint32_t handle);
/** Also finds a variable that a reset is taking away and has not dropped yet: for what waits at the variable until then. */
const struct psd_variable *psd_variable_left(const struct psd_store *s, uint32_t handle);
/** v is dropped, or a reset is taking it away: requests for it are told that it is gone. */
bool psd_variable_is_gone(const struct psd_variable *v);
/** A reset drops the variables of c in slices (true), or has dropped them (false). Volatile: changes say what is dropped. */
void psd_container_emptying(const struct psd_container *c, bool emptying);
/** From now on all variables of c whose handle is below `rated` have this rate (0: their optimizers' own). The caller commits a
 * change for each of them, and then calls psd_container_rated(). */
void psd_container_rate(const struct psd_store *s, uint32_t rated, const struct psd_container *c, double rate);
/** Set the key of a session's container. Volatile. */
void psd_container_keyed(const struct psd_container *c, const uint8_t key[PSI_KEY_BYTES]);
/** v is in the container of a session: no checkpoint has it. */
bool psd_variable_of_session(const struct psd_variable *v);
/** The records of all variables of c say their rate now, or c is emptied. */
void psd_container_rated(const struct psd_container *c);
/** The learning rate in force in place of the optimizer's; 0: none. */
double psd_variable_rate(const struct psd_variable *v);
/** The learning rate in place of the optimizer's at the instant of cut v->cut, while v is being written to it. */
double psd_variable_rate_in_cut(const struct psd_variable *v);
/** Variables and queues of c that requests find: none while it is being emptied. */
uint32_t psd_container_count(const struct psd_container *c);
/** Bring what pushes and pulls of `bytes` read of these variables into cache. Unknown handles: fine. n: PSD_WARM_MAX at most. */
void psd_variables_warm(const struct psd_store *s, const uint64_t *handles, uint32_t n, uint64_t bytes);
const struct psd_variable *psd_variable_by_creation(const struct psd_store *s, uint64_t creation);
/** Elements, and bytes, of the value (which 0) or of slot `which`, from 1 on; the variable has it. */
uint64_t psd_variable_elements_of(const struct psd_variable *v, uint32_t which);
uint64_t psd_variable_bytes_of(const struct psd_variable *v, uint32_t which);
/** Where elements [first, first + count) of the value, whole rows if the slot is by row, have what belongs to them in the value
 * (which 0) or in slot `which`. */
struct psd_span {
    /* volatile: */
    uint64_t at, bytes;
};
struct psd_span psd_variable_span(const struct psd_variable *v, uint32_t which, uint64_t first, uint64_t count);
/** Bytes of value and slots. 0 while uninitialised. */
uint64_t psd_variable_memory_bytes(const struct psd_variable *v);
/** Bytes promised for value and slots, initialised or not. */
uint64_t psd_variable_promised_bytes(const struct psd_variable *v);
/** A chief gave the value, nobody has changed it, and it is not sealed: a higher chief may replace it. */
static inline bool psd_variable_is_provisional(const struct psd_variable *v)
{
    return !v->sealed && v->chief_value != 0;
}
struct psd_definition psd_variable_definition(const struct psd_variable *v);
/** Learning rate of v at this global step (as ps_push_step.step; 0: the highest that a push to v carried): the one that SET_RATE
 * has put in place of the optimizer's, set_rate; 0: that of the optimizer's schedule, or the optimizer's own. */
double psd_variable_rate_at(const struct psd_variable *v, uint64_t step, double set_rate);
/** psd_optim_begin() with the optimizer and the state in force, and psd_variable_rate_at(). */
void psd_variable_capture_at(const struct psd_variable *v, uint64_t step, double set_rate, float scale,
                             struct psd_optim_scalars *out);
ps_shape psd_variable_shape(const struct psd_variable *v);
/** What v is a part of; all 0: of nothing. */
struct psi_part psd_variable_part_of(const struct psd_variable *v);
/** What a push that begins now and carries this step captures: psd_optim_begin() with the optimizer, state and learning rate that
 * are in force. */
void psd_variable_capture(const struct psd_variable *v, uint64_t step, float scale, struct psd_optim_scalars *out);
/** References are volatile: they keep memory. */
const struct psd_variable *psd_variable_ref(const struct psd_variable *v);
void psd_variable_unref(struct psd_store *s, const struct psd_variable *v);
/** Requests that wait for v. Volatile. */
struct psi_list *psd_variable_waiters(const struct psd_variable *v);
/** CRC32C of the value's bytes [offset, offset + bytes). */
uint32_t psd_variable_sum(const struct psd_variable *v, uint64_t offset, uint32_t bytes);

/* ---- memory for changes (commit.h): without it nothing is decided, with it nothing fails ---- */
ps_status psd_container_reserve(struct psd_store *s, const char *name, struct psd_container **out, struct psi_err *err) PSI_MUST;
/** Memory for one more variable, and the promise of its value and slots. RESOURCE_EXHAUSTED when they do not fit what is left of
 * the budget, FAILED_PRECONDITION when they are larger than all of it. */
ps_status psd_variable_reserve(struct psd_store *s, const struct psd_container *c, const char *name,
                               const struct psd_definition *d, struct psd_variable **out, struct psi_err *err) PSI_MUST;
/** Allocate the slots of v while it is uninitialised: for a first value by ASSIGN. */
ps_status psd_variable_reserve_slots(struct psd_store *s, const struct psd_variable *v, struct psi_err *err) PSI_MUST;
/* What an INIT says, and the value and slots that are filled, maybe in slices, before the variable takes them. */
struct psd_making {
    /* volatile: until a change gives it to the variable */
    ps_initializer init;
    uint64_t seed;
    ps_optimizer optimizer;
    void *value;                      /* NULL: not begun */
    void *slots[PSD_OPTIM_SLOTS_MAX]; /* staged if `replaces`; otherwise the variable's, still unused */
    bool replaces;                    /* the variable has a value, which is in use meanwhile */
    uint64_t done;                    /* elements filled, of the value and then of each slot */
};
/** Memory for m, which is filled at the commit. A variable that has a value gets the new one in its place. */
ps_status psd_variable_make_at_once(struct psd_store *s, const struct psd_variable *v, struct psd_making *m,
                                    struct psi_err *err) PSI_MUST;
/** The caller has staged m->value and, if m->replaces, every slot. False: no memory for the slots of the variable. */
bool psd_variable_make_begin(struct psd_store *s, const struct psd_variable *v, struct psd_making *m) PSI_MUST;
/** Fill about `bytes` more. True: all is filled. */
bool psd_variable_make(const struct psd_variable *v, struct psd_making *m, uint64_t bytes) PSI_MUST;
/** Give back the parts of m that v has not taken. */
void psd_variable_make_end(struct psd_store *s, const struct psd_variable *v, struct psd_making *m);
/** Memory for a whole new value of `bytes` (v->bytes, except strings): the memory promised to v, while v has no value and nobody
 * else stages there. NULL: it is not available. psd_variable_unstage_kept() gives back any staging of v; *kept is of p. */
void *psd_variable_stage_first(struct psd_store *s, const struct psd_variable *v, uint64_t bytes);
void psd_variable_unstage_kept(struct psd_store *s, const struct psd_variable *v, void *p, uint64_t bytes,
                               struct psd_kept **kept);
/* ---- memory.c: the budget ---- */
/** Count n bytes of a kind more, or fewer. Before making something a caller asks psd_store_missing(). */
void psd_store_count(struct psd_store *s, enum psd_memory kind, uint64_t n);
void psd_store_uncount(struct psd_store *s, enum psd_memory kind, uint64_t n);
uint64_t psd_store_taken(const struct psd_store *s);
uint64_t psd_store_counted_over(const struct psd_store *s, enum psd_memory kind);
/** Bytes in use, of the budget or beside it, without promises that have no memory yet. */
uint64_t psd_store_memory_bytes(const struct psd_store *s);
/** What fills the budget, the largest first: "values 30.1M, variables 6.2M, names 1.1M". */
const char *psd_store_memory_text(const struct psd_store *s, char text[PSD_MEMORY_TEXT_BYTES]);
/** Fail because `name` needs n bytes. The text says the budget and what fills it. RESOURCE_EXHAUSTED, or FAILED_PRECONDITION
 * where n is more than the whole budget. */
ps_status psd_store_full(const struct psd_store *s, const char *kind, const char *name, uint64_t n, struct psi_err *err) PSI_MUST;
/** Nothing is promised above the new budget; what was promised stays. */
void psd_store_set_budget(struct psd_store *s, uint64_t budget_bytes);
/** Bytes by which n more would exceed the budget; 0: they fit. */
uint64_t psd_store_missing(const struct psd_store *s, uint64_t n);
/** As psd_store_missing(), for n more bytes of a kind that has PSD_MEMORY_FREE_BYTES beside the budget. */
uint64_t psd_store_missing_of(const struct psd_store *s, enum psd_memory kind, uint64_t n);
/** Promise the bytes that psd_arena_bytes() says of a piece. False: they do not fit in the budget. */
bool psd_store_promise(struct psd_store *s, uint64_t n) PSI_MUST;
/** Staging memory of n bytes within the budget, zeroed; raw: undefined. NULL: there is none. */
void *psd_store_stage(struct psd_store *s, uint64_t n);
void *psd_store_stage_raw(struct psd_store *s, uint64_t n);
void psd_store_unstage(struct psd_store *s, void *p, uint64_t n);
void psd_store_unstage_kept(struct psd_store *s, void *p, uint64_t n, struct psd_kept **kept);
void psd_store_check_invariants(const struct psd_store *s);

#endif

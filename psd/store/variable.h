/* SPDX-License-Identifier: Apache-2.0 */
/* Variables and containers of one task. A creation fixes a variable's definition; the initialisation gives it value and slots.
 * References are counted: the container holds one, each push in progress and each pull being sent one more, so that operations
 * which began before a reset or delete can end on the dropped variable. A process never reuses a handle. */
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

/* What each push or pull reads is in the first PSD_VARIABLE_HOT_BYTES: with many variables, each cache line read is a miss. */
struct psd_variable {
    /* remembered: */
    struct psd_container *container; /* NULL: the variable was dropped */
    void *value;                     /* NULL: the variable has no value */
    /* arrays of the optimizer, such as a momentum; may be allocated before the variable has a value */
    void *slots[PSD_OPTIM_SLOTS_MAX];
    /* length of the value; strings: length of its blob (common/blob.h) or, without a value, of a blob of empty strings */
    uint64_t bytes;
    uint64_t version; /* number of mutations since the initialisation, also of those that failed in the middle of the value */
    uint64_t pushes;
    ps_dtype dtype;
    bool initialised, sealed, restored;
    /* an ASSIGN gave the value: the first one, a chief's, or one that a newer chief may still replace; false: an initializer */
    bool given;
    bool atomic; /* a push is gathered first, and then takes effect as a whole; a pull sends the value of one version */
    /* volatile: */
    bool gone;    /* reset or deleted: the record stays only until its last reference is released */
    uint8_t rank; /* remembered: rank of the shape, whose dimensions lie behind the name: psd_variable_shape() */
    bool is_part; /* remembered: the variable is one part of a larger variable: psd_variable_part_of() */
    uint32_t refs;
    struct psd_sums sums; /* CRCs of the value's segments */
    /* requests that wait for the value, or for the seal, by which a chief says that it is complete (psd/session/wait.h) */
    struct psi_list waiters;
    /* derived: */
    uint16_t element_bytes;
    uint16_t row_elements; /* elements of a row if the optimizer works by row, so that it needs whole rows; otherwise 1 */
    uint32_t handle;       /* number by which requests name the variable: a serial number, never reused by this process */
    uint32_t in_progress;  /* number of mutations in progress that may have changed part of the value: psd_number_may_show() */
    /* volatile: how many of `refs` belong to a checkpoint being written, which still needs the memory */
    uint32_t cut_refs;
    uint64_t elements;
    /* remembered: */
    double rate;   /* learning rate set by SET_RATE in place of the optimizer's; 0: not set */
    uint64_t step; /* highest global step that a push carried; 0: no push carried a step */
    struct psd_optim_state optim_state;
    /* number of the chief (the session that sets the model up) that gave or sealed the value; 0: no chief, or changed since */
    uint64_t chief_value;
    /* NULL: this is a variable. Otherwise a queue (psd/store/queue.h), without dtype, elements and value */
    struct psd_queue *queue;
    /* derived: its record in a group that trains by synchronous rounds (psd/store/rounds.h); NULL: the variable is in no group */
    struct psd_part *part;
    /* remembered: a chief's INIT may change it, except kind and slots. The learning-rate schedule, rarely read, is at the end */
    ps_optimizer optimizer;
    /* remembered: */
    uint64_t creation; /* random number: tells this variable from earlier and later variables of this name */
    ps_initializer init;
    uint64_t seed;
    uint64_t chief_number; /* highest chief number that an INIT carried; 0: no INIT did. A SEAL does not set it */
    uint8_t giver[8];      /* if `given`: first bytes of the id of the session that gave the value */
    uint32_t pin;          /* 1 + index of the task to which the creator pinned the variable; 0: not pinned */
    uint32_t order;        /* position in the order of all creations in the cluster, unique; checkpoints keep it */
    /* volatile: */
    /* memory in which an arriving first value is gathered before it becomes `value`; the budget counts it as the value.
     * NULL: no first value is on its way */
    void *first_value;
    /* checkpoint that the value was loaded from, and the value's version in it; 0: the value comes from no checkpoint */
    uint64_t checkpoint, checkpoint_version;
    /* serial of the last cut (state saved for one checkpoint: psd/store/cut.h) that contains the variable */
    uint64_t cut;
    /* records by which the checkpoint being written copies value and slots (kept.h); NULL: it needs no copy */
    struct psd_kept *kept[1 + PSD_OPTIM_SLOTS_MAX];
    /* remembered: name with NUL; behind it, unaligned: `rank` dimensions (int64_t each) and, if is_part, a struct psi_part */
    char name[];
};
enum { PSD_VARIABLE_HOT_BYTES = 384, PSD_WARM_MAX = 64 };
_Static_assert(offsetof(struct psd_variable, optimizer) + offsetof(ps_optimizer, warmup_steps) <= PSD_VARIABLE_HOT_BYTES,
               "what requests look at");

enum { PSD_AGES = 17 }; /* counters in psd_container.ages: one for each age from 0 to 15, and one for all higher ages */
struct psd_container {
    /* remembered: */
    char name[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t incarnation;
    struct psi_map variables; /* name -> struct psd_variable */
    /* group of its variables that are trained by synchronous rounds (psd/store/rounds.h); NULL: no group */
    struct psd_rounds *rounds;
    /* volatile: */
    uint64_t number;   /* serial number in this process, from 0 on */
    uint64_t cut;      /* serial of the last cut (state saved for one checkpoint: psd/store/cut.h) that contains the container */
    uint32_t cut_file; /* index of the newest file of this cut that gets values of the container; 0: no file so far */
    /* what the cut notes about the container: bits of enum ps_file_notes; PS_NOTE_NAMED: the cut has one of its variables */
    uint32_t cut_notes;
    uint64_t cut_step; /* 1 + global step of the container in cut `cut`; 0: the container had no usable global step */
    char *cut_bare;    /* name of the first variable that had no value at cut `cut`, owned; NULL: each had one */
    /* random numbers of loads from a checkpoint; 0: no load. start: the load that gave the container its values; next: a later
     * load, which has its own copy of the container in memory, not in use yet (psd/checkpoint/beside.h) */
    uint64_t start, next;
    /* A SET_RATE for the whole container counts at once, although each variable gets it later (psd/rounds/rate.c): a variable
     * whose handle is below `rated` has the rate `rate`. rated 0: each variable's own psd_variable.rate counts. */
    uint32_t rated;
    double rate;
    /* serial of the cut (checkpoint being written) that began before `rate` counted and saves the earlier rates; 0: no cut */
    uint64_t rate_cut;
    /* in checkpoints up to this number, other tasks have the container's values, or it has other variables; 0: no checkpoint */
    uint64_t moved;
    /* the container belongs to one client session, as its name says (session/own.c): a reset frees it, no checkpoint has it */
    bool of_session;
    uint8_t key[PSI_KEY_BYTES]; /* of_session: the key that sessions must show to use the container */
    struct psi_list shown;      /* volatile: struct psd_shown (shown.h) of each session that has shown `key` */
    /* a reset is dropping its variables in slices, and requests find none of them (psd_variable_is_gone()) */
    bool emptying;
    /* true if rounds may have made its values: it has had a group of mode PSD_SYNC_ROUNDS since it was made, loaded or reset */
    bool by_rounds;
    /* number of pushes by age: how many versions newer the value was at the push than when the gradient was computed */
    uint64_t ages[PSD_AGES];
};

/* Kinds of memory that count in the budget, in addition to values, slots, elements and staging (memory.c). */
enum psd_memory {
    PSD_MEMORY_VARIABLES, /* records of variables and queues, with their entries by name, handle and creation */
    /* Containers and their chiefs; records of sessions that have shown a container's key; resets; bars, which are notes that
     * checkpoints up to a number must not bring back what was reset or deleted; and what the directory keeps of other tasks'
     * containers for checkpoints and starts. */
    PSD_MEMORY_CONTAINERS,
    PSD_MEMORY_NAMES,
    PSD_MEMORY_PUSHES, /* records of pushes in progress, and of requests that put elements into queues or take them out */
    PSD_MEMORY_ROUNDS,
    PSD_MEMORY_CUT, /* of a checkpoint being written: copies of values, and memory that was freed before it was copied */
    /* the first PSD_MEMORY_FREE_BYTES of each kind below do not count, so that clients can connect when the budget is full */
    PSD_MEMORY_SESSIONS,
    PSD_MEMORY_REQUESTS,
    PSD_MEMORY_CONNECTIONS,
    PSD_MEMORY_KINDS
};
enum { PSD_MEMORY_FREE_BYTES = 16 << 20, PSD_MEMORY_TEXT_BYTES = 192 };

struct psd_store {
    struct psi_map containers; /* remembered: */
    /* derived: */
    struct psi_u64_map handles, creations; /* -> struct psd_variable */
    uint32_t next_handle, next_order;
    uint32_t variable_count; /* queues included */
    uint32_t queue_count;
    uint64_t variable_bytes; /* bytes of the values of all variables, initialised or not: the sum of psd_variable.bytes */
    uint64_t dropped;        /* number of variables dropped so far */
    /* volatile: */
    uint64_t containers_made;
    uint32_t shown_count;
    struct psd_arena arena;
    struct psd_arena records;
    uint64_t map_seed[2];
    uint64_t counted[PSD_MEMORY_KINDS];
    /* Bytes of the records of variables that were deleted or reset, but to which requests still hold references. */
    uint64_t gone_bytes;
    uint64_t budget_bytes;
    /* bytes of the budget set aside for values and slots, elements of queues, gathered pushes, copies and calls */
    uint64_t promised_bytes;
    bool budget_lowered; /* more may be taken than the budget: it was set to less than was taken, or a load brought more */
    struct psi_list free_attempts;
    /* new containers get this value as psd_container.moved: in checkpoints up to it, other tasks may have their values */
    uint64_t moved;
    uint64_t changes;    /* counts the changes that alter what a checkpoint would contain (commit.c) */
    uint64_t cut_serial; /* serial number of the newest cut (state saved for one checkpoint) */
    struct psd_cut *cut; /* the cut that is being written; NULL: no cut; then cut_before is NULL too */
    void (*cut_before)(struct psd_task *t, const struct psd_change *c);
};

struct psd_definition {
    /* remembered: */
    ps_dtype dtype;
    ps_shape shape;
    ps_optimizer optimizer;
    bool atomic;
    bool queue;           /* a queue: the fields above are unused, and only the owner knows its psi_queue_spec */
    struct psi_part part; /* which part of which larger variable this is; count 0: it is no part */
};

/* Budget bytes of a container: its record, its entry in the map of all containers, and the first tables of its own map. */
enum { PSD_CONTAINER_BYTES = sizeof(struct psd_container) + 16 + PSI_MAP_ENTRY_BYTES + PSI_MAP_LEAST_BYTES };

void psd_store_init(struct psd_store *s, const uint64_t map_seed[2], uint64_t budget_bytes);
void psd_store_fini(struct psd_store *s);

/** Check that dtype, shape, part and optimizer of d fit together. INVALID_ARGUMENT, UNIMPLEMENTED: err says what is allowed. */
ps_status psd_definition_check(const struct psd_definition *d, const char *name, struct psi_err *err) PSI_MUST;
/** Compare two definitions: dtype, shape, part, kind of optimizer, atomic, and variable or queue. INVALID_ARGUMENT: they differ,
 * and the error says how. psi_queue_spec_compare() compares the rest of two queues. */
ps_status psd_definition_compare(const struct psd_definition *have, const char *where, const struct psd_definition *want,
                                 const char *name, struct psi_err *err) PSI_MUST;

/** Budget bytes of the record of a variable or queue, with its entries in tables. */
uint64_t psd_variable_record_bytes(const char *name, uint32_t rank, bool is_part);
uint64_t psd_definition_memory_bytes(const struct psd_definition *d);

/** True if psd_definition_compare() finds no difference and the hyperparameters are equal. */
bool psd_definition_equal(const struct psd_definition *a, const struct psd_definition *b);

/** Find a container by name, also one that a reset is emptying. NULL: there is none. */
const struct psd_container *psd_container_find(const struct psd_store *s, const char *name);
/** Find a variable or queue of c. NULL: c has none of this name, is NULL, or is being emptied. */
const struct psd_variable *psd_variable_find(const struct psd_container *c, const char *name);
/** The variable or queue with this handle. NULL: there is none, or a reset is dropping it. */
const struct psd_variable *psd_variable_by_handle(const struct psd_store *s, uint32_t handle);
/** The variable or queue with this handle, even while a reset is dropping it: requests may wait for it. NULL: there is none. */
const struct psd_variable *psd_variable_left(const struct psd_store *s, uint32_t handle);
/** True if v is dropped, or a reset is dropping it. In both cases the answer to a request for v says that v is gone. */
bool psd_variable_is_gone(const struct psd_variable *v);
/** Set c->emptying. true: a reset begins to drop the variables of c in slices; false: it has dropped all of them. */
void psd_container_emptying(const struct psd_container *c, bool emptying);
/** From now on all variables of c whose handle is below `rated` have this rate (0: their optimizers' own). The caller commits a
 * PSD_CHANGE_RATE for each of these variables, and then calls psd_container_rated(). */
void psd_container_rate(const struct psd_store *s, uint32_t rated, const struct psd_container *c, double rate);
void psd_container_keyed(const struct psd_container *c, const uint8_t key[PSI_KEY_BYTES]);
/** True if v is in a session's container, which no checkpoint contains. */
bool psd_variable_of_session(const struct psd_variable *v);
/** Call when each variable that psd_container_rate() affects has got its own psd_variable.rate, or when c is emptied. */
void psd_container_rated(const struct psd_container *c);
/** The learning rate that SET_RATE has put in place of the optimizer's; 0: the optimizer's own applies. */
double psd_variable_rate(const struct psd_variable *v);
/** The psd_variable_rate() that v had when the cut v->cut began. Only for code that writes v to the checkpoint of this cut. */
double psd_variable_rate_in_cut(const struct psd_variable *v);
/** Number of variables and queues of c that requests find: 0 while c is being emptied. */
uint32_t psd_container_count(const struct psd_container *c);
/** Prefetch what a push or pull of `bytes` reads of these variables. Unknown handles are skipped. n: at most PSD_WARM_MAX. */
void psd_variables_warm(const struct psd_store *s, const uint64_t *handles, uint32_t n, uint64_t bytes);
const struct psd_variable *psd_variable_by_creation(const struct psd_store *s, uint64_t creation);
/** Number of elements, or of bytes, of v's value (which 0) or of v's slot `which` (from 1 on), which must exist. */
uint64_t psd_variable_elements_of(const struct psd_variable *v, uint32_t which);
uint64_t psd_variable_bytes_of(const struct psd_variable *v, uint32_t which);
/** psd_variable_span() finds the bytes of the value (which 0) or of slot `which` that belong to elements [first, first + count)
 * of the value; whole rows if the optimizer works by row. at: their offset; bytes: their length. */
struct psd_span {
    /* volatile: */
    uint64_t at, bytes;
};
struct psd_span psd_variable_span(const struct psd_variable *v, uint32_t which, uint64_t first, uint64_t count);
/** True if the last pass of a push whose optimizer needs norms (psd_progress_moves_last()) writes the value (which 0) or slot
 * `which`. The pass writes the value, its moving average and, if the gradient was gathered, all slots. */
static inline bool psd_variable_moves_array(const struct psd_variable *v, uint32_t which)
{
    return which == 0 || psi_optimizer_is_staged(v->optimizer.kind) ||
           (v->optimizer.ema > 0 && which == psd_optim_slot_count(&v->optimizer));
}
uint64_t psd_variable_memory_bytes(const struct psd_variable *v);
/** Bytes of memory set aside in the budget for the value and slots of v, whether these exist yet or not. */
uint64_t psd_variable_promised_bytes(const struct psd_variable *v);
/** True if a newer chief may replace the value: a chief gave it, nobody has changed it since, and no chief has sealed it. */
static inline bool psd_variable_is_provisional(const struct psd_variable *v)
{
    return !v->sealed && v->chief_value != 0;
}
struct psd_definition psd_variable_definition(const struct psd_variable *v);
/** Learning rate of v. set_rate: the rate that SET_RATE has set; if 0, the optimizer's schedule or its own learning rate counts.
 * step: 1 + global step, for the schedule; 0: the highest step that a push to v carried. */
double psd_variable_rate_at(const struct psd_variable *v, uint64_t step, double set_rate);
/** Compute in *out the numbers for one run of v's optimizer (psd_optim_begin()), with the rate of psd_variable_rate_at(). */
void psd_variable_capture_at(const struct psd_variable *v, uint64_t step, double set_rate, float scale,
                             struct psd_optim_scalars *out);
ps_shape psd_variable_shape(const struct psd_variable *v);
/** Which part of a larger variable v is; all 0: v is no part. */
struct psi_part psd_variable_part_of(const struct psd_variable *v);
/** psd_variable_capture_at() for a push that begins now and carries this global step, with the learning rate that a SET_RATE has
 * set for v or its container (psd_variable_rate()), if any. */
void psd_variable_capture(const struct psd_variable *v, uint64_t step, float scale, struct psd_optim_scalars *out);
/** Add a reference to v, and return v. The count of references is volatile, so v may be const. */
const struct psd_variable *psd_variable_ref(const struct psd_variable *v);
void psd_variable_unref(struct psd_store *s, const struct psd_variable *v);
struct psi_list *psd_variable_waiters(const struct psd_variable *v);
/** CRC32C of the value's bytes [offset, offset + bytes). */
uint32_t psd_variable_sum(const struct psd_variable *v, uint64_t offset, uint32_t bytes);

/* ---- memory for changes (commit.h): reserved before a change is decided, so that the change cannot fail ---- */
ps_status psd_container_reserve(struct psd_store *s, const char *name, struct psd_container **out, struct psi_err *err) PSI_MUST;
/** Reserve memory for one more variable, and set budget aside for its value and slots. RESOURCE_EXHAUSTED: they do not fit in the
 * rest of the budget, or there are too many variables; FAILED_PRECONDITION: they are larger than the whole budget. */
ps_status psd_variable_reserve(struct psd_store *s, const struct psd_container *c, const char *name,
                               const struct psd_definition *d, struct psd_variable **out, struct psi_err *err) PSI_MUST;
/** Allocate the slots that v does not have yet, before it gets its first value. RESOURCE_EXHAUSTED: no memory. */
ps_status psd_variable_reserve_slots(struct psd_store *s, const struct psd_variable *v, struct psi_err *err) PSI_MUST;
/* Value and slots that an INIT request makes for a variable. They are filled, maybe in slices, before the variable gets them. */
struct psd_making {
    /* volatile: a change takes over value and slots for the variable */
    ps_initializer init;
    uint64_t seed;
    ps_optimizer optimizer;
    void *value;                      /* NULL: the filling has not begun */
    void *slots[PSD_OPTIM_SLOTS_MAX]; /* if `replaces`: new arrays; otherwise the variable's own slots, not in use yet */
    bool replaces;                    /* the variable has a value, which stays in use until the commit */
    uint64_t done;                    /* elements filled so far: those of the value first, then those of each slot */
};
/** Allocate memory for m; psd_commit() fills it. If v has a value (not of strings), m takes and overwrites the value's memory. */
ps_status psd_variable_make_at_once(struct psd_store *s, const struct psd_variable *v, struct psd_making *m,
                                    struct psi_err *err) PSI_MUST;
/** Prepare m for psd_variable_make(). The caller has allocated m->value and, if m->replaces, the slots. False: no memory. */
bool psd_variable_make_begin(struct psd_store *s, const struct psd_variable *v, struct psd_making *m) PSI_MUST;
/** Fill about `bytes` more of m. True: value and slots are filled. */
bool psd_variable_make(const struct psd_variable *v, struct psd_making *m, uint64_t bytes) PSI_MUST;
void psd_variable_make_end(struct psd_store *s, const struct psd_variable *v, struct psd_making *m);
/** Allocate memory to gather the first value of v, which the budget counts as the value. NULL: v has a value or is of strings,
 * another mutation gathers its first value, or memory is short. psd_variable_unstage_kept() frees the memory p. */
void *psd_variable_stage_first(struct psd_store *s, const struct psd_variable *v, uint64_t bytes);
void psd_variable_unstage_kept(struct psd_store *s, const struct psd_variable *v, void *p, uint64_t bytes,
                               struct psd_kept **kept);
/* ---- memory.c: the budget ---- */
/** Count n bytes more of this kind as used; psd_store_uncount(): n bytes less. A caller that makes an object asks
 * psd_store_missing() first. */
void psd_store_count(struct psd_store *s, enum psd_memory kind, uint64_t n);
void psd_store_uncount(struct psd_store *s, enum psd_memory kind, uint64_t n);
uint64_t psd_store_taken(const struct psd_store *s);
uint64_t psd_store_counted_over(const struct psd_store *s, enum psd_memory kind);
/** Bytes of memory in use, also those that the budget ignores. Promised bytes that are not allocated yet are not included. */
uint64_t psd_store_memory_bytes(const struct psd_store *s);
/** The up to four kinds of memory that fill most of the budget, in bytes, the largest first: "values 30100000, names 1100000". */
const char *psd_store_memory_text(const struct psd_store *s, char text[PSD_MEMORY_TEXT_BYTES]);
/** Fail because `name` needs n bytes; the error says what fills the budget. RESOURCE_EXHAUSTED, or FAILED_PRECONDITION if n is
 * more than the whole budget. */
ps_status psd_store_full(const struct psd_store *s, const char *kind, const char *name, uint64_t n, struct psi_err *err) PSI_MUST;
/** Set the budget. A lower budget takes nothing back: it only refuses new promises of memory. */
void psd_store_set_budget(struct psd_store *s, uint64_t budget_bytes);
/** Bytes by which n more would exceed the budget; 0: they fit. */
uint64_t psd_store_missing(const struct psd_store *s, uint64_t n);
/** Bytes by which n more of this kind would exceed the budget; 0: they fit. Of some kinds the first bytes do not count. */
uint64_t psd_store_missing_of(const struct psd_store *s, enum psd_memory kind, uint64_t n);
/** Set memory aside in the budget for a piece of n bytes (psd_arena_bytes()). False: it does not fit in the budget. */
bool psd_store_promise(struct psd_store *s, uint64_t n) PSI_MUST;
/** Allocate n bytes within the budget, to gather data: zeroed, or with undefined content (raw). NULL: there is no memory. */
void *psd_store_stage(struct psd_store *s, uint64_t n);
void *psd_store_stage_raw(struct psd_store *s, uint64_t n);
void psd_store_unstage(struct psd_store *s, void *p, uint64_t n);
/* ---- variable.c ---- */
void psd_store_unstage_kept(struct psd_store *s, void *p, uint64_t n, struct psd_kept **kept);
void psd_store_check_invariants(const struct psd_store *s);

#endif

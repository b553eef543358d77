/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of psd_commit(). Only this folder's files and their unit tests include them (scripts/lint/fields); all others
 * describe what they change in a struct psd_change. Nothing here can fail: memory was reserved. */
#ifndef PSD_MUTATE_H
#define PSD_MUTATE_H

#include "names.h"
#include "queue.h"
#include "record.h"
#include "rounds.h"

/* Casts from const state to state that psd_commit() changes. */
static inline struct psd_container *psd_container_own(const struct psd_container *c)
{
    return (struct psd_container *)(uintptr_t)c;
}
static inline struct psd_variable *psd_variable_own(const struct psd_variable *v)
{
    return (struct psd_variable *)(uintptr_t)v;
}
static inline struct psd_queue *psd_queue_own(const struct psd_queue *q)
{
    return (struct psd_queue *)(uintptr_t)q;
}
static inline struct psd_attempt *psd_attempt_own(const struct psd_attempt *a)
{
    return (struct psd_attempt *)(uintptr_t)a;
}
static inline struct psd_member *psd_member_own(const struct psd_member *m)
{
    return (struct psd_member *)(uintptr_t)m;
}
static inline struct psd_number *psd_number_own(const struct psd_number *n)
{
    return (struct psd_number *)(uintptr_t)n;
}

/* ---- variable.c ---- */
/** c comes from psd_container_reserve(). */
void psd_container_add(struct psd_store *s, struct psd_container *c, uint64_t incarnation);
/** Drop all variables of c, and give c this incarnation. */
void psd_container_reset(struct psd_store *s, struct psd_container *c, uint64_t incarnation);
/** v comes from psd_variable_reserve(). */
void psd_variable_add(struct psd_store *s, struct psd_container *c, struct psd_variable *v, uint64_t creation);
/** Take v out of its container. v is freed with its last reference. */
void psd_variable_drop(struct psd_store *s, struct psd_variable *v);
/** The value of v takes `bytes`; strings change in length. The caller adjusts the promise. */
void psd_variable_resize(struct psd_store *s, struct psd_variable *v, uint64_t bytes);
/** v takes the value and slots of m, which are first filled to their end, and fresh powers. The version begins at 0. Later,
 * forced, it counts on, so that no read across the change is taken for exact. */
void psd_variable_initialise(struct psd_store *s, struct psd_variable *v, struct psd_making *m);
/** `value`, staged memory of `bytes` (v->bytes, except strings), becomes the value, and its promise the value's. The old value
 * is freed with its promise. Reserved slots are filled if v was uninitialised. kept: of the staging. */
void psd_variable_swap_in(struct psd_store *s, struct psd_variable *v, void *value, uint64_t bytes, struct psd_kept **kept);
/** `values`, staged memory, becomes a slot (from 1 on) of v, which has a value. kept: of the staging. */
void psd_variable_swap_slot_in(struct psd_store *s, struct psd_variable *v, uint32_t slot, void *values, struct psd_kept **kept);

/* ---- apply.c: what a push in progress does to its variable ---- */
/** Apply count elements at p, from n->offset on. last: they end the mutation. */
void psd_apply_segment(struct psd_number *n, const uint8_t *p, uint64_t count, bool last);
/** The last segment is applied: end the mutation, with version and result. scalars: of a staged gradient, applied now. */
void psd_apply_finish(struct psd_store *s, const struct psd_record *record, struct psd_number *n,
                      const struct psd_optim_scalars *scalars);
/** Swap in the value of v (psd_variable_swap_in()), and note who gave it. giver: the first bytes of a session's id. chief_number:
 * the giver's number as chief; 0: the giver is no chief. */
void psd_apply_value(struct psd_store *s, struct psd_variable *v, void *value, uint64_t bytes, struct psd_kept **kept,
                     const uint8_t giver[8], uint64_t chief_number);
/** End a mutation before its last element. False: none of it was applied. Otherwise it counts as a mutation. */
bool psd_apply_torn(const struct psd_number *n);

/** Apply gradient elements [first, first + count) of g by the optimizer. grad: float16, bfloat16 or of the variable's dtype, as
 * `wire` says. */
void psd_apply_gradient(const struct psd_progress *g, uint64_t first, const uint8_t *grad, ps_dtype wire, uint64_t count);

/* ---- rows.c: pushes of some rows (common/rows.h) ---- */
/** Change the variable by a segment of `count` rows. */
void psd_rows_apply(struct psd_progress *g, const uint8_t *segment, uint64_t count, bool last);
/** Gather a segment of an atomic variable, from row `first` of the operation on; the last one is followed by the other. */
void psd_rows_stage(struct psd_progress *g, uint64_t first, const uint8_t *segment, uint64_t count);
void psd_rows_apply_staged(struct psd_progress *g);
/** The rows of a segment have come. */
void psd_rows_come(struct psd_progress *g, const uint8_t *segment, uint64_t count);

/* ---- record.c ---- */
/** Add an entry for `number`, which psd_record_admits() has accepted. */
struct psd_number *psd_record_put(struct psd_record *r, uint64_t number);
/** The entry of `number`, or a new one. */
struct psd_number *psd_record_take(struct psd_record *r, uint64_t number);
/** End entry n of r as refused. Gives text, which may be NULL. */
void psd_number_refuse(struct psd_record *r, struct psd_number *n, ps_status st, ps_reason reason, ps_applied applied,
                       char *text);

/* ---- queue.c ---- */
/** Free q, to which nothing refers any more. NULL is fine. */
void psd_queue_free(struct psd_store *s, struct psd_queue *q);
/** The variable of q is dropped: free the elements in q, and those that sessions hold. */
void psd_queue_clear(struct psd_store *s, struct psd_queue *q);
/** Begin a, the attempt of request `id`. An attempt that has begun stays. */
void psd_attempt_begin(struct psd_attempt *a, struct psd_record *r, uint64_t id, const struct psd_variable *v);
void psd_attempts_fini(struct psd_store *s);
/** Insert e, a new element, at the back, for a. ACCUMULATOR: add e to the sum. */
void psd_queue_put(struct psd_store *s, struct psd_attempt *a, struct psd_element *e);
/** Move the element with this index to the end of a. ACCUMULATOR: a sum that came back, or the current sum. */
void psd_queue_take(struct psd_attempt *a, uint64_t index);
/** End a. Its elements are given back, or held (WORK), or freed. */
void psd_attempt_end(struct psd_store *s, struct psd_attempt *a, bool give_back);
/** WORK: the elements in q are its items. The first epoch begins. */
void psd_queue_fill(struct psd_queue *q, uint64_t hash);
/** WORK: the item with this serial, which a has, is done, or goes back. */
void psd_queue_item_end(struct psd_store *s, struct psd_attempt *a, uint64_t serial, bool give_back);

/* ---- rounds.c ---- */
/** g comes from psd_rounds_reserve(). c has no group. */
void psd_rounds_set(struct psd_container *c, struct psd_rounds *g);
/** End the group of c. Contributions on their way are dropped. No group is fine. */
void psd_rounds_end(struct psd_store *s, struct psd_container *c);
/** m comes from psd_member_reserve(), filled in. */
void psd_member_add(struct psd_rounds *g, struct psd_member *m);
/** A session takes the place and the memory of m. What m has contributed is dropped. */
void psd_member_succeed(struct psd_rounds *g, struct psd_member *m, uint64_t id, const uint8_t session[16]);
void psd_member_leave(struct psd_store *s, struct psd_rounds *g, struct psd_member *m);
/** New values take the place of the old ones. They are built here unless they are READY. */
void psd_rounds_flip(struct psd_rounds *g, const uint64_t *members, uint32_t count, uint64_t step,
                     const struct psd_optim_scalars *scalars);
/** p, a CONTRIBUTE, begins and gets its area. */
void psd_area_begin(struct psd_progress *p);
/** p ends. complete: its last element has come. True: the contribution counts. */
bool psd_area_end(struct psd_progress *p, bool complete);

/* ---- names.c ---- */
/** Record the name. n comes from psd_name_reserve() for the same name and definition. */
void psd_directory_record(struct psd_directory *d, const char *container, const char *name,
                          const struct psd_definition *definition, uint32_t owner, struct psd_name *n);
void psd_directory_forget(struct psd_directory *d, const char *container, const char *name);
void psd_directory_forget_container(struct psd_directory *d, const char *container);

#endif

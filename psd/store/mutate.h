/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of which psd_commit() consists. Only this folder's files and their unit tests include this header
 * (scripts/lint/fields); all other code describes changes in a struct psd_change. Memory is reserved, so no function fails. */
#ifndef PSD_MUTATE_H
#define PSD_MUTATE_H

#include "names.h"
#include "queue.h"
#include "record.h"
#include "rounds.h"

/* Casts from const state to state that psd_commit() may change. */
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
/** Add c, which comes from psd_container_reserve(), to the store. */
void psd_container_add(struct psd_store *s, struct psd_container *c, uint64_t incarnation);
/** Drop all variables of c, and set c's incarnation number. */
void psd_container_reset(struct psd_store *s, struct psd_container *c, uint64_t incarnation);
/** Add v, which comes from psd_variable_reserve(), to c and to the store. */
void psd_variable_add(struct psd_store *s, struct psd_container *c, struct psd_variable *v, uint64_t creation);
/** Take v out of its container. v is freed with its last reference. */
void psd_variable_drop(struct psd_store *s, struct psd_variable *v);
/** Set the length of v's value, which only strings can change. The caller adjusts what the budget sets aside for v. */
void psd_variable_resize(struct psd_store *s, struct psd_variable *v, uint64_t bytes);
/** Give v the optimizer's initial powers, and the value and slots of m, whose unfilled elements are filled first. v->version
 * becomes 0 if v had no value; otherwise it rises by 1, so that a pull under way shows that the value was replaced. */
void psd_variable_initialise(struct psd_store *s, struct psd_variable *v, struct psd_making *m);
/** Make `value`, memory of `bytes` (v->bytes, except strings), the value of v. The old value is freed, and leaves the budget. If
 * v was uninitialised, its slots are filled. *kept: record by which a checkpoint being written copies `value`, or NULL. */
void psd_variable_swap_in(struct psd_store *s, struct psd_variable *v, void *value, uint64_t bytes, struct psd_kept **kept);
/** Make `values` the slot `slot` (from 1 on) of v, which has a value. *kept: as in psd_variable_swap_in(), for `values`. */
void psd_variable_swap_slot_in(struct psd_store *s, struct psd_variable *v, uint32_t slot, void *values, struct psd_kept **kept);

/* ---- apply.c: what a mutation in progress does to its variable ---- */
/** Take the next `count` elements, or rows, of the mutation n from p, and advance n->offset by count. These elements change the
 * variable at once or, if n is gathered or a contribution, are kept until n ends. last: they are the last elements of n. */
void psd_apply_segment(struct psd_number *n, const uint8_t *p, uint64_t count, bool last);
/** Process the next `count` elements, at most psd_progress_left(), in the present pass of p, whose whole gradient has come: add
 * them to the norms, or change these elements of the value. */
void psd_apply_move(struct psd_progress *p, uint64_t count);
/** End the mutation n after its last segment: apply what was gathered, and set the variable's new version and n's result. */
void psd_apply_finish(struct psd_store *s, const struct psd_record *record, struct psd_number *n);
/** Make `value` the value of v by psd_variable_swap_in(), and note which session gave it. giver: first bytes of the session's id;
 * chief_number: the session's number as chief; 0: the session is no chief. */
void psd_apply_value(struct psd_store *s, struct psd_variable *v, void *value, uint64_t bytes, struct psd_kept **kept,
                     const uint8_t giver[8], uint64_t chief_number);
/** Call when mutation n ends before its last element. True: some elements were applied, and the variable gets a new version.
 * False: no element was applied, and nothing changes. */
bool psd_apply_torn(const struct psd_number *n);

/** Apply grad: elements [first, first + count) of g's gradient. wire: dtype of grad: float16, bfloat16 or the variable's. */
void psd_apply_gradient(const struct psd_progress *g, uint64_t first, const uint8_t *grad, ps_dtype wire, uint64_t count);

/* ---- rows.c: pushes of some rows (common/rows.h) ---- */
/** Apply a segment of `count` rows of the mutation g to its variable. last: no segment follows. */
void psd_rows_apply(struct psd_progress *g, const uint8_t *segment, uint64_t count, bool last);
/** Append a segment of `count` rows to the rows that g has gathered. first: number of rows gathered before. */
void psd_rows_stage(struct psd_progress *g, uint64_t first, const uint8_t *segment, uint64_t count);
void psd_rows_apply_staged(struct psd_progress *g);
/** Note that a segment of `count` rows has come: g->last_index becomes the index of its last row. */
void psd_rows_come(struct psd_progress *g, const uint8_t *segment, uint64_t count);

/* ---- record.c ---- */
/** Add an entry for `number`, which psd_record_admits() has accepted. */
struct psd_number *psd_record_put(struct psd_record *r, uint64_t number);
/** Find the entry of `number`, or add one by psd_record_put(). */
struct psd_number *psd_record_take(struct psd_record *r, uint64_t number);
/** End entry n of r as refused. text: from psi_strndup(); the record takes it over; NULL: no text. */
void psd_number_refuse(struct psd_record *r, struct psd_number *n, ps_status st, ps_reason reason, ps_applied applied,
                       char *text);

/* ---- queue.c ---- */
/** Free q, to which nothing refers any more. NULL is fine. */
void psd_queue_free(struct psd_store *s, struct psd_queue *q);
/** Call when the variable of q is dropped: frees the elements in q, and those that sessions hold. */
void psd_queue_clear(struct psd_store *s, struct psd_queue *q);
/** Make a the attempt of request `id` of r at the queue v: a new attempt is put into the lists of r and of the queue. Nothing
 * changes if a was begun before, with equal arguments. */
void psd_attempt_begin(struct psd_attempt *a, struct psd_record *r, uint64_t id, const struct psd_variable *v);
void psd_attempts_fini(struct psd_store *s);
/** Insert e at the back of a's queue. ACCUMULATOR: add e to the sum. longer: memory from psd_queue_reserve_sum(), or NULL. */
void psd_queue_put(struct psd_store *s, struct psd_attempt *a, struct psd_element *e, struct psd_element *longer);
/** Move the element with this index from the queue to the end of a. ACCUMULATOR: the element is a sum that was given back or, if
 * there is none, the current sum. */
void psd_queue_take(struct psd_attempt *a, uint64_t index);
/** End a: its request inserts and takes nothing more. give_back: the taken elements go back to the queue. Otherwise the session
 * holds the items of a WORK queue until WORK_END, and elements of other queues are freed. */
void psd_attempt_end(struct psd_store *s, struct psd_attempt *a, bool give_back);
/** WORK: the elements that are in q now become its items for good, and the first epoch begins. */
void psd_queue_fill(struct psd_queue *q, uint64_t hash);
/** WORK: end the item with this serial, which a has: the item is done or, if give_back is set, goes back to the queue. */
void psd_queue_item_end(struct psd_store *s, struct psd_attempt *a, uint64_t serial, bool give_back);

/* ---- rounds.c ---- */
/** Make g, which comes from psd_rounds_reserve(), the group of c, which has none. */
void psd_rounds_set(struct psd_container *c, struct psd_rounds *g);
/** End the group of c, if it has one. Contributions in progress are dropped. */
void psd_rounds_end(struct psd_store *s, struct psd_container *c);
/** Add m, which comes from psd_member_reserve() and is filled in, to g. */
void psd_member_add(struct psd_rounds *g, struct psd_member *m);
/** Make m the member of another session, with the new id `id`. The memory stays with m, but m's contributions to the current
 * round are dropped. */
void psd_member_succeed(struct psd_rounds *g, struct psd_member *m, uint64_t id, const uint8_t session[16]);
void psd_member_leave(struct psd_store *s, struct psd_rounds *g, struct psd_member *m);
/** Replace the values of all variables of g by the round's new values, which are built first if g is not READY (in a replay). */
void psd_rounds_flip(struct psd_rounds *g, const uint64_t *members, uint32_t count, uint64_t step, float factor,
                     const struct psd_optim_scalars *scalars);
/** Call when the contribution p begins: sets p->area to the member's memory for it, if p's round still takes contributions. */
void psd_area_begin(struct psd_progress *p);
/** Call when the mutation p ends. complete: its last element has come. True: p is a contribution to a round, and counts in it. */
bool psd_area_end(struct psd_progress *p, bool complete);

/* ---- names.c ---- */
/** Record the name with its definition and owner. n: from psd_name_reserve() for the same name and definition. */
void psd_directory_record(struct psd_directory *d, const char *container, const char *name,
                          const struct psd_definition *definition, uint32_t owner, struct psd_name *n);
void psd_directory_forget(struct psd_directory *d, const char *container, const char *name);
void psd_directory_forget_container(struct psd_directory *d, const char *container);

#endif

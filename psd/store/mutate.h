/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What psd_commit() is made of. Included by this folder's files and by their unit tests only (scripts/lint/fields): whoever else
 * has something to change says so in a struct psd_change. Nothing here can fail; what it needs was reserved.
 */
#ifndef PSD_MUTATE_H
#define PSD_MUTATE_H

#include "names.h"
#include "queue.h"
#include "rounds.h"

/* Where const ends. */
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

/* ---- change_fits.c ---- */
struct psd_change;
struct psd_task;
/** Whatever its bytes said, psd_commit() may be asked to do c, which was read. */
bool psd_change_fits(const struct psd_task *t, const struct psd_change *c);
/** Its variable can have such a push in progress. */
bool psd_progress_fits(const struct psd_progress *p);

/* ---- variable.c ---- */
/** c, from psd_container_reserve(). */
void psd_container_add(struct psd_store *s, struct psd_container *c, uint64_t incarnation);
/** All its variables go, it gets the incarnation given. */
void psd_container_reset(struct psd_store *s, struct psd_container *c, uint64_t incarnation);
/** v, from psd_variable_reserve(). */
void psd_variable_add(struct psd_store *s, struct psd_container *c, struct psd_variable *v, uint64_t creation);
/** Out of its container; freed with its last reference. */
void psd_variable_drop(struct psd_store *s, struct psd_variable *v);
/** The value of v takes `bytes`, as that of strings may. What is promised for it is the caller's to change. */
void psd_variable_resize(struct psd_store *s, struct psd_variable *v, uint64_t bytes);
/** v takes the value and slots of m, filled to their end if they are not, and fresh powers. Version 0 after the first time; later
 *  (forced) it counts on, so that a read that straddles it is not taken for exact. */
void psd_variable_initialise(struct psd_store *s, struct psd_variable *v, struct psd_making *m);
/** Take `value`, staged memory of `bytes` (v->bytes, but for strings), as the value; the old one is freed and its promise given
 * back: that of the staging is the value's now. Slots, reserved, are filled if it was uninitialised. kept: of the staging. */
void psd_variable_swap_in(struct psd_store *s, struct psd_variable *v, void *value, uint64_t bytes, struct psd_kept **kept);
/** The same for a slot, from 1 on, of a variable that has a value. */
void psd_variable_swap_slot_in(struct psd_store *s, struct psd_variable *v, uint32_t slot, void *values, struct psd_kept **kept);

/* ---- apply.c: what a push in progress does to its variable ---- */
/** count elements at p, from n's offset on. */
void psd_apply_segment(struct psd_number *n, const uint8_t *p, uint64_t count);
/** The last segment is in: the operation counts, n has its version and result. scalars: of a staged gradient, which takes effect
 * now. */
void psd_apply_finish(struct psd_store *s, const struct psd_record *record, struct psd_number *n,
                      const struct psd_optim_scalars *scalars);
/** It ends before its end: false where nothing of it is in the variable. Otherwise that counts as a mutation. */
bool psd_apply_torn(const struct psd_number *n);

/* ---- record.c ---- */
/** A fresh entry for `number`, which psd_record_admits(). */
struct psd_number *psd_record_put(struct psd_record *r, uint64_t number);
/** The entry of `number`, which the record knows, or a fresh one. */
struct psd_number *psd_record_take(struct psd_record *r, uint64_t number);
/** End an entry of r as refused; gives text (may be NULL). */
void psd_number_refuse(struct psd_record *r, struct psd_number *n, ps_status st, ps_reason reason, ps_applied applied,
                       char *text);

/* ---- queue.c ---- */
/** Nothing has it any more. NULL is fine. */
void psd_queue_free(struct psd_store *s, struct psd_queue *q);
/** Its variable goes: what is in it, and what sessions hold, is freed. */
void psd_queue_clear(struct psd_store *s, struct psd_queue *q);
/** Unless it has begun. */
void psd_attempt_begin(struct psd_attempt *a, struct psd_record *r, uint64_t id, const struct psd_variable *v);
void psd_attempts_fini(struct psd_store *s);
/** e, new, at the back, ACCUMULATOR: into the sum; a has inserted it. */
void psd_queue_put(struct psd_store *s, struct psd_attempt *a, struct psd_element *e);
/** The element with this index, to the end of a. ACCUMULATOR: what came back, or the sum. */
void psd_queue_take(struct psd_attempt *a, uint64_t index);
/** a ends: it is freed with what it has, or held, or what it has goes back first. */
void psd_attempt_end(struct psd_store *s, struct psd_attempt *a, bool give_back);
/** WORK: what is in it are its items; the first epoch begins. */
void psd_queue_fill(struct psd_queue *q, uint64_t hash);
/** WORK: this item, which a has, is done, or goes back. */
void psd_queue_item_end(struct psd_store *s, struct psd_attempt *a, uint64_t serial, bool give_back);

/* ---- rounds.c ---- */
/** g, from psd_rounds_reserve(); c has none. */
void psd_rounds_set(struct psd_container *c, struct psd_rounds *g);
/** The group of c ends; what is on its way to it is dropped. No group is fine. */
void psd_rounds_end(struct psd_store *s, struct psd_container *c);
/** m, from psd_member_reserve(), filled in. */
void psd_member_add(struct psd_rounds *g, struct psd_member *m);
/** A session takes the place of m, with its memory; what m has contributed goes. */
void psd_member_succeed(struct psd_rounds *g, struct psd_member *m, uint64_t id, const uint8_t session[16]);
/** m goes with what it has contributed. */
void psd_member_leave(struct psd_store *s, struct psd_rounds *g, struct psd_member *m);
/** The new values, built here unless they are READY, take the place of the old ones. */
void psd_rounds_flip(struct psd_rounds *g, const uint64_t *members, uint32_t count, const struct psd_optim_scalars *scalars);
/** p, a CONTRIBUTE that begins, gets its area. */
void psd_area_begin(struct psd_progress *p);
/** p ends, before its last element or with it: then what has come counts. True: it counts. */
bool psd_area_end(struct psd_progress *p, bool complete);

/* ---- names.c ---- */
/** Record the name. n comes from psd_name_reserve() for the same name and definition. */
void psd_directory_record(struct psd_directory *d, const char *container, const char *name,
                          const struct psd_definition *definition, uint32_t owner, struct psd_name *n);
void psd_directory_forget(struct psd_directory *d, const char *container, const char *name);
void psd_directory_forget_container(struct psd_directory *d, const char *container);

#endif

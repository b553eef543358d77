/* SPDX-License-Identifier: Apache-2.0 */
/* Moves loaded containers from the task `from` into the task `to`. For psd_place() they must be absent or empty in `to`. With
 * psd_place_join() a container that `to` has keeps its own variables, and gets those of `from` besides.
 * Happy path: drop the variables that are left out -> make entries in the task's maps for all that move -> move memory -> move
 * containers. Each variable gets a new creation and handle, and each container that `to` lacks a new incarnation, so that no
 * handle of a client from an earlier process is valid. Failure: no memory for the entries; those made are removed. */
#include "place.h"

#include "mutate.h"
#include "psd/state.h"

#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

struct placing {
    struct psd_task *to, *from;
    const struct psd_placed *how;
};

static struct psd_container *next(const struct psd_task *t, uint64_t *cursor)
{
    void *value = NULL;
    return psi_map_next(&t->store.containers, cursor, NULL, NULL, &value) ? value : NULL;
}

static struct psd_variable *next_in(const struct psd_container *c, uint64_t *cursor)
{
    void *value = NULL;
    return psi_map_next(&c->variables, cursor, NULL, NULL, &value) ? value : NULL;
}

static void leave_out(const struct placing *p)
{
    struct psd_store *s = &p->from->store;
    uint64_t cursor = 0, start = 0;
    bool trained = false;
    for (struct psd_container *c = next(p->from, &cursor); c != NULL; c = next(p->from, &cursor)) {
        bool moves = p->how->wants(p->how->ctx, c->name, &start, &trained);
        uint64_t inner = 0;
        for (struct psd_variable *v = next_in(c, &inner); v != NULL; v = next_in(c, &inner)) {
            if (!moves || p->how->leaves_out(p->how->ctx, c->name, v->name)) {
                psd_variable_drop(s, v);
            }
        }
    }
}

static void places_end(const struct placing *p, uint32_t first)
{
    uint64_t cursor = 0, inner = 0;
    for (struct psd_container *c = next(p->from, &cursor); c != NULL; c = next(p->from, &cursor), inner = 0) {
        const struct psd_container *to = psd_container_find(&p->to->store, c->name);
        for (struct psd_variable *v = next_in(c, &inner); v != NULL; v = next_in(c, &inner)) {
            PSI_IGNORE(psi_u64_map_remove(&p->to->store.creations, v->creation)); /* the entry may not exist yet */
            if (to != NULL && psd_variable_find(to, v->name) == v) {
                PSI_IGNORE(psi_map_remove(&psd_container_own(to)->variables, v->name, strlen(v->name))); /* returns v */
            }
        }
    }
    for (uint32_t handle = first; handle < p->to->store.next_handle; handle++) {
        PSI_IGNORE(psi_u64_map_remove(&p->to->store.handles, handle)); /* the entry may not exist yet */
    }
}

/* Add v to the map of variables of the container `to`. FAILED_PRECONDITION: `to` has a variable of this name. */
static ps_status put_beside(const struct psd_container *to, struct psd_variable *v, struct psi_err *err)
{
    if (psd_variable_find(to, v->name) != NULL) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "both have '%s' of container '%s'", v->name, to->name);
    }
    return psi_map_put(&psd_container_own(to)->variables, v->name, strlen(v->name), v, NULL, err);
}

/* Make map entries for each variable that moves, with a new creation and handle. */
static ps_status places(const struct placing *p, struct psi_err *err)
{
    struct psd_store *s = &p->to->store;
    uint64_t cursor = 0, inner = 0;
    ps_status st = PS_OK;
    for (struct psd_container *c = next(p->from, &cursor); st == PS_OK && c != NULL; c = next(p->from, &cursor), inner = 0) {
        struct psd_container *made = NULL;
        if (psi_map_count(&c->variables) > 0 && psd_container_find(s, c->name) == NULL) {
            st = psd_container_reserve(s, c->name, &made, err);
        }
        if (made != NULL) {
            psd_container_add(s, made, p->how->random(p->how->ctx));
        }
        const struct psd_container *to = psd_container_find(s, c->name);
        bool beside = to != NULL && psi_map_count(&to->variables) > 0;
        for (struct psd_variable *v = next_in(c, &inner); st == PS_OK && v != NULL; v = next_in(c, &inner)) {
            v->creation = p->how->random(p->how->ctx);
            v->handle = s->next_handle++;
            st = psi_u64_map_put(&s->handles, v->handle, v, NULL, err);
            st = st == PS_OK ? psi_u64_map_put(&s->creations, v->creation, v, NULL, err) : st;
            st = st == PS_OK && beside ? put_beside(to, v, err) : st;
        }
    }
    return st;
}

static int in_order(const void *a, const void *b)
{
    const struct psd_variable *x = *(struct psd_variable *const *)a, *y = *(struct psd_variable *const *)b;
    return x->order != y->order ? (x->order > y->order) - (x->order < y->order)
                                : (x->handle > y->handle) - (x->handle < y->handle);
}

/* Make psd_variable.order unique again after a load, because a loaded variable may have the order of a variable that was here.
 * The variables are sorted by order, then by handle; an order that is not above its predecessor's is raised. all: memory for a
 * pointer to each variable of the store. */
static void settle_orders(struct psd_store *s, struct psd_variable **all)
{
    uint32_t count = 0;
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_u64_map_next(&s->handles, &cursor, NULL, &value)) {
        all[count++] = value;
    }
    if (count == 0) {
        return;
    }
    qsort(all, count, sizeof(struct psd_variable *), in_order);
    for (uint32_t i = 1; i < count; i++) {
        all[i]->order = all[i]->order > all[i - 1]->order ? all[i]->order : all[i - 1]->order + 1;
    }
    s->next_order = all[count - 1]->order < s->next_order ? s->next_order : all[count - 1]->order + 1;
}

/* Initial values from the checkpoint may not fit what other tasks have trained of c since. They are used if some task had trained
 * c before the checkpoint, or if all tasks got c by this load: `restored` becomes false. Otherwise sealed values of initializers
 * lose the seal, so that a chief can replace them. */
static void note_restored(const struct placing *p, const struct psd_container *c, bool trained_elsewhere)
{
    uint64_t cursor = 0;
    bool trained = c->start == p->how->start || trained_elsewhere;
    for (const struct psd_variable *v = next_in(c, &cursor); v != NULL && !trained; v = next_in(c, &cursor)) {
        trained = v->version > 0;
    }
    cursor = 0;
    for (struct psd_variable *v = next_in(c, &cursor); v != NULL && trained; v = next_in(c, &cursor)) {
        v->restored = false;
    }
    cursor = 0;
    for (struct psd_variable *v = next_in(c, &cursor); v != NULL && !trained; v = next_in(c, &cursor)) {
        if (v->sealed && !v->given) {
            v->sealed = false;
            p->how->unsealed(p->how->ctx);
        }
    }
}

static void move(const struct placing *p, struct psd_container *from)
{
    struct psd_container *to = psd_container_own(psd_container_find(&p->to->store, from->name));
    uint64_t inner = 0;
    PSI_ASSERT(to->rounds == NULL);
    for (struct psd_variable *v = next_in(from, &inner); v != NULL; v = next_in(from, &inner)) {
        v->container = to;
        if (v->queue != NULL) {
            psi_list_remove(&v->queue->dirty);
        }
    }
    if (psi_map_count(&to->variables) == 0) {
        psi_map_fini(&to->variables);
        to->variables = from->variables;
    } else {
        psi_map_fini(&from->variables);
    }
    psi_map_init_borrowing(&from->variables, p->from->store.map_seed);
}

static void note_placed(const struct placing *p, struct psd_container *to)
{
    uint64_t inner = 0;
    bool trained = false;
    to->next = 0;
    to->moved = p->how->moved;
    PSI_IGNORE(p->how->wants(p->how->ctx, to->name, &to->start, &trained)); /* true for each container that moves */
    for (struct psd_variable *v = next_in(to, &inner); v != NULL; v = next_in(to, &inner)) {
        v->checkpoint = v->initialised ? p->how->checkpoint : 0;
        v->checkpoint_version = v->version;
    }
    note_restored(p, to, trained);
}

static ps_status move_all(const struct placing *p, void (*moved)(const struct placing *p, struct psd_container *to),
                          struct psi_err *err)
{
    struct psd_task *to = p->to, *from = p->from;
    struct psd_store *s = &to->store, *old = &from->store;
    uint32_t first = s->next_handle, highest = s->next_order > old->next_order ? s->next_order : old->next_order;
    uint64_t cursor = 0;
    PSI_ASSERT(psi_map_count(&from->records) == 0);
    if (UINT32_MAX - s->next_handle <= old->variable_count || UINT32_MAX - highest <= PS_VARIABLES_MAX ||
        s->variable_count + old->variable_count > PS_VARIABLES_MAX) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: no room for %u variables more", to->name, old->variable_count);
    }
    struct psd_variable **all = psi_calloc(s->variable_count + old->variable_count + 1, sizeof(struct psd_variable *));
    ps_status st = all == NULL ? psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: no memory for an order", to->name) : places(p, err);
    if (st != PS_OK) {
        places_end(p, first);
        psi_free(all);
        return st;
    }
    settle_orders(s, all);
    psi_free(all);
    psd_arena_take(&s->arena, &old->arena);
    psd_arena_take(&s->records, &old->records);
    s->promised_bytes += old->promised_bytes;
    psd_store_count(s, PSD_MEMORY_VARIABLES, old->counted[PSD_MEMORY_VARIABLES] - old->gone_bytes);
    psd_store_uncount(old, PSD_MEMORY_VARIABLES, old->counted[PSD_MEMORY_VARIABLES] - old->gone_bytes);
    s->budget_lowered = s->budget_lowered || s->promised_bytes > s->budget_bytes;
    s->variable_count += old->variable_count;
    s->queue_count += old->queue_count;
    s->variable_bytes += old->variable_bytes;
    s->changes++;
    old->promised_bytes = old->variable_bytes = 0;
    old->variable_count = old->queue_count = 0;
    for (struct psd_container *c = next(from, &cursor); c != NULL; c = next(from, &cursor)) {
        if (psi_map_count(&c->variables) > 0) {
            move(p, c);
            if (moved != NULL) {
                moved(p, psd_container_own(psd_container_find(s, c->name)));
            }
        }
    }
    return PS_OK;
}

ps_status psd_place(struct psd_task *to, struct psd_task *from, const struct psd_placed *how, struct psi_err *err)
{
    struct placing p = {.to = to, .from = from, .how = how};
    leave_out(&p);
    return move_all(&p, note_placed, err);
}

ps_status psd_place_join(struct psd_task *to, struct psd_task *from, uint64_t (*random)(void *ctx), void *ctx,
                         struct psi_err *err)
{
    const struct psd_placed how = {.random = random, .ctx = ctx};
    const struct placing p = {.to = to, .from = from, .how = &how};
    return move_all(&p, NULL, err);
}

void psd_place_moved(struct psd_task *t, uint64_t moved)
{
    t->store.moved = moved;
}

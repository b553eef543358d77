/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each task holds when a load is decided: the containers that it has listed, and those created since; and whether they are
 * what the task's part of the newest checkpoint has. The directory may know a million names: it goes through them in slices
 * before it decides. A container created meanwhile is noted at its creation. Failure: without memory no load is decided.
 *
 * Values have moved where they were dealt anew, where other tasks have placed them than have written them, or where they are of
 * an older checkpoint than the newest, and no checkpoint has them as they live. A task's values then differ from its parts of all
 * checkpoints up to a number. The task lists that number (psd_store.moved). A task that lists a lower number than the others has
 * lost its share of these values. Each task lists such a number for each container as well: a container that a restore of others
 * left alone is still of the newest checkpoint's history, and does not go back with them.
 */
#include "saver.h"
#include "loader.h"

#include "common/ways.h"

#include <string.h>

uint64_t psd_loader_bytes(const struct psd_task *t)
{
    uint64_t count = 0;
    for (uint32_t i = 0; t->loader != NULL && i < t->peer_count; i++) {
        count += t->loader->peers[i].held.count;
    }
    return count * PSD_CONTAINERS_ENTRY_BYTES;
}

void psd_loader_held_fini(struct psd_task *t, struct psd_loader_peer *of)
{
    psd_store_uncount(&t->store, PSD_MEMORY_CONTAINERS, of->held.count * PSD_CONTAINERS_ENTRY_BYTES);
    psd_containers_fini(&of->held);
}

static ps_status held_add(struct psd_task *t, struct psd_loader_peer *of, const char *container,
                          const struct psd_containers_entry *as, struct psi_err *err)
{
    const size_t before = of->held.count;
    struct psd_containers_entry *h = psd_containers_get(t, &of->held, container, err);
    if (h == NULL) {
        return PS_RESOURCE_EXHAUSTED;
    }
    psd_store_count(&t->store, PSD_MEMORY_CONTAINERS, (of->held.count - before) * PSD_CONTAINERS_ENTRY_BYTES);
    h->start = as->start;
    h->next = as->next;
    h->moved = as->moved;
    return PS_OK;
}

void psd_loader_list_begin(struct psd_task *t, const struct psd_peer *p)
{
    struct psd_loader_peer *of = &t->loader->peers[p->index];
    psd_loader_held_fini(t, of);
    of->offer_count = 0;
    of->moved = 0;
    of->will_wait = false;
}

ps_status psd_loader_list_item(struct psd_task *t, const struct psd_peer *p, const ps_v1_ListItem *listed, struct psi_err *err)
{
    char container[PS_CONTAINER_BYTES_MAX + 1], name[PS_NAME_BYTES_MAX + 1];
    const ps_v1_StartItem *item = &listed->start;
    if (listed->name.size != 0) {
        ps_status st = PSI_BYTES_TEXT(listed->name, name, sizeof(name));
        st = st == PS_OK ? psd_container_parse((const pb_bytes_array_t *)(const void *)&listed->container, container, err) : st;
        return st == PS_OK && p->own_job ? psd_others_gone(t, container, name, item->number, err) : st;
    }
    if (item->container.size == 0 && item->writer != 0) {
        psd_loader_offer(&t->loader->peers[p->index], item->number, item->writer);
        return PS_OK;
    }
    if (item->container.size == 0) {
        t->loader->peers[p->index].will_wait = p->own_job && item->waits;
        t->loader->peers[p->index].moved = item->moved;
        return PS_OK;
    }
    ps_status st = psd_container_parse((const pb_bytes_array_t *)(const void *)&item->container, container, err);
    struct psd_loader_peer *of = &t->loader->peers[p->index];
    /* an older psd says `moved` once for the task, not for each container */
    struct psd_containers_entry as = {
        .start = item->start, .next = item->next, .moved = item->moved == 0 ? of->moved : item->moved - 1};
    return st == PS_OK ? held_add(t, of, container, &as, err) : st;
}

ps_status psd_loader_list_own(struct psd_task *t, struct psi_err *err)
{
    struct psd_loader_peer *of = &t->loader->peers[t->self];
    uint64_t cursor = 0;
    void *value = NULL;
    ps_status st = PS_OK;
    psd_loader_held_fini(t, of);
    while (st == PS_OK && psi_map_next(&t->store.containers, &cursor, NULL, NULL, &value)) {
        const struct psd_container *c = value;
        if (psd_container_count(c) > 0 && !c->of_session) {
            st = held_add(t, of, c->name, &(struct psd_containers_entry){.start = c->start, .next = c->next, .moved = c->moved},
                          err);
        }
    }
    return st;
}

/* Note the container of a name that another task has created since it listed, and the container of a value that rounds made. */
static ps_status list_made(struct psd_task *t, const struct psd_name *n, struct psi_err *err)
{
    const struct psd_peer *p = &t->peers[n->owner];
    struct psd_loader_peer *of = &t->loader->peers[n->owner];
    ps_status st = PS_OK;
    if (psi_container_is_session(n->container)) {
        return PS_OK;
    }
    if (n->life != 0 && n->life == p->life && psd_containers_find(&of->held, n->container) == NULL) {
        st = held_add(t, of, n->container, &(struct psd_containers_entry){.moved = of->moved}, err);
    }
    return st == PS_OK && n->by_rounds ? psd_containers_put(t, &t->loader->by_rounds, n->container, 0, err) : st;
}

void psd_loader_look_begin(struct psd_task *t)
{
    psd_containers_fini(&t->loader->by_rounds);
    t->loader->names_cursor = 0;
}

ps_status psd_loader_look_at_names(struct psd_task *t, bool *out_over, struct psi_err *err)
{
    void *value = NULL;
    ps_status st = PS_OK;
    *out_over = false;
    for (uint32_t left = t->config.list_slice_rows; st == PS_OK && left > 0 && !*out_over; left--) {
        *out_over = !psi_map_next(&t->names.names, &t->loader->names_cursor, NULL, NULL, &value);
        st = *out_over ? PS_OK : list_made(t, value, err);
    }
    return st;
}

bool psd_loader_has_work(const struct psd_task *t)
{
    return t->loader != NULL && t->loader->phase == PSD_LOADER_CHOOSING;
}

/* New containers are to be noted at once, because the look at the names has begun, or is over. */
static bool follows(const struct psd_task *t)
{
    return t->loader != NULL && (t->loader->phase == PSD_LOADER_CHOOSING || psd_loader_is_on(t->loader));
}

void psd_loader_made(struct psd_task *t, const struct psd_peer *p, const char *container)
{
    struct psi_err err;
    struct psd_loader_peer *of = follows(t) ? &t->loader->peers[p->index] : NULL;
    if (of != NULL && psd_containers_find(&of->held, container) == NULL) {
        const struct psd_containers_entry as = {.moved = of->moved};
        if (held_add(t, of, container, &as, &err) != PS_OK) {
            psd_loader_again_later(t);
        }
    }
}

void psd_loader_by_rounds(struct psd_task *t, const char *container)
{
    struct psi_err err;
    if (follows(t) && psd_containers_put(t, &t->loader->by_rounds, container, 0, &err) != PS_OK) {
        psd_loader_again_later(t);
    }
}

const struct psd_containers_entry *psd_loader_living(const struct psd_task *t, const char *container)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_containers_entry *h = psd_containers_find(&t->loader->peers[i].held, container);
        if (t->peers[i].own_job && h != NULL && !t->peers[i].waits) {
            return h;
        }
    }
    return NULL;
}

/* A task has placed the container by this load. */
static bool is_placed_by(const struct psd_task *t, const char *container, uint64_t start)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_containers_entry *h = psd_containers_find(&t->loader->peers[i].held, container);
        if (h != NULL && h->start == start) {
            return true;
        }
    }
    return false;
}

bool psd_loader_is_torn(const struct psd_task *t, const char *container)
{
    uint64_t looked_for = 0; /* as a rule all tasks have loaded for the same load, and one look is enough */
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_containers_entry *h = psd_containers_find(&t->loader->peers[i].held, container);
        if (h != NULL && h->next != looked_for && h->next != 0) {
            looked_for = h->next;
            if (is_placed_by(t, container, looked_for)) {
                return true;
            }
        }
    }
    return false;
}

/* No task before this one has loaded for the container, so that the container was not looked at for an earlier task. */
static bool is_first_to_load(const struct psd_task *t, uint32_t peer, const char *container)
{
    for (uint32_t i = 0; i < peer; i++) {
        const struct psd_containers_entry *h = psd_containers_find(&t->loader->peers[i].held, container);
        if (h != NULL && h->next != 0) {
            return false;
        }
    }
    return true;
}

bool psd_loader_recovers_cut(const struct psd_task *t, const char *container)
{
    return psi_way_of(psi_recover_ways, t->config.recover.text, container) == PSD_RECOVER_CUT;
}

bool psd_loader_any_recovers_cut(const struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_loader_peer *of = &t->loader->peers[i];
        for (size_t k = 0; t->peers[i].own_job && !t->peers[i].waits && k < of->held.count; k++) {
            if (psd_loader_recovers_cut(t, of->held.of[k].container)) {
                return true;
            }
        }
    }
    return false;
}

bool psd_loader_any_torn(const struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_loader_peer *of = &t->loader->peers[i];
        for (size_t k = 0; k < of->held.count; k++) {
            const char *container = of->held.of[k].container;
            if (of->held.of[k].next != 0 && is_first_to_load(t, i, container) && psd_loader_is_torn(t, container)) {
                return true;
            }
        }
    }
    return false;
}

/* ---- values that have moved ---- */

/* psd_store.moved of task p; 0: p is of another job. */
static uint64_t moved_on(const struct psd_task *t, const struct psd_peer *p)
{
    return !p->own_job ? 0 : p->self ? t->store.moved : t->loader->peers[p->index].moved;
}

uint64_t psd_loader_moved_most(const struct psd_task *t)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        uint64_t moved = moved_on(t, &t->peers[i]);
        most = moved > most ? moved : most;
    }
    return most;
}

bool psd_loader_is_moved(const struct psd_task *t, const char *container, uint64_t number)
{
    if (psd_loader_living(t, container) == NULL) {
        return true; /* a task that is lost may have held all of it, while tasks that live wrote its parts of that checkpoint */
    }
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_containers_entry *h = psd_containers_find(&t->loader->peers[i].held, container);
        if (t->peers[i].own_job && h != NULL && h->moved >= number) {
            return true;
        }
    }
    return false;
}

/* The newest checkpoint with a manifest on our disk; 0: there is none. */
static uint64_t newest(const struct psd_task *t)
{
    return t->saver == NULL || psi_list_empty(&t->saver->known)
               ? 0
               : PSI_CONTAINER_OF(t->saver->known.prev, struct psd_checkpoint, link)->what.number;
}

bool psd_loader_moves(const struct psd_task *t)
{
    const struct psd_loader *s = t->loader;
    bool all = s->reason == PSD_LOAD_ASKED || s->reason == PSD_LOAD_START || psd_loader_strays(s);
    return s->from != PSD_LOADER_FROM_OWN || (all && s->number < newest(t) && psd_loader_have_disks(t));
}

bool psd_loader_is_strayed(const struct psd_task *t)
{
    uint64_t most = psd_loader_moved_most(t);
    bool saved = most == 0 || newest(t) == 0 || newest(t) > most;
    for (uint32_t i = 0; !saved && i < t->peer_count; i++) {
        if (t->peers[i].own_job && moved_on(t, &t->peers[i]) != most) {
            return true;
        }
    }
    return false;
}

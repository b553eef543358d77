/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container that is reset may have a million variables: they are dropped in slices, so that others are served meanwhile.
 *
 * Happy path: psd_emptying_begin() -> the container's group and everything in progress to its variables end, and requests, lists
 * and creations find no variable of it any more (psd_container.emptying) -> psd_emptying_work() drops some in each turn of the
 * shell's loop -> the container gets another incarnation -> `done` tells whoever asked, and creations are accepted again. The
 * reset takes effect in one event, and only the memory is freed later. A checkpoint's cut under way still has the variables, and
 * no cut begins meanwhile. Failure: without memory for the slices the container is emptied at once. Another reset of the
 * container meanwhile ends together with the first one.
 */
#include "owner.h"

#include "psd/rounds/rounds.h"
#include "psd/session/session.h"

#include "common/mem.h"

#include <string.h>

struct psd_emptying {
    struct psi_list link; /* task->emptying */
    const struct psd_container *container;
    char name[PS_CONTAINER_BYTES_MAX + 1]; /* name of container, which may be freed when it is empty */
    uint64_t cursor;                       /* in the container's variables */
    bool over;                             /* the container is empty: only `done` remains to be called */
    psd_emptied_fn done;
    uint64_t id, bar; /* as given to psd_emptying_begin() */
};

static struct psd_emptying *at(struct psi_list *link)
{
    return PSI_CONTAINER_OF(link, struct psd_emptying, link);
}

void psd_emptying_begin(struct psd_task *t, const char *container, psd_emptied_fn done, uint64_t id, uint64_t bar)
{
    const struct psd_container *in = psd_container_find(&t->store, container);
    bool little = in == NULL || (!in->emptying && psi_map_count(&in->variables) <= t->config.reset_slice_names);
    struct psd_emptying *e = little ? NULL : psi_calloc(1, sizeof(*e));
    if (e == NULL) {
        (void)psd_reset_here(t, container); /* it may not exist */
        done(t, container, id, bar);
        return;
    }
    e->container = in;
    memcpy(e->name, container, strlen(container) + 1);
    e->done = done;
    e->id = id;
    e->bar = bar;
    psi_list_push_back(&t->emptying, &e->link);
    if (!in->emptying) {
        psd_rounds_end_here(t, container);
        psd_outcome_abort_container(t, in);
        psd_rates_end(t, in);
        psd_container_emptying(in, true);
    }
}

bool psd_emptying_has_work(const struct psd_task *t)
{
    return !psi_list_empty(&t->emptying);
}

void psd_emptying_overtaken(struct psd_task *t, const struct psd_container *in)
{
    struct psi_list *it = NULL;
    psd_container_emptying(in, false);
    PSI_LIST_FOREACH(it, &t->emptying) {
        at(it)->over = at(it)->over || at(it)->container == in;
    }
}

/* Drop some variables. The slice that finds none ends the reset. */
static void slice(struct psd_task *t, struct psd_emptying *e)
{
    void *value = NULL;
    for (uint32_t left = t->config.reset_slice_names; left > 0; left--) {
        if (!psi_map_next(&e->container->variables, &e->cursor, NULL, NULL, &value)) {
            (void)psd_reset_here(t, e->name); /* it exists */
            return;
        }
        psd_drop_here(t, value);
    }
}

void psd_emptying_work(struct psd_task *t)
{
    struct psd_emptying *e = at(psi_list_first(&t->emptying));
    if (!e->over) {
        slice(t, e);
    }
    if (e->over) {
        psi_list_remove(&e->link);
        e->done(t, e->name, e->id, e->bar);
        psi_free(e);
    }
}

void psd_emptying_directory_lost(struct psd_task *t)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->emptying) {
        at(it)->id = 0;
    }
}

void psd_emptying_fini(struct psd_task *t)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_pop_front(&t->emptying)) != NULL) {
        psi_free(at(link));
    }
}

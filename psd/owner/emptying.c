/* SPDX-License-Identifier: Apache-2.0 */
/* A container that is reset may have a million variables: they are dropped in slices, between which other requests are served.
 *
 * Happy path: psd_emptying_begin() ends the rounds of the container and all operations in progress on its variables. From now on
 * requests find no variable of the container (psd_container.emptying), and creations are refused. psd_emptying_work() drops some
 * variables in each turn of the shell's loop. At the end the container gets another incarnation number, `done` is called, and
 * creations are accepted again. So the reset takes effect in one event, and only the memory is freed later. No checkpoint begins
 * before the container is empty. Failure: without memory for a struct psd_emptying the container is emptied at once. A second
 * reset before the container is empty ends with the first. */
#include "owner.h"

#include "psd/rounds/rounds.h"
#include "psd/session/session.h"

#include "common/mem.h"

#include <string.h>

struct psd_emptying {
    struct psi_list link; /* task->emptying */
    const struct psd_container *container;
    char name[PS_CONTAINER_BYTES_MAX + 1]; /* name of the container, which may be freed when it is empty */
    uint64_t cursor;                       /* position of the walk over the container's variables (psi_map_next()) */
    bool over;                             /* the container is empty, and only `done` must still be called */
    psd_emptied_fn done;
    uint64_t id, bar; /* from psd_emptying_begin() */
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
        (void)psd_reset_here(t, container); /* false: the container does not exist, which is no error */
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

/* Drop the next variables. When none is left, psd_reset_here() ends the reset. */
static void slice(struct psd_task *t, struct psd_emptying *e)
{
    void *value = NULL;
    for (uint32_t left = t->config.reset_slice_names; left > 0; left--) {
        if (!psi_map_next(&e->container->variables, &e->cursor, NULL, NULL, &value)) {
            (void)psd_reset_here(t, e->name); /* true: the container exists */
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

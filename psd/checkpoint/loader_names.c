/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of the variables that a load places. When a task places containers, the directory forgets the names in these containers;
 * the task's next list has them again. The directory's own task sends no list: its variables are named as they are placed.
 * Failure: no memory for a name. The directory tries again at each tick. The load is not over before, so that no client creates
 * the variable a second time.
 */
#include "loader.h"

#include "psd/owner/owner.h"

void psd_loader_forget_names(struct psd_task *t, const struct psd_peer *p, const struct psd_containers *of)
{
    for (size_t i = 0; i < of->count; i++) {
        const struct psd_names_in *in = psd_directory_names_in(&t->names, of->of[i].container);
        const struct psd_name *n = psd_names_in_first(in);
        while (n != NULL) {
            /* looked up before the change, which frees `in` with its last name */
            const struct psd_name *next = psd_names_in_next(in, n);
            if (n->owner == p->index) {
                struct psd_change c = {.kind = PSD_CHANGE_NAME_FORGET, .name = {.container = n->container, .name = n->name}};
                psd_commit(t, &c);
            }
            n = next;
        }
    }
}

static ps_status name(struct psd_task *t, const struct psd_variable *v, struct psi_err *err)
{
    const struct psd_peer *self = &t->peers[t->self];
    const char *container = v->container->name;
    const struct psd_definition definition = psd_variable_definition(v);
    struct psd_change c = {
        .kind = PSD_CHANGE_NAME,
        .name = {.container = container, .name = v->name, .definition = &definition, .job = self->job, .task = self->task}};
    ps_status st = psd_change_reserve(t, &c, err);
    if (st == PS_OK) {
        psd_commit(t, &c);
        psd_name_confirm(psd_directory_find(&t->names, container, v->name), self->life);
    }
    return st;
}

/* Record the name of v, or drop v where the name is on another task by now. */
static ps_status name_or_drop(struct psd_task *t, const struct psd_variable *v, struct psi_err *err)
{
    const struct psd_name *n = psd_directory_find(&t->names, v->container->name, v->name);
    if (n == NULL) {
        return name(t, v, err);
    }
    if (n->owner != t->self) {
        psd_log_batch(t, PSI_LOG_ERROR, "name_elsewhere", t->name, v->name, PSI_KV("msg", "it is elsewhere"));
        psd_drop_here(t, v);
    }
    return PS_OK;
}

bool psd_loader_name_own(struct psd_task *t)
{
    uint64_t outer = 0;
    void *value = NULL;
    struct psi_err err;
    ps_status st = PS_OK;
    while (st == PS_OK && psi_map_next(&t->store.containers, &outer, NULL, NULL, &value)) {
        const struct psd_container *c = value;
        uint64_t inner = 0;
        while (!c->of_session && st == PS_OK && psi_map_next(&c->variables, &inner, NULL, NULL, &value)) {
            st = name_or_drop(t, value, &err);
        }
    }
    return st == PS_OK;
}

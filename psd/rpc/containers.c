/* SPDX-License-Identifier: Apache-2.0 */
/* CONTAINERS: what a task has in each container, and at the directory also the number of names in each. The list is made in
 * slices (listing.c), because one container may have a million variables.
 *
 * Happy path: the first pass lists the containers of this task's variables, oldest first, with sums over their variables. At the
 * directory a second pass lists containers of which this task has nothing, but the directory knows names. A variable counts as it
 * is in its slice; a container that is reset during the list is counted anew. Failure: no memory: RESOURCE_EXHAUSTED. */
#include "rpc.h"

#include "common/mem.h"

#include <string.h>

struct containers_at {
    /* cursors; outer: over the store's containers, then over psd_directory.in; inner: over one container's variables */
    uint64_t outer, inner;
    bool known;    /* true: the second pass, over containers of which the directory knows names */
    uint64_t made; /* number of containers ever made, at the end of the first pass: later ones have this number or more */
    char container[PS_CONTAINER_BYTES_MAX + 1]; /* container whose variables are being counted; "": begin the next one */
    ps_v1_ContainerAnswer sum;                  /* sums over the variables of `container` so far */
};

static void describe_chief(const struct psd_task *t, const struct psd_chief *chief, ps_v1_ContainerAnswer *a)
{
    const struct psd_record *holder = psd_chief_holder(t, chief);
    a->chief_number = chief->number;
    a->chief_left_ms = holder != NULL ? holder->lease_until_ms - t->now_ms : 0;
    if (holder != NULL || !t->is_directory) {
        PSI_IGNORE(PSI_BYTES_SET(a->chief, chief->text)); /* fits */
    }
}

/* Fill in *a, except its sums over variables. c NULL: this task has no variables of the container, only the directory's names. */
static void describe_container(const struct psd_task *t, const char *name, const struct psd_container *c,
                               ps_v1_ContainerAnswer *a)
{
    const struct psd_chief *chief = psd_chief_find(&t->chiefs, name);
    const struct psd_names_in *in = psd_directory_names_in(&t->names, name);
    *a = (ps_v1_ContainerAnswer)ps_v1_ContainerAnswer_init_zero;
    if (chief != NULL) {
        describe_chief(t, chief, a);
    }
    PSI_IGNORE(PSI_BYTES_SET(a->container, name)); /* fits: checked name */
    a->names = in == NULL ? 0 : in->variables;
    a->incarnation = c == NULL ? 0 : c->incarnation;
}

static void add_variable(const struct psd_variable *v, ps_v1_ContainerAnswer *a)
{
    if (v->queue != NULL) {
        a->queues++;
        a->bytes += v->queue->bytes;
    } else {
        a->variables++;
        a->initialised += v->initialised;
        a->bytes += psd_variable_memory_bytes(v);
    }
}

static void begin(const struct psd_task *t, struct containers_at *at, const struct psd_container *c)
{
    memcpy(at->container, c->name, sizeof(at->container));
    at->inner = 0;
    describe_container(t, c->name, c, &at->sum);
}

/* Add the next variable of the present container to its sums or, after the last one, the container to the list. */
static void step_in(const struct psd_task *t, struct psd_list *l, struct containers_at *at)
{
    void *value = NULL;
    const struct psd_container *c = psd_container_find(&t->store, at->container);
    if (c == NULL) { /* a session's container was dropped meanwhile */
        at->container[0] = '\0';
        return;
    }
    if (c->incarnation != at->sum.incarnation) {
        begin(t, at, c);
    }
    if (!c->emptying && psi_map_next(&c->variables, &at->inner, NULL, NULL, &value)) {
        add_variable(value, &at->sum);
        return;
    }
    psd_list_add(l, &ps_v1_ContainerAnswer_msg, &at->sum);
    at->container[0] = '\0';
}

/* Second pass: list a container of which the directory knows names, unless the first pass has listed it. Owners may have lost its
 * variables in a restart, but a client that resets all containers must see it. */
static void step_known(const struct psd_task *t, struct psd_list *l, struct containers_at *at, const char *name)
{
    const struct psd_container *c = psd_container_find(&t->store, name);
    if (c != NULL && c->number >= at->made) {
        begin(t, at, c);
    } else if (c == NULL) {
        ps_v1_ContainerAnswer a;
        describe_container(t, name, NULL, &a);
        psd_list_add(l, &ps_v1_ContainerAnswer_msg, &a);
    }
}

static bool step(struct psd_task *t, struct psd_conn *c, struct psd_list *l)
{
    struct containers_at *at = c->listing_at;
    void *value = NULL;
    if (at->container[0] != '\0') {
        step_in(t, l, at);
    } else if (at->known) {
        if (!psi_map_next(&t->names.in, &at->outer, NULL, NULL, &value)) {
            return false;
        }
        const char *name = ((const struct psd_names_in *)value)->container;
        if (psd_rights_read_on(t, c, name)) {
            step_known(t, l, at, name);
        }
    } else if (psi_map_next(&t->store.containers, &at->outer, NULL, NULL, &value)) {
        if (psd_rights_read_in(t, c, value)) {
            begin(t, at, value);
        }
    } else {
        at->known = true;
        at->outer = 0;
        at->made = t->store.containers_made;
    }
    return true;
}

void psd_rpc_containers(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    static const struct psd_listing containers = {.op = PS_OP_CONTAINERS, .flags = PS_FLAG_REPLY, .step = step};
    if (psd_peers_refuse(t, c, r)) {
        return;
    }
    c->listing_at = psi_calloc(1, sizeof(struct containers_at));
    if (c->listing_at == NULL) {
        psd_list_refuse(t, c, r);
        return;
    }
    psd_listing_begin(t, c, &containers, r->header.id);
}

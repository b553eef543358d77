/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CONTAINERS: what a task has in each container, and at the directory how many names it knows in each. A list in slices
 * (listing.c): a slice looks at a limited number of variables, because one container may have a million.
 *
 * Happy path: the containers of the store, in the order in which they were made, each with the sums over its variables -> at the
 * directory also containers of which it knows names only. A container that exists when the request comes is listed once; each
 * variable counts as it is in its slice. A container that is reset meanwhile is counted anew. Failure: no memory: refused.
 */
#include "rpc.h"

#include "common/mem.h"

#include <string.h>

/* The state of a list of containers. */
struct containers_at {
    /* outer: cursor of containers, or of containers with known names; inner: cursor of variables */
    uint64_t outer, inner;
    bool known;                                 /* the store's containers are done: now those with known names */
    uint64_t made;                              /* how many containers the store had made when the first pass ended */
    char container[PS_CONTAINER_BYTES_MAX + 1]; /* the container whose variables are being counted; "": begin the next one */
    ps_v1_ContainerAnswer sum;                  /* what has been counted in that container */
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

/* c NULL: the directory knows names in the container, but has no variables of it. */
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

/* Count one variable of the present container, or add the container to the list. */
static void step_in(const struct psd_task *t, struct psd_list *l, struct containers_at *at)
{
    void *value = NULL;
    const struct psd_container *c = psd_container_find(&t->store, at->container);
    if (c == NULL) { /* a session's container that was dropped meanwhile */
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

/* Second pass: containers with known names that the store did not have at the end of the first pass. Their owner may have lost
 * the names, and a reset of all containers must find them. */
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

/* SPDX-License-Identifier: Apache-2.0 */
/* Create, drop and reset variables of this task. Failure: without memory nothing is created or changed. */
#include "owner.h"

#include "psd/rounds/rounds.h"
#include "psd/session/session.h"

#include "common/name.h"
#include "common/shape.h"

#include <string.h>

static ps_status container_get(struct psd_task *t, const char *name, const struct psd_container **out, struct psi_err *err)
{
    struct psd_change c = {.kind = PSD_CHANGE_CONTAINER, .container = {.name = name, .incarnation = psd_random(t)}};
    *out = psd_container_find(&t->store, name);
    if (*out != NULL) {
        return PS_OK;
    }
    ps_status st = psd_change_reserve(t, &c, err);
    if (st == PS_OK) {
        psd_commit(t, &c);
        *out = c.container.reserved;
    }
    return st;
}

/* Check that v has the definition that item asks for. INVALID_ARGUMENT. */
static ps_status compare(const struct psd_task *t, const struct psd_variable *v, const struct psd_create *item,
                         struct psi_err *err)
{
    struct psd_definition have = psd_variable_definition(v);
    ps_status st = psd_definition_compare(&have, t->name, &item->definition, item->name, err);
    return st == PS_OK && v->queue != NULL ? psi_queue_spec_compare(&v->queue->spec, t->name, item->queue, item->name, err) : st;
}

/* Bytes of the memory budget that the creation of item takes. in: its container; NULL: the container is to be created too. */
static uint64_t memory_of(const struct psd_create *item, const struct psd_container *in)
{
    const struct psd_definition *d = &item->definition;
    return psd_definition_memory_bytes(d) + psd_variable_record_bytes(item->name, d->shape.rank, d->part.count > 0) +
           (item->queue != NULL ? psd_arena_bytes(sizeof(struct psd_queue)) : 0) + (in == NULL ? PSD_CONTAINER_BYTES : 0);
}

ps_status psd_create_here(struct psd_task *t, struct psd_create *item, struct psi_err *err)
{
    const struct psd_container *in = psd_container_find(&t->store, item->container);
    const struct psd_definition *d = &item->definition;
    item->created = false;
    if (in != NULL && in->emptying) {
        return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_RESET_PENDING,
                           "%s is still dropping what a reset of '%s' has taken away", t->name, item->container);
    }
    if (in != NULL && in->of_session && memcmp(in->key, item->key, sizeof(in->key)) != 0) {
        return psd_key_denied(item->container, err);
    }
    const struct psd_variable *v = psd_variable_find(in, item->name);
    if (v != NULL) {
        return compare(t, v, item, err);
    }
    const uint64_t bytes = memory_of(item, in);
    if (!psd_room(t, PSD_ROOM_MEMORY, bytes)) {
        return psd_store_full(&t->store, item->queue == NULL ? "variable" : "queue", item->name, bytes, err);
    }
    ps_status st = container_get(t, item->container, &in, err);
    if (st != PS_OK) {
        return st;
    }
    if (in->of_session) {
        psd_container_keyed(in, item->key);
    }
    uint32_t next = t->store.next_order;
    bool given = item->order > next && item->order < UINT32_MAX;
    struct psd_change c = {.kind = PSD_CHANGE_CREATE,
                           .create = {.container = in,
                                      .name = item->name,
                                      .definition = d,
                                      .queue = item->queue,
                                      .creation = psd_random(t),
                                      .pin = item->pinned ? t->config.task + 1 : 0,
                                      .order = given ? item->order : next}};
    st = psd_change_reserve(t, &c, err);
    if (st == PS_OK) {
        psd_commit(t, &c);
        item->created = true;
    }
    return st;
}

/* Call before v is dropped: end the pushes and other changes of v in progress, and the requests that wait for v. */
static void abort_all(struct psd_task *t, const struct psd_variable *v)
{
    if (v->queue != NULL) {
        psd_queue_abort(t, v);
        return;
    }
    psd_outcome_abort_variable(t, v);
    psd_wait_abort_variable(t, v);
}

void psd_drop_here(struct psd_task *t, const struct psd_variable *v)
{
    struct psd_change c = {.kind = PSD_CHANGE_DROP, .variable = v};
    if (psd_variable_in_group(v)) {
        psd_rounds_end_here(t, v->container->name);
    }
    abort_all(t, v);
    psd_commit(t, &c);
}

bool psd_reset_here(struct psd_task *t, const char *container)
{
    const struct psd_container *in = psd_container_find(&t->store, container);
    if (in == NULL) {
        return false;
    }
    psd_emptying_overtaken(t, in);
    psd_rates_end(t, in);
    uint64_t cursor = 0;
    void *value = NULL;
    psd_rounds_end_here(t, container);
    while (psi_map_next(&in->variables, &cursor, NULL, NULL, &value)) {
        abort_all(t, value);
    }
    struct psd_change c = {.kind = PSD_CHANGE_CONTAINER_RESET, .container = {.name = container, .incarnation = psd_random(t)}};
    psd_commit(t, &c);
    return true;
}

void psd_reset_log(struct psd_task *t, const char *container, const char *peer)
{
    psd_log(t, PSI_LOG_INFO, "container_reset", PSI_KV("peer", peer), PSI_KV("container", container));
}

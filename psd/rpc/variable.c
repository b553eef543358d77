/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables at their owner: OPEN and VARS, which look at them, and making, dropping and resetting them here. Failure: an item of
 * OPEN is answered with its own status; a list that is not understood is refused as a whole.
 */
#include "rounds.h"
#include "save.h"

#include "psd/store/cut.h"

#include "common/name.h"
#include "common/optimizer.h"
#include "common/shape.h"

#include <stdio.h>
#include <string.h>

/* ---- here ---- */

/* The container of this name, made where it is not there. */
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

/* v is there: as what is asked for? */
static ps_status compare(const struct psd_task *t, const struct psd_variable *v, const struct psd_create *item,
                         struct psi_err *err)
{
    struct psd_definition have = psd_variable_definition(v);
    ps_status st = psd_definition_compare(&have, t->name, &item->definition, item->name, err);
    return st == PS_OK && v->queue != NULL ? psi_queue_spec_compare(&v->queue->spec, t->name, item->queue, item->name, err) : st;
}

/* All that the creation of a variable takes of the budget. in NULL: its container is not there yet. */
static uint64_t memory_of(const struct psd_create *item, const struct psd_container *in)
{
    const struct psd_definition *d = &item->definition;
    return psd_definition_memory_bytes(d) + psd_variable_record_bytes(item->name, d->shape.rank) +
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

/* It is about to go: nothing is in progress to it any more, and nobody waits for it. */
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

ps_status psd_delete_here(struct psd_task *t, const char *container, const char *name, struct psi_err *err)
{
    const struct psd_variable *v = psd_variable_find(psd_container_find(&t->store, container), name);
    if (v != NULL && psd_cut_is_full(&t->store) && psd_cut_missing(&t->store, v, 0, v->bytes) > 0) {
        return psi_fail_as(
            err, PS_UNAVAILABLE, PS_REASON_OVERLOADED,
            "variable '%s' at %s: a checkpoint that has it holds as much memory as it may (psd --checkpoint_memory)", name,
            t->name);
    }
    bool notes = psd_save_is_able(t) && t->save->highest != 0 && !psi_container_is_session(container);
    ps_status st = notes ? psd_bars_delete(t, container, name, err) : PS_OK;
    if (st == PS_OK && v != NULL) {
        const bool last = v->container->of_session && psd_container_count(v->container) == 1;
        psd_drop_here(t, v);
        if (last) { /* the directory, which knows no name there any more, will not ask for a reset */
            (void)psd_reset_here(t, container);
        }
    }
    return st;
}

struct psi_err psd_delete_not_noted(const struct psi_err *err)
{
    struct psi_err told = *err;
    psi_err_prefix(&told, "it is deleted, and a checkpoint brings it back until that is noted");
    told.applied = PS_MAYBE_PARTLY_APPLIED;
    return told;
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

/* ---- OPEN ---- */

static void describe(const struct psd_task *t, const struct psd_variable *v, ps_v1_OpenAnswer *a)
{
    a->handle = v->handle;
    a->incarnation = v->container->incarnation;
    a->creation = v->creation;
    if (v->queue != NULL) {
        a->has_queue = true;
        psi_queue_spec_to_msg(&v->queue->spec, &a->queue);
        a->size = psd_queue_length(v->queue);
        a->closed = v->queue->closed;
        return;
    }
    a->dtype = (uint32_t)v->dtype;
    const ps_shape shape = psd_variable_shape(v);
    a->dims_count = (pb_size_t)shape.rank;
    memcpy(a->dims, shape.dims, shape.rank * sizeof(int64_t));
    a->has_optimizer = true;
    psi_optimizer_to_msg(&v->optimizer, &a->optimizer);
    a->version = v->version;
    a->initialised = v->initialised;
    a->sealed = v->sealed;
    a->restored = v->restored;
    a->seed = v->seed;
    a->init_kind = v->init.kind;
    a->init_a = v->init.a;
    a->init_b = v->init.b;
    a->chief_number = v->chief_number;
    a->provisional = v->sealed ? 0 : v->chief_value;
    a->seal_number = v->sealed ? v->chief_value : 0;
    a->container_chief = psd_chief_number(&t->chiefs, v->container->name);
    a->atomic = v->atomic;
    a->rate = psd_variable_rate(v);
    a->rounds = v->part == NULL ? 0 : v->part->rounds->generation;
    a->rounds_mode = v->part == NULL ? PSD_SYNC_NONE : v->part->rounds->options.mode;
    a->giver.size = v->given ? sizeof(v->giver) : 0;
    memcpy(a->giver.bytes, v->giver, a->giver.size);
    a->checkpoint = v->checkpoint;
    a->checkpoint_version = v->checkpoint == 0 ? 0 : v->checkpoint_version;
}

static void bad_list(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, const struct psi_err *err)
{
    psd_reply(t, c, r->header.op, 0, r->header.id, 0, err, 0, NULL, NULL);
}

static ps_status check_key(const struct psd_task *t, const ps_v1_NameItem *item, const char *container, struct psi_err *err)
{
    uint8_t key[PSI_KEY_BYTES];
    ps_status st = psd_key_parse((const pb_bytes_array_t *)(const void *)&item->key, container, key, err);
    const struct psd_container *in = st == PS_OK ? psd_container_find(&t->store, container) : NULL;
    bool other = in != NULL && in->of_session && memcmp(in->key, key, sizeof(key)) != 0;
    return other ? psd_key_denied(container, err) : st;
}

void psd_rpc_open(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    const uint8_t *p = r->body;
    size_t n = r->body_bytes;
    struct psi_err err;
    struct psd_list l;
    psd_list_begin(&l, t, c, PS_OP_OPEN, PS_FLAG_REPLY, r->header.id);
    for (uint32_t index = 1;; index++) {
        ps_v1_NameItem item;
        bool end = false;
        if (psi_list_next(&p, &n, &ps_v1_NameItem_msg, &item, &end, &err) != PS_OK) {
            psi_buf_fini(&l.buf);
            bad_list(t, c, r, &err);
            return;
        }
        if (end) {
            break;
        }
        char container[PS_CONTAINER_BYTES_MAX + 1], name[PS_NAME_BYTES_MAX + 1];
        ps_v1_OpenAnswer a = ps_v1_OpenAnswer_init_zero;
        a.index = index;
        ps_status st = psd_name_parse(&item, container, name, &err);
        st = st == PS_OK ? check_key(t, &item, container, &err) : st;
        const struct psd_variable *v = st == PS_OK ? psd_variable_find(psd_container_find(&t->store, container), name) : NULL;
        const bool found = v != NULL && !t->fenced;
        st = st == PS_OK ? psd_peers_begun(t, &err) : st;
        st = st == PS_OK && found ? psd_own_show(t, c, v->container, &err) : st;
        if (st == PS_OK && found) {
            describe(t, v, &a);
        } else if (st == PS_OK) {
            st = psi_fail(&err, PS_NOT_FOUND, "%s has no variable '%s'", t->name, name);
        }
        if (st != PS_OK) {
            a.status = (uint32_t)st;
            a.reason = (uint32_t)err.reason;
            PSI_IGNORE(PSI_BYTES_SET(a.text, err.text)); /* cut is fine */
        }
        psd_list_add(&l, &ps_v1_OpenAnswer_msg, &a);
    }
    psd_list_end(&l);
}

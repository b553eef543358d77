/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables at their owner: OPEN, INIT, SEAL, VARS, and making, dropping and resetting them here.
 *
 * INIT is a mutation like a push (sequence number, outcome kept). It and SEAL carry the number of the chief lease: one lower than
 * this task has seen is refused, so a chief that was paused and wakes up late changes nothing.
 */
#include "rpc.h"

#include "common/mem.h"
#include "common/name.h"
#include "common/optimizer.h"
#include "common/shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names and definitions from messages ---- */

ps_status psd_container_parse(const pb_bytes_array_t *field, char container[PS_CONTAINER_BYTES_MAX + 1], struct psi_err *err)
{
    if (field->size == 0) {
        memcpy(container, PSI_CONTAINER_DEFAULT, sizeof(PSI_CONTAINER_DEFAULT));
        return PS_OK;
    }
    ps_status st = psi_container_name_check((const char *)field->bytes, field->size, err);
    return st != PS_OK ? st : psi_bytes_text(field, container, PS_CONTAINER_BYTES_MAX + 1);
}

static ps_status name_parse(const pb_bytes_array_t *field, char name[PS_NAME_BYTES_MAX + 1], struct psi_err *err)
{
    ps_status st = psi_variable_name_check((const char *)field->bytes, field->size, err);
    return st != PS_OK ? st : psi_bytes_text(field, name, PS_NAME_BYTES_MAX + 1);
}

ps_status psd_name_parse(const ps_v1_NameItem *item, char container[PS_CONTAINER_BYTES_MAX + 1], char name[PS_NAME_BYTES_MAX + 1],
                         struct psi_err *err)
{
    ps_status st = psd_container_parse((const pb_bytes_array_t *)(const void *)&item->container, container, err);
    return st != PS_OK ? st : name_parse((const pb_bytes_array_t *)(const void *)&item->name, name, err);
}

ps_status psd_create_parse(const ps_v1_CreateItem *item, struct psd_create *out, struct psi_err *err)
{
    ps_status st = psd_container_parse((const pb_bytes_array_t *)(const void *)&item->container, out->container, err);
    if (st == PS_OK) {
        st = name_parse((const pb_bytes_array_t *)(const void *)&item->name, out->name, err);
    }
    if (st == PS_OK) {
        st = psi_shape_from_dims(item->dims, item->dims_count, &out->definition.shape, err);
    }
    if (st == PS_OK) {
        st = psi_optimizer_from_msg(&item->optimizer, &out->definition.optimizer, err);
    }
    if (st == PS_OK) {
        out->definition.dtype = (ps_dtype)item->dtype; /* checked below */
        out->definition.atomic = item->atomic;
        out->pinned = item->pinned;
        st = psd_definition_check(&out->definition, out->name, err);
    }
    return st;
}

void psd_create_to_msg(const struct psd_create *create, ps_v1_CreateItem *out)
{
    *out = (ps_v1_CreateItem)ps_v1_CreateItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(out->container, create->container)); /* fits: checked names */
    PSI_IGNORE(PSI_BYTES_SET(out->name, create->name));           /* likewise */
    out->dtype = (uint32_t)create->definition.dtype;
    out->dims_count = (pb_size_t)create->definition.shape.rank;
    memcpy(out->dims, create->definition.shape.dims, create->definition.shape.rank * sizeof(int64_t));
    out->atomic = create->definition.atomic;
    out->has_optimizer = true;
    psi_optimizer_to_msg(&create->definition.optimizer, &out->optimizer);
}

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

ps_status psd_create_here(struct psd_task *t, const char *container, const char *name, const struct psd_definition *d,
                          bool *out_created, struct psi_err *err)
{
    const struct psd_container *in = NULL;
    *out_created = false;
    ps_status st = container_get(t, container, &in, err);
    if (st != PS_OK) {
        return st;
    }
    const struct psd_variable *v = psd_variable_find(in, name);
    if (v != NULL) {
        struct psd_definition have = psd_variable_definition(v);
        return psd_definition_compare(&have, t->name, d, name, err);
    }
    PSI_IGNORE(psd_room(t, PSD_ROOM_MEMORY, psd_definition_memory_bytes(d))); /* psd_change_reserve() says what is missing */
    struct psd_change c = {.kind = PSD_CHANGE_CREATE,
                           .create = {.container = in, .name = name, .definition = d, .creation = psd_random(t)}};
    st = psd_change_reserve(t, &c, err);
    if (st == PS_OK) {
        psd_commit(t, &c);
        *out_created = true;
    }
    return st;
}

void psd_drop_here(struct psd_task *t, const struct psd_variable *v)
{
    struct psd_change c = {.kind = PSD_CHANGE_DROP, .variable = v};
    psd_push_abort_variable(t, v);
    psd_wait_abort_variable(t, v);
    psd_commit(t, &c);
}

void psd_reset_here(struct psd_task *t, const char *container)
{
    const struct psd_container *in = psd_container_find(&t->store, container);
    if (in == NULL) {
        return;
    }
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&in->variables, &cursor, NULL, NULL, &value)) {
        psd_push_abort_variable(t, value);
        psd_wait_abort_variable(t, value);
    }
    struct psd_change c = {.kind = PSD_CHANGE_CONTAINER_RESET, .container = {.name = container, .incarnation = psd_random(t)}};
    psd_commit(t, &c);
    psd_log(t, PSI_LOG_INFO, "container_reset", PSI_KV("container", container));
}

ps_status psd_fail_gone(const struct psd_task *t, uint32_t handle, struct psi_err *err)
{
    return psi_fail_as(err, PS_ABORTED, PS_REASON_LOST, "handle %u at %s: the variable was reset or deleted", handle, t->name);
}

/* ---- OPEN ---- */

static void describe(const struct psd_variable *v, ps_v1_OpenAnswer *a)
{
    a->handle = v->handle;
    a->incarnation = v->container->incarnation;
    a->creation = v->creation;
    a->dtype = (uint32_t)v->dtype;
    a->dims_count = (pb_size_t)v->shape.rank;
    memcpy(a->dims, v->shape.dims, v->shape.rank * sizeof(int64_t));
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
    a->atomic = v->atomic;
    a->giver.size = v->given ? sizeof(v->giver) : 0;
    memcpy(a->giver.bytes, v->giver, a->giver.size);
}

static void bad_list(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, const struct psi_err *err)
{
    psd_reply(t, c, r->header.op, 0, r->header.id, 0, err, 0, NULL, NULL);
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
        const struct psd_variable *v = st == PS_OK ? psd_variable_find(psd_container_find(&t->store, container), name) : NULL;
        if (v != NULL && !t->fenced) {
            describe(v, &a);
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

/* ---- INIT, SEAL ---- */

static ps_status check_chief(const struct psd_task *t, uint64_t number, struct psi_err *err)
{
    if (number > PS_CHIEF_NUMBER_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "chief number %llu: no directory has given it", (unsigned long long)number);
    }
    if (number != 0 && number < t->chief_number) {
        return psi_fail_as(
            err, PS_ABORTED, PS_REASON_NEWER_CHIEF, "%s follows a newer chief: %s has number %llu, this session %llu", t->name,
            t->chief_text[0] == '\0' ? "one" : t->chief_text, (unsigned long long)t->chief_number, (unsigned long long)number);
    }
    return PS_OK;
}

/* A number that has passed the check; 0: not as a chief. */
static void follow_chief(struct psd_task *t, const struct psd_conn *c, uint64_t number)
{
    if (number > t->chief_number || (number != 0 && t->chief_text[0] == '\0')) {
        struct psd_change change = {.kind = PSD_CHANGE_CHIEF, .chief = {.number = number, .text = c->text}};
        psd_commit(t, &change);
    }
}

ps_status psd_init_check(const struct psd_task *t, const struct psd_request *r, struct psd_init *out, struct psi_err *err)
{
    ps_v1_Init m;
    *out = (struct psd_init){.variable = r->variable};
    if (r->refusal != NULL) {
        *err = *r->refusal;
        return err->code;
    }
    const struct psd_variable *v = out->variable;
    ps_status st = psi_msg_decode(&ps_v1_Init_msg, &m, r->meta, r->header.meta_bytes, err);
    if (st == PS_OK) {
        st = psi_optimizer_from_msg(&m.optimizer, &out->optimizer, err);
    }
    if (st == PS_OK && v == NULL) {
        st = psd_fail_gone(t, r->header.handle, err);
    }
    if (st == PS_OK && t->draining) {
        st = psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_SHUTTING_DOWN, "%s is shutting down", t->name);
    }
    if (st == PS_OK) {
        st = check_chief(t, m.chief_number, err);
    }
    if (st != PS_OK) {
        return st;
    }
    out->chief_number = m.chief_number;
    out->initializer = (ps_initializer){.kind = m.kind, .a = m.a, .b = m.b};
    out->seed = m.seed;
    out->force = m.force;
    struct psd_definition have = psd_variable_definition(v);
    struct psd_definition want = have;
    want.optimizer = out->optimizer;
    st = psd_definition_compare(&have, t->name, &want, v->name, err);
    if (st == PS_OK) {
        st = psd_definition_check(&want, v->name, err);
    }
    if (st == PS_OK) {
        st = psi_initializer_check(&out->initializer, v->dtype, &v->shape, err);
        psi_err_prefix(st == PS_OK ? NULL : err, "variable '%s'", v->name);
    }
    return st;
}

/* What r says, decided: on PS_OK out is to be committed. */
static ps_status decide_init(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, struct psd_making *made,
                             struct psd_change *out, struct psi_err *err)
{
    struct psd_init m;
    ps_status st = psd_init_check(t, r, &m, err);
    follow_chief(t, c, m.chief_number);
    if (st != PS_OK) {
        return st;
    }
    bool runs = !m.variable->initialised || m.force;
    if (made->value == NULL) {
        *made = (struct psd_making){.init = m.initializer, .seed = m.seed, .optimizer = m.optimizer};
    }
    if ((runs || m.chief_number != 0) && !psi_optimizer_equal(&m.variable->optimizer, &m.optimizer)) {
        char text[PSI_OPTIMIZER_TEXT_MAX];
        psd_log(t, PSI_LOG_INFO, "hyperparameters", PSI_KV("var", m.variable->name),
                PSI_KV("now", psi_optimizer_format(&m.optimizer, text, sizeof(text))));
    }
    *out = (struct psd_change){.kind = PSD_CHANGE_INIT,
                               .init = {.record = c->record,
                                        .number = r->header.id,
                                        .variable = m.variable,
                                        .chief_number = m.chief_number,
                                        .making = made,
                                        .runs = runs}};
    return psd_change_reserve(t, out, err);
}

void psd_init_carry_out(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, struct psd_making *made)
{
    struct psd_making at_once = {.value = NULL};
    struct psd_change change;
    struct psi_err err;
    if (!psd_push_may_begin(t, c, r)) {
        return;
    }
    ps_status st = decide_init(t, c, r, made != NULL ? made : &at_once, &change, &err);
    if (st == PS_OK) {
        psd_commit(t, &change);
    } else {
        psd_push_refuse(t, c->record, r->header.id, &err);
    }
    psd_push_outcome(t, c, PS_OP_INIT, r->header.handle, psd_record_find(c->record, r->header.id));
    if (st == PS_OK) {
        psd_wait_look(t, psd_variable_waiters(change.init.variable));
    }
}

void psd_rpc_init(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    if (!psd_slow_begin(t, c, r)) {
        psd_init_carry_out(t, c, r, NULL);
    }
}

/* First pass checks, second sets: all or none of a frame. */
static ps_status seal_items(struct psd_task *t, const struct psd_request *r, bool set, struct psi_err *err)
{
    const uint8_t *p = r->body;
    size_t n = r->body_bytes;
    for (;;) {
        ps_v1_HandleItem item;
        bool end = false;
        ps_status st = psi_list_next(&p, &n, &ps_v1_HandleItem_msg, &item, &end, err);
        if (st != PS_OK || end) {
            return st;
        }
        const struct psd_variable *v = psd_variable_by_handle(&t->store, item.handle);
        if (v == NULL || v->creation != item.creation) {
            return psd_fail_gone(t, item.handle, err);
        }
        if (!v->initialised) {
            return psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_UNINITIALIZED,
                               "UNINITIALIZED: variable '%s' at %s cannot be sealed", v->name, t->name);
        }
        if (set && !v->sealed) {
            struct psd_change c = {.kind = PSD_CHANGE_SEAL, .variable = v};
            psd_commit(t, &c);
            psd_wait_look(t, psd_variable_waiters(v));
        }
    }
}

void psd_rpc_seal(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_Seal m;
    struct psi_err err;
    ps_status st = psi_msg_decode(&ps_v1_Seal_msg, &m, r->meta, r->header.meta_bytes, &err);
    if (st == PS_OK) {
        st = check_chief(t, m.chief_number, &err);
    }
    if (st == PS_OK) {
        follow_chief(t, c, m.chief_number);
    }
    if (st == PS_OK) {
        st = seal_items(t, r, false, &err);
    }
    if (st == PS_OK) {
        st = seal_items(t, r, true, &err);
    }
    psd_reply(t, c, PS_OP_SEAL, 0, r->header.id, 0, st == PS_OK ? NULL : &err, 0, NULL, NULL);
}

/* ---- VARS ---- */

static int by_name(const void *a, const void *b)
{
    const struct psd_variable *const *x = a;
    const struct psd_variable *const *y = b;
    int order = strcmp((*x)->container->name, (*y)->container->name);
    return order != 0 ? order : strcmp((*x)->name, (*y)->name);
}

static uint32_t collect(const struct psd_task *t, const struct psd_variable **all)
{
    uint32_t count = 0;
    uint64_t cursor = 0;
    uint64_t handle = 0;
    void *value = NULL;
    while (psi_u64_map_next(&t->store.handles, &cursor, &handle, &value)) {
        all[count++] = value;
    }
    qsort(all, count, sizeof(const struct psd_variable *), by_name);
    return count;
}

void psd_rpc_vars(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    const struct psd_variable **all = psi_calloc((size_t)t->store.variable_count + 1, sizeof(const struct psd_variable *));
    if (all == NULL) {
        psd_list_refuse(t, c, r);
        return;
    }
    uint32_t count = collect(t, all);
    struct psd_list l;
    psd_list_begin(&l, t, c, PS_OP_VARS, PS_FLAG_REPLY, r->header.id);
    for (uint32_t i = 0; i < count; i++) {
        const struct psd_variable *v = all[i];
        ps_v1_VarAnswer a = ps_v1_VarAnswer_init_zero;
        PSI_IGNORE(PSI_BYTES_SET(a.container, v->container->name)); /* fits: checked names */
        PSI_IGNORE(PSI_BYTES_SET(a.name, v->name));                 /* likewise */
        a.dtype = (uint32_t)v->dtype;
        a.dims_count = (pb_size_t)v->shape.rank;
        memcpy(a.dims, v->shape.dims, v->shape.rank * sizeof(int64_t));
        a.has_optimizer = true;
        psi_optimizer_to_msg(&v->optimizer, &a.optimizer);
        a.version = v->version;
        a.initialised = v->initialised;
        a.sealed = v->sealed;
        a.pushes = v->pushes;
        a.in_progress = v->in_progress;
        a.handle = v->handle;
        a.atomic = v->atomic;
        a.bytes = v->initialised ? v->bytes : 0;
        psd_list_add(&l, &ps_v1_VarAnswer_msg, &a);
    }
    psd_list_end(&l);
    psi_free(all);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that changes need. Happy path: psd_change_reserve() allocates the objects that the commit of a change adds to the
 * state, so that the commit cannot fail. Failure: RESOURCE_EXHAUSTED or FAILED_PRECONDITION, and nothing is reserved. */
#include "mutate.h"
#include "rows.h"
#include "psd/state.h"

#include "common/blob.h"
#include "common/mem.h"
#include "common/shape.h"

#include <string.h>

struct psd_progress *psd_progress_new(struct psd_task *t, const struct psd_variable *v)
{
    struct psi_list *link = psi_list_pop_front(&t->free_progress);
    struct psd_progress *p = link != NULL ? PSI_CONTAINER_OF(link, struct psd_progress, link) : psi_malloc(sizeof(*p));
    if (p != NULL && link == NULL) {
        psd_store_count(&t->store, PSD_MEMORY_PUSHES, psi_malloc_bytes(sizeof(*p)));
    }
    if (p != NULL) {
        memset(p, 0, sizeof(*p));
        psi_list_init(&p->link);
        psi_list_init(&p->moves);
        p->variable = psd_variable_ref(v);
    }
    return p;
}

void psd_progress_free(struct psd_task *t, struct psd_progress *p)
{
    if (p->staging != NULL) {
        psd_variable_unstage_kept(&t->store, p->variable, p->staging, p->staging_bytes, &p->kept);
    }
    PSI_IGNORE(psd_area_end(p, false)); /* false: the contribution is not complete */
    psi_list_remove(&p->moves);
    psd_variable_unref(&t->store, p->variable);
    psi_list_push_front(&t->free_progress, &p->link);
}

uint32_t psd_progress_unit(const struct psd_progress *p)
{
    const uint32_t element = psi_wire_unit((ps_dtype)p->wire);
    return psd_push_is_rows(p->kind) ? psi_rows_unit(psd_rows_columns(p->variable) * element) : element;
}

bool psd_progress_fits(const struct psd_progress *p)
{
    const struct psd_variable *v = p->variable;
    if (psd_push_is_rows(p->kind)) {
        return psd_rows_fit(p);
    }
    bool strings = v->dtype == PS_STRING;
    if (v->queue != NULL || (psd_push_is_gradient(p->kind) ? !psi_wire_fits(v->dtype, p->wire) : p->wire != v->dtype)) {
        return false;
    }
    if (strings ? psi_blob_size_check(p->total, v->elements, NULL) != PS_OK
                : p->total != psd_variable_elements_of(v, psd_push_slot(p->kind))) {
        return false;
    }
    switch (p->kind) {
    case PSD_PUSH:
    case PSD_PUSH_PULL:
        return v->initialised && v->optimizer.kind != PS_OPT_NONE && !psd_variable_in_rounds(v);
    case PSD_CONTRIBUTE: {
        const struct psd_area *a = psd_area_find(v, p->member, p->round);
        return v->initialised && v->optimizer.kind != PS_OPT_NONE && (a == NULL || (!a->complete && a->from == NULL));
    }
    case PSD_ADD:
        return v->initialised && v->dtype != PS_BOOL && !strings && !(psd_push_streams(p->kind, v) && psd_variable_in_rounds(v));
    case PSD_ASSIGN:
        return true;
    default: {
        uint32_t slot = psd_push_slot(p->kind);
        return slot != 0 && v->initialised && slot <= psd_optim_slot_count(&v->optimizer) && !p->init_only;
    }
    }
}

static ps_status reserve_record(struct psd_task *t, struct psd_change *c, struct psi_err *err)
{
    c->session.reserved = psd_record_new(c->session.session, c->session.name);
    if (c->session.reserved == NULL || psi_map_reserve(&t->records, sizeof(c->session.reserved->session), NULL) != PS_OK) {
        psd_record_free(c->session.reserved);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: no memory for a session", t->name);
    }
    return PS_OK;
}

static ps_status reserve_reset(struct psd_task *t, struct psd_change *c, struct psi_err *err)
{
    if (psd_reset_record(&t->resets, c->reset.container) == NULL) {
        c->reset.reserved = psd_reset_new(t->peer_count);
        if (c->reset.reserved == NULL) {
            return psi_fail(err, PS_RESOURCE_EXHAUSTED, "reset of container '%s': memory", c->reset.container);
        }
    }
    return PS_OK;
}

static ps_status reserve_staging(struct psd_task *t, struct psd_progress *p, struct psi_err *err)
{
    if (!psd_progress_stages(p) || p->staging != NULL) {
        return PS_OK;
    }
    p->staging = psd_variable_stage_first(&t->store, p->variable, p->staging_bytes);
    if (p->staging == NULL) {
        p->staging = psd_store_stage_raw(&t->store, p->staging_bytes);
    }
    return p->staging != NULL ? PS_OK
                              : psi_fail(err, PS_RESOURCE_EXHAUSTED, "variable '%s': no memory to stage %llu bytes",
                                         p->variable->name, (unsigned long long)p->staging_bytes);
}

static ps_status reserve_create(struct psd_task *t, struct psd_change *c, struct psi_err *err)
{
    struct psd_variable *v = NULL;
    ps_status st = psd_variable_reserve(&t->store, c->create.container, c->create.name, c->create.definition, &v, err);
    if (st == PS_OK && c->create.queue != NULL) {
        v->queue = psd_queue_new(&t->store, v, c->create.queue);
        if (v->queue == NULL) {
            psd_variable_unref(&t->store, v);
            return psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED, "queue '%s': memory for its record",
                               c->create.name);
        }
    }
    if (st == PS_OK) {
        v->pin = c->create.pin;
        v->order = c->create.order;
    }
    c->create.reserved = v;
    return st;
}

static ps_status reserve_attempt(struct psd_task *t, struct psd_change *c, struct psi_err *err)
{
    const struct psd_queue *q = c->attempt.variable->queue;
    ps_status st = c->kind == PSD_CHANGE_ENQUEUE ? psd_queue_reserve(&t->store, q, 1, err) : PS_OK;
    if (st == PS_OK && c->kind == PSD_CHANGE_ENQUEUE) {
        st = psd_queue_reserve_sum(&t->store, q, c->attempt.element, &c->attempt.sum, err);
    }
    if (st == PS_OK && c->attempt.reserved == NULL) {
        c->attempt.reserved = psd_attempt_find(c->attempt.record, c->attempt.id);
    }
    if (st == PS_OK && c->attempt.reserved == NULL) {
        c->attempt.reserved = psd_attempt_new(&t->store);
    }
    if (st != PS_OK || c->attempt.reserved != NULL) {
        return st;
    }
    psd_element_free(&t->store, c->attempt.sum);
    c->attempt.sum = NULL;
    return psi_fail(err, PS_RESOURCE_EXHAUSTED, "queue '%s': memory", c->attempt.variable->name);
}

static ps_status reserve_write(struct psd_task *t, struct psd_change *c, struct psi_err *err)
{
    const struct psd_variable *v = c->write.variable;
    ps_status st = v->initialised ? PS_OK : psd_variable_reserve_slots(&t->store, v, err);
    if (st != PS_OK || c->write.value != NULL) {
        return st;
    }
    c->write.value = psd_variable_stage_first(&t->store, v, v->bytes);
    if (c->write.value == NULL) {
        c->write.value = psd_store_stage_raw(&t->store, v->bytes);
    }
    if (c->write.value == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "variable '%s': no memory to stage %llu bytes", v->name,
                        (unsigned long long)v->bytes);
    }
    memcpy(c->write.value, c->write.bytes, v->bytes);
    return PS_OK;
}

ps_status psd_change_reserve(struct psd_task *t, struct psd_change *c, struct psi_err *err)
{
    switch (c->kind) {
    case PSD_CHANGE_CONTAINER:
        return psd_container_reserve(&t->store, c->container.name, &c->container.reserved, err);
    case PSD_CHANGE_CREATE:
        return reserve_create(t, c, err);
    case PSD_CHANGE_INIT:
        return c->init.runs && c->init.making->value == NULL
                   ? psd_variable_make_at_once(&t->store, c->init.variable, c->init.making, err)
                   : PS_OK;
    case PSD_CHANGE_CHIEF:
        return c->chief.container != NULL && psd_chief_find(&t->chiefs, c->chief.container) == NULL
                   ? psd_chief_reserve(&t->chiefs, c->chief.container, c->chief.forgotten != NULL, &c->chief.reserved, err)
                   : PS_OK;
    case PSD_CHANGE_SESSION:
        return reserve_record(t, c, err);
    case PSD_CHANGE_BEGIN:
        return reserve_staging(t, c->begin.reserved, err);
    case PSD_CHANGE_SEGMENT: {
        const struct psd_progress *p = c->segment.number->progress;
        bool first = c->segment.last && p->kind == PSD_ASSIGN && !p->variable->initialised;
        return first ? psd_variable_reserve_slots(&t->store, p->variable, err) : PS_OK;
    }
    case PSD_CHANGE_NAME:
        return psd_name_reserve(&t->names, c->name.container, c->name.name, c->name.definition, &c->name.reserved, err);
    case PSD_CHANGE_RESET:
        return reserve_reset(t, c, err);
    case PSD_CHANGE_ENQUEUE:
    case PSD_CHANGE_DEQUEUE:
        return reserve_attempt(t, c, err);
    case PSD_CHANGE_ROUNDS:
        return c->rounds.def == NULL
                   ? PS_OK
                   : psd_rounds_reserve(&t->store, c->rounds.container, c->rounds.def, &c->rounds.reserved, err);
    case PSD_CHANGE_ROUND_JOIN:
        return psd_member_at(c->member.container->rounds, c->member.job, c->member.task) != NULL
                   ? PS_OK
                   : psd_member_reserve(&t->store, c->member.container->rounds, &c->member.reserved, err);
    case PSD_CHANGE_WRITE:
        return reserve_write(t, c, err);
    default:
        return PS_OK;
    }
}

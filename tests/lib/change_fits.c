/* SPDX-License-Identifier: Apache-2.0 */
/*
 * May a change that was read be the next one of this task: whatever its bytes said, psd_commit() can carry it out then. It has
 * been resolved (change_code.c): the records, variables and containers that it names are there. Failure: none, it says no.
 */
#include "change_code.h"

#include "common/blob.h"
#include "common/optimizer.h"
#include "common/tuple.h"
#include "psd/state.h"
#include "psd/store/rows.h"

#include <string.h>

static bool fresh(const struct psd_record *r, uint64_t number)
{
    return psd_record_find(r, number) == NULL && psd_record_admits(r, number);
}

static bool idle(const struct psd_variable *v)
{
    /* nothing is in progress; in a task that replays nobody reads */
    return v->refs == 1 + (v->queue != NULL ? v->queue->attempt_count : 0);
}

static bool all_idle(const struct psd_container *c)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&c->variables, &cursor, NULL, NULL, &value)) {
        if (!idle(value)) {
            return false;
        }
    }
    return true;
}

static bool init_fits(const struct psd_change *c)
{
    const struct psd_variable *v = c->init.variable;
    const struct psd_making *m = c->init.making;
    const ps_shape shape = psd_variable_shape(v);
    return fresh(c->init.record, c->init.number) && v->queue == NULL && psi_optimizer_fits(&m->optimizer, &v->optimizer) &&
           psi_optimizer_check(&m->optimizer, v->dtype, NULL) == PS_OK && (c->init.runs || v->initialised) &&
           psi_initializer_check(&m->init, v->dtype, &shape, NULL) == PS_OK;
}

static bool begin_fits(const struct psd_change *c)
{
    return fresh(c->begin.record, c->begin.reserved->number) && psd_progress_fits(c->begin.reserved);
}

static bool segment_fits(const struct psd_change *c)
{
    const struct psd_number *n = c->segment.number;
    const struct psd_progress *p = n->progress;
    bool staged_gradient = psd_push_is_applied(p->kind) && p->staging != NULL;
    bool whole = n->offset + c->segment.count == p->total;
    if (c->segment.last ? !whole : whole && !psd_progress_moves_last(p)) { /* MOVEs may follow */
        return false;
    }
    if (psd_push_is_rows(p->kind) && psd_rows_check(n, c->segment.bytes, c->segment.count, c->segment.last, NULL) != PS_OK) {
        return false;
    }
    if (c->segment.last && p->variable->dtype == PS_STRING) {
        memcpy((uint8_t *)p->staging + n->offset, c->segment.bytes, c->segment.count); /* as a handler looks at them */
        return psi_blob_check(p->staging, p->total, p->variable->elements, NULL) == PS_OK;
    }
    return (whole && staged_gradient) == (c->segment.scalars != NULL);
}

static bool slice_fits(const struct psd_change *c)
{
    const struct psd_number *n = c->move.number;
    return psd_number_moves(n) && c->move.count > 0 && c->move.count <= psd_progress_left(n->progress);
}

static bool task_known(const struct psd_task *t, const char *job, uint32_t task)
{
    return psi_cluster_task_number(&t->cluster, job, task) < t->peer_count;
}

static bool create_fits(const struct psd_task *t, const struct psd_change *c)
{
    const struct psd_definition *d = c->create.definition;
    return c->create.container != NULL && psd_variable_find(c->create.container, c->create.name) == NULL &&
           psd_variable_by_creation(&t->store, c->create.creation) == NULL && c->create.order >= t->store.next_order &&
           psd_definition_check(d, c->create.name, NULL) == PS_OK &&
           (!d->queue || psi_queue_spec_check(c->create.queue, NULL) == PS_OK);
}

/* The request has not ended, and what it does is to that queue. */
static bool move_fits(const struct psd_change *c)
{
    const struct psd_queue *q = c->attempt.variable->queue;
    const struct psd_attempt *a = psd_attempt_find(c->attempt.record, c->attempt.id);
    if (q == NULL || (a != NULL && (a->variable != c->attempt.variable || a->done))) {
        return false;
    }
    bool work = q->spec.kind == PSI_QUEUE_WORK;
    if (c->kind == PSD_CHANGE_DEQUEUE && psi_queue_accumulates(q->spec.kind)) {
        return c->attempt.index == 0 && (q->size > 0 || q->sum != NULL);
    }
    if (c->kind == PSD_CHANGE_DEQUEUE) {
        return c->attempt.index < (q->spec.kind == PSI_QUEUE_SHUFFLE || q->size == 0 ? q->size : 1) && (!work || q->filled);
    }
    return !(work && q->filled) && psi_tuple_check(&q->spec, c->attempt.element->data, c->attempt.element->bytes, NULL) == PS_OK;
}

static bool end_of_attempt_fits(const struct psd_change *c)
{
    const struct psd_attempt *a = psd_attempt_find(c->attempt.record, c->attempt.id);
    if (a == NULL || c->kind == PSD_CHANGE_ATTEMPT_DONE || c->attempt.give_back ||
        a->variable->queue->spec.kind != PSI_QUEUE_WORK) {
        return a != NULL;
    }
    return !a->held && (a->done || a->element_count == 0);
}

static bool work_end_fits(const struct psd_change *c)
{
    const struct psd_queue *q = c->work_end.variable->queue;
    return fresh(c->work_end.record, c->work_end.number) && q != NULL && q->spec.kind == PSI_QUEUE_WORK &&
           (c->work_end.repeated || psd_attempt_of_item(c->work_end.record, q, c->work_end.serial) != NULL);
}

static bool set_step_fits(const struct psd_change *c)
{
    const struct psd_queue *q = c->set_step.variable->queue;
    return fresh(c->set_step.record, c->set_step.number) && q != NULL && psi_queue_accumulates(q->spec.kind) &&
           c->set_step.step >= 0 && c->set_step.step <= PSI_STEP_MAX;
}

static bool rounds_fit(const struct psd_task *t, const struct psd_change *c)
{
    const struct psd_container *in = c->rounds.container;
    const struct psd_rounds_def *d = c->rounds.def;
    if (d == NULL || in->rounds != NULL) {
        return (d == NULL) == (in->rounds != NULL);
    }
    const struct psd_variable *step = d->step;
    if (d->options.mode != PSD_SYNC_ROUNDS && d->options.mode != PSD_SYNC_STALENESS) {
        return false;
    }
    for (uint32_t i = 0; i < d->count; i++) {
        const struct psd_variable *v = psd_variable_by_creation(&t->store, d->parts[i].creation);
        bool pushed = v != NULL && v->in_progress > 0 && d->options.mode == PSD_SYNC_ROUNDS;
        const bool by_rows = d->options.mode == PSD_SYNC_ROUNDS && d->parts[i].by_rows != 0;
        if (v == NULL || d->parts[i].by_rows > 1 || v->container != in || v == step || pushed ||
            psd_part_check(v, NULL) != PS_OK ||
            (by_rows && (psd_part_rows_check(v, NULL) != PS_OK || d->options.rows_per_step == 0)) ||
            (i > 0 && d->parts[i - 1].creation >= d->parts[i].creation)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < d->owner_count; i++) {
        if (memchr(d->owners[i].job, 0, sizeof(d->owners[i].job)) == NULL) {
            return false;
        }
    }
    return step == NULL || (step->container == in && psd_step_check(step, NULL) == PS_OK);
}

static bool join_fits(const struct psd_change *c)
{
    const struct psd_rounds *g = c->member.container->rounds;
    return g != NULL && psd_member_find(g, c->member.id) == NULL &&
           (g->member_count < PS_MEMBERS_MAX || psd_member_at(g, c->member.job, c->member.task) != NULL);
}

static bool flip_fits(const struct psd_change *c)
{
    const struct psd_rounds *g = c->flip.container->rounds;
    uint32_t found = 0;
    struct psi_list *it = NULL;
    if (g->options.mode != PSD_SYNC_ROUNDS || c->flip.round != g->committed + 1) {
        return false;
    }
    PSI_LIST_FOREACH(it, &g->members) {
        const struct psd_member *m = PSI_CONTAINER_OF(it, struct psd_member, link);
        bool taken = found < c->flip.count && m->id == c->flip.members[found];
        found += taken;
        if (taken && !psd_member_is_complete(g, m)) {
            return false;
        }
    }
    return found > 0 && found == c->flip.count;
}

static bool rate_fits(const struct psd_change *c)
{
    const struct psd_variable *v = c->rate.variable;
    ps_optimizer with = v->optimizer;
    with.learning_rate = c->rate.rate;
    return v->queue == NULL && v->optimizer.kind != PS_OPT_NONE &&
           (c->rate.rate == 0 || psi_optimizer_check(&with, v->dtype, NULL) == PS_OK);
}

bool psd_change_fits(const struct psd_task *t, const struct psd_change *c)
{
    switch (c->kind) {
    case PSD_CHANGE_CONTAINER:
        return psd_container_find(&t->store, c->container.name) == NULL;
    case PSD_CHANGE_CONTAINER_RESET: {
        const struct psd_container *there = psd_container_find(&t->store, c->container.name);
        return there != NULL && all_idle(there);
    }
    case PSD_CHANGE_CREATE:
        return create_fits(t, c);
    case PSD_CHANGE_DROP:
        return idle(c->variable) && !psd_variable_in_group(c->variable);
    case PSD_CHANGE_INIT:
        return init_fits(c);
    case PSD_CHANGE_SEAL:
        return c->seal.variable->initialised;
    case PSD_CHANGE_CHIEF:
        return c->chief.forgotten == NULL || psd_chief_find(&t->chiefs, c->chief.container) == NULL;
    case PSD_CHANGE_SESSION:
        return psi_map_find(&t->records, c->session.session, sizeof(c->session.reserved->session)) == NULL;
    case PSD_CHANGE_SESSION_END:
        return c->record->progress_count == 0 && psi_list_empty(&c->record->attempts) && c->record->conn == NULL &&
               psi_u64_map_count(&c->record->waits) == 0;
    case PSD_CHANGE_BEGIN:
        return begin_fits(c);
    case PSD_CHANGE_SEGMENT:
        return segment_fits(c);
    case PSD_CHANGE_MOVE:
        return slice_fits(c);
    case PSD_CHANGE_REFUSE:
    case PSD_CHANGE_ABANDON: {
        const struct psd_number *n = psd_record_find(c->end.record, c->end.number);
        return n != NULL ? n->progress != NULL : fresh(c->end.record, c->end.number);
    }
    case PSD_CHANGE_NAME:
        /* of what a task has listed only the kind of the optimizer is known */
        return task_known(t, c->name.job, c->name.task) &&
               (c->name.definition->queue ? psd_definition_check(c->name.definition, c->name.name, NULL) == PS_OK
                                          : psi_variable_check(c->name.definition->dtype, &c->name.definition->shape,
                                                               c->name.definition->atomic, NULL) == PS_OK);
    case PSD_CHANGE_NAME_FORGET:
        return psd_directory_find(&t->names, c->name.container, c->name.name) != NULL;
    case PSD_CHANGE_RESET:
        return true;
    case PSD_CHANGE_RESET_TASK:
        return task_known(t, c->reset.job, c->reset.task) && psd_reset_record(&t->resets, c->reset.container) != NULL;
    case PSD_CHANGE_RESET_END:
        return psd_reset_record(&t->resets, c->reset.container) != NULL;
    case PSD_CHANGE_ENQUEUE:
    case PSD_CHANGE_DEQUEUE:
        return move_fits(c);
    case PSD_CHANGE_ATTEMPT_DONE:
    case PSD_CHANGE_ATTEMPT_END:
        return end_of_attempt_fits(c);
    case PSD_CHANGE_QUEUE_CLOSE: {
        const struct psd_queue *q = c->variable->queue;
        return q != NULL && !q->closed && q->spec.kind != PSI_QUEUE_WORK && !psi_queue_accumulates(q->spec.kind);
    }
    case PSD_CHANGE_WORK_FILLED: {
        const struct psd_queue *q = c->filled.variable->queue;
        return q != NULL && !q->filled && q->spec.kind == PSI_QUEUE_WORK;
    }
    case PSD_CHANGE_WORK_END:
        return work_end_fits(c);
    case PSD_CHANGE_SET_STEP:
        return set_step_fits(c);
    case PSD_CHANGE_ROUNDS:
        return rounds_fit(t, c);
    case PSD_CHANGE_ROUND_JOIN:
        return join_fits(c);
    case PSD_CHANGE_ROUND_LEAVE: {
        const struct psd_rounds *g = c->member.container->rounds;
        return g != NULL && psd_member_find(g, c->member.id) != NULL;
    }
    case PSD_CHANGE_ROUND_FLIP:
        return flip_fits(c);
    case PSD_CHANGE_RATE:
        return rate_fits(c);
    case PSD_CHANGE_WRITE:
        return c->write.variable->queue == NULL && c->write.variable->dtype != PS_STRING;
    }
    return false;
}

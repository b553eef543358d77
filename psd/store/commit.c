/* SPDX-License-Identifier: Apache-2.0 */
/* psd_commit() carries out a change by its kind, with the memory that psd_change_reserve() got. Kinds that need more than a line
 * have functions here, in the order of enum psd_change_kind. These functions call functions of other files (mutate.h).
 *
 * Failure: none. A change that does not fit the state is a bug of its handler, and an assertion ends the program. */
#include "commit.h"

#include "mutate.h"
#include "shown.h"
#include "psd/state.h"

#include "common/mem.h"
#include "common/optimizer.h"

#include <stdio.h>
#include <string.h>

void psd_task_consumer(struct psd_task *t, psd_change_cb consume, void *ctx)
{
    t->consume = consume;
    t->consume_ctx = ctx;
}

static uint32_t peer_index(const struct psd_task *t, const char *job, uint32_t task)
{
    uint32_t index = psi_cluster_task_number(&t->cluster, job, task);
    PSI_ASSERT(index < t->peer_count);
    return index;
}

static void init(struct psd_task *t, const struct psd_change *c)
{
    struct psd_variable *v = psd_variable_own(c->init.variable);
    struct psd_number *n = psd_record_put(c->init.record, c->init.number);
    if (c->init.runs || c->init.chief_number != 0) {
        v->optimizer = c->init.making->optimizer;
        v->chief_number = c->init.chief_number > v->chief_number ? c->init.chief_number : v->chief_number;
    }
    if (c->init.runs) {
        psd_variable_initialise(&t->store, v, c->init.making);
    }
    /* the initializer's value replaces an older chief's value, which may have come by ASSIGN (`given`) */
    if (c->init.runs && psd_variable_is_provisional(v)) {
        v->given = false;
        memset(v->giver, 0, sizeof(v->giver));
    }
    if (!v->sealed && (c->init.runs || (v->chief_value != 0 && c->init.chief_number > v->chief_value))) {
        v->chief_value = c->init.chief_number;
    }
    n->state = PS_NUMBER_APPLIED;
    n->position = t->position;
    n->version = v->version;
    n->incarnation = v->container->incarnation;
}

static void chief(struct psd_task *t, const struct psd_change *c)
{
    t->chief_number = c->chief.number > t->chief_number ? c->chief.number : t->chief_number;
    if (c->chief.container == NULL) {
        return;
    }
    struct psd_chief *chief = c->chief.reserved;
    if (c->chief.forgotten != NULL) {
        const char *forgotten = c->chief.forgotten->container;
        psi_free(psi_map_remove(&t->chiefs, forgotten, strlen(forgotten)));
        psd_store_uncount(&t->store, PSD_MEMORY_CONTAINERS, PSD_CHIEF_BYTES);
    }
    if (chief != NULL) {
        memcpy(chief->container, c->chief.container, strlen(c->chief.container) + 1);
        ps_status st = psi_map_put(&t->chiefs, chief->container, strlen(chief->container), chief, NULL, NULL);
        PSI_ASSERT(st == PS_OK); /* cannot fail: reserved by psd_change_reserve() */
        psd_store_count(&t->store, PSD_MEMORY_CONTAINERS, PSD_CHIEF_BYTES);
    } else {
        chief = psi_map_find(&t->chiefs, c->chief.container, strlen(c->chief.container));
    }
    if (c->chief.record != NULL) {
        memcpy(chief->session, c->chief.record->session, sizeof(chief->session));
    } else if (c->chief.number > chief->number) {
        /* a higher number was given out, so the session that was chief until now is no longer chief */
        memset(chief->session, 0, sizeof(chief->session));
    }
    chief->saved = chief->saved && c->chief.number == chief->number;
    chief->number = c->chief.number;
    PSI_IGNORE(snprintf(chief->text, sizeof(chief->text), "%s", c->chief.text)); /* a longer name is cut */
}

static void seal(const struct psd_change *c)
{
    struct psd_variable *v = psd_variable_own(c->seal.variable);
    if (!v->sealed) {
        v->sealed = true;
        v->chief_value = c->seal.chief_number;
    }
}

static void session(struct psd_task *t, const struct psd_change *c)
{
    struct psd_record *r = c->session.reserved;
    memcpy(r->session, c->session.session, sizeof(r->session));
    r->name = c->session.name;
    if (c->session.who != NULL) {
        memcpy(r->who, c->session.who, strlen(c->session.who) + 1);
    }
    ps_status st = psi_map_put(&t->records, r->session, sizeof(r->session), r, NULL, NULL);
    PSI_ASSERT(st == PS_OK); /* reserved by psd_change_reserve() */
    psd_store_count(&t->store, PSD_MEMORY_SESSIONS, PSD_RECORD_BYTES);
}

static void session_end(struct psd_task *t, struct psd_record *r)
{
    PSI_IGNORE(psi_map_remove(&t->records, r->session, sizeof(r->session))); /* returns r */
    psd_shown_forget_record(&t->store, r);
    psd_record_free(r);
    psd_store_uncount(&t->store, PSD_MEMORY_SESSIONS, PSD_RECORD_BYTES);
}

static void begin(struct psd_task *t, const struct psd_change *c)
{
    struct psd_record *r = c->begin.record;
    struct psd_progress *p = c->begin.reserved;
    struct psd_number *n = psd_record_put(r, p->number);
    n->state = PS_NUMBER_IN_PROGRESS;
    n->progress = p;
    n->incarnation = p->variable->container->incarnation;
    psi_list_push_back(&r->progress, &p->link);
    r->progress_count++;
    t->progress_count++;
    if (psd_number_may_show(n)) {
        psd_variable_own(p->variable)->in_progress++;
    } else if (psd_push_contributes(p->kind)) {
        psd_area_begin(p);
    }
}

/* End the mutation in progress of sequence number n, and free its memory; the caller sets n->state. */
static void progress_end(struct psd_task *t, struct psd_record *r, struct psd_number *n)
{
    struct psd_progress *p = n->progress;
    if (psd_number_may_show(n)) {
        psd_variable_own(p->variable)->in_progress--;
    }
    n->progress = NULL;
    psi_list_remove(&p->link);
    r->progress_count--;
    t->progress_count--;
    psd_progress_free(t, p);
}

static void finish(struct psd_task *t, struct psd_record *r, struct psd_number *n)
{
    psd_apply_finish(&t->store, r, n);
    n->position = t->position;
    n->state = PS_NUMBER_APPLIED;
    progress_end(t, r, n);
}

static void segment(struct psd_task *t, const struct psd_change *c)
{
    struct psd_number *n = psd_number_own(c->segment.number);
    struct psd_progress *p = n->progress;
    psd_apply_segment(n, c->segment.bytes, c->segment.count, c->segment.last);
    if (c->segment.scalars != NULL) {
        p->scalars = *c->segment.scalars;
    }
    if (psd_number_may_show(n) && !psd_progress_streams(p)) {
        /* the last byte has come of a push that changes the value only from now on: it is counted here, not in begin() */
        psd_variable_own(p->variable)->in_progress++;
    }
    if (c->segment.last) {
        finish(t, c->segment.record, n);
    }
}

static void move(struct psd_task *t, const struct psd_change *c)
{
    struct psd_number *n = psd_number_own(c->move.number);
    psd_apply_move(n->progress, c->move.count);
    if (psd_progress_left(n->progress) == 0) {
        finish(t, c->move.record, n);
    }
}

static void refuse(struct psd_task *t, const struct psd_change *c)
{
    struct psd_number *n = psd_record_take(c->end.record, c->end.number);
    if (psd_apply_torn(n)) {
        n->version = n->progress->variable->version;
    }
    if (n->progress != NULL) {
        progress_end(t, c->end.record, n);
    }
    psd_number_refuse(c->end.record, n, c->end.status, c->end.reason, c->end.applied, c->end.text);
}

static void abandon(struct psd_task *t, const struct psd_change *c)
{
    struct psd_number *n = psd_record_take(c->end.record, c->end.number);
    if (n->progress != NULL) {
        PSI_IGNORE(psd_apply_torn(n)); /* the result (v has a new version) is not needed: no answer has it */
        progress_end(t, c->end.record, n);
    }
    n->state = PS_NUMBER_ABANDONED;
    n->applied = (uint8_t)c->end.applied;
}

static struct psd_attempt *attempt_begun(const struct psd_change *c)
{
    struct psd_attempt *a = psd_attempt_own(c->attempt.reserved);
    psd_attempt_begin(a, c->attempt.record, c->attempt.id, c->attempt.variable);
    a->done = c->attempt.last;
    return a;
}

static struct psd_attempt *attempt_of(const struct psd_change *c)
{
    return psd_attempt_own(c->attempt.reserved != NULL ? c->attempt.reserved
                                                       : psd_attempt_find(c->attempt.record, c->attempt.id));
}

static void work_end(struct psd_task *t, const struct psd_change *c)
{
    const struct psd_variable *v = c->work_end.variable;
    struct psd_number *n = psd_record_put(c->work_end.record, c->work_end.number);
    if (!c->work_end.repeated) {
        const struct psd_attempt *a = psd_attempt_of_item(c->work_end.record, v->queue, c->work_end.serial);
        psd_queue_item_end(&t->store, psd_attempt_own(a), c->work_end.serial, c->work_end.give_back);
    }
    n->state = PS_NUMBER_APPLIED;
    n->position = t->position;
    n->incarnation = v->container->incarnation;
    n->result_bytes = sizeof(uint64_t);
    n->result[0] = c->work_end.repeated; /* little-endian */
}

static void set_step(struct psd_task *t, const struct psd_change *c)
{
    struct psd_queue *q = c->set_step.variable->queue;
    struct psd_number *n = psd_record_put(c->set_step.record, c->set_step.number);
    n->state = PS_NUMBER_APPLIED;
    n->position = t->position;
    n->incarnation = c->set_step.variable->container->incarnation;
    n->result_bytes = sizeof(q->step);
    memcpy(n->result, &q->step, sizeof(q->step));
    q->step = c->set_step.step;
}

static void rounds(struct psd_task *t, const struct psd_change *c)
{
    struct psd_container *in = psd_container_own(c->rounds.container);
    if (c->rounds.def == NULL) {
        psd_rounds_end(&t->store, in);
    } else {
        psd_rounds_set(in, c->rounds.reserved);
    }
}

static void round_join(const struct psd_change *c)
{
    struct psd_rounds *g = c->member.container->rounds;
    struct psd_member *m = c->member.reserved;
    g->awaited = c->member.awaited;
    if (m == NULL) {
        m = psd_member_own(psd_member_at(g, c->member.job, c->member.task));
        psd_member_succeed(g, m, c->member.id, c->member.session);
        return;
    }
    m->id = c->member.id;
    memcpy(m->session, c->member.session, sizeof(m->session));
    memcpy(m->job, c->member.job, strlen(c->member.job) + 1);
    m->task = c->member.task;
    psd_member_add(g, m);
}

static void round_leave(struct psd_task *t, const struct psd_change *c)
{
    struct psd_rounds *g = c->member.container->rounds;
    g->awaited = c->member.awaited;
    g->over = c->member.over;
    psd_member_leave(&t->store, g, psd_member_own(psd_member_find(g, c->member.id)));
}

static void reset(struct psd_task *t, const struct psd_change *c)
{
    struct psd_reset *r = c->reset.reserved;
    if (r == NULL) {
        r = psd_reset_record(&t->resets, c->reset.container);
    } else {
        memcpy(r->container, c->reset.container, strlen(c->reset.container) + 1);
        psd_resets_add(&t->resets, r);
    }
    r->pending = true;
}

/* Free r, the reset of a container, if it is not pending and each task has carried it out. */
static void reset_settle(struct psd_task *t, struct psd_reset *r)
{
    bool owed = r->pending;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        owed = owed || r->owed[i];
    }
    if (!owed) {
        psd_reset_free(r);
    }
}

static void reset_task(struct psd_task *t, const struct psd_change *c)
{
    struct psd_reset *r = psd_reset_record(&t->resets, c->reset.container);
    uint32_t i = peer_index(t, c->reset.job, c->reset.task);
    r->outstanding[i] = c->reset.outstanding;
    r->owed[i] = c->reset.owed;
    reset_settle(t, r);
}

static void reset_end(struct psd_task *t, const struct psd_change *c)
{
    struct psd_reset *r = psd_reset_record(&t->resets, c->reset.container);
    psd_directory_forget_container(&t->names, r->container);
    r->pending = false;
    reset_settle(t, r);
}

/* True if the segment changes the model. A push that is gathered first changes the model only with its last segment. A
 * contribution to a round does not: the change FLIP of the round does. */
static bool segment_changes_model(const struct psd_change *c)
{
    const struct psd_progress *p = c->segment.number->progress;
    return !psd_push_contributes(p->kind) && (c->segment.last || (p->staging == NULL && c->segment.count > 0));
}

/* True if refusing or abandoning the number changes the model: a partly applied push then gives its variable a new version. */
static bool end_changes_model(const struct psd_change *c)
{
    const struct psd_number *n = psd_record_find(c->end.record, c->end.number);
    return n != NULL && psd_number_is_torn(n);
}

/* True if the end of a queue request's attempt changes what a checkpoint has of the queue: elements are freed or go back to the
 * queue. Items of a WORK queue are not freed. */
static bool attempt_end_changes_model(const struct psd_change *c)
{
    const struct psd_attempt *a =
        c->attempt.reserved != NULL ? c->attempt.reserved : psd_attempt_find(c->attempt.record, c->attempt.id);
    return !a->variable->gone && a->element_count > 0 &&
           (c->attempt.give_back || a->variable->queue->spec.kind != PSI_QUEUE_WORK);
}

/* True if c changes a container that belongs to one client session: no checkpoint contains such containers. */
static bool is_of_session(const struct psd_task *t, const struct psd_change *c)
{
    const struct psd_number *n = NULL;
    const struct psd_container *in = NULL;
    switch (c->kind) {
    case PSD_CHANGE_CONTAINER_RESET:
        in = psd_container_find(&t->store, c->container.name);
        return in != NULL && in->of_session;
    case PSD_CHANGE_CREATE:
        return c->create.container->of_session;
    case PSD_CHANGE_DROP:
        return psd_variable_of_session(c->variable);
    case PSD_CHANGE_INIT:
        return psd_variable_of_session(c->init.variable);
    case PSD_CHANGE_SEGMENT:
        return psd_variable_of_session(c->segment.number->progress->variable);
    case PSD_CHANGE_MOVE:
        return psd_variable_of_session(c->move.number->progress->variable);
    case PSD_CHANGE_WRITE:
        return psd_variable_of_session(c->write.variable);
    case PSD_CHANGE_REFUSE:
    case PSD_CHANGE_ABANDON:
        n = psd_record_find(c->end.record, c->end.number);
        return n != NULL && n->progress != NULL && psd_variable_of_session(n->progress->variable);
    default:
        return false;
    }
}

/* True if a checkpoint after c has another model than one before c: c changes values, slots, powers, seals, variables, queues,
 * accumulators or rates. False for changes of sessions' records, chiefs' numbers and groups. */
static bool changes_model(const struct psd_task *t, const struct psd_change *c)
{
    if (is_of_session(t, c)) {
        return false;
    }
    const struct psd_container *reset = NULL;
    switch (c->kind) {
    case PSD_CHANGE_CONTAINER_RESET:
        reset = psd_container_find(&t->store, c->container.name);
        return reset != NULL && psi_map_count(&reset->variables) > 0;
    case PSD_CHANGE_INIT:
        return c->init.runs ||
               (c->init.chief_number != 0 && !psi_optimizer_equal(&c->init.variable->optimizer, &c->init.making->optimizer));
    case PSD_CHANGE_SEAL:
        return !c->seal.variable->sealed;
    case PSD_CHANGE_SEGMENT:
        return segment_changes_model(c);
    case PSD_CHANGE_REFUSE:
    case PSD_CHANGE_ABANDON:
        return end_changes_model(c);
    case PSD_CHANGE_ATTEMPT_END:
        return attempt_end_changes_model(c);
    case PSD_CHANGE_WORK_END:
        return !c->work_end.repeated;
    case PSD_CHANGE_RATE:
        return c->rate.rate != c->rate.variable->rate;
    case PSD_CHANGE_SET_STEP:
        return c->set_step.step != c->set_step.variable->queue->step;
    case PSD_CHANGE_CREATE:
    case PSD_CHANGE_DROP:
    case PSD_CHANGE_ENQUEUE:
    case PSD_CHANGE_DEQUEUE:
    case PSD_CHANGE_QUEUE_CLOSE:
    case PSD_CHANGE_WORK_FILLED:
    case PSD_CHANGE_ROUND_FLIP:
    case PSD_CHANGE_MOVE:
    case PSD_CHANGE_WRITE:
        return true;
    default:
        return false;
    }
}

static void write_value(struct psd_task *t, const struct psd_change *c)
{
    struct psd_variable *v = psd_variable_own(c->write.variable);
    struct psd_kept *nobody = NULL; /* no checkpoint being written needs the new value, which did not exist when it began */
    psd_apply_value(&t->store, v, c->write.value, v->bytes, &nobody, c->write.giver, 0);
}

void psd_commit(struct psd_task *t, const struct psd_change *c)
{
    t->position++;
    t->store.changes += changes_model(t, c);
    if (t->consume != NULL) {
        t->consume(t->consume_ctx, t->position, c);
    }
    if (t->store.cut_before != NULL) {
        t->store.cut_before(t, c);
    }
    switch (c->kind) {
    case PSD_CHANGE_CONTAINER:
        psd_container_add(&t->store, c->container.reserved, c->container.incarnation);
        break;
    case PSD_CHANGE_CONTAINER_RESET:
        psd_container_reset(&t->store, psd_container_own(psd_container_find(&t->store, c->container.name)),
                            c->container.incarnation);
        break;
    case PSD_CHANGE_CREATE:
        psd_variable_add(&t->store, psd_container_own(c->create.container), c->create.reserved, c->create.creation);
        break;
    case PSD_CHANGE_DROP:
        psd_variable_drop(&t->store, psd_variable_own(c->variable));
        break;
    case PSD_CHANGE_INIT:
        init(t, c);
        break;
    case PSD_CHANGE_SEAL:
        seal(c);
        break;
    case PSD_CHANGE_CHIEF:
        chief(t, c);
        break;
    case PSD_CHANGE_SESSION:
        session(t, c);
        break;
    case PSD_CHANGE_SESSION_END:
        session_end(t, c->record);
        break;
    case PSD_CHANGE_BEGIN:
        begin(t, c);
        break;
    case PSD_CHANGE_SEGMENT:
        segment(t, c);
        break;
    case PSD_CHANGE_MOVE:
        move(t, c);
        break;
    case PSD_CHANGE_REFUSE:
        refuse(t, c);
        break;
    case PSD_CHANGE_ABANDON:
        abandon(t, c);
        break;
    case PSD_CHANGE_NAME:
        psd_directory_record(&t->names, c->name.container, c->name.name, c->name.definition,
                             peer_index(t, c->name.job, c->name.task), c->name.reserved);
        break;
    case PSD_CHANGE_NAME_FORGET:
        psd_directory_forget(&t->names, c->name.container, c->name.name);
        break;
    case PSD_CHANGE_RESET:
        reset(t, c);
        break;
    case PSD_CHANGE_RESET_TASK:
        reset_task(t, c);
        break;
    case PSD_CHANGE_RESET_END:
        reset_end(t, c);
        break;
    case PSD_CHANGE_ENQUEUE:
        psd_queue_put(&t->store, attempt_begun(c), c->attempt.element, c->attempt.sum);
        break;
    case PSD_CHANGE_DEQUEUE:
        psd_queue_take(attempt_begun(c), c->attempt.index);
        break;
    case PSD_CHANGE_ATTEMPT_DONE:
        attempt_of(c)->done = true;
        break;
    case PSD_CHANGE_ATTEMPT_END:
        psd_attempt_end(&t->store, attempt_of(c), c->attempt.give_back);
        break;
    case PSD_CHANGE_QUEUE_CLOSE:
        c->variable->queue->closed = true;
        break;
    case PSD_CHANGE_WORK_FILLED:
        psd_queue_fill(c->filled.variable->queue, c->filled.hash);
        break;
    case PSD_CHANGE_WORK_END:
        work_end(t, c);
        break;
    case PSD_CHANGE_SET_STEP:
        set_step(t, c);
        break;
    case PSD_CHANGE_ROUNDS:
        rounds(t, c);
        break;
    case PSD_CHANGE_ROUND_JOIN:
        round_join(c);
        break;
    case PSD_CHANGE_ROUND_LEAVE:
        round_leave(t, c);
        break;
    case PSD_CHANGE_ROUND_FLIP:
        psd_rounds_flip(c->flip.container->rounds, c->flip.members, c->flip.count, c->flip.step, c->flip.factor, c->flip.scalars);
        break;
    case PSD_CHANGE_RATE:
        psd_variable_own(c->rate.variable)->rate = c->rate.rate;
        break;
    case PSD_CHANGE_WRITE:
        write_value(t, c);
        break;
    }
}

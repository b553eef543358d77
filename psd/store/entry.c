/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the entries of a state file: an object's members in the order of state_rows.h, then its lists. Failure: no memory. */
#include "entry.h"

#include "psd/state.h"

#include <string.h>

_Static_assert(PSI_STATE_WHO_MAX == sizeof(((struct psd_record *)NULL)->who) - 1, "its identity");
_Static_assert(PSI_STATE_CHIEF_TEXT_MAX == sizeof(((struct psd_chief *)NULL)->text) - 1, "its text");

void psd_entry_put_task(struct psi_code *k, const struct psd_task *t)
{
    struct psi_state_task x = {.position = t->position,
                               .chief_number = t->chief_number,
                               .next_order = t->store.next_order,
                               .dropped = t->store.dropped,
                               .forgotten = t->names.forgotten};
    psi_state_task(k, &x);
}

void psd_entry_put_container(struct psi_code *k, const struct psd_container *c)
{
    struct psi_state_container x = {.name = c->name, .incarnation = c->incarnation};
    psi_state_container(k, &x);
}

/* The members of an entry for e. done: e was a done item of a WORK queue at the cut's instant, so its deliveries are 0. */
static struct psi_state_element element(const struct psd_element *e, bool done)
{
    return (struct psi_state_element){
        .serial = e->serial, .bytes = e->bytes, .deliveries = done ? 0 : e->deliveries, .data = e->data};
}

static struct psi_state_queue queue(const struct psd_queue *q)
{
    struct psi_state_queue x = {.size = q->size,
                                .done = q->done,
                                .taken = q->taken,
                                .next_serial = q->next_serial,
                                .draws = q->draws,
                                .fill_hash = q->fill_hash,
                                .step = q->step,
                                .epoch = q->epoch,
                                .closed = q->closed,
                                .filled = q->filled,
                                .has_sum = q->sum != NULL};
    if (q->sum != NULL) {
        x.sum = element(q->sum, false);
    }
    return x;
}

void psd_entry_put_variable(struct psi_code *k, const struct psd_variable *v, uint32_t file)
{
    const struct psd_definition d = psd_variable_definition(v);
    struct psi_state_variable x = {.container = v->container->name,
                                   .name = v->name,
                                   .dtype = d.dtype,
                                   .shape = d.shape,
                                   .optimizer = d.optimizer,
                                   .atomic = d.atomic,
                                   .queue = d.queue,
                                   .part = d.part,
                                   .creation = v->creation,
                                   .order = v->order,
                                   .file = file,
                                   .bytes = v->bytes,
                                   .version = v->version,
                                   .pushes = v->pushes,
                                   .initialised = v->initialised,
                                   .sealed = v->sealed,
                                   .restored = v->restored,
                                   .given = v->given,
                                   .rate = psd_variable_rate_in_cut(v),
                                   .init = v->init,
                                   .seed = v->seed,
                                   .chief_number = v->chief_number,
                                   .chief_value = v->chief_value,
                                   .pin = v->pin,
                                   .step = v->step};
    memcpy(x.giver, v->giver, sizeof(x.giver));
    memcpy(x.powers, v->optim_state.powers, sizeof(x.powers));
    if (v->queue != NULL) {
        x.spec = v->queue->spec;
        x.state = queue(v->queue);
    }
    psi_state_variable(k, &x);
}

void psd_entry_put_element(struct psi_code *k, const struct psd_variable *v, const struct psd_element *e, uint64_t index,
                           bool done)
{
    struct psi_state_queued x = {.creation = v->creation, .index = index, .done = done, .element = element(e, done)};
    psi_state_queued(k, &x);
}

static void outcome(struct psi_code *k, const struct psd_number *n)
{
    /* torn: n is a push to a session's container, which no checkpoint has, so after a load the push counts as abandoned */
    bool torn = n->progress != NULL && psd_variable_of_session(n->progress->variable);
    struct psi_state_outcome x = {.number = n->number,
                                  .offset = n->offset,
                                  .position = n->position,
                                  .version = n->version,
                                  .incarnation = n->incarnation,
                                  .state = torn ? PS_NUMBER_ABANDONED : n->state,
                                  .applied = n->applied,
                                  .status = n->status,
                                  .reason = n->reason,
                                  .result_bytes = n->result_bytes,
                                  .result = n->result,
                                  .text = n->text};
    psi_state_outcome(k, &x);
}

#define NUMBER(number) .number = s->number,
static void push(struct psi_code *k, const struct psd_progress *p)
{
    const struct psd_optim_scalars *s = &p->scalars;
    struct psi_state_push x = {.creation = p->variable->creation,
                               .number = p->number,
                               .scalars = {PSD_OPTIM_NUMBERS(NUMBER).form = s->form},
                               .total = p->total,
                               .scale = p->scale,
                               .kind = p->kind,
                               .wire = p->wire,
                               .init_only = p->init_only,
                               .chief_number = p->chief_number,
                               .member = p->member,
                               .round = p->round,
                               .highest = p->highest,
                               .last_index = p->last_index,
                               .step = p->step};
    psi_state_push(k, &x);
}

static void pushes(struct psi_code *k, const struct psd_record *r)
{
    struct psi_state_pushes x = {.count = 0};
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &r->progress) {
        x.count += !psd_variable_of_session(PSI_CONTAINER_OF(it, struct psd_progress, link)->variable);
    }
    psi_state_pushes(k, &x);
    PSI_LIST_FOREACH(it, &r->progress) {
        const struct psd_progress *p = PSI_CONTAINER_OF(it, struct psd_progress, link);
        if (!psd_variable_of_session(p->variable)) {
            push(k, p);
        }
    }
}

static void attempt(struct psi_code *k, const struct psd_attempt *a)
{
    struct psi_state_attempt x = {.creation = a->variable->creation,
                                  .id = a->id,
                                  .inserted = a->inserted,
                                  .done = a->done,
                                  .held = a->held,
                                  .count = a->element_count};
    struct psi_list *it = NULL;
    psi_state_attempt(k, &x);
    PSI_LIST_FOREACH(it, &a->elements) {
        struct psi_state_element e = element(PSI_CONTAINER_OF(it, struct psd_element, link), false);
        psi_state_element(k, &e);
    }
}

static void attempts(struct psi_code *k, const struct psd_record *r)
{
    struct psi_state_attempts x = {.count = 0};
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &r->attempts) {
        x.count += !PSI_CONTAINER_OF(it, struct psd_attempt, link)->variable->gone;
    }
    psi_state_attempts(k, &x);
    PSI_LIST_FOREACH(it, &r->attempts) {
        const struct psd_attempt *a = PSI_CONTAINER_OF(it, struct psd_attempt, link);
        if (!a->variable->gone) {
            attempt(k, a);
        }
    }
}

void psd_entry_put_record(struct psi_code *k, const struct psd_record *r)
{
    struct psi_state_record x = {.name = r->name, .who = r->who};
    memcpy(x.session, r->session, sizeof(x.session));
    for (uint32_t i = 0; i < PS_WINDOW; i++) {
        x.count += r->numbers[i].number != 0;
    }
    psi_state_record(k, &x);
    for (uint32_t i = 0; i < PS_WINDOW; i++) {
        if (r->numbers[i].number != 0) {
            outcome(k, &r->numbers[i]);
        }
    }
    pushes(k, r);
    attempts(k, r);
}

void psd_entry_put_chief(struct psi_code *k, const struct psd_chief *c)
{
    struct psi_state_chief x = {.container = c->container, .number = c->number, .text = c->text};
    memcpy(x.session, c->session, sizeof(x.session));
    psi_state_chief(k, &x);
}

void psd_entry_put_name(struct psi_code *k, const struct psd_task *t, const struct psd_name *n)
{
    const struct psd_definition d = psd_name_definition(n);
    struct psi_state_name x = {.container = n->container,
                               .name = n->name,
                               .dtype = d.dtype,
                               .shape = d.shape,
                               .optimizer = d.optimizer,
                               .atomic = d.atomic,
                               .queue = d.queue,
                               .part = d.part,
                               .job = t->peers[n->owner].job,
                               .task = t->peers[n->owner].task};
    psi_state_name(k, &x);
}

void psd_entry_put_reset(struct psi_code *k, const struct psd_task *t, const struct psd_reset *r)
{
    struct psi_state_reset x = {.container = r->container, .pending = r->pending};
    for (uint32_t i = 0; i < t->peer_count; i++) {
        x.count += r->outstanding[i] || r->owed[i];
    }
    psi_state_reset(k, &x);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        struct psi_state_reset_task of = {
            .job = t->peers[i].job, .task = t->peers[i].task, .outstanding = r->outstanding[i], .owed = r->owed[i]};
        if (of.outstanding || of.owed) {
            psi_state_reset_task(k, &of);
        }
    }
}

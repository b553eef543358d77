/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A variable with LAMB or LARS: a push moves its value in slices, behind its last byte (psd/rpc/moves.c). The ledger of versions
 * (oracle.c) says that each push is applied once. This file looks at each change of a task:
 *   - from the last segment of a push to its last slice nothing else changes the variable, and no other push does so;
 *   - a push all of which has come is applied: it is neither refused nor abandoned;
 *   - the value behind the slices is what the optimizer makes at once, bit for bit: of LAMB by one pass over the value and the
 *     slots behind the last segment, of LARS by both passes over the value, the slots and the gradient.
 */
#include "sim.h"

#include "psd/state.h"

#include "common/optimizer.h"

#include <stdlib.h>
#include <string.h>

const ps_optimizer *sim_moved_optimizer(const struct sim *s)
{
    static ps_optimizer made;
    const ps_optimizer given = {.struct_bytes = sizeof(given), .learning_rate = 0.125};
    made = psi_optimizer_standard(s->seed % 2 == 0 ? PS_OPT_LAMB : PS_OPT_LARS, &given);
    made.weight_decay = 0.25;
    return &made;
}

bool sim_moved_draw(const struct sim *s)
{
    return s->k.profile != SIM_OWN && s->boundary_kind == PSI_REQ_NONE && s->seed % 3 == 1 && s->var_count < SIM_VARS_MAX;
}

static void forget(struct sim_moved *m)
{
    free(m->value);
    *m = (struct sim_moved){.value = NULL};
}

void sim_moved_end(struct sim *s, const struct sim_task *t)
{
    forget(&s->moved[t - s->task]);
}

static void check_place(struct sim *s, const struct sim_moved *m, const struct psd_variable *v, uint64_t moved)
{
    const double *now = v->value;
    for (uint64_t i = 0; i < v->elements; i++) {
        const double *want = i < moved ? &m->want[i] : &m->value[i];
        if (memcmp(&now[i], want, sizeof(*want)) != 0) {
            sim_fail(s, "MOVED: element %llu of '%s' is %.17g, should be %.17g: %llu of %llu elements are moved",
                     (unsigned long long)i, v->name, now[i], *want, (unsigned long long)moved, (unsigned long long)v->elements);
        }
    }
}

/* Make of m->want what both passes over a staged gradient make at once. */
static void want_of_both(struct sim_moved *m, const struct psd_progress *p)
{
    const struct psd_variable *v = p->variable;
    struct psd_optim_scalars scalars = p->scalars;
    struct psd_optim_norms norms = {0};
    double *slot = malloc(2 * v->bytes);
    if (slot == NULL) {
        abort();
    }
    double *steps = slot + v->elements;
    void *slots[PSD_OPTIM_SLOTS_MAX] = {slot};
    memcpy(slot, v->slots[0], v->bytes);
    psd_optim_measure(v->optimizer.kind, v->dtype, &scalars, m->want, slots, p->staging, steps, v->elements, &norms);
    psd_optim_scale(v->optimizer.kind, v->dtype, &norms, &scalars);
    psd_optim_apply(v->optimizer.kind, v->dtype, v->dtype, &scalars, m->want, slots, steps, v->elements);
    free(slot);
}

/* Note the value behind the last segment, and what is to come of it. */
static void note(struct sim *s, struct sim_moved *m, const struct psd_progress *p)
{
    const struct psd_variable *v = p->variable;
    struct psd_optim_scalars scalars = p->scalars;
    m->value = malloc(2 * v->bytes);
    if (m->value == NULL) {
        abort();
    }
    m->want = m->value + v->elements;
    memcpy(m->value, v->value, v->bytes);
    memcpy(m->want, v->value, v->bytes);
    if (p->staging != NULL) {
        want_of_both(m, p);
    } else {
        psd_optim_last_pass(v->optimizer.kind, v->dtype, &scalars);
        psd_optim_apply(v->optimizer.kind, v->dtype, v->dtype, &scalars, m->want, v->slots, v->slots[0], v->elements);
    }
    s->count_sliced++;
}

static void slice(struct sim *s, struct sim_moved *m, const struct psd_change *c)
{
    const struct psd_progress *p = c->move.number->progress;
    if (m->number != c->move.number) {
        sim_fail(s, "MOVED: a slice of '%s' for push %llu, all of which has not come last", p->variable->name,
                 (unsigned long long)c->move.number->number);
    }
    if (m->value == NULL) {
        note(s, m, p);
    }
    check_place(s, m, p->variable, psd_progress_moved(p));
    m->over = !psd_progress_measures(p) && psd_progress_left(p) == c->move.count;
}

/* The variable whose value or slots c changes, c being no slice; NULL: none. */
static const struct psd_variable *changed_by(const struct psd_change *c)
{
    switch (c->kind) {
    case PSD_CHANGE_SEGMENT:
        return psd_push_is_assign(c->segment.number->progress->kind) && !c->segment.last ? NULL
                                                                                         : c->segment.number->progress->variable;
    case PSD_CHANGE_INIT:
        return c->init.runs ? c->init.variable : NULL;
    case PSD_CHANGE_WRITE:
        return c->write.variable;
    default:
        return NULL;
    }
}

/* True if all of the gradient of a push has come with this segment, and slices follow. */
static bool comes(const struct psd_change *c)
{
    const struct psd_number *n = c->segment.number;
    return c->kind == PSD_CHANGE_SEGMENT && !c->segment.last && n->offset + c->segment.count == n->progress->total;
}

void sim_moved_change(struct sim *s, const struct sim_task *t, const struct psd_change *c)
{
    struct sim_moved *m = &s->moved[t - s->task];
    if (m->over) {
        const struct psd_variable *v = psd_variable_by_creation(&t->core->store, m->creation);
        if (v != NULL) {
            check_place(s, m, v, v->elements);
        }
        forget(m);
    }
    const bool ends = c->kind == PSD_CHANGE_REFUSE || c->kind == PSD_CHANGE_ABANDON;
    const struct psd_variable *v = changed_by(c);
    if (m->number != NULL && ends && psd_record_find(c->end.record, c->end.number) == m->number) {
        sim_fail(s, "MOVED: push %llu is not applied, and all of it has come", (unsigned long long)m->number->number);
    }
    if (m->number != NULL && v != NULL && v->creation == m->creation) {
        sim_fail(s, "MOVED: change %d of '%s' comes between two slices", (int)c->kind, v->name);
    }
    if (c->kind == PSD_CHANGE_MOVE) {
        slice(s, m, c);
    } else if (comes(c)) {
        m->number = c->segment.number;
        m->creation = v->creation;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a cut does before a change: it encodes or copies all that the change touches, as it was at the instant.
 * Happy path: kind by kind, what psd_commit() is about to write. Failure: as in cut.c.
 */
#include "cut_internal.h"

#include "mutate.h"
#include "rows.h"
#include "psd/state.h"

#include <string.h>

static void change_all(const struct psd_variable *v)
{
    for (uint32_t i = 0; i <= PSD_OPTIM_SLOTS_MAX; i++) {
        psd_kept_change(v->kept[i], 0, psd_variable_bytes_of(v, i));
    }
}

/* Encode v and, if v is a queue, what sessions hold of it. */
static void before_drop(struct psd_cut *cut, const struct psd_variable *v)
{
    struct psi_list *it = NULL;
    psd_cut_variable(cut, v);
    if (v->queue == NULL) {
        return;
    }
    PSI_LIST_FOREACH(it, &v->queue->attempts) {
        psd_cut_record(cut, PSI_CONTAINER_OF(it, struct psd_attempt, of_queue)->record);
    }
}

static void before_reset(struct psd_cut *cut, const char *of)
{
    const struct psd_container *c = psd_container_find(cut->store, of);
    uint64_t cursor = 0;
    void *value = NULL;
    psd_cut_container(cut, psd_container_own(c));
    while (psi_map_next(&c->variables, &cursor, NULL, NULL, &value)) {
        before_drop(cut, value);
    }
}

static void before_init(struct psd_cut *cut, const struct psd_change *c)
{
    const struct psd_variable *v = c->init.variable;
    psd_cut_record(cut, c->init.record);
    psd_cut_variable(cut, v);
    for (uint32_t i = 0; c->init.runs && i <= PSD_OPTIM_SLOTS_MAX; i++) {
        bool in_place = i == 0 ? c->init.making->value == v->value : !c->init.making->replaces;
        if (in_place) {
            psd_kept_change(v->kept[i], 0, psd_variable_bytes_of(v, i));
        }
    }
}

/* Elements [first, first + count) of the value, and what the slots have for them, are about to change. */
static void change_elements(const struct psd_variable *v, uint32_t slots, uint64_t first, uint64_t count)
{
    for (uint32_t i = 0; i <= slots; i++) {
        const struct psd_span span = psd_variable_span(v, i, first, count);
        psd_kept_change(v->kept[i], span.at, span.bytes);
    }
}

/* A segment of rows is about to change what it names. */
static void before_rows(const struct psd_change *c)
{
    const struct psd_progress *p = c->segment.number->progress;
    const struct psd_variable *v = p->variable;
    const uint64_t columns = psd_rows_columns(v);
    if (psd_rows_move_all(p)) {
        const uint64_t first = (p->last_index + 1) * columns; /* 0, if none has come */
        const uint64_t end = c->segment.last || c->segment.count == 0
                                 ? v->elements
                                 : (psi_rows_index(c->segment.bytes, c->segment.count - 1) + 1) * columns;
        change_elements(v, PSD_OPTIM_SLOTS_MAX, first, end - first);
        return;
    }
    for (uint64_t i = 0; i < c->segment.count; i++) {
        change_elements(v, p->kind == PSD_PUSH_ROWS ? PSD_OPTIM_SLOTS_MAX : 0, psi_rows_index(c->segment.bytes, i) * columns,
                        columns);
    }
}

static void before_segment(struct psd_cut *cut, const struct psd_change *c)
{
    const struct psd_progress *p = c->segment.number->progress;
    const struct psd_variable *v = p->variable;
    bool streams = psd_push_streams(p->kind, v);
    psd_cut_record(cut, c->segment.record);
    if (p->kind == PSD_CONTRIBUTE) {
        return;
    }
    if (c->segment.last || psd_progress_streams(p)) {
        psd_cut_variable(cut, v);
    }
    if (streams && p->staging == NULL && psd_push_is_rows(p->kind)) {
        before_rows(c);
    } else if (streams && p->staging == NULL) {
        change_elements(v, PSD_OPTIM_SLOTS_MAX, c->segment.number->offset, c->segment.count);
    } else if (streams ? c->segment.last : p->kind == PSD_ADD) {
        psd_cut_variable(cut, v);
        change_all(v);
        if (p->kept != NULL) { /* an optimizer with norms changes the staged gradient */
            psd_kept_change(p->kept, 0, p->kept->bytes);
        }
    }
}

static void before_end(struct psd_cut *cut, const struct psd_change *c)
{
    const struct psd_number *n = psd_record_find(c->end.record, c->end.number);
    psd_cut_record(cut, c->end.record);
    if (n != NULL && n->progress != NULL) {
        psd_cut_variable(cut, n->progress->variable);
    }
}

static void before_chief(struct psd_cut *cut, const struct psd_change *c)
{
    struct psi_map *chiefs = &cut->task->chiefs;
    if (c->chief.container == NULL) {
        return;
    }
    struct psd_chief *known = psi_map_find(chiefs, c->chief.container, strlen(c->chief.container));
    if (known != NULL) {
        psd_cut_chief(cut, known);
    }
    if (c->chief.forgotten != NULL) {
        psd_cut_chief(cut, psi_map_find(chiefs, c->chief.forgotten->container, strlen(c->chief.forgotten->container)));
    }
    if (c->chief.reserved != NULL) {
        c->chief.reserved->cut = cut->serial;
    }
}

/* Encode the names of container `of`, or only the name `only`. */
static void before_names(struct psd_cut *cut, const char *of, const char *only)
{
    struct psd_directory *d = &cut->task->names;
    if (only != NULL) {
        struct psd_name *n = (struct psd_name *)(uintptr_t)psd_directory_find(d, of, only);
        if (n != NULL) {
            psd_cut_name(cut, n);
        }
        return;
    }
    const struct psd_names_in *in = psd_directory_names_in(d, of);
    for (const struct psd_name *n = psd_names_in_first(in); n != NULL; n = psd_names_in_next(in, n)) {
        psd_cut_name(cut, (struct psd_name *)(uintptr_t)n);
    }
}

static void before_attempt(struct psd_cut *cut, const struct psd_change *c)
{
    const struct psd_attempt *a = psd_attempt_find(c->attempt.record, c->attempt.id);
    const struct psd_variable *v = a != NULL ? a->variable : c->attempt.variable;
    psd_cut_record(cut, c->attempt.record);
    psd_cut_variable(cut, v);
    if (c->kind == PSD_CHANGE_ENQUEUE) {
        c->attempt.element->cut = cut->serial;
    } else if (c->kind == PSD_CHANGE_DEQUEUE) {
        psd_cut_before_take(cut, v, c->attempt.index);
    }
}

static void before_work_end(struct psd_cut *cut, const struct psd_change *c)
{
    psd_cut_record(cut, c->work_end.record);
    psd_cut_variable(cut, c->work_end.variable);
}

static void before_flip(struct psd_cut *cut, const struct psd_rounds *g)
{
    for (uint32_t i = 0; i < g->part_count; i++) {
        psd_cut_variable(cut, g->parts[i].variable);
    }
    if (g->step != NULL) {
        psd_cut_variable(cut, g->step);
        change_all(g->step);
    }
}

void psd_cut_before(struct psd_task *t, const struct psd_change *c)
{
    struct psd_cut *cut = t->store.cut;
    if (cut->st != PS_OK) {
        return;
    }
    switch (c->kind) {
    case PSD_CHANGE_CONTAINER:
        c->container.reserved->cut = cut->serial;
        break;
    case PSD_CHANGE_CONTAINER_RESET:
        before_reset(cut, c->container.name);
        break;
    case PSD_CHANGE_CREATE:
        c->create.reserved->cut = cut->serial;
        break;
    case PSD_CHANGE_DROP:
        before_drop(cut, c->variable);
        break;
    case PSD_CHANGE_QUEUE_CLOSE:
        psd_cut_variable(cut, c->variable);
        break;
    case PSD_CHANGE_INIT:
        before_init(cut, c);
        break;
    case PSD_CHANGE_SEAL:
        psd_cut_variable(cut, c->seal.variable);
        break;
    case PSD_CHANGE_RATE:
        psd_cut_variable(cut, c->rate.variable);
        break;
    case PSD_CHANGE_WRITE: /* the whole old value is let go */
        psd_cut_variable(cut, c->write.variable);
        break;
    case PSD_CHANGE_CHIEF:
        before_chief(cut, c);
        break;
    case PSD_CHANGE_SESSION:
        c->session.reserved->cut = cut->serial;
        break;
    case PSD_CHANGE_SESSION_END:
        psd_cut_record(cut, c->record);
        break;
    case PSD_CHANGE_BEGIN:
        psd_cut_record(cut, c->begin.record);
        break;
    case PSD_CHANGE_SEGMENT:
        before_segment(cut, c);
        break;
    case PSD_CHANGE_REFUSE:
    case PSD_CHANGE_ABANDON:
        before_end(cut, c);
        break;
    case PSD_CHANGE_NAME:
        before_names(cut, c->name.container, c->name.name);
        if (c->name.reserved != NULL) {
            c->name.reserved->cut = cut->serial;
        }
        break;
    case PSD_CHANGE_NAME_FORGET:
        before_names(cut, c->name.container, c->name.name);
        break;
    case PSD_CHANGE_RESET:
    case PSD_CHANGE_RESET_TASK: /* resets were encoded at the instant */
        break;
    case PSD_CHANGE_RESET_END:
        before_names(cut, c->reset.container, NULL);
        break;
    case PSD_CHANGE_ENQUEUE:
    case PSD_CHANGE_DEQUEUE:
    case PSD_CHANGE_ATTEMPT_DONE:
    case PSD_CHANGE_ATTEMPT_END:
        before_attempt(cut, c);
        break;
    case PSD_CHANGE_WORK_FILLED:
        psd_cut_variable(cut, c->filled.variable);
        psd_cut_queue_whole(cut, c->filled.variable);
        break;
    case PSD_CHANGE_WORK_END:
        before_work_end(cut, c);
        break;
    case PSD_CHANGE_SET_STEP:
        psd_cut_record(cut, c->set_step.record);
        psd_cut_variable(cut, c->set_step.variable);
        break;
    case PSD_CHANGE_ROUNDS:
    case PSD_CHANGE_ROUND_JOIN:
    case PSD_CHANGE_ROUND_LEAVE: /* a cut has no groups; freeing their memory calls psd_kept_let_go() */
        break;
    case PSD_CHANGE_ROUND_FLIP:
        before_flip(cut, c->flip.container->rounds);
        break;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Before a change is carried out, a cut encodes or copies all that the change will touch, so that the cut has it as it was at the
 * instant when the cut began. Happy path: psd_commit() calls psd_cut_before(), which knows for each kind of change what the
 * change will write. Failure: without memory the cut fails, and the change goes on (cut.c). */
#include "cut_internal.h"

#include "mutate.h"
#include "rows.h"
#include "psd/state.h"

#include <string.h>

enum { AHEAD = 16 /* each row is prefetched this many rows before it is copied */ };

static void change_all(const struct psd_variable *v)
{
    for (uint32_t i = 0; i <= PSD_OPTIM_SLOTS_MAX; i++) {
        psd_kept_change(v->kept[i], 0, psd_variable_bytes_of(v, i));
    }
}

/* Encode v and, if v is a queue, the records of all sessions that have taken elements of v or inserted some. */
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

/* Copy elements before they change: [first, first + count) of the value, and the same elements of the first `slots` slots. */
static void change_elements(const struct psd_variable *v, uint32_t slots, uint64_t first, uint64_t count)
{
    for (uint32_t i = 0; i <= slots; i++) {
        if (v->kept[i] != NULL) {
            const struct psd_span span = psd_variable_span(v, i, first, count);
            psd_kept_change(v->kept[i], span.at, span.bytes);
        }
    }
}

/* Prefetch the cache lines that change_elements() will read for element `first`. */
static void fetch_elements(const struct psd_variable *v, uint64_t first)
{
    for (uint32_t i = 0; i <= PSD_OPTIM_SLOTS_MAX; i++) {
        if (v->kept[i] != NULL) {
            psd_kept_fetch(v->kept[i], psd_variable_span(v, i, first, v->row_elements).at);
        }
    }
}

/* Copy for the cut the rows of value and slots that a segment of rows is about to change. */
static void before_rows(const struct psd_change *c)
{
    const struct psd_progress *p = c->segment.number->progress;
    const struct psd_variable *v = p->variable;
    const uint64_t columns = psd_rows_columns(v);
    if (psd_rows_move_all(p)) {
        const uint64_t first = (p->last_index + 1) * columns; /* 0 if no row has come: last_index is UINT64_MAX */
        const uint64_t end = c->segment.last || c->segment.count == 0
                                 ? v->elements
                                 : (psi_rows_index(c->segment.bytes, c->segment.count - 1) + 1) * columns;
        change_elements(v, PSD_OPTIM_SLOTS_MAX, first, end - first);
        return;
    }
    for (uint64_t i = 0; i < c->segment.count; i++) {
        if (i + AHEAD < c->segment.count) {
            fetch_elements(v, psi_rows_index(c->segment.bytes, i + AHEAD) * columns);
        }
        change_elements(v, psd_push_applies_rows(p->kind) ? PSD_OPTIM_SLOTS_MAX : 0,
                        psi_rows_index(c->segment.bytes, i) * columns, columns);
    }
}

static void before_segment(struct psd_cut *cut, const struct psd_change *c)
{
    const struct psd_progress *p = c->segment.number->progress;
    const struct psd_variable *v = p->variable;
    bool streams = psd_push_streams(p->kind, v);
    psd_cut_record(cut, c->segment.record);
    if (psd_push_contributes(p->kind)) {
        return;
    }
    if (c->segment.last || psd_progress_streams(p)) {
        psd_cut_variable(cut, v);
    }
    if (streams && p->staging == NULL && psd_push_is_rows(p->kind)) {
        before_rows(c);
    } else if (c->segment.last && psd_progress_moves_last(p)) {
        change_all(v);
    } else if (streams && p->staging == NULL) {
        change_elements(v, PSD_OPTIM_SLOTS_MAX, c->segment.number->offset, c->segment.count);
    } else if (streams ? c->segment.last : p->kind == PSD_ADD) {
        psd_cut_variable(cut, v);
        change_all(v);
    }
}

static void before_move(struct psd_cut *cut, const struct psd_change *c)
{
    const struct psd_progress *p = c->move.number->progress;
    psd_cut_record(cut, c->move.record);
    psd_cut_variable(cut, p->variable);
    for (uint32_t i = 0; i <= PSD_OPTIM_SLOTS_MAX && !psd_progress_measures(p); i++) {
        if (psd_variable_moves_array(p->variable, i)) {
            const struct psd_span span = psd_variable_span(p->variable, i, psd_progress_moved(p), c->move.count);
            psd_kept_change(p->variable->kept[i], span.at, span.bytes);
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

/* Encode one name of the directory's table: `only` of container `of`. only NULL: all names of the container. */
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
    case PSD_CHANGE_WRITE: /* nothing is copied: when the old value is freed, the cut gets its memory (psd_kept_let_go()) */
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
    case PSD_CHANGE_MOVE:
        before_move(cut, c);
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
    case PSD_CHANGE_RESET_TASK: /* psd_cut_begin() has encoded all resets */
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
    /* a checkpoint has no groups, so nothing is encoded; psd_kept_let_go() keeps freed memory that the cut still needs */
    case PSD_CHANGE_ROUND_LEAVE:
        break;
    case PSD_CHANGE_ROUND_FLIP:
        before_flip(cut, c->flip.container->rounds);
        break;
    }
}

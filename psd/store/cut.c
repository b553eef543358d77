/* SPDX-License-Identifier: Apache-2.0 */
/* The walk of a cut: it saves the task's state as of one instant, piece by piece between other events (cut.h).
 *
 * Happy path: the walk encodes variables, and notes the memory to copy; then headers of the files of values, which fix the offset
 * of each value; then records, chiefs, names, elements of queues. After that it copies the blocks of values, and encodes their
 * CRCs and the last entry. If a change is about to touch an object, the object is encoded first, and gets the cut's serial, so
 * that the walk skips it later. Failure: without memory the cut fails, and does nothing any more until psd_cut_end().
 *
 * The entry of a queue's element has the index that the element had at the cut's instant. In the list psd_queue.elements, the
 * elements that are not encoded yet stand side by side, and only the first of them can be taken out. Elements inserted or given
 * back after the instant get the cut's serial. In a SHUFFLE's array, an element that is not encoded still has its old index. */
#include "cut_internal.h"

#include "mutate.h"
#include "overlay.h"
#include "psd/state.h"

#include "common/crc32c.h"
#include "common/mem.h"

#include <string.h>

enum {
    MEMORY_MIN = 1 << 20, /* a cut's memory limit is at least this: enough for some blocks of values and of the state file */
    TEXT_BYTES = 2048,    /* cost of making a tensor's text for a header, in bytes of psd_cut_turn()'s budget */
    LOOK_BYTES = 64,      /* cost of a step that encodes nothing, in bytes of psd_cut_turn()'s budget */
    WALK_MAX = 8 << 20,   /* encoding and copying pause while this many bytes wait to be written */
    SUMS_AT_ONCE = 4096
};

static const char no_note[] = "no memory to note what is copied";

static struct psd_cut *cut_of(const struct psd_task *t)
{
    return t->store.cut;
}

static void spend(struct psd_cut *cut, uint64_t bytes)
{
    cut->allowance -= bytes < cut->allowance ? bytes : cut->allowance;
}

static const struct psd_variable *hold(struct psd_variable *v)
{
    v->cut_refs++;
    return psd_variable_ref(v);
}

static void let_go(struct psd_cut *cut, const struct psd_variable *v)
{
    psd_variable_own(v)->cut_refs--;
    psd_variable_unref(cut->store, v);
}

/* Note that the cut must copy the value (which 0) or a slot (from 1 on) of v, and decide where in the file the copy will lie. */
static void keep_value(struct psd_cut *cut, struct psd_variable *v, uint32_t which, uint32_t file)
{
    struct psd_cut_model *m = &cut->models[file - 1];
    void *memory = which == 0 ? v->value : v->slots[which - 1];
    bool strings = v->dtype == PS_STRING;
    uint32_t unit = strings ? 8 : v->element_bytes;
    const uint64_t bytes = psd_variable_bytes_of(v, which);
    struct psd_kept *k = psd_kept_new(cut, &v->kept[which], memory, bytes, bytes);
    if (k == NULL) {
        psd_cut_fail(cut, PS_RESOURCE_EXHAUSTED, no_note);
        return;
    }
    k->put = psd_cut_put_values;
    k->file = file;
    k->which = which;
    k->variable = hold(v);
    k->creation = v->creation;
    k->place = unit == 8 ? PSD_CUT_IN_8 : unit == 4 ? PSD_CUT_IN_4 : unit == 2 ? PSD_CUT_IN_2 : PSD_CUT_IN_1;
    k->at = m->place_bytes[k->place];
    k->split = strings ? (v->elements + 1) * 8 : 0;
    k->split_at = m->place_bytes[PSD_CUT_IN_1];
    m->place_bytes[k->place] += strings ? k->split : bytes;
    m->place_bytes[PSD_CUT_IN_1] += strings ? bytes - k->split : 0;
}

static void keep_queue(struct psd_cut *cut, struct psd_variable *v)
{
    struct psd_cut_queue *q = psi_calloc(1, sizeof(*q));
    if (q == NULL) {
        psd_cut_fail(cut, PS_RESOURCE_EXHAUSTED, "no memory for a queue");
        return;
    }
    q->variable = hold(v);
    q->next = psi_list_first(&v->queue->elements);
    q->size = v->queue->size;
    v->queue->kept = q;
    psi_list_push_back(&cut->queues, &q->link);
}

void psd_cut_container(struct psd_cut *cut, struct psd_container *c)
{
    struct psi_code k;
    if (c->cut == cut->serial || c->of_session) {
        return;
    }
    c->cut = cut->serial;
    c->cut_file = 0;
    c->cut_notes = 0;
    c->cut_step = 0;
    psi_free(c->cut_bare);
    c->cut_bare = NULL;
    psd_cut_entry_begin(cut, &k);
    psd_entry_put_container(&k, c);
    psd_cut_entry_end(cut, &k, PSI_STATE_CONTAINER);
}

static void note(struct psd_cut *cut, struct psd_container *c, const struct psd_variable *v)
{
    bool bare = v->queue == NULL && !v->initialised;
    bool pushed = v->queue == NULL && v->pushes > 0;
    c->cut_notes |=
        PS_NOTE_NAMED | (v->sealed ? PS_NOTE_SEALED : 0u) | (bare ? PS_NOTE_BARE : 0u) | (pushed ? PS_NOTE_TRAINED : 0u);
    if (bare && c->cut_bare == NULL) {
        c->cut_bare = psi_strndup(v->name, strlen(v->name));
        if (c->cut_bare == NULL) {
            psd_cut_fail(cut, PS_RESOURCE_EXHAUSTED, no_note);
        }
    }
    if (strcmp(v->name, "global_step") == 0 && psd_step_check(v, NULL) == PS_OK && psd_step_value(v) <= INT64_MAX) {
        c->cut_step = psd_step_value(v) + 1;
        c->cut_notes |= c->cut_step > 1 ? PS_NOTE_TRAINED : 0u;
    }
}

void psd_cut_variable(struct psd_cut *cut, const struct psd_variable *of)
{
    struct psi_code k;
    struct psd_variable *v = psd_variable_own(of);
    if (v->cut == cut->serial || v->gone || psd_variable_of_session(v)) {
        return;
    }
    /* rows of the last round may still lie in an overlay; they must be in the variable's own memory, which the cut copies */
    psd_overlay_settle(v);
    psd_cut_container(cut, v->container);
    note(cut, v->container, v);
    v->cut = cut->serial;
    uint32_t slots = psd_optim_slot_count(&v->optimizer);
    uint32_t file = v->initialised ? psd_cut_model_for(cut, v->container, v->dtype == PS_STRING ? 2 : 1 + slots) : 0;
    psd_cut_entry_begin(cut, &k);
    psd_entry_put_variable(&k, v, file);
    psd_cut_entry_end(cut, &k, PSI_STATE_VARIABLE);
    for (uint32_t i = 0; i <= slots && file != 0 && cut->st == PS_OK; i++) {
        keep_value(cut, v, i, file);
    }
    if (v->queue != NULL && v->queue->size + v->queue->done > 0) {
        keep_queue(cut, v);
    }
    spend(cut, LOOK_BYTES);
}

/* Note that the cut must copy the elements that the push p of r has gathered so far. The rest of p->staging is undefined. */
static void keep_staged(struct psd_cut *cut, const struct psd_record *r, struct psd_progress *p)
{
    const struct psd_variable *v = p->variable;
    uint64_t offset = psd_record_find(r, p->number)->offset;
    uint64_t bytes = psd_progress_staged_bytes(p, offset);
    if (p->staging == NULL || bytes == 0 || psd_variable_of_session(v)) {
        return;
    }
    struct psd_kept *k = psd_kept_new(cut, &p->kept, p->staging, bytes, p->staging_bytes);
    if (k == NULL) {
        psd_cut_fail(cut, PS_RESOURCE_EXHAUSTED, no_note);
    } else {
        k->put = psd_cut_put_staged;
        k->number = p->number;
        memcpy(k->session, r->session, sizeof(k->session));
    }
}

void psd_cut_record(struct psd_cut *cut, struct psd_record *r)
{
    struct psi_code k;
    struct psi_list *it = NULL, *inner = NULL;
    if (r->cut == cut->serial) {
        return;
    }
    r->cut = cut->serial;
    PSI_LIST_FOREACH(it, &r->progress) {
        psd_cut_variable(cut, PSI_CONTAINER_OF(it, struct psd_progress, link)->variable);
    }
    PSI_LIST_FOREACH(it, &r->attempts) {
        struct psd_attempt *a = PSI_CONTAINER_OF(it, struct psd_attempt, link);
        psd_cut_variable(cut, a->variable);
        PSI_LIST_FOREACH(inner, &a->elements) {
            PSI_CONTAINER_OF(inner, struct psd_element, link)->cut = cut->serial;
        }
    }
    psd_cut_entry_begin(cut, &k);
    psd_entry_put_record(&k, r);
    psd_cut_entry_end(cut, &k, PSI_STATE_RECORD);
    PSI_LIST_FOREACH(it, &r->progress) {
        keep_staged(cut, r, PSI_CONTAINER_OF(it, struct psd_progress, link));
    }
}

void psd_cut_chief(struct psd_cut *cut, struct psd_chief *c)
{
    struct psi_code k;
    if (c->cut == cut->serial) {
        return;
    }
    c->cut = cut->serial;
    psd_cut_entry_begin(cut, &k);
    psd_entry_put_chief(&k, c);
    psd_cut_entry_end(cut, &k, PSI_STATE_CHIEF);
}

void psd_cut_name(struct psd_cut *cut, struct psd_name *n)
{
    struct psi_code k;
    if (n->cut == cut->serial || psi_container_is_session(n->container)) {
        return;
    }
    n->cut = cut->serial;
    psd_cut_entry_begin(cut, &k);
    psd_entry_put_name(&k, cut->task, n);
    psd_cut_entry_end(cut, &k, PSI_STATE_NAME);
}

static void queue_over(struct psd_cut *cut, struct psd_cut_queue *q)
{
    const struct psd_variable *v = q->variable;
    v->queue->kept = NULL;
    psi_list_remove(&q->link);
    psi_free(q);
    let_go(cut, v);
}

static void element(struct psd_cut *cut, const struct psd_cut_queue *q, struct psd_element *e, uint64_t index, bool done)
{
    struct psi_code k;
    e->cut = cut->serial;
    psd_cut_entry_begin(cut, &k);
    psd_entry_put_element(&k, q->variable, e, index, done);
    psd_cut_entry_end(cut, &k, PSI_STATE_ELEMENT);
}

static struct psd_element *at_link(struct psi_list *link)
{
    return PSI_CONTAINER_OF(link, struct psd_element, link);
}

/* Encode the next element of psd_queue.elements. False: no element from the cut's instant is left. */
static bool element_in_line(struct psd_cut *cut, struct psd_cut_queue *q)
{
    const struct psd_queue *of = q->variable->queue;
    if (q->next == NULL) {
        return false;
    }
    struct psi_list *link = q->next, *after = link->next;
    /* over: all elements behind `link` came into the queue, or back into it, after the cut's instant */
    bool over = after == &of->elements || at_link(after)->cut == cut->serial;
    q->next = over ? NULL : after;
    element(cut, q, at_link(link), q->index++, false);
    return true;
}

/* Encode the next element of psd_queue.array, from q->index on. done: q is a WORK queue, and only items that were done at the
 * cut's instant are left: queued and held items are encoded already. */
static bool element_in_array(struct psd_cut *cut, struct psd_cut_queue *q, uint64_t count, bool done)
{
    struct psd_element **array = q->variable->queue->array;
    while (q->index < count && cut->allowance > 0) {
        struct psd_element *e = array[q->index++];
        spend(cut, LOOK_BYTES);
        if (e != NULL && e->cut != cut->serial && (done || e->state == PSD_ELEMENT_QUEUED)) {
            element(cut, q, e, q->index - 1, done);
            return true;
        }
    }
    return q->index < count;
}

/* Encode the next element of the queue, or skip elements that are in the cut already. False: no element is left. */
static bool queue_step(struct psd_cut *cut, struct psd_cut_queue *q)
{
    const struct psd_queue *of = q->variable->queue;
    if (of->spec.kind == PSI_QUEUE_SHUFFLE) {
        return element_in_array(cut, q, of->size < q->size ? of->size : q->size, false);
    }
    if (!q->in_line && element_in_line(cut, q)) {
        return true;
    }
    if (!q->in_line) {
        q->in_line = true;
        q->index = 0;
    }
    return of->spec.kind == PSI_QUEUE_WORK && of->array != NULL && element_in_array(cut, q, psd_queue_items(of), true);
}

void psd_cut_queue_whole(struct psd_cut *cut, const struct psd_variable *v)
{
    struct psd_cut_queue *q = v->queue->kept;
    uint64_t left = cut->allowance;
    cut->allowance = UINT64_MAX;
    while (q != NULL && cut->st == PS_OK && queue_step(cut, q)) {
    }
    cut->allowance = left;
    if (q != NULL && cut->st == PS_OK) {
        queue_over(cut, q);
    }
}

void psd_cut_before_take(struct psd_cut *cut, const struct psd_variable *v, uint64_t index)
{
    struct psd_queue *of = v->queue;
    struct psd_cut_queue *q = of->kept;
    if (q == NULL || of->size == 0) {
        return;
    }
    if (of->spec.kind != PSI_QUEUE_SHUFFLE) {
        if (!q->in_line && q->next == psi_list_first(&of->elements)) {
            PSI_IGNORE(element_in_line(cut, q)); /* the result is false if all other elements came after the cut's instant */
        }
        return;
    }
    const uint64_t moved[2] = {index, of->size - 1}; /* the DEQUEUE moves the last element to the taken element's place */
    for (int i = 0; i < 2; i++) {
        if (of->array[moved[i]]->cut != cut->serial) {
            element(cut, q, of->array[moved[i]], moved[i], false);
        }
    }
}

static void next_stage(struct psd_cut *cut)
{
    cut->stage = (enum psd_cut_stage)(cut->stage + 1);
    cut->outer = cut->inner = 0;
}

/* Encode the next variable of the container at the cursor cut->outer, or advance to the next container. */
static void variables_step(struct psd_cut *cut)
{
    uint64_t after = cut->outer;
    void *c = NULL, *v = NULL;
    if (!psi_map_next(&cut->store->containers, &after, NULL, NULL, &c)) {
        next_stage(cut);
        cut->at = cut->kept.next;
        return;
    }
    psd_cut_container(cut, c);
    uint64_t inner = cut->inner;
    if (!((struct psd_container *)c)->of_session &&
        psi_map_next(&((struct psd_container *)c)->variables, &inner, NULL, NULL, &v)) {
        const struct psd_variable *of = v;
        const bool kept = of->cut == cut->serial; /* encoded already, and skipped below */
        if (!kept && of->part != NULL && !psd_overlay_home(of->part->rounds, PSD_CUT_BLOCK_BYTES)) { /* rows are left */
            spend(cut, PSD_CUT_BLOCK_BYTES);
            return;
        }
        cut->inner = inner;
        psd_cut_variable(cut, v);
        return;
    }
    cut->outer = after;
    cut->inner = 0;
}

/* Release k's reference to its variable: the name is in the file's header now. */
static void name_over(struct psd_cut *cut, struct psd_kept *k)
{
    const struct psd_variable *v = k->variable;
    k->variable = NULL;
    if (v != NULL) {
        let_go(cut, v);
    }
}

static void texts_step(struct psd_cut *cut)
{
    if (cut->at == &cut->kept) {
        psd_cut_headers_end(cut);
        next_stage(cut);
        return;
    }
    struct psd_kept *k = PSI_CONTAINER_OF(cut->at, struct psd_kept, link);
    cut->at = cut->at->next;
    if (k->file != 0) {
        psd_cut_header_add(cut, k);
        spend(cut, TEXT_BYTES);
        name_over(cut, k);
    }
}

static void headers_step(struct psd_cut *cut)
{
    if (cut->outer == cut->model_count) {
        next_stage(cut);
        return;
    }
    struct psd_cut_model *m = &cut->models[cut->outer];
    uint64_t left = m->data_start - cut->inner, n = left < PSD_CUT_BLOCK_BYTES ? left : PSD_CUT_BLOCK_BYTES;
    m->header_sum = psi_crc32c(m->header_sum, m->header.data + cut->inner, n);
    psd_cut_put(cut, (uint32_t)cut->outer + 1, PSD_CUT_IN_FILE, cut->inner, m->header.data + cut->inner, n);
    spend(cut, n);
    cut->inner += n;
    if (cut->inner == m->data_start) {
        psi_buf_fini(&m->header);
        cut->outer++;
        cut->inner = 0;
    }
}

static void map_step(struct psd_cut *cut, const struct psi_map *map)
{
    void *value = NULL;
    if (!psi_map_next(map, &cut->outer, NULL, NULL, &value)) {
        next_stage(cut);
    } else if (cut->stage == PSD_CUT_RECORDS) {
        spend(cut, sizeof(struct psd_record)); /* estimated cost of a record; entries have different lengths */
        psd_cut_record(cut, value);
    } else if (cut->stage == PSD_CUT_CHIEFS) {
        psd_cut_chief(cut, value);
    } else {
        psd_cut_name(cut, value);
    }
}

static void queues_step(struct psd_cut *cut)
{
    struct psi_list *link = psi_list_first(&cut->queues);
    if (link == NULL) {
        next_stage(cut);
        return;
    }
    struct psd_cut_queue *q = PSI_CONTAINER_OF(link, struct psd_cut_queue, link);
    if (!queue_step(cut, q)) {
        queue_over(cut, q);
    }
}

static void blocks_step(struct psd_cut *cut)
{
    struct psi_list *link = psi_list_first(&cut->kept);
    if (link == NULL) {
        next_stage(cut);
        return;
    }
    struct psd_kept *k = PSI_CONTAINER_OF(link, struct psd_kept, link);
    if (k->blocks_left > 0) {
        psd_kept_turn(k);
        spend(cut, PSD_CUT_BLOCK_BYTES < k->bytes ? PSD_CUT_BLOCK_BYTES : k->bytes);
    } else {
        psi_list_remove(link);
        psi_list_push_back(&cut->copied, link);
    }
}

static void files(struct psd_cut *cut)
{
    for (size_t i = 0; i < cut->model_count; i++) {
        struct psd_cut_file of = psd_cut_file(cut->task, (uint32_t)i + 1);
        struct psi_state_file f = {.file = (uint32_t)i + 1,
                                   .header_sum = of.sum,
                                   .bytes = of.bytes,
                                   .header_bytes = cut->models[i].data_start,
                                   .container = of.container};
        struct psi_code k;
        psd_cut_entry_begin(cut, &k);
        psi_state_file(&k, &f);
        psd_cut_entry_end(cut, &k, PSI_STATE_FILE);
    }
}

static void sums_step(struct psd_cut *cut)
{
    struct psi_list *link = psi_list_first(&cut->copied);
    if (link == NULL) {
        files(cut);
        next_stage(cut);
        return;
    }
    struct psd_kept *of = PSI_CONTAINER_OF(link, struct psd_kept, link);
    uint64_t blocks = (of->bytes + PSD_CUT_BLOCK_BYTES - 1) / PSD_CUT_BLOCK_BYTES;
    uint64_t left = of->file == 0 ? 0 : blocks - cut->inner;
    if (left > 0) {
        struct psi_state_sums s = {.creation = of->creation,
                                   .which = of->which,
                                   .count = left < SUMS_AT_ONCE ? (uint32_t)left : SUMS_AT_ONCE,
                                   .first = cut->inner,
                                   .sums = of->sums + cut->inner};
        struct psi_code k;
        psd_cut_entry_begin(cut, &k);
        psi_state_sums(&k, &s);
        psd_cut_entry_end(cut, &k, PSI_STATE_SUMS);
        cut->inner += s.count;
        left -= s.count;
    }
    if (left == 0) {
        psd_kept_free(of);
        cut->inner = 0;
    }
}

static void last(struct psd_cut *cut)
{
    struct psi_state_end e = {.count = cut->entry_count, .sum = cut->entry_sum};
    struct psi_code k;
    psd_cut_entry_begin(cut, &k);
    psi_state_end(&k, &e);
    psd_cut_entry_end(cut, &k, PSI_STATE_END);
    psd_cut_state_end(cut);
    next_stage(cut);
}

static void step(struct psd_cut *cut)
{
    spend(cut, LOOK_BYTES);
    switch (cut->stage) {
    case PSD_CUT_VARIABLES:
        variables_step(cut);
        break;
    case PSD_CUT_TEXTS:
        texts_step(cut);
        break;
    case PSD_CUT_HEADERS:
        headers_step(cut);
        break;
    case PSD_CUT_RECORDS:
        map_step(cut, &cut->task->records);
        break;
    case PSD_CUT_CHIEFS:
        map_step(cut, &cut->task->chiefs);
        break;
    case PSD_CUT_NAMES:
        map_step(cut, &cut->task->names.names);
        break;
    case PSD_CUT_QUEUES:
        queues_step(cut);
        break;
    case PSD_CUT_BLOCKS:
        blocks_step(cut);
        break;
    case PSD_CUT_SUMS:
        sums_step(cut);
        break;
    case PSD_CUT_LAST:
        last(cut);
        break;
    case PSD_CUT_OVER:
        break;
    }
}

bool psd_cut_has_work(const struct psd_task *t)
{
    const struct psd_cut *cut = cut_of(t);
    if (cut == NULL || cut->st != PS_OK || cut->stage == PSD_CUT_OVER) {
        return false;
    }
    /* uncopied_bytes (memory kept for blocks still to be copied) may not stop the walk: only the walk copies those blocks */
    uint64_t most = cut->o.memory_bytes / 2 < WALK_MAX ? cut->o.memory_bytes / 2 : WALK_MAX;
    if (cut->stage <= PSD_CUT_TEXTS) { /* no copy can be written yet, because the offsets in the files are not known */
        return cut->state_bytes <= most;
    }
    return cut->held_bytes - cut->uncopied_bytes <= most;
}

void psd_cut_turn(struct psd_task *t, uint64_t bytes)
{
    struct psd_cut *cut = cut_of(t);
    if (cut == NULL) {
        return;
    }
    cut->allowance = bytes;
    while (cut->allowance > 0 && psd_cut_has_work(t)) {
        step(cut);
    }
}

const struct psd_cut_write *psd_cut_next(struct psd_task *t)
{
    struct psd_cut *cut = cut_of(t);
    if (cut == NULL || cut->st != PS_OK) {
        return NULL;
    }
    struct psi_list *link = psi_list_first(&cut->sealed);
    if (link == NULL && cut->stage > PSD_CUT_TEXTS) {
        link = psi_list_first(&cut->writes);
    }
    if (link == NULL) {
        return NULL;
    }
    struct psd_cut_write *w = PSI_CONTAINER_OF(link, struct psd_cut_write, link);
    if (w->file != 0 && link == psi_list_last(&cut->writes) && w->bytes < PSD_CUT_BLOCK_BYTES && psd_cut_has_work(t)) {
        return NULL; /* a later step may append bytes to this write */
    }
    if (w->place != PSD_CUT_IN_FILE) {
        const struct psd_cut_model *m = &cut->models[w->file - 1];
        w->at += m->data_start + psd_cut_place_at(m, w->place);
        w->place = PSD_CUT_IN_FILE;
    }
    psi_list_remove(link);
    psi_list_push_back(&cut->taken, link);
    return w;
}

void psd_cut_written(struct psd_task *t, const struct psd_cut_write *written)
{
    struct psd_cut_write *w = (struct psd_cut_write *)(uintptr_t)written; /* the cut owns it */
    struct psd_cut *cut = cut_of(t);
    psi_list_remove(&w->link);
    psd_cut_let_go(cut, w->capacity);
    cut->state_bytes -= w->file == 0 && cut->st == PS_OK ? w->capacity : 0;
    cut->moved = true;
    psd_cut_write_free(cut, w);
}

enum psd_cut_status psd_cut_status(const struct psd_task *t)
{
    const struct psd_cut *cut = cut_of(t);
    if (cut == NULL) {
        return PSD_CUT_NONE;
    }
    if (cut->st != PS_OK) {
        return PSD_CUT_FAILED;
    }
    bool over =
        cut->stage == PSD_CUT_OVER && psi_list_empty(&cut->sealed) && psi_list_empty(&cut->writes) && psi_list_empty(&cut->taken);
    return over ? PSD_CUT_WRITTEN : PSD_CUT_GOES;
}

ps_status psd_cut_error(const struct psd_task *t, struct psi_err *err)
{
    *err = cut_of(t)->err;
    return cut_of(t)->st;
}

uint32_t psd_cut_file_count(const struct psd_task *t)
{
    return cut_of(t) == NULL ? 0 : (uint32_t)cut_of(t)->model_count + 1;
}

struct psd_cut_file psd_cut_file(const struct psd_task *t, uint32_t file)
{
    const struct psd_cut *cut = cut_of(t);
    if (file == 0) {
        return (struct psd_cut_file){.bytes = cut->block_count * PSI_STATE_BLOCK_BYTES, .sum = cut->state_sum};
    }
    const struct psd_cut_model *m = &cut->models[file - 1];
    return (struct psd_cut_file){
        .container = m->container, .bytes = m->data_start + psd_cut_place_at(m, PSD_CUT_IN_FILE), .sum = m->header_sum};
}

uint64_t psd_cut_held_bytes(const struct psd_store *s)
{
    return s->cut == NULL ? 0 : s->cut->held_bytes;
}

bool psd_cut_is_full(const struct psd_store *s)
{
    return s->cut != NULL && s->cut->st == PS_OK && s->cut->held_bytes >= s->cut->o.memory_bytes;
}

static uint64_t missing_of(const struct psd_store *s, const struct psd_variable *v, uint64_t at, uint64_t bytes, bool moves)
{
    uint64_t missing = 0;
    if (s->cut == NULL || s->cut->st != PS_OK || v->gone || !v->initialised) {
        return 0;
    }
    for (uint32_t i = 0; i <= psd_optim_slot_count(&v->optimizer); i++) {
        const struct psd_span span = i == 0 || v->row_elements == 1
                                         ? (struct psd_span){.at = at, .bytes = bytes}
                                         : psd_variable_span(v, i, at / v->element_bytes, bytes / v->element_bytes);
        if (!moves || psd_variable_moves_array(v, i)) {
            missing += v->cut != s->cut->serial ? bytes : psd_kept_missing(v->kept[i], span.at, span.bytes);
        }
    }
    return missing;
}

uint64_t psd_cut_missing(const struct psd_store *s, const struct psd_variable *v, uint64_t at, uint64_t bytes)
{
    return missing_of(s, v, at, bytes, false);
}

uint64_t psd_cut_missing_move(const struct psd_store *s, const struct psd_variable *v, uint64_t at, uint64_t bytes)
{
    return missing_of(s, v, at, bytes, true);
}

bool psd_cut_holds_move(const struct psd_store *s, const struct psd_variable *v, const struct psd_record *r)
{
    return psd_cut_is_full(s) && (v->cut != s->cut->serial || r->cut != s->cut->serial || v->queue->kept != NULL);
}

/* Encode at once what the walk does not visit: the head of the state file, the task's numbers, unfinished resets. */
static void instant(struct psd_cut *cut)
{
    struct psd_task *t = cut->task;
    struct psi_state_head h = {.magic = PSI_STATE_MAGIC,
                               .version = PSI_STATE_VERSION,
                               .task = t->config.task,
                               .number = cut->o.number,
                               .cluster = t->cluster.name,
                               .job = t->config.job};
    struct psi_code k;
    struct psi_list *it = NULL;
    psd_cut_entry_begin(cut, &k);
    psi_state_head(&k, &h);
    psd_cut_entry_end(cut, &k, PSI_STATE_HEAD);
    psd_cut_entry_begin(cut, &k);
    psd_entry_put_task(&k, t);
    psd_cut_entry_end(cut, &k, PSI_STATE_TASK);
    PSI_LIST_FOREACH(it, &t->resets.all) {
        psd_cut_entry_begin(cut, &k);
        psd_entry_put_reset(&k, t, PSI_CONTAINER_OF(it, struct psd_reset, link));
        psd_cut_entry_end(cut, &k, PSI_STATE_RESET);
    }
}

ps_status psd_cut_begin(struct psd_task *t, const struct psd_cut_options *o, struct psi_err *err)
{
    PSI_ASSERT(cut_of(t) == NULL);
    struct psd_cut *cut = psi_calloc(1, sizeof(*cut));
    if (cut == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "checkpoint %llu of %s: memory", (unsigned long long)o->number, t->name);
    }
    cut->task = t;
    cut->store = &t->store;
    cut->o = *o;
    cut->o.memory_bytes = o->memory_bytes > MEMORY_MIN ? o->memory_bytes : MEMORY_MIN;
    cut->serial = ++t->store.cut_serial;
    psi_list_init(&cut->sealed);
    psi_list_init(&cut->writes);
    psi_list_init(&cut->taken);
    psi_list_init(&cut->kept);
    psi_list_init(&cut->copied);
    psi_list_init(&cut->queues);
    psi_list_init(&cut->slabs);
    psd_arena_init(&cut->arena);
    psi_buf_init(&cut->entry, SIZE_MAX);
    t->store.cut = cut;
    t->store.cut_before = psd_cut_before;
    instant(cut);
    ps_status st = cut->st;
    if (st != PS_OK) {
        *err = cut->err;
        psd_cut_end(t);
    }
    return st;
}

static void kept_free(struct psd_cut *cut, struct psi_list *head)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_first(head)) != NULL) {
        struct psd_kept *k = PSI_CONTAINER_OF(link, struct psd_kept, link);
        name_over(cut, k);
        psd_kept_free(k);
    }
}

void psd_cut_cancel(struct psd_task *t)
{
    struct psd_cut *cut = cut_of(t);
    struct psi_list *link = NULL;
    if (cut == NULL) {
        return;
    }
    psd_cut_fail(cut, PS_CANCELLED, "it was given up"); /* from now on no freed memory is kept for this cut */
    while ((link = psi_list_first(&cut->queues)) != NULL) {
        queue_over(cut, PSI_CONTAINER_OF(link, struct psd_cut_queue, link));
    }
    kept_free(cut, &cut->kept);
    kept_free(cut, &cut->copied);
    psd_cut_writes_free(cut, &cut->sealed);
    psd_cut_writes_free(cut, &cut->writes);
    for (size_t i = 0; i < cut->model_count; i++) {
        psi_buf_fini(&cut->models[i].header);
    }
    psi_buf_fini(&cut->entry);
}

void psd_cut_tick(struct psd_task *t, uint64_t now_ms)
{
    struct psd_cut *cut = cut_of(t);
    if (cut == NULL) {
        return;
    }
    if (cut->moved || cut->stuck_since_ms == 0 || !psd_cut_is_full(&t->store)) {
        cut->moved = false;
        cut->stuck_since_ms = now_ms;
    } else if (now_ms - cut->stuck_since_ms >= PS_CUT_STUCK_MS) {
        psd_cut_fail(cut, PS_DEADLINE_EXCEEDED, "the disk has taken nothing for too long, and pushes wait for it");
        psd_cut_cancel(t);
    }
}

void psd_cut_end(struct psd_task *t)
{
    struct psd_cut *cut = cut_of(t);
    psd_cut_cancel(t);
    if (cut != NULL) {
        psd_cut_writes_free(cut, &cut->taken);
        psd_arena_fini(&cut->arena);
        psi_free(cut->models);
        psi_free(cut);
        t->store.cut = NULL;
        t->store.cut_before = NULL;
    }
}

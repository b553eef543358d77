/* SPDX-License-Identifier: Apache-2.0 */
/* See entry.h. Happy path: the members of a thing, one after the other, both ways; read, they are checked, and the thing is made
 * with the memory that its creation would have reserved. Failure: what does not fit is DATA_LOSS. */
#include "entry.h"

#include "mutate.h"
#include "psd/state.h"

#include "common/blob.h"
#include "common/mem.h"
#include "common/optimizer.h"
#include "common/tuple.h"

#include <math.h>
#include <string.h>

static bool reads(const struct psd_codec *k)
{
    return k->out == NULL;
}

static bool good(const struct psd_codec *k)
{
    return k->st == PS_OK;
}

static void no_memory(struct psd_codec *k, const char *what)
{
    if (good(k)) {
        k->st = psi_fail(k->err, PS_RESOURCE_EXHAUSTED, "%s: no memory for %s", k->what, what);
    }
}

/* A text that has a place of its own. */
static void text_in(struct psd_codec *k, char *place, size_t max)
{
    const char *text = place;
    psd_code_name(k, &text, max);
    if (reads(k) && good(k)) {
        memcpy(place, text, strlen(text) + 1);
    }
}

/* Bytes that lie where they are kept. */
static void bytes_in(struct psd_codec *k, void *p, uint64_t n)
{
    psd_code_align(k);
    psd_code_raw(k, p, n);
}

/* ---- the file ---- */

void psd_entry_head(struct psd_codec *k, struct psd_entry_head *h)
{
    PSD_CODE(k, h->magic);
    PSD_CODE(k, h->version);
    PSD_CODE(k, h->task);
    PSD_CODE(k, h->number);
    text_in(k, h->cluster, PS_JOB_BYTES_MAX);
    text_in(k, h->job, PS_JOB_BYTES_MAX);
}

void psd_entry_file(struct psd_codec *k, struct psd_entry_file *f)
{
    PSD_CODE(k, f->file);
    PSD_CODE(k, f->header_sum);
    PSD_CODE(k, f->bytes);
    PSD_CODE(k, f->header_bytes);
    text_in(k, f->container, PS_CONTAINER_BYTES_MAX);
}

void psd_entry_sums(struct psd_codec *k, struct psd_entry_sums *s)
{
    PSD_CODE(k, s->creation);
    PSD_CODE(k, s->which);
    PSD_CODE(k, s->count);
    PSD_CODE(k, s->first);
    s->sums = psd_code_array(k, s->sums, s->count, sizeof(*s->sums));
}

void psd_entry_end(struct psd_codec *k, struct psd_entry_end *e)
{
    PSD_CODE(k, e->count);
    PSD_CODE(k, e->sum);
}

/* ---- the task, containers, variables ---- */

void psd_entry_task(struct psd_codec *k, struct psd_task *t)
{
    PSD_CODE(k, t->position);
    PSD_CODE(k, t->chief_number);
    PSD_CODE(k, t->store.next_order);
    if (reads(k)) {
        t->store.next_handle = t->store.next_order; /* before it is placed each has its order for a handle */
    }
    PSD_CODE(k, t->store.dropped);
    PSD_CODE(k, t->names.forgotten);
}

void psd_entry_container(struct psd_codec *k, const struct psd_container *c)
{
    const char *name = reads(k) ? NULL : c->name;
    uint64_t incarnation = reads(k) ? 0 : c->incarnation;
    struct psd_container *made = NULL;
    psd_code_name(k, &name, PS_CONTAINER_BYTES_MAX);
    PSD_CODE(k, incarnation);
    if (!reads(k) || !good(k)) {
        return;
    }
    if (psd_container_find(&k->task->store, name) != NULL) {
        psd_code_wrong(k, "a container comes twice");
        return;
    }
    k->st = psd_container_reserve(&k->task->store, name, &made, k->err);
    if (good(k)) {
        psd_container_add(&k->task->store, made, incarnation);
    }
}

static struct psd_variable *make_variable(struct psd_codec *k, const struct psd_container *c, const char *name,
                                          const struct psd_definition *d, uint64_t creation, uint32_t order)
{
    struct psd_store *s = &k->task->store;
    struct psd_variable *v = NULL;
    if (!good(k)) {
        return NULL;
    }
    if (psd_definition_check(d, name, NULL) != PS_OK || psd_variable_find(c, name) != NULL || order == 0 ||
        order >= s->next_order || psd_variable_by_handle(s, order) != NULL || psd_variable_by_creation(s, creation) != NULL) {
        psd_code_wrong(k, "a variable that cannot be");
        return NULL;
    }
    k->st = psd_variable_reserve(s, c, name, d, &v, k->err);
    if (good(k) && d->queue) {
        if (psi_queue_spec_check(&k->storage->queue, NULL) != PS_OK) {
            psd_code_wrong(k, "a queue that cannot be");
        } else {
            v->queue = psd_queue_new(s, v, &k->storage->queue);
        }
        if (v->queue == NULL) {
            psd_variable_unref(s, v);
            no_memory(k, "a queue");
        }
    }
    if (!good(k)) {
        return NULL;
    }
    uint32_t next = s->next_handle;
    v->order = s->next_handle = order;
    psd_variable_add(s, psd_container_own(c), v, creation);
    s->next_handle = next;
    return v;
}

ps_status psd_entry_value(struct psd_store *s, const struct psd_variable *of, struct psi_err *err)
{
    struct psd_variable *v = psd_variable_own(of);
    v->value = psd_arena_alloc_raw(&s->arena, v->bytes);
    return v->value != NULL ? psd_variable_reserve_slots(s, v, err)
                            : psi_fail(err, PS_RESOURCE_EXHAUSTED, "variable '%s': no memory for its value", v->name);
}

/* Its value takes `bytes`. */
static void take_value(struct psd_codec *k, struct psd_variable *v, uint64_t bytes)
{
    struct psd_store *s = &k->task->store;
    if (v->dtype == PS_STRING ? psi_blob_size_check(bytes, v->elements, NULL) != PS_OK : bytes != v->bytes) {
        psd_code_wrong(k, "a value of a length that it cannot have");
        return;
    }
    if (v->queue != NULL) {
        psd_code_wrong(k, "a queue with a value");
        return;
    }
    if (bytes != v->bytes) { /* only a value of strings changes its size */
        s->promised_bytes -= psd_arena_bytes(v->bytes);
        psd_variable_resize(s, v, bytes);
        if (!psd_store_promise(s, bytes)) {
            s->promised_bytes += psd_arena_bytes(bytes); /* freeing v gives these bytes back */
            no_memory(k, "a value");
            return;
        }
    }
}

/* done: write the element like one that was done at the instant of the cut. `deliveries` counts again from there, so 0 is
 * written; files of an older psd had the count. */
static void element(struct psd_codec *k, struct psd_element **e, bool done)
{
    uint64_t bytes = reads(k) ? 0 : (*e)->bytes;
    uint64_t serial = reads(k) ? 0 : (*e)->serial;
    uint32_t deliveries = reads(k) || done ? 0 : (*e)->deliveries;
    PSD_CODE(k, serial);
    PSD_CODE(k, bytes);
    PSD_CODE(k, deliveries);
    psd_code_align(k);
    if (reads(k)) {
        if (good(k) && bytes > k->left) {
            psd_code_wrong(k, "the end of an element is missing");
        }
        *e = good(k) ? psd_element_new(&k->task->store, bytes) : NULL;
        if (*e == NULL) {
            no_memory(k, "an element");
            return;
        }
        (*e)->serial = serial;
        (*e)->deliveries = done ? 0 : deliveries;
    }
    psd_code_raw(k, (*e)->data, bytes);
}

/* Fits e the queue? Otherwise it goes. */
static bool fits(struct psd_codec *k, const struct psd_queue *q, struct psd_element *e)
{
    bool sum = q->spec.kind == PSI_QUEUE_ACCUMULATOR;
    if (good(k) && psi_tuple_check(&q->spec, e->data, e->bytes, NULL) == PS_OK && e->serial != 0 &&
        (sum || e->serial < q->next_serial)) {
        return true;
    }
    psd_code_wrong(k, "an element that its queue cannot have");
    psd_element_free(&k->task->store, e);
    return false;
}

static void queue(struct psd_codec *k, struct psd_queue *q)
{
    bool sum = !reads(k) && q->sum != NULL;
    uint64_t size = reads(k) ? 0 : q->size, done = reads(k) ? 0 : q->done, taken = reads(k) ? 0 : q->taken;
    PSD_CODE(k, size);
    PSD_CODE(k, done);
    PSD_CODE(k, taken);
    PSD_CODE(k, q->next_serial);
    PSD_CODE(k, q->draws);
    PSD_CODE(k, q->fill_hash);
    PSD_CODE(k, q->step);
    PSD_CODE(k, q->epoch);
    psd_code_flag(k, &q->closed);
    psd_code_flag(k, &q->filled);
    psd_code_flag(k, &sum);
    if (sum && q->spec.kind != PSI_QUEUE_ACCUMULATOR) {
        psd_code_wrong(k, "the sum of a queue that has none");
    } else if (sum) {
        struct psd_element *e = reads(k) ? NULL : q->sum;
        element(k, &e, false);
        if (reads(k) && e != NULL && fits(k, q, e)) {
            q->sum = e;
            q->bytes += e->bytes;
        }
    }
    if (!reads(k) || !good(k)) {
        return;
    }
    uint64_t items = q->next_serial - 1;
    bool steps = q->spec.kind == PSI_QUEUE_ACCUMULATOR;
    if (q->next_serial == 0 || q->step < 0 || q->step > (steps ? PSI_STEP_MAX : 0) || size > UINT32_MAX || taken > UINT32_MAX ||
        done > UINT32_MAX || (q->spec.kind == PSI_QUEUE_WORK && items != size + taken + done)) {
        psd_code_wrong(k, "a queue that cannot be");
        return;
    }
    k->st = psd_queue_reserve(&k->task->store, q, q->spec.kind == PSI_QUEUE_SHUFFLE ? size + taken : 0, k->err);
    q->expects = (struct psd_queue_expects){.size = size, .done = done, .taken = taken};
}

static void variable_fields(struct psd_codec *k, struct psd_variable *v, bool *initialised)
{
    PSD_CODE(k, v->version);
    PSD_CODE(k, v->pushes);
    psd_code_flag(k, initialised);
    psd_code_flag(k, &v->sealed);
    psd_code_flag(k, &v->restored);
    psd_code_flag(k, &v->given);
    PSD_CODE(k, v->giver);
    double rate = reads(k) ? 0 : psd_variable_rate_in_cut(v);
    PSD_CODE(k, rate);
    v->rate = reads(k) ? rate : v->rate;
    PSD_CODE(k, v->optim_state);
    PSD_CODE(k, v->init);
    PSD_CODE(k, v->seed);
    PSD_CODE(k, v->chief_number);
    PSD_CODE(k, v->chief_value);
    if (!k->without_pins) {
        PSD_CODE(k, v->pin);
    }
    if (v->queue != NULL) {
        queue(k, v->queue);
    }
}

const struct psd_variable *psd_entry_variable(struct psd_codec *k, const struct psd_variable *v, uint32_t *file)
{
    const struct psd_container *c = reads(k) ? NULL : v->container;
    const char *name = reads(k) ? NULL : v->name;
    uint64_t creation = reads(k) ? 0 : v->creation;
    uint32_t order = reads(k) ? 0 : v->order;
    uint64_t bytes = reads(k) ? 0 : v->bytes;
    bool initialised = !reads(k) && v->initialised;
    struct psd_definition own = {.dtype = PS_DTYPE_NONE};
    if (!reads(k)) {
        own = psd_variable_definition(v);
    }
    const struct psd_definition *d = &own;
    psd_code_container(k, &c);
    psd_code_name(k, &name, PS_NAME_BYTES_MAX);
    psd_code_definition(k, &d);
    if (d->queue) {
        const struct psi_queue_spec *spec = reads(k) ? NULL : &v->queue->spec;
        psd_code_queue_spec(k, &spec);
    }
    PSD_CODE(k, creation);
    PSD_CODE(k, order);
    PSD_CODE(k, *file);
    PSD_CODE(k, bytes);
    struct psd_variable *made = reads(k) ? make_variable(k, c, name, d, creation, order) : psd_variable_own(v);
    if (made == NULL) {
        return NULL;
    }
    variable_fields(k, made, &initialised);
    if (!reads(k) || !good(k)) {
        return made;
    }
    if ((made->sealed && !initialised) || !isfinite(made->rate)) {
        psd_code_wrong(k, "a variable in a state that cannot be");
    } else if (initialised) {
        take_value(k, made, bytes);
        made->initialised = good(k);
    }
    return made;
}

/* ---- queues ---- */

static void place(struct psd_codec *k, struct psd_queue *q, struct psd_element *e, uint64_t index, bool done)
{
    bool work = q->spec.kind == PSI_QUEUE_WORK, shuffles = q->spec.kind == PSI_QUEUE_SHUFFLE;
    if (work && q->array[e->serial - 1] != NULL) {
        psd_code_wrong(k, "an item comes twice");
    } else if (done ? !work : shuffles ? index >= q->expects.size || q->array[index] != NULL : index != q->size) {
        psd_code_wrong(k, "an element out of its order");
    }
    if (!good(k)) {
        psd_element_free(&k->task->store, e);
        return;
    }
    if (work) {
        q->array[e->serial - 1] = e;
    }
    e->state = done ? PSD_ELEMENT_DONE : PSD_ELEMENT_QUEUED;
    q->bytes += e->bytes;
    q->done += done;
    if (!done) {
        psi_list_push_back(&q->elements, &e->link);
        q->size += !shuffles;
    }
    if (shuffles) {
        q->array[index] = e;
        q->expects.placed++;
    }
}

void psd_entry_element(struct psd_codec *k, const struct psd_variable *v, const struct psd_element *e, uint64_t index, bool done)
{
    struct psd_element *made = (struct psd_element *)(uintptr_t)e; /* written, it is only read */
    psd_code_variable(k, &v);
    PSD_CODE(k, index);
    psd_code_flag(k, &done);
    if (reads(k) && good(k) && v->queue == NULL) {
        psd_code_wrong(k, "an element of no queue");
    }
    if (!good(k)) {
        return;
    }
    element(k, &made, done);
    if (reads(k) && made != NULL && fits(k, v->queue, made)) {
        place(k, v->queue, made, index, done);
    }
}

static void check_queue(struct psd_codec *k, struct psd_queue *q)
{
    if (q->spec.kind == PSI_QUEUE_SHUFFLE && q->expects.placed == q->expects.size) { /* no place is empty */
        q->size = q->expects.size;
        while (psi_list_pop_front(&q->elements) != NULL) {
        }
    }
    if (q->size != q->expects.size || q->done != q->expects.done || q->taken != q->expects.taken) {
        psd_code_wrong(k, "elements of a queue are missing");
    }
}

void psd_entry_complete(struct psd_codec *k)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_u64_map_next(&k->task->store.handles, &cursor, NULL, &value)) {
        const struct psd_variable *v = value;
        if (v->queue != NULL) {
            check_queue(k, v->queue);
        }
    }
}

/* ---- records ---- */

static void number(struct psd_codec *k, struct psd_number *n)
{
    const char *text = n->text;
    PSD_CODE(k, n->offset);
    PSD_CODE(k, n->position);
    PSD_CODE(k, n->version);
    PSD_CODE(k, n->incarnation);
    PSD_CODE(k, n->state);
    PSD_CODE(k, n->applied);
    PSD_CODE(k, n->status);
    PSD_CODE(k, n->reason);
    PSD_CODE(k, n->result_bytes);
    if (n->result_bytes > sizeof(n->result) || n->state < PS_NUMBER_APPLIED || n->state > PS_NUMBER_ABANDONED) {
        psd_code_wrong(k, "an outcome that is none");
        return;
    }
    psd_code_raw(k, n->result, n->result_bytes);
    psd_code_text(k, &text, PSI_ERR_TEXT_MAX);
    if (reads(k) && good(k) && text != NULL) {
        n->text = psi_strndup(text, strlen(text));
        if (n->text == NULL) {
            no_memory(k, "a text");
        }
    }
}

static struct psd_number *new_number(struct psd_codec *k, struct psd_record *r, uint64_t of)
{
    if (!good(k)) {
        return NULL;
    }
    if (of == 0 || of == UINT64_MAX || r->numbers[of % PS_WINDOW].number != 0) {
        psd_code_wrong(k, "a number that comes twice");
        return NULL;
    }
    return psd_record_put(r, of);
}

static void numbers(struct psd_codec *k, struct psd_record *r)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < PS_WINDOW; i++) {
        count += r->numbers[i].number != 0;
    }
    PSD_CODE(k, count);
    for (uint32_t i = 0, place_of = 0; good(k) && i < count; i++, place_of++) {
        while (!reads(k) && r->numbers[place_of].number == 0) {
            place_of++;
        }
        uint64_t of = reads(k) ? 0 : r->numbers[place_of].number;
        PSD_CODE(k, of);
        struct psd_number *n = reads(k) ? new_number(k, r, of) : &r->numbers[place_of];
        if (n == NULL) {
            return;
        }
        number(k, n);
        r->text_bytes += reads(k) && n->text != NULL ? (uint32_t)strlen(n->text) + 1 : 0;
    }
    if (r->text_bytes > PSD_RECORD_TEXT_BYTES) {
        psd_code_wrong(k, "too many texts");
    }
}

static void stage(struct psd_codec *k, struct psd_progress *p)
{
    struct psd_store *s = &k->task->store;
    p->staging_bytes = psd_progress_staging_bytes(p);
    if (psd_progress_stages(p)) {
        bool first = !p->variable->initialised; /* otherwise its value is to come */
        p->staging = first ? psd_variable_stage_first(s, p->variable, p->staging_bytes) : NULL;
        p->staging = p->staging != NULL ? p->staging : psd_store_stage(s, p->staging_bytes);
        if (p->staging == NULL) {
            no_memory(k, "what a push has staged");
        }
    }
}

/* p is read: what begins with it. */
static void resume(struct psd_codec *k, struct psd_record *r, struct psd_progress *p)
{
    struct psd_number *n = psd_number_own(psd_record_find(r, p->number));
    if (!good(k) || n == NULL || n->state != PS_NUMBER_IN_PROGRESS || n->progress != NULL || n->offset >= p->total ||
        !psd_progress_fits(p)) {
        psd_code_wrong(k, "a push in progress that cannot be");
        psd_progress_free(k->task, p);
        return;
    }
    p->unit = psi_wire_unit((ps_dtype)p->wire);
    stage(k, p);
    n->progress = p;
    psi_list_push_back(&r->progress, &p->link);
    r->progress_count++;
    k->task->progress_count++;
    if (psd_progress_streams(p)) {
        psd_variable_own(p->variable)->in_progress++;
    }
}

static void progress(struct psd_codec *k, struct psd_record *r, struct psd_progress *p)
{
    const struct psd_variable *v = reads(k) ? NULL : p->variable;
    psd_code_variable(k, &v);
    if (reads(k)) {
        p = good(k) ? psd_progress_new(k->task, v) : NULL;
        if (p == NULL) {
            no_memory(k, "a push in progress");
            return;
        }
    }
    PSD_CODE(k, p->number);
    PSD_CODE(k, p->scalars);
    PSD_CODE(k, p->total);
    PSD_CODE(k, p->scale);
    PSD_CODE(k, p->kind);
    PSD_CODE(k, p->wire);
    psd_code_flag(k, &p->init_only);
    PSD_CODE(k, p->chief_number);
    PSD_CODE(k, p->member);
    PSD_CODE(k, p->round);
    if (reads(k)) {
        resume(k, r, p);
    }
}

static void progresses(struct psd_codec *k, struct psd_record *r)
{
    uint32_t count = r->progress_count;
    struct psi_list *it = r->progress.next;
    PSD_CODE(k, count);
    for (uint32_t i = 0; good(k) && i < count; i++) {
        progress(k, r, reads(k) ? NULL : PSI_CONTAINER_OF(it, struct psd_progress, link));
        it = reads(k) ? it : it->next;
    }
    for (uint32_t i = 0; reads(k) && good(k) && i < PS_WINDOW; i++) {
        if (r->numbers[i].state == PS_NUMBER_IN_PROGRESS && r->numbers[i].progress == NULL) {
            psd_code_wrong(k, "a number in progress without its push");
        }
    }
}

static void take(struct psd_codec *k, struct psd_attempt *a)
{
    struct psd_queue *q = a->variable->queue;
    struct psd_element *e = NULL;
    bool work = q->spec.kind == PSI_QUEUE_WORK;
    element(k, &e, false);
    if (e == NULL || !fits(k, q, e)) {
        return;
    }
    if ((work && q->array[e->serial - 1] != NULL) || q->taken == q->expects.taken) {
        psd_code_wrong(k, "an element is taken twice");
        psd_element_free(&k->task->store, e);
        return;
    }
    if (work) {
        q->array[e->serial - 1] = e;
    }
    e->state = PSD_ELEMENT_TAKEN;
    psi_list_push_back(&a->elements, &e->link);
    a->element_count++;
    a->bytes += e->bytes;
    q->taken++;
    q->bytes += e->bytes;
}

static void taken(struct psd_codec *k, struct psd_attempt *a)
{
    uint64_t count = reads(k) ? 0 : a->element_count;
    struct psi_list *it = a->elements.next;
    PSD_CODE(k, count);
    for (uint64_t i = 0; good(k) && i < count; i++) {
        if (reads(k)) {
            take(k, a);
        } else {
            struct psd_element *e = PSI_CONTAINER_OF(it, struct psd_element, link);
            element(k, &e, false);
            it = it->next;
        }
    }
}

static struct psd_attempt *new_attempt(struct psd_codec *k, struct psd_record *r, const struct psd_variable *v, uint64_t id)
{
    if (!good(k)) {
        return NULL;
    }
    if (v->queue == NULL || psd_attempt_find(r, id) != NULL) {
        psd_code_wrong(k, "an attempt that cannot be");
        return NULL;
    }
    struct psd_attempt *a = psd_attempt_new(&k->task->store);
    if (a == NULL) {
        no_memory(k, "an attempt");
        return NULL;
    }
    psd_attempt_begin(a, r, id, v);
    return a;
}

static void attempt(struct psd_codec *k, struct psd_record *r, struct psd_attempt *a)
{
    const struct psd_variable *v = reads(k) ? NULL : a->variable;
    uint64_t id = reads(k) ? 0 : a->id;
    psd_code_variable(k, &v);
    PSD_CODE(k, id);
    if (reads(k)) {
        a = new_attempt(k, r, v, id);
    }
    if (a == NULL) {
        return;
    }
    PSD_CODE(k, a->inserted);
    psd_code_flag(k, &a->done);
    psd_code_flag(k, &a->held);
    taken(k, a);
    if (a->held && (!a->done || a->element_count == 0 || v->queue->spec.kind != PSI_QUEUE_WORK)) {
        psd_code_wrong(k, "an attempt that cannot hold anything");
    }
}

static void attempts(struct psd_codec *k, struct psd_record *r)
{
    uint32_t count = 0;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &r->attempts) {
        count += !PSI_CONTAINER_OF(it, struct psd_attempt, link)->variable->gone;
    }
    PSD_CODE(k, count);
    if (reads(k)) {
        for (uint32_t i = 0; good(k) && i < count; i++) {
            attempt(k, r, NULL);
        }
        return;
    }
    PSI_LIST_FOREACH(it, &r->attempts) {
        struct psd_attempt *a = PSI_CONTAINER_OF(it, struct psd_attempt, link);
        if (!a->variable->gone) {
            attempt(k, r, a);
        }
    }
}

static struct psd_record *new_record(struct psd_codec *k, const uint8_t session[16], uint64_t name)
{
    struct psi_map *records = &k->task->records;
    if (!good(k)) {
        return NULL;
    }
    if (psi_map_find(records, session, 16) != NULL) {
        psd_code_wrong(k, "a session comes twice");
        return NULL;
    }
    struct psd_record *r = psd_record_new(session, name);
    if (r == NULL || psi_map_put(records, r->session, sizeof(r->session), r, NULL, NULL) != PS_OK) {
        psd_record_free(r);
        no_memory(k, "a session");
        return NULL;
    }
    psd_store_count(&k->task->store, PSD_MEMORY_SESSIONS, PSD_RECORD_BYTES);
    return r;
}

void psd_entry_record(struct psd_codec *k, const struct psd_record *given)
{
    struct psd_record *r = (struct psd_record *)(uintptr_t)given; /* written, it is only read */
    uint8_t session[sizeof(r->session)] = {0};
    uint64_t name = reads(k) ? 0 : r->name;
    if (!reads(k)) {
        memcpy(session, r->session, sizeof(session));
    }
    PSD_CODE(k, session);
    PSD_CODE(k, name);
    if (reads(k)) {
        r = new_record(k, session, name);
    }
    if (r != NULL) {
        numbers(k, r);
        progresses(k, r);
        attempts(k, r);
    }
}

void psd_entry_staged(struct psd_codec *k, const uint8_t session[16], uint64_t of, uint64_t offset, const void *p, uint64_t n)
{
    uint8_t id[16] = {0};
    if (!reads(k)) {
        memcpy(id, session, sizeof(id));
    }
    PSD_CODE(k, id);
    PSD_CODE(k, of);
    PSD_CODE(k, offset);
    PSD_CODE(k, n);
    if (!reads(k) || !good(k)) {
        bytes_in(k, (void *)(uintptr_t)p, n); /* it is only read */
        return;
    }
    const struct psd_record *r = psi_map_find(&k->task->records, id, sizeof(id));
    const struct psd_number *found = r == NULL ? NULL : psd_record_find(r, of);
    struct psd_progress *g = found == NULL ? NULL : found->progress;
    if (g == NULL || g->staging == NULL || n > g->staging_bytes || offset > g->staging_bytes - n) {
        psd_code_wrong(k, "bytes of no push in progress");
        return;
    }
    bytes_in(k, (uint8_t *)g->staging + offset, n);
}

/* ---- the directory ---- */

void psd_entry_chief(struct psd_codec *k, const struct psd_chief *c)
{
    struct psd_chief own = {.number = 0}, *made = NULL;
    if (!reads(k)) {
        own = *c;
    }
    text_in(k, own.container, PS_CONTAINER_BYTES_MAX);
    PSD_CODE(k, own.number);
    text_in(k, own.text, sizeof(own.text) - 1);
    PSD_CODE(k, own.session);
    if (!reads(k) || !good(k)) {
        return;
    }
    if (psd_chief_find(&k->task->chiefs, own.container) != NULL) {
        psd_code_wrong(k, "a chief comes twice");
        return;
    }
    k->st = psd_chief_reserve(&k->task->chiefs, own.container, false, &made, k->err);
    if (good(k)) {
        *made = own;
        ps_status st = psi_map_put(&k->task->chiefs, made->container, strlen(made->container), made, NULL, NULL);
        PSI_ASSERT(st == PS_OK); /* reserved */
        psd_store_count(&k->task->store, PSD_MEMORY_CONTAINERS, PSD_CHIEF_BYTES);
    }
}

/* A task of the cluster, by its name. Read, t->peer_count or more: the cluster had it then and does not any more. */
static void peer(struct psd_codec *k, const struct psd_task *t, uint32_t *index)
{
    const char *job = reads(k) ? NULL : t->peers[*index].job;
    uint32_t task = reads(k) ? 0 : t->peers[*index].task;
    psd_code_name(k, &job, PS_JOB_BYTES_MAX);
    PSD_CODE(k, task);
    if (reads(k) && good(k)) {
        *index = psi_cluster_task_number(&t->cluster, job, task);
    }
}

void psd_entry_name(struct psd_codec *k, const struct psd_task *t, const struct psd_name *n)
{
    const char *container = reads(k) ? NULL : n->container, *name = reads(k) ? NULL : n->name;
    const struct psd_definition defined = reads(k) ? (struct psd_definition){.queue = false} : psd_name_definition(n);
    const struct psd_definition *d = &defined;
    uint32_t owner = reads(k) ? 0 : n->owner;
    struct psd_name *made = NULL;
    psd_code_name(k, &container, PS_CONTAINER_BYTES_MAX);
    psd_code_name(k, &name, PS_NAME_BYTES_MAX);
    psd_code_definition(k, &d);
    peer(k, t, &owner);
    if (!reads(k) || !good(k) || owner >= t->peer_count) {
        return;
    }
    if (psd_directory_find(&k->task->names, container, name) != NULL) {
        psd_code_wrong(k, "a name comes twice");
        return;
    }
    k->st = psd_name_reserve(&k->task->names, container, name, d, &made, k->err);
    if (good(k)) {
        psd_directory_record(&k->task->names, container, name, d, owner, made);
    }
}

void psd_entry_reset(struct psd_codec *k, const struct psd_task *t, const struct psd_reset *r)
{
    struct psd_reset *made = (struct psd_reset *)(uintptr_t)r; /* written, it is only read */
    if (reads(k)) {
        made = psd_reset_new(t->peer_count);
        if (made == NULL) {
            no_memory(k, "a reset");
            return;
        }
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        count += made->outstanding[i] || made->owed[i];
    }
    text_in(k, made->container, PS_CONTAINER_BYTES_MAX);
    if (reads(k)) {
        psd_resets_add(&k->task->resets, made);
    }
    psd_code_flag(k, &made->pending);
    PSD_CODE(k, count);
    for (uint32_t i = 0, at = 0; good(k) && i < count; i++, at++) {
        while (!reads(k) && !made->outstanding[at] && !made->owed[at]) {
            at++;
        }
        uint32_t index = at;
        bool outstanding = !reads(k) && made->outstanding[at], owed = !reads(k) && made->owed[at];
        peer(k, t, &index);
        psd_code_flag(k, &outstanding);
        psd_code_flag(k, &owed);
        if (reads(k) && good(k) && index < t->peer_count) {
            made->outstanding[index] = outstanding;
            made->owed[index] = owed;
        }
    }
}

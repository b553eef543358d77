/* SPDX-License-Identifier: Apache-2.0 */
/* The reading half of entry.h. Happy path: an entry is read into its structure of common/state_rows.h and checked; its variable,
 * queue or record is made with the memory that a creation would have reserved. Failure: DATA_LOSS if an entry does not fit. */
#include "entry.h"

#include "mutate.h"
#include "rows.h"
#include "psd/state.h"

#include "common/blob.h"
#include "common/mem.h"
#include "common/name.h"
#include "common/optimizer.h"
#include "common/sparse.h"
#include "common/tuple.h"

#include <math.h>
#include <string.h>

static bool good(const struct psi_code *k)
{
    return k->st == PS_OK;
}

static void no_memory(struct psi_code *k, const char *what)
{
    if (good(k)) {
        k->st = psi_fail(k->err, PS_RESOURCE_EXHAUSTED, "%s: no memory for %s", k->what, what);
    }
}

/* Find the variable with this creation number, which an earlier entry has made. NULL: no such variable, or k has failed. */
static const struct psd_variable *variable_of(struct psi_code *k, const struct psd_task *t, uint64_t creation)
{
    const struct psd_variable *v = good(k) ? psd_variable_by_creation(&t->store, creation) : NULL;
    if (v == NULL) {
        psi_code_wrong(k, "its variable is not known");
    }
    return v;
}

/* Check names by the rules that hold for those of a request; variable: NULL, where only a container is named. */
static void check_names(struct psi_code *k, const char *container, const char *variable)
{
    if (good(k) && (psi_container_name_check(container, strlen(container), NULL) != PS_OK ||
                    (variable != NULL && psi_variable_name_check(variable, strlen(variable), NULL) != PS_OK))) {
        psi_code_wrong(k, "a name that is none");
    }
}

static void take_task(struct psi_code *k, struct psd_task *t)
{
    struct psi_state_task x = {.position = 0};
    psi_state_task(k, &x);
    if (good(k) && (x.next_order == 0 || x.chief_number > PS_CHIEF_NUMBER_MAX)) {
        psi_code_wrong(k, "numbers that no task has");
    }
    t->position = x.position;
    t->chief_number = x.chief_number;
    /* a loaded variable's handle is its psd_variable.order; the serving task that takes the variable over gives it a new one */
    t->store.next_order = t->store.next_handle = x.next_order;
    t->store.dropped = x.dropped;
    t->names.forgotten = x.forgotten;
}

static void take_container(struct psi_code *k, struct psd_task *t)
{
    struct psi_state_container x = {.name = NULL};
    struct psd_container *made = NULL;
    psi_state_container(k, &x);
    check_names(k, x.name, NULL);
    if (!good(k)) {
        return;
    }
    if (psd_container_find(&t->store, x.name) != NULL) {
        psi_code_wrong(k, "a container comes twice");
        return;
    }
    k->st = psd_container_reserve(&t->store, x.name, &made, k->err);
    if (good(k)) {
        psd_container_add(&t->store, made, x.incarnation);
    }
}

static struct psd_variable *make_variable(struct psi_code *k, struct psd_task *t, const struct psi_state_variable *x)
{
    struct psd_store *s = &t->store;
    struct psd_variable *v = NULL;
    const struct psd_definition d = {.dtype = (ps_dtype)x->dtype,
                                     .shape = x->shape,
                                     .optimizer = x->optimizer,
                                     .atomic = x->atomic,
                                     .queue = x->queue,
                                     .part = x->part};
    const struct psd_container *c = psd_container_find(s, x->container);
    if (c == NULL || psd_definition_check(&d, x->name, NULL) != PS_OK || psd_variable_find(c, x->name) != NULL || x->order == 0 ||
        x->order >= s->next_order || psd_variable_by_handle(s, x->order) != NULL ||
        psd_variable_by_creation(s, x->creation) != NULL || (x->sealed && !x->initialised) || !isfinite(x->rate)) {
        psi_code_wrong(k, "a variable that cannot be");
        return NULL;
    }
    if (x->queue && psi_queue_spec_check(&x->spec, NULL) != PS_OK) {
        psi_code_wrong(k, "a queue that cannot be");
        return NULL;
    }
    k->st = psd_variable_reserve(s, c, x->name, &d, &v, k->err);
    if (good(k) && x->queue) {
        v->queue = psd_queue_new(s, v, &x->spec);
        if (v->queue == NULL) {
            psd_variable_unref(s, v);
            no_memory(k, "a queue");
        }
    }
    if (!good(k)) {
        return NULL;
    }
    uint32_t next = s->next_handle;
    v->order = s->next_handle = x->order;
    psd_variable_add(s, psd_container_own(c), v, x->creation);
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

/* Check that v can have a value of this size, and set the size. */
static void take_value(struct psi_code *k, struct psd_store *s, struct psd_variable *v, uint64_t bytes)
{
    if (v->dtype == PS_STRING ? psi_blob_size_check(bytes, v->elements, NULL) != PS_OK : bytes != v->bytes) {
        psi_code_wrong(k, "a value of a length that it cannot have");
        return;
    }
    if (v->queue != NULL) {
        psi_code_wrong(k, "a queue with a value");
        return;
    }
    if (bytes != v->bytes) { /* only a value of strings may have another size than its variable was made with */
        s->promised_bytes -= psd_arena_bytes(v->bytes);
        psd_variable_resize(s, v, bytes);
        if (!psd_store_promise(s, bytes)) {
            s->promised_bytes += psd_arena_bytes(bytes); /* freeing v subtracts these bytes */
            no_memory(k, "a value");
            return;
        }
    }
}

/* Make an element from x. NULL: the element does not fit q, or there is no memory; k->st says which. */
static struct psd_element *make_element(struct psi_code *k, struct psd_store *s, const struct psd_queue *q,
                                        const struct psi_state_element *x)
{
    const bool sum = psi_queue_accumulates(q->spec.kind), sparse = q->spec.kind == PSI_QUEUE_SPARSE_ACCUMULATOR;
    if (!good(k)) {
        return NULL;
    }
    const ps_status st = sparse ? psi_sparse_check(&q->spec, x->data, x->bytes, x->serial, NULL)
                                : psi_tuple_check(&q->spec, x->data, x->bytes, NULL);
    if (st != PS_OK || x->serial == 0 || (sum ? x->serial > PSI_STEP_MAX : x->serial >= q->next_serial)) {
        psi_code_wrong(k, "an element that its queue cannot have");
        return NULL;
    }
    struct psd_element *e = psd_element_new(s, x->bytes);
    if (e == NULL) {
        no_memory(k, "an element");
        return NULL;
    }
    memcpy(e->data, x->data, x->bytes);
    e->serial = x->serial;
    e->deliveries = x->deliveries;
    return e;
}

static void fill_queue(struct psi_code *k, struct psd_store *s, struct psd_queue *q, const struct psi_state_queue *x)
{
    bool steps = psi_queue_accumulates(q->spec.kind);
    if (x->next_serial == 0 || x->next_serial > PSI_STEP_MAX || x->step < 0 || x->step > (steps ? PSI_STEP_MAX : 0) ||
        (x->has_sum && !steps) ||
        (q->spec.kind == PSI_QUEUE_WORK &&
         (x->next_serial - 1 != x->size + x->taken + x->done || (!x->filled && x->taken + x->done > 0)))) {
        psi_code_wrong(k, "a queue that cannot be");
        return;
    }
    q->next_serial = x->next_serial;
    q->draws = x->draws;
    q->fill_hash = x->fill_hash;
    q->step = x->step;
    q->epoch = x->epoch;
    q->closed = x->closed;
    q->filled = x->filled;
    q->sum = x->has_sum ? make_element(k, s, q, &x->sum) : NULL;
    q->bytes += q->sum != NULL ? q->sum->bytes : 0;
    if (good(k)) {
        k->st = psd_queue_reserve(s, q, q->spec.kind == PSI_QUEUE_SHUFFLE ? x->size + x->taken : 0, k->err);
    }
    q->expects = (struct psd_queue_expects){.size = x->size, .done = x->done, .taken = x->taken};
}

const struct psd_variable *psd_entry_take_variable(struct psi_code *k, struct psd_task *t, uint32_t *out_file)
{
    struct psi_state_variable x = {.container = NULL};
    psi_state_variable(k, &x);
    check_names(k, x.container, x.name);
    struct psd_variable *v = good(k) ? make_variable(k, t, &x) : NULL;
    if (v == NULL) {
        return NULL;
    }
    v->version = x.version;
    v->pushes = x.pushes;
    v->sealed = x.sealed;
    v->restored = x.restored;
    v->given = x.given;
    memcpy(v->giver, x.giver, sizeof(v->giver));
    v->rate = x.rate;
    memcpy(v->optim_state.powers, x.powers, sizeof(x.powers));
    v->init = x.init;
    v->seed = x.seed;
    v->chief_number = x.chief_number;
    v->chief_value = x.chief_value;
    v->pin = x.pin;
    v->step = x.step;
    if (v->queue != NULL) {
        fill_queue(k, &t->store, v->queue, &x.state);
    }
    if (good(k) && x.initialised) {
        take_value(k, &t->store, v, x.bytes);
        v->initialised = good(k);
    }
    *out_file = x.file;
    return v;
}

static void place(struct psi_code *k, struct psd_store *s, struct psd_queue *q, struct psd_element *e, uint64_t index, bool done)
{
    bool work = q->spec.kind == PSI_QUEUE_WORK, shuffles = q->spec.kind == PSI_QUEUE_SHUFFLE;
    if (work && q->array[e->serial - 1] != NULL) {
        psi_code_wrong(k, "an item comes twice");
    } else if (done ? !work : shuffles ? index >= q->expects.size || q->array[index] != NULL : index != q->size) {
        psi_code_wrong(k, "an element out of its order");
    }
    if (!good(k)) {
        psd_element_free(s, e);
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

static void take_element(struct psi_code *k, struct psd_task *t)
{
    struct psi_state_queued x = {.creation = 0};
    psi_state_queued(k, &x);
    const struct psd_variable *v = variable_of(k, t, x.creation);
    if (v != NULL && v->queue == NULL) {
        psi_code_wrong(k, "an element of no queue");
    }
    /* files of an older version have deliveries of done items too; the next epoch counts from 0 */
    x.element.deliveries = x.done ? 0 : x.element.deliveries;
    struct psd_element *e = good(k) ? make_element(k, &t->store, v->queue, &x.element) : NULL;
    if (e != NULL) {
        place(k, &t->store, v->queue, e, x.index, x.done);
    }
}

static void check_queue(struct psi_code *k, struct psd_queue *q)
{
    if (q->spec.kind == PSI_QUEUE_SHUFFLE && q->expects.placed == q->expects.size) { /* all elements of the array are read */
        q->size = q->expects.size;
        while (psi_list_pop_front(&q->elements) != NULL) {
        }
    }
    if (q->size != q->expects.size || q->done != q->expects.done || q->taken != q->expects.taken) {
        psi_code_wrong(k, "elements of a queue are missing");
    }
}

/* Check rows that pushes of r have staged: they are applied later without another look at their indices. */
static void check_staged(struct psi_code *k, const struct psd_record *r)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &r->progress) {
        const struct psd_progress *p = PSI_CONTAINER_OF(it, struct psd_progress, link);
        if (p->staging != NULL && psd_push_is_rows(p->kind) && !psd_rows_staged(p, psd_record_find(r, p->number)->offset)) {
            psi_code_wrong(k, "rows of a push in progress that cannot be");
        }
    }
}

void psd_entry_complete(struct psi_code *k, const struct psd_task *t)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_u64_map_next(&t->store.handles, &cursor, NULL, &value)) {
        const struct psd_variable *v = value;
        if (v->queue != NULL) {
            check_queue(k, v->queue);
        }
    }
    for (cursor = 0; psi_map_next(&t->records, &cursor, NULL, NULL, &value);) {
        check_staged(k, value);
    }
}

static void take_outcome(struct psi_code *k, struct psd_record *r)
{
    struct psi_state_outcome x = {.number = 0};
    psi_state_outcome(k, &x);
    if (!good(k)) {
        return;
    }
    if (x.number == 0 || x.number == UINT64_MAX || r->numbers[x.number % PS_WINDOW].number != 0 || x.state < PS_NUMBER_APPLIED) {
        psi_code_wrong(k, "an outcome that is none, or comes twice");
        return;
    }
    struct psd_number *n = psd_record_put(r, x.number);
    n->offset = x.offset;
    n->position = x.position;
    n->version = x.version;
    n->incarnation = x.incarnation;
    n->state = x.state;
    n->applied = x.applied;
    n->status = x.status;
    n->reason = x.reason;
    n->result_bytes = x.result_bytes;
    memcpy(n->result, x.result, x.result_bytes);
    if (x.text != NULL) {
        n->text = psi_strndup(x.text, strlen(x.text));
        r->text_bytes += (uint32_t)strlen(x.text) + 1;
    }
    if (x.text != NULL && n->text == NULL) {
        no_memory(k, "a text");
    } else if (r->text_bytes > PSD_RECORD_TEXT_BYTES) {
        psi_code_wrong(k, "too many texts");
    }
}

static void stage(struct psi_code *k, struct psd_store *s, struct psd_progress *p)
{
    p->staging_bytes = psd_progress_staging_bytes(p);
    if (psd_progress_stages(p)) {
        /* the budget has set memory aside for a variable's first value; gathering for any other value needs more memory */
        bool first = !p->variable->initialised;
        p->staging = first ? psd_variable_stage_first(s, p->variable, p->staging_bytes) : NULL;
        p->staging = p->staging != NULL ? p->staging : psd_store_stage(s, p->staging_bytes);
        if (p->staging == NULL) {
            no_memory(k, "what a push has staged");
        }
    }
}

/* True if p, a mutation from the file that fits its variable, is unfinished, as n says: elements of its body have not come, or
 * all have come but elements of the value are still to be changed. */
static bool may_stand(const struct psd_progress *p, const struct psd_number *n)
{
    const double moved = p->scalars.moved;
    if (p->total > 0 && n->offset == p->total && psd_progress_moves_last(p)) {
        return moved >= 0 && moved < (double)(psd_progress_passes(p) * p->total) && (double)(uint64_t)moved == moved;
    }
    return n->offset < p->total && moved == 0 && psd_rows_may_stand(p, n->offset);
}

/* Attach p, a mutation from the file, to its number in r, and reserve its staging memory. DATA_LOSS: p does not fit. */
static void resume(struct psi_code *k, struct psd_task *t, struct psd_record *r, struct psd_progress *p)
{
    struct psd_number *n = psd_number_own(psd_record_find(r, p->number));
    if (!good(k) || n == NULL || n->state != PS_NUMBER_IN_PROGRESS || n->progress != NULL || !psd_progress_fits(p) ||
        !may_stand(p, n)) {
        psi_code_wrong(k, "a push in progress that cannot be");
        psd_progress_free(t, p);
        return;
    }
    p->unit = psd_progress_unit(p);
    stage(k, &t->store, p);
    n->progress = p;
    psi_list_push_back(&r->progress, &p->link);
    r->progress_count++;
    t->progress_count++;
    if (psd_number_may_show(n)) {
        psd_variable_own(p->variable)->in_progress++;
    }
}

#define NUMBER(number) .number = x.scalars.number,
static void take_push(struct psi_code *k, struct psd_task *t, struct psd_record *r)
{
    struct psi_state_push x = {.creation = 0};
    psi_state_push(k, &x);
    const struct psd_variable *v = variable_of(k, t, x.creation);
    struct psd_progress *p = v != NULL ? psd_progress_new(t, v) : NULL;
    if (p == NULL) {
        no_memory(k, "a push in progress");
        return;
    }
    p->number = x.number;
    p->scalars = (struct psd_optim_scalars){PSD_OPTIM_NUMBERS(NUMBER).form = x.scalars.form};
    p->total = x.total;
    p->scale = x.scale;
    p->kind = x.kind;
    p->wire = x.wire;
    p->init_only = x.init_only;
    p->chief_number = x.chief_number;
    p->member = x.member;
    p->round = x.round;
    p->highest = x.highest;
    p->last_index = x.last_index;
    p->step = x.step;
    resume(k, t, r, p);
}

static void take_pushes(struct psi_code *k, struct psd_task *t, struct psd_record *r)
{
    struct psi_state_pushes x = {.count = 0};
    psi_state_pushes(k, &x);
    for (uint32_t i = 0; good(k) && i < x.count; i++) {
        take_push(k, t, r);
    }
    for (uint32_t i = 0; good(k) && i < PS_WINDOW; i++) {
        if (r->numbers[i].state == PS_NUMBER_IN_PROGRESS && r->numbers[i].progress == NULL) {
            psi_code_wrong(k, "a number in progress without its push");
        }
    }
}

static void take_taken(struct psi_code *k, struct psd_store *s, struct psd_attempt *a)
{
    struct psd_queue *q = a->variable->queue;
    bool work = q->spec.kind == PSI_QUEUE_WORK;
    struct psi_state_element x = {.serial = 0};
    psi_state_element(k, &x);
    struct psd_element *e = make_element(k, s, q, &x);
    if (e == NULL) {
        return;
    }
    if ((work && q->array[e->serial - 1] != NULL) || q->taken == q->expects.taken) {
        psi_code_wrong(k, "an element is taken twice");
        psd_element_free(s, e);
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

static void take_attempt(struct psi_code *k, struct psd_task *t, struct psd_record *r)
{
    struct psi_state_attempt x = {.creation = 0};
    psi_state_attempt(k, &x);
    const struct psd_variable *v = variable_of(k, t, x.creation);
    if (v == NULL) {
        return;
    }
    if (v->queue == NULL || psd_attempt_find(r, x.id) != NULL ||
        (x.held && (!x.done || x.count == 0 || v->queue->spec.kind != PSI_QUEUE_WORK))) {
        psi_code_wrong(k, "an attempt that cannot be");
        return;
    }
    struct psd_attempt *a = psd_attempt_new(&t->store);
    if (a == NULL) {
        no_memory(k, "an attempt");
        return;
    }
    psd_attempt_begin(a, r, x.id, v);
    a->inserted = x.inserted;
    a->done = x.done;
    a->held = x.held;
    for (uint64_t i = 0; good(k) && i < x.count; i++) {
        take_taken(k, &t->store, a);
    }
}

static void take_record(struct psi_code *k, struct psd_task *t)
{
    struct psi_state_record x = {.name = 0};
    struct psi_state_attempts attempts = {.count = 0};
    psi_state_record(k, &x);
    if (!good(k)) {
        return;
    }
    if (psi_map_find(&t->records, x.session, sizeof(x.session)) != NULL) {
        psi_code_wrong(k, "a session comes twice");
        return;
    }
    struct psd_record *r = psd_record_new(x.session, x.name);
    if (r == NULL || psi_map_put(&t->records, r->session, sizeof(r->session), r, NULL, NULL) != PS_OK) {
        psd_record_free(r);
        no_memory(k, "a session");
        return;
    }
    psd_store_count(&t->store, PSD_MEMORY_SESSIONS, PSD_RECORD_BYTES);
    if (x.who != NULL) {
        memcpy(r->who, x.who, strlen(x.who) + 1);
    }
    for (uint32_t i = 0; good(k) && i < x.count; i++) {
        take_outcome(k, r);
    }
    take_pushes(k, t, r);
    psi_state_attempts(k, &attempts);
    for (uint32_t i = 0; good(k) && i < attempts.count; i++) {
        take_attempt(k, t, r);
    }
}

static void take_staged(struct psi_code *k, struct psd_task *t)
{
    struct psi_state_staged x = {.number = 0};
    psi_state_staged(k, &x);
    const struct psd_record *r = good(k) ? psi_map_find(&t->records, x.session, sizeof(x.session)) : NULL;
    const struct psd_number *found = r == NULL ? NULL : psd_record_find(r, x.number);
    struct psd_progress *p = found == NULL ? NULL : found->progress;
    if (p == NULL || p->staging == NULL || x.bytes > p->staging_bytes || x.offset > p->staging_bytes - x.bytes) {
        psi_code_wrong(k, "bytes of no push in progress");
        return;
    }
    memcpy((uint8_t *)p->staging + x.offset, x.data, x.bytes);
}

static void take_chief(struct psi_code *k, struct psd_task *t)
{
    struct psi_state_chief x = {.container = NULL};
    struct psd_chief *made = NULL;
    psi_state_chief(k, &x);
    check_names(k, x.container, NULL);
    if (!good(k)) {
        return;
    }
    if (psd_chief_find(&t->chiefs, x.container) != NULL || x.number > PS_CHIEF_NUMBER_MAX) {
        psi_code_wrong(k, "a chief that cannot be, or comes twice");
        return;
    }
    k->st = psd_chief_reserve(&t->chiefs, x.container, false, &made, k->err);
    if (!good(k)) {
        return;
    }
    memcpy(made->container, x.container, strlen(x.container) + 1);
    made->number = x.number;
    memcpy(made->text, x.text, strlen(x.text) + 1);
    memcpy(made->session, x.session, sizeof(made->session));
    ps_status st = psi_map_put(&t->chiefs, made->container, strlen(made->container), made, NULL, NULL);
    PSI_ASSERT(st == PS_OK); /* cannot fail: reserved by psd_chief_reserve() */
    psd_store_count(&t->store, PSD_MEMORY_CONTAINERS, PSD_CHIEF_BYTES);
}

static void take_name(struct psi_code *k, struct psd_task *t)
{
    struct psi_state_name x = {.container = NULL};
    struct psd_name *made = NULL;
    psi_state_name(k, &x);
    check_names(k, x.container, x.name);
    uint32_t owner = good(k) ? psi_cluster_task_number(&t->cluster, x.job, x.task) : t->peer_count;
    if (owner >= t->peer_count) {
        return;
    }
    const struct psd_definition d = {.dtype = (ps_dtype)x.dtype,
                                     .shape = x.shape,
                                     .optimizer = x.optimizer,
                                     .atomic = x.atomic,
                                     .queue = x.queue,
                                     .part = x.part};
    if (psd_directory_find(&t->names, x.container, x.name) != NULL) {
        psi_code_wrong(k, "a name comes twice");
        return;
    }
    if (psi_part_check(&x.part, d.dtype, &x.shape, x.name, NULL) != PS_OK) {
        psi_code_wrong(k, "a part that cannot be");
        return;
    }
    k->st = psd_name_reserve(&t->names, x.container, x.name, &d, &made, k->err);
    if (good(k)) {
        psd_directory_record(&t->names, x.container, x.name, &d, owner, made);
    }
}

static void take_reset(struct psi_code *k, struct psd_task *t)
{
    struct psi_state_reset x = {.container = NULL};
    psi_state_reset(k, &x);
    check_names(k, x.container, NULL);
    struct psd_reset *made = good(k) ? psd_reset_new(t->peer_count) : NULL;
    if (made == NULL) {
        no_memory(k, "a reset");
        return;
    }
    memcpy(made->container, x.container, strlen(x.container) + 1);
    made->pending = x.pending;
    psd_resets_add(&t->resets, made);
    for (uint32_t i = 0; good(k) && i < x.count; i++) {
        struct psi_state_reset_task of = {.job = NULL};
        psi_state_reset_task(k, &of);
        uint32_t peer = good(k) ? psi_cluster_task_number(&t->cluster, of.job, of.task) : t->peer_count;
        if (peer < t->peer_count) {
            made->outstanding[peer] = of.outstanding;
            made->owed[peer] = of.owed;
        }
    }
}

void psd_entry_take(struct psi_code *k, struct psd_task *t, enum psi_state_kind kind)
{
    static void (*const takes[])(struct psi_code *, struct psd_task *) = {
        [PSI_STATE_TASK] = take_task,     [PSI_STATE_CONTAINER] = take_container, [PSI_STATE_ELEMENT] = take_element,
        [PSI_STATE_RECORD] = take_record, [PSI_STATE_STAGED] = take_staged,       [PSI_STATE_CHIEF] = take_chief,
        [PSI_STATE_NAME] = take_name,     [PSI_STATE_RESET] = take_reset};
    if (kind >= sizeof(takes) / sizeof(takes[0]) || takes[kind] == NULL) {
        psi_code_wrong(k, "an entry of a kind that is not known");
    } else {
        takes[kind](k, t);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Queues, elements and attempts: see queue.h.
 *
 * Happy path: an element is put at the back of its queue, taken into an attempt, and freed with the attempt. Failure: no memory
 * for an element, its place in the array or an attempt; all these are reserved before a change. Giving an element back needs no
 * memory, because the array keeps a place for each element until the element is freed. A queue has size + taken elements (WORK:
 * done items too; ACCUMULATOR: the sum too), and psd_queue.bytes is the length of the data of all these elements. */
#include "mutate.h"
#include "sparse.h"

#include "common/mem.h"
#include "common/rng.h"

#include <string.h>

enum { ARRAY_MIN = 64 };

static struct psd_element *element_at(struct psi_list *link)
{
    return PSI_CONTAINER_OF(link, struct psd_element, link);
}

static bool shuffles(const struct psd_queue *q)
{
    return q->spec.kind == PSI_QUEUE_SHUFFLE;
}

static bool is_work(const struct psd_queue *q)
{
    return q->spec.kind == PSI_QUEUE_WORK;
}

static bool accumulates(const struct psd_queue *q)
{
    return psi_queue_accumulates(q->spec.kind);
}

const struct psd_attempt *psd_attempt_find(const struct psd_record *r, uint64_t id)
{
    /* searched backwards, because the attempt is usually one of the latest */
    for (struct psi_list *it = r->attempts.prev; it != &r->attempts; it = it->prev) {
        const struct psd_attempt *a = PSI_CONTAINER_OF(it, struct psd_attempt, link);
        if (a->id == id) {
            return a;
        }
    }
    return NULL;
}

bool psd_queue_has_room(const struct psd_queue *q)
{
    return q->spec.capacity < 0 || q->size < (uint64_t)q->spec.capacity;
}

uint64_t psd_queue_available(const struct psd_queue *q)
{
    if (is_work(q)) {
        return q->filled ? q->size : 0;
    }
    uint64_t stay = q->closed ? 0 : q->spec.min_after_dequeue;
    return q->size > stay ? q->size - stay : 0;
}

static uint64_t drawn(uint64_t seed, uint64_t number)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)number, (uint32_t)(number >> 32)};
    uint32_t out[4];
    psi_philox4x32(counter, key, out);
    return (uint64_t)out[1] << 32 | out[0];
}

uint64_t psd_queue_draw(const struct psd_queue *q, uint64_t random)
{
    if (!shuffles(q)) {
        return 0;
    }
    PSI_ASSERT(q->size > 0);
    /* the remainder makes lower indices likelier, but only by size / 2^64 */
    return (q->spec.seed != 0 ? drawn(q->spec.seed, q->draws) : random) % q->size;
}

uint64_t psd_queue_length(const struct psd_queue *q)
{
    return !accumulates(q) ? q->size : q->sum == NULL ? 0 : q->sum->serial;
}

void psd_queue_note_dropped(const struct psd_queue *q)
{
    psd_queue_own(q)->dropped++;
}

uint64_t psd_queue_items(const struct psd_queue *q)
{
    return q->next_serial - 1;
}

const struct psd_element *psd_queue_item(const struct psd_queue *q, uint64_t serial)
{
    return is_work(q) && q->array != NULL && serial != 0 && serial < q->next_serial ? q->array[serial - 1] : NULL;
}

static struct psd_element *element_of(const struct psd_attempt *a, uint64_t serial)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &a->elements) {
        if (element_at(it)->serial == serial) {
            return element_at(it);
        }
    }
    return NULL;
}

const struct psd_attempt *psd_attempt_of_item(const struct psd_record *r, const struct psd_queue *q, uint64_t serial)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &r->attempts) {
        const struct psd_attempt *a = PSI_CONTAINER_OF(it, struct psd_attempt, link);
        if (a->variable->queue == q && element_of(a, serial) != NULL) {
            return a;
        }
    }
    return NULL;
}

const struct psd_attempt *psd_queue_holder(const struct psd_queue *q, uint64_t serial)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &q->attempts) {
        const struct psd_attempt *a = PSI_CONTAINER_OF(it, struct psd_attempt, of_queue);
        if (element_of(a, serial) != NULL) {
            return a;
        }
    }
    return NULL;
}

uint64_t psd_element_memory_bytes(uint64_t bytes)
{
    return sizeof(struct psd_element) + bytes;
}

struct psd_element *psd_element_new(struct psd_store *s, uint64_t bytes)
{
    struct psd_element *e = psd_store_stage_raw(s, psd_element_memory_bytes(bytes));
    if (e != NULL) {
        psi_list_init(&e->link);
        e->serial = 0;
        e->bytes = bytes;
        e->deliveries = 0;
        e->state = PSD_ELEMENT_QUEUED;
        e->cut = 0;
    }
    return e;
}

void psd_element_free(struct psd_store *s, struct psd_element *e)
{
    if (e != NULL) {
        psd_store_unstage(s, e, psd_element_memory_bytes(e->bytes));
    }
}

static void array_free(struct psd_store *s, struct psd_queue *q)
{
    if (q->array != NULL) {
        psd_store_unstage(s, q->array, q->capacity * sizeof(struct psd_element *));
        q->array = NULL;
        q->capacity = 0;
    }
}

ps_status psd_queue_reserve(struct psd_store *s, const struct psd_queue *queue, uint64_t count, struct psi_err *err)
{
    struct psd_queue *q = psd_queue_own(queue);
    /* WORK: begin_epoch() makes the next epoch's order in the second half of the array */
    uint64_t places = shuffles(q) ? q->size + q->taken + count : is_work(q) ? 2 * (psd_queue_items(q) + count) : 0;
    if (places <= q->capacity) {
        return PS_OK;
    }
    uint64_t capacity = places < ARRAY_MIN ? ARRAY_MIN : 2 * places;
    struct psd_element **array = psd_store_stage(s, capacity * sizeof(struct psd_element *));
    if (array == NULL) {
        return psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED, "queue '%s': no memory for %llu places",
                           q->variable->name, (unsigned long long)capacity);
    }
    if (q->array != NULL) {
        memcpy(array, q->array, q->capacity * sizeof(struct psd_element *));
        array_free(s, q);
    }
    q->array = array;
    q->capacity = capacity;
    return PS_OK;
}

struct psd_queue *psd_queue_new(struct psd_store *s, const struct psd_variable *v, const struct psi_queue_spec *spec)
{
    struct psd_queue *q = psd_store_stage(s, sizeof(*q));
    if (q != NULL) {
        q->spec = *spec;
        q->next_serial = 1;
        q->variable = v;
        psi_list_init(&q->elements);
        psi_list_init(&q->attempts);
        psi_list_init(&q->enqueuers);
        psi_list_init(&q->dequeuers);
        psi_list_init(&q->dirty);
    }
    return q;
}

/* Free e, an element of q that was taken out of its list or array, and subtract its bytes from q->bytes. */
static void lose(struct psd_store *s, struct psd_queue *q, struct psd_element *e)
{
    q->bytes -= e->bytes;
    psd_element_free(s, e);
}

static void give_up(struct psd_attempt *a, struct psd_element *e)
{
    psi_list_remove(&e->link);
    a->element_count--;
    a->bytes -= e->bytes;
    a->variable->queue->taken--;
}

static void attempt_free(struct psd_store *s, struct psd_attempt *a)
{
    if (a->record != NULL) {
        struct psd_queue *q = a->variable->queue;
        struct psi_list *it = NULL;
        while ((it = psi_list_first(&a->elements)) != NULL) {
            give_up(a, element_at(it));
            if (is_work(q) && q->array != NULL) {
                q->array[element_at(it)->serial - 1] = NULL;
            }
            lose(s, q, element_at(it));
        }
        psi_list_remove(&a->link);
        psi_list_remove(&a->of_queue);
        q->attempt_count--;
        psd_variable_unref(s, a->variable);
    }
    psi_list_push_front(&s->free_attempts, &a->link);
}

void psd_queue_clear(struct psd_store *s, struct psd_queue *q)
{
    struct psi_list *it = NULL, *tmp = NULL;
    psi_list_remove(&q->dirty);
    PSI_LIST_FOREACH_SAFE(it, tmp, &q->attempts) {
        struct psd_attempt *a = PSI_CONTAINER_OF(it, struct psd_attempt, of_queue);
        if (a->held) {
            attempt_free(s, a);
        }
    }
    if (q->kept != NULL) {
        return; /* a checkpoint being written still needs the elements: psd_queue_free() frees them later */
    }
    for (uint64_t i = 0; shuffles(q) && i < q->size; i++) {
        lose(s, q, q->array[i]);
    }
    for (uint64_t i = 0; is_work(q) && q->array != NULL && i < psd_queue_items(q); i++) {
        if (q->array[i] != NULL && q->array[i]->state == PSD_ELEMENT_DONE) {
            lose(s, q, q->array[i]);
        }
    }
    while ((it = psi_list_pop_front(&q->elements)) != NULL) {
        lose(s, q, element_at(it));
    }
    if (q->sum != NULL) {
        lose(s, q, q->sum);
    }
    q->sum = NULL;
    q->size = 0;
    q->done = 0;
    array_free(s, q);
}

void psd_queue_free(struct psd_store *s, struct psd_queue *q)
{
    if (q != NULL) {
        PSI_ASSERT(psi_list_empty(&q->attempts) && psi_list_empty(&q->enqueuers) && psi_list_empty(&q->dequeuers));
        psd_queue_clear(s, q);
        psd_store_unstage(s, q, sizeof(*q));
    }
}

struct psd_attempt *psd_attempt_new(struct psd_store *s)
{
    struct psi_list *link = psi_list_pop_front(&s->free_attempts);
    struct psd_attempt *a = link != NULL ? PSI_CONTAINER_OF(link, struct psd_attempt, link) : psi_malloc(sizeof(*a));
    if (a != NULL && link == NULL) {
        psd_store_count(s, PSD_MEMORY_PUSHES, psi_malloc_bytes(sizeof(*a)));
    }
    if (a != NULL) {
        memset(a, 0, sizeof(*a));
        psi_list_init(&a->link);
        psi_list_init(&a->of_queue);
        psi_list_init(&a->elements);
    }
    return a;
}

void psd_attempts_fini(struct psd_store *s)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_pop_front(&s->free_attempts)) != NULL) {
        psi_free(PSI_CONTAINER_OF(link, struct psd_attempt, link));
        psd_store_uncount(s, PSD_MEMORY_PUSHES, psi_malloc_bytes(sizeof(struct psd_attempt)));
    }
}

void psd_attempt_begin(struct psd_attempt *a, struct psd_record *r, uint64_t id, const struct psd_variable *v)
{
    if (a->record == NULL) {
        a->record = r;
        a->id = id;
        a->variable = psd_variable_ref(v);
        psi_list_push_back(&r->attempts, &a->link);
        psi_list_push_back(&v->queue->attempts, &a->of_queue);
        v->queue->attempt_count++;
    }
    PSI_ASSERT(a->record == r && a->id == id && a->variable == v && !a->done);
}

ps_status psd_queue_reserve_sum(struct psd_store *s, const struct psd_queue *q, const struct psd_element *e,
                                struct psd_element **out, struct psi_err *err)
{
    if (q->spec.kind != PSI_QUEUE_SPARSE_ACCUMULATOR || q->sum == NULL) {
        return PS_OK;
    }
    const uint64_t rows = psd_sparse_joined(&q->spec, q->sum->data, e->data), bytes = psi_sparse_bytes(&q->spec, rows);
    if (bytes == q->sum->bytes) {
        return PS_OK; /* the sum has all rows of e already, so it does not grow */
    }
    *out = psd_element_new(s, bytes);
    return *out != NULL
               ? PS_OK
               : psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED,
                             "accumulator '%s': no memory for a sum of %llu rows", q->variable->name, (unsigned long long)rows);
}

/* Add e to the sum of a sparse accumulator. If `longer` is not NULL, it becomes the sum, and the old sum is freed. */
static void accumulate_rows(struct psd_store *s, struct psd_queue *q, const struct psd_element *e, struct psd_element *longer)
{
    struct psd_element *sum = q->sum;
    if (longer == NULL) {
        psd_sparse_add(&q->spec, sum->data, e->data);
        return;
    }
    psd_sparse_join(&q->spec, sum->data, e->data, psd_sparse_joined(&q->spec, sum->data, e->data), longer->data);
    longer->serial = sum->serial;
    q->sum = longer;
    q->bytes += longer->bytes;
    lose(s, q, sum);
}

/* Add gradient e to the sum of q, and free e unless it becomes the sum. longer: memory from psd_queue_reserve_sum(), or NULL. */
static void accumulate(struct psd_store *s, struct psd_queue *q, struct psd_element *e, struct psd_element *longer)
{
    const struct psi_queue_component *c = &q->spec.components[0];
    if (q->sum == NULL) {
        e->serial = 1;
        q->sum = e;
        q->bytes += e->bytes;
        return;
    }
    if (q->spec.kind == PSI_QUEUE_SPARSE_ACCUMULATOR) {
        accumulate_rows(s, q, e, longer);
    } else { /* psd_add() cannot fail, because the queue was made with a float dtype */
        PSI_IGNORE(psd_add(c->dtype, q->sum->data, e->data, (size_t)ps_shape_elements(&c->shape), 1));
    }
    q->sum->serial++;
    psd_element_free(s, e);
}

/* Take the sum out of the accumulator q, whose own global step rises by one. MEAN: the sum is divided by the number of gradients,
 * each row of a sparse sum by the number of gradients that have this row; MEAN_OF_ALL: by the number of all gradients. */
static struct psd_element *reduce(struct psd_queue *q)
{
    const struct psi_queue_component *c = &q->spec.components[0];
    struct psd_element *e = q->sum;
    if (q->spec.kind == PSI_QUEUE_SPARSE_ACCUMULATOR) {
        psd_sparse_reduce(&q->spec, e->data, e->serial);
    } else if (q->spec.reduction == PSI_REDUCTION_MEAN) {
        psd_sum_average(c->dtype, e->data, e->serial, (size_t)ps_shape_elements(&c->shape));
    }
    q->sum = NULL;
    q->step += q->step < PSI_STEP_MAX; /* a checkpoint with a larger step is refused */
    return e;
}

void psd_queue_put(struct psd_store *s, struct psd_attempt *a, struct psd_element *e, struct psd_element *longer)
{
    struct psd_queue *q = a->variable->queue;
    a->inserted++;
    if (accumulates(q)) {
        accumulate(s, q, e, longer);
        return;
    }
    e->serial = q->next_serial++;
    e->state = PSD_ELEMENT_QUEUED;
    if (shuffles(q)) {
        q->array[q->size] = e;
    } else {
        psi_list_push_back(&q->elements, &e->link);
    }
    if (is_work(q)) {
        q->array[e->serial - 1] = e;
    }
    q->size++;
    q->bytes += e->bytes;
}

static struct psd_element *take_out(struct psd_queue *q, uint64_t index)
{
    if (accumulates(q) && q->size == 0) {
        return reduce(q);
    }
    q->size--;
    if (!shuffles(q)) {
        return element_at(psi_list_pop_front(&q->elements));
    }
    struct psd_element *e = q->array[index];
    q->array[index] = q->array[q->size];
    q->draws++;
    return e;
}

void psd_queue_take(struct psd_attempt *a, uint64_t index)
{
    struct psd_queue *q = a->variable->queue;
    PSI_ASSERT(index < q->size || (index == 0 && q->sum != NULL));
    struct psd_element *e = take_out(q, index);
    e->state = PSD_ELEMENT_TAKEN;
    psi_list_push_back(&a->elements, &e->link);
    a->element_count++;
    a->bytes += e->bytes;
    q->taken++;
}

/* Give e, an element of the attempt a, back to its queue: before `first`, a link in q->elements; SHUFFLE: to the back. */
static void put_back(struct psd_attempt *a, struct psd_element *e, struct psi_list *first)
{
    struct psd_queue *q = a->variable->queue;
    give_up(a, e);
    e->state = PSD_ELEMENT_QUEUED;
    e->deliveries += a->done; /* if the attempt is done, the answer with e was sent, and counts as a delivery */
    if (shuffles(q)) {
        q->array[q->size] = e;
    } else {
        psi_list_insert_before(first, &e->link);
    }
    q->size++;
}

void psd_attempt_end(struct psd_store *s, struct psd_attempt *a, bool give_back)
{
    struct psd_queue *q = a->variable->queue;
    struct psi_list *it = NULL, *first = q->elements.next;
    if (a->variable->gone) {
        attempt_free(s, a);
        return;
    }
    while (give_back && (it = psi_list_first(&a->elements)) != NULL) {
        put_back(a, element_at(it), first);
    }
    if (is_work(q) && a->element_count > 0) {
        a->held = true;
    } else {
        attempt_free(s, a);
    }
}

/* Queue all items of a WORK queue for the epoch q->epoch, in the order that the seed gives; seed 0: as they were inserted. */
static void begin_epoch(struct psd_queue *q)
{
    uint64_t items = psd_queue_items(q);
    struct psd_element **order = q->array + items;
    uint64_t state = drawn(q->spec.seed, q->epoch);
    memcpy(order, q->array, items * sizeof(struct psd_element *));
    for (uint64_t i = items; q->spec.seed != 0 && i > 1; i--) { /* Fisher-Yates shuffle */
        uint64_t other = psi_random_below(&state, i);
        struct psd_element *e = order[i - 1];
        order[i - 1] = order[other];
        order[other] = e;
    }
    psi_list_init(&q->elements);
    for (uint64_t i = 0; i < items; i++) {
        order[i]->state = PSD_ELEMENT_QUEUED;
        psi_list_push_back(&q->elements, &order[i]->link);
    }
    q->size = items;
    q->done = 0;
}

void psd_queue_fill(struct psd_queue *q, uint64_t hash)
{
    q->filled = true;
    q->fill_hash = hash;
    if (psd_queue_items(q) == 0) {
        q->epoch = q->spec.epochs;
    } else {
        begin_epoch(q);
    }
}

void psd_queue_item_end(struct psd_store *s, struct psd_attempt *a, uint64_t serial, bool give_back)
{
    struct psd_queue *q = a->variable->queue;
    struct psd_element *e = element_of(a, serial);
    if (give_back) {
        put_back(a, e, q->elements.next);
    } else {
        give_up(a, e);
        e->state = PSD_ELEMENT_DONE;
        e->deliveries = 0; /* the next epoch counts deliveries from 0 */
        q->done++;
    }
    if (a->element_count == 0 && a->held) {
        attempt_free(s, a);
    }
    if (q->done == psd_queue_items(q)) {
        q->epoch++;
        if (q->epoch < q->spec.epochs) {
            begin_epoch(q);
        }
    }
}

static void check_queued(const struct psd_queue *q, uint64_t *out_bytes)
{
    struct psi_list *it = NULL;
    uint64_t count = 0;
    PSI_LIST_FOREACH(it, &q->elements) {
        PSI_ASSERT(element_at(it)->state == PSD_ELEMENT_QUEUED);
        *out_bytes += element_at(it)->bytes;
        count++;
    }
    for (uint64_t i = 0; shuffles(q) && i < q->size; i++) {
        PSI_ASSERT(q->array[i]->state == PSD_ELEMENT_QUEUED);
        *out_bytes += q->array[i]->bytes;
        count++;
    }
    PSI_ASSERT(count == q->size);
}

static void check_attempt(const struct psd_attempt *a, uint64_t *out_bytes)
{
    struct psi_list *it = NULL;
    uint64_t count = 0, bytes = 0;
    PSI_ASSERT(psi_list_linked(&a->link) && (!a->held || (a->done && a->element_count > 0)));
    PSI_LIST_FOREACH(it, &a->elements) {
        PSI_ASSERT(element_at(it)->state == PSD_ELEMENT_TAKEN);
        bytes += element_at(it)->bytes;
        count++;
    }
    PSI_ASSERT(count == a->element_count && bytes == a->bytes);
    *out_bytes += bytes;
}

static void check_done(const struct psd_queue *q, uint64_t *out_bytes)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < psd_queue_items(q); i++) {
        PSI_ASSERT(q->array[i]->serial == i + 1);
        if (q->array[i]->state == PSD_ELEMENT_DONE) {
            *out_bytes += q->array[i]->bytes;
            count++;
        }
    }
    PSI_ASSERT(count == q->done && q->size + q->taken + q->done == psd_queue_items(q));
}

void psd_queue_check_invariants(const struct psd_queue *q)
{
    struct psi_list *it = NULL;
    uint64_t count = 0, taken = 0, bytes = 0;
    check_queued(q, &bytes);
    PSI_LIST_FOREACH(it, &q->attempts) {
        const struct psd_attempt *a = PSI_CONTAINER_OF(it, struct psd_attempt, of_queue);
        PSI_ASSERT(a->variable->queue == q);
        check_attempt(a, &bytes);
        taken += a->element_count;
        count++;
    }
    PSI_ASSERT(count == q->attempt_count && taken == q->taken);
    if (is_work(q)) {
        check_done(q, &bytes);
    }
    if (q->sum != NULL) {
        PSI_ASSERT(accumulates(q) && q->sum->serial > 0 && q->sum->state == PSD_ELEMENT_QUEUED);
        bytes += q->sum->bytes;
    }
    PSI_ASSERT(q->step >= 0 && (accumulates(q) || q->step == 0));
    PSI_ASSERT(bytes == q->bytes);
    PSI_ASSERT(!shuffles(q) || q->capacity >= q->size + q->taken);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes back of a checkpoint is what its task had at the cut. At each cut of a core it is noted what is in its variables and
 * queues, and what the oracles of rounds and of work know of them; when something of that checkpoint has come to live at a task,
 * the same one or one that has adopted the part, it is compared, slots and powers too, and nothing is missing. What was being
 * pushed at the cut counts as torn, and what sessions had taken out of queues is in them again (docs/DURABILITY.md 1.3, 7.5).
 *
 * A checkpoint of variables in rounds is of one round, on all tasks.
 */
#include "queue_ref.h"
#include "sim.h"

#include "common/crc32c.h"
#include "psd/checkpoint/beside.h"
#include "psd/store/overlay.h"
#include "psd/state.h"

#include <stdlib.h>
#include <string.h>

/* ---- what a variable has ---- */

static uint64_t memory_bytes(const struct psd_variable *v)
{
    return v->initialised ? v->bytes * (1 + psd_optim_slot_count(&v->optimizer)) : 0;
}

const void *sim_in_force(const struct psd_variable *v, uint32_t which)
{
    static uint8_t *copy;
    static uint64_t room;
    const uint64_t bytes = psd_variable_bytes_of(v, which);
    const void *home = which == 0 ? v->value : v->slots[which - 1];
    if (v->part == NULL || !v->part->in_force) {
        return home;
    }
    if (room < bytes) {
        free(copy);
        copy = sim_alloc(bytes);
        room = bytes;
    }
    memcpy(copy, home, bytes);
    for (uint64_t i = 0; i < v->elements; i++) { /* a row is one element */
        const uint8_t *row = psd_overlay_row(v, which, i);
        if (row != NULL) {
            memcpy(copy + i * v->element_bytes, row, v->element_bytes);
        }
    }
    return copy;
}

/* CRC of value and slots. */
static uint32_t sum_of(const struct psd_variable *v)
{
    uint32_t sum = v->initialised ? psi_crc32c(0, sim_in_force(v, 0), v->bytes) : 0;
    for (uint32_t i = 0; v->initialised && i < psd_optim_slot_count(&v->optimizer); i++) {
        sum = psi_crc32c(sum, sim_in_force(v, 1 + i), psd_variable_bytes_of(v, 1 + i));
    }
    return sum;
}

static uint64_t id_of(const struct psd_element *e)
{
    uint64_t id = 0;
    memcpy(&id, e->data, sizeof(id));
    return id;
}

static void add_element(struct sim_saved *to, const struct psd_element *e)
{
    uint64_t id = id_of(e);
    to->element = realloc(to->element, (to->element_count + 1) * sizeof(id));
    if (to->element == NULL) {
        abort();
    }
    to->element[to->element_count++] = id;
}

/* Of a FIFO or a shuffle: what sessions have taken, then what is in it. */
static void note_elements(const struct psd_queue *q, struct sim_saved *to)
{
    struct psi_list *it = NULL, *in = NULL;
    PSI_LIST_FOREACH(it, &q->attempts) {
        PSI_LIST_FOREACH(in, &PSI_CONTAINER_OF(it, struct psd_attempt, of_queue)->elements) {
            add_element(to, PSI_CONTAINER_OF(in, struct psd_element, link));
        }
    }
    to->taken = to->element_count;
    PSI_LIST_FOREACH(in, &q->elements) {
        add_element(to, PSI_CONTAINER_OF(in, struct psd_element, link));
    }
    for (uint64_t i = 0; q->spec.kind == PSI_QUEUE_SHUFFLE && i < q->size; i++) {
        add_element(to, q->array[i]);
    }
}

static struct sim_saved_work *note_work(const struct sim *s)
{
    struct sim_saved_work *made = sim_alloc(sizeof(*made) + s->result_count * sizeof(made->place[0]));
    made->shares = s->shares;
    made->sums = s->sums;
    made->result_count = s->result_count;
    for (size_t i = 0; i < s->result_count; i++) {
        made->place[i] = s->result[i].place;
    }
    return made;
}

static struct sim_saved *saved_new(struct sim *s)
{
    if (s->saved_count == s->saved_capacity) {
        s->saved_capacity = s->saved_capacity == 0 ? 64 : 2 * s->saved_capacity;
        s->saved = realloc(s->saved, s->saved_capacity * sizeof(s->saved[0]));
        if (s->saved == NULL) {
            abort();
        }
    }
    struct sim_saved *made = &s->saved[s->saved_count++];
    memset(made, 0, sizeof(*made));
    return made;
}

static void note_one(struct sim *s, const struct sim_task *t, const struct psd_variable *v)
{
    struct sim_var *var = sim_var_named(s, v->container->name, v->name);
    const struct sim_birth *b = sim_birth_find(s, v->creation);
    if (var == NULL) {
        return; /* birth.c fails */
    }
    struct sim_saved *made = saved_new(s);
    made->number = t->cut_number;
    made->task = (uint32_t)(t - s->task);
    made->directory_life = s->task[0].life;
    made->var = var;
    made->initialised = v->initialised;
    made->sealed = v->sealed;
    made->version = v->version;
    made->torn = v->in_progress;
    made->powers = v->optim_state;
    made->rate = psd_variable_rate(v);
    made->bytes = memory_bytes(v);
    made->sum = sum_of(v);
    made->trained = b != NULL ? b->trained : 0;
    made->rows = b != NULL ? sim_rounds_copy(b) : NULL;
    if (v->queue != NULL && (s->k.shares || s->k.sums)) {
        made->work = note_work(s);
    } else if (v->queue != NULL) {
        made->closed = v->queue->closed;
        note_elements(v->queue, made);
    }
}

/* All of its variables and queues. */
static void each(const struct sim_task *t, void (*what)(struct sim *s, const struct sim_task *t, const struct psd_variable *v))
{
    uint64_t cursor = 0, handle = 0;
    void *value = NULL;
    while (psi_u64_map_next(&t->core->store.handles, &cursor, &handle, &value)) {
        what(t->sim, t, value);
    }
}

/* Of an earlier attempt, of which nothing is on a disk: the next directory gave its number again. */
static bool is_older(const struct sim *s, const struct sim_saved *one, const struct sim_task *t)
{
    return one->number == t->cut_number && (one->directory_life != s->task[0].life || &s->task[one->task] == t);
}

void sim_back_note(struct sim *s, const struct sim_task *t)
{
    if (!s->k.beside) {
        return;
    }
    for (size_t i = 0; i < s->saved_count; i++) {
        if (is_older(s, &s->saved[i], t)) {
            s->saved[i].number = 0;
        }
    }
    each(t, note_one);
}

/* ---- what comes back ---- */

uint64_t sim_back_count(const struct sim_task *t)
{
    return t->core->beside != NULL ? t->core->beside->placed : 0;
}

bool sim_back_now(const struct sim_task *t)
{
    return sim_back_count(t) != t->placed;
}

const struct sim_saved *sim_back_find(struct sim *s, const struct sim_task *t, const struct sim_var *v)
{
    for (size_t i = 0; i < s->saved_count; i++) {
        if (s->saved[i].number == t->loads && s->saved[i].var == v) {
            return &s->saved[i];
        }
    }
    sim_fail(s, "CUT: '%s' comes back at %s:%u out of checkpoint %llu, which has none", v->name, t->job, t->index,
             (unsigned long long)t->loads);
}

static void differs(struct sim *s, const struct sim_task *t, const struct psd_variable *v, const char *what)
{
    sim_fail(s, "NOT RESTORED: '%s' comes back at %s:%u, and its %s not what checkpoint %llu has", v->name, t->job, t->index,
             what, (unsigned long long)t->loads);
}

static void look_at(struct sim *s, const struct sim_task *t, const struct psd_variable *v)
{
    const struct sim_birth *b = sim_birth_find(s, v->creation);
    if (v->queue != NULL || b == NULL || b->born_event != s->event) {
        return;
    }
    const struct sim_saved *was = sim_back_find(s, t, b->var);
    const bool counts = !v->restored || v->version > 0 || v->given; /* otherwise it is a first value beside what was trained */
    if (v->initialised != was->initialised || v->sealed != (was->sealed && counts)) {
        differs(s, t, v, "seal or that it has a value is");
    }
    if (v->version < was->version || v->version > was->version + was->torn || v->rate != was->rate) {
        differs(s, t, v, "version or rate is");
    }
    if (was->torn == 0 && memcmp(&v->optim_state, &was->powers, sizeof(was->powers)) != 0) {
        differs(s, t, v, "powers are");
    }
    /* a push whose gradient was whole at the cut, and which moved the value in slices, is moved to its end by the load */
    const bool moved_on = psi_optimizer_is_whole(v->optimizer.kind) && v->version > was->version;
    if (memory_bytes(v) != was->bytes || (!moved_on && sum_of(v) != was->sum)) {
        differs(s, t, v, "value or slots are");
    }
    s->count_back_slots += was->bytes > v->bytes;
}

static bool deleted(const struct sim *s, const struct sim_var *v)
{
    for (uint32_t i = 0; i < s->wipe_count; i++) {
        if (s->wipe[i].var == v) {
            return true;
        }
    }
    return false;
}

/* Something that comes back in this event has this container. */
static bool comes_back(const struct sim *s, const struct sim_task *t, const char *container)
{
    for (size_t i = 0; i < s->birth_count; i++) {
        const struct sim_birth *b = &s->birth[i];
        if (b->born_event == s->event && b->placed && &s->task[b->task] == t && strcmp(b->var->container, container) == 0) {
            return true;
        }
    }
    return false;
}

void sim_back_look(struct sim *s, const struct sim_task *t)
{
    if (!s->k.beside || !sim_back_now(t)) {
        return;
    }
    each(t, look_at);
    for (size_t i = 0; i < s->saved_count; i++) {
        const struct sim_saved *was = &s->saved[i];
        const struct sim_var *v = was->var;
        const struct psd_container *c = psd_container_find(&t->core->store, v->container);
        bool own = was->number == t->loads && &s->task[was->task] == t && comes_back(s, t, v->container);
        if (own && !deleted(s, v) && (c == NULL || psd_variable_find(c, v->name) == NULL)) {
            sim_fail(s, "NOT RESTORED: '%s' is in checkpoint %llu of %s:%u, and does not come back with what else is", v->name,
                     (unsigned long long)was->number, t->job, t->index);
        }
    }
}

/* ---- queues ---- */

/* The place of the element among those that were there at the cut; fails where it is none of them. */
static size_t place_at_cut(struct sim *s, const struct sim_saved *was, uint64_t id)
{
    for (size_t i = 0; i < was->element_count; i++) {
        if (was->element[i] == id) {
            return i;
        }
    }
    sim_fail(s, "NOT RESTORED: element %llu comes back in '%s', and checkpoint %llu does not have it", (unsigned long long)id,
             was->var->name, (unsigned long long)was->number);
}

/* It is in the queue as it was then, whatever has become of it since. */
static void element_back(struct sim *s, const struct sim_queue *q, uint64_t id)
{
    struct sim_element *e = &s->element[id - 1]; /* it was there at the cut */
    if (e->creation == q->creation) {
        sim_fail(s, "TWICE: element %llu comes back two times in '%s'", (unsigned long long)id, q->var->name);
    }
    e->creation = q->creation;
    e->life = 0;
    e->place = SIM_PLACE_QUEUE;
    e->dead = false;
    e->got_count = e->back_count = 0;
    ref_add(&q->ref->elements, id);
    s->count_back_elements++;
}

void sim_back_queue(struct sim *s, const struct sim_task *t, struct sim_queue *q, const struct psd_queue *real)
{
    const struct sim_saved *was = sim_back_find(s, t, q->var);
    struct psi_list *it = NULL;
    size_t next = 0;
    q->ref->closed = was->closed;
    PSI_LIST_FOREACH(it, &real->elements) {
        uint64_t id = id_of(PSI_CONTAINER_OF(it, struct psd_element, link));
        size_t at = place_at_cut(s, was, id);
        if (at < was->taken ? next > was->taken : next > at) {
            sim_fail(s, "ORDER: element %llu comes back in '%s' behind what stood behind it", (unsigned long long)id,
                     q->var->name);
        }
        next = at < was->taken ? next : at + 1;
        element_back(s, q, id);
    }
    for (uint64_t i = 0; q->ref->shuffle && i < real->size; i++) {
        uint64_t id = id_of(real->array[i]);
        PSI_IGNORE(place_at_cut(s, was, id)); /* fails by itself */
        element_back(s, q, id);
    }
    if (q->ref->elements.count != was->element_count) {
        sim_fail(s, "NOT RESTORED: '%s' had %zu elements at the cut, %zu of them come back", q->var->name, was->element_count,
                 q->ref->elements.count);
    }
}

/* ---- rounds ---- */

void sim_back_saved(struct sim *s, uint64_t number)
{
    const struct sim_saved *first = NULL;
    for (size_t i = 0; s->k.profile == SIM_ROUNDS && s->sync.mode == PS_SYNC_ROUNDS && i < s->saved_count; i++) {
        const struct sim_saved *one = &s->saved[i];
        if (one->number != number || one->var->dtype == PS_I64) {
            continue;
        }
        first = first == NULL ? one : first;
        if (one->trained != first->trained && (!s->sync.max_norm_each || one->var->elements == first->var->elements)) {
            sim_fail(s, "TWO ROUNDS: checkpoint %llu is saved, and its rounds make '%s' %g and '%s' %g",
                     (unsigned long long)number, first->var->name, first->trained, one->var->name, one->trained);
        }
    }
}

void sim_back_free(struct sim *s)
{
    for (size_t i = 0; i < s->saved_count; i++) {
        free(s->saved[i].element);
        free(s->saved[i].work);
        free(s->saved[i].rows);
    }
    free(s->saved);
}

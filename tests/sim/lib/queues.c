/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues in the simulated world: eight programs that put into and take from a FIFO queue and a random shuffle, while connections
 * break, programs die and stand still, leases end, and the container is reset.
 *
 * Two oracles. Each queue of a task is compared, after every event, with a queue of TensorFlow's rules (queue_ref.h) that gets
 * the attempts as the task opened them: what is in it, who waits and how far he is, how each attempt ended. And each element has
 * an entry in a ledger:
 *   - enqueued with OK: in the queue, taken by a request, or a program has it; by the answer not enqueued: nowhere;
 *   - at most one program has it, where those do not count that were away for a lease, or died, before their ACK came: then it
 *     is in the queue again, and only then;
 *   - those that one session gives back at its end stand in the queue as before; nothing comes from a queue that was reset.
 * An element is its number in the ledger, in each of its int64 values. Components without elements may stand around these.
 */
#include "queue_ref.h"
#include "sim.h"

#include "psd/session/wait.h"
#include "psd/state.h"
#include "worker/core/client.h"

#include <stdlib.h>
#include <string.h>

enum { MANY_MAX = 5, NEW_MAX = 256, CALLS_MANY = 300 };

/* ---- elements ---- */

static struct sim_element *element_at(struct sim *s, uint64_t id)
{
    if (id == 0 || id > s->element_count) {
        sim_fail(s, "an element %llu, which nobody enqueued", (unsigned long long)id);
    }
    return &s->element[id - 1];
}

static uint64_t id_of(const struct psd_element *e)
{
    uint64_t id = 0;
    memcpy(&id, e->data, sizeof(id));
    return id;
}

static uint64_t whole_id_of(struct sim *s, const struct psd_element *e)
{
    uint64_t id = id_of(e);
    for (uint64_t at = sizeof(id); at < e->bytes; at += sizeof(id)) {
        if (memcmp(e->data + at, &id, sizeof(id)) != 0) {
            sim_fail(s, "MIXED: an element has values of %llu and of another one", (unsigned long long)id);
        }
    }
    return id;
}

static bool has_key(const struct sim_element_key *keys, uint32_t count, struct sim_element_key key)
{
    for (uint32_t i = 0; i < count; i++) {
        if (keys[i].life == key.life && keys[i].number == key.number) {
            return true;
        }
    }
    return false;
}

static void add_key(struct sim *s, struct sim_element_key *keys, uint32_t *count, struct sim_element_key key)
{
    if (*count == SIM_ELEMENT_KEYS) {
        sim_fail(s, "one element came more than %d times: a fault of the workload", SIM_ELEMENT_KEYS);
    }
    keys[(*count)++] = key;
}

/* The programs that have it and did not lose it to the end of a lease; *out_who: one of them. */
static uint32_t owners(const struct sim_element *e, uint32_t *out_who)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < e->got_count; i++) {
        if (!has_key(e->back, e->back_count, e->got[i])) {
            *out_who = e->got[i].life;
            count++;
        }
    }
    return count;
}

static void check_once(struct sim *s, uint64_t id, const char *when)
{
    struct sim_element *e = element_at(s, id);
    uint32_t who = 0;
    uint32_t count = owners(e, &who);
    if (count > 1) {
        sim_fail(s, "TWICE: element %llu has come to %u programs that were not away, session %u one of them, %s",
                 (unsigned long long)id, count, who, when);
    }
    if (count == 1 && e->place == SIM_PLACE_QUEUE && !e->dead) {
        sim_fail(s, "TWICE: element %llu is in the queue, and session %u has it, %s", (unsigned long long)id, who, when);
    }
}

/* ---- what a task does, before it is carried out ---- */

/* Of the queue that c changes; NULL: nobody has seen it yet. */
static struct ref_queue *ref_of(const struct sim *s, const struct psd_change *c)
{
    for (uint32_t i = 0; i < SIM_QUEUES_MAX; i++) {
        if (s->queue[i].ref != NULL && s->queue[i].creation == c->attempt.variable->creation) {
            return s->queue[i].ref;
        }
    }
    return NULL;
}

static void mark_put(struct sim *s, const struct psd_change *c)
{
    uint64_t id = whole_id_of(s, c->attempt.element);
    struct sim_element *e = element_at(s, id);
    char text[200];
    if (e->place != SIM_PLACE_NONE) {
        sim_fail(s, "TWICE: element %llu is put in again", (unsigned long long)id);
    }
    e->creation = e->creation == 0 ? c->attempt.variable->creation : e->creation;
    if (e->put->creation != 0 && e->put->creation != c->attempt.variable->creation) {
        sim_fail(s, "%s lands in another creation of the queue", sim_op_text(e->put, text));
    }
    if (e->told == SIM_TOLD_OUT) {
        sim_fail(s, "%s was told that element %llu is not in, and now it is", sim_op_text(e->put, text), (unsigned long long)id);
    }
    e->place = SIM_PLACE_QUEUE;
    e->life = c->attempt.record->pid;
    e->number = c->attempt.id;
    if (ref_of(s, c) != NULL) {
        ref_put(ref_of(s, c));
    }
}

static const struct psd_element *drawn(const struct psd_change *c)
{
    const struct psd_queue *q = c->attempt.variable->queue;
    if (q->spec.kind == PSI_QUEUE_SHUFFLE) {
        return q->array[c->attempt.index];
    }
    return PSI_CONTAINER_OF(q->elements.next, struct psd_element, link);
}

static void mark_taken(struct sim *s, const struct psd_change *c)
{
    uint64_t id = id_of(drawn(c));
    struct sim_element *e = element_at(s, id);
    if (e->place != SIM_PLACE_QUEUE || e->dead) {
        sim_fail(s, "element %llu is taken from a queue that does not have it", (unsigned long long)id);
    }
    e->place = SIM_PLACE_TAKEN;
    if (ref_of(s, c) == NULL) {
        sim_fail(s, "an element is taken from a queue that nobody has seen yet: a fault of the workload");
    }
    ref_pick(ref_of(s, c), id);
}

/* At the end of a session: newest first, or what it took stands in the queue the other way round. */
static void check_newest(struct sim *s, const struct psd_record *r, const struct psd_attempt *a)
{
    for (struct psi_list *it = a->link.next; it != &r->attempts; it = it->next) {
        const struct psd_attempt *later = PSI_CONTAINER_OF(it, struct psd_attempt, link);
        if (later->variable == a->variable && later->element_count > 0) {
            sim_fail(s, "ORDER: what request %llu of a session took goes back before what its request %llu took later",
                     (unsigned long long)a->id, (unsigned long long)later->id);
        }
    }
}

static void mark_end(struct sim *s, struct sim_task *t, const struct psd_change *c)
{
    const struct psd_record *r = c->attempt.record;
    const struct psd_attempt *a = psd_attempt_find(r, c->attempt.id);
    struct sim_element_key key = {.life = r->pid, .number = a->id};
    bool away = sim_lease_over(s, t, r);
    bool over = away || sim_session_over(s, r->pid) || r->conn == NULL;
    struct psi_list *it = NULL;
    if (r->conn == NULL && c->attempt.give_back && a->element_count > 0 && a->variable->queue->spec.kind == PSI_QUEUE_FIFO &&
        !a->variable->gone) {
        check_newest(s, r, a);
    }
    if (r->conn == NULL && !away && c->attempt.give_back && a->element_count > 0 && !sim_session_over(s, r->pid) && a->done) {
        sim_fail(s, "a session that was heard %llu ms ago loses what it took, and the lease is %u ms",
                 (unsigned long long)(t->core->now_ms - r->heard_ms), s->k.lease_ms);
    }
    PSI_LIST_FOREACH(it, &a->elements) {
        uint64_t id = id_of(PSI_CONTAINER_OF(it, struct psd_element, link));
        struct sim_element *e = element_at(s, id);
        if (e->creation != a->variable->creation) {
            continue; /* a restore has brought it back in another queue; this one is gone, and what it had with it */
        }
        if (c->attempt.give_back && over) {
            add_key(s, e->back, &e->back_count, key);
        }
        e->place = c->attempt.give_back && !e->dead ? SIM_PLACE_QUEUE : SIM_PLACE_GONE;
        if (!c->attempt.give_back && !has_key(e->got, e->got_count, key)) {
            sim_fail(s, "LOST: element %llu goes with request %llu of session %u, which has not got it", (unsigned long long)id,
                     (unsigned long long)key.number, key.life);
        }
    }
}

static struct sim_queue_end *end_note(struct sim *s)
{
    if (s->queue_end_count == SIM_QUEUE_ENDS) {
        sim_fail(s, "more than %d requests to queues end in one event: a fault of the workload", SIM_QUEUE_ENDS);
    }
    return &s->queue_end[s->queue_end_count++];
}

void sim_queues_change(struct sim *s, struct sim_task *t, const struct psd_change *c)
{
    if (s->k.shares) {
        sim_shares_change(s, t, c);
        return;
    }
    if (s->k.sums) {
        sim_sums_change(s, t, c);
        return;
    }
    switch (c->kind) {
    case PSD_CHANGE_ENQUEUE:
        mark_put(s, c);
        break;
    case PSD_CHANGE_DEQUEUE:
        mark_taken(s, c);
        break;
    case PSD_CHANGE_ATTEMPT_END:
        *end_note(s) = (struct sim_queue_end){.life = c->attempt.record->pid,
                                              .number = c->attempt.id,
                                              .creation = psd_attempt_find(c->attempt.record, c->attempt.id)->variable->creation,
                                              .give_back = c->attempt.give_back};
        mark_end(s, t, c);
        break;
    default:
        break;
    }
}

/* ---- the reference: fed with what the task opened, compared with what it has ---- */

static struct psd_record *record_of(struct sim_task *t, uint64_t life)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->core->records, &cursor, NULL, NULL, &value)) {
        if (((struct psd_record *)value)->pid == life) {
            return value;
        }
    }
    return NULL;
}

static struct psd_wait *wait_of(struct sim_task *t, uint64_t life, uint64_t number)
{
    const struct psd_record *r = record_of(t, life);
    return r == NULL ? NULL : psi_u64_map_find(&r->waits, number);
}

static bool by_turn(const struct psd_wait *w)
{
    return w->err.code == PS_OK || w->err.code == PS_CANCELLED || w->err.code == PS_OUT_OF_RANGE;
}

/* Requests that were known and have ended otherwise than by their turn; in the order in which elements went back. */
static void feed_ends(struct sim *s, struct sim_task *t, const struct sim_queue *q)
{
    for (uint32_t i = 0; i < s->queue_end_count; i++) {
        const struct sim_queue_end *end = &s->queue_end[i];
        struct ref_attempt *a = ref_find(q->ref, end->life, end->number);
        const struct psd_wait *w = wait_of(t, end->life, end->number);
        bool own = w != NULL && w->stage == PSD_WAIT_DONE && w->err.code == PS_OUT_OF_RANGE;
        if (end->creation == q->creation && end->give_back && a != NULL && a->kind == REF_DEQUEUE && !own) {
            ref_give_up(q->ref, a);
        }
    }
    struct ref_attempt *next = NULL;
    for (struct ref_attempt *a = q->ref->known; a != NULL; a = next) {
        const struct psd_wait *w = wait_of(t, a->who, a->number);
        next = a->next;
        if (a->state == REF_WAITS && (w == NULL || (w->stage == PSD_WAIT_DONE && !by_turn(w)))) {
            ref_give_up(q->ref, a);
        }
        if (w == NULL) {
            ref_forget(q->ref, a);
        }
    }
}

static void feed_elements(struct sim *s, const struct sim_queue *q, struct ref_attempt *a, const struct psd_wait *w)
{
    struct psi_list *it = NULL;
    for (uint64_t i = 0; i < s->element_count; i++) { /* in the order of their numbers, in which they travel */
        const struct sim_element *e = &s->element[i];
        if (e->life == a->who && e->number == a->number && e->creation == q->creation) {
            ref_add(&a->elements, i + 1);
        }
    }
    PSI_LIST_FOREACH(it, &w->queue.elements) {
        ref_add(&a->elements, id_of(PSI_CONTAINER_OF(it, struct psd_element, link)));
    }
    a->want = a->elements.count;
}

static void feed_one(struct sim *s, const struct sim_queue *q, const struct psd_wait *w)
{
    enum ref_kind kind = w->op == PS_OP_ENQUEUE ? REF_ENQUEUE : w->op == PS_OP_DEQUEUE ? REF_DEQUEUE : REF_CLOSE;
    struct ref_attempt *a = ref_open(q->ref, w->record->pid, w->id, kind, w->queue.count);
    a->up_to = w->queue.up_to;
    if (kind == REF_ENQUEUE) {
        feed_elements(s, q, a, w);
    } else if (kind == REF_CLOSE && w->queue.cancel) {
        ref_close_at_once(q->ref, a);
    }
}

static bool is_new(const struct sim_queue *q, const struct psd_wait *w)
{
    bool ours = w->op == PS_OP_ENQUEUE || w->op == PS_OP_DEQUEUE || w->op == PS_OP_QUEUE_CLOSE;
    bool opened = w->stage == PSD_WAIT_OPEN || (w->stage == PSD_WAIT_DONE && by_turn(w));
    return ours && opened && w->queue.handle == q->handle && (w->queue.count > 0 || w->op == PS_OP_QUEUE_CLOSE) &&
           ref_find(q->ref, w->record->pid, w->id) == NULL;
}

/* One event opens requests of one session, in the order of their numbers. */
static void feed_new(struct sim *s, struct sim_task *t, const struct sim_queue *q)
{
    const struct psd_wait *found[NEW_MAX];
    uint32_t count = 0;
    uint64_t cursor = 0;
    void *value = NULL, *item = NULL;
    while (psi_map_next(&t->core->records, &cursor, NULL, NULL, &value)) {
        uint64_t inner = 0;
        while (psi_u64_map_next(&((const struct psd_record *)value)->waits, &inner, NULL, &item)) {
            uint32_t at = count;
            if (!is_new(q, item)) {
                continue;
            }
            if (count == NEW_MAX || (count > 0 && found[0]->record != value)) {
                sim_fail(s, "requests of two sessions, or more than %d, are opened in one event: a fault of the workload",
                         NEW_MAX);
            }
            while (at > 0 && found[at - 1]->id > ((const struct psd_wait *)item)->id) {
                found[at] = found[at - 1];
                at--;
            }
            found[at] = item;
            count++;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        feed_one(s, q, found[i]);
    }
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void compare_elements(struct sim *s, const struct sim_queue *q, const struct psd_queue *real)
{
    struct ref_list mine = {0}, sorted = {0};
    struct psi_list *it = NULL;
    for (uint64_t i = 0; i < real->size && q->ref->shuffle; i++) {
        ref_add(&mine, id_of(real->array[i]));
    }
    PSI_LIST_FOREACH(it, &real->elements) {
        ref_add(&mine, id_of(PSI_CONTAINER_OF(it, struct psd_element, link)));
    }
    for (size_t i = 0; i < q->ref->elements.count; i++) {
        ref_add(&sorted, q->ref->elements.at[i]);
    }
    if (q->ref->shuffle && mine.count > 0 && sorted.count > 0) {
        qsort(mine.at, mine.count, sizeof(mine.at[0]), by_value);
        qsort(sorted.at, sorted.count, sizeof(sorted.at[0]), by_value);
    }
    for (size_t i = 0; i < mine.count || i < sorted.count; i++) {
        uint64_t x = i < mine.count ? mine.at[i] : 0, y = i < sorted.count ? sorted.at[i] : 0;
        if (x != y) {
            sim_fail(s, "REFERENCE: place %zu of queue '%s' has element %llu, by TensorFlow's rules %llu (0: none)", i,
                     q->var->name, (unsigned long long)x, (unsigned long long)y);
        }
        if (element_at(s, x)->place != SIM_PLACE_QUEUE) {
            sim_fail(s, "element %llu is in queue '%s', and did not come back", (unsigned long long)x, q->var->name);
        }
        check_once(s, x, "at the task");
    }
    free(mine.at);
    free(sorted.at);
}

static void compare_line(struct sim *s, const struct sim_queue *q, const struct psi_list *line, const struct ref_attempt *a)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, line) {
        const struct psd_wait *w = PSI_CONTAINER_OF(it, struct psd_need, at)->wait;
        const struct psd_attempt *done = psd_attempt_find(w->record, w->id);
        uint64_t moved = done == NULL ? 0 : w->op == PS_OP_ENQUEUE ? done->inserted : done->element_count;
        if (a == NULL || a->who != w->record->pid || a->number != w->id || a->moved != moved) {
            sim_fail(s,
                     "REFERENCE: request %llu of session %u waits at queue '%s' with %llu elements moved; by TensorFlow's rules "
                     "request %llu of session %llu with %llu",
                     (unsigned long long)w->id, w->record->pid, q->var->name, (unsigned long long)moved,
                     a == NULL ? 0 : (unsigned long long)a->number, a == NULL ? 0 : (unsigned long long)a->who,
                     a == NULL ? 0 : (unsigned long long)a->moved);
        }
        a = a->after;
    }
    if (a != NULL) {
        sim_fail(s, "REFERENCE: request %llu of session %llu does not wait at queue '%s', and would by TensorFlow's rules",
                 (unsigned long long)a->number, (unsigned long long)a->who, q->var->name);
    }
}

static void compare_ends(struct sim *s, struct sim_task *t, const struct sim_queue *q)
{
    static const ps_status codes[] = {[REF_OK] = PS_OK, [REF_CANCELLED] = PS_CANCELLED, [REF_OUT_OF_RANGE] = PS_OUT_OF_RANGE};
    for (const struct ref_attempt *a = q->ref->known; a != NULL; a = a->next) {
        const struct psd_wait *w = wait_of(t, a->who, a->number);
        bool ended = w->stage == PSD_WAIT_DONE;
        bool same = a->state == REF_WAITS      ? !ended
                    : a->state == REF_GIVEN_UP ? ended && w->err.code != PS_OK
                                               : ended && w->err.code == codes[a->state];
        if (!same) {
            sim_fail(s, "REFERENCE: request %llu of session %llu to queue '%s' %s (%s), by TensorFlow's rules its state is %d",
                     (unsigned long long)a->number, (unsigned long long)a->who, q->var->name, ended ? "has ended" : "waits",
                     ps_status_name(w->err.code), (int)a->state);
        }
    }
}

/* A close with cancel acts at once, also when the same bytes bring the ACK of its client, who has given it up. */
static bool close_was_given_up(const struct sim *s, const struct sim_queue *q)
{
    for (const struct ref_attempt *a = q->ref->enqueues; a != NULL; a = a->after) {
        if (a->kind == REF_CLOSE) {
            return false; /* it may be this one's turn */
        }
    }
    for (size_t i = 0; i < s->op_count; i++) {
        const struct sim_op *op = s->op[i];
        bool given_up = op->state == SIM_OP_DONE && op->status != PS_OK && op->applied != PS_NOTHING_APPLIED;
        if (op->kind == PSI_REQ_QUEUE_CLOSE && op->cancel && op->var == q->var && given_up) {
            return true;
        }
    }
    return false;
}

static void compare(struct sim *s, struct sim_task *t, struct sim_queue *q, const struct psd_queue *real)
{
    feed_ends(s, t, q);
    feed_new(s, t, q);
    if (real->closed && !q->ref->closed && close_was_given_up(s, q)) {
        struct ref_attempt *a = ref_open(q->ref, 0, 0, REF_CLOSE, 0);
        ref_close_at_once(q->ref, a);
        ref_forget(q->ref, a);
    }
    q->ref->held = psi_list_linked(&real->dirty); /* by a cut that is full */
    s->count_held += q->ref->held;
    ref_turns(q->ref);
    if (q->ref->wrong[0] != '\0') {
        sim_fail(s, "REFERENCE: queue '%s': %s", q->var->name, q->ref->wrong);
    }
    if (q->ref->closed != real->closed) {
        sim_fail(s, "REFERENCE: queue '%s' is %s", q->var->name,
                 real->closed ? "closed, and nobody's turn was to" : "not closed");
    }
    q->var->closed = q->var->closed || real->closed;
    compare_elements(s, q, real);
    compare_line(s, q, &real->enqueuers, q->ref->enqueues);
    compare_line(s, q, &real->dequeuers, q->ref->dequeues);
    compare_ends(s, t, q);
    s->count_compared++;
}

/* ---- queues that come and go ---- */

static struct sim_queue *queue_of(struct sim *s, uint64_t creation)
{
    for (uint32_t i = 0; i < SIM_QUEUES_MAX; i++) {
        if (s->queue[i].ref != NULL && s->queue[i].creation == creation) {
            return &s->queue[i];
        }
    }
    return NULL;
}

static void queue_gone(struct sim *s, struct sim_queue *q)
{
    for (uint64_t i = 0; i < s->element_count; i++) {
        s->element[i].dead = s->element[i].dead || s->element[i].creation == q->creation;
    }
    ref_free(q->ref);
    q->ref = NULL;
}

static struct sim_queue *queue_new(struct sim *s, const struct sim_task *t, const struct psd_variable *v)
{
    struct sim_queue *q = NULL;
    for (uint32_t i = 0; i < SIM_QUEUES_MAX && q == NULL; i++) {
        q = s->queue[i].ref == NULL ? &s->queue[i] : NULL;
    }
    if (q == NULL) {
        sim_fail(s, "more than %d queues: a fault of the workload", SIM_QUEUES_MAX);
    }
    *q = (struct sim_queue){.creation = v->creation, .handle = v->handle, .task = (uint32_t)(t - s->task), .ref = ref_new()};
    for (uint32_t i = 0; i < s->var_count; i++) {
        q->var = strcmp(s->var[i].name, v->name) == 0 ? &s->var[i] : q->var;
    }
    const struct psi_queue_spec *spec = &v->queue->spec;
    q->ref->capacity = spec->capacity < 0 ? UINT64_MAX : (uint64_t)spec->capacity;
    q->ref->shuffle = spec->kind == PSI_QUEUE_SHUFFLE;
    q->ref->min_after_dequeue = spec->min_after_dequeue;
    if (s->k.beside && sim_back_now(t)) {
        sim_back_queue(s, t, q, v->queue);
    }
    return q;
}

static void check_ledger(struct sim *s)
{
    char text[200];
    for (uint64_t i = 0; i < s->element_count; i++) {
        const struct sim_element *e = &s->element[i];
        uint32_t who = 0;
        bool away = e->place == SIM_PLACE_NONE || e->place == SIM_PLACE_GONE;
        if (e->told == SIM_TOLD_IN && !e->dead && away && owners(e, &who) == 0) {
            sim_fail(s, "LOST: element %llu of %s", (unsigned long long)(i + 1), sim_op_text(e->put, text));
        }
    }
}

void sim_queues_poll(struct sim *s, struct sim_task *t)
{
    uint32_t index = (uint32_t)(t - s->task);
    bool seen[SIM_QUEUES_MAX] = {false};
    uint64_t cursor = 0, handle = 0;
    void *value = NULL;
    if (s->k.profile != SIM_QUEUES && !s->k.train_queue) {
        return;
    }
    while (psi_u64_map_next(&t->core->store.handles, &cursor, &handle, &value)) {
        const struct psd_variable *v = value;
        struct sim_queue *q = v->queue == NULL ? NULL : queue_of(s, v->creation);
        if (v->queue == NULL) {
            continue;
        }
        bool back = s->k.beside && sim_back_now(t) && s->shares.creation != v->creation && s->sums.creation != v->creation;
        if (s->k.shares) {
            if (back) {
                sim_shares_back(s, v, sim_back_find(s, t, &s->var[0]));
            }
            sim_shares_look(s, v);
            continue;
        }
        if (s->k.sums) {
            if (back) {
                sim_sums_back(s, v, sim_back_find(s, t, &s->var[0]));
            }
            sim_sums_look(s, v);
            continue;
        }
        q = q == NULL ? queue_new(s, t, v) : q;
        seen[q - s->queue] = true;
        compare(s, t, q, v->queue);
    }
    for (uint32_t i = 0; i < SIM_QUEUES_MAX; i++) {
        if (s->queue[i].ref != NULL && s->queue[i].task == index && !seen[i]) {
            queue_gone(s, &s->queue[i]);
        }
    }
    s->queue_end_count = 0;
    check_ledger(s);
}

void sim_queues_restart(struct sim *s, const struct sim_task *t)
{
    for (uint32_t i = 0; i < SIM_QUEUES_MAX; i++) {
        if (s->queue[i].ref != NULL && s->queue[i].task == (uint32_t)(t - s->task)) {
            queue_gone(s, &s->queue[i]);
        }
    }
}

void sim_queues_check_end(struct sim *s)
{
    if (s->k.shares) {
        sim_shares_check_end(s);
    }
    if (s->k.sums) {
        sim_sums_check_end(s);
    }
    for (uint64_t i = 0; i < s->element_count; i++) {
        if (s->element[i].place == SIM_PLACE_TAKEN && !s->element[i].dead) {
            sim_fail(s, "element %llu is still taken, and no session is left", (unsigned long long)(i + 1));
        }
        uint32_t who = 0;
        s->count_taken += owners(&s->element[i], &who) > 0;
        s->count_again += s->element[i].got_count > 1;
        s->count_back += s->element[i].back_count > 0;
    }
    check_ledger(s);
}

/* ---- what programs do ---- */

/* The numbers of an element; in every fourth seed between two components that have a dimension of 0, and no bytes. */
static void draw_components(const struct sim *s, struct sim_var *v)
{
    static const struct psi_queue_component empty = {.dtype = PS_F32, .shaped = true, .shape = {.rank = 2, .dims = {3, 0}}};
    const uint32_t at = s->seed % 4 == 1;
    v->queue.component_count = at == 0 ? 1 : 3;
    v->queue.components[0] = v->queue.components[2 * at] = empty;
    v->queue.components[at] =
        (struct psi_queue_component){.dtype = PS_I64, .shaped = true, .shape = {.rank = 1, .dims = {(int64_t)v->elements}}};
}

void sim_queues_draw(struct sim *s)
{
    static const char *const names[] = {"fifo", "shuffle"};
    if (s->k.shares) {
        sim_shares_draw(s);
        return;
    }
    if (s->k.sums) {
        sim_sums_draw(s);
        return;
    }
    for (uint32_t i = 0; i < 2; i++) {
        struct sim_var *v = &s->var[s->var_count++];
        (void)snprintf(v->name, sizeof(v->name), "%s", names[i]);
        v->container = SIM_CONTAINER;
        v->kind = SIM_VAR_QUEUE;
        v->elements = sim_one_in(s, 6) ? sim_range(s, 20000, 60000) : 1;
        v->queue = (struct psi_queue_spec){.kind = i == 0 ? PSI_QUEUE_FIFO : PSI_QUEUE_SHUFFLE,
                                           .capacity = sim_one_in(s, 3) ? -1 : (int64_t)sim_range(s, 1, 8)};
        draw_components(s, v);
        if (i == 1) {
            v->queue.capacity = v->queue.capacity < 0 ? -1 : v->queue.capacity + 4;
            v->queue.min_after_dequeue = sim_below(s, 4);
            v->queue.seed = sim_below(s, 3);
        }
        if (s->k.ps_tasks > 1 && sim_one_in(s, 2)) {
            (void)snprintf(v->device, sizeof(v->device), "/job:ps/task:1");
        }
    }
}

void sim_queue_work(struct sim *s, struct sim_program *p)
{
    if (s->k.shares) {
        sim_shares_work(s, p);
        return;
    }
    if (s->k.sums) {
        sim_sums_work(s, p);
        return;
    }
    uint64_t x = sim_below(s, 100);
    struct sim_var *v = &s->var[sim_below(s, s->var_count)];
    enum psi_request_kind kind = p->role == SIM_FINAL ? PSI_REQ_STATUS
                                 : x < 48             ? PSI_REQ_ENQUEUE
                                 : x < 92             ? PSI_REQ_DEQUEUE
                                 : x < 97             ? PSI_REQ_STATUS
                                                      : PSI_REQ_QUEUE_CLOSE;
    p->next_call_at = s->now + sim_below(s, (uint64_t)s->k.think_ms + 1);
    if (s->op_count > CALLS_MANY && p->role != SIM_FINAL) { /* enough of them for one seed */
        p->next_call_at = s->now + sim_range(s, 100, 600);
    }
    if (kind == PSI_REQ_QUEUE_CLOSE && (s->seed % 3 != 0 || !sim_one_in(s, 6))) {
        return;
    }
    uint32_t timeout_ms = kind == PSI_REQ_STATUS ? s->k.operation_ms : (uint32_t)sim_range(s, 20, sim_one_in(s, 4) ? 6000 : 900);
    if (sim_call_start(s, p, kind, v, timeout_ms) == NULL) {
        sim_program_end_soon(s, p, 500);
    }
}

static uint64_t number_of(struct sim *s, const struct sim_call *call)
{
    const struct psi_client *c = call->program->core;
    for (uint32_t i = 0; i < c->peer_count; i++) {
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, &c->peers[i]->asks) {
            const struct psi_ask *ask = PSI_CONTAINER_OF(it, struct psi_ask, link);
            if (ask->req == &call->req && ask->op == PS_OP_DEQUEUE) {
                return ask->number;
            }
        }
    }
    sim_fail(s, "a dequeue is answered that is not asked for");
}

ps_status sim_queue_room(struct psi_dequeue *d, const struct ps_dequeue_result *got, uint8_t **out, struct psi_err *err)
{
    struct sim_call *call = d->ctx;
    (void)err;
    call->bytes = (size_t)got->bytes + 64;
    call->dst = aligned_alloc(64, (call->bytes + 63) & ~(size_t)63);
    if (call->dst == NULL) {
        abort();
    }
    call->op->number = number_of(call->program->sim, call);
    *out = call->dst;
    return PS_OK;
}

uint64_t sim_element_new(struct sim *s, struct sim_op *op)
{
    if (s->element_count == s->element_capacity) {
        s->element_capacity = s->element_capacity == 0 ? 1024 : s->element_capacity * 2;
        s->element = realloc(s->element, s->element_capacity * sizeof(s->element[0]));
        if (s->element == NULL) {
            abort();
        }
    }
    s->element[s->element_count++] = (struct sim_element){.put = op, .creation = op->creation};
    return s->element_count;
}

static void prepare_put(struct sim *s, struct sim_call *call)
{
    struct sim_op *op = call->op;
    uint64_t bytes = op->var->elements * 8;
    call->put.many = sim_one_in(s, 3);
    call->put.count = call->put.many ? (uint32_t)sim_below(s, MANY_MAX + 1) : 1;
    call->put.bytes = call->put.count * (bytes + (call->put.many ? 8 : 0));
    call->bytes = (size_t)call->put.bytes;
    call->src = aligned_alloc(64, (call->bytes + 64) & ~(size_t)63);
    if (call->src == NULL) {
        abort();
    }
    uint8_t *at = call->src;
    op->first = s->element_count + 1;
    op->count = call->put.count;
    for (uint32_t i = 0; i < call->put.count; i++) {
        uint64_t id = sim_element_new(s, op);
        if (call->put.many) {
            memcpy(at, &bytes, 8);
            at += 8;
        }
        for (uint64_t j = 0; j < op->var->elements; j++, at += 8) {
            memcpy(at, &id, 8);
        }
    }
    call->put.data = call->src;
    call->req.src = &call->put;
}

void sim_queue_prepare(struct sim *s, struct sim_call *call)
{
    struct psi_request *req = &call->req;
    if (s->k.shares) {
        sim_shares_prepare(s, call);
    } else if (s->k.sums) {
        sim_sums_prepare(s, call);
    } else if (req->kind == PSI_REQ_ENQUEUE) {
        prepare_put(s, call);
    } else if (req->kind == PSI_REQ_DEQUEUE) {
        call->take = (struct psi_dequeue){.many = sim_one_in(s, 3), .room = sim_queue_room, .ctx = call};
        call->take.count = call->take.many ? (uint32_t)sim_below(s, MANY_MAX + 1) : 1;
        call->take.up_to = call->take.many && sim_one_in(s, 3);
        req->dst = &call->take;
    } else if (req->kind == PSI_REQ_QUEUE_CLOSE) {
        req->bytes = sim_below(s, 2);
        call->op->cancel = req->bytes != 0;
    }
}

/* ---- what they are told ---- */

static void done_put(struct sim *s, const struct sim_call *call)
{
    const struct sim_op *op = call->op;
    uint64_t in = op->status == PS_OK ? op->count : 0;
    bool knows = op->status == PS_OK || op->applied == PS_NOTHING_APPLIED;
    char text[200];
    if (op->status != PS_OK && op->applied == PS_MAYBE_PARTLY_APPLIED && call->req.result_bytes == sizeof(in)) {
        memcpy(&in, call->req.result, sizeof(in));
        knows = true;
    }
    if (in > op->count) {
        sim_fail(s, "%s says that %llu of %llu elements are in", sim_op_text(op, text), (unsigned long long)in,
                 (unsigned long long)op->count);
    }
    for (uint32_t i = 0; i < op->count && knows; i++) {
        struct sim_element *e = element_at(s, op->first + i);
        e->told = i < in ? SIM_TOLD_IN : SIM_TOLD_OUT;
        if (i >= in && e->place != SIM_PLACE_NONE) {
            sim_fail(s, "%s was told that element %llu is not in, and it was", sim_op_text(op, text),
                     (unsigned long long)(op->first + i));
        }
    }
    check_ledger(s);
}

static void done_take(struct sim *s, const struct sim_call *call)
{
    const struct sim_op *op = call->op;
    const struct psi_dequeue *d = &call->take;
    struct sim_element_key key = {.life = op->life, .number = op->number};
    const uint8_t *at = d->data;
    uint64_t bytes = op->var->elements * 8;
    char text[200];
    if (op->status != PS_OK) {
        return;
    }
    if (d->got.count > d->count || (d->got.count < d->count && !d->up_to) || (d->up_to && d->count > 0 && d->got.count == 0) ||
        d->got.bytes != d->got.count * (bytes + (d->many ? 8 : 0))) {
        sim_fail(s, "%s asked for %u elements and has %llu, in %llu bytes", sim_op_text(op, text), d->count,
                 (unsigned long long)d->got.count, (unsigned long long)d->got.bytes);
    }
    for (uint64_t i = 0; i < d->got.count; i++) {
        uint64_t id = 0;
        at += d->many ? 8 : 0;
        memcpy(&id, at, 8);
        for (uint64_t j = 1; j < op->var->elements; j++) {
            if (memcmp(at + j * 8, &id, 8) != 0) {
                sim_fail(s, "MIXED: %s has values of element %llu and of another one", sim_op_text(op, text),
                         (unsigned long long)id);
            }
        }
        at += bytes;
        struct sim_element *e = element_at(s, id);
        if (s->k.beside && op->creation != e->creation) {
            continue; /* it is in the queue again since, as it was at a cut */
        }
        add_key(s, e->got, &e->got_count, key);
        check_once(s, id, "as its program says");
    }
}

static bool has_cause(struct sim *s, const struct sim_op *op)
{
    bool closed = op->var->closed;
    switch (op->status) {
    case PS_DEADLINE_EXCEEDED:
    case PS_UNAVAILABLE:
    case PS_RESOURCE_EXHAUSTED:
    case PS_ABORTED: /* reset, the end of a lease, of a record */
        return true;
    case PS_CANCELLED:
        return closed || s->k.may_lose;
    case PS_OUT_OF_RANGE:
        return closed && op->kind == PSI_REQ_DEQUEUE;
    case PS_NOT_FOUND:
        return op->kind == PSI_REQ_STATUS && s->k.may_lose;
    default:
        return op->status == PS_OK;
    }
}

bool sim_queue_done(struct sim *s, const struct sim_call *call)
{
    const struct sim_op *op = call->op;
    char text[200];
    if (op->var == NULL || op->var->kind != SIM_VAR_QUEUE || op->kind == PSI_REQ_GET) {
        return false;
    }
    if (!has_cause(s, op) && !(s->k.shares && sim_shares_cause(s, op)) && !sim_disks_cause(s, call)) {
        sim_fail(s, "%s failed without a cause: %s", sim_op_text(op, text), call->req.err != NULL ? call->req.err->text : "");
    }
    if (s->k.shares) {
        sim_shares_done(s, call);
    } else if (s->k.sums) {
        sim_sums_done(s, call);
    } else if (op->kind == PSI_REQ_ENQUEUE) {
        done_put(s, call);
    } else if (op->kind == PSI_REQ_DEQUEUE) {
        done_take(s, call);
    }
    sim_train_done(s, call->program, call);
    return true;
}

void sim_queues_free(struct sim *s)
{
    for (uint32_t i = 0; i < SIM_QUEUES_MAX; i++) {
        if (s->queue[i].ref != NULL) {
            ref_free(s->queue[i].ref);
        }
    }
    free(s->element);
    sim_sums_free(s);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of clients whose answer comes later (wait.h), once they wait; wait_begin.c makes them. A request is in the list
 * `waiters` of each object that it waits for. When the object changes, the request is examined, and ends if all needs are met. It
 * is kept until the client confirms the answer (ACK). Failure: at its deadline a request ends as psd_wait_kind.expire() says; it
 * also ends if an object that it waits for is lost. */

#include "wait.h"

#include "psd/rpc/handlers.h"

#include "common/mem.h"

#include <string.h>

enum { FREE_MAX = 256 };

/* ---- deadlines: a binary heap; each request knows its index ---- */

static void heap_put(struct psd_task *t, uint32_t place, struct psd_wait *w)
{
    t->deadlines[place - 1] = w;
    w->place = place;
}

/* Put w where it belongs in the heap. Entry `place` (from 1) is free. */
static void heap_settle(struct psd_task *t, uint32_t place, struct psd_wait *w)
{
    while (place > 1 && t->deadlines[place / 2 - 1]->deadline_ms > w->deadline_ms) {
        heap_put(t, place, t->deadlines[place / 2 - 1]);
        place /= 2;
    }
    for (uint32_t child = place * 2; child <= t->deadline_count; child = place * 2) {
        child += child < t->deadline_count && t->deadlines[child]->deadline_ms < t->deadlines[child - 1]->deadline_ms;
        if (t->deadlines[child - 1]->deadline_ms >= w->deadline_ms) {
            break;
        }
        heap_put(t, place, t->deadlines[child - 1]);
        place = child;
    }
    heap_put(t, place, w);
}

static void heap_remove(struct psd_task *t, struct psd_wait *w)
{
    uint32_t place = w->place;
    if (place == 0) {
        return;
    }
    struct psd_wait *last = t->deadlines[--t->deadline_count];
    w->place = 0;
    if (last != w) {
        heap_settle(t, place, last);
    }
}

bool psd_wait_reserve(struct psd_task *t)
{
    if (t->wait_count < t->deadline_capacity) {
        return true;
    }
    uint32_t capacity = t->deadline_capacity == 0 ? 64 : t->deadline_capacity * 2;
    struct psd_wait **more = psi_realloc(t->deadlines, capacity * sizeof(struct psd_wait *));
    if (more == NULL) {
        return false;
    }
    t->deadlines = more;
    t->deadline_capacity = capacity;
    return true;
}

void psd_wait_tick(struct psd_task *t)
{
    while (t->deadline_count > 0 && t->deadlines[0]->deadline_ms <= t->now_ms) {
        struct psd_wait *w = t->deadlines[0];
        w->kind->expire(t, w);
        psd_wait_done(t, w);
    }
}

uint64_t psd_wait_deadline(const struct psd_task *t, uint64_t timeout_ms)
{
    return timeout_ms == 0 || timeout_ms > UINT32_MAX ? 0 : t->now_ms + timeout_ms;
}

void psd_wait_hurry(struct psd_task *t, struct psd_wait *w, uint64_t deadline_ms)
{
    if (w->deadline_ms != 0 && w->deadline_ms <= deadline_ms) {
        return;
    }
    w->deadline_ms = deadline_ms;
    if (w->stage == PSD_WAIT_OPEN) {
        heap_settle(t, w->place != 0 ? w->place : ++t->deadline_count, w);
    }
}

/* ---- memory of lists: an item has few bytes in a frame, but may need up to 600 bytes here until the client's ACK ---- */

uint64_t psd_wait_lists_most(const struct psd_task *t)
{
    uint64_t share = t->config.memory_budget_bytes / 8;
    return share > PSD_MEMORY_FREE_BYTES ? share : PSD_MEMORY_FREE_BYTES;
}

uint64_t psd_wait_lists_all(const struct psd_task *t)
{
    return t->store.counted[PSD_MEMORY_REQUESTS];
}

uint64_t psd_wait_lists_missing(const struct psd_task *t, uint64_t n)
{
    uint64_t most = psd_wait_lists_most(t), all = psd_wait_lists_all(t) + n;
    uint64_t above = all > most ? all - most : 0, of_budget = psd_store_missing_of(&t->store, PSD_MEMORY_REQUESTS, n);
    return above > of_budget ? above : of_budget;
}

uint64_t psd_wait_lists_bytes(const struct psd_record *r)
{
    uint64_t bytes = 0, cursor = 0;
    void *value = NULL;
    while (psi_u64_map_next(&r->waits, &cursor, NULL, &value)) {
        bytes += ((const struct psd_wait *)value)->bytes;
    }
    return bytes;
}

void psd_wait_take(struct psd_task *t, struct psd_wait *w, uint64_t bytes)
{
    psd_store_count(&t->store, PSD_MEMORY_REQUESTS, bytes);
    w->bytes += bytes;
}

void psd_wait_give_back(struct psd_task *t, struct psd_wait *w, uint64_t bytes)
{
    psd_store_uncount(&t->store, PSD_MEMORY_REQUESTS, bytes);
    w->bytes -= bytes;
}

void psd_wait_item_refused(struct psd_task *t, struct psd_wait *w, struct psd_create *item, const struct psi_err *err)
{
    item->status = err->code;
    item->reason = err->reason;
    item->text = psi_strndup(err->text, strlen(err->text)); /* without memory the client gets status and reason, but no text */
    psd_wait_take(t, w, item->text == NULL ? 0 : strlen(err->text) + 1);
}

static void free_needs(struct psd_task *t, struct psd_wait *w)
{
    if (w->need_capacity > 1) { /* the first need lies in w itself */
        psd_wait_give_back(t, w, (w->need_capacity - 1) * sizeof(*w->needs));
        psi_free(w->needs);
    }
    w->needs = NULL;
    w->need_count = w->need_capacity = 0;
}

static void free_creates(struct psd_task *t, struct psd_wait *w)
{
    for (uint32_t i = 0; i < w->create_count; i++) {
        psd_wait_give_back(t, w, w->creates[i].text == NULL ? 0 : strlen(w->creates[i].text) + 1);
        psd_wait_give_back(t, w, w->creates[i].queue == NULL ? 0 : sizeof(*w->creates[i].queue));
        psi_free(w->creates[i].text);
        psi_free(w->creates[i].queue);
    }
    psd_wait_give_back(t, w, w->create_capacity * sizeof(*w->creates));
    psi_free(w->creates);
    w->creates = NULL;
    w->create_count = w->create_capacity = 0;
}

/* ---- structs: up to FREE_MAX are reused, so that waiting usually allocates nothing ---- */

struct psd_wait *psd_wait_new(struct psd_task *t)
{
    struct psd_wait *w = t->free_waits;
    if (w == NULL) {
        return psi_calloc(1, sizeof(*w));
    }
    t->free_waits = w->next;
    t->free_wait_count--;
    memset(w, 0, sizeof(*w));
    return w;
}

static void keep(struct psd_task *t, struct psd_wait *w)
{
    if (t->free_wait_count == FREE_MAX) {
        psi_free(w);
        return;
    }
    w->next = t->free_waits;
    t->free_waits = w;
    t->free_wait_count++;
}

void psd_wait_answer(struct psd_task *t, struct psd_wait *w)
{
    struct psd_conn *c = w->record->conn;
    if (c == NULL) {
        return; /* the answer is sent when the session connects again */
    }
    if (w->err.code == PS_OK && w->kind->answer != NULL) {
        w->kind->answer(t, c, w);
    } else {
        struct ps_reply_meta m = {.result_bytes = w->has_result ? sizeof(w->result) : 0};
        psd_reply(t, c, w->op, 0, w->id, 0, w->err.code == PS_OK ? NULL : &w->err, w->retry_after_ms, &m,
                  (const uint8_t *)&w->result);
    }
}

void psd_wait_hang(struct psd_wait *w, struct psd_need *n, struct psi_list *waiters)
{
    n->wait = w;
    n->of = waiters;
    psi_list_push_back(waiters, &n->at);
}

void psd_wait_open(struct psd_task *t, struct psd_wait *w)
{
    w->stage = PSD_WAIT_OPEN;
    for (uint32_t i = 0; i < w->need_count; i++) {
        struct psd_need *n = &w->needs[i];
        PSI_ASSERT(n->met || n->wait == w); /* otherwise the request would wait forever */
        n->met = n->met || (w->kind->look != NULL && w->kind->look(w, n));
        w->missing += !n->met;
    }
    if (w->missing == 0) {
        psd_wait_done(t, w);
    } else if (w->deadline_ms != 0) {
        heap_settle(t, ++t->deadline_count, w);
    }
}

/* Set whether need n is met. If nothing is missing any more, its request ends. */
static void set_met(struct psd_task *t, struct psd_need *n, bool met)
{
    struct psd_wait *w = n->wait;
    if (n->met == met) {
        return;
    }
    n->met = met;
    if (w->stage == PSD_WAIT_OPEN) {
        w->missing += met ? UINT32_MAX : 1;
        if (w->missing == 0) {
            psd_wait_done(t, w);
        }
    }
}

void psd_wait_look(struct psd_task *t, struct psi_list *waiters)
{
    struct psi_list now, *at = NULL;
    psi_list_init(&now);
    psi_list_move_all(&now, waiters);
    while ((at = psi_list_pop_front(&now)) != NULL) { /* a request that ends also takes its other needs out of `now` */
        struct psd_need *n = PSI_CONTAINER_OF(at, struct psd_need, at);
        psi_list_push_back(waiters, at);
        set_met(t, n, n->wait->kind->look(n->wait, n));
    }
}

void psd_wait_over(struct psd_task *t, struct psi_list *waiters)
{
    struct psi_list *at = NULL;
    while ((at = psi_list_pop_front(waiters)) != NULL) {
        set_met(t, PSI_CONTAINER_OF(at, struct psd_need, at), true);
    }
}

struct psd_wait *psd_wait_first(const struct psi_list *waiters)
{
    struct psi_list *first = psi_list_first(waiters);
    return first == NULL ? NULL : PSI_CONTAINER_OF(first, struct psd_need, at)->wait;
}

static void let_go(struct psd_task *t, struct psd_wait *w)
{
    heap_remove(t, w);
    if (w->kind->drop != NULL) {
        w->kind->drop(t, w);
    }
    for (uint32_t i = 0; i < w->need_count; i++) {
        if (w->needs[i].wait != NULL) {
            psi_list_remove(&w->needs[i].at);
        }
    }
    free_needs(t, w);
}

void psd_wait_done(struct psd_task *t, struct psd_wait *w)
{
    PSI_ASSERT(w->stage != PSD_WAIT_DONE);
    let_go(t, w);
    w->stage = PSD_WAIT_DONE;
    psd_wait_answer(t, w);
}

void psd_wait_refused(struct psd_task *t, struct psd_wait *w, const struct psi_err *err, uint32_t retry_after_ms)
{
    w->err = *err;
    w->retry_after_ms = retry_after_ms;
    free_creates(t, w);
    psd_wait_done(t, w);
}

ps_status psd_wait_gone(const struct psd_task *t, const char *name, struct psi_err *err)
{
    return psi_fail_as(err, PS_ABORTED, PS_REASON_LOST, "%s at %s was reset or deleted while waiting", name, t->name);
}

void psd_wait_abort_variable(struct psd_task *t, const struct psd_variable *v)
{
    struct psd_wait *w = NULL;
    while ((w = psd_wait_first(&v->waiters)) != NULL) {
        PSI_IGNORE(psd_wait_gone(t, v->name, &w->err)); /* sent by psd_wait_done() */
        psd_wait_done(t, w);
    }
}

void psd_wait_free(struct psd_task *t, struct psd_wait *w)
{
    if (w->stage != PSD_WAIT_DONE) {
        let_go(t, w);
    }
    PSI_IGNORE(psi_u64_map_remove(&w->record->waits, w->id)); /* always present */
    if (w->out != NULL) {
        psd_store_unstage(&t->store, w->out, w->out_staged);
    }
    if (w->kind->forget != NULL) {
        w->kind->forget(t, w);
    }
    free_creates(t, w);
    psd_store_uncount(&t->store, PSD_MEMORY_REQUESTS, w->bytes);
    t->wait_count--;
    keep(t, w);
}

void psd_rpc_ack(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psd_wait *w = psi_u64_map_find(&c->record->waits, r->header.id);
    if (w != NULL) {
        w->acknowledged = w->stage == PSD_WAIT_DONE && r->header.offset == 0;
        psd_wait_free(t, w); /* also if w is not answered yet: then the client gives the request up */
    }
}

void psd_wait_fini(struct psd_task *t)
{
    struct psd_wait *w = NULL;
    while ((w = t->free_waits) != NULL) {
        t->free_waits = w->next;
        psi_free(w);
    }
    psi_free(t->deadlines);
    psi_map_fini(&t->presences);
    psi_map_fini(&t->barriers);
}

static void check_open(const struct psd_wait *w)
{
    uint32_t missing = 0;
    for (uint32_t i = 0; i < w->need_count; i++) {
        const struct psd_need *n = &w->needs[i];
        bool hangs = n->wait == w && psi_list_linked(&n->at);
        PSI_ASSERT(n->met || hangs); /* otherwise the request would wait forever */
        if (hangs) {
            /* otherwise something has changed without a call of psd_wait_look() */
            PSI_ASSERT(n->met == (w->kind->look != NULL && w->kind->look(w, n)));
        }
        missing += !n->met;
    }
    PSI_ASSERT(missing == w->missing && missing > 0);
    PSI_ASSERT((w->place > 0) == (w->deadline_ms != 0));
}

void psd_wait_check_invariants(const struct psd_task *t)
{
    uint64_t bytes = (uint64_t)psi_map_count(&t->presences) * PSD_PRESENCE_BYTES +
                     (uint64_t)psi_map_count(&t->barriers) * PSD_BARRIER_BYTES,
             cursor = 0;
    uint32_t count = 0, open_with_deadline = 0;
    void *value = NULL, *item = NULL;
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        const struct psd_record *r = value;
        uint64_t inner = 0, id = 0;
        while (psi_u64_map_next(&r->waits, &inner, &id, &item)) {
            const struct psd_wait *w = item;
            PSI_ASSERT(w->record == r && w->id == id);
            if (w->stage == PSD_WAIT_OPEN) {
                check_open(w);
            } else {
                PSI_ASSERT(w->place == 0 && (w->stage == PSD_WAIT_COLLECTING || w->need_capacity == 0));
            }
            open_with_deadline += w->place > 0;
            bytes += w->bytes;
            count++;
        }
    }
    PSI_ASSERT(count == t->wait_count && bytes == psd_wait_lists_all(t) && count <= t->deadline_capacity);
    PSI_ASSERT(open_with_deadline == t->deadline_count);
    for (uint32_t place = 1; place <= t->deadline_count; place++) {
        const struct psd_wait *w = t->deadlines[place - 1];
        PSI_ASSERT(w->place == place && (place == 1 || t->deadlines[place / 2 - 1]->deadline_ms <= w->deadline_ms));
    }
}

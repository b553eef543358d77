/* SPDX-License-Identifier: Apache-2.0 */
/* See queue_ref.h. */
#include "queue_ref.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *p)
{
    if (p == NULL) {
        abort();
    }
    return p;
}

static void wrong(struct ref_queue *q, const char *what, uint64_t element)
{
    if (q->wrong[0] == '\0') {
        (void)snprintf(q->wrong, sizeof(q->wrong), "%s (element %llu)", what, (unsigned long long)element);
    }
}

/* ---- lists of numbers ---- */

static void insert(struct ref_list *list, size_t index, uint64_t x)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 8 : list->capacity * 2;
        list->at = must(realloc(list->at, list->capacity * sizeof(list->at[0])));
    }
    memmove(list->at + index + 1, list->at + index, (list->count - index) * sizeof(list->at[0]));
    list->at[index] = x;
    list->count++;
}

static uint64_t take(struct ref_list *list, size_t index)
{
    uint64_t x = list->at[index];
    list->count--;
    memmove(list->at + index, list->at + index + 1, (list->count - index) * sizeof(list->at[0]));
    return x;
}

void ref_add(struct ref_list *list, uint64_t x)
{
    insert(list, list->count, x);
}

/* ---- lines ---- */

static struct ref_attempt **line_of(struct ref_queue *q, const struct ref_attempt *a)
{
    return a->kind == REF_DEQUEUE ? &q->dequeues : &q->enqueues;
}

static void leave(struct ref_queue *q, struct ref_attempt *a, enum ref_state state)
{
    struct ref_attempt **at = line_of(q, a);
    while (*at != NULL && *at != a) {
        at = &(*at)->after;
    }
    if (*at == a) {
        *at = a->after;
    }
    a->after = NULL;
    a->state = state;
}

struct ref_queue *ref_new(void)
{
    struct ref_queue *q = must(calloc(1, sizeof(*q)));
    q->capacity = UINT64_MAX;
    return q;
}

static void attempt_free(struct ref_attempt *a)
{
    free(a->elements.at);
    free(a);
}

void ref_free(struct ref_queue *q)
{
    while (q->known != NULL) {
        struct ref_attempt *a = q->known;
        q->known = a->next;
        attempt_free(a);
    }
    free(q->elements.at);
    free(q->picks.at);
    free(q);
}

struct ref_attempt *ref_find(const struct ref_queue *q, uint64_t who, uint64_t number)
{
    struct ref_attempt *a = q->known;
    while (a != NULL && (a->who != who || a->number != number)) {
        a = a->next;
    }
    return a;
}

struct ref_attempt *ref_open(struct ref_queue *q, uint64_t who, uint64_t number, enum ref_kind kind, uint64_t want)
{
    struct ref_attempt *a = must(calloc(1, sizeof(*a)));
    a->who = who;
    a->number = number;
    a->kind = kind;
    a->want = want;
    a->next = q->known;
    q->known = a;
    struct ref_attempt **end = line_of(q, a);
    while (*end != NULL) {
        end = &(*end)->after;
    }
    *end = a;
    return a;
}

/* ---- what was taken ---- */

/* FIFO: to the front, in the order in which they were taken; shuffle: to the back */
static void give_back(struct ref_queue *q, struct ref_attempt *a)
{
    for (size_t i = 0; a->kind == REF_DEQUEUE && i < a->elements.count; i++) {
        insert(&q->elements, q->shuffle ? q->elements.count : i, a->elements.at[i]);
    }
    if (a->kind == REF_DEQUEUE) {
        a->elements.count = 0;
        a->moved = 0;
    }
}

void ref_give_up(struct ref_queue *q, struct ref_attempt *a)
{
    leave(q, a, REF_GIVEN_UP);
    give_back(q, a);
}

void ref_forget(struct ref_queue *q, struct ref_attempt *a)
{
    struct ref_attempt **at = &q->known;
    leave(q, a, a->state);
    while (*at != a) {
        at = &(*at)->next;
    }
    *at = a->next;
    attempt_free(a);
}

void ref_close_at_once(struct ref_queue *q, struct ref_attempt *a)
{
    leave(q, a, REF_OK);
    q->closed = true;
    while (q->enqueues != NULL) {
        leave(q, q->enqueues, REF_CANCELLED);
    }
}

/* ---- turns ---- */

void ref_put(struct ref_queue *q)
{
    q->ins++;
}

void ref_pick(struct ref_queue *q, uint64_t element)
{
    ref_add(&q->picks, element);
    q->outs++;
}

/* The next element may move; it does. */
static bool moves(const struct ref_queue *q, uint64_t *left)
{
    bool stands = q->held && *left == 0;
    *left -= *left > 0;
    return !stands;
}

/* The index of the next element to be taken. */
static size_t choose(struct ref_queue *q)
{
    uint64_t element = q->picked < q->picks.count ? q->picks.at[q->picked++] : 0;
    size_t i = 0;
    while (i < q->elements.count && q->elements.at[i] != element) {
        i++;
    }
    if (i == q->elements.count) {
        wrong(q, element == 0 ? "an element was not taken although it was there" : "an element was taken that is not there",
              element);
        return 0;
    }
    if (!q->shuffle && i != 0) {
        wrong(q, "an element was taken that was not the first", element);
    }
    return i;
}

static bool enqueue_turn(struct ref_queue *q)
{
    struct ref_attempt *a = q->enqueues;
    if (a == NULL) {
        return false;
    }
    if (q->closed) { /* a second close is CANCELLED likewise */
        leave(q, a, REF_CANCELLED);
        return true;
    }
    if (a->kind == REF_CLOSE) {
        q->closed = true;
        leave(q, a, REF_OK);
        return true;
    }
    if (a->moved == a->want || q->elements.count >= q->capacity || !moves(q, &q->ins)) {
        return false;
    }
    ref_add(&q->elements, a->elements.at[a->moved++]);
    if (a->moved == a->want) {
        leave(q, a, REF_OK);
    }
    return true;
}

static bool dequeue_turn(struct ref_queue *q)
{
    struct ref_attempt *a = q->dequeues;
    if (a == NULL) {
        return false;
    }
    if (q->closed && q->elements.count < a->want - a->moved) {
        size_t had = a->elements.count;
        if (!a->up_to || had + q->elements.count == 0) {
            if (a->up_to && q->enqueues != NULL) {
                return false; /* yields to them */
            }
            leave(q, a, REF_OUT_OF_RANGE);
            give_back(q, a);
            return true;
        }
        a->want = had + q->elements.count;
        if (a->moved == a->want) {
            leave(q, a, REF_OK);
            return true;
        }
    }
    uint64_t keep = q->shuffle && !q->closed ? q->min_after_dequeue : 0;
    if (q->elements.count <= keep || !moves(q, &q->outs)) {
        return false;
    }
    ref_add(&a->elements, take(&q->elements, choose(q)));
    if (++a->moved == a->want) {
        leave(q, a, REF_OK);
    }
    return true;
}

void ref_turns(struct ref_queue *q)
{
    bool moved = true;
    while (moved && q->wrong[0] == '\0') {
        moved = false;
        while (enqueue_turn(q)) {
            moved = true;
        }
        while (q->wrong[0] == '\0' && dequeue_turn(q)) {
            moved = true;
        }
    }
    if (q->picked < q->picks.count) {
        wrong(q, "an element was taken out of turn", q->picks.at[q->picked]);
    }
    if (q->ins > 0 || q->outs > 0) {
        wrong(q, "elements were moved out of turn", q->ins > 0 ? q->ins : q->outs);
    }
    q->ins = q->outs = 0;
    q->picks.count = 0;
    q->picked = 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue as TensorFlow 1.15 has it (core/kernels/queue_base.cc, fifo_queue.cc, random_shuffle_queue_op.cc), for comparison: it
 * shares nothing with psd. Elements are numbers, an attempt is named by two. Two lines of attempts, which ref_turns() moves: the
 * head of the enqueues, then that of the dequeues, until neither moves.
 *
 * Where psd says more than TensorFlow: what an attempt took is kept with it until ref_forget(), which may give it back; an
 * attempt that ends before its turn gives back what it had taken (TensorFlow loses it).
 */
#ifndef QUEUE_REF_H
#define QUEUE_REF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ref_kind { REF_ENQUEUE, REF_DEQUEUE, REF_CLOSE };
enum ref_state { REF_WAITS, REF_OK, REF_CANCELLED, REF_OUT_OF_RANGE, REF_GIVEN_UP };

struct ref_list {
    uint64_t *at;
    size_t count, capacity;
};

struct ref_attempt {
    struct ref_attempt *next; /* of all that are known */
    uint64_t who, number;
    enum ref_kind kind;
    enum ref_state state;
    bool up_to, cancel;
    uint64_t want;             /* elements */
    struct ref_list elements;  /* ENQUEUE: all; DEQUEUE: those it has taken */
    uint64_t moved;            /* of `elements`: ENQUEUE in the queue, DEQUEUE taken */
    struct ref_attempt *after; /* the next in its line */
};

struct ref_queue {
    uint64_t capacity; /* UINT64_MAX: unbounded */
    bool shuffle;
    uint64_t min_after_dequeue;
    bool closed;
    struct ref_list elements;
    struct ref_attempt *known, *enqueues, *dequeues;
    struct ref_list picks; /* shuffle: which elements the other side took since the last turns, in order */
    size_t picked;
    bool held;          /* the other side may stand still where a turn is due: no more moves than it has made */
    uint64_t ins, outs; /* held: elements that it has moved since the last turns, and this side has not */
    char wrong[160];    /* the first thing that cannot be; empty: none */
};

struct ref_queue *ref_new(void);
void ref_free(struct ref_queue *q);
/** NULL: it is not known. */
struct ref_attempt *ref_find(const struct ref_queue *q, uint64_t who, uint64_t number);
/** At the end of its line; ref_turns() is the caller's. REF_CLOSE with cancel acts at once. */
struct ref_attempt *ref_open(struct ref_queue *q, uint64_t who, uint64_t number, enum ref_kind kind, uint64_t want);
void ref_close_at_once(struct ref_queue *q, struct ref_attempt *a);
/** It leaves its line, or, done, loses its answer; what it had taken goes back. */
void ref_give_up(struct ref_queue *q, struct ref_attempt *a);
/** Nothing of it is remembered any more: its elements are its client's. */
void ref_forget(struct ref_queue *q, struct ref_attempt *a);
/** The other side has put one in. */
void ref_put(struct ref_queue *q);
/** shuffle: the other side took this one. */
void ref_pick(struct ref_queue *q, uint64_t element);
void ref_turns(struct ref_queue *q);
void ref_add(struct ref_list *list, uint64_t x);

#endif

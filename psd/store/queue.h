/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of one task, with their elements and attempts. An attempt is the record of the elements that a waiting request has
 * inserted or taken. A queue belongs to a variable without a value, which gives the queue name, container, handle and references.
 *
 * psd_element_new() makes an element when its bytes come. The change ENQUEUE puts the element at the back of the queue. DEQUEUE
 * moves an element out of the queue into the attempt of the request that takes it; `size` falls at once, so that one request can
 * take more elements than the capacity. ATTEMPT_END frees the elements of the attempt. With give_back it puts the elements back
 * to the front of the queue instead, in the order in which they were taken (SHUFFLE: to the back).
 *
 * WORK: after an ATTEMPT_END without give_back the session holds the item until WORK_END marks it done or gives it back. Done
 * items stay in memory, and are queued again when all items of the epoch are done.
 *
 * ACCUMULATOR: the first gradient that is put in becomes the sum; later gradients are added to the sum and freed. A DEQUEUE takes
 * the sum, reduced, as an element, and the next gradient begins a new sum. A sum that was given back is taken before the new one.
 * SPARSE_ACCUMULATOR does this row by row (sparse.h); a gradient with rows that the sum lacks makes a longer sum, whose memory is
 * reserved before. Comments below that name ACCUMULATOR are true of both kinds.
 *
 * A reset or delete frees the elements in the queue and those that sessions hold. Elements that a client has taken and not
 * acknowledged are freed with their attempt, because the answer with them may still be sent.
 *
 * psd/queue decides when an element moves; no function here waits. Only psd/queue and psd/session put requests and queues into
 * the lists enqueuers, dequeuers and dirty. */
#ifndef PSD_QUEUE_H
#define PSD_QUEUE_H

#include "common/queue_spec.h"
#include "record.h"

enum psd_element_state {
    PSD_ELEMENT_QUEUED, /* in the queue, or new */
    PSD_ELEMENT_TAKEN,  /* in an attempt */
    PSD_ELEMENT_DONE    /* WORK: done in this epoch */
};

/* An element and its data, in one piece of the arena. */
struct psd_element {
    /* derived: link in psd_queue.elements, or in the attempt that took the element; a queued element of a SHUFFLE: in no list */
    struct psi_list link;
    /* remembered: */
    uint64_t serial;     /* sequence number of the insertion, from 1 on; ACCUMULATOR: number of gradients in the element */
    uint64_t bytes;      /* bytes of data, which is encoded as in common/tuple.h */
    uint32_t deliveries; /* how often the element was given back after a client may have got it; WORK: in this epoch only */
    uint32_t state;      /* derived: enum psd_element_state */
    uint64_t cut;        /* volatile: serial of the last cut (state saved for a checkpoint: cut.h) that contains the element */
    uint8_t data[];      /* remembered: 8-aligned */
};

/* What a waiting request has inserted or taken, kept from the first element until the client's ACK; WORK: until WORK_END. */
struct psd_attempt {
    struct psi_list link;      /* derived: link in psd_record.attempts, the oldest first */
    struct psi_list of_queue;  /* derived: link in psd_queue.attempts */
    struct psd_record *record; /* derived: the record of the session that made the request */
    /* remembered: */
    const struct psd_variable *variable; /* holds one reference */
    uint64_t id;
    uint64_t inserted;
    struct psi_list elements; /* taken elements, in the order of taking */
    bool done;                /* the request will insert or take no further element */
    bool held;                /* WORK: the client has acknowledged; the session holds the elements until WORK_END */
    /* derived: */
    uint64_t element_count;
    uint64_t bytes; /* bytes of the data of its elements */
};

/* Counts of a queue that is being loaded; the checkpoint has them before the queue's elements. */
struct psd_queue_expects {
    /* volatile: */
    uint64_t size, done, taken;
    /* SHUFFLE: elements in psd_queue.array so far; until all are read from the checkpoint, `size` of the queue is 0 */
    uint64_t placed;
};

struct psd_queue {
    /* remembered: */
    struct psi_queue_spec spec;
    struct psi_list elements;   /* FIFO, WORK: in their order */
    struct psd_element **array; /* SHUFFLE: [size], all elements; WORK: [next_serial - 1], all items, by serial */
    uint64_t size;
    uint64_t next_serial;
    uint64_t draws;          /* SHUFFLE: draws so far */
    uint64_t fill_hash;      /* WORK, once filled: hash of the items, as the client that filled the queue has sent it */
    uint64_t done;           /* WORK: items done in this epoch */
    struct psd_element *sum; /* ACCUMULATOR: NULL while it has no gradient */
    int64_t step;            /* ACCUMULATOR: global step; gradients of an earlier step are dropped */
    uint32_t epoch;          /* WORK: index of the epoch, from 0; equal to spec.epochs: all epochs are over */
    bool closed;
    bool filled; /* WORK: the queue has all its items */
    /* derived: */
    uint64_t taken;           /* number of elements that attempts have taken */
    uint64_t bytes;           /* bytes of the data of all elements, taken ones included */
    struct psi_list attempts; /* struct psd_attempt */
    uint64_t attempt_count;
    /* volatile: */
    uint64_t capacity;                    /* places of `array` */
    uint64_t dropped;                     /* ACCUMULATOR: number of gradients that came too late */
    struct psi_list enqueuers, dequeuers; /* struct psd_need of psd/session/wait.h, the longest waiting first */
    /* link in psd_task.moved_queues: elements or requests have come, and psd_queues_turn() serves them at the end of the event */
    struct psi_list dirty;
    struct psd_cut_queue *kept;       /* what the checkpoint being written has still to encode (cut.c); NULL: nothing */
    struct psd_queue_expects expects; /* used while a checkpoint is loaded */
    const struct psd_variable *variable;
};

/** The record of the elements that request `id` of r put or took. NULL: no elements, or the client has acknowledged them. */
const struct psd_attempt *psd_attempt_find(const struct psd_record *r, uint64_t id);
/** True if q has room for one more element within its capacity. The caller checks `closed`. */
bool psd_queue_has_room(const struct psd_queue *q);
/** Number of elements that may be taken now. SHUFFLE: min_after_dequeue elements stay while the queue is open. WORK: 0 until the
 * queue has all its items. ACCUMULATOR: sums that were taken and given back. */
uint64_t psd_queue_available(const struct psd_queue *q);
/** Index of the element that the next DEQUEUE takes. SHUFFLE: drawn from (seed, draws) or, without a seed, from `random`, 64
 * random bits; q must not be empty. Other kinds: 0. */
uint64_t psd_queue_draw(const struct psd_queue *q, uint64_t random);
/** Number of elements in q; ACCUMULATOR: number of gradients in its sum. */
uint64_t psd_queue_length(const struct psd_queue *q);
/** ACCUMULATOR: count a gradient that was dropped because it came too late. */
void psd_queue_note_dropped(const struct psd_queue *q);
uint64_t psd_queue_items(const struct psd_queue *q);
/** WORK: the item with this serial; NULL: there is none. */
const struct psd_element *psd_queue_item(const struct psd_queue *q, uint64_t serial);
/** WORK: the attempt of r that has the item with this serial, acknowledged by the client or not. NULL: r does not have it. */
const struct psd_attempt *psd_attempt_of_item(const struct psd_record *r, const struct psd_queue *q, uint64_t serial);
/** WORK: the attempt, of any session, that has taken the item with this serial; NULL: nobody has. Slow: searches all attempts. */
const struct psd_attempt *psd_queue_holder(const struct psd_queue *q, uint64_t serial);

/* ---- memory for changes (commit.h): handlers allocate elements, psd_change_reserve() all else ---- */
/** Budget bytes of an element with this many bytes of data. */
uint64_t psd_element_memory_bytes(uint64_t bytes);
/** A new element: QUEUED, in no list, with undefined data. NULL: the budget, or the system, has no memory. */
struct psd_element *psd_element_new(struct psd_store *s, uint64_t bytes);
/** Free e, which is in no queue and in no attempt. NULL is fine. */
void psd_element_free(struct psd_store *s, struct psd_element *e);

/** Allocate the queue of v, which is being created, within the budget. NULL: no memory. */
struct psd_queue *psd_queue_new(struct psd_store *s, const struct psd_variable *v, const struct psi_queue_spec *spec);
/** Make room in q->array for `count` more elements. An element that is given back has room already. RESOURCE_EXHAUSTED. */
ps_status psd_queue_reserve(struct psd_store *s, const struct psd_queue *q, uint64_t count, struct psi_err *err) PSI_MUST;
/** SPARSE_ACCUMULATOR: allocate *out for the sum of q->sum and e, unless q->sum has all rows of e already. RESOURCE_EXHAUSTED. */
ps_status psd_queue_reserve_sum(struct psd_store *s, const struct psd_queue *q, const struct psd_element *e,
                                struct psd_element **out, struct psi_err *err) PSI_MUST;
struct psd_attempt *psd_attempt_new(struct psd_store *s);

void psd_queue_check_invariants(const struct psd_queue *q);

#endif

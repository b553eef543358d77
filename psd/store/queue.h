/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of one task: elements that were inserted and not taken, and attempts, which are what waiting requests have inserted or
 * taken. A queue hangs on a variable (its name, container, handle, creation, references), which has no value.
 *
 * The life of an element: psd_element_new() when its bytes come -> ENQUEUE, at the back -> DEQUEUE, out of the queue into the
 * attempt of the request that takes it; `size` falls at once, so a request may gather more than the capacity -> ATTEMPT_END,
 * which frees it, or gives it back to the front, in the order in which it was taken (SHUFFLE: to the back). WORK: ATTEMPT_END
 * without give_back lets the session hold it until WORK_END marks it done or gives it back. Done items stay in memory, and are
 * all handed out again when the last one of an epoch is done.
 *
 * ACCUMULATOR: the first gradient that is put in becomes the sum, later ones are added to it and freed; a DEQUEUE takes the sum,
 * reduced, as an element, and the next gradient begins another sum. A sum that comes back is an element like those of a FIFO, and
 * is taken before the current sum.
 *
 * A reset or delete frees what is in the queue and what sessions hold of it. What a request has taken and its client has not
 * acknowledged is freed with its attempt: the answer may be on its way.
 *
 * psd/queue/queue.c decides when an element moves; nothing waits here. `enqueuers`, `dequeuers` and `dirty` belong to that file.
 */
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
    struct psi_list link; /* derived: in queue->elements, or in the attempt that took it; SHUFFLE, queued: in no list */
    /* remembered: */
    uint64_t serial;     /* from 1 on, by insertion; ACCUMULATOR: gradients in it */
    uint64_t bytes;      /* of data: common/tuple.h */
    uint32_t deliveries; /* how often it came back after the request that took it was done; WORK: in this epoch; DONE: 0 */
    uint32_t state;      /* derived: enum psd_element_state */
    uint64_t cut;        /* volatile: serial of the last cut that has it (cut.h) */
    uint8_t data[];      /* remembered: 8-aligned */
};

/* What a waiting request has inserted or taken. It lives from its first element until the client's ACK; WORK: until WORK_END. */
struct psd_attempt {
    struct psi_list link;      /* derived: in the record, the oldest first */
    struct psi_list of_queue;  /* derived: in queue->attempts */
    struct psd_record *record; /* derived: the record of the session that made the request */
    /* remembered: */
    const struct psd_variable *variable; /* holds one reference */
    uint64_t id;                         /* of the request */
    uint64_t inserted;
    struct psi_list elements; /* taken, in the order in which they came */
    bool done;                /* the request has all that it asked for, or all that it will get */
    bool held;                /* WORK: acknowledged, its elements wait for WORK_END */
    /* derived: */
    uint64_t element_count;
    uint64_t bytes; /* of the data of its elements */
};

/* The counts of a queue in a checkpoint, known before its elements are read. */
struct psd_queue_expects {
    /* volatile: */
    uint64_t size, done, taken;
    uint64_t placed; /* SHUFFLE: elements in array, and while loading in elements too; `size` is 0 */
};

struct psd_queue {
    /* remembered: */
    struct psi_queue_spec spec;
    struct psi_list elements;   /* FIFO, WORK: in their order */
    struct psd_element **array; /* SHUFFLE: [size], what an index draws from; WORK: [next_serial - 1], all items by serial */
    uint64_t size;
    uint64_t next_serial;
    uint64_t draws; /* SHUFFLE: draws so far */
    uint64_t fill_hash;
    uint64_t done;           /* WORK: items done in this epoch */
    struct psd_element *sum; /* ACCUMULATOR: NULL while it has no gradient */
    int64_t step;
    uint32_t epoch; /* WORK: from 0 on; spec.epochs: all are over */
    bool closed;
    bool filled; /* WORK */
    /* derived: */
    uint64_t taken;           /* elements in attempts */
    uint64_t bytes;           /* of the data of all its elements, taken ones too */
    struct psi_list attempts; /* struct psd_attempt */
    uint64_t attempt_count;
    /* volatile: */
    uint64_t capacity;
    uint64_t dropped;                     /* ACCUMULATOR: gradients that came too late */
    struct psi_list enqueuers, dequeuers; /* struct psd_need of psd/session/wait.h, the longest waiting first */
    struct psi_list dirty;                /* in the list of queues that psd/queue/queue.c looks at at the end of the event */
    struct psd_cut_queue *kept;           /* a cut that has not encoded all elements yet (cut.c); NULL: none */
    struct psd_queue_expects expects;     /* only while a checkpoint is loaded */
    const struct psd_variable *variable;  /* the variable that the queue hangs on */
};

/** The attempt of request `id` of r. NULL: the request has done nothing to a queue, or is acknowledged. */
const struct psd_attempt *psd_attempt_find(const struct psd_record *r, uint64_t id);
/** True if one more element fits in the capacity. The caller checks `closed`. */
bool psd_queue_has_room(const struct psd_queue *q);
/** Elements that may be taken now. SHUFFLE keeps min_after_dequeue back while it is open; WORK has none until it is filled;
 * ACCUMULATOR: sums that came back. */
uint64_t psd_queue_available(const struct psd_queue *q);
/** Index that the next DEQUEUE takes. SHUFFLE, which must not be empty, draws it from (seed, draws), or without a seed from
 * `random`, 64 random bits. Otherwise 0. */
uint64_t psd_queue_draw(const struct psd_queue *q, uint64_t random);
/** Elements in it; ACCUMULATOR: gradients in its sum. */
uint64_t psd_queue_length(const struct psd_queue *q);
/** ACCUMULATOR: count a gradient that came too late. Volatile. */
void psd_queue_note_dropped(const struct psd_queue *q);
uint64_t psd_queue_items(const struct psd_queue *q);
/** WORK: the item with this serial; NULL: there is none. */
const struct psd_element *psd_queue_item(const struct psd_queue *q, uint64_t serial);
/** WORK: the attempt of r that has the item with this serial, acknowledged or not. NULL: r has not got the item. */
const struct psd_attempt *psd_attempt_of_item(const struct psd_record *r, const struct psd_queue *q, uint64_t serial);
/** WORK: the attempt of any session that has the item with this serial. Looks at all attempts of the queue. */
const struct psd_attempt *psd_queue_holder(const struct psd_queue *q, uint64_t serial);

/* ---- memory for changes (commit.h): psd_change_reserve() gets all of it but the elements ---- */
/** Budget bytes of an element with so many bytes of data. */
uint64_t psd_element_memory_bytes(uint64_t bytes);
/** An element whose data will come: QUEUED, in no list, data undefined. NULL: the budget, or the system, has no more. */
struct psd_element *psd_element_new(struct psd_store *s, uint64_t bytes);
/** Free an element that is in no queue and no attempt. NULL is fine. */
void psd_element_free(struct psd_store *s, struct psd_element *e);

/** The queue of v, made together with v, within the budget. NULL: no memory. */
struct psd_queue *psd_queue_new(struct psd_store *s, const struct psd_variable *v, const struct psi_queue_spec *spec);
/** Places for `count` elements more. Elements that come back have theirs. */
ps_status psd_queue_reserve(struct psd_store *s, const struct psd_queue *q, uint64_t count, struct psi_err *err) PSI_MUST;
/** An attempt, for a request that has none. NULL: no memory. */
struct psd_attempt *psd_attempt_new(struct psd_store *s);

void psd_queue_check_invariants(const struct psd_queue *q);

#endif

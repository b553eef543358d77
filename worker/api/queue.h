/* SPDX-License-Identifier: Apache-2.0 */
/* Queues and work inside the public API: the objects of ps_queue.h, and what get.c, request.c and session.c need of them. */
#ifndef PSI_WORKER_API_QUEUE_H
#define PSI_WORKER_API_QUEUE_H

#include "api.h"

/* Elements as in common/tuple.h, each behind its length: what an enqueue sends and a dequeue receives. */
struct ps_tuple {
    struct psi_list link;       /* in its queue's spare or lent */
    struct psi_queue_spec spec; /* a copy: a tuple may outlive its queue */
    uint8_t *data;
    uint64_t bytes, capacity;
    uint64_t last;      /* offset of the last element's length */
    uint32_t count;     /* number of complete elements */
    uint32_t component; /* component of the last element that is put next; 0: the element is complete */
    uint32_t seen;      /* index of the element that was read last, and its offset in seen_at */
    uint64_t seen_at;
    struct psi_enqueue put;
    struct psi_dequeue take;
    uint64_t incarnation, creation; /* of an item that is worked at: the work that handed it out */
};

struct ps_queue {
    ps_variable variable; /* first: name and place, as the scopes give them */
    struct psi_queue_spec spec;
    ps_queue_spec public_spec;
    struct psi_list spare; /* under the session's lock: struct ps_tuple */
    struct psi_list lent;  /* under the session's lock: in use by a call, or an item that is worked at */
    uint32_t spare_count;
    ps_tuple *items; /* in lent: the items with which a monitored session fills the work again */
};
struct ps_work {
    ps_queue queue; /* the only member: get.c makes queues, work and accumulators alike */
};
struct ps_accumulator {
    ps_queue queue;
};
_Static_assert(offsetof(ps_queue, variable) == 0 && sizeof(struct ps_work) == sizeof(ps_queue) &&
                   sizeof(struct ps_accumulator) == sizeof(ps_queue),
               "get.c frees them as a variable");

/** Get, create or find a queue by spec (name, device, type) in the scopes. elements NULL: find. get.c */
ps_status psi_api_queue_get(ps_session *s, const ps_variable_spec *spec, enum psi_scope_how how,
                            const struct psi_queue_spec *elements, ps_queue **out_queue, struct psi_err *err) PSI_MUST;
/** Free the queues of a session. */
void psi_api_queues_free(ps_session *s);
/** Run req (kind, src, dst, bytes) at q; it has the result. Blocks. */
ps_status psi_api_queue_run(ps_queue *q, struct psi_request *req, int64_t timeout_ms, struct psi_err *err) PSI_MUST;
/** A call or request at queue v, begun when psi_monitor_life() was `life`, has ended with st and *err. If the queue is gone,
 * that is a loss of a monitored session, from which it recovers: ABORTED, also if the call got CANCELLED. Returns the status of
 * *err. */
ps_status psi_api_queue_ended(const ps_variable *v, uint32_t life, ps_status st, struct psi_err *err) PSI_MUST;
/** In a recovery, after all queues were got: fill lost work with its items again, from its first epoch. Blocks. */
ps_status psi_api_work_again(ps_session *s, int64_t timeout_ms, struct psi_err *err) PSI_MUST;

/* ---- tuple.c ---- */
/** An empty spare tuple of q, until psi_tuple_return() or the session is freed; NULL: no memory. */
ps_tuple *psi_tuple_borrow(ps_queue *q);
void psi_tuple_return(ps_queue *q, ps_tuple *t);
/** Append count elements from values [value_count], as in ps_enqueue_many(). INVALID_ARGUMENT: as psi_tuple_room_check(); t is
 * unchanged. */
ps_status psi_tuple_gather(ps_tuple *t, const ps_from *values, size_t value_count, uint32_t count, struct psi_err *err) PSI_MUST;
/** Check that values [value_count] have the memory for count elements of q. INVALID_ARGUMENT: a component has strings or no
 * declared shape, the number of values is wrong, or memory is NULL or has the wrong size (both sizes are named). */
ps_status psi_tuple_room_check(const ps_queue *q, const ps_into *values, size_t value_count, uint32_t count,
                               struct psi_err *err) PSI_MUST;
/** Fill t->put with t's elements. INVALID_ARGUMENT: the last element lacks components. */
ps_status psi_tuple_to_put(ps_tuple *t, struct psi_err *err) PSI_MUST;
/** Fill t->take; t is empty. */
void psi_tuple_to_take(ps_tuple *t, uint32_t count, bool many, bool up_to);
/** Copy what t->take receives also into values, before it is acknowledged; psi_tuple_room_check() has passed. The take is
 * INTERNAL if a task sends bytes that make no element. */
void psi_tuple_take_into(ps_tuple *t, const ps_into *values);

#endif

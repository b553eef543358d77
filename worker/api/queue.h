/* SPDX-License-Identifier: Apache-2.0 */
/* Queues and work inside the public API: the objects of ps_queue.h, and functions for get.c, request.c and session.c. */
#ifndef PSI_WORKER_API_QUEUE_H
#define PSI_WORKER_API_QUEUE_H

#include "api.h"

/* Elements that an enqueue sends, or that a dequeue has taken. `data` has for each element its length, and then the element in
 * the form of common/tuple.h. */
struct ps_tuple {
    struct psi_list link;       /* link in its queue's list `spare` or `lent` */
    struct psi_queue_spec spec; /* copied, because a tuple may outlive its queue */
    uint8_t *data;
    uint64_t bytes, capacity;
    uint64_t last;      /* offset of the last element's length */
    uint32_t count;     /* number of complete elements */
    uint32_t component; /* index of the next component to put into the last element; 0: the element is complete */
    uint32_t seen;      /* index of the element that was read last, and seen_at its offset in data */
    uint64_t seen_at;
    struct psi_enqueue put;
    struct psi_dequeue take;
    uint64_t incarnation, creation; /* work only: numbers of the work queue that handed out the item in `data`; a queue that is
                                     * made again under the name has other numbers */
};

struct ps_queue {
    ps_variable variable; /* must be first, because get.c makes and frees queues as variables */
    struct psi_queue_spec spec;
    ps_queue_spec public_spec;
    struct psi_list spare; /* unused tuples, kept for later calls; under the session's lock */
    struct psi_list lent;  /* tuples in use by a call, or for a work item that is not done; under the session's lock */
    uint32_t spare_count;
    ps_tuple *items; /* all items of a work queue, with which a recovery fills the lost queue again; NULL: no items are kept */
};
struct ps_work {
    ps_queue queue; /* the only member: get.c makes and frees work as a queue */
};
struct ps_accumulator {
    ps_queue queue;
};
_Static_assert(offsetof(ps_queue, variable) == 0 && sizeof(struct ps_work) == sizeof(ps_queue) &&
                   sizeof(struct ps_accumulator) == sizeof(ps_queue),
               "get.c frees them as a variable");

/** Get or create a queue by spec (name, device, type) and the open scopes. elements NULL: only find the queue. In get.c. */
ps_status psi_api_queue_get(ps_session *s, const ps_variable_spec *spec, enum psi_scope_how how,
                            const struct psi_queue_spec *elements, ps_queue **out_queue, struct psi_err *err) PSI_MUST;
void psi_api_queues_free(ps_session *s);
/** Send a request (req: kind, src, dst, bytes) to the task of queue q, and wait for the result, which is in *req. */
ps_status psi_api_queue_run(ps_queue *q, struct psi_request *req, int64_t timeout_ms, struct psi_err *err) PSI_MUST;
/** Adapt st and *err after an operation on queue v. life: psi_monitor_life() when the operation began. If the queue of a
 * monitored session is gone, *err becomes ABORTED, even if it was CANCELLED, and the session will recover. But if the program
 * itself has deleted the queue, *err becomes CANCELLED. Returns the new status. */
ps_status psi_api_queue_ended(const ps_variable *v, uint32_t life, ps_status st, struct psi_err *err) PSI_MUST;
/** In a recovery, when all queues were got: fill each lost work queue with its items again; its epochs begin anew. Blocks. */
ps_status psi_api_work_again(ps_session *s, int64_t timeout_ms, struct psi_err *err) PSI_MUST;

/* ---- tuple.c ---- */
/** Take an empty tuple of q, until psi_tuple_return(); the session frees it at its end. NULL: no memory. A tuple of a sparse
 * accumulator has the components of common/sparse.h. */
ps_tuple *psi_tuple_borrow(ps_queue *q);
void psi_tuple_return(ps_queue *q, ps_tuple *t);
/** Write the head of t's next component. shape NULL: the declared shape. *out: where the caller must write the component's values
 * (data_bytes) before it changes t again. RESOURCE_EXHAUSTED: nothing has changed. */
ps_status psi_tuple_begin(ps_tuple *t, const ps_shape *shape, uint64_t data_bytes, uint8_t **out, struct psi_err *err) PSI_MUST;
/** Append count elements from values, as in ps_enqueue_many(). The errors of psi_tuple_room_check() leave t unchanged. */
ps_status psi_tuple_gather(ps_tuple *t, const ps_from *values, size_t value_count, uint32_t count, struct psi_err *err) PSI_MUST;
/** Check that values [value_count] have room for count elements of q. INVALID_ARGUMENT: a component has strings or no declared
 * shape, the number of values is wrong, or memory is NULL or has the wrong size (both sizes are named). */
ps_status psi_tuple_room_check(const ps_queue *q, const ps_into *values, size_t value_count, uint32_t count,
                               struct psi_err *err) PSI_MUST;
/** Fill t->put with t's elements. INVALID_ARGUMENT: the last element lacks components. */
ps_status psi_tuple_to_put(ps_tuple *t, struct psi_err *err) PSI_MUST;
/** Empty t, and fill t->take for a dequeue into t. */
void psi_tuple_to_take(ps_tuple *t, uint32_t count, bool many, bool up_to);
/** Let the dequeue t->take also copy its elements into `values`, before it acknowledges them. The caller has called
 * psi_tuple_room_check(). The dequeue ends INTERNAL if the task's bytes are no valid elements. */
void psi_tuple_take_into(ps_tuple *t, const ps_into *values);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Queues and work inside the public API: the objects behind ps_queue.h, and what get.c, request.c and session.c need of them. */
#ifndef PSI_WORKER_API_QUEUE_H
#define PSI_WORKER_API_QUEUE_H

#include "api.h"

/* Elements as common/tuple.h has them, each behind its length: what an enqueue sends and a dequeue gets. */
struct ps_tuple {
    struct psi_list link;       /* of its queue's spare ones, or of those that were lent */
    struct psi_queue_spec spec; /* a tuple may outlive its queue */
    uint8_t *data;
    uint64_t bytes, capacity;
    uint64_t last;      /* where the last element begins, its length */
    uint32_t count;     /* that are complete */
    uint32_t component; /* of the last element: that is put next; 0: it is complete */
    uint32_t seen;      /* an element that was read, and where it is: the next one is near */
    uint64_t seen_at;
    struct psi_enqueue put;
    struct psi_dequeue take;
    uint64_t incarnation, creation; /* an item that is worked at: of the work that handed it out */
};

struct ps_queue {
    ps_variable variable; /* first: the name and the place that scopes make */
    struct psi_queue_spec spec;
    ps_queue_spec public_spec;
    struct psi_list spare; /* under the session's lock: struct ps_tuple */
    struct psi_list lent;  /* likewise: for a call, or an item that is worked at */
    uint32_t spare_count;
    ps_tuple *items; /* lent: the work of a monitored session is filled with it again */
};
struct ps_work {
    ps_queue queue; /* all of it: get.c makes all three alike */
};
struct ps_accumulator {
    ps_queue queue;
};
_Static_assert(offsetof(ps_queue, variable) == 0 && sizeof(struct ps_work) == sizeof(ps_queue) &&
                   sizeof(struct ps_accumulator) == sizeof(ps_queue),
               "get.c frees them as a variable");

/** Get, create or find it as spec (name, device, type) and the scopes say. elements NULL: find. get.c */
ps_status psi_api_queue_get(ps_session *s, const ps_variable_spec *spec, enum psi_scope_how how,
                            const struct psi_queue_spec *elements, ps_queue **out_queue, struct psi_err *err) PSI_MUST;
/** The queues of a session that is freed. */
void psi_api_queues_free(ps_session *s);
/** Run req (kind, src, dst, bytes) at q; it has its result then. Blocks. */
ps_status psi_api_queue_run(ps_queue *q, struct psi_request *req, int64_t timeout_ms, struct psi_err *err) PSI_MUST;
/** A call or request at v, a queue, begun in this psi_monitor_life(), has ended with st and *err. That it is gone is the
 * monitored session's loss, which a recovery mends: ABORTED, also where who waited was told CANCELLED. Returns its status. */
ps_status psi_api_queue_ended(const ps_variable *v, uint32_t life, ps_status st, struct psi_err *err) PSI_MUST;
/** All queues have been got again: work that was lost gets its items, of its first epoch. Blocks. */
ps_status psi_api_work_again(ps_session *s, int64_t timeout_ms, struct psi_err *err) PSI_MUST;

/* ---- tuple.c ---- */
/** A spare one of q, empty, until it is returned or the session is freed; NULL: no memory. */
ps_tuple *psi_tuple_borrow(ps_queue *q);
void psi_tuple_return(ps_queue *q, ps_tuple *t);
/** Append count elements out of values [value_count], as ps_enqueue_many() has them. INVALID_ARGUMENT: as
 * psi_tuple_room_check(); t is as it was. */
ps_status psi_tuple_gather(ps_tuple *t, const ps_from *values, size_t value_count, uint32_t count, struct psi_err *err) PSI_MUST;
/** Have values [value_count] the memory for count elements of q? INVALID_ARGUMENT: a component has strings or no declared shape,
 * there are more or fewer values than components, or the memory of one is NULL or has another size, which is named with the one
 * that is needed. */
ps_status psi_tuple_room_check(const ps_queue *q, const ps_into *values, size_t value_count, uint32_t count,
                               struct psi_err *err) PSI_MUST;
/** t->put for what is in it; INVALID_ARGUMENT: the last element lacks components. */
ps_status psi_tuple_to_put(ps_tuple *t, struct psi_err *err) PSI_MUST;
/** t->take; t is empty. */
void psi_tuple_to_take(ps_tuple *t, uint32_t count, bool many, bool up_to);
/** What t->take gets goes into values too, before it is acknowledged; psi_tuple_room_check() has passed them. The take is
 * INTERNAL where a task has sent what is no element. */
void psi_tuple_take_into(ps_tuple *t, const ps_into *values);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to queues: queue.c has their handlers, queue_parts.c receives and sends bytes of elements, queue_turns.c serves
 * waiting requests in order, session/queue_ends.c ends them; work.c and accumulator.c are for work queues and accumulators. */
#ifndef PSD_QUEUE_REQUESTS_H
#define PSD_QUEUE_REQUESTS_H

#include "psd/session/session.h"

/* ---- queue.c ---- */
/** Receive n more bytes of the elements that w, an ENQUEUE request, brings; n is at most what is missing. After the last byte w
 * waits at the queue for its turn. After an error w is refused. */
void psd_queue_bytes(struct psd_task *t, struct psd_wait *w, const uint8_t *p, size_t n);

/* ---- queue_parts.c ---- */
/** Copy the next n bytes of the elements of w, an ENQUEUE request. Each element is checked when it is complete. Errors:
 * INVALID_ARGUMENT, RESOURCE_EXHAUSTED, FAILED_PRECONDITION (larger than the memory budget). */
ps_status psd_queue_come(struct psd_task *t, struct psd_wait *w, const struct psd_queue *q, const uint8_t *p, size_t n,
                         struct psi_err *err) PSI_MUST;
void psd_queue_send(struct psd_task *t, struct psd_conn *c, const struct psd_wait *w);

/* ---- queue_turns.c ---- */
/** Serve the waiting requests of the queues in task->moved_queues. Call at the end of each event. */
void psd_queues_turn(struct psd_task *t);
/** True if requests that have waited for a checkpoint's memory can be served now. */
bool psd_queues_have_work(const struct psd_task *t);
void psd_queues_check_invariants(const struct psd_task *t);

/* ---- accumulator.c ---- */
/** Check a complete gradient e. INVALID_ARGUMENT: it has NaN or infinity, and the task's setting refuses these; or it is sparse
 * with row indices that do not rise, or counts as more than one gradient. */
ps_status psd_accumulator_check(struct psd_task *t, const struct psd_queue *q, const struct psd_element *e,
                                struct psi_err *err) PSI_MUST;
/** Check that the ENQUEUE or DEQUEUE request w fits queue v. An accumulator accepts an ENQUEUE of one gradient with `apply`, or a
 * DEQUEUE of 1 or more gradients. Other queues accept elements without `apply`. INVALID_ARGUMENT. */
ps_status psd_accumulator_admits(const struct psd_task *t, const struct psd_wait *w, const struct psd_variable *v,
                                 struct psi_err *err) PSI_MUST;
/** True if the accumulator has enough gradients for a DEQUEUE of this many. */
bool psd_accumulator_has(const struct psd_queue *q, uint64_t gradients);

/* ---- work.c ---- */
/** A work queue is filled only once. Check w, a further ENQUEUE request to fill v: its items must equal those of the first one.
 * INVALID_ARGUMENT: they differ; err has both counts and hashes. */
ps_status psd_work_filled(const struct psd_task *t, const struct psd_wait *w, const struct psd_variable *v,
                          struct psi_err *err) PSI_MUST;

#endif

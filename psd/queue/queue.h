/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to queues: queue.c has the requests, queue_parts.c the bytes of elements on their way in and out, queue_turns.c whose
 * turn it is, session/queue_ends.c all other ends of a request, work.c what only work queues have, accumulator.c what only
 * accumulators have.
 */
#ifndef PSD_QUEUE_REQUESTS_H
#define PSD_QUEUE_REQUESTS_H

#include "psd/session/session.h"

/* ---- queue.c ---- */
/** Take more bytes of w's elements; the last ones open w. */
void psd_queue_bytes(struct psd_task *t, struct psd_wait *w, const uint8_t *p, size_t n);

/* ---- queue_parts.c ---- */
/** Take the next n bytes of the elements that w is to insert. Each element is checked when it is complete. Errors:
 * INVALID_ARGUMENT, RESOURCE_EXHAUSTED, FAILED_PRECONDITION (larger than the budget). */
ps_status psd_queue_come(struct psd_task *t, struct psd_wait *w, const struct psd_queue *q, const uint8_t *p, size_t n,
                         struct psi_err *err) PSI_MUST;
/** Answer a DEQUEUE that is done. */
void psd_queue_send(struct psd_task *t, struct psd_conn *c, const struct psd_wait *w);

/* ---- queue_turns.c ---- */
/** At the end of an event: serve every request whose turn has come. */
void psd_queues_turn(struct psd_task *t);
/** True if some requests waited for a cut and can go on. */
bool psd_queues_have_work(const struct psd_task *t);
void psd_queues_check_invariants(const struct psd_task *t);

/* ---- accumulator.c ---- */
/** Refuse a complete gradient with NaN or infinity, if the task is set to. */
ps_status psd_accumulator_check(struct psd_task *t, const struct psd_queue *q, const struct psd_element *e,
                                struct psi_err *err) PSI_MUST;
/** Check the first frame of w, an ENQUEUE or DEQUEUE: apply and take are for accumulators, which accept nothing else. */
ps_status psd_accumulator_admits(const struct psd_task *t, const struct psd_wait *w, const struct psd_variable *v,
                                 struct psi_err *err) PSI_MUST;
/** True if a take of this many gradients may have its turn. */
bool psd_accumulator_has(const struct psd_queue *q, uint64_t gradients);

/* ---- work.c ---- */
/** v is filled already: OK if with the items of w, otherwise INVALID_ARGUMENT that names both fillings. */
ps_status psd_work_filled(const struct psd_task *t, const struct psd_wait *w, const struct psd_variable *v,
                          struct psi_err *err) PSI_MUST;

#endif

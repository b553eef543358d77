/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of requests to queues share: queue.c has the requests, queue_parts.c the bytes of elements on their way in and
 * out, queue_turns.c who gets its turn, session/queue_ends.c how a request ends otherwise, work.c what is of work queues only,
 * accumulator.c what is of accumulators only.
 */
#ifndef PSD_QUEUE_REQUESTS_H
#define PSD_QUEUE_REQUESTS_H

#include "psd/session/session.h"

/* ---- queue.c ---- */
/** More bytes of its elements; the last ones open it. */
void psd_queue_bytes(struct psd_task *t, struct psd_wait *w, const uint8_t *p, size_t n);

/* ---- queue_parts.c ---- */
/** The next n bytes of the elements that w is to insert. An element that is whole was checked. Errors: INVALID_ARGUMENT,
 * RESOURCE_EXHAUSTED, FAILED_PRECONDITION: larger than the budget. */
ps_status psd_queue_come(struct psd_task *t, struct psd_wait *w, const struct psd_queue *q, const uint8_t *p, size_t n,
                         struct psi_err *err) PSI_MUST;
/** The answer of a DEQUEUE that is done. */
void psd_queue_send(struct psd_task *t, struct psd_conn *c, const struct psd_wait *w);

/* ---- queue_turns.c ---- */
/** The end of an event: everybody whose turn has come at a queue has it. */
void psd_queues_turn(struct psd_task *t);
/** Some of them waited for a cut, and need not any more. */
bool psd_queues_have_work(const struct psd_task *t);
void psd_queues_check_invariants(const struct psd_task *t);

/* ---- accumulator.c ---- */
/** A gradient that has come whole: no NaN, no infinity, where the task refuses these. */
ps_status psd_accumulator_check(struct psd_task *t, const struct psd_queue *q, const struct psd_element *e,
                                struct psi_err *err) PSI_MUST;
/** What w, a first frame of an ENQUEUE or DEQUEUE, asks of v: apply and take are for accumulators, and nothing else is. */
ps_status psd_accumulator_admits(const struct psd_task *t, const struct psd_wait *w, const struct psd_variable *v,
                                 struct psi_err *err) PSI_MUST;
/** w, the first in line, takes so many gradients: may it? */
bool psd_accumulator_has(const struct psd_queue *q, uint64_t gradients);

/* ---- work.c ---- */
/** v is filled: with what w brings? INVALID_ARGUMENT that says both sides. */
ps_status psd_work_filled(const struct psd_task *t, const struct psd_wait *w, const struct psd_variable *v,
                          struct psi_err *err) PSI_MUST;

#endif

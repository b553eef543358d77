/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of requests to queues share: queue.c has the requests, queue_parts.c the bytes of elements on their way in and
 * out, queue_turns.c who gets its turn, queue_ends.c how a request ends otherwise, work.c what is of work queues only,
 * accumulator.c what is of accumulators only.
 */
#ifndef PSD_RPC_QUEUE_H
#define PSD_RPC_QUEUE_H

#include "psd/rpc/rpc.h"

enum { PSD_QUEUE_RETRY_MS = 50 };

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

/* ---- queue_ends.c ---- */
/** The queue that w asks; NULL: it was reset or deleted. */
const struct psd_variable *psd_queue_of(const struct psd_task *t, const struct psd_wait *w);
/** "queue 'q' was reset or deleted" as the error of a request that was not carried out. */
ps_status psd_queue_fail_gone(const struct psd_task *t, const struct psd_wait *w, struct psi_err *err) PSI_MUST;
/** Elements that w has inserted or taken. */
uint64_t psd_queue_moved(const struct psd_wait *w);
/** Who waits at q may have its turn: looked at before the end of the event. */
void psd_queue_touch(struct psd_task *t, const struct psd_queue *q);
/** Free what w has not inserted. */
void psd_queue_drop_elements(struct psd_task *t, struct psd_wait *w);
/** w ends with this error, which gets "(k of n elements inserted)"; what it has taken goes back. */
void psd_queue_end(struct psd_task *t, struct psd_wait *w, const struct psi_err *err);
/** What w has done is not remembered any more. give_back: what it has taken is the queue's again. */
void psd_queue_attempt_end(struct psd_task *t, struct psd_wait *w, bool give_back);

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

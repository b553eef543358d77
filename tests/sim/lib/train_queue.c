/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What training programs (train.c) do apart from their steps. In one seed of four all threads but the first wait at barriers
 * (barrier.c). In another one of four all threads put into and take from one queue, which queues.c compares with a queue of
 * TensorFlow's rules, and whose elements it has in a ledger.
 *
 * A call at the queue waits while its thread is interrupted, its session is lost, recovered or closed. A monitored session is
 * lost with its queue. What the oracle checks here:
 *   - an interrupt ends a call at the queue or a barrier soon;
 *   - no call at the queue or a barrier begins, or ends with OK, while another thread recovers the session;
 *   - the loss of an earlier client's queue does not make the present client lost;
 *   - a session that is not monitored stays as it is when its queue is lost.
 */
#include "train.h"

#include "worker/core/client.h"

#include <stdio.h>

enum { CAPACITY_MAX = 6, BARRIERS_IN = 25, QUEUES_IN = 8, DEAF_MS = 300 };

void sim_train_queue_draw(struct sim *s)
{
    s->k.train_queue = s->k.trains && s->seed % 4 == 3 && s->k.memory_bytes == 0; /* no draw in the other seeds */
    if (!s->k.train_queue) {
        return;
    }
    struct sim_var *v = &s->var[s->var_count++]; /* the last one, behind the global step */
    (void)snprintf(v->name, sizeof(v->name), "fifo");
    v->container = SIM_CONTAINER;
    v->kind = SIM_VAR_QUEUE;
    v->elements = 1;
    v->queue = (struct psi_queue_spec){.kind = sim_one_in(s, 3) ? PSI_QUEUE_SHUFFLE : PSI_QUEUE_FIFO,
                                       .component_count = 1,
                                       .capacity = sim_one_in(s, 3) ? -1 : (int64_t)sim_range(s, 1, CAPACITY_MAX)};
    v->queue.components[0] = (struct psi_queue_component){.dtype = PS_I64, .shaped = true, .shape = {.rank = 1, .dims = {1}}};
    if (s->k.ps_tasks > 1 && sim_one_in(s, 2)) {
        (void)snprintf(v->device, sizeof(v->device), "/job:ps/task:%u", (uint32_t)sim_below(s, s->k.ps_tasks));
    }
}

/* A request of the queue has ended with *err at a client of this number: as psi_api_queue_ended(). */
static void queue_failed(struct sim *s, struct sim_train *t, uint64_t lives, struct psi_err *err)
{
    const enum psi_session_state before = t->m.state;
    const bool lost = psi_session_loses_queue(&t->m, false, err);
    if (lost && lives == t->m.lives) {
        sim_train_fails(s, t, err, false);
        s->count_train_queue_lost += before == PSI_SESSION_RUNNING && t->m.state == PSI_SESSION_LOST;
    }
    if (before != t->m.state && (!t->m.monitored || lives != t->m.lives)) {
        sim_fail(s, "LOST: client %llu is lost, and the queue was that of client %llu, or the session is not monitored",
                 (unsigned long long)t->m.lives, (unsigned long long)lives);
    }
}

enum psi_request_kind sim_train_apart(struct sim *s, const struct sim_program *p, struct sim_train *t, bool first)
{
    if (!first && s->seed % 4 == 1 && sim_one_in(s, BARRIERS_IN)) { /* as for barrier.c: no draw in the others */
        return PSI_REQ_BARRIER;
    }
    if (!s->k.train_queue || t->queue_get.state != PSI_GET_GOT || !sim_one_in(s, QUEUES_IN)) {
        return PSI_REQ_NONE;
    }
    const struct psi_var *queue = p->var[s->var_count - 1];
    if (queue == NULL || queue->lost || !queue->open) { /* the request would be refused */
        queue_failed(s, t, t->m.lives, &(struct psi_err){.code = PS_ABORTED, .reason = PS_REASON_LOST});
        return PSI_REQ_NONE;
    }
    return sim_one_in(s, 2) ? PSI_REQ_ENQUEUE : PSI_REQ_DEQUEUE;
}

void sim_train_apart_over(struct sim *s, const struct sim_program *p, struct sim_train *t, const struct thread *h,
                          const struct sim_call *call)
{
    const struct sim_op *op = call->op;
    const struct psi_who who = sim_who(t, h);
    const uint64_t cut_ms = h->apart_cut_ms > p->resumed_at ? h->apart_cut_ms : p->resumed_at;
    if (h->apart_cut_ms != 0 && s->now > cut_ms + DEAF_MS) {
        sim_fail(s, "DEAF: a call at the queue or a barrier ends %llu ms after an interrupt",
                 (unsigned long long)(s->now - cut_ms));
    }
    if (h->apart_lives != t->m.lives) {
        sim_fail(s, "OUTLIVED: a request at client %llu ends at client %llu", (unsigned long long)h->apart_lives,
                 (unsigned long long)t->m.lives);
    }
    if (op->status == PS_OK && t->m.state == PSI_SESSION_MAKING && psi_session_bars(&t->m, &who, NULL)) {
        sim_fail(s, "a call at the queue or a barrier ends with OK while another thread makes the session anew");
    }
    if (op->kind == PSI_REQ_BARRIER) { /* its error is the program's, and does not stick */
        s->count_train_gates += op->status == PS_OK;
        return;
    }
    s->count_train_elements += op->kind == PSI_REQ_DEQUEUE && op->status == PS_OK ? call->take.got.count : 0;
    if (op->status != PS_OK && call->req.err != NULL) {
        struct psi_err err = *call->req.err;
        err.code = op->status;
        queue_failed(s, t, h->apart_lives, &err);
    }
}

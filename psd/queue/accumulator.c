/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only accumulators have. A gradient is an element with its worker's global step, and is dropped if the accumulator's step
 * is higher. A take waits for a number of gradients and gets the sum of all that are there. SET_STEP is a mutation with a number.
 *
 * Happy path: an ENQUEUE whose gradient is complete has its turn at once (queue_turns.c): the gradient is added in one change, or
 * dropped, as the result says. Failure: an incomplete gradient is added nowhere. A sum whose client has not acknowledged it goes
 * back like any element. The next take gets it, however many gradients it asks for, because the step of that sum is over.
 */
#include "queue.h"

#include "psd/rpc/handlers.h"

ps_status psd_accumulator_check(struct psd_task *t, const struct psd_queue *q, const struct psd_element *e, struct psi_err *err)
{
    const struct psi_queue_component *c = &q->spec.components[0];
    size_t bad = 0;
    if (!t->config.refuse_nonfinite || psd_optim_finite(c->dtype, e->data, (size_t)ps_shape_elements(&c->shape), 1, &bad)) {
        return PS_OK;
    }
    t->count.nonfinite++;
    return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_NOT_FINITE, "gradient for '%s': element %zu is NaN or infinite",
                       q->variable->name, bad);
}

ps_status psd_accumulator_admits(const struct psd_task *t, const struct psd_wait *w, const struct psd_variable *v,
                                 struct psi_err *err)
{
    const struct psd_queue_wait *k = &w->queue;
    bool sums = v->queue->spec.kind == PSI_QUEUE_ACCUMULATOR;
    if (w->op == PS_OP_ENQUEUE && k->apply != sums) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "'%s' at %s: %s", v->name, t->name,
                        sums ? "gradients are applied to an accumulator, elements are not put in"
                             : "a gradient is applied to an accumulator, and this is a queue");
    }
    if (sums && (k->many || k->up_to)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "accumulator '%s' at %s: gradients go in and out one by one", v->name, t->name);
    }
    if (sums && w->op == PS_OP_DEQUEUE && k->count == 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "accumulator '%s' at %s: a take of 0 gradients; at least 1", v->name, t->name);
    }
    return PS_OK;
}

bool psd_accumulator_has(const struct psd_queue *q, uint64_t gradients)
{
    return q->size > 0 || psd_queue_length(q) >= gradients;
}

/* ---- SET_STEP ---- */

/* Check r and fill out, which is to be committed on PS_OK. */
static ps_status decide_change(struct psd_task *t, const struct psd_conn *c, const struct psd_request *r, struct psd_change *out,
                               struct psi_err *err)
{
    ps_v1_SetStep m;
    const struct psd_variable *v = r->variable;
    if (r->refusal != NULL) {
        *err = *r->refusal;
        return err->code;
    }
    ps_status st = psi_msg_decode(&ps_v1_SetStep_msg, &m, r->meta, r->header.meta_bytes, err);
    if (st != PS_OK) {
        return st;
    }
    if (v == NULL) {
        return psi_fail_as(err, PS_ABORTED, PS_REASON_LOST, "handle %u at %s: the accumulator was reset or deleted",
                           r->header.handle, t->name);
    }
    if (v->queue->spec.kind != PSI_QUEUE_ACCUMULATOR) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "'%s' at %s is no accumulator: it has no global step", v->name, t->name);
    }
    if (m.step < 0 || m.step > PSI_STEP_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "accumulator '%s' at %s: global step %lld; 0 to %lld", v->name, t->name,
                        (long long)m.step, (long long)PSI_STEP_MAX);
    }
    *out = (struct psd_change){
        .kind = PSD_CHANGE_SET_STEP,
        .set_step = {.record = c->record, .number = r->header.id, .variable = v, .step = m.step},
    };
    return psd_change_reserve(t, out, err);
}

void psd_rpc_set_step(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psd_change change;
    struct psi_err err;
    if (!psd_outcome_may_begin(t, c, r)) {
        return;
    }
    if (decide_change(t, c, r, &change, &err) == PS_OK) {
        psd_commit(t, &change);
    } else {
        psd_outcome_refuse(t, c->record, r->header.id, &err);
    }
    psd_outcome_send(t, c, PS_OP_SET_STEP, r->header.handle, psd_record_find(c->record, r->header.id));
}

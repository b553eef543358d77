/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to accumulators, queues that add up gradients. A gradient comes as an element with its worker's global step, and is
 * dropped if the accumulator's step is higher. In a sparse accumulator a gradient has some rows, each once, by rising index. A
 * DEQUEUE waits for a number of gradients and gets the sum or mean of all. SET_STEP, a mutation, sets the accumulator's step.
 *
 * Happy path: an ENQUEUE whose gradient is complete is served at once (queue_turns.c): the gradient is added or dropped, and the
 * result says which. Failure: an incomplete gradient has no effect. A sum that its client does not acknowledge goes back to the
 * queue; the next DEQUEUE gets this sum, however many gradients the DEQUEUE asks for. */
#include "queue.h"

#include "psd/rpc/handlers.h"

#include "common/sparse.h"

ps_status psd_accumulator_check(struct psd_task *t, const struct psd_queue *q, const struct psd_element *e, struct psi_err *err)
{
    const struct psi_queue_component *c = &q->spec.components[0];
    struct psi_sparse s = {.count = 0};
    const void *values = e->data;
    uint64_t elements = (uint64_t)ps_shape_elements(&c->shape);
    size_t bad = 0;
    if (q->spec.kind == PSI_QUEUE_SPARSE_ACCUMULATOR) {
        const ps_status st = psi_sparse_check(&q->spec, e->data, e->bytes, 1, err);
        if (st != PS_OK) {
            psi_err_prefix(err, "gradient for '%s'", q->variable->name);
            return st;
        }
        s = psi_sparse_of(&q->spec, e->data);
        values = s.rows;
        elements = s.count * s.columns;
    }
    if (!t->config.refuse_nonfinite || psd_optim_finite(c->dtype, values, (size_t)elements, 1, &bad)) {
        return PS_OK;
    }
    t->count.nonfinite++;
    if (s.count > 0) {
        return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_NOT_FINITE,
                           "gradient for '%s': element %zu of the row with index %lld is NaN or infinite", q->variable->name,
                           bad % (size_t)s.columns, (long long)psi_sparse_number(s.indices, bad / s.columns));
    }
    return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_NOT_FINITE, "gradient for '%s': element %zu is NaN or infinite",
                       q->variable->name, bad);
}

ps_status psd_accumulator_admits(const struct psd_task *t, const struct psd_wait *w, const struct psd_variable *v,
                                 struct psi_err *err)
{
    const struct psd_queue_wait *k = &w->queue;
    bool sums = psi_queue_accumulates(v->queue->spec.kind);
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

/* Check the SET_STEP request r, and fill in `out`, the change of state that carries it out. PS_OK: the caller commits `out`. */
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
    if (!psi_queue_accumulates(v->queue->spec.kind)) {
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

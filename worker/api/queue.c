/* SPDX-License-Identifier: Apache-2.0 */
/* Queues for programs: got and found like variables, and one blocking call per operation. Happy path: the values are copied into
 * a spare tuple of the queue (tuple.c), which the core sends; received elements come into such a tuple, and are copied out.
 * Nothing is allocated once a queue has its spare tuples. Failure modes: every error is returned and kept for ps_last_error(); a
 * failed enqueue also says how many of its elements the queue has taken. */
#include "monitored.h"
#include "queue.h"

#include "common/abi.h"
#include "common/mem.h"

#include <string.h>

void ps_queue_spec_init(ps_queue_spec *spec, const char *name, ps_dtype dtype, ps_shape shape)
{
    if (spec == NULL) {
        return;
    }
    memset(spec, 0, sizeof(*spec));
    spec->struct_bytes = sizeof(*spec);
    spec->name = name;
    spec->kind = PS_QUEUE_FIFO;
    spec->capacity = -1;
    spec->component_count = 1;
    spec->components[0] = (ps_component){.dtype = dtype, .shaped = true, .shape = shape};
}

static ps_status spec_take(const ps_queue_spec *from, ps_queue_spec *to, struct psi_queue_spec *out, struct psi_err *err)
{
    if (from == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the spec is NULL");
    }
    ps_queue_spec_init(to, NULL, PS_DTYPE_NONE, PS_SCALAR);
    ps_status st = psi_struct_take(from, to, sizeof(*to), "ps_queue_spec_init", err);
    if (st == PS_OK && (to->name == NULL || to->component_count > PS_QUEUE_COMPONENTS_MAX)) {
        st = to->name == NULL ? psi_fail(err, PS_INVALID_ARGUMENT, "the queue's name is NULL")
                              : psi_fail(err, PS_INVALID_ARGUMENT, "queue '%s': %u components; 1 to %d are allowed", to->name,
                                         to->component_count, PS_QUEUE_COMPONENTS_MAX);
    }
    if (st == PS_OK && to->kind == PS_QUEUE_WORK) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "queue '%s': work is got by ps_work_get()", to->name);
    } else if (st == PS_OK && psi_queue_accumulates((uint32_t)to->kind)) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "queue '%s': an accumulator is got by ps_accumulator_get()", to->name);
    }
    if (st != PS_OK) {
        return st;
    }
    *out = (struct psi_queue_spec){.kind = (uint32_t)to->kind,
                                   .component_count = to->component_count,
                                   .capacity = to->capacity,
                                   .min_after_dequeue = to->min_after_dequeue,
                                   .seed = to->seed};
    for (uint32_t i = 0; i < to->component_count; i++) {
        const ps_component *c = &to->components[i];
        out->components[i] = (struct psi_queue_component){.dtype = c->dtype, .shaped = c->shaped};
        if (c->shaped) {
            out->components[i].shape = c->shape;
        }
    }
    return PS_OK;
}

static void spec_give(ps_queue *q)
{
    ps_queue_spec *to = &q->public_spec;
    ps_queue_spec_init(to, NULL, PS_DTYPE_NONE, PS_SCALAR);
    to->kind = (ps_queue_kind)q->spec.kind;
    to->capacity = q->spec.capacity;
    to->min_after_dequeue = q->spec.min_after_dequeue;
    to->seed = q->spec.seed;
    to->component_count = q->spec.component_count;
    for (uint32_t i = 0; i < q->spec.component_count; i++) {
        const struct psi_queue_component *c = &q->spec.components[i];
        to->components[i] = (ps_component){.dtype = c->dtype, .shaped = c->shaped, .shape = c->shape};
    }
}

ps_status ps_queue_get(ps_session *s, const ps_queue_spec *spec, ps_queue **out_queue)
{
    struct psi_err err = {0};
    ps_queue_spec given;
    struct psi_queue_spec elements;
    ps_status st =
        out_queue == NULL ? psi_fail(&err, PS_INVALID_ARGUMENT, "out_queue is NULL") : spec_take(spec, &given, &elements, &err);
    if (st == PS_OK) {
        ps_variable_spec like;
        ps_variable_spec_init(&like);
        like.name = given.name;
        like.device = given.device;
        /* TensorFlow's name of the type: device setters choose the device by it */
        like.type = given.kind == PS_QUEUE_FIFO ? "FIFOQueueV2" : "RandomShuffleQueueV2";
        st = psi_api_queue_get(s, &like, PSI_SCOPE_GET, &elements, out_queue, &err);
    }
    if (st == PS_OK) {
        spec_give(*out_queue);
    }
    return psi_api_result(&err, st);
}

ps_status ps_queue_find(ps_session *s, const char *name, ps_queue **out_queue)
{
    struct psi_err err = {0};
    ps_variable_spec like;
    ps_variable_spec_init(&like);
    like.name = name;
    ps_status st = out_queue == NULL || name == NULL
                       ? psi_fail(&err, PS_INVALID_ARGUMENT, "%s is NULL", name == NULL ? "the queue's name" : "out_queue")
                       : psi_api_queue_get(s, &like, PSI_SCOPE_FIND, NULL, out_queue, &err);
    if (st == PS_OK) {
        spec_give(*out_queue);
    }
    return psi_api_result(&err, st);
}

void psi_api_queues_free(ps_session *s)
{
    struct psi_list *it = NULL;
    while ((it = psi_list_pop_front(&s->queues)) != NULL) {
        ps_queue *q = PSI_CONTAINER_OF(PSI_CONTAINER_OF(it, ps_variable, link), ps_queue, variable);
        struct psi_list *tuple = NULL;
        psi_list_move_all(&q->spare, &q->lent); /* `lent`: tuples of work items that are not done */
        while ((tuple = psi_list_pop_front(&q->spare)) != NULL) {
            ps_tuple_free(PSI_CONTAINER_OF(tuple, ps_tuple, link));
        }
        psi_free(q);
    }
}

const char *ps_queue_name(const ps_queue *q)
{
    return q != NULL ? q->variable.name : "";
}

const char *ps_queue_device(const ps_queue *q)
{
    return q != NULL ? q->variable.device : "";
}

const ps_queue_spec *ps_queue_spec_of(const ps_queue *q)
{
    return q != NULL ? &q->public_spec : NULL;
}

ps_status psi_api_queue_run(ps_queue *q, struct psi_request *req, int64_t timeout_ms, struct psi_err *err)
{
    struct psi_api_call call = {.session = q->variable.session, .timeout_ms = timeout_ms, .on = &q->variable, .req = *req};
    struct psi_api_visit visit;
    psi_api_begin(call.session, &visit);
    const uint32_t life = psi_monitor_life(call.session);
    ps_status st = psi_api_queue_ended(&q->variable, life, psi_api_call_run(&call, err), err);
    psi_api_end(call.session);
    *req = call.req;
    return st;
}

ps_status psi_api_queue_ended(const ps_variable *v, uint32_t life, ps_status st, struct psi_err *err)
{
    ps_session *s = v->session;
    if (s->monitor == NULL || st == PS_OK) {
        return st;
    }
    (void)pthread_mutex_lock(&s->lock);
    const bool lost = psi_session_loses_queue(&s->machine, psi_monitor_deletes(s, v), err) && s->monitor->last.count == life;
    (void)pthread_mutex_unlock(&s->lock);
    if (lost) {
        PSI_IGNORE(psi_api_stick(s, err)); /* the caller returns *err */
    }
    return err->code;
}

ps_status psi_api_work_again(ps_session *s, int64_t timeout_ms, struct psi_err *err)
{
    ps_status st = PS_OK;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &s->queues) { /* without the lock: no other thread uses the list during a recovery */
        ps_queue *q = PSI_CONTAINER_OF(PSI_CONTAINER_OF(it, ps_variable, link), ps_queue, variable);
        if (st == PS_OK && q->items != NULL && q->variable.var != NULL) { /* var NULL: the program has deleted the queue */
            struct psi_request req = {.kind = PSI_REQ_ENQUEUE, .src = &q->items->put};
            st = psi_api_queue_run(q, &req, timeout_ms, err);
        }
    }
    return st;
}

static ps_status check(const ps_queue *q, struct psi_err *err)
{
    return q != NULL ? PS_OK : psi_fail(err, PS_INVALID_ARGUMENT, "the queue is NULL");
}

static ps_status check_elements(const ps_queue *q, struct psi_err *err)
{
    ps_status st = check(q, err);
    return st == PS_OK && psi_queue_accumulates(q->spec.kind)
               ? psi_fail(err, PS_INVALID_ARGUMENT, "'%s' is an accumulator: see ps_accumulator_get()", q->variable.name)
               : st;
}

static ps_status check_tuple(const ps_queue *q, const ps_tuple *t, struct psi_err *err)
{
    if (q == NULL || t == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the %s is NULL", q == NULL ? "queue" : "tuple");
    }
    return psi_queue_spec_equal(&q->spec, &t->spec)
               ? check_elements(q, err)
               : psi_fail(err, PS_INVALID_ARGUMENT, "queue '%s': the tuple was made for another one", q->variable.name);
}

static ps_status enqueue(ps_queue *q, ps_tuple *t, int64_t timeout_ms, uint32_t *out_inserted, struct psi_err *err)
{
    struct psi_request req = {.kind = PSI_REQ_ENQUEUE, .src = &t->put};
    uint64_t inserted = 0;
    ps_status st = psi_tuple_to_put(t, err);
    st = st == PS_OK ? psi_api_queue_run(q, &req, timeout_ms, err) : st;
    if (req.result_bytes == sizeof(inserted)) {
        memcpy(&inserted, req.result, sizeof(inserted));
    }
    if (out_inserted != NULL) {
        *out_inserted = inserted <= t->count ? (uint32_t)inserted : t->count;
    }
    return st;
}

/* Take elements into t; blocks. If values is not NULL, the elements are copied there before the dequeue is acknowledged: after a
 * crash either the program has the elements, or the queue hands them out again. */
static ps_status dequeue(ps_queue *q, ps_tuple *t, const ps_into *values, uint32_t count, bool many, bool up_to,
                         int64_t timeout_ms, struct psi_err *err)
{
    struct psi_request req = {.kind = PSI_REQ_DEQUEUE, .dst = &t->take};
    psi_tuple_to_take(t, count, many, up_to);
    if (values != NULL) {
        psi_tuple_take_into(t, values);
    }
    return psi_api_queue_run(q, &req, timeout_ms, err);
}

static ps_status named(const ps_queue *q, ps_status st, struct psi_err *err)
{
    if (st != PS_OK) {
        psi_err_prefix(err, "queue '%s'", q->variable.name);
    }
    return st;
}

static ps_status put_values(ps_queue *q, const ps_from *values, size_t value_count, uint32_t count, int64_t timeout_ms,
                            uint32_t *out_inserted)
{
    struct psi_err err = {0};
    ps_tuple *t = NULL;
    ps_session *s = q != NULL ? q->variable.session : NULL;
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    ps_status st = check_elements(q, &err);
    if (out_inserted != NULL) {
        *out_inserted = 0;
    }
    if (st == PS_OK && (t = psi_tuple_borrow(q)) == NULL) {
        st = psi_fail(&err, PS_RESOURCE_EXHAUSTED, "no memory for an element");
    }
    st = st == PS_OK ? named(q, psi_tuple_gather(t, values, value_count, count, &err), &err) : st;
    st = st == PS_OK ? enqueue(q, t, timeout_ms, out_inserted, &err) : st;
    if (q != NULL) {
        psi_tuple_return(q, t);
    }
    psi_api_end(s);
    return psi_api_result(&err, st);
}

ps_status ps_enqueue(ps_queue *q, const ps_from *values, size_t value_count, int64_t timeout_ms)
{
    return put_values(q, values, value_count, 1, timeout_ms, NULL);
}

ps_status ps_enqueue_many(ps_queue *q, const ps_from *values, size_t value_count, uint32_t count, int64_t timeout_ms,
                          uint32_t *out_inserted)
{
    return put_values(q, values, value_count, count, timeout_ms, out_inserted);
}

static ps_status take_values(ps_queue *q, const ps_into *values, size_t value_count, uint32_t count, bool many, bool up_to,
                             int64_t timeout_ms, uint32_t *out_count)
{
    struct psi_err err = {0};
    ps_tuple *t = NULL;
    ps_session *s = q != NULL ? q->variable.session : NULL;
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    ps_status st = check_elements(q, &err);
    st = st == PS_OK ? named(q, psi_tuple_room_check(q, values, value_count, count, &err), &err) : st;
    if (st == PS_OK && (t = psi_tuple_borrow(q)) == NULL) {
        st = psi_fail(&err, PS_RESOURCE_EXHAUSTED, "no memory for an element");
    }
    st = st == PS_OK ? dequeue(q, t, values, count, many, up_to, timeout_ms, &err) : st;
    if (out_count != NULL) {
        *out_count = st == PS_OK ? t->count : 0;
    }
    if (q != NULL) {
        psi_tuple_return(q, t);
    }
    psi_api_end(s);
    return psi_api_result(&err, st);
}

ps_status ps_dequeue(ps_queue *q, const ps_into *values, size_t value_count, int64_t timeout_ms)
{
    return take_values(q, values, value_count, 1, false, false, timeout_ms, NULL);
}

ps_status ps_dequeue_many(ps_queue *q, const ps_into *values, size_t value_count, uint32_t count, int64_t timeout_ms)
{
    return take_values(q, values, value_count, count, true, false, timeout_ms, NULL);
}

ps_status ps_dequeue_up_to(ps_queue *q, const ps_into *values, size_t value_count, uint32_t count, int64_t timeout_ms,
                           uint32_t *out_count)
{
    return take_values(q, values, value_count, count, true, true, timeout_ms, out_count);
}

ps_status ps_enqueue_tuple(ps_queue *q, ps_tuple *t, int64_t timeout_ms, uint32_t *out_inserted)
{
    struct psi_err err = {0};
    ps_status st = check_tuple(q, t, &err);
    if (out_inserted != NULL) {
        *out_inserted = 0;
    }
    st = st == PS_OK ? enqueue(q, t, timeout_ms, out_inserted, &err) : st;
    return psi_api_result(&err, st);
}

ps_status ps_dequeue_tuple(ps_queue *q, ps_tuple *t, uint32_t count, bool up_to, int64_t timeout_ms)
{
    struct psi_err err = {0};
    ps_status st = check_tuple(q, t, &err);
    st = st == PS_OK ? dequeue(q, t, NULL, count, count != 1 || up_to, up_to, timeout_ms, &err) : st;
    if (st != PS_OK) {
        ps_tuple_clear(t);
    }
    return psi_api_result(&err, st);
}

ps_status ps_enqueue_start(ps_queue *q, ps_tuple *t, int64_t timeout_ms, ps_request *req, ps_done_fn done, void *ctx)
{
    struct psi_err err = {0};
    ps_status st = check_tuple(q, t, &err);
    st = st == PS_OK ? psi_tuple_to_put(t, &err) : st;
    if (st != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    const struct psi_request what = {.kind = PSI_REQ_ENQUEUE, .src = &t->put};
    return psi_api_start(&q->variable, &what, timeout_ms, req, done, ctx);
}

ps_status ps_dequeue_start(ps_queue *q, ps_tuple *t, uint32_t count, bool up_to, int64_t timeout_ms, ps_request *req,
                           ps_done_fn done, void *ctx)
{
    struct psi_err err = {0};
    ps_status st = check_tuple(q, t, &err);
    if (st != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    psi_tuple_to_take(t, count, count != 1 || up_to, up_to);
    const struct psi_request what = {.kind = PSI_REQ_DEQUEUE, .dst = &t->take};
    return psi_api_start(&q->variable, &what, timeout_ms, req, done, ctx);
}

ps_status ps_queue_close(ps_queue *q, bool cancel_pending_enqueues, int64_t timeout_ms)
{
    struct psi_err err = {0};
    struct psi_request req = {.kind = PSI_REQ_QUEUE_CLOSE, .bytes = cancel_pending_enqueues};
    ps_status st = check(q, &err);
    st = st == PS_OK ? psi_api_queue_run(q, &req, timeout_ms, &err) : st;
    return psi_api_result(&err, st);
}

struct state {
    uint64_t size;
    bool closed;
};

static void finish_state(struct psi_api_call *call)
{
    const struct psi_queue *queue = call->req.var->queue;
    *(struct state *)call->arg = (struct state){.size = queue->size, .closed = queue->closed};
}

static ps_status state(ps_queue *q, struct state *out, struct psi_err *err)
{
    ps_status st = check(q, err);
    if (st != PS_OK) {
        return st;
    }
    struct psi_api_call call = {
        .session = q->variable.session, .finish = finish_state, .arg = out, .on = &q->variable, .req = {.kind = PSI_REQ_STATUS}};
    struct psi_api_visit visit;
    psi_api_begin(call.session, &visit);
    const uint32_t life = psi_monitor_life(call.session);
    st = psi_api_queue_ended(&q->variable, life, psi_api_call_run(&call, err), err);
    psi_api_end(call.session);
    return st;
}

ps_status ps_queue_size(ps_queue *q, uint64_t *out_size)
{
    struct psi_err err = {0};
    struct state now = {0};
    ps_status st = out_size == NULL ? psi_fail(&err, PS_INVALID_ARGUMENT, "out_size is NULL") : state(q, &now, &err);
    if (st == PS_OK) {
        *out_size = now.size;
    }
    return psi_api_result(&err, st);
}

ps_status ps_queue_is_closed(ps_queue *q, bool *out_closed)
{
    struct psi_err err = {0};
    struct state now = {0};
    ps_status st = out_closed == NULL ? psi_fail(&err, PS_INVALID_ARGUMENT, "out_closed is NULL") : state(q, &now, &err);
    if (st == PS_OK) {
        *out_closed = now.closed;
    }
    return psi_api_result(&err, st);
}

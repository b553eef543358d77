/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accumulators for programs: a queue of kind ACCUMULATOR, into which gradients go and from which their sum or mean is taken.
 *
 * Happy path: a gradient is copied into a spare tuple of the queue and sent as an enqueue that never waits; a take is a dequeue.
 * Failure modes: those of a queue; wrong arguments are refused before anything is sent.
 */
#include "queue.h"

#include <inttypes.h>
#include <string.h>

ps_status ps_accumulator_get(ps_session *s, const char *name, ps_dtype dtype, ps_shape shape, ps_reduction reduction,
                             const char *device, ps_accumulator **out_accumulator)
{
    struct psi_err err = {0};
    ps_queue *q = NULL;
    const struct psi_queue_spec spec = {.kind = PSI_QUEUE_ACCUMULATOR,
                                        .component_count = 1,
                                        .capacity = -1,
                                        .reduction = (uint32_t)reduction,
                                        .components = {{.dtype = dtype, .shaped = true, .shape = shape}}};
    ps_variable_spec like;
    ps_variable_spec_init(&like);
    like.name = name;
    like.device = device;
    like.type = "ConditionalAccumulator"; /* name of the type for TensorFlow's setters */
    if (out_accumulator == NULL || name == NULL) {
        return psi_api_result(&err, psi_fail(&err, PS_INVALID_ARGUMENT, "%s is NULL",
                                             name == NULL ? "the name of the accumulator" : "out_accumulator"));
    }
    ps_status st = psi_api_queue_get(s, &like, PSI_SCOPE_GET, &spec, &q, &err);
    if (st == PS_OK) {
        *out_accumulator = PSI_CONTAINER_OF(q, ps_accumulator, queue);
    }
    return psi_api_result(&err, st);
}

static ps_status check(const ps_accumulator *a, struct psi_err *err)
{
    return a != NULL ? PS_OK : psi_fail(err, PS_INVALID_ARGUMENT, "the accumulator is NULL");
}

/* Check the memory that a call was given for a gradient. */
static ps_status check_memory(const ps_accumulator *a, const void *memory, size_t bytes, const char *what, struct psi_err *err)
{
    if (check(a, err) != PS_OK || (memory == NULL && bytes > 0)) {
        return a == NULL ? err->code
                         : psi_fail(err, PS_INVALID_ARGUMENT, "accumulator '%s': %s is NULL", a->queue.variable.name, what);
    }
    const struct psi_queue_component *c = &a->queue.spec.components[0];
    const uint64_t wanted = (uint64_t)ps_shape_elements(&c->shape) * ps_dtype_bytes(c->dtype);
    return bytes == wanted
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "accumulator '%s': %zu bytes are given, a gradient of it has %" PRIu64,
                          a->queue.variable.name, bytes, wanted);
}

/* A spare tuple; NULL: error in *err. */
static ps_tuple *borrow(ps_accumulator *a, struct psi_err *err)
{
    ps_tuple *t = psi_tuple_borrow(&a->queue);
    if (t == NULL) {
        PSI_IGNORE(psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for a gradient")); /* the caller returns it */
    }
    return t;
}

ps_status ps_accumulator_apply_grad(ps_accumulator *a, const void *gradient, size_t gradient_bytes, int64_t local_step,
                                    int64_t timeout_ms, bool *out_accepted)
{
    struct psi_err err = {0};
    uint64_t accepted = 0;
    if (check_memory(a, gradient, gradient_bytes, "the gradient", &err) != PS_OK) {
        return psi_api_result(&err, err.code);
    }
    ps_session *s = a->queue.variable.session;
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    ps_tuple *t = borrow(a, &err);
    ps_status st = t == NULL ? err.code : psi_tuple_gather(t, &(const ps_from){gradient, gradient_bytes}, 1, 1, &err);
    st = st == PS_OK ? psi_tuple_to_put(t, &err) : st;
    if (st == PS_OK) {
        struct psi_request req = {.kind = PSI_REQ_ENQUEUE, .src = &t->put};
        t->put.apply = true;
        t->put.local_step = local_step;
        st = psi_api_queue_run(&a->queue, &req, timeout_ms, &err);
        if (req.result_bytes == sizeof(accepted)) {
            memcpy(&accepted, req.result, sizeof(accepted));
        }
    }
    if (out_accepted != NULL) {
        *out_accepted = accepted != 0;
    }
    psi_tuple_return(&a->queue, t);
    psi_api_end(s);
    return psi_api_result(&err, st);
}

ps_status ps_accumulator_take_grad(ps_accumulator *a, int64_t n, void *gradient, size_t gradient_bytes, int64_t timeout_ms,
                                   uint64_t *out_count)
{
    struct psi_err err = {0};
    const ps_into into = {gradient, gradient_bytes};
    ps_status st = check_memory(a, gradient, gradient_bytes, "the memory for the gradient", &err);
    if (st == PS_OK && (n <= 0 || n > (int64_t)UINT32_MAX)) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "accumulator '%s': a take of %" PRId64 " gradients; 1 to %" PRIu32,
                      a->queue.variable.name, n, UINT32_MAX);
    }
    if (st != PS_OK) {
        return psi_api_result(&err, st);
    }
    ps_session *s = a->queue.variable.session;
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    ps_tuple *t = borrow(a, &err);
    st = t == NULL ? err.code : PS_OK;
    if (st == PS_OK) {
        struct psi_request req = {.kind = PSI_REQ_DEQUEUE, .dst = &t->take};
        psi_tuple_to_take(t, (uint32_t)n, false, false);
        psi_tuple_take_into(t, &into);
        st = psi_api_queue_run(&a->queue, &req, timeout_ms, &err);
        if (out_count != NULL) {
            *out_count = st == PS_OK ? t->take.got.serial : 0;
        }
    }
    psi_tuple_return(&a->queue, t);
    psi_api_end(s);
    return psi_api_result(&err, st);
}

ps_status ps_accumulator_set_global_step(ps_accumulator *a, int64_t step, int64_t *out_before)
{
    struct psi_err err = {0};
    struct psi_request req = {.kind = PSI_REQ_SET_STEP, .src = &step};
    int64_t before = 0;
    ps_status st = check(a, &err);
    st = st == PS_OK ? psi_api_queue_run(&a->queue, &req, 0, &err) : st;
    if (st == PS_OK && req.result_bytes == sizeof(before)) {
        memcpy(&before, req.result, sizeof(before));
    }
    if (out_before != NULL) {
        *out_before = before;
    }
    return psi_api_result(&err, st);
}

ps_status ps_accumulator_num_accumulated(ps_accumulator *a, uint64_t *out_count)
{
    struct psi_err err = {0};
    return a == NULL ? psi_api_result(&err, psi_fail(&err, PS_INVALID_ARGUMENT, "the accumulator is NULL"))
                     : ps_queue_size(&a->queue, out_count);
}

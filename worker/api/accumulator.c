/* SPDX-License-Identifier: Apache-2.0 */
/* Accumulators for programs: queues of kind ACCUMULATOR or SPARSE_ACCUMULATOR. Workers enqueue gradients; a dequeue takes their
 * sum or mean. Happy path: a gradient is copied into a spare tuple of the queue (memory for queue elements), and sent as an
 * enqueue, which never waits. Rows of a sparse gradient are first sorted, and rows with equal indices added. A sparse accumulator
 * gives its result as a tuple that the caller owns. Failure modes: the errors of queue.c; wrong arguments: nothing is sent. */
#include "queue.h"

#include "worker/core/rows.h"

#include "common/sparse.h"

#include <inttypes.h>
#include <string.h>

static ps_status get(ps_session *s, const char *name, enum psi_queue_kind kind, ps_dtype dtype, ps_shape shape,
                     ps_reduction reduction, const char *device, ps_accumulator **out_accumulator)
{
    struct psi_err err = {0};
    ps_queue *q = NULL;
    const struct psi_queue_spec spec = {.kind = (uint32_t)kind,
                                        .component_count = 1,
                                        .capacity = -1,
                                        .reduction = (uint32_t)reduction,
                                        .components = {{.dtype = dtype, .shaped = true, .shape = shape}}};
    ps_variable_spec like;
    ps_variable_spec_init(&like);
    like.name = name;
    like.device = device;
    /* TensorFlow's name of the type: device setters choose the device by it */
    like.type = kind == PSI_QUEUE_ACCUMULATOR ? "ConditionalAccumulator" : "SparseConditionalAccumulator";
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

ps_status ps_accumulator_get(ps_session *s, const char *name, ps_dtype dtype, ps_shape shape, ps_reduction reduction,
                             const char *device, ps_accumulator **out_accumulator)
{
    return get(s, name, PSI_QUEUE_ACCUMULATOR, dtype, shape, reduction, device, out_accumulator);
}

ps_status ps_sparse_accumulator_get(ps_session *s, const char *name, ps_dtype dtype, ps_shape shape, ps_reduction reduction,
                                    const char *device, ps_accumulator **out_accumulator)
{
    return get(s, name, PSI_QUEUE_SPARSE_ACCUMULATOR, dtype, shape, reduction, device, out_accumulator);
}

static ps_status check(const ps_accumulator *a, struct psi_err *err)
{
    return a != NULL ? PS_OK : psi_fail(err, PS_INVALID_ARGUMENT, "the accumulator is NULL");
}

static ps_status check_kind(const ps_accumulator *a, enum psi_queue_kind kind, struct psi_err *err)
{
    ps_status st = check(a, err);
    return st != PS_OK || a->queue.spec.kind == (uint32_t)kind
               ? st
               : psi_fail(err, PS_INVALID_ARGUMENT, "accumulator '%s' is %s", a->queue.variable.name,
                          kind == PSI_QUEUE_ACCUMULATOR
                              ? "sparse: use ps_accumulator_apply_rows() and ps_accumulator_take_rows()"
                              : "not sparse: use ps_accumulator_apply_grad() and ps_accumulator_take_grad()");
}

static ps_status check_memory(const ps_accumulator *a, const void *memory, size_t bytes, const char *what, struct psi_err *err)
{
    const ps_status st = check_kind(a, PSI_QUEUE_ACCUMULATOR, err);
    if (st != PS_OK || (memory == NULL && bytes > 0)) {
        return st != PS_OK ? st
                           : psi_fail(err, PS_INVALID_ARGUMENT, "accumulator '%s': %s is NULL", a->queue.variable.name, what);
    }
    const struct psi_queue_component *c = &a->queue.spec.components[0];
    const uint64_t wanted = (uint64_t)ps_shape_elements(&c->shape) * ps_dtype_bytes(c->dtype);
    return bytes == wanted
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "accumulator '%s': %zu bytes are given, a gradient of it has %" PRIu64,
                          a->queue.variable.name, bytes, wanted);
}

/* Take an empty tuple (memory for queue elements) for one gradient; psi_tuple_return() gives it back. NULL: no memory (*err). */
static ps_tuple *borrow(ps_accumulator *a, struct psi_err *err)
{
    ps_tuple *t = psi_tuple_borrow(&a->queue);
    if (t == NULL) {
        PSI_IGNORE(psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for a gradient")); /* NULL tells the caller */
    }
    return t;
}

/* Send the complete gradient in t. *out_accepted: 1; 0 if the accumulator has dropped it, because local_step is too old. */
static ps_status apply(ps_accumulator *a, ps_tuple *t, int64_t local_step, int64_t timeout_ms, uint64_t *out_accepted,
                       struct psi_err *err)
{
    struct psi_request req = {.kind = PSI_REQ_ENQUEUE, .src = &t->put};
    ps_status st = psi_tuple_to_put(t, err);
    t->put.apply = true;
    t->put.local_step = local_step;
    st = st == PS_OK ? psi_api_queue_run(&a->queue, &req, timeout_ms, err) : st;
    if (req.result_bytes == sizeof(*out_accepted)) {
        memcpy(out_accepted, req.result, sizeof(*out_accepted));
    }
    return st;
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
    st = st == PS_OK ? apply(a, t, local_step, timeout_ms, &accepted, &err) : st;
    if (out_accepted != NULL) {
        *out_accepted = accepted != 0;
    }
    psi_tuple_return(&a->queue, t);
    psi_api_end(s);
    return psi_api_result(&err, st);
}

/* Check the arguments of ps_accumulator_apply_rows(), and sort the rows. psi_rows_free() frees *out. */
static ps_status sort(const ps_accumulator *a, const int64_t *indices, size_t index_count, const void *rows, size_t rows_bytes,
                      struct psi_rows **out, struct psi_err *err)
{
    uint64_t count = 0, columns = 0, bytes = 0;
    ps_status st = check_kind(a, PSI_QUEUE_SPARSE_ACCUMULATOR, err);
    if (st != PS_OK) {
        return st;
    }
    const char *name = a->queue.variable.name;
    const struct psi_queue_component *c = &a->queue.spec.components[0];
    st = psi_rows_of(name, &c->shape, c->dtype, &count, &columns, err);
    if (st == PS_OK && index_count > 0 && (indices == NULL || (rows == NULL && columns > 0))) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "accumulator '%s': %s are NULL", name,
                      indices == NULL ? "the indices" : "the rows");
    }
    if (st == PS_OK && (!psi_mul_bytes(index_count, columns * ps_dtype_bytes(c->dtype), &bytes) || bytes != rows_bytes)) {
        st = psi_fail(err, PS_INVALID_ARGUMENT,
                      "accumulator '%s': %zu bytes are given; %zu rows of %" PRIu64 " elements have %" PRIu64, name, rows_bytes,
                      index_count, columns, bytes);
    }
    const struct psi_rows_given given = {.name = name,
                                         .shape = &c->shape,
                                         .dtype = c->dtype,
                                         .indices = indices,
                                         .count = index_count,
                                         .values = rows,
                                         .use = PSI_ROWS_SUM};
    return st == PS_OK ? psi_rows_new(&given, out, err) : st;
}

/* Write the sorted rows into t, each with count 1, because it comes from one gradient. */
static ps_status write_rows(const ps_accumulator *a, ps_tuple *t, const struct psi_rows *r, struct psi_err *err)
{
    const int64_t one = 1;
    const ps_shape list = {.rank = 1, .dims = {(int64_t)r->count}};
    ps_shape shape = a->queue.spec.components[0].shape;
    uint8_t *counts = NULL, *rows = NULL;
    uint64_t indices_at = 0;
    shape.dims[0] = (int64_t)r->count;
    ps_status st = psi_tuple_begin(t, &list, r->count * sizeof(one), &counts, err);
    indices_at = st == PS_OK ? (uint64_t)(counts - t->data) : 0; /* an offset: t may grow */
    st = st == PS_OK ? psi_tuple_begin(t, &list, r->count * sizeof(one), &counts, err) : st;
    for (uint64_t i = 0; st == PS_OK && i < r->count; i++) {
        memcpy(counts + i * sizeof(one), &one, sizeof(one));
    }
    st = st == PS_OK ? psi_tuple_begin(t, &shape, r->count * r->row_bytes, &rows, err) : st;
    if (st == PS_OK) {
        psi_rows_copy(r, t->data + indices_at, rows);
    }
    return st;
}

ps_status ps_accumulator_apply_rows(ps_accumulator *a, const int64_t *indices, size_t index_count, const void *rows,
                                    size_t rows_bytes, int64_t local_step, int64_t timeout_ms, bool *out_accepted)
{
    struct psi_err err = {0};
    struct psi_rows *sorted = NULL;
    uint64_t accepted = 0;
    ps_status st = sort(a, indices, index_count, rows, rows_bytes, &sorted, &err);
    if (st != PS_OK) {
        return psi_api_result(&err, st);
    }
    ps_session *s = a->queue.variable.session;
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    ps_tuple *t = borrow(a, &err);
    st = t == NULL ? err.code : write_rows(a, t, sorted, &err);
    st = st == PS_OK ? apply(a, t, local_step, timeout_ms, &accepted, &err) : st;
    if (out_accepted != NULL) {
        *out_accepted = accepted != 0;
    }
    psi_tuple_return(&a->queue, t);
    psi_rows_free(sorted);
    psi_api_end(s);
    return psi_api_result(&err, st);
}

static ps_status check_count(const ps_accumulator *a, int64_t n, struct psi_err *err)
{
    return n > 0 && n <= (int64_t)UINT32_MAX
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "accumulator '%s': a take of %" PRId64 " gradients; 1 to %" PRIu32,
                          a->queue.variable.name, n, UINT32_MAX);
}

ps_status ps_accumulator_take_grad(ps_accumulator *a, int64_t n, void *gradient, size_t gradient_bytes, int64_t timeout_ms,
                                   uint64_t *out_count)
{
    struct psi_err err = {0};
    const ps_into into = {gradient, gradient_bytes};
    ps_status st = check_memory(a, gradient, gradient_bytes, "the memory for the gradient", &err);
    st = st == PS_OK ? check_count(a, n, &err) : st;
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

/* The callback psi_dequeue.here for a sparse accumulator: check the element before it is acknowledged. Called on the loop thread,
 * while the caller waits. */
static ps_status check_taken(struct psi_dequeue *d, struct psi_err *err)
{
    const ps_tuple *t = PSI_CONTAINER_OF(d, ps_tuple, take);
    const ps_accumulator *a = d->ctx;
    return psi_sparse_check(&a->queue.spec, t->data + PSI_BATCH_HEAD, t->bytes - PSI_BATCH_HEAD, d->got.serial, err) == PS_OK
               ? PS_OK
               : psi_fail(err, PS_INTERNAL, "the rows of accumulator '%s' are not understood", a->queue.variable.name);
}

ps_status ps_accumulator_take_rows(ps_accumulator *a, int64_t n, int64_t timeout_ms, ps_summed_rows *out)
{
    struct psi_err err = {0};
    ps_status st = check_kind(a, PSI_QUEUE_SPARSE_ACCUMULATOR, &err);
    if (st == PS_OK && out == NULL) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "accumulator '%s': out is NULL", a->queue.variable.name);
    }
    st = st == PS_OK ? check_count(a, n, &err) : st;
    if (out != NULL) {
        *out = (ps_summed_rows){.count = 0};
    }
    if (st != PS_OK) {
        return psi_api_result(&err, st);
    }
    ps_session *s = a->queue.variable.session;
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    ps_tuple *t = ps_tuple_new(&a->queue);
    st = t == NULL ? psi_fail(&err, PS_RESOURCE_EXHAUSTED, "no memory for a gradient") : PS_OK;
    if (st == PS_OK) {
        struct psi_request req = {.kind = PSI_REQ_DEQUEUE, .dst = &t->take};
        psi_tuple_to_take(t, (uint32_t)n, false, false);
        t->take.here = check_taken;
        t->take.ctx = a;
        st = psi_api_queue_run(&a->queue, &req, timeout_ms, &err);
    }
    if (st == PS_OK) {
        const struct psi_sparse taken = psi_sparse_of(&a->queue.spec, t->data + PSI_BATCH_HEAD);
        *out = (ps_summed_rows){.count = (size_t)taken.count,
                                .gradients = t->take.got.serial,
                                .indices = (const int64_t *)(const void *)taken.indices,
                                .counts = (const int64_t *)(const void *)taken.counts,
                                .rows = taken.rows,
                                .rows_bytes = (size_t)(taken.count * taken.row_bytes),
                                .opaque = t};
    } else {
        ps_tuple_free(t);
    }
    psi_api_end(s);
    return psi_api_result(&err, st);
}

void ps_summed_rows_free(ps_summed_rows *taken)
{
    if (taken != NULL) {
        ps_tuple_free(taken->opaque);
        *taken = (ps_summed_rows){.count = 0};
    }
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a variable by their indices: gather, scatter, push (ps.h).
 *
 * Happy path: the caller's thread checks and sorts the indices and lays the rows out as they travel (core/rows.h) -> a request of
 * the core -> what was made for it is freed with its end; rows that were gathered are put where the caller wants them before
 * that. Failure: an index outside, sizes that do not fit, memory: the call returns the error, and nothing is sent.
 */
#include "api.h"

#include "worker/core/rows.h"

#include "common/mem.h"
#include "common/shape.h"

/* One call of this file: its request, rows and values. */
struct rows_call {
    const char *name;
    enum psi_request_kind kind;
    enum psi_rows_use use;
    uint32_t how;
    float scale;
    const int64_t *indices;
    size_t index_count;
    const void *values; /* of a mutation */
    void *dst;          /* GATHER */
    size_t bytes;       /* of values, or at dst */
};

static ps_status check(const ps_variable *v, const struct rows_call *call, struct psi_err *err)
{
    uint64_t rows = 0, columns = 0, bytes = 0;
    if (v == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the variable is NULL");
    }
    ps_status st = psi_rows_of(v->name, &v->shape, v->dtype, &rows, &columns, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "%s", call->name);
        return st;
    }
    const void *memory = call->kind == PSI_REQ_GATHER ? call->dst : call->values;
    if (call->index_count > 0 && (call->indices == NULL || (memory == NULL && columns > 0))) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': no memory is given for the %s", call->name, v->name,
                        call->indices == NULL ? "indices" : "rows");
    }
    if (!psi_mul_bytes(call->index_count, columns * ps_dtype_bytes(v->dtype), &bytes) || bytes != call->bytes) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': %zu bytes are given; %zu rows of %llu elements have %llu",
                        call->name, v->name, call->bytes, call->index_count, (unsigned long long)columns,
                        (unsigned long long)bytes);
    }
    if (v->dtype == PS_BOOL && call->use == PSI_ROWS_SUM) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': it holds bool; numbers can be added", call->name, v->name);
    }
    const uint8_t *bools = call->values;
    for (size_t i = 0; v->dtype == PS_BOOL && bools != NULL && i < call->bytes; i++) {
        if (bools[i] > 1) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': element %zu is %u, a bool is 0 or 1", call->name, v->name, i,
                            bools[i]);
        }
    }
    return PS_OK;
}

/* Make the request's rows. psi_api_rows_end() frees them. */
static ps_status prepare(const ps_variable *v, const struct rows_call *call, struct psi_request *req, struct psi_err *err)
{
    struct psi_rows *r = NULL;
    ps_status st = check(v, call, err);
    if (st != PS_OK) {
        return st;
    }
    const struct psi_rows_given given = {.name = v->name,
                                         .shape = &v->shape,
                                         .dtype = v->dtype,
                                         .indices = call->indices,
                                         .count = call->index_count,
                                         .values = call->values,
                                         .use = call->use};
    st = psi_rows_new(&given, &r, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "%s", call->name);
        return st;
    }
    r->how = call->how;
    *req = (struct psi_request){.kind = call->kind, .src = r, .dst = call->dst, .scale = call->scale};
    if (call->kind == PSI_REQ_GATHER && (r->places != NULL || call->dst == NULL)) {
        r->to = call->dst;
        r->came = psi_malloc(r->count * r->row_bytes + 1); /* the address of no rows is not NULL */
        req->dst = r->came;
    }
    if (call->kind == PSI_REQ_GATHER && req->dst == NULL) {
        psi_rows_free(r);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s of '%s': no memory for %zu rows", call->name, v->name, call->index_count);
    }
    return PS_OK;
}

void psi_api_rows_end(struct psi_request *req, bool good)
{
    if (req->kind != PSI_REQ_GATHER && req->kind != PSI_REQ_PUSH_ROWS && req->kind != PSI_REQ_SCATTER) {
        return;
    }
    struct psi_rows *r = (struct psi_rows *)(uintptr_t)req->src;
    if (good && r->came != NULL && r->to != NULL) {
        psi_rows_spread(r, r->came, r->to);
    }
    psi_rows_free(r);
    req->src = NULL;
}

static ps_status run(ps_variable *v, const struct rows_call *call)
{
    struct psi_err err = {0};
    struct psi_request req;
    ps_status st = prepare(v, call, &req, &err);
    if (st != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    st = psi_api_operate(v, &req, &err);
    psi_api_rows_end(&req, st == PS_OK);
    return psi_api_result(&err, st);
}

static ps_status start(ps_variable *v, const struct rows_call *call, int64_t timeout_ms, ps_request *request, ps_done_fn done,
                       void *ctx)
{
    struct psi_err err = {0};
    struct psi_request req;
    ps_status st = prepare(v, call, &req, &err);
    if (st != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    st = psi_api_start(v, &req, timeout_ms, request, done, ctx);
    if (st != PS_OK) {
        psi_api_rows_end(&req, false);
    }
    return st;
}

static struct rows_call gather(const int64_t *indices, size_t index_count, void *dst, size_t dst_bytes)
{
    return (struct rows_call){.name = "gather",
                              .kind = PSI_REQ_GATHER,
                              .use = PSI_ROWS_READ,
                              .scale = 1,
                              .indices = indices,
                              .index_count = index_count,
                              .dst = dst,
                              .bytes = dst_bytes};
}

static struct rows_call push(const int64_t *indices, size_t index_count, const void *grads, size_t grad_bytes, float scale)
{
    return (struct rows_call){.name = "push_rows",
                              .kind = PSI_REQ_PUSH_ROWS,
                              .use = PSI_ROWS_SUM,
                              .scale = scale,
                              .indices = indices,
                              .index_count = index_count,
                              .values = grads,
                              .bytes = grad_bytes};
}

static struct rows_call scatter(uint32_t how, const char *name, const int64_t *indices, size_t index_count, const void *rows,
                                size_t row_bytes)
{
    return (struct rows_call){.name = name,
                              .kind = PSI_REQ_SCATTER,
                              .use = how == PS_SCATTER_UPDATE ? PSI_ROWS_LAST : PSI_ROWS_SUM,
                              .how = how,
                              .scale = 1,
                              .indices = indices,
                              .index_count = index_count,
                              .values = rows,
                              .bytes = row_bytes};
}

ps_status ps_gather(ps_variable *v, const int64_t *indices, size_t index_count, void *dst, size_t dst_bytes)
{
    const struct rows_call call = gather(indices, index_count, dst, dst_bytes);
    return run(v, &call);
}

ps_status ps_gather_start(ps_variable *v, const int64_t *indices, size_t index_count, void *dst, size_t dst_bytes,
                          int64_t timeout_ms, ps_request *req, ps_done_fn done, void *ctx)
{
    const struct rows_call call = gather(indices, index_count, dst, dst_bytes);
    return start(v, &call, timeout_ms, req, done, ctx);
}

ps_status ps_push_rows(ps_variable *v, const int64_t *indices, size_t index_count, const void *grads, size_t grad_bytes,
                       float scale)
{
    const struct rows_call call = push(indices, index_count, grads, grad_bytes, scale);
    return run(v, &call);
}

ps_status ps_push_rows_start(ps_variable *v, const int64_t *indices, size_t index_count, const void *grads, size_t grad_bytes,
                             float scale, int64_t timeout_ms, ps_request *req, ps_done_fn done, void *ctx)
{
    const struct rows_call call = push(indices, index_count, grads, grad_bytes, scale);
    return start(v, &call, timeout_ms, req, done, ctx);
}

ps_status ps_scatter_add(ps_variable *v, const int64_t *indices, size_t index_count, const void *rows, size_t rows_bytes)
{
    const struct rows_call call = scatter(PS_SCATTER_ADD, "scatter_add", indices, index_count, rows, rows_bytes);
    return run(v, &call);
}

ps_status ps_scatter_sub(ps_variable *v, const int64_t *indices, size_t index_count, const void *rows, size_t rows_bytes)
{
    const struct rows_call call = scatter(PS_SCATTER_SUB, "scatter_sub", indices, index_count, rows, rows_bytes);
    return run(v, &call);
}

ps_status ps_scatter_update(ps_variable *v, const int64_t *indices, size_t index_count, const void *rows, size_t rows_bytes)
{
    const struct rows_call call = scatter(PS_SCATTER_UPDATE, "scatter_update", indices, index_count, rows, rows_bytes);
    return run(v, &call);
}

ps_status ps_scatter_add_start(ps_variable *v, const int64_t *indices, size_t index_count, const void *rows, size_t rows_bytes,
                               int64_t timeout_ms, ps_request *req, ps_done_fn done, void *ctx)
{
    const struct rows_call call = scatter(PS_SCATTER_ADD, "scatter_add", indices, index_count, rows, rows_bytes);
    return start(v, &call, timeout_ms, req, done, ctx);
}

ps_status ps_scatter_update_start(ps_variable *v, const int64_t *indices, size_t index_count, const void *rows, size_t rows_bytes,
                                  int64_t timeout_ms, ps_request *req, ps_done_fn done, void *ctx)
{
    const struct rows_call call = scatter(PS_SCATTER_UPDATE, "scatter_update", indices, index_count, rows, rows_bytes);
    return start(v, &call, timeout_ms, req, done, ctx);
}

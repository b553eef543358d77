/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a variable by their indices: gather, scatter, push (ps.h). Happy path: the caller's thread checks and sorts the
 * indices, and makes a struct psi_rows (core/rows.h), which a request carries. At its end gathered rows are copied to the
 * caller's memory, and the psi_rows are freed. Failure modes: a bad index or size, or no memory: nothing is sent. */
#include "parts.h"

#include "worker/core/rows.h"

#include "common/mem.h"
#include "common/shape.h"

struct rows_call {
    const char *name;
    enum psi_request_kind kind;
    enum psi_rows_use use;
    uint32_t how;
    float scale;
    const int64_t *indices;
    size_t index_count;
    const void *values; /* values of a mutation; NULL: a read */
    void *dst;          /* memory for rows that are read; NULL: the call reads no rows */
    size_t bytes;       /* bytes at `values`; for a GATHER: bytes at `dst` */
    size_t dst_bytes;   /* bytes at `dst` */
};

static bool reads(const struct rows_call *call)
{
    return call->use == PSI_ROWS_READ || call->use == PSI_ROWS_SUM_READ;
}

static bool changes(const struct rows_call *call)
{
    return call->use != PSI_ROWS_READ;
}

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
    const bool lacks = (reads(call) && call->dst == NULL) || (changes(call) && call->values == NULL);
    if (call->index_count > 0 && (call->indices == NULL || (lacks && columns > 0))) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': no memory is given for the %s", call->name, v->name,
                        call->indices == NULL ? "indices" : "rows");
    }
    if (!psi_mul_bytes(call->index_count, columns * ps_dtype_bytes(v->dtype), &bytes) || bytes != call->bytes) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': %zu bytes are given; %zu rows of %llu elements have %llu",
                        call->name, v->name, call->bytes, call->index_count, (unsigned long long)columns,
                        (unsigned long long)bytes);
    }
    if (reads(call) && call->dst_bytes != bytes) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': there is room for %zu bytes; the new values of %zu rows have %llu",
                        call->name, v->name, call->dst_bytes, call->index_count, (unsigned long long)bytes);
    }
    if (v->dtype == PS_BOOL && changes(call) && call->use != PSI_ROWS_LAST) {
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

/* Make *req, and psi_rows (free: psi_api_rows_end()), of a checked call. at[i]: position of indices[i] in the call; NULL: i. */
static ps_status make(const ps_variable *v, const struct rows_call *call, const uint64_t *at, struct psi_request *req,
                      struct psi_err *err)
{
    struct psi_rows *r = NULL;
    const struct psi_rows_given given = {.name = v->name,
                                         .shape = &v->shape,
                                         .dtype = v->dtype,
                                         .indices = call->indices,
                                         .count = call->index_count,
                                         .values = call->values,
                                         .at = at,
                                         .use = call->use};
    const ps_status st = psi_rows_new(&given, &r, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "%s", call->name);
        return st;
    }
    r->how = call->how;
    *req = (struct psi_request){.kind = call->kind, .src = r, .dst = call->dst, .scale = call->scale};
    if (reads(call) && (r->places != NULL || at != NULL || call->dst == NULL)) {
        r->to = call->dst;
        r->came = psi_malloc(r->count * r->row_bytes + 1); /* + 1: the address is not NULL if there are no rows */
        req->dst = r->came;
    }
    if (reads(call) && req->dst == NULL) {
        psi_rows_free(r);
        req->src = NULL; /* psi_api_rows_end() frees src, and r is freed already */
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s of '%s': no memory for %zu rows", call->name, v->name, call->index_count);
    }
    return PS_OK;
}

static ps_status prepare(const ps_variable *v, const struct rows_call *call, struct psi_request *req, struct psi_err *err)
{
    const ps_status st = check(v, call, err);
    return st == PS_OK ? make(v, call, NULL, req, err) : st;
}

/* The indices of a call, sorted by the part that has the row. indices[k]: index within that part; at[k]: position in the call. */
struct share {
    int64_t *indices;
    uint64_t *at;
    uint64_t *begin; /* [parts + 1] index of the first entry of each part */
};

static void share_free(struct share *share)
{
    psi_free(share->indices);
    psi_free(share->at);
    psi_free(share->begin);
}

/* Sort the indices of the call by part. Indices of a part keep their order. share_free() must follow, also on failure. */
static ps_status deal(const ps_variable *v, const struct rows_call *call, struct share *out, struct psi_err *err)
{
    const size_t count = call->index_count;
    out->indices = psi_malloc((count + 1) * sizeof(*out->indices));
    out->at = psi_malloc((count + 1) * sizeof(*out->at));
    out->begin = psi_calloc(v->cut.count + 2, sizeof(*out->begin));
    if (out->indices == NULL || out->at == NULL || out->begin == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s of '%s': no memory for %zu indices", call->name, v->name, count);
    }
    uint64_t *const next = out->begin + 1; /* next[k]: next free entry of part k; in the end begin[k + 1] */
    int64_t there = 0;
    for (size_t i = 0; i < count; i++) {
        next[psi_part_of(&v->cut, call->indices[i], &there) + 1]++;
    }
    for (uint32_t k = 0; k < v->cut.count; k++) {
        next[k + 1] += next[k];
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t k = psi_part_of(&v->cut, call->indices[i], &there);
        const uint64_t to = next[k]++;
        out->indices[to] = there;
        out->at[to] = i;
    }
    return PS_OK;
}

static ps_status ask_rows(struct psi_parts_op *op, uint32_t i, const struct rows_call *call, const struct share *share,
                          struct psi_err *err)
{
    const ps_variable *part = op->v->parts[i];
    struct rows_call own = *call;
    own.indices = share->indices + share->begin[i];
    own.index_count = share->begin[i + 1] - share->begin[i];
    op->parts[i].asked = call->kind != PSI_REQ_GATHER || own.index_count > 0 || call->index_count == 0;
    return op->parts[i].asked ? make(part, &own, share->at + share->begin[i], &op->parts[i].req, err) : PS_OK;
}

/* Make the request for part i of a variable that is cut by columns: about all rows of the call, but only the part's columns. */
static ps_status ask_columns(struct psi_parts_op *op, uint32_t i, const struct rows_call *call, struct psi_err *err)
{
    const ps_variable *part = op->v->parts[i];
    struct psi_part_op *p = &op->parts[i];
    struct rows_call own = *call;
    const ps_shape shape = psi_part_shape(&op->cut, i);
    const size_t bytes = (size_t)ps_shape_elements(&shape) * ps_dtype_bytes(part->dtype) + 1;
    p->asked = true;
    p->scattered = reads(call) ? psi_malloc(bytes) : NULL;
    p->gathered = changes(call) ? psi_malloc(bytes) : NULL;
    own.values = p->gathered;
    own.dst = p->scattered;
    if ((reads(call) && own.dst == NULL) || (changes(call) && own.values == NULL)) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s of '%s': no memory for %zu rows", call->name, op->v->name,
                        call->index_count);
    }
    if (p->gathered != NULL) {
        psi_parts_op_copy(op, i, call->values, p->gathered, true);
    }
    return make(part, &own, NULL, &p->req, err);
}

/* Make the requests for all parts. A mutation also goes to parts without its rows, so that their optimizers count the step. */
static ps_status prepare_parts(ps_variable *v, const struct rows_call *call, struct psi_parts_op **out, struct psi_err *err)
{
    bool rise = false;
    struct share share = {0};
    struct psi_parts_op *op = NULL;
    const struct psi_rows_given given = {.name = v->name, .indices = call->indices, .count = call->index_count};
    ps_status st = psi_rows_indices_check(&given, (uint64_t)v->shape.dims[0], &rise, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "%s", call->name);
        return st;
    }
    st = psi_parts_op_new(v, call->kind, &op, err);
    if (st == PS_OK && v->cut.axis == 0) {
        st = deal(v, call, &share, err);
    } else if (st == PS_OK) {
        op->dst = call->dst;
        op->cut.shape.dims[0] = (int64_t)call->index_count; /* the caller's memory has one row for each index */
    }
    for (uint32_t i = 0; st == PS_OK && i < v->cut.count; i++) {
        st = v->cut.axis == 0 ? ask_rows(op, i, call, &share, err) : ask_columns(op, i, call, err);
    }
    share_free(&share);
    if (st != PS_OK) {
        psi_parts_op_free(op);
        return st;
    }
    *out = op;
    return PS_OK;
}

static ps_status run_parts(ps_variable *v, const struct rows_call *call)
{
    struct psi_err err = {0};
    struct psi_parts_op *op = NULL;
    uint64_t version = 0;
    ps_status st = check(v, call, &err);
    st = st == PS_OK ? prepare_parts(v, call, &op, &err) : st;
    st = st == PS_OK ? psi_parts_op_run(op, &version, &err) : st;
    psi_parts_op_free(op);
    return psi_api_result(&err, st);
}

static ps_status start_parts(ps_variable *v, const struct rows_call *call, int64_t timeout_ms, ps_request *request,
                             ps_done_fn done, void *ctx)
{
    struct psi_err err = {0};
    struct psi_parts_op *op = NULL;
    ps_status st = check(v, call, &err);
    st = st == PS_OK ? prepare_parts(v, call, &op, &err) : st;
    const struct psi_request what = {.kind = call->kind};
    return st == PS_OK ? psi_parts_op_start(op, &what, timeout_ms, request, done, ctx) : psi_api_last_error_set(&err);
}

static ps_status run(ps_variable *v, const struct rows_call *call)
{
    if (ps_variable_partitions(v) > 0) {
        return run_parts(v, call);
    }
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
    if (ps_variable_partitions(v) > 0) {
        return start_parts(v, call, timeout_ms, request, done, ctx);
    }
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
                              .bytes = dst_bytes,
                              .dst_bytes = dst_bytes};
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

static struct rows_call push_pull(const int64_t *indices, size_t index_count, const void *grads, size_t grad_bytes, void *dst,
                                  size_t dst_bytes, float scale)
{
    struct rows_call call = push(indices, index_count, grads, grad_bytes, scale);
    call.name = "push_pull_rows";
    call.kind = PSI_REQ_PUSH_PULL_ROWS;
    call.use = PSI_ROWS_SUM_READ;
    call.dst = dst;
    call.dst_bytes = dst_bytes;
    return call;
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

ps_status ps_push_pull_rows(ps_variable *v, const int64_t *indices, size_t index_count, const void *grads, size_t grad_bytes,
                            void *dst, size_t dst_bytes, float scale)
{
    const struct rows_call call = push_pull(indices, index_count, grads, grad_bytes, dst, dst_bytes, scale);
    return run(v, &call);
}

ps_status ps_push_pull_rows_start(ps_variable *v, const int64_t *indices, size_t index_count, const void *grads,
                                  size_t grad_bytes, void *dst, size_t dst_bytes, float scale, int64_t timeout_ms,
                                  ps_request *req, ps_done_fn done, void *ctx)
{
    const struct rows_call call = push_pull(indices, index_count, grads, grad_bytes, dst, dst_bytes, scale);
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

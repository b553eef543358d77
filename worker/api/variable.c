/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables that a program has got (get.c): what is known of them, and the blocking calls on one.
 *
 * Happy path: a call is checked and handed to the loop thread; its answer is the caller's. The public record never changes but
 * for the version of the last read. Failure modes: every error is returned and kept for ps_last_error().
 */
#include "api.h"

#include "common/shape.h"

#include <math.h>
#include <string.h>

/* ---- what is known ---- */

const char *ps_variable_name(const ps_variable *v)
{
    return v != NULL ? v->name : "";
}

ps_dtype ps_variable_dtype(const ps_variable *v)
{
    return v != NULL ? v->dtype : PS_DTYPE_NONE;
}

const ps_shape *ps_variable_shape(const ps_variable *v)
{
    static const ps_shape none;
    return v != NULL ? &v->shape : &none;
}

int ps_variable_task(const ps_variable *v)
{
    return v != NULL ? v->task : -1;
}

const char *ps_variable_device(const ps_variable *v)
{
    return v != NULL ? v->device : "";
}

const char *ps_variable_requested_device(const ps_variable *v)
{
    return v != NULL ? v->requested : "";
}

const char *ps_variable_container(const ps_variable *v)
{
    return v != NULL ? v->container : "";
}

size_t ps_variable_bytes(const ps_variable *v)
{
    return v != NULL ? (size_t)v->bytes : 0;
}

uint64_t ps_variable_version(const ps_variable *v, bool *out_exact)
{
    if (v == NULL) {
        return 0;
    }
    (void)pthread_mutex_lock(&v->session->lock);
    uint64_t version = v->version;
    if (out_exact != NULL) {
        *out_exact = v->exact;
    }
    (void)pthread_mutex_unlock(&v->session->lock);
    return version;
}

/* ---- blocking calls ---- */

/* One operation on a variable; the core's request is filled in from it. */
struct op {
    enum psi_request_kind kind;
    const void *src;
    void *dst;
    size_t bytes;
    float scale;
    bool force;
    void *out_result;
    bool *out_initialised;
};

static ps_status prepare_op(struct psi_api_call *call, struct psi_err *err)
{
    const struct op *op = call->arg;
    (void)err;
    call->req.kind = op->kind;
    call->req.var = call->variable->var;
    call->req.src = op->src;
    call->req.dst = op->dst;
    call->req.bytes = op->kind == PSI_REQ_INIT ? op->force : op->bytes; /* INIT: see the end of core.h */
    call->req.scale = op->scale;
    return PS_OK;
}

static void finish_op(struct psi_api_call *call)
{
    const struct op *op = call->arg;
    ps_variable *v = call->variable;
    if (op->out_result != NULL) {
        memcpy(op->out_result, call->req.result, op->bytes < call->req.result_bytes ? op->bytes : call->req.result_bytes);
    }
    if (op->out_initialised != NULL) {
        *op->out_initialised = v->var->initialised;
    }
    if (op->kind == PSI_REQ_PULL || op->kind == PSI_REQ_PUSH_PULL) {
        (void)pthread_mutex_lock(&v->session->lock);
        v->version = call->req.version;
        v->exact = call->req.exact;
        (void)pthread_mutex_unlock(&v->session->lock);
    }
}

ps_status psi_api_holds_strings(const ps_variable *v, struct psi_err *err)
{
    return psi_fail(err, PS_INVALID_ARGUMENT,
                    "variable '%s' holds strings: use ps_variable_assign_strings, ps_variable_init_strings and "
                    "ps_variable_read_strings",
                    v->name);
}

static ps_status op_check(const ps_variable *v, const struct op *op, struct psi_err *err)
{
    if (v == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the variable is NULL");
    }
    bool data = op->kind != PSI_REQ_INIT && op->kind != PSI_REQ_STATUS;
    bool reads = op->kind == PSI_REQ_PULL || op->kind == PSI_REQ_PUSH_PULL;
    if (data && v->dtype == PS_STRING) {
        return psi_api_holds_strings(v, err);
    }
    if (data && op->bytes != v->bytes) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "variable '%s' has %llu bytes, the buffer %zu", v->name,
                        (unsigned long long)v->bytes, op->bytes);
    }
    if ((reads && op->dst == NULL) || (data && op->kind != PSI_REQ_PULL && op->src == NULL)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "variable '%s': the buffer is NULL", v->name);
    }
    if ((op->kind == PSI_REQ_PUSH || op->kind == PSI_REQ_PUSH_PULL) && (!isfinite(op->scale) || op->scale <= 0)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "variable '%s': scale %g is not finite and > 0", v->name, (double)op->scale);
    }
    if (op->kind == PSI_REQ_ADD && op->bytes > PS_RESULT_BYTES_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "variable '%s': %zu bytes; at most %d can be added at once, push larger ones",
                        v->name, op->bytes, PS_RESULT_BYTES_MAX);
    }
    return PS_OK;
}

static ps_status run(ps_variable *v, struct op op)
{
    struct psi_err err = {0};
    ps_status st = op_check(v, &op, &err);
    if (st == PS_OK) {
        struct psi_api_call call = {.session = v->session, .prepare = prepare_op, .finish = finish_op, .arg = &op, .variable = v};
        st = psi_api_call_run(&call, &err);
    }
    return psi_api_result(&err, st);
}

ps_status ps_variable_read(ps_variable *v, void *dst, size_t dst_bytes)
{
    return run(v, (struct op){.kind = PSI_REQ_PULL, .dst = dst, .bytes = dst_bytes, .scale = 1});
}

ps_status ps_variable_assign(ps_variable *v, const void *src, size_t src_bytes)
{
    return run(v, (struct op){.kind = PSI_REQ_ASSIGN, .src = src, .bytes = src_bytes, .scale = 1});
}

ps_status ps_variable_init_from(ps_variable *v, const void *src, size_t src_bytes)
{
    return run(v, (struct op){.kind = PSI_REQ_INIT_FROM, .src = src, .bytes = src_bytes, .scale = 1});
}

ps_status ps_variable_init(ps_variable *v, bool force)
{
    return run(v, (struct op){.kind = PSI_REQ_INIT, .force = force});
}

ps_status ps_variable_assign_add(ps_variable *v, const void *delta, size_t bytes, void *out_value)
{
    return run(v, (struct op){.kind = PSI_REQ_ADD, .src = delta, .bytes = bytes, .scale = 1, .out_result = out_value});
}

ps_status ps_variable_assign_sub(ps_variable *v, const void *delta, size_t bytes, void *out_value)
{
    return run(v, (struct op){.kind = PSI_REQ_ADD, .src = delta, .bytes = bytes, .scale = -1, .out_result = out_value});
}

ps_status ps_variable_push(ps_variable *v, const void *grad, size_t bytes, float scale)
{
    return run(v, (struct op){.kind = PSI_REQ_PUSH, .src = grad, .bytes = bytes, .scale = scale});
}

ps_status ps_variable_push_pull(ps_variable *v, const void *grad, void *dst, size_t bytes, float scale)
{
    return run(v, (struct op){.kind = PSI_REQ_PUSH_PULL, .src = grad, .dst = dst, .bytes = bytes, .scale = scale});
}

ps_status ps_variable_is_initialized(ps_variable *v, bool *out_initialized)
{
    bool initialised = false;
    ps_status st = run(v, (struct op){.kind = PSI_REQ_STATUS, .out_initialised = &initialised});
    if (st == PS_OK && out_initialized != NULL) {
        *out_initialized = initialised;
    }
    return st;
}

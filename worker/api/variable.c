/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables: get or create, look up, and the blocking calls on one.
 *
 * Happy path: a public record is allocated, the core's one is made and got on the loop thread, what the owner said is copied into
 * the public record, which then never changes but for the version of the last read.
 * Failure modes: every error is returned and kept for ps_last_error(); a record whose get failed is freed, the core keeps its own
 * until the session closes.
 */
#include "api.h"

#include "common/abi.h"
#include "common/mem.h"
#include "common/shape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char global_step_name[] = "global_step";

/* ---- get ---- */

void ps_variable_spec_init(ps_variable_spec *spec)
{
    if (spec == NULL) {
        return;
    }
    memset(spec, 0, sizeof(*spec));
    spec->struct_bytes = sizeof(*spec);
}

struct get {
    const ps_variable_spec *spec;
    const struct psi_scoped *scoped;
    bool find_only;
    ps_variable *v;
};

static ps_status prepare_get(struct psi_api_call *call, struct psi_err *err)
{
    struct get *get = call->arg;
    const struct psi_var_scope scope = {.container = get->scoped->container,
                                        .name = get->scoped->name,
                                        .must_exist = get->scoped->must_exist,
                                        .soft_placement = call->session->allow_soft_placement,
                                        .place = &get->scoped->place};
    ps_status st = psi_client_variable_in(call->client, get->spec, &scope, get->find_only, &get->v->var, err);
    if (st == PS_OK) {
        call->req.kind = scope.must_exist ? PSI_REQ_LOOKUP : PSI_REQ_GET;
        call->req.var = get->v->var;
    }
    return st;
}

static void finish_get(struct psi_api_call *call)
{
    ps_variable *v = ((struct get *)call->arg)->v;
    const struct psi_var *var = v->var;
    const char *task = psi_client_task_name(call->client, var->owner);
    (void)snprintf(v->device, sizeof(v->device), "%s/device:CPU:0", task);
    const char *index = strrchr(task, ':');
    v->task = index == NULL ? 0 : (int)strtol(index + 1, NULL, 10);
    v->dtype = var->dtype;
    v->shape = var->shape;
    v->bytes = var->elements * ps_dtype_bytes(var->dtype);
    v->version = var->version;
}

static ps_status spec_take(const ps_variable_spec *from, enum psi_scope_how how, ps_variable_spec *to, struct psi_err *err)
{
    if (from == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the spec is NULL");
    }
    ps_variable_spec_init(to);
    ps_status st = psi_struct_take(from, to, sizeof(*to), "ps_variable_spec_init", err);
    if (st != PS_OK) {
        psi_err_prefix(err, "the spec");
        return st;
    }
    if (how == PSI_SCOPE_FIND && to->name == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the variable's name is NULL");
    }
    return PS_OK;
}

/* The device that was asked for does not exist: which ones do. */
static void add_devices(ps_session *s, struct psi_err *err)
{
    char text[PSI_ERR_TEXT_MAX / 2];
    psi_api_devices_text(s, text, sizeof(text));
    size_t at = strlen(err->text);
    if (text[0] != '\0') {
        (void)snprintf(err->text + at, sizeof(err->text) - at, "; the cluster has %s", text);
    }
}

ps_status psi_api_variable(ps_session *s, const ps_variable_spec *given, enum psi_scope_how how, ps_variable **out_variable,
                           struct psi_err *err)
{
    struct psi_scoped scoped;
    ps_variable_spec spec;
    ps_status st = psi_api_check(s, true, err);
    st = st == PS_OK ? spec_take(given, how, &spec, err) : st;
    st = st == PS_OK ? psi_api_scope(s, &spec, how, &scoped, err) : st;
    if (st != PS_OK) {
        return st;
    }
    ps_variable *v = psi_calloc(1, sizeof(*v));
    if (v == NULL) {
        psi_api_unscope(s, &scoped);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "variable '%s': out of memory", scoped.name);
    }
    v->session = s;
    psi_list_init(&v->link);
    memcpy(v->container, scoped.container, sizeof(v->container));
    memcpy(v->name, scoped.name, sizeof(v->name));
    (void)psi_device_format(&scoped.place.device, v->requested, sizeof(v->requested));
    (void)snprintf(v->device, sizeof(v->device), "a ps task");
    struct get get = {.spec = &spec, .scoped = &scoped, .find_only = how == PSI_SCOPE_FIND, .v = v};
    struct psi_api_call call = {.session = s, .prepare = prepare_get, .finish = finish_get, .arg = &get, .variable = v};
    st = psi_api_call_run(&call, err);
    if (st != PS_OK) {
        if (v->var != NULL && v->var->device_missing) {
            add_devices(s, err);
        }
        if (st == PS_NOT_FOUND && scoped.must_exist && how == PSI_SCOPE_GET) {
            psi_err_prefix(err, "its scope says PS_REUSE_ALWAYS");
        }
        psi_api_unscope(s, &scoped);
        psi_free(v);
        return st;
    }
    (void)pthread_mutex_lock(&s->lock);
    psi_list_push_back(&s->variables, &v->link);
    (void)pthread_mutex_unlock(&s->lock);
    if (scoped.first) {
        psi_api_log_placement(s, v, spec.type);
    }
    *out_variable = v;
    return PS_OK;
}

static ps_status open_public(ps_session *s, const ps_variable_spec *spec, enum psi_scope_how how, ps_variable **out_variable)
{
    struct psi_err err = {0};
    ps_status st = out_variable == NULL ? psi_fail(&err, PS_INVALID_ARGUMENT, "out_variable is NULL")
                                        : psi_api_variable(s, spec, how, out_variable, &err);
    return psi_api_result(&err, st);
}

ps_status ps_variable_get(ps_session *s, const ps_variable_spec *spec, ps_variable **out_variable)
{
    return open_public(s, spec, PSI_SCOPE_GET, out_variable);
}

ps_status ps_variable_find(ps_session *s, const char *name, ps_variable **out_variable)
{
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.name = name;
    return open_public(s, &spec, PSI_SCOPE_FIND, out_variable);
}

ps_status psi_api_global_step(ps_session *s, ps_variable **out_variable, struct psi_err *err)
{
    ps_status st = psi_api_check(s, true, err);
    if (st != PS_OK) {
        return st;
    }
    (void)pthread_mutex_lock(&s->lock);
    ps_variable *known = s->global_step_variable;
    (void)pthread_mutex_unlock(&s->lock);
    if (known == NULL) {
        ps_variable_spec spec;
        ps_variable_spec_init(&spec);
        spec.name = global_step_name;
        spec.dtype = PS_I64;
        st = psi_api_variable(s, &spec, PSI_SCOPE_GLOBAL, &known, err);
        if (st != PS_OK) {
            return st;
        }
        (void)pthread_mutex_lock(&s->lock);
        s->global_step_variable = known;
        (void)pthread_mutex_unlock(&s->lock);
    }
    *out_variable = known;
    return PS_OK;
}

ps_status ps_global_step_get(ps_session *s, ps_variable **out_variable)
{
    struct psi_err err = {0};
    ps_status st = out_variable == NULL ? psi_fail(&err, PS_INVALID_ARGUMENT, "out_variable is NULL")
                                        : psi_api_global_step(s, out_variable, &err);
    return psi_api_result(&err, st);
}

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

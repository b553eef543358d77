/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that a program has got (get.c): their properties, and blocking calls. Happy path: a call is checked, the loop thread
 * carries it out, and the caller gets the answer. The public record never changes, except for the version of the last read or
 * assignment, and after a recovery the task. Failure modes: every error is returned and kept for ps_last_error(). */
#include "api.h"

#include "common/name.h"
#include "common/shape.h"

#include <stdio.h>
#include <string.h>

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

_Static_assert(PS_VARIABLE_DEF_BYTES == PSI_VARIABLE_DEF_MAX, "what a program has room for");

ps_status ps_variable_def(const ps_variable *v, char *out, size_t out_bytes)
{
    struct psi_err err = {0};
    char text[PSI_VARIABLE_DEF_MAX];
    ps_status st = v == NULL || out == NULL
                       ? psi_fail(&err, PS_INVALID_ARGUMENT, "ps_variable_def: the %s is NULL", v == NULL ? "variable" : "buffer")
                   : out_bytes < PS_VARIABLE_DEF_BYTES
                       ? psi_fail(&err, PS_INVALID_ARGUMENT, "ps_variable_def: out has %zu bytes, %d are needed", out_bytes,
                                  PS_VARIABLE_DEF_BYTES)
                       : PS_OK;
    if (st == PS_OK) {
        (void)snprintf(out, out_bytes, "%s", psi_variable_def(v->name, text));
    }
    return psi_api_result(&err, st);
}

const char *ps_variable_container(const ps_variable *v)
{
    return v != NULL ? v->container : "";
}

size_t ps_variable_bytes(const ps_variable *v)
{
    return v != NULL ? (size_t)v->bytes : 0;
}

/* The record whose slots describe v: v itself, or, for a variable in parts, its first part. */
static const ps_variable *slots_of(const ps_variable *v)
{
    return v->parts != NULL ? v->parts[0] : v;
}

bool psi_api_slot_is_by_row(const ps_variable *v, uint32_t slot)
{
    const ps_variable *of = slots_of(v);
    return slot < of->slot_count && (of->row_slots >> slot & 1u) != 0;
}

size_t ps_variable_slot_bytes(const ps_variable *v, uint32_t slot)
{
    if (v == NULL || slot >= slots_of(v)->slot_count) {
        return 0;
    }
    return psi_api_slot_is_by_row(v, slot) ? (size_t)v->shape.dims[0] * ps_dtype_bytes(v->dtype) : (size_t)v->bytes;
}

uint64_t ps_variable_version(const ps_variable *v, bool *out_exact)
{
    return v != NULL ? psi_api_version(v->session, &v->version, &v->exact, out_exact) : 0;
}

uint64_t psi_api_version(ps_session *s, const uint64_t *version, const bool *exact, bool *out_exact)
{
    uint64_t at = 0;
    bool is_exact = false;
    if (psi_api_here(s)) {
        (void)pthread_mutex_lock(&s->lock);
        at = *version;
        is_exact = *exact;
        (void)pthread_mutex_unlock(&s->lock);
    }
    if (out_exact != NULL) {
        *out_exact = is_exact;
    }
    return at;
}

ps_status psi_api_has_var(const ps_variable *v, struct psi_err *err)
{
    if (v->parts != NULL) {
        return psi_fail(err, PS_UNIMPLEMENTED, "'%s' is partitioned: this call takes a whole variable, or one of its parts",
                        v->name);
    }
    return v->var != NULL
               ? PS_OK
               : psi_fail(err, PS_FAILED_PRECONDITION, "'%s': the session was lost, and it has not been got again", v->name);
}

static void finish_version(struct psi_api_call *call)
{
    psi_api_note_version(call->variable, &call->req);
}

ps_status psi_api_operate(ps_variable *v, struct psi_request *req, struct psi_err *err)
{
    struct psi_api_call call = {.session = v->session, .finish = finish_version, .variable = v, .on = v, .req = *req};
    (void)pthread_mutex_lock(&v->session->lock);
    call.req.from = v->from;
    (void)pthread_mutex_unlock(&v->session->lock);
    ps_status st = psi_api_call_run(&call, err);
    *req = call.req;
    return st;
}

void psi_api_finish_status(struct psi_api_call *call)
{
    *(bool *)call->arg = call->variable->var->initialised;
}

ps_status psi_api_values_check(const ps_variable *v, const struct psi_request *req, struct psi_err *err)
{
    if (v->dtype == PS_STRING && req->kind != PSI_REQ_INIT && req->kind != PSI_REQ_ADD) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "variable '%s' holds strings: use ps_variable_assign_strings, ps_variable_init_strings and "
                        "ps_variable_read_strings",
                        v->name);
    }
    const bool by_row = req->slot != 0 && psi_api_slot_is_by_row(v, req->slot - 1);
    const struct psi_operand operand = {
        .name = v->name,
        .dtype = v->dtype,
        .elements = (uint64_t)(by_row ? v->shape.dims[0] : ps_shape_elements(&v->shape)),
    };
    return psi_client_check(req, &operand, err);
}

ps_status psi_api_room_check(const ps_variable *v, const char *call, size_t bytes, struct psi_err *err)
{
    return v == NULL || v->dtype == PS_STRING || bytes == v->bytes
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': there is room for %zu bytes of its value, the variable has %llu",
                          call, v->name, bytes, (unsigned long long)v->bytes);
}

/* Run one operation on a variable. out_req: the request with its result, written on PS_OK; may be NULL. */
static ps_status run(ps_variable *v, struct psi_request req, struct psi_request *out_req)
{
    struct psi_err err = {0};
    ps_status st = v == NULL ? psi_fail(&err, PS_INVALID_ARGUMENT, "the variable is NULL") : psi_api_values_check(v, &req, &err);
    if (st != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    st = v->parts != NULL ? psi_api_parts_run(v, &req, &err) : psi_api_operate(v, &req, &err);
    if (st == PS_OK && out_req != NULL) {
        *out_req = req;
    }
    return psi_api_result(&err, st);
}

/* Run an operation that reads. *out_version and *out_exact are those of the values that were read; both may be NULL. */
static ps_status run_read(ps_variable *v, struct psi_request req, uint64_t *out_version, bool *out_exact)
{
    struct psi_request read = {.kind = PSI_REQ_NONE};
    const ps_status st = run(v, req, &read);
    if (st == PS_OK && out_version != NULL) {
        *out_version = read.version;
    }
    if (st == PS_OK && out_exact != NULL) {
        *out_exact = read.exact;
    }
    return st;
}

ps_status ps_variable_read_versioned(ps_variable *v, void *dst, size_t dst_bytes, uint64_t *out_version, bool *out_exact)
{
    const struct psi_request req = {.kind = PSI_REQ_PULL, .dst = dst, .bytes = dst_bytes, .scale = 1};
    return run_read(v, req, out_version, out_exact);
}

ps_status ps_variable_read(ps_variable *v, void *dst, size_t dst_bytes)
{
    return ps_variable_read_versioned(v, dst, dst_bytes, NULL, NULL);
}

ps_status ps_variable_read_slot_versioned(ps_variable *v, uint32_t slot, void *dst, size_t dst_bytes, uint64_t *out_version,
                                          bool *out_exact)
{
    const struct psi_request req = {
        .kind = PSI_REQ_PULL, .slot = slot < UINT32_MAX ? slot + 1 : slot, .dst = dst, .bytes = dst_bytes, .scale = 1};
    return run_read(v, req, out_version, out_exact);
}

ps_status ps_variable_read_slot(ps_variable *v, uint32_t slot, void *dst, size_t dst_bytes)
{
    return ps_variable_read_slot_versioned(v, slot, dst, dst_bytes, NULL, NULL);
}

ps_status ps_variable_assign(ps_variable *v, const void *src, size_t src_bytes)
{
    return run(v, (struct psi_request){.kind = PSI_REQ_ASSIGN, .src = src, .bytes = src_bytes, .scale = 1}, NULL);
}

ps_status ps_variable_init_from(ps_variable *v, const void *src, size_t src_bytes)
{
    return run(v, (struct psi_request){.kind = PSI_REQ_INIT_FROM, .src = src, .bytes = src_bytes, .scale = 1}, NULL);
}

ps_status ps_variable_init(ps_variable *v, bool force)
{
    /* the request INIT has no size: its field `bytes` is the flag `force` */
    return run(v, (struct psi_request){.kind = PSI_REQ_INIT, .bytes = force}, NULL);
}

/* Run an ADD. out_value [out_bytes]: gets the value after the addition; may be NULL. call: name of the operation, for errors. */
static ps_status add(ps_variable *v, struct psi_request req, const char *call, void *out_value, size_t out_bytes)
{
    struct psi_err err = {0};
    ps_status st = out_value != NULL ? psi_api_room_check(v, call, out_bytes, &err) : PS_OK;
    if (st == PS_OK && out_value != NULL && v != NULL && v->parts != NULL) {
        st = psi_fail(&err, PS_UNIMPLEMENTED, "%s of '%s', which is partitioned: its new value does not come back, read it", call,
                      v->name);
    }
    if (st == PS_OK && out_value != NULL && v != NULL && v->dtype != PS_BOOL && v->bytes > PS_RESULT_BYTES_MAX) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT,
                      "%s of '%s': its new value has %llu bytes, and comes back where it has %d at most: give no memory for it, "
                      "and read it",
                      call, v->name, (unsigned long long)v->bytes, PS_RESULT_BYTES_MAX);
    }
    if (st != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    st = run(v, req, &req);
    if (st == PS_OK && out_value != NULL) {
        memcpy(out_value, req.result, out_bytes < req.result_bytes ? out_bytes : req.result_bytes);
    }
    return st;
}

ps_status ps_variable_assign_add(ps_variable *v, const void *delta, size_t delta_bytes, void *out_value, size_t out_bytes)
{
    const struct psi_request req = {.kind = PSI_REQ_ADD, .src = delta, .bytes = delta_bytes, .scale = 1};
    return add(v, req, "assign_add", out_value, out_bytes);
}

ps_status ps_variable_assign_sub(ps_variable *v, const void *delta, size_t delta_bytes, void *out_value, size_t out_bytes)
{
    const struct psi_request req = {.kind = PSI_REQ_ADD, .src = delta, .bytes = delta_bytes, .scale = -1};
    return add(v, req, "assign_sub", out_value, out_bytes);
}

ps_status ps_variable_push(ps_variable *v, const void *grad, size_t grad_bytes, float scale)
{
    return run(v, (struct psi_request){.kind = PSI_REQ_PUSH, .src = grad, .bytes = grad_bytes, .scale = scale}, NULL);
}

ps_status ps_variable_push_pull_versioned(ps_variable *v, const void *grad, size_t grad_bytes, void *dst, size_t dst_bytes,
                                          float scale, uint64_t *out_version, bool *out_exact)
{
    struct psi_err err = {0};
    const struct psi_request req = {.kind = PSI_REQ_PUSH_PULL, .src = grad, .dst = dst, .bytes = grad_bytes, .scale = scale};
    return psi_api_room_check(v, "push_pull", dst_bytes, &err) == PS_OK ? run_read(v, req, out_version, out_exact)
                                                                        : psi_api_last_error_set(&err);
}

ps_status ps_variable_push_pull(ps_variable *v, const void *grad, size_t grad_bytes, void *dst, size_t dst_bytes, float scale)
{
    return ps_variable_push_pull_versioned(v, grad, grad_bytes, dst, dst_bytes, scale, NULL, NULL);
}

ps_status ps_variable_is_initialized(ps_variable *v, bool *out_initialized)
{
    struct psi_err err = {0};
    bool initialised = false;
    if (v == NULL) {
        return psi_api_result(&err, psi_fail(&err, PS_INVALID_ARGUMENT, "the variable is NULL"));
    }
    for (uint32_t i = 0; v->parts != NULL && i < v->cut.count; i++) {
        const ps_status st = ps_variable_is_initialized(v->parts[i], &initialised);
        if (st != PS_OK || !initialised || i + 1 == v->cut.count) {
            *(out_initialized != NULL ? out_initialized : &initialised) = initialised;
            return st;
        }
    }
    struct psi_api_call call = {.session = v->session,
                                .finish = psi_api_finish_status,
                                .arg = &initialised,
                                .variable = v,
                                .on = v,
                                .req = {.kind = PSI_REQ_STATUS}};
    ps_status st = psi_api_call_run(&call, &err);
    if (st == PS_OK && out_initialized != NULL) {
        *out_initialized = initialised;
    }
    return psi_api_result(&err, st);
}

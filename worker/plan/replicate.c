/* SPDX-License-Identifier: Apache-2.0 */
/* In-graph replication (ps_replicate): the same rows on several tasks, each with its part of the batch.
 *
 * Happy path: for each replica its device scope is opened, its parts of the batches become values, and the program's function
 * makes the rows and returns the gradients. If gradients are averaged, those of a variable are multiplied by the weights of their
 * replicas and summed in order, on the device of the scopes outside of the replicas; the sum is pushed once. If replicas are
 * asynchronous, the run that makes a gradient pushes it. The client makes parts and weights from each execution's batch (trip.c),
 * and each replica receives its own part only. Failure modes: the plan keeps the first error, which names the replica. */
#include "plan.h"

#include "common/abi.h"
#include "common/mem.h"

#include <stdio.h>
#include <string.h>

enum { REPLICAS_MAX = PS_TASKS_MAX };

void ps_replicate_options_init(ps_replicate_options *options)
{
    if (options != NULL) {
        *options = (ps_replicate_options){.struct_bytes = sizeof(*options)};
    }
}

struct replication {
    ps_plan *plan;
    ps_replicate_options o;
    uint32_t replicas;
    ps_value *inputs;    /* [batch_count] parts of the batches for the replica whose rows are being made */
    ps_value *gradients; /* [replicas x variable_count] */
};

static ps_status batch_check(const struct replication *r, size_t i, struct psi_err *err)
{
    char what[32];
    (void)snprintf(what, sizeof(what), "batch %zu", i);
    ps_status st = psi_plan_value_check(r->plan, r->o.batches[i], what, err);
    if (st != PS_OK) {
        return st;
    }
    const struct psi_plan_row *row = r->plan->rows[r->o.batches[i].row];
    if (row->kind != PSI_PLAN_PLACEHOLDER && row->kind != PSI_PLAN_CONST) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "batch '%s' is no placeholder and no constant", row->name);
    }
    if (row->types[0].dtype == PS_STRING || row->types[0].shape.rank == 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "batch '%s' is a scalar or holds strings: it has no rows to be parted",
                        row->name);
    }
    return PS_OK;
}

/* Make a PART or WEIGHT row, which the client computes from a batch at each run. */
static ps_value client_row(const struct replication *r, enum psi_plan_kind kind, const ps_value *batch, uint32_t part,
                           const struct psi_type *type, struct psi_err *err)
{
    struct psi_plan_row *row = NULL;
    const ps_value inputs[2] = {batch != NULL ? *batch : (ps_value){0}, batch != NULL ? r->o.batches[0] : (ps_value){0}};
    const struct psi_plan_spec spec = {.kind = kind,
                                       .base = kind == PSI_PLAN_PART ? "part" : "weight",
                                       .type = kind == PSI_PLAN_PART ? "Slice" : "Const",
                                       .inputs = inputs,
                                       .input_count = batch != NULL ? 2 : 0,
                                       .types = type,
                                       .output_count = 1};
    if (psi_plan_row_new(r->plan, &spec, &row, err) != PS_OK) {
        return (ps_value){0};
    }
    row->part = part;
    row->parts = r->replicas;
    return (ps_value){.plan = r->plan, .row = row->number};
}

static void parts_make(struct replication *r, uint32_t part)
{
    struct psi_err err = {0};
    if (!psi_plan_enter(r->plan)) {
        return;
    }
    for (size_t i = 0; i < r->o.batch_count && err.code == PS_OK; i++) {
        struct psi_type type = r->plan->rows[r->o.batches[i].row]->types[0];
        type.shape.dims[0] = PSI_DIM_UNKNOWN;
        r->inputs[i] = client_row(r, PSI_PLAN_PART, &r->o.batches[i], part, &type, &err);
    }
    (void)psi_plan_leave(r->plan, (ps_value){0}, &err);
}

static ps_value weight_make(const struct replication *r, uint32_t part, ps_dtype dtype)
{
    struct psi_err err = {0};
    if (!psi_plan_enter(r->plan)) {
        return (ps_value){0};
    }
    const struct psi_type type = {.dtype = dtype};
    ps_value weight = client_row(r, PSI_PLAN_WEIGHT, r->o.batch_count > 0 ? &r->o.batches[0] : NULL, part, &type, &err);
    return psi_plan_leave(r->plan, weight, &err);
}

static void plan_fail(ps_plan *p, struct psi_err *err)
{
    if (psi_plan_enter(p)) {
        (void)psi_plan_leave(p, (ps_value){0}, err);
    }
}

static void replica_set(ps_plan *p, uint32_t replica)
{
    (void)pthread_mutex_lock(&p->lock);
    p->replica = replica;
    (void)pthread_mutex_unlock(&p->lock);
}

static void replica_check(struct replication *r, uint32_t k, ps_status returned)
{
    struct psi_err err = {0};
    const ps_value *gradients = r->gradients + (size_t)k * r->o.variable_count;
    if (ps_plan_status(r->plan) != PS_OK) {
        return;
    }
    ps_status st = PS_OK;
    if (returned != PS_OK) {
        (void)psi_api_returned(returned, &err);
        st = err.code;
    }
    for (size_t i = 0; i < r->o.variable_count && st == PS_OK; i++) {
        char what[64];
        (void)snprintf(what, sizeof(what), "gradient %zu", i);
        st = psi_plan_value_check(r->plan, gradients[i], what, &err);
        if (st == PS_OK) {
            const struct psi_plan_row *row = r->plan->rows[gradients[i].row];
            st = psi_plan_fits_check(r->o.variables[i], &row->types[gradients[i].output], what, &err);
        }
    }
    if (st != PS_OK) {
        psi_err_prefix(&err, "ps_replicate: replica %u", (unsigned)k);
        plan_fail(r->plan, &err);
    }
}

static void replica_build(struct replication *r, uint32_t k)
{
    ps_session *s = r->plan->session;
    char device[PSI_TASK_NAME_MAX];
    (void)psi_task_name_format(device, sizeof(device), "worker", k);
    const char *at = r->o.devices != NULL ? r->o.devices[k] : device;
    const ps_replica replica = {.struct_bytes = sizeof(replica),
                                .index = k,
                                .count = r->replicas,
                                .device = at,
                                .inputs = r->inputs,
                                .input_count = r->o.batch_count};
    if (ps_device_push(s, at) != PS_OK) {
        struct psi_err err;
        psi_api_last_error_get(&err);
        psi_err_prefix(&err, "ps_replicate: replica %u", (unsigned)k);
        plan_fail(r->plan, &err);
        return;
    }
    replica_set(r->plan, 1 + k);
    parts_make(r, k);
    ps_value *gradients = r->gradients + (size_t)k * r->o.variable_count;
    ps_status st = ps_plan_status(r->plan) == PS_OK ? r->o.build(r->o.ctx, r->plan, &replica, gradients) : PS_OK;
    replica_check(r, k, st);
    for (size_t i = 0; r->o.asynchronous && i < r->o.variable_count; i++) {
        gradients[i] = ps_plan_push(r->plan, r->o.variables[i], gradients[i], 1);
        if (gradients[i].plan != NULL) {
            r->plan->rows[gradients[i].row]->alone = true;
        }
    }
    replica_set(r->plan, 0);
    PSI_IGNORE(ps_device_pop(s)); /* cannot fail: this function has entered the scope */
}

static ps_value average_push(const struct replication *r, size_t i)
{
    ps_plan *p = r->plan;
    ps_value sum = {0};
    for (uint32_t k = 0; k < r->replicas; k++) {
        const ps_value gradient = r->gradients[(size_t)k * r->o.variable_count + i];
        const ps_dtype dtype = ps_value_dtype(gradient);
        const ps_value weighted = ps_plan_mul(p, gradient, weight_make(r, k, dtype));
        sum = k == 0 ? weighted : ps_plan_add(p, sum, weighted);
    }
    return ps_plan_push(p, r->o.variables[i], sum, 1);
}

static ps_status trains_make(struct replication *r, ps_value *out_trains, struct psi_err *err)
{
    const size_t n = r->o.variable_count;
    if (r->o.asynchronous) {
        for (uint32_t k = 0; k < r->replicas; k++) {
            out_trains[k] = ps_plan_group(r->plan, r->gradients + (size_t)k * n, n);
        }
        return PS_OK;
    }
    ps_value *pushes = psi_calloc(n + 1, sizeof(*pushes));
    if (pushes == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu variables", n);
    }
    for (size_t i = 0; i < n; i++) {
        pushes[i] = average_push(r, i);
    }
    out_trains[0] = ps_plan_group(r->plan, pushes, n);
    psi_free(pushes);
    return PS_OK;
}

static ps_status variables_check(const struct replication *r, struct psi_err *err)
{
    for (size_t i = 0; i < r->o.variable_count; i++) {
        const ps_variable *v = r->o.variables[i];
        if (v == NULL || v->session != r->plan->session) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "variable %zu is NULL, or belongs to another session than the plan", i);
        }
        if (v->dtype != PS_F32 && v->dtype != PS_F64) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "variable '%s' is %s: gradients are float32 or float64", v->name,
                            ps_dtype_name(v->dtype));
        }
    }
    return PS_OK;
}

static ps_status arguments_check(struct replication *r, const ps_replicate_options *options, const ps_value *out_trains,
                                 struct psi_err *err)
{
    ps_replicate_options_init(&r->o);
    if (options == NULL || out_trains == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "options or out_trains is NULL");
    }
    ps_status st = psi_struct_take(options, &r->o, sizeof(r->o), "ps_replicate_options_init", err);
    if (st != PS_OK) {
        return st;
    }
    if (r->replicas < 1 || r->replicas > REPLICAS_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%u replicas, allowed are 1 to %d", (unsigned)r->replicas, REPLICAS_MAX);
    }
    if (r->o.build == NULL || (r->o.batches == NULL && r->o.batch_count > 0) || r->o.variables == NULL ||
        r->o.variable_count == 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "build, batches or variables is NULL, or there are no variables");
    }
    for (size_t i = 0; i < r->o.batch_count && st == PS_OK; i++) {
        st = batch_check(r, i, err);
    }
    return st == PS_OK ? variables_check(r, err) : st;
}

static ps_status replication_make(struct replication *r, ps_value *out_trains, struct psi_err *err)
{
    r->inputs = psi_calloc(r->o.batch_count + 1, sizeof(*r->inputs));
    r->gradients = psi_calloc((size_t)r->replicas * r->o.variable_count, sizeof(*r->gradients));
    if (r->inputs == NULL || r->gradients == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %u replicas", (unsigned)r->replicas);
    }
    for (uint32_t k = 0; k < r->replicas && ps_plan_status(r->plan) == PS_OK; k++) {
        replica_build(r, k);
    }
    return ps_plan_status(r->plan) == PS_OK ? trains_make(r, out_trains, err) : PS_OK;
}

ps_status ps_replicate(ps_plan *p, uint32_t replicas, const ps_replicate_options *options, ps_value *out_trains)
{
    struct psi_err err = {0};
    struct replication r = {.plan = p, .replicas = replicas};
    if (p == NULL) {
        return psi_api_result(&err, psi_fail(&err, PS_INVALID_ARGUMENT, "ps_replicate: the plan is NULL"));
    }
    ps_status st = ps_plan_status(p);
    if (st == PS_OK) {
        st = arguments_check(&r, options, out_trains, &err);
        st = st == PS_OK ? replication_make(&r, out_trains, &err) : st;
        psi_free(r.inputs);
        psi_free(r.gradients);
        if (st != PS_OK) {
            psi_err_prefix(&err, "ps_replicate");
            plan_fail(p, &err);
        }
    }
    if (p->error.code != PS_OK) {
        for (uint32_t k = 0; out_trains != NULL && options != NULL && k < (options->asynchronous ? replicas : 1u); k++) {
            out_trains[k] = (ps_value){0};
        }
        return psi_api_last_error_set(&p->error);
    }
    return PS_OK;
}

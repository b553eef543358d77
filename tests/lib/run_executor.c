/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An executor of runs for tests (run_executor.h). Happy path: decode, get the inputs, run the rows, deliver, answer. Failure: the
 * first error is the call's.
 */
#include "run_executor.h"

#include "common/mem.h"
#include "worker/api/api.h"
#include "worker/plan/run.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static atomic_uint_least64_t events; /* of all executors of the process: which run was before which */

/* Values of a run: those that own their memory are freed with it. */
struct values {
    struct psi_value *items;
    uint32_t count;
};

/* A variable that was looked up, with the key of the run's container. */
struct run_found {
    struct psi_api_found api;
    struct run_found *next;
    struct run_executor *e;
    bool over;
    struct psi_err err;
};

static void on_found(struct psi_api_found *api, const struct psi_err *err)
{
    struct run_found *f = PSI_CONTAINER_OF(api, struct run_found, api);
    (void)pthread_mutex_lock(&f->e->lock);
    f->over = true;
    f->err = *err;
    (void)pthread_cond_broadcast(&f->e->changed);
    (void)pthread_mutex_unlock(&f->e->lock);
}

static ps_status variable_find(struct run_executor *e, const struct psi_run *run, const struct psi_run_variable *v,
                               ps_variable **out, struct psi_err *err)
{
    struct run_found *f = psi_calloc(1, sizeof(*f));
    f->api.done = on_found;
    f->e = e;
    const uint8_t *key = strcmp(v->container, run->container) == 0 ? run->key : NULL;
    (void)pthread_mutex_lock(&e->lock);
    f->next = e->found; /* until the session has ended */
    e->found = f;
    (void)pthread_mutex_unlock(&e->lock);
    const ps_status st = psi_api_found_start(e->session, v->container, key, v->name, 0, &f->api, err);
    if (st != PS_OK) {
        return st;
    }
    (void)pthread_mutex_lock(&e->lock);
    while (!f->over) {
        (void)pthread_cond_wait(&e->changed, &e->lock);
    }
    (void)pthread_mutex_unlock(&e->lock);
    *out = &f->api.variable;
    *err = f->err;
    return f->err.code;
}

static ps_status said(struct psi_err *err, ps_status st)
{
    return st == PS_OK ? PS_OK : psi_fail_as(err, st, ps_last_reason(), "%s", ps_last_error());
}

static ps_status input_get(struct run_executor *e, const struct psi_run *run, const struct psi_run_input *in,
                           struct psi_value *to, struct psi_err *err)
{
    to->dtype = in->type.dtype;
    to->shape = in->type.shape;
    to->bytes =
        in->from == PSI_RUN_FROM_CALL ? in->bytes : (size_t)ps_shape_elements(&in->type.shape) * ps_dtype_bytes(in->type.dtype);
    to->data = psi_aligned_malloc(64, to->bytes > 0 ? to->bytes : 1);
    if (in->from == PSI_RUN_FROM_CALL) {
        memcpy(to->data, in->bytes > 0 ? in->data : "", in->bytes);
        return PS_OK;
    }
    ps_variable *v = NULL;
    const ps_status st = variable_find(e, run, &in->variable, &v, err);
    return st == PS_OK ? said(err, ps_variable_read(v, to->data, to->bytes)) : st;
}

static ps_status row_execute(struct run_executor *e, const struct psi_run_row *row, struct values *values, struct psi_err *err)
{
    struct psi_value in[PSI_OP_INPUTS_MAX];
    struct psi_type types[PSI_OP_INPUTS_MAX], out[PSI_OP_OUTPUTS_MAX];
    uint32_t count = 0;
    uint64_t printed = row->printed;
    const struct psi_op *op = psi_op_find(row->op, NULL);
    if (op == NULL || (e->fail_row != NULL && strcmp(row->name, e->fail_row) == 0)) {
        return psi_fail(err, op == NULL ? PS_UNIMPLEMENTED : PS_INVALID_ARGUMENT, "row '%s': it is to fail", row->name);
    }
    for (uint32_t i = 0; i < row->input_count; i++) {
        in[i] = values->items[row->inputs[i]];
        types[i] = (struct psi_type){in[i].dtype, in[i].shape};
    }
    ps_status st = psi_op_infer(op, &row->attrs, types, row->input_count, out, &count, err);
    if (st == PS_OK && count != row->output_count) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "row '%s': %u outputs", row->name, (unsigned)count);
    }
    for (uint32_t i = 0; i < count && st == PS_OK; i++) {
        struct psi_value *to = &values->items[row->first_value + i];
        *to = (struct psi_value){.dtype = out[i].dtype, .shape = out[i].shape};
        to->bytes = psi_op_output_bytes(op, &row->attrs, in, row->input_count, &out[i], i);
        to->data = psi_aligned_malloc(64, to->bytes > 0 ? to->bytes : 1);
    }
    const struct psi_op_context ctx = {.printed = &printed};
    return st == PS_OK ? psi_op_run(op, &row->attrs, &ctx, in, row->input_count, &values->items[row->first_value], count, err)
                       : st;
}

static ps_status output_deliver(struct run_executor *e, const struct psi_run *run, const struct psi_run_output *o,
                                const struct psi_value *value, uint8_t *result, size_t *result_bytes, struct psi_err *err)
{
    ps_variable *v = NULL;
    ps_status st = variable_find(e, run, &o->variable, &v, err);
    *result_bytes = o->answers ? value->bytes : 0;
    if (st != PS_OK) {
        return st;
    }
    if (o->to == PSI_RUN_TO_ASSIGN) {
        st = ps_variable_assign(v, value->data, value->bytes);
    } else if (o->to == PSI_RUN_TO_ADD) {
        st = ps_variable_assign_add(v, value->data, value->bytes, o->answers ? result : NULL, *result_bytes);
    } else {
        st = ps_variable_push(v, value->data, value->bytes, o->scale);
    }
    return said(err, st);
}

static ps_status run_execute(struct run_executor *e, const struct psi_run *run, struct values *values, struct psi_buf *out,
                             struct psi_err *err)
{
    struct psi_run_result *results = psi_calloc((size_t)run->output_count + 1, sizeof(*results));
    uint8_t(*sums)[64] = psi_calloc((size_t)run->output_count + 1, sizeof(*sums));
    struct psi_run_answer answer = {.results = results};
    ps_status st = PS_OK;
    for (uint32_t i = 0; i < run->input_count && st == PS_OK; i++) {
        st = input_get(e, run, &run->inputs[i], &values->items[i], err);
    }
    for (uint32_t i = 0; i < run->row_count && st == PS_OK; i++) {
        st = row_execute(e, &run->rows[i], values, err);
    }
    for (uint32_t i = 0; i < run->output_count && st == PS_OK; i++) {
        const struct psi_run_output *o = &run->outputs[i];
        const struct psi_value *value = &values->items[o->value];
        size_t bytes = value->bytes;
        if (o->to != PSI_RUN_TO_ANSWER) {
            st = output_deliver(e, run, o, value, sums[i], &bytes, err);
        }
        if (o->to == PSI_RUN_TO_ANSWER || o->answers) {
            const void *data = o->answers ? (const void *)sums[i] : value->data;
            results[answer.result_count++] =
                (struct psi_run_result){.type = {value->dtype, value->shape}, .data = data, .bytes = bytes};
        }
    }
    st = st == PS_OK ? psi_run_answer_encode(&answer, out, err) : st;
    psi_free(results);
    psi_free(sums);
    return st;
}

/* Wait until the others are there: of runs that go out together. */
static void meet(struct run_executor *e)
{
    if (e->together > 0) {
        (void)pthread_mutex_lock(&e->meeting->lock);
        e->meeting->inside++;
        (void)pthread_cond_broadcast(&e->meeting->changed);
        while (e->meeting->inside < e->together) {
            (void)pthread_cond_wait(&e->meeting->changed, &e->meeting->lock);
        }
        (void)pthread_mutex_unlock(&e->meeting->lock);
    }
}

static struct run_kept *keep(struct run_executor *e, const struct psi_run *run, size_t in_bytes)
{
    (void)pthread_mutex_lock(&e->lock);
    struct run_kept *kept = &e->kept[e->count < RUN_KEPT_MAX ? e->count : RUN_KEPT_MAX - 1];
    e->count++;
    (void)pthread_mutex_unlock(&e->lock);
    *kept = (struct run_kept){.in_bytes = in_bytes,
                              .inputs = run->input_count,
                              .rows = run->row_count,
                              .outputs = run->output_count,
                              .began = atomic_fetch_add(&events, 1) + 1};
    for (uint32_t i = 0; i < run->input_count; i++) {
        if (run->inputs[i].from == PSI_RUN_FROM_VARIABLE) {
            kept->variables++;
            (void)snprintf(kept->variable, sizeof(kept->variable), "%s", run->inputs[i].variable.name);
        }
    }
    for (uint32_t i = 0; i < run->row_count; i++) {
        const size_t n = strlen(kept->rows_text);
        (void)snprintf(kept->rows_text + n, sizeof(kept->rows_text) - n, "%s%s", i > 0 ? " " : "", run->rows[i].op);
    }
    return kept;
}

static ps_status call_run(void *ctx, psd_call *call, const void *in, size_t in_bytes, void *out, size_t out_capacity,
                          size_t *out_bytes, char *error, size_t error_bytes)
{
    struct run_executor *e = ctx;
    struct psi_run run = {0};
    struct psi_err err = {0};
    struct psi_buf answer;
    (void)call;
    psi_buf_init(&answer, out_capacity);
    ps_status st = psi_run_decode(in, in_bytes, &run, &err);
    struct values values = {.items = psi_calloc((size_t)run.value_count + 1, sizeof(struct psi_value)), .count = run.value_count};
    if (st == PS_OK && run.row_count + run.output_count == 0) {
        (void)pthread_mutex_lock(&e->lock);
        e->probes++;
        (void)pthread_mutex_unlock(&e->lock);
        st = run_execute(e, &run, &values, &answer, &err);
    } else if (st == PS_OK) {
        struct run_kept *kept = keep(e, &run, in_bytes);
        meet(e);
        st = run_execute(e, &run, &values, &answer, &err);
        kept->out_bytes = answer.len;
        kept->ended = atomic_fetch_add(&events, 1) + 1;
    }
    if (st == PS_OK) {
        memcpy(out, answer.data, answer.len);
        *out_bytes = answer.len;
    } else {
        (void)snprintf(error, error_bytes, "%s", err.text);
    }
    for (uint32_t i = 0; i < values.count; i++) {
        psi_free(values.items[i].data);
    }
    psi_free(values.items);
    psi_buf_fini(&answer);
    psi_run_fini(&run);
    return st;
}

void run_executor_init(struct run_executor *e)
{
    *e = (struct run_executor){.row = {.name = PSI_RUN_CALL, .run = call_run}};
    e->table = (psd_call_table){.rows = &e->row, .row_bytes = sizeof(e->row), .count = 1, .ctx = e};
    (void)pthread_mutex_init(&e->lock, NULL);
    (void)pthread_cond_init(&e->changed, NULL);
}

void run_executor_fini(struct run_executor *e)
{
    while (e->found != NULL) {
        struct run_found *f = e->found;
        e->found = f->next;
        psi_free(f);
    }
    (void)pthread_cond_destroy(&e->changed);
    (void)pthread_mutex_destroy(&e->lock);
}

void run_meeting_init(struct run_meeting *m)
{
    *m = (struct run_meeting){.inside = 0};
    (void)pthread_mutex_init(&m->lock, NULL);
    (void)pthread_cond_init(&m->changed, NULL);
}

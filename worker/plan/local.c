/* SPDX-License-Identifier: Apache-2.0 */
/* Executes a run in the client, on the thread that runs the plan.
 *
 * Happy path: psi_trip_local() reads all variables that the run needs, at the same time. It runs the rows (operations) one after
 * the other, each with memory for its outputs, and makes assignments, additions and pushes in the order of the plan's rows.
 * Failure modes: the first error ends the run, with the row's name. */
#include "plan.h"

#include "common/blob.h"
#include "common/mem.h"

#include <string.h>

struct reading {
    struct psi_api_call call;
    uint32_t row; /* number of the variable's row */
    struct psi_value value;
};

static void note_version(struct psi_api_call *call)
{
    psi_api_note_version(call->variable, &call->req);
}

static ps_status reading_start(struct psi_trip *t, struct reading *r, struct psi_list *works, struct psi_err *err)
{
    ps_variable *v = t->plan->rows[r->row]->variable;
    const uint64_t elements = (uint64_t)ps_shape_elements(&v->shape);
    const uint64_t bytes = v->dtype == PS_STRING ? psi_blob_bytes_max(elements) : v->bytes;
    r->value = (struct psi_value){.dtype = v->dtype, .shape = v->shape, .bytes = (size_t)bytes};
    r->value.data = bytes > 0 ? psi_aligned_malloc(PSI_PLAN_ALIGN, (size_t)bytes) : NULL;
    if (bytes > 0 && r->value.data == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "variable '%s': out of memory for %llu bytes", v->name,
                        (unsigned long long)bytes);
    }
    r->call = (struct psi_api_call){.session = t->plan->session,
                                    .finish = note_version,
                                    .variable = v,
                                    .on = v,
                                    .timeout_ms = psi_trip_left_ms(t),
                                    .req = {.kind = PSI_REQ_PULL, .dst = r->value.data, .bytes = bytes, .scale = 1}};
    psi_list_push_back(works, &r->call.work.link);
    return PS_OK;
}

static ps_status readings_wait(const struct psi_trip *t, struct reading *readings, uint32_t count, struct psi_err *err)
{
    ps_status first = PS_OK;
    for (uint32_t i = 0; i < count; i++) {
        struct psi_err own = {0};
        struct reading *r = &readings[i];
        ps_status st = psi_api_call_wait(&r->call, &own);
        if (st == PS_OK && r->value.dtype == PS_STRING) {
            const uint64_t elements = (uint64_t)ps_shape_elements(&r->value.shape);
            r->value.bytes = (size_t)psi_blob_offset(r->value.data, elements) + (size_t)psi_blob_bytes_min(elements);
        }
        if (st != PS_OK && first == PS_OK) {
            first = st;
            *err = own;
            psi_err_prefix(err, "variable '%s'", t->plan->rows[r->row]->name);
        }
    }
    return first;
}

static void reading_add(const struct psi_trip *t, uint32_t row, struct reading *readings, uint32_t *count)
{
    for (uint32_t i = 0; i < *count; i++) {
        if (readings[i].row == row) {
            return;
        }
    }
    if (!t->values[t->plan->rows[row]->first_value].here) {
        readings[(*count)++].row = row;
    }
}

/* List the variables that the run reads in `readings`, which has room for all VARIABLE rows of the plan. Returns their number. */
static uint32_t readings_find(const struct psi_trip *t, uint32_t run, struct reading *readings)
{
    const ps_plan *p = t->plan;
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->row_count; i++) {
        const struct psi_plan_row *row = p->rows[i];
        if (t->run_of[i] != run) {
            continue;
        }
        if (row->kind == PSI_PLAN_VARIABLE) {
            reading_add(t, i, readings, &count);
        }
        for (uint32_t k = 0; k < row->input_count; k++) {
            const uint32_t maker = psi_plan_maker(p, row->inputs[k]).row;
            if (psi_trip_reads_itself(t, p->rows[maker])) {
                reading_add(t, maker, readings, &count);
            }
        }
    }
    return count;
}

static uint32_t variables_of(const ps_plan *p)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->row_count; i++) {
        count += p->rows[i]->kind == PSI_PLAN_VARIABLE;
    }
    return count;
}

/* Read the variables of a run into t->values, all at the same time. readings_end() frees these values after the run. */
static ps_status readings_make(struct psi_trip *t, uint32_t run, struct reading *readings, uint32_t *out_count,
                               struct psi_err *err)
{
    struct psi_list works;
    ps_status st = PS_OK;
    psi_list_init(&works);
    const uint32_t count = readings_find(t, run, readings);
    for (uint32_t i = 0; i < count && st == PS_OK; i++) {
        st = reading_start(t, &readings[i], &works, err);
    }
    *out_count = count;
    st = st == PS_OK && count > 0 ? psi_api_calls_start(t->plan->session, &works, err) : st;
    st = st == PS_OK ? readings_wait(t, readings, count, err) : st;
    for (uint32_t i = 0; i < count && st == PS_OK; i++) {
        struct psi_trip_value *v = &t->values[t->plan->rows[readings[i].row]->first_value];
        v->value = readings[i].value;
        v->here = true;
    }
    return st;
}

/* Free the values that readings_make() has read, except those of rows that are in a run: psi_trip_fini() frees them. */
static void readings_end(struct psi_trip *t, struct reading *readings, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct psi_plan_row *row = t->plan->rows[readings[i].row];
        struct psi_trip_value *v = &t->values[row->first_value];
        if (v->here && t->run_of[row->number] != PSI_CUT_NO_RUN) {
            v->owned = true;
            continue;
        }
        if (v->here) {
            v->value = (struct psi_value){0};
            v->here = false;
        }
        psi_free(readings[i].value.data);
    }
}

static bool is_interrupted(void *arg)
{
    const struct psi_trip *t = arg;
    return psi_io_now_ms() >= t->until_ms || psi_api_interrupted(t->plan->session, NULL) != PS_OK;
}

static ps_status row_run(struct psi_trip *t, struct psi_plan_row *row, struct psi_value *in, struct psi_err *err)
{
    struct psi_value *out = in + PSI_OP_INPUTS_MAX;
    struct psi_op_attrs attrs = row->attrs;
    uint64_t printed = row->ran;
    const struct psi_op_context ctx = {
        .place = psi_api_compute_place(t->plan->session), .cancelled = is_interrupted, .arg = t, .printed = &printed};
    ps_status st = PS_OK;
    attrs.step = t->plan->runs;
    for (uint32_t k = 0; k < row->input_count; k++) {
        in[k] = t->values[psi_plan_number(t->plan, row->inputs[k])].value;
    }
    for (uint32_t k = 0; k < row->output_count && st == PS_OK; k++) {
        const struct psi_type *type = &t->values[row->first_value + k].type;
        st = psi_trip_room(t, row->first_value + k, psi_op_output_bytes(row->op, &attrs, in, row->input_count, type, k), err);
        out[k] = t->values[row->first_value + k].value;
    }
    st = st == PS_OK ? psi_op_run(row->op, &attrs, &ctx, in, row->input_count, out, row->output_count, err) : st;
    if (st == PS_CANCELLED) {
        struct psi_err why = {0};
        if (psi_api_interrupted(t->plan->session, &why) != PS_OK) {
            *err = why;
        } else {
            st = psi_fail(err, PS_DEADLINE_EXCEEDED, "the time of the run is over");
        }
        st = err->code;
    }
    return st;
}

static ps_status change_make(struct psi_trip *t, struct psi_plan_row *row, struct psi_err *err)
{
    static const enum psi_request_kind KINDS[] = {
        [PSI_PLAN_ASSIGN] = PSI_REQ_ASSIGN, [PSI_PLAN_ADD] = PSI_REQ_ADD, [PSI_PLAN_PUSH] = PSI_REQ_PUSH};
    const struct psi_value *value = &t->values[psi_plan_number(t->plan, row->inputs[0])].value;
    ps_variable *v = row->variable;
    struct psi_api_call call = {.session = t->plan->session,
                                .finish = note_version,
                                .variable = v,
                                .on = v,
                                .timeout_ms = psi_trip_left_ms(t),
                                .req = {.kind = KINDS[row->kind],
                                        .src = value->data,
                                        .bytes = value->bytes,
                                        .scale = row->kind == PSI_PLAN_PUSH ? row->scale : 1}};
    (void)pthread_mutex_lock(&t->plan->session->lock);
    call.req.from = row->kind == PSI_PLAN_PUSH ? v->from : 0;
    (void)pthread_mutex_unlock(&t->plan->session->lock);
    t->changed = true;
    ps_status st = psi_api_call_run(&call, err);
    if (st == PS_OK && row->kind == PSI_PLAN_ADD && row->types[0].dtype != PS_DTYPE_NONE) {
        st = psi_trip_room(t, row->first_value, 0, err);
        if (st == PS_OK) {
            memcpy(t->values[row->first_value].value.data, call.req.result, t->values[row->first_value].value.bytes);
        }
    }
    if (st != PS_OK) {
        psi_err_prefix(err, "variable '%s'", v->name);
    }
    return st;
}

static ps_status rows_run(struct psi_trip *t, uint32_t run, bool changes, struct psi_value *room, struct psi_err *err)
{
    const ps_plan *p = t->plan;
    for (uint32_t i = 0; i < p->row_count; i++) {
        struct psi_plan_row *row = p->rows[i];
        if (t->run_of[i] != run || row->kind == PSI_PLAN_VARIABLE || (row->kind != PSI_PLAN_OP) != changes) {
            continue;
        }
        const uint64_t from_ns = psi_trip_now(t);
        ps_status st = changes ? change_make(t, row, err) : row_run(t, row, room, err);
        psi_trip_span(t, "row", row->name, from_ns);
        if (st != PS_OK) {
            psi_err_prefix(err, "row '%s'", row->name);
            if (row->replica > 0) {
                psi_err_prefix(err, "replica %u", (unsigned)row->replica - 1);
            }
            return st;
        }
    }
    return PS_OK;
}

ps_status psi_trip_local(struct psi_trip *t, uint32_t run, struct psi_err *err)
{
    struct psi_value *room = psi_malloc((PSI_OP_INPUTS_MAX + PSI_OP_OUTPUTS_MAX) * sizeof(*room));
    struct reading *readings = psi_calloc((size_t)variables_of(t->plan) + 1, sizeof(*readings));
    uint32_t count = 0;
    ps_status st = room != NULL && readings != NULL ? PS_OK : psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for a run");
    st = st == PS_OK ? readings_make(t, run, readings, &count, err) : st;
    st = st == PS_OK ? rows_run(t, run, false, room, err) : st;
    st = st == PS_OK ? rows_run(t, run, true, room, err) : st;
    if (readings != NULL) {
        readings_end(t, readings, count);
    }
    psi_free(readings);
    psi_free(room);
    return st;
}

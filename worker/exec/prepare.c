/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a run of a call: decodes what a client sent, and checks it completely before anything is read or computed.
 *
 * Happy path: psi_exec_prepare() decodes the call, and finds the operation, the device and the types of each row. It finds out
 * which values need the executor's memory, and reserves the most bytes that they need at one time. It lists the transfers: reads
 * of inputs, and deliveries of outputs. Failure modes: every error names the row or the variable; nothing has been read, computed
 * or delivered. */
#include "exec.h"

#include "common/blob.h"
#include "common/mem.h"
#include "common/name.h"
#include "common/shape.h"

#include <string.h>

static ps_status bytes_of(const struct psi_type *type, uint64_t *out_bytes, struct psi_err *err)
{
    char text[PSI_TYPE_TEXT_MAX];
    const int64_t elements = ps_shape_elements(&type->shape);
    if (elements < 0 || !psi_mul_bytes((uint64_t)elements, ps_dtype_bytes(type->dtype), out_bytes) ||
        *out_bytes > PS_VARIABLE_BYTES_MAX) {
        return psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_TOO_LARGE, "%s is larger than a value may be",
                           psi_type_format(type, text, sizeof(text)));
    }
    return PS_OK;
}

static ps_status find_op(struct psi_exec_run *r, uint32_t i, struct psi_err *err)
{
    const char *nearest = NULL;
    const char *op = r->run.rows[i].op;
    r->row_ops[i] = psi_op_find(op, &nearest);
    if (r->row_ops[i] == NULL) {
        return psi_fail(err, PS_UNIMPLEMENTED, "%s has no operation '%s'%s%s%s", r->ops->name, op,
                        nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
    }
    return PS_OK;
}

static ps_status infer_row(struct psi_exec_run *r, uint32_t i, struct psi_type *in, struct psi_type *out, struct psi_err *err)
{
    const struct psi_run_row *row = &r->run.rows[i];
    uint32_t count = 0;
    for (uint32_t k = 0; k < row->input_count; k++) {
        in[k] = r->types[row->inputs[k]];
    }
    ps_status st = psi_op_infer(r->row_ops[i], &row->attrs, in, row->input_count, out, &count, err);
    if (st == PS_OK && count != row->output_count) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "%s has %u outputs here, and the run says %u", row->op, count, row->output_count);
    }
    if (st == PS_OK) {
        memcpy(&r->types[row->first_value], out, count * sizeof(out[0]));
    }
    return st;
}

static ps_status prepare_rows(struct psi_exec_run *r, struct psi_err *err)
{
    ps_status st = PS_OK;
    struct psi_type *types = psi_malloc(sizeof(*types) * (PSI_OP_OUTPUTS_MAX + PSI_OP_INPUTS_MAX));
    if (types == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for the types of a row");
    }
    for (uint32_t i = 0; i < r->run.row_count && st == PS_OK; i++) {
        const struct psi_run_row *row = &r->run.rows[i];
        st = row->input_count > PSI_OP_INPUTS_MAX
                 ? psi_fail(err, PS_INVALID_ARGUMENT, "%s: %u inputs, at most %d", row->op, row->input_count, PSI_OP_INPUTS_MAX)
                 : find_op(r, i, err);
        st = st == PS_OK ? infer_row(r, i, types + PSI_OP_OUTPUTS_MAX, types, err) : st;
        st = st == PS_OK ? psi_exec_place(r->ops, row->device, &r->places[i], err) : st;
        if (st != PS_OK) {
            psi_err_prefix(err, "row '%s'", row->name);
        }
    }
    psi_free(types);
    return st;
}

static bool is_aligned(const struct psi_run_input *in)
{
    const size_t unit = in->type.dtype == PS_STRING ? sizeof(int64_t) : ps_dtype_bytes(in->type.dtype);
    return (uintptr_t)in->data % (unit > 0 ? unit : 1) == 0;
}

static void note_uses(struct psi_exec_run *r)
{
    for (uint32_t n = 0; n < r->run.value_count; n++) {
        r->slots[n].last_row = PSI_EXEC_NO_ROW;
    }
    for (uint32_t i = 0; i < r->run.row_count; i++) {
        for (uint32_t k = 0; k < r->run.rows[i].input_count; k++) {
            r->slots[r->run.rows[i].inputs[k]].last_row = i;
        }
    }
    for (uint32_t i = 0; i < r->run.output_count; i++) {
        r->slots[r->run.outputs[i].value].last_row = PSI_EXEC_RUN_END;
    }
}

static ps_status note_bytes(struct psi_exec_run *r, struct psi_err *err)
{
    ps_status st = PS_OK;
    for (uint32_t n = 0; n < r->run.value_count && st == PS_OK; n++) {
        const struct psi_run_input *in = n < r->run.input_count ? &r->run.inputs[n] : NULL;
        r->slots[n].own = in == NULL || in->from == PSI_RUN_FROM_VARIABLE || !is_aligned(in);
        st = bytes_of(&r->types[n], &r->slots[n].bytes, err);
    }
    return st;
}

uint32_t psi_exec_reused(const struct psi_exec_run *r, uint32_t i)
{
    const struct psi_run_row *row = &r->run.rows[i];
    const struct psi_type *out = &r->types[row->first_value];
    for (uint32_t k = 0; k < row->input_count && k < 8; k++) {
        const uint32_t n = row->inputs[k];
        const struct psi_type *in = &r->types[n];
        bool fits = (r->row_ops[i]->in_place >> k & 1u) != 0 && r->slots[n].own && r->slots[n].last_row == (int64_t)i &&
                    in->dtype != PS_STRING && in->dtype == out->dtype && psi_shape_equal(&in->shape, &out->shape);
        for (uint32_t j = 0; j < row->input_count && fits; j++) {
            fits = j == k || row->inputs[j] != n;
        }
        if (fits) {
            return n;
        }
    }
    return UINT32_MAX;
}

bool psi_exec_is_over(const struct psi_exec_run *r, uint32_t i, uint32_t n)
{
    const struct psi_exec_slot *slot = &r->slots[n];
    const bool unused = slot->last_row == PSI_EXEC_NO_ROW && n >= r->run.rows[i].first_value;
    return slot->live && (slot->last_row == (int64_t)i || unused);
}

/* Simulate row i: add its outputs to *live_bytes, raise r->peak_bytes to this sum, subtract the values that no later row uses. */
static void walk_row(struct psi_exec_run *r, uint32_t i, uint64_t *live_bytes)
{
    const struct psi_run_row *row = &r->run.rows[i];
    const uint32_t reused = psi_exec_reused(r, i);
    for (uint32_t k = 0; k < row->output_count; k++) {
        r->slots[row->first_value + k].live = true;
        *live_bytes += r->slots[row->first_value + k].bytes;
    }
    if (reused != UINT32_MAX) {
        r->slots[reused].live = false;
        *live_bytes -= r->slots[reused].bytes;
    }
    r->peak_bytes = *live_bytes > r->peak_bytes ? *live_bytes : r->peak_bytes;
    for (uint32_t k = 0; k < row->input_count + row->output_count; k++) {
        const uint32_t n = k < row->input_count ? row->inputs[k] : row->first_value + k - row->input_count;
        if (psi_exec_is_over(r, i, n)) {
            r->slots[n].live = false;
            *live_bytes -= r->slots[n].bytes;
        }
    }
}

/* Set and reserve r->peak_bytes, the most that live values need at once; 64 bits hold 65,535 times PS_VARIABLE_BYTES_MAX. */
static ps_status reserve(struct psi_exec_run *r, struct psi_err *err)
{
    uint64_t live_bytes = 0;
    note_uses(r);
    ps_status st = note_bytes(r, err);
    if (st != PS_OK) {
        return st;
    }
    for (uint32_t n = 0; n < r->run.input_count; n++) {
        r->slots[n].live = r->slots[n].own;
        live_bytes += r->slots[n].own ? r->slots[n].bytes : 0;
    }
    r->peak_bytes = live_bytes;
    for (uint32_t i = 0; i < r->run.row_count; i++) {
        walk_row(r, i, &live_bytes);
    }
    for (uint32_t n = 0; n < r->run.value_count; n++) {
        r->slots[n].live = false;
    }
    const uint64_t peak_bytes = r->peak_bytes;
    r->peak_bytes = 0; /* if the reservation fails, psi_exec_run_free() must release nothing */
    st = psi_exec_reserve(r->ops, peak_bytes, err);
    r->peak_bytes = st == PS_OK ? peak_bytes : 0;
    return st;
}

ps_status psi_exec_answer_fits(const struct psi_exec_run *r, struct psi_err *err)
{
    uint64_t bytes = PSI_RUN_ANSWER_BYTES_MAX;
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->run.output_count; i++) {
        const struct psi_run_output *out = &r->run.outputs[i];
        const bool is_known = r->types[out->value].dtype != PS_STRING || r->values[out->value].dtype != PS_DTYPE_NONE;
        if (out->to == PSI_RUN_TO_ANSWER || out->answers) {
            const uint64_t own =
                r->types[out->value].dtype == PS_STRING ? r->values[out->value].bytes : r->slots[out->value].bytes;
            bytes += PSI_RUN_RESULT_HEAD_BYTES_MAX + (is_known && own < UINT32_MAX ? own : is_known ? UINT32_MAX : 0);
            count++;
        }
    }
    return bytes <= r->out_capacity
               ? PS_OK
               : psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_TOO_LARGE,
                             "%u results of the run have %llu bytes, and an answer has %zu: larger ones go to a variable", count,
                             (unsigned long long)bytes, r->out_capacity);
}

size_t psi_exec_read_bytes(const struct psi_type *type)
{
    const uint64_t elements = (uint64_t)ps_shape_elements(&type->shape);
    return (size_t)(type->dtype == PS_STRING ? psi_blob_bytes_max(elements) : elements * ps_dtype_bytes(type->dtype));
}

/* Set *out_key to the run's key if v is in the container of a session, else to NULL. PERMISSION_DENIED: the container is another
 * session's, and only the session that owns a container may use its variables. */
static ps_status find_key(const struct psi_exec_run *r, const struct psi_run_variable *v, const uint8_t **out_key,
                          struct psi_err *err)
{
    *out_key = NULL;
    if (!psi_container_is_session(v->container)) {
        return PS_OK;
    }
    if (strcmp(v->container, r->run.container) != 0) {
        return psi_fail(err, PS_PERMISSION_DENIED, "variable '%s': container '%s' belongs to another session than this run",
                        v->name, v->container);
    }
    *out_key = r->run.key;
    return PS_OK;
}

static ps_status prepare_move(struct psi_exec_run *r, enum psi_exec_kind kind, const struct psi_run_variable *v, uint32_t value,
                              float scale, struct psi_err *err)
{
    struct psi_exec_transfer *t = &r->moves[r->move_count++];
    const bool own_task = strcmp(v->job, r->ops->job) == 0 && v->task == r->ops->task;
    *t = (struct psi_exec_transfer){.kind = kind,
                                    .variable = v,
                                    .type = &r->types[value],
                                    .scale = scale,
                                    .run = r,
                                    .value = value,
                                    .own_task = own_task && (kind == PSI_EXEC_READ || kind == PSI_EXEC_ASSIGN) &&
                                                r->types[value].dtype != PS_STRING};
    return find_key(r, v, &t->key, err);
}

bool psi_exec_is_output_alone(const struct psi_exec_run *r, uint32_t i)
{
    for (uint32_t k = 0; k < r->run.output_count; k++) {
        if (k != i && r->run.outputs[k].value == r->run.outputs[i].value) {
            return false;
        }
    }
    return r->run.outputs[i].value >= r->run.input_count; /* true: a row makes the value */
}

static bool is_same_variable(const struct psi_run_variable *a, const struct psi_run_variable *b)
{
    return a->task == b->task && strcmp(a->name, b->name) == 0 && strcmp(a->container, b->container) == 0 &&
           strcmp(a->job, b->job) == 0;
}

/* Choose the outputs that get a draft (memory of the server for a variable's new value), and clear own_task of all others. Only
 * the first PSI_EXEC_DRAFTS_MAX are considered, which bounds the comparisons. Several outputs to one variable get no drafts,
 * because the session must deliver them in their order. */
static void choose_drafts(struct psi_exec_run *r)
{
    uint32_t count = 0;
    for (uint32_t i = r->read_count; i < r->move_count; i++) {
        struct psi_exec_transfer *t = &r->moves[i];
        t->own_task = t->own_task && count < PSI_EXEC_DRAFTS_MAX;
        count += t->own_task ? 1 : 0;
        for (uint32_t k = r->read_count; k < r->move_count && t->own_task; k++) {
            t->own_task = k == i || !is_same_variable(r->moves[k].variable, t->variable);
        }
    }
}

static ps_status prepare_moves(struct psi_exec_run *r, struct psi_err *err)
{
    static const enum psi_exec_kind kinds[] = {
        [PSI_RUN_TO_ASSIGN] = PSI_EXEC_ASSIGN, [PSI_RUN_TO_ADD] = PSI_EXEC_ADD, [PSI_RUN_TO_PUSH] = PSI_EXEC_PUSH};
    ps_status st = PS_OK;
    for (uint32_t n = 0; n < r->run.input_count && st == PS_OK; n++) {
        const struct psi_run_input *in = &r->run.inputs[n];
        st = in->from == PSI_RUN_FROM_VARIABLE ? prepare_move(r, PSI_EXEC_READ, &in->variable, n, 1, err) : PS_OK;
    }
    r->read_count = r->move_count;
    for (uint32_t i = 0; i < r->run.output_count && st == PS_OK; i++) {
        const struct psi_run_output *out = &r->run.outputs[i];
        const bool answers = out->to == PSI_RUN_TO_ADD && out->answers;
        st = answers && r->slots[out->value].bytes > PS_RESULT_BYTES_MAX
                 ? psi_fail(err, PS_INVALID_ARGUMENT,
                            "variable '%s': the sum of an addition is given back of at most %d bytes, not %llu",
                            out->variable.name, PS_RESULT_BYTES_MAX, (unsigned long long)r->slots[out->value].bytes)
                 : PS_OK;
        st = st == PS_OK && out->to != PSI_RUN_TO_ANSWER
                 ? prepare_move(r, kinds[out->to], &out->variable, out->value, out->to == PSI_RUN_TO_PUSH ? out->scale : 1, err)
                 : st;
    }
    choose_drafts(r);
    return st;
}

static uint32_t moves_of(const struct psi_run *run)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < run->input_count; n++) {
        count += run->inputs[n].from == PSI_RUN_FROM_VARIABLE ? 1 : 0;
    }
    for (uint32_t i = 0; i < run->output_count; i++) {
        count += run->outputs[i].to != PSI_RUN_TO_ANSWER ? 1 : 0;
    }
    return count;
}

/* Bytes of a run's own memory, without its values. They are reserved, too: a call of 64 KiB may name thousands of values. */
static uint64_t own_bytes_of(const struct psi_exec_run *r)
{
    const struct psi_run *run = &r->run;
    const uint64_t value = sizeof(*r->types) + sizeof(*r->values) + sizeof(*r->slots);
    const uint64_t row = sizeof(*run->rows) + sizeof(*r->row_ops) + sizeof(*r->places);
    return sizeof(*r) + run->value_count * value + run->row_count * row + run->input_count * sizeof(*run->inputs) +
           run->output_count * (sizeof(*run->outputs) + sizeof(*r->results)) +
           moves_of(run) * (sizeof(*r->moves) + PSI_EXEC_ERRAND_BYTES);
}

static ps_status allocate(struct psi_exec_run *r, struct psi_err *err)
{
    const struct psi_run *run = &r->run;
    const uint64_t own_bytes = own_bytes_of(r);
    const ps_status st = psi_exec_reserve(r->ops, own_bytes, err);
    if (st != PS_OK) {
        return st;
    }
    r->own_bytes = own_bytes;
    r->types = psi_calloc(run->value_count, sizeof(*r->types));
    r->values = psi_calloc(run->value_count, sizeof(*r->values));
    r->slots = psi_calloc(run->value_count, sizeof(*r->slots));
    r->row_ops = psi_calloc(run->row_count, sizeof(*r->row_ops));
    r->places = psi_calloc(run->row_count, sizeof(*r->places));
    r->moves = psi_calloc(moves_of(run), sizeof(*r->moves));
    r->results = psi_calloc(run->output_count, sizeof(*r->results));
    if (r->results == NULL || r->types == NULL || r->values == NULL || r->slots == NULL || r->row_ops == NULL ||
        r->places == NULL || r->moves == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for a run of %u rows", run->row_count);
    }
    for (uint32_t n = 0; n < run->input_count; n++) {
        r->types[n] = run->inputs[n].type;
    }
    return PS_OK;
}

ps_status psi_exec_prepare(ps_ops *ops, psd_call *call, const void *in, size_t in_bytes, size_t come, void *out,
                           size_t out_capacity, struct psi_exec_run **out_run, struct psi_err *err)
{
    struct psi_exec_run *r = psi_calloc(1, sizeof(*r));
    if (r == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for a run");
    }
    r->ops = ops;
    r->call = call;
    r->out = out;
    r->out_capacity = out_capacity;
    atomic_init(&r->pending, 0);
    r->awaits = come < in_bytes;
    ps_status st = psi_run_decode_early(in, in_bytes, come, &r->run, err);
    st = st == PS_OK ? allocate(r, err) : st;
    st = st == PS_OK ? prepare_rows(r, err) : st;
    st = st == PS_OK ? reserve(r, err) : st;
    st = st == PS_OK ? prepare_moves(r, err) : st;
    st = st == PS_OK ? psi_exec_answer_fits(r, err) : st;
    if (st != PS_OK) {
        psi_exec_run_free(r);
        return st;
    }
    *out_run = r;
    return PS_OK;
}

void psi_exec_value_memory_free(struct psi_exec_run *r, uint32_t n)
{
    struct psi_exec_slot *slot = &r->slots[n];
    if (slot->memory != NULL) {
        psi_exec_memory_free(r->ops, slot->memory, r->types[n].dtype != PS_STRING ? slot->bytes : 0);
        slot->memory = NULL;
    }
}

void psi_exec_run_free(struct psi_exec_run *r)
{
    if (r == NULL) {
        return;
    }
    for (uint32_t n = 0; r->slots != NULL && n < r->run.value_count; n++) {
        psi_exec_value_memory_free(r, n);
    }
    for (uint32_t i = 0; i < r->move_count; i++) {
        psi_exec_kept_release(&r->moves[i]);
    }
    psi_exec_release(r->ops, r->own_bytes + r->peak_bytes + r->extra_bytes);
    psi_free(r->types);
    psi_free(r->values);
    psi_free(r->slots);
    psi_free(r->row_ops);
    psi_free(r->places);
    psi_free(r->moves);
    psi_free(r->results);
    psi_run_fini(&r->run);
    psi_free(r);
}

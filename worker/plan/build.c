/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the rows (operations) of a plan, each with its inputs, name, device and types.
 *
 * Happy path: a function checks that the inputs are values of the plan, and infers the output types by the operation's rule, as
 * far as they are known (ops.h). It takes name and device from the session's open scopes, and appends the row to the plan.
 * Nothing is sent. Failure modes: INVALID_ARGUMENT, with the row's name if it has one; the plan keeps its first error. */
#include "plan.h"

#include "common/abi.h"
#include "common/blob.h"
#include "common/mem.h"
#include "common/name.h"
#include "common/shape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Make a name that no other row of the plan has: prefix + base, or prefix + base + _1, _2 and so on. The caller frees *out. */
static ps_status name_make(ps_plan *p, const char *prefix, const char *base, char **out, struct psi_err *err)
{
    char name[2 * (PS_NAME_BYTES_MAX + 1) + 16];
    if (strlen(base) > PS_NAME_BYTES_MAX) {
        return psi_variable_name_check(base, strlen(base), err);
    }
    const int full = snprintf(name, sizeof(name), "%s%s", prefix, base);
    uintptr_t next = (uintptr_t)psi_map_find(&p->names, name, (size_t)full);
    int bytes = full;
    while (next > 0) {
        bytes = full + snprintf(name + full, sizeof(name) - (size_t)full, "_%lu", (unsigned long)next++);
        if (psi_map_find(&p->names, name, (size_t)bytes) == NULL) {
            break;
        }
    }
    ps_status st = psi_variable_name_check(name, (size_t)bytes, err);
    if (st == PS_OK && bytes > full) {
        st = psi_map_put(&p->names, name, (size_t)full, (void *)next, NULL, err);
    }
    st = st == PS_OK ? psi_map_put(&p->names, name, (size_t)bytes, (void *)(uintptr_t)1, NULL, err) : st;
    if (st == PS_OK) {
        *out = psi_strndup(name, (size_t)bytes);
        st = *out != NULL ? PS_OK : psi_fail(err, PS_RESOURCE_EXHAUSTED, "row '%s': out of memory", name);
    }
    return st;
}

/* Set the row's name and device from the scopes that the program has entered; a VARIABLE row gets the variable's name. */
static ps_status scopes_ask(ps_plan *p, const struct psi_plan_spec *spec, struct psi_plan_row *row, struct psi_err *err)
{
    char prefix[PS_NAME_BYTES_MAX + 1];
    const char *given = spec->name != NULL && spec->name[0] != '\0' ? spec->name : p->next_name;
    const char *base = given != NULL && given[0] != '\0' ? given : spec->base;
    ps_status st = psi_api_scope_row(p->session, spec->type, spec->device, prefix, &row->device, err);
    if (st == PS_OK && spec->kind == PSI_PLAN_VARIABLE) {
        row->name = psi_strndup(spec->base, strlen(spec->base));
        st = row->name != NULL ? PS_OK : psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory");
    } else if (st == PS_OK) {
        st = name_make(p, prefix, base, &row->name, err);
    }
    if (st != PS_OK) {
        psi_err_prefix(err, "row '%.100s'", base);
        return st;
    }
    (void)psi_device_format(&row->device, row->requested, sizeof(row->requested));
    if (psi_device_is_empty(&row->device)) {
        row->requested[0] = '\0';
    }
    psi_free(p->next_name);
    p->next_name = NULL;
    return PS_OK;
}

void psi_plan_row_free(struct psi_plan_row *row)
{
    if (row != NULL) {
        psi_free(row->inputs);
        psi_free(row->types);
        psi_free(row->name);
        psi_free(row->message);
        psi_free(row->value.data);
        psi_free(row);
    }
}

static struct psi_plan_row *row_alloc(const struct psi_plan_spec *spec)
{
    struct psi_plan_row *row = psi_calloc(1, sizeof(*row));
    if (row == NULL) {
        return NULL;
    }
    row->inputs = psi_calloc(spec->input_count + 1, sizeof(*row->inputs));
    row->types = psi_calloc((size_t)spec->output_count + 1, sizeof(*row->types));
    if (row->inputs == NULL || row->types == NULL) {
        psi_plan_row_free(row);
        return NULL;
    }
    for (size_t i = 0; i < spec->input_count; i++) {
        row->inputs[i] = (struct psi_plan_ref){spec->inputs[i].row, spec->inputs[i].output};
    }
    memcpy(row->types, spec->types, spec->output_count * sizeof(*row->types));
    row->kind = spec->kind;
    row->type = spec->type;
    row->input_count = (uint32_t)spec->input_count;
    row->output_count = spec->output_count;
    return row;
}

ps_status psi_plan_row_new(ps_plan *p, const struct psi_plan_spec *spec, struct psi_plan_row **out_row, struct psi_err *err)
{
    struct psi_plan_row **rows = psi_grow(p->rows, p->row_count, &p->row_capacity, sizeof(*p->rows));
    if (rows == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for row %u", (unsigned)p->row_count);
    }
    p->rows = rows;
    struct psi_plan_row *row = row_alloc(spec);
    if (row == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for row %u", (unsigned)p->row_count);
    }
    ps_status st = scopes_ask(p, spec, row, err);
    if (st != PS_OK) {
        psi_plan_row_free(row);
        return st;
    }
    row->number = p->row_count;
    row->first_value = p->value_count;
    row->replica = p->replica;
    p->rows[p->row_count++] = row;
    p->value_count += row->output_count;
    *out_row = row;
    return PS_OK;
}

static ps_value value_of(ps_plan *p, const struct psi_plan_row *row)
{
    return row != NULL ? (ps_value){.plan = p, .row = row->number} : (ps_value){0};
}

/* The name of a row to which the program gives no name, from its operation's name as in TensorFlow 1.15. */
static const char *base_of(const struct psi_op *op)
{
    static const char *const LOWER[] = {"add", "sub", "mul", "div", "split", "concat", "stack", "dropout"};
    for (size_t i = 0; i < sizeof(LOWER) / sizeof(LOWER[0]); i++) {
        if (strcmp(op->name, LOWER[i]) == 0) {
            return op->name;
        }
    }
    return op->type;
}

static void attrs_take(const ps_row_options *o, const char *message, struct psi_op_attrs *to)
{
    *to = (struct psi_op_attrs){.dtype = o->dtype,
                                .has_axis = o->has_axis,
                                .axis = o->axis,
                                .keep_dims = o->keep_dims,
                                .transpose_a = o->transpose_a,
                                .transpose_b = o->transpose_b,
                                .outputs = o->outputs,
                                .activation = o->activation,
                                .seed = o->seed,
                                .keep = o->keep,
                                .message = message,
                                .first_n = o->first_n,
                                .summarize = o->summarize};
}

static ps_status inputs_check(const ps_plan *p, const ps_value *inputs, size_t count, struct psi_type *types, struct psi_err *err)
{
    for (size_t i = 0; i < count; i++) {
        char what[32];
        (void)snprintf(what, sizeof(what), "input %zu", i);
        ps_status st = psi_plan_value_check(p, inputs[i], what, err);
        if (st != PS_OK) {
            return st;
        }
        types[i] = p->rows[inputs[i].row]->types[inputs[i].output];
        if (types[i].dtype == PS_DTYPE_NONE) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "input %zu is row '%s', which has no result", i,
                            p->rows[inputs[i].row]->name);
        }
    }
    return PS_OK;
}

static ps_status op_find(const char *name, const struct psi_op **out, struct psi_err *err)
{
    const char *nearest = NULL;
    const struct psi_op *op = psi_op_find(name, &nearest);
    const bool made_here = op != NULL && (op->attrs & (PSI_OP_VALUE | PSI_OP_SHAPE)) != 0;
    *out = op;
    if (op != NULL && !made_here) {
        return PS_OK;
    }
    if (made_here) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "operation '%s': call ps_plan_%s()", name, name);
    }
    return psi_fail(err, PS_INVALID_ARGUMENT, "there is no operation '%.60s'%s%s%s", name,
                    nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
}

static ps_status options_take(const ps_row_options *from, ps_row_options *to, struct psi_err *err)
{
    ps_row_options_init(to);
    ps_status st = from != NULL ? psi_struct_take(from, to, sizeof(*to), "ps_row_options_init", err) : PS_OK;
    const size_t bytes = st == PS_OK && to->message != NULL ? strlen(to->message) : 0;
    if (bytes > PSI_OP_MESSAGE_BYTES_MAX) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "a message of %zu bytes, at most %d", bytes, PSI_OP_MESSAGE_BYTES_MAX);
    }
    return st;
}

struct types {
    struct psi_type in[PSI_OP_INPUTS_MAX], out[PSI_OP_OUTPUTS_MAX];
};

static ps_status op_row(ps_plan *p, const char *operation, const ps_value *inputs, size_t input_count,
                        const ps_row_options *given, size_t out_count, struct types *types, struct psi_plan_row **out_row,
                        struct psi_err *err)
{
    const struct psi_op *op = NULL;
    ps_row_options o;
    struct psi_op_attrs attrs;
    uint32_t outputs = 0;
    ps_status st = op_find(operation, &op, err);
    if (st != PS_OK) {
        return st;
    }
    st = options_take(given, &o, err);
    if (st == PS_OK && input_count > op->inputs_max) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "%zu inputs, it takes at most %d", input_count, op->inputs_max);
    }
    st = st == PS_OK ? inputs_check(p, inputs, input_count, types->in, err) : st;
    if (st != PS_OK) {
        psi_err_prefix(err, "%s", operation);
        return st;
    }
    attrs_take(&o, o.message, &attrs);
    st = psi_op_infer(op, &attrs, types->in, (uint32_t)input_count, types->out, &outputs, err);
    if (st == PS_OK && out_count > outputs) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "%s: it has %u outputs, %zu are asked for", operation, (unsigned)outputs,
                      out_count);
    }
    char *message = st == PS_OK && o.message != NULL ? psi_strndup(o.message, strlen(o.message)) : NULL;
    if (st == PS_OK && o.message != NULL && message == NULL) {
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: out of memory", operation);
    }
    if (st != PS_OK) {
        return st;
    }
    const struct psi_plan_spec spec = {.kind = PSI_PLAN_OP,
                                       .name = o.name,
                                       .base = base_of(op),
                                       .type = psi_op_type(op, input_count > 0 ? types->in[0].dtype : types->out[0].dtype),
                                       .device = o.device,
                                       .inputs = inputs,
                                       .input_count = input_count,
                                       .types = types->out,
                                       .output_count = outputs};
    st = psi_plan_row_new(p, &spec, out_row, err);
    if (st != PS_OK) {
        psi_free(message);
        return st;
    }
    (*out_row)->op = op;
    (*out_row)->message = message;
    attrs_take(&o, message, &(*out_row)->attrs);
    return PS_OK;
}

ps_value ps_plan_row(ps_plan *p, const char *operation, const ps_value *inputs, size_t input_count, const ps_row_options *options,
                     ps_value *outs, size_t out_count)
{
    struct psi_err err = {0};
    struct psi_plan_row *row = NULL;
    for (size_t i = 0; outs != NULL && i < out_count; i++) {
        outs[i] = (ps_value){0};
    }
    if (!psi_plan_enter(p)) {
        return (ps_value){0};
    }
    struct types *types = psi_calloc(1, sizeof(*types));
    ps_status st = types != NULL ? PS_OK : psi_fail(&err, PS_RESOURCE_EXHAUSTED, "out of memory");
    if (operation == NULL || (inputs == NULL && input_count > 0) || (outs == NULL && out_count > 0)) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "ps_plan_row: operation, inputs or outs is NULL");
    }
    st = st == PS_OK ? op_row(p, operation, inputs, input_count, options, out_count, types, &row, &err) : st;
    psi_free(types);
    for (size_t i = 0; st == PS_OK && i < out_count; i++) {
        outs[i] = (ps_value){.plan = p, .row = row->number, .output = (uint32_t)i};
    }
    return psi_plan_leave(p, value_of(p, row), &err);
}

ps_plan *ps_plan_name(ps_plan *p, const char *name)
{
    struct psi_err err = {0};
    if (!psi_plan_enter(p)) {
        return p;
    }
    psi_free(p->next_name);
    p->next_name = name != NULL ? psi_strndup(name, strlen(name)) : NULL;
    if (name != NULL && p->next_name == NULL) {
        PSI_IGNORE(psi_fail(&err, PS_RESOURCE_EXHAUSTED, "ps_plan_name: out of memory")); /* the plan keeps the error */
    }
    (void)psi_plan_leave(p, (ps_value){0}, &err);
    return p;
}

ps_value ps_plan_placeholder(ps_plan *p, const char *name, ps_dtype dtype, ps_shape shape)
{
    struct psi_err err = {0};
    struct psi_type type;
    uint32_t count = 0;
    struct psi_plan_row *row = NULL;
    if (!psi_plan_enter(p)) {
        return (ps_value){0};
    }
    const struct psi_op *op = psi_op_find("placeholder", NULL);
    const struct psi_op_attrs attrs = {.dtype = dtype, .shape = shape};
    ps_status st = psi_op_infer(op, &attrs, NULL, 0, &type, &count, &err);
    const struct psi_plan_spec spec = {
        .kind = PSI_PLAN_PLACEHOLDER, .name = name, .base = op->type, .type = op->type, .types = &type, .output_count = 1};
    st = st == PS_OK ? psi_plan_row_new(p, &spec, &row, &err) : st;
    if (st == PS_OK) {
        row->attrs = attrs;
    }
    return psi_plan_leave(p, value_of(p, row), &err);
}

static ps_status const_row(ps_plan *p, ps_dtype dtype, const ps_shape *shape, const void *data, size_t bytes,
                           struct psi_plan_row **out, struct psi_err *err)
{
    const struct psi_op *op = psi_op_find("const", NULL);
    struct psi_type type;
    uint32_t count = 0;
    ps_status st = psi_variable_check(dtype, shape, false, err);
    const int64_t elements = st == PS_OK ? ps_shape_elements(shape) : 0;
    if (st == PS_OK && dtype != PS_STRING && bytes != (size_t)elements * ps_dtype_bytes(dtype)) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "a constant of %zu bytes, its shape has %zu", bytes,
                      (size_t)elements * ps_dtype_bytes(dtype));
    }
    if (st == PS_OK && dtype == PS_STRING && elements != 1) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "a constant of %lld strings: one is possible", (long long)elements);
    }
    if (st == PS_OK && bytes > 0 && data == NULL) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "data is NULL");
    }
    for (size_t i = 0; st == PS_OK && dtype == PS_BOOL && i < bytes; i++) {
        const unsigned value = ((const uint8_t *)data)[i];
        st = value <= 1 ? PS_OK : psi_fail(err, PS_INVALID_ARGUMENT, "element %zu is %u, a bool is 0 or 1", i, value);
    }
    const size_t head = dtype == PS_STRING ? 2 * sizeof(int64_t) : 0;
    struct psi_value value = {.dtype = dtype, .shape = *shape, .bytes = head + bytes};
    if (st == PS_OK && value.bytes > 0) {
        value.data = psi_aligned_calloc(PSI_PLAN_ALIGN, value.bytes);
        st = value.data != NULL ? PS_OK : psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu bytes", bytes);
    }
    if (st != PS_OK) {
        psi_err_prefix(err, "ps_plan_const");
        return st;
    }
    if (dtype == PS_STRING) {
        const int64_t offsets[2] = {0, (int64_t)bytes};
        memcpy(value.data, offsets, sizeof(offsets));
    }
    if (bytes > 0) {
        memcpy((uint8_t *)value.data + head, data, bytes);
    }
    const struct psi_op_attrs attrs = {.value = &value};
    st = psi_op_infer(op, &attrs, NULL, 0, &type, &count, err);
    const struct psi_plan_spec spec = {
        .kind = PSI_PLAN_CONST, .base = op->type, .type = op->type, .types = &type, .output_count = 1};
    st = st == PS_OK ? psi_plan_row_new(p, &spec, out, err) : st;
    if (st != PS_OK) {
        psi_free(value.data);
        return st;
    }
    (*out)->value = value;
    return PS_OK;
}

ps_value ps_plan_const(ps_plan *p, ps_dtype dtype, ps_shape shape, const void *data, size_t bytes)
{
    struct psi_err err = {0};
    struct psi_plan_row *row = NULL;
    if (!psi_plan_enter(p)) {
        return (ps_value){0};
    }
    PSI_IGNORE(const_row(p, dtype, &shape, data, bytes, &row, &err)); /* psi_plan_leave() makes err the plan's error */
    return psi_plan_leave(p, value_of(p, row), &err);
}

ps_value ps_plan_text(ps_plan *p, const char *text)
{
    return ps_plan_const(p, PS_STRING, PS_SCALAR, text, text != NULL ? strlen(text) : 1);
}

ps_value ps_plan_scalar(ps_plan *p, ps_dtype dtype, double number)
{
    struct psi_err err = {0};
    struct psi_plan_row *row = NULL;
    uint64_t room = 0;
    if (!psi_plan_enter(p)) {
        return (ps_value){0};
    }
    const ps_shape shape = PS_SCALAR;
    const struct psi_value from = {.dtype = PS_F64, .shape = shape, .data = &number, .bytes = sizeof(number)};
    struct psi_value to = {.dtype = dtype, .data = &room, .bytes = ps_dtype_bytes(dtype)};
    ps_status st = to.bytes > 0
                       ? psi_value_feed("ps_plan_scalar", &from, &to, &err)
                       : psi_fail(&err, PS_INVALID_ARGUMENT, "ps_plan_scalar: %s holds no numbers", ps_dtype_name(dtype));
    if (st == PS_OK) {
        PSI_IGNORE(const_row(p, dtype, &shape, &room, to.bytes, &row, &err)); /* the plan keeps the error */
    }
    return psi_plan_leave(p, value_of(p, row), &err);
}

static ps_status variable_check(const ps_plan *p, const ps_variable *v, struct psi_err *err)
{
    if (v == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the variable is NULL");
    }
    return v->session == p->session
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "variable '%s' belongs to another session than the plan", v->name);
}

ps_value ps_plan_variable(ps_plan *p, ps_variable *v)
{
    struct psi_err err = {0};
    struct psi_plan_row *row = NULL;
    if (!psi_plan_enter(p)) {
        return (ps_value){0};
    }
    ps_status st = variable_check(p, v, &err);
    if (st == PS_OK) {
        const struct psi_type type = {v->dtype, v->shape};
        /* TensorFlow reads variables by operations of type "Identity", which device setters do not move: so do reads in a plan */
        const struct psi_plan_spec spec = {
            .kind = PSI_PLAN_VARIABLE, .base = v->name, .type = "Identity", .types = &type, .output_count = 1};
        st = psi_plan_row_new(p, &spec, &row, &err);
    }
    if (st == PS_OK) {
        row->variable = v;
        (void)snprintf(row->requested, sizeof(row->requested), "%s", v->requested);
        (void)snprintf(row->assigned, sizeof(row->assigned), "%s", v->device);
    }
    return psi_plan_leave(p, value_of(p, row), &err);
}

ps_status psi_plan_fits_check(const ps_variable *v, const struct psi_type *type, const char *call, struct psi_err *err)
{
    char have[PSI_TYPE_TEXT_MAX], want[PSI_TYPE_TEXT_MAX];
    const struct psi_type of = {v->dtype, v->shape};
    bool fits = type->dtype == v->dtype && type->shape.rank == v->shape.rank;
    for (uint32_t d = 0; fits && d < v->shape.rank; d++) {
        fits = type->shape.dims[d] == PSI_DIM_UNKNOWN || type->shape.dims[d] == v->shape.dims[d];
    }
    return fits ? PS_OK
                : psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_SHAPE_MISMATCH, "%s: the value is %s, variable '%s' is %s",
                              call, psi_type_format(type, have, sizeof(have)), v->name, psi_type_format(&of, want, sizeof(want)));
}

static ps_value change_row(ps_plan *p, enum psi_plan_kind kind, const char *call, const char *type, ps_variable *v,
                           ps_value value, float scale)
{
    struct psi_err err = {0};
    struct psi_plan_row *row = NULL;
    struct psi_type in = {.dtype = PS_DTYPE_NONE};
    if (!psi_plan_enter(p)) {
        return (ps_value){0};
    }
    ps_status st = variable_check(p, v, &err);
    st = st == PS_OK ? inputs_check(p, &value, 1, &in, &err) : st;
    if (st == PS_OK && kind == PSI_PLAN_PUSH && !(isfinite(scale) && scale > 0)) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "scale %g is not finite and above 0", (double)scale);
    }
    if (st == PS_OK && kind != PSI_PLAN_ASSIGN && (v->dtype == PS_BOOL || v->dtype == PS_STRING)) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "variable '%s' holds %s", v->name, ps_dtype_name(v->dtype));
    }
    if (st != PS_OK) {
        psi_err_prefix(&err, "%s", call);
    } else {
        st = psi_plan_fits_check(v, &in, call, &err);
    }
    if (st == PS_OK) {
        const bool result = kind == PSI_PLAN_ASSIGN || (kind == PSI_PLAN_ADD && v->bytes <= PS_RESULT_BYTES_MAX);
        const struct psi_type out = {result ? v->dtype : PS_DTYPE_NONE, result ? v->shape : (ps_shape){0}};
        const struct psi_plan_spec spec = {
            .kind = kind, .base = type, .type = type, .inputs = &value, .input_count = 1, .types = &out, .output_count = 1};
        st = psi_plan_row_new(p, &spec, &row, &err);
    }
    if (st == PS_OK) {
        row->variable = v;
        row->scale = scale;
        (void)snprintf(row->assigned, sizeof(row->assigned), "%s", v->device);
    }
    return psi_plan_leave(p, value_of(p, row), &err);
}

ps_value ps_plan_assign(ps_plan *p, ps_variable *v, ps_value value)
{
    return change_row(p, PSI_PLAN_ASSIGN, "ps_plan_assign", "Assign", v, value, 0);
}

ps_value ps_plan_assign_add(ps_plan *p, ps_variable *v, ps_value value)
{
    return change_row(p, PSI_PLAN_ADD, "ps_plan_assign_add", "AssignAdd", v, value, 0);
}

ps_value ps_plan_push(ps_plan *p, ps_variable *v, ps_value gradient, float scale)
{
    return change_row(p, PSI_PLAN_PUSH, "ps_plan_push", "ApplyGradient", v, gradient, scale);
}

ps_value ps_plan_group(ps_plan *p, const ps_value *values, size_t count)
{
    struct psi_err err = {0};
    struct psi_plan_row *row = NULL;
    if (!psi_plan_enter(p)) {
        return (ps_value){0};
    }
    ps_status st = values != NULL || count == 0 ? PS_OK : psi_fail(&err, PS_INVALID_ARGUMENT, "values is NULL");
    for (size_t i = 0; i < count && st == PS_OK; i++) {
        char what[32];
        (void)snprintf(what, sizeof(what), "value %zu", i);
        st = psi_plan_value_check(p, values[i], what, &err);
    }
    if (st != PS_OK) {
        psi_err_prefix(&err, "ps_plan_group");
    } else {
        const struct psi_type none = {.dtype = PS_DTYPE_NONE};
        const struct psi_plan_spec spec = {.kind = PSI_PLAN_GROUP,
                                           .base = "group_deps",
                                           .type = "NoOp",
                                           .inputs = values,
                                           .input_count = count,
                                           .types = &none,
                                           .output_count = 1};
        PSI_IGNORE(psi_plan_row_new(p, &spec, &row, &err)); /* the plan keeps the error */
    }
    return psi_plan_leave(p, value_of(p, row), &err);
}

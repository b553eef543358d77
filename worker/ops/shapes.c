/* SPDX-License-Identifier: Apache-2.0 */
/* Rules by which dtypes and shapes of outputs follow from the inputs, for each row of the table of operations (table.c). An
 * unknown dimension (-1) fits any, and dimensions computed from it are unknown. Failure mode: INVALID_ARGUMENT that shows all
 * inputs and names the sizes that do not fit. */
#include "rows.h"

#include "common/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct psi_around psi_around_axis(const ps_shape *shape, uint32_t axis)
{
    struct psi_around a = {1, 1, 1};
    for (uint32_t d = 0; d < shape->rank; d++) {
        *(d < axis ? &a.outer : d == axis ? &a.count : &a.inner) *= shape->dims[d];
    }
    return a;
}

ps_status psi_op_size_check(const struct psi_op *op, const struct psi_type *in, uint32_t in_count, const struct psi_type *out,
                            struct psi_err *err)
{
    ps_shape known = out->shape;
    for (uint32_t d = 0; d < known.rank && d < PS_RANK_MAX; d++) {
        known.dims[d] = known.dims[d] == PSI_DIM_UNKNOWN ? 1 : known.dims[d];
    }
    struct psi_err why = {0};
    const ps_status st = psi_shape_check(&known, &why);
    return st == PS_OK ? PS_OK : psi_op_misfit(op, in, in_count, err, "%s", why.text);
}

ps_status psi_op_axis(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                      uint32_t rank, uint32_t *out, struct psi_err *err)
{
    const int64_t given = attrs->has_axis ? attrs->axis : 0;
    const int64_t axis = given < 0 ? given + rank : given;
    if (rank == 0) {
        return psi_op_misfit(op, in, in_count, err, "a scalar has no axis");
    }
    if (axis < 0 || axis >= rank) {
        return psi_op_misfit(op, in, in_count, err, "there is no axis %" PRId64 ", allowed is -%" PRIu32 " to %" PRIu32, given,
                             rank, rank - 1);
    }
    *out = (uint32_t)axis;
    return PS_OK;
}

/* Set out[0] and *out_count for an operation with one output of this type. Fails if the output would be too large. */
static ps_status one(const struct psi_op *op, const struct psi_type *in, uint32_t in_count, const struct psi_type *type,
                     struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    const ps_status st = psi_op_size_check(op, in, in_count, type, err);
    if (st == PS_OK) {
        out[0] = *type;
        *out_count = 1;
    }
    return st;
}

ps_status psi_infer_const(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                          struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    const struct psi_value *value = attrs->value;
    if (value == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: it has no value", op->name);
    }
    const struct psi_type type = {value->dtype, value->shape};
    if ((unsigned)type.dtype > PS_STRING || (op->dtypes & (1u << type.dtype)) == 0) {
        return psi_op_misfit(op, &type, 1, err, "a constant is float32, float64, int32, int64, bool or string");
    }
    return one(op, in, in_count, &type, out, out_count, err);
}

ps_status psi_infer_placeholder(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                                uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    const struct psi_type type = {attrs->dtype, attrs->shape};
    if ((unsigned)type.dtype > PS_STRING || (op->dtypes & (1u << type.dtype)) == 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: dtype %s; a placeholder is float32, float64, int32, int64, bool or string",
                        op->name, ps_dtype_name(type.dtype));
    }
    return one(op, in, in_count, &type, out, out_count, err);
}

ps_status psi_infer_same(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                         struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    (void)attrs;
    return one(op, in, in_count, &in[0], out, out_count, err);
}

ps_status psi_infer_print(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                          struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    const size_t bytes = attrs->message != NULL ? strlen(attrs->message) : 0;
    if (bytes > PSI_OP_MESSAGE_BYTES_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: a message of %zu bytes, at most %d are allowed", op->name, bytes,
                        PSI_OP_MESSAGE_BYTES_MAX);
    }
    return one(op, in, in_count, &in[0], out, out_count, err);
}

ps_status psi_infer_cast(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                         struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    if ((unsigned)attrs->dtype > PS_STRING || (op->dtypes & (1u << attrs->dtype)) == 0) {
        return psi_op_misfit(op, in, in_count, err, "to %s; allowed is float32, float64, int32 and int64",
                             ps_dtype_name(attrs->dtype));
    }
    return one(op, in, in_count, &(struct psi_type){attrs->dtype, in[0].shape}, out, out_count, err);
}

ps_status psi_infer_broadcast(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                              uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    (void)attrs;
    const ps_shape *a = &in[0].shape, *b = &in[1].shape;
    struct psi_type type = {in[0].dtype, {.rank = a->rank > b->rank ? a->rank : b->rank}};
    for (uint32_t back = 1; back <= type.shape.rank; back++) { /* dimensions are compared from the last one on */
        const int64_t x = back <= a->rank ? a->dims[a->rank - back] : 1;
        const int64_t y = back <= b->rank ? b->dims[b->rank - back] : 1;
        if (x != 1 && y != 1 && !psi_dims_agree(x, y)) {
            return psi_op_misfit(op, in, in_count, err,
                                 "sizes of %" PRId64 " and %" PRId64 " in dimension -%" PRIu32
                                 "; they must be the same, or one of them 1",
                                 x, y, back);
        }
        type.shape.dims[type.shape.rank - back] = x == 1 ? y : y == 1 ? x : psi_dim_of(x, y);
    }
    return one(op, in, in_count, &type, out, out_count, err);
}

ps_status psi_infer_matmul(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                           uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    const ps_shape *a = &in[0].shape, *b = &in[1].shape;
    if (a->rank != 2 || b->rank != 2) {
        return psi_op_misfit(op, in, in_count, err, "both must have two dimensions");
    }
    const int64_t columns = a->dims[attrs->transpose_a ? 0 : 1];
    const int64_t rows = b->dims[attrs->transpose_b ? 1 : 0];
    if (!psi_dims_agree(columns, rows)) {
        return psi_op_misfit(op, in, in_count, err, "%" PRId64 " columns%s and %" PRId64 " rows%s", columns,
                             attrs->transpose_a ? " (of a transposed)" : "", rows,
                             attrs->transpose_b ? " (of b transposed)" : "");
    }
    const struct psi_type type = {
        in[0].dtype, {.rank = 2, .dims = {a->dims[attrs->transpose_a ? 1 : 0], b->dims[attrs->transpose_b ? 0 : 1]}}};
    return one(op, in, in_count, &type, out, out_count, err);
}

ps_status psi_infer_softmax(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                            uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    (void)attrs;
    if (in[0].shape.rank == 0) {
        return psi_op_misfit(op, in, in_count, err, "a scalar has no last axis");
    }
    return one(op, in, in_count, &in[0], out, out_count, err);
}

static void drop_axis(ps_shape *shape, uint32_t axis, bool keep)
{
    if (keep) {
        shape->dims[axis] = 1;
        return;
    }
    for (uint32_t d = axis; d + 1 < shape->rank; d++) {
        shape->dims[d] = shape->dims[d + 1];
    }
    shape->rank--;
    shape->dims[shape->rank] = 0;
}

ps_status psi_infer_reduce(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                           uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    struct psi_type type = in[0];
    if (!attrs->has_axis) {
        type.shape = (ps_shape){.rank = attrs->keep_dims ? in[0].shape.rank : 0};
        for (uint32_t d = 0; d < type.shape.rank; d++) {
            type.shape.dims[d] = 1;
        }
        return one(op, in, in_count, &type, out, out_count, err);
    }
    uint32_t axis = 0;
    const ps_status st = psi_op_axis(op, attrs, in, in_count, type.shape.rank, &axis, err);
    if (st != PS_OK) {
        return st;
    }
    drop_axis(&type.shape, axis, attrs->keep_dims);
    return one(op, in, in_count, &type, out, out_count, err);
}

ps_status psi_infer_argmax(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                           uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    struct psi_type type = {PS_I64, in[0].shape};
    uint32_t axis = 0;
    const ps_status st = psi_op_axis(op, attrs, in, in_count, type.shape.rank, &axis, err);
    if (st != PS_OK) {
        return st;
    }
    if (type.shape.dims[axis] == 0) {
        return psi_op_misfit(op, in, in_count, err, "axis %" PRIu32 " has no elements, so none is the largest", axis);
    }
    drop_axis(&type.shape, axis, false);
    return one(op, in, in_count, &type, out, out_count, err);
}

ps_status psi_infer_split(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                          struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    struct psi_type part = in[0];
    const uint32_t parts = attrs->outputs;
    uint32_t axis = 0;
    const ps_status st = psi_op_axis(op, attrs, in, in_count, part.shape.rank, &axis, err);
    if (st != PS_OK) {
        return st;
    }
    if (parts < 1 || parts > PSI_OP_OUTPUTS_MAX) {
        return psi_op_misfit(op, in, in_count, err, "into %" PRIu32 " parts, allowed is 1 to %d", parts, PSI_OP_OUTPUTS_MAX);
    }
    int64_t *size = &part.shape.dims[axis];
    if (*size != PSI_DIM_UNKNOWN && *size % parts != 0) {
        return psi_op_misfit(op, in, in_count, err,
                             "axis %" PRIu32 " has %" PRId64 " elements, which %" PRIu32 " equal parts cannot share", axis, *size,
                             parts);
    }
    *size = *size == PSI_DIM_UNKNOWN ? *size : *size / parts;
    for (uint32_t i = 0; i < parts; i++) {
        out[i] = part;
    }
    *out_count = parts;
    return PS_OK;
}

/* Check that all inputs agree in all dimensions but `without` (PS_RANK_MAX: in all dimensions). *out: their common shape; a size
 * is known there if any input knows it. */
static ps_status all_agree(const struct psi_op *op, const struct psi_type *in, uint32_t in_count, uint32_t without, ps_shape *out,
                           struct psi_err *err)
{
    *out = in[0].shape;
    for (uint32_t i = 1; i < in_count; i++) {
        if (in[i].shape.rank != out->rank) {
            return psi_op_misfit(op, in, in_count, err, "input %" PRIu32 " has rank %" PRIu32 ", input 0 has %" PRIu32, i,
                                 in[i].shape.rank, out->rank);
        }
        for (uint32_t d = 0; d < out->rank; d++) {
            if (d != without && !psi_dims_agree(in[i].shape.dims[d], out->dims[d])) {
                return psi_op_misfit(op, in, in_count, err,
                                     "dimension %" PRIu32 " of input %" PRIu32 " is %" PRId64
                                     ", that of the inputs before it %" PRId64,
                                     d, i, in[i].shape.dims[d], out->dims[d]);
            }
            out->dims[d] = psi_dim_of(out->dims[d], in[i].shape.dims[d]);
        }
    }
    return PS_OK;
}

ps_status psi_infer_concat(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in,
                           uint32_t in_count, struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    struct psi_type type = in[0];
    uint32_t axis = 0;
    ps_status st = psi_op_axis(op, attrs, in, in_count, type.shape.rank, &axis, err);
    st = st == PS_OK ? all_agree(op, in, in_count, axis, &type.shape, err) : st;
    if (st != PS_OK) {
        return st;
    }
    int64_t size = 0;
    for (uint32_t i = 0; i < in_count && size != PSI_DIM_UNKNOWN; i++) {
        const int64_t more = in[i].shape.dims[axis];
        if (more == PSI_DIM_UNKNOWN || __builtin_add_overflow(size, more, &size)) {
            size = more == PSI_DIM_UNKNOWN ? PSI_DIM_UNKNOWN : INT64_MAX;
            break;
        }
    }
    type.shape.dims[axis] = size;
    return one(op, in, in_count, &type, out, out_count, err);
}

ps_status psi_infer_stack(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                          struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    struct psi_type type = in[0];
    uint32_t axis = 0;
    ps_status st = all_agree(op, in, in_count, PS_RANK_MAX, &type.shape, err);
    st = st == PS_OK ? psi_op_axis(op, attrs, in, in_count, type.shape.rank + 1, &axis, err) : st;
    if (st != PS_OK) {
        return st;
    }
    if (type.shape.rank == PS_RANK_MAX) {
        return psi_op_misfit(op, in, in_count, err, "the result would have more than %d dimensions", PS_RANK_MAX);
    }
    for (uint32_t d = type.shape.rank; d > axis; d--) {
        type.shape.dims[d] = type.shape.dims[d - 1];
    }
    type.shape.dims[axis] = in_count;
    type.shape.rank++;
    return one(op, in, in_count, &type, out, out_count, err);
}

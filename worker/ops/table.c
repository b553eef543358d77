/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operations, and the checks that all its rows share: arity, dtypes, sizes in bytes. Happy path: psi_op_infer()
 * checks the inputs by the row, then calls the row's infer(); psi_op_run() infers, compares with the given values, and calls the
 * row's run(). Failure modes: INVALID_ARGUMENT before any data is touched; errors of run() about data. */
#include "rows.h"

#include "common/blob.h"
#include "common/mem.h"
#include "common/near.h"
#include "common/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BIT(dtype) (1u << (dtype))
#define FLOATS (BIT(PS_F32) | BIT(PS_F64))
#define INTEGERS (BIT(PS_I32) | BIT(PS_I64))
#define NUMBERS (FLOATS | INTEGERS)
#define ANY (NUMBERS | BIT(PS_BOOL) | BIT(PS_STRING))

/* clang-format off: each row is a paragraph */
static const struct psi_op table[] = {
    {.name = "const",
     .type = "Const",
     .dtypes = ANY,
     .attrs = PSI_OP_VALUE,
     .reference = "the value",
     .infer = psi_infer_const,
     .run = psi_run_const},
    {.name = "placeholder",
     .type = "Placeholder",
     .dtypes = ANY,
     .attrs = PSI_OP_DTYPE | PSI_OP_SHAPE,
     .reference = "the value that is fed",
     .infer = psi_infer_placeholder,
     .run = psi_run_placeholder},
    {.name = "identity",
     .type = "Identity",
     .inputs_min = 1,
     .inputs_max = 1,
     .dtypes = ANY,
     .in_place = 1,
     .reference = "x",
     .infer = psi_infer_same,
     .run = psi_run_identity},
    {.name = "cast",
     .type = "Cast",
     .inputs_min = 1,
     .inputs_max = 1,
     .dtypes = NUMBERS,
     .attrs = PSI_OP_DTYPE,
     .integers = "of floats: cut towards 0; NaN and what the dtype cannot hold is INVALID_ARGUMENT",
     .reference = "x.astype(dtype)",
     .infer = psi_infer_cast,
     .run = psi_run_cast},
    {.name = "add",
     .type = "Add",
     .inputs_min = 2,
     .inputs_max = 2,
     .dtypes = NUMBERS,
     .in_place = 3,
     .integers = "wrap",
     .reference = "a + b",
     .infer = psi_infer_broadcast,
     .run = psi_run_add},
    {.name = "sub",
     .type = "Sub",
     .inputs_min = 2,
     .inputs_max = 2,
     .dtypes = NUMBERS,
     .in_place = 3,
     .integers = "wrap",
     .reference = "a - b",
     .infer = psi_infer_broadcast,
     .run = psi_run_sub},
    {.name = "mul",
     .type = "Mul",
     .inputs_min = 2,
     .inputs_max = 2,
     .dtypes = NUMBERS,
     .in_place = 3,
     .integers = "wrap",
     .reference = "a * b",
     .infer = psi_infer_broadcast,
     .run = psi_run_mul},
    {.name = "div",
     .type = "RealDiv",
     .type_integers = "FloorDiv",
     .inputs_min = 2,
     .inputs_max = 2,
     .dtypes = NUMBERS,
     .in_place = 3,
     .integers = "rounded down: -7 / 2 is -4; by 0 is INVALID_ARGUMENT; the least one by -1 wraps",
     .reference = "a / b; of integers a // b",
     .infer = psi_infer_broadcast,
     .run = psi_run_div},
    {.name = "matmul",
     .type = "MatMul",
     .inputs_min = 2,
     .inputs_max = 2,
     .dtypes = NUMBERS,
     .attrs = PSI_OP_TRANSPOSE,
     .bound = PSI_BOUND_PRODUCT,
     .bound_factor = 1,
     .integers = "wrap",
     .reference = "a @ b",
     .infer = psi_infer_matmul,
     .run = psi_run_matmul},
    {.name = "relu",
     .type = "Relu",
     .inputs_min = 1,
     .inputs_max = 1,
     .dtypes = NUMBERS,
     .in_place = 1,
     .reference = "maximum(x, 0)",
     .infer = psi_infer_same,
     .run = psi_run_relu},
    {.name = "sigmoid",
     .type = "Sigmoid",
     .inputs_min = 1,
     .inputs_max = 1,
     .dtypes = FLOATS,
     .in_place = 1,
     .bound = PSI_BOUND_RESULT,
     .bound_factor = 4,
     .reference = "1 / (1 + exp(-x))",
     .infer = psi_infer_same,
     .run = psi_run_sigmoid},
    {.name = "tanh",
     .type = "Tanh",
     .inputs_min = 1,
     .inputs_max = 1,
     .dtypes = FLOATS,
     .in_place = 1,
     .bound = PSI_BOUND_RESULT,
     .bound_factor = 4,
     .reference = "tanh(x)",
     .infer = psi_infer_same,
     .run = psi_run_tanh},
    {.name = "softmax",
     .type = "Softmax",
     .inputs_min = 1,
     .inputs_max = 1,
     .dtypes = FLOATS,
     .in_place = 1,
     .bound = PSI_BOUND_RESULT,
     .bound_factor = 4,
     .reference = "e / e.sum(-1, keepdims=True), e = exp(x - x.max(-1, keepdims=True))",
     .infer = psi_infer_softmax,
     .run = psi_run_softmax},
    {.name = "reduce_sum",
     .type = "Sum",
     .inputs_min = 1,
     .inputs_max = 1,
     .dtypes = NUMBERS,
     .attrs = PSI_OP_AXIS | PSI_OP_KEEP_DIMS,
     .bound = PSI_BOUND_TERMS,
     .bound_factor = 1,
     .integers = "wrap; the dtype stays",
     .reference = "x.sum(axis, dtype=x.dtype)",
     .infer = psi_infer_reduce,
     .run = psi_run_reduce_sum},
    {.name = "reduce_mean",
     .type = "Mean",
     .inputs_min = 1,
     .inputs_max = 1,
     .dtypes = NUMBERS,
     .attrs = PSI_OP_AXIS | PSI_OP_KEEP_DIMS,
     .bound = PSI_BOUND_TERMS,
     .bound_factor = 1,
     .integers = "the exact mean cut towards 0; of no elements INVALID_ARGUMENT; the dtype stays",
     .reference = "x.mean(axis)",
     .infer = psi_infer_reduce,
     .run = psi_run_reduce_mean},
    {.name = "argmax",
     .type = "ArgMax",
     .inputs_min = 1,
     .inputs_max = 1,
     .dtypes = NUMBERS,
     .attrs = PSI_OP_AXIS,
     .reference = "x.argmax(axis), int64: the first one, of NaNs the first NaN",
     .infer = psi_infer_argmax,
     .run = psi_run_argmax},
    {.name = "split",
     .type = "Split",
     .inputs_min = 1,
     .inputs_max = 1,
     .dtypes = NUMBERS,
     .attrs = PSI_OP_AXIS | PSI_OP_OUTPUTS,
     .reference = "split(x, outputs, axis)",
     .infer = psi_infer_split,
     .run = psi_run_split},
    {.name = "concat",
     .type = "ConcatV2",
     .inputs_min = 1,
     .inputs_max = PSI_OP_INPUTS_MAX,
     .dtypes = NUMBERS,
     .attrs = PSI_OP_AXIS,
     .reference = "concatenate(inputs, axis)",
     .infer = psi_infer_concat,
     .run = psi_run_concat},
    {.name = "stack",
     .type = "Pack",
     .inputs_min = 1,
     .inputs_max = PSI_OP_INPUTS_MAX,
     .dtypes = NUMBERS,
     .attrs = PSI_OP_AXIS,
     .reference = "stack(inputs, axis)",
     .infer = psi_infer_stack,
     .run = psi_run_concat},
    {.name = "print",
     .type = "Print",
     .inputs_min = 1,
     .inputs_max = PSI_OP_INPUTS_MAX,
     .dtypes = ANY,
     .own_dtypes = 1,
     .attrs = PSI_OP_PRINT,
     .in_place = 1,
     .reference = "x",
     .infer = psi_infer_print,
     .run = psi_run_print},
    {.name = "relu_backward",
     .type = "ReluGrad",
     .inputs_min = 2,
     .inputs_max = 2,
     .dtypes = BIT(PS_F32),
     .in_place = 3,
     .reference = "where(y <= 0, 0, dy)",
     .infer = psi_infer_alike,
     .run = psi_run_relu_backward},
    {.name = "sigmoid_backward",
     .type = "SigmoidGrad",
     .inputs_min = 2,
     .inputs_max = 2,
     .dtypes = BIT(PS_F32),
     .in_place = 3,
     .bound = PSI_BOUND_RESULT,
     .bound_factor = 2,
     .reference = "dy * (y * (1 - y))",
     .infer = psi_infer_alike,
     .run = psi_run_sigmoid_backward},
    {.name = "tanh_backward",
     .type = "TanhGrad",
     .inputs_min = 2,
     .inputs_max = 2,
     .dtypes = BIT(PS_F32),
     .in_place = 3,
     .bound = PSI_BOUND_RESULT,
     .bound_factor = 2,
     .reference = "dy * ((1 - y) * (1 + y))",
     .infer = psi_infer_alike,
     .run = psi_run_tanh_backward},
    {.name = "dense",
     .type = "Dense",
     .inputs_min = 2,
     .inputs_max = 3,
     .dtypes = BIT(PS_F32),
     .bound = PSI_BOUND_PRODUCT,
     .bound_factor = 1,
     .reference = "x @ w + b",
     .infer = psi_infer_dense,
     .run = psi_run_dense},
    {.name = "dense_backward",
     .type = "DenseGrad",
     .inputs_min = 3,
     .inputs_max = 3,
     .dtypes = BIT(PS_F32),
     .attrs = PSI_OP_OUTPUTS,
     .bound = PSI_BOUND_PRODUCT,
     .bound_factor = 1,
     .reference = "dw = x.T @ dy, db = dy.sum(0), dx = dy @ w.T",
     .infer = psi_infer_dense_backward,
     .run = psi_run_dense_backward},
    {.name = "dense_act",
     .type = "DenseAct",
     .inputs_min = 2,
     .inputs_max = 3,
     .dtypes = BIT(PS_F32),
     .attrs = PSI_OP_ACTIVATION,
     .bound = PSI_BOUND_PRODUCT,
     .bound_factor = 1,
     .reference = "act(x @ w + b)",
     .infer = psi_infer_dense,
     .run = psi_run_dense},
    {.name = "dense_act_backward",
     .type = "DenseActGrad",
     .inputs_min = 3,
     .inputs_max = 3,
     .dtypes = BIT(PS_F32),
     .attrs = PSI_OP_OUTPUTS | PSI_OP_ACTIVATION,
     .bound = PSI_BOUND_PRODUCT,
     .bound_factor = 1,
     .reference = "dw = x.T @ dy, db = dy.sum(0), dx = (dy @ w.T) * act'(x), x the result of act",
     .infer = psi_infer_dense_backward,
     .run = psi_run_dense_backward},
    {.name = "softmax_xent",
     .type = "SparseSoftmaxCrossEntropyWithLogits",
     .inputs_min = 2,
     .inputs_max = 2,
     .dtypes = BIT(PS_F32),
     .own_dtypes = 1,
     .attrs = PSI_OP_OUTPUTS,
     .bound = PSI_BOUND_TERMS,
     .bound_factor = 8,
     .reference = "loss = -log(softmax(logits)[label]).mean(), float64; dlogits = (softmax(logits) - onehot(labels)) / B",
     .infer = psi_infer_softmax_xent,
     .run = psi_run_softmax_xent},
    {.name = "mean_squared_error",
     .type = "MeanSquaredError",
     .inputs_min = 2,
     .inputs_max = 2,
     .dtypes = BIT(PS_F32),
     .attrs = PSI_OP_OUTPUTS,
     .bound = PSI_BOUND_TERMS,
     .bound_factor = 4,
     .reference = "loss = ((x - t) ** 2).mean(), float64; dx = 2 * (x - t) / x.size",
     .infer = psi_infer_loss,
     .run = psi_run_mean_squared_error},
    {.name = "mean_absolute_error",
     .type = "MeanAbsoluteError",
     .inputs_min = 2,
     .inputs_max = 2,
     .dtypes = BIT(PS_F32),
     .attrs = PSI_OP_OUTPUTS,
     .bound = PSI_BOUND_TERMS,
     .bound_factor = 4,
     .reference = "loss = abs(x - t).mean(), float64; dx = sign(x - t) / x.size",
     .infer = psi_infer_loss,
     .run = psi_run_mean_absolute_error},
    {.name = "sigmoid_xent",
     .type = "SigmoidCrossEntropyWithLogits",
     .inputs_min = 2,
     .inputs_max = 2,
     .dtypes = BIT(PS_F32),
     .attrs = PSI_OP_OUTPUTS,
     .bound = PSI_BOUND_TERMS,
     .bound_factor = 4,
     .reference = "loss = (maximum(x, 0) - x * t + log1p(exp(-abs(x)))).mean(), float64; dx = (1 / (1 + exp(-x)) - t) / x.size",
     .infer = psi_infer_loss,
     .run = psi_run_sigmoid_xent},
    {.name = "gelu",
     .type = "Gelu",
     .inputs_min = 1,
     .inputs_max = 1,
     .dtypes = BIT(PS_F32),
     .in_place = 1,
     .bound = PSI_BOUND_TERMS,
     .bound_factor = 4,
     .reference = "x * (1 + erf(x / sqrt(2))) / 2",
     .infer = psi_infer_alike,
     .run = psi_run_gelu},
    {.name = "gelu_backward",
     .type = "GeluGrad",
     .inputs_min = 2,
     .inputs_max = 2,
     .dtypes = BIT(PS_F32),
     .in_place = 3,
     .bound = PSI_BOUND_TERMS,
     .bound_factor = 4,
     .reference = "dy * ((1 + erf(x / sqrt(2))) / 2 + x * exp(-x ** 2 / 2) / sqrt(2 * pi)), x the input of gelu",
     .infer = psi_infer_alike,
     .run = psi_run_gelu_backward},
    {.name = "dropout",
     .type = "Dropout",
     .inputs_min = 1,
     .inputs_max = 1,
     .dtypes = BIT(PS_F32),
     .attrs = PSI_OP_DROPOUT,
     .in_place = 1,
     .reference = "where(kept, x * (1 / keep), 0), kept a function of seed, step and the element's index",
     .infer = psi_infer_dropout,
     .run = psi_run_dropout},
};
/* clang-format on */

const struct psi_op *psi_op_at(size_t i)
{
    return i < sizeof(table) / sizeof(table[0]) ? &table[i] : NULL;
}

const struct psi_op *psi_op_find(const char *name, const char **out_nearest)
{
    const char *nearest = NULL;
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(table[i].name, name) == 0) {
            return &table[i];
        }
    }
    for (size_t i = 0; out_nearest != NULL && i < sizeof(table) / sizeof(table[0]); i++) {
        const size_t distance = psi_near(name, table[i].name);
        if (distance < least) {
            least = distance;
            nearest = table[i].name;
        }
    }
    if (out_nearest != NULL) {
        *out_nearest = nearest;
    }
    return NULL;
}

const char *psi_op_type(const struct psi_op *op, ps_dtype dtype)
{
    const bool integer = dtype == PS_I32 || dtype == PS_I64;
    return integer && op->type_integers != NULL ? op->type_integers : op->type;
}

static ps_status arity_check(const struct psi_op *op, uint32_t in_count, struct psi_err *err)
{
    if (in_count >= op->inputs_min && in_count <= op->inputs_max) {
        return PS_OK;
    }
    if (op->inputs_min == op->inputs_max) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: %" PRIu32 " inputs, it takes %d", op->name, in_count, op->inputs_min);
    }
    return psi_fail(err, PS_INVALID_ARGUMENT, "%s: %" PRIu32 " inputs, it takes %d to %d", op->name, in_count, op->inputs_min,
                    op->inputs_max);
}

static const char *dtypes_format(uint32_t dtypes, char *buf, size_t n)
{
    size_t used = 0;
    buf[0] = '\0';
    for (ps_dtype d = PS_F32; d <= PS_STRING && used < n; d = (ps_dtype)(d + 1)) {
        if ((dtypes & BIT(d)) != 0) {
            used += (size_t)snprintf(buf + used, n - used, "%s%s", used > 0 ? " " : "", ps_dtype_name(d));
        }
    }
    return buf;
}

static ps_status input_check(const struct psi_op *op, const struct psi_type *in, uint32_t in_count, uint32_t i,
                             struct psi_err *err)
{
    char text[96];
    if (in[i].shape.rank > PS_RANK_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: input %" PRIu32 " has rank %" PRIu32 ", at most %d are allowed", op->name,
                        i, in[i].shape.rank, PS_RANK_MAX);
    }
    for (uint32_t d = 0; d < in[i].shape.rank; d++) {
        if (in[i].shape.dims[d] < PSI_DIM_UNKNOWN) {
            return psi_op_misfit(op, in, in_count, err, "dimension %" PRIu32 " of input %" PRIu32 " is negative", d, i);
        }
    }
    const bool free = op->own_dtypes != 0 && i >= op->own_dtypes; /* op->infer() checks this input */
    const bool known = (unsigned)in[i].dtype <= PS_STRING;
    if (!known || (!free && (op->dtypes & BIT(in[i].dtype)) == 0)) {
        return psi_op_misfit(op, in, in_count, err, "it takes %s", dtypes_format(op->dtypes, text, sizeof(text)));
    }
    if (!free && in[i].dtype != in[0].dtype) {
        return psi_op_misfit(op, in, in_count, err, "the dtypes must be the same; cast makes another one");
    }
    return psi_op_size_check(op, in, in_count, &in[i], err);
}

ps_status psi_op_infer(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t in_count,
                       struct psi_type *out, uint32_t *out_count, struct psi_err *err)
{
    ps_status st = arity_check(op, in_count, err);
    for (uint32_t i = 0; i < in_count && st == PS_OK; i++) {
        st = input_check(op, in, in_count, i, err);
    }
    return st == PS_OK ? op->infer(op, attrs, in, in_count, out, out_count, err) : st;
}

size_t psi_op_output_bytes(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_value *in,
                           uint32_t in_count, const struct psi_type *out, uint32_t index)
{
    (void)index;
    if (out->dtype != PS_STRING) {
        return (size_t)ps_shape_elements(&out->shape) * ps_dtype_bytes(out->dtype);
    }
    const struct psi_value *from = (op->attrs & PSI_OP_VALUE) != 0 ? attrs->value : in_count > 0 ? &in[0] : NULL;
    return from != NULL ? from->bytes : 0;
}

/* Check that v's dimensions are known, that it has memory, and that it has the bytes of its shape (strings: see blob_check()). */
static ps_status value_check(const struct psi_op *op, const char *what, uint32_t i, const struct psi_value *v,
                             struct psi_err *err)
{
    const int64_t elements = ps_shape_elements(&v->shape);
    if (elements < 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: %s %" PRIu32 " has a dimension that is not known", op->name, what, i);
    }
    if (v->bytes > 0 && v->data == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: %s %" PRIu32 " has no data", op->name, what, i);
    }
    if (v->dtype == PS_STRING) {
        return PS_OK;
    }
    const size_t bytes = (size_t)elements * ps_dtype_bytes(v->dtype);
    return v->bytes == bytes ? PS_OK
                             : psi_fail(err, PS_INVALID_ARGUMENT, "%s: %s %" PRIu32 " has %zu bytes, its shape has %zu", op->name,
                                        what, i, v->bytes, bytes);
}

static ps_status blob_check(const struct psi_op *op, uint32_t i, const struct psi_value *v, struct psi_err *err)
{
    if (v->dtype != PS_STRING) {
        return PS_OK;
    }
    const uint64_t elements = (uint64_t)ps_shape_elements(&v->shape);
    const ps_status st = elements <= PS_STRING_ELEMENTS_MAX
                             ? psi_blob_check(v->data, v->bytes, elements, err)
                             : psi_fail(err, PS_INVALID_ARGUMENT, "%" PRIu64 " strings, at most %zu are allowed", elements,
                                        PS_STRING_ELEMENTS_MAX);
    if (st != PS_OK) {
        psi_err_prefix(err, "%s: input %" PRIu32, op->name, i);
    }
    return st;
}

static ps_status run_checked(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_op_context *ctx,
                             const struct psi_value *in, uint32_t in_count, struct psi_value *out, uint32_t out_count,
                             struct psi_type *types, struct psi_err *err)
{
    struct psi_type *in_types = types, *out_types = types + PSI_OP_INPUTS_MAX;
    uint32_t expected = 0;
    ps_status st = arity_check(op, in_count, err);
    for (uint32_t i = 0; i < in_count && st == PS_OK; i++) {
        in_types[i] = (struct psi_type){in[i].dtype, in[i].shape};
        /* psi_op_infer() below refuses a rank that is too large */
        st = in[i].shape.rank <= PS_RANK_MAX ? value_check(op, "input", i, &in[i], err) : PS_OK;
    }
    st = st == PS_OK ? psi_op_infer(op, attrs, in_types, in_count, out_types, &expected, err) : st;
    for (uint32_t i = 0; i < in_count && st == PS_OK; i++) {
        st = blob_check(op, i, &in[i], err);
    }
    if (st == PS_OK && out_count != expected) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: room for %" PRIu32 " outputs, it has %" PRIu32, op->name, out_count,
                        expected);
    }
    for (uint32_t i = 0; i < out_count && st == PS_OK; i++) {
        char wanted[PSI_TYPE_TEXT_MAX], given[PSI_TYPE_TEXT_MAX];
        const struct psi_type type = {out[i].dtype, out[i].shape};
        if (type.dtype != out_types[i].dtype || !psi_shape_equal(&type.shape, &out_types[i].shape)) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "%s: room for %s as output %" PRIu32 ", which is %s", op->name,
                            psi_type_format(&type, given, sizeof(given)), i,
                            psi_type_format(&out_types[i], wanted, sizeof(wanted)));
        }
        st = value_check(op, "output", i, &out[i], err);
        if (st == PS_OK && out[i].bytes != psi_op_output_bytes(op, attrs, in, in_count, &out_types[i], i)) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "%s: room of %zu bytes for output %" PRIu32, op->name, out[i].bytes, i);
        }
    }
    st = st == PS_OK ? psi_op_go_on(op, ctx, err) : st;
    return st == PS_OK ? op->run(op, attrs, ctx, in, in_count, out, out_count, err) : st;
}

ps_status psi_op_run(const struct psi_op *op, const struct psi_op_attrs *attrs, const struct psi_op_context *ctx,
                     const struct psi_value *in, uint32_t in_count, struct psi_value *out, uint32_t out_count,
                     struct psi_err *err)
{
    struct psi_type *types = psi_malloc(((size_t)PSI_OP_INPUTS_MAX + PSI_OP_OUTPUTS_MAX) * sizeof(*types));
    if (types == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: no memory", op->name);
    }
    const ps_status st = run_checked(op, attrs, ctx, in, in_count, out, out_count, types, err);
    psi_free(types);
    return st;
}

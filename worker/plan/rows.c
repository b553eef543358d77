/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of ps_plan.h that add a row of one certain operation to a plan, such as ps_plan_add(), by ps_plan_row(). */
#include "plan.h"

static ps_value unary(ps_plan *p, const char *op, ps_value x)
{
    return ps_plan_row(p, op, &x, 1, NULL, NULL, 0);
}

static ps_value binary(ps_plan *p, const char *op, ps_value a, ps_value b)
{
    const ps_value inputs[2] = {a, b};
    return ps_plan_row(p, op, inputs, 2, NULL, NULL, 0);
}

static ps_value along(ps_plan *p, const char *op, const ps_value *xs, size_t count, int axis, bool keep_dims)
{
    ps_row_options o;
    ps_row_options_init(&o);
    o.has_axis = true;
    o.axis = axis;
    o.keep_dims = keep_dims;
    return ps_plan_row(p, op, xs, count, &o, NULL, 0);
}

#define UNARY(name)                                                                                                              \
    ps_value ps_plan_##name(ps_plan *p, ps_value x)                                                                              \
    {                                                                                                                            \
        return unary(p, #name, x);                                                                                               \
    }
#define BINARY(name, a, b)                                                                                                       \
    ps_value ps_plan_##name(ps_plan *p, ps_value a, ps_value b)                                                                  \
    {                                                                                                                            \
        return binary(p, #name, a, b);                                                                                           \
    }

UNARY(identity)
UNARY(relu)
UNARY(sigmoid)
UNARY(tanh)
UNARY(softmax)
UNARY(reduce_sum)
UNARY(reduce_mean)
BINARY(add, a, b)
BINARY(sub, a, b)
BINARY(mul, a, b)
BINARY(div, a, b)
BINARY(matmul, a, b)
BINARY(relu_backward, y, dy)
BINARY(sigmoid_backward, y, dy)
BINARY(tanh_backward, y, dy)

ps_value ps_plan_cast(ps_plan *p, ps_value x, ps_dtype dtype)
{
    ps_row_options o;
    ps_row_options_init(&o);
    o.dtype = dtype;
    return ps_plan_row(p, "cast", &x, 1, &o, NULL, 0);
}

ps_value ps_plan_reduce_sum_axis(ps_plan *p, ps_value x, int axis, bool keep_dims)
{
    return along(p, "reduce_sum", &x, 1, axis, keep_dims);
}

ps_value ps_plan_reduce_mean_axis(ps_plan *p, ps_value x, int axis, bool keep_dims)
{
    return along(p, "reduce_mean", &x, 1, axis, keep_dims);
}

ps_value ps_plan_argmax(ps_plan *p, ps_value x, int axis)
{
    return along(p, "argmax", &x, 1, axis, false);
}

ps_value ps_plan_concat(ps_plan *p, const ps_value *xs, size_t count, int axis)
{
    return along(p, "concat", xs, count, axis, false);
}

ps_value ps_plan_stack(ps_plan *p, const ps_value *xs, size_t count)
{
    return along(p, "stack", xs, count, 0, false);
}

ps_value ps_plan_split(ps_plan *p, ps_value x, int axis, uint32_t parts, ps_value *outs)
{
    ps_row_options o;
    ps_row_options_init(&o);
    o.has_axis = true;
    o.axis = axis;
    o.outputs = parts;
    return ps_plan_row(p, "split", &x, 1, &o, outs, parts);
}

ps_value ps_plan_print(ps_plan *p, ps_value x, const ps_value *data, size_t count, const char *message)
{
    ps_value inputs[1 + PSI_OP_INPUTS_MAX] = {x};
    ps_row_options o;
    ps_row_options_init(&o);
    o.message = message;
    for (size_t i = 0; data != NULL && i < count && i < PSI_OP_INPUTS_MAX; i++) {
        inputs[1 + i] = data[i];
    }
    return ps_plan_row(p, "print", data != NULL || count == 0 ? inputs : NULL, 1 + count, &o, NULL, 0);
}

ps_value ps_plan_dense(ps_plan *p, ps_value x, ps_value w, ps_value b)
{
    const ps_value inputs[3] = {x, w, b};
    return ps_plan_row(p, "dense", inputs, 3, NULL, NULL, 0);
}

ps_value ps_plan_dense_act(ps_plan *p, ps_value x, ps_value w, ps_value b, uint32_t activation)
{
    const ps_value inputs[3] = {x, w, b};
    ps_row_options o;
    ps_row_options_init(&o);
    o.activation = activation;
    return ps_plan_row(p, "dense_act", inputs, 3, &o, NULL, 0);
}

ps_value ps_plan_dense_backward(ps_plan *p, ps_value x, ps_value w, ps_value dy, uint32_t count, ps_value *outs)
{
    const ps_value inputs[3] = {x, w, dy};
    ps_row_options o;
    ps_row_options_init(&o);
    o.outputs = count;
    return ps_plan_row(p, "dense_backward", inputs, 3, &o, outs, count);
}

ps_value ps_plan_dense_act_backward(ps_plan *p, ps_value x, uint32_t activation, ps_value w, ps_value dy, uint32_t count,
                                    ps_value *outs)
{
    const ps_value inputs[3] = {x, w, dy};
    ps_row_options o;
    ps_row_options_init(&o);
    o.outputs = count;
    o.activation = activation;
    return ps_plan_row(p, "dense_act_backward", inputs, 3, &o, outs, count);
}

ps_value ps_plan_softmax_xent(ps_plan *p, ps_value logits, ps_value labels, uint32_t count, ps_value *outs)
{
    const ps_value inputs[2] = {logits, labels};
    ps_row_options o;
    ps_row_options_init(&o);
    o.outputs = count;
    return ps_plan_row(p, "softmax_xent", inputs, 2, &o, outs, count);
}

ps_value ps_plan_dropout(ps_plan *p, ps_value x, uint64_t seed, float keep)
{
    ps_row_options o;
    ps_row_options_init(&o);
    o.seed = seed;
    o.keep = keep;
    return ps_plan_row(p, "dropout", &x, 1, &o, NULL, 0);
}

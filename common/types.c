/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of ps_types.h: dtypes, shapes and constructors. A constructor with arguments writes the next of 16 structs of its
 * thread; fields without an argument get the standard values of the optimizer's row. Nothing can fail. */
#include "ps_types.h"

#include "optimizer.h"

#include <string.h>

enum { SLOT_COUNT = 16 };

static _Thread_local union slot {
    ps_initializer init;
    ps_optimizer opt;
} slots[SLOT_COUNT];
static _Thread_local unsigned int slot_next;

static union slot *next_slot(void)
{
    union slot *slot = &slots[slot_next % SLOT_COUNT];
    slot_next++;
    memset(slot, 0, sizeof(*slot));
    return slot;
}

ps_shape ps_shape_of(int64_t d0, int64_t d1, int64_t d2, int64_t d3, int64_t d4, int64_t d5, int64_t d6, int64_t d7)
{
    const int64_t dims[PS_RANK_MAX] = {d0, d1, d2, d3, d4, d5, d6, d7};
    ps_shape shape = {0};
    while (shape.rank < PS_RANK_MAX && dims[shape.rank] != PS_SHAPE_END) {
        shape.dims[shape.rank] = dims[shape.rank];
        shape.rank++;
    }
    return shape;
}

const char *ps_dtype_name(ps_dtype dtype)
{
    switch (dtype) {
    case PS_DTYPE_NONE:
        return "none";
    case PS_F32:
        return "float32";
    case PS_F64:
        return "float64";
    case PS_I32:
        return "int32";
    case PS_I64:
        return "int64";
    case PS_BOOL:
        return "bool";
    case PS_F16:
        return "float16";
    case PS_BF16:
        return "bfloat16";
    case PS_I8:
        return "int8";
    case PS_U8:
        return "uint8";
    case PS_STRING:
        return "string";
    }
    return "invalid";
}

size_t ps_dtype_bytes(ps_dtype dtype)
{
    switch (dtype) {
    case PS_F32:
    case PS_I32:
        return 4;
    case PS_F64:
    case PS_I64:
        return 8;
    case PS_F16:
    case PS_BF16:
        return 2;
    case PS_BOOL:
    case PS_I8:
    case PS_U8:
        return 1;
    case PS_STRING:
    case PS_DTYPE_NONE:
        break;
    }
    return 0;
}

int64_t ps_shape_elements(const ps_shape *shape)
{
    if (shape == NULL || shape->rank > PS_RANK_MAX) {
        return -1;
    }
    int64_t elements = 1;
    bool overflow = false;
    bool zero = false;
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] < 0) {
            return -1;
        }
        zero = zero || shape->dims[i] == 0;
        overflow = overflow || __builtin_mul_overflow(elements, shape->dims[i], &elements);
    }
    if (zero) {
        return 0; /* even if the product of the other dimensions overflows */
    }
    return overflow ? -1 : elements;
}

const ps_initializer *ps_zeros(void)
{
    static const ps_initializer zeros = {.kind = PS_INIT_ZEROS};
    return &zeros;
}

const ps_initializer *ps_ones(void)
{
    static const ps_initializer ones = {.kind = PS_INIT_ONES};
    return &ones;
}

static const ps_initializer *make_init(ps_init_kind kind, double a, double b)
{
    ps_initializer *init = &next_slot()->init;
    *init = (ps_initializer){.kind = (uint32_t)kind, .a = a, .b = b};
    return init;
}

static const ps_initializer *make_by_fans(ps_init_kind kind, ps_fan fan)
{
    ps_initializer *init = &next_slot()->init;
    *init = (ps_initializer){.kind = (uint32_t)kind, .fan = (uint32_t)fan};
    return init;
}

const ps_initializer *ps_glorot(ps_fan fan)
{
    return make_by_fans(PS_INIT_GLOROT_UNIFORM, fan);
}

const ps_initializer *ps_he_normal(ps_fan fan)
{
    return make_by_fans(PS_INIT_HE_NORMAL, fan);
}

const ps_initializer *ps_he_uniform(ps_fan fan)
{
    return make_by_fans(PS_INIT_HE_UNIFORM, fan);
}

const ps_initializer *ps_constant(double value)
{
    return make_init(PS_INIT_CONSTANT, value, 0);
}

const ps_initializer *ps_uniform(double low, double high)
{
    return make_init(PS_INIT_UNIFORM, low, high);
}

const ps_initializer *ps_normal(double mean, double stddev)
{
    return make_init(PS_INIT_NORMAL, mean, stddev);
}

const ps_initializer *ps_truncated_normal(double mean, double stddev)
{
    return make_init(PS_INIT_TRUNCATED_NORMAL, mean, stddev);
}

static ps_optimizer *make_opt(ps_opt_kind kind, double learning_rate)
{
    ps_optimizer *opt = &next_slot()->opt;
    *opt = psi_optimizer_standard((uint32_t)kind, &(ps_optimizer){.learning_rate = learning_rate});
    return opt;
}

const ps_optimizer *ps_optimizer_standard(ps_opt_kind kind, double learning_rate)
{
    return make_opt(kind, learning_rate);
}

const ps_optimizer *ps_no_optimizer(void)
{
    static const ps_optimizer none = {.struct_bytes = sizeof(none), .kind = PS_OPT_NONE};
    return &none;
}

const ps_optimizer *ps_sgd(double learning_rate)
{
    return make_opt(PS_OPT_SGD, learning_rate);
}

const ps_optimizer *ps_momentum(double learning_rate, double momentum)
{
    ps_optimizer *opt = make_opt(PS_OPT_MOMENTUM, learning_rate);
    opt->momentum = momentum;
    return opt;
}

const ps_optimizer *ps_nesterov(double learning_rate, double momentum)
{
    ps_optimizer *opt = make_opt(PS_OPT_MOMENTUM, learning_rate);
    opt->momentum = momentum;
    opt->nesterov = 1;
    return opt;
}

const ps_optimizer *ps_adagrad_from(double learning_rate, double initial_accumulator)
{
    ps_optimizer *opt = make_opt(PS_OPT_ADAGRAD, learning_rate);
    opt->initial_accumulator = initial_accumulator;
    return opt;
}

const ps_optimizer *ps_adagrad(double learning_rate)
{
    return make_opt(PS_OPT_ADAGRAD, learning_rate);
}

const ps_optimizer *ps_adam_with(double learning_rate, double beta1, double beta2, double epsilon)
{
    ps_optimizer *opt = make_opt(PS_OPT_ADAM, learning_rate);
    opt->beta1 = beta1;
    opt->beta2 = beta2;
    opt->epsilon = epsilon;
    return opt;
}

const ps_optimizer *ps_adam(double learning_rate)
{
    return make_opt(PS_OPT_ADAM, learning_rate);
}

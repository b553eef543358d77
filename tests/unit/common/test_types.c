/* SPDX-License-Identifier: Apache-2.0 */
/* common/types.c: the functions behind ps_types.h. */
#include "test.h"

#include <pthread.h>

TEST(test_shape_of)
{
    ps_shape s = PS_SHAPE(64, 10);
    assert_int_equal(s.rank, 2);
    assert_int_equal(s.dims[0], 64);
    assert_int_equal(s.dims[1], 10);
    assert_int_equal(s.dims[2], 0);
    s = PS_SCALAR;
    assert_int_equal(s.rank, 0);
    s = PS_SHAPE(1, 2, 3, 4, 5, 6, 7, 8);
    assert_int_equal(s.rank, PS_RANK_MAX);
    assert_int_equal(s.dims[7], 8);
    s = PS_SHAPE(3, PS_SHAPE_END, 5);
    assert_int_equal(s.rank, 1);
    s = PS_SHAPE(0);
    assert_int_equal(s.rank, 1);
    s = PS_SHAPE(-1, 10); /* a size that is not known is no end of the dimensions: the shape would be a scalar's */
    assert_int_equal(s.rank, 2);
    assert_true(s.dims[0] == -1 && s.dims[1] == 10);
    s = PS_SHAPE(10, -1);
    assert_int_equal(s.rank, 2);
    s = PS_SCALAR;
    assert_int_equal(s.rank, 0);
}

TEST(test_elements)
{
    const ps_shape scalar = PS_SCALAR;
    const ps_shape matrix = PS_SHAPE(64, 10);
    const ps_shape empty = PS_SHAPE(INT64_MAX, INT64_MAX, 0);
    const ps_shape most = PS_SHAPE(INT64_MAX, 1);
    const ps_shape over = PS_SHAPE(INT64_C(1) << 32, INT64_C(1) << 31);
    ps_shape bad = PS_SHAPE(2, 3);
    assert_int_equal(ps_shape_elements(&scalar), 1);
    assert_int_equal(ps_shape_elements(&matrix), 640);
    assert_int_equal(ps_shape_elements(&empty), 0);
    assert_true(ps_shape_elements(&most) == INT64_MAX);
    assert_int_equal(ps_shape_elements(&over), -1);
    bad.dims[1] = -3;
    assert_int_equal(ps_shape_elements(&bad), -1);
    bad.rank = PS_RANK_MAX + 1;
    assert_int_equal(ps_shape_elements(&bad), -1);
}

TEST(test_dtypes)
{
    static const struct {
        ps_dtype dtype;
        const char *name;
        size_t bytes;
    } rows[] = {{PS_DTYPE_NONE, "none", 0}, {PS_F32, "float32", 4}, {PS_F64, "float64", 8},   {PS_I32, "int32", 4},
                {PS_I64, "int64", 8},       {PS_BOOL, "bool", 1},   {PS_F16, "float16", 2},   {PS_BF16, "bfloat16", 2},
                {PS_I8, "int8", 1},         {PS_U8, "uint8", 1},    {PS_STRING, "string", 0}, {(ps_dtype)11, "invalid", 0}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_string_equal(ps_dtype_name(rows[i].dtype), rows[i].name);
        assert_int_equal(ps_dtype_bytes(rows[i].dtype), rows[i].bytes);
    }
}

TEST(test_constructors)
{
    assert_int_equal(ps_zeros()->kind, PS_INIT_ZEROS);
    assert_int_equal(ps_ones()->kind, PS_INIT_ONES);
    assert_int_equal(ps_glorot(PS_FAN_IN_OUT)->kind, PS_INIT_GLOROT_UNIFORM);
    const ps_initializer *torch = ps_he_uniform(PS_FAN_OUT_IN);
    assert_true(torch->kind == PS_INIT_HE_UNIFORM && torch->fan == PS_FAN_OUT_IN);
    assert_int_equal(ps_he_uniform(PS_FAN_IN_OUT)->fan, PS_FAN_IN_OUT); /* another slot: both are there */
    assert_int_equal(torch->fan, PS_FAN_OUT_IN);
    const ps_initializer *init = ps_constant(2.5);
    assert_true(init->kind == PS_INIT_CONSTANT && init->a == 2.5 && init->b == 0 && init->fan == 0);
    init = ps_uniform(-1, 3);
    assert_true(init->kind == PS_INIT_UNIFORM && init->a == -1 && init->b == 3);
    init = ps_normal(1, 2);
    assert_true(init->kind == PS_INIT_NORMAL && init->a == 1 && init->b == 2);
    assert_int_equal(ps_no_optimizer()->kind, PS_OPT_NONE);
    const ps_optimizer *opt = ps_sgd(0.5);
    assert_true(opt->kind == PS_OPT_SGD && opt->learning_rate == 0.5 && opt->momentum == 0);
    opt = ps_momentum(0.5, 0.9);
    assert_true(opt->kind == PS_OPT_MOMENTUM && opt->momentum == 0.9 && opt->nesterov == 0);
    opt = ps_nesterov(0.5, 0.9);
    assert_true(opt->kind == PS_OPT_MOMENTUM && opt->momentum == 0.9 && opt->nesterov == 1);
    opt = ps_adagrad(0.05);
    assert_true(opt->kind == PS_OPT_ADAGRAD && opt->learning_rate == 0.05 && opt->initial_accumulator == 0.1);
    opt = ps_adagrad_from(0.05, 2);
    assert_true(opt->initial_accumulator == 2 && opt->beta1 == 0);
    opt = ps_adam(0.001);
    assert_true(opt->kind == PS_OPT_ADAM && opt->beta1 == 0.9 && opt->beta2 == 0.999 && opt->epsilon == 1e-8);
    opt = ps_adam_with(1, 2, 3, 4);
    assert_true(opt->learning_rate == 1 && opt->beta1 == 2 && opt->beta2 == 3 && opt->epsilon == 4);
}

TEST(test_slots_last_sixteen_calls)
{
    const ps_optimizer *first = ps_sgd(1000);
    for (int i = 1; i <= 15; i++) {
        PSI_IGNORE(ps_constant(i));
        assert_true(first->learning_rate == 1000);
    }
    const ps_optimizer *second = ps_sgd(7);
    assert_ptr_equal(first, second); /* the ring has come round */
}

static void *other_thread(void *arg)
{
    const ps_optimizer **out = arg;
    for (int i = 0; i < 40; i++) {
        *out = ps_sgd(i + 1);
    }
    return NULL;
}

TEST(test_slots_are_per_thread)
{
    const ps_optimizer *mine = ps_adam(0.25);
    const ps_optimizer *theirs = NULL;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &theirs), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_non_null(theirs);
    assert_true(mine->kind == PS_OPT_ADAM && mine->learning_rate == 0.25);
}

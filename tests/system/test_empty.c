/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables, queues and accumulators without elements, (0,) and (2, 0, 3), through real psd processes and the public API: what
 * TensorFlow calls legal, from the creation to a file and back. Memory of no bytes may be NULL.
 */
#include "files_test.h"

#define EMPTY PS_SHAPE(2, 0, 3)

static void check_version(ps_variable *v, uint64_t expected)
{
    uint64_t version = 99;
    bool exact = false;
    good(ps_variable_read_versioned(v, NULL, 0, &version, &exact));
    assert_int_equal(version, expected);
    assert_true(exact);
}

static void test_variables(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    const ps_optimizer *optimizers[] = {NULL, ps_sgd(0.5), ps_momentum(0.5, 0.9), ps_adagrad(0.5), ps_adam(0.5)};
    for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "empty/%zu", i);
        ps_variable *v = get(s, name, PS_F32, EMPTY, optimizers[i]);
        uint64_t version = 0;
        bool exact = false;
        assert_int_equal(ps_variable_bytes(v), 0);
        assert_int_equal(ps_variable_shape(v)->dims[1], 0);
        refused(ps_variable_read(v, NULL, 0), PS_FAILED_PRECONDITION, "UNINITIALIZED");
        good(ps_variable_init(v, false));
        check_version(v, 0);
        good(ps_variable_assign(v, NULL, 0));
        good(ps_variable_assign_add(v, NULL, 0, NULL, 0));
        good(ps_variable_assign_sub(v, "", 0, NULL, 0));
        check_version(v, 3);
        refused(ps_variable_assign(v, "1234", 4), PS_INVALID_ARGUMENT, "4 bytes");
        if (i == 0) {
            refused(ps_variable_push(v, NULL, 0, 1), PS_FAILED_PRECONDITION, "no optimizer");
            continue;
        }
        good(ps_variable_push(v, NULL, 0, 0.5F));
        good(ps_variable_push_pull_versioned(v, NULL, 0, NULL, 0, 1, &version, &exact));
        assert_true(version == 5 && exact);
        check_version(v, 5);
        if (i > 1) {
            good(ps_variable_read_slot(v, 0, NULL, 0));
        }
    }
    ps_variable *v = get(s, "empty/given", PS_I64, PS_SHAPE(0), NULL);
    good(ps_variable_init_from(v, NULL, 0));
    check_version(v, 0);
    v = get(s, "empty/text", PS_STRING, PS_SHAPE(0), NULL);
    char text[4] = "abc";
    size_t offsets[1] = {7}, bytes = 0;
    good(ps_variable_init_strings(v, NULL, NULL, 0));
    good(ps_variable_assign_strings(v, NULL, NULL, 0));
    good(ps_variable_read_strings(v, text, sizeof(text), offsets, 0, &bytes));
    assert_true(text[0] == '\0' && offsets[0] == 0 && bytes == 1);
    assert_int_equal(ps_session_close(s), 0);
}

enum way { PLAIN, NARROW, PREFETCHED, IN_ROUNDS, WAYS };

/* A parameter of a training step beside one that has elements, in each way in which values travel. */
static void test_parameters(void **state)
{
    (void)state;
    for (int way = PLAIN; way < WAYS; way++) {
        char container[32];
        char error[512];
        ps_session *s = NULL;
        ps_session_options o;
        ps_sync_options sync;
        ps_sync_options_init(&sync);
        sync.workers = 1;
        ps_session_options_init(&o);
        (void)snprintf(container, sizeof(container), "way%d", way);
        o.target = cluster.address[0];
        o.job = "worker";
        o.container = container;
        o.operation_timeout_ms = 20000;
        o.log = no_log;
        o.wire_dtype = way == NARROW ? PS_BF16 : PS_DTYPE_NONE;
        o.prefetch = way == PREFETCHED;
        assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_OK);
        if (way == IN_ROUNDS) {
            good(ps_session_sync(s, &sync));
        }
        ps_param *p = ps_param_get(s, "empty", PS_SHAPE(0, 10), ps_glorot(PS_FAN_IN_OUT), ps_adam(1));
        ps_param *one = ps_param_get(s, "one", PS_SHAPE(1), ps_zeros(), ps_sgd(1));
        good(ps_session_ready(s));
        for (int i = 0; i < 3; i++) {
            good(ps_pull(s));
            assert_non_null(ps_param_value(p));
            assert_non_null(ps_param_grad(p));
            ((float *)ps_param_grad(one))[0] = 1;
            good(ps_push(s, p));
            good(ps_push_pull(s, one));
            good(ps_step_done(s));
        }
        assert_int_equal(ps_global_step(s), 3);
        ps_variable *v = NULL;
        good(ps_variable_find(s, "empty", &v));
        check_version(v, 3);
        assert_int_equal(ps_session_close(s), 0);
    }
}

static void test_queues(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_queue_spec spec;
    ps_queue *q = NULL;
    int64_t in[3] = {1, 2, 3}, out[3] = {0};
    uint32_t count = 9;
    ps_queue_spec_init(&spec, "empty/queue", PS_F32, EMPTY);
    good(ps_queue_get(s, &spec, &q));
    good(ps_enqueue(q, PS_FROM({NULL, 0}), 0));
    good(ps_enqueue_many(q, PS_FROM({NULL, 0}), 3, 0, &count));
    assert_int_equal(count, 3);
    good(ps_dequeue(q, PS_INTO({NULL, 0}), 0));
    good(ps_dequeue_many(q, PS_INTO({NULL, 0}), 2, 0));
    good(ps_queue_close(q, false, 0));
    good(ps_dequeue_up_to(q, PS_INTO({NULL, 0}), 5, 0, &count));
    assert_int_equal(count, 1);
    refused(ps_dequeue(q, PS_INTO({NULL, 0}), 0), PS_OUT_OF_RANGE, "closed");
    ps_queue_spec_init(&spec, "empty/beside", PS_F32, EMPTY); /* beside a component that has elements */
    spec.component_count = 2;
    spec.components[1] = (ps_component){.dtype = PS_I64, .shaped = true, .shape = PS_SCALAR};
    spec.kind = PS_QUEUE_RANDOM_SHUFFLE;
    good(ps_queue_get(s, &spec, &q));
    good(ps_enqueue_many(q, PS_FROM({NULL, 0}, {in, sizeof(in)}), 3, 0, NULL));
    good(ps_dequeue_many(q, PS_INTO({NULL, 0}, {out, sizeof(out)}), 3, 0));
    assert_int_equal(out[0] + out[1] + out[2], 6);
    refused(ps_enqueue(q, PS_FROM({NULL, 0}, {NULL, sizeof(in[0])}), 0), PS_INVALID_ARGUMENT,
            "no memory is given for component 1");
    spec.name = "empty/said"; /* of a shape that each element says */
    spec.kind = PS_QUEUE_FIFO;
    spec.component_count = 1;
    spec.components[0].shaped = false;
    good(ps_queue_get(s, &spec, &q));
    ps_tuple *t = ps_tuple_new(q);
    const ps_shape empty = EMPTY;
    ps_shape shape = PS_SCALAR;
    const void *data = NULL;
    size_t bytes = 9;
    good(ps_tuple_put(t, &empty, NULL, 0));
    good(ps_enqueue_tuple(q, t, 0, NULL));
    ps_tuple_clear(t);
    good(ps_dequeue_tuple(q, t, 1, false, 0));
    good(ps_tuple_get(t, 0, 0, &data, &bytes, &shape));
    assert_true(bytes == 0 && shape.rank == 3 && shape.dims[1] == 0);
    ps_tuple_free(t);
    assert_int_equal(ps_session_close(s), 0);
}

static void test_accumulators(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_accumulator *a = NULL;
    bool accepted = false;
    uint64_t count = 0;
    good(ps_accumulator_get(s, "empty/sum", PS_F32, EMPTY, PS_REDUCTION_MEAN, NULL, &a));
    for (int i = 0; i < 3; i++) {
        good(ps_accumulator_apply_grad(a, NULL, 0, 0, 0, &accepted));
        assert_true(accepted);
    }
    good(ps_accumulator_take_grad(a, 2, NULL, 0, 0, &count));
    assert_int_equal(count, 3);
    assert_int_equal(ps_session_close(s), 0);
}

/* To a file with those that have elements, and back into an empty container and over what is there. */
static void test_files(void **state)
{
    (void)state;
    ps_session *s = open_in("files");
    const char *container = "files";
    ps_file_options o;
    ps_file_options_init(&o);
    o.container = container;
    const float two[2] = {1, 2};
    good(ps_variable_init_from(get(s, "a", PS_F32, EMPTY, ps_adam(0.5)), NULL, 0));
    good(ps_variable_init_from(get(s, "b", PS_F32, PS_SHAPE(2), ps_adam(0.5)), two, sizeof(two)));
    good(ps_variable_init_from(get(s, "c", PS_BOOL, PS_SHAPE(0), NULL), NULL, 0));
    good(ps_variable_init_strings(get(s, "d", PS_STRING, PS_SHAPE(0), NULL), NULL, NULL, 0));
    good(ps_export(s, file_path, &o, NULL));
    good(ps_import(s, file_path, &o, NULL)); /* over them */
    good(ps_reset(s));
    assert_int_equal(ps_session_close(s), 0);
    s = open_in(container);
    good(ps_import(s, file_path, &o, NULL));
    ps_variable *v = NULL;
    float back[2] = {0};
    good(ps_variable_find(s, "a", &v));
    assert_int_equal(ps_variable_shape(v)->dims[2], 3);
    check_version(v, 0);
    good(ps_variable_push(v, NULL, 0, 1));
    good(ps_variable_find(s, "b", &v));
    good(ps_variable_read(v, back, sizeof(back)));
    assert_memory_equal(back, two, sizeof(two));
    good(ps_variable_find(s, "c", &v));
    check_version(v, 0);
    good(ps_variable_find(s, "d", &v));
    assert_int_equal(ps_variable_shape(v)->dims[0], 0);
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(unlink(file_path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variables),    cmocka_unit_test(test_parameters), cmocka_unit_test(test_queues),
        cmocka_unit_test(test_accumulators), cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, setup_files, teardown_files);
}

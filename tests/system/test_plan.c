/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans end to end (ps_plan.h): building and its errors, rows in the client itself and on the workers of a cluster, variables in
 * the order of the list.
 */
#include "plan_test.h"

/* ---- in the client ---- */

TEST(rows_without_a_device_run_in_the_client_where_the_target_executes_nothing)
{
    cluster_begin();
    ps_session *s = session_at(0); /* ps 0 */
    ps_plan *p = ps_plan_new(s);
    ps_value sum = ps_plan_add(p, ps_plan_scalar(p, PS_I32, 40), ps_plan_scalar(p, PS_I32, 2));
    int32_t result = 0;
    assert_string_equal(ps_value_name(sum), "add");
    assert_string_equal(ps_value_device(sum), "");
    assert_run(ps_plan_eval(sum, &result, sizeof(result)));
    assert_int_equal(result, 42);
    assert_string_equal(ps_value_device(sum), "client");
    assert_string_equal(ps_value_requested_device(sum), "");
    assert_int_equal(lines.count, 1);
    assert_string_equal(lines.text[0], "add: (Add): client");
    assert_true(runs_of(0) == 0 && runs_of(1) == 0);
}

TEST(a_text_is_given_back)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    ps_plan *p = ps_plan_new(s);
    char text[64];
    assert_run(ps_plan_eval(ps_plan_text(p, "Hello distributed TensorFlow!"), text, sizeof(text)));
    assert_string_equal(text, "Hello distributed TensorFlow!");
    ps_value same = ps_plan_identity(p, ps_plan_text(p, "x"));
    ps_fetched out = {0};
    assert_run(ps_plan_run(p, NULL, 0, &same, 1, &out, NULL));
    assert_true(out.dtype == PS_STRING && out.bytes == 1 && out.offsets[0] == 0 && out.offsets[1] == 1);
    assert_string_equal(out.data, "x");
    assert_refused(ps_plan_eval(same, text, 1), PS_OUT_OF_RANGE, "takes 2 bytes, the buffer has 1");
}

TEST(only_what_the_fetches_need_runs)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    ps_plan *p = ps_plan_new(s);
    ps_value x = ps_plan_placeholder(p, "x", PS_F32, PS_SHAPE(-1));
    ps_value y = ps_plan_placeholder(p, "y", PS_F32, PS_SHAPE(2));
    ps_value sum = ps_plan_reduce_sum(p, x), both = ps_plan_add(p, x, y);
    const float three[3] = {1, 2, 3};
    const ps_feed feed = ps_feed_of(x, PS_F32, PS_SHAPE(3), three, sizeof(three));
    float result = 0;
    ps_fetched out = {.buffer = &result, .buffer_bytes = sizeof(result)};
    assert_run(ps_plan_run(p, &feed, 1, &sum, 1, &out, NULL)); /* y is not fed */
    assert_true(result == 6 && out.bytes == 4 && out.shape.rank == 0);
    assert_refused(ps_plan_run(p, &feed, 1, &both, 1, &out, NULL), PS_INVALID_ARGUMENT,
                   "placeholder 'y', (2,) float32, is not fed");
    assert_int_equal(ps_plan_status(p), PS_OK);
}

TEST(feeds_are_what_the_placeholder_can_hold)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    ps_plan *p = ps_plan_new(s);
    ps_value x = ps_plan_placeholder(p, "input", PS_I32, PS_SHAPE(-1));
    ps_value sum = ps_plan_reduce_sum(p, x);
    double values[3] = {1, 1, 1};
    ps_feed feed = ps_feed_of(x, PS_F64, PS_SHAPE(3), values, sizeof(values));
    ps_fetched out = {0};
    assert_run(ps_plan_run(p, &feed, 1, &sum, 1, &out, NULL));
    assert_true(out.dtype == PS_I32 && *(const int32_t *)out.data == 3);
    values[1] = 1.5;
    assert_refused(ps_plan_run(p, &feed, 1, &sum, 1, &out, NULL), PS_INVALID_ARGUMENT, "placeholder 'input'");
    feed.bytes = 16;
    assert_refused(ps_plan_run(p, &feed, 1, &sum, 1, &out, NULL), PS_INVALID_ARGUMENT, "it is fed 16 bytes");
    feed = ps_feed_of(x, PS_F64, PS_SHAPE(1, 3), values, sizeof(values));
    assert_refused(ps_plan_run(p, &feed, 1, &sum, 1, &out, NULL), PS_INVALID_ARGUMENT, "placeholder 'input'");
    feed = ps_feed_of(sum, PS_I32, PS_SCALAR, values, 4);
    assert_refused(ps_plan_run(p, &feed, 1, &sum, 1, &out, NULL), PS_INVALID_ARGUMENT, "row 'Sum', which is no placeholder");
    feed = ps_feed_of(x, PS_I32, PS_SHAPE(0), NULL, 0);
    assert_run(ps_plan_run(p, &feed, 1, &sum, 1, &out, NULL));
    assert_int_equal(*(const int32_t *)out.data, 0);
    const ps_feed both[2] = {feed, ps_feed_of(x, PS_F64, PS_SHAPE(1), values, 8)};
    assert_refused(ps_plan_run(p, both, 2, &sum, 1, &out, NULL), PS_INVALID_ARGUMENT,
                   "placeholder 'input' is fed twice, by feeds 0 and 1");
    const uint8_t bools[3] = {0, 1, 2};
    ps_value b = ps_plan_placeholder(p, "b", PS_BOOL, PS_SHAPE(-1)), same = ps_plan_identity(p, b);
    feed = ps_feed_of(b, PS_BOOL, PS_SHAPE(2), bools, 2);
    assert_run(ps_plan_run(p, &feed, 1, &same, 1, &out, NULL));
    assert_memory_equal(out.data, bools, 2);
    feed = ps_feed_of(b, PS_BOOL, PS_SHAPE(3), bools, 3);
    assert_refused(ps_plan_run(p, &feed, 1, &same, 1, &out, NULL), PS_INVALID_ARGUMENT,
                   "placeholder 'b' is bool, which cannot hold 2 (element 2)");
    const size_t offsets[3] = {0, 5, 3};
    ps_value t = ps_plan_placeholder(p, "t", PS_STRING, PS_SHAPE(-1)), texts = ps_plan_identity(p, t);
    feed = ps_feed_of(t, PS_STRING, PS_SHAPE(2), "abc", 3);
    feed.offsets = offsets;
    assert_refused(ps_plan_run(p, &feed, 1, &texts, 1, &out, NULL), PS_INVALID_ARGUMENT,
                   "placeholder 't': string 1 begins at byte 5, the one before it at 0, of 3 in all");
}

TEST(what_is_not_computed_can_be_fetched)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    for (int pinned = 0; pinned < 2; pinned++) {
        ps_plan *p = ps_plan_new(s);
        assert_int_equal(ps_device_push(s, pinned ? "/job:worker/task:0" : NULL), PS_OK);
        ps_value x = ps_plan_placeholder(p, "x", PS_I32, PS_SHAPE(-1)), five = ps_plan_scalar(p, PS_I32, 5);
        ps_value sum = ps_plan_add(p, x, five), fetches[5] = {x, five, sum, x, sum};
        assert_int_equal(ps_device_pop(s), PS_OK);
        const int32_t values[2] = {1, INT32_MAX}, sums[2] = {6, INT32_MIN + 4};
        const ps_feed feed = ps_feed_of(x, PS_I32, PS_SHAPE(2), values, sizeof(values));
        ps_fetched outs[5] = {{0}};
        assert_run(ps_plan_run(p, &feed, 1, fetches, 5, outs, NULL));
        assert_true(outs[0].bytes == 8 && outs[3].bytes == 8 && outs[1].bytes == 4 && *(const int32_t *)outs[1].data == 5);
        assert_memory_equal(outs[0].data, values, 8);
        assert_memory_equal(outs[3].data, values, 8);
        assert_memory_equal(outs[2].data, sums, 8);
        assert_memory_equal(outs[4].data, sums, 8);
        assert_run(ps_plan_run(p, NULL, 0, &five, 1, outs, NULL)); /* nothing is fed, nothing runs */
        assert_int_equal(*(const int32_t *)outs[0].data, 5);
        assert_refused(ps_plan_run(p, NULL, 0, &x, 1, outs, NULL), PS_INVALID_ARGUMENT,
                       "placeholder 'x', (?,) int32, is not fed");
        assert_int_equal(runs_of(0), pinned);
    }
}

TEST(errors_of_building_stick_and_name_both_sides)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    struct {
        const char *part;
        int kind;
    } cases[] = {{"there is no operation 'reduce_sun'; did you mean 'reduce_sum'?", 0},
                 {"add: 1 inputs, it takes 2", 1},
                 {"(2, 3) float32 and (4, 5) float32", 2},
                 {"int32", 3},
                 {"is a value of another plan", 4},
                 {"is no value", 5},
                 {"ps_plan_const: a constant of 3 bytes, its shape has 4", 6},
                 {"which has no result", 7},
                 {"the value is (2,) float32, variable 'v' is (3,) float32", 8},
                 {"ps_plan_const: element 1 is 2, a bool is 0 or 1", 9},
                 {"placeholder: shape (9223372036854775807, 2): more than", 10},
                 {"operation 'placeholder': call ps_plan_placeholder()", 11}};
    ps_plan *other = ps_plan_new(s);
    const float three[3] = {0};
    ps_variable *v = variable(s, "v", PS_SHAPE(3), three, ps_sgd(1));
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        ps_plan *p = ps_plan_new(s);
        ps_value a = ps_plan_placeholder(p, NULL, PS_F32, PS_SHAPE(2, 3)),
                 b = ps_plan_placeholder(p, NULL, PS_F32, PS_SHAPE(4, 5));
        ps_value i32 = ps_plan_scalar(p, PS_I32, 1), f32 = ps_plan_scalar(p, PS_F32, 1), made = {0};
        switch (cases[i].kind) {
        case 0:
            made = ps_plan_row(p, "reduce_sun", &a, 1, NULL, NULL, 0);
            break;
        case 1:
            made = ps_plan_row(p, "add", &a, 1, NULL, NULL, 0);
            break;
        case 2:
            made = ps_plan_matmul(p, a, b);
            break;
        case 3:
            made = ps_plan_add(p, i32, f32);
            break;
        case 4:
            made = ps_plan_add(p, f32, ps_plan_scalar(other, PS_F32, 1));
            break;
        case 5:
            made = ps_plan_relu(p, (ps_value){0});
            break;
        case 6:
            made = ps_plan_const(p, PS_F32, PS_SCALAR, "abc", 3);
            break;
        case 7:
            made = ps_plan_relu(p, ps_plan_push(p, v, ps_plan_const(p, PS_F32, PS_SHAPE(3), three, 12), 1));
            break;
        case 8:
            made = ps_plan_assign(p, v, ps_plan_const(p, PS_F32, PS_SHAPE(2), three, 8));
            break;
        case 9:
            made = ps_plan_const(p, PS_BOOL, PS_SHAPE(2), (const uint8_t[]){1, 2}, 2);
            break;
        case 10:
            made = ps_plan_placeholder(p, "x", PS_F32, PS_SHAPE(INT64_MAX, 2));
            break;
        case 11:
            made = ps_plan_row(p, "placeholder", NULL, 0, NULL, NULL, 0);
            break;
        }
        assert_null(made.plan);
        assert_int_equal(ps_plan_status(p), PS_INVALID_ARGUMENT);
        if (strstr(ps_plan_error(p), cases[i].part) == NULL) {
            fail_msg("%s, expected %s", ps_plan_error(p), cases[i].part);
        }
        assert_null(ps_plan_relu(p, a).plan); /* nothing is done any more */
        assert_refused(ps_plan_run(p, NULL, 0, &f32, 1, NULL, NULL), PS_INVALID_ARGUMENT, cases[i].part);
        ps_plan_free(p);
    }
    assert_refused(ps_plan_run(NULL, NULL, 0, NULL, 0, NULL, NULL), PS_INVALID_ARGUMENT, "the plan is NULL");
    ps_value f32 = ps_plan_scalar(other, PS_F32, 1);
    ps_plan *p = ps_plan_new(s);
    assert_refused(ps_plan_run(p, NULL, 0, &f32, 1, NULL, NULL), PS_INVALID_ARGUMENT, "fetch 0 is a value of another plan");
}

TEST(names_are_unique_and_have_the_scopes)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    ps_plan *p = ps_plan_new(s);
    ps_value one = ps_plan_scalar(p, PS_F32, 1);
    assert_string_equal(ps_value_name(one), "Const");
    assert_string_equal(ps_value_name(ps_plan_add(p, one, one)), "add");
    assert_string_equal(ps_value_name(ps_plan_add(p, one, one)), "add_1");
    assert_string_equal(ps_value_name(ps_plan_add(ps_plan_name(p, "add_2"), one, one)), "add_2");
    assert_string_equal(ps_value_name(ps_plan_add(p, one, one)), "add_3");
    assert_string_equal(ps_value_name(ps_plan_matmul(p, ps_plan_placeholder(p, "x", PS_F32, PS_SHAPE(2, 2)),
                                                     ps_plan_placeholder(p, "x", PS_F32, PS_SHAPE(2, 2)))),
                        "MatMul");
    assert_int_equal(ps_variable_scope_push(s, "problem", PS_REUSE_AUTO), PS_OK);
    assert_string_equal(ps_value_name(ps_plan_add(p, one, one)), "problem/add");
    assert_string_equal(ps_value_name(ps_plan_placeholder(p, "x", PS_F32, PS_SCALAR)), "problem/x");
    assert_int_equal(ps_variable_scope_pop(s), PS_OK);
    assert_string_equal(ps_value_name(ps_plan_placeholder(p, "x", PS_F32, PS_SCALAR)), "x_2");
    assert_string_equal(ps_plan_error(p), "");
}

/* ---- variables, in the client ---- */

TEST(variables_are_read_assigned_added_and_pushed)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    const float one = 1, zero = 0;
    ps_variable *x = variable(s, "x", PS_SCALAR, &one, ps_sgd(0.5));
    ps_plan *p = ps_plan_new(s);
    ps_value grown = ps_plan_assign(p, x, ps_plan_add(p, ps_plan_variable(p, x), ps_plan_scalar(p, PS_F32, 1)));
    ps_value added = ps_plan_assign_add(p, x, ps_plan_scalar(p, PS_F32, 10));
    ps_value pushed = ps_plan_push(p, x, ps_plan_scalar(p, PS_F32, 2), 1);
    float result = 0;
    assert_run(ps_plan_eval(grown, &result, sizeof(result)));
    assert_true(result == 2 && read_scalar(x) == 2);
    assert_run(ps_plan_eval(added, &result, sizeof(result)));
    assert_true(result == 12 && read_scalar(x) == 12);
    ps_fetched out = {0};
    assert_run(ps_plan_run(p, NULL, 0, &pushed, 1, &out, NULL));
    assert_true(out.dtype == PS_DTYPE_NONE && out.bytes == 0 && out.data == NULL && read_scalar(x) == 11);
    assert_run(ps_plan_eval(ps_plan_assign(p, x, ps_plan_const(p, PS_F32, PS_SCALAR, &zero, 4)), &result, sizeof(result)));
    assert_true(result == 0 && read_scalar(x) == 0);
}

TEST(reads_see_the_changes_before_them_and_no_others)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    const float one = 1;
    ps_variable *x = variable(s, "x", PS_SCALAR, &one, NULL);
    ps_plan *p = ps_plan_new(s);
    ps_value before = ps_plan_variable(p, x);
    ps_value five = ps_plan_assign(p, x, ps_plan_scalar(p, PS_F32, 5));
    ps_value between = ps_plan_variable(p, x);
    ps_value sum = ps_plan_assign_add(p, x, ps_plan_scalar(p, PS_F32, 10));
    ps_value late = ps_plan_add(p, before, ps_plan_scalar(p, PS_F32, 100)); /* of what was there before the assign */
    ps_value after = ps_plan_mul(p, ps_plan_variable(p, x), ps_plan_scalar(p, PS_F32, 2));
    ps_value last = ps_plan_add(p, before, sum); /* when the changes are made */
    ps_value fetches[] = {before, five, between, sum, late, after, last};
    const float expected[] = {1, 5, 5, 15, 101, 30, 16};
    ps_fetched outs[ARRAY_COUNT(fetches)];
    for (int round = 0; round < 3; round++) {
        memset(outs, 0, sizeof(outs));
        assert_int_equal(ps_variable_assign(x, &one, sizeof(one)), PS_OK);
        assert_run(ps_plan_run(p, NULL, 0, fetches, ARRAY_COUNT(fetches), outs, NULL));
        for (size_t i = 0; i < ARRAY_COUNT(fetches); i++) {
            if (*(const float *)outs[i].data != expected[i]) {
                fail_msg("fetch %zu is %g, expected %g", i, (double)*(const float *)outs[i].data, (double)expected[i]);
            }
        }
    }
    float alone = 0; /* where no fetch wants the read itself, and the assign is not needed */
    assert_int_equal(ps_variable_assign(x, &one, sizeof(one)), PS_OK);
    assert_run(ps_plan_eval(last, &alone, sizeof(alone)));
    if (alone != 12) {
        fail_msg("alone it is %g, expected 12", (double)alone);
    }
}

/* ---- on workers ---- */

TEST(pinned_rows_run_where_they_are_pinned)
{
    cluster_begin();
    ps_session *s = session_at(0);
    const float one = 1;
    assert_int_equal(ps_device_push(s, "/job:ps"), PS_OK);
    ps_variable *a = variable(s, "a", PS_SCALAR, &one, NULL);
    assert_int_equal(ps_device_pop(s), PS_OK);
    lines.count = 0;
    ps_plan *p = ps_plan_new(s);
    ps_value va = ps_plan_variable(p, a);
    assert_int_equal(ps_device_push(s, "/job:worker"), PS_OK);
    ps_value b = ps_plan_add(p, va, ps_plan_scalar(p, PS_F32, 2));
    assert_int_equal(ps_device_pop(s), PS_OK);
    assert_int_equal(ps_device_push(s, "/job:worker/task:1"), PS_OK);
    ps_value c = ps_plan_add(p, va, b);
    assert_int_equal(ps_device_pop(s), PS_OK);
    float result = 0;
    assert_run(ps_plan_eval(c, &result, sizeof(result)));
    assert_true(result == 4);
    assert_int_equal(lines.count, 2);
    assert_string_equal(lines.text[0], "add: (Add): /job:worker/task:0/device:CPU:0");
    assert_string_equal(lines.text[1], "add_1: (Add): /job:worker/task:1/device:CPU:0");
    assert_string_equal(ps_value_requested_device(b), "/job:worker");
    assert_string_equal(ps_value_device(b), "/job:worker/task:0/device:CPU:0");
    assert_int_equal(cluster.workers[0].kept[0].variables, 1); /* read by the worker itself */
    assert_true(runs_of(0) == 1 && runs_of(1) == 1);
    assert_run(ps_plan_eval(c, &result, sizeof(result)));
    assert_int_equal(lines.count, 2); /* once */
}

TEST(three_rows_on_one_task_are_one_call)
{
    enum { N = 100000 };
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    ps_plan *p = ps_plan_new(s);
    float *big = test_alloc(N * sizeof(float));
    for (int i = 0; i < N; i++) {
        big[i] = (float)(i % 7);
    }
    ps_variable *v = variable(s, "big", PS_SHAPE(N), big, NULL);
    assert_int_equal(ps_device_push(s, "/job:worker/task:0"), PS_OK);
    ps_value x = ps_plan_identity(p, ps_plan_variable(p, v));
    ps_value sum = ps_plan_reduce_sum(p, ps_plan_mul(p, x, x));
    assert_int_equal(ps_device_pop(s), PS_OK);
    float result = 0, expected = 0;
    for (int i = 0; i < N; i++) {
        expected += big[i] * big[i];
    }
    assert_run(ps_plan_eval(sum, &result, sizeof(result)));
    assert_true(fabsf(result - expected) < 1e-3f * expected);
    assert_int_equal(runs_of(0), 1);
    const struct run_kept *kept = &cluster.workers[0].kept[0];
    assert_string_equal(kept->rows_text, "identity mul reduce_sum");
    assert_true(kept->in_bytes < 512 && kept->out_bytes < 64); /* no value between is on a wire */
}

TEST(a_split_sum_goes_out_together_and_comes_to_the_target)
{
    cluster_begin();
    ps_session *s = session_at(3); /* worker 1 */
    ps_plan *p = ps_plan_new(s);
    ps_value x = ps_plan_placeholder(p, "input", PS_I32, PS_SHAPE(-1)), part[2], sums[2];
    ps_plan_split(p, x, 0, 2, part);
    for (int k = 0; k < 2; k++) {
        char worker[32];
        (void)snprintf(worker, sizeof(worker), "/job:worker/task:%d", k);
        assert_int_equal(ps_device_push(s, worker), PS_OK);
        sums[k] = ps_plan_reduce_sum(p, part[k]);
        part[k] = ps_plan_print(p, part[k], &sums[k], 1, "portion is");
        assert_int_equal(ps_device_pop(s), PS_OK);
    }
    ps_value total = ps_plan_reduce_sum(p, ps_plan_stack(p, part, 2));
    double ones[1000];
    for (size_t i = 0; i < 1000; i++) {
        ones[i] = 1;
    }
    const ps_feed feed = ps_feed_of(x, PS_F64, PS_SHAPE(1000), ones, sizeof(ones));
    ps_fetched out = {0};
    assert_run(ps_plan_run(p, &feed, 1, &total, 1, &out, NULL));
    assert_int_equal(*(const int32_t *)out.data, 1000);
    assert_string_equal(ps_value_requested_device(total), "");
    assert_string_equal(ps_value_device(total), "/job:worker/task:1/device:CPU:0");
    assert_int_equal(cluster.workers[1].probes, 1);
    assert_int_equal(runs_of(0), 1);
    assert_int_equal(runs_of(1), 2);
    assert_string_equal(cluster.workers[1].kept[0].rows_text, "split reduce_sum print");
    assert_string_equal(cluster.workers[0].kept[0].rows_text, "reduce_sum print");
    assert_string_equal(cluster.workers[1].kept[1].rows_text, "stack reduce_sum");
    assert_run(ps_plan_run(p, &feed, 1, &part[1], 1, &out, NULL));
    assert_true(out.bytes == 2000 && out.shape.dims[0] == 500);
    assert_int_equal(runs_of(0), 1); /* not needed */
    assert_int_equal(cluster.workers[1].probes, 1);
    ps_plan *later = ps_plan_new(s); /* knows what the target has said to the first plan */
    ps_value three = ps_plan_add(later, ps_plan_scalar(later, PS_I32, 1), ps_plan_scalar(later, PS_I32, 2));
    assert_run(ps_plan_run(later, NULL, 0, &three, 1, &out, NULL));
    assert_int_equal(*(const int32_t *)out.data, 3);
    assert_string_equal(ps_value_device(three), "/job:worker/task:1/device:CPU:0");
    assert_int_equal(cluster.workers[1].probes, 1);
}

TEST(runs_of_a_level_are_out_together)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    ps_plan *p = ps_plan_new(s);
    ps_value made[2];
    for (int k = 0; k < 2; k++) {
        cluster.workers[k].together = 2; /* each run waits for the other one */
        assert_int_equal(ps_device_push(s, k == 0 ? "/job:worker/task:0" : "/job:worker/task:1"), PS_OK);
        made[k] = ps_plan_add(p, ps_plan_scalar(p, PS_F32, k), ps_plan_scalar(p, PS_F32, 1));
        assert_int_equal(ps_device_pop(s), PS_OK);
    }
    ps_fetched outs[2] = {{0}, {0}};
    assert_run(ps_plan_run(p, NULL, 0, made, 2, outs, NULL));
    assert_true(*(const float *)outs[0].data == 1 && *(const float *)outs[1].data == 2);
}

TEST(tasks_that_need_each_other_have_four_runs)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    ps_plan *p = ps_plan_new(s);
    ps_value first[2], second[2];
    static const char *const WORKER[2] = {"/job:worker/task:0", "/job:worker/task:1"};
    for (int k = 0; k < 2; k++) {
        assert_int_equal(ps_device_push(s, WORKER[k]), PS_OK);
        first[k] = ps_plan_add(p, ps_plan_scalar(p, PS_F32, 10 * (k + 1)), ps_plan_scalar(p, PS_F32, 1));
        assert_int_equal(ps_device_pop(s), PS_OK);
    }
    for (int k = 0; k < 2; k++) {
        assert_int_equal(ps_device_push(s, WORKER[k]), PS_OK);
        second[k] = ps_plan_sub(p, first[k], first[1 - k]);
        assert_int_equal(ps_device_pop(s), PS_OK);
    }
    ps_fetched outs[2] = {{0}, {0}};
    assert_run(ps_plan_run(p, NULL, 0, second, 2, outs, NULL));
    assert_true(*(const float *)outs[0].data == -10 && *(const float *)outs[1].data == 10);
    assert_true(runs_of(0) == 2 && runs_of(1) == 2);
    for (uint32_t k = 0; k < 2; k++) {
        assert_true(cluster.workers[k].kept[1].began > cluster.workers[1 - k].kept[0].ended);
    }
}

TEST(changes_are_delivered_by_the_task_that_made_the_value)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    const float two = 2;
    ps_variable *w = variable(s, "w", PS_SCALAR, &two, ps_sgd(0.5));
    ps_variable *copy = variable(s, "copy", PS_SCALAR, &two, NULL);
    ps_plan *p = ps_plan_new(s);
    assert_int_equal(ps_device_push(s, "/job:worker/task:1"), PS_OK);
    ps_value gradient = ps_plan_mul(p, ps_plan_variable(p, w), ps_plan_scalar(p, PS_F32, 3)); /* 6 */
    assert_int_equal(ps_device_pop(s), PS_OK);
    ps_value steps[3] = {ps_plan_push(p, w, gradient, 1), ps_plan_assign(p, copy, gradient),
                         ps_plan_assign_add(p, copy, gradient)};
    ps_value all = ps_plan_group(p, steps, 3);
    ps_value fetches[2] = {all, steps[2]};
    ps_fetched outs[2] = {{0}, {0}};
    assert_run(ps_plan_run(p, NULL, 0, fetches, 2, outs, NULL));
    assert_true(outs[0].dtype == PS_DTYPE_NONE && *(const float *)outs[1].data == 12);
    assert_true(read_scalar(w) == -1 && read_scalar(copy) == 12);
    assert_true(runs_of(0) == 0 && runs_of(1) == 1);
    assert_int_equal(cluster.workers[1].kept[0].outputs, 3);
}

TEST(errors_of_a_run_name_the_rows_and_the_task)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    ps_plan *p = ps_plan_new(s);
    ps_value one = ps_plan_scalar(p, PS_F32, 1);
    assert_int_equal(ps_device_push(s, "/job:worker/task:0"), PS_OK);
    ps_value bad = ps_plan_add(ps_plan_name(p, "bad"), one, one);
    assert_int_equal(ps_device_pop(s), PS_OK);
    assert_int_equal(ps_device_push(s, "/job:ps/task:1"), PS_OK);
    ps_value at_psd = ps_plan_add(ps_plan_name(p, "at_psd"), one, one), fine = ps_plan_scalar(p, PS_F32, 7);
    assert_int_equal(ps_device_pop(s), PS_OK);
    assert_int_equal(ps_device_push(s, "/job:worker/task:9"), PS_OK);
    ps_value far = ps_plan_add(ps_plan_name(p, "far"), one, one);
    assert_int_equal(ps_device_pop(s), PS_OK);
    assert_int_equal(ps_device_push(s, "/job:worker/task:0/device:GPU:1"), PS_OK);
    ps_value gpu = ps_plan_add(ps_plan_name(p, "gpu"), one, one);
    assert_int_equal(ps_device_pop(s), PS_OK);
    cluster.workers[0].fail_row = "bad";
    float result = 0;
    assert_refused(ps_plan_eval(bad, &result, 4), PS_INVALID_ARGUMENT, "rows 'bad' at /job:worker/task:0");
    assert_refused(ps_plan_eval(at_psd, &result, 4), PS_UNIMPLEMENTED,
                   "/job:ps/task:1 executes no operations; `pstrain --serve`");
    assert_refused(ps_plan_eval(far, &result, 4), PS_INVALID_ARGUMENT,
                   "row 'far': the cluster has no /job:worker/task:9; job 'worker' has tasks 0 to 1");
    assert_refused(ps_plan_eval(gpu, &result, 4), PS_INVALID_ARGUMENT, "row 'gpu': device '/job:worker/task:0/device:GPU:1'");
    assert_int_equal(ps_last_reason(), PS_REASON_NO_DEVICE);
    assert_run(ps_plan_eval(fine, &result, 4)); /* a constant that is pinned to a psd */
    assert_true(result == 7);
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_int_equal(ps_plan_status(p), PS_OK);
}

TEST(soft_placement_takes_the_cpu)
{
    cluster_begin();
    ps_session *s = open_at(cluster.servers.spec, NULL, true);
    test_later(close_later, s);
    ps_plan *p = ps_plan_new(s);
    assert_int_equal(ps_device_push(s, "/job:worker/task:0/device:GPU:1"), PS_OK);
    ps_value sum = ps_plan_add(p, ps_plan_scalar(p, PS_F32, 1), ps_plan_scalar(p, PS_F32, 1));
    assert_int_equal(ps_device_pop(s), PS_OK);
    float result = 0;
    assert_run(ps_plan_eval(sum, &result, 4));
    assert_string_equal(ps_value_device(sum), "/job:worker/task:0/device:CPU:0");
    assert_string_equal(ps_value_requested_device(sum), "/job:worker/task:0/device:GPU:1");
}

TEST(setters_put_rows_on_their_workers)
{
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    ps_setter_options setter;
    ps_setter_options_init(&setter);
    setter.ps_tasks = 2;
    setter.worker_device = "/job:worker";
    const float ones[3] = {1, 2, 3};
    assert_int_equal(ps_device_push_setter(s, &setter), PS_OK);
    ps_plan *p = ps_plan_new(s);
    ps_variable *v1 = variable(s, "v1", PS_SCALAR, &ones[0], NULL);
    ps_value value = ps_plan_variable(p, v1); /* takes no turn of the setter */
    ps_variable *v2 = variable(s, "v2", PS_SCALAR, &ones[1], NULL);
    assert_true(ps_variable_task(v1) == 0 && ps_variable_task(v2) == 1);
    ps_value sum = ps_plan_add(p, value, ps_plan_variable(p, v2));
    assert_int_equal(ps_device_push(s, "/task:1"), PS_OK);
    ps_value p1 = ps_plan_mul(p, ps_plan_scalar(p, PS_F32, 2), sum);
    assert_int_equal(ps_device_push(s, "/cpu:0"), PS_OK);
    ps_value p2 = ps_plan_mul(p, ps_plan_scalar(p, PS_F32, 3), sum);
    assert_int_equal(ps_device_pop(s), PS_OK);
    assert_int_equal(ps_device_pop(s), PS_OK);
    assert_int_equal(ps_device_pop(s), PS_OK);
    ps_value fetches[3] = {sum, p1, p2};
    ps_fetched outs[3] = {{0}, {0}, {0}};
    assert_run(ps_plan_run(p, NULL, 0, fetches, 3, outs, NULL));
    assert_true(*(const float *)outs[0].data == 3 && *(const float *)outs[1].data == 6 && *(const float *)outs[2].data == 9);
    assert_string_equal(ps_value_device(sum), "/job:worker/task:0/device:CPU:0");
    assert_string_equal(ps_value_device(p1), "/job:worker/task:1/device:CPU:0");
    assert_string_equal(ps_value_device(p2), "/job:worker/task:1/device:CPU:0");
    assert_true(runs_of(0) == 1 && runs_of(1) == 1);
}

TEST(a_list_that_is_too_long_is_refused_before_it_is_sent)
{
    enum { ROWS = 3000 };
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    ps_plan *p = ps_plan_new(s);
    assert_int_equal(ps_device_push(s, "/job:worker/task:0"), PS_OK);
    ps_value x = ps_plan_scalar(p, PS_F32, 1);
    for (int i = 0; i < ROWS; i++) {
        x = ps_plan_relu(p, x);
    }
    assert_int_equal(ps_device_pop(s), PS_OK);
    float result = 0;
    assert_refused(
        ps_plan_eval(x, &result, 4), PS_RESOURCE_EXHAUSTED,
        "a run of 3000 rows and 1 inputs: it takes more than 65536 bytes, which is the most that a call carries; pin some of "
        "its rows to another task");
    assert_int_equal(ps_last_reason(), PS_REASON_TOO_LARGE);
    assert_int_equal(runs_of(0), 0);
}

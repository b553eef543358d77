/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partitioned variables beside whole ones of the same name: equal bit for bit at first, after 100 steps of every optimizer, and
 * whatever is read or written; spread over the tasks; made ready by a chief. Another layout, a whole variable of the name, a spec
 * that cannot be: refused with both sides named. A task that is gone: the error says which parts were changed.
 */
#define API_TASKS 3
#include "api_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 10, COLS = 6, ELEMENTS = ROWS * COLS, STEPS = 100 };

static uint32_t random_state = 12345;

static float uniform(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (float)(random_state >> 8) / 8388608.0f - 1.0f;
}

/* How a variable is cut; parts 0: whole. */
struct cut {
    uint32_t parts;
    uint8_t axis;
    ps_layout layout;
};

static ps_status get_as(ps_session *s, const char *container, const char *name, const struct cut *cut,
                        const ps_optimizer *optimizer, ps_variable **out)
{
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(ROWS, COLS);
    spec.init = ps_normal(0, 1);
    spec.optimizer = optimizer;
    spec.partitions = cut->parts;
    spec.partition_axis = cut->axis;
    spec.partition_layout = (uint8_t)cut->layout;
    assert_int_equal(ps_container_push(s, container), PS_OK);
    const ps_status st = ps_variable_get(s, &spec, out);
    assert_int_equal(ps_container_pop(s), PS_OK);
    return st;
}

static void must(ps_status st)
{
    if (st != PS_OK) {
        fail_msg("%s", ps_last_error());
    }
}

static void same(ps_variable *whole, ps_variable *parts, const char *what)
{
    float a[ELEMENTS], b[ELEMENTS];
    must(ps_variable_read(whole, a, sizeof(a)));
    must(ps_variable_read(parts, b, sizeof(b)));
    if (memcmp(a, b, sizeof(a)) != 0) {
        fail_msg("%s: the parts are not as the whole", what);
    }
}

static const struct cut cuts[] = {
    {4, 0, PS_LAYOUT_DIV}, {3, 0, PS_LAYOUT_MOD}, {4, 1, PS_LAYOUT_DIV}, {5, 1, PS_LAYOUT_MOD}, {10, 0, 0}};
static const struct cut whole_cut;
enum { CUTS = sizeof(cuts) / sizeof(cuts[0]) };

static void every_optimizer(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"sgd",
                                             "momentum",
                                             "adagrad",
                                             "adam",
                                             "adagrad_v2",
                                             "adagrad_da",
                                             "adadelta",
                                             "rmsprop",
                                             "rmsprop_centered",
                                             "adamw",
                                             "adamw_tf",
                                             "amsgrad",
                                             "adamax",
                                             "nadam",
                                             "ftrl",
                                             "proximal_gd",
                                             "proximal_adagrad",
                                             "addsign",
                                             "powersign",
                                             "lion",
                                             "torch_adam",
                                             "torch_adagrad",
                                             "torch_rmsprop",
                                             "torch_rmsprop_centered",
                                             "rowwise_adagrad",
                                             "rowwise_adam"};
    ps_session *s = open_session(60000);
    for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++) {
        ps_optimizer optimizer;
        ps_variable *whole = NULL, *parts = NULL;
        float slots[2][ELEMENTS];
        must(ps_optimizer_parse(optimizers[i], 0.01, &optimizer, sizeof(optimizer)));
        must(get_as(s, "whole", optimizers[i], &whole_cut, &optimizer, &whole));
        const bool by_row = strncmp(optimizers[i], "rowwise", strlen("rowwise")) == 0;
        must(get_as(s, "parts", optimizers[i], &cuts[by_row ? i % 2 : i % CUTS], &optimizer, &parts));
        must(ps_variable_init(whole, false));
        must(ps_variable_init(parts, false));
        same(whole, parts, "initial values");
        for (int step = 0; step < STEPS; step++) {
            float grad[ELEMENTS];
            for (int k = 0; k < ELEMENTS; k++) {
                grad[k] = uniform();
            }
            must(ps_variable_push(whole, grad, sizeof(grad), 1));
            must(ps_variable_push(parts, grad, sizeof(grad), 1));
        }
        same(whole, parts, optimizers[i]);
        assert_int_equal(ps_variable_version(parts, NULL), STEPS);
        for (uint32_t slot = 0; ps_variable_slot_bytes(whole, slot) > 0; slot++) {
            const size_t bytes = ps_variable_slot_bytes(whole, slot);
            assert_int_equal(ps_variable_slot_bytes(parts, slot), bytes);
            must(ps_variable_read_slot(whole, slot, slots[0], bytes));
            must(ps_variable_read_slot(parts, slot, slots[1], bytes));
            assert_memory_equal(slots[0], slots[1], bytes);
        }
    }
    ps_optimizer by_row;
    ps_variable *across = NULL;
    must(ps_optimizer_parse("rowwise_adagrad", 0.01, &by_row, sizeof(by_row)));
    assert_int_equal(get_as(s, "parts", "across", &cuts[2], &by_row, &across), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "cut along axis 1"));
    assert_int_equal(ps_session_close(s), 0);
}

static void every_operation(void **state)
{
    (void)state;
    ps_session *s = open_session(60000);
    for (size_t i = 0; i < CUTS; i++) {
        char name[32];
        ps_variable *whole = NULL, *parts = NULL;
        float values[ELEMENTS], a[ELEMENTS], b[ELEMENTS];
        bool is = true, exact = true;
        snprintf(name, sizeof(name), "op_%zu", i);
        must(get_as(s, "whole", name, &whole_cut, ps_momentum(0.1, 0.9), &whole));
        must(get_as(s, "parts", name, &cuts[i], ps_momentum(0.1, 0.9), &parts));
        assert_string_equal(ps_variable_name(parts), name);
        assert_string_equal(ps_variable_container(parts), "parts");
        assert_int_equal(ps_variable_bytes(parts), sizeof(values));
        assert_int_equal(ps_variable_shape(parts)->dims[0], ROWS);
        assert_int_equal(ps_variable_partitions(parts), cuts[i].parts);
        assert_null(ps_variable_partition(parts, cuts[i].parts));
        assert_int_equal(ps_variable_partitions(whole), 0);
        bool tasks[API_TASKS] = {false};
        for (uint32_t k = 0; k < cuts[i].parts; k++) {
            char of[64];
            snprintf(of, sizeof(of), "%s/part_%u", name, k);
            assert_string_equal(ps_variable_name(ps_variable_partition(parts, k)), of);
            tasks[ps_variable_task(ps_variable_partition(parts, k))] = true;
        }
        assert_true(tasks[0] && tasks[1] && tasks[2]);
        must(ps_variable_is_initialized(parts, &is));
        assert_false(is);
        for (int k = 0; k < ELEMENTS; k++) {
            values[k] = (float)k;
        }
        must(ps_variable_assign(whole, values, sizeof(values)));
        must(ps_variable_assign(parts, values, sizeof(values)));
        same(whole, parts, "assign");
        must(ps_variable_is_initialized(parts, &is));
        assert_true(is);
        must(ps_variable_assign_add(whole, values, sizeof(values), NULL, 0));
        must(ps_variable_assign_add(parts, values, sizeof(values), NULL, 0));
        same(whole, parts, "assign_add");
        must(ps_variable_push_pull(whole, values, sizeof(values), a, sizeof(a), 0.5f));
        must(ps_variable_push_pull(parts, values, sizeof(values), b, sizeof(b), 0.5f));
        assert_memory_equal(a, b, sizeof(a));
        must(ps_variable_read_versioned(parts, b, sizeof(b), NULL, &exact));
        assert_false(exact); /* the parts are of one version each, and of no moment */
        assert_memory_equal(a, b, sizeof(a));
        must(ps_variable_init(whole, true));
        must(ps_variable_init(parts, true));
        same(whole, parts, "init by force");
        assert_int_equal(ps_variable_assign(parts, values, sizeof(values) - 4), PS_INVALID_ARGUMENT);
        assert_int_equal(ps_variable_assign_add(parts, values, sizeof(values), a, sizeof(a)), PS_UNIMPLEMENTED);
        /* another program gets what is there */
        ps_session *other = open_session(60000);
        ps_variable *again = NULL;
        must(get_as(other, "parts", name, &cuts[i], ps_momentum(0.1, 0.9), &again));
        same(whole, again, "got again");
        assert_int_equal(ps_session_close(other), 0);
    }
    assert_int_equal(ps_session_close(s), 0);
}

static void refused(ps_session *s, const char *name, const struct cut *cut, const char *says, const char *says_too)
{
    ps_variable *v = NULL;
    assert_int_equal(get_as(s, "parts", name, cut, ps_sgd(1), &v), PS_INVALID_ARGUMENT);
    if (strstr(ps_last_error(), says) == NULL || strstr(ps_last_error(), says_too) == NULL) {
        fail_msg("%s", ps_last_error());
    }
}

static void other_layouts(void **state)
{
    (void)state;
    ps_variable *v = NULL;
    ps_session *s = open_session(20000), *other = open_session(20000);
    must(get_as(s, "parts", "w", &cuts[0], ps_sgd(1), &v));
    refused(other, "w", &(struct cut){5, 0, PS_LAYOUT_DIV}, "SHAPE_MISMATCH", "part 0 of 4");
    refused(other, "w", &(struct cut){5, 0, PS_LAYOUT_DIV}, "part 0 of 5 of (10, 6) along axis 0, layout div", "w/part_0");
    refused(other, "w", &(struct cut){4, 0, PS_LAYOUT_MOD}, "layout div", "layout mod");
    refused(other, "w", &(struct cut){4, 1, PS_LAYOUT_DIV}, "along axis 0", "along axis 1");
    refused(other, "w", &whole_cut, "SHAPE_MISMATCH", "a whole variable");
    must(get_as(s, "parts", "x", &whole_cut, ps_sgd(1), &v));
    refused(other, "x", &cuts[0], "SHAPE_MISMATCH: 'x' exists as a whole variable", "part 0 of 4");
    refused(other, "y", &(struct cut){11, 0, PS_LAYOUT_DIV}, "11 parts of shape (10, 6)", "allowed is 1 to 10");
    refused(other, "y", &(struct cut){2, 2, PS_LAYOUT_DIV}, "axis 2", "2 dimensions");
    refused(other, "y", &(struct cut){2, 0, (ps_layout)2}, "there is no layout 2", "");
    /* nothing of what was refused is there */
    assert_int_equal(ps_container_push(other, "parts"), PS_OK);
    assert_int_equal(ps_variable_find(other, "x/part_0", &v), PS_NOT_FOUND);
    assert_int_equal(ps_variable_find(other, "w/part_4", &v), PS_NOT_FOUND);
    assert_int_equal(ps_variable_find(other, "y/part_0", &v), PS_NOT_FOUND);
    assert_int_equal(ps_container_pop(other), PS_OK);
    assert_int_equal(ps_session_close(other), 0);
    assert_int_equal(ps_session_close(s), 0);
}

static void partitioners(void **state)
{
    (void)state;
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(1000, 256);
    must(ps_partition(&spec, 7));
    assert_int_equal(spec.partitions, 7);
    must(ps_partition_fixed_size(&spec, 5));
    assert_int_equal(spec.partitions, 5);
    must(ps_partition_axis_size(&spec, 64 << 10, 0));
    assert_int_equal(spec.partitions, 16); /* 64 rows each */
    must(ps_partition_min_max(&spec, 100, 256 << 10));
    assert_int_equal(spec.partitions, 4);
    assert_int_equal(ps_partition(&spec, 0), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "ps_partition: 0 parts"));
    assert_int_equal(ps_partition(&spec, 257), PS_INVALID_ARGUMENT);
    assert_int_equal(spec.partitions, 4);
    spec.partition_axis = 2;
    assert_int_equal(ps_partition_fixed_size(&spec, 5), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_partition(NULL, 5), PS_INVALID_ARGUMENT);
}

/* Parts of more than any task's memory, and of more than all tasks have together: refused with what would fit, and nothing is
 * there. */
static void too_large(void **state)
{
    (void)state;
    enum { COLUMNS = 1 << 18 }; /* rows of 1 MiB */
    ps_task_info infos[API_TASKS];
    ps_variable *v = NULL;
    ps_variable_spec spec;
    uint64_t largest = 0;
    ps_session *s = open_session(20000);
    must(ps_cluster_info(s, infos, sizeof(infos[0]), API_TASKS, 20000));
    for (int i = 0; i < API_TASKS; i++) {
        largest = infos[i].budget_bytes > largest ? infos[i].budget_bytes : largest;
    }
    ps_variable_spec_init(&spec);
    spec.name = "large";
    spec.dtype = PS_F32;
    spec.optimizer = ps_adagrad(0.1);
    spec.shape = PS_SHAPE((int64_t)(largest >> 20) + 2, COLUMNS); /* with its slots as much as two tasks, and a little more */
    must(ps_partition(&spec, 2));
    assert_int_equal(ps_variable_get(s, &spec, &v), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_last_reason(), PS_REASON_TOO_LARGE);
    assert_non_null(strstr(ps_last_error(), "variable 'large' in 2 parts: a part needs "));
    assert_non_null(strstr(ps_last_error(), ": 3 parts fit"));
    spec.shape = PS_SHAPE(2 * ((int64_t)(largest >> 20) + 2), COLUMNS);
    must(ps_partition(&spec, 12));
    assert_int_equal(ps_variable_get(s, &spec, &v), PS_FAILED_PRECONDITION);
    assert_non_null(strstr(ps_last_error(), "all tasks together have memory budgets of "));
    spec.shape = PS_SHAPE(2, (int64_t)(largest >> 2));
    must(ps_partition(&spec, 2));
    assert_int_equal(ps_variable_get(s, &spec, &v), PS_FAILED_PRECONDITION);
    assert_non_null(strstr(ps_last_error(), "no number of parts fits"));
    assert_int_equal(ps_variable_find(s, "large/part_0", &v), PS_NOT_FOUND);
    assert_int_equal(ps_session_close(s), 0);
}

/* A setter that counts bytes puts each part where the fewest bytes are. */
static void by_bytes(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_setter_options o;
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_setter_options_init(&o);
    o.ps_tasks = API_TASKS;
    o.strategy = PS_GREEDY_BYTES;
    must(ps_container_push(s, "bytes"));
    must(ps_device_push_setter(s, &o));
    ps_variable_spec_init(&spec);
    spec.dtype = PS_F32;
    spec.name = "first";
    spec.shape = PS_SHAPE(3, 10); /* as much as three rows of the next one */
    must(ps_variable_get(s, &spec, &v));
    assert_int_equal(ps_variable_task(v), 0);
    spec.name = "parts";
    spec.shape = PS_SHAPE(9, 10); /* parts of 3, 2, 2 and 2 rows */
    must(ps_partition(&spec, 4));
    must(ps_variable_get(s, &spec, &v));
    const int want[] = {1, 2, 2, 0}; /* bytes in rows before each: 3 0 0, 3 3 0, 3 3 2, 3 3 4 */
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(ps_variable_task(ps_variable_partition(v, i)), want[i]);
    }
    must(ps_device_pop(s));
    must(ps_container_pop(s));
    assert_int_equal(ps_session_close(s), 0);
}

/* A chief gives the parts their values with all others. */
static void made_ready(void **state)
{
    (void)state;
    ps_variable *whole = NULL, *parts = NULL;
    ps_session *s = open_session(60000);
    must(get_as(s, "ready", "a", &cuts[1], ps_sgd(1), &parts));
    must(get_as(s, "whole", "a", &whole_cut, ps_sgd(1), &whole));
    must(ps_session_ready(s));
    same(whole, parts, "of the chief");
    assert_int_equal(ps_session_close(s), 0);
}

/* The last test: a task dies. */
static void a_task_is_gone(void **state)
{
    (void)state;
    float grad[ELEMENTS] = {0}, values[ELEMENTS];
    ps_variable *v = NULL;
    ps_session *s = open_session(2000);
    must(get_as(s, "parts", "last", &(struct cut){3, 0, PS_LAYOUT_DIV}, ps_sgd(1), &v));
    must(ps_variable_init(v, false));
    const int gone = 1;
    uint32_t part = 0;
    while (ps_variable_task(ps_variable_partition(v, part)) != gone) {
        part++;
    }
    test_cluster_kill(&cluster, gone);
    assert_int_not_equal(ps_variable_push(v, grad, sizeof(grad), 1), PS_OK);
    assert_int_equal(ps_last_applied(), PS_MAYBE_PARTLY_APPLIED);
    char says[64], names[64];
    snprintf(says, sizeof(says), "part %u of 3 of 'last'", part);
    snprintf(names, sizeof(names), "; applied to parts %s, not or not surely to %u",
             part == 0   ? "1, 2"
             : part == 1 ? "0, 2"
                         : "0, 1",
             part);
    if (strstr(ps_last_error(), says) == NULL || strstr(ps_last_error(), names) == NULL) {
        fail_msg("%s", ps_last_error());
    }
    assert_int_not_equal(ps_variable_read(v, values, sizeof(values)), PS_OK);
    assert_int_equal(ps_last_applied(), PS_NOTHING_APPLIED);
    (void)ps_session_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation), cmocka_unit_test(every_optimizer), cmocka_unit_test(other_layouts),
        cmocka_unit_test(partitioners),    cmocka_unit_test(too_large),       cmocka_unit_test(by_bytes),
        cmocka_unit_test(made_ready),      cmocka_unit_test(a_task_is_gone),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

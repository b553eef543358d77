/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/placement.c: device strings and round robin. The expected places follow TensorFlow 1.15's
 * python/training/device_setter.py (_ReplicaDeviceChooser.device_function with merge_devices=True, _RoundRobinStrategy).
 */
#include "check.h"

#include "common/placement.h"

static void test_pins(void **state)
{
    (void)state;
    struct psi_err err;
    static const struct {
        const char *text, *job; /* job NULL: open */
        int task;               /* -1: open */
    } rows[] = {
        {"", NULL, -1},
        {"/", NULL, -1},
        {"/job:ps/task:1", "ps", 1},
        {"/task:1/job:ps", "ps", 1},
        {"/job:worker", "worker", -1},
        {"/task:3", NULL, 3},
        {"/job:ps/task:1/device:CPU:0", "ps", 1},
        {"/job:ps/task:1/device:cpu:0", "ps", 1},
        {"/job:ps/task:1/device:CPU:*", "ps", 1},
        {"/job:ps/task:1/cpu:0", "ps", 1},
        {"/job:ps/CPU:0/task:1", "ps", 1},
        {"/cpu", NULL, -1},
        {"/device:CPU", NULL, -1},
        {"/job:*/task:*", NULL, -1},
        {"/job:ps/task:1023", "ps", 1023},
        {"/job:ps/task:007", "ps", 7},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_pin pin;
        assert_ok(psi_pin_parse(rows[i].text, &pin, &err), &err);
        assert_int_equal(pin.has_job, rows[i].job != NULL);
        if (rows[i].job != NULL) {
            assert_string_equal(pin.job, rows[i].job);
        }
        assert_int_equal(pin.has_task, rows[i].task >= 0);
        assert_int_equal(pin.task, rows[i].task >= 0 ? rows[i].task : 0);
    }
}

static void test_bad_pins(void **state)
{
    (void)state;
    struct psi_err err;
    static const struct {
        const char *text;
        ps_status st;
        const char *fault;
    } rows[] = {
        {"job:ps", PS_INVALID_ARGUMENT, "device 'job:ps': does not begin with '/'"},
        {"ps:0", PS_INVALID_ARGUMENT, "does not begin"},
        {"//", PS_INVALID_ARGUMENT, "not a job, task or device"},
        {"/job:ps/", PS_INVALID_ARGUMENT, "not a job, task or device"},
        {"/job", PS_INVALID_ARGUMENT, "not a job, task or device"},
        {"/job:", PS_INVALID_ARGUMENT, "job name ''"},
        {"/job:p-s", PS_INVALID_ARGUMENT, "device '/job:p-s': job name 'p-s'"},
        {"/Job:ps", PS_INVALID_ARGUMENT, "not a job"},
        {"/job:ps/job:ps", PS_INVALID_ARGUMENT, "two jobs"},
        {"/task:1/task:1", PS_INVALID_ARGUMENT, "two tasks"},
        {"/cpu:0/device:CPU:0", PS_INVALID_ARGUMENT, "two devices"},
        {"/task:", PS_INVALID_ARGUMENT, "task is not a number"},
        {"/task:-1", PS_INVALID_ARGUMENT, "task is not a number"},
        {"/task:x", PS_INVALID_ARGUMENT, "task is not a number"},
        {"/task:1024", PS_INVALID_ARGUMENT, "below 1024"},
        {"/task:99999999999999999999", PS_INVALID_ARGUMENT, "task is not a number"},
        {"/cpu:", PS_INVALID_ARGUMENT, "no number"},
        {"/bus:1", PS_INVALID_ARGUMENT, "not a job"},
        {"/job:ps/task:1/cpu:1", PS_UNIMPLEMENTED, "CPU:0 only"},
        {"/device:GPU:0", PS_UNIMPLEMENTED, "CPU:0 only"},
        {"/device:CPU:1", PS_UNIMPLEMENTED, "CPU:0 only"},
        {"/gpu:0", PS_UNIMPLEMENTED, "CPU:0 only"},
        {"/GPU:0", PS_UNIMPLEMENTED, "CPU:0 only"},
        {"/job:ps/replica:0/task:0", PS_UNIMPLEMENTED, "replicas"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_pin pin = {.task = 77};
        assert_fails(psi_pin_parse(rows[i].text, &pin, &err), rows[i].st, &err, rows[i].fault);
        assert_int_equal(pin.task, 77);
    }
}

static void test_round_robin(void **state)
{
    (void)state;
    struct psi_err err;
    /* one script; pin NULL is an unpinned variable */
    static const struct {
        const char *pin, *job;
        uint32_t task, next;
        bool pinned;
    } rows[] = {
        {NULL, "ps", 0, 1, false},
        {NULL, "ps", 1, 2, false},
        {NULL, "ps", 2, 0, false},
        {NULL, "ps", 0, 1, false},
        {"/job:ps/task:0", "ps", 0, 2, true}, /* the counter has still advanced */
        {"/task:0", "ps", 0, 0, true},
        {"/job:ps", "ps", 0, 1, false},
        {"/cpu:0", "ps", 1, 2, false},
        {"/", "ps", 2, 0, false},
        {"/job:worker/task:4", "worker", 4, 0, true}, /* another job: the strategy is not asked */
        {"/job:worker", "worker", 0, 0, true},
        {NULL, "ps", 0, 1, false},
    };
    struct psi_placement p;
    psi_placement_init(&p, "ps", 3);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_pin pin;
        struct psi_place place;
        if (rows[i].pin != NULL) {
            assert_ok(psi_pin_parse(rows[i].pin, &pin, &err), &err);
        }
        assert_ok(psi_placement_place(&p, rows[i].pin == NULL ? NULL : &pin, &place, &err), &err);
        assert_string_equal(place.job, rows[i].job);
        assert_int_equal(place.task, rows[i].task);
        assert_int_equal(place.pinned, rows[i].pinned);
        assert_int_equal(p.next, rows[i].next);
    }
}

static void test_book_example(void **state)
{
    (void)state;
    /* five variables on two parameter servers: 0 1 0 1 0 (TensorFlow's own description of replica_device_setter) */
    struct psi_err err;
    struct psi_placement p;
    char line[128];
    psi_placement_init(&p, "ps", 2);
    for (uint32_t i = 0; i < 5; i++) {
        struct psi_place place;
        char expected[128];
        assert_ok(psi_placement_place(&p, NULL, &place, &err), &err);
        PSI_IGNORE(snprintf(expected, sizeof(expected), "v: (Variable): /job:ps/task:%u/device:CPU:0", i % 2));
        assert_string_equal(psi_place_format(&place, "v", "Variable", line, sizeof(line)), expected);
    }
}

static void test_errors_do_not_advance(void **state)
{
    (void)state;
    struct psi_err err;
    struct psi_placement p;
    struct psi_place place = {.task = 77};
    struct psi_pin pin;
    psi_placement_init(&p, "ps", 2);
    assert_ok(psi_pin_parse("/job:ps/task:2", &pin, &err), &err);
    assert_fails(psi_placement_place(&p, &pin, &place, &err), PS_INVALID_ARGUMENT, &err,
                 "/job:ps/task:2 does not exist: job 'ps' has tasks 0 to 1");
    assert_int_equal(p.next, 0);
    assert_int_equal(place.task, 77);
    psi_placement_init(&p, "ps", 0);
    assert_fails(psi_placement_place(&p, NULL, &place, &err), PS_FAILED_PRECONDITION, &err, "job 'ps' has no tasks");
    assert_ok(psi_pin_parse("/job:worker/task:1", &pin, &err), &err);
    assert_ok(psi_placement_place(&p, &pin, &place, &err), &err);
    assert_int_equal(place.task, 1);
}

static void test_partitioner(void **state)
{
    (void)state;
    struct psi_err err;
    assert_ok(psi_placement_partitioner_check(NULL, &err), &err);
    assert_ok(psi_placement_partitioner_check("", &err), &err);
    assert_fails(psi_placement_partitioner_check("fixed_size:2", &err), PS_UNIMPLEMENTED, &err, "partitioner 'fixed_size:2'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pins),
        cmocka_unit_test(test_bad_pins),
        cmocka_unit_test(test_round_robin),
        cmocka_unit_test(test_book_example),
        cmocka_unit_test(test_errors_do_not_advance),
        cmocka_unit_test(test_partitioner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

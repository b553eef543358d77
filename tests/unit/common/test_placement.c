/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/placement.c: a session's round robin with pins. The expected places follow TensorFlow 1.15's
 * python/training/device_setter.py (_ReplicaDeviceChooser.device_function with merge_devices=True, _RoundRobinStrategy).
 */
#include "test.h"

#include "common/placement.h"

TEST(test_round_robin)
{
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
        {"/job:ps/replica:0/task:1/device:GPU:3", "ps", 1, 1, true},
        {NULL, "ps", 1, 2, false},
    };
    struct psi_cluster c;
    struct psi_placement p;
    psi_cluster_init(&c);
    assert_ok(psi_cluster_parse(&c, "ps=h:1,h:2,h:3;worker=h:4", &err), &err);
    psi_placement_init(&p, &c);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_device pin;
        struct psi_place place;
        if (rows[i].pin != NULL) {
            assert_ok(psi_device_parse(rows[i].pin, &pin, &err), &err);
        }
        assert_ok(psi_placement_place(&p, rows[i].pin == NULL ? NULL : &pin, &place, &err), &err);
        assert_string_equal(place.job, rows[i].job);
        assert_int_equal(place.task, rows[i].task);
        assert_int_equal(place.pinned, rows[i].pinned);
        assert_int_equal(p.next, rows[i].next);
    }
    psi_cluster_fini(&c);
}

TEST(test_book_example)
{
    /* five variables on two parameter servers: 0 1 0 1 0 (TensorFlow's own description of replica_device_setter) */
    struct psi_err err;
    struct psi_cluster c;
    struct psi_placement p;
    psi_cluster_init(&c);
    assert_ok(psi_cluster_parse(&c, "ps=h:1,h:2", &err), &err);
    psi_placement_init(&p, &c);
    for (uint32_t i = 0; i < 5; i++) {
        struct psi_place place;
        assert_ok(psi_placement_place(&p, NULL, &place, &err), &err);
        assert_string_equal(place.job, "ps");
        assert_int_equal(place.task, i % 2);
    }
    psi_cluster_fini(&c);
}

TEST(test_holes)
{
    /* the turns go over the tasks that are there, by index */
    struct psi_err err;
    struct psi_cluster c;
    struct psi_placement p;
    struct psi_place place;
    struct psi_device pin;
    static const uint32_t turns[] = {2, 3, 7, 2, 3};
    psi_cluster_init(&c);
    assert_ok(psi_cluster_parse(&c, "ps=2@h:1,h:2,7@h:3", &err), &err);
    psi_placement_init(&p, &c);
    for (size_t i = 0; i < ARRAY_COUNT(turns); i++) {
        assert_ok(psi_placement_place(&p, NULL, &place, &err), &err);
        assert_int_equal(place.task, turns[i]);
    }
    assert_ok(psi_device_parse("/task:0", &pin, &err), &err);
    assert_fails(psi_placement_place(&p, &pin, &place, &err), PS_INVALID_ARGUMENT, &err,
                 "/job:ps/task:0 does not exist: job 'ps' has tasks 2 to 3, 7");
    assert_ok(psi_device_parse("/task:3", &pin, &err), &err);
    assert_ok(psi_placement_place(&p, &pin, &place, &err), &err);
    assert_int_equal(place.task, 3);
    assert_ok(psi_placement_place(&p, NULL, &place, &err), &err);
    assert_int_equal(place.task, 2);
    psi_cluster_fini(&c);
}

TEST(test_errors_do_not_advance)
{
    struct psi_err err;
    struct psi_cluster c;
    struct psi_placement p;
    struct psi_place place = {.task = 77};
    struct psi_device pin;
    psi_cluster_init(&c);
    psi_placement_init(&p, &c);
    assert_fails(psi_placement_place(&p, NULL, &place, &err), PS_FAILED_PRECONDITION, &err, "the cluster has no tasks");
    assert_ok(psi_device_parse("/job:worker/task:1", &pin, &err), &err);
    assert_ok(psi_placement_place(&p, &pin, &place, &err), &err);
    assert_int_equal(place.task, 1);
    assert_ok(psi_cluster_parse(&c, "ps=h:1,h:2", &err), &err);
    psi_placement_init(&p, &c);
    assert_ok(psi_device_parse("/job:ps/task:2", &pin, &err), &err);
    place.task = 77;
    assert_fails(psi_placement_place(&p, &pin, &place, &err), PS_INVALID_ARGUMENT, &err,
                 "/job:ps/task:2 does not exist: job 'ps' has tasks 0 to 1");
    assert_ok(psi_device_parse("/job:ps/replica:1/task:0", &pin, &err), &err);
    assert_fails(psi_placement_place(&p, &pin, &place, &err), PS_INVALID_ARGUMENT, &err, "/replica:1 does not exist");
    assert_int_equal(p.next, 0);
    assert_int_equal(place.task, 77);
    psi_cluster_fini(&c);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resets of containers with real tasks that are away or come back empty: who is missing is named, what was reset before is said,
 * and a reset of all finds containers that only the directory remembers.
 */
#include "api_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static ps_variable *get_in(ps_session *s, const char *container, const char *device, int64_t elements)
{
    assert_int_equal(ps_container_push(s, container), PS_OK);
    assert_int_equal(ps_device_push(s, device), PS_OK);
    ps_variable *v = get(s, "x", PS_F32, PS_SHAPE(elements), NULL);
    assert_int_equal(ps_device_pop(s), PS_OK);
    assert_int_equal(ps_container_pop(s), PS_OK);
    return v;
}

/* Kill ps:1, and wait until the directory knows: before, a RESET would begin and wait for its return. */
static void lose_task_1(void)
{
    ps_session *s = open_session(500);
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = "never";
    spec.dtype = PS_F32;
    spec.device = "/job:ps/task:1";
    test_cluster_kill(&cluster, 1);
    do {
        const ps_status st = ps_variable_get(s, &spec, &v);
        assert_true(st == PS_UNAVAILABLE || st == PS_DEADLINE_EXCEEDED); /* that is: the machine stood still for its time */
    } while (strstr(ps_last_error(), "not connected to the directory") == NULL);
    assert_int_equal(ps_session_close(s), 0);
}

static void a_missing_task_is_named(void **state)
{
    (void)state;
    static const char *const both[] = {"a", "b"};
    const float ones[2] = {1, 1};
    float value[2];
    ps_session *s = open_session(1500);
    ps_variable *a = get_in(s, "a", "/job:ps/task:0", 2);
    assert_int_equal(ps_variable_init_from(a, ones, sizeof(ones)), PS_OK);
    lose_task_1();
    assert_int_equal(ps_reset_containers(s, both, 2), PS_UNAVAILABLE);
    assert_int_equal(ps_last_applied(), PS_NOTHING_APPLIED);
    assert_non_null(strstr(ps_last_error(), "reset of 'a'"));
    assert_non_null(strstr(ps_last_error(), "/job:ps/task:1"));
    assert_null(strstr(ps_last_error(), "before"));
    assert_int_equal(ps_variable_read(a, value, sizeof(value)), PS_OK); /* nothing was done */
    assert_int_equal(ps_reset_all(s), PS_UNAVAILABLE);                  /* nor here: its containers are not known */
    assert_non_null(strstr(ps_last_error(), "/job:ps/task:1"));
    assert_int_equal(ps_variable_read(a, value, sizeof(value)), PS_OK);
    assert_int_equal(ps_session_status(s), PS_OK);
    test_cluster_start(&cluster, 1);
    assert_int_equal(ps_session_close(s), 0);
    s = open_session(20000);
    assert_int_equal(ps_reset_containers(s, both, 2), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
}

enum { ROW = 20000 }; /* takes far longer than a task takes to die */

struct many {
    ps_session *session;
    ps_status status;
    ps_applied applied;
    char text[512];
    atomic_bool ended;
};

static void *reset_many(void *arg)
{
    struct many *m = arg;
    static const char *row[ROW];
    for (int i = 0; i < ROW; i++) {
        row[i] = i % 2 == 0 ? "a" : "b";
    }
    m->status = ps_reset_containers(m->session, row, ROW);
    m->applied = ps_last_applied();
    (void)snprintf(m->text, sizeof(m->text), "%s", ps_last_error());
    atomic_store(&m->ended, true);
    return NULL;
}

/* A task dies when the first of a row of containers have been reset. */
static void what_was_reset_before_is_said(void **state)
{
    (void)state;
    static const char *const bad[] = {"a", "b", "", "c"};
    struct many many = {.session = open_session(1500)};
    ps_session *s = open_session(20000);
    ps_variable *x = get_in(s, "b", "/job:ps/task:0", 2); /* gone: the reset of a before it is done */
    const float ones[2] = {1, 1};
    float value[2];
    pthread_t thread;
    assert_int_equal(ps_variable_init_from(x, ones, sizeof(ones)), PS_OK);
    assert_int_equal(ps_reset_containers(s, bad, 4), PS_INVALID_ARGUMENT); /* checked before the first */
    assert_int_equal(ps_variable_read(x, value, sizeof(value)), PS_OK);
    assert_int_equal(pthread_create(&thread, NULL, reset_many, &many), 0);
    while (ps_variable_read(x, value, sizeof(value)) == PS_OK && !atomic_load(&many.ended)) {
    }
    test_cluster_kill(&cluster, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_not_equal(many.status, PS_OK);
    assert_int_not_equal(many.applied, PS_NOTHING_APPLIED);
    assert_non_null(strstr(many.text, " of 20000 containers were reset before ('a'"));
    assert_non_null(strstr(many.text, "/job:ps/task:"));
    test_cluster_start(&cluster, 1);
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(ps_session_close(many.session), 0);
}

/* ps:1 comes back empty: only the directory remembers that container "lost" is there, and with which shape. */
static void a_reset_of_all_finds_what_only_the_directory_knows(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    (void)get_in(s, "lost", "/job:ps/task:1", 2);
    assert_int_equal(ps_session_close(s), 0);
    test_cluster_kill(&cluster, 1);
    test_cluster_start(&cluster, 1);
    s = open_session(20000);
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = "x";
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(7);
    assert_int_equal(ps_container_push(s, "lost"), PS_OK);
    assert_int_equal(ps_variable_get(s, &spec, &v), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_container_pop(s), PS_OK);
    assert_int_equal(ps_reset_all(s), PS_OK);
    assert_int_equal(ps_shape_elements(ps_variable_shape(get_in(s, "lost", NULL, 7))), 7);
    assert_int_equal(ps_session_close(s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_task_is_named),
        cmocka_unit_test(what_was_reset_before_is_said),
        cmocka_unit_test(a_reset_of_all_finds_what_only_the_directory_knows),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

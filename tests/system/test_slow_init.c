/* SPDX-License-Identifier: Apache-2.0 */
/* While a real psd makes the initial value of a large variable, it serves others. */
#define API_TASKS 1
#include "api_test.h"

#include <pthread.h>
#include <string.h>

enum { MANY = (128 << 20) / 4, FEW = 4, TIMEOUT_MS = 600000, PULLS = 20, TRIES = 10 };

static void *initialise(void *variable)
{
    static ps_status st;
    st = ps_variable_init(variable, false);
    return &st;
}

static ps_variable *large(ps_session *s, const char *name)
{
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(MANY);
    spec.init = ps_normal(0, 1);
    assert_int_equal(ps_variable_get(s, &spec, &v), PS_OK);
    return v;
}

/* By the order of events: its memory is there, so the INIT is being made; then pulls come back; then it has no value yet: true.
 */
static bool serves_meanwhile(ps_session *s, ps_session *other, ps_variable *small, const float few[FEW], const char *name)
{
    float value[FEW];
    bool before = true, initialised = false;
    void *result = NULL;
    pthread_t thread;
    ps_task_info info = {.memory_bytes = 0};
    ps_variable *seen = large(other, name);
    assert_int_equal(pthread_create(&thread, NULL, initialise, large(s, name)), 0);
    while (info.memory_bytes < MANY * sizeof(float)) {
        assert_int_equal(ps_cluster_info(other, &info, sizeof(info), 1, TIMEOUT_MS), PS_OK);
        assert_true(info.up);
    }
    for (int i = 0; i < PULLS; i++) {
        assert_int_equal(ps_variable_read(small, value, sizeof(value)), PS_OK);
        assert_memory_equal(value, few, FEW * sizeof(float));
    }
    assert_int_equal(ps_variable_is_initialized(seen, &before), PS_OK);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_int_equal(*(ps_status *)result, PS_OK);
    assert_int_equal(ps_variable_is_initialized(seen, &initialised), PS_OK);
    assert_true(initialised);
    assert_int_equal(ps_variable_delete(s, name), PS_OK);
    return !before;
}

/* On a busy machine this program may stand still until the INIT is over. A task that serves nobody meanwhile is so each time. */
static void test_others_are_served(void **state)
{
    (void)state;
    static const float few[FEW] = {1, 2, 3, 4};
    bool serves = false;
    ps_session *s = open_session(TIMEOUT_MS);
    ps_session *other = open_session(TIMEOUT_MS);
    ps_variable *small = get(other, "small", PS_F32, PS_SHAPE(FEW), NULL);
    assert_int_equal(ps_variable_assign(small, few, sizeof(few)), PS_OK);
    for (int i = 0; i < TRIES && !serves; i++) {
        serves = serves_meanwhile(s, other, small, few, (const char[]){'a' + (char)i, '\0'});
    }
    assert_true(serves);
    assert_int_equal(ps_session_close(other), PS_OK);
    assert_int_equal(ps_session_close(s), PS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_others_are_served)};
    return cmocka_run_group_tests(tests, setup, teardown);
}

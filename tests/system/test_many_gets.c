/* SPDX-License-Identifier: Apache-2.0 */
/* test-transport: plain (it counts frames on the way) */
/*
 * Many parameters far away: definitions travel together. A thousand of them, on two ps tasks that are 20 ms away, cost the round
 * trips of a handful, which the proxy between them counts from the frames that it forwards; no clock is asked.
 */
#include "daemon.h"
#include "proxy.h"
#include "ps.h"

#include "proto/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMS = 1000, WAY_MS = 20, TRIPS_MAX = 5, TRIPS_READY_MAX = 6 };

static struct test_cluster cluster;
static struct test_proxy *proxy;
static char spec[160];

/* Cold ps tasks, and the long way to them. */
static int setup(void **state)
{
    char door[2][64];
    (void)state;
    test_cluster_init(&cluster, 2, "");
    test_cluster_start_all(&cluster);
    proxy = test_proxy_new(1);
    test_proxy_delay(proxy, WAY_MS);
    for (int i = 0; i < 2; i++) {
        test_proxy_door(proxy, cluster.address[i], door[i]);
    }
    test_proxy_run(proxy);
    (void)snprintf(spec, sizeof(spec), "ps=%s,%s", door[0], door[1]);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_proxy_free(proxy);
    test_cluster_fini(&cluster);
    return 0;
}

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static ps_session *open_far(void)
{
    ps_session_options o;
    ps_session *s = NULL;
    ps_session_options_init(&o);
    o.cluster_spec = spec;
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &s, NULL, 0), PS_OK);
    return s;
}

static const char *name_of(int i)
{
    static char name[32];
    (void)snprintf(name, sizeof(name), "layer_%d/weights", i);
    return name;
}

static void a_thousand_parameters_are_ready_in_six_round_trips(void **state)
{
    (void)state;
    ps_session *s = open_far();
    ps_param *p = NULL;
    for (int i = 0; i < PARAMS; i++) {
        p = ps_param_get(s, name_of(i), PS_SHAPE(3), ps_zeros(), ps_sgd(1));
    }
    assert_int_equal(test_proxy_requests(proxy, PS_OP_CREATE), 0); /* nothing has travelled */
    assert_int_equal(ps_session_ready(s), PS_OK);
    unsigned trips = test_proxy_round_trips(proxy, PS_OP_OPEN);
    print_message("%u round trips, %u CREATE, %u OPEN\n", trips, test_proxy_requests(proxy, PS_OP_CREATE),
                  test_proxy_requests(proxy, PS_OP_OPEN));
    assert_int_equal(test_proxy_requests(proxy, PS_OP_CREATE), 1);
    /* at each task: the handles, the state of all at once, and that again behind the chief's fence */
    assert_int_equal(test_proxy_requests(proxy, PS_OP_OPEN), 6);
    assert_in_range(trips, 3, TRIPS_READY_MAX);
    assert_string_equal(ps_param_name(p), "layer_999/weights");
    assert_int_equal(ps_pull_param(p), PS_OK);
    ps_variable *v = NULL;
    for (int i = 0; i < 4; i++) { /* turns by the order of the calls */
        assert_int_equal(ps_variable_find(s, name_of(i), &v), PS_OK);
        assert_int_equal(ps_variable_task(v), i % 2);
    }
    assert_int_equal(ps_session_close(s), 0);
}

static void many_variables_are_got_in_one_list(void **state)
{
    (void)state;
    ps_session *s = open_far();
    ps_variable_spec *specs = calloc(PARAMS, sizeof(*specs));
    ps_variable **all = calloc(PARAMS, sizeof(*all));
    char(*names)[32] = calloc(PARAMS, sizeof(*names));
    assert_true(specs != NULL && all != NULL && names != NULL);
    ps_param *first = ps_param_get(s, "first", PS_SHAPE(1), ps_zeros(), ps_sgd(1)); /* goes with them, and before them */
    for (int i = 0; i < PARAMS; i++) {
        memcpy(names[i], name_of(i), sizeof(names[i]));
        ps_variable_spec_init(&specs[i]);
        specs[i].name = names[i];
        specs[i].dtype = PS_F32;
        specs[i].shape = PS_SHAPE(2);
    }
    assert_int_equal(ps_variables_get(s, specs, PARAMS, all), PS_OK);
    assert_int_equal(test_proxy_requests(proxy, PS_OP_CREATE), 1);
    assert_int_equal(test_proxy_requests(proxy, PS_OP_OPEN), 2);
    assert_in_range(test_proxy_round_trips(proxy, PS_OP_OPEN), 3, TRIPS_MAX);
    for (int i = 0; i < PARAMS; i++) {
        assert_string_equal(ps_variable_name(all[i]), names[i]);
        assert_int_equal(ps_variable_task(all[i]), (i + 1) % 2);
    }
    assert_int_equal(ps_push(s, first), PS_OK); /* it is got: nothing more travels but this */
    assert_int_equal(test_proxy_requests(proxy, PS_OP_CREATE), 1);
    free(specs);
    free(all);
    free(names);
    assert_int_equal(ps_session_close(s), PS_FAILED_PRECONDITION); /* it has no value */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_thousand_parameters_are_ready_in_six_round_trips, setup, teardown),
        cmocka_unit_test_setup_teardown(many_variables_are_got_in_one_list, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/api/device.c against servers in this process: device scopes, the setter, pins, places that do not exist, soft placement,
 * the placement log, the list of devices.
 */
#include "scope_test.h"

static char log_text[4096];

static void keep_line(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    assert_int_equal(level, PS_LOG_INFO);
    size_t at = strlen(log_text);
    assert_true(at + strlen(line) + 2 < sizeof(log_text));
    (void)snprintf(log_text + at, sizeof(log_text) - at, "%s\n", line);
}

static const char *assigned(const ps_variable *v)
{
    return ps_variable_device(v);
}

TEST(turns_and_pins)
{
    ps_session *s = open_plain();
    ps_variable_spec spec = spec_of("pin");
    assert_string_equal(assigned(get(s, "v1")), "/job:ps/task:0/device:CPU:0");
    assert_string_equal(assigned(get(s, "v2")), "/job:ps/task:1/device:CPU:0");
    assert_string_equal(ps_variable_requested_device(get(s, "v3")), "");
    spec.device = "/job:worker/task:1";
    ps_variable *v = get_spec(s, &spec); /* takes no turn */
    assert_string_equal(assigned(v), "/job:worker/task:1/device:CPU:0");
    assert_string_equal(ps_variable_requested_device(v), "/job:worker/task:1");
    assert_int_equal(ps_variable_task(v), 1);
    assert_string_equal(assigned(get(s, "v4")), "/job:ps/task:1/device:CPU:0");
    assert_int_equal(ps_device_push(s, "/job:worker"), PS_OK);
    v = get(s, "w0"); /* a missing task is 0, a missing device CPU:0 */
    assert_string_equal(assigned(v), "/job:worker/task:0/device:CPU:0");
    assert_string_equal(ps_variable_requested_device(v), "/job:worker");
    assert_int_equal(ps_device_push(s, "/task:1"), PS_OK);
    assert_int_equal(ps_device_push(s, "/cpu:0"), PS_OK);
    v = get(s, "w1");
    assert_string_equal(assigned(v), "/job:worker/task:1/device:CPU:0");
    assert_string_equal(ps_variable_requested_device(v), "/job:worker/task:1/device:CPU:0");
    assert_int_equal(ps_device_push(s, NULL), PS_OK); /* hides them all */
    assert_string_equal(ps_variable_requested_device(get(s, "free")), "");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ps_device_pop(s), PS_OK);
    }
    assert_int_equal(ps_device_push(s, "/job:ps"), PS_OK);
    assert_string_equal(assigned(get(s, "a")), "/job:ps/task:0/device:CPU:0");
    assert_string_equal(assigned(get(s, "b")), "/job:ps/task:0/device:CPU:0"); /* seed 000: no turns without a setter */
    assert_int_equal(ps_device_pop(s), PS_OK);
    close_ok(s);
}

TEST(setter)
{
    ps_session *s = open_plain();
    ps_setter_options o;
    ps_setter_options_init(&o);
    o.ps_tasks = 2;
    assert_string_equal(assigned(get(s, "before")), "/job:ps/task:0/device:CPU:0");
    assert_int_equal(ps_device_push_setter(s, &o), PS_OK);
    ps_variable *v1 = get(s, "v1");
    assert_string_equal(assigned(v1), "/job:ps/task:0/device:CPU:0"); /* its own counter */
    assert_string_equal(ps_variable_requested_device(v1), "/job:ps/task:0");
    ps_variable_spec spec = spec_of("v2");
    spec.device = "/job:ps/task:0";
    assert_string_equal(assigned(get_spec(s, &spec)), "/job:ps/task:0/device:CPU:0"); /* the turn of task 1 is gone */
    assert_string_equal(assigned(get(s, "v3")), "/job:ps/task:0/device:CPU:0");
    assert_string_equal(assigned(get(s, "v4")), "/job:ps/task:1/device:CPU:0");
    spec = spec_of("s");
    spec.type = "Add";
    ps_variable *sum = get_spec(s, &spec);
    assert_string_equal(assigned(sum), "/job:worker/task:0/device:CPU:0");
    assert_string_equal(ps_variable_requested_device(sum), "/job:worker");
    assert_string_equal(assigned(get(s, "v5")), "/job:ps/task:0/device:CPU:0"); /* it took no turn */
    assert_int_equal(ps_device_pop(s), PS_OK);
    assert_string_equal(assigned(get(s, "after")), "/job:ps/task:1/device:CPU:0"); /* the session's counter */
    o.strategy = PS_GREEDY_BYTES;
    assert_int_equal(ps_device_push_setter(s, &o), PS_OK);
    spec = spec_of("big");
    spec.shape = PS_SHAPE(100);
    assert_int_equal(ps_variable_task(get_spec(s, &spec)), 0);
    assert_int_equal(ps_variable_task(get(s, "g1")), 1);
    assert_int_equal(ps_variable_task(get(s, "g2")), 1);
    assert_int_equal(ps_device_pop(s), PS_OK);
    close_ok(s);
    s = open_plain();
    o.strategy = (ps_placement_strategy)9;
    assert_int_equal(ps_device_push_setter(s, &o), PS_INVALID_ARGUMENT);
    o.strategy = PS_ROUND_ROBIN;
    o.ps_tasks = -1;
    assert_int_equal(ps_device_push_setter(s, &o), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_device_push_setter(s, NULL), PS_INVALID_ARGUMENT);
    o.ps_tasks = 1;
    o.ps_device = "/job:";
    assert_int_equal(ps_device_push_setter(s, &o), PS_INVALID_ARGUMENT);
    (void)ps_session_close(s);
}

TEST(setter_of_a_cluster)
{
    ps_session *s = open_plain();
    ps_cluster_spec *cluster = NULL;
    ps_setter_options o;
    ps_setter_options_init(&o);
    assert_int_equal(ps_cluster_spec_new("ps=a:1,b:1;worker=c:1,d:1", &cluster), PS_OK);
    o.cluster = cluster;
    o.ps_tasks = 1; /* does not count beside a cluster */
    assert_int_equal(ps_device_push_setter(s, &o), PS_OK);
    ps_cluster_spec_free(cluster); /* borrowed */
    for (int i = 0; i < 5; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "v%d", i + 1);
        assert_int_equal(ps_variable_task(get(s, name)), i % 2);
    }
    ps_variable *step = NULL;
    assert_int_equal(ps_global_step_get(s, &step), PS_OK); /* counts too */
    assert_int_equal(ps_variable_task(step), 1);
    assert_int_equal(ps_device_pop(s), PS_OK);
    close_ok(s);
}

TEST(found_elsewhere)
{
    ps_session *first = open_plain();
    ps_session *s = open_plain();
    ps_setter_options o;
    ps_setter_options_init(&o);
    o.ps_tasks = 2;
    (void)get(first, "pad");
    assert_int_equal(ps_variable_task(get(first, "v")), 1);
    assert_int_equal(ps_device_push_setter(s, &o), PS_OK);
    ps_variable *v = get(s, "v"); /* the strategy says task 0; what is elsewhere is found there */
    assert_int_equal(ps_variable_task(v), 1);
    assert_string_equal(ps_variable_requested_device(v), "/job:ps/task:0");
    ps_variable_spec spec = spec_of("v");
    spec.device = "/job:ps/task:0";
    refused(s, &spec, PS_INVALID_ARGUMENT, "/job:ps/task:1"); /* a scope that says so is a conflict */
    assert_int_equal(ps_device_push(s, "/task:0"), PS_OK);
    spec.device = NULL;
    refused(s, &spec, PS_INVALID_ARGUMENT, "/job:ps/task:0");
    assert_int_equal(ps_device_pop(s), PS_OK);
    assert_int_equal(ps_device_pop(s), PS_OK);
    close_ok(s);
    close_ok(first);
}

TEST(places_that_do_not_exist)
{
    for (int soft = 0; soft <= 1; soft++) {
        ps_session_options o = options_now();
        o.allow_soft_placement = soft == 1;
        ps_session *s = open_with(&o);
        ps_variable_spec spec = spec_of("v");
        spec.device = "/job:wrker/task:0";
        refused(s, &spec, PS_INVALID_ARGUMENT, "the cluster has ps (tasks 0 to 1), worker (tasks 0 to 1)");
        spec.device = "/job:worker/task:2";
        refused(s, &spec, PS_INVALID_ARGUMENT, "worker (tasks 0 to 1)");
        spec.device = "/job:ps/task:7";
        refused(s, &spec, PS_INVALID_ARGUMENT, "0 to 1");
        spec.device = "/job:ps/replica:1/task:0";
        refused(s, &spec, PS_INVALID_ARGUMENT, "/replica:1");
        spec.device = "/job:ps/task:x";
        refused(s, &spec, PS_INVALID_ARGUMENT, "/job:ps/task:x");
        spec.device = NULL;
        assert_int_equal(ps_variable_task(get_spec(s, &spec)), 0); /* none of them took a turn */
        close_ok(s);
    }
}

TEST(soft_placement)
{
    static const char *const missing[] = {"/job:worker/task:1/device:GPU:0", "/job:worker/task:1/device:CPU:1",
                                          "/job:worker/task:1/device:FPGA:3", "/job:worker/task:1/gpu"};
    ps_session *strict = open_plain();
    ps_session_options o = options_now();
    o.allow_soft_placement = true;
    ps_session *soft = open_with(&o);
    for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) {
        char name[8], canonical[PS_DEVICE_BYTES];
        (void)snprintf(name, sizeof(name), "v%zu", i);
        ps_variable_spec spec = spec_of(name);
        spec.device = missing[i];
        refused(strict, &spec, PS_INVALID_ARGUMENT, "/job:worker/task:1 has no");
        assert_non_null(strstr(ps_last_error(), "the cluster has /job:ps/task:0/device:CPU:0, /job:ps/task:1/device:CPU:0"));
        ps_variable *v = get_spec(soft, &spec);
        assert_string_equal(assigned(v), "/job:worker/task:1/device:CPU:0");
        assert_int_equal(ps_device_canonical(missing[i], canonical, sizeof(canonical)), PS_OK);
        assert_string_equal(ps_variable_requested_device(v), canonical);
    }
    ps_variable_spec spec = spec_of("fine");
    spec.device = "/cpu:0";
    assert_string_equal(assigned(get_spec(strict, &spec)), "/job:ps/task:0/device:CPU:0");
    close_ok(strict);
    close_ok(soft);
}

TEST(placement_log)
{
    ps_session_options o = options_now();
    ps_variable *v = NULL;
    o.log_device_placement = true;
    o.placement_log = keep_line;
    o.log_level = PS_LOG_ERROR;
    for (int round = 0; round < 2; round++) { /* created, then found: the same lines */
        ps_session *s = open_with(&o);
        ps_setter_options set;
        ps_setter_options_init(&set);
        set.ps_tasks = 2;
        log_text[0] = '\0';
        assert_int_equal(ps_device_push_setter(s, &set), PS_OK);
        (void)get(s, "v1");
        (void)get(s, "v2");
        ps_variable_spec spec = spec_of("s");
        spec.type = "Add";
        (void)get_spec(s, &spec);
        (void)get(s, "v1"); /* got already: the same object */
        assert_int_equal(ps_device_pop(s), PS_OK);
        assert_int_equal(ps_variable_scope_push(s, "m", PS_REUSE_AUTO), PS_OK);
        (void)ps_param_get(s, "w", PS_SHAPE(1), ps_zeros(), ps_sgd(1));
        assert_int_equal(ps_variable_find(s, "w", &v), PS_OK);
        assert_string_equal(log_text, "v1: (Variable): /job:ps/task:0/device:CPU:0\n"
                                      "v2: (Variable): /job:ps/task:1/device:CPU:0\n"
                                      "s: (Add): /job:worker/task:0/device:CPU:0\n"
                                      "m/w: (Variable): /job:ps/task:0/device:CPU:0\n");
        close_ok(s);
    }
    o.placement_log = NULL; /* the session's log */
    o.log = keep_line;
    log_text[0] = '\0';
    ps_session *s = open_with(&o);
    (void)get(s, "v2");
    assert_string_equal(log_text, "v2: (Variable): /job:ps/task:1/device:CPU:0\n");
    close_ok(s);
}

TEST(devices)
{
    ps_session *s = open_plain();
    ps_device_info infos[8];
    int total = ps_session_devices(s, infos, sizeof(*infos), 8);
    assert_true(total >= 2);
    assert_string_equal(infos[0].name, "/job:ps/task:0/device:CPU:0");
    assert_string_equal(infos[1].name, "/job:ps/task:1/device:CPU:0");
    assert_string_equal(infos[0].type, "CPU");
    assert_int_equal(infos[0].index, 0);
    assert_true(infos[0].memory_bytes > 0);
    infos[1].name[0] = '#';
    assert_int_equal(ps_session_devices(s, infos, sizeof(*infos), 1), total);
    assert_true(infos[1].name[0] == '#'); /* not written */
    assert_int_equal(ps_session_devices(s, NULL, sizeof(ps_device_info), 0), total);
    assert_int_equal(ps_session_devices(s, NULL, sizeof(ps_device_info), 1), -1);
    assert_int_equal(ps_session_devices(NULL, infos, sizeof(*infos), 8), -1);
    close_ok(s);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Who trains, what it waits for, containers, and telling everybody to stop, through the public API against real psd processes. */
#include "api_test.h"

#include <pthread.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static ps_session *open_as(const char *job, uint32_t task, const char *program)
{
    ps_session_options o;
    ps_session_options_init(&o);
    o.target = cluster.address[0];
    o.job = job;
    o.task_index = task;
    o.program = program;
    o.log = no_log;
    return open_by(&o);
}

struct seen {
    const char *program;
    ps_session_info last;
    int count, all;
};

static void see_session(void *ctx, const ps_session_info *info)
{
    struct seen *seen = ctx;
    seen->all++;
    if (strcmp(info->program, seen->program) == 0) {
        seen->last = *info;
        seen->count++;
    }
}

static struct seen look(ps_session *s, const char *program)
{
    struct seen seen = {.program = program};
    assert_int_equal(ps_task_sessions(s, 0, 5000, see_session, &seen), PS_OK);
    return seen;
}

/* What the directory knows of the chief, once a beat has said other values than these. */
static struct seen says(ps_session *s, const char *before)
{
    struct seen seen = look(s, "chief");
    for (int i = 0; i < 600 && strcmp(seen.last.values, before) == 0; i++) {
        usleep(50000); /* sleep: nobody is told of a beat */
        seen = look(s, "chief");
    }
    return seen;
}

/* A PING is a beat, which has room for the longest names of containers. */
static void the_longest_names_are_pinged(void **state)
{
    (void)state;
    static const char longest[] = "a-container-whose-name-is-as-long-as-that-of-a-container-may-be";
    ps_session_options o;
    int64_t us = 0;
    ps_session_options_init(&o);
    o.target = cluster.address[0];
    o.job = "worker";
    o.container = longest;
    ps_session *s = open_by(&o);
    assert_int_equal(strlen(longest), 63);
    ps_param *w = ps_param_get(s, "w", PS_SHAPE(4), ps_zeros(), ps_sgd(1));
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(ps_pull(s), PS_OK);
    memset(ps_param_grad(w), 0, 4 * sizeof(float));
    assert_int_equal(ps_push(s, w), PS_OK);
    assert_int_equal(ps_step_done(s), PS_OK);
    assert_int_equal(ps_task_ping(s, 0, 5000, &us), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
}

static void sessions_are_listed_with_their_steps(void **state)
{
    (void)state;
    ps_session *s = open_as(NULL, 0, "looker");
    ps_session *chief = open_as("worker", 0, "chief");
    ps_param *w = ps_param_get(chief, "steps/w", PS_SHAPE(4), ps_zeros(), ps_sgd(1));
    assert_int_equal(ps_session_ready(chief), PS_OK);
    assert_int_equal(ps_pull(chief), PS_OK);
    memset(ps_param_grad(w), 0, 4 * sizeof(float));
    assert_int_equal(ps_push(chief, w), PS_OK);
    assert_int_equal(ps_step_value(chief, "loss", 0.25), PS_OK);
    assert_int_equal(ps_step_value(chief, "top/accuracy", 1e-9), PS_OK);
    assert_int_equal(ps_step_done(chief), PS_OK);
    struct seen seen = look(s, "chief");
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.last.job, "worker");
    assert_true(seen.last.task == 0 && seen.last.pid == (uint32_t)getpid() && seen.last.connected && !seen.last.stopping);
    assert_true(seen.last.host[0] != '\0' && strlen(seen.last.id) == 16 && seen.last.in_progress == 0);
    /* its beats say the step; a PING is one */
    int64_t us = 0;
    int64_t step = ps_global_step(chief);
    assert_true(step >= 1);
    assert_int_equal(ps_task_ping(chief, 0, 5000, &us), PS_OK);
    seen = look(s, "chief");
    assert_true(seen.last.global_step == step && seen.last.steps_per_second >= 0);
    assert_true(look(s, "looker").last.global_step == -1);
    assert_string_equal(says(s, "").last.values, "loss=0.25 top/accuracy=1e-09");
    assert_string_equal(look(s, "looker").last.values, "");
    /* the next step says others, more than there is room for: whole ones are left out */
    char name[64];
    for (int i = 0; i < 5; i++) {
        (void)snprintf(name, sizeof(name), "%d/%s", i, "a-name-of-sixty-three-bytes-which-is-as-long-as-a-name-may-be");
        assert_int_equal(ps_step_value(chief, name, -1.5), PS_OK);
    }
    assert_int_equal(ps_step_value(chief, "nan", NAN), PS_OK);
    assert_string_equal(says(s, "loss=0.25 top/accuracy=1e-09").last.values,
                        "0/a-name-of-sixty-three-bytes-which-is-as-long-as-a-name-may-be=-1.5 "
                        "1/a-name-of-sixty-three-bytes-which-is-as-long-as-a-name-may-be=-1.5 nan=nan");
    assert_int_equal(ps_session_close(chief), 0);
    assert_int_equal(look(s, "chief").count, 0); /* it said goodbye */
    assert_int_equal(ps_task_sessions(s, 7, 5000, see_session, &seen), PS_OUT_OF_RANGE);
    assert_int_equal(ps_session_close(s), 0);
}

struct waits {
    int count;
    ps_wait_info last;
};

static void see_wait(void *ctx, const ps_wait_info *info)
{
    struct waits *waits = ctx;
    waits->last = *info;
    waits->count++;
}

struct waiter {
    ps_session *s;
    ps_status status;
};

static void *wait_ready(void *arg)
{
    struct waiter *waiter = arg;
    waiter->status = ps_wait_ready(waiter->s, 20000);
    return NULL;
}

static void waits_say_what_would_end_them(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    assert_int_equal(ps_reset(s), PS_OK); /* nothing that is trained */
    struct waiter waiter = {.s = open_as("worker", 1, "waiter")};
    pthread_t thread;
    struct waits waits = {0};
    ps_variable *v = get(waiter.s, "waits/w", PS_F32, PS_SHAPE(4), NULL); /* on one of the tasks: turns are taken */
    int task = ps_variable_task(v);
    assert_int_equal(pthread_create(&thread, NULL, wait_ready, &waiter), 0);
    while (waits.count == 0) {
        assert_int_equal(ps_task_waits(s, task, 5000, see_wait, &waits), PS_OK);
    }
    assert_int_equal(waits.count, 1);
    assert_string_equal(waits.last.request, "WAIT");
    assert_string_equal(waits.last.what, "sealed: waits/w");
    assert_non_null(strstr(waits.last.release, "the chief seals waits/w"));
    assert_string_equal(waits.last.program, "waiter");
    assert_true(waits.last.task == 1 && waits.last.left_ms > 0 && waits.last.left_ms <= 20000);
    struct seen seen = look(s, "waiter");
    assert_int_equal(seen.last.waits, task == 0 ? 1 : 0);
    ps_session *chief = open_as(NULL, 0, "chief");
    (void)get(chief, "waits/w", PS_F32, PS_SHAPE(4), NULL);
    assert_int_equal(ps_session_ready(chief), PS_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(waiter.status, PS_OK);
    waits.count = 0;
    assert_int_equal(ps_task_waits(s, task, 5000, see_wait, &waits), PS_OK);
    assert_int_equal(waits.count, 0);
    assert_int_equal(ps_session_close(chief), 0);
    assert_int_equal(ps_session_close(waiter.s), 0);
    assert_int_equal(ps_session_close(s), 0);
}

static void see_container(void *ctx, const ps_container_info *info)
{
    ps_container_info *all = ctx;
    if (strcmp(info->name, "localhost") == 0) {
        *all = *info;
    }
}

static void containers_are_listed(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_container_info info[2];
    ps_task_info tasks[2];
    assert_int_equal(ps_reset(s), PS_OK);
    assert_int_equal(ps_variable_init(get(s, "box/a", PS_F32, PS_SHAPE(16), ps_adagrad(1)), false), PS_OK);
    (void)get(s, "box/b", PS_F32, PS_SHAPE(16), NULL);
    for (int i = 0; i < 2; i++) {
        memset(&info[i], 0, sizeof(info[i]));
        assert_int_equal(ps_task_containers(s, i, 5000, see_container, &info[i]), PS_OK);
    }
    assert_int_equal(info[0].variables + info[1].variables, 2);
    assert_int_equal(info[0].initialised + info[1].initialised, 1);
    assert_int_equal(info[0].bytes + info[1].bytes, 128);
    assert_int_equal(ps_cluster_info(s, tasks, sizeof(*tasks), 2, 5000), PS_OK);
    assert_string_equal(tasks[0].devices, "CPU:0");
    assert_string_equal(tasks[1].devices, "CPU:0");
    assert_string_equal(tasks[0].conflict, "");
    assert_int_equal(ps_session_close(s), 0);
}

/* Told by the directory's beat; a PING is one. */
static void stop_reaches_everybody_but_later_sessions(void **state)
{
    (void)state;
    ps_session *s = open_as(NULL, 0, "looker");
    ps_session *w = open_as("worker", 0, "trainer");
    int64_t us = 0;
    uint32_t told = 0;
    assert_int_equal(ps_task_ping(w, 0, 5000, &us), PS_OK);
    assert_false(ps_should_stop(w) || ps_should_stop(s));
    assert_int_equal(ps_stop(s, 5000, &told), PS_OK);
    assert_int_equal(told, look(s, "trainer").all);
    assert_true(look(s, "trainer").last.stopping && told >= 2);
    ps_session *later = open_as("worker", 1, "later");
    assert_int_equal(ps_task_ping(w, 0, 5000, &us), PS_OK);
    assert_int_equal(ps_task_ping(s, 0, 5000, &us), PS_OK);
    assert_int_equal(ps_task_ping(later, 0, 5000, &us), PS_OK);
    while (!ps_should_stop(w) || !ps_should_stop(s)) { /* the PINGs brought it; the loop thread tells it after the call */
    }
    assert_false(ps_should_stop(later));
    assert_int_equal(ps_session_status(w), PS_OK);
    assert_int_equal(ps_stop(s, 5000, NULL), PS_OK); /* again, and nobody wants the number */
    assert_int_equal(ps_session_close(later), 0);
    assert_int_equal(ps_session_close(w), 0); /* being stopped is no error */
    assert_int_equal(ps_session_close(s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_are_listed_with_their_steps),
        cmocka_unit_test(the_longest_names_are_pinged),
        cmocka_unit_test(waits_say_what_would_end_them),
        cmocka_unit_test(containers_are_listed),
        cmocka_unit_test(stop_reaches_everybody_but_later_sessions),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

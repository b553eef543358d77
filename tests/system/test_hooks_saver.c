/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hook that asks for checkpoints, with real ps tasks: who asks, when and how often; what it says where nobody saves, where a
 * disk fails, and where a task does not write; that training goes on in all these cases.
 */
#include "daemon.h"
#include "ps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 3, TASKS = 2, TIMEOUT_MS = 60000 };

static struct test_cluster cluster;
static char dir[64];

/* Two ps tasks that save when they are asked; bare: without a place for it. */
static void start_cluster(bool bare)
{
    static char option[] = "--checkpoint_dir", when[] = "--checkpoint_seconds", never[] = "0";
    static char *const flags[] = {option, dir, when, never, NULL};
    (void)snprintf(dir, sizeof(dir), "/tmp/psd-saver-XXXXXX");
    assert_non_null(mkdtemp(dir));
    test_cluster_init(&cluster, TASKS, ";worker=127.0.0.1:1,127.0.0.1:2");
    cluster.flags = bare ? NULL : flags;
    test_cluster_start_all(&cluster);
}

static int start(void **state)
{
    (void)state;
    start_cluster(false);
    return 0;
}

static int start_bare(void **state)
{
    (void)state;
    start_cluster(true);
    return 0;
}

static int end(void **state)
{
    char rm[] = "/bin/rm", how[] = "-rf", out[64];
    char *argv[] = {rm, how, dir, NULL};
    (void)state;
    test_cluster_fini(&cluster);
    return test_run(argv, NULL, out, sizeof(out));
}

struct worker {
    ps_session *s;
    ps_param *w;
    char log[8192];
};

static void keep_log(void *ctx, ps_log_level level, const char *line)
{
    struct worker *k = ctx;
    (void)level;
    size_t used = strlen(k->log);
    (void)snprintf(k->log + used, sizeof(k->log) - used, "%s\n", line);
}

/* All it has is on the directory's task. */
static void open_worker(struct worker *k, uint32_t task, int64_t every_steps, double every_seconds, int64_t wait_ms)
{
    ps_session_options o;
    char error[512];
    memset(k, 0, sizeof(*k));
    ps_session_options_init(&o);
    o.cluster_spec = cluster.spec;
    o.job = "worker";
    o.task_index = task;
    o.operation_timeout_ms = TIMEOUT_MS;
    o.ready_timeout_ms = TIMEOUT_MS;
    o.log = keep_log;
    o.log_ctx = k;
    assert_int_equal(ps_session_open(&o, &k->s, error, sizeof(error)), PS_OK);
    assert_int_equal(ps_device_push(k->s, "/job:ps/task:0"), PS_OK);
    k->w = ps_param_get(k->s, "w", PS_SHAPE(N), ps_zeros(), ps_sgd(1));
    assert_int_equal(ps_add_checkpoint_saver_hook(k->s, every_steps, every_seconds, wait_ms), PS_OK);
}

static void ready(struct worker *k)
{
    if (ps_session_ready(k->s) != PS_OK) {
        print_error("%s\n", ps_session_error(k->s));
    }
    assert_int_equal(ps_session_status(k->s), PS_OK);
}

/* The tasks know each other: from now on a checkpoint can be saved. */
static void wait_for_tasks(const struct worker *k)
{
    while (ps_checkpoint_save(k->s, TIMEOUT_MS, NULL) == PS_UNAVAILABLE) {
        (void)usleep(20000); /* sleep: nothing says that the tasks have connected */
    }
}

static void steps(const struct worker *k, int count)
{
    for (int i = 0; i < count; i++) {
        float *g = ps_param_grad(k->w);
        assert_non_null(g);
        memset(g, 0, N * sizeof(*g));
        assert_int_equal(ps_push(k->s, k->w), PS_OK);
        assert_int_equal(ps_step_done(k->s), PS_OK);
    }
}

static int lines(const struct worker *k, const char *text)
{
    int count = 0;
    for (const char *at = k->log; (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    return count;
}

static void count(void *ctx, const ps_checkpoint_info *info)
{
    assert_int_equal(info->state, PS_CHECKPOINT_WHOLE);
    ++*(int *)ctx;
}

static int listed(const struct worker *k)
{
    int found = 0;
    assert_int_equal(ps_checkpoints(k->s, TIMEOUT_MS, count, &found), PS_OK);
    return found;
}

static void the_chief_asks(void **state)
{
    struct worker chief;
    struct worker other;
    (void)state;
    open_worker(&chief, 0, 3, 0, 0);
    wait_for_tasks(&chief);
    assert_int_equal(ps_checkpoint_delete(chief.s, 0, true, TIMEOUT_MS), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_checkpoint_restore(chief.s, 0, TIMEOUT_MS, NULL), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_checkpoint_spread(chief.s, 0, TIMEOUT_MS, NULL), PS_INVALID_ARGUMENT);
    const int before = listed(&chief);
    ready(&chief);
    assert_int_equal(lines(&chief, "ev=saver_saved"), 1); /* before the first step */
    open_worker(&other, 1, 1, 0, 0);
    ready(&other);
    steps(&chief, 2);
    assert_int_equal(lines(&chief, "ev=saver_saved"), 1);
    steps(&chief, 1);
    assert_int_equal(lines(&chief, "ev=saver_saved"), 2);
    assert_non_null(strstr(chief.log, " global_step=3 "));
    steps(&other, 3); /* another worker's steps count, and it asks for none */
    steps(&chief, 1);
    assert_int_equal(lines(&chief, "ev=saver_saved"), 3);
    assert_non_null(strstr(chief.log, " global_step=7 "));
    assert_int_equal(listed(&other), before + 3 > 5 ? 5 : before + 3); /* max_to_keep */
    assert_int_equal(ps_session_close(other.s), 0);
    assert_int_equal(lines(&other, "ev=saver"), 0);
    assert_int_equal(ps_session_close(chief.s), 0);
    assert_int_equal(lines(&chief, "ev=saver"), 3); /* the last step is saved */
    open_worker(&chief, 0, 0, 1e6, 0);
    ready(&chief);
    steps(&chief, 5);
    assert_int_equal(lines(&chief, "ev=saver_saved"), 1);
    assert_int_equal(ps_session_close(chief.s), 0);
    assert_int_equal(lines(&chief, "ev=saver_saved"), 2); /* the end */
    assert_int_equal(lines(&chief, "ev=saver_not_saved"), 0);
    assert_non_null(strstr(chief.log, " global_step=12 "));
}

/* One task does not write: the hook does not wait for it in training, at the end it does. */
static void a_task_that_does_not_write(void **state)
{
    struct worker k;
    (void)state;
    open_worker(&k, 0, 2, 0, 100);
    wait_for_tasks(&k);
    ready(&k);
    const int first = lines(&k, "ev=saver_saved");
    assert_int_equal(lines(&k, "ev=saver_not_saved"), 1 - first); /* the disk may be slow */
    test_cluster_hang(&cluster, 1);
    steps(&k, 2);
    assert_int_equal(lines(&k, "ev=saver_not_saved"), 1);
    assert_non_null(strstr(k.log, "st=DEADLINE_EXCEEDED"));
    steps(&k, 2);
    assert_int_equal(lines(&k, "ev=saver_not_saved"), 1); /* the same again: once */
    assert_int_equal(lines(&k, "ev=saver_saved"), first);
    assert_int_equal(kill(cluster.pid[1], SIGCONT), 0);
    assert_int_equal(ps_session_close(k.s), 0);
    assert_int_equal(lines(&k, "ev=saver_saved"), first + 1);
}

static void a_disk_that_fails(void **state)
{
    struct worker k;
    char rm[] = "/bin/rm", how[] = "-rf", part[80], out[64];
    char *argv[] = {rm, how, part, NULL};
    (void)state;
    open_worker(&k, 0, 1, 0, 0);
    wait_for_tasks(&k);
    ready(&k);
    (void)snprintf(part, sizeof(part), "%s/ps-1", dir);
    assert_int_equal(test_run(argv, NULL, out, sizeof(out)), 0);
    steps(&k, 3);
    assert_int_equal(lines(&k, "ev=saver_saved"), 1);
    assert_int_equal(lines(&k, "ev=saver_not_saved"), 1);
    assert_int_equal(ps_session_close(k.s), 0);
}

static void nobody_saves(void **state)
{
    struct worker k;
    (void)state;
    open_worker(&k, 0, 1, 0, 0);
    ready(&k);
    steps(&k, 3);
    assert_int_equal(lines(&k, "ev=saver_not_saved"), 1);
    assert_non_null(strstr(k.log, "st=FAILED_PRECONDITION"));
    assert_non_null(strstr(k.log, "checkpoint_dir"));
    assert_int_equal(ps_session_close(k.s), 0);
}

static void assert_refused(int64_t every_steps, int64_t wait_ms, const char *text)
{
    ps_session_options o;
    ps_session *s = NULL;
    ps_session_options_init(&o);
    o.cluster_spec = cluster.spec;
    assert_int_equal(ps_session_open(&o, &s, NULL, 0), PS_OK);
    assert_int_equal(ps_add_checkpoint_saver_hook(s, every_steps, 0, wait_ms), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_session_error(s), text));
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
}

static void what_is_wrong(void **state)
{
    (void)state;
    assert_refused(0, 0, "ps_add_checkpoint_saver_hook: every_steps and every_seconds are 0");
    assert_refused(1, -1, "ps_add_checkpoint_saver_hook: wait_ms: -1 is below 0");
}

/* A session of the chief that asks for checkpoints by the option, or by the flag, which counts more. */
static void open_asking(struct worker *k, const char *option, const char *flag)
{
    char program[] = "program", hosts[600], job[] = "--job_name=worker", dir_flag[96];
    char *argv[] = {program, hosts, job, dir_flag, NULL};
    int argc = flag == NULL ? 3 : 4;
    ps_session_options o;
    ps_monitored_options m;
    memset(k, 0, sizeof(*k));
    (void)snprintf(hosts, sizeof(hosts), "--cluster=%s", cluster.spec);
    (void)snprintf(dir_flag, sizeof(dir_flag), "--checkpoint_dir=%s", flag == NULL ? "" : flag);
    ps_session_options_init(&o);
    o.cluster_spec = cluster.spec;
    o.job = "worker";
    o.log = keep_log;
    o.log_ctx = k;
    ps_monitored_options_init(&m);
    char path[64] = "";
    (void)snprintf(path, sizeof(path), "%s", option);
    m.checkpoint_dir = path;
    if (flag == NULL) {
        assert_int_equal(ps_monitored_open(&o, &m, &k->s, NULL, 0), PS_OK);
    } else {
        k->s = option[0] != '\0' ? ps_monitored_open_args(&argc, argv, "", &m) : ps_session_open_args(&argc, argv, "");
    }
    memset(path, 'x', sizeof(path) - 1); /* it was borrowed */
    assert_int_equal(ps_device_push(k->s, "/job:ps/task:0"), PS_OK);
    k->w = ps_param_get(k->s, "w", PS_SHAPE(N), ps_zeros(), ps_sgd(1));
}

/* The path that the program names is none of the ps tasks', which say their own. */
static void training_asks(void **state)
{
    struct worker k;
    char line[256];
    (void)state;
    open_asking(&k, "/no/such/place", NULL);
    wait_for_tasks(&k);
    const int before = listed(&k);
    ready(&k);
    for (int i = 0; i < TASKS; i++) {
        (void)snprintf(line, sizeof(line), "ev=checkpoint_dir task=/job:ps/task:%d dir=%s asked=/no/such/place", i, dir);
        assert_int_equal(lines(&k, line), 1);
    }
    assert_int_equal(lines(&k, "ev=saver_saved"), 1);
    steps(&k, 3);
    assert_int_equal(listed(&k), before + 1);
    assert_int_equal(ps_session_close(k.s), 0);
    assert_int_equal(lines(&k, "ev=saver_saved"), 2);
    assert_non_null(strstr(k.log, " global_step=3 "));
    assert_int_equal(lines(&k, "ev=saver_not_saved"), 0);
    assert_int_equal(lines(&k, "ev=checkpoint_dir_none"), 0);
    open_asking(&k, "", "/by/flag"); /* at its start nothing differs, and no other one is made */
    ready(&k);
    steps(&k, 1);
    assert_int_equal(listed(&k), before + 2);
    assert_int_equal(ps_session_close(k.s), 0);
    open_asking(&k, "/by/option", "");
    ready(&k);
    assert_int_equal(listed(&k), before + 3);
    steps(&k, 1);
    assert_int_equal(ps_session_close(k.s), 0);
    open_asking(&k, "", NULL);
    ready(&k);
    assert_int_equal(listed(&k), before + 3); /* an empty flag takes the option back */
    assert_int_equal(lines(&k, "ev=checkpoint_dir"), 0);
    assert_int_equal(ps_session_close(k.s), 0);
}

static void training_asks_in_vain(void **state)
{
    struct worker k;
    (void)state;
    open_asking(&k, "/no/such/place", NULL);
    ready(&k);
    for (int i = 0; i < TASKS; i++) {
        char line[256];
        (void)snprintf(line, sizeof(line), "ev=checkpoint_dir_none task=/job:ps/task:%d asked=/no/such/place", i);
        assert_int_equal(lines(&k, line), 1);
    }
    assert_int_equal(lines(&k, "ev=saver_not_saved"), 1);
    steps(&k, 2);
    assert_int_equal(ps_session_close(k.s), 0);
    assert_int_equal(lines(&k, "ev=saver_not_saved"), 1); /* the same again */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_chief_asks, start, end),
        cmocka_unit_test_setup_teardown(a_task_that_does_not_write, start, end),
        cmocka_unit_test_setup_teardown(a_disk_that_fails, start, end),
        cmocka_unit_test_setup_teardown(nobody_saves, start_bare, end),
        cmocka_unit_test_setup_teardown(what_is_wrong, start_bare, end),
        cmocka_unit_test_setup_teardown(training_asks, start, end),
        cmocka_unit_test_setup_teardown(training_asks_in_vain, start_bare, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

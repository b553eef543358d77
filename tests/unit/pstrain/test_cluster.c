/* SPDX-License-Identifier: Apache-2.0 */
/* Which cluster and task a trainer is: flags, TF_CONFIG, which of them wins, and what is refused. */
#include "worker/pstrain/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define CONFIG "{\"cluster\": {\"ps\": [\"p:1\", \"p:2\"], \"chief\": [\"c:1\"], \"worker\": [\"w:1\", \"w:2\"]}, \"task\": %s}"

/* The flags' texts; NULL: not given */
static int find(struct cluster *c, char *err, const char *ps, const char *workers, const char *job, const char *index,
                const char *tf_config)
{
    static char texts[5][256];
    const char *const names[4] = {"ps_hosts", "worker_hosts", "job_name", "task_index"};
    const char *const values[4] = {ps, workers, job, index};
    static struct flags f;
    char flags_err[FLAGS_ERR_BYTES];
    char *argv[6] = {texts[4]};
    int argc = 1;
    for (int i = 0; i < 4; i++) {
        if (values[i] != NULL) {
            (void)snprintf(texts[i], sizeof(texts[i]), "--%s=%s", names[i], values[i]);
            argv[argc++] = texts[i];
        }
    }
    assert_int_equal(flags_parse(argc, argv, &f, flags_err), 0);
    err[0] = '\0';
    return cluster_find(&f, tf_config, c, err);
}

static const char *config(const char *task)
{
    static char text[512];
    (void)snprintf(text, sizeof(text), CONFIG, task);
    return text;
}

static void test_flags(void **state)
{
    struct cluster c;
    char err[CLUSTER_ERR_BYTES];
    (void)state;
    assert_int_equal(find(&c, err, "a:1,[::1]:2", "b:1,b:2,b:3", "worker", "2", "not JSON, and not looked at"), 0);
    assert_string_equal(c.spec, "ps=a:1,[::1]:2;worker=b:1,b:2,b:3");
    assert_string_equal(c.target, "a:1");
    assert_string_equal(c.job, "worker");
    assert_int_equal(c.task, 2);
    assert_int_equal(c.trainer, 2);
    assert_int_equal(c.ps_count, 2);
    assert_int_equal(c.trainer_count, 3);
    assert_false(c.chief);
    cluster_fini(&c);
    assert_int_equal(find(&c, err, "a:1", "b:1", "worker", NULL, NULL), 0);
    assert_true(c.chief);
    cluster_fini(&c);
    assert_int_equal(find(&c, err, "a:1", NULL, "ps", NULL, NULL), 0); /* a ps need not know who will come */
    assert_string_equal(c.spec, "ps=a:1");
    assert_int_equal(c.trainer, -1);
    assert_false(c.chief);
    cluster_fini(&c);
}

static void test_tf_config(void **state)
{
    struct cluster c;
    char err[CLUSTER_ERR_BYTES];
    (void)state;
    assert_int_equal(find(&c, err, NULL, NULL, NULL, NULL, config("{\"type\": \"worker\", \"index\": 1}")), 0);
    assert_string_equal(c.spec, "ps=p:1,p:2;chief=c:1;worker=w:1,w:2");
    assert_int_equal(c.trainer_count, 3);
    assert_int_equal(c.trainer, 2); /* the chief's job comes first */
    assert_false(c.chief);
    cluster_fini(&c);
    assert_int_equal(find(&c, err, NULL, NULL, NULL, NULL, config("{\"type\": \"worker\", \"index\": 0}")), 0);
    assert_false(c.chief); /* there is a job chief */
    cluster_fini(&c);
    assert_int_equal(find(&c, err, NULL, NULL, NULL, NULL, config("{\"type\": \"chief\", \"index\": \"0\"}")), 0);
    assert_true(c.chief);
    cluster_fini(&c);
    assert_int_equal(find(&c, err, NULL, NULL, "ps", "1", config("{\"type\": \"chief\", \"index\": 0}")), 0); /* flags win */
    assert_string_equal(c.job, "ps");
    assert_int_equal(c.task, 1);
    cluster_fini(&c);
}

static void refused(const char *word, const char *ps, const char *workers, const char *job, const char *index,
                    const char *tf_config)
{
    struct cluster c = {.task = 77};
    char err[CLUSTER_ERR_BYTES];
    assert_int_equal(find(&c, err, ps, workers, job, index, tf_config), -1);
    if (strstr(err, word) == NULL) {
        fail_msg("'%s' is not in: %s", word, err);
    }
    assert_int_equal(c.task, 77); /* untouched */
}

static void test_refusals(void **state)
{
    (void)state;
    refused("must be one of ps, worker (or let --local", NULL, NULL, NULL, NULL, NULL);
    refused("--job_name is empty: it must be one of ps, worker", "a:1", "b:1", "", NULL, NULL);
    refused("--job_name 'wrker' is unknown: it must be one of ps, worker", "a:1", "b:1", "wrker", NULL, NULL);
    refused("must be one of ps, worker, chief", NULL, NULL, "evaluator", NULL, config("{}"));
    refused("--ps_hosts is empty", NULL, "b:1", "worker", NULL, NULL);
    refused("--worker_hosts is empty", "a:1", NULL, "worker", NULL, NULL);
    refused("--task_index 1: job worker has 1 task, 0 to 0", "a:1", "b:1", "worker", "1", NULL);
    refused("--ps_hosts: entry 2 is empty", "a:1,", "b:1", "ps", NULL, NULL);
    refused("--worker_hosts: entry 1 has a ';'", "a:1", "b:1;ps=c:1", "worker", NULL, NULL);
    refused("TF_CONFIG, line 1, column", NULL, NULL, "ps", NULL, "{\"cluster\": ");
    refused("TF_CONFIG must be an object", NULL, NULL, "ps", NULL, "[]");
    refused("cluster.ps must be a list", NULL, NULL, "ps", NULL, "{\"cluster\": {\"ps\": []}}");
    refused("cluster.ps[1] must be a string", NULL, NULL, "ps", NULL, "{\"cluster\": {\"ps\": [\"a:1\", null]}}");
    refused("more than 8 jobs", NULL, NULL, "ps", NULL, "{\"cluster\": {\"ps=\": [\"a:1\"]}}");
    refused("task must be an object", NULL, NULL, NULL, NULL, config("7"));
    refused("task.index", NULL, NULL, NULL, NULL, config("{\"type\": \"worker\", \"index\": -1}"));
    refused("task.index", NULL, NULL, NULL, NULL, config("{\"type\": \"worker\", \"index\": \"1x\"}"));
    refused("TF_CONFIG: task.type 'boss' is unknown", NULL, NULL, NULL, NULL, config("{\"type\": \"boss\", \"index\": 0}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_tf_config),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Which cluster and task a trainer is: flags, TF_CONFIG, which of them wins, and what is refused. */
#include "test.h"
#include "worker/pstrain/cluster.h"

#define CONFIG "{\"cluster\": {\"ps\": [\"p:1\", \"p:2\"], \"chief\": [\"c:1\"], \"worker\": [\"w:1\", \"w:2\"]}, \"task\": %s}"

static bool by_shards;
/* The flags' texts; NULL: not given */
static const char *cluster_flag;
static int find(struct cluster *c, char *err, const char *ps, const char *workers, const char *job, const char *index,
                const char *tf_config)
{
    static char texts[6][256];
    const char *const names[5] = {"ps_hosts", "worker_hosts", "job_name", "task_index", "cluster"};
    const char *const values[5] = {ps, workers, job, index, cluster_flag};
    static struct flags f;
    char flags_err[CLI_ERR_BYTES];
    char *argv[7] = {texts[5]};
    int argc = 1;
    for (int i = 0; i < 5; i++) {
        if (values[i] != NULL) {
            (void)snprintf(texts[i], sizeof(texts[i]), "--%s=%s", names[i], values[i]);
            argv[argc++] = texts[i];
        }
    }
    assert_int_equal(flags_parse(argc, argv, &f, flags_err), 0);
    f.by_shards = by_shards;
    err[0] = '\0';
    return cluster_find(&f, tf_config, c, err);
}

static const char *config(const char *task)
{
    static char text[512];
    (void)snprintf(text, sizeof(text), CONFIG, task);
    return text;
}

TEST(test_flags)
{
    struct cluster c;
    char err[CLI_ERR_BYTES];
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

TEST(test_tf_config)
{
    struct cluster c;
    char err[CLI_ERR_BYTES];
    assert_int_equal(find(&c, err, NULL, NULL, NULL, NULL, config("{\"type\": \"worker\", \"index\": 1}")), 0);
    assert_string_equal(c.spec, "chief=c:1;ps=p:1,p:2;worker=w:1,w:2");
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
    char err[CLI_ERR_BYTES];
    assert_int_equal(find(&c, err, ps, workers, job, index, tf_config), -1);
    if (strstr(err, word) == NULL) {
        fail_msg("'%s' is not in: %s", word, err);
    }
    assert_int_equal(c.task, 77); /* untouched */
}

/* --cluster in its forms; an index that is not listed is nobody's */
TEST(test_cluster_flag)
{
    struct cluster c;
    char err[CLI_ERR_BYTES];
    cluster_flag = "{'ps': {2: 'p:1', 5: 'p:2'}, 'worker': {0: 'w:1', 3: 'w:2'}}";
    assert_int_equal(find(&c, err, NULL, NULL, "worker", "3", config("{}")), 0); /* and TF_CONFIG is not looked at */
    assert_string_equal(c.spec, "ps=2@p:1,5@p:2;worker=w:1,3@w:2");
    assert_string_equal(c.target, "p:1");
    assert_int_equal(c.task, 3);
    assert_int_equal(c.trainer, 1);
    assert_int_equal(c.trainer_count, 2);
    assert_int_equal(c.ps_count, 2);
    assert_false(c.chief);
    cluster_fini(&c);
    assert_int_equal(find(&c, err, NULL, NULL, "worker", NULL, NULL), 0);
    assert_true(c.chief);
    cluster_fini(&c);
    assert_int_equal(find(&c, err, NULL, NULL, "ps", "5", NULL), 0);
    cluster_fini(&c);
    refused("--task_index 1: job worker has 2 tasks, 0, 3", NULL, NULL, "worker", "1", NULL);
    refused("--task_index 0: job ps has 2 tasks, 2, 5", NULL, NULL, "ps", "0", NULL);
    refused("the cluster is given twice: --cluster, and --ps_hosts", "a:1", NULL, "worker", "0", NULL);
    cluster_flag = "ps=a:1;worker=1@b:1";
    assert_int_equal(find(&c, err, NULL, NULL, "worker", "1", NULL), 0);
    assert_false(c.chief); /* worker 0 is, though it is not listed */
    cluster_fini(&c);
    cluster_flag = "ps=a:1;worker=";
    refused("--cluster has no worker tasks", NULL, NULL, "worker", "2", NULL);
    by_shards = true; /* who is not listed gets work like the others */
    assert_int_equal(find(&c, err, NULL, NULL, "worker", "2", NULL), 0);
    assert_string_equal(c.spec, "ps=a:1;worker=2@unlisted:1");
    cluster_fini(&c);
    by_shards = false;
    cluster_flag = "worker=a:1";
    refused("--cluster has no ps tasks: where are they?", NULL, NULL, "worker", "0", NULL);
    cluster_flag = "ps=a:1";
    refused("--cluster has no worker tasks: this process is to be one of them", NULL, NULL, "worker", "0", NULL);
    cluster_flag = "{'ps': ['a:1']";
    refused("--cluster: cluster spec: line 1, column 15", NULL, NULL, "worker", "0", NULL);
    cluster_flag = "@/nonexistent/spec";
    refused("--cluster: cluster file /nonexistent/spec: No such file", NULL, NULL, "worker", "0", NULL);
    cluster_flag = NULL;
}

/* It is no trainer, and need not be listed. */
TEST(test_evaluator)
{
    struct cluster c;
    char err[CLI_ERR_BYTES];
    assert_int_equal(find(&c, err, NULL, NULL, NULL, NULL, config("{\"type\": \"evaluator\", \"index\": 0}")), 0);
    assert_true(c.evaluator && !c.chief && c.trainer < 0);
    assert_string_equal(c.job, "evaluator");
    assert_non_null(c.spec); /* whose model it follows */
    cluster_fini(&c);
    assert_int_equal(find(&c, err, NULL, NULL, "worker", NULL, config("{\"type\": \"evaluator\", \"index\": 0}")), 0);
    assert_false(c.evaluator);
    cluster_fini(&c);
}

TEST(test_refusals)
{
    refused("must be one of ps, worker, evaluator (or let --local", NULL, NULL, NULL, NULL, NULL);
    refused("--job_name is empty: it must be one of ps, worker, evaluator", "a:1", "b:1", "", NULL, NULL);
    refused("--job_name 'wrker' is unknown: it must be one of ps, worker, evaluator", "a:1", "b:1", "wrker", NULL, NULL);
    refused("must be one of ps, worker, chief, evaluator", NULL, NULL, "master", NULL, config("{}"));
    refused("--ps_hosts is not given", NULL, "b:1", "worker", NULL, NULL);
    refused("--worker_hosts is not given", "a:1", NULL, "worker", NULL, NULL);
    refused("--task_index 1: job worker has 1 task, 0 to 0", "a:1", "b:1", "worker", "1", NULL);
    refused("--ps_hosts: /job:ps/task:1: address '': the host is empty", "a:1,", "b:1", "ps", NULL, NULL);
    refused("--worker_hosts: /job:worker/task:0: address 'b:1;ps=c:1'", "a:1", "b:1;ps=c:1", "worker", NULL, NULL);
    refused("TF_CONFIG: line 1, column", NULL, NULL, "ps", NULL, "{\"cluster\": ");
    refused("TF_CONFIG: the text is a list, it must be an object", NULL, NULL, "ps", NULL, "[]");
    refused("TF_CONFIG: its cluster has no ps tasks", NULL, NULL, "ps", NULL, "{\"cluster\": {\"ps\": []}}");
    refused("TF_CONFIG: its cluster has no ps tasks", NULL, NULL, "worker", NULL,
            "{\"cluster\": {\"ps\": [], \"worker\": [\"b:1\"]}}");
    refused("TF_CONFIG: its cluster has no worker tasks", NULL, NULL, "worker", NULL,
            "{\"cluster\": {\"ps\": [\"a:1\"], \"worker\": []}}");
    refused("--ps_hosts is empty", "", "b:1", "worker", NULL, NULL);
    refused("--worker_hosts is empty", "a:1", "", "worker", NULL, NULL);
    refused("cluster: /job:ps/task:1 is null, it must be a string", NULL, NULL, "ps", NULL,
            "{\"cluster\": {\"ps\": [\"a:1\", null]}}");
    refused("job name 'ps='", NULL, NULL, "ps", NULL, "{\"cluster\": {\"ps=\": [\"a:1\"]}}");
    refused("task is a number, it must be an object", NULL, NULL, NULL, NULL, config("7"));
    refused("task.index", NULL, NULL, NULL, NULL, config("{\"type\": \"worker\", \"index\": -1}"));
    refused("task.index", NULL, NULL, NULL, NULL, config("{\"type\": \"worker\", \"index\": \"1x\"}"));
    refused("TF_CONFIG: task.type is 'boss', which is no job of the cluster", NULL, NULL, NULL, NULL,
            config("{\"type\": \"boss\", \"index\": 0}"));
}

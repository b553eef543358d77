/* SPDX-License-Identifier: Apache-2.0 */
/* common/cluster.c: flags and spec strings, order, faults that name the place, limits, memory faults. */
#include "test.h"

#include "common/cluster.h"
#include "common/mem.h"

#include <stdlib.h>

static void expect_spec(const struct psi_cluster *c, const char *spec)
{
    struct psi_err err;
    struct psi_buf b;
    psi_buf_init(&b, 1 << 20);
    assert_ok(psi_cluster_format(c, &b, &err), &err);
    assert_string_equal(psi_buf_text(&b), spec);
    psi_buf_fini(&b);
}

TEST(test_from_flags)
{
    struct psi_err err;
    struct psi_cluster c;
    psi_cluster_init(&c);
    assert_string_equal(c.name, "psd");
    assert_ok(psi_cluster_add_job(&c, "worker", "127.0.0.1:2224, psd://127.0.0.1:2225 ,[::1]:7", &err), &err);
    assert_ok(psi_cluster_add_job(&c, "ps", "127.0.0.1,unix:/run/ps1", &err), &err);
    assert_int_equal(psi_cluster_job_count(&c), 2);
    assert_string_equal(psi_cluster_job_name(&c, 0), "ps"); /* sorted */
    assert_string_equal(psi_cluster_job_name(&c, 1), "worker");
    assert_int_equal(psi_cluster_job_index(&c, "worker"), 1);
    assert_int_equal(psi_cluster_job_index(&c, "work"), -1);
    assert_int_equal(psi_cluster_num_tasks(&c, "worker"), 3);
    assert_int_equal(psi_cluster_num_tasks(&c, "none"), 0);
    assert_int_equal(psi_cluster_total_tasks(&c), 5);
    assert_string_equal(psi_cluster_task_address(&c, "worker", 1), "127.0.0.1:2225");
    assert_string_equal(psi_cluster_task_address(&c, "ps", 0), "127.0.0.1:2222");
    assert_null(psi_cluster_task_address(&c, "ps", 2));
    assert_null(psi_cluster_task_address(&c, "none", 0));
    expect_spec(&c, "ps=127.0.0.1:2222,unix:/run/ps1;worker=127.0.0.1:2224,127.0.0.1:2225,[::1]:7");
    psi_cluster_fini(&c);
    assert_int_equal(psi_cluster_job_count(&c), 0);
    expect_spec(&c, "");
}

TEST(test_spec_strings)
{
    struct psi_err err;
    static const struct {
        const char *in, *out;
    } good[] = {
        {"ps=a:1", "ps=a:1"},
        {"worker=c:1,d:1;ps=a:1,b:1", "ps=a:1,b:1;worker=c:1,d:1"},
        {" ps = a:1 , b:1 ; local=[::1]:5 ", "local=[::1]:5;ps=a:1,b:1"},
        {"x=unix:/tmp/a=b", "x=unix:/tmp/a=b"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        struct psi_cluster c;
        psi_cluster_init(&c);
        assert_ok(psi_cluster_parse(&c, good[i].in, &err), &err);
        expect_spec(&c, good[i].out);
        struct psi_cluster again;
        psi_cluster_init(&again);
        assert_ok(psi_cluster_parse(&again, good[i].out, &err), &err);
        expect_spec(&again, good[i].out);
        psi_cluster_fini(&c);
        psi_cluster_fini(&again);
    }
}

/* Tasks with port 0 may have one host; the directory must have a port. */
TEST(test_any_port)
{
    struct psi_err err;
    struct psi_cluster c;
    static const char *const refused[] = {"ps=a:0,b:1", "ps=3@[::1]:0;worker=a:1", "worker=a:0;zoo=b:1"};
    psi_cluster_init(&c);
    assert_ok(psi_cluster_directory_check(&c, &err), &err); /* no tasks */
    assert_ok(psi_cluster_parse(&c, "ps=a:1,b:0,b:0;worker=b:0", &err), &err);
    assert_ok(psi_cluster_directory_check(&c, &err), &err);
    assert_true(psi_address_any_port(psi_cluster_task_address(&c, "ps", 2)));
    assert_false(psi_address_any_port(psi_cluster_task_address(&c, "ps", 0)));
    assert_false(psi_address_any_port("unix:/a:0"));
    assert_ok(psi_cluster_set_address(&c, "ps", 1, "b:7", &err), &err);
    assert_fails(psi_cluster_set_address(&c, "ps", 2, "b:7", &err), PS_INVALID_ARGUMENT, &err, "given twice");
    assert_ok(psi_cluster_add_task(&c, "worker", 0, "b:0", &err), &err); /* as it is */
    psi_cluster_fini(&c);
    for (size_t i = 0; i < ARRAY_COUNT(refused); i++) {
        assert_ok(psi_cluster_parse(&c, refused[i], &err), &err);
        assert_fails(psi_cluster_directory_check(&c, &err), PS_INVALID_ARGUMENT, &err, "its own port must be 1 to 65535");
        psi_cluster_fini(&c);
    }
}

TEST(test_faults_name_the_place)
{
    struct psi_err err;
    static const struct {
        const char *in, *fault;
    } rows[] = {
        {"", "'' is not of the form JOB=HOST:PORT"},
        {"ps", "'ps' is not of the form"},
        {"ps=a:1;", "'' is not of the form"},
        {"ps=a:1,,b:1", "/job:ps/task:1: address '': the host is empty"},
        {"ps=a:1,", "/job:ps/task:1: address ''"},
        {"ps=a:1,b:99999", "/job:ps/task:1: address 'b:99999': the port"},
        {"ps=a:1,unix:/s:0,unix:/s:0", "address 'unix:/s:0' is given twice: /job:ps/task:1 and /job:ps/task:2"},
        {"=a:1", "job name ''"},
        {"p-s=a:1", "job name 'p-s'"},
        {"ps=a:1;ps=b:1", "job 'ps' is given twice"},
        {"ps=a:1,b:1,A:1", "address 'A:1' is given twice: /job:ps/task:0 and /job:ps/task:2"},
        {"ps=x,y,X", "address 'X:2222' is given twice: /job:ps/task:0 and /job:ps/task:2"},
        {"worker=x,y;ps=z,x:2222", "address 'x:2222' is given twice: /job:worker/task:0 and /job:ps/task:1"},
        {"a=unix:/s;b=unix:/s", "given twice: /job:a/task:0 and /job:b/task:0"},
        {"chief=a:1,b:1", "job 'chief': at most one chief"},
        {"master=a:1,b:1", "job 'master': at most one chief"},
        {"chief=a:1;master=b:1", "'chief' and 'master' are both given"},
        {"master=a:1;chief=b:1", "'chief' and 'master' are both given"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_cluster c;
        psi_cluster_init(&c);
        assert_ok(psi_cluster_add_job(&c, "local", "kept:1", &err), &err);
        assert_fails(psi_cluster_parse(&c, rows[i].in, &err), PS_INVALID_ARGUMENT, &err, rows[i].fault);
        assert_memory_equal(err.text, "cluster spec: ", 14);
        expect_spec(&c, "local=kept:1"); /* as it was */
        psi_cluster_fini(&c);
    }
    struct psi_cluster c;
    psi_cluster_init(&c);
    assert_fails(psi_cluster_add_job(&c, "ps", ",", &err), PS_INVALID_ARGUMENT, &err, "the host is empty");
    assert_int_equal(psi_cluster_job_count(&c), 0);
    psi_cluster_fini(&c);
}

/* A job without tasks is there, as in TensorFlow's ClusterSpec: in each form, written, read back, and compared. */
TEST(test_jobs_without_tasks)
{
    static const char *const forms[] = {"ps=a:1;worker=",
                                        "worker =  ; ps=a:1",
                                        "worker=\nps=a:1\n",
                                        "{'ps': ['a:1'], 'worker': []}",
                                        "{'worker': (), 'ps': {0: 'a:1'}}",
                                        "{\"ps\": [\"a:1\"], \"worker\": {}}"};
    struct psi_err err;
    struct psi_cluster same, without;
    struct psi_cluster_self self = {.known = false};
    psi_cluster_init(&same);
    psi_cluster_init(&without);
    assert_ok(psi_cluster_parse_tf_config(&same, "{\"cluster\": {\"ps\": [\"a:1\"], \"worker\": []}}", &self, &err), &err);
    assert_ok(psi_cluster_parse(&without, "ps=a:1", &err), &err);
    for (size_t i = 0; i < ARRAY_COUNT(forms); i++) {
        const char *job = NULL;
        uint32_t task = 9;
        char list[PSI_TASK_LIST_MAX];
        struct psi_cluster c, copy;
        struct psi_buf json;
        psi_cluster_init(&c);
        psi_cluster_init(&copy);
        psi_buf_init(&json, 1 << 10);
        assert_ok(psi_cluster_parse(&c, forms[i], &err), &err);
        expect_spec(&c, "ps=a:1;worker=");
        assert_ok(psi_cluster_format_json(&c, &json, &err), &err);
        assert_string_equal(psi_buf_text(&json), "{\"ps\": [\"a:1\"], \"worker\": {}}");
        assert_ok(psi_cluster_parse(&copy, psi_buf_text(&json), &err), &err);
        assert_true(psi_cluster_equal(&c, &copy) && psi_cluster_equal(&c, &same));
        assert_false(psi_cluster_equal(&c, &without));
        assert_true(psi_cluster_hash(&c) == psi_cluster_hash(&without));
        assert_int_equal(psi_cluster_job_count(&c), 2);
        assert_true(psi_cluster_job_index(&c, "worker") >= 0);
        assert_int_equal(psi_cluster_num_tasks(&c, "worker"), 0);
        assert_int_equal(psi_cluster_total_tasks(&c), 1);
        assert_int_equal(psi_cluster_task_number(&c, "worker", 0), UINT32_MAX);
        assert_string_equal(psi_cluster_task_list(&c, "worker", list, sizeof(list)), "none");
        assert_true(psi_cluster_directory(&c, &job, &task) && strcmp(job, "ps") == 0 && task == 0);
        assert_false(psi_cluster_chief(&c, &job, &task));
        assert_ok(psi_cluster_add_task(&c, "worker", 3, "b:1", &err), &err); /* it gets one */
        expect_spec(&c, "ps=a:1;worker=3@b:1");
        psi_buf_fini(&json);
        psi_cluster_fini(&c);
        psi_cluster_fini(&copy);
    }
    psi_cluster_fini(&same);
    psi_cluster_fini(&without);
}

/* They are no directory, no chief, and in nobody's way. */
TEST(test_jobs_without_tasks_have_no_part)
{
    static const struct {
        const char *spec, *directory, *chief; /* NULL: none */
    } rows[] = {{"ps=;worker=a:1", "worker", "worker"},
                {"chief=;ps=a:1;worker=b:1", "ps", "worker"},
                {"chief=a:1;master=;ps=b:1", "ps", "chief"},
                {"chief=;master=a:1;ps=b:1", "ps", "master"},
                {"a=;ps=;z=b:1", "z", NULL},
                {"ps=;worker=", NULL, NULL}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_err err;
        struct psi_cluster c;
        const char *job = NULL;
        uint32_t task = 9;
        psi_cluster_init(&c);
        assert_ok(psi_cluster_parse(&c, rows[i].spec, &err), &err);
        assert_int_equal(psi_cluster_directory(&c, &job, &task), rows[i].directory != NULL);
        assert_true(rows[i].directory == NULL || (strcmp(job, rows[i].directory) == 0 && task == 0));
        assert_int_equal(psi_cluster_chief(&c, &job, &task), rows[i].chief != NULL);
        assert_true(rows[i].chief == NULL || strcmp(job, rows[i].chief) == 0);
        psi_cluster_fini(&c);
    }
}

TEST(test_limits)
{
    struct psi_err err;
    for (size_t count = PS_TASKS_MAX - 1; count <= PS_TASKS_MAX + 1; count++) {
        struct psi_cluster c;
        char *hosts = malloc(count * 8);
        size_t used = 0;
        assert_non_null(hosts);
        for (size_t i = 0; i + 1 < count; i++) {
            used += (size_t)snprintf(hosts + used, 8, "%sh%zu", i == 0 ? "" : ",", i);
        }
        psi_cluster_init(&c);
        assert_ok(psi_cluster_add_job(&c, "ps", "first", &err), &err); /* the limit is over all jobs */
        if (count <= PS_TASKS_MAX) {
            assert_ok(psi_cluster_add_job(&c, "worker", hosts, &err), &err);
            assert_int_equal(psi_cluster_total_tasks(&c), count);
        } else {
            assert_fails(psi_cluster_add_job(&c, "worker", hosts, &err), PS_INVALID_ARGUMENT, &err,
                         "/job:worker/task:1023: a cluster has at most 1024 tasks");
            assert_int_equal(psi_cluster_total_tasks(&c), 1);
        }
        psi_cluster_fini(&c);
        free(hosts);
    }
    struct psi_cluster c;
    psi_cluster_init(&c);
    for (int i = 0; i < PS_JOBS_MAX; i++) {
        char job[16];
        char host[16];
        PSI_IGNORE(snprintf(job, sizeof(job), "j%d", i));
        PSI_IGNORE(snprintf(host, sizeof(host), "h:%d", i + 1));
        assert_ok(psi_cluster_add_job(&c, job, host, &err), &err);
    }
    assert_fails(psi_cluster_add_job(&c, "one", "more:1", &err), PS_INVALID_ARGUMENT, &err,
                 "job 'one': a cluster has at most 32");
    for (uint32_t i = 1; i < psi_cluster_job_count(&c); i++) {
        assert_true(strcmp(psi_cluster_job_name(&c, i - 1), psi_cluster_job_name(&c, i)) < 0);
    }
    psi_cluster_fini(&c);
}

TEST(test_directory_and_chief)
{
    struct psi_err err;
    static const struct {
        const char *spec, *directory, *chief;
    } rows[] = {
        {"ps=a,b;worker=c,d", "ps", "worker"},
        {"worker=c;alpha=a", "alpha", "worker"},
        {"ps=a;chief=b;worker=c", "ps", "chief"},
        {"zeta=a;master=b", "master", "master"},
        {"local=a", "local", NULL},
    };
    const char *job = NULL;
    uint32_t task = 9;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_cluster c;
        psi_cluster_init(&c);
        assert_ok(psi_cluster_parse(&c, rows[i].spec, &err), &err);
        assert_true(psi_cluster_directory(&c, &job, &task));
        assert_string_equal(job, rows[i].directory);
        assert_int_equal(task, 0);
        assert_int_equal(psi_cluster_chief(&c, &job, &task), rows[i].chief != NULL);
        if (rows[i].chief != NULL) {
            assert_string_equal(job, rows[i].chief);
        }
        psi_cluster_fini(&c);
    }
    struct psi_cluster empty;
    psi_cluster_init(&empty);
    assert_false(psi_cluster_directory(&empty, &job, &task));
    assert_false(psi_cluster_chief(&empty, &job, &task));
}

TEST(test_hash)
{
    struct psi_err err;
    struct psi_cluster c;
    psi_cluster_init(&c);
    /* FNV-1a of the bytes "psd" 00 00 00 00 00, computed apart from this code */
    assert_true(psi_cluster_hash(&c) == UINT64_C(0xc41b3e59302dff70));
    assert_ok(psi_cluster_parse(&c, "ps=a,b;worker=c", &err), &err);
    uint64_t two = psi_cluster_hash(&c);
    assert_true(two == UINT64_C(0x4109669dc997892)); /* "psd" 00 02 00 00 00 */
    assert_ok(psi_cluster_add_job(&c, "chief", "d", &err), &err);
    assert_true(psi_cluster_hash(&c) == two); /* other jobs and addresses do not count */
    assert_ok(psi_cluster_set_name(&c, "other", &err), &err);
    assert_true(psi_cluster_hash(&c) != two);
    assert_fails(psi_cluster_set_name(&c, "a/b", &err), PS_INVALID_ARGUMENT, &err, "cluster name 'a/b'");
    assert_string_equal(c.name, "other");
    psi_cluster_fini(&c);
}

TEST(test_set_address)
{
    struct psi_err err;
    struct psi_cluster c;
    psi_cluster_init(&c);
    assert_ok(psi_cluster_parse(&c, "ps=a:1,b:1;worker=c:1", &err), &err);
    assert_ok(psi_cluster_set_address(&c, "ps", 1, "b:77", &err), &err);
    assert_ok(psi_cluster_set_address(&c, "ps", 1, "B:77", &err), &err);
    assert_string_equal(psi_cluster_task_address(&c, "ps", 1), "b:77");
    assert_fails(psi_cluster_set_address(&c, "ps", 2, "x:1", &err), PS_INVALID_ARGUMENT, &err, "job 'ps' has no task 2");
    assert_fails(psi_cluster_set_address(&c, "none", 0, "x:1", &err), PS_INVALID_ARGUMENT, &err, "job 'none'");
    assert_fails(psi_cluster_set_address(&c, "ps", 0, "x:y", &err), PS_INVALID_ARGUMENT, &err, "'x:y'");
    assert_fails(psi_cluster_set_address(&c, "ps", 0, "c:1", &err), PS_INVALID_ARGUMENT, &err,
                 "given twice: /job:worker/task:0 and /job:ps/task:0");
    expect_spec(&c, "ps=a:1,b:77;worker=c:1");
    psi_cluster_fini(&c);
}

TEST(test_task_name)
{
    char buf[PSI_TASK_NAME_MAX];
    char job[PS_JOB_BYTES_MAX + 1];
    assert_string_equal(psi_task_name_format(buf, sizeof(buf), "ps", 1), "/job:ps/task:1");
    memset(job, 'j', sizeof(job) - 1);
    job[sizeof(job) - 1] = '\0';
    psi_task_name_format(buf, sizeof(buf), job, UINT32_MAX);
    assert_string_equal(buf + strlen(buf) - 16, "/task:4294967295"); /* the longest fits */
}

TEST(test_out_of_memory)
{
    struct psi_err err;
    struct psi_cluster c;
    psi_cluster_init(&c);
    assert_ok(psi_cluster_add_job(&c, "local", "kept:1", &err), &err);
    int64_t n = 0;
    for (;; n++) {
        psi_mem_fail_after(n);
        ps_status st = psi_cluster_parse(&c, "ps=a,b,c,d,e,f;worker=g,h", &err);
        if (psi_mem_fail_left() >= 0) {
            psi_mem_fail_after(-1);
            assert_ok(st, &err);
            break;
        }
        assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
        expect_spec(&c, "local=kept:1");
    }
    assert_true(n > 10);
    expect_spec(&c, "local=kept:1;ps=a:2222,b:2222,c:2222,d:2222,e:2222,f:2222;worker=g:2222,h:2222");
    for (n = 0;; n++) {
        struct psi_cluster copy;
        psi_cluster_init(&copy);
        psi_mem_fail_after(n);
        ps_status st = psi_cluster_copy(&copy, &c, &err);
        bool fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        assert_int_equal(st, fired ? PS_RESOURCE_EXHAUSTED : PS_OK);
        assert_int_equal(psi_cluster_job_count(&copy), fired ? 0 : 3);
        psi_cluster_fini(&copy);
        if (!fired) {
            break;
        }
    }
    psi_cluster_fini(&c);
}

TEST(test_jobs_that_train)
{
    static const char *const train[] = {"worker", "chief", "master", "evaluator"};
    static const char *const serve[] = {"ps", "local", "workers", "Worker", ""};
    for (size_t i = 0; i < ARRAY_COUNT(train); i++) {
        assert_true(psi_job_trains(train[i]));
    }
    for (size_t i = 0; i < ARRAY_COUNT(serve); i++) {
        assert_false(psi_job_trains(serve[i]));
    }
}

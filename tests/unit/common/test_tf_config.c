/* SPDX-License-Identifier: Apache-2.0 */
/* common/tf_config.c and common/json.c: TF_CONFIG as TensorFlow takes it, faults that name the place. */
#include "test.h"

#include "common/cluster.h"
#include "common/json.h"
#include "common/mem.h"

#include <stdlib.h>

TEST(test_good)
{
    struct psi_err err;
    static const struct {
        const char *json, *spec, *job; /* job NULL: nothing about this process */
        uint32_t task;
    } rows[] = {
        {"{\"cluster\":{\"ps\":[\"a:1\",\"b:1\"],\"worker\":[\"c:1\",\"d:1\"]},\"task\":{\"type\":\"worker\",\"index\":1}}",
         "ps=a:1,b:1;worker=c:1,d:1", "worker", 1},
        {"{\"cluster\":{\"worker\":[\"c\"],\"ps\":[\"a\"]},\"task\":{\"type\":\"ps\",\"index\":\"0\"}}",
         "ps=a:2222;worker=c:2222", "ps", 0},
        {"{\"cluster\":{\"chief\":[\"x:1\"],\"ps\":[\"a:1\"]},\"task\":{\"type\":\"chief\",\"index\":0,\"trial\":\"7\"},"
         "\"environment\":\"cloud\",\"rpc_layer\":\"grpc\",\"job\":{\"a\":[1]}}",
         "chief=x:1;ps=a:1", "chief", 0},
        {"{\"cluster\":{\"master\":[\"x:1\"],\"ps\":[\"a:1\"]},\"task\":{\"type\":\"master\",\"index\":0}}", "master=x:1;ps=a:1",
         "master", 0},
        {"{\"cluster\":{\"chief\":[\"x:1\"],\"ps\":[\"a:1\"]},\"task\":{\"type\":\"evaluator\",\"index\":3}}", "chief=x:1;ps=a:1",
         "evaluator", 3},
        {"{\"cluster\":{\"ps\":[\"a:1\"]}}", "ps=a:1", NULL, 0},
        {"{\"cluster\":{\"ps\":[\"a:1\"]},\"task\":{}}", "ps=a:1", NULL, 0},
        {"{\"cluster\":{\"ps\":{\"1\":\"a:1\",\"0\":\"b:1\"},\"worker\":{\"3\":\"c:1\"}},\"task\":{\"type\":\"worker\",\"index\":"
         "3}}",
         "ps=b:1,a:1;worker=3@c:1", "worker", 3},
        {"{}", "", NULL, 0},
        {"{\"cluster\":{}}", "", NULL, 0},
        {"{\"sparseCluster\":{\"worker\":{\"2\":\"c:1\"},\"ps\":[\"a:1\",\"b:1\"]},\"task\":{\"type\":\"worker\",\"index\":2}}",
         "ps=a:1,b:1;worker=2@c:1", "worker", 2},
        {"\xef\xbb\xbf{\"cluster\":{\"ps\":[\"a:1\"]}}", "ps=a:1", NULL, 0}, /* out of a file with a byte order mark */
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_cluster c;
        struct psi_cluster_self self;
        struct psi_buf b;
        psi_cluster_init(&c);
        psi_buf_init(&b, 4096);
        assert_ok(psi_cluster_parse_tf_config(&c, rows[i].json, &self, &err), &err);
        assert_ok(psi_cluster_format(&c, &b, &err), &err);
        assert_string_equal(psi_buf_text(&b), rows[i].spec);
        assert_int_equal(self.known, rows[i].job != NULL);
        if (rows[i].job != NULL) {
            assert_string_equal(self.job, rows[i].job);
            assert_int_equal(self.task, rows[i].task);
        }
        psi_buf_fini(&b);
        psi_cluster_fini(&c);
    }
}

#define CLUSTER "\"cluster\":{\"ps\":[\"a:1\"],\"worker\":[\"b:1\",\"c:1\"]}"

TEST(test_faults_name_the_place)
{
    struct psi_err err;
    static const struct {
        const char *json, *fault;
    } rows[] = {
        {"", "TF_CONFIG: line 1, column 0"},
        {"{", "TF_CONFIG: line 1"},
        {"{\n\"cluster\": nope}", "TF_CONFIG: line 2, column 15"},
        {"{} x", "TF_CONFIG: line 1"},
        {"[]", "TF_CONFIG: the text is a list, it must be an object"},
        {"{\"cluster\":[]}", "TF_CONFIG: cluster is a list"},
        {"{\"cluster\":null}", "TF_CONFIG: cluster is null"},
        {"{\"cluster\":{\"ps\":\"a:1\"}}", "TF_CONFIG: cluster: job 'ps' is a string, it must be a list"},
        {"{\"cluster\":{\"ps\":[]},\"task\":{\"type\":\"ps\",\"index\":0}}",
         "TF_CONFIG: task.type is 'ps', a job of the cluster without tasks"},
        {"{\"cluster\":{\"ps\":[\"a:1\",5]}}", "TF_CONFIG: cluster: /job:ps/task:1 is a number"},
        {"{\"cluster\":{\"ps\":[\"a:1\",\"b:65536\"]}}", "TF_CONFIG: cluster: /job:ps/task:1: address 'b:65536'"},
        {"{\"cluster\":{\"p s\":[\"a:1\"]}}", "TF_CONFIG: cluster: job name 'p s'"},
        {"{\"cluster\":{\"ps\":[\"a:1\"],\"ps\":[\"b:1\"]}}", "duplicate"},
        {"{\"cluster\":{\"ps\":[\"a:1\"],\"worker\":[\"b:1\",\"a:1\"]}}", "given twice: /job:ps/task:0 and /job:worker/task:1"},
        {"{\"cluster\":{\"chief\":[\"a:1\",\"b:1\"]}}", "at most one chief"},
        {"{\"cluster\":{\"chief\":[\"a:1\"],\"master\":[\"b:1\"]}}", "'chief' and 'master'"},
        {"{\"cluster\":{\"ps\":{\"x\":\"a:1\"}}}", "TF_CONFIG: cluster: job 'ps': 'x' is no task index from 0 to 1023"},
        {"{\"cluster\":{\"ps\":{\"1024\":\"a:1\"}}}", "job 'ps': '1024' is no task index"},
        {"{\"cluster\":{\"ps\":{\"1\":[]}}}", "/job:ps/task:1 is a list, it must be a string"},
        {"{\"cluster\":{\"ps\":{\"1\":\"a:1\",\"01\":\"b:1\"}}}", "/job:ps/task:1 is given twice"},
        {"{\"cluster\":{\"worker\":{\"1\":\"a:1\",\"4\":\"b:1\"}},\"task\":{\"type\":\"worker\",\"index\":2}}",
         "task.index is 2, job 'worker' has tasks 1, 4"},
        {"{" CLUSTER ",\"task\":[]}", "TF_CONFIG: task is a list, it must be an object with type and index"},
        {"{" CLUSTER ",\"task\":{\"index\":0}}", "task.type is absent"},
        {"{" CLUSTER ",\"task\":{\"type\":7,\"index\":0}}", "task.type is a number"},
        {"{" CLUSTER ",\"task\":{\"type\":\"wörker\",\"index\":0}}", "task.type: job name"},
        {"{" CLUSTER ",\"task\":{\"type\":\"worker\"}}", "task.index is absent"},
        {"{" CLUSTER ",\"task\":{\"type\":\"worker\",\"index\":null}}", "task.index is null"},
        {"{" CLUSTER ",\"task\":{\"type\":\"worker\",\"index\":\"one\"}}", "task.index is 'one', it must be"},
        {"{" CLUSTER ",\"task\":{\"type\":\"worker\",\"index\":\"\"}}", "task.index is '', it must be"},
        {"{" CLUSTER ",\"task\":{\"type\":\"worker\",\"index\":-1}}", "task.index is -1, it must be"},
        {"{" CLUSTER ",\"task\":{\"type\":\"worker\",\"index\":1.5}}", "task.index is 1.5, it must be"},
        {"{" CLUSTER ",\"task\":{\"type\":\"worker\",\"index\":1.0}}", "task.index is 1, it must be"},
        {"{" CLUSTER ",\"task\":{\"type\":\"worker\",\"index\":4294967296}}", "task.index is 4294967296, it must be"},
        {"{" CLUSTER ",\"task\":{\"type\":\"worker\",\"index\":2}}", "task.index is 2, job 'worker' has tasks 0 to 1"},
        {"{" CLUSTER ",\"task\":{\"type\":\"chief\",\"index\":0}}",
         "task.type is 'chief', which is no job of the cluster; it has local, ps, worker"},
        {"{\"task\":{\"type\":\"worker\",\"index\":0}}", "task is given, cluster is not"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_cluster c;
        struct psi_cluster_self self = {.task = 77};
        psi_cluster_init(&c);
        assert_ok(psi_cluster_add_job(&c, "local", "kept:1", &err), &err);
        assert_fails(psi_cluster_parse_tf_config(&c, rows[i].json, &self, &err), PS_INVALID_ARGUMENT, &err, rows[i].fault);
        assert_memory_equal(err.text, "TF_CONFIG", 9);
        assert_int_equal(psi_cluster_job_count(&c), 1);
        assert_int_equal(self.task, 77);
        psi_cluster_fini(&c);
    }
}

TEST(test_size_and_depth)
{
    struct psi_err err;
    json_t *value = NULL;
    char *text = test_alloc(PSI_JSON_BYTES_MAX + 2);
    for (size_t n = PSI_JSON_BYTES_MAX - 1; n <= PSI_JSON_BYTES_MAX + 1; n++) {
        memset(text, ' ', n);
        memcpy(text, "{}", 2);
        if (n <= PSI_JSON_BYTES_MAX) {
            assert_ok(psi_json_parse("it", text, n, &value, &err), &err);
            json_decref(value);
        } else {
            assert_fails(psi_json_parse("it", text, n, &value, &err), PS_INVALID_ARGUMENT, &err, "it: 1048577 bytes, at most");
        }
    }
    memset(text, '[', 100000);
    assert_fails(psi_json_parse("it", text, 100000, &value, &err), PS_INVALID_ARGUMENT, &err, "it: line 1");
    assert_fails(psi_json_parse("it", "{\"a\\u0000\":1}", 13, &value, &err), PS_INVALID_ARGUMENT, &err, "it: line 1");
    assert_fails(psi_json_parse("it", "\"\xff\"", 3, &value, &err), PS_INVALID_ARGUMENT, &err, "it: line 1");
}

TEST(test_type_names)
{
    struct psi_err err;
    static const struct {
        const char *text, *name;
    } rows[] = {{"{}", "an object"},          {"[]", "a list"},      {"[\"s\"]", "a string"},
                {"[1]", "a number"},          {"[1.5]", "a number"}, {"[true]", "true or false"},
                {"[false]", "true or false"}, {"[null]", "null"}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        json_t *value = NULL;
        assert_ok(psi_json_parse("it", rows[i].text, strlen(rows[i].text), &value, &err), &err);
        const json_t *looked_at = i < 2 ? value : json_array_get(value, 0);
        assert_string_equal(psi_json_type_name(looked_at), rows[i].name);
        json_decref(value);
    }
    assert_string_equal(psi_json_type_name(NULL), "absent");
}

TEST(test_out_of_memory)
{
    struct psi_err err;
    struct psi_cluster c;
    struct psi_cluster_self self;
    psi_cluster_init(&c);
    for (int64_t n = 0;; n++) {
        psi_mem_fail_after(n);
        ps_status st = psi_cluster_parse_tf_config(&c, "{" CLUSTER "}", &self, &err);
        bool fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        assert_int_equal(st, fired ? PS_RESOURCE_EXHAUSTED : PS_OK);
        assert_int_equal(psi_cluster_job_count(&c), fired ? 0 : 2);
        if (!fired) {
            assert_true(n >= 5);
            break;
        }
    }
    psi_cluster_fini(&c);
}

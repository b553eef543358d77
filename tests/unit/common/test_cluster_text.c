/* SPDX-License-Identifier: Apache-2.0 */
/* common/cluster_text.c, literal.c: every form of a ClusterSpec, faults with their places, what is written reads back. */
#include "test.h"

#include "common/cluster.h"
#include "common/literal.h"
#include "common/mem.h"

#include <stdlib.h>

static void expect_text(const struct psi_cluster *c, const char *spec, bool json)
{
    struct psi_err err;
    struct psi_buf b;
    psi_buf_init(&b, 1 << 20);
    assert_ok(json ? psi_cluster_format_json(c, &b, &err) : psi_cluster_format(c, &b, &err), &err);
    assert_string_equal(psi_buf_text(&b), spec);
    psi_buf_fini(&b);
}

#define SEED_SPEC                                                                                                                \
    "ps=tensorflow0.pipeline.io:8888,tensorflow1.pipeline.io:8888;worker=tensorflow2.pipeline.io:8888,"                          \
    "tensorflow3.pipeline.io:8888"

TEST(test_forms)
{
    struct psi_err err;
    static const struct {
        const char *in, *spec;
    } rows[] = {
        /* spec strings */
        {"ps=a:1,b:1;worker=c:1", "ps=a:1,b:1;worker=c:1"},
        {"worker=1@c:1,3@d:1", "worker=1@c:1,3@d:1"},
        {"worker=3@d:1,1@c:1", "worker=1@c:1,3@d:1"},
        {"ps=0@a:1,1@b:1", "ps=a:1,b:1"},
        {"ps=2@a:1,b:1,7@c:1,d:1", "ps=2@a:1,b:1,7@c:1,d:1"},
        {"ps= 2@a:1 ,\tb:1 ", "ps=2@a:1,b:1"},
        {"ps=1023@a:1", "ps=1023@a:1"},
        {"ps=007@a:1", "ps=7@a:1"},
        {"ps=unix:/a@b,1@unix:/c@1", "ps=unix:/a@b,unix:/c@1"},
        {"ps=3@psd://[::1]:5", "ps=3@[::1]:5"},
        {"chief=4@a:1", "chief=4@a:1"},
        {"ps=a:1\nworker=b:1", "ps=a:1;worker=b:1"},
        {"# all of it\n\n  ps=a:1,b:1 \r\n\t# trainers\nworker=b:2;chief=c:1\n\n", "chief=c:1;ps=a:1,b:1;worker=b:2"},
        /* the seed's own text */
        {"\n{\n    'ps' : ['tensorflow0.pipeline.io:8888', 'tensorflow1.pipeline.io:8888'],\n    'worker' : [ "
         "'tensorflow2.pipeline.io:8888','tensorflow3.pipeline.io:8888'],\n}\n",
         SEED_SPEC},
        /* JSON */
        {"{}", ""},
        {"{\"ps\": [\"a:1\", \"b:1\"], \"worker\": [\"c:1\"]}", "ps=a:1,b:1;worker=c:1"},
        {"{\"worker\": {\"3\": \"d:1\", \"1\": \"c:1\"}}", "worker=1@c:1,3@d:1"},
        {"{\"ps\":[\"unix:\\/run\\/ps\",\"a\"]}", "ps=unix:/run/ps,a:2222"},
        {"{\"p\\u0073\": [\"a:1\"]}", "ps=a:1"},
        /* Python */
        {"{'ps': ['a:1', 'b:1',],}", "ps=a:1,b:1"},
        {"{'ps': ('a:1', 'b:1')}", "ps=a:1,b:1"},
        {"{'worker': {1: 'c:1', 3: 'd:1',}, u'ps': [u'a:1'],}", "ps=a:1;worker=1@c:1,3@d:1"},
        {"{'ps': {0: 'a:1', '1': 'b:1'}}", "ps=a:1,b:1"},
        {"# a comment\n{'ps': # another\n ['a:1'], # the last one\n}# end", "ps=a:1"},
        {"{'ps': [\"unix:/it's\"]}", "ps=unix:/it's"},
        {"{'ps': ['unix:/a#b']}", "ps=unix:/a#b"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_cluster c;
        struct psi_cluster again;
        struct psi_buf b;
        psi_cluster_init(&c);
        psi_cluster_init(&again);
        psi_buf_init(&b, 4096);
        assert_ok(psi_cluster_parse(&c, rows[i].in, &err), &err);
        expect_text(&c, rows[i].spec, false);
        if (rows[i].spec[0] != '\0') {
            assert_ok(psi_cluster_parse(&again, rows[i].spec, &err), &err);
            assert_true(psi_cluster_equal(&c, &again));
        }
        psi_cluster_fini(&again);
        assert_ok(psi_cluster_format_json(&c, &b, &err), &err);
        assert_ok(psi_cluster_parse(&again, psi_buf_text(&b), &err), &err);
        assert_true(psi_cluster_equal(&c, &again));
        psi_cluster_fini(&again);
        psi_cluster_fini(&c);
        psi_buf_fini(&b);
    }
}

TEST(test_json_is_written)
{
    struct psi_err err;
    static const struct {
        const char *in, *json;
    } rows[] = {
        {"{}", "{}"},
        {"ps=a:1,b:1;worker=c:1", "{\"ps\": [\"a:1\", \"b:1\"], \"worker\": [\"c:1\"]}"},
        {"ps=1@a:1", "{\"ps\": {\"1\": \"a:1\"}}"},
        {"ps=a:1,2@b:1", "{\"ps\": {\"0\": \"a:1\", \"2\": \"b:1\"}}"},
        {"ps=unix:/a\"b\\c", "{\"ps\": [\"unix:/a\\\"b\\\\c\"]}"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_cluster c;
        psi_cluster_init(&c);
        assert_ok(psi_cluster_parse(&c, rows[i].in, &err), &err);
        expect_text(&c, rows[i].json, true);
        psi_cluster_fini(&c);
    }
}

TEST(test_faults_name_the_place)
{
    struct psi_err err;
    static const struct {
        const char *in, *fault;
    } rows[] = {
        /* spec strings */
        {"", "line 1, column 1: '' is not of the form JOB=HOST:PORT,HOST:PORT"},
        {"# nothing\n\n", "'' is not of the form"},
        {"ps=a:1,b:1,c:x", "line 1, column 12: /job:ps/task:2: address 'c:x'"},
        {"ps=a:1;worker=5@b:x", "line 1, column 15: /job:worker/task:5: address 'b:x'"},
        {"ps=a:1\n  worker=b, a:1", "line 2, column 13: address 'a:1' is given twice: /job:ps/task:0 and /job:worker/task:1"},
        {"ps=a:1\n# x\n worker b:1", "line 3, column 2: 'worker b:1' is not of the form"},
        {"ps=a:1\nworker=b:1,\n", "line 2, column 12: /job:worker/task:1: address ''"},
        {"ps=a:1\n\nps=b:1", "line 3, column 1: job 'ps' is given twice"},
        {"ps=a:1;;worker=b:1", "line 1, column 8: '' is not of the form"},
        {"ps=1@a:1,1@b:1", "line 1, column 10: /job:ps/task:1 is given twice"},
        {"ps=1@a:1,a:1", "address 'a:1' is given twice: /job:ps/task:1 and /job:ps/task:2"},
        {"ps=3@a:1;w=7@A:1", "line 1, column 12: address 'A:1' is given twice: /job:ps/task:3 and /job:w/task:7"},
        {"ps=1024@a:1", "line 1, column 4: job 'ps': task 1024: a task index is at most 1023"},
        {"ps=99999999999@a:1", "task 99999999999: a task index is at most 1023"},
        {"ps=1023@a:1,b:1", "/job:ps/task:1024: a task index is at most 1023"},
        {"ps=@a:1", "address '@a:1'"},
        {"ps=-1@a:1", "address '-1@a:1'"},
        {"ps=1@", "/job:ps/task:1: address ''"},
        {"chief=1@a:1,2@b:1", "at most one chief"},
        /* literals: grammar */
        {"{", "line 1, column 2: a job name in quotes, or '}', is expected, not the end"},
        {"{'ps'", "line 1, column 6: ':' is expected, not the end"},
        {"{'ps':", "line 1, column 7: job 'ps': a list of addresses, or {index: address}, is expected, not the end"},
        {"{'ps': 'a:1'}",
         "line 1, column 8: job 'ps': a list of addresses, or {index: address}, is expected, not the string 'a:1'"},
        {"{'ps': 7}", "is expected, not '7'"},
        {"{'ps': [", "line 1, column 9: an address in quotes, or the end of the list, is expected, not the end"},
        {"{'ps': ['a:1'", "',' or the end of the list is expected, not the end"},
        {"{'ps': ['a:1' 'b:1']}", "line 1, column 15: ',' or the end of the list is expected, not the string 'b:1'"},
        {"{'ps': ['a:1')}", "',' or the end of the list is expected, not ')'"},
        {"{'ps': ['a:1',, 'b:1']}", "an address in quotes, or the end of the list, is expected, not ','"},
        {"{'ps': [7]}", "is expected, not '7'"},
        {"{'ps': [['a:1']]}", "line 1, column 9: an address in quotes, or the end of the list, is expected, not '['"},
        {"{'ps': [None]}", "is expected, not 'None'"},
        {"{'ps': ['a:1']} x", "line 1, column 17: the end of the text is expected, not 'x'"},
        {"{'ps': ['a:1']}{}", "the end of the text is expected, not '{'"},
        {"{ps: ['a:1']}", "line 1, column 2: a job name in quotes, or '}', is expected, not 'ps'"},
        {"{,}", "is expected, not ','"},
        {"{'ps': {1 'a:1'}}", "':' and an address is expected, not the string 'a:1'"},
        {"{'ps': {1: 7}}", "an address in quotes is expected, not '7'"},
        {"{'ps': {-1: 'a:1'}}", "line 1, column 9: a task index from 0 to 1023, or '}', is expected, not '-1'"},
        {"{'ps': {1.0: 'a:1'}}", "is expected, not '1.0'"},
        {"{'ps': {1024: 'a:1'}}", "a task index from 0 to 1023, or '}', is expected, not '1024'"},
        {"{'ps': {'x': 'a:1'}}", "is expected, not the string 'x'"},
        {"{'ps': {1: {2: 'a:1'}}}", "an address in quotes is expected, not '{'"},
        {"{'ps': ['a:1']}; 'x'", "line 1, column 16: ';' does not belong here"},
        {"{\n'ps': [\n  'a:1',\n  @]}", "line 4, column 3: '@' does not belong here"},
        {"{'ps': ['\xc3\xa4']}", "/job:ps/task:0: address"},
        {"{\xc3\xa4}", "line 1, column 2: '\\xc3' does not belong here"},
        {"{'ps': ['a:1\n']}", "line 1, column 9: the string is not closed on its line"},
        {"{'ps': ['a:1", "line 1, column 9: the string is not closed"},
        {"{'ps': [\"a:1']}", "the string is not closed"},
        {"{'ps': ['a\\n']}", "line 1, column 11: an escape that no name and no address needs"},
        {"{'ps': ['a\\u00e4']}", "an escape that no name"},
        {"{'ps': ['a\\u12']}", "an escape that no name"},
        {"{'ps': ['a\\", "an escape that no name"},
        {"{'ps': [b'a:1']}", "is expected, not 'b'"},
        {"[['ps']]", "is not of the form"}, /* a spec string, as it does not begin with a brace */
        /* literals: what a cluster refuses */
        {"{'ps': [], 'ps': {}}", "line 1, column 12: job 'ps' is given twice"},
        {"{'p s': ['a:1']}", "line 1, column 2: job name 'p s'"},
        {"{'ps': ['a:1'],\n 'ps': ['b:1']}", "line 2, column 2: job 'ps' is given twice"},
        {"{'ps': {1: 'a:1', 1: 'b:1'}}", "line 1, column 22: /job:ps/task:1 is given twice"},
        {"{'ps': ['a:1',\n        'b:65536']}", "line 2, column 9: /job:ps/task:1: address 'b:65536': the port"},
        {"{'ps': ['a:1'], 'worker': {4: 'A:1'}}",
         "line 1, column 31: address 'A:1' is given twice: /job:ps/task:0 and /job:worker/task:4"},
        {"{'chief': ['a:1', 'b:1']}", "at most one chief"},
        {"{'chief': ['a:1'], 'master': ['b:1']}", "'chief' and 'master' are both given"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_cluster c;
        psi_cluster_init(&c);
        assert_ok(psi_cluster_add_job(&c, "local", "kept:1,4@kept:2", &err), &err);
        assert_fails(psi_cluster_parse(&c, rows[i].in, &err), PS_INVALID_ARGUMENT, &err, rows[i].fault);
        assert_memory_equal(err.text, "cluster spec: line ", 19);
        expect_text(&c, "local=kept:1,4@kept:2", false); /* as it was */
        psi_cluster_fini(&c);
    }
}

/* Strings of 510 to 512 bytes, numbers of many digits. */
TEST(test_long_tokens)
{
    struct psi_err err;
    struct psi_token t;
    for (size_t n = PSI_LITERAL_TEXT_MAX - 1; n <= PSI_LITERAL_TEXT_MAX + 1; n++) {
        for (int quoted = 0; quoted < 2; quoted++) {
            char text[PSI_LITERAL_TEXT_MAX + 8];
            struct psi_literal l;
            memset(text, '1', sizeof(text));
            text[quoted ? 0 : n] = quoted ? '\'' : '\0';
            if (quoted) {
                memcpy(text + n + 1, "'", 2);
            }
            psi_literal_init(&l, text);
            if (n > PSI_LITERAL_TEXT_MAX) {
                assert_fails(psi_literal_next(&l, &t, &err), PS_INVALID_ARGUMENT, &err, "has more than 511 bytes");
            } else {
                assert_ok(psi_literal_next(&l, &t, &err), &err);
                assert_int_equal(t.kind, quoted ? PSI_TOKEN_STRING : PSI_TOKEN_NUMBER);
                assert_int_equal(t.len, n);
            }
        }
    }
}

TEST(test_add_task)
{
    struct psi_err err;
    struct psi_cluster c;
    char list[48];
    psi_cluster_init(&c);
    static const uint32_t order[] = {5, 0, 9, 1, 6, 3};
    for (size_t i = 0; i < ARRAY_COUNT(order); i++) {
        char address[16];
        snprintf(address, sizeof(address), "h%u", order[i]);
        assert_ok(psi_cluster_add_task(&c, "ps", order[i], address, &err), &err);
    }
    expect_text(&c, "ps=h0:2222,h1:2222,3@h3:2222,5@h5:2222,h6:2222,9@h9:2222", false);
    assert_string_equal(psi_cluster_task_list(&c, "ps", list, sizeof(list)), "0 to 1, 3, 5 to 6, 9");
    assert_int_equal(psi_cluster_task_index(&c, "ps", 3), 5);
    assert_null(psi_cluster_task_address(&c, "ps", 2));
    for (uint32_t at = 0; at < 6; at++) {
        assert_int_equal(psi_cluster_task_number(&c, "ps", psi_cluster_task_index(&c, "ps", at)), at);
    }
    assert_true(psi_cluster_task_number(&c, "ps", 2) == UINT32_MAX && psi_cluster_task_number(&c, "ps", 10) == UINT32_MAX);
    assert_true(psi_cluster_task_number(&c, "worker", 0) == UINT32_MAX);
    struct psi_cluster more;
    psi_cluster_init(&more);
    assert_ok(psi_cluster_copy(&more, &c, &err), &err);
    assert_ok(psi_cluster_add_job(&more, "chief", "c", &err), &err); /* sorted before ps */
    assert_int_equal(psi_cluster_task_number(&more, "chief", 0), 0);
    assert_int_equal(psi_cluster_task_number(&more, "ps", 9), 6);
    psi_cluster_fini(&more);
    assert_string_equal(psi_cluster_task_address(&c, "ps", 9), "h9:2222");
    assert_ok(psi_cluster_add_task(&c, "ps", 9, "H9:2222", &err), &err);
    assert_fails(psi_cluster_add_task(&c, "ps", 9, "x", &err), PS_INVALID_ARGUMENT, &err,
                 "/job:ps/task:9 is at 'h9:2222' already");
    assert_fails(psi_cluster_add_task(&c, "ps", 9, "x:y", &err), PS_INVALID_ARGUMENT, &err, "/job:ps/task:9: address 'x:y'");
    assert_fails(psi_cluster_add_task(&c, "ps", 1024, "x", &err), PS_INVALID_ARGUMENT, &err, "at most 1023");
    assert_fails(psi_cluster_add_task(&c, "w", 0, "h3", &err), PS_INVALID_ARGUMENT, &err, "/job:ps/task:3 and /job:w/task:0");
    assert_int_equal(psi_cluster_job_count(&c), 1);
    for (uint32_t i = 20; i < 40; i += 2) {
        char address[16];
        snprintf(address, sizeof(address), "h%u", i);
        assert_ok(psi_cluster_add_task(&c, "ps", i, address, &err), &err);
    }
    assert_string_equal(psi_cluster_task_list(&c, "ps", list, sizeof(list)), "0 to 1, 3, 5 to 6, 9, 20, 22, ...");
    char jobs[PS_JOB_BYTES_MAX + 8];
    assert_string_equal(psi_cluster_job_list(&c, jobs, sizeof(jobs)), "ps");
    for (int i = 0; i < 20; i++) {
        char job[16];
        snprintf(job, sizeof(job), "job%d", i);
        assert_ok(psi_cluster_add_task(&c, job, 0, job, &err), &err);
    }
    assert_string_equal(psi_cluster_job_list(&c, jobs, sizeof(jobs)),
                        "job0, job1, job10, job11, job12, job13, job14, job15, job16, ...");
    psi_cluster_fini(&c);
}

TEST(test_directory_and_chief_of_sparse_jobs)
{
    struct psi_err err;
    static const struct {
        const char *spec, *directory;
        uint32_t directory_task;
        const char *chief;
        uint32_t chief_task;
    } rows[] = {
        {"ps=3@a,5@b;worker=2@c", "ps", 3, "worker", 0}, /* worker 0 is the chief, listed or not */
        {"worker=2@c;chief=4@d", "chief", 4, "chief", 4},
        {"local=7@a", "local", 7, NULL, 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_cluster c;
        const char *job = NULL;
        uint32_t task = 99;
        psi_cluster_init(&c);
        assert_ok(psi_cluster_parse(&c, rows[i].spec, &err), &err);
        assert_true(psi_cluster_directory(&c, &job, &task));
        assert_string_equal(job, rows[i].directory);
        assert_int_equal(task, rows[i].directory_task);
        assert_int_equal(psi_cluster_chief(&c, &job, &task), rows[i].chief != NULL);
        if (rows[i].chief != NULL) {
            assert_string_equal(job, rows[i].chief);
            assert_int_equal(task, rows[i].chief_task);
        }
        psi_cluster_fini(&c);
    }
    struct psi_cluster dense;
    struct psi_cluster sparse;
    psi_cluster_init(&dense);
    psi_cluster_init(&sparse);
    assert_ok(psi_cluster_parse(&dense, "ps=a,b", &err), &err);
    assert_ok(psi_cluster_parse(&sparse, "ps=3@a,5@b", &err), &err);
    assert_true(psi_cluster_hash(&dense) == psi_cluster_hash(&sparse)); /* the number of ps tasks counts */
    assert_false(psi_cluster_equal(&dense, &sparse));
    psi_cluster_fini(&dense);
    psi_cluster_fini(&sparse);
}

TEST(test_out_of_memory)
{
    struct psi_err err;
    struct psi_cluster c;
    psi_cluster_init(&c);
    for (int64_t n = 0;; n++) {
        psi_mem_fail_after(n);
        ps_status st = psi_cluster_parse(&c, "{'ps': {3: 'a', 1: 'b', 5: 'c', 7: 'd', 9: 'e'}, 'w': ['f']}", &err);
        bool fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        assert_int_equal(st, fired ? PS_RESOURCE_EXHAUSTED : PS_OK);
        assert_int_equal(psi_cluster_job_count(&c), fired ? 0 : 2);
        if (!fired) {
            assert_true(n >= 8);
            break;
        }
    }
    psi_mem_fail_after(0);
    ps_status st = psi_cluster_add_task(&c, "new", 0, "z", &err);
    psi_mem_fail_after(-1);
    assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
    assert_int_equal(psi_cluster_job_count(&c), 2);
    psi_cluster_fini(&c);
}

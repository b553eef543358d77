/* SPDX-License-Identifier: Apache-2.0 */
/* worker/api/spec.c: ps_cluster.h as a program sees it, without any session. */
#include "test.h"

#include "common/mem.h"
#include "common/status.h"
#include "ps.h"

#include <stdlib.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void expect_error(ps_status st, ps_status wanted, const char *part)
{
    if (st != wanted || strstr(ps_last_error(), part) == NULL) {
        fail_msg("%s '%s', expected %s with '%s'", ps_status_name(st), ps_last_error(), ps_status_name(wanted), part);
    }
}

static ps_cluster_spec *spec_of(const char *text)
{
    ps_cluster_spec *spec = NULL;
    if (ps_cluster_spec_new(text, &spec) != PS_OK) {
        fail_msg("'%s': %s", text != NULL ? text : "", ps_last_error());
    }
    return spec;
}

TEST(test_reads_a_cluster)
{
    ps_cluster_spec *spec = spec_of("{'ps': ['a:1', 'b:1'], 'worker': {3: 'd:1', 1: 'c:1'}}");
    int indices[4] = {-7, -7, -7, -7};
    const char *tasks[5] = {"x", "x", "x", "x", "x"};
    assert_int_equal(ps_cluster_spec_job_count(spec), 2);
    assert_string_equal(ps_cluster_spec_job(spec, 0), "ps");
    assert_string_equal(ps_cluster_spec_job(spec, 1), "worker");
    assert_null(ps_cluster_spec_job(spec, 2));
    assert_null(ps_cluster_spec_job(spec, -1));
    assert_int_equal(ps_cluster_spec_num_tasks(spec, "ps"), 2);
    assert_int_equal(ps_cluster_spec_num_tasks(spec, "worker"), 2);
    assert_int_equal(ps_cluster_spec_num_tasks(spec, "none"), -1);
    assert_int_equal(ps_cluster_spec_task_indices(spec, "worker", indices, 4), 2);
    assert_true(indices[0] == 1 && indices[1] == 3 && indices[2] == -7);
    assert_int_equal(ps_cluster_spec_task_indices(spec, "worker", indices + 3, 1), 2);
    assert_int_equal(indices[3], 1);
    assert_int_equal(ps_cluster_spec_task_indices(spec, "worker", NULL, 0), 2);
    assert_int_equal(ps_cluster_spec_task_indices(spec, "none", indices, 4), -1);
    assert_string_equal(ps_cluster_spec_task_address(spec, "worker", 3), "d:1");
    assert_null(ps_cluster_spec_task_address(spec, "worker", 2));
    assert_null(ps_cluster_spec_task_address(spec, "worker", -1));
    assert_null(ps_cluster_spec_task_address(spec, "none", 0));
    assert_int_equal(ps_cluster_spec_job_tasks(spec, "worker", tasks, 5), 4);
    assert_true(tasks[0] == NULL && tasks[2] == NULL);
    assert_string_equal(tasks[1], "c:1");
    assert_string_equal(tasks[3], "d:1");
    assert_string_equal(tasks[4], "x");
    assert_int_equal(ps_cluster_spec_job_tasks(spec, "worker", NULL, 0), 4);
    assert_int_equal(ps_cluster_spec_job_tasks(spec, "none", tasks, 5), -1);
    assert_string_equal(ps_cluster_spec_text(spec), "ps=a:1,b:1;worker=1@c:1,3@d:1");
    assert_string_equal(ps_cluster_spec_as_dict(spec),
                        "{\"ps\": [\"a:1\", \"b:1\"], \"worker\": {\"1\": \"c:1\", \"3\": \"d:1\"}}");
    ps_cluster_spec *same = spec_of(ps_cluster_spec_as_dict(spec));
    assert_true(ps_cluster_spec_equal(spec, same));
    assert_int_equal(ps_cluster_spec_add_task(same, "worker", 0, "e:1"), PS_OK);
    assert_false(ps_cluster_spec_equal(spec, same));
    assert_false(ps_cluster_spec_equal(spec, NULL));
    assert_true(ps_cluster_spec_equal(NULL, NULL));
    ps_cluster_spec_free(same);
    ps_cluster_spec_free(spec);
    ps_cluster_spec_free(NULL);
}

TEST(test_a_job_without_tasks)
{
    const char *address = "";
    int index = 9;
    ps_cluster_spec *spec = spec_of("ps=a:1;worker="), *same = spec_of("{'ps': ['a:1'], 'worker': {}}");
    assert_true(ps_cluster_spec_equal(spec, same));
    assert_int_equal(ps_cluster_spec_job_count(spec), 2);
    assert_int_equal(ps_cluster_spec_num_tasks(spec, "worker"), 0);
    assert_int_equal(ps_cluster_spec_num_tasks(spec, "chief"), -1);
    assert_int_equal(ps_cluster_spec_task_indices(spec, "worker", &index, 1), 0);
    assert_int_equal(ps_cluster_spec_job_tasks(spec, "worker", &address, 1), 0);
    assert_null(ps_cluster_spec_task_address(spec, "worker", 0));
    assert_string_equal(ps_cluster_spec_as_dict(spec), "{\"ps\": [\"a:1\"], \"worker\": {}}");
    ps_cluster_spec_free(same);
    same = spec_of("ps=a:1");
    assert_int_equal(ps_cluster_spec_add_job(same, "worker", ""), PS_OK);
    assert_true(ps_cluster_spec_equal(spec, same));
    ps_cluster_spec_free(same);
    ps_cluster_spec_free(spec);
}

TEST(test_builds_a_cluster)
{
    ps_cluster_spec *spec = spec_of(NULL);
    assert_int_equal(ps_cluster_spec_job_count(spec), 0);
    assert_string_equal(ps_cluster_spec_text(spec), "");
    assert_string_equal(ps_cluster_spec_as_dict(spec), "{}");
    assert_int_equal(ps_cluster_spec_add_job(spec, "ps", "a:1,3@b:1"), PS_OK);
    assert_int_equal(ps_cluster_spec_add_task(spec, "worker", 2, "c"), PS_OK);
    assert_int_equal(ps_cluster_spec_add_task(spec, "worker", 2, "C:2222"), PS_OK); /* the same */
    expect_error(ps_cluster_spec_add_task(spec, "worker", 2, "d"), PS_INVALID_ARGUMENT,
                 "/job:worker/task:2 is at 'c:2222' already, it cannot be at 'd:2222' too");
    expect_error(ps_cluster_spec_add_task(spec, "worker", 3, "b:1"), PS_INVALID_ARGUMENT,
                 "address 'b:1' is given twice: /job:ps/task:3 and /job:worker/task:3");
    expect_error(ps_cluster_spec_add_task(spec, "new", 0, "b:x"), PS_INVALID_ARGUMENT, "/job:new/task:0: address 'b:x'");
    expect_error(ps_cluster_spec_add_task(spec, "worker", -1, "x"), PS_INVALID_ARGUMENT, "task -1");
    expect_error(ps_cluster_spec_add_task(spec, "worker", 1024, "x"), PS_INVALID_ARGUMENT, "a task index is at most 1023");
    expect_error(ps_cluster_spec_add_job(spec, "ps", "x:1"), PS_INVALID_ARGUMENT, "job 'ps' is given twice");
    expect_error(ps_cluster_spec_add_job(spec, "x", "y:1,a:1"), PS_INVALID_ARGUMENT,
                 "given twice: /job:ps/task:0 and /job:x/task:1");
    assert_string_equal(ps_cluster_spec_text(spec), "ps=a:1,3@b:1;worker=2@c:2222"); /* unchanged by what failed */
    ps_cluster_spec_free(spec);
}

TEST(test_from_tf_config)
{
    ps_cluster_spec *spec = NULL;
    char job[64] = "x";
    int task = 7;
    assert_int_equal(ps_cluster_spec_from_tf_config("{\"cluster\":{\"ps\":[\"a:1\"],\"worker\":{\"5\":\"b:1\"}},"
                                                    "\"task\":{\"type\":\"worker\",\"index\":\"5\"}}",
                                                    &spec, job, sizeof(job), &task),
                     PS_OK);
    assert_string_equal(job, "worker");
    assert_int_equal(task, 5);
    assert_string_equal(ps_cluster_spec_text(spec), "ps=a:1;worker=5@b:1");
    ps_cluster_spec_free(spec);
    assert_int_equal(ps_cluster_spec_from_tf_config("{}", &spec, job, sizeof(job), &task), PS_OK);
    assert_string_equal(job, "");
    assert_int_equal(task, -1);
    expect_error(ps_cluster_spec_from_tf_config("{}", &spec, job, 63, &task), PS_INVALID_ARGUMENT, "out_job has 63 bytes, 64");
    ps_cluster_spec_free(spec);
    assert_int_equal(ps_cluster_spec_from_tf_config("{}", &spec, NULL, 0, NULL), PS_OK);
    ps_cluster_spec_free(spec);
    spec = NULL;
    expect_error(ps_cluster_spec_from_tf_config("{\"cluster\":7}", &spec, job, sizeof(job), &task), PS_INVALID_ARGUMENT,
                 "TF_CONFIG: cluster is a number");
    assert_null(spec);
}

TEST(test_from_a_manager)
{
    char *environment[] = {"RANK=1",       "WORLD_SIZE=2",  "LOCAL_RANK=1",  "LOCAL_WORLD_SIZE=2",
                           "GROUP_RANK=0", "MASTER_ADDR=a", "MASTER_PORT=1", NULL};
    char *nothing[] = {NULL};
    ps_resolver_options o;
    ps_resolved found;
    ps_cluster_spec *spec = NULL;
    ps_resolver_options_init(NULL);
    ps_resolver_options_init(&o);
    o.ps_tasks = 1;
    o.base_port = 2000;
    assert_int_equal(ps_cluster_resolve(&o, environment, &spec, &found), PS_OK);
    assert_string_equal(ps_cluster_spec_text(spec), "ps=a:2000;worker=rank-1.invalid:1");
    assert_string_equal(found.manager, "torchrun");
    assert_string_equal(found.job, "worker");
    assert_int_equal(found.task, 0);
    assert_non_null(strstr(found.why, "RANK='1'"));
    ps_cluster_spec_free(spec);
    spec = NULL;
    environment[0] = "RANK=2";
    expect_error(ps_cluster_resolve(&o, environment, &spec, &found), PS_INVALID_ARGUMENT, "RANK='2': it must be a whole number");
    assert_null(spec);
    ps_resolver_options_init(&o);
    assert_int_equal(ps_cluster_resolve(&o, nothing, &spec, &found), PS_OK);
    assert_int_equal(ps_cluster_spec_job_count(spec), 0);
    assert_string_equal(found.manager, "none");
    ps_cluster_spec_free(spec);
    expect_error(ps_cluster_resolve(NULL, nothing, &spec, &found), PS_INVALID_ARGUMENT, "options is NULL");
    expect_error(ps_cluster_resolve(&o, NULL, &spec, &found), PS_INVALID_ARGUMENT, "environment is NULL");
    expect_error(ps_cluster_resolve(&o, nothing, NULL, &found), PS_INVALID_ARGUMENT, "out_spec is NULL");
    expect_error(ps_cluster_resolve(&o, nothing, &spec, NULL), PS_INVALID_ARGUMENT, "out_resolved is NULL");
    o.struct_bytes = 0;
    expect_error(ps_cluster_resolve(&o, nothing, &spec, &found), PS_INVALID_ARGUMENT, "ps_resolver_options_init()");
}

TEST(test_from_file)
{
    char path[] = "/tmp/psd-spec-XXXXXX";
    char at[sizeof(path) + 1];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    static const char text[] = "# the cluster\nps=a:1,b:1\n\n  # trainers\nworker=1@c:1\n";
    assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    snprintf(at, sizeof(at), "@%s", path);
    ps_cluster_spec *spec = spec_of(at);
    assert_string_equal(ps_cluster_spec_text(spec), "ps=a:1,b:1;worker=1@c:1");
    ps_cluster_spec_free(spec);
    spec = NULL;
    assert_int_equal(write(fd, "\0", 1), 1);
    expect_error(ps_cluster_spec_new(at, &spec), PS_INVALID_ARGUMENT, "byte 52 is zero");
    assert_int_equal(ftruncate(fd, 0), 0);
    expect_error(ps_cluster_spec_new(at, &spec), PS_INVALID_ARGUMENT, "line 1, column 1: '' is not of the form");
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    /* the limit, and one more */
    char *large = test_alloc((1 << 20) + 1);
    memset(large, '\n', (1 << 20) + 1);
    memcpy(large, "ps=a:1", 6);
    assert_int_equal(write(fd, large, 1 << 20), 1 << 20);
    spec = spec_of(at);
    ps_cluster_spec_free(spec);
    spec = NULL;
    assert_int_equal(write(fd, large, 1), 1);
    expect_error(ps_cluster_spec_new(at, &spec), PS_INVALID_ARGUMENT, "has more than 1048576 bytes");
    close(fd);
    unlink(path);
    expect_error(ps_cluster_spec_new(at, &spec), PS_NOT_FOUND, path);
    expect_error(ps_cluster_spec_new("@/", &spec), PS_INVALID_ARGUMENT, "cluster file /");
    assert_null(spec);
}

TEST(test_devices)
{
    char out[PS_DEVICE_BYTES];
    assert_int_equal(ps_device_canonical("/task:1/job:ps/cpu:0", out, sizeof(out)), PS_OK);
    assert_string_equal(out, "/job:ps/task:1/device:CPU:0");
    expect_error(ps_device_canonical("/bus:1", out, sizeof(out)), PS_INVALID_ARGUMENT, "device '/bus:1': part 'bus:1'");
    assert_string_equal(out, "/job:ps/task:1/device:CPU:0");
    assert_int_equal(ps_device_merge("/job:ps/task:1", "/task:2/gpu:0", out, sizeof(out)), PS_OK);
    assert_string_equal(out, "/job:ps/task:2/device:GPU:0");
    expect_error(ps_device_canonical("/cpu:0", out, sizeof(out) - 1), PS_INVALID_ARGUMENT,
                 "ps_device_canonical: out has 159 bytes, 160 are needed");
    expect_error(ps_device_merge("/cpu:0", "", out, 0), PS_INVALID_ARGUMENT, "ps_device_merge: out has 0 bytes");
    assert_string_equal(out, "/job:ps/task:2/device:GPU:0");
    expect_error(ps_device_merge("/x", "", out, sizeof(out)), PS_INVALID_ARGUMENT, "device '/x'");
    expect_error(ps_device_merge("", "/y", out, sizeof(out)), PS_INVALID_ARGUMENT, "device '/y'");
}

static void expect_place(ps_placer *p, const char *type, const char *device, bool pinned)
{
    char out[PS_DEVICE_BYTES];
    bool is_pinned = !pinned;
    assert_int_equal(ps_placer_place(p, type, 8, out, sizeof(out), &is_pinned), PS_OK);
    assert_string_equal(out, device);
    assert_int_equal(is_pinned, pinned);
    assert_int_equal(ps_placer_place(p, "NoOp", 0, out, sizeof(out), NULL), PS_OK);
}

TEST(test_placer)
{
    ps_placer *p = ps_placer_new();
    ps_cluster_spec *spec = spec_of("ps=1@a:1,4@b:1;worker=c:1");
    ps_setter_options o;
    ps_setter_options_init(&o);
    o.cluster = spec;
    o.ps_tasks = 9; /* the cluster counts */
    expect_place(p, NULL, "", false);
    assert_int_equal(ps_placer_push_setter(p, &o), PS_OK);
    ps_cluster_spec_free(spec);                     /* the setter keeps nothing of it */
    expect_place(p, NULL, "/job:ps/task:1", false); /* turns go over the tasks that are there */
    expect_place(p, "VariableV2", "/job:ps/task:4", false);
    assert_int_equal(ps_placer_push(p, "/task:1"), PS_OK);
    expect_place(p, NULL, "/job:ps/task:1", true);
    assert_int_equal(ps_placer_push(p, NULL), PS_OK);
    expect_place(p, NULL, "", false);
    assert_int_equal(ps_placer_pop(p), PS_OK);
    assert_int_equal(ps_placer_pop(p), PS_OK);
    expect_place(p, NULL, "/job:ps/task:4", false);
    expect_place(p, "Queue", "/job:worker", true);
    assert_int_equal(ps_placer_pop(p), PS_OK);
    expect_error(ps_placer_pop(p), PS_FAILED_PRECONDITION, "no device scope is open");
    ps_setter_options_init(&o);
    assert_int_equal(ps_placer_push_setter(p, &o), PS_OK); /* does nothing */
    expect_place(p, NULL, "", false);
    o.ps_tasks = 2;
    o.strategy = PS_GREEDY_BYTES;
    assert_int_equal(ps_placer_push_setter(p, &o), PS_OK);
    char out[PS_DEVICE_BYTES];
    static const char *const greedy[] = {"/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:1"};
    expect_error(ps_placer_place(p, NULL, 1, out, sizeof(out) - 1, NULL), PS_INVALID_ARGUMENT, "out has 159 bytes"); /* no turn */
    for (size_t i = 0; i < COUNT(greedy); i++) {
        assert_int_equal(ps_placer_place(p, NULL, i == 0 ? 100 : 10, out, sizeof(out), NULL), PS_OK);
        assert_string_equal(out, greedy[i]);
    }
    expect_error(ps_placer_push(p, "/job:"), PS_INVALID_ARGUMENT, "device '/job:'");
    o.ps_tasks = -1;
    expect_error(ps_placer_push_setter(p, &o), PS_INVALID_ARGUMENT, "ps_tasks is -1");
    o.ps_tasks = 1025;
    expect_error(ps_placer_push_setter(p, &o), PS_INVALID_ARGUMENT, "ps_tasks is 1025");
    o.ps_tasks = 1;
    o.strategy = (ps_placement_strategy)7;
    expect_error(ps_placer_push_setter(p, &o), PS_INVALID_ARGUMENT, "strategy: 7");
    o.struct_bytes = offsetof(ps_setter_options, strategy); /* an older caller's: the default strategy */
    assert_int_equal(ps_placer_push_setter(p, &o), PS_OK);
    assert_int_equal(ps_placer_pop(p), PS_OK);
    o.struct_bytes = 0;
    expect_error(ps_placer_push_setter(p, &o), PS_INVALID_ARGUMENT, "not initialised");
    expect_error(ps_placer_push_setter(p, NULL), PS_INVALID_ARGUMENT, "options is NULL");
    ps_placer_free(p);
    ps_placer_free(NULL);
}

TEST(test_null_arguments)
{
    char out[PS_DEVICE_BYTES];
    ps_cluster_spec *spec = spec_of("");
    expect_error(ps_cluster_spec_new("ps=a:1", NULL), PS_INVALID_ARGUMENT, "ps_cluster_spec_new: out_spec is NULL");
    expect_error(ps_cluster_spec_from_tf_config(NULL, &spec, NULL, 0, NULL), PS_INVALID_ARGUMENT, "json is NULL");
    expect_error(ps_cluster_spec_add_job(NULL, "a", "b"), PS_INVALID_ARGUMENT, "spec is NULL");
    expect_error(ps_cluster_spec_add_job(spec, NULL, "b"), PS_INVALID_ARGUMENT, "job is NULL");
    expect_error(ps_cluster_spec_add_task(spec, "a", 0, NULL), PS_INVALID_ARGUMENT, "address is NULL");
    assert_int_equal(ps_cluster_spec_job_count(NULL), 0);
    assert_int_equal(ps_cluster_spec_num_tasks(NULL, "ps"), -1);
    assert_int_equal(ps_cluster_spec_num_tasks(spec, NULL), -1);
    assert_null(ps_cluster_spec_task_address(NULL, "ps", 0));
    assert_null(ps_cluster_spec_text(NULL));
    assert_null(ps_cluster_spec_as_dict(NULL));
    expect_error(ps_device_canonical(NULL, out, sizeof(out)), PS_INVALID_ARGUMENT, "device is NULL");
    expect_error(ps_device_merge("", NULL, out, sizeof(out)), PS_INVALID_ARGUMENT, "inner is NULL");
    expect_error(ps_placer_push(NULL, ""), PS_INVALID_ARGUMENT, "placer is NULL");
    expect_error(ps_placer_push_setter(NULL, NULL), PS_INVALID_ARGUMENT, "placer is NULL");
    expect_error(ps_placer_pop(NULL), PS_INVALID_ARGUMENT, "placer is NULL");
    expect_error(ps_placer_place(NULL, NULL, 0, out, sizeof(out), NULL), PS_INVALID_ARGUMENT, "placer is NULL");
    ps_cluster_spec_free(spec);
}

TEST(test_no_memory)
{
    ps_cluster_spec *spec = NULL;
    for (int64_t n = 0;; n++) {
        psi_mem_fail_after(n);
        ps_status st = ps_cluster_spec_new("{'ps': ['a', 'b', 'c', 'd', 'e']}", &spec);
        bool fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        if (!fired) {
            assert_int_equal(st, PS_OK);
            break;
        }
        expect_error(st, PS_RESOURCE_EXHAUSTED, "memory");
        assert_null(spec);
    }
    psi_mem_fail_after(0);
    const char *text = ps_cluster_spec_text(spec);
    psi_mem_fail_after(-1);
    assert_null(text);
    assert_string_equal(ps_cluster_spec_text(spec), "ps=a:2222,b:2222,c:2222,d:2222,e:2222");
    ps_cluster_spec_free(spec);
    psi_mem_fail_after(0);
    ps_placer *p = ps_placer_new();
    psi_mem_fail_after(-1);
    assert_null(p);
}

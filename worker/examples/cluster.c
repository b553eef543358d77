/* SPDX-License-Identifier: Apache-2.0 */
/* A ClusterSpec, its device names, and where variables ask to be: the first part of "Distributed Tensorflow". Contacts nobody. */
#include <ps_cluster.h>
#include <ps.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS_MAX = 1024 };
static const char seed_spec[] = "{\n"
                                "    'ps' : ['tensorflow0.pipeline.io:8888', 'tensorflow1.pipeline.io:8888'],\n"
                                "    'worker' : [ 'tensorflow2.pipeline.io:8888','tensorflow3.pipeline.io:8888'],\n"
                                "}\n";

static void print_tasks(const ps_cluster_spec *spec, const char *job) /* ['a:1', None, 'b:1'] */
{
    static const char *tasks[TASKS_MAX];
    int count = ps_cluster_spec_job_tasks(spec, job, tasks, TASKS_MAX);
    for (int i = 0; i < count; i++) {
        printf(tasks[i] != NULL ? "%s'%s'" : "%sNone", i > 0 ? ", " : "[", tasks[i]);
    }
    printf("]");
}

static void print_definition(const ps_cluster_spec *spec) /* {'ps': ['a:1'], 'worker': {1: 'b:1'}} */
{
    int jobs = ps_cluster_spec_job_count(spec);
    for (int i = 0; i < jobs; i++) {
        static int indices[TASKS_MAX];
        const char *job = ps_cluster_spec_job(spec, i);
        int count = ps_cluster_spec_task_indices(spec, job, indices, TASKS_MAX);
        printf("%s'%s': ", i > 0 ? ",\n " : "{", job);
        if (indices[count - 1] == count - 1) {
            print_tasks(spec, job);
            continue;
        }
        for (int k = 0; k < count; k++) {
            printf("%s%d: '%s'", k > 0 ? ", " : "{", indices[k], ps_cluster_spec_task_address(spec, job, indices[k]));
        }
        printf("}");
    }
    printf("%s}\n", jobs == 0 ? "{" : "");
}

static int device_names(const ps_cluster_spec *spec, const char *job, char names[][PS_DEVICE_BYTES])
{
    static int indices[TASKS_MAX];
    int count = ps_cluster_spec_task_indices(spec, job, indices, TASKS_MAX);
    for (int i = 0; i < count; i++) {
        (void)snprintf(names[i], PS_DEVICE_BYTES, "/job:%s/task:%d", job, indices[i]);
        printf("%s'%s'", i > 0 ? ", " : "[", names[i]);
    }
    puts(count > 0 ? "]" : "[]");
    return count;
}

static void check(ps_status st)
{
    if (st != PS_OK) {
        (void)fprintf(stderr, "cluster: %s\n", ps_last_error());
        exit(2);
    }
}

int main(int argc, char **argv)
{
    static char workers[TASKS_MAX][PS_DEVICE_BYTES], param_servers[TASKS_MAX][PS_DEVICE_BYTES];
    ps_cluster_spec *spec = NULL;
    char device[PS_DEVICE_BYTES];
    bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        (void)fprintf(help ? stdout : stderr, "usage: cluster [SPEC]\n"
                                              "SPEC: ps=HOST:PORT,...;worker=HOST:PORT,..., JSON, a Python literal, or @FILE\n");
        return help ? 0 : 2;
    }
    check(ps_cluster_spec_new(argc > 1 ? argv[1] : seed_spec, &spec));
    ps_placer *placer = ps_placer_new();
    if (placer == NULL) {
        return 1; /* no memory */
    }
    print_definition(spec);
    for (int i = 0; i < ps_cluster_spec_job_count(spec); i++) {
        printf("%s'%s'", i > 0 ? ", " : "[", ps_cluster_spec_job(spec, i));
    }
    puts(ps_cluster_spec_job_count(spec) > 0 ? "]" : "[]");
    for (int i = 0; i < ps_cluster_spec_job_count(spec); i++) {
        printf("('%s', ", ps_cluster_spec_job(spec, i));
        print_tasks(spec, ps_cluster_spec_job(spec, i));
        puts(")");
    }
    (void)device_names(spec, "worker", workers);
    int ps = device_names(spec, "ps", param_servers);
    check(ps_placer_place(placer, "Variable", 0, device, sizeof(device), NULL)); /* outside any scope */
    printf("'%s'\n", device);
    for (int i = 0; i < ps; i++) { /* with tf.device(ps): v = tf.Variable("my_var") */
        check(ps_placer_push(placer, param_servers[i]));
        check(ps_placer_place(placer, "Variable", 0, device, sizeof(device), NULL));
        check(ps_placer_pop(placer));
    }
    printf("'%s'\n", device);
    ps_placer_free(placer);
    ps_cluster_spec_free(spec);
    return fflush(stdout) == 0 ? 0 : 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a ClusterSpec, its device names and the devices that variables ask for, without contacting a server. Then prints the
 * VariableDef of a variable without a given name, from a server in this program. */
#include <ps_cluster.h>
#include <ps.h>
#include <psd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS_MAX = 1024 };
static const char seed_spec[] = "{ 'ps' : ['tensorflow0.pipeline.io:8888', 'tensorflow1.pipeline.io:8888'],\n"
                                "'worker' : [ 'tensorflow2.pipeline.io:8888','tensorflow3.pipeline.io:8888'] }";
static char error[512];

static void must(ps_status st)
{
    if (st != PS_OK) {
        fprintf(stderr, "cluster: %s\n", error[0] != '\0' ? error : ps_last_error());
        exit(2);
    }
}

int main(int argc, char **argv)
{
    static const char *const of[] = {"worker", "ps"}, *addresses[TASKS_MAX];
    static int tasks[TASKS_MAX];
    char device[PS_DEVICE_BYTES] = "", def[PS_VARIABLE_DEF_BYTES];
    int count = 0;
    ps_cluster_spec *spec = NULL;
    psd_server *server = NULL;
    ps_session *s = NULL;
    ps_session_options open;
    ps_variable_spec variable;
    ps_variable *v = NULL;
    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
        fputs("usage: cluster [SPEC]\nSPEC: ps=HOST:PORT,...;worker=HOST:PORT,..., JSON, a Python literal, or @FILE\n",
              help ? stdout : stderr);
        return help ? 0 : 2;
    }
    must(ps_cluster_spec_new(argc > 1 ? argv[1] : seed_spec, &spec));
    for (const char *c = ps_cluster_spec_as_dict(spec); *c != '\0'; c++) { /* cluster_def, which is JSON here */
        printf("%c%s", *c == '"' ? '\'' : *c, strncmp(c, ", \"", 3) == 0 && strchr("]}", c[-1]) != NULL ? "\n" : "");
    }
    printf("\n[");
    for (int j = 0; j < ps_cluster_spec_job_count(spec); j++) { /* spec.jobs */
        printf("%s'%s'", j > 0 ? ", " : "", ps_cluster_spec_job(spec, j));
    }
    puts("]");
    for (int j = 0; j < ps_cluster_spec_job_count(spec); j++) { /* like spec.job_tasks(job): ['a:1', None, 'b:1'] */
        printf("('%s', [", ps_cluster_spec_job(spec, j));
        count = ps_cluster_spec_job_tasks(spec, ps_cluster_spec_job(spec, j), addresses, TASKS_MAX);
        for (int i = 0; i < count; i++) {
            printf(addresses[i] != NULL ? "%s'%s'" : "%sNone", i > 0 ? ", " : "", addresses[i]);
        }
        puts("])");
    }
    for (int j = 0; j < 2; j++) { /* workers, param_servers */
        count = ps_cluster_spec_task_indices(spec, of[j], tasks, TASKS_MAX);
        for (int i = 0; i < count; i++) {
            printf("%s'/job:%s/task:%d'", i > 0 ? ", " : "[", of[j], tasks[i]);
        }
        puts(count > 0 ? "]" : "[]");
    }
    must(psd_server_create_local(&server, error, sizeof(error)));
    ps_session_options_init(&open), open.target = psd_server_target(server), open.log_level = PS_LOG_WARN;
    must(ps_session_open(&open, &s, error, sizeof(error)));
    ps_variable_spec_init(&variable), variable.dtype = PS_STRING; /* no name is given: the names are Variable, Variable_1 ... */
    ps_placer *placer = ps_placer_new();
    for (int i = -1; i < 0 || i < count; i++) { /* -1: variable l, in no device scope; then a variable v on each ps task */
        if (i >= 0) {
            snprintf(device, sizeof(device), "/job:ps/task:%d", tasks[i]);
        }
        must(ps_placer_push(placer, device)), must(ps_placer_place(placer, NULL, 0, device, sizeof(device), NULL));
        must(ps_placer_pop(placer)), must(ps_variable_get(s, &variable, &v));
        if (i < 0 || i + 1 == count) {
            printf("'%s'\n", device); /* TensorFlow: l.device, v.device */
        }
    }
    must(ps_variable_def(v, def, sizeof(def))), printf("%s", def);
    ps_placer_free(placer), ps_session_close(s), psd_server_free(server), ps_cluster_spec_free(spec);
    return fflush(stdout) == 0 ? 0 : 1;
}

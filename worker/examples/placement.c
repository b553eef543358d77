/* SPDX-License-Identifier: Apache-2.0 */
/* Variables by turns over the ps tasks, a sum and two products pinned to worker tasks, and the log that says where each is.
 * All servers of the cluster run in this process, each with its own target; with --target they run elsewhere. */
#include <psd.h>
#include <ps.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SERVERS_MAX = 64, VARIABLES_MAX = 100 };
static psd_server *servers[SERVERS_MAX]; /* ps 0, ps 1, worker 0, ...: jobs by name */
static int server_count;

static const char usage[] = "usage: placement [--cluster SPEC | --target HOST:PORT,HOST:PORT] [--variables N] [--first X]\n"
                            "SPEC is like ps=h:p,h:p;worker=h:p,h:p. With --target the variables are made through the first of\n"
                            "two servers and read through the other. v1 is X, v2 is X + 1, ...\n";

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "placement: %s: %s\n", what, why);
    return 1;
}

/* One server for each task of the cluster. */
static int start_servers(const char *cluster)
{
    char error[512];
    ps_cluster_spec *spec = NULL;
    if (ps_cluster_spec_new(cluster, &spec) != PS_OK) {
        return fail("--cluster", ps_last_error());
    }
    for (int j = 0; j < ps_cluster_spec_job_count(spec); j++) {
        int tasks[SERVERS_MAX], count = ps_cluster_spec_task_indices(spec, ps_cluster_spec_job(spec, j), tasks, SERVERS_MAX);
        for (int t = 0; t < count && server_count < SERVERS_MAX; t++) {
            psd_server_options options;
            psd_server_options_init(&options);
            options.cluster_spec = ps_cluster_spec_text(spec);
            options.job = ps_cluster_spec_job(spec, j);
            options.task_index = (uint32_t)tasks[t];
            if (psd_server_start(&options, &servers[server_count], error, sizeof(error)) != PS_OK) {
                ps_cluster_spec_free(spec);
                return fail("server", error);
            }
            server_count++;
        }
    }
    ps_cluster_spec_free(spec);
    return 0;
}

static void on_placement(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx, (void)level;
    puts(line);
}

static ps_session *open_session(const char *target, int log_placement)
{
    ps_session *s = NULL;
    ps_session_options options;
    ps_session_options_init(&options);
    options.target = target;
    options.log_level = PS_LOG_WARN;
    options.log_device_placement = log_placement != 0;
    options.placement_log = on_placement;
    return ps_session_open(&options, &s, NULL, 0) == PS_OK ? s : NULL;
}

/* A scalar of this type whose initializer gives value, initialised. */
static int make(ps_session *s, const char *name, const char *type, double value)
{
    ps_variable *v = NULL;
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.type = type;
    spec.dtype = PS_F32;
    spec.init = ps_constant(value);
    return ps_variable_get(s, &spec, &v) != PS_OK || ps_variable_init(v, true) != PS_OK;
}

static int read_value(ps_session *s, const char *name, float *value)
{
    ps_variable *v = NULL;
    return ps_variable_find(s, name, &v) != PS_OK || ps_variable_read(v, value, sizeof(*value)) != PS_OK;
}

/* Everything in its scope; the values of s, p1 and p2 are computed here and kept on the workers. */
static int build(ps_session *s, int variables, double first)
{
    char name[16];
    float v1 = 0, v2 = 0;
    ps_setter_options setter;
    ps_setter_options_init(&setter);
    setter.ps_tasks = ps_ps_count(s);
    setter.ps_device = "/job:ps";
    setter.worker_device = "/job:worker";
    int bad = ps_device_push_setter(s, &setter) != PS_OK;
    for (int i = 1; !bad && i <= variables; i++) {
        snprintf(name, sizeof(name), "v%d", i);
        bad = make(s, name, "Variable", first + i - 1); /* pinned to /job:ps/task:0, 1, ... in turn */
    }
    bad = bad || read_value(s, "v1", &v1) || read_value(s, "v2", &v2);
    const double sum = (double)(v1 + v2);
    bad = bad || make(s, "s", "Add", sum);              /* /job:worker, so task 0 and CPU:0 */
    bad = bad || ps_device_push(s, "/task:1") != PS_OK; /* inside it: */
    bad = bad || make(s, "p1", "Mul", 2 * sum);         /* /job:worker/task:1 */
    bad = bad || ps_device_push(s, "/cpu:0") != PS_OK;  /* and inside that: */
    bad = bad || make(s, "p2", "Mul", 3 * sum);         /* /job:worker/task:1/cpu:0 */
    return bad || ps_device_pop(s) != PS_OK || ps_device_pop(s) != PS_OK || ps_device_pop(s) != PS_OK;
}

static int print_value(ps_session *s, const char *name)
{
    float value = 0;
    if (read_value(s, name, &value)) {
        return 1;
    }
    printf("%s = %g\n", name, (double)value);
    return 0;
}

static int print_values(ps_session *s, int variables)
{
    char name[16];
    int bad = 0;
    for (int i = 1; !bad && i <= variables; i++) {
        snprintf(name, sizeof(name), "v%d", i);
        bad = print_value(s, name);
    }
    return bad || print_value(s, "s") || print_value(s, "p1") || print_value(s, "p2");
}

static int run(const char *target, const char *other, int variables, double first)
{
    ps_session *s = open_session(target, 1);
    int bad = s == NULL || build(s, variables, first);
    ps_session *reader = bad ? NULL : open_session(other, 0);
    if (bad || reader == NULL || print_values(reader, variables)) {
        bad = fail("failed", ps_last_error());
    }
    ps_session_close(reader);
    ps_session_close(s);
    return bad;
}

int main(int argc, char **argv)
{
    const char *cluster = "ps=127.0.0.1:2221,127.0.0.1:2222;worker=127.0.0.1:2223,127.0.0.1:2224,127.0.0.1:2225";
    char *targets = NULL, *end = NULL;
    long variables = 5;
    double first = 1;
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        int ok = value[0] != '\0';
        if (ok && strcmp(argv[i], "--cluster") == 0) {
            cluster = value;
        } else if (ok && strcmp(argv[i], "--target") == 0) {
            targets = argv[i + 1];
            ok = strchr(targets, ',') != NULL;
        } else if (ok && strcmp(argv[i], "--variables") == 0) {
            variables = strtol(value, &end, 10);
            ok = *end == '\0' && variables >= 2 && variables <= VARIABLES_MAX;
        } else if (ok && strcmp(argv[i], "--first") == 0) {
            first = strtod(value, &end);
            ok = *end == '\0';
        } else {
            ok = 0;
        }
        if (!ok) {
            int help = strcmp(argv[i], "--help") == 0;
            fputs(usage, help ? stdout : stderr);
            return help ? 0 : 2;
        }
    }
    int bad = targets == NULL && start_servers(cluster);
    if (!bad && targets != NULL) {
        char *comma = strchr(targets, ',');
        *comma = '\0';
        bad = run(targets, comma + 1, (int)variables, first);
    } else if (!bad) {
        bad = run(psd_server_target(servers[0]), psd_server_target(servers[server_count - 1]), (int)variables, first);
    }
    for (int i = 0; i < server_count; i++) {
        psd_server_free(servers[i]);
    }
    return bad;
}

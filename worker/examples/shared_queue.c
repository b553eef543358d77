/* SPDX-License-Identifier: Apache-2.0 */
/* A ps and its workers, each a process with a server of its own. The workers add ones to `var` on the ps, and put the result of
 * each addition into a queue there. So the queue gets every number once, and at the end the ps takes all of them out. */
#include <ps.h>
#include <psd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int workers, total;
static unsigned pause_s = 1; /* sleep after each step, in seconds */
static char who[32] = "shared_queue", error[512];
static ps_session *s; /* after fork() each process has its own s, var, q and value */
static ps_variable *var;
static ps_queue *q;
static float value;

static void must(ps_status st)
{
    if (st != PS_OK) {
        fprintf(stderr, "%s: %s: %s\n", who, ps_status_name(st), error[0] != '\0' ? error : ps_last_error());
        exit(1);
    }
}

static psd_server *begin(const char *cluster, const char *job, uint32_t task) /* both roles: serve, open session and queue */
{
    psd_server *server = NULL;
    psd_server_options serve;
    ps_session_options open;
    ps_variable_spec variable;
    ps_queue_spec queue;
    snprintf(who, sizeof(who), job[0] == 'p' ? "Parameter server" : "Worker %u", task);
    psd_server_options_init(&serve), serve.cluster_spec = cluster, serve.job = job, serve.task_index = task;
    serve.key_file = getenv("PSD_KEY_FILE"); /* NULL: without keys, whoever reaches the task may do everything */
    must(psd_server_start(&serve, &server, error, sizeof(error)));
    ps_session_options_init(&open), open.target = psd_server_target(server), open.job = job, open.task_index = task;
    must(ps_session_open(&open, &s, error, sizeof(error)));
    printf("%s: waiting for cluster connection...\n", who);
    must(ps_session_wait_cluster(s, "ps,worker", 0));
    printf("%s: cluster ready!\n", who);
    ps_variable_spec_init(&variable), variable.name = "var", variable.dtype = PS_F32, variable.device = "/job:ps/task:0";
    ps_queue_spec_init(&queue, "shared_queue", PS_F32, PS_SCALAR), queue.device = variable.device, queue.capacity = total;
    must(ps_variable_get(s, &variable, &var)); /* the first process to ask creates it, the others find it */
    must(ps_queue_get(s, &queue, &q));
    return server;
}

static void parameter_server(void)
{
    const ps_into into[] = {{&value, sizeof(value)}};
    uint64_t size = 0;
    printf("%s: initializing variables...\n", who);
    must(ps_variable_init(var, true));
    printf("%s: variables initialized\n", who);
    for (int i = 0; i < 10; i++, sleep(pause_s)) { /* sleep: the pace */
        must(ps_variable_read(var, &value, sizeof(value)));
        if (value >= (float)total) {
            break;
        }
        printf("%s: var has value %.1f\n", who, (double)value);
    }
    must(ps_barrier(s, "ended", workers + 1)); /* waits here for the workers, which come after their last step */
    must(ps_queue_size(q, &size));
    for (printf("ps q.size():  %d\n", (int)size); size > 0; size--) {
        must(ps_dequeue(q, into, 1, 0));
        printf("ps: r %.1f\n", (double)value);
    }
    printf("%s: ended...\n", who);
}

static void worker(int steps)
{
    const float one = 1;
    const ps_from from[] = {{&value, sizeof(value)}};
    for (; ps_report_uninitialized(s, NULL, 0) > 0; sleep(1)) { /* sleep: the pace */
        printf("%s: waiting for variable initialization...\n", who);
    }
    printf("%s: variables initialized\n", who);
    for (int i = 0; i < steps; i++, sleep(pause_s)) { /* sleep: the pace */
        must(ps_variable_read(var, &value, sizeof(value)));
        printf("%s: incrementing var %.1f\n", who, (double)value);
        must(ps_variable_assign_add(var, &one, sizeof(one), &value, sizeof(value)));
        must(ps_enqueue(q, from, 1, 0));
    }
    printf("%s: ended...\n", who);
    must(ps_barrier(s, "ended", workers + 1));
}

int main(int argc, char **argv)
{
    const char *cluster = argc > 1 ? argv[1] : "worker=localhost:2223,localhost:2224;ps=localhost:2225";
    const int steps = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 5; /* steps of each worker */
    const pid_t parent = getpid();
    ps_cluster_spec *spec = NULL;
    int status = 0;
    if (argc > 4 || (argc > 1 && argv[1][0] == '-')) {
        fputs("usage: shared_queue [CLUSTER [STEPS [SECONDS]]]\n5 steps of each worker, 1 s apart.\n",
              argc == 2 ? stdout : stderr);
        return argc == 2 ? 0 : 2;
    }
    pause_s = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : pause_s;
    must(ps_cluster_spec_new(cluster, &spec));
    workers = ps_cluster_spec_num_tasks(spec, "worker"), total = workers * steps;
    ps_cluster_spec_free(spec);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i <= workers; i++) {
        if (fork() == 0) {
            /* like Python's Process(daemon=True): the child ends with its parent */
            if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent) {
                return 1;
            }
            psd_server *server = begin(cluster, i == 0 ? "ps" : "worker", i == 0 ? 0 : (uint32_t)i - 1);
            i == 0 ? parameter_server() : worker(steps);
            return ps_session_close(s), psd_server_free(server), 0;
        }
    }
    while (status == 0 && wait(&status) > 0) { /* a failed child ends the loop; the exit then ends the other children */
    }
    return status != 0 || puts("All done.") < 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* common/resolve/: environments of cluster managers, right and wrong ones. The variables are those that the managers set
 * (docs/LAUNCH.md). */
#include "test.h"

#include "common/mem.h"
#include "common/resolve/resolve.h"

#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { VARIABLES_MAX = 32, TEXT_MAX = 2048 };

struct row {
    const char *what, *environment; /* "NAME=VALUE NAME=VALUE" */
    ps_resolver_options o;
    const char *spec, *job; /* wrong rows: spec is NULL */
    int task;
    const char *listen; /* wrong rows: what the error begins with, or "...": what it has in it */
};

/* Split `text` at blanks into out [VARIABLES_MAX], which ends with NULL. */
static void split(const char *text, char *copy, char **out)
{
    size_t count = 0;
    char *rest = NULL;
    (void)snprintf(copy, TEXT_MAX, "%s", text);
    for (char *p = strtok_r(copy, " ", &rest); p != NULL; p = strtok_r(NULL, " ", &rest)) {
        assert_true(count + 1 < VARIABLES_MAX);
        out[count++] = p;
    }
    out[count] = NULL;
}

static ps_status run(const struct row *row, const struct psi_met *met, struct psi_cluster *c, ps_resolved *out,
                     struct psi_meeting *meeting, struct psi_err *err)
{
    char copy[TEXT_MAX];
    char *environment[VARIABLES_MAX];
    split(row->environment, copy, environment);
    psi_cluster_init(c);
    return psi_cluster_resolve(&row->o, environment, met, c, out, meeting, err);
}

static void expect_good(const struct row *row, const struct psi_met *met)
{
    struct psi_err err = {.code = PS_OK};
    struct psi_cluster c;
    struct psi_meeting meeting;
    struct psi_buf text;
    ps_resolved out;
    psi_buf_init(&text, 1 << 16);
    if (run(row, met, &c, &out, &meeting, &err) != PS_OK) {
        fail_msg("%s: %s", row->what, err.text);
    }
    assert_ok(psi_cluster_format(&c, &text, &err), &err);
    if (strcmp(psi_buf_text(&text), row->spec) != 0 || strcmp(out.job, row->job) != 0 || out.task != row->task ||
        strcmp(out.listen, row->listen != NULL ? row->listen : "") != 0) {
        fail_msg("%s: '%s' job '%s' task %d listen '%s'", row->what, psi_buf_text(&text), out.job, out.task, out.listen);
    }
    assert_true(out.why[0] != '\0');
    psi_buf_fini(&text);
    psi_cluster_fini(&c);
}

static void expect_wrong(const struct row *row, const struct psi_met *met)
{
    struct psi_err err = {.code = PS_OK};
    struct psi_cluster c;
    struct psi_meeting meeting;
    ps_resolved out;
    ps_status st = run(row, met, &c, &out, &meeting, &err);
    bool within = strncmp(row->listen, "...", 3) == 0;
    bool named = within ? strstr(err.text, row->listen + 3) != NULL : strncmp(err.text, row->listen, strlen(row->listen)) == 0;
    if (st != PS_INVALID_ARGUMENT || !named) {
        fail_msg("%s: %s '%s', expected '%s'", row->what, ps_status_name(st), err.text, row->listen);
    }
    assert_int_equal(psi_cluster_job_count(&c), 0);
    psi_cluster_fini(&c);
}

/* Six tasks of a step on four nodes, two on each of the first two. Slurm 22.05, `srun -N4 -n6`. */
#define STEP_OF(rank, node, at, here)                                                                                            \
    "SLURM_JOB_ID=4 SLURM_STEP_ID=0 SLURM_JOB_NODELIST=n[00-09] SLURM_NNODES=4 SLURM_NTASKS=6 SLURM_TASKS_PER_NODE=2(x2),1(x2) " \
    "SLURM_STEP_NODELIST=n[00-03] SLURM_STEP_NUM_NODES=4 SLURM_STEP_NUM_TASKS=6 SLURM_STEP_TASKS_PER_NODE=2(x2),1(x2) "          \
    "SLURM_PROCID=" rank " SLURM_NODEID=" node " SLURM_LOCALID=" at " SLURM_GTIDS=" here " "
#define STEP STEP_OF("3", "1", "1", "2,3")
#define PORTS "SLURM_STEP_RESV_PORTS=12007-12009 "
#define ONE_NODE(list, count)                                                                                                    \
    "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=" count " SLURM_STEP_TASKS_PER_NODE=" count " SLURM_STEP_NODELIST=" list " "
/* nodes of one task each */
#define NODES(list, count)                                                                                                       \
    "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=" count " SLURM_STEP_TASKS_PER_NODE=1(x" count ") SLURM_STEP_NODELIST=" list " "
#define OPEN_MPI(rank, size, at)                                                                                                 \
    "OMPI_COMM_WORLD_RANK=" rank " OMPI_COMM_WORLD_SIZE=" size " OMPI_COMM_WORLD_LOCAL_RANK=" at                                 \
    " OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_NODE_RANK=" at " OMPI_UNIVERSE_SIZE=4 PMIX_RANK=" rank                        \
    " PMIX_NAMESPACE=1544093697 PMIX_HOSTNAME=gpu7 "
#define MPICH(rank, size, at)                                                                                                    \
    "PMI_RANK=" rank " PMI_SIZE=" size " PMI_FD=6 MPI_LOCALRANKID=" at                                                           \
    " MPI_LOCALNRANKS=2 MPIR_CVAR_CH3_INTERFACE_HOSTNAME=gpu7-ib "
#define TORCH(rank, group, at)                                                                                                   \
    "RANK=" rank " WORLD_SIZE=4 LOCAL_RANK=" at " LOCAL_WORLD_SIZE=2 GROUP_RANK=" group " ROLE_RANK=" rank                       \
    " ROLE_WORLD_SIZE=4 MASTER_ADDR=gpu7 MASTER_PORT=29500 TORCHELASTIC_RUN_ID=none "
#define POD "KUBERNETES_SERVICE_HOST=10.96.0.1 KUBERNETES_SERVICE_PORT=443 "
#define KUBEFLOW "TF_CONFIG={\"cluster\":{\"ps\":[\"j-ps-0.ns.svc:2222\"],\"worker\":[\"j-worker-0.ns.svc:2222\"]},"

#define SLURM_OPTIONS(...)                                                                                                       \
    {                                                                                                                            \
        .cluster = "slurm", __VA_ARGS__                                                                                          \
    }
#define SLURM(...)                                                                                                               \
    {                                                                                                                            \
        .cluster = "slurm", .base_port = 2000, __VA_ARGS__                                                                       \
    }
#define PODS(...)                                                                                                                \
    {                                                                                                                            \
        .cluster = "kubernetes", .ps_pods = "psd-ps.psd", .worker_pods = "psd-w.psd", .ps_tasks = 2, .worker_tasks = 3,          \
        __VA_ARGS__                                                                                                              \
    }
#define PODS_SPEC "ps=psd-ps-0.psd:2222,psd-ps-1.psd:2222;worker=psd-w-0.psd:2222,psd-w-1.psd:2222,psd-w-2.psd:2222"
#define MPI(...)                                                                                                                 \
    {                                                                                                                            \
        .cluster = "mpi", __VA_ARGS__                                                                                            \
    }
#define TORCHRUN(...)                                                                                                            \
    {                                                                                                                            \
        .cluster = "torchrun", .base_port = 2000, __VA_ARGS__                                                                    \
    }

static const struct row good[] = {
    /* Slurm: layouts */
    {"block", STEP, SLURM(.ps_tasks = 2), "ps=n00:2000,n00:2001;worker=n01:2000,n01:2001,n02:2000,n03:2000", "worker", 1, NULL},
    {"rank 0", STEP_OF("0", "0", "0", "0,1"), SLURM(.ps_tasks = 1),
     "ps=n00:2000;worker=n00:2001,n01:2000,n01:2001,n02:2000,n03:2000", "ps", 0, NULL},
    {"block is said", STEP "SLURM_DISTRIBUTION=block", SLURM(.ps_tasks = 4),
     "ps=n00:2000,n00:2001,n01:2000,n01:2001;worker=n02:2000,n03:2000", "ps", 3, NULL},
    {"block:cyclic, of nodes and sockets", STEP "SLURM_DISTRIBUTION=block:cyclic", SLURM(.ps_tasks = 4),
     "ps=n00:2000,n00:2001,n01:2000,n01:2001;worker=n02:2000,n03:2000", "ps", 3, NULL},
    {"cyclic", STEP_OF("4", "0", "1", "0,4") "SLURM_DISTRIBUTION=cyclic", SLURM(.ps_tasks = 2),
     "ps=n00:2000,n01:2000;worker=n02:2000,n03:2000,n00:2001,n01:2001", "worker", 2, NULL},
    {"plane of two", STEP_OF("4", "2", "0", "4") "SLURM_DISTRIBUTION=plane SLURM_DIST_PLANESIZE=2", SLURM(.ps_tasks = 2),
     "ps=n00:2000,n00:2001;worker=n01:2000,n01:2001,n02:2000,n03:2000", "worker", 2, NULL},
    {"ps on each node", STEP, SLURM(.ps_per_node = 1), "ps=n00:2000,n01:2000,n02:2000,n03:2000;worker=n00:2001,n01:2001",
     "worker", 1, NULL},
    {"ps on the first nodes", STEP, SLURM(.ps_per_node = 1, .ps_tasks = 2),
     "ps=n00:2000,n01:2000;worker=n00:2001,n01:2001,n02:2000,n03:2000", "worker", 1, NULL},
    {"all are ps", STEP, SLURM(.ps_tasks = 6), "ps=n00:2000,n00:2001,n01:2000,n01:2001,n02:2000,n03:2000", "ps", 3, NULL},
    {"reserved ports", STEP PORTS, SLURM_OPTIONS(.ps_tasks = 2),
     "ps=n00:12007,n00:12008;worker=n01:12007,n01:12008,n02:12007,n03:12007", "worker", 1, NULL},
    {"reserved ports, not in a row", STEP "SLURM_STEP_RESV_PORTS=12007,12011-12012", SLURM_OPTIONS(.ps_tasks = 2),
     "ps=n00:12007,n00:12011;worker=n01:12007,n01:12011,n02:12007,n03:12007", "worker", 1, NULL},
    {"a flag counts more than reserved ports", STEP PORTS, SLURM(.ps_tasks = 6),
     "ps=n00:2000,n00:2001,n01:2000,n01:2001,n02:2000,n03:2000", "ps", 3, NULL},
    {"only the directory's port is known", STEP, SLURM_OPTIONS(.ps_tasks = 2, .directory_port = 2222),
     "ps=n00:2222,n00:0;worker=n01:0,n01:0,n02:0,n03:0", "worker", 1, NULL},
    {"ports that are not known count more than reserved ones", STEP PORTS,
     SLURM_OPTIONS(.ps_per_node = 1, .directory_port = 2222), "ps=n00:2222,n01:0,n02:0,n03:0;worker=n00:0,n01:0", "worker", 1,
     NULL},
    {"another network", ONE_NODE("n1", "2"), SLURM(.ps_tasks = 1, .address_suffix = "-ib"), "ps=n1-ib:2000;worker=n1-ib:2001",
     "ps", 0, NULL},
    {"the flags say the same", STEP, SLURM(.ps_tasks = 2, .job_name = "worker", .task_index = "1"),
     "ps=n00:2000,n00:2001;worker=n01:2000,n01:2001,n02:2000,n03:2000", "worker", 1, NULL},
    /* `salloc -N1 -n2 : -N1 -n1`, `srun --het-group=0,1`: ranks and nodes run through both components */
    {"heterogeneous, the role by flag",
     "SLURM_HET_SIZE=2 SLURM_PROCID=2 SLURM_NODEID=1 SLURM_LOCALID=0 SLURM_GTIDS=2 SLURM_NTASKS=3 SLURM_STEP_NUM_TASKS=3 "
     "SLURM_STEP_NODELIST=gpu8,n00 SLURM_STEP_TASKS_PER_NODE=2,1",
     SLURM(.ps_tasks = 2, .job_name = "worker"), "ps=gpu8:2000,gpu8:2001;worker=n00:2000", "worker", 0, NULL},
    {"a step of the job's middle nodes",
     "SLURM_JOB_NODELIST=gpu[7-8],n[00-01] SLURM_STEP_NODELIST=gpu8,n00 SLURM_NTASKS=2 SLURM_TASKS_PER_NODE=1(x2) SLURM_PROCID=1 "
     "SLURM_NODEID=1",
     SLURM(.ps_tasks = 1), "ps=gpu8:2000;worker=n00:2000", "worker", 0, NULL},
    /* Slurm: the grammar of lists */
    {"padded", NODES("n[009-011]", "3"), SLURM(.ps_tasks = 3), "ps=n009:2000,n010:2000,n011:2000", "ps", 0, NULL},
    {"padded by each range's first number", NODES("n[001-003,7]", "4"), SLURM(.ps_tasks = 4),
     "ps=n001:2000,n002:2000,n003:2000,n7:2000", "ps", 0, NULL},
    {"not padded", NODES("n[9-11]", "3"), SLURM(.ps_tasks = 3), "ps=n9:2000,n10:2000,n11:2000", "ps", 0, NULL},
    {"in its order", NODES("n[3,1-2,10,08]", "5"), SLURM(.ps_tasks = 5), "ps=n3:2000,n1:2000,n2:2000,n10:2000,n08:2000", "ps", 0,
     NULL},
    {"two brackets", NODES("r[0-1]n[08-09]", "4"), SLURM(.ps_tasks = 4), "ps=r0n08:2000,r0n09:2000,r1n08:2000,r1n09:2000", "ps",
     0, NULL},
    {"two brackets side by side", NODES("a[1-2][3,05]", "4"), SLURM(.ps_tasks = 4), "ps=a13:2000,a105:2000,a23:2000,a205:2000",
     "ps", 0, NULL},
    {"names without brackets", NODES("login.example,node_b", "2"), SLURM(.ps_tasks = 2), "ps=login.example:2000,node_b:2000",
     "ps", 0, NULL},
    {"a name with a dash", NODES("a-b-[1-2],c", "3"), SLURM(.ps_tasks = 3), "ps=a-b-1:2000,a-b-2:2000,c:2000", "ps", 0, NULL},
    /* MPI */
    {"one ps task at a known address", OPEN_MPI("0", "3", "0"), MPI(.ps_tasks = 1, .rendezvous = "gpu7:2222"),
     "ps=gpu7:2222;worker=rank-1.invalid:1,rank-2.invalid:1", "ps", 0, NULL},
    {"its second worker", MPICH("2", "3", "0"), MPI(.ps_tasks = 1, .rendezvous = "[fd00::1]:2222"),
     "ps=[fd00::1]:2222;worker=rank-1.invalid:1,rank-2.invalid:1", "worker", 1, NULL},
    /* torchrun */
    {"rank 0 is ps", TORCH("0", "0", "0"), TORCHRUN(.ps_tasks = 1),
     "ps=gpu7:2000;worker=rank-1.invalid:1,rank-2.invalid:1,rank-3.invalid:1", "ps", 0, NULL},
    {"ps at the master", TORCH("3", "1", "1"), TORCHRUN(.ps_tasks = 2),
     "ps=gpu7:2000,gpu7:2001;worker=rank-2.invalid:1,rank-3.invalid:1", "worker", 1, NULL},
    {"an IPv6 master",
     "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 GROUP_RANK=0 MASTER_ADDR=fd00::7 MASTER_PORT=29500 "
     "TORCHELASTIC_RESTART_COUNT=1 TORCHELASTIC_MAX_RESTARTS=3",
     TORCHRUN(.ps_tasks = 1), "ps=[fd00::7]:2000;worker=rank-1.invalid:1", "worker", 0, NULL},
    /* Kubernetes */
    {"StatefulSet", POD, PODS(.host_name = "psd-ps-1"), PODS_SPEC, "ps", 1, "0.0.0.0:2222"},
    {"Indexed Job", POD "JOB_COMPLETION_INDEX=2", PODS(.host_name = "psd-w-2"), PODS_SPEC, "worker", 2, NULL},
    {"Indexed Job of ps tasks, IPv6", "KUBERNETES_SERVICE_HOST=fd00:10::1 JOB_COMPLETION_INDEX=0", PODS(.host_name = "psd-ps-0"),
     PODS_SPEC, "ps", 0, "[::]:2222"},
    {"a pod with the node's name", POD "JOB_COMPLETION_INDEX=1", PODS(.host_name = "node-17", .job_name = "worker"), PODS_SPEC,
     "worker", 1, NULL},
    {"a full name", POD, PODS(.host_name = "psd-w-0.psd.default.svc.cluster.local"), PODS_SPEC, "worker", 0, NULL},
    {"workers that are not listed, full names",
     POD,
     {.cluster = "kubernetes",
      .ps_pods = "p.s.ns.svc.cluster.local.",
      .worker_pods = "w.s",
      .ps_tasks = 1,
      .base_port = 3000,
      .host_name = "w-40"},
     "ps=p-0.s.ns.svc.cluster.local.:3000",
     "worker",
     40,
     NULL},
    /* A Service of the name psd sets these; none of them is read. */
    {"a Service called psd", POD "PSD_PORT=tcp://10.0.0.9:2222 PSD_SERVICE_HOST=10.0.0.9 PSD_SERVICE_PORT=2222",
     PODS(.host_name = "psd-ps-0"), PODS_SPEC, "ps", 0, "0.0.0.0:2222"},
    /* addresses that the directory will know */
    {"the address of ps task 0, at another ps task", MPICH("1", "4", "1"), MPI(.ps_tasks = 3, .rendezvous = "a:1"),
     "ps=a:1,gpu7-ib:0,rank-2.invalid:0;worker=rank-3.invalid:1", "ps", 1, NULL},
    {"the address of ps task 0, at a worker", OPEN_MPI("3", "4", "1"), MPI(.ps_tasks = 3, .rendezvous = "a:1"),
     "ps=a:1,rank-1.invalid:0,rank-2.invalid:0;worker=rank-3.invalid:1", "worker", 0, NULL},
    {"torchrun with one known port",
     TORCH("1", "0", "1"),
     {.cluster = "torchrun", .ps_tasks = 2, .directory_port = 29499},
     "ps=gpu7:29499,gpu7:0;worker=rank-2.invalid:1,rank-3.invalid:1",
     "ps",
     1,
     NULL},
    /* TF_CONFIG, as Kubeflow writes it */
    {"TFJob",
     KUBEFLOW "\"task\":{\"type\":\"worker\",\"index\":0},\"environment\":\"cloud\"}",
     {.cluster = "env"},
     "ps=j-ps-0.ns.svc:2222;worker=j-worker-0.ns.svc:2222",
     "worker",
     0,
     NULL},
    {"its evaluator, outside of the cluster",
     KUBEFLOW "\"task\":{\"type\":\"evaluator\",\"index\":0},\"environment\":\"cloud\"}",
     {.cluster = "env"},
     "ps=j-ps-0.ns.svc:2222;worker=j-worker-0.ns.svc:2222",
     "evaluator",
     0,
     NULL},
    {"a job of one replica", POD, {.cluster = "env"}, "", "", -1, NULL},
    {"sparse workers",
     "TF_CONFIG={\"sparseCluster\":{\"worker\":{\"1\":\"j-worker-1.ns.svc:2222\"},\"ps\":[\"j-ps-0.ns.svc:2222\"]},\"task\":{"
     "\"type\":\"worker\",\"index\":1}}",
     {.cluster = "env"},
     "ps=j-ps-0.ns.svc:2222;worker=1@j-worker-1.ns.svc:2222",
     "worker",
     1,
     NULL},
    {"flags count more than its task",
     KUBEFLOW "\"task\":{\"type\":\"worker\",\"index\":0}}",
     {.cluster = "env", .job_name = "ps", .task_index = "0"},
     "ps=j-ps-0.ns.svc:2222;worker=j-worker-0.ns.svc:2222",
     "ps",
     0,
     NULL},
    /* auto */
    {"nothing", "HOME=/root PATH=/bin", {.cluster = "auto"}, "", "", -1, NULL},
    {"no name of a manager is auto",
     STEP,
     {.ps_tasks = 6, .base_port = 2000},
     "ps=n00:2000,n00:2001,n01:2000,n01:2001,n02:2000,n03:2000",
     "ps",
     3,
     NULL},
    {"srun --mpi=pmi2",
     STEP "PMI_RANK=3 PMI_SIZE=6 PMI_JOBID=4.0 PMI_FD=9",
     {.cluster = "auto", .ps_tasks = 6, .base_port = 2000},
     "ps=n00:2000,n00:2001,n01:2000,n01:2001,n02:2000,n03:2000",
     "ps",
     3,
     NULL},
    {"mpirun in a step",
     STEP OPEN_MPI("1", "2", "1"),
     {.cluster = "auto", .ps_tasks = 1, .rendezvous = "a:1"},
     "ps=a:1;worker=rank-1.invalid:1",
     "worker",
     0,
     NULL},
    {"torchrun in a step",
     STEP TORCH("0", "0", "0"),
     {.cluster = "auto", .ps_tasks = 1, .base_port = 2000},
     "ps=gpu7:2000;worker=rank-1.invalid:1,rank-2.invalid:1,rank-3.invalid:1",
     "ps",
     0,
     NULL},
    {"TF_CONFIG in a pod",
     POD KUBEFLOW "\"task\":{\"type\":\"ps\",\"index\":0}}",
     {.cluster = "auto"},
     "ps=j-ps-0.ns.svc:2222;worker=j-worker-0.ns.svc:2222",
     "ps",
     0,
     NULL},
    {"a pod of its own", POD, {.cluster = "auto", .host_name = "web-7d9f"}, "", "", -1, NULL},
    {"a pod of a cluster",
     POD,
     {.cluster = "auto", .ps_pods = "p.s", .ps_tasks = 1, .host_name = "p-0"},
     "ps=p-0.s:2222",
     "ps",
     0,
     "0.0.0.0:2222"},
};

static const struct row wrong[] = {
    /* Slurm: which variables */
    {"a job script", "SLURM_PROCID=0 SLURM_JOB_NODELIST=n[00-01] SLURM_NTASKS=2 SLURM_TASKS_PER_NODE=1(x2)", SLURM(.ps_tasks = 1),
     NULL, NULL, 0, "SLURM_STEP_NODELIST is not set: SLURM_JOB_NODELIST has the nodes of the job"},
    {"not under Slurm", "HOME=/root", SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_NODELIST is not set: start the program by"},
    {"an empty variable", "SLURM_STEP_NODELIST= SLURM_PROCID=0", SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_NODELIST is not set"},
    {"a daemon of mpirun", STEP OPEN_MPI("1", "2", "1"), SLURM(.ps_tasks = 1), NULL, NULL, 0, "OMPI_COMM_WORLD_RANK='1': mpirun"},
    {"no roles", STEP, SLURM_OPTIONS(.base_port = 2000), NULL, NULL, 0, "SLURM_STEP_NUM_TASKS='6': give --ps_tasks"},
    {"no rank", "SLURM_STEP_NODELIST=a SLURM_STEP_NUM_TASKS=1 SLURM_STEP_TASKS_PER_NODE=1", SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_PROCID is not set"},
    {"no counts", "SLURM_STEP_NODELIST=a SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0", SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_TASKS_PER_NODE is not set"},
    {"no ports", STEP, SLURM_OPTIONS(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_RESV_PORTS is not set: slurm.conf has no MpiParams"},
    /* Slurm: numbers */
    {"a rank that is no number", "SLURM_STEP_NODELIST=a SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0x1", SLURM(.ps_tasks = 1), NULL,
     NULL, 0, "SLURM_PROCID='0x1': it must be a whole number from 0 to 0"},
    {"a rank that is too high", "SLURM_STEP_NODELIST=a SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=2", SLURM(.ps_tasks = 1), NULL, NULL,
     0, "SLURM_PROCID='2': it must be a whole number from 0 to 1"},
    {"no task", "SLURM_STEP_NODELIST=a SLURM_STEP_NUM_TASKS=0 SLURM_PROCID=0", SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_NUM_TASKS='0'"},
    {"more tasks than a cluster has", "SLURM_STEP_NODELIST=a SLURM_STEP_NUM_TASKS=1025 SLURM_PROCID=0", SLURM(.ps_tasks = 1),
     NULL, NULL, 0, "SLURM_STEP_NUM_TASKS='1025': it must be a whole number from 1 to 1024"},
    {"a number of 64 bits", "SLURM_STEP_NODELIST=a SLURM_STEP_NUM_TASKS=4294967297 SLURM_PROCID=0", SLURM(.ps_tasks = 1), NULL,
     NULL, 0, "SLURM_STEP_NUM_TASKS='4294967297'"},
    {"more ps than tasks", STEP, SLURM(.ps_tasks = 7), NULL, NULL, 0, "SLURM_STEP_NUM_TASKS='6': --ps_tasks 7 is more"},
    {"fewer places than ps", STEP, SLURM(.ps_tasks = 5, .ps_per_node = 1), NULL, NULL, 0,
     "SLURM_STEP_TASKS_PER_NODE='2(x2),1(x2)': 4 ps tasks at --ps_per_node 1, --ps_tasks is 5"},
    {"counts of other nodes", ONE_NODE("a,b", "1"), SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_TASKS_PER_NODE='1': it counts the tasks of 1 nodes, SLURM_STEP_NODELIST has 2"},
    {"counts that are too few", "SLURM_STEP_NODELIST=a,b SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=0 SLURM_STEP_TASKS_PER_NODE=1(x2)",
     SLURM(.ps_tasks = 1), NULL, NULL, 0, "SLURM_STEP_TASKS_PER_NODE='1(x2)': it counts 2 tasks, SLURM_STEP_NUM_TASKS has 3"},
    {"counts that are too many", "SLURM_STEP_NODELIST=a,b SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=0 SLURM_STEP_TASKS_PER_NODE=2(x2)",
     SLURM(.ps_tasks = 1), NULL, NULL, 0, "SLURM_STEP_TASKS_PER_NODE='2(x2)': it counts more than the 3 tasks"},
    {"counts that are cut", "SLURM_STEP_NODELIST=a,b SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 SLURM_STEP_TASKS_PER_NODE=2(x2",
     SLURM(.ps_tasks = 1), NULL, NULL, 0, "SLURM_STEP_TASKS_PER_NODE='2(x2': COUNT or COUNT(xTIMES) is expected at '2(x2'"},
    {"counts without an end", "SLURM_STEP_NODELIST=a SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 SLURM_STEP_TASKS_PER_NODE=1,",
     SLURM(.ps_tasks = 1), NULL, NULL, 0, "SLURM_STEP_TASKS_PER_NODE='1,': COUNT or COUNT(xTIMES) is expected at ''"},
    {"huge counts", "SLURM_STEP_NODELIST=a SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 SLURM_STEP_TASKS_PER_NODE=1(x999999999)",
     SLURM(.ps_tasks = 1), NULL, NULL, 0, "SLURM_STEP_TASKS_PER_NODE='1(x999999999)': more than 1024 nodes"},
    {"another number of nodes", ONE_NODE("a", "1") "SLURM_STEP_NUM_NODES=2", SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_NUM_NODES='2': SLURM_STEP_NODELIST has 1 nodes"},
    /* Slurm: layouts */
    {"cyclic by the site's default", STEP_OF("4", "0", "1", "0,4"), SLURM(.ps_tasks = 2), NULL, NULL, 0,
     "SLURM_NODEID='0': rank 4 is on node 2 by SLURM_STEP_TASKS_PER_NODE; say how by srun --distribution="},
    {"other ranks on this node", STEP_OF("0", "0", "0", "0,4"), SLURM(.ps_tasks = 2), NULL, NULL, 0,
     "SLURM_GTIDS='0,4': the ranks of node 0 are others if dealt as no variable says"},
    {"fewer ranks on this node", STEP_OF("2", "1", "0", "2"), SLURM(.ps_tasks = 2), NULL, NULL, 0, "SLURM_GTIDS='2': the ranks"},
    {"another place on this node", STEP_OF("3", "1", "0", "2,3"), SLURM(.ps_tasks = 2), NULL, NULL, 0,
     "SLURM_LOCALID='0': rank 3 is task 1 of its node"},
    {"arbitrary", STEP "SLURM_DISTRIBUTION=arbitrary", SLURM(.ps_tasks = 2), NULL, NULL, 0,
     "SLURM_DISTRIBUTION='arbitrary': no variable"},
    {"a plane without a size", STEP "SLURM_DISTRIBUTION=plane", SLURM(.ps_tasks = 2), NULL, NULL, 0,
     "SLURM_DIST_PLANESIZE is not set"},
    {"ps per node, cyclic", STEP_OF("4", "0", "1", "0,4") "SLURM_DISTRIBUTION=cyclic", SLURM(.ps_per_node = 1), NULL, NULL, 0,
     "SLURM_DISTRIBUTION='cyclic': --ps_per_node needs block"},
    {"another role", STEP, SLURM(.ps_tasks = 2, .job_name = "ps"), NULL, NULL, 0,
     "--job_name ps: SLURM_PROCID=3 makes this process /job:worker/task:1"},
    {"another task", STEP, SLURM(.ps_tasks = 2, .task_index = "3"), NULL, NULL, 0,
     "--task_index 3: SLURM_PROCID=3 makes this process /job:worker/task:1"},
    /* Slurm: ports */
    {"too few ports", STEP "SLURM_STEP_RESV_PORTS=12007", SLURM_OPTIONS(.ps_tasks = 2), NULL, NULL, 0,
     "SLURM_STEP_RESV_PORTS='12007': 1 ports for 2 tasks of a node; give srun --resv-ports=2"},
    {"ports that are none", STEP "SLURM_STEP_RESV_PORTS=12007-70000", SLURM_OPTIONS(.ps_tasks = 2), NULL, NULL, 0,
     "SLURM_STEP_RESV_PORTS='12007-70000': a number is too high"},
    {"ports beyond the last",
     STEP,
     {.cluster = "slurm", .ps_tasks = 2, .base_port = 65535},
     NULL,
     NULL,
     0,
     "--base_port 65535: a node has 2 tasks"},
    {"a port twice", STEP "SLURM_STEP_RESV_PORTS=12007-12008,12007", SLURM_OPTIONS(.ps_tasks = 2), NULL, NULL, 0,
     "SLURM_STEP_RESV_PORTS='12007-12008,12007': port 12007 is there twice"},
    {"port 0", STEP "SLURM_STEP_RESV_PORTS=0-1", SLURM_OPTIONS(.ps_tasks = 2), NULL, NULL, 0,
     "SLURM_STEP_RESV_PORTS='0-1': port 0: a port is 1 to 65535"},
    /* Slurm: names that are no hosts */
    {"nodes that differ in case", NODES("a,A", "2"), SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_NODELIST='a,A': address 'A:2000' is given twice"},
    {"a node that begins with a dash", NODES("-x", "1"), SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_NODELIST='-x': /job:ps/task:0: address '-x:2000': a host begins with"},
    {"a suffix of no host", NODES("a", "1"), SLURM(.ps_tasks = 1, .address_suffix = "/ib"), NULL, NULL, 0,
     "SLURM_STEP_NODELIST='a', --address_suffix /ib: /job:ps/task:0: address 'a/ib:2000'"},
    /* Slurm: the grammar of lists */
    {"a bracket that does not end", NODES("n[00-01", "2"), SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_NODELIST='n[00-01': a bracket does not end at '[00-01'"},
    {"nested brackets", NODES("n[0[1-2]]", "2"), SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_NODELIST='n[0[1-2]]': a number or a range is expected at '0[1-2'"},
    {"a bracket that was never open", NODES("n1]", "1"), SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_NODELIST='n1]': a name has letters, digits and . - _ only at ']'"},
    {"an empty bracket", NODES("n[]", "1"), SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_NODELIST='n[]': a number or a range is expected at ''"},
    {"a bracket that ends with a comma", NODES("n[1,]", "1"), SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_NODELIST='n[1,]': a number or a range is expected at ''"},
    {"letters in a bracket", NODES("n[a-c]", "3"), SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_NODELIST='n[a-c]': a number or a range is expected at 'a-c'"},
    {"a range that runs backwards", NODES("n[5-3]", "3"), SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_NODELIST='n[5-3]': the range runs backwards at '5-3'"},
    {"a range without an end", NODES("n[5-]", "1"), SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_NODELIST='n[5-]': a number or a range is expected at '5-'"},
    {"text behind a bracket", NODES("a-b-[1-2]-ib", "2"), SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_NODELIST='a-b-[1-2]-ib': text behind the last bracket at '-ib'"},
    {"an empty name", NODES("a,,b", "3"), SLURM(.ps_tasks = 1), NULL, NULL, 0, "SLURM_STEP_NODELIST='a,,b': a name is empty"},
    {"a huge list", NODES("n[0-999999999]", "2"), SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_NODELIST='n[0-999999999]': more than 1024 names"},
    {"a list of three huge ranges", NODES("n[0-99][0-99][0-99]", "2"), SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_NODELIST='n[0-99][0-99][0-99]': more than 1024 names"},
    {"a number that is too long", NODES("n[0-1234567890]", "2"), SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_NODELIST='n[0-1234567890]': a number or a range is expected"},
    {"a node twice", NODES("a[1-3],a2", "4"), SLURM(.ps_tasks = 1), NULL, NULL, 0,
     "SLURM_STEP_NODELIST='a[1-3],a2': node a2 is there twice"},
    /* MPI */
    {"not under mpirun", "HOME=/root", MPI(.ps_tasks = 1, .rendezvous = "a:1"), NULL, NULL, 0,
     "OMPI_COMM_WORLD_RANK is not set: and neither"},
    {"PMIx alone has no size", "PMIX_RANK=1 PMIX_NAMESPACE=7", MPI(.ps_tasks = 1, .rendezvous = "a:1"), NULL, NULL, 0,
     "OMPI_COMM_WORLD_RANK is not set"},
    {"a rank without a size", "OMPI_COMM_WORLD_RANK=1", MPI(.ps_tasks = 1, .rendezvous = "a:1"), NULL, NULL, 0,
     "OMPI_COMM_WORLD_SIZE is not set"},
    {"no rendezvous", OPEN_MPI("1", "2", "1"), MPI(.ps_tasks = 1), NULL, NULL, 0,
     "OMPI_COMM_WORLD_RANK='1': no variable names the hosts of other ranks; give --rendezvous FILE|HOST:PORT"},
    {"two kinds of ports", STEP, SLURM(.ps_tasks = 1, .directory_port = 2222), NULL, NULL, 0,
     "--directory_port 2222 and --base_port 2000 are both given"},
    {"a directory's port beyond the last", STEP, SLURM_OPTIONS(.ps_tasks = 1, .directory_port = 65536), NULL, NULL, 0,
     "--directory_port 65536: it is over 65535"},
    {"more ps per node than a cluster has tasks", STEP, SLURM(.ps_per_node = 1025), NULL, NULL, 0,
     "--ps_per_node 1025: it is over 1024"},
    {"pods have ports", POD, PODS(.host_name = "psd-ps-1", .directory_port = 2222), NULL, NULL, 0,
     "--directory_port 2222: --cluster kubernetes does not read it"},
    {"torchrun's own port for the directory",
     TORCH("0", "0", "0"),
     {.cluster = "torchrun", .ps_tasks = 2, .directory_port = 29500},
     NULL,
     NULL,
     0,
     "MASTER_PORT='29500': torchrun listens there; --directory_port 29500 would take it"},
    {"no roles, MPI", OPEN_MPI("1", "2", "1"), MPI(.rendezvous = "a:1"), NULL, NULL, 0,
     "OMPI_COMM_WORLD_SIZE='2': give --ps_tasks"},
    {"an address whose port is none", OPEN_MPI("1", "2", "1"), MPI(.ps_tasks = 1, .rendezvous = "a:99999"), NULL, NULL, 0,
     "--rendezvous a:99999: address 'a:99999'"},
    {"an address without a known port", OPEN_MPI("1", "2", "1"), MPI(.ps_tasks = 1, .rendezvous = "a:0"), NULL, NULL, 0,
     "--rendezvous a:0: address 'a:0'"},
    {"an address, and ports", OPEN_MPI("1", "2", "1"), MPI(.ps_tasks = 1, .rendezvous = "a:1", .base_port = 2000), NULL, NULL, 0,
     "--base_port 2000: --rendezvous a:1 has the port of ps task 0"},
    {"a name of MPICH's that is no host", "PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=0 MPIR_CVAR_CH3_INTERFACE_HOSTNAME=-a",
     MPI(.ps_tasks = 1, .rendezvous = "met"), NULL, NULL, 0, "MPIR_CVAR_CH3_INTERFACE_HOSTNAME='-a': address '-a:1'"},
    {"a machine without a name", OPEN_MPI("1", "2", "1"), MPI(.ps_tasks = 1, .rendezvous = "met", .host_name = "x y"), NULL, NULL,
     0, "host name 'x y': address 'x y:1'"},
    {"a negative rank", "PMI_RANK=-1 PMI_SIZE=2 MPI_LOCALRANKID=0", MPI(.ps_tasks = 1, .rendezvous = "a:1"), NULL, NULL, 0,
     "PMI_RANK='-1': it must be a whole number from 0 to 1"},
    /* torchrun */
    {"torchrun's own port",
     TORCH("0", "0", "0"),
     {.cluster = "torchrun", .ps_tasks = 2, .base_port = 29499},
     NULL,
     NULL,
     0,
     "MASTER_PORT='29500': torchrun listens there; --base_port 29499 would take it"},
    {"ps tasks on two hosts", TORCH("0", "0", "0"), TORCHRUN(.ps_tasks = 3), NULL, NULL, 0,
     "LOCAL_WORLD_SIZE='2': all 3 ps tasks must be on the host of MASTER_ADDR"},
    {"rank 0 on another host", TORCH("0", "1", "0"), TORCHRUN(.ps_tasks = 1), NULL, NULL, 0,
     "GROUP_RANK='1': rank 0 is to be a ps task"},
    {"a master that is no host", "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GROUP_RANK=0 MASTER_PORT=1 MASTER_ADDR=-a",
     TORCHRUN(.ps_tasks = 1), NULL, NULL, 0, "MASTER_ADDR='-a': /job:ps/task:0: address '-a:2000'"},
    {"no master", "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GROUP_RANK=0 MASTER_PORT=1", TORCHRUN(.ps_tasks = 1), NULL,
     NULL, 0, "MASTER_ADDR is not set"},
    {"no local rank", "RANK=0 WORLD_SIZE=1 MASTER_ADDR=a MASTER_PORT=1", TORCHRUN(.ps_tasks = 1), NULL, NULL, 0,
     "LOCAL_RANK is not set"},
    /* Kubernetes */
    {"in no pod", "HOME=/root", PODS(.host_name = "psd-ps-0"), NULL, NULL, 0, "KUBERNETES_SERVICE_HOST is not set"},
    {"no names",
     POD,
     {.cluster = "kubernetes", .ps_tasks = 1, .host_name = "psd-ps-0"},
     NULL,
     NULL,
     0,
     "KUBERNETES_SERVICE_HOST='10.96.0.1': no variable says which pods are ps"},
    {"a pod of a Deployment", POD, PODS(.host_name = "psd-ps-7d9f8-x2lk4"), NULL, NULL, 0,
     "host name psd-ps-7d9f8-x2lk4 is no pod of --ps_pods psd-ps.psd"},
    {"a name with a leading zero", POD, PODS(.host_name = "psd-ps-01"), NULL, NULL, 0, "host name psd-ps-01 is no pod"},
    {"two indices", POD "JOB_COMPLETION_INDEX=1", PODS(.host_name = "psd-w-2"), NULL, NULL, 0,
     "JOB_COMPLETION_INDEX='1': host name psd-w-2 has index 2"},
    {"an index that is too high", POD "JOB_COMPLETION_INDEX=3", PODS(.host_name = "psd-w-3"), NULL, NULL, 0,
     "JOB_COMPLETION_INDEX 3 has index 3: --worker_tasks is 3"},
    {"a ps beyond the count", POD, PODS(.host_name = "psd-ps-2"), NULL, NULL, 0,
     "host name psd-ps-2 has index 2: --ps_tasks is 2"},
    {"workers that are the ps tasks",
     POD,
     {.cluster = "kubernetes",
      .ps_pods = "psd-ps.psd",
      .worker_pods = "psd-ps.psd",
      .ps_tasks = 1,
      .worker_tasks = 1,
      .host_name = "psd-ps-0"},
     NULL,
     NULL,
     0,
     "--worker_pods psd-ps.psd: address 'psd-ps-0.psd:2222' is given twice"},
    {"a name that is no host",
     POD,
     {.cluster = "kubernetes", .ps_pods = "psd ps.psd", .ps_tasks = 1, .host_name = "psd ps-0"},
     NULL,
     NULL,
     0,
     "--ps_pods psd ps.psd: /job:ps/task:0: address 'psd ps-0.psd:2222'"},
    {"pods without a Service",
     POD,
     {.cluster = "kubernetes", .ps_pods = "psd-ps", .ps_tasks = 1, .host_name = "psd-ps-0"},
     NULL,
     NULL,
     0,
     "--ps_pods psd-ps: NAME.SERVICE is expected"},
    {"the other job", POD, PODS(.host_name = "psd-w-2", .job_name = "ps"), NULL, NULL, 0,
     "--job_name ps: the host name makes this process /job:worker/task:2"},
    /* TF_CONFIG */
    {"cut",
     "TF_CONFIG={\"cluster\":{\"ps\":[\"a:1\"]",
     {.cluster = "env"},
     NULL,
     NULL,
     0,
     "TF_CONFIG='{\"cluster\":{\"ps\":[\"a:1\"]': line 1, column"},
    {"a ps task that knows only itself",
     "TF_CONFIG={\"sparseCluster\":{\"worker\":{},\"ps\":[\"j-ps-1.ns.svc:2222\"]},\"task\":{\"type\":\"ps\",\"index\":1}}",
     {.cluster = "env"},
     NULL,
     NULL,
     0,
     "...: sparseCluster has the own address of ps task 1 only"},
    {"a directory whose port nobody knows",
     "TF_CONFIG={\"cluster\":{\"ps\":[\"a:0\"]},\"task\":{\"type\":\"ps\",\"index\":0}}",
     {.cluster = "env"},
     NULL,
     NULL,
     0,
     "TF_CONFIG='{\"cluster\":{\"ps\":[\"a:0\"]},\"task\":{\"type\":\"ps\",\"index\":0}}': /job:ps/task:0 at 'a:0' is the "
     "directory"},
    /* two managers */
    {"mpirun and torchrun",
     OPEN_MPI("0", "2", "0") TORCH("0", "0", "0"),
     {.cluster = "auto", .ps_tasks = 1},
     NULL,
     NULL,
     0,
     "OMPI_COMM_WORLD_RANK='0': TORCHELASTIC_RUN_ID is set too; give --cluster mpi or --cluster torchrun"},
    {"TF_CONFIG in a step",
     STEP KUBEFLOW "\"task\":{\"type\":\"ps\",\"index\":0}}",
     {.cluster = "auto"},
     NULL,
     NULL,
     0,
     "TF_CONFIG='{"},
    {"TF_CONFIG in a step, what to do",
     STEP "TF_CONFIG={}",
     {.cluster = "auto"},
     NULL,
     NULL,
     0,
     "TF_CONFIG='{}': SLURM_PROCID is set too; give --cluster env or --cluster slurm"},
    /* flags */
    {"no manager",
     "HOME=/root",
     {.cluster = "lsf"},
     NULL,
     NULL,
     0,
     "--cluster lsf: slurm, mpi, kubernetes, torchrun, env or auto"},
    {"a flag of another manager", STEP, SLURM(.ps_tasks = 1, .rendezvous = "a:1"), NULL, NULL, 0,
     "--rendezvous a:1: --cluster slurm does not read it"},
};

TEST(test_good_environments)
{
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        expect_good(&good[i], NULL);
    }
}

TEST(test_wrong_environments)
{
    _Static_assert(ARRAY_COUNT(wrong) >= 30 && ARRAY_COUNT(good) + ARRAY_COUNT(wrong) >= 60, "so many are wanted");
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        expect_wrong(&wrong[i], NULL);
    }
}

/* What a rank leaves, and what comes of what all have left. */
TEST(test_a_meeting)
{
    static const char *const open_mpi[] = {"a:2000 1544093697", "a:2001 1544093697", "b:2000 1544093697"};
    static const char *const left_before[] = {"a:2000 1544093697", "a:2001 77", "b:2000 1544093697"};
    static const char *const torn[] = {"a:2000 1544093697", "a:20", "b:2000 1544093697"};
    static const char *const twice[] = {"a:2000 -", "a:2000 -", "b:2000 -"};
    static const char *const part[] = {"a:2000 -", "a:2001 -", NULL};
    const struct row row = {"met",
                            OPEN_MPI("1", "3", "1"),
                            MPI(.ps_tasks = 2, .base_port = 2000, .rendezvous = "met", .host_name = "gpu7"),
                            "ps=a:2000,a:2001;worker=b:2000",
                            "ps",
                            1,
                            NULL};
    struct row bad = row, mpich = row;
    struct psi_err err = {.code = PS_OK};
    struct psi_cluster c;
    struct psi_meeting m;
    ps_resolved out;
    mpich.environment = MPICH("1", "3", "1");
    assert_ok(run(&row, NULL, &c, &out, &m, &err), &err);
    assert_true(m.needed && m.rank == 1 && m.count == 3);
    assert_string_equal(m.text, "gpu7:2001 1544093697");
    assert_int_equal(psi_cluster_job_count(&c), 0);
    assert_ok(run(&mpich, NULL, &c, &out, &m, &err), &err);
    assert_string_equal(m.text, "gpu7-ib:2001 -"); /* the name that MPICH uses */
    expect_good(&row, &(struct psi_met){3, open_mpi});
    struct row any = row;
    any.o.base_port = 0;
    any.o.directory_port = 2222;
    any.spec = "ps=a:2222,a:0;worker=b:0";
    static const char *const unknown[] = {"a:2222 1544093697", "a:0 1544093697", "b:0 1544093697"};
    assert_ok(run(&any, NULL, &c, &out, &m, &err), &err);
    assert_string_equal(m.text, "gpu7:0 1544093697");
    expect_good(&any, &(struct psi_met){3, unknown});
    assert_false(m.takes_port);
    any.o.directory_port = 0; /* rank 0 takes a free port before it leaves its address */
    any.environment = OPEN_MPI("0", "3", "0");
    any.task = 0;
    assert_ok(run(&any, NULL, &c, &out, &m, &err), &err);
    assert_true(m.takes_port);
    assert_string_equal(m.text, "gpu7:0 1544093697");
    expect_good(&any, &(struct psi_met){3, unknown});
    assert_int_equal(run(&row, &(struct psi_met){3, left_before}, &c, &out, &m, &err), PS_UNAVAILABLE);
    assert_string_equal(err.text, "--rendezvous met: rank 1 of 3 has left no address in its file");
    assert_int_equal(run(&mpich, &(struct psi_met){3, part}, &c, &out, &m, &err), PS_UNAVAILABLE);
    assert_string_equal(err.text, "--rendezvous met: rank 2 of 3 has left no address in its file");
    bad.spec = NULL;
    bad.listen = "--rendezvous met: rank 1 has 'a:20' in its file, which is no address";
    expect_wrong(&bad, &(struct psi_met){3, torn});
    mpich.listen = "--rendezvous met: address 'a:2000' is given twice";
    expect_wrong(&mpich, &(struct psi_met){3, twice});
}

static void leave(const char *file, unsigned rank, const char *text)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s.%u", file, rank);
    FILE *to = fopen(path, "we");
    assert_non_null(to);
    assert_true(fputs(text, to) >= 0);
    assert_int_equal(fclose(to), 0);
}

/* Rank 0 leaves a free port, which the system gives to nobody else, and at which a socket can listen. It is the same one when the
 * process asks again, also where a file of this rank with another port would be one of an earlier job. */
TEST(test_a_free_port_is_taken)
{
    char met[PATH_MAX], copy[TEXT_MAX], *environment[VARIABLES_MAX];
    unsigned port = 0;
    struct psi_err err = {.code = PS_OK};
    (void)snprintf(met, sizeof(met), "%s", test_path(test_dir(), "met"));
    leave(met, 1, "b:0 -");
    split(MPICH("0", "2", "0"), copy, environment);
    const ps_resolver_options o = {.cluster = "mpi", .ps_tasks = 1, .rendezvous = met, .host_name = "a", .wait_ms = 1};
    for (int i = 0; i < 2; i++) {
        struct psi_cluster c;
        ps_resolved out;
        psi_cluster_init(&c);
        assert_ok(psi_cluster_resolve_here(&o, environment, &c, &out, &err), &err);
        const char *address = psi_cluster_task_address(&c, "ps", 0);
        assert_true(strncmp(address, "gpu7-ib:", 8) == 0);
        const unsigned now = (unsigned)strtoul(address + 8, NULL, 10);
        assert_string_equal(psi_cluster_task_address(&c, "worker", 0), "b:0");
        assert_true(now > 0 && (i == 0 || now == port));
        port = now;
        psi_cluster_fini(&c);
    }
    const int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)(const void *)&at, sizeof(at)), -1); /* for whoever does not know of it */
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)(const void *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 1), 0);
    (void)close(fd);
}

/* A list as long as a cluster can be, and one more. */
TEST(test_limits)
{
    struct psi_err err = {.code = PS_OK};
    struct psi_nodes *nodes = psi_calloc(1, sizeof(*nodes));
    assert_non_null(nodes);
    assert_ok(psi_nodes_expand("n[0-1022],m", nodes, &err), &err);
    assert_int_equal(nodes->count, PS_TASKS_MAX);
    assert_string_equal(nodes->name[1022], "n1022");
    assert_int_equal(psi_nodes_expand("n[0-1023],m", nodes, &err), PS_INVALID_ARGUMENT);
    char name[PS_HOST_BYTES_MAX + 8];
    memset(name, 'a', sizeof(name));
    memcpy(name + PS_HOST_BYTES_MAX - 1, "[1]", 4);
    assert_ok(psi_nodes_expand(name, nodes, &err), &err);
    assert_int_equal(strlen(nodes->name[0]), PS_HOST_BYTES_MAX);
    memcpy(name + PS_HOST_BYTES_MAX - 1, "[01]", 5);
    assert_int_equal(psi_nodes_expand(name, nodes, &err), PS_INVALID_ARGUMENT);
    psi_free(nodes);
}

/* Every variable of a good environment cut at each of its bytes: decided or refused, and never anything else. */
TEST(test_cut_anywhere)
{
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        for (size_t n = 0; n < strlen(good[i].environment); n++) {
            char text[TEXT_MAX];
            struct psi_err err = {.code = PS_OK};
            struct psi_cluster c;
            struct psi_meeting meeting;
            ps_resolved out;
            struct row row = good[i];
            (void)snprintf(text, sizeof(text), "%.*s", (int)n, good[i].environment);
            row.environment = text;
            ps_status st = run(&row, NULL, &c, &out, &meeting, &err);
            assert_true(st == PS_OK || (st == PS_INVALID_ARGUMENT && err.text[0] != '\0' && psi_cluster_job_count(&c) == 0));
            psi_cluster_fini(&c);
        }
    }
}

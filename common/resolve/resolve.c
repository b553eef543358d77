/* SPDX-License-Identifier: Apache-2.0 */
/* Choose the cluster manager, whose own source file then finds the task. With --cluster auto, mpirun and torchrun are looked for
 * first, because they may have started the process inside a Slurm step or a pod. TF_CONFIG describes one process, so together
 * with Slurm, mpirun or torchrun it is an error; in a pod TF_CONFIG takes precedence over the pod's name. Without variables of a
 * manager the process is alone. Failure: two managers of which neither runs inside the other. */
#include "internal.h"

#include "common/name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Take the cluster, and job and task of this process, from TF_CONFIG; --job_name and --task_index take precedence over its
 * "task". TF_CONFIG not set: PS_OK, without a cluster. INVALID_ARGUMENT: TF_CONFIG or --task_index is bad. */
static ps_status resolve_env(struct psi_resolver *r)
{
    const char *json = psi_resolver_use(r, "TF_CONFIG");
    struct psi_cluster_self self = {.known = false};
    uint32_t task = 0;
    if (json == NULL) {
        (void)snprintf(r->out->why, sizeof(r->out->why), "TF_CONFIG is not set: a job of one replica has none");
        return PS_OK;
    }
    struct psi_err why = {.code = PS_OK};
    ps_status st = psi_cluster_parse_tf_config(r->c, json, &self, &why);
    st = st == PS_OK ? psi_cluster_directory_check(r->c, &why) : st;
    if (st != PS_OK) {
        const size_t skipped = strncmp(why.text, "TF_CONFIG: ", 11) == 0 ? 11 : 0;
        return psi_resolver_refuse(r, "TF_CONFIG", "%s", why.text + skipped);
    }
    const char *index = r->o->task_index;
    if (index != NULL && !psi_digits_read(index, strlen(index), PS_TASKS_MAX - 1, &task)) {
        return psi_fail(r->err, PS_INVALID_ARGUMENT, "--task_index %.64s: a number under %d is expected", index, PS_TASKS_MAX);
    }
    (void)snprintf(r->out->job, sizeof(r->out->job), "%.63s", r->o->job_name != NULL ? r->o->job_name : self.job);
    r->out->task = index != NULL ? (int32_t)task : self.known ? (int32_t)self.task : -1;
    return PS_OK;
}

enum manager { MPI, TORCHRUN, ENV, SLURM, KUBERNETES, MANAGERS };
static const struct {
    const char *name;
    ps_status (*resolve)(struct psi_resolver *r);
} managers[MANAGERS] = {[MPI] = {"mpi", psi_resolve_mpi},
                        [TORCHRUN] = {"torchrun", psi_resolve_torchrun},
                        [ENV] = {"env", resolve_env},
                        [SLURM] = {"slurm", psi_resolve_slurm},
                        [KUBERNETES] = {"kubernetes", psi_resolve_kubernetes}};

bool psi_resolver_named(const char *text)
{
    for (size_t i = 0; i < MANAGERS; i++) {
        if (strcmp(text, managers[i].name) == 0) {
            return true;
        }
    }
    return strcmp(text, "auto") == 0;
}

/* Set signs[i] to the name of the environment variable that shows that manager i has started this process; NULL: it has not. */
static void find_signs(const struct psi_resolver *r, const char *signs[MANAGERS])
{
    static const char *const names[MANAGERS] = {[ENV] = "TF_CONFIG", [SLURM] = "SLURM_PROCID"};
    for (size_t i = 0; i < MANAGERS; i++) {
        signs[i] = names[i] != NULL && psi_resolver_get(r, names[i]) != NULL ? names[i] : NULL;
    }
    const char *pmi_job = psi_resolver_get(r, "PMI_JOBID"); /* srun, unlike mpirun, sets it to JOB.STEP; both set PMI_RANK */
    bool by_srun = signs[SLURM] != NULL && pmi_job != NULL && strchr(pmi_job, '.') != NULL;
    if (psi_resolver_get(r, "OMPI_COMM_WORLD_RANK") != NULL) {
        signs[MPI] = "OMPI_COMM_WORLD_RANK";
    } else if (psi_resolver_get(r, "PMI_RANK") != NULL && !by_srun) {
        signs[MPI] = "PMI_RANK";
    }
    if (psi_resolver_get(r, "TORCHELASTIC_RUN_ID") != NULL) {
        signs[TORCHRUN] = "TORCHELASTIC_RUN_ID";
    } else if (psi_resolver_get(r, "RANK") != NULL && psi_resolver_get(r, "WORLD_SIZE") != NULL &&
               psi_resolver_get(r, "MASTER_ADDR") != NULL) {
        signs[TORCHRUN] = "RANK";
    }
    if (psi_resolver_get(r, "KUBERNETES_SERVICE_HOST") != NULL && r->o->ps_pods != NULL) {
        signs[KUBERNETES] = "KUBERNETES_SERVICE_HOST"; /* without --ps_pods the process counts as alone */
    }
}

static ps_status find_manager(const struct psi_resolver *r, enum manager *out)
{
    static const enum manager pairs[][2] = {{MPI, TORCHRUN}, {MPI, ENV}, {TORCHRUN, ENV}, {ENV, SLURM}};
    const char *signs[MANAGERS];
    find_signs(r, signs);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        const enum manager a = pairs[i][0], b = pairs[i][1];
        if (signs[a] != NULL && signs[b] != NULL) {
            return psi_resolver_refuse(r, signs[a], "%s is set too; give --cluster %s or --cluster %s", signs[b],
                                       managers[a].name, managers[b].name);
        }
    }
    enum manager first = MPI;
    while (first < MANAGERS && signs[first] == NULL) {
        first++;
    }
    *out = first;
    return PS_OK;
}

/* Refuse flags that the manager does not use: whoever gives such a flag expects another manager. */
static ps_status check_flags(const struct psi_resolver *r, enum manager m)
{
    const ps_resolver_options *o = r->o;
    const bool ranks = m == SLURM || m == MPI || m == TORCHRUN;
    const struct {
        const char *name, *text; /* text: NULL where the flag has a number, or was not given */
        uint32_t number, most;   /* number: 0 where it was not given */
        bool read;
    } flags[] = {{"ps_tasks", NULL, o->ps_tasks, PS_TASKS_MAX, ranks || m == KUBERNETES},
                 {"ps_per_node", NULL, o->ps_per_node, PS_TASKS_MAX, m == SLURM},
                 {"worker_tasks", NULL, o->worker_tasks, PS_TASKS_MAX, m == KUBERNETES},
                 {"base_port", NULL, o->base_port, UINT16_MAX, ranks || m == KUBERNETES},
                 {"directory_port", NULL, o->directory_port, UINT16_MAX, ranks},
                 {"ps_pods", o->ps_pods, 0, 0, m == KUBERNETES},
                 {"worker_pods", o->worker_pods, 0, 0, m == KUBERNETES},
                 {"rendezvous", o->rendezvous, 0, 0, m == MPI},
                 {"address_suffix", o->address_suffix, 0, 0, m == SLURM}};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        char number[16];
        (void)snprintf(number, sizeof(number), "%" PRIu32, flags[i].number);
        const char *value = flags[i].text != NULL ? flags[i].text : number;
        if ((flags[i].text != NULL || flags[i].number > 0) && !flags[i].read) {
            return psi_fail(r->err, PS_INVALID_ARGUMENT, "--%s %.200s: --cluster %s does not read it", flags[i].name, value,
                            managers[m].name);
        }
        if (flags[i].number > flags[i].most) {
            return psi_fail(r->err, PS_INVALID_ARGUMENT, "--%s %s: it is over %" PRIu32, flags[i].name, value, flags[i].most);
        }
    }
    if (o->base_port > 0 && o->directory_port > 0) {
        return psi_fail(r->err, PS_INVALID_ARGUMENT,
                        "--directory_port %u and --base_port %u are both given: are the ports of all "
                        "tasks known before, or that of ps task 0 alone?",
                        o->directory_port, o->base_port);
    }
    return PS_OK;
}

ps_status psi_cluster_resolve(const ps_resolver_options *o, char *const *environment, const struct psi_met *met,
                              struct psi_cluster *c, ps_resolved *out, struct psi_meeting *out_meeting, struct psi_err *err)
{
    struct psi_resolver r = {
        .o = o, .environment = environment, .met = met, .c = c, .out = out, .meeting = out_meeting, .err = err};
    const char *wanted = o->cluster != NULL ? o->cluster : "auto";
    enum manager m = MPI;
    *out = (ps_resolved){.manager = "none", .task = -1};
    *out_meeting = (struct psi_meeting){.needed = false};
    ps_status st = PS_OK;
    if (strcmp(wanted, "auto") == 0) {
        st = find_manager(&r, &m);
    } else {
        while (m < MANAGERS && strcmp(wanted, managers[m].name) != 0) {
            m++;
        }
        st = m < MANAGERS ? PS_OK
                          : psi_fail(err, PS_INVALID_ARGUMENT,
                                     "--cluster %.64s: slurm, mpi, kubernetes, torchrun, env or auto is expected", wanted);
    }
    if (st == PS_OK && m == MANAGERS) {
        (void)snprintf(out->why, sizeof(out->why), "no variable of a manager is set");
        return PS_OK;
    }
    st = st == PS_OK ? check_flags(&r, m) : st;
    if (st != PS_OK) {
        return st;
    }
    (void)snprintf(out->manager, sizeof(out->manager), "%s", managers[m].name);
    st = managers[m].resolve(&r);
    if (st != PS_OK) {
        psi_cluster_fini(c);
    }
    return st;
}

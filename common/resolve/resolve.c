/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision: which manager, then its own file decides.
 *
 * auto: mpirun and torchrun start processes inside the others' (a Slurm step, a pod), so they count first; TF_CONFIG is written
 * for one process, so beside Slurm, mpirun or torchrun it contradicts; a pod's TF_CONFIG counts more than the pod's name. No
 * variable of a manager: a process that is alone. Failure: two managers of which neither is inside the other.
 */
#include "internal.h"

#include "common/name.h"

#include <stdio.h>
#include <string.h>

/* TF_CONFIG. Flags count more than its task, as without a resolver. */
static ps_status resolve_env(struct psi_resolver *r)
{
    const char *json = psi_resolver_use(r, "TF_CONFIG");
    struct psi_cluster_self self = {.known = false};
    uint32_t task = 0;
    if (json == NULL) {
        (void)snprintf(r->out->why, sizeof(r->out->why), "TF_CONFIG is not set: a job of one replica has none");
        return PS_OK;
    }
    ps_status st = psi_cluster_parse_tf_config(r->c, json, &self, r->err);
    if (st != PS_OK) {
        return st;
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

/* The variable by which each manager shows; NULL: it does not. */
static void find_signs(const struct psi_resolver *r, const char *signs[MANAGERS])
{
    static const char *const names[MANAGERS] = {[ENV] = "TF_CONFIG", [SLURM] = "SLURM_PROCID"};
    for (size_t i = 0; i < MANAGERS; i++) {
        signs[i] = names[i] != NULL && psi_resolver_get(r, names[i]) != NULL ? names[i] : NULL;
    }
    const char *pmi_job = psi_resolver_get(r, "PMI_JOBID"); /* srun --mpi=pmi2 sets it to JOB.STEP, beside PMI_RANK */
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
        signs[KUBERNETES] = "KUBERNETES_SERVICE_HOST"; /* a pod without --ps_pods is alone */
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

/* Refuse flags that the manager does not read: whoever gives them means another one. */
static ps_status check_flags(const struct psi_resolver *r, enum manager m)
{
    const ps_resolver_options *o = r->o;
    const bool ranks = m == SLURM || m == MPI || m == TORCHRUN;
    const struct {
        const char *name;
        bool given, read;
    } flags[] = {
        {"ps_tasks", o->ps_tasks > 0, ranks || m == KUBERNETES}, {"ps_per_node", o->ps_per_node > 0, m == SLURM},
        {"worker_tasks", o->worker_tasks > 0, m == KUBERNETES},  {"base_port", o->base_port > 0, ranks || m == KUBERNETES},
        {"ps_pods", o->ps_pods != NULL, m == KUBERNETES},        {"worker_pods", o->worker_pods != NULL, m == KUBERNETES},
        {"rendezvous", o->rendezvous != NULL, m == MPI},         {"address_suffix", o->address_suffix != NULL, m == SLURM}};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        if (flags[i].given && !flags[i].read) {
            return psi_fail(r->err, PS_INVALID_ARGUMENT, "--%s is given, and --cluster %s does not read it", flags[i].name,
                            managers[m].name);
        }
    }
    return o->base_port <= UINT16_MAX && o->ps_tasks <= PS_TASKS_MAX && o->worker_tasks <= PS_TASKS_MAX
               ? PS_OK
               : psi_fail(r->err, PS_INVALID_ARGUMENT, "base_port is over 65535, or ps_tasks or worker_tasks over %d",
                          PS_TASKS_MAX);
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

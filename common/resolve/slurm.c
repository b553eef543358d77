/* SPDX-License-Identifier: Apache-2.0 */
/* The tasks of one Slurm step. SLURM_STEP_NODELIST has the nodes, SLURM_STEP_TASKS_PER_NODE the number of tasks on each node. No
 * variable says which ranks are on another node, so the layout is computed from the distribution, and compared with SLURM_GTIDS,
 * the ranks of this node. The job's nodes (SLURM_JOB_NODELIST) may be others, and are never used.
 *
 * Failure: srun has not started the process, counts do not add up, the layout differs from Slurm's, or ports are missing. */
#include "internal.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

#define NODES "SLURM_STEP_NODELIST"
#define RANK "SLURM_PROCID"

struct slurm {
    struct psi_nodes nodes;
    uint32_t tasks_of[PS_TASKS_MAX];                  /* [node] number of tasks */
    uint32_t ranks, rank;                             /* ranks of the step; rank of this process */
    uint32_t node_of[PS_TASKS_MAX], at[PS_TASKS_MAX]; /* [rank] index of the rank's node; its index there */
    uint32_t ports[PS_TASKS_MAX], port_count; /* reserved ports, by a task's index on its node; none: --base_port + index */
    const char *counts_from, *ranks_from;     /* variables that gave the counts and the ranks, for errors */
};

/* `name` if a variable of that name is set, otherwise `other`. Older versions of Slurm set only one of the two variables. */
static const char *either(const struct psi_resolver *r, const char *name, const char *other)
{
    return psi_resolver_get(r, name) != NULL ? name : other;
}

static ps_status read_nodes(struct psi_resolver *r, struct slurm *s)
{
    struct psi_err why = {.code = PS_OK};
    const char *list = psi_resolver_use(r, NODES);
    if (list == NULL && psi_resolver_get(r, "SLURM_JOB_NODELIST") != NULL) {
        return psi_resolver_refuse(r, NODES,
                                   "SLURM_JOB_NODELIST has the nodes of the job, not those of a step; start the program "
                                   "by srun");
    }
    if (list == NULL) {
        return psi_resolver_refuse(r, NODES, "start the program by srun");
    }
    if (psi_nodes_expand(list, &s->nodes, &why) != PS_OK) {
        return psi_resolver_refuse(r, NODES, "%s", why.text);
    }
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(s->nodes.name[i], s->nodes.name[k]) == 0) {
                return psi_resolver_refuse(r, NODES, "node %.64s is there twice", s->nodes.name[i]);
            }
        }
    }
    uint32_t nodes = s->nodes.count;
    ps_status st = psi_resolver_maybe(r, "SLURM_STEP_NUM_NODES", 1, UINT32_MAX, &nodes);
    return st == PS_OK && nodes != s->nodes.count
               ? psi_resolver_refuse(r, "SLURM_STEP_NUM_NODES", NODES " has %u nodes", s->nodes.count)
               : st;
}

static ps_status read_counts(struct psi_resolver *r, struct slurm *s)
{
    struct psi_err why = {.code = PS_OK};
    uint32_t nodes = 0, sum = 0;
    s->counts_from = either(r, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE");
    const char *text = psi_resolver_use(r, s->counts_from);
    if (text == NULL) {
        return psi_resolver_refuse(r, "SLURM_STEP_TASKS_PER_NODE", "how many tasks has each node?");
    }
    if (psi_counts_expand(text, s->tasks_of, &nodes, &why) != PS_OK) {
        return psi_resolver_refuse(r, s->counts_from, "%s", why.text);
    }
    if (nodes != s->nodes.count) {
        return psi_resolver_refuse(r, s->counts_from, "it counts the tasks of %u nodes, " NODES " has %u nodes", nodes,
                                   s->nodes.count);
    }
    for (uint32_t i = 0; i < nodes; i++) {
        if (s->tasks_of[i] > s->ranks - sum) {
            return psi_resolver_refuse(r, s->counts_from, "it counts more than the %u tasks of %s", s->ranks, s->ranks_from);
        }
        sum += s->tasks_of[i];
    }
    return sum == s->ranks
               ? PS_OK
               : psi_resolver_refuse(r, s->counts_from, "it counts %u tasks, %s has %u", sum, s->ranks_from, s->ranks);
}

/* Compute which node has which rank: in turn each node with room gets the next `run` ranks; run 0: as many as it has room for. */
static void deal(struct slurm *s, uint32_t run)
{
    uint32_t used[PS_TASKS_MAX] = {0};
    for (uint32_t rank = 0; rank < s->ranks;) {
        for (uint32_t node = 0; node < s->nodes.count; node++) {
            for (uint32_t k = 0; (run == 0 || k < run) && used[node] < s->tasks_of[node]; k++) {
                s->node_of[rank] = node;
                s->at[rank++] = used[node]++;
            }
        }
    }
}

static bool is_distribution(const char *text, const char *word)
{
    size_t len = strlen(word);
    return strncmp(text, word, len) == 0 && (text[len] == '\0' || text[len] == ':' || text[len] == ',');
}

static ps_status read_layout(struct psi_resolver *r, struct slurm *s)
{
    const char *how = psi_resolver_use(r, "SLURM_DISTRIBUTION");
    bool block = how == NULL || is_distribution(how, "block");
    uint32_t run = 0;
    ps_status st = PS_OK;
    if (!block && r->o->ps_per_node > 0) {
        return psi_resolver_refuse(r, "SLURM_DISTRIBUTION",
                                   "--ps_per_node needs block; give --ps_tasks alone, or srun "
                                   "--distribution=block");
    }
    if (!block && is_distribution(how, "cyclic")) {
        run = 1;
    } else if (!block && is_distribution(how, "plane")) {
        st = psi_resolver_number(r, "SLURM_DIST_PLANESIZE", 1, PS_TASKS_MAX, &run);
    } else if (!block) {
        st = psi_resolver_refuse(r, "SLURM_DISTRIBUTION",
                                 "no variable says where the ranks are then; give srun "
                                 "--distribution=block, cyclic or plane");
    }
    if (st == PS_OK) {
        deal(s, run);
    }
    return st;
}

/* Check the layout against SLURM_GTIDS of this node. The tasks of another node check their own node. */
static ps_status check_layout(struct psi_resolver *r, struct slurm *s)
{
    const uint32_t node_here = s->node_of[s->rank], at_here = s->at[s->rank];
    uint32_t node = node_here, at = at_here, here[PS_TASKS_MAX], count = 0, k = 0;
    struct psi_err why = {.code = PS_OK};
    ps_status st = psi_resolver_maybe(r, "SLURM_NODEID", 0, UINT32_MAX, &node);
    st = st == PS_OK ? psi_resolver_maybe(r, "SLURM_LOCALID", 0, UINT32_MAX, &at) : st;
    if (st != PS_OK) {
        return st;
    }
    if (node != node_here) {
        return psi_resolver_refuse(r, "SLURM_NODEID",
                                   "rank %u is on node %u by %s; say how by srun --distribution=block, cyclic or "
                                   "plane",
                                   s->rank, node_here, s->counts_from);
    }
    const char *ranks = psi_resolver_use(r, "SLURM_GTIDS");
    if (ranks != NULL && psi_numbers_expand(ranks, s->ranks - 1, here, PS_TASKS_MAX, &count, &why) != PS_OK) {
        return psi_resolver_refuse(r, "SLURM_GTIDS", "%s", why.text);
    }
    bool same = true;
    for (uint32_t rank = 0; ranks != NULL && same && rank < s->ranks; rank++) {
        if (s->node_of[rank] == node_here) {
            same = k < count && here[k] == rank;
            k++;
        }
    }
    if (ranks != NULL && (!same || k != count)) {
        return psi_resolver_refuse(r, "SLURM_GTIDS",
                                   "the ranks of node %u are others if dealt as %s says; give srun "
                                   "--distribution=block, cyclic or plane",
                                   node_here,
                                   psi_resolver_get(r, "SLURM_DISTRIBUTION") != NULL ? "SLURM_DISTRIBUTION" : "no variable");
    }
    return at == at_here ? PS_OK
                         : psi_resolver_refuse(r, "SLURM_LOCALID", "rank %u is task %u of its node by %s", s->rank, at_here,
                                               s->counts_from);
}

static ps_status read_ports(struct psi_resolver *r, struct slurm *s)
{
    static const char name[] = "SLURM_STEP_RESV_PORTS";
    struct psi_err why = {.code = PS_OK};
    uint32_t needed = 0;
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        needed = s->tasks_of[i] > needed ? s->tasks_of[i] : needed;
    }
    if (r->o->base_port > 0) {
        return r->o->base_port + needed - 1 <= UINT16_MAX
                   ? PS_OK
                   : psi_fail(r->err, PS_INVALID_ARGUMENT, "--base_port %u: a node has %u tasks, and ports end at 65535",
                              r->o->base_port, needed);
    }
    if (r->o->directory_port > 0) {
        return PS_OK;
    }
    const char *text = psi_resolver_use(r, name);
    if (text == NULL) {
        return psi_resolver_refuse(r, name,
                                   "slurm.conf has no MpiParams=ports=FIRST-LAST; give --directory_port, or --base_port");
    }
    if (psi_numbers_expand(text, UINT16_MAX, s->ports, PS_TASKS_MAX, &s->port_count, &why) != PS_OK) {
        return psi_resolver_refuse(r, name, "%s", why.text);
    }
    for (uint32_t i = 0; i < s->port_count; i++) {
        bool twice = false;
        for (uint32_t k = 0; k < i; k++) {
            twice = twice || s->ports[i] == s->ports[k];
        }
        if (s->ports[i] == 0 || twice) {
            return psi_resolver_refuse(r, name, twice ? "port %u is there twice" : "port %u: a port is 1 to 65535", s->ports[i]);
        }
    }
    return s->port_count >= needed ? PS_OK
                                   : psi_resolver_refuse(r, name, "%u ports for %u tasks of a node; give srun --resv-ports=%u",
                                                         s->port_count, needed, needed);
}

static ps_status add_tasks(struct psi_resolver *r, struct slurm *s)
{
    const uint32_t each = r->o->ps_per_node;
    uint32_t most = r->o->ps_tasks > 0 ? r->o->ps_tasks : s->ranks;
    uint32_t ps = 0, workers = 0;
    const char *suffix = r->o->address_suffix != NULL ? r->o->address_suffix : "";
    char from[PSI_VARIABLE_SHOWN + 80];
    ps_status st = PS_OK;
    psi_resolver_show(r, NODES, from);
    if (suffix[0] != '\0') {
        const size_t used = strlen(from);
        (void)snprintf(from + used, sizeof(from) - used, ", --address_suffix %.60s", suffix);
    }
    for (uint32_t rank = 0; st == PS_OK && rank < s->ranks; rank++) {
        char host[2 * PS_HOST_BYTES_MAX + 2];
        bool is_ps = ps < most && (each == 0 || s->at[rank] < each);
        const char *job = is_ps ? "ps" : "worker";
        uint32_t task = is_ps ? ps++ : workers++;
        uint32_t port = r->o->directory_port > 0 ? psi_resolver_port(r, is_ps ? task : UINT32_MAX)
                        : s->port_count > 0      ? s->ports[s->at[rank]]
                                                 : r->o->base_port + s->at[rank];
        (void)snprintf(host, sizeof(host), "%s%.*s", s->nodes.name[s->node_of[rank]], PS_HOST_BYTES_MAX, suffix);
        st = psi_resolver_add(r, from, job, task, host, port);
        if (st == PS_OK && rank == s->rank) {
            st = psi_resolver_place(r, RANK, job, task);
        }
    }
    if (st == PS_OK && r->o->ps_tasks > 0 && ps < r->o->ps_tasks) {
        st =
            psi_resolver_refuse(r, s->counts_from, "%u ps tasks at --ps_per_node %u, --ps_tasks is %u", ps, each, r->o->ps_tasks);
    }
    return st;
}

static ps_status resolve(struct psi_resolver *r, struct slurm *s)
{
    ps_status st = PS_OK;
    if (psi_resolver_get(r, "OMPI_COMM_WORLD_RANK") != NULL) {
        return psi_resolver_refuse(r, "OMPI_COMM_WORLD_RANK",
                                   "mpirun started this process, whose " RANK " is that of mpirun's daemon; give --cluster mpi");
    }
    if (r->o->ps_tasks == 0 && r->o->ps_per_node == 0) {
        return psi_resolver_refuse(r, either(r, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
                                   "give --ps_tasks or --ps_per_node: how many of these tasks are ps?");
    }
    s->ranks_from = either(r, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS");
    st = read_nodes(r, s);
    st = st == PS_OK ? psi_resolver_number(r, s->ranks_from, 1, PS_TASKS_MAX, &s->ranks) : st;
    st = st == PS_OK ? psi_resolver_number(r, RANK, 0, s->ranks - 1, &s->rank) : st;
    st = st == PS_OK ? psi_resolver_ps(r, s->ranks_from, s->ranks) : st;
    st = st == PS_OK ? read_counts(r, s) : st;
    st = st == PS_OK ? read_layout(r, s) : st;
    st = st == PS_OK ? check_layout(r, s) : st;
    st = st == PS_OK ? read_ports(r, s) : st;
    return st == PS_OK ? add_tasks(r, s) : st;
}

ps_status psi_resolve_slurm(struct psi_resolver *r)
{
    struct slurm *s = psi_calloc(1, sizeof(*s));
    ps_status st = s != NULL ? resolve(r, s) : psi_fail(r->err, PS_RESOURCE_EXHAUSTED, "no memory for the nodes of the step");
    psi_free(s);
    return st;
}

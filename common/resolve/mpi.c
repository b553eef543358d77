/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that know their rank, but not the hosts of the other ranks: mpirun of Open MPI and of MPICH, torchrun.
 *
 * The first --ps_tasks ranks are ps tasks. --cluster mpi: with --rendezvous FILE each rank leaves its address in FILE.RANK, which
 * all hosts see; without --base_port and --directory_port ps task 0 takes a free port. With --rendezvous HOST:PORT ps task 0, the
 * directory, listens there; the other ranks tell the directory where they are. --cluster torchrun: MASTER_ADDR is the host of the
 * first ranks, so all ps tasks are on it.
 *
 * Failure: no rendezvous, ranks that do not fit, ps tasks on another host than MASTER_ADDR, torchrun's own port. */
#include "internal.h"

#include "common/name.h"

#include <stdio.h>
#include <string.h>

/* Names of the environment variables that one launcher sets. */
struct names {
    /* `at` names the variable with the process's index on its host, `job` that with the job's unique name; NULL: there is none */
    const char *rank, *ranks, *at, *job;
};

struct ranks {
    uint32_t rank, ranks, at;
};

static ps_status read_ranks(struct psi_resolver *r, const struct names *n, struct ranks *out)
{
    ps_status st = psi_resolver_number(r, n->ranks, 1, PS_TASKS_MAX, &out->ranks);
    st = st == PS_OK ? psi_resolver_number(r, n->rank, 0, out->ranks - 1, &out->rank) : st;
    st = st == PS_OK ? psi_resolver_number(r, n->at, 0, out->ranks - 1, &out->at) : st;
    if (st == PS_OK && r->o->ps_tasks == 0) {
        return psi_resolver_refuse(r, n->ranks, "give --ps_tasks: how many of these ranks are ps?");
    }
    return st == PS_OK ? psi_resolver_ps(r, n->ranks, out->ranks) : st;
}

static ps_status take_place(struct psi_resolver *r, const struct names *n, const struct ranks *k)
{
    const uint32_t ps = r->o->ps_tasks;
    return psi_resolver_place(r, n->rank, k->rank < ps ? "ps" : "worker", k->rank < ps ? k->rank : k->rank - ps);
}

/* Find the host name or address by which the other ranks can reach this machine. */
static ps_status find_host(struct psi_resolver *r, const char **out)
{
    static const char name[] = "MPIR_CVAR_CH3_INTERFACE_HOSTNAME";
    char text[PS_HOST_BYTES_MAX + 8];
    struct psi_err why = {.code = PS_OK};
    struct psi_address address;
    const char *by_variable = psi_resolver_use(r, name), *by_system = r->o->host_name != NULL ? r->o->host_name : "";
    const char *host = by_variable != NULL ? by_variable : by_system;
    *out = host;
    (void)snprintf(text, sizeof(text), strchr(host, ':') != NULL ? "[%.256s]:1" : "%.256s:1", host);
    if (psi_address_parse(text, false, &address, &why) == PS_OK) {
        return PS_OK;
    }
    return by_variable != NULL ? psi_resolver_refuse(r, name, "%s", why.text)
                               : psi_fail(r->err, PS_INVALID_ARGUMENT, "host name '%.200s': %s", host, why.text);
}

static ps_status prepare_meeting(struct psi_resolver *r, const struct names *n, const struct ranks *k)
{
    const bool any = r->o->base_port == 0;
    const uint32_t port = any ? psi_resolver_port(r, k->rank) : r->o->base_port + k->at;
    struct psi_address address = {.kind = PSI_ADDRESS_TCP, .port = (uint16_t)port};
    char text[PS_ADDRESS_BYTES_MAX + 1];
    const char *host = NULL;
    const char *job = n->job != NULL ? psi_resolver_use(r, n->job) : NULL;
    if (port > UINT16_MAX) {
        return psi_resolver_refuse(r, n->at, "--base_port %u: ports end at 65535", r->o->base_port);
    }
    ps_status st = find_host(r, &host);
    if (st != PS_OK) {
        return st;
    }
    memcpy(address.host, host, strlen(host) + 1);
    *r->meeting =
        (struct psi_meeting){.needed = true, .takes_port = port == 0 && k->rank == 0, .rank = k->rank, .count = k->ranks};
    (void)snprintf(r->meeting->text, sizeof(r->meeting->text), "%s %.120s", psi_address_format(&address, text, sizeof(text)),
                   job != NULL ? job : "-");
    return PS_OK;
}

static ps_status add_met(struct psi_resolver *r, const struct ranks *k)
{
    const char *own = strchr(r->meeting->text, ' ');
    ps_status st = PS_OK;
    if (r->met->count != k->ranks) {
        return psi_fail(r->err, PS_INVALID_ARGUMENT, "%u ranks were met, there are %u", r->met->count, k->ranks);
    }
    for (uint32_t rank = 0; st == PS_OK && rank < k->ranks; rank++) {
        char address[PS_ADDRESS_BYTES_MAX + 1];
        const char *text = r->met->texts[rank];
        const char *blank = text != NULL ? strchr(text, ' ') : NULL;
        size_t len = blank != NULL ? (size_t)(blank - text) : 0;
        bool is_ps = rank < r->o->ps_tasks;
        /* a text of another job is an old file: this job's rank has left nothing yet */
        if (text == NULL || (blank != NULL && strcmp(blank, own) != 0)) {
            return psi_fail(r->err, PS_UNAVAILABLE, "--rendezvous %.200s: rank %u of %u has left no address in its file",
                            r->o->rendezvous, rank, k->ranks);
        }
        if (blank == NULL || len >= sizeof(address)) {
            char quoted[64];
            return psi_fail(r->err, PS_INVALID_ARGUMENT, "--rendezvous %.200s: rank %u has %s in its file, which is no address",
                            r->o->rendezvous, rank, psi_quote(quoted, sizeof(quoted), text, strlen(text)));
        }
        memcpy(address, text, len);
        address[len] = '\0';
        st = psi_cluster_add_task(r->c, is_ps ? "ps" : "worker", is_ps ? rank : rank - r->o->ps_tasks, address, r->err);
        if (st != PS_OK) {
            psi_err_prefix(r->err, "--rendezvous %.200s", r->o->rendezvous);
        }
    }
    return st;
}

/* True if the text is to be HOST:PORT. A text without ':' or with '/' is the path of a file. */
static bool is_address(const char *text)
{
    return strchr(text, '/') == NULL && strchr(text, ':') != NULL;
}

/* Set the cluster of --rendezvous HOST:PORT: ps task 0, the directory, listens there; the others take free ports and tell it. */
static ps_status add_around(struct psi_resolver *r, const struct ranks *k)
{
    struct psi_address address;
    const uint32_t given = r->o->base_port > 0 ? r->o->base_port : r->o->directory_port;
    struct psi_err why = {.code = PS_OK};
    if (psi_address_parse(r->o->rendezvous, false, &address, &why) != PS_OK) {
        return psi_fail(r->err, PS_INVALID_ARGUMENT, "--rendezvous %.100s: %s; the path of a file has '/' or no ':'",
                        r->o->rendezvous, why.text);
    }
    if (given > 0) {
        return psi_fail(r->err, PS_INVALID_ARGUMENT,
                        "--%s %u: --rendezvous %.200s has the port of ps task 0, the others have none",
                        r->o->base_port > 0 ? "base_port" : "directory_port", given, r->o->rendezvous);
    }
    ps_status st = psi_cluster_add_task(r->c, "ps", 0, r->o->rendezvous, r->err);
    for (uint32_t rank = 1; st == PS_OK && rank < r->o->ps_tasks; rank++) {
        char text[32];
        const char *host = text;
        (void)snprintf(text, sizeof(text), "rank-%u.invalid", rank);
        st = rank == k->rank ? find_host(r, &host) : PS_OK;
        st = st == PS_OK ? psi_resolver_add(r, host, "ps", rank, host, 0) : st;
    }
    return st == PS_OK ? psi_resolver_unlisted(r, r->o->ps_tasks, k->ranks) : st;
}

ps_status psi_resolve_mpi(struct psi_resolver *r)
{
    static const struct names open_mpi = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                                          "PMIX_NAMESPACE"};
    static const struct names mpich = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", NULL};
    const struct names *n =
        psi_resolver_get(r, mpich.rank) != NULL && psi_resolver_get(r, open_mpi.rank) == NULL ? &mpich : &open_mpi;
    struct ranks k = {.ranks = 0};
    if (n == &open_mpi && psi_resolver_get(r, n->rank) == NULL) {
        return psi_resolver_refuse(r, n->rank, "and neither is PMI_RANK; start the program by mpirun");
    }
    ps_status st = read_ranks(r, n, &k);
    if (st != PS_OK) {
        return st;
    }
    const char *rendezvous = r->o->rendezvous;
    if (rendezvous == NULL || rendezvous[0] == '\0') {
        return psi_resolver_refuse(r, n->rank, "no variable names the hosts of other ranks; give --rendezvous FILE|HOST:PORT");
    }
    st = take_place(r, n, &k);
    if (st != PS_OK) {
        return st;
    }
    if (is_address(rendezvous)) {
        return add_around(r, &k);
    }
    st = prepare_meeting(r, n, &k);
    return st == PS_OK && r->met != NULL ? add_met(r, &k) : st;
}

ps_status psi_resolve_torchrun(struct psi_resolver *r)
{
    static const struct names n = {"RANK", "WORLD_SIZE", "LOCAL_RANK", NULL};
    struct ranks k = {.ranks = 0};
    uint32_t here = 0, group = 0, taken = 0;
    ps_status st = read_ranks(r, &n, &k);
    st = st == PS_OK ? psi_resolver_number(r, "LOCAL_WORLD_SIZE", 1, k.ranks, &here) : st;
    st = st == PS_OK ? psi_resolver_number(r, "GROUP_RANK", 0, k.ranks - 1, &group) : st;
    st = st == PS_OK ? psi_resolver_number(r, "MASTER_PORT", 1, UINT16_MAX, &taken) : st;
    if (st != PS_OK) {
        return st;
    }
    const bool any = r->o->directory_port > 0;
    const uint32_t ps = r->o->ps_tasks, base = any ? r->o->directory_port : r->o->base_port, ports = any ? 1 : ps;
    const char *master = psi_resolver_use(r, "MASTER_ADDR");
    char from[PSI_VARIABLE_SHOWN];
    if (master == NULL) {
        return psi_resolver_refuse(r, "MASTER_ADDR", "on which host are the ps tasks?");
    }
    if (ps > here) {
        return psi_resolver_refuse(r, "LOCAL_WORLD_SIZE", "all %u ps tasks must be on the host of MASTER_ADDR", ps);
    }
    if (k.rank < ps && (group != 0 || k.at != k.rank)) {
        return psi_resolver_refuse(r, group != 0 ? "GROUP_RANK" : "LOCAL_RANK",
                                   "rank %u is to be a ps task, and is not on the host of MASTER_ADDR as its %uth rank", k.rank,
                                   k.rank);
    }
    if (base == 0) {
        return psi_fail(r->err, PS_INVALID_ARGUMENT,
                        "--base_port is missing: at which port do the ps tasks begin? Or give "
                        "--directory_port");
    }
    if (base + ports - 1 > UINT16_MAX) {
        return psi_fail(r->err, PS_INVALID_ARGUMENT, "--base_port %u: --ps_tasks is %u, and ports end at 65535", base, ps);
    }
    if (taken >= base && taken < base + ports) {
        return psi_resolver_refuse(r, "MASTER_PORT", "torchrun listens there; --%s %u would take it",
                                   any ? "directory_port" : "base_port", base);
    }
    st = take_place(r, &n, &k);
    for (uint32_t i = 0; st == PS_OK && i < ps; i++) {
        st = psi_resolver_add(r, psi_resolver_show(r, "MASTER_ADDR", from), "ps", i, master,
                              any ? psi_resolver_port(r, i) : base + i);
    }
    return st == PS_OK ? psi_resolver_unlisted(r, ps, k.ranks) : st;
}

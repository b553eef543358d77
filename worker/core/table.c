/* SPDX-License-Identifier: Apache-2.0 */
/* The table of tasks: made once, from the options or from the first HELLO. Happy path: each task of the cluster gets a peer, in
 * the cluster's order; the target keeps its connection; requests that waited for the cluster start. Failure: no memory, a cluster
 * without tasks, or a directory at port 0: nothing changes. */
#include "client.h"

#include "common/mem.h"

#include <string.h>

ps_status psi_client_learn(struct psi_client *c, const struct psi_cluster *cluster, struct psi_peer *target, struct psi_err *err)
{
    uint32_t total = psi_cluster_total_tasks(cluster);
    const char *dir_job = NULL;
    uint32_t dir_task = 0;
    if (total == 0 || !psi_cluster_directory(cluster, &dir_job, &dir_task)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the cluster has no tasks");
    }
    if (psi_cluster_directory_check(cluster, err) != PS_OK) {
        return PS_INVALID_ARGUMENT;
    }
    struct psi_cluster copy;
    psi_cluster_init(&copy);
    struct psi_peer **table = psi_calloc(total, sizeof(struct psi_peer *));
    ps_status st = table != NULL ? psi_cluster_copy(&copy, cluster, err) : psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory");
    uint32_t n = 0;
    if (st == PS_OK && c->cluster_name[0] != '\0') {
        st = psi_cluster_set_name(&copy, c->cluster_name, err);
    }
    for (uint32_t j = 0; st == PS_OK && j < psi_cluster_job_count(&copy); j++) {
        const char *job = psi_cluster_job_name(&copy, j);
        for (uint32_t at = 0; st == PS_OK && at < psi_cluster_num_tasks(&copy, job); at++) {
            uint32_t t = psi_cluster_task_index(&copy, job, at);
            if (target != NULL && target->task == t && strcmp(target->job, job) == 0) {
                table[n] = target;
            } else {
                table[n] = psi_peer_new(c, psi_cluster_task_address(&copy, job, t));
                if (table[n] == NULL) {
                    st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for %u tasks", total);
                    break;
                }
                psi_peer_name(table[n], job, t);
            }
            n++;
        }
    }
    if (st != PS_OK) {
        for (uint32_t i = 0; i < n; i++) {
            if (table[i] != target) {
                psi_peer_free(table[i]);
            }
        }
        psi_free(table);
        psi_cluster_fini(&copy);
        return st;
    }
    psi_free(c->peers);
    c->peers = table;
    c->peer_count = total;
    for (uint32_t i = 0; i < total; i++) {
        table[i]->index = i;
    }
    psi_cluster_fini(&c->cluster);
    c->cluster = copy;
    c->cluster_hash = psi_cluster_hash(&c->cluster);
    PSI_ASSERT(psi_cluster_directory(&c->cluster, &dir_job, &dir_task));
    c->known = true;
    c->directory = psi_client_find_task(c, dir_job, dir_task);
    psi_placement_init(&c->placement, &c->cluster);
    struct psi_list *link = NULL;
    while ((link = psi_list_first(&c->early)) != NULL) {
        psi_request_go(PSI_CONTAINER_OF(link, struct psi_request, link));
    }
    return PS_OK;
}

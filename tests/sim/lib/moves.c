/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks whose address nobody knows before they start: all ps tasks but the directory listen at a free port of one host, at
 * another one in each life. There are few ports, so a task often gets the one that another task had in its last life, and clients
 * dial it there. That no request reaches a task that it was not meant for is seen by the oracles: they know the task of each
 * call.
 */
#include "sim.h"

#include <string.h>

bool sim_moves_is(const struct sim *s, const struct sim_task *t)
{
    return s->k.moves && t->same_job && t->index > 0;
}

static struct sim_task *holder(struct sim *s, const char *address)
{
    for (uint32_t i = 0; i < s->task_count; i++) {
        if (strcmp(s->task[i].address, address) == 0) {
            return &s->task[i];
        }
    }
    return NULL;
}

void sim_moves_start(struct sim *s, struct sim_task *t, struct psd_task_config *config, struct psi_cluster *cluster)
{
    struct psi_err err = {.code = PS_OK};
    char address[sizeof(t->address)];
    struct sim_task *before = NULL;
    if (psi_cluster_copy(cluster, &s->cluster, &err) != PS_OK) {
        sim_fail(s, "%s", err.text);
    }
    config->cluster = cluster;
    if (!sim_moves_is(s, t)) {
        return;
    }
    do {
        (void)snprintf(address, sizeof(address), "t:%u", 1 + (uint32_t)sim_below(s, s->k.ps_tasks + 1u));
        before = holder(s, address);
    } while (before != NULL && before->core != NULL);
    s->count_moved += strcmp(t->address, address) != 0;
    if (before != NULL) {
        before->address[0] = '\0';
    }
    memcpy(t->address, address, sizeof(address));
    config->any_port = true;
    if (psi_cluster_set_address(cluster, t->job, t->index, address, &err) != PS_OK) {
        sim_fail(s, "%s", err.text);
    }
}

struct sim_task *sim_task_named(struct sim *s, const struct psi_client *c, uint32_t i)
{
    for (uint32_t k = 0; psi_client_task_name(c, i) != NULL && k < s->task_count; k++) {
        char name[PSI_TASK_NAME_MAX];
        if (strcmp(psi_client_task_name(c, i), psi_task_name_format(name, sizeof(name), s->task[k].job, s->task[k].index)) == 0) {
            return &s->task[k];
        }
    }
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What operators ask of a task as a whole: SHUTDOWN, and of the directory: TASKS. INFO, containers, sessions, waits and settings
 * are in files of their own. Failure: without memory for a list RESOURCE_EXHAUSTED.
 */
#include "rpc.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHUTDOWN_RETRY_MS = 100 };

/* Names recorded for a task whose process of now has not said that it has them. */
struct lost {
    uint32_t count;
    char text[PSD_NAMES_HALF];
    struct psd_names names;
};

/* For each peer; only one that is another process than before can have lost any. */
static void find_lost(const struct psd_task *t, struct lost *lost)
{
    bool restarted = false;
    uint64_t cursor = 0;
    void *value = NULL;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        lost[i].names = PSD_NAMES_IN(lost[i].text);
        restarted = restarted || t->peers[i].restarts > 0;
    }
    while (restarted && psi_map_next(&t->names.names, &cursor, NULL, NULL, &value)) {
        const struct psd_name *n = value;
        const struct psd_peer *p = &t->peers[n->owner];
        if (n->sure && n->life != p->life && p->listed) {
            lost[n->owner].count++;
            bool other = strcmp(n->container, PSI_CONTAINER_DEFAULT) != 0;
            psd_names_add(&lost[n->owner].names, "%s%s%s", other ? n->container : "", other ? ": " : "", n->name);
        }
    }
}

void psd_rpc_tasks(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psd_list l;
    struct lost *lost = psi_calloc(t->peer_count, sizeof(*lost));
    if (lost == NULL) {
        psd_list_refuse(t, c, r);
        return;
    }
    find_lost(t, lost);
    psd_list_begin(&l, t, c, PS_OP_TASKS, PS_FLAG_REPLY, r->header.id);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        ps_v1_TaskAnswer a = ps_v1_TaskAnswer_init_zero;
        a.task = p->task;
        a.connected = p->self || p->listed;
        a.heard = p->self || p->heard;
        a.missing_ms = a.connected ? 0 : t->now_ms - p->missing_since_ms;
        a.life = p->life;
        a.pid = p->pid;
        a.restarts = p->restarts;
        a.lost = lost[i].count;
        PSI_IGNORE(PSI_BYTES_SET(a.lost_names, psd_names_text(&lost[i].names)));                      /* fits */
        PSI_IGNORE(PSI_BYTES_SET(a.job, p->job));                                                     /* fits: checked name */
        PSI_IGNORE(PSI_BYTES_SET(a.address, psi_cluster_task_address(&t->cluster, p->job, p->task))); /* likewise */
        PSI_IGNORE(PSI_BYTES_SET(a.host, p->host));                                                   /* cut is fine */
        PSI_IGNORE(PSI_BYTES_SET(a.conflict, psd_peer_conflict(t, p)));                               /* likewise */
        psd_list_add(&l, &ps_v1_TaskAnswer_msg, &a);
    }
    psd_list_end(&l);
    psi_free(lost);
}

void psd_rpc_shutdown(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    psd_log(t, PSI_LOG_INFO, "shutdown_asked", PSI_KV("peer", c->text));
    struct psi_err err;
    bool asked = psd_effect(t, PSD_EFFECT_SHUTDOWN, "");
    if (!asked) {
        PSI_IGNORE(psi_fail(&err, PS_RESOURCE_EXHAUSTED, "%s: no memory to shut down", t->name)); /* sent below */
    }
    psd_reply(t, c, PS_OP_SHUTDOWN, 0, r->header.id, 0, asked ? NULL : &err, asked ? 0 : SHUTDOWN_RETRY_MS, NULL, NULL);
}

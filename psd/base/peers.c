/* SPDX-License-Identifier: Apache-2.0 */
/* The other tasks of the cluster as this task sees them, and which process runs as each of them.
 *
 * Two processes may claim to be one task. A new process, which no directory has accepted yet, displaces a connected one,
 * because it may be the restart of a process whose old connection is half-open. A process that was accepted before is refused
 * while another one is connected (tasklink.c). Otherwise the two would displace each other for ever. */
#include "base.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

enum { CONFLICT_KEPT_MS = 20000 /* ms; longer than a refused process waits before it tries again: 5 s + 25 % */, RETRY_MS = 100 };

ps_status psd_peers_init(struct psd_task *t, struct psi_err *err)
{
    t->peer_count = psi_cluster_total_tasks(&t->cluster);
    t->peers = psi_calloc(t->peer_count, sizeof(*t->peers));
    if (t->peers == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "task: memory for %u tasks", t->peer_count);
    }
    const char *directory_job = NULL;
    uint32_t directory_task = 0, at = 0;
    PSI_ASSERT(psi_cluster_directory(&t->cluster, &directory_job, &directory_task)); /* the cluster has at least this task */
    t->self = PSD_NO_PEER;
    for (uint32_t j = 0; j < psi_cluster_job_count(&t->cluster); j++) {
        const char *job = psi_cluster_job_name(&t->cluster, j);
        for (uint32_t position = 0; position < psi_cluster_num_tasks(&t->cluster, job); position++) {
            uint32_t i = psi_cluster_task_index(&t->cluster, job, position);
            struct psd_peer *p = &t->peers[at];
            PSI_IGNORE(snprintf(p->job, sizeof(p->job), "%s", job)); /* fits: a checked name */
            p->task = i;
            p->index = at;
            p->own_job = strcmp(job, directory_job) == 0;
            p->self = strcmp(job, t->config.job) == 0 && i == t->config.task;
            p->missing_since_ms = t->now_ms;
            psi_list_init(&p->asks);
            if (p->self) {
                t->self = at;
                p->any_port = t->config.any_port;
                p->address_life = t->life;
                p->listed = p->heard = true;
                p->features = PS_FEATURES_KNOWN;
                p->life = t->life;
                p->pid = t->config.pid;
                memcpy(p->host, t->config.host, sizeof(p->host));
            }
            if (p->own_job && i == directory_task) {
                t->directory = at;
            }
            p->any_port = p->any_port || psi_address_any_port(psi_cluster_task_address(&t->cluster, job, i));
            t->any_ports = t->any_ports || p->any_port;
            at++;
        }
    }
    if (t->self == PSD_NO_PEER) {
        char list[PSI_TASK_LIST_MAX];
        return psi_fail(err, PS_INVALID_ARGUMENT, "/job:%s/task:%u is not in the cluster; job %s has tasks %s", t->config.job,
                        t->config.task, t->config.job, psi_cluster_task_list(&t->cluster, t->config.job, list, sizeof(list)));
    }
    t->is_directory = t->self == t->directory;
    return PS_OK;
}

struct psd_peer *psd_peer_find(const struct psd_task *t, const char *job, uint32_t task)
{
    uint32_t number = psi_cluster_task_number(&t->cluster, job, task); /* psd_peers_init() has sorted the peers by this number */
    return number < t->peer_count ? &t->peers[number] : NULL;
}

void psd_peers_free(struct psd_task *t)
{
    for (uint32_t i = 0; t->peers != NULL && i < t->peer_count; i++) {
        psi_free(t->peers[i].address);
    }
    psi_free(t->peers);
}

const char *psd_peer_address(const struct psd_task *t, const struct psd_peer *p)
{
    return p->address != NULL ? p->address : psi_cluster_task_address(&t->cluster, p->job, p->task);
}

void psd_peer_item(const struct psd_task *t, const struct psd_peer *p, ps_v1_TaskItem *out)
{
    *out = (ps_v1_TaskItem)ps_v1_TaskItem_init_zero;
    out->task = p->task;
    out->life = p->any_port ? p->address_life : 0;
    out->version = p->address_version;
    PSI_IGNORE(PSI_BYTES_SET(out->job, p->job));                     /* fits: checked name */
    PSI_IGNORE(PSI_BYTES_SET(out->address, psd_peer_address(t, p))); /* fits: checked address */
}

const char *psd_peer_text(const struct psd_task *t, const struct psd_peer *p, char *buf, size_t n)
{
    PSI_IGNORE(snprintf(buf, n, "/job:%s/task:%u (%s)", p->job, p->task, psd_peer_address(t, p))); /* a cut text is fine */
    return buf;
}

bool psd_peers_left(const struct psd_task *t, uint64_t life)
{
    for (uint32_t i = 0; i < t->left_count && i < sizeof(t->left_lives) / sizeof(t->left_lives[0]); i++) {
        if (t->left_lives[i] == life) {
            return true;
        }
    }
    return false;
}

ps_status psd_peers_begun(const struct psd_task *t, struct psi_err *err)
{
    bool waits = t->loading;
    for (uint32_t i = 0; !waits && i < t->peer_count; i++) {
        waits = t->peers[i].own_job && t->peers[i].waits;
    }
    if (waits && t->refused != NULL) {
        return psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_NOT_READY, "the tasks of job %s do not begin: %s",
                           t->peers[t->directory].job, t->refused);
    }
    return !waits ? PS_OK
                  : psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_NOT_READY,
                                "what the tasks of job %s begin with is not loaded yet%s%s", t->peers[t->directory].job,
                                t->delayed != NULL ? ": " : "", t->delayed != NULL ? t->delayed : "");
}

bool psd_peers_refuse(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psi_err err;
    bool shows = !t->peers[t->self].waits && t->store.variable_count > 0;
    if (shows || psd_peers_begun(t, &err) == PS_OK) {
        return false;
    }
    psd_reply(t, c, r->header.op, 0, r->header.id, 0, &err, err.code == PS_UNAVAILABLE ? RETRY_MS : 0, NULL, NULL);
    return true;
}

void psd_peer_note_conflict(const struct psd_task *t, struct psd_peer *p, const char *host, uint32_t pid, uint64_t life)
{
    PSI_IGNORE(
        snprintf(p->conflict, sizeof(p->conflict),
                 "process %u on %s says that it is this task too; stop one of the two, or start it with another task_index", pid,
                 host)); /* fits */
    p->conflict_ms = t->now_ms;
    p->conflict_life = life;
}

const char *psd_peer_conflict(const struct psd_task *t, const struct psd_peer *p)
{
    return p->conflict[0] != '\0' && t->now_ms - p->conflict_ms < CONFLICT_KEPT_MS ? p->conflict : "";
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines about requests that wait for long. If a task hangs, a step of a model with 100,000 variables causes one line, with
 * the number of requests and one example. Requests that have waited for PSI_SLOW_MS are counted by task and kind, and logged at
 * most once in PSI_SLOW_MS. Tasks and kinds beyond GROUPS_MAX are counted in the last line. */
#include "client.h"

/* SLOW_TOO_MS: if a request is logged, others of its task and kind that become due within this time are counted in the same line:
 * they are probably of the same step */
enum { GROUPS_MAX = 16, SLOW_TOO_MS = 1000 };

struct slow_group {
    const struct psi_request *example; /* the request that explains the wait best (explains()) */
    const struct psi_peer *peer;
    uint32_t count;
    uint64_t oldest_ms; /* start of the oldest request */
};

/* How well req explains the wait. A log line shows the request with the highest result as its example. 3: its task is down. 2: a
 * task has refused it. 1: it was sent. 0: it is queued in this process. */
static int explains(const struct psi_request *req)
{
    const struct psi_peer *peer = psi_request_peer(req);
    bool queued = req->stage == PSI_STAGE_WAITING || req->stage == PSI_STAGE_TURN;
    return peer != NULL && psi_peer_down(peer) ? 3 : req->why != NULL ? 2 : queued ? 0 : 1;
}

/* Index of the group with req's kind and task; returns `count` if there is no such group. */
static uint32_t find_group(const struct slow_group *groups, uint32_t count, const struct psi_request *req)
{
    const struct psi_peer *peer = psi_request_peer(req);
    uint32_t i = 0;
    while (i < count && (groups[i].example->kind != req->kind || groups[i].peer != peer)) {
        i++;
    }
    return i;
}

static bool has_group(const struct slow_group *groups, uint32_t count, const struct psi_request *req)
{
    return find_group(groups, count, req) < count;
}

static void add(struct slow_group *groups, uint32_t *count, const struct psi_request *req)
{
    const struct psi_peer *peer = psi_request_peer(req);
    uint32_t i = find_group(groups, *count, req);
    if (i == GROUPS_MAX) {
        i--;
    } else if (i == *count) {
        groups[(*count)++] = (struct slow_group){.example = req, .peer = peer, .oldest_ms = req->started_ms};
    }
    struct slow_group *g = &groups[i];
    g->count++;
    g->oldest_ms = req->started_ms < g->oldest_ms ? req->started_ms : g->oldest_ms;
    g->example = explains(req) > explains(g->example) ? req : g->example;
}

uint64_t psi_slow_due(const struct psi_request *req)
{
    uint64_t due = req->started_ms + PSI_SLOW_MS;
    return (req->flags & PSI_REQUEST_SLOW_LOGGED) != 0 ? UINT64_MAX : due > req->owner->slow_ms ? due : req->owner->slow_ms;
}

void psi_slow_tell(struct psi_client *c)
{
    struct slow_group groups[GROUPS_MAX];
    uint32_t count = 0;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &c->all) {
        struct psi_request *req = PSI_CONTAINER_OF(it, struct psi_request, all);
        const uint64_t due = psi_slow_due(req);
        const bool due_too = due > c->now_ms && due - c->now_ms <= SLOW_TOO_MS && has_group(groups, count, req);
        if (due > c->now_ms && !due_too) {
            continue;
        }
        req->flags |= PSI_REQUEST_SLOW_LOGGED;
        if (due_too || !psi_request_slow_itself(req)) {
            add(groups, &count, req);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        psi_request_slow(groups[i].example, groups[i].count, groups[i].oldest_ms);
    }
    c->slow_ms = count > 0 ? c->now_ms + PSI_SLOW_MS : c->slow_ms;
}

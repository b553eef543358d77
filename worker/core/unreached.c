/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks that a session has dialled and never reached: a misspelt host name, a port where nobody listens, a task that is not
 * started yet. Waiting repairs a loss, but not such a fault, so these tasks have a timeout of their own, the start timeout.
 *
 * Happy path: peer.c records when a task is first dialled, and when it is connected. Failure: a request for the task ends when
 * the start timeout has passed since the request's start, or earlier at its own deadline. If the start timeout has passed since
 * the first dial too, psi_err.unreached is set, and a monitored session does not try again. If a task refuses the session's key
 * or certificate, a request for it ends after the operation timeout, if that is shorter: waiting does not help, only another key
 * file on one side does. Every 30 s a log line names these tasks, and why each is not up. */
#include "ready.h"

#include <stdio.h>
#include <string.h>

enum { TELL_MS = 30000 };

static bool waits_for(const struct psi_request *req, const struct psi_peer *peer)
{
    return req->stage == PSI_STAGE_COMPOSITE ? psi_ready_awaits(req->ready, peer) : psi_request_peer(req) == peer;
}

static void end_overdue(const struct psi_peer *peer)
{
    struct psi_client *c = peer->c;
    struct psi_list *it = NULL;
    const int64_t most_ms =
        peer->key_refused && c->operation_timeout_ms < c->start_timeout_ms ? c->operation_timeout_ms : c->start_timeout_ms;
    PSI_LIST_FOREACH(it, &c->all) {
        struct psi_request *req = PSI_CONTAINER_OF(it, struct psi_request, all);
        bool over = req->started_ms + (uint64_t)most_ms <= c->now_ms && req->deadline_ms > c->now_ms;
        if (over && !psi_request_is(req, PSI_KIND_STAYS) && waits_for(req, peer)) {
            req->deadline_ms = c->now_ms; /* the next scan ends the request as at its own deadline */
            c->scan_ms = 0;
        }
    }
}

static void tell(struct psi_client *c)
{
    char text[PSI_ERR_TEXT_MAX];
    size_t at = 0;
    uint32_t count = 0;
    uint64_t since = UINT64_MAX;
    for (uint32_t i = 0; i < c->peer_count; i++) {
        const struct psi_peer *peer = c->peers[i];
        if (!psi_peer_unreached(peer)) {
            continue;
        }
        since = psi_peer_wanted_ms(peer) < since ? psi_peer_wanted_ms(peer) : since;
        count++;
        if (at < sizeof(text)) {
            at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s (%s): %s", at > 0 ? "; " : "", peer->name, peer->address,
                                   psi_peer_obstacle(peer));
        }
    }
    uint64_t last = c->reach->told_ms > since ? c->reach->told_ms : since;
    if (count > 0 && c->now_ms >= last && c->now_ms - last >= TELL_MS) {
        c->reach->told_ms = c->now_ms;
        psi_client_log(c, PSI_LOG_WARN, "not_reached", PSI_KV("tasks", count), PSI_KV("seconds", (c->now_ms - since) / 1000),
                       PSI_KV("why", text));
    }
}

void psi_client_unreached_tick(struct psi_client *c)
{
    bool any = false;
    for (uint32_t i = 0; c->reach != NULL && i < c->peer_count; i++) {
        if (psi_peer_unreached(c->peers[i])) {
            any = true;
            if (c->start_timeout_ms > 0 && psi_peer_down(c->peers[i])) {
                end_overdue(c->peers[i]);
            }
        }
    }
    if (any) {
        tell(c);
    }
}

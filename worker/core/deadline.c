/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that end without an answer: at their deadline, or because their task is down or refuses the session; also log lines of
 * slow requests. The error's text says why, and names the task that has not answered. A request to the directory may wait for
 * another task: then the text names that task. */
#include "client.h"

#include <stdio.h>
#include <string.h>

/* Requests for a task end if all dials have failed for so many ms: those of PSI_KIND_LOOKS, and with fail_fast all but those of
 * PSI_KIND_STAYS. This is the time of about three dials; a restart of a task may take longer. */
#define DOWN_GRACE_MS 250u

/* True if req->why is a text of the directory, which already names the tasks for which the request waits. */
static bool is_told(const struct psi_request *req, const struct psi_peer *peer)
{
    return req->why != NULL && psi_request_is(req, PSI_KIND_OTHERS) && req->owner->known &&
           peer == psi_client_directory(req->owner) && !psi_peer_down(peer);
}

/* Write "push of 'w' at /job:ps/task:0 (127.0.0.1:2222)", or "find of 'w' at the directory, /job:ps/task:0 (127.0.0.1:2222)". */
static void describe(const struct psi_request *req, char *dst, size_t n)
{
    const struct psi_peer *peer = psi_request_peer(req);
    char where[PSI_WHERE_MAX];
    const char *name = psi_request_subject(req);
    const struct psi_client *c = req->owner;
    bool directory = peer != NULL && c->known && peer->index == c->directory && !psi_request_is(req, PSI_KIND_DATA);
    peer = peer != NULL && is_told(req, peer) ? NULL : peer;
    const char *at = peer == NULL ? "" : directory ? " at the directory, " : " at ";
    snprintf(dst, n, "%s%s%.*s%s%s%s", psi_request_name(req), name != NULL ? " of '" : "", PS_NAME_BYTES_MAX,
             name != NULL ? name : "", name != NULL ? "'" : "", at,
             peer != NULL ? psi_peer_where(peer, where, sizeof(where)) : "");
}

/* End a request at its deadline. applied: how much of the request may have been applied. */
static void timed_out(struct psi_request *req, ps_applied applied)
{
    char what[PSI_WHERE_MAX + PS_NAME_BYTES_MAX + 32];
    describe(req, what, sizeof(what));
    const struct psi_peer *peer = psi_request_peer(req);
    unsigned long long waited = req->owner->now_ms - req->started_ms;
    if (peer != NULL && psi_peer_down(peer)) {
        psi_request_end_as(req, PS_UNAVAILABLE, PS_REASON_NOT_CONNECTED, applied, "%s: no connection within %llu ms: %s", what,
                           waited, psi_peer_obstacle(peer));
    } else if (req->why != NULL) {
        psi_request_end_as(req, req->why->code, req->why->reason, applied, "%s: refused for %llu ms: %s", what, waited,
                           req->why->text);
    } else {
        psi_request_end(req, PS_DEADLINE_EXCEEDED, applied, "%s: no answer within %llu ms", what, waited);
    }
}

void psi_request_expire(struct psi_request *req)
{
    struct psi_client *c = req->owner;
    if (req->kind == PSI_REQ_GOODBYE) {
        psi_ask_drop(c, req);
        psi_request_end(req, PS_OK, PS_NOTHING_APPLIED, NULL);
        return;
    }
    switch ((enum psi_request_stage)req->stage) {
    case PSI_STAGE_COMPOSITE:
        psi_kind_of(req)->expire(req);
        return;
    case PSI_STAGE_SENDING:
    case PSI_STAGE_WINDOW:
        psi_window_expire(req);
        return;
    case PSI_STAGE_WAITING:
    case PSI_STAGE_TURN:
    case PSI_STAGE_PULLING:
    case PSI_STAGE_DELAYED:
        if (psi_request_is(req, PSI_KIND_DATA)) {
            psi_var_release(req);
        }
        timed_out(req, psi_request_applied(req));
        return;
    case PSI_STAGE_ASKED:
        psi_ask_drop(c, req);
        timed_out(req, (req->flags & PSI_REQUEST_SENT) != 0 ? PS_OUTCOME_UNKNOWN : PS_NOTHING_APPLIED);
        return;
    default:
        timed_out(req, PS_NOTHING_APPLIED);
        return;
    }
}

/* Reason in the log line of a slow request, by stage. Used if no task has refused the request, and its task is up. */
static const char *const waits_for[PSI_STAGES] = {
    [PSI_STAGE_WAITING] = "it waits for earlier operations on the variable",
    [PSI_STAGE_TURN] = "it waits for what goes to the task before it",
    [PSI_STAGE_SENDING] = "its values are being sent",
    [PSI_STAGE_WINDOW] = "it was sent and is not answered",
    [PSI_STAGE_PULLING] = "its values have been asked for, and have not all come",
    [PSI_STAGE_ASKED] = "it was sent and is not answered",
};

bool psi_request_slow_itself(struct psi_request *req)
{
    bool may = req->stage == PSI_STAGE_COMPOSITE || (req->stage == PSI_STAGE_ASKED && psi_kind_of(req)->slow != NULL);
    return may && psi_kind_of(req)->slow(req);
}

void psi_request_slow(const struct psi_request *req, uint32_t count, uint64_t oldest_ms)
{
    char what[PSI_WHERE_MAX + PS_NAME_BYTES_MAX + 32];
    describe(req, what, sizeof(what));
    const struct psi_peer *peer = psi_request_peer(req);
    const char *stands = waits_for[req->stage] != NULL ? waits_for[req->stage] : "";
    const char *why = peer != NULL && psi_peer_down(peer) ? psi_peer_obstacle(peer) : req->why != NULL ? req->why->text : stands;
    psi_client_log(req->owner, PSI_LOG_WARN, "waiting", PSI_KV("what", what), PSI_KV("requests", count),
                   PSI_KV("seconds", (req->owner->now_ms - oldest_ms) / 1000), PSI_KV("why", why));
}

void psi_request_unreachable(struct psi_peer *peer)
{
    struct psi_client *c = peer->c;
    struct psi_list *it = NULL;
    struct psi_list *tmp = NULL;
    if (peer->failing_since_ms == 0) {
        peer->failing_since_ms = c->now_ms > 0 ? c->now_ms : 1;
    }
    if (!peer->key_refused && c->now_ms - peer->failing_since_ms < DOWN_GRACE_MS && c->now_ms >= peer->failing_since_ms) {
        return; /* not yet: a task that is being started refuses connections for a moment */
    }
    PSI_LIST_FOREACH_SAFE(it, tmp, &c->all) {
        struct psi_request *req = PSI_CONTAINER_OF(it, struct psi_request, all);
        if (psi_request_peer(req) != peer) {
            continue;
        }
        if (psi_request_is(req, PSI_KIND_LOOKS)) {
            char what[PSI_WHERE_MAX + PS_NAME_BYTES_MAX + 32];
            describe(req, what, sizeof(what));
            /* the text of PSI_REQ_LOOK (op 0) must name the task; the other texts follow the name of their task */
            bool said = psi_kind_of(req)->op != 0;
            psi_ask_drop(c, req);
            const ps_reason reason = peer->key_refused ? PS_REASON_IDENTITY : PS_REASON_NOT_CONNECTED;
            psi_request_end_as(req, PS_UNAVAILABLE, reason, PS_NOTHING_APPLIED, "%s%sno connection: %s", said ? "" : what,
                               said ? "" : ": ", peer->last_error);
        } else if (c->fail_fast && !psi_request_is(req, PSI_KIND_STAYS)) {
            req->deadline_ms = c->now_ms; /* the next tick ends the request as at its own deadline */
            c->scan_ms = 0;
        }
    }
}

void psi_request_fail_peer(struct psi_peer *peer)
{
    struct psi_client *c = peer->c;
    bool again = true;
    while (again) {
        again = false;
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, &c->all) {
            struct psi_request *req = PSI_CONTAINER_OF(it, struct psi_request, all);
            if (psi_request_peer(req) != peer || psi_request_is(req, PSI_KIND_STAYS)) {
                continue;
            }
            ps_applied applied = psi_request_applied(req);
            if (psi_request_numbered(req)) {
                psi_window_lose(peer, req->var, peer->refused_reason, peer->last_error);
                again = true;
                break;
            }
            if (req->stage == PSI_STAGE_ASKED) {
                psi_ask_drop(c, req);
                applied = (req->flags & PSI_REQUEST_SENT) != 0 ? PS_OUTCOME_UNKNOWN : PS_NOTHING_APPLIED;
            } else if (psi_request_is(req, PSI_KIND_DATA)) {
                psi_var_release(req);
            }
            char what[PSI_WHERE_MAX + PS_NAME_BYTES_MAX + 32];
            describe(req, what, sizeof(what));
            psi_request_end_as(req, peer->refused, peer->refused_reason, applied, "%s: %s", what, peer->last_error);
            again = true;
            break;
        }
    }
}

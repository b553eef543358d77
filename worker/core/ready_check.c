/* SPDX-License-Identifier: Apache-2.0 */
/* Questions that READY asks about the last status of its variables: which are lost or not sealed, which hyperparameters differ,
 * which answers are missing. Error texts name variables, tasks and addresses. Only r->failed and r->err change. */
#include "ready.h"

#include "common/optimizer.h"
#include "common/shape.h"
#include "common/utf8.h"

#include <stdio.h>
#include <string.h>

enum { NAMES_MAX = 4, MORE_BYTES = 20 }; /* MORE_BYTES: room for " and 4294967295 more" */

void psi_ready_fail(struct psi_ready *r, ps_status st, ps_reason reason, ps_applied applied, const char *format, ...)
{
    if (r->failed) {
        return; /* the first failure is kept */
    }
    r->failed = true;
    r->err.code = st;
    r->err.applied = applied;
    r->err.reason = reason;
    va_list ap;
    va_start(ap, format);
    vsnprintf(r->err.text, sizeof(r->err.text), format, ap);
    va_end(ap);
}

bool psi_ready_is_chief(const struct psi_ready *r)
{
    const struct psi_client *c = r->req->owner;
    return r->req->kind == PSI_REQ_READY && (c->chief_mode == PSI_CHIEF_LEASE ? r->chief_number != 0 : psi_client_is_chief(c));
}

/* A text "one, another and 3 more" in dst [n]. A long first name is shortened; other names are written whole, or only counted. */
struct naming {
    char *dst;
    size_t n, at;
    uint32_t most, named, left_out;
};

static void name_one(struct naming *names, const char *one)
{
    size_t room = names->n - MORE_BYTES;
    if (names->named == 0) {
        names->at = strlen(psi_utf8_shorten(one, names->dst, room));
        names->named = 1;
    } else if (names->named < names->most && names->at + strlen(one) + 2 < room) {
        names->at += (size_t)snprintf(names->dst + names->at, names->n - names->at, ", %s", one);
        names->named++;
    } else {
        names->left_out++;
        snprintf(names->dst + names->at, names->n - names->at, " and %u more", names->left_out);
    }
}

void psi_ready_name(const struct psi_ready *r, bool (*is)(const struct psi_var *), char *dst, size_t n)
{
    const struct psi_client *c = r->req->owner;
    struct naming names = {.dst = dst, .n = n, .most = NAMES_MAX};
    dst[0] = '\0';
    for (uint32_t i = 0; i < r->var_count; i++) {
        const struct psi_var *var = r->vars[i];
        if (!is(var)) {
            continue;
        }
        char one[PS_NAME_BYTES_MAX + PS_CONTAINER_BYTES_MAX + PSI_WHERE_MAX + 32];
        char where[PSI_WHERE_MAX];
        const struct psi_peer *peer = var->owner < c->peer_count ? c->peers[var->owner] : NULL;
        bool other = strcmp(var->container, PSI_CONTAINER_DEFAULT) != 0;
        snprintf(one, sizeof(one), "'%s'%s%s%s%s%s", var->name, other ? " in container '" : "", other ? var->container : "",
                 other ? "'" : "", peer != NULL ? " at " : "", peer != NULL ? psi_peer_where(peer, where, sizeof(where)) : "");
        name_one(&names, one);
    }
}

bool psi_var_lacks(const struct psi_var *var)
{
    return !var->initialised || (var->restored && var->version == 0 && !var->given);
}

bool psi_var_is_left(const struct psi_var *var)
{
    return var->superseded;
}

bool psi_var_is_sealed(const struct psi_var *var)
{
    return var->sealed;
}

bool psi_var_is_lost(const struct psi_var *var)
{
    return var->lost;
}

bool psi_var_is_unsealed(const struct psi_var *var)
{
    return !var->sealed;
}

bool psi_var_is_closed(const struct psi_var *var)
{
    return !var->open;
}

bool psi_ready_any(const struct psi_ready *r, bool (*is)(const struct psi_var *))
{
    for (uint32_t i = 0; i < r->var_count; i++) {
        if (is(r->vars[i])) {
            return true;
        }
    }
    return false;
}

bool psi_var_is_trained(const struct psi_var *var)
{
    return !psi_var_lacks(var) && var->provisional == 0 && (var->version > 0 || var->sealed);
}

bool psi_var_is_live(const struct psi_var *var)
{
    return psi_var_is_trained(var) || (var->initialised && var->given && var->provisional == 0);
}

static const char *mode_text(ps_sync_mode mode)
{
    static const char *const texts[] = {"no rounds", "rounds (--sync)", "bounded staleness (--staleness)"};
    return texts[mode];
}

static bool is_other_mode(const struct psi_client *c, const struct psi_var *var)
{
    /* an evaluator, or a session that trains no more, pushes nothing, so it accepts every mode */
    bool looks = c->sync.finished || (c->sync.mode == PS_SYNC_NONE && strcmp(c->job, "evaluator") == 0);
    return !looks && psi_sync_is_trained(var) && var->rounds != c->sync.mode;
}

const struct psi_var *psi_ready_other(const struct psi_ready *r)
{
    const struct psi_var *other = NULL;
    for (uint32_t i = 0; i < r->var_count; i++) {
        if (is_other_mode(r->req->owner, r->vars[i])) {
            return r->vars[i];
        }
        other = other == NULL && !psi_optimizer_equal(&r->vars[i]->optimizer, &r->vars[i]->in_force) ? r->vars[i] : other;
    }
    return other;
}

static void fail_mode(struct psi_ready *r, const struct psi_var *var)
{
    const struct psi_client *c = r->req->owner;
    const bool none = var->rounds == PS_SYNC_NONE;
    const ps_reason other = var->rounds == PS_SYNC_ROUNDS ? PS_REASON_IN_ROUNDS : PS_REASON_NONE;
    psi_ready_fail(r, PS_FAILED_PRECONDITION, none ? PS_REASON_NO_ROUNDS : other, PS_NOTHING_APPLIED,
                   "'%s' at %s: this program asks for %s, the chief has asked for %s%s; start all with the same flags", var->name,
                   c->peers[var->owner]->name, mode_text(c->sync.mode), mode_text(var->rounds),
                   none ? ", or what it asked for has failed" : "");
}

void psi_ready_fail_other(struct psi_ready *r, const struct psi_var *var)
{
    char ours[PSI_OPTIMIZER_TEXT_MAX];
    char theirs[PSI_OPTIMIZER_TEXT_MAX];
    if (is_other_mode(r->req->owner, var)) {
        fail_mode(r, var);
        return;
    }
    psi_ready_fail(r, PS_FAILED_PRECONDITION, PS_REASON_OPTIMIZER_MISMATCH, PS_NOTHING_APPLIED,
                   "'%s' at %s: this program asks for %s, the chief has put %s in force" PSI_MISMATCH_REMEDY, var->name,
                   r->req->owner->peers[var->owner]->name, psi_optimizer_format(&var->optimizer, ours, sizeof(ours)),
                   psi_optimizer_format(&var->in_force, theirs, sizeof(theirs)));
}

void psi_ready_one_container(struct psi_ready *r)
{
    const struct psi_sync *sync = &r->req->owner->sync;
    for (uint32_t i = 0; i < r->var_count && sync->mode != PS_SYNC_NONE; i++) {
        const struct psi_var *var = r->vars[i];
        if (psi_sync_is_trained(var) && strcmp(var->container, sync->step->container) != 0) {
            psi_ready_fail(r, PS_INVALID_ARGUMENT, PS_REASON_NONE, PS_NOTHING_APPLIED,
                           "'%s' is in container '%s' and the global step in '%s': what is trained in rounds, or with a bound on "
                           "staleness, is in one container",
                           var->name, var->container, sync->step->container);
            return;
        }
    }
}

bool psi_ready_awaits(const struct psi_ready *r, const struct psi_peer *peer)
{
    struct psi_list *it = NULL;
    const bool directory = peer->index == r->req->owner->directory;
    if (directory && ((r->claims && r->req->owner->chief.asked) || (r->step == READY_OTHER && psi_peer_down(peer)))) {
        return true;
    }
    bool in_time = r->step == READY_WAIT && !psi_peer_down(peer) && r->req->owner->now_ms < r->wait_ms + PSI_EARLY_MIN_MS;
    PSI_LIST_FOREACH(it, &peer->asks) {
        if (PSI_CONTAINER_OF(it, struct psi_ask, link)->req == r->req && !in_time) {
            return true;
        }
    }
    for (uint32_t i = 0; i < r->var_count; i++) {
        const struct psi_request *inner = &r->inner[i];
        bool pending = inner->stage != PSI_STAGE_NONE && inner->stage != PSI_STAGE_DONE;
        if (pending && inner->why == NULL && psi_request_peer(inner) == peer) {
            return true;
        }
    }
    return false;
}

/* Write which tasks have not answered: "/job:ps/task:0 (127.0.0.1:2222: connection refused) and 3 more". False: none. */
static bool name_awaited(const struct psi_ready *r, char *dst, size_t n, bool *out_down)
{
    const struct psi_client *c = r->req->owner;
    struct naming names = {.dst = dst, .n = n, .most = UINT32_MAX};
    *out_down = false;
    dst[0] = '\0';
    for (uint32_t i = 0; i < c->peer_count; i++) {
        const struct psi_peer *peer = c->peers[i];
        if (!psi_ready_awaits(r, peer)) {
            continue;
        }
        char one[PSI_WHERE_MAX + sizeof(peer->last_error)];
        const char *why = psi_peer_obstacle(peer);
        *out_down = *out_down || why[0] != '\0';
        snprintf(one, sizeof(one), "%s (%s%s%s)", peer->name, peer->address, why[0] != '\0' ? ": " : "", why);
        name_one(&names, one);
    }
    return names.named > 0;
}

/* Write that r waits for a chief, because tasks still use the rounds or hyperparameters of an earlier training. */
static void explain_other(const struct psi_ready *r, char *dst, size_t n)
{
    const struct psi_client *c = r->req->owner;
    const struct psi_var *var = psi_ready_other(r);
    const char *chief =
        c->chief_connected ? "a chief is connected, and has not made the model ready yet" : "no chief is connected";
    char name[120], ours[PSI_OPTIMIZER_TEXT_MAX], theirs[PSI_OPTIMIZER_TEXT_MAX], where[PSI_WHERE_MAX];
    if (var == NULL) { /* no variable differs any more: the one that differed was opened anew since the last status */
        snprintf(dst, n, "waiting for a chief; %s", chief);
        return;
    }
    psi_utf8_shorten(var->name, name, sizeof(name));
    if (is_other_mode(c, var)) {
        snprintf(dst, n, "waiting for a chief that asks for %s: '%s' is in %s since an earlier training; %s",
                 mode_text(c->sync.mode), name, mode_text(var->rounds), chief);
        return;
    }
    snprintf(dst, n, "waiting for a chief that asks for %s: '%s' at %s has %s in force since an earlier training; %s",
             psi_optimizer_format(&var->optimizer, ours, sizeof(ours)), name,
             psi_peer_where(c->peers[var->owner], where, sizeof(where)),
             psi_optimizer_format(&var->in_force, theirs, sizeof(theirs)), chief);
}

ps_reason psi_ready_explain(const struct psi_ready *r, char *dst, size_t n)
{
    const struct psi_client *c = r->req->owner;
    char names[420];
    bool down = false;
    if (name_awaited(r, names, sizeof(names), &down)) {
        snprintf(dst, n, "no answer from %s", names);
        return down ? PS_REASON_NOT_CONNECTED : PS_REASON_NONE;
    }
    if (r->step == READY_WAIT) {
        psi_ready_name(r, psi_var_is_unsealed, names, sizeof(names));
        snprintf(dst, n, "waiting for a chief to initialise %s; %s%s", names,
                 c->chief.holder[0] != '\0' ? "the chief is "
                 : c->chief_connected       ? "a chief is connected"
                                            : "no chief is connected",
                 c->chief.holder);
        return c->chief_connected ? PS_REASON_NOT_READY : PS_REASON_NO_CHIEF;
    }
    if (r->step == READY_OTHER) {
        explain_other(r, dst, n);
        return c->chief_connected ? PS_REASON_NOT_READY : PS_REASON_NO_CHIEF;
    }
    if (r->claims) {
        snprintf(dst, n, "waiting to be told who is the chief: %s", c->chief.why);
        return PS_REASON_NONE;
    }
    for (uint32_t i = 0; i < r->var_count; i++) {
        if (psi_var_is_closed(r->vars[i]) && r->inner[i].why != NULL) {
            snprintf(dst, n, "waiting for '%s': %s", r->vars[i]->name, r->inner[i].why->text);
            return r->inner[i].why->reason;
        }
    }
    psi_ready_name(r, psi_var_is_closed, names, sizeof(names));
    if (names[0] != '\0') {
        snprintf(dst, n, "waiting for %s", names);
        return PS_REASON_NONE;
    }
    snprintf(dst, n, "waiting for answers of the tasks%s%s", r->why[0] != '\0' ? ": " : "", r->why);
    return PS_REASON_NONE;
}

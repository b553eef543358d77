/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a READY can say of its variables from their last status: which are lost, live, unsealed; whose hyperparameters differ; and
 * what it still waits for. Names variables, tasks and addresses; changes nothing but the failure that it may set.
 */
#include "ready.h"

#include "../common/optimizer.h"

#include <stdio.h>
#include <string.h>

enum { NAMES_MAX = 4 };

bool psi_ready_is_chief(const struct psi_ready *r)
{
    return r->req->kind == PSI_REQ_READY && psi_client_is_chief(r->req->owner);
}

void psi_ready_name(const struct psi_ready *r, bool (*is)(const struct psi_var *), char *dst, size_t n)
{
    const struct psi_client *c = r->req->owner;
    size_t at = 0;
    uint32_t named = 0;
    uint32_t count = 0;
    dst[0] = '\0';
    for (uint32_t i = 0; i < r->var_count; i++) {
        const struct psi_var *var = r->vars[i];
        if (!is(var)) {
            continue;
        }
        count++;
        if (named < NAMES_MAX && at < n - 1) {
            const struct psi_session *s = var->owner < c->session_count ? c->sessions[var->owner] : NULL;
            bool other = strcmp(var->container, PSI_CONTAINER_DEFAULT) != 0;
            int more =
                snprintf(dst + at, n - at, "%s'%.60s'%s%s%s%s%s%s%s%s", named > 0 ? ", " : "", var->name,
                         other ? " in container '" : "", other ? var->container : "", other ? "'" : "", s != NULL ? " at " : "",
                         s != NULL ? s->name : "", s != NULL ? " (" : "", s != NULL ? s->address : "", s != NULL ? ")" : "");
            at = more > 0 && (size_t)more < n - at ? at + (size_t)more : n - 1;
            named++;
        }
    }
    if (count > named && at < n - 1) {
        snprintf(dst + at, n - at, " and %u more", count - named);
    }
}

bool psi_var_lacks(const struct psi_var *var)
{
    return !var->initialised || (var->restored && var->version == 0);
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

bool psi_var_is_live(const struct psi_var *var)
{
    return !psi_var_lacks(var) && (var->version > 0 || var->sealed);
}

/* A chief with other hyperparameters than ours. */
void psi_ready_compare(struct psi_ready *r)
{
    char ours[PSI_OPTIMIZER_TEXT_MAX];
    char theirs[PSI_OPTIMIZER_TEXT_MAX];
    for (uint32_t i = 0; i < r->var_count; i++) {
        const struct psi_var *var = r->vars[i];
        if (!psi_optimizer_equal(&var->optimizer, &var->in_force)) {
            psi_ready_fail(r, PS_FAILED_PRECONDITION, PS_NOTHING_APPLIED,
                           "'%s' at %s: this program asks for %s, the chief has put %s in force", var->name,
                           r->req->owner->sessions[var->owner]->name, psi_optimizer_format(&var->optimizer, ours, sizeof(ours)),
                           psi_optimizer_format(&var->in_force, theirs, sizeof(theirs)));
            return;
        }
    }
}

void psi_ready_explain(const struct psi_ready *r, char *dst, size_t n)
{
    const struct psi_client *c = r->req->owner;
    char names[360];
    if (r->step == READY_WAIT || (r->step == READY_DECIDE && !psi_ready_is_chief(r))) {
        psi_ready_name(r, psi_var_is_unsealed, names, sizeof(names));
        snprintf(dst, n, "waiting for a chief to initialise %s; %s", names,
                 c->chief_connected ? "a chief is connected" : "no chief is connected");
        return;
    }
    for (uint32_t t = 0; t < c->session_count; t++) {
        const struct psi_session *s = c->sessions[t];
        if (s->state != PSI_SESSION_IDLE && s->state != PSI_SESSION_UP) {
            const char *why = s->last_error[0] != '\0' ? s->last_error : "no connection";
            snprintf(dst, n, "waiting for %s (%s): %.150s", s->name, s->address, why);
            return;
        }
    }
    for (uint32_t i = 0; i < r->var_count; i++) {
        if (psi_var_is_closed(r->vars[i]) && r->inner[i].why[0] != '\0') {
            snprintf(dst, n, "waiting for '%.100s': %s", r->vars[i]->name, r->inner[i].why);
            return;
        }
    }
    psi_ready_name(r, psi_var_is_closed, names, sizeof(names));
    if (names[0] != '\0') {
        snprintf(dst, n, "waiting for %s", names);
        return;
    }
    snprintf(dst, n, "waiting for answers of the tasks%s%s", r->why[0] != '\0' ? ": " : "", r->why);
}

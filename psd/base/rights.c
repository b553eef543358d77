/* SPDX-License-Identifier: Apache-2.0 */
/* Rights of a connection's peer, by the table of rights.
 *
 * Happy path: the connection has cached the peer's rights on the container, and their bits are tested. If not, the table is
 * searched once, and the connection caches the answer until the table is replaced. Failure: a denial is counted. The log has one
 * line a minute for each identity and right, at most PSD_DENIALS_KEPT lines a minute in all, so that nobody fills the log. */
#include "base.h"

#include "common/hash.h"
#include "common/name.h"

#include <stdio.h>
#include <string.h>

bool psd_rights_read_in(const struct psd_task *t, struct psd_conn *c, const struct psd_container *container)
{
    return (psd_rights_in(t, c, container) & PSI_RIGHT_READ) != 0;
}

bool psd_rights_read_on(const struct psd_task *t, const struct psd_conn *c, const char *container)
{
    return (psd_rights_on(t, c, container) & PSI_RIGHT_READ) != 0;
}

ps_status psd_rights_member(struct psd_task *t, const struct psd_conn *c, const char *job, uint32_t task, struct psi_err *err)
{
    const struct psi_rights_task claim = {
        .cluster = t->cluster.name, .job = job, .task = task, .of_directory_job = strcmp(job, t->peers[t->directory].job) == 0};
    ps_status st = t->rights == NULL ? PS_OK : psi_rights_member(t->rights, &c->who, &claim, err);
    if (st != PS_OK) {
        err->reason = PS_REASON_IDENTITY;
        psd_audit_refused(t, c, err->text);
    }
    return st;
}

/* Check by the new table of rights that c's peer may still act as the task that it is, or that its session names. */
static ps_status still_member(struct psd_task *t, const struct psd_conn *c, struct psi_err *err)
{
    if (c->role == PSD_ROLE_TASK) {
        return psd_rights_member(t, c, c->peer->job, c->peer->task, err);
    }
    const bool trains = c->role == PSD_ROLE_CLIENT && c->record != NULL && c->record->job[0] != '\0';
    return trains && !c->closing ? psd_rights_member(t, c, c->record->job, c->record->task, err) : PS_OK;
}

void psd_rights_set(struct psd_task *t, struct psi_rights *rights)
{
    psi_rights_free(t->rights);
    t->rights = rights;
    struct psi_list *it = NULL, *next = NULL;
    PSI_LIST_FOREACH_SAFE(it, next, &t->conns) {
        struct psd_conn *c = PSI_CONTAINER_OF(it, struct psd_conn, all);
        struct psi_err err;
        memset(c->allowed, 0, sizeof(c->allowed));
        if (still_member(t, c, &err) != PS_OK) {
            psd_conn_fault(t, c, err.code, PS_REASON_IDENTITY, err.text);
        }
    }
}

static unsigned ask(const struct psd_task *t, const struct psd_conn *c, const struct psd_container *container,
                    struct psd_allowed *allowed)
{
    *allowed = (struct psd_allowed){.of = container->number + 1, .rights = psi_rights_of(t->rights, &c->who, container->name)};
    return allowed->rights;
}

unsigned psd_rights_in(const struct psd_task *t, struct psd_conn *c, const struct psd_container *container)
{
    struct psd_allowed *allowed = &c->allowed[container->number % PSD_ALLOWED_KEPT];
    return t->rights == NULL                      ? PSI_RIGHTS_ALL
           : allowed->of == container->number + 1 ? allowed->rights
                                                  : ask(t, c, container, allowed);
}

unsigned psd_rights_on(const struct psd_task *t, const struct psd_conn *c, const char *container)
{
    return t->rights == NULL ? PSI_RIGHTS_ALL : psi_rights_of(t->rights, &c->who, container);
}

unsigned psd_rights_keyed(const char *container)
{
    return psi_container_is_session(container) ? PSI_RIGHT_READ | PSI_RIGHT_WRITE | PSI_RIGHT_CREATE | PSI_RIGHT_CHIEF : 0;
}

bool psd_rights_read_all(const struct psd_task *t, const struct psd_conn *c)
{
    return psd_rights_read_on(t, c, "*"); /* no container has this name, so only a row whose place is * matches */
}

ps_status psd_rights_saved(struct psd_task *t, const struct psd_conn *c, const char *what, struct psi_err *err)
{
    struct psi_uri uri = {.is_user = false};
    const char *ps = t->peers[t->directory].job;
    const bool is_ps = c->who.kind == PSI_IDENTITY_CERT
                           ? psi_uri_parse(c->who.name, strlen(c->who.name), &uri, NULL) == PS_OK && strcmp(uri.job, ps) == 0
                           : c->who.kind == PSI_IDENTITY_KEY && strcmp(c->who.role, "ps") == 0;
    const bool may = is_ps || (psd_rights_on(t, c, NULL) & PSI_RIGHT_ADMINISTER) != 0 || psd_rights_read_all(t, c);
    return may ? PS_OK : psd_rights_denied(t, c, what, "*", PSI_RIGHT_READ, err);
}

/* True if this denial is to be logged now. of: hash of identity and right. If t->denials has no entry for `of`, the oldest entry
 * is reused, if it was not logged lately. *out_count: how many denials with this hash the log line stands for. */
static bool is_logged(struct psd_task *t, uint64_t of, uint64_t *out_count)
{
    struct psd_denial *oldest = &t->denials[0], *found = NULL;
    for (uint32_t i = 0; i < PSD_DENIALS_KEPT; i++) {
        struct psd_denial *d = &t->denials[i];
        found = d->of == of ? d : found;
        oldest = d->logged_ms < oldest->logged_ms ? d : oldest;
    }
    struct psd_denial *d = found != NULL ? found : oldest;
    if (d->of != 0 && t->now_ms - d->logged_ms < PSD_DENIAL_LOG_MS) {
        d->count += found != NULL;
        return false;
    }
    *out_count = (found != NULL ? d->count : 0) + 1;
    *d = (struct psd_denial){.of = of, .logged_ms = t->now_ms};
    return true;
}

static void note_denial(struct psd_task *t, const char *peer, const char *who, const char *right, const char *text)
{
    uint64_t of = psi_fnv1a64(psi_fnv1a64(PSI_FNV1A64_START, who, strlen(who) + 1), right, strlen(right)) | 1u;
    uint64_t count = 0;
    t->count.denied++;
    if (is_logged(t, of, &count)) {
        psd_log(t, PSI_LOG_WARN, "denied", PSI_KV("peer", peer), PSI_KV("who", who), PSI_KV("right", right),
                PSI_KV("count", count), PSI_KV("msg", text));
    }
}

static void audit(struct psd_task *t, const struct psd_conn *c, const char *event, const char *what, const char *object)
{
    char who[PSI_IDENTITY_TEXT_BYTES], session[17] = "";
    for (size_t i = 0; c->record != NULL && i < sizeof(session) / 2; i++) {      /* as `psctl workers` shows it */
        PSI_IGNORE(snprintf(session + 2 * i, 3, "%02x", c->record->session[i])); /* fits */
    }
    psd_log(t, PSI_LOG_INFO, event, PSI_KV("what", what), PSI_KV("who", psi_identity_text(&c->who, who, sizeof(who))),
            PSI_KV("peer", c->text),
            PSI_KV("address", t->config.address_of == NULL ? "" : t->config.address_of(t->config.shell, c->link)),
            PSI_KV("session", session), PSI_KV("of", object));
}

ps_status psd_rights_known(struct psd_task *t, const struct psd_conn *c, struct psi_err *err)
{
    char who[PSI_IDENTITY_TEXT_BYTES];
    const char *row = NULL;
    size_t cursor = 0;
    if (t->rights == NULL || psi_rights_of(NULL, &c->who, NULL) != 0 || psi_rights_next(t->rights, &c->who, &cursor, &row)) {
        return PS_OK;
    }
    psi_identity_text(&c->who, who, sizeof(who));
    ps_status st = c->who.kind == PSI_IDENTITY_ANYBODY
                       ? psi_fail_as(err, PS_PERMISSION_DENIED, PS_REASON_IDENTITY,
                                     "%s gives rights to identities, and this peer has none: %s", t->name,
                                     strcmp(c->who.role, "unmapped") != 0
                                         ? "it needs a key"
                                         : "its uid is not mapped in the task's user namespace (systemd: PrivateUsers=), where "
                                           "all such users look like one; no row of uid: can name it, a key can, over TCP")
                       : psi_fail_as(err, PS_PERMISSION_DENIED, PS_REASON_IDENTITY,
                                     "no row at %s names %s: with 'allow %s *,@cluster look' it may look", t->name, who, who);
    note_denial(t, c->text, who, "any", err->text);
    audit(t, c, PSD_AUDIT_REFUSED_EVENT, "refused", err->text);
    return st;
}

/* Set err to PERMISSION_DENIED for the identity `of`; count and log the denial. peer: who asks for `of`, a text for the log. */
static ps_status denied(struct psd_task *t, const char *peer, const struct psi_identity *of, const char *what,
                        const char *container, unsigned rights, struct psi_err *err)
{
    char who[PSI_IDENTITY_TEXT_BYTES], right[PSI_RIGHTS_NAMES_BYTES], row[PSI_RIGHTS_ROW_FOR_BYTES];
    struct psi_err own;
    psi_identity_text(of, who, sizeof(who));
    psi_rights_names(rights & (0u - rights), right, sizeof(right));
    psi_rights_row_for(of, container, rights, row, sizeof(row));
    ps_status st = psi_fail(&own, PS_PERMISSION_DENIED, "%s at %s: %s has no right '%s' on %s%s%s (%s)", what, t->name, who,
                            right, container == NULL ? "the cluster" : "container '", container == NULL ? "" : container,
                            container == NULL ? "" : "'", row);
    note_denial(t, peer, who, right, own.text);
    if (err != NULL) {
        *err = own;
    }
    return st;
}

ps_status psd_rights_denied(struct psd_task *t, const struct psd_conn *c, const char *what, const char *container,
                            unsigned rights, struct psi_err *err)
{
    return denied(t, c->text, &c->who, what, container, rights, err);
}

ps_status psd_rights_ask(struct psd_task *t, const char *peer, const struct psi_identity *who, const char *what,
                         const char *container, unsigned rights, struct psi_err *err)
{
    const unsigned has = t->rights == NULL ? PSI_RIGHTS_ALL : psi_rights_of(t->rights, who, container);
    const unsigned lacks = rights & ~(has | psd_rights_keyed(container));
    return lacks == 0 ? PS_OK : denied(t, peer, who, what, container, lacks, err);
}

void psd_audit(struct psd_task *t, const struct psd_conn *c, const char *what, const char *object)
{
    if (t->rights != NULL) {
        audit(t, c, PSD_AUDIT_EVENT, what, object);
    }
}

void psd_audit_refused(struct psd_task *t, const struct psd_conn *c, const char *why)
{
    t->count.denied++;
    audit(t, c, PSD_AUDIT_REFUSED_EVENT, "refused", why);
}

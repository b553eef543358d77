/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rights of a connection's peer, by the table of rights.
 *
 * Happy path: the connection has a cached answer for the container -> a test of bits. Otherwise the rows are searched once, and
 * the connection caches the answer until the table is replaced. Failure: a denial is counted. The log has it once a minute for
 * each identity and right, at most PSD_DENIALS_KEPT lines a minute in all, so that nobody fills the log.
 */
#include "base.h"

#include "common/hash.h"

#include <string.h>

bool psd_rights_read_in(const struct psd_task *t, struct psd_conn *c, const struct psd_container *container)
{
    return (psd_rights_in(t, c, container) & PSI_RIGHT_READ) != 0;
}

bool psd_rights_read_on(const struct psd_task *t, const struct psd_conn *c, const char *container)
{
    return (psd_rights_on(t, c, container) & PSI_RIGHT_READ) != 0;
}

ps_status psd_rights_member(struct psd_task *t, const struct psd_conn *c, const struct psd_peer *p, struct psi_err *err)
{
    const struct psi_rights_task task = {
        .cluster = t->cluster.name, .job = p->job, .task = p->task, .of_directory_job = p->own_job};
    return t->rights == NULL ? PS_OK : psi_rights_member(t->rights, &c->who, &task, err);
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
        if (c->role == PSD_ROLE_TASK && psd_rights_member(t, c, c->peer, &err) != PS_OK) {
            psd_audit_refused(t, c, err.text);
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

/* True if this denial may be logged now; its entry replaces the oldest. *out_count: denials since its last line. */
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
                                     "%s gives rights to identities, and this peer has none: it needs a key", t->name)
                       : psi_fail_as(err, PS_PERMISSION_DENIED, PS_REASON_IDENTITY,
                                     "no row at %s names %s: with 'allow %s *,@cluster look' it may look", t->name, who, who);
    note_denial(t, c->text, who, "any", err->text);
    return st;
}

/* peer: who passed the request on, for the log. */
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
    const unsigned lacks = t->rights == NULL ? 0 : rights & ~psi_rights_of(t->rights, who, container);
    return lacks == 0 ? PS_OK : denied(t, peer, who, what, container, lacks, err);
}

void psd_audit(struct psd_task *t, const struct psd_conn *c, const char *what, const char *object)
{
    char who[PSI_IDENTITY_TEXT_BYTES];
    if (t->rights != NULL) {
        psd_log(t, PSI_LOG_INFO, PSD_AUDIT_EVENT, PSI_KV("what", what),
                PSI_KV("who", psi_identity_text(&c->who, who, sizeof(who))), PSI_KV("peer", c->text), PSI_KV("of", object));
    }
}

void psd_audit_refused(struct psd_task *t, const struct psd_conn *c, const char *why)
{
    t->count.denied++;
    psd_audit(t, c, "refused", why);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Identities as text, and the URIs of certificates. Happy path: the prefix of a text says the kind of identity, and the grammar
 * of the kind checks what is behind the prefix. Failure: a text without a known prefix, which the message quotes. */
#include "identity.h"

#include "../name.h"
#include "../near.h"

#include <stdio.h>
#include <string.h>

static const char *const roles[] = {"ps", "worker", "monitor", "admin"};
enum { ROLE_COUNT = sizeof(roles) / sizeof(roles[0]), QUOTED_BYTES = 100 };

bool psi_identity_equal(const struct psi_identity *a, const struct psi_identity *b)
{
    return a->kind == b->kind && strcmp(a->name, b->name) == 0;
}

static const char *prefix_of(enum psi_identity_kind kind)
{
    switch (kind) {
    case PSI_IDENTITY_ANYBODY:
        return "anybody";
    case PSI_IDENTITY_KEY:
        return "key:";
    case PSI_IDENTITY_CERT:
        return "cert:";
    case PSI_IDENTITY_UID:
        return "uid:";
    }
    return "";
}

const char *psi_identity_text(const struct psi_identity *identity, char *buf, size_t n)
{
    PSI_IGNORE(snprintf(buf, n, "%s%s", prefix_of(identity->kind), identity->name)); /* may be cut: the caller chose the size */
    return buf;
}

bool psi_role_is(const char *role, size_t n)
{
    for (size_t i = 0; i < ROLE_COUNT; i++) {
        if (strlen(roles[i]) == n && memcmp(roles[i], role, n) == 0) {
            return true;
        }
    }
    return false;
}

ps_status psi_role_check(const char *role, size_t n, struct psi_err *err)
{
    if (psi_role_is(role, n)) {
        return PS_OK;
    }
    size_t nearest = 0;
    for (size_t i = 1; i < ROLE_COUNT; i++) {
        nearest = psi_near_bytes(role, n, roles[i]) < psi_near_bytes(role, n, roles[nearest]) ? i : nearest;
    }
    bool is_near = n <= PSI_ROLE_BYTES_MAX && psi_near_bytes(role, n, roles[nearest]) != SIZE_MAX;
    char quoted[QUOTED_BYTES];
    return psi_fail(err, PS_INVALID_ARGUMENT, "role %s: a key is one of ps, worker, monitor, admin%s%s%s",
                    n <= PSI_ROLE_BYTES_MAX ? psi_quote(quoted, sizeof(quoted), role, n) : "of too many bytes",
                    is_near ? " (did you mean " : "", is_near ? roles[nearest] : "", is_near ? "?)" : "");
}

static ps_status no_uri(struct psi_err *err, const char *bytes, size_t n, const char *why)
{
    char quoted[PSI_QUOTE_MAX];
    return psi_fail(err, PS_INVALID_ARGUMENT, "URI %s: %s; one is psd://CLUSTER/JOB/INDEX or psd://CLUSTER/user/NAME",
                    psi_quote(quoted, sizeof(quoted), bytes, n), why);
}

/* Returns the length of the path segment at *at, up to the next '/' or `end`. *at moves behind that '/'; NULL: none is left. */
static size_t next_part(const char **at, const char *end)
{
    const char *begin = *at;
    const char *slash = memchr(begin, '/', (size_t)(end - begin));
    *at = slash != NULL ? slash + 1 : NULL;
    return (size_t)((slash != NULL ? slash : end) - begin);
}

static ps_status last_part(struct psi_uri *uri, const char *p, size_t n, struct psi_err *err)
{
    if (uri->is_user) {
        ps_status st = psi_key_name_check(p, n, err);
        if (st == PS_OK) {
            memcpy(uri->user, p, n);
        }
        return st;
    }
    if ((n > 1 && p[0] == '0') || !psi_digits_read(p, n, PS_TASKS_MAX - 1, &uri->index)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "an index is a number from 0 to %d", PS_TASKS_MAX - 1);
    }
    return PS_OK;
}

ps_status psi_uri_parse(const char *bytes, size_t n, struct psi_uri *out, struct psi_err *err)
{
    static const char scheme[] = "psd://";
    const size_t scheme_bytes = sizeof(scheme) - 1;
    if (n > PSI_IDENTITY_BYTES_MAX) {
        return no_uri(err, bytes, n, "has more than 128 bytes");
    }
    if (n < scheme_bytes || memcmp(bytes, scheme, scheme_bytes) != 0) {
        return no_uri(err, bytes, n, "begins not with psd://");
    }
    const char *at = bytes + scheme_bytes, *end = bytes + n;
    const char *cluster = at;
    const size_t cluster_bytes = next_part(&at, end);
    const char *job = at;
    const size_t job_bytes = job != NULL ? next_part(&at, end) : 0;
    if (job == NULL || at == NULL || memchr(at, '/', (size_t)(end - at)) != NULL) {
        return no_uri(err, bytes, n, "has not three parts");
    }
    struct psi_uri uri = {.is_user = job_bytes == 4 && memcmp(job, "user", 4) == 0};
    struct psi_err why = {.code = PS_OK};
    ps_status st = psi_cluster_name_check(cluster, cluster_bytes, &why);
    st = st == PS_OK && !uri.is_user ? psi_job_name_check(job, job_bytes, &why) : st;
    st = st == PS_OK ? last_part(&uri, at, (size_t)(end - at), &why) : st;
    if (st != PS_OK) {
        return no_uri(err, bytes, n, why.text);
    }
    memcpy(uri.cluster, cluster, cluster_bytes);
    memcpy(uri.job, job, uri.is_user ? 0 : job_bytes);
    *out = uri;
    return PS_OK;
}

const char *psi_uri_text(const struct psi_uri *uri, char buf[PSI_IDENTITY_BYTES_MAX + 1], bool *fits)
{
    const size_t room = PSI_IDENTITY_BYTES_MAX + 1;
    int n = uri->is_user ? snprintf(buf, room, "psd://%s/user/%s", uri->cluster, uri->user)
                         : snprintf(buf, room, "psd://%s/%s/%u", uri->cluster, uri->job, uri->index);
    if (fits != NULL) {
        *fits = n >= 0 && (size_t)n < room;
    }
    return buf;
}

static ps_status no_identity(struct psi_err *err, const char *text, const char *why)
{
    char quoted[QUOTED_BYTES];
    return psi_fail(err, PS_INVALID_ARGUMENT, "identity %s: %s", psi_quote(quoted, sizeof(quoted), text, strlen(text)), why);
}

static ps_status name_check(enum psi_identity_kind kind, const char *name, struct psi_err *err)
{
    struct psi_uri uri;
    uint32_t uid = 0;
    const size_t n = strlen(name);
    switch (kind) {
    case PSI_IDENTITY_ANYBODY:
        return n == 0 ? PS_OK : psi_fail(err, PS_INVALID_ARGUMENT, "nothing may stand behind 'anybody'");
    case PSI_IDENTITY_KEY:
        return psi_key_name_check(name, n, err);
    case PSI_IDENTITY_CERT:
        return psi_uri_parse(name, n, &uri, err);
    case PSI_IDENTITY_UID:
        break;
    }
    return (n == 1 || name[0] != '0') && psi_digits_read(name, n, UINT32_MAX, &uid)
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "a uid is a number");
}

ps_status psi_identity_parse(const char *text, struct psi_identity *out, struct psi_err *err)
{
    for (enum psi_identity_kind kind = PSI_IDENTITY_ANYBODY; kind <= PSI_IDENTITY_UID; kind++) {
        const char *prefix = prefix_of(kind);
        const size_t n = strlen(prefix);
        if (strncmp(text, prefix, n) != 0) {
            continue;
        }
        struct psi_err why = {.code = PS_OK};
        if (name_check(kind, text + n, &why) != PS_OK) {
            return no_identity(err, text, why.text);
        }
        *out = (struct psi_identity){.kind = kind};
        memcpy(out->name, text + n, strlen(text + n) + 1);
        return PS_OK;
    }
    return no_identity(err, text,
                       "one is key:NAME, cert:psd://CLUSTER/JOB/INDEX, cert:psd://CLUSTER/user/NAME, uid:NUMBER or anybody");
}

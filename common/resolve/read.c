/* SPDX-License-Identifier: Apache-2.0 */
/* Functions for the files of all cluster managers: read variables of the environment and numbers in them, add tasks. A variable
 * that is read by psi_resolver_use() is noted in out->why. Failure: every refusal begins with the variable and its value. */
#include "internal.h"

#include "common/name.h"

#include <stdio.h>
#include <string.h>

const char *psi_resolver_get(const struct psi_resolver *r, const char *name)
{
    size_t len = strlen(name);
    for (char *const *p = r->environment; p != NULL && *p != NULL; p++) {
        if (strncmp(*p, name, len) == 0 && (*p)[len] == '=') {
            return (*p)[len + 1] != '\0' ? *p + len + 1 : NULL;
        }
    }
    return NULL;
}

const char *psi_resolver_use(struct psi_resolver *r, const char *name)
{
    enum { SHOWN = 160 };
    const char *value = psi_resolver_get(r, name);
    char *why = r->out->why, quoted[SHOWN];
    size_t used = strlen(why);
    if (value != NULL && used < sizeof(r->out->why)) {
        (void)snprintf(why + used, sizeof(r->out->why) - used, "%s%s=%s", used > 0 ? ", " : "", name,
                       psi_quote(quoted, sizeof(quoted), value, strlen(value)));
    }
    return value;
}

const char *psi_resolver_show(const struct psi_resolver *r, const char *name, char text[PSI_VARIABLE_SHOWN])
{
    char quoted[128];
    const char *value = psi_resolver_get(r, name);
    (void)snprintf(text, PSI_VARIABLE_SHOWN, "%s%s%s", name, value != NULL ? "=" : " is not set",
                   value != NULL ? psi_quote(quoted, sizeof(quoted), value, strlen(value)) : "");
    return text;
}

ps_status psi_resolver_refuse(const struct psi_resolver *r, const char *name, const char *format, ...)
{
    char shown[PSI_VARIABLE_SHOWN], why[PSI_ERR_TEXT_MAX];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(why, sizeof(why), format, list);
    va_end(list);
    return psi_fail(r->err, PS_INVALID_ARGUMENT, "%s: %s", psi_resolver_show(r, name, shown), why);
}

ps_status psi_resolver_maybe(struct psi_resolver *r, const char *name, uint32_t least, uint32_t most, uint32_t *out)
{
    const char *value = psi_resolver_use(r, name);
    uint32_t number = 0;
    if (value == NULL) {
        return PS_OK;
    }
    if (!psi_digits_read(value, strlen(value), UINT32_MAX, &number) || number < least || number > most) {
        return psi_resolver_refuse(r, name, "it must be a whole number from %u to %u", least, most);
    }
    *out = number;
    return PS_OK;
}

ps_status psi_resolver_number(struct psi_resolver *r, const char *name, uint32_t least, uint32_t most, uint32_t *out)
{
    return psi_resolver_get(r, name) != NULL
               ? psi_resolver_maybe(r, name, least, most, out)
               : psi_resolver_refuse(r, name, "a whole number from %u to %u is expected", least, most);
}

ps_status psi_resolver_place(struct psi_resolver *r, const char *from, const char *job, uint32_t task)
{
    char number[16], where[160] = "";
    const char *value = from != NULL ? psi_resolver_get(r, from) : NULL;
    (void)snprintf(number, sizeof(number), "%u", task);
    if (value != NULL) {
        (void)snprintf(where, sizeof(where), "%s=%.64s", from, value);
    } else {
        (void)snprintf(where, sizeof(where), "the host name");
    }
    if (r->o->job_name != NULL && strcmp(r->o->job_name, job) != 0) {
        return psi_fail(r->err, PS_INVALID_ARGUMENT, "--job_name %.64s: %s makes this process /job:%s/task:%u", r->o->job_name,
                        where, job, task);
    }
    if (r->o->task_index != NULL && strcmp(r->o->task_index, number) != 0) {
        return psi_fail(r->err, PS_INVALID_ARGUMENT, "--task_index %.64s: %s makes this process /job:%s/task:%u",
                        r->o->task_index, where, job, task);
    }
    (void)snprintf(r->out->job, sizeof(r->out->job), "%s", job);
    r->out->task = (int32_t)task;
    return PS_OK;
}

ps_status psi_resolver_ps(const struct psi_resolver *r, const char *from, uint32_t ranks)
{
    return r->o->ps_tasks > ranks ? psi_resolver_refuse(r, from, "--ps_tasks %u is more", r->o->ps_tasks) : PS_OK;
}

ps_status psi_resolver_add(struct psi_resolver *r, const char *from, const char *job, uint32_t task, const char *host,
                           uint32_t port)
{
    char address[3 * PS_HOST_BYTES_MAX];
    bool ipv6 = strchr(host, ':') != NULL;
    (void)snprintf(address, sizeof(address), "%s%.600s%s:%u", ipv6 ? "[" : "", host, ipv6 ? "]" : "", port);
    ps_status st = psi_cluster_add_task(r->c, job, task, address, r->err);
    if (st != PS_OK) {
        psi_err_prefix(r->err, "%s", from);
    }
    return st;
}

uint32_t psi_resolver_port(const struct psi_resolver *r, uint32_t ps_task)
{
    return ps_task == 0 ? r->o->directory_port : 0;
}

ps_status psi_resolver_unlisted(struct psi_resolver *r, uint32_t ps, uint32_t ranks)
{
    ps_status st = PS_OK;
    for (uint32_t rank = ps; st == PS_OK && rank < ranks; rank++) {
        char host[32];
        (void)snprintf(host, sizeof(host), "rank-%u.invalid", rank);
        st = psi_resolver_add(r, host, "worker", rank - ps, host, 1);
    }
    return st;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Pods of Indexed Jobs and of StatefulSets. In both, pod I of a headless Service has the DNS name NAME-I.SERVICE. The index I is
 * JOB_COMPLETION_INDEX, or what follows the last '-' of the pod's host name. No variable gives the numbers and names of the pods
 * of job ps and job worker, so flags do. A ps task listens on all addresses of its pod: the pod's own name may not be in DNS yet.
 *
 * Failure: a host name of none of these pods, an index not below the count, a variable and a host name with different indices. */
#include "internal.h"

#include "common/name.h"

#include <stdio.h>
#include <string.h>

static const char index_name[] = "JOB_COMPLETION_INDEX";

/* The pods of a job. text: value of the option `flag`, as "psd-ps.psd"; NULL: the option is not given. Its first name_len bytes
 * are the pods' name without the index. */
struct pods {
    const char *flag, *text;
    size_t name_len;
    uint32_t count;
};

static ps_status read_pods(const struct psi_resolver *r, const char *flag, const char *text, uint32_t count, struct pods *out)
{
    const char *dot = text != NULL ? strchr(text, '.') : NULL;
    *out = (struct pods){.flag = flag, .text = text, .count = count};
    if (text == NULL) {
        return PS_OK;
    }
    if (dot == NULL || dot == text || dot[1] == '\0') {
        return psi_fail(r->err, PS_INVALID_ARGUMENT, "%s %.200s: NAME.SERVICE is expected, as in psd-ps.psd", flag, text);
    }
    out->name_len = (size_t)(dot - text);
    return PS_OK;
}

/* Find the index of the pod `host`. False: `host` is none of these pods. */
static bool index_in(const char *host, size_t len, const struct pods *pods, uint32_t *out)
{
    const char *digits = host + pods->name_len + 1;
    size_t n = len > pods->name_len ? len - pods->name_len - 1 : 0;
    return pods->text != NULL && n > 0 && memcmp(host, pods->text, pods->name_len) == 0 && host[pods->name_len] == '-' &&
           (digits[0] != '0' || n == 1) && psi_digits_read(digits, n, UINT32_MAX, out);
}

static ps_status find_index(struct psi_resolver *r, const struct pods pods[2], const char **out_job, uint32_t *out_index)
{
    const char *host = r->o->host_name != NULL ? r->o->host_name : "";
    const char *job = r->o->job_name;
    size_t len = strcspn(host, "."); /* without the domain, which the host name of a pod with setHostnameAsFQDN has */
    uint32_t index = 0, by_host = 0;
    bool in_ps = index_in(host, len, &pods[0], &by_host);
    bool in_worker = !in_ps && index_in(host, len, &pods[1], &by_host);
    bool by_variable = psi_resolver_get(r, index_name) != NULL;
    ps_status st = by_variable ? psi_resolver_number(r, index_name, 0, PS_TASKS_MAX - 1, &index) : PS_OK;
    if (st != PS_OK) {
        return st;
    }
    if (!in_ps && !in_worker && (job == NULL || !by_variable)) {
        return psi_fail(
            r->err, PS_INVALID_ARGUMENT,
            "host name %.200s is no pod of --ps_pods %.64s or --worker_pods %.64s: the pod's name must be NAME-INDEX%s", host,
            pods[0].text, pods[1].text != NULL ? pods[1].text : "(not given)", by_variable ? "; or give --job_name" : "");
    }
    if (by_variable && (in_ps || in_worker) && index != by_host) {
        return psi_resolver_refuse(r, index_name, "host name %.200s has index %u", host, by_host);
    }
    size_t used = strlen(r->out->why);
    if (in_ps || in_worker) {
        (void)snprintf(r->out->why + used, sizeof(r->out->why) - used, "%shost name %.200s", used > 0 ? ", " : "", host);
    }
    *out_job = in_ps ? "ps" : in_worker ? "worker" : job;
    *out_index = by_variable ? index : by_host;
    return PS_OK;
}

static ps_status add_pods(struct psi_resolver *r, const char *job, const struct pods *pods, uint32_t port)
{
    char from[PSI_VARIABLE_SHOWN];
    ps_status st = PS_OK;
    (void)snprintf(from, sizeof(from), "%s %.100s", pods->flag, pods->text != NULL ? pods->text : "");
    for (uint32_t i = 0; st == PS_OK && pods->text != NULL && i < pods->count; i++) {
        char host[2 * PS_HOST_BYTES_MAX];
        if (strlen(pods->text) > PS_HOST_BYTES_MAX - 5) {
            return psi_fail(r->err, PS_INVALID_ARGUMENT, "%s %.64s...: a name has more than 255 bytes", pods->flag, pods->text);
        }
        (void)snprintf(host, sizeof(host), "%.*s-%u%s", (int)pods->name_len, pods->text, i, pods->text + pods->name_len);
        st = psi_resolver_add(r, from, job, i, host, port);
    }
    return st;
}

ps_status psi_resolve_kubernetes(struct psi_resolver *r)
{
    const ps_resolver_options *o = r->o;
    const uint32_t port = o->base_port > 0 ? o->base_port : PSI_PORT_DEFAULT;
    const char *job = NULL;
    struct pods pods[2];
    uint32_t index = 0;
    ps_status st = read_pods(r, "--ps_pods", o->ps_pods, o->ps_tasks, &pods[0]);
    st = st == PS_OK ? read_pods(r, "--worker_pods", o->worker_pods, o->worker_tasks, &pods[1]) : st;
    if (st != PS_OK) {
        return st;
    }
    const char *service = psi_resolver_use(r, "KUBERNETES_SERVICE_HOST");
    if (service == NULL) {
        return psi_resolver_refuse(r, "KUBERNETES_SERVICE_HOST", "this process is in no pod of Kubernetes");
    }
    if (pods[0].text == NULL || o->ps_tasks == 0) {
        return psi_resolver_refuse(r, "KUBERNETES_SERVICE_HOST", "no variable says which pods are ps and how many; give %s",
                                   pods[0].text == NULL ? "--ps_pods and --ps_tasks" : "--ps_tasks");
    }
    if (o->worker_tasks > 0 && pods[1].text == NULL) {
        return psi_fail(r->err, PS_INVALID_ARGUMENT, "--worker_tasks %u is given without --worker_pods", o->worker_tasks);
    }
    st = find_index(r, pods, &job, &index);
    if (st != PS_OK) {
        return st;
    }
    bool is_ps = strcmp(job, "ps") == 0;
    if (is_ps ? index >= o->ps_tasks : o->worker_tasks > 0 && index >= o->worker_tasks) {
        return psi_fail(r->err, PS_INVALID_ARGUMENT, "%s %s has index %u: %s is %u",
                        psi_resolver_get(r, index_name) != NULL ? index_name : "host name",
                        psi_resolver_get(r, index_name) != NULL ? psi_resolver_get(r, index_name) : o->host_name, index,
                        is_ps ? "--ps_tasks" : "--worker_tasks", is_ps ? o->ps_tasks : o->worker_tasks);
    }
    if (is_ps) {
        (void)snprintf(r->out->listen, sizeof(r->out->listen), "%s:%u", strchr(service, ':') != NULL ? "[::]" : "0.0.0.0", port);
    }
    st = psi_resolver_place(r, psi_resolver_get(r, index_name) != NULL ? index_name : NULL, job, index);
    st = st == PS_OK ? add_pods(r, "ps", &pods[0], port) : st;
    return st == PS_OK ? add_pods(r, "worker", &pods[1], port) : st;
}

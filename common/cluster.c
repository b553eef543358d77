/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ClusterSpec. Jobs are kept sorted by name; addresses as normalised text. Every function that adds works on a copy or
 * builds the job aside, so a failure leaves the cluster as it was. Failure: grammar, limits, an address given twice,
 * memory. Addresses are compared pairwise: at most PS_TASKS_MAX^2 / 2 comparisons, once per start.
 */
#include "cluster.h"

#include "cluster_internal.h"
#include "hash.h"
#include "mem.h"
#include "name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

void psi_cluster_init(struct psi_cluster *c)
{
    memset(c, 0, sizeof(*c));
    memcpy(c->name, PSI_CLUSTER_NAME_DEFAULT, sizeof(PSI_CLUSTER_NAME_DEFAULT));
}

static void free_addresses(struct psi_cluster_job *job)
{
    for (uint32_t i = 0; i < job->task_count; i++) {
        psi_free(job->addresses[i]);
    }
    psi_free(job->addresses);
    job->addresses = NULL;
    job->task_count = 0;
}

void psi_cluster_fini(struct psi_cluster *c)
{
    for (uint32_t i = 0; i < c->job_count; i++) {
        free_addresses(&c->jobs[i]);
    }
    psi_cluster_init(c);
}

ps_status psi_cluster_set_name(struct psi_cluster *c, const char *name, struct psi_err *err)
{
    ps_status st = psi_cluster_name_check(name, strlen(name), err);
    if (st == PS_OK) {
        memset(c->name, 0, sizeof(c->name));
        memcpy(c->name, name, strlen(name));
    }
    return st;
}

const char *psi_task_name_format(char *buf, size_t n, const char *job, uint32_t task)
{
    PSI_IGNORE(snprintf(buf, n, "/job:%s/task:%" PRIu32, job, task));
    return buf;
}

/* Same place: addresses are normalised, so only the case of a host name can differ. */
static bool same_address(const char *a, const char *b)
{
    return strncmp(a, "unix:", 5) == 0 ? strcmp(a, b) == 0 : strcasecmp(a, b) == 0;
}

/* The task of the cluster that has this address, "" where none has. */
static const char *who_has(const struct psi_cluster *c, const char *address, char *buf, size_t n)
{
    for (uint32_t j = 0; j < c->job_count; j++) {
        for (uint32_t t = 0; t < c->jobs[j].task_count; t++) {
            if (same_address(c->jobs[j].addresses[t], address)) {
                return psi_task_name_format(buf, n, c->jobs[j].name, t);
            }
        }
    }
    return "";
}

static ps_status twice(const char *address, const char *first, const char *second, struct psi_err *err)
{
    return psi_fail(err, PS_INVALID_ARGUMENT, "address '%s' is given twice: %s and %s", address, first, second);
}

ps_status psi_job_builder_init(struct psi_job_builder *b, const struct psi_cluster *c, const char *job, size_t len,
                               struct psi_err *err)
{
    *b = (struct psi_job_builder){.cluster = c};
    ps_status st = psi_job_name_check(job, len, err);
    if (st != PS_OK) {
        return st;
    }
    memcpy(b->job.name, job, len);
    if (psi_cluster_job_index(c, b->job.name) >= 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "job '%s' is given twice", b->job.name);
    }
    if (c->job_count >= PS_JOBS_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "job '%s': a cluster has at most %d jobs", b->job.name, PS_JOBS_MAX);
    }
    bool is_chief = strcmp(b->job.name, "chief") == 0 || strcmp(b->job.name, "master") == 0;
    const char *other = strcmp(b->job.name, "chief") == 0 ? "master" : "chief";
    if (is_chief && psi_cluster_job_index(c, other) >= 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "jobs 'chief' and 'master' are both given: at most one chief is allowed");
    }
    b->max_tasks = is_chief ? 1 : UINT32_MAX;
    return PS_OK;
}

void psi_job_builder_fini(struct psi_job_builder *b)
{
    free_addresses(&b->job);
}

ps_status psi_job_builder_add(struct psi_job_builder *b, const char *text, size_t len, struct psi_err *err)
{
    struct psi_cluster_job *job = &b->job;
    char task[PSI_TASK_NAME_MAX];
    char other[PSI_TASK_NAME_MAX];
    psi_task_name_format(task, sizeof(task), job->name, job->task_count);
    if (job->task_count >= b->max_tasks) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "job '%s': at most one chief is allowed", job->name);
    }
    if (psi_cluster_total_tasks(b->cluster) + job->task_count >= PS_TASKS_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: a cluster has at most %d tasks", task, PS_TASKS_MAX);
    }
    struct psi_address address;
    ps_status st = psi_address_parse_n(text, len, false, &address, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "%s", task);
        return st;
    }
    char normal[PS_ADDRESS_BYTES_MAX + 1];
    psi_address_format(&address, normal, sizeof(normal));
    const char *owner = who_has(b->cluster, normal, other, sizeof(other));
    if (owner[0] != '\0') {
        return twice(normal, owner, task, err);
    }
    for (uint32_t t = 0; t < job->task_count; t++) {
        if (same_address(job->addresses[t], normal)) {
            return twice(normal, psi_task_name_format(other, sizeof(other), job->name, t), task, err);
        }
    }
    if (job->task_count == b->capacity) {
        uint32_t capacity = b->capacity == 0 ? 4 : b->capacity * 2;
        char **addresses = psi_realloc(job->addresses, capacity * sizeof(*addresses));
        if (addresses == NULL) {
            return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: out of memory", task);
        }
        job->addresses = addresses;
        b->capacity = capacity;
    }
    char *copy = psi_strndup(normal, strlen(normal));
    if (copy == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: out of memory", task);
    }
    job->addresses[job->task_count++] = copy;
    return PS_OK;
}

ps_status psi_job_builder_finish(struct psi_job_builder *b, struct psi_cluster *c, struct psi_err *err)
{
    PSI_ASSERT(b->cluster == c);
    if (b->job.task_count == 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "job '%s' has no tasks; a list of addresses is needed", b->job.name);
    }
    uint32_t at = c->job_count;
    while (at > 0 && strcmp(c->jobs[at - 1].name, b->job.name) > 0) {
        c->jobs[at] = c->jobs[at - 1];
        at--;
    }
    c->jobs[at] = b->job;
    c->job_count++;
    b->job = (struct psi_cluster_job){0}; /* the cluster owns it now */
    return PS_OK;
}

/* Add a job from two pieces of a longer text. */
static ps_status add_job(struct psi_cluster *c, const char *job, size_t job_len, const char *hosts, size_t hosts_len,
                         struct psi_err *err)
{
    struct psi_job_builder b;
    ps_status st = psi_job_builder_init(&b, c, job, job_len, err);
    if (st != PS_OK) {
        return st;
    }
    const char *p = hosts;
    const char *end = hosts + hosts_len;
    while (st == PS_OK && hosts_len > 0) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        const char *stop = comma == NULL ? end : comma;
        const char *from = p;
        const char *to = stop;
        while (from < to && *from == ' ') {
            from++;
        }
        while (to > from && to[-1] == ' ') {
            to--;
        }
        st = psi_job_builder_add(&b, from, (size_t)(to - from), err);
        if (comma == NULL) {
            break;
        }
        p = comma + 1;
    }
    if (st == PS_OK) {
        st = psi_job_builder_finish(&b, c, err);
    }
    psi_job_builder_fini(&b);
    return st;
}

ps_status psi_cluster_add_job(struct psi_cluster *c, const char *job, const char *hosts, struct psi_err *err)
{
    return add_job(c, job, strlen(job), hosts, strlen(hosts), err);
}

ps_status psi_cluster_copy(struct psi_cluster *to, const struct psi_cluster *from, struct psi_err *err)
{
    struct psi_cluster copy;
    ps_status st = PS_OK;
    psi_cluster_init(&copy);
    memcpy(copy.name, from->name, sizeof(copy.name));
    for (uint32_t j = 0; j < from->job_count; j++) {
        const struct psi_cluster_job *source = &from->jobs[j];
        struct psi_cluster_job *job = &copy.jobs[j];
        memcpy(job->name, source->name, sizeof(job->name));
        copy.job_count++;
        job->addresses = psi_calloc(source->task_count, sizeof(*job->addresses));
        if (job->addresses == NULL) {
            goto no_memory;
        }
        for (uint32_t t = 0; t < source->task_count; t++) {
            job->addresses[t] = psi_strndup(source->addresses[t], strlen(source->addresses[t]));
            if (job->addresses[t] == NULL) {
                goto no_memory;
            }
            job->task_count++;
        }
    }
    psi_cluster_fini(to);
    *to = copy;
    return PS_OK;
no_memory:
    st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "cluster: out of memory");
    psi_cluster_fini(&copy);
    return st;
}

ps_status psi_cluster_parse(struct psi_cluster *c, const char *spec, struct psi_err *err)
{
    struct psi_cluster work;
    psi_cluster_init(&work);
    ps_status st = psi_cluster_copy(&work, c, err);
    const char *p = spec;
    while (st == PS_OK) {
        size_t len = strcspn(p, ";");
        const char *equals = memchr(p, '=', len);
        if (equals == NULL) {
            char quoted[PSI_QUOTE_MAX];
            st = psi_fail(err, PS_INVALID_ARGUMENT, "%s is not of the form JOB=HOST:PORT,HOST:PORT",
                          psi_quote(quoted, sizeof(quoted), p, len));
            break;
        }
        while (*p == ' ') {
            p++;
            len--;
        }
        const char *name_end = equals;
        while (name_end > p && name_end[-1] == ' ') {
            name_end--;
        }
        st = add_job(&work, p, (size_t)(name_end - p), equals + 1, len - (size_t)(equals + 1 - p), err);
        if (p[len] == '\0') {
            break;
        }
        p += len + 1;
    }
    if (st == PS_OK) {
        psi_cluster_fini(c);
        *c = work;
        return PS_OK;
    }
    psi_cluster_fini(&work);
    psi_err_prefix(err, "cluster spec");
    return st;
}

ps_status psi_cluster_set_address(struct psi_cluster *c, const char *job, uint32_t task, const char *address, struct psi_err *err)
{
    char name[PSI_TASK_NAME_MAX];
    int32_t j = psi_cluster_job_index(c, job);
    if (j < 0 || task >= c->jobs[j].task_count) {
        char quoted[PSI_QUOTE_MAX];
        return psi_fail(err, PS_INVALID_ARGUMENT, "job %s has no task %" PRIu32 " in this cluster",
                        psi_quote(quoted, sizeof(quoted), job, strlen(job)), task);
    }
    struct psi_address parsed;
    ps_status st = psi_address_parse(address, false, &parsed, err);
    if (st != PS_OK) {
        return st;
    }
    char normal[PS_ADDRESS_BYTES_MAX + 1];
    psi_address_format(&parsed, normal, sizeof(normal));
    char **place = &c->jobs[j].addresses[task];
    if (same_address(*place, normal)) {
        return PS_OK;
    }
    char other[PSI_TASK_NAME_MAX];
    const char *owner = who_has(c, normal, other, sizeof(other));
    if (owner[0] != '\0') {
        return twice(normal, owner, psi_task_name_format(name, sizeof(name), job, task), err);
    }
    char *copy = psi_strndup(normal, strlen(normal));
    if (copy == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "cluster: out of memory");
    }
    psi_free(*place);
    *place = copy;
    return PS_OK;
}

uint32_t psi_cluster_job_count(const struct psi_cluster *c)
{
    return c->job_count;
}

const char *psi_cluster_job_name(const struct psi_cluster *c, uint32_t job_index)
{
    PSI_ASSERT(job_index < c->job_count);
    return c->jobs[job_index].name;
}

int32_t psi_cluster_job_index(const struct psi_cluster *c, const char *job)
{
    for (uint32_t j = 0; j < c->job_count; j++) {
        if (strcmp(c->jobs[j].name, job) == 0) {
            return (int32_t)j;
        }
    }
    return -1;
}

uint32_t psi_cluster_num_tasks(const struct psi_cluster *c, const char *job)
{
    int32_t j = psi_cluster_job_index(c, job);
    return j < 0 ? 0 : c->jobs[j].task_count;
}

uint32_t psi_cluster_total_tasks(const struct psi_cluster *c)
{
    uint32_t total = 0;
    for (uint32_t j = 0; j < c->job_count; j++) {
        total += c->jobs[j].task_count;
    }
    return total;
}

const char *psi_cluster_task_address(const struct psi_cluster *c, const char *job, uint32_t task)
{
    int32_t j = psi_cluster_job_index(c, job);
    return j < 0 || task >= c->jobs[j].task_count ? NULL : c->jobs[j].addresses[task];
}

uint32_t psi_cluster_task_index(const struct psi_cluster *c, const char *job, uint32_t position)
{
    int32_t j = psi_cluster_job_index(c, job);
    PSI_ASSERT(j >= 0 && position < c->jobs[j].task_count);
    return position;
}

const char *psi_cluster_task_list(const struct psi_cluster *c, const char *job, char *buf, size_t n)
{
    uint32_t count = psi_cluster_num_tasks(c, job);
    size_t used = 0;
    PSI_ASSERT(n >= 32);
    buf[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = psi_cluster_task_index(c, job, i);
        uint32_t last = first;
        while (i + 1 < count && psi_cluster_task_index(c, job, i + 1) == last + 1) {
            last++;
            i++;
        }
        const char *comma = used > 0 ? ", " : "";
        if (used + 24 > n) {
            PSI_IGNORE(snprintf(buf + used, n - used, ", ..."));
            break;
        }
        used += last > first ? (size_t)snprintf(buf + used, n - used, "%s%" PRIu32 " to %" PRIu32, comma, first, last)
                             : (size_t)snprintf(buf + used, n - used, "%s%" PRIu32, comma, first);
    }
    return buf;
}

bool psi_cluster_directory(const struct psi_cluster *c, const char **out_job, uint32_t *out_task)
{
    if (c->job_count == 0) {
        return false;
    }
    int32_t j = psi_cluster_job_index(c, "ps");
    *out_job = c->jobs[j < 0 ? 0 : j].name;
    *out_task = 0;
    return true;
}

bool psi_cluster_chief(const struct psi_cluster *c, const char **out_job, uint32_t *out_task)
{
    static const char *const order[] = {"chief", "master", "worker"};
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        int32_t j = psi_cluster_job_index(c, order[i]);
        if (j >= 0) {
            *out_job = c->jobs[j].name;
            *out_task = 0;
            return true;
        }
    }
    return false;
}

ps_status psi_cluster_format(const struct psi_cluster *c, struct psi_buf *out, struct psi_err *err)
{
    size_t start = out->len;
    ps_status st = PS_OK;
    for (uint32_t j = 0; st == PS_OK && j < c->job_count; j++) {
        st = psi_buf_printf(out, err, "%s%s=", j == 0 ? "" : ";", c->jobs[j].name);
        for (uint32_t t = 0; st == PS_OK && t < c->jobs[j].task_count; t++) {
            st = psi_buf_printf(out, err, "%s%s", t == 0 ? "" : ",", c->jobs[j].addresses[t]);
        }
    }
    if (st != PS_OK) {
        out->len = start;
    }
    return st;
}

uint64_t psi_cluster_hash(const struct psi_cluster *c)
{
    uint32_t tasks = psi_cluster_num_tasks(c, "ps");
    const uint8_t tail[5] = {0, (uint8_t)tasks, (uint8_t)(tasks >> 8), (uint8_t)(tasks >> 16), (uint8_t)(tasks >> 24)};
    uint64_t h = psi_fnv1a64(PSI_FNV1A64_START, c->name, strlen(c->name));
    return psi_fnv1a64(h, tail, sizeof(tail));
}

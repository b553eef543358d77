/* SPDX-License-Identifier: Apache-2.0 */
/* The ClusterSpec. Jobs are sorted by name, tasks by index, addresses are normalised text. A function that fails leaves the
 * cluster unchanged. Refused: bad grammar, too many entries, an address given twice (all pairs are compared). */
#include "cluster.h"

#include "cluster_internal.h"
#include "hash.h"
#include "mem.h"
#include "name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

bool psi_job_trains(const char *job)
{
    static const char *const jobs[] = {"worker", "chief", "master", "evaluator"};
    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
        if (strcmp(job, jobs[i]) == 0) {
            return true;
        }
    }
    return false;
}

void psi_cluster_init(struct psi_cluster *c)
{
    memset(c, 0, sizeof(*c));
    memcpy(c->name, PSI_CLUSTER_NAME_DEFAULT, sizeof(PSI_CLUSTER_NAME_DEFAULT));
}

static void free_tasks(struct psi_cluster_job *job)
{
    for (uint32_t i = 0; i < job->task_count; i++) {
        psi_free(job->tasks[i].address);
    }
    psi_free(job->tasks);
    job->tasks = NULL;
    job->task_count = 0;
    job->capacity = 0;
}

void psi_cluster_fini(struct psi_cluster *c)
{
    for (uint32_t i = 0; i < c->job_count; i++) {
        free_tasks(&c->jobs[i]);
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

/* Addresses are normalised text, so two texts of one address differ at most in the case of the host name. */
static bool same_address(const char *a, const char *b)
{
    return strncmp(a, "unix:", 5) == 0 ? strcmp(a, b) == 0 : strcasecmp(a, b) == 0;
}

static const char *who_has(const struct psi_cluster *c, const char *address, char *buf, size_t n)
{
    for (uint32_t j = 0; j < c->job_count; j++) {
        for (uint32_t t = 0; t < c->jobs[j].task_count; t++) {
            if (same_address(c->jobs[j].tasks[t].address, address)) {
                return psi_task_name_format(buf, n, c->jobs[j].name, c->jobs[j].tasks[t].index);
            }
        }
    }
    return "";
}

static ps_status twice(const char *address, const char *first, const char *second, struct psi_err *err)
{
    return psi_fail(err, PS_INVALID_ARGUMENT, "address '%s' is given twice: %s and %s", address, first, second);
}

static uint32_t position_of(const struct psi_cluster_job *job, uint32_t task)
{
    uint32_t low = 0;
    uint32_t high = job->task_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (job->tasks[middle].index < task) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct psi_cluster_task *find_task(const struct psi_cluster *c, const char *job, uint32_t task)
{
    int32_t j = psi_cluster_job_index(c, job);
    uint32_t at = j < 0 ? 0 : position_of(&c->jobs[j], task);
    return j >= 0 && at < c->jobs[j].task_count && c->jobs[j].tasks[at].index == task ? &c->jobs[j].tasks[at] : NULL;
}

static bool is_chief_job(const char *job)
{
    return strcmp(job, "chief") == 0 || strcmp(job, "master") == 0;
}

ps_status psi_cluster_job_begin(struct psi_cluster *c, const char *job, size_t len, uint32_t *out_job, struct psi_err *err)
{
    struct psi_cluster_job made = {.task_count = 0};
    ps_status st = psi_job_name_check(job, len, err);
    if (st != PS_OK) {
        return st;
    }
    memcpy(made.name, job, len);
    if (psi_cluster_job_index(c, made.name) >= 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "job '%s' is given twice", made.name);
    }
    if (c->job_count >= PS_JOBS_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "job '%s': a cluster has at most %d jobs", made.name, PS_JOBS_MAX);
    }
    uint32_t at = c->job_count;
    while (at > 0 && strcmp(c->jobs[at - 1].name, made.name) > 0) {
        c->jobs[at] = c->jobs[at - 1];
        at--;
    }
    c->jobs[at] = made;
    c->job_count++;
    *out_job = at;
    return PS_OK;
}

static void job_drop(struct psi_cluster *c, uint32_t job)
{
    free_tasks(&c->jobs[job]);
    c->job_count--;
    memmove(&c->jobs[job], &c->jobs[job + 1], (c->job_count - job) * sizeof(c->jobs[0]));
}

/* Normalise the address of a new task, and check that no other task has it. */
static ps_status check_address(const struct psi_cluster *c, const char *task, const char *text, size_t len,
                               char normal[PS_ADDRESS_BYTES_MAX + 1], struct psi_err *err)
{
    struct psi_address address;
    char other[PSI_TASK_NAME_MAX];
    ps_status st = psi_address_parse_n(text, len, true, &address, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "%s", task);
        return st;
    }
    psi_address_format(&address, normal, PS_ADDRESS_BYTES_MAX + 1);
    const char *owner = psi_address_any_port(normal) ? "" : who_has(c, normal, other, sizeof(other));
    return owner[0] != '\0' ? twice(normal, owner, task, err) : PS_OK;
}

ps_status psi_cluster_job_put(struct psi_cluster *c, uint32_t j, uint32_t task, const char *text, size_t len, struct psi_err *err)
{
    struct psi_cluster_job *job = &c->jobs[j];
    char name[PSI_TASK_NAME_MAX];
    char normal[PS_ADDRESS_BYTES_MAX + 1];
    psi_task_name_format(name, sizeof(name), job->name, task);
    uint32_t at = position_of(job, task);
    if (at < job->task_count && job->tasks[at].index == task) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s is given twice", name);
    }
    if (job->task_count > 0 && is_chief_job(job->name)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "job '%s': at most one chief is allowed", job->name);
    }
    const char *other = strcmp(job->name, "chief") == 0 ? "master" : "chief";
    if (is_chief_job(job->name) && psi_cluster_num_tasks(c, other) > 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "jobs 'chief' and 'master' are both given: at most one chief is allowed");
    }
    if (psi_cluster_total_tasks(c) >= PS_TASKS_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: a cluster has at most %d tasks", name, PS_TASKS_MAX);
    }
    if (task >= PS_TASKS_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: a task index is at most %d", name, PS_TASKS_MAX - 1);
    }
    ps_status st = check_address(c, name, text, len, normal, err);
    if (st != PS_OK) {
        return st;
    }
    struct psi_cluster_task *tasks = psi_grow(job->tasks, job->task_count, &job->capacity, sizeof(*tasks));
    job->tasks = tasks != NULL ? tasks : job->tasks;
    char *copy = tasks != NULL ? psi_strndup(normal, strlen(normal)) : NULL;
    if (copy == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: out of memory", name);
    }
    memmove(&job->tasks[at + 1], &job->tasks[at], (job->task_count - at) * sizeof(*job->tasks));
    job->tasks[at] = (struct psi_cluster_task){.index = task, .address = copy};
    job->task_count++;
    return PS_OK;
}

ps_status psi_cluster_add_job(struct psi_cluster *c, const char *job, const char *hosts, struct psi_err *err)
{
    uint32_t j = 0;
    size_t at = 0;
    ps_status st = psi_cluster_job_begin(c, job, strlen(job), &j, err);
    if (st != PS_OK) {
        return st;
    }
    st = psi_cluster_job_put_list(c, j, hosts, strlen(hosts), &at, err);
    if (st != PS_OK) {
        job_drop(c, j);
    }
    return st;
}

ps_status psi_cluster_add_task(struct psi_cluster *c, const char *job, uint32_t task, const char *address, struct psi_err *err)
{
    char name[PSI_TASK_NAME_MAX];
    const struct psi_cluster_task *there = find_task(c, job, task);
    if (there != NULL) {
        struct psi_address parsed;
        char normal[PS_ADDRESS_BYTES_MAX + 1];
        ps_status st = psi_address_parse(address, true, &parsed, err);
        psi_task_name_format(name, sizeof(name), job, task);
        if (st != PS_OK) {
            psi_err_prefix(err, "%s", name);
            return st;
        }
        if (same_address(there->address, psi_address_format(&parsed, normal, sizeof(normal)))) {
            return PS_OK;
        }
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s is at '%s' already, it cannot be at '%s' too", name, there->address,
                        normal);
    }
    int32_t found = psi_cluster_job_index(c, job);
    uint32_t j = (uint32_t)found;
    ps_status st = found >= 0 ? PS_OK : psi_cluster_job_begin(c, job, strlen(job), &j, err);
    if (st != PS_OK) {
        return st;
    }
    st = psi_cluster_job_put(c, j, task, address, strlen(address), err);
    if (st != PS_OK && found < 0) {
        job_drop(c, j);
    }
    return st;
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
        job->tasks = psi_calloc(source->task_count, sizeof(*job->tasks));
        if (job->tasks == NULL) {
            goto no_memory;
        }
        job->capacity = source->task_count;
        for (uint32_t t = 0; t < source->task_count; t++) {
            const char *address = source->tasks[t].address;
            job->tasks[t] = (struct psi_cluster_task){source->tasks[t].index, psi_strndup(address, strlen(address))};
            if (job->tasks[t].address == NULL) {
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

bool psi_address_any_port(const char *address)
{
    const size_t n = strlen(address);
    return n > 2 && strcmp(address + n - 2, ":0") == 0 && strncmp(address, "unix:", 5) != 0;
}

ps_status psi_cluster_directory_check(const struct psi_cluster *c, struct psi_err *err)
{
    const char *job = NULL;
    uint32_t task = 0;
    char name[PSI_TASK_NAME_MAX];
    if (!psi_cluster_directory(c, &job, &task) || !psi_address_any_port(psi_cluster_task_address(c, job, task))) {
        return PS_OK;
    }
    return psi_fail(
        err, PS_INVALID_ARGUMENT,
        "%s at '%s' is the directory, where the others find the addresses of tasks with port 0: its own port must be 1 "
        "to 65535",
        psi_task_name_format(name, sizeof(name), job, task), psi_cluster_task_address(c, job, task));
}

ps_status psi_cluster_set_address(struct psi_cluster *c, const char *job, uint32_t task, const char *address, struct psi_err *err)
{
    char name[PSI_TASK_NAME_MAX];
    struct psi_cluster_task *there = find_task(c, job, task);
    if (there == NULL) {
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
    if (same_address(there->address, normal)) {
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
    psi_free(there->address);
    there->address = copy;
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

uint32_t psi_cluster_workers(const struct psi_cluster *c)
{
    return psi_cluster_num_tasks(c, "worker") + psi_cluster_num_tasks(c, "chief") + psi_cluster_num_tasks(c, "master");
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
    const struct psi_cluster_task *there = find_task(c, job, task);
    return there != NULL ? there->address : NULL;
}

uint32_t psi_cluster_task_index(const struct psi_cluster *c, const char *job, uint32_t position)
{
    int32_t j = psi_cluster_job_index(c, job);
    PSI_ASSERT(j >= 0 && position < c->jobs[j].task_count);
    return c->jobs[j].tasks[position].index;
}

uint32_t psi_cluster_task_number(const struct psi_cluster *c, const char *job, uint32_t task)
{
    uint32_t before = 0;
    for (uint32_t j = 0; j < c->job_count; j++) {
        const struct psi_cluster_job *at = &c->jobs[j];
        if (strcmp(at->name, job) == 0) {
            uint32_t position = position_of(at, task);
            bool there = position < at->task_count && at->tasks[position].index == task;
            return there ? before + position : UINT32_MAX;
        }
        before += at->task_count;
    }
    return UINT32_MAX;
}

const char *psi_cluster_job_list(const struct psi_cluster *c, char *buf, size_t n)
{
    size_t used = 0;
    PSI_ASSERT(n >= PS_JOB_BYTES_MAX + 8);
    buf[0] = '\0';
    for (uint32_t j = 0; j < c->job_count; j++) {
        if (used + strlen(c->jobs[j].name) + 8 > n) { /* 8 bytes: room for ", " twice, "..." and NUL */
            PSI_IGNORE(snprintf(buf + used, n - used, ", ..."));
            break;
        }
        used += (size_t)snprintf(buf + used, n - used, "%s%s", j > 0 ? ", " : "", c->jobs[j].name);
    }
    return buf;
}

const char *psi_cluster_task_list(const struct psi_cluster *c, const char *job, char *buf, size_t n)
{
    uint32_t count = psi_cluster_num_tasks(c, job);
    size_t used = 0;
    PSI_ASSERT(n >= 32);
    PSI_IGNORE(snprintf(buf, n, "%s", count == 0 ? "none" : ""));
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
    const struct psi_cluster_job *job = NULL;
    for (uint32_t j = 0; j < c->job_count; j++) {
        const struct psi_cluster_job *at = &c->jobs[j];
        if (at->task_count > 0 && (job == NULL || strcmp(at->name, "ps") == 0)) {
            job = at;
        }
    }
    if (job == NULL) {
        return false;
    }
    *out_job = job->name;
    *out_task = job->tasks[0].index;
    return true;
}

bool psi_cluster_chief(const struct psi_cluster *c, const char **out_job, uint32_t *out_task)
{
    static const char *const order[] = {"chief", "master", "worker"};
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        int32_t j = psi_cluster_job_index(c, order[i]);
        if (j >= 0 && c->jobs[j].task_count > 0) {
            *out_job = c->jobs[j].name;
            *out_task = is_chief_job(order[i]) ? c->jobs[j].tasks[0].index : 0;
            return true;
        }
    }
    return false;
}

bool psi_cluster_equal(const struct psi_cluster *a, const struct psi_cluster *b)
{
    if (a->job_count != b->job_count) {
        return false;
    }
    for (uint32_t j = 0; j < a->job_count; j++) {
        const struct psi_cluster_job *x = &a->jobs[j];
        const struct psi_cluster_job *y = &b->jobs[j];
        if (strcmp(x->name, y->name) != 0 || x->task_count != y->task_count) {
            return false;
        }
        for (uint32_t t = 0; t < x->task_count; t++) {
            if (x->tasks[t].index != y->tasks[t].index || !same_address(x->tasks[t].address, y->tasks[t].address)) {
                return false;
            }
        }
    }
    return true;
}

uint64_t psi_cluster_hash(const struct psi_cluster *c)
{
    uint32_t tasks = psi_cluster_num_tasks(c, "ps");
    const uint8_t tail[5] = {0, (uint8_t)tasks, (uint8_t)(tasks >> 8), (uint8_t)(tasks >> 16), (uint8_t)(tasks >> 24)};
    uint64_t h = psi_fnv1a64(PSI_FNV1A64_START, c->name, strlen(c->name));
    return psi_fnv1a64(h, tail, sizeof(tail));
}

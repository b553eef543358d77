/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cluster and this process's task in it.
 *
 * Happy path: lists of addresses per job, from the flags or from {"cluster": {"ps": [...], "worker": [...]}, "task": {"type":
 * "worker", "index": 0}} -> the job and the index are checked against them -> a spec string for the libraries.
 * Failure modes: no or an unknown job name (the known ones are listed), an index outside the job, a list that is missing or has
 * an empty entry, TF_CONFIG that is not what it should be (the place is named). What an address may be, the libraries check.
 */
#include "cluster.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS_MAX = 8, SPEC_BYTES_MAX = 1 << 20 };

struct job {
    char name[CLUSTER_JOB_BYTES];
    const char *hosts; /* "h:p,h:p" */
    char *owned;       /* hosts, when they were put together here */
    int count;
};

struct jobs {
    struct job job[JOBS_MAX];
    int count;
    char type[CLUSTER_JOB_BYTES]; /* TF_CONFIG: task.type, "" when there is none */
    int64_t index;
};

static int fail(char *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int fail(char *err, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(err, CLUSTER_ERR_BYTES, format, ap);
    va_end(ap);
    return -1;
}

static const struct job *find_job(const struct jobs *jobs, const char *name)
{
    for (int i = 0; i < jobs->count; i++) {
        if (strcmp(jobs->job[i].name, name) == 0) {
            return &jobs->job[i];
        }
    }
    return NULL;
}

static int count_of(const struct jobs *jobs, const char *name)
{
    const struct job *job = find_job(jobs, name);
    return job != NULL ? job->count : 0;
}

/* ---- from the flags ---- */

/* from: what to call the list in errors */
static int add_list(struct jobs *jobs, const char *name, const char *hosts, const char *from, char *err)
{
    struct job *job = &jobs->job[jobs->count];
    int entry = 1;
    const char *start = hosts;
    if (hosts[0] == '\0') {
        return 0;
    }
    for (const char *p = hosts;; p++) {
        if (*p == ';' || *p == '=' || *p == ' ') {
            return fail(err, "%s: entry %d has a '%c': it must be HOST:PORT,HOST:PORT,...", from, entry, *p);
        }
        if (*p == ',' || *p == '\0') {
            if (p == start) {
                return fail(err, "%s: entry %d is empty: it must be HOST:PORT,HOST:PORT,...", from, entry);
            }
            if (*p == '\0') {
                break;
            }
            start = p + 1;
            entry++;
        }
    }
    (void)snprintf(job->name, sizeof(job->name), "%s", name);
    job->hosts = hosts;
    job->count = entry;
    jobs->count++;
    return 0;
}

/* ---- from TF_CONFIG ---- */

static int json_job(struct jobs *jobs, const char *name, json_t *list, char *err)
{
    struct job *job = &jobs->job[jobs->count];
    char from[CLUSTER_JOB_BYTES + 32];
    size_t used = 0;
    size_t bytes = 1;
    json_t *address = NULL;
    size_t i = 0;
    (void)snprintf(from, sizeof(from), "TF_CONFIG: cluster.%.60s", name);
    if (jobs->count == JOBS_MAX || strlen(name) >= sizeof(job->name) || name[strcspn(name, ";=, ")] != '\0') {
        return fail(err, "%s: more than %d jobs, or not a job's name", from, (int)JOBS_MAX);
    }
    if (!json_is_array(list) || json_array_size(list) == 0) {
        return fail(err, "%s must be a list of addresses", from);
    }
    json_array_foreach(list, i, address)
    {
        if (!json_is_string(address)) {
            return fail(err, "%s[%zu] must be a string, HOST:PORT", from, i);
        }
        bytes += json_string_length(address) + 1;
    }
    char *hosts = bytes <= SPEC_BYTES_MAX ? malloc(bytes) : NULL;
    if (hosts == NULL) {
        return fail(err, "%s: no memory for %zu addresses", from, json_array_size(list));
    }
    json_array_foreach(list, i, address)
    {
        used += (size_t)snprintf(hosts + used, bytes - used, "%s%s", i > 0 ? "," : "", json_string_value(address));
    }
    job->owned = hosts;
    return add_list(jobs, name, hosts, from, err);
}

static int json_task(struct jobs *jobs, json_t *task, char *err)
{
    const json_t *type = json_object_get(task, "type");
    const json_t *index = json_object_get(task, "index");
    if (!json_is_object(task) || !json_is_string(type) || json_string_length(type) >= sizeof(jobs->type)) {
        return fail(err, "TF_CONFIG: task must be an object with the job's name in type and a number in index");
    }
    (void)snprintf(jobs->type, sizeof(jobs->type), "%s", json_string_value(type));
    if (json_is_string(index)) { /* some schedulers write "0" */
        char *end = NULL;
        jobs->index = strtoll(json_string_value(index), &end, 10);
        if (json_string_length(index) > 0 && json_string_length(index) < 6 && *end == '\0' && jobs->index >= 0) {
            return 0;
        }
    } else if (json_is_integer(index) && json_integer_value(index) >= 0) {
        jobs->index = json_integer_value(index);
        return 0;
    }
    return fail(err, "TF_CONFIG: task.index must be a whole number from 0 on");
}

static int from_json(struct jobs *jobs, json_t *root, char *err)
{
    json_t *cluster = json_object_get(root, "cluster");
    json_t *task = json_object_get(root, "task");
    const char *name = NULL;
    json_t *list = NULL;
    if (!json_is_object(root) || (cluster != NULL && !json_is_object(cluster))) {
        return fail(err, "TF_CONFIG must be an object with cluster, an object of job names and lists of addresses");
    }
    json_object_foreach(cluster, name, list)
    {
        if (json_job(jobs, name, list, err) != 0) {
            return -1;
        }
    }
    return task == NULL || (json_is_object(task) && json_object_size(task) == 0) ? 0 : json_task(jobs, task, err);
}

static int from_tf_config(struct jobs *jobs, const char *text, char *err)
{
    json_error_t where;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    if (root == NULL) {
        return fail(err, "TF_CONFIG, line %d, column %d: %s", where.line, where.column, where.text);
    }
    int result = from_json(jobs, root, err);
    json_decref(root);
    return result;
}

/* ---- this process ---- */

static int bad_job(const struct flags *f, const struct jobs *jobs, const char *job, char *err)
{
    const char *from = flags_given(f, "job_name") || jobs->type[0] == '\0' ? "--job_name" : "TF_CONFIG: task.type";
    const char *list = find_job(jobs, "chief") != NULL ? "ps, worker, chief" : "ps, worker";
    return job[0] == '\0' ? fail(err, "%s is empty: it must be one of %s%s", from, list,
                                 flags_given(f, "job_name") ? "" : " (or let --local ps=2,workers=3 start all of them here)")
                          : fail(err, "%s '%.100s' is unknown: it must be one of %s", from, job, list);
}

static int check_task(const struct flags *f, const struct jobs *jobs, const char *job, int64_t index, char *err)
{
    bool known = (f->serve && find_job(jobs, job) != NULL) || strcmp(job, "ps") == 0 || strcmp(job, "worker") == 0 ||
                 (strcmp(job, "chief") == 0 && find_job(jobs, job) != NULL);
    if (!known) {
        return bad_job(f, jobs, job, err);
    }
    if (count_of(jobs, "ps") == 0 && !f->serve) {
        return fail(err, "--ps_hosts is empty: where are the ps tasks?");
    }
    if (count_of(jobs, job) == 0) {
        return fail(err, "--%s_hosts is empty: it must list the tasks of job %s", job, job);
    }
    if (index >= count_of(jobs, job)) {
        return fail(err, "--task_index %lld: job %s has %d task%s, 0 to %d", (long long)index, job, count_of(jobs, job),
                    count_of(jobs, job) == 1 ? "" : "s", count_of(jobs, job) - 1);
    }
    return 0;
}

/* "ps=h:p,h:p;worker=h:p" */
static char *format_spec(const struct jobs *jobs)
{
    size_t bytes = 1;
    size_t used = 0;
    for (int i = 0; i < jobs->count; i++) {
        bytes += strlen(jobs->job[i].name) + strlen(jobs->job[i].hosts) + 2;
    }
    char *spec = malloc(bytes);
    for (int i = 0; spec != NULL && i < jobs->count; i++) {
        used += (size_t)snprintf(spec + used, bytes - used, "%s%s=%s", i > 0 ? ";" : "", jobs->job[i].name, jobs->job[i].hosts);
    }
    return spec;
}

static int fill(const struct jobs *jobs, const char *job, int64_t index, struct cluster *out, char *err)
{
    struct cluster c = {.task = (uint32_t)index};
    int chiefs = count_of(jobs, "chief");
    const char *first = find_job(jobs, "ps") != NULL ? "ps" : job;
    const char *ps_hosts = find_job(jobs, first)->hosts;
    (void)snprintf(c.job, sizeof(c.job), "%s", job);
    c.ps_count = count_of(jobs, "ps");
    c.trainer_count = chiefs + count_of(jobs, "worker");
    c.trainer = strcmp(job, "ps") == 0 ? -1 : (int)index + (strcmp(job, "worker") == 0 ? chiefs : 0);
    c.chief = c.trainer == 0;
    c.spec = format_spec(jobs);
    c.target = strndup(ps_hosts, strcspn(ps_hosts, ","));
    if (c.spec == NULL || c.target == NULL) {
        cluster_fini(&c);
        return fail(err, "no memory for the cluster");
    }
    *out = c;
    return 0;
}

static int find(struct jobs *jobs, const struct flags *f, const char *tf_config, struct cluster *out, char *err)
{
    bool flags = flags_given(f, "ps_hosts") || flags_given(f, "worker_hosts");
    if (add_list(jobs, "ps", f->ps_hosts, "--ps_hosts", err) != 0 ||
        add_list(jobs, "worker", f->worker_hosts, "--worker_hosts", err) != 0) {
        return -1;
    }
    if (!flags && tf_config != NULL && tf_config[0] != '\0' && from_tf_config(jobs, tf_config, err) != 0) {
        return -1;
    }
    const char *job = flags_given(f, "job_name") ? f->job_name : jobs->type;
    int64_t index = flags_given(f, "task_index") ? f->task_index : jobs->index;
    if (check_task(f, jobs, job, index, err) != 0) {
        return -1;
    }
    return fill(jobs, job, index, out, err);
}

int cluster_find(const struct flags *f, const char *tf_config, struct cluster *out, char *err)
{
    struct jobs jobs = {.count = 0};
    int result = find(&jobs, f, tf_config, out, err);
    for (int i = 0; i < JOBS_MAX; i++) {
        free(jobs.job[i].owned);
    }
    return result;
}

void cluster_fini(struct cluster *c)
{
    free(c->spec);
    free(c->target);
    memset(c, 0, sizeof(*c));
}

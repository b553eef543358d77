/* SPDX-License-Identifier: Apache-2.0 */
/* The session's copy of the cluster: tasks, and the session's place in its job. Happy path: the first call that needs the copy
 * asks the core, which has the cluster from the options or from the first connected task. Later only serving.c appends tasks.
 * Failure mode: no task answers within the timeout; the next call asks again. */
#include "api.h"

#include "common/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct know {
    struct psi_api_task *tasks;
    uint32_t count, all, job_tasks, ps_tasks;
    bool chief, no_memory, looks;
};

static ps_status prepare_know(struct psi_api_call *call, struct psi_err *err)
{
    (void)err;
    const struct know *k = call->arg;
    enum psi_request_kind kind = k->looks ? PSI_REQ_LOOK : PSI_REQ_CLUSTER;
    call->req.kind = psi_client_cluster(call->client) == NULL ? kind : PSI_REQ_NONE;
    return PS_OK;
}

static void finish_know(struct psi_api_call *call)
{
    struct know *k = call->arg;
    struct psi_client *c = call->client;
    const struct psi_cluster *cluster = psi_client_cluster(c);
    uint32_t count = psi_client_task_count(c);
    const char *directory = NULL;
    uint32_t directory_task = 0;
    if (cluster == NULL || (k->tasks = psi_calloc(count > 0 ? count : 1, sizeof(*k->tasks))) == NULL) {
        k->no_memory = true;
        return;
    }
    if (psi_cluster_directory(cluster, &directory, &directory_task)) {
        k->ps_tasks = psi_cluster_num_tasks(cluster, directory);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct psi_api_task *t = &k->tasks[k->count];
        (void)snprintf(t->name, sizeof(t->name), "%s", psi_client_task_name(c, i));
        (void)snprintf(t->address, sizeof(t->address), "%s", psi_client_task_address(c, i));
        const char *slash = strrchr(t->name, '/'); /* "/job:" NAME "/task:" DIGITS */
        PSI_ASSERT(strncmp(t->name, "/job:", 5) == 0 && slash > t->name + 5 && strncmp(slash, "/task:", 6) == 0);
        (void)snprintf(t->job, sizeof(t->job), "%.*s", (int)(slash - t->name - 5), t->name + 5);
        t->task = (uint32_t)strtoul(slash + 6, NULL, 10);
        t->index = i;
        t->keeps = directory != NULL && strcmp(t->job, directory) == 0;
        k->count += psi_job_trains(t->job) ? 0 : 1;
    }
    k->all = count;
    const char *job = call->session->job;
    uint32_t tasks = psi_cluster_num_tasks(cluster, job);
    /* the highest index of the job + 1, not the number of tasks, because indices may be missing */
    k->job_tasks = tasks > 0 ? psi_cluster_task_index(cluster, job, tasks - 1) + 1 : 0;
    k->chief = psi_client_leads(c);
}

static ps_status know(ps_session *s, bool looks, int64_t timeout_ms, struct psi_err *err)
{
    ps_status st = psi_api_check(s, false, err);
    if (st != PS_OK) {
        return st;
    }
    (void)pthread_mutex_lock(&s->lock);
    bool known = s->known != PSI_KNOWN_NOTHING;
    (void)pthread_mutex_unlock(&s->lock);
    if (known) {
        return PS_OK;
    }
    struct know k = {.looks = looks};
    struct psi_api_call call = {
        .session = s, .prepare = prepare_know, .finish = finish_know, .arg = &k, .timeout_ms = timeout_ms};
    st = psi_api_call_run(&call, err);
    if (st == PS_OK && k.no_memory) {
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the list of tasks");
    }
    if (st == PS_OK) {
        (void)pthread_mutex_lock(&s->lock);
        if (s->known == PSI_KNOWN_NOTHING) {
            s->tasks = k.tasks;
            k.tasks = NULL;
            s->task_count = k.count;
            s->tasks_all = k.all;
            s->job_task_count = k.job_tasks;
            s->ps_count = k.ps_tasks;
            s->chief = k.chief;
            s->known = PSI_KNOWN_SERVERS;
        }
        (void)pthread_mutex_unlock(&s->lock);
    }
    psi_free(k.tasks);
    return st;
}

ps_status psi_api_know_cluster(ps_session *s, int64_t timeout_ms, struct psi_err *err)
{
    return know(s, false, timeout_ms, err);
}

ps_status psi_api_look_cluster(ps_session *s, struct psi_err *err)
{
    return know(s, true, 0, err);
}

void psi_api_likewise(ps_session *s, const char *device, struct psi_err *err)
{
    struct psi_err none = {0};
    ps_status st = psi_api_know_cluster(s, 0, &none);
    for (uint32_t i = 0; st == PS_OK && i < s->task_count; i++) {
        const struct psi_api_task *t = &s->tasks[i];
        size_t bytes = strlen(t->name);
        if (strncmp(device, t->name, bytes) != 0 || (device[bytes] != '\0' && device[bytes] != '/')) {
            continue;
        }
        size_t at = strlen(err->text);
        (void)snprintf(err->text + at, sizeof(err->text) - at, "; likewise %s (%s)", t->name, t->address); /* may be cut */
    }
}

int ps_task_index(ps_session *s)
{
    return s == NULL ? 0 : (int)s->task;
}

int ps_task_count(ps_session *s)
{
    struct psi_err err = {0};
    if (s == NULL || s->job[0] == '\0') {
        return 1;
    }
    /* at least the task's index + 1: the cluster may not be known, or may not list this task */
    uint32_t count = psi_api_know_cluster(s, 0, &err) == PS_OK ? s->job_task_count : 0;
    return (int)(count > s->task ? count : s->task + 1);
}

static void finish_leads(struct psi_api_call *call)
{
    ps_session *s = call->session;
    (void)pthread_mutex_lock(&s->lock);
    s->chief = psi_client_leads(call->client);
    (void)pthread_mutex_unlock(&s->lock);
}

bool ps_is_chief(ps_session *s)
{
    struct psi_err err = {0};
    if (s == NULL || (s->job[0] == '\0' && s->monitor == NULL)) {
        return true;
    }
    if (psi_api_know_cluster(s, 0, &err) == PS_OK) {
        struct psi_api_call call = {.session = s, .finish = finish_leads};
        if (s->monitor != NULL) {
            PSI_IGNORE(psi_api_call_run(&call, &err)); /* on failure the last known value is used */
        }
        (void)pthread_mutex_lock(&s->lock);
        const bool chief = s->chief;
        (void)pthread_mutex_unlock(&s->lock);
        return chief;
    }
    return strcmp(s->job, "chief") == 0 || strcmp(s->job, "master") == 0 || (strcmp(s->job, "worker") == 0 && s->task == 0);
}

int ps_ps_count(ps_session *s)
{
    struct psi_err err = {0};
    if (psi_api_know_cluster(s, 0, &err) == PS_OK) {
        return (int)s->ps_count;
    }
    PSI_IGNORE(psi_api_last_error_set(&err)); /* only the count is returned */
    return 0;
}

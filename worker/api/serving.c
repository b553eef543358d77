/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tasks of training jobs serve: those that are connected to the directory. These tasks are appended to ps_session.tasks,
 * once; the present entries keep their indices.
 *
 * Happy path: once the cluster is known, TASKS asks the directory, and the connected tasks are appended. Failure mode: the
 * directory does not answer soon: the list lacks these tasks, and the next call asks again.
 */
#include "api.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

enum {
    ASK_MS_MAX = 2000, /* longest wait in ms for the directory's answer */
    ASK_PART = 4       /* TASKS may take a quarter of the caller's timeout; the rest is left for the caller's own requests */
};

struct serving {
    struct psi_list_sink sink;
    struct psi_client *client;
    struct psi_api_task *tasks; /* [capacity] */
    uint32_t count, capacity;
};

/* psi_list_sink.task: append the task if it is connected and serves in a training job. Loop thread. */
static void take(void *ctx, const struct psi_task_seen *seen)
{
    struct serving *v = ctx;
    char name[PSI_TASK_NAME_MAX];
    (void)psi_task_name_format(name, sizeof(name), seen->job, seen->task);
    for (uint32_t i = 0; seen->connected && psi_job_trains(seen->job) && i < psi_client_task_count(v->client); i++) {
        if (strcmp(psi_client_task_name(v->client, i), name) == 0 && v->count < v->capacity) {
            struct psi_api_task *t = &v->tasks[v->count++];
            (void)snprintf(t->name, sizeof(t->name), "%s", name);
            (void)snprintf(t->job, sizeof(t->job), "%s", seen->job);
            (void)snprintf(t->address, sizeof(t->address), "%s", psi_client_task_address(v->client, i));
            t->task = seen->task;
            t->index = i;
            return;
        }
    }
}

static ps_status prepare(struct psi_api_call *call, struct psi_err *err)
{
    struct serving *v = call->arg;
    (void)err;
    v->client = call->client;
    return PS_OK;
}

ps_status psi_api_know_tasks(ps_session *s, int64_t timeout_ms, struct psi_err *err)
{
    struct serving v = {.count = 0};
    ps_status st = psi_api_know_cluster(s, timeout_ms, err);
    if (st != PS_OK) {
        return st;
    }
    (void)pthread_mutex_lock(&s->lock);
    v.capacity = s->known == PSI_KNOWN_ALL ? 0 : s->tasks_all - s->task_count;
    (void)pthread_mutex_unlock(&s->lock);
    if (v.capacity == 0) {
        return PS_OK;
    }
    v.tasks = psi_calloc(v.capacity, sizeof(*v.tasks));
    if (v.tasks == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the list of tasks");
    }
    int64_t time = psi_api_left_ms(s, timeout_ms) / ASK_PART + 1;
    struct psi_err own = {0};
    v.sink = (struct psi_list_sink){.task = take, .ctx = &v};
    struct psi_api_call call = {.session = s,
                                .prepare = prepare,
                                .arg = &v,
                                .timeout_ms = time < ASK_MS_MAX ? time : ASK_MS_MAX,
                                .req = {.kind = PSI_REQ_TASKS, .dst = &v.sink}};
    if (psi_api_call_run(&call, &own) == PS_OK) {
        (void)pthread_mutex_lock(&s->lock);
        if (s->known == PSI_KNOWN_SERVERS) {
            memcpy(s->tasks + s->task_count, v.tasks, v.count * sizeof(*v.tasks));
            s->task_count += v.count;
            s->known = PSI_KNOWN_ALL;
        }
        (void)pthread_mutex_unlock(&s->lock);
    }
    psi_free(v.tasks);
    return psi_api_interrupted(s, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Administration: names, ping and information of tasks, settings, shutdown, stop, checkpoints. Happy path: a blocking call to a
 * task or to the directory (call.c). Calls to all tasks start together and are awaited one by one, so that timeouts of tasks that
 * are down do not add up. Failure modes: an error of the call; ps_cluster_info() puts a task's error into its entry instead. */
#include "api.h"

#include "common/abi.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int ps_cluster_tasks(ps_session *s)
{
    PSI_API_VISIT(s);
    struct psi_err err = {0};
    if (psi_api_look_cluster(s, &err) != PS_OK || psi_api_know_tasks(s, 0, &err) != PS_OK) {
        PSI_IGNORE(psi_api_last_error_set(&err)); /* -1 tells the caller */
        return -1;
    }
    return (int)s->task_count;
}

const char *ps_cluster_task_name(ps_session *s, int task)
{
    struct psi_err err = {0};
    bool known = psi_api_know_cluster(s, 0, &err) == PS_OK;
    return known && task >= 0 && (uint32_t)task < s->task_count ? s->tasks[task].name : NULL;
}

static ps_status find_task(ps_session *s, int task, int64_t timeout_ms, const struct psi_api_task **out_task, struct psi_err *err)
{
    ps_status st = psi_api_know_cluster(s, timeout_ms, err);
    if (st != PS_OK) {
        return st;
    }
    if (task < 0 || (uint32_t)task >= s->task_count) {
        return psi_fail(err, PS_OUT_OF_RANGE, "task %d: the cluster has %u tasks, 0 is the first", task, s->task_count);
    }
    *out_task = &s->tasks[task];
    return PS_OK;
}

ps_status psi_api_admin(ps_session *s, const struct psi_request *req, int task, int64_t timeout_ms, struct psi_err *err)
{
    PSI_API_VISIT(s);
    const struct psi_api_task *at = NULL;
    ps_status st =
        task == PSI_API_DIRECTORY ? psi_api_know_cluster(s, timeout_ms, err) : find_task(s, task, timeout_ms, &at, err);
    if (st != PS_OK) {
        return st;
    }
    struct psi_api_call call = {.session = s, .timeout_ms = timeout_ms, .req = *req};
    call.req.task = at != NULL ? at->index : 0;
    return psi_api_call_run(&call, err);
}

ps_status ps_task_shutdown(ps_session *s, int task, int64_t timeout_ms)
{
    struct psi_err err = {0};
    const struct psi_request req = {.kind = PSI_REQ_SHUTDOWN};
    return psi_api_result(&err, psi_api_admin(s, &req, task, timeout_ms, &err));
}

ps_status ps_task_config_set(ps_session *s, int task, const char *name, const char *value, int64_t timeout_ms)
{
    struct psi_err err = {0};
    struct psi_setting setting = {.name = name, .value = value};
    const struct psi_request req = {.kind = PSI_REQ_CONFIG_SET, .src = &setting};
    if (name == NULL || value == NULL || name[0] == '\0') {
        return psi_api_result(&err, psi_fail(&err, PS_INVALID_ARGUMENT, "the setting's name or value is missing"));
    }
    return psi_api_result(&err, psi_api_admin(s, &req, task, timeout_ms, &err));
}

struct stop_at {
    struct psi_api_call call;
    uint32_t sessions;
    bool started;
};

/* Send STOP_AT to all tasks at once. *out_sessions: the largest number of sessions in an answer. Fails if no task answers. */
static ps_status stop_everywhere(ps_session *s, int64_t timeout_ms, uint32_t *out_sessions, struct psi_err *err)
{
    struct psi_err one = {0};
    uint32_t count = s->task_count;
    ps_status st = PS_UNAVAILABLE; /* the result if no task answers; *err then keeps the error of the directory */
    struct stop_at *of = psi_calloc((size_t)count + 1, sizeof(*of));
    if (of == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %u tasks", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        of[i].call = (struct psi_api_call){.session = s,
                                           .timeout_ms = timeout_ms,
                                           .req = {.kind = PSI_REQ_STOP_AT, .task = s->tasks[i].index, .dst = &of[i].sessions}};
        of[i].started = psi_api_call_start(&of[i].call, &one) == PS_OK;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (of[i].started && psi_api_call_wait(&of[i].call, &one) == PS_OK) {
            st = PS_OK;
            *out_sessions = of[i].sessions > *out_sessions ? of[i].sessions : *out_sessions;
        }
    }
    psi_free(of);
    return st;
}

ps_status ps_stop(ps_session *s, int64_t timeout_ms, uint32_t *out_sessions)
{
    PSI_API_VISIT(s);
    struct psi_err err = {0};
    uint32_t sessions = 0;
    const struct psi_request req = {.kind = PSI_REQ_STOP, .dst = &sessions};
    ps_status st = psi_api_admin(s, &req, PSI_API_DIRECTORY, timeout_ms, &err);
    bool silent = st == PS_UNAVAILABLE || st == PS_DEADLINE_EXCEEDED;
    if (silent && psi_api_know_cluster(s, timeout_ms, &err) == PS_OK) {
        st = stop_everywhere(s, timeout_ms, &sessions, &err);
        st = st != PS_OK && psi_api_interrupted(s, &err) != PS_OK ? PS_CANCELLED : st;
    }
    if (st == PS_OK && out_sessions != NULL) {
        *out_sessions = sessions;
    }
    return psi_api_result(&err, st);
}

ps_status ps_checkpoint_save(ps_session *s, int64_t timeout_ms, uint64_t *out_number)
{
    return ps_checkpoint_save_before(s, 0, timeout_ms, out_number);
}

ps_status ps_checkpoint_save_before(ps_session *s, uint64_t keeps, int64_t timeout_ms, uint64_t *out_number)
{
    struct psi_err err = {0};
    uint64_t number = 0;
    const struct psi_request req = {.kind = PSI_REQ_CHECKPOINT, .dst = &number, .keeps = keeps};
    ps_status st = psi_api_admin(s, &req, PSI_API_DIRECTORY, timeout_ms, &err);
    if (st == PS_OK && out_number != NULL) {
        *out_number = number;
    }
    return psi_api_result(&err, st);
}

static ps_status ask_for(ps_session *s, const struct psi_request *req, int64_t timeout_ms, struct psi_err *err)
{
    const struct psi_saved_name *of = req->src;
    return of->number == 0 ? psi_fail(err, PS_INVALID_ARGUMENT, "checkpoints are numbered from 1 on")
                           : psi_api_admin(s, req, PSI_API_DIRECTORY, timeout_ms, err);
}

ps_status ps_checkpoint_delete(ps_session *s, uint64_t number, bool force, int64_t timeout_ms)
{
    struct psi_err err = {0};
    const struct psi_saved_name of = {.number = number, .force = force};
    const struct psi_request req = {.kind = PSI_REQ_CHECKPOINT_DELETE, .src = &of};
    return psi_api_result(&err, ask_for(s, &req, timeout_ms, &err));
}

static ps_status restore(ps_session *s, const struct psi_saved_name *of, int64_t timeout_ms, uint64_t *out_next)
{
    struct psi_err err = {0};
    uint64_t next = 0;
    const struct psi_request req = {.kind = PSI_REQ_CHECKPOINT_RESTORE, .src = of, .dst = &next};
    ps_status st = ask_for(s, &req, timeout_ms, &err);
    if (st == PS_OK && out_next != NULL) {
        *out_next = next;
    }
    return psi_api_result(&err, st);
}

ps_status ps_checkpoint_restore(ps_session *s, uint64_t number, int64_t timeout_ms, uint64_t *out_next)
{
    return restore(s, &(struct psi_saved_name){.number = number}, timeout_ms, out_next);
}

ps_status ps_checkpoint_restore_containers(ps_session *s, uint64_t number, const char *const *containers, size_t count,
                                           int64_t timeout_ms, uint64_t *out_next)
{
    struct psi_err err = {0};
    ps_status st = PS_OK;
    if (count > PS_RESTORE_CONTAINERS_MAX || (count > 0 && containers == NULL)) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "%zu containers to be restored; at most %u, and none for all", count,
                      PS_RESTORE_CONTAINERS_MAX);
    }
    for (size_t i = 0; st == PS_OK && i < count; i++) {
        const char *name = containers[i] != NULL ? containers[i] : "";
        st = psi_container_name_check(name, strlen(name), &err);
    }
    return st != PS_OK
               ? psi_api_result(&err, st)
               : restore(s, &(struct psi_saved_name){.number = number, .containers = containers, .container_count = count},
                         timeout_ms, out_next);
}

ps_status ps_checkpoint_spread(ps_session *s, uint64_t number, int64_t timeout_ms, uint64_t *out_next)
{
    return restore(s, &(struct psi_saved_name){.number = number, .spread = true}, timeout_ms, out_next);
}

static int64_t now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

struct ping {
    int64_t sent_us, took_us;
};

static ps_status prepare_ping(struct psi_api_call *call, struct psi_err *err)
{
    (void)err;
    ((struct ping *)call->arg)->sent_us = now_us();
    return PS_OK;
}

static void finish_ping(struct psi_api_call *call)
{
    struct ping *p = call->arg;
    p->took_us = now_us() - p->sent_us;
}

ps_status ps_task_ping(ps_session *s, int task, int64_t timeout_ms, int64_t *out_us)
{
    PSI_API_VISIT(s);
    struct psi_err err = {0};
    struct ping p = {0};
    const struct psi_api_task *at = NULL;
    ps_status st = find_task(s, task, timeout_ms, &at, &err);
    for (int round = 0; st == PS_OK && round < 2; round++) { /* the first ping may have to connect; the second one counts */
        struct psi_api_call call = {.session = s,
                                    .prepare = prepare_ping,
                                    .finish = finish_ping,
                                    .arg = &p,
                                    .timeout_ms = timeout_ms,
                                    .req = {.kind = PSI_REQ_PING, .task = at->index}};
        st = psi_api_call_run(&call, &err);
    }
    if (st == PS_OK && out_us != NULL) {
        *out_us = p.took_us;
    }
    return psi_api_result(&err, st);
}

struct info_of {
    struct psi_api_call call;
    ps_task_info info;
    struct psi_task_seen seen;
    bool started;
};

static void info_result(const struct psi_api_task *task, ps_status st, const struct psi_err *err, ps_task_info *info)
{
    if (st != PS_OK) {
        bool directory = info->directory;
        memset(info, 0, sizeof(*info));
        info->directory = directory;
        (void)snprintf(info->error, sizeof(info->error), "%s: %s", ps_status_name(st), err->text);
        info->status = st;
        info->reason = psi_reason(err->reason, st);
    }
    info->up = st == PS_OK;
    info->task = task->task;
    (void)snprintf(info->job, sizeof(info->job), "%s", task->job);
    if (info->address[0] == '\0') {
        (void)snprintf(info->address, sizeof(info->address), "%s", task->address);
    }
}

/* The request for the directory's list of tasks. Its entries go to info_of.seen, one for each task. */
struct seen {
    struct psi_api_call call;
    struct psi_list_sink sink;
    struct info_of *of;
    const struct psi_api_task *tasks;
    int count;
    bool started;
};

static void take_seen(void *ctx, const struct psi_task_seen *task)
{
    struct seen *seen = ctx;
    for (int i = 0; i < seen->count; i++) {
        if (seen->tasks[i].task == task->task && strcmp(seen->tasks[i].job, task->job) == 0) {
            seen->of[i].seen = *task;
        }
    }
}

/* Ask the directory for its list of tasks. If it does not answer, the infos lack conflict, lost_names, restarts and lost. */
static void seen_start(struct seen *seen, ps_session *s, struct info_of *of, int count, int64_t timeout_ms)
{
    struct psi_err err = {0};
    seen->of = of;
    seen->tasks = s->tasks;
    seen->count = count;
    seen->sink = (struct psi_list_sink){.task = take_seen, .ctx = seen};
    seen->call =
        (struct psi_api_call){.session = s, .timeout_ms = timeout_ms, .req = {.kind = PSI_REQ_TASKS, .dst = &seen->sink}};
    seen->started = psi_api_call_start(&seen->call, &err) == PS_OK;
}

static void seen_wait(struct seen *seen)
{
    struct psi_err err = {0};
    if (seen->started) {
        PSI_IGNORE(psi_api_call_wait(&seen->call, &err)); /* on failure the infos have only what the tasks say */
    }
}

ps_status psi_api_infos(ps_session *s, bool needed, ps_task_info *infos, size_t item_bytes, int count, int64_t timeout_ms,
                        struct psi_err *err)
{
    PSI_API_VISIT(s);
    ps_status st = psi_api_know_cluster(s, timeout_ms, err);
    if (st == PS_OK && infos == NULL && count > 0) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "infos, with room for %d tasks, is NULL", count);
    }
    if (st == PS_OK && (count < 0 || (uint32_t)count > s->task_count)) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "infos has %d entries; the cluster has %u tasks", count, s->task_count);
    }
    st = st == PS_OK ? psi_struct_bytes_check(item_bytes, "ps_cluster_info", err) : st;
    if (st != PS_OK) {
        return st;
    }
    struct info_of *of = psi_calloc((size_t)count + 1, sizeof(*of));
    if (of == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %d tasks", count);
    }
    struct seen seen = {0};
    seen_start(&seen, s, of, count, timeout_ms);
    for (int i = 0; i < count; i++) {
        of[i].call = (struct psi_api_call){
            .session = s,
            .timeout_ms = timeout_ms,
            .req = {.kind = needed ? PSI_REQ_AWAIT_INFO : PSI_REQ_INFO, .task = s->tasks[i].index, .dst = &of[i].info}};
        struct psi_err one = {0};
        ps_status started = psi_api_call_start(&of[i].call, &one);
        of[i].started = started == PS_OK;
        if (started != PS_OK) {
            info_result(&s->tasks[i], started, &one, &of[i].info);
        }
    }
    for (int i = 0; i < count; i++) {
        if (of[i].started) {
            struct psi_err one = {0};
            ps_status ended = psi_api_call_wait(&of[i].call, &one);
            info_result(&s->tasks[i], ended, &one, &of[i].info);
        }
    }
    seen_wait(&seen);
    for (int i = 0; i < count; i++) {
        memcpy(of[i].info.conflict, of[i].seen.conflict, sizeof(of[i].info.conflict));
        memcpy(of[i].info.lost_names, of[i].seen.lost_names, sizeof(of[i].info.lost_names));
        of[i].info.restarts = of[i].seen.restarts;
        of[i].info.lost = of[i].seen.lost;
        psi_struct_give(infos, item_bytes, (size_t)i, &of[i].info, sizeof(of[i].info));
    }
    psi_free(of);
    /* a task's error is in the task's entry; only an interrupt is the error of the whole call */
    return psi_api_interrupted(s, err);
}

ps_status ps_cluster_info(ps_session *s, ps_task_info *infos, size_t item_bytes, int count, int64_t timeout_ms)
{
    struct psi_err err = {0};
    return psi_api_result(&err, psi_api_infos(s, false, infos, item_bytes, count, timeout_ms, &err));
}

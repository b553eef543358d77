/* SPDX-License-Identifier: Apache-2.0 */
/* ps_call() and ps_call_start(): calls of functions that a task offers. Happy path: the caller's thread takes the device from the
 * scopes. The loop asks for the cluster if the session does not know it, and finds the task that the device names.
 * Unless every task has the device, the loop asks the task for its devices. Then it sends CALL, and the answer goes to the
 * program's memory. Failure modes: a task or device that does not exist is INVALID_ARGUMENT; otherwise as in core/call.c. */
#include "api.h"

#include "common/device.h"
#include "common/mem.h"

#include <string.h>

struct task_call {
    struct psi_api_call call;
    struct psi_call_io io;
    struct psi_device device;
    bool informed; /* the task has answered AWAIT_INFO, and `info` is set */
    ps_task_info info;
};

ps_status psi_api_find_task(const struct psi_client *c, const char *job, uint32_t task, uint32_t *out, struct psi_err *err)
{
    char name[PSI_TASK_NAME_MAX], list[PSI_TASK_LIST_MAX];
    (void)psi_task_name_format(name, sizeof(name), job, task);
    for (uint32_t i = 0; i < psi_client_task_count(c); i++) {
        if (strcmp(psi_client_task_name(c, i), name) == 0) {
            *out = i;
            return PS_OK;
        }
    }
    const struct psi_cluster *cluster = psi_client_cluster(c);
    if (cluster == NULL || psi_cluster_job_index(cluster, job) < 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the cluster has no %s; its jobs are %s", name,
                        cluster != NULL ? psi_cluster_job_list(cluster, list, sizeof(list)) : "not known");
    }
    return psi_fail(err, PS_INVALID_ARGUMENT, "the cluster has no %s; job '%s' has tasks %s", name, job,
                    psi_cluster_task_list(cluster, job, list, sizeof(list)));
}

/* Complete a device that names no task. If it names a job: task 0 of this job; otherwise job and task of the session's target. */
static ps_status target_fill(const struct psi_client *c, struct psi_device *d, struct psi_err *err)
{
    struct psi_device target = {.has_job = false};
    const char *name = psi_client_task_name(c, psi_client_target(c));
    if (!d->has_job && name == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "its device names no job, nor do the open scopes, and the session has no task as its target: say "
                        "/job:worker/task:0");
    }
    ps_status st = !d->has_job ? psi_device_parse(name, &target, err) : PS_OK;
    if (st == PS_OK && !d->has_job && !d->has_task) {
        d->task = target.task;
        d->has_task = true;
    }
    if (st == PS_OK && !d->has_job) {
        memcpy(d->job, target.job, sizeof(d->job));
        d->has_job = true;
    }
    d->has_task = st == PS_OK; /* the task is 0 if the device named only a job */
    return st;
}

/* psi_api_call.prepare(): choose the next request: CLUSTER if the cluster is not known, AWAIT_INFO if the task must be asked for
 * its devices, then CALL. Any serving task may be called, also one that is no ps task. */
static ps_status prepare(struct psi_api_call *call, struct psi_err *err)
{
    struct task_call *t = PSI_CONTAINER_OF(call, struct task_call, call);
    if (psi_client_cluster(call->client) == NULL) {
        call->req.kind = PSI_REQ_CLUSTER;
        return PS_OK;
    }
    ps_status st = target_fill(call->client, &t->device, err);
    st = st == PS_OK ? psi_api_find_task(call->client, t->device.job, t->device.task, &call->req.task, err) : st;
    if (st != PS_OK) {
        psi_err_prefix(err, "call '%.63s'", t->io.name);
        return st;
    }
    const bool asks = !t->informed && !psi_api_device_is_everywhere(call->session, &t->device);
    call->req.kind = asks ? PSI_REQ_AWAIT_INFO : PSI_REQ_CALL;
    call->req.dst = asks ? (void *)&t->info : (void *)&t->io;
    return t->informed ? psi_api_device_check(&t->info, &t->device, err) : PS_OK;
}

static void finish(struct psi_api_call *call)
{
    struct task_call *t = PSI_CONTAINER_OF(call, struct task_call, call);
    t->informed = call->req.kind == PSI_REQ_AWAIT_INFO;
    call->again = call->req.kind != PSI_REQ_CALL;
}

/* Combine the open device scopes, with `text` as the innermost one, into *out. */
static ps_status find_device(ps_session *s, const char *text, struct psi_device *out, struct psi_err *err)
{
    char prefix[PS_NAME_BYTES_MAX + 1];
    ps_status st = psi_api_scope_row(s, "Call", text, prefix, out, err);
    if (st == PS_OK && out->has_replica && out->replica != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "/replica:%u does not exist: every task is of replica 0", out->replica);
    }
    return st;
}

/* Fill t for a call of the function `name`. The caller has zeroed t and set the memory of t->io. */
static ps_status fill(struct task_call *t, ps_session *s, bool may_block, const char *device, const char *name,
                      int64_t timeout_ms, struct psi_err *err)
{
    t->call = (struct psi_api_call){.session = s, .prepare = prepare, .finish = finish, .timeout_ms = timeout_ms};
    t->io.name = name;
    ps_status st = name != NULL ? psi_api_check(s, may_block, err) : psi_fail(err, PS_INVALID_ARGUMENT, "no call is named");
    return st == PS_OK ? find_device(s, device, &t->device, err) : st;
}

ps_status ps_call(ps_session *s, const char *device, const char *name, const void *in, size_t in_bytes, void *out,
                  size_t out_capacity, size_t *out_bytes, int64_t timeout_ms)
{
    PSI_API_VISIT(s);
    struct psi_err err = {0};
    struct task_call t = {.io = {.in = in, .in_bytes = in_bytes, .out = out, .out_capacity = out_capacity}};
    ps_status st = fill(&t, s, true, device, name, timeout_ms, &err);
    st = st == PS_OK ? psi_api_call_run(&t.call, &err) : st;
    if (out_bytes != NULL) {
        *out_bytes = t.io.out_bytes;
    }
    return psi_api_result(&err, st);
}

/* A call of ps_call_start(); over() frees it. */
struct started {
    struct task_call of;
    ps_call_done_fn done;
    void *ctx;
    char name[];
};

static void over(struct psi_api_call *call)
{
    struct started *c = PSI_CONTAINER_OF(call, struct started, of.call);
    const bool failed = call->err.code != PS_OK;
    const ps_call_result result = {.struct_bytes = sizeof(result),
                                   .status = call->err.code,
                                   .applied = failed ? call->err.applied : PS_NOTHING_APPLIED,
                                   .reason = failed ? psi_reason(call->err.reason, call->err.code) : PS_REASON_NONE,
                                   .out_bytes = c->of.io.out_bytes,
                                   .text = failed ? call->err.text : ""};
    c->done(c->ctx, &result);
    psi_free(c);
}

ps_status ps_call_start(ps_session *s, const char *device, const char *name, const void *in, size_t in_bytes, void *out,
                        size_t out_capacity, int64_t timeout_ms, ps_call_done_fn done, void *ctx)
{
    struct psi_err err = {0};
    const size_t name_bytes = name != NULL ? strlen(name) + 1 : 0;
    struct started *c = psi_calloc(1, sizeof(*c) + name_bytes);
    ps_status st = c != NULL ? PS_OK : psi_fail(&err, PS_RESOURCE_EXHAUSTED, "out of memory for a call");
    if (st == PS_OK && done == NULL) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "done is NULL");
    }
    if (st == PS_OK) {
        c->done = done;
        c->ctx = ctx;
        c->of.io = (struct psi_call_io){.in = in, .in_bytes = in_bytes, .out = out, .out_capacity = out_capacity};
        st = fill(&c->of, s, false, device, name != NULL ? memcpy(c->name, name, name_bytes) : NULL, timeout_ms, &err);
        c->of.call.over = over;
    }
    st = st == PS_OK ? psi_api_call_start(&c->of.call, &err) : st;
    if (st != PS_OK) {
        psi_free(c);
    }
    return psi_api_result(&err, st);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ps_call(): a call of a function of a task's call table.
 *
 * Happy path: the device names a task -> if it is not CPU:0, the task is asked whether it has it -> the core's CALL -> the
 * output. Failure modes: a device with missing or extra fields is INVALID_ARGUMENT; the rest is the core's (core/call.c).
 */
#include "api.h"

#include "common/device.h"

#include <string.h>

struct call_args {
    struct psi_call_io io;
    struct psi_device device;
    bool asks;         /* the request asks the task for its devices, and is no call */
    ps_task_info info; /* the task's answer, written by the core */
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

/* Fill what the device leaves open: job and task of the target, or task 0 of the given job. */
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
    d->has_task = st == PS_OK; /* a job without a task means its task 0 */
    return st;
}

/* Find the task at the core, which also knows tasks that serve and are no ps. */
static ps_status prepare(struct psi_api_call *call, struct psi_err *err)
{
    struct call_args *a = call->arg;
    ps_status st = target_fill(call->client, &a->device, err);
    st = st == PS_OK ? psi_api_find_task(call->client, a->device.job, a->device.task, &call->req.task, err) : st;
    if (st != PS_OK) {
        psi_err_prefix(err, "call '%.63s'", a->io.name);
        return st;
    }
    call->req.kind = a->asks ? PSI_REQ_AWAIT_INFO : PSI_REQ_CALL;
    call->req.dst = a->asks ? (void *)&a->info : (void *)&a->io;
    return PS_OK;
}

/* Device of the open scopes, with this one within all others. */
static ps_status find_device(ps_session *s, const char *text, struct psi_device *out, struct psi_err *err)
{
    char prefix[PS_NAME_BYTES_MAX + 1];
    ps_status st = psi_api_check(s, true, err);
    st = st == PS_OK ? psi_api_scope_row(s, "Call", text, prefix, out, err) : st;
    if (st == PS_OK && out->has_replica && out->replica != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "/replica:%u does not exist: every task is of replica 0", out->replica);
    }
    return st;
}

/* Ask the task whether it has a device that not every task has. */
static ps_status check_device(struct psi_api_call call, struct psi_err *err)
{
    struct call_args *a = call.arg;
    if (psi_api_device_is_everywhere(call.session, &a->device)) {
        return PS_OK;
    }
    a->asks = true;
    ps_status st = psi_api_call_run(&call, err);
    a->asks = false;
    return st == PS_OK ? psi_api_device_check(&a->info, &a->device, err) : st;
}

ps_status ps_call(ps_session *s, const char *device, const char *name, const void *in, size_t in_bytes, void *out,
                  size_t out_capacity, size_t *out_bytes, int64_t timeout_ms)
{
    PSI_API_VISIT(s);
    struct psi_err err = {0};
    struct call_args a = {
        .io = {.name = name, .in = in, .in_bytes = in_bytes, .out = out, .out_capacity = out_capacity, .out_bytes = 0}};
    struct psi_api_call call = {.session = s, .prepare = prepare, .arg = &a, .timeout_ms = timeout_ms};
    ps_status st =
        name != NULL ? find_device(s, device, &a.device, &err) : psi_fail(&err, PS_INVALID_ARGUMENT, "no call is named");
    if (st == PS_OK) {
        st = psi_api_know_cluster(s, timeout_ms, &err);
    }
    st = st == PS_OK ? check_device(call, &err) : st;
    if (st == PS_OK) {
        st = psi_api_call_run(&call, &err);
    }
    if (out_bytes != NULL) {
        *out_bytes = a.io.out_bytes;
    }
    return psi_api_result(&err, st);
}

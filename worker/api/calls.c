/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ps_call: a call of a task's call table, from a program that waits for it.
 * Happy path: the device names a task -> where it is not CPU:0, the task is asked whether it has it -> the core's CALL -> the
 * output. Failure modes: what the device lacks or has too much is INVALID_ARGUMENT; the rest is the core's (core/call.c).
 */
#include "api.h"

#include "common/device.h"

#include <stdio.h>
#include <string.h>

struct call_args {
    struct psi_call_io io;
    struct psi_device device;
    bool asks;         /* the request asks the task for its devices, and runs no call */
    ps_task_info info; /* the task's answer to that, which the core writes */
};

/* The task is known to the core alone: a program may call one that serves and is no ps. */
static ps_status prepare(struct psi_api_call *call, struct psi_err *err)
{
    struct call_args *a = call->arg;
    char name[PSI_TASK_NAME_MAX];
    (void)psi_task_name_format(name, sizeof(name), a->device.job, a->device.task);
    for (uint32_t i = 0; i < psi_client_task_count(call->client); i++) {
        if (strcmp(psi_client_task_name(call->client, i), name) == 0) {
            call->req.kind = a->asks ? PSI_REQ_AWAIT_INFO : PSI_REQ_CALL;
            call->req.task = i;
            call->req.dst = a->asks ? (void *)&a->info : (void *)&a->io;
            return PS_OK;
        }
    }
    return psi_fail(err, PS_INVALID_ARGUMENT, "call '%.63s': the cluster has no %s", a->io.name, name);
}

static ps_status find_device(const char *text, struct psi_device *out, struct psi_err *err)
{
    ps_status st = psi_device_parse(text != NULL ? text : "", out, err);
    if (st == PS_OK && (!out->has_job || !out->has_task)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "device '%.100s' names no task; a call needs one, as /job:worker/task:0",
                        text != NULL ? text : "");
    }
    if (st == PS_OK && out->has_replica && out->replica != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "/replica:%u does not exist: every task is of replica 0", out->replica);
    }
    return st;
}

/* A device that not every task has: its task says what it has. */
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
    ps_status st = name != NULL ? find_device(device, &a.device, &err) : psi_fail(&err, PS_INVALID_ARGUMENT, "no call is named");
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

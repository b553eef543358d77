/* SPDX-License-Identifier: Apache-2.0 */
/* What the oracles read: a variable's elements as whole numbers, and a call in words. */
#include "sim.h"

#include "../../../common/blob.h"

#include <string.h>

size_t sim_var_bytes(const struct sim_var *v)
{
    return v->dtype == PS_STRING ? (size_t)psi_blob_bytes_max(v->elements) : (size_t)v->elements * ps_dtype_bytes(v->dtype);
}

size_t sim_width(const struct sim_var *v)
{
    return v->dtype == PS_STRING ? sizeof(double) : ps_dtype_bytes(v->dtype);
}

const char *sim_kind_name(enum psi_request_kind kind)
{
    static const char *const names[PSI_REQ_KINDS] = {[PSI_REQ_NONE] = "none",
                                                     [PSI_REQ_PUSH] = "push",
                                                     [PSI_REQ_PUSH_PULL] = "push-pull",
                                                     [PSI_REQ_ASSIGN] = "assign",
                                                     [PSI_REQ_INIT_FROM] = "init-from",
                                                     [PSI_REQ_ADD] = "add",
                                                     [PSI_REQ_PUSH_ROWS] = "push-rows",
                                                     [PSI_REQ_PUSH_PULL_ROWS] = "push-pull-rows",
                                                     [PSI_REQ_SCATTER] = "scatter",
                                                     [PSI_REQ_GATHER] = "gather",
                                                     [PSI_REQ_INIT] = "init",
                                                     [PSI_REQ_PULL] = "pull",
                                                     [PSI_REQ_ENQUEUE] = "enqueue",
                                                     [PSI_REQ_DEQUEUE] = "dequeue",
                                                     [PSI_REQ_QUEUE_CLOSE] = "queue-close",
                                                     [PSI_REQ_WORK_END] = "work-end",
                                                     [PSI_REQ_SET_STEP] = "set-step",
                                                     [PSI_REQ_GET] = "get",
                                                     [PSI_REQ_LOOKUP] = "lookup",
                                                     [PSI_REQ_STATUS] = "status",
                                                     [PSI_REQ_READY] = "ready",
                                                     [PSI_REQ_WAIT_READY] = "wait-ready",
                                                     [PSI_REQ_RESET] = "reset",
                                                     [PSI_REQ_DELETE] = "delete",
                                                     [PSI_REQ_WAIT_CLUSTER] = "wait-cluster",
                                                     [PSI_REQ_BARRIER] = "barrier",
                                                     [PSI_REQ_JOIN] = "join",
                                                     [PSI_REQ_STEP] = "step",
                                                     [PSI_REQ_LEAVE] = "leave",
                                                     [PSI_REQ_CLUSTER] = "cluster",
                                                     [PSI_REQ_LOOK] = "look",
                                                     [PSI_REQ_GOODBYE] = "goodbye",
                                                     [PSI_REQ_INFO] = "info",
                                                     [PSI_REQ_VARS] = "vars",
                                                     [PSI_REQ_CONFIG] = "config",
                                                     [PSI_REQ_SHUTDOWN] = "shutdown",
                                                     [PSI_REQ_PING] = "ping",
                                                     [PSI_REQ_CONTAINERS] = "containers",
                                                     [PSI_REQ_SESSIONS] = "sessions",
                                                     [PSI_REQ_WAITS] = "waits",
                                                     [PSI_REQ_CONFIG_SET] = "config-set",
                                                     [PSI_REQ_CHECKPOINT] = "checkpoint",
                                                     [PSI_REQ_CHECKPOINT_RESTORE] = "checkpoint-restore",
                                                     [PSI_REQ_CALL] = "call",
                                                     [PSI_REQ_TASKS] = "tasks",
                                                     [PSI_REQ_STOP] = "stop",
                                                     [PSI_REQ_STOP_AT] = "stop-at"};
    return (size_t)kind < PSI_REQ_KINDS && names[kind] != NULL ? names[kind] : "?";
}

const char *sim_op_text(const struct sim_op *op, char buf[200])
{
    (void)snprintf(buf, 200, "%s #%llu of '%s' by client%u.%u (digit %u, tag %g, started at event %llu, %s%s%s)",
                   sim_kind_name(op->kind), (unsigned long long)op->id, op->var != NULL ? op->var->name : "", op->program,
                   op->life, op->digit, op->tag, (unsigned long long)op->started_event,
                   op->state == SIM_OP_PENDING  ? "not answered"
                   : op->state == SIM_OP_KILLED ? "client killed"
                                                : ps_status_name(op->status),
                   op->state == SIM_OP_DONE && op->status != PS_OK ? ", " : "",
                   op->state == SIM_OP_DONE && op->status != PS_OK ? psi_applied_name(op->applied) : "");
    return buf;
}

/* Element i as a whole number. */
uint64_t sim_element(struct sim *s, const struct sim_var *v, const void *value, uint64_t i)
{
    if (v->dtype == PS_I64) {
        int64_t x;
        memcpy(&x, (const uint8_t *)value + i * 8, 8);
        return (uint64_t)x;
    }
    double x;
    if (v->dtype == PS_F32) {
        float f;
        memcpy(&f, (const uint8_t *)value + i * 4, 4);
        x = (double)f;
    } else {
        memcpy(&x, (const uint8_t *)value + i * 8, 8);
    }
    if (!(x >= 0 && x < 9e15) || x != (double)(uint64_t)x) {
        sim_fail(s, "'%s': element %llu is %g, which no set of pushes can make", v->name, (unsigned long long)i, x);
    }
    return (uint64_t)x;
}

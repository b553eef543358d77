/* SPDX-License-Identifier: Apache-2.0 */
/* Learning rates that replace those of the optimizers: for one variable, at its task, or for a container, at all tasks. Happy
 * path: one blocking call (call.c) for a variable, or for each of its parts. For a container the directory is asked first: it
 * makes all tasks change the rate of variables in rounds from the same round on. Then all tasks are asked at once. Failure modes:
 * a rate that no optimizer accepts is refused before any request; if a task fails, the others keep the new rate. */
#include "api.h"

#include "common/hash.h"
#include "common/mem.h"
#include "common/name.h"

#include <math.h>
#include <string.h>

static ps_status check_rate(const double *rate, struct psi_err *err)
{
    return rate == NULL || (isfinite(*rate) && *rate > 0)
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "learning rate %g: it must be finite and > 0", *rate);
}

static ps_status to_owner(struct psi_api_call *call, struct psi_err *err)
{
    ps_status st = psi_api_has_var(call->variable, err);
    call->req.task = st == PS_OK ? call->variable->var->owner : 0;
    return st;
}

/* Set the learning rate of one variable, or of one part. rate NULL: return to the rate of the optimizer. */
static ps_status set_one(ps_variable *v, const double *rate, struct psi_err *err)
{
    uint64_t count = 0;
    const struct psi_rate want = {
        .container = v->container, .name = v->name, .rate = rate != NULL ? *rate : 0, .clear = rate == NULL};
    struct psi_api_call call = {.session = v->session,
                                .prepare = to_owner,
                                .variable = v,
                                .req = {.kind = PSI_REQ_SET_RATE, .src = &want, .dst = &count}};
    return psi_api_call_run(&call, err);
}

ps_status ps_variable_set_rate(ps_variable *v, const double *rate)
{
    struct psi_err err = {0};
    ps_status st = v == NULL ? psi_fail(&err, PS_INVALID_ARGUMENT, "the variable is NULL") : check_rate(rate, &err);
    if (st != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    const uint32_t parts = ps_variable_partitions(v);
    for (uint32_t i = 0; st == PS_OK && i < (parts > 0 ? parts : 1); i++) {
        st = set_one(parts > 0 ? v->parts[i] : v, rate, &err);
        if (st != PS_OK && i > 0) {
            psi_err_prefix(&err, "parts 0 to %u of '%s' have the rate, and part %u has not", i - 1, v->name, i);
            err.applied = PS_MAYBE_PARTLY_APPLIED;
        }
    }
    return psi_api_result(&err, st);
}

struct rate_at {
    struct psi_api_call call;
    uint64_t count;
    bool started;
};

/* Set the rate of variables in rounds, at all tasks from the same round on. The directory answers when all tasks have set it. */
static ps_status set_in_rounds(ps_session *s, const struct psi_rate *want, int64_t timeout_ms, struct psi_err *err)
{
    struct psi_rate all = *want;
    const uint64_t start = PSI_FNV1A64_START ^ s->seed ^ (uint64_t)s->pid << 32 ^ psi_io_now_ms();
    all.token = psi_fnv1a64(psi_fnv1a64(start, all.container, strlen(all.container)), &all.rate, sizeof(all.rate)) | 1;
    uint64_t count = 0;
    struct psi_api_call call = {
        .session = s, .timeout_ms = timeout_ms, .req = {.kind = PSI_REQ_SET_RATE_ALL, .src = &all, .dst = &count}};
    return psi_api_call_run(&call, err);
}

static ps_status set_everywhere(ps_session *s, const struct psi_rate *want, int64_t timeout_ms, uint64_t *out_count,
                                struct psi_err *err)
{
    ps_status st = PS_OK;
    uint32_t tasks = s->task_count;
    struct rate_at *of = psi_calloc((size_t)tasks + 1, sizeof(*of));
    if (of == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %u tasks", tasks);
    }
    for (uint32_t i = 0; i < tasks; i++) {
        struct psi_err one = {0};
        of[i].call =
            (struct psi_api_call){.session = s,
                                  .timeout_ms = timeout_ms,
                                  .req = {.kind = PSI_REQ_SET_RATE, .task = s->tasks[i].index, .src = want, .dst = &of[i].count}};
        ps_status started = psi_api_call_start(&of[i].call, &one);
        of[i].started = started == PS_OK;
        if (started != PS_OK && st == PS_OK) {
            st = started;
            *err = one;
        }
    }
    for (uint32_t i = 0; i < tasks; i++) {
        struct psi_err one = {0};
        ps_status ended = of[i].started ? psi_api_call_wait(&of[i].call, &one) : PS_OK;
        if (ended != PS_OK && st == PS_OK) {
            st = ended;
            *err = one;
        }
        *out_count += ended == PS_OK ? of[i].count : 0;
    }
    psi_free(of);
    return st;
}

ps_status ps_set_rates(ps_session *s, const char *container, const double *rate, int64_t timeout_ms, uint64_t *out_variables)
{
    PSI_API_VISIT(s);
    struct psi_err err = {0};
    uint64_t count = 0;
    ps_status st = psi_api_check(s, true, &err);
    st = st == PS_OK && container != NULL ? psi_container_name_check(container, strlen(container), &err) : st;
    st = st == PS_OK ? check_rate(rate, &err) : st;
    st = st == PS_OK ? psi_api_know_tasks(s, timeout_ms, &err) : st;
    if (st != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    const struct psi_rate want = {.container = container != NULL ? container : s->scopes.container,
                                  .rate = rate != NULL ? *rate : 0,
                                  .clear = rate == NULL};
    st = set_in_rounds(s, &want, timeout_ms, &err);
    st = st == PS_OK ? set_everywhere(s, &want, timeout_ms, &count, &err) : st;
    if (st != PS_OK && count > 0) {
        psi_err_prefix(&err, "%llu variables of other tasks have it", (unsigned long long)count);
    } else if (st == PS_OK && count == 0) {
        for (int i = 0; (uint32_t)i < s->task_count; i++) {
            st = ps_task_containers(s, i, timeout_ms, NULL, NULL);
            if (st != PS_OK) {
                return st; /* this task does not answer, but may have such a variable */
            }
        }
        st = psi_fail(&err, PS_NOT_FOUND, "container '%s' has no variable with an optimizer", want.container);
    }
    if (out_variables != NULL) {
        *out_variables = count;
    }
    return psi_api_result(&err, st);
}

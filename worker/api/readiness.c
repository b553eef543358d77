/* SPDX-License-Identifier: Apache-2.0 */
/* Calls about all variables or the whole cluster: find variables without values; wait until variables are ready, tasks are up, or
 * a barrier opens. Happy path: a call sends one request, or one for each variable, many at a time. Failure: the request's error;
 * of several requests the first error, whose text names other tasks with an error of this status. */
#include "api.h"

#include "common/mem.h"

#include <string.h>

enum { STATUS_AT_ONCE = 256 }; /* most STATUS requests in flight at a time, one for each variable */

struct status_of {
    struct psi_api_call call;
    bool started, initialised, failed;
};

/* Copy the session's list of variables, with *out_count entries. The caller frees the copy with psi_free(). NULL: no memory. */
static ps_variable **variables_copy(ps_session *s, size_t *out_count)
{
    size_t count = 0;
    struct psi_list *it;
    (void)pthread_mutex_lock(&s->lock);
    PSI_LIST_FOREACH(it, &s->variables) {
        count++;
    }
    ps_variable **all = psi_calloc(count + 1, sizeof(*all));
    *out_count = 0;
    if (all != NULL) {
        PSI_LIST_FOREACH(it, &s->variables) {
            all[(*out_count)++] = PSI_CONTAINER_OF(it, ps_variable, link);
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
    return all;
}

/* True if an error's text names the task of request i already: one of the requests from .. i - 1 has failed at this task. */
static bool task_named(ps_variable **all, const struct status_of *of, size_t from, size_t i)
{
    for (size_t k = from; k < i; k++) {
        if (of[k].failed && strcmp(all[k]->device, all[i]->device) == 0) {
            return true;
        }
    }
    return false;
}

static ps_status status_of_all(ps_session *s, ps_variable **all, struct status_of *of, size_t count, struct psi_err *err)
{
    ps_status first = PS_OK;
    for (size_t from = 0; from < count && first == PS_OK; from += STATUS_AT_ONCE) {
        size_t to = count - from < STATUS_AT_ONCE ? count : from + STATUS_AT_ONCE;
        for (size_t i = from; i < to && first == PS_OK; i++) {
            of[i].call = (struct psi_api_call){.session = s,
                                               .finish = psi_api_finish_status,
                                               .arg = &of[i].initialised,
                                               .variable = all[i],
                                               .on = all[i],
                                               .req = {.kind = PSI_REQ_STATUS}};
            first = psi_api_call_start(&of[i].call, err);
            of[i].started = first == PS_OK;
        }
        for (size_t i = from; i < to; i++) {
            struct psi_err one = {0};
            ps_status st = of[i].started ? psi_api_call_wait(&of[i].call, &one) : PS_OK;
            if (st != PS_OK && first == PS_OK) {
                first = st;
                *err = one;
            } else if (st == first && st != PS_OK && !task_named(all, of, from, i)) {
                psi_api_likewise(s, all[i]->device, err);
            }
            of[i].failed = st != PS_OK;
        }
    }
    return first;
}

int ps_report_uninitialized(ps_session *s, const char **names, int max)
{
    PSI_API_VISIT(s);
    struct psi_err err = {0};
    if (psi_api_check(s, true, &err) != PS_OK) {
        PSI_IGNORE(psi_api_last_error_set(&err)); /* -1 tells the caller */
        return -1;
    }
    PSI_IGNORE(psi_api_settle(s, true)); /* an error sticks to the session; the variables that were got are checked */
    size_t count = 0;
    ps_variable **all = variables_copy(s, &count);
    struct status_of *of = psi_calloc(count + 1, sizeof(*of));
    int total = 0;
    if (all == NULL || of == NULL) {
        (void)psi_fail(&err, PS_RESOURCE_EXHAUSTED, "out of memory for the list of variables");
        total = -1;
    } else if (status_of_all(s, all, of, count, &err) != PS_OK) {
        total = -1;
    }
    for (size_t i = 0; total >= 0 && i < count; i++) {
        if (!of[i].initialised) {
            if (total < max && names != NULL) {
                names[total] = all[i]->name;
            }
            total++;
        }
    }
    psi_free(of);
    psi_free(all);
    if (total < 0) {
        PSI_IGNORE(psi_api_last_error_set(&err));
    }
    return total;
}

static ps_status plain(ps_session *s, enum psi_request_kind kind, const char *text, int64_t timeout_ms)
{
    struct psi_err err = {0};
    struct psi_api_call call = {
        .session = s, .timeout_ms = timeout_ms, .req = {.kind = kind, .src = text, .bytes = text == NULL ? 0 : strlen(text)}};
    return psi_api_result(&err, psi_api_call_run(&call, &err));
}

ps_status ps_wait_ready(ps_session *s, int64_t timeout_ms)
{
    PSI_API_VISIT(s);
    struct psi_err err = {0};
    if (psi_api_check(s, true, &err) != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    PSI_IGNORE(psi_api_settle(s, true)); /* an error sticks to the session, but the other variables are awaited */
    return plain(s, PSI_REQ_WAIT_READY, NULL, timeout_ms > 0 ? timeout_ms : psi_api_ready_timeout_ms(s));
}

ps_status ps_barrier_within(ps_session *s, const char *name, int count, int64_t timeout_ms)
{
    struct psi_err err = {0};
    struct psi_scoped scoped;
    ps_status st = psi_api_check(s, true, &err);
    if (st == PS_OK && name == NULL) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "the barrier's name is NULL");
    }
    st = st == PS_OK ? psi_api_scope_name(s, name, &scoped, &err) : st;
    if (st == PS_OK) {
        struct psi_barrier b = {.at = {.container = scoped.container, .name = scoped.name}, .count = count};
        struct psi_api_call call = {.session = s, .timeout_ms = timeout_ms, .req = {.kind = PSI_REQ_BARRIER, .src = &b}};
        st = psi_api_call_run(&call, &err);
    }
    return psi_api_result(&err, st);
}

ps_status ps_barrier(ps_session *s, const char *name, int count)
{
    return ps_barrier_within(s, name, count, 0);
}

ps_status ps_session_wait_cluster(ps_session *s, const char *jobs, int64_t timeout_ms)
{
    struct psi_err err = {0};
    if (jobs == NULL) {
        return psi_api_result(&err, psi_fail(&err, PS_INVALID_ARGUMENT, "jobs is NULL"));
    }
    return plain(s, PSI_REQ_WAIT_CLUSTER, jobs, timeout_ms);
}

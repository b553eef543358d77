/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psd_server_set(): one table of what may change while a server runs.
 * Happy path: name and value checked -> on the task's own thread in force at once; else kept and the thread is woken. Failure
 * modes: unknown name (the text lists what there is), value out of range.
 */
#include "server.h"

#include "psd/shell/machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum {
    CONNECTIONS_RESERVE = 64, /* on top of the sessions: psctl, other tasks, connections being replaced */
    DESCRIPTORS_RESERVE = 64  /* the rest of the process */
};

static _Thread_local const psd_server *mine;

static void set_log_level(psd_server *s, int64_t value)
{
    s->log.level = (enum psi_log_level)value;
}

static void set_refuse_nonfinite(psd_server *s, int64_t value)
{
    psd_task_set(s->task, PSD_LIMIT_REFUSE_NONFINITE, (uint64_t)value);
}

static void set_sessions_max(psd_server *s, int64_t value)
{
    s->connections_max = psd_server_connections_max((uint32_t)value);
    psd_task_set(s->task, PSD_LIMIT_SESSIONS, (uint64_t)value);
}

static void set_memory_budget(psd_server *s, int64_t value)
{
    psd_task_set(s->task, PSD_LIMIT_MEMORY, value > 0 ? (uint64_t)value : psd_machine_memory_bytes() / 5 * 4);
}

static void set_session_keep(psd_server *s, int64_t value)
{
    psd_task_set(s->task, PSD_LIMIT_SESSION_KEEP, (uint64_t)value);
}

static void set_drain(psd_server *s, int64_t value)
{
    s->o.drain_ms = value;
}

static const struct {
    const char *name;
    int64_t min, max;
    void (*set)(psd_server *s, int64_t value);
} rows[] = {
    {"log_level", PSI_LOG_DEBUG, PSI_LOG_OFF, set_log_level}, {"refuse_nonfinite", 0, 1, set_refuse_nonfinite},
    {"sessions_max", 1, UINT32_MAX, set_sessions_max},        {"memory_budget_bytes", 0, INT64_MAX, set_memory_budget},
    {"session_keep_ms", 1, INT32_MAX, set_session_keep},      {"drain_ms", 0, INT32_MAX - 1, set_drain},
};
_Static_assert(sizeof(rows) / sizeof(rows[0]) == PSD_SETS, "a place for each row");

void psd_server_sets_init(psd_server *s)
{
    const int64_t now[PSD_SETS] = {
        s->o.log_level,       s->o.refuse_nonfinite ? 1 : 0,
        s->o.sessions_max,    s->o.memory_budget_bytes < INT64_MAX ? (int64_t)s->o.memory_budget_bytes : INT64_MAX,
        s->o.session_keep_ms, s->o.drain_ms};
    memcpy(s->set_now, now, sizeof(now)); /* in the order of rows */
}

void psd_server_is_mine(const psd_server *s)
{
    mine = s;
}

uint32_t psd_server_connections_max(uint32_t sessions_max)
{
    struct rlimit files;
    uint64_t most = (uint64_t)sessions_max + CONNECTIONS_RESERVE;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
        uint64_t room = files.rlim_cur > DESCRIPTORS_RESERVE * 2 ? files.rlim_cur - DESCRIPTORS_RESERVE : files.rlim_cur;
        most = room < most ? room : most;
    }
    return most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

void psd_server_sets_apply(psd_server *s)
{
    struct psd_server_sets sets;
    (void)pthread_mutex_lock(&s->mutex);
    sets = s->sets;
    memset(&s->sets, 0, sizeof(s->sets));
    (void)pthread_mutex_unlock(&s->mutex);
    for (size_t i = 0; i < PSD_SETS; i++) {
        if (sets.given[i]) {
            rows[i].set(s, sets.value[i]);
            s->set_now[i] = sets.value[i];
        }
    }
}

static ps_status find(const char *name, int64_t value, size_t *out_row, struct psi_err *err)
{
    char names[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < PSD_SETS; i++) {
        if (name != NULL && strcmp(rows[i].name, name) == 0) {
            *out_row = i;
            if (value < rows[i].min || value > rows[i].max) {
                return psi_fail(err, PS_INVALID_ARGUMENT, "%s is %lld: it must be between %lld and %lld", name, (long long)value,
                                (long long)rows[i].min, (long long)rows[i].max);
            }
            return PS_OK;
        }
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "", rows[i].name);
    }
    return psi_fail(err, PS_NOT_FOUND, "'%.100s' cannot change while a server runs; what can: %s", name != NULL ? name : "",
                    names);
}

ps_status psd_server_set(psd_server *s, const char *name, int64_t value, char *error, size_t error_bytes)
{
    struct psi_err err = {.code = PS_OK};
    size_t row = 0;
    ps_status st = s != NULL ? find(name, value, &row, &err) : psi_fail(&err, PS_INVALID_ARGUMENT, "the server is NULL");
    if (error != NULL && error_bytes > 0) {
        (void)snprintf(error, error_bytes, "%s", st == PS_OK ? "" : err.text);
    }
    if (st != PS_OK) {
        return st;
    }
    (void)pthread_mutex_lock(&s->mutex);
    s->sets.given[row] = true;
    s->sets.value[row] = value;
    if (s->loop_open) {
        PSI_IGNORE(uv_async_send(&s->wake)); /* fails for closing handles only */
    }
    (void)pthread_mutex_unlock(&s->mutex);
    if (mine == s && s->task != NULL) {
        psd_server_sets_apply(s);
    }
    return PS_OK;
}

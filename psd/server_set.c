/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psd_server_set(): what may change while a server runs; and these settings for clients, where the program has no rows of its
 * own. Happy path: name and value checked -> on the task's own thread in force at once; else kept and the thread is woken.
 * Failure modes: unknown name (the text lists what there is), value out of range.
 */
#include "server.h"

#include "server_config.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum {
    CONNECTIONS_RESERVE = 64, /* on top of the sessions: psctl, other tasks, connections being replaced */
    DESCRIPTORS_RESERVE = 64  /* the rest of the process */
};

static _Thread_local const psd_server *mine;

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
    (void)pthread_mutex_lock(&s->mutex);
    for (enum psd_row i = 0; i < PSD_ROWS; i++) {
        if (s->sets.given[i]) {
            psd_row_copy(i, &s->sets.values, &s->o);
        }
    }
    memset(s->sets.given, 0, sizeof(s->sets.given));
    (void)pthread_mutex_unlock(&s->mutex);
    psd_server_options o = psd_server_config_core(&s->o);
    s->log.level = (enum psi_log_level)o.log_level;
    s->connections_max = psd_server_connections_max(o.sessions_max);
    psi_spin_set(&s->net.spin, o.spin_us);
    psd_task_set(s->task, &o);
}

static ps_status unknown(const char *name, struct psi_err *err)
{
    char names[256] = "";
    size_t used = 0;
    for (enum psd_row i = 0; i < PSD_ROWS; i++) {
        if (psd_row_find(psd_row_field(i), true) == i && used < sizeof(names)) {
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", used > 0 ? ", " : "", psd_row_field(i));
        }
    }
    return psi_fail(err, PS_NOT_FOUND, "'%.100s' cannot change while a server runs; what can: %s", name, names);
}

static ps_status check(psd_server *s, const char *name, int64_t value, enum psd_row *out_row, struct psi_err *err)
{
    psd_server_options aside;
    if (s == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the server is NULL");
    }
    *out_row = psd_row_find(name != NULL ? name : "", true);
    return *out_row < PSD_ROWS ? psd_row_set(*out_row, value, &aside, err) : unknown(name != NULL ? name : "", err);
}

ps_status psd_server_set(psd_server *s, const char *name, int64_t value, char *error, size_t error_bytes)
{
    struct psi_err err = {.code = PS_OK};
    enum psd_row row = PSD_ROWS;
    ps_status st = check(s, name, value, &row, &err);
    if (error != NULL && error_bytes > 0) {
        (void)snprintf(error, error_bytes, "%s", st == PS_OK ? "" : err.text);
    }
    if (st != PS_OK) {
        return st;
    }
    (void)pthread_mutex_lock(&s->mutex);
    s->sets.given[row] = true;
    PSI_IGNORE(psd_row_set(row, value, &s->sets.values, NULL)); /* checked */
    if (s->loop_open) {
        PSI_IGNORE(uv_async_send(&s->wake)); /* fails for closing handles only */
    }
    (void)pthread_mutex_unlock(&s->mutex);
    if (mine == s && s->task != NULL) {
        psd_server_sets_apply(s);
    }
    return PS_OK;
}

/* ---- for clients: live rows of the daemon, with the server's own values ---- */

bool psd_server_row(void *server, uint32_t i, const char **name, const char **value, const char **default_value,
                    const char **help, bool *reloadable)
{
    struct psd_server *s = server;
    uint32_t live = 0;
    for (enum psd_row row = 0; row < PSD_ROWS; row++) {
        psd_row_describe(row, name, default_value, help, reloadable);
        if (*reloadable && live++ == i) {
            *value = psd_row_format(row, &s->o, s->row_text);
            return true;
        }
    }
    return false;
}

ps_status psd_server_row_set(void *server, const char *name, const char *value, char *error, size_t error_bytes)
{
    struct psd_server *s = server;
    struct psi_err err = {.code = PS_OK};
    enum psd_row row = psd_row_find(name, false); /* only names of rows come here */
    psd_server_options o = s->o;
    ps_status st = psd_row_parse(row, value, &o, &err);
    if (st != PS_OK) {
        (void)snprintf(error, error_bytes, "%s", err.text); /* cut is fine */
        return st;
    }
    return psd_server_set(s, psd_row_field(row), psd_row_get(row, &o), error, error_bytes);
}

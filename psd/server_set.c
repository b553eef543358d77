/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that may change while a server runs: psd_server_set(), psd_server_set_text(), and the rows of `psctl config` for a
 * program without its own. Happy path: name and value are checked, and the task's thread puts the value into force, at once or
 * when it is woken. Failure modes: an unknown name (the text lists the names), a value out of range. */
#include "server.h"

#include "server_config.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum {
    CONNECTIONS_RESERVE = 64, /* connections beyond the sessions: psctl, other tasks, and those that are being replaced */
    DESCRIPTORS_RESERVE = 64
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

static ps_status find(const psd_server *s, const char *name, enum psd_row *out_row, struct psi_err *err)
{
    if (s == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the server is NULL");
    }
    *out_row = psd_row_find(name != NULL ? name : "", true);
    return *out_row < PSD_ROWS ? PS_OK : unknown(name != NULL ? name : "", err);
}

/* Give the task a new value of setting `row`. If the task's thread calls, it is in force at once, else when the loop wakes up. */
static void give(psd_server *s, enum psd_row row, const psd_server_options *values)
{
    (void)pthread_mutex_lock(&s->mutex);
    s->sets.given[row] = true;
    psd_row_copy(row, values, &s->sets.values);
    if (s->loop_open) {
        PSI_IGNORE(uv_async_send(&s->wake)); /* fails for closing handles only */
    }
    (void)pthread_mutex_unlock(&s->mutex);
    if (mine == s && s->task != NULL) {
        psd_server_sets_apply(s);
    }
}

static ps_status say(const struct psi_err *err, ps_status st, char *error, size_t error_bytes)
{
    if (error != NULL && error_bytes > 0) {
        (void)snprintf(error, error_bytes, "%s", st == PS_OK ? "" : err->text); /* a cut text is fine */
    }
    return st;
}

ps_status psd_server_set(psd_server *s, const char *name, int64_t value, char *error, size_t error_bytes)
{
    struct psi_err err = {.code = PS_OK};
    enum psd_row row = PSD_ROWS;
    psd_server_options values;
    ps_status st = find(s, name, &row, &err);
    st = st == PS_OK ? psd_row_set(row, value, &values, &err) : st;
    if (st == PS_OK) {
        give(s, row, &values);
    }
    return say(&err, st, error, error_bytes);
}

ps_status psd_server_set_text(psd_server *s, const char *name, const char *text, char *error, size_t error_bytes)
{
    struct psi_err err = {.code = PS_OK};
    enum psd_row row = PSD_ROWS;
    psd_server_options values;
    ps_status st = find(s, name, &row, &err);
    st = st == PS_OK && text == NULL ? psi_fail(&err, PS_INVALID_ARGUMENT, "%s: its text is NULL", name) : st;
    st = st == PS_OK ? psd_row_parse(row, text, &values, &err) : st;
    if (st == PS_OK) {
        give(s, row, &values);
    }
    return say(&err, st, error, error_bytes);
}

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
    if (live++ == i) { /* the last row only tells clients where checkpoints are: this setting cannot change */
        *name = "checkpoint_dir";
        *value = s->checkpoint_dir;
        *default_value = "";
        *help = "Directory for checkpoints, which the program has given; it cannot change while the task runs.";
        *reloadable = false;
        return true;
    }
    return false;
}

ps_status psd_server_row_set(void *server, const char *name, const char *value, char *error, size_t error_bytes)
{
    /* always found: CONFIG_SET refuses names that are not reloadable, and each reloadable setting has a row */
    enum psd_row row = psd_row_find(name, false);
    return psd_server_set_text(server, psd_row_field(row), value, error, error_bytes);
}

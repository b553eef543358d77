/* SPDX-License-Identifier: Apache-2.0 */
/* `psctl config set` and SIGHUP in the daemon: settings that may change while a task runs (PSD_SERVER_SETTINGS).
 *
 * Happy path: the text is parsed as on the command line, and turned into the value for one task. psd_server_set_text() gets this
 * value, and live->now keeps it for `psctl config`. The configuration file is not written, so a restart has the old value.
 * Failure: nothing has changed. */
#include "live.h"

#include <stdio.h>
#include <string.h>

void psd_live_init(struct psd_live *live, const struct psd_settings *settings, uint64_t machine_share_bytes)
{
    *live = (struct psd_live){.settings = settings,
                              .machine_share_bytes = machine_share_bytes,
                              .lock = PTHREAD_MUTEX_INITIALIZER,
                              .now = settings->server};
    memcpy(live->allow, settings->allow, sizeof(live->allow));
}

bool psd_live_row(struct psd_live *live, uint32_t i, const char **name, const char **value, const char **default_value,
                  const char **help, bool *reloadable)
{
    if (!psd_settings_row(live->settings, i, name, value, default_value, help, reloadable)) {
        return false;
    }
    if (*reloadable) {
        (void)pthread_mutex_lock(&live->lock);
        if (psd_settings_is_allow(i)) {
            memcpy(live->shown, live->allow, sizeof(live->shown));
            *value = live->shown;
        } else {
            *value = psd_row_format(psd_settings_number(i), &live->now, live->shown);
        }
        (void)pthread_mutex_unlock(&live->lock);
    }
    return true;
}

/* Write the value of `row` for one task (of the memory budget: the task's share) into text [PSD_ROW_TEXT_BYTES]. Returns text. */
static const char *of_one_task(const struct psd_live *live, enum psd_row row, const psd_server_options *now, char *text)
{
    psd_server_options one = *now;
    uint64_t of_all = now->memory_budget_bytes;
    one.memory_budget_bytes = of_all == 0 ? live->machine_share_bytes : of_all / live->settings->task_count;
    return psd_row_format(row, &one, text);
}

/* Set the value of setting `row` at the server, and keep the value in live->now. The caller holds the lock. */
static ps_status set(struct psd_live *live, psd_server *server, enum psd_row row, const char *value, struct psi_err *err)
{
    char error[PSI_ERR_TEXT_MAX], text[PSD_ROW_TEXT_BYTES];
    psd_server_options now = live->now;
    ps_status st = psd_row_parse(row, value, &now, err);
    if (st != PS_OK) {
        return st;
    }
    st = psd_server_set_text(server, psd_row_field(row), of_one_task(live, row, &now, text), error, sizeof(error));
    if (st != PS_OK) {
        return psi_fail(err, st, "%s", error);
    }
    live->now = now;
    return PS_OK;
}

/* As psd_live_reload(). before [PSD_ROW_TEXT_BYTES]: gets the old rows of rights, cut if they are too long; NULL: not wanted. */
static ps_status reload_rights(struct psd_live *live, psd_server *server, const char *allow, char *before, char *error,
                               size_t error_bytes)
{
    if (allow != NULL && strlen(allow) > PSD_ALLOW_BYTES_MAX) {
        (void)snprintf(error, error_bytes, "allow: more than %d bytes", PSD_ALLOW_BYTES_MAX);
        return PS_INVALID_ARGUMENT;
    }
    (void)pthread_mutex_lock(&live->lock);
    if (before != NULL) {
        (void)snprintf(before, PSD_ROW_TEXT_BYTES, "%s", live->allow);
    }
    ps_status st = psd_server_reload(server, allow, error, error_bytes);
    if (st == PS_OK && allow != NULL) {
        memcpy(live->allow, allow, strlen(allow) + 1);
    }
    (void)pthread_mutex_unlock(&live->lock);
    return st;
}

ps_status psd_live_reload(struct psd_live *live, psd_server *server, const char *allow, char *error, size_t error_bytes)
{
    return reload_rights(live, server, allow, NULL, error, error_bytes);
}

ps_status psd_live_set(struct psd_live *live, psd_server *server, const char *name, const char *value, char *old, char *error,
                       size_t error_bytes)
{
    struct psi_err err = {.code = PS_OK};
    char before[PSD_ROW_TEXT_BYTES];
    enum psd_row row = psd_row_find(name, false);
    if (strcmp(name, "allow") == 0) {
        return reload_rights(live, server, value, old, error, error_bytes);
    }
    (void)pthread_mutex_lock(&live->lock);
    psd_server_options was = live->now;
    ps_status st =
        row < PSD_ROWS ? set(live, server, row, value, &err) : psi_fail(&err, PS_FAILED_PRECONDITION, "%s takes a restart", name);
    (void)pthread_mutex_unlock(&live->lock);
    if (st != PS_OK) {
        (void)snprintf(error, error_bytes, "%s", err.text);
    } else {
        (void)psd_row_format(row, &was, old != NULL ? old : before);
    }
    return st;
}

int64_t psd_live_drain_ms(struct psd_live *live)
{
    (void)pthread_mutex_lock(&live->lock);
    int64_t drain_ms = live->now.drain_ms;
    (void)pthread_mutex_unlock(&live->lock);
    return drain_ms;
}

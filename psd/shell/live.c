/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `psctl config set` and SIGHUP in the daemon: rows of settings.c that have a counterpart in psd_server_set().
 *
 * Happy path: the value is read as the flag's would be -> converted to what one task takes -> psd_server_set() -> its text is
 * kept for `psctl config`. The file is not written: a restart has the old value. Failure: nothing has changed.
 */
#include "live.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;   /* of the setting */
    const char *option; /* of psd_server_options */
} rows[] = {
    {"log_level", "log_level"},          {"refuse_nonfinite", "refuse_nonfinite"},
    {"sessions_max", "sessions_max"},    {"memory_budget", "memory_budget_bytes"},
    {"session_keep", "session_keep_ms"}, {"drain", "drain_ms"},
};
_Static_assert(sizeof(rows) / sizeof(rows[0]) == PSD_LIVE_ROWS, "a text for each row");

static size_t find(const char *name)
{
    size_t i = 0;
    while (i < PSD_LIVE_ROWS && strcmp(rows[i].name, name) != 0) {
        i++;
    }
    return i;
}

void psd_live_init(struct psd_live *live, const struct psd_settings *settings, uint64_t machine_share_bytes)
{
    const char *name = NULL, *value = NULL, *rest = NULL;
    bool reloadable = false;
    memset(live, 0, sizeof(*live));
    live->settings = settings;
    live->machine_share_bytes = machine_share_bytes;
    live->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    atomic_init(&live->drain_ms, settings->drain_ms);
    for (uint32_t i = 0; psd_settings_row(settings, i, &name, &value, &rest, &rest, &reloadable); i++) {
        size_t row = find(name);
        if (row < PSD_LIVE_ROWS) {
            (void)snprintf(live->text[row], sizeof(live->text[row]), "%s", value); /* numbers and choices: they fit */
        }
    }
}

bool psd_live_row(struct psd_live *live, uint32_t i, const char **name, const char **value, const char **default_value,
                  const char **help, bool *reloadable)
{
    if (!psd_settings_row(live->settings, i, name, value, default_value, help, reloadable)) {
        return false;
    }
    size_t row = find(*name);
    if (row < PSD_LIVE_ROWS) {
        (void)pthread_mutex_lock(&live->lock);
        memcpy(live->shown, live->text[row], sizeof(live->shown));
        (void)pthread_mutex_unlock(&live->lock);
        *value = live->shown;
    }
    return true;
}

/* The budget is that of all tasks of this process: a task gets its share. */
static int64_t of_one_task(const struct psd_live *live, const char *name, int64_t value)
{
    if (strcmp(name, "memory_budget") != 0) {
        return value;
    }
    return value == 0 ? (int64_t)live->machine_share_bytes : value / (int64_t)live->settings->task_count;
}

ps_status psd_live_set(struct psd_live *live, psd_server *server, const char *name, const char *value, char *old, char *error,
                       size_t error_bytes)
{
    struct psi_err err = {.code = PS_OK};
    char text[PSD_LIVE_TEXT_BYTES];
    int64_t number = 0;
    size_t row = find(name);
    ps_status st = row < PSD_LIVE_ROWS ? psd_settings_parse(name, value, &number, text, sizeof(text), &err)
                                       : psi_fail(&err, PS_FAILED_PRECONDITION, "%s takes a restart", name);
    if (st != PS_OK) {
        (void)snprintf(error, error_bytes, "%s", err.text); /* cut is fine */
        return st;
    }
    (void)pthread_mutex_lock(&live->lock);
    st = psd_server_set(server, rows[row].option, of_one_task(live, name, number), error, error_bytes);
    if (st == PS_OK) {
        if (old != NULL) {
            memcpy(old, live->text[row], sizeof(text));
        }
        memcpy(live->text[row], text, sizeof(text));
        if (strcmp(name, "drain") == 0) {
            atomic_store(&live->drain_ms, number);
        }
    }
    (void)pthread_mutex_unlock(&live->lock);
    return st;
}

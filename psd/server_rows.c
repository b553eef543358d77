/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings that a server shows and lets clients change when its program has no rows of its own (psd_server_options): those of
 * psd_server_set(), under the names and with the texts that they have in the daemon.
 *
 * Happy path: row i is the i-th live row of settings.c with the server's own value; a new value is read as the daemon reads
 * it and goes through psd_server_set(). Failure: INVALID_ARGUMENT that says what is allowed; nothing has changed.
 */
#include "server.h"

#include "psd/settings/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;   /* of the setting */
    const char *option; /* of psd_server_set() */
} names[] = {
    {"log_level", "log_level"},          {"refuse_nonfinite", "refuse_nonfinite"},
    {"sessions_max", "sessions_max"},    {"memory_budget", "memory_budget_bytes"},
    {"session_keep", "session_keep_ms"}, {"drain", "drain_ms"},
};
_Static_assert(sizeof(names) / sizeof(names[0]) == PSD_SETS, "a name for each that can be set");

static size_t find(const char *name)
{
    size_t i = 0;
    while (i < PSD_SETS && strcmp(names[i].name, name) != 0) {
        i++;
    }
    return i;
}

/* As a user would write it; a value that the daemon would not take stays a number. */
static void write_value(const char *name, const char *option, int64_t value, char *text, size_t n)
{
    static const char *const levels[] = {"debug", "info", "warn", "error", "off"}; /* enum psi_log_level */
    struct psi_err err;
    char raw[PSD_ROW_BYTES];
    size_t len = strlen(option);
    int64_t again = 0;
    if (strcmp(option, "log_level") == 0 && value >= 0 && value <= PSI_LOG_OFF) {
        (void)snprintf(text, n, "%s", levels[value]);
        return;
    }
    (void)snprintf(raw, sizeof(raw), "%" PRId64 "%s", value, strcmp(option + len - 3, "_ms") == 0 ? "ms" : "");
    if (psd_settings_parse(name, raw, &again, text, n, &err) != PS_OK || again != value) {
        (void)snprintf(text, n, "%s", raw);
    }
}

bool psd_server_row(void *server, uint32_t i, const char **name, const char **value, const char **default_value,
                    const char **help, bool *reloadable)
{
    struct psd_server *s = server;
    uint32_t live = 0;
    for (uint32_t row = 0; psd_settings_row(NULL, row, name, value, default_value, help, reloadable); row++) {
        size_t at = *reloadable ? find(*name) : PSD_SETS;
        if (at < PSD_SETS && live++ == i) {
            write_value(*name, names[at].option, s->set_now[at], s->row_text, sizeof(s->row_text));
            *value = s->row_text;
            return true;
        }
    }
    return false;
}

ps_status psd_server_row_set(void *server, const char *name, const char *value, char *error, size_t error_bytes)
{
    struct psi_err err = {.code = PS_OK};
    char text[PSD_ROW_BYTES];
    int64_t number = 0;
    ps_status st = psd_settings_parse(name, value, &number, text, sizeof(text), &err);
    if (st != PS_OK) {
        (void)snprintf(error, error_bytes, "%s", err.text); /* cut is fine */
        return st;
    }
    return psd_server_set(server, names[find(name)].option, number, error, error_bytes); /* only names of rows come here */
}

/* SPDX-License-Identifier: Apache-2.0 */
/* SIGHUP: read the file of --config again. The flags and the TF_CONFIG of the start have precedence.
 *
 * Happy path: everything is read and checked as at the start. A setting whose row in the file has changed is set at every task,
 * if it may change while tasks run; otherwise the log says that it needs a restart. Two settings keep their value: one from a
 * flag or TF_CONFIG, and one that `psctl config set` changed and whose row is unchanged. Key files, certificates and rights are
 * read again, too. One log line sums up. Failure: no --config, a pipe, a missing file, or one wrong row, also of keys and rights:
 * a log line says why, and nothing has changed. */
#include "reload.h"

#include "common/options.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct counts {
    unsigned set, kept, restart;
};

static void set_row(const struct psd_reload *r, const char *name, const char *value)
{
    for (uint32_t i = 0; i < r->count; i++) {
        char old[PSD_ROW_TEXT_BYTES], error[PSI_ERR_TEXT_MAX];
        if (psd_server_has_ended(r->servers[i])) {
            continue;
        }
        if (psd_live_set(r->lives[i], r->servers[i], name, value, old, error, sizeof(error)) == PS_OK) {
            psi_log_event(&r->log, PSI_LOG_INFO, "config_set", PSI_KV("task", psd_server_name(r->servers[i])),
                          PSI_KV("file", r->settings->config), PSI_KV("name", name), PSI_KV("old", old), PSI_KV("new", value));
        } else { /* cannot happen: the value was checked before */
            psi_log_event(&r->log, PSI_LOG_ERROR, "config_not_read", PSI_KV("task", psd_server_name(r->servers[i])),
                          PSI_KV("name", name), PSI_KV("msg", error));
        }
    }
}

static void compare(const struct psd_reload *r, const struct psd_settings *fresh, struct counts *counts)
{
    const struct psd_settings *s = r->settings;
    const char *name = NULL, *value = NULL, *rest = NULL;
    bool reloadable = false;
    for (uint32_t i = 0; psd_settings_row(fresh, i, &name, &value, &rest, &rest, &reloadable); i++) {
        bool changed = strcmp(fresh->in_file[i], s->in_file[i]) != 0;
        if (psd_settings_is_allow(i) && fresh->from[i] <= PSI_FROM_FILE) {
            counts->set += changed ? 1 : 0; /* read_keys() has set `allow` at the tasks already */
        } else if (fresh->from[i] > PSI_FROM_FILE) {
            if (changed) {
                counts->kept++;
                psi_log_event(&r->log, PSI_LOG_WARN, "config_kept", PSI_KV("file", s->config), PSI_KV("name", name),
                              PSI_KV("in_file", fresh->in_file[i]),
                              PSI_KV("msg", fresh->from[i] == PSI_FROM_FLAG ? "its flag counts more" : "TF_CONFIG counts more"));
            }
        } else if (reloadable && changed) {
            counts->set++;
            set_row(r, name, value);
        } else if (!reloadable && strcmp(value, s->value[i]) != 0) {
            counts->restart++;
            psi_log_event(&r->log, PSI_LOG_WARN, "config_restart", PSI_KV("file", s->config), PSI_KV("name", name),
                          PSI_KV("old", s->value[i]), PSI_KV("new", value), PSI_KV("msg", "it takes a restart"));
        }
    }
}

static ps_status read_again(const struct psd_reload *r, struct psd_settings **out_fresh, struct psi_err *err)
{
    const char *config = r->settings->config;
    struct stat file;
    if (config[0] == '\0') {
        return psi_fail(err, PS_FAILED_PRECONDITION, "psd was started without --config: there is no file to read again");
    }
    if (stat(config, &file) == 0 && !S_ISREG(file.st_mode)) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "%s is no regular file: it can be read once only", config);
    }
    return psd_settings_read(r->argc, r->argv, getenv("TF_CONFIG"), out_fresh, err);
}

/* The rows of rights that a start would use. They also replace rows from `psctl config set`, which may lock everybody out. */
static const char *rows_of(const struct psd_settings *s)
{
    const bool of_roles = s->key_file[0] != '\0' && s->rights_file[0] == '\0';
    return s->allow_given || of_roles ? s->allow : "";
}

/* Read keys, certificates and rights again. All tasks read the same files, so if one is wrong the first task refuses it, and
 * nothing has changed. */
static ps_status read_keys(const struct psd_reload *r, const char *allow, struct psi_err *err)
{
    for (uint32_t i = 0; i < r->count; i++) {
        char error[PSI_ERR_TEXT_MAX];
        ps_status st = psd_server_has_ended(r->servers[i])
                           ? PS_OK
                           : psd_live_reload(r->lives[i], r->servers[i], allow, error, sizeof(error));
        if (st != PS_OK) {
            return psi_fail(err, st, "%s", error);
        }
    }
    return PS_OK;
}

void psd_reload(struct psd_reload *r)
{
    struct psd_settings *fresh = NULL;
    struct psi_err err = {.code = PS_OK};
    struct counts counts = {.set = 0};
    const struct psd_settings *s = r->settings;
    if (s->config[0] == '\0' && (s->key_file[0] != '\0' || s->tls_cert[0] != '\0' || s->rights_file[0] != '\0')) {
        if (read_keys(r, rows_of(s), &err) != PS_OK) { /* on success each task logs keys_read */
            psi_log_event(&r->log, PSI_LOG_WARN, "keys_not_read", PSI_KV("msg", err.text));
        }
        return;
    }
    ps_status st = read_again(r, &fresh, &err);
    st = st == PS_OK ? read_keys(r, rows_of(fresh), &err) : st;
    if (st != PS_OK) {
        psi_log_event(&r->log, PSI_LOG_WARN, "config_not_read", PSI_KV("msg", err.text));
        psd_settings_free(fresh);
        return;
    }
    enum psi_log_level level = (enum psi_log_level)fresh->server.log_level;
    r->log.level = level < r->log.level ? level : r->log.level; /* the summary is logged if the old or the new level wants it */
    compare(r, fresh, &counts);
    psi_log_event(&r->log, PSI_LOG_INFO, "config_read", PSI_KV("file", r->settings->config), PSI_KV("set", counts.set),
                  PSI_KV("kept", counts.kept), PSI_KV("restart", counts.restart));
    r->log.level = level;
    for (size_t i = 0; i < PSD_SETTINGS; i++) {
        char *before = r->settings->in_file[i];
        r->settings->in_file[i] = fresh->in_file[i];
        fresh->in_file[i] = before;
    }
    psd_settings_free(fresh);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psctl config: the settings that tasks run with, all or one; all tasks or one. config set is in cmd_config_set.c.
 * Failure modes: a task that does not answer is left out and named, exit 1; no such setting: the nearest one is named, exit 1;
 * a task of another program than psd has none: said, which is no failure where all were asked for.
 */
#include "config.h"

#include <string.h>

enum { COLUMNS = 5 };

static void each_row(void *ctx, const ps_config_info *info)
{
    struct settings_seen *s = ctx;
    struct out_table *table = s->table;
    if (!settings_wanted(s, info)) {
        return;
    }
    out_cell(table, "%s", info->name);
    out_cell(table, "%s", info->value[0] == '\0' ? "\"\"" : info->value);
    out_cell(table, "%s", info->default_value[0] == '\0' ? "\"\"" : info->default_value);
    out_cell(table, "%s", info->reloadable ? "yes" : "no");
    out_cell(table, "%s", info->help);
}

static void each_json(void *ctx, const ps_config_info *info)
{
    if (!settings_wanted(ctx, info)) {
        return;
    }
    out_json_object(NULL);
    out_json_text("name", info->name);
    out_json_text("value", info->value);
    out_json_text("default", info->default_value);
    out_json_bool("live", info->reloadable);
    out_json_text("help", info->help);
    out_json_end();
}

static bool print_task(struct psctl *c, int i, const char *only)
{
    static const char *const headings[COLUMNS] = {"SETTING", "VALUE", "DEFAULT", "LIVE", "MEANING"};
    const char *name = ps_cluster_task_name(c->session, i);
    struct settings_seen s = {.only = only};
    struct out_table table;
    ps_status st = PS_OK;
    if (c->json) {
        out_json_object(NULL);
        out_json_text("name", name);
        out_json_list("settings");
        st = ps_task_config(c->session, i, psctl_left_ms(c), each_json, &s);
        out_json_end();
        if (st != PS_OK) {
            out_json_text("error", ps_last_error());
        }
        out_json_end();
    } else {
        s.table = &table;
        out_table_init(&table, COLUMNS, 0, headings);
        st = ps_task_config(c->session, i, psctl_left_ms(c), each_row, &s);
        if (s.found) {
            (void)printf("%s (%s)\n", name, c->infos[i].address);
            out_table_print(&table);
        } else {
            out_table_free(&table);
        }
    }
    if (st != PS_OK) {
        (void)fprintf(stderr, "psctl: %s: %s\n", name, ps_last_error());
    } else if (!s.found) {
        settings_say_none(&s, name);
    }
    return st == PS_OK && (s.found || only == NULL); /* no settings at all: so it is */
}

static enum psctl_exit config_show(struct psctl *c, const char *task, const char *only_name)
{
    bool failed = false;
    int only = -1;
    enum psctl_exit code = psctl_begin(c);
    if (code != PSCTL_OK) {
        return code;
    }
    if (!psctl_only_task(c, task, &only)) {
        return PSCTL_USAGE;
    }
    if (c->json) {
        out_json_object(NULL);
        out_json_list("tasks");
    }
    for (int i = 0; i < c->task_count; i++) {
        if (c->infos[i].up && (only < 0 || only == i)) {
            failed = !print_task(c, i, only_name) || failed;
        }
    }
    if (c->json) {
        out_json_end();
        out_json_end();
    }
    (void)fflush(stdout); /* the tables before the reasons; errors show at the end */
    return psctl_all_up(c, only) && !failed ? PSCTL_OK : PSCTL_FAILED;
}

enum psctl_exit psctl_config(struct psctl *c)
{
    bool get = c->argc > 0 && strcmp(c->argv[0], "get") == 0;
    bool set = c->argc > 0 && strcmp(c->argv[0], "set") == 0;
    bool task = c->argc > 0 && strchr(c->argv[0], ':') != NULL;
    int most = set ? 3 : get ? 2 : task ? 1 : 0;
    if (c->argc > most || (set && c->argc < 3) || (task && c->task != NULL)) {
        return psctl_misused(c, "config takes a task, get [NAME], or set NAME VALUE; see psctl config --help");
    }
    return set ? config_set(c, c->argv[1], c->argv[2])
               : config_show(c, task ? c->argv[0] : c->task, get && c->argc == 2 ? c->argv[1] : NULL);
}

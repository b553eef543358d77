/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psctl config: the settings that tasks run with, all or one; all tasks or one.
 * Failure modes: a task that does not answer is left out and named, exit 1; no such setting: the nearest one is named, exit 1.
 */
#include "psctl.h"

#include <string.h>

enum { COLUMNS = 5, SETTINGS_MAX = 128 };

/* One task's settings as they come. */
struct settings {
    const char *only; /* NULL: all */
    bool found;
    struct out_table table;
    char names[SETTINGS_MAX][64]; /* to find the nearest */
    size_t count;
};

static bool wanted(struct settings *s, const ps_config_info *info)
{
    bool is = s->only == NULL || strcmp(s->only, info->name) == 0;
    s->found = s->found || is;
    if (s->count < SETTINGS_MAX) {
        (void)snprintf(s->names[s->count++], sizeof(s->names[0]), "%s", info->name);
    }
    return is;
}

static void each_row(void *ctx, const ps_config_info *info)
{
    struct settings *s = ctx;
    struct out_table *table = &s->table;
    if (!wanted(s, info)) {
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
    if (!wanted(ctx, info)) {
        return;
    }
    json_object(NULL);
    json_text("name", info->name);
    json_text("value", info->value);
    json_text("default", info->default_value);
    json_bool("live", info->reloadable);
    json_text("help", info->help);
    json_end();
}

static void no_setting(const char *task, const char *name, char (*names)[64], size_t count)
{
    const char *list[SETTINGS_MAX];
    for (size_t i = 0; i < count; i++) {
        list[i] = names[i];
    }
    const char *near = psctl_nearest(name, list, count);
    (void)fprintf(stderr, "psctl: %s has no setting '%.100s'%s%s%s; psctl config lists them\n", task, name,
                  near != NULL ? " (did you mean " : "", near != NULL ? near : "", near != NULL ? "?)" : "");
}

static bool print_task(struct psctl *c, int i, const char *only)
{
    static const char *const headings[COLUMNS] = {"SETTING", "VALUE", "DEFAULT", "LIVE", "MEANING"};
    const char *name = ps_cluster_task_name(c->session, i);
    struct settings s = {.only = only};
    ps_status st = PS_OK;
    if (c->json) {
        json_object(NULL);
        json_text("name", name);
        json_list("settings");
        st = ps_task_config(c->session, i, psctl_left_ms(c), each_json, &s);
        json_end();
        if (st != PS_OK) {
            json_text("error", ps_last_error());
        }
        json_end();
    } else {
        (void)printf("%s (%s)\n", name, c->infos[i].address);
        out_table_init(&s.table, COLUMNS, 0, headings);
        st = ps_task_config(c->session, i, psctl_left_ms(c), each_row, &s);
        out_table_print(&s.table);
    }
    if (st != PS_OK) {
        (void)fprintf(stderr, "psctl: %s: %s\n", name, ps_last_error());
    } else if (!s.found) {
        no_setting(name, only, s.names, s.count);
    }
    return st == PS_OK && s.found;
}

static enum psctl_exit show(struct psctl *c, const char *task, const char *only_name)
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
        json_object(NULL);
        json_list("tasks");
    }
    for (int i = 0; i < c->task_count; i++) {
        if (c->infos[i].up && (only < 0 || only == i)) {
            failed = !print_task(c, i, only_name) || failed;
        }
    }
    if (c->json) {
        json_end();
        json_end();
    }
    (void)fflush(stdout); /* the tables before the reasons; errors show at the end */
    return psctl_all_up(c, only) && !failed ? PSCTL_OK : PSCTL_FAILED;
}

enum psctl_exit psctl_config(struct psctl *c)
{
    bool get = c->argc > 0 && strcmp(c->argv[0], "get") == 0;
    bool task = c->argc > 0 && (strchr(c->argv[0], ':') != NULL);
    if (get ? c->argc > 2 : (c->argc > 0 && !task) || c->argc > 1 || (task && c->task != NULL)) {
        (void)fprintf(stderr, "psctl: config takes get [NAME], or a task; see psctl config --help\n");
        return PSCTL_USAGE;
    }
    return show(c, task ? c->argv[0] : c->task, get && c->argc == 2 ? c->argv[1] : NULL);
}

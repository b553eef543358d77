/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psctl config: the settings that tasks run with, all or one; all tasks or one. config set is in cmd_config_set.c.
 * Failure modes: a task that does not answer is left out and named, exit 1; no such setting: the nearest one is named, exit 1;
 * a task of another program than psd has none: said, which is no failure where all were asked for.
 */
#include "config.h"

#include <string.h>

enum { COLUMNS = 5, COLUMNS_OF_ONE = 6 };

static void each_row(void *ctx, const ps_config_info *info)
{
    struct settings_seen *s = ctx;
    struct out_table *table = s->table;
    if (!settings_wanted(s, info)) {
        return;
    }
    if (s->only != NULL) {
        out_cell(table, "%s", s->task);
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

/* One task's settings, or the one that is looked for; what fails is said behind all of them. */
static void ask_task(struct psctl *c, int i, struct settings_seen *s)
{
    s->found = false;
    s->count = 0;
    s->task = ps_cluster_task_name(c->session, i);
    if (ps_task_config(c->session, i, psctl_left_ms(c), c->json ? each_json : each_row, s) != PS_OK) {
        psctl_task_failed(c, i);
    }
}

static void print_json(struct psctl *c, int i, struct settings_seen *s)
{
    out_json_object(NULL);
    out_json_text("name", ps_cluster_task_name(c->session, i));
    out_json_list("settings");
    ask_task(c, i, s);
    out_json_end();
    out_json_end();
}

/* All settings of one task. */
static void print_table(struct psctl *c, int i, struct settings_seen *s)
{
    static const char *const headings[COLUMNS] = {"SETTING", "VALUE", "DEFAULT", "LIVE", "MEANING"};
    out_table_init(s->table, COLUMNS, 0, headings);
    ask_task(c, i, s);
    if (s->found) {
        (void)printf("%s (%s)\n", s->task, c->infos[i].address);
        out_table_print(s->table, &c->room);
    } else {
        out_table_free(s->table);
    }
}

/* false: a task has no such setting; one that has none at all is no failure where all were asked for. */
static bool print_tasks(struct psctl *c, int only, struct settings_seen *s)
{
    bool found = true;
    for (int i = 0; i < c->task_count; i++) {
        if (!c->infos[i].up || !psctl_is_meant(only, i)) {
            continue;
        }
        if (c->json) {
            print_json(c, i, s);
        } else if (s->only != NULL) {
            ask_task(c, i, s);
        } else {
            print_table(c, i, s);
        }
        if (c->infos[i].up && !s->found) {
            settings_say_none(s, s->task);
            found = found && s->only == NULL;
        }
    }
    return found;
}

static enum psctl_exit config_show(struct psctl *c, const char *task, const char *only_name)
{
    static const char *const headings[COLUMNS_OF_ONE] = {"TASK", "SETTING", "VALUE", "DEFAULT", "LIVE", "MEANING"};
    struct out_table table;
    struct settings_seen s = {.only = only_name, .table = &table};
    bool one_table = only_name != NULL && !c->json;
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
    } else if (one_table) {
        out_table_init(&table, COLUMNS_OF_ONE, 0, headings);
    }
    bool found = print_tasks(c, only, &s);
    if (c->json) {
        out_json_end();
        out_json_down(c, only);
        out_json_end();
    } else if (one_table && table.count > COLUMNS_OF_ONE) {
        out_table_print(&table, &c->room);
    } else if (one_table) {
        out_table_free(&table);
    }
    (void)fflush(stdout); /* the tables before the reasons; errors show at the end */
    return psctl_all_up(c, only) && found ? PSCTL_OK : PSCTL_FAILED;
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

/* SPDX-License-Identifier: Apache-2.0 */
/* psctl config: the settings of all tasks or of one task; all settings or one. config set is in cmd_config_set.c. Failure modes,
 * exit 1: a task that does not answer is left out and named; there is no such setting, and the nearest name is printed. A task of
 * another program than psd has no settings: that is printed, and is a failure only if a setting was named. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

struct row {
    const char *task;
    struct setting s;
};

static const char *or_quotes(const char *text)
{
    return text[0] == '\0' ? "\"\"" : text;
}

static const char *value_cell(const void *row, char *buf, size_t n)
{
    (void)snprintf(buf, n, "%s", or_quotes(((const struct row *)row)->s.value));
    return buf;
}

static const char *default_cell(const void *row, char *buf, size_t n)
{
    (void)snprintf(buf, n, "%s", or_quotes(((const struct row *)row)->s.default_value));
    return buf;
}

#define FIELD(kind_, field_) CLI_FIELD(kind_, struct row, field_)
/* TASK is shown only if several tasks are asked for one setting */
static const struct cli_column columns[] = {
    {"TASK", NULL, FIELD(CLI_STRING, task)},
    {"SETTING", "name", FIELD(CLI_TEXT, s.name)},
    {"VALUE", "value", FIELD(CLI_TEXT, s.value), .cell = value_cell},
    {"DEFAULT", "default", FIELD(CLI_TEXT, s.default_value), .cell = default_cell},
    {"LIVE", "live", FIELD(CLI_BOOL, s.live)},
    {"MEANING", "help", FIELD(CLI_TEXT, s.help)},
};

static void begin_list(struct cli_list *list, const char *name, bool json)
{
    size_t first = name == NULL ? 1 : 0;
    cli_list_begin(list, "settings", columns + first, CLI_COUNT(columns) - first, json);
}

static size_t add_rows(struct cli_list *list, const struct settings *all, const char *task, const char *name)
{
    size_t before = list->count;
    for (size_t k = 0; k < all->count; k++) {
        if (name == NULL || strcmp(name, all->at[k].name) == 0) {
            cli_list_add(list, &(struct row){.task = task, .s = all->at[k]});
        }
    }
    return list->count - before;
}

/* Print the settings of each task, as a table or JSON object. name NULL: all settings; returns true. Otherwise setting `name`
 * only, in one table for all tasks; returns false if a task that answered lacks the setting. */
static bool print_tasks(struct psctl *c, int only, const char *name, struct cli_list *list)
{
    struct settings all = {.count = 0};
    bool own_table = c->json || name == NULL;
    bool found = true;
    for (int i = -1; psctl_next(c, only, &i);) {
        const char *task = ps_cluster_task_name(c->session, i);
        bool answered = psctl_heard(c, i, settings_ask(c, i, &all));
        if (c->json) {
            cli_json_object(NULL);
            cli_json_put("name", json_string(task));
        }
        if (own_table) {
            begin_list(list, name, c->json);
        }
        size_t shown = add_rows(list, &all, task, name);
        if (c->json) {
            cli_list_end(list, &c->room);
            cli_json_end();
        } else if (own_table && shown > 0) {
            (void)printf("%s (%s)\n", task, c->infos[i].address);
            cli_list_end(list, &c->room);
        } else if (own_table) {
            cli_table_free(&list->table);
        }
        if (answered && shown == 0) {
            settings_say_none(&all, task, name);
            found = found && name == NULL;
        }
    }
    free(all.at);
    return found;
}

static enum psctl_exit config_show(struct psctl *c, const char *task, const char *name)
{
    struct cli_list list;
    bool one_table = name != NULL && !c->json;
    int only = -1;
    enum psctl_exit code = psctl_begin(c);
    if (code != PSCTL_OK) {
        return code;
    }
    if (!psctl_only_task(c, task, &only)) {
        return PSCTL_USAGE;
    }
    psctl_answer(c);
    if (c->json) {
        cli_json_list("tasks");
    } else if (one_table) {
        begin_list(&list, name, false);
    }
    bool found = print_tasks(c, only, name, &list);
    if (c->json) {
        cli_json_end();
    } else if (one_table && list.count > 0) {
        cli_list_end(&list, &c->room);
    } else if (one_table) {
        cli_table_free(&list.table);
    }
    psctl_down(c, only);
    psctl_answer_end(c);
    return psctl_all_up(c, only) && found ? PSCTL_OK : PSCTL_FAILED;
}

static enum psctl_exit run_config(struct psctl *c)
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

const struct psctl_verb psctl_verb_config = {
    .name = "config",
    .look = "config",
    .arguments = "[get [NAME] | set NAME VALUE]",
    .summary = "settings of the tasks",
    .args_max = 3,
    .flags = PSCTL_FLAG(TASK),
    .words = "get set task",
    .run = run_config,
    .help = "Value and default of every setting that the tasks run with, or of NAME. set changes a LIVE one while the\n"
            "tasks run, on all of them or on --task; it is not written to their files. Nothing is changed unless all of\n"
            "them have the setting and can change it. It does not ask: what it replaces is printed.\n",
};

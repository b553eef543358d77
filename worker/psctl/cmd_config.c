/* SPDX-License-Identifier: Apache-2.0 */
/* psctl config: the settings that tasks run with. Failure modes: a task that does not answer is left out and named; exit 1. */
#include "psctl.h"

enum { COLUMNS = 4 };

static void each_row(void *ctx, const ps_config_info *info)
{
    struct out_table *table = ctx;
    out_cell(table, "%s", info->name);
    out_cell(table, "%s", info->value[0] == '\0' ? "\"\"" : info->value);
    out_cell(table, "%s", info->default_value[0] == '\0' ? "\"\"" : info->default_value);
    out_cell(table, "%s", info->help);
}

static void each_json(void *ctx, const ps_config_info *info)
{
    (void)ctx;
    json_object(NULL);
    json_text("name", info->name);
    json_text("value", info->value);
    json_text("default", info->default_value);
    json_text("help", info->help);
    json_end();
}

static bool print_task(struct psctl *c, int i)
{
    static const char *const headings[COLUMNS] = {"SETTING", "VALUE", "DEFAULT", "MEANING"};
    const char *name = ps_cluster_task_name(c->session, i);
    struct out_table table;
    ps_status st = PS_OK;
    if (c->json) {
        json_object(NULL);
        json_text("name", name);
        json_list("settings");
        st = ps_task_config(c->session, i, psctl_left_ms(c), each_json, NULL);
        json_end();
        if (st != PS_OK) {
            json_text("error", ps_last_error());
        }
        json_end();
    } else {
        (void)printf("%s (%s)\n", name, c->infos[i].address);
        out_table_init(&table, COLUMNS, 0, headings);
        st = ps_task_config(c->session, i, psctl_left_ms(c), each_row, &table);
        out_table_print(&table);
    }
    if (st != PS_OK) {
        (void)fprintf(stderr, "psctl: %s: %s\n", name, ps_last_error());
    }
    return st == PS_OK;
}

enum psctl_exit psctl_config(struct psctl *c)
{
    bool failed = false;
    if (!psctl_connect(c) || !psctl_ask(c)) {
        return PSCTL_FAILED;
    }
    int only = c->argc == 1 ? psctl_find_task(c, c->argv[0]) : -1;
    if (c->argc == 1 && only < 0) {
        return PSCTL_USAGE;
    }
    if (c->json) {
        json_object(NULL);
        json_list("tasks");
    }
    for (int i = 0; i < c->task_count; i++) {
        if (c->infos[i].up && (only < 0 || only == i)) {
            failed = !print_task(c, i) || failed;
        }
    }
    if (c->json) {
        json_end();
        json_end();
    }
    (void)fflush(stdout); /* the tables before the reasons; errors show at the end */
    return psctl_all_up(c, only) && !failed ? PSCTL_OK : PSCTL_FAILED;
}

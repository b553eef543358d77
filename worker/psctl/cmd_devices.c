/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psctl devices: what variables can be pinned to.
 * Failure modes: a task that does not answer, or whose list is not understood, is left out and named; exit 1.
 */
#include "psctl.h"

enum { COLUMNS = 3, DEVICES_MAX = 64 }; /* a task's list is a text of 127 characters at most */

static void print_device(struct out_table *table, const ps_device_info *info)
{
    char text[32];
    out_cell(table, "%s", info->name);
    out_cell(table, "%s", info->type);
    out_cell(table, "%s", out_bytes((double)info->memory_bytes, text, sizeof(text)));
}

static void print_json(const ps_device_info *info)
{
    out_json_object(NULL);
    out_json_text("name", info->name);
    out_json_text("type", info->type);
    out_json_u64("index", info->index);
    out_json_u64("memory_bytes", info->memory_bytes);
    out_json_end();
}

enum psctl_exit psctl_devices(struct psctl *c)
{
    static const char *const headings[COLUMNS] = {"DEVICE", "TYPE", "MEMORY"};
    struct out_table table;
    enum psctl_exit code = psctl_begin(c);
    if (code != PSCTL_OK) {
        return code;
    }
    if (c->json) {
        out_json_object(NULL);
        out_json_list("devices");
    } else {
        out_table_init(&table, COLUMNS, 0x4u, headings);
    }
    for (int i = 0; i < c->task_count; i++) {
        ps_device_info devices[DEVICES_MAX];
        int count = c->infos[i].up ? ps_task_info_devices(&c->infos[i], devices, DEVICES_MAX) : 0;
        if (count < 0) {
            psctl_task_failed(c, i);
        }
        for (int k = 0; k < count; k++) {
            if (c->json) {
                print_json(&devices[k]);
            } else {
                print_device(&table, &devices[k]);
            }
        }
    }
    if (c->json) {
        out_json_end();
        out_json_down(c, -1);
        out_json_end();
    } else {
        out_table_print(&table, &c->room);
    }
    (void)fflush(stdout); /* the table before the reasons; errors show at the end */
    return psctl_all_up(c, -1) ? PSCTL_OK : PSCTL_FAILED;
}

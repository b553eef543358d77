/* SPDX-License-Identifier: Apache-2.0 */
/* psctl devices: what variables can be pinned to. Failure modes: a task that does not answer is left out and named; exit 1. */
#include "psctl.h"

#include <inttypes.h>
#include <stdlib.h>

enum { COLUMNS = 3, DEVICES_FIRST = 256 };

static void print_json(const ps_device_info *infos, int count)
{
    out_json_object(NULL);
    out_json_list("devices");
    for (int i = 0; i < count; i++) {
        out_json_object(NULL);
        out_json_text("name", infos[i].name);
        out_json_text("type", infos[i].type);
        out_json_u64("index", infos[i].index);
        out_json_u64("memory_bytes", infos[i].memory_bytes);
        out_json_end();
    }
    out_json_end();
    out_json_end();
}

static void print_table(const ps_device_info *infos, int count)
{
    static const char *const headings[COLUMNS] = {"DEVICE", "TYPE", "MEMORY"};
    struct out_table table;
    out_table_init(&table, COLUMNS, 0x4u, headings);
    for (int i = 0; i < count; i++) {
        char text[32];
        out_cell(&table, "%s", infos[i].name);
        out_cell(&table, "%s", infos[i].type);
        out_cell(&table, "%s", out_bytes((double)infos[i].memory_bytes, text, sizeof(text)));
    }
    out_table_print(&table);
}

enum psctl_exit psctl_devices(struct psctl *c)
{
    enum psctl_exit code = psctl_begin(c);
    if (code != PSCTL_OK) {
        return code;
    }
    ps_device_info *infos = NULL;
    int room = 0;
    int count = DEVICES_FIRST;
    while (count > room) { /* a second time when there are more */
        room = count;
        free(infos);
        infos = calloc((size_t)room, sizeof(*infos));
        count = infos != NULL ? ps_session_devices(c->session, infos, room) : -1;
    }
    if (count < 0) {
        psctl_error(c, infos != NULL ? PS_UNAVAILABLE : PS_RESOURCE_EXHAUSTED, "%s",
                    infos != NULL ? ps_last_error() : "out of memory");
    } else if (c->json) {
        print_json(infos, count);
    } else {
        print_table(infos, count);
    }
    free(infos);
    (void)fflush(stdout); /* the table before the reasons; errors show at the end */
    return psctl_all_up(c, -1) && count >= 0 ? PSCTL_OK : PSCTL_FAILED;
}

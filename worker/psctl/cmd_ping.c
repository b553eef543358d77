/* SPDX-License-Identifier: Apache-2.0 */
/* psctl ping: round-trip time to each task. Failure modes: a task that does not answer is `down`, the reason follows; exit 1. */
#include "psctl.h"

#include <inttypes.h>

enum { COLUMNS = 3 };

enum psctl_exit psctl_ping(struct psctl *c)
{
    static const char *const headings[COLUMNS] = {"TASK", "ADDRESS", "TIME"};
    struct out_table table;
    enum psctl_exit code = psctl_begin(c);
    if (code != PSCTL_OK) {
        return code;
    }
    if (c->json) {
        out_json_object(NULL);
        out_json_list("tasks");
    } else {
        out_table_init(&table, COLUMNS, 0x4u, headings);
    }
    for (int i = 0; i < c->task_count; i++) {
        const ps_task_info *t = &c->infos[i];
        int64_t us = 0;
        if (t->up && ps_task_ping(c->session, i, psctl_left_ms(c), &us) != PS_OK) {
            psctl_task_failed(c, i);
        }
        if (c->json) {
            out_json_object(NULL);
            out_json_text("name", ps_cluster_task_name(c->session, i));
            out_json_text("address", t->address);
            out_json_bool("up", t->up);
            if (t->up) {
                out_json_i64("time_us", us);
            } else {
                out_json_text("error", t->error);
            }
            out_json_end();
            continue;
        }
        out_cell(&table, "%s", ps_cluster_task_name(c->session, i));
        out_cell(&table, "%s", t->address);
        if (t->up) {
            out_cell(&table, "%" PRId64 " us", us);
        } else {
            out_cell(&table, "down");
        }
    }
    if (c->json) {
        out_json_end();
        out_json_end();
    } else {
        out_table_print(&table, &c->room);
    }
    (void)fflush(stdout); /* the table before the reasons; errors show at the end */
    return psctl_all_up(c, -1) ? PSCTL_OK : PSCTL_FAILED;
}

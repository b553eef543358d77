/* SPDX-License-Identifier: Apache-2.0 */
/* psctl waits: the requests that wait, at all tasks. Failure modes: a task that does not answer is left out and named; exit 1. */
#include "psctl.h"

#include <inttypes.h>

enum { COLUMNS = 7 };

struct list {
    const char *task_name; /* where they wait */
    struct out_table table;
    uint64_t count;
};

static void each_row(void *ctx, const ps_wait_info *w)
{
    struct list *list = ctx;
    struct out_table *t = &list->table;
    char text[80];
    if (w->job[0] != '\0') {
        out_cell(t, "%s, pid %" PRIu32, psctl_task_text(w->job, w->task, text, sizeof(text)), w->pid);
    } else {
        out_cell(t, "%s, pid %" PRIu32 " on %s", w->program, w->pid, w->host);
    }
    out_cell(t, "%s", list->task_name);
    out_cell(t, "%s", w->request);
    out_cell(t, "%s", out_duration(w->since_ms, text, sizeof(text)));
    out_cell(t, "%s", w->left_ms >= 0 ? out_duration((uint64_t)w->left_ms, text, sizeof(text)) : "for ever");
    out_cell(t, "%s", w->what);
    out_cell(t, "%s", w->release);
    list->count++;
}

static void each_json(void *ctx, const ps_wait_info *w)
{
    const struct list *list = ctx;
    char text[80];
    out_json_object(NULL);
    out_json_text("task", w->job[0] != '\0' ? psctl_task_text(w->job, w->task, text, sizeof(text)) : "");
    out_json_text("host", w->host);
    out_json_u64("pid", w->pid);
    out_json_text("program", w->program);
    out_json_text("id", w->id);
    out_json_text("at", list->task_name);
    out_json_text("request", w->request);
    out_json_text("what", w->what);
    out_json_text("release", w->release);
    out_json_u64("since_ms", w->since_ms);
    if (w->left_ms >= 0) {
        out_json_i64("left_ms", w->left_ms);
    }
    out_json_end();
}

static enum psctl_exit show(struct psctl *c)
{
    static const char *const headings[COLUMNS] = {"WHO", "AT", "REQUEST", "SINCE", "LEFT", "WAITS FOR", "WHAT ENDS IT"};
    struct list list = {.count = 0};
    int only = -1;
    if (!psctl_only_task(c, c->task, &only)) {
        return PSCTL_USAGE;
    }
    if (c->json) {
        out_json_answer(c);
        out_json_list("waits");
    } else {
        out_table_init(&list.table, COLUMNS, 0x18u, headings);
    }
    for (int i = 0; i < c->task_count; i++) {
        list.task_name = ps_cluster_task_name(c->session, i);
        if (c->infos[i].up && psctl_is_meant(only, i) &&
            ps_task_waits(c->session, i, psctl_left_ms(c), c->json ? each_json : each_row, &list) != PS_OK) {
            psctl_task_failed(c, i);
        }
    }
    if (c->json) {
        out_json_end();
        out_json_down(c, only);
        out_json_end();
    } else {
        out_table_print(&list.table, &c->room);
        if (list.count == 0) {
            (void)printf("nothing waits\n");
        }
    }
    (void)fflush(stdout); /* the table before the reasons; errors show at the end */
    return psctl_all_up(c, only) ? PSCTL_OK : PSCTL_FAILED;
}

enum psctl_exit psctl_waits(struct psctl *c)
{
    return psctl_rounds(c, show);
}

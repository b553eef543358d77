/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psctl workers: the sessions that a task knows, by default the directory, which knows all that use variables.
 * Failure modes: that task is down; exit 1.
 */
#include "psctl.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { COLUMNS = 8 };

struct list {
    const struct psctl *c;
    char host[65]; /* ours */
    struct out_table table;
    int count;
};

/* This program's own session is nobody's worker. */
static bool is_us(const struct list *list, const ps_session_info *s)
{
    return s->pid == (uint32_t)getpid() && strcmp(s->program, "psctl") == 0 && strcmp(s->host, list->host) == 0;
}

static const char *state_of(const ps_session_info *s)
{
    return !s->connected ? "gone" : s->stopping ? "stopping" : "connected";
}

static void each_row(void *ctx, const ps_session_info *s)
{
    struct list *list = ctx;
    struct out_table *t = &list->table;
    char text[80];
    if (is_us(list, s)) {
        return;
    }
    list->count++;
    out_cell(t, "%s", psctl_task_text(s->job, s->task, text, sizeof(text)));
    out_cell(t, "%s", s->host);
    out_cell(t, "%" PRIu32, s->pid);
    out_cell(t, "%s", s->program);
    if (s->global_step >= 0) {
        out_cell(t, "%" PRId64, s->global_step);
        out_cell(t, "%.1f", s->steps_per_second);
    } else {
        out_cell(t, "-");
        out_cell(t, "-");
    }
    out_cell(t, "%s ago", out_duration(s->heard_ms, text, sizeof(text)));
    out_cell(t, "%s", state_of(s));
}

static void each_json(void *ctx, const ps_session_info *s)
{
    struct list *list = ctx;
    char text[80];
    if (is_us(list, s)) {
        return;
    }
    out_json_object(NULL);
    out_json_text("task", s->job[0] != '\0' ? psctl_task_text(s->job, s->task, text, sizeof(text)) : "");
    out_json_text("host", s->host);
    out_json_u64("pid", s->pid);
    out_json_text("program", s->program);
    out_json_text("id", s->id);
    out_json_bool("connected", s->connected);
    out_json_bool("stopping", s->stopping);
    out_json_u64("heard_ms", s->heard_ms);
    out_json_u64("age_ms", s->age_ms);
    if (s->global_step >= 0) {
        out_json_i64("global_step", s->global_step);
        out_json_f64("steps_per_second", s->steps_per_second);
    }
    out_json_u64("waits", s->waits);
    out_json_u64("in_progress", s->in_progress);
    out_json_end();
}

/* Which task to ask; -1: said why none. */
static int choose(const struct psctl *c)
{
    if (c->task != NULL) {
        return psctl_find_task(c, c->task);
    }
    for (int i = 0; i < c->task_count; i++) {
        if (c->infos[i].directory) {
            return i;
        }
    }
    psctl_error(c, PS_UNAVAILABLE, "no task says that it is the directory; --task asks one of them");
    return -1;
}

enum psctl_exit psctl_workers(struct psctl *c)
{
    static const char *const headings[COLUMNS] = {"TASK", "HOST", "PID", "PROGRAM", "STEP", "STEPS/S", "LAST-HEARD", "STATE"};
    struct list list = {.c = c};
    enum psctl_exit code = psctl_begin(c);
    if (code != PSCTL_OK) {
        return code;
    }
    int at = choose(c);
    if (at < 0) {
        return c->task != NULL ? PSCTL_USAGE : PSCTL_FAILED;
    }
    if (!c->infos[at].up) {
        psctl_error(c, PS_UNAVAILABLE, "%s (%s) is down: %s; --task asks another", ps_cluster_task_name(c->session, at),
                    c->infos[at].address, c->infos[at].error);
        return PSCTL_FAILED;
    }
    (void)gethostname(list.host, sizeof(list.host) - 1); /* unknown: our own line is shown */
    if (c->json) {
        out_json_object(NULL);
        out_json_text("asked", ps_cluster_task_name(c->session, at));
        out_json_list("sessions");
    } else {
        out_table_init(&list.table, COLUMNS, 0x74u, headings);
    }
    ps_status st = ps_task_sessions(c->session, at, psctl_left_ms(c), c->json ? each_json : each_row, &list);
    if (c->json) {
        out_json_end();
        out_json_end();
    } else {
        out_table_print(&list.table);
    }
    if (st != PS_OK) {
        (void)fprintf(stderr, "psctl: %s: %s\n", ps_cluster_task_name(c->session, at), ps_last_error());
    }
    return st == PS_OK ? PSCTL_OK : PSCTL_FAILED;
}

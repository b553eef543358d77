/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psctl workers: the sessions that a task knows, by default the directory, which knows all that use variables.
 * Failure modes: the directory is down: the other tasks are asked for theirs; a task is down: named; exit 1.
 */
#include "psctl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COLUMNS = 9 };

struct sessions {
    ps_session_info *at; /* owned */
    size_t count, capacity;
    char host[65]; /* ours */
};

/* This program's own session is nobody's worker. */
static bool is_us(const struct sessions *all, const ps_session_info *s)
{
    return s->pid == (uint32_t)getpid() && strcmp(s->program, "psctl") == 0 && strcmp(s->host, all->host) == 0;
}

/* A session that several tasks know is there once, as the task that heard from it last says. */
static void each(void *ctx, const ps_session_info *s)
{
    struct sessions *all = ctx;
    if (is_us(all, s)) {
        return;
    }
    for (size_t i = 0; i < all->count; i++) {
        if (strcmp(all->at[i].id, s->id) == 0) {
            all->at[i] = s->heard_ms < all->at[i].heard_ms ? *s : all->at[i];
            return;
        }
    }
    if (all->count == all->capacity) {
        all->capacity = all->capacity == 0 ? 64 : all->capacity * 2;
        ps_session_info *more = realloc(all->at, all->capacity * sizeof(*more));
        if (more == NULL) {
            (void)fprintf(stderr, "psctl: out of memory\n");
            exit(PSCTL_FAILED);
        }
        all->at = more;
    }
    all->at[all->count++] = *s;
}

static int by_job(const void *x, const void *y)
{
    const ps_session_info *a = x;
    const ps_session_info *b = y;
    int order = strcmp(a->job, b->job);
    order = order != 0 ? order : (a->task > b->task) - (a->task < b->task);
    return order != 0 ? order : strcmp(a->id, b->id);
}

static const char *state_of(const ps_session_info *s)
{
    return !s->connected ? "gone" : s->stopping ? "stopping" : "connected";
}

static void print_row(struct out_table *t, const ps_session_info *s)
{
    char text[80];
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
    out_cell(t, "%s", out_bytes((double)s->held_bytes, text, sizeof(text)));
    out_cell(t, "%s", state_of(s));
}

static void print_json(const ps_session_info *s)
{
    char text[80];
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
    out_json_u64("held_bytes", s->held_bytes);
    out_json_end();
}

/* Ask task i, or all that are up; "asked" of the JSON answer. */
static void ask(struct psctl *c, int only, struct sessions *all)
{
    if (c->json) {
        out_json_list("asked");
    }
    for (int i = 0; i < c->task_count; i++) {
        if (!c->infos[i].up || !psctl_is_meant(only, i)) {
            continue;
        }
        if (c->json) {
            out_json_text(NULL, ps_cluster_task_name(c->session, i));
        }
        if (ps_task_sessions(c->session, i, psctl_left_ms(c), each, all) != PS_OK) {
            psctl_task_failed(c, i);
        }
    }
    if (c->json) {
        out_json_end();
    }
    if (all->count > 0) {
        qsort(all->at, all->count, sizeof(all->at[0]), by_job);
    }
}

static void print(struct psctl *c, int only, const struct sessions *all)
{
    static const char *const headings[COLUMNS] = {"TASK",    "HOST",       "PID",   "PROGRAM", "STEP",
                                                  "STEPS/S", "LAST-HEARD", "HOLDS", "STATE"};
    struct out_table table;
    if (c->json) {
        out_json_list("sessions");
    } else {
        out_table_init(&table, COLUMNS, 0xf4u, headings);
    }
    for (size_t i = 0; i < all->count; i++) {
        if (c->json) {
            print_json(&all->at[i]);
        } else {
            print_row(&table, &all->at[i]);
        }
    }
    if (c->json) {
        out_json_end();
        out_json_down(c, only);
    } else {
        out_table_print(&table, &c->room);
    }
}

static enum psctl_exit show(struct psctl *c)
{
    struct sessions all = {.count = 0};
    int only = -1;
    if (!psctl_only_task(c, c->task, &only)) {
        return PSCTL_USAGE;
    }
    if (c->task == NULL) {
        only = psctl_directory(c);
    }
    (void)gethostname(all.host, sizeof(all.host) - 1); /* unknown: our own line is shown */
    if (c->json) {
        out_json_answer(c);
    }
    ask(c, only, &all);
    print(c, only, &all);
    if (c->json) {
        out_json_end();
    }
    free(all.at);
    (void)fflush(stdout); /* the table before the reasons; errors show at the end */
    bool up = psctl_all_up(c, only);
    if (c->task == NULL && only < 0) {
        psctl_note(c, "the directory does not answer: these are the sessions that the other tasks know");
    }
    return up ? PSCTL_OK : PSCTL_FAILED;
}

enum psctl_exit psctl_workers(struct psctl *c)
{
    return psctl_rounds(c, show);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* psctl waits: the requests that wait, at all tasks. Failure modes: a task that does not answer is left out and named; exit 1. */
#include "psctl.h"

#include <inttypes.h>

struct row {
    ps_wait_info w;
    const char *at; /* the task where it waits */
};

static const char *who_cell(const void *row, char *buf, size_t n)
{
    const ps_wait_info *w = &((const struct row *)row)->w;
    char text[80];
    if (w->job[0] != '\0') {
        (void)snprintf(buf, n, "%s, pid %" PRIu32, psctl_task_text(w->job, w->task, text, sizeof(text)), w->pid);
    } else {
        (void)snprintf(buf, n, "%s, pid %" PRIu32 " on %s", w->program, w->pid, w->host);
    }
    return buf;
}

static json_t *task_value(const void *row)
{
    const ps_wait_info *w = &((const struct row *)row)->w;
    return psctl_task_value(w->job, w->task);
}

static const char *left_cell(const void *row, char *buf, size_t n)
{
    int64_t left_ms = ((const struct row *)row)->w.left_ms;
    return left_ms >= 0 ? cli_duration((uint64_t)left_ms, buf, n) : "for ever";
}

static json_t *left_value(const void *row)
{
    int64_t left_ms = ((const struct row *)row)->w.left_ms;
    return left_ms >= 0 ? json_integer(left_ms) : NULL;
}

#define FIELD(kind_, field_) CLI_FIELD(kind_, struct row, field_)
static const struct cli_column columns[] = {
    {"WHO", "task", CLI_OTHER, .cell = who_cell, .value = task_value},
    {NULL, "host", FIELD(CLI_TEXT, w.host)},
    {NULL, "pid", FIELD(CLI_U32, w.pid)},
    {NULL, "program", FIELD(CLI_TEXT, w.program)},
    {NULL, "id", FIELD(CLI_TEXT, w.id)},
    {"AT", "at", FIELD(CLI_STRING, at)},
    {"REQUEST", "request", FIELD(CLI_TEXT, w.request)},
    {"SINCE", "since_ms", FIELD(CLI_TIME, w.since_ms)},
    {"LEFT", "left_ms", CLI_OTHER, .right = true, .cell = left_cell, .value = left_value},
    {"WAITS FOR", "what", FIELD(CLI_TEXT, w.what)},
    {"WHAT ENDS IT", "release", FIELD(CLI_TEXT, w.release)},
};

struct asking {
    struct cli_list list;
    const char *at;
};

static void each(void *ctx, const ps_wait_info *w)
{
    struct asking *a = ctx;
    cli_list_add(&a->list, &(struct row){.w = *w, .at = a->at});
}

static enum psctl_exit show(struct psctl *c)
{
    struct asking a;
    int only = -1;
    if (!psctl_only_task(c, c->task, &only)) {
        return PSCTL_USAGE;
    }
    psctl_answer(c);
    cli_list_begin(&a.list, "waits", columns, CLI_COUNT(columns), c->json);
    for (int i = 0; i < c->task_count; i++) {
        a.at = ps_cluster_task_name(c->session, i);
        if (c->infos[i].up && psctl_is_meant(only, i) && ps_task_waits(c->session, i, psctl_left_ms(c), each, &a) != PS_OK) {
            psctl_task_failed(c, i);
        }
    }
    cli_list_end(&a.list, &c->room);
    if (!c->json && a.list.count == 0) {
        (void)printf("nothing waits\n");
    }
    psctl_down(c, only);
    psctl_answer_end(c);
    return psctl_all_up(c, only) ? PSCTL_OK : PSCTL_FAILED;
}

enum psctl_exit psctl_waits(struct psctl *c)
{
    return psctl_rounds(c, show);
}

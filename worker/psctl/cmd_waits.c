/* SPDX-License-Identifier: Apache-2.0 */
/* psctl waits: the requests that wait, at all tasks. Failure modes, exit 1: a task that does not answer is left out and named. */
#include "psctl.h"

#include <inttypes.h>

struct row {
    ps_wait_info w;
    const char *at;
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

static void each(void *ctx, const ps_wait_info *w)
{
    struct psctl_list *l = ctx;
    cli_list_add(&l->rows, &(struct row){.w = *w, .at = l->at});
}

static enum psctl_exit show(struct psctl *c)
{
    struct psctl_list l;
    if (!psctl_list_begin(&l, c, c->task, "waits", columns, CLI_COUNT(columns))) {
        return PSCTL_USAGE;
    }
    l.none = "nothing waits";
    while (psctl_list_next(&l)) {
        (void)psctl_heard(c, l.task, ps_task_waits(c->session, l.task, psctl_left_ms(c), each, &l));
    }
    return psctl_list_end(&l);
}

const struct psctl_verb psctl_verb_waits = {
    .name = "waits",
    .arguments = "",
    .summary = "requests that wait: whose, for what, until when",
    .flags = PSCTL_FLAG(TASK) | PSCTL_FLAG(WATCH),
    .words = "",
    .show = show,
    .help = "Each request that waits at a task, the oldest first: who, on what, since when, how long it still may, and\n"
            "what would end it. Requests that wait for a task that is down do so in their program and are not here.\n",
};

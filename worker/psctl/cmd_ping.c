/* SPDX-License-Identifier: Apache-2.0 */
/* psctl ping: round-trip time to each task. Failure mode, exit 1: a silent task is printed as `down`, with the reason. */
#include "psctl.h"

#include <inttypes.h>

struct row {
    const char *name;
    ps_task_info t;
    int64_t us;
};

static bool is_down(const void *row)
{
    return !((const struct row *)row)->t.up;
}

static const char *time_cell(const void *row, char *buf, size_t n)
{
    const struct row *r = row;
    (void)snprintf(buf, n, "%" PRId64 " us", r->us);
    return psctl_refused(&r->t) ? "refused" : is_down(row) ? "down" : buf;
}

static json_t *time_value(const void *row)
{
    return is_down(row) ? NULL : json_integer(((const struct row *)row)->us);
}

#define FIELD(kind_, field_) CLI_FIELD(kind_, struct row, field_)
static const struct cli_column columns[] = {
    {"TASK", "name", FIELD(CLI_STRING, name)},
    {"ADDRESS", "address", FIELD(CLI_TEXT, t.address)},
    {NULL, "up", FIELD(CLI_BOOL, t.up)},
    {"TIME", "time_us", CLI_OTHER, .right = true, .cell = time_cell, .value = time_value},
    {NULL, "error", FIELD(CLI_TEXT, t.error), .has = is_down},
};

static enum psctl_exit show(struct psctl *c)
{
    struct cli_list list;
    psctl_answer(c);
    cli_list_begin(&list, "tasks", columns, CLI_COUNT(columns), c->json);
    for (int i = 0; i < c->task_count; i++) {
        struct row row = {.name = ps_cluster_task_name(c->session, i)};
        if (c->infos[i].up) {
            (void)psctl_heard(c, i, ps_task_ping(c->session, i, psctl_left_ms(c), &row.us));
        }
        row.t = c->infos[i];
        cli_list_add(&list, &row);
    }
    cli_list_end(&list, &c->room);
    psctl_answer_end(c);
    return psctl_all_up(c, -1) ? PSCTL_OK : PSCTL_FAILED;
}

const struct psctl_verb psctl_verb_ping = {
    .name = "ping",
    .arguments = "",
    .summary = "round-trip time to each task",
    .words = "",
    .show = show,
    .help = "The time of one empty request on an open connection.\n",
};

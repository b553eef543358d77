/* SPDX-License-Identifier: Apache-2.0 */
/* psctl whoami: this psctl's identity and rights at each task. Failure mode, exit 1: a task that does not answer is named. */
#include "psctl.h"

#include <string.h>

struct row {
    ps_right_info r;
    const char *at;
    const char *allows;
};

#define FIELD(kind_, field_) CLI_FIELD(kind_, struct row, field_)
static const struct cli_column columns[] = {
    {"AT", "at", FIELD(CLI_STRING, at)},       {"IDENTITY", "identity", FIELD(CLI_TEXT, r.identity)},
    {"ROLE", "role", FIELD(CLI_TEXT, r.role)}, {"KEY-ID", "key_id", FIELD(CLI_TEXT, r.key_id)},
    {NULL, "open", FIELD(CLI_BOOL, r.open)},   {"ALLOWED", "allowed", FIELD(CLI_STRING, allows)},
};

struct seen {
    struct psctl_list *list;
    struct row who;
    uint32_t row_count;
};

static void add(struct seen *seen, const char *allows)
{
    struct row row = seen->who;
    row.at = seen->list->at;
    row.allows = allows;
    cli_list_add(&seen->list->rows, &row);
}

static void each(void *ctx, const ps_right_info *r)
{
    struct seen *seen = ctx;
    if (r->row[0] == '\0') {
        seen->who.r = *r;
    } else {
        seen->row_count++;
        add(seen, r->row);
    }
}

static enum psctl_exit show(struct psctl *c)
{
    struct psctl_list l;
    for (int i = 0; i < c->task_count; i++) { /* ask a task that refuses psctl too: it tells at least who psctl is */
        c->infos[i].up = c->infos[i].up || c->infos[i].status == PS_PERMISSION_DENIED;
    }
    if (!psctl_list_begin(&l, c, c->task, "rights", columns, CLI_COUNT(columns))) {
        return PSCTL_USAGE;
    }
    while (psctl_list_next(&l)) {
        struct seen seen = {.list = &l};
        bool heard = psctl_heard(c, l.task, ps_task_rights(c->session, l.task, psctl_left_ms(c), each, &seen));
        if (heard && seen.row_count == 0) {
            add(&seen, seen.who.r.open ? "everything: there is no table of rights" : "everything: the user of the process");
        }
    }
    return psctl_list_end(&l);
}

const struct psctl_verb psctl_verb_whoami = {
    .name = "whoami",
    .arguments = "",
    .summary = "who this psctl is at each task, and what it may do",
    .flags = PSCTL_FLAG(TASK),
    .words = "",
    .show = show,
    .help = "The identity by which a task knows this psctl: a key of its key file with the id of the line, a certificate, a\n"
            "user on a Unix socket, or anybody. ALLOWED are the rows of the task's table of rights that name it: who, where,\n"
            "which rights. Everybody whom a row names may ask; without a row nobody gets in.\n",
};

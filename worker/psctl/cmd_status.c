/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psctl status: one line per task and the total, or one task.
 * Happy path: ask all tasks at once, print. Failure modes, each with exit 1: a task that does not answer is `down`, the reason
 * follows; one that came back without variables that it had; two processes that say they are one task.
 */
#include "psctl.h"

#include <inttypes.h>

struct total {
    int tasks, up;
    uint64_t restarts, lost, memory, connections, variables, pushes, pulls;
    double pushes_per_second, bytes_per_second;
};

static struct total add_up(const struct psctl *c, int only)
{
    struct total sum = {0};
    for (int i = 0; i < c->task_count; i++) {
        const ps_task_info *t = &c->infos[i];
        if (!psctl_is_meant(only, i)) {
            continue;
        }
        sum.tasks++;
        sum.up += t->up ? 1 : 0;
        sum.restarts += t->restarts;
        sum.lost += t->lost;
        sum.memory += t->memory_bytes;
        sum.connections += t->connections;
        sum.variables += t->variables;
        sum.pushes += t->pushes_applied;
        sum.pulls += t->pulls;
        sum.pushes_per_second += t->pushes_per_second;
        sum.bytes_per_second += t->bytes_per_second;
    }
    return sum;
}

static void print_json(const struct psctl *c, int only, const struct total *sum)
{
    out_json_answer(c);
    out_json_list("tasks");
    for (int i = 0; i < c->task_count; i++) {
        const ps_task_info *t = &c->infos[i];
        if (!psctl_is_meant(only, i)) {
            continue;
        }
        char life[24];
        (void)snprintf(life, sizeof(life), "%016" PRIx64, t->life);
        out_json_object(NULL);
        out_json_text("name", ps_cluster_task_name(c->session, i));
        out_json_text("job", t->job);
        out_json_u64("task", t->task);
        out_json_text("address", t->address);
        out_json_bool("up", t->up);
        if (!t->up) {
            out_json_text("error", t->error);
            out_json_end();
            continue;
        }
        out_json_bool("directory", t->directory);
        out_json_text("conflict", t->conflict);
        out_json_u64("restarts", t->restarts);
        out_json_u64("lost", t->lost);
        out_json_text("lost_names", t->lost_names);
        out_json_text("waiting_for", t->waiting_for);
        out_json_text("version", t->version);
        out_json_u64("pid", t->pid);
        out_json_text("life", life);
        out_json_u64("uptime_ms", t->uptime_ms);
        out_json_u64("memory_bytes", t->memory_bytes);
        out_json_u64("budget_bytes", t->budget_bytes);
        out_json_u64("variable_bytes", t->variable_bytes);
        out_json_u64("connections", t->connections);
        out_json_u64("sessions", t->sessions);
        out_json_u64("variables", t->variables);
        out_json_u64("pushes_applied", t->pushes_applied);
        out_json_u64("pushes_torn", t->pushes_torn);
        out_json_u64("pushes_refused", t->pushes_refused);
        out_json_u64("nonfinite", t->nonfinite);
        out_json_u64("pulls", t->pulls);
        out_json_u64("bytes_in", t->bytes_in);
        out_json_u64("bytes_out", t->bytes_out);
        out_json_f64("pushes_per_second", t->pushes_per_second);
        out_json_f64("bytes_per_second", t->bytes_per_second);
        out_json_u64("sessions_connected", t->connected);
        out_json_u64("records_bytes", t->records_bytes);
        out_json_u64("pushes_in_progress", t->in_progress);
        out_json_u64("staged_bytes", t->staged_bytes);
        out_json_u64("copies_bytes", t->copies_bytes);
        out_json_text("holds_most", t->most);
        out_json_u64("holds_most_bytes", t->most_bytes);
        out_json_end();
    }
    out_json_end();
    out_json_object("total");
    out_json_i64("tasks", sum->tasks);
    out_json_i64("up", sum->up);
    out_json_u64("restarts", sum->restarts);
    out_json_u64("lost", sum->lost);
    out_json_u64("memory_bytes", sum->memory);
    out_json_u64("connections", sum->connections);
    out_json_u64("variables", sum->variables);
    out_json_u64("pushes_applied", sum->pushes);
    out_json_u64("pulls", sum->pulls);
    out_json_f64("pushes_per_second", sum->pushes_per_second);
    out_json_f64("bytes_per_second", sum->bytes_per_second);
    out_json_end();
    out_json_end();
}

enum { COLUMNS = 13, COLUMNS_OF_WHO = 5 };

/* counted: the directory has said restarts and lost. */
static void print_row(struct out_table *t, const struct total *sum, bool counted)
{
    char memory[32];
    char rate[32];
    if (counted) {
        out_cell(t, "%" PRIu64, sum->restarts);
        out_cell(t, "%" PRIu64, sum->lost);
    } else {
        out_cell(t, "-");
        out_cell(t, "-");
    }
    out_cell(t, "%s", out_bytes((double)sum->memory, memory, sizeof(memory)));
    out_cell(t, "%" PRIu64, sum->connections);
    out_cell(t, "%" PRIu64, sum->variables);
    out_cell(t, "%" PRIu64, sum->pushes);
    out_cell(t, "%.1f", sum->pushes_per_second);
    out_cell(t, "%s", out_bytes(sum->bytes_per_second, rate, sizeof(rate)));
}

static void print_task(struct out_table *table, const char *name, const ps_task_info *t, bool counted)
{
    char uptime[32];
    out_cell(table, "%s", name);
    out_cell(table, "%s", t->address);
    out_cell(table, "%s", t->up ? "up" : "down");
    out_cell(table, "%s", t->up ? t->version : "-");
    out_cell(table, "%s", t->up ? out_duration(t->uptime_ms, uptime, sizeof(uptime)) : "-");
    if (t->up) {
        print_row(table,
                  &(struct total){.restarts = t->restarts,
                                  .lost = t->lost,
                                  .memory = t->memory_bytes,
                                  .connections = t->connections,
                                  .variables = t->variables,
                                  .pushes = t->pushes_applied,
                                  .pushes_per_second = t->pushes_per_second,
                                  .bytes_per_second = t->bytes_per_second},
                  counted);
        return;
    }
    for (int k = COLUMNS_OF_WHO; k < COLUMNS; k++) {
        out_cell(table, "-");
    }
}

/* What sessions hold, where some are away or hold memory: whom to look at when something is short. */
static void print_held(const char *name, const ps_task_info *t)
{
    char records[32], staged[32], copies[32], most[32];
    if (!t->up || (t->sessions == t->connected && t->most_bytes == 0)) {
        return;
    }
    (void)printf("%s holds: %" PRIu32 " sessions connected, %" PRIu32 " silent, records %s; %" PRIu32
                 " pushes in progress; staged %s, "
                 "copies %s",
                 name, t->connected, t->sessions - t->connected, out_bytes((double)t->records_bytes, records, sizeof(records)),
                 t->in_progress, out_bytes((double)t->staged_bytes, staged, sizeof(staged)),
                 out_bytes((double)t->copies_bytes, copies, sizeof(copies)));
    if (t->most_bytes > 0) {
        (void)printf("; most: %s, %s", t->most, out_bytes((double)t->most_bytes, most, sizeof(most)));
    }
    (void)putchar('\n');
}

static void print_table(const struct psctl *c, int only, const struct total *sum)
{
    static const char *const headings[COLUMNS] = {"TASK", "ADDRESS", "STATE",     "VERSION", "UPTIME",   "RESTARTS", "LOST",
                                                  "DATA", "CONNS",   "VARIABLES", "PUSHES",  "PUSHES/S", "BYTES/S"};
    struct out_table table;
    bool counted = psctl_directory(c) >= 0;
    out_table_init(&table, COLUMNS, 0x1ff0u, headings);
    for (int i = 0; i < c->task_count; i++) {
        if (psctl_is_meant(only, i)) {
            print_task(&table, ps_cluster_task_name(c->session, i), &c->infos[i], counted);
        }
    }
    if (only < 0) {
        out_cell(&table, "total");
        out_cell(&table, "%s", "");
        out_cell(&table, "%d of %d up", sum->up, sum->tasks);
        out_cell(&table, "%s", "");
        out_cell(&table, "%s", "");
        print_row(&table, sum, counted);
        table.total = true;
    }
    out_table_print(&table, &c->room);
    for (int i = 0; i < c->task_count; i++) {
        if (psctl_is_meant(only, i) && c->infos[i].up && c->infos[i].waiting_for[0] != '\0') {
            (void)printf("%s waits for %s\n", ps_cluster_task_name(c->session, i), c->infos[i].waiting_for);
        }
        if (psctl_is_meant(only, i)) {
            print_held(ps_cluster_task_name(c->session, i), &c->infos[i]);
        }
    }
}

/* Notes about two processes that say that they are the same task; false: there are such. */
static bool no_conflicts(const struct psctl *c, int only)
{
    bool none = true;
    for (int i = 0; i < c->task_count; i++) {
        if (psctl_is_meant(only, i) && c->infos[i].conflict[0] != '\0') {
            psctl_note(c, "%s: %s", ps_cluster_task_name(c->session, i), c->infos[i].conflict);
            none = false;
        }
    }
    return none;
}

static enum psctl_exit show(struct psctl *c)
{
    int only = -1;
    if (!psctl_only_task(c, c->argv[0], &only)) {
        return PSCTL_USAGE;
    }
    struct total sum = add_up(c, only);
    if (c->json) {
        print_json(c, only, &sum);
    } else {
        print_table(c, only, &sum);
    }
    (void)fflush(stdout); /* the table before the reasons; errors show at the end */
    bool one_each = no_conflicts(c, only);
    bool whole = psctl_none_lost(c, only);
    return psctl_all_up(c, only) && one_each && whole ? PSCTL_OK : PSCTL_FAILED;
}

enum psctl_exit psctl_status(struct psctl *c)
{
    return psctl_rounds(c, show);
}

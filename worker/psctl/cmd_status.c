/* SPDX-License-Identifier: Apache-2.0 */
/* psctl status: one line per task and the total. Failure modes: a task that does not answer is `down`, the reason follows. */
#include "psctl.h"

#include <inttypes.h>

struct total {
    int up;
    uint64_t memory, connections, variables, pushes, pulls;
    double pushes_per_second, bytes_per_second;
};

static struct total add_up(const struct psctl *c)
{
    struct total sum = {0};
    for (int i = 0; i < c->task_count; i++) {
        const ps_task_info *t = &c->infos[i];
        sum.up += t->up ? 1 : 0;
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

static void print_json(const struct psctl *c, const struct total *sum)
{
    json_object(NULL);
    json_list("tasks");
    for (int i = 0; i < c->task_count; i++) {
        const ps_task_info *t = &c->infos[i];
        char life[24];
        (void)snprintf(life, sizeof(life), "%016" PRIx64, t->life);
        json_object(NULL);
        json_text("name", ps_cluster_task_name(c->session, i));
        json_text("job", t->job);
        json_u64("task", t->task);
        json_text("address", t->address);
        json_bool("up", t->up);
        if (!t->up) {
            json_text("error", t->error);
            json_end();
            continue;
        }
        json_bool("directory", t->directory);
        json_text("waiting_for", t->waiting_for);
        json_text("version", t->version);
        json_u64("pid", t->pid);
        json_text("life", life);
        json_u64("uptime_ms", t->uptime_ms);
        json_u64("memory_bytes", t->memory_bytes);
        json_u64("budget_bytes", t->budget_bytes);
        json_u64("variable_bytes", t->variable_bytes);
        json_u64("connections", t->connections);
        json_u64("sessions", t->sessions);
        json_u64("variables", t->variables);
        json_u64("pushes_applied", t->pushes_applied);
        json_u64("pushes_torn", t->pushes_torn);
        json_u64("pushes_refused", t->pushes_refused);
        json_u64("nonfinite", t->nonfinite);
        json_u64("pulls", t->pulls);
        json_u64("bytes_in", t->bytes_in);
        json_u64("bytes_out", t->bytes_out);
        json_f64("pushes_per_second", t->pushes_per_second);
        json_f64("bytes_per_second", t->bytes_per_second);
        json_end();
    }
    json_end();
    json_object("total");
    json_i64("tasks", c->task_count);
    json_i64("up", sum->up);
    json_u64("memory_bytes", sum->memory);
    json_u64("connections", sum->connections);
    json_u64("variables", sum->variables);
    json_u64("pushes_applied", sum->pushes);
    json_u64("pulls", sum->pulls);
    json_f64("pushes_per_second", sum->pushes_per_second);
    json_f64("bytes_per_second", sum->bytes_per_second);
    json_end();
    json_end();
}

enum { COLUMNS = 11 };

static void print_row(struct out_table *t, const struct total *sum)
{
    char memory[32];
    char rate[32];
    out_cell(t, "%s", out_bytes((double)sum->memory, memory, sizeof(memory)));
    out_cell(t, "%" PRIu64, sum->connections);
    out_cell(t, "%" PRIu64, sum->variables);
    out_cell(t, "%" PRIu64, sum->pushes);
    out_cell(t, "%.1f", sum->pushes_per_second);
    out_cell(t, "%s", out_bytes(sum->bytes_per_second, rate, sizeof(rate)));
}

static void print_table(const struct psctl *c, const struct total *sum)
{
    static const char *const headings[COLUMNS] = {"TASK",  "ADDRESS",   "STATE",  "VERSION",  "UPTIME", "MEMORY",
                                                  "CONNS", "VARIABLES", "PUSHES", "PUSHES/S", "BYTES/S"};
    struct out_table table;
    out_table_init(&table, COLUMNS, 0x7f0u, headings);
    for (int i = 0; i < c->task_count; i++) {
        const ps_task_info *t = &c->infos[i];
        char uptime[32];
        out_cell(&table, "%s", ps_cluster_task_name(c->session, i));
        out_cell(&table, "%s", t->address);
        out_cell(&table, "%s", t->up ? "up" : "down");
        out_cell(&table, "%s", t->up ? t->version : "-");
        out_cell(&table, "%s", t->up ? out_duration(t->uptime_ms, uptime, sizeof(uptime)) : "-");
        if (t->up) {
            print_row(&table, &(struct total){.memory = t->memory_bytes,
                                              .connections = t->connections,
                                              .variables = t->variables,
                                              .pushes = t->pushes_applied,
                                              .pushes_per_second = t->pushes_per_second,
                                              .bytes_per_second = t->bytes_per_second});
        } else {
            for (int k = 5; k < COLUMNS; k++) {
                out_cell(&table, "-");
            }
        }
    }
    out_cell(&table, "total");
    out_cell(&table, "%s", "");
    out_cell(&table, "%d of %d up", sum->up, c->task_count);
    out_cell(&table, "%s", "");
    out_cell(&table, "%s", "");
    print_row(&table, sum);
    out_table_print(&table);
    for (int i = 0; i < c->task_count; i++) {
        if (c->infos[i].up && c->infos[i].waiting_for[0] != '\0') {
            (void)printf("%s waits for %s\n", ps_cluster_task_name(c->session, i), c->infos[i].waiting_for);
        }
    }
}

enum psctl_exit psctl_status(struct psctl *c)
{
    if (!psctl_connect(c) || !psctl_ask(c)) {
        return PSCTL_FAILED;
    }
    struct total sum = add_up(c);
    if (c->json) {
        print_json(c, &sum);
    } else {
        print_table(c, &sum);
    }
    (void)fflush(stdout); /* the table before the reasons; errors show at the end */
    return psctl_all_up(c, -1) ? PSCTL_OK : PSCTL_FAILED;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psctl status: one line per task and the total; with --watch again and again.
 *
 * Happy path: ask all tasks at once, print. --watch keeps the session open and a fixed pace: a round never takes longer than the
 * time to the next one, so a silent task delays nothing; on a terminal each round is drawn over the one before.
 * Failure modes: a task that does not answer is `down`, the reason follows; two processes that say they are one task: exit 1.
 * SIGINT and SIGTERM end --watch with exit status 0, a second one at once.
 */
#include "psctl.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { ROUND_MS_MAX = 2000 }; /* longest wait for answers in a round, so that an interrupt is heard soon */

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

static void print_json(const struct psctl *c, const struct total *sum, const char *when)
{
    out_json_object(NULL);
    if (when != NULL) {
        out_json_text("time", when);
    }
    out_json_list("tasks");
    for (int i = 0; i < c->task_count; i++) {
        const ps_task_info *t = &c->infos[i];
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
        out_json_end();
    }
    out_json_end();
    out_json_object("total");
    out_json_i64("tasks", c->task_count);
    out_json_i64("up", sum->up);
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

static void print_task(struct out_table *table, const char *name, const ps_task_info *t)
{
    char uptime[32];
    out_cell(table, "%s", name);
    out_cell(table, "%s", t->address);
    out_cell(table, "%s", t->up ? "up" : "down");
    out_cell(table, "%s", t->up ? t->version : "-");
    out_cell(table, "%s", t->up ? out_duration(t->uptime_ms, uptime, sizeof(uptime)) : "-");
    if (t->up) {
        print_row(table, &(struct total){.memory = t->memory_bytes,
                                         .connections = t->connections,
                                         .variables = t->variables,
                                         .pushes = t->pushes_applied,
                                         .pushes_per_second = t->pushes_per_second,
                                         .bytes_per_second = t->bytes_per_second});
        return;
    }
    for (int k = 5; k < COLUMNS; k++) {
        out_cell(table, "-");
    }
}

/* rows: how many tasks have room; the others are counted. */
static void print_table(const struct psctl *c, const struct total *sum, int rows)
{
    static const char *const headings[COLUMNS] = {"TASK",  "ADDRESS",   "STATE",  "VERSION",  "UPTIME", "DATA",
                                                  "CONNS", "VARIABLES", "PUSHES", "PUSHES/S", "BYTES/S"};
    struct out_table table;
    out_table_init(&table, COLUMNS, 0x7f0u, headings);
    for (int i = 0; i < c->task_count && i < rows; i++) {
        print_task(&table, ps_cluster_task_name(c->session, i), &c->infos[i]);
    }
    out_cell(&table, "total");
    out_cell(&table, "%s", "");
    out_cell(&table, "%d of %d up", sum->up, c->task_count);
    out_cell(&table, "%s", "");
    out_cell(&table, "%s", "");
    print_row(&table, sum);
    out_table_print(&table);
    if (c->task_count > rows) {
        (void)printf("%d more tasks have no room here\n", c->task_count - rows);
    }
    for (int i = 0; i < c->task_count; i++) {
        if (c->infos[i].up && c->infos[i].waiting_for[0] != '\0') {
            (void)printf("%s waits for %s\n", ps_cluster_task_name(c->session, i), c->infos[i].waiting_for);
        }
    }
}

/* Lines about two processes that say that they are the same task; false: there are such. */
static bool no_conflicts(const struct psctl *c, FILE *to)
{
    bool none = true;
    for (int i = 0; i < c->task_count; i++) {
        if (c->infos[i].conflict[0] != '\0') {
            (void)fprintf(to, "%s%s: %s\n", to == stderr ? "psctl: " : "", ps_cluster_task_name(c->session, i),
                          c->infos[i].conflict);
            none = false;
        }
    }
    return none;
}

/* ---- --watch ---- */

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* "2026-01-31T12:00:00+0100" */
static const char *time_line(char *buf, size_t n)
{
    struct tm tm;
    time_t now = time(NULL);
    if (localtime_r(&now, &tm) == NULL || strftime(buf, n, "%Y-%m-%dT%H:%M:%S%z", &tm) == 0) {
        buf[0] = '\0';
    }
    return buf;
}

static void print_round(struct psctl *c, bool terminal)
{
    char when[40];
    struct total sum = add_up(c);
    struct winsize size;
    if (c->json) {
        print_json(c, &sum, time_line(when, sizeof(when)));
        return;
    }
    int rows = c->task_count;
    if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0) {
        int others = 5 + c->task_count - sum.up; /* time, headings, total, the rest, the cursor, why tasks are down */
        rows = size.ws_row > others ? size.ws_row - others : 1;
    }
    (void)printf("%s%s\n", terminal ? "\033[H\033[J" : "", time_line(when, sizeof(when)));
    print_table(c, &sum, rows);
    for (int i = 0; i < c->task_count; i++) {
        if (!c->infos[i].up) {
            (void)printf("%s is down: %s\n", ps_cluster_task_name(c->session, i), c->infos[i].error);
        }
    }
    (void)no_conflicts(c, stdout); /* shown; the watch goes on */
    if (!terminal) {
        (void)putchar('\n');
    }
}

/* Until then, or an interrupt, which cannot slip through between the look and the wait. */
static void wait_until(int64_t then_ms)
{
    sigset_t blocked;
    sigset_t before;
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGINT);
    (void)sigaddset(&blocked, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &blocked, &before);
    int64_t left = then_ms - now_ms();
    while (interrupted == 0 && left > 0) {
        struct timespec t = {.tv_sec = (time_t)(left / 1000), .tv_nsec = (long)(left % 1000) * 1000000};
        (void)ppoll(NULL, 0, &t, &before);
        left = then_ms - now_ms();
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static enum psctl_exit watch(struct psctl *c)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    bool terminal = !c->json && isatty(STDOUT_FILENO) != 0;
    int64_t round_ms = c->watch_ms < c->timeout_ms ? c->watch_ms : c->timeout_ms;
    int64_t next_ms = now_ms();
    round_ms = round_ms < ROUND_MS_MAX ? round_ms : ROUND_MS_MAX;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    while (interrupted == 0) {
        enum psctl_exit code = psctl_ask(c, round_ms);
        if (code != PSCTL_OK) {
            return code;
        }
        print_round(c, terminal);
        if (fflush(stdout) != 0) {
            return PSCTL_FAILED; /* main says why */
        }
        next_ms += c->watch_ms;
        next_ms = next_ms > now_ms() - c->watch_ms ? next_ms : now_ms(); /* it was stopped for a while: no catching up */
        wait_until(next_ms);
    }
    return PSCTL_OK;
}

enum psctl_exit psctl_status(struct psctl *c)
{
    enum psctl_exit code = psctl_connect(c);
    if (code == PSCTL_OK && c->watch_ms > 0) {
        return watch(c);
    }
    code = code == PSCTL_OK ? psctl_ask(c, psctl_left_ms(c)) : code;
    if (code != PSCTL_OK) {
        return code;
    }
    struct total sum = add_up(c);
    if (c->json) {
        print_json(c, &sum, NULL);
    } else {
        print_table(c, &sum, c->task_count);
    }
    (void)fflush(stdout); /* the table before the reasons; errors show at the end */
    bool one_each = no_conflicts(c, stderr);
    return psctl_all_up(c, -1) && one_each ? PSCTL_OK : PSCTL_FAILED;
}

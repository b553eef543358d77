/* SPDX-License-Identifier: Apache-2.0 */
/* psctl status: one line for each task and a line with the sums, or one task alone. Failure modes, each with exit 1: a task that
 * does not answer is `down` with the reason; a task of the directory's job does not let psctl in (`refused`; in another job that
 * is no failure); a task came back without variables that it had; two processes say that they are the same task. */
#include "psctl.h"

#include <inttypes.h>

struct row {
    const char *name;
    ps_task_info t;
    bool counted; /* `restarts` and `lost` are known: only the directory task counts them */
    /* only in the row of sums: how many tasks there are, are up, refuse psctl; else 0 */
    int tasks, up, refused;
};

static json_t *reason_value(const void *row)
{
    const struct row *r = row;
    return json_string(ps_reason_name(r->t.reason));
}

static json_t *waiting_value(const void *row)
{
    static const char *const words[] = {"", "tasks", "load", "retry", "refused"};
    const struct row *r = row;
    return json_string(words[r->t.waiting]);
}

static json_t *saves_value(const void *row)
{
    const struct row *r = row;
    return psctl_saves_value(&r->t.saves);
}

static bool is_up(const void *row)
{
    const struct row *r = row;
    return r->t.up;
}

/* True if the task's sums are over all containers. A task sums up only those containers that this psctl may read. */
static bool is_whole(const void *row)
{
    const struct row *r = row;
    return r->t.up && !r->t.in_part;
}

static bool is_down(const void *row)
{
    return !is_up(row);
}

static bool is_refused(const void *row)
{
    const struct row *r = row;
    return psctl_refused(&r->t);
}

static json_t *refused_value(const void *row)
{
    return json_boolean(is_refused(row));
}

static bool is_directory(const void *row)
{
    const struct row *r = row;
    return r->t.up && r->t.directory;
}

static const char *state_cell(const void *row, char *buf, size_t n)
{
    const struct row *r = row;
    const int used = snprintf(buf, n, "%d of %d up", r->up, r->tasks);
    if (r->refused > 0 && used > 0 && (size_t)used < n) {
        (void)snprintf(buf + used, n - (size_t)used, ", %d refused", r->refused);
    }
    return r->tasks > 0 ? buf : r->t.up ? "up" : is_refused(row) ? "refused" : "down";
}

static const char *uptime_cell(const void *row, char *buf, size_t n)
{
    const struct row *r = row;
    return r->tasks > 0 ? "" : cli_duration(r->t.uptime_ms, buf, n);
}

static const char *restarts_cell(const void *row, char *buf, size_t n)
{
    const struct row *r = row;
    (void)snprintf(buf, n, "%" PRIu32, r->t.restarts);
    return r->counted ? buf : "-";
}

static const char *lost_cell(const void *row, char *buf, size_t n)
{
    const struct row *r = row;
    (void)snprintf(buf, n, "%" PRIu32, r->t.lost);
    return r->counted ? buf : "-";
}

static const char *rate_cell(const void *row, char *buf, size_t n)
{
    const struct row *r = row;
    return cli_bytes(r->t.bytes_per_second, buf, n);
}

#define FIELD(kind_, field_) CLI_FIELD(kind_, struct row, field_)
static const struct cli_column columns[] = {
    {"TASK", "name", FIELD(CLI_STRING, name)},
    {NULL, "job", FIELD(CLI_TEXT, t.job)},
    {NULL, "task", FIELD(CLI_U32, t.task)},
    {"ADDRESS", "address", FIELD(CLI_TEXT, t.address)},
    {"STATE", "up", FIELD(CLI_BOOL, t.up), .cell = state_cell},
    {NULL, "refused", .kind = CLI_OTHER, .has = is_down, .value = refused_value},
    {NULL, "error", FIELD(CLI_TEXT, t.error), .has = is_down},
    {NULL, "reason", .kind = CLI_OTHER, .has = is_down, .value = reason_value},
    {NULL, "directory", FIELD(CLI_BOOL, t.directory), .has = is_up},
    {NULL, "conflict", FIELD(CLI_TEXT, t.conflict), .has = is_up},
    {"VERSION", "version", FIELD(CLI_TEXT, t.version), .has = is_up},
    {NULL, "pid", FIELD(CLI_U32, t.pid), .has = is_up},
    {NULL, "life", FIELD(CLI_HEX, t.life), .has = is_up},
    {"UPTIME", "uptime_ms", FIELD(CLI_TIME, t.uptime_ms), .has = is_up, .cell = uptime_cell},
    {"RESTARTS", "restarts", FIELD(CLI_U32, t.restarts), .has = is_up, .cell = restarts_cell},
    {"LOST", "lost", FIELD(CLI_U32, t.lost), .has = is_up, .cell = lost_cell},
    {NULL, "lost_names", FIELD(CLI_TEXT, t.lost_names), .has = is_up},
    {NULL, "waiting_for", FIELD(CLI_TEXT, t.waiting_for), .has = is_up},
    {NULL, "waiting", .kind = CLI_OTHER, .has = is_up, .value = waiting_value},
    {"DATA", "memory_bytes", FIELD(CLI_BYTES, t.memory_bytes), .has = is_whole},
    {NULL, "budget_bytes", FIELD(CLI_BYTES, t.budget_bytes), .has = is_up},
    {NULL, "variable_bytes", FIELD(CLI_BYTES, t.variable_bytes), .has = is_whole},
    {"CONNS", "connections", FIELD(CLI_U32, t.connections), .has = is_up},
    {NULL, "sessions", FIELD(CLI_U32, t.sessions), .has = is_up},
    {"VARIABLES", "variables", FIELD(CLI_U32, t.variables), .has = is_whole},
    {"PUSHES", "pushes_applied", FIELD(CLI_U64, t.pushes_applied), .has = is_whole},
    {NULL, "pushes_torn", FIELD(CLI_U64, t.pushes_torn), .has = is_whole},
    {NULL, "pushes_refused", FIELD(CLI_U64, t.pushes_refused), .has = is_whole},
    {NULL, "nonfinite", FIELD(CLI_U64, t.nonfinite), .has = is_whole},
    {NULL, "denied", FIELD(CLI_U64, t.denied), .has = is_up},
    {NULL, "handshakes_done", FIELD(CLI_U64, t.handshakes_done), .has = is_up},
    {NULL, "handshakes_refused", FIELD(CLI_U64, t.handshakes_refused), .has = is_up},
    {NULL, "handshakes_under_way", FIELD(CLI_U32, t.handshakes_under_way), .has = is_up},
    {NULL, "pulls", FIELD(CLI_U64, t.pulls), .has = is_whole},
    {NULL, "bytes_in", FIELD(CLI_U64, t.bytes_in), .has = is_whole},
    {NULL, "bytes_out", FIELD(CLI_U64, t.bytes_out), .has = is_whole},
    {"PUSHES/S", "pushes_per_second", FIELD(CLI_RATE, t.pushes_per_second), .has = is_whole},
    {"BYTES/S", "bytes_per_second", FIELD(CLI_RATE, t.bytes_per_second), .has = is_whole, .cell = rate_cell},
    {NULL, "sessions_connected", FIELD(CLI_U32, t.connected), .has = is_up},
    {NULL, "records_bytes", FIELD(CLI_U64, t.records_bytes), .has = is_up},
    {NULL, "pushes_in_progress", FIELD(CLI_U32, t.in_progress), .has = is_whole},
    {NULL, "staged_bytes", FIELD(CLI_U64, t.staged_bytes), .has = is_whole},
    {NULL, "copies_bytes", FIELD(CLI_U64, t.copies_bytes), .has = is_whole},
    {NULL, "holds_most", FIELD(CLI_TEXT, t.most), .has = is_whole},
    {NULL, "holds_most_bytes", FIELD(CLI_U64, t.most_bytes), .has = is_whole},
    {NULL, "job_done", FIELD(CLI_BOOL, t.job_done), .has = is_up},
    {NULL, "insecure", FIELD(CLI_BOOL, t.insecure), .has = is_up},
    {NULL, "trainers_done", FIELD(CLI_U32, t.done), .has = is_directory},
    {NULL, "trainers", FIELD(CLI_U32, t.trainers), .has = is_directory},
    {NULL, "trainers_not_done", FIELD(CLI_TEXT, t.not_done), .has = is_directory},
    {NULL, "checkpoints", FIELD(CLI_TEXT, t.checkpoints), .has = is_directory},
    {NULL, "checkpoint", CLI_OTHER, .has = is_directory, .value = saves_value},
};
static const struct cli_column sum_columns[] = {
    {NULL, "tasks", FIELD(CLI_INT, tasks)},
    {NULL, "up", FIELD(CLI_INT, up)},
    {NULL, "refused", FIELD(CLI_INT, refused)},
    {NULL, "restarts", FIELD(CLI_U32, t.restarts)},
    {NULL, "lost", FIELD(CLI_U32, t.lost)},
    {NULL, "memory_bytes", FIELD(CLI_U64, t.memory_bytes), .has = is_whole},
    {NULL, "connections", FIELD(CLI_U32, t.connections)},
    {NULL, "variables", FIELD(CLI_U32, t.variables), .has = is_whole},
    {NULL, "pushes_applied", FIELD(CLI_U64, t.pushes_applied), .has = is_whole},
    {NULL, "pulls", FIELD(CLI_U64, t.pulls), .has = is_whole},
    {NULL, "pushes_per_second", FIELD(CLI_RATE, t.pushes_per_second), .has = is_whole},
    {NULL, "bytes_per_second", FIELD(CLI_RATE, t.bytes_per_second), .has = is_whole},
};

static void add_up(struct row *sum, const ps_task_info *t)
{
    sum->tasks++;
    sum->up += t->up ? 1 : 0;
    sum->refused += psctl_refused(t) ? 1 : 0;
    sum->t.restarts += t->restarts;
    sum->t.lost += t->lost;
    sum->t.in_part = sum->t.in_part || t->in_part;
    sum->t.memory_bytes += t->memory_bytes;
    sum->t.connections += t->connections;
    sum->t.variables += t->variables;
    sum->t.pushes_applied += t->pushes_applied;
    sum->t.pulls += t->pulls;
    sum->t.pushes_per_second += t->pushes_per_second;
    sum->t.bytes_per_second += t->bytes_per_second;
}

/* Print how much of a task's memory its sessions hold, if they hold any or some are disconnected. */
static void print_held(const char *name, const ps_task_info *t)
{
    char records[32], staged[32], copies[32], most[32];
    if (!t->up || t->in_part || (t->sessions == t->connected && t->most_bytes == 0)) {
        return;
    }
    (void)printf("%s holds: %" PRIu32 " sessions connected, %" PRIu32 " silent, records %s; %" PRIu32
                 " pushes in progress; staged %s, "
                 "copies %s",
                 name, t->connected, t->sessions - t->connected, cli_bytes((double)t->records_bytes, records, sizeof(records)),
                 t->in_progress, cli_bytes((double)t->staged_bytes, staged, sizeof(staged)),
                 cli_bytes((double)t->copies_bytes, copies, sizeof(copies)));
    if (t->most_bytes > 0) {
        (void)printf("; most: %s, %s", t->most, cli_bytes((double)t->most_bytes, most, sizeof(most)));
    }
    (void)putchar('\n');
}

static void print_job(const ps_task_info *t)
{
    if (t->job_done) {
        (void)printf("the job is done\n");
    } else if (t->done > 0 && t->trainers > 0) {
        (void)printf("job done, say %" PRIu32 " of %" PRIu32 " trainers; not yet: %s\n", t->done, t->trainers, t->not_done);
    } else if (t->done > 0) {
        (void)printf("job done, say %" PRIu32 " trainers, of which the cluster lists none\n", t->done);
    }
}

static void print_checkpoints(const ps_task_info *t)
{
    if (t->checkpoints[0] != '\0') {
        (void)printf("checkpoints: %s\n", t->checkpoints);
    }
}

static void print(const struct psctl *c, int only)
{
    struct cli_list list;
    bool counted = psctl_directory(c) >= 0;
    struct row sum = {.name = "total", .t = {.up = true}, .counted = counted};
    cli_list_begin(&list, "tasks", columns, CLI_COUNT(columns), c->json);
    for (int i = 0; i < c->task_count; i++) {
        if (psctl_is_meant(only, i)) {
            cli_list_add(&list, &(struct row){.name = ps_cluster_task_name(c->session, i), .t = c->infos[i], .counted = counted});
            add_up(&sum, &c->infos[i]);
        }
    }
    if (only < 0) {
        cli_list_total(&list, &sum);
    }
    cli_list_end(&list, &c->room);
    if (c->json) {
        cli_json_put("total", cli_row(sum_columns, CLI_COUNT(sum_columns), &sum));
        return;
    }
    for (int i = 0; i < c->task_count; i++) {
        if (psctl_is_meant(only, i) && c->infos[i].up && c->infos[i].waiting_for[0] != '\0') {
            char text[sizeof(c->infos->waiting_for) + sizeof("...")];
            (void)printf("%s waits for %s\n", ps_cluster_task_name(c->session, i), psctl_waiting_for(&c->infos[i], text));
        }
        if (psctl_is_meant(only, i) && c->infos[i].insecure) {
            (void)printf("%s is open to everybody who reaches %s (insecure_any_peer): see psctl key --help\n",
                         ps_cluster_task_name(c->session, i), c->infos[i].address);
        }
        if (psctl_is_meant(only, i) && c->infos[i].up && c->infos[i].denied > 0) {
            (void)printf("%s has refused %" PRIu64 " for want of a right: denied, in its log, says whom\n",
                         ps_cluster_task_name(c->session, i), c->infos[i].denied);
        }
        if (psctl_is_meant(only, i) && c->infos[i].up && c->infos[i].handshakes_refused > 0) {
            (void)printf("%s: of %" PRIu64 " TLS handshakes %" PRIu64
                         " did not let anybody in, %u are under way: tls_refused, in its log, "
                         "says why\n",
                         ps_cluster_task_name(c->session, i), c->infos[i].handshakes_done + c->infos[i].handshakes_refused,
                         c->infos[i].handshakes_refused, c->infos[i].handshakes_under_way);
        }
        if (psctl_is_meant(only, i)) {
            print_held(ps_cluster_task_name(c->session, i), &c->infos[i]);
        }
        if (psctl_is_meant(only, i) && is_directory(&(struct row){.t = c->infos[i]})) {
            print_job(&c->infos[i]);
            print_checkpoints(&c->infos[i]);
        }
    }
}

/* Print a note for each task that two processes claim to be. False: there is such a task. */
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
    psctl_answer(c);
    print(c, only);
    psctl_answer_end(c);
    bool one_each = no_conflicts(c, only);
    bool whole = psctl_none_lost(c, only);
    return psctl_all_up(c, only) && one_each && whole ? PSCTL_OK : PSCTL_FAILED;
}

const struct psctl_verb psctl_verb_status = {
    .name = "status",
    .arguments = "[TASK]",
    .summary = "tasks: up or down, what they hold, traffic",
    .args_max = 1,
    .flags = PSCTL_FLAG(WATCH),
    .words = "task",
    .show = show,
    .help =
        "One line per task and the total, or one TASK. RESTARTS are the processes that were the task before, since the\n"
        "directory began; LOST are variables that it had and its process of now has not. DATA is what its variables,\n"
        "their slots, values on their way and the records of all that it has take, not the size of the process. PUSHES/S and\n"
        "BYTES/S are of the last seconds. Who may not read every container sees - for sums over all of them. A last line\n"
        "says which trainers have not said yet that the job is done, once one has, and when it is. Where the directory has a\n"
        "checkpoint_dir, a line says which checkpoint is the last one, how far the next one is, why the last attempt failed or\n"
        "was refused, and when they are made. A task that does not let this program in is `refused` and counts apart: as a rule\n"
        "one on a worker's host, whose key file has the line of that host only. Exit status 1 when a task is down, or refused\n"
        "though it is of the directory's job (or the only one asked), or has lost variables, or when two processes say that\n"
        "they are the same task. --watch asks again and again, on one session, and draws over the last round on a terminal; an\n"
        "interrupt ends it with exit status 0.\n",
};

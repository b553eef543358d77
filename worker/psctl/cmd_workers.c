/* SPDX-License-Identifier: Apache-2.0 */
/* psctl workers: the sessions that one task knows. By default this is the directory task, which knows all sessions that use
 * variables. Failure modes, exit 1: a task is down: it is named; the directory task is down: the other tasks are asked. */
#include "psctl.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RATE_KNOWN_MS = 10000 };

struct sessions {
    ps_session_info *at;
    size_t count, capacity;
    char host[65];
};

/* True if s is the session of this psctl process, which is left out of the list. */
static bool is_us(const struct sessions *all, const ps_session_info *s)
{
    return s->pid == (uint32_t)getpid() && strcmp(s->program, "psctl") == 0 && strcmp(s->host, all->host) == 0;
}

/* Add a session. A session that several tasks know is listed once, with the entry of the task that heard from it last. */
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
    all->at = cli_grow(all->at, all->count, &all->capacity, sizeof(*all->at));
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

static const char *task_cell(const void *row, char *buf, size_t n)
{
    const ps_session_info *s = row;
    return psctl_task_text(s->job, s->task, buf, n);
}

static json_t *task_value(const void *row)
{
    const ps_session_info *s = row;
    return psctl_task_value(s->job, s->task);
}

static bool has_step(const void *row)
{
    const ps_session_info *s = row;
    return s->global_step >= 0;
}

/* True if steps_per_second is known. It is 0 before the second heartbeat with a step, so 0 counts as known only in a session
 * older than RATE_KNOWN_MS. An ended session has no rate. */
static bool has_rate(const void *row)
{
    const ps_session_info *s = row;
    return has_step(row) && s->connected && (s->steps_per_second > 0 || s->age_ms >= RATE_KNOWN_MS);
}

static const char *heard_cell(const void *row, char *buf, size_t n)
{
    const ps_session_info *s = row;
    char text[32];
    (void)snprintf(buf, n, "%s ago", cli_duration(s->heard_ms, text, sizeof(text)));
    return buf;
}

static const char *state_cell(const void *row, char *buf, size_t n)
{
    const ps_session_info *s = row;
    (void)buf;
    (void)n;
    return !s->connected ? "gone" : s->stopping ? "stopping" : "connected";
}

static json_t *state_value(const void *row)
{
    return json_string(state_cell(row, NULL, 0));
}

static bool has_values(const void *row)
{
    const ps_session_info *s = row;
    return s->values[0] != '\0';
}

/* Turn the text with which a worker reports its values, "loss=0.25 accuracy=0.9", into JSON: {"loss": 0.25, "accuracy": 0.9}. */
static json_t *values_value(const void *row)
{
    const ps_session_info *s = row;
    char copy[sizeof(s->values)], *rest = NULL;
    json_t *all = json_object();
    memcpy(copy, s->values, sizeof(copy));
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        if (equals != NULL) {
            *equals = '\0';
            (void)json_object_set_new(all, word, cli_json_f64(strtod(equals + 1, NULL)));
        }
    }
    return all;
}

static bool is_same_process(const ps_session_info *a, const ps_session_info *b)
{
    return a->pid == b->pid && a->task == b->task && strcmp(a->job, b->job) == 0 && strcmp(a->host, b->host) == 0 &&
           strcmp(a->program, b->program) == 0;
}

bool psctl_shows_session(const ps_session_info *sessions, size_t count, size_t i, bool all)
{
    const ps_session_info *s = &sessions[i];
    bool shown = s->heard_ms < PSCTL_GONE_SHOWN_MS;
    for (size_t k = 0; !all && !s->connected && shown && k < count; k++) {
        const ps_session_info *other = &sessions[k];
        bool later = other->connected || other->heard_ms < s->heard_ms || (other->heard_ms == s->heard_ms && k < i);
        shown = k == i || !later || !is_same_process(s, other);
    }
    return all || s->connected || shown;
}

#define FIELD(kind_, field_) CLI_FIELD(kind_, ps_session_info, field_)
static const struct cli_column columns[] = {
    {"TASK", "task", CLI_OTHER, .cell = task_cell, .value = task_value},
    {"HOST", "host", FIELD(CLI_TEXT, host)},
    {"PID", "pid", FIELD(CLI_U32, pid)},
    {"PROGRAM", "program", FIELD(CLI_TEXT, program)},
    {NULL, "id", FIELD(CLI_TEXT, id)},
    {"STEP", "global_step", FIELD(CLI_I64, global_step), .has = has_step},
    {"STEPS/S", "steps_per_second", FIELD(CLI_RATE, steps_per_second), .has = has_rate},
    {"LAST-HEARD", "heard_ms", FIELD(CLI_TIME, heard_ms), .cell = heard_cell},
    {NULL, "age_ms", FIELD(CLI_TIME, age_ms)},
    {NULL, "waits", FIELD(CLI_U32, waits)},
    {NULL, "in_progress", FIELD(CLI_U32, in_progress)},
    {"HOLDS", "held_bytes", FIELD(CLI_BYTES, held_bytes)},
    {"STATE", "state", CLI_OTHER, .cell = state_cell, .value = state_value},
    {NULL, "connected", FIELD(CLI_BOOL, connected)},
    {NULL, "stopping", FIELD(CLI_BOOL, stopping)},
    {NULL, "values", CLI_OTHER, .value = values_value, .has = has_values},
    {NULL, "rival", FIELD(CLI_TEXT, rival)},
    {NULL, "identity", FIELD(CLI_TEXT, identity)},
    {NULL, "key_id", FIELD(CLI_TEXT, key_id)},
};
enum { COLUMNS = CLI_COUNT(columns), IDENTITY = COLUMNS - 2 };

struct line {
    const char *identity, *key_id;
    uint32_t sessions;
};
static const struct cli_column line_columns[] = {
    {"IDENTITY", "identity", CLI_FIELD(CLI_STRING, struct line, identity)},
    {"KEY-ID", "key_id", CLI_FIELD(CLI_STRING, struct line, key_id)},
    {"SESSIONS", "sessions", CLI_FIELD(CLI_U32, struct line, sessions)},
};

static int by_line(const void *x, const void *y)
{
    const ps_session_info *a = x;
    const ps_session_info *b = y;
    int order = strcmp(a->identity, b->identity);
    return order != 0 ? order : strcmp(a->key_id, b->key_id);
}

/* --by_key: print how many connected sessions use each key (line of the key file). */
static void show_lines(struct psctl *c, struct sessions *all)
{
    struct cli_list list;
    size_t count = 0;
    for (size_t i = 0; i < all->count; i++) {
        if (all->at[i].connected && all->at[i].key_id[0] != '\0') {
            all->at[count++] = all->at[i];
        }
    }
    all->count = count;
    if (count > 0) {
        qsort(all->at, count, sizeof(all->at[0]), by_line);
    }
    cli_list_begin(&list, "keys", line_columns, CLI_COUNT(line_columns), c->json);
    for (size_t i = 0; i < count;) {
        struct line line = {.identity = all->at[i].identity, .key_id = all->at[i].key_id};
        for (; i < count && strcmp(line.identity, all->at[i].identity) == 0 && strcmp(line.key_id, all->at[i].key_id) == 0; i++) {
            line.sessions++;
        }
        cli_list_add(&list, &line);
    }
    cli_list_end(&list, &c->room);
}

/* True if some task has a table of rights: then the table has a column with the sessions' identities. */
static bool any_identity(const struct sessions *all)
{
    bool any = false;
    for (size_t i = 0; i < all->count; i++) {
        any = any || all->at[i].identity[0] != '\0';
    }
    return any;
}

/* Ask task `only` (-1: all that are up) for its sessions. JSON's "asked" becomes the names of the tasks. */
static void ask_sessions(struct psctl *c, int only, struct sessions *all)
{
    json_t *asked = json_array();
    for (int i = -1; psctl_next(c, only, &i);) {
        (void)json_array_append_new(asked, json_string(ps_cluster_task_name(c->session, i)));
        (void)psctl_heard(c, i, ps_task_sessions(c->session, i, psctl_left_ms(c), each, all));
    }
    if (c->json) {
        cli_json_put("asked", json_incref(asked));
    }
    json_decref(asked);
    if (all->count > 0) {
        qsort(all->at, all->count, sizeof(all->at[0]), by_job);
    }
}

/* Print a note for each worker with a rival: another process that says it is the same task. */
static void note_rivals(struct psctl *c, const struct sessions *all)
{
    for (size_t i = 0; i < all->count; i++) {
        const ps_session_info *s = &all->at[i];
        if (s->rival[0] != '\0') {
            char name[96];
            psctl_note(c, "%s is process %u on %s; %s says that it is this task too and was refused: if both run, end one",
                       psctl_task_text(s->job, s->task, name, sizeof(name)), s->pid, s->host, s->rival);
        }
    }
}

static void show_sessions(struct psctl *c, const struct sessions *all)
{
    struct cli_column shown[COLUMNS];
    struct cli_list list;
    memcpy(shown, columns, sizeof(shown));
    shown[IDENTITY].heading = any_identity(all) ? "IDENTITY" : NULL;
    cli_list_begin(&list, "sessions", shown, COLUMNS, c->json);
    size_t left_out = 0;
    for (size_t i = 0; i < all->count; i++) {
        if (psctl_shows_session(all->at, all->count, i, c->all)) {
            cli_list_add(&list, &all->at[i]);
        } else {
            left_out++;
        }
    }
    cli_list_end(&list, &c->room);
    if (c->json) {
        cli_json_put("gone_left_out", json_integer((json_int_t)left_out));
    } else if (left_out > 0) {
        (void)printf("%zu more session%s gone, for over a minute or replaced by the same process: --all shows %s\n", left_out,
                     left_out == 1 ? " is" : "s are", left_out == 1 ? "it" : "them");
    }
    note_rivals(c, all);
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
    (void)gethostname(all.host, sizeof(all.host) - 1); /* on an error is_us() fails, and psctl's own session is listed too */
    psctl_answer(c);
    ask_sessions(c, only, &all);
    if (c->by_key) {
        show_lines(c, &all);
    } else {
        show_sessions(c, &all);
    }
    free(all.at);
    psctl_down(c, only);
    psctl_answer_end(c);
    bool up = psctl_all_up(c, only);
    if (c->task == NULL && only < 0) {
        psctl_note(c, "the directory does not answer: these are the sessions that the other tasks know");
    }
    return up ? PSCTL_OK : PSCTL_FAILED;
}

const struct psctl_verb psctl_verb_workers = {
    .name = "workers",
    .arguments = "",
    .summary = "sessions: who trains, at which step, last heard",
    .flags = PSCTL_FLAG(TASK) | PSCTL_FLAG(WATCH) | PSCTL_FLAG(ALL) | PSCTL_FLAG(BY_KEY),
    .words = "",
    .show = show,
    .help = "The sessions that the directory knows, which are all that created or looked up a variable; --task asks\n"
            "another task for those that are connected with it. A program that is no task of the cluster has - for a\n"
            "TASK; STEP is - until it has said one. STATE is `connected`, `stopping` once it was told to stop, or `gone`\n"
            "where its connection ended without a goodbye: killed, or cut off. A session that is gone is shown for a\n"
            "minute, where its process has no newer one, and with --all until the task forgets it (session_keep). A note names a "
            "process that was refused\n"
            "because another one is the same task. With --by_key, for each line of the key file, how many connected sessions\n"
            "run with it: a line that a rotation replaces may go when it is not there any more. While the directory is down the "
            "other tasks are asked for theirs.\n",
};

/* SPDX-License-Identifier: Apache-2.0 */
/* psctl events: what has happened at the tasks, sorted by time, and with --follow what happens from now on: a thread for each
 * task asks for the next event. Failure modes: a task that does not answer is named; --follow asks it again each second. Where a
 * task has dropped events before they were asked for, their number is printed. Exit 1: a task did not answer; with --follow: none
 * of the tasks can be asked. */
#include "psctl.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WAIT_MS = 20000, AGAIN_MS = 1000, STACK_BYTES = 256 << 10, TIME_BYTES = 40 };

struct row {
    ps_event_info e;
    const char *at;
    int64_t unix_ms;
};

static int64_t now_unix_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Write a time into buf as local time, "2026-01-31T12:00:00.123+0100". */
static const char *time_text(int64_t unix_ms, char *buf, size_t n)
{
    struct tm tm;
    char day[24] = "", zone[8] = "";
    const time_t seconds = (time_t)(unix_ms / 1000);
    if (localtime_r(&seconds, &tm) != NULL) {
        (void)strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
        (void)strftime(zone, sizeof(zone), "%z", &tm);
    }
    (void)snprintf(buf, n, "%s.%03d%s", day, (int)(unix_ms % 1000), zone);
    return buf;
}

static const char *level_name(uint32_t level)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    return names[level < CLI_COUNT(names) ? level : CLI_COUNT(names) - 1];
}

static const char *time_cell(const void *row, char *buf, size_t n)
{
    return time_text(((const struct row *)row)->unix_ms, buf, n);
}

static json_t *time_value(const void *row)
{
    char buf[TIME_BYTES];
    return json_string(time_cell(row, buf, sizeof(buf)));
}

static const char *level_cell(const void *row, char *buf, size_t n)
{
    (void)buf, (void)n;
    return level_name(((const struct row *)row)->e.level);
}

static json_t *level_value(const void *row)
{
    return json_string(level_name(((const struct row *)row)->e.level));
}

#define FIELD(kind_, field_) CLI_FIELD(kind_, struct row, field_)
static const struct cli_column columns[] = {
    {"TIME", "time", CLI_OTHER, .cell = time_cell, .value = time_value},
    {"AT", "at", FIELD(CLI_STRING, at)},
    {NULL, "number", FIELD(CLI_U64, e.number)},
    {NULL, "life", FIELD(CLI_HEX, e.life)},
    {"LEVEL", "level", CLI_OTHER, .cell = level_cell, .value = level_value},
    {"EVENT", "event", FIELD(CLI_TEXT, e.event)},
    {"WHAT", "text", FIELD(CLI_TEXT, e.text)},
};

struct rows {
    struct row *rows;
    size_t count, capacity, of_task;
    const char *at;
};

static void each(void *ctx, const ps_event_info *e)
{
    struct rows *r = ctx;
    r->rows = cli_grow(r->rows, r->count, &r->capacity, sizeof(*r->rows));
    r->rows[r->count++] = (struct row){.e = *e, .at = r->at, .unix_ms = now_unix_ms() - (int64_t)e->age_ms};
    r->of_task++;
}

static int by_time(const void *a, const void *b)
{
    const struct row *x = a;
    const struct row *y = b;
    if (x->at == y->at) {
        return x->e.number < y->e.number ? -1 : x->e.number > y->e.number;
    }
    return x->unix_ms < y->unix_ms ? -1 : x->unix_ms > y->unix_ms;
}

static ps_status list_of(struct psctl *c, int task, struct rows *r)
{
    ps_event_place place = {.struct_bytes = sizeof(place)};
    ps_status st = PS_OK;
    do {
        r->of_task = 0;
        st = ps_task_events(c->session, task, &place, psctl_left_ms(c), each, r);
    } while (st == PS_OK && r->of_task > 0);
    return st;
}

static enum psctl_exit show(struct psctl *c)
{
    struct psctl_list l;
    struct rows r = {.rows = NULL};
    if (!psctl_list_begin(&l, c, c->task, "events", columns, CLI_COUNT(columns))) {
        return PSCTL_USAGE;
    }
    l.none = "no events";
    while (psctl_list_next(&l)) {
        r.at = l.at;
        (void)psctl_heard(c, l.task, list_of(c, l.task, &r));
    }
    if (r.count > 0) {
        qsort(r.rows, r.count, sizeof(*r.rows), by_time);
    }
    for (size_t i = 0; i < r.count; i++) {
        cli_list_add(&l.rows, &r.rows[i]);
    }
    free(r.rows);
    return psctl_list_end(&l);
}

struct follower {
    struct psctl *c;
    const char *at;
    int task;
    bool begun;
    bool away; /* the last request to the task failed and this was printed, so further failures are not printed */
    pthread_t thread;
    size_t count; /* how many rows the last answer has */
    struct row rows[128];
};

static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;

static void each_followed(void *ctx, const ps_event_info *e)
{
    struct follower *f = ctx;
    if (f->count < CLI_COUNT(f->rows)) {
        f->rows[f->count++] = (struct row){.e = *e, .at = f->at, .unix_ms = now_unix_ms() - (int64_t)e->age_ms};
    }
}

static void print_missed(const struct follower *f, uint64_t missed)
{
    char now[TIME_BYTES];
    (void)time_text(now_unix_ms(), now, sizeof(now));
    if (f->c->json) {
        cli_json_print(json_pack("{s:s, s:s, s:I}", "time", now, "at", f->at, "missed", (json_int_t)missed));
    } else {
        (void)printf("%s  %s  %" PRIu64 " event%s missed: the task keeps psd --events_max of them\n", now, f->at, missed,
                     missed == 1 ? "" : "s");
    }
}

static void print_row(const struct follower *f, const struct row *row)
{
    char when[TIME_BYTES];
    if (f->c->json) {
        cli_json_print(cli_row(columns, CLI_COUNT(columns), row));
    } else {
        (void)printf("%s  %s  %-5s  %s  %s\n", time_text(row->unix_ms, when, sizeof(when)), row->at, level_name(row->e.level),
                     row->e.event, row->e.text);
    }
}

static bool goes_on(struct follower *f, ps_status st)
{
    const bool again = st == PS_UNAVAILABLE || st == PS_DEADLINE_EXCEEDED || st == PS_ABORTED || st == PS_RESOURCE_EXHAUSTED;
    if (!f->away || !again) {
        psctl_note(f->c, "%s %s: %s", f->at, again ? "is away" : "cannot be followed", ps_last_error());
    }
    f->away = true;
    return again;
}

static void *follow_task(void *arg)
{
    struct follower *f = arg;
    ps_event_place place = {.struct_bytes = sizeof(place), .wait_ms = WAIT_MS};
    const struct timespec pause = {.tv_sec = AGAIN_MS / 1000, .tv_nsec = AGAIN_MS % 1000 * 1000000};
    bool goes = true;
    while (goes) {
        f->count = 0;
        ps_status st = ps_task_events(f->c->session, f->task, &place, f->c->timeout_ms, each_followed, f);
        (void)pthread_mutex_lock(&output);
        if (st != PS_OK) {
            goes = goes_on(f, st);
        } else {
            f->away = false;
            if (place.missed > 0) {
                print_missed(f, place.missed);
            }
            for (size_t i = 0; i < f->count; i++) {
                print_row(f, &f->rows[i]);
            }
            goes = fflush(stdout) == 0;
        }
        (void)pthread_mutex_unlock(&output);
        if (goes && st != PS_OK) {
            (void)nanosleep(&pause, NULL); /* sleep: ask a task that is away once a second, not all the time */
        }
    }
    return NULL;
}

static enum psctl_exit follow(struct psctl *c)
{
    int only = -1;
    pthread_attr_t attr;
    enum psctl_exit code = psctl_begin(c);
    if (code != PSCTL_OK || !psctl_only_task(c, c->task, &only)) {
        return code != PSCTL_OK ? code : PSCTL_USAGE;
    }
    struct follower *of = calloc((size_t)c->task_count, sizeof(*of));
    if (of == NULL || pthread_attr_init(&attr) != 0) {
        free(of);
        psctl_error(c, PS_RESOURCE_EXHAUSTED, "out of memory");
        return PSCTL_FAILED;
    }
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    for (int i = 0; i < c->task_count; i++) {
        of[i] = (struct follower){.c = c, .task = i, .at = ps_cluster_task_name(c->session, i)};
        of[i].begun = psctl_is_meant(only, i) && pthread_create(&of[i].thread, &attr, follow_task, &of[i]) == 0;
        if (psctl_is_meant(only, i) && !of[i].begun) {
            psctl_note(c, "%s cannot be followed: no thread for it", of[i].at);
        }
    }
    for (int i = 0; i < c->task_count; i++) {
        if (of[i].begun) {
            (void)pthread_join(of[i].thread, NULL);
        }
    }
    (void)pthread_attr_destroy(&attr);
    free(of);
    return PSCTL_FAILED; /* all threads have ended by errors; a signal ends the process without coming here */
}

static enum psctl_exit run(struct psctl *c)
{
    return c->follow ? follow(c) : psctl_rounds(c, show);
}

const struct psctl_verb psctl_verb_events = {
    .name = "events",
    .arguments = "",
    .summary = "what has happened: tasks, workers, checkpoints, denials",
    .flags = PSCTL_FLAG(TASK) | PSCTL_FLAG(FOLLOW),
    .words = "",
    .run = run,
    .help = "What has happened at the tasks, by time: tasks that came and went, workers, chiefs, recoveries, checkpoints,\n"
            "resets, denials. Each task keeps the newest in its memory (psd --events_max); a restart loses them. With\n"
            "--follow also what happens from now on, with --json as an object a line; where events were dropped before\n"
            "psctl could ask for them, their number is in their place. Names and fields are those of psd's log.\n",
};

/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the tasks, asked for and shown by code of psctl.
 *
 * Happy path: look_at_tasks() opens a session, which stays open, and asks all tasks for their state, at most once in --every.
 * /metrics and /api/status then ask the tasks for more. Failure modes: if no task answers at first, there is no session, and a
 * later request tries again. A task that does not answer is shown as down. If no task has answered for AWAY_MS, the session is
 * closed, and the next request opens another one, because the cluster may be another one now. */
#include "exporter.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { AWAY_MS = 30000, SECTION_BYTES_MAX = 8 << 20 };

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx, (void)level, (void)line; /* the answers contain errors */
}

void look_init(struct look *l, const struct exporter_options *o)
{
    memset(l, 0, sizeof(*l));
    l->o = o;
    l->error_status = PS_UNAVAILABLE;
    l->events = calloc(EXPORTER_EVENTS_KEPT, sizeof(*l->events));
    if (l->events == NULL) {
        (void)fprintf(stderr, "psd-exporter: out of memory\n");
        exit(1);
    }
}

static void leave(struct look *l)
{
    free(l->places);
    free(l->c.infos);
    l->places = NULL;
    (void)ps_session_close(l->c.session); /* no check: a session's failure was reported when it happened */
    memset(&l->c, 0, sizeof(l->c));
    l->event_count = 0;
}

void look_fini(struct look *l)
{
    leave(l);
    free(l->events);
}

static bool keep_error(struct look *l, ps_status st, const char *text)
{
    l->error_status = st;
    (void)snprintf(l->error, sizeof(l->error), "%s", text);
    return false;
}

/* Open a session with the first address of --target that answers. False: no address answers, or no memory; see l->error. */
static bool open_session(struct look *l)
{
    ps_session_options o;
    char error[512] = "";
    char *saved = NULL;
    const char *targets = l->o->target != NULL ? l->o->target : getenv("PSD_TARGET");
    char *all = strdup(targets != NULL && targets[0] != '\0' ? targets : "127.0.0.1:2222");
    ps_session_options_init(&o);
    o.cluster_name = NULL;
    o.operation_timeout_ms = l->o->timeout_ms;
    o.log = no_log;
    o.log_level = PS_LOG_ERROR;
    o.program = "psd-exporter";
    o.fail_fast = true;
    o.key_file = l->o->key_file;
    o.tls_cert = l->o->tls_cert;
    o.tls_key = l->o->tls_key;
    o.tls_ca = l->o->tls_ca;
    l->c = (struct psctl){.json = true, .quiet = true, .timeout_ms = l->o->timeout_ms, .verb = &psctl_verb_status};
    l->c.task_count = -1;
    for (char *one = all == NULL ? NULL : strtok_r(all, ",", &saved); one != NULL && l->c.task_count < 0;
         one = strtok_r(NULL, ",", &saved)) {
        o.target = one;
        ps_status st = ps_session_open(&o, &l->c.session, error, sizeof(error));
        l->c.task_count = st == PS_OK ? ps_cluster_tasks(l->c.session) : -1;
        if (l->c.task_count < 0) {
            (void)keep_error(l, st == PS_OK ? PS_UNAVAILABLE : st, l->c.session != NULL ? ps_last_error() : error);
            (void)ps_session_close(l->c.session);
            l->c.session = NULL;
        }
    }
    free(all);
    if (l->c.session == NULL) {
        return false;
    }
    l->places = calloc((size_t)l->c.task_count + 1, sizeof(*l->places));
    if (l->places == NULL) {
        leave(l);
        return keep_error(l, PS_RESOURCE_EXHAUSTED, "out of memory");
    }
    for (int i = 0; i < l->c.task_count; i++) {
        l->places[i].struct_bytes = sizeof(l->places[i]);
    }
    l->error[0] = '\0';
    return true;
}

static void write_when(struct look *l)
{
    struct tm tm;
    time_t now = time(NULL);
    l->when[0] = '\0';
    if (localtime_r(&now, &tm) != NULL) {
        (void)strftime(l->when, sizeof(l->when), "%Y-%m-%dT%H:%M:%S%z", &tm);
    }
    l->c.when = l->when;
}

bool look_at_tasks(struct look *l)
{
    const int64_t now_ms = cli_clock_ms();
    if (l->looked_ms != 0 && now_ms - l->looked_ms < l->o->every_ms) {
        return l->c.session != NULL;
    }
    bool good = l->c.session != NULL || open_session(l);
    if (good) {
        l->c.argv = l->argv;
        write_when(l);
        psctl_restart_clock(&l->c);
        ps_session_set_deadline(l->c.session, 0); /* 0: the session has no deadline; requests have their own timeouts */
        good = psctl_ask(&l->c, l->o->timeout_ms / 2) == PSCTL_OK;
        if (!good) {
            (void)keep_error(l, PS_UNAVAILABLE, ps_last_error());
        }
    }
    bool any = false;
    for (int i = 0; good && i < l->c.task_count; i++) {
        any = any || l->c.infos[i].up;
    }
    l->looked_ms = cli_clock_ms();
    l->took_seconds = (double)(l->looked_ms - now_ms) / 1000;
    l->uncertain_ms = any ? 0 : l->uncertain_ms == 0 ? l->looked_ms : l->uncertain_ms;
    if (l->c.session != NULL && (!good || (!any && l->looked_ms - l->uncertain_ms >= AWAY_MS))) {
        leave(l);
        l->uncertain_ms = 0;
    }
    return l->c.session != NULL;
}

struct taken {
    struct look *l;
    const char *at;
    size_t count;
};

static void each_event(void *ctx, const ps_event_info *e)
{
    struct taken *t = ctx;
    struct look *l = t->l;
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (l->event_count == EXPORTER_EVENTS_KEPT) {
        memmove(l->events, l->events + 1, (EXPORTER_EVENTS_KEPT - 1) * sizeof(*l->events));
        l->event_count--;
    }
    const int64_t unix_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 - (int64_t)e->age_ms;
    size_t at = l->event_count++;
    /* sort by time: the events of one task come together, before those of the next task */
    while (at > 0 && l->events[at - 1].unix_ms > unix_ms) {
        l->events[at] = l->events[at - 1];
        at--;
    }
    l->events[at] = (struct exporter_event){.e = *e, .unix_ms = unix_ms};
    (void)snprintf(l->events[at].at, sizeof(l->events[at].at), "%s", t->at);
    t->count++;
}

void look_at_events(struct look *l)
{
    struct taken t = {.l = l};
    for (int i = -1; l->c.session != NULL && psctl_next(&l->c, -1, &i);) {
        t.at = ps_cluster_task_name(l->c.session, i);
        do {
            t.count = 0;
        } while (ps_task_events(l->c.session, i, &l->places[i], l->o->timeout_ms, each_event, &t) == PS_OK && t.count > 0);
    }
}

static void put_events(const struct look *l)
{
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    cli_json_list("events");
    for (size_t i = 0; i < l->event_count; i++) {
        const struct exporter_event *e = &l->events[i];
        cli_json_put(NULL, json_pack("{s:I, s:s, s:I, s:s, s:o, s:o}", "time_ms", (json_int_t)e->unix_ms, "at", e->at, "number",
                                     (json_int_t)e->e.number, "level", levels[e->e.level < 4 ? e->e.level : 3], "event",
                                     cli_json_text(e->e.event), "text", cli_json_text(e->e.text)));
    }
    cli_json_end();
}

struct section {
    const char *name;
    enum psctl_exit (*show)(struct psctl *c);
    const struct psctl_verb *verb;
};

/* Write member s->name of a JSON object: what a psctl verb prints with --json, or null if it prints nothing or too much. */
static void put_section(struct look *l, const struct section *s, FILE *to)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (memory == NULL) {
        (void)fprintf(to, ",\"%s\":null", s->name);
        return;
    }
    cli_json_to(memory);
    l->c.verb = s->verb;
    psctl_restart_clock(&l->c);
    (void)s->show(&l->c); /* no check: an error is in `text` too */
    cli_json_to(NULL);
    const bool whole = fclose(memory) == 0 && bytes < SECTION_BYTES_MAX;
    size_t n = whole ? strcspn(text, "\n") : 0; /* the answer is the first line; an error may follow it */
    (void)fprintf(to, ",\"%s\":%.*s", s->name, n > 0 ? (int)n : 4, n > 0 ? text : "null");
    free(text);
}

static bool few_variables(const struct look *l)
{
    uint64_t count = 0;
    for (int i = 0; i < l->c.task_count; i++) {
        count += l->c.infos[i].up ? l->c.infos[i].variables : 0;
    }
    return count <= EXPORTER_VARIABLES_SHOWN * 10;
}

void look_status(struct look *l, FILE *to)
{
    const bool there = look_at_tasks(l);
    const struct section sections[] = {{"status", psctl_verb_status.show, &psctl_verb_status},
                                       {"workers", psctl_verb_workers.show, &psctl_verb_workers},
                                       {"waits", psctl_verb_waits.show, &psctl_verb_waits},
                                       {"rounds", psctl_verb_rounds.show, &psctl_verb_rounds},
                                       {"queues", psctl_verb_queues.show, &psctl_verb_queues},
                                       {"work", psctl_verb_work.show, &psctl_verb_work},
                                       {"checkpoints", psctl_checkpoint_list, &psctl_verb_checkpoint},
                                       {"vars", psctl_verb_vars.show, &psctl_verb_vars}};
    (void)fprintf(to, "{\"exporter\":\"%s\"", ps_version());
    if (!there) {
        json_t *error = psctl_error_value(l->error_status, PS_REASON_NONE, l->error);
        char *text = json_dumps(error, JSON_COMPACT);
        (void)fprintf(to, ",\"error\":%s}\n", text != NULL ? text : "null");
        free(text);
        json_decref(error);
        return;
    }
    for (size_t i = 0; i < CLI_COUNT(sections); i++) {
        if (sections[i].verb != &psctl_verb_vars || few_variables(l)) {
            put_section(l, &sections[i], to);
        }
    }
    look_at_events(l);
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (memory != NULL) {
        cli_json_to(memory);
        cli_json_object(NULL);
        put_events(l);
        cli_json_end();
        cli_json_to(NULL);
        if (fclose(memory) == 0 && bytes > 3) {
            (void)fprintf(to, ",%.*s", (int)bytes - 3, text + 1); /* the members alone, without braces and newline */
        }
        free(text);
    }
    (void)fprintf(to, "}\n");
}

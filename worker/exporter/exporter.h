/* SPDX-License-Identifier: Apache-2.0 */
/* psd-exporter: serves a cluster's state over HTTP, for Prometheus and for people. It uses <ps.h> and psctl's code: /api/status
 * gives what psctl --json prints. */
#ifndef EXPORTER_H
#define EXPORTER_H

#include "psctl/psctl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EXPORTER_VARIABLES_SHOWN = 100,   /* so many of the largest variables have samples of their own; the others have one sum */
    EXPORTER_VARIABLES_ASKED = 20000, /* if all tasks together have more variables, no lists of variables are asked for */
    EXPORTER_EVENTS_KEPT = 200,       /* most events that the page shows */
    EXPORTER_HOSTS_MAX = 16,
    EXPORTER_TOKEN_BYTES_MAX = 255
};

struct exporter_options {
    const char *target, *key_file, *tls_cert, *tls_key, *tls_ca;
    const char *listen, *token_file;
    const char *hosts[EXPORTER_HOSTS_MAX + 1]; /* further allowed names in requests' Host header, then NULL */
    int64_t timeout_ms, every_ms;
    bool version, help;
};

/* ---- look.c: the session, and what the tasks say ---- */
struct exporter_event {
    ps_event_info e;
    char at[80];
    int64_t unix_ms;
};
struct look {
    const struct exporter_options *o;
    struct psctl c; /* what psctl's functions need; c.session NULL: no session is open */
    char *argv[1];  /* c.argv, without arguments */
    char when[40];
    char error[1024]; /* why no session is open; "": a session is open */
    ps_status error_status;
    int64_t looked_ms; /* time in ms when the tasks were asked last; 0: never */
    double took_seconds;
    int64_t uncertain_ms;   /* time in ms since which no task has answered; 0: a task answered the last request */
    ps_event_place *places; /* [c.task_count]: for each task, the position in its events up to which they were fetched */
    struct exporter_event *events;
    size_t event_count; /* the oldest first */
};
void look_init(struct look *l, const struct exporter_options *o);
void look_fini(struct look *l);
/** Ask all tasks for their state, unless they were asked within the last o->every_ms. False: no session; l->error says why. */
bool look_at_tasks(struct look *l);
/** Fetch from all tasks that are up the events since the last call, into l->events. */
void look_at_events(struct look *l);
void look_status(struct look *l, FILE *to);

/* ---- metrics.c ---- */
void metrics_write(struct look *l, FILE *to);

/* ---- page.c: the file page.html ---- */
extern const char exporter_page[];
extern const char exporter_page_end[];

/* ---- http.c ---- */
/** Serve until SIGINT or SIGTERM. Returns the exit status; prints what failed. */
int http_serve(const struct exporter_options *o, const char *token);

#endif

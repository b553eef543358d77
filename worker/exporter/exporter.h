/* SPDX-License-Identifier: Apache-2.0 */
/* psd-exporter: a cluster's state for Prometheus and for people, over HTTP. A user of <ps.h>, by psctl's own parts: what
 * /api/status answers is what psctl --json prints. */
#ifndef EXPORTER_H
#define EXPORTER_H

#include "psctl/psctl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EXPORTER_VARIABLES_SHOWN = 100,   /* the largest, each with labels of its own; the others are summed */
    EXPORTER_VARIABLES_ASKED = 20000, /* variables of all tasks; above it none is asked for by name */
    EXPORTER_EVENTS_KEPT = 200,       /* shown by the page */
    EXPORTER_HOSTS_MAX = 16,
    EXPORTER_TOKEN_BYTES_MAX = 255
};

/* The command line. */
struct exporter_options {
    const char *target, *key_file, *tls_cert, *tls_key, *tls_ca;
    const char *listen, *token_file;
    const char *hosts[EXPORTER_HOSTS_MAX + 1]; /* names in the Host header that are served, then NULL */
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
    struct psctl c; /* with the session; c.session NULL: there is none */
    char *argv[1];  /* of c: no arguments */
    char when[40];
    char error[1024];       /* why there is no session; "": there is one */
    ps_status error_status; /* of `error` */
    int64_t looked_ms;      /* when the tasks were asked last; 0: never */
    double took_seconds;    /* that took so long */
    int64_t uncertain_ms;   /* since when no task has answered; 0: one has */
    /* of each task */
    ps_event_place *places; /* [c.task_count] */
    struct exporter_event *events;
    size_t event_count; /* the oldest first */
};
void look_init(struct look *l, const struct exporter_options *o);
void look_fini(struct look *l);
/** Ask all tasks for their state, unless that was done within o->every_ms. False: there is no session; l->error says why. */
bool look_at_tasks(struct look *l);
/** Take in what has happened since the last call, from tasks that are up. */
void look_at_events(struct look *l);
/** Write the JSON of /api/status to `to`. */
void look_status(struct look *l, FILE *to);

/* ---- metrics.c ---- */
/** Write Prometheus' text format 0.0.4 to `to`. */
void metrics_write(struct look *l, FILE *to);

/* ---- page.c: the file page.html ---- */
extern const char exporter_page[];
extern const char exporter_page_end[];

/* ---- http.c ---- */
/** Serve until a signal of `ends` comes. Returns the exit status; prints what failed. */
int http_serve(const struct exporter_options *o, const char *token);

#endif

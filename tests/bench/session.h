/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of `make bench` share that open sessions, with the task that PSD_TARGET names or with one of their own. */
#ifndef BENCH_SESSION_H
#define BENCH_SESSION_H

#include "measure.h"

#include <ps.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

static atomic_bool ended;  /* by SIGTERM */
static char container[32]; /* of this process: others run beside it */

static inline void on_term(int number)
{
    (void)number;
    atomic_store(&ended, true);
}

static inline void check(ps_status st, const char *what)
{
    if (st != PS_OK) {
        (void)fprintf(stderr, "%s: %s: %s\n", what, ps_status_name(st), ps_last_error());
        exit(2);
    }
}

/* in: container; NULL: the standard one. */
static inline ps_session *open_at(const char *target, const char *in, ps_progress progress)
{
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    ps_session_options_init(&o);
    o.target = target;
    o.container = in;
    o.log_level = PS_LOG_WARN;
    o.progress = progress;
    if (ps_session_open(&o, &s, error, sizeof(error)) != PS_OK) {
        (void)fprintf(stderr, "%s\n", error);
        exit(2);
    }
    return s;
}

static inline ps_session *open_session(ps_progress progress)
{
    return open_at(getenv("PSD_TARGET"), container, progress);
}

/* Processes of the tasks, each once; returns how many. */
static inline int server_pids(ps_session *s, pid_t pids[BENCH_SERVERS_MAX])
{
    static ps_task_info infos[BENCH_SERVERS_MAX];
    int tasks = ps_cluster_tasks(s), count = 0;
    if (tasks < 1 || tasks > BENCH_SERVERS_MAX) {
        (void)fprintf(stderr, "%d tasks: %s\n", tasks, ps_last_error());
        exit(2);
    }
    check(ps_cluster_info(s, infos, sizeof(infos[0]), tasks, 5000), "the tasks");
    for (int i = 0; i < tasks; i++) {
        bool known = false;
        for (int k = 0; k < count; k++) {
            known = known || pids[k] == (pid_t)infos[i].pid;
        }
        if (!known) {
            pids[count++] = (pid_t)infos[i].pid;
        }
    }
    return count;
}

/* SIGTERM ends the measuring early; the container is bench-PID. */
static inline void bench_begin(void)
{
    struct sigaction term = {.sa_handler = on_term};
    (void)sigaction(SIGTERM, &term, NULL);
    (void)snprintf(container, sizeof(container), "bench-%d", (int)getpid());
}

static inline bool number(const char *text, size_t least, size_t most, size_t *out)
{
    char *end = NULL;
    *out = strtoull(text, &end, 10);
    return end != text && *end == '\0' && *out >= least && *out <= most;
}

#endif

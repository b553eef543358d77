/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --local: this process owns the ports, starts a process per task, watches them, and does the end of the run itself.
 *
 * Happy path: bind a socket per task on 127.0.0.1 (so that no port can be lost to another program between two steps) -> ps tasks,
 * with their sockets -> workers -> all workers have ended -> test, report, status -> ps tasks are told to end. Failure modes: a
 * worker that dies is reported, the others finish, status 1; a chief that dies before the model is ready, the end of a ps task,
 * SIGINT, SIGTERM or SIGHUP: everything is stopped, at a signal that insists (stop.h) at once. Should this process itself be
 * killed, the kernel kills the children (PR_SET_PDEATHSIG).
 */
#include "local.h"

#include "child.h"
#include "finish.h"
#include "say.h"
#include "stop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    WORKERS_END_MS = 2000, /* after SIGTERM: to finish a step */
    PS_END_MS = 4000,      /* after SIGTERM: to finish what is in progress; more than their own bound */
    ADDRESS_BYTES = 24,
    LISTEN_BACKLOG = 128
};

struct local {
    const struct flags *f;
    int ps, count;          /* ps tasks first, then the workers */
    struct child *children; /* [count] */
    int *sockets;           /* [count] */
    char *ps_hosts;         /* "--ps_hosts=h:p,..." */
    char *worker_hosts;
    char (*addresses)[ADDRESS_BYTES];
    int signal_fd;
    sigset_t mask;     /* before ours */
    int signal;        /* the first one that came */
    int64_t signal_ms; /* when; 0: none has */
    bool stopping;     /* ends are expected */
    bool failed;
    bool stop; /* everything is to end */
    struct child_output output;
    struct pollfd *polls; /* [1 + count * CHILD_PIPES] */
    int *poll_child;      /* [likewise]: which pipe each is */
};

static bool is_worker(const struct local *l, int i)
{
    return i >= l->ps;
}

/* ---- start ---- */

static int bind_one(struct local *l, int i)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    l->sockets[i] = fd;
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 || (!is_worker(l, i) && listen(fd, LISTEN_BACKLOG) != 0) ||
        getsockname(fd, (struct sockaddr *)&a, &bytes) != 0) {
        return say_error("--local: a port of 127.0.0.1: %s", strerror(errno));
    }
    (void)snprintf(l->addresses[i], ADDRESS_BYTES, "127.0.0.1:%u", (unsigned)ntohs(a.sin_port));
    return EXIT_DONE;
}

/* "--NAME=h:p,h:p" of children from .. to - 1 */
static char *hosts_flag(const struct local *l, const char *name, int from, int to)
{
    size_t bytes = strlen(name) + 4 + (size_t)(to - from) * ADDRESS_BYTES;
    size_t used = 0;
    char *text = malloc(bytes);
    if (text == NULL) {
        return NULL;
    }
    used += (size_t)snprintf(text, bytes, "--%s=", name);
    for (int i = from; i < to; i++) {
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", i > from ? "," : "", l->addresses[i]);
    }
    return text;
}

static int make(struct local *l)
{
    size_t n = (size_t)l->count;
    size_t polls = 1 + n * CHILD_PIPES;
    l->children = calloc(n, sizeof(*l->children));
    l->sockets = malloc(n * sizeof(*l->sockets));
    l->addresses = calloc(n, sizeof(*l->addresses));
    l->polls = calloc(polls, sizeof(*l->polls));
    l->poll_child = calloc(polls, sizeof(*l->poll_child));
    if (l->children == NULL || l->sockets == NULL || l->addresses == NULL || l->polls == NULL || l->poll_child == NULL) {
        return say_error("--local: no memory");
    }
    for (int i = 0; i < l->count; i++) {
        l->sockets[i] = -1;
        (void)memset(l->children[i].pipes, 0xff, sizeof(l->children[i].pipes)); /* -1 */
        (void)snprintf(l->children[i].name, sizeof(l->children[i].name), "/job:%s/task:%d", is_worker(l, i) ? "worker" : "ps",
                       is_worker(l, i) ? i - l->ps : i);
        l->children[i].chief = i == l->ps;
    }
    for (int i = 0; i < l->count; i++) {
        if (bind_one(l, i) != EXIT_DONE) {
            return EXIT_FAILED;
        }
    }
    l->ps_hosts = hosts_flag(l, "ps_hosts", 0, l->ps);
    l->worker_hosts = hosts_flag(l, "worker_hosts", l->ps, l->count);
    return l->ps_hosts != NULL && l->worker_hosts != NULL ? EXIT_DONE : say_error("--local: no memory");
}

/* Signals are read from a descriptor; the children's ends too. */
static int take_signals(struct local *l)
{
    sigset_t set;
    stop_set(&set);
    sigaddset(&set, SIGCHLD);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigprocmask(SIG_BLOCK, &set, &l->mask);
    l->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return l->signal_fd >= 0 ? EXIT_DONE : say_error("--local: %s", strerror(errno));
}

static int start_all(struct local *l)
{
    char *texts[FLAGS_COUNT] = {NULL};
    char *arguments[FLAGS_COUNT + 8];
    int status = EXIT_DONE;
    int given = flags_for_workers(l->f, texts);
    for (int i = 0; i < l->count && status == EXIT_DONE && given >= 0; i++) {
        char job[32];
        char task[40];
        char link[8];
        int n = 0;
        bool chief = l->children[i].chief;
        (void)snprintf(job, sizeof(job), "--job_name=%s", is_worker(l, i) ? "worker" : "ps");
        (void)snprintf(task, sizeof(task), "--task_index=%d", is_worker(l, i) ? i - l->ps : i);
        (void)snprintf(link, sizeof(link), ",%d,%d", chief && l->output.bar ? 1 : 0, chief ? 0 : 1);
        arguments[n++] = l->ps_hosts;
        arguments[n++] = l->worker_hosts;
        arguments[n++] = job;
        arguments[n++] = task;
        for (int k = 0; k < given && is_worker(l, i); k++) {
            arguments[n++] = texts[k];
        }
        arguments[n] = NULL;
        if (child_start(&l->children[i], arguments, link, is_worker(l, i) ? -1 : l->sockets[i], &l->mask) != 0) {
            status = say_error("--local: %s cannot be started: %s", l->children[i].name, strerror(errno));
        }
    }
    for (int k = 0; k < FLAGS_COUNT; k++) {
        free(texts[k]);
    }
    return given < 0 ? say_error("--local: no memory") : status;
}

/* ---- watch ---- */

static void on_end(struct local *l, int i)
{
    struct child *c = &l->children[i];
    char how[80];
    (void)child_how(c, how, sizeof(how));
    if (l->stopping) {
        return;
    }
    if (!is_worker(l, i)) {
        (void)say_error("%s (pid %ld, %s) %s: stopping everything", c->name, (long)c->pid, l->addresses[i], how);
        l->failed = true;
        l->stop = true;
    } else if (c->status != 0) {
        bool needed = c->chief && !c->ready;
        (void)say_error("%s (pid %ld) %s%s", c->name, (long)c->pid, how,
                        needed ? ": the chief ended before the model was ready, stopping everything"
                               : "; the other workers go on");
        l->failed = true;
        l->stop = l->stop || needed;
    }
}

static void kill_all(const struct local *l, bool workers, int number)
{
    for (int i = workers ? l->ps : 0; i < (workers ? l->count : l->ps); i++) {
        if (l->children[i].pid != 0 && !l->children[i].ended) {
            (void)kill(l->children[i].pid, number);
        }
    }
}

static void on_signals(struct local *l)
{
    struct signalfd_siginfo info;
    while (read(l->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD) {
            continue; /* one may stand for several: all are asked below */
        }
        l->signal = l->signal == 0 ? (int)info.ssi_signo : l->signal;
        l->stop = true;
        if (stop_insists(&l->signal_ms)) {
            kill_all(l, true, SIGKILL);
            kill_all(l, false, SIGKILL);
        }
    }
    for (int i = 0; i < l->count; i++) {
        if (child_reap(&l->children[i], &l->output)) {
            on_end(l, i);
        }
    }
}

/* Wait for something until the time is up (-1: no limit), and deal with it. */
static void pump(struct local *l, int timeout_ms)
{
    nfds_t n = 1;
    l->polls[0] = (struct pollfd){.fd = l->signal_fd, .events = POLLIN};
    for (int i = 0; i < l->count * CHILD_PIPES; i++) {
        int fd = l->children[i / CHILD_PIPES].pipes[i % CHILD_PIPES];
        if (fd >= 0) {
            l->poll_child[n] = i;
            l->polls[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
        }
    }
    if (poll(l->polls, n, timeout_ms) < 0) {
        return; /* EINTR: the caller looks and comes again */
    }
    for (nfds_t k = 1; k < n; k++) {
        if (l->polls[k].revents != 0) {
            child_read(&l->children[l->poll_child[k] / CHILD_PIPES], l->poll_child[k] % CHILD_PIPES, &l->output);
        }
    }
    if (l->polls[0].revents != 0) {
        on_signals(l);
    }
}

static int alive(const struct local *l, bool workers)
{
    int count = 0;
    for (int i = workers ? l->ps : 0; i < (workers ? l->count : l->ps); i++) {
        count += l->children[i].pid != 0 && !l->children[i].ended ? 1 : 0;
    }
    return count;
}

/* ---- the end ---- */

static void end_group(struct local *l, bool workers, int within_ms)
{
    int64_t deadline_ms = cli_clock_ms() + within_ms;
    kill_all(l, workers, SIGTERM);
    while (alive(l, workers) > 0 && cli_clock_ms() < deadline_ms) {
        pump(l, (int)(deadline_ms - cli_clock_ms()) + 1);
    }
    kill_all(l, workers, SIGKILL);
    while (alive(l, workers) > 0) {
        pump(l, -1);
    }
}

static int finish(struct local *l, const struct dataset *data)
{
    struct totals totals = {.complete = true};
    struct model_spec spec;
    struct cluster c = {.ps_count = l->ps, .trainer_count = l->count - l->ps, .target = l->addresses[0]};
    double loss = 0;
    for (int i = l->ps; i < l->count; i++) {
        const struct work *w = &l->children[i].work;
        if (!l->children[i].done || w->steps == 0) {
            continue;
        }
        totals.work.steps += w->steps;
        totals.work.samples += w->samples;
        totals.work.seconds = w->seconds > totals.work.seconds ? w->seconds : totals.work.seconds;
        loss += w->loss * (double)w->samples;
    }
    totals.work.loss = totals.work.samples > 0 ? loss / (double)totals.work.samples : NAN;
    totals.work.epochs = (double)totals.work.samples / (double)data->train_count;
    size_t bytes = strlen(l->ps_hosts) + strlen(l->worker_hosts);
    c.spec = malloc(bytes);
    if (c.spec == NULL || model_spec_parse(l->f->model, data->features, data->classes, &spec) != 0) {
        free(c.spec);
        return say_error("--local: no memory");
    }
    (void)snprintf(c.spec, bytes, "ps=%s;worker=%s", strchr(l->ps_hosts, '=') + 1, strchr(l->worker_hosts, '=') + 1);
    int status = finish_run(l->f, &c, &spec, data, &totals);
    free(c.spec);
    return status;
}

static bool any_done(const struct local *l)
{
    for (int i = l->ps; i < l->count; i++) {
        if (l->children[i].done) {
            return true;
        }
    }
    return false;
}

static int run(struct local *l, const struct dataset *data)
{
    int status = make(l);
    if (status == EXIT_DONE) {
        status = take_signals(l);
    }
    if (status != EXIT_DONE) {
        return status;
    }
    status = start_all(l);
    while (status == EXIT_DONE && !l->stop && alive(l, true) > 0) {
        pump(l, -1);
    }
    if (status == EXIT_DONE && !l->stop && any_done(l)) {
        status = finish(l, data);
        pump(l, 0); /* what happened meanwhile */
    }
    l->stopping = true;
    end_group(l, true, WORKERS_END_MS);
    l->output.mute = true; /* the ps tasks see each other go */
    end_group(l, false, PS_END_MS);
    if (l->signal != 0) {
        say_note("stopped by signal %d (%s)", l->signal, strsignal(l->signal));
        return EXIT_SIGNAL + l->signal;
    }
    return l->failed ? EXIT_FAILED : status;
}

int local_run(const struct flags *f)
{
    char err[DATA_ERR_BYTES];
    struct dataset data;
    struct local l = {.f = f, .ps = f->local_ps, .count = f->local_ps + f->local_workers, .signal_fd = -1};
    int status = finish_check(f);
    if (status != EXIT_DONE) {
        return status;
    }
    if (data_load(f->data, &data, err) != 0) {
        return say_error("--data: %s", err); /* said once, not by each worker */
    }
    free(data.train_x); /* this process only tests */
    data.train_x = NULL;
    l.output.bar = isatty(STDOUT_FILENO) == 1;
    if (data.note[0] != '\0') {
        (void)printf("%s\n", data.note);
        (void)fflush(stdout);
    }
    status = run(&l, &data);
    for (int i = 0; l.sockets != NULL && i < l.count; i++) {
        if (l.sockets[i] >= 0) {
            (void)close(l.sockets[i]);
        }
    }
    if (l.signal_fd >= 0) {
        (void)close(l.signal_fd);
    }
    free(l.children);
    free(l.sockets);
    free(l.addresses);
    free(l.ps_hosts);
    free(l.worker_hosts);
    free(l.polls);
    free(l.poll_child);
    data_free(&data);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* --local: this process owns the ports, starts a process for each task, watches them, and tests and reports at the end.
 *
 * It binds a socket on 127.0.0.1 for each task, so that no other program takes the port; starts the ps tasks; with --fresh resets
 * what they have loaded; starts the workers; waits until all workers have ended; tests, reports and shows the status; ends the ps
 * tasks.
 *
 * Failure modes: a worker dies: it is named, the others finish, status 1. All are stopped if the others need that worker (--sync
 * or --staleness without --on_worker_loss shrink), if the chief dies before the model is ready, if a ps task ends, and by SIGINT,
 * SIGTERM or SIGHUP; at once by a repeated signal (stop.h). If this process is killed, so are the children (PR_SET_PDEATHSIG). */
#include "local.h"

#include "child.h"
#include "evaluate.h"
#include "report.h"
#include "say.h"
#include "serve.h"
#include "session.h"
#include "source.h"
#include "stop.h"
#include "team.h"

#include <arpa/inet.h>
#include <errno.h>
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
    WORKERS_END_MS = 2000, /* workers still there this long after SIGTERM are killed */
    PS_END_MS = 3000,      /* ps tasks still there this long after SIGTERM and their drain time are killed */
    CHILDREN_MAX = 2 * FLAGS_LOCAL_MAX,
    HOSTS_BYTES = 64 + FLAGS_LOCAL_MAX * 24,
    READY_LOOK_MS = 100,
    LISTEN_BACKLOG = 128
};

struct local {
    const struct flags *f;
    int ps, count; /* numbers of ps tasks (children[0] to children[ps - 1]) and of all children */
    struct child children[CHILDREN_MAX];
    char ps_hosts[HOSTS_BYTES]; /* "--ps_hosts=h:p,..." */
    char worker_hosts[HOSTS_BYTES];
    int signal_fd;
    sigset_t mask;     /* signal mask of the children: the one that this process was started with */
    int signal;        /* first of the signals that ask for the end; 0: none came */
    int64_t signal_ms; /* when `signal` came, in ms; 0: none came */
    bool stopping;     /* the children were told to end: when one ends now, that is neither printed nor a failure */
    bool failed;       /* a worker failed, or a ps task ended unasked */
    bool stop;         /* end everything: a signal came, or a child was lost that the others need */
    struct child_output output;
};

static int bind_one(struct child *c)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(a);
    c->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->socket < 0 || bind(c->socket, (struct sockaddr *)&a, sizeof(a)) != 0 ||
        (!c->worker && listen(c->socket, LISTEN_BACKLOG) != 0) || getsockname(c->socket, (struct sockaddr *)&a, &bytes) != 0) {
        return say_error("--local: a port of 127.0.0.1: %s", strerror(errno));
    }
    (void)snprintf(c->address, sizeof(c->address), "127.0.0.1:%u", (unsigned)ntohs(a.sin_port));
    return EXIT_DONE;
}

static void hosts_flag(const struct local *l, const char *name, bool worker, char *text)
{
    int used = snprintf(text, HOSTS_BYTES, "--%s", name);
    for (int i = worker ? l->ps : 0; i < (worker ? l->count : l->ps); i++) {
        used +=
            snprintf(text + used, HOSTS_BYTES - (size_t)used, "%c%s", i == 0 || i == l->ps ? '=' : ',', l->children[i].address);
    }
}

static int make_children(struct local *l)
{
    for (int i = 0; i < l->count; i++) {
        struct child *c = &l->children[i];
        *c = (struct child){.worker = i >= l->ps, .chief = i == l->ps, .pipes = {-1, -1, -1}};
        (void)snprintf(c->name, sizeof(c->name), "/job:%s/task:%d", c->worker ? "worker" : "ps", c->worker ? i - l->ps : i);
        if (bind_one(c) != EXIT_DONE) {
            return EXIT_FAILED;
        }
    }
    hosts_flag(l, "ps_hosts", false, l->ps_hosts);
    hosts_flag(l, "worker_hosts", true, l->worker_hosts);
    return EXIT_DONE;
}

/* Block SIGCHLD and the signals that end --local; from now on they come through l->signal_fd. */
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

static int start_one(struct local *l, int i, char *const *flags, int count)
{
    struct child *c = &l->children[i];
    char program[] = "pstrain";
    char job[32];
    char task[40];
    char *argv[FLAGS_COUNT + 8] = {program, l->ps_hosts, l->worker_hosts, job, task};
    (void)snprintf(job, sizeof(job), "--job_name=%s", c->worker ? "worker" : "ps");
    (void)snprintf(task, sizeof(task), "--task_index=%d", c->worker ? i - l->ps : i);
    memcpy(argv + 5, flags, (size_t)count * sizeof(*argv));
    return child_start(c, argv, l->output.bar, &l->mask) == 0
               ? EXIT_DONE
               : say_error("--local: %s cannot be started: %s", c->name, strerror(errno));
}

static int start_group(struct local *l, bool workers)
{
    char *texts[FLAGS_COUNT] = {NULL};
    int given = flags_for_child(l->f, workers, texts);
    int status = given >= 0 ? EXIT_DONE : say_error("--local: no memory");
    for (int i = workers ? l->ps : 0; i < (workers ? l->count : l->ps) && status == EXIT_DONE; i++) {
        status = start_one(l, i, texts, given);
    }
    for (int k = 0; k < FLAGS_COUNT; k++) {
        free(texts[k]);
    }
    return status;
}

static void on_end(struct local *l, const struct child *c)
{
    char how[80];
    (void)child_how(c, how, sizeof(how));
    if (l->stopping) {
        return;
    }
    if (!c->worker) {
        (void)say_error("%s (pid %ld, %s) %s: stopping everything", c->name, (long)c->pid, c->address, how);
        l->failed = true;
        l->stop = true;
    } else if (c->status != 0) {
        const ps_sync_options *with = &l->f->with;
        bool needed = c->chief && !c->ready;
        /* with --sync or --staleness the others would wait for the lost worker, and nobody starts it again */
        bool waited_for = with->mode != PS_SYNC_NONE && with->on_worker_loss != PS_LOSS_SHRINK;
        (void)say_error("%s (pid %ld) %s%s", c->name, (long)c->pid, how,
                        needed       ? ": the chief ended before the model was ready, stopping everything"
                        : waited_for ? ": the others need it, stopping everything; with --on_worker_loss shrink they go on"
                                     : "; the other workers go on");
        needed = needed || waited_for;
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
            continue; /* reaped below: one SIGCHLD may stand for several children */
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
            on_end(l, &l->children[i]);
        }
    }
}

/* Wait at most timeout_ms (-1: without limit) for output, messages, signals or ends of children, and handle them. */
static void pump(struct local *l, int timeout_ms)
{
    struct pollfd polls[1 + CHILDREN_MAX * CHILD_PIPES];
    int n = l->count * CHILD_PIPES;
    for (int i = 0; i < n; i++) { /* closed pipes are -1, which poll() skips */
        polls[i] = (struct pollfd){.fd = l->children[i / CHILD_PIPES].pipes[i % CHILD_PIPES], .events = POLLIN};
    }
    polls[n] = (struct pollfd){.fd = l->signal_fd, .events = POLLIN};
    if (poll(polls, (nfds_t)n + 1, timeout_ms) < 0) {
        return;
    }
    for (int i = 0; i < n; i++) {
        if (polls[i].revents != 0) {
            child_read(&l->children[i / CHILD_PIPES], i % CHILD_PIPES, &l->output);
        }
    }
    if (polls[n].revents != 0) {
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

/* Describe the children's cluster. The result points into text and *l. */
static struct cluster cluster_of(struct local *l, char text[2 * HOSTS_BYTES])
{
    (void)snprintf(text, 2 * HOSTS_BYTES, "ps=%s;worker=%s", strchr(l->ps_hosts, '=') + 1, strchr(l->worker_hosts, '=') + 1);
    return (struct cluster){.ps_count = l->ps, .trainer_count = l->count - l->ps, .target = l->children[0].address, .spec = text};
}

/* --fresh: empty the model's container before workers start. Values that the ps tasks have loaded from checkpoints are lost. */
static int start_over(struct local *l)
{
    char text[2 * HOSTS_BYTES];
    struct cluster c = cluster_of(l, text);
    struct team team;
    int64_t deadline_ms = cli_clock_ms() + l->f->timeout_s * 1000;
    ps_session *s = session_open_aside(l->f, &c);
    ps_status st = PS_UNAVAILABLE;
    while (s != NULL && (st == PS_DEADLINE_EXCEEDED || st == PS_UNAVAILABLE) && !l->stop && cli_clock_ms() < deadline_ms) {
        st = ps_session_wait_cluster(s, "ps", READY_LOOK_MS);
        pump(l, 0);
    }
    if (st == PS_OK) {
        team_init(&team, s, l->f, &c);
        st = team_reset(&team);
    }
    int status = st == PS_OK || l->stop || s == NULL ? EXIT_DONE : EXIT_FAILED;
    if (status != EXIT_DONE) {
        PSI_IGNORE(session_call_failed(st, "--fresh: cannot empty the ps tasks"));
    }
    session_close_aside(s);
    return s == NULL ? EXIT_FAILED : status;
}

static void end_group(struct local *l, bool workers, int within_ms)
{
    const int64_t deadline_ms = cli_clock_ms() + within_ms;
    kill_all(l, workers, SIGTERM);
    for (int64_t now = cli_clock_ms(); alive(l, workers) > 0 && now < deadline_ms; now = cli_clock_ms()) {
        pump(l, (int)(deadline_ms - now) + 1);
    }
    kill_all(l, workers, SIGKILL);
    while (alive(l, workers) > 0) {
        pump(l, -1);
    }
}

static int finish(struct local *l, struct dataset *data)
{
    struct totals totals = {.complete = true};
    struct work *all = &totals.work;
    char text[2 * HOSTS_BYTES];
    struct cluster c = cluster_of(l, text);
    double loss = 0;
    for (int i = l->ps; i < l->count; i++) {
        const struct work *w = &l->children[i].work; /* all zeros if the worker did not finish */
        all->steps += w->steps;
        all->samples += w->samples;
        all->dropped += w->dropped;
        all->recoveries += w->recoveries;
        all->lost_steps = w->lost_steps > all->lost_steps ? w->lost_steps : all->lost_steps;
        all->seconds = w->seconds > all->seconds ? w->seconds : all->seconds;
        loss += w->steps > 0 ? w->loss * (double)w->samples : 0;
    }
    all->loss = all->samples > 0 ? loss / (double)all->samples : NAN;
    all->epochs = (double)all->samples / (double)data->train_count;
    return evaluate_after(l->f, &c, data, &totals);
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

static int run_cluster(struct local *l, struct dataset *data)
{
    int status = make_children(l);
    if (status == EXIT_DONE) {
        status = take_signals(l);
    }
    if (status != EXIT_DONE) {
        return status;
    }
    status = start_group(l, false);
    if (status == EXIT_DONE && l->f->fresh && l->f->checkpoint_dir[0] != '\0') {
        status = start_over(l);
    }
    status = status == EXIT_DONE && !l->stop ? start_group(l, true) : status;
    while (status == EXIT_DONE && !l->stop && alive(l, true) > 0) {
        pump(l, -1);
    }
    if (status == EXIT_DONE && !l->stop && any_done(l)) {
        status = finish(l, data);
        pump(l, 0); /* events that came during finish() */
    }
    l->stopping = true;
    end_group(l, true, WORKERS_END_MS);
    l->output.mute = true; /* do not print that ending ps tasks lose each other */
    end_group(l, false, serve_drain_ms(l->f, true) + PS_END_MS);
    if (l->signal != 0) {
        say_note("stopped by signal %d (%s)", l->signal, strsignal(l->signal));
        return EXIT_SIGNAL + l->signal;
    }
    return l->failed ? EXIT_FAILED : status;
}

int local_run(const struct flags *f)
{
    static struct local l;
    char err[CLI_ERR_BYTES];
    struct dataset data;
    l = (struct local){.f = f, .ps = f->local_ps, .count = f->local_ps + f->local_workers, .signal_fd = -1};
    int status = report_check(f);
    if (status != EXIT_DONE) {
        return status;
    }
    if (source_load(f, false, &data) != EXIT_DONE) {
        return EXIT_FAILED; /* loaded here first, so that an error is printed once and not by each worker */
    }
    l.output.bar = isatty(STDOUT_FILENO) == 1;
    source_say(&data);
    status = data_keep_test(&data, err) == 0 ? run_cluster(&l, &data) : say_error("--data: %s", err);
    data_free(&data);
    return status; /* the sockets in l are not closed, because the process ends now */
}

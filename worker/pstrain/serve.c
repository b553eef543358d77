/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task that serves: libpsd in this process, its call table, and signals.
 * Happy path: start -> `ready:` -> `serving:` -> wait for a signal or the task's end -> 0. Failure modes: the task cannot start
 * (the library says why): 2 for a setting, else 1; a signal that insists (stop.h): at once, 3.
 */
#include "serve.h"

#include "say.h"
#include "stop.h"

#include <errno.h>
#include <poll.h>
#include <psd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { DRAIN_MS = 10000, LOCAL_DRAIN_MS = 1000, LISTEN_FIRST = 3, LISTEN_MAX = 16 };

static int ended_fd = -1;

/* ---- on a compute thread ---- */

/* What clients may have run here (ps_call): is the task there, does it run calls, how long does one take. It cannot fail: input
 * and output have the same bound. */
static ps_status echo(void *ctx, psd_call *call, const void *in, size_t in_bytes, void *out, size_t out_capacity,
                      size_t *out_bytes, char *error, size_t error_bytes)
{
    (void)ctx;
    (void)call;
    (void)error;
    (void)error_bytes;
    size_t n = in_bytes < out_capacity ? in_bytes : out_capacity;
    if (n > 0) {
        memcpy(out, in, n);
    }
    *out_bytes = n;
    return PS_OK;
}
static const psd_call_row call_rows[] = {{.name = "psd.echo", .run = echo}};

/* ---- on the task's thread ---- */

static void on_log(void *ctx, int level, const char *line)
{
    (void)ctx;
    (void)level;
    say_line(line);
}

static void say_address(const char *what, const psd_server *server)
{
    const char *address = psd_server_address(server);
    say_result("%s: %s%s\n", what, strncmp(address, "unix:", 5) == 0 ? "" : "psd://", address);
}

static atomic_bool was_ready;

static void on_ready(void *ctx, psd_server *server)
{
    (void)ctx;
    atomic_store(&was_ready, true);
    say_address("ready", server);
}

static void on_serving(void *ctx, psd_server *server)
{
    (void)ctx;
    say_address("serving", server);
}

static void on_ended(void *ctx, psd_server *server)
{
    (void)ctx;
    (void)server;
    (void)eventfd_write(ended_fd, 1); /* cannot fill up: this is the only one */
}

/* ---- main thread ---- */

/* A number from the environment; -1 when there is none. */
static long env_number(const char *name)
{
    const char *text = getenv(name);
    char *end = NULL;
    long value = text != NULL ? strtol(text, &end, 10) : -1;
    return text != NULL && end != text && *end == '\0' ? value : -1;
}

/* Inherited sockets; how many. A child of --local always has one. */
static size_t inherited(bool local, int fds[LISTEN_MAX])
{
    long count = local ? 1 : env_number("LISTEN_PID") == (long)getpid() ? env_number("LISTEN_FDS") : 0;
    count = count > LISTEN_MAX ? LISTEN_MAX : count;
    for (int i = 0; i < count; i++) {
        fds[i] = LISTEN_FIRST + i;
    }
    return count > 0 ? (size_t)count : 0;
}

static int wait_for_end(psd_server *server, int signal_fd, int drain_ms)
{
    struct pollfd polls[2] = {{.fd = signal_fd, .events = POLLIN}, {.fd = ended_fd, .events = POLLIN}};
    int64_t first_ms = 0;
    bool at_once = false;
    while (!psd_server_has_ended(server)) {
        struct signalfd_siginfo info;
        if (poll(polls, 2, -1) < 0 && errno != EINTR) {
            return say_error("%s", strerror(errno));
        }
        while (read(signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
            at_once = stop_insists(&first_ms) || at_once;
            psd_server_stop(server, at_once ? 0 : drain_ms); /* the earliest end counts */
        }
        if ((polls[1].revents & POLLIN) != 0) {
            psd_server_wait(server);
        }
    }
    if (first_ms == 0 && !atomic_load(&was_ready)) {
        return say_error("the task ended before it was ready: its log line start_refused says why it does not begin");
    }
    if (!at_once && psd_server_has_lost(server)) {
        PSI_IGNORE(say_error("the last checkpoint is not saved: last_checkpoint_lost in the log says why"));
        return EXIT_LOST;
    }
    return at_once ? EXIT_AT_ONCE : EXIT_DONE;
}

int serve_drain_ms(const struct flags *f, bool local)
{
    return local && f->checkpoint_dir[0] == '\0' ? LOCAL_DRAIN_MS : DRAIN_MS;
}

int serve_run(const struct flags *f, const struct cluster *c, bool local)
{
    char error[1024] = "";
    int fds[LISTEN_MAX];
    psd_server_options o;
    psd_server *server = NULL;
    sigset_t set;
    stop_set(&set);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    int signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    ended_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (signal_fd < 0 || ended_fd < 0) {
        return say_error("%s%s", strerror(errno), errno == EMFILE ? ": raise the limit (ulimit -n)" : "");
    }
    psd_server_options_init(&o);
    o.cluster_spec = c->spec;
    o.cluster_name = f->cluster_name[0] != '\0' ? f->cluster_name : o.cluster_name;
    o.job = c->job;
    o.task_index = c->task;
    o.insecure_any_peer = f->insecure_any_peer;
    o.exit_when_done = f->exit_when_done;
    o.checkpoint_dir = f->checkpoint_dir;
    o.checkpoint_seconds = (uint32_t)f->checkpoint_seconds;
    o.checkpoint_steps = (uint32_t)f->checkpoint_steps;
    o.max_to_keep = (uint32_t)f->max_to_keep;
    o.keep_checkpoint_every_hours = (uint32_t)f->keep_every_hours;
    o.checkpoint_memory_bytes = (uint64_t)f->checkpoint_memory;
    o.restore = f->restore_checkpoint;
    o.recover = f->recover;
    o.spread = f->spread;
    o.listen_fds = fds;
    o.listen_fd_count = inherited(local, fds);
    o.listen_fds = o.listen_fd_count > 0 ? fds : NULL;
    o.log_level = local ? 2 : 1; /* warnings, or information too */
    o.log = on_log;
    o.ready = on_ready;
    o.serving = on_serving;
    o.ended = on_ended;
    o.calls = (psd_call_table){.rows = call_rows, .row_bytes = sizeof(call_rows[0]), .count = 1};
    ps_status st = psd_server_start(&o, &server, error, sizeof(error));
    if (st != PS_OK) {
        (void)say_error("%s", error);
        return st == PS_INVALID_ARGUMENT || st == PS_PERMISSION_DENIED ? EXIT_USAGE : EXIT_FAILED;
    }
    int status = wait_for_end(server, signal_fd, serve_drain_ms(f, local));
    psd_server_free(server);
    return status;
}

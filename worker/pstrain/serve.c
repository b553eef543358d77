/* SPDX-License-Identifier: Apache-2.0 */
/* Serves a task: runs libpsd in this process, with the operations of ps_ops.h, and takes signals. The task starts, prints
 * `ready:` and `serving:`, and ends by a signal or by itself with status 0.
 *
 * Failure modes, with their exit status: the task cannot start (the library gives the reason): 2 for a setting, else 1; it ends
 * before it is ready: 1; a repeated signal (stop.h) ends it at once: 3; the last checkpoint is not saved: 4.
 *
 * A trainer serves its own task beside its training. A thread starts the server, because looking up an address may take long.
 * Failure: the server cannot listen, or the ps tasks do not know the trainer's task: a line says why, and the trainer trains. */
#include "serve.h"

#include "say.h"
#include "session.h"
#include "stop.h"

#include <errno.h>
#include <poll.h>
#include <ps_ops.h>
#include <psd.h>
#include <pthread.h>
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

/* Clients call it (ps_call()) to see that the task is up: it returns its input. Cannot fail: in- and output limits are equal. */
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

static atomic_bool is_over; /* training is over: from now on the server logs errors only */

static void on_log(void *ctx, int level, const char *line)
{
    (void)ctx;
    if (level > 2 || !atomic_load(&is_over)) {
        say_line(line);
    }
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
    (void)eventfd_write(ended_fd, 1); /* cannot fail: written once, by this call alone */
}

struct task {
    ps_ops *ops;
    psd_server *server;
};
static psd_call_row call_rows[] = {{.name = "psd.echo", .run = echo}, {.name = NULL}}; /* second row: set by task_start() */

static void on_session_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    say_line(line);
}

void serve_who(const struct flags *f, psd_server_options *o)
{
    o->key_file = f->key_file;
    o->tls_cert = f->tls_cert;
    o->tls_key = f->tls_key;
    o->tls_ca = f->tls_ca;
    o->rights_file = f->rights_file;
}

static void options_of(const struct flags *f, const struct cluster *c, psd_server_options *o)
{
    psd_server_options_init(o);
    o->cluster_spec = c->spec;
    o->cluster_name = f->cluster_name[0] != '\0' ? f->cluster_name : o->cluster_name;
    o->job = c->job;
    o->task_index = c->task;
    o->listen = c->listen[0] != '\0' ? c->listen : NULL;
    o->insecure_any_peer = f->insecure_any_peer;
    serve_who(f, o);
    o->log = on_log;
}

static ps_status task_start(struct task *t, psd_server_options *o, char *error, size_t error_bytes)
{
    ps_ops_options of_ops;
    ps_ops_options_init(&of_ops);
    of_ops.log = on_session_log;
    *t = (struct task){.ops = NULL};
    ps_status st = ps_ops_new(&of_ops, &t->ops, error, error_bytes);
    if (st != PS_OK) {
        return st;
    }
    o->calls = *ps_ops_table(t->ops);
    call_rows[1] = o->calls.rows[0];
    o->calls.rows = call_rows;
    o->calls.row_bytes = sizeof(call_rows[0]);
    o->calls.count = sizeof(call_rows) / sizeof(call_rows[0]);
    st = psd_server_start(o, &t->server, error, error_bytes);
    if (st != PS_OK) {
        ps_ops_free(t->ops);
    }
    return st;
}

static void task_free(struct task *t)
{
    psd_server_free(t->server);
    ps_ops_free(t->ops);
}

enum { BESIDE_DRAIN_MS = 1000 };

static struct {
    pthread_mutex_t lock;
    bool started; /* under lock: `task` runs */
    bool ends;    /* under lock: training is over, so a server that starts only now is freed again */
    struct task task;
} beside = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Copies of flags and cluster for the thread that starts the server: training may end, and free both, while that thread runs. */
struct beside_start {
    struct flags f;
    struct cluster c;
};

static void beside_start_free(struct beside_start *b)
{
    cluster_fini(&b->c);
    free(b);
}

/* True if the ps tasks know this worker as a task of the cluster. If they were started with --ps_hosts alone, they do not, and
 * would refuse its server again and again. To find out, call this task: the library refuses a call to a task not listed. */
static bool is_listed(const struct beside_start *b)
{
    char name[CLUSTER_JOB_BYTES + 32];
    ps_session_options o;
    ps_session *s = NULL;
    (void)snprintf(name, sizeof(name), "/job:%s/task:%u", b->c.job, (unsigned)b->c.task);
    ps_session_options_init(&o);
    o.target = b->c.target; /* no spec, so the session asks the ps tasks for theirs */
    o.cluster_name = b->f.cluster_name[0] != '\0' ? b->f.cluster_name : o.cluster_name;
    session_who(&b->f, &o);
    o.log_level = PS_LOG_ERROR; /* no warnings: ps tasks may not be up yet */
    o.log = on_session_log;
    stop_hold();
    (void)ps_session_open(&o, &s, NULL, 0); /* on failure s is NULL */
    stop_aside(s, NULL);
    const bool known = s != NULL && ps_cluster_tasks(s) >= 0;
    const bool refused = known && ps_call(s, name, "psd.echo", NULL, 0, NULL, 0, NULL, 1) == PS_INVALID_ARGUMENT;
    session_close_aside(s);
    return !refused;
}

static ps_status try_beside(const struct beside_start *b, struct task *task, char *error, size_t error_bytes)
{
    psd_server_options o;
    options_of(&b->f, &b->c, &o);
    o.log_level = 2; /* logs warnings and errors only */
    if (!is_listed(b)) {
        (void)snprintf(error, error_bytes, "the ps tasks do not list it; start them with --worker_hosts, or the same --cluster");
        return PS_FAILED_PRECONDITION;
    }
    return task_start(task, &o, error, error_bytes);
}

static void *start_beside(void *arg)
{
    struct beside_start *b = arg;
    char error[1024] = "";
    struct task task;
    const ps_status st = try_beside(b, &task, error, sizeof(error));
    if (st != PS_OK) {
        say_note("/job:%s/task:%u trains and serves no operations: %s", b->c.job, (unsigned)b->c.task, error);
    }
    beside_start_free(b);
    (void)pthread_mutex_lock(&beside.lock);
    const bool needed = st == PS_OK && !beside.ends;
    if (needed) {
        beside.task = task;
        beside.started = true;
    }
    (void)pthread_mutex_unlock(&beside.lock);
    if (st == PS_OK && !needed) {
        task_free(&task);
    }
    return NULL;
}

void serve_beside(const struct flags *f, const struct cluster *c)
{
    pthread_t thread;
    struct beside_start *b = calloc(1, sizeof(*b));
    if (b != NULL) {
        b->f = *f;
        if (cluster_copy(c, &b->c) == 0 && pthread_create(&thread, NULL, start_beside, b) == 0) {
            (void)pthread_detach(thread);
            return;
        }
        beside_start_free(b);
    }
    say_note("/job:%s/task:%u trains and serves no operations: no memory or no thread for it", c->job, (unsigned)c->task);
}

void serve_beside_over(void)
{
    atomic_store(&is_over, true);
}

void serve_beside_end(void)
{
    (void)pthread_mutex_lock(&beside.lock);
    beside.ends = true;
    const bool started = beside.started;
    beside.started = false;
    (void)pthread_mutex_unlock(&beside.lock);
    if (started) {
        psd_server_stop(beside.task.server, BESIDE_DRAIN_MS);
        psd_server_wait(beside.task.server);
        task_free(&beside.task);
    }
}

static long env_number(const char *name)
{
    const char *text = getenv(name);
    char *end = NULL;
    long value = text != NULL ? strtol(text, &end, 10) : -1;
    return text != NULL && end != text && *end == '\0' ? value : -1;
}

/* Write the listening sockets that this process has inherited into fds; a child of --local has one. Returns how many. */
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
            psd_server_stop(server, at_once ? 0 : drain_ms); /* a repeated call can shorten the drain, not lengthen it */
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
    struct task task;
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
    options_of(f, c, &o);
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
    o.log_level = local ? 2 : 1; /* 2: warnings, 1: information too */
    o.ready = on_ready;
    o.serving = on_serving;
    o.ended = on_ended;
    ps_status st = task_start(&task, &o, error, sizeof(error));
    if (st != PS_OK) {
        (void)say_error("%s", error);
        return st == PS_INVALID_ARGUMENT || st == PS_PERMISSION_DENIED ? EXIT_USAGE : EXIT_FAILED;
    }
    int status = wait_for_end(task.server, signal_fd, serve_drain_ms(f, local));
    task_free(&task);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* psd, the daemon. It reads its settings, starts one libpsd server for each task, prints `ready:` and `serving:` lines, and ends
 * at a signal, or when all tasks have ended.
 *
 * The main thread only waits: for signals (signalfd), for the tasks' threads, which report through an eventfd that they are
 * ready, serve or have ended, and for the next message to the service manager (service.h).
 *
 * Failure modes, with messages on standard error:
 *   - A setting is wrong, or a task refuses it: exit 2.
 *   - A task cannot start for another reason: the others are stopped, exit 1.
 *   - Tasks do not end within the drain time and GRACE_MS: exit 1.
 *   - The last checkpoint of a task is not saved: EXIT_LOST.
 *   - A further signal, ONE_WISH_MS or more after the first, ends the tasks without a drain: EXIT_AT_ONCE. */
#include "common/log.h"
#include "common/net/net.h"
#include "psd/daemon/live.h"
#include "psd/shell/machine.h"
#include "psd.h"
#include "psd/daemon/reload.h"
#include "server_config.h"
#include "psd/shell/log.h"
#include "psd/daemon/service.h"
#include "psd/settings/settings.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

enum {
    EXIT_SETTINGS = 2,
    EXIT_AT_ONCE = 3,
    EXIT_LOST = 4,      /* the last checkpoint of some task could not be saved */
    ONE_WISH_MS = 1000, /* signals that follow the first one within this time are ignored, because timeout(1) sends two */
    GRACE_MS = 1000,    /* ms for threads to end after the drain (the time to finish their work) */
    HELP_BYTES_MAX = 64 << 10,
    FILES_WANTED = 1 << 16, /* psd raises its limit of open descriptors to this number */
    OWN_FILES = 3           /* descriptors of the main thread: signals, events of the tasks, service manager */
};

struct slot {
    psd_server *server;
    atomic_bool ready, serving, ended;
    bool announced, said_serving;
    struct psd_live live;
};

static struct slot slots[PSD_OWN_TASKS_MAX];
static uint32_t slot_count;
static int event_fd = -1;
static bool to_journal; /* standard error goes to systemd's journal: each line begins with its priority */
static struct psd_service service;
static struct psd_reload reload;

static void on_log(void *ctx, int level, const char *line)
{
    char buf[4096];
    (void)ctx;
    int n = snprintf(buf, sizeof(buf), "%s%s\n", to_journal ? psd_notify_priority(level) : "", line);
    size_t bytes = n < 0 ? 0 : (size_t)n < sizeof(buf) ? (size_t)n : sizeof(buf) - 1;
    PSI_IGNORE(write(STDERR_FILENO, buf, bytes)); /* one write keeps the line whole; a failed write must not stop training */
}

static void write_line(void *data, enum psi_log_level level, const char *line)
{
    on_log(data, (int)level, line);
}

static void tell_main(void)
{
    uint64_t one = 1;
    PSI_IGNORE(write(event_fd, &one, sizeof(one))); /* cannot fail: the eventfd's counter stays small */
}

static void on_ready(void *ctx, psd_server *server)
{
    struct slot *slot = ctx;
    (void)server;
    atomic_store(&slot->ready, true);
    tell_main();
}

static void on_serving(void *ctx, psd_server *server)
{
    struct slot *slot = ctx;
    (void)server;
    atomic_store(&slot->serving, true);
    tell_main();
}

static void on_ended(void *ctx, psd_server *server)
{
    struct slot *slot = ctx;
    (void)server;
    atomic_store(&slot->ended, true);
    tell_main();
}

static bool on_config_row(void *ctx, uint32_t i, const char **name, const char **value, const char **default_value,
                          const char **help, bool *reloadable)
{
    struct slot *slot = ctx;
    return psd_live_row(&slot->live, i, name, value, default_value, help, reloadable);
}

static ps_status on_config_set(void *ctx, psd_server *server, const char *name, const char *value, char *error,
                               size_t error_bytes)
{
    struct slot *slot = ctx;
    return psd_live_set(&slot->live, server, name, value, NULL, error, error_bytes);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static int complain(int status, const char *text)
{
    (void)fprintf(stderr, "%spsd: %s\n", to_journal ? psd_notify_priority(PSI_LOG_ERROR) : "", text);
    return status;
}

static int print(const struct psi_buf *text)
{
    return fwrite(text->data, 1, text->len, stdout) == text->len && fflush(stdout) == 0 ? 0 : 1;
}

static int print_help(void)
{
    struct psi_buf text;
    struct psi_err err = {.code = PS_OK};
    psi_buf_init(&text, HELP_BYTES_MAX);
    if (psd_settings_help(&text, &err) != PS_OK) {
        psi_buf_fini(&text);
        return complain(1, err.text);
    }
    int status = print(&text);
    psi_buf_fini(&text);
    return status;
}

static void say_address(const char *what, const struct slot *slot)
{
    const char *address = psd_server_address(slot->server);
    (void)printf("%s: %s%s\n", what, strncmp(address, "unix:", 5) == 0 ? "" : "psd://", address);
    /* a failed write is ignored: nobody may be reading standard output */
    (void)fflush(stdout);
}

/* Print `ready:` lines of tasks that have become ready, in the order of tasks. Once all are, tell the service manager, and print
 * `serving:` lines of tasks that serve. */
static void announce(void)
{
    for (uint32_t i = 0; i < slot_count; i++) {
        struct slot *slot = &slots[i];
        if (slot->announced) {
            continue;
        }
        if (!atomic_load(&slot->ready)) {
            return;
        }
        slot->announced = true;
        say_address("ready", slot);
    }
    psd_service_ready(&service, now_ms());
    for (uint32_t i = 0; i < slot_count; i++) {
        if (!slots[i].said_serving && atomic_load(&slots[i].serving)) {
            slots[i].said_serving = true;
            say_address("serving", &slots[i]);
        }
    }
}

static bool all_ended(void)
{
    for (uint32_t i = 0; i < slot_count; i++) {
        if (!atomic_load(&slots[i].ended)) {
            return false;
        }
    }
    return true;
}

/* Stop all tasks. Returns the longest time, in ms, that a task may take to finish its work (drain); 0 if at_once. */
static int64_t stop_all(bool at_once)
{
    int64_t longest = 0;
    for (uint32_t i = 0; i < slot_count; i++) {
        int64_t drain = at_once ? 0 : psd_live_drain_ms(&slots[i].live);
        psd_server_stop(slots[i].server, drain);
        longest = drain > longest ? drain : longest;
    }
    return longest;
}

static void free_all(void)
{
    for (uint32_t i = 0; i < slot_count; i++) {
        psd_server_free(slots[i].server);
    }
    slot_count = 0;
}

struct ending {
    uint64_t asked_ms; /* when the first signal came; 0: no signal has come */
    uint64_t end_ms;   /* when the process exits, even if tasks still run */
    int status;
};

static void on_end_signal(struct ending *e, uint64_t now)
{
    bool again = e->asked_ms != 0;
    if (again && now - e->asked_ms < ONE_WISH_MS) {
        return;
    }
    e->asked_ms = again ? e->asked_ms : now;
    e->status = again ? EXIT_AT_ONCE : 0;
    int64_t drain = stop_all(again);
    e->end_ms = now + (uint64_t)drain + GRACE_MS;
    psd_service_stopping(&service, drain + GRACE_MS);
}

/* Serve until all tasks have ended; returns the exit status. */
static int serve(int signal_fd)
{
    struct pollfd polls[2] = {{.fd = signal_fd, .events = POLLIN}, {.fd = event_fd, .events = POLLIN}};
    struct ending ending = {.status = 0};
    while (!all_ended()) {
        int timeout = psd_service_turn(&service, now_ms());
        if (ending.asked_ms != 0) {
            uint64_t now = now_ms();
            if (now >= ending.end_ms) {
                (void)complain(1, "tasks are busy and do not end: exiting all the same");
                _exit(ending.status != 0 ? ending.status : 1);
            }
            int left = ending.end_ms - now < INT32_MAX ? (int)(ending.end_ms - now) : INT32_MAX;
            timeout = timeout >= 0 && timeout < left ? timeout : left;
        }
        if (poll(polls, 2, timeout) < 0 && errno != EINTR) {
            return complain(1, strerror(errno));
        }
        struct signalfd_siginfo info;
        uint64_t count = 0;
        if (read(event_fd, &count, sizeof(count)) > 0) {
            announce();
        }
        while (read(signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
            if (info.ssi_signo != SIGHUP) {
                on_end_signal(&ending, now_ms());
                continue;
            }
            psd_service_reloading(&service, true, now_ms());
            psd_reload(&reload);
            psd_service_reloading(&service, false, now_ms());
        }
    }
    psd_service_stopping(&service, 0); /* no signal: all tasks have ended by themselves, for example by `psctl shutdown` */
    for (uint32_t i = 0; ending.asked_ms == 0 && i < slot_count; i++) {
        if (!atomic_load(&slots[i].ready)) {
            return complain(1, "a task ended before it was ready: its log line start_refused says why it does not begin");
        }
    }
    for (uint32_t i = 0; i < slot_count && ending.status == 0; i++) {
        if (psd_server_has_lost(slots[i].server)) {
            ending.status = complain(EXIT_LOST, "the last checkpoint is not saved: last_checkpoint_lost in the log says why");
        }
    }
    return ending.status;
}

static int watch(int signal_fd, struct psd_settings *settings, int argc, char **argv)
{
    static psd_server *servers[PSD_OWN_TASKS_MAX];
    static struct psd_live *lives[PSD_OWN_TASKS_MAX];
    static uint64_t turns[PSD_OWN_TASKS_MAX];
    for (uint32_t i = 0; i < slot_count; i++) {
        servers[i] = slots[i].server;
        lives[i] = &slots[i].live;
    }
    psd_service_init(&service, servers, turns, slot_count);
    reload = (struct psd_reload){
        .settings = settings,
        .argc = argc,
        .argv = argv,
        .log = {.write = write_line, .stamp = psd_server_log_stamp, .level = (enum psi_log_level)settings->server.log_level},
        .servers = servers,
        .lives = lives,
        .count = slot_count};
    if (settings->resolved.manager[0] != '\0') {
        psi_log_event(&reload.log, PSI_LOG_INFO, "cluster_found", PSI_KV("manager", settings->resolved.manager),
                      PSI_KV("job", settings->resolved.job), PSI_KV("index", settings->resolved.task),
                      PSI_KV("from", settings->resolved.why));
    }
    int status = serve(signal_fd);
    psd_service_fini(&service);
    return status;
}

/* The address in --listen for task i of this process. split_listen() was called before. */
static const char *listen_of(struct psd_settings *s, uint32_t i)
{
    char *p = s->listen;
    for (uint32_t k = 0; k < i; k++) {
        p += strlen(p) + 1; /* split_listen() has put NULs between the addresses */
    }
    return p;
}

/* Check that --listen has one address for each task, and replace the commas between them by NULs. */
static ps_status split_listen(struct psd_settings *s, struct psi_err *err)
{
    uint32_t count = 1;
    for (const char *p = s->listen; *p != '\0'; p++) {
        count += *p == ',' ? 1u : 0u;
    }
    if (count != s->task_count) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "--listen has %u addresses for %u tasks: with several tasks it is one each",
                        count, s->task_count);
    }
    for (char *p = s->listen; *p != '\0'; p++) {
        if (*p == ',') {
            *p = '\0';
        }
    }
    return PS_OK;
}

/* Check that inherited sockets can be given to the tasks: a single task takes all of them, several tasks take one each.
 * INVALID_ARGUMENT: the numbers differ, or --listen is given too. */
static ps_status share_sockets(const struct psd_settings *s, size_t inherited, struct psi_err *err)
{
    if (inherited > 0 && s->listen[0] != '\0') {
        return psi_fail(err, PS_INVALID_ARGUMENT, "there are inherited sockets (LISTEN_FDS=%zu) and --listen: drop one of them",
                        inherited);
    }
    if (inherited > 0 && s->task_count > 1 && inherited != s->task_count) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "LISTEN_FDS has %zu sockets for %u tasks: with several tasks it is one each",
                        inherited, s->task_count);
    }
    return PS_OK;
}

/* Check before any task starts that the process may open enough descriptors for all tasks and one connection each. */
static ps_status check_files(const struct psd_settings *s, size_t inherited, struct psi_err *err)
{
    psd_server_options o;
    bool one_each = s->task_count > 1;
    psd_settings_options(s, 0, one_each ? NULL : s->listen, &o);
    o.listen_fd_count = inherited > 0 && one_each ? 1 : inherited;
    uint32_t links = 2 * (s->task_count - 1);
    return psi_net_files_check(
        OWN_FILES + PSI_NET_FIRST_LOOP_FILES + s->task_count * (PSI_NET_LOOP_FILES + psd_server_config_files(&o)) + links, err);
}

static int start_all(struct psd_settings *s, size_t inherited)
{
    struct psi_err err = {.code = PS_OK};
    char error[PSI_ERR_TEXT_MAX + 64];
    int fds[PSD_OWN_TASKS_MAX];
    bool one_each = s->task_count > 1;
    uint64_t machine_share = psd_machine_memory_bytes() / 5 * 4 / s->task_count;
    if (share_sockets(s, inherited, &err) != PS_OK || (one_each && s->listen[0] != '\0' && split_listen(s, &err) != PS_OK)) {
        return complain(EXIT_SETTINGS, err.text);
    }
    if (inherited > PSD_OWN_TASKS_MAX) {
        return complain(EXIT_SETTINGS, "LISTEN_FDS has too many sockets");
    }
    for (size_t i = 0; i < inherited; i++) {
        fds[i] = PSD_INHERITED_FIRST + (int)i;
    }
    for (uint32_t i = 0; i < s->task_count; i++) {
        psd_server_options o;
        const char *listen = s->listen[0] == '\0' ? NULL : one_each ? listen_of(s, i) : s->listen;
        psd_settings_options(s, i, listen, &o);
        if (o.memory_budget_bytes == 0) {
            o.memory_budget_bytes = machine_share;
        }
        o.listen_fds = inherited == 0 ? NULL : one_each ? &fds[i] : fds;
        o.listen_fd_count = inherited == 0 || one_each ? (inherited > 0 ? 1 : 0) : inherited;
        o.log = on_log;
        o.ready = on_ready;
        o.serving = on_serving;
        o.ended = on_ended;
        o.config_row = on_config_row;
        o.config_set = on_config_set;
        psd_live_init(&slots[i].live, s, machine_share);
        o.ctx = &slots[i];
        ps_status st = psd_server_start(&o, &slots[i].server, error, sizeof(error));
        if (st != PS_OK) {
            free_all();
            return complain(st == PS_INVALID_ARGUMENT || st == PS_PERMISSION_DENIED ? EXIT_SETTINGS : 1, error);
        }
        slot_count = i + 1;
    }
    return 0;
}

/* Make a descriptor for the signals that end or reload the process. Ignore SIGPIPE and SIGXFSZ, which peers and disks cause. */
static int take_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

static void raise_files_limit(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_WANTED) {
        files.rlim_cur = files.rlim_max < FILES_WANTED ? files.rlim_max : FILES_WANTED;
        PSI_IGNORE(setrlimit(RLIMIT_NOFILE, &files)); /* if it fails, fewer connections are possible */
    }
}

static int run(struct psd_settings *settings, size_t inherited, int argc, char **argv)
{
    struct psi_err err = {.code = PS_OK};
    raise_files_limit();
    if (check_files(settings, inherited, &err) != PS_OK) {
        return complain(1, err.text);
    }
    int signal_fd = take_signals();
    event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (signal_fd < 0 || event_fd < 0) {
        return complain(1, strerror(errno));
    }
    int status = start_all(settings, inherited);
    if (status == 0) {
        status = watch(signal_fd, settings, argc, argv);
        free_all();
    }
    return status;
}

int main(int argc, char **argv)
{
    struct psd_settings *settings = NULL;
    struct psi_err err = {.code = PS_OK};
    size_t inherited = 0;
    psd_machine_keep_little();
    psd_server_wipe_freed();
    to_journal = psd_notify_journal(getenv("JOURNAL_STREAM"), STDERR_FILENO);
    if (psd_settings_read(argc, argv, getenv("TF_CONFIG"), &settings, &err) != PS_OK ||
        psd_inherited_sockets(&inherited, &err) != PS_OK) {
        psd_settings_free(settings);
        return complain(EXIT_SETTINGS, err.text);
    }
    int status = 0;
    if (settings->help) {
        status = print_help();
    } else if (settings->print_config) {
        status = print(&settings->print);
    } else if (settings->version) {
        status = printf("psd %s\n", psd_server_version()) > 0 && fflush(stdout) == 0 ? 0 : 1;
    } else {
        status = run(settings, inherited, argc, argv);
    }
    psd_settings_free(settings);
    return status;
}

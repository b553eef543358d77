/* SPDX-License-Identifier: Apache-2.0 */
/* pstrain launch --hosts FILE -- PROGRAM [ARG ...]: the tasks of a cluster over ssh.
 *
 * Happy path: the lines of FILE give the tasks and their addresses. psctl key new makes a key for the job. An ssh is started for
 * each task: its remote shell gets the key on standard input, writes it into a directory of its own (0700), and runs PROGRAM with
 * TF_CONFIG and PSD_KEY_FILE. Lines of output are printed with the task's name before them. When all have ended: exit 0.
 *
 * The standard input of each ssh stays open until this process closes it, or is gone for whatever reason. Then the remote shell
 * ends PROGRAM: SIGTERM, and SIGKILL after KILL_S. So nothing is left on a host that ssh still reaches.
 *
 * Failure modes: a bad FILE: exit 2, with its line. The first task that fails ends all others, and its status is launch's.
 * When only ps tasks run, they have LAST_S to end by themselves before they are told to. A signal ends all: 128 and its number.
 */
#include "launch.h"

#include "common/cli/table.h"
#include "common/options.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <ps.h>
#include <ps_cluster.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TASKS_MAX = 1024,
    NOT_GIVEN = TASKS_MAX + 1, /* value of a task count that a line of the hosts file does not give */
    HOST_BYTES = 256,
    LINE_BYTES = 4096, /* a longer line of a task's output is printed in pieces */
    FILE_BYTES_MAX = 1 << 20,
    COMMAND_BYTES_MAX = 96 << 10, /* Linux allows 128 KiB for one argument of a process */
    KEY_BYTES_MAX = 64 << 10,
    KILL_S = 10,
    LAST_S = 30,
    GONE_MS = (KILL_S + 5) * 1000, /* an ssh still running this long after its standard input was closed is killed */
    TICK_MS = 200
};

struct options {
    const char *hosts, *ssh, *psctl;
    int64_t base_port, directory_port;
    bool help;
};

#define FIELD(field_) PSI_OPTION_FIELD(struct options, field_)
#define TEXT .type = PSI_OPTION_TEXT, .flag_only = true, .min = 1
static const struct psi_option rows[] = {
    {.name = "hosts",
     TEXT,
     .metavar = "FILE",
     .help = "a host a line, as ssh knows it: HOST [ps=N] [worker=N] [address=ADDRESS]; without a number one worker. ADDRESS is "
             "where other "
             "hosts reach it, if that is not HOST. # begins a comment",
     FIELD(hosts)},
    {.name = "base_port",
     .type = PSI_OPTION_INT,
     .flag_only = true,
     .min = 1,
     .max = 65535,
     .default_text = "2222",
     .help = "port of the first task on each host; the next ones count on",
     FIELD(base_port)},
    {.name = "directory_port",
     .type = PSI_OPTION_INT,
     .flag_only = true,
     .min = 1,
     .max = 65535,
     .metavar = "PORT",
     .help = "in place of --base_port: port of ps task 0; the other tasks take any free port",
     FIELD(directory_port)},
    {.name = "ssh", TEXT, .metavar = "PROGRAM", .default_text = "ssh", .help = "what is run in place of ssh", FIELD(ssh)},
    {.name = "psctl",
     TEXT,
     .metavar = "PROGRAM",
     .default_text = "psctl",
     .help = "the psctl that makes the key; the one beside pstrain, where there is one",
     FIELD(psctl)},
    {.name = "help", .letter = 'h', .type = PSI_OPTION_BOOL, .flag_only = true, .help = "print this and exit", FIELD(help)},
};

/* The standard output or error of a task's ssh, read by this process. */
struct output {
    int fd; /* -1: the output has ended */
    FILE *to;
    char line[LINE_BYTES];
    size_t used;
};

/* A task of the cluster, and the ssh that runs PROGRAM for it. */
struct task {
    char host[HOST_BYTES];
    bool ps;
    uint32_t index;
    pid_t pid;       /* process id of the ssh; 0: not started, or reaped */
    int in;          /* write end of the ssh's standard input; -1: closed, which makes the remote shell end PROGRAM */
    int64_t told_ms; /* when `in` was closed, which tells PROGRAM to end, in ms */
    struct output out, err;
};

struct launch {
    struct options o;
    char **program; /* PROGRAM, its arguments, NULL */
    ps_cluster_spec *cluster;
    const char *cluster_json;
    struct task *tasks;
    size_t count, capacity;
    char *key;
    size_t key_bytes;
    int status;      /* exit status of the first task that failed; 0: no task has failed */
    bool ending;     /* PROGRAM was told to end at all tasks */
    int64_t last_ms; /* when the last worker ended, in ms; 0: some still run */
};

static volatile sig_atomic_t came; /* number of the signal that this process got; 0: no signal */

static void on_signal(int number)
{
    came = number;
}

static bool is_host(const char *text)
{
    const size_t n = strlen(text);
    return n > 0 && n < HOST_BYTES - 8 && text[0] != '-' &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@:[]") == n;
}

static bool read_count(const char *text, uint32_t *out)
{
    char *end = NULL;
    errno = 0;
    const unsigned long n = strtoul(text, &end, 10);
    *out = (uint32_t)n;
    return errno == 0 && text[0] >= '0' && text[0] <= '9' && *end == '\0' && n <= TASKS_MAX;
}

/* Add a host's ps and worker tasks to the cluster. host: what ssh connects to; address: where the other tasks reach it. */
static ps_status add_tasks(struct launch *l, const char *host, const char *address, uint32_t ps, uint32_t workers)
{
    const bool any = l->o.directory_port > 0, ipv6 = address[0] != '[' && strchr(address, ':') != NULL;
    ps_status st = PS_OK;
    for (uint32_t i = 0; st == PS_OK && i < ps + workers; i++) {
        char text[HOST_BYTES + 32];
        const char *job = i < ps ? "ps" : "worker";
        const int known = ps_cluster_spec_num_tasks(l->cluster, job); /* how many tasks the job has so far; -1: no such job yet */
        const int index = known > 0 ? known : 0;
        const int64_t port = !any ? l->o.base_port + i : i < ps && index == 0 ? l->o.directory_port : 0;
        (void)snprintf(text, sizeof(text), ipv6 ? "[%s]:%" PRId64 : "%s:%" PRId64, address, port);
        st = ps_cluster_spec_add_task(l->cluster, job, index, text);
        l->tasks = cli_grow(l->tasks, l->count, &l->capacity, sizeof(*l->tasks));
        struct task *t = &l->tasks[l->count++];
        memset(t, 0, sizeof(*t));
        (void)snprintf(t->host, sizeof(t->host), "%s", host);
        t->ps = i < ps;
        t->index = (uint32_t)index;
        t->in = t->out.fd = t->err.fd = -1;
    }
    return st;
}

/* Read line `number` of the hosts file: HOST [ps=N] [worker=N] [address=ADDRESS]. Returns 0; else launch's exit status. */
static int read_line(struct launch *l, char *line, int number)
{
    char *saved = NULL;
    uint32_t ps = NOT_GIVEN, workers = NOT_GIVEN;
    line[strcspn(line, "#\n")] = '\0';
    const char *host = strtok_r(line, " \t\r", &saved);
    const char *address = host;
    if (host == NULL) {
        return 0;
    }
    for (size_t i = 0; i < l->count; i++) {
        if (strcmp(l->tasks[i].host, host) == 0) {
            (void)say_error("%s:%d: host '%s' is in it twice: ps=N and worker=N say how many tasks it has", l->o.hosts, number,
                            host);
            return EXIT_USAGE;
        }
    }
    for (const char *word = strtok_r(NULL, " \t\r", &saved); word != NULL; word = strtok_r(NULL, " \t\r", &saved)) {
        bool good = false;
        if (strncmp(word, "ps=", 3) == 0) {
            good = ps == NOT_GIVEN && read_count(word + 3, &ps);
        } else if (strncmp(word, "worker=", 7) == 0) {
            good = workers == NOT_GIVEN && read_count(word + 7, &workers);
        } else if (strncmp(word, "address=", 8) == 0) {
            good = address == host && is_host(word + 8);
            address = word + 8;
        }
        if (!good) {
            (void)say_error("%s:%d: '%.100s': a line is HOST [ps=N] [worker=N] [address=ADDRESS], each once", l->o.hosts, number,
                            word);
            return EXIT_USAGE;
        }
    }
    if (!is_host(host)) {
        (void)say_error("%s:%d: '%.100s' is no host", l->o.hosts, number, host);
        return EXIT_USAGE;
    }
    const char *at = strchr(address, '@'); /* USER@HOST */
    if (workers == NOT_GIVEN) {
        workers = ps == NOT_GIVEN ? 1 : 0;
    }
    ps_status st = add_tasks(l, host, at != NULL ? at + 1 : address, ps == NOT_GIVEN ? 0 : ps, workers);
    if (st != PS_OK) {
        (void)say_error("%s:%d: %s", l->o.hosts, number, ps_last_error());
        return EXIT_USAGE;
    }
    return 0;
}

static int read_hosts(struct launch *l)
{
    FILE *f = fopen(l->o.hosts, "re");
    char *line = NULL;
    size_t room = 0, bytes = 0;
    int status = f == NULL ? say_error("--hosts %s: %s", l->o.hosts, strerror(errno)) : 0;
    ssize_t n = 0;
    for (int number = 1; status == 0 && (n = getline(&line, &room, f)) >= 0; number++) {
        bytes += (size_t)n;
        if (bytes > FILE_BYTES_MAX) {
            status = say_error("--hosts %s: it is larger than %d bytes", l->o.hosts, FILE_BYTES_MAX);
        } else if (strlen(line) != (size_t)n) {
            (void)say_error("%s:%d: the line has a NUL byte", l->o.hosts, number);
            status = EXIT_USAGE;
        } else {
            status = read_line(l, line, number);
        }
    }
    if (status == 0 && ferror(f)) {
        status = say_error("--hosts %s: it cannot be read", l->o.hosts);
    }
    free(line);
    if (f != NULL) {
        (void)fclose(f);
    }
    if (status == 0 && ps_cluster_spec_num_tasks(l->cluster, "ps") < 1) {
        (void)say_error("--hosts %s: no host has ps=N: a cluster needs a ps task", l->o.hosts);
        return EXIT_USAGE;
    }
    return status;
}

/* Make a new key with `psctl key new` in a temporary file, and read the file into l->key. */
static int make_key(struct launch *l)
{
    char folder[] = "/tmp/pstrain-launch.XXXXXX", file[sizeof(folder) + 8], beside[4096];
    const char *psctl = l->o.psctl;
    ssize_t n = readlink("/proc/self/exe", beside, sizeof(beside) - 8);
    char *slash = n > 0 ? memrchr(beside, '/', (size_t)n) : NULL;
    if (slash != NULL && strcmp(psctl, "psctl") == 0) {
        memcpy(slash + 1, "psctl", 6);
        psctl = access(beside, X_OK) == 0 ? beside : psctl;
    }
    if (mkdtemp(folder) == NULL) {
        return say_error("%s: %s", folder, strerror(errno));
    }
    (void)snprintf(file, sizeof(file), "%s/key", folder);
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        (void)dup2(null, STDOUT_FILENO);
        (void)execlp(psctl, psctl, "key", "new", "job", "--role", "ps", "--file", file, (char *)NULL);
        (void)dprintf(STDERR_FILENO, "pstrain: %s: %s\n", psctl, strerror(errno));
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0) {
        status = say_error("%s key new has failed: there is no key for the job", psctl);
    } else {
        FILE *f = fopen(file, "re");
        l->key = calloc(1, KEY_BYTES_MAX);
        l->key_bytes = f == NULL || l->key == NULL ? 0 : fread(l->key, 1, KEY_BYTES_MAX, f);
        if (f != NULL) {
            (void)fclose(f);
        }
        status = l->key_bytes == 0 ? say_error("%s: it cannot be read", file) : 0;
    }
    (void)unlink(file);
    (void)rmdir(folder);
    return status;
}

/* Write text to a shell script in single quotes, so that the shell takes it literally. */
static void quote(FILE *to, const char *text)
{
    (void)fputc('\'', to);
    for (; *text != '\0'; text++) {
        (void)fputs(*text == '\'' ? "'\\''" : (char[]){*text, '\0'}, to);
    }
    (void)fputc('\'', to);
}

/* The shell script that ssh runs on the host of task t; NULL: no memory, or longer than COMMAND_BYTES_MAX. */
static char *script(const struct launch *l, const struct task *t)
{
    char *text = NULL, here[4096];
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (to == NULL) {
        return NULL;
    }
    (void)fprintf(to,
                  "umask 077; d=$(mktemp -d) || exit 1; trap 'rm -rf \"$d\"' EXIT; trap 'exit 143' HUP TERM; "
                  "head -c %zu >\"$d/key\" || exit 1; exec 3<&0; ",
                  l->key_bytes);
    if (getcwd(here, sizeof(here)) != NULL) {
        (void)fputs("cd ", to);
        quote(to, here);
        (void)fputs(" 2>/dev/null || :; ", to);
    }
    /* single quotes are safe: addresses in cluster_json have neither quotes nor backslashes */
    (void)fprintf(to, "env PSD_KEY_FILE=\"$d/key\" TF_CONFIG='{\"cluster\":%s,\"task\":{\"type\":\"%s\",\"index\":%" PRIu32 "}}'",
                  l->cluster_json, t->ps ? "ps" : "worker", t->index);
    for (char **word = l->program; *word != NULL; word++) {
        (void)fputc(' ', to);
        quote(to, *word);
    }
    (void)fprintf(to,
                  " </dev/null 3<&- & p=$!; "
                  "(cat; kill -TERM $p; sleep %d; kill -KILL $p) <&3 >/dev/null 2>&1 & w=$!; exec 3<&-; "
                  "wait $p; s=$?; kill $w 2>/dev/null; exit $s",
                  KILL_S);
    if (fclose(to) != 0 || bytes > COMMAND_BYTES_MAX) {
        free(text);
        return NULL;
    }
    return text;
}

static const char *name_of(const struct task *t, char *buf, size_t n)
{
    (void)snprintf(buf, n, "%s/%" PRIu32, t->ps ? "ps" : "worker", t->index);
    return buf;
}

/* Start the ssh of task t, and write the key to its standard input. */
static int start(struct launch *l, struct task *t)
{
    int in[2], out[2], err[2];
    char name[32], *remote = script(l, t);
    if (remote == NULL) {
        return say_error("%s at %s: its command line is longer than %d bytes", name_of(t, name, sizeof(name)), t->host,
                         COMMAND_BYTES_MAX);
    }
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
        free(remote);
        return say_error("pipes: %s", strerror(errno));
    }
    t->pid = fork();
    if (t->pid == 0) {
        sigset_t none;
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)signal(SIGPIPE, SIG_DFL);
        (void)setpgid(0, 0); /* a process group of its own: Ctrl-C reaches only this program, which then ends the tasks */
        (void)dup2(in[0], STDIN_FILENO);
        (void)dup2(out[1], STDOUT_FILENO);
        (void)dup2(err[1], STDERR_FILENO);
        (void)execlp(l->o.ssh, l->o.ssh, "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=15", "-T",
                     t->host, remote, (char *)NULL);
        (void)dprintf(STDERR_FILENO, "%s: %s\n", l->o.ssh, strerror(errno));
        _exit(127);
    }
    free(remote);
    (void)close(in[0]);
    (void)close(out[1]);
    (void)close(err[1]);
    (void)fcntl(out[0], F_SETFL, O_NONBLOCK);
    (void)fcntl(err[0], F_SETFL, O_NONBLOCK);
    t->in = in[1];
    t->out = (struct output){.fd = out[0], .to = stdout};
    t->err = (struct output){.fd = err[0], .to = stderr};
    if (t->pid < 0) {
        t->pid = 0;
        return say_error("fork: %s", strerror(errno));
    }
    size_t sent = 0; /* the writes below cannot block: an empty pipe has room for a key */
    while (sent < l->key_bytes) {
        ssize_t n = write(t->in, l->key + sent, l->key_bytes - sent);
        if (n < 0) {
            break; /* the ssh has ended already; look() reaps it and reports the failure */
        }
        sent += (size_t)n;
    }
    return 0;
}

static void print_line(const struct task *t, struct output *o)
{
    char name[32];
    (void)fprintf(o->to, "[%s] %.*s\n", name_of(t, name, sizeof(name)), (int)o->used, o->line);
    o->used = 0;
}

static void close_output(const struct task *t, struct output *o)
{
    if (o->used > 0) {
        print_line(t, o);
    }
    (void)close(o->fd);
    o->fd = -1;
}

/* Read what o has now, and print its whole lines with t's name. False: there is nothing now, or the output has ended. */
static bool take_output(const struct task *t, struct output *o)
{
    char some[LINE_BYTES];
    ssize_t n = o->fd < 0 ? -1 : read(o->fd, some, sizeof(some));
    for (ssize_t i = 0; i < n; i++) {
        if (some[i] != '\n') {
            o->line[o->used++] = some[i];
        }
        if (some[i] == '\n' || o->used == sizeof(o->line)) {
            print_line(t, o);
        }
    }
    if (o->fd >= 0 && n == 0) {
        close_output(t, o);
    }
    (void)fflush(o->to);
    return n > 0;
}

/* Print the rest of the output of t's ended ssh, but do not await the pipe's end: ssh's master process may keep it open. */
static void last_output(const struct task *t, struct output *o)
{
    while (take_output(t, o)) {
    }
    if (o->fd >= 0) {
        close_output(t, o);
    }
}

/* Tell task t to end: closing the standard input of its ssh makes the remote shell end PROGRAM. */
static void tell(struct task *t)
{
    if (t->in >= 0) {
        (void)close(t->in);
        t->in = -1;
        t->told_ms = cli_clock_ms();
    }
}

static void tell_all(struct launch *l)
{
    l->ending = true;
    for (size_t i = 0; i < l->count; i++) {
        tell(&l->tasks[i]);
    }
}

static void ended(struct launch *l, struct task *t, int how)
{
    char name[32];
    const int status = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    t->pid = 0;
    last_output(t, &t->out);
    last_output(t, &t->err);
    if (t->in >= 0) {
        (void)close(t->in);
        t->in = -1;
        if (status != 0 && l->status == 0 && !l->ending) {
            l->status = status;
            (void)say_error("%s at %s ended with status %d%s: the others are told to end", name_of(t, name, sizeof(name)),
                            t->host, status, status == 255 ? " (of ssh, if it is not the program's)" : "");
            tell_all(l);
        }
    }
}

/* Reap ssh processes that have ended; kill those that still run GONE_MS after they were told to end. Returns how many run. */
static size_t look(struct launch *l)
{
    size_t run = 0, others = 0;
    const int64_t now_ms = cli_clock_ms();
    for (size_t i = 0; i < l->count; i++) {
        struct task *t = &l->tasks[i];
        int how = 0;
        const bool late = t->pid > 0 && t->in < 0 && now_ms - t->told_ms >= GONE_MS;
        if (late) {
            (void)kill(t->pid, SIGKILL);
        }
        if (t->pid > 0 && waitpid(t->pid, &how, WNOHANG) == t->pid) {
            ended(l, t, how);
        }
        run += t->pid > 0;
        others += t->pid > 0 && !t->ps;
    }
    l->last_ms = others > 0 ? 0 : l->last_ms == 0 ? now_ms : l->last_ms;
    if (run > 0 && !l->ending && l->last_ms != 0 && now_ms - l->last_ms >= LAST_S * 1000) {
        tell_all(l); /* the workers ended LAST_S ago: tell the ps tasks that still run to end */
    }
    return run;
}

static int run_all(struct launch *l)
{
    struct pollfd *polls = calloc(2 * l->count, sizeof(*polls));
    int status = polls == NULL ? say_error("out of memory") : 0;
    for (size_t i = 0; status == 0 && i < l->count; i++) {
        status = came == 0 ? start(l, &l->tasks[i]) : 0;
    }
    if (status != 0) {
        l->status = status;
        tell_all(l);
    }
    while (polls != NULL && look(l) > 0) {
        if (came != 0 && !l->ending) {
            (void)say_error("signal %d: all are told to end", (int)came);
            tell_all(l);
        }
        nfds_t n = 0;
        for (size_t i = 0; i < l->count; i++) {
            polls[n++] = (struct pollfd){.fd = l->tasks[i].out.fd, .events = POLLIN};
            polls[n++] = (struct pollfd){.fd = l->tasks[i].err.fd, .events = POLLIN};
        }
        if (poll(polls, n, TICK_MS) > 0) {
            for (size_t i = 0; i < l->count; i++) {
                if (polls[2 * i].revents != 0) {
                    (void)take_output(&l->tasks[i], &l->tasks[i].out);
                }
                if (polls[2 * i + 1].revents != 0) {
                    (void)take_output(&l->tasks[i], &l->tasks[i].err);
                }
            }
        }
    }
    free(polls);
    return came != 0 ? 128 + came : l->status;
}

static int print_help(struct psi_options *o)
{
    struct psi_buf text;
    struct psi_err err;
    psi_buf_init(&text, 1 << 20);
    ps_status st = psi_options_help(o, &text, &err);
    (void)printf(
        "usage: pstrain launch --hosts FILE [FLAG ...] -- PROGRAM [ARG ...]\n\n"
        "Runs PROGRAM once for each task, over ssh, with TF_CONFIG and PSD_KEY_FILE: as a ps or a worker task of one\n"
        "cluster, with a key for this job. ssh must not ask for anything. The first task that fails ends the others, and\n"
        "its status is this program's. When it ends in whatever way, so do all tasks.\n\n%.*s",
        st == PS_OK ? (int)text.len : 0, st == PS_OK ? (const char *)text.data : "");
    psi_buf_fini(&text);
    return st == PS_OK ? EXIT_DONE : EXIT_FAILED;
}

int launch_run(int argc, char **argv)
{
    struct launch l = {.status = 0};
    struct psi_options o;
    struct psi_err err = {.code = PS_OK};
    uint8_t from[sizeof(rows) / sizeof(rows[0])];
    const struct sigaction action = {.sa_handler = on_signal};
    int flags = 1; /* number of arguments before "--": those of launch itself */
    while (flags < argc && strcmp(argv[flags], "--") != 0) {
        flags++;
    }
    l.program = flags < argc ? argv + flags + 1 : argv + argc;
    psi_options_init(&o, rows, sizeof(rows) / sizeof(rows[0]), &l.o, from);
    if (psi_options_parse_argv(&o, &flags, argv, true, &err) != PS_OK) {
        (void)say_error("launch: %s; see pstrain launch --help", err.text);
        return EXIT_USAGE;
    }
    if (l.o.help) {
        return print_help(&o);
    }
    if (flags > 1 || l.o.hosts == NULL || l.program[0] == NULL) {
        (void)say_error("launch: %s; see pstrain launch --help", flags > 1           ? "the program stands behind --"
                                                                 : l.o.hosts == NULL ? "it needs --hosts FILE"
                                                                                     : "the program is missing behind --");
        return EXIT_USAGE;
    }
    if (l.o.directory_port > 0 && from[psi_options_find(&o, "base_port")] == PSI_FROM_FLAG) {
        (void)say_error("launch: --directory_port %" PRId64 " and --base_port %" PRId64
                        " are both given: are the ports of all tasks known before, or that of ps task 0 alone?",
                        l.o.directory_port, l.o.base_port);
        return EXIT_USAGE;
    }
    int status = ps_cluster_spec_new(NULL, &l.cluster) == PS_OK ? read_hosts(&l) : say_error("%s", ps_last_error());
    l.cluster_json = status == 0 ? ps_cluster_spec_as_dict(l.cluster) : "";
    status = l.cluster_json != NULL ? status : say_error("%s", ps_last_error());
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    status = status == 0 ? make_key(&l) : status;
    status = status == 0 ? run_all(&l) : status;
    free(l.key);
    free(l.tasks);
    ps_cluster_spec_free(l.cluster);
    return status;
}

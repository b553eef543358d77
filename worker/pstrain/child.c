/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children of --local.
 *
 * Happy path: fork, exec of this same program with pipes as its standard output and error -> its lines are passed on with its
 * name in front -> it is reaped. Failure modes: no process or descriptor left; a line longer than CHILD_LINE_BYTES is cut in two.
 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LISTEN_FD = 3, ARGUMENTS_MAX = 64, EXIT_NO_EXEC = 127 };

extern char **environ;

/* ---- start ---- */

static bool replaced(const char *variable)
{
    static const char *const names[] = {LINK_VARIABLE, "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "TF_CONFIG"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t n = strlen(names[i]);
        if (strncmp(variable, names[i], n) == 0 && variable[n] == '=') {
            return true;
        }
    }
    return false;
}

/* Ours without what is replaced; room for three more at the end. free() the array only. */
static char **environment_copy(size_t *out_count)
{
    size_t count = 0;
    for (char **e = environ; *e != NULL; e++) {
        count++;
    }
    char **copy = (char **)calloc(count + 4, sizeof(*copy));
    *out_count = 0;
    for (size_t i = 0; copy != NULL && i < count; i++) {
        if (!replaced(environ[i])) {
            copy[(*out_count)++] = environ[i];
        }
    }
    return copy;
}

/* In the child; nothing here allocates. */
_Noreturn static void become(char *const *argv, char **environment, size_t at, const char *link, const int *ends, int listen_fd,
                             const sigset_t *mask, pid_t parent)
{
    char link_text[64];
    char fds[] = "LISTEN_FDS=1";
    char pid[48];
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)snprintf(link_text, sizeof(link_text), "%s", link);
    (void)snprintf(pid, sizeof(pid), "LISTEN_PID=%ld", (long)getpid());
    environment[at++] = link_text;
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, mask, NULL);
    if (getppid() == parent && dup2(null, STDIN_FILENO) >= 0 && dup2(ends[CHILD_OUT], STDOUT_FILENO) >= 0 &&
        dup2(ends[CHILD_ERR], STDERR_FILENO) >= 0) {
        bool good = true;
        if (listen_fd >= 0) {
            environment[at++] = fds;
            environment[at++] = pid;
            good = (listen_fd == LISTEN_FD ? fcntl(listen_fd, F_SETFD, 0) : dup2(listen_fd, LISTEN_FD)) >= 0;
        } else {
            good = fcntl(ends[CHILD_MESSAGES], F_SETFD, 0) == 0;
        }
        if (good) {
            (void)execve("/proc/self/exe", argv, environment);
        }
    }
    _exit(EXIT_NO_EXEC);
}

static void close_all(int *fds)
{
    for (int i = 0; i < CHILD_PIPES; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
        fds[i] = -1;
    }
}

int child_start(struct child *c, char *const *arguments, const char *environment, int listen_fd, const sigset_t *mask)
{
    char name[] = "pstrain";
    char *argv[ARGUMENTS_MAX] = {name};
    char link[64];
    int ends[CHILD_PIPES] = {-1, -1, -1};
    size_t count = 0;
    size_t variables = 0;
    for (int i = 0; i < CHILD_PIPES; i++) {
        c->pipes[i] = -1;
    }
    for (; count < ARGUMENTS_MAX - 2 && arguments[count] != NULL; count++) {
        argv[count + 1] = arguments[count];
    }
    char **copy = environment_copy(&variables);
    if (copy == NULL) {
        return -1;
    }
    for (int i = 0; i < CHILD_PIPES; i++) {
        int pair[2];
        if (pipe2(pair, O_CLOEXEC) != 0) {
            goto fail;
        }
        c->pipes[i] = pair[0];
        ends[i] = pair[1];
        (void)fcntl(pair[0], F_SETFL, O_NONBLOCK);
    }
    (void)snprintf(link, sizeof(link), LINK_VARIABLE "=%s", listen_fd >= 0 ? "ps" : "");
    if (listen_fd < 0) {
        (void)snprintf(link, sizeof(link), LINK_VARIABLE "=%d%s", ends[CHILD_MESSAGES], environment);
    }
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0) {
        goto fail;
    }
    if (pid == 0) {
        become(argv, copy, variables, link, ends, listen_fd, mask, parent);
    }
    c->pid = pid;
    close_all(ends);
    free((void *)copy);
    return 0;
fail:
    close_all(ends);
    close_all(c->pipes);
    free((void *)copy);
    return -1;
}

/* ---- what it writes ---- */

/* All of it: a slow terminal is waited for, one that is gone is not. */
static void put(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(fd, data, bytes);
        if (n >= 0) {
            data += n;
            bytes -= (size_t)n;
        } else if (errno == EAGAIN) {
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            (void)poll(&p, 1, -1);
        } else if (errno != EINTR) {
            return;
        }
    }
}

static void put_line(const struct child *c, const struct child_line *line, struct child_output *output)
{
    char text[CHILD_LINE_BYTES + 64];
    int n = snprintf(text, sizeof(text), "[%s] %.*s\n", c->name, (int)line->used, line->text);
    if (output->mute) {
        return;
    }
    if (output->bar && output->mid_line) {
        put(STDOUT_FILENO, "\r\033[K", 4); /* the bar comes again */
        output->mid_line = false;
    }
    put(STDERR_FILENO, text, (size_t)n);
}

static void take_text(struct child *c, int i, const char *data, size_t bytes, struct child_output *output)
{
    struct child_line *line = &c->line[i];
    if (c->chief && i == CHILD_OUT) {
        put(STDOUT_FILENO, data, bytes);
        output->mid_line = data[bytes - 1] != '\n';
        return;
    }
    for (size_t k = 0; k < bytes; k++) {
        if (data[k] != '\n') {
            line->text[line->used++] = data[k];
        }
        if (data[k] == '\n' || line->used == sizeof(line->text)) {
            put_line(c, line, output);
            line->used = 0;
        }
    }
}

static void take_messages(struct child *c, const char *data, size_t bytes)
{
    for (size_t k = 0; k < bytes; k++) {
        ((char *)&c->message)[c->message_bytes++] = data[k];
        if (c->message_bytes < sizeof(c->message)) {
            continue;
        }
        c->message_bytes = 0;
        c->ready = c->ready || c->message.kind == LINK_READY;
        if (c->message.kind == LINK_DONE) {
            c->done = true;
            c->work = c->message.work;
        }
    }
}

void child_read(struct child *c, int i, struct child_output *output)
{
    char data[CHILD_LINE_BYTES];
    while (c->pipes[i] >= 0) {
        ssize_t n = read(c->pipes[i], data, sizeof(data));
        if (n > 0 && i == CHILD_MESSAGES) {
            take_messages(c, data, (size_t)n);
        } else if (n > 0) {
            take_text(c, i, data, (size_t)n, output);
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else if (n < 0 && errno == EAGAIN) {
            return;
        } else {
            if (i != CHILD_MESSAGES && c->line[i].used > 0) {
                put_line(c, &c->line[i], output);
                c->line[i].used = 0;
            }
            (void)close(c->pipes[i]);
            c->pipes[i] = -1;
        }
    }
}

bool child_reap(struct child *c, struct child_output *output)
{
    if (c->pid == 0 || c->ended || waitpid(c->pid, &c->status, WNOHANG) != c->pid) {
        return false;
    }
    c->ended = true;
    for (int i = 0; i < CHILD_PIPES; i++) {
        child_read(c, i, output);
    }
    return true;
}

const char *child_how(const struct child *c, char *text, size_t bytes)
{
    if (WIFSIGNALED(c->status)) {
        (void)snprintf(text, bytes, "was killed by signal %d (%s)", WTERMSIG(c->status), strsignal(WTERMSIG(c->status)));
    } else {
        (void)snprintf(text, bytes, "ended with status %d", WEXITSTATUS(c->status));
    }
    return text;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes of pstrain --local, one for each ps task and worker: this program again, with pipes as standard output and
 * error. The parent prints each line with the child's name before it, and reaps the child. If the parent ends, the kernel kills
 * the child. Failure modes: the system has no process or descriptor left; a malformed PSTRAIN_LOCAL is ignored. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINK_VARIABLE "PSTRAIN_LOCAL"

/* A worker's message to its parent. A pipe delivers it in one piece, because it is shorter than PIPE_BUF. */
struct message {
    uint32_t kind; /* enum link_kind */
    uint32_t reserved;
    struct work work; /* set with LINK_DONE */
};

extern char **environ;

void link_read(struct link *out)
{
    const char *text = getenv(LINK_VARIABLE);
    char *flags = NULL; /* the part of `text` behind the parent's process id: ",BAR,QUIET" */
    long parent = text != NULL ? strtol(text, &flags, 10) : 0;
    *out = (struct link){.child = false};
    if (text == NULL || strlen(flags) != 4 || flags[0] != ',' || flags[2] != ',') {
        return;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || fcntl(CHILD_FD, F_SETFD, FD_CLOEXEC) != 0) {
        _exit(EXIT_FAILURE); /* the parent ended before prctl() could tie this child to it, or there is no descriptor CHILD_FD */
    }
    *out = (struct link){.child = true, .bar = flags[1] == '1', .quiet = flags[3] == '1'};
}

void link_tell(const struct link *l, enum link_kind kind, const struct work *work)
{
    struct message m = {.kind = kind};
    if (work != NULL) {
        m.work = *work;
    }
    if (l->child && write(CHILD_FD, &m, sizeof(m)) < 0) {
        return; /* the parent is gone */
    }
}

static int spawn(struct child *c, char **argv, const int *ends, const sigset_t *mask)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    (void)sigemptyset(&defaults);
    (void)sigaddset(&defaults, SIGPIPE);
    (void)posix_spawn_file_actions_init(&files);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    (void)posix_spawnattr_setsigmask(&attributes, mask);
    (void)posix_spawnattr_setsigdefault(&attributes, &defaults);
    int why = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    why = why == 0 ? posix_spawn_file_actions_adddup2(&files, ends[CHILD_OUT], STDOUT_FILENO) : why;
    why = why == 0 ? posix_spawn_file_actions_adddup2(&files, ends[CHILD_ERR], STDERR_FILENO) : why;
    why = why == 0 ? posix_spawn_file_actions_adddup2(&files, c->worker ? ends[CHILD_MESSAGES] : c->socket, CHILD_FD) : why;
    why = why == 0 ? posix_spawn(&c->pid, "/proc/self/exe", &files, &attributes, argv, environ) : why;
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&files);
    c->pid = why == 0 ? c->pid : 0;
    errno = why;
    return why == 0 ? 0 : -1;
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

int child_start(struct child *c, char **argv, bool bar, const sigset_t *mask)
{
    char link[64];
    int ends[CHILD_PIPES] = {-1, -1, -1};
    int result = 0;
    for (int i = 0; i < CHILD_PIPES && result == 0; i++) {
        int pair[2] = {-1, -1};
        result = pipe2(pair, O_CLOEXEC);
        c->pipes[i] = pair[0];
        ends[i] = pair[1];
        (void)fcntl(pair[0], F_SETFL, O_NONBLOCK);
    }
    (void)snprintf(link, sizeof(link), "%d,%d,%d", (int)getpid(), c->chief && bar, !c->chief);
    if (result == 0) {
        (void)unsetenv("TF_CONFIG");
        result = setenv(LINK_VARIABLE, link, 1) == 0 ? spawn(c, argv, ends, mask) : -1;
        (void)unsetenv(LINK_VARIABLE);
    }
    int why = errno;
    close_all(ends);
    if (result != 0) {
        close_all(c->pipes);
    }
    errno = why;
    return result;
}

/* Write all bytes to fd. Waits while the reader of fd (the terminal) is slow, and drops the rest if the reader is gone. */
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

static void put_line(const struct child *c, struct child_line *line, struct child_output *output)
{
    char text[CHILD_LINE_BYTES + 64];
    int n = snprintf(text, sizeof(text), "[%s] %.*s\n", c->name, (int)line->used, line->text);
    line->used = 0;
    if (output->mute) {
        return;
    }
    if (output->bar && output->mid_line) {
        put(STDOUT_FILENO, "\r\033[K", 4); /* erase the chief's progress bar, which the chief draws again later */
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
        }
    }
}

static void take_message(struct child *c, const struct message *m)
{
    c->ready = c->ready || m->kind == LINK_READY;
    c->done = c->done || m->kind == LINK_DONE;
    c->work = m->kind == LINK_DONE ? m->work : c->work;
}

void child_read(struct child *c, int i, struct child_output *output)
{
    union {
        char text[CHILD_LINE_BYTES];
        struct message message;
    } data;
    while (c->pipes[i] >= 0) {
        ssize_t n = read(c->pipes[i], &data, i == CHILD_MESSAGES ? sizeof(data.message) : sizeof(data.text));
        if (n > 0 && i == CHILD_MESSAGES) {
            take_message(c, &data.message);
        } else if (n > 0) {
            take_text(c, i, data.text, (size_t)n, output);
        } else if (n < 0 && errno == EAGAIN) {
            return;
        } else if (n == 0 || errno != EINTR) {
            if (i != CHILD_MESSAGES && c->line[i].used > 0) {
                put_line(c, &c->line[i], output);
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

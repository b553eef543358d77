/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes for system tests.
 * Happy path: bind -> fork -> the child gets the socket as descriptor 3 -> exec psd -> its ready line. Failure modes: anything
 * that does not work fails the running test; a child dies with its parent.
 */
#define _GNU_SOURCE 1 /* pipe2 */
#include "daemon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void die(const char *what)
{
    (void)fprintf(stderr, "test set-up: %s: %s\n", what, strerror(errno));
    abort();
}

const char *test_build_path(const char *name, char *buf, size_t n)
{
    const char *build = getenv("PSD_BUILD");
    (void)snprintf(buf, n, "%s/%s", build != NULL ? build : "build/release", name);
    return buf;
}

static int bind_port(uint16_t *out_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        bind(fd, (const struct sockaddr *)&a, sizeof(a)) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) != 0) {
        die("bind");
    }
    *out_port = ntohs(a.sin_port);
    return fd;
}

void test_cluster_init(struct test_cluster *c, int count, const char *more_jobs)
{
    size_t len = (size_t)snprintf(c->spec, sizeof(c->spec), "ps=");
    memset(c->pid, 0, sizeof(c->pid));
    c->flags = NULL;
    c->count = count;
    for (int i = 0; i < count; i++) {
        uint16_t port = 0;
        c->listener[i] = bind_port(&port);
        (void)snprintf(c->address[i], sizeof(c->address[i]), "127.0.0.1:%u", port);
        len += (size_t)snprintf(c->spec + len, sizeof(c->spec) - len, "%s%s", i > 0 ? "," : "", c->address[i]);
    }
    (void)snprintf(c->spec + len, sizeof(c->spec) - len, "%s", more_jobs);
}

/* In the child. */
static void exec_psd(const struct test_cluster *c, int i, int out)
{
    char path[512];
    char index[16];
    char pid[32];
    int listener = c->listener[i];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)snprintf(index, sizeof(index), "%d", i);
    (void)snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    /* out may be 3: move both away first */
    int high_out = fcntl(out, F_DUPFD_CLOEXEC, 10);
    int high_listener = fcntl(listener, F_DUPFD_CLOEXEC, 10);
    if (high_out < 0 || high_listener < 0 || dup2(high_out, STDOUT_FILENO) < 0 || dup2(high_listener, 3) < 0 ||
        setenv("LISTEN_FDS", "1", 1) != 0 || setenv("LISTEN_PID", pid, 1) != 0) {
        _exit(127);
    }
    (void)test_build_path("bin/psd", path, sizeof(path));
    char *argv[32] = {"psd",         "--cluster", (char *)(uintptr_t)c->spec, "--job_name", "ps", "--task_index", index,
                      "--log_level", "warn"};
    for (size_t n = 9, k = 0; c->flags != NULL && c->flags[k] != NULL && n < 31; k++) {
        argv[n++] = c->flags[k];
    }
    (void)execv(path, argv);
    _exit(127);
}

void test_cluster_start(struct test_cluster *c, int i)
{
    int ends[2];
    char line[512];
    size_t have = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        die("pipe");
    }
    pid_t pid = fork();
    if (pid < 0) {
        die("fork");
    }
    if (pid == 0) {
        exec_psd(c, i, ends[1]);
    }
    (void)close(ends[1]);
    while (have + 1 < sizeof(line)) {
        ssize_t n = read(ends[0], line + have, sizeof(line) - 1 - have);
        if (n <= 0) {
            break;
        }
        have += (size_t)n;
        if (memchr(line, '\n', have) != NULL) {
            break;
        }
    }
    line[have] = '\0';
    (void)close(ends[0]);
    c->pid[i] = pid;
    if (strncmp(line, "ready:", 6) != 0) {
        errno = ECHILD;
        die("psd is not ready");
    }
}

void test_cluster_start_all(struct test_cluster *c)
{
    for (int i = 0; i < c->count; i++) {
        test_cluster_start(c, i);
    }
}

static int status_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int test_cluster_join(struct test_cluster *c, int i)
{
    int status = 0;
    while (waitpid(c->pid[i], &status, 0) < 0) {
        if (errno != EINTR) {
            die("waitpid");
        }
    }
    c->pid[i] = 0;
    return status_of(status);
}

void test_cluster_kill(struct test_cluster *c, int i)
{
    (void)kill(c->pid[i], SIGKILL);
    (void)test_cluster_join(c, i);
}

void test_cluster_hang(struct test_cluster *c, int i)
{
    int status = 0;
    if (kill(c->pid[i], SIGSTOP) != 0 || waitpid(c->pid[i], &status, WUNTRACED) != c->pid[i] || !WIFSTOPPED(status)) {
        die("SIGSTOP");
    }
}

int test_cluster_stop(struct test_cluster *c, int i)
{
    (void)kill(c->pid[i], SIGTERM);
    return test_cluster_join(c, i);
}

void test_cluster_refuse(struct test_cluster *c, int i)
{
    (void)close(c->listener[i]);
    c->listener[i] = -1;
}

void test_cluster_fini(struct test_cluster *c)
{
    for (int i = 0; i < c->count; i++) {
        if (c->pid[i] != 0) {
            test_cluster_kill(c, i);
        }
        if (c->listener[i] >= 0) {
            test_cluster_refuse(c, i);
        }
    }
}

int test_run(char *const argv[], const char *target, char *out, size_t n)
{
    int ends[2];
    size_t have = 0;
    int status = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        die("pipe");
    }
    pid_t pid = fork();
    if (pid < 0) {
        die("fork");
    }
    if (pid == 0) {
        int null = open("/dev/null", O_RDONLY);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(ends[1], STDOUT_FILENO) < 0 || dup2(ends[1], STDERR_FILENO) < 0) {
            _exit(127);
        }
        if (target != NULL) {
            (void)setenv("PSD_TARGET", target, 1);
        } else {
            (void)unsetenv("PSD_TARGET");
        }
        (void)unsetenv("TF_CONFIG");
        (void)execv(argv[0], argv);
        _exit(127);
    }
    (void)close(ends[1]);
    for (;;) {
        char rest[4096];
        bool room = have + 1 < n;
        ssize_t got = read(ends[0], room ? out + have : rest, room ? n - 1 - have : sizeof(rest));
        if (got <= 0) {
            break;
        }
        have += room ? (size_t)got : 0;
    }
    out[have] = '\0';
    (void)close(ends[0]);
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            die("waitpid");
        }
    }
    return status_of(status);
}

uint64_t test_resident_bytes(pid_t pid)
{
    char path[64], line[256] = "";
    (void)snprintf(path, sizeof(path), "/proc/%ld/statm", (long)pid);
    FILE *f = fopen(path, "re");
    const char *second = f != NULL && fgets(line, sizeof(line), f) != NULL ? strchr(line, ' ') : NULL;
    if (f != NULL) {
        (void)fclose(f);
    }
    return second == NULL ? 0 : strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE); /* the first is the address space */
}

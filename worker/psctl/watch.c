/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs that look at all tasks: once, or with --watch in rounds. Happy path: connect, ask all tasks at the same time, print.
 * --watch keeps the session open, and its rounds come at a fixed pace: a round waits for answers only until the next begins, so
 * that a silent task delays nothing. A terminal shows only the latest round. Failure modes: those of connecting and asking; with
 * tasks that are down --watch goes on. SIGINT and SIGTERM end --watch with exit status 0; a second signal ends it at once. */
#include "psctl.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* longest wait for answers in one round, in ms; an interrupt takes effect after this wait */
enum { ROUND_MS_MAX = 2000 };
enum { ROWS_BESIDES = 4 }; /* rows of the terminal beside the table's rows: time, headings, the line "N more", the cursor */

void psctl_answer(const struct psctl *c)
{
    if (c->json) {
        cli_json_object(NULL);
        cli_json_put("time", c->when != NULL ? json_string(c->when) : NULL);
    }
}

void psctl_answer_end(const struct psctl *c)
{
    if (c->json) {
        cli_json_end();
    }
    (void)fflush(stdout);
}

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

static const char *time_line(char *buf, size_t n)
{
    struct tm tm;
    time_t now = time(NULL);
    if (localtime_r(&now, &tm) == NULL || strftime(buf, n, "%Y-%m-%dT%H:%M:%S%z", &tm) == 0) {
        buf[0] = '\0';
    }
    return buf;
}

/* Wait until then_ms (monotonic clock) or an interrupt. Signals are blocked between check and wait, so that none is missed. */
static void wait_until(int64_t then_ms)
{
    sigset_t blocked;
    sigset_t before;
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGINT);
    (void)sigaddset(&blocked, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &blocked, &before);
    int64_t left = then_ms - cli_clock_ms();
    while (interrupted == 0 && left > 0) {
        struct timespec t = {.tv_sec = (time_t)(left / 1000), .tv_nsec = (long)(left % 1000) * 1000000};
        (void)ppoll(NULL, 0, &t, &before);
        left = then_ms - cli_clock_ms();
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* How many rows of the table fit on the terminal beside the notes about tasks and the row of sums; 0: not known. */
static int rows_of(const struct psctl *c)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) {
        return 0;
    }
    int others = ROWS_BESIDES + 1;
    for (int i = 0; i < c->task_count; i++) {
        const ps_task_info *t = &c->infos[i];
        bool holds = t->up && (t->sessions != t->connected || t->most_bytes > 0);
        others += (t->up ? 0 : 1) + (t->conflict[0] != '\0' ? 1 : 0) + (t->lost > 0 ? 1 : 0) + (holds ? 1 : 0);
    }
    return size.ws_row > others ? size.ws_row - others : 1;
}

static enum psctl_exit watch(struct psctl *c, enum psctl_exit (*show)(struct psctl *c))
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    bool terminal = !c->json && isatty(STDOUT_FILENO) != 0;
    int64_t round_ms = c->watch_ms < c->timeout_ms ? c->watch_ms : c->timeout_ms;
    int64_t next_ms = cli_clock_ms();
    round_ms = round_ms < ROUND_MS_MAX ? round_ms : ROUND_MS_MAX;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    while (interrupted == 0) {
        char when[40];
        c->when = time_line(when, sizeof(when));
        enum psctl_exit code = psctl_ask(c, round_ms);
        if (code != PSCTL_OK) {
            return code;
        }
        psctl_restart_clock(c);
        c->room = (struct cli_room){.rows = terminal ? rows_of(c) : 0, .columns = cli_terminal_columns()};
        if (!c->json) {
            (void)printf("%s%s\n", terminal ? "\033[H\033[J" : "", when);
        }
        code = show(c); /* show() has printed a failure; --watch goes on */
        if (code == PSCTL_USAGE) {
            return code;
        }
        if (!c->json && !terminal) {
            (void)putchar('\n');
        }
        if (fflush(stdout) != 0) {
            return PSCTL_FAILED;
        }
        next_ms += c->watch_ms;
        /* leave out the rounds that were missed while the process was stopped (SIGSTOP) */
        next_ms = next_ms > cli_clock_ms() - c->watch_ms ? next_ms : cli_clock_ms();
        wait_until(next_ms);
    }
    return PSCTL_OK;
}

enum psctl_exit psctl_rounds(struct psctl *c, enum psctl_exit (*show)(struct psctl *c))
{
    enum psctl_exit code = c->watch_ms > 0 ? psctl_connect(c) : psctl_begin(c);
    if (code != PSCTL_OK) {
        return code;
    }
    return c->watch_ms > 0 ? watch(c, show) : show(c);
}

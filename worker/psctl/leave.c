/* SPDX-License-Identifier: Apache-2.0 */
/* SIGINT and SIGTERM while psctl waits for tasks: psctl's requests there end at once, not when its lease expires.
 * Happy path: a thread takes the signal; the session says goodbye, for a second at most; psctl prints what the tasks do without
 * it; the process ends with 128 + the signal's number. Errors of requests that end because the session closes are not printed.
 * Failure mode: without a thread a signal ends the process at once. --watch has handlers of its own (watch.c). */
#include "psctl.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ps_session *session;
static const char *says; /* text of psctl_leave_says(); under lock */
static sigset_t signals;

static void *wait_for_signal(void *unused)
{
    int number = 0;
    sigset_t pipe;
    (void)unused;
    (void)sigemptyset(&pipe);
    (void)sigaddset(&pipe, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe, NULL); /* a broken pipe must not end the process with another status */
    if (sigwait(&signals, &number) == 0) {
        (void)pthread_mutex_lock(&lock); /* never unlocked: no other thread may close the session now */
        ps_session_leave(session);
        struct pollfd err = {.fd = STDERR_FILENO, .events = POLLOUT};
        if (says != NULL && poll(&err, 1, 0) == 1 && (err.revents & POLLOUT) != 0) { /* a full pipe would block: print nothing */
            /* overwrite the progress bar; not through stdio, whose lock the other thread may hold */
            (void)dprintf(STDERR_FILENO, "%spsctl: %s\n", isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "", says);
        }
        _exit(128 + number);
    }
    return NULL;
}

void psctl_leave_begin(void)
{
    static bool begun;
    pthread_t thread;
    sigset_t before;
    if (begun) {
        return;
    }
    begun = true;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &signals, &before);
    if (pthread_create(&thread, NULL, wait_for_signal, NULL) != 0) {
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        return;
    }
    (void)pthread_detach(thread);
}

void psctl_leave_says(const char *text)
{
    (void)pthread_mutex_lock(&lock);
    says = text;
    (void)pthread_mutex_unlock(&lock);
}

void psctl_leave_hold(void)
{
    (void)pthread_mutex_lock(&lock);
}

void psctl_leave_session(ps_session *s)
{
    session = s;
    (void)pthread_mutex_unlock(&lock);
}

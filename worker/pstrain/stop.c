/* SPDX-License-Identifier: Apache-2.0 */
/* A thread takes a worker's signals. A signal closes the sessions and ends the process, in training after the present step. */
#include "stop.h"

#include "say.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

enum { ONE_WISH_MS = 1000, ASIDES_MAX = 4 };

static atomic_int noted; /* number of the first signal that came with `gentle` set; 0: no signal came */
static atomic_bool gentle;
static atomic_llong within_ms;
static int64_t noted_ms; /* when `noted` came, in ms; only the signal thread uses it */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ps_session *session;            /* under lock: the training session, set by stop_session(); NULL: none */
static ps_session *asides[ASIDES_MAX]; /* under lock: further sessions, set by stop_aside(); NULL: free */
static atomic_bool ending;

void stop_set(sigset_t *set)
{
    struct sigaction hangup;
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGINT);
    (void)sigaddset(set, SIGTERM);
    /* leave an ignored SIGHUP out: sigwait() would return it nevertheless */
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) {
        (void)sigaddset(set, SIGHUP);
    }
}

bool stop_insists(int64_t *first_ms)
{
    int64_t now = cli_clock_ms();
    bool first = *first_ms == 0;
    *first_ms = first ? now : *first_ms;
    return !first && now - *first_ms >= ONE_WISH_MS;
}

/* Wait for the next signal and return its number; 0: an error. If a first signal was noted, and within_ms pass without another,
 * clear `gentle` and return the noted signal again: now it ends the process. */
static int next_signal(const sigset_t *set)
{
    int number = 0;
    while (noted != 0 && within_ms != 0) {
        int64_t left_ms = noted_ms + within_ms - cli_clock_ms();
        left_ms = left_ms > 0 ? left_ms : 0;
        const struct timespec left = {.tv_sec = left_ms / 1000, .tv_nsec = left_ms % 1000 * 1000000};
        number = sigtimedwait(set, NULL, &left);
        if (number < 0 && errno == EAGAIN) {
            gentle = false;
            return noted;
        }
        if (number > 0) {
            return number;
        }
    }
    return sigwait(set, &number) == 0 ? number : 0;
}

static void *take_signals(void *set)
{
    for (;;) {
        int number = next_signal(set);
        if (number == 0) {
            return NULL;
        }
        if (stop_insists(&noted_ms) || !gentle) {
            (void)pthread_mutex_lock(&lock); /* never unlocked: from now on no other thread closes a session */
            ending = true;
            for (int i = 0; i < ASIDES_MAX; i++) {
                ps_session_leave(asides[i]);
            }
            ps_session_leave(session);
            _exit(EXIT_SIGNAL + number);
        }
        noted = noted != 0 ? noted : number;
    }
}

void stop_watch(void)
{
    static sigset_t set;
    pthread_t thread;
    sigset_t before;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &set, &before);
    if (pthread_create(&thread, NULL, take_signals, &set) != 0) {
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* no thread: signals have their default action again */
        return;
    }
    (void)pthread_detach(thread);
}

void stop_hold(void)
{
    (void)pthread_mutex_lock(&lock);
}

void stop_session(ps_session *s)
{
    session = s;
    (void)pthread_mutex_unlock(&lock);
}

void stop_aside(ps_session *opened, const ps_session *closed)
{
    for (int i = 0; i < ASIDES_MAX; i++) {
        if (closed != NULL ? asides[i] == closed : opened != NULL && asides[i] == NULL) {
            asides[i] = opened;
            break;
        }
    }
    (void)pthread_mutex_unlock(&lock);
}

bool stop_is_ending(void)
{
    return ending;
}

void stop_within(int64_t ms)
{
    within_ms = ms;
}

void stop_gently(bool gently)
{
    gentle = gently;
}

int stop_signal(void)
{
    return noted;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Signals of a worker: while it waits nothing is in flight and it may just end; while it trains it finishes its step. */
#include "stop.h"

#include "say.h"

#include <stddef.h>
#include <unistd.h>

enum { ONE_WISH_MS = 1000 };

static volatile sig_atomic_t noted;
static volatile sig_atomic_t gentle;
static int64_t noted_ms; /* of the handler */

void stop_set(sigset_t *set)
{
    struct sigaction hangup;
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGINT);
    (void)sigaddset(set, SIGTERM);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) { /* blocked it would come all the same */
        (void)sigaddset(set, SIGHUP);
    }
}

bool stop_insists(int64_t *first_ms)
{
    int64_t now = clock_ms();
    bool first = *first_ms == 0;
    *first_ms = first ? now : *first_ms;
    return !first && now - *first_ms >= ONE_WISH_MS;
}

static void on_signal(int number)
{
    if (stop_insists(&noted_ms) || gentle == 0) {
        _exit(EXIT_SIGNAL + number);
    }
    noted = noted != 0 ? noted : number;
}

void stop_watch(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    (void)sigaddset(&action.sa_mask, SIGINT); /* one handler at a time */
    (void)sigaddset(&action.sa_mask, SIGTERM);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

void stop_gently(bool gently)
{
    gentle = gently ? 1 : 0;
}

int stop_signal(void)
{
    return noted;
}

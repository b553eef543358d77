/* SPDX-License-Identifier: Apache-2.0 */
/* Signals of a worker: while it waits nothing is in flight and it may just end; while it trains it finishes its step. */
#include "stop.h"

#include "say.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t noted;
static volatile sig_atomic_t gentle;

static void on_signal(int number)
{
    if (noted != 0 || gentle == 0) {
        _exit(EXIT_SIGNAL + number);
    }
    noted = number;
}

void stop_watch(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
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

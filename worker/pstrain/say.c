/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, remedies, the clock. No failure modes: standard error that cannot be written to must not stop training. */
#include "say.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 8192 };

static void say(const char *format, va_list ap) __attribute__((format(printf, 1, 0)));
static void say(const char *format, va_list ap)
{
    char line[LINE_BYTES];
    int n = snprintf(line, sizeof(line), "pstrain: ");
    int more = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, ap);
    size_t bytes = strlen(line);
    if (more < 0) {
        return;
    }
    line[bytes] = '\n';
    if (write(STDERR_FILENO, line, bytes + 1) < 0) {
        return; /* nobody reads it */
    }
}

int say_error(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    say(format, ap);
    va_end(ap);
    return EXIT_FAILED;
}

void say_note(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    say(format, ap);
    va_end(ap);
}

const char *say_remedy(ps_status st, ps_reason reason)
{
    static const char other_model[] = "; or use the flags of the run that made the model; --fresh on all trainers starts over";
    switch (st) {
    case PS_ABORTED:
        return "; the model was reset (by a trainer with --fresh) or its ps task restarted: start this trainer again, all "
               "trainers with "
               "--fresh if part of the model is lost";
    case PS_DATA_LOSS:
        return "; --fresh on all trainers starts over, --container NAME keeps another model apart";
    case PS_FAILED_PRECONDITION:
        return reason == PS_REASON_OTHER_CLUSTER
                   ? "; --ps_hosts must be the same list, in the same order, and --cluster_name the same, for every task and "
                     "trainer"
                   : other_model;
    case PS_UNAVAILABLE:
        return "; is that ps task running and its address right?";
    case PS_INVALID_ARGUMENT:
        switch (reason) {
        case PS_REASON_SHAPE_MISMATCH:
        case PS_REASON_OPTIMIZER_MISMATCH:
        case PS_REASON_ATOMIC_MISMATCH:
            return other_model;
        case PS_REASON_NOT_FINITE:
            return "; a smaller --learning_rate may help";
        default:
            return "";
        }
    default:
        return "";
    }
}

void clock_wait(int ms)
{
    (void)poll(NULL, 0, ms);
}

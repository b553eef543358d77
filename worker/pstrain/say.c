/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to the user, and waiting. Errors of standard output are ignored here: main.c finds them at the end. */
#include "say.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { LINE_BYTES = 8192 };

void say_line(const char *line)
{
    char text[LINE_BYTES];
    int n = snprintf(text, sizeof(text), "%s\n", line);
    size_t bytes = n > 0 && (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1;
    text[bytes - 1] = '\n';
    if (write(STDERR_FILENO, text, bytes) < 0) {
        return; /* ignored: standard error may be closed, and there is no other place for the message */
    }
}

static void say(const char *format, va_list ap) __attribute__((format(printf, 1, 0)));
static void say(const char *format, va_list ap)
{
    char line[LINE_BYTES];
    int n = snprintf(line, sizeof(line), "pstrain: ");
    (void)vsnprintf(line + n, sizeof(line) - (size_t)n, format, ap);
    say_line(line);
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

void say_result(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    (void)vprintf(format, ap);
    va_end(ap);
    (void)fflush(stdout);
}

void clock_wait(int ms)
{
    (void)poll(NULL, 0, ms);
}

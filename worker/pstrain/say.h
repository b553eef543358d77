/* SPDX-License-Identifier: Apache-2.0 */
/* What all parts of pstrain use: messages to the user, waiting, exit codes. */
#ifndef PSTRAIN_SAY_H
#define PSTRAIN_SAY_H

#include "common/cli/text.h"

enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_AT_ONCE = 3, /* a ps task was ended at once, by a second signal */
    EXIT_LOST = 4,    /* a ps task could not save its last checkpoint */
    EXIT_SIGNAL = 128 /* plus the signal's number */
};

/** Write a line to standard error, in one write(). Any thread. An error is ignored, because it must not stop training. */
void say_line(const char *line);
/** Print "pstrain: ..." as an error. Returns EXIT_FAILED. */
int say_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** Print "pstrain: ..." as a note, which is no error, on standard error. */
void say_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** printf() to standard output, flushed. */
void say_result(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** Sleep for ms milliseconds, or until a signal comes. To be used where the ps tasks must be asked repeatedly. */
void clock_wait(int ms);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What all parts of the trainer use: messages to the person, the clock, the exit codes. */
#ifndef PSTRAIN_SAY_H
#define PSTRAIN_SAY_H

#include "common/cli/text.h"

enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_AT_ONCE = 3, /* a ps task, by a signal after the one that was to end it */
    EXIT_LOST = 4,    /* the last checkpoint of a ps task could not be saved */
    EXIT_SIGNAL = 128 /* + the signal's number */
};

/** One line on standard error, in one write; one that cannot be written must not stop training. Any thread. */
void say_line(const char *line);
/** "pstrain: ...". Returns EXIT_FAILED. */
int say_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** The same for what is no error. */
void say_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** printf to standard output, at once. */
void say_result(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** Let ms pass, or until a signal comes: for states on the ps that nothing announces. */
void clock_wait(int ms);

#endif

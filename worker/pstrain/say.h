/* SPDX-License-Identifier: Apache-2.0 */
/* What all parts of the trainer use: messages to the person, the clock, exit codes. */
#ifndef PSTRAIN_SAY_H
#define PSTRAIN_SAY_H

#include "common/cli/text.h"

enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_AT_ONCE = 3, /* a ps task was ended by a second signal */
    EXIT_LOST = 4,    /* the last checkpoint of a ps task could not be saved */
    EXIT_SIGNAL = 128 /* plus the signal's number */
};

/** Write one line to standard error in one write; failures are ignored, because they must not stop training. Any thread. */
void say_line(const char *line);
/** Print "pstrain: ..." as an error. Returns EXIT_FAILED. */
int say_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** Print "pstrain: ..." as a note. */
void say_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** printf() to standard output, flushed. */
void say_result(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** Wait for ms, or until a signal comes: for states of the ps tasks that nothing announces. */
void clock_wait(int ms);

#endif

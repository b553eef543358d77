/* SPDX-License-Identifier: Apache-2.0 */
/* What all parts of the trainer use: messages to the person, the clock, the exit codes. */
#ifndef PSTRAIN_SAY_H
#define PSTRAIN_SAY_H

#include "common/cli/text.h"

#include <ps_types.h>
#include <stdint.h>

enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_AT_ONCE = 3, /* a ps task, by a signal after the one that was to end it */
    EXIT_SIGNAL = 128 /* + the signal's number */
};

/** One line "pstrain: ..." on standard error, in one write. Returns EXIT_FAILED. */
int say_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** The same for what is no error. */
void say_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** What a person can do about an error of a training session; "" where the error's own text says it. */
const char *say_remedy(ps_status st, ps_reason reason);
/** Let ms pass, or until a signal comes: for states on the ps that nothing announces. */
void clock_wait(int ms);

#endif

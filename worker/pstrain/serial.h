/* SPDX-License-Identifier: Apache-2.0 */
/* --serial W: one process computes the rounds of W workers, one worker after the other. */
#ifndef PSTRAIN_SERIAL_H
#define PSTRAIN_SERIAL_H

#include "flags.h"

/** Train, test, report; starts a ps task in this process if none is given. Returns the exit status. */
int serial_run(const struct flags *f);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* --serial W: the rounds of W workers, one after the other in one process. */
#ifndef PSTRAIN_SERIAL_H
#define PSTRAIN_SERIAL_H

#include "flags.h"

/** Train, test, report; starts a ps task in this process if none is given. Returns the exit status. */
int serial_run(const struct flags *f);

#endif

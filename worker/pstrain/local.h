/* SPDX-License-Identifier: Apache-2.0 */
/* --local ps=P,workers=W: a whole cluster on this machine. */
#ifndef PSTRAIN_LOCAL_H
#define PSTRAIN_LOCAL_H

#include "flags.h"

/** Start it, train, test, stop it. Returns the exit status; no process is left. */
int local_run(const struct flags *f);

#endif

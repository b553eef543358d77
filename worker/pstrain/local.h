/* SPDX-License-Identifier: Apache-2.0 */
/* --local ps=P,workers=W: a whole cluster on this machine. */
#ifndef PSTRAIN_LOCAL_H
#define PSTRAIN_LOCAL_H

#include "flags.h"

/** Start a cluster on this machine, train, test, stop it. No process is left. Returns the exit status. */
int local_run(const struct flags *f);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* --local ps=P,workers=W: a whole cluster on this host, each task a process. */
#ifndef PSTRAIN_LOCAL_H
#define PSTRAIN_LOCAL_H

#include "flags.h"

/** Start the cluster, train, test, and end all its processes. Returns the exit status. */
int local_run(const struct flags *f);

#endif

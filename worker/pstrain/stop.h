/* SPDX-License-Identifier: Apache-2.0 */
/* SIGINT and SIGTERM in a worker. */
#ifndef PSTRAIN_STOP_H
#define PSTRAIN_STOP_H

#include <stdbool.h>

/** From now on the two signals end the process at once (exit 128 + N), until stop_gently(). */
void stop_watch(void);
/** gently: the first signal is only noted, so that a step can be finished; the second one ends the process. */
void stop_gently(bool gently);
/** The signal that was noted; 0 when none was. */
int stop_signal(void);

#endif

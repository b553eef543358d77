/* SPDX-License-Identifier: Apache-2.0 */
/* pstrain launch: a cluster of any program over ssh. */
#ifndef PSTRAIN_LAUNCH_H
#define PSTRAIN_LAUNCH_H

/** Run `pstrain launch` with the arguments behind that word. Returns the exit status; prints what failed. */
int launch_run(int argc, char **argv);

#endif

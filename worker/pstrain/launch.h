/* SPDX-License-Identifier: Apache-2.0 */
/* pstrain launch: runs a program, over ssh, as each task of a cluster. */
#ifndef PSTRAIN_LAUNCH_H
#define PSTRAIN_LAUNCH_H

/** Run `pstrain launch` with the arguments behind the word `launch`. Returns the exit status; prints what failed. */
int launch_run(int argc, char **argv);

#endif

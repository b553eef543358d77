/* SPDX-License-Identifier: Apache-2.0 */
/* --job_name ps, or --serve: one task in this process. */
#ifndef PSTRAIN_SERVE_H
#define PSTRAIN_SERVE_H

#include "cluster.h"

/**
 * Serve until SIGTERM, SIGINT or SIGHUP (finish what is in progress; one more than a second later: at once) or `psctl shutdown`.
 * The line `ready: psd://HOST:PORT` goes to standard output. The task runs one call, psd.echo. Inherited listening sockets
 * (LISTEN_FDS, LISTEN_PID) replace the task's address.
 *
 * local    a ps task of --local: log warnings and errors only, and do not wait long for what is in progress.
 * Returns  the exit status.
 */
int serve_run(const struct flags *f, const struct cluster *c, bool local);
/** How long it waits for what is in progress: with a --checkpoint_dir the last checkpoint is, too. */
int serve_drain_ms(const struct flags *f, bool local);

#endif

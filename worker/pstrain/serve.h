/* SPDX-License-Identifier: Apache-2.0 */
/* --job_name ps or --serve: this process is a ps task; or a worker's own task runs beside its training. */
#ifndef PSTRAIN_SERVE_H
#define PSTRAIN_SERVE_H

#include "cluster.h"

/** Be a ps task until `psctl shutdown`, SIGTERM, SIGINT or SIGHUP. Requests in progress are finished, but another signal more
 * than a second after the first one ends the task at once. Prints `ready: psd://HOST:PORT`. The task runs operations (ps_ops.h),
 * and the call psd.echo. Inherited listening sockets (LISTEN_FDS, LISTEN_PID) replace the task's address.
 *
 * local    a ps task of --local: log warnings and errors only, and do not wait long for requests in progress.
 * Returns  the exit status. */
int serve_run(const struct flags *f, const struct cluster *c, bool local);
/** Start this worker's own server, beside its training; if it cannot listen, print why. Returns at once; copies f and c. Call it
 * when the directory (first ps task) knows the worker's session: ps_session_wait_cluster() and ps_barrier() then count it. */
void serve_beside(const struct flags *f, const struct cluster *c);
/** Call it when training is over: the server then logs errors only, so it prints nothing when the ps tasks end. */
void serve_beside_over(void);
/** End the server of serve_beside(), if there is one. Waits for requests in progress, a second at most. */
void serve_beside_end(void);
/** Set the key file, certificates and file of rights in o from the flags. */
void serve_who(const struct flags *f, psd_server_options *o);
/** How long an ending task waits for requests in progress and, with --checkpoint_dir, for its last checkpoint, in ms. */
int serve_drain_ms(const struct flags *f, bool local);

#endif

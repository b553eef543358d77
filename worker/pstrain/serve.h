/* SPDX-License-Identifier: Apache-2.0 */
/* --job_name ps, or --serve: one task in this process; or a trainer's task, served beside its training. */
#ifndef PSTRAIN_SERVE_H
#define PSTRAIN_SERVE_H

#include "cluster.h"

/**
 * Serve until `psctl shutdown`, or SIGTERM, SIGINT or SIGHUP: requests in progress are finished; a signal more than a second
 * later ends at once. The line `ready: psd://HOST:PORT` goes to standard output. The task runs operations (ps_ops.h), and the
 * call psd.echo. Inherited listening sockets (LISTEN_FDS, LISTEN_PID) replace the task's address.
 *
 * local    a ps task of --local: log warnings and errors only, and do not wait long for requests in progress.
 * Returns  the exit status.
 */
int serve_run(const struct flags *f, const struct cluster *c, bool local);
/**
 * Serve the task of this trainer while it trains, if its address in the cluster can be listened on; otherwise print why. Returns
 * at once. f and c are copied. Call it when the directory knows the trainer's session, so that waits for this task can count the
 * session (ps_session_wait_cluster(), ps_barrier()).
 */
void serve_beside(const struct flags *f, const struct cluster *c);
/** Training is over: from now on the server logs errors only, not the loss of ps tasks. */
void serve_beside_over(void);
/** Finish requests in progress, for a second at most, and end the server. Allowed without serve_beside(). */
void serve_beside_end(void);
/** Set keys, certificates and rights of a server's options. */
void serve_who(const struct flags *f, psd_server_options *o);
/** Time for requests in progress; with --checkpoint_dir also for the last checkpoint. */
int serve_drain_ms(const struct flags *f, bool local);

#endif

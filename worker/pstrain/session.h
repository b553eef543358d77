/* SPDX-License-Identifier: Apache-2.0 */
/* pstrain's sessions with the cluster, and the messages when one fails. */
#ifndef PSTRAIN_SESSION_H
#define PSTRAIN_SESSION_H

#include "cluster.h"

#include <ps.h>

enum { SESSION_READY_TIMEOUT_MS = 600000 };

/** Open a session. trains: for training, computes on --device. If c has a task, the session is that task's, and recovers when ps
 * tasks are restarted. quiet: log only warnings. A signal that ends the process closes the session. NULL: error, printed. */
ps_session *session_open(const struct flags *f, const struct cluster *c, bool trains, int64_t timeout_ms, bool quiet);
/** Set in o, from the flags, the key file or certificates by which the tasks know who this program is. */
void session_who(const struct flags *f, ps_session_options *o);
/** How long to wait for a ps task that was never up, in ms: --timeout, or ten minutes if --timeout is longer or not given. */
int64_t session_start_ms(const struct flags *f);
/** Check --warm_start's file without a cluster, before training: format, names, selection. On errors ps_last_error() says why. */
ps_status session_warm_start_check(const struct flags *f);
/** How many variables this process, as chief, has set from --warm_start; -1: it has not used the file. */
int session_warmed(void);
/** Says whether the chief may make a missing model from the file of --restore or --warm_start. */
typedef bool (*session_gate_fn)(void *ctx);
/** Set the function that is asked before the file of --restore or --warm_start is used; NULL: the file is used unasked. */
void session_gate(session_gate_fn ask, void *ctx);
/** Open a session for a short time beside the training one. A signal that ends the process closes both. NULL: printed error. */
ps_session *session_open_aside(const struct flags *f, const struct cluster *c);
/** Close a session of session_open_aside(). NULL is allowed. */
void session_close_aside(ps_session *s);
/** Close a session. Returns the ps_status of ps_session_close(). NULL is allowed. */
int session_close(ps_session *s);
/** True if the session has failed because another model's variables have the same names, but other shapes or optimizers. */
bool session_met_other_model(ps_session *s);
/** After a call on the training session has failed with st: pull, which notices a lost or restarted ps task and recovers the
 * session. True: repeat the call; false: the session keeps the error. */
bool session_is_whole(ps_session *s, ps_status st);
/** Index of the directory (the first ps task) among the ps_cluster_tasks(). -1: not known; ps_last_error() says why. */
int session_directory(ps_session *s);
/** Print the learning rate in force for variable `name`, its schedule, and whether psctl set-lr has ever set it. */
void session_say_rate(ps_session *s, const struct flags *f, const char *name);
/** Print: the call `what` failed with st, ps_last_error(), and what the user can do. Returns -1. */
int session_call_failed(ps_status st, const char *what);
/** Print the session's own error as session_call_failed() does. Returns -1. */
int session_failed(ps_session *s, const char *what);

#endif

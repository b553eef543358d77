/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of this program, and the messages when one fails. */
#ifndef PSTRAIN_SESSION_H
#define PSTRAIN_SESSION_H

#include "cluster.h"

#include <ps.h>

enum { SESSION_READY_TIMEOUT_MS = 600000 };

/** Open a session with the options that all sessions share. trains: as the task of c, if it has one; it recovers when ps tasks
 * are restarted, and computes on --device. A signal that ends this process says goodbye for it (stop.h). NULL: failed, which
 * was printed. */
ps_session *session_open(const struct flags *f, const struct cluster *c, bool trains, int64_t timeout_ms, bool quiet);
/** Set key and certificate of a session's options. */
void session_who(const struct flags *f, ps_session_options *o);
/** Time to wait for a ps task that was never connected: --timeout if given, at most ten minutes. */
int64_t session_start_ms(const struct flags *f);
/** Check the file of --warm_start, as far as no cluster is needed. ps_last_error() has the reason of a failure. */
ps_status session_warm_start_check(const struct flags *f);
/** Number of variables to which this process, as the chief, has given values of --warm_start; -1: it has not. */
int session_warmed(void);
/** Asks whether the chief may use --restore or --warm_start for a model that does not exist. */
typedef bool (*session_gate_fn)(void *ctx);
/** Set the gate of sessions that train; NULL: always allowed. */
void session_gate(session_gate_fn ask, void *ctx);
/** Open a second session beside it; a signal that ends the process says goodbye for it too. NULL: failed, which was printed. */
ps_session *session_open_aside(const struct flags *f, const struct cluster *c);
/** Close a session of session_open_aside(). NULL is allowed. */
void session_close_aside(ps_session *s);
/** Close a session; returns its status. NULL is allowed. */
int session_close(ps_session *s);
/** True if it has failed because variables of these names exist with other definitions. */
bool session_met_other_model(ps_session *s);
/** A call of the session that trains has failed with st: a pull detects a lost or restarted ps task and recovers the session.
 * True: the call may be repeated; false: it is the session's error now. */
bool session_is_whole(ps_session *s, ps_status st);
/** Index of the directory in ps_cluster_tasks(); -1: not known, see ps_last_error(). */
int session_directory(ps_session *s);
/** Print the learning rate in force for this variable, with its schedule; and the program's own, if psctl set-lr has replaced it,
 * perhaps for an earlier run. */
void session_say_rate(ps_session *s, const struct flags *f, const char *name);
/** Print that a call failed, ps_last_error() and a remedy. Returns -1. */
int session_call_failed(ps_status st, const char *what);
/** Print the session's own error as session_call_failed() does. Returns -1. */
int session_failed(ps_session *s, const char *what);

#endif

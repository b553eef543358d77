/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of this program, and what it says when one fails. */
#ifndef PSTRAIN_SESSION_H
#define PSTRAIN_SESSION_H

#include "cluster.h"

#include <ps.h>

enum { SESSION_READY_TIMEOUT_MS = 600000 };

/** A session with the options that all of them have; trains: as the task of c, if it has one, which goes on when ps tasks were
 * restarted, and it computes where --device says. A signal that ends this process says goodbye for it (stop.h). Said on failure;
 * NULL then. */
ps_session *session_open(const struct flags *f, const struct cluster *c, bool trains, int64_t timeout_ms, bool quiet);
/** How long to wait for a ps task that was never connected: --timeout where it is given, but ten minutes at most. */
int64_t session_start_ms(const struct flags *f);
/** Would --warm_start be taken, as far as that can be said without a cluster? ps_last_error() says why not. */
ps_status session_warm_start_check(const struct flags *f);
/** Variables to which this process, as the chief, has given values of --warm_start; -1: it has not. */
int session_warmed(void);
/** May the chief give --restore, or --warm_start, to a model that is not there? */
typedef bool (*session_gate_fn)(void *ctx);
/** Of sessions that train, from now on; NULL: nobody is asked. */
void session_gate(session_gate_fn ask, void *ctx);
/** One beside that; a signal that ends the process says goodbye for it as well. Said on failure; NULL then. */
ps_session *session_open_aside(const struct flags *f, const struct cluster *c);
/** End it. NULL is fine. */
void session_close_aside(ps_session *s);
/** Its status; NULL is fine. */
int session_close(ps_session *s);
/** It has failed because variables of these names are there with other definitions. */
bool session_met_other_model(ps_session *s);
/** After a call of the session that trains failed with st: a pull notices where a ps task was lost or restarted, and makes the
 * session anew. True: it may be made again; false: it is the session's error now. */
bool session_is_whole(ps_session *s, ps_status st);
/** The directory's entry of ps_cluster_tasks(); -1: that is not known, ps_last_error() says why. */
int session_directory(ps_session *s);
/** The learning rate in force of a variable of this container. *out_set: psctl set-lr has set it. Returns 0 where no task says
 * it. */
double session_rate(ps_session *s, const char *container, const char *name, bool *out_set);
/** Say that a call failed, ps_last_error() and what a person can do about it. Returns -1. */
int session_call_failed(ps_status st, const char *what);
/** The same of the session's own error. */
int session_failed(ps_session *s, const char *what);

#endif

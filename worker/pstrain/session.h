/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of this program, and what it says when one fails. */
#ifndef PSTRAIN_SESSION_H
#define PSTRAIN_SESSION_H

#include "cluster.h"

#include <ps.h>

enum { SESSION_READY_TIMEOUT_MS = 600000 };

/** A session with the options that all of them have; trains: as the task of c, if it has one, and it computes where --device
 * says. A signal that ends this process says goodbye for it (stop.h). Said on failure; NULL then. */
ps_session *session_open(const struct flags *f, const struct cluster *c, bool trains, int64_t timeout_ms, bool quiet);
/** Its status; NULL is fine. */
int session_close(ps_session *s);
/** Say that a call failed, ps_last_error() and what a person can do about it. Returns -1. */
int session_call_failed(ps_status st, const char *what);
/** The same of the session's own error. */
int session_failed(ps_session *s, const char *what);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* SIGINT and SIGTERM: the meaning of a repeated signal, and what a worker does. */
#ifndef PSTRAIN_STOP_H
#define PSTRAIN_STOP_H

#include <ps.h>

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/** Fill *set with the signals that end a serving process: SIGINT, SIGTERM, and SIGHUP unless it is ignored (nohup). */
void stop_set(sigset_t *set);
/** A signal has come that ends this program. *first_ms: when the first one came, 0 before. True: this one means "at once".
 * Signals within a second of the first belong to it, because timeout(1) and the parent of --local send two. May be called in a
 * handler. */
bool stop_insists(int64_t *first_ms);
/** From now on, until stop_gently(), the two signals end the process (exit 128 + N) as soon as its session has said goodbye. */
void stop_watch(void);
/** Make signals wait until stop_session(), while a session is opened, when tasks may know it before this process, or closed. */
void stop_hold(void);
/** End stop_hold(). s: the session that a signal says goodbye for; NULL: none. */
void stop_session(ps_session *s);
/** End stop_hold(): a second session was opened, or closed (NULL: not so). At most four are open at the same time. */
void stop_aside(ps_session *opened, const ps_session *closed);
/** True if the process is ending and has left its sessions: errors from now on are caused by that, and not printed. */
bool stop_is_ending(void);
/** gently: the first signal is only noted, so that a step can be finished; a repeated one ends the process. */
void stop_gently(bool gently);
/** Limit the time after a noted signal to ms: a step may wait for others that are gone. Then the process ends as by a repeated
 * signal. 0: no limit. */
void stop_within(int64_t ms);
/** The signal that was noted; 0: none. */
int stop_signal(void);

#endif

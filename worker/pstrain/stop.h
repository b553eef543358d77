/* SPDX-License-Identifier: Apache-2.0 */
/* SIGINT and SIGTERM: when a repeated signal means "at once", and how a worker ends by a signal. */
#ifndef PSTRAIN_STOP_H
#define PSTRAIN_STOP_H

#include <ps.h>

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/** Fill *set with the signals that end a serving process: SIGINT, SIGTERM, and SIGHUP unless it is ignored (nohup). */
void stop_set(sigset_t *set);
/** Call it for each signal that asks for the end. *first_ms: 0 before the first signal, then its time. True: this signal is a
 * second or more later than the first, and means "at once". Signals within a second count as one: timeout(1) and the parent of
 * --local may send two. A signal handler may call this function. */
bool stop_insists(int64_t *first_ms);
/** From now on, until stop_gently(): SIGINT or SIGTERM closes this process's sessions and ends the process (exit 128 + N). */
void stop_watch(void);
/** Make signals wait while a session opens or closes: no goodbye can be sent for it. stop_session() or stop_aside() ends this. */
void stop_hold(void);
/** End stop_hold(). s: the training session, to be closed when a signal comes; NULL: there is none. */
void stop_session(ps_session *s);
/** End stop_hold() after a session beside the training one was `opened` or `closed` (the other: NULL). Four are open at most. */
void stop_aside(ps_session *opened, const ps_session *closed);
/** True if a signal is ending the process: sessions are closed, and errors caused by that are not to be printed. */
bool stop_is_ending(void);
/** Set what the first signal does. gently: stop_signal() returns its number, so that the worker can finish its step; a
 * later signal that means "at once" (stop_insists()) ends the process. Not gently: the first signal does, as in stop_watch(). */
void stop_gently(bool gently);
/** Limit the time from a noted signal to the process's end, in ms: a step may wait for lost workers. 0: no limit. */
void stop_within(int64_t ms);
/** Number of the noted signal (stop_gently()); 0: none has come. */
int stop_signal(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* SIGINT and SIGTERM: what a further one means, and what a worker does. */
#ifndef PSTRAIN_STOP_H
#define PSTRAIN_STOP_H

#include <ps.h>

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/** Make *set those that end what serves: SIGINT, SIGTERM, and SIGHUP unless whoever started this wants it ignored (nohup). */
void stop_set(sigset_t *set);
/** A signal has come that ends this program. first_ms, 0 before: when the first one did. True when this one means "at once":
 * those within a second of the first are one with it, since timeout(1) and --local's parent send two. Also in a handler. */
bool stop_insists(int64_t *first_ms);
/** From now on the two signals end the process (exit 128 + N) as soon as its session has said goodbye, until stop_gently(). */
void stop_watch(void);
/** They wait until stop_session(): a session is being opened, which tasks may know before it is here, or is about to close. */
void stop_hold(void);
/** Behind stop_hold(): which session; NULL: none any more. */
void stop_session(ps_session *s);
/** Behind stop_hold(): a session aside of that one was opened, or closed (NULL: not so). At most four are open at once. */
void stop_aside(ps_session *opened, const ps_session *closed);
/** The process ends, and its sessions are left: what fails now fails for that, and is not told. */
bool stop_is_ending(void);
/** gently: the first signal is only noted, so that a step can be finished; one that insists ends the process. */
void stop_gently(bool gently);
/** Once a signal is noted the process ends after ms, as by one that insists: a step waits for others, which may be gone. 0: it is
 * given all the time that it takes. */
void stop_within(int64_t ms);
/** The signal that was noted; 0 when none was. */
int stop_signal(void);

#endif

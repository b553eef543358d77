/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the public API do under a session's lock, or with it: lock.c. Nothing here calls the program. */
#ifndef PSI_WORKER_API_LOCK_H
#define PSI_WORKER_API_LOCK_H

#include "api.h"

/** psi_api_tell() of a monitored session in the process that opened it; other sessions: does nothing. Returns 0 then. */
uint64_t psi_monitor_tell(ps_session *s, enum psi_session_event event, uint64_t number);
/** A number of the session; 0 in a child of fork(), where the lock may be held by a thread that does not exist, or without a
 * session. */
int64_t psi_api_look(ps_session *s, const int64_t *number);

/* ---- under the lock ---- */
/** Something has changed: the threads that wait look again. */
void psi_api_wake(ps_session *s);
/** Drive the loop for one turn. The lock is released meanwhile. */
void psi_api_drive(ps_session *s, int64_t timeout_ms);
/** Wait until something may have changed. The lock is released meanwhile. own: what is signalled for this thread alone; NULL:
 * nothing. drives: without a thread of its own the session is driven. */
void psi_api_wait(ps_session *s, pthread_cond_t *own, bool drives);
typedef bool psi_api_is_fn(ps_session *s, const void *ctx);
enum {
    PSI_WAIT_ASLEEP = 0, /* what the thread waits for needs no loop */
    PSI_WAIT_DRIVES = 1, /* without a thread of its own the session is driven */
    PSI_WAIT_CUT = 2     /* an interrupt ends the wait */
};
/** Wait until is(s, ctx), which is asked under the lock. The lock is released meanwhile. how: of PSI_WAIT_*. */
void psi_api_wait_until(ps_session *s, psi_api_is_fn *is, const void *ctx, unsigned how);

/* ---- without the lock ---- */
/** Hand a work to the loop, and count it in flight; psi_api_landed() follows. False: there is no io. */
bool psi_api_hand_over(ps_session *s, struct psi_io_work *work);
/** What was in flight has ended. *out_over, which may be NULL, becomes true under the lock. */
void psi_api_landed(ps_session *s, bool *out_over);
/** Wait until *over, of psi_api_landed(). */
void psi_api_await_over(ps_session *s, const bool *over);

#endif

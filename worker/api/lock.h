/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of lock.c for the files of the public API. */
#ifndef PSI_WORKER_API_LOCK_H
#define PSI_WORKER_API_LOCK_H

#include "api.h"

/** psi_api_tell() for a monitored session in the process that opened it. For other sessions it does nothing and returns 0. */
uint64_t psi_monitor_tell(ps_session *s, enum psi_session_event event, uint64_t number);
/** Read a number of the session under the lock. 0 if s is NULL, and in a child of fork(), where the lock may be held for ever. */
int64_t psi_api_look(ps_session *s, const int64_t *number);
/** Copy a value from or to a field of the session under the lock. */
void psi_api_copy(ps_session *s, void *dst, const void *src, size_t bytes);
/** Replace *err, of a request that a recovery has ended early, by the error that caused the recovery. Takes the lock. */
void psi_api_cut(ps_session *s, struct psi_err *err);

/* ---- under the lock ---- */
/** Wake the waiting threads, because something has changed. */
void psi_api_wake(ps_session *s);
/** Drive the loop for one turn (psi_io_turn()), of at most timeout_ms. The lock is released meanwhile. */
void psi_api_drive(ps_session *s, int64_t timeout_ms);
/** Wait until something may have changed. The lock is released meanwhile. own: condition variable of this thread alone; NULL:
 * wait for ps_session.changed. drives: run the loop of a session without a loop thread. */
void psi_api_wait(ps_session *s, pthread_cond_t *own, bool drives);
/** Condition of a wait, called under the lock. True: the wait is over; then the function may also have changed the session. */
typedef bool psi_api_is_fn(ps_session *s, void *ctx);
enum {
    PSI_WAIT_ASLEEP = 0, /* the wait needs no loop */
    PSI_WAIT_DRIVES = 1, /* the waiting thread runs the loop, if the session has no loop thread */
    PSI_WAIT_CUT = 2     /* an interrupt ends the wait */
};
/** Wait until is(s, ctx), called under the lock, is true; the lock is released meanwhile. how: PSI_WAIT_*. False: interrupted. */
bool psi_api_wait_until(ps_session *s, psi_api_is_fn *is, void *ctx, unsigned how);

/* ---- without the lock ---- */
/** psi_api_wait_until() for a caller without the lock. */
bool psi_api_await(ps_session *s, psi_api_is_fn *is, void *ctx, unsigned how);

/* Requests and threads that are about to start; psi_api_admit() counts them. */
struct psi_api_admission {
    uint32_t requests; /* number of requests, which s->in_flight counts from now on */
    uint32_t threads;  /* number of threads, which s->inside counts until psi_api_go_outside() */
    bool when_closing; /* admit them also while the session is being closed, as ps_session_close() needs for its own requests */
    /* set by psi_api_admit(): number of this session as chief, if the caller is in the program's restore function; otherwise 0 */
    uint64_t chief_number;
    unsigned interrupts; /* set by psi_api_admit(): interrupts of the session before the caller's public call */
};
/** Count the requests and threads of *a. PS_OK: the caller may start them. Otherwise an error of psi_api_may_start(). */
ps_status psi_api_admit(ps_session *s, struct psi_api_admission *a, struct psi_err *err) PSI_MUST;
/** Give the loop thread a work (a function to run), and count it as in flight; psi_api_landed() must follow. False: no io. */
bool psi_api_hand_over(ps_session *s, struct psi_io_work *work);
/** Count the end of a work in flight, and set *out_over (unless NULL) under the lock. own: condition variable of the one thread
 * that waits for this work; NULL: it has none. That thread may free *out_over and *own before this function returns. */
void psi_api_landed(ps_session *s, bool *out_over, pthread_cond_t *own);
/** Wait until psi_api_landed() has set *over. */
void psi_api_await_over(ps_session *s, const bool *over, pthread_cond_t *own);

#endif

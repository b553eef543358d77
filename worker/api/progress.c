/* SPDX-License-Identifier: Apache-2.0 */
/* Which thread runs the loop of a session that has no thread of its own (PS_PROGRESS_CALLER). Happy path: a blocking call hands
 * its request to the loop and then, in psi_api_wait() (lock.c), runs the loop itself until the request ends. ps_progress_run()
 * runs the loop without a request. Only one thread runs the loop at a time (session->driving). Meanwhile other threads wait in
 * their blocking calls, or get an error from ps_progress_run(). When the thread leaves the loop, a waiting thread runs it.
 * Failure mode: if no thread runs the loop for longer than the lease, io.c logs it, and the core reconnects. */
#include "lock.h"
#include "monitored.h"

enum { TURN_MS = 1000 }; /* result of ps_progress_timeout_ms() if there is nothing to drive */

ps_status ps_progress_run(ps_session *s, int64_t timeout_ms)
{
    struct psi_err err = {0};
    struct psi_api_visit visit;
    ps_status st = psi_api_check(s, true, &err);
    if (st == PS_OK && !s->by_caller) {
        st = psi_fail(&err, PS_FAILED_PRECONDITION, "the session has a thread: ps_progress_run() is for PS_PROGRESS_CALLER");
    }
    if (st != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    psi_api_begin(s, &visit);
    const struct psi_who who = psi_api_who(s);
    (void)pthread_mutex_lock(&s->lock);
    if (psi_session_bars(&s->machine, &who, &err)) {
        st = err.code;
    } else if (s->io == NULL) {
        st = psi_api_may_start(s, &err); /* a recovery was interrupted, or the session closes: gives the error */
    } else if (s->driving || psi_api_closes(s)) {
        st = psi_fail(&err, PS_FAILED_PRECONDITION,
                      psi_api_closes(s) ? "the session is closing" : "another thread drives the session: one at a time");
    } else {
        psi_api_drive(s, timeout_ms > 0 ? timeout_ms : 0);
        st = psi_api_interrupted(s, &err);
    }
    (void)pthread_mutex_unlock(&s->lock);
    psi_api_end(s);
    return psi_api_result(&err, st);
}

/* For a program that runs the loop itself: get the descriptor to poll, and the longest time to wait in ms. fd or due_ms may be
 * NULL. Both values stay as they are if the session has no loop to run; *due_ms also while another thread runs the loop. */
static void look(ps_session *s, int *fd, int64_t *due_ms)
{
    struct psi_err err = {0};
    if (psi_api_check(s, false, &err) != PS_OK || !s->by_caller) {
        return;
    }
    (void)pthread_mutex_lock(&s->lock);
    struct psi_io *io = s->io;
    if (fd != NULL && io != NULL) {
        *fd = psi_io_fd(io);
    }
    if (due_ms != NULL && !s->driving) {
        *due_ms = psi_io_due_ms(io);
    }
    (void)pthread_mutex_unlock(&s->lock);
}

int ps_progress_fd(ps_session *s)
{
    int fd = -1;
    look(s, &fd, NULL);
    return fd;
}

int64_t ps_progress_timeout_ms(ps_session *s)
{
    int64_t due_ms = TURN_MS; /* the result if the session has a loop thread, or another thread runs the loop */
    look(s, NULL, &due_ms);
    return due_ms;
}

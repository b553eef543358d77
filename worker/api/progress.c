/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which thread drives a session that has no thread of its own (PS_PROGRESS_CALLER).
 *
 * Happy path: a blocking call hands its work over and then, in psi_api_wait() (lock.c), runs the loop itself until the work ends;
 * ps_progress_run() runs the loop without a work. One thread drives at a time (session->driving). Blocking calls of other threads
 * wait: the driver ends their requests too, and wakes them when it leaves, so that one of them drives on. ps_progress_run() does
 * not wait for the driver: FAILED_PRECONDITION. Failure mode: nobody drives for longer than the lease: a log line (io.c), and the
 * core reconnects and resumes.
 */
#include "lock.h"
#include "monitored.h"

enum { TURN_MS = 1000 }; /* a program without a reason to drive looks at least this often */

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
        st = psi_api_may_start(s, &err); /* there is no io after an interrupted recovery, or because the session closes */
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

int ps_progress_fd(ps_session *s)
{
    struct psi_err err = {0};
    if (psi_api_check(s, false, &err) != PS_OK || !s->by_caller) {
        return -1;
    }
    (void)pthread_mutex_lock(&s->lock);
    struct psi_io *io = s->io;
    const int fd = io != NULL ? psi_io_fd(io) : -1;
    (void)pthread_mutex_unlock(&s->lock);
    return fd;
}

int64_t ps_progress_timeout_ms(ps_session *s)
{
    struct psi_err err = {0};
    int64_t due = TURN_MS; /* nothing to do: the session has a thread, or another thread drives it */
    if (psi_api_check(s, false, &err) != PS_OK || !s->by_caller) {
        return due;
    }
    (void)pthread_mutex_lock(&s->lock);
    if (!s->driving) {
        due = psi_io_due_ms(s->io);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return due;
}

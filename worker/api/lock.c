/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of a session: events of its machine, waits, and the count of what is in flight.
 *
 * Happy path: a thread brings an event (psi_api_tell()), or waits until something is so (psi_api_wait_until()); whoever changes
 * something wakes all that wait (psi_api_wake()), and each looks again. Without a thread of its own (PS_PROGRESS_CALLER) the
 * session is driven by one thread that waits; the others sleep, and one of them drives on when the driver leaves. Failure mode:
 * a wait that an interrupt may end returns with its condition false.
 */
#include "lock.h"

#include <time.h>

enum { TURN_MS = 1000 }; /* a driving thread looks at least this often */
enum { LOOK_MS = 25 };   /* between two looks for an interrupt if there is no loop that an interrupt could wake */

/* ---- the machine ---- */

struct psi_who psi_api_who(const ps_session *s)
{
    static _Thread_local char here; /* its address is the thread's number */
    return (struct psi_who){.thread = (uintptr_t)&here, .on_loop = s->io != NULL && psi_io_on_loop(s->io)};
}

uint64_t psi_api_chief_number(ps_session *s)
{
    if (s->machine.restorer == 0) {
        return 0;
    }
    const struct psi_who who = psi_api_who(s);
    return psi_session_event(&s->machine, &who, PSI_IN_RESTORE, 0);
}

uint64_t psi_api_tell(ps_session *s, enum psi_session_event event, uint64_t number)
{
    const struct psi_session *m = &s->machine;
    const struct psi_who who = psi_api_who(s);
    (void)pthread_mutex_lock(&s->lock);
    const enum psi_session_state state = m->state;
    const enum psi_session_end end = m->end;
    const uint64_t answer = psi_session_event(&s->machine, &who, event, number);
    if (state != m->state || end != m->end) {
        psi_api_wake(s);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return answer;
}

uint64_t psi_monitor_tell(ps_session *s, enum psi_session_event event, uint64_t number)
{
    return s != NULL && s->monitor != NULL && psi_api_here(s) ? psi_api_tell(s, event, number) : 0;
}

int64_t psi_api_look(ps_session *s, const int64_t *number)
{
    int64_t value = 0;
    if (s != NULL && psi_api_here(s)) {
        (void)pthread_mutex_lock(&s->lock);
        value = *number;
        (void)pthread_mutex_unlock(&s->lock);
    }
    return value;
}

/* ---- waits ---- */

void psi_api_wake(ps_session *s)
{
    (void)pthread_cond_broadcast(&s->changed);
}

void psi_api_drive(ps_session *s, int64_t timeout_ms)
{
    s->driving = true;
    (void)pthread_mutex_unlock(&s->lock);
    psi_io_turn(s->io, timeout_ms);
    (void)pthread_mutex_lock(&s->lock);
    s->driving = false;
    psi_api_wake(s);
}

void psi_api_wait(ps_session *s, pthread_cond_t *own, bool drives)
{
    if (drives && s->by_caller && !s->driving) {
        psi_api_drive(s, TURN_MS);
        return;
    }
    const bool apart = own != NULL && !s->by_caller; /* the driver wakes who waits for `changed` */
    s->sleepers += apart ? 0 : 1;
    (void)pthread_cond_wait(apart ? own : &s->changed, &s->lock);
    s->sleepers -= apart ? 0 : 1;
}

void psi_api_wait_until(ps_session *s, psi_api_is_fn *is, const void *ctx, unsigned how)
{
    while (!is(s, ctx) && ((how & PSI_WAIT_CUT) == 0 || psi_api_interrupted(s, NULL) == PS_OK)) {
        psi_api_wait(s, NULL, (how & PSI_WAIT_DRIVES) != 0);
    }
}

void psi_api_pause(ps_session *s, int64_t ms)
{
    const uint64_t end = psi_io_now_ms() + (uint64_t)ms;
    (void)pthread_mutex_lock(&s->lock);
    for (uint64_t now = psi_io_now_ms(); now < end && !psi_api_closes(s) && psi_api_interrupted(s, NULL) == PS_OK;
         now = psi_io_now_ms()) {
        if (s->by_caller && !s->driving) {
            psi_api_drive(s, (int64_t)(end - now));
        } else {
            const uint64_t look = s->io == NULL && now + LOOK_MS < end ? now + LOOK_MS : end;
            const struct timespec until = {.tv_sec = (time_t)(look / 1000), .tv_nsec = (long)(look % 1000) * 1000000};
            s->sleepers++;
            (void)pthread_cond_timedwait(&s->changed, &s->lock, &until); /* the reason for waking is checked above */
            s->sleepers--;
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
}

/* ---- what is in flight ---- */

bool psi_api_hand_over(ps_session *s, struct psi_io_work *work)
{
    psi_list_init(&work->link);
    (void)pthread_mutex_lock(&s->lock);
    const bool there = s->io != NULL;
    s->in_flight += there ? 1 : 0;
    (void)pthread_mutex_unlock(&s->lock);
    if (there) {
        psi_io_submit(s->io, work);
    }
    return there;
}

void psi_api_landed(ps_session *s, bool *out_over)
{
    (void)pthread_mutex_lock(&s->lock);
    if (out_over != NULL) {
        *out_over = true;
    }
    s->in_flight--;
    psi_api_wake(s);
    (void)pthread_mutex_unlock(&s->lock);
}

static bool is_over(ps_session *s, const void *over)
{
    (void)s;
    return *(const bool *)over;
}

void psi_api_await_over(ps_session *s, const bool *over)
{
    (void)pthread_mutex_lock(&s->lock);
    psi_api_wait_until(s, is_over, over, PSI_WAIT_DRIVES);
    (void)pthread_mutex_unlock(&s->lock);
}

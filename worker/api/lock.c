/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of a session: reports to its state machine, waits, and the count of requests in flight. Happy path: a thread reports
 * an event (psi_api_tell()), or waits for a condition (psi_api_wait_until()); code that changes something wakes all waiting
 * threads (psi_api_wake()), which check their conditions again. In a session without a loop thread (PS_PROGRESS_CALLER) one
 * waiting thread runs the loop; when its own wait is over, another waiting thread runs it. Failure mode: an interrupt ends a wait
 * although its condition is false. */
#include "lock.h"

#include <string.h>
#include <time.h>

enum { TURN_MS = 1000 }; /* longest time in ms of one psi_io_turn() by a thread that waits */
enum { LOOK_MS = 25 };   /* ms between two checks for an interrupt, if there is no loop that an interrupt could wake */

struct psi_who psi_api_who(const ps_session *s)
{
    static _Thread_local char here; /* its address is the thread's number */
    const struct psi_api_visit *visit = psi_api_visit_of(s);
    return (struct psi_who){
        .thread = (uintptr_t)&here, .on_loop = s->io != NULL && psi_io_on_loop(s->io), .life = visit != NULL ? visit->life : 0};
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

void psi_api_copy(ps_session *s, void *dst, const void *src, size_t bytes)
{
    (void)pthread_mutex_lock(&s->lock);
    memcpy(dst, src, bytes);
    (void)pthread_mutex_unlock(&s->lock);
}

int64_t psi_api_look(ps_session *s, const int64_t *number)
{
    int64_t value = 0;
    if (s != NULL && psi_api_here(s)) {
        psi_api_copy(s, &value, number, sizeof(value));
    }
    return value;
}

void psi_api_cut(ps_session *s, struct psi_err *err)
{
    (void)pthread_mutex_lock(&s->lock);
    psi_session_cuts(&s->machine, err);
    (void)pthread_mutex_unlock(&s->lock);
}

ps_status psi_api_admit(ps_session *s, struct psi_api_admission *a, struct psi_err *err)
{
    const struct psi_who who = psi_api_who(s);
    (void)pthread_mutex_lock(&s->lock);
    ps_status st = psi_api_may_start(s, err);
    if (a->when_closing && st != PS_OK && psi_api_closes(s) && s->io != NULL && !psi_session_bars(&s->machine, &who, NULL)) {
        st = PS_OK;
    }
    a->chief_number = psi_api_chief_number(s);
    a->interrupts = a->when_closing ? atomic_load(&s->interrupts) : psi_api_interrupts(s);
    s->in_flight += st == PS_OK ? a->requests : 0;
    s->inside += st == PS_OK ? a->threads : 0;
    (void)pthread_mutex_unlock(&s->lock);
    return st;
}

ps_status psi_api_go_inside(ps_session *s, struct psi_err *err)
{
    return psi_api_admit(s, &(struct psi_api_admission){.threads = 1}, err);
}

void psi_api_go_outside(ps_session *s)
{
    (void)pthread_mutex_lock(&s->lock);
    s->inside--;
    psi_api_wake(s);
    (void)pthread_mutex_unlock(&s->lock);
}

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
    /* by_caller: each thread waits for `changed`, because any thread may have to run the loop next */
    const bool apart = own != NULL && !s->by_caller;
    s->sleepers += apart ? 0 : 1;
    (void)pthread_cond_wait(apart ? own : &s->changed, &s->lock);
    s->sleepers -= apart ? 0 : 1;
}

bool psi_api_wait_until(ps_session *s, psi_api_is_fn *is, void *ctx, unsigned how)
{
    while (!is(s, ctx)) {
        if ((how & PSI_WAIT_CUT) != 0 && psi_api_interrupted(s, NULL) != PS_OK) {
            return false;
        }
        psi_api_wait(s, NULL, (how & PSI_WAIT_DRIVES) != 0);
    }
    return true;
}

bool psi_api_await(ps_session *s, psi_api_is_fn *is, void *ctx, unsigned how)
{
    (void)pthread_mutex_lock(&s->lock);
    const bool so = psi_api_wait_until(s, is, ctx, how);
    (void)pthread_mutex_unlock(&s->lock);
    return so;
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
            (void)pthread_cond_timedwait(&s->changed, &s->lock, &until); /* result not needed: `for` checks again */
            s->sleepers--;
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
}

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

void psi_api_landed(ps_session *s, bool *out_over, pthread_cond_t *own)
{
    (void)pthread_mutex_lock(&s->lock);
    if (out_over != NULL) {
        *out_over = true;
    }
    if (own != NULL) {
        (void)pthread_cond_signal(own);
    }
    s->in_flight--;
    psi_api_wake(s);
    (void)pthread_mutex_unlock(&s->lock);
}

void psi_api_await_over(ps_session *s, const bool *over, pthread_cond_t *own)
{
    (void)pthread_mutex_lock(&s->lock);
    while (!*over) {
        psi_api_wait(s, own, true);
    }
    (void)pthread_mutex_unlock(&s->lock);
}

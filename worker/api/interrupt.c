/* SPDX-License-Identifier: Apache-2.0 */
/* Public calls that threads are in, and their early end by ps_interrupt() or because the session is left or closed. When a public
 * call begins, a struct psi_api_visit on the thread's own list notes the session's count of interrupts; a nested call takes the
 * count of the outermost call. An interrupt increments the session's count, and wakes the loop thread. The loop thread ends the
 * requests of calls with an older count, and wakes all threads that wait. A thread compares its call's count with the session's
 * before each wait. Failure mode: in a recovery there may be no loop to wake; the recovery checks by itself (psi_api_pause()). */
#include "lock.h"
#include "monitored.h"

#include <errno.h>
#include <sched.h>

static _Thread_local struct psi_api_visit *innermost;

#define CUT "interrupted by ps_interrupt()"
#define ENDS "ended beside the end of the session"

void psi_api_begin_as(ps_session *s, struct psi_api_visit *visit, const char *name)
{
    *visit = (struct psi_api_visit){.session = s,
                                    .interrupts = s != NULL ? psi_api_interrupts(s) : 0,
                                    .begun_ns = psi_trace_now(s),
                                    .name = name,
                                    .outer = innermost};
    innermost = visit;
    if (s != NULL && psi_api_here(s)) {
        (void)pthread_mutex_lock(&s->lock);
        s->users++;
        (void)pthread_mutex_unlock(&s->lock);
    }
}

void psi_api_noted(struct psi_api_visit *visit)
{
    psi_trace_span(visit->session, visit->name, visit->begun_ns);
    visit->begun_ns = 0;
}

void psi_api_end(ps_session *s)
{
    psi_api_noted(innermost);
    innermost = innermost->outer;
    if (s != NULL && psi_api_here(s)) {
        (void)pthread_mutex_lock(&s->lock);
        s->users--;
        if (psi_api_closes(s)) {
            psi_api_wake(s);
        }
        (void)pthread_mutex_unlock(&s->lock);
    }
}

void psi_api_visit_over(struct psi_api_visit *visit)
{
    psi_api_end(visit->session);
}

struct psi_api_visit *psi_api_visit_of(const ps_session *s)
{
    struct psi_api_visit *visit = innermost;
    while (visit != NULL && visit->session != s) {
        visit = visit->outer;
    }
    return visit;
}

unsigned psi_api_interrupts(const ps_session *s)
{
    const struct psi_api_visit *visit = psi_api_visit_of(s);
    return visit != NULL ? visit->interrupts : atomic_load(&s->interrupts);
}

ps_status psi_api_interrupted_since(const ps_session *s, unsigned interrupts, struct psi_err *err)
{
    if (s == NULL || interrupts == atomic_load(&s->interrupts)) {
        return PS_OK;
    }
    const bool ends = atomic_load(&s->ends);
    return psi_fail_as(err, PS_CANCELLED, ends ? PS_REASON_CLOSING : PS_REASON_INTERRUPTED, "%s", ends ? ENDS : CUT);
}

ps_status psi_api_interrupted(const ps_session *s, struct psi_err *err)
{
    return psi_api_interrupted_since(s, psi_api_interrupts(s), err);
}

bool psi_api_is_interrupt(const struct psi_err *err)
{
    return err->code == PS_CANCELLED && (err->reason == PS_REASON_INTERRUPTED || err->reason == PS_REASON_CLOSING);
}

bool psi_api_poked(void *session, struct psi_client *c)
{
    ps_session *s = session;
    const unsigned interrupts = atomic_load(&s->interrupts);
    (void)pthread_mutex_lock(&s->lock);
    const bool news = s->interrupts_seen != interrupts;
    s->interrupts_seen = interrupts;
    if (news) {
        psi_api_wake(s);
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (news) {
        const bool ends = atomic_load(&s->ends);
        psi_client_tick(c, psi_io_now_ms());
        psi_client_interrupt(c, interrupts, ends ? PS_REASON_CLOSING : PS_REASON_INTERRUPTED, ends ? ENDS : CUT);
    }
    return news;
}

/* May run in a signal handler, so it must not wait, allocate or lock. */
void psi_api_interrupt(ps_session *s)
{
    (void)atomic_fetch_add(&s->interrupts, 1);
    (void)atomic_fetch_add(&s->poking, 1);
    struct psi_io *io = s->io;
    if (io != NULL) {
        psi_io_poke(io);
    }
    (void)atomic_fetch_sub(&s->poking, 1);
}

void psi_api_await_poking(const ps_session *s)
{
    while (atomic_load(&s->poking) > 0) {
        (void)sched_yield(); /* this wait is short: the other thread needs a few instructions and a write to a descriptor */
    }
}

void ps_interrupt(ps_session *s)
{
    if (s != NULL && s->opened == PSI_OPENED && psi_api_here(s)) {
        const int before = errno;
        psi_api_interrupt(s);
        errno = before;
    }
}

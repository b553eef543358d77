/* SPDX-License-Identifier: Apache-2.0 */
/* The spans of traces: calls of the session, and operations of layers. Happy path: between psi_trace_enter() and
 * psi_trace_stop(), each thread that calls the trace's session adds a span for each call, and on_kernel() adds one for each
 * operation that such a thread computes. psi_trace_leave() follows. Failure mode: no memory: a span is left out, and counted. One
 * lock protects all spans and each session's `trace`; no other lock is taken with it. */
#include "api.h"

#include "common/mem.h"

#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct psi_list traces = {&traces, &traces}; /* under the lock */

void psi_trace_add(struct psi_trace *t, uint32_t thread, const char *cat, const char *name, uint64_t begun_ns, uint64_t ended_ns)
{
    if (t->span_count == t->span_capacity) {
        struct psi_span *more =
            t->span_count < PSI_SPANS_MAX ? psi_grow(t->spans, t->span_count, &t->span_capacity, sizeof(*more)) : NULL;
        if (more == NULL) {
            t->left_out++;
            return;
        }
        t->spans = more;
    }
    struct psi_span *span = &t->spans[t->span_count++];
    *span = (struct psi_span){.begun_ns = begun_ns, .ended_ns = ended_ns, .thread = thread, .cat = cat};
    (void)snprintf(span->name, sizeof(span->name), "%s", name); /* a longer name is cut */
}

uint64_t psi_trace_now(const ps_session *s)
{
    return s != NULL && atomic_load_explicit(&s->trace, memory_order_relaxed) != NULL ? psi_io_now_ns() : 0;
}

void psi_trace_span(ps_session *s, const char *name, uint64_t begun_ns)
{
    if (begun_ns == 0) {
        return;
    }
    const uint64_t now = psi_io_now_ns();
    (void)pthread_mutex_lock(&lock);
    struct psi_trace *t = s->trace;
    if (t != NULL && t->entered && t->ended_ns == 0) {
        psi_trace_add(t, (uint32_t)gettid(), "call", name, begun_ns, now);
    }
    (void)pthread_mutex_unlock(&lock);
}

/* True if the thread's operations belong to the trace: it began the trace, or has called the session during it. */
static bool takes_part(const struct psi_trace *t, uint32_t thread)
{
    bool found = thread == t->thread;
    for (size_t i = 0; i < t->span_count && !found; i++) {
        found = t->spans[i].thread == thread;
    }
    return found;
}

static void on_kernel(const char *name, uint64_t begun_ns, uint64_t ended_ns)
{
    const uint32_t thread = (uint32_t)gettid();
    struct psi_list *it = NULL;
    (void)pthread_mutex_lock(&lock);
    PSI_LIST_FOREACH(it, &traces) {
        struct psi_trace *t = PSI_CONTAINER_OF(it, struct psi_trace, link);
        if (t->ended_ns == 0 && takes_part(t, thread)) {
            psi_trace_add(t, thread, "layer", name, begun_ns, ended_ns);
        }
    }
    (void)pthread_mutex_unlock(&lock);
}

static const struct psk_watch kernels = {.now_ns = psi_io_now_ns, .ran = on_kernel};

bool psi_trace_claim(struct psi_trace *t, ps_session *s)
{
    (void)pthread_mutex_lock(&lock);
    const bool first = s->trace == NULL;
    if (first) {
        atomic_store(&s->trace, t);
    }
    (void)pthread_mutex_unlock(&lock);
    return first;
}

void psi_trace_enter(struct psi_trace *t)
{
    (void)pthread_mutex_lock(&lock);
    psi_list_push_back(&traces, &t->link);
    psk_watch(&kernels);
    t->begun_ns = psi_io_now_ns();
    t->entered = true;
    (void)pthread_mutex_unlock(&lock);
}

void psi_trace_leave(struct psi_trace *t, ps_session *s)
{
    (void)pthread_mutex_lock(&lock);
    atomic_store(&s->trace, NULL);
    psi_list_remove(&t->link);
    if (psi_list_empty(&traces)) {
        psk_watch(NULL);
    }
    (void)pthread_mutex_unlock(&lock);
}

struct psi_trace *psi_trace_running(ps_session *s)
{
    (void)pthread_mutex_lock(&lock);
    struct psi_trace *t = s->trace;
    t = t != NULL && t->entered && t->ended_ns == 0 ? t : NULL;
    (void)pthread_mutex_unlock(&lock);
    return t;
}

struct psi_trace *psi_trace_stop(ps_session *s, bool of_step)
{
    (void)pthread_mutex_lock(&lock);
    struct psi_trace *t = s->trace;
    t = t != NULL && t->entered && t->of_step == of_step ? t : NULL;
    if (t != NULL && t->ended_ns == 0) {
        t->ended_ns = psi_io_now_ns();
    }
    (void)pthread_mutex_unlock(&lock);
    return t;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how long the task takes over a request with flag TIMES.
 *
 * Happy path: psd_times_ask() is called at the request's first frame. psd_times_begin() is called when the task begins to work
 * at the request; the time since the arrival of its bytes counts as queued. psd_times_worked() is called after its handler, or
 * after each segment, and psd_times_take() at its reply. The time between a handler that has not answered and the reply counts
 * as waiting. Failure: without memory, or with too many timed requests, the reply has no times. The end of a connection frees
 * its records; a request that is sent again on another connection is timed anew. */
#include "times.h"

#include "common/mem.h"

enum { STAMP_MS = 1000 }; /* ms for which the arrival of bytes is still noted after the last request that asked for times */

struct psd_timed {
    struct psi_list link; /* in conn->timed */
    uint64_t id;
    uint64_t last_ns; /* the time until then is counted in `times` already */
    bool seq;
    bool working; /* the task's thread has been working at the request since last_ns */
    bool waits;   /* the request has been waiting since last_ns */
    struct ps_times times;
};

uint64_t psd_times_now(const struct psd_task *t)
{
    return t->config.clock_ns != NULL ? t->config.clock_ns(t->config.shell) : 0;
}

uint64_t psd_times_bytes(const struct psd_conn *c)
{
    return (uint64_t)c->timed_count * sizeof(struct psd_timed);
}

struct psd_timed *psd_times_find(const struct psd_conn *c, uint64_t id, bool seq)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &c->timed) {
        struct psd_timed *x = PSI_CONTAINER_OF(it, struct psd_timed, link);
        if (x->id == id && x->seq == seq) {
            return x;
        }
    }
    return NULL;
}

static void drop(struct psd_task *t, struct psd_conn *c, struct psd_timed *x)
{
    psi_list_remove(&x->link);
    c->timed_count--;
    t->timed_count--;
    t->stamps_until_ms = t->timed_count > 0 ? t->stamps_until_ms : t->now_ms + STAMP_MS;
    c->timing = c->timing == x ? NULL : c->timing;
    psi_free(x);
}

void psd_times_ask(struct psd_task *t, struct psd_conn *c)
{
    const struct ps_frame_header *h = &c->link->in.header;
    const bool seq = (h->flags & PS_FLAG_SEQ) != 0;
    t->came_ns = t->now_ms < t->stamps_until_ms ? t->came_ns : 0; /* came_ns is stale after stamps_until_ms */
    c->timing = psd_times_find(c, h->id, seq);
    if (c->timing != NULL || c->timed_count == PSD_TIMED_MAX || t->config.clock_ns == NULL) {
        return;
    }
    struct psd_timed *x = psi_calloc(1, sizeof(*x));
    if (x == NULL) {
        return;
    }
    psi_list_init(&x->link);
    x->id = h->id;
    x->seq = seq;
    x->last_ns = t->came_ns != 0 ? t->came_ns : psd_times_now(t);
    psi_list_push_back(&c->timed, &x->link);
    c->timed_count++;
    t->timed_count++;
    t->stamps_until_ms = UINT64_MAX;
    c->timing = x;
}

void psd_times_begin(struct psd_task *t, const struct psd_conn *c)
{
    struct psd_timed *x = c->timing;
    const uint64_t now = psd_times_now(t);
    const bool same_event = t->came_ns <= x->last_ns;
    if (same_event && x->working) {
        x->times.apply_ns += now - x->last_ns; /* the thread has worked at the request since the head of the frame */
    } else {
        x->times.queue_ns += now - (same_event ? x->last_ns : t->came_ns);
    }
    x->last_ns = now;
    x->working = true;
}

void psd_times_worked(struct psd_task *t, const struct psd_conn *c, bool waits)
{
    struct psd_timed *x = c->timing;
    if (x == NULL) {
        return; /* the request is answered */
    }
    const uint64_t now = psd_times_now(t);
    x->times.apply_ns += now - x->last_ns;
    x->last_ns = now;
    x->working = false;
    x->waits = waits;
}

void psd_times_kernel(const struct psd_conn *c, uint64_t id, uint64_t kernel_ns)
{
    struct psd_timed *x = c != NULL && c->timed_count > 0 ? psd_times_find(c, id, false) : NULL;
    if (x != NULL) {
        x->times.kernel_ns += kernel_ns;
    }
}

bool psd_times_take(struct psd_task *t, struct psd_conn *c, uint64_t id, bool seq, struct ps_times *out)
{
    struct psd_timed *x = psd_times_find(c, id, seq);
    if (x == NULL) {
        return false;
    }
    const uint64_t now = psd_times_now(t);
    if (x->working) {
        x->times.apply_ns += now - x->last_ns;
    } else if (x->waits) {
        const uint64_t waited = now - x->last_ns;
        x->times.kernel_ns = x->times.kernel_ns < waited ? x->times.kernel_ns : waited;
        x->times.wait_ns += waited - x->times.kernel_ns;
    } /* otherwise bytes of the request were still coming: that time is the network's, and is not counted */
    *out = x->times;
    drop(t, c, x);
    return true;
}

void psd_times_free(struct psd_task *t, struct psd_conn *c)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_first(&c->timed)) != NULL) {
        drop(t, c, PSI_CONTAINER_OF(link, struct psd_timed, link));
    }
}

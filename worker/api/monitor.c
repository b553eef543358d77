/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of a monitored session: from which errors it recovers, which threads may use it during a recovery, whether the present
 * step is broken off, what its last READY reported. Nothing here waits; monitored.c makes the recoveries.
 */
#include "monitored.h"

#include "common/abi.h"
#include "common/mem.h"

#include <string.h>

enum { RECOVERIES = 10, RECOVERY_MS = 600000 };

void ps_monitored_options_init(ps_monitored_options *options)
{
    if (options == NULL) {
        return;
    }
    memset(options, 0, sizeof(*options));
    options->struct_bytes = sizeof(*options);
    options->max_recoveries = RECOVERIES;
    options->max_recovery_ms = RECOVERY_MS;
}

ps_status psi_monitor_new(const ps_monitored_options *options, struct psi_monitor **out_monitor, struct psi_err *err)
{
    ps_monitored_options o;
    ps_monitored_options_init(&o);
    ps_status st = options != NULL ? psi_struct_take(options, &o, sizeof(o), "ps_monitored_options_init", err) : PS_OK;
    if (st == PS_OK && o.max_recovery_ms <= 0) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "max_recovery_ms: %lld ms is not > 0", (long long)o.max_recovery_ms);
    }
    if (st != PS_OK) {
        psi_err_prefix(err, "options of the monitored session");
        return st;
    }
    struct psi_monitor *m = psi_calloc(1, sizeof(*m));
    if (m == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for a session");
    }
    m->options = o;
    psi_list_init(&m->gets);
    *out_monitor = m;
    return PS_OK;
}

void psi_monitor_free(struct psi_monitor *m)
{
    if (m != NULL) {
        PSI_ASSERT(psi_list_empty(&m->gets));
        psi_free(m);
    }
}

bool psi_monitor_mends(const ps_session *s, const struct psi_err *err)
{
    const struct psi_monitor *m = s->monitor;
    if (err->unreached) {
        return false; /* the session was never connected to the task, so nothing was lost that could come back */
    }
    if (m == NULL || m->in_row >= m->options.max_recoveries) {
        return false;
    }
    switch (err->code) {
    case PS_ABORTED:
        if (s->sync.on_worker_loss == PS_LOSS_FAIL && psi_reason(err->reason, err->code) == (ps_reason)PS_ABORTED) {
            return false; /* a worker was lost, and the policy ends all of them */
        }
        /* two processes that claim to be one task would displace each other for ever */
        return err->reason != PS_REASON_CONFLICT && err->reason != PS_REASON_DISPLACED;
    case PS_UNAVAILABLE:
        return err->reason != PS_REASON_OTHER_CLUSTER;
    case PS_DATA_LOSS: /* the chief has to deal with the loss; the others wait for it */
        return !m->leads || m->half != 0;
    case PS_DEADLINE_EXCEEDED:
        return err->reason == PS_REASON_NOT_CONNECTED;
    default:
        return false;
    }
}

bool psi_monitor_bars(ps_session *s, struct psi_err *err)
{
    const struct psi_monitor *m = s->monitor;
    if (m == NULL || !m->recovering) {
        return false;
    }
    const bool calls_back = psi_io_on_loop(s->io); /* a callback may run on the recovering thread */
    if (calls_back ? !m->draining : pthread_equal(m->recoverer, pthread_self()) != 0) {
        return false;
    }
    if (err != NULL) {
        *err = m->cause;
    }
    return true;
}

bool psi_monitor_says(ps_session *s, ps_status st)
{
    if (s->monitor == NULL || !psi_api_here(s)) {
        return false;
    }
    (void)pthread_mutex_lock(&s->lock);
    const bool lost = psi_monitor_bars(s, NULL) ? s->monitor->cause.code == st : !s->monitor->final && s->error.code == st;
    (void)pthread_mutex_unlock(&s->lock);
    return lost;
}

bool psi_monitor_may_recover(ps_session *s)
{
    if (s->monitor == NULL || !psi_api_here(s)) {
        return false;
    }
    (void)pthread_mutex_lock(&s->lock);
    const bool may = !s->monitor->final && (s->error.code != PS_OK || s->monitor->recovering);
    (void)pthread_mutex_unlock(&s->lock);
    return may;
}

uint32_t psi_monitor_life(ps_session *s)
{
    uint32_t life = 0;
    if (s->monitor != NULL && psi_api_here(s)) {
        (void)pthread_mutex_lock(&s->lock);
        life = s->monitor->last.count;
        (void)pthread_mutex_unlock(&s->lock);
    }
    return life;
}

bool psi_monitor_deletes(const ps_session *s, const ps_variable *v)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &s->monitor->gets) {
        const struct psi_api_get *get = PSI_CONTAINER_OF(it, struct psi_api_get, link);
        if (get->v == v && get->deleted) {
            return true;
        }
    }
    return s->monitor->deleting > 0;
}

void psi_monitor_deleting(ps_session *s, int32_t more)
{
    if (s->monitor != NULL) {
        (void)pthread_mutex_lock(&s->lock);
        s->monitor->deleting += (uint32_t)more;
        (void)pthread_mutex_unlock(&s->lock);
    }
}

bool psi_monitor_is_here(const ps_session *s)
{
    return s->monitor != NULL && psi_api_here(s);
}

bool psi_monitor_is_lost(ps_session *s)
{
    struct psi_err err = {0};
    if (s->monitor == NULL || psi_api_check(s, false, &err) != PS_OK) {
        return false;
    }
    (void)pthread_mutex_lock(&s->lock);
    const bool lost = !s->monitor->final;
    (void)pthread_mutex_unlock(&s->lock);
    return lost;
}

/* Note that this thread makes the steps. The caller holds the lock. */
static void is_trainer(struct psi_monitor *m)
{
    m->has_trainer = true;
    m->trainer = pthread_self();
}

bool psi_monitor_trains(const struct psi_monitor *m)
{
    return !m->has_trainer || pthread_equal(m->trainer, pthread_self()) != 0;
}

void psi_monitor_pulls(ps_session *s)
{
    if (s != NULL && psi_monitor_is_here(s)) {
        (void)pthread_mutex_lock(&s->lock);
        s->monitor->pulled = s->monitor->pulled || psi_monitor_trains(s->monitor);
        (void)pthread_mutex_unlock(&s->lock);
    }
}

void psi_monitor_cut(const ps_session *s, struct psi_err *err)
{
    if (s->monitor != NULL && s->monitor->draining && err->code == PS_DEADLINE_EXCEEDED) {
        err->code = s->monitor->cause.code;
        err->reason = s->monitor->cause.reason;
    }
}

void psi_monitor_to_be_ready(ps_session *s)
{
    if (psi_monitor_is_here(s)) {
        (void)pthread_mutex_lock(&s->lock);
        s->monitor->ready = true;
        is_trainer(s->monitor);
        (void)pthread_mutex_unlock(&s->lock);
    }
}

ps_status psi_monitor_found(ps_session *s, struct psi_found *out_found)
{
    (void)pthread_mutex_lock(&s->lock);
    *out_found = s->monitor->found;
    (void)pthread_mutex_unlock(&s->lock);
    return PS_OK;
}

/* Check whether the step is broken off. pushes: the step has begun. */
static ps_status check_step(ps_session *s, bool pushes, struct psi_err *err)
{
    if (!psi_monitor_is_here(s)) {
        return PS_OK;
    }
    (void)pthread_mutex_lock(&s->lock);
    const bool broken = s->monitor->broken_step;
    s->monitor->touched = s->monitor->touched || pushes;
    is_trainer(s->monitor);
    (void)pthread_mutex_unlock(&s->lock);
    return broken ? psi_fail(err, PS_ABORTED, "the session was made anew in the middle of this step: it is made again") : PS_OK;
}

ps_status psi_monitor_push(ps_session *s, struct psi_err *err)
{
    return check_step(s, true, err);
}

ps_status psi_monitor_step(ps_session *s, struct psi_err *err)
{
    return check_step(s, false, err);
}

int64_t psi_monitor_dropped(const ps_session *s)
{
    return s->monitor != NULL ? s->monitor->dropped : 0;
}

void psi_monitor_step_over(ps_session *s, bool completed)
{
    if (psi_monitor_is_here(s)) {
        struct psi_monitor *m = s->monitor;
        (void)pthread_mutex_lock(&s->lock);
        if (psi_monitor_trains(m)) { /* a thread that only looks ends no step */
            m->touched = false;
            m->pulled = false;
            m->broken_step = false;
        }
        m->in_row = completed ? 0 : m->in_row;
        (void)pthread_mutex_unlock(&s->lock);
    }
}

bool psi_monitor_restores(const ps_session *s)
{
    return s->monitor != NULL && s->monitor->options.restore != NULL;
}

uint64_t psi_monitor_chief_number(const ps_session *s)
{
    const struct psi_monitor *m = s->monitor;
    return m != NULL && m->restoring != 0 && (pthread_equal(m->restorer, pthread_self()) != 0 || psi_io_on_loop(s->io))
               ? m->restoring
               : 0;
}

void psi_monitor_readied(ps_session *s, const struct psi_readied *readied, ps_status st)
{
    struct psi_monitor *m = s->monitor;
    if (m == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&s->lock);
    const bool restores = m->options.restore != NULL && !m->options.restore_part;
    const bool may = (restores && m->was_ready) || m->options.start_over;
    m->chief_number = readied->chief_number != 0 ? readied->chief_number : m->chief_number;
    m->leads = readied->chief_number != 0;
    m->half = st == PS_DATA_LOSS && m->leads && may ? readied->chief_number : 0;
    (void)pthread_mutex_unlock(&s->lock);
}

void psi_monitor_was_ready(ps_session *s, const struct psi_found *found)
{
    if (s->monitor != NULL) {
        (void)pthread_mutex_lock(&s->lock);
        s->monitor->found = s->monitor->was_ready ? s->monitor->found : *found;
        s->monitor->was_ready = true;
        (void)pthread_mutex_unlock(&s->lock);
    }
}

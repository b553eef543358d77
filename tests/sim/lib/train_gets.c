/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gets of training programs (train.c), by the machine of gets (worker/core/gets.h). A session puts the gets of its parameters
 * aside. The first thread that comes to a call runs them, while the others wait; all calls do so, until nothing is aside. In
 * seeds with a queue (train_queue.c) threads get that queue as well, and now and then the program deletes it. The simulated
 * client has got its variables already: here a get takes some time and ends as a draw says, with a loss if its variable is lost.
 *
 * The oracle:
 *   - one thread at a time runs the parameters' gets, in the order of the parameters, also those that were interrupted before;
 *   - no get runs two times at a time, and a parameter is got once;
 *   - no get begins while another thread recovers the session, and none runs when the client goes.
 */
#include "train.h"

#include "worker/core/client.h"

enum { GET_MS = 30, QUEUES_IN = 2, DELETES_IN = 200, LOSSES_IN = 60, ERRORS_IN = 500 };

void sim_gets_begin(struct sim *s, struct sim_train *t)
{
    psi_gets_init(&t->gets);
    for (uint32_t i = 0; i < s->k.vars; i++) {
        psi_gets_put_aside(&t->gets, &t->param[i].get);
    }
    for (uint32_t i = 0; i <= THREADS; i++) {
        psi_list_init(&t->thread[i].batch);
    }
    psi_list_init(&t->queue_get.link);
}

static uint32_t var_of(const struct sim *s, const struct sim_train *t, const struct psi_get *get)
{
    return get == &t->queue_get ? s->var_count - 1 : PSI_CONTAINER_OF((struct psi_get *)(uintptr_t)get, struct param, get)->var;
}

static void check_batch(struct sim *s, const struct sim_train *t, const struct thread *h)
{
    struct psi_list *it = NULL;
    uint32_t next = 0;
    PSI_LIST_FOREACH(it, &h->batch) {
        const struct psi_get *get = PSI_CONTAINER_OF(it, struct psi_get, link);
        const uint32_t var = var_of(s, t, get);
        if (get->state != PSI_GET_RUNS || (get != &t->queue_get && t->param[var].t.open)) {
            sim_fail(s, "GOT TWICE: '%s', in state %d", s->var[var].name, (int)get->state);
        }
        if (var < next) {
            sim_fail(s, "ORDER: the get of '%s' runs after that of a later parameter", s->var[var].name);
        }
        next = var + 1;
    }
    for (uint32_t i = 0; i < t->threads; i++) {
        if (&t->thread[i] != h && h->gets == PSI_GETS_SETTLE && t->thread[i].gets == PSI_GETS_SETTLE) {
            sim_fail(s, "TWO GET: two threads run gets that were put aside");
        }
    }
}

static bool all_open(const struct sim *s, const struct sim_train *t)
{
    bool all = true;
    for (uint32_t i = 0; i < s->k.vars; i++) {
        all = all && t->param[i].t.open;
    }
    return all;
}

bool sim_gets_come(struct sim *s, const struct sim_program *p, struct sim_train *t, struct thread *h)
{
    const struct psi_who who = sim_who(t, h);
    const bool bars = psi_session_bars(&t->m, &who, NULL);
    struct psi_list own;
    psi_list_init(&own);
    if (s->k.train_queue && t->queue_get.state == PSI_GET_NEW && sim_one_in(s, QUEUES_IN)) {
        psi_list_push_back(&own, &t->queue_get.link);
    } else if (t->queue_get.state == PSI_GET_GOT && sim_one_in(s, DELETES_IN)) {
        psi_get_delete(&t->gets, &t->queue_get);
    }
    h->gets = psi_gets_come(&t->gets, &own, bars, &h->batch);
    psi_gets_check_invariants(&t->gets);
    if (!sim_gets_run(h)) {
        PSI_IGNORE(psi_list_pop_front(&own)); /* it comes again */
        return h->gets == PSI_GETS_WAIT ||
               !all_open(s, t); /* not got: the session has an error, which the call returns at once */
    }
    if (bars) {
        sim_fail(s, "BARRED: client%u gets while another thread recovers its session", p->index);
    }
    psi_list_move_all(&h->batch, &own);
    check_batch(s, t, h);
    h->gets_end = s->now + sim_range(s, 1, GET_MS);
    h->get_interrupts = t->interrupts;
    return true;
}

/* How the get ends; *err: why. */
static enum psi_get_end end_of(struct sim *s, const struct sim_program *p, const struct sim_train *t, const struct thread *h,
                               uint32_t var, struct psi_err *err)
{
    const struct psi_var *v = p->var[var];
    *err = (struct psi_err){0};
    if (h->get_interrupts != t->interrupts) {
        *err = (struct psi_err){.code = PS_CANCELLED, .reason = PS_REASON_INTERRUPTED};
        return PSI_GET_INTERRUPTED;
    }
    if (t->m.state == PSI_SESSION_DRAINING || v == NULL || v->lost ||
        (t->m.monitored && !s->k.quiet && sim_one_in(s, LOSSES_IN))) {
        *err = (struct psi_err){.code = PS_ABORTED, .reason = PS_REASON_LOST};
    } else if (!s->k.quiet && sim_one_in(s, ERRORS_IN)) {
        *err = (struct psi_err){.code = PS_INVALID_ARGUMENT};
    }
    return err->code == PS_OK ? PSI_GET_OK : psi_session_mends(&t->m, err) ? PSI_GET_BY_LOSS : PSI_GET_ERROR;
}

static void got(struct sim *s, struct sim_train *t, const struct psi_get *get)
{
    if (get != &t->queue_get) {
        t->param[var_of(s, t, get)].t.open = true;
    }
}

void sim_gets_go_on(struct sim *s, const struct sim_program *p, struct sim_train *t, struct thread *h)
{
    const bool ends = h->get_interrupts != t->interrupts || t->m.state == PSI_SESSION_DRAINING;
    struct psi_list again;
    struct psi_list *it = NULL;
    psi_list_init(&again);
    if (s->now < h->gets_end && !ends) {
        return;
    }
    while ((it = psi_list_pop_front(&h->batch)) != NULL) {
        struct psi_get *get = PSI_CONTAINER_OF(it, struct psi_get, link);
        struct psi_err err;
        const enum psi_get_end how = end_of(s, p, t, h, var_of(s, t, get), &err);
        const enum psi_get_state state = psi_get_ended(&t->gets, get, how, t->m.monitored);
        if (state == PSI_GET_GOT) {
            got(s, t, get);
        } else if (state == PSI_GET_ASIDE) {
            psi_list_push_back(&again, &get->link);
        } else if (get->sticks) {
            sim_train_fails(s, t, &err, false);
        } else {
            *get = (struct psi_get){0}; /* the program gets it again */
            psi_list_init(&get->link);
        }
    }
    psi_gets_over(&t->gets, h->gets, &again);
    psi_gets_check_invariants(&t->gets);
    h->gets = PSI_GETS_NOTHING;
}

void sim_gets_made(struct sim *s, struct sim_train *t)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->gets.kept) {
        struct psi_get *get = PSI_CONTAINER_OF(it, struct psi_get, link);
        if (get->state == PSI_GET_LOST && psi_get_ended(&t->gets, get, PSI_GET_OK, true) == PSI_GET_GOT) {
            got(s, t, get);
        }
    }
    psi_gets_check_invariants(&t->gets);
}

void sim_gets_check_held(struct sim *s, const struct sim_train *t)
{
    for (uint32_t i = 0; i < s->k.vars; i++) {
        const struct param *m = &t->param[i];
        if (m->get.state == PSI_GET_NEW || m->get.state == PSI_GET_RUNS || m->t.open != (m->get.state == PSI_GET_GOT)) {
            sim_fail(s, "HELD: the get of '%s' is in state %d, open %d, when all calls are over", m->t.name, (int)m->get.state,
                     m->t.open);
        }
    }
    if (t->gets.settling) {
        sim_fail(s, "HELD: a thread settles when all calls are over");
    }
}

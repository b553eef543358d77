/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training programs in the simulated world: each session has the machine of training (worker/core/training.h) between its threads
 * and its core, as worker/api has. One to three threads call it in turns: pull, push, push-pull, the end of a step, a look at
 * a gradient buffer; in rounds, with bounded staleness, or asynchronously; some with `prefetch`, some with gradients that come
 * from a device, where fetching takes time and may fail. They have hooks (train_hooks.c), in one seed of four they wait at
 * barriers, and in another one of four they put into and take from a queue (train_queue.c). Between what the machine asks for and
 * the doing of it, other threads go on. Now and then all threads are interrupted; the last time that happens their session
 * closes.
 *
 * Two of three sessions are monitored (worker/core/session.h). Then the first thread alone makes steps. When the session is lost
 * a thread recovers it: what is in flight ends, the client goes and another one comes, knows the cluster, gets everything again,
 * becomes ready and joins; while the others look on. The recovery is interrupted, tried again, given up, or comes before the
 * chief has heard of the loss (train_recover.c). Monitored sessions compete to be the chief, and some restore the model
 * (train_ready.c).
 *
 * The oracle sees what the machine asks for, and what the core answers:
 *   - each step counts once: an addition, or a round, for each step that a call counts, and none that no call counts but those of
 *     calls that were interrupted; no addition while one of an interrupted call waits to be taken up;
 *   - one thread at a time ends the step of a member; it does so when no push is on its way, and all parameters were pushed;
 *   - a parameter has one read and one push at a time; a read never overtakes a gradient that comes from a device;
 *   - a value buffer is written while a thread is in a call that reads it, and not after;
 *   - without `prefetch` a pull gives values that contain every push that was acknowledged before it began;
 *   - the pushes of a step that counts were made at one client: a step in which the client was replaced is made again, also
 *     where its thread stood still meanwhile and knows of nothing;
 *   - a recovery that comes before the chief has made rounds anew is tried again while there is time;
 *   - while a thread recovers, no other thread starts anything;
 *   - a call in a callback of the loop never waits;
 *   - parameters are got in their order, by one thread at a time, before any thread uses one (train_gets.c);
 *   - no call outlives its deadlines, and after the end nothing is held: no turn, no push, no read, no record of an addition.
 */
#include "train.h"

#include "worker/core/client.h"

#include <stdlib.h>
#include <string.h>

void sim_train_begin(struct sim *s, const struct sim_program *p)
{
    if (!s->k.trains) {
        return;
    }
    if (s->train[p->index] != NULL && s->train[p->index]->anew) {
        s->train[p->index]->anew = false;
        s->train[p->index]->not_ready = (struct psi_err){.code = PS_DEADLINE_EXCEEDED, .reason = PS_REASON_NOT_CONNECTED};
        return;
    }
    free(s->train[p->index]); /* its marks are in s->train_marks */
    struct sim_train *t = s->train[p->index] = sim_alloc(sizeof(*t));
    psi_training_init(&t->t);
    t->loss = (ps_sync_options){.on_worker_loss = s->sync.on_loss};
    psi_session_init(&t->m, &t->loss);
    sim_hooks_begin(s, t);
    t->m.monitored = p->leases;
    t->m.recoveries_max = (uint32_t)sim_range(s, 2, 8);
    t->threads = (uint32_t)sim_range(s, 1, THREADS);
    t->t.prefetch = s->sync.mode != PS_SYNC_ROUNDS && sim_one_in(s, 3);
    for (uint32_t i = 0; i < s->k.vars; i++) {
        struct param *m = &t->param[i];
        m->t = (struct psi_training_param){.name = s->var[i].name, .trained = true};
        m->var = i;
        m->on_device = sim_one_in(s, 3);
        psi_training_add(&t->t, &m->t);
    }
    sim_gets_begin(s, t);
    sim_ready_begin(s, t);
}

bool sim_train_leases(struct sim *s, const struct sim_program *p)
{
    const struct sim_train *t = s->train[p->index];
    return s->k.trains && p->role != SIM_FINAL && (t != NULL && t->anew ? t->m.monitored : !sim_one_in(s, 3));
}

uint64_t sim_train_chief_number(const struct sim *s, const struct sim_program *p)
{
    const struct sim_train *t = s->train[p->index];
    return t != NULL && t->anew ? t->m.chief_number : 0;
}

void sim_trains_free(struct sim *s)
{
    for (uint32_t i = 0; i < SIM_PROGRAMS_MAX; i++) {
        free(s->train[i]);
        s->train[i] = NULL;
    }
}

/* ---- errors and recoveries ---- */

struct psi_who sim_who(const struct sim_train *t, const struct thread *h)
{
    return (struct psi_who){.thread = 1 + (uint64_t)(h - t->thread), .life = h->life};
}

uint64_t sim_train_tell(struct sim_train *t, const struct thread *h, enum psi_session_event event, uint64_t number)
{
    const struct psi_who who = sim_who(t, h);
    const uint64_t answer = psi_session_event(&t->m, &who, event, number);
    psi_session_check_invariants(&t->m);
    return answer;
}

/* An error of the loop, whoever has made the request. */
void sim_train_fails(struct sim *s, struct sim_train *t, const struct psi_err *err, bool final)
{
    static const char *const as[] = {"nothing new", "the end", "a loss", "a failed attempt"};
    const struct psi_who loop = {.thread = 1 + THREADS, .on_loop = true};
    const enum psi_stuck how = psi_session_fails(&t->m, &loop, err, final);
    psi_session_check_invariants(&t->m);
    sim_trace(s, "  %s: %s", ps_status_name(err->code), as[how]);
}

/* What costs the session its life, unless the reason is that another thread recovers it, or has recovered it. */
static void breaks(struct sim *s, struct sim_train *t, const struct thread *h)
{
    const struct psi_who who = h != NULL ? sim_who(t, h) : (struct psi_who){.thread = 0};
    if (!psi_session_recovers(&t->m) && !psi_session_bars(&t->m, &who, NULL)) {
        sim_train_fails(s, t, &(struct psi_err){.code = PS_RESOURCE_EXHAUSTED}, true);
    }
}

static struct sim_call *start(struct sim *s, struct sim_program *p, const struct thread *h, enum psi_request_kind kind,
                              struct sim_var *v, bool waited)
{
    struct sim_train *t = s->train[p->index];
    const struct psi_who who = h != NULL ? sim_who(t, h) : (struct psi_who){.thread = 1 + THREADS};
    if (kind != PSI_REQ_JOIN && psi_session_bars(&t->m, &who, NULL)) {
        return NULL;
    }
    if (h != NULL) {
        sim_train_check_life(s, t, h);
    }
    const uint32_t timeout_ms = kind == PSI_REQ_READY     ? s->k.ready_ms
                                : kind == PSI_REQ_BARRIER ? (uint32_t)sim_range(s, GATE_MS / 10, GATE_MS)
                                : kind == PSI_REQ_ENQUEUE || kind == PSI_REQ_DEQUEUE
                                    ? (uint32_t)sim_range(s, QUEUE_MS / 10, QUEUE_MS)
                                    : s->k.operation_ms;
    t->asks = h;
    const struct sim_op *op = sim_call_start(s, p, kind, v, timeout_ms);
    for (uint32_t i = 0; op != NULL && i < SIM_CALLS_MAX; i++) {
        if (p->calls[i] != NULL && p->calls[i]->op == op) {
            p->calls[i]->req.waited = waited;
            p->calls[i]->req.interrupts = s->train[p->index]->interrupts;
            return p->calls[i];
        }
    }
    return NULL;
}

struct sim_call *sim_train_start(struct sim *s, struct sim_program *p, const struct thread *h, enum psi_request_kind kind,
                                 struct sim_var *v)
{
    return start(s, p, h, kind, v, false);
}

/* All threads' waits end, and so do requests that they wait for. */
static void interrupt(struct sim *s, const struct sim_program *p, struct sim_train *t)
{
    t->interrupts++;
    s->count_train_cut++;
    for (uint32_t i = 0; i < t->threads; i++) {
        t->thread[i].apart_cut_ms = t->thread[i].apart_cut_ms == 0 ? s->now : t->thread[i].apart_cut_ms;
    }
    sim_trace(s, "client%u.%u interrupts its threads", p->index, p->life);
    psi_client_interrupt(p->core, t->interrupts, PS_REASON_INTERRUPTED, "interrupted");
}

/* ---- what the machine asks for ---- */

static void hand_over(struct sim *s, struct sim_program *p, struct sim_train *t, struct param *m)
{
    m->pushes = start(s, p, NULL, m->brings ? PSI_REQ_PUSH_PULL : PSI_REQ_PUSH, &s->var[m->var], false) != NULL;
    if (!m->pushes) {
        breaks(s, t, NULL);
        psi_training_refused(&t->t, &m->t);
    }
}

static bool push(struct sim *s, struct sim_program *p, struct sim_train *t, const struct thread *h)
{
    struct param *m = sim_param_of(h->call.param);
    if (m->pushes || m->fetched_at != 0) {
        sim_fail(s, "TWO PUSHES of '%s' at a time", m->t.name);
    }
    if (!s->k.quiet && sim_one_in(s, 200)) { /* no memory for the second buffer */
        breaks(s, t, h);
        return false;
    }
    m->brings = h->call.brings;
    if (m->on_device) {
        m->fetch_number = psi_training_fetches(&t->t, &m->t);
        m->fetched_at = s->now + sim_range(s, 1, FETCH_MS);
        return true;
    }
    m->pushes = start(s, p, h, m->brings ? PSI_REQ_PUSH_PULL : PSI_REQ_PUSH, &s->var[m->var], false) != NULL;
    if (!m->pushes) {
        breaks(s, t, h);
    }
    return m->pushes;
}

/* Gradients come from the device, or the device's thread comes back from starting their pushes. */
static void devices(struct sim *s, struct sim_program *p, struct sim_train *t)
{
    for (uint32_t i = 0; i < s->k.vars; i++) {
        struct param *m = &t->param[i];
        if (m->fetched_at != 0 && s->now >= m->fetched_at) {
            m->fetched_at = 0;
            if (m->handed_at != 0) {
                psi_training_handed(&t->t, &m->t, m->handed_number);
            }
            m->handed_at = s->now + (sim_one_in(s, 2) ? 0 : sim_below(s, FETCH_MS));
            m->handed_number = m->fetch_number;
            if (!s->k.quiet && sim_one_in(s, 200)) { /* the device has failed */
                breaks(s, t, NULL);
                psi_training_refused(&t->t, &m->t);
            } else {
                hand_over(s, p, t, m);
            }
        }
        if (m->handed_at != 0 && s->now >= m->handed_at) {
            m->handed_at = 0;
            psi_training_handed(&t->t, &m->t, m->handed_number);
        }
    }
}

static bool read_param(struct sim *s, struct sim_program *p, struct sim_train *t, const struct thread *h, bool ahead)
{
    struct param *m = sim_param_of(h->call.at);
    if (m->reads) {
        sim_fail(s, "TWO READS of '%s' at a time", m->t.name);
    }
    m->reads = start(s, p, h, PSI_REQ_PULL, &s->var[m->var], !ahead) != NULL;
    m->reader = m->reads && !ahead ? 1 + (uint32_t)(h - t->thread) : 0;
    if (!m->reads) {
        breaks(s, t, h);
    }
    return m->reads;
}

static bool start_add(struct sim *s, struct sim_program *p, struct sim_train *t, const struct thread *h, struct add *a)
{
    struct sim_call *c = start(s, p, h, PSI_REQ_ADD, &s->var[s->k.vars], false);
    a->op = c != NULL ? c->op : NULL;
    if (c == NULL) {
        breaks(s, t, h);
    }
    return c != NULL;
}

static bool add_one(struct sim *s, struct sim_program *p, struct sim_train *t, struct thread *h)
{
    struct psi_call *call = &h->call;
    if (call->add == NULL && t->add_count == ADDS) {
        sim_fail(s, "HELD: %u records of additions are in use, or lost", t->add_count);
    }
    struct add *a = call->add != NULL ? (struct add *)(void *)call->add : &t->add[t->add_count++];
    psi_list_init(&a->t.link);
    call->add = &a->t;
    a->t.over = false;
    return start_add(s, p, t, h, a);
}

/* The loop's thread starts an addition for a thread that sleeps. */
static void add_at_once(struct sim *s, struct sim_program *p, struct sim_train *t)
{
    struct psi_training_add *a = t->at_once;
    t->at_once = NULL;
    if (a != NULL && !start_add(s, p, t, NULL, (struct add *)(void *)a)) {
        a->err = (struct psi_err){.code = PS_ABORTED};
        a->over = true;
    }
}

bool sim_train_meet(struct sim *s, struct sim_program *p, struct thread *h, enum psi_request_kind kind, struct sim_var *v)
{
    const struct sim_call *c = start(s, p, h, kind, v, true);
    h->op = c != NULL ? c->op : NULL;
    return c != NULL;
}

/* Do what the thread was told. */
static void carry_out(struct sim *s, struct sim_program *p, struct sim_train *t, struct thread *h)
{
    bool ok = true;
    const enum psi_do what = h->doing;
    h->doing = PSI_DO_OVER;
    switch (what) {
    case PSI_DO_READ:
    case PSI_DO_AHEAD:
        ok = read_param(s, p, t, h, what == PSI_DO_AHEAD);
        break;
    case PSI_DO_PUSH:
        ok = push(s, p, t, h);
        break;
    case PSI_DO_CHECK:
        h->call.skips = sim_one_in(s, 30) && !t->m.monitored;
        break;
    case PSI_DO_ADD:
        ok = add_one(s, p, t, h);
        break;
    case PSI_DO_STEP:
        sim_train_check_step(s, t, h);
        if (sim_train_meet(s, p, h, PSI_REQ_STEP, NULL)) {
            h->doing = PSI_DO_STEP;
            return;
        }
        ok = false;
        breaks(s, t, h);
        break;
    default:
        sim_fail(s, "the machine asks for %d", (int)what);
    }
    psi_training_did(&t->t, &h->call, ok);
}

/* The trainer's step has ended, unless it was interrupted. */
static void step_over(struct sim *s, struct sim_train *t, const struct thread *h)
{
    const bool cut = h->call.end == PSI_END_INTERRUPTED || h->cut;
    if (!t->m.monitored || h != t->thread) {
        return;
    }
    if (h->call.kind == PSI_CALL_PUSH && h->call.end != PSI_END_FINE) {
        t->pushed &= ~(1u << sim_param_of(h->call.param)->var);
    }
    for (uint32_t i = 0; i < s->k.vars && h->call.counted; i++) {
        if (t->param[i].pushed_life != h->checked_life) {
            sim_fail(s, "HALF A STEP counts: '%s' was pushed at a client that was lost since", t->param[i].t.name);
        }
    }
    if (h->call.kind == PSI_CALL_STEP && !cut) {
        t->pushed = 0;
        t->pulled = false;
        (void)sim_train_tell(t, h, PSI_ON_STEP_OVER, h->call.counted);
    }
}

void sim_train_call_over(struct sim *s, struct sim_train *t, struct thread *h)
{
    h->in_call = false;
    s->count_train_calls++;
    for (uint32_t i = 0; i < s->k.vars; i++) {
        if (t->param[i].reads && t->param[i].reader == 1 + (uint32_t)(h - t->thread)) {
            sim_fail(s, "WRITTEN LATE: a call is over, and '%s' is being read into its value buffer", t->param[i].t.name);
        }
    }
    if (h->call.end == PSI_END_REFUSED && !h->cut &&
        psi_session_error(&t->m, &(struct psi_who){.on_loop = true}, NULL) == PS_OK) {
        breaks(s, t, h); /* the program has called what it must not */
    }
    if (h->call.kind == PSI_CALL_PULL && h->call.end == PSI_END_FINE && h->call.only_waits) {
        sim_fail(s, "NOT PULLED: a read was refused, and the call says that all is well");
    }
    h->life = 0;
    h->met = false;
    step_over(s, t, h);
    t->stepping = t->stepping && (h != t->thread || h->call.kind != PSI_CALL_STEP);
    if (h->call.counted) {
        sim_hooks_come(t, h, PSI_HOOK_AFTER_RUN, false);
        t->counted++;
        s->count_train_steps++;
        const uint64_t made = s->sync.mode == PS_SYNC_ROUNDS ? t->met : t->added;
        if (t->counted > made) {
            sim_fail(s, "COUNTED TWICE: %llu steps count, of %llu that were made", (unsigned long long)t->counted,
                     (unsigned long long)made);
        }
    }
}

static void check_late(struct sim *s, const struct sim_program *p, const struct thread *h)
{
    const uint64_t from = h->begun_ms > p->resumed_at ? h->begun_ms : p->resumed_at;
    const uint64_t ready_ms = h->call.kind == PSI_CALL_READY ? 2ull * (s->k.ready_ms + s->k.operation_ms) : 0;
    const uint64_t limit_ms = (uint64_t)(WAITS + s->k.vars) * s->k.operation_ms + ready_ms + GRACE_MS;
    if (s->now > from + limit_ms) {
        sim_fail(s, "LATE: call %d of client%u has lasted %llu ms", (int)h->call.kind, p->index,
                 (unsigned long long)(s->now - h->begun_ms));
    }
}

/* A thread goes on: it does what it was told, or asks what is next. */
static void go_on(struct sim *s, struct sim_program *p, struct sim_train *t, struct thread *h)
{
    struct psi_err err = {.code = PS_OK};
    const struct psi_who who = sim_who(t, h);
    const struct psi_now now = {.interrupted = h->call.interrupts != t->interrupts,
                                .failed = psi_session_error(&t->m, &who, NULL) != PS_OK};
    check_late(s, p, h);
    if (h->op != NULL) {
        return; /* until it is answered */
    }
    if (h->readies) {
        sim_ready_goes_on(s, p, t, h);
        return;
    }
    if (h->doing != PSI_DO_OVER) {
        carry_out(s, p, t, h);
        return;
    }
    const enum psi_do what = psi_training_next(&t->t, &h->call, &now, &err);
    psi_training_check_invariants(&t->t);
    switch (what) {
    case PSI_DO_WAIT:
        break;
    case PSI_DO_TAKE:
        if (!now.failed && !h->call.only_waits) { /* otherwise the call will say so */
            sim_train_check_taken(s, t, h);
        }
        break;
    case PSI_DO_OVER:
        if (h->call.kind == PSI_CALL_READY && h->call.turn) {
            sim_ready_starts(h);
            return;
        }
        sim_train_call_over(s, t, h);
        break;
    case PSI_DO_READ:
    case PSI_DO_AHEAD:
        if (sim_param_of(h->call.at)->fetched_at != 0) {
            sim_fail(s, "READ BEFORE PUSH: a gradient of '%s' comes from the device", h->call.at->name);
        }
        h->doing = what;
        break;
    default:
        h->doing = what;
        break;
    }
}

/* ---- what threads call ---- */

/* The next call of the first thread, which makes the steps: all parameters are pulled, pushed, and the step ends. */
static struct psi_call trainers(struct sim *s, struct sim_train *t)
{
    for (uint32_t i = 0; i < s->k.vars; i++) {
        struct psi_training_param *m = &t->param[i].t;
        const bool pushed =
            t->t.mode == PS_SYNC_ROUNDS ? psi_training_is_pushed(&t->t, m) : m->push_number > t->counted + s->seed % 3;
        if (!pushed) {
            return (struct psi_call){.kind = PSI_CALL_PUSH, .param = m, .brings = sim_one_in(s, 2)};
        }
    }
    return (struct psi_call){.kind = PSI_CALL_STEP};
}

struct psi_call sim_train_any(struct sim *s, struct sim_train *t)
{
    struct psi_training_param *m = &t->param[sim_below(s, s->k.vars)].t;
    switch (sim_below(s, s->sync.mode == PS_SYNC_ROUNDS && (s->k.quiet || !sim_one_in(s, 200)) ? 4 : 7)) {
    case 0:
        return (struct psi_call){.kind = PSI_CALL_PULL};
    case 1:
        return (struct psi_call){.kind = PSI_CALL_PULL, .param = m};
    case 2:
        return (struct psi_call){.kind = PSI_CALL_GRADIENT, .param = m};
    case 3:
        return (struct psi_call){.kind = PSI_CALL_QUIET};
    case 4:
        return (struct psi_call){.kind = PSI_CALL_STEP};
    default:
        return (struct psi_call){.kind = PSI_CALL_PUSH, .param = m, .brings = sim_one_in(s, 2)};
    }
}

/* As trainers(), of a monitored session: the program knows what it has pushed, and goes to the end of its step whatever happens.
 */
static bool monitored_trainers(struct sim *s, struct sim_train *t, struct psi_call *out)
{
    struct thread *h = t->thread;
    t->pulled = t->pulled && (t->pushed != 0 || !sim_one_in(s, 8)); /* it begins the step again, for a reason of its own */
    if (!t->pulled) {
        t->pulled = true;
        (void)sim_train_tell(t, h, PSI_ON_STEP_OVER, 0);
        if (!sim_one_in(s, 8)) {
            (void)sim_train_tell(t, h, PSI_ON_PULL, 0);
            *out = (struct psi_call){.kind = PSI_CALL_PULL};
            return true;
        }
    }
    for (uint32_t i = 0; i < s->k.vars; i++) {
        if ((t->pushed & 1u << i) == 0) {
            t->pushed |= 1u << i;
            t->param[i].pushed_life = t->life;
            *out = (struct psi_call){.kind = PSI_CALL_PUSH, .param = &t->param[i].t, .brings = sim_one_in(s, 2)};
            h->checked_life = t->life;
            h->life = sim_train_tell(t, h, PSI_ON_PUSH, 0);
            return h->life != 0;
        }
    }
    *out = (struct psi_call){.kind = PSI_CALL_STEP};
    h->checked_life = t->life;
    h->life = sim_train_tell(t, h, PSI_ON_STEP, 0);
    if (h->life == 0) {
        s->count_train_broken++;
        t->stepping = false;
        t->pushed = 0;
        t->pulled = false;
        (void)sim_train_tell(t, h, PSI_ON_STEP_OVER, 0);
        return false;
    }
    return true;
}

/* Ready again, which programs do between two steps. */
static bool rejoins(struct sim *s, struct sim_train *t)
{
    bool between =
        t->t.pushes == 0 && (t->pushed == 0 || t->t.member == PSI_MEMBER_WAITED) && !t->rejoins && t->t.member != PSI_MEMBER_NONE;
    for (uint32_t i = 0; i < s->k.vars; i++) {
        between = between && !psi_training_is_pushed(&t->t, &t->param[i].t);
    }
    t->rejoins = t->rejoins || (between && sim_one_in(s, t->t.member == PSI_MEMBER_WAITED ? 2 : 30));
    return between && t->rejoins;
}

static void begin_call(struct sim *s, struct sim_program *p, struct sim_train *t, struct thread *h)
{
    const bool first = h == t->thread;
    const enum psi_hook_moment moment = first ? sim_hooks_before(t) : PSI_HOOK_NONE;
    if (moment != PSI_HOOK_NONE) {
        sim_hooks_come(t, h, moment, false);
        return;
    }
    if ((!first && !t->hooks.was_created) || sim_gets_come(s, p, t, h)) {
        return;
    }
    const enum psi_request_kind apart = sim_train_apart(s, p, t, first);
    if (apart != PSI_REQ_NONE) {
        h->call = (struct psi_call){.kind = PSI_CALL_QUIET, .interrupts = t->interrupts};
        h->begun_ms = s->now;
        h->apart_lives = t->m.lives;
        h->apart_cut_ms = 0;
        struct sim_var *v = apart == PSI_REQ_BARRIER ? NULL : &s->var[s->var_count - 1];
        h->in_call = sim_train_meet(s, p, h, apart, v);
        return;
    }
    if (first && (!t->ready || rejoins(s, t))) {
        h->call = (struct psi_call){.kind = PSI_CALL_READY};
    } else if (!t->ready) {
        return;
    } else if (t->m.monitored && first) {
        if (!monitored_trainers(s, t, &h->call)) {
            return;
        }
    } else {
        h->call = first && !sim_one_in(s, 3) ? trainers(s, t) : sim_train_any(s, t);
        if (t->m.monitored && (h->call.kind == PSI_CALL_STEP || h->call.kind == PSI_CALL_PUSH)) {
            return;
        }
    }
    if (h->call.kind == PSI_CALL_READY) {
        (void)sim_train_tell(t, h, PSI_ON_READY, 0);
    }
    h->call.interrupts = t->interrupts;
    h->in_call = true;
    h->cut = false;
    h->begun_ms = s->now;
    for (uint32_t i = 0; i < s->k.vars; i++) {
        h->floor[i] = t->param[i].acknowledged;
    }
}

bool sim_train_is_busy(const struct sim *s, const struct sim_program *p, const struct sim_train *t)
{
    bool busy = t->at_once != NULL || t->t.fetching > 0 || p->calls_out > 0;
    for (uint32_t i = 0; i < t->threads; i++) {
        const struct thread *h = &t->thread[i];
        const bool uses =
            h->op != NULL || h->doing == PSI_DO_READ || h->doing == PSI_DO_AHEAD || h->doing == PSI_DO_PUSH || t->closing;
        busy = busy || (h->in_call && uses) || sim_gets_run(h);
    }
    for (uint32_t i = 0; i < s->k.vars; i++) {
        busy = busy || t->param[i].fetched_at != 0 || t->param[i].handed_at != 0;
    }
    return busy;
}

/* The threads return, requests that nobody waits for end, and the session leaves. */
static void close_session(struct sim *s, struct sim_program *p, struct sim_train *t)
{
    struct thread *closer = &t->thread[THREADS];
    if (!t->ending) {
        t->ending = true;
        if (!s->k.quiet) { /* where nothing breaks they come to their ends */
            interrupt(s, p, t);
        }
        sim_hooks_come(t, closer, PSI_HOOK_END, false);
    }
    if (closer->moment.of != PSI_HOOK_NONE) {
        sim_hooks_go_on(s, p, t, closer);
        return;
    }
    if (!t->closing) {
        struct psi_err refused = {0};
        t->closing = true;
        if (!s->k.quiet) {
            interrupt(s, p, t);
        }
        (void)sim_train_tell(t, t->thread, PSI_ON_CLOSE, 0);
        if (sim_one_in(s, 2) && psi_session_may_start(&t->m, &(struct psi_who){.thread = 1}, &refused) != PS_OK) {
            sim_train_fails(s, t, &refused, false); /* a call beside it */
        }
    }
    bool in_hooks = false;
    for (uint32_t i = 0; i < t->threads; i++) {
        in_hooks = in_hooks || t->thread[i].moment.of != PSI_HOOK_NONE;
    }
    if (in_hooks || sim_train_is_busy(s, p, t)) {
        return;
    }
    sim_train_check_held(s, t);
    (void)sim_train_tell(t, t->thread, PSI_ON_QUIET, 0);
    s->count_train_ends++;
    s->trainer[p->index].leaves = true;
    if (t->t.member != PSI_MEMBER_NONE && t->m.state == PSI_SESSION_RUNNING) {
        psi_training_left(&t->t);
        PSI_IGNORE(sim_call_start(s, p, PSI_REQ_LEAVE, NULL, s->k.operation_ms)); /* its end is what counts */
    } else {
        psi_training_left(&t->t);
        sim_program_end_soon(s, p, 500);
    }
    psi_training_forget(&t->t);
}

/* What no request says: the lease of a chief is lost, or a queue; or the program reports an error of its own. */
static void inject(struct sim *s, struct sim_train *t)
{
    const bool runs = t->m.state == PSI_SESSION_RUNNING;
    if (runs && sim_one_in(s, t->m.step == PSI_STEP_BROKEN_PULLED ? 20 : 200)) {
        sim_train_fails(s, t, &(struct psi_err){.code = PS_ABORTED, .reason = PS_REASON_LOST}, false);
    } else if (sim_one_in(s, runs ? 8000 : t->m.state == PSI_SESSION_BROKEN_OFF ? 6 : 100)) {
        sim_train_fails(s, t, &(struct psi_err){.code = PS_INTERNAL}, true);
    }
}

/* True if the thread stands still: now and then for so long that another one recovers the session meanwhile. */
static bool stands(struct sim *s, const struct sim_train *t, struct thread *h)
{
    const bool lost = t->m.state == PSI_SESSION_LOST || t->m.state == PSI_SESSION_DRAINING;
    if (s->now >= h->stands_until && lost && !t->closing && !s->k.quiet && sim_one_in(s, 8)) {
        const uint64_t ms = sim_below(s, STANDS_MS);
        h->stands_until = s->now + ms;
        h->begun_ms += ms;
    }
    return s->now < h->stands_until;
}

/* One of the threads, chosen at random, goes on. */
static void thread_goes_on(struct sim *s, struct sim_program *p, struct sim_train *t, struct thread *h)
{
    const struct psi_who who = sim_who(t, h);
    if (h->in_call) {
        if (!stands(s, t, h)) {
            go_on(s, p, t, h);
        }
    } else if (sim_gets_run(h)) {
        sim_gets_go_on(s, p, t, h);
    } else if (h->moment.of != PSI_HOOK_NONE) {
        sim_hooks_go_on(s, p, t, h);
    } else if (psi_session_recovers(&t->m)) {
        if (t->m.recoverer == sim_who(t, h).thread) {
            sim_train_recovery_goes_on(s, p, t, h);
        } else {
            (void)sim_gets_come(s, p, t, h); /* in a call that has begun before: it is barred */
        }
    } else if (sim_train_tell(t, h, PSI_MAY_RECOVER, 0) != 0 && !t->closing) {
        if (h != t->thread || t->pushed == 0 || sim_one_in(s, 3)) {
            sim_train_recover(s, p, t, h);
        }
    } else if (!t->closing && psi_hook_event(&t->hooks.m, &who, PSI_IS_CREATED_LEFT) != 0 && sim_one_in(s, 2)) {
        sim_hooks_come(t, h, PSI_HOOK_CREATED, true);
    } else if (!t->closing) {
        begin_call(s, p, t, h);
    }
}

void sim_train_work(struct sim *s, struct sim_program *p)
{
    struct sim_train *t = s->train[p->index];
    p->next_call_at = s->now + sim_below(s, (uint64_t)s->k.think_ms / 4 + 2);
    add_at_once(s, p, t);
    devices(s, p, t);
    const bool recovers = psi_session_recovers(&t->m);
    if (!recovers && (psi_session_is_final(&t->m) || s->now >= s->trainer[p->index].until)) {
        close_session(s, p, t);
    } else if (!s->k.quiet && sim_one_in(s, 150)) {
        interrupt(s, p, t);
        if (recovers && t->thread[t->m.recoverer - 1].op == NULL && p->life != t->drained_life) {
            (void)sim_train_tell(t, t->thread, PSI_ON_BREAK_OFF, 0);
        }
    } else if (!s->k.quiet && t->m.monitored) {
        inject(s, t);
    }
    thread_goes_on(s, p, t, &t->thread[sim_below(s, t->threads)]);
    if (sim_one_in(s, 20) && t->param[0].t.open) {
        sim_train_call_back(s, t);
    }
    s->train_marks |= t->t.marks;
    s->gets_marks |= t->gets.marks;
    for (uint32_t i = 0; i < PSI_SESSION_MARKS; i++) {
        s->session_marks[i] |= t->m.marks[i];
    }
}

/* ---- what the core answers ---- */

static void met(struct sim *s, struct sim_program *p, struct sim_train *t, struct thread *h, const struct sim_call *call)
{
    const bool ok = call->op->status == PS_OK;
    h->op = NULL;
    h->doing = PSI_DO_OVER;
    h->cut = call->req.err != NULL && call->req.err->reason == PS_REASON_INTERRUPTED;
    if (call->op->kind == PSI_REQ_BARRIER || (call->op->var != NULL && call->op->var->kind == SIM_VAR_QUEUE)) {
        h->in_call = false;
        sim_train_apart_over(s, p, t, h, call);
        return;
    }
    if (h->readies) {
        sim_ready_done(s, p, t, h, call);
        return;
    }
    t->met += ok;
    h->met = ok && h->call.rounds;
    if (ok) {
        psi_training_stepped(&t->t);
    }
    psi_training_did(&t->t, &h->call, ok);
}

void sim_train_done(struct sim *s, struct sim_program *p, const struct sim_call *call)
{
    const struct sim_op *op = call->op;
    struct sim_train *t = s->k.trains ? s->train[p->index] : NULL;
    const bool ok = op->status == PS_OK;
    if (t == NULL || p->role == SIM_FINAL) {
        return;
    }
    const bool cut = call->req.err != NULL && call->req.err->reason == PS_REASON_INTERRUPTED;
    const bool ours = op->kind == PSI_REQ_PULL || op->kind == PSI_REQ_PUSH || op->kind == PSI_REQ_PUSH_PULL ||
                      op->kind == PSI_REQ_ADD || op->kind == PSI_REQ_STEP;
    bool readies = false;
    for (uint32_t i = 0; i < t->threads; i++) {
        readies = readies || (t->thread[i].op == op && t->thread[i].readies);
    }
    if (ours && !readies && !ok && !cut) {
        struct psi_err err = call->req.err != NULL ? *call->req.err : (struct psi_err){0};
        err.code = op->status;
        psi_session_cuts(&t->m, &err);
        sim_train_fails(s, t, &err, false);
    }
    for (uint32_t i = 0; i < t->threads; i++) {
        if (t->thread[i].op == op) {
            met(s, p, t, &t->thread[i], call);
            return;
        }
    }
    for (uint32_t i = 0; i < t->add_count; i++) {
        if (t->add[i].op == op) {
            t->add[i].op = NULL;
            t->add[i].t.over = true;
            t->add[i].t.err = (struct psi_err){.code = op->status};
            t->added += ok;
            return;
        }
    }
    for (uint32_t i = 0; i < s->k.vars; i++) {
        struct param *m = &t->param[i];
        if (op->var != &s->var[i] || !ours) {
            continue;
        }
        if (op->kind == PSI_REQ_PULL && m->reads) {
            m->reads = false;
            psi_training_read(&t->t, &m->t, ok, op->version, op->exact);
        } else if (op->kind != PSI_REQ_PULL && m->pushes) {
            m->pushes = false;
            m->acknowledged = ok ? op->version : m->acknowledged;
            psi_training_pushed(&t->t, &m->t, ok, op->version, op->exact);
            const struct psi_call *ending = t->t.ending;
            if (ending != NULL && ending->interrupts == t->interrupts && t->m.state == PSI_SESSION_RUNNING &&
                t->at_once == NULL) {
                t->at_once = psi_training_begins_add(&t->t);
                if (t->at_once != NULL) {
                    sim_train_check_life(s, t, PSI_CONTAINER_OF(t->t.ending, struct thread, call));
                }
            }
        }
    }
    psi_training_check_invariants(&t->t);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training programs in the simulated world: each session has the machine of training (worker/core/training.h) between its threads
 * and its core, as worker/api has. One to three threads call it in turns: pull, push, push-pull, the end of a step, a look at a
 * gradient buffer; in rounds, with bounded staleness, or asynchronously; some with `prefetch`, some with gradients that come from
 * a device, where fetching takes time and may fail. Between what the machine asks for and the doing of it, other threads go on.
 * Now and then all threads are interrupted; the last time that happens their session closes.
 *
 * The oracle sees what the machine asks for, and what the core answers:
 *   - each step counts once: an addition, or a round, for each step that a call counts, and none that no call counts but those of
 *     calls that were interrupted; no addition while one of an interrupted call waits to be taken up;
 *   - one thread at a time ends the step of a member; it does so when no push is on its way, and all parameters were pushed;
 *   - a parameter has one read and one push at a time; a read never overtakes a gradient that comes from a device;
 *   - a value buffer is written while a thread is in a call that reads it, and not after;
 *   - without `prefetch` a pull gives values that contain every push that was acknowledged before it began;
 *   - no call outlives its deadlines, and after the end nothing is held: no turn, no push, no read, no record of an addition.
 */
#include "sim.h"

#include "worker/core/client.h"
#include "worker/core/training.h"

#include <stdlib.h>
#include <string.h>

enum {
    THREADS = 3,
    PARAMS = 8,
    ADDS = 16,
    WAITS = 4, /* of one call: a push, a read, the other workers, an addition; beside one read of each parameter */
    FETCH_MS = 60,
    GRACE_MS = 1500
};

struct param {
    struct psi_training_param t; /* first member */
    uint32_t var;
    bool on_device, reads, pushes;
    uint32_t reader;        /* READING_HERE: 1 + the thread */
    uint64_t fetched_at;    /* its gradient comes from the device then; 0: none comes */
    uint64_t handed_at;     /* when the device's thread comes back from starting the push; 0: it is back */
    uint64_t fetch_number;  /* the push that is fetched for */
    uint64_t handed_number; /* the push that the device's thread has started */
    bool brings;            /* the push is a push-pull */
    uint64_t acknowledged;  /* version after the last push */
};
struct add {
    struct psi_training_add t; /* first member */
    struct sim_op *op;
};
struct thread {
    struct psi_call call;
    bool in_call, cut; /* cut: its request has ended because the thread was interrupted */
    enum psi_do doing; /* OVER: nothing */
    struct sim_op *op; /* STEP or JOIN that it waits for */
    uint64_t begun_ms;
    uint64_t floor[PARAMS];
};
struct sim_train {
    struct psi_training t;
    struct param param[PARAMS];
    struct thread thread[THREADS];
    struct add add[ADDS];
    struct psi_training_add *at_once; /* an addition that the last acknowledgement has begun, and that is to be started */
    uint32_t threads, add_count;
    unsigned interrupts;
    bool failed, closing, rejoins;
    uint64_t met, counted, added;
};

static struct param *param_of(struct psi_training_param *p)
{
    return (struct param *)(void *)p;
}

void sim_train_begin(struct sim *s, const struct sim_program *p)
{
    if (!s->k.trains) {
        return;
    }
    free(s->train[p->index]); /* its marks are in s->train_marks */
    struct sim_train *t = s->train[p->index] = sim_alloc(sizeof(*t));
    psi_training_init(&t->t);
    t->threads = (uint32_t)sim_range(s, 1, THREADS);
    t->t.prefetch = s->sync.mode != PS_SYNC_ROUNDS && sim_one_in(s, 3);
    for (uint32_t i = 0; i < s->k.vars; i++) {
        struct param *m = &t->param[i];
        m->t = (struct psi_training_param){.name = s->var[i].name, .open = true, .trained = true};
        m->var = i;
        m->on_device = sim_one_in(s, 3);
        psi_training_add(&t->t, &m->t);
    }
}

void sim_trains_free(struct sim *s)
{
    for (uint32_t i = 0; i < SIM_PROGRAMS_MAX; i++) {
        free(s->train[i]);
        s->train[i] = NULL;
    }
}

static struct sim_call *start(struct sim *s, struct sim_program *p, enum psi_request_kind kind, struct sim_var *v, bool waited)
{
    const struct sim_op *op = sim_call_start(s, p, kind, v, s->k.operation_ms);
    for (uint32_t i = 0; op != NULL && i < SIM_CALLS_MAX; i++) {
        if (p->calls[i] != NULL && p->calls[i]->op == op) {
            p->calls[i]->req.waited = waited;
            p->calls[i]->req.interrupts = s->train[p->index]->interrupts;
            return p->calls[i];
        }
    }
    return NULL;
}

/* All threads' waits end, and so do requests that they wait for. */
static void interrupt(struct sim *s, const struct sim_program *p, struct sim_train *t)
{
    t->interrupts++;
    s->count_train_cut++;
    sim_trace(s, "client%u.%u interrupts its threads", p->index, p->life);
    psi_client_interrupt(p->core, t->interrupts, PS_REASON_INTERRUPTED, "interrupted");
}

/* ---- what the machine asks for ---- */

static void hand_over(struct sim *s, struct sim_program *p, struct sim_train *t, struct param *m)
{
    m->pushes = start(s, p, m->brings ? PSI_REQ_PUSH_PULL : PSI_REQ_PUSH, &s->var[m->var], false) != NULL;
    if (!m->pushes) {
        t->failed = true;
        psi_training_refused(&t->t, &m->t);
    }
}

static bool push(struct sim *s, struct sim_program *p, struct sim_train *t, struct psi_call *call)
{
    struct param *m = param_of(call->param);
    if (m->pushes || m->fetched_at != 0) {
        sim_fail(s, "TWO PUSHES of '%s' at a time", m->t.name);
    }
    if (!s->k.quiet && sim_one_in(s, 200)) { /* no memory for the second buffer */
        t->failed = true;
        return false;
    }
    m->brings = call->brings;
    if (m->on_device) {
        m->fetch_number = psi_training_fetches(&t->t, &m->t);
        m->fetched_at = s->now + sim_range(s, 1, FETCH_MS);
        return true;
    }
    m->pushes = start(s, p, m->brings ? PSI_REQ_PUSH_PULL : PSI_REQ_PUSH, &s->var[m->var], false) != NULL;
    t->failed = t->failed || !m->pushes;
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
                t->failed = true;
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
    struct param *m = param_of(h->call.at);
    if (m->reads) {
        sim_fail(s, "TWO READS of '%s' at a time", m->t.name);
    }
    m->reads = start(s, p, PSI_REQ_PULL, &s->var[m->var], !ahead) != NULL;
    m->reader = m->reads && !ahead ? 1 + (uint32_t)(h - t->thread) : 0;
    t->failed = t->failed || !m->reads;
    return m->reads;
}

static bool start_add(struct sim *s, struct sim_program *p, struct sim_train *t, struct add *a)
{
    struct sim_call *c = start(s, p, PSI_REQ_ADD, &s->var[s->var_count - 1], false);
    a->op = c != NULL ? c->op : NULL;
    t->failed = t->failed || c == NULL;
    return c != NULL;
}

static bool add_one(struct sim *s, struct sim_program *p, struct sim_train *t, struct psi_call *call)
{
    if (call->add == NULL && t->add_count == ADDS) {
        sim_fail(s, "HELD: %u records of additions are in use, or lost", t->add_count);
    }
    struct add *a = call->add != NULL ? (struct add *)(void *)call->add : &t->add[t->add_count++];
    psi_list_init(&a->t.link);
    call->add = &a->t;
    a->t.over = false;
    return start_add(s, p, t, a);
}

/* The loop's thread starts an addition for a thread that sleeps. */
static void add_at_once(struct sim *s, struct sim_program *p, struct sim_train *t)
{
    struct psi_training_add *a = t->at_once;
    t->at_once = NULL;
    if (a != NULL && !start_add(s, p, t, (struct add *)(void *)a)) {
        a->err = (struct psi_err){.code = PS_ABORTED};
        a->over = true;
    }
}

/* Say STEP, or JOIN. True: its end goes on with the call. */
static bool meet(struct sim *s, struct sim_program *p, struct thread *h, enum psi_request_kind kind)
{
    struct sim_call *c = start(s, p, kind, NULL, true);
    h->op = c != NULL ? c->op : NULL;
    return c != NULL;
}

static void check_step(struct sim *s, const struct sim_train *t, const struct thread *h)
{
    for (uint32_t i = 0; i < t->threads; i++) {
        if (&t->thread[i] != h && t->thread[i].in_call && t->thread[i].call.turn) {
            sim_fail(s, "TWO STEPS: two threads end a step of one member");
        }
    }
    for (uint32_t i = 0; i < s->k.vars; i++) {
        const struct param *m = &t->param[i];
        if (s->sync.mode == PS_SYNC_ROUNDS && (m->pushes || m->fetched_at != 0)) {
            sim_fail(s, "STEP before the push of '%s' is over", m->t.name);
        }
    }
    if (t->met != t->counted && s->sync.mode == PS_SYNC_STALENESS) {
        sim_fail(s, "TWO WAITS: %llu steps have met the others, %llu count", (unsigned long long)t->met,
                 (unsigned long long)t->counted);
    }
}

static void check_taken(struct sim *s, const struct sim_train *t, const struct thread *h)
{
    const struct param *m = param_of(h->call.at);
    if (!t->t.prefetch && m->t.version < h->floor[m->var]) {
        sim_fail(s, "OLD VALUES: '%s' is given in version %llu, and a push was acknowledged with %llu", m->t.name,
                 (unsigned long long)m->t.version, (unsigned long long)h->floor[m->var]);
    }
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
        ok = push(s, p, t, &h->call);
        break;
    case PSI_DO_CHECK:
        h->call.skips = sim_one_in(s, 30);
        break;
    case PSI_DO_ADD:
        ok = add_one(s, p, t, &h->call);
        break;
    case PSI_DO_STEP:
        check_step(s, t, h);
        if (meet(s, p, h, PSI_REQ_STEP)) {
            h->doing = PSI_DO_STEP;
            return;
        }
        ok = false;
        t->failed = true;
        break;
    default:
        sim_fail(s, "the machine asks for %d", (int)what);
    }
    psi_training_did(&t->t, &h->call, ok);
}

static void check_held(struct sim *s, const struct sim_train *t)
{
    uint32_t free_adds = 0;
    uint64_t unclaimed = 0;
    for (const struct psi_list *it = t->t.adds_spare.next; it != &t->t.adds_spare; it = it->next) {
        free_adds++;
    }
    for (struct psi_list *it = t->t.adds_left.next; it != &t->t.adds_left; it = it->next) {
        free_adds++;
        unclaimed += PSI_CONTAINER_OF(it, struct psi_training_add, link)->err.code == PS_OK;
    }
    if (s->sync.mode == PS_SYNC_ROUNDS ? t->met != t->counted : t->added != t->counted + unclaimed) {
        sim_fail(s, "NOT COUNTED: %llu steps count, of %llu rounds and %llu additions, %llu of these of interrupted calls",
                 (unsigned long long)t->counted, (unsigned long long)t->met, (unsigned long long)t->added,
                 (unsigned long long)unclaimed);
    }
    for (uint32_t i = 0; i < s->k.vars; i++) {
        const struct param *m = &t->param[i];
        if (m->t.gradient != PSI_GRADIENT_FREE || m->t.read != PSI_READING_NONE || m->t.value == PSI_VALUE_COMING) {
            sim_fail(s, "HELD: '%s' has gradient %d, read %d, value %d when all calls are over", m->t.name, (int)m->t.gradient,
                     (int)m->t.read, (int)m->t.value);
        }
    }
    if (t->t.pushes != 0 || t->t.fetching != 0 || t->t.state != PSI_TRAINING_RUNNING || free_adds != t->add_count) {
        sim_fail(s, "HELD: %u pushes, %u fetches, turn %d, %u of %u records when all calls are over", t->t.pushes, t->t.fetching,
                 (int)t->t.state, free_adds, t->add_count);
    }
}

static void call_over(struct sim *s, struct sim_train *t, struct thread *h)
{
    h->in_call = false;
    s->count_train_calls++;
    for (uint32_t i = 0; i < s->k.vars; i++) {
        if (t->param[i].reads && t->param[i].reader == 1 + (uint32_t)(h - t->thread)) {
            sim_fail(s, "WRITTEN LATE: a call is over, and '%s' is being read into its value buffer", t->param[i].t.name);
        }
    }
    t->failed = t->failed || (h->call.end == PSI_END_REFUSED && !h->cut);
    if (h->call.counted) {
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
    const uint64_t limit_ms = (uint64_t)(WAITS + s->k.vars) * s->k.operation_ms + GRACE_MS;
    if (s->now > from + limit_ms) {
        sim_fail(s, "LATE: call %d of client%u has lasted %llu ms", (int)h->call.kind, p->index,
                 (unsigned long long)(s->now - h->begun_ms));
    }
}

/* A thread goes on: it does what it was told, or asks what is next. */
static void go_on(struct sim *s, struct sim_program *p, struct sim_train *t, struct thread *h)
{
    struct psi_err err = {.code = PS_OK};
    const struct psi_now now = {.interrupted = h->call.interrupts != t->interrupts, .failed = t->failed};
    check_late(s, p, h);
    if (h->doing == PSI_DO_STEP && h->op != NULL) {
        return; /* until it is answered */
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
        check_taken(s, t, h);
        break;
    case PSI_DO_OVER:
        if (h->call.kind == PSI_CALL_READY && h->call.turn && meet(s, p, h, PSI_REQ_JOIN)) {
            h->doing = PSI_DO_STEP; /* its turn is over when JOIN is answered */
            return;
        }
        if (h->call.turn && h->call.kind == PSI_CALL_READY) {
            psi_training_turn_over(&t->t);
        }
        call_over(s, t, h);
        break;
    case PSI_DO_READ:
    case PSI_DO_AHEAD:
        if (param_of(h->call.at)->fetched_at != 0) {
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

static struct psi_call any(struct sim *s, struct sim_train *t)
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

/* Ready again, which programs do between two steps. */
static bool rejoins(struct sim *s, struct sim_train *t)
{
    bool between = t->t.pushes == 0 && !t->rejoins && t->t.member != PSI_MEMBER_NONE;
    for (uint32_t i = 0; i < s->k.vars; i++) {
        between = between && !psi_training_is_pushed(&t->t, &t->param[i].t);
    }
    t->rejoins = t->rejoins || (between && sim_one_in(s, 30));
    return between && t->rejoins;
}

static void begin_call(struct sim *s, struct sim_train *t, struct thread *h)
{
    const bool first = h == t->thread;
    const bool member = s->sync.mode != PS_SYNC_NONE;
    if (member && first && (t->t.member == PSI_MEMBER_NONE || rejoins(s, t))) {
        h->call = (struct psi_call){.kind = PSI_CALL_READY};
    } else if (member && t->t.member == PSI_MEMBER_NONE) {
        return;
    } else {
        h->call = first && !sim_one_in(s, 3) ? trainers(s, t) : any(s, t);
    }
    h->call.interrupts = t->interrupts;
    h->in_call = true;
    h->cut = false;
    h->begun_ms = s->now;
    for (uint32_t i = 0; i < s->k.vars; i++) {
        h->floor[i] = t->param[i].acknowledged;
    }
}

/* The threads return, requests that nobody waits for end, and the session leaves. */
static void close_session(struct sim *s, struct sim_program *p, struct sim_train *t)
{
    if (!t->closing) {
        t->closing = true;
        if (!s->k.quiet) { /* where nothing breaks they come to their ends */
            interrupt(s, p, t);
        }
    }
    bool busy = t->at_once != NULL || t->t.fetching > 0 || p->calls_out > 0;
    for (uint32_t i = 0; i < t->threads; i++) {
        busy = busy || t->thread[i].in_call;
    }
    if (busy) {
        return;
    }
    check_held(s, t);
    s->count_train_ends++;
    s->trainer[p->index].leaves = true;
    if (t->t.member != PSI_MEMBER_NONE && !t->failed) {
        psi_training_left(&t->t);
        PSI_IGNORE(sim_call_start(s, p, PSI_REQ_LEAVE, NULL, s->k.operation_ms)); /* its end is what counts */
    } else {
        psi_training_left(&t->t);
        sim_program_end_soon(s, p, 500);
    }
    psi_training_forget(&t->t);
}

void sim_train_work(struct sim *s, struct sim_program *p)
{
    struct sim_train *t = s->train[p->index];
    p->next_call_at = s->now + sim_below(s, (uint64_t)s->k.think_ms / 4 + 2);
    add_at_once(s, p, t);
    devices(s, p, t);
    if (t->failed || s->now >= s->trainer[p->index].until) {
        close_session(s, p, t);
    } else if (!s->k.quiet && sim_one_in(s, 150)) {
        interrupt(s, p, t);
    }
    struct thread *h = &t->thread[sim_below(s, t->threads)];
    if (h->in_call) {
        go_on(s, p, t, h);
    } else if (!t->closing) {
        begin_call(s, t, h);
    }
    s->train_marks |= t->t.marks;
}

/* ---- what the core answers ---- */

static void met(struct sim *s, struct sim_train *t, struct thread *h, const struct sim_call *call)
{
    const bool ok = call->op->status == PS_OK;
    h->op = NULL;
    h->doing = PSI_DO_OVER;
    h->cut = call->req.err != NULL && call->req.err->reason == PS_REASON_INTERRUPTED;
    if (call->op->kind == PSI_REQ_JOIN) {
        if (ok) {
            psi_training_joined(&t->t, s->sync.mode);
            t->met = t->counted; /* a step that had met the others meets those of the new membership */
        }
        psi_training_turn_over(&t->t);
        call_over(s, t, h);
        return;
    }
    t->met += ok;
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
                      op->kind == PSI_REQ_ADD || op->kind == PSI_REQ_STEP || op->kind == PSI_REQ_JOIN;
    t->failed = t->failed || (ours && !ok && !cut);
    for (uint32_t i = 0; i < t->threads; i++) {
        if (t->thread[i].op == op) {
            met(s, t, &t->thread[i], call);
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
            if (ending != NULL && ending->interrupts == t->interrupts && !t->failed && t->at_once == NULL) {
                t->at_once = psi_training_begins_add(&t->t);
            }
        }
    }
    psi_training_check_invariants(&t->t);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RACE profile: rounds of a reset, a creation, a push and a dying task. A round carries the four out in one of their 24 orders,
 * a few milliseconds apart, while the programs go on with their own work; then there is time to come back, and the next round
 * takes another order. The first order of a seed is seed mod 24.
 *
 * The general oracles say that no push lands in another incarnation (oracle.c) and that no name has two owners (birth.c). Here a
 * RESET that failed must name a task that really was away, or the directory was.
 */
#include "sim.h"

#include <string.h>

enum step { STEP_RESET, STEP_CREATE, STEP_PUSH, STEP_DIE };

/* The n-th order of the four. */
static enum step step_of(uint32_t order, uint32_t n)
{
    enum step left[SIM_RACE_STEPS] = {STEP_RESET, STEP_CREATE, STEP_PUSH, STEP_DIE};
    uint32_t count = SIM_RACE_STEPS;
    static const uint32_t block[SIM_RACE_STEPS] = {6, 2, 1, 1};
    enum step taken = left[0];
    for (uint32_t i = 0; i <= n; i++) {
        uint32_t at = i + 1 < SIM_RACE_STEPS ? order / block[i] : 0;
        order -= i + 1 < SIM_RACE_STEPS ? at * block[i] : 0;
        taken = left[at];
        for (uint32_t j = at; j + 1 < count; j++) {
            left[j] = left[j + 1];
        }
        count--;
    }
    return taken;
}

/* A program at work that may take one more call; chief: one that may reset. */
static struct sim_program *at_work(struct sim *s, bool chief)
{
    struct sim_program *found = NULL;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < s->program_count; i++) {
        struct sim_program *p = &s->program[i];
        bool fits = chief ? p->role == SIM_CHIEF : p->role == SIM_CHIEF || p->role == SIM_WORKER;
        if (fits && p->core != NULL && p->state == SIM_WORK && p->calls_out + 1 < SIM_CALLS_MAX && sim_below(s, ++seen) == 0) {
            found = p;
        }
    }
    return found;
}

static bool start(struct sim *s, struct sim_program *p, enum psi_request_kind kind, struct sim_var *v)
{
    psi_client_tick(p->core, s->now);
    sim_program_settle(s, p);
    if (p->core == NULL || p->state != SIM_WORK) {
        return false; /* a call ended just now and took the session along */
    }
    bool started = sim_call_start(s, p, kind, v, s->k.operation_ms) != NULL;
    sim_program_settle(s, p);
    return started;
}

static bool push(struct sim *s)
{
    struct sim_program *p = at_work(s, false);
    for (uint32_t i = 0; p != NULL && i < s->var_count; i++) {
        struct sim_var *v = &s->var[i];
        if (v->kind == SIM_VAR_PUSH && (p->set & 1u << i) != 0 && v->digits_used < v->digits_max) {
            return start(s, p, PSI_REQ_PUSH, v);
        }
        if (v->kind == SIM_VAR_STEP && (p->set & 1u << i) != 0) {
            return start(s, p, PSI_REQ_ADD, v); /* no digits are left: the step counts as well */
        }
    }
    return false;
}

static bool create(struct sim *s)
{
    struct sim_program *p = &s->program[sim_below(s, s->program_count)];
    if (p->role == SIM_FINAL) {
        p = &s->program[0];
    }
    if (p->core == NULL) {
        p->start_at = s->now; /* a new session gets all its variables */
        s->race.created++;
        return true;
    }
    p->work_until = s->now; /* this one ends, and the next gets them */
    return p->state == SIM_GET;
}

static bool die(struct sim *s)
{
    uint64_t away_ms[] = {0, sim_below(s, 1200), sim_below(s, 5000)};
    struct sim_task *t = &s->task[sim_below(s, s->task_count)];
    if (t == &s->task[0] && sim_one_in(s, 2)) {
        t = &s->task[1]; /* the directory takes the others' fates along */
    }
    if (t->core == NULL) {
        return false;
    }
    sim_task_kill(s, t, s->now + away_ms[sim_below(s, 3)]);
    return true;
}

void sim_race_step(struct sim *s)
{
    struct sim_race *r = &s->race;
    struct sim_program *p = NULL;
    bool taken = false;
    enum step step = step_of(r->order, r->step);
    sim_trace(s, "race: order %u step %u: %s", r->order, r->step,
              step == STEP_RESET    ? "reset"
              : step == STEP_CREATE ? "create"
              : step == STEP_PUSH   ? "push"
                                    : "a task dies");
    switch (step) {
    case STEP_RESET:
        p = at_work(s, true);
        taken = p != NULL && start(s, p, PSI_REQ_RESET, NULL);
        break;
    case STEP_CREATE:
        taken = create(s);
        break;
    case STEP_PUSH:
        taken = push(s);
        break;
    case STEP_DIE:
        taken = die(s);
        break;
    }
    r->whole = r->whole && taken;
    s->next_fault = s->now + sim_below(s, sim_one_in(s, 2) ? 4 : 60);
    if (++r->step == SIM_RACE_STEPS) {
        if (r->whole) { /* else it is tried again: some orders seldom find everybody at work */
            r->orders |= 1u << r->order;
            r->order = (r->order + 7) % SIM_RACE_ORDERS; /* 7 and 24 have no common factor: all come round */
        }
        r->step = 0;
        r->whole = true;
        s->next_fault = s->now + sim_range(s, 300, 1500);
    }
}

static bool away(const struct sim *s, const struct sim_task *t, const struct sim_op *op)
{
    uint64_t from = op->started_ms > 3ull * s->k.lease_ms ? op->started_ms - 3ull * s->k.lease_ms : 0;
    return t->core == NULL || t->died_at >= from || t->up_at >= from;
}

void sim_race_done(struct sim *s, const struct sim_op *op, const char *text)
{
    static const char *const marks[] = {"not connected to the directory: ", "no answer yet from "};
    char who[64];
    bool named = false;
    s->race.push_lost += op->kind == PSI_REQ_PUSH && op->status == PS_ABORTED;
    if (op->kind != PSI_REQ_RESET) {
        return;
    }
    s->race.reset_ok += op->status == PS_OK;
    if (op->status == PS_OK || s->k.disks || away(s, &s->task[0], op)) {
        return; /* a disk was slow or failed; the directory itself: nobody could say more */
    }
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        const char *names = strstr(text, marks[i]);
        for (uint32_t t = 0; names != NULL && t < s->task_count; t++) {
            (void)snprintf(who, sizeof(who), "/job:%s/task:%u (", s->task[t].job, s->task[t].index);
            if (strstr(names, who) == NULL) {
                continue;
            }
            named = true;
            if (!away(s, &s->task[t], op)) {
                sim_fail(s, "a RESET failed and blames %s), which was there all the time: %s", who, text);
            }
        }
        s->race.reset_refused += i == 0 && names != NULL;
        s->race.reset_late += i == 1 && names != NULL;
    }
    bool other = strstr(text, "another reset") != NULL;
    if (!named && !other) {
        sim_fail(s, "a RESET failed and names nobody who is missing: %s", text);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Candidates for the lease of a chief: READY that stops where nothing is live; whoever is the chief then gives every variable the
 * same tag, or none, or dies in the middle of it; READY again, pushes and pulls, from the start after each loss. Meanwhile chiefs
 * stand still for longer than their lease, between any two of their steps and with frames on their way, die, and come back; the
 * directory restarts, or any task. In half of the seeds some sessions of worker 0 claim nothing: they initialise what they
 * find without a value, under a number that they take, whoever holds the lease; they look when another one is told to give, and
 * have their number when it seals. In every third seed the last program is worker 1, and a task has lost what it had of the
 * model.
 *
 * The oracle reads the values, the changes of the tasks, and what sessions are told:
 *   - a value that is sealed keeps its tag as long as it lives, and sealed values that live together have the same one: what two
 *     chiefs have given is never mixed, and no live value is replaced;
 *   - a model that is sealed as a whole is not emptied: every RESET here is of a chief that found half of it;
 *   - an owner that has followed a number carries out nothing under a lower one;
 *   - the directory gives the lease to nobody while somebody else's runs, and to no new chief as the directory before it knew it;
 *     no number to two sessions; none to an evaluator;
 *   - whoever is ready has the whole model, with the learning rate that it asks for in force, unless a later chief has changed
 * that; in half of the seeds sessions ask for two rates, and who is refused for that was told the rate of a chief of this run; a
 * chief that was told that nothing is live meets no sealed variable;
 *   - when the faults are over somebody is the chief, and the model is ready, within the time that the last program gives it.
 */
#include "sim.h"

#include "psd/state.h"
#include "worker/core/ready.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TAG_UNIT ((double)((uint64_t)1 << 20)) /* a value is its tag times this, and its pushes */

enum { NEVER_LEFT = 0, READY_AGAIN_IN = 40 };

static double tag_of(double value)
{
    return floor(value / TAG_UNIT);
}

static double element_of(const void *value, uint64_t i)
{
    double x = 0;
    memcpy(&x, (const uint8_t *)value + i * sizeof(x), sizeof(x));
    return x;
}

/* ---- what a task does, before it is carried out ---- */

static struct sim_program *program_of(struct sim *s, const uint8_t session[16])
{
    for (uint32_t i = 0; i < s->program_count; i++) {
        struct sim_program *p = &s->program[i];
        if (p->core != NULL && memcmp(p->core->session_id, session, sizeof(p->core->session_id)) == 0) {
            return p;
        }
    }
    return NULL;
}

static const struct psd_record *record_of(const struct sim_task *t, const uint8_t session[16])
{
    return psi_map_find(&t->core->records, session, 16);
}

static bool same_task(const struct sim_lease *l, const struct psd_record *r)
{
    return l->held_task == r->task && strcmp(l->held_job, r->job) == 0;
}

/* It may say a number that it had to a directory that has forgotten of later ones: the owners have not. */
static bool was_chief(const struct sim_lease *l, const struct psd_record *r)
{
    for (uint32_t i = 0; i < l->numbers_count; i++) {
        if (l->numbers[i].task == r->task) {
            return true;
        }
    }
    return false;
}

/* Until when somebody else than r holds the lease, as this directory knows it, or as the one before it knew. */
static uint64_t held_until(const struct sim *s, const struct sim_task *t, const struct psd_record *r)
{
    const struct sim_lease *l = &s->lease;
    if (l->numbers_count == 0 || same_task(l, r)) {
        return NEVER_LEFT;
    }
    if (l->directory_life != t->life) {
        /* or known from a checkpoint alone: then the preferred one need not wait */
        const struct psd_chief *chief = psd_chief_find(&t->core->chiefs, SIM_CONTAINER);
        bool forgotten = chief == NULL || chief->number == 0 || chief->saved;
        return was_chief(l, r) || (forgotten && r->task == 0) ? NEVER_LEFT : l->held_until_ms;
    }
    /* a task has told of a higher number, of an earlier life: nobody follows the holder any more */
    if (psd_chief_number(&t->core->chiefs, SIM_CONTAINER) > l->held_number) {
        return NEVER_LEFT;
    }
    const struct psd_record *holder = record_of(t, l->held_by);
    return holder != NULL ? holder->lease_until_ms : NEVER_LEFT;
}

/* Rarely more than one at a time: while one stands still another one is to finish what it does. */
static bool may_stop(struct sim *s)
{
    uint32_t in = 2;
    for (uint32_t i = 0; i < s->program_count; i++) {
        in = s->program[i].core != NULL && s->program[i].stopped_until > s->now ? 8 : in;
    }
    return !s->healing && sim_one_in(s, in);
}

static void freeze_soon(struct sim *s, const struct sim_program *p)
{
    if (p != NULL && may_stop(s)) { /* in the middle of what a new chief does */
        s->lease.freeze = p->index + 1;
        s->next_fault = s->now + sim_below(s, s->k.delay_ms > 1 ? 400 : 60);
    }
}

static void granted(struct sim *s, struct sim_task *t, const struct psd_change *c)
{
    struct sim_lease *l = &s->lease;
    const struct psd_record *r = c->chief.record;
    const struct sim_program *p = program_of(s, r->session);
    uint64_t until = held_until(s, t, r);
    if (strcmp(r->job, "worker") != 0) {
        sim_fail(s, "the lease of the chief is given to /job:%s/task:%u", r->job, r->task);
    }
    if (until > s->now && strcmp(r->program, SIM_STATIC) != 0) { /* its program may have gone on to another session */
        sim_fail(s, "TOO EARLY: /job:%s/task:%u is made the chief, and the lease of /job:%s/task:%u runs for %llu ms more",
                 r->job, r->task, l->held_job, l->held_task, (unsigned long long)(until - s->now));
    }
    for (uint32_t i = 0; i < l->numbers_count; i++) {
        if (l->numbers[i].number == c->chief.number && memcmp(l->numbers[i].session, r->session, 16) != 0) {
            sim_fail(s, "TWO CHIEFS have number %llu", (unsigned long long)c->chief.number);
        }
    }
    if (l->directory_life == t->life && c->chief.number < l->held_number) {
        sim_fail(s, "chief number %llu is given after %llu", (unsigned long long)c->chief.number,
                 (unsigned long long)l->held_number);
    }
    if (l->numbers_count == SIM_CHIEFS_MAX) {
        sim_fail(s, "more than %d chiefs: a fault of the workload", SIM_CHIEFS_MAX);
    }
    s->count_chiefs++;
    s->count_takeovers += l->numbers_count > 0 && !same_task(l, r);
    l->numbers[l->numbers_count].number = c->chief.number;
    l->numbers[l->numbers_count].task = r->task;
    l->numbers[l->numbers_count].rate = p != NULL && !p->core->chief.readied ? sim_chief_rate(p) : 0;
    memcpy(l->numbers[l->numbers_count++].session, r->session, 16);
    l->directory_life = t->life;
    l->held_number = c->chief.number;
    l->held_task = r->task;
    (void)snprintf(l->held_job, sizeof(l->held_job), "%s", r->job);
    memcpy(l->held_by, r->session, sizeof(l->held_by));
    freeze_soon(s, p);
}

static void follows(struct sim *s, const struct sim_task *t, uint64_t number)
{
    uint64_t *seen = &s->lease.seen[t - s->task];
    *seen = number > *seen ? number : *seen;
}

static void check_followed(struct sim *s, const struct sim_task *t, uint64_t number, const char *what)
{
    uint64_t seen = s->lease.seen[t - s->task];
    if (number != 0 && number < seen) {
        sim_fail(s, "OLDER CHIEF: %s:%u carries out %s of number %llu, it has followed %llu", t->job, t->index, what,
                 (unsigned long long)number, (unsigned long long)seen);
    }
}

void sim_chief_change(struct sim *s, struct sim_task *t, const struct psd_change *c)
{
    if (s->k.profile != SIM_LEASE) {
        return;
    }
    switch (c->kind) {
    case PSD_CHANGE_CHIEF:
        if (c->chief.record != NULL) {
            granted(s, t, c);
        }
        if (c->chief.container != NULL) {
            follows(s, t, c->chief.number);
        }
        break;
    case PSD_CHANGE_INIT:
        check_followed(s, t, c->init.chief_number, "an INIT");
        break;
    case PSD_CHANGE_SEGMENT: {
        const struct psd_progress *in = c->segment.number->progress;
        if (c->segment.last && in->kind == PSD_ASSIGN) {
            check_followed(s, t, in->chief_number, "an ASSIGN");
        }
        break;
    }
    default:
        break;
    }
}

void sim_chief_restart(struct sim *s, const struct sim_task *t)
{
    struct sim_lease *l = &s->lease;
    if (s->k.profile != SIM_LEASE) {
        return;
    }
    l->seen[t - s->task] = 0;
    if (t == &s->task[0] && l->directory_life == t->life) {
        const struct psd_record *holder = record_of(t, l->held_by);
        l->held_until_ms = holder != NULL ? holder->lease_until_ms : NEVER_LEFT;
    }
}

/* ---- values ---- */

static struct sim_birth *sealed_birth(struct sim *s, const struct sim_var *v)
{
    for (size_t i = s->birth_count; i > 0; i--) {
        struct sim_birth *b = &s->birth[i - 1];
        if (b->alive && b->var == v && b->sealed) {
            return b;
        }
    }
    return NULL;
}

static void check_mixed(struct sim *s, const struct sim_birth *b)
{
    for (uint32_t i = 0; i < s->var_count; i++) {
        const struct sim_birth *o = sealed_birth(s, &s->var[i]);
        if (o != NULL && o->tag != b->tag) {
            sim_fail(s, "MIXED: '%s' is sealed with tag %g, and '%s' lives with tag %g", b->var->name, b->tag, o->var->name,
                     o->tag);
        }
    }
}

void sim_chief_look(struct sim *s, struct sim_birth *b, const void *value, bool full)
{
    const struct sim_var *v = b->var;
    const double tag = tag_of(element_of(value, 0));
    const uint64_t step = full || v->elements == 1 ? 1 : v->elements - 1; /* the first and the last, or all */
    for (uint64_t i = 0; i < v->elements; i += step) {
        if (tag_of(element_of(value, i)) != tag) {
            sim_fail(s, "HALF AN ASSIGN: element %llu of '%s' has tag %g, the first %g", (unsigned long long)i, v->name,
                     tag_of(element_of(value, i)), tag);
        }
    }
    if (tag != 0 && sim_find_tag(s, v, tag) == NULL) {
        sim_fail(s, "'%s' has tag %g, which nobody gave it", v->name, tag);
    }
    if (b->sealed && b->sealed_event != 0 && tag != b->tag) {
        sim_fail(s, "REPLACED: '%s' was sealed with tag %g, and has tag %g", v->name, b->tag, tag);
    }
    b->tag = tag;
    if (b->sealed && b->sealed_event == 0) {
        b->sealed_event = s->event;
        check_mixed(s, b);
    }
}

void sim_chief_dies(struct sim *s, const struct sim_birth *b, bool by_restart)
{
    if (b->var->kind == SIM_VAR_MODEL && s->lease.whole && !by_restart) {
        sim_fail(s, "ROLLED BACK: '%s' is emptied, and the model was ready as a whole", b->var->name);
    }
}

void sim_chief_looked(struct sim *s)
{
    bool whole = s->k.profile == SIM_LEASE;
    for (uint32_t i = 0; whole && i < s->var_count; i++) {
        const struct sim_birth *b = sealed_birth(s, &s->var[i]);
        whole = b != NULL && !(b->restored && b->version == 0 && b->tag == 0); /* restored without a value: uninitialised */
    }
    s->lease.whole = whole;
}

/* ---- what programs do ---- */

void sim_chief_draw(struct sim *s)
{
    for (uint32_t i = 0; i <= s->k.vars; i++) {
        struct sim_var *v = &s->var[s->var_count++];
        uint32_t first = s->k.restarts_directory ? 1 : 0; /* the directory has none: it may restart, and nothing is lost */
        (void)snprintf(v->name, sizeof(v->name), i == s->k.vars ? "global_step" : "v%u", i);
        v->container = SIM_CONTAINER;
        v->kind = SIM_VAR_MODEL;
        v->dtype = PS_F64;
        v->wire = PS_F64;
        v->elements = sim_range(s, 1, 40);
        if (i == 0 && sim_one_in(s, 2)) { /* its ASSIGN comes in frames */
            v->elements = s->k.frame_bytes / sizeof(double) + sim_range(s, 1, s->k.frame_bytes / sizeof(double));
        }
        (void)snprintf(v->device, sizeof(v->device), "/job:ps/task:%u", first + i % (s->k.ps_tasks - first));
    }
}

void sim_chief_begin(struct sim *s, struct sim_program *p)
{
    s->candidate[p->index] = (struct sim_candidate){.number = 0};
}

/* What it is told that nothing is live: all, some and an end, or nothing at all. */
static void plan(struct sim *s, struct sim_candidate *a)
{
    uint64_t x = sim_below(s, 8);
    a->tag = x == 0 ? 0 : ++s->tag_next;
    a->gives = x == 0 ? 0 : x == 1 ? (uint32_t)sim_below(s, s->var_count) : s->var_count;
    a->fails = x == 1;
    a->at_once = sim_one_in(s, 2);
    a->planned = true;
}

void sim_chief_give(struct sim *s, struct sim_program *p)
{
    struct sim_candidate *a = &s->candidate[p->index];
    if (a->number == 0) {
        p->state = SIM_READY;
        return;
    }
    if (!a->planned) {
        plan(s, a);
    }
    while (a->given < a->gives) {
        struct sim_var *v = &s->var[a->given++];
        if (sim_call_start(s, p, PSI_REQ_ASSIGN, v, s->k.operation_ms) == NULL) {
            sim_program_end_soon(s, p, 300);
            return;
        }
        if (!a->at_once) {
            p->next_call_at = s->now + sim_below(s, (uint64_t)s->k.think_ms + 1);
            return;
        }
    }
    if (p->calls_out > 0) {
        return;
    }
    if (a->fails) {
        sim_program_end_soon(s, p, 500);
    } else {
        p->state = SIM_READY;
    }
}

static void ready_again(struct sim *s, struct sim_program *p)
{
    p->ready_out = true;
    s->candidate[p->index] = (struct sim_candidate){.number = 0};
    PSI_IGNORE(sim_call_start(s, p, PSI_REQ_READY, NULL, s->k.ready_ms)); /* cannot be refused */
}

void sim_chief_work(struct sim *s, struct sim_program *p)
{
    p->next_call_at = s->now + sim_below(s, (uint64_t)s->k.think_ms + 1) + (s->op_count > s->k.calls_many ? 200 : 0);
    struct sim_var *v = &s->var[sim_below(s, s->var_count)];
    if (p->role != SIM_FINAL && !p->ready_out && sim_one_in(s, READY_AGAIN_IN)) { /* it may be the chief by now */
        ready_again(s, p);
        return;
    }
    bool pushes = strcmp(p->job, "worker") == 0 && sim_one_in(s, 2);
    if (sim_call_start(s, p, pushes ? PSI_REQ_PUSH : PSI_REQ_PULL, v, s->k.operation_ms) == NULL) {
        sim_program_end_soon(s, p, 500);
    }
}

void sim_chief_prepare(struct sim *s, struct sim_call *call)
{
    struct sim_op *op = call->op;
    const struct sim_candidate *a = &s->candidate[call->program->index];
    if (s->k.profile != SIM_LEASE) {
        return;
    }
    switch (op->kind) {
    case PSI_REQ_READY:
        call->req.bytes = call->program->is_static ? 0 : 1;
        call->req.dst = &call->readied;
        call->req.chief_number = a->number;
        break;
    case PSI_REQ_ASSIGN:
        op->tag = a->tag;
        for (uint64_t i = 0; i < op->var->elements; i++) {
            const double x = a->tag * TAG_UNIT;
            memcpy(call->src + i * sizeof(x), &x, sizeof(x));
        }
        call->req.chief_number = a->number;
        break;
    case PSI_REQ_PUSH: {
        const double x = -1; /* the rate is 1 */
        for (uint64_t i = 0; i < op->var->elements; i++) {
            memcpy(call->src + i * sizeof(x), &x, sizeof(x));
        }
        call->req.scale = 1;
        break;
    }
    case PSI_REQ_RESET:
        call->req.chief_number = a->number;
        break;
    default:
        break;
    }
    op->number = call->req.chief_number;
}

double sim_chief_rate(const struct sim_program *p)
{
    return p->sim->seed % 2 == 0 ? 1.0 + (double)(p->life % 2) : 1.0;
}

/* ---- what they are told ---- */

static const struct psd_variable *variable_of(const struct sim *s, const struct sim_birth *b)
{
    const struct sim_task *t = &s->task[b->task];
    if (t->core == NULL) {
        return NULL;
    }
    const struct psd_container *c = psd_container_find(&t->core->store, b->var->container);
    const struct psd_variable *v = c != NULL ? psd_variable_find(c, b->var->name) : NULL;
    return v != NULL && v->creation == b->creation ? v : NULL;
}

/* A variable has another rate than p asks for. It may be that of an older chief whose INIT came late: a chief that finds nothing
 * to do tells the owners nothing of its number. */
static bool other_in_force(const struct sim *s, const struct sim_program *p)
{
    for (uint32_t i = 0; i < s->var_count; i++) {
        const struct sim_birth *b = p->var[i] != NULL ? sim_birth_find(p->sim, p->var[i]->creation) : NULL;
        const struct psd_variable *v = b != NULL && b->alive ? variable_of(s, b) : NULL;
        if (v != NULL && v->optimizer.learning_rate != sim_chief_rate(p)) {
            return true;
        }
    }
    return false;
}

bool sim_chief_other(const struct sim *s, const struct sim_call *call)
{
    const struct sim_program *p = call->program;
    const bool about = s->k.profile == SIM_LEASE && call->op->kind == PSI_REQ_READY && p->core != NULL && call->req.err != NULL &&
                       call->req.err->reason == PS_REASON_OPTIMIZER_MISMATCH;
    for (uint32_t i = 0; about && i < s->lease.numbers_count; i++) {
        const double theirs = s->lease.numbers[i].rate;
        if (s->lease.numbers[i].number == p->core->chief.ready) {
            return theirs != sim_chief_rate(p) || other_in_force(s, p);
        }
    }
    return false;
}

/* number: its own, as the chief; 0: it is none. */
static void check_rate(struct sim *s, const struct sim_program *p, const struct psi_var *var, const struct sim_birth *b,
                       uint64_t number)
{
    const struct psd_variable *v = variable_of(s, b);
    const double rate = sim_chief_rate(p);
    const bool other = number != 0 ? v != NULL && v->chief_number == number && v->optimizer.learning_rate != rate
                                   : var->in_force.learning_rate != rate;
    if (other) {
        sim_fail(s, "OTHER RATE: client%u is ready%s, and the rate of '%s' is not %g", p->index,
                 number != 0 ? " as the chief" : "", b->var->name, rate);
    }
}

static void check_ready(struct sim *s, const struct sim_program *p, uint64_t number)
{
    const struct sim_birth *first = NULL;
    for (uint32_t i = 0; i < s->var_count; i++) {
        const struct sim_birth *b = sim_birth_find(s, p->var[i]->creation);
        if (b == NULL || !b->alive) {
            return; /* it learns so at its next call */
        }
        if (!b->sealed) {
            sim_fail(s, "client%u is ready, and '%s' is not sealed", p->index, b->var->name);
        }
        first = first == NULL ? b : first;
        if (first->tag != b->tag) {
            sim_fail(s, "MIXED: client%u is ready on '%s' with tag %g and '%s' with tag %g", p->index, first->var->name,
                     first->tag, b->var->name, b->tag);
        }
        check_rate(s, p, p->var[i], b, number);
    }
}

static bool is_ours(const struct sim *s, const struct sim_op *op)
{
    return s->k.profile == SIM_LEASE && op->var != NULL && op->var->kind == SIM_VAR_MODEL &&
           (op->kind == PSI_REQ_ASSIGN || op->kind == PSI_REQ_PUSH || op->kind == PSI_REQ_PULL);
}

bool sim_chief_done(struct sim *s, const struct sim_call *call)
{
    const struct sim_op *op = call->op;
    char text[200];
    if (!is_ours(s, op)) {
        return false;
    }
    bool fine = op->status == PS_OK || op->status == PS_DEADLINE_EXCEEDED || op->status == PS_UNAVAILABLE ||
                op->status == PS_ABORTED || op->status == PS_RESOURCE_EXHAUSTED || sim_disks_cause(s, call);
    if (!fine || (op->status != PS_OK && call->req.err->text[0] == '\0')) {
        sim_fail(s, "%s failed without a cause: %s", sim_op_text(op, text), call->req.err->text);
    }
    const struct sim_birth *b = sim_birth_find(s, op->creation);
    for (uint64_t i = 0; op->kind == PSI_REQ_PULL && op->status == PS_OK && i < op->var->elements; i++) {
        if (b == NULL || tag_of(element_of(call->dst, i)) != b->tag) {
            sim_fail(s, "%s shows tag %g, the model has %g", sim_op_text(op, text), tag_of(element_of(call->dst, i)),
                     b != NULL ? b->tag : -1);
        }
    }
    return true;
}

static void directory_hears_late(struct sim *s, const struct sim_program *p, uint64_t pause_ms)
{
    for (uint32_t i = 0; i < s->conn_count; i++) {
        struct sim_conn *c = s->conn[i];
        if (!c->end[0].is_task && c->end[0].node == p->index && c->end[0].state == SIM_END_OPEN && c->end[1].node == 0) {
            c->pipe[0].paused_until = s->now + pause_ms;
        }
    }
}

/* It stands still in a moment, and what it sends to the directory until then comes after that time. */
static void hold_back(struct sim *s, const struct sim_program *p, uint64_t pause_ms)
{
    directory_hears_late(s, p, pause_ms);
    s->lease.freeze = p->index + 1;
    s->next_fault = s->now + sim_below(s, 10);
}

/* What others have sent comes soon. */
static void late_bytes(struct sim *s, const struct sim_program *p)
{
    for (uint32_t i = 0; i < s->conn_count; i++) {
        struct sim_conn *c = s->conn[i];
        if (!c->end[0].is_task && c->end[0].node != p->index && c->pipe[0].paused_until > s->now) {
            c->pipe[0].paused_until = s->now + sim_below(s, 60);
        }
    }
}

/* Who claims no lease looks as well. */
static void others_look(struct sim *s)
{
    for (uint32_t i = 0; i < s->program_count; i++) {
        struct sim_program *p = &s->program[i];
        if (p->core != NULL && p->is_static && p->state == SIM_WORK && !p->ready_out) {
            ready_again(s, p);
        } else if (p->core == NULL && p->task == 0 && p->role == SIM_CHIEF && p->start_at > s->now) {
            p->start_at = s->now;
        }
    }
}

static void ready_done(struct sim *s, struct sim_program *p, const struct sim_call *call)
{
    const struct psi_readied *told = &call->readied;
    struct sim_candidate *a = &s->candidate[p->index];
    if (told->chief_number != 0 && strcmp(p->job, "worker") != 0) {
        sim_fail(s, "client%u of job %s is ready as the chief", p->index, p->job);
    }
    if (told->nothing) {
        if (told->chief_number == 0 || call->op->number != 0 || call->op->status != PS_OK) {
            sim_fail(s, "client%u: a stop of number %llu after %llu", p->index, (unsigned long long)told->chief_number,
                     (unsigned long long)call->op->number);
        }
        s->count_stops++;
        *a = (struct sim_candidate){.number = told->chief_number};
        if (p->state == SIM_READY || p->state == SIM_WORK) {
            p->state = SIM_FIRST_VALUES;
        }
        if (!s->healing && sim_one_in(s, 2)) { /* the new chief takes its time */
            late_bytes(s, p);
            p->next_call_at = s->now + sim_below(s, 120);
        }
        if (!s->healing && s->k.static_chief) {
            others_look(s);
        }
        if (!s->healing && sim_one_in(s, 4)) { /* its lease ends while it gives */
            directory_hears_late(s, p, 2ull * s->k.lease_ms);
        }
        return;
    }
    if (call->op->status == PS_OK) {
        check_ready(s, p, told->chief_number);
        s->count_restored += a->number != 0 && a->tag != 0;
        p->state = p->state == SIM_READY ? SIM_WORK : p->state;
    } else if (call->op->status == PS_DATA_LOSS && told->chief_number != 0 && !p->is_static && p->state != SIM_END &&
               p->state != SIM_GOODBYE) {
        a->number = told->chief_number;
        p->state = SIM_RESET;
        s->count_emptied++;
        if (may_stop(s)) { /* until another chief has done so, and given its values */
            hold_back(s, p, s->k.lease_ms + sim_range(s, s->k.lease_ms / 2, 2ull * s->k.lease_ms));
        }
        PSI_IGNORE(sim_call_start(s, p, PSI_REQ_RESET, NULL, s->k.operation_ms)); /* cannot be refused */
    } else if (call->op->status == PS_DEADLINE_EXCEEDED && p->role == SIM_FINAL) {
        sim_fail(s, "a new session cannot work: %s", call->req.err->text);
    } else if (call->op->status == PS_FAILED_PRECONDITION) {
        s->count_other++;
        sim_program_end_soon(s, p, 500);
    } else if ((call->op->status != PS_DEADLINE_EXCEEDED && call->op->status != PS_UNAVAILABLE) || sim_one_in(s, 2)) {
        sim_program_end_soon(s, p, 500);
    }
}

bool sim_chief_next(struct sim *s, struct sim_program *p, const struct sim_call *call)
{
    if (s->k.profile != SIM_LEASE) {
        return false;
    }
    switch (call->op->kind) {
    case PSI_REQ_READY:
        p->ready_out = false;
        ready_done(s, p, call);
        return true;
    case PSI_REQ_ASSIGN:
        if (call->op->status != PS_OK) {
            sim_program_end_soon(s, p, 300);
        }
        return true;
    default:
        return false;
    }
}

/* A chief declares the model ready: some or all of its SEALs are late, and it stands still until it is none any more. One that
 * claims no lease looks, and takes its number: that is late. */
void sim_chief_watch(struct sim *s, const struct sim_program *p)
{
    if (s->k.profile != SIM_LEASE || s->healing || psi_list_empty(&p->core->composites)) {
        return;
    }
    const struct psi_ready *r = PSI_CONTAINER_OF(p->core->composites.next, struct psi_ready, link);
    struct sim_candidate *a = &s->candidate[p->index];
    if (p->is_static && r->step == READY_CHIEF && r->pending > 0 && !a->asks) {
        a->asks = true;
        directory_hears_late(s, p, s->k.lease_ms);
    }
    if (r->step != READY_SEALED || a->watched == r->chief_number) {
        return;
    }
    a->watched = r->chief_number;
    if (!sim_one_in(s, s->k.static_chief ? 1 : 3)) {
        return;
    }
    const bool all = !s->k.static_chief && sim_one_in(s, 2);
    for (uint32_t i = 0; i < s->conn_count; i++) {
        struct sim_conn *c = s->conn[i];
        if (!c->end[0].is_task && c->end[0].node == p->index && c->end[0].state == SIM_END_OPEN && (all || sim_one_in(s, 2))) {
            c->pipe[0].paused_until = s->now + s->k.lease_ms + sim_below(s, 2ull * s->k.lease_ms);
        }
    }
    if (s->k.static_chief) { /* another one has its number between them */
        late_bytes(s, p);
    }
    s->lease.freeze = p->index + 1;
    s->next_fault = s->now + sim_below(s, 10);
}

void sim_chief_last(struct sim *s)
{
    const uint32_t first = s->k.restarts_directory ? 1 : 0;
    if (s->k.profile == SIM_LEASE && s->program[s->program_count - 1].task != 0 && s->k.ps_tasks > first + 1) {
        sim_task_kill(s, &s->task[first + 1], s->now);
    }
}

/* A fault of its own: the new chief, or whom it gives what it has to. */
bool sim_chief_fault(struct sim *s)
{
    if (s->lease.freeze == 0 || s->healing) {
        return false;
    }
    struct sim_program *p = &s->program[s->lease.freeze - 1];
    uint64_t pause = sim_range(s, s->k.lease_ms / 2, 3ull * s->k.lease_ms);
    s->lease.freeze = 0;
    if (p->core == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < s->conn_count; i++) { /* what it has sent may be later still */
        struct sim_conn *c = s->conn[i];
        if (!c->end[0].is_task && c->end[0].node == p->index && c->end[0].state == SIM_END_OPEN && sim_one_in(s, 3)) {
            c->pipe[0].paused_until = s->now + pause + sim_below(s, 300);
        }
    }
    if (sim_one_in(s, 5) && s->k.fault_weight[SIM_FAULT_KILL_CLIENT] > 0) {
        sim_client_kill(s, p);
        p->start_at = s->now + sim_below(s, 3ull * s->k.lease_ms);
    } else {
        sim_trace(s, "fault: client%u.%u, the chief, stands still for %llu ms", p->index, p->life, (unsigned long long)pause);
        p->stopped_until = s->now + pause;
        sim_resumes(&p->resumed_at, p->stopped_until);
    }
    s->next_fault = s->now + sim_range(s, 1, 2ull * s->k.fault_every_ms);
    return true;
}

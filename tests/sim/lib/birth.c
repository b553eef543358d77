/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lives of variables at the tasks, watched after every event of a task.
 *
 * A birth is one creation of a name at a task. Rules: one task at a time serves a name; a birth ends only by a restart of its
 * task or by a RESET or DELETE that may still take effect; within a birth nothing goes back (initialised, sealed, version,
 * digits). Ghosts for half a model: a variable that gets first values while others are trained is tainted, and so is one whose
 * trained values were lost while others lived; no session may become ready on a set that mixes these with trained ones. Nor on
 * one in which a chief initialised a variable although it could see that another session had given another one its value.
 */
#include "sim.h"
#include "task_look.h"

#include "psd/state.h"

#include "../../../common/crc32c.h"

#include <stdlib.h>
#include <string.h>

enum { LATE_INIT_MS = 20000 };                       /* after its READY has ended an INIT may still be on its way for so long */
static const uint64_t TWICE = 0xaaaaaaaaaaaaaaaaULL; /* the upper bits of all digits, which have two each */

struct sim_birth *sim_birth_find(struct sim *s, uint64_t creation)
{
    for (size_t i = s->birth_count; i > 0; i--) {
        if (s->birth[i - 1].creation == creation) {
            return &s->birth[i - 1];
        }
    }
    return NULL;
}

struct sim_var *sim_var_named(struct sim *s, const char *container, const char *name)
{
    for (uint32_t i = 0; i < s->var_count; i++) {
        if (strcmp(s->var[i].name, name) == 0 && strcmp(s->var[i].container, container) == 0) {
            return &s->var[i];
        }
    }
    return NULL;
}

static bool in_model(const struct sim_var *v)
{
    return v->kind != SIM_VAR_TMP && v->kind != SIM_VAR_HYPER && v->kind != SIM_VAR_QUEUE &&
           v->kind != SIM_VAR_MODEL; /* that one is chief.c's */
}

/* True if b was sealed or mutated. A variable that only has the values of its initializer may be given them again. */
static bool is_trained(const struct sim_birth *b)
{
    return b->initialised && (b->sealed || b->version > 0);
}

static bool is_live(const struct sim_birth *b)
{
    return is_trained(b) || b->giver != NULL;
}

/* Every READY that may still initialise something began after what happened at that event: its session saw it. */
static bool every_ready_saw(const struct sim *s, uint64_t event, uint64_t ms)
{
    for (size_t i = 0; i < s->op_count; i++) {
        const struct sim_op *op = s->op[i];
        bool over = op->state != SIM_OP_PENDING && op->done_ms + LATE_INIT_MS < ms;
        if (op->kind == PSI_REQ_READY && op->started_event <= event && !over) {
            return false;
        }
    }
    return true;
}

/* A session that never asked for ready gave o its value, and every READY that may still initialise something saw that value. */
static bool was_seen(const struct sim *s, const struct sim_birth *o)
{
    for (size_t i = 0; i < s->op_count; i++) {
        const struct sim_op *op = s->op[i];
        if (op->kind == PSI_REQ_READY && op->program == o->giver->program && op->life == o->giver->life) {
            return false;
        }
    }
    return every_ready_saw(s, o->given_event, o->given_ms);
}

/* Trained: what programs assign when they like counts as soon as every READY that may still initialise something saw it so, and
 * what a restore function has given (train_ready.c) when it is sealed. */
static bool was_trained(const struct sim *s, const struct sim_birth *o)
{
    return o->alive && in_model(o->var) && o->version > 0 && sim_twin_served(s, &s->task[o->task]) &&
           (!s->k.trains || o->sealed) &&
           (o->var->kind != SIM_VAR_REGISTER || every_ready_saw(s, o->trained_event, o->trained_ms));
}

struct poll {
    struct sim *sim;
    struct sim_task *task;
    bool full; /* compare all elements with the ledger */
};

static bool may_be_wiped(const struct sim *s, const struct sim_birth *b)
{
    for (uint32_t i = 0; i < s->wipe_count; i++) {
        const struct sim_wipe *w = &s->wipe[i];
        bool over = w->op->state == SIM_OP_DONE &&
                    ((w->op->status == PS_OK && w->op->done_event < b->born_event) ||
                     (w->op->status != PS_OK && w->op->applied == PS_NOTHING_APPLIED && w->op->done_event < s->event));
        bool meant = w->var == NULL ? strcmp(w->op->container, b->var->container) == 0 : w->var == b->var;
        if (!over && meant) {
            return true;
        }
    }
    return !s->task[b->task].same_job || sim_twin_may_drop(s, b);
}

/* What lives on tasks may go back everywhere, one after the other, and lie on others then: fewer.c looks at what is there in the
 * end. */
static bool may_move(const struct sim *s)
{
    return s->k.spread && s->ending;
}

static void born(struct sim *s, struct sim_task *t, struct sim_var *v, uint64_t creation)
{
    uint32_t index = (uint32_t)(t - s->task);
    for (size_t i = 0; i < s->birth_count; i++) {
        const struct sim_birth *b = &s->birth[i];
        const struct sim_task *at = &s->task[b->task];
        bool brought = sim_back_now(t) && sim_twin_had(s, v); /* by a start: its list will say that it goes */
        bool promised = sim_twin_served(s, t) && sim_twin_served(s, at) && !(sim_twin_is(s, t) && sim_twin_is(s, at)) &&
                        !brought && !sim_task_waits(s, at);
        if (b->alive && b->var == v && !may_move(s) &&
            (b->task == index ? !sim_back_now(t) && !(s->k.twin && may_be_wiped(s, b))
                              : t->same_job && at->same_job && promised)) {
            sim_fail(s, "TWO OWNERS: '%s' is made at /job:%s/task:%u while /job:%s/task:%u serves it", v->name, t->job, t->index,
                     s->task[b->task].job, s->task[b->task].index);
        }
    }
    if (s->birth_count == s->birth_capacity) {
        s->birth_capacity = s->birth_capacity == 0 ? 64 : s->birth_capacity * 2;
        s->birth = realloc(s->birth, s->birth_capacity * sizeof(s->birth[0]));
        if (s->birth == NULL) {
            abort();
        }
    }
    s->birth[s->birth_count++] = (struct sim_birth){.creation = creation,
                                                    .var = v,
                                                    .task = index,
                                                    .task_life = t->life,
                                                    .born_event = s->event,
                                                    .died_event = SIM_NEVER,
                                                    .alive = true};
    sim_trace(s, "'%s' is born at %s:%u", v->name, t->job, t->index);
}

/* Registers alone are given their values; a checkpoint has who gave them (docs/DURABILITY.md 1.1). */
static void note_giver(struct sim *s, struct sim_birth *b, const void *raw, size_t bytes)
{
    if (b->var->kind == SIM_VAR_REGISTER) {
        b->giver = sim_find_tag(s, b->var, (double)sim_element(s, b->var, sim_values(s, b->var, raw, bytes), 0));
        b->given_event = s->event;
        b->given_ms = s->now;
    }
}

/* First values: whose, and are they given to a model that others have trained, or have begun to restore? */
static void taint(struct sim *s, struct sim_birth *b, const void *raw, size_t bytes)
{
    bool trained = false;
    if (!in_model(b->var)) {
        return;
    }
    note_giver(s, b, raw, bytes);
    for (size_t i = 0; i < s->birth_count && b->giver == NULL; i++) {
        const struct sim_birth *o = &s->birth[i];
        b->half_of = o->alive && o->giver != NULL && was_seen(s, o) ? o->creation : b->half_of;
    }
    for (size_t i = 0; i < s->birth_count; i++) {
        trained = trained || (&s->birth[i] != b && was_trained(s, &s->birth[i]));
    }
    bool by_program = b->var->kind == SIM_VAR_REGISTER; /* its INIT_FROM says what it wants */
    b->taint = by_program ? 0 : trained ? 1 : b->var->lost ? 2 : 0;
}

/* The value is another one only where the version is, as long as no push is in progress: whoever has the value of a version of
 * this creation needs no copy (psd/rpc/copies.c). Strings lie apart. */
static void look_at_bytes(struct sim *s, const struct sim_task *t, struct sim_birth *b, const void *value, size_t value_bytes)
{
    enum { EVENTS = 4 }; /* of so many events one is enough */
    const struct psd_variable *v = psd_variable_by_creation(&t->core->store, b->creation);
    if (s->event % EVENTS != 0 || v == NULL || v->in_progress > 0 || v->dtype == PS_STRING || value_bytes == 0) {
        return;
    }
    const uint32_t sum = psi_crc32c(0, value, value_bytes);
    if (b->summed == b->version + 1 && b->sum != sum) {
        sim_fail(s, "SAME VERSION: '%s' at /job:%s/task:%u has version %llu, as before, and another value", b->var->name, t->job,
                 t->index, (unsigned long long)b->version);
    }
    b->summed = b->version + 1;
    b->sum = sum;
}

static void look_at(void *ctx, const char *container, const char *name, uint64_t creation, bool initialised, bool sealed,
                    uint64_t version, const void *value, size_t value_bytes)
{
    struct poll *p = ctx;
    struct sim *s = p->sim;
    if (sim_own_variable(s, p->task, container, name, creation, value, value_bytes)) {
        return;
    }
    struct sim_var *v = sim_var_named(s, container, name);
    if (v == NULL) {
        sim_fail(s, "/job:%s/task:%u has a variable '%s' in container '%s' that nobody made", p->task->job, p->task->index, name,
                 container);
    }
    struct sim_birth *b = sim_birth_find(s, creation);
    if (b == NULL) {
        born(s, p->task, v, creation);
        b = &s->birth[s->birth_count - 1];
        b->placed = sim_back_now(p->task);
        b->restored = b->placed && initialised;
        const struct sim_saved *was = b->placed && s->k.beside ? sim_back_find(s, p->task, v) : NULL;
        b->trained = was != NULL ? was->trained : 0;
        if (v->by_rows) {
            sim_rounds_born(b, was != NULL ? was->rows : NULL);
        }
    }
    if (!b->alive || b->var != v || b->task != (uint32_t)(p->task - s->task)) {
        sim_fail(s, "creation number %llx of '%s' is used again", (unsigned long long)creation, v->name);
    }
    if ((b->initialised && !initialised) || (b->sealed && !sealed) || (b->initialised && version < b->version)) {
        sim_fail(s, "'%s' goes back: initialised %d to %d, sealed %d to %d, version %llu to %llu", v->name, b->initialised,
                 initialised, b->sealed, sealed, (unsigned long long)b->version, (unsigned long long)version);
    }
    if (initialised && !b->initialised && b->restored) {
        sim_trace(s, "'%s' at %s:%u comes back, version %llu", v->name, p->task->job, p->task->index,
                  (unsigned long long)version);
        b->base_version = version;
        b->base_step = v->kind == SIM_VAR_STEP ? sim_element(s, v, value, 0) : 0;
        note_giver(s, b, value, value_bytes);
        v->lost = false;
        s->count_came_back++;
    } else if (initialised && !b->initialised) {
        sim_trace(s, "'%s' at %s:%u gets its first values", v->name, p->task->job, p->task->index);
        taint(s, b, value, value_bytes);
    }
    if (version > 0 && b->version == 0) {
        b->trained_event = s->event;
        b->trained_ms = s->now;
    }
    b->seen = true;
    b->initialised = initialised;
    b->sealed = sealed;
    b->version = version;
    if (!initialised) {
        return;
    }
    if (v->by_rows) {
        value = sim_in_force(psd_variable_by_creation(&p->task->core->store, creation), 0);
    }
    look_at_bytes(s, p->task, b, value, value_bytes);
    if (v->kind == SIM_VAR_ROUND) {
        sim_rounds_look(s, b, value);
        return;
    }
    if (v->kind == SIM_VAR_MODEL) {
        sim_chief_look(s, b, value, p->full);
        return;
    }
    if (v->kind == SIM_VAR_MOVED) {
        return; /* moved.c looks at each of its changes */
    }
    if (v->kind != SIM_VAR_HYPER && v->kind != SIM_VAR_REGISTER && v->elements > 0) {
        uint64_t first = sim_element(s, v, value, 0), last = sim_element(s, v, value, v->elements - 1);
        if (v->kind != SIM_VAR_STEP && ((first & b->first) != b->first || (last & b->last) != b->last)) {
            bool twice = ((first | last) & TWICE) != 0;
            sim_fail(s, "%s: '%s' at /job:%s/task:%u had digits %llx (last element %llx), now %llx (%llx): %s",
                     twice ? "DOUBLED" : "LOST", v->name, p->task->job, p->task->index, (unsigned long long)b->first,
                     (unsigned long long)b->last, (unsigned long long)first, (unsigned long long)last,
                     twice ? "a push is in twice" : "trained values were overwritten");
        }
        b->first = first;
        b->last = last;
    }
    if (p->full) {
        sim_check_values(s, b, value, value_bytes);
    }
}

/* What a restore function has given (train_ready.c) may be given again until it is sealed. */
static bool is_kept(const struct sim *s, const struct sim_birth *b)
{
    return is_trained(b) && in_model(b->var) && (!s->k.trains || b->sealed);
}

/* Trained values are gone while others lived: remembered until ... */
static void remember_loss(struct sim *s, const struct sim_birth *b)
{
    bool others = false;
    for (size_t i = 0; i < s->birth_count; i++) {
        const struct sim_birth *o = &s->birth[i];
        bool first = o->placed && o->version == 0; /* a start has brought it back as the first values that it was cut with */
        others = others || (o->alive && o->task != b->task && is_kept(s, o) && !first);
    }
    if (others && b->version > 0 && is_kept(s, b)) {
        b->var->lost = true;
        b->var->lost_event = s->event;
    }
}

/* ... and nothing that lived then is left. */
static void forget_losses(struct sim *s)
{
    for (uint32_t i = 0; i < s->var_count; i++) {
        bool survivors = false;
        for (size_t j = 0; j < s->birth_count && s->var[i].lost; j++) {
            const struct sim_birth *b = &s->birth[j];
            survivors = survivors || (b->alive && is_kept(s, b) && b->born_event < s->var[i].lost_event);
        }
        s->var[i].lost = survivors;
    }
}

/* A directory in its first life, which has no lists to learn from, has all parts of a table or none. Two cases are left out.
 * While a container is reset, its names are forgotten one after the other. In a world with disks each task places its part of a
 * checkpoint alone, and may die before it lists. */
static void look_at_tables(struct sim *s, const struct sim_task *t)
{
    for (uint32_t i = 0; i + 1 < s->var_count && t == &s->task[0] && t->life == 1; i++) {
        const struct sim_var *v = &s->var[i], *next = &s->var[i + 1];
        if (v->part.count == 0 || v->part.index > 0) {
            continue;
        }
        const bool has = psd_directory_find(&t->core->names, v->container, v->name) != NULL;
        const struct psd_reset *reset = psd_reset_record(&t->core->resets, v->container);
        s->had_table = s->had_table || has;
        if ((reset == NULL || !reset->pending) && !s->k.disks &&
            has != (psd_directory_find(&t->core->names, next->container, next->name) != NULL)) {
            sim_fail(s, "HALF A TABLE: the directory has '%s' only", has ? v->name : next->name);
        }
    }
}

static void dies(struct sim *s, struct sim_birth *b, bool by_restart)
{
    by_restart = by_restart || may_move(s);
    if (!by_restart && !may_be_wiped(s, b)) {
        sim_fail(s, "LOST: '%s' (version %llu) vanished at /job:%s/task:%u without a RESET or DELETE that could still act",
                 b->var->name, (unsigned long long)b->version, s->task[b->task].job, s->task[b->task].index);
    }
    sim_chief_dies(s, b, by_restart);
    if (by_restart || !s->task[b->task].same_job || sim_twin_may_drop(s, b)) {
        remember_loss(s, b);
    }
    s->twin_dropped += !by_restart && b->stale;
    b->alive = false;
    b->by_restart = by_restart;
    b->died_event = s->event;
    sim_trace(s, "'%s' at %s:%u is gone", b->var->name, s->task[b->task].job, s->task[b->task].index);
}

/* Part of the model is live and part has no values: only then may a session be told DATA_LOSS. */
static void note_mixed(struct sim *s)
{
    bool live = false, lacks = false;
    for (uint32_t i = 0; i < s->var_count; i++) {
        bool has = s->var[i].kind == SIM_VAR_TMP || s->var[i].kind == SIM_VAR_QUEUE;
        for (size_t j = 0; j < s->birth_count; j++) {
            const struct sim_birth *b = &s->birth[j];
            if (b->alive && b->var == &s->var[i] && b->var->kind != SIM_VAR_TMP) {
                has = has || (b->initialised && !(b->restored && b->version == 0 && b->giver == NULL));
                live = live || is_live(b);
            }
        }
        lacks = lacks || !has;
    }
    if ((live && lacks) || s->k.twin) { /* a session may reach the process that has none */
        s->mixed_event = s->event;
    }
}

static void poll(struct sim *s, struct sim_task *t, bool full)
{
    struct poll p = {.sim = s, .task = t, .full = full};
    uint32_t index = (uint32_t)(t - s->task);
    bool died = false;
    for (size_t i = 0; i < s->birth_count; i++) {
        s->birth[i].seen = false;
    }
    sim_own_looking(s);
    psd_task_variables(t->core, look_at, &p);
    look_at_tables(s, t);
    sim_own_looked(s, t);
    for (size_t i = 0; i < s->birth_count; i++) {
        struct sim_birth *b = &s->birth[i];
        if (b->alive && b->task == index && !b->seen) {
            /* what comes back comes in its place; of another container nothing goes for it */
            dies(s, b, sim_back_now(t) && s->back_everywhere && strstr(s->back_of, b->var->container) != NULL);
            died = true;
        }
    }
    if (died) {
        forget_losses(s);
    }
    note_mixed(s);
    sim_chief_looked(s);
    sim_twin_look(s, t);
    sim_back_look(s, t);
}

void sim_births_poll(struct sim *s, struct sim_task *t)
{
    poll(s, t, false);
}

void sim_births_restart(struct sim *s, struct sim_task *t)
{
    uint32_t index = (uint32_t)(t - s->task);
    poll(s, t, true);
    sim_own_restart(s, t);
    for (size_t i = 0; i < s->birth_count; i++) {
        if (s->birth[i].alive && s->birth[i].task == index) {
            dies(s, &s->birth[i], true);
        }
    }
    forget_losses(s);
    note_mixed(s);
    sim_chief_looked(s);
}

void sim_check_ready(struct sim *s, struct sim_program *p)
{
    bool fresh = false, trained = false, lost = false;
    const struct sim_var *which = NULL;
    const struct sim_birth *half = NULL;
    for (uint32_t i = 0; i < s->var_count; i++) {
        const struct psi_var *var = p->var[i];
        if ((p->set & 1u << i) == 0 || !in_model(&s->var[i])) {
            continue;
        }
        const struct sim_birth *b = sim_birth_find(s, var->creation);
        if (b == NULL || !b->alive) {
            return; /* it learns so at its next call */
        }
        if (!b->initialised) {
            sim_fail(s, "client%u is ready, but '%s' has no values", p->index, b->var->name);
        }
        const struct sim_birth *other = b->half_of != 0 ? sim_birth_find(s, b->half_of) : NULL;
        half = other != NULL && other->alive ? b : half;
        which = b->taint != 0 ? b->var : which;
        fresh = fresh || b->taint == 1;
        lost = lost || b->taint == 2;
        trained = trained || (b->taint == 0 && b->version > 0);
    }
    if (s->k.twin) {
        return; /* what was trained together may be with either of the two */
    }
    if (half != NULL) {
        sim_fail(s, "HALF A MODEL: client%u is ready, a chief initialised '%s', and '%s' is as client%u.%u gave it", p->index,
                 half->var->name, sim_birth_find(s, half->half_of)->var->name, sim_birth_find(s, half->half_of)->giver->program,
                 sim_birth_find(s, half->half_of)->giver->life);
    }
    if (fresh && trained) {
        sim_fail(s, "MIXED: client%u is ready on a model of trained and fresh variables ('%s' is fresh)", p->index, which->name);
    }
    if (lost) {
        sim_fail(s, "MIXED: client%u is ready, '%s' lost its trained values while others lived, and got first values again",
                 p->index, which->name);
    }
}

void sim_check_reset(struct sim *s, const struct sim_op *op)
{
    for (size_t i = 0; i < s->birth_count; i++) {
        const struct sim_birth *b = &s->birth[i];
        bool meant = strcmp(b->var->container, op->container) == 0;
        if (meant && b->alive && b->born_event < op->started_event && s->task[b->task].same_job &&
            sim_twin_served(s, &s->task[b->task])) {
            sim_fail(s, "a RESET ended OK, but '%s' at /job:%s/task:%u is from before it", b->var->name, s->task[b->task].job,
                     s->task[b->task].index);
        }
    }
}

void sim_check_end(struct sim *s)
{
    for (uint32_t i = 0; i < s->task_count; i++) {
        if (s->task[i].core != NULL) {
            poll(s, &s->task[i], true);
        }
    }
    for (uint32_t i = 0; i < s->partial_count; i++) {
        const struct sim_partial *p = &s->partial[i];
        if (p->push->state == SIM_OP_DONE && p->push->status == PS_OK) {
            char pull[200], push[200];
            sim_fail(s, "%s was called exact and showed %llu elements of %s", sim_op_text(p->pull, pull),
                     (unsigned long long)p->elements, sim_op_text(p->push, push));
        }
    }
}

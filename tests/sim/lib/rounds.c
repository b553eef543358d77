/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers that train in rounds: READY with the same options, JOIN, then a push to each variable and STEP, again and again, LEAVE;
 * while connections break, workers stand still, die and come back, tasks restart, and the container is reset. All pushes of round
 * r have the same gradient, 1, 2, 4 or 8, and the rate is a power of 2 that a schedule makes of the global step: so every
 * variable tells which rounds it has seen, and at which steps they were built. To variables by rows each worker contributes rows
 * that its index and the round say. With some seeds the norm of all averages has a limit, of which a gradient of 8 is 1/8; with
 * others the norm of each average has one, and each variable a factor of its own. With a limit all workers contribute the same
 * rows.
 *
 * The oracle is a ledger of rounds and members, fed with the changes of the tasks and the calls of the programs:
 *   - every element of every variable is what the flips of its owner say, after every event: never part of a contribution, of a
 *     round that is over, or of two moments; the global step counts them;
 *   - who says STEP and has forgotten a variable is told so, and is in no round until it has made up for it;
 *   - an owner flips the round behind the last one, when every other living owner has flipped the one before and is ready for
 *     this one, and takes the same members as the others: each once, each of which has begun its STEP of that round; with on_loss
 * `wait` and all replicas nobody is left out who has joined, has not left, and in whose place nobody else is;
 *   - who was complete for the directory is in the round, although he is lost meanwhile (with all replicas);
 *   - whose STEP or JOIN is answered finds the round before flipped at all living owners; he is told `taken` if he was, also
 * where his place was lost since, unless the directory has been restarted and no owner knows him; and the global step of that
 * moment;
 *   - where nothing breaks, nothing fails and, with all replicas, nothing is dropped;
 *   - at the end, when all have gone, a chief that is not in rounds ends the group, and no task keeps anything of it.
 * With bounded staleness pushes are ordinary ones. There the ledger has the steps that each member has begun: with on_loss `wait`
 * no STEP is answered that is further ahead of one that has joined, has not left, and in whose place nobody else is.
 * With little memory SYNC and JOIN may be refused for that; no contribution and no STEP ever.
 */
#include "sim.h"

#include "psd/rounds/groups.h"
#include "psd/state.h"

#include "common/schedule.h"
#include "common/squares.h"
#include "worker/core/client.h"
#include "worker/core/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    RECORDS_BYTES = 40 << 10 /* of the budget: a group with its members, variables */,
    GRADIENTS = 4,
    CALLS_MANY = 1500,
    SLOW_MS = 300,
    FORGETS_IN = 30,
    PAUSES_IN = 40,
    EACH_NORM = 8 /* limit of the norm of each average: of 4 elements a gradient of 8 is above it, of 16,384 each one */
};

static double gradient_of(uint64_t round)
{
    return (double)(1u << round % GRADIENTS);
}

/* The elements that are trained. Of a variable by rows every second one is, where there is a limit. */
static uint64_t trained_elements(const struct sim *s)
{
    uint64_t elements = 0;
    for (uint32_t i = 0; i < s->var_count; i++) {
        const struct sim_var *v = &s->var[i];
        if (v->kind == SIM_VAR_ROUND && v->dtype != PS_I64) {
            elements += v->by_rows ? (v->elements + 1) / 2 : v->elements;
        }
    }
    return elements;
}

/* True if each variable has a limit of its own, unless the seed has no rounds at all. */
static bool limits_each(const struct sim *s)
{
    return s->seed % 6 == 5;
}

/* What a limit makes of the averages of a round, or of that of v: a power of 2, so that no sum is rounded. */
static float factor_at(const struct sim *s, const struct sim_var *v, uint64_t round)
{
    const double g = gradient_of(round);
    const uint64_t elements = s->sync.max_norm_each ? v->elements : trained_elements(s);
    return s->sync.max_norm > 0 ? psi_clip_factor((double)elements * g * g, s->sync.max_norm) : 1;
}

/* The worker with this index contributes row `row` to this round. */
static bool has_row(const struct sim *s, uint32_t index, uint64_t round, uint64_t row)
{
    if (s->sync.max_norm > 0) { /* a limit of each average counts all elements: see factor_at() */
        return s->sync.max_norm_each || row % 2 == 0;
    }
    return (((row + 1) * 2654435761u + index * 40503u + round * 97u) >> 8 & 3) == 0;
}

/* A row's gradient: divided by any number of members that a group has here it stays exact. */
static double row_gradient_of(const struct sim *s, uint64_t round)
{
    return s->sync.max_norm > 0 ? gradient_of(round) : 12 * gradient_of(round);
}

void sim_rounds_born(struct sim_birth *b, const double *from)
{
    const size_t bytes = (b->var->elements + 1) * sizeof(*b->rows);
    b->rows = sim_alloc(bytes);
    memset(b->rows, 0, bytes);
    if (from != NULL) {
        memcpy(b->rows, from, bytes);
    }
}

double *sim_rounds_copy(const struct sim_birth *b)
{
    struct sim_birth made = {.var = b->var};
    if (b->rows != NULL) {
        sim_rounds_born(&made, b->rows);
    }
    return made.rows;
}

void sim_rounds_rows(struct sim *s, struct sim_call *call)
{
    const struct sim_var *v = call->op->var;
    const uint64_t round = psi_client_member(call->program->core)->round;
    const ps_shape shape = {.rank = 1, .dims = {(int64_t)v->elements}};
    int64_t *indices = sim_alloc((v->elements + 1) * sizeof(*indices));
    double *wide = sim_alloc((v->elements + 1) * sizeof(*wide));
    struct psi_rows_given given = {
        .name = v->name, .shape = &shape, .dtype = v->dtype, .indices = indices, .values = wide, .use = PSI_ROWS_SUM};
    for (uint64_t i = 0; i < v->elements; i++) {
        const double x = row_gradient_of(s, round);
        const float narrow = (float)x;
        if (has_row(s, call->program->task, round, i)) {
            indices[given.count] = (int64_t)i;
            memcpy(v->dtype == PS_F32 ? (uint8_t *)wide + given.count * 4 : (uint8_t *)(wide + given.count),
                   v->dtype == PS_F32 ? (const void *)&narrow : (const void *)&x, v->dtype == PS_F32 ? 4 : 8);
            given.count++;
        }
    }
    if (psi_rows_new(&given, &call->rows, NULL) != PS_OK) {
        sim_fail(s, "psi_rows_new()");
    }
    free(indices);
    free(wide);
}

const ps_optimizer *sim_rounds_optimizer(bool slot)
{
    static ps_optimizer made[2];
    ps_optimizer *opt = &made[slot];
    *opt = slot ? *ps_momentum(1.0, 0.0) : *ps_sgd(1.0); /* the same, with a slot */
    ps_status st = psi_schedule_parse("piecewise_constant:boundaries=1/2/3/5/8,values=1/0.5/2/0.25/1/0.5", opt, NULL);
    PSI_ASSERT(st == PS_OK);
    return opt;
}

static double rate_at(uint64_t step)
{
    return psi_schedule_rate(sim_rounds_optimizer(false), step);
}

/* ---- the ledger ---- */

static struct sim_round *round_find(const struct sim *s, uint64_t generation, uint64_t round)
{
    for (size_t i = s->round_count; i > 0; i--) {
        if (s->round[i - 1].generation == generation && s->round[i - 1].round == round) {
            return &s->round[i - 1];
        }
    }
    return NULL;
}

static struct sim_member *member_find(const struct sim *s, uint64_t id)
{
    for (size_t i = s->member_count; i > 0; i--) {
        if (s->member[i - 1].id == id) {
            return &s->member[i - 1];
        }
    }
    return NULL;
}

static bool took(const struct sim_round *r, uint64_t member)
{
    for (uint32_t i = 0; r != NULL && i < r->count; i++) {
        if (r->member[i] == member) {
            return true;
        }
    }
    return false;
}

static void *room_for_one(void *items, size_t count, size_t *capacity, size_t bytes)
{
    if (count < *capacity) {
        return items;
    }
    *capacity = *capacity == 0 ? 64 : 2 * *capacity;
    items = realloc(items, *capacity * bytes);
    if (items == NULL) {
        abort();
    }
    return items;
}

/* The group of this generation at t; NULL: it has none, or another one. */
static const struct psd_rounds *group_at(const struct sim_task *t, uint64_t generation)
{
    const struct psd_rounds *g = t->core == NULL ? NULL : psd_rounds_here(t->core, SIM_CONTAINER);
    return g != NULL && g->generation == generation ? g : NULL;
}

/* Every living owner has flipped this round. */
static void check_flipped(struct sim *s, uint64_t generation, uint64_t round, const char *what)
{
    for (uint32_t i = 0; i < s->task_count; i++) {
        const struct psd_rounds *g = group_at(&s->task[i], generation);
        if (g != NULL && g->committed < round) {
            sim_fail(s, "HALF A ROUND: %s, and %s:%u has not flipped round %llu: its last is %llu", what, s->task[i].job,
                     s->task[i].index, (unsigned long long)round, (unsigned long long)g->committed);
        }
    }
}

/* ---- what a task does, before it is carried out ---- */

static void note_member(struct sim *s, const struct psd_change *c)
{
    if (member_find(s, c->member.id) != NULL) {
        return;
    }
    s->member = room_for_one(s->member, s->member_count, &s->member_capacity, sizeof(s->member[0]));
    s->member[s->member_count++] =
        (struct sim_member){.id = c->member.id, .generation = c->member.container->rounds->generation, .index = c->member.task};
}

static void check_members(struct sim *s, const struct psd_change *c, uint64_t generation)
{
    for (uint32_t i = 0; i < c->flip.count; i++) {
        const struct sim_member *m = member_find(s, c->flip.members[i]);
        if (m == NULL || m->generation != generation) {
            sim_fail(s, "round %llu takes member %llx, which has not joined", (unsigned long long)c->flip.round,
                     (unsigned long long)c->flip.members[i]);
        }
        if (m->stepped < c->flip.round) {
            sim_fail(s, "round %llu takes worker %u, which has not said that it is complete", (unsigned long long)c->flip.round,
                     m->index);
        }
        for (uint32_t j = 0; j < i; j++) {
            if (member_find(s, c->flip.members[j])->index == m->index) {
                sim_fail(s, "TWICE: round %llu takes worker %u two times", (unsigned long long)c->flip.round, m->index);
            }
        }
    }
}

void sim_rounds_poll(struct sim *s, const struct sim_task *t)
{
    const struct psd_group *g = s->k.profile == SIM_ROUNDS && t == &s->task[0] ? psd_group_find(t->core, SIM_CONTAINER) : NULL;
    if (g == NULL) {
        return;
    }
    /* No owner ever dies. But rounds that end (of training, or failing) or are being set may be at some owners only. */
    const bool lost = g->failing && g->failure.reason == PS_REASON_LOST;
    s->rounds_failed = s->rounds_failed || (g->failing && !lost);
    if (lost && s->k.restarts_directory && !s->k.trains && !s->rounds_failed && g->member_count > 0) {
        sim_fail(s, "BROKEN: %s", g->failure.text);
    }
    for (size_t i = 0; i < s->member_count && !g->opened && g->phase != PSD_GROUP_RECOVERING; i++) {
        s->member[i].complete = 0; /* the training is over that they were in: one of them left, and the next one may begin */
    }
    if (g->phase == PSD_GROUP_PREPARING && g->factor > 0 && g->attempt != s->factor_attempt) { /* between the sums and READY */
        s->factor_attempt = g->attempt;
        s->kill_directory = s->kill_directory || (s->k.restarts_directory && !s->healing && sim_one_in(s, 8));
        s->next_fault = s->kill_directory ? s->now : s->next_fault;
    }
    for (struct psi_list *it = g->members.next; it != &g->members; it = it->next) {
        const struct psd_group_member *m = PSI_CONTAINER_OF(it, struct psd_group_member, link);
        struct sim_member *known = member_find(s, m->id);
        if (known != NULL && !m->gone && g->phase == PSD_GROUP_COLLECTING) {
            known->complete = m->complete ? g->round : 0;
            known->life = t->life;
        }
    }
}

/* What the directory has had as complete counts, whatever has become of the member since. */
static void check_nobody_dropped(struct sim *s, const struct sim_round *r)
{
    for (size_t i = 0; i < s->member_count; i++) {
        const struct sim_member *m = &s->member[i];
        bool counts = m->generation == r->generation && m->complete == r->round && m->life == s->task[0].life &&
                      m->stepped >= r->round && s->task[0].core != NULL;
        if (counts && !took(r, m->id)) {
            sim_fail(s, "DROPPED: round %llu is closed without worker %u, which had completed it", (unsigned long long)r->round,
                     m->index);
        }
    }
}

/* Those that a round may not be closed without. */
static void check_nobody_left_out(struct sim *s, const struct sim_round *r)
{
    for (size_t i = 0; i < s->member_count; i++) {
        const struct sim_member *m = &s->member[i];
        bool in = m->generation == r->generation && m->from != 0 && m->from <= r->round && !m->left && !m->succeeded;
        if (in && !took(r, m->id)) {
            sim_fail(s, "LEFT OUT: round %llu is closed without worker %u, which has joined, has not left, and is waited for",
                     (unsigned long long)r->round, m->index);
        }
    }
}

/* It is flipped somewhere for the first time: so it is decided, and every other living owner has built the same. */
static void check_ready(struct sim *s, const struct sim_task *by, const struct sim_round *r)
{
    for (uint32_t i = 0; i < s->task_count; i++) {
        const struct psd_rounds *g = &s->task[i] == by ? NULL : group_at(&s->task[i], r->generation);
        bool ready = g == NULL || (g->build == PSD_BUILD_READY && g->source_count == r->count);
        for (uint32_t j = 0; g != NULL && ready && j < r->count; j++) {
            ready = took(r, g->sources[j]->id);
        }
        if (!ready) {
            sim_fail(s, "NOT READY: round %llu is flipped, and %s:%u has not built it", (unsigned long long)r->round,
                     s->task[i].job, s->task[i].index);
        }
    }
}

/* All owners build a round at the global step before it. Its owner may be dead: then it is what the first of the others says. */
static void check_step(struct sim *s, const struct sim_task *by, const struct sim_round *r, const struct psd_change *c,
                       bool first)
{
    for (uint32_t i = 0; first && i < s->task_count; i++) {
        const struct psd_rounds *g = group_at(&s->task[i], r->generation);
        if (g != NULL && g->step != NULL && c->flip.step != 1 + psd_step_value(g->step)) {
            sim_fail(s, "WRONG STEP: %s:%u flips round %llu, built at step %llu - 1; the global step is %llu", by->job, by->index,
                     (unsigned long long)r->round, (unsigned long long)c->flip.step, (unsigned long long)psd_step_value(g->step));
        }
    }
    if (c->flip.step == 0 || c->flip.step != r->at) {
        sim_fail(s, "TWO STEPS: %s:%u flips round %llu, built at step %llu - 1, and another owner built it at %llu - 1", by->job,
                 by->index, (unsigned long long)r->round, (unsigned long long)c->flip.step, (unsigned long long)r->at);
    }
}

/* All owners build a round with the factor of all averages, which any of them may tell the next directory. */
static void check_factor(struct sim *s, const struct sim_task *by, const struct sim_round *r, const struct psd_change *c)
{
    const float expected = s->sync.max_norm > 0 && !s->sync.max_norm_each ? factor_at(s, NULL, r->round) : 0;
    if (c->flip.factor != expected || c->flip.factor != r->factor) {
        sim_fail(s, "WRONG FACTOR: %s:%u flips round %llu with %g; the first owner had %g, and it is %g", by->job, by->index,
                 (unsigned long long)r->round, (double)c->flip.factor, (double)r->factor, (double)expected);
    }
}

/* The mean of the gradients of a row in a round. */
static double mean_of(const struct sim *s, const struct sim_round *r, uint64_t row)
{
    uint32_t had = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        had += has_row(s, member_find(s, r->member[i])->index, r->round, row);
    }
    return had == 0 ? 0 : row_gradient_of(s, r->round) * had / (s->sync.rows_mean == PS_ROWS_MEAN_OF_THOSE ? had : r->count);
}

static void flips(struct sim *s, struct sim_task *t, const struct psd_change *c)
{
    const struct psd_rounds *g = c->flip.container->rounds;
    struct sim_round *r = round_find(s, g->generation, c->flip.round);
    const bool first = r == NULL;
    if (c->flip.round != g->committed + 1) {
        sim_fail(s, "%s:%u flips round %llu after round %llu", t->job, t->index, (unsigned long long)c->flip.round,
                 (unsigned long long)g->committed);
    }
    if (r == NULL) {
        s->round = room_for_one(s->round, s->round_count, &s->round_capacity, sizeof(s->round[0]));
        r = &s->round[s->round_count++];
        *r = (struct sim_round){.generation = g->generation,
                                .round = c->flip.round,
                                .count = c->flip.count,
                                .step = -1,
                                .at = c->flip.step,
                                .factor = c->flip.factor,
                                .life = s->task[0].life};
        if (r->count == 0 || r->count > SIM_ROUND_MEMBERS) {
            sim_fail(s, "round %llu takes %u members", (unsigned long long)r->round, r->count);
        }
        memcpy(r->member, c->flip.members, r->count * sizeof(r->member[0]));
        check_members(s, c, g->generation);
        check_flipped(s, g->generation, r->round - 1, "the next round is flipped");
        check_ready(s, t, r);
        if (s->k.restarts_directory && !s->healing && sim_one_in(s, 4)) { /* while others have not heard of it */
            s->kill_directory = true;
            s->next_fault = s->now;
        }
        if (s->sync.on_loss == PS_LOSS_WAIT && s->sync.replicas == 0) {
            check_nobody_left_out(s, r);
        }
        if (s->sync.replicas == 0) {
            check_nobody_dropped(s, r);
        }
    }
    bool same = r->count == c->flip.count;
    for (uint32_t i = 0; same && i < r->count; i++) {
        same = took(r, c->flip.members[i]);
    }
    if (!same) {
        sim_fail(s, "TWO SUMS: %s:%u takes other members in round %llu than another owner", t->job, t->index,
                 (unsigned long long)r->round);
    }
    check_step(s, t, r, c, first);
    check_factor(s, t, r, c);
    for (uint32_t i = 0; i < g->part_count; i++) {
        struct sim_birth *b = sim_birth_find(s, g->parts[i].variable->creation);
        const double step = (double)factor_at(s, b->var, r->round) * rate_at(r->at - 1);
        b->trained -= gradient_of(r->round) * step;
        for (uint64_t row = 0; b->rows != NULL && row < b->var->elements; row++) {
            b->rows[row] -= mean_of(s, r, row) * step;
        }
    }
    if (g->step != NULL) {
        struct sim_birth *b = sim_birth_find(s, g->step->creation);
        b->trained += 1;
        r->step = (int64_t)b->trained;
    }
    s->count_flips++;
}

void sim_rounds_change(struct sim *s, struct sim_task *t, const struct psd_change *c)
{
    if (c->kind == PSD_CHANGE_ROUND_JOIN) {
        note_member(s, c);
    } else if (c->kind == PSD_CHANGE_ROUND_FLIP) {
        flips(s, t, c);
    }
}

static double element_of(const struct sim_var *v, const void *value, uint64_t i)
{
    double wide = 0;
    float narrow = 0;
    int64_t whole = 0;
    switch (v->dtype) {
    case PS_F64:
        memcpy(&wide, (const uint8_t *)value + i * 8, 8);
        return wide;
    case PS_F32:
        memcpy(&narrow, (const uint8_t *)value + i * 4, 4);
        return (double)narrow;
    default:
        memcpy(&whole, (const uint8_t *)value + i * 8, 8);
        return (double)whole;
    }
}

void sim_rounds_look(struct sim *s, const struct sim_birth *b, const void *value)
{
    for (uint64_t i = 0; i < b->var->elements && s->sync.mode == PS_SYNC_ROUNDS; i++) {
        double x = element_of(b->var, value, i), want = b->rows != NULL ? b->rows[i] : b->trained;
        if (x != want) {
            sim_fail(s, "element %llu of '%s' is %g, and its rounds make it %g", (unsigned long long)i, b->var->name, x, want);
        }
    }
}

/* All that lives has seen the same rounds, or a checkpoint of them. */
static void check_same(struct sim *s)
{
    const struct sim_birth *first = NULL;
    for (size_t i = 0; s->sync.mode == PS_SYNC_ROUNDS && i < s->birth_count; i++) {
        const struct sim_birth *b = &s->birth[i];
        if (!b->alive || b->var->dtype == PS_I64) {
            continue;
        }
        first = first == NULL ? b : first;
        if (b->trained != first->trained && (!s->sync.max_norm_each || b->var->elements == first->var->elements)) {
            sim_fail(s, "TWO ROUNDS: its rounds make '%s' %g, and '%s' %g", first->var->name, first->trained, b->var->name,
                     b->trained);
        }
    }
}

void sim_rounds_check_end(struct sim *s)
{
    check_same(s);
    for (uint32_t i = 0; i < s->task_count; i++) {
        const struct sim_task *t = &s->task[i];
        if (t->core != NULL && psd_rounds_here(t->core, SIM_CONTAINER) != NULL) {
            sim_fail(s, "%s:%u still keeps a group, and nobody is in rounds", t->job, t->index);
        }
        if (t->core != NULL) {
            psd_task_check_invariants(t->core); /* memory, too */
        }
    }
}

/* ---- what programs do ---- */

/* Some variables are by rows: not drawn, so that the other seeds stay what they were. */
static void draw_rows(struct sim *s)
{
    uint64_t most = 0;
    bool some = false;
    for (uint32_t i = 0; i < s->k.vars && s->sync.mode == PS_SYNC_ROUNDS && !s->k.trains; i++) {
        s->var[i].by_rows = (s->seed + i) % 3 == 0;
        if (s->var[i].by_rows && s->seed % 9 != 0) { /* many rows take long to look at */
            s->var[i].elements = limits_each(s) && s->var[i].elements > 16 ? 16 : s->var[i].elements % 1000;
        }
        some = some || s->var[i].by_rows;
        most = s->var[i].by_rows && s->var[i].elements > most ? s->var[i].elements : most;
    }
    sim_parts_by_rows(s, limits_each(s));
    s->sync.rows_per_step = some ? (uint32_t)(limits_each(s) ? most : most / 2) + 16 : 0;
    s->sync.rows_mean = s->seed % 2 == 0 && some ? PS_ROWS_MEAN_OF_THOSE : PS_ROWS_MEAN_OF_ALL;
}

void sim_rounds_draw(struct sim *s)
{
    bool away = s->seed % 5 == 3; /* the directory has no variable: it may restart, and nothing is lost */
    for (uint32_t i = 0; i <= s->k.vars; i++) {
        struct sim_var *v = &s->var[s->var_count++];
        bool step = i == s->k.vars;
        (void)snprintf(v->name, sizeof(v->name), step ? "global_step" : "v%u", i);
        v->container = SIM_CONTAINER;
        v->kind = SIM_VAR_ROUND;
        v->dtype = step ? PS_I64 : sim_one_in(s, 2) ? PS_F32 : PS_F64;
        v->wire = v->dtype == PS_F32 && sim_one_in(s, 3) ? PS_BF16 : v->dtype;
        v->elements = step ? 1 : sim_one_in(s, 4) ? sim_range(s, 16000, 60000) : sim_range(s, 1, 40);
        if (!step && i == 1 && s->seed % 7 == 3) { /* not drawn: the other seeds stay what they were */
            v->elements = 0;
        }
        if (!step && limits_each(s) && v->elements > 0) { /* a power of 4: its root is exact */
            v->elements = v->elements > 40 ? 16384 : v->elements > 20 ? 16 : 4;
        }
        if (away || sim_one_in(s, 3)) {
            uint32_t first = away ? 1 : 0;
            (void)snprintf(v->device, sizeof(v->device), "/job:ps/task:%u", (uint32_t)sim_range(s, first, s->k.ps_tasks - 1));
        }
    }
    static const ps_worker_loss of[3] = {PS_LOSS_WAIT, PS_LOSS_SHRINK, PS_LOSS_FAIL};
    s->sync = (struct psi_sync){.mode = PS_SYNC_ROUNDS, .workers = s->k.programs, .on_loss = of[sim_below(s, 3)]};
    if (s->seed % 4 == 3) {
        s->sync.mode = PS_SYNC_STALENESS;
        s->sync.staleness = (uint32_t)sim_below(s, 4);
    } else if (!sim_one_in(s, 2)) {
        s->sync.replicas = (uint32_t)sim_range(s, 1, s->k.programs);
    }
    if (s->k.trains && s->seed % 4 == 2) {
        s->sync = (struct psi_sync){.mode = PS_SYNC_NONE};
    }
    draw_rows(s);
    if (s->sync.mode == PS_SYNC_ROUNDS && s->seed % 3 == 2) {
        s->sync.max_norm_each = limits_each(s);
        s->sync.max_norm = limits_each(s) ? EACH_NORM : sqrt((double)trained_elements(s));
    }
    if (s->sync.mode == PS_SYNC_ROUNDS && s->seed % 6 == 1 && !s->k.quiet) {
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < s->k.vars; i++) {
            bytes += psd_arena_bytes(s->var[i].elements * (s->var[i].dtype == PS_F32 ? 4 : 8));
        }
        s->k.memory_bytes = bytes * sim_range(s, 2, 2ull + s->k.programs) + RECORDS_BYTES;
    }
    sim_trace(s, "rounds: mode %d, %u workers, %u replicas, staleness %u, on loss %d, %u variables, max_norm %g%s",
              (int)s->sync.mode, s->sync.workers, s->sync.replicas, s->sync.staleness, (int)s->sync.on_loss, s->k.vars,
              s->sync.max_norm, s->sync.max_norm_each ? " of each" : "");
}

void sim_rounds_begin(struct sim *s, struct sim_program *p)
{
    s->trainer[p->index] = (struct sim_trainer){.until = p->work_until};
    if (s->k.quiet || !sim_one_in(s, 3)) { /* others end without a word */
        p->work_until = SIM_NEVER;
    }
    sim_train_begin(s, p);
}

double sim_rounds_gradient(const struct sim *s, const struct sim_program *p)
{
    return s->sync.mode == PS_SYNC_ROUNDS ? gradient_of(psi_client_member(p->core)->round) : 1;
}

void sim_rounds_work(struct sim *s, struct sim_program *p)
{
    struct sim_trainer *r = &s->trainer[p->index];
    uint32_t timeout_ms = (uint32_t)sim_range(s, 1000, 2ull * s->k.operation_ms);
    timeout_ms += s->k.quiet ? (s->k.vars + 2) * SLOW_MS : 0; /* nothing is to fail where others are slow, as below */
    p->next_call_at = s->now + sim_range(s, 1, (uint64_t)s->k.think_ms + 1);
    if (s->k.trains && p->role != SIM_FINAL && !r->leaves) {
        sim_train_work(s, p);
        return;
    }
    if (p->calls_out > 0) {
        return;
    }
    if (s->op_count > CALLS_MANY && p->role != SIM_FINAL) { /* enough of them for one seed */
        p->next_call_at = s->now + sim_range(s, 100, SLOW_MS);
    }
    if (p->role == SIM_FINAL) {
        PSI_IGNORE(sim_call_start(s, p, PSI_REQ_PULL, &s->var[sim_below(s, s->k.vars + 1)], s->k.operation_ms));
        return;
    }
    if (r->failed || r->leaves) {
        sim_program_end_soon(s, p, 500);
        return;
    }
    if (!r->joined) {
        PSI_IGNORE(sim_call_start(s, p, PSI_REQ_JOIN, NULL, timeout_ms)); /* its end is what counts, as of the others */
        return;
    }
    if (s->now < r->pauses) {
        return;
    }
    const uint64_t round = psi_client_member(p->core)->round;
    struct sim_var *reads = &s->var[round % s->k.vars];
    if (reads->by_rows && r->read != round && r->pushed == 0) { /* new rows of the round before may not be home */
        r->read = round;
        PSI_IGNORE(sim_call_start(s, p, round % 2 == 0 ? PSI_REQ_PULL : PSI_REQ_GATHER, reads, timeout_ms));
        return;
    }
    for (uint32_t i = 0; i < s->k.vars; i++) {
        if (((r->pushed | r->forgets) & 1u << i) == 0) {
            r->pushed |= 1u << i;
            const enum psi_request_kind push = s->var[i].by_rows ? PSI_REQ_PUSH_ROWS : PSI_REQ_PUSH;
            if (sim_call_start(s, p, push, &s->var[i], timeout_ms) == NULL) {
                r->failed = true;
                return;
            }
            if (!sim_one_in(s, 3)) { /* the next one with this one, or after it */
                return;
            }
        }
    }
    if (p->calls_out > 0) {
        return;
    }
    if (s->now >= r->until) {
        r->leaves = true;
        PSI_IGNORE(sim_call_start(s, p, PSI_REQ_LEAVE, NULL, s->k.operation_ms));
        return;
    }
    PSI_IGNORE(sim_call_start(s, p, PSI_REQ_STEP, NULL, timeout_ms));
}

void sim_rounds_prepare(struct sim *s, struct sim_call *call)
{
    struct sim_op *op = call->op;
    struct sim_program *p = call->program;
    const struct psi_member *own = psi_client_member(p->core);
    struct sim_member *m = own->mode == PS_SYNC_NONE ? NULL : member_find(s, own->id);
    if (s->k.profile != SIM_ROUNDS) {
        return;
    }
    op->member = own->id;
    op->round = own->round;
    op->directory_life = s->task[0].life;
    switch (op->kind) {
    case PSI_REQ_READY:
        call->sync = s->sync;
        call->sync.step = p->var[s->k.vars];
        call->req.src = p->role == SIM_FINAL ? NULL : &call->sync;
        break;
    case PSI_REQ_JOIN:
        for (size_t i = 0; i < s->member_count; i++) {
            s->member[i].succeeded = s->member[i].succeeded || s->member[i].index == p->task;
        }
        break;
    case PSI_REQ_STEP:
        call->req.dst = &call->stepped;
        if (m != NULL && s->sync.mode == PS_SYNC_STALENESS) {
            m->stepped = own->steps + 1;
        } else if (m != NULL && s->trainer[p->index].forgets == 0) {
            m->stepped = own->round;
        }
        break;
    case PSI_REQ_LEAVE:
        call->req.bytes = 1;
        if (m != NULL) {
            m->left = true;
        }
        break;
    default:
        break;
    }
}

/* ---- what they are told ---- */

/* The next round, or the first one. */
static void begins(struct sim *s, struct sim_trainer *r)
{
    r->pushed = 0;
    r->pauses = !s->k.quiet && sim_one_in(s, PAUSES_IN) ? s->now + sim_range(s, s->k.lease_ms, 3ull * s->k.lease_ms) : 0;
    r->forgets = s->sync.mode == PS_SYNC_ROUNDS && !s->k.trains && sim_one_in(s, FORGETS_IN) ? 1u << sim_below(s, s->k.vars) : 0;
}

/* It is a member now, from this round on. */
static void joined(struct sim *s, const struct sim_call *call)
{
    const struct psi_member *own = psi_client_member(call->program->core);
    struct sim_member *m = member_find(s, own->id);
    char text[200];
    if (m == NULL) {
        sim_fail(s, "%s: it is member %llx, which no owner knows", sim_op_text(call->op, text), (unsigned long long)own->id);
    }
    m->from = own->round;
    m->stepped = s->sync.mode == PS_SYNC_STALENESS ? own->steps : m->stepped;
    check_flipped(s, m->generation, own->round - 1, "a JOIN is answered");
    for (uint32_t i = 0; i < s->task_count; i++) {
        const struct psd_rounds *g = group_at(&s->task[i], m->generation);
        if (g != NULL && psd_member_find(g, own->id) == NULL && s->k.quiet) {
            sim_fail(s, "%s, and %s:%u does not know it", sim_op_text(call->op, text), s->task[i].job, s->task[i].index);
        }
    }
    struct sim_trainer *r = &s->trainer[call->program->index];
    r->joined = true;
    begins(s, r);
}

/* Bounded staleness: nobody who is waited for has begun fewer steps than that. */
static void ahead(struct sim *s, const struct sim_call *call)
{
    const struct psi_member *own = psi_client_member(call->program->core);
    const struct sim_member *me = member_find(s, own->id);
    s->count_steps++;
    s->count_recovered += s->task[0].life != call->op->directory_life;
    begins(s, &s->trainer[call->program->index]);
    if (call->stepped.lost) {
        s->count_places_lost++;
        joined(s, call);
        return;
    }
    for (size_t i = 0; i < s->member_count; i++) {
        const struct sim_member *m = &s->member[i];
        bool in = m->generation == me->generation && m->from != 0 && !m->left && !m->succeeded;
        if (in && s->sync.on_loss == PS_LOSS_WAIT && own->steps > m->stepped + s->sync.staleness) {
            sim_fail(s, "AHEAD: worker %u has done %llu steps, worker %u has begun %llu, and %u is the bound", me->index,
                     (unsigned long long)own->steps, m->index, (unsigned long long)m->stepped, s->sync.staleness);
        }
        s->count_ahead += in && own->steps > m->stepped;
    }
}

/* The directory knows of this member whether the round has taken it: it has closed the round itself, or has the member from the
 * owners' lists. What was the group's before a reset is not in the values. */
static bool is_known(const struct sim *s, const struct sim_round *r, uint64_t member)
{
    const struct psd_group *g = s->task[0].core == NULL ? NULL : psd_group_find(s->task[0].core, SIM_CONTAINER);
    return g != NULL && g->generation == r->generation && (r->life == s->task[0].life || psd_group_member(g, member) != NULL);
}

static void stepped(struct sim *s, const struct sim_call *call)
{
    const struct sim_op *op = call->op;
    const struct psi_member *own = psi_client_member(call->program->core);
    const struct sim_member *m = member_find(s, op->member);
    const struct psi_stepped *told = &call->stepped;
    char text[200];
    const struct sim_round *r = m == NULL ? NULL : round_find(s, m->generation, op->round);
    bool in = m != NULL && took(r, m->id);
    s->count_steps++;
    s->count_dropped += !told->taken;
    s->count_recovered += s->task[0].life != op->directory_life;
    begins(s, &s->trainer[call->program->index]);
    if (told->taken && !in) {
        sim_fail(s, "%s of round %llu is told that it was taken, and it was not", sim_op_text(op, text),
                 (unsigned long long)op->round);
    }
    if (!told->taken && in && is_known(s, r, m->id)) {
        sim_fail(s, "%s of round %llu is told that it was not taken, and it was", sim_op_text(op, text),
                 (unsigned long long)op->round);
    }
    if (s->k.quiet && s->sync.replicas == 0 && !told->taken && !s->ending) {
        sim_fail(s, "%s of round %llu is dropped, and nothing breaks", sim_op_text(op, text), (unsigned long long)op->round);
    }
    if (told->lost) {
        s->count_places_lost++;
        joined(s, call);
        return;
    }
    if (own->id != op->member || own->round <= op->round) {
        sim_fail(s, "%s leads from round %llu to round %llu", sim_op_text(op, text), (unsigned long long)op->round,
                 (unsigned long long)own->round);
    }
    check_flipped(s, m->generation, own->round - 1, "a STEP is answered");
    const struct sim_round *last = round_find(s, m->generation, own->round - 1);
    if (last == NULL || (last->step >= 0 && last->step != told->step)) {
        sim_fail(s, "%s: the global step is %lld after round %llu, it is told %lld", sim_op_text(op, text),
                 last == NULL ? -1 : (long long)last->step, (unsigned long long)own->round - 1, (long long)told->step);
    }
}

static void check_pulled(struct sim *s, const struct sim_call *call)
{
    const struct sim_op *op = call->op;
    double first = op->var->elements > 0 ? element_of(op->var, call->dst, 0) : 0;
    char text[200];
    const bool whole = op->var->by_rows && op->exact && op->var->wire == op->var->dtype; /* bfloat16 would be rounded */
    const struct sim_birth *b = whole ? sim_birth_find(s, op->creation) : NULL;
    for (uint64_t i = 0; b != NULL && b->alive && b->version == op->version && i < op->var->elements; i++) {
        if (element_of(op->var, call->dst, i) != b->rows[i]) {
            sim_fail(s, "%s shows row %llu as %g, and the rounds of its version make it %g", sim_op_text(op, text),
                     (unsigned long long)i, element_of(op->var, call->dst, i), b->rows[i]);
        }
    }
    for (uint64_t i = 1; i < op->var->elements && op->exact && s->sync.mode == PS_SYNC_ROUNDS && !op->var->by_rows; i++) {
        if (element_of(op->var, call->dst, i) != first) {
            sim_fail(s, "%s shows values of two rounds", sim_op_text(op, text));
        }
    }
}

/* Another member of its group, or of a later one, has begun to leave. Members stand in the order in which they joined. */
static bool others_have_left(const struct sim *s, const struct sim_op *op)
{
    const struct sim_member *own = member_find(s, op->member);
    for (size_t i = 0; i < s->member_count; i++) {
        const struct sim_member *m = &s->member[i];
        if (m->left && (own == NULL || (m->id != own->id && (m->generation == own->generation || m > own)))) {
            return true;
        }
    }
    return false;
}

/* Why it failed: */
static bool has_cause(const struct sim *s, const struct sim_call *call)
{
    const struct sim_op *op = call->op;
    switch (op->status) {
    case PS_DEADLINE_EXCEEDED: /* also where its thread was interrupted (call.c) */
    case PS_UNAVAILABLE:
        return !s->k.quiet || s->ending;
    case PS_RESOURCE_EXHAUSTED: /* there is no room for them; what has room has it for good */
        return op->kind == PSI_REQ_JOIN || op->kind == PSI_REQ_READY
                   ? s->k.memory_bytes > 0 || !s->k.quiet
                   : op->kind == PSI_REQ_STEP && call->req.rejoins; /* it joins again */
    case PS_ABORTED: /* its place is taken, the policy says fail, the group or a variable is lost */
        return !s->k.quiet || s->ending;
    case PS_FAILED_PRECONDITION: /* a variable is forgotten; the group has ended meanwhile; or members of it live when a chief
                                    comes without rounds */
        return !s->k.quiet || s->ending || (op->kind == PSI_REQ_STEP && s->trainer[op->program].forgets != 0) ||
               (op->kind == PSI_REQ_READY && s->program[op->program].role == SIM_FINAL);
    case PS_OUT_OF_RANGE: /* the others have finished before it has joined, or while it was lost */
        return (op->kind == PSI_REQ_STEP || op->kind == PSI_REQ_JOIN) && (!s->k.quiet || s->ending) && others_have_left(s, op);
    case PS_DATA_LOSS:
        return op->kind == PSI_REQ_READY && s->mixed_event >= op->started_event;
    case PS_NOT_FOUND:
        return s->k.may_lose;
    default:
        return op->status == PS_OK;
    }
}

bool sim_rounds_done(struct sim *s, const struct sim_call *call)
{
    const struct sim_op *op = call->op;
    const char *why = call->req.err != NULL ? call->req.err->text : "";
    char text[200];
    bool ours = op->var != NULL ? op->var->kind == SIM_VAR_ROUND && op->kind != PSI_REQ_GET
                                : op->kind == PSI_REQ_READY || op->kind == PSI_REQ_STATUS || op->kind == PSI_REQ_JOIN ||
                                      op->kind == PSI_REQ_STEP || op->kind == PSI_REQ_LEAVE;
    if (s->k.profile != SIM_ROUNDS || !ours) {
        return false;
    }
    sim_train_done(s, call->program, call);
    if (!has_cause(s, call) && !sim_disks_cause(s, call)) {
        sim_fail(s, "%s failed without a cause: %s", sim_op_text(op, text), why);
    }
    if (op->status != PS_OK) {
        if (why[0] == '\0') {
            sim_fail(s, "%s failed and says nothing", sim_op_text(op, text));
        }
        s->count_no_room += op->status == PS_RESOURCE_EXHAUSTED;
        s->count_late += op->kind == PSI_REQ_STEP && op->status == PS_DEADLINE_EXCEEDED;
        if (op->kind == PSI_REQ_STEP && op->status == PS_FAILED_PRECONDITION && s->trainer[op->program].forgets != 0) {
            s->trainer[op->program].forgets = 0;
            s->count_forgot++;
            return true;
        }
        bool again = op->kind == PSI_REQ_STEP && (op->status == PS_DEADLINE_EXCEEDED || op->status == PS_UNAVAILABLE);
        s->trainer[call->program->index].failed = !again || op->id % 3 == 0; /* some say their STEP again */
        return true;
    }
    if (op->kind == PSI_REQ_JOIN) {
        joined(s, call);
    } else if (op->kind == PSI_REQ_STEP && s->sync.mode == PS_SYNC_STALENESS) {
        ahead(s, call);
    } else if (op->kind == PSI_REQ_STEP) {
        stepped(s, call);
    } else if (op->kind == PSI_REQ_PULL || op->kind == PSI_REQ_GATHER) {
        check_pulled(s, call);
    }
    return true;
}

void sim_rounds_free(struct sim *s)
{
    free(s->round);
    free(s->member);
    sim_trains_free(s);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group at one owner: see rounds.h. Happy path: psd_rounds_set() -> members are added -> areas fill (apply.c) ->
 * psd_rounds_build() -> psd_rounds_flip(), which leaves the memory of the old values for the next round.
 * Failure: memory, where it is reserved; nothing is half built afterwards.
 */
#include "mutate.h"

#include "kept.h"

#include "common/mem.h"
#include "common/shape.h"

#include <string.h>

/* bytes of value built at a time: with the sum and the slots they stay in the second-level cache */
enum { BLOCK_BYTES = 16 << 10 };

bool psd_variable_in_rounds(const struct psd_variable *v)
{
    return v->part != NULL && v->part->rounds->options.mode == PSD_SYNC_ROUNDS;
}

bool psd_variable_is_built(const struct psd_variable *v)
{
    return v->part != NULL && (v->part->rounds->build == PSD_BUILD_GOES || v->part->rounds->build == PSD_BUILD_READY);
}

bool psd_variable_in_group(const struct psd_variable *v)
{
    const struct psd_rounds *g = v->container != NULL ? v->container->rounds : NULL;
    return v->part != NULL || (g != NULL && g->step == v);
}

ps_status psd_part_check(const struct psd_variable *v, struct psi_err *err)
{
    if (v->queue != NULL || v->optimizer.kind == PS_OPT_NONE) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "'%s' has no optimizer: it cannot be in rounds", v->name);
    }
    return v->initialised ? PS_OK
                          : psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_UNINITIALIZED,
                                        "UNINITIALIZED: variable '%s' has no value yet: it cannot be in rounds", v->name);
}

ps_status psd_step_check(const struct psd_variable *v, struct psi_err *err)
{
    if (v->queue != NULL || v->elements != 1 || (v->dtype != PS_I32 && v->dtype != PS_I64)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "'%s' cannot be the global step: allowed: one element, int32 or int64",
                        v->name);
    }
    return v->initialised ? PS_OK
                          : psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_UNINITIALIZED,
                                        "UNINITIALIZED: variable '%s' has no value yet: it cannot be the global step", v->name);
}

uint64_t psd_step_value(const struct psd_variable *v)
{
    int32_t narrow = 0;
    int64_t wide = 0;
    if (v->dtype == PS_I32) {
        memcpy(&narrow, v->value, sizeof(narrow));
        wide = narrow;
    } else {
        memcpy(&wide, v->value, sizeof(wide));
    }
    return (uint64_t)wide;
}

const struct psd_member *psd_member_find(const struct psd_rounds *g, uint64_t member)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        const struct psd_member *m = PSI_CONTAINER_OF(it, struct psd_member, link);
        if (m->id == member) {
            return m;
        }
    }
    return NULL;
}

const struct psd_member *psd_member_at(const struct psd_rounds *g, const char *job, uint32_t task)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        const struct psd_member *m = PSI_CONTAINER_OF(it, struct psd_member, link);
        if (m->task == task && strcmp(m->job, job) == 0) {
            return m;
        }
    }
    return NULL;
}

bool psd_member_is_complete(const struct psd_rounds *g, const struct psd_member *m)
{
    for (uint32_t i = 0; i < g->part_count; i++) {
        if (!m->areas[i].complete) {
            return false;
        }
    }
    return true;
}

struct psd_area *psd_area_find(const struct psd_variable *v, uint64_t member, uint64_t round)
{
    const struct psd_rounds *g = psd_variable_in_rounds(v) ? v->part->rounds : NULL;
    const struct psd_member *m = g != NULL && round == g->committed + 1 ? psd_member_find(g, member) : NULL;
    return m == NULL ? NULL : &m->areas[v->part - g->parts];
}

/* Bytes of a group's record, without its members. */
static uint64_t group_bytes(uint32_t part_count, uint32_t owner_count)
{
    return psi_malloc_bytes(sizeof(struct psd_rounds)) +
           psi_malloc_bytes(((size_t)part_count + 1) * (sizeof(struct psd_part) + sizeof(struct psd_optim_scalars))) +
           psi_malloc_bytes(((size_t)owner_count + 1) * sizeof(struct psd_owner));
}

static uint64_t member_bytes(uint32_t part_count)
{
    return psi_malloc_bytes(sizeof(struct psd_member)) + psi_malloc_bytes(((size_t)part_count + 1) * sizeof(struct psd_area));
}

uint64_t psd_member_memory_bytes(const struct psd_rounds *g)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; g->options.mode == PSD_SYNC_ROUNDS && i < g->part_count; i++) {
        bytes += psd_arena_bytes(g->parts[i].variable->bytes);
    }
    return bytes;
}

uint64_t psd_rounds_memory_bytes(const struct psd_rounds *g)
{
    uint64_t bytes = psd_member_memory_bytes(g) * g->member_count;
    for (uint32_t i = 0; g->options.mode == PSD_SYNC_ROUNDS && i < g->part_count; i++) {
        bytes += psd_variable_promised_bytes(g->parts[i].variable);
    }
    return bytes;
}

static void unstage(struct psd_store *s, void *p, uint64_t bytes, struct psd_kept **kept)
{
    if (p != NULL) {
        psd_store_unstage_kept(s, p, bytes, kept);
    }
}

static void rounds_free(struct psd_store *s, struct psd_rounds *g)
{
    if (g == NULL) {
        return;
    }
    psi_list_remove(&g->building);
    for (uint32_t i = 0; g->parts != NULL && i < g->part_count; i++) {
        struct psd_part *p = &g->parts[i];
        if (p->variable == NULL) {
            break; /* the group is half built */
        }
        unstage(s, p->value, p->variable->bytes, &p->kept[0]);
        for (uint32_t k = 0; k < PSD_OPTIM_SLOTS_MAX; k++) {
            unstage(s, p->slots[k], psd_variable_bytes_of(p->variable, 1 + k), &p->kept[1 + k]);
        }
        psd_sums_reset(&p->sums);
    }
    psd_store_uncount(s, PSD_MEMORY_ROUNDS, group_bytes(g->part_count, g->owner_count));
    psi_free(g->parts);
    psi_free(g->scalars);
    psi_free(g->owners);
    psi_free(g);
}

static ps_status no_memory(const struct psd_store *s, uint64_t bytes, const char *container, const char *what,
                           struct psi_err *err)
{
    char text[PSD_MEMORY_TEXT_BYTES];
    return psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED,
                       "rounds of container '%s': %s need %llu bytes; of the memory budget of %llu bytes %llu are taken: %s "
                       "(psd --memory_budget)",
                       container, what, (unsigned long long)bytes, (unsigned long long)s->budget_bytes,
                       (unsigned long long)psd_store_taken(s), psd_store_memory_text(s, text));
}

uint64_t psd_rounds_record_bytes(const struct psd_store *s)
{
    uint64_t bytes = 0, cursor = 0;
    void *value = NULL;
    while (psi_map_next(&s->containers, &cursor, NULL, NULL, &value)) {
        const struct psd_rounds *g = ((const struct psd_container *)value)->rounds;
        bytes += g == NULL ? 0 : group_bytes(g->part_count, g->owner_count) + g->member_count * member_bytes(g->part_count);
    }
    return bytes;
}

static bool reserve_part(struct psd_store *s, struct psd_part *p)
{
    const struct psd_variable *v = p->variable;
    p->value = psd_store_stage_raw(s, v->bytes);
    bool all = p->value != NULL;
    for (uint32_t k = 0; all && k < psd_optim_slot_count(&v->optimizer); k++) {
        p->slots[k] = psd_store_stage_raw(s, psd_variable_bytes_of(v, 1 + k));
        all = p->slots[k] != NULL;
    }
    return all;
}

/* A group, without the memory of its variables. */
static struct psd_rounds *new_group(const struct psd_container *c, const struct psd_rounds_def *def)
{
    struct psd_rounds *g = psi_calloc(1, sizeof(*g));
    if (g == NULL) {
        return NULL;
    }
    psi_list_init(&g->members);
    psi_list_init(&g->building);
    g->container = c;
    g->generation = def->generation;
    g->options = def->options;
    g->awaited = def->awaited;
    g->step = def->step;
    g->part_count = def->count;
    g->owner_count = def->owner_count;
    g->parts = psi_calloc((size_t)def->count + 1, sizeof(*g->parts));
    g->scalars = psi_calloc((size_t)def->count + 1, sizeof(*g->scalars));
    g->owners = psi_calloc((size_t)def->owner_count + 1, sizeof(*g->owners));
    if (g->owners != NULL && def->owner_count > 0) {
        memcpy(g->owners, def->owners, def->owner_count * sizeof(*g->owners));
    }
    return g;
}

ps_status psd_rounds_reserve(struct psd_store *s, const struct psd_container *c, const struct psd_rounds_def *def,
                             struct psd_rounds **out, struct psi_err *err)
{
    uint64_t bytes = 0;
    const uint64_t records_bytes = group_bytes(def->count, def->owner_count);
    if (psd_store_missing(s, records_bytes) > 0) {
        return no_memory(s, records_bytes, c->name, "their records", err);
    }
    struct psd_rounds *g = new_group(c, def);
    psd_store_count(s, PSD_MEMORY_ROUNDS, g == NULL ? 0 : records_bytes);
    if (g == NULL || g->parts == NULL || g->scalars == NULL || g->owners == NULL) {
        rounds_free(s, g);
        return no_memory(s, records_bytes, c->name, "their records", err);
    }
    for (uint32_t i = 0; i < def->count; i++) {
        g->parts[i].variable = psd_variable_by_creation(s, def->creations[i]);
        g->parts[i].rounds = g;
        bytes += psd_variable_promised_bytes(g->parts[i].variable);
    }
    for (uint32_t i = 0; def->options.mode == PSD_SYNC_ROUNDS && i < def->count; i++) {
        if (!reserve_part(s, &g->parts[i])) {
            rounds_free(s, g);
            return no_memory(s, bytes, c->name, "a second copy of values and slots", err);
        }
    }
    *out = g;
    return PS_OK;
}

static void member_free(struct psd_store *s, const struct psd_rounds *g, struct psd_member *m)
{
    if (m == NULL) {
        return;
    }
    for (uint32_t i = 0; m->areas != NULL && i < g->part_count; i++) {
        struct psd_kept *nobody = NULL;
        unstage(s, m->areas[i].memory, g->parts[i].variable->bytes, &nobody);
    }
    psd_store_uncount(s, PSD_MEMORY_ROUNDS, member_bytes(g->part_count));
    psi_free(m->areas);
    psi_free(m);
}

ps_status psd_member_reserve(struct psd_store *s, const struct psd_rounds *g, struct psd_member **out, struct psi_err *err)
{
    struct psd_member *m = psd_store_missing(s, member_bytes(g->part_count)) == 0 ? psi_calloc(1, sizeof(*m)) : NULL;
    if (m != NULL) {
        psd_store_count(s, PSD_MEMORY_ROUNDS, member_bytes(g->part_count));
        psi_list_init(&m->link);
        m->areas = psi_calloc((size_t)g->part_count + 1, sizeof(*m->areas));
    }
    bool all = m != NULL && m->areas != NULL;
    for (uint32_t i = 0; all && g->options.mode == PSD_SYNC_ROUNDS && i < g->part_count; i++) {
        m->areas[i].memory = psd_store_stage_raw(s, g->parts[i].variable->bytes);
        all = m->areas[i].memory != NULL;
    }
    if (!all) {
        member_free(s, g, m);
        return no_memory(s, psd_member_memory_bytes(g), g->container->name, "the gradients of one more member", err);
    }
    *out = m;
    return PS_OK;
}

void psd_rounds_set(struct psd_container *c, struct psd_rounds *g)
{
    for (uint32_t i = 0; i < g->part_count; i++) {
        psd_variable_own(g->parts[i].variable)->part = &g->parts[i];
    }
    c->rounds = g;
    c->by_rounds = c->by_rounds || g->options.mode == PSD_SYNC_ROUNDS;
}

void psd_rounds_end(struct psd_store *s, struct psd_container *c)
{
    struct psd_rounds *g = c->rounds;
    struct psi_list *it = NULL;
    if (g == NULL) {
        return;
    }
    while ((it = psi_list_first(&g->members)) != NULL) {
        psd_member_leave(s, g, PSI_CONTAINER_OF(it, struct psd_member, link));
    }
    for (uint32_t i = 0; i < g->part_count; i++) {
        psd_variable_own(g->parts[i].variable)->part = NULL;
    }
    c->rounds = NULL;
    rounds_free(s, g);
}

/* Members are ordered by task index. Two jobs may have an equal one. */
static bool comes_before(const struct psd_member *a, const struct psd_member *b)
{
    int order = strcmp(a->job, b->job);
    return a->task != b->task ? a->task < b->task : order != 0 ? order < 0 : a->id < b->id;
}

void psd_member_add(struct psd_rounds *g, struct psd_member *m)
{
    struct psi_list *at = g->members.next;
    while (at != &g->members && comes_before(PSI_CONTAINER_OF(at, struct psd_member, link), m)) {
        at = at->next;
    }
    psi_list_insert_before(at, &m->link);
    g->member_count++;
}

static void drop_area(struct psd_area *a)
{
    if (a->from != NULL) {
        a->from->area = NULL;
        a->from = NULL;
    }
    a->complete = false;
}

static void drop_areas(const struct psd_rounds *g, struct psd_member *m)
{
    for (uint32_t i = 0; i < g->part_count; i++) {
        drop_area(&m->areas[i]);
    }
}

/* Drop all contributions of m to the current round. */
static void withdraw(struct psd_rounds *g, struct psd_member *m)
{
    for (uint32_t i = 0; i < g->source_count; i++) {
        if (g->sources[i] == m) {
            psd_rounds_build_end(g); /* clears source_count */
        }
    }
    drop_areas(g, m);
}

void psd_member_succeed(struct psd_rounds *g, struct psd_member *m, uint64_t id, const uint8_t session[16])
{
    withdraw(g, m);
    m->id = id;
    memcpy(m->session, session, sizeof(m->session));
    m->round = m->taken = 0;
    psi_list_remove(&m->link);
    g->member_count--;
    psd_member_add(g, m);
}

void psd_member_leave(struct psd_store *s, struct psd_rounds *g, struct psd_member *m)
{
    withdraw(g, m);
    psi_list_remove(&m->link);
    g->member_count--;
    member_free(s, g, m);
}

void psd_area_begin(struct psd_progress *p)
{
    struct psd_area *a = psd_area_find(p->variable, p->member, p->round);
    if (a != NULL) {
        PSI_ASSERT(a->from == NULL && !a->complete);
        a->from = p;
    }
    p->area = a;
}

bool psd_area_end(struct psd_progress *p, bool complete)
{
    struct psd_area *a = p->area;
    if (a == NULL) {
        return false;
    }
    a->from = NULL;
    a->complete = complete;
    a->scale = complete ? p->scale : 0;
    p->area = NULL;
    if (complete) {
        const struct psd_rounds *g = p->variable->part->rounds;
        psd_member_own(psd_member_find(g, p->member))->round = p->round;
    }
    return complete;
}

static void take_rate(struct psd_rounds *g, const double *rate, uint64_t step)
{
    g->round_step = step;
    g->set_rate = rate != NULL;
    g->rate = rate != NULL ? *rate : 0;
}

void psd_rounds_build_end(struct psd_rounds *g)
{
    g->build = PSD_BUILD_NONE;
    g->source_count = 0;
    g->missing_count = 0;
    g->part = 0;
    g->done = 0;
    g->measured = false;
    g->norms = (struct psd_optim_norms){0};
    g->decided = false;
    take_rate(g, NULL, 0);
    psi_list_remove(&g->building);
}

/* Count the variables that m has not contributed to; count 0: none. */
static struct psd_missing lacks(const struct psd_rounds *g, const struct psd_member *m)
{
    struct psd_missing what = {.member = m->id};
    for (uint32_t i = 0; i < g->part_count; i++) {
        if (!m->areas[i].complete) {
            what.variable = what.count == 0 ? g->parts[i].variable : what.variable;
            what.count++;
        }
    }
    return what;
}

static bool among(const uint64_t *members, uint32_t count, uint64_t id)
{
    for (uint32_t i = 0; i < count; i++) {
        if (members[i] == id) {
            return true;
        }
    }
    return false;
}

static void note_missing(struct psd_rounds *g, struct psd_missing what)
{
    if (g->missing_count < PS_MEMBERS_MAX) {
        g->missing[g->missing_count++] = what;
    }
}

/* Find the named members, in the group's order, and note those that lack something. Returns their number. */
static uint32_t find_sources(struct psd_rounds *g, const uint64_t *members, uint32_t count, const struct psd_member **sources)
{
    uint32_t found = 0;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        const struct psd_member *m = PSI_CONTAINER_OF(it, struct psd_member, link);
        if (!among(members, count, m->id)) {
            continue;
        }
        struct psd_missing what = lacks(g, m);
        if (what.count > 0) {
            note_missing(g, what);
        }
        sources[found++] = m;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (psd_member_find(g, members[i]) == NULL) {
            note_missing(g, (struct psd_missing){.member = members[i]});
        }
    }
    return found;
}

static void capture(const struct psd_rounds *g, uint32_t i, struct psd_optim_scalars *out)
{
    const struct psd_variable *v = g->parts[i].variable;
    psd_variable_capture_at(v, g->round_step, g->set_rate ? g->rate : psd_variable_rate(v), 1.0F, out);
}

/* True if the values that are built, or being built, are of exactly these members. */
static bool is_of(const struct psd_rounds *g, const struct psd_member *const *sources, uint32_t count)
{
    return (g->build == PSD_BUILD_GOES || g->build == PSD_BUILD_READY) && g->source_count == count &&
           memcmp(g->sources, sources, count * sizeof(*sources)) == 0;
}

/* True if the values were built with the scalars that are in force now. */
static bool is_current(const struct psd_rounds *g)
{
    for (uint32_t i = 0; i < g->part_count; i++) {
        struct psd_optim_scalars now;
        capture(g, i, &now);
        if (memcmp(&now, &g->scalars[i], sizeof(now)) != 0) {
            return false;
        }
    }
    return true;
}

void psd_rounds_build_begin(struct psd_rounds *g, const uint64_t *members, uint32_t count, bool decided, const double *rate,
                            uint64_t step)
{
    const struct psd_member *sources[PS_MEMBERS_MAX];
    g->missing_count = 0;
    uint32_t found = find_sources(g, members, count, sources);
    bool same = g->missing_count == 0 && is_of(g, sources, found);
    if (!(same && decided)) { /* a decided round is not rebuilt: another directory may not know its rate and step */
        take_rate(g, rate, step);
    }
    if (same && (decided || is_current(g))) {
        g->decided = decided;
        return;
    }
    uint32_t missing = g->missing_count;
    psd_rounds_build_end(g);
    if (missing > 0 || found == 0) {
        g->missing_count = missing;
        g->build = PSD_BUILD_MISSING;
        return;
    }
    memcpy(g->sources, sources, found * sizeof(*sources));
    g->source_count = found;
    take_rate(g, rate, step);
    for (uint32_t i = 0; i < g->part_count; i++) {
        capture(g, i, &g->scalars[i]);
    }
    g->decided = decided;
    g->build = g->part_count > 0 ? PSD_BUILD_GOES : PSD_BUILD_READY;
}

/* Elements of a block; whole rows where the optimizer is by row. */
static uint64_t block_elements(const struct psd_variable *v)
{
    const uint64_t most = BLOCK_BYTES / v->element_bytes, step = v->row_elements;
    return step > most ? step : most / step * step;
}

/* A block of part i: elements [first, first + count), at most block_elements(), from byte `at` on. */
struct block {
    struct psd_part *p;
    uint32_t i;
    uint64_t count, at, bytes;
    void *slots[PSD_OPTIM_SLOTS_MAX];            /* the new ones */
    _Alignas(64) uint8_t grad[PS_SEGMENT_BYTES]; /* a row of an optimizer by row may be larger than BLOCK_BYTES */
};

static void average_block(const struct psd_rounds *g, struct block *b)
{
    const struct psd_variable *v = b->p->variable;
    for (uint32_t k = 0; k < g->source_count; k++) {
        const struct psd_area *a = &g->sources[k]->areas[b->i];
        psd_sum_add(v->dtype, b->grad, (const uint8_t *)a->memory + b->at, a->scale, k == 0, b->count);
    }
    psd_sum_average(v->dtype, b->grad, g->source_count, b->count);
}

/* The first pass of an optimizer with norms. Its steps wait where the new values will be. */
static void measure_block(struct psd_rounds *g, struct block *b)
{
    const struct psd_variable *v = b->p->variable;
    psd_optim_measure(v->optimizer.kind, v->dtype, &g->scalars[b->i], (const uint8_t *)v->value + b->at, b->slots, b->grad,
                      (uint8_t *)b->p->value + b->at, b->count, &g->norms);
}

/* The new values, from the gradient or from the steps of the first pass. */
static void finish_block(struct psd_rounds *g, struct block *b)
{
    const struct psd_variable *v = b->p->variable;
    struct psd_optim_scalars scalars = g->scalars[b->i];
    uint8_t *value = (uint8_t *)b->p->value + b->at;
    if (g->measured) {
        memcpy(b->grad, value, b->bytes);
        psd_optim_scale(v->optimizer.kind, v->dtype, &g->norms, &scalars);
    }
    memcpy(value, (const uint8_t *)v->value + b->at, b->bytes);
    psd_optim_apply_beside(v->optimizer.kind, v->dtype, v->dtype, &scalars, value, b->slots, b->grad, b->count / v->row_elements,
                           v->row_elements);
}

/* Build elements [first, first + count) of part i, at most block_elements(): sum, average, copies of value and slots, optimizer.
 * Of an optimizer with norms in two passes, the second one behind the last block of the first. */
static void build_block(struct psd_rounds *g, uint32_t i, uint64_t first, uint64_t count)
{
    struct psd_part *p = &g->parts[i];
    const struct psd_variable *v = p->variable;
    const uint64_t at = first * v->element_bytes, bytes = count * v->element_bytes;
    struct block b;
    b.p = p;
    b.i = i;
    b.count = count;
    b.at = at;
    b.bytes = bytes;
    memset(b.slots, 0, sizeof(b.slots));
    psd_kept_change(p->kept[0], at, bytes);
    for (uint32_t k = 0; k < PSD_OPTIM_SLOTS_MAX && p->slots[k] != NULL; k++) {
        const struct psd_span span = psd_variable_span(v, 1 + k, first, count);
        psd_kept_change(p->kept[1 + k], span.at, span.bytes);
        b.slots[k] = (uint8_t *)p->slots[k] + span.at;
        if (!g->measured) {
            memcpy(b.slots[k], (const uint8_t *)v->slots[k] + span.at, span.bytes);
        }
    }
    if (!g->measured) {
        average_block(g, &b);
    }
    if (!g->measured && psi_optimizer_is_whole(v->optimizer.kind)) {
        measure_block(g, &b);
        return;
    }
    finish_block(g, &b);
    const uint64_t end = at + bytes, segment = at / PS_SEGMENT_BYTES * PS_SEGMENT_BYTES;
    if (PS_SEGMENT_BYTES % (block_elements(v) * v->element_bytes) != 0) { /* blocks do not end where segments end */
        psd_sums_forget(&p->sums, v->bytes, at, bytes);
    } else if (end % PS_SEGMENT_BYTES == 0 || end == v->bytes) {
        psd_sums_changed(&p->sums, p->value, v->bytes, segment, end - segment);
    }
}

/* Bytes of memory that are moved for one element of v. */
static uint64_t traffic(const struct psd_rounds *g, const struct psd_variable *v)
{
    return v->element_bytes * (g->source_count + 2 * (UINT64_C(1) + psd_optim_slot_count(&v->optimizer)));
}

bool psd_rounds_build(struct psd_rounds *g, uint64_t bytes)
{
    uint64_t moved = 0;
    while (g->build == PSD_BUILD_GOES && (moved == 0 || moved < bytes)) {
        const struct psd_variable *v = g->parts[g->part].variable;
        uint64_t block = block_elements(v);
        uint64_t left = v->elements - g->done;
        uint64_t count = left < block ? left : block;
        build_block(g, g->part, g->done, count);
        moved += count * traffic(g, v);
        g->done += count;
        if (g->done == v->elements) {
            g->measured = !g->measured && psi_optimizer_is_whole(v->optimizer.kind);
            g->done = 0;
            if (!g->measured) {
                g->norms = (struct psd_optim_norms){0};
                g->part++;
            }
        }
        if (g->part == g->part_count) {
            g->build = PSD_BUILD_READY;
        }
    }
    return g->build == PSD_BUILD_READY;
}

static void swap_memory(void **a, void **b)
{
    void *t = *a;
    *a = *b;
    *b = t;
}

/* A pull that is sending v goes on with the new values: each segment is composed from v when it is written. */
static void flip_part(struct psd_part *p, uint64_t step)
{
    struct psd_variable *v = psd_variable_own(p->variable);
    struct psd_sums sums = v->sums;
    swap_memory(&v->value, &p->value);
    for (uint32_t k = 0; k < PSD_OPTIM_SLOTS_MAX; k++) {
        swap_memory(&v->slots[k], &p->slots[k]);
    }
    for (uint32_t k = 0; k <= PSD_OPTIM_SLOTS_MAX; k++) {
        psd_kept_swap(&v->kept[k], &p->kept[k]);
    }
    v->sums = p->sums;
    p->sums = sums;
    psd_optim_end(&v->optimizer, v->dtype, &v->optim_state);
    v->version++;
    v->pushes++;
    v->step = step > v->step + 1 ? step - 1 : v->step;
}

static void count_step(struct psd_variable *v)
{
    static const int64_t one = 1; /* little-endian, so it is an int32 too */
    bool known = psd_add(v->dtype, v->value, &one, 1, 1);
    PSI_ASSERT(known);
    psd_sums_changed(&v->sums, v->value, v->bytes, 0, v->bytes);
    v->version++;
}

void psd_rounds_flip(struct psd_rounds *g, const uint64_t *members, uint32_t count, uint64_t step,
                     const struct psd_optim_scalars *scalars)
{
    if (g->build != PSD_BUILD_READY) { /* a replay has built nothing */
        psd_rounds_build_begin(g, members, count, true, NULL, step);
        memcpy(g->scalars, scalars, g->part_count * sizeof(*scalars));
    }
    while (!psd_rounds_build(g, UINT64_MAX)) {
        PSI_ASSERT(g->build == PSD_BUILD_GOES);
    }
    for (uint32_t i = 0; i < g->part_count; i++) {
        flip_part(&g->parts[i], step);
    }
    if (g->step != NULL) {
        count_step(psd_variable_own(g->step));
    }
    g->committed++;
    g->over = false;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        struct psd_member *m = PSI_CONTAINER_OF(it, struct psd_member, link);
        m->taken = among(members, count, m->id) ? g->committed : m->taken;
        drop_areas(g, m);
    }
    psd_rounds_build_end(g);
}

void psd_rounds_check_invariants(const struct psd_rounds *g)
{
    const struct psd_member *before = NULL;
    uint32_t count = 0;
    struct psi_list *it = NULL;
    PSI_ASSERT(g->container->rounds == g && g->source_count <= g->member_count);
    for (uint32_t i = 0; i < g->part_count; i++) {
        const struct psd_part *p = &g->parts[i];
        PSI_ASSERT(p->rounds == g && p->variable->part == p && p->variable->container == g->container);
        PSI_ASSERT(p->variable->initialised && (p->value != NULL) == (g->options.mode == PSD_SYNC_ROUNDS));
        PSI_ASSERT(i == 0 || g->parts[i - 1].variable->creation < p->variable->creation);
    }
    PSI_LIST_FOREACH(it, &g->members) {
        const struct psd_member *m = PSI_CONTAINER_OF(it, struct psd_member, link);
        PSI_ASSERT(before == NULL || comes_before(before, m));
        for (uint32_t i = 0; i < g->part_count; i++) {
            const struct psd_area *a = &m->areas[i];
            PSI_ASSERT(a->from == NULL || (!a->complete && a->from->area == a && a->from->variable == g->parts[i].variable));
        }
        before = m;
        count++;
    }
    PSI_ASSERT(count == g->member_count && count <= PS_MEMBERS_MAX);
    PSI_ASSERT(g->build != PSD_BUILD_MISSING || g->source_count == 0);
    PSI_ASSERT(g->build != PSD_BUILD_READY || g->source_count > 0);
}

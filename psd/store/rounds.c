/* SPDX-License-Identifier: Apache-2.0 */
/* A group at one owner: see rounds.h. Happy path: psd_rounds_set() -> psd_member_add() for each member -> contributions fill the
 * memory of their members (apply.c) -> psd_rounds_build() -> psd_rounds_flip(), after which the memory of the old values is used
 * for the next round's new values. overlay.c is for rows. Failure: no memory in psd_rounds_reserve() or psd_member_reserve(). */
#include "mutate.h"

#include "kept.h"
#include "overlay.h"
#include "rows.h"

#include "common/mem.h"
#include "common/shape.h"

#include <string.h>

/* bytes of the value that are built at a time: with their average and slots they stay in the second-level cache */
enum { BLOCK_BYTES = 16 << 10 };

bool psd_variable_in_rounds(const struct psd_variable *v)
{
    return v->part != NULL && v->part->rounds->options.mode == PSD_SYNC_ROUNDS;
}

bool psd_variable_is_built(const struct psd_variable *v)
{
    return v->part != NULL &&
           (v->part->rounds->build == PSD_BUILD_GOES || v->part->rounds->build == PSD_BUILD_READY || v->part->in_force);
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

static uint64_t area_bytes(const struct psd_part *p)
{
    return p->by_rows ? psd_overlay_area_bytes(p) : p->variable->bytes;
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

static uint64_t group_bytes(uint32_t part_count, uint32_t owner_count)
{
    return psi_malloc_bytes(sizeof(struct psd_rounds)) +
           psi_malloc_bytes(((size_t)part_count + 1) *
                            (sizeof(struct psd_part) + sizeof(struct psd_optim_scalars) + sizeof(double))) +
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
        bytes += psd_arena_bytes(area_bytes(&g->parts[i]));
    }
    return bytes;
}

uint64_t psd_rounds_memory_bytes(const struct psd_rounds *g)
{
    uint64_t bytes = psd_member_memory_bytes(g) * g->member_count;
    for (uint32_t i = 0; i < g->part_count; i++) {
        bytes += psd_part_has_copy(&g->parts[i]) ? psd_variable_promised_bytes(g->parts[i].variable) : 0;
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
            break; /* psd_rounds_reserve() failed before it filled in this and the later entries */
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
    psi_free(g->sums);
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

/* Make the record of a group, without copies of values. Without memory, the result or arrays in it are NULL. */
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
    g->sums = psi_calloc((size_t)def->count + 1, sizeof(*g->sums));
    g->owners = psi_calloc((size_t)def->owner_count + 1, sizeof(*g->owners));
    if (g->owners != NULL && def->owner_count > 0) {
        memcpy(g->owners, def->owners, def->owner_count * sizeof(*g->owners));
    }
    return g;
}

static struct psd_part part_of(const struct psd_store *s, struct psd_rounds *g, const struct psd_part_def *def)
{
    const struct psd_variable *v = psd_variable_by_creation(s, def->creation);
    struct psd_part p = {.variable = v, .by_rows = def->by_rows != 0, .rounds = g};
    if (p.by_rows) {
        const uint64_t rows = (uint64_t)psd_variable_shape(v).dims[0];
        p.rows_max = g->options.rows_per_step < rows ? g->options.rows_per_step : rows;
    }
    return p;
}

uint64_t psd_rounds_copy_bytes(const struct psd_store *s, const struct psd_rounds_def *def)
{
    uint64_t bytes = 0;
    struct psd_rounds g = {.options = def->options};
    for (uint32_t i = 0; i < def->count; i++) {
        const struct psd_part p = part_of(s, &g, &def->parts[i]);
        bytes += psd_part_has_copy(&p) ? psd_variable_promised_bytes(p.variable) : 0;
    }
    return bytes;
}

ps_status psd_rounds_reserve(struct psd_store *s, const struct psd_container *c, const struct psd_rounds_def *def,
                             struct psd_rounds **out, struct psi_err *err)
{
    const uint64_t records_bytes = group_bytes(def->count, def->owner_count);
    if (psd_store_missing(s, records_bytes) > 0) {
        return no_memory(s, records_bytes, c->name, "their records", err);
    }
    struct psd_rounds *g = new_group(c, def);
    psd_store_count(s, PSD_MEMORY_ROUNDS, g == NULL ? 0 : records_bytes);
    if (g == NULL || g->parts == NULL || g->scalars == NULL || g->sums == NULL || g->owners == NULL) {
        rounds_free(s, g);
        return no_memory(s, records_bytes, c->name, "their records", err);
    }
    for (uint32_t i = 0; i < def->count; i++) {
        g->parts[i] = part_of(s, g, &def->parts[i]);
    }
    for (uint32_t i = 0; i < def->count; i++) {
        if (psd_part_has_copy(&g->parts[i]) && !reserve_part(s, &g->parts[i])) {
            rounds_free(s, g);
            return no_memory(s, psd_rounds_copy_bytes(s, def), c->name, "a second copy of values and slots", err);
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
        unstage(s, m->areas[i].memory, area_bytes(&g->parts[i]), &nobody);
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
        m->areas[i].memory = psd_store_stage_raw(s, area_bytes(&g->parts[i]));
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
    psd_rounds_settle(g);
    while ((it = psi_list_first(&g->members)) != NULL) {
        psd_member_leave(s, g, PSI_CONTAINER_OF(it, struct psd_member, link));
    }
    for (uint32_t i = 0; i < g->part_count; i++) {
        psd_variable_own(g->parts[i].variable)->part = NULL;
    }
    c->rounds = NULL;
    rounds_free(s, g);
}

/* True if a comes before b in a group: by task index, then by job, then by id. */
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
    a->rows = 0;
}

static void drop_areas(const struct psd_rounds *g, struct psd_member *m)
{
    for (uint32_t i = 0; i < g->part_count; i++) {
        drop_area(&m->areas[i]);
    }
}

/* Drop all contributions of m to the current round, and what is built from them. */
static void withdraw(struct psd_rounds *g, struct psd_member *m)
{
    for (uint32_t i = 0; i < g->source_count; i++) {
        if (g->sources[i] == m) {
            psd_rounds_build_end(g); /* sets source_count to 0, so the loop ends */
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
    psd_rounds_settle(g); /* m's memory, freed below, may hold rows that are not yet copied to their variables */
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
    a->rows = complete && psd_push_is_rows(p->kind) ? p->total : 0;
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
    g->squares = (struct psi_squares){.count = 0};
    g->round_factor = 0;
    g->decided = false;
    take_rate(g, NULL, 0);
    for (uint32_t i = 0; i < g->part_count; i++) {
        psd_overlay_forget(g, i);
    }
    if (!psd_rounds_are_not_home(g)) { /* otherwise psd_rounds_build() must still copy rows to variables */
        psi_list_remove(&g->building);
    }
}

/* What m lacks in this round: the number of variables to which m has not contributed, and the first of them. */
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

/* Collect the contributors of a round: members of g whose ids are in `members` go to `sources`, in the group's order. Members
 * that have not contributed to all variables, and ids that g lacks, go to g->missing. Returns the number of sources. */
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

bool psd_sync_is_joint(const struct psd_sync_options *o)
{
    return o->max_norm > 0 && o->max_norm_each == 0;
}

/* The factor by which the limit on norms scales the average gradient of g's variable i; 1: no limit. */
static float factor_of(const struct psd_rounds *g, uint32_t i)
{
    if (psd_sync_is_joint(&g->options)) {
        return g->round_factor;
    }
    return g->options.max_norm > 0 ? psi_clip_factor(g->sums[i], g->options.max_norm) : 1;
}

static void capture(const struct psd_rounds *g, uint32_t i, struct psd_optim_scalars *out)
{
    const struct psd_variable *v = g->parts[i].variable;
    psd_variable_capture_at(v, g->round_step, g->set_rate ? g->rate : psd_variable_rate(v), factor_of(g, i), out);
}

/* True if g has new values or sums, complete or not, that are built from the contributions of exactly these members. */
static bool is_of(const struct psd_rounds *g, const struct psd_member *const *sources, uint32_t count)
{
    return g->build > PSD_BUILD_MISSING && g->source_count == count && memcmp(g->sources, sources, count * sizeof(*sources)) == 0;
}

/* True if the optimizers' scalars (rates and powers) have not changed since building began. */
static bool is_current(const struct psd_rounds *g)
{
    for (uint32_t i = 0; i < g->part_count; i++) {
        struct psd_optim_scalars now;
        capture(g, i, &now);
        /* scale, the factor of the limit on norms, is left out: it follows from the contributions, which have not changed */
        now.scale = g->scalars[i].scale;
        if (memcmp(&now, &g->scalars[i], sizeof(now)) != 0) {
            return false;
        }
    }
    return true;
}

void psd_rounds_build_begin(struct psd_rounds *g, const uint64_t *members, uint32_t count, bool decided, const double *rate,
                            uint64_t step, float factor)
{
    const struct psd_member *sources[PS_MEMBERS_MAX];
    g->missing_count = 0;
    uint32_t found = find_sources(g, members, count, sources);
    bool same = g->missing_count == 0 && is_of(g, sources, found);
    const bool joint = psd_sync_is_joint(&g->options);
    const bool kept = same && decided && (!joint || g->round_factor > 0);
    /* kept: what an earlier order built stays, and with it rate and step, which a restarted directory does not know */
    if (!kept) {
        take_rate(g, rate, step);
    }
    if (kept || (same && !decided && g->round_factor == factor && is_current(g))) {
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
    g->round_factor = factor;
    take_rate(g, rate, step);
    for (uint32_t i = 0; i < g->part_count; i++) {
        capture(g, i, &g->scalars[i]);
        psd_overlay_begin(g, i);
    }
    g->decided = decided;
    if (g->options.max_norm > 0 && factor <= 0) {
        g->build = g->part_count > 0 ? PSD_BUILD_SUMS : joint ? PSD_BUILD_SUMMED : PSD_BUILD_READY;
    } else {
        g->build = g->part_count > 0 ? PSD_BUILD_GOES : PSD_BUILD_READY;
    }
}

bool psd_rounds_is_building(const struct psd_rounds *g)
{
    return g->build == PSD_BUILD_SUMS || g->build == PSD_BUILD_GOES;
}

/* How many elements of p's variable a block has: whole rows, if the optimizer works by row or members contribute rows. */
static uint64_t block_elements(const struct psd_part *p)
{
    const struct psd_variable *v = p->variable;
    const uint64_t columns = p->by_rows ? psd_rows_columns(v) : 0;
    const uint64_t most = BLOCK_BYTES / v->element_bytes, step = columns > 0 ? columns : v->row_elements;
    return step > most ? step : most / step * step;
}

/* The elements of a group's variable i that are built at a time: `count`, at most block_elements(), from byte `at` on. */
struct block {
    struct psd_part *p;
    uint32_t i;
    uint64_t count, at, bytes;
    void *slots[PSD_OPTIM_SLOTS_MAX];            /* the new slots */
    _Alignas(64) uint8_t grad[PS_SEGMENT_BYTES]; /* a row that an optimizer needs whole may be larger than BLOCK_BYTES */
};

/* grad = the average of the members' gradients for `count` elements of g's variable i, from byte `at` on. */
static void average_block(const struct psd_rounds *g, uint32_t i, uint64_t at, uint64_t count, uint8_t *grad)
{
    const struct psd_variable *v = g->parts[i].variable;
    for (uint32_t k = 0; k < g->source_count; k++) {
        const struct psd_area *a = &g->sources[k]->areas[i];
        psd_sum_add(v->dtype, grad, (const uint8_t *)a->memory + at, a->scale, k == 0, count);
    }
    psd_sum_average(v->dtype, grad, g->source_count, count);
}

static void sum_block(struct psd_rounds *g, uint32_t i, uint64_t first, uint64_t count)
{
    const struct psd_variable *v = g->parts[i].variable;
    _Alignas(64) uint8_t grad[PS_SEGMENT_BYTES];
    average_block(g, i, first * v->element_bytes, count, grad);
    psi_squares_add(&g->squares, v->dtype, grad, count);
}

/* First pass of an optimizer with norms: add the block to g->norms, and store each element's step where its new value will be. */
static void measure_block(struct psd_rounds *g, struct block *b)
{
    const struct psd_variable *v = b->p->variable;
    psd_optim_measure(v->optimizer.kind, v->dtype, &g->scalars[b->i], (const uint8_t *)v->value + b->at, b->slots, b->grad,
                      (uint8_t *)b->p->value + b->at, b->count, &g->norms);
}

/* Make the new values and slots of a block from b->grad or, in the second pass, from the steps that measure_block() stored. */
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

/* Build elements [first, first + count) of g's variable i, at most block_elements(): average the gradients, copy value and slots,
 * run the optimizer on the copies. An optimizer with norms needs two passes over all blocks; measure_block() is for the first. */
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
        average_block(g, i, at, count, b.grad);
    }
    if (!g->measured && psi_optimizer_is_whole(v->optimizer.kind)) {
        measure_block(g, &b);
        return;
    }
    finish_block(g, &b);
    const uint64_t end = at + bytes, segment = at / PS_SEGMENT_BYTES * PS_SEGMENT_BYTES;
    /* if segments end within blocks, the end of a block completes no segment, so no CRC can be computed here */
    if (PS_SEGMENT_BYTES % (block_elements(p) * v->element_bytes) != 0) {
        psd_sums_forget(&p->sums, v->bytes, at, bytes);
    } else if (end % PS_SEGMENT_BYTES == 0 || end == v->bytes) {
        psd_sums_changed(&p->sums, p->value, v->bytes, segment, end - segment);
    }
}

/* Bytes of memory traffic to sum up or to build one element of v. */
static uint64_t traffic(const struct psd_rounds *g, const struct psd_variable *v)
{
    if (g->build == PSD_BUILD_SUMS) {
        return v->element_bytes * (uint64_t)g->source_count;
    }
    return v->element_bytes * (g->source_count + 2 * (UINT64_C(1) + psd_optim_slot_count(&v->optimizer)));
}

/* Call when g->squares has the squares of the whole average of variable g->part: notes their sum, and goes on to the next
 * variable. After the last variable: if norms are limited one by one, g begins to build new values (GOES); if they are limited
 * together, g waits for the directory's factor (SUMMED). */
static void summed(struct psd_rounds *g)
{
    g->sums[g->part++] = psi_squares_sum(&g->squares);
    g->squares = (struct psi_squares){.count = 0};
    if (g->part < g->part_count) {
        return;
    }
    g->part = 0;
    g->build = psd_sync_is_joint(&g->options) ? PSD_BUILD_SUMMED : PSD_BUILD_GOES;
    for (uint32_t i = 0; g->build == PSD_BUILD_GOES && i < g->part_count; i++) {
        g->scalars[i].scale = factor_of(g, i);
        psd_overlay_begin(g, i);
    }
}

static void built(struct psd_rounds *g)
{
    g->measured = !g->measured && psi_optimizer_is_whole(g->parts[g->part].variable->optimizer.kind);
    if (g->measured) {
        return;
    }
    g->norms = (struct psd_optim_norms){0};
    if (++g->part == g->part_count) {
        g->build = PSD_BUILD_READY;
    }
}

/* Sum up or build the next block of the variable with index g->part. Returns how many elements the block has. */
static uint64_t next_block(struct psd_rounds *g)
{
    const struct psd_part *p = &g->parts[g->part];
    const uint64_t first = g->done, block = block_elements(p), left = p->variable->elements - first;
    const uint64_t count = left < block ? left : block;
    if (g->build == PSD_BUILD_SUMS) {
        sum_block(g, g->part, first, count);
    } else if (p->by_rows && count > 0) {
        const uint64_t columns = psd_rows_columns(p->variable);
        psd_overlay_build_copy(g, g->part, first / columns, count / columns);
    } else {
        build_block(g, g->part, first, count);
    }
    g->done += count;
    return count;
}

bool psd_rounds_build(struct psd_rounds *g, uint64_t bytes)
{
    uint64_t moved = 0;
    if (!psd_overlay_home(g, bytes)) {
        return false;
    }
    while (psd_rounds_is_building(g) && (moved == 0 || moved < bytes)) {
        const struct psd_part *p = &g->parts[g->part];
        const struct psd_variable *v = p->variable;
        const bool sums = g->build == PSD_BUILD_SUMS, rows = p->by_rows && (sums || !psd_part_has_copy(p));
        const uint64_t count = !rows ? next_block(g) : sums ? psd_overlay_sum(g, g->part) : psd_overlay_build(g, g->part);
        moved += (rows ? count * psd_rows_columns(v) : count) * traffic(g, v);
        if (rows ? count == 0 : g->done == v->elements) {
            g->done = 0;
            (sums ? summed : built)(g);
        }
    }
    return !psd_rounds_is_building(g);
}

static void swap_memory(void **a, void **b)
{
    void *t = *a;
    *a = *b;
    *b = t;
}

static void swap_copy(struct psd_part *p)
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
}

/* Make the new values of g's variable i visible. A pull under way sends the new values from its next segment on. */
static void flip_part(struct psd_rounds *g, uint32_t i, uint64_t step)
{
    struct psd_variable *v = psd_variable_own(g->parts[i].variable);
    if (psd_part_has_copy(&g->parts[i])) {
        swap_copy(&g->parts[i]);
    } else {
        psd_overlay_flip(g, i);
    }
    psd_optim_end(&v->optimizer, v->dtype, &v->optim_state);
    v->version++;
    v->pushes++;
    v->step = step > v->step + 1 ? step - 1 : v->step;
}

static void count_step(struct psd_variable *v)
{
    static const int64_t one = 1; /* little-endian, so its first 4 bytes are the int32 1 */
    bool known = psd_add(v->dtype, v->value, &one, 1, 1);
    PSI_ASSERT(known);
    psd_sums_changed(&v->sums, v->value, v->bytes, 0, v->bytes);
    v->version++;
}

void psd_rounds_flip(struct psd_rounds *g, const uint64_t *members, uint32_t count, uint64_t step, float factor,
                     const struct psd_optim_scalars *scalars)
{
    const bool replayed = g->build != PSD_BUILD_READY; /* in a replay of changes nothing is built before the flip */
    if (replayed) {
        psd_rounds_build_begin(g, members, count, true, NULL, step, factor);
        memcpy(g->scalars, scalars, g->part_count * sizeof(*scalars));
        g->build = g->build == PSD_BUILD_SUMS ? PSD_BUILD_GOES : g->build; /* `scalars` already include the factors */
    }
    while (!psd_rounds_build(g, UINT64_MAX)) {
        PSI_ASSERT(g->build == PSD_BUILD_GOES);
    }
    for (uint32_t i = 0; i < g->part_count; i++) {
        flip_part(g, i, step);
    }
    if (replayed) { /* a replay does not call psd_rounds_build(), which copies new rows to variables */
        psd_rounds_settle(g);
    }
    if (g->step != NULL) {
        count_step(psd_variable_own(g->step));
    }
    g->committed++;
    g->factor = factor;
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
        PSI_ASSERT(p->variable->initialised && (p->value != NULL) == psd_part_has_copy(p));
        psd_overlay_check_invariants(g, i);
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
    PSI_ASSERT((g->build != PSD_BUILD_READY && g->build != PSD_BUILD_SUMMED) || g->source_count > 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Variables and containers. Happy path: psd_container_add() -> psd_variable_add(), with a promise of memory for value and slots
 * -> psd_variable_initialise() or psd_variable_swap_in(): value and slots are allocated and filled, and become the variable's ->
 * pushes by handle -> psd_variable_drop(). Failure: no memory (RESOURCE_EXHAUSTED), and nothing has changed. */
#include "cut_internal.h"
#include "mutate.h"

#include "kept.h"
#include "shown.h"

#include "common/blob.h"
#include "common/mem.h"
#include "common/optimizer.h"
#include "common/schedule.h"
#include "common/rng.h"
#include "common/shape.h"

#include <string.h>

void psd_store_init(struct psd_store *s, const uint64_t map_seed[2], uint64_t budget_bytes)
{
    memset(s, 0, sizeof(*s));
    psd_arena_init(&s->arena);
    psd_arena_init(&s->records);
    memcpy(s->map_seed, map_seed, sizeof(s->map_seed));
    psi_map_init_borrowing(&s->containers, map_seed);
    psi_u64_map_init(&s->handles, map_seed);
    psi_u64_map_init(&s->creations, map_seed);
    psi_list_init(&s->free_attempts);
    s->budget_bytes = budget_bytes;
    s->next_handle = s->next_order = 1;
}

static void drop_all(struct psd_store *s, struct psd_container *c)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&c->variables, &cursor, NULL, NULL, &value)) {
        psd_variable_drop(s, value);
    }
}

void psd_store_fini(struct psd_store *s)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&s->containers, &cursor, NULL, NULL, &value)) {
        struct psd_container *c = value;
        psd_rounds_end(s, c);
        drop_all(s, c);
        psi_map_fini(&c->variables);
        psd_shown_forget_container(s, c);
        psi_free(c->cut_bare);
        psi_free(c);
    }
    psi_map_fini(&s->containers);
    psi_u64_map_fini(&s->handles);
    psi_u64_map_fini(&s->creations);
    psd_attempts_fini(s);
    psd_arena_fini(&s->records);
    psd_arena_fini(&s->arena);
}

ps_status psd_definition_check(const struct psd_definition *d, const char *name, struct psi_err *err)
{
    if (d->queue) {
        return d->dtype == PS_DTYPE_NONE && d->optimizer.kind == PS_OPT_NONE && !d->atomic && d->part.count == 0
                   ? PS_OK
                   : psi_fail(err, PS_INVALID_ARGUMENT, "queue '%s': it has neither dtype nor optimizer, and is not atomic",
                              name);
    }
    ps_status st = psi_variable_check(d->dtype, &d->shape, d->atomic, err);
    if (st == PS_OK) {
        st = psi_optimizer_check(&d->optimizer, d->dtype, err);
    }
    st = st == PS_OK ? psi_part_check(&d->part, d->dtype, &d->shape, name, err) : st;
    if (st == PS_OK && d->part.count > 0 && psi_optimizer_is_whole(d->optimizer.kind)) {
        st = psi_fail(err, PS_UNIMPLEMENTED,
                      "%s needs norms of the whole variable, of which a task has a part only; a variable without parts works",
                      psi_optimizer_name(d->optimizer.kind));
    }
    st = st == PS_OK ? psi_optimizer_check_shape(&d->optimizer, name, d->dtype, &d->shape, &d->part, err) : st;
    if (st != PS_OK) {
        psi_err_prefix(err, "variable '%s'", name);
    }
    return st;
}

ps_status psd_definition_compare(const struct psd_definition *have, const char *where, const struct psd_definition *want,
                                 const char *name, struct psi_err *err)
{
    if (have->queue != want->queue) {
        return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_SHAPE_MISMATCH,
                           "%s: '%s' exists at %s as a %s; asked for as a %s" PSI_MISMATCH_REMEDY,
                           ps_reason_name(PS_REASON_SHAPE_MISMATCH), name, where, have->queue ? "queue" : "variable",
                           want->queue ? "queue" : "variable");
    }
    bool same_shape =
        have->dtype == want->dtype && psi_shape_equal(&have->shape, &want->shape) && psi_part_equal(&have->part, &want->part);
    bool same_optimizer = psi_optimizer_fits(&have->optimizer, &want->optimizer);
    if (same_shape && same_optimizer && have->atomic == want->atomic) {
        return PS_OK;
    }
    char p[PSI_PART_TEXT_MAX], q[PSI_PART_TEXT_MAX];
    char a[PSI_SHAPE_TEXT_MAX], b[PSI_SHAPE_TEXT_MAX], x[PSI_OPTIMIZER_SLOTS_TEXT_MAX], y[PSI_OPTIMIZER_SLOTS_TEXT_MAX];
    ps_reason reason = psi_mismatch(same_shape, same_optimizer);
    return psi_fail_as(
        err, PS_INVALID_ARGUMENT, reason,
        "%s: variable '%s' exists at %s as %s%s %s%s optimizer %s; asked for as %s%s %s%s optimizer %s" PSI_MISMATCH_REMEDY,
        ps_reason_name(reason), name, where, have->atomic ? "atomic " : "", ps_dtype_name(have->dtype),
        psi_shape_format(&have->shape, a, sizeof(a)), psi_part_format(&have->part, &have->shape, p, sizeof(p)),
        psi_optimizer_slots_text(&have->optimizer, x, sizeof(x)), want->atomic ? "atomic " : "", ps_dtype_name(want->dtype),
        psi_shape_format(&want->shape, b, sizeof(b)), psi_part_format(&want->part, &want->shape, q, sizeof(q)),
        psi_optimizer_slots_text(&want->optimizer, y, sizeof(y)));
}

bool psd_definition_equal(const struct psd_definition *a, const struct psd_definition *b)
{
    return a->queue == b->queue && a->dtype == b->dtype && psi_shape_equal(&a->shape, &b->shape) && a->atomic == b->atomic &&
           psi_optimizer_equal(&a->optimizer, &b->optimizer) && psi_part_equal(&a->part, &b->part);
}

const struct psd_container *psd_container_find(const struct psd_store *s, const char *name)
{
    return psi_map_find(&s->containers, name, strlen(name));
}

const struct psd_variable *psd_variable_find(const struct psd_container *c, const char *name)
{
    return c == NULL || c->emptying ? NULL : psi_map_find(&c->variables, name, strlen(name));
}

const struct psd_variable *psd_variable_by_handle(const struct psd_store *s, uint32_t handle)
{
    const struct psd_variable *v = psi_u64_map_find(&s->handles, handle);
    return v == NULL || v->container->emptying ? NULL : v;
}

const struct psd_variable *psd_variable_left(const struct psd_store *s, uint32_t handle)
{
    return psi_u64_map_find(&s->handles, handle);
}

bool psd_variable_is_gone(const struct psd_variable *v)
{
    return v->gone || v->container->emptying;
}

void psd_container_emptying(const struct psd_container *c, bool emptying)
{
    psd_container_own(c)->emptying = emptying;
}

void psd_container_rate(const struct psd_store *s, uint32_t rated, const struct psd_container *c, double rate)
{
    struct psd_container *own = psd_container_own(c);
    own->rated = rated;
    own->rate = rate;
    own->rate_cut = s->cut != NULL ? s->cut->serial : 0;
}

void psd_container_rated(const struct psd_container *c)
{
    psd_container_own(c)->rated = 0;
}

double psd_variable_rate(const struct psd_variable *v)
{
    const struct psd_container *c = v->container;
    return c != NULL && v->handle < c->rated && v->optimizer.kind != PS_OPT_NONE ? c->rate : v->rate;
}

double psd_variable_rate_in_cut(const struct psd_variable *v)
{
    return v->container->rate_cut == v->cut ? v->rate : psd_variable_rate(v);
}

uint32_t psd_container_count(const struct psd_container *c)
{
    return c->emptying ? 0 : psi_map_count(&c->variables);
}

static void prefetch(const void *p, uint64_t bytes)
{
    for (uint64_t at = 0; p != NULL && at < bytes; at += 64) {
        __builtin_prefetch((const uint8_t *)p + at);
    }
}

void psd_variables_warm(const struct psd_store *s, const uint64_t *handles, uint32_t n, uint64_t bytes)
{
    void *found[PSD_WARM_MAX];
    PSI_ASSERT(n <= PSD_WARM_MAX);
    psi_u64_map_find_all(&s->handles, handles, n, found);
    for (uint32_t i = 0; i < n; i++) {
        prefetch(found[i], PSD_VARIABLE_HOT_BYTES);
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct psd_variable *v = found[i];
        if (v == NULL) {
            continue;
        }
        const uint64_t most = bytes < v->bytes ? bytes : v->bytes;
        prefetch(v->value, most);
        for (size_t k = 0; k < PSD_OPTIM_SLOTS_MAX; k++) {
            const uint64_t has = psd_variable_bytes_of(v, 1 + (uint32_t)k);
            prefetch(v->slots[k], most < has ? most : has);
        }
    }
}

const struct psd_variable *psd_variable_by_creation(const struct psd_store *s, uint64_t creation)
{
    return psi_u64_map_find(&s->creations, creation);
}

struct psd_definition psd_variable_definition(const struct psd_variable *v)
{
    return (struct psd_definition){.dtype = v->dtype,
                                   .shape = psd_variable_shape(v),
                                   .optimizer = v->optimizer,
                                   .atomic = v->atomic,
                                   .queue = v->queue != NULL,
                                   .part = psd_variable_part_of(v)};
}

ps_shape psd_variable_shape(const struct psd_variable *v)
{
    ps_shape shape = {.rank = v->rank};
    memcpy(shape.dims, v->name + strlen(v->name) + 1, v->rank * sizeof(shape.dims[0]));
    return shape;
}

struct psi_part psd_variable_part_of(const struct psd_variable *v)
{
    struct psi_part part = {.count = 0};
    if (v->is_part) {
        memcpy(&part, v->name + strlen(v->name) + 1 + v->rank * sizeof(int64_t), sizeof(part));
    }
    return part;
}

double psd_variable_rate_at(const struct psd_variable *v, uint64_t step, double set_rate)
{
    return set_rate != 0 ? set_rate : psi_schedule_rate(&v->optimizer, step != 0 ? step - 1 : v->step);
}

void psd_variable_capture_at(const struct psd_variable *v, uint64_t step, double set_rate, float scale,
                             struct psd_optim_scalars *out)
{
    psd_optim_begin(&v->optimizer, psd_variable_rate_at(v, step, set_rate), v->dtype, &v->optim_state, v->pushes, scale, out);
}

void psd_variable_capture(const struct psd_variable *v, uint64_t step, float scale, struct psd_optim_scalars *out)
{
    psd_variable_capture_at(v, step, psd_variable_rate(v), scale, out);
}

const struct psd_variable *psd_variable_ref(const struct psd_variable *v)
{
    psd_variable_own(v)->refs++;
    return v;
}

struct psi_list *psd_variable_waiters(const struct psd_variable *v)
{
    return &psd_variable_own(v)->waiters;
}

uint32_t psd_variable_sum(const struct psd_variable *v, uint64_t offset, uint32_t bytes)
{
    return psd_sums_get(&psd_variable_own(v)->sums, v->value, v->bytes, offset, bytes);
}

static uint64_t piece_bytes(const char *name, uint32_t rank, bool is_part)
{
    return sizeof(struct psd_variable) + strlen(name) + 1 + rank * sizeof(int64_t) + (is_part ? sizeof(struct psi_part) : 0);
}

uint64_t psd_variable_record_bytes(const char *name, uint32_t rank, bool is_part)
{
    /* a variable has three map entries: by name, by handle and by creation */
    return psd_arena_bytes(piece_bytes(name, rank, is_part)) + (uint64_t)3 * PSI_MAP_ENTRY_BYTES;
}

void psd_variable_unref(struct psd_store *s, const struct psd_variable *held)
{
    struct psd_variable *v = psd_variable_own(held);
    PSI_ASSERT(v->refs > 0);
    if (--v->refs > 0) {
        return;
    }
    PSI_ASSERT(psi_list_empty(&v->waiters));
    psd_sums_reset(&v->sums);
    psd_kept_let_go(s, &v->kept[0], v->value, v->bytes);
    for (uint32_t i = 0; i < PSD_OPTIM_SLOTS_MAX; i++) {
        psd_kept_let_go(s, &v->kept[1 + i], v->slots[i], psd_variable_bytes_of(v, 1 + i));
    }
    s->promised_bytes -= psd_variable_promised_bytes(v);
    psd_queue_free(s, v->queue);
    const uint64_t record_bytes = psd_variable_record_bytes(v->name, v->rank, v->is_part);
    s->gone_bytes -= v->gone ? record_bytes : 0;
    psd_store_uncount(s, PSD_MEMORY_VARIABLES, record_bytes);
    psd_arena_free(&s->records, v, piece_bytes(v->name, v->rank, v->is_part));
}

static uint64_t element_count(const struct psd_definition *d)
{
    return d->queue ? 0 : (uint64_t)ps_shape_elements(&d->shape);
}

/* Bytes of a value with this definition; strings: of a value of empty strings. */
static uint64_t value_bytes(const struct psd_definition *d)
{
    uint64_t elements = element_count(d);
    return d->dtype == PS_STRING ? psi_blob_bytes_min(elements) : elements * ps_dtype_bytes(d->dtype);
}

static uint64_t slot_bytes(const ps_optimizer *optimizer, uint32_t slot, ps_dtype dtype, const ps_shape *shape)
{
    const ps_shape of = psi_slot_shape(psi_optimizer_slot(optimizer, slot), shape);
    return (uint64_t)ps_shape_elements(&of) * ps_dtype_bytes(dtype);
}

uint64_t psd_definition_memory_bytes(const struct psd_definition *d)
{
    uint64_t bytes = d->queue ? 0 : psd_arena_bytes(value_bytes(d));
    for (uint32_t i = 0; !d->queue && i < psd_optim_slot_count(&d->optimizer); i++) {
        bytes += psd_arena_bytes(slot_bytes(&d->optimizer, i, d->dtype, &d->shape));
    }
    return bytes;
}

uint64_t psd_variable_promised_bytes(const struct psd_variable *v)
{
    uint64_t bytes = v->queue != NULL ? 0 : psd_arena_bytes(v->bytes);
    for (uint32_t i = 0; v->queue == NULL && i < psd_optim_slot_count(&v->optimizer); i++) {
        bytes += psd_arena_bytes(psd_variable_bytes_of(v, 1 + i));
    }
    return bytes;
}

uint64_t psd_variable_memory_bytes(const struct psd_variable *v)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; v->value != NULL && i <= psd_optim_slot_count(&v->optimizer); i++) {
        bytes += psd_variable_bytes_of(v, i);
    }
    return bytes;
}

static bool is_by_row(const struct psd_variable *v, uint32_t which)
{
    const struct psi_slot *slot = which == 0 || v->row_elements == 1 ? NULL : psi_optimizer_slot(&v->optimizer, which - 1);
    return slot != NULL && slot->by_row;
}

uint64_t psd_variable_bytes_of(const struct psd_variable *v, uint32_t which)
{
    return which == 0 || v->row_elements == 1 ? v->bytes : psd_variable_elements_of(v, which) * v->element_bytes;
}

uint64_t psd_variable_elements_of(const struct psd_variable *v, uint32_t which)
{
    return v->elements / (is_by_row(v, which) ? v->row_elements : 1);
}

struct psd_span psd_variable_span(const struct psd_variable *v, uint32_t which, uint64_t first, uint64_t count)
{
    if (!is_by_row(v, which)) { /* the usual case is first: each small push comes here, and needs no division */
        return (struct psd_span){.at = first * v->element_bytes, .bytes = count * v->element_bytes};
    }
    return (struct psd_span){.at = first / v->row_elements * v->element_bytes,
                             .bytes = count / v->row_elements * v->element_bytes};
}

void psd_store_unstage_kept(struct psd_store *s, void *p, uint64_t n, struct psd_kept **kept)
{
    psd_kept_let_go(s, kept, p, n);
    s->promised_bytes -= psd_arena_bytes(n);
}

void *psd_variable_stage_first(struct psd_store *s, const struct psd_variable *v, uint64_t bytes)
{
    if (v->value != NULL || v->first_value != NULL || v->dtype == PS_STRING) {
        return NULL;
    }
    psd_variable_own(v)->first_value = psd_arena_alloc(&s->arena, bytes);
    return v->first_value;
}

void psd_variable_unstage_kept(struct psd_store *s, const struct psd_variable *v, void *p, uint64_t bytes, struct psd_kept **kept)
{
    if (p != v->first_value) {
        psd_store_unstage_kept(s, p, bytes, kept);
        return;
    }
    psd_kept_let_go(s, kept, p, bytes);
    psd_variable_own(v)->first_value = NULL;
}

ps_status psd_variable_reserve_slots(struct psd_store *s, const struct psd_variable *v, struct psi_err *err)
{
    void **slots = psd_variable_own(v)->slots;
    for (uint32_t i = 0; i < psd_optim_slot_count(&v->optimizer); i++) {
        if (slots[i] == NULL) {
            slots[i] = psd_arena_alloc(&s->arena, psd_variable_bytes_of(v, 1 + i));
        }
        if (slots[i] == NULL) {
            return psi_fail(err, PS_RESOURCE_EXHAUSTED, "variable '%s': no memory for slot '%s'", v->name,
                            psi_optimizer_slot(&v->optimizer, i)->name);
        }
    }
    return PS_OK;
}

ps_status psd_container_reserve(struct psd_store *s, const char *name, struct psd_container **out, struct psi_err *err)
{
    if (psd_store_missing(s, PSD_CONTAINER_BYTES) > 0) {
        return psd_store_full(s, "container", name, PSD_CONTAINER_BYTES, err);
    }
    struct psd_container *c = psi_calloc(1, sizeof(*c));
    if (c == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "container '%s': memory", name);
    }
    ps_status st = psi_map_reserve(&s->containers, strlen(name), err);
    if (st != PS_OK) {
        psi_free(c);
        return st;
    }
    memcpy(c->name, name, strlen(name) + 1);
    c->of_session = psi_container_is_session(name);
    psi_list_init(&c->shown);
    psi_map_init_borrowing(&c->variables, s->map_seed);
    *out = c;
    return PS_OK;
}

void psd_container_add(struct psd_store *s, struct psd_container *c, uint64_t incarnation)
{
    c->incarnation = incarnation;
    c->number = s->containers_made++;
    c->moved = s->moved;
    ps_status st = psi_map_put(&s->containers, c->name, strlen(c->name), c, NULL, NULL);
    PSI_ASSERT(st == PS_OK); /* psd_container_reserve() has made room in the map */
    psd_store_count(s, PSD_MEMORY_CONTAINERS, PSD_CONTAINER_BYTES);
}

void psd_container_reset(struct psd_store *s, struct psd_container *c, uint64_t incarnation)
{
    psd_rounds_end(s, c);
    drop_all(s, c);
    psi_map_fini(&c->variables);
    c->incarnation = incarnation;
    c->start = c->next = 0;
    c->by_rounds = false;
    memset(c->ages, 0, sizeof(c->ages));
    if (c->of_session) { /* its name is random, so no later container will have it */
        PSI_IGNORE(psi_map_remove(&s->containers, c->name, strlen(c->name))); /* returns c */
        psd_store_uncount(s, PSD_MEMORY_CONTAINERS, PSD_CONTAINER_BYTES);
        psd_shown_forget_container(s, c);
        psi_free(c->cut_bare);
        psi_free(c);
    }
}

void psd_container_keyed(const struct psd_container *c, const uint8_t key[PSI_KEY_BYTES])
{
    memcpy(psd_container_own(c)->key, key, PSI_KEY_BYTES);
}

bool psd_variable_of_session(const struct psd_variable *v)
{
    return v->container != NULL && v->container->of_session;
}

static ps_status reserve_places(struct psd_store *s, const struct psd_container *c, const char *name, struct psi_err *err)
{
    ps_status st = psi_map_reserve(&psd_container_own(c)->variables, strlen(name), err);
    if (st == PS_OK) {
        st = psi_u64_map_reserve(&s->handles, err);
    }
    return st == PS_OK ? psi_u64_map_reserve(&s->creations, err) : st;
}

ps_status psd_variable_reserve(struct psd_store *s, const struct psd_container *c, const char *name,
                               const struct psd_definition *d, struct psd_variable **out, struct psi_err *err)
{
    uint64_t bytes = psd_definition_memory_bytes(d);
    if (s->variable_count >= PS_VARIABLES_MAX || s->next_handle == UINT32_MAX || s->next_order == UINT32_MAX) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "variable '%s': this task already holds %u variables", name,
                        s->variable_count);
    }
    const bool is_part = d->part.count > 0;
    const uint64_t piece = piece_bytes(name, d->shape.rank, is_part);
    uint64_t record_bytes = psd_variable_record_bytes(name, d->shape.rank, is_part);
    if (psd_store_missing(s, bytes + record_bytes) > 0) {
        return psd_store_full(s, d->queue ? "queue" : "variable", name, bytes + record_bytes, err);
    }
    struct psd_variable *v = psd_arena_alloc(&s->records, piece);
    if (v == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "variable '%s': memory for its record", name);
    }
    ps_status st = reserve_places(s, c, name, err);
    if (st != PS_OK) {
        psd_arena_free(&s->records, v, piece);
        return st;
    }
    s->promised_bytes += bytes;
    psd_store_count(s, PSD_MEMORY_VARIABLES, record_bytes);
    memcpy(v->name, name, strlen(name) + 1);
    v->dtype = d->dtype;
    v->element_bytes = (uint16_t)ps_dtype_bytes(d->dtype);
    v->row_elements = 1;
    for (uint32_t i = 1; psi_optimizer_is_by_row(d->optimizer.kind) && i < d->shape.rank; i++) {
        /* cannot overflow: a row has at most PSI_ROW_BYTES_MAX */
        v->row_elements = (uint16_t)(v->row_elements * d->shape.dims[i]);
    }
    v->rank = (uint8_t)d->shape.rank;
    char *behind = v->name + strlen(name) + 1;
    memcpy(behind, d->shape.dims, v->rank * sizeof(d->shape.dims[0]));
    v->is_part = is_part;
    if (is_part) {
        memcpy(behind + v->rank * sizeof(d->shape.dims[0]), &d->part, sizeof(d->part));
    }
    v->elements = element_count(d);
    v->bytes = value_bytes(d);
    v->atomic = d->atomic;
    v->optimizer = d->optimizer;
    v->refs = 1;
    psi_list_init(&v->waiters);
    *out = v;
    return PS_OK;
}

void psd_variable_add(struct psd_store *s, struct psd_container *c, struct psd_variable *v, uint64_t creation)
{
    v->container = c;
    v->creation = creation;
    v->handle = s->next_handle++;
    s->next_order = v->order < s->next_order ? s->next_order : v->order + 1;
    s->variable_count++;
    s->queue_count += v->queue != NULL;
    s->variable_bytes += v->bytes;
    ps_status st = psi_map_put(&c->variables, v->name, strlen(v->name), v, NULL, NULL);
    if (st == PS_OK) {
        st = psi_u64_map_put(&s->handles, v->handle, v, NULL, NULL);
    }
    if (st == PS_OK) {
        st = psi_u64_map_put(&s->creations, creation, v, NULL, NULL);
    }
    PSI_ASSERT(st == PS_OK); /* psd_variable_reserve() has made room in the maps */
}

void psd_variable_drop(struct psd_store *s, struct psd_variable *v)
{
    PSI_ASSERT(!psd_variable_in_group(v));
    PSI_IGNORE(psi_map_remove(&v->container->variables, v->name, strlen(v->name))); /* returns v */
    PSI_IGNORE(psi_u64_map_remove(&s->handles, v->handle));                         /* returns v */
    PSI_IGNORE(psi_u64_map_remove(&s->creations, v->creation));                     /* returns v */
    v->gone = true;
    v->container = NULL;
    s->gone_bytes += psd_variable_record_bytes(v->name, v->rank, v->is_part);
    s->variable_count--;
    s->variable_bytes -= v->bytes;
    if (v->queue != NULL) {
        s->queue_count--;
        psd_queue_clear(s, v->queue);
    }
    s->dropped++;
    psd_variable_unref(s, v);
}

/* Fill elements [first, first + count) of slot i, which go to dst, with their initial values. value: the variable's elements. */
static void fill_slot(const struct psd_variable *v, const ps_optimizer *optimizer, uint32_t i, uint64_t first, uint64_t count,
                      const void *value, void *dst)
{
    if (psi_optimizer_slot(optimizer, i)->average) {
        memcpy(dst, value, count * v->element_bytes);
        return;
    }
    const ps_initializer fill = {.kind = PS_INIT_CONSTANT, .a = psd_optim_slot_init(optimizer, i)};
    const ps_shape of = psd_variable_shape(v), shape = psi_slot_shape(psi_optimizer_slot(optimizer, i), &of);
    psi_init_fill(&fill, v->dtype, &shape, 0, v->name, first, count, dst);
}

/* Write the initial values of elements [first, first + count) to dst. A part gets its elements of the larger variable. */
static void fill_value(const struct psd_variable *v, const struct psd_making *m, uint64_t first, uint64_t count, void *dst)
{
    const ps_shape shape = psd_variable_shape(v);
    if (!v->is_part) {
        psi_init_fill(&m->init, v->dtype, &shape, m->seed, v->name, first, count, dst);
        return;
    }
    char whole[PS_NAME_BYTES_MAX + 1];
    const struct psi_part part = psd_variable_part_of(v);
    const struct psi_parts parts = psi_part_whole(&part, &shape);
    psi_part_whole_name(&part, v->name, whole);
    for (uint64_t done = 0; done < count;) {
        const struct psi_part_run run = psi_part_run(&parts, part.index, first + done, count - done);
        psi_init_fill(&m->init, v->dtype, &parts.shape, m->seed, whole, run.whole, run.count,
                      (uint8_t *)dst + done * v->element_bytes);
        done += run.count;
    }
}

static void make_slots(struct psd_variable *v, const void *value)
{
    for (uint32_t i = 0; i < psd_optim_slot_count(&v->optimizer); i++) {
        fill_slot(v, &v->optimizer, i, 0, psd_variable_elements_of(v, 1 + i), value, v->slots[i]);
    }
    psd_optim_state_init(&v->optimizer, v->dtype, &v->optim_state);
}

void psd_variable_resize(struct psd_store *s, struct psd_variable *v, uint64_t bytes)
{
    if (v->container != NULL) { /* NULL: v is being made or was dropped, and is not counted in variable_bytes */
        s->variable_bytes += bytes - v->bytes;
    }
    v->bytes = bytes;
}

static void count_value(struct psd_variable *v)
{
    v->version = v->initialised ? v->version + 1 : 0;
    v->initialised = true;
}

/* Make `value`, which the caller has allocated, the value of v. The old value is freed, and leaves the budget. */
static void take_value(struct psd_store *s, struct psd_variable *v, void *value, uint64_t bytes)
{
    if (v->first_value == NULL) {
        psd_kept_let_go(s, &v->kept[0], v->value, v->bytes);
        s->promised_bytes -= psd_arena_bytes(v->bytes);
    }
    psd_sums_reset(&v->sums);
    /* if another mutation gathers in first_value, the variable's share of the budget is for `value` from now on */
    v->first_value = NULL;
    v->value = value;
    psd_variable_resize(s, v, bytes);
}

void psd_variable_swap_in(struct psd_store *s, struct psd_variable *v, void *value, uint64_t bytes, struct psd_kept **kept)
{
    PSI_ASSERT(v->dtype == PS_STRING || bytes == v->bytes);
    if (!v->initialised) {
        make_slots(v, value);
    }
    take_value(s, v, value, bytes);
    psd_kept_move(&v->kept[0], kept);
    count_value(v);
}

void psd_variable_swap_slot_in(struct psd_store *s, struct psd_variable *v, uint32_t slot, void *values, struct psd_kept **kept)
{
    PSI_ASSERT(v->initialised && slot > 0 && slot <= psd_optim_slot_count(&v->optimizer));
    const uint64_t bytes = psd_variable_bytes_of(v, slot);
    psd_kept_let_go(s, &v->kept[slot], v->slots[slot - 1], bytes);
    s->promised_bytes -= psd_arena_bytes(bytes);
    v->slots[slot - 1] = values;
    psd_kept_move(&v->kept[slot], kept);
}

ps_status psd_variable_make_at_once(struct psd_store *s, const struct psd_variable *v, struct psd_making *m, struct psi_err *err)
{
    m->done = 0;
    m->replaces = false;
    /* empty strings fit into the memory that the budget has set aside since the variable was created */
    if (v->dtype == PS_STRING) {
        m->value = psd_arena_alloc(&s->arena, psi_blob_bytes_min(v->elements));
    } else if (v->value != NULL) {
        m->value = v->value;
    } else {
        m->value = v->first_value != NULL ? psd_store_stage(s, v->bytes) : psd_variable_stage_first(s, v, v->bytes);
    }
    if (m->value == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "variable '%s': no memory for its value%s", v->name,
                        v->first_value != NULL ? " beside that of an assign that is under way" : "");
    }
    ps_status st = psd_variable_reserve_slots(s, v, err);
    if (st != PS_OK) {
        psd_variable_make_end(s, v, m);
        return st;
    }
    memcpy(m->slots, v->slots, sizeof(m->slots));
    return PS_OK;
}

bool psd_variable_make_begin(struct psd_store *s, const struct psd_variable *v, struct psd_making *m)
{
    struct psi_err err;
    m->done = 0;
    if (m->replaces) {
        return true;
    }
    if (psd_variable_reserve_slots(s, v, &err) != PS_OK) {
        return false;
    }
    memcpy(m->slots, v->slots, sizeof(m->slots));
    return true;
}

/* Fill elements [first, first + count) of the value (which 0) or of slot `which` in m. */
static void make_elements(const struct psd_variable *v, struct psd_making *m, uint32_t which, uint64_t first, uint64_t count)
{
    const uint64_t at = first * v->element_bytes;
    if (which == 0) {
        fill_value(v, m, first, count, (uint8_t *)m->value + at);
    } else {
        fill_slot(v, &m->optimizer, which - 1, first, count, (const uint8_t *)m->value + at, (uint8_t *)m->slots[which - 1] + at);
    }
}

bool psd_variable_make(const struct psd_variable *v, struct psd_making *m, uint64_t bytes)
{
    PSI_ASSERT(m->value != NULL && (m->replaces || !v->initialised || m->value == v->value));
    const uint32_t slots = psd_optim_slot_count(&v->optimizer);
    uint64_t left = bytes < v->element_bytes ? 1 : bytes / v->element_bytes;
    uint64_t before = 0; /* number of elements in the arrays before array `which` */
    for (uint32_t which = 0; which <= slots; which++) {
        const uint64_t elements = psd_variable_elements_of(v, which);
        if (left > 0 && m->done < before + elements) {
            const uint64_t first = m->done - before;
            const uint64_t count = elements - first < left ? elements - first : left;
            make_elements(v, m, which, first, count);
            m->done += count;
            left -= count;
        }
        before += elements;
    }
    return m->done == before;
}

void psd_variable_make_end(struct psd_store *s, const struct psd_variable *v, struct psd_making *m)
{
    struct psd_kept *nobody = NULL;
    if (m->value != NULL) {
        psd_variable_unstage_kept(s, v, m->value, v->bytes, &nobody);
    }
    for (uint32_t i = 0; m->replaces && i < PSD_OPTIM_SLOTS_MAX; i++) {
        if (m->slots[i] != NULL) {
            psd_store_unstage(s, m->slots[i], psd_variable_bytes_of(v, 1 + i));
        }
    }
    m->value = NULL;
    memset(m->slots, 0, sizeof(m->slots));
}

/* Make `value`, a blob of empty strings, the value of v. The old value is freed, and v's share of the budget shrinks. */
static void take_empty_strings(struct psd_store *s, struct psd_variable *v, void *value)
{
    uint64_t bytes = psi_blob_bytes_min(v->elements);
    PSI_ASSERT(v->bytes >= bytes);
    psd_kept_let_go(s, &v->kept[0], v->value, v->bytes);
    s->promised_bytes -= psd_arena_bytes(v->bytes) - psd_arena_bytes(bytes);
    v->value = value;
    psd_variable_resize(s, v, bytes);
}

static void take_made(struct psd_store *s, struct psd_variable *v, struct psd_making *m)
{
    while (!psd_variable_make(v, m, UINT64_MAX)) {
    }
    for (uint32_t i = 0; m->replaces && i < psd_optim_slot_count(&v->optimizer); i++) {
        psd_store_unstage_kept(s, v->slots[i], psd_variable_bytes_of(v, 1 + i),
                               &v->kept[1 + i]); /* the new slot takes the old slot's share of the budget */
        v->slots[i] = m->slots[i];
        m->slots[i] = NULL;
    }
    psd_optim_state_init(&v->optimizer, v->dtype, &v->optim_state);
    if (m->value != v->value) {
        take_value(s, v, m->value, v->bytes);
    }
}

void psd_variable_initialise(struct psd_store *s, struct psd_variable *v, struct psd_making *m)
{
    if (v->dtype == PS_STRING) {
        take_empty_strings(s, v, m->value);
    } else {
        take_made(s, v, m);
    }
    psd_sums_reset(&v->sums); /* take_made() keeps the CRCs if the new value lies in the memory of the old value */
    m->value = NULL;
    v->init = m->init;
    v->seed = m->seed;
    v->checkpoint = v->checkpoint_version = 0;
    count_value(v);
}

void psd_store_check_invariants(const struct psd_store *s)
{
    uint32_t count = 0, queues = 0;
    uint64_t cursor = 0, records = 0, bytes = 0;
    void *value = NULL;
    while (psi_map_next(&s->containers, &cursor, NULL, NULL, &value)) {
        const struct psd_container *c = value;
        if (c->rounds != NULL) {
            psd_rounds_check_invariants(c->rounds);
        }
        uint64_t inner = 0;
        void *item = NULL;
        while (psi_map_next(&c->variables, &inner, NULL, NULL, &item)) {
            const struct psd_variable *v = item;
            PSI_ASSERT(!v->gone && v->container == c && v->refs > 0);
            PSI_ASSERT(!v->initialised || v->value != NULL);
            PSI_ASSERT(v->value == NULL || v->first_value == NULL);
            PSI_ASSERT(psd_variable_left(s, v->handle) == v);
            PSI_ASSERT(!v->sealed || v->initialised);
            PSI_ASSERT(v->part == NULL || (v->part->variable == v && v->part->rounds == c->rounds));
            PSI_ASSERT(!psd_variable_in_rounds(v) || v->in_progress == 0);
            if (v->queue != NULL) {
                PSI_ASSERT(!v->initialised && v->bytes == 0 && v->refs > v->queue->attempt_count);
                psd_queue_check_invariants(v->queue);
                queues++;
            }
            count++;
            records += psd_variable_record_bytes(v->name, v->rank, v->is_part);
            bytes += v->bytes;
        }
    }
    PSI_ASSERT(s->counted[PSD_MEMORY_VARIABLES] == records + s->gone_bytes);
    PSI_ASSERT(count == s->variable_count && queues == s->queue_count && bytes == s->variable_bytes);
    PSI_ASSERT(psi_u64_map_count(&s->handles) == count && psi_u64_map_count(&s->creations) == count);
    PSI_ASSERT(s->promised_bytes <= s->budget_bytes || s->budget_lowered);
}

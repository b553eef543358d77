/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a task remembers is the fold of its changes: those of each life are encoded as they come, and when it ends, whichever way,
 * decoded and replayed into an empty task, which must then be like the living one. Every field that is marked remembered or
 * derived is compared here by name, so that scripts/lint/fields sees one that is missed.
 */
#include "sim.h"
#include "change_code.h"

#include "psd/checkpoint/beside.h"

#include "common/rows.h"

#include <stdlib.h>
#include <string.h>

enum { CHANGES_BYTES_MAX = 1 << 30 };

/* Who is compared with whom, for the text of a failure. */
struct look {
    struct sim *s;
    const struct sim_task *t;
    const char *of; /* a name, or who */
    bool cut;       /* b comes from a checkpoint: things have no order there, and groups of rounds are not in it */
};

static void differs(const struct look *l, const char *field)
{
    sim_fail(l->s, "%s: %s of %s at %s:%u is not what %s gives", l->cut ? "CUT" : "REPLAY", field, l->of, l->t->job, l->t->index,
             l->cut ? "its checkpoint" : "the replay of its changes");
}

static void differs_by(const struct look *l, const char *field, long long living, long long replayed)
{
    sim_fail(l->s, "%s: %s of %s at %s:%u is %lld, after its %s %lld", l->cut ? "CUT" : "REPLAY", field, l->of, l->t->job,
             l->t->index, living, l->cut ? "checkpoint was loaded" : "changes were replayed", replayed);
}

/* a: a struct `type` of the living task, b: of the replayed one. */
#define CHECK(type, field, same)                                                                                                 \
    do {                                                                                                                         \
        if (!(same)) {                                                                                                           \
            differs(l, #type "." #field);                                                                                        \
        }                                                                                                                        \
    } while (0)
#define SAME(type, field)                                                                                                        \
    do {                                                                                                                         \
        if (a->field != b->field) {                                                                                              \
            differs_by(l, #type "." #field, (long long)a->field, (long long)b->field);                                           \
        }                                                                                                                        \
    } while (0)
#define SAME_BYTES(type, field) CHECK(type, field, memcmp(&a->field, &b->field, sizeof(a->field)) == 0)
#define SAME_TEXT(type, field) CHECK(type, field, strcmp(a->field, b->field) == 0)
#define SAME_BY(type, field, compare) compare(l, &a->field, &b->field)

static bool same_memory(const void *a, const void *b, uint64_t bytes)
{
    return (a == NULL) == (b == NULL) && (a == NULL || memcmp(a, b, bytes) == 0);
}

/* The entry of b that belongs to the next one of a; NULL: there is none. */
struct pairs {
    const struct psi_map *a, *b;
    uint64_t at_a, at_b;
};

static bool next_pair(const struct look *l, struct pairs *p, void **a, void **b)
{
    const char *key = NULL;
    size_t len = 0;
    if (!psi_map_next(p->a, &p->at_a, &key, &len, a)) {
        return false;
    }
    if (!l->cut) {
        return psi_map_next(p->b, &p->at_b, NULL, NULL, b);
    }
    *b = psi_map_find(p->b, key, len);
    if (*b == NULL) {
        sim_fail(l->s, "CUT: %.*s of %s at %s:%u is not in its checkpoint", (int)len, key, l->of, l->t->job, l->t->index);
    }
    return true;
}

/* ---- queues ---- */

static void elements(const struct look *l, const struct psd_element *a, const struct psd_element *b)
{
    SAME(psd_element, serial);
    SAME(psd_element, bytes);
    SAME(psd_element, deliveries);
    SAME(psd_element, state);
    CHECK(psd_element, data, a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0);
}

static void element_lists(const struct look *l, const struct psi_list *la, const struct psi_list *lb)
{
    struct psi_list *ia = la->next, *ib = lb->next;
    while (ia != la && ib != lb) {
        elements(l, PSI_CONTAINER_OF(ia, struct psd_element, link), PSI_CONTAINER_OF(ib, struct psd_element, link));
        ia = ia->next;
        ib = ib->next;
    }
    CHECK(psd_element, link, ia == la && ib == lb);
}

static void attempts(const struct look *l, const struct psd_attempt *a, const struct psd_attempt *b)
{
    SAME_BYTES(psd_attempt, record->session);
    SAME(psd_attempt, variable->creation);
    SAME(psd_attempt, id);
    SAME(psd_attempt, inserted);
    SAME(psd_attempt, done);
    SAME(psd_attempt, held);
    SAME(psd_attempt, element_count);
    SAME(psd_attempt, bytes);
    SAME_BY(psd_attempt, elements, element_lists);
}

/* Of a record, in the order in which they began. */
static void attempt_lists(const struct look *l, const struct psi_list *la, const struct psi_list *lb)
{
    struct psi_list *ia = la->next, *ib = lb->next;
    for (;;) {
        while (l->cut && ia != la && PSI_CONTAINER_OF(ia, struct psd_attempt, link)->variable->gone) {
            ia = ia->next; /* of a queue that is gone: not in a checkpoint */
        }
        if (ia == la || ib == lb) {
            break;
        }
        attempts(l, PSI_CONTAINER_OF(ia, struct psd_attempt, link), PSI_CONTAINER_OF(ib, struct psd_attempt, link));
        ia = ia->next;
        ib = ib->next;
    }
    CHECK(psd_attempt, link, ia == la && ib == lb);
}

/* ... and of a queue: which they are. */
static void attempts_of_queue(const struct look *l, const struct psi_list *la, const struct psi_list *lb)
{
    struct psi_list *ia = la->next, *ib = lb->next;
    if (l->cut) {
        return; /* their number is compared, and each of them with its record */
    }
    while (ia != la && ib != lb) {
        const struct psd_attempt *a = PSI_CONTAINER_OF(ia, struct psd_attempt, of_queue),
                                 *b = PSI_CONTAINER_OF(ib, struct psd_attempt, of_queue);
        CHECK(psd_attempt, of_queue, a->id == b->id);
        ia = ia->next;
        ib = ib->next;
    }
    CHECK(psd_attempt, of_queue, ia == la && ib == lb);
}

static void queues(const struct look *l, const struct psd_queue *a, const struct psd_queue *b)
{
    CHECK(psd_queue, spec, psi_queue_spec_equal(&a->spec, &b->spec));
    SAME(psd_queue, size);
    SAME(psd_queue, next_serial);
    SAME(psd_queue, draws);
    SAME(psd_queue, fill_hash);
    SAME(psd_queue, done);
    SAME(psd_queue, epoch);
    SAME(psd_queue, closed);
    SAME(psd_queue, filled);
    SAME(psd_queue, step);
    CHECK(psd_queue, sum, (a->sum == NULL) == (b->sum == NULL));
    if (a->sum != NULL && b->sum != NULL) {
        elements(l, a->sum, b->sum);
    }
    SAME(psd_queue, taken);
    SAME(psd_queue, bytes);
    SAME(psd_queue, attempt_count);
    SAME_BY(psd_queue, elements, element_lists);
    SAME_BY(psd_queue, attempts, attempts_of_queue);
    uint64_t places = a->spec.kind == PSI_QUEUE_SHUFFLE ? a->size : a->spec.kind == PSI_QUEUE_WORK ? a->next_serial - 1 : 0;
    for (uint64_t i = 0; i < places && a->size == b->size && a->next_serial == b->next_serial; i++) {
        CHECK(psd_queue, array, (a->array[i] == NULL) == (b->array[i] == NULL));
        elements(l, a->array[i], b->array[i]);
    }
}

/* ---- variables ---- */

static void variables(const struct look *l, const struct psd_variable *a, const struct psd_variable *b)
{
    SAME_TEXT(psd_variable, name);
    SAME_TEXT(psd_variable, container->name);
    SAME(psd_variable, dtype);
    const ps_shape of_a = psd_variable_shape(a), of_b = psd_variable_shape(b);
    CHECK(psd_variable, rank, memcmp(&of_a, &of_b, sizeof(of_a)) == 0);
    const struct psi_part part_a = psd_variable_part_of(a), part_b = psd_variable_part_of(b);
    CHECK(psd_variable, is_part, a->is_part == b->is_part && psi_part_equal(&part_a, &part_b));
    SAME(psd_variable, bytes);
    SAME_BYTES(psd_variable, optimizer);
    SAME_BYTES(psd_variable, rate);
    SAME(psd_variable, step);
    SAME_BYTES(psd_variable, optim_state);
    SAME_BYTES(psd_variable, init);
    SAME(psd_variable, seed);
    SAME(psd_variable, creation);
    SAME(psd_variable, version);
    SAME(psd_variable, chief_number);
    SAME(psd_variable, chief_value);
    SAME(psd_variable, pin);
    SAME(psd_variable, order);
    SAME(psd_variable, pushes);
    SAME(psd_variable, initialised);
    SAME(psd_variable, sealed);
    SAME(psd_variable, restored);
    SAME(psd_variable, given);
    SAME_BYTES(psd_variable, giver);
    SAME(psd_variable, atomic);
    SAME(psd_variable, element_bytes);
    SAME(psd_variable, row_elements);
    SAME(psd_variable, elements);
    CHECK(psd_variable, handle, l->cut ? b->handle == b->order : a->handle == b->handle);
    SAME(psd_variable, in_progress);
    CHECK(psd_variable, value, same_memory(a->value, b->value, a->bytes));
    for (uint32_t i = 0; i < PSD_OPTIM_SLOTS_MAX && a->initialised; i++) { /* before, they are only memory */
        CHECK(psd_variable, slots, same_memory(a->slots[i], b->slots[i], psd_variable_bytes_of(a, 1 + i)));
    }
    CHECK(psd_variable, part, l->cut || (a->part == NULL) == (b->part == NULL));
    CHECK(psd_variable, queue, (a->queue == NULL) == (b->queue == NULL));
    if (a->queue != NULL && b->queue != NULL) {
        queues(l, a->queue, b->queue);
    }
}

static void variable_maps(const struct look *l, const struct psi_map *ma, const struct psi_map *mb)
{
    struct pairs p = {.a = ma, .b = mb};
    void *a = NULL, *b = NULL;
    while (next_pair(l, &p, &a, &b)) {
        struct look one = {.s = l->s, .t = l->t, .of = ((const struct psd_variable *)a)->name, .cut = l->cut};
        variables(&one, a, b);
    }
}

/* ---- rounds ---- */

static void areas(const struct look *l, const struct psd_area *a, const struct psd_area *b, uint64_t bytes)
{
    SAME(psd_area, complete);
    SAME(psd_area, scale);
    CHECK(psd_area, from, (a->from == NULL) == (b->from == NULL)); /* what has come of it: at its psd_progress */
    CHECK(psd_area, memory, (a->memory == NULL) == (b->memory == NULL));
    SAME(psd_area, rows);
    CHECK(psd_area, memory, !a->complete || same_memory(a->memory, b->memory, bytes));
}

static void members(const struct look *l, const struct psd_rounds *ga, const struct psd_rounds *gb)
{
    struct psi_list *ia = ga->members.next, *ib = gb->members.next;
    while (ia != &ga->members && ib != &gb->members) {
        const struct psd_member *a = PSI_CONTAINER_OF(ia, struct psd_member, link),
                                *b = PSI_CONTAINER_OF(ib, struct psd_member, link);
        SAME(psd_member, id);
        SAME_BYTES(psd_member, session);
        SAME_TEXT(psd_member, job);
        SAME(psd_member, task);
        SAME(psd_member, round);
        SAME(psd_member, taken);
        for (uint32_t i = 0; i < ga->part_count; i++) {
            const struct psd_area *x = &a->areas[i], *y = &b->areas[i];
            CHECK(psd_member, areas, x->complete == y->complete);
            /* by rows: the indices, which lie first; the rows behind them are in the values that the replay has */
            areas(l, x, y, ga->parts[i].by_rows ? x->rows * PSI_INDEX_BYTES : ga->parts[i].variable->bytes);
        }
        ia = ia->next;
        ib = ib->next;
    }
    CHECK(psd_member, link, ia == &ga->members && ib == &gb->members);
}

static void sync_options(const struct look *l, const struct psd_sync_options *a, const struct psd_sync_options *b)
{
    SAME(psd_sync_options, mode);
    SAME(psd_sync_options, workers);
    SAME(psd_sync_options, replicas);
    SAME(psd_sync_options, on_loss);
    SAME(psd_sync_options, staleness);
    SAME(psd_sync_options, max_norm_each);
    SAME(psd_sync_options, max_norm);
    SAME(psd_sync_options, rows_per_step);
    SAME(psd_sync_options, rows_mean);
}

static void parts(const struct look *l, const struct psd_part *a, const struct psd_part *b)
{
    SAME(psd_part, variable->creation);
    SAME(psd_part, by_rows);
    SAME(psd_part, rows_max);
    CHECK(psd_part, rounds, a->rounds->generation == b->rounds->generation);
}

static void owners(const struct look *l, const struct psd_owner *a, const struct psd_owner *b)
{
    SAME_TEXT(psd_owner, job);
    SAME(psd_owner, task);
}

static void groups(const struct look *l, const struct psd_rounds *a, const struct psd_rounds *b)
{
    SAME(psd_rounds, generation);
    SAME_BY(psd_rounds, options, sync_options);
    SAME(psd_rounds, awaited);
    SAME(psd_rounds, over);
    SAME(psd_rounds, committed);
    SAME(psd_rounds, factor);
    CHECK(psd_rounds, step,
          (a->step == NULL) == (b->step == NULL) && (a->step == NULL || a->step->creation == b->step->creation));
    SAME(psd_rounds, part_count);
    SAME(psd_rounds, owner_count);
    SAME(psd_rounds, member_count);
    CHECK(psd_rounds, container, strcmp(a->container->name, b->container->name) == 0);
    for (uint32_t i = 0; i < a->part_count; i++) {
        SAME_BY(psd_rounds, parts[i], parts);
    }
    for (uint32_t i = 0; i < a->owner_count; i++) {
        SAME_BY(psd_rounds, owners[i], owners);
    }
    CHECK(psd_rounds, members, psi_list_empty(&a->members) == psi_list_empty(&b->members));
    members(l, a, b);
}

static void containers(const struct look *l, const struct psi_map *ma, const struct psi_map *mb)
{
    struct pairs pair = {.a = ma, .b = mb};
    void *pa = NULL, *pb = NULL;
    while (next_pair(l, &pair, &pa, &pb)) {
        const struct psd_container *a = pa, *b = pb;
        SAME_TEXT(psd_container, name);
        SAME(psd_container, incarnation);
        CHECK(psd_container, number, l->cut || a->number == b->number);
        CHECK(psd_container, variables, psi_map_count(&a->variables) == psi_map_count(&b->variables));
        SAME_BY(psd_container, variables, variable_maps);
        CHECK(psd_container, rounds, l->cut ? b->rounds == NULL : (a->rounds == NULL) == (b->rounds == NULL));
        if (a->rounds != NULL && b->rounds != NULL) {
            groups(l, a->rounds, b->rounds);
        }
    }
}

/* Two indexes of the variables: the same keys lead to the same creations. */
static void indexes(const struct look *l, const struct psi_u64_map *ma, const struct psi_u64_map *mb)
{
    uint64_t cursor = 0, key = 0;
    void *value = NULL;
    while (psi_u64_map_next(ma, &cursor, &key, &value)) {
        const struct psd_variable *a = value, *b = psi_u64_map_find(mb, key);
        CHECK(psd_store, handles, b != NULL && a->creation == b->creation);
    }
}

static void stores(const struct look *l, const struct psd_store *a, const struct psd_store *b)
{
    SAME(psd_store, dropped);
    SAME(psd_store, variable_count);
    SAME(psd_store, queue_count);
    SAME(psd_store, variable_bytes);
    CHECK(psd_store, next_handle, l->cut || a->next_handle == b->next_handle);
    SAME(psd_store, next_order);
    SAME(psd_store, counted[PSD_MEMORY_SESSIONS]);
    CHECK(psd_store, containers, psi_map_count(&a->containers) == psi_map_count(&b->containers));
    SAME_BY(psd_store, containers, containers);
    CHECK(psd_store, handles, psi_u64_map_count(&a->handles) == psi_u64_map_count(&b->handles));
    if (!l->cut) {
        SAME_BY(psd_store, handles, indexes);
    }
    SAME_BY(psd_store, creations, indexes);
}

/* ---- records ---- */

static void numbers(const struct look *l, const struct psd_number *a, const struct psd_number *b)
{
    SAME(psd_number, number);
    SAME(psd_number, state);
    SAME(psd_number, offset);
    SAME(psd_number, position);
    SAME(psd_number, version);
    SAME(psd_number, incarnation);
    SAME(psd_number, applied);
    SAME(psd_number, status);
    SAME(psd_number, reason);
    SAME(psd_number, result_bytes);
    SAME_BYTES(psd_number, result);
    CHECK(psd_number, progress, (a->progress == NULL) == (b->progress == NULL));
    CHECK(psd_number, text, same_memory(a->text, b->text, a->text == NULL ? 0 : strlen(a->text) + 1));
}

static void progresses(const struct look *l, const struct psd_progress *a, const struct psd_progress *b, uint64_t offset)
{
    uint64_t staged = psd_progress_staged_bytes(a, offset);
    SAME(psd_progress, number);
    SAME(psd_progress, variable->creation);
    SAME_BYTES(psd_progress, scalars);
    SAME(psd_progress, step);
    SAME(psd_progress, total);
    SAME(psd_progress, staging_bytes);
    SAME(psd_progress, highest);
    SAME(psd_progress, last_index);
    SAME(psd_progress, scale);
    SAME(psd_progress, kind);
    SAME(psd_progress, wire);
    SAME(psd_progress, init_only);
    SAME(psd_progress, unit);
    SAME(psd_progress, chief_number);
    SAME(psd_progress, member);
    SAME(psd_progress, round);
    CHECK(psd_progress, staging, same_memory(a->staging, b->staging, staged));
    CHECK(psd_progress, area, l->cut || (a->area == NULL) == (b->area == NULL));
    CHECK(psd_progress, area, l->cut || a->area == NULL || same_memory(a->area->memory, b->area->memory, staged));
}

/* In the order in which they began. */
static void progress_lists(const struct look *l, const struct psd_record *a, const struct psd_record *b)
{
    struct psi_list *ia = a->progress.next, *ib = b->progress.next;
    while (ia != &a->progress && ib != &b->progress) {
        const struct psd_progress *p = PSI_CONTAINER_OF(ia, struct psd_progress, link);
        progresses(l, p, PSI_CONTAINER_OF(ib, struct psd_progress, link), psd_record_find(a, p->number)->offset);
        ia = ia->next;
        ib = ib->next;
    }
    CHECK(psd_progress, link, ia == &a->progress && ib == &b->progress);
}

static void records(const struct look *outer, const struct psi_map *ma, const struct psi_map *mb)
{
    struct pairs pair = {.a = ma, .b = mb};
    void *pa = NULL, *pb = NULL;
    while (next_pair(outer, &pair, &pa, &pb)) {
        const struct psd_record *a = pa, *b = pb;
        char who[96];
        struct look one = {.s = outer->s, .t = outer->t, .of = psd_record_text(a, who, sizeof(who)), .cut = outer->cut};
        const struct look *l = &one;
        SAME_BYTES(psd_record, session);
        SAME(psd_record, name);
        SAME_TEXT(psd_record, who);
        SAME(psd_record, highest);
        SAME(psd_record, text_bytes);
        SAME(psd_record, progress_count);
        for (uint32_t i = 0; i < PS_WINDOW; i++) {
            SAME_BY(psd_record, numbers[i], numbers);
        }
        CHECK(psd_record, progress, psi_list_empty(&a->progress) == psi_list_empty(&b->progress));
        progress_lists(l, a, b);
        SAME_BY(psd_record, attempts, attempt_lists);
    }
}

/* ---- names and resets ---- */

static void definitions(const struct look *l, const struct psd_definition *a, const struct psd_definition *b)
{
    SAME(psd_definition, dtype);
    SAME_BYTES(psd_definition, shape);
    SAME_BYTES(psd_definition, optimizer);
    SAME(psd_definition, atomic);
    SAME(psd_definition, queue);
    SAME_BYTES(psd_definition, part);
}

static void names(const struct look *l, const struct psi_map *ma, const struct psi_map *mb)
{
    struct pairs pair = {.a = ma, .b = mb};
    void *pa = NULL, *pb = NULL;
    while (next_pair(l, &pair, &pa, &pb)) {
        const struct psd_name *a = pa, *b = pb;
        SAME_TEXT(psd_name, container);
        SAME_TEXT(psd_name, name);
        SAME(psd_name, owner);
        SAME(psd_name, dtype);
        SAME(psd_name, rank);
        SAME(psd_name, optimizer_words);
        SAME(psd_name, atomic);
        SAME(psd_name, queue);
        SAME(psd_name, part);
        const struct psd_definition of_a = psd_name_definition(a), of_b = psd_name_definition(b);
        definitions(l, &of_a, &of_b);
    }
}

/* A checkpoint has names in another order. */
static void names_in(const struct look *l, const struct psi_map *ma, const struct psi_map *mb)
{
    struct pairs pair = {.a = ma, .b = mb};
    void *pa = NULL, *pb = NULL;
    while (next_pair(l, &pair, &pa, &pb)) {
        const struct psd_names_in *a = pa, *b = pb;
        SAME_TEXT(psd_names_in, container);
        SAME(psd_names_in, count);
        SAME(psd_names_in, variables);
        SAME(psd_names_in, of_session);
        const struct psd_name *na = psd_names_in_first(a), *nb = psd_names_in_first(b);
        CHECK(psd_names_in, all, (na == NULL) == (nb == NULL));
        while (!l->cut && na != NULL && nb != NULL) {
            CHECK(psd_name, in, strcmp(na->name, nb->name) == 0);
            na = psd_names_in_next(a, na);
            nb = psd_names_in_next(b, nb);
        }
    }
}

static void directories(const struct look *l, const struct psd_directory *a, const struct psd_directory *b)
{
    SAME(psd_directory, forgotten);
    SAME(psd_directory, of_sessions);
    SAME(psd_directory, session_names);
    CHECK(psd_directory, names, psi_map_count(&a->names) == psi_map_count(&b->names));
    SAME_BY(psd_directory, names, names);
    CHECK(psd_directory, in, psi_map_count(&a->in) == psi_map_count(&b->in));
    SAME_BY(psd_directory, in, names_in);
}

static void chiefs(const struct look *l, const struct psi_map *ma, const struct psi_map *mb)
{
    struct pairs pair = {.a = ma, .b = mb};
    void *pa = NULL, *pb = NULL;
    while (next_pair(l, &pair, &pa, &pb)) {
        const struct psd_chief *a = pa, *b = pb;
        SAME_TEXT(psd_chief, container);
        SAME(psd_chief, number);
        SAME_TEXT(psd_chief, text);
        SAME_BYTES(psd_chief, session);
    }
}

static void resets(const struct look *l, const struct psd_resets *ra, const struct psd_resets *rb)
{
    const struct psi_list *la = &ra->all, *lb = &rb->all;
    struct psi_list *ia = la->next, *ib = lb->next;
    while (ia != la && ib != lb) {
        const struct psd_reset *a = PSI_CONTAINER_OF(ia, struct psd_reset, link),
                               *b = PSI_CONTAINER_OF(ib, struct psd_reset, link);
        SAME_TEXT(psd_reset, container);
        SAME(psd_reset, pending);
        CHECK(psd_reset, place, psd_reset_record(ra, a->container) == a && psd_reset_record(rb, b->container) == b);
        for (uint32_t i = 0; i < l->t->core->peer_count; i++) {
            SAME(psd_reset, outstanding[i]);
            SAME(psd_reset, owed[i]);
        }
        ia = ia->next;
        ib = ib->next;
    }
    CHECK(psd_reset, link, ia == la && ib == lb);
    CHECK(psd_resets, all, psi_list_empty(&ra->all) == psi_list_empty(&rb->all));
}

static void tasks(const struct look *l, const struct psd_task *a, const struct psd_task *b)
{
    SAME(psd_task, position);
    SAME_BY(psd_task, store, stores);
    CHECK(psd_task, records, psi_map_count(&a->records) == psi_map_count(&b->records));
    SAME_BY(psd_task, records, records);
    SAME(psd_task, progress_count);
    SAME(psd_task, chief_number);
    CHECK(psd_task, chiefs, psi_map_count(&a->chiefs) == psi_map_count(&b->chiefs));
    SAME_BY(psd_task, chiefs, chiefs);
    SAME_BY(psd_task, names, directories);
    SAME_BY(psd_task, resets, resets);
}

/* ---- a life ---- */

static void record_change(void *ctx, uint64_t position, const struct psd_change *c)
{
    (void)position; /* they come in their order */
    struct sim_task *t = ctx;
    struct psi_err err;
    sim_checkpoint_note(t);
    sim_checkpoint_change(t, c);
    sim_queues_change(t->sim, t, c);
    sim_rounds_change(t->sim, t, c);
    sim_chief_change(t->sim, t, c);
    sim_ready_change(t->sim, c);
    sim_moved_change(t->sim, t, c);
    if (psd_change_encode(c, &t->changes, &err) != PS_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
}

void sim_replay_begin(struct sim_task *t, const struct psd_task_config *config)
{
    t->config = *config;
    t->config.has_disk = false; /* nobody carries out what a copy asks for */
    psi_buf_init(&t->changes, CHANGES_BYTES_MAX);
    t->cut_number = 0;
    psd_task_consumer(t->core, record_change, t);
}

struct psd_task *sim_replay_empty(struct sim *s, const struct sim_task *t)
{
    static const uint8_t seed[32] = {1};
    struct psd_task *made = NULL;
    struct psi_err err;
    if (psd_task_new(&t->config, seed, s->now, &made, &err) != PS_OK) {
        sim_fail(s, "psd_task_new: %s", err.text);
    }
    return made;
}

/* What the first `bytes` of its changes give. */
static struct psd_task *replayed(struct sim *s, const struct sim_task *t, size_t bytes)
{
    const uint8_t *p = t->changes.data;
    size_t left = bytes;
    struct psd_task *empty = sim_replay_empty(s, t);
    struct psi_err err;
    while (left > 0) {
        if (psd_replay(empty, &p, &left, &err) != PS_OK) {
            sim_fail(s, "REPLAY: change %llu of %s:%u: %s", (unsigned long long)empty->position + 1, t->job, t->index, err.text);
        }
    }
    psd_store_check_invariants(&empty->store);
    return empty;
}

void sim_replay_end(struct sim *s, struct sim_task *t)
{
    if (t->changes.max == 0) {
        return; /* it has been compared */
    }
    sim_moved_end(s, t);
    if (t->core->beside == NULL || t->core->beside->placed == 0) { /* with it a history of changes begins anew */
        struct psd_task *empty = replayed(s, t, t->changes.len);
        struct look l = {.s = s, .t = t, .of = "the task"};
        uint64_t cursor = 0;
        void *value = NULL;
        while (psi_map_next(&t->core->store.containers, &cursor, NULL, NULL, &value)) {
            struct psd_rounds *g = ((struct psd_container *)value)->rounds;
            if (g != NULL) { /* a replay has all rows home */
                psd_rounds_settle(g);
            }
        }
        tasks(&l, t->core, empty);
        s->count_replayed += empty->position;
        psd_task_free(empty);
    }
    psd_task_consumer(t->core, NULL, NULL);
    psi_buf_fini(&t->changes);
    t->changes.max = 0;
}

/* Pushes to what sessions keep in their own containers are over where they are. */
static void end_pushes_of_sessions(struct psd_task *t)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        struct psd_record *r = value;
        struct psi_list *it = NULL, *tmp = NULL;
        PSI_LIST_FOREACH_SAFE(it, tmp, &r->progress) {
            const struct psd_progress *p = PSI_CONTAINER_OF(it, struct psd_progress, link);
            struct psd_number *n = &r->numbers[p->number % PS_WINDOW];
            const uint64_t position = n->position;
            if (psd_variable_of_session(p->variable)) {
                struct psd_change c = {.kind = PSD_CHANGE_ABANDON,
                                       .end = {.record = r, .number = p->number, .applied = (ps_applied)n->applied}};
                psd_commit(t, &c);
                n->position = position;
            }
        }
    }
}

/* A checkpoint has nothing of sessions' own containers: t, which was replayed, is as if they had not been there. */
static void drop_of_sessions(struct psd_task *t)
{
    const uint64_t position = t->position, dropped = t->store.dropped, forgotten = t->names.forgotten;
    uint64_t cursor = 0;
    void *value = NULL;
    end_pushes_of_sessions(t);
    while (psi_map_next(&t->store.containers, &cursor, NULL, NULL, &value)) {
        const struct psd_container *of = value;
        if (of->of_session) {
            char name[PS_CONTAINER_BYTES_MAX + 1];
            memcpy(name, of->name, sizeof(name));
            struct psd_change c = {.kind = PSD_CHANGE_CONTAINER_RESET, .container = {.name = name, .incarnation = 1}};
            psd_commit(t, &c);
            cursor = 0;
        }
    }
    cursor = 0;
    while (psi_map_next(&t->names.in, &cursor, NULL, NULL, &value)) {
        const struct psd_names_in *in = value;
        if (in->of_session) {
            const struct psd_name *n = psd_names_in_first(in);
            struct psd_change c = {.kind = PSD_CHANGE_NAME_FORGET, .name = {.container = n->container, .name = n->name}};
            psd_commit(t, &c);
            cursor = 0;
        }
    }
    t->position = position;
    t->store.dropped = dropped;
    t->names.forgotten = forgotten;
}

void sim_replay_compare(struct sim *s, const struct sim_task *t, size_t bytes, const struct psd_task *loaded)
{
    struct psd_task *then = replayed(s, t, bytes);
    struct look l = {.s = s, .t = t, .of = "the task", .cut = true};
    psd_store_check_invariants(&loaded->store);
    drop_of_sessions(then);
    tasks(&l, then, loaded);
    psd_task_free(then);
}

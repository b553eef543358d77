/* SPDX-License-Identifier: Apache-2.0 */
/* The directory's table of all variables' names, in one map; and resets, in linked lists. psd/directory decides the changes. */
#include "mutate.h"

#include "common/hash.h"
#include "common/mem.h"

#include <string.h>

#define KEY_MAX (PS_CONTAINER_BYTES_MAX + 1 + PS_NAME_BYTES_MAX)

static size_t key_of(char key[KEY_MAX], const char *container, const char *name)
{
    size_t a = strlen(container), b = strlen(name);
    memcpy(key, container, a);
    key[a] = '\0';
    memcpy(key + a + 1, name, b);
    return a + 1 + b;
}

void psd_directory_init(struct psd_directory *d, struct psd_store *store, const uint64_t map_seed[2])
{
    psi_map_init_borrowing(&d->names, map_seed);
    psi_map_init_borrowing(&d->in, map_seed);
    psi_list_init(&d->sessions);
    d->forgotten = 0;
    d->store = store;
}

void psd_directory_fini(struct psd_directory *d)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&d->names, &cursor, NULL, NULL, &value)) {
        psi_free(value);
    }
    psi_map_fini(&d->names);
    cursor = 0;
    while (psi_map_next(&d->in, &cursor, NULL, NULL, &value)) {
        psi_free(value);
    }
    psi_map_fini(&d->in);
}

enum { OPTIMIZER_FROM = offsetof(ps_optimizer, kind), WORDS = (sizeof(ps_optimizer) - OPTIMIZER_FROM) / sizeof(uint64_t) };
_Static_assert(sizeof(ps_optimizer) == OPTIMIZER_FROM + WORDS * sizeof(uint64_t) && WORDS <= 32, "a bit for each word");

static uint32_t words_of(const ps_optimizer *optimizer, uint64_t words[WORDS])
{
    uint32_t bits = 0;
    memcpy(words, (const char *)optimizer + OPTIMIZER_FROM, WORDS * sizeof(words[0]));
    for (uint32_t i = 0; i < WORDS; i++) {
        bits |= (uint32_t)(words[i] != 0) << i;
    }
    return bits;
}

static size_t definition_bytes(uint32_t rank, uint32_t optimizer_words, bool part)
{
    return (rank + (uint32_t)__builtin_popcount(optimizer_words)) * sizeof(uint64_t) + (part ? sizeof(struct psi_part) : 0);
}

static size_t piece_bytes(const char *container, const char *name, uint32_t rank, uint32_t optimizer_words, bool part)
{
    return sizeof(struct psd_name) + strlen(container) + 1 + strlen(name) + 1 + definition_bytes(rank, optimizer_words, part);
}

static uint64_t counted_bytes(const struct psd_name *n)
{
    return psi_malloc_bytes(piece_bytes(n->container, n->name, n->rank, n->optimizer_words, n->part)) + PSI_MAP_ENTRY_BYTES;
}

static void define(struct psd_name *n, const struct psd_definition *d)
{
    uint64_t words[WORDS];
    n->dtype = (uint8_t)d->dtype;
    n->atomic = d->atomic;
    n->queue = d->queue;
    n->part = d->part.count > 0;
    n->rank = (uint8_t)d->shape.rank;
    n->optimizer_words = words_of(&d->optimizer, words);
    char *at = (char *)(uintptr_t)n->name + strlen(n->name) + 1;
    memcpy(at, d->shape.dims, n->rank * sizeof(int64_t));
    at += n->rank * sizeof(int64_t);
    for (uint32_t i = 0; i < WORDS; i++) {
        if ((n->optimizer_words >> i & 1) != 0) {
            memcpy(at, &words[i], sizeof(words[i]));
            at += sizeof(words[i]);
        }
    }
    if (n->part) {
        memcpy(at, &d->part, sizeof(d->part));
    }
}

struct psd_definition psd_name_definition(const struct psd_name *n)
{
    struct psd_definition d = {.dtype = (ps_dtype)n->dtype, .atomic = n->atomic, .queue = n->queue, .shape.rank = n->rank};
    uint64_t words[WORDS] = {0};
    const char *at = n->name + strlen(n->name) + 1;
    memcpy(d.shape.dims, at, n->rank * sizeof(int64_t));
    at += n->rank * sizeof(int64_t);
    for (uint32_t i = 0; i < WORDS; i++) {
        if ((n->optimizer_words >> i & 1) != 0) {
            memcpy(&words[i], at, sizeof(words[i]));
            at += sizeof(words[i]);
        }
    }
    memcpy((char *)&d.optimizer + OPTIMIZER_FROM, words, sizeof(words));
    if (n->part) {
        memcpy(&d.part, at, sizeof(d.part));
    }
    return d;
}

static void name_free(struct psd_directory *d, struct psd_name *n)
{
    psd_store_uncount(d->store, PSD_MEMORY_NAMES, counted_bytes(n));
    psi_free(n);
}

static size_t in_bytes(const char *container)
{
    return sizeof(struct psd_names_in) + strlen(container) + 1;
}

static uint64_t in_counted_bytes(const char *container)
{
    return psi_malloc_bytes(in_bytes(container)) + PSI_MAP_ENTRY_BYTES;
}

static struct psd_names_in *find_in(const struct psd_directory *d, const char *container)
{
    return psi_map_find(&d->in, container, strlen(container));
}

uint64_t psd_name_bytes(const struct psd_directory *d, const char *container, const char *name,
                        const struct psd_definition *definition)
{
    uint64_t words[WORDS];
    const size_t piece =
        piece_bytes(container, name, definition->shape.rank, words_of(&definition->optimizer, words), definition->part.count > 0);
    return psi_malloc_bytes(piece) + PSI_MAP_ENTRY_BYTES + (find_in(d, container) == NULL ? in_counted_bytes(container) : 0);
}

const struct psd_names_in *psd_directory_names_in(const struct psd_directory *d, const char *container)
{
    return find_in(d, container);
}

static const struct psd_name *at_name(const struct psd_names_in *in, struct psi_list *link)
{
    return link == &in->all ? NULL : PSI_CONTAINER_OF(link, struct psd_name, in);
}

void psd_names_keyed(const struct psd_directory *d, const char *container, const uint8_t key[PSI_KEY_BYTES], bool claimed)
{
    struct psd_names_in *in = find_in(d, container);
    memcpy(in->key, key, PSI_KEY_BYTES);
    in->claimed = in->claimed || claimed;
}

struct psd_names_in *psd_names_next_session(struct psd_directory *d)
{
    struct psi_list *link = psi_list_pop_front(&d->sessions);
    if (link == NULL) {
        return NULL;
    }
    psi_list_push_back(&d->sessions, link);
    return PSI_CONTAINER_OF(link, struct psd_names_in, session);
}

const struct psd_name *psd_names_in_first(const struct psd_names_in *in)
{
    return in == NULL ? NULL : at_name(in, in->all.next);
}

const struct psd_name *psd_names_in_next(const struct psd_names_in *in, const struct psd_name *n)
{
    return at_name(in, n->in.next);
}

/* Make the entry of this container in d->in, the directory's map of containers, if there is none. False: no memory. */
static bool reserve_in(struct psd_directory *d, const char *container)
{
    if (find_in(d, container) != NULL) {
        return true;
    }
    struct psd_names_in *in = psi_calloc(1, in_bytes(container));
    if (in == NULL) {
        return false;
    }
    psi_list_init(&in->all);
    psi_list_init(&in->session);
    memcpy(in->container, container, strlen(container) + 1);
    in->of_session = psi_container_is_session(container);
    if (psi_map_put(&d->in, in->container, strlen(container), in, NULL, NULL) != PS_OK) {
        psi_free(in);
        return false;
    }
    psd_store_count(d->store, PSD_MEMORY_NAMES, in_counted_bytes(container));
    if (in->of_session) {
        d->of_sessions++;
        psi_list_push_back(&d->sessions, &in->session);
    }
    return true;
}

/* Put n into the list of its container's names: before `was`, the older record of this name, or at the end if `was` is NULL. */
static void in_add(struct psd_directory *d, struct psd_name *n, struct psd_name *was)
{
    struct psd_names_in *in = find_in(d, n->container);
    psi_list_insert_before(was != NULL ? &was->in : &in->all, &n->in);
    in->count++;
    in->variables += !n->queue;
    d->session_names += in->of_session;
}

static void in_remove(struct psd_directory *d, struct psd_names_in *in, struct psd_name *n)
{
    d->session_names -= in->of_session;
    psi_list_remove(&n->in);
    in->count--;
    in->variables -= !n->queue;
}

const struct psd_name *psd_directory_find(const struct psd_directory *d, const char *container, const char *name)
{
    char key[KEY_MAX];
    size_t n = key_of(key, container, name);
    return psi_map_find(&d->names, key, n);
}

ps_status psd_name_reserve(struct psd_directory *d, const char *container, const char *name,
                           const struct psd_definition *definition, struct psd_name **out, struct psi_err *err)
{
    uint64_t words[WORDS];
    const uint32_t rank = definition->shape.rank, optimizer_words = words_of(&definition->optimizer, words);
    const bool part = definition->part.count > 0;
    const struct psd_name *known = psd_directory_find(d, container, name);
    *out = NULL;
    if (known != NULL &&
        definition_bytes(rank, optimizer_words, part) == definition_bytes(known->rank, known->optimizer_words, known->part)) {
        return PS_OK;
    }
    struct psd_name *n = psi_malloc(piece_bytes(container, name, rank, optimizer_words, part));
    if (n == NULL || psi_map_reserve(&d->names, KEY_MAX, err) != PS_OK || !reserve_in(d, container)) {
        psi_free(n);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "directory: memory for variable '%s'", name);
    }
    memset(n, 0, sizeof(*n));
    *out = n;
    return PS_OK;
}

/* Put n, with this definition, into the map and its container's list. An older record of the name is freed, after n has taken
 * over its volatile fields. */
static void put(struct psd_directory *d, const char *container, const char *name, const struct psd_definition *definition,
                struct psd_name *n)
{
    void *old = NULL;
    const size_t a = strlen(container) + 1, b = strlen(name) + 1;
    memcpy(n->container, container, a);
    memcpy(n->container + a, name, b);
    n->name = n->container + a;
    define(n, definition);
    ps_status st = psi_map_put(&d->names, n->container, a + b - 1, n, &old, NULL);
    PSI_ASSERT(st == PS_OK); /* psd_name_reserve() has made room in the map */
    psd_store_count(d->store, PSD_MEMORY_NAMES, counted_bytes(n));
    in_add(d, n, old);
    if (old != NULL) {
        const struct psd_name *was = old;
        n->life = was->life;
        n->asked = was->asked;
        n->cut = n->cut > was->cut ? n->cut : was->cut;
        n->sure = was->sure;
        n->rounds = was->rounds;
        n->by_rounds = was->by_rounds;
        in_remove(d, find_in(d, container), old);
        name_free(d, old);
    }
}

void psd_directory_record(struct psd_directory *d, const char *container, const char *name,
                          const struct psd_definition *definition, uint32_t owner, struct psd_name *n)
{
    char key[KEY_MAX];
    if (n != NULL) {
        put(d, container, name, definition, n);
    } else {
        n = psi_map_find(&d->names, key, key_of(key, container, name));
        struct psd_names_in *in = find_in(d, container);
        in->variables -= !n->queue;
        define(n, definition);
        in->variables += !n->queue;
    }
    n->owner = owner;
}

static struct psd_name *notes_of(const struct psd_name *n)
{
    return (struct psd_name *)(uintptr_t)n;
}

uint64_t psd_directory_bytes(const struct psd_directory *d)
{
    uint64_t bytes = 0, cursor = 0;
    void *value = NULL;
    while (psi_map_next(&d->names, &cursor, NULL, NULL, &value)) {
        bytes += counted_bytes(value);
    }
    cursor = 0;
    while (psi_map_next(&d->in, &cursor, NULL, NULL, &value)) {
        bytes += in_counted_bytes(((const struct psd_names_in *)value)->container);
    }
    return bytes;
}

void psd_directory_check_invariants(const struct psd_directory *d)
{
    uint64_t cursor = 0;
    uint32_t names = 0, of_sessions = 0;
    void *value = NULL;
    while (psi_map_next(&d->in, &cursor, NULL, NULL, &value)) {
        const struct psd_names_in *in = value;
        uint32_t count = 0, variables = 0;
        for (const struct psd_name *n = psd_names_in_first(in); n != NULL; n = psd_names_in_next(in, n)) {
            PSI_ASSERT(strcmp(n->container, in->container) == 0);
            count++;
            variables += !n->queue;
        }
        PSI_ASSERT(count == in->count && variables == in->variables);
        PSI_ASSERT(in->of_session == psi_list_linked(&in->session));
        of_sessions += in->of_session;
        names += count;
    }
    PSI_ASSERT(names == psi_map_count(&d->names) && of_sessions == d->of_sessions);
}

void psd_name_confirm(const struct psd_name *n, uint64_t life)
{
    struct psd_name *notes = notes_of(n);
    notes->sure = true;
    notes->life = life;
    notes->asked = 0;
}

void psd_name_asked(const struct psd_name *n, uint64_t life)
{
    notes_of(n)->asked = life;
}

void psd_name_unsure(const struct psd_name *n, uint64_t life)
{
    notes_of(n)->sure = false;
    notes_of(n)->life = life;
}

void psd_name_in_rounds(const struct psd_name *n, uint8_t rounds)
{
    notes_of(n)->rounds = rounds;
}

void psd_name_by_rounds(const struct psd_name *n, bool by_rounds)
{
    notes_of(n)->by_rounds = by_rounds;
}

void psd_directory_forget(struct psd_directory *d, const char *container, const char *name)
{
    char key[KEY_MAX];
    size_t bytes = key_of(key, container, name);
    struct psd_name *n = psi_map_remove(&d->names, key, bytes);
    PSI_ASSERT(n != NULL);
    struct psd_names_in *in = find_in(d, n->container);
    in_remove(d, in, n);
    if (in->count == 0) {
        psi_map_remove(&d->in, in->container, strlen(in->container));
        d->of_sessions -= in->of_session;
        psi_list_remove(&in->session);
        psd_store_uncount(d->store, PSD_MEMORY_NAMES, in_counted_bytes(in->container));
        psi_free(in);
    }
    d->forgotten++;
    name_free(d, n);
}

void psd_directory_forget_container(struct psd_directory *d, const char *container)
{
    const struct psd_names_in *in = find_in(d, container);
    /* `left` is read first, because `in` is freed with its last name */
    for (uint32_t left = in == NULL ? 0 : in->count; left > 0; left--) {
        psd_directory_forget(d, container, psd_names_in_first(in)->name);
    }
}

void psd_resets_init(struct psd_resets *resets, struct psd_store *store, const uint64_t seed[2])
{
    resets->store = store;
    psi_list_init(&resets->all);
    for (uint32_t i = 0; i < PSD_RESET_PLACES; i++) {
        psi_list_init(&resets->places[i]);
    }
    memcpy(resets->seed, seed, sizeof(resets->seed));
}

void psd_resets_fini(struct psd_resets *resets)
{
    struct psi_list *it = NULL;
    while ((it = psi_list_first(&resets->all)) != NULL) {
        psd_reset_free(PSI_CONTAINER_OF(it, struct psd_reset, link));
    }
}

static uint32_t place_of(const struct psd_resets *resets, const char *container)
{
    return (uint32_t)(psi_siphash13(resets->seed, container, strlen(container)) % PSD_RESET_PLACES);
}

void psd_resets_add(struct psd_resets *resets, struct psd_reset *r)
{
    r->store = resets->store;
    psd_store_count(r->store, PSD_MEMORY_CONTAINERS, r->bytes);
    psi_list_push_back(&resets->all, &r->link);
    psi_list_push_back(&resets->places[place_of(resets, r->container)], &r->place);
}

void psd_resets_remove(struct psd_reset *r)
{
    if (r->store != NULL) {
        psd_store_uncount(r->store, PSD_MEMORY_CONTAINERS, r->bytes);
        r->store = NULL;
    }
    psi_list_remove(&r->link);
    psi_list_remove(&r->place);
}

struct psd_reset *psd_reset_record(const struct psd_resets *resets, const char *container)
{
    struct psi_list *it = NULL;
    if (psi_list_empty(&resets->all)) {
        return NULL;
    }
    PSI_LIST_FOREACH(it, &resets->places[place_of(resets, container)]) {
        struct psd_reset *r = PSI_CONTAINER_OF(it, struct psd_reset, place);
        if (strcmp(r->container, container) == 0) {
            return r;
        }
    }
    return NULL;
}

uint64_t psd_resets_bytes(const struct psd_resets *resets)
{
    uint64_t bytes = 0;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &resets->all) {
        bytes += PSI_CONTAINER_OF(it, struct psd_reset, link)->bytes;
    }
    return bytes;
}

struct psd_reset *psd_reset_new(uint32_t peer_count)
{
    struct psd_reset *r = psi_calloc(1, sizeof(*r));
    const size_t flag_bytes = (size_t)peer_count * 2 * sizeof(bool);
    bool *flags = psi_calloc(1, flag_bytes);
    if (r == NULL || flags == NULL) {
        psi_free(r);
        psi_free(flags);
        return NULL;
    }
    psi_list_init(&r->link);
    psi_list_init(&r->place);
    psi_list_init(&r->waiters);
    r->bytes = psi_malloc_bytes(sizeof(*r)) + psi_malloc_bytes(flag_bytes);
    r->outstanding = flags;
    r->owed = flags + peer_count;
    return r;
}

void psd_reset_free(struct psd_reset *r)
{
    psd_resets_remove(r);
    psi_free(r->outstanding);
    psi_free(r);
}

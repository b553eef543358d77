/* SPDX-License-Identifier: Apache-2.0 */
/* Hash maps with entries in order of insertion. `entries` is an array that grows only at its end. `slots` is a hash table of
 * indices in `entries` (linear probing, at most 3/4 full; a removal moves later slots back). A removed entry leaves a hole in
 * `entries`. A put that finds `entries` full squeezes the holes out, into larger tables if under a quarter were holes. Each entry
 * has a higher id than the entries before it. A cursor is an id, so squeezing does not disturb an iteration. Large tables shrink
 * when most of their entries were removed. Failure: no memory at a put; the map is unchanged.
 *
 * Entries of a large map move to new tables some at a time (struct psi_map_move). The front of the new array is kept for the old
 * entries, in their order; new entries stand behind. So ids rise through the moved entries, then the unmoved ones, then the new
 * ones. A search looks at the new table, then at the old one, where moved and removed entries match nothing. */
#include "map.h"

#include "hash.h"
#include "mem.h"

#include <string.h>

enum {
    FIRST_SLOTS = 16,
    KEPT_SLOTS = 256, /* an index with at most so many slots is never made smaller */
    ENTRIES_MAX = 1 << 30,
    FIND_AT_ONCE = 64,
    FORGET_AT_ONCE = 4096 /* the memory of so many moved entries is given back to the system at a time: 32 pages */
};

struct psi_map_entry {
    uint64_t id;
    uint32_t hash;
    uint32_t key_bytes; /* length of key.bytes; NUMBER_KEY: the key is key.number, no bytes */
    union {
        char *bytes;
        uint64_t number; /* key of a psi_u64_map */
    } key;
    void *value; /* NULL: the entry was removed */
};

/* The old tables, while their entries are being moved to new ones, some at each put or removal. */
struct psi_map_move {
    struct psi_map_entry *entries;
    uint32_t *slots;
    uint32_t slot_count, entry_count;
    uint32_t at;
    uint32_t placed; /* how many entries were moved; the next one goes to this index of the new array */
    uint32_t room;   /* entries that the map had when the move began; the new array keeps so many places for them at its front */
};

enum { REMOVED = 1 /* key_bytes of an entry that was removed during the move, before it was moved: it is moved as a hole */ };
_Static_assert(PSI_CACHE_LINE % sizeof(struct psi_map_entry) == 0, "a look-up touches one line of them");
/* a table that has just grown is 3/8 full: each entry has a share of 8/3 slots, of 4 bytes each */
_Static_assert(PSI_MAP_ENTRY_BYTES > sizeof(struct psi_map_entry) + sizeof(uint32_t) * 8 / 3, "an entry with its share");
_Static_assert(PSI_MAP_LEAST_BYTES >= FIRST_SLOTS / 4 * 3 * sizeof(struct psi_map_entry) + FIRST_SLOTS * sizeof(uint32_t),
               "the first tables");

#define NUMBER_KEY UINT32_MAX

struct wanted {
    uint32_t hash;
    uint32_t len; /* length of `bytes`; NUMBER_KEY: the key is `number` */
    const void *bytes;
    uint64_t number;
};

static uint32_t capacity_of(uint32_t slot_count)
{
    return slot_count / 4 * 3;
}

void psi_map_init(struct psi_map *m, const uint64_t seed[2])
{
    *m = (struct psi_map){.key = {seed[0], seed[1]}};
}

void psi_map_init_borrowing(struct psi_map *m, const uint64_t seed[2])
{
    psi_map_init(m, seed);
    m->borrows = true;
}

static void free_key(const struct psi_map *m, struct psi_map_entry *e)
{
    if (e->value != NULL && e->key_bytes != NUMBER_KEY && !m->borrows) {
        psi_free(e->key.bytes);
    }
}

static void tables_free(struct psi_map_entry *entries, uint32_t *slots)
{
    psi_free(entries);
    psi_free(slots);
}

uint32_t psi_map_left(const struct psi_map *m)
{
    return m->move == NULL ? 0 : m->move->entry_count - m->move->at;
}

static void move_end(struct psi_map *m)
{
    tables_free(m->move->entries, m->move->slots);
    psi_free(m->move);
    m->move = NULL;
}

void psi_map_fini(struct psi_map *m)
{
    for (uint32_t i = 0; i < m->entry_count; i++) {
        if (m->move == NULL || i < m->move->placed || i >= m->move->room) {
            free_key(m, &m->entries[i]);
        }
    }
    if (m->move != NULL) {
        for (uint32_t i = m->move->at; i < m->move->entry_count; i++) {
            free_key(m, &m->move->entries[i]);
        }
        move_end(m);
    }
    tables_free(m->entries, m->slots);
    psi_free(m->spare_key);
    *m = (struct psi_map){.key = {m->key[0], m->key[1]}, .borrows = m->borrows};
}

uint32_t psi_map_count(const struct psi_map *m)
{
    return m->live_count;
}

static bool matches(const struct psi_map_entry *e, const struct wanted *w)
{
    if (e->hash != w->hash || e->key_bytes != w->len) {
        return false;
    }
    if (w->len == NUMBER_KEY) {
        return e->key.number == w->number;
    }
    return w->len == 0 || memcmp(e->key.bytes, w->bytes, w->len) == 0;
}

/* The slot of the wanted entry; SIZE_MAX: there is none. The search always ends, because some slot is free. */
static size_t find_slot(const struct psi_map *m, const struct wanted *w)
{
    if (m->slot_count == 0) {
        return SIZE_MAX;
    }
    size_t mask = m->slot_count - 1;
    size_t i = w->hash & mask;
    while (m->slots[i] != 0) {
        if (matches(&m->entries[m->slots[i] - 1], w)) {
            return i;
        }
        i = (i + 1) & mask;
    }
    return SIZE_MAX;
}

static struct psi_map_entry *find_unmoved(const struct psi_map *m, const struct wanted *w)
{
    const struct psi_map_move *old = m->move;
    if (old == NULL) {
        return NULL;
    }
    size_t mask = old->slot_count - 1;
    for (size_t i = w->hash & mask; old->slots[i] != 0; i = (i + 1) & mask) {
        struct psi_map_entry *e = &old->entries[old->slots[i] - 1];
        if (old->slots[i] > old->at && e->value != NULL && matches(e, w)) {
            return e;
        }
    }
    return NULL;
}

static void index_entry(uint32_t *slots, uint32_t slot_count, uint32_t hash, uint32_t entry_number)
{
    size_t mask = slot_count - 1;
    size_t i = hash & mask;
    while (slots[i] != 0) {
        i = (i + 1) & mask;
    }
    slots[i] = entry_number + 1;
}

/* Copy the live entries without holes to `entries` (maybe the map's own), and index them in zeroed `slots`. The map has both. */
static void squeeze(struct psi_map *m, struct psi_map_entry *entries, uint32_t *slots, uint32_t slot_count)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->entry_count; i++) {
        if (m->entries[i].value != NULL) {
            entries[count] = m->entries[i];
            index_entry(slots, slot_count, entries[count].hash, count);
            count++;
        }
    }
    PSI_ASSERT(count == m->live_count && count < capacity_of(slot_count));
    m->entries = entries;
    m->slots = slots;
    m->entry_count = count;
    m->entry_capacity = capacity_of(slot_count);
    m->slot_count = slot_count;
}

static void move_some(struct psi_map *m, uint32_t count)
{
    struct psi_map_move *old = m->move;
    for (; count > 0 && old->at < old->entry_count; count--) {
        struct psi_map_entry e = old->entries[old->at++];
        /* give the memory of moved entries back, so that old and new array together take little more than one of them */
        if (old->at % FORGET_AT_ONCE == 0) {
            psi_forget(&old->entries[old->at - FORGET_AT_ONCE], FORGET_AT_ONCE * sizeof(e));
        }
        if (e.value == NULL && e.key_bytes != REMOVED) {
            continue; /* removed before the move began: no place was kept for it in the new array */
        }
        e.key_bytes = e.value == NULL ? 0 : e.key_bytes;
        m->entries[old->placed] = e;
        if (e.value != NULL) {
            index_entry(m->slots, m->slot_count, e.hash, old->placed);
        }
        old->placed++;
    }
    if (old->at == old->entry_count) {
        PSI_ASSERT(old->placed == old->room);
        move_end(m);
    }
}

/* Make `entries` and `slots` (all 0) the map's tables; the old entries will be moved there later. False: no memory. */
static bool move_begin(struct psi_map *m, struct psi_map_entry *entries, uint32_t *slots, uint32_t slot_count)
{
    struct psi_map_move *move = psi_malloc(sizeof(*move));
    if (move == NULL) {
        return false;
    }
    *move = (struct psi_map_move){.entries = m->entries,
                                  .slots = m->slots,
                                  .slot_count = m->slot_count,
                                  .entry_count = m->entry_count,
                                  .room = m->live_count};
    m->move = move;
    m->entries = entries;
    m->slots = slots;
    m->entry_count = m->live_count;
    m->entry_capacity = capacity_of(slot_count);
    m->slot_count = slot_count;
    return true;
}

/* Make room for one more entry: copy the live entries into fitting tables. If they are many, they move step by step. */
static ps_status refit(struct psi_map *m, struct psi_err *err)
{
    uint32_t slot_count = m->slot_count == 0 ? FIRST_SLOTS : m->slot_count;
    if (m->live_count >= ENTRIES_MAX) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "map: more than %d entries", ENTRIES_MAX);
    }
    /* leave at least a quarter of the new array free, so that many puts fit before the next refit() */
    while (m->live_count > capacity_of(slot_count) / 4 * 3 && slot_count <= (uint32_t)ENTRIES_MAX) {
        slot_count *= 2;
    }
    while (slot_count > FIRST_SLOTS && m->live_count < capacity_of(slot_count) / 4) {
        slot_count /= 2;
    }
    bool same = slot_count == m->slot_count, at_once = m->entry_count <= PSI_MAP_AT_ONCE;
    if (same && at_once) {
        memset(m->slots, 0, slot_count * sizeof(*m->slots));
        /* in place, so that alternating puts and removals allocate nothing */
        squeeze(m, m->entries, m->slots, slot_count);
        return PS_OK;
    }
    uint32_t capacity = capacity_of(slot_count);
    struct psi_map_entry *entries = psi_aligned_malloc(PSI_CACHE_LINE, capacity * sizeof(*entries));
    /* calloc: pages of a large index that are never used take no memory */
    uint32_t *slots = psi_calloc(slot_count, sizeof(*slots));
    bool room = entries != NULL && slots != NULL;
    if (room && !at_once && move_begin(m, entries, slots, slot_count)) {
        return PS_OK;
    }
    if (same || !room) {
        tables_free(entries, slots);
        if (!same) {
            return psi_fail(err, PS_RESOURCE_EXHAUSTED, "map: out of memory for %u entries", capacity);
        }
        memset(m->slots, 0, slot_count * sizeof(*m->slots));
        squeeze(m, m->entries, m->slots, slot_count); /* there is no memory for a gradual move, so all is moved now */
        return PS_OK;
    }
    struct psi_map_entry *old_entries = m->entries;
    uint32_t *old_slots = m->slots;
    squeeze(m, entries, slots, slot_count);
    tables_free(old_entries, old_slots);
    return PS_OK;
}

static ps_status make_room(struct psi_map *m, struct psi_err *err)
{
    /* never true: each put moves more entries than it adds, so a move ends before the new array is full */
    if (m->move != NULL && m->entry_count == m->entry_capacity) {
        move_some(m, UINT32_MAX);
    }
    return m->entry_count < m->entry_capacity ? PS_OK : refit(m, err);
}

ps_status psi_map_reserve(struct psi_map *m, size_t len, struct psi_err *err)
{
    if (!m->borrows && (m->spare_key == NULL || m->spare_bytes < len + 1)) {
        char *key = psi_realloc(m->spare_key, len + 1);
        if (key == NULL) {
            return psi_fail(err, PS_RESOURCE_EXHAUSTED, "map: out of memory for a key of %zu bytes", len);
        }
        m->spare_key = key;
        m->spare_bytes = (uint32_t)len + 1;
    }
    return make_room(m, err);
}

ps_status psi_u64_map_reserve(struct psi_u64_map *m, struct psi_err *err)
{
    return make_room(&m->core, err);
}

static char *key_kept(struct psi_map *m, const struct wanted *w)
{
    if (m->borrows) {
        return (char *)(uintptr_t)w->bytes;
    }
    if (m->spare_key == NULL || m->spare_bytes <= w->len) {
        return psi_strndup(w->len == 0 ? "" : w->bytes, w->len);
    }
    char *key = m->spare_key;
    m->spare_key = NULL;
    memcpy(key, w->len == 0 ? "" : w->bytes, w->len);
    key[w->len] = '\0';
    return key;
}

static struct psi_map_entry *find_entry(const struct psi_map *m, const struct wanted *w)
{
    size_t slot = find_slot(m, w);
    return slot == SIZE_MAX ? find_unmoved(m, w) : &m->entries[m->slots[slot] - 1];
}

static ps_status put(struct psi_map *m, const struct wanted *w, void *value, void **out_old, struct psi_err *err)
{
    PSI_ASSERT(value != NULL);
    struct psi_map_entry *e = find_entry(m, w);
    if (e != NULL) {
        void *old = e->value;
        e->value = value;
        if (m->borrows) { /* the old key is part of the old value, which the caller gets back and may free */
            e->key.bytes = key_kept(m, w);
        }
        if (out_old != NULL) {
            *out_old = old;
        }
        return PS_OK;
    }
    ps_status st = make_room(m, err);
    if (st != PS_OK) {
        return st;
    }
    struct psi_map_entry made = {.id = m->next_id, .hash = w->hash, .key_bytes = w->len, .value = value};
    if (w->len == NUMBER_KEY) {
        made.key.number = w->number;
    } else {
        made.key.bytes = key_kept(m, w);
        if (made.key.bytes == NULL) {
            return psi_fail(err, PS_RESOURCE_EXHAUSTED, "map: out of memory for a key of %u bytes", w->len);
        }
    }
    if (m->move != NULL) {
        move_some(m, PSI_MAP_STEP);
    }
    m->entries[m->entry_count] = made;
    index_entry(m->slots, m->slot_count, made.hash, m->entry_count);
    m->entry_count++;
    m->live_count++;
    m->next_id++;
    if (out_old != NULL) {
        *out_old = NULL;
    }
    return PS_OK;
}

/* Empty a slot. Entries pushed behind it by collisions move back, so that a search may still end at the first free slot. */
static void free_slot(struct psi_map *m, size_t hole)
{
    size_t mask = m->slot_count - 1;
    size_t i = hole;
    for (;;) {
        i = (i + 1) & mask;
        if (m->slots[i] == 0) {
            break;
        }
        size_t home = m->entries[m->slots[i] - 1].hash & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            m->slots[hole] = m->slots[i];
            hole = i;
        }
    }
    m->slots[hole] = 0;
}

static void trim(struct psi_map *m)
{
    uint32_t least = m->move == NULL ? 0 : m->move->room;
    while (m->entry_count > least && m->entries[m->entry_count - 1].value == NULL) {
        m->entry_count--;
    }
}

static void *take_out(struct psi_map *m, const struct wanted *w)
{
    size_t slot = find_slot(m, w);
    struct psi_map_entry *e = slot == SIZE_MAX ? find_unmoved(m, w) : &m->entries[m->slots[slot] - 1];
    if (e == NULL) {
        return NULL;
    }
    if (slot != SIZE_MAX) {
        free_slot(m, slot);
    }
    void *value = e->value;
    free_key(m, e);
    e->value = NULL;
    e->key_bytes = slot != SIZE_MAX ? 0 : REMOVED;
    m->live_count--;
    if (m->move != NULL) {
        move_some(m, PSI_MAP_STEP);
    }
    trim(m);
    if (m->move == NULL && m->slot_count > KEPT_SLOTS && m->live_count < capacity_of(m->slot_count) / 4) {
        PSI_IGNORE(refit(m, NULL)); /* without memory the tables stay too large, which does no harm */
    }
    return value;
}

/* The first live entry with an id of *cursor or more, among entries[low .. end). Holes keep their ids for the binary search. */
static bool next_of(const struct psi_map_entry *entries, uint32_t low, uint32_t end, uint64_t *cursor,
                    const struct psi_map_entry **out)
{
    uint32_t high = end;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (entries[middle].id < *cursor) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    while (low < end && entries[low].value == NULL) {
        low++;
    }
    if (low == end) {
        return false;
    }
    *out = &entries[low];
    *cursor = entries[low].id + 1;
    return true;
}

static bool next_entry(const struct psi_map *m, uint64_t *cursor, const struct psi_map_entry **out)
{
    const struct psi_map_move *old = m->move;
    if (old == NULL) {
        return next_of(m->entries, 0, m->entry_count, cursor, out);
    }
    return next_of(m->entries, 0, old->placed, cursor, out) || next_of(old->entries, old->at, old->entry_count, cursor, out) ||
           next_of(m->entries, old->room, m->entry_count, cursor, out);
}

static struct wanted wanted_bytes(const struct psi_map *m, const void *key, size_t len)
{
    PSI_ASSERT(len < NUMBER_KEY);
    return (struct wanted){.hash = (uint32_t)psi_siphash13(m->key, key, len), .len = (uint32_t)len, .bytes = key};
}

static struct wanted wanted_number(const struct psi_map *m, uint64_t key)
{
    return (struct wanted){.hash = (uint32_t)psi_siphash13_u64(m->key, key), .len = NUMBER_KEY, .number = key};
}

static void *find(const struct psi_map *m, const struct wanted *w)
{
    const struct psi_map_entry *e = find_entry(m, w);
    return e == NULL ? NULL : e->value;
}

void *psi_map_find(const struct psi_map *m, const void *key, size_t len)
{
    struct wanted w = wanted_bytes(m, key, len);
    return find(m, &w);
}

ps_status psi_map_put(struct psi_map *m, const void *key, size_t len, void *value, void **out_old, struct psi_err *err)
{
    struct wanted w = wanted_bytes(m, key, len);
    return put(m, &w, value, out_old, err);
}

void *psi_map_remove(struct psi_map *m, const void *key, size_t len)
{
    struct wanted w = wanted_bytes(m, key, len);
    return take_out(m, &w);
}

bool psi_map_next(const struct psi_map *m, uint64_t *cursor, const char **out_key, size_t *out_len, void **out_value)
{
    const struct psi_map_entry *e = NULL;
    if (!next_entry(m, cursor, &e)) {
        return false;
    }
    if (out_key != NULL) {
        *out_key = e->key.bytes;
    }
    if (out_len != NULL) {
        *out_len = e->key_bytes;
    }
    *out_value = e->value;
    return true;
}

void psi_map_check_invariants(const struct psi_map *m)
{
    const struct psi_map_move *old = m->move;
    const struct psi_map_entry *e = NULL;
    uint32_t live = 0, used = 0, unmoved = 0;
    uint64_t cursor = 0, before = 0;
    PSI_ASSERT(m->entry_count <= m->entry_capacity && m->entry_capacity == capacity_of(m->slot_count));
    PSI_ASSERT(old == NULL || (old->at < old->entry_count && old->placed <= old->room && old->room <= m->entry_count));
    for (; next_entry(m, &cursor, &e); before = e->id, live++) {
        struct wanted w =
            e->key_bytes == NUMBER_KEY ? wanted_number(m, e->key.number) : wanted_bytes(m, e->key.bytes, e->key_bytes);
        PSI_ASSERT(find_entry(m, &w) == e && e->id < m->next_id && (live == 0 || before < e->id));
        unmoved += find_unmoved(m, &w) == e;
    }
    for (uint32_t i = 0; i < m->slot_count; i++) {
        used += m->slots[i] != 0;
    }
    PSI_ASSERT(live == m->live_count && used == live - unmoved);
}

void psi_u64_map_init(struct psi_u64_map *m, const uint64_t seed[2])
{
    psi_map_init(&m->core, seed);
}

void psi_u64_map_fini(struct psi_u64_map *m)
{
    psi_map_fini(&m->core);
}

uint32_t psi_u64_map_count(const struct psi_u64_map *m)
{
    return m->core.live_count;
}

void *psi_u64_map_find(const struct psi_u64_map *m, uint64_t key)
{
    struct wanted w = wanted_number(&m->core, key);
    return find(&m->core, &w);
}

void psi_u64_map_find_all(const struct psi_u64_map *m, const uint64_t *keys, uint32_t n, void **out_values)
{
    const struct psi_map *core = &m->core;
    struct wanted w[FIND_AT_ONCE];
    for (uint32_t first = 0; first < n; first += FIND_AT_ONCE) {
        const uint32_t count = n - first < FIND_AT_ONCE ? n - first : FIND_AT_ONCE;
        for (uint32_t i = 0; i < count; i++) {
            w[i] = wanted_number(core, keys[first + i]);
            if (core->slot_count > 0) {
                __builtin_prefetch(&core->slots[w[i].hash & (core->slot_count - 1)]);
            }
        }
        for (uint32_t i = 0; i < count && core->slot_count > 0; i++) {
            const uint32_t number = core->slots[w[i].hash & (core->slot_count - 1)];
            if (number != 0) {
                __builtin_prefetch(&core->entries[number - 1]);
            }
        }
        for (uint32_t i = 0; i < count; i++) {
            out_values[first + i] = find(core, &w[i]);
        }
    }
}

ps_status psi_u64_map_put(struct psi_u64_map *m, uint64_t key, void *value, void **out_old, struct psi_err *err)
{
    struct wanted w = wanted_number(&m->core, key);
    return put(&m->core, &w, value, out_old, err);
}

void *psi_u64_map_remove(struct psi_u64_map *m, uint64_t key)
{
    struct wanted w = wanted_number(&m->core, key);
    return take_out(&m->core, &w);
}

bool psi_u64_map_next(const struct psi_u64_map *m, uint64_t *cursor, uint64_t *out_key, void **out_value)
{
    const struct psi_map_entry *e = NULL;
    if (!next_entry(&m->core, cursor, &e)) {
        return false;
    }
    if (out_key != NULL) {
        *out_key = e->key.number;
    }
    *out_value = e->value;
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hash maps: byte strings -> pointer, and u64 -> pointer. A map copies its byte strings, or borrows them from its values. The
 * hash is keyed, so peers who choose keys cannot force collisions. Entries are kept in the order of insertion: iteration does not
 * depend on the seed, and a cursor stays good across any put and remove (it sees what is put later, and nothing twice). Values
 * are never NULL and stay the caller's. One thread at a time. No allocation in find or next, and in remove only to shrink large
 * tables. No put or remove goes through all entries of a large map: the entries move to larger or smaller tables some at a time.
 */
#ifndef PSI_MAP_H
#define PSI_MAP_H

#include "status.h"

#include <stdbool.h>

struct psi_map_entry;
struct psi_map_move;
struct psi_map {
    uint64_t key[2];               /* of the hash */
    struct psi_map_entry *entries; /* in order of insertion; a removed one has value NULL */
    uint32_t *slots;               /* entry number + 1, 0 = free; linear probing; slot_count is a power of two */
    uint32_t entry_count;          /* entries in use, removed ones included */
    uint32_t live_count;
    uint32_t entry_capacity;
    uint32_t slot_count;
    uint64_t next_id;          /* of the next insertion */
    struct psi_map_move *move; /* the tables before, with the entries that have not moved yet; NULL: all are in these */
    char *spare_key;           /* memory for the key of the next put; NULL: none */
    uint32_t spare_bytes;
    bool borrows; /* keys are the caller's memory */
};

/* What one entry takes of the tables of a large map, in bytes: the entry, and its share of an index that is at least 3/8 full. */
enum { PSI_MAP_ENTRY_BYTES = 32 + 12 };
/* What a map with few entries takes at most: its first tables, as malloc gives them. */
enum { PSI_MAP_LEAST_BYTES = 12 * 32 + 64 + 16 + 16 * 4 + 16 };

/* Tables with at most PSI_MAP_AT_ONCE entries change their size in one put or remove, larger ones in many, each of which moves
 * PSI_MAP_STEP entries: a move is over when half of the room in the new tables is filled. */
enum { PSI_MAP_AT_ONCE = 4096, PSI_MAP_STEP = 8 };

/** seed: 128 random bits. Allocates nothing. */
void psi_map_init(struct psi_map *m, const uint64_t seed[2]);
/** The same for a map that keeps no copy of its keys: the key of a put belongs to the value, and stays as it is until its entry
 * is removed or replaced. A put that replaces a value takes the new key. */
void psi_map_init_borrowing(struct psi_map *m, const uint64_t seed[2]);
/** Frees keys and tables, not the values; the map is empty afterwards and usable again. */
void psi_map_fini(struct psi_map *m);
uint32_t psi_map_count(const struct psi_map *m);
/** NULL = absent. */
void *psi_map_find(const struct psi_map *m, const void *key, size_t len);
/** Add or replace; *out_old (may be NULL) gets the value replaced or NULL. A replaced entry keeps its place in the order.
 *  Errors PS_RESOURCE_EXHAUSTED (memory, or 2^30 entries); the map is unchanged then. */
PSI_MUST ps_status psi_map_put(struct psi_map *m, const void *key, size_t len, void *value, void **out_old, struct psi_err *err);
/** Room for one more: the next put of a key of at most len bytes cannot fail, whatever is removed in between. */
PSI_MUST ps_status psi_map_reserve(struct psi_map *m, size_t len, struct psi_err *err);
/** The value taken out, NULL = absent. */
void *psi_map_remove(struct psi_map *m, const void *key, size_t len);
/** Next entry at or after *cursor (start with 0), which moves on; false at the end. key is NUL-terminated, the map's,
 *  good until its entry is removed; out_key and out_len may be NULL. */
bool psi_map_next(const struct psi_map *m, uint64_t *cursor, const char **out_key, size_t *out_len, void **out_value);
/** Entries of the tables before that have not moved; 0: no move goes on. */
uint32_t psi_map_left(const struct psi_map *m);
void psi_map_check_invariants(const struct psi_map *m);

struct psi_u64_map {
    struct psi_map core;
};
void psi_u64_map_init(struct psi_u64_map *m, const uint64_t seed[2]);
void psi_u64_map_fini(struct psi_u64_map *m);
uint32_t psi_u64_map_count(const struct psi_u64_map *m);
void *psi_u64_map_find(const struct psi_u64_map *m, uint64_t key);
/** n look-ups at once, each as psi_u64_map_find(): what they touch is asked for ahead, since none of it may be in cache.
 *  out_values [n]. */
void psi_u64_map_find_all(const struct psi_u64_map *m, const uint64_t *keys, uint32_t n, void **out_values);
PSI_MUST ps_status psi_u64_map_put(struct psi_u64_map *m, uint64_t key, void *value, void **out_old, struct psi_err *err);
PSI_MUST ps_status psi_u64_map_reserve(struct psi_u64_map *m, struct psi_err *err);
void *psi_u64_map_remove(struct psi_u64_map *m, uint64_t key);
/** out_key may be NULL. */
bool psi_u64_map_next(const struct psi_u64_map *m, uint64_t *cursor, uint64_t *out_key, void **out_value);

#endif

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
    uint64_t key[2];
    struct psi_map_entry *entries; /* in order of insertion; a removed one has value NULL */
    uint32_t *slots;               /* entry number + 1; 0: free; linear probing; slot_count is a power of two */
    uint32_t entry_count;          /* entries in use, with removed ones */
    uint32_t live_count;
    uint32_t entry_capacity;
    uint32_t slot_count;
    uint64_t next_id;          /* of the next insertion */
    struct psi_map_move *move; /* the old tables, with entries that have not moved yet; NULL: all entries are here */
    char *spare_key;           /* memory for the key of the next put; NULL: none */
    uint32_t spare_bytes;
    bool borrows; /* keys are the caller's memory */
};

/* Bytes of one entry in the tables of a large map: the entry, and its share of an index that is at least 3/8 full. */
enum { PSI_MAP_ENTRY_BYTES = 32 + 12 };
/* Bytes of a map with few entries at most: its first tables, as malloc gives them. */
enum { PSI_MAP_LEAST_BYTES = 12 * 32 + 64 + 16 + 16 * 4 + 16 };

/* Tables with at most PSI_MAP_AT_ONCE entries change their size in one put or remove. Larger ones do so in many, each of which
 * moves PSI_MAP_STEP entries. A look-up touches both tables until the move ends, so the move is short beside the growth. */
enum { PSI_MAP_AT_ONCE = 4096, PSI_MAP_STEP = 64 };

/** seed: 128 random bits. Allocates nothing. */
void psi_map_init(struct psi_map *m, const uint64_t seed[2]);
/** Init a map that keeps no copy of its keys. The key of a put belongs to the value, and stays unchanged until its entry is
 * removed or replaced. A put that replaces a value takes the new key. */
void psi_map_init_borrowing(struct psi_map *m, const uint64_t seed[2]);
/** Free keys and tables, not the values. The map is then empty and usable. */
void psi_map_fini(struct psi_map *m);
uint32_t psi_map_count(const struct psi_map *m);
/** NULL: absent. */
void *psi_map_find(const struct psi_map *m, const void *key, size_t len);
/** Add or replace. *out_old (may be NULL) gets the replaced value, or NULL. A replaced entry keeps its place in the order.
 * Errors: PS_RESOURCE_EXHAUSTED (memory, or 2^30 entries); the map is unchanged then. */
PSI_MUST ps_status psi_map_put(struct psi_map *m, const void *key, size_t len, void *value, void **out_old, struct psi_err *err);
/** Reserve room: the next put of a key of at most len bytes cannot fail, whatever is removed in between. */
PSI_MUST ps_status psi_map_reserve(struct psi_map *m, size_t len, struct psi_err *err);
/** Returns the removed value; NULL: absent. */
void *psi_map_remove(struct psi_map *m, const void *key, size_t len);
/** The next entry at or after *cursor (start with 0), which moves on. False: no more. The key is NUL-terminated, belongs to the
 * map, and is valid until its entry is removed; out_key and out_len may be NULL. */
bool psi_map_next(const struct psi_map *m, uint64_t *cursor, const char **out_key, size_t *out_len, void **out_value);
/** Entries of the old tables that have not moved; 0: no move is going on. */
uint32_t psi_map_left(const struct psi_map *m);
void psi_map_check_invariants(const struct psi_map *m);

struct psi_u64_map {
    struct psi_map core;
};
void psi_u64_map_init(struct psi_u64_map *m, const uint64_t seed[2]);
void psi_u64_map_fini(struct psi_u64_map *m);
uint32_t psi_u64_map_count(const struct psi_u64_map *m);
void *psi_u64_map_find(const struct psi_u64_map *m, uint64_t key);
/** n look-ups at once, each as psi_u64_map_find(). Memory is prefetched, since none of it may be in cache. out_values [n]. */
void psi_u64_map_find_all(const struct psi_u64_map *m, const uint64_t *keys, uint32_t n, void **out_values);
PSI_MUST ps_status psi_u64_map_put(struct psi_u64_map *m, uint64_t key, void *value, void **out_old, struct psi_err *err);
PSI_MUST ps_status psi_u64_map_reserve(struct psi_u64_map *m, struct psi_err *err);
void *psi_u64_map_remove(struct psi_u64_map *m, uint64_t key);
/** out_key may be NULL. */
bool psi_u64_map_next(const struct psi_u64_map *m, uint64_t *cursor, uint64_t *out_key, void **out_value);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Hash maps: byte strings -> pointer, and u64 -> pointer. A map copies its byte strings, or borrows them from its values. The
 * hash has a secret key, so peers who choose keys cannot force collisions. Entries stay in the order of insertion: iteration does
 * not depend on the seed, and a cursor stays valid across any put and remove (it visits entries that are put later, and none
 * twice). Values are never NULL; the caller owns them. One thread at a time. find and next never allocate, remove only to shrink
 * large tables. Unless memory is short, no put or remove visits all entries of a large map: they move to new tables in steps. */
#ifndef PSI_MAP_H
#define PSI_MAP_H

#include "status.h"

#include <stdbool.h>

struct psi_map_entry;
struct psi_map_move;
struct psi_map {
    uint64_t key[2];
    struct psi_map_entry *entries; /* in order of insertion; value NULL: the entry was removed */
    uint32_t *slots;               /* hash table: 1 + index in `entries`; 0: free. Linear probing; slot_count is a power of two */
    uint32_t entry_count;          /* used places of `entries`, also those of removed entries */
    uint32_t live_count;
    uint32_t entry_capacity;
    uint32_t slot_count;
    uint64_t next_id;
    struct psi_map_move *move; /* the old tables, while entries are being moved; NULL: none are */
    char *spare_key;           /* memory that psi_map_reserve() has allocated for the next put's key; NULL: none */
    uint32_t spare_bytes;
    bool borrows; /* keys are the caller's memory */
};

/* Bytes for one entry in a large map: the entry itself, and its share of a hash table that is at least 3/8 full. */
enum { PSI_MAP_ENTRY_BYTES = 32 + 12 };
/* Bytes that a map uses from its first put on: its two smallest tables, each with malloc()'s header and rounding. */
enum { PSI_MAP_LEAST_BYTES = 12 * 32 + 64 + 16 + 16 * 4 + 16 };

/* Tables of at most PSI_MAP_AT_ONCE entries are resized at once. Larger ones move PSI_MAP_STEP entries at each put and remove:
 * many, because until the end each look-up must search old and new tables. */
enum { PSI_MAP_AT_ONCE = 4096, PSI_MAP_STEP = 64 };

/** Make an empty map that copies its keys. Allocates nothing. seed: 128 random bits, the key of the hash. */
void psi_map_init(struct psi_map *m, const uint64_t seed[2]);
/** Make an empty map that does not copy its keys: the key given to a put must stay unchanged until its entry is removed or
 * replaced. A put that replaces a value also replaces the key. */
void psi_map_init_borrowing(struct psi_map *m, const uint64_t seed[2]);
/** Free keys and tables, but not the values. The map is empty then, and can be used again. */
void psi_map_fini(struct psi_map *m);
uint32_t psi_map_count(const struct psi_map *m);
void *psi_map_find(const struct psi_map *m, const void *key, size_t len);
/** Add or replace. *out_old (may be NULL) gets the replaced value, or NULL. A replaced entry keeps its place in the order.
 * Errors: PS_RESOURCE_EXHAUSTED (memory, or 2^30 entries); the map is unchanged then. */
PSI_MUST ps_status psi_map_put(struct psi_map *m, const void *key, size_t len, void *value, void **out_old, struct psi_err *err);
/** Allocate memory so that the next put of a key of at most len bytes cannot fail, whatever is removed before it. */
PSI_MUST ps_status psi_map_reserve(struct psi_map *m, size_t len, struct psi_err *err);
void *psi_map_remove(struct psi_map *m, const void *key, size_t len);
/** Iterate: find the entry at *cursor, which the caller sets to 0 first, and advance it. False: no more. The key is
 * NUL-terminated and valid until its entry is removed; out_key and out_len may be NULL. */
bool psi_map_next(const struct psi_map *m, uint64_t *cursor, const char **out_key, size_t *out_len, void **out_value);
/** How many entries must still be moved from the old tables of a map that is being resized; 0: it is not being resized. */
uint32_t psi_map_left(const struct psi_map *m);
void psi_map_check_invariants(const struct psi_map *m);

struct psi_u64_map {
    struct psi_map core;
};
void psi_u64_map_init(struct psi_u64_map *m, const uint64_t seed[2]);
void psi_u64_map_fini(struct psi_u64_map *m);
uint32_t psi_u64_map_count(const struct psi_u64_map *m);
void *psi_u64_map_find(const struct psi_u64_map *m, uint64_t key);
/** Look up n keys, each as psi_u64_map_find(), into out_values [n]. Faster for large tables, because it prefetches. */
void psi_u64_map_find_all(const struct psi_u64_map *m, const uint64_t *keys, uint32_t n, void **out_values);
PSI_MUST ps_status psi_u64_map_put(struct psi_u64_map *m, uint64_t key, void *value, void **out_old, struct psi_err *err);
PSI_MUST ps_status psi_u64_map_reserve(struct psi_u64_map *m, struct psi_err *err);
void *psi_u64_map_remove(struct psi_u64_map *m, uint64_t key);
bool psi_u64_map_next(const struct psi_u64_map *m, uint64_t *cursor, uint64_t *out_key, void **out_value);

#endif

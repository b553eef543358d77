/* SPDX-License-Identifier: Apache-2.0 */
/* Grains: if a push of rows changes little of a block of 64 KiB, a cut (kept.h) does not copy the whole block before the change.
 * It copies only the grains, of 64 bytes each, in which the changed bytes lie. Later the walk copies the block, and puts the
 * grains back into the copy.
 *
 * Happy path: psd_cut_grains_keep() before each change of the block -> psd_cut_grains_restore() -> psd_cut_grains_free().
 * Failure: psd_cut_grains_keep() returns false without memory, and if copying the whole block costs no more: for a wide change,
 * or when the block has many grains. The caller then copies the block.
 *
 * Memory comes from the cut's arena, and goes back to the system at the end of the cut. Grains count as memory that the cut
 * holds, but the walk does not pause for them, because the walk frees them. */
#include "cut_internal.h"

#include <string.h>

enum {
    GRAIN_BYTES = 64, /* a cache line, which has room for a row of 16 float32 */
    BATCH_GRAINS = 7, /* 7 grains and 64 bytes in front of them make 512 bytes, a size class of the arena */
    /* a change of a quarter of a block or more is not kept in grains. A copy of the block takes no longer, and the rest of the
     * block often changes next: rounds build values in such pieces (rounds.c) */
    WIDE_IN = 4,
    /* at most three quarters of a block are kept in grains: more grains would take more memory than a copy of the block */
    MOST = 3,
    MOST_IN = 4
};
enum { BLOCK_GRAINS = PSD_CUT_BLOCK_BYTES / GRAIN_BYTES };

struct batch {
    struct batch *older;
    uint16_t numbers[BATCH_GRAINS]; /* offset of each grain in the block, in units of GRAIN_BYTES */
    _Alignas(GRAIN_BYTES) uint8_t bytes[BATCH_GRAINS][GRAIN_BYTES];
};

_Static_assert(sizeof(struct batch) == 512, "a size class of the arena");
_Static_assert(BLOCK_GRAINS % 64 == 0 && BLOCK_GRAINS - 1 <= UINT16_MAX, "bits in words, and numbers");

struct psd_cut_grains {
    struct batch *newest;            /* newest batch of the list; all others are full */
    uint32_t count;                  /* number of grains in all batches */
    uint64_t has[BLOCK_GRAINS / 64]; /* one bit for each grain of the block; 1: a batch has it */
};

static bool has_grain(const struct psd_cut_grains *g, uint64_t i)
{
    return g != NULL && (g->has[i / 64] >> i % 64 & 1) != 0;
}

static void *take(struct psd_cut *cut, size_t bytes)
{
    void *p = psd_arena_alloc_raw(&cut->arena, bytes);
    if (p != NULL) {
        psd_cut_hold(cut, psd_arena_bytes(bytes));
        cut->uncopied_bytes += psd_arena_bytes(bytes);
    }
    return p;
}

static void give(struct psd_cut *cut, void *p, size_t bytes)
{
    psd_arena_free(&cut->arena, p, bytes);
    psd_cut_let_go(cut, psd_arena_bytes(bytes));
    cut->uncopied_bytes -= psd_arena_bytes(bytes);
}

/* The batch that gets the next grain, at index g->count % BATCH_GRAINS; a new batch if the newest is full. NULL: no memory. The
 * batch itself is not read, because it may not be in the CPU's cache. */
static struct batch *batch_with_room(struct psd_cut *cut, struct psd_cut_grains *g)
{
    if (g->count % BATCH_GRAINS > 0) {
        return g->newest;
    }
    struct batch *b = take(cut, sizeof(*b));
    if (b != NULL) {
        b->older = g->newest;
        g->newest = b;
    }
    return b;
}

static struct psd_cut_grains *grains_of(struct psd_cut *cut, struct psd_cut_grains **held)
{
    if (*held == NULL) {
        *held = take(cut, sizeof(**held));
        if (*held != NULL) {
            memset(*held, 0, sizeof(**held));
        }
    }
    return *held;
}

static uint64_t wide_grains(uint64_t block_bytes)
{
    return block_bytes / (WIDE_IN * GRAIN_BYTES);
}

static uint64_t most_grains(uint64_t block_bytes)
{
    return block_bytes * MOST / (MOST_IN * GRAIN_BYTES);
}

static uint64_t grain_bytes(uint64_t block_bytes, uint64_t i)
{
    const uint64_t left = block_bytes - i * GRAIN_BYTES;
    return left < GRAIN_BYTES ? left : GRAIN_BYTES;
}

bool psd_cut_grains_keep(struct psd_cut *cut, struct psd_cut_grains **held, const uint8_t *block, uint64_t block_bytes,
                         struct psd_span change)
{
    const uint64_t first = change.at / GRAIN_BYTES, last = (change.at + change.bytes - 1) / GRAIN_BYTES;
    const uint64_t most = most_grains(block_bytes);
    if (last - first + 1 >= wide_grains(block_bytes)) {
        return false;
    }
    struct psd_cut_grains *g = grains_of(cut, held);
    for (uint64_t i = first; g != NULL && i <= last; i++) {
        if (has_grain(g, i)) {
            continue;
        }
        struct batch *b = g->count < most ? batch_with_room(cut, g) : NULL;
        if (b == NULL) {
            return false;
        }
        memcpy(b->bytes[g->count % BATCH_GRAINS], block + i * GRAIN_BYTES, grain_bytes(block_bytes, i));
        b->numbers[g->count % BATCH_GRAINS] = (uint16_t)i;
        g->has[i / 64] |= UINT64_C(1) << i % 64;
        g->count++;
    }
    return g != NULL;
}

void psd_cut_grains_fetch(const struct psd_cut_grains *g, uint64_t at)
{
    if (g != NULL) {
        __builtin_prefetch(g);
        __builtin_prefetch(&g->has[at / GRAIN_BYTES / 64]);
    }
}

uint64_t psd_cut_grains_missing(const struct psd_cut_grains *g, uint64_t block_bytes, struct psd_span change)
{
    const uint64_t first = change.at / GRAIN_BYTES, last = (change.at + change.bytes - 1) / GRAIN_BYTES;
    const uint64_t most = most_grains(block_bytes);
    uint64_t missing = 0;
    if (last - first + 1 >= wide_grains(block_bytes)) {
        return block_bytes;
    }
    for (uint64_t i = first; i <= last; i++) {
        missing += has_grain(g, i) ? 0 : 1;
    }
    return (g == NULL ? 0 : g->count) + missing > most ? block_bytes : missing * GRAIN_BYTES;
}

void psd_cut_grains_restore(const struct psd_cut_grains *g, uint8_t *block, uint64_t block_bytes)
{
    const struct batch *b = g->newest;
    for (uint32_t left = g->count; left > 0; b = left % BATCH_GRAINS == 0 ? b->older : b) {
        const uint32_t i = --left % BATCH_GRAINS;
        memcpy(block + (size_t)b->numbers[i] * GRAIN_BYTES, b->bytes[i], grain_bytes(block_bytes, b->numbers[i]));
    }
}

void psd_cut_grains_free(struct psd_cut *cut, struct psd_cut_grains *g)
{
    while (g != NULL && g->newest != NULL) {
        struct batch *b = g->newest;
        g->newest = b->older;
        give(cut, b, sizeof(*b));
    }
    if (g != NULL) {
        give(cut, g, sizeof(*g));
    }
}

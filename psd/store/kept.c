/* SPDX-License-Identifier: Apache-2.0 */
/* Copies memory for a checkpoint being written (kept.h). Happy path: psd_kept_new() -> its blocks are copied by psd_kept_change()
 * or psd_kept_turn() -> psd_kept_free(). Failure: without memory the cut fails, and later changes copy nothing. */
#include "cut_internal.h"

#include "common/crc32c.h"
#include "common/mem.h"

#include <string.h>

static uint64_t block_count(uint64_t bytes)
{
    return (bytes + PSD_CUT_BLOCK_BYTES - 1) / PSD_CUT_BLOCK_BYTES;
}

static size_t record_bytes(uint64_t blocks)
{
    return sizeof(struct psd_kept) + blocks * (sizeof(struct psd_cut_grains *) + sizeof(uint32_t)) + (blocks + 7) / 8;
}

struct psd_kept *psd_kept_new(struct psd_cut *cut, struct psd_kept **holder, const void *p, uint64_t bytes, uint64_t memory_bytes)
{
    uint64_t blocks = block_count(bytes);
    struct psd_kept *k = cut->st == PS_OK ? psi_calloc(1, record_bytes(blocks)) : NULL;
    if (k == NULL) {
        return NULL;
    }
    PSI_ASSERT(*holder == NULL);
    *holder = k;
    k->cut = cut;
    k->holder = holder;
    k->memory = p;
    k->bytes = bytes;
    k->memory_bytes = memory_bytes;
    k->blocks_left = blocks;
    k->sums = (uint32_t *)(void *)&k->grains[blocks];
    k->copied = (uint8_t *)&k->sums[blocks];
    psi_list_push_back(&cut->kept, &k->link);
    psd_store_count(cut->store, PSD_MEMORY_CUT, psi_malloc_bytes(record_bytes(blocks)));
    return k;
}

static void release(struct psd_kept *k)
{
    if (k->owned) {
        psd_arena_free(&k->cut->store->arena, (void *)(uintptr_t)k->memory, k->memory_bytes);
        psd_cut_let_go(k->cut, k->memory_bytes);
        k->cut->uncopied_bytes -= k->memory_bytes;
        k->owned = false;
    }
}

void psd_kept_free(struct psd_kept *k)
{
    PSI_ASSERT(k->variable == NULL);
    for (uint64_t b = 0; k->blocks_left > 0 && b < block_count(k->bytes); b++) {
        psd_cut_grains_free(k->cut, k->grains[b]);
    }
    release(k);
    if (k->holder != NULL) {
        *k->holder = NULL;
    }
    psi_list_remove(&k->link);
    psd_store_uncount(k->cut->store, PSD_MEMORY_CUT, psi_malloc_bytes(record_bytes(block_count(k->bytes))));
    psi_free(k);
}

static bool is_copied(const struct psd_kept *k, uint64_t block)
{
    return (k->copied[block / 8] >> block % 8 & 1) != 0;
}

static uint64_t block_bytes(const struct psd_kept *k, uint64_t block)
{
    uint64_t left = k->bytes - block * PSD_CUT_BLOCK_BYTES;
    return left < PSD_CUT_BLOCK_BYTES ? left : PSD_CUT_BLOCK_BYTES;
}

static void copy(struct psd_kept *k, uint64_t block)
{
    uint8_t restored[PSD_CUT_BLOCK_BYTES];
    uint64_t at = block * PSD_CUT_BLOCK_BYTES, n = block_bytes(k, block);
    const uint8_t *p = k->memory + at;
    if (k->grains[block] != NULL) {
        memcpy(restored, p, n);
        psd_cut_grains_restore(k->grains[block], restored, n);
        psd_cut_grains_free(k->cut, k->grains[block]);
        k->grains[block] = NULL;
        p = restored;
    }
    k->sums[block] = k->file == 0 ? 0 : psi_crc32c_far(0, p, n);
    k->put(k, at, p, n);
    k->copied[block / 8] |= (uint8_t)(1 << block % 8);
    k->blocks_left--;
    if (k->blocks_left == 0) {
        release(k);
    }
}

/* The part of [offset, end) that lies in this block, with its offset in the block. */
static struct psd_span part_in(uint64_t block, uint64_t offset, uint64_t end)
{
    const uint64_t at = block * PSD_CUT_BLOCK_BYTES, from = offset > at ? offset - at : 0;
    const uint64_t to = end - at < PSD_CUT_BLOCK_BYTES ? end - at : PSD_CUT_BLOCK_BYTES;
    return (struct psd_span){.at = from, .bytes = to - from};
}

void psd_kept_change(struct psd_kept *k, uint64_t offset, uint64_t bytes)
{
    if (k == NULL || k->blocks_left == 0 || bytes == 0 || offset >= k->bytes) {
        return;
    }
    uint64_t end = bytes < k->bytes - offset ? offset + bytes : k->bytes;
    for (uint64_t b = offset / PSD_CUT_BLOCK_BYTES; b * PSD_CUT_BLOCK_BYTES < end && k->cut->st == PS_OK; b++) {
        const struct psd_span part = part_in(b, offset, end);
        if (!is_copied(k, b) &&
            !psd_cut_grains_keep(k->cut, &k->grains[b], k->memory + b * PSD_CUT_BLOCK_BYTES, block_bytes(k, b), part)) {
            copy(k, b);
        }
    }
}

void psd_kept_fetch(const struct psd_kept *k, uint64_t offset)
{
    if (k != NULL && k->blocks_left > 0 && offset < k->bytes) {
        psd_cut_grains_fetch(k->grains[offset / PSD_CUT_BLOCK_BYTES], offset % PSD_CUT_BLOCK_BYTES);
        __builtin_prefetch(k->memory + offset);
    }
}

uint64_t psd_kept_missing(const struct psd_kept *k, uint64_t offset, uint64_t bytes)
{
    uint64_t missing = 0;
    if (k == NULL || k->blocks_left == 0 || bytes == 0 || offset >= k->bytes || k->cut->st != PS_OK) {
        return 0;
    }
    uint64_t end = bytes < k->bytes - offset ? offset + bytes : k->bytes;
    for (uint64_t b = offset / PSD_CUT_BLOCK_BYTES; b * PSD_CUT_BLOCK_BYTES < end; b++) {
        missing += is_copied(k, b) ? 0 : psd_cut_grains_missing(k->grains[b], block_bytes(k, b), part_in(b, offset, end));
    }
    return missing;
}

void psd_kept_turn(struct psd_kept *k)
{
    while (is_copied(k, k->next)) {
        k->next++;
    }
    copy(k, k->next);
}

void psd_kept_let_go(struct psd_store *s, struct psd_kept **holder, void *p, uint64_t bytes)
{
    struct psd_kept *k = *holder;
    *holder = NULL;
    if (k != NULL) {
        PSI_ASSERT(k->memory == p && k->memory_bytes == bytes);
        k->holder = NULL;
    }
    if (k == NULL || k->blocks_left == 0 || k->cut->st != PS_OK) {
        psd_arena_free(&s->arena, p, bytes);
        return;
    }
    k->owned = true;
    psd_cut_hold(k->cut, bytes);
    k->cut->uncopied_bytes += bytes;
}

void psd_kept_move(struct psd_kept **to, struct psd_kept **from)
{
    PSI_ASSERT(*to == NULL);
    psd_kept_swap(to, from);
}

void psd_kept_swap(struct psd_kept **a, struct psd_kept **b)
{
    struct psd_kept *k = *a;
    *a = *b;
    *b = k;
    if (*a != NULL) {
        (*a)->holder = a;
    }
    if (*b != NULL) {
        (*b)->holder = b;
    }
}

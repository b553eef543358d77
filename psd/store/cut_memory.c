/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of what a cut writes. Blocks of 64 KiB with values are parts of slabs of 4 MiB, for which the system may use huge pages:
 * page faults of a separate block take several times as long as copying it. Other memory is from malloc.
 *
 * Happy path: psd_cut_write_new() -> written -> psd_cut_write_free(); a slab is freed with its last block. Failure: NULL. */
#include "cut_internal.h"

#include "common/mem.h"

#include <string.h>

enum { SLAB_BLOCKS = 64 };

void psd_cut_hold(struct psd_cut *cut, uint64_t bytes)
{
    psd_store_count(cut->store, PSD_MEMORY_CUT, bytes);
    cut->held_bytes += bytes;
    if (cut->held_bytes > cut->held_bytes_max) {
        cut->held_bytes_max = cut->held_bytes;
    }
}

void psd_cut_let_go(struct psd_cut *cut, uint64_t bytes)
{
    psd_store_uncount(cut->store, PSD_MEMORY_CUT, bytes);
    cut->held_bytes -= bytes;
}

struct psd_cut_slab {
    struct psi_list link; /* in psd_cut.slabs while the slab has a free block */
    uint8_t *memory;
    uint64_t free_bits;
};

static struct psd_cut_slab *slab_of(struct psd_cut *cut)
{
    struct psi_list *link = psi_list_first(&cut->slabs);
    if (link != NULL) {
        return PSI_CONTAINER_OF(link, struct psd_cut_slab, link);
    }
    struct psd_cut_slab *s = psi_malloc(sizeof(*s));
    if (s == NULL) {
        return NULL;
    }
    s->memory = psd_arena_alloc_raw(&cut->arena, SLAB_BLOCKS * PSD_CUT_BLOCK_BYTES);
    if (s->memory == NULL) {
        psi_free(s);
        return NULL;
    }
    s->free_bits = UINT64_MAX;
    psi_list_init(&s->link);
    psi_list_push_front(&cut->slabs, &s->link);
    return s;
}

static bool block_take(struct psd_cut *cut, struct psd_cut_write *w)
{
    struct psd_cut_slab *s = slab_of(cut);
    if (s == NULL) {
        return false;
    }
    uint32_t i = (uint32_t)__builtin_ctzll(s->free_bits);
    s->free_bits &= s->free_bits - 1;
    if (s->free_bits == 0) {
        psi_list_remove(&s->link);
    }
    w->slab = s;
    w->data = s->memory + i * PSD_CUT_BLOCK_BYTES;
    return true;
}

static void block_give(struct psd_cut *cut, const struct psd_cut_write *w)
{
    struct psd_cut_slab *s = w->slab;
    if (s->free_bits == 0) {
        psi_list_push_front(&cut->slabs, &s->link);
    }
    s->free_bits |= UINT64_C(1) << ((size_t)(w->data - s->memory) / PSD_CUT_BLOCK_BYTES);
    if (s->free_bits == UINT64_MAX) {
        psi_list_remove(&s->link);
        psd_arena_free(&cut->arena, s->memory, SLAB_BLOCKS * PSD_CUT_BLOCK_BYTES);
        psi_free(s);
    }
}

struct psd_cut_write *psd_cut_write_new(struct psd_cut *cut, uint32_t file, uint32_t capacity)
{
    bool block = file != 0 && capacity == PSD_CUT_BLOCK_BYTES;
    struct psd_cut_write *w = psi_malloc(sizeof(*w));
    if (w == NULL) {
        return NULL;
    }
    *w = (struct psd_cut_write){.file = file, .capacity = capacity};
    if (!block) {
        w->data = psi_malloc(capacity);
    }
    if (block ? !block_take(cut, w) : w->data == NULL) {
        psi_free(w);
        return NULL;
    }
    psi_list_init(&w->link);
    return w;
}

bool psd_cut_write_grow(struct psd_cut *cut, struct psd_cut_write *w, uint32_t capacity)
{
    uint8_t *before = w->data;
    PSI_ASSERT(w->slab == NULL && capacity <= PSD_CUT_BLOCK_BYTES);
    if (capacity < PSD_CUT_BLOCK_BYTES) {
        w->data = psi_malloc(capacity);
    }
    if (capacity < PSD_CUT_BLOCK_BYTES ? w->data == NULL : !block_take(cut, w)) {
        w->data = before;
        return false;
    }
    memcpy(w->data, before, w->bytes);
    psi_free(before);
    w->capacity = capacity;
    return true;
}

void psd_cut_write_free(struct psd_cut *cut, struct psd_cut_write *w)
{
    if (w->slab != NULL) {
        block_give(cut, w);
    } else {
        psi_free(w->data);
    }
    psi_free(w);
}

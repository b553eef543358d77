/* SPDX-License-Identifier: Apache-2.0 */
/* Happy path: small pieces share blocks of 64 KiB, aligned at 64 KiB, so a piece's address, masked, gives its block. A block
 * begins with a head of 64 bytes. Large pieces are anonymous mappings of whole blocks: the kernel zeroes their pages. */
#include "arena.h"

#include "common/mem.h"

#include <string.h>
#include <sys/mman.h>

struct block {
    struct psi_list link;
    void *free_list; /* free pieces, linked through their first bytes */
    uint32_t used;   /* number of pieces in use */
    uint32_t next;   /* index of the first piece that was never in use */
    uint32_t piece_bytes;
    uint32_t class_index;
};
enum { HEAD_BYTES = 64, UNIT_BYTES = 64 };
_Static_assert(sizeof(struct block) <= HEAD_BYTES, "block head");

/* The size class of a piece. Pieces of a class have 1 to 4 units of 64 bytes, or (5 to 8) << shift units. */
static uint32_t class_of(uint64_t bytes)
{
    uint32_t units = (uint32_t)((bytes + UNIT_BYTES - 1) / UNIT_BYTES);
    if (units <= 4) {
        return units == 0 ? 0 : units - 1; /* 0 bytes get a piece too, because NULL as a value means that there is no value */
    }
    uint32_t shift = 29 - (uint32_t)__builtin_clz(units - 1);
    return 4 * shift + ((units - 1) >> shift);
}

static uint32_t class_bytes(uint32_t c)
{
    return c < 4 ? (c + 1) * UNIT_BYTES : (c % 4 + 5) * UNIT_BYTES << (c / 4 - 1);
}

static uint32_t pieces_of(uint32_t piece_bytes)
{
    return (uint32_t)((PSD_ARENA_BLOCK_BYTES - HEAD_BYTES) / piece_bytes);
}

/* True for a piece above a quarter of a block, which gets whole blocks of its own. */
static bool is_large(uint64_t bytes)
{
    return bytes > PSD_ARENA_BLOCK_BYTES / 4;
}

static uint64_t whole_blocks(uint64_t bytes)
{
    return (bytes + PSD_ARENA_BLOCK_BYTES - 1) & ~(uint64_t)(PSD_ARENA_BLOCK_BYTES - 1);
}

uint64_t psd_arena_bytes(uint64_t bytes)
{
    return is_large(bytes) ? (bytes + PSD_ARENA_PAGE_BYTES - 1) & ~(uint64_t)(PSD_ARENA_PAGE_BYTES - 1)
                           : class_bytes(class_of(bytes));
}

void psd_arena_init(struct psd_arena *a)
{
    memset(a, 0, sizeof(*a));
    for (uint32_t i = 0; i < PSD_ARENA_CLASSES; i++) {
        psi_list_init(&a->classes[i]);
    }
    psi_list_init(&a->full);
    psi_list_init(&a->spare);
    psi_list_init(&a->kept);
}

static void free_blocks(struct psi_list *head)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_pop_front(head)) != NULL) {
        psi_pages_free(PSI_CONTAINER_OF(link, struct block, link), PSD_ARENA_BLOCK_BYTES);
    }
}

/* Written into the first bytes of a large piece that was freed and is kept for reuse. */
struct kept {
    struct psi_list link;
    uint64_t bytes; /* in whole blocks */
};

static void unmap(void *p, uint64_t bytes)
{
    int failed = munmap(p, bytes);
    PSI_ASSERT(failed == 0);
}

/* Unmap the oldest kept pieces until at most `most` bytes are kept. */
static void keep_at_most(struct psd_arena *a, uint64_t most)
{
    while (a->kept_bytes > most) {
        struct kept *k = PSI_CONTAINER_OF(psi_list_last(&a->kept), struct kept, link);
        psi_list_remove(&k->link);
        a->kept_bytes -= k->bytes;
        unmap(k, k->bytes);
    }
}

void psd_arena_fini(struct psd_arena *a)
{
    keep_at_most(a, 0);
    for (uint32_t i = 0; i < PSD_ARENA_CLASSES; i++) {
        free_blocks(&a->classes[i]);
    }
    free_blocks(&a->full);
    free_blocks(&a->spare);
}

void psd_arena_take(struct psd_arena *a, struct psd_arena *from)
{
    for (uint32_t i = 0; i < PSD_ARENA_CLASSES; i++) {
        psi_list_move_all(&a->classes[i], &from->classes[i]);
    }
    psi_list_move_all(&a->full, &from->full);
    a->used_bytes += from->used_bytes;
    a->taken_bytes += from->taken_bytes;
    psd_arena_fini(from); /* frees the spare blocks and the kept pieces of `from` */
    psd_arena_init(from);
}

static struct block *block_new(struct psd_arena *a)
{
    struct psi_list *link = psi_list_pop_front(&a->spare);
    if (link == NULL) {
        return psi_pages(PSD_ARENA_BLOCK_BYTES);
    }
    a->spare_count--;
    return PSI_CONTAINER_OF(link, struct block, link);
}

/* Free b, which has no piece in use and is in no list. */
static void block_free(struct psd_arena *a, struct block *b)
{
    if (a->spare_count == PSD_ARENA_SPARE_MAX) {
        psi_pages_free(b, PSD_ARENA_BLOCK_BYTES);
    } else {
        psi_list_push_front(&a->spare, &b->link);
        a->spare_count++;
    }
}

static void *alloc_small(struct psd_arena *a, uint64_t bytes)
{
    uint32_t c = class_of(bytes);
    struct block *b = NULL;
    if (psi_list_empty(&a->classes[c])) {
        b = block_new(a);
        if (b == NULL) {
            return NULL;
        }
        memset(b, 0, sizeof(*b));
        b->piece_bytes = class_bytes(c);
        b->class_index = c;
        psi_list_push_front(&a->classes[c], &b->link);
    } else {
        b = PSI_CONTAINER_OF(psi_list_first(&a->classes[c]), struct block, link);
    }
    uint8_t *p = b->free_list;
    if (p != NULL) {
        memcpy(&b->free_list, p, sizeof(b->free_list));
    } else {
        p = (uint8_t *)b + HEAD_BYTES + (size_t)b->next * b->piece_bytes;
        b->next++;
    }
    b->used++;
    if (b->free_list == NULL && b->next == pieces_of(b->piece_bytes)) {
        psi_list_remove(&b->link);
        psi_list_push_back(&a->full, &b->link);
    }
    return p;
}

static void free_small(struct psd_arena *a, void *p)
{
    struct block *b = (struct block *)(void *)((uintptr_t)p & ~(uintptr_t)(PSD_ARENA_BLOCK_BYTES - 1));
    bool was_full = b->free_list == NULL && b->next == pieces_of(b->piece_bytes);
    memcpy(p, &b->free_list, sizeof(b->free_list));
    b->free_list = p;
    b->used--;
    if (b->used == 0) {
        psi_list_remove(&b->link);
        block_free(a, b);
    } else if (was_full) {
        psi_list_remove(&b->link);
        psi_list_push_front(&a->classes[b->class_index], &b->link);
    }
}

/* Find a large piece that was freed and kept for reuse, and that has exactly the needed number of blocks. NULL: there is none. */
static void *take_kept(struct psd_arena *a, uint64_t bytes)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &a->kept) {
        struct kept *k = PSI_CONTAINER_OF(it, struct kept, link);
        if (k->bytes == whole_blocks(bytes)) {
            psi_list_remove(it);
            a->kept_bytes -= k->bytes;
            return k;
        }
    }
    return NULL;
}

static void free_large(struct psd_arena *a, void *p, uint64_t bytes)
{
    struct kept *k = p;
    if (bytes > PSD_ARENA_KEPT_BYTES / 2) {
        unmap(p, bytes);
        return;
    }
    keep_at_most(a, PSD_ARENA_KEPT_BYTES - bytes);
    k->bytes = bytes;
    psi_list_push_front(&a->kept, &k->link);
    a->kept_bytes += bytes;
}

static void *alloc_large(uint64_t bytes)
{
    void *p = mmap(NULL, whole_blocks(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
    if (bytes >= ((uint64_t)4 << 20)) {
        PSI_IGNORE(madvise(p, whole_blocks(bytes), MADV_HUGEPAGE)); /* fewer page faults; the kernel may ignore it */
    }
    return p;
}

static void *taken(struct psd_arena *a, void *p, uint64_t bytes)
{
    a->used_bytes += p != NULL ? bytes : 0;
    a->taken_bytes += p != NULL ? psd_arena_bytes(bytes) : 0;
    return p;
}

void *psd_arena_alloc_raw(struct psd_arena *a, uint64_t bytes)
{
    void *p = is_large(bytes) ? take_kept(a, bytes) : alloc_small(a, bytes);
    return taken(a, p == NULL && is_large(bytes) ? alloc_large(bytes) : p, bytes);
}

void *psd_arena_alloc(struct psd_arena *a, uint64_t bytes)
{
    void *p = is_large(bytes) ? alloc_large(bytes) : alloc_small(a, bytes);
    if (p != NULL && !is_large(bytes)) { /* large pieces come zeroed from the system */
        memset(p, 0, class_bytes(class_of(bytes)));
    }
    return taken(a, p, bytes);
}

void psd_arena_free(struct psd_arena *a, void *p, uint64_t bytes)
{
    if (p == NULL) {
        return;
    }
    a->used_bytes -= bytes;
    a->taken_bytes -= psd_arena_bytes(bytes);
    if (is_large(bytes)) {
        free_large(a, p, whole_blocks(bytes));
    } else {
        free_small(a, p);
    }
}

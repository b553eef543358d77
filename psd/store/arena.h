/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of variables, slots, elements of queues and staging of one task. One thread.
 *
 * A piece of more than 16 KiB is whole page-aligned 64 KiB blocks from the system. Smaller pieces are parts of shared blocks,
 * 64-byte aligned, in size classes: multiples of 64 bytes up to 256; each class above is at most a quarter larger than the class
 * before. A few blocks without a piece in use are kept for pieces of any class. The large pieces that were freed last are kept
 * for psd_arena_alloc_raw(): page faults of a new piece take 3 to 18 times as long as copying its content (64 KiB to 1 MiB). */
#ifndef PSD_ARENA_H
#define PSD_ARENA_H

#include "common/list.h"
#include "common/status.h"

#include <stdint.h>

#define PSD_ARENA_BLOCK_BYTES ((size_t)64 << 10)
#define PSD_ARENA_CLASSES                                                                                                        \
    28 /* size classes in units of 64 bytes: 1, 2, 3, 4, then 5 to 8, 10 to 16 by 2, 20 to 32 by 4, ... up to 16 KiB */
enum {
    PSD_ARENA_SPARE_MAX = 16,       /* most empty blocks kept for reuse */
    PSD_ARENA_PAGE_BYTES = 4096,    /* bytes of a page; of a large piece only pages that were touched take memory */
    PSD_ARENA_KEPT_BYTES = 16 << 20 /* most bytes of large pieces kept for reuse; a piece larger than half of this is not kept */
};

struct psd_arena {
    uint64_t used_bytes;                        /* requested bytes of the pieces in use */
    uint64_t taken_bytes;                       /* sum of psd_arena_bytes() of the pieces in use */
    struct psi_list classes[PSD_ARENA_CLASSES]; /* shared blocks with a free piece */
    struct psi_list full;                       /* shared blocks without a free piece */
    struct psi_list spare;                      /* shared blocks without a piece in use */
    uint32_t spare_count;
    struct psi_list kept; /* large pieces kept for reuse, the most recently freed first */
    uint64_t kept_bytes;
};

void psd_arena_init(struct psd_arena *a);
/** Bytes that a piece of this size takes: its size class; if it is large, its whole pages. 0 bytes take as much as 1 byte. */
uint64_t psd_arena_bytes(uint64_t bytes);
/** Free all shared blocks, also with pieces in use, and the large pieces kept for reuse. Large pieces in use are not freed. */
void psd_arena_fini(struct psd_arena *a);
/** Give all pieces of `from` to `a`. `from` is empty afterwards. */
void psd_arena_take(struct psd_arena *a, struct psd_arena *from);
/** A zeroed piece. NULL: the system has no memory. */
void *psd_arena_alloc(struct psd_arena *a, uint64_t bytes);
/** A piece with undefined content, otherwise as psd_arena_alloc(). */
void *psd_arena_alloc_raw(struct psd_arena *a, uint64_t bytes);
/** Free p, which was allocated with the same number of bytes. NULL is fine. */
void psd_arena_free(struct psd_arena *a, void *p, uint64_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of variables, slots, elements of queues and staging of one task. More than 16 KiB: whole page-aligned 64 KiB blocks from
 * the system, given back when freed. Smaller: pieces of shared blocks, 64-byte aligned, in size classes at most a quarter apart;
 * a few blocks without a piece in use are kept for the next one, whatever its class. Large pieces that were freed last are kept
 * for those who take memory as it is: the page faults of a new one cost 3 to 18 times the copy of what goes there (64 KiB to 1
 * MiB). One thread.
 */
#ifndef PSD_ARENA_H
#define PSD_ARENA_H

#include "common/list.h"
#include "common/status.h"

#include <stdint.h>

#define PSD_ARENA_BLOCK_BYTES ((size_t)64 << 10)
#define PSD_ARENA_CLASSES 28 /* of 64-byte units: 1, 2, 3, 4, then 5 to 8, 10 to 16 by 2, 20 to 32 by 4, ... up to 16 KiB */
enum {
    PSD_ARENA_SPARE_MAX = 16,       /* blocks kept */
    PSD_ARENA_PAGE_BYTES = 4096,    /* page size in which the system gives a large piece */
    PSD_ARENA_KEPT_BYTES = 16 << 20 /* of large pieces kept, no one of more than half of it */
};

struct psd_arena {
    uint64_t used_bytes;                        /* asked for and not freed */
    uint64_t taken_bytes;                       /* sum of psd_arena_bytes() of the pieces in use */
    struct psi_list classes[PSD_ARENA_CLASSES]; /* shared blocks with a free piece */
    struct psi_list full;                       /* shared blocks without */
    struct psi_list spare;                      /* blocks that nobody uses */
    uint32_t spare_count;
    struct psi_list kept; /* large pieces that nobody uses, the one freed last first */
    uint64_t kept_bytes;
};

void psd_arena_init(struct psd_arena *a);
/** What a piece of this size takes: its class, or the whole pages that the program touches. A piece of 0 bytes has an address of
 *  its own, and takes as much as one of 1 byte. */
uint64_t psd_arena_bytes(uint64_t bytes);
/** Every piece must have been freed, or is lost with the blocks. */
void psd_arena_fini(struct psd_arena *a);
/** All of `from`, used or not, is of `a` from now on; `from` is empty. */
void psd_arena_take(struct psd_arena *a, struct psd_arena *from);
/** Zeroed; NULL when the system has no more. */
void *psd_arena_alloc(struct psd_arena *a, uint64_t bytes);
/** The same, with whatever is in it. */
void *psd_arena_alloc_raw(struct psd_arena *a, uint64_t bytes);
/** p from psd_arena_alloc of the same number of bytes; NULL is fine. */
void psd_arena_free(struct psd_arena *a, void *p, uint64_t bytes);

#endif

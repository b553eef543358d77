/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory as it was at the instant of a cut (cut.h): values, slots, staging of pushes in progress. It is written in blocks of
 * 64 KiB, each copied once: when its turn comes, or before its first change. Whoever changes such memory calls
 * psd_kept_change() before. Whoever frees it calls psd_kept_let_go(): then the cut owns the memory until it is copied.
 *
 * The life of a block: copied into a psd_cut_write, with its CRC noted -> taken by whoever writes files -> written, and
 * freed.
 */
#ifndef PSD_KEPT_H
#define PSD_KEPT_H

#include "common/limits.h"
#include "common/list.h"
#include "variable.h"

#define PSD_CUT_BLOCK_BYTES ((uint64_t)PS_SEGMENT_BYTES)

struct psd_cut;
struct psd_cut_slab;

/* Where bytes go: among the values of a model file, which lie by the size of their elements (common/safetensors.h), or at an
 * offset in any file. */
enum psd_cut_place { PSD_CUT_IN_8, PSD_CUT_IN_4, PSD_CUT_IN_2, PSD_CUT_IN_1, PSD_CUT_IN_FILE };

struct psd_cut_write {
    /* volatile: */
    struct psi_list link;
    uint32_t file; /* 0: the state file; from 1 on: files of values */
    enum psd_cut_place place;
    uint64_t at; /* offset in `place`; in the file once the write is taken */
    uint32_t bytes, capacity;
    uint8_t *data;
    struct psd_cut_slab *slab; /* slab that data is a block of; NULL: data is allocated by itself */
};

/* One piece of memory that is kept. */
struct psd_kept {
    /* volatile: */
    struct psi_list link; /* in psd_cut.kept */
    struct psd_cut *cut;
    void (*put)(struct psd_kept *k, uint64_t at, uint64_t n); /* copies bytes [at, at + n) of one block */
    struct psd_kept **holder; /* lies beside the pointer to the memory; NULL: the cut owns the memory, or it is gone */
    const uint8_t *memory;
    uint64_t bytes;        /* kept, from the beginning of the memory */
    uint64_t memory_bytes; /* length of the memory, for freeing it */
    uint64_t left;         /* blocks not copied yet */
    uint64_t next;         /* all blocks below are copied */
    bool owned;
    uint32_t file; /* 0: goes as entries of the state file, as staging of mutation `number` of `session` */
    uint32_t which;
    enum psd_cut_place place;
    uint64_t at;    /* offset in `place` */
    uint64_t split; /* of a blob of strings: offsets, below `split`, go to (place, at), the bytes behind to (IN_1, split_at); 0:
                       no blob */
    uint64_t split_at;
    const struct psd_variable *variable; /* holds one reference as long as the name is needed */
    uint64_t creation, number;
    uint8_t session[16];
    uint8_t *copied; /* a bit for each block */
    uint32_t sums[]; /* CRC32C of each block */
};

/** Keep the first `bytes` of p, and set *holder. NULL: no memory. The caller fills in `put` and where the bytes go. */
struct psd_kept *psd_kept_new(struct psd_cut *cut, struct psd_kept **holder, const void *p, uint64_t bytes,
                              uint64_t memory_bytes);
/** Free k, and the memory if the cut owns it. The caller has given k->variable back. */
void psd_kept_free(struct psd_kept *k);
/** Call this before bytes [offset, offset + bytes) of the memory change. NULL is fine. */
void psd_kept_change(struct psd_kept *k, uint64_t offset, uint64_t bytes);
/** Bytes of the range that psd_kept_change() would copy, in whole blocks. */
uint64_t psd_kept_missing(const struct psd_kept *k, uint64_t offset, uint64_t bytes);
/** Copy the next block that is not copied. */
void psd_kept_turn(struct psd_kept *k);
/** The caller gives up p, of `bytes`. p is freed now or, if the cut still needs it, once it is copied. */
void psd_kept_let_go(struct psd_store *s, struct psd_kept **holder, void *p, uint64_t bytes);
/** The memory moves from one holder to another. What the other one kept was let go before. */
void psd_kept_move(struct psd_kept **to, struct psd_kept **from);
void psd_kept_swap(struct psd_kept **a, struct psd_kept **b);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory as it was at the instant of a cut (cut.h): values, slots, what pushes in progress have staged. It is written in blocks
 * of 64 KiB, each copied once: when its turn comes, or before its first change. Whoever changes such memory says so before, and
 * whoever frees it lets go of it: then it is the cut's until it is copied.
 *
 * The life of a block: copied into a psd_cut_write, with its CRC noted -> taken by whoever writes files -> written, and gone.
 */
#ifndef PSD_KEPT_H
#define PSD_KEPT_H

#include "common/limits.h"
#include "common/list.h"
#include "variable.h"

#define PSD_CUT_BLOCK_BYTES ((uint64_t)PS_SEGMENT_BYTES)

struct psd_cut;
struct psd_cut_slab;

/* Where in a file: the values of a model file by the size of their elements, since their order is that (common/safetensors.h), or
 * an offset in any file. */
enum psd_cut_place { PSD_CUT_IN_8, PSD_CUT_IN_4, PSD_CUT_IN_2, PSD_CUT_IN_1, PSD_CUT_IN_FILE };

/* Bytes to be written. */
struct psd_cut_write {
    /* volatile: */
    struct psi_list link;
    uint32_t file; /* 0: state; from 1 on: of values */
    enum psd_cut_place place;
    uint64_t at; /* there; in the file once it is taken */
    uint32_t bytes, capacity;
    uint8_t *data;
    struct psd_cut_slab *slab; /* data is a block of it; NULL: it is by itself */
};

/* One piece of memory. */
struct psd_kept {
    /* volatile: */
    struct psi_list link; /* of the cut */
    struct psd_cut *cut;
    void (*put)(struct psd_kept *k, uint64_t at, uint64_t n); /* copies bytes [at, at + n), of one block */
    struct psd_kept **holder; /* beside the pointer to the memory; NULL: the memory is the cut's, or gone */
    const uint8_t *memory;
    uint64_t bytes;        /* from its beginning */
    uint64_t memory_bytes; /* of all of it, for whoever frees it */
    uint64_t left;         /* blocks that are not copied */
    uint64_t next;         /* no block below is not copied */
    bool owned;
    uint32_t file; /* 0: goes as entries of the state, of number `number` of `session` */
    uint32_t which;
    enum psd_cut_place place;
    uint64_t at;    /* in `place` */
    uint64_t split; /* a blob of strings: the offsets before it go there, the bytes behind it to (IN_1, split_at); 0: none */
    uint64_t split_at;
    const struct psd_variable *variable; /* one reference, as long as its name is needed */
    uint64_t creation, number;
    uint8_t session[16];
    uint8_t *copied; /* a bit for each block */
    uint32_t sums[]; /* CRC32C of each block */
};

/** The first `bytes` of p, of which *holder is to know; NULL: no memory. The caller fills in where it goes, and `put`. */
struct psd_kept *psd_kept_new(struct psd_cut *cut, struct psd_kept **holder, const void *p, uint64_t bytes,
                              uint64_t memory_bytes);
/** It goes, with its memory where that is the cut's; its reference is given back before. */
void psd_kept_free(struct psd_kept *k);
/** Bytes [offset, offset + bytes) of the memory are about to be changed. NULL is fine. */
void psd_kept_change(struct psd_kept *k, uint64_t offset, uint64_t bytes);
/** How many bytes that would copy. */
uint64_t psd_kept_missing(const struct psd_kept *k, uint64_t offset, uint64_t bytes);
/** Copy the next block that is not. */
void psd_kept_turn(struct psd_kept *k);
/** Nobody but the cut uses p, of `bytes`, any more: it is freed now, or when it is copied. */
void psd_kept_let_go(struct psd_store *s, struct psd_kept **holder, void *p, uint64_t bytes);
/** The memory is another holder's from now on: what it had is let go before. */
void psd_kept_move(struct psd_kept **to, struct psd_kept **from);
void psd_kept_swap(struct psd_kept **a, struct psd_kept **b);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Memory as it was at the instant of a cut (cut.h): values, slots, staging of pushes in progress. This memory is copied in blocks
 * of 64 KiB, each block once: by the walk, or before a change. Before a change of a small part, only this part is copied (grains,
 * cut_grains.c), and is put back into the later copy of the block. Code that changes such memory calls psd_kept_change() first.
 * Code that frees such memory calls psd_kept_let_go(), and the cut owns the memory until all blocks are copied.
 *
 * A copied block lies in a psd_cut_write, its CRC in `sums`. psd_cut_next() gives writes out, psd_cut_written() frees them. */
#ifndef PSD_KEPT_H
#define PSD_KEPT_H

#include "common/limits.h"
#include "common/list.h"
#include "variable.h"

#define PSD_CUT_BLOCK_BYTES ((uint64_t)PS_SEGMENT_BYTES)

struct psd_cut;
struct psd_cut_grains;
struct psd_cut_slab;

/* Section of a file of values (common/safetensors.h), for elements of 8, 4, 2 or 1 bytes. IN_FILE: the whole file, no section. */
enum psd_cut_place { PSD_CUT_IN_8, PSD_CUT_IN_4, PSD_CUT_IN_2, PSD_CUT_IN_1, PSD_CUT_IN_FILE };

struct psd_cut_write {
    struct psi_list link;
    uint32_t file; /* 0: the state file; from 1 on: files of values */
    enum psd_cut_place place;
    uint64_t at; /* offset in the section `place`; once psd_cut_next() has given the write out: offset in the file */
    uint32_t bytes, capacity;
    uint8_t *data;
    struct psd_cut_slab *slab; /* shared piece of memory in which `data` lies; NULL: data has its own allocation */
};

/* A piece of memory that a cut (a checkpoint being written) needs as it was at the cut's instant, and what of it is copied. */
struct psd_kept {
    struct psi_list link;
    struct psd_cut *cut;
    /* called with bytes [at, at + n) as they were at the instant, all in one block; copies them into a write */
    void (*put)(struct psd_kept *k, uint64_t at, const uint8_t *p, uint64_t n);
    struct psd_kept *
        *holder; /* the owner's field that points to this struct; NULL: the owner has freed the memory (psd_kept_let_go()) */
    const uint8_t *memory;
    uint64_t bytes;        /* bytes kept, from the beginning of the memory */
    uint64_t memory_bytes; /* length of the memory, for freeing it */
    uint64_t blocks_left;  /* number of blocks that are not copied yet */
    uint64_t next;         /* index of a block: all blocks before it are copied */
    bool owned;
    /* index of the file that gets the copy; 0: the state file, because the memory is the gathered body of mutation `number` */
    uint32_t file;
    uint32_t which;
    enum psd_cut_place place;
    uint64_t at;
    /* strings: the first `split` bytes, a table of offsets, go to `at` in section `place`; the texts behind them go to split_at
     * in section PSD_CUT_IN_1. split 0: no strings */
    uint64_t split;
    uint64_t split_at;
    const struct psd_variable *variable; /* holds a reference while the cut needs the variable's name for the file's header */
    uint64_t creation, number;
    uint8_t session[16];
    uint8_t *copied; /* one bit for each block: 1: copied */
    uint32_t *sums;  /* CRC32C of each block */
    /* for each block: copies of its parts that have changed; NULL: nothing has changed, or the whole block is copied */
    struct psd_cut_grains *grains[];
};

/** Note that the cut needs the first `bytes` of p, a piece of memory_bytes, and set *holder. The caller fills in `put`, and where
 * the bytes go in a file. NULL: no memory, or the cut has failed. */
struct psd_kept *psd_kept_new(struct psd_cut *cut, struct psd_kept **holder, const void *p, uint64_t bytes,
                              uint64_t memory_bytes);
/** Free k, and its memory if the cut owns it. Precondition: k->variable is NULL (the caller has released the reference). */
void psd_kept_free(struct psd_kept *k);
/** Call before bytes [offset, offset + bytes) of the memory change: copies what the cut still needs of them. k may be NULL. */
void psd_kept_change(struct psd_kept *k, uint64_t offset, uint64_t bytes);
/** Prefetch the cache lines that a later psd_kept_change() of bytes from `offset` on will read. k may be NULL. */
void psd_kept_fetch(const struct psd_kept *k, uint64_t offset);
/** Number of bytes that psd_kept_change() would copy for this range. k NULL: 0. */
uint64_t psd_kept_missing(const struct psd_kept *k, uint64_t offset, uint64_t bytes);
/** Copy the next block that is not copied yet. Precondition: k->blocks_left > 0. */
void psd_kept_turn(struct psd_kept *k);
/** Free p, memory of `bytes` bytes: at once or, if a cut still needs it, when the cut has copied it. *holder: the psd_kept of p;
 * NULL: no cut needs p. *holder becomes NULL. */
void psd_kept_let_go(struct psd_store *s, struct psd_kept **holder, void *p, uint64_t bytes);
/** Call when memory passes from one variable or mutation to another. psd_kept_move() moves *from into *to, which must be NULL;
 * *from becomes NULL. psd_kept_swap() exchanges *a and *b. */
void psd_kept_move(struct psd_kept **to, struct psd_kept **from);
void psd_kept_swap(struct psd_kept **a, struct psd_kept **b);

#endif

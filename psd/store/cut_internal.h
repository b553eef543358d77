/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by the files that write a cut: the task's state at one instant, for a checkpoint. cut.c and cut_before.c
 * choose what to encode and copy, kept.c copies blocks, cut_grains.c copies parts of blocks, cut_write.c makes writes,
 * cut_memory.c has their memory. */
#ifndef PSD_CUT_INTERNAL_H
#define PSD_CUT_INTERNAL_H

#include "cut.h"
#include "entry.h"

enum psd_cut_stage {
    PSD_CUT_VARIABLES, /* encode variables, and note the values and slots to copy */
    PSD_CUT_TEXTS,     /* make the texts of the headers; then the offset of each value in its file is known */
    PSD_CUT_HEADERS,
    PSD_CUT_RECORDS,
    PSD_CUT_CHIEFS,
    PSD_CUT_NAMES,
    PSD_CUT_QUEUES,
    PSD_CUT_BLOCKS,
    PSD_CUT_SUMS,
    PSD_CUT_LAST,
    PSD_CUT_OVER /* only writes are left */
};

/* A queue with elements that are not encoded yet. */
struct psd_cut_queue {
    struct psi_list link;
    const struct psd_variable *variable; /* holds one reference */
    struct psi_list *next;               /* first element in psd_queue.elements that is not encoded; unused for SHUFFLE */
    /* walk through psd_queue.elements: index of `next` at the cut's instant; walk through psd_queue.array: index in the array */
    uint64_t index;
    uint64_t size;
    bool in_line; /* psd_queue.elements is encoded; next come the done items of a WORK queue, in psd_queue.array */
};

/* A file with values of one container: a header, and behind it the values, in sections by element size (enum psd_cut_place). */
struct psd_cut_model {
    const char *container;
    uint64_t place_bytes[PSD_CUT_IN_FILE]; /* for each section of the file: bytes of its values so far */
    uint64_t data_start;                   /* offset of the values behind the header; known after PSD_CUT_TEXTS */
    uint64_t tensors;
    struct psi_buf header;
    uint32_t header_sum;
};

struct psd_cut {
    struct psd_task *task;
    struct psd_store *store;
    struct psd_cut_options o;
    /* serial number of this cut. It is put into the field `cut` of each object that the cut has encoded */
    uint64_t serial;
    ps_status st;
    struct psi_err err;
    enum psd_cut_stage stage;
    uint64_t outer, inner;
    struct psi_list *at; /* PSD_CUT_TEXTS: link in the list `kept`: the next array whose text for a header is to be made */
    uint64_t allowance;
    /* bytes in writes, in memory that was freed and that the cut now owns, and in grains (copied parts of blocks) */
    uint64_t held_bytes;
    /* part of held_bytes: memory that its owner has freed, and grains. Both stay until the walk has copied their blocks */
    uint64_t uncopied_bytes;
    uint64_t held_bytes_max;
    uint64_t state_bytes; /* bytes in blocks of the state file that are full and not written yet */
    uint64_t stuck_since_ms;
    bool moved;             /* the disk has finished a write since psd_cut_tick() was called last */
    struct psi_list sealed; /* blocks of the state file that psd_cut_next() can give out */
    struct psi_list writes; /* writes to files of values that psd_cut_next() can give out */
    struct psi_list taken;  /* writes that psd_cut_next() has given out */
    struct psi_list kept;   /* arrays (struct psd_kept) that the walk has still to copy, in the order of tensors */
    struct psi_list copied; /* arrays (struct psd_kept) that are copied, but whose CRCs are not encoded */
    struct psi_list queues;
    struct psd_arena arena; /* gives memory to slabs (several blocks in one piece) and grains, and keeps freed slabs for reuse */
    struct psi_list slabs;
    struct psd_cut_model *models; /* [file - 1] */
    size_t model_count, model_capacity;
    struct psi_buf entry;
    struct psd_cut_write *block;
    uint64_t block_count;
    uint64_t entry_count;
    uint32_t entry_sum; /* CRC32C of all entries */
    uint32_t state_sum; /* CRC32C of all blocks, without their own CRCs */
};

/* ---- cut.c: each function encodes an object as it is now, unless this cut has encoded it already ---- */
void psd_cut_container(struct psd_cut *cut, struct psd_container *c);
/** Encode the variable, after its container. From now on the cut keeps value and slots until they are copied. */
void psd_cut_variable(struct psd_cut *cut, const struct psd_variable *of);
void psd_cut_record(struct psd_cut *cut, struct psd_record *r);
void psd_cut_chief(struct psd_cut *cut, struct psd_chief *c);
void psd_cut_name(struct psd_cut *cut, struct psd_name *n);
void psd_cut_before_take(struct psd_cut *cut, const struct psd_variable *v, uint64_t index);
void psd_cut_queue_whole(struct psd_cut *cut, const struct psd_variable *v);

/* ---- cut_before.c ---- */
/** Call before the change c is carried out: saves for the cut what c will overwrite. */
void psd_cut_before(struct psd_task *t, const struct psd_change *c);

/* ---- cut_memory.c ---- */
/** psd_cut_hold() adds `bytes` to the memory that the cut holds (psd_cut.held_bytes), which counts in the task's budget;
 * psd_cut_let_go() subtracts `bytes`. */
void psd_cut_hold(struct psd_cut *cut, uint64_t bytes);
void psd_cut_let_go(struct psd_cut *cut, uint64_t bytes);
/** Allocate a write with room for `capacity` bytes of the file, at most PSD_CUT_BLOCK_BYTES; in no list. NULL: no memory. */
struct psd_cut_write *psd_cut_write_new(struct psd_cut *cut, uint32_t file, uint32_t capacity);
/** Give more room to w, a write of values. False: no memory, and w is unchanged. */
bool psd_cut_write_grow(struct psd_cut *cut, struct psd_cut_write *w, uint32_t capacity) PSI_MUST;
void psd_cut_write_free(struct psd_cut *cut, struct psd_cut_write *w);

/* ---- cut_grains.c ---- */
/** Copy the part of a block that is about to be overwritten into *held, as grains; parts that *held has already are not copied.
 * change: offset and length in the block. False: the caller must copy the whole block, and restore the grains into the copy. */
bool psd_cut_grains_keep(struct psd_cut *cut, struct psd_cut_grains **held, const uint8_t *block, uint64_t block_bytes,
                         struct psd_span change);
/** Prefetch the cache lines that psd_cut_grains_keep() will read for a change at this offset in the block. g may be NULL. */
void psd_cut_grains_fetch(const struct psd_cut_grains *g, uint64_t at);
/** Number of bytes that psd_cut_grains_keep() would copy, or block_bytes if it would return false. g may be NULL. */
uint64_t psd_cut_grains_missing(const struct psd_cut_grains *g, uint64_t block_bytes, struct psd_span change);
/** Overwrite parts of a copy of the block by the grains, which have the older bytes. */
void psd_cut_grains_restore(const struct psd_cut_grains *g, uint8_t *block, uint64_t block_bytes);
void psd_cut_grains_free(struct psd_cut *cut, struct psd_cut_grains *g);

/* ---- cut_write.c ---- */
void psd_cut_fail(struct psd_cut *cut, ps_status st, const char *why);
/** Copy n bytes from p into memory that is to be written to the file, at offset `at` of its section `place`. */
void psd_cut_put(struct psd_cut *cut, uint32_t file, enum psd_cut_place place, uint64_t at, const void *p, uint64_t n);
/** Begin an entry of the state file, and make k write into it. psd_cut_entry_end() must come before the next entry begins. */
void psd_cut_entry_begin(struct psd_cut *cut, struct psi_code *k);
void psd_cut_entry_end(struct psd_cut *cut, struct psi_code *k, enum psi_state_kind kind);
void psd_cut_state_end(struct psd_cut *cut);
/* Functions for psd_kept.put: the first for a variable's value or slot, the second for the staging of a push. */
void psd_cut_put_values(struct psd_kept *k, uint64_t at, const uint8_t *p, uint64_t n);
void psd_cut_put_staged(struct psd_kept *k, uint64_t at, const uint8_t *p, uint64_t n);
/** Index of a file of values of this container with room for `tensors` more tensors; if no file has room, a new one is added.
 * 0: the cut has failed. */
uint32_t psd_cut_model_for(struct psd_cut *cut, struct psd_container *container, uint64_t tensors);
/** Offset, from the end of the file's header, of the section of values whose elements have the size that `place` says.
 * PSD_CUT_IN_FILE: length of all values. */
uint64_t psd_cut_place_at(const struct psd_cut_model *m, enum psd_cut_place place);
/** Add k's tensor to the header of its file. Call it when all variables are encoded, because offsets depend on all of them. */
void psd_cut_header_add(struct psd_cut *cut, const struct psd_kept *k);
/** Call when all tensors are added to the headers of their files. From now on the offset of each value in its file is known. */
void psd_cut_headers_end(struct psd_cut *cut);
/** Free the writes in the list `head`, and the block of the state file that is being filled. */
void psd_cut_writes_free(struct psd_cut *cut, struct psi_list *head);

#endif

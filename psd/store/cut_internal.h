/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a cut share: cut.c and cut_before.c, which choose, and kept.c and cut_write.c, which copy and pack. */
#ifndef PSD_CUT_INTERNAL_H
#define PSD_CUT_INTERNAL_H

#include "cut.h"
#include "entry.h"

enum psd_cut_stage {
    PSD_CUT_VARIABLES, /* values have no place in a file before all variables are known */
    PSD_CUT_TEXTS,     /* of headers; until they end, values have no place in a file */
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
    /* volatile: */
    struct psi_list link;
    const struct psd_variable *variable; /* holds one reference */
    struct psi_list *next;               /* first element of the line that is not encoded; SHUFFLE: unused */
    uint64_t index;                      /* place of `next` at the instant; for an array: cursor of the walk */
    uint64_t size;
    bool in_line; /* the line is encoded; WORK: done items are left */
};

struct psd_cut_model {
    /* volatile: */
    const char *container;
    uint64_t place_bytes[PSD_CUT_IN_FILE]; /* of each place, so far */
    uint64_t data_start;                   /* offset of values; known once all variables are */
    uint64_t tensors;
    struct psi_buf header;
    uint32_t header_sum;
};

struct psd_cut {
    /* volatile: */
    struct psd_task *task;
    struct psd_store *store;
    struct psd_cut_options o;
    uint64_t serial; /* marks what the cut has */
    ps_status st;
    struct psi_err err;
    enum psd_cut_stage stage;
    uint64_t outer, inner;
    struct psi_list *at; /* cursor in `kept` */
    uint64_t left;
    uint64_t held_bytes; /* in writes and in owned memory */
    uint64_t owned_bytes;
    uint64_t held_bytes_max;
    uint64_t state_bytes; /* in sealed blocks that are not written */
    uint64_t stuck_since_ms;
    bool moved;             /* something was written since the last tick */
    struct psi_list sealed; /* blocks of the state file, ready to be taken */
    struct psi_list writes; /* bytes of values, ready to be taken */
    struct psi_list taken;
    struct psi_list kept;   /* struct psd_kept, in the order of tensors */
    struct psi_list copied; /* struct psd_kept, copied, whose CRCs are not encoded */
    struct psi_list queues;
    struct psd_arena arena; /* of slabs; keeps some that were freed */
    struct psi_list slabs;
    struct psd_cut_model *models; /* [file - 1] */
    size_t model_count, model_capacity;
    /* the state file */
    struct psi_buf entry;        /* entry that is being encoded */
    struct psd_cut_write *block; /* block that is being filled */
    uint64_t block_count;
    uint64_t entry_count;
    uint32_t entry_sum; /* CRC32C of all entries */
    uint32_t state_sum; /* CRC32C of all blocks, without their own CRCs */
};

/* ---- cut.c: each encodes the thing as it is now, unless the cut has it already ---- */
void psd_cut_container(struct psd_cut *cut, struct psd_container *c);
/** Also encodes the variable's container. From now on the variable's memory is kept. */
void psd_cut_variable(struct psd_cut *cut, const struct psd_variable *of);
/** Also encodes the variables that the record refers to. */
void psd_cut_record(struct psd_cut *cut, struct psd_record *r);
void psd_cut_chief(struct psd_cut *cut, struct psd_chief *c);
void psd_cut_name(struct psd_cut *cut, struct psd_name *n);
/** The element of v with this index is about to be taken. */
void psd_cut_before_take(struct psd_cut *cut, const struct psd_variable *v, uint64_t index);
void psd_cut_queue_whole(struct psd_cut *cut, const struct psd_variable *v);

/* ---- cut_before.c ---- */
/** c is about to be carried out. */
void psd_cut_before(struct psd_task *t, const struct psd_change *c);

/* ---- cut_memory.c ---- */
/** Count `bytes` more, or fewer, of copies and of memory that only the cut uses: in the cut's limit and the task's budget. */
void psd_cut_hold(struct psd_cut *cut, uint64_t bytes);
void psd_cut_let_go(struct psd_cut *cut, uint64_t bytes);
/** A write with room for `capacity` bytes of the file, PSD_CUT_BLOCK_BYTES at most. NULL: no memory. */
struct psd_cut_write *psd_cut_write_new(struct psd_cut *cut, uint32_t file, uint32_t capacity);
/** Give more room to a write of values. False: no memory, and w is as before. */
bool psd_cut_write_grow(struct psd_cut *cut, struct psd_cut_write *w, uint32_t capacity) PSI_MUST;
void psd_cut_write_free(struct psd_cut *cut, struct psd_cut_write *w);

/* ---- cut_write.c ---- */
void psd_cut_fail(struct psd_cut *cut, ps_status st, const char *why);
/** Copy n bytes to `at` in this place of the file. */
void psd_cut_put(struct psd_cut *cut, uint32_t file, enum psd_cut_place place, uint64_t at, const void *p, uint64_t n);
/** To encode an entry: k is ready to write. Nothing else is encoded before its end. */
void psd_cut_entry_begin(struct psd_cut *cut, struct psi_code *k);
void psd_cut_entry_end(struct psd_cut *cut, struct psi_code *k, enum psi_state_kind kind);
/** The last block of the state file, padded. */
void psd_cut_state_end(struct psd_cut *cut);
/* psd_kept.put of values, and of what a push has staged */
void psd_cut_put_values(struct psd_kept *k, uint64_t at, uint64_t n);
void psd_cut_put_staged(struct psd_kept *k, uint64_t at, uint64_t n);
/** A file of values with room for `tensors` more of this container. 0: the cut has failed. */
uint32_t psd_cut_model_for(struct psd_cut *cut, struct psd_container *container, uint64_t tensors);
/** Where a place begins among the values; PSD_CUT_IN_FILE: length of all values. */
uint64_t psd_cut_place_at(const struct psd_cut_model *m, enum psd_cut_place place);
/** Add k's tensor to its header. All tensors are added in one pass, after the last one is known. */
void psd_cut_header_add(struct psd_cut *cut, const struct psd_kept *k);
/** All tensors are added: end the headers. From now on bytes have their places. */
void psd_cut_headers_end(struct psd_cut *cut);
/** Free the writes of a list, and the block of the state that is being filled. */
void psd_cut_writes_free(struct psd_cut *cut, struct psi_list *head);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What cut.c and cut_before.c, which choose, and kept.c and cut_write.c, which copy and pack, share of a cut. */
#ifndef PSD_CUT_INTERNAL_H
#define PSD_CUT_INTERNAL_H

#include "cut.h"
#include "entry.h"

/* What the walk is at. */
enum psd_cut_stage {
    PSD_CUT_VARIABLES, /* files have no place for bytes before all are known */
    PSD_CUT_TEXTS,     /* of headers: likewise */
    PSD_CUT_HEADERS,
    PSD_CUT_RECORDS,
    PSD_CUT_CHIEFS,
    PSD_CUT_NAMES,
    PSD_CUT_QUEUES,
    PSD_CUT_BLOCKS,
    PSD_CUT_SUMS,
    PSD_CUT_LAST,
    PSD_CUT_OVER /* nothing is left but what is not written */
};

/* A queue whose elements are not all encoded. */
struct psd_cut_queue {
    /* volatile: */
    struct psi_list link;
    const struct psd_variable *variable; /* one reference */
    struct psi_list *next;               /* the first element in the queue that is not; SHUFFLE: none */
    uint64_t index;                      /* its place at the instant; SHUFFLE, and where done items are looked for: of the walk */
    uint64_t size;                       /* at the instant */
    bool in_line;                        /* elements of the queue are over: WORK, those that are done */
};

/* A file of values. */
struct psd_cut_model {
    /* volatile: */
    const char *container;
    uint64_t place_bytes[PSD_CUT_IN_FILE]; /* so far */
    uint64_t data_start;                   /* of values; known once all variables are */
    uint64_t tensors;
    struct psi_buf header;
    uint32_t header_sum;
};

struct psd_cut {
    /* volatile: */
    struct psd_task *task;
    struct psd_store *store;
    struct psd_cut_options o;
    uint64_t serial; /* what it has is marked with it */
    ps_status st;
    struct psi_err err;
    enum psd_cut_stage stage;
    uint64_t outer, inner; /* cursors */
    struct psi_list *at;   /* ... of kept */
    uint64_t left;         /* of this turn, bytes */
    uint64_t held_bytes;   /* of writes and of owned memory */
    uint64_t owned_bytes;
    uint64_t held_bytes_max;
    uint64_t state_bytes; /* of sealed blocks that are not written */
    uint64_t stuck_since_ms;
    bool moved;             /* something was written since the last look */
    struct psi_list sealed; /* blocks of the state, to be taken */
    struct psi_list writes; /* likewise, bytes of values */
    struct psi_list taken;
    struct psi_list kept;   /* struct psd_kept, in the order of tensors */
    struct psi_list copied; /* ... whose sums are not encoded */
    struct psi_list queues;
    struct psd_arena arena;       /* of slabs, and what it keeps of those that went */
    struct psi_list slabs;        /* with a free block */
    struct psd_cut_model *models; /* file - 1 */
    size_t model_count, model_capacity;
    /* the state file */
    struct psi_buf entry;        /* the one that is encoded */
    struct psd_cut_write *block; /* that is filled */
    uint64_t block_count;
    uint64_t entry_count;
    uint32_t entry_sum; /* CRC32C of all entries */
    uint32_t state_sum; /* ... of all blocks, without their own */
};

/* ---- cut.c: each is encoded as it is now, unless the cut has it ---- */
void psd_cut_container(struct psd_cut *cut, struct psd_container *c);
/** With its container; from now on its memory is kept. */
void psd_cut_variable(struct psd_cut *cut, const struct psd_variable *of);
/** With the variables that it refers to. */
void psd_cut_record(struct psd_cut *cut, struct psd_record *r);
void psd_cut_chief(struct psd_cut *cut, struct psd_chief *c);
void psd_cut_name(struct psd_cut *cut, struct psd_name *n);
/** The element of v with this index is about to be taken. */
void psd_cut_before_take(struct psd_cut *cut, const struct psd_variable *v, uint64_t index);
/** All that is left of the elements of v, at once. */
void psd_cut_queue_whole(struct psd_cut *cut, const struct psd_variable *v);

/* ---- cut_before.c ---- */
/** c is about to be carried out. */
void psd_cut_before(struct psd_task *t, const struct psd_change *c);

/* ---- cut_memory.c ---- */
/** Copies, and memory that only the cut still uses, take this many bytes more, or fewer, of the cut's limit and of the task's
 * budget. */
void psd_cut_hold(struct psd_cut *cut, uint64_t bytes);
void psd_cut_let_go(struct psd_cut *cut, uint64_t bytes);
/** With room for `capacity` bytes of the file, PSD_CUT_BLOCK_BYTES at most; NULL: no memory. */
struct psd_cut_write *psd_cut_write_new(struct psd_cut *cut, uint32_t file, uint32_t capacity);
/** Bytes of values get more room; false: no memory, and it is as it was. */
bool psd_cut_write_grow(struct psd_cut *cut, struct psd_cut_write *w, uint32_t capacity) PSI_MUST;
void psd_cut_write_free(struct psd_cut *cut, struct psd_cut_write *w);

/* ---- cut_write.c ---- */
void psd_cut_fail(struct psd_cut *cut, ps_status st, const char *why);
/** n bytes, copied, go there. */
void psd_cut_put(struct psd_cut *cut, uint32_t file, enum psd_cut_place place, uint64_t at, const void *p, uint64_t n);
/** To encode an entry: k is ready to write. Nothing else is encoded before its end. */
void psd_cut_entry_begin(struct psd_cut *cut, struct psd_codec *k, struct psd_code_storage *storage);
void psd_cut_entry_end(struct psd_cut *cut, struct psd_codec *k, enum psd_entry_kind kind);
/** The last block of the state file, padded. */
void psd_cut_state_end(struct psd_cut *cut);
/* psd_kept.put: of values, and of what a push has staged. */
void psd_cut_put_values(struct psd_kept *k, uint64_t at, uint64_t n);
void psd_cut_put_staged(struct psd_kept *k, uint64_t at, uint64_t n);
/** A model file with room for some tensors more of this container; 0: none, and the cut has failed. */
uint32_t psd_cut_model_for(struct psd_cut *cut, struct psd_container *container, uint64_t tensors);
/** Where in the values a place begins; PSD_CUT_IN_FILE: how many bytes they are. */
uint64_t psd_cut_place_at(const struct psd_cut_model *m, enum psd_cut_place place);
/** Its text in the header: all of them in one pass, after the last one is known. */
void psd_cut_header_add(struct psd_cut *cut, const struct psd_kept *k);
/** All texts are there: the header goes, and bytes have their places. */
void psd_cut_headers_end(struct psd_cut *cut);
/** ... and the block of the state that is filled. */
void psd_cut_writes_free(struct psd_cut *cut, struct psi_list *head);

#endif

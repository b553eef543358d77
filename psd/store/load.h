/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a cut has written (cut.h), read into a task of its own that nobody is served by: so nothing that lives is touched before
 * all of it is verified. The state file is read block by block, then each file of values into the memory where it stays.
 *
 * Whoever has the files asks what is wanted, reads it and says so. Several pieces of values may be read at a time, by several
 * threads: each goes into memory of its own, which nobody else looks at before it is said. Nothing here knows a disk.
 *
 * Failure: DATA_LOSS: the files are not as they were written, which names the file and what is wrong; FAILED_PRECONDITION: they
 * are a newer psd's, another cluster's or another task's; RESOURCE_EXHAUSTED. Then the load is to be freed, when nothing is being
 * read into it any more.
 */
#ifndef PSD_LOAD_H
#define PSD_LOAD_H

#include "deal.h"

#include <stdbool.h>
#include <stdint.h>

struct psd_load;
struct psd_task;

enum { PSD_LOAD_WANTED_MAX = 8 /* that are not there yet */ };

typedef uint64_t (*psd_load_random_cb)(void *ctx);

struct psd_load_options {
    /* volatile: */
    uint64_t number;      /* of the checkpoint */
    uint64_t state_bytes; /* of the state file */
    uint32_t writer;      /* 1 + index of the task of its job that wrote it; 0: it itself */
    uint32_t state_sum;   /* of the manifest, psi_state_is(); 0: not known */
    struct psd_deal deal; /* what is another's is left out, as soon as the state is read: it gets no memory, and is not read */
    uint64_t had_bytes;   /* of its memory_budget, what it has of parts that were read before */
    uint64_t live_bytes;  /* ... and what else counts in it */
    /* a new incarnation for each container, and variables with a value count as restored; NULL: all is as it was at the cut */
    psd_load_random_cb random;
    void *random_ctx;
};

/* Bytes that are wanted. */
struct psd_load_read {
    /* volatile: */
    uint32_t file; /* as psd_cut_file() */
    uint64_t offset;
    uint64_t bytes;
    void *to;
    uint32_t *sums; /* NULL, or where CRC32C of each PSD_CUT_BLOCK_BYTES of what was read goes, by whoever has it in his cache */
};

/** empty: a task that has just been made, of the same cluster; keeps it until it is freed. RESOURCE_EXHAUSTED; DATA_LOSS for a
 * size that no state file has. */
ps_status psd_load_new(struct psd_task *empty, const struct psd_load_options *o, struct psd_load **out,
                       struct psi_err *err) PSI_MUST;
/** Its task is what the checkpoint says if psd_load_is_done(), otherwise half of that, to be freed. NULL is fine. */
void psd_load_free(struct psd_load *l);
/** What is wanted next; false: nothing before what is wanted already is there, or all is there and verified. */
bool psd_load_want(struct psd_load *l, struct psd_load_read *out);
/** So many bytes of what was wanted, the oldest that is not there yet, are where they were wanted: fewer, and the file ends
 * there.
 */
ps_status psd_load_got(struct psd_load *l, uint64_t bytes, struct psi_err *err) PSI_MUST;
/** All is there and verified: the task may live. */
bool psd_load_is_done(const struct psd_load *l);

#endif

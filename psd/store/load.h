/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read what a cut has written (cut.h) into a separate task that serves nobody: nothing live is touched before everything is
 * verified. The state file is read block by block, then each file of values into its final memory.
 *
 * The caller asks which read is wanted, carries it out, and reports it. Several threads may read several pieces of values at a
 * time, each into memory that nobody else looks at before psd_load_got(). Nothing here knows a disk.
 *
 * Failure: DATA_LOSS, a file is not as it was written, and the error names it; FAILED_PRECONDITION, the files are a newer psd's,
 * another cluster's or another task's; RESOURCE_EXHAUSTED. After a failure the load must be freed, once nothing is being read
 * into it.
 */
#ifndef PSD_LOAD_H
#define PSD_LOAD_H

#include "deal.h"

#include <stdbool.h>
#include <stdint.h>

struct psd_load;
struct psd_task;

enum { PSD_LOAD_WANTED_MAX = 8 /* reads that are wanted at a time */ };

typedef uint64_t (*psd_load_random_cb)(void *ctx);

struct psd_load_options {
    /* volatile: */
    uint64_t number;
    uint64_t state_bytes;
    uint32_t writer;      /* 1 + index, in its job, of the task that wrote the checkpoint; 0: the loading task */
    uint32_t state_sum;   /* CRC32C of the state file by the manifest (psi_state_is()); 0: not known */
    struct psd_deal deal; /* variables of other tasks are left out once the state is read: they get no memory, and are not read */
    uint64_t had_bytes;   /* bytes of the task's memory_budget taken by parts that were read before */
    uint64_t live_bytes;  /* bytes of the task's memory_budget taken by what lives in it */
    /* makes a new incarnation for each container, and variables with a value count as restored; NULL: all is as at the cut */
    psd_load_random_cb random;
    void *random_ctx;
};

struct psd_load_read {
    /* volatile: */
    uint32_t file; /* as psd_cut_file() */
    uint64_t offset;
    uint64_t bytes;
    void *to;
    uint32_t *sums; /* NULL, or where the reading thread puts the CRC32C of each PSD_CUT_BLOCK_BYTES, which it has in its cache */
};

/** empty: a new task of the cluster; kept until psd_load_free(). RESOURCE_EXHAUSTED; DATA_LOSS: no state file has that size. */
ps_status psd_load_new(struct psd_task *empty, const struct psd_load_options *o, struct psd_load **out,
                       struct psi_err *err) PSI_MUST;
/** If psd_load_is_done(), the task is as the checkpoint says; otherwise it is half of that, to be freed. NULL is fine. */
void psd_load_free(struct psd_load *l);
/** The next read. False: reads that are wanted must end first, or all is read and verified. */
bool psd_load_want(struct psd_load *l, struct psd_load_read *out);
/** The oldest wanted read has ended, with this many bytes: fewer than wanted if the file ends there. */
ps_status psd_load_got(struct psd_load *l, uint64_t bytes, struct psi_err *err) PSI_MUST;
/** All is read and verified: the task may live. */
bool psd_load_is_done(const struct psd_load *l);

#endif

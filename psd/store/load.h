/* SPDX-License-Identifier: Apache-2.0 */
/* Read the files of a cut (cut.h) into a separate struct psd_task that serves nobody: the serving task is not touched before
 * everything is verified. The state file is read block by block, then each file of values into its final memory.
 *
 * The caller asks for the next read (psd_load_want()), carries it out, and reports its end (psd_load_got()). Several reads of
 * values may be under way on other threads: no other code uses their memory before psd_load_got(). Nothing here uses a disk.
 *
 * Failure: DATA_LOSS, a file is not as it was written, and the error names it; FAILED_PRECONDITION, the files are of a newer psd,
 * of another cluster or of another task; RESOURCE_EXHAUSTED. After a failure free the load, once no read is under way. */
#ifndef PSD_LOAD_H
#define PSD_LOAD_H

#include "deal.h"

#include <stdbool.h>
#include <stdint.h>

struct psd_load;
struct psd_task;

enum { PSD_LOAD_WANTED_MAX = 8 /* most reads that are under way at a time */ };

typedef uint64_t (*psd_load_random_cb)(void *ctx);

struct psd_load_options {
    uint64_t number;
    uint64_t state_bytes;
    uint32_t writer;      /* 1 + index in the job of the task that wrote the files; 0: the loading task */
    uint32_t state_sum;   /* CRC32C of the state file from the manifest (psi_state_is()); 0: not known */
    struct psd_deal deal; /* deals out variables to tasks; variables of other tasks get no memory and are not read */
    uint64_t had_bytes;   /* bytes of the budget taken by files of other tasks that were loaded before */
    uint64_t live_bytes;  /* bytes of the budget that the serving task takes during the load */
    /* draws a new incarnation for each container, and the container's variables with a value are marked `restored`. NULL:
     * incarnations and marks stay as they were saved */
    psd_load_random_cb random;
    void *random_ctx;
};

struct psd_load_read {
    uint32_t file; /* index of the file: 0: the state file; from 1 on: files of values */
    uint64_t offset;
    uint64_t bytes;
    void *to;
    uint32_t *sums; /* the reader writes the CRC32C of each PSD_CUT_BLOCK_BYTES here; NULL: no CRC is wanted */
};

/** Begin a load into `empty`, a new task, in use until psd_load_free(). RESOURCE_EXHAUSTED; DATA_LOSS: a wrong o->state_bytes. */
ps_status psd_load_new(struct psd_task *empty, const struct psd_load_options *o, struct psd_load **out,
                       struct psi_err *err) PSI_MUST;
/** Free l, but not its task. If psd_load_is_done(), the task has the checkpoint's state; otherwise the caller must free it. */
void psd_load_free(struct psd_load *l);
/** Set *out to the next read to carry out. False: no read now, because others must end first, or all is read and verified. */
bool psd_load_want(struct psd_load *l, struct psd_load_read *out);
/** Report the end of the oldest read that is under way. bytes: number of bytes read, fewer than wanted only at the file's end. */
ps_status psd_load_got(struct psd_load *l, uint64_t bytes, struct psi_err *err) PSI_MUST;
bool psd_load_is_done(const struct psd_load *l);

#endif

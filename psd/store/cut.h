/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cut: all that a task remembers at one instant, written to files while the task goes on (DESIGN §9, docs/DURABILITY.md has
 * the bytes).
 *
 * psd_cut_begin() takes the instant: it notes a few numbers and looks at nothing else. From then on psd_cut_turn(), between
 * other events, walks over variables, records, names, chiefs and queues. It encodes each as an entry of the state file, and
 * copies values block by block (kept.h). Before a change, psd_commit() calls psd_cut_before(), which encodes and copies what
 * the change is about to touch. Each thing notes, in `cut`, the serial of the last cut that has it. So a thing is in the cut
 * once, as it was at the instant. Entries are whole: a record with its numbers and what it has taken out of queues; an
 * element; the sum of an accumulator.
 *
 * Bytes come out of psd_cut_next() with their place in a file, in any order, and belong to the cut until psd_cut_written().
 * Nothing here knows a disk. Memory: copies and entries that are not written, and what was freed before it was copied. The
 * walk stops at a part of the limit. A change is copied beyond the limit, and then psd_cut_is_full() is true: pushes that
 * need a copy (psd/rpc/held.c), new values of rounds, an INIT in place of a value (psd/rpc/slow.c), deletes and moves in
 * queues wait.
 *
 * Not in a cut: rounds' contributions and groups, waiting requests, calls, leases, membership, attempts at queues that are
 * gone. Failure: without memory the cut fails (psd_cut_status()); the task goes on.
 */
#ifndef PSD_CUT_H
#define PSD_CUT_H

#include "commit.h"
#include "kept.h"

enum psd_cut_status {
    PSD_CUT_NONE,
    PSD_CUT_GOES,    /* something is still to be encoded, copied or written */
    PSD_CUT_WRITTEN, /* all was given out and written */
    PSD_CUT_FAILED
};

struct psd_cut_options {
    /* volatile: */
    uint64_t number;       /* of the checkpoint */
    uint64_t memory_bytes; /* soft limit of copies and entries */
};

struct psd_cut_file {
    /* volatile: */
    const char *container; /* NULL: the state file */
    uint64_t bytes;        /* length of the file, once it is known */
    uint32_t sum;          /* state: CRC32C of all blocks without their own CRCs; values: of the header */
};

/** Begin a cut, whose instant is now. One at a time. RESOURCE_EXHAUSTED. */
ps_status psd_cut_begin(struct psd_task *t, const struct psd_cut_options *o, struct psi_err *err) PSI_MUST;
/** The cut fails as CANCELLED, and frees all but the writes that were taken: those stay until psd_cut_written(). No cut is fine.
 */
void psd_cut_cancel(struct psd_task *t);
/** A full cut of which nothing is written for PS_CUT_STUCK_MS fails as DEADLINE_EXCEEDED, so that pushes wait no longer. */
void psd_cut_tick(struct psd_task *t, uint64_t now_ms);
/** Free the cut, with writes that were taken: nobody writes them any more. No cut is fine. */
void psd_cut_end(struct psd_task *t);
enum psd_cut_status psd_cut_status(const struct psd_task *t);
ps_status psd_cut_error(const struct psd_task *t, struct psi_err *err) PSI_MUST;
/** There is something to encode or to copy, and room for it. */
bool psd_cut_has_work(const struct psd_task *t);
/** Encode and copy about `bytes`; one entry may be longer. */
void psd_cut_turn(struct psd_task *t, uint64_t bytes);
/** The next bytes to be written; NULL: none now. */
const struct psd_cut_write *psd_cut_next(struct psd_task *t);
/** The bytes of w are in their file, or will never be. */
void psd_cut_written(struct psd_task *t, const struct psd_cut_write *w);
/** Number of the cut's files. It may grow until the cut is written. */
uint32_t psd_cut_file_count(const struct psd_task *t);
struct psd_cut_file psd_cut_file(const struct psd_task *t, uint32_t file);

uint64_t psd_cut_held_bytes(const struct psd_store *s);
/** The cut holds as much memory as it may. */
bool psd_cut_is_full(const struct psd_store *s);
/** Bytes that a push to bytes [at, at + bytes) of v's value would have copied, of value and slots. */
uint64_t psd_cut_missing(const struct psd_store *s, const struct psd_variable *v, uint64_t at, uint64_t bytes);
/** The cut is full, and moving elements between r and the queue v would have to encode something first. */
bool psd_cut_holds_move(const struct psd_store *s, const struct psd_variable *v, const struct psd_record *r);

#endif

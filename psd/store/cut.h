/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cut: all that a task remembers at one instant, written to files while it goes on (DESIGN §9, docs/DURABILITY.md has the
 * bytes).
 *
 * psd_cut_begin() takes the instant: it notes a few numbers and looks at nothing else. From then on psd_cut_turn(), between other
 * events, walks over variables, records, names, chiefs and queues and encodes each as an entry of the state file, and copies the
 * values block by block (kept.h); psd_commit() calls psd_cut_before(), which does the same for what a change is about to touch.
 * Each thing has the number of the last cut that has it, in `cut`, so that it is there once, as it was at the instant. What goes
 * as entries goes whole: a record with its numbers and what it has taken out of queues; an element; the sum of an accumulator.
 *
 * Bytes come out of psd_cut_next() with their place in a file, in any order, and are the cut's until psd_cut_written(). Nothing
 * here knows a disk. Memory: copies and entries that are not written, and what was freed before it was copied. The walk stops at
 * a part of the setting; what changes is copied beyond it, and psd_cut_is_full() says so: pushes that need a copy
 * (psd/rpc/held.c), new values of rounds, an INIT in place of a value (psd/rpc/slow.c), deletes and what moves in queues wait
 * then.
 *
 * Not in it: what is contributed to rounds and their groups, waiting requests, calls, leases, membership, attempts at queues that
 * are gone. Failure: no memory; the cut has failed then (psd_cut_status()), the task goes on.
 */
#ifndef PSD_CUT_H
#define PSD_CUT_H

#include "commit.h"
#include "kept.h"

enum psd_cut_status {
    PSD_CUT_NONE,    /* none is under way */
    PSD_CUT_GOES,    /* there is more to encode, to copy or to write */
    PSD_CUT_WRITTEN, /* all was given out and written */
    PSD_CUT_FAILED
};

struct psd_cut_options {
    /* volatile: */
    uint64_t number;       /* of the checkpoint */
    uint64_t memory_bytes; /* copies and entries, soft */
};

/* A file that is written. */
struct psd_cut_file {
    /* volatile: */
    const char *container; /* NULL: state */
    uint64_t bytes;        /* in all, once it is known */
    uint32_t sum;          /* state: CRC32C of all blocks without their own; values: of the header */
};

/** At this instant. One at a time. RESOURCE_EXHAUSTED. */
ps_status psd_cut_begin(struct psd_task *t, const struct psd_cut_options *o, struct psi_err *err) PSI_MUST;
/** It copies and holds nothing any more; it has failed as CANCELLED. What was taken to be written is there until it is. None is
 * fine. */
void psd_cut_cancel(struct psd_task *t);
/** Time passes: one that is full and of which nothing is written for PS_CUT_STUCK_MS fails as DEADLINE_EXCEEDED, as if cancelled:
 * pushes wait no longer. */
void psd_cut_tick(struct psd_task *t, uint64_t now_ms);
/** It is done with: all of it goes, also what is taken: nobody writes it any more. None is fine. */
void psd_cut_end(struct psd_task *t);
enum psd_cut_status psd_cut_status(const struct psd_task *t);
/** FAILED: why. */
ps_status psd_cut_error(const struct psd_task *t, struct psi_err *err) PSI_MUST;
/** There is something to encode or to copy, and room for it. */
bool psd_cut_has_work(const struct psd_task *t);
/** About `bytes` of that; one entry may be longer. */
void psd_cut_turn(struct psd_task *t, uint64_t bytes);
/** The next bytes to be written; NULL: none now. */
const struct psd_cut_write *psd_cut_next(struct psd_task *t);
/** They are in their file, or will never be. */
void psd_cut_written(struct psd_task *t, const struct psd_cut_write *w);
/** Files; more may come as long as the cut goes. */
uint32_t psd_cut_file_count(const struct psd_task *t);
struct psd_cut_file psd_cut_file(const struct psd_task *t, uint32_t file);

/** Of memory that it holds now. */
uint64_t psd_cut_held_bytes(const struct psd_store *s);
/** ... it holds as much as it may. */
bool psd_cut_is_full(const struct psd_store *s);
/** What a segment of `bytes` of the variable's memory, from byte `at` on, would have copied: value and slots. */
uint64_t psd_cut_missing(const struct psd_store *s, const struct psd_variable *v, uint64_t at, uint64_t bytes);
/** It is full, and what r moves into the queue v or out of it would have to be encoded first. */
bool psd_cut_holds_move(const struct psd_store *s, const struct psd_variable *v, const struct psd_record *r);

#endif

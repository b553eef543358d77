/* SPDX-License-Identifier: Apache-2.0 */
/* A cut: all that a task remembers at one instant, written to files while the task goes on. docs/DURABILITY.md has the bytes.
 *
 * The instant of the cut is psd_cut_begin(), which encodes only the numbers of the task and its resets. From then on
 * psd_cut_turn(), between other events, walks over variables, records, names, chiefs and queues. The walk encodes each as an
 * entry of the state file, and copies values block by block (kept.h). Before a change, psd_commit() calls psd_cut_before(), which
 * encodes and copies what the change will touch. An object's field `cut` is the serial of the last cut that contains the object:
 * so the object is in a cut once, as it was at the instant.
 *
 * psd_cut_next() gives bytes with their place in a file, in any order; the cut owns them until psd_cut_written(). Nothing here
 * uses a disk. A cut takes memory for copies and entries that are not written yet, for small copied parts of blocks (grains:
 * cut_grains.c), and for memory that was freed before it was copied. The walk pauses when copies and entries reach 8 MiB, or half
 * of the limit. What a change needs is copied even above the limit: then psd_cut_is_full() is true, and these wait: pushes that
 * need a copy (psd/rpc/held.c), building of a round's values, INITs (psd/rpc/slow.c), deletes, and moves of elements of queues.
 *
 * Not in a cut: rounds' contributions and groups, waiting requests, calls, leases, membership, attempts at queues that are gone.
 * Failure: without memory the cut fails (psd_cut_status()); the task goes on. */
#ifndef PSD_CUT_H
#define PSD_CUT_H

#include "commit.h"
#include "kept.h"

enum psd_cut_status {
    PSD_CUT_NONE,
    PSD_CUT_GOES,    /* something is still to be encoded, copied or written */
    PSD_CUT_WRITTEN, /* psd_cut_next() has returned all writes, and all are carried out */
    PSD_CUT_FAILED
};

struct psd_cut_options {
    uint64_t number;
    uint64_t memory_bytes; /* soft limit of the memory that copies and entries take */
};

struct psd_cut_file {
    const char *container; /* container whose values the file has; NULL: it is the state file */
    uint64_t bytes;        /* length of the file, once it is known */
    uint32_t sum;          /* state file: CRC32C of all blocks without their own CRCs; file of values: CRC32C of the header */
};

/** Begin a cut: from now on the state as it is now gets saved. No other cut may exist. RESOURCE_EXHAUSTED: no memory, no cut. */
ps_status psd_cut_begin(struct psd_task *t, const struct psd_cut_options *o, struct psi_err *err) PSI_MUST;
/** Fail the cut, if there is one, as CANCELLED. Writes that psd_cut_next() has given out stay until psd_cut_written(). */
void psd_cut_cancel(struct psd_task *t);
/** Fail the cut as DEADLINE_EXCEEDED if psd_cut_is_full() and nothing was written for PS_CUT_STUCK_MS: pushes wait for memory. */
void psd_cut_tick(struct psd_task *t, uint64_t now_ms);
/** Free the cut with all its writes. Call when no write is under way any more. Does nothing without a cut. */
void psd_cut_end(struct psd_task *t);
enum psd_cut_status psd_cut_status(const struct psd_task *t);
ps_status psd_cut_error(const struct psd_task *t, struct psi_err *err) PSI_MUST;
/** True if psd_cut_turn() has something to encode or copy, and memory for it within the limit. */
bool psd_cut_has_work(const struct psd_task *t);
/** Encode and copy about `bytes` more of the cut; one entry may be longer. */
void psd_cut_turn(struct psd_task *t, uint64_t bytes);
/** The next bytes to write, valid until psd_cut_written(); NULL: none can be written now. */
const struct psd_cut_write *psd_cut_next(struct psd_task *t);
/** Call when w's bytes are in the file, or writing them was given up: frees w. */
void psd_cut_written(struct psd_task *t, const struct psd_cut_write *w);
/** Number of the cut's files, the state file included; it may grow until the cut is written. */
uint32_t psd_cut_file_count(const struct psd_task *t);
struct psd_cut_file psd_cut_file(const struct psd_task *t, uint32_t file);

uint64_t psd_cut_held_bytes(const struct psd_store *s);
/** True if the cut holds as much memory as it may (psd_cut_options.memory_bytes). */
bool psd_cut_is_full(const struct psd_store *s);
/** Bytes of value and slots that the cut must copy before a push changes bytes [at, at + bytes) of v's value. */
uint64_t psd_cut_missing(const struct psd_store *s, const struct psd_variable *v, uint64_t at, uint64_t bytes);
/** psd_cut_missing() for a slice of a push (rpc/moves.c), which may change fewer slots: psd_variable_moves_array(). */
uint64_t psd_cut_missing_move(const struct psd_store *s, const struct psd_variable *v, uint64_t at, uint64_t bytes);
/** True if an element may not move between the queue v and r's requests now: the cut must first save more, and has no memory. */
bool psd_cut_holds_move(const struct psd_store *s, const struct psd_variable *v, const struct psd_record *r);

#endif

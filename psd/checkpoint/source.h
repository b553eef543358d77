/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source: the connection on which this task reads another task's part of a checkpoint (beside.h). This task dials it as a
 * client of no job, whom the other task answers also while it waits itself, and sends CHECKPOINT_READ. One piece is read at a
 * time, in several ranges at once. psd_source_ready_fn says that a piece can be read. psd_source_done_fn says how a piece has
 * ended: UNAVAILABLE when the other task cannot be reached, is lost, or has refused for a whole lease, in the middle of a piece
 * or before. The connection beats: a disk that takes longer than a lease for a range is waited for, a host that is gone is not.
 */
#ifndef PSD_RPC_SOURCE_H
#define PSD_RPC_SOURCE_H

#include "psd/base/base.h"
#include "psd/disk.h"

enum { PSD_SOURCE_ASKS = 4 /* ranges asked for at a time; a task reads 16 at a time for all who ask */ };

typedef void (*psd_source_ready_fn)(struct psd_task *t);
/** As psd_disk_done_fn; after an error the source is closed. */
typedef void (*psd_source_done_fn)(struct psd_task *t, ps_status st, size_t bytes, const char *error);

struct psd_source_ask {
    /* volatile: */
    uint64_t id; /* of the request; 0: no range is asked for here */
    uint64_t at; /* offset of the range in the piece */
    uint32_t bytes;
    bool refused; /* the other task had too many reads; the range is asked for again at the next tick */
};

struct psd_source {
    /* volatile: */
    uint32_t from; /* index of the peer that is read from; PSD_NO_PEER: the source is closed */
    bool dialling; /* a dial of the shell is under way; another one waits for its end */
    bool old_dial; /* the source was closed since the dial began, and the connection that comes is not used */
    struct psd_conn *conn;
    psd_source_ready_fn ready;
    psd_source_done_fn done;
    /* volatile: a piece */
    bool reads;               /* a piece is being read */
    struct psd_disk_op piece; /* what is read, and into which memory */
    uint64_t asked, got;      /* bytes of the piece */
    struct psd_source_ask asks[PSD_SOURCE_ASKS];
    uint64_t moved_ms; /* when the piece was begun, or its last range came */
};

void psd_source_init(struct psd_source *s);
/** Open the closed source to the task at peer index `from`. */
void psd_source_open(struct psd_task *t, uint32_t from, psd_source_ready_fn ready, psd_source_done_fn done);
/** Close the source. Neither ready nor done is called any more. A closed source stays closed. */
void psd_source_close(struct psd_task *t);
bool psd_source_is_open(const struct psd_task *t);
/** The connection is there, and no piece is being read. */
bool psd_source_is_ready(const struct psd_task *t);
/** Begin a piece: op->kind PSD_DISK_READ, op->bytes > 0. */
void psd_source_read(struct psd_task *t, const struct psd_disk_op *op);
/** As psd_task_dialed(). */
struct psd_conn *psd_source_dialed(struct psd_task *t, void *shell, const char *why);
/** c is, or is about to be, closed. */
void psd_source_lost(struct psd_task *t, const struct psd_conn *c);
void psd_source_tick(struct psd_task *t);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A source: the connection on which this task reads a part of a checkpoint that another task has (beside.h).
 *
 * This task dials the other task as a client of no job, because the other task answers such clients even while it waits for its
 * own start, and sends CHECKPOINT_READ. One piece is read at a time, in several ranges at once. psd_source_ready_fn is called
 * when a piece may be read, psd_source_done_fn when a piece is read or has failed. UNAVAILABLE: the other task cannot be reached,
 * is lost, or has refused reads for the time of a lease. BEATs keep the connection alive during a slow read. */
#ifndef PSD_RPC_SOURCE_H
#define PSD_RPC_SOURCE_H

#include "psd/base/base.h"
#include "psd/disk.h"

enum { PSD_SOURCE_ASKS = 4 /* ranges asked for at a time; for all its clients a task reads at most READS_MAX (shards_read.c) */ };

typedef void (*psd_source_ready_fn)(struct psd_task *t);
/** Called when a piece has ended, with the arguments of psd_disk_done_fn. After an error the source is closed. */
typedef void (*psd_source_done_fn)(struct psd_task *t, ps_status st, size_t bytes, const char *error);

struct psd_source_ask {
    uint64_t id; /* id of the request; 0: this entry is free */
    uint64_t at; /* offset of the range in the piece */
    uint32_t bytes;
    bool refused; /* the other task had too many reads, and has refused; the next tick asks for the range again */
};

enum psd_source_dial {
    PSD_SOURCE_DIAL_NONE,
    PSD_SOURCE_DIAL_ON, /* this task is dialing the other task for this source */
    PSD_SOURCE_DIAL_OLD /* the source was closed while it was dialing: the connection will not be used */
};

struct psd_source {
    uint32_t from;             /* index of the peer that is read from; PSD_NO_PEER: the source is closed */
    enum psd_source_dial dial; /* another dial begins only when this one has ended */
    struct psd_conn *conn;
    psd_source_ready_fn ready;
    psd_source_done_fn done;
    /* a piece: */
    bool reads;               /* a piece is being read */
    struct psd_disk_op piece; /* the range to read, and the memory that gets it */
    uint64_t asked, got;      /* bytes of the piece that were asked for, and that have come */
    struct psd_source_ask asks[PSD_SOURCE_ASKS];
    uint64_t moved_ms; /* when the piece was begun, or when a range of it last came */
};

void psd_source_init(struct psd_source *s);
/** Open the source, which must be closed, to the task at peer index `from`. */
void psd_source_open(struct psd_task *t, uint32_t from, psd_source_ready_fn ready, psd_source_done_fn done);
/** Close the source, or do nothing if it is closed. Neither ready nor done is called after that. */
void psd_source_close(struct psd_task *t);
bool psd_source_is_open(const struct psd_task *t);
/** True if the connection is ready and no piece is being read. */
bool psd_source_is_ready(const struct psd_task *t);
/** Begin to read a piece. op->kind is PSD_DISK_READ, and op->bytes > 0. */
void psd_source_read(struct psd_task *t, const struct psd_disk_op *op);
struct psd_conn *psd_source_dialed(struct psd_task *t, void *shell, const char *why);
void psd_source_lost(struct psd_task *t, const struct psd_conn *c);
void psd_source_tick(struct psd_task *t);

#endif

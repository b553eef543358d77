/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a task reads what another one has of a checkpoint (beside.h): a connection that it dials, as a client of no job, who may
 * look while the other one waits itself, and CHECKPOINT_READ on it. One piece at a time, in ranges of which several are on their
 * way. Whoever has opened it hears by psd_source_ready_fn when it can be asked, and by psd_source_done_fn how a piece has ended:
 * UNAVAILABLE when it cannot be reached, is lost, or has refused for a lease, in the middle of a piece or before. It beats, so
 * that a disk there that takes longer than a lease for a range is waited for, and a host that is gone is not.
 */
#ifndef PSD_RPC_SOURCE_H
#define PSD_RPC_SOURCE_H

#include "psd/base/base.h"
#include "psd/disk.h"

enum { PSD_SOURCE_ASKS = 4 /* ranges on their way; a task answers 16 of all who read there */ };

typedef void (*psd_source_ready_fn)(struct psd_task *t);
/** As psd_disk_done_fn; an error closes it. */
typedef void (*psd_source_done_fn)(struct psd_task *t, ps_status st, size_t bytes, const char *error);

struct psd_source_ask {
    /* volatile: */
    uint64_t id; /* 0: none */
    uint64_t at; /* of the piece */
    uint32_t bytes;
    bool refused; /* to be asked for again: too many read there */
};

struct psd_source {
    /* volatile: */
    uint32_t from; /* peer index; PSD_NO_PEER: it is closed */
    bool dialling; /* the shell has a dial, maybe of one that was closed since: until it says so, nothing is dialled */
    bool old_dial; /* the dial is of a connection that was closed since */
    struct psd_conn *conn;
    psd_source_ready_fn ready;
    psd_source_done_fn done;
    /* volatile: a piece */
    bool reads;
    struct psd_disk_op piece;
    uint64_t asked, got; /* bytes of it */
    struct psd_source_ask asks[PSD_SOURCE_ASKS];
    uint64_t moved_ms; /* it was begun, or something of it has come */
};

void psd_source_init(struct psd_source *s);
/** Of the task at peer index `from`; it is closed. */
void psd_source_open(struct psd_task *t, uint32_t from, psd_source_ready_fn ready, psd_source_done_fn done);
/** What is on its way is not heard of any more. Fine when it is closed. */
void psd_source_close(struct psd_task *t);
bool psd_source_is_open(const struct psd_task *t);
/** It is there, and reads nothing. */
bool psd_source_is_ready(const struct psd_task *t);
/** Begin a piece, which is not empty; op->kind PSD_DISK_READ. */
void psd_source_read(struct psd_task *t, const struct psd_disk_op *op);
/** As psd_task_dialed(). */
struct psd_conn *psd_source_dialed(struct psd_task *t, void *shell, const char *why);
/** c is, or is about to be, closed. */
void psd_source_lost(struct psd_task *t, const struct psd_conn *c);
void psd_source_tick(struct psd_task *t);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders: what the directory asks of other tasks.
 *
 * A kind of order is a row, struct psd_order_kind: how it is encoded, who hears the answer, and what an order may have done whose
 * connection is gone. The rows are in psd/directory/orders.c, which may name every room. A room sends an order by psd_order().
 * psd_order() allocates it, orders.c finds the order that an answer is to, and psd_orders_lost() ends the orders of a task whose
 * connection is gone.
 *
 * An order FOR_CLIENT is sent once for a client that waits: its loss ends the client's request. An order FOR_TASKS follows from
 * state: after a loss the room that wants it compares what the task lists with what the task should have, and sends it again; or
 * it is part of an attempt of all tasks, which the loss of one task ends.
 *
 * Orders to one task stay first in, first out. A task answers in the order in which it was asked, apart from the kinds that take
 * time: their answers may be overtaken.
 */
#ifndef PSD_ORDERS_H
#define PSD_ORDERS_H

#include "base.h"

/* An order as it is to be sent. */
struct psd_order {
    /* volatile: on a stack */
    uint8_t op;
    const char *container, *name; /* what it is about; NULL: it is about none */
    uint64_t number;              /* of a checkpoint or of a start; 0: it is about none */
    const void *what;             /* what the `encode` of its kind takes besides; borrows */
};

enum psd_order_sort { PSD_ORDER_FOR_CLIENT, PSD_ORDER_FOR_TASKS };

struct psd_order_kind {
    enum psd_order_sort sort;
    /** Adds the items of the frame for p to l. NULL: the frame has no body. l->failed: there was no memory. */
    void (*encode)(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
    /** err NULL: the task has answered OK. r: its answer; NULL: its connection is gone. An answer that is a list comes frame by
     * frame; all but the last have PS_FLAG_MORE. */
    void (*answered)(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                     const struct psi_err *err);
    bool takes_time; /* the answer comes when the work is done, or when a disk has noted it */
    ps_applied lost; /* what an order may have done whose connection is gone */
};

/** Send an order to p, and note it as the last one of p->asks. An order to this task itself is noted and not sent: whoever
 * carries it out ends it. NULL: no memory. Then the connection of p is closed, as where the frame has no memory, so that p lists
 * again; but for an order FOR_CLIENT, whose client the caller refuses. */
struct psd_ask *psd_order(struct psd_task *t, struct psd_peer *p, const struct psd_order *o);
/** The first order of this kind to p that is not answered and names the container, and the variable unless name is NULL.
 * NULL: there is none. */
struct psd_ask *psd_order_find(const struct psd_peer *p, uint8_t op, const char *container, const char *name);
/** The order a is over, and is freed. */
void psd_order_end(struct psd_ask *a);
/** The connection of p is gone: its orders end, oldest first. */
void psd_orders_lost(struct psd_task *t, struct psd_peer *p);

#endif

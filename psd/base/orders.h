/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders: requests of the directory to other tasks.
 *
 * A kind of order is a row, struct psd_order_kind: how it is encoded, who gets the answer, and what an order may have done whose
 * connection was lost. The rows are in psd/directory/orders.c, which may name every room. A room sends an order by psd_order().
 * psd_order() allocates it, orders.c finds the order that an answer belongs to, and psd_orders_lost() ends the orders of a task
 * whose connection was lost.
 *
 * An order FOR_CLIENT is sent once for a client that waits: its loss ends the client's request. An order FOR_TASKS follows from
 * state. After a loss the room that wants it compares what the task lists with what the task should have, and sends it again; or
 * it is part of an attempt of all tasks, which the loss of one task ends.
 *
 * Orders to one task stay first in, first out. A task answers in the order in which it was asked, except kinds that take time:
 * their answers may be overtaken.
 */
#ifndef PSD_ORDERS_H
#define PSD_ORDERS_H

#include "base.h"

/* An order as it is to be sent. */
struct psd_order {
    /* volatile: on a stack */
    uint8_t op;
    const char *container, *name; /* container and name that it is about; NULL: none */
    uint64_t number;              /* number of a checkpoint or of a start; 0: none */
    const void *what;             /* further argument of the kind's `encode`; borrows */
};

enum psd_order_sort { PSD_ORDER_FOR_CLIENT, PSD_ORDER_FOR_TASKS };

struct psd_order_kind {
    enum psd_order_sort sort;
    /** Adds the items of the frame for p to l. NULL: the frame has no body. l->failed: there was no memory. */
    void (*encode)(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
    /** The answer of the task; err NULL: OK. r NULL: its connection was lost. An answer that is a list comes frame by frame; all
     * but the last have PS_FLAG_MORE. */
    void (*answered)(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                     const struct psi_err *err);
    /** p has listed. What it has is compared with what it should have, and the orders that are missing go out, also those of
     * other kinds. NULL: no order of this kind follows from a list, or the row of another kind sends it. */
    void (*listed)(struct psd_task *t, struct psd_peer *p);
    /* the answer comes when work is done or a disk has noted something, so later orders may be answered before */
    bool takes_time;
    ps_applied lost; /* what an order may have done whose connection was lost */
};

/** Send an order to p, and append it to p->asks. An order to this task itself is carried out at the end of the event (loop.h).
 * NULL: no memory. Then, and if the frame has no memory, the connection of p is closed, so that p lists again; except for an
 * order FOR_CLIENT, whose client the caller refuses. */
struct psd_ask *psd_order(struct psd_task *t, struct psd_peer *p, const struct psd_order *o);
/** The first unanswered order of this kind to p that names the container and, unless name is NULL, the variable. NULL: none. */
struct psd_ask *psd_order_find(const struct psd_peer *p, uint8_t op, const char *container, const char *name);
/** The list of p has been taken in: each kind sends p what it should have, and has not. */
void psd_orders_listed(struct psd_task *t, struct psd_peer *p);
/** The connection of p was lost: end its orders, oldest first. */
void psd_orders_lost(struct psd_task *t, struct psd_peer *p);
/** The task's side: answer the order with this id. id 0, or no connection to the directory: the directory has ended the order. */
void psd_order_answer(struct psd_task *t, uint8_t op, uint64_t id, const struct psi_err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Orders: requests of the directory to other tasks.
 *
 * A kind of order is a row, struct psd_order_kind: how it is encoded, who gets the answer, and what the order may have done if
 * its connection was lost. The rows are in psd/directory/orders.c. psd_order() allocates and sends an order, orders.c finds the
 * order that an answer belongs to, and psd_orders_lost() ends the orders of a task whose connection was lost.
 *
 * An order FOR_CLIENT is sent once, for a client that waits; if the connection is lost, the client's request ends. An order
 * FOR_TASKS is sent again if the task's next list shows that it is still needed. TASK_SAVED, TASK_CUT, TASK_LOAD and TASK_PLACE
 * are not sent again: the directory decides anew for all tasks.
 *
 * A task answers orders in the sequence in which they were sent. Answers of kinds that take time may come later. */
#ifndef PSD_ORDERS_H
#define PSD_ORDERS_H

#include "base.h"

struct psd_order {
    uint8_t op;
    const char *container, *name; /* container and variable that the order is about; NULL: no container, no variable */
    uint64_t number;  /* number of the checkpoint, or of the load (psd_loader.start), that the order is about; 0: of neither */
    const void *what; /* further data for this kind's encode(); the caller owns them */
};

enum psd_order_sort { PSD_ORDER_FOR_CLIENT, PSD_ORDER_FOR_TASKS };

struct psd_order_kind {
    enum psd_order_sort sort;
    /** Writes the body of the order for p into l, or sets l->failed (no memory). NULL: the order has no body. */
    void (*encode)(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
    /** Called with the answer; err NULL: success. r NULL: the connection was lost. Flag MORE: the answer has further frames. */
    void (*answered)(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                     const struct psi_err *err);
    /** Called when p has sent its list of what it has: compares the list with what p should have, and sends the missing orders,
     * also of other kinds, or only notes that a load may be needed (psd_loader_list_end()). NULL: nothing to compare, or another
     * kind's row compares it. */
    void (*listed)(struct psd_task *t, struct psd_peer *p);
    /* true: the task may answer later orders before this one, because it works long or writes to its disk */
    bool takes_time;
    ps_applied lost; /* what the order may have changed, if the connection was lost before its answer */
};

/** Send an order to p, and append it to p->asks. An order of the directory to itself is carried out at the end of the event
 * (loop.h). NULL: no memory. Then the caller of an order FOR_CLIENT refuses the client. For an order FOR_TASKS p's connection is
 * closed, so that p connects and sends its list again. */
struct psd_ask *psd_order(struct psd_task *t, struct psd_peer *p, const struct psd_order *o);
/** Find the first unanswered order of this kind to p for the container and, unless name is NULL, the variable. NULL: none. */
struct psd_ask *psd_order_find(const struct psd_peer *p, uint8_t op, const char *container, const char *name);
/** Call when p's list of names was read: calls `listed` of each kind of order. */
void psd_orders_listed(struct psd_task *t, struct psd_peer *p);
/** Call when the connection of p was lost: ends its orders, oldest first. */
void psd_orders_lost(struct psd_task *t, struct psd_peer *p);
/** At a task: answer the directory's order with this id. Does nothing if id is 0 or the connection has ended. */
void psd_order_answer(struct psd_task *t, uint8_t op, uint64_t id, const struct psi_err *err);

#endif

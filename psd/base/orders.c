/* SPDX-License-Identifier: Apache-2.0 */
/* Sends the orders of the directory to other tasks, and takes the answers.
 *
 * Happy path: psd_order() sends the frame on the task's connection. The answer arrives at psd_rpc_task_answer(), which calls
 * answered() of the order's kind. Failure: an answer that belongs to no order closes the connection. When a connection is
 * lost, answered() is called for each of its orders with r NULL. */
#include "orders.h"

#include "loop.h"

#include "psd/rpc/handlers.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

static struct psd_ask *at_ask(struct psi_list *it)
{
    return PSI_CONTAINER_OF(it, struct psd_ask, link);
}

static void send_order(struct psd_task *t, struct psd_peer *p, const struct psd_order *o)
{
    const struct psd_order_kind *kind = &t->orders[o->op];
    struct psd_conn *c = psd_peer_conn(t, p);
    struct psd_list l;
    if (kind->encode == NULL) {
        psd_ask_bare(t, c, o->op);
        return;
    }
    psd_list_begin(&l, t, c, o->op, 0, ++c->next_id);
    kind->encode(t, p, o, &l);
    psd_list_end(&l);
}

struct psd_ask *psd_order(struct psd_task *t, struct psd_peer *p, const struct psd_order *o)
{
    struct psd_ask *a = psi_calloc(1, sizeof(*a));
    if (a == NULL) {
        if (t->orders[o->op].sort == PSD_ORDER_FOR_TASKS) {
            psd_conn_close(t, psd_peer_conn(t, p), false);
        }
        return NULL;
    }
    a->op = o->op;
    a->owner = p->index;
    a->number = o->number;
    psi_list_init(&a->waiters);
    PSI_IGNORE(snprintf(a->container, sizeof(a->container), "%s", o->container != NULL ? o->container : "")); /* checked name */
    PSI_IGNORE(snprintf(a->name, sizeof(a->name), "%s", o->name != NULL ? o->name : ""));                     /* checked name */
    psi_list_push_back(&p->asks, &a->link);
    a->id = psd_ask_id(psd_peer_conn(t, p));
    send_order(t, p, o);
    return a;
}

struct psd_ask *psd_order_find(const struct psd_peer *p, uint8_t op, const char *container, const char *name)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &p->asks) {
        struct psd_ask *a = at_ask(it);
        if (a->op == op && strcmp(a->container, container) == 0 && (name == NULL || strcmp(a->name, name) == 0)) {
            return a;
        }
    }
    return NULL;
}

/* Find the order of p to which an answer with this header may belong; NULL: none. Answers come in the sequence of the orders.
 * Orders that take time may be answered later, so they are skipped unless id and operation match. */
static struct psd_ask *ask_of(const struct psd_task *t, const struct psd_peer *p, const struct ps_frame_header *h)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &p->asks) {
        struct psd_ask *a = at_ask(it);
        if ((a->id == h->id && a->op == h->op) || !t->orders[a->op].takes_time) {
            return a;
        }
    }
    return NULL;
}

/* End the order a: take it out of p->asks, then call answered() of its kind. */
static void end(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r, const struct psi_err *err)
{
    psi_list_remove(&a->link);
    t->orders[a->op].answered(t, p, a, r, err);
    psi_free(a);
}

void psd_rpc_task_answer(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psd_peer *p = c->peer;
    struct psd_ask *a = ask_of(t, p, &r->header);
    if (a == NULL || a->id != r->header.id || a->op != r->header.op) {
        psd_log(t, PSI_LOG_ERROR, "task_answer_rejected", PSI_KV("peer", c->text), PSI_KV("op", r->header.op),
                PSI_KV("id", r->header.id));
        psd_conn_fault(t, c, PS_FAILED_PRECONDITION, PS_REASON_GAP, "an answer to nothing, or out of order");
        return;
    }
    struct psi_err err;
    ps_status st = psd_reply_error(r, &err);
    if ((r->header.flags & PS_FLAG_MORE) != 0) {
        t->orders[a->op].answered(t, p, a, r, st == PS_OK ? NULL : &err);
    } else {
        end(t, p, a, r, st == PS_OK ? NULL : &err);
    }
}

void psd_orders_listed(struct psd_task *t, struct psd_peer *p)
{
    for (unsigned op = 0; op <= UINT8_MAX && !p->conn->closing; op++) {
        if (t->orders[op].listed != NULL) {
            t->orders[op].listed(t, p);
        }
    }
}

void psd_orders_lost(struct psd_task *t, struct psd_peer *p)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_first(&p->asks)) != NULL) {
        struct psd_ask *a = at_ask(link);
        struct psi_err err;
        char who[PS_ADDRESS_BYTES_MAX + PSI_TASK_NAME_MAX + 8];
        PSI_IGNORE(psi_fail_as(&err, PS_UNAVAILABLE, PS_REASON_NOT_CONNECTED, "%s dropped out before it answered",
                               psd_peer_text(t, p, who, sizeof(who))));
        err.applied = t->orders[a->op].lost;
        end(t, p, a, NULL, &err);
    }
}

void psd_order_answer(struct psd_task *t, uint8_t op, uint64_t id, const struct psi_err *err)
{
    struct psd_conn *c = psd_directory_conn(t);
    if (id != 0 && c != NULL) {
        psd_reply(t, c, op, 0, id, 0, err, 0, NULL, NULL);
    }
}

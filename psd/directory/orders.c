/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders of the directory to the other tasks.
 *
 * Happy path: psd_ask_once() or psd_ask_level() -> the frame goes out on the task's connection -> the answer comes to
 * psd_rpc_task_answer() -> the kind's answered(). A task answers in the order in which it was asked, apart from the kinds that
 * take time: their answers may be overtaken.
 *
 * Failure: an answer to no order, or one out of order, closes the connection. When the connection is gone, answered() hears it
 * with r NULL. A level order is sent again after the task has listed, by whoever compares what is wanted with what the task has.
 * The client that waits for a once order is refused: the order has done nothing, or its outcome is unknown.
 */
#include "directory.h"
#include "orders.h"

#include "psd/checkpoint/saves.h"
#include "psd/checkpoint/starts.h"
#include "psd/rounds/groups.h"

#include "common/mem.h"

struct kind {
    /* err NULL: the task has answered OK. r: its answer; NULL: its connection is gone. An answer that is a list comes frame by
     * frame; all but the last have PS_FLAG_MORE. */
    void (*answered)(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                     const struct psi_err *err);
    bool takes_time; /* the answer comes when the work is done, or when a disk has noted it */
    ps_applied lost; /* what an order may have done whose connection is gone */
};

static void done_answered(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                          const struct psi_err *err)
{
    (void)t, (void)a, (void)r;
    if (err == NULL) {
        psd_job_told(p);
    }
}

static const struct kind kinds[UINT8_MAX + 1] = {
    [PS_OP_TASK_CREATE] = {psd_create_answered, false, PS_NOTHING_APPLIED},
    [PS_OP_TASK_DELETE] = {psd_delete_answered, true, PS_OUTCOME_UNKNOWN},
    [PS_OP_TASK_RESET] = {psd_reset_answered, true, PS_NOTHING_APPLIED},
    [PS_OP_TASK_DONE] = {done_answered, false, PS_NOTHING_APPLIED},
    [PS_OP_TASK_ROUNDS] = {psd_group_answered, false, PS_NOTHING_APPLIED},
    [PS_OP_TASK_JOIN] = {psd_group_answered, false, PS_NOTHING_APPLIED},
    [PS_OP_TASK_LEAVE] = {psd_group_answered, false, PS_NOTHING_APPLIED},
    [PS_OP_PREPARE] = {psd_group_answered, true, PS_NOTHING_APPLIED},
    [PS_OP_COMMIT] = {psd_group_answered, true, PS_NOTHING_APPLIED},
    [PS_OP_TASK_CUT] = {psd_saves_answered, true, PS_NOTHING_APPLIED},
    [PS_OP_TASK_MANIFEST] = {psd_saves_answered, true, PS_NOTHING_APPLIED},
    [PS_OP_TASK_DROP] = {psd_saves_answered, false, PS_NOTHING_APPLIED},
    [PS_OP_TASK_SAVED] = {psd_saves_answered, false, PS_NOTHING_APPLIED},
    [PS_OP_TASK_LOAD] = {psd_starts_answered, true, PS_NOTHING_APPLIED},
    [PS_OP_TASK_PLACE] = {psd_starts_answered, false, PS_NOTHING_APPLIED},
};

/* The order that an answer is to: the oldest, apart from those that take time. */
static struct psd_ask *ask_of(const struct psd_peer *p, const struct ps_frame_header *h)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &p->asks) {
        struct psd_ask *a = PSI_CONTAINER_OF(it, struct psd_ask, link);
        if ((a->id == h->id && a->op == h->op) || !kinds[a->op].takes_time) {
            return a;
        }
    }
    return NULL;
}

static void end(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r, const struct psi_err *err)
{
    psi_list_remove(&a->link);
    kinds[a->op].answered(t, p, a, r, err);
    psi_free(a);
}

void psd_rpc_task_answer(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psd_peer *p = c->peer;
    struct psd_ask *a = ask_of(p, &r->header);
    if (a == NULL || a->id != r->header.id || a->op != r->header.op) {
        psd_log(t, PSI_LOG_ERROR, "task_answer_rejected", PSI_KV("peer", c->text), PSI_KV("op", r->header.op),
                PSI_KV("id", r->header.id));
        psd_conn_fault(t, c, PS_FAILED_PRECONDITION, PS_REASON_GAP, "an answer to nothing, or out of order");
        return;
    }
    struct psi_err err;
    ps_status st = psd_reply_error(r, &err);
    if ((r->header.flags & PS_FLAG_MORE) != 0) {
        kinds[a->op].answered(t, p, a, r, st == PS_OK ? NULL : &err);
    } else {
        end(t, p, a, r, st == PS_OK ? NULL : &err);
    }
}

void psd_orders_lost(struct psd_task *t, struct psd_peer *p)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_first(&p->asks)) != NULL) {
        struct psd_ask *a = PSI_CONTAINER_OF(link, struct psd_ask, link);
        struct psi_err err;
        char who[PS_ADDRESS_BYTES_MAX + PSI_TASK_NAME_MAX + 8];
        PSI_IGNORE(psi_fail_as(&err, PS_UNAVAILABLE, PS_REASON_NOT_CONNECTED, "%s dropped out before it answered",
                               psd_peer_text(t, p, who, sizeof(who)))); /* the client that waits hears it */
        err.applied = kinds[a->op].lost;
        end(t, p, a, NULL, &err);
    }
}

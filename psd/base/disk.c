/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on the task's disk (psd/disk.h) that were asked for and are not answered yet.
 *
 * Happy path: psd_disk_ask() queues an effect DISK. The shell, the code around this core, carries the operation out, and
 * psd_disk_done() calls the asker's callback. Failure: without a directory on disk, memory, or room for one more operation
 * psd_disk_ask() fails, and the callback is not called. */
#include "disk.h"

#include "base.h"

#include "common/mem.h"

struct psd_disk_ask {
    struct psi_list link; /* link in task->disk_asks, oldest first */
    uint64_t id;
    psd_disk_done_fn done;
    void *ctx;
};

ps_status psd_disk_ask(struct psd_task *t, struct psd_disk_op *op, psd_disk_done_fn done, void *ctx, struct psi_err *err)
{
    if (!t->config.has_disk) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "%s has no directory for checkpoints (checkpoint_dir)", t->name);
    }
    if (t->disk_ask_count >= PSD_DISK_OPS_MAX) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s waits for %u operations of its disk", t->name, t->disk_ask_count);
    }
    struct psd_disk_ask *a = psi_calloc(1, sizeof(*a));
    struct psd_effect *e = a != NULL ? psd_effect_new(t, PSD_EFFECT_DISK) : NULL;
    if (e == NULL) {
        psi_free(a);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: no memory for an operation of its disk", t->name);
    }
    a->id = ++t->disk_ask_next;
    a->done = done;
    a->ctx = ctx;
    psi_list_push_back(&t->disk_asks, &a->link);
    t->disk_ask_count++;
    op->id = a->id;
    e->disk = *op;
    return PS_OK;
}

void psd_disk_done(struct psd_task *t, uint64_t id, ps_status st, ps_reason reason, size_t bytes, const char *error)
{
    struct psi_list *link = psi_list_pop_front(&t->disk_asks);
    PSI_ASSERT(link != NULL);
    struct psd_disk_ask *a = PSI_CONTAINER_OF(link, struct psd_disk_ask, link);
    PSI_ASSERT(a->id == id); /* answers come in order */
    t->disk_ask_count--;
    struct psd_disk_ask over = *a;
    psi_free(a);
    t->disk_reason = reason;
    over.done(t, over.ctx, st, bytes, error);
}

void psd_disk_free_all(struct psd_task *t)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_pop_front(&t->disk_asks)) != NULL) {
        psi_free(PSI_CONTAINER_OF(link, struct psd_disk_ask, link));
    }
    t->disk_ask_count = 0;
}

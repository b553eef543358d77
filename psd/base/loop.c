/* SPDX-License-Identifier: Apache-2.0 */
/* The directory's connection to its own task: see loop.h. */
#include "loop.h"

#include "common/mem.h"

#include <string.h>

struct looped {
    struct psi_list link; /* psd_task.looped */
    struct psd_request request;
    _Alignas(8) uint8_t bytes[]; /* the frame's meta, then its body */
};

static struct looped *at_looped(struct psi_list *it)
{
    return PSI_CONTAINER_OF(it, struct looped, link);
}

ps_status psd_loop_begin(struct psd_task *t, struct psi_err *err)
{
    if (!t->is_directory) {
        return PS_OK;
    }
    t->loop = psi_calloc(1, sizeof(*t->loop));
    if (t->loop == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "task: memory for its own orders");
    }
    t->loop->role = PSD_ROLE_SELF;
    t->loop->peer = &t->peers[t->self];
    PSI_IGNORE(psi_task_name_format(t->loop->text, sizeof(t->loop->text), t->loop->peer->job, t->loop->peer->task)); /* fits */
    return PS_OK;
}

ps_status psd_loop_push(struct psd_task *t, const struct ps_frame_header *h, const void *meta, const void *body,
                        size_t body_bytes)
{
    struct looped *f = psi_calloc(1, sizeof(*f) + h->meta_bytes + body_bytes);
    if (f == NULL) {
        return PS_RESOURCE_EXHAUSTED;
    }
    f->request = (struct psd_request){.header = *h, .meta = f->bytes, .body = f->bytes + h->meta_bytes, .body_bytes = body_bytes};
    memcpy(f->bytes, meta == NULL ? "" : meta, h->meta_bytes);
    memcpy(f->bytes + h->meta_bytes, body == NULL ? "" : body, body_bytes);
    psi_list_push_back(&t->looped, &f->link);
    return PS_OK;
}

bool psd_loop_next(struct psd_task *t, struct psd_request *out)
{
    psi_free(t->loop_read);
    struct psi_list *it = psi_list_pop_front(&t->looped);
    t->loop_read = it == NULL ? NULL : at_looped(it);
    if (it != NULL) {
        *out = at_looped(it)->request;
    }
    return it != NULL;
}

void psd_loop_clear(struct psd_task *t)
{
    struct psd_request r;
    while (psd_loop_next(t, &r)) {
    }
    t->loop->closing = false;
}

void psd_loop_fini(struct psd_task *t)
{
    struct psi_list *it = NULL;
    if (t->loop != NULL) {
        psd_loop_clear(t);
        while ((it = psi_list_pop_front(&t->loop->peer->asks)) != NULL) {
            psi_free(PSI_CONTAINER_OF(it, struct psd_ask, link)); /* an order that was not answered */
        }
        psi_buf_fini(&t->loop->order);
        psi_free(t->loop);
        t->loop = NULL;
    }
}

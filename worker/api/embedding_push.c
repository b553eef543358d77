/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of embeddings (embedding.c) for param.c and ready.c: mark variables, push rows, forget rows read ahead, free. */
#include "api.h"

#include "common/mem.h"

void psi_api_embedding_free(ps_param *p)
{
    if (p->rows != NULL) {
        psi_free(p->rows->ids);
        psi_free(p->rows->next_ids);
        psi_free(p->rows);
    }
}

void psi_api_embedding_forget(ps_param *p)
{
    if (p->rows != NULL) {
        p->rows->next = PSI_VALUE_STALE;
    }
}

ps_status psi_api_embedding_push(ps_param *p, ps_done_fn done)
{
    struct psi_embedding *e = p->rows;
    const size_t count = e->none ? 0 : e->count;
    e->none = false;
    return ps_push_rows_start(p->variable, e->ids, count, p->grad.host, count * e->row_bytes, p->pushed_with, 0, &p->push, done,
                              p);
}

void psi_api_embeddings_note(ps_session *s)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &s->train.params) {
        const ps_param *p = psi_api_param(PSI_CONTAINER_OF(it, struct psi_training_param, link));
        const ps_variable *v = p->rows != NULL ? p->variable : NULL;
        const uint32_t parts = v != NULL ? v->cut.count : 0;
        if (v != NULL && v->var != NULL) {
            v->var->by_rows = true;
        }
        for (uint32_t i = 0; i < parts; i++) {
            if (v->parts[i]->var != NULL) { /* NULL: the program deleted the variable, and a recovery has not got it again */
                v->parts[i]->var->by_rows = true;
            }
        }
    }
}

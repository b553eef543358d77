/* SPDX-License-Identifier: Apache-2.0 */
/* What parameters do with those that are embeddings (embedding.c): push their rows, forget what is read ahead, free. */
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
        p->rows->there = false;
    }
}

ps_status psi_api_embedding_push(ps_param *p, ps_done_fn done)
{
    const struct psi_embedding *e = p->rows;
    return ps_push_rows_start(p->variable, e->ids, e->count, p->grad.host, e->count * e->row_bytes, p->pushed_with, 0, &p->push,
                              done, p);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Which sessions have shown the key of a session's container: that session itself, and sessions of tasks that work for it. */
#include "shown.h"

#include "mutate.h"

#include "common/mem.h"

bool psd_shown_by(const struct psd_container *c, const struct psd_record *r)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &c->shown) {
        if (PSI_CONTAINER_OF(it, struct psd_shown, of_container)->record == r) {
            return true;
        }
    }
    return false;
}

bool psd_shown_add(struct psd_store *s, const struct psd_container *c, struct psd_record *r)
{
    if (psd_shown_by(c, r)) {
        return true;
    }
    struct psd_shown *shown = psi_calloc(1, sizeof(*shown));
    if (shown == NULL) {
        return false;
    }
    shown->record = r;
    psi_list_push_back(&psd_container_own(c)->shown, &shown->of_container);
    psi_list_push_back(&r->shown, &shown->of_record);
    s->shown_count++;
    psd_store_count(s, PSD_MEMORY_CONTAINERS, PSD_SHOWN_BYTES);
    return true;
}

static void forget(struct psd_store *s, struct psd_shown *shown)
{
    psi_list_remove(&shown->of_container);
    psi_list_remove(&shown->of_record);
    psi_free(shown);
    s->shown_count--;
    psd_store_uncount(s, PSD_MEMORY_CONTAINERS, PSD_SHOWN_BYTES);
}

void psd_shown_forget_container(struct psd_store *s, struct psd_container *c)
{
    struct psi_list *it = NULL;
    while ((it = psi_list_first(&c->shown)) != NULL) {
        forget(s, PSI_CONTAINER_OF(it, struct psd_shown, of_container));
    }
}

void psd_shown_forget_record(struct psd_store *s, struct psd_record *r)
{
    struct psi_list *it = NULL;
    while ((it = psi_list_first(&r->shown)) != NULL) {
        forget(s, PSI_CONTAINER_OF(it, struct psd_shown, of_record));
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The request AGES: how old gradients were when they were applied, as a histogram for each container. The age of a push is how
 * many mutations of its variable completed after the version from which its gradient was computed. A push that does not say this
 * version is not counted. Contributions to a round have age 0. Failure: no memory to answer AGES: RESOURCE_EXHAUSTED. */

#include "rounds.h"

#include "psd/rpc/handlers.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdlib.h>
#include <string.h>

void psd_age_note(const struct psd_variable *v, uint64_t version, uint64_t from)
{
    uint64_t age = version - from;
    if (from != 0 && from <= version) {
        v->container->ages[age < PSD_AGES - 1 ? age : PSD_AGES - 1]++;
    }
}

void psd_age_note_round(const struct psd_variable *v, uint64_t count)
{
    v->container->ages[0] += count;
}

static int by_name(const void *a, const void *b)
{
    const struct psd_container *const *x = a;
    const struct psd_container *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static bool any_age(const struct psd_container *c)
{
    static const uint64_t none[PSD_AGES];
    return memcmp(c->ages, none, sizeof(none)) != 0;
}

void psd_rpc_ages(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    const struct psd_container **all = psi_calloc(psi_map_count(&t->store.containers) + 1, sizeof(const struct psd_container *));
    struct psd_list l;
    size_t count = 0;
    uint64_t cursor = 0;
    void *value = NULL;
    if (all == NULL) {
        psd_list_refuse(t, c, r);
        return;
    }
    while (psi_map_next(&t->store.containers, &cursor, NULL, NULL, &value)) {
        all[count] = value;
        count += any_age(all[count]) && psd_rights_read_in(t, c, all[count]);
    }
    qsort(all, count, sizeof(const struct psd_container *), by_name);
    psd_list_begin(&l, t, c, PS_OP_AGES, PS_FLAG_REPLY, r->header.id);
    for (size_t i = 0; i < count; i++) {
        ps_v1_AgeAnswer a = ps_v1_AgeAnswer_init_zero;
        PSI_IGNORE(PSI_BYTES_SET(a.container, all[i]->name)); /* fits: checked name */
        a.ages_count = PSD_AGES;
        memcpy(a.ages, all[i]->ages, sizeof(all[i]->ages));
        psd_list_add(&l, &ps_v1_AgeAnswer_msg, &a);
    }
    psd_list_end(&l);
    psi_free(all);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A joint limit on the norm of a round's averages (docs/PROTOCOL.md "Closing"), at the directory:
 *   factor = min(1, max_norm / sqrt(sum over all variables of their sums of squares))
 * The answers to PREPARE bring the sums of each owner. When all have come, they are added in the order in which the variables
 * were created, so the factor does not depend on who answers first, or which task has what. Failure: no memory for a sum: the
 * owner is asked again, because the factor would be wrong. */
#include "groups.h"

#include <stdlib.h>

void psd_group_sums_drop(struct psd_group *g, uint32_t owner)
{
    struct psd_group_sum *sums = (struct psd_group_sum *)(void *)g->sums.data;
    const size_t count = g->sums.len / sizeof(*sums);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (sums[i].owner != owner) {
            sums[kept++] = sums[i];
        }
    }
    g->sums.len = kept * sizeof(*sums);
}

ps_status psd_group_sums_add(struct psd_group *g, const struct psd_group_sum *sum, struct psi_err *err)
{
    return psi_buf_append(&g->sums, sum, sizeof(*sum), err);
}

static int by_order(const void *a, const void *b)
{
    const struct psd_group_sum *x = a, *y = b;
    return x->order < y->order ? -1 : x->order > y->order;
}

float psd_group_sums_factor(struct psd_group *g)
{
    struct psd_group_sum *sums = (struct psd_group_sum *)(void *)g->sums.data;
    const size_t count = g->sums.len / sizeof(*sums);
    double squares = 0;
    if (count > 0) {
        qsort(sums, count, sizeof(*sums), by_order);
    }
    for (size_t i = 0; i < count; i++) {
        squares += sums[i].squares;
    }
    return psi_clip_factor(squares, g->options.max_norm);
}

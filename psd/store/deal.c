/* SPDX-License-Identifier: Apache-2.0 */
/* Deals the variables of a checkpoint out to tasks. Happy path: sort the variables: those pinned to a task first, then by falling
 * size, equal sizes in order of creation -> give queues to how->home, a pinned variable to its task if this task takes part, any
 * other variable to the task with the fewest bytes so far -> call others() for variables of other tasks. Failure: no memory. */
#include "deal.h"

#include "variable.h"

#include "common/mem.h"

#include <stdlib.h>

enum {
    EACH_BYTES = 16 << 10 /* added to the size of each variable, so that small variables are spread too */
};

static int in_turn(const void *a, const void *b)
{
    const struct psd_variable *x = *(const struct psd_variable *const *)a, *y = *(const struct psd_variable *const *)b;
    if ((x->pin != 0) != (y->pin != 0)) {
        return x->pin != 0 ? -1 : 1;
    }
    uint64_t of_x = psd_variable_promised_bytes(x), of_y = psd_variable_promised_bytes(y);
    if (of_x != of_y) {
        return of_x > of_y ? -1 : 1;
    }
    return x->handle < y->handle ? -1 : x->handle > y->handle;
}

/* The task (0 to how->tasks - 1) with the fewest bytes so far; the first of several tasks with equally few. */
static uint32_t next_place(const struct psd_deal *how)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < how->tasks; i++) {
        best = how->has[i] < how->has[best] ? i : best;
    }
    return best;
}

static uint32_t place_of(const struct psd_deal *how, const struct psd_variable *v)
{
    if (v->queue != NULL) {
        return how->home;
    }
    for (uint32_t i = 0; v->pin != 0 && i < how->tasks; i++) {
        if (how->index[i] == v->pin - 1) {
            return i;
        }
    }
    return next_place(how);
}

ps_status psd_deal(const struct psd_store *s, const struct psd_deal *how, psd_deal_cb others, void *ctx, struct psi_err *err)
{
    uint32_t count = 0;
    uint64_t cursor = 0;
    void *value = NULL;
    const struct psd_variable **all = psi_calloc(s->variable_count + 1, sizeof(struct psd_variable *));
    if (all == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory to deal %u variables", s->variable_count);
    }
    while (psi_u64_map_next(&s->handles, &cursor, NULL, &value)) {
        all[count++] = value;
    }
    if (count > 0) {
        qsort(all, count, sizeof(struct psd_variable *), in_turn);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = place_of(how, all[i]);
        how->has[place] += psd_variable_promised_bytes(all[i]) + EACH_BYTES;
        if (place != how->place) {
            others(ctx, all[i]);
        }
    }
    psi_free(all);
    return PS_OK;
}

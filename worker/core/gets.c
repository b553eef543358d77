/* SPDX-License-Identifier: Apache-2.0 */
/* State machine of a session's gets, by which the session finds or creates variables (gets.h). Happy path: a get is put aside; a
 * thread runs the get, and reports the result. Failure: if a get of a monitored session fails because the session is lost, the
 * get is LOST, and the recovery runs it again. Any other failure: FAILED. */
#include "gets.h"

#include "ways.h"

static const uint8_t TO[PSI_GET_STATES] = {
    [PSI_GET_NEW] = PSI_TO(PSI_GET_ASIDE) | PSI_TO(PSI_GET_RUNS),
    [PSI_GET_ASIDE] = PSI_TO(PSI_GET_RUNS),
    [PSI_GET_RUNS] = PSI_TO(PSI_GET_ASIDE) | PSI_TO(PSI_GET_GOT) | PSI_TO(PSI_GET_LOST) | PSI_TO(PSI_GET_FAILED),
    [PSI_GET_LOST] = PSI_TO(PSI_GET_GOT),
    [PSI_GET_GOT] = PSI_TO(PSI_GET_DELETED),
};
static const struct psi_ways WAYS = {"get", TO, PSI_GET_STATES, 0};

static void move(struct psi_gets *g, struct psi_get *get, enum psi_get_state to)
{
    get->state = (enum psi_get_state)psi_ways_move(&WAYS, &g->marks, get->state, to);
}

static void move_all(struct psi_gets *g, struct psi_list *gets, enum psi_get_state to)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, gets) {
        move(g, PSI_CONTAINER_OF(it, struct psi_get, link), to);
    }
}

bool psi_gets_unmarked(uint64_t marks, char out[64])
{
    return psi_ways_unmarked(&WAYS, marks, out);
}

void psi_gets_init(struct psi_gets *g)
{
    *g = (struct psi_gets){0};
    psi_list_init(&g->aside);
    psi_list_init(&g->kept);
}

void psi_gets_check_invariants(const struct psi_gets *g)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->aside) {
        const struct psi_get *get = PSI_CONTAINER_OF(it, struct psi_get, link);
        PSI_ASSERT(get->state == PSI_GET_ASIDE && get->sticks);
    }
    PSI_LIST_FOREACH(it, &g->kept) {
        const struct psi_get *get = PSI_CONTAINER_OF(it, struct psi_get, link);
        PSI_ASSERT(get->state == PSI_GET_GOT || get->state == PSI_GET_DELETED || (get->state == PSI_GET_LOST && get->sticks));
    }
}

void psi_gets_put_aside(struct psi_gets *g, struct psi_get *get)
{
    get->sticks = true;
    move(g, get, PSI_GET_ASIDE);
    psi_list_push_back(&g->aside, &get->link);
}

enum psi_gets_do psi_gets_come(struct psi_gets *g, struct psi_list *own, bool barred, struct psi_list *aside)
{
    const bool settles = !psi_list_empty(&g->aside);
    if (g->settling) {
        return PSI_GETS_WAIT;
    }
    if (barred || (!settles && psi_list_empty(own))) {
        return PSI_GETS_NOTHING;
    }
    g->settling = settles;
    psi_list_move_all(aside, &g->aside);
    move_all(g, aside, PSI_GET_RUNS);
    move_all(g, own, PSI_GET_RUNS);
    return settles ? PSI_GETS_SETTLE : PSI_GETS_RUN;
}

void psi_gets_over(struct psi_gets *g, enum psi_gets_do did, struct psi_list *again)
{
    psi_list_move_all(again, &g->aside); /* interrupted gets are put before newer ones, and keep their order */
    psi_list_move_all(&g->aside, again);
    g->settling = g->settling && did != PSI_GETS_SETTLE;
}

enum psi_get_state psi_get_ended(struct psi_gets *g, struct psi_get *get, enum psi_get_end how, bool keeps)
{
    const bool kept = get->state == PSI_GET_LOST;
    move(g, get,
         how == PSI_GET_OK                                ? PSI_GET_GOT
         : how == PSI_GET_INTERRUPTED && get->sticks      ? PSI_GET_ASIDE
         : how == PSI_GET_BY_LOSS && get->sticks && keeps ? PSI_GET_LOST
                                                          : PSI_GET_FAILED);
    if (keeps && !kept && (get->state == PSI_GET_GOT || get->state == PSI_GET_LOST)) {
        psi_list_push_back(&g->kept, &get->link);
    }
    return get->state;
}

void psi_get_delete(struct psi_gets *g, struct psi_get *get)
{
    if (get->state == PSI_GET_GOT) {
        move(g, get, PSI_GET_DELETED);
    }
}

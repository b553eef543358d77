/* SPDX-License-Identifier: Apache-2.0 */
/* Long lists of what this task has, of up to a million entries: VARS, QUEUES, CONTAINERS and TASKS for a client, LIST for the
 * directory. A list is made in slices. Between two slices other connections are served, and the next slice is made when the peer
 * has read enough. Each entry shows the state at the time of its slice.
 *
 * Happy path: psd_listing_begin() sends the first slice, psd_listing_work() one more in each turn of the event loop; connections
 * with lists take turns. A connection is not read while its list is unfinished. Requests that came behind the list's request are
 * handled after it. Failure: if a connection ends, also for lack of memory, its list ends. */

#include "session.h"

#include "common/mem.h"

/* Visit the next variable or queue. False: no variable or queue is left. A client sees only containers that it may read. */
static bool step_variable(struct psd_task *t, struct psd_conn *c, struct psd_list *l)
{
    void *value = NULL;
    if (!psi_u64_map_next(&t->store.handles, &c->listing_cursor, NULL, &value)) {
        return false;
    }
    const struct psd_variable *v = value;
    if (!psd_variable_is_gone(v) && (c->role != PSD_ROLE_CLIENT || psd_rights_read_in(t, c, v->container))) {
        c->listing_of->add(l, v);
    }
    return true;
}

/* Send the next slice of c's list. False: it was the last slice. */
static bool go_on(struct psd_task *t, struct psd_conn *c)
{
    const struct psd_listing *of = c->listing_of;
    struct psd_list l;
    uint32_t left = t->config.list_slice_rows;
    psd_list_begin(&l, t, c, of->op, of->flags, c->listing_id);
    while (left > 0 && (of->step != NULL ? of->step : step_variable)(t, c, &l)) {
        left--;
    }
    if (left == 0) {
        psd_list_pause(&l);
        return !c->closing;
    }
    if (of->end != NULL) {
        of->end(t, &l);
    }
    psd_list_end(&l);
    psi_free(c->listing_at);
    c->listing_at = NULL;
    return false;
}

void psd_listing_begin(struct psd_task *t, struct psd_conn *c, const struct psd_listing *of, uint64_t id)
{
    c->listing_of = of;
    c->listing_id = id;
    c->listing_cursor = 0;
    c->listing_beat_ms = t->now_ms;
    if (go_on(t, c)) {
        psi_list_push_back(&t->listings, &c->listing);
        psd_conn_balance(t, c);
    }
}

bool psd_listing_goes_on(const struct psd_conn *c)
{
    return psi_list_linked(&c->listing);
}

/* The next connection to serve. NULL: no connection has room for more of its list. */
static struct psd_conn *next(const struct psd_task *t)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->listings) {
        struct psd_conn *c = PSI_CONTAINER_OF(it, struct psd_conn, listing);
        if (!c->paused_out && !c->link->want_buffer) {
            return c;
        }
    }
    return NULL;
}

bool psd_listing_has_work(const struct psd_task *t)
{
    return next(t) != NULL;
}

struct psd_conn *psd_listing_work(struct psd_task *t)
{
    struct psd_conn *c = next(t);
    psi_list_remove(&c->listing);
    if (go_on(t, c)) {
        psi_list_push_back(&t->listings, &c->listing);
        psd_conn_balance(t, c);
        return NULL;
    }
    return c->closing ? NULL : c;
}

void psd_listing_tick(struct psd_task *t)
{
    struct psi_list *it = NULL, *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &t->listings) { /* an answer without memory closes its connection */
        struct psd_conn *c = PSI_CONTAINER_OF(it, struct psd_conn, listing);
        if (c->listing_of->flags == PS_FLAG_REPLY && t->now_ms - c->listing_beat_ms >= t->config.beat_ms) {
            c->listing_beat_ms = t->now_ms;
            psd_beat_answer(t, c, 0); /* a BEAT with id 0 answers no beat, but shows that this task is alive */
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Makes room when memory or records of sessions run short, by what sessions hold that have had no connection for a lease.
 *
 * Happy path: the session longest without a connection comes first. If pushes in progress or memory run short, unfinished pushes
 * of these sessions end (outcome ABANDONED, kept in the record). If that is not enough, or lists or records run short, records
 * are dropped, those with nothing to remember first. A session that comes back without a record is told *unknown*
 * (docs/PROTOCOL.md §2). A session without a connection for less than a lease loses nothing, unless it is a guest
 * (psd_record.guest). Failure: if all of this would not be enough, nothing is ended, and the caller refuses. */

#include "session.h"

#include <stdio.h>

static bool past_lease(const struct psd_task *t, const struct psd_record *r)
{
    return r->guest || t->now_ms - r->idle_since_ms >= t->config.lease_ms;
}

static void log_end(struct psd_task *t, const struct psd_record *r, const char *what)
{
    char who[96];
    psd_log(t, PSI_LOG_WARN, "session_gave_way", PSI_KV("peer", psd_record_text(r, who, sizeof(who))),
            PSI_KV("silent_ms", (t->now_ms - r->idle_since_ms)), PSI_KV("what", what));
}

static void give_up(struct psd_task *t, struct psd_record *r)
{
    log_end(t, r, "session");
    psd_session_drop(t, r);
}

bool psd_room_session(struct psd_task *t)
{
    struct psi_list *lists[] = {&t->silent_empty, &t->silent};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct psi_list *first = psi_list_first(lists[i]);
        struct psd_record *r = first == NULL ? NULL : PSI_CONTAINER_OF(first, struct psd_record, silent);
        if (r != NULL && past_lease(t, r)) {
            give_up(t, r);
            return true;
        }
    }
    return false;
}

/* How many pushes, or bytes of memory or of lists (`what`), are lacking for n more of them; 0: there is room. */
static uint64_t missing(const struct psd_task *t, enum psd_room what, uint64_t n)
{
    uint64_t most = t->config.pushes_in_progress_max;
    switch (what) {
    case PSD_ROOM_PUSHES:
        return t->progress_count + n <= most ? 0 : t->progress_count + n - most;
    case PSD_ROOM_MEMORY:
        return psd_store_missing(&t->store, n);
    case PSD_ROOM_LISTS:
        return psd_wait_lists_missing(t, n);
    }
    return 0;
}

/* How many pushes or bytes (`what`) become free if r is dropped. */
static uint64_t holds(const struct psd_task *t, const struct psd_record *r, enum psd_room what)
{
    switch (what) {
    case PSD_ROOM_PUSHES:
        return r->progress_count;
    case PSD_ROOM_MEMORY:
        return psd_session_staged_bytes(r) + (psd_store_counted_over(&t->store, PSD_MEMORY_SESSIONS) > 0 ? PSD_RECORD_BYTES : 0);
    case PSD_ROOM_LISTS:
        return psd_wait_lists_bytes(r);
    }
    return 0;
}

/* How many pushes or bytes (`what`) become free if all sessions past their lease are dropped. */
static uint64_t could_give(const struct psd_task *t, enum psd_room what)
{
    uint64_t sum = 0;
    const struct psi_list *lists[] = {&t->silent_empty, &t->silent};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, lists[i]) {
            const struct psd_record *r = PSI_CONTAINER_OF(it, struct psd_record, silent);
            if (!past_lease(t, r)) {
                break;
            }
            sum += holds(t, r, what);
        }
    }
    return sum;
}

/* End the unfinished pushes of r; for PSD_ROOM_MEMORY only those that use extra memory. */
static void end_pushes(struct psd_task *t, struct psd_record *r, enum psd_room what)
{
    struct psi_list *it = NULL, *tmp = NULL;
    uint32_t before = r->progress_count;
    PSI_LIST_FOREACH_SAFE(it, tmp, &r->progress) {
        const struct psd_progress *p = PSI_CONTAINER_OF(it, struct psd_progress, link);
        if (what == PSD_ROOM_PUSHES || (what == PSD_ROOM_MEMORY && p->staging != NULL)) {
            psd_outcome_tear(t, r, psd_record_find(r, p->number));
        }
    }
    if (r->progress_count < before) {
        log_end(t, r, "pushes");
    }
}

static void give_way(struct psd_task *t, enum psd_room what, uint64_t n)
{
    struct psi_list *it = NULL, *tmp = NULL;
    struct psi_list *lists[] = {&t->silent_empty, &t->silent};
    PSI_LIST_FOREACH(it, &t->silent) {
        struct psd_record *r = PSI_CONTAINER_OF(it, struct psd_record, silent);
        if (missing(t, what, n) == 0 || !past_lease(t, r)) {
            break;
        }
        end_pushes(t, r, what);
    }
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        PSI_LIST_FOREACH_SAFE(it, tmp, lists[i]) {
            struct psd_record *r = PSI_CONTAINER_OF(it, struct psd_record, silent);
            if (missing(t, what, n) == 0 || !past_lease(t, r)) {
                break;
            }
            if (holds(t, r, what) > 0) {
                give_up(t, r);
            }
        }
    }
}

bool psd_room(struct psd_task *t, enum psd_room what, uint64_t n)
{
    uint64_t lacks = missing(t, what, n);
    if (lacks > 0 && t->room_none_ms[what] != t->now_ms && could_give(t, what) >= lacks) {
        give_way(t, what, n);
        lacks = missing(t, what, n);
    }
    if (lacks > 0) {
        /* remember the failure, so that the sessions are searched once a tick at most, and not at each refusal */
        t->room_none_ms[what] = t->now_ms;
    }
    return lacks == 0;
}

void *psd_room_stage(struct psd_task *t, uint64_t n)
{
    return psd_room(t, PSD_ROOM_MEMORY, psd_arena_bytes(n)) ? psd_store_stage_raw(&t->store, n) : NULL;
}

void *psd_room_stage_first(struct psd_task *t, const struct psd_variable *v, uint64_t bytes)
{
    void *p = psd_variable_stage_first(&t->store, v, bytes);
    if (p == NULL) {
        p = psd_room_stage(t, bytes);
    }
    if (p == NULL) {
        /* try again: psd_room_stage() may have ended the push that used the memory reserved for the first value */
        p = psd_variable_stage_first(&t->store, v, bytes);
    }
    return p;
}

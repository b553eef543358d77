/* SPDX-License-Identifier: Apache-2.0 */
/* How a waiting request begins (wait.h): it is found or made, and gets its deadline and lists.
 *
 * Failure: the session has too many requests, or there is no room for its lists: RESOURCE_EXHAUSTED, and the client may repeat
 * the request. Another operation has the request number already: INVALID_ARGUMENT. */

#include "session.h"

#include "common/mem.h"

#include <string.h>

enum { GET_RETRY_MS = 50 };

static struct psd_wait *wait_new(struct psd_task *t, struct psd_record *record, uint64_t id, struct psi_err *err)
{
    uint32_t count = psi_u64_map_count(&record->waits);
    if (count >= PS_WAITS_PER_SESSION_MAX) {
        PSI_IGNORE(
            psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED,
                        "%s: this session already has %u waiting requests, the most that a task keeps of one session: end one of "
                        "them, or use another session",
                        t->name, count));
        return NULL;
    }
    struct psd_wait *w = psd_wait_reserve(t) && psd_room(t, PSD_ROOM_LISTS, PSD_WAIT_BYTES) ? psd_wait_new(t) : NULL;
    if (w == NULL || psi_u64_map_put(&record->waits, id, w, NULL, err) != PS_OK) {
        psi_free(w);
        PSI_IGNORE(psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED,
                               "%s: no memory for a waiting request; all of them take %llu bytes", t->name,
                               (unsigned long long)psd_wait_lists_all(t))); /* sent by the caller */
        return NULL;
    }
    w->record = record;
    w->id = id;
    w->begun_ms = t->now_ms;
    t->wait_count++;
    psd_wait_take(t, w, PSD_WAIT_BYTES);
    return w;
}

struct psd_wait *psd_wait_get(struct psd_task *t, struct psd_conn *c, const struct psd_request *r,
                              const struct psd_wait_kind *kind, bool *out_old)
{
    const struct ps_frame_header *h = &r->header;
    struct psd_wait *w = psi_u64_map_find(&c->record->waits, h->id);
    struct psi_err err;
    *out_old = w != NULL && w->stage != PSD_WAIT_COLLECTING;
    if (w == NULL) {
        w = wait_new(t, c->record, h->id, &err);
        if (w == NULL) {
            psd_reply(t, c, h->op, 0, h->id, 0, &err, GET_RETRY_MS, NULL, NULL);
            return NULL;
        }
        w->kind = kind;
        w->op = h->op;
    } else if (w->op != h->op) {
        PSI_IGNORE(psi_fail(&err, PS_INVALID_ARGUMENT, "request number %llu is that of another operation (%u)",
                            (unsigned long long)w->id, w->op));
        psd_reply(t, c, h->op, 0, h->id, 0, &err, 0, NULL, NULL);
        return NULL;
    }
    bool more = (h->flags & PS_FLAG_MORE) != 0;
    if (w->stage != PSD_WAIT_DONE) {
        w->list_on = more ? c->link->name : 0;
    } else if (!more) {
        bool answered = w->list_on == c->link->name;
        w->list_on = 0;
        if (!answered) {
            psd_wait_answer(t, w);
        }
    }
    if (r->refusal != NULL && w->stage == PSD_WAIT_COLLECTING) {
        psd_wait_refused(t, w, r->refusal, 0);
        return NULL;
    }
    return w;
}

ps_status psd_wait_meta(const struct psd_task *t, struct psd_wait *w, const struct psd_request *r, struct psi_err *err)
{
    ps_v1_Wait m;
    ps_status st = psi_msg_decode(&ps_v1_Wait_msg, &m, r->meta, r->header.meta_bytes, err);
    if (st == PS_OK && w->op == PS_OP_WAIT && (m.condition == 0 || m.condition > PS_WAIT_SEALED)) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "WAIT for condition %u; known: 1 initialised, 2 sealed", m.condition);
    }
    if (st == PS_OK) {
        w->condition = (uint8_t)m.condition;
        w->deadline_ms = psd_wait_deadline(t, m.timeout_ms);
    }
    return st;
}

struct psd_need *psd_wait_need(struct psd_task *t, struct psd_wait *w, struct psi_err *err)
{
    if (w->need_count == 0) {
        w->needs = &w->own;
        w->need_capacity = 1;
    } else if (w->need_count == w->need_capacity) {
        bool is_own = w->needs == &w->own;
        struct psd_need *grown = psd_wait_list_grow(t, w, is_own ? NULL : w->needs, sizeof(*grown), &w->need_capacity, err);
        if (grown == NULL) {
            return NULL;
        }
        if (is_own) {
            grown[0] = w->own;
        }
        w->needs = grown;
    }
    struct psd_need *n = &w->needs[w->need_count++];
    memset(n, 0, sizeof(*n));
    return n;
}

void *psd_wait_list_grow(struct psd_task *t, struct psd_wait *w, void *list, size_t item_bytes, uint32_t *capacity,
                         struct psi_err *err)
{
    uint32_t want = *capacity == 0 ? 1 : *capacity * 2;
    uint64_t added_bytes = (uint64_t)(want - *capacity) * item_bytes;
    char text[PSD_MEMORY_TEXT_BYTES];
    bool fits = want <= PS_VARIABLES_MAX && psd_room(t, PSD_ROOM_LISTS, added_bytes);
    void *grown = fits ? psi_realloc(list, (size_t)want * item_bytes) : NULL;
    if (grown == NULL) {
        PSI_IGNORE(psi_fail_as(
            err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED,
            "%s: no room for a list of more than %u; the lists of waiting requests take %llu bytes of %llu (an "
            "eighth of psd --memory_budget, of which %llu bytes are taken: %s)",
            t->name, *capacity, (unsigned long long)psd_wait_lists_all(t), (unsigned long long)psd_wait_lists_most(t),
            (unsigned long long)psd_store_taken(&t->store), psd_store_memory_text(&t->store, text))); /* NULL tells the caller */
        return NULL;
    }
    psd_wait_take(t, w, added_bytes);
    *capacity = want;
    return grown;
}

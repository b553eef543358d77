/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting requests: keyed (session, request number), kept with their result until the client's ACK; and the two that wait for a
 * condition, WAIT and WAIT_CLUSTER. A client that reconnects sends a request again with its number: it joins the one that waits,
 * or gets the result.
 */
#include "rpc.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <string.h>

enum {
    CONDITION_INITIALISED = 1,
    CONDITION_SEALED = 2,
    LISTS_BYTES_LEAST = 64 << 20, /* however small the memory budget is */
    LISTS_RETRY_MS = 100
};

static void send_creates(struct psd_task *t, struct psd_conn *c, const struct psd_wait *w)
{
    struct psd_list l;
    psd_list_begin(&l, t, c, w->op, PS_FLAG_REPLY, w->id);
    for (uint32_t i = 0; i < w->create_count; i++) {
        const struct psd_create *item = &w->creates[i];
        ps_v1_CreateAnswer a = ps_v1_CreateAnswer_init_zero;
        a.index = i + 1;
        a.status = (uint32_t)item->status;
        a.created = item->created;
        a.retry_after_ms = item->retry_after_ms;
        if (item->status == PS_OK || item->status == PS_DEADLINE_EXCEEDED) { /* who has it, or has not answered */
            a.task = t->peers[item->owner].task;
            PSI_IGNORE(PSI_BYTES_SET(a.job, t->peers[item->owner].job)); /* fits: checked name */
        }
        if (item->status != PS_OK) {
            PSI_IGNORE(PSI_BYTES_SET(a.text, item->text == NULL ? "refused" : item->text)); /* cut is fine */
        }
        psd_list_add(&l, &ps_v1_CreateAnswer_msg, &a);
    }
    psd_list_end(&l);
}

static void answer(struct psd_task *t, struct psd_wait *w)
{
    struct psd_conn *c = w->record->conn;
    if (c == NULL) {
        return; /* kept */
    }
    if (w->err.code != PS_OK) {
        psd_reply(t, c, w->op, 0, w->id, 0, &w->err, w->retry_after_ms, NULL, NULL);
    } else if (w->op == PS_OP_CREATE) {
        send_creates(t, c, w);
    } else if (w->op == PS_OP_CALL) {
        psd_call_answer(t, c, w);
    } else {
        psd_reply(t, c, w->op, 0, w->id, 0, NULL, 0, NULL, NULL);
    }
}

struct psd_wait *psd_wait_get(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, bool *out_old)
{
    struct psd_record *record = c->record;
    struct psi_list *it = NULL;
    *out_old = false;
    PSI_LIST_FOREACH(it, &record->waits) {
        struct psd_wait *w = PSI_CONTAINER_OF(it, struct psd_wait, link);
        if (w->id != r->header.id) {
            continue;
        }
        if (w->op != r->header.op) {
            struct psi_err taken;
            PSI_IGNORE(psi_fail(&taken, PS_INVALID_ARGUMENT, "request number %llu is that of another operation (%u)",
                                (unsigned long long)w->id, w->op)); /* sent below */
            psd_reply(t, c, r->header.op, 0, r->header.id, 0, &taken, 0, NULL, NULL);
            return NULL;
        }
        *out_old = !w->collecting;
        if (*out_old && w->done && (r->header.flags & PS_FLAG_MORE) == 0) {
            answer(t, w);
        }
        return w;
    }
    struct psi_err err;
    bool many = record->wait_count >= PS_WAITS_PER_SESSION_MAX;
    struct psd_wait *w = !many && psd_room(t, PSD_ROOM_LISTS, sizeof(*w)) ? psi_calloc(1, sizeof(*w)) : NULL;
    if (w == NULL) {
        PSI_IGNORE(many
                       ? psi_fail(&err, PS_RESOURCE_EXHAUSTED, "%s: this session already has %u waiting requests", t->name,
                                  record->wait_count)
                       : psi_fail(&err, PS_RESOURCE_EXHAUSTED, "%s: no memory for a waiting request; all of them take %llu bytes",
                                  t->name, (unsigned long long)t->wait_list_bytes)); /* sent below */
        psd_reply(t, c, r->header.op, 0, r->header.id, 0, &err, 50, NULL, NULL);
        return NULL;
    }
    w->record = record;
    w->id = r->header.id;
    w->op = r->header.op;
    w->begun_ms = t->now_ms;
    w->collecting = true;
    psi_list_init(&w->open);
    psi_list_push_back(&record->waits, &w->link);
    record->wait_count++;
    t->wait_list_bytes += sizeof(*w);
    return w;
}

/* ---- their lists: what a peer sends as a few bytes takes up to 600 here, and stays until its ACK ---- */

static uint64_t lists_most(const struct psd_task *t)
{
    uint64_t share = t->config.memory_budget_bytes / 8;
    return share > LISTS_BYTES_LEAST ? share : LISTS_BYTES_LEAST;
}

uint64_t psd_wait_lists_missing(const struct psd_task *t, uint64_t n)
{
    uint64_t most = lists_most(t);
    return t->wait_list_bytes + n > most ? t->wait_list_bytes + n - most : 0;
}

static uint64_t lists_bytes(const struct psd_wait *w)
{
    uint64_t bytes = sizeof(*w) + w->target_capacity * sizeof(*w->targets) + w->create_capacity * sizeof(*w->creates);
    for (uint32_t i = 0; i < w->create_count; i++) {
        bytes += w->creates[i].text == NULL ? 0 : strlen(w->creates[i].text) + 1;
    }
    return bytes;
}

void psd_wait_item_text(struct psd_task *t, struct psd_create *item, const char *text)
{
    item->text = psi_strndup(text, strlen(text)); /* without memory the status must do */
    t->wait_list_bytes += item->text == NULL ? 0 : strlen(text) + 1;
}

uint64_t psd_wait_lists_bytes(const struct psd_record *r)
{
    uint64_t bytes = 0;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &r->waits) {
        bytes += lists_bytes(PSI_CONTAINER_OF(it, struct psd_wait, link));
    }
    return bytes;
}

void *psd_wait_list_grow(struct psd_task *t, void *list, size_t item_bytes, uint32_t *capacity, struct psi_err *err)
{
    uint32_t want = *capacity == 0 ? 16 : *capacity * 2;
    uint64_t more = (uint64_t)(want - *capacity) * item_bytes;
    bool fits = want <= PS_VARIABLES_MAX && psd_room(t, PSD_ROOM_LISTS, more);
    void *grown = fits ? psi_realloc(list, (size_t)want * item_bytes) : NULL;
    if (grown == NULL) {
        PSI_IGNORE(psi_fail(err, PS_RESOURCE_EXHAUSTED,
                            "%s: no room for a list of more than %u; the lists of waiting requests take %llu bytes of %llu (an "
                            "eighth of psd --memory_budget)",
                            t->name, *capacity, (unsigned long long)t->wait_list_bytes,
                            (unsigned long long)lists_most(t))); /* the caller sees NULL */
        return NULL;
    }
    t->wait_list_bytes += more;
    *capacity = want;
    return grown;
}

static void free_targets(struct psd_task *t, struct psd_wait *w)
{
    t->wait_list_bytes -= w->target_capacity * sizeof(*w->targets);
    psi_free(w->targets);
    w->targets = NULL;
    w->target_count = 0;
    w->target_capacity = 0;
}

static void free_creates(struct psd_task *t, struct psd_wait *w)
{
    for (uint32_t i = 0; i < w->create_count; i++) {
        t->wait_list_bytes -= w->creates[i].text == NULL ? 0 : strlen(w->creates[i].text) + 1;
        psi_free(w->creates[i].text);
    }
    t->wait_list_bytes -= w->create_capacity * sizeof(*w->creates);
    psi_free(w->creates);
    w->creates = NULL;
    w->create_count = 0;
    w->create_capacity = 0;
}

void psd_wait_refused(struct psd_task *t, struct psd_wait *w, const struct psi_err *err)
{
    w->err = *err;
    w->retry_after_ms = err->code == PS_RESOURCE_EXHAUSTED ? LISTS_RETRY_MS : 0;
    free_creates(t, w);
    psd_wait_done(t, w);
}

void psd_wait_free(struct psd_task *t, struct psd_wait *w)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, &t->peers[i].asks) {
            struct psd_ask *ask = PSI_CONTAINER_OF(it, struct psd_ask, link);
            ask->wait = ask->wait == w ? NULL : ask->wait;
        }
    }
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->resets) {
        struct psd_reset *reset = PSI_CONTAINER_OF(it, struct psd_reset, link);
        reset->wait = reset->wait == w ? NULL : reset->wait;
    }
    psd_call_forget(t, w);
    psi_list_remove(&w->open);
    psi_list_remove(&w->link);
    w->record->wait_count--;
    free_creates(t, w);
    free_targets(t, w);
    t->wait_list_bytes -= sizeof(*w);
    psi_free(w);
}

void psd_wait_done(struct psd_task *t, struct psd_wait *w)
{
    w->done = true;
    w->collecting = false;
    psi_list_remove(&w->open);
    free_targets(t, w);
    answer(t, w);
}

void psd_rpc_ack(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &c->record->waits) {
        struct psd_wait *w = PSI_CONTAINER_OF(it, struct psd_wait, link);
        if (w->id == r->header.id) {
            psd_wait_free(t, w); /* one that is not done is given up by this */
            return;
        }
    }
}

/* ---- conditions ---- */

static ps_status add_target(struct psd_task *t, struct psd_wait *w, const struct psd_target *target, struct psi_err *err)
{
    if (w->target_count == w->target_capacity) {
        struct psd_target *more = psd_wait_list_grow(t, w->targets, sizeof(*more), &w->target_capacity, err);
        if (more == NULL) {
            return PS_RESOURCE_EXHAUSTED;
        }
        w->targets = more;
    }
    w->targets[w->target_count++] = *target;
    return PS_OK;
}

static ps_status read_targets(struct psd_task *t, struct psd_wait *w, const struct psd_request *r, struct psi_err *err)
{
    const uint8_t *p = r->body;
    size_t n = r->body_bytes;
    for (;;) {
        struct psd_target target = {0};
        bool end = false;
        ps_status st = PS_OK;
        if (w->op == PS_OP_WAIT) {
            ps_v1_HandleItem item = ps_v1_HandleItem_init_zero;
            st = psi_list_next(&p, &n, &ps_v1_HandleItem_msg, &item, &end, err);
            target.handle = item.handle;
            target.creation = item.creation;
        } else {
            ps_v1_TaskItem item = ps_v1_TaskItem_init_zero;
            st = psi_list_next(&p, &n, &ps_v1_TaskItem_msg, &item, &end, err);
            if (st == PS_OK && !end) {
                st = psi_job_name_check((const char *)item.job.bytes, item.job.size, err);
                if (st == PS_OK) {
                    st = PSI_BYTES_TEXT(item.job, target.job, sizeof(target.job));
                }
            }
            target.task = item.task;
        }
        if (st != PS_OK || end) {
            return st;
        }
        st = add_target(t, w, &target, err);
        if (st != PS_OK) {
            return st;
        }
    }
}

static bool task_is_up(struct psd_task *t, const struct psd_target *target)
{
    const struct psd_peer *p = psd_peer_find(t, target->job, target->task);
    if (p != NULL && (p->self || p->listed)) {
        return true;
    }
    uint64_t cursor = 0;
    const char *key = NULL;
    size_t len = 0;
    void *value = NULL;
    while (psi_map_next(&t->records, &cursor, &key, &len, &value)) {
        const struct psd_record *r = value;
        if (r->task == target->task && r->lease_until_ms > t->now_ms && strcmp(r->job, target->job) == 0) {
            return true;
        }
    }
    return false;
}

enum verdict { FULFILLED, MISSING, GONE };

/* One target; name receives what to call it when it is missing or gone. */
static enum verdict judge(struct psd_task *t, const struct psd_wait *w, const struct psd_target *target, char *name, size_t n)
{
    if (w->op == PS_OP_WAIT_CLUSTER) {
        PSI_IGNORE(psi_task_name_format(name, n, target->job, target->task)); /* fits */
        return task_is_up(t, target) ? FULFILLED : MISSING;
    }
    const struct psd_variable *v = psd_variable_by_handle(&t->store, target->handle);
    if (v == NULL || v->creation != target->creation) {
        PSI_IGNORE(snprintf(name, n, "handle %u", target->handle)); /* fits */
        return GONE;
    }
    PSI_IGNORE(snprintf(name, n, "%s", v->name)); /* fits */
    return (w->condition == CONDITION_SEALED ? v->sealed : v->initialised) ? FULFILLED : MISSING;
}

bool psd_wait_misses(struct psd_task *t, const struct psd_wait *w, uint32_t i, char *name, size_t n)
{
    return judge(t, w, &w->targets[i], name, n) != FULFILLED;
}

bool psd_wait_for_seal(const struct psd_wait *w)
{
    return w->condition == CONDITION_SEALED;
}

static bool is_late(const struct psd_task *t, const struct psd_wait *w)
{
    return w->deadline_ms != 0 && t->now_ms >= w->deadline_ms;
}

/* The end of w, if it has come. Waits are looked at after each event, and what one misses is mostly what it missed before: it
 * begins there. Once something was dropped all targets are looked at: one that is gone ends the wait whatever else is missing. */
static void check_one(struct psd_task *t, struct psd_wait *w)
{
    char names[PSI_ERR_TEXT_MAX / 2] = "";
    size_t used = 0;
    uint32_t missing = 0;
    bool late = is_late(t, w);
    bool all = late || (w->op == PS_OP_WAIT && w->dropped != t->store.dropped);
    uint32_t start = all ? 0 : w->missing_at;
    w->dropped = t->store.dropped;
    for (uint32_t k = 0; k < w->target_count; k++) {
        char name[PS_NAME_BYTES_MAX + 1];
        uint32_t i = (start + k) % w->target_count;
        enum verdict v = judge(t, w, &w->targets[i], name, sizeof(name));
        if (v == GONE) {
            PSI_IGNORE(
                psi_fail(&w->err, PS_ABORTED, "%s at %s was reset or deleted while waiting", name, t->name)); /* answered below */
            psd_wait_done(t, w);
            return;
        }
        if (v == MISSING) {
            missing++;
            w->missing_at = i;
            if (!all) {
                return;
            }
            if (used + strlen(name) + 8 < sizeof(names)) {
                used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", used == 0 ? "" : ", ", name);
            }
        }
    }
    if (missing > 0 && !late) {
        return;
    }
    if (missing > 0) {
        PSI_IGNORE(psi_fail(&w->err, PS_DEADLINE_EXCEEDED, "%u of %u not %s at %s: %s", missing, w->target_count,
                            w->op == PS_OP_WAIT_CLUSTER        ? "up, as seen"
                            : w->condition == CONDITION_SEALED ? "made ready by a chief"
                                                               : "initialised",
                            t->name, names)); /* answered below */
    }
    psd_wait_done(t, w);
}

void psd_wait_check(struct psd_task *t)
{
    struct psi_list *it = NULL, *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &t->waits) {
        struct psd_wait *w = PSI_CONTAINER_OF(it, struct psd_wait, open);
        if (w->op == PS_OP_WAIT || w->op == PS_OP_WAIT_CLUSTER) {
            check_one(t, w);
        } else if (is_late(t, w) && w->op == PS_OP_RESET) {
            psd_reset_late(t, w);
        } else if (is_late(t, w)) {
            psd_create_late(t, w);
        }
    }
}

uint64_t psd_wait_deadline(const struct psd_task *t, uint64_t timeout_ms)
{
    return timeout_ms == 0 || timeout_ms > UINT32_MAX ? 0 : t->now_ms + timeout_ms;
}

ps_status psd_wait_meta(const struct psd_task *t, struct psd_wait *w, const struct psd_request *r, struct psi_err *err)
{
    ps_v1_Wait m;
    ps_status st = psi_msg_decode(&ps_v1_Wait_msg, &m, r->meta, r->header.meta_bytes, err);
    if (st == PS_OK && w->op == PS_OP_WAIT && m.condition != CONDITION_INITIALISED && m.condition != CONDITION_SEALED) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "WAIT for condition %u; known: 1 initialised, 2 sealed", m.condition);
    }
    if (st == PS_OK) {
        w->condition = (uint8_t)m.condition;
        w->deadline_ms = psd_wait_deadline(t, m.timeout_ms);
    }
    return st;
}

static void start(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    bool old = false;
    struct psd_wait *w = psd_wait_get(t, c, r, &old);
    if (w == NULL || old) {
        return;
    }
    struct psi_err err;
    if (psd_wait_meta(t, w, r, &err) != PS_OK || read_targets(t, w, r, &err) != PS_OK) {
        psd_wait_refused(t, w, &err);
        return;
    }
    if ((r->header.flags & PS_FLAG_MORE) != 0) {
        return;
    }
    w->collecting = false;
    w->dropped = t->store.dropped - 1; /* the first look is at all of them */
    psi_list_push_back(&t->waits, &w->open);
    check_one(t, w);
}

void psd_rpc_wait(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    start(t, c, r);
}

void psd_rpc_wait_cluster(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    start(t, c, r);
}

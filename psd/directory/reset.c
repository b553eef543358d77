/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RESET of a container on all tasks, led by the directory.
 *
 * Happy path: every task of the directory's job is connected -> the reset is pending -> RESET to all connected tasks -> all have
 * answered -> the directory forgets the container's names, the client is told. No creation in the container meanwhile.
 * Failure: a task is missing before it begins: UNAVAILABLE, nothing done. One that drops out midway: the reset stays pending
 * until that task lists again; RESET goes out before its list is answered. Its client is told DEADLINE_EXCEEDED, with the names
 * of those who have not answered, when the time that it gave is over; the reset goes on. A task of another job that was away for
 * more than a lease is not waited for: it is owed the RESET when it lists, and what it lists of that container is not taken in.
 */
#include "rounds.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <string.h>

enum { RETRY_MS = 100, KEPT_MAX = 1024 /* containers that some task is owed a RESET of */ };

/* The pending reset of this container; NULL when there is none. */
static struct psd_reset *find_pending(struct psd_task *t, const char *container)
{
    struct psd_reset *reset = psd_reset_record(&t->resets, container);
    return reset != NULL && reset->pending ? reset : NULL;
}

bool psd_reset_covers(struct psd_task *t, const struct psd_peer *peer, const char *container)
{
    const struct psd_reset *reset = psd_reset_record(&t->resets, container);
    return reset != NULL && (reset->pending || reset->owed[peer->index]);
}

/* What p has to do with it from now on. */
static void change_task(struct psd_task *t, const struct psd_peer *p, const struct psd_reset *reset, bool outstanding, bool owed)
{
    if (reset->outstanding[p->index] != outstanding || reset->owed[p->index] != owed) {
        struct psd_change c = {
            .kind = PSD_CHANGE_RESET_TASK,
            .reset = {.container = reset->container, .job = p->job, .task = p->task, .outstanding = outstanding, .owed = owed}};
        psd_commit(t, &c);
    }
}

static void send_reset(struct psd_task *t, struct psd_peer *p, struct psd_reset *reset)
{
    struct psd_ask *a = psi_calloc(1, sizeof(*a));
    if (a == NULL) {
        psd_conn_close(t, p->conn, false); /* it lists again and is asked again */
        return;
    }
    ps_v1_ContainerItem m = ps_v1_ContainerItem_init_zero;
    a->op = PS_OP_TASK_RESET;
    memcpy(a->container, reset->container, sizeof(a->container));
    psi_list_push_back(&p->asks, &a->link);
    PSI_IGNORE(PSI_BYTES_SET(m.container, reset->container)); /* fits: checked name */
    a->id = psd_ask_id(p->conn);
    psd_ask_one(t, p->conn, PS_OP_TASK_RESET, &ps_v1_ContainerItem_msg, &m);
}

static bool is_answered(const struct psd_task *t, const struct psd_reset *reset)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (reset->outstanding[i]) {
            return false;
        }
    }
    return true;
}

static void finish_if_done(struct psd_task *t, struct psd_reset *reset)
{
    if (!reset->pending || !is_answered(t, reset)) {
        return;
    }
    struct psi_list waiters;
    struct psd_change c = {.kind = PSD_CHANGE_RESET_END, .reset = {.container = reset->container}};
    psi_list_init(&waiters);
    psi_list_move_all(&waiters, &reset->waiters); /* its record may go */
    psd_commit(t, &c);
    psd_wait_over(t, &waiters);
}

void psd_reset_answered(struct psd_task *t, struct psd_peer *peer, const char *container)
{
    const struct psd_reset *reset = psd_reset_record(&t->resets, container);
    if (reset != NULL) {
        change_task(t, peer, reset, false, false);
    }
    struct psd_reset *left = psd_reset_record(&t->resets, container); /* it goes when all have done their part */
    if (left != NULL) {
        finish_if_done(t, left);
    }
}

void psd_reset_join(struct psd_task *t, struct psd_peer *peer)
{
    struct psi_list *it = NULL, *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &t->resets) {
        struct psd_reset *reset = PSI_CONTAINER_OF(it, struct psd_reset, link);
        bool misses = reset->pending || reset->owed[peer->index];
        change_task(t, peer, reset, reset->pending, reset->owed[peer->index]);
        if (misses && peer->conn != NULL) {
            send_reset(t, peer, reset);
        }
    }
}

static void add_name(const struct psd_task *t, struct psd_names *n, const struct psd_peer *p)
{
    char who[PS_ADDRESS_BYTES_MAX + PSI_TASK_NAME_MAX + 8];
    psd_names_add(n, "%s", psd_peer_text(t, p, who, sizeof(who)));
}

static void add_outstanding(const struct psd_task *t, struct psd_names *n, const struct psd_reset *reset)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (reset->outstanding[i]) {
            add_name(t, n, &t->peers[i]);
        }
    }
}

ps_status psd_reset_check(struct psd_task *t, const char *container, struct psi_err *err)
{
    const struct psd_reset *reset = find_pending(t, container);
    char buffer[PSI_ERR_TEXT_MAX / 2];
    struct psd_names missing = PSD_NAMES_IN(buffer);
    if (reset == NULL) {
        return PS_OK;
    }
    add_outstanding(t, &missing, reset);
    return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_RESET_PENDING, "container '%s' is being reset: no answer yet from %s",
                       container, psd_names_text(&missing));
}

/* Who must be here and is not. */
static ps_status check_present(const struct psd_task *t, struct psi_err *err)
{
    char buffer[PSI_ERR_TEXT_MAX / 2];
    struct psd_names missing = PSD_NAMES_IN(buffer);
    bool forgets = false; /* one of another job: only its memory stands in the way */
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        bool fresh_memory = p->heard && t->now_ms - p->missing_since_ms < t->config.lease_ms;
        if (!p->self && !p->listed && (p->own_job || fresh_memory)) {
            add_name(t, &missing, p);
            forgets = forgets || !p->own_job;
        }
    }
    if (missing.used > 0) {
        char hint[96] = "";
        if (forgets) {
            PSI_IGNORE(
                snprintf(hint, sizeof(hint), "; a task of another job that has ended is missed for %u ms", t->config.lease_ms));
        }
        return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_NOT_CONNECTED, "reset refused: not connected to the directory: %s%s",
                           psd_names_text(&missing), hint);
    }
    return PS_OK;
}

/* ---- as a wait ---- */

static void describe_reset(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out)
{
    char of_here[PSD_NAMES_HALF], of_away[PSD_NAMES_HALF];
    struct psd_names here = PSD_NAMES_IN(of_here), away = PSD_NAMES_IN(of_away);
    const struct psd_reset *reset = PSI_CONTAINER_OF(w->needs[0].of, struct psd_reset, waiters);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        if (reset->outstanding[i]) {
            psd_names_add(p->listed ? &here : &away, "/job:%s/task:%u", p->job, p->task);
        }
    }
    const char *waits = psd_names_text(&here), *lost = psd_names_text(&away);
    PSI_IGNORE(snprintf(out->what, sizeof(out->what), "empty: %s", reset->container)); /* fits */
    PSI_IGNORE(snprintf(out->release, sizeof(out->release), "%s%s%s%s%s", waits, waits[0] != '\0' ? " answers" : "",
                        waits[0] != '\0' && lost[0] != '\0' ? "; " : "", lost,
                        lost[0] != '\0' ? " connects and answers" : "")); /* cut is fine */
}

/* Its client is told so, the reset goes on. */
static void expire_reset(struct psd_task *t, struct psd_wait *w)
{
    const struct psd_reset *reset = PSI_CONTAINER_OF(w->needs[0].of, struct psd_reset, waiters);
    char buffer[PSI_ERR_TEXT_MAX / 2];
    struct psd_names missing = PSD_NAMES_IN(buffer);
    add_outstanding(t, &missing, reset);
    PSI_IGNORE(psi_fail_as(&w->err, PS_DEADLINE_EXCEEDED, PS_REASON_RESET_PENDING,
                           "reset of container '%s' goes on: no answer yet from %s", reset->container,
                           psd_names_text(&missing))); /* answered by the caller */
    w->err.applied = PS_MAYBE_PARTLY_APPLIED;
}

static const struct psd_wait_kind of_reset = {.describe = describe_reset, .expire = expire_reset};

/* May it begin? There may be the record of an older one that some task is still owed. */
static ps_status check_record(const struct psd_task *t, const char *container, struct psi_err *err)
{
    const struct psd_reset *reset = psd_reset_record(&t->resets, container);
    uint32_t kept = 0;
    struct psi_list *it = NULL;
    for (uint32_t i = 0; reset != NULL && i < t->peer_count; i++) {
        const struct psd_conn *conn = t->peers[i].conn;
        if (reset->pending || (reset->owed[i] && conn != NULL && conn->list != PSD_LIST_NONE)) {
            return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_RESET_PENDING, "another reset of container '%s' is pending",
                               container);
        }
    }
    PSI_LIST_FOREACH(it, &t->resets) {
        kept++;
    }
    if (reset == NULL && kept >= KEPT_MAX) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "reset of container '%s': there are %u resets that tasks still miss",
                        container, kept);
    }
    return PS_OK;
}

static ps_status begin(struct psd_task *t, struct psd_wait *w, const char *container, struct psi_err *err)
{
    struct psd_change c = {.kind = PSD_CHANGE_RESET, .reset = {.container = container}};
    ps_status st = check_present(t, err);
    if (st == PS_OK) {
        st = check_record(t, container, err);
    }
    struct psd_need *need = st == PS_OK ? psd_wait_need(t, w, err) : NULL;
    if (st == PS_OK) {
        st = need == NULL ? PS_RESOURCE_EXHAUSTED : psd_change_reserve(t, &c, err);
    }
    if (st != PS_OK) {
        return st;
    }
    psd_commit(t, &c);
    struct psd_reset *reset = find_pending(t, container);
    psd_wait_hang(w, need, &reset->waiters);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        struct psd_peer *p = &t->peers[i];
        change_task(t, p, reset, p->listed, reset->owed[i] || (!p->self && !p->listed));
        if (p->listed) {
            send_reset(t, p, reset);
        }
    }
    psd_groups_reset(t, container);
    psd_reset_here(t, container);
    finish_if_done(t, reset);
    return PS_OK;
}

void psd_rpc_reset(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    bool old = false;
    struct psd_wait *w = psd_wait_get(t, c, r, &of_reset, &old);
    if (w == NULL || old) {
        return;
    }
    const uint8_t *p = r->body;
    size_t n = r->body_bytes;
    ps_v1_ContainerItem item;
    char container[PS_CONTAINER_BYTES_MAX + 1];
    bool end = false;
    struct psi_err err;
    ps_status st = psd_wait_meta(t, w, r, &err);
    if (st == PS_OK) {
        st = psi_list_next(&p, &n, &ps_v1_ContainerItem_msg, &item, &end, &err);
    }
    if (st == PS_OK) {
        item.container.size = end ? 0 : item.container.size;
        st = psd_container_parse((const pb_bytes_array_t *)(const void *)&item.container, container, &err);
    }
    if (st == PS_OK) {
        st = begin(t, w, container, &err);
    }
    if (st != PS_OK) {
        psd_wait_refused(t, w, &err, st == PS_UNAVAILABLE ? RETRY_MS : 0);
    } else {
        psd_wait_open(t, w);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory's requests: CREATE, FIND, DELETE, CHIEF.
 *
 * Happy path of CREATE: the name is recorded (name -> task), then the owner is asked, and the client gets the owner's own answer.
 * Failure: an owner that is not connected, lists that are missing or a reset that is pending: UNAVAILABLE, nothing recorded, the
 * library repeats. When the connection drops before the owner answered: UNAVAILABLE too, but the name stays where it is. An owner
 * that has not answered when the time is over that the client gave: DEADLINE_EXCEEDED, which names it; what it was asked for goes
 * on.
 */
#include "psd/rpc/rpc.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <string.h>

enum { RETRY_MS = 50 };

static void item_end(struct psd_task *t, struct psd_wait *w, struct psd_create *item, const struct psi_err *err)
{
    if (item->done) {
        return;
    }
    item->done = true;
    item->status = err == NULL ? PS_OK : err->code;
    if (err != NULL) {
        psd_wait_item_text(t, item, err->text);
        item->retry_after_ms = err->code == PS_UNAVAILABLE ? RETRY_MS : 0;
    }
    if (--w->creates_left == 0) {
        psd_wait_done(t, w);
    }
}

/* Tasks of the directory's job whose list has not come in since this directory began. */
static bool lists_missing(const struct psd_task *t, char *names, size_t n)
{
    size_t used = 0;
    names[0] = '\0';
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        if (p->own_job && !p->self && !p->heard && used + 2 * PSI_TASK_NAME_MAX < n) {
            char one[PSI_TASK_NAME_MAX];
            used += (size_t)snprintf(names + used, n - used, "%s%s", used == 0 ? "" : ", ",
                                     psi_task_name_format(one, sizeof(one), p->job, p->task));
        }
    }
    return used > 0;
}

static ps_status choose_owner(const struct psd_task *t, const struct psd_create *item, struct psi_err *err)
{
    char names[PSI_ERR_TEXT_MAX / 2];
    if (lists_missing(t, names, sizeof(names))) {
        return psi_fail(err, PS_UNAVAILABLE, "the directory waits for %s: variable '%s' may be there", names, item->name);
    }
    const struct psd_peer *p = &t->peers[item->requested];
    if (!p->own_job && !item->pinned) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "variable '%s': /job:%s/task:%u takes what is pinned to it only", item->name,
                        p->job, p->task);
    }
    return PS_OK;
}

static ps_status owner_up(const struct psd_task *t, const struct psd_peer *p, const char *name, struct psi_err *err)
{
    char who[PS_ADDRESS_BYTES_MAX + PSI_TASK_NAME_MAX + 8];
    if (p->self || p->listed) {
        return PS_OK;
    }
    psd_peer_text(t, p, who, sizeof(who));
    if (psi_job_trains(p->job)) { /* short: clients keep little of it */
        return psi_fail(err, PS_UNAVAILABLE, "%s does not serve: start it with pstrain --serve or psd to hold '%s'", who, name);
    }
    return psi_fail(err, PS_UNAVAILABLE, "%s, where variable '%s' belongs, is not connected to the directory", who, name);
}

void psd_name_forget(struct psd_task *t, const struct psd_name *n)
{
    struct psd_change c = {.kind = PSD_CHANGE_NAME_FORGET, .name = {.container = n->container, .name = n->name}};
    psd_commit(t, &c);
}

ps_status psd_name_record(struct psd_task *t, const struct psd_create *item, const struct psd_peer *owner, struct psi_err *err)
{
    struct psd_change c = {.kind = PSD_CHANGE_NAME,
                           .name = {.container = item->container,
                                    .name = item->name,
                                    .definition = &item->definition,
                                    .job = owner->job,
                                    .task = owner->task}};
    ps_status st = psd_change_reserve(t, &c, err);
    if (st == PS_OK) {
        psd_commit(t, &c);
    }
    return st;
}

/* Find the name or record it; on PS_OK item->owner says where. */
static ps_status place(struct psd_task *t, struct psd_create *item, struct psi_err *err)
{
    ps_status st = psd_reset_check(t, item->container, err);
    if (st != PS_OK) {
        return st;
    }
    const struct psd_name *n = psd_directory_find(&t->names, item->container, item->name);
    if (n == NULL) {
        st = choose_owner(t, item, err);
        if (st == PS_OK) {
            st = owner_up(t, &t->peers[item->requested], item->name, err);
        }
        if (st == PS_OK) {
            st = psd_name_record(t, item, &t->peers[item->requested], err);
        }
        item->owner = item->requested;
        return st;
    }
    const struct psd_peer *owner = &t->peers[n->owner];
    char where[PSI_TASK_NAME_MAX], asked[PSI_TASK_NAME_MAX];
    PSI_IGNORE(psi_task_name_format(where, sizeof(where), owner->job, owner->task)); /* fits */
    st = psd_definition_compare(&n->definition, where, &item->definition, item->name, err);
    if (st == PS_OK && item->pinned && n->owner != item->requested) {
        const struct psd_peer *p = &t->peers[item->requested];
        st = psi_fail(err, PS_INVALID_ARGUMENT, "variable '%s' is at %s; it cannot be pinned to %s as well", item->name, where,
                      psi_task_name_format(asked, sizeof(asked), p->job, p->task));
    }
    item->owner = n->owner;
    return st == PS_OK ? owner_up(t, owner, item->name, err) : st;
}

/* Ask the owner; NULL wait_item fields are the caller's. Closes the connection when there is no memory for it. */
static bool ask(struct psd_task *t, struct psd_peer *p, uint8_t op, struct psd_wait *w, uint32_t index,
                const struct psd_create *item)
{
    struct psd_ask *a = psi_calloc(1, sizeof(*a));
    if (a == NULL) {
        return false;
    }
    a->op = op;
    a->id = psd_ask_id(p->conn);
    a->wait = w;
    a->item = index;
    memcpy(a->container, item->container, sizeof(a->container));
    memcpy(a->name, item->name, sizeof(a->name));
    psi_list_push_back(&p->asks, &a->link);
    if (op == PS_OP_TASK_CREATE) {
        ps_v1_CreateItem m;
        psd_create_to_msg(item, &m);
        psd_ask_one(t, p->conn, op, &ps_v1_CreateItem_msg, &m);
    } else {
        ps_v1_NameItem m = ps_v1_NameItem_init_zero;
        PSI_IGNORE(PSI_BYTES_SET(m.container, item->container)); /* fits: checked names */
        PSI_IGNORE(PSI_BYTES_SET(m.name, item->name));           /* likewise */
        psd_ask_one(t, p->conn, op, &ps_v1_NameItem_msg, &m);
    }
    return true;
}

/* Record first, then create: what a client is told is the owner's own answer. */
static void create_item(struct psd_task *t, struct psd_wait *w, uint32_t index)
{
    struct psd_create *item = &w->creates[index];
    struct psi_err err;
    if (place(t, item, &err) != PS_OK) {
        item_end(t, w, item, &err);
        return;
    }
    struct psd_peer *p = &t->peers[item->owner];
    const struct psd_name *n = psd_directory_find(&t->names, item->container, item->name);
    if (!p->self) {
        psd_name_asked(n,
                       p->life); /* should another process take its place before it answers, it may come back with what it made */
        if (!ask(t, p, PS_OP_TASK_CREATE, w, index, item)) {
            PSI_IGNORE(
                psi_fail(&err, PS_RESOURCE_EXHAUSTED, "directory: no memory to ask for variable '%s'", item->name)); /* below */
            item_end(t, w, item, &err);
        }
        return;
    }
    ps_status st = psd_create_here(t, item->container, item->name, &item->definition, &item->created, &err);
    if (st == PS_OK) {
        psd_name_confirm(n, p->life);
    } else if (!n->sure) {
        psd_name_forget(t, n);
    }
    item_end(t, w, item, st == PS_OK ? NULL : &err);
}

void psd_create_answered(struct psd_task *t, struct psd_peer *peer, struct psd_ask *a, bool created, const struct psi_err *err)
{
    const struct psd_name *n = psd_directory_find(&t->names, a->container, a->name);
    if (n != NULL && n->owner == peer->index) {
        if (err == NULL) {
            psd_name_confirm(n, peer->life);
        } else if (!n->sure && err->code != PS_UNAVAILABLE) {
            psd_name_forget(t, n); /* the owner's own refusal */
        }
    }
    if (a->wait != NULL) {
        struct psd_create *item = &a->wait->creates[a->item];
        item->created = created;
        item_end(t, a->wait, item, err);
    }
}

/* ---- CREATE ---- */

static struct psd_create *item_new(struct psd_task *t, struct psd_wait *w, struct psi_err *err)
{
    if (w->create_count == w->create_capacity) {
        struct psd_create *more = psd_wait_list_grow(t, w->creates, sizeof(*more), &w->create_capacity, err);
        if (more == NULL) {
            return NULL;
        }
        w->creates = more;
    }
    struct psd_create *item = &w->creates[w->create_count++];
    memset(item, 0, sizeof(*item));
    return item;
}

static ps_status requested_task(struct psd_task *t, const ps_v1_CreateItem *m, struct psd_create *item, struct psi_err *err)
{
    char job[PS_JOB_BYTES_MAX + 1];
    ps_status st = PSI_BYTES_TEXT(m->job, job, sizeof(job));
    const struct psd_peer *p = st == PS_OK ? psd_peer_find(t, job, m->task) : NULL;
    if (p == NULL) {
        char quoted[PSI_QUOTE_MAX];
        return psi_fail(err, PS_INVALID_ARGUMENT, "variable '%s': there is no /job:%s/task:%u in cluster '%s'", item->name,
                        psi_quote(quoted, sizeof(quoted), (const char *)m->job.bytes, m->job.size), m->task, t->cluster.name);
    }
    item->requested = p->index;
    return PS_OK;
}

/* A bad item is answered by itself; a bad list fails the request. */
static ps_status read_items(struct psd_task *t, struct psd_wait *w, const struct psd_request *r, struct psi_err *err)
{
    const uint8_t *p = r->body;
    size_t n = r->body_bytes;
    for (;;) {
        ps_v1_CreateItem m;
        bool end = false;
        ps_status st = psi_list_next(&p, &n, &ps_v1_CreateItem_msg, &m, &end, err);
        if (st != PS_OK || end) {
            return st;
        }
        struct psd_create *item = item_new(t, w, err);
        if (item == NULL) {
            return PS_RESOURCE_EXHAUSTED;
        }
        struct psi_err own;
        st = psd_create_parse(&m, item, &own);
        if (st == PS_OK) {
            st = requested_task(t, &m, item, &own);
        }
        if (st != PS_OK) {
            item->done = true;
            item->status = st;
            psd_wait_item_text(t, item, own.text);
        }
    }
}

void psd_rpc_create(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    bool old = false;
    struct psd_wait *w = psd_wait_get(t, c, r, &old);
    if (w == NULL || old) {
        return;
    }
    struct psi_err err;
    if (psd_wait_meta(t, w, r, &err) != PS_OK || read_items(t, w, r, &err) != PS_OK) {
        psd_wait_refused(t, w, &err);
        return;
    }
    if ((r->header.flags & PS_FLAG_MORE) != 0) {
        return;
    }
    w->collecting = false;
    psi_list_push_back(&t->waits, &w->open);
    w->creates_left = 1; /* ours: the request is not done while we walk */
    uint32_t count = w->create_count;
    for (uint32_t i = 0; i < count; i++) {
        w->creates_left += !w->creates[i].done;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!w->creates[i].done) {
            create_item(t, w, i);
        }
    }
    if (--w->creates_left == 0) {
        psd_wait_done(t, w);
    }
}

void psd_create_late(struct psd_task *t, struct psd_wait *w)
{
    char who[PS_ADDRESS_BYTES_MAX + PSI_TASK_NAME_MAX + 8];
    struct psi_err err;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, &t->peers[i].asks) {
            struct psd_ask *a = PSI_CONTAINER_OF(it, struct psd_ask, link);
            if (a->wait != w) {
                continue;
            }
            a->wait = NULL; /* its answer is only recorded */
            PSI_IGNORE(psi_fail(&err, PS_DEADLINE_EXCEEDED, "%s has not answered for variable '%s'",
                                psd_peer_text(t, &t->peers[i], who, sizeof(who)), a->name)); /* told below */
            if (w->op == PS_OP_CREATE) {
                item_end(t, w, &w->creates[a->item], &err);
            } else {
                err.applied = PS_OUTCOME_UNKNOWN;
                w->err = err;
                psd_wait_done(t, w);
            }
        }
    }
    PSI_ASSERT(w->done); /* it waited for owners only */
}

/* ---- FIND, DELETE, CHIEF ---- */

static void find_one(const struct psd_task *t, const ps_v1_NameItem *item, ps_v1_CreateAnswer *a)
{
    char container[PS_CONTAINER_BYTES_MAX + 1], name[PS_NAME_BYTES_MAX + 1], missing[PSI_ERR_TEXT_MAX / 2];
    struct psi_err err;
    ps_status st = psd_name_parse(item, container, name, &err);
    const struct psd_name *n = st == PS_OK ? psd_directory_find(&t->names, container, name) : NULL;
    if (n != NULL) {
        a->task = t->peers[n->owner].task;
        PSI_IGNORE(PSI_BYTES_SET(a->job, t->peers[n->owner].job)); /* fits: checked name */
        return;
    }
    if (st == PS_OK && lists_missing(t, missing, sizeof(missing))) {
        st = psi_fail(&err, PS_UNAVAILABLE, "the directory waits for %s: variable '%s' may be there", missing, name);
        a->retry_after_ms = RETRY_MS;
    } else if (st == PS_OK) {
        st = psi_fail(&err, PS_NOT_FOUND, "there is no variable '%s' in container '%s'", name, container);
    }
    a->status = (uint32_t)st;
    PSI_IGNORE(PSI_BYTES_SET(a->text, err.text)); /* cut is fine */
}

void psd_rpc_find(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    const uint8_t *p = r->body;
    size_t n = r->body_bytes;
    struct psi_err err;
    struct psd_list l;
    psd_list_begin(&l, t, c, PS_OP_FIND, PS_FLAG_REPLY, r->header.id);
    for (uint32_t index = 1;; index++) {
        ps_v1_NameItem item;
        bool end = false;
        if (psi_list_next(&p, &n, &ps_v1_NameItem_msg, &item, &end, &err) != PS_OK) {
            psi_buf_fini(&l.buf);
            psd_reply(t, c, PS_OP_FIND, 0, r->header.id, 0, &err, 0, NULL, NULL);
            return;
        }
        if (end) {
            break;
        }
        ps_v1_CreateAnswer a = ps_v1_CreateAnswer_init_zero;
        a.index = index;
        find_one(t, &item, &a);
        psd_list_add(&l, &ps_v1_CreateAnswer_msg, &a);
    }
    psd_list_end(&l);
}

/* On PS_OK the request is answered, now or by the owner. */
static ps_status delete_one(struct psd_task *t, struct psd_wait *w, const ps_v1_NameItem *m, struct psi_err *err)
{
    struct psd_create item = {0};
    ps_status st = psd_name_parse(m, item.container, item.name, err);
    st = st == PS_OK ? psd_reset_check(t, item.container, err) : st;
    if (st != PS_OK) {
        return st;
    }
    const struct psd_name *n = psd_directory_find(&t->names, item.container, item.name);
    if (n == NULL) {
        return psi_fail(err, PS_NOT_FOUND, "there is no variable '%s' in container '%s'", item.name, item.container);
    }
    struct psd_peer *p = &t->peers[n->owner];
    st = owner_up(t, p, item.name, err);
    if (st != PS_OK) {
        return st;
    }
    if (!p->self) {
        psi_list_push_back(&t->waits, &w->open);
        return ask(t, p, PS_OP_TASK_DELETE, w, 0, &item) ? PS_OK : psi_fail(err, PS_RESOURCE_EXHAUSTED, "delete: memory");
    }
    const struct psd_variable *v = psd_variable_find(psd_container_find(&t->store, item.container), item.name);
    if (v != NULL) {
        psd_drop_here(t, v);
    }
    psd_name_forget(t, n);
    psd_wait_done(t, w);
    psd_wait_check(t);
    return PS_OK;
}

void psd_rpc_delete(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    bool old = false;
    struct psd_wait *w = psd_wait_get(t, c, r, &old);
    if (w == NULL || old) {
        return;
    }
    const uint8_t *p = r->body;
    size_t n = r->body_bytes;
    ps_v1_NameItem item;
    bool end = false;
    struct psi_err err;
    ps_status st = psd_wait_meta(t, w, r, &err);
    st = st == PS_OK ? psi_list_next(&p, &n, &ps_v1_NameItem_msg, &item, &end, &err) : st;
    if (st == PS_OK && end) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "DELETE names no variable");
    }
    w->collecting = false;
    if (st == PS_OK) {
        st = delete_one(t, w, &item, &err);
    }
    if (st != PS_OK) {
        w->err = err;
        w->retry_after_ms = st == PS_UNAVAILABLE ? RETRY_MS : 0;
        psd_wait_done(t, w);
    }
}

/* A creation of the name that goes away was asked for after that: the owner does both, in this order. */
static bool made_again(const struct psd_peer *owner, const struct psd_ask *gone)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &owner->asks) {
        const struct psd_ask *a = PSI_CONTAINER_OF(it, struct psd_ask, link);
        if (a->op == PS_OP_TASK_CREATE && strcmp(a->container, gone->container) == 0 && strcmp(a->name, gone->name) == 0) {
            return true;
        }
    }
    return false;
}

void psd_delete_answered(struct psd_task *t, const struct psd_peer *peer, struct psd_ask *a, const struct psi_err *err)
{
    const struct psd_name *n = err == NULL ? psd_directory_find(&t->names, a->container, a->name) : NULL;
    if (n != NULL && made_again(peer, a)) {
        psd_name_unsure(n, peer->life); /* its owner goes on to make it anew */
    } else if (n != NULL) {
        psd_name_forget(t, n);
    }
    if (a->wait != NULL) {
        if (err != NULL) {
            a->wait->err = *err;
        }
        psd_wait_done(t, a->wait);
    }
}

void psd_rpc_chief(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psd_change change = {.kind = PSD_CHANGE_CHIEF,
                                .chief = {.record = c->record, .number = t->chief_number + 1, .text = c->text}};
    psd_commit(t, &change);
    psd_log(t, PSI_LOG_INFO, "chief", "peer=%s number=%llu", c->text, (unsigned long long)t->chief_number);
    ps_v1_ChiefAnswer a = {.number = t->chief_number};
    struct psd_list l;
    psd_list_begin(&l, t, c, PS_OP_CHIEF, PS_FLAG_REPLY, r->header.id);
    psd_list_add(&l, &ps_v1_ChiefAnswer_msg, &a);
    psd_list_end(&l);
}

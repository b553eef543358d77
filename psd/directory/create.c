/* SPDX-License-Identifier: Apache-2.0 */
/* The directory's requests: CREATE, FIND, DELETE.
 *
 * Happy path of CREATE: the name and its owner are recorded, the owner is asked, and the client gets the owner's answer. FIND
 * answers from the names alone. DELETE asks the owners, and forgets the name when they have answered. Failure of CREATE:
 * - The owner is not connected, a list is missing, or a reset is pending: UNAVAILABLE, no name is recorded; clients try again.
 * - The owner's connection drops before its answer: UNAVAILABLE, but the name stays recorded.
 * - The client's time is over: DEADLINE_EXCEEDED, whose text names the owner; the creation goes on.
 * - The owner refuses, other than by UNAVAILABLE: the name is forgotten, unless the owner is known to have the variable. */
#include "directory.h"

#include "psd/checkpoint/beside.h"
#include "psd/checkpoint/loader.h"
#include "psd/rounds/groups.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <string.h>

enum { RETRY_MS = 50, LISTS_RETRY_MS = 100 };

static void item_end(struct psd_task *t, struct psd_wait *w, struct psd_create *item, const struct psi_err *err)
{
    item->done = true;
    item->status = PS_OK;
    if (err != NULL) {
        psd_wait_item_refused(t, w, item, err);
        item->retry_after_ms = err->code == PS_UNAVAILABLE ? RETRY_MS : 0;
    }
}

static ps_status choose_owner(const struct psd_task *t, const struct psd_create *item, struct psi_err *err)
{
    char buffer[PSI_ERR_TEXT_MAX / 2];
    struct psd_names missing = PSD_NAMES_IN(buffer);
    if (psd_lists_missing(t, &missing)) {
        return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_NOT_CONNECTED, "the directory waits for %s: variable '%s' may be there",
                           psd_names_text(&missing), item->name);
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
    if (p->listed) {
        return PS_OK;
    }
    psd_peer_text(t, p, who, sizeof(who));
    if (psi_job_trains(p->job)) { /* the text is short, because clients may show only its beginning */
        return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_NOT_CONNECTED,
                           "%s does not serve: start it with pstrain --serve or psd to hold '%s'", who, name);
    }
    return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_NOT_CONNECTED,
                       "%s, where variable '%s' belongs, is not connected to the directory", who, name);
}

static void forget_name(struct psd_task *t, const struct psd_name *n)
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
    if (st == PS_OK && psi_container_is_session(item->container)) {
        psd_names_keyed(&t->names, item->container, item->key, psd_own_lives(t, item->container, item->key));
    }
    return st;
}

static ps_status room_for_name(struct psd_task *t, const struct psd_create *item, struct psi_err *err)
{
    const uint64_t bytes = psd_name_bytes(&t->names, item->container, item->name, &item->definition);
    return psd_room(t, PSD_ROOM_MEMORY, bytes) ? PS_OK
                                               : psd_store_full(&t->store, "the directory's record of", item->name, bytes, err);
}

/* Check that the owner can hold a part of a variable. UNIMPLEMENTED: its psd is too old, and would make a whole variable. */
static ps_status knows_parts(const struct psd_peer *owner, const struct psd_create *item, struct psi_err *err)
{
    return item->definition.part.count == 0 || (owner->features & PS_FEATURE_PARTS) != 0
               ? PS_OK
               : psi_fail_as(err, PS_UNIMPLEMENTED, PS_REASON_FEATURE,
                             "variable '%s': /job:%s/task:%u is of a release without partitioned variables; upgrade it",
                             item->name, owner->job, owner->task);
}

/* Find the owner of item's name. If it has none, choose one, unless `looks`, and record the name. PS_OK: item->owner is set. */
static ps_status place(struct psd_task *t, struct psd_create *item, bool looks, struct psi_err *err)
{
    ps_status st = psd_reset_check(t, item->container, err);
    st = st == PS_OK ? psd_peers_begun(t, err) : st;
    st = st == PS_OK ? psd_own_create_check(t, item, err) : st;
    if (st != PS_OK) {
        return st;
    }
    const struct psd_name *n = psd_directory_find(&t->names, item->container, item->name);
    if (n == NULL) {
        st = choose_owner(t, item, err);
        if (st == PS_OK) {
            st = owner_up(t, &t->peers[item->requested], item->name, err);
        }
        st = st == PS_OK ? psd_own_owner_check(&t->peers[item->requested], item, err) : st;
        st = st == PS_OK ? knows_parts(&t->peers[item->requested], item, err) : st;
        st = st == PS_OK ? psd_parts_whole_check(t, item, err) : st;
        if (st == PS_OK) {
            st = room_for_name(t, item, err);
        }
        if (st == PS_OK && !looks) {
            st = psd_name_record(t, item, &t->peers[item->requested], err);
        }
        item->owner = item->requested;
        return st;
    }
    const struct psd_peer *owner = &t->peers[n->owner];
    char where[PSI_TASK_NAME_MAX], asked[PSI_TASK_NAME_MAX];
    PSI_IGNORE(psi_task_name_format(where, sizeof(where), owner->job, owner->task)); /* fits */
    const struct psd_definition definition = psd_name_definition(n);
    st = psd_definition_compare(&definition, where, &item->definition, item->name, err);
    if (st == PS_OK && item->pinned && n->owner != item->requested) {
        const struct psd_peer *p = &t->peers[item->requested];
        st =
            psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_CONFLICT, "variable '%s' is at %s; it cannot be pinned to %s as well",
                        item->name, where, psi_task_name_format(asked, sizeof(asked), p->job, p->task));
    }
    item->owner = n->owner;
    return st == PS_OK ? owner_up(t, owner, item->name, err) : st;
}

void psd_create_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l)
{
    ps_v1_CreateItem m;
    (void)t, (void)p;
    psd_create_to_msg(o->what, &m);
    psd_list_add(l, &ps_v1_CreateItem_msg, &m);
}

void psd_delete_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l)
{
    ps_v1_NameItem m = ps_v1_NameItem_init_zero;
    (void)t, (void)p;
    PSI_IGNORE(PSI_BYTES_SET(m.container, o->container)); /* fits: checked names */
    PSI_IGNORE(PSI_BYTES_SET(m.name, o->name));           /* fits: checked names */
    psd_list_add(l, &ps_v1_NameItem_msg, &m);
}

/* Send an order to the owner p; its answer meets need i of the waiting request w. */
static ps_status order_owner(struct psd_task *t, struct psd_peer *p, uint8_t op, struct psd_wait *w, uint32_t i,
                             const struct psd_create *item, struct psi_err *err)
{
    struct psd_ask *a =
        psd_order(t, p, &(struct psd_order){.op = op, .container = item->container, .name = item->name, .what = item});
    if (a == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "directory: no memory to ask for variable '%s'", item->name);
    }
    a->item = i;
    psd_wait_hang(w, &w->needs[i], &a->waiters);
    return PS_OK;
}

static ps_status create_item(struct psd_task *t, struct psd_wait *w, uint32_t i, struct psi_err *err)
{
    struct psd_create *item = &w->creates[i];
    ps_status st = place(t, item, false, err);
    if (st != PS_OK) {
        return st;
    }
    struct psd_peer *p = &t->peers[item->owner];
    const struct psd_name *n = psd_directory_find(&t->names, item->container, item->name);
    /* if this process of the owner has not listed the variable, the variable counts as new, and gets the next number */
    if (n->life != p->life) {
        t->next_order = t->next_order > t->store.next_order ? t->next_order : t->store.next_order;
        item->order = t->next_order++;
    }
    /* note which process gets the order: it may create the variable, be displaced before it answers, and come back later */
    psd_name_asked(n, p->life);
    return order_owner(t, p, PS_OP_TASK_CREATE, w, i, item, err);
}

/* Call when the owner has answered `made`, a TASK_CREATE. Marks TASK_DELETEs of the name that were sent before: the owner carried
 * them out earlier, so their answers must not remove the name. */
static void note_made(const struct psd_peer *owner, const struct psd_ask *made)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &owner->asks) {
        struct psd_ask *a = PSI_CONTAINER_OF(it, struct psd_ask, link);
        if (a->id >= made->id) {
            break; /* this is `made` itself, and all that follow were sent later */
        }
        if (a->op == PS_OP_TASK_DELETE && strcmp(a->container, made->container) == 0 && strcmp(a->name, made->name) == 0) {
            a->made_again = true;
        }
    }
}

void psd_create_answered(struct psd_task *t, struct psd_peer *peer, struct psd_ask *a, const struct psd_request *r,
                         const struct psi_err *err)
{
    const size_t fixed = sizeof(struct ps_reply_meta);
    const struct psd_name *n = psd_directory_find(&t->names, a->container, a->name);
    if (n != NULL && n->owner == peer->index) {
        if (err == NULL) {
            psd_name_confirm(n, peer->life);
            if (!psi_container_is_session(n->container)) {
                psd_loader_made(t, peer, n->container);
            }
            note_made(peer, a);
        } else if (!n->sure && err->code != PS_UNAVAILABLE) {
            forget_name(t, n); /* the owner refused, so it has no such variable */
        }
    }
    struct psd_wait *w = psd_wait_first(&a->waiters);
    if (w != NULL) {
        w->creates[a->item].created = err == NULL && r->header.meta_bytes > fixed && r->meta[fixed] == 1;
        item_end(t, w, &w->creates[a->item], err);
    }
    psd_wait_over(t, &a->waiters);
}

/* Find the order whose answer need n waits for. NULL: it was answered. */
static const struct psd_ask *order_of(const struct psd_need *n)
{
    return n->met ? NULL : PSI_CONTAINER_OF(n->of, struct psd_ask, waiters);
}

static void describe_asks(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out)
{
    char of_variables[PSD_NAMES_HALF], of_owners[PSD_NAMES_HALF];
    struct psd_names variables = PSD_NAMES_IN(of_variables), owners = PSD_NAMES_IN(of_owners);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        bool asked = false;
        for (uint32_t k = 0; k < w->need_count; k++) {
            const struct psd_ask *a = order_of(&w->needs[k]);
            if (a != NULL && a->owner == i) {
                psd_names_add(&variables, "%s", a->name);
                asked = true;
            }
        }
        if (asked) {
            psd_names_add(&owners, "/job:%s/task:%u", t->peers[i].job, t->peers[i].task);
        }
    }
    PSI_IGNORE(snprintf(out->what, sizeof(out->what), "%s: %s", w->op == PS_OP_CREATE ? "created" : "deleted",
                        psd_names_text(&variables)));                                                /* cut is fine */
    PSI_IGNORE(snprintf(out->release, sizeof(out->release), "%s answers", psd_names_text(&owners))); /* cut is fine */
}

/* Called when the client's timeout is over; the orders go on. CREATE: each item without an answer gets an error that names its
 * owner. DELETE: the whole request gets an error, outcome unknown, which names the last owner without an answer. */
static void expire_asks(struct psd_task *t, struct psd_wait *w)
{
    char who[PS_ADDRESS_BYTES_MAX + PSI_TASK_NAME_MAX + 8];
    struct psi_err err;
    for (uint32_t i = 0; i < w->need_count; i++) {
        const struct psd_ask *a = order_of(&w->needs[i]);
        if (a == NULL) {
            continue;
        }
        PSI_IGNORE(psi_fail(&err, PS_DEADLINE_EXCEEDED, "%s has not answered for variable '%s'",
                            psd_peer_text(t, &t->peers[a->owner], who, sizeof(who)), a->name));
        if (w->op == PS_OP_CREATE) {
            item_end(t, w, &w->creates[i], &err);
        } else {
            err.applied = PS_OUTCOME_UNKNOWN;
            w->err = err;
        }
    }
}

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
        /* the owner is known: it has the variable, or has not answered yet */
        if (item->status == PS_OK || item->status == PS_DEADLINE_EXCEEDED) {
            a.task = t->peers[item->owner].task;
            PSI_IGNORE(PSI_BYTES_SET(a.job, t->peers[item->owner].job)); /* fits: checked name */
        }
        if (item->status != PS_OK) {
            a.reason = (uint32_t)item->reason;
            PSI_IGNORE(PSI_BYTES_SET(a.text, item->text == NULL ? "refused" : item->text)); /* cut is fine */
        }
        psd_list_add(&l, &ps_v1_CreateAnswer_msg, &a);
    }
    psd_list_end(&l);
}

static const struct psd_wait_kind of_creates = {.describe = describe_asks, .expire = expire_asks, .answer = send_creates};
static const struct psd_wait_kind of_delete = {.describe = describe_asks, .expire = expire_asks};

static struct psd_create *item_new(struct psd_task *t, struct psd_wait *w, struct psi_err *err)
{
    if (w->create_count == w->create_capacity) {
        struct psd_create *more = psd_wait_list_grow(t, w, w->creates, sizeof(*more), &w->create_capacity, err);
        if (more == NULL) {
            return NULL;
        }
        w->creates = more;
    }
    if (psd_wait_need(t, w, err) == NULL) {
        return NULL;
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

/* Read the items of a CREATE. A wrong item is refused alone; if the body cannot be parsed, the whole request fails. */
static ps_status read_items(struct psd_task *t, struct psd_wait *w, const struct psd_request *r, struct psi_err *err)
{
    struct psi_items items = psd_items_of(r);
    ps_v1_CreateItem m;
    while (psi_items_next(&items, &ps_v1_CreateItem_msg, &m, err)) {
        struct psd_create *item = item_new(t, w, err);
        if (item == NULL) {
            return PS_RESOURCE_EXHAUSTED;
        }
        struct psi_err own;
        ps_status st = psd_create_parse(&m, item, &own);
        item->order = 0; /* only the directory gives numbers */
        psd_wait_take(t, w, item->queue == NULL ? 0 : sizeof(*item->queue));
        if (st == PS_OK) {
            st = requested_task(t, &m, item, &own);
        }
        if (st != PS_OK) {
            item_end(t, w, item, &own);
        }
    }
    return items.st;
}

/* If a part of a variable is missing or refused, refuse all its parts, so that none is recorded. first: index of the first part;
 * an item that is a whole variable stays as it is. Returns how many items belong to the variable. */
static uint32_t refuse_together(struct psd_task *t, struct psd_wait *w, uint32_t first)
{
    struct psd_create *items = &w->creates[first];
    struct psi_err err = {0};
    uint32_t parts = 0;
    const uint32_t span = psd_parts_span(items, w->create_count - first, &parts);
    if (parts == 0) {
        return 1;
    }
    ps_status st = psd_parts_complete(items, span, &err);
    for (uint32_t i = 0; i < span && st == PS_OK; i++) {
        st = items[i].done ? items[i].status : place(t, &items[i], true, &err);
        if (st != PS_OK && items[i].done) {
            st = psi_fail_as(&err, st, items[i].reason, "another part is refused: %s",
                             items[i].text != NULL ? items[i].text : "refused");
        }
    }
    for (uint32_t i = 0; i < span && st != PS_OK; i++) {
        if (!items[i].done) {
            item_end(t, w, &items[i], &err);
        }
    }
    return span;
}

void psd_rpc_create(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    bool old = false;
    struct psd_wait *w = psd_wait_get(t, c, r, &of_creates, &old);
    if (w == NULL || old) {
        return;
    }
    struct psi_err err;
    if (psd_wait_meta(t, w, r, &err) != PS_OK || read_items(t, w, r, &err) != PS_OK) {
        psd_wait_refused(t, w, &err, err.code == PS_RESOURCE_EXHAUSTED ? LISTS_RETRY_MS : 0);
        return;
    }
    if ((r->header.flags & PS_FLAG_MORE) != 0) {
        return;
    }
    uint32_t start_ms = psd_beside_retry_ms(t);
    for (uint32_t i = 0; i < w->create_count;) {
        i += refuse_together(t, w, i);
    }
    for (uint32_t i = 0; i < w->create_count; i++) {
        struct psd_create *item = &w->creates[i];
        if (!item->done && create_item(t, w, i, &err) != PS_OK) {
            item_end(t, w, item, &err);
            item->retry_after_ms = item->retry_after_ms > 0 && start_ms > 0 ? start_ms : item->retry_after_ms;
        }
        w->needs[i].met = w->needs[i].met || item->done;
    }
    psd_wait_open(t, w);
}

static void find_one(const struct psd_task *t, const ps_v1_NameItem *item, ps_v1_CreateAnswer *a)
{
    char container[PS_CONTAINER_BYTES_MAX + 1], name[PS_NAME_BYTES_MAX + 1], buffer[PSI_ERR_TEXT_MAX / 2];
    struct psd_names missing = PSD_NAMES_IN(buffer);
    struct psi_err err;
    ps_status st = psd_name_parse(item, container, name, &err);
    st = st == PS_OK ? psd_own_name_check(t, item, container, &err) : st;
    const struct psd_name *n = st == PS_OK ? psd_directory_find(&t->names, container, name) : NULL;
    if (n != NULL) {
        a->task = t->peers[n->owner].task;
        PSI_IGNORE(PSI_BYTES_SET(a->job, t->peers[n->owner].job)); /* fits: checked name */
        return;
    }
    if (st == PS_OK && (psd_lists_missing(t, &missing) || psd_own_lists_missing(t, container, &missing))) {
        if (psd_peers_begun(t, &err) != PS_FAILED_PRECONDITION) { /* otherwise err says already why tasks cannot start */
            PSI_IGNORE(psi_fail_as(&err, PS_UNAVAILABLE, PS_REASON_NOT_CONNECTED,
                                   "the directory waits for %s: variable '%s' may be there", psd_names_text(&missing),
                                   name)); /* err is the answer */
            a->retry_after_ms = RETRY_MS;
        }
        st = err.code;
    } else if (st == PS_OK) {
        st = psi_fail(&err, PS_NOT_FOUND, "there is no variable or queue '%s' in container '%s'", name, container);
    }
    a->status = (uint32_t)st;
    a->reason = (uint32_t)err.reason;
    PSI_IGNORE(PSI_BYTES_SET(a->text, err.text)); /* cut is fine */
}

void psd_rpc_find(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psi_items items = psd_items_of(r);
    ps_v1_NameItem item;
    struct psi_err err;
    struct psd_list l;
    psd_list_begin(&l, t, c, PS_OP_FIND, PS_FLAG_REPLY, r->header.id);
    for (uint32_t index = 1; psi_items_next(&items, &ps_v1_NameItem_msg, &item, &err); index++) {
        ps_v1_CreateAnswer a = ps_v1_CreateAnswer_init_zero;
        a.index = index;
        find_one(t, &item, &a);
        psd_list_add(&l, &ps_v1_CreateAnswer_msg, &a);
    }
    if (items.st != PS_OK) {
        psi_buf_fini(&l.buf);
        psd_reply(t, c, PS_OP_FIND, 0, r->header.id, 0, &err, 0, NULL, NULL);
        return;
    }
    psd_list_end(&l);
}

/* Find what a DELETE of `name` deletes next: the variable or queue of this name, otherwise its parts one after the other. *at: 0
 * before the first call; each call advances it. NULL: there is no more. */
static const struct psd_name *next_to_delete(const struct psd_task *t, const char *container, const char *name, uint32_t *at)
{
    const struct psd_name *n = *at == 0 ? psd_directory_find(&t->names, container, name) : NULL;
    if (n == NULL) {
        return psd_parts_next(t, container, name, at);
    }
    *at = PSI_PARTS_MAX;
    return n;
}

/* Check that the variable or queue of this name, or each of its parts, can be deleted. Adds to w a need for each owner's answer.
 * Errors: one cannot be deleted, there is none, no memory. */
static ps_status delete_check(struct psd_task *t, struct psd_wait *w, const char *container, const char *name,
                              struct psi_err *err)
{
    const struct psd_name *n = NULL;
    for (uint32_t at = 0; (n = next_to_delete(t, container, name, &at)) != NULL;) {
        if (n->part && strcmp(n->name, name) == 0) {
            char text[PSI_PART_TEXT_MAX];
            const struct psd_definition d = psd_name_definition(n);
            return psi_fail(err, PS_INVALID_ARGUMENT, "'%s' exists%s: its whole is deleted, by the whole's name", name,
                            psi_part_format(&d.part, &d.shape, text, sizeof(text)));
        }
        ps_status st = psd_group_delete_check(t, n, err);
        st = st == PS_OK ? owner_up(t, &t->peers[n->owner], n->name, err) : st;
        if (st != PS_OK) {
            return st;
        }
        if (psd_wait_need(t, w, err) == NULL) {
            return PS_RESOURCE_EXHAUSTED;
        }
    }
    return w->need_count > 0
               ? PS_OK
               : psi_fail(err, PS_NOT_FOUND, "there is no variable or queue '%s' in container '%s'", name, container);
}

/* Ask the owners to delete the variable or queue of this name, or all its parts. PS_OK: all owners were asked. */
static ps_status delete_all(struct psd_task *t, struct psd_wait *w, const ps_v1_NameItem *m, struct psi_err *err)
{
    struct psd_create item = {0};
    char name[PS_NAME_BYTES_MAX + 1];
    ps_status st = psd_name_parse(m, item.container, name, err);
    st = st == PS_OK ? psd_own_name_check(t, m, item.container, err) : st;
    st = st == PS_OK ? psd_reset_check(t, item.container, err) : st;
    st = st == PS_OK ? delete_check(t, w, item.container, name, err) : st;
    uint32_t at = 0;
    for (uint32_t i = 0; st == PS_OK && i < w->need_count; i++) {
        const struct psd_name *n = next_to_delete(t, item.container, name, &at);
        (void)snprintf(item.name, sizeof(item.name), "%s", n->name);
        st = order_owner(t, &t->peers[n->owner], PS_OP_TASK_DELETE, w, i, &item, err);
        if (st != PS_OK && i > 0) {
            err->applied = PS_MAYBE_PARTLY_APPLIED; /* other parts are being deleted */
        }
    }
    return st;
}

void psd_rpc_delete(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    bool old = false;
    struct psd_wait *w = psd_wait_get(t, c, r, &of_delete, &old);
    if (w == NULL || old) {
        return;
    }
    ps_v1_NameItem item;
    struct psi_err err;
    ps_status st = psd_wait_meta(t, w, r, &err);
    st = st == PS_OK ? psd_item_only(r, &ps_v1_NameItem_msg, &item, "variable", NULL, &err) : st;
    st = st == PS_OK ? delete_all(t, w, &item, &err) : st;
    if (st != PS_OK) {
        psd_wait_refused(t, w, &err, st == PS_UNAVAILABLE ? RETRY_MS : 0);
    } else {
        psd_log(t, PSI_LOG_INFO, "delete_asked", PSI_KV("peer", c->text),
                PSI_KV_BYTES("container", item.container.bytes, item.container.size),
                PSI_KV_BYTES("var", item.name.bytes, item.name.size));
        psd_wait_open(t, w);
    }
}

void psd_delete_answered(struct psd_task *t, struct psd_peer *peer, struct psd_ask *a, const struct psd_request *r,
                         const struct psi_err *err)
{
    (void)r;
    /* MAYBE_PARTLY_APPLIED: the owner has deleted the variable, but could not note that on its disk */
    bool gone = err == NULL || err->applied == PS_MAYBE_PARTLY_APPLIED;
    const struct psd_name *n = gone ? psd_directory_find(&t->names, a->container, a->name) : NULL;
    if (n != NULL && psd_order_find(peer, PS_OP_TASK_CREATE, a->container, a->name) != NULL) {
        /* a TASK_CREATE was sent after the TASK_DELETE, so the owner will make the variable again */
        psd_name_unsure(n, peer->life);
    } else if (n != NULL && !a->made_again) {
        forget_name(t, n);
    }
    struct psd_wait *w = psd_wait_first(&a->waiters);
    if (w != NULL && err != NULL) {
        w->err = *err;
        w->retry_after_ms = err->reason == PS_REASON_OVERLOADED ? RETRY_MS : 0;
    }
    if (w != NULL) {
        w->deleted = w->deleted || gone;
        if (w->err.code != PS_OK && w->err.applied == PS_NOTHING_APPLIED && w->deleted) {
            psi_err_prefix(&w->err, "other parts are deleted, and this one is not: delete it once more");
            w->err.applied = PS_MAYBE_PARTLY_APPLIED;
        }
    }
    psd_wait_over(t, &a->waiters);
}

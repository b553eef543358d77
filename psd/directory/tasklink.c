/* SPDX-License-Identifier: Apache-2.0 */
/* The connection between a ps task and the directory (the first ps task), at both ends (docs/PROTOCOL.md §6).
 *
 * Happy path: the task dials, says HELLO with its life (a random number of the process), and sends a list of its variables'
 * names. The directory records them, and answers which names the task must drop: those that belong to other tasks now, and those
 * whose reset or delete this process may have missed while it was away (returns(), take_name()). The task drops them, and sends
 * its list again. After a list with nothing to drop the task counts as connected, and gets TASK_CREATE, TASK_RESET, TASK_DELETE.
 * Names that a restarted process does not list stay at the directory, with the earlier process in psd_name.life; the next CREATE
 * makes such a variable anew at this owner (create_item()). Names in sessions' containers are forgotten (psd_own_list_end()).
 *
 * Failure: either end closes the connection. The directory discards frames that it has not read, and the task counts as not
 * connected. The task dials again, at growing intervals, and sends its list on each new connection. If a task has once left a
 * directory process for a later one, it closes new connections to the earlier one (psd_task.left_lives). */
#include "directory.h"

#include "psd/base/loop.h"
#include "psd/checkpoint/shards.h"
#include "psd/checkpoint/saver.h"
#include "psd/checkpoint/loader.h"
#include "psd/rounds/groups.h"
#include "psd/rounds/rounds.h"

#include "common/form.h"
#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <string.h>

enum {
    CONFLICT_DIAL_MS = 5000, /* longest wait between two dials while another process is connected as this task */
    REFUSAL_LOG_MS = 5000
};

#define TO(stage) (1u << PSD_LIST_##stage)
static const uint8_t LIST_WAYS[PSD_LIST_STAGES] = {
    [PSD_LIST_NONE] = TO(COMES),
    [PSD_LIST_COMES] = TO(DROPS) | TO(TAKEN),
    [PSD_LIST_DROPS] = TO(AGAIN),
    [PSD_LIST_AGAIN] = TO(COMES),
    /* after TASK_PLACE has replaced its content, a task sends its list again (psd_task.list_again) */
    [PSD_LIST_TAKEN] = TO(COMES),
};
#undef TO

static void list_move(struct psd_conn *c, enum psd_list_stage to)
{
    PSI_ASSERT((LIST_WAYS[c->list] >> to & 1u) != 0);
    c->list = to;
}

/* Note that a frame of the list of names (at a task: of the answer to the list) has come. True: it is the first frame. */
static bool list_comes(struct psd_conn *c)
{
    if (c->list == PSD_LIST_COMES || c->list == PSD_LIST_DROPS) {
        return false;
    }
    list_move(c, PSD_LIST_COMES);
    return true;
}

static void list_drops(struct psd_conn *c)
{
    if (c->list == PSD_LIST_COMES) {
        list_move(c, PSD_LIST_DROPS);
    }
}

/* Note that the last frame of the list (at a task: of the answer to the list) has come. True: there were no names to drop. */
static bool list_over(struct psd_conn *c)
{
    list_move(c, c->list == PSD_LIST_DROPS ? PSD_LIST_AGAIN : PSD_LIST_TAKEN);
    return c->list == PSD_LIST_TAKEN;
}

#define TO(twin) (1u << PSD_TWIN_##twin)
static const uint8_t TWIN_WAYS[PSD_TWINS] = {
    [PSD_TWIN_NONE] = TO(DISPLACED),
    [PSD_TWIN_DISPLACED] = TO(FIRST) | TO(NONE),
    [PSD_TWIN_FIRST] = TO(FIRST) | TO(DISPLACED) | TO(NONE),
};
#undef TO

static void twin_move(struct psd_task *t, enum psd_twin to)
{
    PSI_ASSERT((TWIN_WAYS[t->twin] >> to & 1u) != 0);
    t->twin = to;
}

/* ---- at the directory ---- */

/* True if the process that sent hello may have missed resets and deletes: it has been connected to a directory before, and
 * another process of its task (p->settled_life) was the last whose list this directory process accepted. */
static bool returns(const struct psd_peer *p, const ps_v1_Hello *hello)
{
    return hello->directory_life != 0 && p->heard && p->settled_life != hello->life;
}

static void refuse_task(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, const struct psi_err *err)
{
    psd_log(t, PSI_LOG_WARN, "task_refused", PSI_KV("peer", c->text), PSI_KV("msg", err->text));
    psd_reply(t, c, PS_OP_HELLO, 0, r->header.id, 0, err, 1000, NULL, NULL);
    psd_conn_close(t, c, true);
}

/* Refuse a process that was the task p before, because another process is connected as p now. */
static void refuse_displaced(struct psd_task *t, struct psd_conn *c, struct psd_peer *p, const char *host,
                             const ps_v1_Hello *hello, const struct psd_request *r)
{
    struct psi_err err;
    psd_peer_note_conflict(t, p, host, hello->pid, hello->life);
    PSI_IGNORE(
        psi_fail_as(&err, PS_FAILED_PRECONDITION, returns(p, hello) ? PS_REASON_DISPLACED : PS_REASON_CONFLICT,
                    "/job:%s/task:%u is process %u on %s now, which came after this one; stop one of the two, or start it with "
                    "another task_index",
                    p->job, p->task, p->pid, p->host[0] != '\0' ? p->host : "an unnamed host")); /* sent below */
    refuse_task(t, c, r, &err);
}

void psd_task_link_hello(struct psd_task *t, struct psd_conn *c, const ps_v1_Hello *hello, const struct psd_request *r)
{
    struct psi_err err;
    char job[PS_JOB_BYTES_MAX + 1];
    c->hello_done = true;
    if (!t->is_directory) {
        PSI_IGNORE(psi_fail_as(&err, PS_FAILED_PRECONDITION, PS_REASON_NOT_DIRECTORY, "%s is not the directory",
                               t->name)); /* sent below */
        refuse_task(t, c, r, &err);
        return;
    }
    ps_status st = PSI_BYTES_TEXT(hello->job, job, sizeof(job));
    struct psd_peer *p = st == PS_OK ? psd_peer_find(t, job, hello->task) : NULL;
    if (p == NULL || p->self) {
        PSI_IGNORE(psi_fail_as(&err, PS_FAILED_PRECONDITION, PS_REASON_OTHER_CLUSTER,
                               "task %u of the job named is not another task of cluster '%s'; check the cluster spec",
                               hello->task, t->cluster.name)); /* sent below */
        refuse_task(t, c, r, &err);
        return;
    }
    if (psd_rights_member(t, c, p->job, p->task, &err) != PS_OK) {
        refuse_task(t, c, r, &err);
        return;
    }
    if (t->draining) {
        PSI_IGNORE(psi_fail_as(&err, PS_UNAVAILABLE, PS_REASON_SHUTTING_DOWN, "%s is shutting down", t->name)); /* sent below */
        refuse_task(t, c, r, &err);
        return;
    }
    char host[sizeof(p->host)];
    psd_text_printable((const pb_bytes_array_t *)(const void *)&hello->host, host, sizeof(host));
    if (p->life != hello->life) {
        bool was_here = hello->directory_life == t->life;
        if (p->conn != NULL && (was_here || returns(p, hello))) {
            refuse_displaced(t, c, p, host, hello, r);
            return;
        }
        p->restarts += p->life != 0;
        if (p->conn != NULL) {
            char name[PSI_TASK_NAME_MAX], was[PS_JOB_BYTES_MAX + 16], now[PS_JOB_BYTES_MAX + 16];
            PSI_IGNORE(snprintf(was, sizeof(was), "%s:%u", p->host, p->pid));  /* fits */
            PSI_IGNORE(snprintf(now, sizeof(now), "%s:%u", host, hello->pid)); /* fits */
            psd_log(t, PSI_LOG_WARN, "task_displaced", PSI_KV("peer", psi_task_name_format(name, sizeof(name), p->job, p->task)),
                    PSI_KV("was", was), PSI_KV("now", now));
        }
    }
    st = psd_address_take(t, p, hello, &err);
    if (st != PS_OK) {
        refuse_task(t, c, r, &err);
        return;
    }
    struct psd_conn *older = p->conn;
    if (older != NULL) {
        psd_task_link_lost(t, older);
        psd_conn_close(t, older, false);
    }
    /* if this process was refused before, the conflict is over: it is the task now */
    if (p->conflict_life == hello->life) {
        p->conflict[0] = '\0';
    }
    if (hello->directory_life != 0 && hello->directory_life != t->life) {
        t->peers[t->self].restarts = 1; /* the task knows an earlier process of this directory, so the directory was restarted */
    }
    p->life = hello->life;
    p->features = hello->features;
    p->pid = hello->pid;
    memcpy(p->host, host, sizeof(p->host));
    c->role = PSD_ROLE_TASK;
    c->peer = p;
    c->returned = returns(p, hello);
    psd_conn_admit(t, c);
    p->conn = c;
    p->listed = false;
    if (hello->chief_number > t->chief_number && hello->chief_number <= PS_CHIEF_NUMBER_MAX) {
        struct psd_change change = {.kind = PSD_CHANGE_CHIEF, .chief = {.number = hello->chief_number}};
        psd_commit(t, &change);
    }
    PSI_IGNORE(psi_task_name_format(c->text, sizeof(c->text), p->job, p->task)); /* fits */
    psd_hello_task_answer(t, c, hello, r);
}

static ps_v1_NameItem name_of(const ps_v1_ListItem *item)
{
    ps_v1_NameItem name = ps_v1_NameItem_init_zero;
    name.container.size = item->container.size;
    memcpy(name.container.bytes, item->container.bytes, item->container.size);
    name.name.size = item->name.size;
    memcpy(name.name.bytes, item->name.bytes, item->name.size);
    return name;
}

/* Read a name and its definition from a task's list. Of a queue only the name is listed. */
static ps_status parse_listed(const ps_v1_ListItem *item, struct psd_create *out, struct psi_err *err)
{
    if (item->queue) {
        const ps_v1_NameItem name = name_of(item);
        out->definition = (struct psd_definition){.queue = true};
        return psd_name_parse(&name, out->container, out->name, err);
    }
    ps_v1_CreateItem m = ps_v1_CreateItem_init_zero;
    m.container.size = item->container.size;
    memcpy(m.container.bytes, item->container.bytes, item->container.size);
    m.name.size = item->name.size;
    memcpy(m.name.bytes, item->name.bytes, item->name.size);
    m.key.size = item->key.size;
    memcpy(m.key.bytes, item->key.bytes, item->key.size);
    m.dtype = item->dtype;
    m.atomic = item->atomic;
    m.has_part = item->has_part;
    m.part = item->part;
    m.dims_count = item->dims_count;
    memcpy(m.dims, item->dims, sizeof(m.dims));
    ps_status st = psd_create_parse(&m, out, err);
    out->definition.optimizer.kind = item->optimizer_kind;
    /* the list does not have the decay rate; any value > 0 says that there is a moving average */
    out->definition.optimizer.ema = item->average ? 0.5 : 0;
    return st;
}

/* Record a name from the list of task p. *out_drop true: p must drop the variable, because another task has the name, or p may
 * have missed its deletion. */
static ps_status take_name(struct psd_task *t, struct psd_peer *p, bool returned, const ps_v1_ListItem *item, bool *out_drop,
                           struct psi_err *err)
{
    struct psd_create named = {0};
    ps_status st = parse_listed(item, &named, err);
    if (st != PS_OK) {
        return st;
    }
    if (psd_reset_covers(t, p, named.container)) {
        return PS_OK; /* TASK_RESET is being sent to p, and will remove the name there */
    }
    const struct psd_name *n = psd_directory_find(&t->names, named.container, named.name);
    /* a process that comes back may keep a name only if it was the last to list the name, or was asked to create it */
    bool stale = returned && (n == NULL || (n->life != p->life && n->asked != p->life));
    *out_drop = (n != NULL && n->owner != p->index) || stale;
    if (*out_drop) {
        return PS_OK;
    }
    const struct psd_definition known = n == NULL ? (struct psd_definition){.queue = false} : psd_name_definition(n);
    if (n == NULL || !psd_definition_equal(&known, &named.definition)) {
        st = psd_name_record(t, &named, p, err);
    }
    if (st == PS_OK) {
        n = psd_directory_find(&t->names, named.container, named.name);
        psd_name_confirm(n, p->life);
        if (psi_container_is_session(n->container)) {
            return PS_OK;
        }
        psd_loader_made(t, p, n->container);
        const struct psd_group *g = psd_group_find(t, named.container);
        /* in other phases the owner may not know yet what the chief wants */
        bool knows = g == NULL || g->phase == PSD_GROUP_RECOVERING;
        if (knows) {
            psd_name_in_rounds(n, (uint8_t)item->rounds);
        }
        psd_name_by_rounds(n, item->by_rounds || (n->by_rounds && !knows));
        if (n->by_rounds) {
            psd_loader_by_rounds(t, n->container);
        }
    }
    return st;
}

/* Handle an entry of p's list about a group (synchronous rounds), its owners or its members. It is ignored if p is about to reset
 * the container. INVALID_ARGUMENT: a wrong container name; also the errors of psd_groups_list_item(). */
static ps_status take_group(struct psd_task *t, const struct psd_peer *p, const ps_v1_ListItem *item, struct psi_err *err)
{
    char container[PS_CONTAINER_BYTES_MAX + 1];
    ps_status st = psd_container_parse((const pb_bytes_array_t *)(const void *)&item->container, container, err);
    if (st != PS_OK || psd_reset_covers(t, p, container)) {
        return st; /* TASK_RESET is being sent to p, and will end the group there */
    }
    return psd_groups_list_item(t, p, container, item, err);
}

/* Note the chief number that task p has seen for a container. If memory is short, the number is not noted: new numbers are above
 * it anyway, because p's HELLO has brought the highest number of all containers. */
static ps_status take_chief(struct psd_task *t, const struct psd_conn *c, const ps_v1_ListItem *item, struct psi_err *err)
{
    char container[PS_CONTAINER_BYTES_MAX + 1];
    ps_status st = psd_container_parse((const pb_bytes_array_t *)(const void *)&item->container, container, err);
    if (st != PS_OK || item->chief_number < psd_chief_number(&t->chiefs, container)) {
        return st;
    }
    st = psd_chief_check(t, container, item->chief_number, err);
    st = st == PS_OK ? psd_chief_follow(t, container, item->chief_number, "", err) : st;
    if (st == PS_RESOURCE_EXHAUSTED) {
        psd_log(t, PSI_LOG_WARN, "chief_forgotten", PSI_KV("peer", c->text), PSI_KV("container", container),
                PSI_KV("msg", err->text));
        st = PS_OK;
    }
    return st;
}

static ps_status take_item(struct psd_task *t, const struct psd_conn *c, const ps_v1_ListItem *item, bool *out_drop,
                           struct psi_err *err)
{
    if (item->chief_number != 0) {
        return take_chief(t, c, item, err);
    }
    if (item->order > INT32_MAX) { /* no task gets there; the numbers of all tasks would be used up */
        return psi_fail(err, PS_INVALID_ARGUMENT, "the order of a variable that no task has");
    }
    if (item->order != 0) {
        t->next_order = item->order > t->next_order ? item->order : t->next_order;
        return PS_OK;
    }
    if (item->has_saved) {
        return psd_saver_list_item(t, c->peer, item, err);
    }
    if (item->has_start) {
        return psd_loader_list_item(t, c->peer, item, err);
    }
    bool named = !item->has_group && !item->has_owner && !item->has_member;
    return named ? take_name(t, c->peer, c->returned, item, out_drop, err) : take_group(t, c->peer, item, err);
}

void psd_rpc_list(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psd_peer *p = c->peer;
    if (list_comes(c)) {
        psd_groups_list_begin(t, p);
        psd_saver_list_begin(t, p);
        psd_loader_list_begin(t, p);
        p->settled_life = p->settled_life == p->life ? p->life : 0;
        psd_reset_join(t, p); /* p must get TASK_RESET before the answer to its list */
    }
    if (c->closing) {
        return; /* no memory for TASK_RESET: the connection is closed, and p's list does not count */
    }
    const uint8_t *at = r->body;
    size_t n = r->body_bytes;
    struct psd_list l;
    psd_list_begin(&l, t, c, PS_OP_LIST_ANSWER, PS_FLAG_REPLY, r->header.id);
    for (;;) {
        ps_v1_ListItem item;
        bool end = false, drop = false;
        struct psi_err err;
        ps_status st = psi_list_next(&at, &n, &ps_v1_ListItem_msg, &item, &end, &err);
        if (st == PS_OK && end) {
            break;
        }
        if (st == PS_OK) {
            st = take_item(t, c, &item, &drop, &err);
        }
        if (st != PS_OK) {
            psd_log(t, PSI_LOG_ERROR, "list_rejected", PSI_KV("peer", c->text), PSI_KV("msg", err.text));
            psi_buf_fini(&l.buf);
            psd_conn_fault(t, c, st, err.reason, err.text);
            return;
        }
        if (drop) {
            list_drops(c);
            const ps_v1_NameItem name = name_of(&item);
            psd_list_add(&l, &ps_v1_NameItem_msg, &name);
            char text[PS_NAME_BYTES_MAX + 1];
            psd_text_printable((const pb_bytes_array_t *)(const void *)&item.name, text, sizeof(text));
            psd_log_batch(t, PSI_LOG_WARN, "name_elsewhere", c->text, text, PSI_KV("msg", "dropped there"));
        }
    }
    if ((r->header.flags & PS_FLAG_MORE) != 0) {
        psd_list_pause(&l);
        return;
    }
    psd_list_end(&l);
    psd_batch_end(t);
    if (c->closing) {
        return;
    }
    p->heard = true;
    if (list_over(c)) {
        p->listed = true;
        p->settled_life = p->life;
        psd_orders_listed(t, p);
        psd_own_list_end(t, p);
        psd_log(t, PSI_LOG_INFO, "task_connected", PSI_KV("peer", c->text));
        psd_presence_look(t, p->job, p->task);
    }
}

static void lost_at_directory(struct psd_task *t, struct psd_peer *p)
{
    p->listed = false;
    p->missing_since_ms = t->now_ms;
    psd_presence_look(t, p->job, p->task);
    psd_groups_owner_lost(t, p);
    psd_saver_lost(t, p);
    psd_loader_lost(t, p);
    psd_orders_lost(t, p);
    psd_resets_lost(t, p);
    char name[PSI_TASK_NAME_MAX];
    psd_log(t, PSI_LOG_WARN, "task_lost", PSI_KV("peer", psi_task_name_format(name, sizeof(name), p->job, p->task)));
}

void psd_task_link_loop_turn(struct psd_task *t)
{
    if (t->loop == NULL || !t->loop->closing) {
        return;
    }
    struct psd_peer *self = &t->peers[t->self];
    psd_loop_clear(t);
    psd_rounds_conn_lost(t, t->loop);
    psd_groups_owner_lost(t, self);
    psd_saver_lost(t, self);
    psd_loader_lost(t, self);
    psd_orders_lost(t, self);
    psd_shards_directory_lost(t);
    psd_beside_directory_lost(t);
}

/* ---- at the other tasks ---- */

static void say_hello(struct psd_task *t, struct psd_conn *c)
{
    ps_v1_Hello hello = ps_v1_Hello_init_zero;
    const struct psd_peer *d = &t->peers[t->directory];
    hello.protocol = PS_FRAME_VERSION;
    hello.features = PS_FEATURES_KNOWN;
    hello.role = PSD_ROLE_TASK;
    hello.believed_task = d->task;
    hello.cluster_hash = psi_cluster_hash(&t->cluster);
    hello.task = t->config.task;
    hello.pid = t->config.pid;
    hello.life = t->life;
    hello.chief_number = t->chief_number;
    hello.fenced = t->fenced;
    hello.directory_life = t->directory_life;
    if (t->config.any_port) {
        hello.needs = PS_FEATURE_ADDRESSES;
        PSI_IGNORE(PSI_BYTES_SET(hello.address, psd_peer_address(t, &t->peers[t->self]))); /* fits: checked address */
    }
    PSI_IGNORE(PSI_BYTES_SET(hello.host, t->config.host)); /* cut is fine */
    PSI_IGNORE(PSI_BYTES_SET(hello.believed_job, d->job)); /* fits: checked names */
    PSI_IGNORE(PSI_BYTES_SET(hello.job, t->config.job));   /* fits: checked names */
    psd_ask_meta(t, c, PS_OP_HELLO, &ps_v1_Hello_msg, &hello);
}

static void list_variable(struct psd_list *l, const struct psd_variable *v)
{
    ps_v1_ListItem item = ps_v1_ListItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(item.container, v->container->name)); /* fits: checked names */
    PSI_IGNORE(PSI_BYTES_SET(item.name, v->name));                 /* fits: checked names */
    item.dtype = (uint32_t)v->dtype;
    item.atomic = v->atomic;
    const struct psi_part part = psd_variable_part_of(v);
    item.has_part = v->is_part;
    psi_part_to_msg(&part, &item.part);
    const ps_shape shape = psd_variable_shape(v);
    item.dims_count = (pb_size_t)shape.rank;
    memcpy(item.dims, shape.dims, shape.rank * sizeof(int64_t));
    item.optimizer_kind = v->optimizer.kind;
    item.average = v->optimizer.ema > 0;
    item.queue = v->queue != NULL;
    item.rounds = !psd_variable_in_group(v)         ? PSD_IN_NO_ROUNDS
                  : v->container->rounds->step == v ? PSD_IN_ROUNDS_STEP
                  : v->part->by_rows                ? PSD_IN_ROUNDS_ROWS
                                                    : PSD_IN_ROUNDS;
    item.by_rounds = v->container->by_rounds;
    if (v->container->of_session) {
        item.key.size = PSI_KEY_BYTES;
        memcpy(item.key.bytes, v->container->key, PSI_KEY_BYTES);
    }
    psd_list_add(l, &ps_v1_ListItem_msg, &item);
}

static void list_rest(struct psd_task *t, struct psd_list *l)
{
    ps_v1_ListItem order = ps_v1_ListItem_init_zero;
    order.order = t->store.next_order;
    psd_list_add(l, &ps_v1_ListItem_msg, &order);
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->chiefs, &cursor, NULL, NULL, &value)) {
        const struct psd_chief *chief = value;
        if (chief->number == 0) {
            continue;
        }
        ps_v1_ListItem item = ps_v1_ListItem_init_zero;
        PSI_IGNORE(PSI_BYTES_SET(item.container, chief->container)); /* fits: checked name */
        item.chief_number = chief->number;
        psd_list_add(l, &ps_v1_ListItem_msg, &item);
    }
    psd_groups_list_add(t, l);
    psd_shards_list_add(t, l);
    psd_containers_add(t, l);
}

/* Begin to send this task's list of names. Nothing that the directory sends is read before the list is sent. */
static void send_list(struct psd_task *t, struct psd_conn *c)
{
    static const struct psd_listing all = {.op = PS_OP_LIST, .add = list_variable, .end = list_rest};
    t->list_again = false;
    psd_beside_drop(t); /* the directory decides again which checkpoint this task loads */
    psd_listing_begin(t, c, &all, ++c->next_id);
}

/* Empty all containers: the directory may have given their variables to other tasks, or to another process of this task. */
static void fence(struct psd_task *t, const char *why)
{
    uint64_t cursor = 0, emptied = 0;
    void *value = NULL;
    t->fenced = true;
    while (psi_map_next(&t->store.containers, &cursor, NULL, NULL, &value)) {
        const struct psd_container *c = value;
        emptied += psd_reset_here(t, c->name);
    }
    psd_log(t, PSI_LOG_WARN, "fenced", PSI_KV("containers", emptied), PSI_KV("msg", why));
}

void psd_rpc_hello_answer(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psi_err err;
    ps_v1_HelloAnswer a;
    bool end = false;
    const uint8_t *p = r->body;
    size_t n = r->body_bytes;
    ps_status st = psd_reply_error(r, &err);
    if (st == PS_OK) {
        st = psi_list_next(&p, &n, &ps_v1_HelloAnswer_msg, &a, &end, &err);
    }
    if (st == PS_OK && (end || a.life == 0 || psd_peers_left(t, a.life))) {
        st = psi_fail(&err, PS_ABORTED, "a life of the directory that this task has left");
    }
    if (st == PS_OK) {
        st = psi_features_check(a.needs, "the directory", &err);
    }
    if (st != PS_OK) {
        struct psi_err said;
        /* true: the directory has refused this task; false: this task refuses the directory, whose psd is too old */
        bool by_it = psd_reply_error(r, &said) != PS_OK;
        if (by_it && said.reason == PS_REASON_DISPLACED && t->twin == PSD_TWIN_NONE) {
            twin_move(t, PSD_TWIN_DISPLACED);
        }
        if (!by_it || st != t->refusal || t->refusal_logged_ms == 0 || t->now_ms - t->refusal_logged_ms >= REFUSAL_LOG_MS) {
            t->refusal_logged_ms = by_it ? t->now_ms : 0;
            t->refusal = st;
            psd_log(t, PSI_LOG_WARN, "directory_refused", PSI_KV("peer", c->text), PSI_KV("st", ps_status_name(st)),
                    PSI_KV("msg", err.text));
        }
        psd_conn_close(t, c, false);
        return;
    }
    if (t->twin != PSD_TWIN_NONE && t->directory_life != a.life) {
        if (t->twin != PSD_TWIN_FIRST ||
            /* only once for each directory process: the process that displaced this one can then connect first */
            t->let_past_life != a.life) {
            t->let_past_life = a.life;
            twin_move(t, PSD_TWIN_FIRST);
            psd_conn_close(t, c, false);
            return;
        }
        twin_move(t, PSD_TWIN_DISPLACED);
        fence(t, "another process was this task, and the directory that knew it is gone: shared variables dropped");
    }
    t->refusal_logged_ms = 0;
    if (t->directory_life != 0 && t->directory_life != a.life) {
        t->left_lives[t->left_count++ % (sizeof(t->left_lives) / sizeof(t->left_lives[0]))] = t->directory_life;
    }
    t->directory_life = a.life;
    t->dial_failures = 0;
    c->hello_done = true;
    c->body.max = PS_CONTROL_BODY_MAX;
    send_list(t, c);
}

void psd_task_link_turn(struct psd_task *t)
{
    struct psd_conn *c = t->list_again ? t->peers[t->directory].conn : NULL;
    if (c != NULL && psd_listing_goes_on(c)) {
        return; /* a list is being sent: call again when it is over */
    }
    t->list_again = false;
    if (c != NULL && c->hello_done && !c->closing) {
        send_list(t, c);
    }
}

static void send_beat(struct psd_task *t, struct psd_conn *c)
{
    const ps_v1_Beat m = psd_share_beat(t);
    c->beat_sent_ms = t->now_ms;
    psd_ask_meta(t, c, PS_OP_BEAT, &ps_v1_Beat_msg, &m);
}

void psd_rpc_list_answer(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psi_items items = psd_items_of(r);
    ps_v1_NameItem item;
    struct psi_err err;
    PSI_IGNORE(list_comes(c)); /* nothing depends on whether r is the first frame of the answer */
    while (psi_items_next(&items, &ps_v1_NameItem_msg, &item, &err)) {
        char container[PS_CONTAINER_BYTES_MAX + 1], name[PS_NAME_BYTES_MAX + 1];
        items.st = psd_name_parse(&item, container, name, &err);
        if (items.st != PS_OK) {
            break;
        }
        list_drops(c);
        const struct psd_variable *v = psd_variable_find(psd_container_find(&t->store, container), name);
        if (v != NULL) {
            psd_log_batch(t, PSI_LOG_WARN, "name_elsewhere", c->text, name, PSI_KV("msg", "dropped here"));
            psd_drop_here(t, v);
        }
    }
    if (items.st != PS_OK) {
        psd_log(t, PSI_LOG_ERROR, "list_answer_rejected", PSI_KV("peer", c->text), PSI_KV("msg", err.text));
        psd_conn_fault(t, c, items.st, err.reason, err.text);
        return;
    }
    if ((r->header.flags & PS_FLAG_MORE) != 0) {
        return;
    }
    psd_batch_end(t);
    if (!list_over(c)) {
        send_list(t, c); /* the new list lacks the names that the task has just dropped */
    } else {
        t->fenced = false;
        if (t->twin != PSD_TWIN_NONE) {
            twin_move(t, PSD_TWIN_NONE);
        }
        psd_log(t, PSI_LOG_INFO, "directory_connected", PSI_KV("peer", c->text));
        if (t->beside != NULL && !t->said_serving) {
            send_beat(t, c); /* the answer to the BEAT says whether all tasks serve */
        }
    }
}

void psd_rpc_task_create(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_CreateItem item;
    struct psd_create create = {0};
    uint8_t created[8] = {0};
    struct psi_err err;
    ps_status st = psd_item_only(r, &ps_v1_CreateItem_msg, &item, "variable", NULL, &err);
    if (st == PS_OK) {
        st = psd_create_parse(&item, &create, &err);
    }
    if (st == PS_OK) {
        st = psd_create_here(t, &create, &err);
        created[0] = create.created;
    }
    psi_free(create.queue);
    struct ps_reply_meta m = {.result_bytes = st == PS_OK ? 1 : 0};
    psd_reply(t, c, PS_OP_TASK_CREATE, 0, r->header.id, 0, st == PS_OK ? NULL : &err, 0, &m, created);
}

static void reset_noted(struct psd_task *t, void *ctx, uint64_t id, const struct psi_err *err)
{
    (void)ctx;
    psd_order_answer(t, PS_OP_TASK_RESET, id, err);
}

/* Called when the container is empty on this task: answers TASK_RESET. If a checkpoint may still have values of the container,
 * this task's disk must first note that they are not to be loaded (a bar). */
static void emptied(struct psd_task *t, const char *container, uint64_t id, uint64_t asked_bar)
{
    struct psi_err err;
    bool notes = psd_shards_is_able(t) && !psi_container_is_session(container);
    uint64_t bar = !notes ? 0 : t->shards->highest > asked_bar ? t->shards->highest : asked_bar;
    notes = bar != 0 && bar < UINT64_MAX / 2;
    ps_status st = notes ? psd_bars_set(t, container, bar, false, &err) : PS_OK;
    st = notes && st == PS_OK ? psd_bars_wait(t, reset_noted, NULL, id, &err) : st;
    if (!notes || st != PS_OK) {
        psd_order_answer(t, PS_OP_TASK_RESET, id, st == PS_OK ? NULL : &err);
    }
}

void psd_rpc_task_reset(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_ContainerItem item;
    char container[PS_CONTAINER_BYTES_MAX + 1] = "";
    struct psi_err err;
    ps_status st = psd_item_only(r, &ps_v1_ContainerItem_msg, &item, "container", NULL, &err);
    if (st == PS_OK) {
        st = PSI_BYTES_TEXT(item.container, container, sizeof(container));
    }
    if (st == PS_OK && psd_container_find(&t->store, container) != NULL) {
        char by[sizeof(item.by.bytes) + 1];
        psd_text_printable((const pb_bytes_array_t *)(const void *)&item.by, by, sizeof(by));
        /* an older directory does not say which client asked for the reset */
        psd_reset_log(t, container, by[0] != '\0' ? by : c->text);
    }
    if (st == PS_OK) {
        psd_emptying_begin(t, container, emptied, r->header.id, item.bar);
    } else {
        psd_order_answer(t, PS_OP_TASK_RESET, r->header.id, &err);
    }
}

/* ---- both ---- */

static void dial_later(struct psd_task *t)
{
    uint32_t shift = t->dial_failures < 7 ? t->dial_failures : 7;
    uint64_t wait = (uint64_t)PS_RECONNECT_FIRST_MS << shift;
    uint64_t most = t->twin != PSD_TWIN_NONE ? CONFLICT_DIAL_MS : PS_RECONNECT_MAX_MS;
    wait = wait > most || t->twin == PSD_TWIN_FIRST ? most : wait;
    wait = wait * (75 + psd_random(t) % 51) / 100; /* +- 25 % */
    t->dial_failures++;
    t->dial_at_ms = t->now_ms + wait;
}

void psd_task_link_lost(struct psd_task *t, struct psd_conn *c)
{
    struct psd_peer *p = c->peer;
    if (p == NULL) {
        return;
    }
    c->peer = NULL;
    p->conn = NULL;
    if (c->role == PSD_ROLE_TASK) {
        lost_at_directory(t, p);
    } else {
        psd_shards_directory_lost(t);
        psd_emptying_directory_lost(t);
        psd_beside_directory_lost(t);
        if (t->refusal_logged_ms == 0) { /* otherwise the refusal was logged */
            psd_log(t, PSI_LOG_WARN, "directory_lost", PSI_KV("peer", c->text));
        }
        dial_later(t);
    }
}

struct psd_conn *psd_task_link_dialed(struct psd_task *t, void *shell, const char *why)
{
    struct psd_peer *p = &t->peers[t->directory];
    char who[PS_ADDRESS_BYTES_MAX + PSI_TASK_NAME_MAX + 8];
    t->dialling = false;
    if (shell == NULL || t->draining) {
        psd_log(t, t->dial_failures == 0 ? PSI_LOG_WARN : PSI_LOG_DEBUG, "directory_unreachable",
                PSI_KV("peer", psd_peer_text(t, p, who, sizeof(who))), PSI_KV("msg", why == NULL ? "shutting down" : why));
        dial_later(t);
        return NULL;
    }
    struct psd_conn *c = psd_conn_new(t, shell, PSD_ROLE_DIRECTORY, psd_peer_text(t, p, who, sizeof(who)));
    if (c == NULL) {
        dial_later(t);
        return NULL;
    }
    c->peer = p;
    c->body.max = PS_CONTROL_BODY_MAX;
    p->conn = c;
    say_hello(t, c);
    return c;
}

void psd_task_link_tick(struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        struct psd_conn *c = t->peers[i].conn;
        if (c == NULL || c->closing || !c->hello_done || t->now_ms - c->beat_sent_ms < t->config.beat_ms) {
            continue;
        }
        send_beat(t, c);
    }
    psd_groups_tick(t);
    psd_resets_tick(t);
    psd_own_tick(t);
    if (t->is_directory || t->draining) {
        return;
    }
    const struct psd_peer *d = &t->peers[t->directory];
    if (d->conn == NULL && !t->dialling && t->now_ms >= t->dial_at_ms && psd_shards_is_listed(t)) {
        t->dialling = psd_effect_dial(t, PSD_DIAL_DIRECTORY, d);
    }
    if (!t->peers[t->self].own_job && !t->fenced && t->store.variable_count > 0 &&
        t->now_ms - t->directory_heard_ms >= t->config.lease_ms) { /* other tasks may own these names now */
        fence(t, "no word from the directory for a lease: shared variables dropped");
        if (d->conn != NULL) {
            psd_conn_close(t, d->conn, false); /* frames that still come on the old connection may be out of date */
        }
    }
}

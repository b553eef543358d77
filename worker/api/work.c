/* SPDX-License-Identifier: Apache-2.0 */
/* Work for programs: a queue of kind WORK, whose items are texts, each for one worker. Happy path: get or create the queue; fill
 * it, which does nothing if the queue has these items; then ps_work_next() and ps_work_done() until OUT_OF_RANGE. The item's text
 * lies in a ps_tuple (the container for elements of queues) until the item is done or returned. Failure mode: the task refuses to
 * fill the queue if count or hash of the items differ from those of the queue's items. */
#include "monitored.h"
#include "queue.h"

#include "common/hash.h"

#include <string.h>

static ps_status put_items(ps_tuple *t, const char *const *items, const size_t *sizes, uint32_t count, uint64_t *hash,
                           struct psi_err *err)
{
    if (items == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "items is NULL");
    }
    for (uint32_t i = 0; i < count; i++) {
        size_t bytes = items[i] == NULL ? 0 : sizes != NULL ? sizes[i] : strlen(items[i]);
        if (items[i] == NULL || bytes > PS_WORK_ITEM_BYTES_MAX) {
            return psi_fail(err, PS_INVALID_ARGUMENT, items[i] == NULL ? "item %u is NULL" : "item %u: %zu bytes, at most %zu", i,
                            bytes, PS_WORK_ITEM_BYTES_MAX);
        }
        ps_status st = ps_tuple_put_strings(t, NULL, &items[i], &bytes, 1);
        if (st != PS_OK) {
            return psi_fail(err, st, "item %u: %s", i, ps_last_error());
        }
        *hash = psi_fnv1a64(psi_fnv1a64(*hash, &bytes, sizeof(bytes)), items[i], bytes);
    }
    return PS_OK;
}

/* Keep t, the tuple with the items, so that a recovery can fill the queue again. Frees the tuple of a queue that q replaces. */
static void keep(ps_queue *q, ps_tuple *t)
{
    struct psi_list *it = NULL;
    ps_queue *before = q; /* an older queue object of this name that has items; q: there is none */
    ps_tuple *old = NULL;
    (void)pthread_mutex_lock(&q->variable.session->lock);
    PSI_LIST_FOREACH(it, &q->variable.session->queues) {
        const ps_variable *v = PSI_CONTAINER_OF(it, ps_variable, link);
        if (strcmp(v->container, q->variable.container) == 0 && strcmp(v->name, q->variable.name) == 0) {
            ps_queue *of = PSI_CONTAINER_OF(it, ps_queue, variable.link);
            before = of->items != NULL ? of : before;
            old = of->items != NULL ? of->items : old;
            of->items = NULL;
        }
    }
    q->items = t;
    (void)pthread_mutex_unlock(&q->variable.session->lock);
    psi_tuple_return(before, old);
}

static ps_status fill(ps_queue *q, const char *const *items, const size_t *sizes, uint32_t count, struct psi_err *err)
{
    uint64_t hash = PSI_FNV1A64_START;
    ps_tuple *t = psi_tuple_borrow(q);
    ps_status st = t != NULL ? put_items(t, items, sizes, count, &hash, err)
                             : psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for the items");
    st = st == PS_OK ? psi_tuple_to_put(t, err) : st;
    if (st == PS_OK) {
        struct psi_request req = {.kind = PSI_REQ_ENQUEUE, .src = &t->put};
        t->put.data = t->data; /* from the start of t->data: even a single item is sent with its length */
        t->put.bytes = t->bytes;
        t->put.many = true;
        t->put.fill = true;
        t->put.fill_hash = hash;
        st = psi_api_queue_run(q, &req, 0, err);
    }
    if (st == PS_OK && q->variable.session->monitor != NULL) {
        keep(q, t); /* no recovery uses q->items now: this thread is inside (psi_api_go_inside()) */
    } else {
        psi_tuple_return(q, t);
    }
    return st;
}

static ps_status get(ps_session *s, const ps_variable_spec *like, const struct psi_queue_spec *spec, const char *const *items,
                     const size_t *sizes, uint32_t count, ps_queue **out_queue, struct psi_err *err)
{
    /* not NULL: this is a repetition, after a loss while the queue was filled, and the recovery has got the queue already */
    ps_queue *q = *out_queue;
    ps_status st = q != NULL
                       ? PS_OK
                       : psi_api_queue_get(s, like, count > 0 ? PSI_SCOPE_GET : PSI_SCOPE_FIND, count > 0 ? spec : NULL, &q, err);
    if (st == PS_OK && q->spec.kind != PSI_QUEUE_WORK) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "queue '%s' is of kind %s", like->name, psi_queue_kind_name(q->spec.kind));
    }
    if (st == PS_OK && count > 0 && (st = psi_api_go_inside(s, err)) == PS_OK) {
        st = fill(q, items, sizes, count, err);
        psi_api_go_outside(s);
    }
    *out_queue = q;
    return st;
}

ps_status ps_work_get(ps_session *s, const char *name, const char *const *items, const size_t *sizes, uint32_t count,
                      uint32_t epochs, uint64_t seed, ps_work **out_work)
{
    struct psi_err err = {0};
    ps_queue *q = NULL;
    const struct psi_queue_spec spec = {.kind = PSI_QUEUE_WORK,
                                        .component_count = 1,
                                        .capacity = -1,
                                        .seed = seed,
                                        .epochs = epochs,
                                        .components = {{.dtype = PS_STRING, .shaped = true}}};
    ps_variable_spec like;
    ps_variable_spec_init(&like);
    like.name = name;
    like.type = "Work";
    if (out_work == NULL || name == NULL) {
        return psi_api_result(
            &err, psi_fail(&err, PS_INVALID_ARGUMENT, "%s is NULL", name == NULL ? "the name of the work" : "out_work"));
    }
    ps_status st = PS_OK;
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    do {
        err = (struct psi_err){0};
        st = get(s, &like, &spec, items, sizes, count, &q, &err);
    } while (st != PS_OK && psi_api_recover(s)); /* repeated if the session was lost and has recovered */
    psi_api_end(s);
    if (st == PS_OK) {
        *out_work = PSI_CONTAINER_OF(q, ps_work, queue);
    }
    return psi_api_result(&err, st);
}

static ps_status item_of(ps_tuple *t, ps_work_item *item, struct psi_err *err)
{
    if (ps_tuple_get_string(t, 0, 0, 0, &item->data, &item->bytes, NULL) != PS_OK) {
        return psi_fail(err, PS_INTERNAL, "the item is not understood: %s", ps_last_error());
    }
    item->epoch = t->take.got.epoch;
    item->again = t->take.got.deliveries;
    item->serial = t->take.got.serial;
    item->opaque = t;
    t->data[(size_t)((const uint8_t *)item->data - t->data) + item->bytes] = 0; /* a NUL, for which there is room (tuple.c) */
    return PS_OK;
}

/* psi_api_call.finish(), on the loop thread: note which queue has handed out the item. */
static void finish_next(struct psi_api_call *call)
{
    ps_tuple *t = call->arg;
    t->incarnation = call->req.var->incarnation;
    t->creation = call->req.var->creation;
}

ps_status ps_work_next(ps_work *w, ps_work_item *item, int64_t timeout_ms)
{
    struct psi_err err = {0};
    if (w == NULL || item == NULL) {
        return psi_api_result(&err, psi_fail(&err, PS_INVALID_ARGUMENT, "the %s is NULL", w == NULL ? "work" : "item"));
    }
    ps_queue *q = &w->queue;
    ps_session *s = q->variable.session;
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    ps_tuple *t = psi_tuple_borrow(q);
    memset(item, 0, sizeof(*item));
    ps_status st = t != NULL ? PS_OK : psi_fail(&err, PS_RESOURCE_EXHAUSTED, "no memory for an item");
    if (st == PS_OK) {
        struct psi_api_call call = {.session = s,
                                    .finish = finish_next,
                                    .arg = t,
                                    .timeout_ms = timeout_ms,
                                    .on = &q->variable,
                                    .req = {.kind = PSI_REQ_DEQUEUE, .dst = &t->take}};
        const uint32_t life = psi_monitor_life(call.session);
        psi_tuple_to_take(t, 1, false, false);
        st = psi_api_queue_ended(&q->variable, life, psi_api_call_run(&call, &err), &err);
        st = st == PS_OK ? item_of(t, item, &err) : st;
    }
    if (st != PS_OK) {
        psi_tuple_return(q, t);
    }
    psi_api_end(s);
    return psi_api_result(&err, st);
}

/* Loop thread: check that the queue is the one that handed out the item in call->arg. If not: ABORTED, and call->arg becomes
 * NULL: a queue that was made again counts serials and epochs from 1, so the item's numbers may be those of another item. */
static ps_status prepare_end(struct psi_api_call *call, struct psi_err *err)
{
    const ps_tuple *t = call->arg;
    const struct psi_var *var = call->on->var;
    if (t->incarnation == var->incarnation && t->creation == var->creation) {
        return PS_OK;
    }
    call->arg = NULL;
    return psi_fail_as(err, PS_ABORTED, PS_REASON_LOST,
                       "work queue '%s': it was lost, reset or deleted, and has been made anew since it handed out this item",
                       var->name);
}

static ps_status item_end(ps_work *w, ps_work_item *item, bool give_back)
{
    struct psi_err err = {0};
    uint64_t before = 0;
    if (w == NULL || item == NULL || item->opaque == NULL) {
        return psi_api_result(&err, psi_fail(&err, PS_INVALID_ARGUMENT,
                                             w == NULL      ? "the work is NULL"
                                             : item == NULL ? "the item is NULL"
                                                            : "this is no item that is worked at"));
    }
    const struct psi_work_end end = {.serial = item->serial, .epoch = item->epoch, .give_back = give_back};
    struct psi_api_call call = {.session = w->queue.variable.session,
                                .prepare = prepare_end,
                                .arg = item->opaque,
                                .on = &w->queue.variable,
                                .req = {.kind = PSI_REQ_WORK_END, .src = &end}};
    struct psi_api_visit visit;
    psi_api_begin(call.session, &visit);
    const uint32_t life = psi_monitor_life(call.session);
    ps_status st = psi_api_call_run(&call, &err);
    if (call.arg != NULL) { /* NULL: prepare_end() has refused the item */
        st = psi_api_queue_ended(&w->queue.variable, life, st, &err);
    }
    if (st == PS_OK && call.req.result_bytes == sizeof(before)) {
        memcpy(&before, call.req.result, sizeof(before));
    }
    psi_tuple_return(&w->queue, item->opaque);
    psi_api_end(call.session);
    item->data = NULL;
    item->bytes = 0;
    item->opaque = NULL;
    item->done_before = before != 0;
    return psi_api_result(&err, st);
}

ps_status ps_work_done(ps_work *w, ps_work_item *item)
{
    return item_end(w, item, false);
}

ps_status ps_work_return(ps_work *w, ps_work_item *item)
{
    return item_end(w, item, true);
}

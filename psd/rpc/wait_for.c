/* SPDX-License-Identifier: Apache-2.0 */
/* The two requests that wait for a condition: WAIT until variables have a value, or are sealed; WAIT_CLUSTER until tasks are up.
 *
 * Happy path: when all items of the request have come, each item waits in the list of its variable, or of its task (struct
 * psd_presence). Code that changes the variable or the task examines this list. Failure: a variable that is reset or deleted ends
 * a WAIT at once with ABORTED, whatever else is missing. A task that goes down is missing again: all must be up at one time. */
#include "rpc.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <string.h>

enum { LISTS_RETRY_MS = 100 };

/* Fail an expired request with DEADLINE_EXCEEDED and the names of all missing items. */
static void fail_late(const struct psd_task *t, struct psd_wait *w, const char *what, struct psd_names *names)
{
    PSI_IGNORE(psi_fail_as(&w->err, PS_DEADLINE_EXCEEDED, PS_REASON_NOT_READY, "%u of %u not %s at %s: %s", w->missing,
                           w->need_count, what, t->name, psd_names_text(names)));
}

static const struct psd_variable *variable_of(const struct psd_need *n)
{
    return PSI_CONTAINER_OF(n->of, struct psd_variable, waiters);
}

static bool look_at_variable(const struct psd_wait *w, const struct psd_need *n)
{
    const struct psd_variable *v = variable_of(n);
    return w->condition == PS_WAIT_SEALED ? v->sealed : v->initialised;
}

static void add_variables(const struct psd_wait *w, struct psd_names *names)
{
    for (uint32_t i = 0; i < w->need_count; i++) {
        if (!w->needs[i].met) {
            psd_names_add(names, "%s", variable_of(&w->needs[i])->name);
        }
    }
}

static void describe_variables(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out)
{
    char buffer[PSD_NAMES_HALF];
    struct psd_names names = PSD_NAMES_IN(buffer);
    bool seal = w->condition == PS_WAIT_SEALED;
    const struct psd_chief *chief = NULL;
    for (uint32_t i = 0; i < w->need_count && chief == NULL; i++) {
        chief = w->needs[i].met ? NULL : psd_chief_find(&t->chiefs, variable_of(&w->needs[i])->container->name);
    }
    add_variables(w, &names);
    const char *text = psd_names_text(&names);
    PSI_IGNORE(snprintf(out->what, sizeof(out->what), "%s: %s", seal ? "sealed" : "initialised", text)); /* cut is fine */
    if (!seal) {
        PSI_IGNORE(snprintf(out->release, sizeof(out->release), "somebody initialises %s", text)); /* cut is fine */
    } else if (!t->is_directory) {
        PSI_IGNORE(snprintf(out->release, sizeof(out->release), "the chief seals %s", text)); /* cut is fine */
    } else if (chief != NULL && psd_chief_holder(t, chief) != NULL) {
        PSI_IGNORE(snprintf(out->release, sizeof(out->release), "the chief (%.80s) seals %s", chief->text, text)); /* text cut */
    } else {
        PSI_IGNORE(
            snprintf(out->release, sizeof(out->release), "the chief seals %s; no chief is connected", text)); /* cut is fine */
    }
}

static void expire_variables(struct psd_task *t, struct psd_wait *w)
{
    char buffer[PSD_NAMES_HALF];
    struct psd_names names = PSD_NAMES_IN(buffer);
    add_variables(w, &names);
    fail_late(t, w, w->condition == PS_WAIT_SEALED ? "made ready by a chief" : "initialised", &names);
}

static const struct psd_wait_kind of_variables = {
    .look = look_at_variable, .describe = describe_variables, .expire = expire_variables};

static struct psd_presence *get_presence(struct psd_task *t, const char *job, uint32_t task, struct psi_err *err)
{
    struct psd_presence *p = psd_presence_find(t, job, task);
    if (p == NULL && psd_room(t, PSD_ROOM_LISTS, PSD_PRESENCE_BYTES)) {
        p = psd_presence_new(t, job, task);
    }
    if (p == NULL) {
        PSI_IGNORE(psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED, "%s: no room to wait for /job:%s/task:%u",
                               t->name, job, task));
    }
    return p;
}

static struct psd_presence *presence_of(const struct psd_need *n)
{
    return PSI_CONTAINER_OF(n->of, struct psd_presence, waiters);
}

static bool look_at_presence(const struct psd_wait *w, const struct psd_need *n)
{
    (void)w;
    return presence_of(n)->up;
}

static void add_tasks(const struct psd_wait *w, struct psd_names *names)
{
    for (uint32_t i = 0; i < w->need_count; i++) {
        const struct psd_presence *p = presence_of(&w->needs[i]);
        if (!w->needs[i].met) {
            psd_names_add(names, "/job:%s/task:%u", p->job, p->task);
        }
    }
}

static void describe_tasks(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out)
{
    char buffer[PSD_NAMES_HALF];
    struct psd_names names = PSD_NAMES_IN(buffer);
    bool tasks = false, sessions = false;
    for (uint32_t i = 0; i < w->need_count; i++) {
        const struct psd_presence *p = presence_of(&w->needs[i]);
        const struct psd_peer *peer = psd_peer_find(t, p->job, p->task);
        bool serves = peer != NULL && peer->own_job;
        tasks = tasks || (!p->up && serves);
        sessions = sessions || (!p->up && !serves);
    }
    add_tasks(w, &names);
    const char *text = psd_names_text(&names);
    PSI_IGNORE(snprintf(out->what, sizeof(out->what), "up: %s", text)); /* cut is fine */
    PSI_IGNORE(snprintf(out->release, sizeof(out->release), "%s %s", text,
                        tasks && sessions ? "connect or open their sessions"
                        : tasks           ? "connects"
                                          : "opens its session")); /* cut is fine */
}

static void expire_tasks(struct psd_task *t, struct psd_wait *w)
{
    char buffer[PSD_NAMES_HALF];
    struct psd_names names = PSD_NAMES_IN(buffer);
    add_tasks(w, &names);
    fail_late(t, w, "up, as seen", &names);
}

static void drop_tasks(struct psd_task *t, struct psd_wait *w)
{
    for (uint32_t i = 0; i < w->need_count; i++) {
        struct psd_need *n = &w->needs[i];
        if (n->wait != NULL) {
            psi_list_remove(&n->at);
        }
        if (n->of != NULL) {
            psd_presence_put(t, presence_of(n));
        }
    }
}

static const struct psd_wait_kind of_tasks = {
    .look = look_at_presence, .describe = describe_tasks, .expire = expire_tasks, .drop = drop_tasks};

static ps_status read_variables(struct psd_task *t, struct psd_wait *w, const struct psd_request *r, struct psi_err *err)
{
    struct psi_items items = psd_items_of(r);
    ps_v1_HandleItem item;
    while (psi_items_next(&items, &ps_v1_HandleItem_msg, &item, err)) {
        struct psd_need *need = psd_wait_need(t, w, err);
        if (need == NULL) {
            return PS_RESOURCE_EXHAUSTED;
        }
        need->handle = item.handle;
        need->creation = item.creation;
    }
    return items.st;
}

static ps_status hang_on_variables(struct psd_task *t, struct psd_wait *w, struct psi_err *err)
{
    for (uint32_t i = 0; i < w->need_count; i++) {
        struct psd_need *n = &w->needs[i];
        const struct psd_variable *v = psd_variable_by_handle(&t->store, n->handle);
        if (v == NULL || v->creation != n->creation) {
            char name[32];
            PSI_IGNORE(snprintf(name, sizeof(name), "handle %u", n->handle)); /* fits */
            return psd_wait_gone(t, name, err);
        }
        ps_status st = psd_target_check(t, v, false, err);
        if (st != PS_OK) {
            return st;
        }
        psd_wait_hang(w, n, psd_variable_waiters(v));
    }
    return PS_OK;
}

static ps_status read_tasks(struct psd_task *t, struct psd_wait *w, const struct psd_request *r, struct psi_err *err)
{
    struct psi_items items = psd_items_of(r);
    ps_v1_TaskItem item;
    while (psi_items_next(&items, &ps_v1_TaskItem_msg, &item, err)) {
        char job[PS_JOB_BYTES_MAX + 1];
        ps_status st = psi_job_name_check((const char *)item.job.bytes, item.job.size, err);
        if (st == PS_OK) {
            st = PSI_BYTES_TEXT(item.job, job, sizeof(job));
        }
        if (st != PS_OK) {
            return st;
        }
        struct psd_need *need = psd_wait_need(t, w, err);
        struct psd_presence *presence = need == NULL ? NULL : get_presence(t, job, item.task, err);
        if (presence == NULL) {
            return PS_RESOURCE_EXHAUSTED;
        }
        need->of = &presence->waiters;
        presence->need_count++;
    }
    return items.st;
}

static ps_status hang_on_tasks(struct psd_task *t, struct psd_wait *w, struct psi_err *err)
{
    (void)t, (void)err;
    for (uint32_t i = 0; i < w->need_count; i++) {
        psd_wait_hang(w, &w->needs[i], w->needs[i].of);
    }
    return PS_OK;
}

typedef ps_status (*list_fn)(struct psd_task *t, struct psd_wait *w, const struct psd_request *r, struct psi_err *err);
typedef ps_status (*hang_fn)(struct psd_task *t, struct psd_wait *w, struct psi_err *err);

static void start(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, const struct psd_wait_kind *kind,
                  list_fn read, hang_fn hang)
{
    bool old = false;
    struct psi_err err;
    struct psd_wait *w = psd_wait_get(t, c, r, kind, &old);
    if (w == NULL || old) {
        return;
    }
    bool more = (r->header.flags & PS_FLAG_MORE) != 0;
    ps_status st = psd_wait_meta(t, w, r, &err);
    if (st == PS_OK) {
        st = read(t, w, r, &err);
    }
    if (st == PS_OK && !more) {
        st = hang(t, w, &err);
    }
    if (st != PS_OK) {
        psd_wait_refused(t, w, &err, st == PS_RESOURCE_EXHAUSTED ? LISTS_RETRY_MS : 0);
    } else if (!more) {
        psd_wait_open(t, w);
    }
}

void psd_rpc_wait(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    start(t, c, r, &of_variables, read_variables, hang_on_variables);
}

void psd_rpc_wait_cluster(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    start(t, c, r, &of_tasks, read_tasks, hang_on_tasks);
}

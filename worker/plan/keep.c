/* SPDX-License-Identifier: Apache-2.0 */
/* Session variables (keeps, keep.h), which carry values of a plan between runs. They are volatile, and lie in the session's own
 * container, so only the session and the executors of its runs can open them. Happy path: the first run with these types makes
 * all variables that it needs, with one list to the directory and one to each task; later runs with these types reuse them. A
 * variable's name has the numbers of plan and value, and a number that is never reused.
 *
 * Failure modes: after a failed run an assignment may still be on its way, and would overwrite what a later run assigns. So the
 * variables are given up: the loop thread asks the directory to delete them, nobody waits for the answers, and the next run makes
 * others. If that fails, they exist until the session ends. A recovered session has a new container (plans_forget()). */
#include "keep.h"

#include "worker/api/lock.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <string.h>

enum {
    /* most variables that one value has at one task: one for each dtype and shape, which may change from run to run */
    TYPES_MAX = 4,
    DELETE_MS = 10000 /* timeout of a deletion, which runs in the background */
};

static bool same_type(const struct psi_plan_keep *k, const struct psi_type *type)
{
    bool same = k->variable.dtype == type->dtype && k->variable.shape.rank == type->shape.rank;
    for (uint32_t d = 0; same && d < type->shape.rank; d++) {
        same = k->variable.shape.dims[d] == type->shape.dims[d];
    }
    return same;
}

struct psi_plan_keep *psi_plan_keep_for(struct psi_trip *t, uint32_t number, uint32_t place, struct psi_err *err)
{
    ps_plan *p = t->plan;
    const struct psi_type *type = &t->values[number].type;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &p->keeps) {
        struct psi_plan_keep *k = PSI_CONTAINER_OF(it, struct psi_plan_keep, link);
        if (k->number == number && k->place == place && same_type(k, type)) {
            k->used = p->runs;
            return k;
        }
    }
    struct psi_plan_keep *k = psi_aligned_calloc(PSI_CACHE_LINE, sizeof(*k));
    if (k == NULL) {
        PSI_IGNORE(psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for a value's variable")); /* NULL tells the caller */
        return NULL;
    }
    k->number = number;
    k->place = place;
    k->used = p->runs;
    k->variable.session = p->session;
    k->variable.dtype = type->dtype;
    k->variable.shape = type->shape;
    psi_list_init(&k->variable.link);
    (void)snprintf(k->variable.name, sizeof(k->variable.name), "plan%u/value%u_%llu", (unsigned)p->number, (unsigned)number,
                   (unsigned long long)p->keeps_made++);
    psi_list_push_back(&p->keeps, &k->link);
    return k;
}

static ps_status prepare(struct psi_api_call *call, struct psi_err *err)
{
    struct psi_plan_keep *k = call->arg;
    ps_variable *v = &k->variable;
    ps_variable_spec spec;
    struct psi_request_place place = {.pinned = true};
    const char *task = psi_client_task_name(call->client, k->place);
    ps_status st = psi_device_parse(task != NULL ? task : "", &place.device, err);
    ps_variable_spec_init(&spec);
    spec.dtype = v->dtype;
    spec.shape = v->shape;
    /* the session may send float32 as bfloat16, but a plan's values must stay exact */
    spec.wire_dtype = v->dtype == PS_F32 ? PS_F32 : PS_DTYPE_NONE;
    const struct psi_var_scope scope = {.container = v->container, .name = v->name, .apart = true, .place = &place};
    st = st == PS_OK ? psi_client_variable_in(call->client, &spec, &scope, false, &v->var, err) : st;
    call->req.kind = PSI_REQ_GET;
    call->req.var = v->var;
    return st;
}

static void finish(struct psi_api_call *call)
{
    struct psi_plan_keep *k = call->arg;
    psi_api_variable_known(&k->variable, call->client);
    k->made = true;
}

/* Set p->container and p->key, unless they are set, to the session's own container and its key. Blocks. */
static ps_status container_know(ps_plan *p, struct psi_err *err)
{
    return p->container[0] != '\0' ? PS_OK : psi_session_container(p->session, p->container, p->key, err);
}

ps_status psi_plan_keeps_make(struct psi_trip *t, struct psi_err *err)
{
    ps_plan *p = t->plan;
    struct psi_list works;
    struct psi_list *it = NULL;
    ps_status st = psi_list_empty(&p->keeps) ? PS_OK : container_know(p, err);
    psi_list_init(&works);
    if (st != PS_OK) {
        return st;
    }
    PSI_LIST_FOREACH(it, &p->keeps) {
        struct psi_plan_keep *k = PSI_CONTAINER_OF(it, struct psi_plan_keep, link);
        if (!k->made) {
            memcpy(k->variable.container, p->container, sizeof(p->container));
            k->call = (struct psi_api_call){.session = p->session,
                                            .prepare = prepare,
                                            .finish = finish,
                                            .arg = k,
                                            .variable = &k->variable,
                                            .timeout_ms = psi_trip_left_ms(t)};
            psi_list_push_back(&works, &k->call.work.link);
        }
    }
    if (psi_list_empty(&works)) {
        return PS_OK;
    }
    st = psi_api_calls_start(p->session, &works, err);
    if (st != PS_OK) {
        return st;
    }
    PSI_LIST_FOREACH(it, &p->keeps) {
        struct psi_plan_keep *k = PSI_CONTAINER_OF(it, struct psi_plan_keep, link);
        if (k->call.session != NULL) {
            struct psi_err own = {0};
            ps_status ended = psi_api_call_wait(&k->call, &own);
            k->call.session = NULL;
            if (ended != PS_OK && st == PS_OK) {
                st = ended;
                *err = own;
                psi_err_prefix(err, "the variable for a value of %s", k->variable.name);
            }
        }
    }
    return st;
}

/* Loop thread: free k, and the client's record of its variable; a record that an operation uses is freed with the session. */
static void keep_gone(struct psi_plan_keep *k, struct psi_client *c)
{
    ps_session *s = k->variable.session;
    if (k->variable.var != NULL) {
        PSI_IGNORE(psi_client_variable_drop(c, k->variable.var)); /* false: the record is freed with the session */
    }
    psi_free(k);
    psi_api_landed(s, NULL, NULL);
}

static void deleted(struct psi_request *req)
{
    keep_gone(PSI_CONTAINER_OF(req, struct psi_plan_keep, call.req), req->owner);
}

/* Loop thread: ask the directory to delete the keep's variable; keep_gone() follows. */
static void let_go(struct psi_io_work *work, struct psi_client *c)
{
    struct psi_plan_keep *k = PSI_CONTAINER_OF(work, struct psi_plan_keep, call.work);
    k->full = (struct psi_var_name){.container = k->variable.container, .name = k->variable.name};
    k->call.req = (struct psi_request){.kind = PSI_REQ_DELETE,
                                       .src = &k->full,
                                       .done = deleted,
                                       .deadline_ms = psi_api_deadline_ms(k->variable.session, DELETE_MS)};
    if (!k->made || k->variable.var == NULL || psi_client_start(c, &k->call.req, NULL) != PS_OK) {
        keep_gone(k, c);
    }
}

/* Count the keeps for the value and the task of `of` that were used later than `of`. They have other types. */
static uint32_t later_ones(const ps_plan *p, const struct psi_plan_keep *of)
{
    struct psi_list *it = NULL;
    uint32_t count = 0;
    PSI_LIST_FOREACH(it, &p->keeps) {
        const struct psi_plan_keep *k = PSI_CONTAINER_OF(it, struct psi_plan_keep, link);
        count += k->number == of->number && k->place == of->place && k->used > of->used;
    }
    return count;
}

void psi_plan_keeps_forget(ps_plan *p, bool all)
{
    ps_session *s = p->session;
    struct psi_list works;
    struct psi_list *it = NULL, *tmp = NULL;
    psi_list_init(&works);
    /* under the lock: a recovery must not free the client's records before the deletions count as in flight */
    (void)pthread_mutex_lock(&s->lock);
    const bool goes_on = psi_api_may_clear(s, NULL) == PS_OK;
    PSI_LIST_FOREACH_SAFE(it, tmp, &p->keeps) {
        struct psi_plan_keep *k = PSI_CONTAINER_OF(it, struct psi_plan_keep, link);
        if (!all && later_ones(p, k) < TYPES_MAX) {
            continue;
        }
        psi_list_remove(it);
        if (goes_on) {
            k->call = (struct psi_api_call){.work.run = let_go};
            psi_list_push_back(&works, &k->call.work.link);
            s->in_flight++;
        } else {
            psi_free(k); /* the session is ending or recovering, and the variable ends with it */
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (!psi_list_empty(&works)) {
        psi_io_submit_all(s->io, &works, false);
    }
}

void psi_plan_keeps_free(ps_plan *p)
{
    struct psi_list *it = NULL;
    while ((it = psi_list_pop_front(&p->keeps)) != NULL) {
        psi_free(PSI_CONTAINER_OF(it, struct psi_plan_keep, link));
    }
}

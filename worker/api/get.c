/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Getting variables: one, many, or those that ps_param_get() has put aside.
 *
 * Happy path: psi_api_get_new() names and places a variable and makes its public record -> run() starts the gets of a batch in
 * one event of the loop, those put aside first. So turns of the round-robin are taken in the order of the calls, and the core
 * sends one list to the directory and one to each owner -> the owner's answer is copied into the public record, which never
 * changes afterwards except for its version. Failure modes: each get has its own error, the others go on. A failed get's name
 * counts as not got, and its record is freed; the core keeps its own until the session closes. The error of a parameter sticks to
 * the session.
 */
#include "lock.h"
#include "monitored.h"
#include "queue.h"

#include "common/abi.h"
#include "common/mem.h"
#include "common/optimizer.h"
#include "common/shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char global_step_name[] = "global_step";

static ps_status prepare_get(struct psi_api_call *call, struct psi_err *err)
{
    struct psi_api_get *get = call->arg;
    call->req.kind = get->scoped.must_exist ? PSI_REQ_LOOKUP : PSI_REQ_GET;
    call->req.var = get->v->var;
    if (get->v->var != NULL) { /* an interrupted get has its record already */
        return PS_OK;
    }
    const struct psi_var_scope scope = {.container = get->scoped.container,
                                        .name = get->scoped.name,
                                        .must_exist = get->scoped.must_exist,
                                        .soft_placement = call->session->allow_soft_placement,
                                        .place = &get->scoped.place,
                                        .queue = get->queue,
                                        .elements = &get->elements,
                                        .part = get->part.count > 0 ? &get->part : NULL};
    ps_status st = psi_client_variable_in(call->client, &get->spec, &scope, get->how == PSI_SCOPE_FIND, &get->v->var, err);
    call->req.var = get->v->var;
    return st;
}

void psi_api_variable_known(ps_variable *v, const struct psi_client *c)
{
    const struct psi_var *var = v->var;
    const char *task = psi_client_task_name(c, var->owner);
    (void)snprintf(v->device, sizeof(v->device), "%s/device:CPU:0", task);
    const char *index = strrchr(task, ':');
    v->task = index == NULL ? 0 : (int)strtol(index + 1, NULL, 10);
    v->dtype = var->dtype;
    v->shape = var->shape;
    v->bytes = var->elements * ps_dtype_bytes(var->dtype);
    v->part = var->part;
    v->slot_count = v->row_slots = 0;
    for (uint8_t i = 0; psi_optimizer_slot(&var->optimizer, i) != NULL; i++) {
        v->row_slots = (uint8_t)(v->row_slots | (psi_optimizer_slot(&var->optimizer, i)->by_row ? 1u << i : 0));
        v->slot_count++;
    }
    v->version = var->version;
}

static void finish_get(struct psi_api_call *call)
{
    struct psi_api_get *get = call->arg;
    psi_api_variable_known(get->v, call->client);
    get->creation = get->v->var->creation;
    if (get->queue) {
        PSI_CONTAINER_OF(get->v, ps_queue, variable)->spec = get->v->var->queue->spec;
    }
}

ps_status psi_api_spec_take(const ps_variable_spec *from, enum psi_scope_how how, ps_variable_spec *to, ps_optimizer *optimizer,
                            struct psi_err *err)
{
    if (from == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the spec is NULL");
    }
    ps_variable_spec_init(to);
    ps_status st = psi_struct_take(from, to, sizeof(*to), "ps_variable_spec_init", err);
    if (st != PS_OK) {
        psi_err_prefix(err, "the spec");
        return st;
    }
    if (to->optimizer != NULL) {
        *optimizer = *ps_no_optimizer();
        st = psi_struct_take(to->optimizer, optimizer, sizeof(*optimizer), "ps_optimizer_parse", err);
        to->optimizer = optimizer;
    }
    if (st != PS_OK) {
        psi_err_prefix(err, "the optimizer");
        return st;
    }
    if (how == PSI_SCOPE_FIND && to->name == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the variable's name is NULL");
    }
    return PS_OK;
}

/* Copy the spec and what it points to, which the program may free. */
static void spec_keep(struct psi_api_get *get, const ps_variable_spec *spec)
{
    get->spec = *spec;
    if (spec->init != NULL) {
        get->init = *spec->init;
        get->spec.init = &get->init;
    }
    if (spec->optimizer != NULL) {
        get->optimizer = *spec->optimizer;
        get->spec.optimizer = &get->optimizer;
    }
}

static ps_variable *record_new(bool queue)
{
    ps_queue *q = queue ? psi_calloc(1, sizeof(*q)) : NULL;
    if (q != NULL) {
        psi_list_init(&q->spare);
        psi_list_init(&q->lent);
    }
    return !queue ? psi_aligned_calloc(PSI_CACHE_LINE, sizeof(ps_variable)) : q != NULL ? &q->variable : NULL;
}

/* queue: it is a queue; elements: its definition, NULL: it is only looked up. */
static ps_status get_new(ps_session *s, const ps_variable_spec *given, enum psi_scope_how how, bool queue,
                         const struct psi_queue_spec *elements, ps_variable **out_variable, struct psi_api_get **out_get,
                         struct psi_err *err)
{
    ps_variable_spec spec;
    ps_optimizer optimizer;
    struct psi_scoped scoped;
    ps_status st = psi_api_check(s, true, err);
    st = st == PS_OK ? psi_api_spec_take(given, how, &spec, &optimizer, err) : st;
    st = st == PS_OK ? psi_api_scope(s, &spec, how, elements, &scoped, err) : st;
    if (st != PS_OK) {
        return st;
    }
    struct psi_api_get *get = psi_calloc(1, sizeof(*get));
    ps_variable *v = record_new(queue);
    if (get == NULL || v == NULL) {
        psi_api_unscope(s, &scoped);
        psi_free(get);
        psi_free(v);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s '%s': out of memory", queue ? "queue" : "variable", scoped.name);
    }
    get->queue = queue;
    if (elements != NULL) {
        get->elements = *elements;
    }
    v->session = s;
    psi_list_init(&v->link);
    memcpy(v->container, scoped.container, sizeof(v->container));
    memcpy(v->name, scoped.name, sizeof(v->name));
    (void)psi_device_format(&scoped.place.device, v->requested, sizeof(v->requested));
    (void)snprintf(v->device, sizeof(v->device), "a ps task");
    spec_keep(get, &spec);
    get->scoped = scoped;
    get->how = how;
    get->v = v;
    get->out = out_variable;
    get->call = (struct psi_api_call){.session = s, .prepare = prepare_get, .finish = finish_get, .arg = get, .variable = v};
    psi_list_init(&get->link);
    *out_get = get;
    return PS_OK;
}

ps_status psi_api_get_new(ps_session *s, const ps_variable_spec *given, enum psi_scope_how how, ps_variable **out_variable,
                          struct psi_api_get **out_get, struct psi_err *err)
{
    return get_new(s, given, how, false, NULL, out_variable, out_get, err);
}

static void get_free(struct psi_api_get *get)
{
    if (!get->got) {
        psi_free(get->v);
    }
    psi_free(get);
}

/* True if it is to be got again after a loss of the session: variables that the session has, and parameters that a loss kept
 * from being got, because the program has them. */
static bool is_kept(ps_session *s, const struct psi_api_get *get, const struct psi_err *err)
{
    if (s->monitor == NULL) {
        return false;
    }
    (void)pthread_mutex_lock(&s->lock);
    const bool kept = err->code == PS_OK || (get->sticks && psi_session_mends(&s->machine, err));
    (void)pthread_mutex_unlock(&s->lock);
    return kept;
}

static bool is_same_name(const struct psi_scoped *a, const struct psi_scoped *b)
{
    return strcmp(a->container, b->container) == 0 && strcmp(a->name, b->name) == 0;
}

/* Under the lock: the session has got this queue. An older get of the name with another definition is removed, because somebody
 * has deleted that queue. */
static void forget_older(ps_session *s, const struct psi_api_get *get)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &s->monitor->gets) {
        struct psi_api_get *old = PSI_CONTAINER_OF(it, struct psi_api_get, link);
        const bool made = get->got && get->queue && old->queue && get->how == PSI_SCOPE_GET && old->how == PSI_SCOPE_GET;
        old->deleted = old->deleted || (made && is_same_name(&old->scoped, &get->scoped) &&
                                        !psi_queue_spec_equal(&old->elements, &get->elements));
    }
}

/* The batch of this get has ended: keep it, or free it. */
static void get_over(ps_session *s, struct psi_api_get *get, bool kept)
{
    if (!kept) {
        get_free(get);
        return;
    }
    get->spec.name = NULL; /* the caller's text; get->scoped has what the scopes made of it */
    get->spec.device = NULL;
    get->spec.type = NULL;
    (void)pthread_mutex_lock(&s->lock);
    forget_older(s, get);
    psi_list_push_back(&s->monitor->gets, &get->link);
    (void)pthread_mutex_unlock(&s->lock);
}

/* Append the list of devices to the error of a device that does not exist. */
static void add_devices(ps_session *s, struct psi_err *err)
{
    char text[PSI_ERR_TEXT_MAX / 2];
    psi_api_devices_text(s, text, sizeof(text));
    size_t at = strlen(err->text);
    if (text[0] != '\0') {
        (void)snprintf(err->text + at, sizeof(err->text) - at, "; the cluster has %s", text);
    }
}

/* The call of this get has ended with *err: give the variable to the session, or free it. */
static void get_end(ps_session *s, struct psi_api_get *get, bool kept, struct psi_err *err)
{
    if (err->code == PS_OK) {
        (void)pthread_mutex_lock(&s->lock);
        psi_list_push_back(get->queue ? &s->queues : &s->variables, &get->v->link);
        *get->out = get->v;
        if (get->out_open != NULL) {
            *get->out_open = true;
        }
        (void)pthread_mutex_unlock(&s->lock);
        if (get->scoped.first) {
            psi_api_log_placement(s, get->v, get->spec.type);
        }
        get->got = true;
        return;
    }
    if (err->reason == PS_REASON_NO_DEVICE) {
        add_devices(s, err);
    }
    if (err->code == PS_NOT_FOUND && get->only_reads) {
        err->code = PS_FAILED_PRECONDITION;
        psi_err_prefix(err, "an evaluator makes no variable");
    } else if (err->code == PS_NOT_FOUND && get->scoped.must_exist && get->how == PSI_SCOPE_GET) {
        psi_err_prefix(err, "its scope says PS_REUSE_ALWAYS");
    }
    if (!kept) {
        psi_api_unscope(s, &get->scoped);
    }
}

static ps_status start_all(ps_session *s, const struct psi_list *gets, struct psi_err *err)
{
    struct psi_list works;
    struct psi_list *it = NULL;
    psi_list_init(&works);
    PSI_LIST_FOREACH(it, gets) {
        psi_list_push_back(&works, &PSI_CONTAINER_OF(it, struct psi_api_get, link)->call.work.link);
    }
    return psi_api_calls_start(s, &works, err);
}

/* Run all gets of the list at once, and empty the list. *err, PS_OK before, is the first failure. The failure of a parameter
 * sticks to the session instead. A parameter whose get was interrupted goes to `again`. */
static void run_batch(ps_session *s, struct psi_list *gets, struct psi_list *again, struct psi_err *err)
{
    struct psi_err refused = {0};
    struct psi_list *it = NULL;
    if (psi_list_empty(gets)) {
        return;
    }
    bool started = start_all(s, gets, &refused) == PS_OK;
    while ((it = psi_list_pop_front(gets)) != NULL) {
        struct psi_api_get *get = PSI_CONTAINER_OF(it, struct psi_api_get, link);
        struct psi_err own = refused;
        if (started) {
            PSI_IGNORE(psi_api_call_wait(&get->call, &own)); /* the error is in own */
        }
        if (get->sticks && psi_api_is_interrupt(&own)) {
            get->call.req = (struct psi_request){.kind = PSI_REQ_NONE};
            psi_list_push_back(again, &get->link);
            continue;
        }
        const bool kept = is_kept(s, get, &own);
        get_end(s, get, kept, &own);
        if (own.code != PS_OK && get->sticks) {
            psi_err_prefix(&own, "ps_param_get");
            PSI_IGNORE(psi_api_last_error_set(&own)); /* the error is in own */
            PSI_IGNORE(psi_api_stick(s, &own));       /* psi_api_settle() returns it */
        } else if (own.code != PS_OK && err->code == PS_OK) {
            *err = own;
        }
        get_over(s, get, kept);
    }
}

/* Free gets that were not tried. */
static void give_up(ps_session *s, struct psi_list *gets)
{
    struct psi_list *it = NULL;
    while ((it = psi_list_pop_front(gets)) != NULL) {
        struct psi_api_get *get = PSI_CONTAINER_OF(it, struct psi_api_get, link);
        psi_api_unscope(s, &get->scoped);
        get_free(get);
    }
}

void psi_api_gets_drop(ps_session *s, struct psi_list *gets)
{
    give_up(s, gets);
}

void psi_api_get_once(ps_session *s, const ps_variable *v)
{
    struct psi_list *it = NULL;
    if (s->monitor == NULL || v == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&s->lock);
    PSI_LIST_FOREACH(it, &s->monitor->gets) {
        struct psi_api_get *get = PSI_CONTAINER_OF(it, struct psi_api_get, link);
        get->deleted = get->deleted || get->v == v;
    }
    (void)pthread_mutex_unlock(&s->lock);
}

/* No thread gets what was put aside. */
static bool is_settled(ps_session *s, const void *none)
{
    (void)none;
    return !s->settling;
}

/* Run the gets that were put aside, and then these, which may be none. */
static void run(ps_session *s, struct psi_list *gets, struct psi_err *err)
{
    struct psi_list all, again;
    psi_list_init(&all);
    psi_list_init(&again);
    const struct psi_who who = psi_api_who(s);
    (void)pthread_mutex_lock(&s->lock);
    psi_api_wait_until(s, is_settled, NULL, PSI_WAIT_DRIVES | PSI_WAIT_CUT);
    if ((s->settling && psi_api_interrupted(s, err) != PS_OK) ||
        psi_session_bars(&s->machine, &who, err)) { /* a recovery gets what was put aside */
        (void)pthread_mutex_unlock(&s->lock);
        give_up(s, gets);
        return;
    }
    bool settles = !psi_list_empty(&s->aside);
    s->settling = settles;
    s->inside++;
    psi_list_move_all(&all, &s->aside);
    (void)pthread_mutex_unlock(&s->lock);
    struct psi_list *first = psi_list_first(gets);
    if (first != NULL && PSI_CONTAINER_OF(first, struct psi_api_get, link)->scoped.must_exist) {
        run_batch(s, &all, &again, err); /* a variable that is looked up may be among those that were put aside */
    }
    psi_list_move_all(&all, gets);
    run_batch(s, &all, &again, err);
    (void)pthread_mutex_lock(&s->lock);
    psi_list_move_all(&again, &s->aside); /* interrupted gets keep their order, before newer ones */
    psi_list_move_all(&s->aside, &again);
    s->settling = s->settling && !settles;
    s->inside--;
    psi_api_wake(s);
    (void)pthread_mutex_unlock(&s->lock);
}

ps_status psi_api_settle(ps_session *s)
{
    struct psi_err err = {0};
    struct psi_list none;
    (void)pthread_mutex_lock(&s->lock);
    const bool settled = psi_list_empty(&s->aside) && !s->settling;
    (void)pthread_mutex_unlock(&s->lock);
    if (!settled) {
        psi_list_init(&none);
        run(s, &none, &err);
    }
    return psi_api_go_on(s);
}

void psi_api_put_aside(ps_session *s, struct psi_api_get *get)
{
    get->sticks = true;
    (void)pthread_mutex_lock(&s->lock);
    psi_list_push_back(&s->aside, &get->link);
    (void)pthread_mutex_unlock(&s->lock);
}

void psi_api_gets_free(struct psi_list *gets)
{
    struct psi_list *it = NULL;
    while ((it = psi_list_pop_front(gets)) != NULL) {
        get_free(PSI_CONTAINER_OF(it, struct psi_api_get, link));
    }
}

void psi_api_aside_free(ps_session *s)
{
    psi_api_gets_free(&s->aside);
}

void psi_api_gets_forget(ps_session *s)
{
    struct psi_list *it = NULL;
    (void)pthread_mutex_lock(&s->lock);
    PSI_LIST_FOREACH(it, &s->aside) { /* after an interrupted get v->var may point to a record of the core */
        PSI_CONTAINER_OF(it, struct psi_api_get, link)->v->var = NULL;
    }
    PSI_LIST_FOREACH(it, &s->monitor->gets) {
        ps_variable *v = PSI_CONTAINER_OF(it, struct psi_api_get, link)->v;
        v->var = NULL;
        v->from = 0;
        v->exact = false;
    }
    (void)pthread_mutex_unlock(&s->lock);
}

uint64_t psi_api_gets_restored(ps_session *s, bool *out_all)
{
    struct psi_list *it = NULL;
    uint64_t newest = 0;
    *out_all = true;
    PSI_LIST_FOREACH(it, &s->monitor->gets) { /* no other thread uses the list during a recovery */
        struct psi_api_get *get = PSI_CONTAINER_OF(it, struct psi_api_get, link);
        newest = get->checkpoint > newest ? get->checkpoint : newest;
        *out_all = *out_all && (get->checkpoint != 0 || get->queue || get->deleted);
        get->checkpoint = 0;
    }
    return newest;
}

/* Update the public record after a recovery. Only the place may change, and is written only if it does, because programs read
 * the record without a lock. */
static void finish_again(struct psi_api_call *call)
{
    struct psi_api_get *get = call->arg;
    ps_variable *v = get->v;
    const struct psi_var *var = v->var;
    char device[sizeof(v->device)];
    if (!get->got) {
        finish_get(call);
        return;
    }
    if (get->creation != var->creation) {
        get->creation = var->creation;
        get->checkpoint = var->checkpoint;
    }
    get->differs = get->queue ? !psi_queue_spec_equal(&PSI_CONTAINER_OF(v, ps_queue, variable)->spec, &var->queue->spec)
                              : v->dtype != var->dtype || !psi_shape_equal(&v->shape, &var->shape);
    (void)snprintf(device, sizeof(device), "%s/device:CPU:0", psi_client_task_name(call->client, var->owner));
    if (!get->differs && strcmp(device, v->device) != 0) {
        finish_get(call);
    }
}

/* Adapt the error of a get in a recovery. A found queue that does not exist is no error unless `waits`: calls on it then say
 * so. */
static void get_end_again(ps_session *s, struct psi_api_get *get, bool waits, struct psi_err *err)
{
    if (err->code == PS_NOT_FOUND && get->queue && !waits) {
        *err = (struct psi_err){0};
        return;
    }
    if (err->code == PS_OK && !get->got) {
        get_end(s, get, true, err);
    } else if (err->code == PS_OK && get->differs) {
        PSI_IGNORE(psi_fail(err, PS_FAILED_PRECONDITION, "another dtype or shape than before the session was lost"));
    } else if (err->code == PS_NOT_FOUND && get->scoped.must_exist) {
        err->code = PS_UNAVAILABLE; /* somebody else may make it */
    }
}

/* True if no later attempt can succeed. */
static bool is_for_good(ps_session *s, const struct psi_err *err)
{
    (void)pthread_mutex_lock(&s->lock);
    const bool mends = psi_session_mends(&s->machine, err);
    (void)pthread_mutex_unlock(&s->lock);
    return err->code != PS_OK && err->code != PS_DEADLINE_EXCEEDED && !mends;
}

void psi_api_get_deleted(ps_session *s, const struct psi_scoped *scoped)
{
    struct psi_list *it = NULL;
    if (s->monitor == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&s->lock);
    PSI_LIST_FOREACH(it, &s->monitor->gets) {
        struct psi_api_get *get = PSI_CONTAINER_OF(it, struct psi_api_get, link);
        const bool needed = get->sticks || get->v == s->global_step_variable;
        get->deleted = get->deleted || (is_same_name(&get->scoped, scoped) && !needed);
    }
    (void)pthread_mutex_unlock(&s->lock);
}

ps_status psi_api_get_again(ps_session *s, int64_t timeout_ms, bool waits, struct psi_err *err)
{
    struct psi_list works;
    struct psi_list *it = NULL;
    bool for_good = false;
    psi_list_init(&works);
    *err = (struct psi_err){0};
    PSI_LIST_FOREACH(it, &s->monitor->gets) { /* no other thread uses the list during a recovery */
        struct psi_api_get *get = PSI_CONTAINER_OF(it, struct psi_api_get, link);
        get->call = (struct psi_api_call){.session = s,
                                          .prepare = prepare_get,
                                          .finish = finish_again,
                                          .arg = get,
                                          .variable = get->v,
                                          .timeout_ms = timeout_ms};
        if (!get->deleted) {
            psi_list_push_back(&works, &get->call.work.link);
        }
    }
    ps_status st = psi_list_empty(&works) ? PS_OK : psi_api_calls_start(s, &works, err);
    if (st != PS_OK) {
        return st;
    }
    PSI_LIST_FOREACH(it, &s->monitor->gets) {
        struct psi_api_get *get = PSI_CONTAINER_OF(it, struct psi_api_get, link);
        struct psi_err own = {0};
        if (get->deleted) {
            continue;
        }
        PSI_IGNORE(psi_api_call_wait(&get->call, &own)); /* the error is in own */
        get_end_again(s, get, waits, &own);
        const bool good = is_for_good(s, &own);
        if (own.code != PS_OK && (err->code == PS_OK || (good && !for_good))) {
            psi_err_prefix(&own, "%s '%s'", get->queue ? "queue" : "variable", get->v->name);
            *err = own;
            for_good = good;
        }
    }
    return err->code;
}

ps_status psi_api_get_run(ps_session *s, struct psi_api_get *get, struct psi_err *err)
{
    struct psi_list one;
    psi_list_init(&one);
    psi_list_push_back(&one, &get->link);
    run(s, &one, err);
    return err->code;
}

void psi_api_gets_run(ps_session *s, struct psi_list *gets, struct psi_err *err)
{
    run(s, gets, err);
}

void psi_api_get_looks(const ps_session *s, struct psi_api_get *get)
{
    get->only_reads = !get->scoped.must_exist && psi_api_evaluates(s);
    get->scoped.must_exist = get->scoped.must_exist || get->only_reads;
}

/* Get or create, or look up, in the session's scopes, and publish. given: of a header of any version. *err is PS_OK before. */
ps_status psi_api_get_one(ps_session *s, const ps_variable_spec *given, enum psi_scope_how how, ps_variable **out_variable,
                          struct psi_err *err)
{
    struct psi_api_get *get = NULL;
    ps_status st = psi_api_get_new(s, given, how, out_variable, &get, err);
    if (st == PS_OK && how == PSI_SCOPE_GET) {
        psi_api_get_looks(s, get);
    }
    return st == PS_OK ? psi_api_get_run(s, get, err) : st;
}

ps_status psi_api_queue_get(ps_session *s, const ps_variable_spec *spec, enum psi_scope_how how,
                            const struct psi_queue_spec *elements, ps_queue **out_queue, struct psi_err *err)
{
    PSI_API_VISIT(s);
    struct psi_api_get *get = NULL;
    ps_variable *v = NULL;
    ps_status st = get_new(s, spec, how, true, elements, &v, &get, err);
    st = st == PS_OK ? psi_api_get_run(s, get, err) : st;
    if (st == PS_OK) {
        *out_queue = PSI_CONTAINER_OF(v, ps_queue, variable);
    }
    return st;
}

ps_status psi_api_global_step(ps_session *s, ps_variable **out_variable, struct psi_err *err)
{
    ps_status st = psi_api_check(s, true, err);
    if (st != PS_OK) {
        return st;
    }
    (void)pthread_mutex_lock(&s->lock);
    ps_variable *known = s->global_step_variable;
    (void)pthread_mutex_unlock(&s->lock);
    if (known == NULL) {
        ps_variable_spec spec;
        ps_variable_spec_init(&spec);
        spec.name = global_step_name;
        spec.dtype = PS_I64;
        st = psi_api_get_one(s, &spec, PSI_SCOPE_GLOBAL, &known, err);
        if (st != PS_OK) {
            return st;
        }
        (void)pthread_mutex_lock(&s->lock);
        s->global_step_variable = known;
        (void)pthread_mutex_unlock(&s->lock);
    }
    *out_variable = known;
    return PS_OK;
}

ps_status ps_global_step_get(ps_session *s, ps_variable **out_variable)
{
    PSI_API_VISIT(s);
    struct psi_err err = {0};
    ps_status st = out_variable == NULL ? psi_fail(&err, PS_INVALID_ARGUMENT, "out_variable is NULL")
                                        : psi_api_global_step(s, out_variable, &err);
    return psi_api_result(&err, st);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Getting variables: one, many, or those that ps_param_get() has put aside.
 *
 * Happy path: psi_api_get_new() finds a variable's name and device, and makes its public record (ps_variable). run() starts all
 * gets at once, first those put aside, in the order of the program's calls; so the core sends one list to the directory and one
 * to each task. The task's answer is copied into the public record. Later the record's version changes, in a recovery its task.
 * Failure modes: each get has its own error, and the others continue. After a failure the name is free again, and the public
 * record is freed; the core's record stays until the session closes. The error of a parameter's get sticks to the session. */
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
    if (get->v->var != NULL) { /* an earlier attempt of this get was interrupted after it had made the core's record */
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

/* Copy the spec, and what it points to, because the program may free its own. */
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

/* psi_api_get_new(), also for a queue. elements: definition of the queue; NULL: the queue is only looked up. */
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
    psi_list_init(&get->get.link);
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
    if (get->get.state != PSI_GET_GOT && get->get.state != PSI_GET_DELETED) {
        psi_free(get->v);
    }
    psi_free(get);
}

static bool is_same_name(const struct psi_scoped *a, const struct psi_scoped *b)
{
    return strcmp(a->container, b->container) == 0 && strcmp(a->name, b->name) == 0;
}

/* Call when the session has got a queue. Marks earlier gets of this name with another definition as deleted, because that queue
 * no longer exists: a recovery must not make it again. The caller holds the lock. */
static void forget_older(ps_session *s, const struct psi_api_get *get)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &s->gets.kept) {
        struct psi_api_get *old = PSI_CONTAINER_OF(it, struct psi_api_get, get.link);
        if (old->queue && old->how == PSI_SCOPE_GET && is_same_name(&old->scoped, &get->scoped) &&
            !psi_queue_spec_equal(&old->elements, &get->elements)) {
            psi_get_delete(&s->gets, &old->get);
        }
    }
}

static void add_devices(ps_session *s, struct psi_err *err)
{
    char text[PSI_ERR_TEXT_MAX / 2];
    psi_api_devices_text(s, text, sizeof(text));
    size_t at = strlen(err->text);
    if (text[0] != '\0') {
        (void)snprintf(err->text + at, sizeof(err->text) - at, "; the cluster has %s", text);
    }
}

/* Report to the state machine of gets how this get has ended. On success, give the variable to the session and the program. */
static enum psi_get_state end(ps_session *s, struct psi_api_get *get, const struct psi_err *err)
{
    (void)pthread_mutex_lock(&s->lock);
    const enum psi_get_end how = err->code == PS_OK                    ? PSI_GET_OK
                                 : psi_api_is_interrupt(err)           ? PSI_GET_INTERRUPTED
                                 : psi_session_mends(&s->machine, err) ? PSI_GET_BY_LOSS
                                                                       : PSI_GET_ERROR;
    const enum psi_get_state state = psi_get_ended(&s->gets, &get->get, how, s->monitor != NULL);
    if (state == PSI_GET_GOT) {
        psi_list_push_back(get->queue ? &s->queues : &s->variables, &get->v->link);
        *get->out = get->v;
        if (get->out_open != NULL) {
            *get->out_open = true;
        }
        if (get->queue && get->how == PSI_SCOPE_GET) {
            forget_older(s, get);
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
    return state;
}

/* Call when a get has ended. Logs where its variable is, or completes the text of *err. If the get has failed for good, lets the
 * scopes forget the name. Returns the get's state. */
static enum psi_get_state get_end(ps_session *s, struct psi_api_get *get, struct psi_err *err)
{
    const enum psi_get_state state = end(s, get, err);
    if (state == PSI_GET_GOT && get->scoped.first) {
        psi_api_log_placement(s, get->v, get->spec.type);
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
    if (state == PSI_GET_FAILED) {
        psi_api_unscope(s, &get->scoped);
    }
    return state;
}

static ps_status start_all(ps_session *s, const struct psi_list *gets, struct psi_err *err)
{
    struct psi_list works;
    struct psi_list *it = NULL;
    psi_list_init(&works);
    PSI_LIST_FOREACH(it, gets) {
        psi_list_push_back(&works, &PSI_CONTAINER_OF(it, struct psi_api_get, get.link)->call.work.link);
    }
    return psi_api_calls_start(s, &works, err);
}

/* Run all gets of the list at once, and empty the list. *err, zeroed before, gets the first failure. But if a get was put aside
 * (ps_param_get()), its failure sticks to the session; if it is interrupted, it is moved to the list `again`. */
static void run_batch(ps_session *s, struct psi_list *gets, struct psi_list *again, struct psi_err *err)
{
    struct psi_err refused = {0};
    struct psi_list *it = NULL;
    if (psi_list_empty(gets)) {
        return;
    }
    bool started = start_all(s, gets, &refused) == PS_OK;
    while ((it = psi_list_pop_front(gets)) != NULL) {
        struct psi_api_get *get = PSI_CONTAINER_OF(it, struct psi_api_get, get.link);
        struct psi_err own = refused;
        if (started) {
            PSI_IGNORE(psi_api_call_wait(&get->call, &own)); /* the error is in own */
        }
        if (get_end(s, get, &own) == PSI_GET_ASIDE) {
            get->call.req = (struct psi_request){.kind = PSI_REQ_NONE};
            psi_list_push_back(again, &get->get.link);
            continue;
        }
        get->spec.name = get->spec.device = get->spec.type = NULL; /* do not keep the caller's texts; get->scoped has the name */
        if (own.code != PS_OK && get->get.sticks) {
            psi_err_prefix(&own, "ps_param_get");
            PSI_IGNORE(psi_api_last_error_set(&own)); /* the error is in own */
            /* nobody waits for this get: psi_api_settle() and later calls return the error as the session's */
            PSI_IGNORE(psi_api_stick(s, &own));
        } else if (own.code != PS_OK && err->code == PS_OK) {
            *err = own;
        }
        if (!psi_list_linked(&get->get.link)) { /* no recovery repeats this get */
            get_free(get);
        }
    }
}

void psi_api_gets_drop(ps_session *s, struct psi_list *gets)
{
    struct psi_list *it = NULL;
    while ((it = psi_list_pop_front(gets)) != NULL) {
        struct psi_api_get *get = PSI_CONTAINER_OF(it, struct psi_api_get, get.link);
        psi_api_unscope(s, &get->scoped);
        get_free(get);
    }
}

/* Mark each kept get for which is(s, get, ctx) is true as deleted, so that recoveries do not repeat it. */
static void delete_all(ps_session *s, bool (*is)(const ps_session *s, const struct psi_api_get *get, const void *ctx),
                       const void *ctx)
{
    struct psi_list *it = NULL;
    (void)pthread_mutex_lock(&s->lock);
    PSI_LIST_FOREACH(it, &s->gets.kept) {
        struct psi_api_get *get = PSI_CONTAINER_OF(it, struct psi_api_get, get.link);
        if (is(s, get, ctx)) {
            psi_get_delete(&s->gets, &get->get);
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
}

static bool is_of(const ps_session *s, const struct psi_api_get *get, const void *variable)
{
    (void)s;
    return variable != NULL && get->v == variable;
}

void psi_api_get_once(ps_session *s, const ps_variable *v)
{
    delete_all(s, is_of, v);
}

struct getting {
    struct psi_list *gets; /* the thread's own gets; may be empty */
    bool settles;          /* the thread runs no gets if the session has an error */
    struct psi_list all;   /* gets that were put aside, which the thread runs first */
    enum psi_gets_do what;
    ps_status st;       /* settles: the session's error */
    struct psi_err err; /* why the thread runs no gets: another thread recovers the session; code PS_OK: it may run them */
};

/* Condition for psi_api_await(): no other thread runs gets. If this thread is to run gets now, s->inside counts it. */
static bool comes(ps_session *s, void *getting)
{
    struct getting *g = getting;
    bool barred = false;
    g->st = PS_OK;
    psi_err_none(&g->err);
    if (!psi_session_runs(&s->machine)) {
        const struct psi_who who = psi_api_who(s);
        barred = psi_session_bars(&s->machine, &who, &g->err);
        g->st = g->settles ? psi_session_error(&s->machine, &who, NULL) : PS_OK;
    }
    g->what = g->st != PS_OK ? PSI_GETS_NOTHING : psi_gets_come(&s->gets, g->gets, barred, &g->all);
    s->inside += g->what == PSI_GETS_RUN || g->what == PSI_GETS_SETTLE ? 1 : 0;
    return g->what != PSI_GETS_WAIT;
}

/* Run the gets that psi_api_put_aside() has put aside, and then g->gets. False: none was run, because there is none, or for the
 * reason in *err or g->st. */
static bool run(ps_session *s, struct getting *g, struct psi_err *err)
{
    struct psi_list again;
    psi_list_init(&g->all);
    psi_list_init(&again);
    const bool come = psi_api_await(s, comes, g, PSI_WAIT_DRIVES | PSI_WAIT_CUT);
    if (!come || g->what == PSI_GETS_NOTHING) {
        if (!come) {
            PSI_IGNORE(psi_api_interrupted(s, err)); /* the reason is in *err */
        } else if (!psi_list_empty(g->gets)) {
            *err = g->err;
        }
        psi_api_gets_drop(s, g->gets);
        return false;
    }
    struct psi_list *first = psi_list_first(g->gets);
    if (first != NULL && PSI_CONTAINER_OF(first, struct psi_api_get, get.link)->scoped.must_exist) {
        run_batch(s, &g->all, &again, err); /* a get that was put aside may create the variable that is now looked up */
    }
    psi_list_move_all(&g->all, g->gets);
    run_batch(s, &g->all, &again, err);
    (void)pthread_mutex_lock(&s->lock);
    psi_gets_over(&s->gets, g->what, &again);
    s->inside--;
    psi_api_wake(s);
    (void)pthread_mutex_unlock(&s->lock);
    return true;
}

ps_status psi_api_settle(ps_session *s, bool anyway)
{
    struct psi_err err;
    struct psi_list none;
    struct getting g;
    psi_err_none(&err);
    psi_list_init(&none);
    g.gets = &none;
    g.settles = !anyway;
    if (run(s, &g, &err) || anyway) {
        return psi_api_go_on(s);
    }
    return g.st != PS_OK ? g.st : psi_api_result(&err, psi_api_interrupted(s, &err));
}

void psi_api_put_aside(ps_session *s, struct psi_api_get *get)
{
    (void)pthread_mutex_lock(&s->lock);
    psi_gets_put_aside(&s->gets, &get->get);
    (void)pthread_mutex_unlock(&s->lock);
}

void psi_api_gets_free(ps_session *s)
{
    struct psi_list *it = NULL;
    psi_list_move_all(&s->gets.aside, &s->gets.kept);
    while ((it = psi_list_pop_front(&s->gets.aside)) != NULL) {
        get_free(PSI_CONTAINER_OF(it, struct psi_api_get, get.link));
    }
}

void psi_api_gets_forget(ps_session *s)
{
    struct psi_list *it = NULL;
    (void)pthread_mutex_lock(&s->lock);
    /* an interrupted get may have set v->var to a record of the core, which will be freed */
    PSI_LIST_FOREACH(it, &s->gets.aside) {
        PSI_CONTAINER_OF(it, struct psi_api_get, get.link)->v->var = NULL;
    }
    PSI_LIST_FOREACH(it, &s->gets.kept) {
        ps_variable *v = PSI_CONTAINER_OF(it, struct psi_api_get, get.link)->v;
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
    PSI_LIST_FOREACH(it, &s->gets.kept) { /* without the lock: no other thread uses the list during a recovery */
        struct psi_api_get *get = PSI_CONTAINER_OF(it, struct psi_api_get, get.link);
        newest = get->checkpoint > newest ? get->checkpoint : newest;
        *out_all = *out_all && (get->checkpoint != 0 || get->queue || get->get.state == PSI_GET_DELETED);
        get->checkpoint = 0;
    }
    return newest;
}

/* psi_api_call.finish() of a get in a recovery. Changes the public record only if the variable has another task now, because
 * programs read the record without a lock. */
static void finish_again(struct psi_api_call *call)
{
    struct psi_api_get *get = call->arg;
    ps_variable *v = get->v;
    const struct psi_var *var = v->var;
    char device[sizeof(v->device)];
    if (get->get.state != PSI_GET_GOT) {
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

/* Adapt *err after a get in a recovery. waits false: no error if a queue that the program had only looked up does not exist. */
static void get_end_again(ps_session *s, struct psi_api_get *get, bool waits, struct psi_err *err)
{
    if (err->code == PS_NOT_FOUND && get->queue && !waits) {
        *err = (struct psi_err){0};
        return;
    }
    if (err->code == PS_OK && get->get.state != PSI_GET_GOT) {
        (void)get_end(s, get, err); /* the returned state is not needed: the get stays in s->gets.kept in any case */
    } else if (err->code == PS_OK && get->differs) {
        PSI_IGNORE(psi_fail(err, PS_FAILED_PRECONDITION, "another dtype or shape than before the session was lost"));
    } else if (err->code == PS_NOT_FOUND && get->scoped.must_exist) {
        err->code = PS_UNAVAILABLE; /* a later attempt may succeed, because another client may make the queue */
    }
}

/* True if another attempt of the recovery would not help against *err. */
static bool is_for_good(ps_session *s, const struct psi_err *err)
{
    (void)pthread_mutex_lock(&s->lock);
    const bool mends = psi_session_mends(&s->machine, err);
    (void)pthread_mutex_unlock(&s->lock);
    return err->code != PS_OK && err->code != PS_DEADLINE_EXCEEDED && !mends;
}

static bool is_named(const ps_session *s, const struct psi_api_get *get, const void *scoped)
{
    const bool needed = get->get.sticks || get->v == s->global_step_variable;
    struct psi_scoped whole = get->scoped; /* gets the name of the whole variable, with which its parts are deleted */
    psi_part_whole_name(&get->v->part, get->scoped.name, whole.name);
    return is_same_name(&whole, scoped) && !needed;
}

void psi_api_get_deleted(ps_session *s, const struct psi_scoped *scoped)
{
    delete_all(s, is_named, scoped);
}

ps_status psi_api_get_again(ps_session *s, int64_t timeout_ms, bool waits, struct psi_err *err)
{
    struct psi_list works;
    struct psi_list *it = NULL;
    bool for_good = false;
    psi_list_init(&works);
    *err = (struct psi_err){0};
    PSI_LIST_FOREACH(it, &s->gets.kept) { /* without the lock: no other thread uses the list during a recovery */
        struct psi_api_get *get = PSI_CONTAINER_OF(it, struct psi_api_get, get.link);
        get->call = (struct psi_api_call){.session = s,
                                          .prepare = prepare_get,
                                          .finish = finish_again,
                                          .arg = get,
                                          .variable = get->v,
                                          .timeout_ms = timeout_ms};
        if (get->get.state != PSI_GET_DELETED) {
            psi_list_push_back(&works, &get->call.work.link);
        }
    }
    ps_status st = psi_list_empty(&works) ? PS_OK : psi_api_calls_start(s, &works, err);
    if (st != PS_OK) {
        return st;
    }
    PSI_LIST_FOREACH(it, &s->gets.kept) {
        struct psi_api_get *get = PSI_CONTAINER_OF(it, struct psi_api_get, get.link);
        struct psi_err own = {0};
        if (get->get.state == PSI_GET_DELETED) {
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
    psi_list_push_back(&one, &get->get.link);
    psi_api_gets_run(s, &one, err);
    return err->code;
}

void psi_api_gets_run(ps_session *s, struct psi_list *gets, struct psi_err *err)
{
    struct getting g = {.gets = gets};
    (void)run(s, &g, err); /* the reason of a failure is in *err */
}

void psi_api_get_looks(const ps_session *s, struct psi_api_get *get)
{
    get->only_reads = !get->scoped.must_exist && psi_api_evaluates(s);
    get->scoped.must_exist = get->scoped.must_exist || get->only_reads;
}

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
    ps_variable *known = NULL;
    psi_api_copy(s, &known, &s->global_step_variable, sizeof(known));
    if (known == NULL) {
        ps_variable_spec spec;
        ps_variable_spec_init(&spec);
        spec.name = global_step_name;
        spec.dtype = PS_I64;
        st = psi_api_get_one(s, &spec, PSI_SCOPE_GLOBAL, &known, err);
        if (st != PS_OK) {
            return st;
        }
        psi_api_copy(s, &s->global_step_variable, &known, sizeof(known));
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters: the level of ps.h for training programs.
 *
 * Happy path: ps_param_get() makes two buffers and puts the get of a variable aside; ps_session_ready() runs these gets; in each
 * step ps_pull() reads all parameters at once, ps_push() hands a gradient buffer to the library, and ps_step_done() waits for the
 * pushes and adds one to the global step. Values that arrive while the program works, of ps_push_pull() and `prefetch`, go to a
 * second buffer, which ps_pull() exchanges with the value buffer: nothing is copied, and nothing that the program reads changes.
 * Failure modes: the first error sticks to the session and is logged; later calls return it and do nothing, and ps_param_get()
 * returns dummies whose buffers can be read and written. Every wait ends, because the core's deadlines end the requests.
 */
#include "lock.h"
#include "monitored.h"
#include "training.h"

#include "common/mem.h"
#include "common/shape.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

ps_status psi_api_last_sticks(ps_session *s, ps_status st, const char *call)
{
    struct psi_err err = {.code = st, .applied = ps_last_applied(), .reason = ps_last_reason()};
    (void)snprintf(err.text, sizeof(err.text), "%s", ps_last_error());
    return psi_api_refused(s, &err, call);
}

ps_status psi_api_enter_settled(ps_session *s)
{
    struct psi_err err;
    psi_err_none(&err);
    const ps_status st = psi_api_check(s, true, &err);
    return st == PS_OK ? psi_api_settle(s, false) : psi_api_last_error_set(&err);
}

/* Release one reference to p: the session's, or one of ps_param_hold(). The last release frees the parameter. */
void psi_api_param_free(ps_param *p)
{
    if (p != NULL && atomic_fetch_sub(&p->holds, 1) == 1) {
        psk_block_fini(&p->value);
        psk_block_fini(&p->next);
        psk_block_fini(&p->grad);
        psk_block_fini(&p->apart);
        psi_free(p->sum);
        psi_api_embedding_free(p);
        psi_free(p);
    }
}

/* Forget what was set for the next push: by ps_accumulate(), ps_param_lend() and ps_clip_norm(). */
static void forget(ps_param *p)
{
    p->summed = false;
    p->lent = NULL;
    p->limit = 0;
}

/* True if no read or push of a parameter is in flight, and no device's thread still uses the session for a push. */
static bool is_quiet(ps_session *s, void *none)
{
    struct psi_list *it = NULL;
    (void)none;
    PSI_LIST_FOREACH(it, &s->train.params) {
        const struct psi_training_param *p = PSI_CONTAINER_OF(it, struct psi_training_param, link);
        const struct psi_embedding *rows = psi_api_param(PSI_CONTAINER_OF(it, struct psi_training_param, link))->rows;
        if (p->gradient != PSI_GRADIENT_FREE || p->read != PSI_READING_NONE || (rows != NULL && rows->next == PSI_VALUE_COMING)) {
            return false;
        }
    }
    return true;
}

void psi_api_params_forget(ps_session *s)
{
    struct psi_list *it = NULL;
    (void)pthread_mutex_lock(&s->lock);
    psi_api_wait_until(s, is_quiet, NULL, PSI_WAIT_DRIVES);
    PSI_LIST_FOREACH(it, &s->train.params) {
        ps_param *p = psi_api_param(PSI_CONTAINER_OF(it, struct psi_training_param, link));
        forget(p);
        psi_api_embedding_forget(p);
    }
    psi_training_forget(&s->train);
    (void)pthread_mutex_unlock(&s->lock);
}

void psi_api_params_free(ps_session *s)
{
    struct psi_list *it;
    while ((it = psi_list_pop_front(&s->train.params)) != NULL) {
        psi_api_param_free(psi_api_param(PSI_CONTAINER_OF(it, struct psi_training_param, link)));
    }
}

/* Allocate zeroed host memory that the session's device can copy from and to. */
static ps_status buffer_new(ps_session *s, struct psk_block *block, size_t bytes, struct psi_err *err)
{
    void *memory = NULL;
    const ps_status st = psk_block_write(block, psi_api_compute_place(s), bytes, &memory, err);
    if (st == PS_OK) {
        memset(memory, 0, bytes);
    }
    return st;
}

ps_param *psi_api_param_new(ps_session *s, const char *name, const ps_shape *shape, struct psi_err *err)
{
    const size_t bytes = (size_t)ps_shape_elements(shape) * sizeof(float);
    ps_param *p = psi_calloc(1, sizeof(*p));
    if (p == NULL) {
        PSI_IGNORE(psi_fail(err, PS_RESOURCE_EXHAUSTED, "parameter '%s': out of memory", name)); /* NULL tells the caller */
        return NULL;
    }
    psi_list_init(&p->train.link);
    p->train.name = p->name;
    p->session = s;
    p->holds = 1;
    p->shape = *shape;
    p->bytes = bytes;
    (void)snprintf(p->name, sizeof(p->name), "%s", name == NULL ? "" : name);
    if (buffer_new(s, &p->value, bytes, err) != PS_OK || buffer_new(s, &p->grad, bytes, err) != PS_OK) {
        psi_err_prefix(err, "parameter '%s'", name);
        psi_api_param_free(p);
        return NULL;
    }
    return p;
}

void psi_api_param_keep(ps_session *s, ps_param *p)
{
    (void)psi_api_train_event(s, &(struct psi_train_event){.kind = PSI_TRAIN_PARAM, .param = p});
}

/* A dummy stands for a parameter that could not be got. If there is memory, its buffers have the requested shape, so that the
 * program can write to them. */
ps_param *psi_api_param_dummy(ps_session *s, const char *name, const ps_shape *shape)
{
    struct psi_err err = {0};
    ps_param *p = NULL;
    if (s == NULL) {
        return &psi_api_broken(NULL)->spare;
    }
    if (s->monitor != NULL && psi_api_sticky(s, &err) != PS_OK) {
        PSI_IGNORE(psi_api_stick_final(s, &err)); /* final: a recovery could not make a parameter of the dummy */
    }
    if (s->opened != PSI_OPENED_STATIC && psi_api_here(s) && psi_shape_check(shape, &err) == PS_OK) {
        p = psi_api_param_new(s, name, shape, NULL);
    }
    if (p == NULL) {
        return &s->spare;
    }
    psi_api_param_keep(s, p);
    return p;
}

/* A variable that must exist is looked up at once: a later look-up might find a variable that was made after this call. */
ps_status psi_api_param_variable(ps_session *s, const ps_variable_spec *spec, ps_param *p, struct psi_err *err)
{
    struct psi_api_get *get = NULL;
    p->train.trained = spec->optimizer != NULL && spec->optimizer->kind != PS_OPT_NONE;
    if (spec->partitions > 1) {
        const ps_status st = psi_api_parts_get(s, spec, &p->variable, err);
        p->train.open = st == PS_OK; /* without parts, get.c sets `open` when the variable is got */
        (void)snprintf(p->name, sizeof(p->name), "%s", st == PS_OK ? ps_variable_name(p->variable) : spec->name);
        return st;
    }
    const ps_status st = psi_api_get_new(s, spec, PSI_SCOPE_GET, &p->variable, &get, err);
    if (st != PS_OK) {
        return st;
    }
    (void)snprintf(p->name, sizeof(p->name), "%s", get->scoped.name);
    get->out_open = &p->train.open;
    if (get->scoped.must_exist) {
        return psi_api_get_run(s, get, err);
    }
    psi_api_put_aside(s, get);
    return PS_OK;
}

static ps_status param_make(ps_session *s, const ps_variable_spec *spec, ps_param **out_param, struct psi_err *err)
{
    ps_status st = spec->name == NULL || spec->name[0] == '\0' ? psi_fail(err, PS_INVALID_ARGUMENT, "the name is NULL or empty")
                                                               : psi_shape_check(&spec->shape, err);
    if (st != PS_OK) {
        return st;
    }
    struct psi_err why = {0};
    ps_param *p = psi_api_param_new(s, spec->name, &spec->shape, &why);
    if (p == NULL) {
        *err = why;
        return why.code;
    }
    st = psi_api_param_variable(s, spec, p, err);
    if (st != PS_OK) {
        psi_api_param_free(p);
        return st;
    }
    *out_param = p;
    return PS_OK;
}

/* Copy a program's spec, which may be of another version of the header. INVALID_ARGUMENT: also a dtype other than float32. */
static ps_status take_spec(const ps_variable_spec *given, ps_variable_spec *spec, ps_optimizer *optimizer, struct psi_err *err)
{
    const ps_status st = psi_api_spec_take(given, PSI_SCOPE_GET, spec, optimizer, err);
    return st != PS_OK || spec->dtype == PS_F32
               ? st
               : psi_fail(err, PS_INVALID_ARGUMENT, "its dtype is %s, and must be float32", ps_dtype_name(spec->dtype));
}

static ps_param *param_get(ps_session *s, const ps_variable_spec *given, const char *call)
{
    static const ps_shape none;
    const char *name = given != NULL ? given->name : NULL;
    const ps_shape *shape = given != NULL ? &given->shape : &none;
    struct psi_err err = {0};
    ps_variable_spec spec;
    ps_optimizer optimizer;
    ps_param *p = NULL;
    PSI_IGNORE(psi_api_recover(s)); /* false: nothing was lost, or the recovery failed, which psi_api_enter() reports */
    ps_status st = psi_api_enter(s, true);
    if (st != PS_OK) {
        if (s != NULL && s->opened == PSI_OPENED && psi_api_sticky(s, NULL) == PS_OK) { /* for example in a callback */
            PSI_IGNORE(psi_api_last_sticks(s, st, call));                               /* calls on the dummy return the error */
        }
        return psi_api_param_dummy(s, name, shape);
    }
    st = take_spec(given, &spec, &optimizer, &err);
    st = st == PS_OK ? param_make(s, &spec, &p, &err) : st;
    if (st != PS_OK) {
        PSI_IGNORE(psi_api_refused(s, &err, call)); /* calls on the dummy return the error */
        return psi_api_param_dummy(s, name, shape);
    }
    psi_api_param_keep(s, p);
    return p;
}

ps_param *ps_param_get_spec(ps_session *s, const ps_variable_spec *spec)
{
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    ps_param *p = param_get(s, spec, "ps_param_get_spec");
    psi_api_end(s);
    return p;
}

ps_param *ps_param_get(ps_session *s, const char *name, ps_shape shape, const ps_initializer *init, const ps_optimizer *optimizer)
{
    struct psi_api_visit visit;
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = shape;
    spec.init = init;
    spec.optimizer = optimizer;
    psi_api_begin(s, &visit);
    ps_param *p = param_get(s, &spec, "ps_param_get");
    psi_api_end(s);
    return p;
}

ps_status psi_api_param_wait(ps_param *p)
{
    struct psi_call call = {.kind = PSI_CALL_GRADIENT, .param = &p->train};
    struct psi_err err = {0};
    return psi_api_train(p->session, &call, NULL, NULL, NULL) == PSI_END_FINE
               ? PS_OK
               : psi_api_result(&err, psi_api_interrupted(p->session, &err));
}

/* Make a failure of the device the session's error. */
static ps_status device_failed(ps_param *p, struct psi_err *err)
{
    psi_err_prefix(err, "parameter '%s'", p->name);
    return psi_api_stick(p->session, err);
}

void *ps_param_value(ps_param *p)
{
    void *memory = NULL;
    struct psi_err err = {0};
    if (p == NULL) {
        return NULL;
    }
    if (psk_block_write(&p->value, NULL, p->bytes, &memory, &err) != PS_OK) {
        PSI_IGNORE(device_failed(p, &err)); /* the session has the error, and the buffer is valid */
    }
    return p->value.host;
}

/* Make the second gradient buffer, zeroed, if there is none yet. False: no memory. */
static bool has_apart(ps_param *p)
{
    return (p->apart.host != NULL && p->apart.host_bytes >= p->bytes) ||
           buffer_new(p->session, &p->apart, p->bytes, NULL) == PS_OK;
}

/* Exchange the gradient buffers, so that no push uses p->grad: after an interrupt or a failure of the session ps_param_grad()
 * does not wait for the push in flight. Waits only for a gradient on its way from a device, which takes a short time, and for the
 * push itself if there is no memory for a second buffer. */
static void grad_exchange(ps_param *p)
{
    struct psi_call call = {.kind = PSI_CALL_EXCHANGE, .param = &p->train, .has_apart = has_apart(p)};
    (void)psi_api_train(p->session, &call, NULL, NULL, NULL);
}

/* ps_param_grad() in a callback, which cannot wait for a push. *err sticks to the session, so that the buffer is never pushed. */
static void *grad_in_callback(ps_param *p, struct psi_err *err)
{
    ps_session *s = p->session;
    PSI_IGNORE(psi_api_refused(s, err, "ps_param_grad")); /* ps_last_error() has the error */
    struct psi_training_param now = {0};
    psi_api_copy(s, &now, &p->train, sizeof(now));
    const bool used = now.gradient != PSI_GRADIENT_FREE && !now.apart;
    return !used ? p->grad.host : has_apart(p) ? p->apart.host : p->value.host;
}

static void *param_grad(ps_param *p)
{
    void *memory = NULL;
    struct psi_err err = {0};
    ps_session *s = p->session;
    if (psi_api_check(s, false, &err) != PS_OK) { /* a dummy, or a child process: no push uses the buffer */
        PSI_IGNORE(psi_api_last_error_set(&err));
        return p->grad.host;
    }
    if (psi_api_check(s, true, &err) != PS_OK) {
        return grad_in_callback(p, &err);
    }
    if ((psi_api_sticky(s, NULL) != PS_OK && !psi_monitor_is_lost(s)) || psi_api_param_wait(p) != PS_OK) {
        grad_exchange(p);
    }
    const ps_status failed = psi_monitor_is_lost(s) ? PS_OK : psi_api_sticky(s, NULL);
    if (failed != PS_OK) {
        PSI_IGNORE(psi_api_last(s, failed)); /* the reason is in ps_last_error() */
        return p->grad.host;
    }
    ps_status st = psk_block_read(&p->grad, p->bytes, &memory, &err);
    st = st == PS_OK ? psk_block_write(&p->grad, NULL, p->bytes, &memory, &err) : st; /* the program may write to the buffer */
    if (st != PS_OK) {
        PSI_IGNORE(device_failed(p, &err)); /* the session has the error, and the buffer is valid */
    }
    return p->grad.host;
}

void *ps_param_grad(ps_param *p)
{
    if (p == NULL) {
        return NULL;
    }
    ps_session *s = p->session;
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    void *memory = param_grad(p);
    psi_api_end(s);
    return memory;
}

struct psk_block *psi_param_value_block(ps_param *p)
{
    return &p->value;
}

static struct psk_block *grad_block(ps_param *p)
{
    if (psi_api_enter(p->session, true) != PS_OK) {
        return NULL;
    }
    const struct psk_place *place = psi_api_compute_place(p->session);
    if ((place == NULL || psk_place_has_host_memory(place)) && psi_api_param_wait(p) != PS_OK) {
        return NULL;
    }
    return psi_api_sticky(p->session, NULL) == PS_OK ? &p->grad : NULL;
}

struct psk_block *psi_param_grad_block(ps_param *p)
{
    ps_session *s = p->session;
    struct psi_api_visit visit;
    psi_api_begin_as(s, &visit, "wait: last push");
    struct psk_block *block = grad_block(p);
    psi_api_end(s);
    return block;
}

const ps_shape *ps_param_shape(const ps_param *p)
{
    static const ps_shape none;
    return p != NULL ? &p->shape : &none;
}

const char *ps_param_name(const ps_param *p)
{
    return p != NULL ? p->name : "";
}

ps_session *ps_param_session(ps_param *p)
{
    return p != NULL ? p->session : NULL;
}

uint64_t ps_param_version(const ps_param *p, bool *out_exact)
{
    return p != NULL ? psi_api_version(p->session, &p->train.version, &p->train.exact, out_exact) : 0;
}

ps_param *ps_param_hold(ps_param *p)
{
    if (p == NULL || p->holds == 0) {
        return NULL;
    }
    atomic_fetch_add(&p->holds, 1);
    return p;
}

void ps_param_release(ps_param *p)
{
    psi_api_param_free(p);
}

ps_status ps_param_fail(ps_param *p, ps_status st, const char *text)
{
    return ps_session_fail(ps_param_session(p), st, text);
}

static void stick_result(ps_session *s, const ps_result *result, const char *what)
{
    struct psi_err err = {.code = result->status, .applied = result->applied, .reason = result->reason};
    (void)snprintf(err.text, sizeof(err.text), "%s", result->text);
    PSI_IGNORE(psi_api_refused(s, &err, what)); /* the waiting call finds the session's error */
}

static void on_pulled(void *ctx, ps_request *req, const ps_result *result)
{
    ps_param *p = ctx;
    ps_session *s = p->session;
    (void)req;
    if (result->status != PS_OK) {
        stick_result(s, result, "ps_pull");
    }
    /* psi_api_drained() wakes the waiting thread */
    (void)psi_api_train_event(s, &(struct psi_train_event){.kind = PSI_TRAIN_READ, .param = p, .result = result});
}

static void on_pushed(void *ctx, ps_request *req, const ps_result *result)
{
    ps_param *p = ctx;
    ps_session *s = p->session;
    (void)req;
    if (result->status != PS_OK) {
        stick_result(s, result, "ps_push");
    }
    /* psi_api_drained() wakes the waiting thread */
    (void)psi_api_train_event(s, &(struct psi_train_event){.kind = PSI_TRAIN_PUSHED, .param = p, .result = result});
}

/* Call when a request could not be started: the thread's last error, which has the reason, sticks to the session. */
static ps_status refused(ps_session *s, ps_status st, const char *what)
{
    struct psi_err err = {.code = st, .applied = PS_NOTHING_APPLIED, .reason = ps_last_reason()};
    (void)snprintf(err.text, sizeof(err.text), "%s", ps_last_error());
    return psi_api_refused(s, &err, what);
}

/* True if a request for p's variable can be started under the session's lock: one request is enough. */
static bool is_whole(const ps_param *p)
{
    return p->variable->parts == NULL;
}

/* True if the block has memory, which only the host uses, so that psk_block_write() neither waits nor allocates. place: the
 * computing device. */
static bool is_on_host(const struct psk_block *b, const struct psk_place *place)
{
    return b->host != NULL && (b->place == NULL || psk_place_has_host_memory(b->place)) &&
           (place == NULL || psk_place_has_host_memory(place));
}

/* Start to read into the value buffer. */
static ps_status read_here(ps_param *p, unsigned interrupts, struct psi_list *works, bool locked)
{
    void *memory = NULL;
    struct psi_err err;
    psi_err_none(&err);
    /* psk_block_write() waits until the device no longer reads the older values in the buffer */
    const ps_status st = psk_block_write(&p->value, NULL, p->bytes, &memory, &err);
    const struct psi_request what = {
        .kind = PSI_REQ_PULL, .dst = memory, .bytes = p->bytes, .scale = 1, .waited = true, .interrupts = interrupts};
    return st == PS_OK ? psi_api_start_in(p->variable, &what, 0, &p->pull, on_pulled, p, works, locked)
                       : psi_api_last_error_set(&err);
}

/* Make the second value buffer if there is none, and wait until the device no longer reads it. place: the computing device. */
static ps_status next_ready(ps_param *p, struct psk_place *place)
{
    void *memory = NULL;
    struct psi_err err;
    psi_err_none(&err);
    if (psk_block_write(&p->next, place, p->bytes, &memory, &err) != PS_OK) {
        psi_err_prefix(&err, "parameter '%s': its second buffer", p->name);
        return psi_api_last_error_set(&err);
    }
    return PS_OK;
}

/* With `prefetch`: start to read the values for the next ps_pull(). */
static ps_status read_ahead(ps_param *p, struct psk_place *place, struct psi_list *works, bool locked)
{
    const ps_status st = next_ready(p, place);
    const struct psi_request what = {.kind = PSI_REQ_PULL, .dst = p->next.host, .bytes = p->bytes, .scale = 1};
    return st == PS_OK ? psi_api_start_in(p->variable, &what, 0, &p->pull, on_pulled, p, works, locked) : st;
}

static bool pull_does(ps_session *s, struct psi_call *call, enum psi_do what, void *ctx, struct psi_list *works, bool locked)
{
    ps_status *st = ctx;
    ps_param *p = psi_api_param(call->at);
    struct psk_place *place = locked ? s->place : psi_api_compute_place(s);
    if (locked && !(is_whole(p) && is_on_host(what == PSI_DO_READ ? &p->value : &p->next, place))) {
        return false;
    }
    const ps_status started =
        what == PSI_DO_READ ? read_here(p, call->interrupts, works, locked) : read_ahead(p, place, works, locked);
    if (started != PS_OK && !locked) {
        *st = refused(s, started, "ps_pull");
    }
    return started == PS_OK;
}

/* Pull the parameter `only`; NULL: all. st: status of the call so far; not PS_OK: no read begins, the call only waits. */
static ps_status pull(ps_session *s, ps_param *only, ps_status st)
{
    struct psi_call call = {.kind = PSI_CALL_PULL, .param = only != NULL ? &only->train : NULL, .only_waits = st != PS_OK};
    struct psi_err err = {0};
    const enum psi_call_end end = psi_api_train(s, &call, pull_does, &st, &err);
    return end != PSI_END_REFUSED ? psi_api_trained(s, end, &err) : st != PS_OK ? st : psi_api_last_error_set(&err);
}

static ps_status pull_all(ps_session *s)
{
    const ps_status st = psi_api_enter_settled(s);
    if (st != PS_OK && (s == NULL || s->opened != PSI_OPENED || !psi_api_here(s))) { /* no read can be in flight */
        return st;
    }
    /* after a failure pull() only waits for reads in flight: none may write to the buffers after the call has returned */
    return pull(s, NULL, st);
}

ps_status ps_pull(ps_session *s)
{
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    PSI_IGNORE(psi_api_recover(s)); /* false: nothing was lost, or the recovery failed, which pull_all() reports */
    (void)psi_monitor_tell(s, PSI_ON_PULL, 0);
    uint32_t life = psi_monitor_life(s);
    ps_status st = pull_all(s);
    /* try again if the session has recovered, by this call or by another thread */
    while (st != PS_OK && (psi_api_recover(s) || psi_monitor_life(s) != life)) {
        life = psi_monitor_life(s);
        st = pull_all(s);
    }
    st = psi_api_last(s, st);
    psi_api_end(s);
    return st;
}

ps_status ps_pull_param(ps_param *p)
{
    ps_session *s = ps_param_session(p);
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    struct psi_err err = {0};
    (void)psi_monitor_tell(s, PSI_ON_PULL, 0);
    ps_status st = psi_api_enter_settled(s);
    if (st == PS_OK && p->rows != NULL) {
        (void)psi_fail(&err, PS_INVALID_ARGUMENT, "'%s' is an embedding: ps_embedding_pull() reads its rows", p->name);
        st = psi_api_refused(s, &err, "ps_pull_param");
    }
    st = psi_api_last(s, st == PS_OK ? pull(s, p, PS_OK) : st);
    psi_api_end(s);
    return st;
}

/* Start the push of a gradient on the host; as a push-pull if the new values must come to the second buffer (p->brings). works:
 * the caller holds the lock, and sends the list; NULL: the push is sent now. */
static ps_status push_begin(ps_param *p, struct psi_list *works)
{
    if (p->rows != NULL) {
        return psi_api_embedding_push(p, on_pushed);
    }
    struct psi_err err;
    psi_err_none(&err);
    const struct psi_request what = {.kind = p->brings ? PSI_REQ_PUSH_PULL : PSI_REQ_PUSH,
                                     .src = p->pushed != NULL ? p->pushed : p->grad.host,
                                     .dst = p->brings ? p->next.host : NULL,
                                     .bytes = p->bytes,
                                     .scale = p->pushed_with};
    const ps_status st = psi_api_values_check(p->variable, &what, &err);
    return st != PS_OK     ? psi_api_last_error_set(&err)
           : works == NULL ? psi_api_start(p->variable, &what, 0, &p->push, on_pushed, p)
                           : psi_api_start_in(p->variable, &what, 0, &p->push, on_pushed, p, works, true);
}

/* Called on a thread of the device: the gradient is on the host, or *error says why not. The waiting call finds the error. */
static void on_fetched(void *ctx, const struct psi_err *error)
{
    ps_param *p = ctx;
    ps_session *s = p->session;
    const uint64_t number = p->fetched;
    const ps_status st = error == NULL ? push_begin(p, NULL) : psi_api_last_error_set(error);
    if (st != PS_OK) {
        PSI_IGNORE(refused(s, st, "ps_push"));
    }
    const struct psi_train_event handed = {.kind = PSI_TRAIN_HANDED, .param = p, .number = number, .refused = st != PS_OK};
    (void)psi_api_train_event(s, &handed);
}

static ps_status fetch(ps_session *s, ps_param *p)
{
    struct psi_err err = {0};
    p->fetched = psi_api_train_event(s, &(struct psi_train_event){.kind = PSI_TRAIN_FETCHES, .param = p});
    const ps_status st = psk_block_fetch(&p->grad, p->bytes, &p->fetch, on_fetched, p, &err);
    if (st != PS_OK) {
        (void)psi_api_train_event(s, &(struct psi_train_event){.kind = PSI_TRAIN_HANDED, .param = p, .number = p->fetched});
    }
    return st == PS_OK ? PS_OK : psi_api_last_error_set(&err);
}

/* Before a push of p: copy the sum of ps_accumulate(), if there is one, into the gradient buffer; take the memory of
 * ps_param_lend(); and set p->pushed_with to the factor of ps_clip_norm(). forget() must follow. */
static ps_status gather(ps_param *p)
{
    void *memory = NULL;
    struct psi_err err;
    psi_err_none(&err);
    const ps_status st = p->summed ? psk_block_write(&p->grad, NULL, p->bytes, &memory, &err) : PS_OK;
    if (st != PS_OK) {
        psi_err_prefix(&err, "parameter '%s'", p->name);
        return psi_api_last_error_set(&err);
    }
    if (p->summed) {
        memcpy(memory, p->sum, p->bytes);
    }
    p->pushed = p->summed ? NULL : p->lent;
    p->pushed_with = p->limit == 0 ? 1 : p->limit;
    return PS_OK;
}

struct pushing {
    const char *what; /* name of the public call */
    ps_status st;
};

static bool push_does(ps_session *s, struct psi_call *call, enum psi_do what, void *ctx, struct psi_list *works, bool locked)
{
    struct pushing *push = ctx;
    ps_param *p = psi_api_param(call->param);
    (void)what; /* always PSI_DO_PUSH */
    const bool none = p->rows != NULL && p->rows->none;
    struct psk_place *place = locked ? s->place : psi_api_compute_place(s);
    const bool waits = p->grad.on_device || p->summed || (call->brings && !is_on_host(&p->next, place));
    if (locked && (waits || p->rows != NULL || !is_whole(p))) {
        return false;
    }
    p->brings = call->brings;
    ps_status st = gather(p);
    if (st == PS_OK && !locked) {
        forget(p); /* before the push is sent: when it has ended, another thread may use p */
    }
    if (st == PS_OK) {
        st = p->brings ? next_ready(p, place) : PS_OK;
        st = st != PS_OK                                       ? st
             : p->grad.on_device && !none && p->pushed == NULL ? fetch(s, p)
                                                               : push_begin(p, locked ? works : NULL);
    }
    if (st == PS_OK && locked) { /* else this function is called again */
        forget(p);
    }
    if (st != PS_OK && !locked) {
        push->st = refused(s, st, push->what);
    }
    return st == PS_OK;
}

/* Push p. brings: the push also brings back the new values, into the second value buffer. */
static ps_status push(ps_session *s, ps_param *p, bool brings, const char *what)
{
    struct psi_err err;
    bool skips = false;
    psi_err_none(&err);
    ps_status st = psi_api_enter_settled(s);
    if (s != NULL && psi_monitor_step(s, PSI_ON_PUSH, &err) != PS_OK && st == PS_OK) {
        st = psi_api_last_error_set(&err);
    }
    if (st != PS_OK) {
        return st;
    }
    if (p == NULL || p->session != s) {
        (void)psi_fail(&err, PS_INVALID_ARGUMENT, "the parameter is %s", p == NULL ? "NULL" : "of another session");
        return psi_api_refused(s, &err, what);
    }
    if (p->variable != NULL && psi_api_trains(s, PSI_IS_STEP_SKIPPED, &skips, &err) != PS_OK) {
        return psi_api_refused(s, &err, what);
    }
    if (p->variable == NULL || skips) {
        forget(p);
        return PS_OK;
    }
    const bool values = brings && p->rows == NULL; /* an embedding does not know which rows it will need next */
    struct psi_call call = {.kind = PSI_CALL_PUSH, .param = &p->train, .brings = values};
    struct pushing push = {.what = what};
    const enum psi_call_end end = psi_api_train(s, &call, push_does, &push, &err);
    return end != PSI_END_REFUSED ? psi_api_trained(s, end, &err) : push.st != PS_OK ? push.st : psi_api_refused(s, &err, what);
}

ps_status ps_push(ps_session *s, ps_param *p)
{
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    const ps_status st = psi_api_last(s, push(s, p, false, "ps_push"));
    psi_api_end(s);
    return st;
}

ps_status ps_push_pull(ps_session *s, ps_param *p)
{
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    const ps_status st = psi_api_last(s, push(s, p, true, "ps_push_pull"));
    psi_api_end(s);
    return st;
}

/* True if p is an embedding in rounds, and was not pushed in this step. */
static bool pushes_none(ps_session *s, const ps_param *p)
{
    (void)pthread_mutex_lock(&s->lock);
    const bool none =
        p->rows != NULL && p->train.trained && s->train.mode == PS_SYNC_ROUNDS && !psi_training_is_pushed(&s->train, &p->train);
    (void)pthread_mutex_unlock(&s->lock);
    return none;
}

ps_status psi_api_params_push_none(ps_session *s)
{
    struct psi_list *it = NULL;
    ps_status st = PS_OK;
    PSI_LIST_FOREACH(it, &s->train.params) {
        ps_param *p = psi_api_param(PSI_CONTAINER_OF(it, struct psi_training_param, link));
        if (st == PS_OK && pushes_none(s, p)) {
            p->rows->none = true;
            st = push(s, p, false, "ps_step_done");
            p->rows->none = false; /* cleared here, because a refused push leaves it true */
        }
    }
    return st;
}

/* Make the session ready. If the session is lost meanwhile, its recovery makes it ready. */
static ps_status ready_at_last(ps_session *s, struct psi_found *out_found)
{
    struct psi_err err = {0};
    struct psi_call turn = {.kind = PSI_CALL_READY};
    ps_status st = psi_api_train(s, &turn, NULL, NULL, NULL) == PSI_END_FINE ? PS_OK : psi_api_interrupted(s, &err);
    st = st == PS_OK ? psi_api_ready(s, psi_api_ready_timeout_ms(s), out_found, &err) : st;
    if (turn.turn) {
        (void)psi_api_train_event(s, &(struct psi_train_event){.kind = PSI_TRAIN_TURN_OVER});
    }
    if (st == PS_OK) {
        return PS_OK;
    }
    if (psi_api_is_interrupt(&err)) {
        return psi_api_refused(s, &err, "ps_session_ready");
    }
    if (psi_api_sticky(s, NULL) == PS_OK) {
        PSI_IGNORE(psi_api_refused(s, &err, "ps_session_ready")); /* the error is returned below */
    }
    return psi_api_recover(s) ? psi_monitor_found(s, out_found) : psi_api_sticky(s, NULL);
}

static ps_status session_ready(ps_session *s)
{
    struct psi_found found = {0};
    PSI_IGNORE(psi_api_recover(s)); /* false: nothing was lost, or the recovery failed, which psi_api_enter() reports */
    ps_status st = psi_api_enter(s, true);
    if (st != PS_OK) {
        return st;
    }
    if (psi_monitor_in_restore(s)) { /* otherwise the restore function would be called within itself */
        struct psi_err err = {0};
        (void)psi_fail(&err, PS_FAILED_PRECONDITION, "ps_session_ready() cannot be called in the restore function");
        return psi_api_last_error_set(&err);
    }
    st = psi_api_hooks_call(s, PSI_HOOK_BEGIN);
    if (st != PS_OK) {
        return st;
    }
    (void)psi_monitor_tell(s, PSI_ON_READY, 0);
    st = ready_at_last(s, &found);
    if (st != PS_OK) {
        return st;
    }
    psi_api_copy(s, &s->found, &found, sizeof(found));
    return psi_api_hooks_call(s, PSI_HOOK_CREATED);
}

ps_status ps_session_ready(ps_session *s)
{
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    const ps_status st = psi_api_last(s, session_ready(s));
    psi_api_end(s);
    return st;
}

int ps_session_found(ps_session *s, int64_t *out_global_step)
{
    struct psi_found found = {0};
    if (s != NULL && psi_api_here(s)) {
        psi_api_copy(s, &found, &s->found, sizeof(found));
    }
    if (s != NULL && out_global_step != NULL) {
        *out_global_step = found.step;
    }
    return found.variables;
}

int64_t ps_global_step(ps_session *s)
{
    return s != NULL ? psi_api_look(s, &s->global_step) : 0;
}

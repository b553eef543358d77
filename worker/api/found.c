/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables that the library finds for itself by container and name, and the rights of others to them: for a session that works
 * for others (worker/exec).
 *
 * Happy path: start() hands the look-up to the loop -> FIND at the directory, OPEN at the owner -> done(). drop() frees the
 * core's record. Failure modes: the name does not exist, or not for this session: done() says so, and the record is dropped as
 * always.
 */
#include "lock.h"
#include "monitored.h"

#include <stdio.h>
#include <string.h>

static void over(ps_session *s)
{
    psi_api_landed(s, NULL);
}

static ps_status hand_over(ps_session *s, struct psi_io_work *work, void (*run)(struct psi_io_work *work, struct psi_client *c),
                           struct psi_err *err)
{
    ps_status st = psi_api_check(s, false, err);
    if (st != PS_OK) {
        return st;
    }
    (void)pthread_mutex_lock(&s->lock);
    st = psi_api_may_start(s, err);
    s->in_flight += st == PS_OK ? 1 : 0;
    (void)pthread_mutex_unlock(&s->lock);
    if (st == PS_OK) {
        work->run = run;
        psi_list_init(&work->link);
        psi_io_submit(s->io, work);
    }
    return st;
}

static void end(struct psi_api_found *found, const struct psi_err *err)
{
    ps_session *s = found->variable.session;
    found->done(found, err);
    over(s);
}

static void read_error(const struct psi_request *req, struct psi_err *out)
{
    psi_err_none(out);
    if (req->status != PS_OK && req->err != NULL) {
        *out = *req->err;
    }
    out->code = req->status;
}

static void request_done(struct psi_request *req)
{
    struct psi_api_found *found = PSI_CONTAINER_OF(req, struct psi_api_found, req);
    struct psi_err err;
    read_error(req, &err);
    if (err.code == PS_OK) {
        psi_api_variable_known(&found->variable, req->owner);
    }
    end(found, &err);
}

static void begin(struct psi_io_work *work, struct psi_client *c)
{
    struct psi_api_found *found = PSI_CONTAINER_OF(work, struct psi_api_found, work);
    ps_variable *v = &found->variable;
    ps_variable_spec spec;
    struct psi_err err;
    psi_err_none(&err);
    ps_variable_spec_init(&spec);
    spec.name = v->name;
    const struct psi_var_scope scope = {
        .container = v->container, .name = v->name, .must_exist = true, .key = found->keyed ? found->key : NULL};
    /* a repeated look-up has its record already */
    ps_status st = v->var != NULL ? PS_OK : psi_client_variable_in(c, &spec, &scope, true, &v->var, &err);
    if (st == PS_OK) {
        found->req.kind = PSI_REQ_LOOKUP;
        found->req.var = v->var;
        found->req.done = request_done;
        st = psi_client_start(c, &found->req, &err);
    }
    if (st != PS_OK) {
        err.code = st;
        end(found, &err);
    }
}

ps_status psi_api_found_start(ps_session *s, const char *container, const uint8_t *key, const char *name, int64_t timeout_ms,
                              struct psi_api_found *found, struct psi_err *err)
{
    ps_variable *v = &found->variable;
    v->session = s;
    psi_list_init(&v->link);
    const int container_bytes = snprintf(v->container, sizeof(v->container), "%s", container);
    const int name_bytes = snprintf(v->name, sizeof(v->name), "%s", name);
    if (container_bytes >= (int)sizeof(v->container) || name_bytes >= (int)sizeof(v->name)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "variable '%.255s' in container '%.63s': a name is too long", name, container);
    }
    found->keyed = key != NULL;
    if (key != NULL) {
        memcpy(found->key, key, sizeof(found->key));
    }
    found->req.deadline_ms = psi_api_deadline_ms(s, timeout_ms);
    return hand_over(s, &found->work, begin, err);
}

static void drop(struct psi_io_work *work, struct psi_client *c)
{
    struct psi_api_found *found = PSI_CONTAINER_OF(work, struct psi_api_found, work);
    ps_session *s = found->variable.session;
    const bool gone = found->variable.var == NULL || psi_client_variable_drop(c, found->variable.var);
    if (gone) {
        found->variable.var = NULL;
    }
    found->dropped(found, gone); /* may free found */
    over(s);
}

ps_status psi_api_found_drop(struct psi_api_found *found, struct psi_err *err)
{
    return hand_over(found->variable.session, &found->work, drop, err);
}

static void right_over(struct psi_api_right *right, const struct psi_err *err)
{
    ps_session *s = right->found->variable.session;
    right->done(right, err); /* may free right */
    over(s);
}

static void right_done(struct psi_request *req)
{
    struct psi_err err;
    read_error(req, &err);
    right_over(PSI_CONTAINER_OF(req, struct psi_api_right, req), &err);
}

static void ask(struct psi_io_work *work, struct psi_client *c)
{
    struct psi_api_right *right = PSI_CONTAINER_OF(work, struct psi_api_right, work);
    struct psi_err err;
    psi_err_none(&err);
    if (right->req.kind == PSI_REQ_MAY) {
        right->req.task = right->found->variable.var->owner;
    }
    ps_status st = psi_client_start(c, &right->req, &err);
    if (st != PS_OK) {
        err.code = st;
        right_over(right, &err);
    }
}

ps_status psi_api_right_start(const struct psi_api_found *found, bool there, uint64_t deadline_ms, struct psi_api_right *right,
                              struct psi_err *err)
{
    right->found = found;
    right->req.kind = there ? PSI_REQ_MAY : PSI_REQ_MAY_KNOW;
    right->req.src = &right->may;
    right->req.deadline_ms = deadline_ms;
    right->req.done = right_done;
    return hand_over(found->variable.session, &right->work, ask, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up variables by container and name, and asks for the rights of other identities to them: for the executor of operations
 * (worker/exec), whose session works for other clients. Happy path: psi_api_found_start() hands the look-up to the loop, which
 * sends FIND to the directory and OPEN to the owner, and calls done(). psi_api_found_drop() frees the core's record. Failure
 * mode: the name does not exist, or this session has no right to learn about it: done() gets the error, and
 * psi_api_found_drop() must be called nevertheless. */
#include "api.h"

#include <stdio.h>
#include <string.h>

static ps_status find(struct psi_api_call *call, struct psi_err *err)
{
    const struct psi_api_found *found = call->arg;
    ps_variable *v = call->variable;
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.name = v->name;
    const struct psi_var_scope scope = {
        .container = v->container, .name = v->name, .must_exist = true, .key = found->keyed ? found->key : NULL};
    /* when a look-up is repeated, the core's record exists already */
    const ps_status st = v->var != NULL ? PS_OK : psi_client_variable_in(call->client, &spec, &scope, true, &v->var, err);
    call->req.var = v->var;
    return st;
}

static void known(struct psi_api_call *call)
{
    psi_api_variable_known(call->variable, call->client);
}

static void find_over(struct psi_api_call *call)
{
    struct psi_api_found *found = call->arg;
    found->done(found, &call->err);
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
    found->call = (struct psi_api_call){.session = s,
                                        .prepare = find,
                                        .finish = known,
                                        .over = find_over,
                                        .arg = found,
                                        .variable = v,
                                        .timeout_ms = timeout_ms,
                                        .req = {.kind = PSI_REQ_LOOKUP}};
    return psi_api_call_start(&found->call, err);
}

static ps_status drop(struct psi_api_call *call, struct psi_err *err)
{
    ps_variable *v = call->variable;
    (void)err;
    if (v->var != NULL && psi_client_variable_drop(call->client, v->var)) {
        v->var = NULL;
    }
    return PS_OK;
}

static void drop_over(struct psi_api_call *call)
{
    struct psi_api_found *found = call->arg;
    found->dropped(found, found->variable.var == NULL); /* may free found */
}

ps_status psi_api_found_drop(struct psi_api_found *found, struct psi_err *err)
{
    found->call = (struct psi_api_call){
        .session = found->variable.session, .prepare = drop, .over = drop_over, .arg = found, .variable = &found->variable};
    return psi_api_call_start(&found->call, err);
}

static ps_status ask(struct psi_api_call *call, struct psi_err *err)
{
    const struct psi_api_right *right = call->arg;
    (void)err;
    call->req.deadline_ms = right->deadline_ms;
    if (call->req.kind == PSI_REQ_MAY) {
        call->req.task = right->found->variable.var->owner;
    }
    return PS_OK;
}

static void ask_over(struct psi_api_call *call)
{
    struct psi_api_right *right = call->arg;
    right->done(right, &call->err); /* may free right */
}

ps_status psi_api_right_start(const struct psi_api_found *found, bool there, uint64_t deadline_ms, struct psi_api_right *right,
                              struct psi_err *err)
{
    right->found = found;
    right->deadline_ms = deadline_ms;
    right->call = (struct psi_api_call){.session = found->variable.session,
                                        .prepare = ask,
                                        .over = ask_over,
                                        .arg = right,
                                        .req = {.kind = there ? PSI_REQ_MAY : PSI_REQ_MAY_KNOW, .src = &right->may}};
    return psi_api_call_start(&right->call, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Restoring in a monitored session: the program's function gives a model its values if the chief finds no variable with a value.
 *
 * Happy path: READY has ended before it initialises variables. The function runs on the program's thread. Its assigns carry the
 * chief's number (call.c, request.c): other sessions do not use the values until READY seals them, and tasks refuse the assigns
 * if there is a newer chief. Then it is checked which variables have values. Failure modes: the function fails, or, without the
 * option restore_part, leaves variables without values: nothing is sealed, and the next chief restores. If only some variables
 * have values, a recovery empties the model's containers, unless there is a newer chief, before it gets the variables again. */
#include "lock.h"
#include "monitored.h"

#include "common/utf8.h"

#include <stdio.h>
#include <string.h>

enum { NAMES_BYTES = 300, NAME_SHOWN = 80 };

bool psi_monitor_in_restore(ps_session *s)
{
    return psi_monitor_tell(s, PSI_IN_RESTORE, 0) != 0;
}

struct look {
    uint32_t given, lacking;
    bool step;
    char names[NAMES_BYTES]; /* names of variables without a value */
    size_t at;
};

static void note_lacking(struct look *look, const char *name)
{
    char shown[NAME_SHOWN];
    look->lacking++;
    if (look->at + NAME_SHOWN < sizeof(look->names)) {
        const int more = snprintf(look->names + look->at, sizeof(look->names) - look->at, "%s'%s'", look->at > 0 ? ", " : "",
                                  psi_utf8_shorten(name, shown, sizeof(shown) - 8));
        look->at += more > 0 ? (size_t)more : 0;
    } else if (look->at + 5 < sizeof(look->names)) {
        memcpy(look->names + look->at, ", ...", 6);
        look->at = sizeof(look->names);
    }
}

static void finish_look(struct psi_api_call *call)
{
    struct look *look = call->arg;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, psi_client_variables(call->client)) {
        const struct psi_var *var = PSI_CONTAINER_OF(it, struct psi_var, link);
        if (var->queue != NULL || var->apart || var->found_only || var->owner == UINT32_MAX) {
            continue; /* READY does not need a value of this variable, which is no part of the model */
        }
        if (var == call->variable->var) {
            look->step = var->initialised;
        } else if (var->initialised) {
            look->given++;
        } else {
            note_lacking(look, var->name);
        }
    }
}

static ps_status look_at(ps_session *s, const ps_variable *step, uint64_t number, bool *out_given, struct psi_err *err)
{
    struct look look = {0};
    struct psi_api_call call = {.session = s,
                                .finish = finish_look,
                                .arg = &look,
                                .variable = (ps_variable *)(uintptr_t)step,
                                .req = {.kind = PSI_REQ_STATUS}};
    const ps_status st = psi_api_call_run(&call, err);
    if (st != PS_OK) {
        return st;
    }
    *out_given = look.given > 0;
    if (look.given > 0 && look.lacking > 0 && !s->monitor->options.restore_part) {
        return psi_fail(err, PS_FAILED_PRECONDITION,
                        "the restore function has given %u variables values, and %u not: %s; nothing was made ready", look.given,
                        look.lacking, look.names);
    }
    psi_api_log(s, look.given > 0 && !look.step ? PS_LOG_WARN : PS_LOG_INFO, "restored", PSI_KV("number", number),
                PSI_KV("variables", look.given),
                PSI_KV("step", look.step        ? "given"
                               : look.given > 0 ? "not given: it begins at 0"
                                                : "not given"));
    return PS_OK;
}

ps_status psi_monitor_restore(ps_session *s, uint64_t number, const ps_variable *step, bool *out_given, struct psi_err *err)
{
    struct psi_monitor *m = s->monitor;
    struct psi_err stuck = {0};
    (void)psi_api_tell(s, PSI_ON_RESTORE, number);
    PSI_IGNORE(psi_api_last_error_set(&stuck)); /* clears the last error, so that a later one is the restore function's */
    const ps_status st = m->options.restore(m->options.restore_ctx, s);
    (void)psi_api_tell(s, PSI_ON_RESTORE, 0);
    if (psi_api_sticky(s, &stuck) != PS_OK) {
        *err = stuck;
        psi_err_prefix(err, "the restore function");
        return err->code;
    }
    if (st != PS_OK) {
        (void)psi_api_returned(st, err);
        psi_err_prefix(err, "the restore function");
        err->applied = PS_MAYBE_PARTLY_APPLIED;
        return err->code;
    }
    return look_at(s, step, number, out_given, err);
}

static bool is_emptied(const struct psi_api_get *get)
{
    return !get->queue && !get->scoped.must_exist;
}

/* True if the get's container is emptied already, because an earlier get in the list is in the same container. */
static bool is_named(const struct psi_list *gets, const struct psi_api_get *get)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, gets) {
        const struct psi_api_get *other = PSI_CONTAINER_OF(it, struct psi_api_get, get.link);
        if (other == get || (is_emptied(other) && strcmp(other->v->container, get->v->container) == 0)) {
            return other != get;
        }
    }
    return false;
}

void psi_monitor_empty(ps_session *s, int64_t timeout_ms)
{
    struct psi_list *it = NULL;
    const uint64_t number = psi_api_tell(s, PSI_ON_TAKE_HALF, 0);
    if (number == 0) {
        return;
    }
    PSI_LIST_FOREACH(it, &s->gets.kept) { /* without the lock: no other thread uses the list during a recovery */
        const struct psi_api_get *get = PSI_CONTAINER_OF(it, struct psi_api_get, get.link);
        struct psi_err err = {0};
        if (!is_emptied(get) || is_named(&s->gets.kept, get)) {
            continue;
        }
        struct psi_api_call call = {.session = s,
                                    .timeout_ms = timeout_ms,
                                    .req = {.kind = PSI_REQ_RESET, .src = get->v->container, .chief_number = number}};
        const ps_status st = psi_api_call_run(&call, &err);
        psi_api_log(
            s, PS_LOG_WARN, "emptied", PSI_KV("container", get->v->container), PSI_KV("number", number),
            PSI_KV("st", ps_status_name(st)),
            PSI_KV("msg", st == PS_OK ? "half of the model was lost: what was left of it goes, and its queues" : err.text));
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of a session, and the values that its steps report.
 *
 * Happy path: ps_add_hook() -> ps_session_ready() calls begin -> in each step ps_should_stop() calls before_run, ps_step_value()
 * stores values, ps_step_done() calls after_run with them -> ps_session_close() calls end. One thread at a time calls hooks,
 * without a lock. Calls of the library within a hook call no hooks. A hook that returns OUT_OF_RANGE has met the end of the
 * input: the session stops without an error. Failure modes: a hook fails, or a call in it has a sticky error: the session has its
 * first error, and no further hook is called. A hook whose call was interrupted is called again, with later hooks, when the call
 * to which they belong is made again. A value that a guard refuses ends the session or the step.
 */
#include "lock.h"

#include "common/abi.h"
#include "common/limits.h"
#include "common/mem.h"
#include "common/name.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert(PS_STEP_NAME_BYTES_MAX == PS_CONTAINER_BYTES_MAX, "what is checked has room");

void ps_hook_init(ps_hook *hook)
{
    if (hook != NULL) {
        *hook = (ps_hook){.struct_bytes = sizeof(*hook)};
    }
}

void psi_api_hooks_init(struct psi_hooks *hooks)
{
    psi_list_init(&hooks->list);
}

static void hook_free(struct psi_hook *h)
{
    if (h->release != NULL) {
        h->release(h->hook.ctx);
    }
    psi_free(h);
}

void psi_api_hooks_free(struct psi_hooks *hooks)
{
    struct psi_list *it;
    while ((it = psi_list_pop_front(&hooks->list)) != NULL) {
        hook_free(PSI_CONTAINER_OF(it, struct psi_hook, link));
    }
    psi_free(hooks->said);
    psi_free(hooks->seen);
}

ps_status psi_api_hook_add(ps_session *s, const struct psi_hook *hook, const char *call)
{
    struct psi_err err = {0};
    struct psi_hook *h = psi_calloc(1, sizeof(*h));
    if (h == NULL) {
        (void)psi_fail(&err, PS_RESOURCE_EXHAUSTED, "out of memory for a hook");
    } else {
        *h = *hook;
        h->hook.name = h->name;
        psi_list_init(&h->link);
        (void)pthread_mutex_lock(&s->lock);
        const bool late = s->hooks.begun;
        if (!late) {
            psi_list_push_back(&s->hooks.list, &h->link);
        }
        (void)pthread_mutex_unlock(&s->lock);
        if (!late) {
            return PS_OK;
        }
        psi_free(h);
        (void)psi_fail(&err, PS_FAILED_PRECONDITION, "hooks are added before ps_session_ready()");
    }
    if (hook->release != NULL) {
        hook->release(hook->hook.ctx);
    }
    return psi_api_refused(s, &err, call);
}

ps_status ps_add_hook(ps_session *s, const ps_hook *hook)
{
    struct psi_err err = {0};
    struct psi_hook h = {.release = NULL};
    ps_status st = psi_api_enter(s, false);
    if (st != PS_OK) {
        return st;
    }
    ps_hook_init(&h.hook);
    st = hook == NULL ? psi_fail(&err, PS_INVALID_ARGUMENT, "the hook is NULL")
                      : psi_struct_take(hook, &h.hook, sizeof(h.hook), "ps_hook_init", &err);
    if (st != PS_OK) {
        return psi_api_refused(s, &err, "ps_add_hook");
    }
    (void)snprintf(h.name, sizeof(h.name), "%s", h.hook.name == NULL ? "hook" : h.hook.name);
    return psi_api_hook_add(s, &h, "ps_add_hook");
}

ps_status ps_add_nan_hook(ps_session *s, const char *name, ps_nan_action action)
{
    struct psi_err err = {0};
    struct psi_hook h = {.name = "nan", .guards = action};
    ps_status st = psi_api_enter(s, false);
    if (st != PS_OK) {
        return st;
    }
    st = name == NULL ? PS_OK : psi_value_name_check(name, strlen(name), &err);
    if (st == PS_OK && action != PS_NAN_STOP && action != PS_NAN_SKIP && action != PS_NAN_END) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "action: %d is none of PS_NAN_*", (int)action);
    }
    if (st != PS_OK) {
        return psi_api_refused(s, &err, "ps_add_nan_hook");
    }
    (void)snprintf(h.guarded, sizeof(h.guarded), "%s", name == NULL ? "" : name);
    return psi_api_hook_add(s, &h, "ps_add_nan_hook");
}

enum call { NO_CALL, BEGIN, AFTER_CREATE_SESSION, BEFORE_RUN, AFTER_RUN, END };
static const char *const call_names[] = {[BEGIN] = "begin",
                                         [AFTER_CREATE_SESSION] = "after_create_session",
                                         [BEFORE_RUN] = "before_run",
                                         [AFTER_RUN] = "after_run",
                                         [END] = "end"};

/* The caller holds the lock. */
static bool in_hook(const ps_session *s)
{
    return s->hooks.calls && pthread_equal(s->hooks.caller, pthread_self());
}

bool psi_api_in_hook(ps_session *s)
{
    (void)pthread_mutex_lock(&s->lock);
    const bool inside = in_hook(s);
    (void)pthread_mutex_unlock(&s->lock);
    return inside;
}

ps_step_values psi_api_values(ps_session *s)
{
    ps_step_values values = {.struct_bytes = sizeof(values)};
    (void)pthread_mutex_lock(&s->lock);
    struct psi_values_seen *seen = s->hooks.seen;
    values.global_step = s->global_step;
    if (seen != NULL) {
        seen->of = *s->hooks.said;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (seen != NULL) {
        for (uint32_t i = 0; i < seen->of.count; i++) {
            seen->names[i] = seen->of.names[i];
        }
        values.count = seen->of.count;
        values.names = seen->names;
        values.values = seen->of.values;
    }
    return values;
}

static ps_status call_hook(ps_session *s, const ps_hook *hook, enum call call)
{
    ps_step_values values;
    switch (call) {
    case NO_CALL:
        break;
    case BEGIN:
        return hook->begin == NULL ? PS_OK : hook->begin(hook->ctx, s);
    case AFTER_CREATE_SESSION:
        return hook->after_create_session == NULL ? PS_OK : hook->after_create_session(hook->ctx, s);
    case BEFORE_RUN:
        return hook->before_run == NULL ? PS_OK : hook->before_run(hook->ctx, s);
    case AFTER_RUN:
        values = psi_api_values(s);
        return hook->after_run == NULL ? PS_OK : hook->after_run(hook->ctx, s, &values);
    case END:
        return hook->end == NULL ? PS_OK : hook->end(hook->ctx, s);
    }
    return PS_OK;
}

/* A hook has failed. The error of a call of the library becomes the session's, and a monitored session may recover from it; so
 * do ABORTED and UNAVAILABLE that the hook itself returns. Any other status ends the session, and so does a failure in `begin`,
 * which cannot be called again. Returns the session's first error; CANCELLED: a call of the hook was interrupted. */
static ps_status hook_failed(ps_session *s, ps_status st, enum call call)
{
    struct psi_err err;
    const bool by_a_call = psi_api_returned(st, &err);
    const bool loss = by_a_call || st == PS_ABORTED || st == PS_UNAVAILABLE;
    return loss && call != BEGIN ? psi_api_stick(s, &err) : psi_api_stick_final(s, &err);
}

/* The hook has met the end of the input: no further step begins, and nothing has failed. */
static void input_ended(ps_session *s, const struct psi_hook *h, enum call call)
{
    (void)pthread_mutex_lock(&s->lock);
    const bool news = !s->hooks.stop_asked;
    s->hooks.stop_asked = true;
    const int64_t step = s->global_step;
    (void)pthread_mutex_unlock(&s->lock);
    if (news) {
        psi_api_log(s, PS_LOG_INFO, "input_ended", PSI_KV("hook", h->name), PSI_KV("at", call_names[call]),
                    PSI_KV("global_step", step));
    }
}

/* Call one hook. If it fails, its failed call is the thread's last error; otherwise the last error is restored. *out_ended: the
 * hook has met the end of the input. */
static ps_status call_one(ps_session *s, const struct psi_hook *h, enum call call, bool *out_ended)
{
    struct psi_err before = {0};
    psi_api_last_error_get(&before);
    PSI_IGNORE(psi_api_last_error_set(&(struct psi_err){0})); /* cleared, so that an error found afterwards is the hook's */
    (void)pthread_mutex_lock(&s->lock);
    s->hooks.name = h->name;
    s->hooks.at = call_names[call];
    (void)pthread_mutex_unlock(&s->lock);
    const ps_status returned = call_hook(s, &h->hook, call);
    ps_status st = psi_api_sticky(s, NULL);
    if (returned == PS_OUT_OF_RANGE && st == PS_OK) {
        input_ended(s, h, call);
    } else if (returned != PS_OK) {
        st = hook_failed(s, returned, call);
    }
    *out_ended = returned == PS_OUT_OF_RANGE && st == PS_OK;
    if (st == PS_OK) {
        PSI_IGNORE(psi_api_last_error_set(&before)); /* restore it */
    }
    return st;
}

/* Call the hooks from `it` on, in order, until one fails or meets the end of the input. With END all are called, unless one
 * fails. *out_left: the hook whose call was interrupted. */
static ps_status call_from(ps_session *s, struct psi_list *it, enum call call, struct psi_list **out_left)
{
    ps_status st = PS_OK;
    bool ended = false;
    for (; st == PS_OK && it != &s->hooks.list && (!ended || call == END); it = it->next) {
        st = call_one(s, PSI_CONTAINER_OF(it, struct psi_hook, link), call, &ended);
        const bool interrupted = st == PS_CANCELLED && psi_api_sticky(s, NULL) == PS_OK;
        *out_left = interrupted ? it : NULL;
        st = interrupted && call == END ? PS_OK : st; /* no hook is called again at the session's end */
    }
    return st;
}

/* No other thread calls hooks. */
static bool calls_none(ps_session *s, const void *none)
{
    (void)none;
    return !s->hooks.calls;
}

/* Call all hooks in order; after an interrupt the interrupted hook and those behind it. Does nothing within a hook or on the
 * loop thread. Returns the session's first error; CANCELLED: interrupted. */
static ps_status call_all(ps_session *s, enum call call)
{
    ps_status st = psi_api_sticky(s, NULL);
    if (st != PS_OK || psi_list_empty(&s->hooks.list) || psi_io_on_loop(s->io)) {
        return st;
    }
    if (psi_api_in_hook(s)) {
        return st;
    }
    struct psi_err err = {0};
    (void)pthread_mutex_lock(&s->lock);
    psi_api_wait_until(s, calls_none, NULL, PSI_WAIT_DRIVES | PSI_WAIT_CUT);
    st = psi_api_interrupted(s, &err);
    struct psi_list *first = s->hooks.left_at == (unsigned)call ? s->hooks.left : s->hooks.list.next;
    struct psi_list *left = NULL;
    if (st == PS_OK) {
        s->hooks.calls = true;
        s->hooks.caller = pthread_self();
        s->hooks.over = call == AFTER_RUN;
    } else { /* interrupted before any hook was called */
        s->hooks.left = first;
        s->hooks.left_at = call;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (st != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    st = call_from(s, first, call, &left);
    (void)pthread_mutex_lock(&s->lock);
    s->hooks.left = left;
    s->hooks.left_at = left != NULL ? call : NO_CALL;
    s->hooks.calls = false;
    s->hooks.over = false;
    psi_api_wake(s);
    (void)pthread_mutex_unlock(&s->lock);
    return st;
}

ps_status psi_api_hooks_begin(ps_session *s)
{
    (void)pthread_mutex_lock(&s->lock);
    const bool first = !s->hooks.begun || s->hooks.left_at == BEGIN;
    s->hooks.begun = true;
    (void)pthread_mutex_unlock(&s->lock);
    return first ? call_all(s, BEGIN) : PS_OK;
}

/* Call after_create_session. by_trainer: the calling thread makes the steps from now on; false: it is a thread that has found
 * the loss. */
static ps_status created(ps_session *s, bool by_trainer)
{
    (void)pthread_mutex_lock(&s->lock);
    if (by_trainer) {
        s->hooks.trainer = pthread_self();
        s->hooks.created = true;
    }
    const bool was_created = s->hooks.created;
    s->hooks.anew = !by_trainer;
    s->hooks.broken = s->hooks.broken || s->hooks.in_step;
    s->hooks.in_step = false;
    (void)pthread_mutex_unlock(&s->lock);
    return was_created ? call_all(s, AFTER_CREATE_SESSION) : PS_OK;
}

ps_status psi_api_hooks_created(ps_session *s)
{
    return created(s, true);
}

ps_status psi_api_hooks_made_anew(ps_session *s)
{
    return created(s, false);
}

/* Drop the reported values: their step has ended, or will not. The caller holds the lock. */
static void values_clear(struct psi_hooks *hooks)
{
    hooks->skipping = false;
    if (hooks->said != NULL) {
        hooks->said->count = 0;
    }
}

bool psi_api_hooks_created_left(ps_session *s)
{
    (void)pthread_mutex_lock(&s->lock);
    const bool left = s->hooks.anew && s->hooks.left_at == AFTER_CREATE_SESSION;
    (void)pthread_mutex_unlock(&s->lock);
    return left;
}

bool psi_api_hooks_step_left(ps_session *s)
{
    (void)pthread_mutex_lock(&s->lock);
    const bool left = s->hooks.left_at == AFTER_RUN && !in_hook(s);
    (void)pthread_mutex_unlock(&s->lock);
    return left;
}

bool psi_api_hooks_step_begins(ps_session *s)
{
    (void)pthread_mutex_lock(&s->lock);
    const bool begins = s->hooks.created && !s->hooks.in_step && !in_hook(s) && pthread_equal(s->hooks.trainer, pthread_self());
    if (begins) {
        /* the program has begun the next step, so the hooks of the last one are not called again */
        s->hooks.left_at = s->hooks.left_at == AFTER_RUN ? NO_CALL : s->hooks.left_at;
        s->hooks.in_step = true;
        if (s->hooks.broken) {
            values_clear(&s->hooks);
        }
        s->hooks.broken = false;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (!begins) {
        return true;
    }
    const ps_status st = call_all(s, BEFORE_RUN);
    (void)pthread_mutex_lock(&s->lock);
    const bool goes_on = st == PS_OK && !s->stopping && !s->hooks.stop_asked;
    s->hooks.in_step = goes_on;
    (void)pthread_mutex_unlock(&s->lock);
    return goes_on;
}

/* The calling thread has ended a step. The caller holds the lock. */
static void step_over(struct psi_hooks *hooks)
{
    hooks->trainer = pthread_self();
    hooks->in_step = false;
    hooks->broken = false;
}

ps_status psi_api_hooks_step_done(ps_session *s)
{
    (void)pthread_mutex_lock(&s->lock);
    const bool nested = in_hook(s);
    if (!nested) {
        step_over(&s->hooks);
        s->hooks.skips_in_row = 0;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (nested) {
        return PS_OK;
    }
    const ps_status st = call_all(s, AFTER_RUN);
    (void)pthread_mutex_lock(&s->lock);
    if (s->hooks.left_at != AFTER_RUN) {
        values_clear(&s->hooks);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return st;
}

void psi_api_hooks_end(ps_session *s)
{
    (void)pthread_mutex_lock(&s->lock);
    const bool ends = s->hooks.created && !s->hooks.ended && !psi_api_closes(s);
    s->hooks.ended = true;
    (void)pthread_mutex_unlock(&s->lock);
    if (ends) {
        PSI_IGNORE(call_all(s, END)); /* the session's error, which ps_session_close() returns */
    }
}

bool ps_step_values_find(const ps_step_values *values, const char *name, double *out_value)
{
    for (uint32_t i = 0; values != NULL && name != NULL && i < values->count; i++) {
        if (strcmp(values->names[i], name) == 0) {
            if (out_value != NULL) {
                *out_value = values->values[i];
            }
            return true;
        }
    }
    return false;
}

const char *psi_api_value_text(char buf[32], double value)
{
    (void)snprintf(buf, 32, "%.6g", isnan(value) ? fabs(value) : value); /* fabs() drops the sign of a NaN */
    return buf;
}

/* Make room for another name. The caller holds the lock. */
static ps_status values_room(struct psi_hooks *hooks, struct psi_err *err)
{
    if (hooks->said == NULL) {
        struct psi_values *said = psi_calloc(1, sizeof(*said));
        struct psi_values_seen *seen = psi_calloc(1, sizeof(*seen));
        if (said == NULL || seen == NULL) {
            psi_free(said);
            psi_free(seen);
            return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the values of a step");
        }
        hooks->said = said;
        hooks->seen = seen;
    }
    return PS_OK;
}

static ps_status values_say(struct psi_hooks *hooks, const char *name, double value, struct psi_err *err)
{
    ps_status st = values_room(hooks, err);
    if (st != PS_OK) {
        return st;
    }
    struct psi_values *v = hooks->said;
    uint32_t i = 0;
    while (i < v->count && strcmp(v->names[i], name) != 0) {
        i++;
    }
    if (i == PS_STEP_VALUES_MAX) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "'%s': a step has %d names at most", name, PS_STEP_VALUES_MAX);
    }
    v->count += i == v->count ? 1 : 0;
    (void)snprintf(v->names[i], sizeof(v->names[i]), "%s", name);
    v->values[i] = value;
    return PS_OK;
}

/* Action of the guards for a value that is not finite; 0: none. PS_NAN_STOP precedes PS_NAN_END, which precedes PS_NAN_SKIP.
 * The caller holds the lock. */
static ps_nan_action guards_of(struct psi_hooks *hooks, const char *name)
{
    ps_nan_action action = 0;
    for (struct psi_list *it = hooks->list.next; it != &hooks->list; it = it->next) {
        const struct psi_hook *h = PSI_CONTAINER_OF(it, struct psi_hook, link);
        const bool asks = h->guards != 0 && (h->guarded[0] == '\0' || strcmp(h->guarded, name) == 0);
        if (asks && action != PS_NAN_STOP && (action != PS_NAN_END || h->guards == PS_NAN_STOP)) {
            action = h->guards;
        }
    }
    return action;
}

/* A parameter that was pushed in this step of a round; NULL: none. The caller holds the lock. */
static const ps_param *pushed_in_round(ps_session *s)
{
    struct psi_list *const params = &s->train.params;
    for (struct psi_list *it = params->next; s->train.mode == PS_SYNC_ROUNDS && it != params; it = it->next) {
        ps_param *p = psi_api_param(PSI_CONTAINER_OF(it, struct psi_training_param, link));
        if (psi_training_is_pushed(&s->train, &p->train)) {
            return p;
        }
    }
    return NULL;
}

enum guarded { GUARD_NO_NEWS, GUARD_SKIPS, GUARD_ENDS };

/* The value is not finite: do what its guards ask for. *out_news: for the log. The caller holds the lock. */
static ps_status guard(ps_session *s, const char *name, double value, enum guarded *out_news, struct psi_err *err)
{
    const ps_nan_action action = guards_of(&s->hooks, name);
    if (action == 0 || (s->hooks.skipping && action == PS_NAN_SKIP)) {
        return PS_OK;
    }
    if (action == PS_NAN_END) { /* what the step has pushed or counted stays */
        *out_news = s->hooks.stop_asked ? GUARD_NO_NEWS : GUARD_ENDS;
        s->hooks.skipping = s->hooks.skipping || (!s->hooks.over && pushed_in_round(s) == NULL);
        s->hooks.stop_asked = true;
        return PS_OK;
    }
    if (action == PS_NAN_STOP || s->hooks.skips_in_row >= PS_NAN_SKIPS_MAX) {
        char row[64] = "";
        char text[32];
        if (action != PS_NAN_STOP) {
            (void)snprintf(row, sizeof(row), "; so it was in %u steps in a row, which were skipped", s->hooks.skips_in_row);
        }
        return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_NOT_FINITE, "'%s' is %s behind global step %lld%s", name,
                           psi_api_value_text(text, value), (long long)s->global_step, row);
    }
    const ps_param *pushed = pushed_in_round(s);
    if (s->hooks.over || pushed != NULL) {
        char text[32];
        return psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_NOT_FINITE,
                           "'%s' is %s: the step cannot be skipped, because %s%s%s; say it before the first ps_push()", name,
                           psi_api_value_text(text, value), pushed != NULL ? "parameter '" : "it is counted",
                           pushed != NULL ? pushed->name : "", pushed != NULL ? "' was pushed in it" : "");
    }
    s->hooks.skipping = true;
    *out_news = GUARD_SKIPS;
    return PS_OK;
}

ps_status ps_step_value(ps_session *s, const char *name, double value)
{
    struct psi_err err = {0};
    enum guarded comes_of_it = GUARD_NO_NEWS;
    int64_t step = 0;
    int64_t before = 0;
    ps_status st = psi_api_enter(s, false);
    if (st != PS_OK) {
        return st;
    }
    st = name == NULL ? psi_fail(&err, PS_INVALID_ARGUMENT, "the name is NULL") : psi_value_name_check(name, strlen(name), &err);
    if (st == PS_OK) {
        (void)pthread_mutex_lock(&s->lock);
        st = values_say(&s->hooks, name, value, &err);
        st = st == PS_OK && !isfinite(value) ? guard(s, name, value, &comes_of_it, &err) : st;
        step = s->global_step;
        before = s->hooks.skipped;
        (void)pthread_mutex_unlock(&s->lock);
    }
    if (st != PS_OK) {
        return psi_api_refused(s, &err, "ps_step_value");
    }
    char text[32];
    if (comes_of_it == GUARD_SKIPS) {
        psi_api_log(s, PS_LOG_WARN, "step_skipped", PSI_KV("global_step", step), PSI_KV("name", name),
                    PSI_KV("value", psi_api_value_text(text, value)), PSI_KV("skipped_before", before));
    } else if (comes_of_it == GUARD_ENDS) {
        psi_api_log(s, PS_LOG_WARN, "nan_ended", PSI_KV("global_step", step), PSI_KV("name", name),
                    PSI_KV("value", psi_api_value_text(text, value)));
    }
    return PS_OK;
}

bool psi_api_step_skips(ps_session *s)
{
    (void)pthread_mutex_lock(&s->lock);
    const bool skips = s->hooks.skipping;
    (void)pthread_mutex_unlock(&s->lock);
    return skips;
}

bool psi_api_step_skipped(ps_session *s)
{
    (void)pthread_mutex_lock(&s->lock);
    const bool skipped = s->hooks.skipping && !in_hook(s);
    if (skipped) {
        step_over(&s->hooks);
        values_clear(&s->hooks);
        s->hooks.skipped++;
        s->hooks.skips_in_row++;
    }
    (void)pthread_mutex_unlock(&s->lock);
    return skipped;
}

int64_t ps_skipped(ps_session *s)
{
    return s != NULL ? psi_api_look(s, &s->hooks.skipped) : 0;
}

ps_status ps_request_stop(ps_session *s)
{
    struct psi_err err = {0};
    const ps_status st = psi_api_check(s, false, &err);
    if (st != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    (void)pthread_mutex_lock(&s->lock);
    s->hooks.stop_asked = true;
    (void)pthread_mutex_unlock(&s->lock);
    return PS_OK;
}

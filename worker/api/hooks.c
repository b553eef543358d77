/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of a session, and the values that its steps report.
 *
 * Happy path: the program adds hooks by ps_add_hook(). ps_session_ready() calls begin; in each step ps_should_stop() calls
 * before_run, ps_step_value() stores values, and ps_step_done() calls after_run with them; ps_session_close() calls end. One
 * thread at a time calls hooks, without a lock. Calls of the library within a hook call no hooks. If a hook returns OUT_OF_RANGE,
 * the input has ended: the session stops without an error. Failure modes: a hook fails, or a call in it gives the session an
 * error: no further hook is called. If a call in a hook was interrupted, and the program repeats its own call, this hook and the
 * later hooks are called. A guard (a hook against NaN and infinity) refuses a value: the session or the step ends.
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
        const struct psi_who who = psi_api_who(s);
        (void)pthread_mutex_lock(&s->lock);
        const bool in_time = psi_hook_event(&s->hooks.calls, &who, PSI_ON_HOOK_ADD) != 0;
        if (in_time) {
            psi_list_push_back(&s->hooks.list, &h->link);
        }
        (void)pthread_mutex_unlock(&s->lock);
        if (in_time) {
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

static const char *const moment_names[PSI_HOOK_MOMENTS] = {[PSI_HOOK_BEGIN] = "begin",
                                                           [PSI_HOOK_CREATED] = "after_create_session",
                                                           [PSI_HOOK_BEFORE_RUN] = "before_run",
                                                           [PSI_HOOK_AFTER_RUN] = "after_run",
                                                           [PSI_HOOK_END] = "end"};

/* The hook that runs now. The caller holds the lock. */
static const struct psi_hook *called_hook(const struct psi_hooks *hooks)
{
    struct psi_list *it = hooks->list.next;
    for (uint32_t i = 0; i < hooks->calls.at; i++) {
        it = it->next;
    }
    return PSI_CONTAINER_OF(it, struct psi_hook, link);
}

void psi_api_hook_name(const ps_session *s, const struct psi_who *who, struct psi_err *err)
{
    if (psi_hook_calls_within(&s->hooks.calls, who)) {
        psi_err_prefix(err, "hook '%s', %s", called_hook(&s->hooks)->name, moment_names[s->hooks.calls.calling]);
    }
}

uint64_t psi_api_hook_event(ps_session *s, enum psi_hook_event event)
{
    const struct psi_who who = psi_api_who(s);
    (void)pthread_mutex_lock(&s->lock);
    const uint64_t answer = psi_hook_event(&s->hooks.calls, &who, event);
    (void)pthread_mutex_unlock(&s->lock);
    return answer;
}

/* The values of the present step; NULL: none was reported. The caller holds the lock. */
static const struct psi_values *values_now(const struct psi_hooks *hooks)
{
    return hooks->said != NULL && hooks->said->step == hooks->calls.values_step ? hooks->said : NULL;
}

ps_step_values psi_api_values(ps_session *s)
{
    ps_step_values values = {.struct_bytes = sizeof(values)};
    (void)pthread_mutex_lock(&s->lock);
    struct psi_values_seen *seen = s->hooks.seen;
    const struct psi_values *now = values_now(&s->hooks);
    values.global_step = s->global_step;
    if (now != NULL) {
        seen->of = *now;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (now != NULL) {
        for (uint32_t i = 0; i < seen->of.count; i++) {
            seen->names[i] = seen->of.names[i];
        }
        values.count = seen->of.count;
        values.names = seen->names;
        values.values = seen->of.values;
    }
    return values;
}

void psi_api_said(void *session, char *text, size_t n)
{
    ps_session *s = session;
    size_t used = 0;
    text[0] = '\0';
    (void)pthread_mutex_lock(&s->lock);
    const struct psi_values *v = s->hooks.said;
    for (uint32_t i = 0; v != NULL && i < v->count; i++) {
        char value[32], word[PS_STEP_NAME_BYTES_MAX + 40];
        const int bytes =
            snprintf(word, sizeof(word), "%s%s=%s", used > 0 ? " " : "", v->names[i], psi_api_value_text(value, v->values[i]));
        if (used + (size_t)bytes < n) {
            memcpy(text + used, word, (size_t)bytes + 1);
            used += (size_t)bytes;
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
}

static ps_status call_hook(ps_session *s, const ps_hook *hook, enum psi_hook_moment moment)
{
    ps_status (*const calls[PSI_HOOK_MOMENTS])(void *ctx, ps_session *s) = {[PSI_HOOK_BEGIN] = hook->begin,
                                                                            [PSI_HOOK_CREATED] = hook->after_create_session,
                                                                            [PSI_HOOK_BEFORE_RUN] = hook->before_run,
                                                                            [PSI_HOOK_END] = hook->end};
    if (moment == PSI_HOOK_AFTER_RUN && hook->after_run != NULL) {
        const ps_step_values values = psi_api_values(s);
        return hook->after_run(hook->ctx, s, &values);
    }
    return calls[moment] != NULL ? calls[moment](hook->ctx, s) : PS_OK;
}

/* Give the session the error of a hook that has failed. Errors of library calls, and ABORTED and UNAVAILABLE of the hook itself,
 * are a loss, from which a monitored session may recover. Any other status ends the session, and so does a failure in `begin`,
 * which cannot be called again. Returns the session's first error; CANCELLED: a call of the hook was interrupted. */
static ps_status hook_failed(ps_session *s, ps_status st, enum psi_hook_moment moment)
{
    struct psi_err err;
    const bool by_a_call = psi_api_returned(st, &err);
    const bool loss = by_a_call || st == PS_ABORTED || st == PS_UNAVAILABLE;
    return loss && moment != PSI_HOOK_BEGIN ? psi_api_stick(s, &err) : psi_api_stick_final(s, &err);
}

/* Call when a hook has returned OUT_OF_RANGE (end of input): no further step begins, and the session gets no error. */
static void input_ended(ps_session *s, const struct psi_hook *h, enum psi_hook_moment moment)
{
    if (psi_api_hook_event(s, PSI_ON_STOP_ASKED) != 0) {
        psi_api_log(s, PS_LOG_INFO, "input_ended", PSI_KV("hook", h->name), PSI_KV("at", moment_names[moment]),
                    PSI_KV("global_step", ps_global_step(s)));
    }
}

/* Call one hook. If the hook fails, its error is the thread's last error; otherwise the thread's older last error is restored.
 * *out_status: the session's first error; CANCELLED: interrupted. */
static enum psi_hook_return call_one(ps_session *s, const struct psi_hook *h, enum psi_hook_moment moment, ps_status *out_status)
{
    struct psi_err before = {0};
    psi_api_last_error_get(&before);
    PSI_IGNORE(psi_api_last_error_set(&(struct psi_err){0})); /* cleared, so that a later error is the hook's */
    const ps_status returned = call_hook(s, &h->hook, moment);
    ps_status st = psi_api_sticky(s, NULL);
    const bool ended = returned == PS_OUT_OF_RANGE && st == PS_OK;
    if (ended) {
        input_ended(s, h, moment);
    } else if (returned != PS_OK) {
        st = hook_failed(s, returned, moment);
    }
    *out_status = st;
    if (st == PS_OK) {
        PSI_IGNORE(psi_api_last_error_set(&before)); /* restores the last error */
        return ended ? PSI_HOOK_INPUT_ENDED : PSI_HOOK_RETURNED;
    }
    return st == PS_CANCELLED && psi_api_sticky(s, NULL) == PS_OK ? PSI_HOOK_INTERRUPTED : PSI_HOOK_FAILED;
}

static bool calls_none(ps_session *s, void *none)
{
    (void)none;
    return s->hooks.calls.calling == PSI_HOOK_NONE;
}

/* State of the calls of all hooks for one moment, such as before_run. */
struct moment {
    enum psi_hook_moment of;
    bool recovered;              /* PSI_HOOK_CREATED, after a recovery */
    bool due;                    /* now this thread may call the hooks for `of`; false: too early, too late, or within a hook */
    bool begins;                 /* PSI_HOOK_BEFORE_RUN: the step begins */
    const struct psi_hook *hook; /* the hook to call; NULL: none so far */
    enum psi_hook_return how;    /* how the last call of `hook` has ended */
    ps_status st;                /* the session's first error; CANCELLED: interrupted */
    struct psi_err cut;          /* the interrupt that came before the first hook was called; code PS_OK: none came */
};

/* Begin the calls of the hooks for m->of. After an interrupt the calls begin at the interrupted hook. After ps_session_leave() no
 * hook is called for PSI_HOOK_END. True: a hook is to be called. The caller holds the lock. */
static bool begin_calls(ps_session *s, const struct psi_who *who, struct moment *m)
{
    m->due = psi_hook_comes(&s->hooks.calls, who, m->of, m->recovered) && (m->of != PSI_HOOK_END || !psi_api_closes(s));
    m->st = m->due ? psi_session_error(&s->machine, who, NULL) : PS_OK;
    if (!m->due || psi_list_empty(&s->hooks.list) || who->on_loop) {
        return false;
    }
    /* the session was lost: if its `begin` hooks have not run yet, mark them as due, to be called after the recovery */
    if (m->st != PS_OK) {
        return m->of == PSI_HOOK_BEGIN && psi_hook_calls_begin(&s->hooks.calls, who, m->of, true);
    }
    (void)psi_api_wait_until(s, calls_none, NULL, PSI_WAIT_DRIVES | PSI_WAIT_CUT);
    m->st = psi_api_interrupted(s, &m->cut);
    return psi_hook_calls_begin(&s->hooks.calls, who, m->of, m->st != PS_OK);
}

/* Call after the hooks' calls for m->of, or if there is no hook. BEFORE_RUN: decides whether the step begins. AFTER_RUN:
 * notes that the step's values were shown. Wakes threads that wait to call hooks. The caller holds the lock. */
static void end_calls(ps_session *s, const struct psi_who *who, struct moment *m)
{
    if (m->of == PSI_HOOK_BEFORE_RUN) {
        m->begins = psi_hook_step_begins(&s->hooks.calls, m->st == PS_OK && s->machine.stop == PSI_STOP_NOT);
    } else if (m->of == PSI_HOOK_AFTER_RUN) {
        (void)psi_hook_event(&s->hooks.calls, who, PSI_ON_VALUES_SEEN);
    }
    if (!psi_list_empty(&s->hooks.list)) {
        psi_api_wake(s);
    }
}

/* Set m->hook to the next hook to call. On entry m->hook is the hook that was called last, NULL before the first call, and m->how
 * the end of its call. False: no hook is left. */
static bool next_hook(ps_session *s, struct moment *m)
{
    const struct psi_who who = psi_api_who(s);
    (void)pthread_mutex_lock(&s->lock);
    const bool more = m->hook == NULL ? begin_calls(s, &who, m) : psi_hook_called(&s->hooks.calls, m->how);
    psi_hook_calls_check_invariants(&s->hooks.calls);
    if (more) {
        m->hook = called_hook(&s->hooks);
    } else if (m->due) {
        end_calls(s, &who, m);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return more;
}

static ps_status call_all(ps_session *s, struct moment *m)
{
    while (next_hook(s, m)) {
        m->how = call_one(s, m->hook, m->of, &m->st);
    }
    return m->cut.code != PS_OK ? psi_api_last_error_set(&m->cut) : m->st;
}

ps_status psi_api_hooks_call(ps_session *s, enum psi_hook_moment moment)
{
    return call_all(s, &(struct moment){.of = moment});
}

ps_status psi_api_hooks_made_anew(ps_session *s)
{
    return call_all(s, &(struct moment){.of = PSI_HOOK_CREATED, .recovered = true});
}

bool psi_api_hooks_step_begins(ps_session *s)
{
    struct moment before = {.of = PSI_HOOK_BEFORE_RUN};
    PSI_IGNORE(call_all(s, &before)); /* a failure is in the session; the step does not begin */
    return !before.due || before.begins;
}

ps_status psi_api_hooks_step_done(ps_session *s)
{
    return call_all(s, &(struct moment){.of = PSI_HOOK_AFTER_RUN});
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
    v->count = values_now(hooks) != NULL ? v->count : 0;
    v->step = hooks->calls.values_step;
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

/* Under the lock: what the guards (hooks against NaN and infinity) ask for if the value `name` is not finite; 0: no guard. If
 * several guards ask: PS_NAN_STOP comes before PS_NAN_END, and PS_NAN_END before PS_NAN_SKIP. */
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

/* A parameter that was pushed in this step, if the session trains in rounds; else NULL. The caller holds the lock. */
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

/* Under the lock: apply the guards to a value that is NaN or infinite. *out_news: what to log; PSI_GUARD_PASSES: log nothing. */
static ps_status guard(ps_session *s, const char *name, double value, enum psi_guarded *out_news, struct psi_err *err)
{
    const ps_param *pushed = pushed_in_round(s);
    bool news = false;
    const ps_nan_action action = guards_of(&s->hooks, name);
    const enum psi_guarded how = psi_hook_guard(&s->hooks.calls, action, pushed != NULL, &news);
    char text[32];
    *out_news = news ? how : PSI_GUARD_PASSES;
    if (how == PSI_GUARD_STOPS) {
        char row[64] = "";
        if (action != PS_NAN_STOP) {
            (void)snprintf(row, sizeof(row), "; so it was in %u steps in a row, which were skipped", s->hooks.calls.skips_in_row);
        }
        return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_NOT_FINITE, "'%s' is %s behind global step %lld%s", name,
                           psi_api_value_text(text, value), (long long)s->global_step, row);
    }
    if (how == PSI_GUARD_TOO_LATE) {
        return psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_NOT_FINITE,
                           "'%s' is %s: the step cannot be skipped, because %s%s%s; say it before the first ps_push()", name,
                           psi_api_value_text(text, value), pushed != NULL ? "parameter '" : "it is counted",
                           pushed != NULL ? pushed->name : "", pushed != NULL ? "' was pushed in it" : "");
    }
    return PS_OK;
}

ps_status ps_step_value(ps_session *s, const char *name, double value)
{
    struct psi_err err = {0};
    enum psi_guarded comes_of_it = PSI_GUARD_PASSES;
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
        before = s->hooks.calls.skipped;
        (void)pthread_mutex_unlock(&s->lock);
    }
    if (st != PS_OK) {
        return psi_api_refused(s, &err, "ps_step_value");
    }
    char text[32];
    if (comes_of_it == PSI_GUARD_SKIPS) {
        psi_api_log(s, PS_LOG_WARN, "step_skipped", PSI_KV("global_step", step), PSI_KV("name", name),
                    PSI_KV("value", psi_api_value_text(text, value)), PSI_KV("skipped_before", before));
    } else if (comes_of_it == PSI_GUARD_ENDS) {
        psi_api_log(s, PS_LOG_WARN, "nan_ended", PSI_KV("global_step", step), PSI_KV("name", name),
                    PSI_KV("value", psi_api_value_text(text, value)));
    }
    return PS_OK;
}

int64_t ps_skipped(ps_session *s)
{
    return s != NULL ? psi_api_look(s, &s->hooks.calls.skipped) : 0;
}

ps_status ps_request_stop(ps_session *s)
{
    struct psi_err err = {0};
    const ps_status st = psi_api_check(s, false, &err);
    if (st != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    (void)psi_api_hook_event(s, PSI_ON_STOP_ASKED);
    return PS_OK;
}

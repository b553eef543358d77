/* SPDX-License-Identifier: Apache-2.0 */
/* Monitored sessions: recovery from a loss, while the program's objects stay valid.
 *
 * Happy path: an error from which a session may recover sticks, and every call of the program returns it until the end of the
 * step. Then psi_api_recover(), on the program's thread, keeps other threads out, ends the requests in flight, and closes the io
 * (the loop with its connections). After a pause it opens another io, gets all variables again in the same order, makes the model
 * ready, and clears the error. Failure modes: an attempt that fails with a recoverable error is repeated, with back-off, until
 * the recovery's time is over. Any other error, too many consecutive recoveries, or an error of the program ends the session. If
 * the session is closed meanwhile, the recovery ends and the error stays. */
#include "lock.h"
#include "monitored.h"
#include "queue.h"
#include "training.h"

#include "common/abi.h"
#include "common/hash.h"
#include "common/mem.h"
#include "common/rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    PAUSE_MS = 100, /* longest pause before the first attempt; doubled before each further attempt, up to PAUSE_MOST_MS */
    PAUSE_MOST_MS = 5000
};
enum { ENDS_MS = 1000 };  /* ms within which requests in flight must end */
enum { LEAVES_MS = 250 }; /* longest wait in ms for the answers to the last request, GOODBYE or BEAT */
enum { WAIT_STEP_MS = 50, WAIT_STEP_MOST_MS = 1000 };

struct recovery {
    ps_session *session;
    uint64_t began_ms, end_ms;
    uint32_t tries;
    int64_t step_before;
    struct psi_found found;
    struct psi_err err; /* error of the last attempt */
};

static int64_t left_ms(const struct recovery *r, int64_t most)
{
    const uint64_t now = psi_io_now_ms();
    const int64_t left = now < r->end_ms ? (int64_t)(r->end_ms - now) : 1;
    return left < most ? left : most;
}

static int64_t took_ms(const struct recovery *r)
{
    return (int64_t)(psi_io_now_ms() - r->began_ms);
}

/* Begin a recovery on this thread, under the lock. False: the job is to stop, the call was interrupted, or nothing is lost. */
static bool begin(struct recovery *r, ps_session *s)
{
    struct psi_monitor *m = s->monitor;
    const struct psi_who who = psi_api_who(s);
    /* an evaluator recovers even if the job is to stop: it has a last test to do */
    const bool stops = s->machine.stop != PSI_STOP_NOT && !psi_api_evaluates(s);
    if (stops || psi_api_interrupted(s, NULL) != PS_OK || psi_session_event(&s->machine, &who, PSI_ON_RECOVER, 0) == 0) {
        return false;
    }
    r->session = s;
    r->began_ms = psi_io_now_ms();
    r->end_ms = r->began_ms + (uint64_t)m->options.max_recovery_ms;
    if (s->deadline_ms > 0 && s->deadline_ms < r->end_ms) {
        r->end_ms = s->deadline_ms;
    }
    r->step_before = s->global_step;
    if (m->random == 0) {
        m->random =
            psi_fnv1a64(PSI_FNV1A64_START ^ s->seed ^ (uint64_t)s->pid << 32 ^ s->task ^ r->began_ms, s->job, strlen(s->job));
    }
    return true;
}

/* Close the lost io, if it is not closed yet. False: the call was interrupted while requests were still in flight. */
static bool take_down(struct recovery *r)
{
    ps_session *s = r->session;
    (void)psi_api_train_event(s, &(struct psi_train_event){.kind = PSI_TRAIN_LOST});
    /* the chief of a job sends no GOODBYE, which would end its lease: the recovered session continues as chief */
    const bool leaves = psi_api_tell(s, PSI_IS_CHIEF, 0) == 0 || s->job[0] == '\0';
    if (s->io != NULL) {
        if (!psi_api_hurry(s, ENDS_MS)) {
            return false;
        }
        psi_monitor_empty(s, left_ms(r, s->operation_timeout_ms));
        if (psi_api_interrupted(s, NULL) == PS_OK) {
            psi_api_part(s, leaves, LEAVES_MS);
        }
        psi_api_io_close(s);
    }
    psi_api_gets_forget(s);
    if (s->plans_forget != NULL) {
        s->plans_forget(s);
    }
    psi_api_params_forget(s);
    (void)psi_api_tell(s, PSI_ON_DRAINED, 0);
    return true;
}

static void pause_before(const struct recovery *r)
{
    struct psi_monitor *m = r->session->monitor;
    int64_t ms = PAUSE_MS;
    for (uint32_t i = 1; i < r->tries && ms < PAUSE_MOST_MS; i++) {
        ms *= 2;
    }
    ms = ms < PAUSE_MOST_MS ? ms : PAUSE_MOST_MS;
    psi_api_pause(r->session, left_ms(r, (int64_t)psi_random_below(&m->random, (uint64_t)ms) + 1));
}

/* True while the recovery waits for queues that other clients must make again, because this program had only looked them up.
 * After some time the recovery continues without these queues. */
static bool waits(const struct recovery *r)
{
    const ps_session *s = r->session;
    const int64_t half = s->monitor->options.max_recovery_ms / 2;
    return took_ms(r) < (half < s->operation_timeout_ms ? half : s->operation_timeout_ms);
}

static ps_status make_anew(struct recovery *r)
{
    ps_session *s = r->session;
    r->err = (struct psi_err){0};
    ps_status st = psi_api_io_open(s, s->monitor->opening, &r->err);
    if (st == PS_OK) {
        psi_trace_again(s);
    }
    st = st == PS_OK ? psi_api_get_again(s, left_ms(r, s->operation_timeout_ms), waits(r), &r->err) : st;
    if (st == PS_OK && s->machine.readiness != PSI_READY_NOT_ASKED) {
        st = psi_api_ready(s, left_ms(r, s->ready_timeout_ms), &r->found, &r->err);
    }
    st = st == PS_OK ? psi_api_work_again(s, left_ms(r, s->operation_timeout_ms), &r->err) : st;
    if (st == PS_OK && psi_api_sticky(s, &r->err) != PS_OK) {
        st = r->err.code;
    }
    r->err.code = st;
    return st;
}

static void give_up(ps_session *s, const struct psi_err *err)
{
    psi_api_log(s, PS_LOG_ERROR, "session_failed", PSI_KV("st", ps_status_name(err->code)),
                PSI_KV("reason", ps_reason_name(psi_reason(err->reason, err->code))),
                PSI_KV("applied", psi_applied_name(err->applied)), PSI_KV("msg", err->text));
    (void)psi_api_tell(s, PSI_ON_GIVE_UP, 0);
}

/* True if another attempt to recover must follow after r->err. Otherwise the session ends: with the program's own error, with the
 * error of the last attempt, or, if the session is being closed, with the error of the loss. */
static bool try_again(struct recovery *r)
{
    ps_session *s = r->session;
    struct psi_err err = {0};
    (void)pthread_mutex_lock(&s->lock);
    const bool again = psi_session_try_again(&s->machine, &r->err, psi_io_now_ms() < r->end_ms);
    if (!again) {
        psi_err_prefix(&r->err, "the session was lost (%s), and was not made anew within %" PRId64 " ms and %" PRIu32 " %s",
                       ps_status_name(s->machine.cause.code), took_ms(r), r->tries, r->tries == 1 ? "try" : "tries");
        err = *psi_session_doomed(&s->machine, &r->err);
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (!again) {
        give_up(s, &err);
    }
    return again;
}

static void finish(struct recovery *r)
{
    ps_session *s = r->session;
    struct psi_monitor *m = s->monitor;
    ps_recovery *last = &m->last;
    const struct psi_err cause = s->machine.cause;
    const bool readied = s->machine.readiness != PSI_READY_NOT_ASKED;
    bool all = false;
    const uint64_t checkpoint = psi_api_gets_restored(s, &all);
    (void)pthread_mutex_lock(&s->lock);
    *last = (ps_recovery){.struct_bytes = sizeof(*last),
                          .count = last->count + 1,
                          .replacements = last->replacements,
                          .lost_steps_total = last->lost_steps_total,
                          .status = cause.code,
                          .reason = psi_reason(cause.reason, cause.code),
                          .step_before = r->step_before,
                          .step = readied ? r->found.step : r->step_before,
                          .took_ms = took_ms(r),
                          .checkpoint = checkpoint,
                          .partly = checkpoint != 0 && !all};
    last->replaced = readied && (r->found.incarnation != m->found.incarnation || r->found.creation != m->found.creation);
    last->replacements += last->replaced ? 1 : 0;
    last->model_step = r->found.model_step;
    const int64_t kept = last->replaced ? last->model_step : last->step;
    last->lost_steps = kept < last->step_before ? last->step_before - kept : 0;
    last->lost_steps_total += last->lost_steps;
    last->restored = r->found.restored;
    last->initialised = r->found.initialised;
    const char *model = last->partly                              ? "partly_restored"
                        : last->restored || last->checkpoint != 0 ? "restored"
                        : last->initialised                       ? "initialised"
                                                                  : "there";
    (void)snprintf(last->text, sizeof(last->text),
                   "recovery %" PRIu32 ", %" PRId64 " ms, %" PRIu32 " %s: from step %" PRId64 " on, of %" PRId64
                   "; model %s; %s: %s",
                   last->count, last->took_ms, r->tries, r->tries == 1 ? "try" : "tries", last->step, last->step_before, model,
                   ps_status_name(cause.code), cause.text);
    const ps_recovery said = *last;
    const int64_t begun = said.replaced ? said.model_step : said.step; /* if there is a new model: the step at which it began */
    m->found = r->found;
    (void)pthread_mutex_unlock(&s->lock);
    psi_api_log(s, said.lost_steps > 0 || said.partly ? PS_LOG_WARN : PS_LOG_INFO, "recovered", PSI_KV("count", said.count),
                PSI_KV("st", ps_status_name(said.status)), PSI_KV("reason", ps_reason_name(said.reason)),
                PSI_KV("tries", r->tries), PSI_KV("ms", said.took_ms), PSI_KV("step_before", said.step_before),
                PSI_KV("step", said.step), PSI_KV("lost_steps", said.lost_steps), PSI_KV("model", model),
                PSI_KV("model_step", begun), PSI_KV("checkpoint", said.checkpoint), PSI_KV("msg", cause.text));
    (void)psi_api_tell(s, PSI_ON_MADE, 0);
}

/* End a recovery that ps_interrupt() has interrupted: the session stays lost, and the next call recovers it. */
static void break_off(struct recovery *r)
{
    ps_session *s = r->session;
    psi_api_log(s, PS_LOG_INFO, "recovery_interrupted", PSI_KV("tries", r->tries), PSI_KV("ms", took_ms(r)),
                PSI_KV("st", ps_status_name(s->machine.cause.code)));
    (void)psi_api_tell(s, PSI_ON_BREAK_OFF, 0);
}

static bool run(struct recovery *r)
{
    do {
        const struct psi_err before = r->err;
        const bool down = take_down(r);
        r->tries++;
        if (down) {
            pause_before(r);
        }
        if (down && psi_api_interrupted(r->session, NULL) == PS_OK && make_anew(r) == PS_OK) {
            finish(r);
            return true;
        }
        if (psi_api_interrupted(r->session, NULL) != PS_OK && !atomic_load(&r->session->ends)) {
            break_off(r);
            return false;
        }
        const bool cut_short = r->err.code == PS_DEADLINE_EXCEEDED || r->err.reason == PS_REASON_NOT_CONNECTED;
        if (cut_short && before.code != PS_OK && psi_io_now_ms() >= r->end_ms) {
            r->err = before; /* this attempt only ran out of time: the earlier error says more about the cause */
        }
        if ((r->tries & (r->tries - 1)) == 0) { /* logged at the first, second, fourth, ... attempt */
            psi_api_log(r->session, PS_LOG_WARN, "not_recovered", PSI_KV("tries", r->tries), PSI_KV("ms", took_ms(r)),
                        PSI_KV("st", ps_status_name(r->err.code)), PSI_KV("msg", r->err.text));
        }
    } while (try_again(r));
    return false;
}

/* True if this thread may use the session: no other thread is recovering it. */
static bool is_free(ps_session *s, void *who)
{
    return !psi_session_bars(&s->machine, who, NULL);
}

/* Recover the session, or wait until another thread has recovered it. *out_mine true: this thread did. */
static bool recover(ps_session *s, bool *out_mine)
{
    struct recovery r = {0};
    struct psi_who who = psi_api_who(s);
    if (psi_monitor_in_restore(s)) {
        return false;
    }
    (void)pthread_mutex_lock(&s->lock);
    const bool waited = psi_session_bars(&s->machine, &who, NULL);
    psi_api_wait_until(s, is_free, &who, PSI_WAIT_CUT);
    const bool whole = waited && s->machine.state == PSI_SESSION_RUNNING;
    const bool mine = begin(&r, s);
    (void)pthread_mutex_unlock(&s->lock);
    *out_mine = mine;
    return mine ? run(&r) : whole;
}

bool psi_api_recover(ps_session *s)
{
    struct psi_err err = {0};
    if (s == NULL || s->monitor == NULL || psi_api_check(s, true, &err) != PS_OK || psi_api_hook_event(s, PSI_IN_HOOK) != 0) {
        return false;
    }
    bool mine = false;
    bool whole = recover(s, &mine);
    bool anew = (whole && mine) || psi_api_hook_event(s, PSI_IS_CREATED_LEFT) != 0;
    while (anew && psi_api_hooks_made_anew(s) != PS_OK) { /* a hook has failed in after_create_session: recover again */
        whole = recover(s, &mine);
        anew = whole && mine;
    }
    return whole;
}

ps_status ps_monitored_last_recovery(ps_session *s, ps_recovery *out)
{
    struct psi_err err = {0};
    if (s == NULL || out == NULL || psi_struct_bytes_check(out->struct_bytes, "ps_monitored_last_recovery", &err) != PS_OK) {
        return psi_api_result(&err, err.code != PS_OK
                                        ? err.code
                                        : psi_fail(&err, PS_INVALID_ARGUMENT, "%s is NULL", s == NULL ? "the session" : "out"));
    }
    ps_recovery last = {0};
    if (psi_monitor_is_here(s)) {
        psi_api_copy(s, &last, &s->monitor->last, sizeof(last));
    }
    if (last.count == 0) {
        return psi_api_result(&err, psi_fail(&err, PS_NOT_FOUND, "the session has not been made anew"));
    }
    psi_struct_give(out, out->struct_bytes, 0, &last, sizeof(last));
    return PS_OK;
}

/* Read the global step into *out_value. A failure sticks to the session, unless end_ms has come or psi_api_is_over(). */
static ps_status read_step(ps_session *s, ps_variable *step, uint64_t end_ms, int64_t *out_value, struct psi_err *err)
{
    const uint64_t now = psi_io_now_ms();
    const int64_t left = now < end_ms ? (int64_t)(end_ms - now) : 1;
    struct psi_api_call call = {.session = s,
                                .variable = step,
                                .on = step,
                                .timeout_ms = left < s->operation_timeout_ms ? left : s->operation_timeout_ms,
                                .req = {.kind = PSI_REQ_PULL, .dst = out_value, .bytes = sizeof(*out_value), .scale = 1}};
    ps_status st = psi_api_call_run(&call, err);
    if (st == PS_OK || psi_io_now_ms() >= end_ms || psi_api_is_over(s)) {
        return st;
    }
    return psi_api_refused(s, err, "ps_wait_step");
}

static ps_status wait_step(ps_session *s, int64_t step, int64_t timeout_ms)
{
    struct psi_err err = {0};
    ps_status st = psi_api_check(s, true, &err);
    if (st != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    ps_variable *variable = NULL;
    psi_api_copy(s, &variable, &s->global_step_variable, sizeof(variable));
    if (variable == NULL) {
        return psi_api_result(&err, psi_fail(&err, PS_FAILED_PRECONDITION, "ps_wait_step: ps_session_ready() comes first"));
    }
    const uint64_t end_ms = psi_api_deadline_ms(s, timeout_ms);
    for (int64_t ms = WAIT_STEP_MS;; ms = ms * 2 < WAIT_STEP_MOST_MS ? ms * 2 : WAIT_STEP_MOST_MS) {
        int64_t value = 0;
        PSI_IGNORE(psi_api_recover(s)); /* false: there was nothing to recover from, or the recovery failed */
        st = psi_api_sticky(s, NULL);
        if (st == PS_OK && psi_api_is_over(s)) {
            return PS_OK;
        }
        st = st == PS_OK ? read_step(s, variable, end_ms, &value, &err) : st;
        if (st == PS_OK) {
            (void)psi_monitor_tell(s, PSI_ON_STEP_OVER, 1);
            psi_api_set_global_step(s, value);
        }
        if (st == PS_OK ? value >= step : psi_api_is_over(s)) { /* when the job is over, a failed read is no error */
            return PS_OK;
        }
        const uint64_t now = psi_io_now_ms();
        if (st != PS_OK && now >= end_ms && psi_api_sticky(s, NULL) == PS_OK) {
            psi_err_prefix(&err, "ps_wait_step: the global step could not be read in its time");
            err.code = PS_DEADLINE_EXCEEDED;
            return psi_api_result(&err, err.code);
        }
        if (st != PS_OK && !psi_api_recover(s)) {
            return st;
        }
        if (now >= end_ms) {
            return psi_api_result(
                &err, psi_fail(&err, PS_DEADLINE_EXCEEDED,
                               "ps_wait_step: the global step is %" PRId64 ", not %" PRId64 ", after all its time", value, step));
        }
        psi_api_pause(s, (int64_t)(end_ms - now) < ms ? (int64_t)(end_ms - now) : ms);
    }
}

ps_status ps_wait_step(ps_session *s, int64_t step, int64_t timeout_ms)
{
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    const ps_status st = psi_api_last(s, wait_step(s, step, timeout_ms));
    psi_api_end(s);
    return st;
}

static bool should_stop(ps_session *s)
{
    do {                                /* repeated if a hook failed, and the session recovers from its error */
        PSI_IGNORE(psi_api_recover(s)); /* false: there was nothing to recover from, or the recovery failed */
        if (s == NULL || psi_api_sticky(s, NULL) != PS_OK) {
            return true;
        }
        (void)psi_monitor_tell(s, PSI_ON_STEP_OVER, 0);
        if (psi_api_is_over(s)) {
            return true;
        }
        if (psi_api_hooks_step_begins(s)) {
            return false;
        }
    } while (psi_api_sticky(s, NULL) != PS_OK);
    return true; /* no error, but no step begins: for example, a hook has asked to stop */
}

bool ps_should_stop(ps_session *s)
{
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    const bool stop = should_stop(s);
    psi_api_end(s);
    return stop;
}

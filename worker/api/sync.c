/* SPDX-License-Identifier: Apache-2.0 */
/* Training in step with other sessions: options, and steps of a member. Happy path: ps_session_sync() stores options;
 * ps_session_ready() sends them and joins; ps_step_done() checks that each parameter was pushed once, and waits for the end of
 * the round; ps_session_close() leaves. Failure modes: options that contradict each other or the session's; a parameter that was
 * pushed twice, or not at all; errors of the directory. Errors stick to the session, except those of ps_sync_finish(). */
#include "lock.h"
#include "monitored.h"
#include "training.h"

#include "common/abi.h"
#include "common/squares.h"

#include <string.h>

void ps_sync_options_init(ps_sync_options *options)
{
    if (options == NULL) {
        return;
    }
    memset(options, 0, sizeof(*options));
    options->struct_bytes = sizeof(*options);
    options->mode = PS_SYNC_ROUNDS;
}

static ps_status check(const ps_session *s, const ps_sync_options *o, struct psi_err *err)
{
    if (o->mode != PS_SYNC_NONE && o->mode != PS_SYNC_ROUNDS && o->mode != PS_SYNC_STALENESS) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "mode: %d is none of PS_SYNC_*", (int)o->mode);
    }
    if (o->on_worker_loss != PS_LOSS_WAIT && o->on_worker_loss != PS_LOSS_SHRINK && o->on_worker_loss != PS_LOSS_FAIL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "on_worker_loss: %d is none of PS_LOSS_*", (int)o->on_worker_loss);
    }
    if (o->mode == PS_SYNC_ROUNDS && s->train.prefetch) {
        return psi_fail(
            err, PS_INVALID_ARGUMENT,
            "prefetch: in rounds a gradient is of the values of its round, which are there when the one before is over");
    }
    if (o->workers > 0 && o->replicas_to_aggregate > o->workers) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "replicas_to_aggregate: %u of %u workers: no round would ever be over",
                        o->replicas_to_aggregate, o->workers);
    }
    if (o->mode == PS_SYNC_STALENESS ? o->replicas_to_aggregate != 0 : o->staleness != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s",
                        o->staleness != 0 ? "staleness: in rounds nobody is ahead of the others"
                                          : "replicas_to_aggregate: of rounds only");
    }
    return PS_OK;
}

struct limit {
    double max_norm;
    ps_norm_of of;
};

struct rows {
    uint32_t per_step;
    ps_rows_mean mean;
};

/* Set each of o, limit (of the norm) and rows that is not NULL. FAILED_PRECONDITION: s is a member of a training already. */
static ps_status set(ps_session *s, const ps_sync_options *o, const struct limit *limit, const struct rows *rows,
                     struct psi_err *err)
{
    (void)pthread_mutex_lock(&s->lock);
    const bool early = s->train.member == PSI_MEMBER_NONE;
    if (early && o != NULL) {
        s->sync = *o;
        s->finished = false;
    }
    if (early && limit != NULL) {
        s->max_norm = limit->max_norm;
        s->norm_of = limit->of;
    }
    if (early && rows != NULL) {
        s->rows_per_step = rows->per_step;
        s->rows_mean = rows->mean;
    }
    (void)pthread_mutex_unlock(&s->lock);
    return early ? PS_OK
                 : psi_fail(err, PS_FAILED_PRECONDITION,
                            "the session is a member of rounds already: call it before ps_session_ready()");
}

static ps_status set_options(ps_session *s, const ps_sync_options *options, struct psi_err *err)
{
    ps_sync_options o;
    ps_sync_options_init(&o);
    ps_status st = options != NULL ? psi_struct_take(options, &o, sizeof(o), "ps_sync_options_init", err) : PS_OK;
    st = st == PS_OK ? check(s, &o, err) : st;
    if (st != PS_OK) {
        return st;
    }
    /* an evaluator may be given the workers' options, but does not train, so they are not set */
    return psi_api_evaluates(s) ? PS_OK : set(s, &o, NULL, NULL, err);
}

ps_status ps_session_sync(ps_session *s, const ps_sync_options *options)
{
    struct psi_err err = {0};
    ps_status st = psi_api_enter(s, false);
    return st != PS_OK || set_options(s, options, &err) == PS_OK ? st : psi_api_refused(s, &err, "ps_session_sync");
}

static ps_status set_limit(ps_session *s, double max_norm, ps_norm_of of, struct psi_err *err)
{
    ps_status st = max_norm != 0 ? psi_max_norm_check(max_norm, err) : PS_OK;
    if (st == PS_OK && of != PS_NORM_OF_ALL && of != PS_NORM_OF_EACH) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "of: %d is none of PS_NORM_OF_*", (int)of);
    }
    const struct limit limit = {.max_norm = max_norm, .of = of};
    return st != PS_OK || psi_api_evaluates(s) ? st : set(s, NULL, &limit, NULL, err);
}

ps_status ps_session_clip_norm(ps_session *s, double max_norm, ps_norm_of of)
{
    struct psi_err err = {0};
    ps_status st = psi_api_enter(s, false);
    return st != PS_OK || set_limit(s, max_norm, of, &err) == PS_OK ? st : psi_api_refused(s, &err, "ps_session_clip_norm");
}

static ps_status set_rows(ps_session *s, uint32_t rows_per_step, ps_rows_mean mean, struct psi_err *err)
{
    if (rows_per_step == 0 || (mean != PS_ROWS_MEAN_OF_ALL && mean != PS_ROWS_MEAN_OF_THOSE)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "rows_per_step %u, mean %d; allowed: 1 and more, one of PS_ROWS_MEAN_*",
                        rows_per_step, (int)mean);
    }
    const struct rows rows = {.per_step = rows_per_step, .mean = mean};
    return psi_api_evaluates(s) ? PS_OK : set(s, NULL, NULL, &rows, err);
}

ps_status ps_session_sync_rows(ps_session *s, uint32_t rows_per_step, ps_rows_mean mean)
{
    struct psi_err err = {0};
    ps_status st = psi_api_enter(s, false);
    return st != PS_OK || set_rows(s, rows_per_step, mean, &err) == PS_OK ? st : psi_api_refused(s, &err, "ps_session_sync_rows");
}

int64_t ps_dropped(ps_session *s)
{
    return s != NULL ? psi_api_look(s, &s->dropped) : 0;
}

struct psi_sync psi_api_sync_of(ps_session *s, struct psi_var *step)
{
    (void)pthread_mutex_lock(&s->lock);
    const bool rows = s->sync.mode == PS_SYNC_ROUNDS && s->rows_per_step > 0;
    const struct psi_sync sync = {.mode = s->sync.mode,
                                  .finished = s->finished,
                                  .training = s->training,
                                  .workers = s->sync.workers,
                                  .replicas = s->sync.replicas_to_aggregate,
                                  .on_loss = s->sync.on_worker_loss,
                                  .staleness = s->sync.staleness,
                                  .max_norm = s->max_norm,
                                  .max_norm_each = s->max_norm > 0 && s->norm_of == PS_NORM_OF_EACH,
                                  .rows_per_step = rows ? s->rows_per_step : 0,
                                  .rows_mean = rows ? s->rows_mean : PS_ROWS_MEAN_OF_ALL,
                                  .step = step};
    (void)pthread_mutex_unlock(&s->lock);
    return sync;
}

/* How the session trains with other sessions: in rounds or with bounded staleness; PS_SYNC_NONE: it does not. */
static ps_sync_mode member_of(ps_session *s)
{
    ps_sync_mode mode = PS_SYNC_NONE;
    psi_api_copy(s, &mode, &s->train.mode, sizeof(mode));
    return mode;
}

static void finish_join(struct psi_api_call *call)
{
    const struct psi_sync *how = call->arg;
    const struct psi_train_event joined = {
        .kind = PSI_TRAIN_JOINED, .mode = how->mode, .number = psi_client_member(call->client)->training};
    (void)psi_api_train_event(call->session, &joined);
}

ps_status psi_api_sync_join(ps_session *s, int64_t timeout_ms, struct psi_err *err)
{
    struct psi_sync how = psi_api_sync_of(s, NULL);
    if (how.mode == PS_SYNC_NONE || how.finished) {
        return PS_OK;
    }
    struct psi_api_call call = {
        .session = s, .finish = finish_join, .arg = &how, .timeout_ms = timeout_ms, .req = {.kind = PSI_REQ_JOIN}};
    return psi_api_call_run(&call, err);
}

bool psi_api_in_rounds(ps_session *s)
{
    return member_of(s) == PS_SYNC_ROUNDS;
}

static void finish_step(struct psi_api_call *call)
{
    const struct psi_train_event stepped = {.kind = PSI_TRAIN_STEPPED, .number = psi_client_member(call->client)->dropped};
    (void)psi_api_train_event(call->session, &stepped);
}

/* What a failed STEP, the request that ends a member's step, says about the step's gradients, which were sent before. With
 * bounded staleness they are applied. In rounds the tasks hold them, and the round may still close with them. */
static ps_applied step_applied(ps_sync_mode mode, const struct psi_err *err)
{
    const bool in_doubt =
        err->code == PS_ABORTED || err->code == PS_UNAVAILABLE || err->code == PS_DEADLINE_EXCEEDED || err->code == PS_CANCELLED;
    return mode == PS_SYNC_STALENESS ? PS_MAYBE_PARTLY_APPLIED : in_doubt ? PS_OUTCOME_UNKNOWN : err->applied;
}

ps_status psi_api_sync_meet(ps_session *s, bool first, int64_t *out_step, struct psi_err *err)
{
    const ps_sync_mode mode = member_of(s);
    struct psi_stepped stepped = {0};
    struct psi_api_call call = {.session = s, .finish = finish_step, .req = {.kind = PSI_REQ_STEP, .dst = &stepped}};
    const int64_t ready_ms = psi_api_ready_timeout_ms(s);
    if (first && ready_ms > s->operation_timeout_ms) {
        call.timeout_ms = ready_ms; /* other workers may have to start first */
    }
    const ps_status st = psi_api_call_run(&call, err);
    if (st != PS_OK) {
        err->applied = step_applied(mode, err);
    } else if (mode == PS_SYNC_ROUNDS) {
        *out_step = stepped.step;
    }
    return st;
}

ps_status psi_api_sync_finish(ps_session *s, struct psi_err *err)
{
    if (member_of(s) == PS_SYNC_NONE) {
        return PS_OK;
    }
    struct psi_api_call call = {.session = s, .req = {.kind = PSI_REQ_LEAVE, .bytes = 1}};
    const ps_status st = psi_api_call_run(&call, err);
    (void)psi_api_train_event(s, &(struct psi_train_event){.kind = PSI_TRAIN_FINISHED, .refused = st != PS_OK});
    return st;
}

ps_status ps_sync_finish(ps_session *s)
{
    struct psi_err err = {0};
    ps_status st = psi_api_check(s, true, &err);
    st = st == PS_OK ? psi_api_sticky(s, &err) : st;
    return psi_api_result(&err, st == PS_OK ? psi_api_sync_finish(s, &err) : st);
}

void psi_api_sync_leave(ps_session *s)
{
    const bool member = psi_api_train_event(s, &(struct psi_train_event){.kind = PSI_TRAIN_LEFT}) != 0;
    if (member && psi_api_sticky(s, NULL) == PS_OK) {
        struct psi_api_call call = {
            .session = s, .timeout_ms = PSI_GOODBYE_MS, .when_closing = true, .req = {.kind = PSI_REQ_LEAVE, .bytes = 1}};
        PSI_IGNORE(psi_api_call_run(&call, NULL)); /* on failure the other members treat this session as lost */
    }
}

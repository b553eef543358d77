/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training in step with others: how a session is to do it.
 *
 * Happy path: ps_session_sync() puts options aside, which ps_session_ready() takes to the cluster.
 * Failure modes: options that contradict each other, or the session's; like all errors of training they stick to the session.
 */
#include "api.h"

#include "common/abi.h"

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
    if (o->mode == PS_SYNC_ROUNDS && s->prefetch) {
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

ps_status psi_api_sync_set(ps_session *s, const ps_sync_options *options, struct psi_err *err)
{
    ps_sync_options o;
    ps_sync_options_init(&o);
    ps_status st = options != NULL ? psi_struct_take(options, &o, sizeof(o), "ps_sync_options_init", err) : PS_OK;
    st = st == PS_OK ? check(s, &o, err) : st;
    if (st != PS_OK) {
        return st;
    }
    (void)pthread_mutex_lock(&s->lock);
    bool late = s->member;
    s->sync = late ? s->sync : o;
    (void)pthread_mutex_unlock(&s->lock);
    return late ? psi_fail(err, PS_FAILED_PRECONDITION,
                           "the session is a member of rounds already: call it before ps_session_ready()")
                : PS_OK;
}

ps_status ps_session_sync(ps_session *s, const ps_sync_options *options)
{
    struct psi_err err = {0};
    if (psi_api_check(s, false, &err) != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    ps_status st = psi_api_sticky(s, NULL);
    if (st != PS_OK || psi_api_sync_set(s, options, &err) == PS_OK) {
        return st;
    }
    psi_err_prefix(&err, "ps_session_sync");
    PSI_IGNORE(psi_api_last_error_set(&err)); /* the session's error is returned, which may be an older one */
    return psi_api_stick(s, &err);
}

int64_t ps_dropped(ps_session *s)
{
    int64_t dropped = 0;
    if (s != NULL && psi_api_here(s)) {
        (void)pthread_mutex_lock(&s->lock);
        dropped = s->dropped;
        (void)pthread_mutex_unlock(&s->lock);
    }
    return dropped;
}

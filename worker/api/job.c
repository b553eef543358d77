/* SPDX-License-Identifier: Apache-2.0 */
/* ps_session_job_done(): a trainer reports that it is done. Happy path: the call waits for the session's pushes; a member of
 * rounds leaves them, so that the other workers do not wait for it; JOB_DONE tells the directory; later pushes and steps of the
 * session are refused. Failure modes: the directory cannot be reached: the program may call again; the session does not belong to
 * a trainer: the directory refuses. */
#include "lock.h"
#include "training.h"

#include <string.h>

ps_status psi_api_trains(ps_session *s, enum psi_hook_event event, bool *out_skips, struct psi_err *err)
{
    const struct psi_who who = psi_api_who(s);
    (void)pthread_mutex_lock(&s->lock);
    *out_skips = psi_hook_event(&s->hooks.calls, &who, event) != 0;
    const enum psi_stop stop = s->machine.stop;
    (void)pthread_mutex_unlock(&s->lock);
    return *out_skips ? PS_OK
           : stop == PSI_STOP_DONE
               ? psi_fail(err, PS_FAILED_PRECONDITION, "this session has said that the job is done (ps_session_job_done)")
           : psi_api_evaluates(s)
               ? psi_fail(err, PS_FAILED_PRECONDITION, "an evaluator reads the model and never pushes: ps_wait_step()")
               : PS_OK;
}

static ps_status say_done(ps_session *s, struct psi_err *err)
{
    struct psi_call quiet = {.kind = PSI_CALL_QUIET};
    PSI_IGNORE(psi_api_train(s, &quiet, NULL, NULL, NULL)); /* an interrupt is handled below */
    ps_status st = psi_api_sticky(s, err);
    st = st == PS_OK ? psi_api_interrupted(s, err) : st;
    st = st == PS_OK ? psi_api_sync_finish(s, err) : st;
    struct psi_api_call call = {.session = s, .req = {.kind = PSI_REQ_JOB_DONE}};
    st = st == PS_OK ? psi_api_call_run(&call, err) : st;
    if (st == PS_OK) {
        (void)psi_api_tell(s, PSI_ON_STOP, PSI_STOP_DONE);
    }
    return st;
}

ps_status ps_session_job_done(ps_session *s)
{
    PSI_API_VISIT(s);
    struct psi_err err = {0};
    ps_status st = psi_api_check(s, true, &err);
    return psi_api_result(&err, st == PS_OK ? say_done(s, &err) : st);
}

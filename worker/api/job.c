/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a job, as one trainer reports it.
 *
 * Happy path: its pushes end -> a member of rounds leaves them as finished -> JOB_DONE at the directory -> further pushes and
 * steps are refused. Failure modes: the directory cannot be reached: the call may be repeated; the session is no trainer's: the
 * directory refuses.
 */
#include "training.h"

#include <string.h>

ps_status psi_api_trains(ps_session *s, struct psi_err *err)
{
    (void)pthread_mutex_lock(&s->lock);
    bool done = s->job_done;
    (void)pthread_mutex_unlock(&s->lock);
    return done ? psi_fail(err, PS_FAILED_PRECONDITION, "this session has said that the job is done (ps_session_job_done)")
           : psi_api_evaluates(s)
               ? psi_fail(err, PS_FAILED_PRECONDITION, "an evaluator reads the model and never pushes: ps_wait_step()")
               : PS_OK;
}

static ps_status say_done(ps_session *s, struct psi_err *err)
{
    struct psi_call quiet = {.kind = PSI_CALL_QUIET};
    PSI_IGNORE(psi_api_train(s, &quiet, NULL, NULL, NULL)); /* an interrupt is looked at below */
    ps_status st = psi_api_sticky(s, err);
    st = st == PS_OK ? psi_api_interrupted(s, err) : st;
    st = st == PS_OK ? psi_api_sync_finish(s, err) : st;
    struct psi_api_call call = {.session = s, .req = {.kind = PSI_REQ_JOB_DONE}};
    st = st == PS_OK ? psi_api_call_run(&call, err) : st;
    if (st == PS_OK) {
        (void)pthread_mutex_lock(&s->lock);
        s->job_done = true;
        s->stopping = true;
        (void)pthread_mutex_unlock(&s->lock);
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

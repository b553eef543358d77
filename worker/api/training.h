/* SPDX-License-Identifier: Apache-2.0 */
/* How param.c, step.c and sync.c use the machine of training (core/training.h): they run its calls, and report events to it. */
#ifndef PSI_WORKER_API_TRAINING_H
#define PSI_WORKER_API_TRAINING_H

#include "api.h"

/** A function that carries out what the state machine of training asks for. It may append requests to `works`, which are sent
 * together before the thread waits. locked: the caller holds the lock, and the function must neither wait nor report a failure:
 * if it would, it does nothing, returns false, and is called again without the lock. False without the lock: it failed, and
 * nothing of it is in flight. */
typedef bool psi_api_do_fn(ps_session *s, struct psi_call *call, enum psi_do what, void *ctx, struct psi_list *works,
                           bool locked);
/** Run a call to its end. Blocks. does(..., ctx) does what the machine asks for; NULL: the call only waits. *err: with FAILED the
 * session's error; with REFUSED the reason, if the machine and not does() has refused. */
enum psi_call_end psi_api_train(ps_session *s, struct psi_call *call, psi_api_do_fn *does, void *ctx, struct psi_err *err);
/* Events of the training of a session. All answers are 0 or 1, except the answer to PSI_TRAIN_FETCHES. */
enum psi_train_kind {
    PSI_TRAIN_PARAM,    /* the parameter `param` was added to the session */
    PSI_TRAIN_READ,     /* a read of param has ended, with `result` */
    PSI_TRAIN_PUSHED,   /* a push of param has ended, with `result` */
    PSI_TRAIN_ADDED,    /* the addition `add` to the global step has ended, with add->err and add->value from *added */
    PSI_TRAIN_FETCHES,  /* a push of param must first copy the gradient from a device. Answer: the push's number */
    PSI_TRAIN_HANDED,   /* the copy for push `number` is over, or did not begin; refused: its thread could not start the push */
    PSI_TRAIN_JOINED,   /* the session has joined the training with this `number`; `mode`: in rounds, or bounded staleness */
    PSI_TRAIN_STEPPED,  /* the step has waited for the other members; `number`: how many steps of this session were dropped */
    PSI_TRAIN_FINISHED, /* ps_sync_finish() has succeeded, or (refused) has not */
    PSI_TRAIN_LEFT,     /* the session is no longer a member. Answer 1: it was a member before */
    PSI_TRAIN_LOST,     /* the session is no longer a member, because it is lost and recovers */
    PSI_TRAIN_TURN_OVER /* the thread that was making the session ready has finished or failed */
};
struct psi_train_event {
    enum psi_train_kind kind;
    bool refused;
    ps_sync_mode mode;
    ps_param *param;
    const ps_result *result;
    struct psi_training_add *add;
    const struct psi_training_add *added;
    uint64_t number;
};
/** Report the event to the machine, and return its answer. If a ps_step_done() waited only for this event, also begin its
 * addition to the global step. Any thread, no lock. */
uint64_t psi_api_train_event(ps_session *s, const struct psi_train_event *e);
/** The program's status for a call of psi_training that has ended; not for PSI_END_REFUSED. PSI_END_FINE: PS_OK. Other ends set
 * the thread's last error: PSI_END_INTERRUPTED: CANCELLED; PSI_END_FAILED: *err, the error of the session. */
ps_status psi_api_trained(ps_session *s, enum psi_call_end end, const struct psi_err *err);

#endif

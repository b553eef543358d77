/* SPDX-License-Identifier: Apache-2.0 */
/* What param.c, step.c and sync.c need of the machine of training. */
#ifndef PSI_WORKER_API_TRAINING_H
#define PSI_WORKER_API_TRAINING_H

#include "api.h"

/** Do what the machine asks for, without the lock. Requests that are left in works leave together, before the thread waits.
 * False: it could not be done, and nothing of it is in flight. */
typedef bool psi_api_do_fn(ps_session *s, struct psi_call *call, enum psi_do what, void *ctx, struct psi_list *works);
/** Make a call to its end. *err: the reason of REFUSED, if the machine has refused it. Blocks. carry_out: NULL for calls that
 * only wait. */
enum psi_call_end psi_api_train(ps_session *s, struct psi_call *call, psi_api_do_fn *carry_out, void *ctx, struct psi_err *err);
/** Status of a call that was not refused; an interrupt becomes the thread's last error. */
ps_status psi_api_trained(ps_session *s, enum psi_call_end end);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What layers (worker/nn) need of sessions and parameters in addition to ps.h: the device that computes, and its buffers. */
#ifndef PSI_WORKER_COMPUTE_H
#define PSI_WORKER_COMPUTE_H

#include "worker/nn/kernels/block.h"
#include "worker/ps.h"

/** The device of p's session, which owns it until the session is closed; opens the CPU at the first call. */
PSI_MUST ps_status psi_param_place(ps_param *p, struct psk_place **out, struct psi_err *err);
/** p's value, for operations to read. */
struct psk_block *psi_param_value_block(ps_param *p);
/** p's gradient, for one operation to write. If the device computes in host memory, waits until the last push of p is
 * acknowledged; on other devices ps_push() waits. NULL after a failure of the session. */
struct psk_block *psi_param_grad_block(ps_param *p);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What layers (worker/nn) need of sessions and parameters beside ps.h: the device that computes, and the buffers there. */
#ifndef PSI_WORKER_COMPUTE_H
#define PSI_WORKER_COMPUTE_H

#include "worker/nn/kernels/block.h"
#include "worker/ps.h"

/** The device of p's session; opens the CPU at the first call. The session's until it is closed. */
PSI_MUST ps_status psi_param_place(ps_param *p, struct psk_place **out, struct psi_err *err);
/** Its value, for operations to read. */
struct psk_block *psi_param_value_block(ps_param *p);
/** Its gradient, for one operation to write. Where the device computes in the host's memory, waits until the last push of p is
 *  acknowledged; elsewhere ps_push() does. NULL after a failure of the session. */
struct psk_block *psi_param_grad_block(ps_param *p);

#endif

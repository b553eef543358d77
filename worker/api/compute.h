/* SPDX-License-Identifier: Apache-2.0 */
/* Functions for layers (worker/nn) in addition to ps.h: the device that computes, and its buffers. */
#ifndef PSI_WORKER_COMPUTE_H
#define PSI_WORKER_COMPUTE_H

#include "worker/nn/kernels/block.h"
#include "worker/ps.h"

/** Get the device on which p's session computes; it stays open until the session closes. Opens the CPU if no device is open. */
PSI_MUST ps_status psi_param_place(ps_param *p, struct psk_place **out, struct psi_err *err);
/** The block (host or device memory) with the value of p; operations may read it. */
struct psk_block *psi_param_value_block(ps_param *p);
/** The block for the gradient of p, which one operation may write. If the device computes in host memory, this call waits until
 * the last push of p is acknowledged; otherwise ps_push() waits. NULL: the session has failed, or the call was interrupted. */
struct psk_block *psi_param_grad_block(ps_param *p);

#endif

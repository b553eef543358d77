/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on arguments in host memory, on any device, for the plain pointers of ps_nn.h and for worker/ops. Any thread. */
#ifndef PSK_HOST_H
#define PSK_HOST_H

#include "worker/nn/kernels/device.h"
#include "worker/nn/kernels/ops.h"

/** Set the default device; errors as psk_place_open(). No other thread may be running an operation on the default device. */
PSI_MUST ps_status psk_host_open(const char *device, struct psi_err *err);
/** The default device; opens the CPU if none is open. */
PSI_MUST ps_status psk_host_place(struct psk_place **out, struct psi_err *err);
/** The default device; NULL: none is open yet. */
struct psk_place *psk_host_place_now(void);

/** Check the arguments completely: psk_op_check() and the other checks of ops.h. Error: INVALID_ARGUMENT. */
PSI_MUST ps_status psk_host_check(psk_op op, const struct psk_tensor *args, const struct psk_attrs *attrs, struct psi_err *err);
/** Run an operation whose arguments were checked; returns when the outputs are in their memory. Errors: those of the device. */
PSI_MUST ps_status psk_host_compute(struct psk_place *place, psk_op op, const struct psk_tensor *args,
                                    const struct psk_attrs *attrs, struct psi_err *err);
/** Check the arguments of an operation and run it: psk_host_check(), then psk_host_compute().
 *
 * place    NULL: psk_host_place().
 * args     psk_arg_count(op), inputs first.
 * attrs    NULL: zeros. */
PSI_MUST ps_status psk_host_run(struct psk_place *place, psk_op op, const struct psk_tensor *args, const struct psk_attrs *attrs,
                                struct psi_err *err);

#endif

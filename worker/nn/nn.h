/* SPDX-License-Identifier: Apache-2.0 */
/* What nn.c (plain pointers) and tensor.c (tensors and parameters) share. */
#ifndef PSI_NN_H
#define PSI_NN_H

#include "common/status.h"
#include "worker/nn/kernels/device.h"
#include "worker/ps_nn.h"

/** Set the calling thread's error text (ps_nn_error) and return st. */
ps_status psi_nn_fail(ps_status st, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** The device of ps_nn_open(), opened now if none is. */
PSI_MUST ps_status psi_nn_place(struct psk_place **out);
/** The same with err's text, after fn; PS_OK stays PS_OK. */
ps_status psi_nn_say(ps_status st, const char *fn, const struct psi_err *err);

/** x, its sizes and its pointers can be looked at. What they point to is psk_op_check_rows()'s. */
PSI_MUST ps_status psi_csr_check(const ps_csr *x, struct psi_err *err);
/** Values that are stored; x was checked. */
int64_t psi_csr_count(const ps_csr *x);

#endif

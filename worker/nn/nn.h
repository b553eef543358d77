/* SPDX-License-Identifier: Apache-2.0 */
/* What nn.c (plain pointers) and tensor.c (tensors and parameters) share. */
#ifndef PSI_NN_H
#define PSI_NN_H

#include "common/status.h"
#include "worker/nn/kernels/device.h"
#include "worker/ps_nn.h"

/** Set the thread's error text (ps_nn_error()). Returns st. */
ps_status psi_nn_fail(ps_status st, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** The device of ps_nn_open(); opens the CPU if that was not called. */
PSI_MUST ps_status psi_nn_place(struct psk_place **out);
/** Set the thread's error text to "fn: " and err's text, unless st is PS_OK. Returns st. */
ps_status psi_nn_say(ps_status st, const char *fn, const struct psi_err *err);

/** psk_attrs.padding_plus_1 for a padding index of ps_nn.h, which is negative if there is none. */
uint64_t psi_padding(int64_t padding);

/** Check the sizes and pointers of the sparse matrix x. psk_op_check_rows() checks the contents of its arrays. */
PSI_MUST ps_status psi_csr_check(const ps_csr *x, struct psi_err *err);
/** Number of stored values of a sparse matrix x that was checked. */
int64_t psi_csr_count(const ps_csr *x);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of the CPU plugin, one file each; contracts in worker/nn/kernels/kernels.h.
 * Static functions with PSI_CLONES are named psk_clone_*, each name once: clang 14 makes a global NAME.resolver for each.
 */
#ifndef PSK_CPU_H
#define PSK_CPU_H

#include "worker/nn/kernels/kernels.h"

const char *psk_cpu_describe(void);
ps_status psk_cpu_dense_forward(const float *x, const float *w, const float *b, float *y, int64_t batch, int64_t in, int64_t out);
ps_status psk_cpu_dense_backward(const float *x, const float *w, const float *dy, float *dw, float *db, float *dx, int64_t batch,
                                 int64_t in, int64_t out);
ps_status psk_cpu_relu_forward(const float *x, float *y, int64_t count);
ps_status psk_cpu_relu_backward(const float *y, const float *dy, float *dx, int64_t count);
ps_status psk_cpu_sigmoid_forward(const float *x, float *y, int64_t count);
ps_status psk_cpu_sigmoid_backward(const float *y, const float *dy, float *dx, int64_t count);
ps_status psk_cpu_tanh_forward(const float *x, float *y, int64_t count);
ps_status psk_cpu_tanh_backward(const float *y, const float *dy, float *dx, int64_t count);
ps_status psk_cpu_dropout(const float *in, float *out, int64_t count, uint64_t seed, float keep, uint64_t step);
ps_status psk_cpu_softmax_xent(const float *logits, const int32_t *labels, float *dlogits, int64_t batch, int64_t classes,
                               double *out_loss);
ps_status psk_cpu_argmax_count(const float *logits, const int32_t *labels, int64_t batch, int64_t classes, int64_t *out_count);

#endif

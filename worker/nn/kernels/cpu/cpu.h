/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of the CPU plugin, in plain pointers; shapes and meaning in worker/nn/kernels/kernels.h. run.c takes tensors
 * apart. Static functions with PSI_CLONES are named psk_clone_*, each name once: clang 14 makes a global NAME.resolver for each.
 */
#ifndef PSK_CPU_H
#define PSK_CPU_H

#include "worker/nn/kernels/kernels.h"

/* c (rows, columns) = a b + beta c over `inner`, row-major without gaps; turned: it lies there transposed. beta: 0 or 1. */
struct psk_cpu_product {
    const float *a, *b;
    float *c;
    int64_t rows, columns, inner;
    bool a_turned, b_turned;
    float beta;
};

/** oneDNN can be used: its version. */
bool psk_cpu_onednn_has(int out_version[3]);
/** By oneDNN with one thread; false: it cannot, and c is as it was. */
bool psk_cpu_onednn_multiply(const struct psk_cpu_product *p);

/** What multiplies matrices, and what is wrong with it. threads: that compute from now on. */
void psk_cpu_blas_describe(char *name, size_t name_bytes, char *warning, size_t warning_bytes);
void psk_cpu_blas_threads(uint32_t threads);

void psk_cpu_dense(const float *x, const float *w, const float *b, float *y, int64_t batch, int64_t in, int64_t out,
                   psk_activation act);
void psk_cpu_dense_dx(const float *dy, const float *w, const float *x, float *dx, int64_t batch, int64_t in, int64_t out,
                      psk_activation act);
void psk_cpu_dense_dw(const float *x, const float *dy, float *dw, float *db, int64_t batch, int64_t in, int64_t out);
void psk_cpu_act(const float *x, float *y, int64_t count, psk_activation act);
void psk_cpu_act_backward(const float *y, const float *dy, float *dx, int64_t count, psk_activation act);
void psk_cpu_dropout(const float *in, float *out, int64_t count, uint64_t seed, float keep, uint64_t step);
double psk_cpu_softmax_xent(const float *logits, const int32_t *labels, float *dlogits, int64_t batch, int64_t classes);
int64_t psk_cpu_argmax_count(const float *logits, const int32_t *labels, int64_t batch, int64_t classes);

/** The operations by number, as struct psk_plugin has them; the device and the stream are not looked at. */
extern const psk_run_fn psk_cpu_run[PSK_OPS];

#endif

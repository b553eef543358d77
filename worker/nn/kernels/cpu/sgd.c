/* SPDX-License-Identifier: Apache-2.0 */
/* A step of gradient descent, with the same result bit for bit as psd/optim/sgd.c: out_i = w_i - dw_i rate. */
#include "cpu.h"

#include "common/clones.h"

PSI_CLONES static void psk_clone_sgd(const float *w, const float *dw, float *out, int64_t n, float rate)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = w[i] - dw[i] * rate;
    }
}

void psk_cpu_sgd(const float *w, const float *dw, float *out, int64_t count, float rate)
{
    psk_clone_sgd(w, dw, out, count, rate);
}

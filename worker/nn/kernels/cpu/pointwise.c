/* SPDX-License-Identifier: Apache-2.0 */
/* Losses of predicted numbers, and GELU; pointwise.h has the formulas. The loss is the mean over all elements, summed in double
 * and in their order; the gradient of an element is its slope divided by the number of elements. */
#include "cpu.h"

#include "worker/nn/kernels/pointwise.h"

double psk_cpu_loss(const float *x, const float *t, float *dx, int64_t count, psk_loss loss, float delta)
{
    double sum = 0.0;
    const float scale = 1.0f / (float)count;
    for (int64_t i = 0; i < count; i++) {
        float slope = 0.0f;
        sum += psk_loss_at(loss, x[i], t[i], delta, &slope);
        if (dx != NULL) {
            dx[i] = slope * scale;
        }
    }
    return count > 0 ? sum / (double)count : 0.0;
}

void psk_cpu_gelu(const float *x, float *y, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        y[i] = psk_gelu(x[i]);
    }
}

void psk_cpu_gelu_backward(const float *x, const float *dy, float *dx, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        dx[i] = dy[i] * psk_gelu_slope(x[i]);
    }
}

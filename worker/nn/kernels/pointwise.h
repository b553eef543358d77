/* SPDX-License-Identifier: Apache-2.0 */
/* Formulas of one value, which all plugins share.
 *
 * Losses of x with target t, d = x - t, and their slopes in x:
 *   squared       d^2                                           2 d
 *   absolute      |d|                                           sign(d), 0 for d = 0
 *   huber         |d| <= delta ? d^2 / 2 : delta (|d| - delta / 2)   d, limited to -delta .. delta
 *   sigmoid_xent  max(x, 0) - x t + log(1 + exp(-|x|))          1 / (1 + exp(-x)) - t
 * (TensorFlow 1.15 losses_impl.py mean_squared_error, absolute_difference, huber_loss; nn_impl.py
 * sigmoid_cross_entropy_with_logits.) A NaN in x or t gives NaN.
 *
 * GELU (Hendrycks and Gimpel 2016), the exact form: y = x Phi(x), Phi(x) = erfc(-x / sqrt 2) / 2, slope Phi(x) + x exp(-x^2 / 2)
 * / sqrt(2 pi). Beyond |x| = 14 float32 has Phi = 0 or 1: infinities give no NaN. */
#ifndef PSK_POINTWISE_H
#define PSK_POINTWISE_H

#include "everywhere.h"
#include "worker/nn/kernels/kernels.h"

#include <math.h>

#define PSK_GELU_EDGE 14.0f

/* The loss of x with target t; *slope gets its derivative in x. */
PSK_EVERYWHERE double psk_loss_at(uint32_t loss, float x, float t, float delta, float *slope)
{
    const float d = x - t;
    const float size = fabsf(d);
    float e = 0.0f;
    switch (loss) {
    case PSK_SQUARED:
        *slope = 2.0f * d;
        return (double)d * (double)d;
    case PSK_ABSOLUTE:
        *slope = d > 0.0f ? 1.0f : d < 0.0f ? -1.0f : d; /* d: 0 or NaN */
        return (double)size;
    case PSK_HUBER:
        *slope = size > delta ? copysignf(delta, d) : d;
        return size > delta ? (double)delta * ((double)size - 0.5 * (double)delta) : 0.5 * (double)d * (double)d;
    default:
        e = expf(-fabsf(x));
        *slope = (x < 0.0f ? e / (1.0f + e) : 1.0f / (1.0f + e)) - t;
        return (double)(x <= 0.0f ? 0.0f : x) - (double)x * (double)t + (double)log1pf(e);
    }
}

PSK_EVERYWHERE float psk_gelu(float x)
{
    return x <= -PSK_GELU_EDGE ? 0.0f : x * (0.5f * erfcf(x * -0.707106781f));
}

PSK_EVERYWHERE float psk_gelu_slope(float x)
{
    if (fabsf(x) >= PSK_GELU_EDGE) {
        return x > 0.0f ? 1.0f : 0.0f;
    }
    return 0.5f * erfcf(x * -0.707106781f) + x * (0.398942280f * expf(-0.5f * x * x));
}

#endif

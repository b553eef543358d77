/* SPDX-License-Identifier: Apache-2.0 */
/* Activations, element by element, in vectorisable loops; in place is allowed.
 *   relu     y = max(x, 0)                 dx = y <= 0 ? 0 : dy      NaN in x stays NaN, and passes dy on
 *   sigmoid  y = 1 / (1 + exp(-x))         dx = dy y (1 - y)
 *   tanh     y = (1 - e) / (1 + e), e = exp(-2|x|), sign of x;  dx = dy (1 - y^2)
 * Near 0 this tanh would cancel: below 0.625 its odd polynomial is used (coefficients: Cephes, S. Moshier, tanhf). */
#include "cpu.h"

#include "common/clones.h"
#include "expf.h"

#include <math.h>
#include <string.h>

PSI_CLONES static void psk_clone_relu_forward(const float *x, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] <= 0.0f ? 0.0f : x[i];
    }
}

PSI_CLONES static void psk_clone_relu_backward(const float *y, const float *dy, float *dx, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        dx[i] = y[i] <= 0.0f ? 0.0f : dy[i];
    }
}

PSI_CLONES static void psk_clone_sigmoid_forward(const float *x, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i];
        const float e = psk_exp_negative(-fabsf(v));
        const float p = 1.0f / (1.0f + e);
        y[i] = v < 0.0f ? e * p : p;
    }
}

PSI_CLONES static void psk_clone_sigmoid_backward(const float *y, const float *dy, float *dx, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        dx[i] = dy[i] * (y[i] * (1.0f - y[i]));
    }
}

PSI_CLONES static void psk_clone_tanh_forward(const float *x, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i];
        const float a = fabsf(v);
        const float z = v * v;
        float q = -5.70498872745e-3f;
        q = q * z + 2.06390887954e-2f;
        q = q * z - 5.37397155531e-2f;
        q = q * z + 1.33314422036e-1f;
        q = q * z - 3.33332819422e-1f;
        const float small = q * z * a + a;
        const float e = psk_exp_negative(-2.0f * a);
        const float large = (1.0f - e) / (1.0f + e);
        y[i] = copysignf(a < 0.625f ? small : large, v);
    }
}

PSI_CLONES static void psk_clone_tanh_backward(const float *y, const float *dy, float *dx, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        dx[i] = dy[i] * ((1.0f - y[i]) * (1.0f + y[i]));
    }
}

void psk_cpu_act(const float *x, float *y, int64_t count, psk_activation act)
{
    switch (act) {
    case PSK_RELU:
        psk_clone_relu_forward(x, y, count);
        break;
    case PSK_SIGMOID:
        psk_clone_sigmoid_forward(x, y, count);
        break;
    case PSK_TANH:
        psk_clone_tanh_forward(x, y, count);
        break;
    case PSK_LINEAR:
    case PSK_ACTIVATIONS:
        if (y != x) {
            memcpy(y, x, (size_t)count * sizeof(float));
        }
        break;
    }
}

void psk_cpu_act_backward(const float *y, const float *dy, float *dx, int64_t count, psk_activation act)
{
    switch (act) {
    case PSK_RELU:
        psk_clone_relu_backward(y, dy, dx, count);
        break;
    case PSK_SIGMOID:
        psk_clone_sigmoid_backward(y, dy, dx, count);
        break;
    case PSK_TANH:
        psk_clone_tanh_backward(y, dy, dx, count);
        break;
    case PSK_LINEAR:
    case PSK_ACTIVATIONS:
        if (dx != dy) {
            memcpy(dx, dy, (size_t)count * sizeof(float));
        }
        break;
    }
}

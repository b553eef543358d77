/* SPDX-License-Identifier: Apache-2.0 */
/* Layer normalization of rows of N values (Ba, Kiros and Hinton 2016; TensorFlow 1.15 contrib layers.layer_norm with one axis).
 *   m = mean(x)    r = 1 / sqrt(mean((x - m)^2) + epsilon)    h = (x - m) r    y = gamma h + beta
 *   g = dy gamma    dx = r (g - mean(g) - h mean(g h))    dgamma = column sums of dy h    dbeta = column sums of dy
 * The backward pass computes m and r again, so the forward pass stores none. Sums of a row run in 16 lanes of double that
 * are combined in a fixed order: the same bits at every vector width. */
#include "cpu.h"

#include "common/clones.h"

#include <math.h>
#include <string.h>

#define LANES 16

struct norm {
    double mean, scale; /* m, r */
};

static inline double lanes_sum(const double lanes[LANES])
{
    double sum = lanes[0];
    for (int64_t k = 1; k < LANES; k++) {
        sum += lanes[k];
    }
    return sum;
}

PSI_CLONES static double psk_clone_norm_mean(const float *x, int64_t n)
{
    double lanes[LANES] = {0};
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) {
        for (int64_t k = 0; k < LANES; k++) {
            lanes[k] += (double)x[j + k];
        }
    }
    for (int64_t k = 0; j + k < n; k++) {
        lanes[k] += (double)x[j + k];
    }
    return lanes_sum(lanes) / (double)n;
}

PSI_CLONES static double psk_clone_norm_variance(const float *x, int64_t n, double mean)
{
    double lanes[LANES] = {0};
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) {
        for (int64_t k = 0; k < LANES; k++) {
            lanes[k] += ((double)x[j + k] - mean) * ((double)x[j + k] - mean);
        }
    }
    for (int64_t k = 0; j + k < n; k++) {
        lanes[k] += ((double)x[j + k] - mean) * ((double)x[j + k] - mean);
    }
    return lanes_sum(lanes) / (double)n;
}

static struct norm norm_of(const float *x, int64_t n, float epsilon)
{
    const double mean = psk_clone_norm_mean(x, n);
    return (struct norm){mean, 1.0 / sqrt(psk_clone_norm_variance(x, n, mean) + (double)epsilon)};
}

PSI_CLONES static void psk_clone_norm_row(const float *x, const float *gamma, const float *beta, float *y, int64_t n,
                                          struct norm norm)
{
    for (int64_t j = 0; j < n; j++) {
        y[j] = (float)(((double)x[j] - norm.mean) * norm.scale) * gamma[j] + beta[j];
    }
}

void psk_cpu_layer_norm(const float *x, const float *gamma, const float *beta, float *y, int64_t batch, int64_t n, float epsilon)
{
    /* x, y (B,N), gamma, beta (N) */
    for (int64_t i = 0; i < batch; i++) {
        psk_clone_norm_row(x + i * n, gamma, beta, y + i * n, n, norm_of(x + i * n, n, epsilon));
    }
}

PSI_CLONES static void psk_clone_norm_add(const float *x, const float *dy, float *dgamma, float *dbeta, int64_t n,
                                          struct norm norm)
{
    for (int64_t j = 0; dgamma != NULL && j < n; j++) {
        dgamma[j] += dy[j] * (float)(((double)x[j] - norm.mean) * norm.scale);
    }
    for (int64_t j = 0; dbeta != NULL && j < n; j++) {
        dbeta[j] += dy[j];
    }
}

static void norm_dx(const float *x, const float *gamma, const float *dy, float *dx, int64_t n, struct norm norm)
{
    double sum = 0.0, sum_h = 0.0;
    for (int64_t j = 0; j < n; j++) {
        const double g = (double)dy[j] * (double)gamma[j];
        sum += g;
        sum_h += g * (((double)x[j] - norm.mean) * norm.scale);
    }
    for (int64_t j = 0; j < n; j++) {
        const double h = ((double)x[j] - norm.mean) * norm.scale;
        dx[j] = (float)(norm.scale * ((double)dy[j] * (double)gamma[j] - sum / (double)n - h * (sum_h / (double)n)));
    }
}

void psk_cpu_layer_norm_backward(const float *x, const float *gamma, const float *dy, float *dx, float *dgamma, float *dbeta,
                                 int64_t batch, int64_t n, float epsilon)
{
    /* x, dy, dx (B,N), gamma, dgamma, dbeta (N) */
    float *const sums[] = {dgamma, dbeta};
    for (size_t k = 0; k < 2; k++) {
        if (sums[k] != NULL) {
            memset(sums[k], 0, (size_t)n * sizeof(float));
        }
    }
    for (int64_t i = 0; i < batch; i++) {
        const struct norm norm = norm_of(x + i * n, n, epsilon);
        psk_clone_norm_add(x + i * n, dy + i * n, dgamma, dbeta, n, norm);
        if (dx != NULL) { /* dx is made last, because it may be in dy's memory */
            norm_dx(x + i * n, gamma, dy + i * n, dx + i * n, n, norm);
        }
    }
}

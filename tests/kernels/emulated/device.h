/* SPDX-License-Identifier: Apache-2.0 */
/* What the compiler of the device gives to kernels.cu, for a C compiler: read before it (-include). emulated.c runs the threads.
 */
#ifndef EMULATED_DEVICE_H
#define EMULATED_DEVICE_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#define __device__
#define __shared__ static /* one block runs at a time */

typedef struct {
    float x, y, z, w;
} __attribute__((aligned(16))) float4;

/* of the thread that runs */
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

void __syncthreads(void);
int __syncthreads_or(int value);
/* bits of the value of lane (mine ^ distance); all lanes of the warp must be there */
uint32_t emulated_shuffle(uint32_t mask, uint32_t bits, int distance);
unsigned long long atomicMin(unsigned long long *at, unsigned long long value);

static inline void __threadfence_system(void)
{
}

static inline uint32_t emulated_bits(float value)
{
    union {
        float value;
        uint32_t bits;
    } u = {.value = value};
    return u.bits;
}

static inline float emulated_float(uint32_t mask, float value, int distance)
{
    union {
        uint32_t bits;
        float value;
    } u = {.bits = emulated_shuffle(mask, emulated_bits(value), distance)};
    return u.value;
}

static inline int emulated_int(uint32_t mask, int value, int distance)
{
    return (int)emulated_shuffle(mask, (uint32_t)value, distance);
}

#define __shfl_xor_sync(mask, value, distance)                                                                                   \
    _Generic((value), float : emulated_float, int : emulated_int)((mask), (value), (distance))

#endif

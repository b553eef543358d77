/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of kernels.cu, as the host starts them and as the compiler of the device sees them. All take the same arguments, by
 * value, and use those that they name; all run with PSK_CUDA_THREADS threads a block, in grids that they stride over. Device
 * addresses, row-major; 16-byte aligned where floats are.
 */
#ifndef PSK_CUDA_LAUNCH_H
#define PSK_CUDA_LAUNCH_H

#include <stdint.h>

#ifdef __CUDACC__
#define PSK_KERNEL extern "C" __global__ void
#else
#define PSK_KERNEL void
#endif

enum {
    PSK_CUDA_THREADS = 256,
    PSK_CUDA_WARP = 32,
    PSK_CUDA_SUM_COLUMNS = 128, /* of a block of psk_cuda_column_sums: 32 threads, 4 columns each */
};

/** The first label that was no class; in host memory that the device writes to. */
struct psk_cuda_fault {
    uint32_t set; /* written last */
    int32_t label;
    int64_t row, classes;
    uint32_t op; /* psk_op */
};

struct psk_cuda_args {
    const float *a, *b;
    const int32_t *labels;
    float *out;
    double *partials; /* one per block */
    int64_t partial_count;
    unsigned long long *bad_row; /* the lowest row whose label is no class; all bits set: none */
    struct psk_cuda_fault *fault;
    double *loss;
    int64_t *count;
    int64_t rows, columns;
    uint64_t key; /* dropout */
    uint32_t last;
    float scale;
    uint32_t activation; /* psk_activation */
    uint32_t width;      /* threads of a row: a power of two <= PSK_CUDA_WARP, or PSK_CUDA_THREADS */
    uint32_t op;         /* psk_op, for the fault */
};

/** out = act(a + b): a, out (rows, columns), in place is fine; b (columns) or NULL. */
PSK_KERNEL psk_cuda_act(struct psk_cuda_args k);
/** out = b act'(a): a (the activation's result), b, out (rows, columns), in place of either. */
PSK_KERNEL psk_cuda_act_backward(struct psk_cuda_args k);
/** out = kept(key, last) ? a scale : 0, in place; the mask of mask.h. */
PSK_KERNEL psk_cuda_dropout(struct psk_cuda_args k);
/** out = a - scale b: a, b, out (rows, columns), in place of either. */
PSK_KERNEL psk_cuda_sgd(struct psk_cuda_args k);
/** out (gridDim.y, columns): sums over rows of a (rows, columns), each row of out over its share of them. Blocks: one per
 *  PSK_CUDA_SUM_COLUMNS columns. */
PSK_KERNEL psk_cuda_column_sums(struct psk_cuda_args k);
/** a = logits (rows, columns), labels (rows) -> out (rows, columns) or NULL, in place: (softmax - onehot) scale; partials: sums
 * of the rows' losses. */
PSK_KERNEL psk_cuda_softmax_xent(struct psk_cuda_args k);
/** a = logits (rows, columns), labels (rows) -> partials: rows whose first largest value is at the label. */
PSK_KERNEL psk_cuda_argmax_count(struct psk_cuda_args k);
/** One block: the sum of partials -> loss (divided by rows; 0 for none) or count, where not NULL; a bad row -> fault. */
PSK_KERNEL psk_cuda_finish(struct psk_cuda_args k);

#endif

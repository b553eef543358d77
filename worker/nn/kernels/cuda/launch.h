/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of kernels.cu, for the host that starts them and for the device's compiler. All have the same arguments, passed by
 * value; each uses those that its comment names. All run with PSK_CUDA_THREADS threads per block and stride over their grid.
 * Addresses are the device's, row-major; floats are 16-byte aligned. */
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
    PSK_CUDA_SUM_COLUMNS = 128, /* columns per block of psk_cuda_column_sums: 32 threads, 4 columns each */
};

/** The first label that was no class; in host memory that the device writes. */
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
    unsigned long long *bad_row; /* lowest row whose label is out of range; all bits set: no such row */
    struct psk_cuda_fault *fault;
    double *loss;
    int64_t *count;
    int64_t rows, columns;
    uint64_t key; /* for dropout */
    uint32_t last;
    float scale;
    uint32_t activation; /* psk_activation */
    uint32_t width;      /* threads per row: a power of two <= PSK_CUDA_WARP, or PSK_CUDA_THREADS */
    uint32_t op;         /* psk_op, for fault */
    uint32_t loss_kind;  /* psk_loss */
    float delta, epsilon;
    const float *gamma, *beta;
    const int64_t *indices, *ends; /* bags (lists of table rows): the rows, and the end of each bag in `indices`; NULL: each index
                                    * is a bag */
    const float *weights;          /* NULL: all are 1 */
    const float *sums;             /* for each bag the sum of its rows, which psk_cuda_fm has written */
    float *totals;                 /* one value a bag */
    int64_t bags;
    uint64_t padding_plus_1; /* 0: none */
    int64_t shares;          /* threads for each column of out: thread s computes row s and each `shares`th row after it */
    int64_t fields;
    uint32_t combiner; /* psk_combiner */
};

/** out = act(a + b): a, out (rows, columns), in place allowed; b (columns) or NULL. */
PSK_KERNEL psk_cuda_act(struct psk_cuda_args k);
/** out = b act'(a): a (result of the activation), b, out (rows, columns); out may be a or b. */
PSK_KERNEL psk_cuda_act_backward(struct psk_cuda_args k);
/** out = kept(key, last) ? a scale : 0, in place; mask.h has the mask. */
PSK_KERNEL psk_cuda_dropout(struct psk_cuda_args k);
/** out = a - scale b: a, b, out (rows, columns); out may be a or b. */
PSK_KERNEL psk_cuda_sgd(struct psk_cuda_args k);
/** out (gridDim.y, columns): column sums of a (rows, columns), each row of out for one share of a's rows. A block makes the sums
 * of PSK_CUDA_SUM_COLUMNS columns. */
PSK_KERNEL psk_cuda_column_sums(struct psk_cuda_args k);
/** a = logits (rows, columns), labels (rows) -> out (rows, columns) or NULL, in place: (softmax - onehot) scale; partials: sums
 * of the rows' losses. */
PSK_KERNEL psk_cuda_softmax_xent(struct psk_cuda_args k);
/** a = logits (rows, columns), labels (rows) -> partials: number of rows whose first largest value is at the label. */
PSK_KERNEL psk_cuda_argmax_count(struct psk_cuda_args k);
/** a, b, out or NULL (rows, columns): out = slope of loss(a, b) times scale; partials: sums of the losses. */
PSK_KERNEL psk_cuda_loss(struct psk_cuda_args k);
/** out = gelu(a), in place. */
PSK_KERNEL psk_cuda_gelu(struct psk_cuda_args k);
/** out = b gelu'(a); out may be a or b. */
PSK_KERNEL psk_cuda_gelu_backward(struct psk_cuda_args k);
/** out = gamma h + beta, h the normalized rows of a; in place. `width` threads a row, also for psk_cuda_layer_norm_dx. */
PSK_KERNEL psk_cuda_layer_norm(struct psk_cuda_args k);
/** a = x, b = dy -> out = dx of layer normalization; out may be b. */
PSK_KERNEL psk_cuda_layer_norm_dx(struct psk_cuda_args k);
/** a = x, b = dy -> out (gridDim.x, columns): column sums of b h; each row of out sums a share of the rows. */
PSK_KERNEL psk_cuda_layer_norm_dgamma(struct psk_cuda_args k);
/** a = table, bags -> out (bags, columns): the combined rows. */
PSK_KERNEL psk_cuda_bag(struct psk_cuda_args k);
/** a = table, bags -> out (bags, columns): sums of the bags' entries; totals (bags): interactions. `width` threads for a bag. */
PSK_KERNEL psk_cuda_fm(struct psk_cuda_args k);
/** b = dy, bags -> out (rows, columns): gradient of the table. sums NULL: gradient of psk_cuda_bag, with dy (bags, columns). sums
 * not NULL: gradient of psk_cuda_fm, which has written the sums, with dy (bags) and a = table. */
PSK_KERNEL psk_cuda_bag_backward(struct psk_cuda_args k);
/** a (rows, fields * columns) -> out (rows, pairs): the dot products of all pairs of a row's fields. */
PSK_KERNEL psk_cuda_dot(struct psk_cuda_args k);
/** a (rows, fields * columns), b = dy (rows, pairs) -> out (rows, fields * columns). */
PSK_KERNEL psk_cuda_dot_backward(struct psk_cuda_args k);
/** In one block: sum of partials -> loss (divided by rows; 0 for 0 rows) or count, whichever is not NULL. Sets fault. */
PSK_KERNEL psk_cuda_finish(struct psk_cuda_args k);

#endif

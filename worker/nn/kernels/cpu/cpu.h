/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of the CPU plugin, on plain pointers; worker/nn/kernels/kernels.h has shapes and meaning. run.c calls them for
 * tensors. Static functions with PSI_CLONES have different names, psk_clone_*: clang 14 makes a global NAME.resolver of each. */
#ifndef PSK_CPU_H
#define PSK_CPU_H

#include "worker/nn/kernels/kernels.h"

/* c (rows, columns) = a b + beta c, summed over `inner`, row-major. A stride is the distance of two rows in floats. turned: the
 * matrix is transposed in memory. beta: 0 or 1. */
struct psk_cpu_product {
    const float *a, *b;
    float *c;
    int64_t rows, columns, inner;
    int64_t a_stride, b_stride, c_stride;
    bool a_turned, b_turned;
    float beta;
};

/** True if oneDNN can be used; out_version gets its version. */
bool psk_cpu_onednn_has(int out_version[3]);
/** Multiply by oneDNN, with one thread. False: oneDNN is missing or has failed, and c is unchanged. */
bool psk_cpu_onednn_multiply(const struct psk_cpu_product *p);

/** Call before the first product. If the user has set OPENBLAS_NUM_THREADS above 1, the plugin computes with as many threads as
 * OpenBLAS would, and OpenBLAS uses one from now on. Otherwise OpenBLAS is left as the program has set it. */
void psk_cpu_blas_open(void);
/** Write the name of the library that multiplies matrices, and a warning if its products could be faster; "": no warning. */
void psk_cpu_blas_describe(char *name, size_t name_bytes, char *warning, size_t warning_bytes);

enum { PSK_CPU_THREADS_MAX = 1024, PSK_CPU_CUT = 16 /* floats per cache line */ };

/** Compute part number `part` (0 .. parts-1) of `work`, perhaps at the same time as other parts. */
typedef void (*psk_cpu_part_fn)(const void *work, uint32_t part, uint32_t parts);
/** Do all parts (at most PSK_CPU_THREADS_MAX) on this thread and idle helpers; returns when all are done. Any thread. */
void psk_cpu_split(uint32_t parts, psk_cpu_part_fn fn, const void *work);
/** First element of part `part` of n elements; part == parts: n. A multiple of PSK_CPU_CUT: no two threads share a cache line. */
static inline int64_t psk_cpu_cut(int64_t n, uint32_t part, uint32_t parts)
{
    return part < parts ? n * part / parts / PSK_CPU_CUT * PSK_CPU_CUT : n;
}
/** Set the number of threads that compute, including the caller of psk_cpu_split(); 1 at first. Any thread. */
void psk_cpu_threads_set(uint32_t threads);
uint32_t psk_cpu_threads(void);
/** End the helper threads; the next psk_cpu_split() makes new ones. Any thread. */
void psk_cpu_threads_end(void);

void psk_cpu_dense(const float *x, const float *w, const float *b, float *y, int64_t batch, int64_t in, int64_t out,
                   psk_activation act);
void psk_cpu_dense_dx(const float *dy, const float *w, const float *x, float *dx, int64_t batch, int64_t in, int64_t out,
                      psk_activation act);
void psk_cpu_dense_dw(const float *x, const float *dy, float *dw, float *db, int64_t batch, int64_t in, int64_t out);
/** A sparse matrix in compressed sparse rows, as PSK_SPARSE has it. */
struct psk_cpu_rows {
    const int32_t *ends, *columns;
    const float *values;
    int64_t rows, in; /* B, I */
};
void psk_cpu_sparse(const struct psk_cpu_rows *x, const float *w, const float *b, float *y, int64_t out, psk_activation act);
void psk_cpu_sparse_dw(const struct psk_cpu_rows *x, const float *dy, float *dw, float *db, int64_t out);
void psk_cpu_act(const float *x, float *y, int64_t count, psk_activation act);
void psk_cpu_act_backward(const float *y, const float *dy, float *dx, int64_t count, psk_activation act);
/** PSK_DROPOUT for the elements first .. end-1. */
void psk_cpu_dropout(const float *in, float *out, int64_t first, int64_t end, uint64_t seed, float keep, uint64_t step);
void psk_cpu_sgd(const float *w, const float *dw, float *out, int64_t count, float rate);
double psk_cpu_softmax_xent(const float *logits, const int32_t *labels, float *dlogits, int64_t batch, int64_t classes);
/** Mean loss of count values; dx may be NULL, x or t. */
double psk_cpu_loss(const float *x, const float *t, float *dx, int64_t count, psk_loss loss, float delta);
void psk_cpu_gelu(const float *x, float *y, int64_t count);
void psk_cpu_gelu_backward(const float *x, const float *dy, float *dx, int64_t count);
void psk_cpu_layer_norm(const float *x, const float *gamma, const float *beta, float *y, int64_t batch, int64_t n, float epsilon);
/** dx, dgamma and dbeta may be NULL; dx may be dy. */
void psk_cpu_layer_norm_backward(const float *x, const float *gamma, const float *dy, float *dx, float *dgamma, float *dbeta,
                                 int64_t batch, int64_t n, float epsilon);
int64_t psk_cpu_argmax_count(const float *logits, const int32_t *labels, int64_t batch, int64_t classes);

/** Bags, lists of table rows, as PSK_EMBEDDING_BAG has them. ends NULL: each index is a bag. */
struct psk_cpu_bags {
    const int64_t *indices, *ends;
    const float *weights;                  /* NULL: 1 */
    int64_t count, index_count, row_count; /* B, K, R */
    psk_combiner combiner;
    uint64_t padding_plus_1; /* 0: none */
};
void psk_cpu_bag(const struct psk_cpu_bags *bags, const float *rows, float *y, int64_t n);
void psk_cpu_bag_backward(const struct psk_cpu_bags *bags, const float *dy, float *drows, int64_t n);
void psk_cpu_fm(const struct psk_cpu_bags *bags, const float *rows, float *y, float *sums, int64_t n);
void psk_cpu_fm_backward(const struct psk_cpu_bags *bags, const float *rows, const float *sums, const float *dy, float *drows,
                         int64_t n);
/** x (batch, fields n). */
void psk_cpu_dot(const float *x, float *y, int64_t batch, int64_t fields, int64_t n);
void psk_cpu_dot_backward(const float *x, const float *dy, float *dx, int64_t batch, int64_t fields, int64_t n);

/** The operations by number, for struct psk_plugin; device and stream are ignored. */
extern const psk_run_fn psk_cpu_run[PSK_OPS];

#endif

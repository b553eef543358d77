/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of the CUDA plugin: matrix products by cuBLAS, the rest by kernels.cu. Happy path: an operation starts one
 * product, or one or a few kernels, on its stream. cuBLAS is column-major: it sees each row-major matrix transposed, so y = x w
 * is computed as y^T = w^T x^T. All runs give the same bits: one handle and workspace per stream, grids that depend on shapes and
 * device only. TF32 only if attrs allow it. Failure modes: no memory for the workspace; CUDA refuses a start. */
#include "cuda.h"

#include "worker/nn/kernels/mask.h"
#include "worker/nn/kernels/ops.h"

#include <string.h>

enum {
    BLOCKS_PER_PROCESSOR = 64,     /* limit for kernels that pass over memory: many blocks hide latency */
    ROW_BLOCKS_PER_PROCESSOR = 16, /* limit for kernels over rows: each block makes a partial sum */
    ROWS_PER_SUM_MIN = 64,         /* fewest rows that a block of a column sum adds up: 8 for each warp */
    SUM_SHARES_MAX = 65535,        /* limit of gridDim.y */
    WIDE_COLUMNS = 4096,           /* a longer row gets a whole block */
};

struct launch {
    struct psk_device *device;
    struct psk_stream *stream;
    psk_op op;
};

static const char *name_of(const struct launch *l)
{
    return psk_rows[l->op].name;
}

/* Make the device this thread's current one, and name this operation in later errors. */
static ps_status begin(const struct launch *l, struct psi_err *err)
{
    __atomic_store_n(&l->stream->last, name_of(l), __ATOMIC_RELAXED);
    return psk_cuda_enter(l->device, err);
}

void psk_cuda_run_fini(struct psk_stream *stream)
{
    if (stream->blas != NULL) {
        PSI_IGNORE(cublasDestroy(stream->blas));
    }
    PSI_IGNORE(cudaFree(stream->workspace));
    PSI_IGNORE(cudaFree(stream->sums));
    PSI_IGNORE(cudaFree(stream->bad_row));
}

static ps_status memory_get(const struct launch *l, void **memory, size_t bytes, struct psi_err *err)
{
    return psk_cuda_check(l->device, cudaMalloc(memory, bytes), name_of(l), "cudaMalloc for its workspace", err);
}

static ps_status blas_get(const struct launch *l, struct psi_err *err)
{
    struct psk_stream *s = l->stream;
    cublasHandle_t blas = NULL;
    ps_status st = s->workspace == NULL ? memory_get(l, &s->workspace, PSK_CUDA_WORKSPACE_BYTES, err) : PS_OK;
    if (st != PS_OK || s->blas != NULL) {
        return st;
    }
    st = psk_cuda_check_blas(l->device, cublasCreate(&blas), name_of(l), err);
    if (st != PS_OK) {
        return st;
    }
    st = psk_cuda_check_blas(l->device, cublasSetStream(blas, s->stream), name_of(l), err);
    if (st == PS_OK) { /* the order matters: cublasSetStream() resets the workspace */
        st = psk_cuda_check_blas(l->device, cublasSetWorkspace(blas, s->workspace, PSK_CUDA_WORKSPACE_BYTES), name_of(l), err);
    }
    if (st != PS_OK) {
        PSI_IGNORE(cublasDestroy(blas));
        return st;
    }
    s->blas = blas;
    return PS_OK;
}

static ps_status sums_get(const struct launch *l, struct psi_err *err)
{
    struct psk_stream *s = l->stream;
    void *sums = NULL;
    void *bad_row = NULL;
    ps_status st = PS_OK;
    if (s->sums == NULL) {
        st = memory_get(l, &sums, PSK_CUDA_SUMS_BYTES, err);
        s->sums = sums;
    }
    if (st == PS_OK && s->bad_row == NULL) {
        st = memory_get(l, &bad_row, sizeof(*s->bad_row), err);
        s->bad_row = bad_row;
        st = st == PS_OK ? psk_cuda_check(l->device, cudaMemsetAsync(bad_row, 0xff, sizeof(*s->bad_row), s->stream), name_of(l),
                                          "cudaMemsetAsync", err)
                         : st;
    }
    return st;
}

static ps_status start(const struct launch *l, void (*kernel)(struct psk_cuda_args), dim3 grid, const struct psk_cuda_args *k,
                       struct psi_err *err)
{
    struct psk_cuda_args args = *k;
    void *all[] = {&args};
    const dim3 block = {PSK_CUDA_THREADS, 1, 1};
    return psk_cuda_check(l->device, cudaLaunchKernel((const void *)kernel, grid, block, all, 0, l->stream->stream), name_of(l),
                          "cudaLaunchKernel", err);
}

static uint32_t at_most(int64_t wanted, int64_t most)
{
    return (uint32_t)(wanted < most ? wanted : most);
}

/* Start a kernel that passes over rows * columns values; does nothing if there are none. */
static ps_status start_over(const struct launch *l, void (*kernel)(struct psk_cuda_args), const struct psk_cuda_args *k,
                            struct psi_err *err)
{
    const int64_t per_block = 4 * (int64_t)PSK_CUDA_THREADS;
    const int64_t blocks = (k->rows * k->columns + per_block - 1) / per_block;
    const dim3 grid = {at_most(blocks, (int64_t)l->device->processors * BLOCKS_PER_PROCESSOR), 1, 1};
    const ps_status st = begin(l, err);
    return st == PS_OK && blocks > 0 ? start(l, kernel, grid, k, err) : st;
}

static float *floats(const struct psk_tensor *t)
{
    return (float *)(uintptr_t)t->address;
}

static ps_status zero(const struct launch *l, const struct psk_tensor *t, struct psi_err *err)
{
    const ps_status st = begin(l, err);
    return st == PS_OK ? psk_cuda_check(l->device, cudaMemsetAsync(floats(t), 0, psk_tensor_bytes(t), l->stream->stream),
                                        name_of(l), "cudaMemsetAsync", err)
                       : st;
}

/* The matrix product c (rows, columns) = a b, summed over `inner`, row-major. a_turned, b_turned: stored transposed. */
struct product {
    const struct psk_tensor *a, *b, *c;
    bool a_turned, b_turned;
    int64_t rows, columns, inner;
};

static ps_status multiply(const struct launch *l, const struct psk_attrs *attrs, const struct product *p, struct psi_err *err)
{
    const float one = 1.0f;
    const float none = 0.0f;
    ps_status st = begin(l, err);
    st = st == PS_OK ? blas_get(l, err) : st;
    if (st != PS_OK) {
        return st;
    }
    /* c^T = b^T a^T; a leading dimension is the number of columns of the row-major matrix */
    const int b_columns = (int)p->b->shape.dims[1];
    const int a_columns = (int)p->a->shape.dims[1];
    return psk_cuda_check_blas(
        l->device,
        cublasGemmEx(l->stream->blas, p->b_turned ? CUBLAS_OP_T : CUBLAS_OP_N, p->a_turned ? CUBLAS_OP_T : CUBLAS_OP_N,
                     (int)p->columns, (int)p->rows, (int)p->inner, &one, floats(p->b), CUDA_R_32F, b_columns, floats(p->a),
                     CUDA_R_32F, a_columns, &none, floats(p->c), CUDA_R_32F, (int)p->columns,
                     attrs->tf32 != 0 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        name_of(l), err);
}

#define RUN(name)                                                                                                                \
    static ps_status name(struct psk_device *device, struct psk_stream *stream, const struct psk_tensor *args,                   \
                          const struct psk_attrs *attrs, struct psi_err *err)

RUN(run_dense)
{
    /* args, [optional]: x (batch, in), w (in, out), [b] (out) -> y (batch, out) */
    const struct launch l = {device, stream, PSK_DENSE};
    const int64_t batch = args[0].shape.dims[0];
    const int64_t in = args[1].shape.dims[0];
    const int64_t out = args[1].shape.dims[1];
    const struct product p = {&args[0], &args[1], &args[3], false, false, batch, out, in};
    const struct psk_cuda_args k = {.a = floats(&args[3]),
                                    .b = floats(&args[2]),
                                    .out = floats(&args[3]),
                                    .rows = batch,
                                    .columns = out,
                                    .activation = attrs->activation};
    const ps_status st = batch > 0 ? multiply(&l, attrs, &p, err) : PS_OK;
    const bool more = k.b != NULL || k.activation != PSK_LINEAR;
    return st == PS_OK && more ? start_over(&l, psk_cuda_act, &k, err) : st;
}

RUN(run_dense_dx)
{
    /* args, [optional]: dy (batch, out), w (in, out), [x] (batch, in) -> dx (batch, in) */
    const struct launch l = {device, stream, PSK_DENSE_DX};
    const int64_t batch = args[0].shape.dims[0];
    const int64_t in = args[1].shape.dims[0];
    const int64_t out = args[1].shape.dims[1];
    const struct product p = {&args[0], &args[1], &args[3], false, true, batch, in, out};
    const struct psk_cuda_args k = {.a = floats(&args[2]),
                                    .b = floats(&args[3]),
                                    .out = floats(&args[3]),
                                    .rows = batch,
                                    .columns = in,
                                    .activation = attrs->activation};
    const ps_status st = batch > 0 ? multiply(&l, attrs, &p, err) : PS_OK;
    return st == PS_OK && k.activation != PSK_LINEAR ? start_over(&l, psk_cuda_act_backward, &k, err) : st;
}

/* Number of shares into which the rows of a column sum are divided, to be summed at the same time: `wanted`, or fewer if there
 * are few rows or the shares' sums would not fit into stream->sums; at least 1. */
static int64_t sum_shares(int64_t wanted, const struct psk_cuda_args *k)
{
    int64_t shares = at_most(wanted, SUM_SHARES_MAX);
    shares = at_most(shares, k->rows / ROWS_PER_SUM_MIN);
    shares = at_most(shares, PSK_CUDA_SUMS_BYTES / (int64_t)sizeof(float) / k->columns);
    return shares > 1 ? shares : 1;
}

static dim3 column_grid(const struct psk_cuda_args *k, int64_t shares)
{
    const int64_t blocks = (k->columns + PSK_CUDA_SUM_COLUMNS - 1) / PSK_CUDA_SUM_COLUMNS;
    return (dim3){(uint32_t)blocks, (uint32_t)shares, 1};
}

/* Column sums. If there are too few blocks for the device, in two steps: the sums of each share of the rows, then their sums. */
static ps_status column_sums(const struct launch *l, struct psk_cuda_args k, struct psi_err *err)
{
    const int64_t shares = sum_shares(8 * (int64_t)l->device->processors / column_grid(&k, 1).x, &k);
    if (shares == 1) {
        return start(l, psk_cuda_column_sums, column_grid(&k, 1), &k, err);
    }
    ps_status st = sums_get(l, err);
    struct psk_cuda_args part = k;
    part.out = l->stream->sums;
    st = st == PS_OK ? start(l, psk_cuda_column_sums, column_grid(&k, shares), &part, err) : st;
    k.a = l->stream->sums;
    k.rows = shares;
    return st == PS_OK ? start(l, psk_cuda_column_sums, column_grid(&k, 1), &k, err) : st;
}

RUN(run_dense_dw)
{
    /* args, [optional]: x (batch, in), dy (batch, out) -> dw (in, out), [db] (out) */
    const struct launch l = {device, stream, PSK_DENSE_DW};
    const int64_t batch = args[0].shape.dims[0];
    const int64_t in = args[0].shape.dims[1];
    const int64_t out = args[1].shape.dims[1];
    const struct product p = {&args[0], &args[1], &args[2], true, false, in, out, batch};
    const struct psk_cuda_args k = {.a = floats(&args[1]), .out = floats(&args[3]), .rows = batch, .columns = out};
    const ps_status st = batch > 0 ? multiply(&l, attrs, &p, err) : zero(&l, &args[2], err);
    return st == PS_OK && k.out != NULL ? column_sums(&l, k, err) : st;
}

RUN(run_act)
{
    const struct launch l = {device, stream, PSK_ACT};
    const struct psk_cuda_args k = {.a = floats(&args[0]),
                                    .out = floats(&args[1]),
                                    .rows = args[0].shape.dims[0],
                                    .columns = args[0].shape.dims[1],
                                    .activation = attrs->activation};
    return start_over(&l, psk_cuda_act, &k, err);
}

RUN(run_act_backward)
{
    const struct launch l = {device, stream, PSK_ACT_BACKWARD};
    const struct psk_cuda_args k = {.a = floats(&args[0]),
                                    .b = floats(&args[1]),
                                    .out = floats(&args[2]),
                                    .rows = args[0].shape.dims[0],
                                    .columns = args[0].shape.dims[1],
                                    .activation = attrs->activation};
    return start_over(&l, psk_cuda_act_backward, &k, err);
}

RUN(run_dropout)
{
    const struct launch l = {device, stream, PSK_DROPOUT};
    const struct psk_cuda_args k = {.a = floats(&args[0]),
                                    .out = floats(&args[1]),
                                    .rows = args[0].shape.dims[0],
                                    .columns = args[0].shape.dims[1],
                                    .key = psk_mask_key(attrs->seed, attrs->step),
                                    .last = psk_mask_last(attrs->keep),
                                    .scale = 1.0f / attrs->keep};
    return start_over(&l, psk_cuda_dropout, &k, err);
}

RUN(run_sgd)
{
    const struct launch l = {device, stream, PSK_SGD};
    const struct psk_cuda_args k = {.a = floats(&args[0]),
                                    .b = floats(&args[1]),
                                    .out = floats(&args[2]),
                                    .rows = args[0].shape.dims[0],
                                    .columns = args[0].shape.dims[1],
                                    .scale = attrs->rate};
    return start_over(&l, psk_cuda_sgd, &k, err);
}

/* Threads per row: one for every four columns, at most a warp; a whole block for long rows. */
static uint32_t width_of(int64_t columns)
{
    uint32_t width = 1;
    while (width < PSK_CUDA_WARP && 4 * (int64_t)width < columns) {
        width *= 2;
    }
    return columns > WIDE_COLUMNS ? PSK_CUDA_THREADS : width;
}

/* Blocks for k->rows rows, `at_once` of them in a block at a time. */
static dim3 rows_grid(const struct launch *l, const struct psk_cuda_args *k, int64_t at_once)
{
    const int64_t blocks = (k->rows + at_once - 1) / at_once;
    return (dim3){at_most(blocks, (int64_t)l->device->processors * ROW_BLOCKS_PER_PROCESSOR), 1, 1};
}

static dim3 row_grid(const struct launch *l, const struct psk_cuda_args *k)
{
    return rows_grid(l, k, PSK_CUDA_THREADS / k->width);
}

/* Start a kernel over rows, each of whose blocks writes one partial result, and then psk_cuda_finish, which adds these up. */
static ps_status with_partials(const struct launch *l, void (*kernel)(struct psk_cuda_args), struct psk_cuda_args k,
                               int64_t at_once, struct psi_err *err)
{
    ps_status st = begin(l, err);
    st = st == PS_OK ? sums_get(l, err) : st;
    const dim3 grid = rows_grid(l, &k, at_once);
    k.op = l->op;
    k.partials = (double *)(void *)l->stream->sums;
    k.partial_count = grid.x;
    k.bad_row = l->stream->bad_row;
    k.fault = l->device->fault;
    st = st == PS_OK && grid.x > 0 ? start(l, kernel, grid, &k, err) : st;
    return st == PS_OK ? start(l, psk_cuda_finish, (dim3){1, 1, 1}, &k, err) : st;
}

static ps_status over_logits(const struct launch *l, void (*kernel)(struct psk_cuda_args), struct psk_cuda_args k,
                             struct psi_err *err)
{
    k.width = width_of(k.columns);
    return with_partials(l, kernel, k, PSK_CUDA_THREADS / k.width, err);
}

RUN(run_softmax_xent)
{
    /* args, [optional]: logits (batch, classes), labels (batch) -> [dlogits] (batch, classes), [loss] (one number) */
    (void)attrs;
    const struct launch l = {device, stream, PSK_SOFTMAX_XENT};
    const int64_t batch = args[0].shape.dims[0];
    const struct psk_cuda_args k = {.a = floats(&args[0]),
                                    .labels = (const int32_t *)(uintptr_t)args[1].address,
                                    .out = floats(&args[2]),
                                    .loss = (double *)(uintptr_t)args[3].address,
                                    .rows = batch,
                                    .columns = args[0].shape.dims[1],
                                    .scale = batch > 0 ? 1.0f / (float)batch : 0.0f};
    return over_logits(&l, psk_cuda_softmax_xent, k, err);
}

RUN(run_argmax_count)
{
    /* args: logits (batch, classes), labels (batch) -> count (one number) */
    (void)attrs;
    const struct launch l = {device, stream, PSK_ARGMAX_COUNT};
    const struct psk_cuda_args k = {.a = floats(&args[0]),
                                    .labels = (const int32_t *)(uintptr_t)args[1].address,
                                    .count = (int64_t *)(uintptr_t)args[2].address,
                                    .rows = args[0].shape.dims[0],
                                    .columns = args[0].shape.dims[1]};
    return over_logits(&l, psk_cuda_argmax_count, k, err);
}

RUN(run_gelu)
{
    (void)attrs;
    const struct launch l = {device, stream, PSK_GELU};
    const struct psk_cuda_args k = {
        .a = floats(&args[0]), .out = floats(&args[1]), .rows = args[0].shape.dims[0], .columns = args[0].shape.dims[1]};
    return start_over(&l, psk_cuda_gelu, &k, err);
}

RUN(run_gelu_backward)
{
    (void)attrs;
    const struct launch l = {device, stream, PSK_GELU_BACKWARD};
    const struct psk_cuda_args k = {.a = floats(&args[0]),
                                    .b = floats(&args[1]),
                                    .out = floats(&args[2]),
                                    .rows = args[0].shape.dims[0],
                                    .columns = args[0].shape.dims[1]};
    return start_over(&l, psk_cuda_gelu_backward, &k, err);
}

RUN(run_add)
{
    (void)attrs;
    const struct launch l = {device, stream, PSK_ADD};
    const struct psk_cuda_args k = {.a = floats(&args[0]),
                                    .b = floats(&args[1]),
                                    .out = floats(&args[2]),
                                    .rows = args[0].shape.dims[0],
                                    .columns = args[0].shape.dims[1],
                                    .scale = -1.0f}; /* a - (-1) b, exactly a + b */
    return start_over(&l, psk_cuda_sgd, &k, err);
}

RUN(run_loss)
{
    /* args, [optional]: x (batch, n), t (batch, n) -> [dx] (batch, n), [loss] (one number) */
    const struct launch l = {device, stream, PSK_LOSS};
    const int64_t count = args[0].shape.dims[0] * args[0].shape.dims[1];
    const struct psk_cuda_args k = {.a = floats(&args[0]),
                                    .b = floats(&args[1]),
                                    .out = floats(&args[2]),
                                    .loss = (double *)(uintptr_t)args[3].address,
                                    .rows = count, /* psk_cuda_finish divides by it */
                                    .columns = 1,
                                    .scale = count > 0 ? 1.0f / (float)count : 0.0f,
                                    .loss_kind = attrs->loss,
                                    .delta = attrs->delta};
    return with_partials(&l, psk_cuda_loss, k, 4 * PSK_CUDA_THREADS, err);
}

static struct psk_cuda_args norm_args(const struct psk_tensor *args, const struct psk_attrs *attrs)
{
    return (struct psk_cuda_args){.a = floats(&args[0]),
                                  .gamma = floats(&args[1]),
                                  .rows = args[0].shape.dims[0],
                                  .columns = args[0].shape.dims[1],
                                  .width = width_of(args[0].shape.dims[1]),
                                  .epsilon = attrs->epsilon};
}

RUN(run_layer_norm)
{
    /* args: x (batch, n), gamma (n), beta (n) -> y (batch, n) */
    const struct launch l = {device, stream, PSK_LAYER_NORM};
    struct psk_cuda_args k = norm_args(args, attrs);
    k.beta = floats(&args[2]);
    k.out = floats(&args[3]);
    const ps_status st = begin(&l, err);
    return st == PS_OK && k.rows > 0 ? start(&l, psk_cuda_layer_norm, row_grid(&l, &k), &k, err) : st;
}

/* The gradient of gamma: column sums of dy times the normalized rows. With many rows first the sums of shares of the rows. */
static ps_status norm_dgamma(const struct launch *l, struct psk_cuda_args k, struct psi_err *err)
{
    float *dgamma = k.out;
    const int64_t shares = sum_shares(2 * (int64_t)l->device->processors, &k);
    ps_status st = shares > 1 ? sums_get(l, err) : PS_OK;
    k.width = PSK_CUDA_THREADS;
    k.out = shares > 1 ? l->stream->sums : dgamma;
    st = st == PS_OK ? start(l, psk_cuda_layer_norm_dgamma, (dim3){(uint32_t)shares, 1, 1}, &k, err) : st;
    const struct psk_cuda_args sum = {.a = k.out, .out = dgamma, .rows = shares, .columns = k.columns};
    return st == PS_OK && shares > 1 ? start(l, psk_cuda_column_sums, column_grid(&k, 1), &sum, err) : st;
}

RUN(run_layer_norm_backward)
{
    /* args, [optional]: x (batch, n), gamma (n), dy (batch, n) -> [dx] (batch, n), [dgamma] (n), [dbeta] (n) */
    const struct launch l = {device, stream, PSK_LAYER_NORM_BACKWARD};
    struct psk_cuda_args k = norm_args(args, attrs);
    k.b = floats(&args[2]);
    k.out = floats(&args[4]);
    ps_status st = begin(&l, err);
    st = st == PS_OK && k.out != NULL ? norm_dgamma(&l, k, err) : st;
    k.out = floats(&args[5]);
    struct psk_cuda_args dbeta = k;
    dbeta.a = k.b;
    st = st == PS_OK && k.out != NULL ? column_sums(&l, dbeta, err) : st;
    k.out = floats(&args[3]); /* dx is made last, because it may be in dy's memory */
    return st == PS_OK && k.out != NULL && k.rows > 0 ? start(&l, psk_cuda_layer_norm_dx, row_grid(&l, &k), &k, err) : st;
}

/* Start a kernel with one thread for each of `count` values; does nothing if count is 0. */
static ps_status start_each(const struct launch *l, void (*kernel)(struct psk_cuda_args), int64_t count,
                            const struct psk_cuda_args *k, struct psi_err *err)
{
    const int64_t blocks = (count + PSK_CUDA_THREADS - 1) / PSK_CUDA_THREADS;
    const dim3 grid = {at_most(blocks, (int64_t)l->device->processors * BLOCKS_PER_PROCESSOR), 1, 1};
    const ps_status st = begin(l, err);
    return st == PS_OK && blocks > 0 ? start(l, kernel, grid, k, err) : st;
}

/* The arguments of a kernel that reads bags, lists of rows of the table. indices: the operation's argument `indices`; if `bags`,
 * the next two arguments are ends and weights. */
static struct psk_cuda_args bags_of(const struct psk_tensor *indices, bool bags, const struct psk_tensor *table,
                                    const struct psk_attrs *attrs)
{
    return (struct psk_cuda_args){.indices = (const int64_t *)(uintptr_t)indices->address,
                                  .ends = bags ? (const int64_t *)(uintptr_t)indices[1].address : NULL,
                                  .weights = bags ? floats(&indices[2]) : NULL,
                                  .bags = indices[bags].shape.dims[0],
                                  .rows = table->shape.dims[0],
                                  .columns = table->shape.dims[1],
                                  .combiner = attrs->combiner,
                                  .padding_plus_1 = attrs->padding_plus_1};
}

static ps_status bag(const struct launch *l, struct psk_cuda_args k, const struct psk_tensor *rows, const struct psk_tensor *y,
                     struct psi_err *err)
{
    k.a = floats(rows);
    k.out = floats(y);
    return start_each(l, psk_cuda_bag, k.bags * k.columns, &k, err);
}

/* Start the kernel for the gradient of a table, whose rows are divided into so many shares that every processor gets some warps.
 * With more shares the indices would be read more often. */
static ps_status bag_backward(const struct launch *l, struct psk_cuda_args k, const struct psk_tensor *dy,
                              const struct psk_tensor *drows, struct psi_err *err)
{
    const int64_t threads = (int64_t)l->device->processors * 4 * PSK_CUDA_THREADS;
    k.b = floats(dy);
    k.out = floats(drows);
    k.shares = at_most(threads / k.columns, k.rows);
    k.shares = k.shares > 1 ? k.shares : 1;
    return start_each(l, psk_cuda_bag_backward, k.rows > 0 ? k.shares * k.columns : 0, &k, err);
}

RUN(run_embedding)
{
    /* args: rows (rows, n), indices (entries) -> y (entries, n) */
    const struct launch l = {device, stream, PSK_EMBEDDING};
    return bag(&l, bags_of(&args[1], false, &args[0], attrs), &args[0], &args[2], err);
}

RUN(run_embedding_backward)
{
    /* args, [optional]: [rows] (rows, n), indices (entries), dy (entries, n) -> drows (rows, n) */
    const struct launch l = {device, stream, PSK_EMBEDDING_BACKWARD};
    return bag_backward(&l, bags_of(&args[1], false, &args[3], attrs), &args[2], &args[3], err);
}

RUN(run_embedding_bag)
{
    /* args, [optional]: rows (rows, n), indices (entries), ends (bags), [weights] (entries) -> y (bags, n) */
    const struct launch l = {device, stream, PSK_EMBEDDING_BAG};
    return bag(&l, bags_of(&args[1], true, &args[0], attrs), &args[0], &args[4], err);
}

RUN(run_embedding_bag_backward)
{
    /* args: [rows] (rows, n), indices (entries), ends (bags), [weights] (entries), dy (bags, n) -> drows (table rows, n) */
    const struct launch l = {device, stream, PSK_EMBEDDING_BAG_BACKWARD};
    return bag_backward(&l, bags_of(&args[1], true, &args[5], attrs), &args[4], &args[5], err);
}

RUN(run_fm)
{
    /* args, [optional]: rows (rows, n), indices (entries), ends (bags), [weights] (entries) -> y (bags), sums (bags, n) */
    const struct launch l = {device, stream, PSK_FM};
    struct psk_cuda_args k = bags_of(&args[1], true, &args[0], attrs);
    k.a = floats(&args[0]);
    k.totals = floats(&args[4]);
    k.out = floats(&args[5]);
    k.rows = k.bags;
    k.width = width_of(k.columns);
    const ps_status st = begin(&l, err);
    return st == PS_OK && k.bags > 0 ? start(&l, psk_cuda_fm, row_grid(&l, &k), &k, err) : st;
}

RUN(run_fm_backward)
{
    /* args: rows (rows, n), indices (entries), ends (bags), [weights] (entries), sums (bags, n), dy (bags) -> drows (rows, n) */
    const struct launch l = {device, stream, PSK_FM_BACKWARD};
    struct psk_cuda_args k = bags_of(&args[1], true, &args[0], attrs);
    k.a = floats(&args[0]);
    k.sums = floats(&args[4]);
    return bag_backward(&l, k, &args[5], &args[6], err);
}

RUN(run_dot)
{
    /* args: x (batch, values) -> y (batch, pairs) */
    const struct launch l = {device, stream, PSK_DOT};
    const struct psk_cuda_args k = {.a = floats(&args[0]),
                                    .out = floats(&args[1]),
                                    .rows = args[0].shape.dims[0],
                                    .columns = args[0].shape.dims[1] / attrs->fields,
                                    .fields = attrs->fields};
    return start_each(&l, psk_cuda_dot, k.rows * args[1].shape.dims[1], &k, err);
}

RUN(run_dot_backward)
{
    /* args: x (batch, values), dy (batch, pairs) -> dx (batch, values) */
    const struct launch l = {device, stream, PSK_DOT_BACKWARD};
    const struct psk_cuda_args k = {.a = floats(&args[0]),
                                    .b = floats(&args[1]),
                                    .out = floats(&args[2]),
                                    .rows = args[0].shape.dims[0],
                                    .columns = args[0].shape.dims[1] / attrs->fields,
                                    .fields = attrs->fields};
    return start_each(&l, psk_cuda_dot_backward, k.rows * args[0].shape.dims[1], &k, err);
}

const psk_run_fn psk_cuda_run[PSK_OPS] = {
    [PSK_DENSE] = run_dense,
    [PSK_DENSE_DX] = run_dense_dx,
    [PSK_DENSE_DW] = run_dense_dw,
    [PSK_ACT] = run_act,
    [PSK_ACT_BACKWARD] = run_act_backward,
    [PSK_DROPOUT] = run_dropout,
    [PSK_SOFTMAX_XENT] = run_softmax_xent,
    [PSK_ARGMAX_COUNT] = run_argmax_count,
    [PSK_SGD] = run_sgd,
    [PSK_LOSS] = run_loss,
    [PSK_GELU] = run_gelu,
    [PSK_GELU_BACKWARD] = run_gelu_backward,
    [PSK_ADD] = run_add,
    [PSK_LAYER_NORM] = run_layer_norm,
    [PSK_LAYER_NORM_BACKWARD] = run_layer_norm_backward,
    [PSK_EMBEDDING] = run_embedding,
    [PSK_EMBEDDING_BACKWARD] = run_embedding_backward,
    [PSK_EMBEDDING_BAG] = run_embedding_bag,
    [PSK_EMBEDDING_BAG_BACKWARD] = run_embedding_bag_backward,
    [PSK_FM] = run_fm,
    [PSK_FM_BACKWARD] = run_fm_backward,
    [PSK_DOT] = run_dot,
    [PSK_DOT_BACKWARD] = run_dot_backward,
};

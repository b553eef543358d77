/* SPDX-License-Identifier: Apache-2.0 */
/* All kernels but matrix products, which are cuBLAS's (run.c). Their limit is memory bandwidth, so most of them read and write
 * four floats at a time. A C compiler accepts this file too: tests/kernels/emulated runs it on the host. Every sum has an order
 * that depends on shape and grid only, and no float is added atomically: all runs give the same bits. Threads of a warp stay
 * together when they exchange values: loops over rows are equal for a whole block, and a thread without a row takes part with
 * neutral values. Failure mode: a label that is no class counts nothing, leaves zeros in its row, and psk_cuda_finish reports it.
 */
#include "launch.h"

#include "worker/nn/kernels/kernels.h"
#include "worker/nn/kernels/mask.h"
#include "worker/nn/kernels/pointwise.h"

#include <math.h>

#define ALL_LANES 0xffffffffu
#define NO_ROW (~0ull)

enum { WARPS = PSK_CUDA_THREADS / PSK_CUDA_WARP };

struct four {
    float v[4];
};

static __device__ struct four load4(const float *p, int64_t at, int64_t end, bool aligned)
{
    struct four f = {{0.0f, 0.0f, 0.0f, 0.0f}};
    if (aligned && at + 4 <= end) {
        const float4 all = *(const float4 *)(p + at);
        f.v[0] = all.x;
        f.v[1] = all.y;
        f.v[2] = all.z;
        f.v[3] = all.w;
        return f;
    }
    for (int j = 0; j < 4; j++) {
        if (at + j < end) {
            f.v[j] = p[at + j];
        }
    }
    return f;
}

static __device__ void store4(float *p, int64_t at, int64_t end, bool aligned, struct four f)
{
    if (aligned && at + 4 <= end) {
        const float4 all = {f.v[0], f.v[1], f.v[2], f.v[3]};
        *(float4 *)(p + at) = all;
        return;
    }
    for (int j = 0; j < 4; j++) {
        if (at + j < end) {
            p[at + j] = f.v[j];
        }
    }
}

static __device__ int64_t first_of_thread(void)
{
    return 4 * ((int64_t)blockIdx.x * blockDim.x + threadIdx.x);
}

static __device__ int64_t stride_of_grid(void)
{
    return 4 * (int64_t)gridDim.x * blockDim.x;
}

static __device__ float act(float x, uint32_t activation)
{
    float e = 0.0f;
    switch (activation) {
    case PSK_RELU:
        return x <= 0.0f ? 0.0f : x; /* NaN stays NaN */
    case PSK_SIGMOID:
        e = expf(-fabsf(x));
        return x < 0.0f ? e / (1.0f + e) : 1.0f / (1.0f + e);
    case PSK_TANH:
        return tanhf(x);
    default:
        return x;
    }
}

static __device__ float act_backward(float y, float dy, uint32_t activation)
{
    switch (activation) {
    case PSK_RELU:
        return y <= 0.0f ? 0.0f : dy;
    case PSK_SIGMOID:
        return dy * (y * (1.0f - y));
    case PSK_TANH:
        return dy * ((1.0f - y) * (1.0f + y));
    default:
        return dy;
    }
}

PSK_KERNEL psk_cuda_act(struct psk_cuda_args k)
{
    const int64_t count = k.rows * k.columns;
    const int64_t stride = stride_of_grid();
    int64_t i = first_of_thread();
    int64_t column = k.b != NULL ? i % k.columns : 0;
    const int64_t column_step = k.b != NULL ? stride % k.columns : 0;
    for (; i < count; i += stride) {
        struct four f = load4(k.a, i, count, true);
        int64_t c = column;
        for (int j = 0; j < 4 && k.b != NULL; j++) {
            f.v[j] += k.b[c];
            c = c + 1 == k.columns ? 0 : c + 1;
        }
        for (int j = 0; j < 4; j++) {
            f.v[j] = act(f.v[j], k.activation);
        }
        store4(k.out, i, count, true, f);
        column += column_step;
        column -= column >= k.columns ? k.columns : 0;
    }
}

PSK_KERNEL psk_cuda_act_backward(struct psk_cuda_args k)
{
    const int64_t count = k.rows * k.columns;
    for (int64_t i = first_of_thread(); i < count; i += stride_of_grid()) {
        const struct four y = load4(k.a, i, count, true);
        struct four f = load4(k.b, i, count, true);
        for (int j = 0; j < 4; j++) {
            f.v[j] = act_backward(y.v[j], f.v[j], k.activation);
        }
        store4(k.out, i, count, true, f);
    }
}

PSK_KERNEL psk_cuda_dropout(struct psk_cuda_args k)
{
    const int64_t count = k.rows * k.columns;
    for (int64_t i = first_of_thread(); i < count; i += stride_of_grid()) {
        /* a block of the mask is a multiple of four elements, so one key serves all four */
        const uint64_t key = psk_mask_block_key(k.key, i / PSK_MASK_BLOCK);
        const uint32_t at = (uint32_t)(i % PSK_MASK_BLOCK);
        struct four f = load4(k.a, i, count, true);
        for (int j = 0; j < 4; j++) {
            const float kept = f.v[j] * k.scale;
            f.v[j] = psk_mask_hash(key, at + (uint32_t)j) <= k.last ? kept : 0.0f;
        }
        store4(k.out, i, count, true, f);
    }
}

PSK_KERNEL psk_cuda_sgd(struct psk_cuda_args k)
{
    const int64_t count = k.rows * k.columns;
    for (int64_t i = first_of_thread(); i < count; i += stride_of_grid()) {
        struct four f = load4(k.a, i, count, true);
        const struct four dw = load4(k.b, i, count, true);
        for (int j = 0; j < 4; j++) {
            f.v[j] -= k.scale * dw.v[j];
        }
        store4(k.out, i, count, true, f);
    }
}

PSK_KERNEL psk_cuda_column_sums(struct psk_cuda_args k)
{
    __shared__ float parts[WARPS][PSK_CUDA_SUM_COLUMNS];
    const int lane = (int)threadIdx.x % PSK_CUDA_WARP;
    const int part = (int)threadIdx.x / PSK_CUDA_WARP;
    const bool aligned = k.columns % 4 == 0;
    const int64_t column = (int64_t)blockIdx.x * PSK_CUDA_SUM_COLUMNS + 4 * lane;
    const int64_t share = (k.rows + gridDim.y - 1) / gridDim.y;
    const int64_t first = share * blockIdx.y;
    const int64_t end = first + share < k.rows ? first + share : k.rows;
    struct four sum = {{0.0f, 0.0f, 0.0f, 0.0f}};
    for (int64_t row = first + part; row < end; row += WARPS) {
        const struct four f = load4(k.a + row * k.columns, column, k.columns, aligned);
        for (int j = 0; j < 4; j++) {
            sum.v[j] += f.v[j];
        }
    }
    for (int j = 0; j < 4; j++) {
        parts[part][4 * lane + j] = sum.v[j];
    }
    __syncthreads();
    if (part == 0) {
        for (int p = 1; p < WARPS; p++) {
            for (int j = 0; j < 4; j++) {
                sum.v[j] += parts[p][4 * lane + j];
            }
        }
        store4(k.out + (int64_t)blockIdx.y * k.columns, column, k.columns, aligned, sum);
    }
}

/* Sum of the values of all threads of the block. All threads of the block must call the function. */
static __device__ double block_sum(double value)
{
    __shared__ double values[PSK_CUDA_THREADS];
    values[threadIdx.x] = value;
    __syncthreads();
    for (uint32_t half = PSK_CUDA_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            values[threadIdx.x] += values[threadIdx.x + half];
        }
        __syncthreads();
    }
    return values[0];
}

PSK_KERNEL psk_cuda_loss(struct psk_cuda_args k)
{
    const int64_t count = k.rows * k.columns;
    double sum = 0.0;
    for (int64_t i = first_of_thread(); i < count; i += stride_of_grid()) {
        struct four f = load4(k.a, i, count, true);
        const struct four t = load4(k.b, i, count, true);
        for (int j = 0; j < 4; j++) {
            float slope = 0.0f;
            const double loss = psk_loss_at(k.loss_kind, f.v[j], t.v[j], k.delta, &slope);
            sum += i + j < count ? loss : 0.0;
            f.v[j] = slope * k.scale;
        }
        if (k.out != NULL) {
            store4(k.out, i, count, true, f);
        }
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        k.partials[blockIdx.x] = sum;
    }
}

PSK_KERNEL psk_cuda_gelu(struct psk_cuda_args k)
{
    const int64_t count = k.rows * k.columns;
    for (int64_t i = first_of_thread(); i < count; i += stride_of_grid()) {
        struct four f = load4(k.a, i, count, true);
        for (int j = 0; j < 4; j++) {
            f.v[j] = psk_gelu(f.v[j]);
        }
        store4(k.out, i, count, true, f);
    }
}

PSK_KERNEL psk_cuda_gelu_backward(struct psk_cuda_args k)
{
    const int64_t count = k.rows * k.columns;
    for (int64_t i = first_of_thread(); i < count; i += stride_of_grid()) {
        const struct four x = load4(k.a, i, count, true);
        struct four f = load4(k.b, i, count, true);
        for (int j = 0; j < 4; j++) {
            f.v[j] *= psk_gelu_slope(x.v[j]);
        }
        store4(k.out, i, count, true, f);
    }
}

/* ---- layer normalization: `width` threads a row ---- */

/* Sum of `mine` over all threads of a row; each of them gets the sum. All threads of the block must call the function. */
static __device__ float row_sum(float mine, uint32_t width)
{
    __shared__ float warps[WARPS];
    const uint32_t lanes = width < PSK_CUDA_WARP ? width : PSK_CUDA_WARP;
    for (uint32_t distance = lanes / 2; distance > 0; distance /= 2) {
        mine += __shfl_xor_sync(ALL_LANES, mine, (int)distance);
    }
    if (width > PSK_CUDA_WARP) {
        if (threadIdx.x % PSK_CUDA_WARP == 0) {
            warps[threadIdx.x / PSK_CUDA_WARP] = mine;
        }
        __syncthreads();
        mine = warps[0];
        for (int w = 1; w < WARPS; w++) {
            mine += warps[w];
        }
        __syncthreads(); /* all threads have read `warps` before the next call writes it */
    }
    return mine;
}

/* A row, and this thread's part of its columns: four at `first`, then four more every `step` columns. there: the row exists. */
struct norm_row {
    const float *x;
    int64_t first, step;
    bool there;
    float mean, scale;
};

/* Mean and 1 / sqrt(variance + epsilon) of the row of this thread. All threads of the block must call it. */
static __device__ struct norm_row norm_of(const struct psk_cuda_args *k, int64_t first_row)
{
    const int64_t at = first_row + threadIdx.x / k->width;
    const bool aligned = k->columns % 4 == 0;
    struct norm_row row = {
        k->a + at * k->columns, 4 * (int64_t)(threadIdx.x % k->width), 4 * (int64_t)k->width, at < k->rows, 0.0f, 0.0f};
    float sum = 0.0f;
    for (int64_t c = row.first; row.there && c < k->columns; c += row.step) {
        const struct four f = load4(row.x, c, k->columns, aligned);
        sum += (f.v[0] + f.v[1]) + (f.v[2] + f.v[3]);
    }
    row.mean = row_sum(sum, k->width) / (float)k->columns;
    sum = 0.0f;
    for (int64_t c = row.first; row.there && c < k->columns; c += row.step) {
        const struct four f = load4(row.x, c, k->columns, aligned);
        for (int j = 0; j < 4; j++) {
            sum += c + j < k->columns ? (f.v[j] - row.mean) * (f.v[j] - row.mean) : 0.0f;
        }
    }
    row.scale = 1.0f / sqrtf(row_sum(sum, k->width) / (float)k->columns + k->epsilon);
    return row;
}

PSK_KERNEL psk_cuda_layer_norm(struct psk_cuda_args k)
{
    const bool aligned = k.columns % 4 == 0;
    const int64_t rows_at_once = PSK_CUDA_THREADS / k.width;
    for (int64_t first = rows_at_once * blockIdx.x; first < k.rows; first += rows_at_once * gridDim.x) {
        const struct norm_row row = norm_of(&k, first);
        for (int64_t c = row.first; row.there && c < k.columns; c += row.step) {
            struct four f = load4(row.x, c, k.columns, aligned);
            const struct four gamma = load4(k.gamma, c, k.columns, true);
            const struct four beta = load4(k.beta, c, k.columns, true);
            for (int j = 0; j < 4; j++) {
                f.v[j] = gamma.v[j] * ((f.v[j] - row.mean) * row.scale) + beta.v[j];
            }
            store4(k.out + (row.x - k.a), c, k.columns, aligned, f);
        }
    }
}

PSK_KERNEL psk_cuda_layer_norm_dx(struct psk_cuda_args k)
{
    const bool aligned = k.columns % 4 == 0;
    const int64_t rows_at_once = PSK_CUDA_THREADS / k.width;
    for (int64_t first = rows_at_once * blockIdx.x; first < k.rows; first += rows_at_once * gridDim.x) {
        const struct norm_row row = norm_of(&k, first);
        const float *dy = k.b + (row.x - k.a);
        float sum = 0.0f;
        float sum_h = 0.0f;
        for (int64_t c = row.first; row.there && c < k.columns; c += row.step) {
            const struct four x = load4(row.x, c, k.columns, aligned);
            const struct four d = load4(dy, c, k.columns, aligned);
            const struct four gamma = load4(k.gamma, c, k.columns, true);
            for (int j = 0; j < 4; j++) { /* past the row's end d and gamma are 0 */
                sum += d.v[j] * gamma.v[j];
                sum_h += d.v[j] * gamma.v[j] * ((x.v[j] - row.mean) * row.scale);
            }
        }
        sum = row_sum(sum, k.width) / (float)k.columns;
        sum_h = row_sum(sum_h, k.width) / (float)k.columns;
        for (int64_t c = row.first; row.there && c < k.columns; c += row.step) {
            const struct four x = load4(row.x, c, k.columns, aligned);
            struct four d = load4(dy, c, k.columns, aligned);
            const struct four gamma = load4(k.gamma, c, k.columns, true);
            for (int j = 0; j < 4; j++) {
                d.v[j] = row.scale * (d.v[j] * gamma.v[j] - sum - (x.v[j] - row.mean) * row.scale * sum_h);
            }
            store4(k.out + (row.x - k.a), c, k.columns, aligned, d);
        }
    }
}

PSK_KERNEL psk_cuda_layer_norm_dgamma(struct psk_cuda_args k)
{
    const bool aligned = k.columns % 4 == 0;
    const int64_t share = (k.rows + gridDim.x - 1) / gridDim.x;
    const int64_t begin = share * blockIdx.x;
    const int64_t end = begin + share < k.rows ? begin + share : k.rows;
    float *out = k.out + (int64_t)blockIdx.x * k.columns;
    const struct four none = {{0.0f, 0.0f, 0.0f, 0.0f}};
    for (int64_t c = 4 * (int64_t)threadIdx.x; c < k.columns; c += 4 * PSK_CUDA_THREADS) {
        store4(out, c, k.columns, aligned, none);
    }
    for (int64_t at = begin; at < end; at++) { /* the whole block has one row: width is PSK_CUDA_THREADS */
        const struct norm_row row = norm_of(&k, at);
        const float *dy = k.b + (row.x - k.a);
        for (int64_t c = row.first; c < k.columns; c += row.step) { /* each column of out has one thread */
            const struct four x = load4(row.x, c, k.columns, aligned);
            const struct four d = load4(dy, c, k.columns, aligned);
            struct four sum = load4(out, c, k.columns, aligned);
            for (int j = 0; j < 4; j++) {
                sum.v[j] += d.v[j] * ((x.v[j] - row.mean) * row.scale);
            }
            store4(out, c, k.columns, aligned, sum);
        }
    }
}

static __device__ int64_t bag_first(const struct psk_cuda_args *k, int64_t bag)
{
    return k->ends == NULL ? bag : bag > 0 ? k->ends[bag - 1] : 0;
}

static __device__ int64_t bag_end(const struct psk_cuda_args *k, int64_t bag)
{
    return k->ends == NULL ? bag + 1 : k->ends[bag];
}

static __device__ bool is_padding(const struct psk_cuda_args *k, int64_t entry)
{
    return (uint64_t)k->indices[entry] + 1 == k->padding_plus_1;
}

static __device__ float weight_of(const struct psk_cuda_args *k, int64_t entry)
{
    return k->weights != NULL ? k->weights[entry] : 1.0f;
}

/* The factor by which the sum of a bag's rows is multiplied, as k->combiner says. */
static __device__ float combined(const struct psk_cuda_args *k, int64_t bag)
{
    double sum = 0.0;
    if (k->combiner == PSK_SUM) {
        return 1.0f;
    }
    for (int64_t e = bag_first(k, bag); e < bag_end(k, bag); e++) {
        const double w = is_padding(k, e) ? 0.0 : (double)weight_of(k, e);
        sum += k->combiner == PSK_MEAN ? w : w * w;
    }
    sum = k->combiner == PSK_SQRTN ? sqrt(sum) : sum;
    return sum == 0.0 ? 0.0f : (float)(1.0 / sum);
}

static __device__ int64_t thread_of_grid(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ int64_t threads_of_grid(void)
{
    return (int64_t)gridDim.x * blockDim.x;
}

PSK_KERNEL psk_cuda_bag(struct psk_cuda_args k)
{
    for (int64_t i = thread_of_grid(); i < k.bags * k.columns; i += threads_of_grid()) {
        const int64_t bag = i / k.columns;
        const int64_t column = i % k.columns;
        float sum = 0.0f;
        for (int64_t e = bag_first(&k, bag); e < bag_end(&k, bag); e++) {
            if (!is_padding(&k, e)) {
                sum += weight_of(&k, e) * k.a[k.indices[e] * k.columns + column];
            }
        }
        k.out[i] = sum * combined(&k, bag);
    }
}

PSK_KERNEL psk_cuda_fm(struct psk_cuda_args k)
{
    const int64_t at_once = PSK_CUDA_THREADS / k.width;
    for (int64_t first = at_once * blockIdx.x; first < k.bags; first += at_once * gridDim.x) {
        const int64_t bag = first + threadIdx.x / k.width;
        float total = 0.0f;
        for (int64_t c = threadIdx.x % k.width; bag < k.bags && c < k.columns; c += k.width) {
            float sum = 0.0f;
            for (int64_t e = bag_first(&k, bag); e < bag_end(&k, bag); e++) {
                if (!is_padding(&k, e)) {
                    const float value = weight_of(&k, e) * k.a[k.indices[e] * k.columns + c];
                    total += value * sum;
                    sum += value;
                }
            }
            k.out[bag * k.columns + c] = sum;
        }
        total = row_sum(total, k.width);
        if (bag < k.bags && threadIdx.x % k.width == 0) {
            k.totals[bag] = total;
        }
    }
}

/* Each thread computes one column of those rows of out whose number modulo `shares` is its share. It reads the indices of all
 * bags, in step with its neighbours, which compute other columns. */
PSK_KERNEL psk_cuda_bag_backward(struct psk_cuda_args k)
{
    for (int64_t i = thread_of_grid(); i < k.shares * k.columns; i += threads_of_grid()) {
        const int64_t share = i / k.columns;
        const int64_t column = i % k.columns;
        for (int64_t row = share; row < k.rows; row += k.shares) {
            k.out[row * k.columns + column] = 0.0f;
        }
        for (int64_t bag = 0; bag < k.bags; bag++) {
            float scale = 0.0f;
            bool known = false; /* true: scale was computed for this bag */
            for (int64_t e = bag_first(&k, bag); e < bag_end(&k, bag); e++) {
                const int64_t row = k.indices[e];
                if (is_padding(&k, e) || row % k.shares != share) {
                    continue;
                }
                const float weight = weight_of(&k, e);
                float *out = &k.out[row * k.columns + column];
                if (k.sums != NULL) {
                    *out += weight * k.b[bag] * (k.sums[bag * k.columns + column] - weight * k.a[row * k.columns + column]);
                } else {
                    scale = known ? scale : combined(&k, bag);
                    known = true;
                    *out += scale * weight * k.b[bag * k.columns + column];
                }
            }
        }
    }
}

PSK_KERNEL psk_cuda_dot(struct psk_cuda_args k)
{
    const int64_t pairs = k.fields * (k.fields - 1) / 2;
    for (int64_t at = thread_of_grid(); at < k.rows * pairs; at += threads_of_grid()) {
        const float *x = k.a + at / pairs * k.fields * k.columns;
        int64_t i = 1;
        int64_t j = at % pairs;
        while (j >= i) { /* pairs of field i follow the i (i - 1) / 2 pairs of the fields before i */
            j -= i;
            i++;
        }
        float sum = 0.0f;
        for (int64_t c = 0; c < k.columns; c++) {
            sum += x[i * k.columns + c] * x[j * k.columns + c];
        }
        k.out[at] = sum;
    }
}

PSK_KERNEL psk_cuda_dot_backward(struct psk_cuda_args k)
{
    const int64_t width = k.fields * k.columns;
    for (int64_t at = thread_of_grid(); at < k.rows * width; at += threads_of_grid()) {
        const float *x = k.a + at / width * width;
        const float *dy = k.b + at / width * (k.fields * (k.fields - 1) / 2);
        const int64_t i = at % width / k.columns;
        float sum = 0.0f;
        for (int64_t j = 0; j < k.fields; j++) {
            const int64_t high = i > j ? i : j;
            const int64_t low = i > j ? j : i;
            if (i != j) {
                sum += dy[high * (high - 1) / 2 + low] * x[j * k.columns + at % k.columns];
            }
        }
        k.out[at] = sum;
    }
}

/* ---- rows of logits: `width` threads a row ---- */

/* Part of a row: its largest value m, and the sum of exp(v - m). A NaN shows in sum only. */
struct row_part {
    float m, sum;
};

/* exp(v - m) for v <= m; 1 for v == m, also if both are infinite. */
static __device__ float exp_below(float v, float m)
{
    return v == m ? 1.0f : expf(v - m);
}

/* Combine two parts; join(x, y) and join(y, x) have the same bits. */
static __device__ struct row_part join(struct row_part x, struct row_part y)
{
    const struct row_part high = x.m >= y.m ? x : y;
    const struct row_part low = x.m >= y.m ? y : x;
    const struct row_part both = {high.m, high.sum + low.sum * exp_below(low.m, high.m)};
    return both;
}

/* Combine the parts of all threads of a row; each thread gets the row's result. All threads of the block must call it. */
static __device__ struct row_part join_row(struct row_part mine, uint32_t width)
{
    __shared__ struct row_part warps[WARPS];
    const uint32_t lanes = width < PSK_CUDA_WARP ? width : PSK_CUDA_WARP;
    for (uint32_t distance = lanes / 2; distance > 0; distance /= 2) {
        struct row_part other;
        other.m = __shfl_xor_sync(ALL_LANES, mine.m, (int)distance);
        other.sum = __shfl_xor_sync(ALL_LANES, mine.sum, (int)distance);
        mine = join(mine, other);
    }
    if (width > PSK_CUDA_WARP) {
        if (threadIdx.x % PSK_CUDA_WARP == 0) {
            warps[threadIdx.x / PSK_CUDA_WARP] = mine;
        }
        __syncthreads();
        mine = warps[0];
        for (int w = 1; w < WARPS; w++) {
            mine = join(mine, warps[w]);
        }
        __syncthreads(); /* all threads have read `warps` before the next call writes it */
    }
    return mine;
}

/* What a thread works on: a row of the logits, and the thread's columns in this row. */
struct seat {
    int64_t row;
    int64_t first, step; /* columns: four at `first`, then four more every `step` columns */
    bool taken;          /* the row exists, and its label is a class */
    int32_t label;
};

static __device__ struct seat seat_of(const struct psk_cuda_args *k, int64_t first_row)
{
    struct seat s = {first_row + threadIdx.x / k->width, 4 * (int64_t)(threadIdx.x % k->width), 4 * (int64_t)k->width, false, 0};
    if (s.row < k->rows) {
        s.label = k->labels[s.row];
        s.taken = s.label >= 0 && s.label < k->columns;
        if (!s.taken && s.first == 0) {
            (void)atomicMin(k->bad_row, (unsigned long long)s.row);
        }
    }
    return s;
}

PSK_KERNEL psk_cuda_softmax_xent(struct psk_cuda_args k)
{
    const bool aligned = k.columns % 4 == 0;
    const int64_t rows_at_once = PSK_CUDA_THREADS / k.width;
    double loss = 0.0;
    for (int64_t first = rows_at_once * blockIdx.x; first < k.rows; first += rows_at_once * gridDim.x) {
        const struct seat s = seat_of(&k, first);
        const float *z = k.a + s.row * k.columns;
        struct row_part part = {-INFINITY, 0.0f};
        bool mine = false; /* the label's column is one of this thread's */
        float at_label = 0.0f;
        for (int64_t c = s.first; s.taken && c < k.columns; c += s.step) {
            const struct four f = load4(z, c, k.columns, aligned);
            float m = part.m;
            for (int j = 0; j < 4; j++) {
                m = c + j < k.columns && f.v[j] > m ? f.v[j] : m;
            }
            part.sum *= exp_below(part.m, m);
            part.m = m;
            for (int j = 0; j < 4; j++) {
                part.sum += c + j < k.columns ? exp_below(f.v[j], m) : 0.0f;
                at_label = c + j == s.label ? f.v[j] : at_label;
            }
            mine = mine || (s.label >= c && s.label < c + 4);
        }
        part = join_row(part, k.width);
        const float sum = isinf(part.m) ? NAN : part.sum; /* as exp(inf - inf) */
        if (mine) {
            loss += log((double)sum) - ((double)at_label - (double)part.m);
        }
        const float scale = k.scale / sum;
        for (int64_t c = s.first; k.out != NULL && s.row < k.rows && c < k.columns; c += s.step) {
            struct four f = load4(z, c, k.columns, aligned);
            for (int j = 0; j < 4; j++) {
                f.v[j] = s.taken ? expf(f.v[j] - part.m) * scale - (c + j == s.label ? k.scale : 0.0f) : 0.0f;
            }
            store4(k.out + s.row * k.columns, c, k.columns, aligned, f);
        }
    }
    loss = block_sum(loss);
    if (threadIdx.x == 0) {
        k.partials[blockIdx.x] = loss;
    }
}

PSK_KERNEL psk_cuda_argmax_count(struct psk_cuda_args k)
{
    const bool aligned = k.columns % 4 == 0;
    const int64_t rows_at_once = PSK_CUDA_THREADS / k.width;
    double count = 0.0;
    for (int64_t first = rows_at_once * blockIdx.x; first < k.rows; first += rows_at_once * gridDim.x) {
        const struct seat s = seat_of(&k, first);
        const float *z = k.a + s.row * k.columns;
        const float at_label = s.taken ? z[s.label] : 0.0f;
        int wrong = 0;
        for (int64_t c = s.first; s.taken && c < k.columns; c += s.step) {
            const struct four f = load4(z, c, k.columns, aligned);
            for (int j = 0; j < 4; j++) { /* false for a NaN */
                const bool fine = c + j < s.label ? f.v[j] < at_label : f.v[j] <= at_label;
                wrong |= c + j < k.columns && !fine;
            }
        }
        if (k.width > PSK_CUDA_WARP) {
            wrong = __syncthreads_or(wrong);
        } else {
            for (int distance = (int)k.width / 2; distance > 0; distance /= 2) {
                wrong |= __shfl_xor_sync(ALL_LANES, wrong, distance);
            }
        }
        count += s.taken && s.first == 0 && !wrong ? 1.0 : 0.0;
    }
    count = block_sum(count);
    if (threadIdx.x == 0) {
        k.partials[blockIdx.x] = count;
    }
}

PSK_KERNEL psk_cuda_finish(struct psk_cuda_args k)
{
    double sum = 0.0;
    for (int64_t i = threadIdx.x; i < k.partial_count; i += PSK_CUDA_THREADS) {
        sum += k.partials[i];
    }
    sum = block_sum(sum);
    if (threadIdx.x != 0) {
        return;
    }
    if (k.loss != NULL) {
        *k.loss = k.rows > 0 ? sum / (double)k.rows : 0.0;
    }
    if (k.count != NULL) {
        *k.count = (int64_t)sum;
    }
    if (*k.bad_row != NO_ROW) {
        if (k.fault->set == 0) {
            k.fault->op = k.op;
            k.fault->row = (int64_t)*k.bad_row;
            k.fault->label = k.labels[*k.bad_row];
            k.fault->classes = k.columns;
            __threadfence_system();
            k.fault->set = 1;
        }
        *k.bad_row = NO_ROW;
    }
}

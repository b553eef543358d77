/* SPDX-License-Identifier: Apache-2.0 */
/* matmul: c (m, n) = a (m, k) b (k, n), where a or b may be transposed in memory.
 *
 * float32 uses the training kernels' product (CBLAS, oneDNN, cuBLAS) for some rows of c at a time, so that a run can end early.
 * If a is transposed in memory, its rows are first copied into order. Other dtypes are multiplied here as in GotoBLAS (Goto, van
 * de Geijn 2008): a block of b is packed so that it stays in the L2 cache, then ROWS rows of a are packed. A tile of ROWS times
 * COLUMNS sums stays in registers. Integers wrap. Failure modes: no memory for the copies; no kernel plugin. */
#include "rows.h"

#include "common/clones.h"
#include "common/mem.h"
#include "worker/nn/kernels/host.h"

#include <string.h>

enum {
    INNER_BLOCK = 256,  /* length of a block along k */
    COLUMN_BLOCK = 256, /* length of a block along n; a packed block of 8-byte elements has 512 KiB */
    ROWS = 6,           /* rows of a tile */
    VECTOR_BYTES = 64,
    TURNED_ELEMENTS_MAX = 1 << 22 /* elements of a that are transposed at a time: 16 MiB */
};
/* most multiplications of a kernel call, 0.1 s, so that a run can be cancelled; a row of c that needs more is still one call */
#define PRODUCTS_MAX ((int64_t)1 << 31)

/* A matrix in memory: element (row, column) has index row * by_row + column * by_column. */
struct matrix {
    const void *data;
    int64_t by_row, by_column;
};

struct product {
    struct matrix a, b;
    void *c;
    int64_t m, n, k;
};

/* A block of the product: rows of a from i on, `columns` columns of b from j on, `inner` products along k from p on. */
struct block {
    int64_t i, j, p;
    int64_t columns, inner;
};

/* A macro argument that is a type cannot stand in parentheses: NOLINTBEGIN(bugprone-macro-parentheses) */
/* Sums of a tile over `inner`: a is [inner][ROWS], b [inner][COLUMNS]. A row of the tile is one vector of VECTOR_BYTES, which
 * the compiler splits for CPUs with shorter ones. Vector types, because gcc 12 keeps the sums of plain loops in memory. */
#define TILE(name, type, COLUMNS)                                                                                                \
    PSI_CLONES static void name(const type *a, const type *b, int64_t inner, type *sums)                                         \
    {                                                                                                                            \
        typedef type row __attribute__((vector_size(VECTOR_BYTES)));                                                             \
        row s[ROWS] = {{0}};                                                                                                     \
        _Static_assert(sizeof(row) == sizeof(type) * COLUMNS, "a row is a vector");                                              \
        for (int64_t p = 0; p < inner; p++) {                                                                                    \
            row of_b;                                                                                                            \
            memcpy(&of_b, b + p * COLUMNS, sizeof(of_b));                                                                        \
            _Pragma("GCC unroll 6") for (int r = 0; r < ROWS; r++)                                                               \
            {                                                                                                                    \
                s[r] += of_b * a[p * ROWS + r];                                                                                  \
            }                                                                                                                    \
        }                                                                                                                        \
        memcpy(sums, s, sizeof(s));                                                                                              \
    }

/* Functions for one dtype. NAME_pack_b() copies block `at` of b to `packed`. NAME() copies ROWS rows of a (fewer at its end),
 * from row at->i on, to packed_a, multiplies them by the packed block of b, and adds the result to c (sets c if at->p is 0). */
#define MULTIPLY(name, type, COLUMNS, tile)                                                                                      \
    static void name##_pack_b(const struct matrix *b, const struct block *at, type *packed)                                      \
    {                                                                                                                            \
        const type *from = b->data;                                                                                              \
        for (int64_t j = 0; j < at->columns; j += COLUMNS) {                                                                     \
            for (int64_t p = 0; p < at->inner; p++) {                                                                            \
                for (int64_t c = j; c < j + COLUMNS; c++) {                                                                      \
                    *packed++ = c < at->columns ? from[(at->p + p) * b->by_row + (at->j + c) * b->by_column] : 0;                \
                }                                                                                                                \
            }                                                                                                                    \
        }                                                                                                                        \
    }                                                                                                                            \
    static void name##_pack_a(const struct matrix *a, int64_t m, const struct block *at, type *packed)                           \
    {                                                                                                                            \
        const type *from = a->data;                                                                                              \
        for (int64_t p = at->p; p < at->p + at->inner; p++) {                                                                    \
            for (int64_t i = at->i; i < at->i + ROWS; i++) {                                                                     \
                *packed++ = i < m ? from[i * a->by_row + p * a->by_column] : 0;                                                  \
            }                                                                                                                    \
        }                                                                                                                        \
    }                                                                                                                            \
    static void name(const struct product *x, const struct block *at, void *packed_a, const void *packed_b)                      \
    {                                                                                                                            \
        type sums[ROWS * COLUMNS], *to = x->c;                                                                                   \
        name##_pack_a(&x->a, x->m, at, packed_a);                                                                                \
        for (int64_t j = 0; j < at->columns; j += COLUMNS) {                                                                     \
            const int64_t wide = at->columns - j < COLUMNS ? at->columns - j : COLUMNS;                                          \
            tile(packed_a, (const type *)packed_b + j * at->inner, at->inner, sums);                                             \
            for (int64_t i = at->i; i < at->i + ROWS && i < x->m; i++) {                                                         \
                type *row = to + i * x->n + at->j + j;                                                                           \
                for (int64_t c = 0; c < wide; c++) {                                                                             \
                    row[c] = (at->p > 0 ? row[c] : 0) + sums[(i - at->i) * COLUMNS + c];                                         \
                }                                                                                                                \
            }                                                                                                                    \
        }                                                                                                                        \
    }                                                                                                                            \
    static void name##_pack(const struct matrix *b, const struct block *at, void *packed)                                        \
    {                                                                                                                            \
        name##_pack_b(b, at, packed);                                                                                            \
    }
/* NOLINTEND(bugprone-macro-parentheses) */
TILE(psi_clone_tile_f64, double, 8)
TILE(psi_clone_tile_i32, uint32_t, 16)
TILE(psi_clone_tile_i64, uint64_t, 8)
MULTIPLY(multiply_f64, double, 8, psi_clone_tile_f64)
MULTIPLY(multiply_i32, uint32_t, 16, psi_clone_tile_i32)
MULTIPLY(multiply_i64, uint64_t, 8, psi_clone_tile_i64)

struct multiplier {
    void (*pack)(const struct matrix *b, const struct block *at, void *packed);
    void (*multiply)(const struct product *x, const struct block *at, void *packed_a, const void *packed_b);
};

static ps_status multiply_here(const struct psi_op *op, const struct psi_op_context *ctx, const struct product *x, ps_dtype dtype,
                               struct psi_err *err)
{
    const struct multiplier by = dtype == PS_F64   ? (struct multiplier){multiply_f64_pack, multiply_f64}
                                 : dtype == PS_I32 ? (struct multiplier){multiply_i32_pack, multiply_i32}
                                                   : (struct multiplier){multiply_i64_pack, multiply_i64};
    const size_t b_bytes = (size_t)INNER_BLOCK * COLUMN_BLOCK * sizeof(double);
    char *packed = psi_aligned_malloc(PSI_CACHE_LINE, b_bytes + (size_t)INNER_BLOCK * ROWS * sizeof(double));
    if (packed == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: no memory", op->name);
    }
    ps_status st = PS_OK;
    int64_t since = 0;
    for (int64_t j = 0; j < x->n && st == PS_OK; j += COLUMN_BLOCK) {
        for (int64_t p = 0; p < x->k && st == PS_OK; p += INNER_BLOCK) {
            struct block at = {.j = j, .p = p};
            at.columns = x->n - j < COLUMN_BLOCK ? x->n - j : COLUMN_BLOCK;
            at.inner = x->k - p < INNER_BLOCK ? x->k - p : INNER_BLOCK;
            by.pack(&x->b, &at, packed);
            for (; at.i < x->m && st == PS_OK; at.i += ROWS) {
                by.multiply(x, &at, packed + b_bytes, packed);
                since += at.columns * at.inner;
                if (since >= 16 * PSI_OP_SLICE) { /* 16: a product takes less time than an element of other operations */
                    since = 0;
                    st = psi_op_go_on(op, ctx, err);
                }
            }
        }
    }
    psi_free(packed);
    return st;
}

static struct psk_tensor tensor(const void *data, int64_t rows, int64_t columns)
{
    return (struct psk_tensor){
        .address = (psk_address)(uintptr_t)data, .shape = {.rank = 2, .dims = {rows, columns}}, .dtype = PS_F32};
}

/* Copy rows first .. first + rows - 1 of a, which is transposed in memory, to `to`, one row after the other. */
static void turn(const struct product *x, int64_t first, int64_t rows, float *to)
{
    enum { SQUARE = 32 };
    const float *from = x->a.data;
    for (int64_t p = 0; p < x->k; p += SQUARE) { /* by squares, so that the bytes read and written stay in the cache */
        for (int64_t i = 0; i < rows; i += SQUARE) {
            for (int64_t ii = i; ii < i + SQUARE && ii < rows; ii++) {
                for (int64_t pp = p; pp < p + SQUARE && pp < x->k; pp++) {
                    to[ii * x->k + pp] = from[pp * x->a.by_column + first + ii];
                }
            }
        }
    }
}

static ps_status multiply_kernel(const struct psi_op *op, const struct psi_op_context *ctx, const struct product *x,
                                 bool a_turned, bool b_turned, struct psi_err *err)
{
    int64_t most = PRODUCTS_MAX / x->k / x->n;
    most = a_turned && most > TURNED_ELEMENTS_MAX / x->k ? TURNED_ELEMENTS_MAX / x->k : most;
    most = most < 1 ? 1 : most > x->m ? x->m : most;
    float *turned = a_turned ? psi_malloc((size_t)(most * x->k) * sizeof(float)) : NULL;
    if (a_turned && turned == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: no memory", op->name);
    }
    ps_status st = PS_OK;
    for (int64_t i = 0; i < x->m && st == PS_OK; i += most) {
        const int64_t rows = x->m - i < most ? x->m - i : most;
        const float *a = turned != NULL ? turned : (const float *)x->a.data + i * x->k;
        if (turned != NULL) {
            turn(x, i, rows, turned);
        }
        const struct psk_tensor plain[] = {
            tensor(a, rows, x->k), tensor(x->b.data, x->k, x->n), {0}, tensor((float *)x->c + i * x->n, rows, x->n)};
        const struct psk_tensor transposed[] = {
            tensor(a, rows, x->k), tensor(x->b.data, x->n, x->k), {0}, tensor((float *)x->c + i * x->n, rows, x->n)};
        st = psk_host_run(ctx->place, b_turned ? PSK_DENSE_DX : PSK_DENSE, b_turned ? transposed : plain, NULL, err);
        if (st != PS_OK) {
            psi_err_prefix(err, "%s", op->name);
        }
        st = st == PS_OK ? psi_op_go_on(op, ctx, err) : st;
    }
    psi_free(turned);
    return st;
}

PSI_RUN(matmul)
{
    (void)in_count;
    (void)out_count;
    const int64_t k = in[0].shape.dims[attrs->transpose_a ? 0 : 1];
    const int64_t m = out[0].shape.dims[0], n = out[0].shape.dims[1];
    const struct product x = {
        .a = {in[0].data, attrs->transpose_a ? 1 : k, attrs->transpose_a ? m : 1},
        .b = {in[1].data, attrs->transpose_b ? 1 : n, attrs->transpose_b ? k : 1},
        .c = out[0].data,
        .m = m,
        .n = n,
        .k = k,
    };
    if (out[0].bytes == 0) {
        return PS_OK;
    }
    if (k == 0) {
        memset(out[0].data, 0, out[0].bytes);
        return PS_OK;
    }
    return in[0].dtype == PS_F32 ? multiply_kernel(op, ctx, &x, attrs->transpose_a, attrs->transpose_b, err)
                                 : multiply_here(op, ctx, &x, in[0].dtype, err);
}
